//! The integration tests of this crate: one executable, as each is linked on its own.

mod accepted;
mod advance;
mod arena_safety;
mod arenas;
mod aside;
mod background;
mod borrowed;
#[path = "../../../segment/tests/it/reading/bytes.rs"]
mod bytes;
#[path = "common/child.rs"]
mod child;
mod common;
mod compact;
mod company;
mod containers;
mod cut;
#[path = "common/damage.rs"]
mod damage;
mod demoted;
#[path = "common/device.rs"]
mod device;
mod edges;
mod freed;
mod garbage;
mod global;
mod group_end;
mod groups;
mod helper;
mod histories;
mod holders;
mod inodes;
mod kill;
mod large_arenas;
#[path = "common/large_memory.rs"]
mod large_memory;
#[path = "common/large_pages.rs"]
mod large_pages;
mod light;
mod limits;
mod memory;
mod memory_units;
mod modes;
mod neighbours;
mod numbers;
mod own;
mod parts;
mod peers;
mod pinned;
mod polite;
mod refused;
mod resize;
mod restart;
mod rollback;
mod rules;
#[path = "common/runs.rs"]
mod runs;
mod sections;
#[path = "common/seed.rs"]
mod seed;
mod shared;
mod simulator;
mod staging;
mod stepping;
mod strangers;
#[path = "common/tier.rs"]
mod tier;
mod trackers;
mod waiting;
