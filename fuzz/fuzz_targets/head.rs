//! The beginning of a `head` and its descriptors.
#![no_main]

#[path = "../../crates/segment/tests/it/reading/bytes.rs"]
mod bytes;

libfuzzer_sys::fuzz_target!(|input: &[u8]| bytes::head(input));
