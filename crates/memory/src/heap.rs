//! The allocator: mimalloc, over ranges of addresses that it is given and whose memory it asks for here.
//!
//! It never gives memory back, so that a program that allocates and frees in each time step makes no system call. Large
//! blocks, and those aligned to more than it can, are not its.
//!
//! A child of a process that had threads never enters it. It has locks, and bits that it waits for, which a thread of the parent may have set
//! just then and nobody sets back in the child. The C library has small blocks for such a child, as it promises, and what that frees of its
//! parent's small blocks stays as it is.

use crate::blocks::{self, Begin, Block};
use crate::kernel::{PAGE_BYTES, WINDOW_BYTES, copy_nonzero, has_address_limit, set_errno};
use crate::lock::Lock;
use crate::pieces::{self, Piece, Purpose};
use crate::pool;
use crate::sites;
use crate::windows::{self, Want};
use libc::{c_int, c_long, c_void, size_t};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

type Commit = extern "C" fn(bool, *mut c_void, size_t, *mut bool, *mut c_void) -> bool;

// Of mimalloc.h, what `libmimalloc-sys` declares only together with everything, or not at all.
unsafe extern "C" {
    fn mi_manage_memory(
        start: *mut c_void,
        bytes: size_t,
        is_committed: bool,
        is_pinned: bool,
        is_zero: bool,
        numa_node: c_int,
        is_exclusive: bool,
        commit: Commit,
        commit_argument: *mut c_void,
        arena: *mut *mut c_void,
    ) -> bool;
    fn mi_usable_size(block: *const c_void) -> size_t;
    fn mi_thread_init();
    fn mi_thread_done();
    fn mi_option_set(option: c_int, value: c_long);
    /// The key whose destructor ends the allocator's part of a thread (`prim/unix/prim.c` of mimalloc 3.3.2).
    static _mi_heap_default_key: libc::pthread_key_t;
    /// Whether there is anything to end when the process exits (`init.c`).
    static mut _mi_process_is_initialized: bool;
}

// The C library's own, whatever stands before it.
unsafe extern "C" {
    fn __libc_calloc(count: size_t, bytes: size_t) -> *mut c_void;
    fn __libc_malloc(bytes: size_t) -> *mut c_void;
    fn __libc_memalign(align: size_t, bytes: size_t) -> *mut c_void;
}

/// Whether this is a child of a process that had threads.
static IS_ORPHAN: AtomicBool = AtomicBool::new(false);

/// This is a forked child, whose parent had threads or not.
pub fn begin_child(had_threads: bool) {
    if had_threads {
        IS_ORPHAN.store(true, Ordering::Relaxed);
        // So that the short way to a block is not taken.
        RESERVED.store(0, Ordering::Relaxed);
        // SAFETY: the child has one thread, and the allocator reads this when the process exits.
        unsafe { _mi_process_is_initialized = false };
    }
}

fn is_orphan() -> bool {
    IS_ORPHAN.load(Ordering::Relaxed)
}

/// Numbers of options in mimalloc.h.
const PURGE_DELAY: c_int = 15;
const DISALLOW_OS_ALLOC: c_int = 17;
const DESTROY_ON_EXIT: c_int = 22;
const DISALLOW_ARENA_ALLOC: c_int = 26;
const PAGE_COMMIT_ON_DEMAND: c_int = 40;
const ARENA_MAX_OBJECT_KIB: c_int = 45;

/// A range for the allocator is a multiple of this.
const ARENA_BYTES: usize = 32 << 20;
/// The first range; each further one is as large as all before, so that a limit that is set later still is one.
const ARENA_BYTES_FIRST: usize = 256 << 20;
/// The same where the program's addresses are bounded.
const ARENA_BYTES_BOUNDED: usize = 64 << 20;
const ARENA_BYTES_MOST: usize = 16 << 30;
/// Ranges that one request adds until it gives up: others may take what it added, too.
const GROWTHS_MOST: usize = 16;
/// The largest alignment that the allocator knows.
const ALIGN_MOST: usize = 64 << 10;
/// Below this the allocator aligns blocks to less than the C library does.
const BYTES_LEAST: usize = 16;

