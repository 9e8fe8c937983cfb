//! The peers of a region, as their heads tell: the other ranks of its group, or regions that its program names.

use crate::clock;
use crate::error::{Error, Result};
use crate::place::names;
use crate::store::head::Head;
use crate::store::regions::{Regions, Site};
use crate::store::version::Version;
use std::cell::Cell;
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use stillframe_protocol::retention::{self, Peer, Retention};
use stillframe_protocol::{Board, Newest, State};
use stillframe_segment::head;

/// How often the peers' files are looked at, rather than only the words in their heads: per region, and at least.
const ROUND_PER_REGION: Duration = Duration::from_millis(1);

const ROUND: Duration = Duration::from_millis(10);

/// Another region whose versions belong together with this region's, see [`Region::set_peers`](crate::Region::set_peers).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PeerRegion {
    /// Its name in the directory or arena in which this region lies: within the arena, if it is one.
    pub name: String,
    /// The first version in which it takes part; versions below it are common without it.
    pub from: u64,
    /// Of one that left, and publishes nothing more: the first version in which it takes part no more. Versions from it on are
    /// common without it, whatever it has.
    pub until: Option<u64>,
}

/// The other ranks of a group, or the regions that were named one by one.
#[derive(Debug)]
pub(crate) struct Peers {
    regions: Regions,
    /// How many ranks the group has, as all of their heads say; 0 if the regions are no group's.
    ranks: u32,
    pub(crate) others: Vec<PeerPlace>,
    round: Instant,
    pub(crate) retention: Retention,
    /// Whether the list is still the right one.
    condition: Condition,
}

/// What is asked after the peers were looked at, and before anything goes for their sake.
#[derive(Default)]
struct Condition(Option<Box<dyn Fn() -> bool + Send + Sync>>);

impl std::fmt::Debug for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Some(_)" } else { "None" })
    }
}

/// The place of a peer, whether it has begun or not.
#[derive(Debug)]
pub(crate) struct PeerPlace {
    region: PeerRegion,
    /// A peer whose producer is gone since before this time is awaited: a rank, if that was before this one began. With 0, of
    /// a named region, it is not.
    awaited_ns: u64,
    head: Option<PeerHead>,
    /// Whether it had begun at any round.
    was_there: bool,
    /// Whether its region was removed, and nobody is awaited who makes it anew.
    is_removed: bool,
    own: OwnRuns,
    /// Versions that are never common, whoever has them.
    open: Arc<[Range<u64>]>,
}

/// Which run published each of this region's versions.
#[derive(Debug, Clone, Default)]
struct OwnRuns {
    /// Versions that were taken over.
    former: Arc<[(u64, u64)]>,
    /// The run that published all others.
    present: u64,
}

impl OwnRuns {
    fn of(&self, version: u64) -> u64 {
        self.former.iter().find(|(number, _)| *number == version).map_or(self.present, |(_, run)| *run)
    }
}

/// A peer that has begun.
#[derive(Debug)]
struct PeerHead {
    head: Head,
    site: Site,
    /// Tells its region from others that have the name later.
    identity: (u64, u64),
    /// The newest word that was seen last, and the number of its version.
    newest: Cell<(Newest, u64)>,
    /// Whether its producer lived at the last round.
    is_alive: bool,
    /// Whether it lived at any.
    was_alive: bool,
}

impl Peers {
    /// The peers of a rank, if those that live say the same number of ranks.
    pub(crate) fn of_rank(regions: &Regions, group: &str, rank: u32, ranks: u32) -> Result<Peers> {
        check_living(regions, group, rank, ranks)?;
        let awaited_ns = clock::unix_ns();
        let names = (0..ranks).filter(|other| *other != rank).map(|other| names::rank_name(group, other));
        let region = |name| PeerRegion { name, from: 0, until: None };
        let place = |name| PeerPlace::new(region(name), awaited_ns, OwnRuns::default());
        let mut peers = Peers { ranks, others: names.map(place).collect(), ..Peers::new(regions) };
        peers.go_round();
        Ok(peers)
    }

    /// No peers yet: regions that are no group's are [named](Peers::name).
    pub(crate) fn new(regions: &Regions) -> Peers {
        let (regions, round, retention) = (regions.clone(), Instant::now(), Retention::default());
        Peers { regions, ranks: 0, others: Vec::new(), round, retention, condition: Condition::default() }
    }

    /// Lets nothing go for the peers' sake but while this says that they are the right ones.
    pub(crate) fn trust_while(&mut self, condition: Option<impl Fn() -> bool + Send + Sync + 'static>) {
        self.condition = Condition(condition.map(|condition| Box::new(condition) as _));
    }

    /// Whether they are, after they were looked at.
    pub(crate) fn is_trusted(&self) -> bool {
        std::sync::atomic::fence(Ordering::SeqCst);
        self.condition.0.as_ref().is_none_or(|condition| condition())
    }

