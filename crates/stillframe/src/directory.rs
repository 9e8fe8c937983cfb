//! Directories of regions: opening them and what lies in them, making, locking, clearing and removing them.
//!
//! Everything is opened by one step from a directory that is open, and looked at before it is used: whose it is, who may
//! write to it, and whether it is what it should be.

use crate::files::{self, LeaseFile};
use crate::{Error, Result};
use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stillframe_kernel::folder::{About, Access, Folder, Form};
use stillframe_kernel::trust::{Guard, Refused};
use stillframe_segment::{BLOCK_BYTES, Corrupt, head, lease, table};

/// How often others may make or remove a directory at the same time before it is no coincidence.
const ATTEMPTS: usize = 100;

/// A directory itself, rather than whatever has its name by now: after a removal by force, the producer that goes on must not
/// write among the files of the next one.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    /// For messages.
    path: PathBuf,
    folder: Folder,
    guard: Guard,
}

/// Why a file was not opened.
pub(crate) enum Unopened {
    /// Nothing has its name.
    Missing,
    Failed(Error),
}

impl Directory {
    /// Opens the directory that holds regions; `None` if there is none.
    pub(crate) fn root(path: &Path, guard: Guard) -> Result<Option<Directory>> {
        Directory::opened(guard.open_root(path), path.into(), guard)
    }

    fn opened(opened: Result<Folder, Refused>, path: PathBuf, guard: Guard) -> Result<Option<Directory>> {
        match opened {
            Ok(folder) => Ok(Some(Directory { path, folder, guard })),
            Err(refused) if refused.is_missing() => Ok(None),
            Err(refused) => Err(Error::refused(&path, refused)),
        }
    }

    /// Opens the directory that holds regions. It is made, with those above it, as far as it is not there.
    pub(crate) fn make_root(path: &Path, mode: u32, guard: Guard) -> Result<Directory> {
        for _ in 0..ATTEMPTS {
            if let Some(root) = Directory::root(path, guard)? {
                return Ok(root);
            }
            make(path, mode)?;
        }
        Err(Error::io("open", path, ErrorKind::NotFound.into()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) fn guard(&self) -> Guard {
        self.guard
    }

    /// The same directory, looked at in another way from here on.
    pub(crate) fn guarded(&self, guard: Guard) -> Directory {
        Directory { guard, ..self.clone() }
    }

    fn child(&self, name: &str) -> Result<Option<Directory>> {
        Directory::opened(self.guard.open_folder(&self.folder, name), self.path.join(name), self.guard)
    }

    /// Opens the directory of a name below this one, which may have several parts; `None` if there is none.
    pub(crate) fn below(&self, name: &str) -> Result<Option<Directory>> {
        let mut at = self.clone();
        for part in name.split('/') {
            match at.child(part)? {
                Some(child) => at = child,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// The directory in which the last part of a name lies, and that part; `None` if there is none.
    pub(crate) fn above<'a>(&self, name: &'a str) -> Result<Option<(Directory, &'a str)>> {
        Ok(match name.rsplit_once('/') {
            Some((above, last)) => self.below(above)?.map(|above| (above, last)),
            None => Some((self.clone(), name)),
        })
    }

    /// As [`below`](Directory::below), and makes the directories that are not there.
    pub(crate) fn make_below(&self, name: &str, mode: u32) -> Result<Directory> {
        let mut failure = ErrorKind::NotFound.into();
        for _ in 0..ATTEMPTS {
            match self.try_make_below(name, mode)? {
                Ok(directory) => return Ok(directory),
                // Another process removed the one above it together with its last region.
                Err(error) => failure = error,
            }
        }
        Err(Error::io("open", &self.path.join(name), failure))
    }

    fn try_make_below(&self, name: &str, mode: u32) -> Result<io::Result<Directory>> {
        let mut at = self.clone();
        for part in name.split('/') {
            if let Some(child) = at.child(part)? {
                at = child;
                continue;
            }
            let path = at.path.join(part);
            let made = at.folder.make_folder(part, mode);
            let child = match made {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Err(error)),
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(Error::io("open", &path, error)),
                _ => at.child(part)?,
            };
            let Some(child) = child else { return Ok(Err(ErrorKind::NotFound.into())) };
            if made.is_ok() {
                match child.folder.permit(mode) {
                    // What removes regions may take it again before it has its mode.
                    Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Err(error)),
                    permitted => permitted.map_err(|error| Error::io("chmod", &path, error))?,
                }
            }
            at = child;
        }
        Ok(Ok(at))
    }

    /// What is known of what has a name here: of a link the link itself. `None` if nothing has it.
    pub(crate) fn about(&self, name: &str) -> Option<About> {
        self.folder.about_name(name).ok()
    }

    /// Whether anything has this name here.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.about(name).is_some()
    }

    /// Opens a file.
    pub(crate) fn open(&self, name: &str, access: Access) -> Result<(File, About), Unopened> {
        self.guard.open(&self.folder, name, access).map_err(|refused| match refused.is_missing() {
            true => Unopened::Missing,
            false => Unopened::Failed(Error::refused(&self.path.join(name), refused)),
        })
    }

    /// Opens a file to read it; `None` if there is none.
    pub(crate) fn file(&self, name: &str) -> Result<Option<(File, About)>> {
        match self.open(name, Access::Read) {
            Ok(opened) => Ok(Some(opened)),
            Err(Unopened::Missing) => Ok(None),
            Err(Unopened::Failed(error)) => Err(error),
        }
    }

    /// Opens a file to write it, or to lock it as a writer does, and makes it if need be. Who writes it gives it all the access
    /// that `mode` grants.
    pub(crate) fn try_create(&self, name: &str, mode: u32) -> Result<File, Unopened> {
        let (file, about) = self.open(name, Access::Create(mode & 0o666 | 0o600))?;
        // A file that is only locked, to be removed, may have other names: what it is to those is not changed.
        if self.guard.is_writing() {
            files::permit(&file, &about, mode)
                .map_err(|error| Unopened::Failed(Error::io("chmod", &self.path.join(name), error)))?;
        }
        Ok(file)
    }

    /// As [`try_create`](Directory::try_create), in a directory that is there.
    pub(crate) fn create(&self, name: &str, mode: u32) -> Result<File> {
        self.try_create(name, mode).map_err(|unopened| match unopened {
            Unopened::Missing => Error::io("open", &self.path.join(name), ErrorKind::NotFound.into()),
            Unopened::Failed(error) => error,
        })
    }

    /// The names in the directory.
    pub(crate) fn names(&self) -> Result<Vec<OsString>> {
        self.folder.names().map_err(|error| Error::io("open", &self.path, error))
    }

    /// The names in the directory that are texts, as all of a region's are; none if it cannot be listed.
    pub(crate) fn texts(&self) -> Vec<String> {
        let names = self.folder.names().unwrap_or_default();
        names.into_iter().filter_map(|name| name.into_string().ok()).collect()
    }

    /// Takes a file's name away, if it is there.
    pub(crate) fn unlink(&self, name: &str) -> Result<()> {
        match self.folder.remove_file(name) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("unlink", &self.path.join(name), error)),
            _ => Ok(()),
        }
    }

    /// Removes what has a name, with all that is in it, and follows no link.
    pub(crate) fn remove_all(&self, name: &str) -> Result<()> {
        match self.folder.remove_all(name) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("unlink", &self.path.join(name), error)),
            _ => Ok(()),
        }
    }
}

