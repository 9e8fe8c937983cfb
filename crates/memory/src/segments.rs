//! What the program and its libraries were loaded with: `.data` and `.bss`, where Fortran's COMMON blocks and static
//! arrays lie.

use crate::backing;
use crate::count;
use crate::kernel::{Advice, WINDOW_BYTES, advise, copy_nonzero, quietly};
use crate::loaded;
use crate::pieces::{self, Purpose, Window};
use crate::plain;
use crate::pool;
use crate::setting;
use crate::windows;
use std::ops::Range;

/// A segment with less of whole windows stays as it is.
const LEAST_BYTES: usize = 2 * WINDOW_BYTES;

/// Moves the writable segments of all that is loaded to pages of the pool.
///
/// # Safety
/// No thread but this one runs, and no code of the program.
pub unsafe fn move_all() {
    loaded::each(|object| {
        // What the linker protected after it had written it.
        let protected = object.headers.iter().find(|header| header.p_type == libc::PT_GNU_RELRO);
        let protected = protected.map_or(0..0, |header| object.range(header));
        // What is written and run, too, would have to keep its protection.
        for header in object.segments(libc::PF_W | libc::PF_X, libc::PF_W) {
            let segment = object.range(header);
            let begin = if protected.contains(&segment.start) { protected.end } else { segment.start };
            move_segment(begin..segment.end, |range| backing::keep(object, header, range));
        }
    });
}

/// Moves a segment of which `keep` keeps what it has to.
fn move_segment(segment: Range<usize>, keep: impl Fn(&Range<usize>) -> bool) {
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
            Ok(pool) => {
                let range = whole(pool.page_bytes);
                if !range.is_empty() && keep(&range) {
                    to_pool(range, &pool);
                }
            }
            Err(refusal) => {
                pool::note(refusal);
                refuse_start();
            }
        }
        plain::fill(range.start, range.len());
        pool::complain();
    });
}

/// Ends the process, of which nothing has run yet, where what it was loaded with has to lie in the pool and cannot.
fn refuse_start() {
    if setting::is_strict() {
        pool::complain();
        // SAFETY: ends the process.
        unsafe { libc::syscall(libc::SYS_exit_group, 1) };
    }
}

/// Fills what it can from the pool.
fn to_pool(range: Range<usize>, pool: &pool::Open) {
    let Ok(piece) = pieces::add(Purpose::Loaded, range.start, range.len()) else { return };
    let _held = windows::lock().hold();
    let mut at = range.start;
    while at < range.end {
        // SAFETY: the segment's own memory, which no other thread writes: no thread but this one runs. The copy's place was mapped
        // for it, and is zeros.
        let placed = unsafe { pool.place(at, range.end - at, |to, bytes| copy_nonzero(at, to, bytes)) };
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
                pool::note(refusal);
                refuse_start();
                break;
            }
        }
    }
}
