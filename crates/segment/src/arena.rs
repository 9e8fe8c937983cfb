//! The `arena` file: many regions in one file of fixed length.
//!
//! The file is cut into chunks of one window, numbered by their offset. The first chunks hold the arena's own tables: a
//! header, an index of regions by name (a hash table with linear probing), an owner word for each chunk, a record for each
//! region, and an owner word for each page. All numbers are little-endian. Where each table lies follows from the number of
//! chunks and the most regions, so that a header can only be right or wrong.
//!
//! A chunk belongs to one region, or is *small*: then each of its pages has an owner, and the words of its pages mean
//! something only then. Owner words are taken by compare-and-swap. The index and the state of records are changed by one
//! process at a time, whoever has the write lock on the byte at [`CREATE_AT`]; the word at [`PENDING_AT`] says what it is
//! changing, so that whoever gets the lock after its death can undo or finish that.
//!
//! The locks of all regions lie in a few files, or in one: ranges of all kinds are apart. The kernel looks through the locks of a
//! file one by one, so leases on many regions lie in several ([`lease_file`]).

use crate::head::SLOTS;
use crate::{Corrupt, PAGE_BYTES, WINDOW_BYTES, WINDOW_PAGES, lease};
use std::ops::Range;

/// Name of the file.
pub const FILE: &str = "arena";
/// First eight bytes of a finished arena: "STILAREN".
pub const MAGIC: u64 = u64::from_le_bytes(*b"STILAREN");
/// Version of this format. An arena with another one is refused.
pub const ABI: u32 = 1;
/// Bytes of a chunk.
pub const CHUNK_BYTES: usize = WINDOW_BYTES;
/// Pages of a chunk.
pub const CHUNK_PAGES: usize = WINDOW_PAGES;
/// Most chunks of an arena, so that numbers of pages have 32 bits: nearly 16 TiB.
pub const CHUNKS_MAX: u32 = (1 << 23) - 1;
/// Most regions of an arena.
pub const REGIONS_MAX: u32 = 1 << 19;

/// Offset of the magic, 8 bytes; zero until everything else is written.
pub const MAGIC_AT: usize = 0;
/// Offset of the format's version, 4 bytes.
pub const ABI_AT: usize = 8;
/// Offset of the page size in bytes, 4 bytes.
pub const PAGE_BYTES_AT: usize = 12;
/// Offset of the chunk size in bytes, 4 bytes.
pub const CHUNK_BYTES_AT: usize = 16;
/// Offset of the record size in bytes, 4 bytes.
pub const RECORD_BYTES_AT: usize = 20;
/// Offset of the number of ring slots that a region's leases have, 4 bytes.
pub const SLOTS_AT: usize = 24;
/// Offset of the arena's length in chunks, 4 bytes.
pub const CHUNKS_AT: usize = 28;
/// Offset of the most regions it can have, 4 bytes.
pub const REGIONS_AT: usize = 32;
/// Offset of the number of buckets of the index, 4 bytes: a power of two.
pub const BUCKETS_AT: usize = 36;
/// Offset of the offset of the index, 8 bytes.
pub const INDEX_AT: usize = 40;
/// Offset of the offset of the chunks' owner words, 8 bytes.
pub const CHUNK_OWNERS_AT: usize = 48;
/// Offset of the offset of the records, 8 bytes.
pub const RECORDS_AT: usize = 56;
/// Offset of the offset of the pages' owner words, 8 bytes.
pub const PAGE_OWNERS_AT: usize = 64;
/// Offset of the number of chunks that the arena's own tables take, 4 bytes.
pub const TABLES_CHUNKS_AT: usize = 72;
/// Offset of the time of creation in nanoseconds since 1970, 8 bytes.
pub const CREATED_NS_AT: usize = 80;
/// Offset of the CRC-32 of the bytes between the magic and this, 4 bytes.
pub const CRC_AT: usize = 88;
/// Offset of what is being changed, 4 bytes, *changing*: the number of a record + 1, [`REPLACING`], [`RENAMING`], or zero.
pub const PENDING_AT: usize = 128;
/// Offset of the number below which all records are that were ever used, 4 bytes, *changing*.
pub const RECORDS_END_AT: usize = 132;
/// Offset of about how many records are being removed, 4 bytes, *changing*: a hint.
pub const REMOVING_AT: usize = 136;
/// Offset of the process number of who changed records last, 4 bytes, *changing*; for people only.
pub const CREATOR_PID_AT: usize = 140;
/// Offset of the record whose name is being written, 4 bytes, *changing*: its number + 1, or zero.
pub const RENAMED_AT: usize = 144;
/// Offset of the name that is being taken from regions, 256 bytes, *changing*: its length, 4 bytes, and 4 bytes later the name.
pub const FROM_AT: usize = 512;
/// Offset of the name that they get instead, in the same form.
pub const TO_AT: usize = 768;
/// Offset of the whole name of the record that [`RENAMED_AT`] names, in the same form.
pub const NEW_NAME_AT: usize = 1024;
/// Length of a name in the header.
pub const NAME_FIELD_BYTES: usize = 256;
/// Length of the header.
pub const HEADER_BYTES: usize = PAGE_BYTES;

