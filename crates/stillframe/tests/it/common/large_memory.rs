//! Memory of a program in large pages.
//!
//! # Safety
//!
//! A mapping is its owner's alone, as long as it lives.
#![allow(unsafe_code)]

use std::ptr;

const LARGE_BYTES: usize = 2 << 20;

/// Numbers in large pages of their own.
pub struct LargeMemory {
    address: *mut u64,
    bytes: usize,
}

impl LargeMemory {
    /// Zeros; `None` if there are not as many large pages.
    pub fn new(length: usize) -> Option<LargeMemory> {
        let bytes = (length * 8).next_multiple_of(LARGE_BYTES).max(LARGE_BYTES);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB | libc::MAP_HUGE_2MB;
        // SAFETY: a new mapping at an address of the kernel's choice. Its pages are reserved with it.
        let address = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        (address != libc::MAP_FAILED).then_some(LargeMemory { address: address.cast(), bytes })
    }

    /// Zeros in small pages, as many as a large one has, with some in large pages behind them.
    pub fn behind_small(length: usize) -> Option<LargeMemory> {
        let large = (length * 8).next_multiple_of(LARGE_BYTES);
        let (bytes, flags) = (large + 2 * LARGE_BYTES, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice, parts of which are given back or replaced before anybody
        // knows it.
        unsafe {
            let around = libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0);
            if around == libc::MAP_FAILED {
                return None;
            }
            let before = around.align_offset(LARGE_BYTES);
            let address = around.add(before);
            if before > 0 {
                libc::munmap(around, before);
            }
            libc::munmap(address.add(LARGE_BYTES + large), LARGE_BYTES - before);
            let memory = LargeMemory { address: address.cast(), bytes: LARGE_BYTES + large };
            let flags = flags | libc::MAP_FIXED | libc::MAP_HUGETLB | libc::MAP_HUGE_2MB;
            let behind = libc::mmap(address.add(LARGE_BYTES), large, protection, flags, -1, 0);
            (behind != libc::MAP_FAILED).then_some(memory)
        }
    }

    pub fn slice(&self) -> &[u64] {
        // SAFETY: the mapping has as many bytes, and lives as long as what is lent.
        unsafe { std::slice::from_raw_parts(self.address, self.bytes / 8) }
    }

    pub fn slice_mut(&mut self) -> &mut [u64] {
        // SAFETY: as in `slice`; nobody else has it meanwhile.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.bytes / 8) }
    }
}

impl Drop for LargeMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made.
        unsafe { libc::munmap(self.address.cast(), self.bytes) };
    }
}
