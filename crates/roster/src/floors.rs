//! What was complete before a runtime began.
//!
//! Where all runtimes of a job end and are started again, no home remembers what was complete. A fragment that a former run left on one
//! node may then fit to one that somebody attaches on another, new node, and both may have a version of the same number: half of it would
//! be of the former run, half of this one. So each node reports its *floor*, the newest version that its programs know to be complete
//! from before its runtime began, and no version that lies at or below the floor of one member is made with a member whose node has none.

use crate::{
    ledger::Ledger,
    writer::{Node, Record, Version},
};

impl Ledger {
    /// Notes the newest version that was complete before the runtime of a node began; the initial one where none was.
    pub(crate) fn note_floor(&mut self, node: Node, floor: Version) {
        if floor > self.initial() {
            self.floors.insert(node, floor);
        }
    }

    /// Whether some members have a version of this number from a former run, and others can only have it from this one.
    pub(crate) fn is_of_two_runs(&self, version: Version) -> bool {
        // In what was proposed in this run all have their part of it.
        if self.floors.is_empty() || self.settled.contains_key(&version) {
            return false;
        }
        let members = || self.records().filter(|record| record.elements(version).is_some());
        let floor = |record: &Record| self.floors.get(&record.writer.node).copied();
        members().any(|record| floor(record).is_some_and(|floor| version <= floor))
            && members().any(|record| floor(record).is_none())
    }
}
