//! The text of a schema.
#![no_main]

#[path = "../../crates/stillframe/tests/common/damage.rs"]
mod damage;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| damage::fuzz_schema(bytes));
