//! Which versions are to be saved.

use std::time::{Duration, Instant};

/// The rules that go by numbers and by time. Any one of them is enough.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schedule {
    /// Multiples of this number.
    pub every: Option<u64>,
    /// So long after the last one.
    pub every_time: Option<Duration>,
    /// The number that was there first, if any was.
    first: Option<u64>,
    /// The last number that was looked at.
    seen: Option<u64>,
    /// When a version was last handed over to be saved.
    begun: Option<Instant>,
}

impl Schedule {
    pub fn new(every: Option<u64>, every_time: Option<Duration>) -> Schedule {
        Schedule { every, every_time, ..Schedule::default() }
    }

    /// Multiples of `every` that were reached between the last look and this number. A version whose number is no
    /// multiple stands for the ones before it, which the producer may not have published at all, or which went.
    pub fn reached(&self, version: u64) -> u64 {
        let Some(every) = self.every else { return 0 };
        match self.seen {
            Some(seen) => (version / every).saturating_sub(seen / every),
            None => (version / every + 1).saturating_sub(self.first.unwrap_or(version).div_ceil(every)),
        }
    }

    /// The last multiple of `every` up to this number, if it was not looked at before.
    pub fn multiple(&self, version: u64) -> Option<u64> {
        let multiple = version - version % self.every?;
        (self.seen < Some(multiple)).then_some(multiple)
    }

    /// How long until time makes the next version due; `None` if it never does.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        let every = self.every_time?;
        Some(self.begun.map_or(Duration::ZERO, |begun| every.saturating_sub(now.saturating_duration_since(begun))))
    }

    /// Whether a version that comes is due.
    pub fn is_due(&self, version: u64, now: Instant) -> bool {
        self.reached(version) > 0 || self.left(now) == Some(Duration::ZERO)
    }

    /// Takes note of a version that was looked at.
    pub fn see(&mut self, version: u64) {
        self.seen = Some(version);
    }

    /// Takes note of a version that was handed over.
    pub fn take(&mut self, version: u64, now: Instant) {
        self.see(version);
        self.begun = Some(now);
    }

    /// The last number that was looked at.
    pub fn seen(&self) -> Option<u64> {
        self.seen
    }

    /// Begins with another run, whose numbers mean something else, and with the number that is there first, if one is.
    pub fn begin(&mut self, first: Option<u64>) {
        (self.first, self.seen) = (first, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_due_when_a_multiple_is_reached() {
        let now = Instant::now();
        let mut schedule = Schedule::new(Some(100), None);
        assert!(!schedule.is_due(57, now));
        schedule.see(57);
        assert!(!schedule.is_due(99, now));
        assert!(schedule.is_due(100, now) && schedule.is_due(101, now), "100 was not published, or went");
        assert_eq!((schedule.multiple(101), schedule.multiple(99), schedule.reached(310)), (Some(100), None, 3));
        schedule.take(101, now);
        assert!(!schedule.is_due(199, now) && schedule.is_due(200, now));
        schedule.begin(None);
        assert!(schedule.is_due(0, now) && !schedule.is_due(1, now));
        schedule.begin(Some(300));
        assert_eq!(
            (schedule.reached(300), schedule.reached(399), schedule.reached(401)),
            (1, 1, 2),
            "300 may have gone"
        );
        schedule.begin(Some(301));
        assert_eq!((schedule.reached(399), schedule.reached(400)), (0, 1));
        assert_eq!(schedule.left(now), None);
    }

    #[test]
    fn the_first_version_is_due_by_time_and_then_one_after_each_interval() {
        let now = Instant::now();
        let mut schedule = Schedule::new(None, Some(Duration::from_secs(60)));
        assert!(schedule.is_due(7, now));
        schedule.take(7, now);
        assert!(!schedule.is_due(8, now + Duration::from_secs(59)));
        assert_eq!(schedule.left(now + Duration::from_secs(20)), Some(Duration::from_secs(40)));
        assert!(schedule.is_due(8, now + Duration::from_secs(60)));
    }
}
