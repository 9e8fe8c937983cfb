//! The calls that map memory, and change what is mapped.
//!
//! What the program maps itself is the kernel's, with all that may be done to it; it is only in large pages, and filled at
//! once if it is not much. Where a call concerns pages of the pool, which the kernel cannot cut, these become ordinary memory first.

use crate::backing;
use crate::count::{self, MAPPED};
use crate::cuts;
use crate::kernel::{PAGE_BYTES, WINDOW_BYTES, errno, quietly, set_errno};
use crate::mapped::{self, Remap};
use crate::next;
use crate::plain;
use crate::setting;
use crate::windows::{self, SPARSE_BYTES};
use libc::{c_int, c_void, off_t, size_t};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Of madvise(2), what `libc` does not name everywhere.
const MADV_WIPEONFORK: c_int = 18;
const MADV_GUARD_INSTALL: c_int = 102;
const MADV_DONTNEED_LOCKED: c_int = 24;

/// What a mapping that is tried elsewhere does not have.
const NOT_ELSEWHERE: c_int = libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE | libc::MAP_POPULATE | libc::MAP_LOCKED;

/// `MAP_FAILED`.
const FAILED: usize = usize::MAX;

/// The last mappings that were filled: what is put into them, and what they grow by, is to be as the rest of them.
static FILLED: [[AtomicUsize; 2]; 64] = [const { [AtomicUsize::new(0), AtomicUsize::new(0)] }; 64];
static FILLED_NEXT: AtomicUsize = AtomicUsize::new(0);

fn remember(address: usize, bytes: usize) {
    let [begin, end] = &FILLED[FILLED_NEXT.fetch_add(1, Ordering::Relaxed) % FILLED.len()];
    begin.store(address, Ordering::Relaxed);
    end.store(address + bytes, Ordering::Relaxed);
}

/// Whether a mapping that begins there was filled; then it is no longer known.
fn forget(address: usize) -> bool {
    let one = |[begin, _]: &[AtomicUsize; 2]| {
        begin.compare_exchange(address, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    };
    address != 0 && FILLED.iter().any(one)
}

/// Forgets the mappings that were filled and lie in a range in part or whole, so that nothing is put into them any more. Calls a function with
/// each such part.
pub fn forget_within(range: Range<usize>, mut visit: impl FnMut(Range<usize>)) {
    for [begin, end] in &FILLED {
        let (first, last) = (begin.load(Ordering::Relaxed), end.load(Ordering::Relaxed));
        // The last page belongs to a mapping as a whole.
        let part = first.max(range.start)..last.next_multiple_of(PAGE_BYTES).min(range.end);
        if first != 0 && !part.is_empty() && forget(first) {
            visit(part);
        }
    }
}

/// Whether memory lies in a mapping that was filled. What is not known any more costs nothing but large pages.
fn is_in_filled(address: usize, bytes: usize) -> bool {
    FILLED.iter().any(|[begin, end]| {
        let begin = begin.load(Ordering::Relaxed);
        begin != 0 && begin <= address && address.saturating_add(bytes) <= end.load(Ordering::Relaxed)
    })
}

/// See mmap(2).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    bytes: size_t,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
) -> *mut c_void {
    let fixed = flags & libc::MAP_FIXED != 0;
    // The same elsewhere.
    let would_succeed = || match next::mmap(0, bytes, protection, flags & !NOT_ELSEWHERE, file, offset) {
        FAILED => false,
        at => next::munmap(at, bytes) == 0,
    };
    if fixed && mapped::make_way(address as usize, bytes, would_succeed).is_err() {
        set_errno(libc::ENOMEM);
        return libc::MAP_FAILED;
    }
    let real = || {
        let at = next::mmap(address as usize, bytes, protection, flags, file, offset);
        if fixed && at != FAILED {
            // Also where it was not expected to succeed.
            mapped::leave(at, bytes);
        }
        at
    };
    if fixed {
        cuts::note_cut(address as usize, bytes);
        backing::forget(address as usize..(address as usize).saturating_add(bytes));
        mapped::occupy(address as usize, bytes);
    }
    if fixed && flags & libc::MAP_ANONYMOUS != 0 && is_in_filled(address as usize, bytes) {
        let at = real();
        if at != FAILED {
            plain::advise(at, bytes);
        }
        return at as *mut c_void;
    }
    if !is_to_be_filled(bytes, protection, flags) || !count::is_large_with(bytes) {
        return real() as *mut c_void;
    }
    // An address that is not said to be fixed is no more than a wish.
    if is_to_be_served(protection, flags) && (address.is_null() || setting::is_strict()) {
        if let Some(at) = mapped::map(bytes) {
            return at as *mut c_void;
        }
        if setting::is_strict() && mapped::is_served() {
            set_errno(libc::ENOMEM);
            return libc::MAP_FAILED;
        }
    }
    let map = |at| next::mmap(at, bytes, protection, flags, file, offset);
    let at = if address.is_null() { at_window(bytes, map) } else { real() };
    if at != FAILED {
        fill(at, bytes);
        remember(at, bytes);
    }
    at as *mut c_void
}

