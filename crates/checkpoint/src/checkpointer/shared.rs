//! What the threads of a checkpointer share, and the saving itself.

use super::event::Event;
use super::obstacle::Obstacle;
use super::options::CheckpointerOptions;
use super::unsaved::{Asked, Unsaved};
use crate::directory::Directory;
use crate::status::{Saving, State, Status};
use crate::store::{checkpoint_of, named};
use crate::{Error, Progress, Result, Saved, Saver, SetAside};
use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use stillframe::{AnySnapshot, PAGE_BYTES, Snapshot};
use stillframe_kernel::{priority, unix_ns};

/// How often the status file is written while something is being saved.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);
/// How long it is left alone after it was written.
const STATUS_PAUSE: Duration = Duration::from_millis(20);

/// What the threads are to do, each more urgent than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Command {
    Run,
    /// End with the newest version, if the end is a rule.
    Stop,
    /// Take no more versions.
    Finish,
    /// Drop what is at hand.
    Cancel,
}

/// What the threads have in common: what stays, and the record of what changes.
pub(super) struct Shared {
    pub(super) name: String,
    pub(super) dir: PathBuf,
    pub(super) options: CheckpointerOptions,
    /// Locked only by those who may wait for the file system.
    pub(super) saver: Mutex<Arc<Saver>>,
    pub(super) record: Mutex<Record>,
    pub(super) changed: Condvar,
}

/// What the threads tell each other.
pub(super) struct Record {
    pub(super) status: Status,
    pub(super) command: Command,
    /// Whether versions may still come.
    pub(super) watching: bool,
    pub(super) queue: VecDeque<AnySnapshot>,
    pub(super) saving: Vec<Task>,
    /// Versions that are safe, as the directory had them.
    pub(super) safe: BTreeSet<u64>,
    /// Versions that were saved here, some of them deleted since.
    pub(super) done: BTreeSet<u64>,
    pub(super) unsaved: Unsaved,
    pub(super) obstacle: Obstacle,
    /// What is wrong, if it is not that a version is not saved.
    pub(super) error: Option<String>,
    pub(super) fatal: Option<Error>,
    /// Whether an error ended it.
    pub(super) failed: bool,
}

/// A version that is being saved.
pub(super) struct Task {
    pub(super) saving: Saving,
    pub(super) cost_bytes: u64,
}

impl Record {
    pub(super) fn new(name: &str, obstacle: Obstacle) -> Record {
        Record {
            status: Status::new(name),
            command: Command::Run,
            watching: true,
            queue: VecDeque::new(),
            saving: Vec::new(),
            safe: BTreeSet::new(),
            done: BTreeSet::new(),
            unsaved: Unsaved::default(),
            obstacle,
            error: None,
            fatal: None,
            failed: false,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.saving.is_empty()
    }

    pub(super) fn is_over(&self) -> bool {
        !self.watching && self.is_idle()
    }

    pub(super) fn held(&self) -> usize {
        self.queue.len() + self.saving.len() + self.unsaved.held().len()
    }

    pub(super) fn held_bytes(&self) -> u64 {
        let queued = self.queue.iter().chain(self.unsaved.held()).map(cost_bytes).sum::<u64>();
        queued + self.saving.iter().map(|task| task.cost_bytes).sum::<u64>()
    }

    pub(super) fn status(&self) -> Status {
        let mut status = self.status.clone();
        status.safe = self.safe.iter().copied().collect();
        status.newest_safe = self.safe.last().copied();
        status.saving = self.saving.iter().map(|task| task.saving.clone()).collect();
        let unsaved = self.unsaved.versions();
        let (hindered, why) = self.obstacle.state();
        // The error is that of the newest version.
        let is_newer = hindered.last() > unsaved.last();
        let (newer, older) = if is_newer { (why, self.unsaved.error()) } else { (self.unsaved.error(), why) };
        let fatal = self.error.clone().filter(|_| self.failed).or_else(|| self.obstacle.fatal());
        status.error = fatal.or(newer).or(older).or(self.error.clone());
        let all: BTreeSet<u64> = unsaved.into_iter().chain(hindered).collect();
        let is_unsafe = self.failed || !all.is_empty() || self.obstacle.has_failed();
        status.unsaved = all.into_iter().collect();
        status.missed += self.obstacle.missed();
        status.updated_ns = unix_ns();
        status.state = match (self.is_over(), is_unsafe) {
            (false, _) => State::Running,
            (true, false) => State::Ended,
            (true, true) => State::Failed,
        };
        status
    }
}

impl Shared {
    pub(super) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    pub(super) fn tell(&self, event: Event) {
        if let Some(listener) = &self.options.listener {
            listener(&event);
        }
    }

