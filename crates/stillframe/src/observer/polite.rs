//! Looking without being felt: what an observer takes of the processors while others want them.
//!
//! The scheduler alone does not see to it. An idle class counts among the threads of a session or control group only, and a
//! session that computes for long has its part whatever its threads are. So a polite observer also pays for what it used: after a
//! version, and before it holds the next, it sleeps until its processor time is within its budget. The budget is its share where
//! nothing is left over, and grows as long as processors stay idle.

use crate::error::{Error, Result};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use stillframe_kernel::processors::Processors;
use stillframe_kernel::{Failure, priority, process_time, remark};

/// Processors that stay idle before a budget grows.
const SPARE: f64 = 0.25;
/// Time over which idle processors are counted: many of the kernel's ticks.
const PERIOD: Duration = Duration::from_millis(100);
/// Processor time that is not worth a sleep, in seconds; so who has slept may look at what it slept for.
const GRAIN_S: f64 = 0.001;
/// Longest sleep before the budget is looked at again.
const SLICE: Duration = Duration::from_millis(20);

/// What an observer takes of the machine, at most. It is of the whole process: of a program that looks and does nothing else.
///
/// All its threads are of the idle class (`SCHED_IDLE`, sched(7)), and of the least weight where the process leads its session.
/// They need no privilege for that, and one to take it back: the process stays so. What is not permitted is left out, and said
/// once on standard error; the share holds all the same.
///
/// ```
/// # use stillframe::{Observer, Polite, Region};
/// # let dir = std::env::temp_dir().join(format!("stillframe-doc-polite-{}", std::process::id()));
/// # let mut region = Region::options().dir(&dir).create("heat")?;
/// # region.publish(4).commit()?;
/// let observer = Observer::options().dir(&dir).polite(Polite::new().share(0.01)).open("heat")?;
/// assert_eq!(observer.newest_after(None, None)?.version(), 4);
/// # region.unlink()?;
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok::<(), stillframe::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Polite {
    share: f64,
    bytes_per_s: Option<u64>,
    processors: Option<Vec<RangeInclusive<usize>>>,
    keeps_class: bool,
}

impl Default for Polite {
    fn default() -> Polite {
        Polite { share: Polite::SHARE, bytes_per_s: None, processors: None, keeps_class: false }
    }
}

impl Polite {
    /// The share that it takes unless told otherwise.
    pub const SHARE: f64 = 0.02;

    /// A share of 2 %, of all processors that the process was given, and as many bytes as it likes.
    pub fn new() -> Polite {
        Polite::default()
    }

    /// How much of one processor it takes where nothing is left over: above 0, and 1 for all of one. Where processors stay
    /// idle it takes more.
    pub fn share(mut self, share: f64) -> Self {
        self.share = share;
        self
    }

    /// How many bytes of variables it reads in a second, at most, seen over several versions; pages that no version changed
    /// count each time they are looked at.
    pub fn bytes_per_s(mut self, bytes: u64) -> Self {
        self.bytes_per_s = Some(bytes);
        self
    }

    /// The processors that it uses, by the kernel's numbers, among those that the process was given.
    pub fn processors(mut self, numbers: impl IntoIterator<Item = RangeInclusive<usize>>) -> Self {
        self.processors = Some(numbers.into_iter().collect());
        self
    }

    /// The same, as numbers and ranges of them, such as `60-63,127`.
    ///
    /// # Errors
    /// [`Error::BadOption`] if it is no such list.
    pub fn processors_listed(self, list: &str) -> Result<Self> {
        let range = |item: &str| {
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (first <= last).then_some(first..=last)
        };
        match list.split(',').map(range).collect::<Option<Vec<_>>>() {
            Some(ranges) => Ok(self.processors(ranges)),
            None => {
                let why = format!("'{list}' is no list of numbers and ranges of them, such as 0,4-7");
                Err(Error::BadOption { option: "processors", why })
            }
        }
    }

    /// Leaves the process's class and its session as they are: for one that holds what others wait for, as who writes to a file
    /// system does, and that would hold it for as long as ranks spin. The share holds all the same.
    pub fn keep_class(mut self) -> Self {
        self.keeps_class = true;
        self
    }

    /// Makes the process polite from now on, as an observer that is opened so does; what it looks at without one is not slept
    /// for.
    ///
    /// # Errors
    /// [`Error::BadOption`] if an option makes no sense or none of the processors is there.
    pub fn apply(&self) -> Result<()> {
        self.begin().map(drop)
    }

