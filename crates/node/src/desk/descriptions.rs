//! What nodes say to each other of objects that those who keep the names do not know: one node alone may have them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use stillframe_roster::writer::Node;
use stillframe_wire::ObjectId;

/// After how many leases an answer is expected no more. Whoever has the object answers within one, and a little more.
const LEASES_MAX: u32 = 3;

/// What was asked, in either direction.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    /// Objects that this node asked another one about, and since when.
    wanted: BTreeMap<ObjectId, Instant>,
    /// Nodes that asked this one about an object that it has as one of all nodes, and since when.
    owed: BTreeMap<(ObjectId, Node), Instant>,
}

impl Descriptions {
    /// This node asks another one what an object is.
    pub(super) fn expect(&mut self, id: ObjectId) {
        self.wanted.insert(id, Instant::now());
    }

    /// Whether an answer was asked for, which is expected no more then.
    pub(super) fn accept(&mut self, id: ObjectId) -> bool {
        self.wanted.remove(&id).is_some()
    }

    /// A node is to be answered later, unless the object is removed meanwhile.
    pub(super) fn owe(&mut self, id: ObjectId, to: Node) {
        self.owed.entry((id, to)).or_insert_with(Instant::now);
    }

    /// An object is none any more: nobody is told what it is, nor asked.
    pub(super) fn forget(&mut self, id: ObjectId) {
        self.wanted.remove(&id);
        self.owed.retain(|(owed, _), _| *owed != id);
    }

    /// A node does not live any more.
    pub(super) fn forget_node(&mut self, node: Node) {
        self.owed.retain(|(_, to), _| *to != node);
    }

    /// Who has waited for a lease, and is to be answered. What this node was not answered for long it expects no more.
    pub(super) fn due(&mut self, lease: Duration) -> Vec<(ObjectId, Node)> {
        self.wanted.retain(|_, since| since.elapsed() < lease * LEASES_MAX);
        let is_due = |since: &Instant| since.elapsed() >= lease;
        let due = self.owed.iter().filter(|(_, since)| is_due(since)).map(|(owed, _)| *owed).collect();
        self.owed.retain(|_, since| !is_due(since));
        due
    }
}