    /// Whether these are the regions that were named, without more.
    pub(crate) fn are(&self, named: &[PeerRegion]) -> bool {
        let is_all = self.condition.0.is_none() && self.others.iter().all(|peer| peer.open.is_empty());
        is_all && self.others.iter().map(|peer| &peer.region).eq(named)
    }

    /// Takes other regions for the peers, of a producer with these versions and of this run, whatever of the versions in `open` they
    /// have. What is known of those that stay stays known.
    pub(crate) fn name(&mut self, named: &[PeerRegion], open: &[Range<u64>], versions: &[Version], run: NonZeroU64) {
        let open: Arc<[Range<u64>]> = open.into();
        let former = versions.iter().filter(|version| version.run != run.get());
        let own = OwnRuns { former: live_runs(former), present: run.get() };
        let known = std::mem::take(&mut self.others).into_iter().map(|peer| (peer.region.name.clone(), peer));
        let mut known: HashMap<String, PeerPlace> = known.collect();
        let place = |region: &PeerRegion| match known.remove(&region.name) {
            Some(peer) => PeerPlace { region: region.clone(), own: own.clone(), open: open.clone(), ..peer },
            None => {
                let mut peer = PeerPlace { open: open.clone(), ..PeerPlace::new(region.clone(), 0, own.clone()) };
                peer.look(&self.regions, self.ranks);
                peer
            }
        };
        self.others = named.iter().map(place).collect();
        // What was common may not be any more, and what was not may be.
        self.retention = Retention::default();
    }

    /// Takes note of the versions that were taken over and can be leased.
    pub(crate) fn take_over(&mut self, versions: &[Version]) {
        let former = live_runs(versions.iter());
        self.others.iter_mut().for_each(|peer| peer.own.former = former.clone());
    }

    /// Takes note of the run that publishes from now on.
    pub(crate) fn set_run(&mut self, run: NonZeroU64) {
        self.others.iter_mut().for_each(|peer| peer.own.present = run.get());
    }

    /// Opens the peers that began, and lets go of those whose files are gone.
    fn go_round(&mut self) {
        for peer in &mut self.others {
            if peer.look(&self.regions, self.ranks) {
                self.retention.forget();
            }
        }
    }

    /// Whether all others have a version that this region retires tentatively.
    pub(crate) fn is_everywhere(&mut self, version: u64) -> bool {
        // One that began since the last round already counts on what it sees.
        for peer in self.others.iter_mut().filter(|peer| peer.head.is_none()) {
            let site = self.regions.find(&peer.region.name).ok().flatten();
            peer.head = site.and_then(|site| PeerHead::open(site, self.ranks));
        }
        let is_everywhere = retention::is_everywhere(version, &self.others);
        if is_everywhere {
            self.retention.forget();
        }
        is_everywhere
    }

    /// Looks at the peers' files if it is time to.
    pub(crate) fn look(&mut self) {
        let regions = self.others.len() as u32 + 1;
        if self.round.elapsed() >= ROUND.max(ROUND_PER_REGION * regions) {
            self.go_round();
            self.round = Instant::now();
        }
    }
}

/// The run of each version that can be leased.
fn live_runs<'a>(versions: impl Iterator<Item = &'a Version>) -> Arc<[(u64, u64)]> {
    let live = versions.filter(|version| version.state == State::Live);
    live.map(|version| (version.number, version.run)).collect()
}

/// The regions of the ranks of a group.
fn ranks_there(regions: &Regions, group: &str) -> Result<Vec<(u32, Site, String)>> {
    let mut found = Vec::new();
    for rank in regions.ranks_below(group)? {
        let name = names::rank_name(group, rank);
        found.extend(regions.find(&name)?.map(|site| (rank, site, name)));
    }
    Ok(found)
}

/// Fails if a living rank of the group says another number of ranks.
pub(crate) fn check_living(regions: &Regions, group: &str, rank: u32, ranks: u32) -> Result<()> {
    for (other, site, _) in ranks_there(regions, group)?.into_iter().filter(|(other, ..)| *other != rank) {
        let others = site.head_word(head::RANKS_AT);
        if others != ranks && others != 0 && site.is_alive() {
            let why = format!(
                "{ranks}, but rank {other} of group '{group}' lives and says {others}: end that run, or take another name"
            );
            return Err(Error::BadOption { option: "ranks", why });
        }
    }
    Ok(())
}

/// The regions of ranks of a group that any run left.
pub(crate) fn ranks_left(regions: &Regions, group: &str) -> Result<Vec<String>> {
    let mut found = ranks_there(regions, group)?;
    found.retain(|(_, site, _)| site.head_word(head::RANKS_AT) != 0);
    Ok(found.into_iter().map(|(.., name)| name).collect())
}