/// Value at [`PENDING_AT`]: the region of the name at [`TO_AT`] and the ranks of its group are being removed, and those of the
/// name at [`FROM_AT`] get their names then.
pub const REPLACING: u32 = u32::MAX;
/// Value at [`PENDING_AT`]: the region of the name at [`FROM_AT`] and the ranks of its group are being given the name at
/// [`TO_AT`].
pub const RENAMING: u32 = u32::MAX - 1;

/// Value of an owner word: nobody's.
pub const FREE: u32 = 0;
/// Value of a chunk's owner word: its pages have owners of their own.
pub const SMALL: u32 = u32::MAX;
/// Value of a chunk's owner word: it holds the arena's tables.
pub const TABLES: u32 = u32::MAX - 1;
/// Value of a bucket: none, and none behind it in its chain.
pub const EMPTY: u32 = 0;
/// Value of a bucket: none any more, though there may be some behind it.
pub const DELETED: u32 = u32::MAX;

/// Bytes of a record.
pub const RECORD_BYTES: usize = 256;
/// Longest name of a region in bytes: 200, and what is put before and behind it while it is hidden or set aside.
pub const NAME_BYTES_MAX: usize = 216;
/// Records are given memory in so many at once.
pub const RECORDS_PER_BLOCK: u32 = 64;

/// Offsets inside a record.
pub mod record {
    /// State, 4 bytes.
    pub const STATE_AT: usize = 0;
    /// Generation, 4 bytes: grows with each region that gets the record, and is never 0 for one.
    pub const GENERATION_AT: usize = 4;
    /// Chunks outside which the region owns nothing, 8 bytes: `end << 32 | first`, 0 for none.
    pub const SPAN_AT: usize = 8;
    /// Page with the beginning of the region's head, 4 bytes, 0 if there is none.
    pub const HEAD_PAGE_AT: usize = 16;
    /// Process number of the last producer, 4 bytes; for people only.
    pub const PID_AT: usize = 20;
    /// Time of creation in nanoseconds since 1970, 8 bytes.
    pub const CREATED_NS_AT: usize = 24;
    /// Length of the name in bytes, 4 bytes.
    pub const NAME_BYTES_AT: usize = 32;
    /// The name, 216 bytes.
    pub const NAME_AT: usize = 40;
}

/// Bytes of the lock range that each ring slot of each region owns: the length of a lock tells when it was taken.
pub const SLOT_STRIDE: u64 = 1 << 37;
/// First byte of those that the producers lock for reading, one for each region, to show that they live.
pub const LIVE_AT: u64 = 1 << 62;
/// First byte of those that the producers lock for writing, one for each region, where no reader may.
pub const PRODUCER_AT: u64 = LIVE_AT + (1 << 20);
/// The byte that is locked for writing by whoever changes records.
pub const CREATE_AT: u64 = LIVE_AT + (1 << 21);

/// Neighbouring regions whose leases lie in one file.
pub const LEASE_REGIONS: u32 = 256;
/// Most files with leases.
pub const LEASE_FILES: u32 = 64;

