//! The integration tests of this crate: one executable, as each is linked on its own.

mod checkpoint;
mod checkpoints;
mod commands;
mod drepl;
mod enclave;
mod objects;
mod pages;
mod stats;
mod step;
mod support;
