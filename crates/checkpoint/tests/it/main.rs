//! The integration tests of this crate: one executable, as each is linked on its own.

#[path = "reading/damage.rs"]
mod damage;
mod damages;
mod disk;
mod document;
mod foreign;
mod interrupted;
mod kill;
mod reading;
mod recovered;
mod recovery;
mod recovery_kill;
#[cfg(feature = "points")]
#[path = "../../../stillframe/tests/it/common/refuse.rs"]
mod refuse;
mod restore;
#[path = "../../../stillframe/tests/it/common/runs.rs"]
mod runs;
#[path = "../../../stillframe/tests/it/common/seed.rs"]
mod seed;
mod simulator;
mod strangers;
mod syncs;
#[path = "../../../stillframe/tests/it/common/tier.rs"]
mod tier;
