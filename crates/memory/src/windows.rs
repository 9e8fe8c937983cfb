//! Filling windows, and making ordinary memory of them.

use crate::count;
use crate::guard::Guard;
use crate::kernel::{
    self, Advice, Errno, PAGE_BYTES, READ_WRITE, WINDOW_BYTES, advise, map, move_over, protect, put_back, unmap,
};
use crate::lock::Lock;
use crate::pieces::{self, Piece, Purpose, Window};
use crate::plain;
use crate::pool::{self, Open, Refusal};
use crate::room;
use crate::say::say;
use crate::stacks;
use libc::c_int;
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
                each_reserved(&piece, among, |run| make_plain(&piece, run, true))
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

/// The parts of a range that are addresses of the heap, each with its piece.
fn of_heap(address: usize, bytes: usize) -> impl Iterator<Item = (Piece, Range<usize>)> {
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

/// Takes memory away that the program unmaps. Addresses of the heap stay this library's: somebody else would get them, and a block
/// that is freed would come to lie over what is his. `unmap` takes away what is not of the heap.
pub fn vacate(address: usize, bytes: usize, mut unmap: impl FnMut(usize, usize) -> c_int) -> c_int {
    let end = address.saturating_add(bytes).checked_next_multiple_of(PAGE_BYTES);
    let Some(end) = end.filter(|_| address.is_multiple_of(PAGE_BYTES)) else { return unmap(address, bytes) };
    let mut at = address;
    while let Some((_, part)) = of_heap(at, end - at).min_by_key(|(_, part)| part.start) {
        if part.start > at && unmap(at, part.start - at) != 0 {
            return -1;
        }
        // SAFETY: the piece is this library's, and the caller gives up what is there.
        if let Err(errno) = unsafe { kernel::reserve(part.start, part.len()) } {
            kernel::set_errno(errno);
            return -1;
        }
        at = part.end;
    }
    if at == address || at < end { unmap(at, address + bytes - at) } else { 0 }
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
        // What became ordinary memory in several parts is several mappings, of which the kernel does not make one.
        Err(libc::EFAULT) if !is_changed => move_out_by(address, bytes, Way::Copied, &then),
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

/// Has memory be as if it were new where the program changed how it is mapped. Nobody has it. Says whether it can be used.
pub fn renew(address: usize, bytes: usize) -> bool {
    let Some(piece) = pieces::find(address) else { return true };
    let range = address..address + bytes;
    let among = piece.touched(&range);
    if !among.clone().any(|window| piece.is_cut(window)) {
        return true;
    }
    CHANGE.during(|| {
        among.filter(|window| piece.is_cut(*window)).all(|window| {
            let all = piece.address_of(window)..piece.address_of(window + 1);
            let part = range.start.max(all.start)..range.end.min(all.end);
            // What is cut is ordinary memory.
            // SAFETY: the piece is this library's, and nobody has this part of it.
            let is_new =
                piece.window(window) != Window::Plain || unsafe { kernel::renew(part.start, part.len()) }.is_ok();
            if is_new && part == all {
                piece.set_cut(window..window + 1, false);
            }
            is_new
        })
    })
}

/// Makes zeros of memory of the heap. What is large and ordinary is given up, so that what had no memory gets none.
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
        // SAFETY: the caller's memory; pages that are given up read as zeros when they are touched again.
        unsafe {
            if !(is_ordinary && is_whole && kernel::give_up(at, end - at).is_ok()) {
                std::ptr::write_bytes(at as *mut u8, 0, end - at);
            }
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
