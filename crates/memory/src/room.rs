//! Room in the pool while a process forks.
//!
//! What is written until a child has copied all takes pages of the pool: by other threads, and by the C library in the child before it
//! calls anybody, as it opens the locks of files where there were other threads. In an empty pool the child would end of that. So whoever
//! has something of the pool keeps some pages of it that nobody uses, and gives them back while it forks.

use crate::count;
use crate::kernel::{WINDOW_BYTES, unmap};
use crate::pool::{self, Open};
use std::sync::atomic::{AtomicUsize, Ordering};

const BYTES: usize = 4 * WINDOW_BYTES;

/// Where they are, if there are any. Changed by who has the lock of `windows`.
static AT: AtomicUsize = AtomicUsize::new(0);

/// Takes some, if there are none and the pool has them.
pub fn take(pool: &mut Open) {
    if AT.load(Ordering::Relaxed) == 0
        && pool.page_bytes == WINDOW_BYTES
        && let Ok(at) = pool.take(BYTES)
    {
        pool.free_bytes -= BYTES;
        AT.store(at, Ordering::Relaxed);
    }
}

/// Takes some again after a fork.
pub fn take_again() {
    if count::POOL.get() > 0
        && let Ok(mut pool) = pool::open()
    {
        take(&mut pool);
    }
}

/// Gives them back to the pool. Says whether there were any.
pub fn give_back() -> bool {
    match AT.swap(0, Ordering::Relaxed) {
        0 => false,
        at => {
            // SAFETY: taken for this, and nobody else knows it.
            unsafe { unmap(at, BYTES) };
            true
        }
    }
}

/// How many pages too few this process can have: where a cgroup bounds it, pages that are free are not its own to have.
pub fn missing_pages() -> usize {
    match pool::open() {
        Ok(pool) if pool.page_bytes == WINDOW_BYTES => (BYTES - pool.at_hand(BYTES)).div_ceil(WINDOW_BYTES),
        _ => 0,
    }
}
