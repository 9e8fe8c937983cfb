//! What a process still says when it ends by itself.
//!
//! A process that is killed or aborts says nothing, and so others tell an accident from an end: exit(3), and with it the
//! return of main, runs the last words registered here.

use crate::fork;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError, TryLockError};

struct Words {
    number: u64,
    generation: u32,
    say: Box<dyn Fn() + Send>,
}

static WORDS: Mutex<Vec<Words>> = Mutex::new(Vec::new());
static COUNT: AtomicU64 = AtomicU64::new(0);
static INSTALL: Once = Once::new();
/// How often the handler looks for the list to be free: a thread that exit finds holding it may never go on.
const LOOKS: usize = 1000;

extern "C" fn at_exit() {
    for _ in 0..LOOKS {
        let words = match WORDS.try_lock() {
            Ok(words) => words,
            Err(TryLockError::Poisoned(poison)) => poison.into_inner(),
            Err(TryLockError::WouldBlock) => {
                std::thread::yield_now();
                continue;
            }
        };
        // A forked child has its parent's list, and is not to speak for it.
        words.iter().filter(|words| words.generation == fork::generation()).for_each(|words| (words.say)());
        return;
    }
}

/// Something said at the process's end, unless this value goes before.
#[derive(Debug)]
pub struct LastWords {
    number: u64,
}

impl LastWords {
    /// Registers what to say. It is said at most once, must not panic, and must not register or drop last words.
    pub fn new(say: impl Fn() + Send + 'static) -> LastWords {
        INSTALL.call_once(|| {
            // SAFETY: the handler is a plain function that lives as long as the program or library it is in, and the C
            // library forgets it when a library is unloaded.
            unsafe { libc::atexit(at_exit) };
        });
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let words = Words { number, generation: fork::generation(), say: Box::new(say) };
        WORDS.lock().unwrap_or_else(PoisonError::into_inner).push(words);
        LastWords { number }
    }
}

impl Drop for LastWords {
    fn drop(&mut self) {
        let mut words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = words.iter().position(|words| words.number == self.number) {
            words.swap_remove(index);
        }
    }
}
