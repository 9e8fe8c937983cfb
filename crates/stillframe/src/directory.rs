//! A region's directory: making, locking, clearing and removing it.

use crate::files::{self, LeaseFile};
use crate::{Error, Result};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stillframe_segment::{BLOCK_BYTES, Corrupt, head, lease, table};

/// A region's directory itself, rather than whatever has its name by now: after a removal by force, the producer that goes
/// on must not write among the files of the next one.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    handle: std::sync::Arc<File>,
}

impl Directory {
    pub(crate) fn open(path: &Path) -> Result<Directory> {
        let handle = File::open(path).map_err(|error| Error::io("open", path, error))?;
        Ok(Directory { handle: handle.into() })
    }

    /// A path to a file in the directory that holds even if the directory's own name is gone (proc(5), /proc/pid/fd).
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        use std::os::fd::AsRawFd;
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.handle.as_raw_fd()))
    }
}

/// Refuses to put a region inside another, where nobody would find it.
pub(crate) fn check_neighbours(root: &Path, dir: &Path, name: &str) -> Result<()> {
    let fail = |why| Err(Error::BadName { name: name.into(), what: "region", why });
    let above = dir.ancestors().skip(1).take_while(|above| *above != root && above.starts_with(root));
    if above.into_iter().any(|above| above.join(stillframe_segment::lease::FILE).exists()) {
        return fail("it lies inside another region; choose a name beside it");
    }
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_region = |entry: std::fs::DirEntry| {
        entry.file_type().is_ok_and(|kind| kind.is_dir()) && !files::is_own_file(&entry.file_name().to_string_lossy())
    };
    if entries.into_iter().any(is_region) {
        return fail("other regions lie below it; choose a name beside them");
    }
    Ok(())
}

/// Makes a directory and those above it, as far as they are not there.
pub(crate) fn make(dir: &Path, mode: u32) -> Result<()> {
    let mut failure = ErrorKind::NotFound.into();
    for _ in 0..100 {
        if dir.is_dir() {
            return Ok(());
        }
        if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            make(parent, mode)?;
        }
        match std::fs::DirBuilder::new().mode(mode).create(dir) {
            // What removes regions may take it again before it has its mode.
            Ok(()) => match permit(dir, mode) {
                Err(error) if error.kind() == ErrorKind::NotFound => failure = error,
                permitted => return permitted.map_err(|error| Error::io("chmod", dir, error)),
            },
            // Another process made it, or removed the one above it together with its last region.
            Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => failure = error,
            Err(error) => return Err(Error::io("open", dir, error)),
        }
    }
    Err(Error::io("open", dir, failure))
}

/// Gives a new directory the bits that the process's umask took away; a group's bit that it inherited stays.
fn permit(dir: &Path, mode: u32) -> std::io::Result<()> {
    let inherited = std::fs::metadata(dir)?.permissions().mode() & 0o7000;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode | inherited))
}

/// Longest time between the lock of whoever removes a region and the end of its head, and until all of it is gone: giving
/// memory back takes the kernel a second for each few GiB.
const REMOVAL_BEGINS: Duration = Duration::from_millis(20);
pub(crate) const REMOVAL: Duration = Duration::from_secs(10);

/// Why a region's lock was not to be had.
pub(crate) enum Obstacle {
    /// Somebody else has it.
    Held,
    /// The lease file was removed between opening and locking, and protects nothing.
    Removed,
    /// There is no directory.
    NoDirectory,
}

/// Opens the lease file, makes it if it is missing, and takes the producer's lock in it if nobody has it. Whoever produces
/// and whoever removes does this first, so that only one of them goes on.
pub(crate) fn try_lock(dir: &Path, name: &str, mode: u32) -> Result<Result<LeaseFile, Obstacle>> {
    let path = dir.join(lease::FILE);
    let leases = match LeaseFile::create(dir, name, mode) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Err(Obstacle::NoDirectory)),
        other => other.map_err(|error| Error::io("open", &path, error))?,
    };
    if !leases.try_produce()? {
        return Ok(Err(Obstacle::Held));
    }
    let ours = leases.file()?.metadata().map_err(|error| Error::io("fstat", &path, error))?;
    let is_there = std::fs::metadata(&path).is_ok_and(|there| there.ino() == ours.ino());
    Ok(if is_there { Ok(leases) } else { Err(Obstacle::Removed) })
}

