//! A stretch of mapped memory: of a mapping of its own, or inside that of an arena.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use stillframe_kernel::map::Mapping;

/// Neighbouring bytes of a mapping.
#[derive(Debug, Clone)]
pub(crate) struct Stretch {
    map: Arc<Mapping>,
    at: usize,
}

impl Stretch {
    /// The bytes of a mapping from `at` on.
    pub(crate) fn new(map: Arc<Mapping>, at: usize) -> Stretch {
        Stretch { map, at }
    }

    pub(crate) fn word64(&self, offset: usize) -> &AtomicU64 {
        self.map.word64(self.at + offset)
    }

    pub(crate) fn word32(&self, offset: usize) -> &AtomicU32 {
        self.map.word32(self.at + offset)
    }

    pub(crate) fn read(&self, offset: usize, out: &mut [u8]) {
        self.map.read(self.at + offset, out);
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        self.map.write(self.at + offset, bytes);
    }
}
