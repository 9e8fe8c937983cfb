//! Machines in whose absence versions became complete.
//!
//! Programs of a machine that is lost for the others go on to publish. When it is back, as another node, they have versions of numbers
//! that became complete without them: others took their places. Those may have ended by then, and be forgotten; the content of what
//! was complete stays theirs.
//!
//! So a home asks of each node that reports to it first in which of the versions that were proposed it had a part: a proposal names the
//! nodes of all members, and what the machine's programs knew to be complete was so with them, or they were told who has their
//! places. Who says to be a member of versions above that, up to the newest one that was proposed without its machine, is none: it ends
//! before them if it is gone, and is refused if it lives. So is who attached meanwhile, and of whom no home has heard.

use std::{collections::BTreeSet, ops::RangeInclusive};

use super::Home;
use crate::{
    message::{Proposal, Refused, Report, Told},
    refusal::{Overlap, Refusal},
    writer::{Elements, Node, Role, Version, Who, Writer},
};

/// A fragment of a writer that lives, and whose place others had.
#[derive(Debug)]
pub(super) struct Displaced {
    who: Who,
    /// The stage's number.
    number: u64,
    elements: Elements,
    /// The newest version that was proposed without it.
    newest: Version,
}

impl Home {
    /// Ends or refuses those writers of a node that report to be members of versions which were proposed without it, before its first
    /// report is merged; those that were refused. These proposals are known.
    pub(super) fn exclude_absent(&mut self, report: &Report, known: &BTreeSet<Proposal>) -> Vec<Displaced> {
        let mut displaced = Vec::new();
        let Some(absence) = self.absence(report, known) else { return displaced };
        let (first, newest) = (*absence.start(), *absence.end());
        for told in report.writers.iter().filter(|told| is_member_in(told, &absence)) {
            if told.record.has_ended() {
                self.ledger.expect_end(told.record.writer, first);
            } else if told.is_restored || told.accepted == 0 {
                displaced.extend(stages_until(told, newest));
            }
        }
        let refused = displaced.iter().map(|one| Refused {
            writer: one.who.writer,
            number: one.number,
            refusal: Refusal::Late { from: first, settled: newest },
        });
        self.refused.entry(report.node).or_default().extend(refused);
        displaced
    }

    /// The same of a node that comes while this home leads: what was proposed before that it knows itself.
    pub(super) fn exclude_returned(&mut self, node: Node) -> Vec<Displaced> {
        let Some(report) = self.known(node).map(|known| known.report.clone()) else { return Vec::new() };
        let known = self.proposed.iter().chain([&self.announced]).cloned().collect();
        let mut displaced = self.exclude_absent(&report, &known);
        displaced.extend(self.exclude_displaced(&report));
        displaced
    }

    /// Refuses writers of a machine that was lost and is back where others were given their places meanwhile, and nothing was proposed since:
    /// who was given one counts on it, and a writer that stands still would keep all from going on.
    fn exclude_displaced(&mut self, report: &Report) -> Vec<Displaced> {
        if !self.returned.contains(&report.node) {
            return Vec::new();
        }
        let numbers = self.numbers_of(report.node);
        let mut displaced = Vec::new();
        for told in report.writers.iter().filter(|told| told.accepted > 0 && !told.record.has_ended()) {
            let reached = told.record.published.newest.unwrap_or(self.ledger.initial());
            if let Some(from) = self.ledger.heir_above(&told.record, reached, &numbers) {
                displaced.extend(stages_until(told, from));
            }
        }
        let refused = displaced.iter().map(|one| Refused {
            writer: one.who.writer,
            number: one.number,
            refusal: Refusal::Late { from: one.newest, settled: one.newest },
        });
        self.refused.entry(report.node).or_default().extend(refused);
        displaced
    }

