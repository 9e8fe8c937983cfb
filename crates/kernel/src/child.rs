//! Copying by a child process: it has the memory as it was when it began, whatever the program writes meanwhile, by itself or
//! in system calls. That is the kernel's copy-on-write (fork(2)); no page is protected by us.
//!
//! It costs the time of a fork, which walks over all memory of the process that is its own; a fault at the first write to each page
//! afterwards; and a copy of each page that is written while the child is at work.
//!
//! # Safety
//!
//! The child is made by clone(2) itself. No handler of fork(3) runs in it, so that it keeps what it was given: the maps of the
//! targets, and open files with their locks, by which nobody takes over what it writes to. Other threads may hold any lock
//! when it is made. So it allocates nothing and calls nothing but the loops that copy and the kernel. It ends when all is copied
//! or its parent is gone.

use crate::copy::{Copier, PageCopy, Piece, copy_bytes};
use crate::maps::Maps;
use crate::thread::without_signals;
use crate::{Failure, PAGE_BYTES, fork, futex};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

mod probes;

use probes::Probes;

/// It has not looked yet.
const BEGUN: u32 = 0;
/// All that is to be copied is there.
const COPYING: u32 = 1;
/// Some of it is not: memory that children do not get (`MADV_DONTFORK`), or find empty (`MADV_WIPEONFORK`).
const MISSING: u32 = 2;
/// All is copied.
const DONE: u32 = 3;

/// How long to sleep before looking whether the child died before it could say anything.
const LOOK: Duration = Duration::from_millis(10);

/// Pages that the child copies before it looks whether its parent lives.
const BLOCK_PAGES: usize = 64;

/// A word of memory that parent and child share.
#[derive(Debug)]
struct Word(*mut libc::c_void);

// SAFETY: it is an atomic number at an address that stays mapped while this value lives.
unsafe impl Send for Word {}
// SAFETY: as above.
unsafe impl Sync for Word {}

impl Word {
    fn new() -> Result<Word, Failure> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: the kernel chooses an address that is free.
        let address = unsafe { libc::mmap(ptr::null_mut(), PAGE_BYTES, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(Failure::last("mmap", "a page for a copying child"));
        }
        Ok(Word(address))
    }

    fn get(&self) -> &AtomicU32 {
        // SAFETY: a page of zeros was mapped there, and stays while `self` does.
        unsafe { AtomicU32::from_ptr(self.0.cast()) }
    }
}

impl Drop for Word {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `new`, and nobody refers to it any more.
        unsafe { libc::munmap(self.0, PAGE_BYTES) };
    }
}

/// A process that copies.
#[derive(Debug)]
pub struct CopyingChild {
    process: Arc<OwnedFd>,
    word: Word,
    generation: u32,
    is_gone: bool,
}

