//! Threads of the C library, for one execution.
//!
//! They take none of the program's signals: a handler that ran in one of them would wait for what the thread that it works
//! for has locked, which waits for it. And forked children can have them: the standard library's own take a lock of it when
//! they begin and end, which a child that was forked at that instant finds taken for ever.
//!
//! # Safety
//!
//! A thread gets a pointer into the stack of the one that starts it. Its invariant: no started thread is left when [`parallel_for`]
//! returns, nor does it return otherwise.
#![allow(unsafe_code)]

use std::{
    ffi::c_void,
    mem::MaybeUninit,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::null_mut,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use smallvec::SmallVec;

/// As much as the standard library's threads have.
const STACK_BYTES: usize = 2 << 20;

/// Pieces of work, of which each thread takes the next.
struct Work<'a> {
    work: &'a (dyn Fn(usize) + Sync),
    count: usize,
    next: AtomicUsize,
    panicked: AtomicBool,
}

impl Work<'_> {
    fn run(&self) {
        loop {
            let piece = self.next.fetch_add(1, Ordering::Relaxed);
            if piece >= self.count {
                return;
            }
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (self.work)(piece))) {
                // Dropped, it might panic, too.
                std::mem::forget(payload);
                self.panicked.store(true, Ordering::Relaxed);
            }
        }
    }
}

extern "C" fn run(work: *mut c_void) -> *mut c_void {
    // SAFETY: the calls read a string that ends, and what the thread that waits for this one made for it.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"drepl-move".as_ptr());
        (*work.cast::<Work<'_>>()).run();
    }
    null_mut()
}

/// Starts a thread that takes no signals, but for those of what it does wrong itself.
fn start(work: &Work<'_>) -> Option<libc::pthread_t> {
    let (mut others, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let (mut id, mut attributes) = (0, MaybeUninit::uninit());
    // SAFETY: sets and attributes are filled before they are read, and live until the calls return; what the thread is given
    // lives until it is joined.
    unsafe {
        libc::sigfillset(others.as_mut_ptr());
        for own in [libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGSEGV, libc::SIGSYS, libc::SIGTRAP] {
            libc::sigdelset(others.as_mut_ptr(), own);
        }
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES);
        libc::pthread_sigmask(libc::SIG_BLOCK, others.as_ptr(), before.as_mut_ptr());
        let given = std::ptr::from_ref(work).cast_mut().cast();
        let errno = libc::pthread_create(&mut id, attributes.as_ptr(), run, given);
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (errno == 0).then_some(id)
    }
}

/// Does `work` for each number below `count`, on up to so many threads, this one included: where the system has no thread
/// left, fewer do. All of it is done when this returns; `false` if some of it panicked.
pub(super) fn parallel_for(threads: usize, count: usize, work: &(dyn Fn(usize) + Sync)) -> bool {
    let work = Work { work, count, next: AtomicUsize::new(0), panicked: AtomicBool::new(false) };
    let others: SmallVec<[_; 16]> = (1..threads.min(count)).map_while(|_| start(&work)).collect();
    work.run();
    for other in others {
        // SAFETY: the thread was started, and is joined only here.
        unsafe { libc::pthread_join(other, null_mut()) };
    }
    !work.panicked.into_inner()
}

#[cfg(test)]
mod tests {
    use std::{
        sync::Mutex,
        time::{Duration, Instant},
    };

    use super::*;

    /// Whether the calling thread takes these signals.
    fn takes() -> [bool; 6] {
        let mut blocked = MaybeUninit::uninit();
        // SAFETY: the call fills the set, which is read after it.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), blocked.as_mut_ptr());
            let takes = |signal| libc::sigismember(blocked.as_ptr(), signal) == 0;
            [libc::SIGALRM, libc::SIGINT, libc::SIGTERM, libc::SIGUSR1, libc::SIGSEGV, libc::SIGBUS].map(takes)
        }
    }

    #[test]
    fn all_is_done_once_by_threads_that_take_no_signals_of_the_program() {
        let (caller, before) = (std::thread::current().id(), takes());
        let (arrived, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let deadline = Instant::now() + Duration::from_secs(60);
        let all = parallel_for(4, 9, &|piece| {
            // Each of the first four waits until others have the rest of them.
            arrived.fetch_add(1, Ordering::Relaxed);
            while arrived.load(Ordering::Relaxed) < 4 {
                assert!(Instant::now() < deadline, "there are no four threads");
                std::thread::yield_now();
            }
            let expected =
                if std::thread::current().id() == caller { before } else { [false, false, false, false, true, true] };
            assert_eq!(takes(), expected);
            done.lock().unwrap().push(piece);
        });
        assert!(all);
        let mut done = done.into_inner().unwrap();
        done.sort_unstable();
        assert_eq!(done, (0..9).collect::<Vec<_>>());
        assert_eq!(takes(), before);
    }

    #[test]
    fn a_panic_of_any_thread_is_told_when_all_is_done() {
        for threads in [1, 3] {
            let done = AtomicUsize::new(0);
            let all = parallel_for(threads, 6, &|piece| {
                if piece % 2 == 0 {
                    std::panic::resume_unwind(Box::new("on purpose"));
                }
                std::thread::sleep(Duration::from_millis(5));
                done.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!((all, done.load(Ordering::Relaxed)), (false, 3));
        }
    }
}