/// How many files with leases an arena for so many regions has.
pub const fn lease_files(regions: u32) -> u32 {
    let files = regions.div_ceil(LEASE_REGIONS);
    if files < LEASE_FILES { files } else { LEASE_FILES }
}

/// Which of the files with leases has those on a region.
pub const fn lease_number(region: u32) -> u32 {
    region / LEASE_REGIONS % LEASE_FILES
}

/// Name of a file with leases. The first has the signs that producers live, too.
pub fn lease_file(number: u32) -> String {
    match number {
        0 => lease::FILE.into(),
        _ => format!("{}.{number}", lease::FILE),
    }
}

/// First byte of a slot's range, the only one that decides whether the slot is held.
pub const fn slot_at(region: u32, slot: usize) -> u64 {
    (region as u64 * SLOTS as u64 + slot as u64) * SLOT_STRIDE
}

/// The range of all slots of a region: its first byte, and its length.
pub const fn slots_range(region: u32) -> (u64, u64) {
    (slot_at(region, 0), SLOTS as u64 * SLOT_STRIDE)
}

/// Length of a lock taken `taken_ms` milliseconds after the start of the machine's monotonic clock.
pub fn lock_bytes(taken_ms: u64) -> u64 {
    1 + taken_ms.min(SLOT_STRIDE - 2)
}

