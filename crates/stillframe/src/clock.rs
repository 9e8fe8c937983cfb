//! The clocks that processes share.

pub(crate) use stillframe_kernel::unix_ns;

/// Milliseconds of the machine's monotonic clock, the same in all processes.
pub(crate) fn monotonic_ms() -> u64 {
    stillframe_kernel::monotonic_ns() / 1_000_000
}
