//! A store's directory: its lock, and what is committed in it.

use crate::layout::{self, LATEST, LATEST_NEW, LOCK};
use crate::{Error, Result};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use stillframe_kernel::folder::{About, Access, Folder, writers_mode};
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::lock::{self, Kind};
use stillframe_kernel::trust::{Guard, Refused};
use stillframe_kernel::{Failure, host_name, points, user_id};

/// Access modes of what is made, less the process's umask. Everybody's to write to is nothing that is believed afterwards.
pub(crate) const FOLDER_MODE: u32 = 0o775;
const FILE_MODE: u32 = 0o664;

/// The directory itself, whatever has its name by now. What lies in it is opened by one step from it, without following
/// links, and looked at before it is used.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    /// For messages.
    path: PathBuf,
    folder: Folder,
    guard: Guard,
}

impl Directory {
    /// Opens a directory that is there.
    pub(crate) fn open(path: &Path, guard: Guard) -> Result<Directory> {
        let folder = guard.open_root(path).map_err(|refused| Error::refused(path, refused))?;
        Ok(Directory { path: path.into(), folder, guard })
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

    /// Opens the file with the lock, and makes it if it is not there. Who may only read could hold it for ever.
    fn open_lock(&self) -> Result<File, Refused> {
        let mode = FILE_MODE & writers_mode(self.folder.about().map_or(FOLDER_MODE, |about| about.mode)) | 0o600;
        let (file, about) = self.guard.open(&self.folder, LOCK, Access::Create(mode))?;
        if about.mode & 0o777 != mode && about.owner == user_id() {
            // Where it cannot be, somebody else may lock it, too.
            let _ = file.set_permissions(fs::Permissions::from_mode(mode));
        }
        Ok(file)
    }

    /// Makes a file with this content in the place of whatever has its name.
    pub(crate) fn replace(&self, partial: &str, name: &str, content: &[u8]) -> io::Result<()> {
        match self.folder.remove_all(partial) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.folder.file(partial, Access::New(FILE_MODE))?.write_all(content)?;
        self.folder.rename(partial, &self.folder, name)
    }

    /// Removes what has a name, with all that is in it; what is gone already is not missed.
    pub(crate) fn remove_all(&self, name: &str) -> Result<()> {
        match self.folder.remove_all(name) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("unlink", &self.path.join(name), error)),
            _ => Ok(()),
        }
    }

    /// As [`remove_all`](Directory::remove_all), of what may have had another name: on disk it has that until the directory is
    /// synced, and a machine that stops would leave a checkpoint's name with a part of its files.
    pub(crate) fn discard(&self, name: &str) -> Result<()> {
        if !self.folder.has(name) {
            return Ok(());
        }
        self.sync()?;
        self.remove_all(name)
    }

    /// Brings the names in the directory to disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.folder.sync().map_err(|error| Error::io("fsync", &self.path, error))
    }
}

/// The lock of a store, which one writer holds.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    /// Not a child's that was forked: the store stays its parent's, and is free as soon as that ends.
    file: Unforked,
}

impl Lock {
    /// Takes the lock of a store, and says in it who has it.
    pub(crate) fn take(store: &Directory) -> Result<Lock> {
        let (dir, path) = (store.path(), store.path().join(LOCK));
        loop {
            let opened = Unforked::open(|| store.open_lock());
            let lock = Lock { path: path.clone(), file: opened.map_err(|refused| Error::refused(&path, refused))? };
            let Some(file) = lock.file.get() else { continue };
            let taken = lock::try_lock(file, Kind::Write, 0, 1).map_err(|failure| match failure.errno() {
                libc::ENOLCK | libc::ENOSYS | libc::EOPNOTSUPP => Error::NoLocks { dir: dir.into(), failure },
                _ => Error::system(&path, failure),
            })?;
            if !taken {
                return Err(locked(dir, file));
            }
            if !lock.is_in_place() {
                // Somebody took the file away between the two steps, and others may have made another.
                continue;
            }
            // What it says is for people, and a disk that is full takes nothing from the lock.
            let _ = lock.say();
            return Ok(lock);
        }
    }

    fn say(&self) -> std::io::Result<()> {
        let host = host_name();
        let command = fs::read("/proc/self/cmdline").unwrap_or_default();
        let words: Vec<_> = command.split(|byte| *byte == 0).filter(|word| !word.is_empty()).collect();
        let command: Vec<_> =
            words.iter().map(|word| String::from_utf8_lossy(word).replace(char::is_control, " ")).collect();
        let text = format!("{}\n{}\n{}\n", std::process::id(), host, command.join(" "));
        let Some(mut file) = self.file.get() else { return Ok(()) };
        file.set_len(0)?;
        file.write_all(text.as_bytes())
    }

    /// Whether this is the process that took it, rather than a forked child of that.
    pub(crate) fn is_ours(&self) -> bool {
        self.file.is_ours()
    }

    /// Whether the lock's file is still the one that others see.
    pub(crate) fn is_in_place(&self) -> bool {
        match (About::at(&self.path, true), self.file.get().map(About::of)) {
            (Ok(seen), Some(Ok(held))) => seen.identity == held.identity,
            _ => false,
        }
    }
}

fn locked(dir: &Path, mut file: &File) -> Error {
    let mut text = String::new();
    let _ = file.rewind().and_then(|()| file.take(1 << 16).read_to_string(&mut text));
    let mut lines = text.lines();
    let pid = lines.next().and_then(|line| line.parse().ok()).unwrap_or(0);
    let mut line = |unknown: &str| lines.next().filter(|line| !line.is_empty()).unwrap_or(unknown).to_string();
    let (host, command) = (line("an unknown host"), line("its command is unknown"));
    Error::Locked { dir: dir.into(), pid, host, command }
}

/// Deletes a checkpoint. Under its name it is whole until it is not there any more.
pub(crate) fn remove(store: &Directory, version: u64) -> Result<()> {
    let (from, to) = (layout::checkpoint_dir(version), layout::removing_dir(version));
    store.discard(&to)?;
    points::hit("remove.rename");
    match store.folder.rename(&from, &store.folder, &to) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("rename", &store.path.join(from), error)),
        Ok(()) => {}
    }
    points::hit("remove.renamed");
    // Else a machine that stops might have the files gone, and the name still there.
    store.sync()?;
    points::hit("remove.synced");
    let removed = store.remove_all(&to);
    points::hit("remove.removed");
    removed
}

/// Makes a store's directory, and those it is in, and brings their names to disk: what is in a directory without a name is
/// lost with the machine.
pub(crate) fn make(dir: &Path) -> Result<()> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).collect();
    fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(dir).map_err(|source| {
        let failure = Failure { call: "mkdir", detail: String::new(), source };
        Error::ReadOnly { path: dir.into(), failure }
    })?;
    for parent in missing.into_iter().rev().filter_map(Path::parent) {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match Folder::open(parent, true).and_then(|folder| folder.sync()) {
            // Whoever may not read a directory cannot sync it.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
            other => other.map_err(|error| Error::io("fsync", parent, error))?,
        }
    }
    Ok(())
}

/// Makes `latest.zarr` lead to a checkpoint. It is a convenience, so that nothing is lost if it cannot be.
pub(crate) fn point_latest(store: &Directory, version: u64) {
    let folder = &store.folder;
    let _ = store.remove_all(LATEST_NEW);
    if folder.link_to(Path::new(&layout::checkpoint_dir(version)), LATEST_NEW).is_ok() {
        points::hit("latest.made");
        if folder.rename(LATEST_NEW, folder, LATEST).is_err() {
            let _ = folder.remove_file(LATEST_NEW);
        }
    }
}
