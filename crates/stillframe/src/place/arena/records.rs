//! Records of regions, and the index by which they are found.
//!
//! Who looks takes no lock. Who changes has the creation lock, and each store leaves something that a reader understands: a
//! bucket is written before the record says that it is used, and cleared after it says otherwise.

use super::{Arena, Shared};
use crate::error::{Error, Result, Shortage};
use crate::{clock, place::names};
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::sync::atomic::{AtomicU32, fence};
use std::time::Instant;
use stillframe_kernel::{points, space};
use stillframe_segment::arena::{
    self, Bucket, Pending, RECORD_BYTES, RECORDS_PER_BLOCK, Record, State, record, word_of,
};

/// What this process remembers between two changes.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The record that it used last: neighbours are cheap, for the kernel keeps their locks as one.
    last: Option<u32>,
    /// When it last looked for what is left of removed regions.
    pub(super) swept: Option<Instant>,
}

/// A region of an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its number, by which its chunks and locks are known.
    pub(crate) number: u32,
    /// Tells it from others that have the number later.
    pub(crate) generation: u32,
    /// Where its head begins in the arena's memory; `None` before there is one.
    pub(crate) head_at: Option<u64>,
}

/// Records that are all looked at before a region is made, so that none lies below it: that takes a few microseconds.
const LOOKED_THROUGH: u32 = 256;

/// Ranks that are looked for where there are more records.
const RANKS_LOOKED_FOR: u32 = 16;

/// How often a record may change while it is read before it is no coincidence.
const ATTEMPTS: usize = 1000;

impl Arena {
    /// The region of a name, if there is one.
    pub(crate) fn find(&self, name: &str) -> Result<Option<Found>> {
        Ok(self.shared.look_up(name)?.map(|(number, record)| Found::new(number, &record)))
    }

    /// Names and numbers of all regions, in the order of the names.
    pub(super) fn regions_and_hidden(&self) -> Result<Vec<(String, Found)>> {
        self.shared.regions()
    }

    /// Whether regions lie below a name that are no ranks of the group of this name.
    pub(crate) fn has_others_below(&self, name: &str) -> Result<bool> {
        let is_other = |other: &str| {
            let rest = other.strip_prefix(name).and_then(|rest| rest.strip_prefix('/'));
            rest.is_some_and(|rest| names::rank_of(rest).is_none())
        };
        Ok(self.shared.regions()?.iter().any(|(other, _)| is_other(other)))
    }

    /// Refuses a name that would be part of a region's.
    pub(crate) fn check_above(&self, name: &str) -> Result<()> {
        self.shared.check_above(name)
    }

    /// Refuses a region below whose name others lie: those would be taken for its ranks. To be quick where there are many regions,
    /// they are told there by being the first ranks of a group.
    pub(crate) fn check_below(&self, name: &str) -> Result<()> {
        let shared = &self.shared;
        let end = shared.records_end()?;
        if end > LOOKED_THROUGH {
            for rank in 0..RANKS_LOOKED_FOR {
                if shared.look_up(&names::rank_name(name, rank))?.is_some() {
                    return Err(names::above_ranks(name));
                }
            }
            return Ok(());
        }
        let above = format!("{name}/");
        let mut begin = vec![0; above.len().min(arena::NAME_BYTES_MAX)];
        for region in 0..end {
            if shared.state(region) != Some(State::Used) {
                continue;
            }
            shared.map.read(shared.geometry.record_at(region) + record::NAME_AT, &mut begin);
            if begin != above.as_bytes() {
                continue;
            }
            match shared.record(region)? {
                Some(other) if other.name.starts_with(&above) && names::group_of(&other.name) == name => {
                    return Err(names::above_ranks(name));
                }
                Some(other) if other.name.starts_with(&above) => return Err(names::above_others(name)),
                _ => {}
            }
        }
        Ok(())
    }

    /// The region of a name, and the ranks of the group of this name.
    pub(crate) fn family(&self, name: &str) -> Result<Vec<(String, u32)>> {
        self.shared.family(name)
    }

    /// The ranks of a group that have a region, ascending.
    pub(crate) fn ranks_below(&self, group: &str) -> Result<Vec<u32>> {
        let family = self.shared.family(group)?;
        let rank = |(name, _): (String, u32)| names::rank_of(name.strip_prefix(group)?.strip_prefix('/')?);
        let mut ranks: Vec<u32> = family.into_iter().filter_map(rank).collect();
        ranks.sort_unstable();
        Ok(ranks)
    }
}

