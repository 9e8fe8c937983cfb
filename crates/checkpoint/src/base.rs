//! The checkpoint before, with which a new one shares the chunks that did not change.
//!
//! Chunks are checked against it by their checksums. A snapshot of that version would tell more cheaply which pages changed,
//! but to keep one means that its producer keeps the memory of all that changed since; and its tables alone would prove
//! nothing, because slots that were let go are used again.

use crate::digest::Digest;
use crate::manifest::{CodecName, Variable};
use crate::{Checkpoint, Error, Result};
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// A chunk in its file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored {
    /// The checksum of the file.
    pub digest: Digest,
    /// The checksum of what it unpacks to, if that is known.
    pub content: Option<Digest>,
    /// Bytes of the file.
    pub bytes: u64,
}

/// A checkpoint that unchanged chunks can be shared with.
#[derive(Debug)]
pub(crate) struct Base {
    pub version: u64,
    /// The directory itself, whatever its name becomes meanwhile.
    dir: File,
    variables: HashMap<String, (Variable, Vec<Stored>)>,
}

impl Base {
    /// A checkpoint of which no more is known than its files say.
    pub fn of(checkpoint: &Checkpoint) -> Result<Base> {
        let (path, digests) = (checkpoint.path(), checkpoint.digests()?);
        let mut variables = HashMap::new();
        for (variable, grid) in checkpoint.manifest().variables.iter().zip(checkpoint.grids()) {
            let plain = variable.codec == CodecName::Bytes;
            let chunk = |index| {
                let file = variable.chunk_path(grid, index);
                let digest = digests.get(&file).copied()?;
                let bytes = if plain { grid.chunk_bytes() as u64 } else { fs::metadata(path.join(file)).ok()?.len() };
                Some(Stored { digest, content: plain.then_some(digest), bytes })
            };
            if let Some(chunks) = (0..grid.chunks()).map(chunk).collect() {
                variables.insert(variable.path.clone(), (variable.clone(), chunks));
            }
        }
        let dir = File::open(path).map_err(|error| Error::io("open", path, error))?;
        Ok(Base { version: checkpoint.version(), dir, variables })
    }

    /// The checkpoint at `path` that was just written, with the chunks of each variable.
    pub fn new(version: u64, path: &Path, chunks: impl Iterator<Item = (Variable, Vec<Stored>)>) -> Option<Base> {
        let variables = chunks.map(|(variable, chunks)| (variable.path.clone(), (variable, chunks))).collect();
        Some(Base { version, dir: File::open(path).ok()?, variables })
    }

    /// Extents of the chunks of the array at `path`.
    pub fn chunk_shape(&self, path: &str) -> Option<&[usize]> {
        self.variables.get(path).map(|(variable, _)| &*variable.chunk_shape)
    }

    /// The chunks of a variable, if it was cut and stored alike.
    pub fn chunks(&self, like: &Variable) -> Option<&[Stored]> {
        let (variable, chunks) = self.variables.get(&like.path)?;
        let alike = variable.shape == like.shape
            && variable.chunk_shape == like.chunk_shape
            && variable.order == like.order
            && variable.dtype == like.dtype
            && variable.codec == like.codec;
        alike.then_some(chunks)
    }

    /// Makes a file of the checkpoint visible at `to` too, if it still has the size it had.
    pub fn link(&self, file: &str, bytes: u64, to: &Path) -> bool {
        let from = PathBuf::from(format!("/proc/self/fd/{}/{file}", self.dir.as_raw_fd()));
        if fs::hard_link(from, to).is_err() {
            return false;
        }
        let whole = fs::metadata(to).is_ok_and(|data| data.len() == bytes);
        if !whole {
            let _ = fs::remove_file(to);
        }
        whole
    }
}
