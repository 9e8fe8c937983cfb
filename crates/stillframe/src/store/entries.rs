//! What comes of the entries of window tables: those that a draft makes, and the frames that go with those that are gone.
//!
//! Many small arrays have a window each, of which few pages are used, and what happens to one happens to most of them. So windows
//! whose pages come to lie alike share a sub-table, and what was found out of one entry is known of the others.

use crate::error::Result;
use crate::mask::Mask;
use crate::store::planes::Assignment;
use crate::store::tables::Tables;
use crate::store::version::{Subtable, expand};
use stillframe_segment::WINDOW_PAGES;
use stillframe_segment::table::{Entry, SUBTABLE, ZERO_PLANE};

/// Entries of which it is remembered what came of them.
const KNOWN_MAX: usize = 8;

/// Pages compared at once, one byte each.
const EIGHT: usize = 8;

/// The last few of a number of things.
#[derive(Debug)]
struct Latest<T> {
    list: [Option<T>; KNOWN_MAX],
    /// Where the next one goes.
    next: usize,
}

impl<T> Latest<T> {
    fn new() -> Latest<T> {
        Latest { list: [const { None }; KNOWN_MAX], next: 0 }
    }

    fn find(&self, is_it: impl Fn(&T) -> bool) -> Option<&T> {
        self.list.iter().flatten().find(|one| is_it(one))
    }

    fn insert(&mut self, one: T) -> &T {
        let place = self.next;
        self.next = (place + 1) % KNOWN_MAX;
        self.list[place].insert(one)
    }
}

/// Makes the entries of one window table.
#[derive(Debug)]
pub(crate) struct EntryMaker {
    changes: Latest<Change>,
    subtables: Latest<(u32, Subtable)>,
}

/// An entry that was made: which pages of a window with the old entry went to a plane.
#[derive(Debug)]
struct Change {
    old: u32,
    plane: usize,
    pages: Mask,
    new: u32,
}

impl EntryMaker {
    pub(crate) fn new() -> EntryMaker {
        EntryMaker { changes: Latest::new(), subtables: Latest::new() }
    }

    /// Makes the entry of a window of which these parts went to other planes, the later ones over the earlier. The sub-table of it is
    /// counted once more.
    ///
    /// # Errors
    /// There is no block left for a sub-table.
    pub(crate) fn make<'a>(
        &mut self,
        old: u32,
        parts: impl Iterator<Item = &'a Assignment> + Clone,
        tables: &mut Tables,
    ) -> Result<u32> {
        let mut all = parts.clone();
        let only = all.next().filter(|_| all.next().is_none());
        if let Some(part) = only {
            if part.pages == Mask::FULL {
                return Ok(Entry::Uniform(part.plane as u8).encode());
            }
            let is_same = |known: &Change| (known.old, known.plane) == (old, part.plane) && known.pages == part.pages;
            if let Some(known) = self.changes.find(is_same) {
                retain(known.new, tables);
                return Ok(known.new);
            }
        }
        let mut subtable = expand(tables, old);
        for part in parts {
            for (start, end) in part.pages.runs() {
                subtable[start..end].fill(part.plane as u8);
            }
        }
        let new = self.entry(&subtable, tables)?;
        if let Some(Assignment { plane, pages, .. }) = only.copied() {
            self.changes.insert(Change { old, plane, pages, new });
        }
        Ok(new)
    }

    /// The entry of a window whose pages lie so.
    fn entry(&mut self, subtable: &Subtable, tables: &mut Tables) -> Result<u32> {
        if subtable.iter().all(|plane| *plane == subtable[0]) {
            return Ok(Entry::Uniform(subtable[0]).encode());
        }
        if let Some((known, _)) = self.subtables.find(|(_, known)| known == subtable) {
            retain(*known, tables);
            return Ok(*known);
        }
        let block = tables.take(WINDOW_PAGES)?;
        tables.write(block, subtable);
        let new = Entry::Mixed(block).encode();
        self.subtables.insert((new, *subtable));
        Ok(new)
    }
}

/// Counts one more user of the sub-table of an entry, if it has one.
pub(crate) fn retain(entry: u32, tables: &mut Tables) {
    if entry & SUBTABLE != 0 {
        tables.retain(entry & !SUBTABLE, WINDOW_PAGES);
    }
}

/// Counts one user less of the sub-table of an entry, if it has one.
pub(crate) fn release(entry: u32, tables: &mut Tables) {
    if entry & SUBTABLE != 0 {
        tables.release(entry & !SUBTABLE, WINDOW_PAGES);
    }
}

/// Frames of a window: their planes, and the pages in each.
type Frames = Vec<(u8, Mask)>;

/// Finds the frames of windows that an entry has and others have not.
#[derive(Debug)]
pub(crate) struct FrameFinder {
    found: Latest<(Compared, Frames)>,
}

/// An entry, and those of other versions that it was compared with.
type Compared = (u32, [Option<u32>; 2]);

impl FrameFinder {
    pub(crate) fn new() -> FrameFinder {
        FrameFinder { found: Latest::new() }
    }

    /// Calls `free` with the frames of an entry that none of the others has.
    pub(crate) fn find(
        &mut self,
        entry: u32,
        others: impl Iterator<Item = u32> + Clone,
        tables: &Tables,
        mut free: impl FnMut(u8, Mask),
    ) {
        let mut each = others.clone();
        let compared = (entry, [each.next(), each.next()]);
        // A version has two neighbours at most; only after a rollback there are more.
        if each.next().is_some() {
            return frames_only_of(entry, others, tables).into_iter().for_each(|(plane, pages)| free(plane, pages));
        }
        let (_, frames) = match self.found.find(|(known, _)| *known == compared) {
            Some(known) => known,
            None => self.found.insert((compared, frames_only_of(entry, others, tables))),
        };
        frames.iter().for_each(|(plane, pages)| free(*plane, *pages));
    }
}

/// The frames of an entry that none of the others has.
fn frames_only_of(entry: u32, others: impl Iterator<Item = u32>, tables: &Tables) -> Frames {
    let pages = expand(tables, entry);
    let others: Vec<Subtable> = others.map(|other| expand(tables, other)).collect();
    let mut frames = Frames::new();
    for first in (0..WINDOW_PAGES).step_by(EIGHT) {
        let eight = first..first + EIGHT;
        // Most pages kept their frame; eight of them are compared at once.
        if others.iter().any(|other| pages[eight.clone()] == other[eight.clone()]) {
            continue;
        }
        for page in eight {
            let plane = pages[page];
            if plane == ZERO_PLANE || others.iter().any(|other| other[page] == plane) {
                continue;
            }
            match frames.iter_mut().find(|(number, _)| *number == plane) {
                Some((_, mask)) => mask.insert(page),
                None => {
                    let mut mask = Mask::EMPTY;
                    mask.insert(page);
                    frames.push((plane, mask));
                }
            }
        }
    }
    frames
}

#[cfg(test)]
mod tests;
