//! What a forked child gets.
//!
//! A private large page is shared with the child until one of the two writes. If the parent writes and the pool is
//! empty, the kernel takes the page away from the child, and the child ends by SIGBUS when it comes to it. So the child
//! copies everything into ordinary memory before it does anything else, and the thread that forks waits for that. Other
//! threads of the parent may write meanwhile; what the kernel takes from the child then is seen while it copies, by an
//! error and not by a signal. Then the child ends, and `fork` fails in the parent as if there had been no memory.

use crate::blocks;
use crate::count;
use crate::heap;
use crate::kernel::{self, Descriptor, Errno, PAGE_BYTES, READ_WRITE, WINDOW_BYTES, map, read_own, unmap};
use crate::lock::Lock;
use crate::pieces::{self, Purpose, Window};
use crate::report;
use crate::room;
use crate::say::say;
use crate::signals;
use crate::sites;
use crate::stacks;
use crate::windows;
use libc::c_int;
use std::cell::{Cell, UnsafeCell};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// One fork at a time: nobody else's child gets the descriptors by which a parent learns that its child has ended.
static FORKS: Lock = Lock::new();
/// Who reads, and who writes.
static PIPE: [AtomicI32; 2] = [AtomicI32::new(NONE), AtomicI32::new(NONE)];
const NONE: c_int = -1;

thread_local! {
    static IS_LOST: Cell<bool> = const { Cell::new(false) };
    static IS_ASKED: Cell<bool> = const { Cell::new(false) };
}

/// What a child without memory ends with, which nobody sees where `fork` is this library's.
const LOST: c_int = 127;

/// Bytes that are looked at together: where they are all zeros nothing is written.
const BUFFER_BYTES: usize = 256 << 10;

/// Makes sure that `fork` does all this.
pub fn install() {
    // SAFETY: the functions live as long as the process, because a preloaded library is never unloaded.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

/// Runs a call that forks. What the child could not have is an error.
pub fn forked(call: impl FnOnce() -> libc::pid_t) -> libc::pid_t {
    if blocks::is_changing() {
        kernel::set_errno(libc::EAGAIN);
        return -1;
    }
    // The child would copy the stack that it stands on, and go on on the copy.
    if windows::touches_pool(stacks::here(), 1) {
        static IS_SAID: AtomicBool = AtomicBool::new(false);
        if !IS_SAID.swap(true, Ordering::Relaxed) {
            let pid = kernel::own_pid();
            say(format_args!(
                "a thread of process {pid} whose stack lies in the pool cannot fork: give it a stack of mmap's"
            ));
        }
        kernel::set_errno(libc::ENOMEM);
        return -1;
    }
    let _ = IS_LOST.try_with(|lost| lost.set(false));
    let _ = IS_ASKED.try_with(|asked| asked.set(true));
    let child = call();
    let _ = IS_ASKED.try_with(|asked| asked.set(false));
    if child > 0 && IS_LOST.try_with(|lost| lost.replace(false)).unwrap_or(false) {
        complain();
        kernel::wait_for(child);
        kernel::set_errno(libc::ENOMEM);
        return -1;
    }
    child
}

fn has_pool() -> bool {
    pieces::all().any(|piece| piece.run(0..piece.windows, Window::Pool).is_some())
}

/// The signals that the thread that forks had blocked, which is the one that has [`FORKS`].
struct Mask(UnsafeCell<MaybeUninit<signals::Mask>>);

// SAFETY: written and read by who has `FORKS` alone.
unsafe impl Sync for Mask {}

static MASK: Mask = Mask(UnsafeCell::new(MaybeUninit::uninit()));

pub extern "C" fn before() {
    kernel::quietly(|| {
        // No handler runs until both are done: it might ask for memory, or leave by a jump, while the locks are held; and in
        // the child what it touches might not be there.
        let mask = signals::block();
        FORKS.take();
        // SAFETY: this thread has `FORKS`.
        unsafe { (*MASK.0.get()).write(mask) };
        heap::lock().take();
        blocks::lock().take();
        windows::lock().take();
        pieces::lock().take();
        if has_pool() {
            make_room();
            let mut ends = [NONE; 2];
            // SAFETY: the call writes two descriptors. Without any the parent does not wait, and the child copies all
            // the same.
            if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } == 0 {
                let ends = ends.map(|end| above_standard(Descriptor(end)));
                PIPE.iter().zip(ends).for_each(|(place, end)| place.store(end, Ordering::Relaxed));
            }
        }
    });
}

