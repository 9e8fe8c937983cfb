//! The thread that follows an object, and puts versions together as they are due.

use super::End;
use super::backlog::{Attempt, Backlog, may_pass};
use super::departure::Departure;
use super::due::{Choice, Due, Position};
use super::limits::{self, GRACE, LOOK, NAP};
use super::unread::Unread;
use crate::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Instant;
use stillframe::Attributes;
use stillframe_checkpoint::{Error as SaveError, Event, Obstacle};
use stillframe_kernel::priority;
use stillframe_object::{Assembly, Cause, Error, Object, Objects};

/// Why a version is left that has to be saved.
const REMOVED: &str = "the object was removed before all of it was read";
const UNSAVED: &str = "nothing could be saved while it was there";
const ENDED: &str = "this was ended before all of it was read";

/// An object whose versions are put together as they are due.
pub struct Follow {
    /// Where another object of its name is looked for.
    pub objects: Option<Objects>,
    pub object: Object,
    pub assembly: Assembly,
    pub due: Due,
    /// How many versions may wait until they are safe.
    pub room: usize,
    pub events: Sender<Event>,
    /// What is due and not safe.
    pub obstacle: Obstacle,
    pub ends: Arc<AtomicBool>,
    pub backlog: Backlog,
    pub position: Position,
    /// The newest complete version that is known.
    pub newest: u64,
    /// With `all`, versions that were there and are to be read.
    pub unread: Unread,
    /// While nobody writes any more.
    pub gone: Option<Departure>,
    /// Whether it was ever known if the condition holds.
    pub is_decided: bool,
    /// Whether the last version is being read.
    pub is_last: bool,
    /// Since when the object cannot be looked at, by an error that may pass.
    pub hindered: Option<Instant>,
}

impl Follow {
    /// Follows the object to its end.
    pub fn run(mut self) -> Result<End, Failure> {
        // Without the permission it goes on as it is.
        let _ = priority::step_back(self.due.nice);
        let end = self.follow();
        if let Err(error) = &end {
            self.obstacle.set_fatal(&error.to_string());
        }
        // What waits for room when somebody ends this is still with the writers.
        if !self.ends() {
            self.unread.take().into_iter().for_each(|choice| self.backlog.miss_unknown(choice.version));
        }
        self.backlog.finish();
        // With this the region ends, as one whose program has ended: the checkpointer saves what is left in it.
        drop(self.assembly);
        end
    }

