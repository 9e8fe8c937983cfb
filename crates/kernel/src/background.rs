//! Copying in the background: by threads that take only what others leave of the processors, and never twice.
//!
//! The threads are of class `SCHED_IDLE` (sched(7)). Where a processor is free they copy while the program goes on; where none was
//! of late (`spare`) they are not asked, and who wants the rest [takes](Transfer::take_rest) what no thread has begun and copies
//! that itself.
//!
//! The kernel copies (through a `pipe`), because memory of a program may be gone when its turn comes: that is an error of the
//! call then, and no signal. What it refuses is part of the rest.
//!
//! # Safety
//!
//! Threads write only to the targets of a transfer, and none does after its rest was taken or while it is not borrowed by a
//! caller who vouched for the targets: [`Transfer`] is stopped before it goes. The pointer in a `Mailbox` is null or owns a
//! count of its transfer, and whoever swaps it out has that count.

use crate::copy::Piece;
use crate::futex;
use crate::pagemap::{self, Pagemap};
use crate::priority;
use crate::thread::Thread;
use crate::{Failure, PAGE_BYTES, thread_time};
use std::io::{self, ErrorKind};
use std::mem;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

mod pipe;
mod spare;

use pipe::Pipe;
use spare::Spare;

/// Bytes that a thread takes at a time, about. Whoever takes the rest waits for as much.
const ITEM_BYTES: usize = 256 << 10;

/// Pieces that a thread takes at a time, at most.
const ITEM_PIECES: usize = 1024;

/// Items that who asks how it goes copies at a time, where no thread does: about 0.1 ms.
const TEST_ITEMS: u32 = 4;

/// Begin of the items when none is to be taken any more; so many threads can look for one that the number stays above.
const STOPPED: u32 = u32::MAX / 2;

/// How long to look whether a thread is done with its item before sleeping until it is.
const LOOK: Duration = Duration::from_micros(20);

/// What is done with pieces.
#[derive(Debug)]
enum Work {
    Copy,
    /// When a child is gone that has copied them, what they are read from is made the process's own again.
    Own(Arc<OwnedFd>, Pagemap),
}

/// Pieces that are being worked at.
#[derive(Debug)]
struct Shared {
    work: Work,
    pieces: Vec<Piece>,
    /// Where each item begins among the pieces, and where the last one ends.
    items: Vec<usize>,
    /// The next item that nobody took.
    next: AtomicU32,
    /// Threads that may be copying, and a futex.
    busy: AtomicU32,
    /// Items that the kernel refused.
    refused: Mutex<Vec<u32>>,
}

impl Shared {
    fn count(&self) -> u32 {
        self.items.len() as u32 - 1
    }

    fn pieces_of(&self, item: u32) -> Range<usize> {
        self.items[item as usize]..self.items[item as usize + 1]
    }

    /// Works at what nobody took, at most at so many items.
    fn work(&self, most: u32) {
        self.busy.fetch_add(1, Ordering::SeqCst);
        self.work_on(most);
        self.leave();
    }

    /// As a thread that notes what it uses.
    fn work_for_idle(&self, spare: &Spare) {
        self.busy.fetch_add(1, Ordering::SeqCst);
        let before = thread_time();
        self.work_on(u32::MAX);
        // Whoever waits for the end may ask next.
        spare.add(thread_time().saturating_sub(before));
        self.leave();
    }

    fn leave(&self) {
        if self.busy.fetch_sub(1, Ordering::SeqCst) == 1 {
            futex::wake_all(&self.busy);
        }
    }

    fn work_on(&self, most: u32) {
        if let Work::Own(child, _) = &self.work {
            // While it has them, too, each page would be copied.
            wait_for_end(child);
        }
        // One for each transfer, so that none stays open. Without one all is refused.
        let mut pipe = None;
        for _ in 0..most {
            let item = self.next.fetch_add(1, Ordering::SeqCst);
            if item >= self.count() {
                break;
            }
            let pieces = &self.pieces[self.pieces_of(item)];
            let is_done = match &self.work {
                Work::Copy => {
                    let pipe = pipe.get_or_insert_with(|| Pipe::new().ok()).as_mut();
                    // SAFETY: whoever began the transfer vouched for the targets.
                    pipe.is_some_and(|pipe| unsafe { pipe.copy(pieces) })
                }
                Work::Own(_, pagemap) => own(pieces, pagemap),
            };
            if !is_done {
                self.refused.lock().unwrap_or_else(PoisonError::into_inner).push(item);
            }
        }
    }

    /// Waits until no thread works at it, at most so long. Whether none does.
    fn join(&self, limit: Option<Duration>) -> bool {
        let begin = Instant::now();
        loop {
            let spent = begin.elapsed();
            let left = limit.map(|limit| limit.saturating_sub(spent));
            match self.busy.load(Ordering::SeqCst) {
                0 => return true,
                _ if spent < LOOK => std::hint::spin_loop(),
                _ if left == Some(Duration::ZERO) => return false,
                busy_threads => futex::wait(&self.busy, busy_threads, left),
            }
        }
    }
}

