//! Producers: writable private mappings of a file, published by `msync`.

use crate::file::{Publishing, Working};
use crate::fork::state;
use crate::holes;
use crate::kernel::{self, MS_UPDATE, PAGE_BYTES, whole_pages};
use crate::lock::lock;
use crate::observer;
use crate::publishing::Part;
use crate::report::Problem;
use crate::state::Extent;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of the file that are compared at once with what was published.
const COMPARED_BYTES: usize = 64 * PAGE_BYTES;

/// Why a mapping has not the content that was published last.
pub enum Unrestored {
    /// It has the file's.
    Not(Problem),
    /// There is no room for it, or it has a part of it.
    Partly(Problem),
}

/// Gives a new writable mapping of an open file the content that was published last, which on TCASM's kernel would be the
/// file's.
pub fn restore(working: &Working, descriptor: i32, file_bytes: u64) -> Result<(), Unrestored> {
    if !observer::has_region(&working.file) {
        return Ok(());
    }
    let mut is_written = false;
    restore_newest(working, descriptor, file_bytes, &mut is_written).map_err(|problem| match is_written {
        true => Unrestored::Partly(problem),
        false => Unrestored::Not(problem),
    })
}

fn restore_newest(working: &Working, descriptor: i32, file_bytes: u64, is_written: &mut bool) -> Result<(), Problem> {
    let newest = observer::newest(&working.file, &mut lock(&working.file.observer))?;
    let Some(snapshot) = newest else { return Ok(()) };
    let mut compared = vec![0; COMPARED_BYTES];
    for (name, at, start, end) in observer::overlap(&snapshot, working.offset, working.bytes) {
        // Behind the end of the file there is nothing that could be touched.
        let end = end
            .min(whole_pages(file_bytes as usize) as u64)
            .min(at.saturating_add(snapshot.variable(&name)?.bytes as u64));
        if start >= end {
            continue;
        }
        for chunk in snapshot.chunks_in(&name, (start - at) as usize..(end - at) as usize)? {
            for (index, published) in chunk.bytes.chunks(COMPARED_BYTES).enumerate() {
                let offset = at + (chunk.offset + index * COMPARED_BYTES) as u64;
                let address = working.address + (offset - working.offset) as usize;
                for pages in differing_pages(descriptor, offset, published, &mut compared[..published.len()])? {
                    *is_written = true;
                    write(address + pages.start, &published[pages])?;
                }
            }
        }
    }
    working.base.store(snapshot.version(), Ordering::Release);
    Ok(())
}

/// The runs of pages in which a file differs from what was published of it from `offset` on. The file is read, and not the
/// mapping: pages that are as in the file need no memory of their own, and holes none of the file's.
fn differing_pages(
    descriptor: i32,
    offset: u64,
    published: &[u8],
    present: &mut [u8],
) -> Result<Vec<Range<usize>>, Problem> {
    let count = kernel::read_at(descriptor, present, offset)
        .map_err(|errno| Problem::new(errno, format!("the file cannot be read at {offset}")))?;
    // What the file has not any more are zeros where its last page is mapped.
    present[count..].fill(0);
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while at < published.len() {
        let end = (at + PAGE_BYTES - (offset as usize + at) % PAGE_BYTES).min(published.len());
        if present[at..end] != published[at..end] {
            match runs.last_mut() {
                Some(last) if last.end == at => last.end = end,
                _ => runs.push(at..end),
            }
        }
        at = end;
    }
    Ok(runs)
}

/// Writes into a mapping that nobody was told of yet. It is an error where there is no memory for it, or the file lost its end.
fn write(address: usize, bytes: &[u8]) -> Result<(), Problem> {
    let first = address / PAGE_BYTES * PAGE_BYTES;
    let length = whole_pages(address + bytes.len() - first);
    // SAFETY: the pages are of a new mapping that is to be written; the advice has an error where a write would be a signal.
    let populated = unsafe { libc::madvise(first as *mut libc::c_void, length, libc::MADV_POPULATE_WRITE) };
    match kernel::errno() {
        _ if populated == 0 => {}
        // Linux before 5.14 does not know it.
        libc::EINVAL => {}
        libc::EFAULT => {
            let text = format!("there is no room for {length} bytes of the file, which a private mapping of it takes");
            return Err(Problem::new(libc::ENOSPC, text));
        }
        errno => return Err(Problem::new(errno, format!("there is no memory for {length} bytes of a mapping"))),
    }
    // SAFETY: the mapping is writable and its pages are there.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    Ok(())
}

/// Publishes the pages of a mapping that a range of addresses touches.
pub fn publish(working: &Arc<Working>, addresses: Range<usize>) -> Result<(), Problem> {
    let file = &working.file;
    let mut place = lock(&file.producer);
    // Whoever unmaps a part of it, or takes the right to read it, has the lock meanwhile.
    let extent = state().extent(working);
    match extent {
        Extent::Whole => {}
        Extent::Unreadable => {
            let text = "a part of this mapping may not be read: publish before mprotect forbids it";
            return Err(Problem::new(libc::EACCES, text));
        }
        Extent::Torn => {
            let text = "a part of this mapping was unmapped or replaced meanwhile: publish what is left";
            return Err(Problem::new(libc::EINVAL, text));
        }
    }
    let Some(there) = file.metadata() else {
        return Err(Problem::new(
            libc::ENOENT,
            "the file was removed or renamed, so that nobody would find what is published: map it anew",
        ));
    };
    // The kernel maps whole pages, as far as the file goes.
    let bytes = (whole_pages(working.bytes) as u64).min(there.len().saturating_sub(working.offset)) as usize;
    let range = addresses.start - working.address..(addresses.end - working.address).min(bytes);
    if range.start >= bytes {
        let text = format!("the file has {} bytes, none of them here: give it a length by ftruncate", there.len());
        return Err(Problem::new(libc::EINVAL, text));
    }
    let is_sparse = holes::may_be_sparse(&there);
    let publishing = match &mut *place {
        Some(publishing) => publishing,
        None => place.insert(Publishing::open(working)?),
    };
    publishing.publish(Part { working, bytes, range, is_sparse })
}

/// The flags of msync that can go together with [`MS_UPDATE`].
pub const FLAGS: libc::c_int = MS_UPDATE | libc::MS_SYNC | libc::MS_ASYNC | libc::MS_INVALIDATE;

/// Whether a call of msync asks to publish.
pub fn is_publish(flags: libc::c_int) -> bool {
    flags & MS_UPDATE != 0
}
