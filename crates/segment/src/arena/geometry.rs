//! Where everything lies in an arena, and the header that says so.

use super::layout::*;
use crate::head::SLOTS;
use crate::{Corrupt, PAGE_BYTES};
use std::ops::Range;

/// Why there cannot be such an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// It would have too many regions, or none.
    Regions {
        /// How many.
        found: u32,
    },
    /// It is too long, or too short for its tables and one chunk.
    Chunks {
        /// How many it would have.
        found: u64,
        /// How many it must have.
        least: u32,
    },
}

/// Where everything lies in an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    chunks: u32,
    regions: u32,
    buckets: u32,
    index_at: usize,
    chunk_owners_at: usize,
    records_at: usize,
    page_owners_at: usize,
    tables_chunks: u32,
    is_handed_in: bool,
}

impl Geometry {
    /// That of an arena of so many chunks, for at most so many regions.
    ///
    /// # Errors
    /// If there are too many or too few.
    pub fn new(chunks: u64, regions: u32) -> Result<Geometry, Unfit> {
        if regions == 0 || regions > REGIONS_MAX {
            return Err(Unfit::Regions { found: regions });
        }
        let count = chunks.min(CHUNKS_MAX.into()) as usize;
        // With at most half of the buckets in use, chains stay short.
        let buckets = (2 * regions).next_power_of_two();
        let index_at = HEADER_BYTES;
        let chunk_owners_at = (index_at + 4 * buckets as usize).next_multiple_of(PAGE_BYTES);
        let records_at = (chunk_owners_at + 4 * count).next_multiple_of(PAGE_BYTES);
        let page_owners_at = (records_at + regions as usize * RECORD_BYTES).next_multiple_of(PAGE_BYTES);
        let tables_chunks = (page_owners_at + 4 * CHUNK_PAGES * count).div_ceil(CHUNK_BYTES) as u32;
        if chunks > CHUNKS_MAX.into() || chunks <= tables_chunks.into() {
            return Err(Unfit::Chunks { found: chunks, least: tables_chunks + 1 });
        }
        let chunks = chunks as u32;
        let is_handed_in = false;
        Ok(Geometry {
            chunks,
            regions,
            buckets,
            index_at,
            chunk_owners_at,
            records_at,
            page_owners_at,
            tables_chunks,
            is_handed_in,
        })
    }

    /// The same, for a file that is handed in as a descriptor and carries all locks itself, or for one with others beside it.
    pub fn handed_in(self, is_handed_in: bool) -> Geometry {
        Geometry { is_handed_in, ..self }
    }

    /// Whether the file carries all locks itself.
    pub fn is_handed_in(&self) -> bool {
        self.is_handed_in
    }

