//! The observer that writes checkpoints: one thread looks at versions, others save those that are due.
//!
//! What the looking thread hands over is held, and stays whole whatever becomes of the producer.

mod event;
mod obstacle;
mod options;
mod shared;
mod unsaved;
mod watch;

pub use event::Event;
pub use obstacle::Obstacle;
pub use options::CheckpointerOptions;

use crate::status::Status;
use crate::{Error, Result, Saver};
use options::find;
use shared::{Command, Record, Shared};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use stillframe_kernel::thread::Thread;
use watch::Watch;

/// Versions saved at once: more share the same disk.
const SAVERS_MAX: usize = 4;

impl CheckpointerOptions {
    /// Begins to save versions of a region or group into a directory, in threads of this process.
    ///
    /// The directory is made if it is not there, and is this checkpointer's alone until it ends. Without
    /// [`wait`](Self::wait) the region has to be there; with it, the checkpointer waits for it in its threads.
    ///
    /// # Errors
    /// [`Error::BadOption`]; [`Error::Locked`] if somebody else writes into the directory; [`Error::ReadOnly`]; errors of
    /// the engine, such as that there is no such region.
    pub fn start(self, name: &str, to: impl AsRef<Path>) -> Result<Checkpointer> {
        self.check()?;
        let target = find(&self, name)?;
        if target.is_none() && self.wait.is_zero() {
            return Err(stillframe::Error::NoRegion { region: name.into(), dir: self.regions }.into());
        }
        let threads = if self.all { self.held.min(SAVERS_MAX) } else { 1 };
        let saver = Saver::open(to.as_ref(), self.save.clone())?;
        let record = Record::new(name, self.obstacle.clone());
        let shared = Arc::new(Shared {
            name: name.into(),
            dir: to.as_ref().into(),
            options: self,
            saver: Mutex::new(Arc::new(saver)),
            record: Mutex::new(record),
            changed: Condvar::new(),
        });
        shared.weigh_session();
        shared.look_at_store();
        // Whoever hears of the first version finds a status.
        let status = shared.record().status();
        shared.write(&status);
        let watch = Watch::new(shared.clone(), target);
        let mut joins = vec![spawn("looks", &shared, move |shared| {
            let ended = watch.run();
            shared.end_watch(ended);
        })?];
        for _ in 0..threads {
            joins.push(spawn("saves", &shared, |shared| {
                shared.step_back();
                shared.save_all();
            })?);
        }
        joins.push(spawn("status", &shared, |shared| {
            shared.step_back();
            shared.report();
        })?);
        Ok(Checkpointer { shared, joins, generation: stillframe::fork_generation() })
    }
}

fn spawn(what: &str, shared: &Arc<Shared>, work: impl FnOnce(&Arc<Shared>) + Send + 'static) -> Result<Thread> {
    let shared = shared.clone();
    let name = format!("checkpoint {what}");
    let started = Thread::start(&name, move || {
        let alarm = Alarm(shared);
        work(&alarm.0);
    });
    started.map_err(|error| Error::io("clone", Path::new("/proc/self/task"), error))
}

/// Ends the checkpointer when one of its threads panics, rather than let the others wait for it.
struct Alarm(Arc<Shared>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut record = self.0.record();
            record.command = Command::Cancel;
            record.watching = false;
            record.saving.clear();
            record.failed = true;
            record.error = Some("a thread of the checkpointer panicked: please report what it said".into());
            self.0.changed.notify_all();
        }
    }
}

/// A running checkpointer. Dropped, it ends at once, and what it was saving is not saved; see [`stop`](Checkpointer::stop).
///
/// It does not survive `fork`: a child has none of its threads, and must not use it. It goes on in the parent.
pub struct Checkpointer {
    shared: Arc<Shared>,
    joins: Vec<Thread>,
    /// Differs in forked children.
    generation: u32,
}

impl std::fmt::Debug for Checkpointer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpointer")
            .field("name", &self.shared.name)
            .field("dir", &self.shared.dir)
            .finish_non_exhaustive()
    }
}

