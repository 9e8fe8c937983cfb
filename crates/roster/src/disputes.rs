//! Fragments that have elements in common, and how that ends.

use std::collections::BTreeSet;

use drepl::index_box::TooScattered;

use super::{Dispute, Ledger};
use crate::{
    refusal::{Overlap, Refusal},
    writer::{Record, Version, Writer},
};

/// What two fragments of a dispute have in common now.
enum Common {
    /// Nothing, if no stage of the older one's is withdrawn.
    Nothing,
    /// Elements, and the older fragment may still be changed.
    Open,
    /// Elements, and the older fragment was published unchanged.
    Published(Box<Overlap>),
    /// Elements of a writer that is gone: the younger fragment takes its place.
    Inherited,
    /// Elements of a writer that was lost and is back: the younger fragment took its place, and others have read what came of that.
    Returned(Box<Overlap>),
}

impl Ledger {
    /// Ends the disputes that are over. Where the older fragment was published unchanged, the younger one is withdrawn:
    /// these are returned, with the version from which they were to count. Where its writer is gone, the younger one takes its place.
    pub fn settle_disputes(&mut self) -> Vec<(Writer, Version, Refusal)> {
        let mut refused = Vec::new();
        loop {
            self.end_disputes();
            // What the older one is may be withdrawn itself, and then it is again what it was before.
            let decided = self.disputes.iter().find_map(|dispute| match self.common(dispute) {
                Common::Nothing | Common::Open => None,
                common => self.depends(dispute).is_none().then_some((*dispute, common)),
            });
            let Some((dispute, common)) = decided else { return refused };
            let Dispute { young, old, from, .. } = dispute;
            let (withdrawn, overlap) = match common {
                Common::Published(overlap) => ((young, Some(from)), overlap),
                Common::Returned(overlap) => ((old, self.stage_from(old, from)), overlap),
                _ => {
                    self.disputes.remove(&dispute);
                    self.end(old, from);
                    continue;
                }
            };
            let (writer, Some(from)) = withdrawn else { return refused };
            self.withdraw(writer, from);
            refused.push((writer, from, overlap.into()));
        }
    }

    /// Ends the disputes in which nothing is in common any more, and will not be again. Several that each wait for the next, as where
    /// writers change places, end together.
    fn end_disputes(&mut self) {
        let has_nothing = |dispute: &&Dispute| matches!(self.common(dispute), Common::Nothing);
        let mut over: BTreeSet<Dispute> = self.disputes.iter().filter(has_nothing).copied().collect();
        loop {
            let is_open =
                |stage: &(Writer, Version)| self.disputes.difference(&over).any(|one| (one.young, one.from) == *stage);
            let waits = |dispute: &&Dispute| self.depends(dispute).as_ref().is_some_and(is_open);
            let waiting: BTreeSet<Dispute> = over.iter().filter(waits).copied().collect();
            if waiting.is_empty() {
                break;
            }
            over.retain(|dispute| !waiting.contains(dispute));
        }
        if !over.is_empty() {
            self.disputes.retain(|dispute| !over.contains(dispute));
            self.tally.note_disputes();
        }
    }

    fn common(&self, Dispute { from, young, old, is_accepted }: &Dispute) -> Common {
        let found = (self.records.get(old), self.records.get(young));
        let (Some(old), Some(young)) = found else { return Common::Nothing };
        let both = (old.elements(*from), young.elements(*from));
        let (Some(first_elements), Some(second_elements)) = both else { return Common::Nothing };
        match first_elements.intersection(second_elements) {
            Ok(common) if common.is_empty() => Common::Nothing,
            Ok(_) if *is_accepted && old.has_reached(*from) && old.has_ended() && self.may_inherit(young, *from) => {
                Common::Inherited
            }
            Ok(common) if *is_accepted && self.has_returned(old, young, *from) => Common::Returned(Box::new(Overlap {
                version: *from,
                first: young.who(),
                first_elements: second_elements.clone(),
                second: old.who(),
                second_elements: first_elements.clone(),
                elements: common.into(),
            })),
            Ok(common) if old.has_reached(*from) => Common::Published(Box::new(Overlap {
                version: *from,
                first: old.who(),
                first_elements: first_elements.clone(),
                second: young.who(),
                second_elements: second_elements.clone(),
                elements: common.into(),
            })),
            Ok(_) | Err(TooScattered) => Common::Open,
        }
    }

    /// Whether a complete version that a home took over has elements of one writer that another, who is in its way, claims too: that one's
    /// node has no part in the version, and was lost when it became complete.
    fn has_returned(&self, back: &Record, heir: &Record, from: Version) -> bool {
        let Some(complete) = self.taken_over.as_ref().filter(|complete| complete.version >= from) else { return false };
        let is_member = |record: &Record| record.elements(complete.version).is_some();
        let is_of_it = |record: &Record| complete.nodes.contains(&record.writer.node);
        is_member(back) && is_member(heir) && is_of_it(heir) && !is_of_it(back)
    }

    fn stage_from(&self, writer: Writer, version: Version) -> Option<Version> {
        Some(self.records.get(&writer)?.stage(version)?.from)
    }

    /// The stage of the older fragment that a dispute is about, if that is disputed itself.
    fn depends(&self, dispute: &Dispute) -> Option<(Writer, Version)> {
        let from = self.stage_from(dispute.old, dispute.from)?;
        self.may_be_withdrawn(dispute.old, from).then_some((dispute.old, from))
    }

    /// Whether a stage that a writer declared is disputed.
    fn may_be_withdrawn(&self, writer: Writer, from: Version) -> bool {
        self.disputes.iter().any(|one| one.young == writer && one.from == from)
    }

    /// Whether what a writer is from a version on may be what it is in another, above: no stage lies between, or only such as may
    /// be withdrawn.
    pub(super) fn may_last(&self, record: &Record, from: Version, version: Version) -> bool {
        let mut between = record.stages.iter().filter(|stage| from < stage.from && stage.from <= version);
        between.all(|stage| self.may_be_withdrawn(record.writer, stage.from))
    }

    /// Whether what a writer has of a version may be withdrawn, or be what another's is withdrawn for.
    pub(crate) fn is_disputed(&self, writer: Writer, version: Version) -> bool {
        let may_last = |writer, from| self.record(writer).is_some_and(|record| self.may_last(record, from, version));
        self.disputes.iter().filter(|one| one.from <= version && may_last(one.young, one.from)).any(|one| {
            // A stage is withdrawn as a whole, also for versions in which nobody else writes its elements.
            one.young == writer || one.old == writer && may_last(one.old, one.from)
        })
    }
}
