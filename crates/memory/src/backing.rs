//! The files behind segments that were moved to the pool. A program that gives up pages of them (`MADV_DONTNEED`) finds there what the file
//! has, as madvise(2) says of private mappings of files, and not zeros.

use crate::count;
use crate::kernel::{Descriptor, Errno, PAGE_BYTES, copy_own, map_file};
use crate::loaded::Object;
use crate::pieces::{self, Window};
use crate::windows;
use libc::c_int;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A part of a segment, and where this library has mapped the same part of its file. It ends where it begins if there is none.
struct Backing {
    begin: AtomicUsize,
    end: AtomicUsize,
    file: AtomicUsize,
}

/// Read and changed by who has the lock of `windows`. With all of them taken no further segment is moved.
static BACKINGS: [Backing; 64] =
    [const { Backing { begin: AtomicUsize::new(0), end: AtomicUsize::new(0), file: AtomicUsize::new(0) } }; 64];
/// The addresses between which all of them lie. Set before the program runs, and asked without the lock: most of what is given up is not there.
static LOWEST: AtomicUsize = AtomicUsize::new(usize::MAX);
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

impl Backing {
    fn range(&self) -> Range<usize> {
        self.begin.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed)
    }

    fn set(&self, range: Range<usize>, file: usize) {
        self.begin.store(range.start, Ordering::Relaxed);
        self.end.store(range.end, Ordering::Relaxed);
        self.file.store(file, Ordering::Relaxed);
    }

    /// The part of a range that lies in it.
    fn part(&self, range: &Range<usize>) -> Range<usize> {
        let own = self.range();
        own.start.max(range.start)..own.end.min(range.end)
    }

    /// Where the file's page is that lay there.
    fn of(&self, page: usize) -> usize {
        self.file.load(Ordering::Relaxed) + (page - self.begin.load(Ordering::Relaxed))
    }
}

fn free() -> Option<&'static Backing> {
    BACKINGS.iter().find(|backing| backing.range().is_empty())
}

/// Whether any of a range may be backed.
pub fn may_have(range: &Range<usize>) -> bool {
    range.start < HIGHEST.load(Ordering::Relaxed) && range.end > LOWEST.load(Ordering::Relaxed)
}

/// Maps what a segment's file has of a range of whole pages in it; `false` where that cannot be, and the segment is to stay as it is.
pub fn keep(object: &Object<'_>, header: &libc::Elf64_Phdr, range: &Range<usize>) -> bool {
    // The file and the segment begin at the same place of a page.
    let segment = object.range(header).start;
    let inside = segment % PAGE_BYTES;
    let end = (segment + header.p_filesz as usize).next_multiple_of(PAGE_BYTES).min(range.end);
    if end <= range.start {
        return true;
    }
    let map = || {
        let offset = (header.p_offset as usize).checked_sub(inside)? + (range.start - (segment - inside));
        let (file, backing) = (object.open()?, free()?);
        let at = map_file(end - range.start, libc::PROT_READ, libc::MAP_PRIVATE, file.0, offset).ok()?;
        Some((backing, at))
    };
    let Some((backing, at)) = map() else {
        count::REFUSED.add(range.len());
        return false;
    };
    backing.set(range.start..end, at);
    LOWEST.fetch_min(range.start, Ordering::Relaxed);
    HIGHEST.fetch_max(end, Ordering::Relaxed);
    true
}

/// Gives up a range of pages, of which some may be backed: these get what their file has, and `others` gives up the rest.
pub fn give_up(range: Range<usize>, mut others: impl FnMut(usize, usize) -> c_int) -> c_int {
    let end = range.end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(range.end);
    let (mut at, mut result) = (range.start, 0);
    while at < end {
        let backed = windows::lock().during(|| {
            let part = next_part(&(at..end));
            part.map(|part| restore(&part).map(|()| part.clone()).map_err(|errno| (part, errno)))
        });
        let part = match &backed {
            None => end..end,
            Some(Ok(part) | Err((part, _))) => part.clone(),
        };
        if part.start > at && others(at, part.start - at) != 0 {
            result = -1;
        }
        if let Some(Err((_, errno))) = backed {
            crate::kernel::set_errno(errno);
            result = -1;
        }
        at = part.end;
    }
    result
}

/// The first part of a range whose pages are backed, and lie in memory that replaced the file's.
fn next_part(range: &Range<usize>) -> Option<Range<usize>> {
    let parts = BACKINGS.iter().filter_map(|backing| {
        let mut pages = backing.part(range).step_by(PAGE_BYTES);
        let first = pages.find(|page| was_moved(*page))?;
        let last = pages.take_while(|page| was_moved(*page)).last().unwrap_or(first);
        Some(first..last + PAGE_BYTES)
    });
    parts.min_by_key(|part| part.start)
}

/// Whether a page is no longer the kernel's mapping of the file.
fn was_moved(page: usize) -> bool {
    pieces::find(page).is_some_and(|piece| {
        let window = piece.touched(&(page..page + 1)).start;
        piece.window(window) != Window::Reserved
    })
}

/// Writes what the file has of pages that are all backed by one. A page for which that cannot be stays as it is.
fn restore(part: &Range<usize>) -> Result<(), Errno> {
    let Some(backing) = BACKINGS.iter().find(|backing| backing.part(part) == *part) else { return Ok(()) };
    for page in part.clone().step_by(PAGE_BYTES) {
        // SAFETY: the caller gives up what is there, and the call checks both.
        match unsafe { copy_own(backing.of(page), page, PAGE_BYTES) } {
            // The program may have protected the page, which this file passes over.
            Err(libc::EFAULT) => Descriptor::open(c"/proc/self/mem", libc::O_RDWR)?.write_at(backing.of(page), page)?,
            done => done?,
        }
    }
    Ok(())
}

/// Forgets a range in which the program maps something else.
pub fn forget(range: Range<usize>) {
    if !may_have(&range) {
        return;
    }
    windows::lock().during(|| {
        for backing in &BACKINGS {
            let (own, part) = (backing.range(), backing.part(&range));
            if part.is_empty() {
                continue;
            }
            let above = part.end.next_multiple_of(PAGE_BYTES)..own.end;
            if let Some(rest) = free().filter(|_| !above.is_empty()) {
                rest.set(above.clone(), backing.of(above.start));
            }
            backing.end.store(part.start, Ordering::Relaxed);
        }
    });
}
