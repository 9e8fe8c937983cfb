//! A whole checkpoint, damaged as the bytes spell, with checksums that fit: read, and restored or not.
#![no_main]

#[path = "../../crates/checkpoint/tests/it/reading/damage.rs"]
mod damage;

use std::sync::OnceLock;

static IMAGE: OnceLock<damage::Image> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| damage::fuzz_checkpoint(IMAGE.get_or_init(damage::Image::new), bytes));
