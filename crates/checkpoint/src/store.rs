//! The checkpoints of a directory.

use crate::checkpoint::Checkpoint;
use crate::{Error, Result, layout};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use stillframe::Family;
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
        Ok(self.names()?.versions)
    }

    /// The versions that have a directory with what their manifests tell, ascending. Each is opened when it is come to: there
    /// may be more than a process may have open at a time.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if the directory cannot be listed.
    pub fn entries(&self) -> Result<Entries> {
        self.go_through(Which::All)
    }

    /// As [`entries`](Store::entries), the one first that was published last: what to go on from.
    ///
    /// That is the one with the highest number. What an earlier run left under higher numbers was set aside, unless whoever did
    /// so died over it, or could not: then the times decide, which takes a look at all. One whose writer died between two names,
    /// where names cannot be exchanged, counts as if it had its own.
    ///
    /// # Errors
    /// As [`entries`](Store::entries).
    pub fn newest_first(&self) -> Result<Entries> {
        self.go_through(Which::NewestFirst)
    }

    /// What there is of one version.
    pub(crate) fn only(&self, version: u64) -> Result<Entries> {
        self.go_through(Which::Only(version))
    }

    fn go_through(&self, which: Which) -> Result<Entries> {
        let places = self.list(which)?.into_iter();
        Ok(Entries { store: self.clone(), places, which, is_any: false, is_any_gone: false, left: ATTEMPTS })
    }

    /// Versions with their places.
    fn list(&self, which: Which) -> Result<Vec<Place>> {
        match which {
            Which::All => self.versions().map(places),
            Which::NewestFirst => self.by_time(),
            Which::Only(version) => {
                let names = self.names()?;
                let mut versions = names.versions.clone();
                versions.retain(|found| *found == version);
                let mut places = places(versions);
                if places.is_empty() && names.interrupted(&self.path).contains(&version) {
                    places.push(Place { version, is_partial: true });
                }
                Ok(places)
            }
        }
    }

    /// The versions with their places, the one first that was published last.
    fn by_time(&self) -> Result<Vec<Place>> {
        let names = self.names()?;
        let mut places = places(names.versions.clone());
        let interrupted = names.interrupted(&self.path).into_iter();
        let interrupted = interrupted.map(|version| Place { version, is_partial: true });
        places.extend(interrupted.filter(|place| self.entry_at(place).checkpoint.is_ok()));
        places.sort_unstable_by_key(|place| Reverse(place.version));
        let Some(highest) = places.first().map(|place| place.version) else { return Ok(places) };
        // Whether it was to go away, because a later run gave numbers below it.
        let lacks = |name: &str| !names.folder.folder(name).is_ok_and(|to| to.has(layout::checkpoint_dir(highest)));
        let is_to_go = |name: &str| layout::earlier_version(name) == Some(highest) && lacks(name);
        if names.others.iter().filter_map(|name| name.to_str()).any(is_to_go) {
            // What cannot be read is told first.
            places.sort_by_cached_key(|place| {
                let checkpoint = self.entry_at(place).checkpoint;
                Reverse(checkpoint.map_or(u64::MAX, |checkpoint| checkpoint.manifest().published_ns))
            });
        }
        Ok(places)
    }

    fn names(&self) -> Result<Names> {
        Names::read(&open(&self.path)?, &self.path)
    }

    fn entry(&self, version: u64) -> Entry {
        self.entry_at(&Place { version, is_partial: false })
    }

    fn entry_at(&self, place: &Place) -> Entry {
        let (version, name) = (place.version, place.name());
        let path = self.path.join(&name);
        let opened = open(&self.path).and_then(|folder| Checkpoint::open_named(&folder, &self.path, version, &name));
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
        take: impl FnMut(Checkpoint) -> Result<T>,
    ) -> Result<T> {
        self.newest_after(None, skipped, take)?.ok_or_else(|| {
            let skipped = skipped.iter().map(Skipped::to_string).collect();
            Error::NoCheckpoint { dir: self.path.clone(), skipped }
        })
    }

    /// What `take` makes of the newest checkpoint that it does not find damaged, of those that were published after a time, in
    /// nanoseconds since 1970; of all, for `None`. The damaged ones that are newer are added to `skipped`. `None` if there is
    /// none.
    ///
    /// # Errors
    /// [`Error::Unreadable`]; those of `take` that tell of no damage.
    pub fn newest_after<T>(
        &self,
        published_ns: Option<u64>,
        skipped: &mut Vec<Skipped>,
        mut take: impl FnMut(Checkpoint) -> Result<T>,
    ) -> Result<Option<T>> {
        let before = skipped.len();
        for _ in 0..ATTEMPTS {
            let mut is_same = true;
            let mut entries = self.newest_first()?;
            for Entry { path, checkpoint, .. } in entries.by_ref() {
                let is_after =
                    |checkpoint: &Checkpoint| published_ns.is_none_or(|ns| checkpoint.manifest().published_ns > ns);
                // All others are older still.
                if checkpoint.as_ref().is_ok_and(|checkpoint| !is_after(checkpoint)) {
                    return Ok(None);
                }
                match checkpoint.and_then(&mut take) {
                    // Deleted while it was read, because newer ones came.
                    Err(_) if is_gone(&path) => is_same = false,
                    Err(error) if error.family() == Family::Corrupt => {
                        skipped.push(Skipped { path, why: error.finding() });
                    }
                    other => return other.map(Some),
                }
            }
            if is_same && !entries.is_any_gone {
                break;
            }
            skipped.truncate(before);
        }
        Ok(None)
    }
}

