//! A region of an arena, as its producer has it.

use super::index::Index;
use super::{Arena, Claimed, Found, Owned};
use crate::error::{Error, Result};
use crate::place::names;
use crate::place::stretch::Stretch;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;
use stillframe_kernel::space;
use stillframe_segment::arena::{self, chunk_of};
use stillframe_segment::{Corrupt, PAGE_BYTES, PLANES_MAX, WINDOW_BYTES, head};

/// Pages of a head and the index behind it.
const HEAD_PAGES: u32 = ((head::HEAD_BYTES + PAGE_BYTES) / PAGE_BYTES) as u32;
/// Pages that come from chunks shared with other regions; more come as chunks.
const SMALL_PAGES_MAX: u32 = 256;

impl Arena {
    /// The head of a region; `None` before it has one.
    pub(crate) fn head(&self, found: &Found) -> Result<Option<Stretch>> {
        Ok(self.index(found)?.map(|index| index.head()))
    }

    fn index(&self, found: &Found) -> Result<Option<Index>> {
        found.head_at.map(|head_at| Index::new(self, head_at)).transpose()
    }

    /// Bytes of the chunks that each plane of a region has; none if it was removed.
    pub(crate) fn plane_bytes(&self, found: &Found) -> Result<Vec<u64>> {
        // What is given back meanwhile has no memory that could be read.
        let Some(_attached) = self.leases("", found).attach()? else { return Ok(Vec::new()) };
        let Some(index) = self.index(found)? else { return Ok(Vec::new()) };
        let mut planes = Vec::new();
        for plane in 0..PLANES_MAX {
            let mut bytes = 0;
            for window in 0..index.capacity(plane)?.0 {
                bytes += index.chunk(plane, window)?.map_or(0, |_| WINDOW_BYTES as u64);
            }
            planes.push(bytes);
        }
        let used = planes.iter().rposition(|bytes| *bytes > 0).map_or(0, |last| last + 1);
        planes.truncate(used);
        Ok(planes)
    }
}

/// A region of an arena that is produced here.
#[derive(Debug)]
pub(crate) struct ArenaRegion {
    arena: Arena,
    claimed: Claimed,
    /// For messages.
    path: PathBuf,
    index: Mutex<Option<Index>>,
}

impl ArenaRegion {
    /// Becomes the producer of a region, as [`Arena::claim`].
    pub(crate) fn claim(arena: &Arena, name: &str, patience: Duration) -> Result<ArenaRegion> {
        // What is hidden is looked at when it is shown.
        if names::shown_name(name) == name && arena.find(name)?.is_none() {
            arena.check_below(name)?;
        }
        let claimed = arena.claim(name, patience)?;
        let path = arena.path().join(claimed.name());
        let found = arena.find(claimed.name())?;
        let index = found.and_then(|found| found.head_at).map(|head_at| Index::new(arena, head_at)).transpose()?;
        let region = ArenaRegion { arena: arena.clone(), claimed, path, index: index.into() };
        if region.has_head() {
            let head = region.index()?.head_pages(HEAD_PAGES);
            region.check_pages(&region.claimed.owned()?, std::iter::once(head))?;
        }
        Ok(region)
    }

    /// Refuses pages that are not the region's, or are named twice: who writes there would write to another region.
    fn check_pages(&self, owned: &Owned, named: impl Iterator<Item = Range<u32>>) -> Result<()> {
        let mut seen = BTreeSet::new();
        for page in named.flatten() {
            let is_own = owned.pages.iter().any(|run| run.contains(&page))
                || owned.chunks.iter().any(|run| run.contains(&chunk_of(page)));
            if !is_own || !seen.insert(page) {
                let at = page as usize * PAGE_BYTES;
                let expected = "a page of the region's own, named once";
                return Err(self.corrupt(Corrupt::new(arena::FILE, at, expected, format!("page {page}"))));
            }
        }
        Ok(())
    }

    /// Refuses an index that names pages or chunks which are not the region's, or one of them twice.
    pub(crate) fn check_index(&self) -> Result<()> {
        let index = self.index()?;
        let pages = index.extents()?.into_iter().chain(index.maps()?).chain([index.head_pages(HEAD_PAGES)]);
        let owned = self.claimed.owned()?;
        self.check_pages(&owned, pages)?;
        let mut seen = BTreeSet::new();
        for plane in 0..PLANES_MAX {
            for window in 0..index.capacity(plane)?.0 {
                let Some(chunk) = index.chunk(plane, window)? else { continue };
                if !owned.chunks.iter().any(|run| run.contains(&chunk)) || !seen.insert(chunk) {
                    let at = chunk as usize * WINDOW_BYTES;
                    let found = format!("chunk {chunk} as window {window} of plane {plane}");
                    let expected = "a chunk of the region's own, named once";
                    return Err(self.corrupt(Corrupt::new(arena::FILE, at, expected, found)));
                }
            }
        }
        Ok(())
    }

