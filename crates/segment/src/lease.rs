//! The `lease` file: an empty file whose byte ranges carry record locks.
//!
//! Nothing is ever written to it. Ring slot *s* owns the bytes from `s * `[`SLOT_STRIDE`] on, up to the next slot's; a read
//! lock that begins at its first byte is a lease on the version in the slot. The producer has a write lock on the byte at
//! [`LIVENESS_AT`] for life. Where a reader keeps it from that one, it has a write lock on the first byte of
//! [`PRODUCER_FILE`], which no reader may open, and shows that it lives by a read lock on the byte at [`BESIDE_AT`].

use crate::head::SLOTS;

/// Name of the file.
pub const FILE: &str = "lease";
/// Bytes each slot owns, so many that the length of a lock can tell when it was taken.
pub const SLOT_STRIDE: u64 = 1 << 40;
/// The byte the producer locks.
pub const LIVENESS_AT: u64 = 1 << 62;

/// The byte that a producer without the lock at [`LIVENESS_AT`] locks.
pub const BESIDE_AT: u64 = LIVENESS_AT + 1;
/// Name of the file that tells such producers apart.
pub const PRODUCER_FILE: &str = "lease.producer";

/// First byte of a slot, the only one that decides whether the slot is held.
pub const fn slot_at(slot: usize) -> u64 {
    slot as u64 * SLOT_STRIDE
}

/// Length of a lock taken `taken_ms` milliseconds after the start of the machine's monotonic clock.
pub fn lock_bytes(taken_ms: u64) -> u64 {
    1 + taken_ms.min(SLOT_STRIDE - 2)
}

/// Slot and time of taking of a lock from byte `first` to byte `last`, both included, as the kernel lists it. `None` if it
/// is no lease.
pub fn decode_lock(first: u64, last: u64) -> Option<(usize, u64)> {
    let slot = (first / SLOT_STRIDE) as usize;
    let is_lease = slot < SLOTS && first == slot_at(slot) && (first..first + SLOT_STRIDE).contains(&last);
    is_lease.then(|| (slot, last - first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_tells_its_slot_and_when_it_was_taken() {
        for (slot, taken_ms) in [(0, 0), (1, 77), (SLOTS - 1, SLOT_STRIDE - 2)] {
            let first = slot_at(slot);
            assert_eq!(decode_lock(first, first + lock_bytes(taken_ms) - 1), Some((slot, taken_ms)));
        }
        assert_eq!(decode_lock(1, 5), None);
        assert_eq!(decode_lock(slot_at(SLOTS), slot_at(SLOTS)), None);
        assert_eq!(decode_lock(slot_at(2), slot_at(3)), None);
        assert_eq!(decode_lock(LIVENESS_AT, LIVENESS_AT), None);
        assert_eq!(decode_lock(BESIDE_AT, BESIDE_AT), None);
        assert!(slot_at(SLOTS) <= LIVENESS_AT && lock_bytes(u64::MAX) < SLOT_STRIDE);
    }
}
