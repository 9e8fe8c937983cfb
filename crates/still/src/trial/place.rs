//! The root directory of a scene: made for it, removed with it.

use super::{Error, Result};
use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PREFIX: &str = "stillframe-trial-";
const ATTEMPTS: usize = 8;

/// A directory beside the default root, in which a scene's regions live.
///
/// It goes when the scene ends, is interrupted, or takes longer than its limit. A scene that was killed outright leaves
/// its directory to the next one: the living hold a lock on theirs, so what can be locked belongs to nobody.
pub struct Place {
    path: PathBuf,
    _lock: File,
}

impl Place {
    /// Makes the directory, and ends the whole process when `limit` passes before the place is dropped.
    pub fn create(limit: Duration) -> Result<Place> {
        let root = stillframe::inspect::root();
        let parent = root.parent().unwrap_or(Path::new("/dev/shm"));
        sweep(parent);
        let mut candidates =
            (0..ATTEMPTS).map(|attempt| parent.join(format!("{PREFIX}{}-{attempt}", std::process::id())));
        let found =
            candidates.find_map(|path| make_locked(&path).map(|lock| lock.map(|lock| (path, lock))).transpose());
        let (path, lock) = found.unwrap_or_else(|| {
            Err(Error::Usage(format!("{}/{PREFIX}{}-* are all taken", parent.display(), std::process::id())))
        })?;
        guard(path.clone(), limit)?;
        Ok(Place { path, _lock: lock })
    }

    /// The directory, for `Region::options().dir` and `Observer::options().dir`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that the files below the directory take, counted in the blocks the file system gave them.
    pub fn allocated_bytes(&self) -> u64 {
        allocated_bytes(&self.path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Makes a directory and locks it. None if there is something of that name, which another container's process of the
/// same number may have made, or if another scene that started at this moment took it for a dead one's.
fn make_locked(path: &Path) -> Result<Option<File>> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
        made => made.map_err(Error::system(format!("mkdir {}", path.display())))?,
    }
    let lock = File::open(path).ok().filter(|lock| lock.try_lock().is_ok());
    Ok(lock.filter(|_| path.exists()))
}

fn allocated_bytes(path: &Path) -> u64 {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => allocated_bytes(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.map(bytes).sum()
}

/// Removes the places of scenes that were killed.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if ours && File::open(entry.path()).is_ok_and(|directory| directory.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Removes `path` and ends the process on SIGINT, on SIGTERM, and after `limit`. Children follow by themselves, because
/// they end with their standard input.
fn guard(path: PathBuf, limit: Duration) -> Result<()> {
    use signal_hook::{consts, iterator::Signals};
    let mut signals = Signals::new([consts::SIGINT, consts::SIGTERM]).map_err(Error::system("sigaction"))?;
    let interrupted = path.clone();
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let _ = fs::remove_dir_all(&interrupted);
            std::process::exit(128 + signal);
        }
    });
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        // A scene that ended in time has removed its directory, and the process may go on with something else.
        if path.exists() {
            eprintln!("still: no end after {} s, giving up", limit.as_secs());
            let _ = fs::remove_dir_all(&path);
            std::process::exit(1);
        }
    });
    Ok(())
}