    /// Makes the process polite from now on, and says how fast it goes on.
    pub(crate) fn begin(&self) -> Result<Pace> {
        let refuse = |option, why: String| Err(Error::BadOption { option, why });
        if !(self.share > 0.0 && self.share <= 1.0) {
            return refuse("share", format!("{} is not above 0 and at most 1", self.share));
        }
        if self.bytes_per_s == Some(0) {
            return refuse("bytes_per_s", "with 0 bytes nothing is ever read".into());
        }
        let mut processors = Processors::of_process();
        if let Some(numbers) = &self.processors {
            let asked = Processors::of_numbers(numbers.iter().cloned().flat_map(|range| range.take(NUMBERS_MAX)));
            processors = processors.and(&asked);
            if processors.count() == 0 {
                return refuse("processors", "the process was given none of them: see taskset -cp".into());
            }
            attempt(processors.bind_process());
        }
        if !self.keeps_class {
            attempt(priority::go_idle());
        }
        Ok(Pace::new(self.share, self.bytes_per_s, processors))
    }
}

/// Processors that a range may name, so that a slip does not take for ever.
const NUMBERS_MAX: usize = 1 << 16;

static IS_SAID: AtomicBool = AtomicBool::new(false);

fn attempt(done: Result<(), Failure>) {
    if let Err(failure) = done
        && !IS_SAID.swap(true, Ordering::Relaxed)
    {
        remark::say(move || format!("this process looks politely, but not as politely as it was asked to: {failure}"));
    }
}

/// What a polite observer waits for besides versions.
pub(crate) const TURN: &str = "its share of the processors";

/// Sleeps at most for `timeout`, and returns whether the process may go on.
pub(crate) fn pause(pace: Option<&Pace>, timeout: Option<Duration>) -> bool {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    pace.is_none_or(|pace| pace.pause(deadline))
}

/// How fast a polite process goes on.
#[derive(Debug)]
pub(crate) struct Pace {
    share: f64,
    bytes_per_s: Option<u64>,
    processors: Processors,
    /// Read since the last look, and not yet slept for.
    read_bytes: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Processors it may use: between the share and all.
    budget: f64,
    /// Seconds of processor time that were used and not yet slept for.
    used_s: f64,
    /// Whether it sleeps for them, until there are none.
    is_paying: bool,
    /// Seconds for which bytes that were read are still to be slept for.
    read_s: f64,
    last: Reading,
    /// Where the present period of idle time began.
    period: Reading,
}

/// Clocks, read at one instant.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    used: Duration,
    idle: Option<Duration>,
}

impl Pace {
    fn new(share: f64, bytes_per_s: Option<u64>, processors: Processors) -> Pace {
        let now = Reading::now(&processors);
        let state = State { budget: share, used_s: 0.0, is_paying: false, read_s: 0.0, last: now, period: now };
        Pace { share, bytes_per_s, processors, read_bytes: AtomicU64::new(0), state: Mutex::new(state) }
    }

