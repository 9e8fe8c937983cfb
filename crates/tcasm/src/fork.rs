//! What a forked child keeps: its mappings and what holds them, but nothing of the producer.
//!
//! The locks are held across `fork`, so that the child finds everything whole: those of the files that are mapped, each of
//! which lives at least until its locks are given back, and those of what finds them. Handles of regions are the parent's; the
//! child lets go of them without touching what they stand for, and opens its own when it needs one.

use crate::file::{Attached, Publishing, SharedFile, in_order};
use crate::files::{self, Files};
use crate::kernel::{Inside, Stat};
use crate::later;
use crate::lock::Kept;
use crate::report::{self, Told};
use crate::state::{self, State};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};

/// In the order in which they are given back: a file that goes then needs the lock of all files for that.
struct Held {
    files: MutexGuard<'static, Files>,
    _state: MutexGuard<'static, State>,
    _told: MutexGuard<'static, Told>,
    _newcomers: MutexGuard<'static, ()>,
    observers: Vec<Kept<SharedFile, Option<Attached>>>,
    producers: Vec<Kept<SharedFile, Option<Publishing>>>,
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

/// The files that it maps, in the same way.
pub fn files() -> MutexGuard<'static, Files> {
    prepare_for_forks();
    files::files()
}

/// As [`files::file_of`], in the same way.
pub fn file_of(descriptor: i32, stat: &Stat) -> Option<Arc<SharedFile>> {
    prepare_for_forks();
    files::file_of(descriptor, stat)
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
    // From here on no other thread makes one more file known, whose locks would be missing.
    let newcomers = files::newcomers();
    let all = in_order(files::files().all());
    let producers = all.iter().map(|file| Kept::new(file.clone(), |file| &file.producer)).collect();
    let observers = all.iter().map(|file| Kept::new(file.clone(), |file| &file.observer)).collect();
    let (state, told, files) = (state::state(), report::told(), files::files());
    let held = Held { files, _state: state, _told: told, _newcomers: newcomers, observers, producers, _inside: inside };
    let _ = HELD.try_with(|place| place.replace(Some(held)));
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
    std::mem::forget(held.files.take_all_left());
    // What another thread of the parent had in hand stays for good; that is a file or two for each of them.
}
