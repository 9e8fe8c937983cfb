//! The file beside an arena that enclaves share, by which those are woken who wait for versions: counters on which they sleep (futex(2)).
//!
//! A kernel wakes none of another one, and none who sleeps on a word in a device's memory. So the counters lie in a file of each kernel's
//! own. That beside an enclave's own arena is rung by its producers, and that beside another one's by the agent.

use crate::PAGE_BYTES;
use crate::enclave::REGIONS_MAX;

/// Name of the file.
pub const FILE: &str = "bell";
/// Length of the file; bytes behind it are ignored.
pub const BELL_BYTES: usize = 2 * PAGE_BYTES;
/// Offset of the counter of what any region of the arena published, 4 bytes, *changing*.
pub const COUNT_AT: usize = 0;
/// Offset of a number, 4 bytes, *changing*: 1 as long as another enclave's agent rings for whatever is published there, and who waits
/// need not look by himself. It counts only while the agent lives.
pub const SURE_AT: usize = 64;
/// Offset of the counters of what each region published, by its number, 4 bytes each, *changing*: of an own arena in a device's memory.
pub const REGIONS_AT: usize = PAGE_BYTES;
/// The byte of the file on which the agent has a write lock as long as it lives, beside another enclave's arena.
pub const LOCK_AT: u64 = 0;

/// Offset of the counter of a region.
pub const fn region_at(region: u32) -> usize {
    REGIONS_AT + 4 * region as usize
}

const _: () = assert!(region_at(REGIONS_MAX - 1) + 4 <= BELL_BYTES);
