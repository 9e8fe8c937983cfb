//! Connections between runtimes.
//!
//! A [`Connection`] carries frames: a kind, a body, and bulk. It is made in TLS 1.3 between two sides that have the certificate of the
//! same job ([`identity`]); bulk travels inside TLS or beside it ([`bulk`]). What frames mean, this crate does not know.
//!
//! ```
//! use std::time::Duration;
//! use stillframe_link::{Connection, Identity, Listener, Options, Source, identity};
//! # fn main() -> stillframe_link::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("stillframe-doc-link-{}", std::process::id()));
//! let second = Duration::from_secs(1);
//! identity::create(&dir, "heat-17", identity::LIFETIME)?; // once for the job, by `still node certificate`
//! let identity = Identity::open(&dir)?; // each runtime
//! let options = Options::default();
//!
//! let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), &identity, &options)?;
//! let (sender, _) = Connection::connect(listener.address(), &identity, &options, 10 * second)?.split();
//! let (_, mut receiver) = listener.accept(10 * second)?.expect("somebody connected").split();
//!
//! sender.queue(1, b"goes with the next one", second)?;
//! sender.send(2, b"a body", Source::Bytes(&[7; 1000]), second)?;
//! assert_eq!(receiver.next(second)?.expect("a frame").body(), b"goes with the next one");
//! let mut frame = receiver.next(second)?.expect("a frame");
//! let mut bulk = [0; 1000];
//! frame.read(&mut bulk, second)?;
//! assert_eq!((frame.kind(), frame.body(), bulk), (2, b"a body".as_slice(), [7; 1000]));
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok(())
//! # }
//! ```
//!
//! TLS is `rustls` with the ciphers of `ring`: version 1.3 only, both sides show their certificate. `rustls` shakes hands and hands out
//! the keys, as it does for TLS in the kernel; records are sealed and opened here (`record`), so that the two directions have nothing to
//! wait for in each other, and bytes are copied once on each side. A process that sends files has to ignore `SIGPIPE`, as Rust's programs do.
//!
//! Every call has a limit, of which [`Duration::MAX`](std::time::Duration::MAX) is none. Threads block; while nothing comes, nothing
//! is done. One thread receives; any number send ([`Sender`]).
//!
//! Modules, from the bottom up; each uses only those above it in this list: [`frame`], `deadline`, [`error`], [`credit`], `refusal`,
//! `socket`, `record`, `stream`, [`bulk`], [`identity`], `handshake`, `greeting`, `sender`, `receiver`, `connection`, `newcomers`,
//! `places`, `listener`.
#![forbid(unsafe_code)]

pub mod bulk;
mod connection;
pub mod credit;
mod deadline;
pub mod error;
pub mod frame;
mod greeting;
mod handshake;
pub mod identity;
mod listener;
mod newcomers;
mod places;
mod receiver;
mod record;
mod refusal;
mod sender;
mod socket;
mod stream;
#[cfg(test)]
mod tests;

pub use bulk::{Bulk, BulkReceiver, BulkSender, End, Fabric, Means, Place, Source};
pub use connection::{Connection, Cut, Options};
pub use credit::Credit;
pub use deadline::Deadline;
pub use error::{Error, Os, Refusal, Result};
pub use identity::Identity;
pub use listener::Listener;
pub use receiver::{Frame, Receiver};
pub use sender::Sender;
pub use stream::{Incoming, Line, Outgoing};
