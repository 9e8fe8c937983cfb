//! Which version of an object is to be saved next.

use super::backlog::Backlog;
use std::time::{Duration, Instant};
use stillframe_checkpoint::When;
use stillframe_kernel::memory;

/// Which versions are due.
#[derive(Debug)]
pub struct Due {
    /// Multiples of this, or the next if that one went.
    pub every: Option<u64>,
    /// One so long after the last was begun.
    pub every_time: Option<Duration>,
    /// Those for which this holds.
    pub when: Option<When>,
    /// Looks at each complete one, in turn.
    pub all: bool,
    /// With `all`, how many versions and bytes of them may wait until they are safe.
    pub held: usize,
    pub held_bytes: Option<u64>,
    /// The first one only.
    pub once: bool,
    /// The last one when all writers have left.
    pub at_end: bool,
    /// How long to wait for writers once all have left.
    pub follow: Duration,
    /// How far the thread steps back behind the simulation.
    pub nice: u32,
}

/// A version to be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    pub version: u64,
    /// Whether it is saved only if the condition holds.
    pub is_asked: bool,
}

/// How far an object was followed.
#[derive(Debug, Default)]
pub struct Position {
    /// No version up to this one is chosen.
    pub seen: u64,
    /// When the last version was begun.
    pub begun: Option<Instant>,
    /// The newest version for which the condition did not hold.
    pub asked: Option<u64>,
}

impl Due {
    /// With `all`, the versions that a rule names of those that are there, ascending, each with the number that it stands for.
    pub fn all_named(&self, position: &Position, there: &[u64]) -> Vec<(u64, Choice)> {
        let mut last = position.seen;
        let new = there.iter().copied().filter(|version| *version > position.seen);
        let choice = |version| {
            let choice = self.choice(position, version, last, self.is_any());
            last = version;
            choice.map(|choice| (if choice.is_asked { version } else { self.number(version) }, choice))
        };
        new.filter_map(choice).collect()
    }

    /// Whether a rule names a version, of which `last` is the one before: `is_any` says that each is due.
    fn choice(&self, position: &Position, version: u64, last: u64, is_any: bool) -> Option<Choice> {
        let is_due = is_any || self.every.is_some_and(|every| version / every > last / every);
        let is_new = self.when.is_some() && position.asked < Some(version);
        (is_due || is_new).then_some(Choice { version, is_asked: !is_due })
    }

    /// The number that a version stands for: the multiple that it is, or comes after.
    pub fn number(&self, version: u64) -> u64 {
        self.every.filter(|_| !self.is_any()).map_or(version, |every| version / every * every)
    }

    /// Whether no rule says which: then all are, as they come.
    fn is_any(&self) -> bool {
        let has_choice = self.every.is_some() || self.when.is_some();
        !has_choice && (self.once || self.every_time.is_none() && (self.all || !self.at_end))
    }

    /// How many versions of this size may be pending: put together, and not safe yet. Without `all` that is one.
    pub fn room(&self, version_bytes: u64) -> usize {
        if !self.all {
            return 1;
        }
        let bytes = self.held_bytes.unwrap_or_else(|| memory::available_bytes().unwrap_or(1 << 30) / 4);
        usize::try_from(bytes / version_bytes.max(1)).unwrap_or(usize::MAX).clamp(1, self.held.max(1))
    }

    /// Whether a rule says which versions have to be saved. Without any they are saved as they come, as far as there is time.
    pub fn has_rule(&self) -> bool {
        let has_choice = self.every.is_some() || self.every_time.is_some() || self.when.is_some();
        has_choice || self.all || self.once || self.at_end
    }

    /// The version to be saved next, of those that are there, ascending, and of the backlog; `None` if none is, or not yet.
    pub fn choose(&self, position: &Position, there: &[u64], newest: u64, backlog: &Backlog) -> Option<Choice> {
        let is_time = self.every_time.is_some_and(|time| position.begun.is_none_or(|begun| begun.elapsed() >= time));
        let is_any = is_time || self.is_any();
        match self.all {
            true => self.choose_oldest(position, there, is_any, backlog),
            false => self.choose_newest(position, there, newest, is_any, backlog).or_else(|| backlog.newest()),
        }
    }

    /// Of all that are due the oldest; one that was given up is followed by the next.
    fn choose_oldest(&self, position: &Position, there: &[u64], is_any: bool, backlog: &Backlog) -> Option<Choice> {
        let mut versions: Vec<u64> = there.iter().copied().filter(|version| *version > position.seen).collect();
        versions.extend(backlog.open());
        versions.sort_unstable();
        versions.dedup();
        let (mut last, mut last_choice) = (position.seen, None);
        // Of a version that is lost the next may stand in its place.
        for version in versions.into_iter().filter(|version| !backlog.is_closed(*version)) {
            let found = backlog.late(version).or_else(|| self.choice(position, version, last, is_any));
            if found.is_some() && !backlog.is_given_up(version) {
                // One that fails again and again keeps no other from being saved before it goes.
                if !backlog.is_put_off(version) {
                    return found;
                }
                last_choice = last_choice.or(found);
            }
            last = version;
        }
        last_choice
    }

    /// The newest one, if a rule says that it is due, or that which has the number.
    fn choose_newest(
        &self,
        position: &Position,
        there: &[u64],
        newest: u64,
        is_any: bool,
        backlog: &Backlog,
    ) -> Option<Choice> {
        let can_be_had = |version: &u64| !backlog.is_closed(*version) && !backlog.is_given_up(*version);
        let take = |version| Choice { version, is_asked: false };
        let multiple = self.every.map(|every| newest / every * every).filter(|multiple| *multiple > position.seen);
        if let Some(multiple) = multiple.filter(|multiple| there.contains(multiple) && can_be_had(multiple)) {
            return Some(take(multiple));
        }
        if !can_be_had(&newest) {
            return None;
        }
        if is_any || multiple.is_some() {
            return Some(take(newest));
        }
        let is_new = self.when.is_some() && position.asked < Some(newest);
        is_new.then_some(Choice { version: newest, is_asked: true })
    }
}
