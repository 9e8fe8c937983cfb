//! Memory that the program maps for itself, from the pool: blocks as those of `malloc`, at the begin of a window.
//!
//! What is unmapped goes back to the pool, but for large pages at its ends of which others have a part.

use crate::blocks::{self, Begin, Block};
use crate::cuts;
use crate::guard;
use crate::kernel::{self, Errno, PAGE_BYTES, WINDOW_BYTES, copy_nonzero};
use crate::loaded;
use crate::next;
use crate::plain;
use crate::pool;
use crate::say::say;
use crate::setting;
use crate::signals;
use crate::windows;
use libc::c_int;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Whether there is a pool for it.
static IS_SERVED: AtomicBool = AtomicBool::new(false);
/// What is mapped so.
static MAPPED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Begins to serve it where that was asked for, unless the program has its memory placed on memory nodes: `mbind` moves no page that is there
/// already. Programs protect parts of what they map, which has to be cut then, also beside threads that write there.
pub fn begin() {
    if setting::mappings_least_bytes() == usize::MAX {
        return;
    }
    let mut is_placed = false;
    loaded::each(|object| is_placed |= object.name.to_bytes().windows(11).any(|part| part == b"libnuma.so."));
    let why = match (is_placed, guard::is_possible()) {
        (true, _) => "it is linked with libnuma, which places memory after it is mapped",
        (_, false) => "the kernel has no userfaultfd for large pages for this user",
        _ => return IS_SERVED.store(true, Ordering::Relaxed),
    };
    let pid = kernel::own_pid();
    say(format_args!("what process {pid} maps does not come from the pool: {why}"));
}

/// Whether a mapping of so many bytes may come from the pool. Of what is mapped the program may want little, of all that one way or another: so
/// as much stays free as is mapped.
fn may_map(bytes: usize, free_bytes: usize) -> bool {
    let mapped = MAPPED_BYTES.load(Ordering::Relaxed).saturating_add(bytes);
    setting::is_strict() || bytes >= setting::mappings_least_bytes() && mapped <= free_bytes.saturating_sub(bytes)
}

/// Whether a thread may take a block: a handler of a signal that came within the allocation of one would wait for its own thread.
fn is_ready() -> bool {
    IS_SERVED.load(Ordering::Relaxed) && !blocks::is_changing()
}

/// Whether what the program maps comes from the pool.
pub fn is_served() -> bool {
    IS_SERVED.load(Ordering::Relaxed)
}

/// Maps memory of zeros. `None`: it is the kernel's to map.
pub fn map(bytes: usize) -> Option<usize> {
    let bytes = bytes.checked_next_multiple_of(PAGE_BYTES)?;
    if !is_ready() || !may_map(bytes, pool::open().ok()?.free_bytes) {
        return None;
    }
    map_now(bytes)
}

fn map_now(bytes: usize) -> Option<usize> {
    let Block { address, is_fresh } = signals::blocked(|| blocks::allocate(bytes, Begin::Window))?;
    if !is_fresh {
        windows::clear(address, bytes);
    }
    MAPPED_BYTES.fetch_add(bytes, Ordering::Relaxed);
    Some(address)
}

/// Unmaps what was mapped as a whole; whether it was.
pub fn unmap(address: usize, bytes: usize) -> bool {
    let Some(bytes) = bytes.checked_next_multiple_of(PAGE_BYTES).filter(|bytes| is_mapped(address, *bytes)) else {
        return false;
    };
    tell_others(address, bytes);
    signals::blocked(|| blocks::give_up(address));
    count_unmapped(bytes);
    true
}

/// Libraries that have memory registered with a device stand before the C library's functions, and hear by them that it goes.
pub fn tell_others(address: usize, bytes: usize) {
    // Whole large pages: some kernels give up more where the end is none.
    let whole = pool::whole_pages(&(address..address + bytes));
    if !whole.is_empty() {
        next::madvise(whole.start, whole.len(), libc::MADV_DONTNEED);
    }
}

fn count_unmapped(bytes: usize) {
    let less = |sum: usize| Some(sum.saturating_sub(bytes));
    let _ = MAPPED_BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}

/// What became of a change of size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remap {
    Done(usize),
    /// There is no memory, or no room where it is and it may not move.
    Refused,
    /// It is the kernel's to do.
    Others,
}

/// Changes the size of what was mapped as a whole, which may move.
pub fn remap(address: usize, bytes: usize, new_bytes: usize, may_move: bool) -> Remap {
    let whole = |bytes: usize| bytes.checked_next_multiple_of(PAGE_BYTES);
    let (Some(bytes), Some(new_bytes)) = (whole(bytes), whole(new_bytes)) else { return Remap::Others };
    // What the program changed in a part goes along only where the kernel moves it.
    if new_bytes < blocks::LEAST_BYTES || !is_mapped(address, bytes) || cuts::is_cut(address, bytes) {
        return Remap::Others;
    }
    if new_bytes < bytes {
        // Before: what a block has no longer may be another's at once.
        tell_others(address + new_bytes, bytes - new_bytes);
        windows::give_up(address + new_bytes, bytes - new_bytes);
    }
    if signals::blocked(|| blocks::resize(address, new_bytes)) {
        if new_bytes > bytes {
            windows::clear(address + bytes, new_bytes - bytes);
        }
        count_unmapped(bytes);
        MAPPED_BYTES.fetch_add(new_bytes, Ordering::Relaxed);
        return Remap::Done(address);
    }
    // For a moment both are there. Who takes more than there is would be killed.
    let pool_bytes = || pool::open().map_or(0, |pool| pool.free_bytes);
    let has_room = || new_bytes <= pool_bytes().saturating_add(plain::available_bytes() / 2);
    let Some(to) = Some(()).filter(|()| may_move && has_room()).and_then(|()| map_now(new_bytes)) else {
        return Remap::Refused;
    };
    // SAFETY: both are this library's, and as long. Nobody else has the new one, and the caller gives up the old one.
    unsafe { copy_nonzero(address, to, bytes.min(new_bytes)) };
    unmap(address, bytes);
    Remap::Done(to)
}