/// See mmap(2); the same as [`mmap`].
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    address: *mut c_void,
    bytes: size_t,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the caller's.
    unsafe { mmap(address, bytes, protection, flags, file, offset) }
}

/// Whether a mapping is memory to be written, and large, and not a reservation of addresses.
fn is_to_be_filled(bytes: usize, protection: c_int, flags: c_int) -> bool {
    const OTHERS: c_int = libc::MAP_NORESERVE | libc::MAP_STACK | libc::MAP_GROWSDOWN | libc::MAP_HUGETLB;
    let is_private = flags & libc::MAP_TYPE == libc::MAP_PRIVATE && flags & libc::MAP_ANONYMOUS != 0;
    let is_written = protection & libc::PROT_WRITE != 0;
    bytes >= WINDOW_BYTES && is_private && is_written && flags & OTHERS == 0
}

/// Whether memory that is to be filled may be a block of the pool: nothing else is asked of it.
fn is_to_be_served(protection: c_int, flags: c_int) -> bool {
    let usual = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    protection == libc::PROT_READ | libc::PROT_WRITE && flags & !libc::MAP_POPULATE == usual
}

/// Maps at the begin of a window, which kernels before 6.7 do not by themselves, and later ones do for whole windows. Where there are addresses is
/// found without memory, for `map` may be told to fill what it maps at once. It is given the address that is wished for.
fn at_window(bytes: usize, map: impl Fn(usize) -> usize) -> usize {
    let more = bytes.next_multiple_of(PAGE_BYTES) + WINDOW_BYTES;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    match next::mmap(0, more, libc::PROT_NONE, flags, -1, 0) {
        FAILED => map(0),
        found => {
            next::munmap(found, more);
            // Where another thread was faster the kernel finds another place.
            map(found.next_multiple_of(WINDOW_BYTES))
        }
    }
}

/// Fills what the program mapped. Of much it may want a little: libraries of linear algebra map a hundred MiB for each thread, and
/// use a few of them. That comes when it is touched, a large page at a time.
fn fill(address: usize, bytes: usize) {
    let begin = address.next_multiple_of(PAGE_BYTES);
    let end = (address + bytes).next_multiple_of(PAGE_BYTES);
    if end - begin >= SPARSE_BYTES {
        plain::advise(begin, end - begin);
        MAPPED.add(end - begin);
    } else if plain::fill(begin, end - begin) {
        MAPPED.add(end - begin);
    }
}

/// See munmap(2).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, bytes: size_t) -> c_int {
    if quietly(|| mapped::unmap(address as usize, bytes)) {
        return 0;
    }
    // Static arrays: what the heap has of the pool is not cut.
    if windows::touches_loaded(address as usize, bytes) && soften(address, bytes).is_err() {
        return -1;
    }
    // Before, for others may get the addresses at once. A call that fails changes nothing.
    if (address as usize).is_multiple_of(PAGE_BYTES) {
        backing::forget(address as usize..(address as usize).saturating_add(bytes));
    }
    let result = mapped::vacate(address as usize, bytes, next::munmap);
    if result == 0 && bytes >= WINDOW_BYTES {
        forget(address as usize);
    }
    result
}

fn soften(address: *mut c_void, bytes: usize) -> Result<(), ()> {
    windows::soften(address as usize, bytes).map_err(|_| set_errno(libc::ENOMEM))
}

