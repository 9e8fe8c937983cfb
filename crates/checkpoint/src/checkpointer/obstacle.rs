//! What keeps a version that is to be saved from its checkpointer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What keeps a version that is to be saved from its checkpointer, as whoever puts versions together says while it lasts. The
/// status has that version among those that are not saved; see [`CheckpointerOptions::obstacle`](super::CheckpointerOptions::obstacle).
#[derive(Debug, Clone, Default)]
pub struct Obstacle(Arc<Mutex<Option<(u64, String)>>>);

impl Obstacle {
    /// Says which version cannot be handed over, and why.
    pub fn set(&self, version: u64, why: &str) {
        *self.lock() = Some((version, why.to_owned()));
    }

    /// Says that there is none any more.
    pub fn clear(&self) {
        *self.lock() = None;
    }

    /// The version that cannot be handed over, and why.
    pub(super) fn get(&self) -> Option<(u64, String)> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<(u64, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
