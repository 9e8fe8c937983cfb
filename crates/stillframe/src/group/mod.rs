//! Groups: the regions that the ranks of a parallel program publish, seen together.
//!
//! Each rank publishes alone, and is as far as it is. A version is the group's once all ranks have it; each retains what
//! the others have still to publish (see `peers`), so that while ranks are apart there is such a version all the same.

pub(crate) mod any;
pub(crate) mod elsewhere;
pub(crate) mod peers;
mod rank;
pub(crate) mod retention;
pub(crate) mod run;
mod snapshot;
pub(crate) mod standing;

use crate::clock;
use crate::error::{Error, RanksElsewhere, Result};
use crate::group::elsewhere::Elsewhere;
use crate::group::standing::{List, Members, Pick, common, find_steady, hold, list, mixed, numbers, stopped};
use crate::observer::Observer;
use crate::observer::options::ObserverOptions;
use crate::observer::polite::{self, Polite};
use crate::observer::ranks::survey;
use crate::place::arena::Arena;
use crate::place::broker::addressed;
pub use rank::{RankInfo, RankState};
pub use snapshot::GroupSnapshot;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use stillframe_kernel::trust::Trust;
use stillframe_segment::head;

/// How often a hold on all ranks starts over because one of them let the version go meanwhile.
const ATTEMPTS: usize = 1000;

/// Longest sleep while a rank has not begun: nothing can be waited on that is not there.
const POLL_MAX: Duration = Duration::from_millis(5);

/// How long a rank may go on without a version above that of one which ended, before observers take it for an accident.
const GRACE: Duration = Duration::from_secs(10);

/// Options for opening a group.
#[derive(Debug, Clone)]
pub struct GroupOptions {
    observer: ObserverOptions,
    wait: Duration,
}

