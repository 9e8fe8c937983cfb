//! The integration tests of this crate: one executable, as each is linked on its own.

mod agents;
mod broker;
#[path = "../../../stillframe/tests/it/common/child.rs"]
mod child;
#[path = "../../../stillframe/tests/it/common/mod.rs"]
mod common;
mod doorbell;
#[path = "../../../stillframe/tests/it/containers/enclosure.rs"]
mod enclosure;
#[path = "../../../stillframe/tests/it/helper/mod.rs"]
mod helper;
mod hostile;
mod pair;
#[path = "../../../stillframe/tests/it/common/runs.rs"]
mod runs;
#[path = "../../../stillframe/tests/it/common/seed.rs"]
mod seed;
mod simulator;
#[path = "../../../stillframe/tests/it/common/tier.rs"]
mod tier;
#[path = "../../../stillframe/tests/it/simulator/world.rs"]
mod world;