/// Region, slot and time of taking of a lock from byte `first` to byte `last`, both included, as the kernel lists it.
/// `None` if it is no lease.
pub fn decode_lock(first: u64, last: u64) -> Option<(u32, usize, u64)> {
    let is_lease = first < LIVE_AT && first.is_multiple_of(SLOT_STRIDE) && (first..first + SLOT_STRIDE).contains(&last);
    let slot = first / SLOT_STRIDE;
    is_lease.then(|| ((slot / SLOTS as u64) as u32, (slot % SLOTS as u64) as usize, last - first))
}

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
        Ok(Geometry { chunks, regions, buckets, index_at, chunk_owners_at, records_at, page_owners_at, tables_chunks })
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

    fn words32(&self) -> [(usize, u32, &'static str); 9] {
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
            None | Some(0) => return Ok(None),
            Some(MAGIC) => {}
            Some(found) => {
                let found = format!("{:02x?}", found.to_le_bytes());
                return Err(Corrupt::new(FILE, MAGIC_AT, "the magic \"STILAREN\"", found));
            }
        }
        let cut = || Corrupt::new(FILE, header.len(), format!("{HEADER_BYTES} bytes"), "the end of the file");
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
            let expected = format!("{} bytes", geometry.bytes());
            return Err(Corrupt::new(FILE, file_bytes as usize, expected, "the end of the file"));
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

    /// Checks the number of records that were ever used, found at [`RECORDS_END_AT`].
    ///
    /// # Errors
    /// If there are not so many.
    pub fn check_records_end(&self, found: u32) -> Result<u32, Corrupt> {
        match found <= self.regions {
            true => Ok(found),
            false => Err(Corrupt::new(FILE, RECORDS_END_AT, format!("at most {}", self.regions), found)),
        }
    }

    /// What is being changed, found at [`PENDING_AT`].
    ///
    /// # Errors
    /// If there is no record of this number.
    pub fn decode_pending(&self, found: u32) -> Result<Pending, Corrupt> {
        match found {
            0 => Ok(Pending::Nothing),
            REPLACING => Ok(Pending::Replacing),
            RENAMING => Ok(Pending::Renaming),
            found if found <= self.regions => Ok(Pending::Record(found - 1)),
            found => Err(Corrupt::new(FILE, PENDING_AT, format!("at most {}", self.regions), found)),
        }
    }

    /// What stands in a bucket.
    ///
    /// # Errors
    /// If there is no such region.
    pub fn decode_bucket(&self, bucket: u32, word: u32) -> Result<Bucket, Corrupt> {
        match word {
            EMPTY => Ok(Bucket::Empty),
            DELETED => Ok(Bucket::Deleted),
            word if word <= self.regions => Ok(Bucket::Region(word - 1)),
            found => {
                let expected = format!("at most {}, or {DELETED}", self.regions);
                Err(Corrupt::new(FILE, self.bucket_at(bucket), expected, found))
            }
        }
    }

    /// Whose a chunk is.
    ///
    /// # Errors
    /// If there is no such region, or the arena's tables are said to be elsewhere than they are.
    pub fn decode_chunk_owner(&self, chunk: u32, word: u32) -> Result<Owner, Corrupt> {
        let fail = |expected: String| Err(Corrupt::new(FILE, self.chunk_owner_at(chunk), expected, word));
        let is_tables = chunk < self.tables_chunks;
        match word {
            TABLES if is_tables => Ok(Owner::Tables),
            _ if is_tables => fail(TABLES.to_string()),
            FREE => Ok(Owner::Free),
            SMALL => Ok(Owner::Small),
            word if word <= self.regions => Ok(Owner::Region(word - 1)),
            _ => fail(format!("at most {}, or {SMALL}", self.regions)),
        }
    }

    /// Whose a page of a small chunk is; `None` if nobody's.
    ///
    /// # Errors
    /// If there is no such region.
    pub fn decode_page_owner(&self, page: u32, word: u32) -> Result<Option<u32>, Corrupt> {
        match word {
            FREE => Ok(None),
            word if word <= self.regions => Ok(Some(word - 1)),
            found => Err(Corrupt::new(FILE, self.page_owner_at(page), format!("at most {}", self.regions), found)),
        }
    }

    /// The chunks outside which a region owns nothing, found at [`record::SPAN_AT`] of its record.
    ///
    /// # Errors
    /// If there are no such chunks.
    pub fn decode_span(&self, region: u32, word: u64) -> Result<Range<u32>, Corrupt> {
        let (first, end) = (word as u32, (word >> 32) as u32);
        let all = self.free_chunks();
        if word == 0 || (first < end && all.start <= first && end <= all.end) {
            return Ok(first..end);
        }
        let at = self.record_at(region) + record::SPAN_AT;
        Err(Corrupt::new(FILE, at, format!("chunks of {} to {}", all.start, all.end), format!("{first} to {end}")))
    }

    /// Takes a record apart that says it is in use.
    ///
    /// # Errors
    /// If a number in it makes no sense, or the name is none.
    pub fn decode_record(&self, region: u32, bytes: &[u8; RECORD_BYTES]) -> Result<Record, Corrupt> {
        let word32 = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let word64 = |at: usize| u64::from(word32(at)) | u64::from(word32(at + 4)) << 32;
        let fail = |at: usize, expected: String, found: String| {
            Err(Corrupt::new(FILE, self.record_at(region) + at, expected, found))
        };
        let Some(state) = State::decode(word32(record::STATE_AT)) else {
            return fail(record::STATE_AT, "a state from 0 to 4".into(), word32(record::STATE_AT).to_string());
        };
        let generation = word32(record::GENERATION_AT);
        if generation == 0 && state != State::Free {
            return fail(record::GENERATION_AT, "a number above 0".into(), "0".into());
        }
        let head_page = word32(record::HEAD_PAGE_AT);
        if head_page != 0 && !self.free_chunks().contains(&chunk_of(head_page)) {
            let expected = format!("a page of chunks {:?}", self.free_chunks());
            return fail(record::HEAD_PAGE_AT, expected, head_page.to_string());
        }
        // A name that is just being written is nobody's.
        let name_bytes = if state == State::Renaming { 0 } else { word32(record::NAME_BYTES_AT) as usize };
        if name_bytes > NAME_BYTES_MAX {
            return fail(record::NAME_BYTES_AT, format!("at most {NAME_BYTES_MAX}"), name_bytes.to_string());
        }
        let name = std::str::from_utf8(&bytes[record::NAME_AT..record::NAME_AT + name_bytes]).unwrap_or("");
        if !matches!(state, State::Free | State::Renaming) && !is_name(name) {
            return fail(record::NAME_AT, "a region's name".into(), format!("{name:?}"));
        }
        Ok(Record {
            state,
            generation,
            head_page: (head_page != 0).then_some(head_page),
            span: self.decode_span(region, word64(record::SPAN_AT))?,
            pid: word32(record::PID_AT),
            created_ns: word64(record::CREATED_NS_AT),
            name: name.into(),
        })
    }
}