impl Checkpointer {
    /// Options for saving versions as they come.
    pub fn options() -> CheckpointerOptions {
        CheckpointerOptions::new()
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// What it has done, and is doing.
    pub fn status(&self) -> Status {
        self.shared.record().status()
    }

    /// The newest version that is safe; `None` if none is.
    pub fn newest_safe(&self) -> Option<u64> {
        self.shared.record().safe.last().copied()
    }

    /// Waits until a version is safe, at most `timeout`, and says whether it is, or was before the keep rule deleted it. The
    /// answer is no as soon as the checkpointer has ended without it.
    ///
    /// A version that is left out never is safe: to know that everything *up to* a version is, see
    /// [`wait_safe_from`](Self::wait_safe_from).
    ///
    /// # Errors
    /// As [`is_safe`](crate::is_safe).
    pub fn wait_safe(&self, version: u64, timeout: Duration) -> Result<bool> {
        let is_it = |record: &Record| (record.safe.contains(&version) || record.done.contains(&version)).then_some(());
        Ok(self.shared.wait(timeout, is_it).is_some())
    }

    /// Waits until a version not below `version` is safe, at most `timeout`, and says which. `None` if the time is over, or
    /// the checkpointer has ended without one.
    ///
    /// # Errors
    /// As [`is_safe`](crate::is_safe).
    pub fn wait_safe_from(&self, version: u64, timeout: Duration) -> Result<Option<u64>> {
        Ok(self.shared.wait(timeout, |record| record.safe.last().copied().filter(|newest| *newest >= version)))
    }

    /// Whether it has ended: the producer is gone, or something went wrong that cannot get better.
    pub fn has_ended(&self) -> bool {
        self.shared.record().is_over()
    }

    /// Asks it to take no more versions, and to end when those that it holds are safe. Returns at once.
    pub fn finish(&self) {
        self.shared.command(Command::Finish);
    }

    /// Asks it to end now: what is being saved is not saved, and leaves nothing behind. Returns at once.
    pub fn cancel(&self) {
        self.shared.command(Command::Cancel);
    }

    /// Waits until it has ended by itself, or by [`finish`](Self::finish) or [`cancel`](Self::cancel), and returns its last
    /// status.
    ///
    /// # Errors
    /// What ended it, if that was an error. What went wrong with single versions stands in the status.
    pub fn join(mut self) -> Result<Status> {
        self.end()
    }

    /// Takes no more versions, with [`at_end`](CheckpointerOptions::at_end) but the newest, waits until those that are held
    /// are safe, and returns the last status.
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub fn stop(mut self) -> Result<Status> {
        self.shared.command(Command::Stop);
        self.end()
    }

    fn end(&mut self) -> Result<Status> {
        for join in std::mem::take(&mut self.joins) {
            // A panic has been told in the status.
            join.join();
        }
        let mut record = self.shared.record();
        match record.fatal.take() {
            Some(error) => Err(error),
            None => Ok(record.status()),
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        if self.generation != stillframe::fork_generation() {
            // A forked child has no threads that could be joined, and those of its parent are none of its business.
            return std::mem::forget(std::mem::take(&mut self.joins));
        }
        self.shared.command(Command::Cancel);
        let _ = self.end();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Saved, State};
    use stillframe::{AnySnapshot, Observer, Polite, Region};

    pub(super) fn shared(options: CheckpointerOptions, to: &Path) -> Shared {
        let saver = Saver::open(to, options.save.clone()).unwrap();
        Shared {
            name: "r".into(),
            dir: to.into(),
            record: Mutex::new(Record::new("r", options.obstacle.clone())),
            options,
            saver: Mutex::new(Arc::new(saver)),
            changed: Condvar::new(),
        }
    }

    #[test]
    fn the_last_version_of_a_producer_that_is_gone_is_saved_whatever_the_share() {
        for options in [
            Checkpointer::options(),
            Checkpointer::options().every(7),
            Checkpointer::options().every_time(Duration::from_nanos(1)),
            Checkpointer::options().when("true").unwrap(),
            Checkpointer::options().all(true),
        ] {
            let dir = tempfile::Builder::new().prefix("checkpointer-").tempdir_in("/dev/shm").unwrap();
            let (regions, to) = (dir.path().join("regions"), dir.path().join("store"));
            let mut region = Region::options().dir(&regions).create("r").unwrap();
            let array = region.array::<f64>("u", &[1 << 16]).unwrap();
            region.slice_mut(&array).fill(1.0);
            region.publish(7).commit().unwrap();
            region.close().unwrap();
            // At a byte each second more is owed than any test waits for, however idle the machine is.
            let polite = Polite::new().bytes_per_s(1).keep_class();
            let target = Observer::options().dir(&regions).polite(polite).open_any("r").unwrap();
            let mut bytes = vec![0; 8 << 16];
            target.newest().unwrap().ranks()[0].read("u", 0, &mut bytes).unwrap();
            assert!(!target.pause(Some(Duration::ZERO)));
            let shared = Arc::new(shared(options.dir(&regions), &to));
            let watch = Watch::new(shared.clone(), Some(target));
            std::thread::scope(|scope| {
                scope.spawn(|| shared.save_all());
                scope.spawn(|| {
                    let ended = watch.run();
                    shared.end_watch(ended)
                });
                let begin = std::time::Instant::now();
                while shared.record().status().safe != [7] && begin.elapsed() < Duration::from_secs(60) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let safe = shared.record().status().safe;
                shared.command(Command::Cancel);
                assert_eq!(safe, [7], "{:?}", shared.options);
            });
        }
    }

    /// A version that could not be saved, and one before it that was, later: as where several are saved at once.
    fn end_with_one_lost(all: bool) -> Status {
        let dir = tempfile::Builder::new().prefix("checkpointer-").tempdir_in("/dev/shm").unwrap();
        let (regions, to) = (dir.path().join("regions"), dir.path().join("store"));
        let mut region = Region::options().dir(&regions).keep(3).create("r").unwrap();
        region.array::<f64>("u", &[4]).unwrap();
        let options = Checkpointer::options().dir(&regions).all(all);
        let shared = shared(options, &to);
        let mut hold = |version| {
            region.publish(version).commit().unwrap();
            AnySnapshot::from(Observer::options().dir(&regions).open("r").unwrap().newest().unwrap())
        };
        let (before, last) = (hold(1), hold(2));
        let full = Error::NoSpace { dir: to, version: 2, needed_bytes: 1, free_bytes: Some(0), lacks_inodes: false };
        shared.record_outcome(last, Err(full));
        let saved: Saved = shared.save(&before).unwrap();
        shared.record_outcome(before, Ok(saved));
        shared.end_watch(Ok(()));
        shared.record().status()
    }

    #[test]
    fn a_version_that_does_not_come_is_not_saved_as_long_as_that_lasts() {
        let dir = tempfile::Builder::new().prefix("checkpointer-").tempdir_in("/dev/shm").unwrap();
        let obstacle = Obstacle::default();
        let shared = shared(Checkpointer::options().obstacle(&obstacle), &dir.path().join("store"));
        shared.end_watch(Ok(()));
        assert_eq!(shared.record().status().state, State::Ended);
        obstacle.set(7, "nobody answers");
        let status = shared.record().status();
        assert_eq!((status.state, &status.unsaved[..]), (State::Failed, &[7][..]));
        assert_eq!(status.error.as_deref(), Some("version 7 is not saved: nobody answers"));
        obstacle.remove(7);
        let status = shared.record().status();
        assert_eq!((status.state, &status.unsaved[..], status.error), (State::Ended, &[][..], None));
    }

    #[test]
    fn a_version_that_was_late_is_not_safe_before_it_is_saved() {
        let dir = tempfile::Builder::new().prefix("checkpointer-").tempdir_in("/dev/shm").unwrap();
        let (regions, to) = (dir.path().join("regions"), dir.path().join("store"));
        let mut region = Region::options().dir(&regions).create("r").unwrap();
        region.array::<f64>("u", &[4]).unwrap();
        let obstacle = Obstacle::default();
        let events = Arc::new(Mutex::new(Vec::new()));
        let heard = events.clone();
        let options = Checkpointer::options().dir(&regions).obstacle(&obstacle);
        let shared = shared(options.listen(move |event| heard.lock().unwrap().push(event.clone())), &to);
        obstacle.set(6, "nobody answers");
        obstacle.set(7, "nobody answers");
        // It is put together, and nobody holds it yet.
        region.publish(7).commit().unwrap();
        shared.end_watch(Ok(()));
        assert_eq!(shared.record().status().unsaved, [6, 7]);
        let held = AnySnapshot::from(Observer::options().dir(&regions).open("r").unwrap().newest().unwrap());
        let saved = shared.save(&held).unwrap();
        shared.record_outcome(held, Ok(saved));
        let status = shared.record().status();
        assert_eq!((status.state, &status.unsaved[..], status.missed), (State::Ended, &[][..], 1));
        assert!(events.lock().unwrap().contains(&Event::missed(6)));
    }

    #[test]
    fn an_error_is_that_of_the_newest_version_that_is_not_saved() {
        let dir = tempfile::Builder::new().prefix("checkpointer-").tempdir_in("/dev/shm").unwrap();
        let (regions, to) = (dir.path().join("regions"), dir.path().join("store"));
        let mut region = Region::options().dir(&regions).create("r").unwrap();
        region.array::<f64>("u", &[4]).unwrap();
        let obstacle = Obstacle::default();
        let shared = shared(Checkpointer::options().dir(&regions).obstacle(&obstacle), &to);
        region.publish(2).commit().unwrap();
        let held = AnySnapshot::from(Observer::options().dir(&regions).open("r").unwrap().newest().unwrap());
        let full = Error::NoSpace { dir: to, version: 2, needed_bytes: 1, free_bytes: Some(0), lacks_inodes: false };
        obstacle.set(1, "nobody answers");
        obstacle.set(2, "nobody answers");
        shared.record_outcome(held, Err(full));
        let status = shared.record().status();
        assert_eq!(status.unsaved, [1, 2]);
        assert!(status.error.unwrap().starts_with("version 2 is not saved: ") && !obstacle.has(2));
        obstacle.set(3, "nobody answers");
        assert_eq!(shared.record().status().error.unwrap(), "version 3 is not saved: nobody answers");
    }

    #[test]
    fn a_lost_last_version_is_an_error_whatever_was_saved_after_it() {
        for all in [false, true] {
            let status = end_with_one_lost(all);
            assert_eq!((status.state, &status.unsaved[..], &status.safe[..]), (State::Failed, &[2][..], &[1][..]));
            assert!(status.error.unwrap().starts_with("version 2 is not saved: "));
        }
    }
}
