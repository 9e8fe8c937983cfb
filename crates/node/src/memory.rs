//! The memory that a runtime takes for what this node's programs read of other nodes.

use crate::error::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A bound for all of it, and what is taken.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    bound_bytes: u64,
    taken_bytes: Arc<AtomicU64>,
}

/// Some of it, until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    bytes: u64,
    of: Memory,
}

impl Memory {
    pub(crate) fn new(bound_bytes: u64) -> Memory {
        Memory { bound_bytes, taken_bytes: Arc::default() }
    }

    /// Takes so much, before it is allocated.
    ///
    /// # Errors
    /// [`Error::Memory`] if that is more than is left.
    pub(crate) fn charge(&self, bytes: u64) -> Result<Charge> {
        let more = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= self.bound_bytes);
        match self.taken_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Charge { bytes, of: self.clone() }),
            Err(taken_bytes) => Err(Error::Memory { bytes, taken_bytes, bound_bytes: self.bound_bytes }),
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.of.taken_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let memory = Memory::new(100);
        let first = memory.charge(60).unwrap();
        let error = memory.charge(41).unwrap_err();
        assert!(matches!(error, Error::Memory { bytes: 41, taken_bytes: 60, bound_bytes: 100 }), "{error}");
        let second = memory.charge(40).unwrap();
        drop(first);
        assert!(memory.charge(u64::MAX).is_err());
        drop((memory.charge(60).unwrap(), second));
        memory.charge(100).unwrap();
    }
}
