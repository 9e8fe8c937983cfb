//! Versions of an object that are due and could not be read: which of them are tried again, when, and which are missed.
//!
//! Those of which a failure was told are in the [`Obstacle`], too, until they are safe or another stands for them: so the status has
//! them, and the command ends with the error of the newest.

use super::due::Choice;
use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use stillframe_checkpoint::{Event, Obstacle};
use stillframe_object::Error;

/// How long nothing is tried after a version could not be read; twice as long after each further time, up to the other.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// How often it is tried again once nobody writes any more, and after which pause at most.
const LAST_TRIES: u32 = 2;
const LAST_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Most versions that are kept in mind. The oldest beyond it are missed.
const VERSIONS_MAX: usize = 64;

/// A try to read a version.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    pub choice: Choice,
    pub begun: Instant,
    /// Whether nobody wrote any more when it began.
    pub is_last: bool,
}

/// A version that was due, or might have been, and could not be read.
#[derive(Debug)]
struct LateVersion {
    /// Whether it is saved only if the condition holds, which nobody knows yet.
    is_asked: bool,
    /// Why it is not tried any more; `None` if it is.
    closed: Option<Closure>,
    /// Whether it is in the obstacle.
    is_told: bool,
    /// Tries that failed since nobody writes any more.
    last_failures: u32,
    /// When it is tried again.
    retry: Instant,
}

/// Why a version is not tried any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closure {
    /// It is gone, and a newer one is there: whether it is missed then.
    Gone { is_missed: bool },
    /// Nobody writes a part of it.
    Unwritten,
}

/// The try that failed last.
#[derive(Debug)]
struct LastFailure {
    version: u64,
    begun: Instant,
    /// Tries that failed, one after the other.
    count: u32,
    pause: Duration,
}

/// Versions of an object that are due and could not be read.
#[derive(Debug)]
pub struct Backlog {
    late: BTreeMap<u64, LateVersion>,
    last: Option<LastFailure>,
    /// Whether all are to be saved, so that no later one stands for one that may be had.
    all: bool,
    /// When it is over, if nobody writes any more.
    end: Option<Instant>,
    /// No version up to this one is tried any more.
    floor: Option<u64>,
    obstacle: Obstacle,
    events: Sender<Event>,
}

/// Whether what an error tells of may be over soon: other nodes may be reached again, a runtime be started, and others give back what they
/// have of memory.
pub fn may_pass(error: &Error) -> bool {
    use stillframe::Error as Engine;
    let is_short = |error: &Engine| {
        matches!(
            error,
            Engine::Timeout { .. }
                | Engine::NoSpace { .. }
                | Engine::NoFiles { .. }
                | Engine::NoMappings { .. }
                | Engine::ArenaFull { .. }
        )
    };
    error.is_timeout()
        || matches!(error, Error::NoRuntime { .. })
        || matches!(error, Error::Region(engine) if is_short(engine))
}

impl Backlog {
    pub fn new(all: bool, obstacle: &Obstacle, events: &Sender<Event>) -> Backlog {
        let (obstacle, events) = (obstacle.clone(), events.clone());
        Backlog { late: BTreeMap::new(), last: None, all, end: None, floor: None, obstacle, events }
    }