thread_local! {
    static IS_NOTING: Cell<bool> = const { Cell::new(false) };
    static IS_GROWING: Cell<bool> = const { Cell::new(false) };
    static HAS_FAILED: Cell<bool> = const { Cell::new(false) };
}

static GROWTH: Lock = Lock::new();

/// Held across `fork`.
pub fn lock() -> &'static Lock {
    &GROWTH
}

/// Runs `work` with the lock.
fn growing<T>(work: impl FnOnce() -> T) -> T {
    let note = |is_growing| IS_GROWING.try_with(|noted| noted.set(is_growing));
    let result = GROWTH.during(|| {
        let _ = note(true);
        let result = work();
        let _ = note(false);
        result
    });
    pool::complain();
    result
}

static RESERVED: AtomicUsize = AtomicUsize::new(0);

/// Gives the allocator memory for addresses of its own. It asks for some again that it has, and never gives any back.
extern "C" fn commit(is_wanted: bool, start: *mut c_void, bytes: size_t, _: *mut bool, _: *mut c_void) -> bool {
    if !is_wanted {
        return false;
    }
    let want = if IS_NOTING.try_with(Cell::get).unwrap_or(false) { Want::Notes } else { Want::Large };
    let is_done = windows::fill(start as usize, bytes, want);
    if !IS_GROWING.try_with(Cell::get).unwrap_or(true) {
        pool::complain();
    }
    if !is_done {
        let _ = HAS_FAILED.try_with(|failed| failed.set(true));
    }
    is_done
}

/// What became of a wish for another range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growth {
    Done,
    /// Another thread was faster.
    ByOther,
    Failed,
}

/// Gives the allocator another range, which can hold a block of this size. `seen` is what it had when it was found too
/// little.
fn grow(bytes: usize, seen: usize) -> Growth {
    growing(|| grow_held(bytes, seen))
}

fn grow_held(bytes: usize, seen: usize) -> Growth {
    let had = RESERVED.load(Ordering::Relaxed);
    if had != seen {
        return Growth::ByOther;
    }
    if had == 0 {
        prepare();
        // SAFETY: numbers of options that there are.
        unsafe {
            mi_option_set(PURGE_DELAY, -1);
            mi_option_set(DISALLOW_OS_ALLOC, 1);
            mi_option_set(ARENA_MAX_OBJECT_KIB, (ARENA_BYTES_MOST >> 10) as c_long);
            // What the user's environment may say for another mimalloc: memory would come and go past `commit`.
            mi_option_set(PAGE_COMMIT_ON_DEMAND, 0);
            mi_option_set(DISALLOW_ARENA_ALLOC, 0);
            mi_option_set(DESTROY_ON_EXIT, 0);
        }
    }
    let needed = bytes.saturating_add(2 * ARENA_BYTES).next_multiple_of(ARENA_BYTES);
    // The allocator's own notes at the begin are no page of the pool, and a page of 1 GiB wants room behind them.
    let room = if page_align() > WINDOW_BYTES { 4 * page_align() } else { 0 };
    let usual = if has_address_limit() { ARENA_BYTES_BOUNDED } else { ARENA_BYTES_FIRST.max(room) };
    let wanted = usual.max(had).min(ARENA_BYTES_MOST).max(needed) / ARENA_BYTES * ARENA_BYTES;
    let reserve = |bytes| pieces::reserve(Purpose::Heap, bytes, page_align());
    let Ok(piece) = reserve(wanted).or_else(|_| reserve(needed)) else { return Growth::Failed };
    let _ = IS_NOTING.try_with(|noting| noting.set(true));
    // SAFETY: the range is this library's, has no memory yet, and is never given back.
    let is_given = unsafe {
        mi_manage_memory(
            piece.address as _,
            piece.bytes(),
            false,
            false,
            true,
            -1,
            false,
            commit,
            null_mut(),
            null_mut(),
        )
    };
    let _ = IS_NOTING.try_with(|noting| noting.set(false));
    RESERVED.store(had + piece.bytes(), Ordering::Release);
    if is_given { Growth::Done } else { Growth::Failed }
}

