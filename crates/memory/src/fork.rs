//! What a forked child gets.
//!
//! A private large page is shared with the child until one of the two writes. If the parent writes and the pool is
//! empty, the kernel takes the page away from the child, and the child ends by SIGBUS when it comes to it. So the child
//! copies everything into ordinary memory before it does anything else, and the thread that forks waits for that. Other
//! threads of the parent may write meanwhile; what the kernel takes from the child then is seen while it copies, by an
//! error and not by a signal. Then the child ends, and `fork` fails in the parent as if there had been no memory.

use crate::blocks;
use crate::count;
use crate::cuts;
use crate::heap;
use crate::kernel::{self, Descriptor, Errno, PAGE_BYTES, READ_WRITE, WINDOW_BYTES, map, read_own, unmap};
use crate::lock::Lock;
use crate::mapped;
use crate::next;
use crate::pieces::{self, Purpose, Window};
use crate::plain;
use crate::pool;
use crate::report;
use crate::room;
use crate::say::say;
use crate::setting;
use crate::signals;
use crate::sites;
use crate::stacks;
use crate::windows;
use libc::c_int;
use std::cell::{Cell, UnsafeCell};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};

/// One fork at a time: nobody else's child gets the descriptors by which a parent learns that its child has ended.
static FORKS: Lock = Lock::new();
/// Who reads, and who writes.
static PIPE: [AtomicI32; 2] = [AtomicI32::new(NONE), AtomicI32::new(NONE)];
const NONE: c_int = -1;

/// Whether the process that forks has threads, or had.
static HAD_THREADS: AtomicBool = AtomicBool::new(false);

/// Where there are no descriptors: the page that parent and child have in common, whose first word says how far the child is.
static PAGE: AtomicUsize = AtomicUsize::new(0);
const COPYING: u32 = 0;
const WHOLE: u32 = 1;
const BROKEN: u32 = 2;

thread_local! {
    static IS_LOST: Cell<bool> = const { Cell::new(false) };
    static IS_ASKED: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread has still to wait for its child, by the page.
    static IS_WAITING: Cell<bool> = const { Cell::new(false) };
}

/// What a child without memory ends with, which nobody sees where `fork` is this library's.
const LOST: c_int = 127;

/// Bytes that are looked at together: where they are all zeros nothing is written.
const BUFFER_BYTES: usize = 256 << 10;

/// Makes sure that `fork` does all this.
pub fn install() {
    // SAFETY: the functions live as long as the process, because a preloaded library is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_handled), Some(in_parent_handled), Some(in_child_handled)) };
}

