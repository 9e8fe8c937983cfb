//! Waiting for a word in shared memory to change, and having the kernel write one (futex(2)).

use crate::Failure;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` still holds `seen`, at most `timeout`. Spurious returns are allowed; the caller looks again.
///
/// The word may lie in memory that is mapped read-only.
pub fn wait(word: &AtomicU32, seen: u32, timeout: Option<Duration>) {
    let limit = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs().min(i64::MAX as u64) as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as libc::c_long,
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word is valid for the call because it is borrowed, and `limit` is null or points to a live timespec.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, limit) };
}

/// Wakes everybody who sleeps on `word`, in any process.
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: the word is valid for the call because it is borrowed; FUTEX_WAKE only hashes its address.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// Has the kernel write the word as it is: one that cannot be written, for want of memory or of rights, is an error and no
/// signal.
pub fn write_unchanged(word: &AtomicU32) -> Result<(), Failure> {
    const PRIVATE_WAKE_OP: i32 = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
    // "Or the word with 0, and then see whether it was 0", encoded as in linux/futex.h.
    const OR_ZERO: u32 = (libc::FUTEX_OP_OR as u32) << 28 | (libc::FUTEX_OP_CMP_EQ as u32) << 24;
    // SAFETY: the word is borrowed, and the kernel writes it atomically and leaves it as it is. Whoever sleeps on it, and
    // nobody does, is woken once for nothing, which every waiter allows for.
    match unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), PRIVATE_WAKE_OP, 0, 0usize, word.as_ptr(), OR_ZERO) } {
        -1 => Err(Failure::last("futex", format!("FUTEX_WAKE_OP at {:p}", word.as_ptr()))),
        _ => Ok(()),
    }
}
