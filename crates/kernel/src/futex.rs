//! Waiting for a word in shared memory to change, and having the kernel write one (futex(2)).

use crate::Failure;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long is slept where the kernel wakes nobody.
const UNWOKEN: Duration = Duration::from_millis(1);

/// Sleeps while `word` still holds `seen`, at most `timeout`. Spurious returns are allowed; the caller looks again.
///
/// The word may lie in memory that is mapped read-only. In a device's memory nobody can sleep on a word: there it sleeps for a
/// millisecond at most, and is not woken.
pub fn wait(word: &AtomicU32, seen: u32, timeout: Option<Duration>) {
    let limit = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs().min(i64::MAX as u64) as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as libc::c_long,
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word is valid for the call because it is borrowed, and `limit` is null or points to a live timespec.
    let done = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, limit) };
    // Who looks again at once would look without an end.
    if done == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT) {
        std::thread::sleep(timeout.map_or(UNWOKEN, |timeout| timeout.min(UNWOKEN)));
    }
}

/// Wakes everybody who sleeps on `word`, in any process.
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: the word is valid for the call because it is borrowed; FUTEX_WAKE only hashes its address.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// Adds one to `second`, and wakes everybody who sleeps on it or on `first`, in any process: both words in one call.
///
/// When `second` begins again at zero, those who sleep on it are not woken. They have a limit.
pub fn wake_both(first: &AtomicU32, second: &AtomicU32) {
    // "Add 1 to the second word, and wake those on it if it was not -1", encoded as in linux/futex.h.
    const ADD_ONE: u32 = (libc::FUTEX_OP_ADD as u32) << 28 | (libc::FUTEX_OP_CMP_NE as u32) << 24 | 1 << 12 | 0xfff;
    let all = i32::MAX as usize;
    let operation = libc::FUTEX_WAKE_OP;
    // SAFETY: both words are borrowed, and the kernel writes the second one atomically.
    let done = unsafe { libc::syscall(libc::SYS_futex, first.as_ptr(), operation, all, all, second.as_ptr(), ADD_ONE) };
    // One of them lies where nobody can sleep, and nothing was done.
    if done == -1 {
        second.fetch_add(1, Ordering::Release);
        wake_all(first);
        wake_all(second);
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE_BYTES;
    use crate::map::Mapping;
    use std::sync::Arc;
    use std::thread;
    use std::time::Instant;

    /// Threads that sleep on each of two words until they were woken, or for a minute.
    #[test]
    fn one_call_wakes_who_sleeps_on_either_word_and_counts_on_the_second() {
        let words = Arc::new([AtomicU32::new(7), AtomicU32::new(8)]);
        let (sender, threads) = std::sync::mpsc::channel();
        let sleepers: Vec<_> = [(0, 7), (1, 8)]
            .into_iter()
            .map(|(at, seen)| {
                let (words, sender) = (words.clone(), sender.clone());
                thread::spawn(move || {
                    sender.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
                    let begin = Instant::now();
                    while words[at].load(Ordering::Acquire) == seen && begin.elapsed() < Duration::from_secs(60) {
                        wait(&words[at], seen, Some(Duration::from_secs(60)));
                    }
                    begin.elapsed() < Duration::from_secs(60)
                })
            })
            .collect();
        for thread in threads.iter().take(2) {
            let stat = std::path::Path::new("/proc").join(thread).join("stat");
            while !std::fs::read_to_string(&stat).unwrap().rsplit(')').next().unwrap().starts_with(" S") {
                thread::sleep(Duration::from_millis(1));
            }
        }
        words[0].fetch_add(1, Ordering::Release);
        wake_both(&words[0], &words[1]);
        assert!(sleepers.into_iter().all(|sleeper| sleeper.join().unwrap()));
        assert_eq!(words[1].load(Ordering::Acquire), 9);
        words[1].store(u32::MAX, Ordering::Release);
        wake_both(&words[0], &words[1]);
        assert_eq!(words[1].load(Ordering::Acquire), 0);
    }

    /// Addresses that are only reserved have no page that the kernel could know sleepers by, as a device's memory has none.
    #[test]
    fn where_nobody_can_sleep_the_second_word_is_counted_all_the_same() {
        let (reserved, second) = (Mapping::reserve(PAGE_BYTES).unwrap(), AtomicU32::new(5));
        wake_both(reserved.word32(0), &second);
        assert_eq!(second.load(Ordering::Acquire), 6);
        let begin = Instant::now();
        wait(reserved.word32(0), 0, Some(Duration::from_secs(60)));
        assert!(begin.elapsed() >= UNWOKEN);
    }
}
