//! Copying pages at memory speed.
//!
//! libc uses stores that bypass the cache only for large copies, so copying a region in pieces with it costs half as
//! much again. The loops here bypass the cache always and interleave eight pages, because several streams keep the
//! memory's banks busier than one: measured, they copy scattered pages at the speed of one whole `memcpy`.

use crate::PAGE_BYTES;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// One page to copy: where from and where to, both page-aligned addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageCopy {
    /// Address of the page to read.
    pub from: usize,
    /// Address of the page to write.
    pub to: usize,
}

type CopyLoop = unsafe fn(&[PageCopy]);

fn choose_loop() -> CopyLoop {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return copy_avx512;
        }
        if std::arch::is_x86_feature_detected!("avx") {
            return copy_avx;
        }
        copy_sse2
    }
    #[cfg(not(target_arch = "x86_64"))]
    copy_portable
}

/// Pages interleaved by one loop.
#[cfg(target_arch = "x86_64")]
const LANES: usize = 8;

#[cfg(target_arch = "x86_64")]
macro_rules! streaming_loop {
    ($name:ident, $feature:literal, $vector:ty, $load:ident, $store:ident) => {
        /// # Safety
        /// All pages are valid for reading and writing, the targets are written by nobody else, and the processor has
        /// the instructions.
        #[target_feature(enable = $feature)]
        unsafe fn $name(pages: &[PageCopy]) {
            use std::arch::x86_64::*;
            const STEP: usize = 128;
            const WIDTH: usize = std::mem::size_of::<$vector>();
            const VECTORS: usize = STEP / WIDTH;
            for (index, group) in pages.chunks(LANES).enumerate() {
                let next = pages.get((index + 1) * LANES..).unwrap_or(&[]);
                let next = &next[..next.len().min(group.len())];
                for offset in (0..PAGE_BYTES).step_by(STEP) {
                    for page in next {
                        _mm_prefetch::<_MM_HINT_T0>((page.from + offset) as *const i8);
                        _mm_prefetch::<_MM_HINT_T0>((page.from + offset + 64) as *const i8);
                    }
                    for page in group {
                        let from = (page.from + offset) as *const $vector;
                        let to = (page.to + offset) as *mut $vector;
                        // SAFETY: both pages are valid and page-aligned by the caller's word, so every vector of them is.
                        unsafe {
                            let mut vectors: [$vector; VECTORS] = std::mem::zeroed();
                            for (lane, vector) in vectors.iter_mut().enumerate() {
                                *vector = $load(from.add(lane));
                            }
                            for (lane, vector) in vectors.iter().enumerate() {
                                $store(to.add(lane), *vector);
                            }
                        }
                    }
                }
            }
            // Streaming stores are weakly ordered: the fence makes them visible before the commit that follows.
            _mm_sfence();
        }
    };
}
#[cfg(target_arch = "x86_64")]
streaming_loop!(copy_avx512, "avx512f", __m512i, _mm512_load_si512, _mm512_stream_si512);
#[cfg(target_arch = "x86_64")]
streaming_loop!(copy_avx, "avx", __m256i, _mm256_load_si256, _mm256_stream_si256);
#[cfg(target_arch = "x86_64")]
streaming_loop!(copy_sse2, "sse2", __m128i, _mm_load_si128, _mm_stream_si128);

/// # Safety
/// All pages are valid for reading and writing, and the targets are written by nobody else.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_portable(pages: &[PageCopy]) {
    for page in pages {
        // SAFETY: both pages are valid by the caller's word, and a working page is never a plane's page.
        unsafe { std::ptr::copy_nonoverlapping(page.from as *const u8, page.to as *mut u8, PAGE_BYTES) };
    }
}

struct Share {
    pages: *const PageCopy,
    count: usize,
    done: Sender<()>,
}

// SAFETY: a share is read by exactly one worker while the list it points to is borrowed by `copy_pages`, which waits.
unsafe impl Send for Share {}

/// Threads that copy pages, kept between publishes.
#[derive(Debug)]
pub struct Copier {
    run: CopyLoop,
    generation: u32,
    workers: Vec<(Sender<Share>, JoinHandle<()>)>,
}

/// Below this many pages a second thread costs more than it saves.
const SHARE_PAGES_MIN: usize = 256;

impl Copier {
    /// A copier that uses up to `threads` threads, the calling one included.
    pub fn new(threads: usize) -> Copier {
        let run = choose_loop();
        let workers = (1..threads.max(1))
            .map_while(|index| {
                let (sender, receiver): (Sender<Share>, Receiver<Share>) = channel();
                let work = move || {
                    for share in receiver {
                        // SAFETY: `copy_pages` keeps the list alive until `done` was sent, and vouches for the pages.
                        unsafe { run(std::slice::from_raw_parts(share.pages, share.count)) };
                        let _ = share.done.send(());
                    }
                };
                // A process out of threads copies with those it has.
                let name = format!("stillframe-copy-{index}");
                std::thread::Builder::new().name(name).spawn(work).ok().map(|handle| (sender, handle))
            })
            .collect();
        Copier { run, generation: crate::fork::generation(), workers }
    }

    /// Number of threads in use, the calling one included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Copies the pages; on return all of them are visible to other processes that see a later atomic store.
    ///
    /// # Safety
    /// Each `from` is a readable page and each `to` a writable one, all page-aligned; nobody writes any of them
    /// meanwhile; no page is a target twice.
    pub unsafe fn copy_pages(&self, pages: &[PageCopy]) {
        let threads = self.threads().min(pages.len() / SHARE_PAGES_MIN).max(1);
        if threads == 1 {
            // SAFETY: the caller vouches for the pages.
            return unsafe { (self.run)(pages) };
        }
        let share = pages.len().div_ceil(threads);
        let (done, finished) = channel();
        let mut chunks = pages.chunks(share);
        let own = chunks.next().unwrap_or(&[]);
        let mut sent = 0;
        for (chunk, (worker, _)) in chunks.zip(&self.workers) {
            let share = Share { pages: chunk.as_ptr(), count: chunk.len(), done: done.clone() };
            match worker.send(share) {
                Ok(()) => sent += 1,
                // SAFETY: the caller vouches for the pages; a worker that is gone leaves its share to this thread.
                Err(_) => unsafe { (self.run)(chunk) },
            }
        }
        // SAFETY: the caller vouches for the pages.
        unsafe { (self.run)(own) };
        for _ in 0..sent {
            let _ = finished.recv();
        }
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        let is_ours = self.generation == crate::fork::generation();
        for (sender, handle) in self.workers.drain(..) {
            if is_ours {
                drop(sender);
                let _ = handle.join();
            } else {
                // In a forked child the threads do not exist: what they had locked, their channel included, stays locked.
                std::mem::forget((sender, handle));
            }
        }
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
