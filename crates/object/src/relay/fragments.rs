//! Fragments that are written, as a runtime hears and tells of them.

use crate::board::Remote;
use drepl::Fragment;
use std::collections::BTreeMap;
use std::sync::Arc;
use stillframe_roster::writer::{Elements, Version, Who};

/// A fragment that a process of another node writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFragment {
    /// Where it is.
    pub remote: Remote,
    /// The process there.
    pub process: u32,
    /// Its rank in a parallel program, if it said so.
    pub rank: Option<u32>,
    /// The first version that it writes.
    pub from: Version,
    /// The first that it does not write any more.
    pub left: Option<Version>,
    /// Whether its process died, or its node was lost.
    pub died: bool,
    /// Its layout.
    pub text: String,
    /// Numbers of the names that the text leaves open.
    pub bindings: BTreeMap<String, i64>,
    /// How many writers the program said there are.
    pub writers: Option<u32>,
}

/// A fragment of this node.
#[derive(Debug, Clone)]
pub struct LocalFragment {
    /// Its number on this node, its process and rank; as of node 0.
    pub who: Who,
    /// Its elements, in the object's own space of indices.
    pub elements: Elements,
    /// What lies where in it.
    pub fragment: Arc<Fragment>,
    /// Its layout.
    pub text: String,
    /// Numbers of the names that the text leaves open.
    pub bindings: BTreeMap<String, i64>,
    /// How many writers the program said there are.
    pub writers: Option<u32>,
    /// The first version that it writes.
    pub from: Version,
    /// The first that it does not write any more.
    pub left: Option<Version>,
    /// Whether its process lives.
    pub is_alive: bool,
    /// Its newest version.
    pub newest: Option<Version>,
    /// Those that can be had, ascending.
    pub present: Vec<Version>,
    /// Whether it counts on all nodes, if a runtime has said so or has said that it does not.
    pub is_accepted: Option<bool>,
}
