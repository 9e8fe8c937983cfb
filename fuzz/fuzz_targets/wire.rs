//! A message between runtimes: two bytes of its kind, and its body.
#![no_main]

#[path = "../../crates/wire/tests/it/reading/bytes.rs"]
mod bytes;

libfuzzer_sys::fuzz_target!(|input: &[u8]| bytes::frame(input));