impl CopyingChild {
    /// Begins to copy the pieces as they are now. `None` if the child has not got all of them, or that cannot be told. Their
    /// memory is private: of what others share the child would see what is written.
    ///
    /// # Safety
    /// The pieces can be read. Until the child is gone the targets are writable shared memory, nobody else writes or reads
    /// them, and none of their bytes is a target twice.
    ///
    /// # Errors
    /// Of mmap(2) and clone(2): the process is out of memory or may have no more children; and of what tells which memory children
    /// get.
    pub unsafe fn start(pieces: &[Piece], maps: &Maps, copier: &Copier) -> Result<Option<CopyingChild>, Failure> {
        let Some(probes) = Probes::note(pieces, maps)? else { return Ok(None) };
        let word = Word::new()?;
        // SAFETY: the call takes nothing.
        let parent = unsafe { libc::getpid() };
        let mut process: libc::c_int = -1;
        // The program's handlers are not to run in the child.
        let pid = without_signals(|| {
            // SAFETY: as fork(2), with a descriptor that is written to `process`. The child does not return.
            let pid =
                unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_PIDFD, 0usize, &raw mut process, 0usize, 0usize) };
            if pid == 0 {
                copy_all(pieces, &probes, copier, word.get(), parent);
            }
            pid
        });
        if pid < 0 {
            return Err(Failure::last("clone", format!("to copy {} pieces", pieces.len())));
        }
        // SAFETY: the call made the descriptor, and nobody else has it.
        let process = unsafe { OwnedFd::from_raw_fd(process) };
        let mut child =
            CopyingChild { process: Arc::new(process), word, generation: fork::generation(), is_gone: false };
        while child.word.get().load(Ordering::Acquire) == BEGUN && !child.is_done() {
            futex::wait(child.word.get(), BEGUN, Some(LOOK));
        }
        let is_copying = [COPYING, DONE].contains(&child.word.get().load(Ordering::Acquire));
        Ok(is_copying.then_some(child))
    }

    /// Whether it is gone.
    pub fn is_done(&mut self) -> bool {
        self.look(libc::WNOHANG)
    }

    /// Waits until it is gone, at most so long. Whether it is; one that is another process's counts as gone.
    pub fn wait(&mut self, limit: Option<Duration>) -> bool {
        if self.generation != fork::generation() {
            return true;
        }
        match limit.map(|limit| Instant::now().checked_add(limit)) {
            Some(Some(deadline)) => loop {
                if self.is_done() {
                    return true;
                }
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return false;
                }
                self.poll(left);
            },
            _ => {
                while !self.look(0) {}
                true
            }
        }
    }

    /// Whether it has copied all. If it is gone and has not, it was killed, or is another process's.
    pub fn has_copied(&self) -> bool {
        self.generation == fork::generation() && self.word.get().load(Ordering::Acquire) == DONE
    }

    /// Sleeps until it is gone, at most about so long, and perhaps less.
    fn poll(&self, limit: Duration) {
        let limit_ms = limit.as_millis().clamp(1, i32::MAX as u128) as i32;
        let mut watched = libc::pollfd { fd: self.process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the call writes to a live structure; the descriptor is open.
        unsafe { libc::poll(&mut watched, 1, limit_ms) };
    }

    fn look(&mut self, flags: i32) -> bool {
        if self.is_gone {
            return true;
        }
        // SAFETY: `siginfo_t` is plain data, valid when zeroed.
        let mut found: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: the call writes what it found to a live structure.
        let waited = unsafe {
            let process = self.process.as_raw_fd() as libc::id_t;
            libc::waitid(libc::P_PIDFD, process, &mut found, libc::WEXITED | libc::__WALL | flags)
        };
        self.is_gone = match waited {
            // SAFETY: a call that succeeded wrote a number there, or left 0 where no child has ended.
            0 => unsafe { found.si_pid() != 0 },
            // Somebody who waits for any child came first, so that it has ended; or there is no way to wait for it. Whether it
            // has copied all is what its word says.
            _ => io::Error::last_os_error().kind() != io::ErrorKind::Interrupted,
        };
        self.is_gone
    }

    /// A descriptor of the process (pidfd_open(2)), which can be read from when it is gone with its memory.
    pub fn process(&self) -> Arc<OwnedFd> {
        self.process.clone()
    }
}

impl Drop for CopyingChild {
    fn drop(&mut self) {
        // In a forked child of the program it is a brother's.
        if self.is_gone || self.generation != fork::generation() {
            return;
        }
        let (process, none) = (self.process.as_raw_fd(), ptr::null::<libc::siginfo_t>());
        // SAFETY: the call takes numbers, and the process that the descriptor names was not waited for.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process, libc::SIGKILL, none, 0) };
        while !self.look(0) {}
    }
}

