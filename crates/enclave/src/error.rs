//! What can go wrong, and what to do about it.

use std::path::PathBuf;
use stillframe_kernel::Failure;
use stillframe_kernel::trust::Distrust;

/// A result whose error is an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why no broker runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path has no last name, or one that cannot be a socket's.
    #[error("{} cannot be a socket's path: {why}", path.display())]
    BadPath {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Another broker, or another program, listens there.
    #[error("{} is in use: somebody listens there; end that, or choose another path", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something that is no socket has the name.
    #[error("{} is no socket: look what it is, and remove it or choose another path", path.display())]
    NoSocket {
        /// The path.
        path: PathBuf,
    },
    /// The directory of the socket, or what lies in it, is somebody else's.
    #[error("{} {distrust}", path.display())]
    Untrusted {
        /// What is.
        path: PathBuf,
        /// Why.
        distrust: Distrust,
    },
    /// A system call that failed.
    #[error("{}: {failure}", path.display())]
    System {
        /// The file it was about.
        path: PathBuf,
        /// The call.
        failure: Failure,
    },
    /// What is there is not memory that enclaves share.
    #[error("{} cannot be shared between enclaves: {why}", path.display())]
    NotShared {
        /// What cannot be.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// What regions have to say.
    #[error(transparent)]
    Engine(#[from] stillframe::Error),
}
