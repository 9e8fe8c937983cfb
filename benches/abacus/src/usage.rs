//! Processor time.
//!
//! # Safety
//!
//! This module asks the kernel for plain structures of numbers.
#![allow(unsafe_code)]

/// Processor time of all children that have been waited for, of all their threads and of the kernel for them, in milliseconds.
pub fn children_ms() -> f64 {
    // SAFETY: the structure is plain data, valid when zeroed, and the pointer is to a live one. The call cannot fail for it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let ms = |time: libc::timeval| time.tv_sec as f64 * 1e3 + time.tv_usec as f64 / 1e3;
    ms(usage.ru_utime) + ms(usage.ru_stime)
}

/// Processor time of this thread, in milliseconds.
pub fn thread_ms() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live structure. The call cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}
