//! A whole region, damaged as the bytes spell: observed, checked, and recovered by a producer.
#![no_main]

#[path = "../../crates/stillframe/tests/it/common/damage.rs"]
mod damage;

use std::sync::OnceLock;

static IMAGE: OnceLock<damage::Image> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| damage::fuzz_region(IMAGE.get_or_init(damage::Image::new), bytes));
