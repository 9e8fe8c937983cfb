//! The functions that stand in for those of the C library that map memory.
//!
//! Each decides first, by what costs next to nothing, whether the call is of any concern, and otherwise does what the C
//! library's does.

use crate::change;
use crate::file::{SharedFile, Working};
use crate::fork::{self, state};
use crate::inside::{inside, quietly};
use crate::kernel::{PAGE_BYTES, Stat, errno, fstat, is_address, set_errno, whole_pages};
use crate::names;
use crate::next;
use crate::observer::{self, Fresh};
use crate::producer::{self, Unrestored};
use crate::removal::settle;
use crate::report::{Problem, complain};
use crate::state::{Taken, Use, may_concern};
use libc::{c_int, c_void, off_t, size_t};
use std::sync::Arc;

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
    descriptor: c_int,
    offset: off_t,
) -> *mut c_void {
    map(next::mmap, address as usize, bytes, protection, flags, descriptor, offset) as *mut c_void
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
    descriptor: c_int,
    offset: off_t,
) -> *mut c_void {
    map(next::mmap64, address as usize, bytes, protection, flags, descriptor, offset) as *mut c_void
}

/// What a mapping is for.
enum Purpose {
    Observe,
    Produce,
}

/// What a mapping may be for, by its flags alone.
fn purpose(protection: c_int, flags: c_int) -> Option<Purpose> {
    let kind = flags & libc::MAP_TYPE;
    let is_private = kind == libc::MAP_PRIVATE;
    let is_shared = kind == libc::MAP_SHARED || kind == libc::MAP_SHARED_VALIDATE;
    match (protection & libc::PROT_WRITE != 0, protection & libc::PROT_READ != 0) {
        (true, _) if is_private => Some(Purpose::Produce),
        (false, true) if is_private || is_shared => Some(Purpose::Observe),
        _ => None,
    }
}

fn map(
    next: fn(usize, size_t, c_int, c_int, c_int, off_t) -> usize,
    address: usize,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: off_t,
) -> usize {
    let with_flags = |flags| next(address, bytes, protection, flags, descriptor, offset);
    let real = || with_flags(flags);
    let replaces = flags & libc::MAP_FIXED != 0 && may_concern(address, bytes);
    let purpose = purpose(protection, flags).filter(|_| descriptor >= 0 && flags & libc::MAP_ANONYMOUS == 0);
    if purpose.is_none() && !replaces {
        return real();
    }
    let mapped = |real: &dyn Fn() -> usize| match replaces {
        true => change::taking((address, bytes), real, |at| is_address(*at)),
        false => real(),
    };
    inside(
        || {
            settle();
            let file = quietly(|| purpose.and_then(|purpose| Some((purpose, file_of(descriptor)?))));
            Some(match file {
                Some((Purpose::Observe, (file, _))) => {
                    // Pages of the file that the version's are laid over need not be read first.
                    let is_shown = quietly(|| observer::has_region(&file));
                    let dropped = if is_shown { libc::MAP_POPULATE } else { 0 };
                    let at = mapped(&|| with_flags(flags & !dropped));
                    if is_address(at) && is_shown { observe(&file, at, bytes, protection, flags, offset) } else { at }
                }
                Some((Purpose::Produce, (file, stat))) => {
                    let at = mapped(&real);
                    if is_address(at) { produce(&file, at, bytes, descriptor, offset, stat.bytes) } else { at }
                }
                None => mapped(&real),
            })
        },
        real,
    )
}

/// The file behind a descriptor, if it lies below `/dev/shm`.
fn file_of(descriptor: c_int) -> Option<(Arc<SharedFile>, Stat)> {
    let stat = fstat(descriptor).filter(names::may_be_shared)?;
    Some((fork::file_of(descriptor, &stat)?, stat))
}

/// Makes a fresh mapping a producer's, or takes it back.
fn produce(
    file: &Arc<SharedFile>,
    at: usize,
    bytes: usize,
    descriptor: c_int,
    offset: off_t,
    file_bytes: u64,
) -> usize {
    let before = errno();
    let working = Working::new(file.clone(), at, bytes, offset as u64);
    match producer::restore(&working, descriptor, file_bytes) {
        Ok(()) => {}
        Err(Unrestored::Not(problem)) => complain(&file.path.to_string_lossy(), &problem),
        Err(Unrestored::Partly(problem)) => return refuse(file, at, bytes, &problem),
    }
    give(at, bytes, Use::Working(working, true));
    set_errno(before);
    at
}

fn observe(file: &Arc<SharedFile>, at: usize, bytes: usize, protection: c_int, flags: c_int, offset: off_t) -> usize {
    let before = errno();
    let fresh = Fresh { address: at, bytes, offset: offset as u64, protection };
    match observer::show(file, &fresh) {
        Ok(laid) => {
            if flags & libc::MAP_POPULATE != 0 {
                // SAFETY: the range was just mapped; the advice reads it in, and is as welcome to fail as the flag is.
                unsafe { libc::madvise(at as *mut c_void, bytes, libc::MADV_POPULATE_READ) };
            }
            if let Some(laid) = laid {
                give(at, bytes, Use::View(Arc::new(laid.view)));
            }
            set_errno(before);
            at
        }
        Err(problem) => refuse(file, at, bytes, &problem),
    }
}

