//! A file that this process maps, and what it is mapped for: what producers and observers know of it.

use crate::lock::lock;
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use stillframe::{Observer, Region, VariableId};

/// A file below `/dev/shm` that this process mapped. There is one for each path it had, for as long as the process lives.
#[derive(Debug)]
pub struct SharedFile {
    pub key: (u64, u64),
    pub path: PathBuf,
    /// The region that stands for it.
    pub name: String,
    pub producer: Mutex<Option<Publishing>>,
    pub observer: Mutex<Option<Attached>>,
    /// Mappings that may be published.
    pub workings: AtomicUsize,
}

impl SharedFile {
    pub fn new(key: (u64, u64), path: PathBuf, name: String) -> SharedFile {
        let (producer, observer, workings) = (Mutex::new(None), Mutex::new(None), AtomicUsize::new(0));
        SharedFile { key, path, name, producer, observer, workings }
    }

    /// The file's metadata, if its path still leads to it.
    pub fn metadata(&self) -> Option<Metadata> {
        std::fs::metadata(&self.path).ok().filter(|meta| (meta.dev(), meta.ino()) == self.key)
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

/// What holds the version that a mapping shows.
#[derive(Debug)]
pub struct View {
    pub _hold: Option<Arc<File>>,
}

/// An observer of a file's region, kept from one mapping to the next.
#[derive(Debug)]
pub struct Attached {
    pub observer: Observer,
    /// Device and inode of the region's head, which tell it from a later one of the same name.
    pub head: (u64, u64),
    pub held: HashMap<u64, Weak<File>>,
}

/// A writable private mapping of a file.
#[derive(Debug)]
pub struct Working {
    pub file: &'static SharedFile,
    pub address: usize,
    pub bytes: usize,
    pub offset: u64,
    /// Whether a part of it was unmapped, or something else was mapped over it.
    pub torn: AtomicBool,
    /// Whether the program took its own right to read from some of it.
    pub unreadable: AtomicBool,
    /// The newest version whose content it has, where it was not written since.
    pub base: AtomicU64,
}

impl Working {
    pub fn new(file: &'static SharedFile, address: usize, bytes: usize, offset: u64) -> Arc<Working> {
        file.workings.fetch_add(1, Ordering::AcqRel);
        let (torn, unreadable) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Working { file, address, bytes, offset, torn, unreadable, base: AtomicU64::new(0) })
    }

    /// The same memory at another address.
    pub fn moved(&self, address: usize, bytes: usize, offset: u64) -> Arc<Working> {
        let moved = Working::new(self.file, address, bytes, offset);
        moved.base.store(self.base.load(Ordering::Acquire), Ordering::Release);
        moved
    }

    pub fn tear(&self) {
        self.torn.store(true, Ordering::Release);
    }

    pub fn set_readable(&self, readable: bool) {
        self.unreadable.store(!readable, Ordering::Release);
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        if self.file.workings.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Another process may go on with the file from here.
            drop(lock(&self.file.producer).take());
        }
    }
}

/// A region being published from mappings of a file.
#[derive(Debug)]
pub struct Publishing {
    pub region: Region,
    /// By offset in the file.
    pub variables: BTreeMap<u64, Variable>,
    /// What was published of other parts of the file and has to be said anew with the next version.
    pub carried: Vec<Carried>,
}

/// Bytes of a version that the next version has under another variable.
#[derive(Debug)]
pub struct Carried {
    pub id: VariableId,
    pub view: stillframe::View,
    pub range: Range<usize>,
}

#[derive(Debug)]
pub struct Variable {
    pub id: VariableId,
    pub bytes: usize,
    /// The version it was last published with.
    pub version: u64,
    /// The mapping it is published from.
    pub working: Weak<Working>,
    /// Whether the newest version shows this mapping's content.
    pub is_shown: bool,
}
