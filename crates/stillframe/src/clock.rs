//! The clocks that processes share.

/// Milliseconds of the machine's monotonic clock, the same in all processes.
pub(crate) fn monotonic_ms() -> u64 {
    stillframe_kernel::monotonic_ns() / 1_000_000
}

/// Nanoseconds since 1970.
pub(crate) fn unix_ns() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos().min(u64::MAX as u128) as u64)
}
