//! Copying pages at memory speed.
//!
//! libc uses stores that bypass the cache only for large copies, so copying a region in pieces with it costs half as
//! much again. The loops here bypass the cache and interleave eight pages, because several streams keep the memory's banks
//! busier than one: measured, they copy scattered pages at the speed of one whole `memcpy`. Only a few pages go through the
//! cache: what bypasses it has to reach memory before anybody may be told of it, and whoever looks would fetch it from there.

/// Copies `STEP` bytes past the cache, by vectors of which the processor has the instructions.
///
/// The bytes at `$from` are valid for reading and those at `$to` for writing, which is aligned to the vectors.
#[cfg(target_arch = "x86_64")]
macro_rules! stream_step {
    ($vector:ty, $load:ident, $store:ident, $from:expr, $to:expr) => {{
        const VECTORS: usize = $crate::copy::STEP / std::mem::size_of::<$vector>();
        let (from, to) = ($from as *const $vector, $to as *mut $vector);
        let mut vectors: [$vector; VECTORS] = std::mem::zeroed();
        for (lane, vector) in vectors.iter_mut().enumerate() {
            *vector = $load(from.add(lane));
        }
        for (lane, vector) in vectors.iter().enumerate() {
            $store(to.add(lane), *vector);
        }
    }};
}

mod parts;
mod pieces;

pub use parts::{PAGES_MAX, PartedPages};

use crate::PAGE_BYTES;
use crate::points;
use crate::workers::Workers;
use std::sync::Arc;

/// A page's bytes to copy: from any address to that of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageCopy {
    /// Address of the first byte to read.
    pub from: usize,
    /// Address of the page to write.
    pub to: usize,
}

/// Bytes to copy from one address to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Address of the first byte to read.
    pub from: usize,
    /// Address of the first byte to write.
    pub to: usize,
    /// Number of bytes.
    pub bytes: usize,
}

type CopyLoop = unsafe fn(&[PageCopy]);

/// The loops that suit this processor.
#[derive(Debug, Clone, Copy)]
struct Loops {
    pages: CopyLoop,
    parts: parts::PartsLoop,
    pieces: pieces::PiecesLoop,
}

fn choose_loops() -> Loops {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return Loops { pages: copy_avx512, parts: parts::parts_avx512, pieces: pieces::pieces_avx512 };
        }
        if std::arch::is_x86_feature_detected!("avx") {
            return Loops { pages: copy_avx, parts: parts::parts_avx, pieces: pieces::pieces_avx };
        }
        Loops { pages: copy_sse2, parts: parts::parts_sse2, pieces: pieces::pieces_sse2 }
    }
    #[cfg(not(target_arch = "x86_64"))]
    Loops { pages: copy_cached, parts: parts::parts_cached, pieces: pieces::pieces_cached }
}

/// Bytes that a processor fetches at once.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

/// Asks the processor to bring these bytes into its cache, and does not wait. It is a hint, and may do nothing.
pub fn prefetch(bytes: &[u8]) {
    prefetch_at(bytes.as_ptr() as usize, bytes.len());
}

/// As [`prefetch`], at an address where there may be nothing.
pub fn prefetch_at(address: usize, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..bytes).step_by(LINE_BYTES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction is part of every x86-64, and has no effect that a program could see, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(at) as *const i8) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, bytes);
}

/// Pages interleaved by one loop.
#[cfg(target_arch = "x86_64")]
const LANES: usize = 8;

/// Bytes that are copied of a page before it is the next one's turn.
const STEP: usize = 128;

#[cfg(target_arch = "x86_64")]
macro_rules! streaming_loop {
    ($name:ident, $feature:literal, $vector:ty, $load:ident, $store:ident) => {
        /// # Safety
        /// All sources are valid for reading and all targets for writing, which are pages that are written by nobody else; and the
        /// processor has the instructions.
        #[target_feature(enable = $feature)]
        unsafe fn $name(pages: &[PageCopy]) {
            use std::arch::x86_64::*;
            for (index, group) in pages.chunks(LANES).enumerate() {
                let next = pages.get((index + 1) * LANES..).unwrap_or(&[]);
                let next = &next[..next.len().min(group.len())];
                for offset in (0..PAGE_BYTES).step_by(STEP) {
                    for page in next {
                        _mm_prefetch::<_MM_HINT_T0>((page.from + offset) as *const i8);
                        _mm_prefetch::<_MM_HINT_T0>((page.from + offset + 64) as *const i8);
                    }
                    for page in group {
                        // SAFETY: both are valid by the caller's word, and the target is a page, so that its vectors are aligned.
                        unsafe { stream_step!($vector, $load, $store, page.from + offset, page.to + offset) };
                    }
                }
            }
            // Streaming stores are weakly ordered: the fence makes them visible before the commit that follows.
            _mm_sfence();
        }
    };
}
#[cfg(target_arch = "x86_64")]
streaming_loop!(copy_avx512, "avx512f", __m512i, _mm512_loadu_si512, _mm512_stream_si512);
#[cfg(target_arch = "x86_64")]
streaming_loop!(copy_avx, "avx", __m256i, _mm256_loadu_si256, _mm256_stream_si256);
#[cfg(target_arch = "x86_64")]
streaming_loop!(copy_sse2, "sse2", __m128i, _mm_loadu_si128, _mm_stream_si128);