    fn corrupt(&self, corrupt: Corrupt) -> Error {
        Error::Corrupt { dir: self.path.clone(), corrupt }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    pub(crate) fn claimed(&self) -> &Claimed {
        &self.claimed
    }

    /// The region's index; an error before it has a head.
    pub(crate) fn index(&self) -> Result<Index> {
        let known = self.index.lock().unwrap_or_else(|poison| poison.into_inner());
        known.clone().ok_or_else(|| Error::NoRegion { region: self.claimed.name().into(), dir: self.path.clone() })
    }

    /// Whether it has a head.
    pub(crate) fn has_head(&self) -> bool {
        self.index.lock().unwrap_or_else(|poison| poison.into_inner()).is_some()
    }

    /// Gives the region a head with these bytes, and an empty index. All that an unfinished creation took is given back.
    pub(crate) fn make_head(&self, bytes: &[u8]) -> Result<()> {
        let head_at = match self.has_head() {
            true => None,
            false => {
                self.give_back_rest(&[])?;
                Some(self.take_pages(HEAD_PAGES)?)
            }
        };
        if let Some(pages) = &head_at {
            let index = Index::new(&self.arena, u64::from(pages.start) * PAGE_BYTES as u64)?;
            *self.index.lock().unwrap_or_else(|poison| poison.into_inner()) = Some(index);
        }
        let head = self.index()?.head();
        head.write(head::HEAD_BYTES, &[0; PAGE_BYTES]);
        head.write(0, bytes);
        fence(Ordering::Release);
        match head_at {
            Some(pages) => self.claimed.set_head(pages.start),
            None => self.give_back_rest(&[]),
        }
    }

    /// Number of planes that have a window, or had one.
    pub(crate) fn planes_there(&self) -> Result<usize> {
        if !self.has_head() {
            return Ok(0);
        }
        let index = self.index()?;
        for plane in (0..PLANES_MAX).rev() {
            let (capacity, own) = index.capacity(plane)?;
            for window in 0..capacity {
                if own.is_some() || index.chunk(plane, window)?.is_some() {
                    return Ok(plane + 1);
                }
            }
        }
        Ok(0)
    }

    /// Takes neighbouring pages, with memory.
    pub(crate) fn take_pages(&self, count: u32) -> Result<Range<u32>> {
        let pages = match count {
            ..=SMALL_PAGES_MAX => self.claimed.take_pages(count)?,
            _ => {
                let per_chunk = (WINDOW_BYTES / PAGE_BYTES) as u32;
                let runs = self.claimed.take_chunks(count.div_ceil(per_chunk))?;
                if let [run] = &runs[..] {
                    run.start * per_chunk..run.end * per_chunk
                } else {
                    runs.into_iter().try_for_each(|run| self.claimed.give_back_chunks(run))?;
                    let needed_bytes = u64::from(count) * PAGE_BYTES as u64;
                    return Err(Error::no_space(&self.path, needed_bytes));
                }
            }
        };
        let (at, bytes) = (u64::from(pages.start) * PAGE_BYTES as u64, pages.len() as u64 * PAGE_BYTES as u64);
        if !self.arena.keeps_memory()
            && let Err(failure) = space::take(self.arena.file(), at, bytes)
        {
            let _ = self.give_back_taken(pages);
            return Err(Error::system(&self.path, failure).needing(bytes));
        }
        Ok(pages)
    }

    /// Gives back what was taken as [neighbouring pages](ArenaRegion::take_pages), all of it.
    pub(crate) fn give_back_taken(&self, pages: Range<u32>) -> Result<()> {
        match pages.len() as u32 {
            ..=SMALL_PAGES_MAX => self.claimed.give_back_pages(pages),
            // Whole chunks, whose pages have no owners of their own.
            _ => self.claimed.give_back_chunks(chunk_of(pages.start)..chunk_of(pages.end)),
        }
    }

    /// Takes a chunk for a window, which has no memory yet.
    pub(crate) fn take_chunk(&self) -> Result<u32> {
        let runs = self.claimed.take_chunks(1)?;
        runs.first().map(|run| run.start).ok_or_else(|| Error::no_space(&self.path, WINDOW_BYTES as u64))
    }

    /// Gives a chunk back, and its memory.
    pub(crate) fn give_back_chunk(&self, chunk: u32) -> Result<()> {
        self.claimed.give_back_chunks(chunk..chunk + 1)
    }

    /// Gives back all but the head, the tables, and these chunks and maps, which a producer that died had taken and not noted.
    pub(crate) fn give_back_rest(&self, chunks: &[u32]) -> Result<()> {
        let owned = self.claimed.owned()?;
        let mut kept: Vec<Range<u32>> = Vec::new();
        if self.has_head() {
            let index = self.index()?;
            kept = index.extents()?;
            kept.extend(index.maps()?);
            kept.push(index.head_pages(HEAD_PAGES));
        }
        let per_chunk = (WINDOW_BYTES / PAGE_BYTES) as u32;
        let is_kept = |page: u32| kept.iter().any(|pages| pages.contains(&page));
        for run in owned.pages {
            for page in run.filter(|page| !is_kept(*page)) {
                self.claimed.give_back_pages(page..page + 1)?;
            }
        }
        for run in owned.chunks {
            for chunk in run.filter(|chunk| !chunks.contains(chunk) && !is_kept(chunk * per_chunk)) {
                self.claimed.give_back_chunks(chunk..chunk + 1)?;
            }
        }
        Ok(())
    }
}
