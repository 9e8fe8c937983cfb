//! Hidden directories, in which regions are made or taken away where nobody sees them.
//!
//! A process that is killed leaves its hidden directory, which nobody has locked then; whoever stages next in the same directory
//! of regions removes it.

use crate::error::{Error, Result};
use crate::place::directory::Directory;
use std::fs::TryLockError;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use stillframe_kernel::folder::{About, Form};
use stillframe_kernel::fork::Unforked;

/// Ends of the hidden directories' names.
const SUFFIX: &str = ".staged";

/// A hidden directory, of one process at a time. Dropped, it goes with all that is in it.
#[derive(Debug)]
pub(crate) struct Hidden {
    /// The directory that holds regions.
    pub(crate) root: Directory,
    name: String,
    pub(crate) place: Directory,
    /// Whoever has the hidden directory locked lives.
    lock: Unforked,
}

impl Hidden {
    /// Makes the one for this name, or waits until others do not have it any more.
    pub(crate) fn claim(root: &Directory, region: &str, patience: Duration) -> Result<Hidden> {
        let begin = Instant::now();
        let name = format!(".{}{SUFFIX}", region.replace('/', "%"));
        loop {
            match root.folder().make_folder(&name, 0o700) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(Error::io("open", &root.path().join(&name), error));
                }
                _ => {}
            }
            let claim = match try_lock(root, &name) {
                // Another user's: nobody else may open it, but it is gone when he is done.
                Err(Error::Denied { .. }) if begin.elapsed() < patience => Claim::Held,
                claim => claim?,
            };
            match claim {
                // The sweep passes over what somebody looks at just then, who has it locked for an instant.
                Claim::Locked(place, _lock) if !place.names()?.is_empty() => root.remove_all(&name)?,
                Claim::Locked(place, lock) => return Ok(Hidden { root: root.clone(), name, place, lock }),
                // Whoever looks for left-overs has it for an instant, too.
                Claim::Held => std::thread::sleep(Duration::from_millis(1)),
                Claim::Gone => {}
            }
            if begin.elapsed() >= patience {
                return Err(Error::Staged { region: region.into() });
            }
        }
    }

    /// Lets others have the directory's name, so that they need not wait until what is in it is gone.
    pub(crate) fn give_way(&mut self) {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (pid, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let other = format!("{}.{pid}.{number}{SUFFIX}", self.name);
        // Where that name is taken, by a process of another namespace that had the same number, others wait.
        if self.root.folder().rename_new(&self.name, self.root.folder(), &other).is_ok() {
            self.name = other;
        }
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // What a forked child has of it is its parent's. Whoever stages next removes what cannot be removed here.
        if self.lock.is_ours() {
            let _ = self.root.remove_all(&self.name);
        }
    }
}

enum Claim {
    Locked(Directory, Unforked),
    Held,
    Gone,
}

/// Locks a hidden directory, if it is still the one of its name.
fn try_lock(root: &Directory, hidden: &str) -> Result<Claim> {
    let Some(place) = root.below(hidden)? else { return Ok(Claim::Gone) };
    let claimed = match Unforked::open(|| place.folder().reopen()) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Claim::Gone),
        other => other.map_err(|error| Error::io("open", place.path(), error))?,
    };
    let Some(file) = claimed.get() else { return Ok(Claim::Gone) };
    match claimed.try_lock_whole() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Claim::Held),
        Err(TryLockError::Error(error)) => return Err(Error::io("flock", place.path(), error)),
    }
    let ours = About::of(file).map_err(|error| Error::io("fstat", place.path(), error))?;
    let is_there = root.about(hidden).is_some_and(|there| there.identity == ours.identity);
    Ok(if is_there { Claim::Locked(place, claimed) } else { Claim::Gone })
}

/// Whether a name is that of a hidden directory.
pub(crate) fn is_staged(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(SUFFIX)
}

/// The hidden directories, whoever made them.
fn staged(root: &Directory) -> impl Iterator<Item = String> {
    let is_folder = |name: &String| root.about(name).is_some_and(|about| about.form == Form::Folder);
    root.texts().into_iter().filter(|name| is_staged(name)).filter(is_folder)
}

/// The hidden directories whose makers are dead.
pub(crate) fn left_over(root: &Directory) -> Vec<String> {
    staged(root).filter(|name| matches!(try_lock(root, name), Ok(Claim::Locked(..)))).collect()
}

/// Removes what dead processes left staged. Others' are their own business.
pub(crate) fn sweep(root: &Directory) -> Result<()> {
    staged(root).try_for_each(|name| remove(root, &name).map(drop))
}

/// Removes a hidden directory if its maker is dead, and says how many bytes that frees.
pub(crate) fn remove(root: &Directory, name: &str) -> Result<u64> {
    let Ok(Claim::Locked(place, _lock)) = try_lock(root, name) else { return Ok(0) };
    let bytes = place.folder().allocated_bytes();
    root.remove_all(name).map(|()| bytes)
}