    pub(super) fn command(&self, command: Command) {
        let mut record = self.record();
        record.command = record.command.max(command);
        self.changed.notify_all();
    }

    /// Sleeps until something changes, at most so long.
    pub(super) fn sleep<'a>(&self, record: MutexGuard<'a, Record>, time: Duration) -> MutexGuard<'a, Record> {
        self.changed.wait_timeout(record, time).unwrap_or_else(|poison| poison.into_inner()).0
    }

    pub(super) fn wait<T>(&self, timeout: Duration, look: impl Fn(&Record) -> Option<T>) -> Option<T> {
        let begin = Instant::now();
        let mut record = self.record();
        loop {
            let found = look(&record);
            let left = timeout.saturating_sub(begin.elapsed());
            if found.is_some() || record.is_over() || left.is_zero() {
                return found;
            }
            record = self.sleep(record, left);
        }
    }

    pub(super) fn end_watch(&self, ended: Result<()>) {
        let mut record = self.record();
        record.watching = false;
        // Nobody tries them again.
        record.unsaved.take_held();
        record.obstacle.give_up_pending(record.unsaved.error().as_deref());
        if let Err(error) = ended {
            record.failed = true;
            record.error = Some(error.to_string());
            record.fatal = Some(error);
        }
        self.changed.notify_all();
    }

    /// Reads which versions are safe. Those known are not read again, unless they went.
    pub(super) fn look_at_store(&self) {
        // What cannot be read now will be an error of the next save.
        let Ok(named) = named(&self.dir) else { return };
        let known = self.record().safe.clone();
        let safe =
            named.into_iter().filter(|version| known.contains(version) || checkpoint_of(&self.dir, *version).is_some());
        let safe = safe.collect();
        self.record().safe = safe;
        self.changed.notify_all();
    }

    /// Lets other sessions have the processors first, where the checkpointer has its own.
    pub(super) fn weigh_session(&self) {
        if self.options.own_session && self.options.nice > 0 {
            // Where it is forbidden, versions are saved all the same.
            let _ = priority::weigh_session(self.options.nice);
        }
    }

    /// Lets others have the processors first, from this thread and those that it starts.
    pub(super) fn step_back(&self) {
        if self.options.nice > 0 {
            // Where it is forbidden, versions are saved all the same.
            let _ = priority::step_back(self.options.nice);
        }
    }

    /// Saves what is handed over, until nothing more will be.
    pub(super) fn save_all(&self) {
        loop {
            let mut record = self.record();
            let held = loop {
                if record.command == Command::Cancel {
                    let dropped = std::mem::take(&mut record.queue);
                    dropped.iter().for_each(|held| record.unsaved.drop_asked(Asked::of(held)));
                }
                if let Some(held) = record.queue.pop_front() {
                    break held;
                }
                if !record.watching {
                    self.changed.notify_all();
                    return;
                }
                record = self.sleep(record, Duration::MAX / 4);
            };
            let (version, bytes) = (held.version(), bytes(&held));
            record
                .saving
                .push(Task { saving: Saving { version, bytes, bytes_done: 0 }, cost_bytes: cost_bytes(&held) });
            drop(record);
            self.changed.notify_all();
            self.tell(Event::Begun { version, bytes });
            let saved = self.save(&held);
            self.record_outcome(held, saved);
        }
    }

    /// Takes note of what became of a version.
    pub(super) fn record_outcome(&self, held: AnySnapshot, saved: Result<Saved>) {
        let (version, asked) = (held.version(), Asked::of(&held));
        // One that was asked for by itself is held until it is safe. Else the hold ends before anybody learns that there is
        // room for another.
        let held = (self.options.all && saved.is_err()).then_some(held);
        if saved.is_ok() {
            self.look_at_store();
        }
        if let Some(SetAside { versions, to }) = saved.as_ref().ok().and_then(|saved| saved.set_aside.clone()) {
            self.tell(Event::SetAside { versions, to });
        }
        let mut record = self.record();
        record.saving.retain(|task| task.saving.version != version);
        let mut missed = Vec::new();
        if saved.is_err() {
            // What is in the way is known here from now on.
            let is_given_up = held.is_none() || !record.watching;
            record.obstacle.fail(version, is_given_up);
        }
        let event = match saved {
            Ok(saved) => {
                record.done.insert(version);
                record.status.saved += u64::from(!saved.already);
                record.status.written_bytes += saved.written_bytes;
                record.status.linked_bytes += saved.linked_bytes;
                record.status.missed += record.unsaved.save(asked, !self.options.all);
                missed = record.obstacle.settle(version, self.options.all);
                record.error = None;
                Some(Event::Saved(saved))
            }
            Err(Error::Cancelled { .. }) => {
                record.unsaved.drop_asked(asked);
                None
            }
            Err(error) => {
                let held = held.filter(|_| record.watching);
                let pause = record.unsaved.fail(asked, error.to_string(), held);
                let retry = (record.command == Command::Run && record.watching && !self.options.once).then_some(pause);
                Some(Event::Failed { version, error: error.to_string(), code: error.code(), retry })
            }
        };
        drop(record);
        self.changed.notify_all();
        if let Some(event) = event {
            self.tell(event);
        }
        missed.into_iter().for_each(|version| self.tell(Event::missed(version)));
    }

    pub(super) fn save(&self, held: &AnySnapshot) -> Result<Saved> {
        let version = held.version();
        let saver = self.saver()?;
        let progress = |progress: Progress| {
            let mut record = self.record();
            if let Some(task) = record.saving.iter_mut().find(|task| task.saving.version == version) {
                (task.saving.bytes, task.saving.bytes_done) = (progress.bytes, progress.bytes_done);
            }
            if record.command == Command::Cancel {
                saver.cancel();
            }
        };
        saver.save(held, &progress)
    }

    /// The saver of the directory, which is made again if it was removed: a simulation that goes on needs its checkpoints
    /// more than an empty place.
    pub(super) fn saver(&self) -> Result<Arc<Saver>> {
        let mut saver = self.saver.lock().unwrap_or_else(|poison| poison.into_inner());
        let Some(renewed) = saver.renew()? else { return Ok(saver.clone()) };
        *saver = Arc::new(renewed);
        let renewed = saver.clone();
        drop(saver);
        self.look_at_store();
        self.tell(Event::Remade);
        Ok(renewed)
    }

    /// Writes a status, and says whether that went well. The directory may be another one of the same name by now.
    pub(super) fn write(&self, status: &Status) -> bool {
        let store = self.options.save.guard().and_then(|guard| Directory::open(&self.dir, guard));
        store.is_ok_and(|store| status.write(&store).is_ok())
    }

    /// Keeps the status file up to date, until all is over.
    pub(super) fn report(&self) {
        let mut written: Option<Status> = None;
        loop {
            let record = self.record();
            let (status, is_over) = (record.status(), record.is_over());
            drop(record);
            let is_news = |old: &Status| Status { updated_ns: status.updated_ns, ..old.clone() } != status;
            // A directory that cannot be written to is an error of the next save, and not of this.
            if written.as_ref().is_none_or(is_news) && self.write(&status) {
                written = Some(status);
            }
            if is_over {
                return;
            }
            // Much may happen at once, and to write it down at each change would cost more than it tells.
            std::thread::sleep(STATUS_PAUSE);
            let record = self.record();
            if !record.is_over() {
                drop(self.sleep(record, STATUS_INTERVAL));
            }
        }
    }
}

/// Bytes of all variables.
fn bytes(held: &AnySnapshot) -> u64 {
    held.ranks().iter().flat_map(Snapshot::variables).map(|variable| variable.bytes as u64).sum()
}

/// Bytes of memory that holding a version takes beside the one after it, about: of the pages that were written for it.
fn cost_bytes(held: &AnySnapshot) -> u64 {
    held.ranks().iter().map(|rank| rank.dirty_and_total_pages().0 * PAGE_BYTES as u64).sum()
}
