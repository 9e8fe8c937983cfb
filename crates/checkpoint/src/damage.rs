//! What can be wrong with a file of a checkpoint.

use crate::layout::Grid;
use crate::manifest::Variable;
use crate::{Digest, Error};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use stillframe_kernel::Failure;

/// A file of a checkpoint that is not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file, in the checkpoint's directory.
    pub path: PathBuf,
    /// The variable, if the file is a chunk of one.
    pub variable: Option<String>,
    /// The variable's rank, if the checkpoint is a group's.
    pub rank: Option<u32>,
    /// Where the chunk is among the chunks of the variable, along its axes.
    pub chunk: Option<Vec<u64>>,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It is not there.
    #[error("it is missing")]
    Missing,
    /// It cannot be read.
    #[error("it cannot be read: {}", std::io::Error::from_raw_os_error(*errno))]
    Unreadable {
        /// What the system said.
        errno: i32,
    },
    /// It is a link, a directory, or anything else but a file.
    #[error("it is no regular file")]
    NoFile,
    /// It is shorter than it was.
    #[error("it is cut off: {found} bytes are there, of {expected}")]
    Truncated {
        /// Bytes it had.
        expected: u64,
        /// Bytes it has.
        found: u64,
    },
    /// It is longer than it was.
    #[error("it is too long: {found} bytes are there, instead of {expected}")]
    TooLong {
        /// Bytes it had, or has at most.
        expected: u64,
        /// Bytes it has.
        found: u64,
    },
    /// It holds something else.
    #[error("its content has changed: the checksum is {found}, and was {expected}")]
    Changed {
        /// The checksum it had.
        expected: Digest,
        /// The checksum it has.
        found: Digest,
    },
    /// It holds what was written, and that makes no sense.
    #[error("it makes no sense: {why}")]
    Senseless {
        /// Why not.
        why: String,
    },
    /// No checksum is known of it.
    #[error("the checkpoint has no checksum of it")]
    Unlisted,
    /// It is there, and is no file of the checkpoint.
    #[error("it is no file of this checkpoint")]
    Foreign,
}

impl Fault {
    pub(crate) fn io(error: &std::io::Error) -> Fault {
        match error.raw_os_error() {
            None if error.kind() == ErrorKind::UnexpectedEof => {
                Fault::Senseless { why: "it became shorter while it was read".into() }
            }
            Some(libc::ENOENT) => Fault::Missing,
            // A link, with the flags that files are opened with.
            None | Some(libc::ELOOP | libc::ENOTDIR | libc::EISDIR | libc::ENXIO) => Fault::NoFile,
            Some(errno) => Fault::Unreadable { errno },
        }
    }

    /// The fault of a file with another length than it had, if it has.
    pub(crate) fn length(expected: u64, found: u64) -> Option<Fault> {
        match found.cmp(&expected) {
            std::cmp::Ordering::Less => Some(Fault::Truncated { expected, found }),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(Fault::TooLong { expected, found }),
        }
    }
}

impl Damage {
    /// The damage of a file that is no chunk.
    pub(crate) fn file(path: &str, fault: Fault) -> Box<Damage> {
        Damage { path: path.into(), variable: None, rank: None, chunk: None, fault }.into()
    }

    pub(crate) fn chunk(variable: &Variable, grid: &Grid, index: usize, fault: Fault) -> Box<Damage> {
        Damage {
            path: variable.chunk_path(grid, index).into(),
            variable: Some(variable.name.clone()),
            rank: variable.rank,
            chunk: Some(grid.coordinates(index)),
            fault,
        }
        .into()
    }

    /// The same as an error of the checkpoint at `path`. What another user could read, or this one with more files open, is
    /// not damaged.
    pub(crate) fn of(&self, path: &Path) -> Error {
        if let Fault::Unreadable { errno } = self.fault
            && matches!(errno, libc::EACCES | libc::EPERM | libc::EMFILE | libc::ENFILE | libc::ENOMEM)
        {
            let (detail, source) = (self.what(), std::io::Error::from_raw_os_error(errno));
            return Error::Unreadable {
                path: path.join(&self.path),
                failure: Failure { call: "read", detail, source },
            };
        }
        let what = self.what();
        let why = if what.is_empty() { self.fault.to_string() } else { format!("{what}: {}", self.fault) };
        Error::Damaged { path: path.join(&self.path), why }
    }

    /// Which chunk it is; "" if it is none.
    fn what(&self) -> String {
        let (Some(variable), Some(chunk)) = (&self.variable, &self.chunk) else { return String::new() };
        let rank = self.rank.map_or(String::new(), |rank| format!(" of rank {rank}"));
        format!("chunk {chunk:?} of variable '{variable}'{rank}")
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = self.what();
        let comma = if what.is_empty() { "" } else { ", " };
        write!(f, "{}{comma}{what}: {}", self.path.display(), self.fault)
    }
}
