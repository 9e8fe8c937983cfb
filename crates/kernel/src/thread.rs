//! The library's own threads in a user's process.
//!
//! They take none of the program's signals: a handler that ran in one of them would wait for what the thread that it works
//! for has locked, which waits for it. Signals of what a thread itself did wrong are not held back.
//!
//! They run on any processor of the process, wherever the thread that starts them is bound.
//!
//! And forked children can have them. A thread of the standard library takes one of its locks when it ends, and in Rust programs when it begins. A child that
//! was forked while another thread did so finds that lock taken for ever, and never sees its own threads end. These are the
//! C library's, whose locks are made for forks.

use crate::processors::Processors;
use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

/// As much as the standard library's threads have.
const STACK_BYTES: usize = 2 << 20;
/// Bytes of a thread's name that the kernel keeps (prctl(2), PR_SET_NAME).
const NAME_BYTES: usize = 15;

struct Start {
    name: CString,
    processors: Processors,
    work: Box<dyn FnOnce() + Send>,
}

thread_local! {
    /// Whether this thread takes no signals: for as long as it lives, or while it does some work. To say it to the kernel again would
    /// take two calls.
    static TAKES_NONE: Cell<bool> = const { Cell::new(false) };
}

extern "C" fn run(start: *mut c_void) -> *mut c_void {
    // SAFETY: whoever started the thread made the box for it.
    let Start { name, processors, work } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    // It has the mask of who started it.
    TAKES_NONE.set(true);
    // SAFETY: the call reads a string that ends.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    processors.take();
    // Whoever needs to know of a panic learns it from what the work leaves.
    let _ = catch_unwind(AssertUnwindSafe(work));
    std::ptr::null_mut()
}

/// All signals but those of what a thread itself does wrong.
fn others() -> libc::sigset_t {
    let mut others = MaybeUninit::uninit();
    // SAFETY: the set is filled before it is read, and lives until the calls return.
    unsafe {
        libc::sigfillset(others.as_mut_ptr());
        for own in [libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGSEGV, libc::SIGSYS, libc::SIGTRAP] {
            libc::sigdelset(others.as_mut_ptr(), own);
        }
        others.assume_init()
    }
}

/// Does `work` without being interrupted, as when it holds a lock that a handler may want; a thread that it starts never is.
pub fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    if TAKES_NONE.get() {
        return work();
    }
    let (others, mut before) = (others(), MaybeUninit::uninit());
    // SAFETY: the sets are filled before they are read, and live until the calls return.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &others, before.as_mut_ptr()) };
    // A handler that runs in this thread does so before or after this.
    TAKES_NONE.set(true);
    let result = work();
    TAKES_NONE.set(false);
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    result
}

/// Lets this thread take no signals from now on, as the library's own take none. For threads that belong to no program.
pub fn take_no_signals() {
    let others = others();
    // SAFETY: the set is filled, and lives until the call returns.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &others, std::ptr::null_mut()) };
    TAKES_NONE.set(true);
}

/// A thread. Dropped, it goes on by itself.
#[derive(Debug)]
pub struct Thread(libc::pthread_t);

impl Drop for Thread {
    fn drop(&mut self) {
        // SAFETY: the thread was started, and is neither joined nor detached before.
        unsafe { libc::pthread_detach(self.0) };
    }
}

