//! The integration tests of this crate: one executable, as each is linked on its own.

mod absent;
mod ceilings;
mod excused;
mod heirs;
mod ledger;
mod orders;
mod readers;
mod reference;
mod returned;
mod scenes;
mod wants;
