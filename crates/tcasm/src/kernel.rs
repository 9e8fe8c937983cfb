//! The calls themselves, past the C library's functions that this library stands in for.

use libc::{c_int, off_t};
use std::cell::Cell;

/// Publish what the process wrote into a private mapping: TCASM's flag for msync(2).
pub const MS_UPDATE: c_int = 8;
pub const PAGE_BYTES: usize = stillframe::PAGE_BYTES;

pub fn mmap(address: usize, bytes: usize, protection: c_int, flags: c_int, descriptor: c_int, offset: off_t) -> usize {
    // SAFETY: the caller's arguments go to the kernel as they are; those of this library name ranges it was lent.
    unsafe { libc::syscall(libc::SYS_mmap, address, bytes, protection, flags, descriptor, offset) as usize }
}

pub fn munmap(address: usize, bytes: usize) -> c_int {
    // SAFETY: as for `mmap`.
    unsafe { libc::syscall(libc::SYS_munmap, address, bytes) as c_int }
}

pub fn msync(address: usize, bytes: usize, flags: c_int) -> c_int {
    // SAFETY: as for `mmap`.
    unsafe { libc::syscall(libc::SYS_msync, address, bytes, flags) as c_int }
}

pub fn mremap(address: usize, bytes: usize, new_bytes: usize, flags: c_int, new_address: usize) -> usize {
    // SAFETY: as for `mmap`.
    unsafe { libc::syscall(libc::SYS_mremap, address, bytes, new_bytes, flags, new_address) as usize }
}

pub fn mprotect(address: usize, bytes: usize, protection: c_int) -> c_int {
    // SAFETY: as for `mmap`.
    unsafe { libc::syscall(libc::SYS_mprotect, address, bytes, protection) as c_int }
}

/// The result of a call that maps, where it is an address.
pub fn is_address(result: usize) -> bool {
    result != libc::MAP_FAILED as usize
}

pub fn errno() -> c_int {
    // SAFETY: the C library gives each thread a valid location.
    unsafe { *libc::__errno_location() }
}

pub fn set_errno(errno: c_int) {
    // SAFETY: as for `errno`.
    unsafe { *libc::__errno_location() = errno };
}

/// Writes to a descriptor what it takes at once.
pub fn write(descriptor: c_int, bytes: &[u8]) {
    // SAFETY: the call reads the bytes, and no more of them.
    unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
}

/// Device and inode of a file, and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub key: (u64, u64),
    pub bytes: u64,
    pub is_regular: bool,
}

/// What the kernel says of an open file.
pub fn fstat(descriptor: c_int) -> Option<Stat> {
    // SAFETY: `stat` is plain data, valid when zeroed, and the call writes at most its size.
    let stat = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(descriptor, &mut stat) == 0).then_some(stat)
    }?;
    let is_regular = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
    Some(Stat { key: (stat.st_dev, stat.st_ino), bytes: stat.st_size.max(0) as u64, is_regular })
}

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// While it lives, this thread's calls go to the kernel as they are: they are this library's own.
pub struct Inside(());

impl Inside {
    /// `None` if the thread is inside already.
    pub fn enter() -> Option<Inside> {
        DEPTH.try_with(|depth| (depth.replace(1) == 0).then(|| Inside(()))).ok().flatten()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = DEPTH.try_with(|depth| depth.set(0));
    }
}

/// A mapping of this library's own.
pub struct Own {
    pub address: usize,
    pub bytes: usize,
}

impl Drop for Own {
    fn drop(&mut self) {
        munmap(self.address, self.bytes);
    }
}

/// `bytes` rounded up to whole pages.
pub fn whole_pages(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(PAGE_BYTES).unwrap_or(usize::MAX / PAGE_BYTES * PAGE_BYTES)
}