/// Notes what so many bytes are used for.
fn give(at: usize, bytes: usize, value: Use) {
    let displaced = state().insert(at, at + whole_pages(bytes), value);
    drop(displaced);
}

/// Takes a fresh mapping back: it is not what it was to be.
fn refuse(file: &SharedFile, at: usize, bytes: usize, problem: &Problem) -> usize {
    next::munmap(at, bytes);
    complain(&file.path.to_string_lossy(), problem);
    set_errno(problem.errno);
    libc::MAP_FAILED as usize
}

/// See munmap(2).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, bytes: size_t) -> c_int {
    let real = || next::munmap(address as usize, bytes);
    if !may_concern(address as usize, bytes) {
        return real();
    }
    let unmapped = || {
        settle();
        change::taking((address as usize, bytes), real, |result| *result == 0)
    };
    inside(|| Some(unmapped()), real)
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
    let (address, to) = (address as usize, new_address as usize);
    let real = || next::mremap(address, bytes, new_bytes, flags, new_address);
    let replaces = flags & libc::MREMAP_FIXED != 0 && may_concern(to, new_bytes);
    if !may_concern(address, bytes.max(1)) && !replaces {
        return real() as *mut c_void;
    }
    inside(|| Some(remap(address, bytes, new_bytes, replaces.then_some(to), real)), real) as *mut c_void
}

fn remap(
    address: usize,
    bytes: usize,
    new_bytes: usize,
    replaced: Option<usize>,
    real: impl FnOnce() -> usize,
) -> usize {
    let first = state().at(address);
    if let Some(Use::View(_)) = &first
        && whole_pages(new_bytes) > whole_pages(bytes)
    {
        // What lies behind a version's pages in their planes is not the file's.
        set_errno(libc::ENOMEM);
        return libc::MAP_FAILED as usize;
    }
    let replaced = replaced.map(|to| (to, new_bytes));
    let moved = |at: &usize, taken: &Taken| match first {
        // A second mapping of the same pages.
        Some(view @ Use::View(_)) if bytes == 0 => give(*at, new_bytes, view),
        _ => {
            let displaced = state().insert_moved(taken, (address, bytes), (*at, new_bytes));
            drop(displaced);
        }
    };
    change::moving((address, bytes), replaced, real, |at| is_address(*at), moved)
}

/// See mprotect(2).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(address: *mut c_void, bytes: size_t, protection: c_int) -> c_int {
    let real = || next::mprotect(address as usize, bytes, protection);
    if !may_concern(address as usize, bytes) {
        return real();
    }
    let readable = protection & (libc::PROT_READ | libc::PROT_WRITE) != 0;
    inside(|| Some(change::protecting(address as usize, bytes, readable, real)), real)
}

/// See msync(2). With `MS_UPDATE` (8) in the flags, the pages of a writable private mapping of a file below `/dev/shm` that
/// the range touches are published.
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msync(address: *mut c_void, bytes: size_t, flags: c_int) -> c_int {
    let real = || next::msync(address as usize, bytes, flags);
    if !producer::is_publish(flags) || !may_concern(address as usize, bytes.max(1)) {
        return real();
    }
    let published = || {
        settle();
        publish(address as usize, bytes, flags)
    };
    inside(published, real)
}

/// Publishes what the range touches. `None`: nothing of it is a producer's, and the kernel has the word.
fn publish(address: usize, bytes: usize, flags: c_int) -> Option<c_int> {
    let fail = |number| {
        set_errno(number);
        Some(-1)
    };
    let others = flags & !producer::FLAGS;
    if others != 0 || flags & (libc::MS_SYNC | libc::MS_ASYNC) == libc::MS_SYNC | libc::MS_ASYNC {
        return fail(libc::EINVAL);
    }
    let start = address / PAGE_BYTES * PAGE_BYTES;
    let Some(end) = address.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(PAGE_BYTES)) else {
        return fail(libc::ENOMEM);
    };
    let before = errno();
    let (mut at, mut known, mut is_any) = (start, start, false);
    let next = |at| state().first_working(at, end.max(start + 1));
    while let Some((from, to, working)) = next(at) {
        (at, is_any) = (to, true);
        let range = from..to.min(end);
        if range.is_empty() {
            break;
        }
        if range.start == known {
            known = range.end;
        }
        if let Err(problem) = producer::publish(&working, range) {
            complain(&working.file.path.to_string_lossy(), &problem);
            return fail(problem.errno);
        }
    }
    set_errno(before);
    match is_any {
        false => None,
        true if known < end => fail(libc::ENOMEM),
        true => Some(0),
    }
}
