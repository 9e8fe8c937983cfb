//! The files that this process maps, and how they are found again.
//!
//! A file is known as long as a mapping, a view or a call of the program has it. With the last of them it goes, and with it all
//! that was known of it: another file may get its device and inode. Its region may stand for ever, and so may the file, so
//! neither keeps it. An observer of a region that stands is kept some time, because programs map a file again and again: for
//! the last files only, and apart from them, so that it has no lock that a fork would have to wait for.
//!
//! Nobody waits for another lock while he has the lock of what is here, nor lets a file or an observer go, for both come here
//! or run other libraries' hooks.

use crate::file::{Attached, SharedFile, metadata_of};
use crate::inside::quietly;
use crate::kernel::Stat;
use crate::lock::lock;
use crate::names;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// Device and inode.
type Key = (u64, u64);

/// Observers that are kept of files that are mapped no more: as many as ranks of a node often have, and each has four open files,
/// of which a process may often have 1024.
const LEFT_MAX: usize = 64;

/// The observer of a file that is mapped no more.
#[derive(Debug)]
struct Left {
    key: Key,
    path: PathBuf,
    attached: Attached,
}

#[derive(Debug)]
pub struct Files {
    /// One for each path that a file is mapped by, that of the last mapping last.
    known: BTreeMap<Key, Vec<Weak<SharedFile>>>,
    /// That of the last file last.
    left: Vec<Left>,
}

/// The files, as they are: [`fork::files`](crate::fork::files) makes sure that a child finds them whole.
pub fn files() -> MutexGuard<'static, Files> {
    static FILES: Mutex<Files> = Mutex::new(Files { known: BTreeMap::new(), left: Vec::new() });
    lock(&FILES)
}

/// Who has this is the only one to make files known. He lets none go before he has given it back.
pub fn newcomers() -> MutexGuard<'static, ()> {
    static NEWCOMERS: Mutex<()> = Mutex::new(());
    lock(&NEWCOMERS)
}

impl Files {
    /// All files.
    pub fn all(&self) -> Vec<Arc<SharedFile>> {
        self.known.values().flatten().filter_map(Weak::upgrade).collect()
    }

    /// What is known of a file, by each path it was mapped by.
    pub fn known(&self, key: Key) -> Vec<Arc<SharedFile>> {
        self.known.get(&key).into_iter().flatten().filter_map(Weak::upgrade).collect()
    }

    /// Takes the observers that are left of a file that was removed.
    pub fn take_left(&mut self, key: Key) -> Vec<Attached> {
        self.take_left_if(|left| left.key == key)
    }

    /// Takes all observers that are left.
    pub fn take_all_left(&mut self) -> Vec<Attached> {
        self.take_left_if(|_| true)
    }

    fn take_left_if(&mut self, is_one: impl Fn(&Left) -> bool) -> Vec<Attached> {
        let (taken, left) = std::mem::take(&mut self.left).into_iter().partition(is_one);
        self.left = left;
        taken.into_iter().map(|left: Left| left.attached).collect()
    }

    /// Takes the observer that is left of a file by this path.
    fn take_left_of(&mut self, key: Key, path: &Path) -> Option<Attached> {
        let index = self.left.iter().position(|left| left.key == key && left.path == path)?;
        Some(self.left.remove(index).attached)
    }

    /// Makes a file known, as that of the last mapping.
    fn put_last(&mut self, file: &Arc<SharedFile>) {
        self.forget(file.key, Arc::as_ptr(file));
        self.known.entry(file.key).or_default().push(Arc::downgrade(file));
    }

    /// Forgets a file, and those that are no more.
    fn forget(&mut self, key: Key, file: *const SharedFile) {
        let Some(known) = self.known.get_mut(&key) else { return };
        known.retain(|one| one.as_ptr() != file && one.strong_count() > 0);
        if known.is_empty() {
            self.known.remove(&key);
        }
    }

    /// Keeps an observer, for which another one may have to go.
    fn leave(&mut self, left: Left) -> Option<Left> {
        self.left.push(left);
        (self.left.len() > LEFT_MAX).then(|| self.left.remove(0))
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        let attached = self.observer.get_mut().unwrap_or_else(|poison| poison.into_inner()).take();
        quietly(|| {
            // Nobody can ask for the region of a file that was removed, and its observer would keep memory.
            let attached = attached.filter(|_| self.metadata().is_some());
            let left = attached.map(|attached| Left { key: self.key, path: self.path.clone(), attached });
            let gone = {
                let mut files = files();
                files.forget(self.key, self);
                left.and_then(|left| files.leave(left))
            };
            drop(gone);
        });
    }
}

/// The file behind a descriptor of which this is known, if it lies below `/dev/shm`.
pub fn file_of(descriptor: i32, stat: &Stat) -> Option<Arc<SharedFile>> {
    let newcomers = newcomers();
    let known = files().known(stat.key);
    let found = find(&known, descriptor, stat.key);
    drop(newcomers);
    let (file, is_first) = found?;
    if is_first {
        // A file that is mapped for the first time is often the next of many.
        leave_removed();
    }
    Some(file)
}

/// The file behind a descriptor, and whether nothing is known of it; for one who makes files known.
fn find(known: &[Arc<SharedFile>], descriptor: i32, key: Key) -> Option<(Arc<SharedFile>, bool)> {
    if let Some(last) = known.last().filter(|last| last.metadata().is_some()) {
        return Some((last.clone(), false));
    }
    let path = names::path_of(descriptor)?;
    let name = names::region_name(&path)?;
    let (file, is_first) = match known.iter().find(|file| file.path == path) {
        // It has an earlier name again, under which it may be published still.
        Some(file) => (file.clone(), false),
        None => {
            let attached = files().take_left_of(key, &path);
            let is_first = attached.is_none();
            (Arc::new(SharedFile::new(key, path, name, attached)), is_first)
        }
    };
    files().put_last(&file);
    Some((file, is_first))
}

/// Lets go of the regions of files that other processes removed unseen.
fn leave_removed() {
    let gone = files().take_left_if(|left| metadata_of(left.key, &left.path).is_none());
    drop(gone);
    let all = files().all();
    all.iter().for_each(|file| file.leave_if_removed());
}
