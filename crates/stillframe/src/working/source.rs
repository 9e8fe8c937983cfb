//! The memory a variable is published from, and what is known of it.

use crate::list;
use crate::mask::Mask;
use crate::store::space::Allocation;
use crate::working::gather::Gather;
use crate::working::layout::Placed;
use crate::working::plane_maps::PlaneMaps;
use crate::working::sticky::Sticky;
use crate::working::tracker::Tracker;
use crate::working::tracker::memory::{Collected, Doubt, Memory, Watch};
use crate::working::tracker::seams::Seam;
use crate::working::unit::Units;
use std::sync::Mutex;
use stillframe_kernel::Failure;
use stillframe_kernel::maps::{Maps, Sharing};
use stillframe_segment::{PAGE_BYTES, WINDOW_BYTES, WINDOW_PAGES};

/// One memory a variable is published from, and what is known of it. A tracked variable has one for each address it was
/// published at lately, so that swapped buffers keep what was learned about each.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) maps: PlaneMaps,
    /// Of a section, whose memory is in `gather`: as many pages as versions show, at no address.
    pub(crate) memory: Memory,
    /// Of a section: where its elements come from.
    pub(crate) gather: Option<Box<Gather>>,
    /// Offset of the first byte in the first page.
    pub(crate) page_offset: usize,
    pub(crate) bytes: usize,
    pub(crate) watch: Watch,
    /// The pages between it and its neighbours, before it and behind it.
    pub(crate) seams: [Seam; 2],
    /// How often in turn the pages in which it begins and ends were found written by others.
    pub(crate) strangers: [u8; 2],
    /// Whether the pages that it shares at its ends were compared since they were last found written.
    pub(crate) edges_compared: bool,
    /// Whether it was searched with its neighbours, and what was found is still to be published.
    pub(crate) is_searched: bool,
    pub(crate) sticky: Sticky,
    pub(crate) units: Units,
    /// Pages that are dirty although no tracker will say so again.
    pub(crate) pending: Vec<Mask>,
    pub(crate) collected: Collected,
    /// Pages that have to be compared, and what came of that.
    pub(crate) doubts: Vec<Mutex<Doubt>>,
    /// Those of the collected dirty pages that are published as zeros and never looked at; none where it is empty.
    pub(crate) blank: Vec<Mask>,
    /// Whether the newest version no longer has this memory's content, so that all of it must be copied.
    pub(crate) stale: bool,
    /// Share of pages that were found written at the last publish, in percent.
    pub(crate) written_percent: usize,
    /// The publish that used it last.
    pub(crate) used: u64,
    /// Plane that took the last dirty pages, preferred for the next.
    pub(crate) hint: usize,
}

impl Source {
    /// Of memory of the region's own, or of the application's.
    pub(crate) fn new(allocation: Allocation, owned: bool) -> Result<Source, Failure> {
        let memory = Memory { unit_pages: 1, owned, ..Memory::default() };
        let windows = allocation.windows as usize;
        let mut doubts = Vec::new();
        list::make_room(&mut doubts, windows)?;
        doubts.resize_with(windows, Mutex::default);
        Ok(Source {
            maps: PlaneMaps::new(allocation),
            memory,
            gather: None,
            page_offset: 0,
            bytes: 0,
            watch: Watch::New,
            seams: Default::default(),
            strangers: Default::default(),
            edges_compared: false,
            is_searched: false,
            sticky: Sticky::new(windows)?,
            units: Units::new(windows)?,
            pending: list::filled(Mask::EMPTY, windows)?,
            collected: Collected::for_windows(windows)?,
            doubts,
            blank: Vec::new(),
            stale: false,
            written_percent: 0,
            used: 0,
            hint: 0,
        })
    }

    /// Of the application's memory, of which a section is published.
    pub(crate) fn gathered(allocation: Allocation, placed: Placed) -> Result<Source, Failure> {
        let mut source = Source::new(allocation, false)?;
        source.bytes = placed.layout.bytes();
        source.memory.pages = source.bytes.div_ceil(PAGE_BYTES);
        source.gather = Some(Box::new(Gather::new(placed)?));
        Ok(source)
    }

    /// Whether it is what such an input is published from: the memory at an address, or a section.
    pub(crate) fn is_of(&self, address: usize, section: Option<&Placed>) -> bool {
        match (&self.gather, section) {
            (Some(gather), Some(placed)) => gather.is_of(placed),
            (None, None) => self.memory.address + self.page_offset == address,
            _ => false,
        }
    }

    /// Sets where the memory is and how long. Pages with bytes that it did not have before count as dirty, also one that it
    /// had a part of: no version has more of that than the part. Where the region owns the memory, they are zeros.
    pub(crate) fn set_memory(&mut self, address: usize, bytes: usize) {
        let Memory { owned, pinned, unit_pages, sharing, .. } = self.memory;
        let mut memory = Memory { owned, pinned, sharing, ..Memory::of_application(address, bytes) };
        match owned {
            true => memory.whole = 0..memory.pages,
            false => memory.set_unit(unit_pages),
        }
        let page_offset = address - memory.address;
        // Of memory that is new to the region the tracker says what is dirty.
        if self.memory.address != 0 && bytes > self.bytes {
            if !owned {
                crate::mask::insert_pages(&mut self.pending, (page_offset + self.bytes) / PAGE_BYTES, memory.pages);
            }
            if memory.whole != self.memory.whole && self.watch == Watch::On {
                // A search among watched pages lists those without memory, too; the first search of owned memory does not.
                self.watch = if owned { Watch::New } else { Watch::Grown { from: self.memory.whole.end } };
            }
        }
        if memory.whole != self.memory.whole {
            self.forget_seams();
        }
        self.page_offset = page_offset;
        self.bytes = bytes;
        self.memory = memory;
        self.edges_compared = false;
    }