    /// The versions that may still be read, ascending.
    pub fn open(&self) -> impl DoubleEndedIterator<Item = u64> + '_ {
        self.late.iter().filter(|(_, late)| late.closed.is_none()).map(|(version, _)| *version)
    }

    /// A version that may still be read, as it is to be tried.
    pub fn late(&self, version: u64) -> Option<Choice> {
        let late = self.late.get(&version).filter(|late| late.closed.is_none())?;
        Some(Choice { version, is_asked: late.is_asked })
    }

    /// The newest that may still be read and was not given up.
    pub fn newest(&self) -> Option<Choice> {
        let newest = self.open().rfind(|version| !self.is_given_up(*version))?;
        self.late(newest)
    }

    /// Whether a version cannot be had any more.
    pub fn is_closed(&self, version: u64) -> bool {
        match self.late.get(&version) {
            Some(late) => late.closed.is_some(),
            None => Some(version) <= self.floor,
        }
    }

    /// Whether a version was tried often enough since nobody writes any more, and it is over before the next try.
    pub fn is_given_up(&self, version: u64) -> bool {
        let is_over =
            |late: &LateVersion| late.last_failures >= LAST_TRIES && self.end.is_some_and(|end| late.retry >= end);
        self.late.get(&version).is_some_and(is_over)
    }

    /// Whether a version is to be tried at once. Another than that of the last try waits only where this ended before its pause would have.
    pub fn is_due(&self, version: u64) -> bool {
        let now = Instant::now();
        let is_rested = |last: &LastFailure| last.version == version || now >= last.begun + last.pause;
        let is_retried = self.late.get(&version).is_none_or(|late| now >= late.retry);
        is_retried && self.last.as_ref().is_none_or(is_rested)
    }

    /// Sets when it is over, if nobody writes any more. What is late is tried at once when that begins.
    pub fn set_end(&mut self, end: Option<Instant>) {
        if self.end.is_none() && end.is_some() {
            self.hasten();
        }
        self.end = end;
    }

    /// Ends the pauses that are longer than the shortest.
    fn hasten(&mut self) {
        let Some(last) = &mut self.last else { return };
        last.pause = PAUSE.min(last.pause);
        let soon = last.begun + last.pause;
        self.late.values_mut().for_each(|late| late.retry = late.retry.min(soon.max(Instant::now())));
    }

    /// Keeps in mind that a version could not be read, and says why and when it is tried again: not at all when the command ends.
    pub fn fail(&mut self, attempt: Attempt, error: &Error, is_over: bool) {
        let Attempt { choice: Choice { version, is_asked }, begun, is_last } = attempt;
        let former = self.late.remove(&version);
        let last_failures = if is_last { former.map_or(0, |former| former.last_failures) + 1 } else { 0 };
        let count = self.last.take().map_or(0, |last| last.count).saturating_add(1);
        let longest = if last_failures > 0 { LAST_PAUSE_MAX } else { PAUSE_MAX };
        let pause = PAUSE.saturating_mul(1 << (count - 1).min(10)).min(longest);
        self.last = Some(LastFailure { version, begun, count, pause });
        let late = LateVersion { is_asked, closed: None, is_told: true, last_failures, retry: Instant::now() + pause };
        self.late.insert(version, late);
        self.hinder(version, &error.to_string());
        let is_final = is_over || self.is_given_up(version);
        self.report(version, error, (!is_final).then_some(pause));
        self.trim();
    }

    /// Keeps in mind that a version is gone while a newer one is there, which may stand for it.
    pub fn lose(&mut self, choice: Choice) {
        let Choice { version, is_asked } = choice;
        let is_told = self.late.get(&version).is_some_and(|late| late.is_told);
        // Nobody will know whether the condition held.
        if is_told && is_asked {
            self.obstacle.miss(version);
            self.report_missed(version);
        } else if is_told {
            self.obstacle.release(version);
        }
        let is_missed = !is_told && (self.all || is_asked);
        let closed = Some(Closure::Gone { is_missed });
        let is_told = is_told && !is_asked;
        self.late.insert(version, LateVersion { is_asked, closed, is_told, last_failures: 0, retry: Instant::now() });
        self.trim();
    }

    /// Keeps in mind that nobody writes a part of a version; of the next somebody may. `is_told_now` says whether people learn it at once.
    pub fn close_unwritten(&mut self, choice: Choice, error: &Error, is_told_now: bool) {
        let Choice { version, is_asked } = choice;
        let is_first = !self.late.values().any(|late| late.closed == Some(Closure::Unwritten));
        let is_earlier = |late: &LateVersion| late.closed == Some(Closure::Unwritten);
        let earlier = self.late.iter().find(|(_, late)| is_earlier(late)).map(|(earlier, _)| *earlier);
        if let Some(earlier) = earlier {
            self.late.remove(&earlier);
            self.floor = self.floor.max(Some(earlier));
            self.obstacle.miss(earlier);
            self.report_missed(earlier);
        }
        let closed = Some(Closure::Unwritten);
        self.late
            .insert(version, LateVersion { is_asked, closed, is_told: true, last_failures: 0, retry: Instant::now() });
        self.hinder(version, &format!("{error}; such an object cannot be saved: let somebody write all of it"));
        self.obstacle.release(version);
        if is_first && is_told_now {
            self.report(version, error, None);
        }
        self.trim();
    }

    /// Misses the last version, which is due and of which nobody has all. It stays unsaved, for there is no later one.
    pub fn miss_last(&mut self, version: u64) {
        self.obstacle.miss(version);
        self.report_missed(version);
        self.hinder(version, "it was complete, and nobody has all of it any more");
    }

    /// Forgets a version that could be read, and for which the condition does not hold.
    pub fn decline(&mut self, version: u64) {
        self.last = None;
        if self.late.remove(&version).is_some_and(|late| late.is_told) {
            self.obstacle.remove(version);
        }
    }

    /// Leaves a version to the checkpointer. None before it can be put together any more: those of which a failure was told are missed when this
    /// one is safe, the others now.
    pub fn hand_over(&mut self, version: u64) {
        self.last = None;
        let later = self.late.split_off(&version.saturating_add(1));
        let earlier = std::mem::replace(&mut self.late, later);
        self.report_gone(earlier);
    }

    /// Ends with what is not told yet. What is in the obstacle is not safe.
    pub fn finish(&mut self) {
        let late = std::mem::take(&mut self.late);
        self.report_gone(late);
    }

    /// Reports as missed what is gone and is in no obstacle.
    fn report_gone(&self, late: BTreeMap<u64, LateVersion>) {
        for (version, late) in late {
            if late.closed == Some(Closure::Gone { is_missed: true }) {
                self.obstacle.miss(version);
                self.report_missed(version);
            }
        }
    }

    /// Puts a version into the obstacle. One that has no room there any more is missed.
    fn hinder(&mut self, version: u64, why: &str) {
        if let Some(missed) = self.obstacle.set(version, why) {
            self.report_missed(missed);
        }
    }

    /// Gives up the oldest versions where there are too many.
    fn trim(&mut self) {
        while self.late.len() > VERSIONS_MAX
            && let Some((version, late)) = self.late.pop_first()
        {
            self.floor = self.floor.max(Some(version));
            if late.is_told || late.closed == Some(Closure::Gone { is_missed: true }) {
                self.obstacle.miss(version);
                self.report_missed(version);
            }
        }
    }

    fn report(&self, version: u64, error: &Error, retry: Option<Duration>) {
        let (error, code) = (error.to_string(), error.code());
        drop(self.events.send(Event::Failed { version, error, code, retry }));
    }

    fn report_missed(&self, version: u64) {
        drop(self.events.send(Event::missed(version)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    fn late_error() -> Error {
        Error::TimeoutElsewhere { name: "u".into(), version: 1, waited: PAUSE, why: "node 2 is silent".into() }
    }

    fn backlog(all: bool) -> (Backlog, Obstacle, Receiver<Event>) {
        let (obstacle, (events, heard)) = (Obstacle::default(), channel());
        (Backlog::new(all, &obstacle, &events), obstacle, heard)
    }

    fn choice(version: u64) -> Choice {
        Choice { version, is_asked: false }
    }

    fn attempt(version: u64, is_last: bool) -> Attempt {
        Attempt { choice: choice(version), begun: Instant::now(), is_last }
    }

    /// The pause after which it tries again that it told last, in seconds.
    fn retry(heard: &Receiver<Event>) -> Option<u64> {
        match heard.try_iter().last() {
            Some(Event::Failed { retry, .. }) => retry.map(|retry| retry.as_secs()),
            other => panic!("{other:?}"),
        }
    }

    fn missed(heard: &Receiver<Event>) -> Vec<u64> {
        let missed = |event| match event {
            Event::Missed { count: 1, before, .. } => Some(before - 1),
            _ => None,
        };
        heard.try_iter().filter_map(missed).collect()
    }

    #[test]
    fn what_fails_again_and_again_waits_longer_and_the_last_version_does_not() {
        let (mut backlog, obstacle, heard) = backlog(false);
        let mut fail = |is_last| {
            backlog.fail(attempt(1, is_last), &late_error(), false);
            assert!(!backlog.is_given_up(1) && !backlog.is_due(1));
            retry(&heard).unwrap()
        };
        let pauses = [false, false, false, false, false, false, false, true, true].map(&mut fail);
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 5, 5]);
        // Once it is known that nobody will write any more before the next try.
        backlog.set_end(Some(Instant::now()));
        assert!(obstacle.has(1) && backlog.is_given_up(1) && backlog.newest().is_none());
        backlog.set_end(None);
        assert_eq!(backlog.newest(), Some(choice(1)));
    }

    #[test]
    fn the_last_version_is_tried_twice_whatever_became_of_another() {
        let (mut backlog, _, heard) = backlog(false);
        backlog.set_end(Some(Instant::now()));
        for is_last in [false, true, true] {
            assert!(!backlog.is_given_up(1000));
            backlog.fail(attempt(1000, is_last), &late_error(), false);
        }
        assert!(backlog.is_given_up(1000));
        // It is over before the next try would begin.
        assert_eq!(retry(&heard), None);
        for (is_last, pause) in [(false, Some(8)), (true, Some(5)), (true, None)] {
            assert!(!backlog.is_given_up(1042));
            backlog.fail(attempt(1042, is_last), &late_error(), false);
            assert_eq!(retry(&heard), pause);
        }
        assert!(backlog.is_given_up(1042));
    }

    #[test]
    fn a_newer_version_waits_no_longer_than_from_the_begin_of_the_try_before() {
        let Some(begun) = Instant::now().checked_sub(PAUSE) else { return };
        let (mut backlog, _, _heard) = backlog(false);
        backlog.fail(Attempt { begun, ..attempt(1, false) }, &late_error(), false);
        assert!(backlog.is_due(2) && !backlog.is_due(1));
        backlog.fail(attempt(1, false), &late_error(), false);
        assert!(!backlog.is_due(2));
    }

    #[test]
    fn what_is_late_is_tried_soon_when_nobody_writes_any_more() {
        let (mut backlog, _, _heard) = backlog(false);
        let Some(begun) = Instant::now().checked_sub(PAUSE) else { return };
        for _ in 0..5 {
            backlog.fail(Attempt { begun, ..attempt(1, false) }, &late_error(), false);
        }
        assert!(!backlog.is_due(1) && !backlog.is_due(2));
        backlog.set_end(Some(Instant::now()));
        assert!(backlog.is_due(1) && backlog.is_due(2));
    }

    #[test]
    fn a_version_that_is_gone_is_missed_once_another_is_put_together_where_it_had_to_be_saved() {
        for (all, is_asked, is_missed) in [(false, false, false), (true, false, true), (false, true, true)] {
            let (mut backlog, obstacle, heard) = backlog(all);
            backlog.lose(Choice { version: 7, is_asked });
            assert!(backlog.is_closed(7) && !obstacle.has(7) && missed(&heard).is_empty());
            backlog.hand_over(8);
            assert_eq!(missed(&heard), if is_missed { vec![7] } else { vec![] });
            // Or at the end.
            backlog.lose(Choice { version: 9, is_asked });
            backlog.finish();
            assert_eq!(missed(&heard), if is_missed { vec![9] } else { vec![] });
        }
    }

    #[test]
    fn a_version_of_which_a_failure_was_told_is_not_missed_before_another_is_safe() {
        for all in [false, true] {
            let (mut backlog, obstacle, heard) = backlog(all);
            backlog.fail(attempt(7, false), &late_error(), false);
            backlog.lose(choice(7));
            backlog.hand_over(8);
            backlog.finish();
            assert!(obstacle.has(7) && missed(&heard).is_empty());
        }
        // Nobody will know whether it was due.
        let (mut backlog, obstacle, heard) = backlog(false);
        let asked = Choice { version: 7, is_asked: true };
        backlog.fail(Attempt { choice: asked, ..attempt(7, false) }, &late_error(), false);
        backlog.lose(asked);
        backlog.hand_over(8);
        backlog.finish();
        assert!(!obstacle.has(7) && missed(&heard) == [7]);
    }

    #[test]
    fn a_version_for_which_the_condition_does_not_hold_is_no_failure_any_more() {
        let (mut backlog, obstacle, heard) = backlog(false);
        backlog.fail(attempt(7, false), &late_error(), false);
        backlog.decline(7);
        assert!(!obstacle.has(7) && missed(&heard).is_empty() && backlog.open().next().is_none());
    }

    #[test]
    fn of_an_object_of_which_nobody_writes_a_part_the_newest_version_is_the_failure() {
        let (mut backlog, obstacle, heard) = backlog(false);
        for version in 1..=3 {
            backlog.close_unwritten(choice(version), &late_error(), true);
        }
        assert!((1..=3).all(|version| backlog.is_closed(version)) && obstacle.has(3) && !obstacle.has(2));
        let told: Vec<Event> = heard.try_iter().collect();
        assert!(matches!(told[0], Event::Failed { version: 1, retry: None, .. }), "{told:?}");
        assert_eq!(told[1..], [Event::missed(1), Event::missed(2)]);
    }

    #[test]
    fn a_last_version_that_is_gone_is_missed_and_a_failure() {
        let (mut backlog, obstacle, heard) = backlog(false);
        backlog.miss_last(3);
        backlog.finish();
        assert!(obstacle.has(3) && missed(&heard) == [3]);
    }

    #[test]
    fn what_fails_for_long_takes_no_more_memory_than_what_failed_for_a_while() {
        let (mut backlog, obstacle, heard) = backlog(false);
        (1..=100).for_each(|version| backlog.fail(attempt(version, false), &late_error(), false));
        assert_eq!(backlog.open().count(), VERSIONS_MAX);
        assert_eq!(missed(&heard), (1..=36).collect::<Vec<u64>>());
        assert!(backlog.is_closed(36) && !obstacle.has(36) && obstacle.has(37));
    }

    #[test]
    fn what_never_heals_does_not_pass() {
        let fault = |is_timeout| Error::Plan { name: "u".into(), why: "no room".into(), is_timeout };
        let runtime = Error::NoRuntime { path: "runtime".into(), why: "it has ended".into() };
        let memory = |bytes| Error::NoMemory { name: "u".into(), bytes, taken_bytes: 8, bound_bytes: 16 };
        let lost = Error::LostElsewhere { name: "u".into(), version: 1, why: "it went".into() };
        let damaged = Error::Corrupt { path: "board".into(), offset: 0, why: "?".into() };
        assert!([late_error(), fault(true), runtime, memory(16)].iter().all(may_pass));
        assert!(![fault(false), memory(17), lost, damaged, Error::Removed { name: "u".into() }].iter().any(may_pass));
    }
}