/// Refuses to put a region inside another, where nobody would find it.
pub(crate) fn check_neighbours(root: &Directory, name: &str) -> Result<()> {
    let fail = |why| Err(Error::BadName { name: name.into(), what: "region", why });
    for (end, _) in name.match_indices('/') {
        if root.below(&name[..end])?.is_some_and(|above| above.has(lease::FILE)) {
            return fail("it lies inside another region; choose a name beside it");
        }
    }
    let Some(directory) = root.below(name)? else { return Ok(()) };
    let is_region = |name: &String| {
        !files::is_own_file(name) && directory.about(name).is_some_and(|about| about.form == Form::Folder)
    };
    if directory.texts().iter().any(is_region) {
        return fail("other regions lie below it; choose a name beside them");
    }
    Ok(())
}

/// Makes a directory and those above it, as far as they are not there.
fn make(dir: &Path, mode: u32) -> Result<()> {
    let mut failure = ErrorKind::NotFound.into();
    for _ in 0..ATTEMPTS {
        if dir.is_dir() {
            return Ok(());
        }
        if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            make(parent, mode)?;
        }
        match DirBuilder::new().mode(mode).create(dir) {
            Ok(()) => match Folder::open(dir, false).and_then(|folder| folder.permit(mode)) {
                Err(error) if error.kind() == ErrorKind::NotFound => failure = error,
                permitted => return permitted.map_err(|error| Error::io("chmod", dir, error)),
            },
            // Another process made it, or removed the one above it.
            Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => failure = error,
            Err(error) => return Err(Error::io("open", dir, error)),
        }
    }
    Err(Error::io("open", dir, failure))
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

