//! What is asked of the C library and the kernel about this thread, its memory and its files.

use crate::next;
use libc::c_int;
use std::cell::Cell;

/// Publish what the process wrote into a private mapping: TCASM's flag for msync(2).
pub const MS_UPDATE: c_int = 8;
pub const PAGE_BYTES: usize = stillframe::PAGE_BYTES;

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

/// Device and inode of a file, its length, and its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub key: (u64, u64),
    pub bytes: u64,
    pub names: u64,
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
    let names = u64::from(stat.st_nlink as u32);
    Some(Stat { key: (stat.st_dev, stat.st_ino), bytes: stat.st_size.max(0) as u64, names, is_regular })
}

/// Reads from an open file, whose offset stays; the bytes that there were.
pub fn read_at(descriptor: c_int, out: &mut [u8], offset: u64) -> Result<usize, c_int> {
    loop {
        // SAFETY: the call writes at most as many bytes as there are.
        let count = unsafe { libc::pread(descriptor, out.as_mut_ptr().cast(), out.len(), offset as libc::off_t) };
        match usize::try_from(count) {
            Ok(count) => return Ok(count),
            Err(_) if errno() == libc::EINTR => {}
            Err(_) => return Err(errno()),
        }
    }
}

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// While it lives, this thread's calls go on as they are: they are this library's own.
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
        next::munmap(self.address, self.bytes);
    }
}

/// `bytes` rounded up to whole pages.
pub fn whole_pages(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(PAGE_BYTES).unwrap_or(usize::MAX / PAGE_BYTES * PAGE_BYTES)
}
