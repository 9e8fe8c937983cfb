//! Files that are there whole or not at all: written aside, synced, and then put in their place at once.
//!
//! A file on its way has no name where the file system can do that (`O_TMPFILE`), so that the kernel frees it when its writer
//! ends, in whatever way. Elsewhere, as on NFS, and for libraries that ask for its name, it is called `.NAME.partial`: a
//! signal that ends the writer takes that away, and what a `kill -9` leaves is nobody's and taken over by the next writer of
//! the same file.
#![forbid(unsafe_code)]

mod signals;

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{File, Permissions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why a file could not be written. What was there before is there still.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process writes the file, where files on their way have names.
    #[error("another program is writing {}: wait for it, or choose another file", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// A file is there that this user may not write.
    #[error(
        "cannot write {}: you may not write to it, its mode is {mode:03o}: allow that (chmod u+w), or choose another file",
        path.display()
    )]
    Protected {
        /// The file.
        path: PathBuf,
        /// Its access mode.
        mode: u32,
    },
    /// The system refused.
    #[error("cannot write {}: {error}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
}

/// A file on its way. Dropped before [`commit`](WholeFile::commit), it is gone.
#[derive(Debug)]
pub struct WholeFile {
    path: PathBuf,
    /// The name of what has to have one, beside the file's.
    hidden: PathBuf,
    file: File,
    /// Whether it is called by it. It is locked then: a name without a lock was left by the dead.
    is_named: bool,
}

impl WholeFile {
    /// Begins to write what will be at `path`, in the place of what may be there.
    ///
    /// # Errors
    /// [`Error::Protected`]; [`Error::Busy`]; [`Error::System`], also if `path` is a directory.
    pub fn begin(path: &Path) -> Result<WholeFile, Error> {
        check_writable(path)?;
        let (hidden, folder) = beside(path).map_err(|error| system(path, error))?;
        match remove_abandoned(&hidden, false) {
            // That would be known only when all is written.
            Err(error) if error.kind() == io::ErrorKind::InvalidFilename => return Err(system(path, error)),
            // What cannot be taken away is not in the way of a file without a name.
            _ => {}
        }
        match unnamed(&folder) {
            Some(file) => Ok(WholeFile { path: path.into(), hidden, file, is_named: false }),
            // It may be that no file can be made there at all: then this has the reason.
            None => WholeFile::begin_named(path),
        }
    }

    /// As [`begin`](WholeFile::begin), for libraries that open files by their paths: some ask where a path leads, and a file
    /// without a name lies nowhere.
    ///
    /// # Errors
    /// As those of [`begin`](WholeFile::begin).
    pub fn begin_named(path: &Path) -> Result<WholeFile, Error> {
        check_writable(path)?;
        let fail = |error: io::Error| system(path, error);
        let (hidden, _) = beside(path).map_err(fail)?;
        // No signal ends this process between making the name and noting it.
        let mut names = signals::hold();
        loop {
            let file = open(&hidden, OFlags::CREATE | OFlags::RDWR).map_err(fail)?;
            check_own(&file, &hidden).map_err(fail)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(Error::Busy { path: path.into() }),
                Err(TryLockError::Error(error)) => return Err(fail(error)),
            }
            // Between opening and locking, the one who had the lock may have renamed or removed the file.
            if is_at(&file, &hidden).map_err(fail)? {
                file.set_len(0).map_err(fail)?;
                names.push(hidden.clone());
                return Ok(WholeFile { path: path.into(), hidden, file, is_named: true });
            }
        }
    }

    /// The file, empty at first, to be written and read.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// A path at which this process can open it again.
    pub fn aside(&self) -> PathBuf {
        if self.is_named { self.hidden.clone() } else { descriptor(&self.file) }
    }

    /// Puts it in its place, on the disk.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn commit(mut self) -> Result<(), Error> {
        self.place().map_err(|error| system(&self.path, error))
    }

    fn place(&mut self) -> io::Result<()> {
        // Who may read and write what is replaced, and nobody else, may do so with what takes its place.
        if let Some(mode) = replaced_mode(&self.path) {
            self.file.set_permissions(Permissions::from_mode(mode))?;
        }
        self.file.sync_all()?;
        if self.is_named {
            let mut names = signals::hold();
            std::fs::rename(&self.hidden, &self.path)?;
            names.retain(|name| *name != self.hidden);
            self.is_named = false;
        } else {
            match self.link(&self.path) {
                Err(Errno::EXIST) => self.replace()?,
                linked => linked?,
            }
        }
        let (_, folder) = beside(&self.path)?;
        File::open(folder)?.sync_all()
    }

    /// Gives a file without a name that of one that is there. Only a rename does that, which needs a name to begin with.
    fn replace(&self) -> io::Result<()> {
        self.file.lock()?;
        loop {
            // Another writer has the name for the time of a rename only, unless it is dead.
            remove_abandoned(&self.hidden, true)?;
            let _until_renamed = signals::hold();
            match self.link(&self.hidden) {
                Err(Errno::EXIST) => continue,
                linked => linked?,
            }
            return std::fs::rename(&self.hidden, &self.path).inspect_err(|_| {
                let _ = std::fs::remove_file(&self.hidden);
            });
        }
    }

    fn link(&self, to: &Path) -> Result<(), Errno> {
        rustix::fs::linkat(CWD, descriptor(&self.file), CWD, to, AtFlags::SYMLINK_FOLLOW)
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if self.is_named {
            let mut names = signals::hold();
            // What cannot be removed is taken over by the next writer.
            let _ = std::fs::remove_file(&self.hidden);
            names.retain(|name| *name != self.hidden);
        }
    }
}

