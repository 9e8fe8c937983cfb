//! What runtimes and homes send each other.
//!
//! Each message says all that its sender knows of the object, and its serial says which of two is newer. So messages may be
//! lost, come twice, and overtake each other: whoever gets one takes it for the newest that he has, or leaves it.
//! What the other side has already may be left out on the wire, as long as what arrives is whole.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    readiness::Readiness,
    refusal::Refusal,
    writer::{Elements, Node, Record, Revision, Version, Writer},
};

/// A version that is to be complete, or is, with the nodes that have to pin it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Proposal {
    /// The version.
    pub version: Version,
    /// The first version of its epoch.
    pub epoch: Version,
    /// The nodes of its members.
    pub nodes: Arc<BTreeSet<Node>>,
}

impl Proposal {
    /// The initial version, which nobody has to pin.
    pub fn initial(version: Version) -> Self {
        Self { version, epoch: version, nodes: Arc::default() }
    }

    /// A version that may have been complete on nodes which are lost, and which no other node has elements of.
    pub(crate) fn gone(version: Version) -> Self {
        Self { version, epoch: version, nodes: Arc::default() }
    }

    /// Whether no node has elements of it: it is the initial one, or one that may have been complete on nodes that are lost.
    pub fn is_gone(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// How far a home may go: it announces only versions up to this one, whose members lie on these nodes and no others, and none without
/// a node among them that can still be asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ceiling {
    /// The highest version.
    pub version: Version,
    /// The nodes of the members.
    pub nodes: Arc<BTreeSet<Node>>,
}

impl Ceiling {
    /// Of an object of which nothing has been announced.
    pub fn initial(version: Version) -> Self {
        Self { version, nodes: Arc::default() }
    }

    /// Whether a proposal lies below it.
    pub fn covers(&self, proposal: &Proposal) -> bool {
        let are_same = Arc::ptr_eq(&self.nodes, &proposal.nodes);
        proposal.version <= self.version && (are_same || proposal.nodes.is_subset(&self.nodes))
    }
}

/// A writer of a node, as its runtime tells it to the home.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Told {
    /// The writer.
    pub record: Record,
    /// A number for each of its stages: no other stage of the node ever has it.
    pub numbers: Vec<u64>,
    /// How many of its stages, from the first on, a home has accepted.
    pub accepted: usize,
    /// Whether it is from before the node's runtime began.
    pub is_restored: bool,
}

impl Told {
    /// Lets a writer that has ended have [ended](Record::end_at) earlier; the stage with which it did has this number then.
    /// Whether that makes a difference.
    pub fn end_at(&mut self, from: Version, number: u64) -> bool {
        if !self.record.end_at(from) {
            return false;
        }
        let kept = self.record.stages.len().saturating_sub(1);
        self.numbers.truncate(kept);
        self.numbers.push(number);
        self.accepted = self.accepted.min(kept);
        true
    }
}

/// A reader that wants elements of a version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Want {
    /// Of the node's, never used again: an answer may come when its reader wants another version.
    pub number: u64,
    /// The version.
    pub version: Version,
    /// Which elements of it.
    pub elements: Elements,
}

/// From a runtime to the home.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Report {
    /// Whose runtime.
    pub node: Node,
    /// The home that it is for.
    pub revision: Revision,
    /// Which of the node's reports is newer.
    pub serial: u64,
    /// Serial of the newest decision of that home that the runtime heard.
    pub heard: u64,
    /// The largest number of a stage.
    pub declared: u64,
    /// The node's writers.
    pub writers: Vec<Told>,
    /// What the node pins.
    pub pins: Vec<Proposal>,
    /// The newest version that it knows to be complete.
    pub announced: Proposal,
    /// The newest version of which it gave up the pin.
    pub yielded: Option<Proposal>,
    /// The newest ceiling that it has heard of.
    pub ceiling: Ceiling,
    /// The newest version that the node's programs knew to be complete before this runtime began; the initial one where none was.
    pub floor: Version,
    /// The newest version that was complete before the present run of the job, as far as the node knows; the initial one where none was.
    pub run_floor: Version,
    /// What the node's readers wait for.
    pub wants: Vec<Want>,
}

/// A stage that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Refused {
    /// Whose.
    pub writer: Writer,
    /// The stage's number.
    pub number: u64,
    /// Why.
    pub refusal: Refusal,
}

/// A writer that has left or died, and whose place another one took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ended {
    /// Which.
    pub writer: Writer,
    /// The first version of which its elements are the other's. What it published from there on counts for nothing.
    pub from: Version,
}

/// A node that does not hold the newest complete version any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unpinned {
    /// The node.
    pub node: Node,
    /// Whether the node was lost; else it gave up the pin for want of memory.
    pub is_lost: bool,
}

/// From the home to a runtime.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decision {
    /// For whom.
    pub node: Node,
    /// Which home's.
    pub revision: Revision,
    /// Which of that home's decisions for the node is newer.
    pub serial: u64,
    /// Stages up to this number were decided on: those that are not refused are accepted.
    pub declared: u64,
    /// The newest complete version: the node is to keep its pin.
    pub announced: Proposal,
    /// The home announces nothing that lies above this, until all nodes have acknowledged another one.
    pub ceiling: Ceiling,
    /// The newest version that was complete on the node before the present run of the job.
    pub run_floor: Version,
    /// Who does not hold that version any more.
    pub unpinned: Vec<Unpinned>,
    /// The version that is to be complete next, and the node's members of it: the node is to pin it. Nothing for a node without members.
    pub proposed: Option<(Proposal, Vec<Writer>)>,
    /// Stages of the node's writers that do not count.
    pub refused: Vec<Refused>,
    /// Those of the node's writers whose place others took, as far as it has not said that it knows.
    pub ended: Vec<Ended>,
    /// What its readers are told, by the numbers of what they want.
    pub answers: Vec<(u64, Readiness)>,
}
