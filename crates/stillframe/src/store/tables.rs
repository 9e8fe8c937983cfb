//! The producer's side of the `tables` file: blocks that hold manifests, window tables and sub-tables.

use crate::error::{Error, Result};
use crate::list;
use crate::place::table_memory::TableMemory;
use stillframe_segment::description::{self, Blocks};
use stillframe_segment::{BLOCK_BYTES, Corrupt, WINDOW_PAGES};

/// Blocks by which the tables grow at least: two pages, so that a small region takes little.
const GROW_BLOCKS: usize = 16;

/// The `tables` file and which of its blocks are in use.
#[derive(Debug)]
pub(crate) struct Tables {
    memory: TableMemory,
    region: String,
    /// How many live versions use each block; runs are counted in each of their blocks.
    users: Vec<u32>,
    /// Where the search for free blocks goes on.
    cursor: usize,
}

impl Tables {
    /// With all blocks free.
    pub(crate) fn new(memory: TableMemory, region: &str) -> Tables {
        let users = vec![0; memory.bytes() / BLOCK_BYTES];
        Tables { memory, region: region.into(), users, cursor: 0 }
    }

    /// Number of blocks of the file.
    pub(crate) fn blocks(&self) -> u32 {
        self.users.len() as u32
    }

    /// How many live versions use each block.
    #[cfg(any(test, feature = "points"))]
    pub(crate) fn users(&self) -> &[u32] {
        &self.users
    }

    /// Has the runs that are taken next lie one behind the other, if there is a place for that: who reads them reads them at once.
    pub(crate) fn seek(&mut self, runs_bytes: [usize; 2]) {
        let count = runs_bytes.into_iter().map(blocks_for).sum();
        if let Some(start) = self.find(self.cursor, count).or_else(|| self.find(0, count)) {
            self.cursor = start;
        }
    }

    /// Takes a run of blocks that can hold `bytes`, growing the file if need be.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<u32> {
        let count = blocks_for(bytes);
        if let Some(start) = self.find(self.cursor, count).or_else(|| self.find(0, count)) {
            self.users[start..start + count].fill(1);
            self.cursor = start + count;
            return Ok(start as u32);
        }
        let old = self.users.len();
        let (needed, most) = (old + count, BLOCKS_MAX as usize);
        if needed > most {
            let (what, advice) = ("the blocks of its tables", "keep fewer versions, or publish smaller attributes");
            return Err(Error::Limit {
                region: self.region.clone(),
                what,
                needed: needed as u64,
                most: BLOCKS_MAX,
                advice,
            });
        }
        let blocks = needed.max(old * 3 / 2).next_multiple_of(GROW_BLOCKS).min(most);
        let room = list::make_room(&mut self.users, blocks - old);
        room.map_err(|failure| Error::system(self.memory.path(), failure))?;
        self.memory.grow(blocks * BLOCK_BYTES)?;
        self.users.resize(self.memory.bytes() / BLOCK_BYTES, 0);
        self.users[old..old + count].fill(1);
        self.cursor = old + count;
        Ok(old as u32)
    }

    fn find(&self, from: usize, count: usize) -> Option<usize> {
        let mut run = 0;
        for (index, users) in self.users.iter().enumerate().skip(from) {
            run = if *users == 0 { run + 1 } else { 0 };
            if run == count {
                return Some(index + 1 - count);
            }
        }
        None
    }

    /// Counts one more user of the blocks that hold `bytes` from `block` on.
    pub(crate) fn retain(&mut self, block: u32, bytes: usize) {
        for users in self.span(block, bytes) {
            *users += 1;
        }
    }

    /// Counts one user less; blocks without users may be taken again.
    pub(crate) fn release(&mut self, block: u32, bytes: usize) {
        for users in self.span(block, bytes) {
            *users = users.saturating_sub(1);
        }
    }

    fn span(&mut self, block: u32, bytes: usize) -> &mut [u32] {
        let start = (block as usize).min(self.users.len());
        let end = (start + blocks_for(bytes)).min(self.users.len());
        &mut self.users[start..end]
    }

    /// Writes into blocks that were taken.
    pub(crate) fn write(&self, block: u32, bytes: &[u8]) {
        self.memory.write(block as usize * BLOCK_BYTES, bytes);
    }

    /// Reads the sub-table in a block.
    pub(crate) fn subtable(&self, block: u32) -> [u8; WINDOW_PAGES] {
        let mut subtable = [0; WINDOW_PAGES];
        self.memory.read(block as usize * BLOCK_BYTES, &mut subtable);
        subtable
    }
}

/// Blocks of a run that can hold `bytes`.
fn blocks_for(bytes: usize) -> usize {
    bytes.div_ceil(BLOCK_BYTES).max(1)
}

/// Most blocks the `tables` file may have: 64 GiB. What is in use is counted for each block of it.
pub(crate) const BLOCKS_MAX: u64 = 1 << 27;

impl Blocks for Tables {
    type Error = Error;

    fn count(&self) -> Result<u32> {
        Ok(self.blocks())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        // Whatever has no bytes takes a block all the same, which has to be one of the file's to be counted.
        let end = offset + out.len().max(1) as u64;
        if end > self.users.len() as u64 * BLOCK_BYTES as u64 {
            return Err(self.corrupt(description::missing(offset, out.len(), self.blocks())));
        }
        self.memory.read(offset as usize, out);
        Ok(())
    }

    fn corrupt(&self, corrupt: Corrupt) -> Error {
        let path = self.memory.path();
        let dir = if let TableMemory::File { .. } = self.memory { path.parent().unwrap_or(path) } else { path };
        Error::Corrupt { dir: dir.into(), corrupt }
    }

    fn no_memory(&self, bytes: usize) -> Error {
        Error::no_memory(self.memory.path(), bytes)
    }
}
