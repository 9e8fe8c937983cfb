//! The producer's side of a region.

pub(crate) mod aside;
pub(crate) mod check;
pub(crate) mod collect;
pub(crate) mod compact;
pub(crate) mod copying;
pub(crate) mod declare;
pub(crate) mod demote;
pub(crate) mod former;
pub(crate) mod gathering;
pub(crate) mod input;
pub(crate) mod loan;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod patience;
pub(crate) mod peers;
pub(crate) mod pending;
pub(crate) mod pin;
pub(crate) mod publication;
pub(crate) mod publish;
pub(crate) mod region;
pub(crate) mod resize;
pub(crate) mod retention;
pub(crate) mod room;
pub(crate) mod staging;
pub(crate) mod state;
pub(crate) mod statistics;