    /// Notes that so much of a version is read.
    pub(crate) fn count_bytes(&self, bytes: usize) {
        if self.bytes_per_s.is_some() {
            self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Sleeps until what was used is within the budget, at most until `deadline`. Whether it is.
    fn pause(&self, deadline: Option<Instant>) -> bool {
        loop {
            let owed = self.owed();
            if owed.is_zero() {
                return true;
            }
            let left = deadline.map_or(SLICE, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(owed.min(SLICE).min(left));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// How long to sleep by now.
    fn owed(&self) -> Duration {
        let mut state = self.state();
        if let Some(rate) = self.bytes_per_s {
            state.read_s += self.read_bytes.swap(0, Ordering::Relaxed) as f64 / rate as f64;
        }
        state.advance(Reading::now(&self.processors), self.share, self.processors.count() as f64)
    }
}

impl Reading {
    fn now(processors: &Processors) -> Reading {
        Reading { at: Instant::now(), used: process_time(), idle: processors.idle() }
    }
}

impl State {
    /// Goes on to `now`, and returns how long to sleep from then.
    fn advance(&mut self, now: Reading, share: f64, processors: f64) -> Duration {
        self.adapt(now, share, processors);
        let wall_s = now.at.saturating_duration_since(self.last.at).as_secs_f64();
        let used_s = now.used.saturating_sub(self.last.used).as_secs_f64();
        self.last = now;
        // What was not used is not saved for later: a version after a long wait would be felt.
        self.used_s = (self.used_s + used_s - self.budget * wall_s).max(0.0);
        self.read_s = (self.read_s - wall_s).max(0.0);
        if self.budget >= processors {
            self.used_s = 0.0;
        }
        self.is_paying = self.used_s > if self.is_paying { 0.0 } else { GRAIN_S };
        let used_s = if self.is_paying { self.used_s / self.budget } else { 0.0 };
        Duration::from_secs_f64(used_s.max(self.read_s).min(1e6))
    }

    /// Lets the budget grow by half of what stayed idle beyond the spare, and halves it for each period in which that was
    /// wanting, down to the share.
    fn adapt(&mut self, now: Reading, share: f64, processors: f64) {
        let wall = now.at.saturating_duration_since(self.period.at);
        if wall < PERIOD {
            return;
        }
        let idle = match (self.period.idle, now.idle) {
            (Some(before), Some(now)) => now.saturating_sub(before).as_secs_f64() / wall.as_secs_f64(),
            _ => 0.0,
        };
        self.period = now;
        self.budget = match idle - SPARE {
            more if more >= 0.0 => self.budget + more / 2.0,
            _ => self.budget * 0.5_f64.powf(wall.as_secs_f64() / PERIOD.as_secs_f64()),
        };
        self.budget = self.budget.clamp(share, processors.max(share));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of two processors of which others use `others`, and an observer that wants `wanted` of processor time for each
    /// version, for so many seconds. How much of a processor the observer has.
    fn simulate(others: f64, wanted: f64, seconds: f64) -> f64 {
        let begin = Instant::now();
        let reading = |at: f64, used: f64, idle: f64| Reading {
            at: begin + Duration::from_secs_f64(at),
            used: Duration::from_secs_f64(used),
            idle: Some(Duration::from_secs_f64(idle)),
        };
        let (mut at, mut used, mut idle) = (0.0, 0.0, 0.0);
        let first = reading(0.0, 0.0, 0.0);
        let mut state = State { budget: 0.02, used_s: 0.0, is_paying: false, read_s: 0.0, last: first, period: first };
        while at < seconds {
            (at, used, idle) = (at + wanted, used + wanted, idle + (1.0 - others).max(0.0) * wanted);
            loop {
                let owed = state.advance(reading(at, used, idle), 0.02, 2.0).as_secs_f64();
                if owed == 0.0 {
                    break;
                }
                let slept = owed.min(SLICE.as_secs_f64()).max(1e-6);
                (at, idle) = (at + slept, idle + (2.0 - others) * slept);
            }
        }
        used / at
    }

    #[test]
    fn where_nothing_is_left_over_the_share_holds() {
        for wanted in [0.001, 0.05, 1.0] {
            let had = simulate(2.0, wanted, 200.0);
            assert!((0.015..0.021).contains(&had), "{had} of a processor for {wanted} s a version");
        }
    }

    #[test]
    fn of_a_free_processor_it_takes_much_and_leaves_something() {
        let had = simulate(1.0, 0.1, 100.0);
        assert!((0.3..0.9).contains(&had), "{had}");
        assert!(simulate(0.0, 0.1, 100.0) > 0.95, "an idle machine is all its own");
    }

    #[test]
    fn bytes_are_slept_for_and_no_longer() {
        let pace = Pace::new(1.0, Some(1 << 10), Processors::of_process());
        assert!(pace.pause(Some(Instant::now())));
        // Far more than passes meanwhile, however busy the machine is.
        pace.count_bytes(1 << 30);
        let begin = Instant::now();
        assert!(!pace.pause(Some(begin)), "twelve days are owed");
        assert!(!pace.pause(Some(begin + Duration::from_millis(1))), "and still are");
        let pace = Pace::new(1.0, Some(1 << 20), Processors::of_process());
        let begin = Instant::now();
        assert!(pace.pause(Some(begin)));
        pace.count_bytes(1 << 18);
        assert!(pace.pause(None) && begin.elapsed() >= Duration::from_millis(200), "a quarter of a second was owed");
    }

    #[test]
    fn the_last_version_of_who_is_gone_is_had_whatever_is_owed() {
        use crate::group::any::AnyObserver;
        let dir = std::path::PathBuf::from(format!("/dev/shm/stillframe-polite-{}", std::process::id()));
        for ranks in [0, 2] {
            let name = format!("r{ranks}");
            let options = |rank| match ranks {
                0 => crate::Region::options().dir(&dir),
                _ => crate::Region::options().dir(&dir).rank(rank, ranks),
            };
            let mut regions: Vec<_> = (0..ranks.max(1)).map(|rank| options(rank).create(&name).unwrap()).collect();
            for region in &mut regions {
                region.publish(7).commit().unwrap();
            }
            // Time that is owed for bytes passes as the clock does, however idle the machine is.
            let polite = Polite::new().bytes_per_s(1).keep_class();
            let observer = crate::Observer::options().dir(&dir).polite(polite).open_any(&name).unwrap();
            let pace = match &observer {
                AnyObserver::Region(observer) => observer.shared.pace.clone(),
                AnyObserver::Group(group) => group.observers().unwrap()[0].as_ref().unwrap().shared.pace.clone(),
            };
            pace.unwrap().count_bytes(1 << 40);
            let at_once = Some(Duration::ZERO);
            let is_told_to_wait = |after| match observer.wait_newer(after, at_once) {
                Err(Error::Timeout { what, .. }) => what == TURN,
                _ => false,
            };
            assert!(is_told_to_wait(None), "while it lives others come first");
            drop(regions);
            assert!(!observer.pause(at_once));
            assert_eq!(observer.wait_newer(None, at_once).unwrap(), 7);
            assert_eq!(observer.next_after(Some(6), at_once).unwrap().version(), 7);
            assert_eq!(observer.newest_after(Some(6), at_once).unwrap().version(), 7);
            assert!(matches!(observer.next_after(Some(7), at_once), Err(Error::ProducerGone { .. })));
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}
