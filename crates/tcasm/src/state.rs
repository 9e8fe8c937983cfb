//! What the library knows of the process it lives in.
//!
//! Locks are taken in this order: that of newcomers among the files; the producers of files, in the order of their addresses;
//! their observers; the state; all files. Nobody has the state while he waits for anything but the last, or lets go of what had
//! addresses.

use crate::file::{SharedFile, View, Working, in_order};
use crate::kernel::whole_pages;
use crate::lock::lock;
use crate::ranges::Ranges;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// What a range of addresses is used for.
#[derive(Debug, Clone)]
pub enum Use {
    /// An observer's view of a version.
    View(#[expect(dead_code, reason = "it holds the version")] Arc<View>),
    /// A producer's working memory, and whether the program may read these pages of it.
    Working(Arc<Working>, bool),
}

impl Use {
    fn is_of(&self, mapping: &Arc<Working>) -> bool {
        matches!(self, Use::Working(working, _) if Arc::ptr_eq(working, mapping))
    }
}

/// What of a mapping is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// All of it, and some of it may not be read.
    Unreadable,
    /// Not all of it: a part was unmapped, or something else was mapped over it.
    Torn,
}

/// Ranges that were taken away, as they were before.
#[derive(Debug)]
pub struct Taken(Vec<(usize, usize, Use)>);

#[derive(Debug)]
pub struct State {
    ranges: Ranges<Use>,
}

