//! Whether a checkpoint is what was written.

use crate::checkpoint::{Checkpoint, Scratch};
use crate::damage::{Damage, Fault};
use crate::digest::{Digest, Digests};
use crate::{Result, layout, workers};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far reading a checkpoint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The version.
    pub version: u64,
    /// Bytes of all variables.
    pub bytes: u64,
    /// Those that were read.
    pub bytes_done: u64,
}

/// A file to be checked.
enum Job<'a> {
    Chunk { variable: usize, chunk: usize },
    File { path: &'a str, digest: Digest },
}

impl Checkpoint {
    /// Reads all files of the checkpoint and compares them with their checksums. Returns every one that is damaged, missing,
    /// or not one of its own, by path; an empty list means that all is as it was written. Nothing outside its directory is
    /// read.
    ///
    /// # Errors
    /// [`Error::Unreadable`](crate::Error::Unreadable) if its directories cannot be listed.
    pub fn verify(&self, threads: usize, progress: &(dyn Fn(Reading) + Sync)) -> Result<Vec<Damage>> {
        let digests = match self.check_counts().and_then(|()| self.load_digests()) {
            Ok(digests) => digests,
            // Without the checksums nothing can be said of the rest.
            Err(damage) => return Ok(vec![*damage]),
        };
        let jobs = self.chunks().map(|(variable, chunk)| Job::Chunk { variable, chunk });
        let jobs = jobs.chain(self.beside_chunks(digests).map(|(path, digest)| Job::File { path, digest }));

        let damages = Mutex::new(Vec::new());
        let (version, bytes, done) = (self.version(), self.bytes(), AtomicU64::new(0));
        workers::work(threads, jobs, |job, scratch: &mut Scratch| {
            let (result, count) = match job {
                Job::Chunk { variable, chunk } => {
                    let count = self.grids()[variable].range(chunk).len();
                    (self.check_chunk(variable, chunk, scratch), count as u64)
                }
                Job::File { path, digest } => (self.check_file(path, digest), 0),
            };
            if let Err(damage) = result {
                damages.lock().unwrap_or_else(|poison| poison.into_inner()).push(*damage);
            }
            let bytes_done = done.fetch_add(count, Ordering::Relaxed) + count;
            progress(Reading { version, bytes, bytes_done });
            true
        });

        let mut damages = damages.into_inner().unwrap_or_else(|poison| poison.into_inner());
        let own = [layout::MANIFEST, layout::MANIFEST_CHECKSUM, layout::CHECKSUMS];
        // The directories above files, each with the slash that ends it.
        let mut dirs: BTreeSet<&str> = BTreeSet::new();
        for path in digests.keys() {
            dirs.extend(path.match_indices('/').map(|(at, _)| &path[..at]));
        }
        let found = self.tree().walk(&|dir| dirs.contains(dir))?;
        let is_own = |path: &String| digests.contains_key(path) || own.contains(&path.as_str());
        damages.extend(found.iter().filter(|path| !is_own(path)).map(|path| *Damage::file(path, Fault::Foreign)));
        damages.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(damages)
    }

    /// Reads all chunks and compares them with their checksums. What describes the arrays to other programs is not looked at: reading
    /// the checkpoint here takes nothing of it, and other programs may have changed it with good reason.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) with one that is damaged.
    pub(crate) fn check_chunks(&self, threads: usize) -> Result<()> {
        self.check_counts().map_err(|damage| damage.of(self.path()))?;
        let damage = Mutex::new(None);
        workers::work(threads, self.chunks(), |(variable, chunk), scratch: &mut Scratch| {
            let found = self.check_chunk(variable, chunk, scratch).err();
            let mut damage = damage.lock().unwrap_or_else(|poison| poison.into_inner());
            *damage = damage.take().or(found);
            damage.is_none()
        });
        let damage = damage.into_inner().unwrap_or_else(|poison| poison.into_inner());
        damage.map_or(Ok(()), |damage| Err(damage.of(self.path())))
    }

    /// The files that are no chunks and are damaged or missing: what describes the arrays to other programs. To read the
    /// checkpoint here nothing of them is needed.
    pub fn verify_descriptions(&self) -> Vec<Damage> {
        let digests = match self.check_counts().and_then(|()| self.load_digests()) {
            Ok(digests) => digests,
            Err(damage) => return vec![*damage],
        };
        let files = self.beside_chunks(digests);
        files.filter_map(|(path, digest)| self.check_file(path, digest).err()).map(|damage| *damage).collect()
    }

    /// The files that are no chunks, with their checksums.
    fn beside_chunks<'a>(&self, digests: &'a Digests) -> impl Iterator<Item = (&'a str, Digest)> + use<'a> {
        let chunk_paths: BTreeSet<String> =
            self.chunks().map(|(variable, chunk)| self.chunk_path(variable, chunk)).collect();
        let files = digests.iter().filter(move |(path, _)| !chunk_paths.contains(*path));
        files.map(|(path, digest)| (path.as_str(), *digest))
    }

    /// Each chunk of each variable.
    fn chunks(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.grids().len())
            .flat_map(|variable| (0..self.grids()[variable].chunks()).map(move |chunk| (variable, chunk)))
    }

    /// Bytes of all variables.
    pub fn bytes(&self) -> u64 {
        self.grids().iter().fold(0u64, |all, grid| all.saturating_add(grid.bytes() as u64))
    }
}
