//! The thread that looks at versions, and hands over those that are due.
//!
//! It never touches the store, so that a file system that hangs stops saving and nothing else.

use super::event::Event;
use super::options::{CheckpointerOptions, find};
use super::shared::{Command, Record, Shared};
use crate::position::Position;
use crate::schedule::Schedule;
use crate::{Error, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stillframe::{AnyObserver, AnySnapshot};
use stillframe_kernel::{memory, points};

/// Longest sleep before it asks whether it is to end, or the producer is gone.
const TICK: Duration = Duration::from_millis(50);
/// How long a last version that could not be saved waits to be tried once more.
const LAST_RETRY_MAX: Duration = Duration::from_secs(5);

/// The looking thread.
pub(super) struct Watch {
    shared: Arc<Shared>,
    target: Option<AnyObserver>,
    schedule: Schedule,
    /// Most bytes that versions which are held may take.
    held_bytes: u64,
    /// What tells one run from the next: when the producer, or each rank's, began.
    run: Option<Vec<Option<u64>>>,
    /// Behind the version that was looked at last, or before the first that was there.
    position: Option<Position>,
    /// The version that was handed over last, and when it was published.
    taken: Option<(u64, u64)>,
    /// Whether the condition was decided for a version.
    is_decided: bool,
    /// Whether the producer was gone before the look at hand, in which there is no version.
    is_gone: bool,
    rank_gone: bool,
}

/// What a look comes to.
enum Look {
    /// Go on.
    On,
    /// Nobody will publish any more.
    Gone,
    /// It was all.
    Done,
}

impl Watch {
    /// Looks at `target`, or once it appears at what has the name.
    pub(super) fn new(shared: Arc<Shared>, target: Option<AnyObserver>) -> Watch {
        let options = &shared.options;
        let is_all_due = !options.has_rule() && !options.once;
        let schedule = Schedule::new(if is_all_due { Some(1) } else { options.every }, options.every_time);
        let held_bytes = options.held_bytes.unwrap_or_else(|| memory::available_bytes().unwrap_or(1 << 30) / 4);
        Watch {
            shared,
            target,
            schedule,
            held_bytes,
            run: None,
            position: None,
            taken: None,
            is_decided: false,
            is_gone: false,
            rank_gone: false,
        }
    }

    pub(super) fn run(mut self) -> Result<()> {
        loop {
            let Some(target) = self.attach()? else { return Ok(()) };
            let look = match self.look(&target) {
                Ok(look) => look,
                Err(error) => self.forgive(error)?,
            };
            match look {
                Look::Done => return Ok(()),
                Look::On => {}
                Look::Gone => {
                    self.finish(&target)?;
                    if self.has_more(&target) {
                        continue;
                    }
                    if self.options().once || !self.wait_next()? {
                        return Ok(());
                    }
                }
            }
            match self.command() {
                Command::Run => {}
                Command::Stop => return self.finish(&target),
                Command::Finish | Command::Cancel => return Ok(()),
            }
        }
    }

    /// Whether versions are there that are all to be saved and were not looked at.
    fn has_untaken(&self, target: &AnyObserver) -> bool {
        let is_each_due = self.options().all && (self.schedule.every.is_some() || self.options().when.is_some());
        is_each_due && target.next_after(self.schedule.seen(), Some(Duration::ZERO)).is_ok()
    }

    /// Whether a program that is gone left such versions, and nothing stands in the way.
    fn has_more(&self, target: &AnyObserver) -> bool {
        self.command() == Command::Run && self.shared.record().unsaved.is_empty() && self.has_untaken(target)
    }

    fn options(&self) -> &CheckpointerOptions {
        &self.shared.options
    }

    fn command(&self) -> Command {
        self.shared.record().command
    }

    /// What is an end or an accident, rather than an error.
    fn forgive(&mut self, error: Error) -> Result<Look> {
        use stillframe::Error as Engine;
        match error {
            Error::Engine(Engine::Timeout { .. } | Engine::SlowRank { .. } | Engine::VersionGone { .. }) => {
                Ok(Look::On)
            }
            Error::Engine(
                Engine::NoVersion { .. }
                | Engine::RankMissing { .. }
                | Engine::NoCommonVersion { .. }
                | Engine::MixedRuns { .. },
            ) => {
                self.nap(TICK);
                let is_alive = self.is_alive();
                // It may have published and ended since the look.
                let was_gone = std::mem::replace(&mut self.is_gone, !is_alive);
                Ok(if is_alive || !was_gone { Look::On } else { Look::Gone })
            }
            Error::Engine(Engine::ProducerGone { .. } | Engine::NoRegion { .. }) => Ok(Look::Gone),
            Error::Engine(error @ Engine::RankGone { .. }) => {
                if !self.is_alive() {
                    return Ok(Look::Gone);
                }
                if !std::mem::replace(&mut self.rank_gone, true) {
                    self.shared.tell(Event::RankGone { error: error.to_string() });
                }
                self.nap(TICK);
                Ok(Look::On)
            }
            error => Err(error),
        }
    }

    fn is_alive(&self) -> bool {
        self.target.as_ref().is_some_and(AnyObserver::is_alive)
    }

    /// Sleeps, but not when it is to end.
    fn nap(&self, time: Duration) {
        let record = self.shared.record();
        if record.command == Command::Run {
            drop(self.shared.sleep(record, time));
        }
    }

    /// What is looked at, waiting for it to appear. `None` if it is to end before.
    fn attach(&mut self) -> Result<Option<AnyObserver>> {
        let begin = Instant::now();
        while self.target.is_none() || self.is_awaited() && begin.elapsed() < self.options().wait {
            if self.command() != Command::Run {
                return Ok(None);
            }
            self.target = find(self.options(), &self.shared.name)?;
            if self.target.is_none() && begin.elapsed() >= self.options().wait {
                let (region, what) = (self.shared.name.clone(), "the region to appear");
                return Err(stillframe::Error::Timeout { region, what, waited: self.options().wait }.into());
            }
            if self.target.is_none() || self.is_awaited() {
                self.nap(Duration::from_millis(5));
            }
        }
        let Some(target) = self.target.clone() else { return Ok(None) };
        let run = target.begun_ns()?;
        if self.run.as_ref() != Some(&run) {
            let newest = target.wait_newer(None, Some(Duration::ZERO)).ok();
            let is_first = self.run.is_none();
            // Of a group ranks appear one after the other, which makes no other run of it.
            let is_same = self.run.as_ref().is_some_and(|old| {
                old.len() == run.len() && old.iter().zip(&run).all(|(old, new)| old.is_none() || old == new)
            });
            self.run = Some(run);
            if !is_same {
                // It may go before it is looked at.
                let first = self.first(&target);
                // The run before may have ended with it.
                let is_new = first.as_ref().is_some_and(|first| self.schedule.seen() != Some(first.version()));
                let place = if is_new { Position::before } else { Position::behind };
                self.position = first.as_ref().map(place);
                self.schedule.begin(first.map(|first| first.version()));
                (self.taken, self.is_gone, self.rank_gone) = (None, false, false);
                self.shared.tell(match is_first {
                    true => Event::Attached { ranks: target.size(), newest },
                    false => Event::NewRun { newest },
                });
            }
        }
        Ok(Some(target))
    }

    /// The version that is to be looked at first, if there is any yet.
    fn first(&self, target: &AnyObserver) -> Option<AnySnapshot> {
        match self.options().all {
            true => target.next_after(None, Some(Duration::ZERO)).ok(),
            false => target.newest().ok(),
        }
    }

    /// Whether there is only what an earlier producer left, before the first look.
    fn is_awaited(&self) -> bool {
        self.run.is_none() && self.target.as_ref().is_some_and(|target| !target.is_alive())
    }

    /// Looks at what there is, waits a little for more, and hands over what is due.
    fn look(&mut self, target: &AnyObserver) -> Result<Look> {
        let record = self.shared.record();
        if record.command != Command::Run {
            return Ok(Look::On);
        }
        if record.unsaved.retry().is_some() {
            drop(record);
            return self.try_again(target);
        }
        if self.is_full(&record) {
            drop(self.shared.sleep(record, TICK));
            return Ok(Look::On);
        }
        drop(record);
        // What is left out meanwhile is told as any other version that was missed. Once the producer is gone nobody is left to be
        // polite to, and its last version is looked at.
        if !target.pause(Some(TICK)) && target.is_alive() {
            return Ok(Look::On);
        }
        // A single version may be any, unless a rule says which.
        if self.options().once && !self.options().has_rule() {
            return Ok(self.hand_over(target.newest()?));
        }
        if self.schedule.every.is_none() && self.options().when.is_none() {
            return self.look_by_time(target, Instant::now());
        }
        let time = self.schedule.left(Instant::now()).map_or(TICK, |left| left.clamp(Duration::from_millis(1), TICK));
        if self.options().all {
            return match target.next_after(self.schedule.seen(), Some(time)) {
                Err(stillframe::Error::Timeout { .. } | stillframe::Error::SlowRank { .. }) => self.look_again(target),
                other => self.consider(other?),
            };
        }
        let newest = match target.wait_newer(self.schedule.seen(), Some(time)) {
            Err(stillframe::Error::Timeout { .. } | stillframe::Error::SlowRank { .. }) => {
                return self.look_again(target);
            }
            other => other?,
        };
        if self.options().when.is_some() {
            return self.consider(target.newest()?);
        }
        if !self.schedule.is_due(newest, Instant::now()) {
            self.schedule.see(newest);
            return Ok(Look::On);
        }
        // The number that was asked for, if it is still there, so that those that stay for ever are round ones.
        let multiple = self.schedule.multiple(newest).filter(|multiple| *multiple < newest);
        let held = match multiple.map(|multiple| target.version(multiple)) {
            Some(Ok(held)) => held,
            _ => target.newest()?,
        };
        self.consider(held)
    }

    /// After a failure nothing else is tried before its time, and then what failed, if it is still held, or else whatever is
    /// newest.
    fn try_again(&mut self, target: &AnyObserver) -> Result<Look> {
        let record = self.shared.record();
        let Some(retry) = record.unsaved.retry() else { return Ok(Look::On) };
        let left = retry.saturating_duration_since(Instant::now());
        if !record.is_idle() || !left.is_zero() {
            drop(self.shared.sleep(record, left.clamp(Duration::from_millis(1), TICK)));
            return if target.is_alive() { Ok(Look::On) } else { Ok(Look::Gone) };
        }
        drop(record);
        if self.put_back() {
            return Ok(Look::On);
        }
        let held = target.newest()?;
        self.miss(&held);
        Ok(self.hand_over(held))
    }

    /// Hands over once more what failed and is still held; says whether there is any.
    fn put_back(&self) -> bool {
        let mut record = self.shared.record();
        if record.unsaved.held().is_empty() {
            return false;
        }
        let held = record.unsaved.take_held();
        record.queue.extend(held);
        drop(record);
        self.shared.changed.notify_all();
        true
    }

    /// Whether no other version may be held.
    fn is_full(&self, record: &Record) -> bool {
        match self.options().all {
            true => record.held() >= self.options().held || record.held() > 0 && record.held_bytes() >= self.held_bytes,
            // Without a condition nothing has to be looked at while a version is being saved.
            false => self.options().when.is_none() && !record.is_idle(),
        }
    }

    /// When nothing new comes, time may still make due what was seen before.
    fn look_again(&mut self, target: &AnyObserver) -> Result<Look> {
        if self.schedule.every_time.is_some() { self.look_by_time(target, Instant::now()) } else { Ok(Look::On) }
    }

    /// Hands over the newest version when it is time, if it was not handed over before.
    fn look_by_time(&mut self, target: &AnyObserver, now: Instant) -> Result<Look> {
        let left = self.schedule.left(now);
        if left == Some(Duration::ZERO) && self.shared.record().is_idle() {
            let newest = target.wait_newer(self.taken.map(|taken| taken.0), Some(TICK))?;
            let held = target.newest()?;
            self.schedule.see(newest);
            return Ok(self.hand_over(held));
        }
        self.nap(left.map_or(TICK, |left| left.clamp(Duration::from_millis(1), TICK)));
        Ok(if target.is_alive() && target.is_current() { Look::On } else { Look::Gone })
    }

    /// Hands over a version if it is due.
    fn consider(&mut self, held: AnySnapshot) -> Result<Look> {
        self.miss(&held);
        let is_due = self.schedule.is_due(held.version(), Instant::now());
        if is_due || self.holds(&held)? {
            return Ok(self.hand_over(held));
        }
        self.schedule.see(held.version());
        self.position = Some(Position::behind(&held));
        points::hit("look.seen");
        Ok(Look::On)
    }

    /// Whether the condition holds. That it cannot be decided is an error at first, when it is most likely misspelt.
    fn holds(&mut self, held: &AnySnapshot) -> Result<bool> {
        let Some(when) = &self.options().when else { return Ok(false) };
        match when.holds(held.version(), held.published_ns(), held.attributes()) {
            Ok(holds) => {
                self.is_decided = true;
                Ok(holds)
            }
            Err(error) if self.is_decided => {
                self.shared.record().error = Some(error.to_string());
                self.shared.tell(Event::Undecided { error: error.to_string() });
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Counts the versions between the last one looked at and this one, as far as they were to be saved.
    fn miss(&mut self, held: &AnySnapshot) {
        let Some(position) = &self.position else { return };
        let between = Position::before(held).since(position);
        let count = match (&self.options().when, self.schedule.every) {
            (Some(_), _) => between,
            (None, Some(_)) => between.min(self.schedule.reached(held.version()).saturating_sub(1)),
            (None, None) => 0,
        };
        self.count_missed(count, held.version());
    }

    fn count_missed(&self, count: u64, before: u64) {
        if count > 0 {
            self.shared.record().status.missed += count;
            self.shared.tell(Event::Missed { count, after: self.schedule.seen(), before });
        }
    }

    fn hand_over(&mut self, held: AnySnapshot) -> Look {
        let (version, now) = (held.version(), Instant::now());
        self.taken = Some((version, held.published_ns()));
        self.position = Some(Position::behind(&held));
        self.schedule.take(version, now);
        let mut record = self.shared.record();
        // Without `all` this one is tried in the place of what failed.
        if !self.options().all {
            record.unsaved.stop_waiting();
        }
        let room = if self.options().all { self.options().held } else { 1 };
        let mut left_out = None;
        if record.queue.len() >= room {
            left_out = record.queue.pop_front().map(|held| held.version());
        }
        record.queue.push_back(held);
        drop(record);
        self.shared.changed.notify_all();
        if left_out.is_some() {
            self.count_missed(1, version);
        }
        if self.options().once { Look::Done } else { Look::On }
    }

    /// Sees to what is not saved, and to the last version if the end is a rule: it is handed over, and tried again once.
    /// Waits until nothing is at hand any more.
    fn finish(&mut self, target: &AnyObserver) -> Result<()> {
        for is_again in [false, true] {
            let failed = self.drain();
            // Those before it come first, unless nobody looks at them any more.
            let is_next = self.command() == Command::Stop || !self.has_untaken(target);
            let is_last_due = self.options().at_end && !is_again && is_next;
            if !(failed || is_last_due) || self.command() >= Command::Finish {
                return Ok(());
            }
            self.pause();
            let is_back = self.put_back();
            if is_back && !is_last_due {
                continue;
            }
            let held = match target.newest() {
                Ok(held) => held,
                // There is none, or it went with the region.
                Err(error) if error.code() == NO_VERSION || !target.is_current() => return Ok(()),
                Err(error) => return self.forgive(error.into()).map(|_| ()),
            };
            if self.taken != Some((held.version(), held.published_ns())) || !is_back && failed {
                // What is tried again is not to make room for this one.
                self.drain();
                if self.command() >= Command::Finish {
                    return Ok(());
                }
                self.miss(&held);
                self.hand_over(held);
            }
        }
        self.drain();
        Ok(())
    }

    /// Waits until nothing is at hand, and says whether there is what could not be saved.
    fn drain(&self) -> bool {
        let mut record = self.shared.record();
        while !record.is_idle() && record.command != Command::Cancel {
            record = self.shared.sleep(record, Duration::MAX / 4);
        }
        !record.unsaved.is_empty()
    }

    /// Waits before what failed is tried again.
    fn pause(&self) {
        let end = Instant::now() + LAST_RETRY_MAX;
        let mut record = self.shared.record();
        while let Some(retry) = record.unsaved.retry().map(|retry| retry.min(end))
            && record.command <= Command::Stop
        {
            let left = retry.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            record = self.shared.sleep(record, left);
        }
    }

    /// Waits for another producer of the name, and says whether there is one.
    fn wait_next(&mut self) -> Result<bool> {
        self.shared.tell(Event::Gone { follow: self.options().follow });
        let begin = Instant::now();
        while self.command() == Command::Run && begin.elapsed() < self.options().follow {
            match &self.target {
                Some(target) if target.is_current() && target.is_alive() => return Ok(true),
                Some(target) if !target.is_current() => self.target = None,
                None => {
                    if let Some(target) = find(self.options(), &self.shared.name)? {
                        self.target = Some(target);
                        return Ok(true);
                    }
                }
                _ => {}
            }
            self.nap(Duration::from_millis(5));
        }
        Ok(false)
    }
}

/// The number of the error that nothing was published.
const NO_VERSION: i32 = 103;

#[cfg(test)]
mod tests;
