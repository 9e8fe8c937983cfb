//! Entries of a window table, and a sub-table.
#![no_main]

#[path = "../../crates/segment/tests/it/reading/bytes.rs"]
mod bytes;

libfuzzer_sys::fuzz_target!(|input: &[u8]| bytes::tables(input));