static STATE: Mutex<State> = Mutex::new(State { ranges: Ranges::new() });

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
    /// Gives a range to a mapping or a view. Returns what had addresses of it.
    #[must_use = "it is let go when the state is not locked"]
    pub fn insert(&mut self, start: usize, end: usize, value: Use) -> Vec<Use> {
        let displaced = self.ranges.insert(start, end, value);
        self.note_bounds();
        displaced
    }

    /// Whether any mapping or view has addresses in these ranges. Allocates nothing.
    pub fn has_any(&self, ranges: &[(usize, usize)]) -> bool {
        ranges.iter().any(|(start, end)| self.ranges.has_any(*start, *end))
    }

    /// What an address is used for.
    pub fn at(&self, address: usize) -> Option<Use> {
        self.ranges.overlapping(address, address.saturating_add(1)).pop().map(|(_, _, value)| value)
    }

    /// The first mapping of a producer that has addresses in `start..end`, and which of them.
    pub fn first_working(&self, start: usize, end: usize) -> Option<(usize, usize, Arc<Working>)> {
        let mut found: Option<(usize, usize, Arc<Working>)> = None;
        for (from, to, value) in self.ranges.overlapping(start, end) {
            match (&mut found, value) {
                (None, Use::Working(working, _)) => found = Some((from.max(start), to.min(end), working)),
                // Pages side by side that may be read and that may not are of one mapping.
                (Some((_, last, known)), value) if *last == from && value.is_of(known) => *last = to.min(end),
                (None, Use::View(_)) => {}
                (Some(_), _) => break,
            }
        }
        found
    }

    /// The files whose mappings of producers have addresses in these ranges, in the order of their locks.
    pub fn published_in(&self, ranges: &[(usize, usize)]) -> Vec<Arc<SharedFile>> {
        let found = ranges.iter().flat_map(|(start, end)| self.ranges.overlapping(*start, *end));
        let files = found.filter_map(|(_, _, value)| match value {
            Use::Working(working, _) => Some(working.file.clone()),
            Use::View(_) => None,
        });
        in_order(files.collect())
    }

    /// What of a mapping is there.
    pub fn extent(&self, mapping: &Arc<Working>) -> Extent {
        let (mut at, mut is_readable) = (mapping.address, true);
        for (from, to, value) in self.ranges.overlapping(at, at.saturating_add(whole_pages(mapping.bytes))) {
            match value {
                Use::Working(working, readable) if from == at && Arc::ptr_eq(&working, mapping) => {
                    (at, is_readable) = (to, is_readable && readable);
                }
                _ => return Extent::Torn,
            }
        }
        match at == mapping.address.saturating_add(whole_pages(mapping.bytes)) {
            true if is_readable => Extent::Whole,
            true => Extent::Unreadable,
            false => Extent::Torn,
        }
    }

    /// Whether any mapping of a file is a producer's.
    pub fn is_published(&self, file: &Arc<SharedFile>) -> bool {
        self.ranges.any(|value| matches!(value, Use::Working(working, _) if Arc::ptr_eq(&working.file, file)))
    }

    /// Notes of the pages of producers in a range whether the program may read them.
    pub fn set_readable(&mut self, start: usize, end: usize, readable: bool) {
        for (from, to, value) in self.ranges.overlapping(start, end) {
            if let Use::Working(working, _) = value {
                self.ranges.insert(from.max(start), to.min(end), Use::Working(working, readable));
            }
        }
    }

    /// Takes ranges away from what has them. What is left of a producer's mapping is a mapping of its own, piece by piece.
    pub fn take(&mut self, ranges: &[(usize, usize)]) -> Taken {
        let mut taken = Vec::new();
        for (start, end) in ranges {
            for (from, to, value) in self.ranges.overlapping(*start, *end) {
                let Use::Working(old, _) = &value else {
                    taken.push((from, to, value));
                    continue;
                };
                let parts = self.ranges.overlapping(old.address, old.address.saturating_add(whole_pages(old.bytes)));
                taken.extend(parts.into_iter().filter(|(_, _, part)| part.is_of(old)));
            }
            self.ranges.remove(*start, *end);
        }
        for (_, _, value) in &taken {
            if let Use::Working(old, _) = value {
                self.part(old);
            }
        }
        self.note_bounds();
        Taken(taken)
    }

    /// Makes mappings of their own of the pieces that are left of one.
    fn part(&mut self, old: &Arc<Working>) {
        let end = old.address.saturating_add(whole_pages(old.bytes));
        let mut piece: Option<(usize, Arc<Working>)> = None;
        let parts = self.ranges.overlapping(old.address, end);
        let parts: Vec<_> = parts.into_iter().filter(|(_, _, value)| value.is_of(old)).collect();
        for (index, (from, to, value)) in parts.iter().enumerate() {
            let Use::Working(_, readable) = value else { continue };
            let known = piece.take().filter(|(last, _)| last == from).map(|(_, known)| known);
            let working = known.unwrap_or_else(|| {
                let next = parts[index..].windows(2).find(|pair| pair[0].1 != pair[1].0);
                let last = next.map_or(parts[parts.len() - 1].1, |pair| pair[0].1);
                old.piece(*from, *from, last - from)
            });
            self.ranges.insert(*from, *to, Use::Working(working.clone(), *readable));
            piece = Some((*to, working));
        }
    }

    /// Puts back what was taken, because it is there still. Returns what had addresses of it.
    #[must_use = "it is let go when the state is not locked"]
    pub fn put_back(&mut self, taken: Taken) -> Vec<Use> {
        let put = taken.0.into_iter().flat_map(|(start, end, value)| self.ranges.insert(start, end, value));
        let displaced = put.collect();
        self.note_bounds();
        displaced
    }

    /// Gives what was taken from a range of addresses, of so many bytes, to the one that it was moved to. What was last there
    /// has become longer or shorter. Returns what had addresses of that.
    #[must_use = "it is let go when the state is not locked"]
    pub fn insert_moved(
        &mut self,
        taken: &Taken,
        (from, bytes): (usize, usize),
        (to, new_bytes): (usize, usize),
    ) -> Vec<Use> {
        let (from_end, to_end) = (from.saturating_add(whole_pages(bytes)), to.saturating_add(whole_pages(new_bytes)));
        let place = |start: usize, end: usize| {
            let start = start.max(from) - from + to;
            let end = if end >= from_end { to_end } else { (end - from + to).min(to_end) };
            (start, end)
        };
        let mut pieces: Vec<(&Arc<Working>, Arc<Working>)> = Vec::new();
        let mut displaced = Vec::new();
        for (start, end, value) in taken.0.iter().filter(|(start, end, _)| *start < from_end && from < *end) {
            let (at, end) = place(*start, *end);
            if at >= end {
                continue;
            }
            let Use::Working(old, readable) = value else {
                displaced.extend(self.ranges.insert(at, end, value.clone()));
                continue;
            };
            let piece = match pieces.iter().find(|(known, _)| Arc::ptr_eq(known, old)) {
                Some((_, piece)) => piece.clone(),
                None => {
                    let (first, last) = place(old.address, old.address.saturating_add(whole_pages(old.bytes)));
                    let piece = old.piece(old.address.max(from), first, (last - first).min(to + new_bytes - first));
                    pieces.push((old, piece.clone()));
                    piece
                }
            };
            displaced.extend(self.ranges.insert(at, end, Use::Working(piece, *readable)));
        }
        self.note_bounds();
        displaced
    }

    fn note_bounds(&self) {
        let (low, high) = self.ranges.bounds().unwrap_or((usize::MAX, 0));
        LOW.store(low, Ordering::Release);
        HIGH.store(high, Ordering::Release);
    }
}
