//! How long a producer has waited, and what it left out, since its newest version.

use std::time::{Duration, Instant};

/// What a producer waited and left out since its newest version.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// The wait that goes on.
    pub(crate) wait: Option<Wait>,
    /// Time of those that are over.
    pub(crate) spent: Duration,
    /// Publishes left out.
    pub(crate) skipped: u64,
}

#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) begin: Instant,
    /// Whether it was told on standard error.
    pub(crate) is_said: bool,
}

impl Patience {
    pub(crate) fn waited(&self) -> Duration {
        self.wait.as_ref().map_or(Duration::ZERO, |wait| wait.begin.elapsed())
    }
}