    /// The header, as a new arena gets it. The magic is left out: it is written when all else exists.
    pub fn encode(&self, created_ns: u64) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        for (at, value, _) in self.words32() {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        for (at, value, _) in self.words64() {
            bytes[at..at + 8].copy_from_slice(&(value as u64).to_le_bytes());
        }
        bytes[CREATED_NS_AT..CREATED_NS_AT + 8].copy_from_slice(&created_ns.to_le_bytes());
        let crc = crc32fast::hash(&bytes[ABI_AT..CRC_AT]);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn words32(&self) -> [(usize, u32, &'static str); 10] {
        [
            (ABI_AT, ABI, "format version"),
            (PAGE_BYTES_AT, PAGE_BYTES as u32, "page bytes"),
            (CHUNK_BYTES_AT, CHUNK_BYTES as u32, "chunk bytes"),
            (RECORD_BYTES_AT, RECORD_BYTES as u32, "record bytes"),
            (SLOTS_AT, SLOTS as u32, "ring slots"),
            (CHUNKS_AT, self.chunks, "chunks"),
            (REGIONS_AT, self.regions, "regions"),
            (BUCKETS_AT, self.buckets, "buckets"),
            (TABLES_CHUNKS_AT, self.tables_chunks, "chunks of tables"),
            (HANDED_IN_AT, self.is_handed_in.into(), "handed in"),
        ]
    }

    fn words64(&self) -> [(usize, usize, &'static str); 4] {
        [
            (INDEX_AT, self.index_at, "index at byte"),
            (CHUNK_OWNERS_AT, self.chunk_owners_at, "owners of chunks at byte"),
            (RECORDS_AT, self.records_at, "records at byte"),
            (PAGE_OWNERS_AT, self.page_owners_at, "owners of pages at byte"),
        ]
    }

    /// That of the arena whose file begins with `header` and has `file_bytes` bytes; `None` if it is not finished.
    ///
    /// # Errors
    /// If it is no arena, one of another format, damaged, or cut short.
    pub fn decode(header: &[u8], file_bytes: u64) -> Result<Option<Geometry>, Corrupt> {
        let word32 = |at: usize| header.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
        let word64 = |at: usize| header.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
        match word64(MAGIC_AT) {
            None | Some(0 | MAKING) => return Ok(None),
            Some(MAGIC) => {}
            Some(found) => {
                let found = format!("{:02x?}", found.to_le_bytes());
                return Err(Corrupt::new(FILE, MAGIC_AT, "the magic \"STILAREN\"", found));
            }
        }
        let cut = || Corrupt::cut(FILE, header.len() as u64, HEADER_BYTES as u64);
        // Only one format is known, and what else stands there may mean anything in another.
        match word32(ABI_AT).ok_or_else(cut)? {
            ABI => {}
            found => return Err(Corrupt::new(FILE, ABI_AT, format!("format version {ABI}"), found)),
        }
        let [chunks, regions] = [word32(CHUNKS_AT), word32(REGIONS_AT)];
        let (chunks, regions) = (chunks.ok_or_else(cut)?, regions.ok_or_else(cut)?);
        let geometry = Geometry::new(chunks.into(), regions).map_err(|unfit| match unfit {
            Unfit::Regions { found } => Corrupt::new(FILE, REGIONS_AT, format!("1 to {REGIONS_MAX} regions"), found),
            Unfit::Chunks { found, least } => {
                Corrupt::new(FILE, CHUNKS_AT, format!("{least} to {CHUNKS_MAX} chunks"), found)
            }
        })?;
        let geometry = geometry.handed_in(word32(HANDED_IN_AT) == Some(1));
        let words32 = geometry.words32().map(|(at, expected, what)| (at, u64::from(expected), what, 4));
        let words64 = geometry.words64().map(|(at, expected, what)| (at, expected as u64, what, 8));
        for (at, expected, what, bytes) in words32.into_iter().chain(words64) {
            let found = if bytes == 4 { word32(at).map(u64::from) } else { word64(at) }.ok_or_else(cut)?;
            if found != expected {
                return Err(Corrupt::new(FILE, at, format!("{what} {expected}"), found));
            }
        }
        let known = header.get(..HEADER_BYTES).ok_or_else(cut)?;
        let (expected, found) = (crc32fast::hash(&known[ABI_AT..CRC_AT]), word32(CRC_AT).ok_or_else(cut)?);
        if found != expected {
            return Err(Corrupt::new(FILE, CRC_AT, format!("checksum {expected}"), found));
        }
        if file_bytes < geometry.bytes() {
            return Err(Corrupt::cut(FILE, file_bytes, geometry.bytes()));
        }
        Ok(Some(geometry))
    }

    /// Length of the arena in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.chunks) * CHUNK_BYTES as u64
    }

    /// The chunks that regions may have.
    pub fn free_chunks(&self) -> Range<u32> {
        self.tables_chunks..self.chunks
    }

    /// The most regions.
    pub fn regions(&self) -> u32 {
        self.regions
    }

    /// Buckets of the index.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    /// Length in bytes of what is written, and has memory, from the beginning: header, index, and owners of chunks.
    pub fn begin_bytes(&self) -> usize {
        self.records_at
    }

    /// Offset of a bucket; the number may run past the end, and goes on at the beginning.
    pub fn bucket_at(&self, bucket: u32) -> usize {
        self.index_at + 4 * (bucket & (self.buckets - 1)) as usize
    }

    /// Offset of the owner word of a chunk.
    ///
    /// # Panics
    /// If there is no such chunk.
    pub fn chunk_owner_at(&self, chunk: u32) -> usize {
        assert!(chunk < self.chunks, "chunk {chunk} of {}", self.chunks);
        self.chunk_owners_at + 4 * chunk as usize
    }

    /// Offset of the owner word of a page.
    ///
    /// # Panics
    /// If there is no such page.
    pub fn page_owner_at(&self, page: u32) -> usize {
        assert!(chunk_of(page) < self.chunks, "page {page} of {} chunks", self.chunks);
        self.page_owners_at + 4 * page as usize
    }

    /// Offset of the record of a region.
    ///
    /// # Panics
    /// If there is no such record.
    pub fn record_at(&self, region: u32) -> usize {
        assert!(region < self.regions, "record {region} of {}", self.regions);
        self.records_at + RECORD_BYTES * region as usize
    }
}