impl Found {
    fn new(number: u32, record: &Record) -> Found {
        let head_at = record.head_page.map(|page| u64::from(page) * stillframe_kernel::PAGE_BYTES as u64);
        Found { number, generation: record.generation, head_at }
    }
}

impl Shared {
    pub(super) fn record_word(&self, region: u32, at: usize) -> &AtomicU32 {
        self.map.word32(self.geometry.record_at(region) + at)
    }

    pub(super) fn state(&self, region: u32) -> Option<State> {
        State::decode(self.record_word(region, record::STATE_AT).load(Acquire))
    }

    pub(super) fn set_state(&self, region: u32, state: State) {
        self.record_word(region, record::STATE_AT).store(state as u32, SeqCst);
    }

    pub(super) fn generation(&self, region: u32) -> u32 {
        self.record_word(region, record::GENERATION_AT).load(Acquire)
    }

    /// Whether a record still is that of the region which had it with this generation.
    pub(super) fn is_current(&self, region: u32, generation: u32) -> bool {
        matches!(self.state(region), Some(State::Used | State::Renaming)) && self.generation(region) == generation
    }

    /// What a record says; `None` if no region has it.
    pub(super) fn record(&self, region: u32) -> Result<Option<Record>> {
        let at = self.geometry.record_at(region);
        let head = || [record::STATE_AT, record::GENERATION_AT].map(|at| self.record_word(region, at).load(Acquire));
        let name = record::NAME_BYTES_AT..record::NAME_AT + arena::NAME_BYTES_MAX;
        for _ in 0..ATTEMPTS {
            let before = head();
            let (mut bytes, mut again) = ([0; RECORD_BYTES], [0; RECORD_BYTES]);
            self.map.read(at, &mut bytes);
            fence(Acquire);
            self.map.read(at, &mut again);
            // What its producer may change at any time is read whole.
            for at in [record::HEAD_PAGE_AT, record::PID_AT] {
                bytes[at..at + 4].copy_from_slice(&self.record_word(region, at).load(Acquire).to_le_bytes());
            }
            let span = self.map.word64(at + record::SPAN_AT).load(Acquire);
            bytes[record::SPAN_AT..record::SPAN_AT + 8].copy_from_slice(&span.to_le_bytes());
            fence(Acquire);
            // Who was renamed meanwhile has the state and the generation that it had.
            if before != head() || bytes[name.clone()] != again[name.clone()] {
                continue;
            }
            if before[0] == State::Free as u32 {
                return Ok(None);
            }
            let decoded = self.geometry.decode_record(region, &bytes);
            return decoded.map(Some).map_err(|corrupt| self.corrupt(corrupt));
        }
        Ok(None)
    }

    pub(super) fn bucket(&self, bucket: u32) -> Result<Bucket> {
        let word = self.map.word32(self.geometry.bucket_at(bucket)).load(Acquire);
        let decoded = self.geometry.decode_bucket(bucket, word).map_err(|corrupt| self.corrupt(corrupt))?;
        if let Bucket::Region(region) = decoded {
            self.check_used(region, self.geometry.bucket_at(bucket), word)?;
        }
        Ok(decoded)
    }

    /// Refuses a record that was never used, and may have no memory to be read from; its word was found at `at`.
    fn check_used(&self, region: u32, at: usize, word: u32) -> Result<()> {
        match self.records_end()? {
            end if region < end => Ok(()),
            end => Err(self.not_expected(at, format!("at most {end}, for so many records were used"), word)),
        }
    }

    pub(super) fn set_bucket(&self, bucket: u32, word: u32) {
        self.map.word32(self.geometry.bucket_at(bucket)).store(word, SeqCst);
    }

    /// The region of a name, and the ranks of the group of this name.
    pub(super) fn family(&self, name: &str) -> Result<Vec<(String, u32)>> {
        let is_rank = |rest: &str| rest.strip_prefix('/').is_some_and(|rank| names::rank_of(rank).is_some());
        let is_of = |other: &str| other.strip_prefix(name).is_some_and(|rest| rest.is_empty() || is_rank(rest));
        let regions = self.regions()?.into_iter().filter(|(other, _)| is_of(other));
        Ok(regions.map(|(other, found)| (other, found.number)).collect())
    }

    /// The buckets in which a name may be, in the order in which it is looked for.
    pub(super) fn chain(&self, name: &str) -> impl Iterator<Item = u32> + use<> {
        let (buckets, first) = (self.geometry.buckets(), arena::hash(name));
        (0..buckets).map(move |step| first.wrapping_add(step) & (buckets - 1))
    }

