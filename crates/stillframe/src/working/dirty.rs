//! Which pages of a source are published.
//!
//! # Safety
//!
//! This module compares memory the application owns. Its invariant: nobody writes the memory of a variable while publish
//! runs. For managed memory the borrow checker sees to that, for tracked memory given as slices too; whoever hands over raw
//! addresses vouches for it.
#![allow(unsafe_code)]

use crate::error::{Error, Result};
use crate::list;
use crate::mask::{Mask, insert_pages};
use crate::store::Store;
use crate::store::planes::Planes;
use crate::working::source::Source;
use crate::working::tracker::memory::{Collected, Doubt};
use crate::working::unit::CopyUnit;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use stillframe_kernel::Failure;
use stillframe_kernel::copy::equal_bytes;
use stillframe_kernel::pagemap::{self, Bare, Pagemap};
use stillframe_kernel::workers::Workers;
use stillframe_segment::table::ZERO_PLANE;
use stillframe_segment::{Extent, PAGE_BYTES, WINDOW_PAGES};

/// What a publish has to show of a source; which pages it is stands in [`Source::collected`].
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    /// Number of pages.
    pub(crate) pages: usize,
    /// Those of them that are shown as they were before they were written, window by window; none if all of a variable is
    /// published.
    pub(crate) unshown: Vec<Mask>,
}

/// The pages of a tracked variable that are published, when not all are.
#[derive(Debug, Clone)]
pub(crate) struct Subrange {
    pub(crate) pages: Range<usize>,
    /// Address of the variable's content as it was, for pages outside that no version shows.
    pub(crate) before: Option<usize>,
}

/// Pages of a tracked variable that are known to be zeros, ascending and apart, counted from its first page: of its memory,
/// and of what that was before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Zeros {
    pub(crate) memory: Vec<Range<usize>>,
    pub(crate) before: Vec<Range<usize>>,
    /// Whether those of the memory are known by having no memory of their own, which they may get at any time.
    pub(crate) are_holes: bool,
}

/// What a publish knows of a source before it looks, and who compares.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    pub(crate) workers: &'a Workers,
    pub(crate) subrange: Option<&'a Subrange>,
    pub(crate) zeros: &'a Zeros,
    /// In which units what lies in reserved large pages is copied.
    pub(crate) unit: CopyUnit,
    /// Where the newest version shows the variable.
    pub(crate) shown: Option<&'a Extent>,
}

impl Known<'_> {
    /// Whether all pages are published, and of none it is known that it is of zeros.
    fn is_of_all(&self) -> bool {
        self.subrange.is_none() && self.zeros.memory.is_empty() && self.zeros.before.is_empty()
    }
}

impl Zeros {
    pub(crate) const NONE: &Zeros = &Zeros { memory: Vec::new(), before: Vec::new(), are_holes: false };

    /// Those of the pages that lie in a window.
    fn mask(pages: &[Range<usize>], window: usize) -> Mask {
        let (first, end) = (window * WINDOW_PAGES, (window + 1) * WINDOW_PAGES);
        let mut mask = Mask::EMPTY;
        let from = pages.partition_point(|run| run.end <= first);
        for run in pages[from..].iter().take_while(|run| run.start < end) {
            mask.insert_run(run.start.max(first) - first, run.end.min(end) - first);
        }
        mask
    }

    /// The bytes of a variable that lie in other pages, if it begins so many bytes behind the begin of a page.
    pub(crate) fn others(
        pages: &[Range<usize>],
        page_offset: usize,
        bytes: usize,
    ) -> impl Iterator<Item = Range<usize>> {
        let all = (page_offset + bytes).div_ceil(PAGE_BYTES);
        let mut at = 0;
        let runs = pages.iter().cloned().chain(std::iter::once(all..all)).map(move |run| {
            let other = at..run.start.max(at);
            at = run.end.max(at);
            other
        });
        let byte = move |page: usize| (page * PAGE_BYTES).saturating_sub(page_offset).min(bytes);
        runs.map(move |run| byte(run.start)..byte(run.end)).filter(|run| !run.is_empty())
    }
}

impl Subrange {
    /// The pages of a window that are published.
    fn mask(&self, window: usize) -> Mask {
        Mask::of_window(&self.pages, window)
    }
}

