//! Locks that a panic leaves open.

use std::sync::{Mutex, MutexGuard};

/// Nothing that panics leaves the values behind these locks half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}
