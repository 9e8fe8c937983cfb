//! A checkpoint while it is written, aside from the others.

use crate::digest::Digest;
use crate::directory::sync_dir;
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use stillframe_kernel::disk::{self, FileSystem};
use stillframe_kernel::{Failure, points, space};

/// Files are for reading only, because several checkpoints may share them.
const FILE_MODE: u32 = 0o444;

/// What was done.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Sums {
    pub(crate) written_bytes: u64,
    pub(crate) linked_bytes: u64,
}

/// A checkpoint while it is written.
pub(crate) struct Partial<'a> {
    store: &'a Path,
    path: PathBuf,
    version: u64,
    /// Bytes of all variables.
    bytes: u64,
    /// The store's directory, opened before anything was written, if the file system is synced as a whole.
    whole: Option<File>,
    kind: FileSystem,
    written_bytes: AtomicU64,
    linked_bytes: AtomicU64,
}

impl<'a> Partial<'a> {
    /// Begins a checkpoint in a directory of its own.
    pub(crate) fn begin(store: &'a Path, version: u64, bytes: u64) -> Result<Partial<'a>> {
        let path = store.join(crate::layout::partial_dir(version));
        let dir = File::open(store).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::Vanished { dir: store.into(), version },
            _ => Error::io("open", store, error),
        })?;
        let kind = disk::file_system(&dir).unwrap_or(FileSystem::Other(0));
        // Elsewhere, over a network say, neither is known to mean what it means on a disk of this machine.
        let local = matches!(kind, FileSystem::Ext | FileSystem::Xfs | FileSystem::Btrfs | FileSystem::Tmpfs);
        let partial = Partial {
            store,
            path,
            version,
            bytes,
            whole: (local && disk::reports_lost_writes()).then_some(dir),
            kind,
            written_bytes: 0.into(),
            linked_bytes: 0.into(),
        };
        crate::directory::remove_tree(&partial.path)?;
        fs::create_dir(&partial.path).map_err(|error| partial.fail("mkdir", &partial.path, error))?;
        points::hit("save.begun");
        Ok(partial)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Whether the file system takes pages past the cache.
    pub(crate) fn takes_direct(&self) -> bool {
        matches!(self.kind, FileSystem::Ext | FileSystem::Xfs)
    }

    /// Counts bytes of files that were written.
    pub(crate) fn add_written(&self, bytes: u64) {
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes of files that were linked.
    pub(crate) fn add_linked(&self, bytes: u64) {
        self.linked_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn sums(&self) -> Sums {
        Sums {
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
            linked_bytes: self.linked_bytes.load(Ordering::Relaxed),
        }
    }

    /// The error of a call about a file of the checkpoint.
    pub(crate) fn fail(&self, call: &'static str, path: &Path, source: std::io::Error) -> Error {
        let (dir, version) = (self.store.to_path_buf(), self.version);
        match source.raw_os_error().unwrap_or(0) {
            libc::ENOSPC | libc::EDQUOT => {
                let free_bytes = File::open(&dir).ok().and_then(|dir| space::free_bytes(&dir).ok()).unwrap_or(0);
                let needed_bytes = self.bytes.saturating_sub(self.sums().linked_bytes + self.sums().written_bytes);
                Error::NoSpace { dir, version, needed_bytes, free_bytes }
            }
            libc::ENOENT | libc::ENOTDIR | libc::ESTALE => Error::Vanished { dir, version },
            libc::EIO => {
                let failure = Failure { call, detail: path.display().to_string(), source };
                Error::NotSynced { dir, version, failure }
            }
            _ => Error::io(call, path, source),
        }
    }

    /// Makes the directories of all ranks, if there are any, and of all arrays, by their paths in the checkpoint.
    pub(crate) fn make_dirs<'p>(&self, ranks: Option<u32>, arrays: impl Iterator<Item = &'p str>) -> Result<()> {
        let mut made = BTreeSet::new();
        for rank in 0..ranks.unwrap_or(0) {
            self.make_dir(&mut made, &rank.to_string())?;
        }
        for array in arrays {
            self.make_dir(&mut made, array)?;
        }
        Ok(())
    }

    /// Makes a directory in the checkpoint, and those it is in. The checkpoint's own is not made again if somebody took it.
    fn make_dir(&self, made: &mut BTreeSet<String>, name: &str) -> Result<()> {
        if made.contains(name) {
            return Ok(());
        }
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.make_dir(made, parent)?;
        }
        let path = self.path.join(name);
        fs::create_dir(&path).map_err(|error| self.fail("mkdir", &path, error))?;
        made.insert(name.into());
        Ok(())
    }

    /// Writes a file that is not a chunk.
    pub(crate) fn put(&self, name: &str, text: &[u8]) -> Result<Digest> {
        let path = self.path.join(name);
        let mut file = self.create(&path)?;
        file.write_all(text).map_err(|error| self.fail("write", &path, error))?;
        self.finish(&path, &file)?;
        self.add_written(text.len() as u64);
        Ok(Digest::of(text))
    }

    /// Creates a file of the checkpoint.
    pub(crate) fn create(&self, path: &Path) -> Result<File> {
        let opened = File::options().write(true).create_new(true).mode(FILE_MODE).open(path);
        opened.map_err(|error| self.fail("open", path, error))
    }

    /// Brings a file on its way to disk.
    pub(crate) fn finish(&self, path: &Path, file: &File) -> Result<()> {
        if self.whole.is_some() {
            disk::begin_writeback(file);
            return Ok(());
        }
        file.sync_all().map_err(|error| self.fail("fsync", path, error))
    }

    /// Brings all of it to disk.
    pub(crate) fn sync(&self) -> Result<()> {
        let Some(dir) = &self.whole else { return self.sync_tree(&self.path, false) };
        match disk::sync_file_system(dir) {
            Ok(()) => Ok(()),
            // It may have been anybody's write that was lost; each file knows of its own.
            Err(_) => self.sync_tree(&self.path, true),
        }
    }

    /// Brings a directory to disk with those in it, and their files if they were not when they were written.
    fn sync_tree(&self, dir: &Path, files: bool) -> Result<()> {
        let fail = |call, path: &Path, error| self.fail(call, path, error);
        for entry in fs::read_dir(dir).map_err(|error| fail("readdir", dir, error))? {
            let entry = entry.map_err(|error| fail("readdir", dir, error))?;
            let path = entry.path();
            if entry.file_type().map_err(|error| fail("stat", &path, error))?.is_dir() {
                self.sync_tree(&path, files)?;
            } else if files {
                let synced = File::open(&path).and_then(|file| file.sync_all());
                synced.map_err(|error| fail("fsync", &path, error))?;
            }
        }
        sync_dir(dir).map_err(|error| fail("fsync", dir, error))
    }
}
