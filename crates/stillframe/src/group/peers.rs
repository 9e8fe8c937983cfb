//! The other ranks of a producer's group, as their heads tell.

use crate::clock;
use crate::error::{Error, Result};
use crate::place::directory::{Directory, Unopened, ranks_below};
use crate::place::names;
use crate::store::head::{Head, head_word};
use crate::store::lease::LeaseFile;
use std::cell::Cell;
use std::os::unix::fs::FileExt;
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
    root: Directory,
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
}

#[derive(Debug)]
pub(crate) struct Rank {
    head: Head,
    /// Device and inode of the head.
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
    pub(crate) fn open(root: &Directory, group: &str, rank: u32, ranks: u32) -> Result<Peers> {
        check_living(root, group, rank, ranks)?;
        let begun_ns = clock::unix_ns();
        let mut others = Vec::new();
        for other in (0..ranks).filter(|other| *other != rank) {
            let name = names::rank_name(group, other);
            others.push(RankPeer { name, begun_ns, rank: None });
        }
        let (root, round, retention) = (root.clone(), Instant::now(), Retention::default());
        let mut peers = Peers { root, ranks, others, round, retention };
        peers.go_round();
        Ok(peers)
    }

    /// Opens the ranks that began, and lets go of those whose files are gone.
    fn go_round(&mut self) {
        for peer in &mut self.others {
            let ranks = self.ranks;
            // One that cannot be believed is as one that has not begun: its own producer and observers say what is wrong.
            let directory = self.root.below(&peer.name).ok().flatten();
            let head = directory.as_ref().and_then(|directory| directory.about(head::FILE));
            let identity = head.map(|about| about.identity);
            let is_same = |rank: &Rank| Some(rank.identity) == identity && rank.head.number32(head::RANKS_AT) == ranks;
            if !peer.rank.as_ref().is_some_and(is_same) {
                let had = peer.rank.is_some();
                peer.rank = directory.as_ref().and_then(|directory| Rank::open(directory, ranks));
                if had {
                    self.retention.forget();
                }
            }
            if let Some(rank) = &mut peer.rank {
                rank.is_alive = directory.is_some_and(|directory| is_alive(&directory, &peer.name));
                rank.was_alive |= rank.is_alive;
            }
        }
    }

    /// Whether all others have a version that this rank doubts.
    pub(crate) fn is_everywhere(&mut self, version: u64) -> bool {
        // A rank that began since the last round already counts on what it sees.
        for peer in self.others.iter_mut().filter(|peer| peer.rank.is_none()) {
            let directory = self.root.below(&peer.name).ok().flatten();
            peer.rank = directory.and_then(|directory| Rank::open(&directory, self.ranks));
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

/// The number of ranks that the last producer of a region told; 0 if there is none, or the region is of no group.
fn ranks_of(directory: &Directory) -> u32 {
    head_word(directory, head::RANKS_AT)
}

/// The directories of the ranks of a group that have one, with the names of their regions.
fn ranks_there(root: &Directory, group: &str) -> Result<Vec<(u32, Directory, String)>> {
    let mut found = Vec::new();
    for rank in ranks_below(root, group)? {
        let name = names::rank_name(group, rank);
        found.extend(root.below(&name)?.map(|directory| (rank, directory, name)));
    }
    Ok(found)
}

/// Fails if a living rank of the group says another number of ranks.
pub(crate) fn check_living(root: &Directory, group: &str, rank: u32, ranks: u32) -> Result<()> {
    for (other, directory, name) in ranks_there(root, group)?.into_iter().filter(|(other, ..)| *other != rank) {
        let others = ranks_of(&directory);
        if others != ranks && others != 0 && is_alive(&directory, &name) {
            let why = format!(
                "{ranks}, but rank {other} of group '{group}' lives and says {others}: end that run, or take another name"
            );
            return Err(Error::BadOption { option: "ranks", why });
        }
    }
    Ok(())
}

/// The regions of ranks of a group that any run left.
pub(crate) fn ranks_left(root: &Directory, group: &str) -> Result<Vec<String>> {
    let mut found = ranks_there(root, group)?;
    found.retain(|(_, directory, _)| ranks_of(directory) != 0);
    Ok(found.into_iter().map(|(.., name)| name).collect())
}

/// Whether a producer lives; what cannot be asked counts as living.
fn is_alive(directory: &Directory, name: &str) -> bool {
    match LeaseFile::open(directory, name) {
        Ok(leases) => leases.is_produced().unwrap_or(true),
        Err(unopened) => !matches!(unopened, Unopened::Missing),
    }
}

impl Rank {
    /// A rank of a group of so many; `None` if it has not begun, or is left over from a run with another number.
    fn open(directory: &Directory, ranks: u32) -> Option<Rank> {
        let (file, about) = directory.file(head::FILE).ok()??;
        let mut begin = [0; 64];
        file.read_exact_at(&mut begin, 0).ok()?;
        // A head that cannot be believed is one that has not begun: its own producer and observers say what is wrong.
        if head::check_geometry(&begin) != Ok(true) || about.bytes < head::HEAD_BYTES as u64 {
            return None;
        }
        let head = Head::map(&file, &directory.path().join(head::FILE), false).ok()?;
        let is_of_group = head.number32(head::RANKS_AT) == ranks;
        is_of_group.then(|| Rank {
            head,
            identity: about.identity,
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
            // A slot is reused only after a newer version was committed, so its number holds if this does.
            if self.head.newest() == newest {
                self.newest.set((newest, number));
                return Some(number);
            }
        }
    }

    /// The sequence number of a live version.
    fn find(&self, version: u64) -> Option<u64> {
        let (seen, number) = self.newest.get();
        let near = if number == version { seen.slot() } else { 0 };
        (near..head::SLOTS).chain(0..near).find_map(|slot| {
            let stamp = self.head.stamp(slot);
            if stamp.state() != Some(State::Live) || self.head.number_at(slot) != version {
                return None;
            }
            std::sync::atomic::fence(Ordering::Acquire);
            (self.head.stamp(slot) == stamp && stamp.sequence() <= self.head.newest().sequence())
                .then(|| stamp.sequence())
        })
    }
}

impl Peer for RankPeer {
    fn newest(&self) -> Option<u64> {
        self.rank.as_ref()?.newest()
    }

    fn has(&self, version: u64) -> bool {
        self.rank.as_ref().is_some_and(|rank| rank.find(version).is_some())
    }

    fn is_firm(&self, version: u64) -> bool {
        self.rank.as_ref().is_some_and(|rank| {
            let doubted = rank.head.doubt();
            rank.find(version).is_some_and(|sequence| sequence != doubted)
        })
    }

    fn may_publish(&self) -> bool {
        let has_begun = |rank: &Rank| rank.was_alive || rank.head.number64(head::BEGUN_NS_AT) >= self.begun_ns;
        let is_gone = |rank: &Rank| !rank.is_alive && has_begun(rank);
        !self.rank.as_ref().is_some_and(is_gone)
    }
}
