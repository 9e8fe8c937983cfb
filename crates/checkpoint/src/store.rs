//! The checkpoints of a directory.

use crate::checkpoint::Checkpoint;
use crate::{Error, Result, layout};
use std::path::{Path, PathBuf};
use stillframe_kernel::folder::Folder;

/// How often all checkpoints may be deleted while they are read, with others in their place.
const ATTEMPTS: usize = 10;

/// A directory with the checkpoints of one region or group. Looking at it takes no lock and writes nothing: it may belong
/// to somebody else, be read-only, or be written to meanwhile.
#[derive(Debug, Clone)]
pub struct Store {
    path: PathBuf,
}

/// What is there of a version.
#[derive(Debug)]
pub struct Entry {
    /// The version, as the directory's name says.
    pub version: u64,
    /// The directory.
    pub path: PathBuf,
    /// The checkpoint with its manifest, or what is wrong with that.
    pub checkpoint: Result<Checkpoint>,
}

/// A checkpoint that was not used, because it is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its directory.
    pub path: PathBuf,
    /// What is wrong with it, with the file, and the chunk if it is one.
    pub why: String,
}

impl std::fmt::Display for Skipped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.why)
    }
}

impl Store {
    /// Opens a directory of checkpoints.
    ///
    /// # Errors
    /// [`Error::NoStore`] if there is no directory, or it is a single checkpoint; [`Error::Unreadable`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Store> {
        let path = dir.as_ref().to_path_buf();
        let folder = open(&path)?;
        // Who may not list it is told so here.
        folder.reopen().map_err(|error| Error::reading("open", &path, error))?;
        if has_checkpoint(&folder) {
            return Err(Error::NoStore { path, why: "is a single checkpoint".into() });
        }
        Ok(Store { path })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The versions that have a directory, ascending. What is being written or deleted has none.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub fn versions(&self) -> Result<Vec<u64>> {
        let failed = |error| Error::reading("readdir", &self.path, error);
        let names = open(&self.path)?.names().map_err(failed)?;
        let version = |name: std::ffi::OsString| layout::checkpoint_version(name.to_str()?);
        let mut versions: Vec<u64> = names.into_iter().filter_map(version).collect();
        versions.sort_unstable();
        Ok(versions)
    }

    /// The versions that have a directory with what their manifests tell, ascending.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if the directory cannot be listed.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        let mut versions = self.versions()?;
        loop {
            let mut entries: Vec<Entry> = versions.iter().map(|version| self.entry(*version)).collect();
            // What is deleted meanwhile, because newer ones are there, is not damaged.
            entries.retain(|entry| entry.checkpoint.is_ok() || std::fs::symlink_metadata(&entry.path).is_ok());
            let again = self.versions()?;
            if !entries.is_empty() || again == versions {
                return Ok(entries);
            }
            versions = again;
        }
    }

    fn entry(&self, version: u64) -> Entry {
        let path = self.path.join(layout::checkpoint_dir(version));
        let opened = open(&self.path).and_then(|folder| Checkpoint::open_version(&folder, &self.path, version));
        let checkpoint = opened.map_err(|error| match error {
            Error::NoStore { path, why } => Error::Damaged { path, why: format!("it {why}") },
            other => other,
        });
        Entry { version, checkpoint, path }
    }

    /// The checkpoint of a version, if its manifest is good.
    ///
    /// # Errors
    /// [`Error::NoSuchVersion`]; otherwise as [`Checkpoint::open`].
    pub fn version(&self, version: u64) -> Result<Checkpoint> {
        let known = self.versions()?;
        if !known.contains(&version) {
            return Err(Error::NoSuchVersion { dir: self.path.clone(), version, known });
        }
        self.entry(version).checkpoint
    }

    /// The newest checkpoint whose manifest is good, and whose files are all there and as long as they were. Their content
    /// is checked when it is read.
    ///
    /// # Errors
    /// [`Error::NoCheckpoint`] with what is wrong with those that are there; [`Error::Unreadable`].
    pub fn newest(&self) -> Result<Checkpoint> {
        self.newest_naming(&mut Vec::new())
    }

    /// As [`newest`](Store::newest); the damaged ones that are newer are added to `skipped`.
    ///
    /// # Errors
    /// As [`newest`](Store::newest).
    pub fn newest_naming(&self, skipped: &mut Vec<Skipped>) -> Result<Checkpoint> {
        self.first_good(skipped, |checkpoint| checkpoint.check().map(|()| checkpoint))
    }

    /// What `take` makes of the newest checkpoint that is not damaged.
    pub(crate) fn first_good<T>(
        &self,
        skipped: &mut Vec<Skipped>,
        mut take: impl FnMut(Checkpoint) -> Result<T>,
    ) -> Result<T> {
        for _ in 0..ATTEMPTS {
            let mut is_same = true;
            for version in self.versions()?.into_iter().rev() {
                let Entry { path, checkpoint, .. } = self.entry(version);
                match checkpoint.and_then(&mut take) {
                    // Deleted while it was read, because newer ones came.
                    Err(_) if std::fs::symlink_metadata(&path).is_err() => is_same = false,
                    Err(error @ (Error::Damaged { .. } | Error::ForeignFormat { .. })) => {
                        skipped.push(Skipped { path, why: error.to_string() });
                    }
                    other => return other,
                }
            }
            if is_same {
                break;
            }
            skipped.clear();
        }
        let skipped = skipped.iter().map(Skipped::to_string).collect();
        Err(Error::NoCheckpoint { dir: self.path.clone(), skipped })
    }
}

fn open(path: &Path) -> Result<Folder> {
    Folder::open(path, true).map_err(|error| Error::reading("open", path, error))
}

fn has_checkpoint(folder: &Folder) -> bool {
    [layout::MANIFEST, layout::CHECKSUMS, layout::METADATA].iter().any(|file| folder.has(file))
}

/// Whether a directory is a checkpoint rather than one of several.
pub(crate) fn is_checkpoint(path: &Path) -> bool {
    open(path).is_ok_and(|folder| has_checkpoint(&folder))
}
