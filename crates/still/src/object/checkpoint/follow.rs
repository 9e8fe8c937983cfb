//! The thread that follows an object, and puts versions together as they are due.

use super::backlog::{Attempt, Backlog, may_pass};
use super::due::{Choice, Due, Position};
use super::{End, Ending};
use crate::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use stillframe::Attributes;
use stillframe_checkpoint::{Error as SaveError, Event};
use stillframe_kernel::priority;
use stillframe_object::{Assembly, Cause, Error, Object, Objects};

/// Longest wait before the thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// How long it sleeps where something is to be tried later.
const NAP: Duration = Duration::from_millis(5);

/// How long there may be no writer before that is the end: writers may leave and attach anew between two versions.
const GRACE: Duration = Duration::from_secs(1);

/// How long a version may take until all of it was read: its writers have published it.
const READ: Duration = Duration::from_secs(60);

/// An object whose versions are put together as they are due.
pub struct Follow {
    /// Where another object of its name is looked for.
    pub objects: Option<Objects>,
    pub object: Object,
    pub assembly: Assembly,
    pub due: Due,
    pub events: Sender<Event>,
    /// The version that was saved, or given up, last.
    pub done: Arc<AtomicU64>,
    pub ends: Arc<AtomicBool>,
    pub backlog: Backlog,
    pub position: Position,
    /// Since when nobody writes any more.
    pub gone: Option<Instant>,
    /// Whether it was ever known if the condition holds.
    pub is_decided: bool,
    /// Whether the last version is due.
    pub is_last: bool,
}

impl Follow {
    /// Follows the object to its end.
    pub fn run(mut self) -> Result<Ending, Failure> {
        // Without the permission it goes on as it is.
        let _ = priority::step_back(self.due.nice);
        let end = self.follow()?;
        // The region ends with this, and nobody saves what he has not seen.
        while self.is_busy() && !self.ends() {
            std::thread::sleep(NAP);
        }
        self.backlog.finish();
        // Who ends it is to find what is put together where it was.
        let assembly = self.ends().then_some(self.assembly);
        Ok(Ending { end, _assembly: assembly })
    }