impl Thread {
    /// Starts a thread. A panic in it ends `work`, and nothing else.
    ///
    /// # Errors
    /// Of pthread_create(3): the process is out of threads, or of memory for them.
    pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
        let name = name.as_bytes();
        let name = CString::new(&name[..name.len().min(NAME_BYTES)]).unwrap_or_default();
        let start = Box::into_raw(Box::new(Start { name, processors: Processors::of_process(), work: Box::new(work) }));
        let (mut id, mut attributes) = (0, MaybeUninit::uninit());
        // SAFETY: the attributes are made before they are used, and all that is pointed to lives until the calls return;
        // the box lives until the thread takes it.
        let errno = unsafe {
            libc::pthread_attr_init(attributes.as_mut_ptr());
            libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES);
            let create = || libc::pthread_create(&mut id, attributes.as_ptr(), run, start.cast());
            let errno = without_signals(create);
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
            errno
        };
        if errno != 0 {
            // SAFETY: there is no thread that would take it.
            drop(unsafe { Box::from_raw(start) });
            return Err(io::Error::from_raw_os_error(errno));
        }
        Ok(Thread(id))
    }

    /// Waits for the end of the thread.
    pub fn join(self) {
        // SAFETY: the thread was started, is joined only here, and not detached after it.
        unsafe { libc::pthread_join(ManuallyDrop::new(self).0, std::ptr::null_mut()) };
    }
}

/// Does `work` on up to so many threads, this one included; when it returns all are done. Where there can be no more
/// threads, fewer do.
///
/// # Panics
/// As `work`, when all are done.
pub fn together(name: &str, threads: usize, work: &(dyn Fn() + Sync)) {
    let panicked = Mutex::new(None);
    let each = || {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
            match &mut *panicked.lock().unwrap_or_else(PoisonError::into_inner) {
                // Dropped, it might panic, too.
                Some(_) => std::mem::forget(payload),
                first => *first = Some(payload),
            }
        }
    };
    let each: &(dyn Fn() + Sync) = &each;
    // SAFETY: only the lifetime is changed, and all threads are joined before what it names goes; nothing between panics.
    let shared = unsafe { std::mem::transmute::<&(dyn Fn() + Sync), &'static (dyn Fn() + Sync)>(each) };
    let others: Vec<Thread> = (1..threads).map_while(|_| Thread::start(name, shared).ok()).collect();
    each();
    others.into_iter().for_each(Thread::join);
    if let Some(payload) = panicked.into_inner().unwrap_or_else(PoisonError::into_inner) {
        resume_unwind(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn signals_are_the_programs_own_but_for_those_of_what_the_thread_does_wrong() {
        let own = || {
            let mut mask = MaybeUninit::uninit();
            // SAFETY: the call fills the set, which is read after it.
            unsafe {
                libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr());
                let blocks = |signal| libc::sigismember(mask.as_ptr(), signal) == 1;
                [libc::SIGALRM, libc::SIGINT, libc::SIGTERM, libc::SIGUSR1, libc::SIGSEGV, libc::SIGBUS].map(blocks)
            }
        };
        let before = own();
        let (said, hears) = std::sync::mpsc::channel();
        Thread::start("signals", move || said.send(own()).unwrap()).unwrap().join();
        assert_eq!(hears.recv().unwrap(), [true, true, true, true, false, false]);
        assert_eq!(own(), before);
    }

    #[test]
    fn who_takes_no_signals_takes_none_within_other_work_and_after_it() {
        let blocks = || {
            let mut mask = MaybeUninit::uninit();
            // SAFETY: the call fills the set, which is read after it.
            unsafe {
                libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr());
                libc::sigismember(mask.as_ptr(), libc::SIGUSR1) == 1
            }
        };
        assert!(!blocks());
        let within = without_signals(|| (without_signals(blocks), blocks()));
        assert_eq!((within, blocks()), ((true, true), false));
        std::thread::spawn(move || {
            take_no_signals();
            assert!(without_signals(blocks) && blocks());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn all_is_done_when_it_returns_and_a_panic_is_passed_on() {
        let count = AtomicUsize::new(0);
        together("a-name-that-is-too-long", 4, &|| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.load(Ordering::Relaxed), 4);
        let panics = || {
            if count.fetch_add(1, Ordering::Relaxed) == 5 {
                panic!("on purpose");
            }
        };
        let payload = catch_unwind(AssertUnwindSafe(|| together("panics", 4, &panics))).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"on purpose"));
        assert_eq!(count.load(Ordering::Relaxed), 8);
    }
}
