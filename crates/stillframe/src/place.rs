//! Where variables lie in the page space of a region, and the memory they are published from.

use crate::managed::Managed;
use crate::mask::Mask;
use crate::planes::Planes;
use crate::sticky::Sticky;
use crate::tracker::{Collected, Memory, Watch};
use crate::{Error, Result};
use stillframe_kernel::map::Mapping;
use stillframe_segment::{PAGE_BYTES, WINDOW_BYTES, WINDOW_PAGES};

/// Windows of the page space that belong to one source.
#[derive(Debug)]
pub(crate) struct Place {
    /// Number that no other place of the region ever has.
    pub(crate) serial: u64,
    pub(crate) window: u32,
    pub(crate) windows: u32,
    /// This place in each plane, mapped when it is first written there.
    maps: Vec<Option<PlaceMap>>,
}

/// A place in one plane.
#[derive(Debug)]
struct PlaceMap {
    map: Mapping,
    /// Pages of each window that have page-table entries.
    entered: Vec<Mask>,
}

/// Runs of pages at least this long get their page-table entries in one call; shorter ones fault, which costs no more.
const ENTER_PAGES_MIN: usize = 4;

impl Place {
    pub(crate) fn new(serial: u64, window: u32, windows: u32) -> Place {
        Place { serial, window, windows, maps: Vec::new() }
    }

    fn place_map(&mut self, plane: usize, planes: &Planes) -> Result<&mut PlaceMap> {
        if self.maps.len() <= plane {
            self.maps.resize_with(plane + 1, || None);
        }
        let place = &mut self.maps[plane];
        match place {
            Some(known) => Ok(known),
            None => {
                let map = map_place(self.window, self.windows, plane, planes)?;
                Ok(place.insert(PlaceMap { map, entered: vec![Mask::EMPTY; self.windows as usize] }))
            }
        }
    }

    /// The place in a plane.
    pub(crate) fn map(&mut self, plane: usize, planes: &Planes) -> Result<&Mapping> {
        self.place_map(plane, planes).map(|place| &place.map)
    }

    /// The places in the planes that were mapped so far, in the order of the planes.
    pub(crate) fn known_maps(&self) -> impl Iterator<Item = &Mapping> {
        self.maps.iter().flatten().map(|place| &place.map)
    }

    /// The place in a plane, about to be written at these pages of one of its windows.
    pub(crate) fn map_for_writing(
        &mut self,
        plane: usize,
        window: usize,
        pages: Mask,
        planes: &Planes,
    ) -> Result<&Mapping> {
        let place = self.place_map(plane, planes)?;
        let new = pages.without(place.entered[window]);
        if !new.is_empty() {
            place.entered[window] = place.entered[window].or(new);
            for (start, end) in new.runs().filter(|(start, end)| end - start >= ENTER_PAGES_MIN) {
                let offset = window * WINDOW_BYTES + start * PAGE_BYTES;
                place.map.populate_for_writing(offset, (end - start) * PAGE_BYTES);
            }
        }
        Ok(&place.map)
    }
}

/// Maps some windows of a plane for writing.
fn map_place(window: u32, windows: u32, plane: usize, planes: &Planes) -> Result<Mapping> {
    let plane = planes.plane(plane);
    let (offset, bytes) = (window as u64 * WINDOW_BYTES as u64, windows as usize * WINDOW_BYTES);
    Mapping::shared(&plane.file, offset, bytes, true).map_err(|failure| Error::system(&plane.path, failure))
}

/// The page space: which windows are taken by a place.
#[derive(Debug, Default)]
pub(crate) struct Space {
    taken: Vec<bool>,
}

impl Space {
    /// Takes a run of free windows, the lowest that fits.
    pub(crate) fn take(&mut self, windows: u32) -> u32 {
        let count = windows.max(1) as usize;
        let mut run = 0;
        for (index, taken) in self.taken.iter().enumerate() {
            run = if *taken { 0 } else { run + 1 };
            if run == count {
                let start = index + 1 - count;
                self.taken[start..=index].fill(true);
                return start as u32;
            }
        }
        let start = self.taken.len() - run;
        self.taken.resize(start + count, true);
        self.taken[start..].fill(true);
        start as u32
    }

    /// Takes windows whose place is known already.
    pub(crate) fn claim(&mut self, window: u32, windows: u32) {
        let end = (window + windows.max(1)) as usize;
        if self.taken.len() < end {
            self.taken.resize(end, false);
        }
        self.taken[window as usize..end].fill(true);
    }

