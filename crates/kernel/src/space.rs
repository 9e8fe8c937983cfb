//! Space in files: taking it before it is written, and giving it back (fallocate(2)).

use crate::Failure;
use std::fs::File;
use std::os::fd::AsRawFd;

fn fallocate(file: &File, mode: i32, start: u64, bytes: u64) -> Result<(), Failure> {
    loop {
        // SAFETY: the call takes numbers only.
        if unsafe { libc::fallocate(file.as_raw_fd(), mode, start as _, bytes as _) } == 0 {
            return Ok(());
        }
        let failure = Failure::last("fallocate", format!("{bytes} bytes at {start}"));
        if failure.errno() != libc::EINTR {
            return Err(failure);
        }
    }
}

/// Makes sure that `bytes` at `start` have memory or disk behind them, so that writing them cannot fail later.
pub fn take(file: &File, start: u64, bytes: u64) -> Result<(), Failure> {
    fallocate(file, libc::FALLOC_FL_KEEP_SIZE, start, bytes)
}

/// Gives the space behind `bytes` at `start` back; they read as zeros afterwards.
pub fn give_back(file: &File, start: u64, bytes: u64) -> Result<(), Failure> {
    fallocate(file, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, start, bytes)
}

/// Bytes that can still be written to the file system of `file`.
pub fn free_bytes(file: &File) -> Result<u64, Failure> {
    // SAFETY: `statvfs` is plain data, valid when zeroed.
    let mut status: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and the pointer refers to a live `statvfs`.
    match unsafe { libc::fstatvfs(file.as_raw_fd(), &mut status) } {
        0 => Ok(status.f_bavail * status.f_frsize),
        _ => Err(Failure::last("fstatvfs", "")),
    }
}
