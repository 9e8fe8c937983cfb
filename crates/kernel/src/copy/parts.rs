//! Copying pages whose bytes lie in several places, at the speed of pages that lie together.
//!
//! # Safety
//!
//! The invariant is the crate's: addresses come from callers, who vouch for them. What is kept here besides is that the parts of a
//! page follow each other without a gap, and reach its end.

use super::STEP;
use crate::PAGE_BYTES;

/// Most pages of a list.
pub const PAGES_MAX: usize = 256;

/// Most parts of a list: four for each page.
const PARTS_MAX: usize = 4 * PAGES_MAX;

/// Some of a page's bytes, which lie together in memory.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// Where in the page the next part begins.
    end: usize,
    /// Address at which the page's first byte would lie, if what is before this part lay before it in memory, too.
    origin: usize,
}

impl Part {
    const NONE: Part = Part { end: 0, origin: 0 };
}

/// Pages to write, each of which is put together from parts.
#[derive(Debug)]
pub struct PartedPages {
    /// Addresses of the pages to write.
    targets: [usize; PAGES_MAX],
    /// How many parts there are up to the end of each page.
    ends: [u16; PAGES_MAX],
    count: usize,
    parts: [Part; PARTS_MAX],
    parts_count: usize,
}

impl Default for PartedPages {
    fn default() -> PartedPages {
        let (targets, ends, parts) = ([0; PAGES_MAX], [0; PAGES_MAX], [Part::NONE; PARTS_MAX]);
        PartedPages { targets, ends, count: 0, parts, parts_count: 0 }
    }
}

impl PartedPages {
    /// Number of pages.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        (self.count, self.parts_count) = (0, 0);
    }

    /// Adds the page that is to be written to `to`, and says whether it did: not if there is no room for it, if the parts do not
    /// make a whole page, or if there are more of them than `most`. Parts are asked for by the offset in the page at which they
    /// begin, and are told as the address of their first byte and how many bytes follow each other there.
    pub fn push(&mut self, to: usize, most: usize, part_at: impl Fn(usize) -> Option<(usize, usize)>) -> bool {
        let (mut at, mut count) = (0, self.parts_count);
        let last = PARTS_MAX.min(count.saturating_add(most));
        while at < PAGE_BYTES {
            let found = part_at(at).filter(|(_, bytes)| *bytes > 0 && count < last);
            let Some((from, bytes)) = found else { return false };
            let end = at.saturating_add(bytes).min(PAGE_BYTES);
            self.parts[count] = Part { end, origin: from.wrapping_sub(at) };
            (at, count) = (end, count + 1);
        }
        if self.count == PAGES_MAX {
            return false;
        }
        (self.targets[self.count], self.ends[self.count]) = (to, count as u16);
        (self.count, self.parts_count) = (self.count + 1, count);
        true
    }

    /// The target and the parts of a page; of one behind the last there are none.
    fn page(&self, index: usize) -> Option<(usize, &[Part])> {
        let ends = &self.ends[..self.count];
        let end = *ends.get(index)? as usize;
        let start = index.checked_sub(1).map_or(0, |before| ends[before] as usize);
        Some((self.targets[index], &self.parts[start..end]))
    }
}

/// Goes through the parts of a page.
#[derive(Clone, Copy)]
struct Walk<'a> {
    to: usize,
    part: Part,
    rest: &'a [Part],
}

