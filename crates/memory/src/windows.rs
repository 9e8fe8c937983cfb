//! Filling windows, and making ordinary memory of them.

use crate::count;
use crate::guard::Guard;
use crate::kernel::{
    self, Advice, Errno, PAGE_BYTES, READ_WRITE, WINDOW_BYTES, advise, map, move_over, protect, put_back, unmap,
};
use crate::lock::Lock;
use crate::next;
use crate::pieces::{self, Piece, Purpose, Window};
use crate::plain;
use crate::pool::{self, Open, Refusal};
use crate::room;
use crate::say::say;
use crate::setting;
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

/// Makes memory of a range of addresses of a piece, which then can be written. What is there already stays. That the pool has
/// none is only noted (`pool::complain`).
pub fn fill(address: usize, bytes: usize, want: Want) -> bool {
    let Some(piece) = pieces::find(address) else { return false };
    let among = piece.touched(&(address..address.saturating_add(bytes)));
    // Who wants what is there waits for nobody.
    if piece.run(among.clone(), Window::Reserved).is_none() {
        return true;
    }
    CHANGE.during(|| {
        // The piece may end before what was seen of it: nothing is filled ahead behind its end.
        let Some(piece) = pieces::find(address) else { return false };
        let missing = among.clone().filter(|window| piece.window(*window) == Window::Reserved).count() * WINDOW_BYTES;
        let is_done = match (missing, source(missing, want)) {
            (0, _) => true,
            (_, Source::Touched) if want == Want::Notes && count::is_large() => {
                each_reserved(&piece, among, |run| make_plain(&piece, run, true))
            }
            (_, Source::Touched) => each_reserved(&piece, among, |run| make_plain(&piece, run, false)),
            (_, Source::Refused(refusal)) => {
                pool::note(refusal);
                count::REFUSED.add(missing);
                !setting::is_strict() && each_reserved(&piece, among, |run| make_plain(&piece, run, true))
            }
            (_, Source::Pool(mut pool)) => {
                room::take(&mut pool);
                each_reserved(&piece, among, |run| from_pool(&piece, run, &mut pool))
            }
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
    for piece in pieces::all().filter(|piece| piece.purpose != Purpose::Loaded) {
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
        Ok(pool) if setting::is_strict() => Source::Pool(pool),
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
                    pool::note(refusal);
                    count::REFUSED.add((run.end - at) * WINDOW_BYTES);
                }
                break;
            }
        }
    }
    at >= run.end || !setting::is_strict() && make_plain(piece, at..run.end, true)
}

/// The end of a run, and some of the windows behind it: a mapping cannot be joined to the next, and a process has only
/// so many. Of pages of 1 GiB at least the whole page.
fn with_next(piece: &Piece, end: usize, pool: &Open) -> usize {
    let ahead = (count::POOL.get() / 8).min(pool.free_bytes / 16) / WINDOW_BYTES;
    let whole = piece.address_of(end).next_multiple_of(pool.page_bytes);
    let wanted = (end + ahead).max((whole - piece.address) / WINDOW_BYTES).min(piece.windows);
    // Where the program unmapped something it may have mapped something else.
    let is_taken = |window: &usize| piece.window(*window) != Window::Reserved || piece.is_cut(*window);
    (end..wanted).find(is_taken).unwrap_or(wanted)
}

/// Whether any of these addresses lies in a page of the pool.
pub fn touches_pool(address: usize, bytes: usize) -> bool {
    let range = address..address.saturating_add(bytes);
    pieces::all().any(|piece| piece.run(piece.touched(&range), Window::Pool).is_some())
}

/// Bytes of the windows of the pool that a range touches.
pub fn pool_bytes_in(address: usize, bytes: usize) -> usize {
    let range = address..address.saturating_add(bytes);
    let of =
        |piece: pieces::Piece| piece.touched(&range).filter(|window| piece.window(*window) == Window::Pool).count();
    pieces::all().map(of).sum::<usize>() * WINDOW_BYTES
}

/// Whether any of these addresses lies in a segment that was moved.
pub fn touches_loaded(address: usize, bytes: usize) -> bool {
    let range = address..address.saturating_add(bytes);
    pieces::all().any(|piece| piece.purpose == Purpose::Loaded && !piece.touched(&range).is_empty())
}