    pub(crate) fn give_back(&mut self, window: u32, windows: u32) {
        let end = ((window + windows.max(1)) as usize).min(self.taken.len());
        self.taken[window as usize..end].fill(false);
        let used = self.taken.iter().rposition(|taken| *taken).map_or(0, |last| last + 1);
        self.taken.truncate(used);
    }

    /// Windows up to the last taken one.
    pub(crate) fn windows(&self) -> usize {
        self.taken.len()
    }
}

/// Where the content of a variable is written by the application.
#[derive(Debug)]
pub(crate) enum Working {
    /// Memory of the region.
    Managed(Managed),
    /// Memory of the application.
    Tracked,
    /// Slots of the planes themselves.
    Loaned,
}

/// One memory a variable is published from, and what is known of it. A tracked variable has one for each address it was
/// published at lately, so that swapped buffers keep what was learned about each.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) place: Place,
    pub(crate) working: Working,
    pub(crate) memory: Memory,
    /// Offset of the first byte in the first page.
    pub(crate) page_offset: usize,
    pub(crate) bytes: usize,
    /// Whether what follows the content in the last page is the region's and began as zeros. What was recovered may have
    /// anything there.
    pub(crate) zero_end: bool,
    pub(crate) watch: Watch,
    pub(crate) sticky: Sticky,
    /// Pages that are dirty although no tracker will say so again.
    pub(crate) pending: Vec<Mask>,
    pub(crate) collected: Collected,
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
    pub(crate) fn new(place: Place, working: Working) -> Source {
        let memory = Memory { address: 0, pages: 0, whole: 0..0, owned: matches!(working, Working::Managed(_)) };
        let windows = place.windows as usize;
        let mut source = Source {
            place,
            working,
            memory,
            page_offset: 0,
            bytes: 0,
            zero_end: false,
            watch: Watch::New,
            sticky: Sticky::default(),
            pending: vec![Mask::EMPTY; windows],
            collected: Collected::default(),
            stale: false,
            written_percent: 0,
            used: 0,
            hint: 0,
        };
        source.sticky.reset(windows);
        source
    }

    /// Sets where the memory is and how long. Pages with bytes that it did not have before count as dirty, also one that it
    /// had a part of: no version has more of that than the part. Where the region owns the memory, they are zeros.
    pub(crate) fn set_memory(&mut self, address: usize, bytes: usize) {
        let base = address / PAGE_BYTES * PAGE_BYTES;
        let page_offset = address - base;
        let pages = (page_offset + bytes).div_ceil(PAGE_BYTES);
        let owned = self.memory.owned;
        let whole_start = usize::from(page_offset != 0).min(pages);
        let whole_end = if owned { pages } else { (page_offset + bytes) / PAGE_BYTES };
        let whole = whole_start..whole_end.max(whole_start);
        // Of memory that is new to the region the tracker says what is dirty.
        if self.memory.address != 0 && bytes > self.bytes {
            if !owned {
                crate::mask::insert_pages(&mut self.pending, (page_offset + self.bytes) / PAGE_BYTES, pages);
            }
            if whole != self.memory.whole && self.watch == Watch::On {
                // A search among watched pages lists those without memory, too; the first search of owned memory does not.
                self.watch = if owned { Watch::New } else { Watch::Grown { from: self.memory.whole.end } };
            }
        }
        self.page_offset = page_offset;
        self.bytes = bytes;
        self.memory = Memory { address: base, pages, whole, owned };
    }

    /// Forgets what is known of the pages from `pages` on, which are no more.
    pub(crate) fn forget(&mut self, pages: usize) {
        let windows = self.pending.len();
        for (window, pending) in self.pending.iter_mut().enumerate().skip(pages / WINDOW_PAGES) {
            *pending = pending.and(Mask::first(pages.saturating_sub(window * WINDOW_PAGES)));
        }
        self.sticky.resize(pages.div_ceil(WINDOW_PAGES));
        self.sticky.resize(windows);
    }

    /// Addresses of the pages that a tracker watches.
    pub(crate) fn watched(&self) -> (usize, usize) {
        let Memory { address, whole, .. } = &self.memory;
        (address + whole.start * PAGE_BYTES, address + whole.end * PAGE_BYTES)
    }

    /// Addresses of the pages that the last collection found dirty.
    pub(crate) fn dirty_addresses(&self) -> impl Iterator<Item = usize> {
        let masks = self.collected.dirty.iter().enumerate();
        let pages = masks.flat_map(|(window, mask)| mask.pages().map(move |page| window * WINDOW_PAGES + page));
        pages.map(|page| self.memory.address + page * PAGE_BYTES)
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
