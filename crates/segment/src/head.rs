//! The `head` file: geometry, the newest version, and the ring of version descriptors.
//!
//! All numbers are little-endian. The first [`RING`] bytes are written once, when the region is created, except for the
//! words marked *changing*; the magic is written last, so a head without it is not finished. The descriptors follow.

use crate::{BLOCK_BYTES, Corrupt, PAGE_BYTES, WINDOW_PAGES, manifest, schema};

/// Name of the file.
pub const FILE: &str = "head";
/// First eight bytes: "STILFRAM".
pub const MAGIC: u64 = u64::from_le_bytes(*b"STILFRAM");
/// Version of this format. A region with another one is refused.
pub const ABI: u32 = 3;
/// Versions that can exist at once, retained and held ones together.
pub const SLOTS: usize = 64;

/// Offset of the magic, 8 bytes.
pub const MAGIC_AT: usize = 0;
/// Offset of the format's version, 4 bytes.
pub const ABI_AT: usize = 8;
/// Offset of the page size in bytes, 4 bytes.
pub const PAGE_BYTES_AT: usize = 12;
/// Offset of the number of pages of a window, 4 bytes.
pub const WINDOW_PAGES_AT: usize = 16;
/// Offset of the number of ring slots, 4 bytes.
pub const SLOTS_AT: usize = 20;
/// Offset of the block size in bytes, 4 bytes.
pub const BLOCK_BYTES_AT: usize = 24;
/// Offset of the number of newest versions that are retained, 4 bytes; set by each producer.
pub const KEEP_AT: usize = 28;
/// Offset of the time of creation in nanoseconds since 1970, 8 bytes.
pub const CREATED_NS_AT: usize = 32;
/// Offset of the bound on plane bytes, 8 bytes, 0 for none; set by each producer.
pub const BOUND_BYTES_AT: usize = 40;
/// Offset of the process number of the last producer, 4 bytes; for people only, never for decisions.
pub const PRODUCER_PID_AT: usize = 48;
/// Offset of the code of the last producer's tracker, 4 bytes.
pub const TRACKER_AT: usize = 52;
/// Offset of the region's rank in its group, 4 bytes; set by each producer.
pub const RANK_AT: usize = 56;
/// Offset of the number of ranks of the region's group, 4 bytes, 0 if it is of none; set by each producer.
pub const RANKS_AT: usize = 60;
/// Offset of the stamp of the newest version, 8 bytes, *changing*: `sequence << 8 | slot`, 0 before the first.
pub const NEWEST_AT: usize = 64;
/// Offset of the tentative retirement, 8 bytes, *changing*: sequence number of a version that the rank lets go unless the other ranks of
/// its group turn out to have it, 0 for none.
pub const TENTATIVE_AT: usize = 72;
/// Offset of the lapsed version, 8 bytes, *changing*: number of the newest version that the peers of the region all had and that it let go
/// for want of room, 0 for none.
pub const LAPSED_AT: usize = 80;
/// Offset of the word observers sleep on, 4 bytes, *changing*: counts publishes, and producers that come and go.
pub const NOTIFICATIONS_AT: usize = 128;
/// Offset of the counters, *changing*, 8 bytes each in the order of [`Counter`].
pub const COUNTERS_AT: usize = 192;
/// Offset of the time in nanoseconds since 1970 at which the last producer began, 8 bytes.
pub const BEGUN_NS_AT: usize = 256;
/// Offset of the time in nanoseconds since 1970 at which the last producer ended by itself, 8 bytes; 0 if it lives or was
/// killed.
pub const ENDED_NS_AT: usize = 264;
/// Offset of the highest number a schema had that a version could name, 4 bytes, *changing*; 0 if none is known.
pub const SCHEMAS_AT: usize = 272;
/// Offset of the number below which the ids of all variables are that there ever were, 4 bytes, *changing*; 0 if none is
/// known.
pub const IDS_AT: usize = 276;
/// Offset of the time in nanoseconds since 1970 at which the producer began to wait for room, 8 bytes, *changing*; 0 if it does
/// not wait. Earlier than the time at which the last producer began, it is a former one's and means nothing, as do the next two.
pub const WAITING_NS_AT: usize = 320;
/// Offset of the time in nanoseconds since 1970 of the first publish that was left out since the newest version, 8 bytes,
/// *changing*; 0 if none was.
pub const SKIPPING_NS_AT: usize = 328;
/// Offset of the number of publishes left out since the newest version, 8 bytes, *changing*.
pub const SKIPPING_AT: usize = 336;
/// Offset of the run of the group that the last producer belongs to, 8 bytes, *changing*; 0 while it has yet to find out which
/// that is. All ranks of a run have the same, and no other run has.
pub const RUN_AT: usize = 344;
/// Offset of the first descriptor.
pub const RING: usize = 4096;
/// Distance from one descriptor to the next.
pub const DESCRIPTOR_BYTES: usize = 128;
/// Length of the file.
pub const HEAD_BYTES: usize = RING + SLOTS * DESCRIPTOR_BYTES;

