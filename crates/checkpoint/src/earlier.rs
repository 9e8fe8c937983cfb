//! Checkpoints of an earlier run, whose numbers the present one gives again.
//!
//! A run that begins with nothing, or from a version before the last, gives numbers that are taken. Whoever restarted later
//! from the highest number would restart the wrong run. What an earlier run left under numbers that are not below a version
//! published after it therefore goes into a directory of its own, `earlier-N`, a store like any other.
//!
//! Nothing is moved before what takes its place is on disk, so that the store has a good checkpoint at every instant. The
//! directory is made before the new checkpoint has its name, and the one that has the highest number is moved last: as long as
//! the directory does not have that one, whoever looks for the newest goes by time (see `store`).

use crate::directory::{Directory, FOLDER_MODE};
use crate::store::{Names, checkpoint_of, named};
use crate::{Checkpoint, Error, Result, layout};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use stillframe_kernel::folder::Folder;
use stillframe_kernel::points;

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
    store: Directory,
    /// The name of the directory they go into.
    to: String,
    /// Ascending, with numbers not below that of the version which contradicts them.
    versions: Vec<u64>,
    contradicted_by: u64,
}

/// Gives each of two directories the other's name in one step, where the file system can.
type Exchange = fn(&Folder, &str, &Folder, &str) -> io::Result<()>;

fn exchange(folder: &Folder, name: &str, other: &Folder, others: &str) -> io::Result<()> {
    folder.exchange(name, other, others)
}

impl Earlier {
    /// Finds the checkpoints whose numbers are not below this version's although they were published before it.
    pub fn find(store: &Directory, version: u64, published_ns: u64) -> Result<Option<Earlier>> {
        let dir = store.path();
        let is_older =
            |found: &u64| checkpoint_of(dir, *found).is_some_and(|found| found.manifest().published_ns < published_ns);
        let versions: Vec<u64> = named(dir)?.range(version..).copied().filter(is_older).collect();
        Ok((!versions.is_empty()).then(|| Earlier::new(store, versions, version)))
    }

    /// Chooses where the versions go.
    fn new(store: &Directory, versions: Vec<u64>, contradicted_by: u64) -> Earlier {
        let last = versions.last().copied().unwrap_or_default();
        let has_any = |name: &str| {
            let Ok(folder) = store.folder().folder(name) else { return false };
            versions.iter().any(|version| folder.has(layout::checkpoint_dir(*version)))
        };
        let numbered = |number: u32| layout::earlier_dir(last, number);
        let to = (1..).map(numbered).find(|name| !has_any(name)).unwrap_or_else(|| numbered(0));
        Earlier { store: store.clone(), to, versions, contradicted_by }
    }

    /// Whether the very number of one of them is given again.
    pub fn is_given_again(&self) -> bool {
        self.versions.first() == Some(&self.contradicted_by)
    }

    /// Says in the store that what was found goes away, before there is what contradicts it: by the name of the directory they go
    /// into. If something else has that name, they cannot be moved, but the name says it all the same.
    ///
    /// # Errors
    /// Nothing has the name. Whoever restarted would go on from the earlier run, whatever is saved.
    pub fn announce(&self) -> Result<()> {
        self.make().map(drop).or_else(|error| {
            self.leave();
            if self.store.folder().has(&self.to) { Ok(()) } else { Err(error) }
        })
    }

    /// Puts a checkpoint that is on disk in the place of the one whose number is given again, and that one aside. Nothing has
    /// changed after an error.
    pub fn give_way(&self, partial: &str) -> Result<()> {
        self.give_way_by(partial, exchange)
    }

    fn give_way_by(&self, partial: &str, exchange: Exchange) -> Result<()> {
        let name = layout::checkpoint_dir(self.contradicted_by);
        let store = self.store.folder();
        let fail = |name: &str, error| Error::io("rename", &self.store.path().join(name), error);
        let given = self.make().and_then(|to| match exchange(store, partial, store, &name) {
            Ok(()) => {
                points::hit("earlier.exchanged");
                store.rename(partial, &to, &name).map_err(|error| {
                    let _ = exchange(store, partial, store, &name);
                    fail(partial, error)
                })
            }
            // Some file systems, and those that come over a network, cannot. The instant between the two steps is all that
            // can be done there, and the earlier run's checkpoint is safe in its new place.
            Err(error) if is_unsupported(&error) => {
                // What is to be found in that instant is found by its name.
                self.store.sync()?;
                store.rename(&name, &to, &name).map_err(|error| fail(&name, error))?;
                store.rename(partial, store, &name).map_err(|error| {
                    let _ = to.rename(&name, store, &name);
                    fail(partial, error)
                })
            }
            Err(error) => Err(Error::io("renameat2", &self.store.path().join(&name), error)),
        });
        given.inspect_err(|_| self.leave())?;
        points::hit("earlier.replaced");
        // The store is brought to disk by whoever commits.
        self.sync().inspect_err(|_| self.return_by(partial, exchange))
    }

