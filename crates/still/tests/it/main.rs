//! The integration tests of this crate: one executable, as each is linked on its own.

mod checkpoint;
mod checkpoints;
mod commands;
mod drepl;
mod enclave;
mod fields;
mod nodes;
mod object_runs;
#[cfg(feature = "points")]
mod object_unread;
mod objects;
mod pages;
mod polite;
#[path = "../../../stillframe/tests/it/common/refuse.rs"]
mod refuse;
mod stats;
mod step;
mod support;
mod usage;
mod watching;
