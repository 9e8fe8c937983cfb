//! One plane: which of its slots are in use, and which have memory.
//!
//! A slot is the place of a page in a plane. It is *in use* while some version that exists has its page there, and
//! *present* while the file system has memory behind it.

use crate::error::{Error, Result};
use crate::mask::{Mask, insert_pages};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use stillframe_kernel::space;
use stillframe_segment::{PAGE_BYTES, WINDOW_BYTES};

/// One plane.
#[derive(Debug)]
pub(crate) struct Plane {
    pub(crate) file: Arc<File>,
    pub(crate) path: PathBuf,
    pub(crate) in_use: Vec<Mask>,
    pub(crate) present: Vec<Mask>,
    /// Free slots with memory that were so at the last visit too.
    pub(crate) idle: Vec<Mask>,
    /// Pages with memory, at most, in free slots of a recovered plane of which nobody looked yet where they are.
    pub(crate) unseen_pages: u64,
}

impl Plane {
    /// Pages for which the file system has taken memory.
    pub(crate) fn taken_pages(&self) -> Result<u64> {
        let meta = self.file.metadata().map_err(|error| Error::io("fstat", &self.path, error))?;
        Ok(meta.blocks() * 512 / PAGE_BYTES as u64)
    }

    fn bytes(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|error| Error::io("fstat", &self.path, error))?.len())
    }

    pub(crate) fn present_pages(&self) -> u64 {
        self.present.iter().map(|mask| mask.count() as u64).sum()
    }

    /// Finds out which slots have memory, when those in use are marked and nobody has chosen others.
    pub(crate) fn settle(&mut self) -> Result<()> {
        let fail = |failure| Error::system(&self.path, failure);
        let windows = self.in_use.len();
        // In one go: the search for the end of a range does not stop at that of a window.
        for range in space::data_ranges(&self.file, 0, (windows * WINDOW_BYTES) as u64).map_err(fail)? {
            let (from, to) = (range.start.div_ceil(PAGE_BYTES as u64), range.end / PAGE_BYTES as u64);
            insert_pages(&mut self.present, from as usize, to as usize);
        }
        if self.present_pages() > self.taken_pages()? {
            // A file system that cannot tell says that everything is data.
            self.present.clone_from(&self.in_use);
        }
        if self.taken_pages()? == self.present_pages() {
            return Ok(());
        }
        // The file system does not tell memory that was taken and never written from none, so such memory goes. And where
        // the file was copied, slots in use that hold zeros may have lost theirs.
        for (window, present) in self.present.iter().enumerate() {
            for (start, end) in Mask::FULL.without(*present).runs() {
                let (at, bytes) = span(window, start, end);
                space::give_back(&self.file, at, bytes).map_err(fail)?;
            }
            for (start, end) in self.in_use[window].runs() {
                let (at, bytes) = span(window, start, end);
                space::take(&self.file, at, bytes)
                    .map_err(|failure| Error::system(&self.path, failure).needing(bytes))?;
            }
        }
        // What lies behind the last window is of a version that was never committed.
        let known = (windows * WINDOW_BYTES) as u64;
        let bytes = self.bytes()?;
        if bytes > known {
            space::give_back(&self.file, known, bytes - known).map_err(fail)?;
        }
        Ok(())
    }

    pub(crate) fn grow(&mut self, windows: usize) -> Result<()> {
        self.in_use.resize(windows, Mask::EMPTY);
        self.present.resize(windows, Mask::EMPTY);
        self.idle.resize(windows, Mask::EMPTY);
        let bytes = (windows * WINDOW_BYTES) as u64;
        let length = self.file.metadata().map_err(|error| Error::io("fstat", &self.path, error))?.len();
        if length < bytes {
            self.file.set_len(bytes).map_err(|error| Error::io("ftruncate", &self.path, error))?;
        }
        Ok(())
    }
}

/// Offset and length of a run of pages of a window.
pub(crate) fn span(window: usize, start: usize, end: usize) -> (u64, u64) {
    ((window * WINDOW_BYTES + start * PAGE_BYTES) as u64, ((end - start) * PAGE_BYTES) as u64)
}
