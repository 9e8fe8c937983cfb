//! The manifest of a checkpoint.
#![no_main]

#[path = "../../crates/checkpoint/tests/it/reading/damage.rs"]
mod damage;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| damage::fuzz_manifest(bytes));
