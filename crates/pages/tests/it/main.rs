//! The integration tests of this crate: one executable, as each is linked on its own.

mod namespaces;
mod pools;
mod support;
