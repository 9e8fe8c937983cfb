//! A file that this process maps, and what it is mapped for: what producers and observers know of it.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use stillframe::{Observer, Region, VariableId};

/// A file below `/dev/shm` that this process maps, by one of the paths that it had. It lives as long as a mapping, a view or a
/// call of the program needs it; [`files`](crate::files) finds it.
#[derive(Debug)]
pub struct SharedFile {
    pub key: (u64, u64),
    pub path: PathBuf,
    /// The region that stands for it.
    pub name: String,
    pub producer: Mutex<Option<Publishing>>,
    pub observer: Mutex<Option<Attached>>,
}

impl SharedFile {
    pub fn new(key: (u64, u64), path: PathBuf, name: String, attached: Option<Attached>) -> SharedFile {
        SharedFile { key, path, name, producer: Mutex::new(None), observer: Mutex::new(attached) }
    }

    /// The file's metadata, if its path still leads to it.
    pub fn metadata(&self) -> Option<Metadata> {
        metadata_of(self.key, &self.path)
    }

    /// Opens the file for reading; not what has its path by now, nor does it wait for that.
    pub fn open(&self) -> std::io::Result<File> {
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(&self.path)?;
        let meta = file.metadata()?;
        match (meta.dev(), meta.ino()) == self.key {
            true => Ok(file),
            false => Err(std::io::Error::from_raw_os_error(libc::ENOENT)),
        }
    }

    /// Lets go of the region if the file was removed: its observer would keep memory that nobody can ask for.
    pub fn leave_if_removed(&self) {
        if let Ok(mut observer) = self.observer.try_lock()
            && observer.is_some()
            && self.metadata().is_none()
        {
            *observer = None;
        }
    }
}

/// Metadata of the file of this device and inode, if this path leads to it.
pub fn metadata_of(key: (u64, u64), path: &Path) -> Option<Metadata> {
    std::fs::metadata(path).ok().filter(|meta| (meta.dev(), meta.ino()) == key)
}

/// Files in the order of their locks, each once.
pub fn in_order(mut files: Vec<Arc<SharedFile>>) -> Vec<Arc<SharedFile>> {
    files.sort_by_key(Arc::as_ptr);
    files.dedup_by_key(|file| Arc::as_ptr(file));
    files
}

/// What holds the version that a mapping shows.
#[derive(Debug)]
pub struct View {
    pub _hold: Option<Arc<File>>,
    /// Its observer counts the versions that mappings hold.
    pub _file: Arc<SharedFile>,
}

/// An observer of a file's region, kept from one mapping to the next.
#[derive(Debug)]
pub struct Attached {
    pub observer: Observer,
    /// Device and inode of the region's head, which tell it from a later one of the same name.
    pub head: (u64, u64),
    pub held: HashMap<u64, Weak<File>>,
}

/// A writable private mapping of a file. What of it is there, and may be read, the [state](crate::state) knows.
#[derive(Debug)]
pub struct Working {
    pub file: Arc<SharedFile>,
    pub address: usize,
    pub bytes: usize,
    pub offset: u64,
    /// The newest version whose content it has, where it was not written since.
    pub base: AtomicU64,
}

impl Working {
    pub fn new(file: Arc<SharedFile>, address: usize, bytes: usize, offset: u64) -> Arc<Working> {
        Arc::new(Working { file, address, bytes, offset, base: AtomicU64::new(0) })
    }

    /// The memory from an address of it on, as a mapping of its own.
    pub fn piece(&self, from: usize, to: usize, bytes: usize) -> Arc<Working> {
        let piece = Working::new(self.file.clone(), to, bytes, self.offset + (from - self.address) as u64);
        piece.base.store(self.base.load(Ordering::Acquire), Ordering::Release);
        piece
    }
}

/// A region being published from mappings of a file.
#[derive(Debug)]
pub struct Publishing {
    pub region: Region,
    /// The variables that the region has, by the offset of their bytes in the file, also those that no version shows.
    pub declared: BTreeMap<u64, VariableId>,
    pub shown: Shown,
}

/// What the newest version shows, and what of it the next one has to be given anew.
#[derive(Debug, Default, Clone)]
pub struct Shown {
    /// By offset in the file.
    pub variables: BTreeMap<u64, Variable>,
    /// By offset in the file: what the next version does not take from the one before by itself.
    pub carried: BTreeMap<u64, Carried>,
}

/// Bytes of a version that the next version has under another variable, or in another region.
#[derive(Debug, Clone)]
pub struct Carried {
    pub view: stillframe::View,
    /// Bytes of the view that are zeros and take no memory, ascending and apart.
    pub zeros: Arc<[Range<usize>]>,
    /// What of the view is carried.
    pub range: Range<usize>,
}

#[derive(Debug, Clone)]
pub struct Variable {
    pub bytes: usize,
    /// The version it was last published with.
    pub version: u64,
    /// The mapping whose content it shows, as long as there is one.
    pub working: Weak<Working>,
}
