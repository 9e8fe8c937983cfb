//! How many bytes the process has allocated.
//!
//! # Safety
//!
//! Each call is passed on to the system's allocator with the same arguments, and what that returns is returned. Beside this only a
//! number changes. So its contract is kept as the system's keeps it.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};

static ALLOCATED: AtomicI64 = AtomicI64::new(0);

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes that are allocated now.
pub fn allocated_bytes() -> i64 {
    ALLOCATED.load(Ordering::Relaxed)
}

// SAFETY: the system's allocator keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: what the caller promises is what the system's asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as above; the place is from the system's, since all are.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ALLOCATED.fetch_add(bytes as i64 - layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, bytes) }
    }
}
