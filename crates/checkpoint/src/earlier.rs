//! Checkpoints of an earlier run, whose numbers the present one gives again.
//!
//! A run that begins with nothing, or from a version before the last, gives numbers that are taken. Whoever restarted later
//! from the highest number would restart the wrong run. What an earlier run left under numbers that are not below a version
//! published after it therefore goes into a directory of its own, `earlier-N`, a store like any other.
//!
//! Nothing is moved before what takes its place is on disk, so that the store has a good checkpoint at every instant.

use crate::status::{checkpoint_of, named};
use crate::{Checkpoint, Error, Result, directory, layout};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use stillframe_kernel::{Failure, points, rename};

/// Checkpoints of an earlier run that were moved out of the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// The versions, ascending.
    pub versions: Vec<u64>,
    /// The directory they are in, a store like any other.
    pub to: PathBuf,
}

/// What an earlier run left.
#[derive(Debug)]
pub(crate) struct Earlier {
    dir: PathBuf,
    to: PathBuf,
    /// Ascending, with numbers not below that of the version which contradicts them.
    versions: Vec<u64>,
    contradicted_by: u64,
}

/// Gives each of two directories the other's name in one step, where the file system can.
type Exchange = fn(&Path, &Path) -> std::result::Result<(), Failure>;

impl Earlier {
    /// Finds the checkpoints whose numbers are not below this version's although they were published before it.
    pub fn find(dir: &Path, version: u64, published_ns: u64) -> Result<Option<Earlier>> {
        let is_older =
            |found: &u64| checkpoint_of(dir, *found).is_some_and(|found| found.manifest().published_ns < published_ns);
        let versions: Vec<u64> = named(dir)?.range(version..).copied().filter(is_older).collect();
        Ok((!versions.is_empty()).then(|| Earlier::new(dir, versions, version)))
    }

    /// Chooses where the versions go.
    fn new(dir: &Path, versions: Vec<u64>, contradicted_by: u64) -> Earlier {
        let last = versions.last().copied().unwrap_or_default();
        let has_any =
            |folder: &Path| versions.iter().any(|version| folder.join(layout::checkpoint_dir(*version)).exists());
        let numbered = |number: u32| match number {
            1 => dir.join(format!("earlier-{last}")),
            _ => dir.join(format!("earlier-{last}-{number}")),
        };
        let to = (1..).map(numbered).find(|folder| !has_any(folder)).unwrap_or_else(|| numbered(0));
        Earlier { dir: dir.into(), to, versions, contradicted_by }
    }

    /// Whether the very number of one of them is given again.
    pub fn is_given_again(&self) -> bool {
        self.versions.first() == Some(&self.contradicted_by)
    }

    /// Puts a checkpoint that is on disk in the place of the one whose number is given again, and that one aside. Nothing has
    /// changed after an error.
    pub fn give_way(&self, partial: &Path) -> Result<()> {
        self.give_way_by(partial, rename::exchange)
    }

    fn give_way_by(&self, partial: &Path, exchange: Exchange) -> Result<()> {
        let (place, aside) = (self.place(self.contradicted_by), self.aside(self.contradicted_by));
        let given = self.make().and_then(|()| match exchange(partial, &place) {
            Ok(()) => {
                points::hit("earlier.exchanged");
                fs::rename(partial, &aside).map_err(|error| {
                    let _ = exchange(partial, &place);
                    Error::io("rename", partial, error)
                })
            }
            // Some file systems, and those that come over a network, cannot. The instant between the two steps is all that
            // can be done there, and the earlier run's checkpoint is safe in its new place.
            Err(failure) if is_unsupported(&failure) => {
                fs::rename(&place, &aside).map_err(|error| Error::io("rename", &place, error))?;
                fs::rename(partial, &place).map_err(|error| {
                    let _ = fs::rename(&aside, &place);
                    Error::io("rename", partial, error)
                })
            }
            Err(failure) => Err(Error::system(&place, failure)),
        });
        given.inspect_err(|_| self.leave())?;
        points::hit("earlier.replaced");
        // The store is brought to disk by whoever commits.
        sync(&self.to).inspect_err(|_| self.return_by(partial, exchange))
    }

    /// Undoes [`give_way`](Earlier::give_way), so that what is not safe is under no name. What cannot be undone is lost for
    /// nobody: the earlier run's checkpoint is where it was set aside.
    pub fn return_back(&self, partial: &Path) {
        self.return_by(partial, rename::exchange);
    }

    fn return_by(&self, partial: &Path, exchange: Exchange) {
        let (place, aside) = (self.place(self.contradicted_by), self.aside(self.contradicted_by));
        let _ = match exchange(&aside, &place) {
            Ok(()) => fs::rename(&aside, partial),
            Err(_) => fs::rename(&place, partial).and_then(|()| fs::rename(&aside, &place)),
        };
        self.leave();
    }

