//! Versions that a home may announce, because all nodes know that it may.
//!
//! A home can be cut off together with all writers of its object. Until its lease ends it goes on, and no other node hears what it
//! announces. So that the next home gives none of those numbers once more, a home announces only what lies below a *ceiling* which all
//! nodes have acknowledged. The ceiling names the nodes of the members: without one of these nothing is announced, until that one has
//! acknowledged a ceiling that names it no more. So the next home knows that nothing was announced which a node that reports was to pin
//! and did not; and else, how far the former one may have come.
//!
//! A node that does not answer for long is waited for no longer, unless a ceiling that it may know names it: the next home would take it
//! from such a node that nothing was announced without it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::Home;
use crate::{
    message::{Ceiling, Proposal},
    planted::Bug,
    writer::{Node, Record, Role, Version},
};

/// The ceiling that a home has all nodes remember, and which of them have not acknowledged it yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CeilingRound {
    ceiling: Ceiling,
    /// The one before, which all nodes had acknowledged; none of this home's own.
    before: Option<Ceiling>,
    /// Nodes that may know the one before still.
    behind: BTreeSet<Node>,
    /// Nodes that have just joined, or have not answered for long: nobody waits for what they know. No ceiling that they may know names one
    /// of them: a next home takes it from those that it names that nothing was announced without them.
    excused: BTreeSet<Node>,
    /// How far above the newest version a ceiling is set.
    margin: u64,
    /// Whether nothing is announced any more.
    is_last: bool,
}

impl CeilingRound {
    pub(super) fn new(initial: Version) -> Self {
        let (behind, excused) = (BTreeSet::new(), BTreeSet::new());
        Self { ceiling: Ceiling::initial(initial), before: None, behind, excused, margin: 0, is_last: false }
    }

    pub(super) fn ceiling(&self) -> &Ceiling {
        &self.ceiling
    }

    pub(super) fn set_margin(&mut self, versions: u64) {
        self.margin = versions;
    }

    /// Excuses a node that has joined, or has not answered for long, until it acknowledges a ceiling.
    pub(super) fn excuse(&mut self, node: Node) {
        self.behind.remove(&node);
        self.excused.insert(node);
    }

    /// Nodes that have not acknowledged the ceiling.
    pub(super) fn behind(&self) -> &BTreeSet<Node> {
        &self.behind
    }

    pub(super) fn forget(&mut self, node: Node) {
        self.behind.remove(&node);
        self.excused.remove(&node);
    }

    /// Waits again for a node that was excused, and acknowledged this one since. While the home went on without it that may be an old one:
    /// before all know the present one nothing more is announced.
    pub(super) fn hear(&mut self, node: Node, known: &Ceiling) {
        if self.excused.remove(&node) && *known != self.ceiling && self.before.as_ref() != Some(known) {
            self.before = None;
        }
    }

    /// Notes the ceiling that a node knows.
    fn note(&mut self, node: Node, known: &Ceiling) {
        if *known == self.ceiling {
            self.forget(node);
        } else if !self.excused.contains(&node) {
            self.behind.insert(node);
        }
    }

    /// Whether whatever ceiling a node may know covers a proposal, and names it only if it is to pin that. `lives` says of a node whether
    /// it can be asked still.
    fn allows(&self, proposal: &Proposal, lives: impl Fn(Node) -> bool) -> bool {
        let is_without = |node: &&Node| !proposal.nodes.contains(node) && lives(**node);
        let is_covered = |ceiling: &Ceiling| ceiling.covers(proposal);
        let is_named = |ceiling: &Ceiling| {
            !Arc::ptr_eq(&ceiling.nodes, &proposal.nodes) && ceiling.nodes.iter().any(|node| is_without(&node))
        };
        let allows_before = || {
            let names =
                |before: &Ceiling| self.behind.iter().any(|node| before.nodes.contains(node) && is_without(&node));
            self.before.as_ref().is_some_and(|before| before.covers(proposal) && !names(before))
        };
        !self.is_last
            && is_covered(&self.ceiling)
            && !is_named(&self.ceiling)
            && (self.behind.is_empty() || allows_before())
    }

    /// Whether a node may be excused that knows this ceiling, or the present one.
    fn may_excuse(&self, node: Node, known: &Ceiling) -> bool {
        !known.nodes.contains(&node) && !self.ceiling.nodes.contains(&node)
    }

    /// Sets another ceiling, which nobody has acknowledged yet.
    fn set(&mut self, ceiling: Ceiling) {
        self.excused.retain(|node| !ceiling.nodes.contains(node));
        self.before = Some(std::mem::replace(&mut self.ceiling, ceiling));
    }
}

impl Home {
    pub(super) fn is_below_ceiling(&self, proposal: &Proposal) -> bool {
        let lives = |node| self.known(node).is_some();
        self.ceilings.allows(proposal, lives) || self.planted().has(Bug::Boundless)
    }

    /// Nodes that have not acknowledged the ceiling, and of which nobody has to know whether they ever will.
    pub(super) fn excusable(&self) -> BTreeSet<Node> {
        let known = |node| self.known(node).map(|known| &known.report.ceiling);
        let may = |node: &Node| known(*node).is_none_or(|known| self.ceilings.may_excuse(*node, known));
        self.ceilings.behind.iter().copied().filter(may).collect()
    }

    /// Notes which of these nodes have acknowledged the ceiling.
    pub(super) fn note_ceilings(&mut self, nodes: &BTreeSet<Node>) {
        for node in nodes {
            match self.nodes.get(node).filter(|_| !self.ledger.is_lost(*node)) {
                Some(Some(known)) => self.ceilings.note(*node, &known.report.ceiling),
                // It has joined and has still to report: nobody waits for it before it has acknowledged a ceiling.
                Some(None) => {}
                None => self.ceilings.forget(*node),
            }
        }
    }

