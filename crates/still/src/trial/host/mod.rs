//! Calls to the kernel that have no safe wrapper in the standard library.
//!
//! # Safety
//! This module, with [`queue`] in it, is the only one of the program with `unsafe` code, and it keeps this invariant: memory
//! that another process may write at any time is reached through atomics alone. The queue makes the one exception, and
//! explains it. Mappings are private fields, are unmapped when their owner is dropped, and every pointer handed to the
//! kernel comes from a reference that outlives the call.
#![allow(unsafe_code)]

pub mod queue;

use super::{Error, Result};
use std::fs::{File, OpenOptions};
use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// A file mapped into this process and others.
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process and not to a thread, and what it hands out is atomics or raw pointers.
unsafe impl Send for Mapping {}
// SAFETY: as above; no method changes the mapping itself through a shared reference.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` of the file at `path`, which is made and filled with zeros when it is missing.
    pub fn open(path: &Path, bytes: usize) -> Result<Mapping> {
        let call = |verb: &str| Error::system(format!("{verb} {}", path.display()));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path).map_err(call("open"))?;
        // A second process that opens the file finds it as long as it should be, and this changes nothing then.
        file.set_len(bytes as u64).map_err(call("truncate"))?;
        // SAFETY: the kernel chooses an unused range, so no other memory is touched; the descriptor is open during the
        // call, and the mapping keeps the file afterwards.
        let start = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(address) if start != libc::MAP_FAILED => Ok(Mapping { start: address, bytes }),
            _ => Err(Error::last(format!("mmap {}", path.display()))),
        }
    }

    /// The address of byte `offset`.
    pub fn address(&self, offset: usize) -> *mut u8 {
        assert!(offset < self.bytes, "byte {offset} of a mapping of {} bytes", self.bytes);
        // SAFETY: the offset lies in the mapping, as the line above has checked.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// The 32-bit word at byte `offset`.
    pub fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.bytes);
        // SAFETY: the word is inside the mapping, aligned, initialised (files hold zeros), lives as long as `self`, and
        // every process reaches it through atomics of this size.
        unsafe { AtomicU32::from_ptr(self.address(offset).cast()) }
    }

    /// The 64-bit word at byte `offset`.
    pub fn long(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.bytes);
        // SAFETY: as for `word`.
        unsafe { AtomicU64::from_ptr(self.address(offset).cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one that `mmap` returned, and every reference into it borrows `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Sleeps until another process wakes `word`, while it holds `expected`; false when `limit` passes first.
pub fn futex_wait(word: &AtomicU32, expected: u32, limit: Duration) -> bool {
    let limit = libc::timespec { tv_sec: limit.as_secs() as libc::time_t, tv_nsec: 0 };
    // SAFETY: both pointers come from references that live during the call, and FUTEX_WAIT only reads what they name.
    let outcome =
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &raw const limit) };
    outcome == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ETIMEDOUT)
}

/// Wakes one process that sleeps on `word`.
pub fn futex_wake(word: &AtomicU32) {
    // SAFETY: FUTEX_WAKE uses the address as a key and touches nothing.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}

/// Nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of processors that this process has used.
pub fn processor_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec to the one given.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The counter that [`ticks`] reads.
pub const COUNTER: &str = if cfg!(target_arch = "x86_64") {
    "tsc"
} else if cfg!(target_arch = "aarch64") {
    "cntvct"
} else {
    "clock"
};

/// The finest counter of time that a program can read here: of x86-64 cycles of a fixed rate. What stands before it in the
/// program has been done when it is read, page faults included.
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this kind has both instructions, which touch no memory, and Linux lets programs read the
    // counter.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        let ticks = std::arch::x86_64::_rdtsc();
        std::arch::x86_64::_mm_lfence();
        ticks
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instructions read a counter that Linux lets programs read, and touch no memory.
    unsafe {
        let ticks: u64;
        std::arch::asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) ticks);
        ticks
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    monotonic_ns()
}

/// Page faults of this process so far for which no disk was read.
pub fn faults() -> u64 {
    // SAFETY: an all-zero rusage is a valid one, and the kernel writes one to the place given.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    usage.ru_minflt as u64
}

/// A child that has the memory of this process as it was when it was forked. It does nothing, and ends when this is dropped.
pub struct Forked(libc::pid_t);

impl Forked {
    /// Forks.
    pub fn start() -> Result<Forked> {
        let parent = std::process::id();
        // SAFETY: the child has this thread alone, and makes but three calls to the kernel, all of them async-signal-safe.
        match unsafe { libc::fork() } {
            0 => sleep(parent),
            child if child > 0 => Ok(Forked(child)),
            _ => Err(Error::last("fork")),
        }
    }
}

/// Sleeps until a signal ends the process, which the end of its parent sends too.
fn sleep(parent: u32) -> ! {
    die_with_parent();
    // SAFETY: the calls take no pointers.
    unsafe {
        // A parent that was gone before sends nothing.
        while libc::getppid() as u32 == parent {
            libc::pause();
        }
        libc::_exit(0)
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        // SAFETY: the child is this process's own and has not been waited for, so its number is nobody else's. Nothing is
        // written where the pointer is null.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            while libc::waitpid(self.0, std::ptr::null_mut(), 0) < 0
                && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
            {}
        }
    }
}

/// Memory of a pool of large pages, this process's own.
pub struct PoolMemory {
    start: NonNull<u8>,
    bytes: usize,
}

impl PoolMemory {
    /// Maps so many bytes, whole large pages, of a file of the pool, and takes memory for all.
    pub fn map(file: &File, bytes: usize) -> Result<PoolMemory> {
        // SAFETY: the kernel chooses an unused range, so no other memory is touched; the descriptor is open during the
        // call, and the mapping keeps the file afterwards.
        let start = unsafe {
            let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_POPULATE);
            libc::mmap(std::ptr::null_mut(), bytes, access, flags, file.as_raw_fd(), 0)
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(address) if start != libc::MAP_FAILED => Ok(PoolMemory { start: address, bytes }),
            _ => Err(Error::last(format!("mmap {bytes} bytes of a pool of large pages"))),
        }
    }
}

impl Deref for PoolMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is private, so that nobody else writes it, and lives as long as what is lent.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for PoolMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; who has it exclusively has its memory so.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for PoolMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping that `map` made, of which nothing is lent any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Asks the kernel for large pages where memory that was never touched is touched first. It need not heed that.
pub fn advise_large(memory: &mut [u8]) {
    advise(memory, libc::MADV_HUGEPAGE);
}

/// Asks it for small ones.
pub fn refuse_large(memory: &mut [u8]) {
    advise(memory, libc::MADV_NOHUGEPAGE);
}

fn advise(memory: &mut [u8], advice: libc::c_int) {
    let page = super::measure::PAGE_BYTES;
    let skipped = memory.as_ptr().align_offset(page).min(memory.len());
    let bytes = (memory.len() - skipped) / page * page;
    // SAFETY: the range is whole pages of the slice, which is borrowed exclusively, and advice changes no byte of it.
    unsafe { libc::madvise(memory[skipped..].as_mut_ptr().cast(), bytes, advice) };
}

/// Asks the kernel to kill this process when its parent dies, in case it then sleeps where it cannot notice.
pub fn die_with_parent() {
    // SAFETY: PR_SET_PDEATHSIG takes a signal number and no pointers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Keeps the calling thread, and threads it starts meanwhile, on one processor until it is dropped.
pub struct Pin {
    before: libc::cpu_set_t,
}

impl Pin {
    /// Moves to the `index`-th of the processors this thread may use, counted round; none when that is refused.
    pub fn to(index: usize) -> Option<Pin> {
        let before = affinity()?;
        let processors = processors(&before);
        let chosen = *processors.get(index % processors.len().max(1))?;
        // SAFETY: an all-zero cpu_set_t is the empty set, and `chosen` came out of a set of the same size.
        let set = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(chosen, &mut set);
            set
        };
        set_affinity(&set).then_some(Pin { before })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        set_affinity(&self.before);
    }
}

fn affinity() -> Option<libc::cpu_set_t> {
    // SAFETY: an all-zero cpu_set_t is valid, and the kernel writes at most its size into it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) == 0).then_some(set)
    }
}

fn set_affinity(set: &libc::cpu_set_t) -> bool {
    // SAFETY: the kernel reads one set of the size given.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) == 0 }
}

fn processors(set: &libc::cpu_set_t) -> Vec<usize> {
    // SAFETY: every index is below the size of the set in bits.
    (0..libc::CPU_SETSIZE as usize).filter(|&processor| unsafe { libc::CPU_ISSET(processor, set) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::measure::{Memory, PAGE_BYTES};

    #[test]
    fn the_counter_goes_on() {
        let begin = ticks();
        std::thread::sleep(Duration::from_millis(1));
        assert!(ticks() > begin);
    }

    #[test]
    fn each_page_that_a_forked_child_has_too_is_copied_when_it_is_written_and_the_child_ends() {
        let mut memory = Memory::small(64 * PAGE_BYTES);
        let child = Forked::start().unwrap();
        let before = faults();
        memory.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 2);
        assert!(faults() - before >= 64);
        let number = child.0;
        drop(child);
        // SAFETY: signal 0 asks whether there is such a process, and does nothing to it.
        let answer = unsafe { libc::kill(number, 0) };
        assert_eq!((answer, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::ESRCH)));
    }
}
