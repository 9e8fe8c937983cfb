//! The file behind a plane, and where in it the windows lie: one after the other in a file of the plane's own, or each in a
//! chunk of an arena.

use crate::error::{Error, Result};
use crate::list;
use crate::place::arena::region::ArenaRegion;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stillframe_kernel::Failure;
use stillframe_kernel::map::Mapping;
use stillframe_kernel::space;
use stillframe_segment::{PAGE_BYTES, WINDOW_BYTES, WINDOW_PAGES};

/// The file in which the pages of a plane lie, as a producer has it.
#[derive(Debug, Clone)]
pub(crate) struct PlaneFile {
    file: Arc<File>,
    path: PathBuf,
    chunks: Option<Chunks>,
}

/// A plane of a region of an arena.
#[derive(Debug, Clone)]
struct Chunks {
    region: Arc<ArenaRegion>,
    plane: usize,
}

impl PlaneFile {
    /// A sparse file with the windows one after the other.
    pub(crate) fn sparse(file: File, path: PathBuf) -> PlaneFile {
        PlaneFile { file: file.into(), path, chunks: None }
    }

    /// Chunks of an arena.
    pub(crate) fn in_arena(region: &Arc<ArenaRegion>, plane: usize) -> PlaneFile {
        let file = region.arena().file().clone();
        PlaneFile { file, path: region.path().into(), chunks: Some(Chunks { region: region.clone(), plane }) }
    }

    /// Where it lies, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Offset of a window in the file. In an arena it has one from when memory is taken for it until it is
    /// [released](PlaneFile::release).
    fn window_at(&self, window: usize) -> Result<u64> {
        let Some(Chunks { region, plane }) = &self.chunks else { return Ok((window * WINDOW_BYTES) as u64) };
        let chunk = region.index()?.chunk(*plane, window)?;
        let chunk =
            chunk.ok_or_else(|| Error::NoRegion { region: format!("plane {plane}"), dir: self.path.clone() })?;
        Ok(u64::from(chunk) * WINDOW_BYTES as u64)
    }

    /// Runs of neighbours in the file: pages of the plane, and the offset of the first.
    fn runs(&self, pages: Range<usize>) -> Result<Vec<(Range<usize>, u64)>> {
        let mut runs: Vec<(Range<usize>, u64)> = Vec::new();
        let mut page = pages.start;
        while page < pages.end {
            let window = page / WINDOW_PAGES;
            // Without chunks all of it is one run.
            let end = if self.chunks.is_none() { pages.end } else { pages.end.min((window + 1) * WINDOW_PAGES) };
            let at = self.window_at(window)? + (page % WINDOW_PAGES * PAGE_BYTES) as u64;
            match runs.last_mut() {
                Some((last, from)) if *from + (last.len() * PAGE_BYTES) as u64 == at => last.end = end,
                _ => list::push(&mut runs, (page..end, at)).map_err(self.fail())?,
            }
            page = end;
        }
        Ok(runs)
    }

