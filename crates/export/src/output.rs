//! A file that is there whole or not at all: written aside, synced, renamed.

use crate::error::{Error, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The file on its way. Dropped before [`commit`](Output::commit), it is gone.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    aside: PathBuf,
    /// Locked: what a killed export left is nobody's, and the next one writes over it.
    file: File,
    committed: bool,
}

impl Output {
    /// Begins to write `path`, beside what may be there.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::File`].
    pub fn begin(path: &Path) -> Result<Output> {
        let fail = |error: io::Error| Error::file(path, error);
        let name = path.file_name().ok_or_else(|| fail(io::ErrorKind::IsADirectory.into()))?;
        if path.is_dir() {
            return Err(fail(io::ErrorKind::IsADirectory.into()));
        }
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(".partial");
        let aside = path.with_file_name(hidden);
        loop {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&aside);
            let file = file.map_err(fail)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(Error::Busy { path: path.into() }),
                Err(TryLockError::Error(error)) => return Err(fail(error)),
            }
            // Between opening and locking, the one who had the lock may have renamed or removed the file.
            let ours = file.metadata().map_err(fail)?.ino();
            if std::fs::metadata(&aside).is_ok_and(|found| found.ino() == ours) {
                file.set_len(0).map_err(fail)?;
                return Ok(Output { path: path.into(), aside, file, committed: false });
            }
        }
    }

    /// Where to write.
    pub fn aside(&self) -> &Path {
        &self.aside
    }

    /// Refuses what cannot fit into the file system.
    ///
    /// # Errors
    /// [`Error::NoRoom`].
    pub fn check_room(&self, needed: u64) -> Result<()> {
        let found = rustix::fs::fstatvfs(&self.file).map_err(|error| Error::file(&self.path, error))?;
        let available = found.f_bavail.saturating_mul(found.f_frsize);
        // Some file systems do not tell, and say zero.
        if found.f_blocks > 0 && available < needed {
            return Err(Error::NoRoom { path: self.path.clone(), needed, available });
        }
        Ok(())
    }

    /// What the system says to more bytes in this file, because the formats' libraries do not pass on why they failed.
    pub fn obstacle(&self) -> Option<io::Error> {
        let probe = vec![1; 1 << 20];
        let end = self.file.metadata().map(|meta| meta.len()).unwrap_or(0);
        self.file.write_all_at(&probe, end).and_then(|()| self.file.sync_all()).err()
    }

    /// Makes it the file, on the disk.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn commit(mut self) -> Result<()> {
        let fail = |error: io::Error| Error::file(&self.path, error);
        self.file.sync_all().map_err(fail)?;
        std::fs::rename(&self.aside, &self.path).map_err(fail)?;
        self.committed = true;
        let folder = match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(fail)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.committed {
            // It is nobody's: the next export of the name takes it.
            let _ = std::fs::remove_file(&self.aside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("still-export-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn until_it_is_committed_the_old_file_stays() {
        let folder = folder("commit");
        let path = folder.join("u.h5");
        std::fs::write(&path, "old").unwrap();
        let output = Output::begin(&path).unwrap();
        std::fs::write(output.aside(), "new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        output.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");

        drop(Output::begin(&path).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing is left over");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn two_exports_to_one_file_are_one_too_many() {
        let folder = folder("busy");
        let path = folder.join("u.h5");
        let first = Output::begin(&path).unwrap();
        assert!(matches!(Output::begin(&path), Err(Error::Busy { .. })));
        drop(first);
        // What a killed one left has no lock.
        std::fs::write(folder.join(".u.h5.partial"), "half").unwrap();
        let output = Output::begin(&path).unwrap();
        assert_eq!(std::fs::metadata(output.aside()).unwrap().len(), 0);
        drop(output);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
