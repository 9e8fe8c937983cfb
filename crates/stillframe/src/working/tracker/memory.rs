//! The memory that a tracker looks at, and what it found there.

use crate::list;
use crate::mask::{Mask, insert_pages};
use std::ops::Range;
use stillframe_kernel::Failure;
use stillframe_kernel::maps::{Maps, Sharing};
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
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    /// Address of the first page.
    pub(crate) address: usize,
    /// Number of pages.
    pub(crate) pages: usize,
    /// Addresses of the variable's bytes, where the region does not own the memory.
    pub(crate) bytes: Range<usize>,
    /// The pages that are watched: those that belong to the variable alone, as opposed to those it shares with others at its
    /// ends.
    pub(crate) whole: Range<usize>,
    /// How many pages are written, found and armed together: more than one where the kernel has the application's memory in
    /// reserved large pages. Of these the variable has to have all.
    pub(crate) unit_pages: usize,
    /// Whether others may change the application's memory.
    pub(crate) sharing: Sharing,
    /// Whether the region owns the memory, so that pages without memory are known to be zeros.
    pub(crate) owned: bool,
    /// Whether its pages stay the ones that they are, so that nothing is armed by laying other pages over them.
    pub(crate) pinned: bool,
}

impl Memory {
    /// Memory of the application, of which it is not known yet how large its pages are.
    pub(crate) fn of_application(address: usize, bytes: usize) -> Memory {
        let base = address / PAGE_BYTES * PAGE_BYTES;
        let pages = (address - base + bytes).div_ceil(PAGE_BYTES);
        let bytes = address..address + bytes;
        let mut memory = Memory { address: base, pages, bytes, unit_pages: 1, ..Memory::default() };
        memory.set_unit(1);
        memory
    }

    /// How large the pages are in which the kernel has the application's memory.
    pub(crate) fn page_bytes(&self, maps: &Maps) -> usize {
        maps.page_bytes(self.bytes.start, self.bytes.len())
    }

    /// Finds out how many pages are written together, and who else may write them.
    pub(crate) fn measure(&mut self, maps: &Maps) {
        if !self.owned {
            let backing = maps.backing(self.bytes.start, self.bytes.len());
            self.set_unit(backing.page_bytes / PAGE_BYTES);
            self.sharing = backing.sharing;
        }
    }

    /// Sets how many pages are written together.
    pub(crate) fn set_unit(&mut self, unit_pages: usize) {
        let unit_bytes = unit_pages * PAGE_BYTES;
        let first = self.bytes.start.next_multiple_of(unit_bytes);
        let end = (self.bytes.end / unit_bytes * unit_bytes).max(first);
        let page = |at: usize| ((at - self.address) / PAGE_BYTES).min(self.pages);
        self.whole = page(first)..page(end);
        self.unit_pages = unit_pages;
    }
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

    /// Of one window: its pages that were written, those to be compared, and whether it was armed.
    pub(crate) fn set_window(&mut self, dirty: Mask, unsure: Mask, armed: bool) {
        self.dirty.clear();
        self.dirty.resize(1, dirty);
        self.unsure.clear();
        self.unsure.resize(1, unsure);
        self.armed.clear();
        self.armed.resize(1, armed);
    }

    /// Has all pages compared that belong to the variable alone.
    pub(crate) fn compare_all(&mut self, range: &Memory) {
        insert_pages(&mut self.unsure, range.whole.start, range.whole.end);
    }
}

/// Pages of a window that may have been written.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Doubt {
    pub(crate) pages: Mask,
    /// Those of them that differ from the newest version.
    pub(crate) differing: Mask,
}

/// Address and length of pages in bytes.
pub(crate) fn span(range: &Memory, pages: Range<usize>) -> (usize, usize) {
    (range.address + pages.start * PAGE_BYTES, pages.len() * PAGE_BYTES)
}
