//! Why a benchmark or the demonstration could not go on.

use std::io;

/// Why a benchmark or the demonstration could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The library refused something; its message says what to do.
    #[error(transparent)]
    Library(#[from] stillframe::Error),
    /// A checkpoint could not be saved or read.
    #[error(transparent)]
    Checkpoint(#[from] stillframe_checkpoint::Error),
    /// An object could not be made, written or read.
    #[error(transparent)]
    Object(#[from] stillframe_object::Error),
    /// A call to the operating system failed.
    #[error("{call} failed: {source}")]
    System {
        /// The call, with its operand.
        call: String,
        /// What the system said.
        source: io::Error,
    },
    /// A child process died, kept silent for too long, or said something unexpected.
    #[error("child process '{role}' {why}")]
    Child {
        /// The role the child was started in.
        role: String,
        /// What went wrong.
        why: String,
    },
    /// The arguments ask for something that cannot be done.
    #[error("{0}")]
    Usage(String),
    /// A value read back differs from the one that was written.
    #[error("{0}: please report this with the output of 'still doctor'")]
    Wrong(String),
}

impl Error {
    /// Wraps an error of the operating system with the call that made it, ready for `map_err`.
    pub fn system(call: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let call = call.into();
        move |source| Error::System { call, source }
    }

    /// Whether the reader of the output has left, as `head` does when it has seen enough.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Error::System { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The last error of the operating system on this thread.
    pub fn last(call: impl Into<String>) -> Error {
        Error::System { call: call.into(), source: io::Error::last_os_error() }
    }
}
