//! Chunks: taken by compare-and-swap of their owner words, and given back.
//!
//! A region notes the span of chunks in which it may own something before it takes anything there, so that what it owns is
//! found again by looking at the span alone. Only the holder of its producer's lock writes the span.

use super::{Shared, exclusively};
use crate::error::{Error, Result, Shortage};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use stillframe_kernel::{PAGE_BYTES, points, space};
use stillframe_segment::arena::{self, CHUNK_BYTES, FREE, Geometry, Owner, SMALL, record, word_of};

/// Where this process looks first. It is a hint: others take and give back, too.
#[derive(Debug)]
pub(super) struct Search {
    /// No chunk before this one is known to be free.
    single: u32,
    /// Runs of several chunks are looked for from here on, and then from the beginning.
    run: u32,
    /// Small chunks from here on were not looked at yet.
    pub(super) small: u32,
    /// Small chunks in which pages may be free.
    pub(super) roomy: VecDeque<u32>,
}

/// Small chunks that are remembered to have room.
const ROOMY_MAX: usize = 16;

impl Search {
    pub(super) fn new(geometry: &Geometry) -> Search {
        let first = geometry.free_chunks().start;
        Search { single: first, run: first, small: first, roomy: VecDeque::new() }
    }

    pub(super) fn note_free(&mut self, chunk: u32) {
        self.single = self.single.min(chunk);
        self.roomy.retain(|roomy| *roomy != chunk);
    }

    pub(super) fn note_room(&mut self, chunk: u32) {
        if !self.roomy.contains(&chunk) {
            self.roomy.truncate(ROOMY_MAX - 1);
            self.roomy.push_front(chunk);
        }
    }
}

/// What a region owns, in runs, in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) chunks: Vec<Range<u32>>,
    /// Pages of small chunks.
    pub(crate) pages: Vec<Range<u32>>,
}

impl Owned {
    /// How many bytes that is.
    pub(crate) fn bytes(&self) -> u64 {
        let count = |runs: &[Range<u32>]| runs.iter().map(|run| run.len() as u64).sum::<u64>();
        count(&self.chunks) * CHUNK_BYTES as u64 + count(&self.pages) * PAGE_BYTES as u64
    }
}

/// Adds a number to the runs before it.
fn append(runs: &mut Vec<Range<u32>>, number: u32) {
    match runs.last_mut() {
        Some(last) if last.end == number => last.end += 1,
        _ => runs.push(number..number + 1),
    }
}

impl Shared {
    pub(super) fn chunk_owner(&self, chunk: u32) -> u32 {
        self.map.word32(self.geometry.chunk_owner_at(chunk)).load(Acquire)
    }

    /// Takes the word of a chunk, if it is `from`.
    pub(super) fn swap_chunk(&self, chunk: u32, from: u32, to: u32) -> bool {
        self.map.word32(self.geometry.chunk_owner_at(chunk)).compare_exchange(from, to, SeqCst, SeqCst).is_ok()
    }

    /// The chunks outside which a region owns nothing.
    pub(super) fn span(&self, region: u32) -> Result<Range<u32>> {
        let word = self.map.word64(self.geometry.record_at(region) + record::SPAN_AT).load(Acquire);
        self.geometry.decode_span(region, word).map_err(|corrupt| self.corrupt(corrupt))
    }

    pub(super) fn set_span(&self, region: u32, span: &Range<u32>) {
        let word = if span.is_empty() { 0 } else { arena::encode_span(span) };
        self.map.word64(self.geometry.record_at(region) + record::SPAN_AT).store(word, SeqCst);
    }

    /// Notes that a region may own something in these chunks. Returns the span that was noted before.
    pub(super) fn widen_span(&self, region: u32, chunks: Range<u32>) -> Result<Range<u32>> {
        let before = self.span(region)?;
        let wide = match before.is_empty() {
            true => chunks,
            false => before.start.min(chunks.start)..before.end.max(chunks.end),
        };
        if wide != before {
            self.set_span(region, &wide);
        }
        Ok(before)
    }

