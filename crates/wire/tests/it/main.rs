//! The integration tests of this crate: one executable, as each is linked on its own.

#[path = "reading/bytes.rs"]
mod bytes;
mod common;
mod document;
mod golden;
mod hostile;
mod rules;
mod runs;
mod speed;
mod whole;
