//! Keys and values that others put into etcd.
#![no_main]

#[path = "../../crates/etcd/tests/it/reading/bytes.rs"]
mod bytes;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    bytes::read(input);
});