    /// Nodes that have not acknowledged the ceiling, so that sooner or later nothing becomes complete.
    pub fn unacknowledged(&self) -> &BTreeSet<Node> {
        self.ceilings.behind()
    }

    /// Waits no longer for those of these nodes that have [not acknowledged](Self::unacknowledged) the ceiling, until they acknowledge any:
    /// who keeps the names hears of them, and this home does not. It goes on to wait for nodes that this ceiling names, or the one that they
    /// acknowledged: these have members of the newest versions, or had. Nodes with a new [decision](Self::decision) are returned.
    pub fn excuse(&mut self, nodes: &BTreeSet<Node>) -> BTreeSet<Node> {
        let behind: BTreeSet<Node> = self.excusable().intersection(nodes).copied().collect();
        behind.iter().for_each(|node| self.ceilings.excuse(*node));
        if behind.is_empty() { behind } else { self.lead(BTreeSet::new()) }
    }

    /// Sets the ceiling for what is proposed and what follows it, after something was heard of nodes; whether it is another one. Before
    /// the present one was acknowledged it stays: so a node knows that one or the one before.
    pub(super) fn set_ceiling(&mut self, touched: &BTreeSet<Node>) -> bool {
        if !self.ceilings.behind.is_empty() {
            return false;
        }
        let (ceiling, newest) = (self.ceilings.ceiling(), self.announced.version);
        let next = match &self.proposed {
            _ if self.ceilings.is_last => {
                let last = Ceiling { version: newest, nodes: Arc::default() };
                (last != *ceiling).then_some(last)
            }
            Some(proposed) => {
                let (base, margin) = (proposed.version.max(newest), self.ceilings.margin);
                let is_low = ceiling.version < base.saturating_add(margin.div_ceil(2));
                let version = if is_low { base.saturating_add(margin) } else { ceiling.version };
                let are_same = Arc::ptr_eq(&ceiling.nodes, &proposed.nodes) || ceiling.nodes == proposed.nodes;
                let nodes = if are_same { ceiling.nodes.clone() } else { proposed.nodes.clone() };
                (is_low || !are_same).then_some(Ceiling { version, nodes })
            }
            None => {
                let is_over =
                    |node: &&Node| !self.ledger.records_of(**node).any(|record| is_member_above(record, newest));
                let over: Vec<Node> = touched.intersection(&ceiling.nodes).filter(is_over).copied().collect();
                let kept = || ceiling.nodes.iter().filter(|node| !over.contains(node)).copied().collect();
                (!over.is_empty()).then(|| Ceiling { version: ceiling.version, nodes: Arc::new(kept()) })
            }
        };
        let Some(next) = next else { return false };
        self.ceilings.set(next);
        self.note_ceilings(&self.nodes.keys().copied().collect());
        true
    }

    /// Announces and proposes nothing any more, for the home's node is about to leave, and has all nodes acknowledge a ceiling that says so.
    /// Then the next home leaves no numbers out. Nodes with a new [decision](Self::decision) are returned.
    pub fn retire(&mut self) -> BTreeSet<Node> {
        if std::mem::replace(&mut self.ceilings.is_last, true) || !self.is_leading() {
            return BTreeSet::new();
        }
        // What is pinned when this home is gone is fixed for the next one, which lets nobody begin with it.
        self.give_up_proposal();
        self.look_at_pins();
        self.set_ceiling(&BTreeSet::new());
        self.refresh(BTreeSet::new(), true)
    }

    /// Whether it announces and proposes nothing any more.
    pub fn is_retiring(&self) -> bool {
        self.ceilings.is_last
    }

    /// Whether all nodes that this home waits for know that it announces nothing any more, or it decides nothing.
    pub fn has_retired(&self) -> bool {
        let has_last = self.ceilings.behind.is_empty() && self.ceilings.ceiling.nodes.is_empty();
        let is_acknowledged = has_last || self.planted().has(Bug::HastyLeave);
        !self.is_leading() || self.ceilings.is_last && is_acknowledged
    }

    /// Begins with the highest ceiling of former homes; and the newest version that one may have announced without any node that
    /// reports, if there is one: below a ceiling for nodes that are lost.
    pub(super) fn take_over_ceiling(&mut self) -> Option<Version> {
        let ceilings: BTreeMap<Node, &Ceiling> = self.reports().map(|report| (report.node, &report.ceiling)).collect();
        let highest = ceilings.values().map(|ceiling| ceiling.version).max()?;
        let is_asked = ceilings.iter().any(|(node, ceiling)| ceiling.nodes.contains(node));
        let lost = ceilings.values().filter(|ceiling| ceiling.nodes.iter().any(|node| self.is_gone(*node)));
        let newest = lost.map(|ceiling| ceiling.version).max().filter(|_| !is_asked);
        self.ceilings.ceiling.version = self.ceilings.ceiling.version.max(highest);
        newest.filter(|newest| *newest > self.announced.version && !self.planted().has(Bug::Boundless))
    }
}

/// Whether a writer is a member of some version above one.
fn is_member_above(record: &Record, version: Version) -> bool {
    // The last version with each stage.
    let lasts = record.stages.iter().skip(1).map(|next| next.from.saturating_sub(1)).chain([Version::MAX]);
    let mut stages = record.stages.iter().zip(lasts);
    stages.any(|(stage, last)| matches!(stage.role, Role::Member { .. }) && last > version)
}
