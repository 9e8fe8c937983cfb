//! Whether processors are left over to copy on.
//!
//! A thread of the idle class that gets no processor any more has begun something, and who needs that waits for seconds. So
//! threads are asked only where processors were idle of late, or used by just these threads.

use crate::processors::Processors;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Processors that have to be left over: less than polite observers leave.
const SPARE: f64 = 0.1;

/// Time over which they are counted: many of the kernel's ticks.
const PERIOD: Duration = Duration::from_millis(100);

/// What the process's processors did of late.
#[derive(Debug)]
pub(super) struct Spare {
    processors: Processors,
    /// What the threads used.
    used_ns: AtomicU64,
    last: Mutex<Last>,
}

#[derive(Debug)]
struct Last {
    at: Instant,
    /// Time in which a processor was idle or used by the threads; `None` where the kernel does not say.
    free: Option<Duration>,
    is_there: bool,
}

impl Spare {
    /// As long as nothing is known, there is some.
    pub(super) fn new() -> Spare {
        let processors = Processors::of_process();
        let last = Mutex::new(Last { at: Instant::now(), free: processors.idle(), is_there: true });
        Spare { processors, used_ns: AtomicU64::new(0), last }
    }

    /// Notes what a thread used.
    pub(super) fn add(&self, used: Duration) {
        self.used_ns.fetch_add(used.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Whether processors are left over.
    pub(super) fn is_there(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let wall = last.at.elapsed();
        if wall >= PERIOD {
            let used = Duration::from_nanos(self.used_ns.load(Ordering::Relaxed));
            let free = self.processors.idle().map(|idle| idle + used);
            let is_there = is_enough(last.free, free, wall);
            *last = Last { at: Instant::now(), free, is_there };
        }
        last.is_there
    }
}

/// Whether so much was free between two counts.
fn is_enough(before: Option<Duration>, now: Option<Duration>, wall: Duration) -> bool {
    let (Some(before), Some(now)) = (before, now) else { return true };
    now.saturating_sub(before).as_secs_f64() >= SPARE * wall.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_a_processor_is_enough_and_what_is_not_known_too() {
        let ms = |ms| Some(Duration::from_millis(ms));
        let wall = Duration::from_millis(200);
        assert!(is_enough(ms(1000), ms(1021), wall) && is_enough(ms(1000), ms(1400), wall));
        assert!(!is_enough(ms(1000), ms(1010), wall) && !is_enough(ms(1000), ms(1000), wall));
        assert!(!is_enough(ms(1000), ms(990), wall), "the kernel's counts of idle time may go back");
        assert!(is_enough(None, ms(5), wall) && is_enough(ms(5), None, wall));
    }

    #[test]
    fn what_the_threads_use_is_left_over() {
        let spare = Spare::new();
        spare.last.lock().unwrap().at -= PERIOD;
        spare.add(PERIOD);
        assert!(spare.is_there());
    }
}
