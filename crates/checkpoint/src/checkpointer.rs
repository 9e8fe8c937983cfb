//! The observer that writes checkpoints: one thread looks at versions, others save those that are due.
//!
//! The looking thread never touches the store, so that a file system that hangs stops saving and nothing else. What it
//! hands over is held, and stays whole whatever becomes of the producer.

use crate::earlier::Earlier;
use crate::schedule::Schedule;
use crate::status::{self, Saving, State, Status, good, named};
use crate::subject::{Held, Marks, Run, Subject};
use crate::when::When;
use crate::{Error, Progress, Result, SaveOptions, Saved, Saver};
use std::collections::{BTreeSet, VecDeque};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stillframe::inspect;

/// Longest sleep before the looking thread asks whether it is to end, or the producer is gone.
const TICK: Duration = Duration::from_millis(50);
/// How often the status file is written while something is being saved.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);
/// How long it is left alone after it was written.
const STATUS_PAUSE: Duration = Duration::from_millis(20);
/// How long nothing is tried after a save that failed; twice as long after each further one, up to the other.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// How long a last version that could not be saved waits to be tried once more.
const LAST_RETRY_MAX: Duration = Duration::from_secs(5);
/// Versions held at once if all are to be saved, unless asked for otherwise.
const HELD: usize = 8;
/// Versions saved at once: more share the same disk.
const SAVERS_MAX: usize = 4;

/// What a checkpointer tells while it works.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// It looks at the region, or at the group of so many ranks.
    Attached {
        /// Number of ranks, if it is a group.
        ranks: Option<usize>,
        /// The newest version.
        newest: Option<u64>,
    },
    /// It begins to save a version.
    Begun {
        /// The version.
        version: u64,
        /// Bytes of all its variables.
        bytes: u64,
    },
    /// A version is safe.
    Saved(Saved),
    /// Versions that were to be saved went before they could be held.
    Missed {
        /// How many.
        count: u64,
        /// The version before them.
        after: Option<u64>,
        /// The version after them.
        before: u64,
    },
    /// A version could not be saved.
    Failed {
        /// The version.
        version: u64,
        /// Why, and what to do.
        error: String,
        /// The number of the error.
        code: i32,
        /// How long nothing is tried; `None` if nothing will be.
        retry: Option<Duration>,
    },
    /// The condition could not be decided for a version, which is taken as one for which it does not hold.
    Undecided {
        /// Why.
        error: String,
    },
    /// A rank of the group is gone, and nothing new can come until it is back.
    RankGone {
        /// Which, and how far it came.
        error: String,
    },
    /// The producer is gone.
    Gone {
        /// How long the next one is waited for.
        follow: Duration,
    },
    /// Another producer of the name has begun.
    NewRun {
        /// The newest version it has.
        newest: Option<u64>,
    },
    /// Checkpoints of an earlier run, whose numbers are given again, were moved.
    SetAside {
        /// The versions.
        versions: Vec<u64>,
        /// Where they are.
        to: PathBuf,
    },
    /// The directory was removed, and was made again.
    Remade,
}

type Listener = Box<dyn Fn(&Event) + Send + Sync>;

/// Options for saving versions as they come.
pub struct CheckpointerOptions {
    regions: PathBuf,
    every_versions: Option<u64>,
    every: Option<Duration>,
    when: Option<When>,
    at_end: bool,
    once: bool,
    all: bool,
    held: usize,
    held_bytes: Option<u64>,
    save: SaveOptions,
    wait: Duration,
    follow: Duration,
    listener: Option<Listener>,
}

impl std::fmt::Debug for CheckpointerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("CheckpointerOptions");
        shown.field("regions", &self.regions).field("every_versions", &self.every_versions).field("every", &self.every);
        shown.field("when", &self.when).field("at_end", &self.at_end).field("once", &self.once).field("all", &self.all);
        shown.field("held", &self.held).field("held_bytes", &self.held_bytes).field("save", &self.save);
        shown.field("wait", &self.wait).field("follow", &self.follow).finish_non_exhaustive()
    }
}

impl Default for CheckpointerOptions {
    fn default() -> Self {
        CheckpointerOptions {
            regions: inspect::root(),
            every_versions: None,
            every: None,
            when: None,
            at_end: false,
            once: false,
            all: false,
            held: HELD,
            held_bytes: None,
            save: SaveOptions::default(),
            wait: Duration::ZERO,
            follow: Duration::ZERO,
            listener: None,
        }
    }
}

impl CheckpointerOptions {
    /// Options that ask for nothing: every version is due.
    pub fn new() -> CheckpointerOptions {
        CheckpointerOptions::default()
    }

