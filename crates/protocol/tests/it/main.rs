//! The integration tests of this crate: one executable, as each is linked on its own.

mod enclaves;
mod model;
mod reference;
mod retention;
