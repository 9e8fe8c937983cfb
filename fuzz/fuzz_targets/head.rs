//! The beginning of a `head` and its descriptors.
#![no_main]

#[path = "../../crates/stillframe/tests/common/damage.rs"]
mod damage;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| damage::fuzz_head(bytes));
