//! The ranks of a group that programs of this node publish, and versions of them that are held for others.

use crate::groups::choosing::{ago_ns, worth_holding};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use stillframe::{Group, Observer, Snapshot};
use stillframe_wire::group::{GroupRanks, RankTold, RankVersion, RunTold};

/// How often ranks are looked for that begin, or begin again.
const SURVEY: Duration = Duration::from_millis(20);

/// Most versions that are told of.
const TOLD_MAX: usize = 32;

/// The regions in which this runtime shows ranks of other nodes, and whether it is their producer now.
#[derive(Debug, Clone, Default)]
pub(super) struct Shown(Arc<Mutex<BTreeMap<String, bool>>>);

impl Shown {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, region: &str, is_produced: bool) {
        self.lock().insert(region.into(), is_produced);
    }

    pub(super) fn remove(&self, region: &str) {
        self.lock().remove(region);
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Whether a rank is shown here and no program of this node has begun as it since.
    fn has(&self, observer: &Observer) -> bool {
        match self.lock().get(observer.name()) {
            Some(is_produced) => *is_produced || !observer.producer_alive(),
            None => false,
        }
    }
}

/// Ranks of this node.
#[derive(Debug)]
pub(super) struct LocalRanks {
    dir: PathBuf,
    name: String,
    shown: Shown,
    group: Option<Group>,
    surveyed: Option<Instant>,
    size: u32,
    members: Vec<(u32, Observer)>,
    held: BTreeMap<u64, Vec<(u32, Snapshot)>>,
}

impl LocalRanks {
    pub(super) fn new(dir: &Path, name: &str, shown: &Shown) -> LocalRanks {
        LocalRanks {
            dir: dir.into(),
            name: name.into(),
            shown: shown.clone(),
            group: None,
            surveyed: None,
            size: 0,
            members: Vec::new(),
            held: BTreeMap::new(),
        }
    }

    /// How the ranks are now: those of the run that began last.
    pub(super) fn look(&mut self) -> GroupRanks {
        if self.surveyed.is_none_or(|surveyed| surveyed.elapsed() >= SURVEY) {
            self.survey();
            self.surveyed = Some(Instant::now());
        }
        let now_ns = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
        let mut told = GroupRanks {
            group: self.name.clone(),
            size: self.size,
            ranks: Vec::with_capacity(self.members.len()),
            runs: Vec::new(),
            versions: Vec::new(),
        };
        let mut runs: BTreeMap<u64, RunTold> = BTreeMap::new();
        let mut note = |run: u64, begun_ago_ns: u64, seen_ago_ns: u64| {
            let one = runs.entry(run).or_insert(RunTold { run, begun_ago_ns, seen_ago_ns });
            one.begun_ago_ns = one.begun_ago_ns.max(begun_ago_ns);
            one.seen_ago_ns = one.seen_ago_ns.min(seen_ago_ns);
        };
        let mut common: Option<BTreeSet<(u64, u64)>> = None;
        for (rank, observer) in &self.members {
            let (lives, ended_ns) = (observer.producer_alive(), observer.ended_ns());
            let begun_ago_ns = ago_ns(observer.begun_ns(), now_ns);
            let mut published_ns = observer.begun_ns();
            let mut own = BTreeSet::new();
            for info in observer.versions() {
                published_ns = published_ns.max(info.published_ns);
                let Some(run) = info.run else { continue };
                let ago_ns = ago_ns(info.published_ns, now_ns).max(1);
                note(run.get(), ago_ns, ago_ns);
                if !info.retiring {
                    own.insert((info.version, run.get()));
                }
            }
            if let Some(run) = observer.run() {
                // Of one that was killed nobody knows when.
                let seen_ns = ended_ns.unwrap_or(published_ns);
                note(run.get(), begun_ago_ns, if lives { 0 } else { ago_ns(seen_ns, now_ns).max(1) });
            }
            let (ended, newest) = (!lives && ended_ns.is_some(), observer.newest_number());
            told.ranks.push(RankTold { rank: *rank, lives, ended, begun_ago_ns, newest });
            common = Some(common.map_or_else(|| own.clone(), |common| common.intersection(&own).copied().collect()));
        }
        told.runs = runs.into_values().collect();
        // Of versions of one number, one of which a rank returned from, the present one counts.
        let held = self.held.iter().filter_map(|(version, ranks)| Some((*version, run_of(ranks)?)));
        let numbers: BTreeMap<u64, u64> = held.chain(common.unwrap_or_default()).collect();
        told.versions = numbers.into_iter().map(|(version, run)| RankVersion { version, run }).collect();
        let spare = told.versions.len().saturating_sub(TOLD_MAX);
        told.versions.drain(..spare);
        told
    }

