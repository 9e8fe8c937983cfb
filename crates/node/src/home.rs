//! The home of an object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stillframe_roster::home;
use stillframe_roster::message::{Decision, Report};
use stillframe_roster::writer::{Elements, Node, Record, Revision, Role, Version, Writer};
use stillframe_wire::data::FragmentText;
use stillframe_wire::roster::Declared;

/// What the home of an object keeps beside roster's protocol: the layouts, and what it told whom.
#[derive(Debug)]
pub(crate) struct Home {
    protocol: home::Home,
    layouts: BTreeMap<Writer, FragmentText>,
    /// Those that have to do with the object.
    nodes: BTreeSet<Node>,
    /// Serial of the newest decision that was sent.
    sent: BTreeMap<Node, u64>,
    declared: Arc<Vec<Declared>>,
    serial: u64,
    told: BTreeMap<Node, u64>,
}

/// What is to be sent to a node.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Decision(Decision),
    Roster { revision: Revision, serial: u64, declared: Arc<Vec<Declared>> },
}

impl Home {
    pub(crate) fn new(
        revision: Revision,
        shape: impl Into<Elements>,
        initial: Version,
        nodes: impl IntoIterator<Item = Node>,
    ) -> Home {
        Home {
            protocol: home::Home::new(revision, shape, initial, nodes),
            layouts: BTreeMap::new(),
            nodes: BTreeSet::new(),
            sent: BTreeMap::new(),
            declared: Arc::default(),
            serial: 0,
            told: BTreeMap::new(),
        }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.protocol.revision()
    }

    pub(crate) fn admit(&mut self, node: Node) {
        self.protocol.admit(node);
    }

    pub(crate) fn replace(&mut self, former: Node, node: Node) {
        self.protocol.replace(former, node);
        self.nodes.remove(&former);
        self.note_declared();
    }

    pub(crate) fn lose(&mut self, node: Node) {
        self.protocol.lose(node);
        self.nodes.remove(&node);
        self.note_declared();
    }

    /// How fragments of writers lie.
    pub(crate) fn note_layouts(&mut self, layouts: Vec<(Writer, FragmentText)>) {
        self.layouts.extend(layouts);
        self.note_declared();
    }

    pub(crate) fn receive(&mut self, report: Report) {
        self.nodes.insert(report.node);
        self.protocol.receive(report);
        self.note_declared();
    }

    /// A node has a new connection: what it was told may be lost.
    pub(crate) fn forget_told(&mut self, node: Node) {
        self.sent.remove(&node);
        self.told.remove(&node);
    }

    /// What has not been sent yet.
    pub(crate) fn outgoing(&mut self) -> Vec<(Node, Outgoing)> {
        let mut outgoing = Vec::new();
        if !self.protocol.is_leading() {
            return outgoing;
        }
        for node in &self.nodes {
            // A roster first: with a decision versions may become complete that need it.
            if self.told.insert(*node, self.serial) != Some(self.serial) {
                let (revision, serial, declared) = (self.protocol.revision(), self.serial, self.declared.clone());
                outgoing.push((*node, Outgoing::Roster { revision, serial, declared }));
            }
            if let Some(decision) = self.protocol.decision(*node)
                && self.sent.insert(*node, decision.serial) != Some(decision.serial)
            {
                outgoing.push((*node, Outgoing::Decision(decision.clone())));
            }
        }
        outgoing
    }

    fn note_declared(&mut self) {
        if !self.protocol.is_leading() {
            return;
        }
        let records = self.protocol.ledger().records();
        let declared: Vec<Declared> = records.filter_map(|record| self.declared_of(record)).collect();
        if *self.declared != declared {
            self.declared = Arc::new(declared);
            self.serial += 1;
        }
    }

    /// A writer's fragment; `None` of one whose layout is not known yet.
    fn declared_of(&self, record: &Record) -> Option<Declared> {
        let layout = self.layouts.get(&record.writer)?.clone();
        let first = record.stages.first()?;
        let last = record.stages.last()?;
        let expected = match &first.role {
            Role::Member { expected, .. } => *expected,
            Role::Left | Role::Died { .. } => None,
        };
        let (left, died) = match last.role {
            Role::Member { .. } => (None, false),
            Role::Left => (Some(last.from), false),
            Role::Died { .. } => (Some(last.from), true),
        };
        Some(Declared { writer: record.writer, rank: record.rank, layout, from: first.from, left, died, expected })
    }
}
