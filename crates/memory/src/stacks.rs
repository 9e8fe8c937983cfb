//! What threads stand on.

use crate::count::{self, STACKS};
use crate::kernel::{PAGE_BYTES, quietly};
use crate::plain;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The most of a stack that is filled.
const STACK_BYTES: usize = 8 << 20;
/// The same where the process is small.
const STACK_BYTES_SMALL: usize = 1 << 20;
/// The most of all stacks, as a part of what the machine has left.
const PART: usize = 64;
/// What is left alone at the lower end.
const MARGIN_BYTES: usize = 256 << 10;

/// Where the first thread stood when the library began, and how far its stack may reach.
static MAIN: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

fn here() -> usize {
    let local = 0u8;
    std::hint::black_box(&local) as *const u8 as usize
}

/// Remembers where the first thread stands, which is the one that calls this.
///
/// # Safety
/// The environment is the process's own, as the kernel laid it above the stack.
pub unsafe fn remember_main(environment: *const *const c_char) {
    let mut top = here();
    // SAFETY: the list ends with null, and each text with a zero.
    unsafe {
        let mut at = environment;
        while !at.is_null() && !(*at).is_null() {
            top = top.max(*at as usize + CStr::from_ptr(*at).count_bytes());
            at = at.add(1);
        }
    }
    // SAFETY: plain data, which the call fills.
    let limit = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_STACK, &mut limit);
        limit.rlim_cur as usize
    };
    let lowest = top.saturating_sub(limit.min(STACK_BYTES)) + MARGIN_BYTES;
    MAIN[1].store(lowest, Ordering::Relaxed);
    MAIN[0].store(here(), Ordering::Release);
}

/// Fills the first thread's stack as far as it may grow, up to a bound, once.
pub fn fill_main_once() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    let highest = MAIN[0].load(Ordering::Acquire) / PAGE_BYTES * PAGE_BYTES;
    let lowest = MAIN[1].load(Ordering::Relaxed).next_multiple_of(PAGE_BYTES);
    if highest <= lowest || !count::is_large() || IS_DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    quietly(|| {
        // The kernel lets the stack grow to where somebody touches it, within its limit.
        // SAFETY: within the limit that the stack had when the program began; the kernel keeps other mappings from there.
        std::hint::black_box(unsafe { std::ptr::read_volatile(lowest as *const u8) });
        if plain::fill(lowest, highest - lowest) {
            STACKS.add(highest - lowest);
        }
    });
}

/// Fills the stack of the thread that calls this. Gives how many bytes that were.
pub fn fill_own() -> usize {
    let Some((lowest, bytes)) = own() else { return 0 };
    let most = if count::is_large() { STACK_BYTES } else { STACK_BYTES_SMALL };
    let end = here() / PAGE_BYTES * PAGE_BYTES;
    let begin = end.saturating_sub(most).max(lowest.next_multiple_of(PAGE_BYTES));
    if begin >= end || end > lowest + bytes {
        return 0;
    }
    if STACKS.get() + (end - begin) > plain::available_bytes() / PART {
        plain::advise(begin, end - begin);
        return 0;
    }
    if !plain::fill(begin, end - begin) {
        return 0;
    }
    STACKS.add(end - begin);
    end - begin
}

/// The stack of the thread that calls this, without what guards it.
fn own() -> Option<(usize, usize)> {
    // SAFETY: plain data, which the calls fill and then free.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return None;
        }
        let (mut lowest, mut bytes) = (std::ptr::null_mut(), 0);
        let result = libc::pthread_attr_getstack(&attributes, &mut lowest, &mut bytes);
        libc::pthread_attr_destroy(&mut attributes);
        (result == 0).then_some((lowest as usize, bytes))
    }
}
