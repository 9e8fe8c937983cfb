//! Messages between the runtimes of nodes: hostile bytes in, checked values out.
//!
//! A *frame* is a kind, a body, and bulk. This crate makes the [kind](Kind) and the body of a [`Message`], and makes the message of
//! them again. It does not send anything, and does not know what time it is. Every form of bytes is written down in `docs/wire.md`.
//!
//! # What holds
//!
//! * **Nothing is believed.** Whatever the bytes are, decoding returns a message or a [`Fault`] that says where it lies. Numbers of
//!   things are compared with the bytes that are left before memory is taken, and decoding takes at most
//!   [`MEMORY_FACTOR`](bounds::MEMORY_FACTOR) times the memory of the body, in all. Nothing lies within itself, so that no depth has to be
//!   bounded. What bodies, texts, names and work are bounded by, [`bounds`] says.
//! * **What is decoded keeps its promises.** Boxes of a set share nothing, stages and versions ascend, no version is present above
//!   the newest, a node tells only of its own writers, moves are in normal form.
//! * **One form.** What was decoded encodes to the same bytes.
//! * **Once.** A set of elements or nodes that a message has several times, as the same `Arc`, is written out once, and shared again by
//!   whoever decodes it.
//! * **Versions.** A later version adds kinds, and changes none. Whoever does not know a kind leaves the message aside. What is a change
//!   for those who do not know of it is another protocol, and [`agree`](hello::agree) finds the newest that both sides speak.
//!
//! | module | messages |
//! |---|---|
//! | [`hello`] | who begins, and whether both can talk |
//! | [`roster`] | reports of nodes, decisions of homes |
//! | [`data`] | versions that are asked for and sent |
//! | [`group`] | ranks of groups of regions, and their versions |
//! | [`liveness`] | whether the other side is there |
#![forbid(unsafe_code)]

pub mod bounds;
pub mod data;
mod elements;
pub mod fault;
pub mod group;
pub mod hello;
mod item;
pub mod kind;
pub mod liveness;
pub mod message;
pub mod object;
mod reader;
pub mod roster;
mod writer;

pub use fault::Fault;
pub use kind::Kind;
pub use message::Message;
pub use object::ObjectId;
