//! Where a region of an arena has its tables, schemas and planes: its index, read and written.

use super::Arena;
use crate::error::{Error, Result};
use crate::place::stretch::Stretch;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use stillframe_segment::index::{
    EXTENT_AT, EXTENTS_AT, EXTENTS_MAX, INLINE_PLANES, INLINE_WINDOWS, PLANES_AT, SCHEMA_BYTES, SCHEMAS_AT,
    SCHEMAS_MAX, inline_at,
};
use stillframe_segment::{Corrupt, PAGE_BYTES, PLANES_MAX, arena, head};

/// A schema's place in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SchemaEntry {
    pub(crate) number: u32,
    pub(crate) block: u32,
    pub(crate) bytes: u32,
    pub(crate) crc: u32,
}

/// The index of a region. What it says is checked against the arena's length before it is used.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    arena: Arena,
    /// Offset of the head in the arena.
    head_at: usize,
    index: Stretch,
}

impl Index {
    /// That of the region whose head begins there.
    pub(crate) fn new(arena: &Arena, head_at: u64) -> Result<Index> {
        let head_at = head_at as usize;
        let end = (head_at + head::HEAD_BYTES + PAGE_BYTES) as u64;
        if end > arena.bytes() {
            return Err(corrupt(arena, head_at, "a head inside the arena", end));
        }
        let index = Stretch::new(arena.map(), head_at + head::HEAD_BYTES);
        Ok(Index { arena: arena.clone(), head_at, index })
    }

    /// The region's head.
    pub(crate) fn head(&self) -> Stretch {
        Stretch::new(self.arena.map(), self.head_at)
    }

    fn word(&self, at: usize) -> u32 {
        self.index.word32(at).load(Acquire)
    }

    fn set_word(&self, at: usize, value: u32) {
        self.index.word32(at).store(value, Release);
    }

    fn corrupt(&self, at: usize, expected: &str, found: impl std::fmt::Display) -> Error {
        corrupt(&self.arena, self.head_at + head::HEAD_BYTES + at, expected, found)
    }

    /// The pages of the tables, in their order.
    pub(crate) fn extents(&self) -> Result<Vec<Range<u32>>> {
        let count = self.word(EXTENTS_AT) as usize;
        if count > EXTENTS_MAX {
            return Err(self.corrupt(EXTENTS_AT, &format!("at most {EXTENTS_MAX} extents"), count));
        }
        let pages = self.arena.bytes() / PAGE_BYTES as u64;
        (0..count)
            .map(|index| {
                let at = EXTENT_AT + 8 * index;
                let (first, count) = (self.word(at), self.word(at + 4));
                match u64::from(first) + u64::from(count) <= pages {
                    true => Ok(first..first + count),
                    false => Err(self.corrupt(at, "pages of the arena", format!("{count} from page {first} on"))),
                }
            })
            .collect()
    }

    /// Adds pages to the tables.
    pub(crate) fn add_extent(&self, pages: &Range<u32>) -> Result<()> {
        let count = self.word(EXTENTS_AT) as usize;
        if count >= EXTENTS_MAX {
            return Err(self.corrupt(EXTENTS_AT, &format!("less than {EXTENTS_MAX} extents"), count));
        }
        let at = EXTENT_AT + 8 * count;
        self.set_word(at, pages.start);
        self.set_word(at + 4, pages.len() as u32);
        self.set_word(EXTENTS_AT, count as u32 + 1);
        Ok(())
    }

    /// The chunk in which a window of a plane lies; `None` if it has none.
    pub(crate) fn chunk(&self, plane: usize, window: usize) -> Result<Option<u32>> {
        loop {
            let map = self.word(PLANES_AT + 4 * plane);
            let found = self.chunk_word(map, plane, window);
            let word = found.map(|found| found.map_or(0, |word| word.0.word32(word.1).load(Acquire)));
            // A map that has become too short is given back once there is another, and may say anything then.
            if self.word(PLANES_AT + 4 * plane) == map {
                let chunks = self.arena.chunks();
                return match word?.checked_sub(1) {
                    None => Ok(None),
                    Some(chunk) if chunks.contains(&chunk) => Ok(Some(chunk)),
                    Some(chunk) => Err(self.corrupt(PLANES_AT + 4 * plane, "a chunk of the arena", chunk)),
                };
            }
        }
    }

    /// Where the word of a window lies, in the map of a plane.
    fn chunk_word(&self, map: u32, plane: usize, window: usize) -> Result<Option<(Stretch, usize)>> {
        if map == 0 {
            let is_there = plane < INLINE_PLANES && window < INLINE_WINDOWS;
            return Ok(is_there.then(|| (self.index.clone(), inline_at(plane, window))));
        }
        let map_at = map as usize * PAGE_BYTES;
        let fail = || self.corrupt(PLANES_AT + 4 * plane, "a page of the arena", map);
        if map_at as u64 + PAGE_BYTES as u64 > self.arena.bytes() {
            return Err(fail());
        }
        let map = Stretch::new(self.arena.map(), map_at);
        // The first word says how many windows it has.
        let capacity = map.word32(0).load(Acquire) as usize;
        if (map_at + 4 * (capacity + 1)) as u64 > self.arena.bytes() {
            return Err(fail());
        }
        Ok((window < capacity).then_some((map, 4 * (window + 1))))
    }

