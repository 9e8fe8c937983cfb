//! Memory as the paper's programs have it: mappings of files, `msync`, and semaphores between processes.
//!
//! # Safety
//! A `Pages` owns its mapping, and its slices borrow it. Private and anonymous mappings are one process's alone. Shared ones
//! are written only by whoever holds the semaphore that stands for the slot, and views of publications by nobody: both ends
//! are this program. The semaphores lie in the first page of their mapping, aligned, for as long as it lives.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io::{Error, Result};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, FromRawFd};

pub const PAGE_BYTES: usize = 4096;
const MS_UPDATE: i32 = 8;

/// A mapping that this value owns.
pub struct Pages {
    address: *mut libc::c_void,
    bytes: usize,
}

fn map(bytes: usize, protection: i32, flags: i32, file: Option<&File>) -> Result<Pages> {
    let descriptor = file.map_or(-1, |file| file.as_raw_fd());
    // SAFETY: the kernel chooses free addresses.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, descriptor, 0) };
    if address == libc::MAP_FAILED { Err(Error::last_os_error()) } else { Ok(Pages { address, bytes }) }
}

const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;

impl Pages {
    /// Memory of this process, every page of it written once.
    pub fn plain(bytes: usize) -> Result<Pages> {
        let mut pages = map(bytes, BOTH, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, None)?;
        pages.fill(1);
        Ok(pages)
    }

    /// A writable private mapping, as a producer of the paper has it.
    pub fn private(file: &File, bytes: usize) -> Result<Pages> {
        map(bytes, BOTH, libc::MAP_PRIVATE, Some(file))
    }

    /// A read-only mapping, as an observer of the paper has it.
    pub fn view(file: &File, bytes: usize) -> Result<Pages> {
        map(bytes, libc::PROT_READ, libc::MAP_PRIVATE, Some(file))
    }

    /// Memory that two processes write.
    pub fn shared(file: &File, bytes: usize) -> Result<Pages> {
        map(bytes, BOTH, libc::MAP_SHARED, Some(file))
    }

    /// Publishes a private mapping by the paper's flag.
    pub fn msync(&mut self) -> Result<()> {
        // SAFETY: the range is the mapping's.
        match unsafe { libc::msync(self.address, self.bytes, libc::MS_SYNC | MS_UPDATE) } {
            0 => Ok(()),
            _ => Err(Error::last_os_error()),
        }
    }

    pub fn doubles(&self) -> &[f64] {
        // SAFETY: mappings are aligned to pages, every pattern of bits is a number, and the invariant above says who writes.
        unsafe { std::slice::from_raw_parts(self.address.cast(), self.bytes / size_of::<f64>()) }
    }

    pub fn doubles_mut(&mut self) -> &mut [f64] {
        // SAFETY: as for `doubles`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.address.cast(), self.bytes / size_of::<f64>()) }
    }

    pub fn integers_mut(&mut self) -> &mut [i32] {
        // SAFETY: as for `doubles_mut`.
        unsafe { std::slice::from_raw_parts_mut(self.address.cast(), self.bytes / size_of::<i32>()) }
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range is the mapping's, and the invariant above says who writes.
        unsafe { std::slice::from_raw_parts(self.address.cast(), self.bytes) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.address.cast(), self.bytes) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping's, and no borrow outlives it.
        unsafe { libc::munmap(self.address, self.bytes) };
    }
}

/// Opens shared memory of this name, making it this long if `bytes` says so.
pub fn shm_open(name: &str, bytes: Option<usize>) -> Result<File> {
    let text = CString::new(name).map_err(|_| Error::from(std::io::ErrorKind::InvalidInput))?;
    let flags = if bytes.is_some() { libc::O_RDWR | libc::O_CREAT } else { libc::O_RDWR };
    // SAFETY: the name is a string that ends.
    let descriptor = unsafe { libc::shm_open(text.as_ptr(), flags | libc::O_CLOEXEC, 0o600) };
    if descriptor < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the call returned a descriptor of its own.
    let file = unsafe { File::from_raw_fd(descriptor) };
    if let Some(bytes) = bytes {
        file.set_len(bytes as u64)?;
    }
    Ok(file)
}

pub fn shm_unlink(name: &str) {
    if let Ok(name) = CString::new(name) {
        // SAFETY: the name is a string that ends. What is not there need not be removed.
        unsafe { libc::shm_unlink(name.as_ptr()) };
    }
}

/// Two semaphores that count free and filled slots, and the slots behind them.
pub struct Queue {
    pages: Pages,
    slot_bytes: usize,
    turn: usize,
}

/// Slots of a queue: while one is read the other is written.
pub const SLOTS: usize = 2;
const FREE: usize = 0;
const FILLED: usize = 1024;

impl Queue {
    /// Bytes of a queue's memory.
    pub fn bytes(slot_bytes: usize) -> usize {
        PAGE_BYTES + SLOTS * slot_bytes
    }

    pub fn create(file: &File, slot_bytes: usize) -> Result<Queue> {
        let queue = Queue::open(file, slot_bytes)?;
        for (offset, count) in [(FREE, SLOTS as u32), (FILLED, 0)] {
            // SAFETY: the semaphore lies in the first page, and nobody else has opened the memory yet.
            if unsafe { libc::sem_init(queue.semaphore(offset), 1, count) } != 0 {
                return Err(Error::last_os_error());
            }
        }
        Ok(queue)
    }

    pub fn open(file: &File, slot_bytes: usize) -> Result<Queue> {
        Ok(Queue { pages: Pages::shared(file, Queue::bytes(slot_bytes))?, slot_bytes, turn: 0 })
    }

    fn semaphore(&self, offset: usize) -> *mut libc::sem_t {
        // SAFETY: both offsets lie in the first page.
        unsafe { self.pages.address.byte_add(offset).cast() }
    }

    fn hand_over(&mut self, from: usize, to: usize, work: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
        // SAFETY: the semaphore was made by `create`.
        while unsafe { libc::sem_wait(self.semaphore(from)) } != 0 {
            let error = Error::last_os_error();
            if error.kind() != std::io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        let start = PAGE_BYTES + self.turn % SLOTS * self.slot_bytes;
        let (end, bytes) = (start + self.slot_bytes, &mut *self.pages);
        work(&mut bytes[start..end])?;
        self.turn += 1;
        // SAFETY: as above.
        unsafe { libc::sem_post(self.semaphore(to)) };
        Ok(())
    }

    /// Waits for a free slot and gives it away filled.
    pub fn fill(&mut self, work: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
        self.hand_over(FREE, FILLED, work)
    }

    /// Waits for a filled slot and gives it back free.
    pub fn drain(&mut self, work: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
        self.hand_over(FILLED, FREE, work)
    }
}

/// The numbers of a slot.
pub fn as_doubles(bytes: &[u8]) -> &[f64] {
    // SAFETY: every pattern of bits is a number; what is not aligned is left out.
    unsafe { bytes.align_to::<f64>().1 }
}

/// Keeps this process on the first `count` processors, so that as many threads copy.
pub fn use_processors(count: usize) {
    // SAFETY: the set is plain data, valid when zeroed; a refusal leaves the process where it is.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (0..count).for_each(|cpu| libc::CPU_SET(cpu, &mut set));
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}
