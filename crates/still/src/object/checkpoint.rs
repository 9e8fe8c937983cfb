//! Versions of an object for `still checkpoint`, each put together when it is due.
//!
//! The checkpointer saves versions of a region. A thread makes one of the object, in memory of this process, of the versions that
//! are due and of no others.

use super::find;
use crate::context::Context;
use crate::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stillframe::Arena;
use stillframe_kernel::priority;
use stillframe_object::{Assembly, Error, Object};

/// Longest wait before the thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// How long there may be no writer before that is the end: writers may leave and attach anew between two versions.
const GRACE: Duration = Duration::from_secs(1);

/// How long a version may take until all of it was read: its writers have published it.
const READ: Duration = Duration::from_secs(60);

/// Which versions are due.
#[derive(Debug, Clone)]
pub struct Due {
    /// Multiples of this, or the next if that one went.
    pub every: Option<u64>,
    /// One so long after the last was begun.
    pub every_time: Option<Duration>,
    /// Each complete one, in turn.
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
    /// Whether any rule says which; without one all are, as they come.
    fn has_rule(&self) -> bool {
        self.every.is_some() || self.every_time.is_some() || self.at_end
    }
}

/// The thread that puts versions together.
#[derive(Debug)]
pub struct Follower {
    arena: Arena,
    /// By which name the region is found in the arena.
    name: String,
    /// The version that was saved, or given up, last.
    done: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Follower {
    /// Begins to follow the object of a name, if that is one.
    pub fn begin(context: &Context, name: &str, due: Due) -> Result<Option<Follower>, Failure> {
        let Some(object) = find(context, name)? else { return Ok(None) };
        // Two are being saved or wait for it, and one is being put together.
        let assembly = Assembly::new(&object, if due.all { 8 } else { 2 })?;
        let (arena, name) = (assembly.arena().clone(), object.name().to_owned());
        let (done, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let follow = Follow { object, assembly, due, done: done.clone(), ends: ends.clone(), begun: None };
        let thread = std::thread::Builder::new().name("still-object".into()).spawn(move || follow.run())?;
        Ok(Some(Follower { arena, name, done, ends, thread: Some(thread) }))
    }

    /// Where the region lies.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// What the region is called there.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Says that a version was saved, or could not be.
    pub fn finish(&self, version: u64) {
        self.done.fetch_max(version, Ordering::AcqRel);
    }

    /// Puts no further versions together.
    pub fn stop(&self) {
        self.ends.store(true, Ordering::Release);
    }

    /// Waits for the end of the thread, and says what ended it but the end of the object.
    pub fn join(mut self) -> Result<(), Failure> {
        self.stop();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => Ok(ended?),
            None => Ok(()),
            Some(Err(_)) => {
                Err(Failure::Problem("the thread that follows the object ended by a fault; report it".into()))
            }
        }
    }
}

struct Follow {
    object: Object,
    assembly: Assembly,
    due: Due,
    done: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    /// When the last version was begun.
    begun: Option<Instant>,
}

impl Follow {
    fn run(mut self) -> Result<(), Error> {
        self.follow()?;
        // The region ends with this, and nobody saves what he has not seen.
        while self.is_busy() && !self.ends.load(Ordering::Acquire) {
            std::thread::sleep(LOOK / 10);
        }
        Ok(())
    }

    /// Whether the version that was put together last is still to be saved.
    fn is_busy(&self) -> bool {
        self.assembly.newest().is_some_and(|newest| newest > self.done.load(Ordering::Acquire))
    }

    fn follow(&mut self) -> Result<(), Error> {
        // Without the permission it goes on as it is.
        let _ = priority::step_back(self.due.nice);
        let mut seen = self.object.description().initial;
        let mut gone: Option<Instant> = None;
        while !self.ends.load(Ordering::Acquire) {
            let newest = match self.object.wait_newer(seen, LOOK) {
                Ok(newest) => newest,
                Err(Error::NoNewer { .. }) => {
                    gone = gone.filter(|_| !self.object.is_alive().unwrap_or(true));
                    continue;
                }
                Err(Error::Ended { .. } | Error::Lost { .. }) => {
                    if gone.get_or_insert_with(Instant::now).elapsed() < self.due.follow.max(GRACE) {
                        std::thread::sleep(LOOK);
                        continue;
                    }
                    return self.end();
                }
                Err(error) => return Err(error),
            };
            gone = None;
            // Nothing is put together that nobody saves yet.
            let too_early = self.due.every_time.zip(self.begun).is_some_and(|(time, begun)| begun.elapsed() < time);
            if !self.due.all && self.is_busy() || too_early {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            }
            match self.choose(seen, newest)? {
                Some(version) => {
                    self.take(version)?;
                    seen = version;
                    if self.due.once {
                        return Ok(());
                    }
                }
                None => seen = newest,
            }
        }
        Ok(())
    }

    /// The version to take of those above one, up to the newest; `None` if none is due.
    fn choose(&self, seen: u64, newest: u64) -> Result<Option<u64>, Error> {
        if self.due.all {
            return Ok(self.object.versions()?.into_iter().find(|version| *version > seen));
        }
        let multiple = self.due.every.map(|every| newest / every * every).filter(|multiple| *multiple > seen);
        if let Some(multiple) = multiple {
            let is_there = self.object.versions()?.contains(&multiple);
            return Ok(Some(if is_there { multiple } else { newest }));
        }
        let is_due = self.due.every_time.is_some() || !self.due.has_rule() || self.due.once && self.due.every.is_none();
        Ok(is_due.then_some(newest))
    }

    fn take(&mut self, version: u64) -> Result<(), Error> {
        self.begun = Some(Instant::now());
        match self.assembly.take(version, READ) {
            // Its writers went on before it was read, and there is a newer one.
            Err(Error::Lost { .. }) => Ok(()),
            other => other,
        }
    }

    /// All writers have left.
    fn end(&mut self) -> Result<(), Error> {
        let newest = self.object.newest()?;
        if self.due.at_end && newest > self.object.description().initial && self.assembly.newest() < Some(newest) {
            self.take(newest)?;
        }
        Ok(())
    }
}
