//! A checkpoint put back into memory.
//!
//! Regions are made where nobody sees them, with the bytes of the files read into the very pages that the version will show,
//! and put in their place when every chunk was found to be what was written.

use crate::checkpoint::{Checkpoint, Scratch};
use crate::damage::Damage;
use crate::store::{Skipped, Store, is_checkpoint};
use crate::verify::Reading;
use crate::{Error, Result, workers};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use stillframe::{Declaration, Kind, LoanBytes, RegionOptions, Rule, Staging};
use stillframe_kernel::{points, space};

/// Most bytes of one region: 64 TiB. What describes them in memory is counted before there is any.
const BYTES_MAX: u64 = 1 << 46;

/// How a checkpoint is put back into memory.
#[derive(Debug, Clone)]
pub struct RestoreOptions {
    threads: usize,
    replace: bool,
    version: Option<u64>,
}

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The version.
    pub version: u64,
    /// The checkpoint it came from.
    pub path: PathBuf,
    /// Newer checkpoints that are damaged, newest first, and how.
    pub skipped: Vec<Skipped>,
    /// What of its files is damaged and was not needed: descriptions of the arrays for other programs.
    pub damages: Vec<Damage>,
}

impl Default for RestoreOptions {
    fn default() -> Self {
        RestoreOptions { threads: workers::default_threads(), replace: false, version: None }
    }
}

impl RestoreOptions {
    /// The options nobody asked for anything else in.
    pub fn new() -> RestoreOptions {
        RestoreOptions::default()
    }

    /// Threads that read; by default as many as there are processors, at most 4.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Whether a region of the name that is in memory, without a producer, makes way; false by default. Observers keep
    /// what they hold of it.
    pub fn replace(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }

    /// The version to restore from a store; by default the newest that is good.
    pub fn version(mut self, version: Option<u64>) -> Self {
        self.version = version;
        self
    }

    /// Puts a checkpoint into memory as region `name` of the directory that `region` says, or as the ranks of a group:
    /// without a producer, as a program leaves them that published this version and ended. A program that creates the
    /// region recovers it. Of the options for regions, directory, mode and bound count.
    ///
    /// Every chunk is checked while it is read. On an error nothing was made or changed.
    ///
    /// # Errors
    /// [`Error::Damaged`] with the chunk. Of the engine: `InUse` if a producer of the name lives; `Survives` if a region of
    /// the name is in memory, and was not to be replaced; `NoSpace` or `Bound` if there is too little memory; `Staged` if
    /// another process restores the same name; `Denied`.
    pub fn restore(
        &self,
        checkpoint: &Checkpoint,
        region: &RegionOptions,
        name: &str,
        progress: &(dyn Fn(Reading) + Sync),
    ) -> Result<u64> {
        self.check()?;
        let staging = Staging::begin(region, name)?;
        // Better no beginning than one that fails half-way.
        staging.check(self.replace)?;
        checkpoint.check()?;
        check_space(checkpoint, staging.path().parent().unwrap_or(staging.path()))?;
        let done = AtomicU64::new(0);
        let all = Task { checkpoint, threads: self.threads, done: &done, progress };
        match checkpoint.manifest().ranks {
            None => all.fill(&staging, None)?,
            Some(ranks) => (0..ranks).try_for_each(|rank| all.fill(&staging, Some((rank, ranks))))?,
        }
        points::hit("restore.filled");
        staging.commit(self.replace)?;
        points::hit("restore.committed");
        Ok(checkpoint.version())
    }

    /// Restores the newest checkpoint of a directory that is good, or the version asked for, as
    /// [`restore`](RestoreOptions::restore) does. What is newer and damaged is named in the result. `dir` may also be a
    /// single checkpoint.
    ///
    /// # Errors
    /// As [`restore`](RestoreOptions::restore); [`Error::NoCheckpoint`] if none is good, [`Error::NoSuchVersion`],
    /// [`Error::NoStore`].
    pub fn restore_newest(
        &self,
        dir: impl AsRef<Path>,
        region: &RegionOptions,
        name: &str,
        progress: &(dyn Fn(Reading) + Sync),
    ) -> Result<Restored> {
        let dir = dir.as_ref();
        let mut skipped = Vec::new();
        let take = |checkpoint: Checkpoint| {
            let version = self.restore(&checkpoint, region, name, progress)?;
            Ok((version, checkpoint.path().to_path_buf(), checkpoint.verify_descriptions()))
        };
        let (version, path, damages) = match self.version {
            _ if is_checkpoint(dir) => take(open_single(dir, self.version)?)?,
            Some(version) => take(Store::open(dir)?.version(version)?)?,
            None => Store::open(dir)?.first_good(&mut skipped, take)?,
        };
        Ok(Restored { version, path, skipped, damages })
    }

    fn check(&self) -> Result<()> {
        match self.threads {
            1..=1024 => Ok(()),
            threads => {
                let why = format!("{threads} is not between 1 and 1024");
                Err(Error::BadOption { option: "threads", why })
            }
        }
    }
}

