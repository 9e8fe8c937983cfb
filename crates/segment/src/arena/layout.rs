//! Constants of the format: where what lies in the header, and what words mean.

use crate::{PAGE_BYTES, WINDOW_BYTES, WINDOW_PAGES};
use std::ops::Range;

/// Name of the file.
pub const FILE: &str = "arena";
/// Name of an empty file while an arena is given all its memory; who does that has a lock on it (flock(2)).
pub const FILLING: &str = "filling";
/// Its name when that is done. Then it has the number of bytes in large pages, and nobody gives memory of the arena back.
pub const FILLED: &str = "filled";
/// First eight bytes of a finished arena: "STILAREN".
pub const MAGIC: u64 = u64::from_le_bytes(*b"STILAREN");
/// What stands there while an arena is being made. Who finds it, and nobody who makes the arena, begins anew.
pub const MAKING: u64 = u64::from_le_bytes(*b"STILMAKE");
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

/// Offset of the magic, 8 bytes; zero or [`MAKING`] until everything else is written.
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
/// Offset of whether the arena is a file that was handed in and carries all locks itself (1), or has files with locks beside
/// it (0), 4 bytes.
pub const HANDED_IN_AT: usize = 76;
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

/// The chunk of a page.
pub const fn chunk_of(page: u32) -> u32 {
    page / CHUNK_PAGES as u32
}

/// The pages of a chunk.
pub const fn pages_of(chunk: u32) -> Range<u32> {
    let first = chunk * CHUNK_PAGES as u32;
    first..first + CHUNK_PAGES as u32
}