    /// The directory that holds the regions; by default `$STILLFRAME_DIR`, else `/dev/shm/stillframe-<uid>`.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.regions = dir.into();
        self
    }

    /// Versions whose number is a multiple of this are due, and if such a one was not published or went, the next.
    ///
    /// Of the rules (this, [`every`](Self::every), [`when`](Self::when), [`at_end`](Self::at_end)) any one is enough; with
    /// none, every version is due.
    pub fn every_versions(mut self, versions: u64) -> Self {
        self.every_versions = Some(versions);
        self
    }

    /// A version is due so long after the last one was begun to be saved; the first one at once.
    pub fn every(mut self, interval: Duration) -> Self {
        self.every = Some(interval);
        self
    }

    /// Versions for which a condition on their attributes holds are due, such as `step % 100 == 0 && residual < 1e-3`.
    ///
    /// It knows the version's attributes by their names (of a group, those of rank 0), `version`, `published_ns`, and `age`,
    /// the seconds since it was published; `attributes["wall time"]` is for names that are no identifiers. Whole and real
    /// numbers mix. A name that the first version does not have ends the checkpointer with an error.
    ///
    /// # Errors
    /// [`Error::Expression`], which marks the place.
    pub fn when(mut self, condition: &str) -> Result<Self> {
        self.when = Some(When::parse(condition)?);
        Ok(self)
    }

    /// The last version is due when the producer is gone, and the newest when the checkpointer is
    /// [stopped](Checkpointer::stop).
    pub fn at_end(mut self, at_end: bool) -> Self {
        self.at_end = at_end;
        self
    }

    /// To end with the first version that is due, safe or not.
    pub fn once(mut self, once: bool) -> Self {
        self.once = once;
        self
    }

    /// Whether versions that come faster than they can be saved are held and saved one after the other, several at once,
    /// up to [`held`](Self::held) and [`held_bytes`](Self::held_bytes). By default the newest comes first, and those in
    /// between are left out. Either way those that are left out are counted.
    pub fn all(mut self, all: bool) -> Self {
        self.all = all;
        self
    }

    /// Most versions that are held at once with [`all`](Self::all), 1 to 32; 8 by default. Beyond it versions wait with the
    /// producer, as long as that keeps them.
    pub fn held(mut self, versions: usize) -> Self {
        self.held = versions;
        self
    }

    /// Most bytes of memory that held versions may take with [`all`](Self::all), counted as the pages that were written for
    /// each; by default a quarter of the memory that is available at the start. One version is held whatever it takes.
    pub fn held_bytes(mut self, bytes: u64) -> Self {
        self.held_bytes = Some(bytes);
        self
    }

    /// How versions are saved, and which checkpoints stay.
    pub fn save(mut self, options: SaveOptions) -> Self {
        self.save = options;
        self
    }

    /// How long to wait for the region, and a living producer of it, to appear; not at all by default. After that, what the
    /// last producer left is taken, if there is something.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How long to wait for the next producer when one is gone; not at all by default, which ends the checkpointer.
    pub fn follow(mut self, follow: Duration) -> Self {
        self.follow = follow;
        self
    }

    /// Calls this with what happens, from the checkpointer's threads, which wait for it meanwhile.
    pub fn listen(mut self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    fn check(&self) -> Result<()> {
        let refuse = |option, why: &str| Err(Error::BadOption { option, why: why.into() });
        if self.every_versions == Some(0) {
            return refuse("every_versions", "0 is no distance: use 1 for every version");
        }
        if self.every == Some(Duration::ZERO) {
            return refuse("every", "0 seconds are no interval: leave the option out to save every version");
        }
        if !(1..=32).contains(&self.held) {
            return refuse("held", "it is not between 1 and 32: the producer needs room for versions, too");
        }
        if self.held_bytes == Some(0) {
            return refuse("held_bytes", "no version can be held in 0 bytes");
        }
        Ok(())
    }

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
        let subject = Subject::find(&self.regions, name)?;
        if subject.is_none() && self.wait.is_zero() {
            return Err(stillframe::Error::NoRegion { region: name.into(), dir: self.regions }.into());
        }
        let has_rule = self.every_versions.is_some() || self.every.is_some() || self.when.is_some() || self.at_end;
        let every_versions = if has_rule || self.once { self.every_versions } else { Some(1) };
        let schedule = Schedule::new(every_versions, self.every);
        let threads = if self.all { self.held.min(SAVERS_MAX) } else { 1 };
        let store = Store::open(to.as_ref(), &self.save)?;
        let desk = Arc::new(Desk {
            name: name.into(),
            dir: to.as_ref().into(),
            save: self.save,
            once: self.once,
            listener: self.listener,
            store: Mutex::new(store),
            papers: Mutex::new(Papers::new(name)),
            changed: Condvar::new(),
        });
        desk.look_at_store();
        // Whoever hears of the first version finds a status.
        let status = desk.papers().status();
        let _ = status.write(&desk.dir);
        let watch = Watch {
            desk: desk.clone(),
            regions: self.regions,
            subject,
            schedule,
            when: self.when,
            at_end: self.at_end,
            once: self.once,
            is_any_due: self.once && !has_rule,
            all: self.all,
            held: self.held,
            held_bytes: self.held_bytes.unwrap_or_else(|| available_bytes() / 4),
            wait: self.wait,
            follow: self.follow,
            run: None,
            marks: None,
            taken: None,
            is_decided: false,
            rank_gone: false,
        };
        let mut joins = vec![spawn("looks", &desk, move |desk| {
            let ended = watch.run();
            desk.end_watch(ended);
        })?];
        for _ in 0..threads {
            joins.push(spawn("saves", &desk, |desk| desk.save_all())?);
        }
        joins.push(spawn("status", &desk, |desk| desk.report())?);
        Ok(Checkpointer { desk, joins, generation: stillframe::fork_generation() })
    }
}