impl GroupOptions {
    /// The directory that holds the regions' own; by default `$STILLFRAME_DIR`, else `/dev/shm/stillframe-<uid>`.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.observer = self.observer.dir(dir);
        self
    }

    /// Looks into an arena that this process has open, by the names that groups have within it; as
    /// [`ObserverOptions::arena`].
    pub fn arena(mut self, arena: &Arena) -> Self {
        self.observer = self.observer.arena(arena);
        self
    }

    /// Whose directories and files are taken for good, as [`ObserverOptions::trust`].
    pub fn trust(mut self, trust: Trust) -> Self {
        self.observer = self.observer.trust(trust);
        self
    }

    /// Takes of the machine only what others leave, as [`ObserverOptions::polite`].
    pub fn polite(mut self, polite: Polite) -> Self {
        self.observer = self.observer.polite(polite);
        self
    }

    /// Looks only for what is on this node, and does not ask its runtime (`still node`) for ranks on others.
    pub fn here(mut self) -> Self {
        self.observer = self.observer.here();
        self
    }

    /// How long to wait for the ranks to begin and to have a version in common; not at all by default.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Opens a group.
    ///
    /// # Errors
    /// [`Error::NoRegion`] if no rank has begun, [`Error::NotGroup`] if the name is a region's; with a wait
    /// [`Error::Timeout`] or [`Error::SlowRank`]; errors of its regions as of [`Observer::open`].
    pub fn open(mut self, name: &str) -> Result<Group> {
        let (dir, name) = addressed(&self.observer.dir, name);
        self.observer.dir = dir;
        self.observer.begin_polite()?;
        let begin = Instant::now();
        let mut pause = Duration::from_micros(200);
        let elsewhere = Elsewhere::ask(&self.observer, name);
        if let Some(elsewhere) = elsewhere.as_ref().filter(|_| self.wait.is_zero()) {
            elsewhere.wait();
        }
        let members = loop {
            let is_over = self.wait.saturating_sub(begin.elapsed()).is_zero();
            match survey(&self.observer, name, &[]) {
                Ok(Some(members)) => break members,
                Ok(None) => {}
                // A broker may be started later than who looks.
                Err(Error::NoBroker { .. }) if !is_over => {}
                Err(error) => return Err(error),
            }
            match self.observer.open_once(name) {
                Err(Error::NoRegion { .. }) => {}
                Err(Error::NoBroker { .. }) if !is_over => {}
                Err(error) => return Err(error),
                Ok(_) => {
                    let advice = "open it as a region".into();
                    return Err(Error::NotGroup { group: name.into(), found: "a single region", advice });
                }
            }
            let left = self.wait.saturating_sub(begin.elapsed());
            if self.wait.is_zero() {
                return Err(Error::NoRegion { region: name.into(), dir: self.observer.dir });
            }
            if left.is_zero() {
                return Err(Error::Timeout { region: name.into(), what: "the group to appear", waited: self.wait });
            }
            elsewhere.iter().for_each(Elsewhere::look);
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(POLL_MAX);
        };
        let (called, members) = (self.observer.shown(name), Mutex::new(members.into()));
        let inner = Inner { name: called, sought: name.into(), observer: self.observer, members, elsewhere };
        let group = Group { inner: Arc::new(inner) };
        if !self.wait.is_zero() {
            match group.wait_newer(None, Some(self.wait.saturating_sub(begin.elapsed()))) {
                // A group that will never have a version in common can still be looked at.
                Ok(_) | Err(Error::RankGone { .. } | Error::ProducerGone { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(group)
    }
}

#[derive(Debug)]
struct Inner {
    /// What it is called: with an arena among the options, that is part of it, as of its ranks' names.
    name: String,
    /// By which name the options find it.
    sought: String,
    observer: ObserverOptions,
    members: Mutex<Members>,
    elsewhere: Option<Elsewhere>,
}

/// A look at all ranks of a group. It holds nothing but its snapshots, can be used from several threads, and sees ranks
/// that begin, end, and begin again.
///
/// ```
/// # use stillframe::{Group, Region};
/// # let dir = std::env::temp_dir().join(format!("stillframe-doc-group-{}", std::process::id()));
/// // Each rank by itself, in a process of its own:
/// let mut ranks = Vec::new();
/// for rank in 0..2 {
///     ranks.push(Region::options().dir(&dir).rank(rank, 2).create("heat")?);
/// }
/// ranks[0].publish(1).commit()?;
/// ranks[0].publish(2).commit()?;
/// ranks[1].publish(1).commit()?;
///
/// let group = Group::options().dir(&dir).open("heat")?;
/// let snapshot = group.newest()?;
/// assert_eq!((snapshot.version(), snapshot.ranks().len()), (1, 2));
/// assert_eq!(group.ranks()?[1].behind, 1);
/// # ranks.into_iter().try_for_each(Region::unlink)?;
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok::<(), stillframe::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Group {
    inner: Arc<Inner>,
}

/// Newest versions, for messages.
struct Standing {
    slowest: usize,
    furthest: usize,
    newest: Vec<Option<u64>>,
}

impl Group {
    /// Options for opening a group.
    pub fn options() -> GroupOptions {
        GroupOptions { observer: Observer::options(), wait: Duration::ZERO }
    }

    /// Options for opening a group where an observer would look for it.
    pub(crate) fn options_of(observer: &ObserverOptions) -> GroupOptions {
        GroupOptions { observer: observer.for_ranks(), wait: Duration::ZERO }
    }

    /// Opens a group of which a rank has begun, with default options.
    ///
    /// # Errors
    /// As [`GroupOptions::open`].
    pub fn open(name: &str) -> Result<Group> {
        Group::options().open(name)
    }

    /// The group's name; if an arena is among the options, `ARENA/NAME`.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Observers of the ranks, in order; `None` for one that has not begun.
    ///
    /// # Errors
    /// As [`ranks`](Group::ranks).
    pub fn observers(&self) -> Result<Vec<Option<Observer>>> {
        Ok(self.members()?.to_vec())
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.known().len()
    }

    /// Whether any rank has a living producer.
    pub fn is_alive(&self) -> bool {
        self.known().iter().flatten().any(Observer::producer_alive)
    }

    /// When each rank's producer began, in nanoseconds since 1970; `None` if it has not. It differs between runs.
    ///
    /// # Errors
    /// As [`ranks`](Group::ranks).
    pub fn begun_ns(&self) -> Result<Vec<Option<u64>>> {
        Ok(self.members()?.iter().map(|member| member.as_ref().map(Observer::begun_ns)).collect())
    }

    /// How each rank is doing.
    ///
    /// # Errors
    /// As [`Observer::open`], of a region that is damaged or may not be opened.
    pub fn ranks(&self) -> Result<Vec<RankInfo>> {
        let members = self.members()?;
        let lists: Vec<List> = members.iter().map(|member| member.as_ref().map_or(Vec::new(), list)).collect();
        let newest = |list: &List| list.last().map(|listed| listed.number);
        let furthest = lists.iter().max_by_key(|list| newest(list));
        let behind = |list: &List| {
            furthest.map_or(0, |far| far.iter().filter(|listed| Some(listed.number) > newest(list)).count() as u64)
        };
        let info = |(rank, (member, list)): (usize, (&Option<Observer>, &List))| RankInfo {
            rank: rank as u32,
            state: match member {
                None => RankState::Absent,
                Some(observer) if observer.producer_alive() => RankState::Live,
                Some(_) => RankState::Dead,
            },
            pid: member.as_ref().map_or(0, |observer| observer.shared.head.number32(head::PRODUCER_PID_AT)),
            newest: newest(list),
            behind: behind(list),
        };
        Ok(members.iter().zip(&lists).enumerate().map(info).collect())
    }

    /// Holds the newest version that all ranks have.
    ///
    /// # Errors
    /// [`Error::RankMissing`] if a rank has not begun or has no version yet; [`Error::NoCommonVersion`];
    /// [`Error::MixedRuns`].
    pub fn newest(&self) -> Result<GroupSnapshot> {
        let members = self.members()?;
        match find_steady(&members, || self.take(&members, Pick::Newest, None))? {
            Some(snapshot) => Ok(snapshot),
            None => Err(self.nothing(&members)),
        }
    }

    /// Holds a given version of all ranks.
    ///
    /// # Errors
    /// [`Error::VersionGone`] with the region of a rank that does not, or no longer, have it; [`Error::RankMissing`];
    /// [`Error::MixedRuns`].
    pub fn version(&self, version: u64) -> Result<GroupSnapshot> {
        let members = self.members()?;
        if let Some(snapshot) = self.take(&members, Pick::Exactly(version), None)? {
            return Ok(snapshot);
        }
        for (rank, member) in members.iter().enumerate() {
            let Some(observer) = member else { return Err(self.missing(rank, &members)) };
            let list = list(observer);
            if list.iter().all(|listed| listed.number != version) {
                let (oldest, newest) = (list.first().map(|first| first.number), list.last().map(|last| last.number));
                return Err(Error::VersionGone { region: observer.name().into(), version, oldest, newest });
            }
        }
        Err(self.mixed(&members, Some(version)).unwrap_or_else(|| {
            let (oldest, newest) = (None, None);
            Error::VersionGone { region: self.name().into(), version, oldest, newest }
        }))
    }

    /// Holds the smallest version above `version` (any, for `None`) that all ranks have, waiting for it at most `timeout`
    /// (for ever, for `None`).
    ///
    /// # Errors
    /// [`Error::SlowRank`] when the time is over, [`Error::Timeout`] if a polite process had no turn in it; [`Error::ProducerGone`] if
    /// all ranks ended by themselves at the same version; [`Error::RankGone`] if a rank that is gone would have to publish it.
    pub fn next_after(&self, version: Option<u64>, timeout: Option<Duration>) -> Result<GroupSnapshot> {
        self.wait_for(version, timeout, |group, members| group.take(members, Pick::Oldest, version))
    }

    /// Holds the newest version above `version` (any, for `None`) that all ranks have, skipping those in between; waits as
    /// [`next_after`](Group::next_after) does.
    ///
    /// # Errors
    /// As [`next_after`](Group::next_after).
    pub fn newest_after(&self, version: Option<u64>, timeout: Option<Duration>) -> Result<GroupSnapshot> {
        self.wait_for(version, timeout, |group, members| group.take(members, Pick::Newest, version))
    }

    /// Waits until all ranks have a version above `version` (any, for `None`) and returns the newest's number, without
    /// holding it; waits as [`next_after`](Group::next_after) does.
    ///
    /// # Errors
    /// As [`next_after`](Group::next_after).
    pub fn wait_newer(&self, version: Option<u64>, timeout: Option<Duration>) -> Result<u64> {
        self.wait_for(version, timeout, |_, members| {
            Ok(common(members, Pick::Newest, version).map(|(version, _)| version))
        })
    }

    /// The versions that all ranks have, ascending.
    ///
    /// # Errors
    /// As [`ranks`](Group::ranks).
    pub fn versions(&self) -> Result<Vec<u64>> {
        let members = self.members()?;
        let found = find_steady(&members, || Ok(Some(numbers(&members)).filter(|found| !found.is_empty())))?;
        Ok(found.unwrap_or_default())
    }

    /// Goes through versions that all ranks have as they come. With `every` each that still exists comes in turn, else
    /// always the newest. Ends when all ranks ended at the same version, or nothing came for `timeout`; when a rank is gone
    /// and others went or go on, the last item is an [`Error::RankGone`].
    pub fn snapshots(&self, every: bool, timeout: Option<Duration>) -> GroupSnapshots {
        GroupSnapshots { group: self.clone(), every, timeout, last: None, is_over: false }
    }

    /// Sleeps as long as a polite process has to before it looks again, as [`Observer::pause`].
    pub fn pause(&self, timeout: Option<Duration>) -> bool {
        polite::pause(self.inner.observer.pace.as_deref(), timeout)
    }

    fn known(&self) -> Members {
        self.inner.members.lock().unwrap_or_else(|poison| poison.into_inner()).clone()
    }

    /// The ranks, looked for anew where they are missing or other files have their names by now.
    fn members(&self) -> Result<Members> {
        let known = self.known();
        let is_current = |member: &Option<Observer>| {
            member.as_ref().is_some_and(|observer| {
                let shared = &observer.shared;
                shared.is_named() && shared.head.number32(head::RANKS_AT) as usize == known.len()
            })
        };
        if known.iter().all(is_current) {
            return Ok(known);
        }
        let Some(found) = survey(&self.inner.observer, &self.inner.sought, &known)? else {
            // Removed, or just being made anew: what was open can still be read.
            return Ok(known);
        };
        let found: Members = found.into();
        *self.inner.members.lock().unwrap_or_else(|poison| poison.into_inner()) = found.clone();
        Ok(found)
    }

    /// Holds a version that all ranks have, if there is one.
    fn take(&self, members: &Members, pick: Pick, after: Option<u64>) -> Result<Option<GroupSnapshot>> {
        for _ in 0..ATTEMPTS {
            let Some((version, leases)) = common(members, pick, after) else { return Ok(None) };
            if let Some(ranks) = hold(members, &leases, version)? {
                return Ok(Some(GroupSnapshot { version, ranks }));
            }
        }
        Ok(None)
    }

    fn standing(&self, members: &Members) -> Standing {
        let newest: Vec<Option<u64>> =
            members.iter().map(|member| member.as_ref().and_then(|observer| observer.newer(None))).collect();
        // A rank that has not begun is behind one that has no version.
        let place = |rank: &usize| (members[*rank].is_some(), newest[*rank]);
        let slowest = (0..members.len()).min_by_key(place).unwrap_or(0);
        let furthest = (0..members.len()).max_by_key(place).unwrap_or(0);
        Standing { slowest, furthest, newest }
    }

    /// Whether a rank of another node may be shown again, although its region is gone.
    fn is_made_anew(&self, member: &Option<Observer>) -> bool {
        let is_gone = member.as_ref().is_some_and(|observer| !observer.shared.is_named());
        is_gone && self.inner.elsewhere.as_ref().is_some_and(Elsewhere::makes_regions)
    }

    fn why_elsewhere(&self) -> Option<Box<RanksElsewhere>> {
        let why = self.inner.elsewhere.as_ref().and_then(Elsewhere::why);
        why.map(|why| Box::new(RanksElsewhere(why)))
    }

    fn missing(&self, rank: usize, members: &Members) -> Error {
        let (group, ranks) = (self.name().into(), members.len() as u32);
        let (begun, elsewhere) = (members[rank].is_some(), self.why_elsewhere());
        Error::RankMissing { group, rank: rank as u32, ranks, begun, elsewhere }
    }

    /// Why there is no version that all ranks have.
    fn nothing(&self, members: &Members) -> Error {
        let Standing { slowest, furthest, newest } = self.standing(members);
        if newest[slowest].is_none() {
            return self.missing(slowest, members);
        }
        if let Some(error) = self.mixed(members, None) {
            return error;
        }
        Error::NoCommonVersion {
            group: self.name().into(),
            ranks: members.len() as u32,
            slowest: slowest as u32,
            slowest_newest: newest[slowest],
            furthest: furthest as u32,
            furthest_newest: newest[furthest],
        }
    }

    /// The error of a version that all ranks have by its number alone.
    fn mixed(&self, members: &Members, version: Option<u64>) -> Option<Error> {
        let (version, rank, other) = mixed(members, version)?;
        Some(Error::MixedRuns { group: self.name().into(), version, rank: rank as u32, other: other as u32 })
    }

    fn wait_for<T>(
        &self,
        after: Option<u64>,
        timeout: Option<Duration>,
        mut look: impl FnMut(&Group, &Members) -> Result<Option<T>>,
    ) -> Result<T> {
        let begin = Instant::now();
        // As of a region: what ranks that are gone published last is had whatever the share.
        if !self.pause(timeout) && self.is_alive() {
            let (region, waited) = (self.name().into(), begin.elapsed());
            return Err(Error::Timeout { region, what: polite::TURN, waited });
        }
        loop {
            self.inner.elsewhere.iter().for_each(Elsewhere::look);
            let members = self.members()?;
            let notifications = |observer: &Observer| observer.shared.head.notified();
            let seen: Vec<Option<u32>> = members.iter().map(|member| member.as_ref().map(notifications)).collect();
            // A look at the numbers before that at the rings makes idle waiting cheap.
            let newer = |member: &Option<Observer>| member.as_ref().is_some_and(|rank| rank.newer(after).is_some());
            if members.iter().all(newer)
                && let Some(found) = look(self, &members)?
            {
                return Ok(found);
            }
            let accident = stopped(&members, after).filter(|rank| !self.is_made_anew(&members[*rank]));
            if let Some(rank) = accident {
                // It may have published and ended since the look.
                if let Some(found) = look(self, &members)? {
                    return Ok(found);
                }
                let standing = self.standing(&members);
                let lives = members.iter().flatten().any(Observer::producer_alive);
                let is_level = standing.newest[rank] == standing.newest[standing.furthest];
                let ended_ns = members[rank].as_ref().map_or(0, |observer| observer.shared.head.ended_ns());
                if is_level && ended_ns != 0 && !lives {
                    return Err(Error::ProducerGone { region: self.name().into() });
                }
                // The others have as long from when they came as far as the rank that ended, which may be long after it.
                let published_ns = |observer: &Observer| observer.versions().last().map_or(0, |info| info.published_ns);
                let level_ns = members.iter().flatten().map(published_ns).max().unwrap_or(0);
                let waited_ns = clock::unix_ns().saturating_sub(ended_ns.max(level_ns));
                let is_late = ended_ns == 0 || waited_ns >= GRACE.as_nanos() as u64;
                if !is_level || is_late {
                    return Err(Error::RankGone {
                        group: self.name().into(),
                        rank: rank as u32,
                        ranks: members.len() as u32,
                        newest: standing.newest[rank],
                        furthest: standing.furthest as u32,
                        furthest_newest: standing.newest[standing.furthest],
                        elsewhere: self.why_elsewhere(),
                    });
                }
            }
            let standing = self.standing(&members);
            let sleeps = members.iter().flatten().map(|member| member.shared.head.longest_sleep());
            let mut sleep = sleeps.min().unwrap_or(POLL_MAX);
            if let Some(timeout) = timeout {
                let waited = begin.elapsed();
                if waited >= timeout {
                    return Err(self.slow(&members, standing, after, waited));
                }
                sleep = sleep.min(timeout - waited);
            }
            match (&members[standing.slowest], seen[standing.slowest]) {
                // Nobody notifies when a rank ends without a word.
                _ if accident.is_some() => std::thread::sleep(sleep.min(POLL_MAX)),
                (Some(observer), Some(seen)) => observer.shared.head.sleep(seen, sleep),
                _ => std::thread::sleep(sleep.min(POLL_MAX)),
            }
        }
    }

    fn slow(&self, members: &Members, standing: Standing, after: Option<u64>, waited: Duration) -> Error {
        let Standing { slowest, furthest, newest } = standing;
        Error::SlowRank {
            group: self.name().into(),
            rank: slowest as u32,
            ranks: members.len() as u32,
            after,
            waited,
            begun: members[slowest].is_some(),
            alive: members[slowest].as_ref().is_some_and(Observer::producer_alive),
            newest: newest[slowest],
            furthest: furthest as u32,
            furthest_newest: newest[furthest],
            elsewhere: self.why_elsewhere(),
        }
    }
}

/// Versions of a group as they come; see [`Group::snapshots`].
#[derive(Debug)]
pub struct GroupSnapshots {
    group: Group,
    every: bool,
    timeout: Option<Duration>,
    last: Option<u64>,
    is_over: bool,
}

impl GroupSnapshots {
    fn wait(&self) -> Result<GroupSnapshot> {
        match self.every {
            true => self.group.next_after(self.last, self.timeout),
            false => self.group.newest_after(self.last, self.timeout),
        }
    }
}

impl Iterator for GroupSnapshots {
    type Item = Result<GroupSnapshot>;

    fn next(&mut self) -> Option<Result<GroupSnapshot>> {
        if self.is_over {
            return None;
        }
        self.group.pause(None);
        match self.wait() {
            Ok(snapshot) => {
                self.last = Some(snapshot.version());
                Some(Ok(snapshot))
            }
            Err(Error::ProducerGone { .. } | Error::SlowRank { .. } | Error::Timeout { .. }) => None,
            Err(error) => {
                self.is_over = true;
                Some(Err(error))
            }
        }
    }
}
