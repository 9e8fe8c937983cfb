//! What is told of nodes, homes and objects.

use crate::shard::Shard;
use crate::values::NodeInfo;
use std::num::NonZeroU64;
use stillframe_object::Description;
use stillframe_roster::writer::{Node, Revision};

/// The home of a shard's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Home {
    /// Which node it is.
    pub node: Node,
    /// Its term; a later home of the shard has a greater one.
    pub term: Revision,
}

/// A change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A node joined.
    NodeJoined {
        /// Its number.
        node: Node,
        /// What it says of itself.
        info: NodeInfo,
    },
    /// A node left, its lease ended, or it has not come back since [`NamesLost`](Event::NamesLost). It does not come back.
    NodeLost {
        /// Its number.
        node: Node,
    },
    /// A shard has another home, or the same for another term, or none.
    HomeChanged {
        /// The shard.
        shard: Shard,
        /// Its home; `None`: it has none until a node claims it.
        home: Option<Home>,
    },
    /// An object was created.
    ObjectCreated {
        /// Its name.
        name: String,
        /// What it is.
        description: Description,
    },
    /// An object was removed.
    ObjectRemoved {
        /// Its name.
        name: String,
        /// Its id.
        id: NonZeroU64,
    },
    /// An object is not in etcd since [`NamesLost`](Event::NamesLost), and nobody has put it back for as long as the handle's grace. Nobody
    /// removed it: whoever has it still puts it there again.
    ObjectMissing {
        /// Its name.
        name: String,
        /// Its id.
        id: NonZeroU64,
    },
    /// etcd has lost its data. Nothing is said to be removed because of that: whoever knows nodes and objects puts them there again
    /// ([`Cluster::rebuild`](crate::Cluster::rebuild)), and what has not come back after a while is told then.
    NamesLost,
    /// A key or value that no healthy process writes. It is left alone.
    Refused {
        /// The key, as it can be shown.
        key: String,
        /// What is wrong.
        why: String,
    },
}

/// A change, and when it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The revision of etcd's data that made it. What was found by reading all anew has the revision that was read. It never
    /// goes down but after [`Event::NamesLost`].
    pub revision: u64,
    /// The change.
    pub event: Event,
}