    /// Looks which ranks there are.
    fn survey(&mut self) {
        if self.group.is_none() {
            self.group = Group::options().dir(&self.dir).here().open(&self.name).ok();
        }
        let members = self.group.as_ref().and_then(|group| group.observers().ok()).unwrap_or_default();
        let size = members.len() as u32;
        let is_own = |observer: &Observer| observer.is_current() && !self.shown.has(observer);
        let own = members.into_iter().enumerate().filter_map(|(rank, observer)| Some((rank as u32, observer?)));
        let mut own: Vec<(u32, Observer)> = own.filter(|(_, observer)| is_own(observer)).collect();
        // What a former run left of ranks that are elsewhere now is no part of this one.
        let last = own.iter().max_by_key(|(_, observer)| (observer.producer_alive(), observer.begun_ns()));
        let run = last.and_then(|(_, observer)| observer.run());
        own.retain(|(_, observer)| run.is_none() || observer.run() == run || observer.producer_alive());
        if own.is_empty() {
            // Opened anew, it may be another one.
            self.group = None;
        }
        let is_same =
            self.members.len() == own.len()
                && self.members.iter().zip(&own).all(|(one, other)| {
                    one.0 == other.0 && one.1.begun_ns() == other.1.begun_ns() && one.1.is_current()
                });
        if !is_same {
            self.held.clear();
        }
        self.size = if own.is_empty() { 0 } else { size };
        self.members = own;
    }

    /// Holds versions that others may ask for, and lets go of those before.
    pub(super) fn hold(&mut self, told: &GroupRanks) {
        let numbers: Vec<u64> = told.versions.iter().map(|one| one.version).collect();
        let worth = worth_holding(&numbers);
        self.held.retain(|version, _| worth.contains(version));
        for version in worth {
            let run = told.versions.iter().find(|one| one.version == version).map(|one| one.run);
            // A version of that number may be another run's by now.
            if self.held.get(&version).is_some_and(|ranks| run_of(ranks) == run) {
                continue;
            }
            self.held.remove(&version);
            if let Some(ranks) = run.and_then(|run| self.take(version, run)) {
                self.held.insert(version, ranks);
            }
        }
    }

    /// Holds nothing any more.
    pub(super) fn let_go(&mut self) {
        self.held.clear();
    }

    /// A version of all ranks of this node, held; `None` if one has it no more.
    pub(super) fn take(&self, version: u64, run: u64) -> Option<Vec<(u32, Snapshot)>> {
        if let Some(held) = self.held.get(&version)
            && run_of(held) == Some(run)
        {
            return Some(held.clone());
        }
        let take = |(rank, observer): &(u32, Observer)| Some((*rank, observer.version(version).ok()?));
        let taken: Option<Vec<(u32, Snapshot)>> = self.members.iter().map(take).collect();
        taken.filter(|ranks| run_of(ranks) == Some(run))
    }

    /// The rank that is furthest behind of those that live, and its newest version: who waits for it misses nothing.
    pub(super) fn slowest(&self) -> Option<(Observer, Option<u64>)> {
        let living = self.members.iter().filter(|(_, observer)| observer.producer_alive());
        let all = living.map(|(_, observer)| (observer.clone(), observer.newest_number()));
        all.min_by_key(|(_, newest)| *newest)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

/// The run that published a version on all ranks.
fn run_of(ranks: &[(u32, Snapshot)]) -> Option<u64> {
    let run = |(_, snapshot): &(u32, Snapshot)| snapshot.run().map(|run| run.get());
    let first = run(ranks.first()?)?;
    ranks.iter().all(|one| run(one) == Some(first)).then_some(first)
}
