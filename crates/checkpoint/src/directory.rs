//! A store's directory: its lock, and what is committed in it.

use crate::layout::{self, LATEST, LATEST_NEW, LOCK};
use crate::{Error, Result};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::lock::{self, Kind};
use stillframe_kernel::{Failure, points};

/// The lock of a store, which one writer holds.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    /// Not a child's that was forked: the store stays its parent's, and is free as soon as that ends.
    file: Unforked,
}

impl Lock {
    /// Takes the lock of a store, and says in it who has it.
    pub(crate) fn take(dir: &Path) -> Result<Lock> {
        let path = dir.join(LOCK);
        loop {
            let opened =
                Unforked::open(|| File::options().read(true).write(true).create(true).truncate(false).open(&path));
            let lock = Lock { path: path.clone(), file: opened.map_err(|error| Error::io("open", &path, error))? };
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
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let command = fs::read("/proc/self/cmdline").unwrap_or_default();
        let words: Vec<_> = command.split(|byte| *byte == 0).filter(|word| !word.is_empty()).collect();
        let command: Vec<_> =
            words.iter().map(|word| String::from_utf8_lossy(word).replace(char::is_control, " ")).collect();
        let text = format!("{}\n{}\n{}\n", std::process::id(), host.trim(), command.join(" "));
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
        let id = |data: fs::Metadata| (data.dev(), data.ino());
        match (fs::metadata(&self.path), self.file.get().map(File::metadata)) {
            (Ok(seen), Some(Ok(held))) => id(seen) == id(held),
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

/// The names in a directory.
pub(crate) fn names(dir: &Path) -> Result<Vec<String>> {
    let fail = |error| Error::io("readdir", dir, error);
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(fail)? {
        // Names that are no text are none of ours.
        names.extend(entry.map_err(fail)?.file_name().into_string());
    }
    Ok(names)
}

/// Removes a directory and all that is in it; what is gone already is not missed.
pub(crate) fn remove_tree(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("unlink", path, error)),
        _ => Ok(()),
    }
}

/// Brings names in a directory to disk.
pub(crate) fn sync_dir(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Deletes a checkpoint. Under its name it is whole until it is not there any more.
pub(crate) fn remove(dir: &Path, version: u64) -> Result<()> {
    let (from, to) = (dir.join(layout::checkpoint_dir(version)), dir.join(layout::removing_dir(version)));
    remove_tree(&to)?;
    points::hit("remove.rename");
    match fs::rename(&from, &to) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("rename", &from, error)),
        Ok(()) => {}
    }
    points::hit("remove.renamed");
    // Else a machine that stops might have the files gone, and the name still there.
    sync_dir(dir).map_err(|error| Error::io("fsync", dir, error))?;
    points::hit("remove.synced");
    let removed = remove_tree(&to);
    points::hit("remove.removed");
    removed
}

/// Makes a store's directory, and those it is in, and brings their names to disk: what is in a directory without a name is
/// lost with the machine.
pub(crate) fn make(dir: &Path) -> Result<()> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).collect();
    fs::create_dir_all(dir).map_err(|source| {
        let failure = Failure { call: "mkdir", detail: String::new(), source };
        Error::ReadOnly { path: dir.into(), failure }
    })?;
    for parent in missing.into_iter().rev().filter_map(Path::parent) {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match sync_dir(parent) {
            // Whoever may not read a directory cannot sync it. Some file systems do not know it of directories.
            Err(error) if [Some(libc::EACCES), Some(libc::EINVAL)].contains(&error.raw_os_error()) => {}
            other => other.map_err(|error| Error::io("fsync", parent, error))?,
        }
    }
    Ok(())
}

/// Makes `latest.zarr` lead to a checkpoint. It is a convenience, so that nothing is lost if it cannot be.
pub(crate) fn point_latest(dir: &Path, version: u64) {
    let (new, name) = (dir.join(LATEST_NEW), dir.join(LATEST));
    let _ = fs::remove_file(&new);
    if std::os::unix::fs::symlink(layout::checkpoint_dir(version), &new).is_ok() {
        points::hit("latest.made");
        if fs::rename(&new, &name).is_err() {
            let _ = fs::remove_file(&new);
        }
    }
}