/// From so many pages on several threads compare: to wake one takes as long as to compare some dozens.
const THREADS_PAGES_MIN: usize = 512;

impl Source {
    /// Decides which pages are published after a search: those that were found or remembered, and those that are in doubt and
    /// differ from the newest version. Pages known to be zeros are left alone where that version has zeros, and are else
    /// among the [blank](Source::blank) ones.
    pub(crate) fn find_dirty(&mut self, store: &Store, known: &Known) -> Result<Dirty> {
        let mut doubts = std::mem::take(&mut self.doubts);
        let found = self.find(&mut doubts, store, known);
        self.doubts = doubts;
        found
    }

    /// Whether a search found nothing that differs from the newest version, which shows all of it: then there is nothing to decide.
    /// Of a small array the pages at its ends are compared for that.
    pub(crate) fn is_as_shown(&mut self, shown: Option<&Extent>, store: &Store) -> Result<bool> {
        let is_clean = self.collected.dirty.iter().chain(&self.pending).all(|mask| mask.is_empty());
        if !is_clean || self.stale || self.memory.owned || self.shown_pages(shown) < self.memory.pages {
            return Ok(false);
        }
        if self.collected.unsure.iter().any(|mask| !mask.is_empty()) && !self.has_same_ends(store)? {
            return Ok(false);
        }
        let Collected { armed, .. } = &self.collected;
        for (window, armed) in armed.iter().enumerate() {
            self.sticky.learn(window, Mask::EMPTY, *armed);
        }
        self.blank.clear();
        self.written_percent = 0;
        self.edges_compared = true;
        Ok(true)
    }

    /// Whether the pages in doubt are those at the ends of a small array, and are as the newest version has them.
    fn has_same_ends(&mut self, store: &Store) -> Result<bool> {
        if self.windows() != 1 || self.gather.is_some() || self.is_large() {
            return Ok(false);
        }
        let unsure = self.collected.unsure[0].and(self.valid(0));
        if unsure.and(Mask::of_window(&self.memory.whole, 0)).is_empty() {
            self.map_frames(0, unsure, store)?;
            return Ok(self.differing(0, unsure, store)?.is_empty());
        }
        Ok(false)
    }

