//! Shared buffers guarded by semaphores: the classic way to hand arrays from one process to another.
//!
//! # Safety
//! A queue lies in a file that both processes map: two POSIX semaphores, then the slots. The semaphores count the free
//! and the filled slots. The producer goes through the slots in order and holds one only between taking a free one and
//! posting a filled one; the observer does the same the other way round. So no slot is ever in the hands of both, and a
//! slice into the slot held is sound, as long as there is one process on each side and both are this program. The file
//! lies in a directory of mode 0700 that was made for the run.

use super::Mapping;
use crate::trial::child::PATIENCE;
use crate::trial::{Error, Result};
use std::path::Path;

/// Number of slots: while one is read the other is written.
pub const SLOTS: usize = 2;

const SLOTS_START: usize = 4096;
const FREE: usize = 0;
const FILLED: usize = 256;
const _: () = assert!(size_of::<libc::sem_t>() <= FILLED - FREE && align_of::<libc::sem_t>() <= 64);

/// One side of a queue of arrays.
pub struct Queue {
    mapping: Mapping,
    elements: usize,
    taken: usize,
}

impl Queue {
    /// Makes a queue of arrays of `elements` numbers. The other side opens it once this has returned.
    pub fn create(path: &Path, elements: usize) -> Result<Queue> {
        let queue = Self::open(path, elements)?;
        for (offset, count) in [(FREE, SLOTS as u32), (FILLED, 0)] {
            // SAFETY: the semaphore lies inside the mapping and is aligned, and nobody else has opened the file yet.
            if unsafe { libc::sem_init(queue.semaphore(offset), 1, count) } != 0 {
                return Err(Error::last("sem_init"));
            }
        }
        Ok(queue)
    }

    /// Opens the queue that another process has made.
    pub fn open(path: &Path, elements: usize) -> Result<Queue> {
        let mapping = Mapping::open(path, SLOTS_START + SLOTS * elements * size_of::<f64>())?;
        Ok(Queue { mapping, elements, taken: 0 })
    }

    /// Waits for a free slot and gives it away filled; `write` gets the slot and its number.
    pub fn fill(&mut self, write: impl FnOnce(usize, &mut [f64]) -> Result<()>) -> Result<()> {
        self.hand_over(FREE, FILLED, write)
    }

    /// Waits for a filled slot and gives it back free; `read` gets the slot and its number.
    pub fn drain(&mut self, read: impl FnOnce(usize, &mut [f64]) -> Result<()>) -> Result<()> {
        self.hand_over(FILLED, FREE, read)
    }

    fn hand_over(&mut self, from: usize, to: usize, work: impl FnOnce(usize, &mut [f64]) -> Result<()>) -> Result<()> {
        self.take(from)?;
        let slot = self.taken % SLOTS;
        self.taken += 1;
        // SAFETY: the slot lies in the mapping, is aligned for and made of numbers for which every bit
        // pattern is valid. It is held by this side alone until the post below (see the head of the module).
        let numbers = unsafe {
            let start = SLOTS_START + slot * self.elements * size_of::<f64>();
            std::slice::from_raw_parts_mut(self.mapping.address(start).cast(), self.elements)
        };
        work(slot, numbers)?;
        // SAFETY: the semaphore is inside the mapping and was initialised by `create`.
        match unsafe { libc::sem_post(self.semaphore(to)) } {
            0 => Ok(()),
            _ => Err(Error::last("sem_post")),
        }
    }

    fn take(&self, offset: usize) -> Result<()> {
        // SAFETY: the semaphore is inside the mapping and was initialised by `create`, `time` is written by the kernel
        // before it is read, and both outlive the calls.
        let outcome = unsafe {
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            libc::clock_gettime(libc::CLOCK_REALTIME, &mut time);
            time.tv_sec += PATIENCE.as_secs() as libc::time_t;
            loop {
                let outcome = libc::sem_timedwait(self.semaphore(offset), &time);
                if outcome == 0 || std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
                    break outcome;
                }
            }
        };
        if outcome == 0 { Ok(()) } else { Err(Error::last("sem_timedwait")) }
    }

    fn semaphore(&self, offset: usize) -> *mut libc::sem_t {
        self.mapping.address(offset).cast()
    }
}