/// Takes the producer's lock, and makes the directory again if the region is just being removed.
pub(crate) fn lock(dir: &Path, name: &str, mode: u32) -> Result<LeaseFile> {
    let begin = Instant::now();
    loop {
        match try_lock(dir, name, mode)? {
            Ok(leases) => return Ok(leases),
            Err(Obstacle::NoDirectory) if begin.elapsed() < REMOVAL => make(dir, mode)?,
            Err(Obstacle::Removed) if begin.elapsed() < REMOVAL => {}
            Err(Obstacle::NoDirectory | Obstacle::Removed) => return Err(Error::InUse { region: name.into(), pid: 0 }),
            Err(Obstacle::Held) => {
                // Whoever removes a region has the lock too, and takes the head away first.
                let patience = if dir.join(head::FILE).exists() { REMOVAL_BEGINS } else { REMOVAL };
                if begin.elapsed() >= patience {
                    return Err(Error::InUse { region: name.into(), pid: producer_pid(dir) });
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// What the last producer of a region wrote as its process number; 0 if there is none.
pub(crate) fn producer_pid(dir: &Path) -> u32 {
    let mut pid = [0; 4];
    let head = File::open(dir.join(head::FILE));
    let read = head.and_then(|head| head.read_exact_at(&mut pid, head::PRODUCER_PID_AT as u64));
    read.map_or(0, |()| u32::from_le_bytes(pid))
}

pub(crate) fn read_begin(file: &File, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64)? {
            0 => break,
            count => length += count,
        }
    }
    Ok(length)
}

/// Removes what an unfinished creation left, except for the files observers may have open already.
pub(crate) fn clear(dir: &Path) -> Result<()> {
    let entries = std::fs::read_dir(dir).map_err(|error| Error::io("readdir", dir, error))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == table::FILE || is_numbered(&name) {
            std::fs::remove_file(entry.path()).map_err(|error| Error::io("unlink", &entry.path(), error))?;
        }
    }
    Ok(())
}

/// Whether a file is one of those that a region has several of, rather than somebody's `schema.sql`.
fn is_numbered(name: &str) -> bool {
    let number = name.strip_prefix("schema.").or_else(|| name.strip_prefix("plane."));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a directory has nothing but what an unfinished creation leaves. Without a head that says so, it may as well be
/// somebody's own with a file called `lease` or `head` in it.
pub(crate) fn is_unfinished(dir: &Path) -> bool {
    let is_ours = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            match name.as_str() {
                lease::FILE => entry.metadata().is_ok_and(|meta| meta.is_file() && meta.len() == 0),
                head::FILE | table::FILE => true,
                name => is_numbered(name),
            }
        })
    };
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.all(is_ours))
}

/// Gives the head its space and its geometry, all but the magic.
pub(crate) fn write_head(file: &File, path: &Path) -> Result<()> {
    file.set_len(0).map_err(|error| Error::io("ftruncate", path, error))?;
    let bytes = head::encode_geometry(files::unix_ns());
    // Writing takes the space, so that the mapping of a full file system's head never faults.
    file.write_all_at(&bytes, 0).map_err(|error| Error::io("write", path, error).needing(head::HEAD_BYTES as u64))
}

/// Most blocks the `tables` file may have: 64 GiB. What is in use is counted for each block of it.
pub(crate) const BLOCKS_MAX: u64 = 1 << 27;

pub(crate) fn check_blocks(file: &File, path: &Path) -> Result<Result<(), Corrupt>> {
    let bytes = file.metadata().map_err(|error| Error::io("fstat", path, error))?.len();
    let most = BLOCKS_MAX * BLOCK_BYTES as u64;
    Ok(match bytes <= most {
        true => Ok(()),
        false => Err(Corrupt::new(table::FILE, most as usize, "the end of the file", format!("{bytes} bytes"))),
    })
}

/// Removes a region's files, the lease last, and the directories that are then empty.
pub(crate) fn remove(root: &Path, dir: &Path) -> Result<()> {
    let unlink = |path: &Path| match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("unlink", path, error)),
        _ => Ok(()),
    };
    let entries = std::fs::read_dir(dir).map_err(|error| Error::io("open", dir, error))?;
    // The head first: without it nobody takes the rest for a region.
    unlink(&dir.join(head::FILE))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == table::FILE || is_numbered(&name) {
            unlink(&entry.path())?;
        }
    }
    unlink(&dir.join(lease::FILE))?;
    let mut at = dir;
    while at != root && std::fs::remove_dir(at).is_ok() {
        let Some(parent) = at.parent() else { break };
        at = parent;
    }
    Ok(())
}
