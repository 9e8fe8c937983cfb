//! All that is known of an object's writers, merged.

use std::collections::{BTreeMap, BTreeSet};

use drepl::{IndexBox, IndexSet, index_box::TooScattered};

use crate::{
    planted::{Bug, Planted},
    refusal::{Overlap, Refusal},
    roster::{Closure, Member, Roster},
    writer::{Elements, Node, Published, Record, Role, Stage, Version, Who, Writer},
};

/// Two fragments that have elements in common from a version on, of which the older may still be changed before then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Dispute {
    from: Version,
    young: Writer,
    old: Writer,
}

/// Who writes what of an object from which version on, and what they published.
///
/// Rosters and epochs are not kept but follow from the writers' stages: so whoever knows the same of the writers comes to
/// the same rosters, in whatever order it learned of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ledger {
    shape: Elements,
    initial: Version,
    records: BTreeMap<Writer, Record>,
    disputes: BTreeSet<Dispute>,
    lost: BTreeSet<Node>,
    /// Versions whose rosters are fixed.
    settled: BTreeSet<Version>,
    pub(crate) planted: Planted,
}

impl Ledger {
    /// An object without writers. Its initial version is there, and is zeros.
    ///
    /// All boxes of the shape have as many axes. An object of several arrays has an outermost axis that tells them apart, and
    /// axes of one index where an array has fewer than others.
    pub fn new(shape: impl Into<Elements>, initial: Version) -> Self {
        Self {
            shape: shape.into(),
            initial,
            records: BTreeMap::new(),
            disputes: BTreeSet::new(),
            lost: BTreeSet::new(),
            settled: BTreeSet::new(),
            planted: Planted::default(),
        }
    }

    /// The object's indices.
    pub fn shape(&self) -> &Elements {
        &self.shape
    }

    /// The version that exists at once.
    pub fn initial(&self) -> Version {
        self.initial
    }

    /// What is known of a writer.
    pub fn record(&self, writer: Writer) -> Option<&Record> {
        self.records.get(&writer)
    }

    /// What is known of all writers, in the order of their names.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// Fixes the roster of a version, because it is proposed or complete. Those of which nothing is left are forgotten.
    pub fn settle(&mut self, version: Version) {
        let oldest = self.records.values().filter_map(|record| record.published.present.first()).min().copied();
        self.settled.insert(version);
        self.settled.retain(|settled| *settled >= oldest.unwrap_or(version).min(version));
    }

    /// Lets a writer be something else from a version on, and up to another, if it is known already to change again then.
    ///
    /// # Errors
    ///
    /// See [`Refusal`]. Then nothing has changed.
    pub fn declare(&mut self, who: Who, stage: Stage, until: Option<Version>) -> Result<(), Refusal> {
        self.check_order(who.writer, &stage, until)?;
        let mut disputes = Vec::new();
        if let Role::Member { elements, .. } = &stage.role {
            for part in elements.boxes() {
                if !self.is_within(part)? {
                    return Err(Refusal::Outside { part: part.clone().into(), shape: self.shape.clone() });
                }
            }
            for other in self.records.values().filter(|other| other.writer != who.writer) {
                self.compare(other, who, &stage, elements, &mut disputes)?;
            }
        }
        self.disputes.extend(disputes);
        let record = self.records.entry(who.writer).or_insert_with(|| Record::new(who.writer, who.rank));
        record.stages.push(stage);
        Ok(())
    }

    /// Takes note of a writer and its stages, ascending, as somebody had them who [declared](Self::declare) them one by one and kept
    /// those that were not refused. Nothing is compared again: to declare many takes time with the square of their number.
    pub fn restore(&mut self, who: Who, stages: Vec<Stage>) {
        let record = self.records.entry(who.writer).or_insert_with(|| Record::new(who.writer, who.rank));
        record.stages = stages;
    }

