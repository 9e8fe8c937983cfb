//! Which bytes are locked for what.

use crate::head::SLOTS;
use crate::lease;

/// Bytes of the lock range that each ring slot of each region owns: the length of a lock tells when it was taken.
pub const SLOT_STRIDE: u64 = 1 << 37;
/// First byte of those that the producers lock for reading, one for each region, to show that they live.
pub const LIVE_AT: u64 = 1 << 62;
/// First byte of those that the producers lock for writing, one for each region, where no reader may.
pub const PRODUCER_AT: u64 = LIVE_AT + (1 << 20);
/// The byte that is locked for writing by whoever changes records.
pub const CREATE_AT: u64 = LIVE_AT + (1 << 21);
/// First byte of those that are locked for reading by whoever looks at the head of a region, one for each region, in the file
/// with its leases: the head stays where it is. Neighbours merge, so that one lock serves all ranks of a group.
pub const ATTACHED_AT: u64 = LIVE_AT + (3 << 20);

/// The byte that is locked for writing by whoever begins as a rank, while he finds out of which run he is.
pub const BEGIN_AT: u64 = LIVE_AT + (1 << 22);

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

/// Whether an arena calls one of its files with locks so.
pub fn is_lease_file(name: &str) -> bool {
    let is_numbered = |number: &str| (1..LEASE_FILES).any(|one| number == one.to_string());
    name == lease::FILE || name == lease::PRODUCER_FILE || name.strip_prefix("lease.").is_some_and(is_numbered)
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
