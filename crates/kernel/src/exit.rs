//! Shutdown hooks: functions that run when a process ends by itself.
//!
//! A process that is killed or aborts says nothing, and so others tell an accident from an end: exit(3), and with it the
//! return of main, runs the shutdown hooks registered here.

use crate::entries::Entries;
use crate::fork;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

struct Hook {
    number: u64,
    generation: u32,
    say: Box<dyn Fn() + Send>,
}

type Entry = Mutex<Option<Hook>>;

/// Entries for shutdown hooks, each with a lock of its own: one that another thread has at a fork is passed over in the child.
static ENTRIES: Entries<Entry> = Entries::new();
static COUNT: AtomicU64 = AtomicU64::new(0);
static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
/// How often the handler looks for an entry to be free: a thread that exit finds holding it may never go on.
const LOOKS: usize = 1000;

fn try_lock(entry: &Entry) -> Option<MutexGuard<'_, Option<Hook>>> {
    match entry.try_lock() {
        Ok(hook) => Some(hook),
        Err(TryLockError::Poisoned(poison)) => Some(poison.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

extern "C" fn at_exit() {
    for entry in ENTRIES.all() {
        let look = |_| {
            try_lock(entry).or_else(|| {
                std::thread::yield_now();
                None
            })
        };
        let Some(mut hook) = (0..LOOKS).find_map(look) else { continue };
        // A forked child has its parent's hooks, and is not to speak for it.
        if let Some(hook) = hook.take_if(|hook| hook.generation == fork::generation()) {
            (hook.say)();
        }
    }
}

/// Something said at the process's end, unless this value goes before.
#[derive(Debug)]
pub struct ShutdownHook {
    number: u64,
    generation: u32,
    entry: Option<usize>,
}

impl ShutdownHook {
    /// Registers what to say. It is said at most once, must not panic, and must not register or drop shutdown hooks.
    pub fn new(say: impl Fn() + Send + 'static) -> ShutdownHook {
        // Threads that come here together may install it twice; the second run finds everything said.
        if !IS_INSTALLED.load(Ordering::Acquire) {
            // The C library has a lock for this, which a child that was forked meanwhile would find taken at its end.
            // SAFETY: the handler is a plain function that lives as long as the program or library it is in, and the C
            // library forgets it when a library is unloaded.
            fork::undivided(|| unsafe { libc::atexit(at_exit) });
            IS_INSTALLED.store(true, Ordering::Release);
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let generation = fork::generation();
        let mut hook = Some(Hook { number, generation, say: Box::new(say) });
        let entry = ENTRIES.take(|entry| {
            let Some(mut entry) = try_lock(entry) else { return false };
            // What a forked child has of its parent's is never said, and not the child's to drop.
            let is_free = entry.as_ref().is_none_or(|hook| hook.generation != generation);
            if is_free {
                std::mem::forget(std::mem::replace(&mut *entry, hook.take()));
            }
            is_free
        });
        ShutdownHook { number, generation, entry: entry.map(|(index, _)| index) }
    }
}

impl Drop for ShutdownHook {
    fn drop(&mut self) {
        let Some((index, entry)) = self.entry.and_then(|index| Some((index, ENTRIES.get(index)?))) else { return };
        let hook = match try_lock(entry) {
            Some(hook) => Some(hook),
            // Somebody is looking for a free one, or the hook is running.
            None if self.generation == fork::generation() => Some(entry.lock().unwrap_or_else(PoisonError::into_inner)),
            None => None,
        };
        if let Some(mut hook) = hook {
            hook.take_if(|hook| hook.number == self.number);
            drop(hook);
            ENTRIES.give_back(index);
        }
    }
}
