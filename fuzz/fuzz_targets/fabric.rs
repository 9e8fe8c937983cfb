//! A message of bulk over libfabric.
#![no_main]

#[path = "../../crates/fabric/tests/it/reading/bytes.rs"]
mod bytes;

libfuzzer_sys::fuzz_target!(|input: &[u8]| bytes::message(input));
