//! All that is known of an object's writers, merged.

use std::collections::{BTreeMap, BTreeSet};

use drepl::{IndexBox, IndexSet, index_box::TooScattered};

use crate::{
    derived::Derived,
    message::Proposal,
    near::{self, Near},
    planted::{Bug, Planted},
    refusal::{Overlap, Refusal},
    roster::{Closure, Member, Roster},
    tally::Tally,
    writer::{Elements, Node, Published, Record, Role, Stage, Version, Who, Writer},
};

/// With fewer writers each new fragment is compared with those of all others, without a search for those that lie near. The crate's own
/// tests always search.
const FEW: usize = if cfg!(test) { 1 } else { 256 };

/// Two fragments that have elements in common from a version on, of which the older may still be changed before then. A stage of
/// the younger begins with that version: as long as there is a dispute, it may be withdrawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Dispute {
    from: Version,
    young: Writer,
    old: Writer,
    /// Whether both were accepted before: if the older one's writer is gone, the younger took its place.
    is_accepted: bool,
}

/// A stage that is entered.
#[derive(Clone, Copy)]
struct Entering<'a> {
    who: Who,
    stage: &'a Stage,
    /// Whether it was accepted before.
    is_accepted: bool,
    /// Whether its writer is gone.
    has_ended: bool,
    /// A version that is whole and may be proposed next.
    whole: Option<Version>,
}

