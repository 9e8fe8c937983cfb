//! The functions that begin threads and processes, and end these.

use crate::count::STACKS;
use crate::family;
use crate::fork;
use crate::heap;
use crate::next::{self, Routine};
use crate::report;
use crate::stacks;
use crate::windows;
use libc::{c_int, c_void, pid_t};

/// What a thread is to do.
struct Start {
    routine: Routine,
    argument: *mut c_void,
}

/// See pthread_create(3).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const c_void,
    routine: Routine,
    argument: *mut c_void,
) -> c_int {
    stacks::note_thread();
    // The kernel writes to the stacks of threads, and would not wait while a large page is cut.
    // SAFETY: the caller's.
    if let Some((lowest, bytes)) = unsafe { stacks::given(attributes) } {
        let _ = crate::kernel::quietly(|| windows::soften(lowest, bytes));
    }
    let start = heap::allocate(size_of::<Start>(), false).cast::<Start>();
    if start.is_null() {
        return next::pthread_create(thread, attributes, routine, argument);
    }
    // SAFETY: the block has that size.
    unsafe { start.write(Start { routine, argument }) };
    let result = next::pthread_create(thread, attributes, begin, start.cast());
    if result != 0 {
        take(start);
    }
    result
}

/// Reads what a thread is to do, and frees it.
fn take(start: *mut Start) -> Start {
    // SAFETY: written by `pthread_create`, and read once.
    unsafe {
        let told = start.read();
        family::free(start.cast());
        told
    }
}

/// The begin of every thread. It may end by an unwinding of the C library's (pthread_exit(3)), and holds nothing by
/// then.
extern "C-unwind" fn begin(start: *mut c_void) -> *mut c_void {
    heap::begin_thread();
    let Start { routine, argument } = take(start.cast());
    let filled = stacks::fill_own();
    let result = routine(argument);
    STACKS.take(filled);
    result
}

/// See fork(2).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fork() -> pid_t {
    fork::forked(next::fork)
}

/// See _exit(2).
#[unsafe(no_mangle)]
pub extern "C" fn _exit(status: c_int) -> ! {
    report::end();
    loop {
        // SAFETY: ends the process.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// See _exit(2).
#[unsafe(no_mangle)]
pub extern "C" fn _Exit(status: c_int) -> ! {
    _exit(status)
}

/// See fork(2): this one runs no handlers, so what they do is done here.
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Fork() -> pid_t {
    fork::forked(|| {
        fork::before();
        let child = next::_Fork();
        if child == 0 {
            fork::in_child()
        } else {
            fork::in_parent()
        }
        child
    })
}
