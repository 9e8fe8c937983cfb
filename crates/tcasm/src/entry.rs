//! The functions that stand in for those of the C library that map memory.
//!
//! Each decides first, by what costs next to nothing, whether the call is of any concern, and otherwise does what the C
//! library's does.

use crate::file::{SharedFile, Working};
use crate::fork::state;
use crate::inside::{inside, quietly};
use crate::kernel::{self, PAGE_BYTES, Stat, errno, fstat, is_address, set_errno, whole_pages};
use crate::lock::lock;
use crate::names;
use crate::observer::{self, Fresh};
use crate::producer;
use crate::report::complain;
use crate::state::{State, Use, may_concern};
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
    map(address as usize, bytes, protection, flags, descriptor, offset) as *mut c_void
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
    map(address as usize, bytes, protection, flags, descriptor, offset) as *mut c_void
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

fn map(address: usize, bytes: usize, protection: c_int, flags: c_int, descriptor: c_int, offset: off_t) -> usize {
    let real = || kernel::mmap(address, bytes, protection, flags, descriptor, offset);
    let replaces = flags & libc::MAP_FIXED != 0 && may_concern(address, bytes);
    let purpose = purpose(protection, flags).filter(|_| descriptor >= 0 && flags & libc::MAP_ANONYMOUS == 0);
    if purpose.is_none() && !replaces {
        return real();
    }
    inside(
        || {
            let file = quietly(|| purpose.and_then(|purpose| Some((purpose, file_of(descriptor)?))));
            Some(match file {
                Some((Purpose::Observe, (file, _))) => {
                    // Pages of the file that the version's are laid over need not be read first.
                    let is_shown = quietly(|| observer::has_region(file));
                    let dropped = if is_shown { libc::MAP_POPULATE } else { 0 };
                    let real = || kernel::mmap(address, bytes, protection, flags & !dropped, descriptor, offset);
                    let at = mapped(address, bytes, replaces, real);
                    if is_address(at) && is_shown { observe(file, at, bytes, protection, flags, offset) } else { at }
                }
                Some((Purpose::Produce, (file, stat))) => {
                    let at = mapped(address, bytes, replaces, real);
                    if is_address(at) {
                        quietly(|| {
                            let working = Working::new(file, at, bytes, offset as u64);
                            let readable = protection & libc::PROT_READ != 0;
                            if let Err(problem) = producer::restore(&working, stat.bytes, readable) {
                                complain(&file.path.to_string_lossy(), &problem);
                            }
                            state().insert(at, at + whole_pages(bytes), Use::Working(working));
                        });
                    }
                    at
                }
                None => mapped(address, bytes, replaces, real),
            })
        },
        real,
    )
}

/// The file behind a descriptor, if it lies below `/dev/shm`.
fn file_of(descriptor: c_int) -> Option<(&'static SharedFile, Stat)> {
    let stat = fstat(descriptor).filter(names::may_be_shared)?;
    Some((state().file_of(descriptor, &stat)?, stat))
}

/// Maps by `real`, and forgets what was at the address if that was of concern.
fn mapped(address: usize, bytes: usize, replaces: bool, real: impl FnOnce() -> usize) -> usize {
    if !replaces {
        return real();
    }
    quiesced(&[(address, bytes)], real, |at| is_address(*at), |_, _| ())
}

/// Runs a call that takes these ranges of addresses, of so many bytes each, away from those that had them, unless it fails;
/// and then `after` it. Whoever publishes from them ends first.
fn quiesced<T>(
    ranges: &[(usize, usize)],
    real: impl FnOnce() -> T,
    is_done: impl FnOnce(&T) -> bool,
    after: impl FnOnce(&mut State, &T),
) -> T {
    let ends = |(start, bytes): &(usize, usize)| (*start, start.saturating_add(whole_pages(*bytes)));
    let mut state = state();
    let concerned = ranges.iter().map(ends).flat_map(|(start, end)| state.ranges.overlapping(start, end));
    let workings: Vec<Arc<Working>> = concerned
        .filter_map(|(_, _, value)| match value {
            Use::Working(working) => Some(working),
            Use::View(_) => None,
        })
        .collect();
    let mut files: Vec<&'static SharedFile> = workings.iter().map(|working| working.file).collect();
    files.sort_by_key(|file| std::ptr::from_ref(*file));
    files.dedup_by_key(|file| std::ptr::from_ref(*file));
    let guards: Vec<_> = files.iter().map(|file| lock(&file.producer)).collect();
    let result = real();
    let done = is_done(&result);
    // Whoever waits to publish finds out before it reads what is not there any more.
    workings.iter().filter(|_| done).for_each(|working| working.tear());
    drop((guards, workings));
    quietly(|| {
        if done {
            for (start, end) in ranges.iter().map(ends) {
                drop(state.remove(start, end));
            }
            after(&mut state, &result);
        }
    });
    result
}

