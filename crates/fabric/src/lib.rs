//! Bulk between runtimes over libfabric: a network that is no TCP, such as InfiniBand or Slingshot. Experimental.
//!
//! [`Libfabric`] is a [`Fabric`] of `stillframe-link`. libfabric is opened at run time, where the site has it; a provider of it is chosen by
//! name. Tests run over `tcp` and `shm`, which need no hardware.
//!
//! ```no_run
//! use std::sync::Arc;
//! use stillframe_fabric::Libfabric;
//! use stillframe_link::{Means, Options};
//! # fn main() -> stillframe_fabric::Result<()> {
//! let means = Means::Fabric(Arc::new(Libfabric::open("tcp")?));
//! let options = Options { means, ..Options::default() };
//! # Ok(())
//! # }
//! ```
//!
//! **How bulk goes.** Each direction of a connection has an endpoint on each side (`FI_EP_RDM`, tagged messages). The sender copies bulk into
//! chunks, the receiver copies it out of them ([`message`]). Only these buffers are ever registered, and no peer can reach them: planes
//! are punched and collapsed beneath a registration. A receiver grants as many chunks as it has room for, 4 MiB, and only once bulk
//! comes, so that a connection without bulk takes almost no memory.
//!
//! **Who is believed.** Addresses travel inside TLS, with random tags and tokens for one connection and one direction, and every message
//! carries them. Lengths, numbers and grants are checked against what was agreed. What nobody checks is the network itself: as with
//! plain TCP, whoever can read or change what travels there can read or change bulk. The provider `shm` is for one user on one
//! machine: processes map each other's memory, and libfabric believes what it finds there.
//!
//! **How it waits.** A thread that sends or receives bulk polls libfabric, with pauses of up to a millisecond; without bulk on its way, nobody
//! polls. [`BulkSender::send`](stillframe_link::BulkSender::send) returns when libfabric is done with the chunks.
//!
//! Modules, from the bottom up; each uses only those above it in this list: `error`, `fi`, [`message`], `wait`, `sender`, `receiver`,
//! `libfabric`.

mod error;
mod fi;
mod libfabric;
pub mod message;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;
mod wait;

pub use error::{Error, Result};
pub use libfabric::Libfabric;
#[doc(no_inline)]
pub use stillframe_link::Fabric;
