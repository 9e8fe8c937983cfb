//! What can go wrong with libfabric, and what to do about it.

use std::net::SocketAddr;

/// A result whose error is an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong. Each text says what happened, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The library is not there.
    #[error("libfabric cannot be opened: {why}; install it (Debian: libfabric1), or let bulk go over TCP")]
    NoLibrary {
        /// What the system says.
        why: String,
    },
    /// The library is not the one that is meant.
    #[error("libfabric has no function {name}: see which libfabric.so.1 is found first, or let bulk go over TCP")]
    NoFunction {
        /// Its name.
        name: &'static str,
    },
    /// The library is too old.
    #[error("libfabric is of version {major}.{minor}, and 1.9 is the first that can be used: install a newer one")]
    TooOld {
        /// First number of its version.
        major: u32,
        /// Second number of its version.
        minor: u32,
    },
    /// The library has no such provider, or none on this node that can be used.
    #[error(
        "libfabric has no provider '{provider}' here for reliable, ordered, tagged messages; there are: {}",
        if found.is_empty() { "none".into() } else { found.join(", ") }
    )]
    NoProvider {
        /// Its name.
        provider: String,
        /// Those that could be used.
        found: Vec<String>,
    },
    /// A provider needs a setting of libfabric, without which the process may crash.
    #[error(
        "libfabric may crash in provider '{provider}' when a connection ends, unless {variable}={value} is in the environment: \
         set it before the program starts, as `still node` does"
    )]
    Environment {
        /// The provider.
        provider: String,
        /// The variable that has to be set.
        variable: &'static str,
        /// Its value.
        value: &'static str,
    },
    /// This is no name of a provider.
    #[error("'{name}' is no name of a provider: it has 1 to 200 letters, digits, and - _ ; .")]
    Name {
        /// What was given.
        name: String,
    },
    /// A call failed.
    #[error("{call}: {why} ({code})")]
    Call {
        /// The call.
        call: &'static str,
        /// Its code, as libfabric counts.
        code: i32,
        /// What the library says.
        why: String,
    },
    /// There is no memory.
    #[error("there is no memory for {bytes} bytes of buffers")]
    NoMemory {
        /// Bytes that were wanted.
        bytes: usize,
    },
    /// What came from the peer is no address.
    #[error("an address of a fabric that is none: {why}")]
    Address {
        /// What is wrong with it.
        why: &'static str,
    },
    /// The library says something that cannot be.
    #[error("{what}: this version of libfabric cannot be used")]
    Unfit {
        /// What it says.
        what: &'static str,
    },
}

impl Error {
    /// As an error of a connection.
    pub(crate) fn of_link(self, peer: SocketAddr, fabric: &str) -> stillframe_link::Error {
        let fabric = fabric.to_owned();
        match self {
            Error::Call { call, code, why } => {
                stillframe_link::Error::Fabric { peer, fabric, call, why: format!("{why} ({code})") }
            }
            Error::NoMemory { bytes } => stillframe_link::Error::NoMemory { what: format!("{bytes} bytes of buffers") },
            Error::Address { why } => {
                stillframe_link::Error::Malformed { peer, what: format!("an address of a fabric that is none ({why})") }
            }
            other => stillframe_link::Error::Fabric { peer, fabric, call: "opening it", why: other.to_string() },
        }
    }
}