    /// Says in which chunk a window of a plane lies. There has to be [room](Index::capacity) for it.
    pub(crate) fn set_chunk(&self, plane: usize, window: usize, chunk: Option<u32>) -> Result<()> {
        let map = self.word(PLANES_AT + 4 * plane);
        match self.chunk_word(map, plane, window)? {
            Some((stretch, at)) => stretch.word32(at).store(chunk.map_or(0, |chunk| chunk + 1), Release),
            None => return Err(self.corrupt(PLANES_AT + 4 * plane, "room for the window", window)),
        }
        Ok(())
    }

    /// Windows for which the map of a plane has room, and the page where it begins, if it is one of its own.
    pub(crate) fn capacity(&self, plane: usize) -> Result<(usize, Option<u32>)> {
        let map = self.word(PLANES_AT + 4 * plane);
        if map == 0 {
            return Ok((if plane < INLINE_PLANES { INLINE_WINDOWS } else { 0 }, None));
        }
        self.chunk_word(map, plane, 0)?;
        let capacity = Stretch::new(self.arena.map(), map as usize * PAGE_BYTES).word32(0).load(Acquire);
        Ok((capacity as usize, Some(map)))
    }

    /// Gives a plane a map of its own at these pages, with what the map before it says.
    pub(crate) fn set_map(&self, plane: usize, pages: &Range<u32>) -> Result<()> {
        let new = Stretch::new(self.arena.map(), pages.start as usize * PAGE_BYTES);
        let capacity = pages.len() * PAGE_BYTES / 4 - 1;
        for window in 0..capacity {
            let chunk = self.chunk(plane, window)?;
            new.word32(4 * (window + 1)).store(chunk.map_or(0, |chunk| chunk + 1), Relaxed);
        }
        new.word32(0).store(capacity as u32, Relaxed);
        self.set_word(PLANES_AT + 4 * plane, pages.start);
        Ok(())
    }

    /// The pages of the maps that planes have of their own.
    pub(crate) fn maps(&self) -> Result<Vec<Range<u32>>> {
        let mut found = Vec::new();
        for plane in 0..PLANES_MAX {
            if let (capacity, Some(first)) = self.capacity(plane)? {
                found.push(first..first + ((capacity + 1) * 4).div_ceil(PAGE_BYTES) as u32);
            }
        }
        Ok(found)
    }

    /// The pages of the head, of which there are so many with the index.
    pub(crate) fn head_pages(&self, count: u32) -> Range<u32> {
        let first = (self.head_at / PAGE_BYTES) as u32;
        first..first + count
    }

    /// The schemas that there are.
    pub(crate) fn schemas(&self) -> Vec<SchemaEntry> {
        let entry = |index: usize| {
            let at = SCHEMAS_AT + SCHEMA_BYTES * index;
            let [block, bytes, crc] = [4, 8, 12].map(|offset| self.word(at + offset));
            SchemaEntry { number: self.word(at), block, bytes, crc }
        };
        (0..SCHEMAS_MAX).map(entry).filter(|entry| entry.number != 0).collect()
    }

    /// Adds a schema; `false` if there are as many as there may be.
    pub(crate) fn add_schema(&self, entry: SchemaEntry) -> bool {
        let mut places = (0..SCHEMAS_MAX).map(|index| SCHEMAS_AT + SCHEMA_BYTES * index);
        let Some(at) = places.find(|at| self.word(*at) == 0) else { return false };
        self.set_word(at + 4, entry.block);
        self.set_word(at + 8, entry.bytes);
        self.set_word(at + 12, entry.crc);
        self.set_word(at, entry.number);
        true
    }

    /// Takes a schema out, and returns where it was.
    pub(crate) fn remove_schema(&self, number: u32) -> Option<SchemaEntry> {
        let found = self.schemas().into_iter().find(|entry| entry.number == number)?;
        let mut places = (0..SCHEMAS_MAX).map(|index| SCHEMAS_AT + SCHEMA_BYTES * index);
        let at = places.find(|at| self.word(*at) == number)?;
        self.set_word(at, 0);
        Some(found)
    }
}

fn corrupt(arena: &Arena, at: usize, expected: &str, found: impl std::fmt::Display) -> Error {
    Error::Corrupt { dir: arena.path().into(), corrupt: Corrupt::new(arena::FILE, at, expected, found) }
}
