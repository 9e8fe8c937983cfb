//! `shm-memcpy`: what one writes by hand. Two buffers in POSIX shared memory, two process-shared
//! semaphores; the producer copies its own array in, the observer sums in place.

use crate::{Job, Result, work};
use std::cell::UnsafeCell;
use std::fs::File;
use std::io::Error;
use std::os::fd::AsRawFd;

/// Maps a file shared and writable, with all its pages populated: no contender of this module and no
/// control page pays for first touches while it is measured.
pub fn map(file: &File, bytes: usize) -> Result<*const u8> {
    // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
    let map = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_POPULATE,
            file.as_raw_fd(),
            0,
        )
    };
    if map == libc::MAP_FAILED {
        return Err(format!("cannot map {bytes} bytes: {}", Error::last_os_error()).into());
    }
    Ok(map.cast_const().cast())
}

#[repr(C, align(4096))]
struct Head {
    /// Buffers to write to, at first 2.
    empty: UnsafeCell<libc::sem_t>,
    /// Buffers to read, at first 0.
    full: UnsafeCell<libc::sem_t>,
}

struct Shm {
    map: *const u8,
    elements: usize,
}

impl Shm {
    /// Never unmapped: it lives as long as its process.
    fn new(file: &File, elements: usize) -> Result<Self> {
        Ok(Self { map: map(file, Self::bytes(elements))?, elements })
    }

    fn bytes(elements: usize) -> usize {
        size_of::<Head>() + 2 * elements * size_of::<f64>()
    }

    fn head(&self) -> &Head {
        // SAFETY: page aligned, long enough, never unmapped; the semaphores are only used through
        // their own functions, which synchronise.
        unsafe { &*self.map.cast() }
    }

    fn buffer(&self, step: u64) -> *mut f64 {
        // SAFETY: both buffers lie behind the head, within the mapping.
        unsafe {
            let first = self.map.add(size_of::<Head>()).cast::<f64>();
            first.add((step % 2) as usize * self.elements).cast_mut()
        }
    }
}

fn wait(semaphore: &UnsafeCell<libc::sem_t>) {
    // SAFETY: the producer initialised the semaphore before the observer was let in. Fails only
    // when a signal interrupts it.
    while unsafe { libc::sem_wait(semaphore.get()) } != 0 {}
}

fn post(semaphore: &UnsafeCell<libc::sem_t>) {
    // SAFETY: as in `wait`.
    unsafe { libc::sem_post(semaphore.get()) };
}

pub fn producer(job: &Job) -> Result<()> {
    let file = File::options().read(true).write(true).create_new(true).open(job.shm_path())?;
    file.set_len(Shm::bytes(job.elements) as u64)?;
    let shm = Shm::new(&file, job.elements)?;
    let Head { empty, full } = shm.head();
    // SAFETY: both lie in shared memory that nobody else uses yet; 1 means shared by processes.
    unsafe {
        libc::sem_init(empty.get(), 1, 2);
        libc::sem_init(full.get(), 1, 0);
    }
    let mut data = vec![1.0; job.elements];
    job.control.produce(|step, row| {
        row.filling();
        work::fill(step, &mut data);
        row.filled();
        wait(empty);
        // SAFETY: both sides are `elements` long; `empty` says that nobody reads this buffer.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), shm.buffer(step), data.len()) };
        post(full);
        Ok(())
    })
}

pub fn observer(job: &Job) -> Result<()> {
    job.control.wait_created();
    let shm = Shm::new(&File::options().read(true).write(true).open(job.shm_path())?, job.elements)?;
    let Head { empty, full } = shm.head();
    job.control.observe(|step, row| {
        wait(full);
        // SAFETY: `full` says that the buffer is written, and nobody writes to it until `empty`.
        let data = unsafe { std::slice::from_raw_parts(shm.buffer(step), shm.elements) };
        row.summed(work::sum(data));
        post(empty);
        Ok(())
    })
}
