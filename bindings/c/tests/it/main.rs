//! The integration tests of this crate: one executable, as each is linked on its own.

mod common;
mod document;
mod programs;