fn wait_for_end(process: &OwnedFd) {
    let mut watched = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the call writes to a live structure; the descriptor is open.
    while unsafe { libc::poll(&mut watched, 1, -1) } < 0 && io::Error::last_os_error().kind() == ErrorKind::Interrupted
    {
    }
}

/// Takes back for writing what a fork left shared, page by page, which spares the program a fault for each. Pages that the
/// process has not got to itself are left alone. Unlike the copying, this holds the process's mmap lock for some pages at a
/// time: no call is known that does it without, and without a signal where memory is gone.
fn own(pieces: &[Piece], pagemap: &Pagemap) -> bool {
    let mut pagemap = pagemap.another();
    for piece in pieces {
        let first = piece.from / PAGE_BYTES;
        let pages = (piece.from + piece.bytes).div_ceil(PAGE_BYTES) - first;
        let mut run = 0..0;
        // What cannot be looked at is taken back by the program's own faults.
        let _ = pagemap.entries(first * PAGE_BYTES, pages, |page, entry| {
            if is_exclusive(entry) {
                if run.end != page {
                    own_pages(first, mem::replace(&mut run, page..page));
                }
                run.end = page + 1;
            }
        });
        own_pages(first, run);
    }
    true
}

/// Whether a page has memory that is this process's alone, and no file's.
fn is_exclusive(entry: u64) -> bool {
    let is_present = entry & pagemap::ENTRY_POPULATED & !pagemap::ENTRY_SWAPPED != 0;
    is_present && entry & pagemap::ENTRY_EXCLUSIVE != 0 && entry & pagemap::ENTRY_FILE == 0
}

/// Makes pages writable, which are counted from the first one on.
fn own_pages(first: usize, pages: Range<usize>) {
    if !pages.is_empty() {
        let address = (first + pages.start) * PAGE_BYTES;
        // SAFETY: the advice changes no content, and memory that is gone is an error of the call.
        unsafe { libc::madvise(address as *mut libc::c_void, pages.len() * PAGE_BYTES, libc::MADV_POPULATE_WRITE) };
    }
}

/// Pieces on their way in the background.
#[derive(Debug)]
pub struct Transfer {
    shared: Arc<Shared>,
    generation: u32,
    /// Whether no thread was asked.
    is_alone: bool,
    /// The first item that no thread took, when they were told to stop.
    rest: Option<u32>,
}

impl Transfer {
    /// Whether all is copied or refused, so that [`take_rest`](Transfer::take_rest) need not wait. Where no thread was asked, some
    /// is copied now, so that who tests again and again comes to the end.
    pub fn test(&self) -> bool {
        if self.is_alone && self.generation == crate::fork::generation() {
            self.shared.work(TEST_ITEMS);
        }
        self.shared.next.load(Ordering::SeqCst) >= self.shared.count() && self.shared.busy.load(Ordering::SeqCst) == 0
    }

    /// Works along with the threads until nothing is left that none has begun.
    pub fn help(&self) {
        if self.generation == crate::fork::generation() {
            self.shared.work(u32::MAX);
        }
    }

    /// Has threads begin with nothing more, and waits until they are done with what they have begun, at most so long. Whether
    /// they are.
    pub fn stop(&mut self, limit: Option<Duration>) -> bool {
        // In a forked child no thread is at work.
        if self.generation != crate::fork::generation() {
            return true;
        }
        let shared = &*self.shared;
        self.rest.get_or_insert_with(|| shared.next.swap(STOPPED, Ordering::SeqCst).min(shared.count()));
        shared.join(limit)
    }

    /// [Stops](Transfer::stop) the copying, however long that takes, and returns what is not copied.
    ///
    /// # Errors
    /// There is no memory for a list of it.
    pub fn take_rest(&mut self) -> Result<Vec<Piece>, Failure> {
        self.stop(None);
        let Shared { pieces, refused, .. } = &*self.shared;
        // A forked child has nothing of what threads did.
        let rest = self.rest.unwrap_or(0);
        let refused = refused.lock().unwrap_or_else(PoisonError::into_inner);
        let items = refused.iter().copied().filter(|_| self.rest.is_some()).chain(rest..self.shared.count());
        let mut left = Vec::new();
        make_room(&mut left, items.clone().map(|item| self.shared.pieces_of(item).len()).sum())?;
        items.for_each(|item| left.extend_from_slice(&pieces[self.shared.pieces_of(item)]));
        Ok(left)
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.stop(None);
    }
}

/// The transfer that a thread is to take up next. Neither side waits for the other: a thread that gets no processor finds the
/// last one when it does, and those before it are gone.
#[derive(Debug, Default)]
struct Mailbox {
    shared: AtomicPtr<Shared>,
    /// Changes with each transfer, and at the end: a futex.
    changes: AtomicU32,
    is_closed: AtomicBool,
}

