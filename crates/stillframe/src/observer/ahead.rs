//! What a version says of itself, read at once.
//!
//! A producer writes manifest and window table of a version one behind the other, where there is room. Whoever has just been
//! woken for a small version waits mostly for system calls, so both are read by one.

use crate::error::{Error, Result};
use crate::observer::attachment::Shared;
use stillframe_segment::description::{Blocks, READ_EASY};
use stillframe_segment::head::Descriptor;
use stillframe_segment::{BLOCK_BYTES, Corrupt};

/// Most bytes between the two, which are read in vain. So many are copied in the time of a system call.
const GAP_BYTES_MAX: u64 = 4 << 10;

/// The blocks of a region's tables, of which some were read.
pub(crate) struct Ahead<'a> {
    shared: &'a Shared,
    /// Offset of what was read.
    offset: u64,
    bytes: Vec<u8>,
}

impl<'a> Ahead<'a> {
    /// Reads what a descriptor points to, if that lies together. Numbers of the descriptor may be anything. What cannot be read
    /// is read again, and found missing, by whoever asks for it.
    pub(crate) fn new(shared: &'a Shared, descriptor: &Descriptor) -> Ahead<'a> {
        let Descriptor { manifest_block, manifest_bytes, table_block, windows, .. } = *descriptor;
        let at = |block: u32| u64::from(block) * BLOCK_BYTES as u64;
        let (manifest_bytes, table_bytes) = (u64::from(manifest_bytes), 4 * u64::from(windows));
        let offset = at(manifest_block.min(table_block));
        let bytes = (at(manifest_block) + manifest_bytes).max(at(table_block) + table_bytes) - offset;
        let gap_bytes = bytes.saturating_sub(manifest_bytes + table_bytes);
        let mut ahead = Ahead { shared, offset, bytes: Vec::new() };
        let is_together = gap_bytes <= GAP_BYTES_MAX && bytes <= READ_EASY as u64;
        if is_together && ahead.bytes.try_reserve_exact(bytes as usize).is_ok() {
            ahead.bytes.resize(bytes as usize, 0);
            if shared.read(offset, &mut ahead.bytes).is_err() {
                ahead.bytes.clear();
            }
        }
        ahead
    }
}

impl Blocks for Ahead<'_> {
    type Error = Error;

    fn count(&self) -> Result<u32> {
        self.shared.count()
    }

    fn count_beyond(&self, block: u32) -> Result<u32> {
        self.shared.count_beyond(block)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.shared.read(offset, out)
    }

    fn at_hand(&self, offset: u64, bytes: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        self.bytes.get(start..start.checked_add(bytes)?)
    }

    fn corrupt(&self, corrupt: Corrupt) -> Error {
        self.shared.corrupt(corrupt)
    }

    fn no_memory(&self, bytes: usize) -> Error {
        self.shared.no_memory(bytes)
    }
}