/// Whether the program mapped a block that begins at this address, and has so many bytes.
fn is_mapped(address: usize, bytes: usize) -> bool {
    is_ready() && bytes > 0 && blocks::mapped_bytes(address) == Some(bytes)
}

/// A forked child has what its parent mapped in ordinary memory.
pub fn begin_child() {
    MAPPED_BYTES.store(0, Ordering::Relaxed);
}

/// Takes memory away that the program unmaps. Addresses of the heap stay this library's: somebody else would get them, and a block
/// that is freed would come to lie over what is his. `unmap` takes away what is not of the heap.
pub fn vacate(address: usize, bytes: usize, mut unmap: impl FnMut(usize, usize) -> c_int) -> c_int {
    let end = address.saturating_add(bytes).checked_next_multiple_of(PAGE_BYTES);
    let Some(end) = end.filter(|_| address.is_multiple_of(PAGE_BYTES)) else { return unmap(address, bytes) };
    let mut at = address;
    while let Some((_, part)) = cuts::of_heap(at, end - at).min_by_key(|(_, part)| part.start) {
        if part.start > at && unmap(at, part.start - at) != 0 {
            return -1;
        }
        if let Err(errno) = vacate_part(&part) {
            kernel::set_errno(errno);
            return -1;
        }
        at = part.end;
    }
    if at == address || at < end { unmap(at, address + bytes - at) } else { 0 }
}

/// Takes away a part of the heap. Of large pages at the ends of what the program mapped, which others have a part of, all stays: nothing has to be
/// cut, and who unmaps memory reads and writes it no more.
fn vacate_part(part: &Range<usize>) -> Result<(), Errno> {
    let whole = pool::whole_pages(part);
    // A handler that came within a change of blocks must not ask for them.
    let stays = |end: &Range<usize>| {
        windows::touches_pool(end.start, end.len()) && (blocks::is_changing() || blocks::is_mapped(end.start))
    };
    let ends = [part.start..whole.start, whole.end..part.end].map(|end| if stays(&end) { 0..0 } else { end });
    for end in ends.iter().filter(|end| !end.is_empty()) {
        windows::soften(end.start, end.len())?;
    }
    tell_others(whole.start, whole.len());
    windows::give_up(whole.start, whole.len());
    for end in ends.iter().filter(|end| !end.is_empty()) {
        cuts::note_cut(end.start, end.len());
        // SAFETY: the piece is this library's, and the caller gives up what is there.
        unsafe { kernel::reserve(end.start, end.len()) }?;
    }
    blocks::cut_out(part.start, part.len());
    count_unmapped(part.len());
    Ok(())
}

/// Makes ordinary memory of the pages of the pool that a range has a part of, before the program maps something else there. Those that it has as
/// a whole are the program's from then on: so `would_succeed` says whether it will.
pub fn make_way(address: usize, bytes: usize, would_succeed: impl FnOnce() -> bool) -> Result<(), Errno> {
    let end = address.checked_add(bytes).filter(|_| address.is_multiple_of(PAGE_BYTES) && bytes > 0);
    let Some(end) = end.filter(|_| windows::touches_pool(address, bytes)) else { return Ok(()) };
    let whole = pool::whole_pages(&(address..end));
    for edge in [address..whole.start, whole.end..end] {
        if !edge.is_empty() {
            windows::soften(edge.start, edge.len())?;
        }
    }
    if windows::touches_pool(whole.start, whole.len()) && would_succeed() {
        windows::leave(whole.start, whole.len());
    }
    Ok(())
}

/// Whether so much of the pool lies in a range that there may be no ordinary memory for it.
pub fn is_too_much_to_soften(address: usize, bytes: usize) -> bool {
    let in_pool = windows::pool_bytes_in(address, bytes);
    in_pool > WINDOW_BYTES && in_pool > plain::available_bytes() / 2
}

/// Leaves the pages of the pool that a range has as a whole to the program, which has mapped something else there.
pub fn leave(address: usize, bytes: usize) {
    if windows::touches_pool(address, bytes) {
        windows::leave(address, bytes);
    }
}

/// Has addresses of the heap at which the program maps something itself be nobody else's.
pub fn occupy(address: usize, bytes: usize) {
    if is_served() && address.is_multiple_of(PAGE_BYTES) && bytes > 0 && address.checked_add(bytes).is_some() {
        blocks::occupy(address, bytes);
    }
}
