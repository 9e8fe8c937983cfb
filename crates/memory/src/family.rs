//! `malloc` and its family.
//!
//! Blocks that are not of this library's heap were given by the C library or by the program's own allocator, and go
//! back there.

use crate::heap;
use crate::kernel::PAGE_BYTES;
use crate::next;
use libc::{c_int, c_void, size_t};
use std::ptr::null_mut;

// The C library's own, whatever stands before it.
unsafe extern "C" {
    fn __libc_memalign(align: size_t, bytes: size_t) -> *mut c_void;
    fn __libc_realloc(block: *mut c_void, bytes: size_t) -> *mut c_void;
    fn __libc_free(block: *mut c_void);
}

/// See malloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn malloc(bytes: size_t) -> *mut c_void {
    if next::is_passed_on(next::MALLOC) { next::malloc(bytes) } else { heap::allocate(bytes, false) }
}

/// See malloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: size_t, bytes: size_t) -> *mut c_void {
    if next::is_passed_on(next::CALLOC) {
        return next::calloc(count, bytes);
    }
    // What overflows is more than there can be.
    heap::allocate(count.saturating_mul(bytes), true)
}

/// See malloc(3).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if block.is_null() {
        return;
    }
    match heap::owner(block) {
        // SAFETY: the caller's.
        Some(of) => unsafe { heap::free(block, of) },
        None if next::has_other_allocator() => next::free(block),
        // SAFETY: the caller's.
        None => unsafe { __libc_free(block) },
    }
}

/// See free_sized of C23.
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(block: *mut c_void, _: size_t) {
    // SAFETY: the caller's.
    unsafe { free(block) }
}

/// See free_aligned_sized of C23.
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(block: *mut c_void, _: size_t, _: size_t) {
    // SAFETY: the caller's.
    unsafe { free(block) }
}

/// See malloc(3).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(block: *mut c_void) {
    // SAFETY: the caller's.
    unsafe { free(block) }
}

/// See malloc(3). Notes who calls it.
///
/// # Safety
/// As of the C library's.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn realloc(block: *mut c_void, bytes: size_t) -> *mut c_void {
    std::arch::naked_asm!("mov rdx, [rsp]", "jmp {}", sym realloc_at)
}

/// See malloc(3). Notes who calls it.
///
/// # Safety
/// As of the C library's.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn realloc(block: *mut c_void, bytes: size_t) -> *mut c_void {
    std::arch::naked_asm!("mov x2, x30", "b {}", sym realloc_at)
}

/// See malloc(3).
///
/// # Safety
/// As of the C library's.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, bytes: size_t) -> *mut c_void {
    // SAFETY: the caller's.
    unsafe { realloc_at(block, bytes, 0) }
}

/// As [`realloc`], for a caller to which it returns at this address; 0 is none.
///
/// # Safety
/// As of the C library's.
unsafe extern "C" fn realloc_at(block: *mut c_void, bytes: size_t, site: usize) -> *mut c_void {
    if block.is_null() {
        return malloc(bytes);
    }
    match heap::owner(block) {
        Some(of) if bytes == 0 => {
            // SAFETY: the caller's; the C library frees such a block.
            unsafe { heap::free(block, of) };
            null_mut()
        }
        // SAFETY: the caller's.
        Some(of) => unsafe { heap::reallocate(block, of, bytes, site) },
        None if next::has_other_allocator() => next::realloc(block, bytes),
        // SAFETY: the caller's.
        None => unsafe { __libc_realloc(block, bytes) },
    }
}

/// See malloc(3).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(block: *mut c_void, count: size_t, bytes: size_t) -> *mut c_void {
    if next::is_passed_on(next::REALLOCARRAY) && heap::owner(block).is_none() {
        // The C library asks for the `realloc` that comes first.
        return next::reallocarray(block, count, bytes);
    }
    match count.checked_mul(bytes) {
        // SAFETY: the caller's.
        Some(bytes) => unsafe { realloc_at(block, bytes, 0) },
        None => {
            crate::kernel::set_errno(libc::ENOMEM);
            null_mut()
        }
    }
}

/// A block at a multiple of `align`, a power of two, for a function of [`next`].
fn aligned(function: u32, align: usize, bytes: usize) -> *mut c_void {
    if next::is_passed_on(function) {
        return next::memalign(align, bytes);
    }
    // SAFETY: takes numbers.
    heap::allocate_aligned(bytes, align).unwrap_or_else(|| unsafe { __libc_memalign(align, bytes) })
}

/// See posix_memalign(3).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(block: *mut *mut c_void, align: size_t, bytes: size_t) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    let before = crate::kernel::errno();
    let found = aligned(next::POSIX_MEMALIGN, align, bytes);
    crate::kernel::set_errno(before);
    if found.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's.
    unsafe { *block = found };
    0
}

/// See posix_memalign(3). As the C library's it takes what is no power of two for the next one.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: size_t, bytes: size_t) -> *mut c_void {
    aligned_to(next::MEMALIGN, align, bytes)
}

fn aligned_to(function: u32, align: usize, bytes: usize) -> *mut c_void {
    match align.max(size_of::<usize>()).checked_next_power_of_two() {
        Some(align) => aligned(function, align, bytes),
        None => {
            crate::kernel::set_errno(libc::EINVAL);
            null_mut()
        }
    }
}

/// See posix_memalign(3).
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: size_t, bytes: size_t) -> *mut c_void {
    aligned_to(next::ALIGNED_ALLOC, align, bytes)
}

/// See posix_memalign(3).
#[unsafe(no_mangle)]
pub extern "C" fn valloc(bytes: size_t) -> *mut c_void {
    aligned(next::VALLOC, PAGE_BYTES, bytes)
}

/// See posix_memalign(3).
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(bytes: size_t) -> *mut c_void {
    aligned(next::PVALLOC, PAGE_BYTES, bytes.checked_next_multiple_of(PAGE_BYTES).unwrap_or(usize::MAX))
}

/// See malloc_usable_size(3).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> size_t {
    if block.is_null() {
        return 0;
    }
    match heap::owner(block) {
        // SAFETY: the caller's.
        Some(of) => unsafe { heap::usable_bytes(block, &of) },
        None => next::malloc_usable_size(block),
    }
}