    fn fail(&self) -> impl Fn(Failure) -> Error + '_ {
        |failure| Error::system(&self.path, failure)
    }

    /// Makes it long enough for so many windows, which have no memory yet.
    pub(crate) fn grow(&self, windows: usize) -> Result<()> {
        if let Some(Chunks { region, plane }) = &self.chunks {
            let index = region.index()?;
            let (capacity, old) = index.capacity(*plane)?;
            if windows > capacity {
                let words_per_page = PAGE_BYTES / 4;
                let pages = region.take_pages((windows * 3 / 2 + 1).div_ceil(words_per_page) as u32)?;
                index.set_map(*plane, &pages)?;
                if let Some(first) = old {
                    let old = first..first + (capacity + 1).div_ceil(words_per_page) as u32;
                    region.give_back_taken(old)?;
                }
            }
            return Ok(());
        }
        let bytes = (windows * WINDOW_BYTES) as u64;
        let length = self.file.metadata().map_err(|error| Error::io("fstat", &self.path, error))?.len();
        if length < bytes {
            self.file.set_len(bytes).map_err(|error| Error::io("ftruncate", &self.path, error))?;
        }
        Ok(())
    }

    /// Pages for which the file system has taken memory; `None` where the file is not the plane's own.
    pub(crate) fn taken_pages(&self) -> Result<Option<u64>> {
        if self.chunks.is_some() {
            return Ok(None);
        }
        let meta = self.file.metadata().map_err(|error| Error::io("fstat", &self.path, error))?;
        Ok(Some(meta.blocks() * 512 / PAGE_BYTES as u64))
    }

    /// Whether a window has a place in the file.
    pub(crate) fn has_window(&self, window: usize) -> Result<bool> {
        match &self.chunks {
            None => Ok(true),
            Some(Chunks { region, plane }) => Ok(region.index()?.chunk(*plane, window)?.is_some()),
        }
    }

    /// Pages of the first `windows` windows that have memory, in runs. Of memory that was taken and not written the file system
    /// may say nothing.
    pub(crate) fn written_pages(&self, windows: usize) -> Result<Vec<Range<usize>>> {
        // In one go: the search for the end of a range does not stop at that of a window.
        let found = space::data_ranges(&self.file, 0, (windows * WINDOW_BYTES) as u64).map_err(self.fail())?;
        let page = PAGE_BYTES as u64;
        Ok(found.into_iter().map(|run| run.start.div_ceil(page) as usize..(run.end / page) as usize).collect())
    }

    /// Takes memory for pages: an error says of how many bytes there is none.
    pub(crate) fn take(&self, pages: Range<usize>) -> Result<()> {
        self.take_windows(pages.start / WINDOW_PAGES..pages.end.div_ceil(WINDOW_PAGES))?;
        if self.keeps_memory() {
            return Ok(());
        }
        for (pages, at) in self.runs(pages)? {
            let bytes = (pages.len() * PAGE_BYTES) as u64;
            space::take(&self.file, at, bytes).map_err(|failure| self.fail()(failure).needing(bytes))?;
        }
        Ok(())
    }

    /// Gives windows a place in the file, without memory but for large pages.
    pub(crate) fn take_windows(&self, windows: Range<usize>) -> Result<()> {
        let Some(Chunks { region, plane }) = &self.chunks else { return Ok(()) };
        let index = region.index()?;
        for window in windows {
            if index.chunk(*plane, window)?.is_none() {
                index.set_chunk(*plane, window, Some(region.take_chunk()?))?;
            }
        }
        Ok(())
    }

    /// Gives memory of pages back. Large pages, and those of an arena that is filled, keep theirs until their window is [released](PlaneFile::release).
    pub(crate) fn give_back(&self, pages: Range<usize>) -> Result<()> {
        if self.keeps_memory() {
            return Ok(());
        }
        for window in pages.start / WINDOW_PAGES..pages.end.div_ceil(WINDOW_PAGES) {
            if !self.has_window(window)? {
                continue;
            }
            let part = pages.start.max(window * WINDOW_PAGES)..pages.end.min((window + 1) * WINDOW_PAGES);
            for (pages, at) in self.runs(part)? {
                space::give_back(&self.file, at, (pages.len() * PAGE_BYTES) as u64).map_err(self.fail())?;
            }
        }
        Ok(())
    }

    /// Gives back the place of a window of which no page is used. Nobody may have it mapped.
    pub(crate) fn release(&self, window: usize) -> Result<()> {
        if let Some(Chunks { region, plane }) = &self.chunks
            && let Some(chunk) = region.index()?.chunk(*plane, window)?
        {
            region.index()?.set_chunk(*plane, window, None)?;
            region.give_back_chunk(chunk)?;
        }
        Ok(())
    }

    /// Gives back what lies behind the last window.
    pub(crate) fn give_back_rest(&self, windows: usize) -> Result<()> {
        let known = (windows * WINDOW_BYTES) as u64;
        let bytes = self.file.metadata().map_err(|error| Error::io("fstat", &self.path, error))?.len();
        if bytes > known {
            space::give_back(&self.file, known, bytes - known).map_err(self.fail())?;
        }
        Ok(())
    }

    /// Whether the file system may have so many bytes.
    pub(crate) fn may_take(&self, bytes: u64) -> bool {
        space::may_take(&self.file, bytes)
    }

    /// Whether it consists of large pages, of which parts cannot be mapped.
    pub(crate) fn is_hugetlb(&self) -> bool {
        let arena = self.chunks.as_ref().map(|chunks| chunks.region.arena());
        arena.is_some_and(|arena| arena.is_hugetlb() || arena.is_device())
    }

    /// Whether windows have their memory as long as they have a place.
    fn keeps_memory(&self) -> bool {
        self.chunks.as_ref().is_some_and(|chunks| chunks.region.arena().keeps_memory())
    }

    /// Whether the file is mapped as a whole.
    pub(crate) fn is_mapped(&self) -> bool {
        self.chunks.is_some()
    }

    /// The map of the whole file, to be written, and the offset of a window in it.
    pub(crate) fn mapped(&self, window: usize) -> Result<(Arc<Mapping>, usize)> {
        match &self.chunks {
            Some(chunks) => Ok((chunks.region.arena().map(), self.window_at(window)? as usize)),
            None => Ok((self.map(window..window + 1, true)?.into(), 0)),
        }
    }

    /// Maps windows one after the other, to be written if `writable`. Where one has no place in the file nothing may be touched.
    pub(crate) fn map(&self, windows: Range<usize>, writable: bool) -> Result<Mapping> {
        let mut runs = Vec::new();
        let mut window = windows.start;
        while window < windows.end {
            let begin = window;
            while window < windows.end && self.has_window(window)? {
                window += 1;
            }
            let more = self.runs(begin * WINDOW_PAGES..window * WINDOW_PAGES)?;
            list::make_room(&mut runs, more.len()).map_err(self.fail())?;
            runs.extend(more);
            while window < windows.end && !self.has_window(window)? {
                window += 1;
            }
        }
        if let [(pages, at)] = &runs[..]
            && pages.len() == windows.len() * WINDOW_PAGES
        {
            return Mapping::shared(&self.file, *at, pages.len() * PAGE_BYTES, writable).map_err(self.fail());
        }
        let map = Mapping::reserve(windows.len() * WINDOW_BYTES).map_err(self.fail())?;
        for (pages, at) in runs {
            let offset = (pages.start - windows.start * WINDOW_PAGES) * PAGE_BYTES;
            map.lay(offset, &self.file, at, pages.len() * PAGE_BYTES).map_err(self.fail())?;
        }
        Ok(map)
    }

    /// Maps windows to be written; forked children get copies.
    pub(crate) fn map_unforked(&self, windows: Range<usize>) -> Result<Mapping> {
        let runs = self.runs(windows.start * WINDOW_PAGES..windows.end * WINDOW_PAGES)?;
        let files = runs.into_iter().map(|(pages, at)| (at, pages.len() * PAGE_BYTES)).collect();
        Mapping::shared_unforked_runs(self.file.clone(), files).map_err(self.fail())
    }

    /// Offsets of windows in the file: as long as they are the same, so is what a map of them shows.
    pub(crate) fn windows_at(&self, windows: Range<usize>) -> Result<Vec<u64>> {
        let mut offsets = Vec::new();
        list::make_room(&mut offsets, windows.len()).map_err(self.fail())?;
        for window in windows {
            offsets.push(self.window_at(window)?);
        }
        Ok(offsets)
    }

    /// Maps pages privately: what is written there is a copy.
    pub(crate) fn map_private(&self, pages: Range<usize>) -> Result<Mapping> {
        let runs = self.runs(pages.clone())?;
        if let [(pages, at)] = &runs[..] {
            return Mapping::copy_on_write(&self.file, *at, pages.len() * PAGE_BYTES).map_err(self.fail());
        }
        let map = Mapping::private(pages.len() * PAGE_BYTES, false).map_err(self.fail())?;
        self.lay_private(&map, 0, pages)?;
        Ok(map)
    }

    /// Lays pages privately over part of a map.
    pub(crate) fn lay_private(&self, map: &Mapping, offset: usize, pages: Range<usize>) -> Result<()> {
        let first = pages.start;
        for (pages, at) in self.runs(pages)? {
            let offset = offset + (pages.start - first) * PAGE_BYTES;
            map.lay_copy_on_write(offset, &self.file, at, pages.len() * PAGE_BYTES).map_err(self.fail())?;
        }
        Ok(())
    }

    /// Reads bytes from a page on, through the file.
    pub(crate) fn read(&self, page: usize, out: &mut [u8]) -> std::io::Result<()> {
        let (pages, mut done) = (page..page + out.len().div_ceil(PAGE_BYTES), 0);
        for (pages, at) in self.runs(pages).map_err(std::io::Error::other)? {
            let bytes = (pages.len() * PAGE_BYTES).min(out.len() - done);
            self.file.read_exact_at(&mut out[done..done + bytes], at)?;
            done += bytes;
        }
        Ok(())
    }

    /// Reads pages of one window into a map, without page-table entries for where they lie.
    pub(crate) fn read_into(&self, map: &Mapping, offset: usize, pages: Range<usize>) -> Result<(), Failure> {
        let fail = |error: Error| Failure {
            call: "pread",
            detail: error.to_string(),
            source: std::io::Error::from_raw_os_error(libc::EIO),
        };
        let first = pages.start;
        for (pages, at) in self.runs(pages).map_err(fail)? {
            let offset = offset + (pages.start - first) * PAGE_BYTES;
            map.read_from(offset, &self.file, at, pages.len() * PAGE_BYTES)?;
        }
        Ok(())
    }
}