impl Walk<'_> {
    const NONE: Walk<'static> = Walk { to: 0, part: Part { end: PAGE_BYTES, origin: 0 }, rest: &[] };

    fn of(pages: &PartedPages, index: usize) -> Walk<'_> {
        match pages.page(index) {
            Some((to, [part, rest @ ..])) => Walk { to, part: *part, rest },
            _ => Walk::NONE,
        }
    }

    /// Goes on until the part that has the byte at `offset` of the page.
    fn go_to(&mut self, offset: usize) {
        while self.part.end <= offset
            && let [next, rest @ ..] = self.rest
        {
            (self.part, self.rest) = (*next, rest);
        }
    }

    /// Copies the bytes from `offset` on to where they end together, over the border of parts.
    ///
    /// # Safety
    /// All bytes of the parts can be read.
    unsafe fn collect(&mut self, offset: usize, together: &mut [u8]) {
        let mut done = 0;
        while done < together.len() {
            self.go_to(offset + done);
            let bytes = (self.part.end.saturating_sub(offset + done)).clamp(1, together.len() - done);
            let from = self.part.origin.wrapping_add(offset + done) as *const u8;
            // SAFETY: these bytes are the part's, as the caller vouches; there is room for them.
            unsafe { std::ptr::copy_nonoverlapping(from, together.as_mut_ptr().add(done), bytes) };
            done += bytes;
        }
    }
}

pub(super) type PartsLoop = unsafe fn(&PartedPages, &PartedPages);

/// Bytes that were put together over the border of parts.
#[repr(C, align(64))]
struct Together([u8; STEP]);

#[cfg(target_arch = "x86_64")]
macro_rules! streaming_parts {
    ($name:ident, $feature:literal, $vector:ty, $load:ident, $store:ident) => {
        /// # Safety
        /// All parts of `pages` are valid for reading and all targets for writing, which are pages that are written by nobody else;
        /// and the processor has the instructions.
        #[target_feature(enable = $feature)]
        pub(super) unsafe fn $name(pages: &PartedPages, ahead: &PartedPages) {
            use std::arch::x86_64::*;
            const LANES: usize = super::LANES;
            for first in (0..pages.count).step_by(LANES) {
                let mut group: [Walk; LANES] = std::array::from_fn(|lane| Walk::of(pages, first + lane));
                let here = LANES.min(pages.count - first);
                let (pages, first) = if here < pages.count - first { (pages, first + LANES) } else { (ahead, 0) };
                let mut next: [Walk; LANES] = std::array::from_fn(|lane| Walk::of(pages, first + lane));
                let coming = here.min(pages.count - first);
                for offset in (0..PAGE_BYTES).step_by(STEP) {
                    for page in &mut next[..coming] {
                        page.go_to(offset);
                        let from = page.part.origin.wrapping_add(offset);
                        _mm_prefetch::<_MM_HINT_T0>(from as *const i8);
                        _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(64) as *const i8);
                    }
                    for page in &mut group[..here] {
                        page.go_to(offset);
                        let mut together = Together([0; STEP]);
                        let mut from = page.part.origin.wrapping_add(offset);
                        if page.part.end < offset + STEP {
                            // SAFETY: the parts can be read, as the caller vouches.
                            unsafe { page.collect(offset, &mut together.0) };
                            from = together.0.as_ptr() as usize;
                        }
                        // SAFETY: both are valid by the caller's word, or what was put together; the target is a page, so that its
                        // vectors are aligned.
                        unsafe { stream_step!($vector, $load, $store, from, page.to + offset) };
                    }
                }
            }
            // As for pages that lie together: visible before the commit that follows.
            _mm_sfence();
        }
    };
}
#[cfg(target_arch = "x86_64")]
streaming_parts!(parts_avx512, "avx512f", __m512i, _mm512_loadu_si512, _mm512_stream_si512);
#[cfg(target_arch = "x86_64")]
streaming_parts!(parts_avx, "avx", __m256i, _mm256_loadu_si256, _mm256_stream_si256);
#[cfg(target_arch = "x86_64")]
streaming_parts!(parts_sse2, "sse2", __m128i, _mm_loadu_si128, _mm_stream_si128);