    fn find(&mut self, doubts: &mut [Mutex<Doubt>], store: &Store, known: &Known) -> Result<Dirty> {
        let shown_pages = self.shown_pages(known.shown);
        if std::mem::take(&mut self.stale) {
            insert_pages(&mut self.pending, 0, self.memory.pages);
        }
        self.blank.clear();
        self.take_edges();
        if known.is_of_all() && !self.is_large() && !self.is_in_doubt() {
            return Ok(self.find_undoubted());
        }
        let mut found = Dirty::default();
        let fail = |failure| Error::system(store.dir(), failure);
        if !known.zeros.memory.is_empty() || !known.zeros.before.is_empty() {
            list::make_room(&mut self.blank, self.memory.pages.div_ceil(WINDOW_PAGES)).map_err(fail)?;
        }
        if known.subrange.is_some() {
            list::make_room(&mut found.unshown, self.windows()).map_err(fail)?;
        }
        let mut entries = match known.zeros.are_holes {
            true => Some(Pagemap::open().map_err(unknown)?),
            false => None,
        };
        let is_large = self.is_large();
        self.look(doubts, store, known, shown_pages)?;
        let mut written_pages = 0;
        for (window, doubt) in doubts.iter_mut().enumerate().take(self.windows()) {
            let valid = self.valid(window);
            let mask = |pages: &[Range<usize>]| Zeros::mask(pages, window).and(valid);
            let (mut zeros, zeros_before) = (mask(&known.zeros.memory), mask(&known.zeros.before));
            let written = self.collected.dirty[window].and(valid);
            written_pages += written.count();
            let is_shown = shown_pages > window * WINDOW_PAGES;
            let is_compared = is_large && self.is_compared(window, known.unit, shown_pages);
            let mut dirty = self.undoubted(window, is_compared);
            let unsure = self.collected.unsure[window].and(valid).or(written.without(dirty));
            if let Some(entries) = &mut entries {
                // Asked for after the search: what is written from then on is found by the next one.
                zeros = zeros.without(self.filled(entries, window, dirty.or(unsure).and(zeros))?);
            }
            let mut none = Mask::EMPTY;
            if !unsure.without(dirty).or(zeros).or(zeros_before).is_empty() {
                let planes_of = store.subtable(self.maps.allocation.window as usize + window);
                for page in zeros.or(zeros_before).pages().filter(|page| planes_of[*page] == ZERO_PLANE) {
                    none.insert(page);
                }
                let doubt = doubt.get_mut().unwrap_or_else(PoisonError::into_inner);
                dirty = dirty.or(doubt.differing);
                let filled = unsure.without(dirty).without(zeros).without(doubt.pages);
                if !filled.is_empty() {
                    self.map_frames(window, filled, store)?;
                    dirty = dirty.or(self.differing(window, filled, store)?);
                }
            }
            if is_large && is_shown {
                let differing = is_compared.then(|| dirty.and(written).count());
                self.units.learn(window, written.count(), differing);
            }
            dirty = dirty.or(unsure.and(zeros)).without(zeros.and(none));
            self.pending[window] = Mask::EMPTY;
            self.sticky.learn(window, dirty, self.collected.armed[window]);
            let mut blank = dirty.and(zeros);
            if let Some(subrange) = known.subrange {
                let outside = valid.without(subrange.mask(window));
                let seen = Mask::first(shown_pages.saturating_sub(window * WINDOW_PAGES).min(WINDOW_PAGES));
                let unshown = outside.without(seen);
                found.unshown.push(unshown);
                self.pending[window] = dirty.and(outside).or(unshown.without(zeros.and(zeros_before)));
                blank = blank.without(outside).or(unshown.and(zeros_before).without(none));
                dirty = dirty.without(outside).or(unshown.without(zeros_before.and(none)));
            }
            if !known.zeros.memory.is_empty() || !known.zeros.before.is_empty() {
                self.blank.push(blank);
            }
            found.pages += dirty.count();
            self.collected.dirty[window] = dirty;
        }
        self.written_percent = written_pages * 100 / self.memory.pages.max(1);
        self.edges_compared = true;
        Ok(found)
    }

    /// Whether there is a page that has to be compared.
    fn is_in_doubt(&self) -> bool {
        let unsure = self.collected.unsure.iter().enumerate().filter(|(_, unsure)| !unsure.is_empty());
        unsure.into_iter().any(|(window, unsure)| !unsure.and(self.valid(window)).is_empty())
    }

    /// As [`find_dirty`](Source::find_dirty), of what is published whole and has nothing to be compared.
    fn find_undoubted(&mut self) -> Dirty {
        let (mut pages, mut written_pages) = (0, 0);
        for window in 0..self.windows() {
            let valid = self.valid(window);
            let written = self.collected.dirty[window].and(valid);
            let dirty = written.or(std::mem::take(&mut self.pending[window]).and(valid));
            written_pages += written.count();
            pages += dirty.count();
            self.sticky.learn(window, dirty, self.collected.armed[window]);
            self.collected.dirty[window] = dirty;
        }
        self.written_percent = written_pages * 100 / self.memory.pages.max(1);
        self.edges_compared = true;
        Dirty { pages, unshown: Vec::new() }
    }

    /// Publishes the pages at the ends of a small array all of whose other pages were written, without a comparison: that takes as
    /// long as to copy them, and would nearly always find a difference.
    fn take_edges(&mut self) {
        let whole = self.memory.whole.clone();
        if self.windows() != 1 || whole.is_empty() || self.gather.is_some() || self.is_large() {
            return;
        }
        let Collected { dirty, unsure, .. } = &mut self.collected;
        if Mask::of_window(&whole, 0).without(dirty[0]).is_empty() {
            dirty[0] = dirty[0].or(unsure[0]);
            unsure[0] = Mask::EMPTY;
        }
    }

