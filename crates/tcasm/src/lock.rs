//! Locks that a panic leaves open.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};

/// Nothing that panics leaves the values behind these locks half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}

/// A lock that is held, and that keeps what it is a part of.
#[derive(Debug)]
pub struct Kept<W: 'static, T: 'static> {
    /// Before the whole, because it is given back before that goes.
    guard: MutexGuard<'static, T>,
    whole: Arc<W>,
}

impl<W, T> Kept<W, T> {
    /// Waits for a lock of `whole`.
    pub fn new(whole: Arc<W>, part: fn(&W) -> &Mutex<T>) -> Kept<W, T> {
        // SAFETY: what is behind an `Arc` stays where it is as long as the `Arc` lives, and the reference lives in the guard
        // alone, which goes before it.
        let lasting: &'static W = unsafe { &*Arc::as_ptr(&whole) };
        Kept { guard: lock(part(lasting)), whole }
    }

    /// What the lock is a part of.
    pub fn whole(&self) -> &Arc<W> {
        &self.whole
    }
}

impl<W, T> Deref for Kept<W, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<W, T> DerefMut for Kept<W, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
