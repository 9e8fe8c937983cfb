//! Nodes, writers and the home of one object, with the real state machines and the real encoding, in one process without a network.
//!
//! | module | |
//! |---|---|
//! | [`grid`] | which fragment has which block of the object, and lies on which node |
//! | [`cost`] | what is measured |
//! | [`node`] | one node: the runtime's state machine, and what it tells the home |
//! | [`world`] | all nodes and the home, and the messages between them |
#![forbid(unsafe_code)]

pub mod cost;
pub mod grid;
pub mod node;
pub mod world;