    /// Those of some pages of a window, holes of late, that have memory of their own. One that was armed since looks like a
    /// page that was swapped out, and is a hole: nothing is swapped out as soon as it is written.
    fn filled(&self, entries: &mut Pagemap, window: usize, pages: Mask) -> Result<Mask> {
        let mut filled = Mask::EMPTY;
        for (start, end) in pages.runs() {
            let address = self.memory.address + (window * WINDOW_PAGES + start) * PAGE_BYTES;
            let note = |page: usize, entry: u64| {
                if pagemap::bareness(entry) == Bare::No {
                    filled.insert(start + page);
                }
            };
            entries.entries(address, end - start, note).map_err(unknown)?;
        }
        Ok(filled)
    }

    /// Pages that the newest version shows from this very place, as whole as they are now.
    fn shown_pages(&self, shown: Option<&Extent>) -> usize {
        match shown {
            Some(shown) if shown.allocation == self.maps.allocation.serial && !self.stale => {
                match shown.bytes as usize {
                    bytes if bytes >= self.bytes => self.memory.pages,
                    bytes => (self.page_offset + bytes) / PAGE_BYTES,
                }
            }
            _ => 0,
        }
    }

    /// Whether what the search found written in a window is compared. What no version shows from here cannot be.
    fn is_compared(&self, window: usize, unit: CopyUnit, shown_pages: usize) -> bool {
        shown_pages > window * WINDOW_PAGES && self.units.is_compared(window, unit)
    }

    /// The pages of a window that are published without a look.
    fn undoubted(&self, window: usize, is_compared: bool) -> Mask {
        let written = if is_compared { Mask::EMPTY } else { self.collected.dirty[window] };
        written.or(self.pending[window]).and(self.valid(window))
    }

