//! One plane: which of its frames are in use, and which have memory.
//!
//! A frame is the place of a page in a plane. It is *in use* while some version that exists has its page there, and
//! *present* while the file system has memory behind it.

use crate::error::{Error, Result};
use crate::list;
use crate::mask::{Mask, insert_pages};
use crate::place::plane_file::PlaneFile;
use std::ops::Range;
use stillframe_segment::WINDOW_PAGES;

/// One plane.
#[derive(Debug)]
pub(crate) struct Plane {
    pub(crate) file: PlaneFile,
    pub(crate) in_use: Vec<Mask>,
    pub(crate) present: Vec<Mask>,
    /// Free frames with memory that were so at the last visit too.
    pub(crate) idle: Vec<Mask>,
    /// Pages with memory, at most, in free frames of a recovered plane of which nobody looked yet where they are.
    pub(crate) unscanned_pages: u64,
}

impl Plane {
    pub(crate) fn new(file: PlaneFile) -> Plane {
        Plane { file, in_use: Vec::new(), present: Vec::new(), idle: Vec::new(), unscanned_pages: 0 }
    }

    pub(crate) fn present_pages(&self) -> u64 {
        self.present.iter().map(|mask| mask.count() as u64).sum()
    }

    /// Finds out which frames have memory, when those in use are marked and nobody has chosen others.
    pub(crate) fn scan_residency(&mut self) -> Result<()> {
        let windows = self.in_use.len();
        let Some(taken_pages) = self.file.taken_pages()? else { return self.settle_windows() };
        for pages in self.file.written_pages(windows)? {
            insert_pages(&mut self.present, pages.start, pages.end);
        }
        if self.present_pages() > taken_pages {
            // A file system that cannot tell says that everything is data.
            self.present.clone_from(&self.in_use);
        }
        if taken_pages == self.present_pages() {
            return Ok(());
        }
        // The file system does not tell memory that was taken and never written from none, so such memory goes. And where
        // the file was copied, frames in use that hold zeros may have lost theirs.
        for (window, present) in self.present.iter().enumerate() {
            for run in Mask::FULL.without(*present).runs() {
                self.file.give_back(pages_of(window, run))?;
            }
            for run in self.in_use[window].runs() {
                self.file.take(pages_of(window, run))?;
            }
        }
        // What lies behind the last window is of a version that was never committed.
        self.file.give_back_rest(windows)
    }

    /// Gives back what windows of a file that is not the plane's own have in free frames: how much that is cannot be told.
    fn settle_windows(&mut self) -> Result<()> {
        for (window, in_use) in self.in_use.iter().enumerate() {
            if in_use.is_empty() {
                self.file.release(window)?;
            } else {
                Mask::FULL.without(*in_use).runs().try_for_each(|run| self.file.give_back(pages_of(window, run)))?;
            }
        }
        Ok(())
    }

    pub(crate) fn grow(&mut self, windows: usize) -> Result<()> {
        for masks in [&mut self.in_use, &mut self.present, &mut self.idle] {
            let grown = list::resize(masks, windows, Mask::EMPTY);
            grown.map_err(|failure| Error::system(self.file.path(), failure))?;
        }
        self.file.grow(windows)
    }
}

/// Pages of a plane that are a run of pages of a window.
pub(crate) fn pages_of(window: usize, (start, end): (usize, usize)) -> Range<usize> {
    window * WINDOW_PAGES + start..window * WINDOW_PAGES + end
}
