//! Words that change: owners, the index, and what is being changed.

use super::geometry::Geometry;
use super::layout::*;
use crate::Corrupt;

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

impl Geometry {
    /// Checks the number of records that were ever used, found at [`RECORDS_END_AT`].
    ///
    /// # Errors
    /// If there are not so many.
    pub fn check_records_end(&self, found: u32) -> Result<u32, Corrupt> {
        match found <= self.regions() {
            true => Ok(found),
            false => Err(Corrupt::new(FILE, RECORDS_END_AT, format!("at most {}", self.regions()), found)),
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
            found if found <= self.regions() => Ok(Pending::Record(found - 1)),
            found => Err(Corrupt::new(FILE, PENDING_AT, format!("at most {}", self.regions()), found)),
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
            word if word <= self.regions() => Ok(Bucket::Region(word - 1)),
            found => {
                let expected = format!("at most {}, or {DELETED}", self.regions());
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
        let is_tables = chunk < self.free_chunks().start;
        match word {
            TABLES if is_tables => Ok(Owner::Tables),
            _ if is_tables => fail(TABLES.to_string()),
            FREE => Ok(Owner::Free),
            SMALL => Ok(Owner::Small),
            word if word <= self.regions() => Ok(Owner::Region(word - 1)),
            _ => fail(format!("at most {}, or {SMALL}", self.regions())),
        }
    }

    /// Whose a page of a small chunk is; `None` if nobody's.
    ///
    /// # Errors
    /// If there is no such region.
    pub fn decode_page_owner(&self, page: u32, word: u32) -> Result<Option<u32>, Corrupt> {
        match word {
            FREE => Ok(None),
            word if word <= self.regions() => Ok(Some(word - 1)),
            found => Err(Corrupt::new(FILE, self.page_owner_at(page), format!("at most {}", self.regions()), found)),
        }
    }
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