/// Most ranks of a group.
pub const RANKS_MAX: u32 = 1 << 16;
/// Sequence numbers are below this, so that they fit a stamp and a producer can count on from any it finds.
pub const SEQUENCE_END: u64 = 1 << 43;
/// Most windows a version may have: 128 TiB.
pub const WINDOWS_MAX: u32 = 1 << 26;

/// What a region counts, for those who watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Versions published.
    Published,
    /// Publishes that the rule *skip* left out.
    Skipped,
    /// Pages found dirty, over all publishes.
    DirtyPages,
    /// Pages copied, over all publishes.
    CopiedPages,
    /// Time spent in publish, in nanoseconds.
    PublishNs,
    /// Bytes of memory behind the planes.
    PlaneBytes,
    /// Number of planes; at least as many as the versions that can be held use.
    Planes,
    /// Bytes of working memory that exist beside the planes, as far as the producer knows.
    WorkingBytes,
}

/// All counters, in order.
pub const COUNTERS: [Counter; 8] = [
    Counter::Published,
    Counter::Skipped,
    Counter::DirtyPages,
    Counter::CopiedPages,
    Counter::PublishNs,
    Counter::PlaneBytes,
    Counter::Planes,
    Counter::WorkingBytes,
];

/// Offset of the descriptor of `slot`.
pub const fn descriptor_at(slot: usize) -> usize {
    RING + slot * DESCRIPTOR_BYTES
}

/// Offsets inside a descriptor.
pub mod descriptor {
    /// Stamp, 8 bytes: `sequence << 8 | state`; the states are those of the publish protocol.
    pub const STATE_AT: usize = 0;
    /// The producer's number of the version, 8 bytes.
    pub const VERSION_AT: usize = 8;
    /// First block of the manifest in `tables`, 4 bytes.
    pub const MANIFEST_BLOCK_AT: usize = 16;
    /// Length of the manifest in bytes, 4 bytes.
    pub const MANIFEST_BYTES_AT: usize = 20;
    /// First block of the window table in `tables`, 4 bytes.
    pub const TABLE_BLOCK_AT: usize = 24;
    /// Number of windows in the window table, 4 bytes.
    pub const WINDOWS_AT: usize = 28;
    /// CRC-32 of the manifest, 4 bytes.
    pub const MANIFEST_CRC_AT: usize = 32;
    /// CRC-32 of the window table (not of its sub-tables), 4 bytes.
    pub const TABLE_CRC_AT: usize = 36;
    /// Time of publishing in nanoseconds since 1970, 8 bytes.
    pub const PUBLISHED_NS_AT: usize = 40;
    /// Pages that were dirty, 8 bytes.
    pub const DIRTY_PAGES_AT: usize = 48;
    /// Pages of all variables, 8 bytes.
    pub const TOTAL_PAGES_AT: usize = 56;
    /// Number of the schema, 4 bytes.
    pub const SCHEMA_AT: usize = 64;
    /// The run that published the version, 8 bytes; 0 if that is not known.
    pub const RUN_AT: usize = 72;
}

