//! The integration tests of this crate: one executable, as each is linked on its own.

mod algebra;
mod dice;
mod executor;
mod fork;
mod hostile;
mod language;
mod model;
mod numbers;
mod picture;
mod planner;
#[path = "../../../stillframe/tests/it/common/tier.rs"]
mod tier;
mod update;
mod whole;
