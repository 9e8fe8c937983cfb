//! Window tables: which plane holds each page of a version.
//!
//! A window table has one little-endian 4-byte entry for each window. An entry below 256 is the plane of all its pages;
//! with its highest bit set it is the block of a sub-table of [`WINDOW_PAGES`] plane numbers of one byte each.

use crate::{BLOCK_BYTES, Corrupt, PLANES_MAX, WINDOW_PAGES};

/// Name of the file that holds manifests, window tables and sub-tables, in blocks of [`BLOCK_BYTES`].
pub const FILE: &str = "tables";
/// Start of the planes' names; the plane's number in decimal follows.
pub const PLANE_PREFIX: &str = "plane.";
/// The plane number of pages that were never written: they read as zeros and no plane holds them.
pub const ZERO_PLANE: u8 = 255;
/// Bit that tells a sub-table from a plane.
pub const SUBTABLE: u32 = 1 << 31;

/// Which planes hold the pages of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// All pages lie in this plane.
    Uniform(u8),
    /// The sub-table in this block says it page by page.
    Mixed(u32),
}

impl Entry {
    /// The entry as stored.
    pub fn encode(self) -> u32 {
        match self {
            Entry::Uniform(plane) => u32::from(plane),
            Entry::Mixed(block) => SUBTABLE | block,
        }
    }

    /// Reads the entry at byte `at` of `tables`, which has `blocks` blocks, in a region of `planes` planes.
    pub fn decode(word: u32, at: usize, blocks: u32, planes: usize) -> Result<Entry, Corrupt> {
        if word & SUBTABLE == 0 {
            let plane = u8::try_from(word).ok().filter(|plane| is_plane(*plane, planes));
            plane.map(Entry::Uniform).ok_or_else(|| Corrupt::new(FILE, at, format!("a plane below {planes}"), word))
        } else if word & !SUBTABLE < blocks {
            Ok(Entry::Mixed(word & !SUBTABLE))
        } else {
            Err(Corrupt::new(FILE, at, format!("a block below {blocks}"), word & !SUBTABLE))
        }
    }
}

/// Whether a plane number means something in a region of `planes` planes.
pub fn is_plane(plane: u8, planes: usize) -> bool {
    plane == ZERO_PLANE || (plane as usize) < planes.min(PLANES_MAX)
}

/// Checks the sub-table in `block`.
pub fn check_subtable(block: u32, bytes: &[u8; WINDOW_PAGES], planes: usize) -> Result<(), Corrupt> {
    match bytes.iter().position(|plane| !is_plane(*plane, planes)) {
        None => Ok(()),
        Some(page) => {
            let at = block as usize * BLOCK_BYTES + page;
            Err(Corrupt::new(FILE, at, format!("a plane below {planes}"), bytes[page]))
        }
    }
}

/// CRC-32 as stored in descriptors.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_out_of_range_name_their_place() {
        for entry in [Entry::Uniform(0), Entry::Uniform(ZERO_PLANE), Entry::Mixed(6)] {
            assert_eq!(Entry::decode(entry.encode(), 0, 7, 1), Ok(entry));
        }
        assert_eq!(Entry::decode(1, 40, 7, 1).unwrap_err().offset, 40);
        assert!(Entry::decode(SUBTABLE | 7, 40, 7, 1).is_err());
        assert!(Entry::decode(300, 40, 7, 1).is_err());
        let mut subtable = [0; WINDOW_PAGES];
        assert_eq!(check_subtable(2, &subtable, 1), Ok(()));
        subtable[9] = 1;
        assert_eq!(check_subtable(2, &subtable, 1).unwrap_err().offset, 2 * 512 + 9);
    }
}