fn available_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map_or(1 << 30, |kib| kib << 10)
}

fn spawn(what: &str, desk: &Arc<Desk>, work: impl FnOnce(&Arc<Desk>) + Send + 'static) -> Result<JoinHandle<()>> {
    let desk = desk.clone();
    let name = format!("checkpoint {what}");
    let spawned = std::thread::Builder::new().name(name).spawn(move || {
        let alarm = Alarm(desk);
        work(&alarm.0);
    });
    spawned.map_err(|error| Error::io("clone", Path::new("/proc/self/task"), error))
}

/// Ends the checkpointer when one of its threads panics, rather than let the others wait for it.
struct Alarm(Arc<Desk>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut papers = self.0.papers();
            papers.order = Order::Cancel;
            papers.watching = false;
            papers.saving.clear();
            papers.failed = true;
            papers.error = Some("a thread of the checkpointer panicked: please report what it said".into());
            self.0.changed.notify_all();
        }
    }
}

/// A running checkpointer. Dropped, it ends at once, and what it was saving is not saved; see [`stop`](Checkpointer::stop).
///
/// It does not survive `fork`: a child has none of its threads, and must not use it. It goes on in the parent.
pub struct Checkpointer {
    desk: Arc<Desk>,
    joins: Vec<JoinHandle<()>>,
    /// Differs in forked children.
    generation: u32,
}

impl std::fmt::Debug for Checkpointer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpointer")
            .field("name", &self.desk.name)
            .field("dir", &self.desk.dir)
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
        &self.desk.dir
    }

    /// What it has done, and is doing.
    pub fn status(&self) -> Status {
        self.desk.papers().status()
    }

    /// The newest version that is safe; `None` if none is.
    pub fn newest_safe(&self) -> Option<u64> {
        self.desk.papers().safe.last().copied()
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
        let is_it = |papers: &Papers| (papers.safe.contains(&version) || papers.done.contains(&version)).then_some(());
        Ok(self.desk.wait(timeout, is_it).is_some())
    }

    /// Waits until a version not below `version` is safe, at most `timeout`, and says which. `None` if the time is over, or
    /// the checkpointer has ended without one.
    ///
    /// # Errors
    /// As [`is_safe`](crate::is_safe).
    pub fn wait_safe_from(&self, version: u64, timeout: Duration) -> Result<Option<u64>> {
        Ok(self.desk.wait(timeout, |papers| papers.safe.last().copied().filter(|newest| *newest >= version)))
    }

    /// Whether it has ended: the producer is gone, or something went wrong that cannot get better.
    pub fn has_ended(&self) -> bool {
        self.desk.papers().is_over()
    }

    /// Asks it to take no more versions, and to end when those that it holds are safe. Returns at once.
    pub fn finish(&self) {
        self.desk.order(Order::Finish);
    }

    /// Asks it to end now: what is being saved is not saved, and leaves nothing behind. Returns at once.
    pub fn cancel(&self) {
        self.desk.order(Order::Cancel);
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
        self.desk.order(Order::Stop);
        self.end()
    }

    fn end(&mut self) -> Result<Status> {
        for join in std::mem::take(&mut self.joins) {
            // A panic has been told in the status.
            let _ = join.join();
        }
        let mut papers = self.desk.papers();
        match papers.fatal.take() {
            Some(error) => Err(error),
            None => Ok(papers.status()),
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        if self.generation != stillframe::fork_generation() {
            // A forked child has no threads that could be joined, and those of its parent are none of its business.
            return std::mem::forget(std::mem::take(&mut self.joins));
        }
        self.desk.order(Order::Cancel);
        let _ = self.end();
    }
}

