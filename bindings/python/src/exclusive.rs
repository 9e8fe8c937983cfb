//! Something that one thread at a time uses, and that others wait for without keeping Python from anything.

use crate::{errors, wait};
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// A value of the process that made it.
pub struct Exclusive<T> {
    value: Mutex<T>,
    pid: u32,
}

impl<T: Send> Exclusive<T> {
    pub fn new(value: T) -> Self {
        Self { value: Mutex::new(value), pid: std::process::id() }
    }

    /// Whether this process made it, and is not a fork of that one.
    pub fn is_ours(&self) -> bool {
        std::process::id() == self.pid
    }

    /// The value, if this process made it.
    pub fn into_inner(self) -> Option<T> {
        let is_ours = self.is_ours();
        let value = self.value.into_inner().unwrap_or_else(PoisonError::into_inner);
        is_ours.then_some(value)
    }

    /// Runs `work` on the value, away from the interpreter.
    pub fn with<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut T) -> R + Send) -> PyResult<R> {
        let mut work = Some(work);
        loop {
            if !self.is_ours() {
                return Err(errors::new(
                    py,
                    "ForkError",
                    "this fragment belongs to the process that forked this one: attach one in the child",
                ));
            }
            let outcome = py.detach(|| {
                let mut value = self.lock()?;
                work.take().map(|work| work(&mut value))
            });
            match outcome {
                Some(outcome) => return Ok(outcome),
                None => py.check_signals()?,
            }
        }
    }

    /// The value, unless another thread keeps it for long: a mutex of the standard library cannot be waited for with a limit,
    /// and without one Ctrl-C would go unnoticed.
    pub fn lock(&self) -> Option<MutexGuard<'_, T>> {
        let until = Instant::now() + wait::SLICE;
        loop {
            match self.value.try_lock() {
                Ok(value) => return Some(value),
                Err(TryLockError::Poisoned(value)) => return Some(value.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
                Err(TryLockError::WouldBlock) => return None,
            }
        }
    }
}