    /// Whether the object has all elements of a box.
    fn is_within(&self, part: &IndexBox) -> Result<bool, TooScattered> {
        // Mostly one box of the shape has them all; sets are compared only where several may have them together.
        match self.shape.boxes() {
            [one] => Ok(one.contains_all(part)),
            boxes if boxes.iter().any(|one| one.contains_all(part)) => Ok(true),
            _ => self.shape.contains_all(&part.clone().into()),
        }
    }

    fn check_order(&self, writer: Writer, stage: &Stage, until: Option<Version>) -> Result<(), Refusal> {
        let from = stage.from;
        let record = self.records.get(&writer);
        let newest = record.and_then(|record| record.published.newest).unwrap_or(self.initial);
        let until = until.unwrap_or(Version::MAX).max(from);
        // Who leaves or dies is a member of no version that is fixed and that it has not published.
        let may_be_late = !matches!(stage.role, Role::Member { .. }) || self.planted.has(Bug::LateChanges);
        let fixed = self.settled.range(from..until).next_back().filter(|_| !may_be_late).copied();
        if let Some(settled) = fixed.into_iter().chain([newest]).find(|settled| from <= *settled) {
            return Err(Refusal::Late { from, settled });
        }
        match record.and_then(|record| record.stages.last()) {
            Some(last) if last.from >= from => Err(Refusal::Order { from, last: last.from }),
            _ => Ok(()),
        }
    }

    /// Looks whether a new stage, the last of its writer, has elements in common with stages of another writer.
    fn compare(
        &self,
        other: &Record,
        who: Who,
        stage: &Stage,
        elements: &Elements,
        disputes: &mut Vec<Dispute>,
    ) -> Result<(), Refusal> {
        for (position, theirs) in other.stages.iter().enumerate() {
            let Role::Member { elements: their_elements, .. } = &theirs.role else { continue };
            let is_over = other.stages.get(position + 1).is_some_and(|next| next.from <= stage.from);
            if is_over || self.planted.has(Bug::Overlaps) {
                continue;
            }
            let meets = |a: &IndexBox| their_elements.boxes().iter().any(|b| a.intersection(b).is_some());
            if !elements.boxes().iter().any(meets) {
                continue;
            }
            let version = stage.from.max(theirs.from);
            let (old_from, old) = if theirs.from < stage.from {
                (theirs.from, Some(other))
            } else {
                (stage.from, self.records.get(&who.writer))
            };
            if stage.from != theirs.from && !old.is_some_and(|old| old.has_reached(version)) {
                let (old, young) =
                    if old_from == theirs.from { (other.writer, who.writer) } else { (who.writer, other.writer) };
                disputes.push(Dispute { from: version, young, old });
                continue;
            }
            return Err(Box::new(Overlap {
                version,
                first: other.who(),
                first_elements: their_elements.clone(),
                second: who,
                second_elements: elements.clone(),
                elements: their_elements.intersection(elements)?.into(),
            })
            .into());
        }
        Ok(())
    }

    /// Takes note of what a writer published, and let go of.
    pub fn note(&mut self, writer: Writer, published: Published) {
        if let Some(record) = self.records.get_mut(&writer) {
            record.published = published;
        }
    }

    /// Takes back a stage of a writer, as if it had not been declared.
    pub fn withdraw(&mut self, writer: Writer, from: Version) {
        if let Some(record) = self.records.get_mut(&writer) {
            record.stages.retain(|stage| stage.from != from);
            if record.stages.is_empty() {
                self.records.remove(&writer);
            }
        }
        self.disputes.retain(|one| one.from != from || (one.young != writer && one.old != writer));
    }

    /// Notes that a writer died: it leaves behind the newest version that it published.
    pub fn die(&mut self, writer: Writer) {
        if let Some(record) = self.records.get_mut(&writer) {
            record.die();
        }
    }

    /// Forgets a writer of which no version is left.
    pub fn forget(&mut self, writer: Writer) {
        self.records.remove(&writer);
        self.disputes.retain(|one| one.young != writer && one.old != writer);
    }

