//! Who has how much of an arena.

use super::{Arena, Found, Shared};
use crate::error::Result;
use std::collections::BTreeMap;
use stillframe_kernel::PAGE_BYTES;
use stillframe_segment::arena::{CHUNK_BYTES, FREE, Owner, State, pages_of};

/// Who has how much of an arena, about now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArenaUsage {
    /// Length of the arena in bytes.
    pub bytes: u64,
    /// Bytes of its own tables.
    pub tables_bytes: u64,
    /// Bytes that belong to no region.
    pub free_bytes: u64,
    /// Chunks of 2 MiB that are free as a whole.
    pub free_chunks: u32,
    /// Chunks whose pages belong to several regions.
    pub small_chunks: u32,
    /// The most regions it can have.
    pub regions_max: u32,
    /// Its regions, in the order of their names.
    pub regions: Vec<RegionUsage>,
}

/// What one region has of an arena.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionUsage {
    /// Its name.
    pub name: String,
    /// Bytes that belong to it, whether they have memory or not.
    pub bytes: u64,
    /// Whether it was removed, and waits for those who hold its versions.
    pub is_removed: bool,
}

impl Arena {
    /// Who has how much of the arena.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) if a word in it makes no sense.
    pub fn usage(&self) -> Result<ArenaUsage> {
        self.shared.usage()
    }

    /// Bytes that belong to a region.
    pub(crate) fn bytes_of(&self, found: &Found) -> Result<u64> {
        Ok(self.shared.owned(found.number)?.bytes())
    }
}

impl Shared {
    pub(super) fn usage(&self) -> Result<ArenaUsage> {
        let all = self.geometry.free_chunks();
        let mut bytes_by_region = BTreeMap::<u32, u64>::new();
        let (mut free_chunks, mut free_pages, mut small_chunks) = (0, 0, 0);
        for chunk in 0..all.end {
            match self.owner_of_chunk(chunk)? {
                Owner::Free => free_chunks += 1,
                Owner::Region(region) => *bytes_by_region.entry(region).or_default() += CHUNK_BYTES as u64,
                Owner::Tables => {}
                Owner::Small => {
                    small_chunks += 1;
                    let first = pages_of(chunk).start;
                    for (page, word) in (first..).zip(self.page_owners(chunk)) {
                        if word == FREE {
                            free_pages += 1;
                            continue;
                        }
                        let owner = self.geometry.decode_page_owner(page, word);
                        if let Some(region) = owner.map_err(|corrupt| self.corrupt(corrupt))? {
                            *bytes_by_region.entry(region).or_default() += PAGE_BYTES as u64;
                        }
                    }
                }
            }
        }
        let mut regions = Vec::new();
        for number in 0..self.records_end()? {
            let Some(record) = self.record(number)? else { continue };
            if matches!(record.state, State::Used | State::Removing) {
                let bytes = bytes_by_region.get(&number).copied().unwrap_or(0);
                let is_removed = record.state == State::Removing;
                regions.push(RegionUsage { name: record.name, bytes, is_removed });
            }
        }
        regions.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(ArenaUsage {
            bytes: self.geometry.bytes(),
            tables_bytes: u64::from(all.start) * CHUNK_BYTES as u64,
            free_bytes: u64::from(free_chunks) * CHUNK_BYTES as u64 + free_pages * PAGE_BYTES as u64,
            free_chunks,
            small_chunks,
            regions_max: self.geometry.regions(),
            regions,
        })
    }
}