    /// Has refusals say who had the places of these writers, as far as that is known still.
    pub(super) fn name_heirs(&mut self, displaced: Vec<Displaced>) {
        for Displaced { who, number, elements, newest } in displaced {
            let near = self.ledger.near(&elements);
            let overlap = near.into_iter().filter(|heir| heir.writer != who.writer).find_map(|heir| {
                let first_elements = heir.elements(newest)?.clone();
                let common = first_elements.intersection(&elements).ok().filter(|common| !common.is_empty())?;
                let (first, second_elements) = (heir.who(), elements.clone());
                let elements = common.into();
                Some(Overlap { version: newest, first, first_elements, second: who, second_elements, elements })
            });
            let Some(overlap) = overlap else { continue };
            let refused = self.refused.entry(who.writer.node).or_default();
            let is_of_it = |one: &&mut Refused| one.writer == who.writer && one.number == number;
            if let Some(refused) = refused.iter_mut().find(is_of_it) {
                refused.refusal = Box::new(overlap).into();
            }
        }
    }

    /// Lets the writers of a machine whose runtime was started again know by their new names which of their places others took.
    pub(super) fn carry_ended(&mut self, former: Node, node: Node) {
        let ended: Vec<(Writer, Version)> = self.ledger.ended_of(former).collect();
        for (writer, from) in ended {
            self.ledger.expect_end(Writer { node, ..writer }, from);
        }
    }

    /// The proposals that the reports of all nodes tell of.
    pub(super) fn reported_proposals(&self) -> BTreeSet<Proposal> {
        let of = |report: &Report| {
            let newest = [report.announced.clone()].into_iter().chain(report.yielded.clone());
            newest.chain(report.pins.clone()).collect::<Vec<_>>()
        };
        self.reports().flat_map(of).chain([self.announced.clone()]).collect()
    }

    /// Versions that a node's machine has no part in, from after the last one in which it had one to the newest that was proposed.
    fn absence(&self, report: &Report, known: &BTreeSet<Proposal>) -> Option<RangeInclusive<Version>> {
        let numbers = self.numbers_of(report.node);
        let names = |proposal: &Proposal| numbers.iter().any(|number| proposal.nodes.contains(number));
        let is_fixed = |version| version <= self.announced.version || self.ledger.settled.contains_key(&version);
        let fixed = || known.iter().filter(|proposal| !proposal.is_gone() && is_fixed(proposal.version));
        let without = |version| fixed().any(|proposal| proposal.version == version && !names(proposal));
        // A node may hold still what was given up, and proposed once more without the machine.
        let with = fixed().filter(|proposal| names(proposal) && !without(proposal.version));
        let last = with.map(|proposal| proposal.version).max();
        // Whoever hears of a version is told, too, which of its writers had ended before it.
        let heard = report.floor.max(report.announced.version);
        let first = last.map_or(heard, |last| last.max(heard)).saturating_add(1);
        let newest = fixed().filter(|proposal| !names(proposal)).map(|proposal| proposal.version).max()?;
        (first <= newest).then_some(first..=newest)
    }
}

/// Whether a writer says to be a member of some of these versions.
fn is_member_in(told: &Told, versions: &RangeInclusive<Version>) -> bool {
    let stages = &told.record.stages;
    let untils = stages.iter().skip(1).map(|next| next.from).chain([Version::MAX]);
    stages.iter().zip(untils).any(|(stage, until)| {
        matches!(stage.role, Role::Member { .. }) && stage.from <= *versions.end() && until > *versions.start()
    })
}

/// Fragments of a writer that begin at or before a version.
fn stages_until(told: &Told, newest: Version) -> impl Iterator<Item = Displaced> {
    let stages = told.record.stages.iter().zip(&told.numbers).filter(move |(stage, _)| stage.from <= newest);
    stages.filter_map(move |(stage, number)| match &stage.role {
        Role::Member { elements, .. } => {
            Some(Displaced { who: told.record.who(), number: *number, elements: elements.clone(), newest })
        }
        Role::Left | Role::Died { .. } => None,
    })
}
