//! What is left to be done later: the regions of files that were removed where nothing may allocate or wait.
//!
//! A list without locks, of which each piece has pages of its own from the kernel.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A file that was removed.
#[derive(Debug)]
pub struct Removed {
    pub path: PathBuf,
    /// Device and inode.
    pub key: (u64, u64),
}

/// The begin of a piece of the list; the path's bytes follow it.
#[repr(C)]
struct Piece {
    next: *mut Piece,
    key: (u64, u64),
    path_bytes: usize,
}

static LIST: AtomicPtr<Piece> = AtomicPtr::new(null_mut());

/// Notes a file that was removed. For signal handlers too. Where there is no memory nothing is noted.
pub fn note(path: &Path, key: (u64, u64)) {
    let text = path.as_os_str().as_bytes();
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // Past other libraries, which may not expect it in a handler; no memory of theirs is concerned.
    // SAFETY: the call makes new memory.
    let at = unsafe { libc::syscall(libc::SYS_mmap, 0, bytes_of(text.len()), protection, flags, -1, 0) };
    if at == -1 {
        return;
    }
    let piece = at as *mut Piece;
    // SAFETY: the memory is new, aligned to a page, and has room for the piece and the path.
    unsafe {
        piece.write(Piece { next: null_mut(), key, path_bytes: text.len() });
        std::ptr::copy_nonoverlapping(text.as_ptr(), piece.add(1).cast::<u8>(), text.len());
    }
    let mut first = LIST.load(Ordering::Relaxed);
    loop {
        // SAFETY: nobody else knows of the piece yet.
        unsafe { (*piece).next = first };
        match LIST.compare_exchange_weak(first, piece, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(other) => first = other,
        }
    }
}

/// Takes what was noted, in any order. That there is nothing costs one load.
pub fn take() -> Vec<Removed> {
    let mut all = Vec::new();
    if LIST.load(Ordering::Relaxed).is_null() {
        return all;
    }
    let mut at = LIST.swap(null_mut(), Ordering::Acquire);
    while !at.is_null() {
        // SAFETY: the pieces that were taken are this thread's alone, and each was written whole before it was in the list.
        unsafe {
            let Piece { next, key, path_bytes } = at.read();
            let path = std::slice::from_raw_parts(at.add(1).cast::<u8>(), path_bytes);
            all.push(Removed { path: Path::new(std::ffi::OsStr::from_bytes(path)).to_path_buf(), key });
            libc::syscall(libc::SYS_munmap, at, bytes_of(path_bytes));
            at = next;
        }
    }
    all
}

/// Forgets what was noted: in a forked child, because its parent has it too.
pub fn forget() {
    LIST.store(null_mut(), Ordering::Relaxed);
}

fn bytes_of(path_bytes: usize) -> usize {
    std::mem::size_of::<Piece>() + path_bytes
}
