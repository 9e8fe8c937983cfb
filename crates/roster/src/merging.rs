//! What runtimes report, brought into a home's ledger.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use super::Home;
use crate::{
    ledger::Ledger,
    message::{Proposal, Refused, Told},
    writer::{Node, Published, Record, Role, Version, Writer},
};

impl Home {
    /// Brings what is known of a node's writers up to its newest report.
    pub(super) fn merge(&mut self, node: Node, only_accepted: bool) {
        let Some(known) = self.nodes.get(&node).and_then(Option::as_ref) else { return };
        let report = known.report.clone();
        if !only_accepted {
            self.note_floor(&report);
            self.reserve_floor();
        }
        let told: BTreeMap<Writer, &Told> = report.writers.iter().map(|told| (told.record.writer, told)).collect();
        let is_there = |one: &Refused| told.get(&one.writer).is_some_and(|told| told.numbers.contains(&one.number));
        self.refused.entry(node).or_default().retain(is_there);
        let own = self.ledger.records_of(node).map(|record| record.writer);
        for gone in own.filter(|writer| !told.contains_key(writer)).collect::<Vec<_>>() {
            self.ledger.forget(gone);
        }
        // Of those that it will never tell of nobody has to hear.
        let ended = self.ledger.ended_of(node).map(|(writer, _)| writer);
        for gone in ended.filter(|writer| !told.contains_key(writer)).collect::<Vec<_>>() {
            self.ledger.note_heard(gone);
        }
        // What this report makes whole its own node has weighed against what it declares.
        let whole = self.whole_before(&report.writers);
        for told in self.in_order(&report.writers) {
            let told = &*self.as_ended(told);
            self.merge_stages(told, only_accepted, whole);
            // What it published belongs to all of its stages: without those still to come it would be of older fragments.
            if !only_accepted {
                self.ledger.note(told.record.writer, self.published(told));
            }
        }
        if !only_accepted {
            self.note_begun(node);
        }
        if self.ledger.is_lost(node) {
            self.ledger.lose(node);
        }
    }

    /// Notes what a node's writers published as what a home accepted, before anything that is new is looked at.
    pub(super) fn note_accepted(&mut self, node: Node) {
        let Some(known) = self.nodes.get(&node).and_then(Option::as_ref) else { return };
        for told in &known.report.clone().writers {
            let told = &*self.as_ended(told);
            let mut published = told.record.published.clone();
            if let Some(new) = told.record.stages.get(told.accepted) {
                published.present.retain(|version| *version < new.from);
                let newest = published.newest.filter(|newest| *newest < new.from);
                published.newest = newest.or(published.present.last().copied());
            }
            self.ledger.note(told.record.writer, published);
        }
    }

    /// Forgets what writers of a node published that declares anything new, until it is merged: it has weighed that itself.
    pub(super) fn forget_published(&mut self, node: Node) {
        let Some(known) = self.nodes.get(&node).and_then(Option::as_ref) else { return };
        let report = known.report.clone();
        if report.writers.iter().any(|told| told.accepted < told.record.stages.len()) {
            report.writers.iter().for_each(|told| self.ledger.note(told.record.writer, Published::default()));
        }
    }