impl Mailbox {
    fn swap(&self, new: *mut Shared) -> Option<Arc<Shared>> {
        let old = self.shared.swap(new, Ordering::AcqRel);
        // SAFETY: what is not null was made by `put`, and nobody else has swapped it out.
        (!old.is_null()).then(|| unsafe { Arc::from_raw(old) })
    }

    fn put(&self, shared: Arc<Shared>) {
        drop(self.swap(Arc::into_raw(shared).cast_mut()));
        self.wake();
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        futex::wake_all(&self.changes);
    }

    /// Waits for the next transfer; `None` at the end.
    fn take(&self) -> Option<Arc<Shared>> {
        loop {
            let seen = self.changes.load(Ordering::SeqCst);
            if let Some(shared) = self.swap(ptr::null_mut()) {
                return Some(shared);
            }
            if self.is_closed.load(Ordering::Acquire) {
                return None;
            }
            futex::wait(&self.changes, seen, None);
        }
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        drop(self.swap(ptr::null_mut()));
    }
}

/// Threads that copy in the background, kept between transfers.
#[derive(Debug)]
pub struct Background {
    generation: u32,
    mailboxes: Vec<Arc<Mailbox>>,
    spare: Arc<Spare>,
}

impl Drop for Background {
    fn drop(&mut self) {
        // The threads end by themselves.
        self.mailboxes.iter().for_each(|mailbox| mailbox.close());
    }
}

impl Background {
    /// So many threads; fewer if the process is out of threads.
    pub fn new(threads: usize) -> Background {
        let spare = Arc::new(Spare::new());
        let start = |index| {
            let mailbox = Arc::new(Mailbox::default());
            let (own, spare) = (mailbox.clone(), spare.clone());
            let work = move || {
                // Where it may not, it is a thread as any other.
                let _ = priority::idle_thread();
                while let Some(shared) = own.take() {
                    shared.work_for_idle(&spare);
                }
            };
            Thread::start(&format!("stillframe-idle-{index}"), work).ok().map(|_| mailbox)
        };
        let mailboxes = (0..threads).map_while(start).collect();
        Background { generation: crate::fork::generation(), mailboxes, spare }
    }

    /// Begins to copy.
    ///
    /// # Errors
    /// There is no memory for a list of what threads take.
    ///
    /// # Safety
    /// Until the transfer is dropped, the targets are writable, nobody else writes or reads them, and none of their bytes is a
    /// target twice. What the pieces are read from may be anything.
    pub unsafe fn start(&self, pieces: Vec<Piece>) -> Result<Transfer, Failure> {
        self.begin(Work::Copy, pieces)
    }

    /// When a child is gone that has copied the pieces, begins to make the memory they were read from the process's own again, as
    /// each page is when it is written after a fork. The targets are not touched. The rest of it is not to be taken before
    /// the child is gone, or is waited for until then. Pages that have no memory of their own by then are left alone: other
    /// memory may be there, of which nobody has asked for any yet.
    ///
    /// # Errors
    /// As [`start`](Background::start), and those of open(2): there is no page map to look at.
    pub fn own_after(&self, child: Arc<OwnedFd>, pieces: Vec<Piece>) -> Result<Transfer, Failure> {
        self.begin(Work::Own(child, Pagemap::open()?), pieces)
    }

    fn begin(&self, work: Work, pieces: Vec<Piece>) -> Result<Transfer, Failure> {
        let items = split(&pieces)?;
        // Threads have no way to tell that there is no memory.
        let mut refused = Vec::new();
        make_room(&mut refused, items.len())?;
        let shared = Arc::new(Shared {
            work,
            pieces,
            items,
            next: AtomicU32::new(0),
            busy: AtomicU32::new(0),
            refused: Mutex::new(refused),
        });
        let generation = crate::fork::generation();
        let is_asked = self.generation == generation && self.spare.is_there();
        if is_asked {
            self.mailboxes.iter().take(shared.count() as usize).for_each(|mailbox| mailbox.put(shared.clone()));
        }
        Ok(Transfer { shared, generation, is_alone: !is_asked, rest: None })
    }
}

/// Where items begin among the pieces, and where the last one ends.
fn split(pieces: &[Piece]) -> Result<Vec<usize>, Failure> {
    let (mut items, mut begun, mut bytes) = (Vec::new(), 0, 0);
    let mut push = |index| make_room(&mut items, 1).map(|()| items.push(index));
    push(0)?;
    for (index, piece) in pieces.iter().enumerate() {
        if index > begun && (bytes + piece.bytes > ITEM_BYTES || index - begun >= ITEM_PIECES) {
            push(index)?;
            (begun, bytes) = (index, 0);
        }
        bytes += piece.bytes;
    }
    if !pieces.is_empty() {
        push(pieces.len())?;
    }
    Ok(items)
}

fn make_room<T>(list: &mut Vec<T>, more: usize) -> Result<(), Failure> {
    list.try_reserve(more).map_err(|_| Failure::no_memory(more.saturating_mul(size_of::<T>())))
}

#[cfg(test)]
mod tests;
