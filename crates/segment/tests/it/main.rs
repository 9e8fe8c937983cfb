//! The integration tests of this crate: one executable, as each is linked on its own.

#[path = "reading/bytes.rs"]
mod bytes;
mod document;
mod hostile;
