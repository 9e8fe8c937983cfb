//! The processor time of the steps.
//!
//! # Safety
//!
//! This module asks the kernel for a plain structure of numbers.
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