impl PeerHead {
    /// A rank of a group of so many, or with 0 a region of none; `None` if it has not begun, or is left over from a run with
    /// another number.
    fn open(site: Site, ranks: u32) -> Option<PeerHead> {
        let (head, identity) = (site.head()?, site.identity()?);
        let is_peer = head.number32(head::RANKS_AT) == ranks && site.is_there();
        is_peer.then(|| PeerHead {
            head,
            site,
            identity,
            newest: Cell::new((Newest(0), 0)),
            is_alive: true,
            was_alive: false,
        })
    }

    fn newest(&self) -> Option<u64> {
        loop {
            let newest = self.head.newest();
            let (seen, number) = self.newest.get();
            if newest.sequence() == 0 || newest.slot() >= head::SLOTS {
                return None;
            }
            if newest == seen {
                return Some(number);
            }
            let number = self.head.descriptor(newest.slot()).version;
            std::sync::atomic::fence(Ordering::Acquire);
            // A slot is reused only after a newer version was committed, so its number holds if this does. What an arena took
            // back may be another region's.
            if !self.site.is_there() {
                return None;
            }
            if self.head.newest() == newest {
                self.newest.set((newest, number));
                return Some(number);
            }
        }
    }

    /// The sequence number of a live version that this run published.
    fn find(&self, version: u64, run: u64) -> Option<u64> {
        let (seen, number) = self.newest.get();
        let near = if number == version { seen.slot() } else { 0 };
        (near..head::SLOTS).chain(0..near).find_map(|slot| {
            let stamp = self.head.stamp(slot);
            if stamp.state() != Some(State::Live)
                || self.head.number_at(slot) != version
                || self.head.run_at(slot) != run
            {
                return None;
            }
            std::sync::atomic::fence(Ordering::Acquire);
            (self.head.stamp(slot) == stamp
                && stamp.sequence() <= self.head.newest().sequence()
                && self.site.is_there())
            .then(|| stamp.sequence())
        })
    }
}

impl PeerPlace {
    fn new(region: PeerRegion, awaited_ns: u64, own: OwnRuns) -> PeerPlace {
        PeerPlace { region, awaited_ns, head: None, was_there: false, is_removed: false, own, open: [].into() }
    }

    /// Looks for the region's files, and whether its producer lives. True if those are gone that were known.
    fn look(&mut self, regions: &Regions, ranks: u32) -> bool {
        let found = regions.find(&self.region.name);
        self.was_there |= self.head.is_some();
        // Each rank of a group will begin, again too. And what cannot be opened need not be gone.
        self.is_removed = ranks == 0 && self.was_there && matches!(found, Ok(None));
        // One that cannot be believed is as one that has not begun: its own producer and observers say what is wrong.
        let site = found.ok().flatten();
        let identity = site.as_ref().and_then(Site::identity);
        let is_same = |peer: &PeerHead| Some(peer.identity) == identity && peer.head.number32(head::RANKS_AT) == ranks;
        let mut is_gone = false;
        if !self.head.as_ref().is_some_and(is_same) {
            is_gone = self.head.is_some();
            self.head = site.and_then(|site| PeerHead::open(site, ranks));
        }
        if let Some(peer) = &mut self.head {
            peer.is_alive = peer.site.is_alive();
            peer.was_alive |= peer.is_alive;
        }
        is_gone
    }

    /// Whether a version is common without it.
    fn is_apart(&self, version: u64) -> bool {
        version < self.region.from || self.region.until.is_some_and(|until| version >= until)
    }

    /// Whether somebody takes part in a version of whom nobody knows.
    fn is_open(&self, version: u64) -> bool {
        self.open.iter().any(|open| open.contains(&version))
    }

    /// The sequence number of its version that is the same as this region's.
    fn find(&self, version: u64) -> Option<u64> {
        self.head.as_ref()?.find(version, self.own.of(version))
    }
}

impl Peer for PeerPlace {
    fn newest(&self) -> Option<u64> {
        if self.region.until.is_some() {
            // There is nothing to wait for.
            return Some(u64::MAX);
        }
        let newest = self.head.as_ref().and_then(PeerHead::newest);
        newest.max(self.region.from.checked_sub(1))
    }

    fn has(&self, version: u64) -> bool {
        !self.is_open(version) && (self.is_apart(version) || self.find(version).is_some())
    }

    fn is_firm(&self, version: u64) -> bool {
        if self.is_apart(version) || self.is_open(version) {
            return !self.is_open(version);
        }
        let Some(peer) = &self.head else { return false };
        let tentative = peer.head.tentative();
        self.find(version).is_some_and(|sequence| sequence != tentative)
    }

    fn may_publish(&self) -> bool {
        let Some(peer) = &self.head else { return !self.is_removed };
        let has_begun = peer.was_alive || peer.head.number64(head::BEGUN_NS_AT) >= self.awaited_ns;
        peer.is_alive || !has_begun
    }
}
