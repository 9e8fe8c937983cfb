//! Why nothing was exported.

use std::io;
use std::path::{Path, PathBuf};

/// A result whose error is an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why nothing was exported. The text is one line that says what to do next; no part of a file is left behind.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine's own account.
    #[error(transparent)]
    Engine(#[from] stillframe::Error),
    /// That of checkpoints.
    #[error(transparent)]
    Checkpoint(#[from] stillframe_checkpoint::Error),
    /// Neither a region nor a directory.
    #[error(
        "there is no region or group '{name}' in {}, and no directory of checkpoints of that name: see `still ls`",
        dir.display()
    )]
    Nothing {
        /// What was asked for.
        name: String,
        /// Where regions were looked for.
        dir: PathBuf,
    },
    /// A variable that the version does not have.
    #[error("{source_name} has no variable '{name}'; it has {}", known.join(", "))]
    UnknownVariable {
        /// What was to be exported.
        source_name: String,
        /// The name.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// Attributes that tell of a part of a global array, and make no sense together.
    #[error(
        "variable '{name}': {why}; correct its attributes 'offset' and 'global_shape', or export the ranks one by one"
    )]
    Parts {
        /// The variable.
        name: String,
        /// What does not fit.
        why: String,
    },
    /// Parts of a global array whose elements have different types or lie in different orders.
    #[error(
        "variable '{name}': {left} and {right}; publish it with the same {what} on all ranks, or export the ranks one by one, as in \
         `still export {group}/0 {name} -o 0.h5`"
    )]
    Unlike {
        /// The group.
        group: String,
        /// The variable.
        name: String,
        /// What differs.
        what: &'static str,
        /// One rank, and what it has.
        left: String,
        /// Another, and what that has.
        right: String,
    },
    /// A name that the format has no room for.
    #[error("{format} cannot take the {what} '{name}': {why}; {advice}")]
    Name {
        /// The format.
        format: &'static str,
        /// What has the name.
        what: &'static str,
        /// The name.
        name: String,
        /// The rule.
        why: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// A type whose description is longer than the format has room for.
    #[error(
        "{format} cannot take the variable '{name}': the description of its type, of {fields} fields, takes up to {bytes} bytes, and the \
         format has room for {bytes_max}; {advice}save it with `still checkpoint`, or name the other variables on the command line"
    )]
    LargeType {
        /// The format.
        format: &'static str,
        /// The variable.
        name: String,
        /// How many fields its records have, with those of records in them.
        fields: usize,
        /// Bytes of the description.
        bytes: usize,
        /// Bytes that the format has room for.
        bytes_max: usize,
        /// What to do first, with a comma behind it.
        advice: &'static str,
    },
    /// The file cannot be written, for a reason of the system's.
    #[error("cannot write {}: {error}{}", path.display(), advice(.error))]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Too little room on the disk, known before anything was written.
    #[error(
        "cannot write {}: it takes about {needed} bytes, and its file system has {available} left: free some, write elsewhere, \
         name fewer variables, or add --compress",
        path.display()
    )]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// Bytes of the arrays.
        needed: u64,
        /// Bytes that are free.
        available: u64,
    },
    /// Another program writes the same file, or this user may not.
    #[error(transparent)]
    Refused(stillframe_file::Error),
    /// The library of the format refused.
    #[error("cannot write {}: {library} on {what}: {text}", path.display())]
    Library {
        /// The file.
        path: PathBuf,
        /// Which library.
        library: &'static str,
        /// What was to be done.
        what: String,
        /// What it said.
        text: String,
    },
}

impl From<stillframe_file::Error> for Error {
    fn from(error: stillframe_file::Error) -> Error {
        match error {
            stillframe_file::Error::System { path, error } => Error::File { path, error },
            refused => Error::Refused(refused),
        }
    }
}

impl Error {
    /// A failure of the system's at a file.
    pub fn file(path: &Path, error: impl Into<io::Error>) -> Error {
        Error::File { path: path.into(), error: error.into() }
    }

    /// Whether the command made no sense, rather than that something was in its way.
    pub fn is_misuse(&self) -> bool {
        match self {
            Error::Engine(error) => error.family() == stillframe::Family::Misuse,
            Error::Checkpoint(error) => error.family() == stillframe::Family::Misuse,
            Error::UnknownVariable { .. } | Error::Name { .. } | Error::LargeType { .. } => true,
            _ => false,
        }
    }
}

/// What to do about an error of the system's that users meet.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ": free some room, or write elsewhere",
        io::ErrorKind::FileTooLarge => ": write to a file system that takes files of this size",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ": choose a directory you may write",
        io::ErrorKind::NotFound => ": make its directory first",
        _ => "",
    }
}
