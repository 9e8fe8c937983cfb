//! Forked children.
//!
//! # Safety
//!
//! A child does what it is given, and ends without running what belongs to its parent.
#![allow(unsafe_code)]

/// Forks a child that does something, and returns its process number.
pub fn in_child(act: impl FnOnce()) -> i32 {
    // SAFETY: the child uses of what other threads had only this library and the C library's memory, both made for it.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        // SAFETY: the call ends the process without running what belongs to the parent.
        unsafe { libc::_exit(i32::from(done.is_err())) }
    }
    pid
}

/// Waits for the end of a child, and returns how that was (waitpid(2)).
pub fn reap(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: the pointer is to a live number, and the child is one of this process.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    status
}