    /// Finds what was written since the last search, or may have been.
    pub(crate) fn search(&mut self, tracker: &mut Tracker, maps: &Maps) {
        if std::mem::take(&mut self.is_searched) {
            return;
        }
        let mut collected = std::mem::take(&mut self.collected);
        match &mut self.gather {
            Some(gather) => gather.search(tracker, maps, self.memory.pages, &mut collected),
            None => tracker.collect(&mut self.memory, maps, &mut self.watch, &self.sticky, &mut collected),
        }
        self.collected = collected;
    }

    /// Whether it was searched before.
    pub(crate) fn is_known(&self) -> bool {
        self.gather.as_ref().map_or(self.watch != Watch::New, |gather| gather.is_known())
    }

    /// Has the tracker stop watching it.
    pub(crate) fn unwatch(&self, tracker: &mut Tracker) {
        match &self.gather {
            Some(gather) => gather.unwatch(tracker),
            None => tracker.unwatch(&self.memory, self.watch),
        }
        self.seams.iter().filter_map(Seam::watched).for_each(|pages| tracker.unwatch_seam(pages));
    }

    /// Notes a watched page that a search for another source found dirty, by its address.
    pub(crate) fn note(&mut self, address: usize) {
        match &mut self.gather {
            Some(gather) => gather.note(address),
            None => {
                let page = (address - self.memory.address) / PAGE_BYTES;
                self.pending[page / WINDOW_PAGES].insert(page % WINDOW_PAGES);
            }
        }
    }

    /// Whether others may change its memory.
    pub(crate) fn sharing(&self) -> Sharing {
        self.gather.as_ref().map_or(self.memory.sharing, |gather| gather.sharing())
    }

    /// Notes that another source with some of its pages found that others may change them.
    pub(crate) fn note_sharing(&mut self, sharing: Sharing) {
        let own = match &mut self.gather {
            Some(gather) => gather.sharing_mut(),
            None => &mut self.memory.sharing,
        };
        *own = sharing.max(*own);
    }

    /// Keeps what a search with its neighbours found for a publish that did not come so far.
    pub(crate) fn remember_search(&mut self) {
        if std::mem::take(&mut self.is_searched) {
            self.remember();
            for (pending, unsure) in self.pending.iter_mut().zip(&self.collected.unsure) {
                *pending = pending.or(*unsure);
            }
        }
    }

    /// Keeps the pages that the last search found for the next publish.
    pub(crate) fn remember(&mut self) {
        for (pending, dirty) in self.pending.iter_mut().zip(&self.collected.dirty) {
            *pending = pending.or(*dirty);
        }
    }

    /// Forgets what is known of the pages from `pages` on, which are no more.
    pub(crate) fn forget(&mut self, pages: usize) {
        for (window, pending) in self.pending.iter_mut().enumerate().skip(pages / WINDOW_PAGES) {
            *pending = pending.and(Mask::first(pages.saturating_sub(window * WINDOW_PAGES)));
        }
        self.sticky.forget(pages.div_ceil(WINDOW_PAGES));
    }

    /// Addresses of the pages that a tracker watches.
    pub(crate) fn watched(&self) -> (usize, usize) {
        if let Some(gather) = &self.gather {
            return gather.watched();
        }
        let Memory { address, whole, .. } = &self.memory;
        (address + whole.start * PAGE_BYTES, address + whole.end * PAGE_BYTES)
    }

    /// Pages of a window that are published as zeros and never looked at.
    pub(crate) fn blank(&self, window: usize) -> Mask {
        self.blank.get(window).copied().unwrap_or(Mask::EMPTY)
    }

    /// Number of windows of the watched memory that the last search looked at.
    pub(crate) fn watched_windows(&self) -> usize {
        self.gather.as_ref().map_or_else(|| self.windows(), |gather| gather.windows())
    }

    /// The address of a window of the watched memory, and its pages that the last search found dirty.
    pub(crate) fn watched_window(&self, window: usize) -> (usize, Mask) {
        let (address, collected) = match &self.gather {
            Some(gather) => gather.found(),
            None => (self.memory.address, &self.collected),
        };
        (address + window * WINDOW_BYTES, collected.dirty[window])
    }

    /// Whether its memory is of reserved large pages.
    pub(crate) fn is_large(&self) -> bool {
        self.gather.as_ref().map_or(self.memory.unit_pages, |gather| gather.unit_pages()) > 1
    }

    /// Number of windows in use.
    pub(crate) fn windows(&self) -> usize {
        self.memory.pages.div_ceil(WINDOW_PAGES)
    }

    /// Pages of a window that belong to the variable.
    pub(crate) fn valid(&self, window: usize) -> Mask {
        Mask::first((self.memory.pages.saturating_sub(window * WINDOW_PAGES)).min(WINDOW_PAGES))
    }

    /// The part of a page that belongs to the variable, as offsets in the page.
    pub(crate) fn part(&self, page: usize) -> std::ops::Range<usize> {
        if self.memory.owned {
            return 0..PAGE_BYTES;
        }
        let start = if page == 0 { self.page_offset } else { 0 };
        let end = (self.page_offset + self.bytes).saturating_sub(page * PAGE_BYTES).min(PAGE_BYTES);
        start.min(end)..end
    }
}