/// What the threads are to do, each more urgent than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Run,
    /// End with the newest version, if the end is a rule.
    Stop,
    /// Take no more versions.
    Finish,
    /// Drop what is at hand.
    Cancel,
}

/// The store, and what tells it from another directory of the same name.
struct Store {
    saver: Arc<Saver>,
    identity: (u64, u64),
}

impl Store {
    fn open(dir: &Path, options: &SaveOptions) -> Result<Store> {
        let saver = Saver::open(dir, options.clone())?;
        let meta = std::fs::metadata(dir).map_err(|error| Error::io("stat", dir, error))?;
        Ok(Store { saver: Arc::new(saver), identity: (meta.dev(), meta.ino()) })
    }
}

/// What the threads have in common.
struct Desk {
    name: String,
    dir: PathBuf,
    save: SaveOptions,
    once: bool,
    listener: Option<Listener>,
    /// Locked only by those who may wait for the file system.
    store: Mutex<Store>,
    papers: Mutex<Papers>,
    changed: Condvar,
}

/// What changes hands.
struct Papers {
    status: Status,
    order: Order,
    /// Whether versions may still come.
    watching: bool,
    queue: VecDeque<Held>,
    saving: Vec<At>,
    /// Versions that are safe, as the directory had them.
    safe: BTreeSet<u64>,
    /// Versions that were saved here, some of them deleted since.
    done: BTreeSet<u64>,
    error: Option<String>,
    fatal: Option<Error>,
    /// Whether what was last tried failed.
    failed: bool,
    failures: u32,
    retry: Option<Instant>,
}

/// A version that is being saved.
struct At {
    saving: Saving,
    cost_bytes: u64,
}

impl Papers {
    fn new(name: &str) -> Papers {
        Papers {
            status: Status::new(name),
            order: Order::Run,
            watching: true,
            queue: VecDeque::new(),
            saving: Vec::new(),
            safe: BTreeSet::new(),
            done: BTreeSet::new(),
            error: None,
            fatal: None,
            failed: false,
            failures: 0,
            retry: None,
        }
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.saving.is_empty()
    }

    fn is_over(&self) -> bool {
        !self.watching && self.is_idle()
    }

    fn held(&self) -> usize {
        self.queue.len() + self.saving.len()
    }

    fn held_bytes(&self) -> u64 {
        let queued = self.queue.iter().map(Held::cost_bytes).sum::<u64>();
        queued + self.saving.iter().map(|at| at.cost_bytes).sum::<u64>()
    }

    fn status(&self) -> Status {
        let mut status = self.status.clone();
        status.safe = self.safe.iter().copied().collect();
        status.newest_safe = self.safe.last().copied();
        status.saving = self.saving.iter().map(|at| at.saving.clone()).collect();
        status.error = self.error.clone();
        status.updated_ns = status::unix_ns();
        status.state = match (self.is_over(), self.failed) {
            (false, _) => State::Running,
            (true, false) => State::Ended,
            (true, true) => State::Failed,
        };
        status
    }
}

impl Desk {
    fn papers(&self) -> MutexGuard<'_, Papers> {
        self.papers.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    fn tell(&self, event: Event) {
        if let Some(listener) = &self.listener {
            listener(&event);
        }
    }

    fn order(&self, order: Order) {
        let mut papers = self.papers();
        papers.order = papers.order.max(order);
        self.changed.notify_all();
    }