fn system(path: &Path, error: io::Error) -> Error {
    Error::System { path: path.into(), error }
}

/// The access mode of the file that is replaced, if there is one.
fn replaced_mode(path: &Path) -> Option<u32> {
    let replaced = std::fs::symlink_metadata(path).ok().filter(|found| found.is_file())?;
    Some(replaced.mode() & 0o777)
}

/// Refuses to replace a file that the user may not write. To rename another over it, the system asks only for the folder.
fn check_writable(path: &Path) -> Result<(), Error> {
    let Some(mode) = replaced_mode(path) else { return Ok(()) };
    match rustix::fs::accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS) {
        Ok(()) => Ok(()),
        Err(Errno::ACCESS) => Err(Error::Protected { path: path.into(), mode }),
        Err(error) => Err(system(path, error.into())),
    }
}

/// The hidden name beside a file's, and the folder of both.
fn beside(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
        return Err(io::ErrorKind::IsADirectory.into());
    };
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(".partial");
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    Ok((path.with_file_name(hidden), folder.into()))
}

/// Opens a hidden name, which may be anybody's: no link is followed, and no pipe is waited for.
fn open(hidden: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(hidden, flags, Mode::from_raw_mode(0o666))?.into())
}

/// Refuses what has a hidden name and is not this user's alone: what is written to it would be somebody else's, or would be
/// written to another file too.
fn check_own(file: &File, hidden: &Path) -> io::Result<()> {
    let (found, user) = (file.metadata()?, rustix::process::geteuid().as_raw());
    let why = if !found.is_file() {
        "is no file".into()
    } else if found.uid() != user {
        format!("belongs to user {}, not to user {user}", found.uid())
    } else if found.nlink() > 1 {
        format!("has {} names", found.nlink())
    } else {
        return Ok(());
    };
    Err(io::Error::other(format!("{} {why}: look who put it there, and remove it", hidden.display())))
}

/// A file in a folder that has no name, where the file system has such files and the system a way to name them.
fn unnamed(folder: &Path) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file: File = rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)).ok()?.into();
    is_at(&file, &descriptor(&file)).is_ok_and(|is_there| is_there).then_some(file)
}

/// What the system calls an open file in this process.
fn descriptor(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Whether a path leads to this file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    Ok(std::fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (own.dev(), own.ino())))
}

/// Removes a hidden name that no living process has. One that has it is waited for, or left alone.
fn remove_abandoned(hidden: &Path, wait: bool) -> io::Result<()> {
    let found = match open(hidden, OFlags::RDONLY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if wait {
        // Whoever else has put something there may have it locked for ever.
        check_own(&found, hidden)?;
        found.lock()?;
    } else if found.try_lock().is_err() {
        return Ok(());
    }
    if is_at(&found, hidden)? { std::fs::remove_file(hidden) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