/// The part of a descriptor that says where a version's content is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Descriptor {
    /// The producer's number of the version.
    pub version: u64,
    /// First block of the manifest.
    pub manifest_block: u32,
    /// Length of the manifest in bytes.
    pub manifest_bytes: u32,
    /// First block of the window table.
    pub table_block: u32,
    /// Number of windows.
    pub windows: u32,
    /// CRC-32 of the manifest.
    pub manifest_crc: u32,
    /// CRC-32 of the window table.
    pub table_crc: u32,
    /// Time of publishing in nanoseconds since 1970.
    pub published_ns: u64,
    /// Pages that were dirty.
    pub dirty_pages: u64,
    /// Pages of all variables.
    pub total_pages: u64,
    /// Number of the schema.
    pub schema: u32,
    /// The run that published the version.
    pub run: u64,
}

/// Words of a descriptor behind its state.
pub const DESCRIPTOR_WORDS: usize = 9;

impl Descriptor {
    /// The descriptor as the words that follow its state.
    pub fn encode(&self) -> [u64; DESCRIPTOR_WORDS] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [
            self.version,
            pair(self.manifest_block, self.manifest_bytes),
            pair(self.table_block, self.windows),
            pair(self.manifest_crc, self.table_crc),
            self.published_ns,
            self.dirty_pages,
            self.total_pages,
            u64::from(self.schema),
            self.run,
        ]
    }

    /// A descriptor from the words that follow its state.
    pub fn decode(words: [u64; DESCRIPTOR_WORDS]) -> Descriptor {
        let low = |word: u64| word as u32;
        let high = |word: u64| (word >> 32) as u32;
        Descriptor {
            version: words[0],
            manifest_block: low(words[1]),
            manifest_bytes: high(words[1]),
            table_block: low(words[2]),
            windows: high(words[2]),
            manifest_crc: low(words[3]),
            table_crc: high(words[3]),
            published_ns: words[4],
            dirty_pages: words[5],
            total_pages: words[6],
            schema: low(words[7]),
            run: words[8],
        }
    }

    /// Checks what does not depend on other files. `slot` is where the descriptor was found.
    pub fn check(&self, slot: usize) -> Result<(), Corrupt> {
        let fail = |at: usize, end: u64, found: u32| {
            Err(Corrupt::new(FILE, descriptor_at(slot) + at, format!("a number below {end}"), found))
        };
        if self.manifest_bytes as usize > manifest::BYTES_MAX {
            return fail(descriptor::MANIFEST_BYTES_AT, manifest::BYTES_MAX as u64 + 1, self.manifest_bytes);
        }
        if self.windows > WINDOWS_MAX {
            return fail(descriptor::WINDOWS_AT, u64::from(WINDOWS_MAX) + 1, self.windows);
        }
        if self.schema >= schema::ID_END {
            return fail(descriptor::SCHEMA_AT, schema::ID_END.into(), self.schema);
        }
        Ok(())
    }
}

/// Checks the highest number of a schema, found at [`SCHEMAS_AT`], and the end of the ids, found at [`IDS_AT`].
pub fn check_given(schemas: u32, ids: u32) -> Result<(), Corrupt> {
    let fail = |at: usize, end: u32, found: u32| Err(Corrupt::new(FILE, at, format!("a number below {end}"), found));
    if schemas >= schema::ID_END {
        return fail(SCHEMAS_AT, schema::ID_END, schemas);
    }
    if ids > schema::ID_END {
        return fail(IDS_AT, schema::ID_END + 1, ids);
    }
    Ok(())
}

