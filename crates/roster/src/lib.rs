//! Who writes what of an object.
#![forbid(unsafe_code)]

pub mod home;
pub mod ledger;
pub mod message;
#[cfg(test)]
mod model;
mod planted;
pub mod readiness;
pub mod refusal;
pub mod roster;
pub mod runtime;
pub mod writer;
