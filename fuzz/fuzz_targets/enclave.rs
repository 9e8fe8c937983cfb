//! Another enclave that writes whatever bytes spell to the memory that it shares: this one's agent runs on, its versions are published,
//! and none of them is lost.
#![no_main]

#[path = "../../crates/enclave/tests/it/hostile/world.rs"]
mod world;

use std::sync::{Mutex, OnceLock};

static WORLD: OnceLock<Mutex<world::World>> = OnceLock::new();

fn begin() -> Mutex<world::World> {
    let dir = format!("/dev/shm/stillframe-fuzz-enclave-{}", std::process::id());
    Mutex::new(world::World::new(dir.as_ref()))
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| WORLD.get_or_init(begin).lock().unwrap().play(bytes));