/// Copies through the cache, as other processors than x86-64 always do.
///
/// # Safety
/// All pages are valid for reading and writing, and the targets are written by nobody else.
unsafe fn copy_cached(pages: &[PageCopy]) {
    for page in pages {
        // SAFETY: both pages are valid by the caller's word, and a working page is never a plane's page.
        unsafe { std::ptr::copy_nonoverlapping(page.from as *const u8, page.to as *mut u8, PAGE_BYTES) };
    }
}

/// Pages that one thread takes at a time.
const BLOCK_PAGES: usize = 256;

/// Pages up to which the cache is not bypassed. Sixteen that are in the caches are copied in two thirds of the time; where the
/// caches hold nothing of them, either way takes the same.
const CACHED_PAGES_MAX: usize = 16;

/// Pages for each thread below which waking another one costs more than it saves.
const THREAD_PAGES_MIN: usize = 1024;

/// Copies pages, with threads that it keeps between publishes.
#[derive(Debug)]
pub struct Copier {
    loops: Loops,
    workers: Arc<Workers>,
}

impl Copier {
    /// A copier that uses up to `threads` threads, the calling one included.
    pub fn new(threads: usize) -> Copier {
        Copier::with_loops(threads, choose_loops())
    }

    fn with_loops(threads: usize, loops: Loops) -> Copier {
        Copier { loops, workers: Arc::new(Workers::new(threads)) }
    }

    /// Number of threads in use, the calling one included.
    pub fn threads(&self) -> usize {
        self.workers.count()
    }

    /// The threads in use, for other work.
    pub fn workers(&self) -> &Arc<Workers> {
        &self.workers
    }

    /// Copies the pages; on return all of them are visible to other processes that see a later atomic store.
    ///
    /// # Safety
    /// As many bytes as a page has are readable at each `from`, and each `to` is a writable page; nobody writes any of them
    /// meanwhile; no page is a target twice.
    pub unsafe fn copy_pages(&self, pages: &[PageCopy]) {
        if let Some(done) = points::torn(pages.len()) {
            let pages: Vec<PageCopy> = done.into_iter().map(|page| pages[page]).collect();
            // SAFETY: the caller vouches for the pages.
            unsafe { (self.loops.pages)(&pages) };
            points::die();
        }
        if pages.len() <= CACHED_PAGES_MAX {
            // SAFETY: the caller vouches for the pages.
            return unsafe { copy_cached(pages) };
        }
        let threads = self.threads().min(pages.len() / THREAD_PAGES_MIN);
        if threads <= 1 {
            // SAFETY: the caller vouches for the pages.
            return unsafe { (self.loops.pages)(pages) };
        }
        self.workers.parallel_for(pages.len().div_ceil(BLOCK_PAGES), threads, &|block| {
            let first = block * BLOCK_PAGES;
            // SAFETY: the caller vouches for the pages.
            unsafe { (self.loops.pages)(&pages[first..pages.len().min(first + BLOCK_PAGES)]) };
        });
    }

