//! The integration tests of this crate: one executable, as each is linked on its own.

mod bulk;
mod common;
mod contract;
mod frames;
