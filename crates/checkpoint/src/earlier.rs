//! Checkpoints of an earlier run, whose numbers the present one gives again.
//!
//! A run that begins with nothing, or from a version before the last, gives numbers that are taken. Whoever restarted later
//! from the highest number would restart the wrong run. What an earlier run left under numbers that are not below a version
//! published after it therefore goes into a directory of its own, `earlier-N`, a store like any other.

use crate::status::{good, named};
use crate::{Error, Result, layout};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// What an earlier run left.
#[derive(Debug)]
pub(crate) struct Earlier {
    dir: PathBuf,
    to: PathBuf,
    /// Ascending, with numbers not below that of the version which contradicts them.
    versions: Vec<u64>,
    contradicted_by: u64,
}

impl Earlier {
    /// Finds the checkpoints whose numbers are not below this version's although they were published before it.
    pub fn find(dir: &Path, version: u64, published_ns: u64) -> Result<Option<Earlier>> {
        let is_older =
            |found: &u64| good(dir, *found).is_some_and(|found| found.manifest().published_ns < published_ns);
        let versions: Vec<u64> = named(dir)?.range(version..).copied().filter(is_older).collect();
        let Some(last) = versions.last() else { return Ok(None) };
        let has_any =
            |folder: &Path| versions.iter().any(|version| folder.join(layout::checkpoint_dir(*version)).exists());
        let numbered = |number: u32| match number {
            1 => dir.join(format!("earlier-{last}")),
            _ => dir.join(format!("earlier-{last}-{number}")),
        };
        let to = (1..).map(numbered).find(|folder| !has_any(folder)).unwrap_or_else(|| numbered(0));
        Ok(Some(Earlier { dir: dir.into(), to, versions, contradicted_by: version }))
    }

    /// The versions, ascending.
    pub fn versions(&self) -> &[u64] {
        &self.versions
    }

    /// Where they go.
    pub fn to(&self) -> &Path {
        &self.to
    }

    /// Moves all but the newest, so that there is a good checkpoint in the store at every instant; unless the very number of
    /// the newest is given again, which has to make room.
    pub fn begin(&self) -> Result<()> {
        match std::fs::create_dir(&self.to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other.map_err(|error| Error::io("mkdir", &self.to, error))?,
        }
        let last = self.versions.last();
        for version in
            self.versions.iter().filter(|version| Some(*version) != last || **version == self.contradicted_by)
        {
            self.rename(*version)?;
        }
        self.sync()
    }

    /// Moves the newest, once the version that contradicts it is safe.
    pub fn finish(&self) -> Result<()> {
        if let Some(newest) = self.versions.last().filter(|version| **version != self.contradicted_by) {
            self.rename(*newest)?;
        }
        self.sync()
    }

    fn rename(&self, version: u64) -> Result<()> {
        let name = layout::checkpoint_dir(version);
        let from = self.dir.join(&name);
        match std::fs::rename(&from, self.to.join(&name)) {
            // The keep rule was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.to.is_dir() => Ok(()),
            other => other.map_err(|error| Error::io("rename", &from, error)),
        }
    }

    fn sync(&self) -> Result<()> {
        for dir in [&self.to, &self.dir] {
            File::open(dir).and_then(|file| file.sync_all()).map_err(|error| Error::io("fsync", dir, error))?;
        }
        Ok(())
    }
}