/// The parts of a range that lie in pages of the pool, and those that do not, in the order of their addresses.
pub fn parts(address: usize, bytes: usize) -> impl Iterator<Item = (Range<usize>, bool)> {
    let (mut at, end) = (address, address.saturating_add(bytes));
    std::iter::from_fn(move || {
        let rest = at..end;
        let in_pool = |piece: Piece| {
            let run = piece.run(piece.touched(&rest), Window::Pool)?;
            Some(piece.address_of(run.start).max(rest.start)..piece.address_of(run.end).min(end))
        };
        let next = pieces::all().filter_map(in_pool).min_by_key(|part| part.start);
        let (part, is_pool) = match next {
            Some(part) if part.start == at => (part, true),
            next => (at..next.map_or(end, |part| part.start), false),
        };
        at = part.end;
        (!part.is_empty()).then_some((part, is_pool))
    })
}

/// Makes ordinary memory of all pages of the pool that a range touches, with what is in them: the kernel cannot cut
/// large pages.
pub fn soften(address: usize, bytes: usize) -> Result<(), Errno> {
    if !touches_pool(address, bytes) {
        return Ok(());
    }
    CHANGE.during(|| soften_all(address, bytes)).map_err(|hindrance| match hindrance {
        Hindrance::Stack => refuse("a thread's stack lies there"),
        Hindrance::Writers => {
            refuse("other threads cannot be made to wait (userfaultfd, or another who uses it there)")
        }
        Hindrance::Call(errno) => errno,
    })
}

/// Why a part of the pool stays as it is.
enum Hindrance {
    Stack,
    Writers,
    Call(Errno),
}

fn soften_all(address: usize, bytes: usize) -> Result<(), Hindrance> {
    let page_bytes = pool::page_bytes();
    // Nothing lies at the end of all addresses.
    let end = address.saturating_add(bytes).min(usize::MAX / 2);
    let range = address / page_bytes * page_bytes..end.next_multiple_of(page_bytes);
    for piece in pieces::all() {
        let among = piece.touched(&range);
        each_pool(&piece, among, |run| {
            let (address, bytes) = (piece.address_of(run.start), run.len() * WINDOW_BYTES);
            if (address..address + bytes).contains(&stacks::here()) {
                return Err(Hindrance::Stack);
            }
            // Other threads may write there. What they wrote meanwhile would be lost where they cannot be made to wait.
            match Guard::new(address, bytes) {
                Err(_) if stacks::has_threads() => Err(Hindrance::Writers),
                _guard => replace(&piece, run, copy_here).map_err(Hindrance::Call),
            }
        })?;
    }
    Ok(())
}

/// Gives a page of the pool back in which nobody has anything. The caller has the lock.
pub fn empty(piece: &Piece, windows: Range<usize>) -> bool {
    let (address, bytes) = (piece.address_of(windows.start), windows.len() * WINDOW_BYTES);
    // SAFETY: the piece is this library's, and nobody has anything there.
    if unsafe { kernel::reserve(address, bytes) }.is_err() {
        return false;
    }
    piece.set(windows, Window::Reserved);
    count::POOL.take(bytes);
    true
}

/// Gives back the addresses at the end of a piece behind so many windows, and behind all that have memory or were changed by the program.
pub fn shrink(piece: &mut Piece, windows: usize) {
    CHANGE.during(|| {
        let is_free = |window: &usize| piece.window(*window) == Window::Reserved && !piece.is_cut(*window);
        let free = (windows..piece.windows).rev().take_while(is_free).count();
        // Large pages of the pool are placed as wholes.
        let kept = ((piece.windows - free) * WINDOW_BYTES).next_multiple_of(pool::page_bytes()) / WINDOW_BYTES;
        if kept < piece.windows {
            pieces::shrink(piece, kept);
        }
    });
}

/// Whether no memory was made of any window that a range touches, or it was given up.
pub fn is_reserved(address: usize, bytes: usize) -> bool {
    let range = address..address.saturating_add(bytes);
    pieces::find(address).is_some_and(|piece| {
        let among = piece.touched(&range);
        !among.clone().any(|window| piece.is_cut(window)) && piece.run(among.clone(), Window::Reserved) == Some(among)
    })
}

