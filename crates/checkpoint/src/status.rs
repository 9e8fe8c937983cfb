//! What a checkpointer says of itself, and what anybody can see of what is safe.
//!
//! The status is for people and schedulers. Whether a version is safe is asked of the directory: a checkpoint that is there
//! under its name, with a good manifest, was synced before it got that name.

use crate::directory::Directory;
use crate::{Checkpoint, Error, Result, layout};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};
use stillframe::Trust;
use stillframe_kernel::folder::{Access, Folder};
use stillframe_kernel::trust::{Guard, Purpose, Refused};

/// The format of the status file that this program writes.
const FORMAT_VERSION: u32 = 1;
/// The status while it is written.
const PARTIAL: &str = ".status.json.partial";
/// Longest status that is read: some 20 bytes for each checkpoint.
const BYTES_MAX: u64 = 1 << 28;
/// How often somebody who waits looks at the directory: its file system may be one that tells nobody of changes.
const LOOK: Duration = Duration::from_millis(20);

/// Whether a checkpointer is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is.
    Running,
    /// It ended, and the last version it had to save is safe.
    Ended,
    /// It ended, and something it had to save is not safe; `error` says why.
    Failed,
}

/// A version that is being saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saving {
    /// The version.
    pub version: u64,
    /// Bytes of all its variables.
    pub bytes: u64,
    /// Bytes of these that are written, or linked.
    pub bytes_done: u64,
}

/// What a checkpointer says of itself; as JSON it is the file `status.json` of its directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the format of this status.
    pub format_version: u32,
    /// The region or group.
    pub region: String,
    /// Its process.
    pub pid: u32,
    /// The host it runs on.
    pub host: String,
    /// Whether it is at work.
    pub state: State,
    /// The versions that are safe, ascending, as the directory had them at this time.
    pub safe: Vec<u64>,
    /// The newest of them.
    pub newest_safe: Option<u64>,
    /// The versions that are being saved.
    pub saving: Vec<Saving>,
    /// Versions that were to be saved, and went before they could be.
    pub missed: u64,
    /// Versions saved.
    pub saved: u64,
    /// Bytes written to files.
    pub written_bytes: u64,
    /// Bytes that were not written because files of the checkpoint before were linked.
    pub linked_bytes: u64,
    /// What went wrong last, until it went well again.
    pub error: Option<String>,
    /// When this was written, in nanoseconds since 1970.
    pub updated_ns: u64,
}

impl Status {
    /// A status of this process, of nothing done.
    pub(crate) fn new(region: &str) -> Status {
        Status {
            format_version: FORMAT_VERSION,
            region: region.into(),
            pid: std::process::id(),
            host: host(),
            state: State::Running,
            safe: Vec::new(),
            newest_safe: None,
            saving: Vec::new(),
            missed: 0,
            saved: 0,
            written_bytes: 0,
            linked_bytes: 0,
            error: None,
            updated_ns: unix_ns(),
        }
    }

    /// What the last checkpointer at work in a directory said of itself; `None` if none ever did. A checkpointer that was
    /// killed still says that it is running.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the file is not a status; [`Error::Unreadable`].
    pub fn read(dir: impl AsRef<Path>) -> Result<Option<Status>> {
        let (dir, path) = (dir.as_ref(), dir.as_ref().join(layout::STATUS));
        // Whoever wrote it: but a link may lead anywhere, and a pipe to nothing.
        let guard = Guard::new(Trust::Any, Purpose::Look);
        let opened = match guard.open_root(dir).and_then(|store| guard.open(&store, layout::STATUS, Access::Read)) {
            Err(refused) if refused.is_missing() => return Ok(None),
            Err(Refused::System(error)) => return Err(Error::reading("open", &path, error)),
            Err(refused) => return Err(Error::refused(&path, refused)),
            Ok((file, _)) => file,
        };
        let mut text = Vec::new();
        opened.take(BYTES_MAX).read_to_end(&mut text).map_err(|error| Error::reading("read", &path, error))?;
        serde_json::from_slice(&text).map(Some).map_err(|error| Error::Damaged { path, why: error.to_string() })
    }

    /// Puts this in the place of the directory's status, at once. It is no proof of anything, and so not synced.
    pub(crate) fn write(&self, store: &Directory) -> io::Result<()> {
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        store.replace(PARTIAL, layout::STATUS, &text)
    }
}

pub(crate) fn unix_ns() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| String::new(), |name| name.trim().into())
}

/// Versions of the checkpoints that have their names, ascending, good or not. A directory that is not there has none.
pub(crate) fn named(dir: &Path) -> Result<BTreeSet<u64>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(Error::reading("open", dir, error)),
    };
    let version = |entry: std::fs::DirEntry| layout::checkpoint_version(entry.file_name().to_str()?);
    Ok(entries.flatten().filter_map(version).collect())
}

/// The checkpoint of a version, if it has its name and a good manifest.
pub(crate) fn checkpoint_of(dir: &Path, version: u64) -> Option<Checkpoint> {
    Checkpoint::open_version(&Folder::open(dir, true).ok()?, dir, version).ok()
}

/// Brings the names in a directory to disk: whoever gave one of them may not have come to that yet.
fn sync_names(dir: &Path) -> Result<()> {
    let synced = File::open(dir).and_then(|file| file.sync_all());
    match synced {
        // Some file systems do not know this for directories, or keep names safe by themselves.
        Err(error) if [Some(libc::EINVAL), Some(libc::EROFS)].contains(&error.raw_os_error()) => Ok(()),
        other => other.map_err(|error| Error::reading("fsync", dir, error)),
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
    let is_good = checkpoint_of(dir, version).is_some();
    if is_good {
        sync_names(dir)?;
    }
    Ok(is_good)
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
    let mut listed = named(dir)?;
    loop {
        let found = listed.range(version..).rev().copied().find(|found| checkpoint_of(dir, *found).is_some());
        if found.is_some() {
            sync_names(dir)?;
            return Ok(found);
        }
        // Those that were listed may all have been deleted since, because there is a newer one.
        let again = named(dir)?;
        if again == listed {
            return Ok(None);
        }
        listed = again;
    }
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
                    let entries = crate::Store::open(&store).unwrap().entries().unwrap();
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
