//! The runtime of a node: it lets the processes of several nodes hold one object.
//!
//! What they send each other, `stillframe-wire` says. One runs on each node. It looks at the boards of this node's objects, speaks for its writers to the *home* of each object,
//! and fills fragments that its readers want with elements of other nodes. What is of one machine stays there: a reader whose
//! elements lie on its own node needs no runtime.
//!
//! | module | |
//! |---|---|
//! | [`network`] | who carries messages |
//! | `outbox` | messages that go when the desk is done |
//! | [`cluster`] | which nodes there are, which of them is an object's home, and who keeps the names of objects |
//! | [`roster`] | who writes an object, as its home tells the nodes |
//! | [`home`] | an object's home, if this node is it |
//! | [`reporting`] | what a node tells an object's home |
//! | `memory` | what versions of other nodes may take |
//! | `ahead` | memory that one thread fills while another uses what was filled before |
//! | `sending` | versions for readers of other nodes |
//! | `scatter` | bytes that are received straight to where they belong |
//! | `filling` | a version that is put together for a reader of this node |
//! | `surroundings` | what an object needs of its node |
//! | `known` | what a node knows of an object |
//! | `subscriptions` | fragments of other nodes that are sent versions |
//! | `readers` | fragments of this node that are filled |
//! | `groups` | groups of regions whose ranks are on several nodes |
//! | `watched` | one object: its writers of this node, its home if that is here, and what follows |
//! | `desk` | all of them, and who is asked what |
//! | `socket` | what this node's programs ask |
//! | [`runtime`] | the threads |
//! | [`links`] | connections to other nodes |
//! | [`numbers`] | the numbers of nodes that this machine has heard of |
//! | `directory` | what a node's objects are against those of etcd when its runtime begins |
//! | `spread` | which node is to be the home of what |
//! | `machines` | which node each machine is, whatever numbers it had |
//! | [`names`] | nodes, homes and names in etcd |
//! | `meeting` | where a node finds the names, if nobody tells it |
//! | `keeper` | the etcd that a node starts for all |
//! | [`service`] | all of it, as `still-node` runs it |
//!
//! Each uses only those above it. A lock guards the desk; whatever moves bytes does so without it.
#![forbid(unsafe_code)]

mod ahead;
pub mod cluster;
mod desk;
pub mod diagnostics;
mod directory;
pub mod error;
mod filling;
mod groups;
pub mod home;
mod keeper;
mod known;
pub mod links;
mod listening;
mod machines;
mod meeting;
mod memory;
pub mod names;
pub mod network;
pub mod numbers;
mod outbox;
mod pace;
mod parts;
mod peers;
mod readers;
pub mod reporting;
pub mod roster;
pub mod runtime;
mod scatter;
mod sending;
pub mod service;
mod shares;
mod socket;
mod spread;
mod subscriptions;
mod surroundings;
mod watched;

pub use error::{Error, Result};
pub use runtime::Runtime;
pub use service::{Service, ServiceOptions};
