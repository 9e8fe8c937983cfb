//! Observers: those who look.

pub(crate) mod ahead;
pub(crate) mod attachment;
pub(crate) mod changes;
pub(crate) mod chunks;
pub(crate) mod copies;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod pieces;
pub(crate) mod polite;
pub(crate) mod ranks;
pub(crate) mod snapshot;
pub(crate) mod variable;
pub(crate) mod view;

use crate::error::{Error, Result};
use crate::observer::attachment::Shared;
use crate::observer::options::ObserverOptions;
use crate::observer::snapshot::Snapshot;
use crate::place::names;
use ::stillframe_protocol as protocol;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use stillframe_protocol::{Board, Leased, State};
use stillframe_segment::head;

/// How much later than a producer begins that may be known in another machine.
const LATE: Duration = Duration::from_millis(200);

/// A version that can be leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) leased: Leased,
    pub(crate) number: u64,
    /// The run that published it.
    pub(crate) run: u64,
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
    /// The run that published it, as [`Snapshot::run`] tells it.
    pub run: Option<NonZeroU64>,
    /// Whether it is on its way out: those who hold it keep it, but nobody else can get it.
    pub retiring: bool,
}

impl Observer {
    /// Options for opening an observer.
    pub fn options() -> ObserverOptions {
        ObserverOptions {
            dir: names::root(),
            wait: Duration::ZERO,
            populate: None,
            trust: None,
            arena: None,
            is_former: false,
            is_here: false,
            polite: None,
            pace: None,
        }
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

    /// Whether the producer is known to be gone without asking the kernel: it ended by itself, or its region was removed. One that was
    /// killed looks as if it lived.
    pub fn has_ended(&self) -> bool {
        self.shared.head.ended_ns() != 0 || self.shared.check_there().is_err()
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

    /// When the last producer ended by itself, in nanoseconds since 1970; `None` if it lives or died otherwise.
    pub fn ended_ns(&self) -> Option<u64> {
        NonZeroU64::new(self.shared.head.ended_ns()).map(NonZeroU64::get)
    }

    /// The run that the producer is of, or the last one was; `None` if it has yet to find out.
    pub fn run(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.shared.head.number64(head::RUN_AT))
    }

    /// The number of the newest version, without holding it; `None` if nothing was published yet.
    pub fn newest_number(&self) -> Option<u64> {
        self.newer(None)
    }

    /// The newest version that all [peers](crate::Region::set_peers) had and that the producer let go for want of room: nobody can have it
    /// any more. `None` if there is none.
    pub fn lapsed(&self) -> Option<u64> {
        Some(self.shared.head.lapsed()).filter(|version| *version != 0)
    }

    /// Holds the newest version.
    ///
    /// # Errors
    /// [`Error::NoVersion`] if nothing was published yet.
    pub fn newest(&self) -> Result<Snapshot> {
        let leased = protocol::lease_newest(&self.shared.head, &self.shared.leases)?;
        let Some(leased) = leased else {
            self.shared.check_there()?;
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
        if let Some(found) = listed.iter().find(|listed| listed.number == version)
            && let Some(snapshot) = self.hold(found.leased, version)?
        {
            return Ok(snapshot);
        }
        let (oldest, newest) = (listed.first().map(|first| first.number), listed.last().map(|last| last.number));
        Err(Error::VersionGone { region: self.shared.name.clone(), version, oldest, newest })
    }

    /// As [`version`](Observer::version), for a version that somebody is known to hold: also one that is
    /// [retiring](VersionInfo::retiring), which nobody else gets. `is_held` tells whether he still holds it, and is asked once this
    /// observer holds it too. For those who hand holds on.
    ///
    /// # Errors
    /// As [`version`](Observer::version), also if nobody holds it any more.
    pub fn version_held(&self, version: u64, is_held: impl FnOnce() -> bool) -> Result<Snapshot> {
        self.shared.leases.file()?;
        let head = &self.shared.head;
        let newest = head.newest().sequence();
        let there = (0..head.slots()).map(|slot| (slot, head.stamp(slot))).filter(|(slot, stamp)| {
            let is_there = matches!(stamp.state(), Some(State::Live | State::Retiring));
            is_there && stamp.sequence() <= newest && head.number_at(*slot) == version
        });
        let leased = there.map(|(slot, stamp)| Leased { slot, sequence: stamp.sequence() });
        if let Some(leased) = leased.max_by_key(|leased| leased.sequence)
            && protocol::join(head, &self.shared.leases, leased, is_held)?
        {
            let snapshot = Snapshot::open(self.shared.clone(), leased)?;
            if snapshot.version() == version {
                return Ok(snapshot);
            }
        }
        let listed = self.listed();
        let (oldest, newest) = (listed.first().map(|first| first.number), listed.last().map(|last| last.number));
        Err(Error::VersionGone { region: self.shared.name.clone(), version, oldest, newest })
    }

    /// Holds the smallest version above `version` (any, for `None`), waiting for it at most `timeout` (for ever, for
    /// `None`).
    ///
    /// A [polite](ObserverOptions::polite) process sleeps first for what it used. If its time is over before that, it gets nothing
    /// while the producer lives, and what is there once the producer is gone.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::ProducerGone`] if nobody will publish it.
    pub fn next_after(&self, version: Option<u64>, timeout: Option<Duration>) -> Result<Snapshot> {
        self.wait_for("the next version", timeout, |observer| {
            for Listed { leased, number, .. } in observer.listed() {
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

    /// Sleeps as long as a [polite](ObserverOptions::polite) process has to before it looks again, at most for `timeout` (for as
    /// long as it takes, for `None`), and returns whether it may go on. Whoever waits for versions does so by itself, within the
    /// time that it was given to wait; this is for those who count that time from when they may go on.
    pub fn pause(&self, timeout: Option<Duration>) -> bool {
        polite::pause(self.shared.pace.as_deref(), timeout)
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
            if !matches!(stamp.state(), Some(State::Live | State::Retiring)) {
                continue;
            }
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
                run: NonZeroU64::new(descriptor.run),
                retiring,
            });
        }
        found.sort_by_key(|info| info.version);
        if self.shared.check_there().is_err() {
            found.clear();
        }
        found
    }

    /// The versions that can be leased, with the numbers they had when looked at.
    pub(crate) fn listed(&self) -> Vec<Listed> {
        let head = &self.shared.head;
        let listed =
            |leased: Leased| Listed { leased, number: head.number_at(leased.slot), run: head.run_at(leased.slot) };
        let listed = protocol::list(head).into_iter().map(listed).collect();
        match self.shared.check_there() {
            Ok(()) => listed,
            Err(_) => Vec::new(),
        }
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
        // The last version of a producer that is gone is not asked for for ever: where nothing is left over, its turn may not come.
        if !self.pause(timeout) && self.producer_alive() {
            let (region, waited) = (shared.name.clone(), begin.elapsed());
            return Err(Error::Timeout { region, what: polite::TURN, waited });
        }
        loop {
            let seen = shared.head.notified();
            if let Some(found) = look(self)? {
                shared.forget_gone();
                return Ok(found);
            }
            match self.producer_alive() {
                true => shared.forget_gone(),
                // Another machine's agent says a little later that a producer has begun.
                false if shared.head.is_foreign() && !shared.is_gone_for(LATE) => {}
                false => {
                    shared.forget_gone();
                    // It may have published and ended since the look.
                    return look(self)?.ok_or_else(|| Error::ProducerGone { region: shared.name.clone() });
                }
            }
            let mut sleep = shared.head.longest_sleep();
            if let Some(timeout) = timeout {
                let waited = begin.elapsed();
                if waited >= timeout {
                    return Err(Error::Timeout { region: shared.name.clone(), what, waited });
                }
                sleep = sleep.min(timeout - waited);
            }
            shared.head.sleep(seen, sleep);
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
        self.observer.pause(None);
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