    /// Undoes [`give_way`](Earlier::give_way), so that what is not safe is under no name. What cannot be undone is lost for
    /// nobody: the earlier run's checkpoint is where it was set aside.
    pub fn return_back(&self, partial: &str) {
        self.return_by(partial, exchange);
    }

    fn return_by(&self, partial: &str, exchange: Exchange) {
        let name = layout::checkpoint_dir(self.contradicted_by);
        let store = self.store.folder();
        if let Ok(to) = store.folder(&self.to) {
            let _ = match exchange(&to, &name, store, &name) {
                Ok(()) => to.rename(&name, store, partial),
                Err(_) => store.rename(&name, store, partial).and_then(|()| to.rename(&name, store, &name)),
            };
        }
        self.leave();
    }

    /// Moves the others, once the version that contradicts them is safe. Returns what was set aside, and what could not be
    /// done.
    pub fn set_aside(self) -> (Option<SetAside>, Option<Error>) {
        let mut versions = Vec::new();
        let moved = self.make().and_then(|to| {
            for (index, version) in self.versions.iter().enumerate() {
                // Not before the others are on disk: what happens to different names may come there in any order.
                if index > 0 && index + 1 == self.versions.len() {
                    self.sync()?;
                    self.store.sync()?;
                }
                let is_there = *version == self.contradicted_by || self.rename(*version, &to)?;
                versions.extend(is_there.then_some(*version));
                points::hit("earlier.moved");
            }
            self.sync()?;
            self.store.sync()?;
            points::hit("earlier.synced");
            Ok(())
        });
        if moved.is_err() && versions.is_empty() && self.is_given_again() {
            versions.push(self.contradicted_by);
        }
        let to = self.path();
        ((!versions.is_empty()).then_some(SetAside { versions, to }), moved.err())
    }

    /// The directory they go into, for messages.
    fn path(&self) -> PathBuf {
        self.store.path().join(&self.to)
    }

    /// Makes the directory they go into, and brings its name to disk before anything is in it.
    fn make(&self) -> Result<Folder> {
        let store = self.store.folder();
        match store.make_folder(&self.to, FOLDER_MODE) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => {
                made.map_err(|error| Error::io("mkdir", &self.path(), error))?;
                points::hit("earlier.made");
                self.store.sync()?;
            }
        }
        store.folder(&self.to).map_err(|error| Error::io("open", &self.path(), error))
    }

    /// Brings the names in the directory they go into to disk.
    fn sync(&self) -> Result<()> {
        let to = self.store.folder().folder(&self.to);
        to.and_then(|to| to.sync()).map_err(|error| Error::io("fsync", &self.path(), error))
    }

    /// Removes the directory they go into, if there is nothing in it.
    pub fn leave(&self) {
        let _ = self.store.folder().remove_folder(&self.to);
    }

    /// Says whether it was there to be moved.
    fn rename(&self, version: u64, to: &Folder) -> Result<bool> {
        let name = layout::checkpoint_dir(version);
        match self.store.folder().rename(&name, to, &name) {
            // Somebody deleted it.
            Err(error) if error.kind() == ErrorKind::NotFound && self.store.folder().has(&self.to) => Ok(false),
            other => other.map(|()| true).map_err(|error| Error::io("rename", &self.store.path().join(&name), error)),
        }
    }
}

