//! The files behind segments that were moved to the pool. A program that gives up pages of them (`MADV_DONTNEED`) finds there what the file
//! has, as madvise(2) says of private mappings of files, and not zeros.

use crate::kernel::{Descriptor, Errno, PAGE_BYTES, map_file, read_own};
use crate::loaded::Object;
use crate::pieces::{self, Window};
use crate::windows;
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

/// Whether any of a range may be backed: asked without the lock, for most of what is given up is not.
fn is_backed(range: &Range<usize>) -> bool {
    BACKINGS.iter().any(|backing| !backing.part(range).is_empty())
}

fn free() -> Option<&'static Backing> {
    BACKINGS.iter().find(|backing| backing.range().is_empty())
}

/// Maps what a segment's file has of a range of whole pages in it; `false` where that cannot be, and the segment is to stay as it is.
pub fn keep(object: &Object<'_>, header: &libc::Elf64_Phdr, range: &Range<usize>) -> bool {
    // The file and the segment begin at the same place of a page.
    let segment = object.range(header).start;
    let inside = segment % PAGE_BYTES;
    let begin = segment - inside;
    let end = (segment + header.p_filesz as usize).next_multiple_of(PAGE_BYTES).min(range.end);
    if end <= range.start {
        return true;
    }
    let Some(offset) = (header.p_offset as usize).checked_sub(inside) else { return false };
    let _held = windows::lock().hold();
    let Some((file, backing)) = object.open().zip(free()) else { return false };
    let Ok(at) = map_file(offset + (end - begin), libc::PROT_READ, libc::MAP_PRIVATE, file.0) else { return false };
    backing.set(range.start..end, at + offset + (range.start - begin));
    true
}

/// Puts into pages that were given up what their file has, where they lie in memory that replaced it. Nobody else can have the addresses.
pub fn restore(range: Range<usize>) -> Result<(), Errno> {
    if !is_backed(&range) {
        return Ok(());
    }
    let _held = windows::lock().hold();
    let range = range.start..range.end.next_multiple_of(PAGE_BYTES);
    let mut memory = None;
    for backing in &BACKINGS {
        for page in backing.part(&range).step_by(PAGE_BYTES).filter(|page| was_moved(*page)) {
            let mut content = [0; PAGE_BYTES];
            read_own(backing.of(page), &mut content)?;
            if content.iter().all(|byte| *byte == 0) {
                continue;
            }
            if memory.is_none() {
                memory = Some(Descriptor::open(c"/proc/self/mem", libc::O_RDWR)?);
            }
            // By the kernel, for the program may have protected the page.
            memory.iter().try_for_each(|memory| memory.write_at(&content, page))?;
        }
    }
    Ok(())
}

/// Whether a page is no longer the kernel's mapping of the file.
fn was_moved(page: usize) -> bool {
    pieces::find(page).is_some_and(|piece| {
        let window = piece.touched(&(page..page + 1)).start;
        piece.window(window) != Window::Reserved
    })
}

/// Forgets a range in which the program maps something else.
pub fn forget(range: Range<usize>) {
    if !is_backed(&range) {
        return;
    }
    let _held = windows::lock().hold();
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
}
