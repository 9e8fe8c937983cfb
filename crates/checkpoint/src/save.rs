//! Saving one version.

use crate::{Result, SaveOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;
use stillframe::{GroupSnapshot, Snapshot};

/// What is saved.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// A version of a region.
    Region(&'a Snapshot),
    /// A version of a group.
    Group(&'a GroupSnapshot),
}

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
    /// Files of the checkpoint.
    pub files: u64,
    /// Versions whose checkpoints were deleted, as the keep rule says.
    pub removed: Vec<u64>,
    /// How long it took.
    pub duration: Duration,
}

/// Writes the checkpoints of one region or group into one directory, which nobody else can write to meanwhile.
#[derive(Debug)]
pub struct Saver {
    dir: PathBuf,
    options: SaveOptions,
}

impl Saver {
    /// Takes a directory, which is made if it is not there, and cleans up what killed writers left.
    ///
    /// # Errors
    /// [`Error::Locked`](crate::Error::Locked) if somebody else writes into it; [`Error::ReadOnly`](crate::Error::ReadOnly).
    pub fn open(dir: impl Into<PathBuf>, options: SaveOptions) -> Result<Saver> {
        options.check()?;
        Ok(Saver { dir: dir.into(), options })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The options it was opened with.
    pub fn options(&self) -> &SaveOptions {
        &self.options
    }
}