    /// Whether no further versions are to be put together.
    fn ends(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    /// Whether the version that was put together last is still to be saved.
    fn is_busy(&self) -> bool {
        self.assembly.newest().is_some_and(|newest| newest > self.done.load(Ordering::Acquire))
    }

    fn follow(&mut self) -> Result<End, Failure> {
        while !self.ends() {
            let end = match self.advance() {
                Err(Failure::Object(Error::Interrupted { .. })) => break,
                Err(Failure::Object(error)) if is_end(&error) => self.await_return(&error)?,
                other => other?,
            };
            if let Some(end) = end {
                return Ok(end);
            }
        }
        Ok(End::Over)
    }

    /// Goes on with the version that is to be saved next, or waits a little for one; what it ends with, if it does.
    fn advance(&mut self) -> Result<Option<End>, Failure> {
        let newest = match self.object.wait_newer(self.position.seen, LOOK) {
            Err(Error::NoNewer { .. }) => {
                if self.is_alive() {
                    self.set_gone(None);
                }
                return Ok(None);
            }
            other => other?,
        };
        let is_late = self.backlog.open().next().is_some();
        let gone = if is_late && !self.is_alive() { self.gone.or_else(|| Some(Instant::now())) } else { None };
        self.set_gone(gone);
        // Nothing is put together that nobody saves yet.
        if !self.due.all && self.is_busy() {
            std::thread::sleep(NAP);
            return Ok(None);
        }
        let there = self.object.versions()?;
        match self.due.choose(&self.position, &there, newest, &self.backlog) {
            Some(choice) if self.backlog.is_due(choice.version) => {
                let is_taken = self.attempt(choice)?;
                return Ok((is_taken && self.due.once).then_some(End::Over));
            }
            Some(_) => std::thread::sleep(NAP),
            None => return self.pass(newest),
        }
        Ok(None)
    }

    /// Leaves what is there, of which nothing is due, or not yet.
    fn pass(&mut self, newest: u64) -> Result<Option<End>, Failure> {
        let is_late = self.backlog.open().next().is_some();
        if is_late && self.is_over() {
            self.save_last()?;
            return Ok(Some(End::Over));
        }
        if is_late || self.due.every_time.is_some() {
            std::thread::sleep(NAP);
        }
        if self.due.every_time.is_none() {
            self.see(newest);
        }
        Ok(None)
    }

    /// Chooses no version up to this one any more, but for those that may still be read.
    fn see(&mut self, version: u64) {
        let late = self.backlog.open().next().map(|late| late.saturating_sub(1));
        self.position.seen = self.position.seen.max(late.map_or(version, |late| late.min(version)));
    }

    /// Whether a writer lives; if that cannot be known, none is taken for gone.
    fn is_alive(&self) -> bool {
        self.object.is_alive().unwrap_or(true)
    }

    fn set_gone(&mut self, gone: Option<Instant>) {
        self.gone = gone;
        let limit = self.due.follow.max(GRACE);
        self.backlog.set_end(gone.and_then(|gone| gone.checked_add(limit)));
    }

    /// Whether nobody has written for so long that nobody will.
    fn is_over(&self) -> bool {
        self.gone.is_some_and(|gone| gone.elapsed() >= self.due.follow.max(GRACE))
    }

    /// Nobody writes any more, or somebody removed the object: waits a little for that to change. What it ends with, if it does not.
    fn await_return(&mut self, error: &Error) -> Result<Option<End>, Failure> {
        if matches!(error, Error::Removed { .. }) && self.has_next_run()? {
            return Ok(Some(End::NextRun));
        }
        self.set_gone(self.gone.or_else(|| Some(Instant::now())));
        if !self.is_over() {
            std::thread::sleep(LOOK);
            return Ok(None);
        }
        self.save_last()?;
        Ok(Some(End::Over))
    }

    /// Whether the name is another object's by now, and the next run is to be followed.
    fn has_next_run(&self) -> Result<bool, Failure> {
        let Some(objects) = self.objects.as_ref().filter(|_| !self.due.follow.is_zero()) else { return Ok(false) };
        match objects.names().get(self.object.name()) {
            Ok(there) => Ok(there.is_some_and(|there| there.id != self.object.description().id)),
            Err(error) if may_pass(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts the last version together, if that is to be. Of an object that was removed nothing is left.
    fn save_last(&mut self) -> Result<(), Failure> {
        match self.read_last() {
            Err(Failure::Object(Error::Removed { .. } | Error::Interrupted { .. })) => Ok(()),
            other => other,
        }
    }

    fn read_last(&mut self) -> Result<(), Failure> {
        let version = self.object.newest()?;
        // What was put together before it went is not missed.
        let is_done = self.assembly.newest() >= Some(version);
        if !self.due.at_end || is_done || version <= self.object.description().initial {
            return Ok(());
        }
        self.is_last = true;
        if self.backlog.late(version).is_none() && !self.await_presence(version)? {
            self.backlog.miss_last(version);
            return Ok(());
        }
        let is_wanted = |follow: &Follow| {
            let is_left = follow.backlog.is_closed(version) || follow.backlog.is_given_up(version);
            follow.assembly.newest() < Some(version) && !is_left && !follow.ends()
        };
        while is_wanted(self) {
            if self.backlog.is_due(version) {
                self.attempt(Choice { version, is_asked: false })?;
                // Of one that was removed.
                self.object.versions()?;
            } else {
                std::thread::sleep(NAP);
            }
        }
        Ok(())
    }

    /// Whether a version is there, or is so a little later.
    fn await_presence(&self, version: u64) -> Result<bool, Failure> {
        let begin = Instant::now();
        loop {
            let is_there = self.object.versions()?.contains(&version);
            if is_there || self.ends() || begin.elapsed() >= GRACE {
                return Ok(is_there);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Puts a version together, if that is not asked first or the condition holds; whether it did.
    fn attempt(&mut self, choice: Choice) -> Result<bool, Failure> {
        let Choice { version, is_asked } = choice;
        let is_last = self.backlog.late(version).is_some() && !self.is_alive();
        let mut attempt = Attempt { choice, begun: Instant::now(), is_last };
        let (mut asked, mut was_asked) = (Ok(true), false);
        let when = self.due.when.as_ref().filter(|_| is_asked);
        let is_due = |published_ns: u64, attributes: &Attributes| {
            asked = when.map_or(Ok(true), |when| when.holds(version, published_ns, attributes));
            was_asked = true;
            matches!(asked, Ok(true))
        };
        match self.assembly.take_if(version, longest_read(), is_due) {
            Ok(true) => {
                self.is_decided |= is_asked;
                self.position.begun = Some(attempt.begun);
                self.position.seen = self.position.seen.max(version);
                self.backlog.hand_over(version);
                Ok(true)
            }
            Ok(false) => self.decline(version, asked).map(|()| false),
            Err(error) => {
                // One for which the condition holds is due, whatever becomes of it.
                attempt.choice.is_asked &= !was_asked;
                self.sort(attempt, error).map(|()| false)
            }
        }
    }

    /// Leaves a version for which the condition does not hold, or cannot be decided.
    fn decline(&mut self, version: u64, asked: Result<bool, SaveError>) -> Result<(), Failure> {
        match asked {
            Ok(_) => self.is_decided = true,
            Err(error) if self.is_decided => drop(self.events.send(Event::Undecided { error: error.to_string() })),
            // It is most likely misspelt.
            Err(error) => return Err(error.into()),
        }
        self.backlog.decline(version);
        self.position.asked = self.position.asked.max(Some(version));
        // What the condition leaves out, time may still make due.
        if self.due.all || self.due.every_time.is_none() {
            self.see(version);
        }
        Ok(())
    }

    /// Keeps in mind why a version could not be put together.
    fn sort(&mut self, attempt: Attempt, error: Error) -> Result<(), Failure> {
        let version = attempt.choice.version;
        let is_loss = matches!(error, Error::Lost { .. } | Error::LostElsewhere { .. });
        match error {
            // The next look says what follows.
            Error::Interrupted { .. } | Error::Removed { .. } => {}
            error if is_unwritten(&error) => {
                // Who follows one run after the other may not end for long.
                let is_told_now = !self.due.follow.is_zero() && self.assembly.newest().is_none();
                self.backlog.close_unwritten(attempt.choice, &error, is_told_now);
                self.see(version);
            }
            // Its writers went on before it was read.
            _ if is_loss && !self.is_last && self.has_newer(version)? => self.backlog.lose(attempt.choice),
            error if is_loss || may_pass(&error) => self.backlog.fail(attempt, &error, self.ends()),
            error => return Err(error.into()),
        }
        Ok(())
    }

    /// Whether a version that may be read is newer than this one.
    fn has_newer(&self, version: u64) -> Result<bool, Failure> {
        Ok(self.object.versions()?.last().is_some_and(|newest| *newest > version))
    }
}

/// Whether nobody writes any more, or the object was removed.
fn is_end(error: &Error) -> bool {
    matches!(error, Error::Ended { .. } | Error::Lost { .. } | Error::Removed { .. })
}

/// How long a version may take until all of it was read.
fn longest_read() -> Duration {
    #[cfg(feature = "points")]
    if let Some(ms) = std::env::var("STILLFRAME_READ_MS").ok().and_then(|ms| ms.parse().ok()) {
        return Duration::from_millis(ms);
    }
    READ
}

/// Whether elements of a version cannot be had because nobody has ever written them.
fn is_unwritten(error: &Error) -> bool {
    matches!(error, Error::Lost { losses, .. } if losses.iter().any(|part| part.cause == Some(Cause::Unwritten)))
}
