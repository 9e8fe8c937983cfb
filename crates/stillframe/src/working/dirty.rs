//! Which pages of a source are published.
//!
//! # Safety
//!
//! This module compares memory the application owns. Its invariant: nobody writes the memory of a variable while publish
//! runs. For managed memory the borrow checker sees to that, for tracked memory given as slices too; whoever hands over raw
//! addresses vouches for it.
#![allow(unsafe_code)]

use crate::error::Result;
use crate::mask::{Mask, insert_pages};
use crate::store::Store;
use crate::store::planes::Planes;
use crate::working::source::Source;
use std::ops::Range;
use stillframe_kernel::copy::equal_bytes;
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

impl Subrange {
    /// The pages of a window that are published.
    fn mask(&self, window: usize) -> Mask {
        let page = |page: usize| page.saturating_sub(window * WINDOW_PAGES).min(WINDOW_PAGES);
        let mut mask = Mask::EMPTY;
        mask.insert_run(page(self.pages.start), page(self.pages.end).max(page(self.pages.start)));
        mask
    }
}

impl Source {
    /// Decides which pages are published after a search: those that were found or remembered, and those that are in doubt and
    /// differ from the newest version, where `shown` is what that shows of the variable.
    pub(crate) fn find_dirty(
        &mut self,
        store: &Store,
        subrange: Option<&Subrange>,
        shown: Option<&Extent>,
    ) -> Result<Dirty> {
        let allocation = self.maps.allocation;
        // Pages that the newest version shows from this very place, as whole as they are now.
        let shown_pages = match shown {
            Some(shown) if shown.allocation == allocation.serial && !self.stale => match shown.bytes as usize {
                bytes if bytes >= self.bytes => self.memory.pages,
                bytes => (self.page_offset + bytes) / PAGE_BYTES,
            },
            _ => 0,
        };
        if std::mem::take(&mut self.stale) {
            insert_pages(&mut self.pending, 0, self.memory.pages);
        }
        let mut found = Dirty::default();
        let mut written_pages = 0;
        for window in 0..self.windows() {
            let valid = self.valid(window);
            let unsure = self.collected.unsure[window].and(valid);
            written_pages += self.collected.dirty[window].and(valid).count();
            let mut dirty = self.collected.dirty[window].or(self.pending[window]).and(valid);
            if !unsure.without(dirty).is_empty() {
                let planes_of = store.subtable(allocation.window as usize + window);
                for page in unsure.without(dirty).pages() {
                    if self.differs(window * WINDOW_PAGES + page, planes_of[page], store.planes())? {
                        dirty.insert(page);
                    }
                }
            }
            self.pending[window] = Mask::EMPTY;
            self.sticky.learn(window, dirty, self.collected.armed[window]);
            if let Some(subrange) = subrange {
                let outside = valid.without(subrange.mask(window));
                let seen = Mask::first(shown_pages.saturating_sub(window * WINDOW_PAGES).min(WINDOW_PAGES));
                let unshown = outside.without(seen);
                found.unshown.push(unshown);
                self.pending[window] = dirty.and(outside).or(unshown);
                dirty = dirty.without(outside).or(unshown);
            }
            found.pages += dirty.count();
            self.collected.dirty[window] = dirty;
        }
        self.written_percent = written_pages * 100 / self.memory.pages.max(1);
        Ok(found)
    }

    /// Whether a page of the working memory differs from its frame in the newest version.
    fn differs(&mut self, page: usize, plane: u8, planes: &Planes) -> Result<bool> {
        if plane == ZERO_PLANE || plane as usize >= planes.count() {
            return Ok(true);
        }
        let part = self.part(page);
        let from = self.memory.address + page * PAGE_BYTES + part.start;
        self.maps.map(plane as usize, planes)?;
        let window = self.maps.address(plane as usize, page / WINDOW_PAGES, planes)?;
        let frame = window + page % WINDOW_PAGES * PAGE_BYTES + part.start;
        // SAFETY: the part lies inside the memory the caller vouches for, and the frame inside the map of its windows; its
        // space was taken when it was written.
        Ok(!unsafe { equal_bytes(from, frame, part.len()) })
    }
}
