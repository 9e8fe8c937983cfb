//! What is safe, as anybody can see.
//!
//! It is asked of the directory: a checkpoint that is there under its name, with a good manifest, was synced before it got that
//! name. A copy was not, and is synced when it is asked for.

use crate::store::{Entry, Store, checkpoint_of};
use crate::{Checkpoint, Error, Result, layout};
use std::path::Path;
use std::time::{Duration, Instant};
use stillframe::Family;
use stillframe_kernel::folder::Folder;

/// How often somebody who waits looks at the directory: its file system may be one that tells nobody of changes.
const LOOK: Duration = Duration::from_millis(20);

/// Brings the names in a directory to disk: whoever gave one of them may not have come to that yet.
fn sync_names(dir: &Path) -> Result<()> {
    Folder::open(dir, true).and_then(|folder| folder.sync()).map_err(|error| Error::reading("fsync", dir, error))
}

/// Brings a checkpoint to disk if it is a copy; `false` if it has lost files, or was deleted meanwhile.
fn sync_copy(checkpoint: &Checkpoint) -> Result<bool> {
    match checkpoint.sync_copy() {
        Err(error) if error.family() == Family::Corrupt => Ok(false),
        synced => synced.map(|()| true),
    }
}

/// Whether a version is safe: a checkpoint of it is on disk in this directory, whole, and can be restored.
///
/// A version that was safe and was deleted by the keep rule is not any more. It asks the directory, and works from any
/// process, whether a checkpointer runs or not.
///
/// # Errors
/// [`Error::Unreadable`] if the directory cannot be read. One that is not there has nothing that is safe.
pub fn is_safe(dir: impl AsRef<Path>, version: u64) -> Result<bool> {
    let dir = dir.as_ref();
    let Some(checkpoint) = checkpoint_of(dir, version) else { return Ok(false) };
    let is_whole = sync_copy(&checkpoint)?;
    if is_whole {
        sync_names(dir)?;
    }
    Ok(is_whole)
}

/// The newest version that is safe; `None` if none is.
///
/// # Errors
/// As [`is_safe`].
pub fn newest_safe(dir: impl AsRef<Path>) -> Result<Option<u64>> {
    safe_from(dir.as_ref(), 0)
}

/// The newest version that is safe, if it is not below `version`: all that was done up to `version` need not be done again.
fn safe_from(dir: &Path, version: u64) -> Result<Option<u64>> {
    let store = match Store::open(dir) {
        // What is not there has nothing that is safe, nor has a directory that is a single checkpoint.
        Err(Error::NoStore { .. }) => return Ok(None),
        other => other?,
    };
    // What has not its name yet is not safe.
    let is_named = |entry: &Entry| entry.path.ends_with(layout::checkpoint_dir(entry.version));
    let mut entries = store.newest_first()?.filter(|entry| entry.version >= version && is_named(entry));
    while let Some(checkpoint) = entries.find_map(|entry| entry.checkpoint.ok()) {
        if sync_copy(&checkpoint)? {
            sync_names(dir)?;
            return Ok(Some(checkpoint.version()));
        }
    }
    Ok(None)
}

/// Waits until a version is safe, at most `timeout`, and says whether it is. A version that the checkpointer leaves out
/// never is, and one that the keep rule deletes soon may be missed: to know that everything *up to* a version is safe, see
/// [`wait_safe_from`].
///
/// # Errors
/// As [`is_safe`].
pub fn wait_safe(dir: impl AsRef<Path>, version: u64, timeout: Duration) -> Result<bool> {
    wait(timeout, || Ok(is_safe(dir.as_ref(), version)?.then_some(()))).map(|found| found.is_some())
}

/// Waits until a version not below `version` is safe, at most `timeout`, and says which; `None` if the time is over.
///
/// # Errors
/// As [`is_safe`].
pub fn wait_safe_from(dir: impl AsRef<Path>, version: u64, timeout: Duration) -> Result<Option<u64>> {
    wait(timeout, || safe_from(dir.as_ref(), version))
}

fn wait<T>(timeout: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    let begin = Instant::now();
    loop {
        let found = look()?;
        let left = timeout.saturating_sub(begin.elapsed());
        if found.is_some() || left.is_zero() {
            return Ok(found);
        }
        std::thread::sleep(left.min(LOOK));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Keep, SaveOptions, Saver};
    use std::sync::atomic::{AtomicBool, Ordering};
    use stillframe::{Observer, Region};

    #[test]
    fn a_version_is_safe_at_every_instant_although_one_takes_the_place_of_another() {
        let dir = tempfile::Builder::new().prefix("status-").tempdir_in("/dev/shm").unwrap();
        let mut region = Region::options().dir(dir.path().join("regions")).create("r").unwrap();
        region.array::<f64>("u", &[4]).unwrap();
        let observer = Observer::options();
        let store = dir.path().join("store");
        let saver = Saver::open(&store, SaveOptions::new().keep(Keep { newest: 1, every: None })).unwrap();
        let mut save = |version| {
            region.publish(version).commit().unwrap();
            let snapshot = observer.clone().dir(dir.path().join("regions")).open("r").unwrap().newest().unwrap();
            saver.save(&snapshot, &|_| {}).unwrap();
        };
        save(0);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                let mut looks = 0;
                while !is_over.load(Ordering::Relaxed) {
                    assert!(newest_safe(&store).unwrap().is_some(), "look {looks}");
                    let entries: Vec<_> = Store::open(&store).unwrap().entries().unwrap().collect();
                    assert!(!entries.is_empty() && entries.iter().all(|entry| entry.checkpoint.is_ok()), "{entries:?}");
                    looks += 1;
                }
                looks
            });
            (1..300).for_each(&mut save);
            is_over.store(true, Ordering::Relaxed);
            assert!(looks.join().unwrap() > 0);
        });
    }
}