/// The chunk of a page.
pub const fn chunk_of(page: u32) -> u32 {
    page / CHUNK_PAGES as u32
}

/// The pages of a chunk.
pub const fn pages_of(chunk: u32) -> Range<u32> {
    let first = chunk * CHUNK_PAGES as u32;
    first..first + CHUNK_PAGES as u32
}

/// The span word of these chunks.
pub const fn encode_span(span: &Range<u32>) -> u64 {
    (span.start as u64) | (span.end as u64) << 32
}

/// The word of a region as an owner, and in the index.
pub const fn word_of(region: u32) -> u32 {
    region + 1
}

/// The generation after this one.
pub const fn next_generation(generation: u32) -> u32 {
    match generation.wrapping_add(1) {
        0 => 1,
        next => next,
    }
}

/// Where the search for a name begins in the index: CRC-32 (IEEE) of the name, of which the low bits are a bucket's number.
pub fn hash(name: &str) -> u32 {
    crc32fast::hash(name.as_bytes())
}

/// Whether a text can be a region's name in an arena. Who makes regions is stricter.
pub fn is_name(name: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-~/".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_good)
}

/// A name in the header, as it is written there.
pub fn encode_name(name: &str) -> [u8; NAME_FIELD_BYTES] {
    let mut bytes = [0; NAME_FIELD_BYTES];
    let name = &name.as_bytes()[..name.len().min(NAME_BYTES_MAX)];
    bytes[..4].copy_from_slice(&(name.len() as u32).to_le_bytes());
    bytes[8..8 + name.len()].copy_from_slice(name);
    bytes
}

/// A name in the header, found at `at`.
///
/// # Errors
/// If it is none.
pub fn decode_name(at: usize, bytes: &[u8; NAME_FIELD_BYTES]) -> Result<String, Corrupt> {
    let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
    let name = bytes.get(8..).and_then(|rest| rest.get(..length)).unwrap_or(&[]);
    match std::str::from_utf8(name) {
        Ok(name) if is_name(name) => Ok(name.into()),
        _ => Err(Corrupt::new(FILE, at, "a region's name", format!("{:?}", String::from_utf8_lossy(name)))),
    }
}

/// State of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// No region has it.
    Free,
    /// A region is being made: nobody sees it, and who made it died if nobody has the lock.
    Making,
    /// A region has it.
    Used,
    /// The region was removed, and has its chunks and pages until nobody holds a version of it.
    Removing,
    /// A region has it whose name is just being written.
    Renaming,
}

impl State {
    /// The state of this number, if it is one.
    pub fn decode(word: u32) -> Option<State> {
        let all = [State::Free, State::Making, State::Used, State::Removing, State::Renaming];
        all.into_iter().find(|state| *state as u32 == word)
    }
}

/// What is being changed by whoever has the creation lock, or was when it died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pending {
    /// Nothing.
    Nothing,
    /// The record of this number.
    Record(u32),
    /// Regions are being removed whose names others get.
    Replacing,
    /// Regions are being renamed.
    Renaming,
}

/// What stands in a bucket of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bucket {
    /// None, and none behind it.
    Empty,
    /// None any more.
    Deleted,
    /// The region of this number.
    Region(u32),
}

/// Whose a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Nobody's.
    Free,
    /// Its pages have owners of their own.
    Small,
    /// The arena's own.
    Tables,
    /// The region's of this number.
    Region(u32),
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Whether a region has it.
    pub state: State,
    /// Tells the regions apart that had the record one after the other.
    pub generation: u32,
    /// Page with the beginning of the region's head.
    pub head_page: Option<u32>,
    /// Chunks outside which the region owns nothing.
    pub span: Range<u32>,
    /// Process number of the last producer; for people only.
    pub pid: u32,
    /// Time of creation in nanoseconds since 1970.
    pub created_ns: u64,
    /// Name of the region.
    pub name: String,
}