/// Runs a call that forks. What the child could not have is an error.
pub fn forked(call: impl FnOnce() -> libc::pid_t) -> libc::pid_t {
    if blocks::is_changing() {
        kernel::set_errno(libc::EAGAIN);
        return -1;
    }
    if setting::is_strict() && has_pool() {
        static IS_SAID: AtomicBool = AtomicBool::new(false);
        if !IS_SAID.swap(true, Ordering::Relaxed) {
            let pid = kernel::own_pid();
            say(format_args!(
                "process {pid} cannot fork: a child has what its parent has in ordinary memory (--strict); posix_spawn works"
            ));
        }
        kernel::set_errno(libc::ENOMEM);
        return -1;
    }
    // The child would copy the stack that it stands on, and go on on the copy.
    if windows::touches_pool(stacks::here(), 1) {
        static IS_SAID: AtomicBool = AtomicBool::new(false);
        if !IS_SAID.swap(true, Ordering::Relaxed) {
            let pid = kernel::own_pid();
            say(format_args!(
                "a thread of process {pid} whose stack lies in the pool cannot fork: give it one of less than 16 MiB of mmap's"
            ));
        }
        kernel::set_errno(libc::ENOMEM);
        return -1;
    }
    let _ = IS_LOST.try_with(|lost| lost.set(false));
    let _ = IS_ASKED.try_with(|asked| asked.set(true));
    let child = call();
    let _ = IS_ASKED.try_with(|asked| asked.set(false));
    if child != 0 && IS_WAITING.try_with(|waiting| waiting.replace(false)).unwrap_or(false) {
        kernel::quietly(|| {
            let is_whole = child < 0 || wait_for_copy(child);
            let _ = IS_LOST.try_with(|lost| lost.set(!is_whole));
            drop_page();
            end_waiting();
        });
    }
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

/// Before a fork that runs handlers. After them glibc takes the lock of its list of open files, which a thread has that flushes all, and that
/// thread may wait for a file whose thread waits for memory. So it is taken before the locks of this library, and may be taken twice.
extern "C" fn before_handled() {
    next::_IO_list_lock();
    before();
}

extern "C" fn in_parent_handled() {
    in_parent();
    next::_IO_list_unlock();
}

extern "C" fn in_child_handled() {
    in_child();
    // glibc does the same, where there were threads.
    next::_IO_list_resetlock();
}

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
        HAD_THREADS.store(stacks::has_threads(), Ordering::Relaxed);
        if has_pool() {
            make_room();
            let mut ends = [NONE; 2];
            // SAFETY: the call writes two descriptors. Without any the parent does not wait, and the child copies all
            // the same.
            if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } == 0 {
                let ends = ends.map(|end| above_standard(Descriptor(end)));
                PIPE.iter().zip(ends).for_each(|(place, end)| place.store(end, Ordering::Relaxed));
            } else if let Ok(page) = map(PAGE_BYTES, READ_WRITE, libc::MAP_SHARED) {
                PAGE.store(page, Ordering::Relaxed);
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

/// Lets other threads have memory again.
fn unlock_memory() {
    pieces::lock().give();
    windows::lock().give();
    blocks::lock().give();
    heap::lock().give();
}

/// Lets other threads have memory of the pool again, and fork.
fn end_waiting() {
    pool::set_closed(false);
    let held = windows::lock().hold();
    room::take_again();
    drop(held);
    unlock();
}

/// Lets other threads fork again.
fn unlock() {
    // SAFETY: this thread has `FORKS`, and wrote it before.
    let mask = unsafe { (*MASK.0.get()).assume_init_read() };
    FORKS.give();
    signals::restore(&mask);
}

/// Gives back the page that parent and child have in common.
fn drop_page() {
    if let Some(page) = take_page() {
        // SAFETY: mapped for this fork, and nobody else knows it.
        unsafe { unmap(page, PAGE_BYTES) };
    }
}

fn take_page() -> Option<usize> {
    Some(PAGE.swap(0, Ordering::Relaxed)).filter(|page| *page != 0)
}

/// The first word of the page.
fn word(page: usize) -> &'static AtomicU32 {
    // SAFETY: the page is mapped until the fork has ended, and this is used before. Parent and child change it by such words alone.
    unsafe { &*(page as *const AtomicU32) }
}

/// Waits until a child has copied all, or has ended; whether it has all.
fn wait_for_copy(child: libc::pid_t) -> bool {
    let word = word(PAGE.load(Ordering::Relaxed));
    loop {
        match word.load(Ordering::Acquire) {
            COPYING if !kernel::has_ended(child) => kernel::sleep_shared_while(word, COPYING),
            // It may have said so and ended since.
            COPYING => return word.load(Ordering::Acquire) == WHOLE,
            says => return says == WHOLE,
        }
    }
}

/// Says in the child how its copy went, where its parent looks at the page.
fn say_copied(page: Option<usize>, says: u32) {
    let Some(page) = page else { return };
    word(page).store(says, Ordering::Release);
    kernel::wake_shared(word(page));
    // SAFETY: the child's own mapping, which nobody uses any more.
    unsafe { unmap(page, PAGE_BYTES) };
}

fn take(end: usize) -> Option<Descriptor> {
    Some(PIPE[end].swap(NONE, Ordering::Relaxed)).filter(|end| *end != NONE).map(Descriptor)
}

pub extern "C" fn in_parent() {
    kernel::quietly(|| {
        let reader = take(0);
        drop(take(1));
        let mut is_to_be_said = false;
        let is_asked = IS_ASKED.try_with(Cell::get).unwrap_or(false);
        if is_asked && PAGE.load(Ordering::Relaxed) != 0 {
            // Who asks knows the child, and waits for it.
            pool::set_closed(true);
            unlock_memory();
            let _ = IS_WAITING.try_with(|waiting| waiting.set(true));
            return;
        }
        // Others go on meanwhile, however long the child takes. What the pool has they leave to it.
        pool::set_closed(true);
        unlock_memory();
        if let Some(reader) = reader {
            // The child says one byte, or ends, and then nobody is left to say anything.
            let is_whole = reader.read(&mut [0]) == Ok(1);
            // Whoever asks says it himself, if there was a child at all.
            is_to_be_said = !is_whole && !is_asked;
            let _ = IS_LOST.try_with(|lost| lost.set(!is_whole));
        }
        drop_page();
        end_waiting();
        if is_to_be_said {
            complain();
        }
    });
}

pub extern "C" fn in_child() {
    kernel::quietly(|| {
        drop(take(0));
        let (writer, page) = (take(1), take_page());
        cuts::take_holes_back();
        if copy_all().is_err() {
            say_copied(page, BROKEN);
            // SAFETY: ends the process, of which the parent learns.
            unsafe { libc::syscall(libc::SYS_exit_group, LOST) };
        }
        count::begin_child();
        plain::begin_child();
        mapped::begin_child();
        heap::begin_child(HAD_THREADS.load(Ordering::Relaxed));
        sites::begin_child();
        report::begin_process();
        if let Some(writer) = writer {
            // The parent may have ended meanwhile.
            signals::without_pipe(|| kernel::write(writer.0, &[1]));
        }
        say_copied(page, WHOLE);
        unlock_memory();
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
        windows::each_pool(&piece, 0..piece.windows, |run| {
            // Who takes more than there is would be killed, and in a group that ends as one all others with him.
            if plain::available_bytes() < run.len() * WINDOW_BYTES {
                return Err(libc::ENOMEM);
            }
            windows::replace(&piece, run, &mut copy)
        })?;
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