    /// Sleeps until something changes, at most so long.
    fn sleep<'a>(&self, papers: MutexGuard<'a, Papers>, time: Duration) -> MutexGuard<'a, Papers> {
        self.changed.wait_timeout(papers, time).unwrap_or_else(|poison| poison.into_inner()).0
    }

    fn wait<T>(&self, timeout: Duration, look: impl Fn(&Papers) -> Option<T>) -> Option<T> {
        let begin = Instant::now();
        let mut papers = self.papers();
        loop {
            let found = look(&papers);
            let left = timeout.saturating_sub(begin.elapsed());
            if found.is_some() || papers.is_over() || left.is_zero() {
                return found;
            }
            papers = self.sleep(papers, left);
        }
    }

    fn end_watch(&self, ended: Result<()>) {
        let mut papers = self.papers();
        papers.watching = false;
        if let Err(error) = ended {
            papers.failed = true;
            papers.error = Some(error.to_string());
            papers.fatal = Some(error);
        }
        self.changed.notify_all();
    }

    /// Reads which versions are safe. Those known are not read again, unless they went.
    fn look_at_store(&self) {
        // What cannot be read now will be an error of the next save.
        let Ok(named) = named(&self.dir) else { return };
        let known = self.papers().safe.clone();
        let safe = named.into_iter().filter(|version| known.contains(version) || good(&self.dir, *version).is_some());
        let safe = safe.collect();
        self.papers().safe = safe;
        self.changed.notify_all();
    }

    /// Saves what is handed over, until nothing more will be.
    fn save_all(&self) {
        loop {
            let mut papers = self.papers();
            let held = loop {
                if papers.order == Order::Cancel {
                    papers.queue.clear();
                }
                if let Some(held) = papers.queue.pop_front() {
                    break held;
                }
                if !papers.watching {
                    self.changed.notify_all();
                    return;
                }
                papers = self.sleep(papers, Duration::MAX / 4);
            };
            let (version, bytes) = (held.version(), held.bytes());
            papers.saving.push(At { saving: Saving { version, bytes, bytes_done: 0 }, cost_bytes: held.cost_bytes() });
            drop(papers);
            self.changed.notify_all();
            self.tell(Event::Begun { version, bytes });
            let saved = self.save(&held);
            // The hold ends before anybody learns that there is room for another.
            drop(held);
            self.settle(version, saved);
        }
    }

    /// Takes note of what became of a version.
    fn settle(&self, version: u64, saved: Result<Saved>) {
        if saved.is_ok() {
            self.look_at_store();
        }
        let mut papers = self.papers();
        papers.saving.retain(|at| at.saving.version != version);
        let event = match saved {
            Ok(saved) => {
                papers.done.insert(version);
                papers.status.saved += u64::from(!saved.already);
                papers.status.written_bytes += saved.written_bytes;
                papers.status.linked_bytes += saved.linked_bytes;
                (papers.failed, papers.failures, papers.retry, papers.error) = (false, 0, None, None);
                Some(Event::Saved(saved))
            }
            // It was asked for.
            Err(Error::Cancelled { .. }) => None,
            Err(error) => {
                let pause = RETRY.saturating_mul(1 << papers.failures.min(10)).min(RETRY_MAX);
                papers.failures += 1;
                papers.retry = Some(Instant::now() + pause);
                papers.failed = true;
                papers.error = Some(error.to_string());
                let retry = (papers.order == Order::Run && papers.watching && !self.once).then_some(pause);
                Some(Event::Failed { version, error: error.to_string(), code: error.code(), retry })
            }
        };
        drop(papers);
        self.changed.notify_all();
        if let Some(event) = event {
            self.tell(event);
        }
    }

    fn save(&self, held: &Held) -> Result<Saved> {
        let version = held.version();
        let saver = self.saver()?;
        let earlier = {
            // One at a time finds and moves what an earlier run left.
            let _store = self.store();
            let earlier = Earlier::find(&self.dir, version, held.published_ns())?;
            if let Some(earlier) = &earlier {
                earlier.begin()?;
            }
            earlier
        };
        let progress = |progress: Progress| {
            let mut papers = self.papers();
            if let Some(at) = papers.saving.iter_mut().find(|at| at.saving.version == version) {
                (at.saving.bytes, at.saving.bytes_done) = (progress.bytes, progress.bytes_done);
            }
            if papers.order == Order::Cancel {
                saver.cancel();
            }
        };
        let saved = saver.save(held.source(), &progress)?;
        if let Some(earlier) = earlier {
            let store = self.store();
            let finished = earlier.finish();
            drop(store);
            // What could not be moved is found again by the next save; this version is safe all the same.
            finished
                .is_ok()
                .then(|| self.tell(Event::SetAside { versions: earlier.versions().to_vec(), to: earlier.to().into() }));
        }
        Ok(saved)
    }

    /// The saver of the directory, which is made again if it was removed: a simulation that goes on needs its checkpoints
    /// more than an empty place. It is not made on another file system than it was on, such as below the place of one that
    /// was unmounted.
    fn saver(&self) -> Result<Arc<Saver>> {
        let mut store = self.store();
        let found = match std::fs::metadata(&self.dir) {
            Ok(meta) => Some((meta.dev(), meta.ino())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io("stat", &self.dir, error)),
        };
        if found == Some(store.identity) {
            return Ok(store.saver.clone());
        }
        let parent = match self.dir.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => &self.dir,
        };
        let device = std::fs::metadata(parent).map(|meta| meta.dev()).ok();
        if found.map(|found| found.0).or(device) != Some(store.identity.0) {
            return Err(Error::Removed { dir: self.dir.clone() });
        }
        *store = Store::open(&self.dir, &self.save)?;
        let saver = store.saver.clone();
        drop(store);
        self.look_at_store();
        self.tell(Event::Remade);
        Ok(saver)
    }

    /// Keeps the status file up to date, until all is over.
    fn report(&self) {
        let mut written: Option<Status> = None;
        loop {
            let papers = self.papers();
            let (status, is_over) = (papers.status(), papers.is_over());
            drop(papers);
            let is_news = |old: &Status| Status { updated_ns: status.updated_ns, ..old.clone() } != status;
            // A directory that cannot be written to is an error of the next save, and not of this.
            if written.as_ref().is_none_or(is_news) && status.write(&self.dir).is_ok() {
                written = Some(status);
            }
            if is_over {
                return;
            }
            // Much may happen at once, and to write it down at each change would cost more than it tells.
            std::thread::sleep(STATUS_PAUSE);
            let papers = self.papers();
            if !papers.is_over() {
                drop(self.sleep(papers, STATUS_INTERVAL));
            }
        }
    }
}

