//! The memory that a tracker looks at, and what it found there.

use crate::list;
use crate::mask::{Mask, insert_pages};
use std::ops::Range;
use stillframe_kernel::Failure;
use stillframe_segment::{PAGE_BYTES, WINDOW_PAGES};

/// How far the pages of a working memory are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Watch {
    /// Not yet: all of it counts as dirty.
    #[default]
    New,
    /// Written pages are found.
    On,
    /// Written pages are found, but for those from this one on, which came at the end and count as dirty anyway.
    Grown { from: usize },
    /// The kernel cannot watch this memory: its pages are compared.
    Off,
}

/// Working memory to be looked at.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    /// Address of the first page.
    pub(crate) address: usize,
    /// Number of pages.
    pub(crate) pages: usize,
    /// The pages that belong to the variable alone, as opposed to those it shares with others at its ends.
    pub(crate) whole: Range<usize>,
    /// Whether the region owns the memory, so that pages without memory are known to be zeros.
    pub(crate) owned: bool,
    /// Whether its pages stay the ones that they are, so that nothing is armed by laying other pages over them.
    pub(crate) pinned: bool,
}

/// What a collection found, window by window.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// Pages that were written, or may have been.
    pub(crate) dirty: Vec<Mask>,
    /// Pages of which nothing is known, to be compared.
    pub(crate) unsure: Vec<Mask>,
    /// Windows that the collection armed.
    pub(crate) armed: Vec<bool>,
}

impl Collected {
    /// With room for what is found in so many windows, so that a search, which cannot be made again, takes no memory.
    pub(crate) fn for_windows(windows: usize) -> Result<Collected, Failure> {
        let mut collected = Collected::default();
        list::make_room(&mut collected.dirty, windows)?;
        list::make_room(&mut collected.unsure, windows)?;
        list::make_room(&mut collected.armed, windows)?;
        Ok(collected)
    }

    /// Forgets all but that the pages at the ends, which others may write, have to be compared.
    pub(crate) fn reset(&mut self, range: &Memory) {
        let windows = range.pages.div_ceil(WINDOW_PAGES);
        self.dirty.clear();
        self.dirty.resize(windows, Mask::EMPTY);
        self.unsure.clear();
        self.unsure.resize(windows, Mask::EMPTY);
        self.armed.clear();
        self.armed.resize(windows, false);
        insert_pages(&mut self.unsure, 0, range.whole.start.min(range.pages));
        insert_pages(&mut self.unsure, range.whole.end.max(range.whole.start), range.pages);
    }

    /// Has all pages compared that belong to the variable alone.
    pub(crate) fn compare_all(&mut self, range: &Memory) {
        insert_pages(&mut self.unsure, range.whole.start, range.whole.end);
    }
}

/// Address and length of pages in bytes.
pub(crate) fn span(range: &Memory, pages: Range<usize>) -> (usize, usize) {
    (range.address + pages.start * PAGE_BYTES, pages.len() * PAGE_BYTES)
}
