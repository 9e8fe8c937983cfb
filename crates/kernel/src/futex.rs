//! Waiting for a word in shared memory to change (futex(2)).

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