/// The looking thread.
struct Watch {
    desk: Arc<Desk>,
    regions: PathBuf,
    subject: Option<Subject>,
    schedule: Schedule,
    when: Option<When>,
    at_end: bool,
    once: bool,
    /// Whether the newest version is due whatever it is.
    is_any_due: bool,
    all: bool,
    held: usize,
    held_bytes: u64,
    wait: Duration,
    follow: Duration,
    run: Option<Run>,
    /// Where the version that was looked at last stands.
    marks: Option<Marks>,
    /// The version that was handed over last, and when it was published.
    taken: Option<(u64, u64)>,
    /// Whether the condition was decided for a version.
    is_decided: bool,
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
    fn run(mut self) -> Result<()> {
        loop {
            let Some(subject) = self.attach()? else { return Ok(()) };
            let look = match self.look(&subject) {
                Ok(look) => look,
                Err(error) => self.forgive(error)?,
            };
            match look {
                Look::Done => return Ok(()),
                Look::On => {}
                Look::Gone => {
                    self.finish(&subject)?;
                    if self.once || !self.wait_next()? {
                        return Ok(());
                    }
                }
            }
            match self.order() {
                Order::Run => {}
                Order::Stop => return self.finish(&subject),
                Order::Finish | Order::Cancel => return Ok(()),
            }
        }
    }

    fn order(&self) -> Order {
        self.desk.papers().order
    }

    /// What is an end or an accident, rather than an error.
    fn forgive(&mut self, error: Error) -> Result<Look> {
        use stillframe::Error as Engine;
        match error {
            Error::Engine(Engine::Timeout { .. } | Engine::SlowRank { .. } | Engine::VersionGone { .. }) => {
                Ok(Look::On)
            }
            Error::Engine(Engine::NoVersion { .. } | Engine::RankMissing { .. } | Engine::NoCommonVersion { .. }) => {
                self.nap(TICK);
                let is_alive = self.subject.as_ref().is_some_and(Subject::is_alive);
                Ok(if is_alive { Look::On } else { Look::Gone })
            }
            Error::Engine(Engine::ProducerGone { .. } | Engine::NoRegion { .. }) => Ok(Look::Gone),
            Error::Engine(error @ Engine::RankGone { .. }) => {
                if !self.subject.as_ref().is_some_and(Subject::is_alive) {
                    return Ok(Look::Gone);
                }
                if !std::mem::replace(&mut self.rank_gone, true) {
                    self.desk.tell(Event::RankGone { error: error.to_string() });
                }
                self.nap(TICK);
                Ok(Look::On)
            }
            error => Err(error),
        }
    }

    /// Sleeps, but not when it is to end.
    fn nap(&self, time: Duration) {
        let papers = self.desk.papers();
        if papers.order == Order::Run {
            drop(self.desk.sleep(papers, time));
        }
    }

