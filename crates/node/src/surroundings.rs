//! What an object needs of its node.

use crate::cluster::Cluster;
use crate::filling::Filling;
use crate::memory::Memory;
use crate::outbox::Outbox;
use crate::sending::{Job, Way};
use std::sync::Arc;
use stillframe::Snapshot;
use stillframe_object::runtime::Reply;
use stillframe_roster::writer::Node;
use stillframe_wire::{Message, ObjectId};

/// The node, what is to go to others, and what is to be done once no lock is held.
pub(crate) struct Surroundings<'a> {
    pub(crate) node: Node,
    pub(crate) cluster: &'a dyn Cluster,
    pub(crate) outbox: &'a mut Outbox,
    /// For what programs of this node read of other nodes.
    pub(crate) memory: &'a Memory,
    /// Versions to send, by threads that need no lock.
    pub(crate) jobs: &'a mut Vec<(Node, Job)>,
    /// Elements of this node to put into its own fragments, by the same.
    pub(crate) own: &'a mut Vec<OwnJob>,
    /// What to tell readers of this node.
    pub(crate) replies: &'a mut Vec<(u64, Reply)>,
}

/// Elements of this node's writers for a fragment of this node.
#[derive(Debug)]
pub(crate) struct OwnJob {
    /// By which number the others who have elements of it know the fragment.
    pub(crate) subscription: u64,
    pub(crate) filling: Arc<Filling>,
    pub(crate) ways: Arc<Vec<Way>>,
    /// Of each way.
    pub(crate) snapshots: Vec<Snapshot>,
}

/// What is to be done once no lock is held.
#[derive(Debug, Default)]
pub(crate) struct Todo {
    pub(crate) jobs: Vec<(Node, Job)>,
    pub(crate) own: Vec<OwnJob>,
    pub(crate) replies: Vec<(u64, Reply)>,
    pub(crate) unknown: Vec<Unknown>,
}

/// An object that another node speaks of and that is not known here, to be asked for where the names are kept.
#[derive(Debug, Clone)]
pub(crate) struct Unknown {
    pub(crate) id: ObjectId,
    pub(crate) name: String,
    /// Which node spoke of it.
    pub(crate) from: Node,
}

impl Surroundings<'_> {
    pub(crate) fn send(&mut self, to: Node, message: Message) {
        self.outbox.push(to, message);
    }
}
