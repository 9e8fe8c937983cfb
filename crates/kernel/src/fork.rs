//! What a forked child must not keep.
//!
//! A child inherits open files, and with them their record locks: a producer that died would look alive for as long as
//! some child of it lives. A handler that runs in every child of fork(3) therefore closes the registered files, and a
//! generation number tells handles that they were made by another process.
//!
//! It inherits locks too, as they are, and of the threads that hold them none. What belongs to a handle is of no more use
//! in the child; what belongs to the process must therefore not be a lock that anyone waits for. Values that are made once
//! are `once_cell::race`'s: whoever comes meanwhile makes one as well.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

const CLOSE_MAX: usize = 1024;
static CLOSE: [AtomicI32; CLOSE_MAX] = [const { AtomicI32::new(-1) }; CLOSE_MAX];
static GENERATION: AtomicU32 = AtomicU32::new(0);
static IS_INSTALLED: AtomicBool = AtomicBool::new(false);

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::SeqCst);
    for slot in &CLOSE {
        let descriptor = slot.swap(-1, Ordering::SeqCst);
        if descriptor >= 0 {
            // SAFETY: close is async-signal-safe. The owner of the descriptor learns from the generation that it must
            // neither use nor close it any more.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// A number that differs between a process and its forked children.
pub fn generation() -> u32 {
    // Threads that come here together may install it twice, which only counts a fork twice.
    if !IS_INSTALLED.load(Ordering::Acquire) {
        // SAFETY: the handler is async-signal-safe: it touches atomics and calls close.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        IS_INSTALLED.store(true, Ordering::Release);
    }
    GENERATION.load(Ordering::Relaxed)
}

/// A file that forked children do not keep open.
#[derive(Debug)]
pub struct Unforked {
    file: std::mem::ManuallyDrop<std::fs::File>,
    generation: u32,
}

impl Unforked {
    /// Registers a file to be closed in forked children.
    pub fn new(file: std::fs::File) -> Unforked {
        use std::os::fd::AsRawFd;
        let generation = generation();
        let descriptor = file.as_raw_fd();
        // When all places are taken the file is merely inherited, as any other file would be.
        for slot in &CLOSE {
            if slot.compare_exchange(-1, descriptor, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                break;
            }
        }
        Unforked { file: std::mem::ManuallyDrop::new(file), generation }
    }

    /// Whether this is the process that opened the file.
    pub fn is_ours(&self) -> bool {
        self.generation == generation()
    }

    /// The file, unless this process is a forked child of the one that opened it.
    pub fn get(&self) -> Option<&std::fs::File> {
        self.is_ours().then_some(&*self.file)
    }
}

impl Drop for Unforked {
    fn drop(&mut self) {
        use std::os::fd::AsRawFd;
        if !self.is_ours() {
            return;
        }
        let descriptor = self.file.as_raw_fd();
        for slot in &CLOSE {
            if slot.compare_exchange(descriptor, -1, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                break;
            }
        }
        // SAFETY: the file is dropped once, here, and only by the process that opened it.
        unsafe { std::mem::ManuallyDrop::drop(&mut self.file) };
    }
}