    /// Copies pieces of a few pages each; on return all of them are visible to other processes that see a later atomic store.
    ///
    /// # Safety
    /// All pieces are readable, and writable where they go; nobody writes any of them meanwhile; no byte is written twice.
    pub unsafe fn copy_pieces(&self, all: &[Piece]) {
        if all.is_empty() {
            return;
        }
        if let Some(done) = points::torn(all.len()) {
            let done: Vec<Piece> = done.into_iter().map(|piece| all[piece]).collect();
            // SAFETY: the caller vouches for the pieces.
            unsafe { (self.loops.pieces)(&done) };
            points::die();
        }
        let pages = all.iter().map(|piece| piece.bytes).sum::<usize>() / PAGE_BYTES;
        if pages <= CACHED_PAGES_MAX {
            // SAFETY: the caller vouches for the pieces.
            return unsafe { pieces::pieces_cached(all) };
        }
        let threads = self.threads().min(pages / THREAD_PAGES_MIN);
        if threads <= 1 {
            // SAFETY: the caller vouches for the pieces.
            return unsafe { (self.loops.pieces)(all) };
        }
        let block = (all.len() * BLOCK_PAGES).div_ceil(pages);
        self.workers.parallel_for(all.len().div_ceil(block), threads, &|index| {
            let first = index * block;
            // SAFETY: the caller vouches for the pieces.
            unsafe { (self.loops.pieces)(&all[first..all.len().min(first + block)]) };
        });
    }

    /// Copies pages in the calling thread, which may be one of several.
    ///
    /// # Safety
    /// As [`copy_pages`](Copier::copy_pages).
    pub unsafe fn copy_here(&self, pages: &[PageCopy]) {
        // SAFETY: the caller vouches for the pages.
        unsafe { (self.loops.pages)(pages) };
    }

    /// Copies pages from their parts in the calling thread, which may be one of several. For those that are copied next, `ahead`,
    /// the memory is asked meanwhile.
    ///
    /// # Safety
    /// All parts of `pages` are readable, and all targets writable pages; nobody writes any of them meanwhile; no page is a target
    /// twice.
    pub unsafe fn copy_parts(&self, pages: &PartedPages, ahead: &PartedPages) {
        // SAFETY: the caller vouches for the pages.
        unsafe { (self.loops.parts)(pages, ahead) };
    }
}

/// Copies bytes between addresses that Rust does not know.
///
/// # Safety
/// `from` is readable and `to` writable for `bytes`, they do not overlap, and nobody writes either meanwhile.
pub unsafe fn copy_bytes(from: usize, to: usize, bytes: usize) {
    // SAFETY: as the caller vouches.
    unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
}

/// Whether the bytes at two addresses are the same.
///
/// # Safety
/// Both are readable for `bytes` and nobody writes either meanwhile.
pub unsafe fn equal_bytes(left: usize, right: usize, bytes: usize) -> bool {
    // SAFETY: as the caller vouches.
    unsafe { libc::memcmp(left as *const libc::c_void, right as *const libc::c_void, bytes) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Mapping;

    #[test]
    fn all_pages_arrive_with_any_number_of_threads_and_every_loop() {
        const PAGES: usize = 5000;
        let from = Mapping::private((PAGES + 1) * PAGE_BYTES, false).unwrap();
        (0..PAGES + 1).for_each(|page| from.write(page * PAGE_BYTES, &[page as u8; PAGE_BYTES]));
        let mut loops = vec![choose_loops()];
        #[cfg(target_arch = "x86_64")]
        loops.push(Loops { pages: copy_sse2, parts: parts::parts_sse2, pieces: pieces::pieces_sse2 });
        for run in loops {
            for threads in [1, 2, 5] {
                let to = Mapping::private(PAGES * PAGE_BYTES, false).unwrap();
                let copier = Copier::with_loops(threads, run);
                for count in [0, 1, 7, 9, CACHED_PAGES_MAX, CACHED_PAGES_MAX + 1, 300, PAGES] {
                    // Backwards, as pages that do not follow each other; and from the middle of pages, too.
                    let address = |map: &Mapping, page: usize| map.address() + page * PAGE_BYTES;
                    let shift = count % 2 * 8;
                    let pages: Vec<PageCopy> = (0..count)
                        .map(|page| PageCopy { from: address(&from, page) + shift, to: address(&to, PAGES - 1 - page) })
                        .collect();
                    // SAFETY: all pages lie in the two mappings, which nobody else uses.
                    unsafe { copier.copy_pages(&pages) };
                    let mut found = vec![0; PAGE_BYTES];
                    for page in 0..count {
                        to.read((PAGES - 1 - page) * PAGE_BYTES, &mut found);
                        let (own, next) = found.split_at(PAGE_BYTES - shift);
                        assert!(own.iter().all(|byte| *byte == page as u8), "page {page} of {count}");
                        assert!(next.iter().all(|byte| *byte == (page + 1) as u8), "page {page} of {count}");
                    }
                }
            }
        }
    }
}
