//! How regions get to observers of other enclaves, each with an operating system, or a view of one, of its own.
//!
//! A broker hands out regions by descriptors over a Unix socket, to observers of the same kernel that do not see their directory. An
//! [`Agent`] shows leases to another kernel, in memory that both have, and wakes who waits there by a [`Doorbell`].
//!
//! What is answered, [`stillframe::enclave`] says. Here is the socket: who may connect, how one that a dead broker left is taken over,
//! and how clients that say nothing, too much or too often are kept from holding others up.
#![forbid(unsafe_code)]

mod admission;
mod agent;
mod closing;
mod crowd;
mod doorbell;
mod error;
mod folder;
mod machine;
mod service;
mod socket;
mod untaken;

pub use admission::{Admission, Allow, NoAllow};
pub use agent::{Agent, AgentOptions};
pub use doorbell::{Doorbell, NoDoorbell, Way};
pub use error::{Error, Result};
pub use machine::begin_machine;
pub use service::{Desk, Service};
pub use socket::Options;
