//! All that a version says of itself: a descriptor, a schema, and the blocks of `tables`.
#![no_main]

#[path = "../../crates/segment/tests/it/reading/bytes.rs"]
mod bytes;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    bytes::description(input);
});
