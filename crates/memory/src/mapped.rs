//! Memory that the program maps for itself, from the pool: blocks as those of `malloc`, at the begin of a window.
//!
//! What is unmapped as a whole goes back to the pool, but for a window at its end that others may have a part of. What the program does with
//! a part, `calls` does as with other blocks.

use crate::blocks::{self, Begin, Block};
use crate::count;
use crate::kernel::{PAGE_BYTES, WINDOW_BYTES, copy_nonzero};
use crate::pool;
use crate::setting;
use crate::windows;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the program maps at once may be this part of what the pool has: of more it may want little.
const PART: usize = 2;

/// Whether there is a pool for it.
static IS_SERVED: AtomicBool = AtomicBool::new(false);

/// Begins to serve it.
pub fn begin() {
    IS_SERVED.store(true, Ordering::Relaxed);
}

/// Maps memory of zeros. `None`: it is the kernel's to map.
pub fn map(bytes: usize) -> Option<usize> {
    // A handler of a signal that came within the allocation of a block would wait for its own thread.
    if !IS_SERVED.load(Ordering::Relaxed) || blocks::is_changing() || !count::is_large_with(bytes) {
        return None;
    }
    let bytes = bytes.checked_next_multiple_of(PAGE_BYTES)?;
    if !setting::is_strict() && bytes > pool::open().ok()?.free_bytes / PART {
        return None;
    }
    let Block { address, is_fresh } = blocks::allocate(bytes, Begin::Aligned(WINDOW_BYTES))?;
    if !is_fresh {
        windows::clear(address, bytes);
    }
    Some(address)
}

/// Unmaps what was mapped as a whole; whether it was.
pub fn unmap(address: usize, bytes: usize) -> bool {
    let Some(bytes) = bytes.checked_next_multiple_of(PAGE_BYTES) else { return false };
    let is_mapped = is_mapped(address, bytes);
    if is_mapped {
        blocks::give_up(address);
    }
    is_mapped
}

/// Changes the size of what was mapped as a whole, which may move. `None`: it was not, or cannot be.
pub fn remap(address: usize, bytes: usize, new_bytes: usize, may_move: bool) -> Option<usize> {
    let bytes = bytes.checked_next_multiple_of(PAGE_BYTES)?;
    let new_bytes = new_bytes.checked_next_multiple_of(PAGE_BYTES)?;
    if new_bytes < blocks::LEAST_BYTES || !is_mapped(address, bytes) {
        return None;
    }
    if blocks::resize(address, new_bytes) {
        if new_bytes > bytes {
            windows::clear(address + bytes, new_bytes - bytes);
        }
        return Some(address);
    }
    let to = map(new_bytes).filter(|_| may_move)?;
    // SAFETY: both are this library's, and as long. Nobody else has the new one, and the caller gives up the old one.
    unsafe { copy_nonzero(address, to, bytes.min(new_bytes)) };
    unmap(address, bytes);
    Some(to)
}

/// Whether a block is there that begins at this address of whole windows, and has so many bytes.
fn is_mapped(address: usize, bytes: usize) -> bool {
    let is_served = IS_SERVED.load(Ordering::Relaxed) && !blocks::is_changing();
    is_served && address.is_multiple_of(WINDOW_BYTES) && bytes > 0 && blocks::usable_bytes(address) == bytes
}
