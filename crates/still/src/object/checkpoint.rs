//! Versions of an object for `still checkpoint`, each put together when it is due.
//!
//! The checkpointer saves versions of a region. A thread makes one of the object, in memory of this process, of the versions that
//! are due and of no others.

use super::unread::{Unread, may_pass};
use super::{find, look};
use crate::context::Context;
use crate::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stillframe::{Arena, Attributes};
use stillframe_checkpoint::{Event, Obstacle, When};
use stillframe_kernel::priority;
use stillframe_object::{Assembly, Cause, Error, Object, Objects};

/// Longest wait before the thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// How long there may be no writer before that is the end: writers may leave and attach anew between two versions.
const GRACE: Duration = Duration::from_secs(1);

/// How long a version may take until all of it was read: its writers have published it.
const READ: Duration = Duration::from_secs(60);

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
    /// The first one only.
    pub once: bool,
    /// The last one when all writers have left.
    pub at_end: bool,
    /// How long to wait for writers once all have left.
    pub follow: Duration,
    /// How far the thread steps back behind the simulation.
    pub nice: u32,
}

impl Due {
    /// Whether no rule says which: then all are, as they come.
    fn is_any(&self) -> bool {
        let has_rule = self.every.is_some() || self.when.is_some();
        !has_rule && (self.once || self.every_time.is_none() && (self.all || !self.at_end))
    }
}

/// What to do with the versions that are there.
enum Choice {
    /// Save this one.
    Take(u64),
    /// Save this one if the condition holds.
    Ask(u64),
    /// Save one later, if no other is due until then.
    Later,
    /// Leave them.
    Leave,
}

/// What became of a version.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It is put together.
    Taken,
    /// It is not to be saved, or cannot be had any more.
    Left,
    /// It could not be read, and is tried again.
    Unread,
}

/// The thread that puts versions together.
#[derive(Debug)]
pub struct Follower {
    arena: Arena,
    /// By which name the region is found in the arena.
    name: String,
    /// The version that was saved, or given up, last.
    done: Arc<AtomicU64>,
    /// What cannot be read, for the checkpointer.
    obstacle: Obstacle,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<End, Failure>>>,
}

/// Why an object is followed no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its writers have left, or it was to be so.
    Over,
    /// Somebody removed it and created another one of its name: the next run.
    NextRun,
}

impl Follower {
    /// Begins to follow the object of a name, if that is one.
    pub fn begin(context: &Context, name: &str, due: Due, events: &Sender<Event>) -> Result<Option<Follower>, Failure> {
        let Some(object) = find(context, name)? else { return Ok(None) };
        // One is being saved, and the next is put together after it; but with all of them several wait for that.
        let assembly = Assembly::new(&object, if due.all { 8 } else { 1 })?;
        let (arena, name) = (assembly.arena().clone(), object.name().to_owned());
        let (done, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let obstacle = Obstacle::default();
        let follow = Follow {
            objects: look(context)?,
            object,
            assembly,
            due,
            events: events.clone(),
            done: done.clone(),
            obstacle: obstacle.clone(),
            ends: ends.clone(),
            begun: None,
            asked: None,
            is_decided: false,
            unwritten: None,
            unread: None,
        };
        let thread = std::thread::Builder::new().name("still-object".into()).spawn(move || follow.run())?;
        Ok(Some(Follower { arena, name, done, obstacle, ends, thread: Some(thread) }))
    }

    /// Where the region lies.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// What the region is called there.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What hears that a version was saved that was put together, or could not be.
    pub fn finisher(&self) -> impl Fn(u64) + Send + Sync + 'static {
        let done = self.done.clone();
        move |version| _ = done.fetch_max(version, Ordering::AcqRel)
    }

    /// What keeps a version from being put together.
    pub fn obstacle(&self) -> &Obstacle {
        &self.obstacle
    }

    /// Puts no further versions together.
    pub fn stop(&self) {
        self.ends.store(true, Ordering::Release);
    }

    /// Waits for the end of the thread, and says what ended it.
    pub fn join(mut self) -> Result<End, Failure> {
        self.stop();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            None => Ok(End::Over),
            Some(Err(_)) => {
                Err(Failure::Problem("the thread that follows the object ended by a fault; report it".into()))
            }
        }
    }
}

struct Follow {
    /// Where another object of its name is looked for.
    objects: Option<Objects>,
    object: Object,
    assembly: Assembly,
    due: Due,
    events: Sender<Event>,
    done: Arc<AtomicU64>,
    obstacle: Obstacle,
    ends: Arc<AtomicBool>,
    /// When the last version was begun.
    begun: Option<Instant>,
    /// The version for which the condition did not hold last.
    asked: Option<u64>,
    /// Whether it was ever known if the condition holds.
    is_decided: bool,
    /// Why a complete version could not be put together: nobody writes some of its elements.
    unwritten: Option<Error>,
    /// A version that could not be read, until one that is due was put together.
    unread: Option<Unread>,
}

