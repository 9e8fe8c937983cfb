//! What is asked of the system: time, and memory.
//!
//! # Safety
//!
//! Calls get addresses of live values only.
#![allow(unsafe_code)]

/// Seconds of this thread's processor, of which other programs on the machine take none.
pub fn seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer refers to a live timespec. The call cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// An array whose every page is there, in large pages where the kernel has them: numpy asks for them too.
pub fn array(numbers: usize, value: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut array = Vec::<f64>::with_capacity(numbers);
    let page_bytes = 4096;
    let begin = (array.as_ptr() as usize).next_multiple_of(page_bytes);
    let end = (array.as_ptr() as usize + numbers * 8) / page_bytes * page_bytes;
    if end > begin {
        // SAFETY: the pages are of the array. It is advice, and may be refused.
        unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_HUGEPAGE) };
    }
    array.extend((0..numbers).map(value));
    array
}
