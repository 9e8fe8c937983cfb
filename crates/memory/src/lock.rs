//! A lock that is held across `fork`: a thread takes it in one function and lets it go in another.

use crate::kernel::{quietly, sleep_while, wake_one};
use crate::signals;
use std::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and somebody may sleep.
const AWAITED: u32 = 2;

/// The lock.
#[derive(Debug)]
pub struct Lock(AtomicU32);

/// While it lives, the lock is taken.
pub struct Held<'a>(&'a Lock);

impl Lock {
    pub const fn new() -> Lock {
        Lock(AtomicU32::new(FREE))
    }

    pub fn hold(&self) -> Held<'_> {
        self.take();
        Held(self)
    }

    /// Runs `work` with the lock, and without handlers of signals in this thread: one that forks would wait for the lock for
    /// good.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        signals::blocked(|| {
            quietly(|| {
                let _held = self.hold();
                work()
            })
        })
    }

    pub fn take(&self) {
        if self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return;
        }
        while self.0.swap(AWAITED, Ordering::Acquire) != FREE {
            sleep_while(&self.0, AWAITED);
        }
    }

    /// Lets go of it. Who calls this has taken it.
    pub fn give(&self) {
        if self.0.swap(FREE, Ordering::Release) == AWAITED {
            wake_one(&self.0);
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.give();
    }
}
