//! Versions that a home may announce, because all nodes know that it may.
//!
//! A home can be cut off together with all writers of its object. Until its lease ends it goes on, and no other node hears what it
//! announces. So that the next home gives none of those numbers once more, a home announces only what lies below a *ceiling* which all
//! nodes have acknowledged: the next home learns it from any node that reports to it.

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
    /// With the ceiling that each of them knows.
    behind: BTreeMap<Node, Ceiling>,
    /// How far above the newest version a ceiling is set.
    margin: u64,
}

impl CeilingRound {
    pub(super) fn new(initial: Version) -> Self {
        Self { ceiling: Ceiling::initial(initial), behind: BTreeMap::new(), margin: 0 }
    }

    pub(super) fn ceiling(&self) -> &Ceiling {
        &self.ceiling
    }

    pub(super) fn set_margin(&mut self, versions: u64) {
        self.margin = versions;
    }

    /// Whether a proposal lies below the ceiling, and every node knows one that it lies below.
    fn allows(&self, proposal: &Proposal) -> bool {
        self.ceiling.covers(proposal) && self.behind.values().all(|known| known.covers(proposal))
    }

    /// Notes the ceiling that a node knows; none of a node that was lost or has not reported.
    pub(super) fn note(&mut self, node: Node, known: Option<&Ceiling>) {
        match known {
            Some(known) if *known != self.ceiling => _ = self.behind.insert(node, known.clone()),
            _ => _ = self.behind.remove(&node),
        }
    }

    /// Whether it was raised: to a margin above a version that lies above half a margin below it.
    fn raise(&mut self, version: Version) -> bool {
        let is_low = self.ceiling.version < version.saturating_add(self.margin.div_ceil(2));
        if is_low {
            self.ceiling.version = version.saturating_add(self.margin);
        }
        is_low
    }
}

impl Home {
    pub(super) fn is_below_ceiling(&self, proposal: &Proposal) -> bool {
        self.ceilings.allows(proposal) || self.planted().has(Bug::Boundless)
    }

    /// Notes which of these nodes have acknowledged the ceiling.
    pub(super) fn note_ceilings(&mut self, nodes: &BTreeSet<Node>) {
        for node in nodes {
            let known = self.nodes.get(node).and_then(Option::as_ref).filter(|_| !self.ledger.is_lost(*node));
            self.ceilings.note(*node, known.map(|known| &known.report.ceiling));
        }
    }

    /// Sets the ceiling for what is proposed and what follows it, after something was heard of nodes; whether it is another one.
    pub(super) fn set_ceiling(&mut self, touched: &BTreeSet<Node>) -> bool {
        let newest = self.announced.version;
        let ceiling = self.ceilings.ceiling();
        let is_over = |node: &&Node| !self.ledger.records_of(**node).any(|record| is_member_above(record, newest));
        let over: Vec<Node> = touched.intersection(&ceiling.nodes).filter(is_over).copied().collect();
        let added = self.proposed.as_ref().filter(|proposed| !proposed.nodes.is_subset(&ceiling.nodes));
        let nodes = match (&over[..], added) {
            ([], None) => ceiling.nodes.clone(),
            // Mostly they are the same, and need not be there twice, nor be told twice.
            (_, Some(proposed)) if ceiling.nodes.iter().all(|node| over.contains(node)) => proposed.nodes.clone(),
            (over, added) => {
                let kept = ceiling.nodes.iter().filter(|node| !over.contains(node));
                Arc::new(kept.chain(added.iter().flat_map(|proposed| proposed.nodes.iter())).copied().collect())
            }
        };
        let has_others = nodes != ceiling.nodes;
        self.ceilings.ceiling.nodes = nodes;
        let proposed = self.proposed.as_ref().map(|proposed| proposed.version);
        let is_raised = proposed.is_some_and(|version| self.ceilings.raise(version.max(newest)));
        if has_others || is_raised {
            self.note_ceilings(&self.nodes.keys().copied().collect());
        }
        has_others || is_raised
    }

    /// The newest version that a former home may have announced with members of lost nodes alone: one below a ceiling for such a
    /// node, in which no writer of a node that reports has a part, and which so needed no pin of these.
    pub(super) fn newest_gone(&mut self) -> Option<Version> {
        if self.planted().has(Bug::Boundless) {
            return None;
        }
        let has_lost = |ceiling: &&Ceiling| ceiling.nodes.iter().any(|node| self.known(*node).is_none());
        let highest = self.reports().map(|report| report.ceiling.version).max()?;
        let ceilings = self.reports().map(|report| &report.ceiling);
        let newest = ceilings.filter(has_lost).map(|ceiling| ceiling.version).max();
        let mut gone = None;
        if let Some(newest) = newest {
            let between = (self.announced.version + 1)..=newest;
            let begins = self.ledger.records().flat_map(|record| &record.stages).map(|stage| stage.from - 1);
            let ends: BTreeSet<Version> = begins.chain([newest]).filter(|end| between.contains(end)).collect();
            let has_members = |version| self.ledger.records().any(|record| record.elements(version).is_some());
            gone = ends.into_iter().rev().find(|end| !has_members(*end));
        }
        self.ceilings.ceiling.version = self.ceilings.ceiling.version.max(highest);
        gone
    }
}

/// Whether a writer is a member of some version above one.
fn is_member_above(record: &Record, version: Version) -> bool {
    let untils = record.stages.iter().skip(1).map(|next| next.from).chain([Version::MAX]);
    let stages = record.stages.iter().zip(untils);
    stages.into_iter().any(|(stage, until)| matches!(stage.role, Role::Member { .. }) && until > version + 1)
}
