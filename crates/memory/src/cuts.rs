//! What the program changes in how memory of the heap is mapped.

use crate::files::is_anonymous;
use crate::kernel::{self, Advice, Errno, PAGE_BYTES, READ_WRITE, WINDOW_BYTES, advise, map, move_over, unmap};
use crate::next;
use crate::pieces::{self, Piece, Purpose, Window};
use crate::windows;
use std::ops::Range;

/// The parts of a range that are addresses of the heap, each with its piece.
pub fn of_heap(address: usize, bytes: usize) -> impl Iterator<Item = (Piece, Range<usize>)> {
    let range = address..address.saturating_add(bytes);
    pieces::all().filter(|piece| piece.purpose != Purpose::Loaded).filter_map(move |piece| {
        let part = range.start.max(piece.address)..range.end.min(piece.end());
        (!part.is_empty()).then_some((piece, part))
    })
}

/// Notes that the program changed how some memory of the heap is mapped, or what is mapped there: whoever gets it next is to
/// find memory.
pub fn note_cut(address: usize, bytes: usize) {
    for (piece, part) in of_heap(address, bytes) {
        piece.set_cut(piece.touched(&part), true);
    }
}

/// Whether all of a range of whole pages is of the heap, and there is any.
pub fn is_of_heap(address: usize, bytes: usize) -> bool {
    let is_whole = bytes > 0 && address.is_multiple_of(PAGE_BYTES) && bytes.is_multiple_of(PAGE_BYTES);
    is_whole && of_heap(address, bytes).any(|(_, part)| part.len() == bytes)
}

/// Whether the program changed how some of a range of the heap is mapped.
pub fn is_cut(address: usize, bytes: usize) -> bool {
    of_heap(address, bytes).any(|(piece, part)| piece.touched(&part).any(|window| piece.is_cut(window)))
}

/// Takes addresses of the heap back that the kernel was told to give up.
pub fn take_back(address: usize, bytes: usize) {
    for (_, part) in of_heap(address, bytes) {
        kernel::reserve_free(part.start, part.len());
    }
}

/// Moves memory of the heap elsewhere, where `then` does with it what it wants and says where it went. The addresses stay this
/// library's. Where it cannot all is as it was.
pub fn move_out(address: usize, bytes: usize, then: impl Fn(usize) -> Result<usize, Errno>) -> Result<usize, Errno> {
    let is_changed = is_changed(address, bytes);
    note_cut(address, bytes);
    match move_out_by(address, bytes, Way::Moved, &then) {
        // What became ordinary memory in several parts is several mappings, of which the kernel does not make one. Nor where the program
        // changed some and changed it back.
        Err(libc::EFAULT) if !is_changed || is_anonymous(&(address..address + bytes)) => {
            move_out_by(address, bytes, Way::Copied, &then)
        }
        done => done,
    }
}

/// How memory comes to another place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// With all that the program did to it.
    Moved,
    /// As new ordinary memory.
    Copied,
}

fn move_out_by(
    address: usize,
    bytes: usize,
    way: Way,
    then: impl Fn(usize) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let at = map(bytes, READ_WRITE, libc::MAP_PRIVATE)?;
    let _ = advise(at, bytes, Advice::Large);
    // SAFETY: the one place was just mapped, and the other is this library's, whose memory the caller wants elsewhere. What is
    // copied is ordinary memory that the program did not change.
    unsafe {
        match way {
            Way::Moved => kernel::move_and_keep(address, bytes, at),
            Way::Copied => {
                kernel::copy_nonzero(address, at, bytes);
                Ok(())
            }
        }
        .and_then(|()| {
            then(at).inspect_err(|_| {
                if way == Way::Moved {
                    let _ = move_over(at, bytes, address);
                }
            })
        })
        .inspect_err(|_| unmap(at, bytes))
        .inspect(|_| {
            let _ = kernel::reserve(address, bytes);
        })
    }
}

/// Whether some of this range of the heap is not as this library mapped ordinary memory.
fn is_changed(address: usize, bytes: usize) -> bool {
    let is_changed = |piece: &Piece, window| piece.is_cut(window) || piece.window(window) != Window::Plain;
    of_heap(address, bytes).any(|(piece, part)| piece.touched(&part).any(|window| is_changed(&piece, window)))
}

/// Takes back what a forked child has not got of its parent's heap (MADV_DONTFORK): the program's own mappings would come to
/// lie there.
pub fn take_holes_back() {
    for piece in pieces::all().filter(|piece| piece.purpose != Purpose::Loaded) {
        for window in (0..piece.windows).filter(|window| piece.is_cut(*window)) {
            take_free_back(piece.address_of(window), WINDOW_BYTES);
        }
    }
}

/// Takes the free addresses of a range back, which is halved until its parts are either free or not.
fn take_free_back(address: usize, bytes: usize) {
    if kernel::is_mapped(address, bytes) || kernel::reserve_free(address, bytes) || bytes <= PAGE_BYTES {
        return;
    }
    take_free_back(address, bytes / 2);
    take_free_back(address + bytes / 2, bytes / 2);
}

/// Says to libraries that have memory registered with a device that what the program changed of a range goes. Nobody has it, and who calls this
/// has no lock: they may ask for memory, or free some.
pub fn announce_loss(address: usize, bytes: usize) {
    for (piece, part) in of_heap(address, bytes) {
        let is_lost = |window: &usize| piece.is_cut(*window) && piece.window(*window) == Window::Plain;
        for window in piece.touched(&part).filter(is_lost) {
            let (begin, end) = (piece.address_of(window).max(part.start), piece.address_of(window + 1).min(part.end));
            next::madvise(begin, end - begin, libc::MADV_DONTNEED);
        }
    }
}

/// Has memory be as if it were new where the program changed how it is mapped. Nobody has it. Says whether it can be used.
pub fn renew(address: usize, bytes: usize) -> bool {
    let Some(piece) = pieces::find(address) else { return true };
    let range = address..address + bytes;
    let among = piece.touched(&range);
    if !among.clone().any(|window| piece.is_cut(window)) {
        return true;
    }
    windows::lock().during(|| {
        among.filter(|window| piece.is_cut(*window)).all(|window| {
            let all = piece.address_of(window)..piece.address_of(window + 1);
            let part = range.start.max(all.start)..range.end.min(all.end);
            // What is cut is ordinary memory, or what the program mapped where none was.
            // SAFETY: the piece is this library's, and nobody has this part of it.
            let is_new = unsafe {
                match piece.window(window) {
                    Window::Plain => kernel::renew(part.start, part.len()).is_ok(),
                    Window::Reserved => kernel::reserve(part.start, part.len()).is_ok(),
                    Window::Pool => true,
                }
            };
            if is_new && part == all {
                piece.set_cut(window..window + 1, false);
            }
            is_new
        })
    })
}