impl Record {
    /// The record as bytes.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let words = [
            (record::STATE_AT, self.state as u32),
            (record::GENERATION_AT, self.generation),
            (record::HEAD_PAGE_AT, self.head_page.unwrap_or(0)),
            (record::PID_AT, self.pid),
            (record::NAME_BYTES_AT, self.name.len() as u32),
        ];
        for (at, word) in words {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[record::SPAN_AT..record::SPAN_AT + 8].copy_from_slice(&encode_span(&self.span).to_le_bytes());
        bytes[record::CREATED_NS_AT..record::CREATED_NS_AT + 8].copy_from_slice(&self.created_ns.to_le_bytes());
        bytes[record::NAME_AT..record::NAME_AT + self.name.len()].copy_from_slice(self.name.as_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A deterministic stream of numbers.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) as usize % limit
        }
    }

    fn finished(geometry: &Geometry) -> Vec<u8> {
        let mut bytes = geometry.encode(7);
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes
    }

    #[test]
    fn a_geometry_survives_its_header() {
        for (chunks, regions) in [(2, 1), (16, 64), (512, 1000), (1 << 19, 16_000), (CHUNKS_MAX.into(), REGIONS_MAX)] {
            let geometry = Geometry::new(chunks, regions).unwrap();
            let header = finished(&geometry);
            assert_eq!(Geometry::decode(&header, geometry.bytes()), Ok(Some(geometry)));
            assert_eq!(Geometry::decode(&geometry.encode(7), geometry.bytes()), Ok(None));
            let cut = Geometry::decode(&header, geometry.bytes() - 1).unwrap_err();
            assert_eq!((cut.offset, cut.found.as_str()), (geometry.bytes() - 1, "the end of the file"));
            assert!(geometry.buckets() >= 2 * regions && geometry.buckets().is_power_of_two());
            // The tables follow each other, and end before the first chunk of the regions.
            assert!(geometry.bucket_at(geometry.buckets() - 1) < geometry.chunk_owner_at(0));
            assert!(geometry.chunk_owner_at(chunks as u32 - 1) < geometry.record_at(0));
            assert!(geometry.record_at(regions - 1) + RECORD_BYTES <= geometry.page_owner_at(0));
            let last = geometry.page_owner_at(pages_of(chunks as u32 - 1).end - 1) + 4;
            assert!(last <= geometry.free_chunks().start as usize * CHUNK_BYTES);
            assert_eq!(geometry.bucket_at(geometry.buckets()), geometry.bucket_at(0));
        }
        assert_eq!(Geometry::new(1, 1), Err(Unfit::Chunks { found: 1, least: 2 }));
        assert_eq!(Geometry::new(9, 0), Err(Unfit::Regions { found: 0 }));
        assert_eq!(Geometry::new(9, REGIONS_MAX + 1), Err(Unfit::Regions { found: REGIONS_MAX + 1 }));
        assert!(matches!(Geometry::new(u64::from(CHUNKS_MAX) + 1, 1), Err(Unfit::Chunks { .. })));
    }

    #[test]
    fn the_tables_of_many_regions_are_few_mib() {
        let geometry = Geometry::new(1 << 15, 16_000).unwrap();
        let records = geometry.page_owners_at - geometry.records_at;
        assert!(geometry.begin_bytes() + records < 5 << 20, "{geometry:?}");
        assert!(geometry.begin_bytes() < 512 << 10, "{geometry:?}");
    }

    #[test]
    fn a_header_that_was_changed_anywhere_is_refused() {
        let geometry = Geometry::new(512, 1000).unwrap();
        let whole = finished(&geometry);
        for at in 0..CRC_AT + 4 {
            for bit in 0..8 {
                let mut header = whole.clone();
                header[at] ^= 1 << bit;
                let found = Geometry::decode(&header, geometry.bytes());
                assert!(matches!(&found, Err(corrupt) if corrupt.offset as usize <= CRC_AT), "byte {at}: {found:?}");
            }
        }
        for bytes in 8..HEADER_BYTES {
            assert!(Geometry::decode(&whole[..bytes], geometry.bytes()).is_err(), "{bytes} bytes");
        }
        for bytes in 0..8 {
            assert_eq!(Geometry::decode(&whole[..bytes], 0), Ok(None));
        }
    }

    #[test]
    fn any_bytes_are_a_header_or_an_error() {
        let mut numbers = Numbers(1);
        let whole = finished(&Geometry::new(64, 100).unwrap());
        for _ in 0..20_000 {
            let mut header = whole.clone();
            for _ in 0..1 + numbers.below(4) {
                let at = 8 + numbers.below(CREATED_NS_AT - 8);
                header[at] = numbers.below(256) as u8;
            }
            // As a writer would that means harm.
            let crc = crc32fast::hash(&header[ABI_AT..CRC_AT]);
            header[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
            if let Ok(Some(geometry)) = Geometry::decode(&header, u64::MAX) {
                let known = 8..TABLES_CHUNKS_AT + 4;
                assert_eq!(geometry.encode(7)[known.clone()], header[known]);
            }
        }
    }

    fn sample() -> Record {
        let name = "group/17".to_string();
        let (state, span) = (State::Used, 3..9);
        Record { state, generation: 4, head_page: Some(513), span, pid: 77, created_ns: 1 << 40, name }
    }

    #[test]
    fn a_record_survives_its_bytes() {
        let geometry = Geometry::new(64, 100).unwrap();
        let longest = Record { name: "n".repeat(NAME_BYTES_MAX), head_page: None, span: 0..0, ..sample() };
        for record in [sample(), longest] {
            assert_eq!(geometry.decode_record(5, &record.encode()), Ok(record));
        }
        const { assert!(record::NAME_AT + NAME_BYTES_MAX <= RECORD_BYTES) };
        let wrong = [
            (record::STATE_AT, Record { generation: 4, ..sample() }, vec![9, 0, 0, 0]),
            (record::GENERATION_AT, Record { generation: 0, ..sample() }, vec![]),
            (record::HEAD_PAGE_AT, Record { head_page: Some(3), ..sample() }, vec![]),
            (record::HEAD_PAGE_AT, Record { head_page: Some(u32::MAX), ..sample() }, vec![]),
            (record::SPAN_AT, Record { span: 4..4, ..sample() }, vec![]),
            (record::SPAN_AT, Record { span: 0..4, ..sample() }, vec![]),
            (record::SPAN_AT, Record { span: 4..65, ..sample() }, vec![]),
            (record::NAME_BYTES_AT, sample(), vec![217, 0, 0, 0]),
            (record::NAME_AT, Record { name: String::new(), ..sample() }, vec![]),
            (record::NAME_AT, Record { name: "a\nb".into(), ..sample() }, vec![]),
        ];
        for (at, record, bytes) in wrong {
            let mut encoded = record.encode();
            encoded[at..at + bytes.len()].copy_from_slice(&bytes);
            let corrupt = geometry.decode_record(5, &encoded).unwrap_err();
            assert_eq!(corrupt.offset as usize, geometry.record_at(5) + at, "{corrupt}");
        }
    }

    #[test]
    fn names_in_the_header_are_read_as_they_were_written() {
        for name in ["u", "heat/3", &"n".repeat(NAME_BYTES_MAX)] {
            let mut bytes = encode_name(name);
            assert_eq!(decode_name(FROM_AT, &bytes).unwrap(), name);
            bytes[3] = 1;
            assert_eq!(decode_name(FROM_AT, &bytes).unwrap_err().offset as usize, FROM_AT);
        }
        assert!(decode_name(TO_AT, &[0; NAME_FIELD_BYTES]).is_err());
    }

    #[test]
    fn any_bytes_are_a_record_or_an_error() {
        let geometry = Geometry::new(64, 100).unwrap();
        let mut numbers = Numbers(2);
        for _ in 0..50_000 {
            let mut bytes = sample().encode();
            for _ in 0..1 + numbers.below(5) {
                let at = numbers.below(RECORD_BYTES);
                bytes[at] = numbers.below(256) as u8;
            }
            match geometry.decode_record(99, &bytes) {
                Ok(record) => {
                    assert!(matches!(record.state, State::Free | State::Renaming) || is_name(&record.name));
                    assert!(record.span.end <= 64 && record.span.start <= record.span.end);
                    assert!(record.head_page.is_none_or(|page| chunk_of(page) < 64));
                }
                Err(corrupt) => {
                    let at = geometry.record_at(99) as u64;
                    assert!((at..at + RECORD_BYTES as u64).contains(&corrupt.offset), "{corrupt}");
                }
            }
        }
    }

    #[test]
    fn words_are_checked() {
        let geometry = Geometry::new(64, 100).unwrap();
        assert_eq!(geometry.decode_bucket(1, 0), Ok(Bucket::Empty));
        assert_eq!(geometry.decode_bucket(1, DELETED), Ok(Bucket::Deleted));
        assert_eq!(geometry.decode_bucket(1, word_of(99)), Ok(Bucket::Region(99)));
        assert_eq!(geometry.decode_bucket(1, word_of(100)).unwrap_err().offset as usize, geometry.bucket_at(1));
        assert_eq!(geometry.decode_chunk_owner(0, TABLES), Ok(Owner::Tables));
        assert!(geometry.decode_chunk_owner(0, FREE).is_err());
        assert_eq!(geometry.decode_chunk_owner(1, FREE), Ok(Owner::Free));
        assert_eq!(geometry.decode_chunk_owner(1, SMALL), Ok(Owner::Small));
        assert_eq!(geometry.decode_chunk_owner(1, word_of(7)), Ok(Owner::Region(7)));
        for word in [TABLES, word_of(100)] {
            let corrupt = geometry.decode_chunk_owner(1, word).unwrap_err();
            assert_eq!(corrupt.offset as usize, geometry.chunk_owner_at(1));
        }
        assert_eq!(geometry.decode_page_owner(513, 0), Ok(None));
        assert_eq!(geometry.decode_page_owner(513, word_of(8)), Ok(Some(8)));
        assert!(geometry.decode_page_owner(513, SMALL).is_err());
        assert_eq!(geometry.decode_pending(0), Ok(Pending::Nothing));
        assert_eq!(geometry.decode_pending(100), Ok(Pending::Record(99)));
        assert!(geometry.decode_pending(101).is_err());
        assert!(geometry.check_records_end(100).is_ok() && geometry.check_records_end(101).is_err());
        assert_eq!((next_generation(0), next_generation(u32::MAX)), (1, 1));
    }

    #[test]
    fn few_regions_have_one_file_of_leases_and_many_share_them_evenly() {
        assert_eq!([1, 256, 257, 16_000, 16_384, REGIONS_MAX].map(lease_files), [1, 1, 2, 63, 64, 64]);
        let mut counts = [0; LEASE_FILES as usize];
        for region in 0..REGIONS_MAX {
            let number = lease_number(region);
            assert!(number < lease_files(region + 1));
            counts[number as usize] += 1;
        }
        assert_eq!(counts, [REGIONS_MAX / LEASE_FILES; LEASE_FILES as usize]);
        assert_eq!([0, 1, 63].map(lease_file), ["lease", "lease.1", "lease.63"]);
    }

    #[test]
    fn a_lock_tells_its_region_its_slot_and_when_it_was_taken() {
        for (region, slot, taken_ms) in [(0, 0, 0), (3, 1, 77), (REGIONS_MAX - 1, SLOTS - 1, SLOT_STRIDE - 2)] {
            let first = slot_at(region, slot);
            assert_eq!(decode_lock(first, first + lock_bytes(taken_ms) - 1), Some((region, slot, taken_ms)));
        }
        let (first, bytes) = slots_range(REGIONS_MAX - 1);
        assert_eq!(first + bytes, LIVE_AT);
        assert_eq!(decode_lock(1, 5), None);
        assert_eq!(decode_lock(slot_at(2, 3), slot_at(2, 4)), None);
        for at in [LIVE_AT, PRODUCER_AT, CREATE_AT] {
            assert_eq!(decode_lock(at, at), None);
        }
        // All zones fit behind each other, and before the last byte that can be locked.
        let count = u64::from(REGIONS_MAX);
        assert!(LIVE_AT + count <= PRODUCER_AT && PRODUCER_AT + count <= CREATE_AT && CREATE_AT < i64::MAX as u64);
        assert!(lock_bytes(u64::MAX) < SLOT_STRIDE);
    }
}
