//! Memory that the program maps for itself, from the pool: blocks as those of `malloc`, at the begin of a window.
//!
//! What is unmapped as a whole goes back to the pool, but for a window at its end that others may have a part of. What the program does with
//! a part, `calls` does as with other blocks.

use crate::blocks::{self, Begin, Block};
use crate::count;
use crate::cuts;
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

/// Unmaps a part of a block; whether it was one. Of large pages at its ends, which others have a part of, all stays: nothing has to be cut, and
/// who unmaps memory reads and writes it no more.
pub fn unmap_part(address: usize, bytes: usize) -> bool {
    if blocks::is_changing() || !address.is_multiple_of(PAGE_BYTES) {
        return false;
    }
    let Some(end) = address.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(PAGE_BYTES)) else {
        return false;
    };
    if bytes == 0 || !blocks::has_all(address, end - address) {
        return false;
    }
    let unit = pool::page_bytes();
    let whole = address.next_multiple_of(unit).min(end)..(end / unit * unit).max(address);
    let ends = if whole.is_empty() { [address..end, end..end] } else { [address..whole.start, whole.end..end] };
    if !whole.is_empty() {
        windows::give_up(whole.start, whole.len());
    }
    for part in ends.into_iter().filter(|part| !part.is_empty() && !windows::touches_pool(part.start, part.len())) {
        cuts::note_cut(part.start, part.len());
        cuts::vacate(part.start, part.len(), |_, _| 0);
    }
    true
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
