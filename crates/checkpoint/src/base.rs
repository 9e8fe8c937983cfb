//! The checkpoint before, with which a new one shares the chunks that did not change.
//!
//! Chunks are checked against it by their checksums. A snapshot of that version would tell more cheaply which pages changed,
//! but to keep one means that its producer keeps the memory of all that changed since; and its tables alone would prove
//! nothing, because frames that were let go are used again.

use crate::digest::Digest;
use crate::manifest::{CodecName, Variable};
use crate::tree::Tree;
use crate::{Checkpoint, Result};
use std::collections::HashMap;
use stillframe_kernel::folder::{About, Folder, Form};
use stillframe_kernel::trust::Guard;

/// A chunk in its file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredChunk {
    /// The checksum of the file.
    pub digest: Digest,
    /// The checksum of what it unpacks to, if that is known.
    pub content: Option<Digest>,
    /// Bytes of the file.
    pub bytes: u64,
    /// The round in which it was last written or read back; 0 if that is not known.
    pub round: u64,
}

/// A checkpoint that unchanged chunks can be shared with.
#[derive(Debug)]
pub(crate) struct Base {
    pub version: u64,
    /// The directory itself, whatever its name becomes meanwhile.
    tree: Tree,
    variables: HashMap<String, (Variable, Vec<StoredChunk>)>,
}

impl Base {
    /// A checkpoint of which no more is known than its files say.
    pub fn of(checkpoint: &Checkpoint) -> Result<Base> {
        let (tree, digests) = (checkpoint.tree().clone(), checkpoint.digests()?);
        let mut variables = HashMap::new();
        for (variable, grid) in checkpoint.manifest().variables.iter().zip(checkpoint.grids()) {
            let plain = variable.codec == CodecName::Bytes;
            let chunk = |index| {
                let file = variable.chunk_path(grid, index);
                let digest = digests.get(&file).copied()?;
                let bytes = if plain { grid.chunk_bytes() as u64 } else { tree.file(&file).ok()?.1.len() };
                Some(StoredChunk { digest, content: plain.then_some(digest), bytes, round: 0 })
            };
            if let Some(chunks) = (0..grid.chunks()).map(chunk).collect() {
                variables.insert(variable.path.clone(), (variable.clone(), chunks));
            }
        }
        Ok(Base { version: checkpoint.version(), tree, variables })
    }

    /// The checkpoint in `tree` that was just written, with the chunks of each variable.
    pub fn new(version: u64, tree: Tree, chunks: impl Iterator<Item = (Variable, Vec<StoredChunk>)>) -> Base {
        let variables = chunks.map(|(variable, chunks)| (variable.path.clone(), (variable, chunks))).collect();
        Base { version, tree, variables }
    }

    /// Extents of the chunks of the array at `path`.
    pub fn chunk_shape(&self, path: &str) -> Option<&[usize]> {
        self.variables.get(path).map(|(variable, _)| &*variable.chunk_shape)
    }

    /// The chunks of a variable, if it was cut and stored alike.
    pub fn chunks(&self, like: &Variable) -> Option<&[StoredChunk]> {
        let (variable, chunks) = self.variables.get(&like.path)?;
        let alike = variable.shape == like.shape
            && variable.chunk_shape == like.chunk_shape
            && variable.order == like.order
            && variable.dtype == like.dtype
            && variable.codec == like.codec;
        alike.then_some(chunks)
    }

    /// Makes a file of the checkpoint visible in another directory, under a name of its own, if it still has the size it had
    /// and nobody else can change it.
    pub fn link(&self, file: &str, bytes: u64, (folder, name): (Folder, &str), guard: Guard) -> bool {
        let linked = self.tree.place(file).and_then(|(from, own)| from.hard_link(own, &folder, name));
        if linked.is_err() {
            return false;
        }
        let is_whole = |about: About| guard.check(&about, Form::File).is_ok() && about.bytes == bytes;
        let whole = folder.about_name(name).is_ok_and(is_whole);
        if !whole {
            let _ = folder.remove_file(name);
        }
        whole
    }
}
