//! How long something may take.

use std::time::{Duration, Instant};

/// A point in time, or none.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    begin: Instant,
    end: Option<Instant>,
}

impl Deadline {
    /// So long from now; what no clock can show is without end.
    pub fn after(limit: Duration) -> Deadline {
        let begin = Instant::now();
        Deadline { begin, end: begin.checked_add(limit) }
    }

    /// This one, or so long from now if that is later.
    pub fn or_after(self, limit: Duration) -> Deadline {
        let other = Deadline::after(limit);
        let end = self.end.and_then(|end| other.end.map(|other| end.max(other)));
        Deadline { begin: self.begin, end }
    }

    /// The time that is left, zero when it has passed; `None` without end.
    pub fn left(&self) -> Option<Duration> {
        self.end.map(|end| end.saturating_duration_since(Instant::now()))
    }

    /// The time since it was set.
    pub fn waited(&self) -> Duration {
        self.begin.elapsed()
    }
}
