//! The integration tests of this crate: one executable, as each is linked on its own.

mod attack;
mod broken;
mod chaos;
mod common;
mod damaged;
mod descriptors;
mod directory;
mod emptied;
#[path = "../../../etcd/tests/it/gateway/mod.rs"]
mod gateway;
mod groups;
mod heirs;
mod homes;
mod joining;
mod mixtures;
mod nameless;
mod nodes;
mod obsolete;
#[path = "common/places.rs"]
mod places;
mod removed;
mod restarted;
mod rosters;
#[path = "../../../stillframe/tests/it/common/seed.rs"]
mod seed;
mod service;
mod silent;
mod turns;
mod unwritten;
#[path = "common/wires.rs"]
mod wires;