/// What the child does.
fn copy_all(pieces: &[Piece], probes: &Probes, copier: &Copier, word: &AtomicU32, parent: libc::pid_t) -> ! {
    let tell = |state: u32| {
        word.store(state, Ordering::Release);
        futex::wake_all(word);
    };
    // Before the child is made undumpable, which takes the right to look at its own page map away.
    let are_there =
        pieces.chunk_by(|piece, next| piece.from + piece.bytes == next.from).all(is_there) && probes.are_there();
    // SAFETY: the calls are async-signal-safe, take numbers, and concern the child alone. What goes wrong here is to leave no
    // core and to run no handler of the program's.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        libc::signal(libc::SIGSEGV, libc::SIG_DFL);
        libc::signal(libc::SIGBUS, libc::SIG_DFL);
    }
    if !are_there {
        tell(MISSING);
        end();
    }
    tell(COPYING);
    for piece in pieces {
        // SAFETY: the call takes nothing.
        if unsafe { libc::getppid() } != parent {
            end();
        }
        copy(piece, copier);
    }
    tell(DONE);
    end()
}

/// Whether memory is there for pieces that follow each other.
fn is_there(pieces: &[Piece]) -> bool {
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return true };
    let start = first.from / PAGE_BYTES * PAGE_BYTES;
    // SAFETY: with MS_ASYNC the call only walks over the mappings; it neither reads nor writes memory.
    unsafe { libc::syscall(libc::SYS_msync, start, last.from + last.bytes - start, libc::MS_ASYNC) == 0 }
}

fn copy(piece: &Piece, copier: &Copier) {
    let Piece { from, to, bytes } = *piece;
    let first = to / PAGE_BYTES * PAGE_BYTES;
    // Page-table entries of shared memory are not inherited, and to make many at once is cheaper than a fault for each. To read
    // is enough for memory that is in use: the kernel then makes entries that can be written, for sixteen pages at a time.
    // SAFETY: the advice changes no content.
    unsafe {
        let length = (to + bytes).next_multiple_of(PAGE_BYTES) - first;
        libc::madvise(first as *mut libc::c_void, length, libc::MADV_POPULATE_READ);
    }
    if ![from, to, bytes].iter().all(|number| number.is_multiple_of(PAGE_BYTES)) {
        // SAFETY: who began this vouched for the pieces.
        return unsafe { copy_bytes(from, to, bytes) };
    }
    let mut pages = [PageCopy { from: 0, to: 0 }; BLOCK_PAGES];
    for begin in (0..bytes).step_by(BLOCK_PAGES * PAGE_BYTES) {
        let count = ((bytes - begin) / PAGE_BYTES).min(BLOCK_PAGES);
        for (index, page) in pages[..count].iter_mut().enumerate() {
            let at = begin + index * PAGE_BYTES;
            *page = PageCopy { from: from + at, to: to + at };
        }
        // SAFETY: as above.
        unsafe { copier.copy_here(&pages[..count]) };
    }
}