/// What follows for others if it is.
#[derive(Default)]
struct Met {
    disputes: Vec<Dispute>,
    /// Writers that are gone, and whose place it takes.
    ended: Vec<Writer>,
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
    /// Writers from before the runtimes of their nodes began, with the newest version that was complete by then.
    pub(crate) floors: BTreeMap<Writer, Version>,
    /// The highest of these that there was.
    pub(crate) highest_floor: Version,
    /// The newest version of a former run that was announced as gone: a machine of that run is another one.
    pub(crate) gone: Option<Version>,
    /// The newest version of a former run, while reports are merged of which the home learns that it may be gone.
    pub(crate) reserved: Option<Version>,
    /// Versions whose rosters are fixed, with the first ones of their epochs: a stage that begins between was not known then.
    pub(crate) settled: BTreeMap<Version, Version>,
    /// The newest complete version where a home took over: whoever has a part in it keeps its place, whoever comes back.
    pub(crate) taken_over: Option<Proposal>,
    /// Writers that are gone and whose place others took, as long as their node may not know it.
    pub(crate) ended: BTreeMap<Writer, Version>,
    /// What follows from the records.
    tally: Derived<Tally>,
    /// Where fragments lie, once there are many; none while it is to be made anew.
    near: Derived<Option<Near>>,
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
            floors: BTreeMap::new(),
            highest_floor: initial,
            gone: None,
            reserved: None,
            settled: BTreeMap::new(),
            taken_over: None,
            ended: BTreeMap::new(),
            tally: Derived::default(),
            near: Derived::default(),
            planted: Planted::default(),
        }
    }

    /// The same, with what follows from the records found anew.
    #[cfg(test)]
    pub(crate) fn anew(&self) -> Self {
        let mut anew = Self { tally: Derived::default(), near: Derived::default(), ..self.clone() };
        self.records.values().for_each(|record| anew.tally.add(record));
        anew
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

    /// What is known of a node's writers, in the order of their names.
    pub fn records_of(&self, node: Node) -> impl Iterator<Item = &Record> {
        let named = |number| Writer { node, process: number, serial: number };
        self.records.range(named(0)..=named(u32::MAX)).map(|(_, record)| record)
    }

    /// A number that is another whenever what writers declared is, or what of it is disputed.
    pub fn changes(&self) -> u64 {
        self.tally.changes()
    }

    /// Fixes the roster of a version, because it is proposed or complete. Those of which nothing is left are forgotten.
    /// Whether it was not fixed before.
    pub fn settle(&mut self, version: Version, epoch: Version) -> bool {
        let oldest = self.tally.oldest();
        let before = self.settled.insert(version, epoch);
        self.settled.retain(|settled, _| *settled >= oldest.unwrap_or(version).min(version));
        before.is_none()
    }

    /// A version was proposed and cannot become complete: its roster may change again.
    pub fn unsettle(&mut self, version: Version) {
        self.settled.remove(&version);
    }

    /// Lets a writer be something else from a version on, and up to another, if it is known already to change again then.
    ///
    /// Elements of another that began before may be taken as long as that one has not come to this version: if it does and has
    /// not changed by then, the stage is [withdrawn](Self::settle_disputes). Elements that another declared for a later version
    /// may not. Of a writer that is gone they may be taken from any version on that was not proposed: what it published from there on
    /// then counts for nothing.
    ///
    /// # Errors
    ///
    /// See [`Refusal`]. Then nothing has changed.
    pub fn declare(&mut self, who: Who, stage: Stage, until: Option<Version>) -> Result<(), Refusal> {
        self.declare_beside(who, stage, until, None)
    }

    /// The same beside a version that is `whole` and may be proposed next: writers that are gone keep their elements of it, for their node
    /// may have shown that it is complete.
    pub(crate) fn declare_beside(
        &mut self,
        who: Who,
        stage: Stage,
        until: Option<Version>,
        whole: Option<Version>,
    ) -> Result<(), Refusal> {
        self.check_late(&stage, until)?;
        self.enter(Entering { who, stage: &stage, is_accepted: false, has_ended: false, whole })
    }

    /// Takes note of a stage that was declared before, where what was declared is put together again: it is not late, and whom it
    /// meets may have been declared after it; so may who took its writer's place, if that has ended.
    ///
    /// # Errors
    ///
    /// See [`Refusal`]. Then nothing has changed.
    pub fn accept(&mut self, who: Who, stage: Stage, has_ended: bool) -> Result<(), Refusal> {
        self.enter(Entering { who, stage: &stage, is_accepted: true, has_ended, whole: None })
    }

    fn enter(&mut self, entering: Entering<'_>) -> Result<(), Refusal> {
        let Entering { who, stage, .. } = entering;
        self.check_order(who.writer, stage)?;
        self.prepare_search();
        let mut met = Met::default();
        if let Role::Member { elements, .. } = &stage.role {
            for part in elements.boxes() {
                if !self.is_within(part)? {
                    return Err(Refusal::Outside { part: part.clone().into(), shape: self.shape.clone() });
                }
            }
            for other in self.near(elements).into_iter().filter(|other| other.writer != who.writer) {
                self.compare(other, entering, &mut met)?;
            }
        }
        self.disputes.extend(met.disputes);
        met.ended.into_iter().for_each(|other| self.end(other, stage.from));
        if let (Some(near), Some(elements)) = (&mut *self.near, near::elements_of(&stage.role)) {
            near.add(who.writer, elements, rank_of(&self.shape));
        }
        self.change(who.writer, Some(who), |record| record.stages.push(stage.clone()));
        self.tally.note_change(stage.from);
        Ok(())
    }

    /// Changes what is known of a writer, if anything is or the writer is new.
    fn change(&mut self, writer: Writer, new: Option<Who>, change: impl FnOnce(&mut Record)) {
        if let Some(record) = self.records.get_mut(&writer) {
            self.tally.remove(record);
            change(record);
            self.tally.add(record);
        } else if let Some(who) = new {
            let mut record = Record::new(who.writer, who.rank);
            change(&mut record);
            self.tally.add(&record);
            self.records.insert(writer, record);
        }
    }

    /// The same, where stages may be withdrawn or end earlier.
    pub(crate) fn change_stages(&mut self, writer: Writer, new: Option<Who>, change: impl FnOnce(&mut Record)) {
        let stages = |ledger: &Self| ledger.record(writer).map_or_else(Vec::new, |record| record.stages.clone());
        let before = stages(self);
        self.change(writer, new, change);
        let after = stages(self);
        self.tally.note_stages(&before, &after);
    }

    /// Makes the search for fragments ready, if there are many.
    fn prepare_search(&mut self) {
        if self.near.as_ref().is_some_and(Near::is_old) {
            *self.near = None;
        }
        if self.near.is_none() && self.records.len() >= FEW {
            *self.near = Some(Near::new(self.records.values(), rank_of(&self.shape)));
        }
    }

    /// Writers that may have some of these elements, in the order of their names. Those that are left out have none.
    pub(crate) fn near(&self, elements: &IndexSet) -> Vec<&Record> {
        match &*self.near {
            Some(near) => near.of(elements).into_iter().filter_map(|writer| self.records.get(&writer)).collect(),
            None => self.records.values().filter(|record| near::is_near(record, elements)).collect(),
        }
    }

    /// Takes note of a writer and its stages, ascending, as somebody had them who [declared](Self::declare) them one by one and kept
    /// those that were not refused. Nothing is compared again: to declare many takes time with the square of their number.
    pub fn restore(&mut self, who: Who, stages: Vec<Stage>) {
        *self.near = None;
        self.change_stages(who.writer, Some(who), |record| record.stages = stages);
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

    fn check_late(&self, stage: &Stage, until: Option<Version>) -> Result<(), Refusal> {
        let from = stage.from;
        let until = until.unwrap_or(Version::MAX).max(from);
        // Who leaves or dies is a member of no version that is fixed and that it has not published.
        let is_broken = self.planted.has(Bug::LateChanges) || self.planted.has(Bug::Robbed);
        let may_be_late = !matches!(stage.role, Role::Member { .. }) || is_broken;
        let fixed = self.settled.range(from..until).next_back().map(|(settled, _)| *settled);
        // What was complete before the run is so still on nodes that remember it: nobody gives its numbers to anything else.
        let former = self.reserved.filter(|floor| (from..until).contains(floor));
        match fixed.max(former).filter(|_| !may_be_late) {
            Some(settled) => Err(Refusal::Late { from, settled }),
            None => Ok(()),
        }
    }

    fn check_order(&self, writer: Writer, stage: &Stage) -> Result<(), Refusal> {
        let from = stage.from;
        let record = self.records.get(&writer);
        let newest = record.and_then(|record| record.published.newest).unwrap_or(self.initial);
        if from <= newest {
            return Err(Refusal::Late { from, settled: newest });
        }
        match record.and_then(|record| record.stages.last()) {
            Some(last) if last.from >= from => Err(Refusal::Order { from, last: last.from }),
            _ => Ok(()),
        }
    }

    /// Looks whether a new stage, the last of its writer, has elements in common with stages of another writer.
    fn compare(&self, other: &Record, entering: Entering<'_>, met: &mut Met) -> Result<(), Refusal> {
        let Entering { who, stage, is_accepted, has_ended, whole } = entering;
        let Role::Member { elements, .. } = &stage.role else { return Ok(()) };
        for theirs in &other.stages {
            let Role::Member { elements: their_elements, .. } = &theirs.role else { continue };
            if !self.may_last(other, theirs.from, stage.from) || self.planted.has(Bug::Overlaps) {
                continue;
            }
            let meets = |a: &IndexBox| their_elements.boxes().iter().any(|b| a.intersection(b).is_some());
            if !elements.boxes().iter().any(meets) {
                continue;
            }
            let version = stage.from.max(theirs.from);
            // Two of one version both of which were accepted: one took the place of the other, of which nothing was left.
            let may_precede = || theirs.from == stage.from && !self.is_of_fixed(other, theirs.from);
            if other.has_ended() && (!is_accepted || may_precede()) {
                // What a version that may be complete consists of stays.
                let fixed = self.settled.keys().next_back().copied().max(whole).filter(|fixed| *fixed >= stage.from);
                if let Some(settled) = fixed.filter(|_| !is_accepted && !self.planted.has(Bug::Robbed)) {
                    return Err(Refusal::Late { from: stage.from, settled });
                }
                met.ended.push(other.writer);
                continue;
            }
            // The older fragment may still be changed as long as it has not reached the version in which both meet. What was
            // declared for a later version may have been read by now: who comes into its way is refused. Of one that is gone all
            // that is known has to be there first.
            if theirs.from < stage.from && (!other.has_reached(version) || is_accepted && other.has_ended()) {
                met.disputes.push(Dispute { from: version, young: who.writer, old: other.writer, is_accepted });
                continue;
            }
            // Of a writer that was lost and is back: others took its place, and have read what came of that.
            let is_heir =
                !has_ended && self.settled.range(theirs.from..).any(|(settled, _)| other.has_reached(*settled));
            if is_accepted && stage.from < theirs.from && !is_heir {
                met.disputes.push(Dispute { from: version, young: other.writer, old: who.writer, is_accepted });
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
        if let Some(record) = self.records.get_mut(&writer)
            && record.published != published
        {
            self.tally.publish(record, published);
        }
    }

    /// Takes back a stage of a writer, as if it had not been declared, with what was published of it.
    pub fn withdraw(&mut self, writer: Writer, from: Version) {
        self.change_stages(writer, None, |record| record.withdraw(from));
        if self.records.get(&writer).is_some_and(|record| record.stages.is_empty()) {
            self.remove(writer);
        }
        self.disputes.retain(|one| one.from != from || one.young != writer);
    }

    /// Notes that a writer died: it leaves behind the newest version that it published.
    pub fn die(&mut self, writer: Writer) {
        self.change_stages(writer, None, Record::die);
    }

    /// Forgets a writer of which no version is left.
    pub fn forget(&mut self, writer: Writer) {
        self.remove(writer);
        self.floors.remove(&writer);
        self.disputes.retain(|one| one.young != writer && one.old != writer);
    }

    fn remove(&mut self, writer: Writer) {
        self.ended.remove(&writer);
        if let Some(record) = self.records.remove(&writer) {
            self.tally.remove(&record);
            self.tally.note_stages(&record.stages, &[]);
        }
    }

    /// Notes that a node was lost: its writers have died, and their versions are gone.
    pub fn lose(&mut self, node: Node) {
        self.lost.insert(node);
        let own: Vec<Writer> = self.records_of(node).map(|record| record.writer).collect();
        for writer in own {
            self.change_stages(writer, None, |record| {
                record.die();
                record.published.present.clear();
            });
        }
    }

    /// Whether a node was lost.
    pub fn is_lost(&self, node: Node) -> bool {
        self.lost.contains(&node)
    }

    /// Who writes what in a version.
    pub fn roster(&self, version: Version) -> Roster<'_> {
        let members = self.records.values().filter_map(|record| Member::of(record, version)).collect();
        let epoch = self.tally.epoch(version).map_or(self.initial, |(from, _)| from);
        Roster { version, epoch, members, shape: &self.shape }
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
        let Some((_, epoch)) = self.tally.epoch(version) else { return Ok(false) };
        let having = self.tally.members_having(version);
        let may_lack = self.planted.has(Bug::Unpublished);
        if having == 0 && !may_lack {
            return Ok(false);
        }
        let count = || self.records.values().filter(|record| record.elements(version).is_some()).count();
        let members = *epoch.members.get_or_init(count);
        if members == 0 || !may_lack && (having < members || self.has_disputed(version)) {
            return Ok(false);
        }
        if self.is_of_two_runs(version) {
            return Ok(false);
        }
        Ok(self.planted.has(Bug::OpenRosters) || self.closure(version)? == Closure::Closed)
    }

    /// Whether all members of a version are there.
    pub(crate) fn closure(&self, version: Version) -> Result<Closure, TooScattered> {
        let closure = || self.roster(version).closure();
        match self.tally.epoch(version) {
            Some((_, epoch)) => epoch.closure.get_or_init(closure).clone(),
            None => closure(),
        }
    }

    /// Whether a member's elements of a version are disputed.
    fn has_disputed(&self, version: Version) -> bool {
        let is_disputed = |record: &Record| self.is_disputed(record.writer, version);
        !self.disputes.is_empty()
            && self.records.values().filter(|record| record.elements(version).is_some()).any(is_disputed)
    }

    /// The newest version above one that is whole. Where all lies on one node it is the complete one.
    pub fn newest_whole(&self, above: Version) -> Result<Option<Version>, TooScattered> {
        self.newest_whole_within(above, Version::MAX)
    }

    /// The same of versions up to one.
    pub fn newest_whole_within(&self, above: Version, most: Version) -> Result<Option<Version>, TooScattered> {
        for version in self.tally.versions_above(above).filter(|version| *version <= most) {
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

/// How many axes the boxes of an object have.
fn rank_of(shape: &Elements) -> usize {
    shape.boxes().first().map_or(0, IndexBox::rank)
}

#[path = "disputes.rs"]
mod disputes;