fn page_align() -> usize {
    pool::page_bytes().max(WINDOW_BYTES)
}

/// Has the allocator prepare for the thread that calls this, which no fork may cut in two: its own locks are not known
/// to a child.
pub fn begin_thread() {
    if is_orphan() {
        return;
    }
    growing(|| {
        // SAFETY: takes nothing.
        unsafe { mi_thread_init() };
        if let Some(key) = KEY.load(Ordering::Relaxed).checked_sub(1) {
            // SAFETY: the key was made, and its value is never read.
            unsafe { libc::pthread_setspecific(key, &raw const KEY as *const c_void) };
        }
    });
}

/// Runs at the end of a thread. What the allocator does there on its own takes locks that a child of a fork would find taken.
extern "C" fn end_thread(_: *mut c_void) {
    let end = || {
        if !is_orphan() {
            // SAFETY: takes nothing.
            unsafe { mi_thread_done() };
        }
        // The allocator's own destructor would find the heap that it has just freed: mimalloc 3.3.2 leaves it in its key.
        // SAFETY: the allocator writes its key once, before the first thread begins.
        unsafe { libc::pthread_setspecific(_mi_heap_default_key, std::ptr::null()) };
    };
    growing(end);
}

/// The key whose value has [`end_thread`] called, plus one.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Runs before the allocator's own begin, which makes a key, too: of two values that of the older key ends first.
extern "C" fn prepare() {
    if KEY.load(Ordering::Relaxed) != 0 {
        return;
    }
    let mut key = 0;
    // SAFETY: the function lives as long as the process, because a preloaded library is never unloaded.
    if unsafe { libc::pthread_key_create(&mut key, Some(end_thread)) } == 0 {
        KEY.store(key + 1, Ordering::Relaxed);
    }
}

#[used]
#[unsafe(link_section = ".init_array.00001")]
static PREPARE: extern "C" fn() = prepare;

/// Asks the allocator, which is given more addresses where it has too few.
fn asking(bytes: usize, ask: impl Fn() -> *mut c_void) -> *mut c_void {
    // What others add they may use up before this thread asks again. Each of its own ranges holds the block.
    let mut growths = 0;
    loop {
        let seen = RESERVED.load(Ordering::Acquire);
        if seen > 0 {
            let _ = HAS_FAILED.try_with(|failed| failed.set(false));
            let block = ask();
            if !block.is_null() {
                return block;
            }
            if HAS_FAILED.try_with(Cell::get).unwrap_or(false) {
                break;
            }
        }
        if growths == GROWTHS_MOST {
            break;
        }
        match grow(bytes, seen) {
            Growth::Done => growths += 1,
            Growth::ByOther => {}
            Growth::Failed => break,
        }
    }
    set_errno(libc::ENOMEM);
    null_mut()
}

/// A block.
#[inline]
pub fn allocate(bytes: usize, is_zero: bool) -> *mut c_void {
    if bytes < blocks::LEAST_BYTES && RESERVED.load(Ordering::Relaxed) > 0 {
        let bytes = bytes.max(BYTES_LEAST);
        // SAFETY: takes a size.
        let block =
            unsafe { if is_zero { libmimalloc_sys::mi_zalloc(bytes) } else { libmimalloc_sys::mi_malloc(bytes) } };
        if !block.is_null() {
            return block;
        }
    }
    allocate_slowly(bytes, is_zero)
}

#[cold]
fn allocate_slowly(bytes: usize, is_zero: bool) -> *mut c_void {
    if bytes >= blocks::LEAST_BYTES {
        return large(bytes, Begin::Coloured, is_zero);
    }
    let bytes = bytes.max(BYTES_LEAST);
    if is_orphan() {
        // SAFETY: takes a size.
        return unsafe { if is_zero { __libc_calloc(1, bytes) } else { __libc_malloc(bytes) } };
    }
    // SAFETY: takes a size.
    asking(bytes, || unsafe {
        if is_zero { libmimalloc_sys::mi_zalloc(bytes) } else { libmimalloc_sys::mi_malloc(bytes) }
    })
}

