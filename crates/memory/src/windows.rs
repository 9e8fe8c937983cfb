//! Filling windows, and making ordinary memory of them.

use crate::count;
use crate::guard::Guard;
use crate::kernel::{
    Advice, Errno, READ_WRITE, WINDOW_BYTES, advise, map, move_over, protect, put_back, quietly, unmap,
};
use crate::lock::Lock;
use crate::pieces::{self, Piece, Purpose, Window};
use crate::plain;
use crate::pool::{self, Open, Refusal};
use crate::say::say;
use crate::stacks;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Who has it may change what windows are. Held across `fork`.
static CHANGE: Lock = Lock::new();

pub fn lock() -> &'static Lock {
    &CHANGE
}

/// How windows are to be filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// With ordinary memory that comes when it is touched: the allocator's own notes.
    Notes,
    /// From the pool, once the process is no longer small.
    Large,
}

/// Makes memory of a range of addresses of a piece, which then can be written. What is there already stays.
pub fn fill(address: usize, bytes: usize, want: Want) -> bool {
    let Some(piece) = pieces::find(address) else { return false };
    quietly(|| {
        let _held = CHANGE.hold();
        let among = piece.touched(&(address..address.saturating_add(bytes)));
        let missing = among.clone().filter(|window| piece.window(*window) == Window::Reserved).count() * WINDOW_BYTES;
        let is_done = match (missing, source(missing, want)) {
            (0, _) => true,
            (_, Source::Touched) if want == Want::Notes && count::is_large() => {
                each_reserved(&piece, among, |run| make_plain(&piece, run, true))
            }
            (_, Source::Touched) => each_reserved(&piece, among, |run| make_plain(&piece, run, false)),
            (_, Source::Refused(refusal)) => {
                pool::complain(refusal);
                count::REFUSED.add(missing);
                each_reserved(&piece, among, |run| make_plain(&piece, run, true))
            }
            (_, Source::Pool(mut pool)) => each_reserved(&piece, among, |run| from_pool(&piece, run, &mut pool)),
        };
        if missing > 0 && count::is_large() {
            grow_up();
        }
        is_done
    })
}

/// Fills, once, what a process had when it was small. The caller has the lock.
fn grow_up() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    stacks::fill_main_once();
    if IS_DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    for piece in pieces::all().filter(|piece| piece.purpose == Purpose::Heap) {
        let mut at = 0;
        while let Some(run) = piece.run(at..piece.windows, Window::Plain) {
            at = run.end;
            plain::gather(piece.address_of(run.start), run.len() * WINDOW_BYTES);
        }
    }
}

/// Where memory is to come from.
enum Source {
    /// Ordinary memory, when it is touched.
    Touched,
    Pool(Open),
    /// Ordinary memory at once, as there is nothing in the pool.
    Refused(Refusal),
}

fn source(bytes: usize, want: Want) -> Source {
    if bytes == 0 || want == Want::Notes || !count::is_large_with(bytes) {
        return Source::Touched;
    }
    match pool::open() {
        Err(Refusal::None) => Source::Touched,
        Err(refusal) => Source::Refused(refusal),
        // Who asks for more than there is will touch little of it.
        Ok(pool) if bytes > plain::available_bytes().saturating_add(pool.free_bytes) => Source::Touched,
        Ok(pool) => Source::Pool(pool),
    }
}

/// Runs `work` on each run of windows that have no memory, until it fails.
fn each_reserved(piece: &Piece, among: Range<usize>, mut work: impl FnMut(Range<usize>) -> bool) -> bool {
    let mut at = among.start;
    while let Some(run) = piece.run(at..among.end, Window::Reserved) {
        at = run.end;
        if !work(run) {
            return false;
        }
    }
    true
}