/// The fixed part of a head, as a new region gets it. The magic is left out: it is written when all else exists.
pub fn encode_geometry(created_ns: u64) -> Vec<u8> {
    let mut bytes = vec![0; HEAD_BYTES];
    let mut put = |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    put(ABI_AT, ABI);
    put(PAGE_BYTES_AT, PAGE_BYTES as u32);
    put(WINDOW_PAGES_AT, WINDOW_PAGES as u32);
    put(SLOTS_AT, SLOTS as u32);
    put(BLOCK_BYTES_AT, BLOCK_BYTES as u32);
    bytes[CREATED_NS_AT..CREATED_NS_AT + 8].copy_from_slice(&created_ns.to_le_bytes());
    bytes
}

/// Whether a head is finished, and if so whether this library can read it. `bytes` is the file's beginning.
pub fn check_geometry(bytes: &[u8]) -> Result<bool, Corrupt> {
    let word = |at: usize| bytes.get(at..at + 4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let magic = bytes.get(MAGIC_AT..MAGIC_AT + 8).unwrap_or(&[]);
    if magic.iter().all(|byte| *byte == 0) {
        return Ok(false);
    }
    if magic != MAGIC.to_le_bytes() {
        return Err(Corrupt::new(FILE, MAGIC_AT, "the magic \"STILFRAM\"", format!("{magic:02x?}")));
    }
    let expected = [
        (ABI_AT, ABI, "format version"),
        (PAGE_BYTES_AT, PAGE_BYTES as u32, "page bytes"),
        (WINDOW_PAGES_AT, WINDOW_PAGES as u32, "window pages"),
        (SLOTS_AT, SLOTS as u32, "ring slots"),
        (BLOCK_BYTES_AT, BLOCK_BYTES as u32, "block bytes"),
    ];
    for (at, expected, what) in expected {
        match word(at) {
            Some(found) if found == expected => {}
            Some(found) => return Err(Corrupt::new(FILE, at, format!("{what} {expected}"), found)),
            None => return Err(Corrupt::cut(FILE, bytes.len() as u64, HEAD_BYTES as u64)),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_survive_their_words() {
        let descriptor = Descriptor {
            version: u64::MAX,
            manifest_block: 1,
            manifest_bytes: 2,
            table_block: 3,
            windows: 4,
            manifest_crc: 5,
            table_crc: u32::MAX,
            published_ns: 7,
            dirty_pages: 8,
            total_pages: 9,
            schema: 10,
            run: u64::MAX - 11,
        };
        assert_eq!(Descriptor::decode(descriptor.encode()), descriptor);
        const { assert!(descriptor::RUN_AT + 8 <= DESCRIPTOR_BYTES) };
        assert_eq!(descriptor::RUN_AT / 8, DESCRIPTOR_WORDS);
        assert_eq!(descriptor.check(0), Ok(()));
        let large = Descriptor { windows: u32::MAX, ..descriptor };
        assert_eq!(large.check(2).unwrap_err().offset as usize, descriptor_at(2) + descriptor::WINDOWS_AT);
    }

    #[test]
    fn numbers_that_can_be_given_no_more_name_their_place() {
        assert_eq!(check_given(schema::ID_END - 1, schema::ID_END), Ok(()));
        assert_eq!(check_given(schema::ID_END, 0).unwrap_err().offset as usize, SCHEMAS_AT);
        assert_eq!(check_given(0, schema::ID_END + 1).unwrap_err().offset as usize, IDS_AT);
    }

    #[test]
    fn a_head_is_unfinished_until_its_magic_is_there() {
        let mut bytes = encode_geometry(1);
        assert_eq!(check_geometry(&bytes), Ok(false));
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        assert_eq!(check_geometry(&bytes), Ok(true));
        bytes[ABI_AT] = 99;
        assert_eq!(check_geometry(&bytes).unwrap_err().offset, ABI_AT as u64);
        assert!(check_geometry(&MAGIC.to_le_bytes()).is_err());
        bytes[0] = b'X';
        assert_eq!(check_geometry(&bytes).unwrap_err().offset, 0);
    }
}