    pub(super) fn look_up(&self, name: &str) -> Result<Option<(u32, Record)>> {
        for bucket in self.chain(name) {
            match self.bucket(bucket)? {
                Bucket::Empty => return Ok(None),
                Bucket::Deleted => {}
                Bucket::Region(number) => match self.record(number)? {
                    Some(record) if record.state == State::Used && record.name == name => {
                        return Ok(Some((number, record)));
                    }
                    _ => {}
                },
            }
        }
        Ok(None)
    }

    fn regions(&self) -> Result<Vec<(String, Found)>> {
        let mut regions = Vec::new();
        for bucket in 0..self.geometry.buckets() {
            if let Bucket::Region(number) = self.bucket(bucket)?
                && let Some(record) = self.record(number)?
                && record.state == State::Used
            {
                let found = Found::new(number, &record);
                regions.push((record.name, found));
            }
        }
        regions.sort_by(|(left, _), (right, _)| left.cmp(right));
        // Who removes one and makes it again meanwhile may be seen twice.
        regions.dedup_by(|(left, _), (right, _)| left == right);
        Ok(regions)
    }

    /// Below this number all records are that were ever used, and have memory.
    pub(super) fn records_end(&self) -> Result<u32> {
        let found = self.map.word32(arena::RECORDS_END_AT).load(Acquire);
        self.geometry.check_records_end(found).map_err(|corrupt| self.corrupt(corrupt))
    }

    /// Whether records are being changed, or were when a process died over it. Who has the producer's lock of a region by now
    /// knows that no living process is about to rename or replace it; a dead one may have been, and that is finished first.
    pub(super) fn is_half_done(&self) -> bool {
        self.map.word32(arena::PENDING_AT).load(SeqCst) != 0
    }

    fn set_pending(&self, region: Option<u32>) {
        self.map.word32(arena::PENDING_AT).store(region.map_or(0, word_of), SeqCst);
    }

    /// Finishes or undoes what a process that died was changing. The caller has the creation lock.
    pub(super) fn mend(&self) -> Result<()> {
        let word = self.map.word32(arena::PENDING_AT).load(Acquire);
        let region = match self.geometry.decode_pending(word).map_err(|corrupt| self.corrupt(corrupt))? {
            Pending::Nothing => return Ok(()),
            Pending::Record(region) => region,
            Pending::Replacing => return self.replace(),
            Pending::Renaming => return self.rename_all(),
        };
        self.check_used(region, arena::PENDING_AT, word)?;
        match self.state(region) {
            Some(State::Making) => {
                self.unlist(region)?;
                self.set_state(region, State::Free);
            }
            Some(State::Removing) => self.unlist(region)?,
            // Nothing was begun, or all was done. What makes no sense is told to whoever looks for it.
            Some(State::Free | State::Used | State::Renaming) | None => {}
        }
        self.set_pending(None);
        Ok(())
    }

    /// Does what must not be seen half done to a record. The caller has the creation lock.
    pub(super) fn with_pending<T>(&self, region: u32, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.set_pending(Some(region));
        let result = work();
        self.set_pending(None);
        result
    }

    /// Takes a region out of the index. The caller has the creation lock.
    pub(super) fn unlist(&self, region: u32) -> Result<()> {
        let Some(record) = self.record(region)? else { return Ok(()) };
        for bucket in self.chain(&record.name) {
            match self.bucket(bucket)? {
                Bucket::Empty => return Ok(()),
                Bucket::Region(number) if number == region => return self.clear_bucket(bucket),
                _ => {}
            }
        }
        Ok(())
    }

    /// Clears a bucket, and those before it that nobody has to step over any more.
    pub(super) fn clear_bucket(&self, bucket: u32) -> Result<()> {
        self.set_bucket(bucket, arena::DELETED);
        points::hit("arena.remove.bucket");
        if self.bucket(bucket.wrapping_add(1))? != Bucket::Empty {
            return Ok(());
        }
        for step in 0..self.geometry.buckets() {
            let before = bucket.wrapping_sub(step);
            if self.bucket(before)? != Bucket::Deleted {
                break;
            }
            self.set_bucket(before, arena::EMPTY);
        }
        Ok(())
    }