/// Which checkpoints are gone through, and in which order.
#[derive(Debug, Clone, Copy)]
enum Which {
    /// All, ascending.
    All,
    NewestFirst,
    Only(u64),
}

/// The checkpoints of a directory, one after the other.
#[derive(Debug)]
pub struct Entries {
    store: Store,
    places: std::vec::IntoIter<Place>,
    which: Which,
    is_any: bool,
    is_any_gone: bool,
    /// How often the directory is listed anew.
    left: usize,
}

impl Iterator for Entries {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            for place in self.places.by_ref() {
                let entry = self.store.entry_at(&place);
                // What is deleted meanwhile, because newer ones are there, is not damaged.
                if entry.checkpoint.is_err() && is_gone(&entry.path) {
                    self.is_any_gone = true;
                    continue;
                }
                self.is_any = true;
                return Some(entry);
            }
            if self.is_any || !self.is_any_gone || self.left == 0 {
                return None;
            }
            // All that were listed may have been deleted since.
            self.left -= 1;
            self.is_any_gone = false;
            self.places = self.store.list(self.which).ok()?.into_iter();
        }
    }
}

/// Where a version lies.
#[derive(Debug)]
struct Place {
    version: u64,
    /// Whether it has not its name yet.
    is_partial: bool,
}

impl Place {
    fn name(&self) -> String {
        match self.is_partial {
            true => layout::partial_dir(self.version),
            false => layout::checkpoint_dir(self.version),
        }
    }
}

fn places(versions: Vec<u64>) -> Vec<Place> {
    versions.into_iter().map(|version| Place { version, is_partial: false }).collect()
}

/// What lies in a store, which is kept small: there may be many checkpoints.
pub(crate) struct Names {
    folder: Folder,
    /// Of the checkpoints, ascending.
    versions: Vec<u64>,
    /// All other names.
    others: Vec<OsString>,
}

impl Names {
    /// Lists the directory at `dir`, which is open.
    pub(crate) fn read(folder: &Folder, dir: &Path) -> Result<Names> {
        let (mut versions, mut others) = (Vec::new(), Vec::new());
        let listed = folder.list(|name| match name.to_str().and_then(layout::checkpoint_version) {
            Some(version) => versions.push(version),
            None => others.push(name.to_os_string()),
        });
        listed.map_err(|error| Error::reading("readdir", dir, error))?;
        versions.sort_unstable();
        Ok(Names { folder: folder.clone(), versions, others })
    }

    /// Versions without a checkpoint of their name although one was set aside for a new one: its writer died before it had given
    /// it the name, where names cannot be exchanged. What it had written is whole.
    pub(crate) fn interrupted(&self, dir: &Path) -> Vec<u64> {
        let published_ns = |folder: &Folder, version| {
            let checkpoint = Checkpoint::open_version(folder, dir, version);
            checkpoint.ok().map(|checkpoint| checkpoint.manifest().published_ns)
        };
        let texts = || self.others.iter().filter_map(|name| name.to_str());
        let is_set_aside = |version: &u64| {
            let own = layout::checkpoint_dir(*version);
            let aside = |name| {
                let to = self.folder.folder(name).ok().filter(|to| to.has(&own))?;
                Some(published_ns(&to, *version).unwrap_or(u64::MAX))
            };
            let earlier = || texts().filter(|name| layout::earlier_version(name).is_some());
            let Some(aside) = earlier().filter_map(aside).max().filter(|_| !self.folder.has(&own)) else {
                return false;
            };
            // If a lower number is a later run's, that was what it was set aside for, and what is being written comes after it.
            let mut lower = self.versions.iter().rev().filter(|lower| *lower < version);
            lower.find_map(|lower| published_ns(&self.folder, *lower)).is_none_or(|lower| lower <= aside)
        };
        texts().filter_map(layout::partial_version).filter(is_set_aside).collect()
    }
}

fn is_gone(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_err()
}

/// Versions of the checkpoints that have their names, ascending, good or not. A directory that is not there has none.
pub(crate) fn named(dir: &Path) -> Result<BTreeSet<u64>> {
    let store = Store { path: dir.into() };
    match store.versions() {
        Err(Error::NoStore { .. }) => Ok(BTreeSet::new()),
        versions => Ok(versions?.into_iter().collect()),
    }
}

/// The checkpoint of a version, if it has its name and a good manifest.
pub(crate) fn checkpoint_of(dir: &Path, version: u64) -> Option<Checkpoint> {
    Checkpoint::open_version(&Folder::open(dir, true).ok()?, dir, version).ok()
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