/// Copies through the cache.
///
/// # Safety
/// All parts of `pages` are valid for reading and all targets for writing, which are written by nobody else.
#[cfg(any(test, not(target_arch = "x86_64")))]
pub(super) unsafe fn parts_cached(pages: &PartedPages, _: &PartedPages) {
    for index in 0..pages.count {
        let mut page = Walk::of(pages, index);
        for offset in (0..PAGE_BYTES).step_by(STEP) {
            let mut together = Together([0; STEP]);
            // SAFETY: both are valid by the caller's word.
            unsafe {
                page.collect(offset, &mut together.0);
                std::ptr::copy_nonoverlapping(together.0.as_ptr(), (page.to + offset) as *mut u8, STEP);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Mapping;

    /// Pages of parts of many lengths, against bytes that were put together one by one.
    #[test]
    fn pages_are_put_together_from_their_parts() {
        const PAGES: usize = 19;
        let from = Mapping::private(64 * PAGE_BYTES, false).unwrap();
        let bytes: Vec<u8> = (0..from.bytes()).map(|at| (at * 7 + at / 251) as u8).collect();
        from.write(0, &bytes);
        let mut loops: Vec<PartsLoop> = vec![parts_cached, super::super::choose_loops().parts];
        #[cfg(target_arch = "x86_64")]
        loops.push(parts_sse2);
        for (run, part_bytes) in loops.iter().flat_map(|run| [1, 8, 120, 128, 136, 1000, 4096, 5000].map(|n| (*run, n)))
        {
            let to = Mapping::private(PAGES * PAGE_BYTES, false).unwrap();
            let mut pages = PartedPages::default();
            // Parts lie three of their lengths apart, the first of a page begins in the middle.
            let place = |page: usize, at: usize| {
                let (number, within) = ((at + part_bytes / 2) / part_bytes, (at + part_bytes / 2) % part_bytes);
                ((page * 8 + number * part_bytes * 3) % (48 * PAGE_BYTES) + within, part_bytes - within)
            };
            let part_at = |page: usize, at| Some(place(page, at)).map(|(place, bytes)| (from.address() + place, bytes));
            let most = if part_bytes < 1000 { usize::MAX } else { 8 };
            let added = (0..PAGES)
                .take_while(|page| pages.push(to.address() + page * PAGE_BYTES, most, |at| part_at(*page, at)))
                .count();
            let parts = (PAGE_BYTES - 1 + part_bytes / 2) / part_bytes + 1;
            assert_eq!((added, pages.count()), (PAGES.min(PARTS_MAX / parts), added), "{part_bytes}");
            // SAFETY: all parts and targets lie in the two mappings.
            unsafe { run(&pages, &pages) };
            let mut found = vec![0; PAGE_BYTES];
            for page in 0..PAGES {
                to.read(page * PAGE_BYTES, &mut found);
                let expected: Vec<u8> = match page < added {
                    true => (0..PAGE_BYTES).map(|at| bytes[place(page, at).0]).collect(),
                    false => vec![0; PAGE_BYTES],
                };
                assert!(found == expected, "page {page} of parts of {part_bytes} bytes");
            }
        }
    }

    #[test]
    fn a_page_that_is_not_whole_is_not_added() {
        let mut pages = PartedPages::default();
        assert!(!pages.push(PAGE_BYTES, 8, |_| None));
        assert!(!pages.push(PAGE_BYTES, 8, |at| (at < 4000).then_some((PAGE_BYTES + at, 1000))));
        assert!(!pages.push(PAGE_BYTES, 8, |at| Some((PAGE_BYTES + at, 0))));
        assert!(!pages.push(PAGE_BYTES, 4, |at| Some((PAGE_BYTES + at, 1000))));
        assert_eq!(pages.count(), 0);
        assert!(pages.push(PAGE_BYTES, 5, |at| Some((PAGE_BYTES + at, 1000))));
        pages.clear();
        for page in 0..PAGES_MAX {
            assert!(pages.push(page * PAGE_BYTES, 1, |_| Some((PAGE_BYTES, usize::MAX))));
        }
        assert!(!pages.push(0, 1, |_| Some((PAGE_BYTES, PAGE_BYTES))));
    }
}
