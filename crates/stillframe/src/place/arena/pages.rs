//! Pages of small chunks: each has an owner word of its own.
//!
//! A page's word means something only while its chunk's word says *small*. Who takes pages takes their words first and then
//! looks whether the chunk is small and the words still his. A small chunk in which nobody owns anything is closed by
//! somebody who takes all its pages, as any pages are taken, and then the chunk. Who makes a chunk small owns it first, and
//! sets all words of its pages before he says so: what a process that died between two steps left there is gone by then.

use super::chunks::{Search, at};
use super::{Shared, exclusively};
use crate::error::{Error, Result};
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use stillframe_kernel::{PAGE_BYTES, points, space};
use stillframe_segment::arena::{CHUNK_BYTES, CHUNK_PAGES, FREE, SMALL, chunk_of, pages_of, word_of};

impl Shared {
    fn page_owner(&self, page: u32) -> u32 {
        self.map.word32(self.geometry.page_owner_at(page)).load(Acquire)
    }

    fn swap_page(&self, page: u32, from: u32, to: u32) -> bool {
        self.map.word32(self.geometry.page_owner_at(page)).compare_exchange(from, to, SeqCst, SeqCst).is_ok()
    }

    /// The owner words of a small chunk's pages, as they were about now.
    pub(super) fn page_owners(&self, chunk: u32) -> [u32; CHUNK_PAGES] {
        let mut bytes = [0; 4 * CHUNK_PAGES];
        self.map.read(self.geometry.page_owner_at(pages_of(chunk).start), &mut bytes);
        let mut words = bytes.chunks_exact(4);
        std::array::from_fn(|_| words.next().map_or(0, |word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])))
    }

    /// Pages of a small chunk that a region owns.
    pub(super) fn owned_pages(&self, region: u32, chunk: u32) -> impl Iterator<Item = u32> {
        let owners = self.page_owners(chunk);
        pages_of(chunk).zip(owners).filter(move |(_, owner)| *owner == word_of(region)).map(|(page, _)| page)
    }

    /// Takes a run of pages for a region, first in the chunk `near`, which it used last.
    pub(super) fn take_pages(&self, region: u32, count: u32, near: u32) -> Result<Range<u32>> {
        if count == 0 || count as usize > CHUNK_PAGES {
            let why = format!("{count} is not between 1 and {CHUNK_PAGES}");
            return Err(Error::BadOption { option: "pages", why });
        }
        points::hit("arena.take.begin");
        for is_last in [false, true] {
            let taken = exclusively(&self.search, |search| self.find_pages(region, count, near, search))?;
            match taken {
                Some(pages) => return Ok(pages),
                None if is_last || self.sweep_for_room()? == 0 => break,
                None => {}
            }
        }
        Err(self.full(u64::from(count) * PAGE_BYTES as u64))
    }

    fn find_pages(&self, region: u32, count: u32, near: u32, search: &mut Search) -> Result<Option<Range<u32>>> {
        let all = self.geometry.free_chunks();
        if all.contains(&near)
            && let Some(pages) = self.take_pages_in(region, near, count)?
        {
            return Ok(Some(pages));
        }
        for chunk in search.roomy.clone() {
            if let Some(pages) = self.take_pages_in(region, chunk, count)? {
                return Ok(Some(pages));
            }
            // Few pages may fit where many do not.
            if count == 1 {
                search.roomy.retain(|roomy| *roomy != chunk);
            }
        }
        while search.small < all.end {
            let chunk = search.small;
            search.small += 1;
            if let Some(pages) = self.take_pages_in(region, chunk, count)? {
                search.note_room(chunk);
                return Ok(Some(pages));
            }
        }
        if let Some(pages) = self.open_small(region, count, search)? {
            return Ok(Some(pages));
        }
        // Others may have given pages back anywhere.
        for chunk in all {
            if let Some(pages) = self.take_pages_in(region, chunk, count)? {
                search.note_room(chunk);
                return Ok(Some(pages));
            }
        }
        Ok(None)
    }

    /// Takes a run of pages in a chunk, if it is small and has one.
    fn take_pages_in(&self, region: u32, chunk: u32, count: u32) -> Result<Option<Range<u32>>> {
        if self.chunk_owner(chunk) != SMALL {
            return Ok(None);
        }
        let (first, owners) = (pages_of(chunk).start, self.page_owners(chunk));
        let mut length = 0;
        for (page, owner) in (first..).zip(owners) {
            length = if owner == FREE { length + 1 } else { 0 };
            if length == count {
                let run = page + 1 - count..page + 1;
                if self.take_these_pages(region, chunk, run.clone())? {
                    return Ok(Some(run));
                }
                length = 0;
            }
        }
        Ok(None)
    }

    /// Takes all of these pages of a chunk that was small; or none, because they are somebody else's, or it is small no more.
    pub(super) fn take_these_pages(&self, region: u32, chunk: u32, run: Range<u32>) -> Result<bool> {
        self.widen_span(region, chunk..chunk + 1)?;
        let own = word_of(region);
        let taken = run.clone().take_while(|page| self.swap_page(*page, FREE, own)).count() as u32;
        points::hit("arena.take.pages");
        // Between the look at the chunk and now it may have been closed, and made small again.
        let is_ours = taken == run.len() as u32
            && self.chunk_owner(chunk) == SMALL
            && run.clone().all(|page| self.page_owner(page) == own);
        if !is_ours {
            for page in run.start..run.start + taken {
                self.swap_page(page, own, FREE);
            }
        }
        Ok(is_ours)
    }

    /// Makes a free chunk small, with its first pages for the region.
    fn open_small(&self, region: u32, count: u32, search: &mut Search) -> Result<Option<Range<u32>>> {
        let Some(chunk) = self.take_single(region, search)? else { return Ok(None) };
        let pages = pages_of(chunk);
        let words_at = self.geometry.page_owner_at(pages.start);
        // A store into a page that has no memory would end the process where there is none.
        if let Err(failure) = space::take(&self.file, words_at as u64, 4 * CHUNK_PAGES as u64) {
            self.give_back_chunk_in(region, chunk, search)?;
            return Err(self.system(failure).needing(PAGE_BYTES as u64));
        }
        let taken = pages.start..pages.start + count;
        for page in pages {
            let owner = if taken.contains(&page) { word_of(region) } else { FREE };
            self.map.word32(self.geometry.page_owner_at(page)).store(owner, Release);
        }
        points::hit("arena.take.opening");
        self.map.word32(self.geometry.chunk_owner_at(chunk)).store(SMALL, SeqCst);
        points::hit("arena.take.opened");
        search.note_room(chunk);
        Ok(Some(taken))
    }

    /// Gives pages of a region back.
    pub(super) fn give_back_pages(&self, region: u32, pages: Range<u32>) -> Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        for page in pages.clone() {
            let chunk = chunk_of(page);
            self.check_chunk(chunk)?;
            let owner = self.chunk_owner(chunk);
            if owner != SMALL {
                return Err(self.not_expected(self.geometry.chunk_owner_at(chunk), SMALL, owner));
            }
            let found = self.page_owner(page);
            if found != word_of(region) {
                let expected = format!("{}, of region {region}", word_of(region));
                return Err(self.not_expected(self.geometry.page_owner_at(page), expected, found));
            }
        }
        // Before somebody else has them.
        self.clear(u64::from(pages.start) * PAGE_BYTES as u64, pages.len() * PAGE_BYTES)?;
        points::hit("arena.give.cleared");
        for page in pages.clone() {
            self.map.word32(self.geometry.page_owner_at(page)).store(FREE, Release);
        }
        let chunks = chunk_of(pages.start)..chunk_of(pages.end - 1) + 1;
        exclusively(&self.search, |search| chunks.for_each(|chunk| search.note_room(chunk)));
        Ok(())
    }

    /// Makes small chunks free in which nobody owns a page, in the name of a region. Returns how many.
    pub(super) fn close_empty(&self, region: u32, search: &mut Search) -> Result<u32> {
        let mut closed = 0;
        for chunk in self.geometry.free_chunks() {
            if self.chunk_owner(chunk) == SMALL && self.page_owners(chunk).iter().all(|owner| *owner == FREE) {
                closed += u32::from(self.close(region, chunk, search)?);
            }
        }
        Ok(closed)
    }

    fn close(&self, region: u32, chunk: u32, search: &mut Search) -> Result<bool> {
        let span = self.widen_span(region, chunk..chunk + 1)?;
        let is_all_ours = self.take_these_pages(region, chunk, pages_of(chunk))?;
        points::hit("arena.close.pages");
        // From here on nobody takes a page of it.
        let is_closed = is_all_ours && self.swap_chunk(chunk, SMALL, word_of(region));
        if is_closed {
            points::hit("arena.close.chunk");
            self.give_back_chunk_in(region, chunk, search)?;
        }
        self.set_span(region, &span);
        Ok(is_closed)
    }

    /// As `give_back_chunk`, by who has the search already.
    fn give_back_chunk_in(&self, region: u32, chunk: u32, search: &mut Search) -> Result<()> {
        self.clear(at(chunk), CHUNK_BYTES)?;
        self.swap_chunk(chunk, word_of(region), FREE);
        search.note_free(chunk);
        Ok(())
    }
}
