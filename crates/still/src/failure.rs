//! What ends a command early, and the exit code it ends with.

use crate::slice::SliceError;
use std::io;
use std::path::{Path, PathBuf};

/// Everything was as it should be.
pub const FINE: u8 = 0;
/// Something is wrong with what was looked at, or could not be done.
pub const PROBLEM: u8 = 1;
/// The command was not one that can be meant.
pub const MISUSE: u8 = 2;

/// Why a command cannot go on. Its text is one line that says what to do next, unless it is about another text.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The command line asks for something that does not exist or makes no sense.
    #[error("{0}")]
    Misuse(String),
    /// What was looked at is not as it should be.
    #[error("{0}")]
    Problem(String),
    /// The engine's own account.
    #[error(transparent)]
    Engine(#[from] stillframe::Error),
    /// What checkpoints have to say.
    #[error(transparent)]
    Checkpoint(#[from] stillframe_checkpoint::Error),
    /// What objects have to say.
    #[error(transparent)]
    Object(#[from] stillframe_object::Error),
    /// What pools of large pages have to say.
    #[error(transparent)]
    Pages(#[from] stillframe_pages::Error),
    /// An index that does not fit.
    #[error(transparent)]
    Slice(#[from] SliceError),
    /// Mistakes in a description of layouts, shown where they are. This text has several lines.
    #[error("{diagnostics}")]
    Mistakes {
        /// What they are.
        diagnostics: drepl::Diagnostics,
        /// `PROBLEM` in what was looked at, `MISUSE` in the command itself.
        exit_code: u8,
    },
    /// The output went away or is full.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    /// A file the user named cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

impl Failure {
    /// A failure of writing to the file at `path`.
    pub fn file(path: &Path, error: io::Error) -> Failure {
        Failure::File { path: path.into(), error }
    }

    /// The exit code of a command that ends with this failure.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Misuse(_) | Failure::Slice(_) => MISUSE,
            Failure::Mistakes { exit_code, .. } => *exit_code,
            Failure::Engine(error) if error.family() == stillframe::Family::Misuse => MISUSE,
            Failure::Checkpoint(error) if error.family() == stillframe::Family::Misuse => MISUSE,
            // A reader such as `head` has seen enough, and so has the user.
            failure if failure.is_closed_pipe() => FINE,
            _ => PROBLEM,
        }
    }

    /// Whether the reader of the output has left.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Failure::Output(error) | Failure::File { error, .. } if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
