//! The file behind a plane, and where in it the windows lie.

use crate::error::{Error, Result};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;
use stillframe_kernel::map::Mapping;
use stillframe_kernel::space;
use stillframe_segment::{PAGE_BYTES, WINDOW_BYTES, WINDOW_PAGES};

/// The file in which the pages of a plane lie.
#[derive(Debug, Clone)]
pub(crate) struct PlaneFile {
    file: Arc<File>,
    pub(crate) path: PathBuf,
}

impl PlaneFile {
    /// A sparse file with the windows one after the other.
    pub(crate) fn sparse(file: File, path: PathBuf) -> PlaneFile {
        PlaneFile { file: file.into(), path }
    }

    /// Offset of a window in the file.
    fn window_at(&self, window: usize) -> u64 {
        (window * WINDOW_BYTES) as u64
    }

    /// Offset of a page in the file.
    fn page_at(&self, page: usize) -> u64 {
        self.window_at(page / WINDOW_PAGES) + (page % WINDOW_PAGES * PAGE_BYTES) as u64
    }

    /// Makes it long enough for so many windows, which have no memory yet.
    pub(crate) fn grow(&self, windows: usize) -> Result<()> {
        let bytes = self.window_at(windows);
        if self.bytes()? < bytes {
            self.file.set_len(bytes).map_err(|error| Error::io("ftruncate", &self.path, error))?;
        }
        Ok(())
    }

    /// Length of the file.
    pub(crate) fn bytes(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|error| Error::io("fstat", &self.path, error))?.len())
    }

    /// Pages for which the file system has taken memory.
    pub(crate) fn taken_pages(&self) -> Result<u64> {
        let meta = self.file.metadata().map_err(|error| Error::io("fstat", &self.path, error))?;
        Ok(meta.blocks() * 512 / PAGE_BYTES as u64)
    }

    /// Pages of the first `windows` windows that have memory, in runs. Of memory that was taken and not written the file system
    /// may say nothing.
    pub(crate) fn written_pages(&self, windows: usize) -> Result<Vec<Range<usize>>> {
        // In one go: the search for the end of a range does not stop at that of a window.
        let found = space::data_ranges(&self.file, 0, self.window_at(windows));
        let found = found.map_err(|failure| Error::system(&self.path, failure))?;
        let page = PAGE_BYTES as u64;
        Ok(found.into_iter().map(|run| run.start.div_ceil(page) as usize..(run.end / page) as usize).collect())
    }

    /// Takes memory for pages: an error says of how many bytes there is none.
    pub(crate) fn take(&self, pages: Range<usize>) -> Result<()> {
        let bytes = (pages.len() * PAGE_BYTES) as u64;
        let taken = space::take(&self.file, self.page_at(pages.start), bytes);
        taken.map_err(|failure| Error::system(&self.path, failure).needing(bytes))
    }

    /// Gives memory of pages back.
    pub(crate) fn give_back(&self, pages: Range<usize>) -> Result<()> {
        let given = space::give_back(&self.file, self.page_at(pages.start), (pages.len() * PAGE_BYTES) as u64);
        given.map_err(|failure| Error::system(&self.path, failure))
    }

    /// Gives back what lies behind the last window.
    pub(crate) fn give_back_rest(&self, windows: usize) -> Result<()> {
        let (known, bytes) = (self.window_at(windows), self.bytes()?);
        if bytes > known {
            let given = space::give_back(&self.file, known, bytes - known);
            given.map_err(|failure| Error::system(&self.path, failure))?;
        }
        Ok(())
    }

    /// Whether the file system may have so many bytes.
    pub(crate) fn may_take(&self, bytes: u64) -> bool {
        space::may_take(&self.file, bytes)
    }

    /// Maps windows, to be written if `writable`.
    pub(crate) fn map(&self, windows: Range<usize>, writable: bool) -> Result<Mapping> {
        let map = Mapping::shared(&self.file, self.window_at(windows.start), windows.len() * WINDOW_BYTES, writable);
        map.map_err(|failure| Error::system(&self.path, failure))
    }

    /// As [`map`](PlaneFile::map), to be written; forked children get copies.
    pub(crate) fn map_unforked(&self, windows: Range<usize>) -> Result<Mapping> {
        let (at, bytes) = (self.window_at(windows.start), windows.len() * WINDOW_BYTES);
        Mapping::shared_unforked(self.file.clone(), at, bytes).map_err(|failure| Error::system(&self.path, failure))
    }

    /// Maps pages privately: what is written there is a copy.
    pub(crate) fn map_private(&self, pages: Range<usize>) -> Result<Mapping> {
        let map = Mapping::copy_on_write(&self.file, self.page_at(pages.start), pages.len() * PAGE_BYTES);
        map.map_err(|failure| Error::system(&self.path, failure))
    }

    /// Lays pages privately over part of a map.
    pub(crate) fn lay_private(&self, map: &Mapping, offset: usize, pages: Range<usize>) -> Result<()> {
        let laid = map.lay_copy_on_write(offset, &self.file, self.page_at(pages.start), pages.len() * PAGE_BYTES);
        laid.map_err(|failure| Error::system(&self.path, failure))
    }

    /// Reads pages, through the file.
    pub(crate) fn read(&self, page: usize, out: &mut [u8]) -> std::io::Result<()> {
        self.file.read_exact_at(out, self.page_at(page))
    }

    /// Reads pages into a map of the plane itself, without page-table entries for where they lie.
    pub(crate) fn read_into(
        &self,
        map: &Mapping,
        offset: usize,
        pages: Range<usize>,
    ) -> Result<(), stillframe_kernel::Failure> {
        map.read_from(offset, &self.file, self.page_at(pages.start), pages.len() * PAGE_BYTES)
    }
}
