//! What a forked child keeps: its mappings and what holds them, but nothing of the producer.
//!
//! The locks are held across `fork`, so that the child finds everything whole. Handles of regions are the parent's; the
//! child lets go of them without touching what they stand for, and opens its own when it needs one.

use crate::file::{Attached, Publishing, SharedFile};
use crate::kernel::Inside;
use crate::later;
use crate::lock::lock;
use crate::report::{self, Told};
use crate::state::{self, State};
use std::cell::RefCell;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering};

struct Held {
    producers: Vec<MutexGuard<'static, Option<Publishing>>>,
    observers: Vec<MutexGuard<'static, Option<Attached>>>,
    _state: MutexGuard<'static, State>,
    _told: MutexGuard<'static, Told>,
    _inside: Inside,
}

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// What the library knows of this process. A child that it forks from here on finds that whole.
pub fn state() -> MutexGuard<'static, State> {
    prepare_for_forks();
    state::state()
}

/// Makes sure that `fork` calls the functions below.
fn prepare_for_forks() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    // Threads that come here together may say it twice; the second run of `before` finds itself inside.
    if !IS_DONE.load(Ordering::Acquire) {
        // The engine's own first: of handlers that are installed while a fork waits in `before`, that fork runs none.
        stillframe::fork_generation();
        // SAFETY: the three functions live as long as the process, because a preloaded library is never unloaded.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        IS_DONE.store(true, Ordering::Release);
    }
}

extern "C" fn before() {
    // A fork from inside, as by a signal handler, finds the locks as they are.
    let Some(inside) = Inside::enter() else { return };
    loop {
        let files: Vec<&'static SharedFile> = state::state().files();
        let producers = files.iter().map(|file| lock(&file.producer)).collect();
        let observers = files.iter().map(|file| lock(&file.observer)).collect();
        let state = state::state();
        // Another thread may have mapped one more meanwhile; none is ever forgotten.
        if state.files().len() == files.len() {
            let held = Held { producers, observers, _state: state, _told: report::told(), _inside: inside };
            let _ = HELD.try_with(|place| place.replace(Some(held)));
            return;
        }
    }
}

extern "C" fn in_parent() {
    drop(HELD.try_with(RefCell::take));
}

extern "C" fn in_child() {
    later::forget();
    let Ok(Some(mut held)) = HELD.try_with(RefCell::take) else { return };
    for producer in &mut held.producers {
        std::mem::forget(producer.take());
    }
    for observer in &mut held.observers {
        std::mem::forget(observer.take());
    }
}