fn make_plain(piece: &Piece, run: Range<usize>, is_filled: bool) -> bool {
    let (address, bytes) = (piece.address_of(run.start), run.len() * WINDOW_BYTES);
    if run.is_empty() {
        return true;
    }
    // SAFETY: addresses that were reserved for this, and that nobody has yet.
    if unsafe { protect(address, bytes, READ_WRITE) }.is_err() {
        return false;
    }
    piece.set(run, Window::Plain);
    count::HEAP_PLAIN.add(bytes);
    if is_filled {
        plain::fill(address, bytes);
    }
    true
}

/// Fills a run from the pool, and what the pool has not with ordinary memory.
fn from_pool(piece: &Piece, run: Range<usize>, pool: &mut Open) -> bool {
    let page = pool.page_bytes / WINDOW_BYTES;
    let align = |window: usize| piece.address_of(window).next_multiple_of(pool.page_bytes);
    let first = ((align(run.start) - piece.address) / WINDOW_BYTES).min(run.end);
    let mut end = with_next(piece, run.end, pool);
    end = first + (end - first) / page * page;
    if !make_plain(piece, run.start..first, true) {
        return false;
    }
    let mut at = first;
    while at < end {
        let bytes = (end - at) * WINDOW_BYTES;
        // SAFETY: addresses that were reserved for this, and that nobody has yet.
        match unsafe { pool.place(piece.address_of(at), bytes, |_, _| {}) } {
            Ok(placed) => {
                piece.set(at..at + placed / WINDOW_BYTES, Window::Pool);
                count::add_pool(placed);
                pool.free_bytes -= placed.min(pool.free_bytes);
                at += placed / WINDOW_BYTES;
            }
            Err(refusal) => {
                if at < run.end {
                    pool::complain(refusal);
                    count::REFUSED.add((run.end - at) * WINDOW_BYTES);
                }
                break;
            }
        }
    }
    at >= run.end || make_plain(piece, at..run.end, true)
}

/// The end of a run, and some of the windows behind it: a mapping cannot be joined to the next, and a process has only
/// so many. Of pages of 1 GiB at least the whole page.
fn with_next(piece: &Piece, end: usize, pool: &Open) -> usize {
    let ahead = (count::POOL.get() / 8).min(pool.free_bytes / 16) / WINDOW_BYTES;
    let whole = piece.address_of(end).next_multiple_of(pool.page_bytes);
    let wanted = (end + ahead).max((whole - piece.address) / WINDOW_BYTES).min(piece.windows);
    (end..wanted).find(|window| piece.window(*window) != Window::Reserved).unwrap_or(wanted)
}

/// Whether any of these addresses lies in a page of the pool.
pub fn touches_pool(address: usize, bytes: usize) -> bool {
    let range = address..address.saturating_add(bytes);
    pieces::all().any(|piece| piece.run(piece.touched(&range), Window::Pool).is_some())
}

/// Whether all of these addresses lie in pages of the pool.
pub fn is_in_pool(address: usize, bytes: usize) -> bool {
    let range = address..address.saturating_add(bytes);
    pieces::find(address).is_some_and(|piece| {
        let among = piece.touched(&range);
        range.end <= piece.end() && piece.run(among.clone(), Window::Pool) == Some(among)
    })
}

/// Makes ordinary memory of all pages of the pool that a range touches, with what is in them: the kernel cannot cut
/// large pages.
pub fn soften(address: usize, bytes: usize) -> Result<(), Errno> {
    if !touches_pool(address, bytes) {
        return Ok(());
    }
    let _held = CHANGE.hold();
    let page_bytes = pool::page_bytes();
    // Nothing lies at the end of all addresses.
    let end = address.saturating_add(bytes).min(usize::MAX / 2);
    let range = address / page_bytes * page_bytes..end.next_multiple_of(page_bytes);
    for piece in pieces::all() {
        let among = piece.touched(&range);
        each_pool(&piece, among, |run| {
            let (address, bytes) = (piece.address_of(run.start), run.len() * WINDOW_BYTES);
            if (address..address + bytes).contains(&stacks::here()) {
                return Err(refuse("a thread's stack lies there"));
            }
            // Other threads may write there. What they wrote meanwhile would be lost where they cannot be made to wait.
            match Guard::new(address, bytes) {
                Err(_) if stacks::has_threads() => {
                    Err(refuse("other threads cannot be made to wait (userfaultfd, or another who uses it there)"))
                }
                _guard => replace(&piece, run, copy_here),
            }
        })?;
    }
    Ok(())
}

