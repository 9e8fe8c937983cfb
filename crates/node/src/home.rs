//! The home of an object.

use crate::pace::Pace;
use crate::roster::{News, Told};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use stillframe_roster::home;
use stillframe_roster::message::{Decision, Report};
use stillframe_roster::writer::{Elements, Node, Record, Revision, Role, Version, Writer};
use stillframe_wire::Fault;
use stillframe_wire::data::FragmentText;
use stillframe_wire::roster::{Declared, ObjectChange};

/// After how many leases nobody waits for a node any more that does not answer and is not lost.
const LEASES_SILENT: u32 = 3;

/// What the home of an object keeps beside roster's protocol: the layouts, and what it told whom.
#[derive(Debug)]
pub struct Home {
    protocol: home::Home,
    layouts: BTreeMap<Writer, FragmentText>,
    /// Those that have to do with the object.
    nodes: BTreeSet<Node>,
    /// Those of them that were lost: others may take places of their writers at any time, and nothing is heard of them then.
    lost: BTreeSet<Node>,
    /// Those to which something may have to be sent.
    due: BTreeSet<Node>,
    /// Serial of the newest decision that was sent.
    sent: BTreeMap<Node, u64>,
    roster: Told,
    /// What the ledger counted when the roster was brought up to date.
    changes: u64,
    /// Whether it decided by then.
    was_leading: bool,
    /// Serial of the newest roster that was sent.
    told: BTreeMap<Node, u64>,
    /// How fast versions become complete.
    pace: Pace,
    lease: Duration,
    /// Since when which nodes have acknowledged nothing of how far this home may go.
    unacknowledged: BTreeMap<Node, Instant>,
}

/// What is to be sent to a node.
#[derive(Debug)]
pub enum Outgoing {
    /// What was decided for it.
    Decision {
        /// Serial of the roster that it needs.
        roster: u64,
        /// What.
        decision: Decision,
    },
    /// Who writes the object, or what of that is new.
    Roster {
        /// The home's term.
        revision: Revision,
        /// What.
        news: News,
    },
}

impl Home {
    /// A home that begins its term, and waits for a report of each of these nodes, whose leases are so long.
    pub fn new(
        revision: Revision,
        shape: impl Into<Elements>,
        initial: Version,
        nodes: impl IntoIterator<Item = Node>,
        lease: Duration,
    ) -> Home {
        let (mut protocol, pace) = (home::Home::new(revision, shape, initial, nodes), Pace::new(lease));
        protocol.set_margin(pace.margin());
        Home {
            protocol,
            layouts: BTreeMap::new(),
            nodes: BTreeSet::new(),
            lost: BTreeSet::new(),
            due: BTreeSet::new(),
            sent: BTreeMap::new(),
            roster: Told::default(),
            changes: 0,
            was_leading: false,
            told: BTreeMap::new(),
            pace,
            lease,
            unacknowledged: BTreeMap::new(),
        }
    }

    /// Sets the numbers that runtimes had before they were started again, each with the one of now.
    pub fn set_replaced(&mut self, former: impl IntoIterator<Item = (Node, Node)>) {
        self.protocol.set_replaced(former);
    }

    /// Learns the former numbers of runtimes, each with the one of now, before one of these is [admitted](Self::admit).
    pub fn learn_replaced(&mut self, former: impl IntoIterator<Item = (Node, Node)>) {
        self.protocol.learn_replaced(former);
    }

    /// Its term.
    pub fn revision(&self) -> Revision {
        self.protocol.revision()
    }

    /// What it decides by.
    pub fn protocol(&self) -> &home::Home {
        &self.protocol
    }

    /// A node has joined.
    pub fn admit(&mut self, node: Node) {
        self.protocol.admit(node);
    }

    /// The runtime of a machine was started again, as another node.
    pub fn replace(&mut self, former: Node, node: Node) {
        let due = self.protocol.replace(former, node);
        self.nodes.remove(&former);
        self.note(due, &[former, node]);
    }

    /// A node was lost.
    pub fn lose(&mut self, node: Node) {
        let due = self.protocol.lose(node);
        self.nodes.remove(&node);
        // Also before this home decides: then the ledger has still to hear of its writers.
        self.lost.insert(node);
        self.note(due, &[node]);
    }

    /// How fragments of writers lie.
    pub fn note_layouts(&mut self, layouts: Vec<(Writer, FragmentText)>) {
        let nodes: BTreeSet<Node> = layouts.iter().map(|(writer, _)| writer.node).collect();
        self.layouts.extend(layouts);
        if self.was_leading {
            self.note_declared(&nodes);
        }
    }