/// See mremap(2).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    address: *mut c_void,
    bytes: size_t,
    new_bytes: size_t,
    flags: c_int,
    new_address: *mut c_void,
) -> *mut c_void {
    let is_fixed = flags & libc::MREMAP_FIXED != 0;
    if flags & !libc::MREMAP_MAYMOVE == 0 {
        match quietly(|| mapped::remap(address as usize, bytes, new_bytes, flags != 0)) {
            Remap::Done(at) => return at as *mut c_void,
            Remap::Refused => {
                set_errno(libc::ENOMEM);
                return libc::MAP_FAILED;
            }
            Remap::Others => {}
        }
    }
    if let Some(at) = shrink_of_heap(address as usize, bytes, new_bytes, flags) {
        return at as *mut c_void;
    }
    let is_refused = mapped::is_too_much_to_soften(address as usize, bytes) || soften(address, bytes).is_err();
    if is_refused || is_fixed && soften(new_address, new_bytes).is_err() {
        set_errno(libc::ENOMEM);
        return libc::MAP_FAILED;
    }
    if is_fixed {
        cuts::note_cut(new_address as usize, new_bytes);
        mapped::occupy(new_address as usize, new_bytes);
    }
    let at = match move_of_heap(address as usize, bytes, new_bytes, flags, new_address) {
        Some(at) => at,
        None => {
            cuts::note_cut(address as usize, bytes);
            next::mremap(address as usize, bytes, new_bytes, flags, new_address)
        }
    };
    if at != FAILED {
        let kept = if at == address as usize { new_bytes } else { 0 };
        backing::forget((address as usize).saturating_add(kept)..(address as usize).saturating_add(bytes));
        if at != address as usize {
            backing::forget(at..at.saturating_add(new_bytes));
        }
        // What the kernel gave up of the heap. What stays where it was is no hole, and is not to be taken for one.
        let kept = if at == address as usize { new_bytes.next_multiple_of(PAGE_BYTES).min(bytes) } else { 0 };
        cuts::take_back(address as usize + kept, bytes - kept);
    }
    if at != FAILED && bytes > 0 && forget(address as usize) {
        remember(at, new_bytes);
        if new_bytes >= bytes + WINDOW_BYTES {
            fill(at + bytes, new_bytes - bytes);
        }
    }
    at as *mut c_void
}

/// Shrinks memory of the heap. `None`: that is not what is to be done, or not possible.
fn shrink_of_heap(address: usize, bytes: usize, new_bytes: usize, flags: c_int) -> Option<usize> {
    let bytes = bytes.checked_next_multiple_of(PAGE_BYTES)?;
    let new_whole = new_bytes.checked_next_multiple_of(PAGE_BYTES)?;
    if new_bytes == 0 || flags & !libc::MREMAP_MAYMOVE != 0 || new_whole > bytes || !cuts::is_of_heap(address, bytes) {
        return None;
    }
    let rest = bytes - new_whole;
    (rest == 0 || mapped::vacate(address + new_whole, rest, next::munmap) == 0).then_some(address)
}

/// Moves memory of the heap, whose addresses nobody else is to get meanwhile. `None`: that is not what is to be done, or not possible.
fn move_of_heap(
    address: usize,
    bytes: usize,
    new_bytes: usize,
    flags: c_int,
    new_address: *mut c_void,
) -> Option<usize> {
    let bytes = bytes.checked_next_multiple_of(PAGE_BYTES)?;
    let new_whole = new_bytes.checked_next_multiple_of(PAGE_BYTES)?;
    if new_bytes == 0 || !cuts::is_of_heap(address, bytes) {
        return None;
    }
    let is_fixed = flags & libc::MREMAP_FIXED != 0;
    let new = new_address as usize;
    let is_beside = !is_fixed || new >= address + bytes || new.saturating_add(new_whole) <= address;
    // Others are refused, or leave what was there.
    if flags & !libc::MREMAP_FIXED != libc::MREMAP_MAYMOVE || !is_beside || is_fixed && !new.is_multiple_of(PAGE_BYTES)
    {
        return None;
    }
    let moved = cuts::move_out(address, bytes, |from| match next::mremap(from, bytes, new_bytes, flags, new_address) {
        FAILED => Err(errno()),
        at => Ok(at),
    });
    match moved {
        Ok(at) => Some(at),
        // The kernel may know a way all the same.
        Err(libc::EINVAL | libc::EFAULT) => None,
        Err(errno) => {
            set_errno(errno);
            Some(FAILED)
        }
    }
}