/// The same descriptor with a number that no other thread takes for standard output, where that was closed.
fn above_standard(end: Descriptor) -> c_int {
    let end = ManuallyDrop::new(end);
    if end.0 > libc::STDERR_FILENO {
        return end.0;
    }
    // SAFETY: takes numbers; the old one is closed where there is a new one.
    match unsafe { libc::fcntl(end.0, libc::F_DUPFD_CLOEXEC, libc::STDERR_FILENO + 1) } {
        NONE => end.0,
        new => {
            drop(ManuallyDrop::into_inner(end));
            new
        }
    }
}

/// Sees to it that the pool has some pages for what is written until the child has copied all.
fn make_room() {
    if !room::give_back() && stacks::has_threads() {
        empty_unused(room::missing_pages());
    }
}

/// Gives pages back in which no block lies.
fn empty_unused(mut count: usize) {
    for piece in pieces::all().filter(|piece| piece.purpose == Purpose::Block) {
        for window in (0..piece.windows).rev() {
            if count == 0 {
                return;
            }
            let is_unused = || !blocks::has_any(piece.address_of(window), WINDOW_BYTES);
            if piece.window(window) == Window::Pool && is_unused() && windows::empty(&piece, window..window + 1) {
                count -= 1;
            }
        }
    }
}

fn unlock() {
    // SAFETY: this thread has `FORKS`, and wrote it before.
    let mask = unsafe { (*MASK.0.get()).assume_init_read() };
    pieces::lock().give();
    windows::lock().give();
    blocks::lock().give();
    heap::lock().give();
    FORKS.give();
    signals::restore(&mask);
}

fn take(end: usize) -> Option<Descriptor> {
    Some(PIPE[end].swap(NONE, Ordering::Relaxed)).filter(|end| *end != NONE).map(Descriptor)
}

pub extern "C" fn in_parent() {
    kernel::quietly(|| {
        let reader = take(0);
        drop(take(1));
        let mut is_to_be_said = false;
        if let Some(reader) = reader {
            // The child says one byte, or ends, and then nobody is left to say anything.
            let is_whole = reader.read(&mut [0]) == Ok(1);
            let is_asked = IS_ASKED.try_with(Cell::get).unwrap_or(false);
            // Whoever asks says it himself, if there was a child at all.
            is_to_be_said = !is_whole && !is_asked;
            let _ = IS_LOST.try_with(|lost| lost.set(!is_whole));
        }
        room::take_again();
        unlock();
        if is_to_be_said {
            complain();
        }
    });
}

pub extern "C" fn in_child() {
    kernel::quietly(|| {
        drop(take(0));
        let writer = take(1);
        windows::take_holes_back();
        if copy_all().is_err() {
            // SAFETY: ends the process, of which the parent learns.
            unsafe { libc::syscall(libc::SYS_exit_group, LOST) };
        }
        count::begin_child();
        sites::begin_child();
        report::begin_process();
        if let Some(writer) = writer {
            kernel::write(writer.0, &[1]);
        }
        unlock();
    });
}

/// Says once why forks fail.
fn complain() {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if !IS_SAID.swap(true, Ordering::Relaxed) {
        say(format_args!(
            "a child of process {} could not copy its parent's large pages: memory is short, or the pool was empty \
             while somebody wrote; the fork fails, a larger pool helps (`still pages`)",
            kernel::own_pid()
        ));
    }
}

fn copy_all() -> Result<(), Errno> {
    if !has_pool() {
        return Ok(());
    }
    let buffer = map(BUFFER_BYTES, READ_WRITE, libc::MAP_PRIVATE)?;
    // SAFETY: just mapped, as long, and nobody else's.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer as *mut u8, BUFFER_BYTES) };
    for piece in pieces::all() {
        let is_ours = piece.purpose == Purpose::Block;
        let mut copy = |from, to, count| copy(from, to, count, &mut *bytes, is_ours);
        windows::each_pool(&piece, 0..piece.windows, |run| windows::replace(&piece, run, &mut copy))?;
    }
    // SAFETY: mapped above.
    unsafe { unmap(buffer, BUFFER_BYTES) };
    Ok(())
}

/// Copies what is not zero into memory that is, and of a range of blocks only these.
fn copy(from: usize, to: usize, bytes: usize, buffer: &mut [u8], is_of_blocks: bool) -> Result<(), Errno> {
    for at in (0..bytes).step_by(buffer.len()) {
        let count = buffer.len().min(bytes - at);
        if is_of_blocks && !blocks::has_any(from + at, count) {
            continue;
        }
        read_own(from + at, &mut buffer[..count])?;
        for (index, page) in buffer[..count].chunks_exact(PAGE_BYTES).enumerate() {
            if page.iter().any(|byte| *byte != 0) {
                let place = (to + at + index * PAGE_BYTES) as *mut u8;
                // SAFETY: the place is in memory that was mapped for this.
                unsafe { std::ptr::copy_nonoverlapping(page.as_ptr(), place, PAGE_BYTES) };
            }
        }
    }
    Ok(())
}