fn large(bytes: usize, begin: Begin, is_zero: bool) -> *mut c_void {
    let Some(Block { address, is_fresh }) = blocks::allocate(bytes, begin) else {
        set_errno(libc::ENOMEM);
        return null_mut();
    };
    if is_zero && !is_fresh {
        windows::clear(address, bytes);
    }
    address as *mut c_void
}

/// A block at a multiple of `align`, a power of two. `None`: it is not for this heap.
pub fn allocate_aligned(bytes: usize, align: usize) -> Option<*mut c_void> {
    // Who wants whole pages may want to protect them, for which small pages are better.
    if align >= PAGE_BYTES && bytes < WINDOW_BYTES {
        return None;
    }
    if align > ALIGN_MOST || bytes >= blocks::LEAST_BYTES {
        return Some(large(bytes, Begin::Aligned(align), false));
    }
    let bytes = bytes.max(BYTES_LEAST);
    if is_orphan() {
        // SAFETY: takes a size and a power of two.
        return Some(unsafe { __libc_memalign(align, bytes) });
    }
    // SAFETY: takes a size and a power of two.
    Some(asking(bytes, || unsafe { libmimalloc_sys::mi_malloc_aligned(bytes, align) }))
}

/// Whose a block is.
#[inline]
pub fn owner(block: *mut c_void) -> Option<Piece> {
    pieces::find(block as usize).filter(|piece| piece.purpose != Purpose::Loaded)
}

/// Frees a block of this heap.
///
/// # Safety
/// The block is of the piece, and nobody uses it any more.
#[inline]
pub unsafe fn free(block: *mut c_void, of: Piece) {
    match of.purpose {
        Purpose::Heap if is_orphan() => {}
        // SAFETY: as said.
        Purpose::Heap => unsafe { libmimalloc_sys::mi_free(block) },
        Purpose::Block => blocks::free(block as usize),
        Purpose::Loaded => {}
    }
}

/// Bytes that a block has.
///
/// # Safety
/// The block is of the piece.
pub unsafe fn usable_bytes(block: *mut c_void, of: &Piece) -> usize {
    match of.purpose {
        // SAFETY: as said.
        Purpose::Heap => unsafe { mi_usable_size(block) },
        _ => blocks::usable_bytes(block as usize),
    }
}

/// Changes the size of a block, which may move; `site` is the address to which the caller returns, or 0. NULL: there is no memory, and
/// the block is as it was.
///
/// # Safety
/// The block is of the piece.
pub unsafe fn reallocate(block: *mut c_void, of: Piece, bytes: usize, site: usize) -> *mut c_void {
    // SAFETY: as said.
    let had = unsafe { usable_bytes(block, &of) };
    if bytes <= had && bytes >= had / 2 {
        return block;
    }
    if of.purpose == Purpose::Block && blocks::resize(block as usize, bytes) {
        return block;
    }
    // A large block that grows once will grow again.
    let may_grow = bytes > had && bytes >= blocks::LEAST_BYTES;
    let more = if may_grow { bytes / 8 } else { 0 };
    // One that is written in places only stays so.
    let is_sparse = had.min(bytes) >= windows::SPARSE_BYTES;
    let grown = if bytes > had { sites::allocate(site, bytes, |work| growing(work)) } else { None };
    let mut new = grown.unwrap_or_else(|| allocate(bytes.saturating_add(more), is_sparse));
    if new.is_null() && more > 0 {
        new = allocate(bytes, is_sparse);
    }
    if new.is_null() {
        // What it has is enough to shrink.
        return if bytes <= had { block } else { new };
    }
    // SAFETY: both have that many bytes, and the old one is the caller's to give up.
    unsafe {
        match is_sparse {
            true => copy_nonzero(block as usize, new as usize, had.min(bytes)),
            false => std::ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast::<u8>(), had.min(bytes)),
        }
        free(block, of);
    }
    new
}
