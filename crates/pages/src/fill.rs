//! Filling the pages of a pool once.
//!
//! A reserved page is the kernel's, but a virtual machine may not have memory behind it: a host that takes free memory back
//! (a balloon, free page reporting) gives it again at the first touch, and that is slow. So all pages are written once while the pool
//! is made. Files that are removed right after do that; the kernel keeps the pages.

use crate::error::{Error, Result};
use crate::pool::Pool;
use crate::supply::System;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs::File;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, scope};
use std::time::Duration;

/// How much is filled between two looks at whether to go on: some tenths of a second on a slow host.
const STEP_BYTES: u64 = 64 << 20;

/// How often it is asked whether to go on.
const PERIOD: Duration = Duration::from_millis(100);

/// Threads that fill. More of them wait for the same memory.
const THREADS_MAX: usize = 8;

/// Pages that are filled by processors of their memory node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// The memory node; `None` where it does not matter.
    pub node: Option<u32>,
    /// How many.
    pub count: u64,
}

/// Where `count` pages of a pool lie: each node's that came since it had `before`, and the rest anywhere. Without this a node's
/// processors would take pages of other pools that are free there.
pub(crate) fn shares(before: &[(u32, u64)], now: &[(u32, u64)], count: u64) -> Vec<Share> {
    let came = |(node, total): &(u32, u64)| {
        let before = before.iter().find(|(before, _)| before == node).map_or(0, |(_, total)| *total);
        (*node, total.saturating_sub(before))
    };
    let (mut shares, mut rest) = (Vec::new(), count);
    // With one node there is no choice.
    let nodes = if now.len() > 1 { now } else { &[] };
    for (node, came) in nodes.iter().map(came) {
        let count = came.min(rest);
        rest -= count;
        shares.push(Share { node: Some(node), count });
    }
    shares.push(Share { node: None, count: rest });
    shares.retain(|share| share.count > 0);
    shares
}

/// What the threads know of each other.
struct Work<'p> {
    pool: &'p Pool,
    step_pages: u64,
    is_stopped: AtomicBool,
}

/// Fills pages of a pool, and tells `watch` how many bytes are done, which says whether to go on. All are free again at the end.
///
/// # Errors
/// [`Error::Interrupted`]; [`Error::Fill`] where the kernel refuses pages; those of the files.
pub(crate) fn fill(
    system: &System,
    pool: &Pool,
    shares: &[Share],
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<()> {
    let page_bytes = pool.page().bytes();
    let work = Work { pool, step_pages: (STEP_BYTES / page_bytes).max(1), is_stopped: AtomicBool::new(false) };
    let threads = stillframe_kernel::processor_count().min(THREADS_MAX).div_ceil(shares.len().max(1));
    let lefts: Vec<AtomicU64> = shares.iter().map(|share| AtomicU64::new(share.count)).collect();
    let (sender, steps) = channel();
    let mut is_interrupted = false;
    let mut files = Vec::new();
    let result = scope(|scope| {
        let (mut workers, mut result) = (Vec::new(), Ok(()));
        for (share, left) in shares.iter().zip(&lefts) {
            for number in 0..threads {
                let (work, sender, set) = (&work, sender.clone(), system.processors(share.node));
                match Builder::new().spawn_scoped(scope, move || fill_some(work, left, set, &sender)) {
                    Ok(worker) => workers.push(worker),
                    // One does the same, if not as soon.
                    Err(_) if number > 0 => break,
                    Err(error) => {
                        work.is_stopped.store(true, Ordering::Relaxed);
                        result = result.and(Err(Error::io("clone", &pool.mount.path)(error)));
                    }
                }
            }
        }
        drop(sender);
        let mut done = 0;
        loop {
            match steps.recv_timeout(PERIOD) {
                Ok(pages) => done += pages * page_bytes,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if !is_interrupted && watch(done).is_break() {
                is_interrupted = true;
                work.is_stopped.store(true, Ordering::Relaxed);
            }
        }
        for worker in workers {
            match worker.join() {
                Ok(Ok(file)) => files.push(file),
                Ok(Err(error)) => result = result.and(Err(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        result
    });
    // Only now: a page that were free sooner would be the next that a thread gets.
    drop(files);
    if is_interrupted { Err(Error::Interrupted { name: pool.name.clone() }) } else { result }
}

/// What a thread does. Each has a file, because a file is filled by one at a time.
fn fill_some(work: &Work, left: &AtomicU64, set: Option<CpuSet>, done: &Sender<u64>) -> Result<File> {
    if let Some(set) = set {
        // Who may not run there fills them from here.
        let _ = sched_setaffinity(None, &set);
    }
    let filled = work.pool.file().and_then(|file| {
        let page_bytes = work.pool.page().bytes();
        let mut at = 0;
        while !work.is_stopped.load(Ordering::Relaxed) {
            let take = |left: u64| left.checked_sub(left.min(work.step_pages)).filter(|_| left > 0);
            let Ok(before) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) else { break };
            let pages = before.min(work.step_pages);
            write_pages(work, &file, at, pages * page_bytes)?;
            at += pages * page_bytes;
            // Whoever asked is gone only when this thread has ended.
            let _ = done.send(pages);
        }
        Ok(file)
    });
    if filled.is_err() {
        work.is_stopped.store(true, Ordering::Relaxed);
    }
    filled
}

fn write_pages(work: &Work, file: &File, at: u64, bytes: u64) -> Result<()> {
    loop {
        match fallocate(file, FallocateFlags::empty(), at, bytes) {
            Ok(()) => return Ok(()),
            // The kernel stops for a signal; what it has done counts.
            Err(Errno::INTR) if work.is_stopped.load(Ordering::Relaxed) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::NOSPC | Errno::NOMEM) => {
                return Err(Error::Fill { name: work.pool.name.clone(), page: work.pool.page() });
            }
            Err(error) => return Err(Error::io("fallocate", &work.pool.mount.path)(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(node: impl Into<Option<u32>>, count: u64) -> Share {
        Share { node: node.into(), count }
    }

    #[test]
    fn pages_are_filled_where_they_came_and_the_rest_anywhere() {
        assert_eq!(shares(&[(0, 4), (1, 4)], &[(0, 10), (1, 9)], 11), [share(0, 6), share(1, 5)]);
        assert_eq!(shares(&[(0, 4), (1, 4)], &[(0, 4), (1, 9)], 11), [share(1, 5), share(None, 6)]);
        // Others gathered some meanwhile.
        assert_eq!(shares(&[(0, 4), (1, 4)], &[(0, 20), (1, 20)], 17), [share(0, 16), share(1, 1)]);
        assert_eq!(shares(&[(0, 4)], &[(0, 20)], 16), [share(None, 16)]);
        assert_eq!(shares(&[], &[], 3), [share(None, 3)]);
    }
}