/// See mprotect(2).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(address: *mut c_void, bytes: size_t, protection: c_int) -> c_int {
    if soften(address, bytes).is_err() {
        return -1;
    }
    cuts::note_cut(address as usize, bytes);
    next::mprotect(address as usize, bytes, protection)
}

/// See pkey_mprotect(2).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pkey_mprotect(address: *mut c_void, bytes: size_t, protection: c_int, key: c_int) -> c_int {
    if soften(address, bytes).is_err() {
        return -1;
    }
    cuts::note_cut(address as usize, bytes);
    next::pkey_mprotect(address as usize, bytes, protection, key)
}

/// See madvise(2).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(address: *mut c_void, bytes: size_t, advice: c_int) -> c_int {
    let at = address as usize;
    let range = at..at.saturating_add(bytes);
    let is_given_up = matches!(advice, libc::MADV_DONTNEED | MADV_DONTNEED_LOCKED) && at.is_multiple_of(PAGE_BYTES);
    // SAFETY: the caller's.
    let advise = |at: usize, bytes| unsafe { advise(at as *mut c_void, bytes, advice) };
    if is_given_up && backing::may_have(&range) { backing::give_up(range, advise) } else { advise(at, bytes) }
}

/// # Safety
/// As of the C library's `madvise`.
unsafe fn advise(address: *mut c_void, bytes: usize, advice: c_int) -> c_int {
    let at = address as usize;
    let real = |at: usize, bytes| {
        // What a block was advised is not meant for the next one.
        if let libc::MADV_DONTFORK | libc::MADV_DONTDUMP | MADV_WIPEONFORK | MADV_GUARD_INSTALL | libc::MADV_HWPOISON =
            advice
        {
            cuts::note_cut(at, bytes);
        }
        next::madvise(at, bytes, advice)
    };
    if bytes == 0 || !at.is_multiple_of(PAGE_BYTES) || !windows::touches_pool(at, bytes) {
        return real(at, bytes);
    }
    let is_given_up = matches!(advice, libc::MADV_DONTNEED | MADV_DONTNEED_LOCKED);
    if !is_given_up && !is_void_for_pool(advice) {
        return if soften(address, bytes).is_err() { -1 } else { real(at, bytes) };
    }
    let mut result = 0;
    for (part, is_pool) in windows::parts(at, bytes.next_multiple_of(PAGE_BYTES)) {
        if !is_pool && real(part.start, part.len()) != 0 {
            result = -1;
        }
        if is_pool && is_given_up {
            // The page stays, so that it can be had again.
            // SAFETY: the caller gives up what is there.
            unsafe { std::ptr::write_bytes(part.start as *mut u8, 0, part.len()) };
        }
    }
    result
}

/// Whether advice changes nothing of what a program sees of a page of the pool, and nothing is better than what is there. A child has a copy of
/// all that lies in the pool, and who writes such a page after a fork keeps it: a device that has it registered, too.
fn is_void_for_pool(advice: c_int) -> bool {
    matches!(
        advice,
        libc::MADV_FREE
            | libc::MADV_HUGEPAGE
            | libc::MADV_NOHUGEPAGE
            | libc::MADV_COLLAPSE
            | libc::MADV_MERGEABLE
            | libc::MADV_UNMERGEABLE
            | libc::MADV_COLD
            | libc::MADV_PAGEOUT
            | libc::MADV_WILLNEED
            | libc::MADV_NORMAL
            | libc::MADV_RANDOM
            | libc::MADV_SEQUENTIAL
            | libc::MADV_POPULATE_READ
            | libc::MADV_POPULATE_WRITE
            | libc::MADV_DONTFORK
            | libc::MADV_DOFORK
            | libc::MADV_DONTDUMP
            | libc::MADV_DODUMP
    )
}

/// See brk(2).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brk(end: *mut c_void) -> c_int {
    let before = next::sbrk(0);
    let result = next::brk(end as usize);
    if result == 0 {
        grown(before, end as usize);
    }
    result
}

/// See brk(2).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sbrk(bytes: libc::intptr_t) -> *mut c_void {
    let before = next::sbrk(bytes);
    if before != FAILED && bytes > 0 {
        grown(before, before + bytes as usize);
    }
    before as *mut c_void
}

/// Fills what the end of the program's data grew by.
fn grown(from: usize, to: usize) {
    if from != FAILED && to >= from.saturating_add(WINDOW_BYTES) && count::is_large_with(to - from) {
        fill(from, to - from);
    }
}