/// Gives up the memory of the windows of the heap that lie in a range as a whole, in which nobody has anything. Of larger pages of the pool all
/// windows.
pub fn give_up(address: usize, bytes: usize) {
    each_whole(address, bytes, |piece, windows| {
        if piece.purpose == Purpose::Loaded {
            return;
        }
        // The program may have mapped something where no memory was.
        let is_cut = |window: &usize| piece.window(*window) == Window::Reserved && piece.is_cut(*window);
        for window in windows.clone().filter(is_cut) {
            give_up_run(piece, window..window + 1, Window::Reserved);
        }
        for kind in [Window::Pool, Window::Plain] {
            let mut at = windows.start;
            while let Some(run) = piece.run(at..windows.end, kind) {
                at = run.end;
                give_up_run(piece, run, kind);
            }
        }
    });
}

/// Leaves the windows of the pool that lie in a range as a whole to the program, which maps something else there.
pub fn leave(address: usize, bytes: usize) {
    each_whole(address, bytes, |piece, windows| {
        let mut at = windows.start;
        while let Some(run) = piece.run(at..windows.end, Window::Pool) {
            at = run.end;
            let bytes = run.len() * WINDOW_BYTES;
            count::POOL.take(bytes);
            count::HEAP_PLAIN.add(bytes);
            piece.set(run.clone(), Window::Plain);
            piece.set_cut(run, true);
        }
    });
}

/// Runs `work` on the windows of each piece that lie in a range as whole pages of the pool, with the lock.
fn each_whole(address: usize, bytes: usize, mut work: impl FnMut(&Piece, Range<usize>)) {
    let whole = pool::whole_pages(&(address..address.saturating_add(bytes)));
    if whole.is_empty() {
        return;
    }
    CHANGE.during(|| {
        for piece in pieces::all() {
            let windows = piece.touched(&whole);
            if !windows.is_empty() {
                work(&piece, windows);
            }
        }
    });
}

fn give_up_run(piece: &Piece, run: Range<usize>, kind: Window) {
    let bytes = run.len() * WINDOW_BYTES;
    if kind == Window::Pool {
        empty(piece, run);
        return;
    }
    // SAFETY: the piece is this library's, and nobody has anything there.
    if unsafe { kernel::reserve(piece.address_of(run.start), bytes) }.is_ok() {
        piece.set(run, Window::Reserved);
        count::HEAP_PLAIN.take(if kind == Window::Plain { bytes } else { 0 });
    }
}

/// Makes zeros of memory of the heap. What is large and ordinary is given up, so that what had no memory gets none. Who calls this has no lock.
pub fn clear(address: usize, bytes: usize) {
    let all = address..address + bytes;
    let piece = pieces::find(address).filter(|_| bytes >= SPARSE_BYTES);
    let mut at = all.start;
    while at < all.end {
        let end = match &piece {
            None => all.end,
            Some(piece) => ((at + 1).next_multiple_of(WINDOW_BYTES)).min(piece.end()).min(all.end),
        };
        let is_ordinary =
            piece.as_ref().is_some_and(|piece| piece.window((at - piece.address) / WINDOW_BYTES) == Window::Plain);
        let is_whole = at.is_multiple_of(PAGE_BYTES) && end.is_multiple_of(PAGE_BYTES);
        // Pages that are given up read as zeros when they are touched again. Who has them registered with a device hears of it.
        if !(is_ordinary && is_whole && next::madvise(at, end - at, libc::MADV_DONTNEED) == 0) {
            // SAFETY: the caller's memory.
            unsafe { std::ptr::write_bytes(at as *mut u8, 0, end - at) };
        }
        at = end;
    }
}

/// A block of so many bytes may be meant to be written in places only.
pub const SPARSE_BYTES: usize = 32 << 20;

/// Copies memory that may be read.
fn copy_here(from: usize, to: usize, bytes: usize) -> Result<(), Errno> {
    // SAFETY: both are mapped, and as long.
    unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
    Ok(())
}

/// Says once why a part of the pool stays as it is. Who calls this has no lock.
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
pub fn each_pool<E>(
    piece: &Piece,
    among: Range<usize>,
    mut work: impl FnMut(Range<usize>) -> Result<(), E>,
) -> Result<(), E> {
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