impl Follow {
    fn run(mut self) -> Result<End, Failure> {
        let end = self.follow()?;
        let is_over = end == End::Over;
        if let Some(error) = self.unwritten.take_if(|_| is_over && self.assembly.newest().is_none()) {
            return Err(Failure::Problem(format!(
                "{error}; such an object cannot be saved: let somebody write all of it"
            )));
        }
        // The region ends with this, and nobody saves what he has not seen.
        while self.is_busy() && !self.ends() {
            std::thread::sleep(LOOK / 10);
        }
        self.unread.map_or(Ok(end), |unread| Err(unread.failure()))
    }

    /// Whether no further versions are to be put together.
    fn ends(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    /// Whether the name is another object's by now, and the next run is to be followed.
    fn has_next_run(&self) -> Result<bool, Failure> {
        let Some(objects) = self.objects.as_ref().filter(|_| !self.due.follow.is_zero()) else { return Ok(false) };
        let there = objects.names().get(self.object.name())?;
        Ok(there.is_some_and(|there| there.id != self.object.description().id))
    }

    /// Whether the version that was put together last is still to be saved.
    fn is_busy(&self) -> bool {
        self.assembly.newest().is_some_and(|newest| newest > self.done.load(Ordering::Acquire))
    }

    fn follow(&mut self) -> Result<End, Failure> {
        // Without the permission it goes on as it is.
        let _ = priority::step_back(self.due.nice);
        let mut seen = self.object.description().initial;
        let mut gone: Option<Instant> = None;
        while !self.ends() {
            let newest = match self.object.wait_newer(seen, LOOK) {
                Ok(newest) => newest,
                Err(Error::NoNewer { .. }) => {
                    gone = gone.filter(|_| !self.object.is_alive().unwrap_or(true));
                    continue;
                }
                Err(error @ (Error::Ended { .. } | Error::Lost { .. } | Error::Removed { .. })) => {
                    if matches!(error, Error::Removed { .. }) && self.has_next_run()? {
                        return Ok(End::NextRun);
                    }
                    if gone.get_or_insert_with(Instant::now).elapsed() < self.due.follow.max(GRACE) {
                        std::thread::sleep(LOOK);
                        continue;
                    }
                    self.end()?;
                    return Ok(End::Over);
                }
                Err(error) => return Err(error.into()),
            };
            gone = self.gone_since(gone);
            if self.given_up().is_some() && gone.is_some_and(|gone| gone.elapsed() >= self.due.follow.max(GRACE)) {
                self.end()?;
                return Ok(End::Over);
            }
            // Nothing is put together that nobody saves yet.
            let choice = match !self.due.all && self.is_busy() {
                true => Choice::Later,
                false => match self.choose(seen, newest) {
                    // What follows is told by the next wait.
                    Err(Error::Removed { .. }) => continue,
                    chosen => chosen?,
                },
            };
            let (version, is_asked) = match choice {
                Choice::Take(version) => (version, false),
                Choice::Ask(version) => (version, true),
                Choice::Later => {
                    std::thread::sleep(Duration::from_millis(2));
                    continue;
                }
                Choice::Leave => {
                    seen = newest;
                    continue;
                }
            };
            if self.unread.as_ref().is_some_and(|unread| !unread.is_due(version)) {
                std::thread::sleep(LOOK / 10);
                continue;
            }
            let is_taken = match self.take(version, is_asked)? {
                Outcome::Unread => continue,
                outcome => outcome == Outcome::Taken,
            };
            if is_taken && self.due.once {
                return Ok(End::Over);
            }
            if is_asked && !is_taken {
                self.asked = Some(version);
            }
            // What the condition leaves out, time may still make due.
            if is_taken || self.due.all || self.due.every_time.is_none() {
                seen = version;
            }
        }
        Ok(End::Over)
    }

    /// What to do with the versions above one, up to the newest.
    fn choose(&self, seen: u64, newest: u64) -> Result<Choice, Error> {
        let Due { every, every_time, when, all, .. } = &self.due;
        let is_time = every_time.is_some_and(|time| self.begun.is_none_or(|begun| begun.elapsed() >= time));
        let is_any = is_time || self.due.is_any();
        if *all {
            let mut last = seen;
            for version in self.object.versions()?.into_iter().filter(|version| *version > seen) {
                if is_any || every.is_some_and(|every| version / every > last / every) {
                    return Ok(Choice::Take(version));
                }
                if when.is_some() && self.asked < Some(version) {
                    return Ok(Choice::Ask(version));
                }
                last = version;
            }
        } else {
            if let Some(multiple) = every.map(|every| newest / every * every).filter(|multiple| *multiple > seen) {
                let is_there = self.object.versions()?.contains(&multiple);
                return Ok(Choice::Take(if is_there { multiple } else { newest }));
            }
            if is_any {
                return Ok(Choice::Take(newest));
            }
            if when.is_some() && self.asked < Some(newest) {
                return Ok(Choice::Ask(newest));
            }
        }
        Ok(if every_time.is_some() { Choice::Later } else { Choice::Leave })
    }

    /// Since when nobody writes any more, where a version could not be read: that is tried at once when it begins.
    fn gone_since(&mut self, gone: Option<Instant>) -> Option<Instant> {
        let unread = self.unread.as_mut().filter(|_| !self.object.is_alive().unwrap_or(true))?;
        if gone.is_none() {
            unread.hasten();
        }
        gone.or_else(|| Some(Instant::now()))
    }

    /// A version that was tried often enough since nobody writes any more.
    fn given_up(&self) -> Option<u64> {
        self.unread.as_ref().filter(|unread| unread.is_given_up()).map(|unread| unread.version)
    }

    /// Puts a version together, if that is not asked first or the condition holds.
    fn take(&mut self, version: u64, is_asked: bool) -> Result<Outcome, Failure> {
        let begun = Instant::now();
        let is_last = self.unread.is_some() && !self.object.is_alive().unwrap_or(true);
        let mut asked = Ok(true);
        let when = self.due.when.as_ref().filter(|_| is_asked);
        let is_due = |published_ns: u64, attributes: &Attributes| {
            asked = when.map_or(Ok(true), |when| when.holds(version, published_ns, attributes));
            matches!(asked, Ok(true))
        };
        let taken = match self.assembly.take_if(version, longest_read(), is_due) {
            // A newer one may have a writer for them.
            Err(error @ Error::Lost { .. }) if is_unwritten(&error) => {
                self.note_unwritten(version, error);
                return Ok(Outcome::Left);
            }
            // Its writers went on before it was read, and there is a newer one; or somebody removed the object.
            Err(Error::Lost { .. } | Error::LostElsewhere { .. } | Error::Removed { .. }) => return Ok(Outcome::Left),
            Err(error) if may_pass(&error) => {
                self.fail(version, error, begun, is_last);
                return Ok(Outcome::Unread);
            }
            other => other?,
        };
        match asked {
            Ok(_) => self.is_decided |= is_asked,
            Err(error) if self.is_decided => drop(self.events.send(Event::Undecided { error: error.to_string() })),
            // It is most likely misspelt.
            Err(error) => return Err(error.into()),
        }
        if taken {
            self.begun = Some(begun);
        }
        // What is put together when it is to end is not saved.
        let was_unread = self.unread.as_ref().is_some_and(|unread| unread.version == version);
        if !self.ends() && (taken || was_unread) {
            self.forget_unread(version);
            self.obstacle.clear();
        }
        Ok(if taken { Outcome::Taken } else { Outcome::Left })
    }

    /// Says that a version could not be read, and keeps in mind why.
    fn fail(&mut self, version: u64, error: Error, begun: Instant, is_last: bool) {
        let former = self.forget_unread(version);
        let unread = Unread::new(former, version, error, begun, is_last);
        let (text, code) = (unread.error().to_string(), unread.error().code());
        self.obstacle.set(version, &text);
        let is_over = self.ends() || (unread.is_given_up() && self.due.follow.is_zero());
        let retry = (!is_over).then(|| unread.pause());
        drop(self.events.send(Event::Failed { version, error: text, code, retry }));
        self.unread = Some(unread);
    }

    /// Ends that a version could not be read, because this one could be, or is tried in its place: then the former is missed.
    fn forget_unread(&mut self, version: u64) -> Option<Unread> {
        let former = self.unread.take();
        if let Some(missed) = former.as_ref().map(|former| former.version).filter(|missed| *missed != version) {
            self.miss(missed);
        }
        former
    }

    /// Says that a version was to be saved and will not be.
    fn miss(&self, version: u64) {
        let (after, before) = (version.checked_sub(1), version.saturating_add(1));
        drop(self.events.send(Event::Missed { count: 1, after, before }));
    }

    /// Keeps in mind why a complete version could not be put together. Who follows one run after the other, and may not end for long, is told
    /// at once of a run of which nothing could be.
    fn note_unwritten(&mut self, version: u64, error: Error) {
        if self.unwritten.is_none() && self.assembly.newest().is_none() && !self.due.follow.is_zero() {
            let (code, error) = (error.code(), error.to_string());
            drop(self.events.send(Event::Failed { version, error, code, retry: None }));
        }
        self.unwritten = Some(error);
    }

    /// All writers have left, or somebody removed the object, of which nothing is left to save then.
    fn end(&mut self) -> Result<(), Failure> {
        match self.take_last() {
            Err(Failure::Object(Error::Removed { .. })) => Ok(()),
            other => other,
        }
    }

    /// Puts the last version together, if that is to be.
    fn take_last(&mut self) -> Result<(), Failure> {
        let newest = self.object.newest()?;
        if !self.due.at_end || newest <= self.object.description().initial || self.assembly.newest() >= Some(newest) {
            return Ok(());
        }
        while !self.ends() && self.given_up() != Some(newest) {
            if self.unread.as_ref().is_some_and(|unread| !unread.is_due(newest)) {
                std::thread::sleep(LOOK / 10);
                continue;
            }
            let is_there = self.object.versions()?.contains(&newest);
            match if is_there { self.take(newest, false)? } else { Outcome::Left } {
                Outcome::Taken => return Ok(()),
                Outcome::Unread => {}
                Outcome::Left => {
                    self.miss(newest);
                    return Ok(());
                }
            }
        }
        Ok(())
    }
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
