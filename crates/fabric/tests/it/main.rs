//! The integration tests of this crate: one executable, as each is linked on its own.

mod bulk;
#[path = "reading/bytes.rs"]
mod bytes;
#[path = "../../../link/tests/it/common/mod.rs"]
mod common;
#[path = "../../../link/tests/it/contract/mod.rs"]
mod contract;
mod hostile;
mod processes;
mod refused;