    /// Takes what a runtime reports.
    pub fn receive(&mut self, report: Report) {
        let node = report.node;
        if self.nodes.insert(node) {
            self.due.insert(node);
        }
        // What it acknowledged may be old by now, and it answers all the same.
        if self.protocol.report(node).is_none_or(|before| before.ceiling != report.ceiling) {
            self.unacknowledged.remove(&node);
        }
        let due = self.protocol.receive(report);
        if self.protocol.is_leading() && self.pace.note(self.protocol.announced().version) {
            self.protocol.set_margin(self.pace.margin());
        }
        self.note(due, &[node]);
    }

    /// Whether it waits for nodes to acknowledge how far it may go, so that it has to [look](Home::look) by itself: nobody else may
    /// say anything meanwhile.
    pub fn is_waiting(&self) -> bool {
        !self.protocol.unacknowledged().is_empty()
    }

    /// Waits no longer for nodes that etcd goes on to hear of, while this home has heard nothing of them for long.
    pub fn look(&mut self, now: Instant) {
        let (since, behind) = (&mut self.unacknowledged, self.protocol.unacknowledged());
        since.retain(|node, _| behind.contains(node));
        let mut waited = |node| now.saturating_duration_since(*since.entry(node).or_insert(now));
        let longest = self.lease * LEASES_SILENT;
        let silent = behind.iter().copied().filter(|node| waited(*node) >= longest).collect();
        let due = self.protocol.excuse(&silent);
        self.note(due, &[]);
    }

    /// Takes what is new since the report that a runtime sent before.
    ///
    /// # Errors
    /// [`Fault::Base`]: that report is not here. The node is to send all.
    pub fn change(&mut self, change: ObjectChange) -> Result<(), Fault> {
        if change.revision != self.revision() || self.protocol.ledger().is_lost(change.node) {
            return Ok(());
        }
        let Some(known) = self.protocol.report(change.node) else {
            return Err(Fault::Base { node: change.node, base: change.base, known: 0 });
        };
        if change.serial <= known.serial {
            return Ok(());
        }
        let mut report = known.clone();
        change.apply(&mut report)?;
        self.receive(report);
        Ok(())
    }

    /// A node has a new connection: what it was told may be lost.
    pub fn forget_told(&mut self, node: Node) {
        self.sent.remove(&node);
        self.told.remove(&node);
        self.due.insert(node);
    }

    /// Announces nothing any more, for its node is about to leave.
    pub fn retire(&mut self) {
        let due = self.protocol.retire();
        self.note(due, &[]);
    }

    /// What has not been sent yet.
    pub fn outgoing(&mut self) -> Vec<(Node, Outgoing)> {
        let mut outgoing = Vec::new();
        if !self.protocol.is_leading() {
            return outgoing;
        }
        for node in std::mem::take(&mut self.due).intersection(&self.nodes) {
            // A roster first: with a decision versions may become complete that need it.
            let (revision, serial) = (self.protocol.revision(), self.roster.serial());
            let told = self.told.insert(*node, serial);
            if told != Some(serial) {
                let news = self.roster.news(told).into_iter();
                outgoing.extend(news.map(|news| (*node, Outgoing::Roster { revision, news })));
            }
            if let Some(decision) = self.protocol.decision(*node)
                && self.sent.insert(*node, decision.serial) != Some(decision.serial)
            {
                outgoing.push((*node, Outgoing::Decision { roster: serial, decision: decision.clone() }));
            }
        }
        outgoing
    }

    /// Notes that these nodes have new decisions, and what is new of the roster. What a writer declared can only be another where its node
    /// has a new decision, is one that something was heard of, or is lost.
    fn note(&mut self, due: BTreeSet<Node>, heard_of: &[Node]) {
        let is_leading = self.protocol.is_leading();
        let changes = self.protocol.ledger().changes();
        let is_new = is_leading && !std::mem::replace(&mut self.was_leading, is_leading);
        if is_new {
            let all = self.protocol.ledger().records().map(|record| record.writer.node).collect();
            self.note_declared(&all);
            self.due.extend(&self.nodes);
        } else if is_leading && self.changes != changes {
            self.note_declared(&due.iter().chain(heard_of).chain(&self.lost).copied().collect());
        }
        self.changes = changes;
        self.due.extend(due);
    }

    /// Brings the roster up to date with what writers of these nodes declared.
    fn note_declared(&mut self, nodes: &BTreeSet<Node>) {
        let mut now: BTreeMap<Writer, Option<Declared>> = BTreeMap::new();
        for node in nodes {
            now.extend(self.roster.of(*node).map(|one| (one.writer, None)));
            let records = self.protocol.ledger().records_of(*node);
            now.extend(records.map(|record| (record.writer, self.declared_of(record))));
        }
        if self.roster.note(now) {
            self.due.extend(&self.nodes);
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
