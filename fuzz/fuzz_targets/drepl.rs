//! Texts of the layout language: parsed, bound, and their mistakes shown.
#![no_main]

#[path = "../../crates/drepl/tests/it/language/texts.rs"]
mod texts;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| texts::read(bytes));