    /// What is looked at, waiting for it to appear. `None` if it is to end before.
    fn attach(&mut self) -> Result<Option<Subject>> {
        let begin = Instant::now();
        while self.subject.is_none() || self.is_awaited() && begin.elapsed() < self.wait {
            if self.order() != Order::Run {
                return Ok(None);
            }
            self.subject = Subject::find(&self.regions, &self.desk.name)?;
            if self.subject.is_none() && begin.elapsed() >= self.wait {
                let (region, what) = (self.desk.name.clone(), "the region to appear");
                return Err(stillframe::Error::Timeout { region, what, waited: self.wait }.into());
            }
            if self.subject.is_none() || self.is_awaited() {
                self.nap(Duration::from_millis(5));
            }
        }
        let Some(subject) = self.subject.clone() else { return Ok(None) };
        let run = subject.run()?;
        if self.run.as_ref() != Some(&run) {
            let newest = subject.wait_newer(None, Duration::ZERO).ok();
            let is_first = self.run.is_none();
            // Of a group ranks appear one after the other, which makes no other run of it.
            let is_same = self.run.as_ref().is_some_and(|old| {
                old.len() == run.len() && old.iter().zip(&run).all(|(old, new)| old.is_none() || old == new)
            });
            self.run = Some(run);
            if !is_same {
                self.schedule.begin();
                (self.marks, self.taken, self.rank_gone) = (None, None, false);
                self.desk.tell(match is_first {
                    true => Event::Attached { ranks: subject.ranks(), newest },
                    false => Event::NewRun { newest },
                });
            }
        }
        Ok(Some(subject))
    }

    /// Whether there is only what an earlier producer left, before the first look.
    fn is_awaited(&self) -> bool {
        self.run.is_none() && self.subject.as_ref().is_some_and(|subject| !subject.is_alive())
    }

    /// Looks at what there is, waits a little for more, and hands over what is due.
    fn look(&mut self, subject: &Subject) -> Result<Look> {
        let papers = self.desk.papers();
        if papers.order != Order::Run {
            return Ok(Look::On);
        }
        let now = Instant::now();
        if let Some(retry) = papers.retry {
            // After a failure nothing else is tried before its time, and then whatever is newest.
            if !papers.is_idle() || retry > now {
                drop(
                    self.desk.sleep(papers, retry.saturating_duration_since(now).clamp(Duration::from_millis(1), TICK)),
                );
                return if subject.is_alive() { Ok(Look::On) } else { Ok(Look::Gone) };
            }
            drop(papers);
            let held = subject.newest()?;
            self.miss(&held);
            return Ok(self.hand_over(held));
        }
        let is_full = match self.all {
            true => papers.held() >= self.held || papers.held() > 0 && papers.held_bytes() >= self.held_bytes,
            // Without a condition nothing has to be looked at while a version is being saved.
            false => self.when.is_none() && !papers.is_idle(),
        };
        if is_full {
            drop(self.desk.sleep(papers, TICK));
            return Ok(Look::On);
        }
        drop(papers);
        if self.is_any_due {
            let held = subject.newest()?;
            return Ok(self.hand_over(held));
        }
        if self.schedule.every_versions.is_none() && self.when.is_none() {
            return self.look_by_time(subject, now);
        }
        let time = self.schedule.left(now).map_or(TICK, |left| left.clamp(Duration::from_millis(1), TICK));
        if self.all {
            let held = match subject.next_after(self.schedule.seen(), time) {
                Err(stillframe::Error::Timeout { .. } | stillframe::Error::SlowRank { .. }) => {
                    return self.look_again(subject);
                }
                other => other?,
            };
            return self.consider(held);
        }
        let newest = match subject.wait_newer(self.schedule.seen(), time) {
            Err(stillframe::Error::Timeout { .. } | stillframe::Error::SlowRank { .. }) => {
                return self.look_again(subject);
            }
            other => other?,
        };
        if self.when.is_some() {
            let held = subject.newest()?;
            return self.consider(held);
        }
        if !self.schedule.is_due(newest, Instant::now()) {
            self.schedule.see(newest);
            return Ok(Look::On);
        }
        // The number that was asked for, if it is still there, so that those that stay for ever are round ones.
        let multiple = self.schedule.multiple(newest).filter(|multiple| *multiple < newest);
        let held = match multiple.map(|multiple| subject.version(multiple)) {
            Some(Ok(held)) => held,
            _ => subject.newest()?,
        };
        self.consider(held)
    }

    /// When nothing new comes, time may still make due what was seen before.
    fn look_again(&mut self, subject: &Subject) -> Result<Look> {
        if self.schedule.every.is_some() { self.look_by_time(subject, Instant::now()) } else { Ok(Look::On) }
    }

    /// Hands over the newest version when it is time, if it was not handed over before.
    fn look_by_time(&mut self, subject: &Subject, now: Instant) -> Result<Look> {
        let left = self.schedule.left(now);
        if left == Some(Duration::ZERO) && self.desk.papers().is_idle() {
            let newest = subject.wait_newer(self.taken.map(|taken| taken.0), TICK)?;
            let held = subject.newest()?;
            self.schedule.see(newest);
            return Ok(self.hand_over(held));
        }
        self.nap(left.map_or(TICK, |left| left.clamp(Duration::from_millis(1), TICK)));
        Ok(if subject.is_alive() && subject.is_current() { Look::On } else { Look::Gone })
    }