    /// Takes chunks for a region: in one run if there is one, else in several.
    pub(super) fn take_chunks(&self, region: u32, count: u32) -> Result<Vec<Range<u32>>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        points::hit("arena.take.begin");
        for is_last in [false, true] {
            let taken = exclusively(&self.search, |search| {
                let mut run = self.take_run(region, count, search)?;
                if run.is_none() && self.close_empty(region, search)? > 0 {
                    run = self.take_run(region, count, search)?;
                }
                match run {
                    Some(run) => Ok(Some(vec![run])),
                    None => self.take_scattered(region, count),
                }
            })?;
            match taken {
                Some(runs) => return Ok(runs),
                None if is_last || self.sweep_for_room()? == 0 => break,
                None => {}
            }
        }
        Err(self.full(u64::from(count) * CHUNK_BYTES as u64))
    }

    fn take_run(&self, region: u32, count: u32, search: &mut Search) -> Result<Option<Range<u32>>> {
        let all = self.geometry.free_chunks();
        let from = if count == 1 { search.single } else { search.run }.clamp(all.start, all.end);
        // The second part ends where a run could begin that the first one has not seen.
        let parts = [from..all.end, all.start..from.saturating_add(count - 1).min(all.end)];
        for part in parts {
            let mut at = part.start;
            while let Some(run) = self.find_run(at..part.end, count) {
                match self.take_these(region, run.clone())? {
                    None => {
                        *if count == 1 { &mut search.single } else { &mut search.run } = run.end;
                        return Ok(Some(run));
                    }
                    Some(in_the_way) => at = in_the_way + 1,
                }
            }
        }
        Ok(None)
    }

    fn find_run(&self, within: Range<u32>, count: u32) -> Option<Range<u32>> {
        let mut length = 0;
        for chunk in within {
            length = if self.chunk_owner(chunk) == FREE { length + 1 } else { 0 };
            if length == count {
                return Some(chunk + 1 - count..chunk + 1);
            }
        }
        None
    }

    /// Takes all of these chunks; or none, and says which one somebody else has.
    fn take_these(&self, region: u32, run: Range<u32>) -> Result<Option<u32>> {
        self.widen_span(region, run.clone())?;
        for chunk in run.clone() {
            match self.take_chunk(region, chunk) {
                Ok(true) => {}
                other => {
                    (run.start..chunk).try_for_each(|chunk| self.free_chunk(region, chunk))?;
                    return other.map(|_| Some(chunk));
                }
            }
        }
        Ok(None)
    }

    /// Takes a chunk within the span of a region, if it is free.
    fn take_chunk(&self, region: u32, chunk: u32) -> Result<bool> {
        if !self.swap_chunk(chunk, FREE, word_of(region)) {
            return Ok(false);
        }
        points::hit("arena.take.chunk");
        if self.is_large
            && let Err(failure) = space::take(&self.file, at(chunk), CHUNK_BYTES as u64)
        {
            self.swap_chunk(chunk, word_of(region), FREE);
            return Err(self.system(failure).needing(CHUNK_BYTES as u64));
        }
        Ok(true)
    }

    /// Takes the lowest free chunk.
    pub(super) fn take_single(&self, region: u32, search: &mut Search) -> Result<Option<u32>> {
        Ok(self.take_run(region, 1, search)?.map(|run| run.start))
    }

    fn take_scattered(&self, region: u32, count: u32) -> Result<Option<Vec<Range<u32>>>> {
        let mut runs = Vec::new();
        let mut missing = count;
        for chunk in self.geometry.free_chunks() {
            if missing == 0 {
                break;
            }
            if self.chunk_owner(chunk) != FREE {
                continue;
            }
            self.widen_span(region, chunk..chunk + 1)?;
            match self.take_chunk(region, chunk) {
                Ok(true) => {
                    append(&mut runs, chunk);
                    missing -= 1;
                }
                Ok(false) => {}
                Err(error) => {
                    runs.into_iter().flatten().try_for_each(|chunk| self.free_chunk(region, chunk))?;
                    return Err(error);
                }
            }
        }
        if missing == 0 {
            return Ok(Some(runs));
        }
        runs.into_iter().flatten().try_for_each(|chunk| self.free_chunk(region, chunk))?;
        Ok(None)
    }

    /// Gives a chunk of a region back.
    pub(super) fn give_back_chunk(&self, region: u32, chunk: u32) -> Result<()> {
        self.free_chunk(region, chunk)?;
        exclusively(&self.search, |search| search.note_free(chunk));
        Ok(())
    }

    /// Refuses chunks that no region can have.
    pub(super) fn check_chunk(&self, chunk: u32) -> Result<()> {
        let all = self.geometry.free_chunks();
        match all.contains(&chunk) {
            true => Ok(()),
            false => Err(self.not_expected(0, format!("chunks from {} to {}", all.start, all.end), chunk)),
        }
    }

    fn free_chunk(&self, region: u32, chunk: u32) -> Result<()> {
        self.check_chunk(chunk)?;
        let found = self.chunk_owner(chunk);
        if found != word_of(region) {
            let expected = format!("{}, of region {region}", word_of(region));
            return Err(self.not_expected(self.geometry.chunk_owner_at(chunk), expected, found));
        }
        // Before somebody else has it.
        self.clear(at(chunk), CHUNK_BYTES)?;
        points::hit("arena.give.cleared");
        self.map.word32(self.geometry.chunk_owner_at(chunk)).store(FREE, Release);
        Ok(())
    }

    /// Makes part of the file read as zeros, and gives its memory back where the file system can, and it is not to be kept.
    pub(super) fn clear(&self, at: u64, bytes: usize) -> Result<()> {
        let is_whole = !self.is_large || (at | bytes as u64).is_multiple_of(CHUNK_BYTES as u64);
        if is_whole && !self.is_filled.load(Relaxed) {
            match space::give_back(&self.file, at, bytes as u64) {
                Ok(()) => return Ok(()),
                Err(failure) if [libc::EOPNOTSUPP, libc::EPERM].contains(&failure.errno()) => {}
                Err(failure) => return Err(self.system(failure)),
            }
        }
        let zeros = [0; PAGE_BYTES];
        (at as usize..at as usize + bytes).step_by(PAGE_BYTES).for_each(|at| self.map.write(at, &zeros));
        Ok(())
    }

    /// What a region owns.
    pub(super) fn owned(&self, region: u32) -> Result<Owned> {
        let mut owned = Owned::default();
        for chunk in self.span(region)? {
            match self.chunk_owner(chunk) {
                word if word == word_of(region) => append(&mut owned.chunks, chunk),
                SMALL => self.owned_pages(region, chunk).for_each(|page| append(&mut owned.pages, page)),
                _ => {}
            }
        }
        Ok(owned)
    }

    /// Narrows the span of a region, whose producer's lock is had, to what it owns.
    pub(super) fn narrow_span(&self, region: u32, owned: &Owned) {
        let chunks = owned.chunks.iter().flat_map(|run| [run.start, run.end - 1]);
        let small = owned.pages.iter().flat_map(|run| [run.start, run.end - 1]).map(arena::chunk_of);
        let (first, last) =
            chunks.chain(small).fold((u32::MAX, 0), |(low, high), chunk| (low.min(chunk), high.max(chunk)));
        self.set_span(region, &if first <= last { first..last + 1 } else { 0..0 });
    }

    /// The error that so many bytes are not to be had.
    pub(super) fn full(&self, needed_bytes: u64) -> Error {
        match self.usage() {
            Err(error) => error,
            Ok(usage) => {
                let mut holders: Vec<_> = usage.regions.into_iter().map(|region| (region.name, region.bytes)).collect();
                holders.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
                let shortage = Shortage::Bytes { needed_bytes, free_bytes: usage.free_bytes, bytes: usage.bytes };
                Error::ArenaFull { arena: self.name.clone(), path: self.path.clone(), shortage, holders }
            }
        }
    }

    /// Whose a chunk is, for who looks at all of them.
    pub(super) fn owner_of_chunk(&self, chunk: u32) -> Result<Owner> {
        let owner =
            self.geometry.decode_chunk_owner(chunk, self.map.word32(self.geometry.chunk_owner_at(chunk)).load(Relaxed));
        owner.map_err(|corrupt| self.corrupt(corrupt))
    }
}

/// Offset of a chunk.
pub(super) fn at(chunk: u32) -> u64 {
    u64::from(chunk) * CHUNK_BYTES as u64
}
