//! A manifest.
#![no_main]

#[path = "../../crates/segment/tests/it/reading/bytes.rs"]
mod bytes;

libfuzzer_sys::fuzz_target!(|input: &[u8]| bytes::manifest(input));
