//! Threads that run a loop in parallel.

use crate::thread::Thread;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Work in items, of which each thread takes the next when it has done one. A thread that is late, because its processor is
/// busy with something else, finds less to do and keeps nobody waiting.
struct Job {
    work: *const (dyn Fn(usize) + Sync),
    items: usize,
    next: AtomicUsize,
    done: AtomicUsize,
    /// What the first item that panicked said.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `work` may be called by any thread, and is called only for items taken before all are done: `parallel_for`, which borrows
// it, waits for those.
unsafe impl Send for Job {}
// SAFETY: as for `Send`; the counters are atomic.
unsafe impl Sync for Job {}

impl Job {
    fn work(&self) {
        loop {
            let item = self.next.fetch_add(1, Ordering::Relaxed);
            if item >= self.items {
                return;
            }
            // SAFETY: the item was taken and is not done, so `parallel_for` has not returned and what it borrows lives.
            let work = || unsafe { (*self.work)(item) };
            // Neither this thread ends nor does `parallel_for`, while others are at work: an item that panicked is done, too.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
                match &mut *self.panic.lock().unwrap_or_else(PoisonError::into_inner) {
                    // Dropped, it might panic, too.
                    Some(_) => std::mem::forget(payload),
                    first => *first = Some(payload),
                }
            }
            self.done.fetch_add(1, Ordering::Release);
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

    /// Does `work` for each item below `items`, in any order, by up to `threads` threads. When it returns all of it is done.
    ///
    /// # Panics
    /// As `work`, when no thread is at work any more.
    pub fn parallel_for(&self, items: usize, threads: usize, work: &(dyn Fn(usize) + Sync)) {
        let threads = threads.min(items).min(self.count());
        if threads <= 1 {
            return (0..items).for_each(work);
        }
        // SAFETY: only the lifetime is changed, and the job does not use what it names after this call has returned.
        let work = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), *const (dyn Fn(usize) + Sync)>(work) };
        let job = Arc::new(Job {
            work,
            items,
            next: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            panic: Mutex::default(),
        });
        for (worker, _) in &self.threads[..threads - 1] {
            // What a worker that is gone does not take, this thread does.
            let _ = worker.send(job.clone());
        }
        job.work();
        while job.done.load(Ordering::Acquire) < items {
            // At most one item of each other thread is left.
            std::thread::yield_now();
        }
        let panic = job.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(payload) = panic {
            resume_unwind(payload);
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
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    #[test]
    fn every_item_is_done_once_with_any_number_of_threads() {
        for threads in [1, 2, 5] {
            let workers = Workers::new(threads);
            for items in [0, 1, 3, 1000] {
                for most in [0, 1, 2, 9] {
                    let counts: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
                    workers.parallel_for(items, most, &|item| {
                        counts[item].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{items} by {threads}");
                }
            }
        }
    }

    /// Blocks that do not panic take this long from when one does, so that they are at work then.
    const LATE: Duration = Duration::from_millis(20);

    #[test]
    fn a_panic_of_any_thread_is_passed_on_when_no_thread_is_at_work_any_more() {
        let workers = Workers::new(3);
        let caller = std::thread::current().id();
        let deadline = Instant::now() + Duration::from_secs(60);
        for callers in [true, false] {
            let (done, panicked) = (AtomicUsize::new(0), AtomicBool::new(false));
            let work = |_| {
                if (std::thread::current().id() == caller) == callers && !panicked.swap(true, Ordering::Relaxed) {
                    // No hook takes its time, as that of `panic!` does.
                    std::panic::resume_unwind(Box::new("on purpose"));
                }
                // However late the thread comes that is to panic, there is work for it.
                while !panicked.load(Ordering::Relaxed) {
                    assert!(Instant::now() < deadline, "a thread is gone");
                    std::thread::yield_now();
                }
                std::thread::sleep(LATE);
                done.fetch_add(1, Ordering::Relaxed);
            };
            let payload = catch_unwind(AssertUnwindSafe(|| workers.parallel_for(9, 3, &work))).unwrap_err();
            let now = done.load(Ordering::Relaxed);
            assert_eq!(payload.downcast_ref(), Some(&"on purpose"));
            std::thread::sleep(5 * LATE);
            assert_eq!((now, done.load(Ordering::Relaxed)), (8, 8), "a panic of the caller: {callers}");
        }
        // All threads are there for the next work: each item waits for all of them.
        let arrived = AtomicUsize::new(0);
        workers.parallel_for(3, 3, &|_| {
            arrived.fetch_add(1, Ordering::Relaxed);
            while arrived.load(Ordering::Relaxed) < 3 {
                assert!(Instant::now() < deadline, "a thread is gone");
                std::thread::yield_now();
            }
        });
    }
}