    /// Notes that a node was lost: its writers have died, and their versions are gone.
    pub fn lose(&mut self, node: Node) {
        self.lost.insert(node);
        for record in self.records.values_mut().filter(|record| record.writer.node == node) {
            record.die();
            record.published.present.clear();
        }
    }

    /// Whether a node was lost.
    pub fn is_lost(&self, node: Node) -> bool {
        self.lost.contains(&node)
    }

    /// Ends the disputes that are over. Where the older fragment was published unchanged, the younger one is withdrawn:
    /// these are returned, with the version from which they were to count.
    pub fn settle_disputes(&mut self) -> Vec<(Writer, Version, Refusal)> {
        let mut refused = Vec::new();
        for dispute in std::mem::take(&mut self.disputes) {
            let found = (self.records.get(&dispute.old), self.records.get(&dispute.young));
            let (Some(old), Some(young)) = found else { continue };
            let both = (old.elements(dispute.from), young.elements(dispute.from));
            let (Some(first_elements), Some(second_elements)) = both else { continue };
            match first_elements.intersection(second_elements) {
                Ok(common) if common.is_empty() => {}
                Ok(common) if old.has_reached(dispute.from) => {
                    let overlap = Overlap {
                        version: dispute.from,
                        first: old.who(),
                        first_elements: first_elements.clone(),
                        second: young.who(),
                        second_elements: second_elements.clone(),
                        elements: common.into(),
                    };
                    refused.push((dispute.young, dispute.from, Box::new(overlap).into()));
                }
                Ok(_) | Err(TooScattered) => {
                    self.disputes.insert(dispute);
                }
            }
        }
        for (writer, from, _) in &refused {
            self.withdraw(*writer, *from);
        }
        refused
    }

    pub(crate) fn is_disputed(&self, writer: Writer, version: Version) -> bool {
        let is_now = |record: Option<&Record>, from| {
            record.and_then(|record| record.stage(version)).is_some_and(|stage| stage.from <= from)
        };
        self.disputes.iter().filter(|one| one.young == writer || one.old == writer).any(|one| {
            one.from <= version && is_now(self.record(one.old), one.from) && is_now(self.record(one.young), one.from)
        })
    }

    /// Who writes what in a version.
    pub fn roster(&self, version: Version) -> Roster<'_> {
        let members = self.records.values().filter_map(|record| Member::of(record, version)).collect();
        let epoch = self.records.values().filter_map(|record| Some(record.stage(version)?.from)).max();
        Roster { version, epoch: epoch.unwrap_or(self.initial), members, shape: &self.shape }
    }

    /// First versions of the epochs that are known, ascending.
    pub fn epochs(&self) -> BTreeSet<Version> {
        self.records.values().flat_map(|record| record.stages.iter().map(|stage| stage.from)).collect()
    }

    /// Whether a version is whole: its roster is closed, and every member has it.
    pub fn is_whole(&self, version: Version) -> Result<bool, TooScattered> {
        if version == self.initial {
            return Ok(true);
        }
        let roster = self.roster(version);
        let is_there = roster.members.iter().all(|member| member.has(version)) || self.planted.has(Bug::Unpublished);
        if roster.members.is_empty() || !is_there {
            return Ok(false);
        }
        Ok(self.planted.has(Bug::OpenRosters) || roster.closure()? == Closure::Closed)
    }

    /// The newest version above one that is whole. Where all lies on one node it is the complete one.
    pub fn newest_whole(&self, above: Version) -> Result<Option<Version>, TooScattered> {
        let present = self.records.values().flat_map(|record| &record.published.present);
        let above: BTreeSet<Version> = present.copied().filter(|version| *version > above).collect();
        for version in above.into_iter().rev() {
            if self.is_whole(version)? {
                return Ok(Some(version));
            }
        }
        Ok(None)
    }

    /// Elements of a version that nobody writes.
    pub fn holes(&self, version: Version) -> Result<IndexSet, TooScattered> {
        self.roster(version).holes()
    }
}