/// Gives pages back to the pool, by making ordinary memory of some windows of the heap. The caller has the lock.
pub fn spare(bytes: usize) {
    let mut left = bytes.div_ceil(WINDOW_BYTES);
    for piece in pieces::all().filter(|piece| piece.purpose == Purpose::Heap) {
        for window in (0..piece.windows).rev() {
            let (address, is_ours) = (piece.address_of(window), piece.window(window) == Window::Pool);
            if left == 0 {
                return;
            }
            if !is_ours || (address..address + WINDOW_BYTES).contains(&stacks::here()) {
                continue;
            }
            let guard = Guard::new(address, WINDOW_BYTES);
            if guard.is_err() && stacks::has_threads() {
                return;
            }
            if replace(&piece, window..window + 1, copy_here).is_err() {
                return;
            }
            left -= 1;
        }
    }
}

/// Copies memory that may be read.
fn copy_here(from: usize, to: usize, bytes: usize) -> Result<(), Errno> {
    // SAFETY: both are mapped, and as long.
    unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
    Ok(())
}

/// Says once why a part of the pool stays as it is.
fn refuse(why: &str) -> Errno {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if !IS_SAID.swap(true, Ordering::Relaxed) {
        say(format_args!("a part of a large page cannot be made small: {why}; the call fails"));
    }
    libc::ENOMEM
}

/// The most that is copied before its original is given up.
const COPY_WINDOWS: usize = 32;

/// Runs `work` on each run of windows of the pool, in pieces that are whole pages.
pub fn each_pool(
    piece: &Piece,
    among: Range<usize>,
    mut work: impl FnMut(Range<usize>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let most = COPY_WINDOWS.max(pool::page_bytes() / WINDOW_BYTES);
    let mut at = among.start;
    while let Some(run) = piece.run(at..among.end, Window::Pool) {
        let run = run.start..run.end.min(run.start + most);
        at = run.end;
        work(run)?;
    }
    Ok(())
}

/// Puts ordinary memory in the place of windows of the pool, with what `copy` brings there. If it cannot everything is
/// as it was.
pub fn replace(
    piece: &Piece,
    run: Range<usize>,
    copy: impl FnOnce(usize, usize, usize) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let (address, bytes) = (piece.address_of(run.start), run.len() * WINDOW_BYTES);
    let more = bytes + WINDOW_BYTES;
    let at = map(more, READ_WRITE, libc::MAP_PRIVATE)?;
    let to = at.next_multiple_of(WINDOW_BYTES);
    let _ = advise(to, bytes, Advice::Large);
    let done = copy(address, to, bytes).and_then(|()| {
        // SAFETY: the piece is this library's; whoever reads there finds the same as before.
        unsafe { move_over(to, bytes, address) }.inspect_err(|_| {
            // SAFETY: as above.
            unsafe { put_back(to, bytes, address) }
        })
    });
    // SAFETY: mapped here, and nobody knows it: all of it, or the edges where the rest was moved.
    unsafe {
        match done {
            Err(_) => unmap(at, more),
            Ok(()) => {
                if to > at {
                    unmap(at, to - at);
                }
                if at + more > to + bytes {
                    unmap(to + bytes, at + more - to - bytes);
                }
            }
        }
    }
    done?;
    piece.set(run, Window::Plain);
    count::POOL.take(bytes);
    count::HEAP_PLAIN.add(bytes);
    Ok(())
}

/// Forgets what a piece had, which is given back.
pub fn forget(piece: &Piece) {
    let of = |kind| (0..piece.windows).filter(|window| piece.window(*window) == kind).count() * WINDOW_BYTES;
    count::POOL.take(of(Window::Pool));
    count::HEAP_PLAIN.take(of(Window::Plain));
}
