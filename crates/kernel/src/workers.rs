//! Threads that share work.

use crate::thread::Thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Work in blocks, of which each thread takes the next when it has done one. A thread that is late, because its processor is
/// busy with something else, finds less to do and keeps nobody waiting.
struct Job {
    work: *const (dyn Fn(usize) + Sync),
    blocks: usize,
    next: AtomicUsize,
    done: AtomicUsize,
}

// SAFETY: `work` may be called by any thread, and is called only for blocks taken before all are done: `share`, which borrows
// it, waits for those.
unsafe impl Send for Job {}
// SAFETY: as for `Send`; the counters are atomic.
unsafe impl Sync for Job {}

/// Counts a block as done, also when its work panics: whoever waits for it would wait for ever.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

impl Job {
    fn work(&self) {
        loop {
            let block = self.next.fetch_add(1, Ordering::Relaxed);
            if block >= self.blocks {
                return;
            }
            let _done = Done(&self.done);
            // SAFETY: the block was taken and is not done, so `share` has not returned and what it borrows lives.
            unsafe { (*self.work)(block) };
        }
    }
}

/// Threads that share the work of the one that calls, kept between calls.
#[derive(Debug)]
pub struct Workers {
    generation: u32,
    threads: Vec<(Sender<Arc<Job>>, Thread)>,
}

impl Workers {
    /// So many threads, the calling one included; fewer if the process is out of threads.
    pub fn new(threads: usize) -> Workers {
        let start = |index| {
            let (sender, receiver): (Sender<Arc<Job>>, Receiver<Arc<Job>>) = channel();
            let work = move || receiver.into_iter().for_each(|job| job.work());
            let name = format!("stillframe-copy-{index}");
            Thread::start(&name, work).ok().map(|thread| (sender, thread))
        };
        Workers { generation: crate::fork::generation(), threads: (1..threads.max(1)).map_while(start).collect() }
    }

    /// Number of threads, the calling one included; 1 in a forked child, where the others do not exist.
    pub fn count(&self) -> usize {
        if self.is_ours() { self.threads.len() + 1 } else { 1 }
    }

    fn is_ours(&self) -> bool {
        self.generation == crate::fork::generation()
    }

    /// Does `work` for each block below `blocks`, in any order, by up to `threads` threads. When it returns all of it is done.
    pub fn share(&self, blocks: usize, threads: usize, work: &(dyn Fn(usize) + Sync)) {
        let threads = threads.min(blocks).min(self.count());
        if threads <= 1 {
            return (0..blocks).for_each(work);
        }
        // SAFETY: only the lifetime is changed, and the job does not use what it names after this call has returned.
        let work = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), *const (dyn Fn(usize) + Sync)>(work) };
        let job = Arc::new(Job { work, blocks, next: AtomicUsize::new(0), done: AtomicUsize::new(0) });
        for (worker, _) in &self.threads[..threads - 1] {
            // What a worker that is gone does not take, this thread does.
            let _ = worker.send(job.clone());
        }
        job.work();
        while job.done.load(Ordering::Acquire) < blocks {
            // At most one block of each other thread is left.
            std::thread::yield_now();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let is_ours = self.is_ours();
        for (sender, thread) in self.threads.drain(..) {
            if is_ours {
                drop(sender);
                thread.join();
            } else {
                // In a forked child the threads do not exist: what they had locked, their channel included, stays locked.
                std::mem::forget((sender, thread));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_done_once_with_any_number_of_threads() {
        for threads in [1, 2, 5] {
            let workers = Workers::new(threads);
            for blocks in [0, 1, 3, 1000] {
                for most in [0, 1, 2, 9] {
                    let counts: Vec<AtomicUsize> = (0..blocks).map(|_| AtomicUsize::new(0)).collect();
                    workers.share(blocks, most, &|block| {
                        counts[block].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{blocks} by {threads}");
                }
            }
        }
    }
}