/// Sets aside what a writer that was killed exchanged and did not come to move: a checkpoint that is whole, under the name of
/// one that is being written, and was published before the one that has its number. Says whether it was that.
pub(crate) fn recover(store: &Directory, left_over: &str) -> Result<bool> {
    let Ok(found) = Checkpoint::open_in(store.folder(), store.path(), left_over) else { return Ok(false) };
    let version = found.version();
    let is_earlier = checkpoint_of(store.path(), version)
        .is_some_and(|present| found.manifest().published_ns < present.manifest().published_ns);
    if !is_earlier || left_over != layout::partial_dir(version) {
        return Ok(false);
    }
    let earlier = Earlier::new(store, vec![version], version);
    let to = earlier.make()?;
    let renamed = store.folder().rename(left_over, &to, layout::checkpoint_dir(version));
    renamed.map_err(|error| Error::io("rename", &store.path().join(left_over), error))?;
    earlier.sync()?;
    store.sync()?;
    Ok(true)
}

/// Gives a checkpoint its name whose writer was killed when it had set aside what had it, where names cannot be exchanged. Says
/// whether it was that.
pub(crate) fn finish(store: &Directory, left_over: &str) -> Result<bool> {
    let fail = |call, error| Error::io(call, &store.path().join(left_over), error);
    let Some(version) = layout::partial_version(left_over) else { return Ok(false) };
    let names = Names::read(store.folder(), store.path())?;
    if !names.interrupted(store.path()).contains(&version) {
        return Ok(false);
    }
    let Ok(found) = Checkpoint::open_named(store.folder(), store.path(), version, left_over) else { return Ok(false) };
    // It was on disk before anything was set aside for it; but that may have been another writer, and this one have died before
    // it came to that. What is on disk is all that counts then.
    found.tree().sync(true, &|call, path, error| Error::io(call, path, error))?;
    if !found.verify(1, &|_| {})?.is_empty() {
        return Ok(false);
    }
    let renamed = store.folder().rename(left_over, store.folder(), layout::checkpoint_dir(version));
    renamed.map_err(|error| fail("rename", error))?;
    store.sync()?;
    Ok(true)
}

fn is_unsupported(error: &io::Error) -> bool {
    [Some(libc::EINVAL), Some(libc::ENOSYS), Some(libc::EOPNOTSUPP)].contains(&error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SaveOptions;
    use std::fs;
    use std::path::Path;

    fn unsupported(_: &Folder, _: &str, _: &Folder, _: &str) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::EINVAL))
    }

    /// A store with version 7, and another 7 beside it; each says whose it is.
    fn scene() -> (tempfile::TempDir, Earlier, PathBuf) {
        let store = tempfile::tempdir_in("/dev/shm").unwrap();
        let partial = store.path().join(layout::partial_dir(7));
        for (dir, whose) in [(store.path().join(layout::checkpoint_dir(7)), "old"), (partial.clone(), "new")] {
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("whose"), whose).unwrap();
        }
        let opened = Directory::open(store.path(), SaveOptions::new().guard().unwrap()).unwrap();
        let earlier = Earlier::new(&opened, vec![7], 7);
        (store, earlier, partial)
    }

    fn whose(dir: &Path) -> String {
        fs::read_to_string(dir.join("whose")).unwrap_or_default()
    }

    #[test]
    fn one_takes_the_place_of_another_also_where_names_cannot_be_exchanged() {
        for exchange in [exchange as Exchange, unsupported] {
            let (store, earlier, partial) = scene();
            earlier.give_way_by(&layout::partial_dir(7), exchange).unwrap();
            let (place, aside) = (
                store.path().join(layout::checkpoint_dir(7)),
                store.path().join("earlier-7").join(layout::checkpoint_dir(7)),
            );
            assert_eq!((whose(&place), whose(&aside), partial.exists()), ("new".into(), "old".into(), false));
            earlier.return_by(&layout::partial_dir(7), exchange);
            assert_eq!((whose(&place), whose(&partial)), ("old".into(), "new".into()));
            assert!(!earlier.path().exists());
        }
    }

    #[test]
    fn what_cannot_give_way_stays_where_it_is() {
        for exchange in [exchange as Exchange, unsupported] {
            let (store, earlier, partial) = scene();
            // A file is in the way of the directory, and stays.
            fs::write(earlier.path(), "").unwrap();
            earlier.give_way_by(&layout::partial_dir(7), exchange).unwrap_err();
            assert_eq!(
                (whose(&store.path().join(layout::checkpoint_dir(7))), whose(&partial)),
                ("old".into(), "new".into())
            );
            assert!(earlier.path().is_file());
        }
    }
}
