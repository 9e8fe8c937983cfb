//! What the program and its libraries were loaded with: `.data` and `.bss`, where Fortran's COMMON blocks and static
//! arrays lie.

use crate::count;
use crate::kernel::{Advice, PAGE_BYTES, WINDOW_BYTES, advise, quietly};
use crate::pieces::{self, Purpose, Window};
use crate::plain;
use crate::pool;
use crate::windows;
use libc::{c_int, c_void, size_t};
use std::ops::Range;

/// A segment with less of whole windows stays as it is.
const LEAST_BYTES: usize = 2 * WINDOW_BYTES;

/// Moves the writable segments of all that is loaded to pages of the pool.
///
/// # Safety
/// No thread but this one runs, and no code of the program.
pub unsafe fn move_all() {
    // SAFETY: the function is called with what is loaded, one after the other.
    unsafe { libc::dl_iterate_phdr(Some(move_segments), std::ptr::null_mut()) };
}

unsafe extern "C" fn move_segments(info: *mut libc::dl_phdr_info, _: size_t, _: *mut c_void) -> c_int {
    // SAFETY: the linker gives headers that are there, with their number.
    let (base, headers) = unsafe {
        let info = &*info;
        (info.dlpi_addr as usize, std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)))
    };
    let range = |header: &libc::Elf64_Phdr| {
        let begin = base + header.p_vaddr as usize;
        begin..begin + header.p_memsz as usize
    };
    // What the linker protected after it had written it.
    let protected = headers.iter().find(|header| header.p_type == libc::PT_GNU_RELRO).map(range).unwrap_or(0..0);
    // What is written and run, too, would have to keep its protection.
    let is_data = |header: &&libc::Elf64_Phdr| {
        header.p_type == libc::PT_LOAD && header.p_flags & (libc::PF_W | libc::PF_X) == libc::PF_W
    };
    for header in headers.iter().filter(is_data) {
        let segment = range(header);
        let begin = if protected.contains(&segment.start) { protected.end } else { segment.start };
        move_segment(begin..segment.end);
    }
    0
}

fn move_segment(segment: Range<usize>) {
    let whole = |unit: usize| segment.start.next_multiple_of(unit)..segment.end / unit * unit;
    let range = whole(WINDOW_BYTES);
    if range.len() < LEAST_BYTES {
        return;
    }
    quietly(|| {
        count::is_large_with(range.len());
        // What is read there before it was ever written is a large page of zeros then.
        let _ = advise(range.start, range.len(), Advice::Large);
        match pool::open() {
            Ok(pool) => to_pool(whole(pool.page_bytes), &pool),
            Err(refusal) => pool::complain(refusal),
        }
        plain::fill(range.start, range.len());
    });
}

/// Fills what it can from the pool.
fn to_pool(range: Range<usize>, pool: &pool::Open) {
    if range.is_empty() {
        return;
    }
    let Ok(piece) = pieces::add(Purpose::Loaded, range.start, range.len()) else { return };
    let _held = windows::lock().hold();
    let mut at = range.start;
    while at < range.end {
        // SAFETY: the segment's own memory, which no other thread writes: no thread but this one runs.
        let placed = unsafe { pool.place(at, range.end - at, |to, bytes| copy(at, to, bytes)) };
        match placed {
            Ok(bytes) => {
                let first = (at - range.start) / WINDOW_BYTES;
                piece.set(first..first + bytes / WINDOW_BYTES, Window::Pool);
                count::add_pool(bytes);
                count::LOADED.add(bytes);
                at += bytes;
            }
            Err(refusal) => {
                count::REFUSED.add(range.end - at);
                pool::complain(refusal);
                break;
            }
        }
    }
}

/// Copies what is not zero into memory that is.
fn copy(from: usize, to: usize, bytes: usize) {
    for at in (0..bytes).step_by(PAGE_BYTES) {
        // SAFETY: the segment is mapped there, and nobody writes it; the copy's place was mapped for it.
        unsafe {
            let page = std::slice::from_raw_parts((from + at) as *const u8, PAGE_BYTES);
            if page.iter().any(|byte| *byte != 0) {
                std::ptr::copy_nonoverlapping(page.as_ptr(), (to + at) as *mut u8, PAGE_BYTES);
            }
        }
    }
}
