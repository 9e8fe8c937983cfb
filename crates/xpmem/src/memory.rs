//! Memory of this process, as the kernel gives and takes it.

use crate::problem::Problem;
use libc::{c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use stillframe_kernel::Failure;

pub const PAGE_BYTES: usize = stillframe::PAGE_BYTES;

/// `bytes` rounded up to whole pages; `None` if there are no such addresses.
pub fn whole_pages(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(PAGE_BYTES)
}

pub fn is_whole_pages(bytes: usize) -> bool {
    bytes.is_multiple_of(PAGE_BYTES)
}

/// Where something is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// Where there is room.
    Anywhere,
    /// Here, in the place of whatever is mapped here.
    Over(usize),
    /// Here, where nothing is mapped.
    Free(usize),
}

/// # Safety
/// Nobody relies on what is mapped where something is mapped over.
unsafe fn map(
    place: Where,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: Option<(&File, u64)>,
) -> Result<usize, Failure> {
    let (address, fixed) = match place {
        Where::Anywhere => (0, 0),
        Where::Over(address) => (address, libc::MAP_FIXED),
        Where::Free(address) => (address, libc::MAP_FIXED_NOREPLACE),
    };
    let (descriptor, offset) = file.map_or((-1, 0), |(file, offset)| (file.as_raw_fd(), offset));
    // SAFETY: without MAP_FIXED only free addresses are taken; with it, as the caller vouches.
    let at = unsafe {
        libc::mmap(address as *mut c_void, bytes, protection, flags | fixed, descriptor, offset as libc::off_t)
    };
    let detail = || format!("{bytes} bytes at {address:#x}");
    if at == libc::MAP_FAILED {
        return Err(Failure::last("mmap", detail()));
    }
    match place {
        // A kernel that does not know the flag takes the address for a wish.
        Where::Free(wanted) if at as usize != wanted => {
            // SAFETY: the mapping was just made.
            unsafe { libc::munmap(at, bytes) };
            let source = std::io::Error::from_raw_os_error(libc::EEXIST);
            Err(Failure { call: "mmap", detail: detail(), source })
        }
        _ => Ok(at as usize),
    }
}

/// Zeroed memory of this process's own.
///
/// # Safety
/// As of [`map_file`].
pub unsafe fn map_private(place: Where, bytes: usize) -> Result<usize, Failure> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: as the caller vouches.
    unsafe { map(place, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, None) }
}

/// Addresses that cannot be used until something is mapped over them.
///
/// # Safety
/// As of [`map_file`].
pub unsafe fn reserve(place: Where, bytes: usize) -> Result<usize, Failure> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: as the caller vouches.
    unsafe { map(place, bytes, libc::PROT_NONE, flags, None) }
}

/// Bytes of a file, shared with all others that map them.
///
/// # Safety
/// Nobody relies on what is mapped where something is mapped over.
pub unsafe fn map_file(
    place: Where,
    bytes: usize,
    protection: c_int,
    file: &File,
    offset: u64,
) -> Result<usize, Failure> {
    // SAFETY: as the caller vouches.
    unsafe { map(place, bytes, protection, libc::MAP_SHARED | libc::MAP_NORESERVE, Some((file, offset))) }
}

/// Takes a mapping away.
///
/// # Safety
/// Nobody relies on it.
pub unsafe fn unmap(address: usize, bytes: usize) -> Result<(), Failure> {
    // SAFETY: as the caller vouches.
    match unsafe { libc::munmap(address as *mut c_void, bytes) } {
        0 => Ok(()),
        _ => Err(Failure::last("munmap", format!("{bytes} bytes at {address:#x}"))),
    }
}

/// Lets private pages be written, of which writing makes copies.
///
/// # Safety
/// The mapping is the caller's.
pub unsafe fn let_write(address: usize, bytes: usize) -> Result<(), Failure> {
    // SAFETY: as the caller vouches.
    match unsafe { libc::mprotect(address as *mut c_void, bytes, libc::PROT_READ | libc::PROT_WRITE) } {
        0 => Ok(()),
        _ => Err(Failure::last("mprotect", format!("{bytes} bytes at {address:#x}"))),
    }
}

/// Asks for large pages, or for none. A wish: a kernel without them serves small ones.
pub fn wish_large_pages(address: usize, bytes: usize, large: bool) {
    let advice = if large { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
    // SAFETY: this advice changes no content.
    unsafe { libc::madvise(address as *mut c_void, bytes, advice) };
}

/// Copies memory into a file. The kernel checks that it can be read. Nothing is allocated.
pub fn write_memory(file: &File, offset: u64, address: usize, bytes: usize) -> Result<(), c_int> {
    let mut done = 0;
    while done < bytes {
        let (from, at) = ((address + done) as *const c_void, (offset + done as u64) as libc::off_t);
        // SAFETY: the kernel reads the memory, and says so where there is none.
        let count = unsafe { libc::pwrite(file.as_raw_fd(), from, bytes - done, at) };
        match usize::try_from(count) {
            Ok(0) => return Err(libc::EIO),
            Ok(count) => done += count,
            Err(_) if errno() == libc::EINTR => {}
            Err(_) => return Err(errno()),
        }
    }
    Ok(())
}

/// Makes a file so long, with memory for all of it.
pub fn allocate(file: &File, bytes: u64) -> Result<(), Problem> {
    let failed = || Problem::System(Failure::last("fallocate", format!("{bytes} bytes")));
    let length =
        libc::off_t::try_from(bytes).map_err(|_| Problem::argument("size", format!("{bytes} bytes are too many")))?;
    loop {
        // SAFETY: the call takes numbers.
        match unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length) } {
            0 => return Ok(()),
            _ if errno() == libc::EINTR => {}
            _ => return Err(failed()),
        }
    }
}

pub fn errno() -> c_int {
    // SAFETY: the C library gives each thread a valid location.
    unsafe { *libc::__errno_location() }
}

pub fn set_errno(number: c_int) {
    // SAFETY: as for `errno`.
    unsafe { *libc::__errno_location() = number };
}