    /// Hands over a version if it is due.
    fn consider(&mut self, held: Held) -> Result<Look> {
        self.miss(&held);
        let is_due = self.schedule.is_due(held.version(), Instant::now());
        if is_due || self.holds(&held)? {
            return Ok(self.hand_over(held));
        }
        self.schedule.see(held.version());
        self.marks = Some(held.marks());
        Ok(Look::On)
    }

    /// Whether the condition holds. That it cannot be decided is an error at first, when it is most likely misspelt.
    fn holds(&mut self, held: &Held) -> Result<bool> {
        let Some(when) = &self.when else { return Ok(false) };
        match when.holds(held.version(), held.published_ns(), held.attributes()) {
            Ok(holds) => {
                self.is_decided = true;
                Ok(holds)
            }
            Err(error) if self.is_decided => {
                self.desk.papers().error = Some(error.to_string());
                self.desk.tell(Event::Undecided { error: error.to_string() });
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Counts the versions between the last one looked at and this one, as far as they were to be saved.
    fn miss(&mut self, held: &Held) {
        let Some(marks) = &self.marks else { return };
        let between = held.between(marks);
        let count = match (&self.when, self.schedule.every_versions) {
            (Some(_), _) => between,
            (None, Some(_)) => between.min(self.schedule.reached(held.version()).saturating_sub(1)),
            (None, None) => 0,
        };
        self.count_missed(count, held.version());
    }

    fn count_missed(&self, count: u64, before: u64) {
        if count > 0 {
            self.desk.papers().status.missed += count;
            self.desk.tell(Event::Missed { count, after: self.schedule.seen(), before });
        }
    }

    fn hand_over(&mut self, held: Held) -> Look {
        let (version, now) = (held.version(), Instant::now());
        self.taken = Some((version, held.published_ns()));
        self.marks = Some(held.marks());
        self.schedule.take(version, now);
        let mut papers = self.desk.papers();
        papers.retry = None;
        let room = if self.all { self.held } else { 1 };
        let mut left_out = None;
        if papers.queue.len() >= room {
            left_out = papers.queue.pop_front().map(|held| held.version());
        }
        papers.queue.push_back(held);
        drop(papers);
        self.desk.changed.notify_all();
        if left_out.is_some() {
            self.count_missed(1, version);
        }
        if self.once { Look::Done } else { Look::On }
    }

    /// Sees to the last version: if the end is a rule, or what was tried last failed, it is handed over, and tried again
    /// once. Waits until nothing is at hand any more.
    fn finish(&mut self, subject: &Subject) -> Result<()> {
        for is_again in [false, true] {
            let failed = self.drain();
            let is_wanted = self.at_end && !is_again || failed;
            if !is_wanted || self.order() >= Order::Finish {
                return Ok(());
            }
            let held = match subject.newest() {
                Ok(held) => held,
                // There is none, or it went with the region.
                Err(error) if error.code() == NO_VERSION || !subject.is_current() => return Ok(()),
                Err(error) => return self.forgive(error.into()).map(|_| ()),
            };
            if !failed && self.taken == Some((held.version(), held.published_ns())) {
                return Ok(());
            }
            self.pause();
            self.hand_over(held);
        }
        self.drain();
        Ok(())
    }

    /// Waits until nothing is at hand, and says whether what was tried last failed.
    fn drain(&self) -> bool {
        let mut papers = self.desk.papers();
        while !papers.is_idle() && papers.order != Order::Cancel {
            papers = self.desk.sleep(papers, Duration::MAX / 4);
        }
        papers.failed
    }

    /// Waits before what failed is tried again.
    fn pause(&self) {
        let end = Instant::now() + LAST_RETRY_MAX;
        let mut papers = self.desk.papers();
        while let Some(retry) = papers.retry.map(|retry| retry.min(end))
            && papers.order <= Order::Stop
        {
            let left = retry.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            papers = self.desk.sleep(papers, left);
        }
    }

    /// Waits for another producer of the name, and says whether there is one.
    fn wait_next(&mut self) -> Result<bool> {
        self.desk.tell(Event::Gone { follow: self.follow });
        let begin = Instant::now();
        while self.order() == Order::Run && begin.elapsed() < self.follow {
            match &self.subject {
                Some(subject) if subject.is_current() && subject.is_alive() => return Ok(true),
                Some(subject) if !subject.is_current() => self.subject = None,
                None => {
                    if let Some(subject) = Subject::find(&self.regions, &self.desk.name)? {
                        self.subject = Some(subject);
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
