//! What was served from where.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Below this a process is small, and has ordinary memory.
pub const SMALL_BYTES: usize = 8 << 20;

/// A sum of bytes.
pub struct Sum(AtomicUsize);

impl Sum {
    const fn new() -> Sum {
        Sum(AtomicUsize::new(0))
    }

    pub fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn take(&self, bytes: usize) {
        // A forked child begins anew, and then gives back what was its parent's.
        let less = |sum: usize| Some(sum.saturating_sub(bytes));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The heap, and what was loaded, in the pool.
pub static POOL: Sum = Sum::new();
/// The most that this was.
pub static POOL_MOST: AtomicUsize = AtomicUsize::new(0);
/// Of these, what was loaded.
pub static LOADED: Sum = Sum::new();
/// The heap in ordinary memory, as long as the process is small or where the pool was empty.
pub static HEAP_PLAIN: Sum = Sum::new();
/// Of these, where the pool was empty.
pub static REFUSED: Sum = Sum::new();
/// What the program mapped itself and was filled at once.
pub static MAPPED: Sum = Sum::new();
/// What is called stacks and was filled at once.
pub static STACKS: Sum = Sum::new();

/// Adds to what lies in the pool.
pub fn add_pool(bytes: usize) {
    POOL.add(bytes);
    POOL_MOST.fetch_max(POOL.get(), Ordering::Relaxed);
}

/// Begins anew in a forked child, which has copied everything into ordinary memory of its heap.
pub fn begin_child() {
    POOL_MOST.store(0, Ordering::Relaxed);
    [&LOADED, &REFUSED, &MAPPED, &STACKS].into_iter().for_each(|sum| sum.0.store(0, Ordering::Relaxed));
}

static WANTED: Sum = Sum::new();

/// Whether a process that asks for so much more is no longer small.
pub fn is_large_with(bytes: usize) -> bool {
    WANTED.add(bytes);
    is_large()
}

/// Whether the process is no longer small.
pub fn is_large() -> bool {
    WANTED.get() > SMALL_BYTES
}