fn end() -> ! {
    loop {
        // SAFETY: the call ends the child, and none of the program's functions run.
        unsafe { libc::syscall(libc::SYS_exit_group, 0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Mapping;

    const PAGES: usize = 600;

    /// Private memory with something in it, shared memory, and the piece that copies one to the other.
    fn make() -> (Mapping, Mapping, Vec<Piece>) {
        let from = Mapping::private(PAGES * PAGE_BYTES, false).unwrap();
        (0..PAGES).for_each(|page| from.write(page * PAGE_BYTES, &[page as u8 | 1; PAGE_BYTES]));
        // SAFETY: the descriptor is new, and the name ends with a zero.
        let file = unsafe { std::fs::File::from_raw_fd(libc::memfd_create(c"copied".as_ptr(), libc::MFD_CLOEXEC)) };
        file.set_len((PAGES * PAGE_BYTES) as u64).unwrap();
        let to = Mapping::shared(&file, 0, PAGES * PAGE_BYTES, true).unwrap();
        let split = 5 * PAGE_BYTES + 100;
        let piece = |begin: usize, bytes| Piece { from: from.address() + begin, to: to.address() + begin, bytes };
        let pieces = vec![piece(0, split), piece(split, 8), piece(split + 8, PAGES * PAGE_BYTES - split - 8)];
        (from, to, pieces)
    }

    fn is_copied(to: &Mapping) -> bool {
        let mut found = vec![0; PAGE_BYTES];
        (0..PAGES).all(|page| {
            to.read(page * PAGE_BYTES, &mut found);
            found.iter().all(|byte| *byte == page as u8 | 1)
        })
    }

    #[test]
    fn what_is_written_or_gone_meanwhile_was_copied_as_it_was() {
        let copier = Copier::new(1);
        for round in 0..20 {
            let (from, to, pieces) = make();
            // SAFETY: the targets lie in a mapping that nobody else uses.
            let mut child = unsafe { CopyingChild::start(&pieces, &Maps::default(), &copier) }.unwrap().unwrap();
            if round % 2 == 0 {
                from.write(0, &vec![0; PAGES * PAGE_BYTES]);
            }
            drop(from);
            assert!(child.wait(None) && child.is_done() && child.has_copied());
            assert!(is_copied(&to));
        }
    }

    /// Whether there is a child that copies, after such advice for part of what it is to copy.
    fn is_copied_after(advice: libc::c_int, pages: std::ops::Range<usize>) -> bool {
        let (from, to, pieces) = make();
        let address = (from.address() + pages.start * PAGE_BYTES) as *mut libc::c_void;
        // SAFETY: the pages lie in the mapping, and are the test's own.
        assert_eq!(unsafe { libc::madvise(address, pages.len() * PAGE_BYTES, advice) }, 0);
        // SAFETY: the targets lie in a mapping that nobody else uses.
        let child = unsafe { CopyingChild::start(&pieces, &Maps::default(), &Copier::new(1)) }.unwrap();
        drop(to);
        child.is_some()
    }

    #[test]
    fn memory_that_children_do_not_get_or_find_empty_is_told_at_once() {
        for pages in [0..PAGES, 300..301, 0..1, PAGES - 1..PAGES, 5..590] {
            assert!(!is_copied_after(libc::MADV_DONTFORK, pages.clone()), "{pages:?}");
            assert!(!is_copied_after(libc::MADV_WIPEONFORK, pages.clone()), "{pages:?}");
            assert!(is_copied_after(libc::MADV_RANDOM, pages.clone()), "{pages:?}");
            // Nothing is there any more, and it is zeros for the child, too.
            assert!(is_copied_after(libc::MADV_DONTNEED, pages.clone()), "{pages:?}");
        }
    }

    #[test]
    fn who_waits_for_a_time_waits_no_longer() {
        let (_from, to, pieces) = make();
        let (mut waited, mut rounds) = (0, 0);
        // A child may have copied all before it is stopped.
        while rounds < 20 || waited == 0 {
            rounds += 1;
            // SAFETY: the targets lie in a mapping that nobody else uses.
            let mut child =
                unsafe { CopyingChild::start(&pieces, &Maps::default(), &Copier::new(1)) }.unwrap().unwrap();
            let process = child.process.as_raw_fd();
            let signal = |signal: i32| {
                let none = ptr::null::<libc::siginfo_t>();
                // SAFETY: the call takes numbers, and the descriptor is open.
                unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process, signal, none, 0) };
            };
            signal(libc::SIGSTOP);
            for limit in [Duration::ZERO, Duration::from_millis(5)] {
                waited += u32::from(!child.wait(Some(limit)));
            }
            signal(libc::SIGCONT);
            assert!(child.wait(Some(Duration::MAX)) && child.has_copied());
            assert!(is_copied(&to));
        }
    }

    #[test]
    fn one_that_is_killed_or_given_up_has_not_copied() {
        let (_from, to, pieces) = make();
        for _ in 0..20 {
            // SAFETY: the targets lie in a mapping that nobody else uses.
            let child = unsafe { CopyingChild::start(&pieces, &Maps::default(), &Copier::new(1)) }.unwrap().unwrap();
            drop(child);
            let zeros = vec![0; PAGES * PAGE_BYTES];
            to.write(0, &zeros);
            std::thread::sleep(Duration::from_micros(200));
            let mut found = vec![1; PAGES * PAGE_BYTES];
            to.read(0, &mut found);
            assert!(found == zeros, "nothing is written when it was given up");
        }
    }
}
