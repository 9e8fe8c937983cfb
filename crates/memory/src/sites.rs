//! Small blocks that grow lie with those that grow at the same place in the program.
//!
//! Arrays that grow side by side leave smaller blocks behind. The allocator gives these to whoever asks for as many bytes next, so
//! that arrays of one kind come to lie in no order among what is left of those of another, which processors do not read
//! ahead. So what `realloc` moves comes from a heap of its own for each place that calls it, as long as there are few.

use libc::{c_void, size_t};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

// Of mimalloc.h, what `libmimalloc-sys` does not declare.
unsafe extern "C" {
    fn mi_heap_new() -> *mut c_void;
    fn mi_heap_theap(heap: *mut c_void) -> *mut c_void;
    fn mi_heap_malloc(heap: *mut c_void, bytes: size_t) -> *mut c_void;
}

/// Larger blocks lie in few pages each, wherever that is.
const BYTES_MOST: usize = 8 << 10;
/// Each heap may keep a page of each size, for each thread.
const SITES_MOST: usize = 8;

/// A forked child takes no pages for these heaps: a thread of its parent may just have been taking one, with a lock that nobody has in the
/// child.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// A place that calls `realloc`, by the address to which it returns, and its heap.
struct Site {
    address: AtomicUsize,
    heap: AtomicPtr<c_void>,
}

static SITES: [Site; SITES_MOST] =
    [const { Site { address: AtomicUsize::new(0), heap: AtomicPtr::new(null_mut()) } }; SITES_MOST];

thread_local! {
    /// A bit for each heap that this thread has used.
    static ENTERED: Cell<u32> = const { Cell::new(0) };
}

/// The number of a place that calls; `None` if there are too many others.
fn find(address: usize) -> Option<usize> {
    let is_it = |site: &Site| match site.address.load(Ordering::Relaxed) {
        0 => {
            let before = site.address.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed);
            before.map_or_else(|there| there == address, |_| true)
        }
        there => there == address,
    };
    SITES.iter().position(is_it)
}

/// The heap of a place. What prepares one takes locks of the allocator, which no fork may find taken: `held` runs that.
fn heap_of(number: usize, held: impl FnOnce(&dyn Fn())) -> Option<*mut c_void> {
    let site = &SITES[number];
    let entered = ENTERED.try_with(Cell::get).ok()?;
    if entered >> number & 1 == 0 {
        held(&|| {
            if site.heap.load(Ordering::Relaxed).is_null() {
                // SAFETY: takes nothing. The allocator has a range: a block of it grows.
                site.heap.store(unsafe { mi_heap_new() }, Ordering::Release);
            }
            let heap = site.heap.load(Ordering::Relaxed);
            if !heap.is_null() {
                // SAFETY: the heap was made, and is never deleted.
                unsafe { mi_heap_theap(heap) };
            }
        });
        if !site.heap.load(Ordering::Relaxed).is_null() {
            let _ = ENTERED.try_with(|bits| bits.set(entered | 1 << number));
        }
    }
    Some(site.heap.load(Ordering::Acquire)).filter(|heap| !heap.is_null())
}

/// A block for one that grows, from the heap of the place that calls; `None` if it has none, or that has no memory. `held` runs what
/// no fork may cut in two.
pub fn allocate(address: usize, bytes: usize, held: impl FnOnce(&dyn Fn())) -> Option<*mut c_void> {
    if address == 0 || bytes > BYTES_MOST || IS_CHILD.load(Ordering::Relaxed) {
        return None;
    }
    let heap = heap_of(find(address)?, held)?;
    // SAFETY: as above.
    Some(unsafe { mi_heap_malloc(heap, bytes) }).filter(|block| !block.is_null())
}

/// This is a forked child.
pub fn begin_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
}