fn open_single(dir: &Path, version: Option<u64>) -> Result<Checkpoint> {
    let checkpoint = Checkpoint::open(dir)?;
    match version.filter(|version| *version != checkpoint.version()) {
        Some(version) => Err(Error::NoSuchVersion { dir: dir.into(), version, known: vec![checkpoint.version()] }),
        None => Ok(checkpoint),
    }
}

/// Restores a checkpoint with default options; see [`RestoreOptions::restore`].
///
/// # Errors
/// As [`RestoreOptions::restore`].
pub fn restore(checkpoint: &Checkpoint, region: RegionOptions, name: &str) -> Result<u64> {
    RestoreOptions::new().restore(checkpoint, &region, name, &|_| {})
}

/// Restores the newest good checkpoint of a directory with default options; see [`RestoreOptions::restore_newest`].
///
/// # Errors
/// As [`RestoreOptions::restore_newest`].
pub fn restore_newest(dir: impl AsRef<Path>, region: RegionOptions, name: &str) -> Result<Restored> {
    RestoreOptions::new().restore_newest(dir, &region, name, &|_| {})
}

/// Whether the file system of `place` has room for the checkpoint.
fn check_space(checkpoint: &Checkpoint, place: &Path) -> Result<()> {
    let needed_bytes = checkpoint.bytes();
    let free_bytes = File::open(place).ok().and_then(|dir| space::free_bytes(&dir));
    match needed_bytes <= free_bytes.unwrap_or(BYTES_MAX).min(BYTES_MAX) {
        true => Ok(()),
        false => {
            Err(stillframe::Error::NoSpace { path: place.into(), needed_bytes, free_bytes, lacks_inodes: false }.into())
        }
    }
}

/// What is the same for all ranks.
struct Task<'a> {
    checkpoint: &'a Checkpoint,
    threads: usize,
    done: &'a AtomicU64,
    progress: &'a (dyn Fn(Reading) + Sync),
}

impl Task<'_> {
    /// Makes a region, or that of a rank, and closes it.
    fn fill(&self, staging: &Staging, rank: Option<(u32, u32)>) -> Result<()> {
        let manifest = self.checkpoint.manifest();
        let own = rank.map(|(rank, _)| rank);
        // Nobody else is there to wait for.
        let mut options = staging.options(rank).rule(Rule::Fail);
        if let Some(run) = manifest.run {
            options = options.run(run);
        }
        let mut region = options.create(staging.name())?;
        let mut loans: Vec<(usize, LoanBytes)> = Vec::new();
        for (index, variable) in manifest.variables.iter().enumerate().filter(|(_, variable)| variable.rank == own) {
            let id = region.declare(Declaration {
                name: variable.name.clone(),
                dtype: variable.dtype.clone(),
                order: variable.order,
                units: variable.units.clone(),
                attributes: variable.attributes.clone(),
                kind: Kind::Loaned { shape: variable.shape.clone() },
                pinned: false,
            })?;
            loans.push((index, region.loan_bytes(id)?));
        }
        points::hit("restore.lent");
        self.read(&mut loans).map_err(|damage| damage.of(self.checkpoint.path()))?;
        points::hit("restore.read");
        loans.into_iter().for_each(|(_, loan)| loan.submit());
        let (attributes, published_ns) = match own {
            None => (&manifest.attributes, manifest.published_ns),
            Some(rank) => (&manifest.rank_attributes[rank as usize], manifest.rank_published_ns[rank as usize]),
        };
        let mut publication = region.publish(manifest.version).published_ns(published_ns);
        for (name, value) in attributes {
            publication = publication.attr(name, value.clone());
        }
        publication.commit()?;
        Ok(region.close()?)
    }

    /// Reads all chunks of variables into their memory.
    fn read(&self, loans: &mut [(usize, LoanBytes)]) -> Result<(), Box<Damage>> {
        let checkpoint = self.checkpoint;
        let jobs = loans.iter_mut().flat_map(|(variable, loan)| {
            let (variable, grid) = (*variable, &checkpoint.grids()[*variable]);
            let mut rest: &mut [u8] = loan;
            // Chunks follow each other without a gap, so each gets what the ones before left.
            (0..grid.chunks()).map(move |chunk| {
                let (part, after) = std::mem::take(&mut rest).split_at_mut(grid.range(chunk).len());
                rest = after;
                (variable, chunk, part)
            })
        });
        let damage = Mutex::new(None);
        workers::work(self.threads, jobs, |(variable, chunk, part), scratch: &mut Scratch| {
            if let Err(found) = checkpoint.read_chunk(variable, chunk, part, scratch) {
                damage.lock().unwrap_or_else(|poison| poison.into_inner()).get_or_insert(found);
                return false;
            }
            points::hit("restore.chunk");
            let bytes_done = self.done.fetch_add(part.len() as u64, Ordering::Relaxed) + part.len() as u64;
            (self.progress)(Reading { version: checkpoint.version(), bytes: checkpoint.bytes(), bytes_done });
            true
        });
        damage.into_inner().unwrap_or_else(|poison| poison.into_inner()).map_or(Ok(()), Err)
    }
}
