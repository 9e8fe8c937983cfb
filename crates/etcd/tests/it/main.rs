//! The integration tests of this crate: one executable, as each is linked on its own.

#[path = "reading/bytes.rs"]
mod bytes;
mod child;
mod cluster;
mod common;
#[path = "../../../object/tests/it/contract/mod.rs"]
mod contract;
mod gateway;
mod hostile;
mod limits;
mod lost;
mod names;
mod pages;
mod proxy;
