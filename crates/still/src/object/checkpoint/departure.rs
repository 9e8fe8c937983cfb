//! The departure of an object's writers, after which others may come.

use super::limits::LAST_TRIES;
use std::time::{Duration, Instant};

/// When the writers left, and what was so then.
#[derive(Debug, Clone, Copy)]
pub struct Departure {
    pub since: Instant,
    /// The newest version.
    newest: u64,
    /// Whether that was read since, or cannot be.
    pub is_last_read: bool,
    /// How often saving had failed then, or at any time since: less after something was safe.
    failures: u32,
    /// The same from the end of the time in which others may come.
    failures_after_limit: Option<u32>,
}

impl Departure {
    /// The departure that was known, or a new one where a version is newer: others have come and left meanwhile. `failures` says how often
    /// saving has failed, `limit` in which time others may come.
    pub fn after(known: Option<Departure>, newest: u64, failures: u32, limit: Duration) -> Departure {
        let since = Instant::now();
        let new = Departure { since, newest, is_last_read: false, failures, failures_after_limit: None };
        let mut departure = known.filter(|known| known.newest == newest).unwrap_or(new);
        departure.failures = departure.failures.min(failures);
        if departure.since.elapsed() >= limit {
            let former = departure.failures_after_limit.unwrap_or(failures);
            departure.failures_after_limit = Some(former.min(failures));
        }
        departure
    }

    /// Whether saving has failed as often as is tried after a departure, and once after the time in which others may come.
    pub fn is_hopeless(&self, failures: u32) -> bool {
        let is_tried_after_limit = self.failures_after_limit.is_some_and(|former| failures > former);
        is_tried_after_limit && failures.saturating_sub(self.failures) >= LAST_TRIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1 << 30);

    #[test]
    fn what_failed_often_before_the_writers_left_is_tried_no_more_often_after_it() {
        let mut departure = Departure::after(None, 7, 1400, Duration::ZERO);
        let mut is_hopeless = |failures| {
            departure = Departure::after(Some(departure), 7, failures, Duration::ZERO);
            departure.is_hopeless(failures)
        };
        assert!(!is_hopeless(1400) && !is_hopeless(1401));
        // That one is safe, and the next fails.
        assert!(!is_hopeless(0) && !is_hopeless(1) && is_hopeless(2));
    }

    #[test]
    fn one_save_has_to_fail_after_the_time_in_which_others_may_come() {
        let departure = Departure::after(Some(Departure::after(None, 7, 0, LONG)), 7, 5, LONG);
        assert!(!departure.is_hopeless(5));
        let departure = Departure::after(Some(departure), 7, 5, Duration::ZERO);
        assert!(!departure.is_hopeless(5) && departure.is_hopeless(6));
    }

    #[test]
    fn who_writes_a_newer_version_departs_anew() {
        let mut departure = Departure::after(None, 7, 0, LONG);
        departure.is_last_read = true;
        assert!(Departure::after(Some(departure), 7, 0, LONG).is_last_read);
        let later = Departure::after(Some(departure), 8, 0, LONG);
        assert!(!later.is_last_read && later.since >= departure.since);
    }
}