fn observe(
    file: &'static SharedFile,
    at: usize,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    offset: off_t,
) -> usize {
    let before = errno();
    let fresh = Fresh { address: at, bytes, offset: offset as u64, protection };
    match observer::show(file, &fresh) {
        Ok(view) => {
            if flags & libc::MAP_POPULATE != 0 {
                // SAFETY: the range was just mapped; the advice reads it in, and is as welcome to fail as the flag is.
                unsafe { libc::madvise(at as *mut c_void, bytes, libc::MADV_POPULATE_READ) };
            }
            if let Some(view) = view {
                state().insert(at, at + whole_pages(bytes), Use::View(Arc::new(view)));
            }
            set_errno(before);
            at
        }
        Err(problem) => {
            kernel::munmap(at, bytes);
            complain(&file.path.to_string_lossy(), &problem);
            set_errno(problem.errno);
            libc::MAP_FAILED as usize
        }
    }
}

/// See munmap(2).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, bytes: size_t) -> c_int {
    let real = || kernel::munmap(address as usize, bytes);
    if !may_concern(address as usize, bytes) {
        return real();
    }
    let unmapped = || quiesced(&[(address as usize, bytes)], real, |result| *result == 0, |_, _| ());
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
    let (address, new_address) = (address as usize, new_address as usize);
    let real = || kernel::mremap(address, bytes, new_bytes, flags, new_address);
    let replaces = flags & libc::MREMAP_FIXED != 0 && may_concern(new_address, new_bytes);
    if !may_concern(address, bytes.max(1)) && !replaces {
        return real() as *mut c_void;
    }
    inside(|| Some(remap(address, bytes, new_bytes, replaces.then_some(new_address), real)), real) as *mut c_void
}

fn remap(
    address: usize,
    bytes: usize,
    new_bytes: usize,
    replaced: Option<usize>,
    real: impl FnOnce() -> usize,
) -> usize {
    let moved = state().ranges.overlapping(address, address.saturating_add(1)).pop().map(|(_, _, value)| value);
    match &moved {
        Some(Use::View(_)) if whole_pages(new_bytes) > whole_pages(bytes) => {
            // What lies behind a version's pages in their planes is not the file's.
            set_errno(libc::ENOMEM);
            return libc::MAP_FAILED as usize;
        }
        // What the region watches is not one piece to the kernel, and only one piece can be moved.
        Some(Use::Working(working)) => quietly(|| drop(lock(&working.file.producer).take())),
        _ => {}
    }
    let ranges = [(address, bytes), (replaced.unwrap_or(0), if replaced.is_some() { new_bytes } else { 0 })];
    quiesced(
        &ranges,
        real,
        |at| is_address(*at),
        |state, at| {
            let value = match moved {
                Some(Use::Working(old)) => {
                    let offset = old.offset + (address - old.address) as u64;
                    Some(Use::Working(old.moved(*at, new_bytes, offset)))
                }
                other => other,
            };
            if let Some(value) = value {
                state.insert(*at, *at + whole_pages(new_bytes), value);
            }
        },
    )
}

/// See mprotect(2).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(address: *mut c_void, bytes: size_t, protection: c_int) -> c_int {
    let real = || kernel::mprotect(address as usize, bytes, protection);
    if !may_concern(address as usize, bytes) {
        return real();
    }
    inside(|| Some(protect(address as usize, bytes, protection, real)), real)
}

fn protect(address: usize, bytes: usize, protection: c_int, real: impl FnOnce() -> c_int) -> c_int {
    let readable = protection & (libc::PROT_READ | libc::PROT_WRITE) != 0;
    let concerned = state().ranges.overlapping(address, address.saturating_add(whole_pages(bytes)));
    let workings: Vec<Arc<Working>> = concerned
        .into_iter()
        .filter_map(|(_, _, value)| match value {
            Use::Working(working) => Some(working),
            Use::View(_) => None,
        })
        .collect();
    if !readable {
        // Whoever publishes ends first, and nobody begins.
        for working in &workings {
            working.set_readable(false);
            drop(lock(&working.file.producer));
        }
    }
    let result = real();
    if readable == (result == 0) {
        workings.iter().for_each(|working| working.set_readable(true));
    }
    result
}

/// See msync(2). With `MS_UPDATE` (8) in the flags, the pages of a writable private mapping of a file below `/dev/shm` that
/// the range touches are published.
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msync(address: *mut c_void, bytes: size_t, flags: c_int) -> c_int {
    let real = || kernel::msync(address as usize, bytes, flags);
    if !producer::is_publish(flags) || !may_concern(address as usize, bytes.max(1)) {
        return real();
    }
    inside(|| publish(address as usize, bytes, flags), real)
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
    let found = state().ranges.overlapping(start, end.max(start + 1));
    let workings = found.into_iter().filter_map(|(from, to, value)| match value {
        Use::Working(working) => Some((from, to, working)),
        Use::View(_) => None,
    });
    let (mut at, mut is_any) = (start, false);
    for (from, to, working) in workings {
        is_any = true;
        let range = from.max(start)..to.min(end);
        if range.is_empty() {
            continue;
        }
        if range.start == at {
            at = range.end;
        }
        if let Err(problem) = producer::publish(&working, range) {
            complain(&working.file.path.to_string_lossy(), &problem);
            return fail(problem.errno);
        }
    }
    set_errno(before);
    match is_any {
        false => None,
        true if at < end => fail(libc::ENOMEM),
        true => Some(0),
    }
}