    /// Compares the pages that are in doubt with the newest version, in several threads where there are many: to read memory is all
    /// that this is, and one thread does not read as fast as it can be read.
    fn look(&mut self, doubts: &mut [Mutex<Doubt>], store: &Store, known: &Known, shown_pages: usize) -> Result<()> {
        let is_large = self.is_large();
        let mut count = 0;
        for (window, doubt) in doubts.iter_mut().take(self.windows()).enumerate() {
            let is_compared = is_large && self.is_compared(window, known.unit, shown_pages);
            let written = if is_compared { self.collected.dirty[window] } else { Mask::EMPTY };
            let unsure = self.collected.unsure[window].or(written);
            let doubt = doubt.get_mut().unwrap_or_else(PoisonError::into_inner);
            *doubt = Doubt::default();
            // Mostly nothing is in doubt.
            if unsure.is_empty() {
                continue;
            }
            let zeros = Zeros::mask(&known.zeros.memory, window);
            let pages = unsure.and(self.valid(window)).without(self.undoubted(window, is_compared)).without(zeros);
            doubt.pages = pages;
            if !pages.is_empty() {
                count += pages.count();
                self.map_frames(window, pages, store)?;
            }
        }
        if count == 0 {
            return Ok(());
        }
        let failed = Mutex::new(None);
        let threads = if count < THREADS_PAGES_MIN { 1 } else { known.workers.count() };
        known.workers.parallel_for(self.windows(), threads, &|window| {
            let mut doubt = doubts[window].lock().unwrap_or_else(PoisonError::into_inner);
            match self.differing(window, doubt.pages, store) {
                Ok(differing) => doubt.differing = differing,
                Err(error) => *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error),
            }
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    /// Those of some pages of a window that differ from the newest version, which is mapped.
    fn differing(&self, window: usize, pages: Mask, store: &Store) -> Result<Mask> {
        let mut differing = Mask::EMPTY;
        if !pages.is_empty() {
            let planes_of = store.subtable(self.maps.allocation.window as usize + window);
            for page in pages.pages() {
                if self.differs(window * WINDOW_PAGES + page, planes_of[page], store.planes())? {
                    differing.insert(page);
                }
            }
        }
        Ok(differing)
    }

    /// Maps the planes in which the newest version has pages of a window.
    fn map_frames(&mut self, window: usize, pages: Mask, store: &Store) -> Result<()> {
        let planes_of = store.subtable(self.maps.allocation.window as usize + window);
        let mut last = ZERO_PLANE;
        for page in pages.pages() {
            let plane = planes_of[page];
            if plane != last && plane != ZERO_PLANE && (plane as usize) < store.planes().count() {
                self.maps.map(plane as usize, store.planes())?;
            }
            last = plane;
        }
        Ok(())
    }

    /// Whether a page of the working memory differs from its frame in the newest version, which is mapped.
    fn differs(&self, page: usize, plane: u8, planes: &Planes) -> Result<bool> {
        if plane == ZERO_PLANE || plane as usize >= planes.count() {
            return Ok(true);
        }
        if self.gather.is_some() {
            return self.gathered_differs(page, plane, planes);
        }
        let part = self.part(page);
        let from = self.memory.address + page * PAGE_BYTES + part.start;
        let window = self.maps.address(plane as usize, page / WINDOW_PAGES, planes)?;
        let frame = window + page % WINDOW_PAGES * PAGE_BYTES + part.start;
        // SAFETY: the part lies inside the memory the caller vouches for, and the frame inside the map of its windows; its
        // space was taken when it was written.
        Ok(!unsafe { equal_bytes(from, frame, part.len()) })
    }
}

impl Source {
    /// As `differs`, of a section.
    fn gathered_differs(&self, page: usize, plane: u8, planes: &Planes) -> Result<bool> {
        let window = self.maps.address(plane as usize, page / WINDOW_PAGES, planes)?;
        let frame = window + page % WINDOW_PAGES * PAGE_BYTES;
        let Some(gather) = &self.gather else { return Ok(true) };
        // SAFETY: the span was looked for when the publish began; the frame is inside the map of its windows, and its space was
        // taken when it was written.
        Ok(!unsafe { gather.with_page(page, |bytes| equal_bytes(bytes.as_ptr() as usize, frame, bytes.len())) })
    }
}

fn unknown(failure: Failure) -> Error {
    Error::system(Path::new("/proc/self/pagemap"), failure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::space::Allocation;
    use proptest::prelude::*;

    fn mask() -> impl Strategy<Value = Mask> {
        prop::collection::vec((0..WINDOW_PAGES, 0..WINDOW_PAGES), 0..4).prop_map(|runs| {
            let mut mask = Mask::EMPTY;
            runs.into_iter().for_each(|(start, end)| mask.insert_run(start, end.max(start)));
            mask
        })
    }

    proptest! {
        /// Whatever was found of windows and remembered, also of pages that are no more.
        #[test]
        fn where_nothing_is_in_doubt_the_dirty_pages_are_those_that_were_found_and_remembered(
            masks in prop::collection::vec((mask(), mask(), mask()), 1..4),
            last_pages in 1..=WINDOW_PAGES,
        ) {
            let windows = masks.len();
            let pages = (windows - 1) * WINDOW_PAGES + last_pages;
            let allocation = Allocation { serial: 1, window: 0, windows: windows as u32 };
            let mut source = Source::new(allocation, false).unwrap();
            source.set_memory(PAGE_BYTES, pages * PAGE_BYTES);
            source.collected.reset(&source.memory);
            for (window, (found, remembered, unsure)) in masks.iter().enumerate() {
                source.collected.dirty[window] = *found;
                source.pending[window] = *remembered;
                source.collected.unsure[window] = *unsure;
            }
            let list = |mask: fn(&(Mask, Mask, Mask)) -> Mask| -> Vec<usize> {
                let all = masks.iter().enumerate();
                let all = all.flat_map(|(window, one)| mask(one).pages().map(move |page| window * WINDOW_PAGES + page));
                all.filter(|page| *page < pages).collect()
            };
            prop_assert_eq!(source.is_in_doubt(), !list(|one| one.2).is_empty());
            let dirty = source.find_undoubted();
            let expected = list(|one| one.0.or(one.1));
            let found = source.collected.dirty.iter().enumerate();
            let found: Vec<usize> =
                found.flat_map(|(window, mask)| mask.pages().map(move |page| window * WINDOW_PAGES + page)).collect();
            prop_assert_eq!(dirty.pages, expected.len());
            prop_assert!(dirty.unshown.is_empty());
            prop_assert_eq!(found, expected);
            prop_assert!(source.pending.iter().all(|mask| mask.is_empty()));
            prop_assert_eq!(source.written_percent, list(|one| one.0).len() * 100 / pages);
        }
    }
}
