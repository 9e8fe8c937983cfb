//! Threads that take one piece of work after the other.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most threads that read, unless more are asked for: memory and disk are used up by few.
const THREADS_DEFAULT_MAX: usize = 4;

/// Threads for reading a checkpoint if nobody says how many.
pub(crate) fn default_threads() -> usize {
    stillframe_kernel::processor_count().min(THREADS_DEFAULT_MAX)
}

/// Does all jobs on so many threads, this one included, each with a state of its own; no further ones are begun when one
/// returns `false`.
pub(crate) fn work<J: Send, S: Default>(
    threads: usize,
    jobs: impl Iterator<Item = J> + Send,
    work: impl Fn(J, &mut S) -> bool + Sync,
) {
    let (jobs, is_over) = (Mutex::new(jobs), AtomicBool::new(false));
    let take = || jobs.lock().unwrap_or_else(|poison| poison.into_inner()).next();
    let run = || {
        let mut state = S::default();
        while !is_over.load(Ordering::Relaxed)
            && let Some(job) = take()
        {
            if !work(job, &mut state) {
                is_over.store(true, Ordering::Relaxed);
            }
        }
    };
    stillframe_kernel::thread::together("still-read", threads, &run);
}