    /// Makes a region with its producer's lock; `None` if somebody else made one of the name. The caller has the creation lock.
    pub(super) fn create(&self, changes: &mut Changes, name: &str) -> Result<Option<(u32, u32)>> {
        if self.look_up(name)?.is_some() {
            return Ok(None);
        }
        points::hit("arena.create.begin");
        self.sweep_now_and_then(changes)?;
        let region = match self.free_record(changes)? {
            Some(region) => region,
            None if self.sweep_changing()? > 0 => self.free_record(changes)?.ok_or_else(|| self.no_record())?,
            None => return Err(self.no_record()),
        };
        let created = self.with_pending(region, || self.write_record(region, name));
        match created {
            Ok(generation) => {
                changes.last = Some(region);
                points::hit("arena.create.done");
                Ok(Some((region, generation)))
            }
            Err(error) => {
                self.end_producing(region);
                Err(error)
            }
        }
    }

    /// Refuses a region that would be part of another, or a group and a region of one name, which is told by its first rank.
    pub(super) fn check_neighbours(&self, name: &str) -> Result<()> {
        self.check_above(name)?;
        match self.look_up(&names::rank_name(name, 0))? {
            Some(_) => Err(names::above_ranks(name)),
            None => Ok(()),
        }
    }

    /// Refuses a region or group that would be part of a region.
    fn check_above(&self, name: &str) -> Result<()> {
        for (end, _) in name.match_indices('/') {
            if self.look_up(&name[..end])?.is_some() {
                return Err(names::inside(name, &name[..end]));
            }
        }
        Ok(())
    }

    fn write_record(&self, region: u32, name: &str) -> Result<u32> {
        let bucket = self.chain(name).find_map(|bucket| match self.bucket(bucket) {
            Ok(Bucket::Region(_)) => None,
            Ok(_) => Some(Ok(bucket)),
            Err(error) => Some(Err(error)),
        });
        // There are twice as many buckets as records.
        let bucket = bucket.unwrap_or_else(|| Err(self.no_record()))?;
        points::hit("arena.create.pending");
        let generation = arena::next_generation(self.record_word(region, record::GENERATION_AT).load(Acquire));
        let (pid, created_ns) = (std::process::id(), clock::unix_ns());
        let (state, span, name) = (State::Free, 0..0, name.into());
        let record = Record { state, generation, head_page: None, span, pid, created_ns, name };
        self.map.write(self.geometry.record_at(region), &record.encode());
        points::hit("arena.create.named");
        self.set_state(region, State::Making);
        points::hit("arena.create.making");
        self.set_bucket(bucket, word_of(region));
        points::hit("arena.create.indexed");
        self.set_state(region, State::Used);
        points::hit("arena.create.used");
        Ok(generation)
    }

    /// A record that nobody has, with the producer's lock on it. The caller has the creation lock.
    fn free_record(&self, changes: &Changes) -> Result<Option<u32>> {
        let (end, regions) = (self.records_end()?, self.geometry.regions());
        // Processes that make many regions at once get blocks of their own, so that each has neighbours.
        let block = end.next_multiple_of(RECORDS_PER_BLOCK);
        let preferred = match changes.last {
            None => 0..0,
            Some(last) if last + 1 < end && self.state(last + 1) == Some(State::Free) => last + 1..last + 2,
            Some(last) if last + 1 == end => end..end + 1,
            Some(_) => block..block + 1,
        };
        let from = changes.last.map_or(0, |last| last + 1).min(end);
        let known = (from..end).chain(0..from);
        for region in preferred.filter(|region| *region < regions).chain(known).chain(end..regions.min(end + 1)) {
            if region >= end {
                self.extend_records(region + 1)?;
            }
            if self.state(region) == Some(State::Free) && self.try_produce(region)? {
                return Ok(Some(region));
            }
        }
        Ok(None)
    }

    /// Gives records up to this number memory, and says that they may be in use.
    fn extend_records(&self, end: u32) -> Result<()> {
        let first = self.records_end()? / RECORDS_PER_BLOCK * RECORDS_PER_BLOCK;
        let last = end.next_multiple_of(RECORDS_PER_BLOCK).min(self.geometry.regions()) - 1;
        let at = self.geometry.record_at(first);
        let bytes = self.geometry.record_at(last) + RECORD_BYTES - at;
        space::take(&self.file, at as u64, bytes as u64)
            .map_err(|failure| self.system(failure).needing(bytes as u64))?;
        self.map.word32(arena::RECORDS_END_AT).store(end, Release);
        Ok(())
    }

    fn no_record(&self) -> Error {
        let shortage = Shortage::Regions { most: self.geometry.regions() };
        Error::ArenaFull { arena: self.name.clone(), path: self.path.clone(), shortage, holders: Vec::new() }
    }
}