    /// Whether no further versions are to be put together.
    fn ends(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    fn follow(&mut self) -> Result<End, Failure> {
        while !self.ends() {
            let end = match self.step() {
                Err(Failure::Object(Error::Interrupted { .. })) => break,
                Err(Failure::Object(error)) if may_pass(&error) && self.may_wait() => {
                    std::thread::sleep(LOOK);
                    continue;
                }
                other => other?,
            };
            self.hindered = None;
            if let Some(end) = end {
                return Ok(end);
            }
        }
        if self.gone.is_some() && self.due.at_end {
            self.leave_newest(ENDED, &self.interruption());
        }
        Ok(End::Over)
    }

    fn step(&mut self) -> Result<Option<End>, Failure> {
        match self.advance() {
            Err(Failure::Object(error)) if is_end(&error) => self.await_return(&error),
            other => other,
        }
    }

    /// Whether an error that may pass has not been there for long.
    fn may_wait(&mut self) -> bool {
        self.hindered.get_or_insert_with(Instant::now).elapsed() < limits::read_limit()
    }

    /// Goes on with the version that is to be saved next, or waits a little for one; what it ends with, if it does.
    fn advance(&mut self) -> Result<Option<End>, Failure> {
        let newest = match self.object.wait_newer(self.position.seen, LOOK) {
            Err(Error::NoNewer { .. }) => {
                self.track_writers(self.gone.is_some());
                return Ok(None);
            }
            other => other?,
        };
        self.newest = self.newest.max(newest);
        let there = self.object.versions()?;
        self.add_unread(&there);
        // No more is put together than may wait.
        if !self.obstacle.wait_for_room(self.room, LOOK) {
            return self.await_room();
        }
        let is_waiting = self.due.every_time.is_some() || self.backlog.open().next().is_some();
        self.track_writers(is_waiting);
        match self.due.choose(&self.position, &there, newest, &self.backlog) {
            Some(choice) if self.backlog.is_due(choice.version) => {
                let is_taken = self.attempt(choice)?;
                return Ok((is_taken && self.due.once).then_some(End::Over));
            }
            // The last version is not kept waiting by an earlier one, unless all are to be saved in turn.
            Some(_) if self.due.at_end && !self.due.all && self.has_ended()? => return Ok(Some(End::Over)),
            Some(_) => std::thread::sleep(NAP),
            None => return self.pass(newest),
        }
        Ok(None)
    }

    /// Goes on to wait for room, unless nothing can be saved and nobody writes any more.
    fn await_room(&mut self) -> Result<Option<End>, Failure> {
        self.track_writers(true);
        let failures = self.obstacle.failures();
        if !self.gone.is_some_and(|gone| gone.is_hopeless(failures)) {
            return Ok(None);
        }
        self.leave_newest(UNSAVED, &self.interruption());
        self.leave_unread(UNSAVED, &self.interruption());
        Ok(Some(End::Over))
    }

    /// Keeps in mind since when nobody writes any more, where that counts.
    fn track_writers(&mut self, is_waiting: bool) {
        self.set_gone(is_waiting && !self.is_alive());
    }

    fn interruption(&self) -> Error {
        Error::Interrupted { name: self.object.name().into() }
    }

    /// Leaves what is there, of which nothing is due, or not yet.
    fn pass(&mut self, newest: u64) -> Result<Option<End>, Failure> {
        let is_late = self.backlog.open().next().is_some();
        let is_timed = self.due.every_time.is_some();
        if (is_late || is_timed) && self.has_ended()? {
            return Ok(Some(End::Over));
        }
        if is_late || is_timed {
            std::thread::sleep(if is_late { NAP } else { LOOK });
        }
        if !is_timed {
            self.see(newest);
        }
        Ok(None)
    }

    /// Chooses no version up to this one any more, but for those that may still be read.
    fn see(&mut self, version: u64) {
        let late = self.backlog.open().next().map(|late| late.saturating_sub(1));
        self.position.seen = self.position.seen.max(late.map_or(version, |late| late.min(version)));
    }

    /// Keeps in mind which versions are to be read.
    fn add_unread(&mut self, there: &[u64]) {
        if self.due.all && !self.due.once {
            let backlog = &self.backlog;
            let surplus = self.unread.add(&self.due, &self.position, there, |version| backlog.knows(version));
            surplus.into_iter().for_each(|version| self.backlog.miss_unknown(version));
        }
    }

    /// Whether a writer lives; if that cannot be known, none is taken for gone.
    fn is_alive(&self) -> bool {
        self.object.is_alive().unwrap_or(true)
    }

    fn set_gone(&mut self, is_gone: bool) {
        let limit = self.due.follow.max(GRACE);
        self.newest = self.newest.max(self.object.newest().unwrap_or_default());
        let (newest, failures) = (self.newest, self.obstacle.failures());
        self.gone = is_gone.then(|| Departure::after(self.gone, newest, failures, limit));
        self.backlog.set_end(self.gone.and_then(|gone| gone.since.checked_add(limit)));
    }

    /// Whether nobody has written for so long that nobody will.
    fn is_over(&self) -> bool {
        self.gone.is_some_and(|gone| gone.since.elapsed() >= self.due.follow.max(GRACE))
    }

    /// Nobody writes any more, or somebody removed the object: waits a little for that to change. What it ends with, if it does not.
    fn await_return(&mut self, error: &Error) -> Result<Option<End>, Failure> {
        let is_removed = matches!(error, Error::Removed { .. });
        if is_removed {
            self.leave_newest(REMOVED, error);
            self.leave_unread(REMOVED, error);
            if self.has_next_run()? {
                return Ok(Some(End::NextRun));
            }
        }
        self.set_gone(true);
        if self.has_ended()? {
            return Ok(Some(End::Over));
        }
        std::thread::sleep(LOOK);
        Ok(None)
    }

    /// Whether nobody writes any more, and nobody will. The last version is read before: the object may be removed while another run is waited
    /// for.
    fn has_ended(&mut self) -> Result<bool, Failure> {
        if self.gone.is_some_and(|gone| !gone.is_last_read && gone.since.elapsed() >= GRACE) {
            let is_last_read = self.save_last()?;
            if let Some(gone) = &mut self.gone {
                gone.is_last_read = is_last_read;
            }
            // Others may write by now, or have written and left, which the next step sees.
            return Ok(false);
        }
        Ok(self.is_over())
    }

    /// Leaves the versions that were to be read, for this reason.
    fn leave_unread(&mut self, why: &str, error: &Error) {
        for Choice { version, is_asked } in self.unread.take() {
            match is_asked {
                true => self.backlog.miss_unknown(version),
                false if !self.backlog.knows(version) => self.backlog.leave(version, why, error),
                false => {}
            }
        }
    }

    /// Leaves the newest version if that is due, which cannot be read any more.
    fn leave_newest(&mut self, why: &str, error: &Error) {
        let version = self.newest;
        let is_done = self.assembly.newest() >= Some(version) || version <= self.object.description().initial;
        let is_named = self.due.at_end || !self.unread.has(self.due.number(version));
        if is_done || !is_named || self.backlog.knows(version) {
            return;
        }
        match self.choose_last(version) {
            Some(choice) if self.is_needed(choice) => self.backlog.leave(version, why, error),
            Some(_) => self.backlog.miss(version),
            None => {}
        }
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

    /// Puts the last version together, if that is to be; whether that is done, or cannot be. Of an object that was removed nothing is left.
    fn save_last(&mut self) -> Result<bool, Failure> {
        match self.read_last() {
            Err(Failure::Object(error @ Error::Removed { .. })) => {
                self.leave_newest(REMOVED, &error);
                self.leave_unread(REMOVED, &error);
                Ok(true)
            }
            Err(Failure::Object(Error::Interrupted { .. })) => Ok(true),
            other => other,
        }
    }

    fn read_last(&mut self) -> Result<bool, Failure> {
        let version = self.object.newest()?;
        // What was put together before it went is not missed.
        let is_done = self.assembly.newest() >= Some(version) || self.backlog.is_closed(version);
        if is_done || version <= self.object.description().initial {
            return Ok(true);
        }
        let Some(choice) = self.choose_last(version) else { return Ok(true) };
        if self.backlog.late(version).is_none() && !self.await_presence(version)? {
            if !self.ends() {
                self.backlog.miss_gone(version, self.is_needed(choice));
            }
            return Ok(true);
        }
        self.read_until_given_up(choice)
    }

    /// Tries to read the last version until it was read, or often enough, and in turns those before it that are late; whether that is done. It is
    /// not where one of these was read, for which there has to be room, or somebody writes again.
    fn read_until_given_up(&mut self, choice: Choice) -> Result<bool, Failure> {
        let version = choice.version;
        // Whoever writes again goes on with later ones.
        let has_newer = |follow: &Follow| follow.has_newer(version).unwrap_or(false);
        let may_wait = |follow: &Follow| (follow.is_over() || !follow.is_alive()) && !has_newer(follow);
        let is_done = |follow: &Follow| {
            let is_declined = choice.is_asked && follow.position.asked >= Some(version);
            let is_left = is_declined || follow.backlog.is_closed(version) || follow.backlog.is_given_up(version);
            follow.assembly.newest() >= Some(version) || is_left || follow.ends()
        };
        while !is_done(self) {
            // Of one that was removed.
            self.object.versions()?;
            if !may_wait(self) {
                return Ok(false);
            }
            let is_due = self.backlog.is_due(version);
            match self.backlog.retry_before(version) {
                Some(earlier) if !is_due || self.backlog.is_before(earlier.version, version) => {
                    if self.attempt(earlier)? {
                        return Ok(false);
                    }
                }
                _ if is_due => {
                    self.is_last = true;
                    let read = self.attempt(choice);
                    self.is_last = false;
                    read?;
                }
                _ => std::thread::sleep(LOOK),
            }
        }
        Ok(true)
    }

    /// The newest version, if it is due and nothing was found out of it yet: one that was complete, and of which nobody has all any more, is
    /// among those that can be had no more.
    fn choose_last(&self, version: u64) -> Option<Choice> {
        if self.due.at_end {
            return Some(Choice { version, is_asked: false });
        }
        if version <= self.position.seen || self.backlog.knows(version) {
            return None;
        }
        let choice = self.due.choose(&self.position, &[version], version, &self.backlog);
        choice.filter(|choice| choice.version == version)
    }

    /// Whether a version has to be saved: without a rule one of them all.
    fn is_needed(&self, choice: Choice) -> bool {
        !choice.is_asked && (self.due.has_rule() || !self.obstacle.has_safe())
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
        let is_last = self.backlog.late(version).is_some() && (self.is_last || !self.is_alive());
        let mut attempt = Attempt { choice, begun: Instant::now(), is_last };
        let (mut asked, mut was_asked) = (Ok(true), false);
        let when = self.due.when.as_ref().filter(|_| is_asked);
        // Before it can be found, for then it may be safe at once.
        self.obstacle.hand_over(version, self.due.has_rule());
        let is_due = |published_ns: u64, attributes: &Attributes| {
            asked = when.map_or(Ok(true), |when| when.holds(version, published_ns, attributes));
            was_asked = true;
            matches!(asked, Ok(true))
        };
        let is_taken = self.assembly.take_if(version, limits::read_limit(), is_due);
        if !matches!(is_taken, Ok(true)) {
            self.obstacle.take_back(version);
        }
        match is_taken {
            Ok(true) => {
                self.is_decided |= is_asked;
                self.position.begun = Some(attempt.begun);
                self.position.seen = self.position.seen.max(version);
                let gone = self.unread.pass(&self.due, version);
                gone.into_iter().for_each(|version| self.backlog.miss_unknown(version));
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
        self.unread.decline(version);
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
            Error::Interrupted { .. } | Error::Removed { .. } => {
                if self.is_needed(attempt.choice) {
                    let why = if matches!(error, Error::Removed { .. }) { REMOVED } else { ENDED };
                    self.backlog.leave(version, why, &error);
                }
                return Err(error.into());
            }
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

/// Whether elements of a version cannot be had because nobody has ever written them.
fn is_unwritten(error: &Error) -> bool {
    matches!(error, Error::Lost { losses, .. } if losses.iter().any(|part| part.cause == Some(Cause::Unwritten)))
}
