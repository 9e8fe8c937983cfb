//! Observers: those who look.

use crate::attachment::Shared;
use crate::directory::Directory;
use crate::files;
use crate::group;
use crate::snapshot::Snapshot;
use crate::{Error, Result};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use stillframe_kernel::futex;
use stillframe_kernel::trust::Trust;
use stillframe_kernel::workers::Workers;
use stillframe_protocol::{self as protocol, Board, Leased, State};
use stillframe_segment::head::{self};

/// Longest sleep before a waiting observer looks whether the producer still lives.
pub(crate) const WAIT_SLICE: Duration = Duration::from_millis(50);

/// Options for opening an observer.
#[derive(Debug, Clone)]
pub struct ObserverOptions {
    pub(crate) dir: PathBuf,
    pub(crate) wait: Duration,
    populate: Option<usize>,
    trust: Option<Trust>,
}

impl ObserverOptions {
    /// The directory that holds the region's own; by default `$STILLFRAME_DIR`, else `/dev/shm/stillframe-<uid>`.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = dir.into();
        self
    }

    /// How long to wait for the region to appear and to have a first version; not at all by default.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Whose directories and files are taken for good, besides those of the process's user and of root; by default
    /// `$STILLFRAME_TRUST`, else nobody's in the directory that is the user's by default, and everybody's in one that is
    /// named. What an observer reads of a region is checked whoever made it. But its owner can change what was published, and
    /// a file that he cuts shorter while memory that shows it is looked at ends the process with a `SIGBUS`.
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = Some(trust);
        self
    }

    /// Enters all pages of a variable in the page tables when it is first seen whole ([`slice`](Snapshot::slice),
    /// [`view`](Snapshot::view)), by so many threads, the calling one included, which also take them out in the end. For
    /// programs that read all of a large variable: without this, pages are entered as they are first read.
    pub fn populate(mut self, threads: usize) -> Self {
        self.populate = Some(threads);
        self
    }

    /// Opens a region that is there.
    pub(crate) fn open_once(&self, name: &str) -> Result<Observer> {
        files::region_dir(&self.dir, name)?;
        match self.root()? {
            Some(root) => self.open_in(&root, name),
            None => Err(Error::NoRegion { region: name.into(), dir: self.dir.clone() }),
        }
    }

    /// Options for the regions of a group that is found where these would look.
    pub(crate) fn for_ranks(&self) -> ObserverOptions {
        ObserverOptions { wait: Duration::ZERO, populate: None, ..self.clone() }
    }

    /// The directory that holds the region's own, if it is there.
    pub(crate) fn root(&self) -> Result<Option<Directory>> {
        Directory::root(&self.dir, files::looking(&self.dir, self.trust)?)
    }

    /// As [`open_once`](ObserverOptions::open_once).
    pub(crate) fn open_in(&self, root: &Directory, name: &str) -> Result<Observer> {
        let mut shared = Shared::open(root, name)?;
        shared.workers = self.populate.map(|threads| Arc::new(Workers::new(threads)));
        Ok(Observer { shared: Arc::new(shared) })
    }

    /// Opens an observer on a region.
    ///
    /// # Errors
    /// [`Error::NoRegion`], or with a wait [`Error::Timeout`]; [`Error::IsGroup`], see
    /// [`open_any`](ObserverOptions::open_any); [`Error::Denied`] if it is another user's;
    /// [`Error::Corrupt`] if its head is damaged; [`Error::BadOption`] if an option makes no sense.
    pub fn open(self, name: &str) -> Result<Observer> {
        if let Some(threads @ (0 | 1025..)) = self.populate {
            return Err(Error::BadOption { option: "populate", why: format!("{threads} is not between 1 and 1024") });
        }
        let begin = Instant::now();
        let deadline = begin.checked_add(self.wait);
        let mut pause = Duration::from_micros(200);
        let observer = loop {
            match self.open_once(name) {
                Ok(observer) => break observer,
                Err(error @ Error::NoRegion { .. }) => {
                    if let Some(ranks) = group::survey(&self, name, &[])? {
                        return Err(Error::IsGroup { region: name.into(), ranks: ranks.len() as u32 });
                    }
                    let left =
                        deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
                    if self.wait.is_zero() {
                        return Err(error);
                    }
                    if left.is_zero() {
                        return Err(Error::Timeout {
                            region: name.into(),
                            what: "the region to appear",
                            waited: self.wait,
                        });
                    }
                    // Nothing can be waited on in a directory that may not exist yet, so this polls.
                    std::thread::sleep(pause.min(left));
                    pause = (pause * 2).min(Duration::from_millis(5));
                }
                Err(error) => return Err(error),
            }
        };
        if !self.wait.is_zero() {
            let left = self.wait.saturating_sub(begin.elapsed());
            match observer.newest_after(None, Some(left)) {
                // A region that nobody will fill can still be looked at.
                Ok(_) | Err(Error::ProducerGone { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(observer)
    }
}

/// A look at a region. Many may exist, in any process, and come and go as they like.
///
/// It holds nothing writable, and nothing at all but its snapshots. It can be used from several threads.
#[derive(Debug, Clone)]
pub struct Observer {
    pub(crate) shared: Arc<Shared>,
}

/// A version that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionInfo {
    /// The producer's number of the version.
    pub version: u64,
    /// Time of publishing in nanoseconds since 1970.
    pub published_ns: u64,
    /// Pages that were dirty.
    pub dirty_pages: u64,
    /// Pages of all variables.
    pub total_pages: u64,
    /// Whether it is on its way out: those who hold it keep it, but nobody else can get it.
    pub retiring: bool,
}

impl Observer {
    /// Options for opening an observer.
    pub fn options() -> ObserverOptions {
        ObserverOptions { dir: files::root(), wait: Duration::ZERO, populate: None, trust: None }
    }

    /// Opens an observer on a region that exists, with default options.
    ///
    /// # Errors
    /// As [`ObserverOptions::open`].
    pub fn open(name: &str) -> Result<Observer> {
        Observer::options().open(name)
    }

    /// The region's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Whether the region has a living producer.
    pub fn producer_alive(&self) -> bool {
        self.shared.leases.is_produced().unwrap_or(false)
    }

    /// Whether the region's name is still that of the files which are looked at. It is not after the region was removed, or
    /// made anew: the observer can be opened again then.
    pub fn is_current(&self) -> bool {
        self.shared.is_named()
    }

    /// When the producer began, or the last one if none lives, in nanoseconds since 1970. It differs between runs.
    pub fn begun_ns(&self) -> u64 {
        self.shared.head.number64(head::BEGUN_NS_AT)
    }

    /// Holds the newest version.
    ///
    /// # Errors
    /// [`Error::NoVersion`] if nothing was published yet.
    pub fn newest(&self) -> Result<Snapshot> {
        let leased = protocol::lease_newest(&self.shared.head, &self.shared.leases)?;
        let Some(leased) = leased else {
            self.shared.head.check_newest().map_err(|corrupt| self.shared.corrupt(corrupt))?;
            return Err(Error::NoVersion { region: self.shared.name.clone() });
        };
        Snapshot::open(self.shared.clone(), leased)
    }

    /// Holds a given version.
    ///
    /// # Errors
    /// [`Error::VersionGone`] if it is not, or no longer, there.
    pub fn version(&self, version: u64) -> Result<Snapshot> {
        self.shared.leases.file()?;
        let listed = self.listed();
        let found = listed.iter().find(|(_, number)| *number == version);
        if let Some((leased, _)) = found
            && let Some(snapshot) = self.hold(*leased, version)?
        {
            return Ok(snapshot);
        }
        let (oldest, newest) = (listed.first().map(|first| first.1), listed.last().map(|last| last.1));
        Err(Error::VersionGone { region: self.shared.name.clone(), version, oldest, newest })
    }

    /// Holds the smallest version above `version` (any, for `None`), waiting for it at most `timeout` (for ever, for
    /// `None`).
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::ProducerGone`] if nobody will publish it.
    pub fn next_after(&self, version: Option<u64>, timeout: Option<Duration>) -> Result<Snapshot> {
        self.wait_for("the next version", timeout, |observer| {
            for (leased, number) in observer.listed() {
                if version.is_none_or(|version| number > version)
                    && let Some(snapshot) = observer.hold(leased, number)?
                {
                    return Ok(Some(snapshot));
                }
            }
            Ok(None)
        })
    }

    /// Holds the newest version above `version` (any, for `None`), skipping those in between; waits as
    /// [`next_after`](Observer::next_after) does.
    ///
    /// # Errors
    /// As [`next_after`](Observer::next_after).
    pub fn newest_after(&self, version: Option<u64>, timeout: Option<Duration>) -> Result<Snapshot> {
        self.wait_for("a newer version", timeout, |observer| {
            // A look at the number before the lease keeps idle waiting from holding anything.
            if observer.newer(version).is_none() {
                return Ok(None);
            }
            match observer.newest() {
                Ok(snapshot) if version.is_none_or(|version| snapshot.version() > version) => Ok(Some(snapshot)),
                Ok(_) | Err(Error::NoVersion { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    /// Waits until the newest version is above `version` (any, for `None`) and returns its number, without holding it;
    /// waits as [`next_after`](Observer::next_after) does.
    ///
    /// # Errors
    /// As [`next_after`](Observer::next_after).
    pub fn wait_newer(&self, version: Option<u64>, timeout: Option<Duration>) -> Result<u64> {
        self.wait_for("a newer version", timeout, |observer| Ok(observer.newer(version)))
    }

    /// The number of the newest version, if it is above `version`.
    pub(crate) fn newer(&self, version: Option<u64>) -> Option<u64> {
        let head = &self.shared.head;
        loop {
            let newest = head.newest();
            if newest.sequence() == 0 || newest.slot() >= head::SLOTS {
                return None;
            }
            let number = head.descriptor(newest.slot()).version;
            std::sync::atomic::fence(Ordering::Acquire);
            // A slot is reused only after a newer version was committed, so its number holds if this does.
            if head.newest() == newest {
                return version.is_none_or(|version| number > version).then_some(number);
            }
        }
    }

    /// Goes through versions as they come. With `every` each version that still exists comes in turn, else always the
    /// newest. Ends when the producer is gone, or nothing came for `timeout`.
    pub fn snapshots(&self, every: bool, timeout: Option<Duration>) -> Snapshots {
        Snapshots { observer: self.clone(), every, timeout, last: None }
    }

    /// The versions that exist, ascending.
    pub fn versions(&self) -> Vec<VersionInfo> {
        let head = &self.shared.head;
        let newest = head.newest().sequence();
        let mut found = Vec::new();
        for slot in 0..head.slots() {
            let stamp = head.stamp(slot);
            let descriptor = head.descriptor(slot);
            std::sync::atomic::fence(Ordering::Acquire);
            // A slot that changed meanwhile belongs to no version that is worth listing.
            if head.stamp(slot) != stamp || stamp.sequence() > newest || stamp.sequence() == 0 {
                continue;
            }
            let retiring = match stamp.state() {
                Some(State::Live) => false,
                Some(State::Retiring) => true,
                _ => continue,
            };
            found.push(VersionInfo {
                version: descriptor.version,
                published_ns: descriptor.published_ns,
                dirty_pages: descriptor.dirty_pages,
                total_pages: descriptor.total_pages,
                retiring,
            });
        }
        found.sort_by_key(|info| info.version);
        found
    }

    /// The versions that can be leased, with the numbers they had when looked at.
    pub(crate) fn listed(&self) -> Vec<(Leased, u64)> {
        let list = protocol::list(&self.shared.head);
        list.into_iter().map(|leased| (leased, self.shared.head.descriptor(leased.slot).version)).collect()
    }

    fn hold(&self, leased: Leased, number: u64) -> Result<Option<Snapshot>> {
        if !protocol::lease(&self.shared.head, &self.shared.leases, leased)? {
            return Ok(None);
        }
        let snapshot = Snapshot::open(self.shared.clone(), leased)?;
        Ok((snapshot.version() == number).then_some(snapshot))
    }

    fn wait_for<T>(
        &self,
        what: &'static str,
        timeout: Option<Duration>,
        mut look: impl FnMut(&Observer) -> Result<Option<T>>,
    ) -> Result<T> {
        let begin = Instant::now();
        let shared = &self.shared;
        shared.leases.file()?;
        loop {
            let seen = shared.head.bell().load(Ordering::Acquire);
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            if !self.producer_alive() {
                // It may have published and ended since the look.
                return look(self)?.ok_or_else(|| Error::ProducerGone { region: shared.name.clone() });
            }
            let mut sleep = WAIT_SLICE;
            if let Some(timeout) = timeout {
                let waited = begin.elapsed();
                if waited >= timeout {
                    return Err(Error::Timeout { region: shared.name.clone(), what, waited });
                }
                sleep = sleep.min(timeout - waited);
            }
            futex::wait(shared.head.bell(), seen, Some(sleep));
        }
    }
}

/// Versions as they come; see [`Observer::snapshots`].
#[derive(Debug)]
pub struct Snapshots {
    observer: Observer,
    every: bool,
    timeout: Option<Duration>,
    last: Option<u64>,
}

impl Iterator for Snapshots {
    type Item = Result<Snapshot>;

    fn next(&mut self) -> Option<Result<Snapshot>> {
        let next = match self.every {
            true => self.observer.next_after(self.last, self.timeout),
            false => self.observer.newest_after(self.last, self.timeout),
        };
        match next {
            Ok(snapshot) => {
                self.last = Some(snapshot.version());
                Some(Ok(snapshot))
            }
            Err(Error::Timeout { .. } | Error::ProducerGone { .. }) => None,
            Err(error) => Some(Err(error)),
        }
    }
}