    /// The writers of a report as they are to be looked at: those first that have ended, whose places others may take, and then those
    /// that began earlier.
    fn in_order<'a>(&self, writers: &'a [Told]) -> Vec<&'a Told> {
        let is_new = |told: &&Told| {
            let stages = |record: &Record| (record.stages.len(), record.stages.last().map(|stage| stage.from));
            self.ledger.record(told.record.writer).map(stages) != Some(stages(&told.record))
        };
        let mut order: Vec<&Told> = writers.iter().collect();
        if order.iter().copied().filter(is_new).nth(1).is_some() {
            let ends = |told: &Told| told.record.end().is_some() && self.ledger.record(told.record.writer).is_some();
            order.sort_by_key(|told| (!ends(told), told.record.stages.first().map(|stage| stage.from)));
        }
        order
    }

    /// The version that may be proposed next, if these writers declare anything new.
    fn whole_before(&self, writers: &[Told]) -> Option<Version> {
        let is_known =
            |told: &Told| self.ledger.record(told.record.writer).is_some_and(|own| own.stages == told.record.stages);
        if writers.iter().all(is_known) {
            return None;
        }
        // Where fragments lie too scattered to be told apart nothing is whole.
        self.newest_to_propose().unwrap_or_default()
    }

    /// What a runtime tells of a writer, as it will when it knows that another has its place.
    fn as_ended<'a>(&mut self, told: &'a Told) -> Cow<'a, Told> {
        let Some(from) = self.ledger.ended(told.record.writer) else { return Cow::Borrowed(told) };
        let mut ended = told.clone();
        if !ended.end_at(from, told.numbers.last().copied().unwrap_or_default()) {
            self.ledger.note_heard(told.record.writer);
        }
        Cow::Owned(ended)
    }

    /// Ends the disputes that are over; nodes of whose writers something was refused.
    pub(super) fn settle_disputes(&mut self) -> BTreeSet<Node> {
        let mut touched = BTreeSet::new();
        for (writer, from, refusal) in self.ledger.settle_disputes() {
            touched.insert(writer.node);
            let told = self.reports().flat_map(|report| &report.writers).find(|told| told.record.writer == writer);
            let Some(told) = told else { continue };
            let Some(position) = told.record.stages.iter().position(|stage| stage.from == from) else { continue };
            let number = told.numbers[position];
            self.refused.entry(writer.node).or_default().push(Refused { writer, number, refusal });
        }
        touched
    }

    fn merge_stages(&mut self, told: &Told, only_accepted: bool, whole: Option<Version>) {
        let writer = told.record.writer;
        let is_known = |ledger: &Ledger, stage| ledger.record(writer).is_some_and(|own| own.stages.contains(stage));
        let own = self.ledger.record(writer).into_iter().flat_map(|own| &own.stages);
        let over: Vec<Version> =
            own.filter(|stage| !told.record.stages.contains(stage)).map(|stage| stage.from).collect();
        over.into_iter().for_each(|from| self.ledger.withdraw(writer, from));
        for (position, (stage, number)) in told.record.stages.iter().zip(&told.numbers).enumerate() {
            let refused = self.refused.get(&writer.node).map_or(&[][..], Vec::as_slice);
            let is_refused = refused.iter().any(|one| one.writer == writer && one.number == *number);
            let is_accepted = position < told.accepted;
            // That it died nobody has to accept.
            let is_over = matches!(stage.role, Role::Died { .. }) && position <= told.accepted;
            if is_refused || is_known(&self.ledger, stage) || only_accepted && !is_accepted && !is_over {
                continue;
            }
            // Whoever writes nothing is never late.
            let is_member = matches!(stage.role, Role::Member { .. });
            let is_accepted = is_accepted || is_member && self.lacks(&told.record, stage.from);
            let (who, stage) = (told.record.who(), stage.clone());
            let next = told.record.stages.get(position + 1).map(|next| next.from);
            let declared = match is_accepted {
                true => self.ledger.accept(who, stage, told.record.has_ended()),
                false => self.ledger.declare_beside(who, stage, next, whole),
            };
            if let Err(refusal) = declared {
                let refused = self.refused.entry(writer.node).or_default();
                refused.push(Refused { writer, number: *number, refusal });
            }
        }
    }

    /// Whether versions that were proposed lack a stage like this one, and not because a node of theirs is gone, or has still to report.
    fn lacks(&self, record: &Record, from: Version) -> bool {
        let is_there = |one: &Proposal| !one.is_gone() && !one.nodes.iter().any(|node| self.is_gone(*node));
        let known = || self.reported_proposals().into_iter().chain(self.proposed.clone());
        self.ledger.lacks(record, from) && known().filter(|proposal| proposal.version >= from).all(|one| is_there(&one))
    }

    /// What a writer published, without what belongs to stages that were refused and that it has not heard of yet.
    fn published(&self, told: &Told) -> Published {
        let refused = self.refused.get(&told.record.writer.node).map_or(&[][..], Vec::as_slice);
        if refused.is_empty() {
            return told.record.published.clone();
        }
        let mut record = told.record.clone();
        for one in refused.iter().filter(|one| one.writer == told.record.writer) {
            if let Some(position) = told.numbers.iter().position(|number| *number == one.number) {
                record.withdraw(told.record.stages[position].from);
            }
        }
        record.published
    }
}
