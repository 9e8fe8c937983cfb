//! Versions of an object that are due and could not be read: which of them are tried again, when, and which are missed.
//!
//! Those of which a failure was told are in the [`Obstacle`], too, until they are safe or another stands for them: so the status has
//! them, and the command ends with the error of the newest.

use super::due::Choice;
use super::limits::{self, LAST_TRIES, PUT_OFF_TRIES};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use stillframe_checkpoint::{Event, Obstacle};
use stillframe_object::Error;

/// Most versions that are kept in mind. The oldest beyond it are missed.
const VERSIONS_MAX: usize = 64;

/// Most versions that are known not to be saved.
const ENDED_MAX: usize = 4096;

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

impl LateVersion {
    /// One that is not tried any more.
    fn closed(is_asked: bool, closure: Closure, is_told: bool) -> LateVersion {
        LateVersion { is_asked, closed: Some(closure), is_told, last_failures: 0, retry: Instant::now() }
    }
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
    /// Versions that were counted as missed or left, so that none is twice.
    ended: BTreeSet<u64>,
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
        Backlog {
            late: BTreeMap::new(),
            last: None,
            all,
            end: None,
            floor: None,
            ended: BTreeSet::new(),
            obstacle,
            events,
        }
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

    /// One before this that is to be tried at once: the newest, or the oldest if all are to be saved.
    pub fn retry_before(&self, version: u64) -> Option<Choice> {
        let is_due = |earlier: &u64| *earlier < version && !self.is_given_up(*earlier) && self.is_due(*earlier);
        let mut due = self.open().filter(is_due);
        let earlier = if self.all { due.next() } else { due.next_back() };
        earlier.and_then(|earlier| self.late(earlier))
    }

    /// Whether an earlier version is tried before this one: that whose pause is over first, and of all versions the earlier one, if this was not
    /// tried.
    pub fn is_before(&self, earlier: u64, version: u64) -> bool {
        let retry = |version| self.late.get(&version).map(|late| late.retry);
        retry(version).map_or(self.all, |retry_of_version| retry(earlier) < Some(retry_of_version))
    }

    /// Whether a version cannot be had any more.
    pub fn is_closed(&self, version: u64) -> bool {
        match self.late.get(&version) {
            Some(late) => late.closed.is_some(),
            None => Some(version) <= self.floor,
        }
    }

    /// Whether something was found out of a version before.
    pub fn knows(&self, version: u64) -> bool {
        self.late.contains_key(&version)
    }

    /// Whether a version was tried often enough since nobody writes any more, and it is over before the next try.
    pub fn is_given_up(&self, version: u64) -> bool {
        let is_over =
            |late: &LateVersion| late.last_failures >= LAST_TRIES && self.end.is_some_and(|end| late.retry >= end);
        self.late.get(&version).is_some_and(is_over)
    }

    /// Whether a version was tried so often since nobody writes any more that others are read first. It is not tried again after them, for
    /// none can be put together after a later one.
    pub fn is_put_off(&self, version: u64) -> bool {
        self.end.is_some() && self.late.get(&version).is_some_and(|late| late.last_failures >= PUT_OFF_TRIES)
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
        last.pause = limits::pause().min(last.pause);
        let soon = last.begun + last.pause;
        self.late.values_mut().for_each(|late| late.retry = late.retry.min(soon.max(Instant::now())));
    }

    /// Keeps in mind that a version could not be read, and says why and when it is tried again: not at all when the command ends.
    pub fn fail(&mut self, attempt: Attempt, error: &Error, is_over: bool) {
        let Attempt { choice: Choice { version, is_asked }, begun, is_last } = attempt;
        let former = self.late.remove(&version);
        let last_failures = if is_last { former.map_or(0, |former| former.last_failures) + 1 } else { 0 };
        let count = self.last.take().map_or(0, |last| last.count).saturating_add(1);
        let longest = if last_failures > 0 { limits::last_pause_max() } else { limits::pause_max() };
        let pause = limits::pause().saturating_mul(1 << (count - 1).min(10)).min(longest);
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
            self.miss(version);
        } else if is_told {
            self.obstacle.release(version);
        }
        let is_missed = !is_told && (self.all || is_asked);
        let is_told = is_told && !is_asked;
        self.late.insert(version, LateVersion::closed(is_asked, Closure::Gone { is_missed }, is_told));
        self.trim();
    }

    /// Keeps in mind that nobody writes a part of a version; of the next somebody may. `is_told_now` says whether people learn it at once.
    pub fn close_unwritten(&mut self, choice: Choice, error: &Error, is_told_now: bool) {
        let Choice { version, is_asked } = choice;
        let is_earlier = |late: &LateVersion| late.closed == Some(Closure::Unwritten);
        let earlier = self.late.iter().find(|(_, late)| is_earlier(late)).map(|(earlier, _)| *earlier);
        if let Some(earlier) = earlier {
            self.late.remove(&earlier);
            self.floor = self.floor.max(Some(earlier));
            self.miss(earlier);
        }
        self.late.insert(version, LateVersion::closed(is_asked, Closure::Unwritten, true));
        self.hinder(version, &format!("{error}; such an object cannot be saved: let somebody write all of it"));
        self.obstacle.release(version);
        if earlier.is_none() && is_told_now {
            self.report(version, error, None);
        }
        self.trim();
    }

    /// Misses a version that was there and is gone. One that has to be saved stays unsaved: there is no later one that could stand for it.
    pub fn miss_gone(&mut self, version: u64, is_needed: bool) {
        self.miss(version);
        if is_needed {
            self.hinder(version, "it was complete, and nobody has all of it any more");
        }
    }

    /// Leaves a version that has to be saved and cannot be, for this reason: it is not tried again.
    pub fn leave(&mut self, version: u64, why: &str, error: &Error) {
        // What could not be read before stays what is wrong.
        if self.obstacle.has(version) {
            return;
        }
        self.hinder(version, why);
        if self.end_one(version) {
            let (error, code) = (why.to_owned(), error.code());
            drop(self.events.send(Event::Failed { version, error, code, retry: None }));
        }
    }

    /// Counts a version as missed, and reports it.
    pub fn miss(&mut self, version: u64) {
        if self.end_one(version) {
            self.obstacle.miss(version);
            self.report_missed(version);
        }
    }

    /// Counts a version as missed of which nothing was found out before.
    pub fn miss_unknown(&mut self, version: u64) {
        if !self.knows(version) {
            self.miss(version);
        }
    }

    /// Whether it is new that a version will not be saved.
    fn end_one(&mut self, version: u64) -> bool {
        while self.ended.len() >= ENDED_MAX {
            self.ended.pop_first();
        }
        self.ended.insert(version)
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
    fn report_gone(&mut self, late: BTreeMap<u64, LateVersion>) {
        for (version, late) in late {
            if late.closed == Some(Closure::Gone { is_missed: true }) {
                self.miss(version);
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
                self.miss(version);
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
mod tests;
