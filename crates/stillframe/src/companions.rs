//! The other ranks of a producer's group, as their heads tell, and what the producer retains for them.

use crate::directory::{self, Directory, Unopened};
use crate::files::{Head, LeaseFile};
use crate::producer::{Producer, Version};
use crate::{Error, Result, files, group};
use std::cell::Cell;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use stillframe_kernel::points;
use stillframe_protocol::retention::{self, Companion, Retention, Spare};
use stillframe_protocol::{Board, Leases, Newest, State};
use stillframe_segment::head;

/// How often the other ranks' files are looked at, rather than only the words in their heads: per rank, and at least.
const ROUND_PER_RANK: Duration = Duration::from_millis(1);
const ROUND: Duration = Duration::from_millis(10);

/// The other ranks of a group.
#[derive(Debug)]
pub(crate) struct Companions {
    root: Directory,
    ranks: u32,
    seats: Vec<Seat>,
    round: Instant,
    pub(crate) retention: Retention,
}

/// The place of another rank, whether it has begun or not.
#[derive(Debug)]
struct Seat {
    name: String,
    /// When this producer began: a rank that is gone since before that has yet to begin.
    begun_ns: u64,
    rank: Option<Rank>,
}

#[derive(Debug)]
struct Rank {
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

impl Companions {
    /// The companions of a rank, if those that live say the same number of ranks.
    pub(crate) fn open(root: &Directory, group: &str, rank: u32, ranks: u32) -> Result<Companions> {
        check_living(root, group, rank, ranks)?;
        let begun_ns = files::unix_ns();
        let mut seats = Vec::new();
        for other in (0..ranks).filter(|other| *other != rank) {
            let name = files::rank_name(group, other);
            seats.push(Seat { name, begun_ns, rank: None });
        }
        let (root, round, retention) = (root.clone(), Instant::now(), Retention::default());
        let mut companions = Companions { root, ranks, seats, round, retention };
        companions.go_round();
        Ok(companions)
    }

    /// Opens the ranks that began, and lets go of those whose files are gone.
    fn go_round(&mut self) {
        for seat in &mut self.seats {
            let ranks = self.ranks;
            // One that cannot be believed is as one that has not begun: its own producer and observers say what is wrong.
            let directory = self.root.below(&seat.name).ok().flatten();
            let head = directory.as_ref().and_then(|directory| directory.about(head::FILE));
            let identity = head.map(|about| about.identity);
            let is_same = |rank: &Rank| Some(rank.identity) == identity && rank.head.number32(head::RANKS_AT) == ranks;
            if !seat.rank.as_ref().is_some_and(is_same) {
                let had = seat.rank.is_some();
                seat.rank = directory.as_ref().and_then(|directory| Rank::open(directory, ranks));
                if had {
                    self.retention.forget();
                }
            }
            if let Some(rank) = &mut seat.rank {
                rank.is_alive = directory.is_some_and(|directory| is_alive(&directory, &seat.name));
                rank.was_alive |= rank.is_alive;
            }
        }
    }

    /// Whether all others have a version that this rank doubts.
    fn is_everywhere(&mut self, version: u64) -> bool {
        // A rank that began since the last round already counts on what it sees.
        for seat in self.seats.iter_mut().filter(|seat| seat.rank.is_none()) {
            let directory = self.root.below(&seat.name).ok().flatten();
            seat.rank = directory.and_then(|directory| Rank::open(&directory, self.ranks));
        }
        let is_everywhere = retention::is_everywhere(version, &self.seats);
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
    directory::head_word(directory, head::RANKS_AT)
}

/// The directories of the ranks of a group that have one, with the names of their regions.
fn ranks_there(root: &Directory, group: &str) -> Result<Vec<(u32, Directory, String)>> {
    let mut found = Vec::new();
    for rank in group::ranks_below(root, group)? {
        let name = files::rank_name(group, rank);
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

impl Companion for Seat {
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

impl Producer {
    /// The numbers of the live versions.
    fn live(&self) -> Vec<u64> {
        let live = self.versions.iter().filter(|version| version.state == State::Live);
        live.map(|version| version.number).collect()
    }

    fn index_of(&self, number: u64) -> Option<usize> {
        self.versions.iter().position(|version| version.number == number && version.state == State::Live)
    }

    /// Retires the versions that neither `keep` nor the group wants.
    pub(crate) fn retire_spares(&mut self) -> Result<()> {
        let own = self.live();
        let (keep, drift) = (self.options.keep, self.options.drift);
        let Some(companions) = &mut self.companions else { return Ok(()) };
        companions.look();
        let Companions { retention, seats, .. } = companions;
        for spare in retention.spares(&own, keep, drift, seats) {
            self.retire_spare(spare)?;
        }
        Ok(())
    }

    /// Retires one version that is not the newest, unless it turns out to be everywhere; whether it was retired.
    fn retire_spare(&mut self, spare: Spare) -> Result<bool> {
        let Some(index) = self.index_of(spare.version) else { return Ok(false) };
        if spare.is_past {
            return self.retire(index).map(|_| true);
        }
        self.head.set_doubt(self.versions[index].leased.sequence);
        points::hit("retire.doubted");
        let stays = self.companions.as_mut().is_some_and(|companions| companions.is_everywhere(spare.version));
        let result = if stays { Ok(false) } else { self.retire(index).map(|_| true) };
        self.head.set_doubt(0);
        result
    }

    /// Retires the version that the group wants least, of those that nobody holds: of others nothing would be won. What all
    /// ranks have goes last. True if there was one to retire.
    pub(crate) fn retire_least_wanted(&mut self) -> Result<bool> {
        let mut own = self.live();
        own.pop();
        let Some(companions) = &self.companions else { return Ok(false) };
        let (common, mut order) = (companions.retention.common(), companions.retention.by_want(&own));
        let leases = &self.leases;
        let is_held = |version: &Version| leases.is_held(version.leased.slot).unwrap_or(true);
        let held: Vec<u64> = self.versions.iter().filter(|version| is_held(version)).map(|v| v.number).collect();
        order.retain(|version| !held.contains(version));
        for version in order.iter().copied().filter(|version| Some(*version) != common) {
            if self.retire_spare(Spare { version, is_past: false })? {
                return Ok(true);
            }
        }
        let Some(index) = order.first().and_then(|version| self.index_of(*version)) else { return Ok(false) };
        if let Some(companions) = &mut self.companions {
            companions.retention.forget();
        }
        self.retire(index).map(|_| true)
    }
}