/// Opens the lease file of a region, makes it if it is missing, and takes the producer's lock in it if nobody has it. Whoever
/// produces and whoever removes does this first, so that only one of them goes on.
pub(crate) fn try_lock(root: &Directory, name: &str, mode: u32) -> Result<Result<(Directory, LeaseFile), Obstacle>> {
    let Some(directory) = root.below(name)? else { return Ok(Err(Obstacle::NoDirectory)) };
    let leases = match LeaseFile::create(&directory, name, mode) {
        Err(Unopened::Missing) => return Ok(Err(Obstacle::NoDirectory)),
        Err(Unopened::Failed(error)) => return Err(error),
        Ok(leases) => leases,
    };
    if !leases.try_produce()? {
        return Ok(Err(Obstacle::Held));
    }
    let ours = About::of(leases.file()?).map_err(|error| Error::io("fstat", directory.path(), error))?;
    // By its name, which may be that of another directory by now.
    let there = root.below(name)?.and_then(|directory| directory.about(lease::FILE));
    let is_there = there.is_some_and(|there| there.identity == ours.identity);
    Ok(if is_there { Ok((directory, leases)) } else { Err(Obstacle::Removed) })
}

/// Takes the producer's lock, and makes the directory again if the region is just being removed.
pub(crate) fn lock(root: &Directory, name: &str, mode: u32) -> Result<(Directory, LeaseFile)> {
    let begin = Instant::now();
    loop {
        match try_lock(root, name, mode)? {
            Ok(locked) => return Ok(locked),
            Err(Obstacle::NoDirectory) if begin.elapsed() < REMOVAL => drop(root.make_below(name, mode)?),
            Err(Obstacle::Removed) if begin.elapsed() < REMOVAL => {}
            Err(Obstacle::NoDirectory | Obstacle::Removed) => return Err(Error::InUse { region: name.into(), pid: 0 }),
            Err(Obstacle::Held) => {
                let directory = root.below(name)?;
                // Whoever removes a region has the lock too, and takes the head away first.
                let has_head = directory.as_ref().is_some_and(|directory| directory.has(head::FILE));
                let patience = if has_head { REMOVAL_BEGINS } else { REMOVAL };
                if begin.elapsed() >= patience {
                    let pid = directory.map_or(0, |directory| producer_pid(&directory));
                    return Err(Error::InUse { region: name.into(), pid });
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// What the last producer of a region wrote as its process number; 0 if there is none.
pub(crate) fn producer_pid(directory: &Directory) -> u32 {
    head_word(directory, head::PRODUCER_PID_AT)
}

/// A number in the head of a region, whether it is finished or not; 0 if there is none.
pub(crate) fn head_word(directory: &Directory, at: usize) -> u32 {
    let mut word = [0; 4];
    let read =
        directory.file(head::FILE).ok().flatten().and_then(|(head, _)| head.read_exact_at(&mut word, at as u64).ok());
    read.map_or(0, |()| u32::from_le_bytes(word))
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
pub(crate) fn clear(directory: &Directory) -> Result<()> {
    let is_left = |name: &&String| *name == table::FILE || is_numbered(name);
    directory.texts().iter().filter(is_left).try_for_each(|name| directory.unlink(name))
}

/// Whether a file is one of those that a region has several of, rather than somebody's `schema.sql`.
fn is_numbered(name: &str) -> bool {
    let number = name.strip_prefix("schema.").or_else(|| name.strip_prefix("plane."));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a directory has nothing but what an unfinished creation leaves. Without a head that says so, it may as well be
/// somebody's own with a file called `lease` or `head` in it.
pub(crate) fn is_unfinished(directory: &Directory) -> bool {
    let is_ours = |name: &OsString| match name.to_str() {
        Some(lease::FILE) => {
            directory.about(lease::FILE).is_some_and(|about| about.form == Form::File && about.bytes == 0)
        }
        Some(head::FILE | table::FILE | lease::PRODUCER_FILE) => true,
        name => name.is_some_and(is_numbered),
    };
    directory.names().is_ok_and(|names| names.iter().all(is_ours))
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
pub(crate) fn remove(root: &Directory, directory: &Directory, name: &str) -> Result<()> {
    let names = directory.names()?;
    // The head first: without it nobody takes the rest for a region.
    directory.unlink(head::FILE)?;
    for name in names.iter().filter_map(|name| name.to_str()) {
        if name == table::FILE || is_numbered(name) {
            directory.unlink(name)?;
        }
    }
    directory.unlink(lease::FILE)?;
    // Who finds a lease must find what its locks go with.
    directory.unlink(lease::PRODUCER_FILE)?;
    let mut name = name;
    loop {
        if root.above(name)?.is_none_or(|(above, last)| above.folder.remove_folder(last).is_err()) {
            return Ok(());
        }
        match name.rsplit_once('/') {
            Some((above, _)) => name = above,
            None => return Ok(()),
        }
    }
}
