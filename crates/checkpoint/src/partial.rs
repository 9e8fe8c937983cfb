//! A checkpoint while it is written, aside from the others.

use crate::digest::Digest;
use crate::directory::{Directory, FOLDER_MODE};
use crate::pages::write_all;
use crate::tree::Tree;
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use stillframe_kernel::disk::{self, FileSystem};
use stillframe_kernel::folder::{Access, Folder};
use stillframe_kernel::trust::Guard;
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
    store: &'a Directory,
    tree: Tree,
    name: String,
    /// For messages.
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
    /// Begins a checkpoint in a directory of its own. With `singly` each file is brought to disk by itself.
    pub(crate) fn begin(store: &'a Directory, version: u64, bytes: u64, singly: bool) -> Result<Partial<'a>> {
        let name = crate::layout::partial_dir(version);
        let path = store.path().join(&name);
        let vanished = |call, error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => Error::Vanished { dir: store.path().into(), version },
            _ => Error::io(call, store.path(), error),
        };
        let dir = store.folder().reopen().map_err(|error| vanished("open", error))?;
        let kind = disk::file_system(&dir).unwrap_or(FileSystem::Other(0));
        // Elsewhere, over a network say, neither is known to mean what it means on a disk of this machine.
        let local = matches!(kind, FileSystem::Ext | FileSystem::Xfs | FileSystem::Btrfs | FileSystem::Tmpfs);
        store.discard(&name)?;
        let mut partial = Partial {
            store,
            tree: Tree::of(store.folder().clone(), &path),
            name,
            path,
            version,
            bytes,
            whole: (local && !singly && disk::reports_lost_writes()).then_some(dir),
            kind,
            written_bytes: 0.into(),
            linked_bytes: 0.into(),
        };
        let made =
            store.folder().make_folder(&partial.name, FOLDER_MODE).and_then(|()| store.folder().folder(&partial.name));
        let folder = made.map_err(|error| partial.fail("mkdir", &partial.path, error))?;
        partial.tree = Tree::of(folder, &partial.path);
        points::hit("save.begun");
        Ok(partial)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What tells its directory from copies of it.
    pub(crate) fn birth(&self) -> Option<(u64, u64)> {
        self.tree.birth()
    }

    /// Its name in the store.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The directory of a file of the checkpoint, and its name there.
    pub(crate) fn place<'b>(&self, file: &'b str) -> std::io::Result<(Folder, &'b str)> {
        self.tree.place(file)
    }

    /// The directory, whatever its name becomes.
    pub(crate) fn tree(&self, path: &Path) -> Tree {
        self.tree.at(path)
    }

    /// How a file of another checkpoint is looked at that is to be one of this, too.
    pub(crate) fn sharing(&self) -> Guard {
        self.store.guard().looking()
    }

    /// Whether it is brought to disk with all of the file system.
    pub(crate) fn is_synced_as_a_whole(&self) -> bool {
        self.whole.is_some()
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
        let (dir, version) = (self.store.path().to_path_buf(), self.version);
        match source.raw_os_error().unwrap_or(0) {
            libc::ENOSPC | libc::EDQUOT => {
                let opened = self.store.folder().reopen().ok();
                let free_bytes = opened.as_ref().and_then(space::free_bytes);
                let lacks_inodes = opened.is_some_and(|dir| space::lacks_inodes(&dir));
                let needed_bytes = self.bytes.saturating_sub(self.sums().linked_bytes + self.sums().written_bytes);
                Error::NoSpace { dir, version, needed_bytes, free_bytes, lacks_inodes }
            }
            libc::ENOENT | libc::ENOTDIR | libc::ESTALE => Error::Vanished { dir, version },
            libc::EIO => {
                let failure = Failure { call, detail: path.display().to_string(), source };
                Error::NotSynced { dir, version, failure }
            }
            // All files of a checkpoint have different names; but U and u are the same one where the file system says so.
            libc::EEXIST => {
                let detail = "the file system does not tell this name from another variable's, perhaps because they differ in case \
                              only: rename one of them, or save on another file system";
                Error::system(path, Failure { call, detail: detail.into(), source })
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
        let created = self.place(name).and_then(|(folder, name)| folder.make_folder(name, FOLDER_MODE));
        created.map_err(|error| self.fail("mkdir", &self.path.join(name), error))?;
        made.insert(name.into());
        Ok(())
    }

    /// Writes a file that is not a chunk.
    pub(crate) fn put(&self, name: &str, text: &[u8]) -> Result<Digest> {
        let path = self.path.join(name);
        let mut file = self.create(name)?;
        write_all(&mut file, &[text]).map_err(|error| self.fail("write", &path, error))?;
        self.finish(&path, &file)?;
        self.add_written(text.len() as u64);
        Ok(Digest::of(text))
    }

    /// Creates a file of the checkpoint.
    pub(crate) fn create(&self, file: &str) -> Result<File> {
        let opened = self.place(file).and_then(|(folder, name)| folder.file(name, Access::New(FILE_MODE)));
        opened.map_err(|error| self.fail("open", &self.path.join(file), error))
    }

    /// Brings a file on its way to disk.
    pub(crate) fn finish(&self, path: &Path, file: &File) -> Result<()> {
        if self.whole.is_some() {
            disk::begin_writeback(file);
            return Ok(());
        }
        disk::sync(file).map_err(|error| self.fail("fsync", path, error))
    }

    /// Brings all of it to disk.
    pub(crate) fn sync(&self) -> Result<()> {
        let Some(dir) = &self.whole else {
            return self.tree.sync(false, &|call, path, error| self.fail(call, path, error));
        };
        // It may have been anybody's write that was lost. No file could say so any more that was closed: the kernel forgets with
        // it what went wrong. The next save asks each file, before it is closed.
        disk::sync_file_system(dir).map_err(|failure| self.fail(failure.call, &self.path, failure.source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SaveOptions;

    #[test]
    fn names_that_the_file_system_does_not_tell_apart_are_an_error_that_says_so() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Directory::open(dir.path(), SaveOptions::new().guard().unwrap()).unwrap();
        let partial = Partial::begin(&store, 1, 0, false).unwrap();
        // As a file system without case does it, which has `u` as soon as there is `U`.
        let second = partial.make_dirs(
            None,
            ["U", "u"].into_iter().inspect(|name| {
                let folded = partial.place("u").unwrap().0.make_folder("u", FOLDER_MODE);
                assert_eq!(folded.is_ok(), *name == "U");
            }),
        );
        let words = second.unwrap_err().to_string();
        assert!(words.contains("/u: mkdir(") && words.contains("differ in case only"), "{words}");
    }
}
