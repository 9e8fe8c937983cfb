//! The integration tests of this crate: one executable, as each is linked on its own.

mod attack;
mod calls;
mod comings;
mod common;
mod contract;
mod damage;
mod halted;
mod heirs;
#[path = "../../../stillframe/tests/it/helper/mod.rs"]
mod helper;
mod history;
mod interrupt;
mod kill;
mod limits;
mod names;
mod odd;
mod relay;
mod removed;
mod repartition;
mod room;
mod runtimes;
#[path = "../../../stillframe/tests/it/common/seed.rs"]
mod seed;
mod shown;
mod stress;
#[path = "../../../stillframe/tests/it/common/tier.rs"]
mod tier;