    /// Moves the others, once the version that contradicts them is safe. Returns what was set aside, and what could not be
    /// done.
    pub fn set_aside(self) -> (Option<SetAside>, Option<Error>) {
        let mut versions = Vec::new();
        let moved = self.make().and_then(|()| {
            for version in &self.versions {
                let is_there = *version == self.contradicted_by || self.rename(*version)?;
                versions.extend(is_there.then_some(*version));
                points::hit("earlier.moved");
            }
            sync(&self.to)?;
            sync(&self.dir)?;
            points::hit("earlier.synced");
            Ok(())
        });
        if moved.is_err() && versions.is_empty() && self.is_given_again() {
            versions.push(self.contradicted_by);
        }
        ((!versions.is_empty()).then_some(SetAside { versions, to: self.to }), moved.err())
    }

    fn place(&self, version: u64) -> PathBuf {
        self.dir.join(layout::checkpoint_dir(version))
    }

    fn aside(&self, version: u64) -> PathBuf {
        self.to.join(layout::checkpoint_dir(version))
    }

    /// Makes the directory they go into, and brings its name to disk before anything is in it.
    fn make(&self) -> Result<()> {
        match fs::create_dir(&self.to) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
            other => other.map_err(|error| Error::io("mkdir", &self.to, error))?,
        }
        points::hit("earlier.made");
        sync(&self.dir)
    }

    /// Removes the directory they go into, if there is nothing in it.
    fn leave(&self) {
        let _ = fs::remove_dir(&self.to);
    }

    /// Says whether it was there to be moved.
    fn rename(&self, version: u64) -> Result<bool> {
        let from = self.place(version);
        match fs::rename(&from, self.aside(version)) {
            // Somebody deleted it.
            Err(error) if error.kind() == ErrorKind::NotFound && self.to.is_dir() => Ok(false),
            other => other.map(|()| true).map_err(|error| Error::io("rename", &from, error)),
        }
    }
}

/// Sets aside what a writer that was killed exchanged and did not come to move: a checkpoint that is whole, under the name of
/// one that is being written, and was published before the one that has its number. Says whether it was that.
pub(crate) fn recover(dir: &Path, left_over: &Path) -> Result<bool> {
    let Ok(found) = Checkpoint::open(left_over) else { return Ok(false) };
    let version = found.version();
    let is_earlier = checkpoint_of(dir, version)
        .is_some_and(|present| found.manifest().published_ns < present.manifest().published_ns);
    if !is_earlier || *left_over != dir.join(layout::partial_dir(version)) {
        return Ok(false);
    }
    let earlier = Earlier::new(dir, vec![version], version);
    earlier.make()?;
    fs::rename(left_over, earlier.aside(version)).map_err(|error| Error::io("rename", left_over, error))?;
    sync(&earlier.to)?;
    sync(dir)?;
    Ok(true)
}

fn is_unsupported(failure: &Failure) -> bool {
    [libc::EINVAL, libc::ENOSYS, libc::EOPNOTSUPP].contains(&failure.errno())
}

fn sync(dir: &Path) -> Result<()> {
    directory::sync_dir(dir).map_err(|error: io::Error| Error::io("fsync", dir, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsupported(_: &Path, _: &Path) -> std::result::Result<(), Failure> {
        let source = io::Error::from_raw_os_error(libc::EINVAL);
        Err(Failure { call: "renameat2", detail: String::new(), source })
    }

    /// A store with version 7, and another 7 beside it; each says whose it is.
    fn scene() -> (tempfile::TempDir, Earlier, PathBuf) {
        let store = tempfile::tempdir_in("/dev/shm").unwrap();
        let partial = store.path().join(layout::partial_dir(7));
        for (dir, whose) in [(store.path().join(layout::checkpoint_dir(7)), "old"), (partial.clone(), "new")] {
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("whose"), whose).unwrap();
        }
        let earlier = Earlier::new(store.path(), vec![7], 7);
        (store, earlier, partial)
    }

    fn whose(dir: &Path) -> String {
        fs::read_to_string(dir.join("whose")).unwrap_or_default()
    }

    #[test]
    fn one_takes_the_place_of_another_also_where_names_cannot_be_exchanged() {
        for exchange in [rename::exchange as Exchange, unsupported] {
            let (store, earlier, partial) = scene();
            earlier.give_way_by(&partial, exchange).unwrap();
            let (place, aside) = (earlier.place(7), store.path().join("earlier-7").join(layout::checkpoint_dir(7)));
            assert_eq!((whose(&place), whose(&aside), partial.exists()), ("new".into(), "old".into(), false));
            earlier.return_by(&partial, exchange);
            assert_eq!((whose(&place), whose(&partial)), ("old".into(), "new".into()));
            assert!(!earlier.to.exists());
        }
    }

    #[test]
    fn what_cannot_give_way_stays_where_it_is() {
        for exchange in [rename::exchange as Exchange, unsupported] {
            let (_store, earlier, partial) = scene();
            // A file is in the way of the directory, and stays.
            fs::write(&earlier.to, "").unwrap();
            earlier.give_way_by(&partial, exchange).unwrap_err();
            assert_eq!((whose(&earlier.place(7)), whose(&partial)), ("old".into(), "new".into()));
            assert!(earlier.to.is_file());
        }
    }
}
