//! What a process still says when it ends by itself.
//!
//! A process that is killed or aborts says nothing, and so others tell an accident from an end: exit(3), and with it the
//! return of main, runs the last words registered here.

use crate::fork;
use crate::places::Places;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

struct Words {
    number: u64,
    generation: u32,
    say: Box<dyn Fn() + Send>,
}

type Place = Mutex<Option<Words>>;

/// Places for last words, each with a lock of its own: one that another thread has at a fork is passed over in the child.
static PLACES: Places<Place> = Places::new();
static COUNT: AtomicU64 = AtomicU64::new(0);
static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
/// How often the handler looks for a place to be free: a thread that exit finds holding it may never go on.
const LOOKS: usize = 1000;

fn try_lock(place: &Place) -> Option<MutexGuard<'_, Option<Words>>> {
    match place.try_lock() {
        Ok(words) => Some(words),
        Err(TryLockError::Poisoned(poison)) => Some(poison.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

extern "C" fn at_exit() {
    for place in PLACES.all() {
        let look = |_| {
            try_lock(place).or_else(|| {
                std::thread::yield_now();
                None
            })
        };
        let Some(mut words) = (0..LOOKS).find_map(look) else { continue };
        // A forked child has its parent's words, and is not to speak for it.
        if let Some(words) = words.take_if(|words| words.generation == fork::generation()) {
            (words.say)();
        }
    }
}

/// Something said at the process's end, unless this value goes before.
#[derive(Debug)]
pub struct LastWords {
    number: u64,
    generation: u32,
    place: Option<usize>,
}

impl LastWords {
    /// Registers what to say. It is said at most once, must not panic, and must not register or drop last words.
    pub fn new(say: impl Fn() + Send + 'static) -> LastWords {
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
        let mut words = Some(Words { number, generation, say: Box::new(say) });
        let place = PLACES.take(|place| {
            let Some(mut place) = try_lock(place) else { return false };
            // What a forked child has of its parent's is never said, and not the child's to drop.
            let is_free = place.as_ref().is_none_or(|words| words.generation != generation);
            if is_free {
                std::mem::forget(std::mem::replace(&mut *place, words.take()));
            }
            is_free
        });
        LastWords { number, generation, place: place.map(|(index, _)| index) }
    }
}

impl Drop for LastWords {
    fn drop(&mut self) {
        let Some((index, place)) = self.place.and_then(|index| Some((index, PLACES.get(index)?))) else { return };
        let words = match try_lock(place) {
            Some(words) => Some(words),
            // Somebody is looking for a free one, or the words are being said.
            None if self.generation == fork::generation() => Some(place.lock().unwrap_or_else(PoisonError::into_inner)),
            None => None,
        };
        if let Some(mut words) = words {
            words.take_if(|words| words.number == self.number);
            drop(words);
            PLACES.give_back(index);
        }
    }
}
