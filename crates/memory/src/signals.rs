//! Signals that wait for a while: a handler might ask for memory, or leave by a jump, while this library changes some.

use crate::kernel::{quietly, take_signal};
use libc::{c_int, sigset_t};

/// Which signals a thread had blocked.
pub struct Mask(sigset_t);

/// Blocks all signals of this thread.
pub fn block() -> Mask {
    // SAFETY: sets are plain data, which the calls fill.
    unsafe {
        let mut all: sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        change(libc::SIG_BLOCK, &all)
    }
}

/// Blocks what was blocked before, and no more.
pub fn restore(mask: &Mask) {
    change(libc::SIG_SETMASK, &mask.0);
}

fn change(how: c_int, set: &sigset_t) -> Mask {
    // SAFETY: as above.
    unsafe {
        let mut before: sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(how, set, &mut before);
        Mask(before)
    }
}

/// Runs `work` while no handler runs in this thread.
pub fn blocked<T>(work: impl FnOnce() -> T) -> T {
    let mask = block();
    let result = work();
    restore(&mask);
    result
}

/// Runs `work`, which may write to a pipe that nobody reads, without the signal for it.
pub fn without_pipe(work: impl FnOnce()) {
    quietly(|| {
        // SAFETY: as above.
        unsafe {
            let mut pipe: sigset_t = std::mem::zeroed();
            let mut pending: sigset_t = std::mem::zeroed();
            libc::sigaddset(&mut pipe, libc::SIGPIPE);
            libc::sigpending(&mut pending);
            let mask = change(libc::SIG_BLOCK, &pipe);
            work();
            // One that waited before is the program's.
            if libc::sigismember(&pending, libc::SIGPIPE) == 0 {
                take_signal(&pipe);
            }
            restore(&mask);
        }
    });
}
