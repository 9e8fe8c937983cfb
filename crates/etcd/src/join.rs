//! Options for becoming a node.

use crate::epoch;
use crate::values::NodeInfo;
use std::collections::BTreeSet;
use std::time::Duration;
use stillframe_roster::writer::Node;

/// The nodes of a job, as a former node of this machine knew them.
#[derive(Debug, Clone)]
pub(crate) struct Remembered {
    /// Of etcd's data then.
    pub(crate) epoch: u64,
    pub(crate) nodes: Vec<(Node, NodeInfo)>,
    /// Those that had not come back by then, since data of another epoch were lost.
    pub(crate) missing: BTreeSet<Node>,
}

impl Remembered {
    /// The nodes that may have still to come back to data of this epoch.
    pub(crate) fn expected(self, epoch: u64) -> Vec<(Node, NodeInfo)> {
        let Remembered { epoch: then, mut nodes, missing } = self;
        nodes.retain(|(node, _)| epoch != then || missing.contains(node));
        nodes
    }
}

/// Options for joining; see [`Cluster::join`](crate::Cluster::join).
#[derive(Debug, Clone)]
pub struct JoinOptions {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) memory: u64,
    pub(crate) lease: Duration,
    pub(crate) former: BTreeSet<Node>,
    pub(crate) continued: Vec<Node>,
    pub(crate) above: Option<Node>,
    pub(crate) patience: Duration,
    pub(crate) remembered: Option<Remembered>,
}

impl JoinOptions {
    /// A node of this name, whose runtime listens at this address.
    pub fn new(name: impl Into<String>, address: impl Into<String>) -> JoinOptions {
        JoinOptions {
            name: name.into(),
            address: address.into(),
            memory: epoch::random(),
            lease: Duration::from_secs(3),
            former: BTreeSet::new(),
            continued: Vec::new(),
            above: None,
            patience: Duration::ZERO,
            remembered: None,
        }
    }

    /// The number of its directory of regions, which it goes on with when it is started again; another one each time by default.
    pub fn memory(mut self, memory: u64) -> Self {
        self.memory = memory;
        self
    }

    /// How long the node stays one when nothing is heard of it: whole seconds, 3 by default. etcd makes it no shorter than 2 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Numbers that this machine's runtimes had before they ended. If the node of one of them is still there, and has this one's
    /// name or memory, its lease is ended as soon as this one has joined: nobody has to wait for that. The caller makes sure that none runs.
    pub fn former(mut self, nodes: impl IntoIterator<Item = Node>) -> Self {
        self.former = nodes.into_iter().collect();
        self
    }

    /// Numbers of which this node continues what they published, because it has the same memory; the newest last, at most
    /// [`FORMER_MAX`](crate::values::FORMER_MAX). Other nodes learn them.
    pub fn continues(mut self, nodes: impl IntoIterator<Item = Node>) -> Self {
        self.continued = nodes.into_iter().collect();
        self
    }

    /// A number that was given before, if one is known: this node gets a higher one, also of an etcd that has lost its count.
    pub fn above(mut self, node: Option<Node>) -> Self {
        self.above = node;
        self
    }

    /// How long to wait for others to begin the count of numbers, who may have to go on where it was lost. Nobody may.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The other nodes that this machine knew when etcd's data were of this [epoch](crate::Cluster::epoch). Where they are of another by now,
    /// those data were lost: then these count as nodes until they are back, or have not come for as long as the handle's grace.
    /// So do those that were `missing` then, where the epoch is the same.
    pub fn remembers(mut self, epoch: u64, nodes: Vec<(Node, NodeInfo)>, missing: BTreeSet<Node>) -> Self {
        self.remembered = Some(Remembered { epoch, nodes, missing });
        self
    }
}
