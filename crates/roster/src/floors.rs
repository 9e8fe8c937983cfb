//! What was complete before the present run of a job.
//!
//! Where all runtimes of a job end and are started again, no home remembers what was complete. A fragment that a former run left on one
//! node may then fit to one that somebody attaches on another, new node, and both may have a version of the same number: half of it would
//! be of the former run, half of this one. So each node reports its *floor*, the newest version that its programs know to be complete
//! from before its runtime began, and which fragments are from before, too. What lies at or below the floor of one of these is made of
//! such fragments only.
//!
//! Where one runtime alone was started again the run goes on: the home knows that what the node has was announced, and what other nodes have
//! of it is of the same run. What then counts is the *run's floor*, which each runtime leaves to the next one on its machine.

use crate::{
    ledger::Ledger,
    message::Told,
    writer::{Record, Version},
};

impl Ledger {
    /// Notes which fragments of a node are from before its runtime began, and what was complete before the run.
    pub(crate) fn note_floor(&mut self, writers: &[Told], floor: Version) {
        if floor > self.initial() {
            let restored = writers.iter().filter(|told| told.is_restored);
            self.floors.extend(restored.map(|told| (told.record.writer, floor)));
            self.highest_floor = self.highest_floor.max(floor);
        }
    }

    /// Whether some members have a version of this number from a former run, and others can only have it from this one.
    pub(crate) fn is_of_two_runs(&self, version: Version) -> bool {
        // In what was proposed in this run all have their part of it; not so in what was announced as gone.
        let is_proposed = self.settled.contains_key(&version) && self.gone != Some(version);
        if version > self.highest_floor || is_proposed {
            return false;
        }
        let members = || self.records().filter(|record| record.elements(version).is_some());
        members().any(|record| self.is_of_former_run(record, version))
            && members().any(|record| !self.floors.contains_key(&record.writer))
    }

    /// Whether what a writer has of a version was complete before the run began.
    fn is_of_former_run(&self, record: &Record, version: Version) -> bool {
        self.floors.get(&record.writer).is_some_and(|floor| version <= *floor)
    }
}
