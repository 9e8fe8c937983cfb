//! What is told of a version that is being saved, and of one that is safe.

use crate::SetAside;
use std::path::PathBuf;
use std::time::Duration;

/// How far the saving of a version is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Chunks are written or linked.
    Writing,
    /// What was written is being brought to disk.
    Syncing,
    /// It is safe.
    Committed,
}

/// How far the saving of a version is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The version.
    pub version: u64,
    /// What is being done.
    pub phase: Phase,
    /// Bytes of all variables.
    pub bytes: u64,
    /// Bytes of the variables that were written or linked.
    pub bytes_done: u64,
}

/// A checkpoint that is safe: on disk, under its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The version.
    pub version: u64,
    /// The checkpoint's directory.
    pub path: PathBuf,
    /// Whether this very version was safe before, so that there was nothing to do.
    pub already: bool,
    /// Bytes of all variables.
    pub bytes: u64,
    /// Bytes of the files that were written.
    pub written_bytes: u64,
    /// Bytes of the files that are hard links to those of the checkpoint before.
    pub linked_bytes: u64,
    /// Bytes of these that were read back from disk and compared with their checksums.
    pub read_back_bytes: u64,
    /// Files of the checkpoint.
    pub files: u64,
    /// Versions whose checkpoints were deleted, as the keep rule says.
    pub removed: Vec<u64>,
    /// Checkpoints of an earlier run that were moved, because this run gives their numbers, or lower ones, again.
    pub set_aside: Option<SetAside>,
    /// What could not be done once it was safe: deleting old ones, say.
    pub trouble: Option<String>,
    /// How long it took.
    pub duration: Duration,
}
