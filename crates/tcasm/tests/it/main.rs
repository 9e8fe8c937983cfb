//! The integration tests of this crate: one executable, as each is linked on its own.

#[path = "../../../stillframe/tests/it/common/compiled.rs"]
mod compiled;
mod programs;
mod ranges;
