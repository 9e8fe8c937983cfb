//! Who takes the place of a writer that is gone.
//!
//! What a writer published before it left or died stays as far as versions were proposed with it. From any version on that was
//! not, another may take its elements: then that one writes them, whatever the one before had published of them.

use crate::{
    ledger::Ledger,
    near,
    planted::Bug,
    roster::Closure,
    writer::{Node, Record, Stage, Version, Writer},
};

impl Ledger {
    /// Lets a writer that is gone be a member of no version from one on.
    pub(crate) fn end(&mut self, writer: Writer, from: Version) {
        if self.planted.has(Bug::DeadStay) {
            return;
        }
        self.change_stages(writer, None, |record| _ = record.end_at(from));
        self.ended.insert(writer, from);
    }

    /// Lets a writer that its node will tell of be a member of no version from one on, if it is not known already when it ended.
    pub(crate) fn expect_end(&mut self, writer: Writer, from: Version) {
        self.ended.entry(writer).or_insert(from);
    }

    /// From which version on another has a writer's place, if its node may not know that.
    pub fn ended(&self, writer: Writer) -> Option<Version> {
        self.ended.get(&writer).copied()
    }

    /// Writers of a node whose place others took, and from when on, as long as the node may not know it.
    pub fn ended_of(&self, node: Node) -> impl Iterator<Item = (Writer, Version)> {
        let named = |number| Writer { node, process: number, serial: number };
        self.ended.range(named(0)..=named(u32::MAX)).map(|(writer, from)| (*writer, *from))
    }

    /// Nodes that may not know that others took places of their writers.
    pub(crate) fn unheard(&self) -> impl Iterator<Item = Node> {
        self.ended.keys().map(|writer| writer.node)
    }

    /// The node of a writer knows that another has its place.
    pub fn note_heard(&mut self, writer: Writer) {
        self.ended.remove(&writer);
    }

    /// Whether a fragment can have taken the place of one that is gone: it is in all versions that were proposed since, until it ended.
    pub(crate) fn may_inherit(&self, young: &Record, from: Version) -> bool {
        let end = young.end().unwrap_or(Version::MAX);
        let mut settled = self.settled.range(from..).take_while(|(version, _)| **version < end);
        !self.planted.has(Bug::Disinherited)
            && settled.all(|(version, epoch)| *epoch >= from && young.has_reached(*version))
    }

    /// Whether a writer that has ended has a part in versions that were proposed, from one on: nobody from before that takes its place.
    pub(crate) fn is_of_fixed(&self, ended: &Record, from: Version) -> bool {
        !self.is_lost(ended.writer.node)
            && self
                .settled
                .range(from..)
                .any(|(version, _)| ended.elements(*version).is_some() && ended.has_reached(*version))
    }

    /// The first version above one from which on a living writer of another machine has elements of a writer. `own` are all numbers that
    /// the machine of that writer had.
    pub(crate) fn heir_above(&self, record: &Record, version: Version, own: &[Node]) -> Option<Version> {
        let is_other = |other: &&Record| !own.contains(&other.writer.node) && !other.has_ended();
        let elements = record.stages.iter().filter_map(|stage| near::elements_of(&stage.role));
        let others = elements.flat_map(|elements| self.near(elements)).filter(is_other);
        let stages = others.flat_map(|other| &other.stages).filter(|stage| stage.from > version);
        let meets = |stage: &&Stage| {
            let both = near::elements_of(&stage.role).zip(record.elements(stage.from));
            both.is_some_and(|(theirs, own)| theirs.intersection(own).is_ok_and(|common| !common.is_empty()))
        };
        stages.filter(meets).map(|stage| stage.from).min()
    }

    /// Whether versions that were proposed lack just a stage like this one, which begins with one of them: then it was accepted, and
    /// its runtime ended before it had written that down.
    pub(crate) fn lacks(&self, record: &Record, from: Version) -> bool {
        let is_lacking = |version| matches!(self.closure(version), Ok(Closure::Open { .. }));
        let mut settled = self.settled.range(from..).peekable();
        settled.peek().is_some()
            && settled.all(|(version, epoch)| *epoch >= from && record.has_reached(*version) && is_lacking(*version))
    }
}
