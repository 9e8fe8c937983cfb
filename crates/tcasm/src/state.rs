//! What the library knows of the process it lives in.
//!
//! Locks are taken in this order: the state, a file's producer, a file's observer.

use crate::file::{SharedFile, View, Working};
use crate::kernel::Stat;
use crate::lock::lock;
use crate::names;
use crate::ranges::Ranges;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// What a range of addresses is used for.
#[derive(Debug, Clone)]
pub enum Use {
    /// An observer's view of a version.
    View(#[expect(dead_code, reason = "it holds the version")] Arc<View>),
    /// A producer's working memory.
    Working(Arc<Working>),
}

#[derive(Debug)]
pub struct State {
    pub ranges: Ranges<Use>,
    /// By device and inode, one for each path that the file was mapped by, that of the last mapping last; none for those
    /// that are none of this library's concern.
    files: Option<HashMap<(u64, u64), Vec<&'static SharedFile>>>,
}

static STATE: Mutex<State> = Mutex::new(State { ranges: Ranges::new(), files: None });

/// All ranges lie between these addresses, so that calls for others need not look further.
static LOW: AtomicUsize = AtomicUsize::new(usize::MAX);
static HIGH: AtomicUsize = AtomicUsize::new(0);

/// Whether a range may be one of this library's concern. The answer `false` costs two loads.
pub fn may_concern(address: usize, bytes: usize) -> bool {
    address < HIGH.load(Ordering::Acquire) && address.saturating_add(bytes) > LOW.load(Ordering::Acquire)
}

/// The state, as it is: [`fork::state`](crate::fork::state) makes sure that a child finds it whole.
pub fn state() -> MutexGuard<'static, State> {
    lock(&STATE)
}

impl State {
    pub fn insert(&mut self, start: usize, end: usize, value: Use) {
        self.ranges.insert(start, end, value);
        self.note_bounds();
    }

    pub fn remove(&mut self, start: usize, end: usize) -> Vec<Use> {
        let removed = self.ranges.remove(start, end);
        for value in &removed {
            let Use::Working(old) = value else { continue };
            // Each piece that is left is a mapping of its own.
            for (from, to, piece) in self.ranges.overlapping(old.address, old.address.saturating_add(old.bytes)) {
                if matches!(&piece, Use::Working(working) if Arc::ptr_eq(working, old)) {
                    let offset = old.offset + (from - old.address) as u64;
                    self.ranges.insert(from, to, Use::Working(old.moved(from, to - from, offset)));
                }
            }
        }
        self.note_bounds();
        removed
    }

    fn note_bounds(&self) {
        let (low, high) = self.ranges.bounds().unwrap_or((usize::MAX, 0));
        LOW.store(low, Ordering::Release);
        HIGH.store(high, Ordering::Release);
    }

    pub fn files(&self) -> impl Iterator<Item = &'static SharedFile> + use<> {
        let files: Vec<_> = self.files.iter().flat_map(HashMap::values).flatten().copied().collect();
        files.into_iter()
    }

    pub fn known(&self, key: (u64, u64)) -> Option<&'static SharedFile> {
        self.files.as_ref().and_then(|files| files.get(&key)?.last().copied())
    }

    /// The file behind a descriptor of which this is known, if it lies below `/dev/shm`.
    pub fn file_of(&mut self, descriptor: i32, stat: &Stat) -> Option<&'static SharedFile> {
        let files = self.files.get_or_insert_with(HashMap::new);
        let known = files.entry(stat.key);
        if let Entry::Occupied(known) = &known
            && known.get().last().is_none_or(|file| file.metadata().is_some())
        {
            return known.get().last().copied();
        }
        // Other processes remove files unseen. A file that is mapped for the first time is often the next of many.
        files.values().flatten().for_each(|file| file.leave_if_removed());
        let known = files.entry(stat.key).or_default();
        let found = names::path_of(descriptor).and_then(|path| Some((names::region_name(&path)?, path)));
        if let Some((name, path)) = found {
            match known.iter().position(|file| file.path == path) {
                // It has an earlier name again, under which it may be published still.
                Some(index) => known[index..].rotate_left(1),
                None => {
                    // Kept for good: there are no more of them than names of files that the program mapped.
                    known.push(Box::leak(Box::new(SharedFile::new(stat.key, path, name))));
                }
            }
        }
        known.last().copied()
    }
}
