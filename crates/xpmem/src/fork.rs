//! What a forked child keeps: its mappings, what was granted, and what holds the versions that it shows; but nothing that its
//! parent made.
//!
//! The state is locked across `fork`, so that the child finds it whole.

use crate::call::Inside;
use crate::state::{self, State};
use std::cell::RefCell;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU32, Ordering};

struct Held {
    state: MutexGuard<'static, State>,
    _inside: Inside,
}

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Whether `fork` calls the functions below: [`NOT`], [`DONE`], or the number of the process of which a thread sees to it.
static PREPARED: AtomicU32 = AtomicU32::new(NOT);
const NOT: u32 = 0;
const DONE: u32 = u32::MAX;

/// What the library knows of this process. A child that it forks from here on finds that whole.
pub fn state() -> MutexGuard<'static, State> {
    loop {
        let prepared = PREPARED.load(Ordering::Acquire);
        let own = std::process::id();
        match prepared {
            DONE => return state::lock(),
            // Another thread is at it, and is soon done.
            _ if prepared == own => std::thread::yield_now(),
            // A child that was forked meanwhile has no such thread, and begins anew.
            _ if PREPARED.compare_exchange(prepared, own, Ordering::AcqRel, Ordering::Relaxed).is_ok() => {
                prepare();
                PREPARED.store(DONE, Ordering::Release);
            }
            _ => {}
        }
    }
}

/// Has `fork` call the functions below. One thread does this, so that they run before the engine's, whose locks are taken by
/// who has the state's.
fn prepare() {
    stillframe::fork_generation();
    // SAFETY: the three functions live as long as the process, because the library is never unloaded.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

extern "C" fn before() {
    // A fork from inside, as by a signal handler, finds the lock as it is.
    let Some(inside) = Inside::enter() else { return };
    let held = Held { state: state::lock(), _inside: inside };
    let _ = HELD.try_with(|place| place.replace(Some(held)));
}

extern "C" fn in_parent() {
    drop(HELD.try_with(RefCell::take));
}

extern "C" fn in_child() {
    if let Ok(Some(mut held)) = HELD.try_with(RefCell::take) {
        held.state.leave_to_parent();
    }
}
