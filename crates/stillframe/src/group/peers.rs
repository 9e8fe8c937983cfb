//! The other ranks of a producer's group, as their heads tell.

use crate::clock;
use crate::error::{Error, Result};
use crate::place::names;
use crate::store::head::Head;
use crate::store::regions::{Regions, Site};
use crate::store::version::Version;
use std::cell::Cell;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use stillframe_protocol::retention::{self, Peer, Retention};
use stillframe_protocol::{Board, Newest, State};
use stillframe_segment::head;

/// How often the other ranks' files are looked at, rather than only the words in their heads: per rank, and at least.
const ROUND_PER_RANK: Duration = Duration::from_millis(1);

const ROUND: Duration = Duration::from_millis(10);

/// The other ranks of a group.
#[derive(Debug)]
pub(crate) struct Peers {
    regions: Regions,
    ranks: u32,
    pub(crate) others: Vec<RankPeer>,
    round: Instant,
    pub(crate) retention: Retention,
}

/// The place of another rank, whether it has begun or not.
#[derive(Debug)]
pub(crate) struct RankPeer {
    name: String,
    /// When this producer began: a rank that is gone since before that has yet to begin.
    begun_ns: u64,
    rank: Option<Rank>,
    own: OwnRuns,
}

/// Which run published each of this rank's versions.
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

#[derive(Debug)]
pub(crate) struct Rank {
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
    pub(crate) fn open(regions: &Regions, group: &str, rank: u32, ranks: u32) -> Result<Peers> {
        check_living(regions, group, rank, ranks)?;
        let begun_ns = clock::unix_ns();
        let mut others = Vec::new();
        for other in (0..ranks).filter(|other| *other != rank) {
            let name = names::rank_name(group, other);
            others.push(RankPeer { name, begun_ns, rank: None, own: OwnRuns::default() });
        }
        let (regions, round, retention) = (regions.clone(), Instant::now(), Retention::default());
        let mut peers = Peers { regions, ranks, others, round, retention };
        peers.go_round();
        Ok(peers)
    }

    /// Takes note of the versions that were taken over and can be leased.
    pub(crate) fn take_over(&mut self, versions: &[Version]) {
        let live = versions.iter().filter(|version| version.state == State::Live);
        let former: Arc<[_]> = live.map(|version| (version.number, version.run)).collect();
        self.others.iter_mut().for_each(|peer| peer.own.former = former.clone());
    }

    /// Takes note of the run that publishes from now on.
    pub(crate) fn set_run(&mut self, run: NonZeroU64) {
        self.others.iter_mut().for_each(|peer| peer.own.present = run.get());
    }

    /// Opens the ranks that began, and lets go of those whose files are gone.
    fn go_round(&mut self) {
        for peer in &mut self.others {
            let ranks = self.ranks;
            // One that cannot be believed is as one that has not begun: its own producer and observers say what is wrong.
            let site = self.regions.find(&peer.name).ok().flatten();
            let identity = site.as_ref().and_then(Site::identity);
            let is_same = |rank: &Rank| Some(rank.identity) == identity && rank.head.number32(head::RANKS_AT) == ranks;
            if !peer.rank.as_ref().is_some_and(is_same) {
                let had = peer.rank.is_some();
                peer.rank = site.and_then(|site| Rank::open(site, ranks));
                if had {
                    self.retention.forget();
                }
            }
            if let Some(rank) = &mut peer.rank {
                rank.is_alive = rank.site.is_alive();
                rank.was_alive |= rank.is_alive;
            }
        }
    }

    /// Whether all others have a version that this rank retires tentatively.
    pub(crate) fn is_everywhere(&mut self, version: u64) -> bool {
        // A rank that began since the last round already counts on what it sees.
        for peer in self.others.iter_mut().filter(|peer| peer.rank.is_none()) {
            let site = self.regions.find(&peer.name).ok().flatten();
            peer.rank = site.and_then(|site| Rank::open(site, self.ranks));
        }
        let is_everywhere = retention::is_everywhere(version, &self.others);
        if is_everywhere {
            self.retention.forget();
        }
        is_everywhere
    }

    /// Looks at the other ranks' files if it is time to.
    pub(crate) fn look(&mut self) {
        if self.round.elapsed() >= ROUND.max(ROUND_PER_RANK * self.ranks) {
            self.go_round();
            self.round = Instant::now();
        }
    }
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

impl Rank {
    /// A rank of a group of so many; `None` if it has not begun, or is left over from a run with another number.
    fn open(site: Site, ranks: u32) -> Option<Rank> {
        let (head, identity) = (site.head()?, site.identity()?);
        let is_of_group = head.number32(head::RANKS_AT) == ranks && site.is_there();
        is_of_group.then(|| Rank {
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

impl RankPeer {
    /// The sequence number of its version that is the same as this rank's.
    fn find(&self, version: u64) -> Option<u64> {
        self.rank.as_ref()?.find(version, self.own.of(version))
    }
}

impl Peer for RankPeer {
    fn newest(&self) -> Option<u64> {
        self.rank.as_ref()?.newest()
    }

    fn has(&self, version: u64) -> bool {
        self.find(version).is_some()
    }

    fn is_firm(&self, version: u64) -> bool {
        let Some(rank) = &self.rank else { return false };
        let tentative = rank.head.tentative();
        self.find(version).is_some_and(|sequence| sequence != tentative)
    }

    fn may_publish(&self) -> bool {
        let has_begun = |rank: &Rank| rank.was_alive || rank.head.number64(head::BEGUN_NS_AT) >= self.begun_ns;
        let is_gone = |rank: &Rank| !rank.is_alive && has_begun(rank);
        !self.rank.as_ref().is_some_and(is_gone)
    }
}
