//! What threads stand on.

use crate::count::{self, STACKS};
use crate::kernel::{self, PAGE_BYTES, quietly};
use crate::plain;
use libc::c_void;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The most of a stack that is filled.
const STACK_BYTES: usize = 8 << 20;
/// The same where the process is small.
const STACK_BYTES_SMALL: usize = 1 << 20;
/// The most of all stacks, as a part of what the machine has left.
const PART: usize = 64;
/// A stack with less is left as it is.
const STACK_BYTES_LEAST: usize = 256 << 10;
/// What is left alone at the lower end.
const MARGIN_BYTES: usize = 256 << 10;

/// The first thread's stack: how far it may reach, where the thread stood when the library began, and its end.
static MAIN: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

static HAS_THREADS: AtomicBool = AtomicBool::new(false);

/// Notes that there is more than one thread.
pub fn note_thread() {
    HAS_THREADS.store(true, Ordering::Relaxed);
}

/// Whether there was ever more than one thread, or is: not all ways to make one come by here.
pub fn has_threads() -> bool {
    HAS_THREADS.load(Ordering::Relaxed) || count_tasks().is_none_or(|count| count > 1)
}

/// Threads of this process, by the folders that it has of them.
fn count_tasks() -> Option<usize> {
    // SAFETY: plain data, which the call fills; the name ends with a zero.
    unsafe {
        let mut told: libc::stat = std::mem::zeroed();
        let is_told = libc::stat(c"/proc/self/task".as_ptr(), &mut told) == 0;
        is_told.then_some((told.st_nlink as usize).saturating_sub(2))
    }
}

/// Where the calling thread stands.
pub fn here() -> usize {
    let local = 0u8;
    std::hint::black_box(&local) as *const u8 as usize
}

/// Remembers the first thread's stack, which is the one that calls this.
pub fn remember_main() {
    // The program's name is the last thing that the kernel lays above the stack, but for a word.
    // SAFETY: takes a number; the name ends with a zero.
    let end = unsafe {
        match libc::getauxval(libc::AT_EXECFN) as *const c_char {
            name if name.is_null() => return,
            name => name as usize + CStr::from_ptr(name).count_bytes() + 1 + size_of::<usize>(),
        }
    };
    // SAFETY: plain data, which the call fills.
    let limit = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_STACK, &mut limit);
        limit.rlim_cur as usize
    };
    let end = end.next_multiple_of(PAGE_BYTES);
    let lowest = (end.saturating_sub(limit.min(STACK_BYTES)) + MARGIN_BYTES).next_multiple_of(PAGE_BYTES);
    MAIN[0].store(lowest, Ordering::Relaxed);
    MAIN[1].store(here() / PAGE_BYTES * PAGE_BYTES, Ordering::Relaxed);
    MAIN[2].store(end, Ordering::Release);
}

/// Fills the first thread's stack as far as it may grow, up to a bound, once.
pub fn fill_main_once() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    let end = MAIN[2].load(Ordering::Acquire);
    let (lowest, highest) = (MAIN[0].load(Ordering::Relaxed), MAIN[1].load(Ordering::Relaxed));
    if end == 0 || highest <= lowest || !count::is_large() || IS_DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    quietly(|| {
        // What lies deeper than what is filled would be another mapping, and the C library would take that for the end
        // of the stack.
        if kernel::is_mapped(lowest - PAGE_BYTES, PAGE_BYTES) {
            return;
        }
        // The kernel lets the stack grow to where somebody touches it, within its limit, which may be lower by now: it says
        // so to a call, where it would end the process that reads there itself.
        if kernel::read_own(lowest, &mut [0]).is_err() {
            return;
        }
        if plain::fill(lowest, end - lowest) {
            STACKS.add(highest - lowest);
        }
    });
}

/// Fills the stack of the thread that calls this. Gives how many bytes that were.
pub fn fill_own() -> usize {
    let Some((lowest, bytes)) = own().filter(|(_, bytes)| *bytes >= STACK_BYTES_LEAST) else { return 0 };
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

/// The stack that a thread is to have, if somebody gives it one.
///
/// # Safety
/// The attributes are none, or those of pthread_create(3).
pub unsafe fn given(attributes: *const c_void) -> Option<(usize, usize)> {
    let attributes: *const libc::pthread_attr_t = attributes.cast();
    let (mut lowest, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: as said; the call fills two numbers.
    let is_told =
        !attributes.is_null() && unsafe { libc::pthread_attr_getstack(attributes, &mut lowest, &mut bytes) } == 0;
    (is_told && !lowest.is_null() && bytes > 0).then_some((lowest as usize, bytes))
}

/// What sigaltstack(2) is told, if it can be read.
pub fn read_given(address: usize) -> Option<libc::stack_t> {
    let mut bytes = [0; size_of::<libc::stack_t>()];
    (address != 0).then_some(())?;
    quietly(|| kernel::read_own(address, &mut bytes)).ok()?;
    // SAFETY: plain data, of which there are that many bytes.
    Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
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
