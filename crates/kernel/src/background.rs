//! Copying in the background: by threads that take only what others leave of the processors, and never twice.
//!
//! The threads are of class `SCHED_IDLE` (sched(7)). Where a processor is free they copy while the program goes on; where none
//! is they do nothing, and who wants the rest [takes](Transfer::take_rest) what no thread has begun and copies that itself.
//!
//! The kernel copies (process_vm_readv(2), from the process to itself), because memory of a program may be gone when its turn
//! comes: that is an error of the call then, and no signal. What it refuses is part of the rest.
//!
//! # Safety
//!
//! Threads write only to the targets of a transfer, and none does after its rest was taken or while it is not borrowed by a
//! caller who vouched for the targets: [`Transfer`] is stopped before it goes. The pointer in a `Mailbox` is null or owns a
//! count of its transfer, and whoever swaps it out has that count.

use crate::PAGE_BYTES;
use crate::copy::Piece;
use crate::futex;
use crate::priority;
use crate::thread::Thread;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that a thread takes at a time, about. Whoever takes the rest waits for as much.
const ITEM_BYTES: usize = 256 << 10;

/// Pieces that one call copies at most (`IOV_MAX`).
const ITEM_PIECES: usize = 1024;

/// Begin of the items when none is to be taken any more; so many threads can look for one that the number stays above.
const STOPPED: u32 = u32::MAX / 2;

/// How long to look whether a thread is done with its item before sleeping until it is.
const LOOK: Duration = Duration::from_micros(20);

/// What is done with pieces.
#[derive(Debug)]
enum Work {
    Copy,
    /// When a child is gone that has copied them, what they are read from is made the process's own again.
    Own(Arc<OwnedFd>),
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

    /// Works at what nobody took.
    fn work(&self) {
        self.busy.fetch_add(1, Ordering::SeqCst);
        let work = match &self.work {
            Work::Copy => copy,
            Work::Own(child) => {
                // While it has them, too, each page would be copied.
                wait_for_end(child);
                own
            }
        };
        loop {
            let item = self.next.fetch_add(1, Ordering::SeqCst);
            if item >= self.count() {
                break;
            }
            if !work(&self.pieces[self.pieces_of(item)]) {
                self.refused.lock().unwrap_or_else(PoisonError::into_inner).push(item);
            }
        }
        if self.busy.fetch_sub(1, Ordering::SeqCst) == 1 {
            futex::wake_all(&self.busy);
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

/// Has the kernel copy; `false` if it did not copy all.
fn copy(pieces: &[Piece]) -> bool {
    let part = |address: usize, bytes| libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes };
    let from: Vec<libc::iovec> = pieces.iter().map(|piece| part(piece.from, piece.bytes)).collect();
    let to: Vec<libc::iovec> = pieces.iter().map(|piece| part(piece.to, piece.bytes)).collect();
    let bytes: usize = pieces.iter().map(|piece| piece.bytes).sum();
    let count = pieces.len() as libc::c_ulong;
    // SAFETY: both lists live until the call returns, the kernel checks what they point to, and whoever began the transfer
    // vouched for the targets.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), to.as_ptr(), count, from.as_ptr(), count, 0) };
    copied == bytes as isize
}

fn wait_for_end(process: &OwnedFd) {
    let mut watched = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the call writes to a live structure; the descriptor is open.
    while unsafe { libc::poll(&mut watched, 1, -1) } < 0 && io::Error::last_os_error().kind() == ErrorKind::Interrupted
    {
    }
}

/// Takes back for writing what a fork left shared, page by page, which spares the program a fault for each.
fn own(pieces: &[Piece]) -> bool {
    for piece in pieces {
        let first = piece.from / PAGE_BYTES * PAGE_BYTES;
        let bytes = (piece.from + piece.bytes).next_multiple_of(PAGE_BYTES) - first;
        // SAFETY: the advice changes no content, and memory that is gone is an error of the call.
        unsafe { libc::madvise(first as *mut libc::c_void, bytes, libc::MADV_POPULATE_WRITE) };
    }
    true
}

/// Pieces on their way in the background.
#[derive(Debug)]
pub struct Transfer {
    shared: Arc<Shared>,
    generation: u32,
    /// The first item that no thread took, when they were told to stop.
    rest: Option<u32>,
}

impl Transfer {
    /// Whether all is copied or refused, so that [`take_rest`](Transfer::take_rest) need not wait.
    pub fn is_done(&self) -> bool {
        self.shared.next.load(Ordering::SeqCst) >= self.shared.count() && self.shared.busy.load(Ordering::SeqCst) == 0
    }

    /// Works along with the threads until nothing is left that none has begun.
    pub fn help(&self) {
        if self.generation == crate::fork::generation() {
            self.shared.work();
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
    pub fn take_rest(&mut self) -> Vec<Piece> {
        self.stop(None);
        let Shared { pieces, refused, .. } = &*self.shared;
        // A forked child has nothing of what threads did.
        let Some(rest) = self.rest else { return pieces.clone() };
        let refused = refused.lock().unwrap_or_else(PoisonError::into_inner);
        let items = refused.iter().copied().chain(rest..self.shared.count());
        items.flat_map(|item| &pieces[self.shared.pieces_of(item)]).copied().collect()
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
        let start = |index| {
            let mailbox = Arc::new(Mailbox::default());
            let own = mailbox.clone();
            let work = move || {
                // Where it may not, it is a thread as any other.
                let _ = priority::idle_thread();
                while let Some(shared) = own.take() {
                    shared.work();
                }
            };
            Thread::start(&format!("stillframe-idle-{index}"), work).ok().map(|_| mailbox)
        };
        Background { generation: crate::fork::generation(), mailboxes: (0..threads).map_while(start).collect() }
    }

    /// Begins to copy.
    ///
    /// # Safety
    /// Until the transfer is dropped, the targets are writable, nobody else writes or reads them, and none of their bytes is a
    /// target twice. What the pieces are read from may be anything.
    pub unsafe fn start(&self, pieces: Vec<Piece>) -> Transfer {
        self.begin(Work::Copy, pieces)
    }

    /// When a child is gone that has copied the pieces, begins to make the memory they were read from the process's own again, as
    /// each page is when it is written after a fork. The targets are not touched. The rest of it is not to be taken before
    /// the child is gone, or is waited for until then.
    pub fn own_after(&self, child: Arc<OwnedFd>, pieces: Vec<Piece>) -> Transfer {
        self.begin(Work::Own(child), pieces)
    }

    fn begin(&self, work: Work, pieces: Vec<Piece>) -> Transfer {
        let mut items = vec![0];
        let mut bytes = 0;
        for (index, piece) in pieces.iter().enumerate() {
            let begun = items.last().copied().unwrap_or(0);
            if index > begun && (bytes + piece.bytes > ITEM_BYTES || index - begun >= ITEM_PIECES) {
                items.push(index);
                bytes = 0;
            }
            bytes += piece.bytes;
        }
        if !pieces.is_empty() {
            items.push(pieces.len());
        }
        let shared = Arc::new(Shared {
            work,
            pieces,
            items,
            next: AtomicU32::new(0),
            busy: AtomicU32::new(0),
            refused: Mutex::default(),
        });
        let generation = crate::fork::generation();
        if self.generation == generation {
            self.mailboxes.iter().take(shared.count() as usize).for_each(|mailbox| mailbox.put(shared.clone()));
        }
        Transfer { shared, generation, rest: None }
    }
}

#[cfg(test)]
mod tests;
