//! Record locks owned by an open file (`F_OFD_SETLK`, fcntl(2)).
//!
//! The kernel drops such a lock when the last copy of the open file goes away, so whoever dies holds nothing.

use crate::Failure;
use std::fs::File;
use std::os::fd::AsRawFd;

/// Which kind of lock is taken on a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Many may hold it at once.
    Read,
    /// One holds it, and nobody reads.
    Write,
}

fn call(file: &File, command: i32, kind: i32, start: u64, bytes: u64) -> Result<libc::flock, Failure> {
    // SAFETY: `flock` is plain data, valid when zeroed.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as _;
    lock.l_whence = libc::SEEK_SET as _;
    lock.l_start = start as _;
    lock.l_len = bytes as _;
    // SAFETY: the descriptor is open and the pointer refers to a live `flock`.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &mut lock) } {
        -1 => Err(Failure::last("fcntl(F_OFD)", format!("lock at {start}, {bytes} bytes"))),
        _ => Ok(lock),
    }
}

/// Takes a lock if nobody is in the way; `false` means somebody is.
pub fn try_lock(file: &File, kind: Kind, start: u64, bytes: u64) -> Result<bool, Failure> {
    let kind = match kind {
        Kind::Read => libc::F_RDLCK,
        Kind::Write => libc::F_WRLCK,
    };
    match call(file, libc::F_OFD_SETLK, kind, start, bytes) {
        Ok(_) => Ok(true),
        Err(failure) if matches!(failure.errno(), libc::EAGAIN | libc::EACCES) => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Gives a lock back.
pub fn unlock(file: &File, start: u64, bytes: u64) -> Result<(), Failure> {
    call(file, libc::F_OFD_SETLK, libc::F_UNLCK, start, bytes).map(drop)
}

/// Whether somebody else's open file has a lock on the range that would conflict with a lock of this kind.
pub fn is_held(file: &File, kind: Kind, start: u64, bytes: u64) -> Result<bool, Failure> {
    let kind = match kind {
        Kind::Read => libc::F_RDLCK,
        Kind::Write => libc::F_WRLCK,
    };
    Ok(call(file, libc::F_OFD_GETLK, kind, start, bytes)?.l_type != libc::F_UNLCK as _)
}

/// What a file says to those who may only read it of a lock that somebody [shows](show) there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// Nobody has it.
    None,
    /// Somebody has it who may write.
    Certain,
    /// Somebody has it, or one who may only read feigns it.
    Doubtful,
}

/// Shows on a byte of a file which many may read that one has a lock, which lies elsewhere; `false` means that somebody else is in the way, as
/// only those can be who may write.
pub fn show(file: &File, at: u64) -> Result<bool, Failure> {
    // A reader that feigns a lock leaves room for another one to read.
    Ok(try_lock(file, Kind::Write, at, 1)? || try_lock(file, Kind::Read, at, 1)?)
}

/// Whether somebody else shows a lock on a byte of a file.
pub fn evidence(file: &File, at: u64) -> Result<Evidence, Failure> {
    Ok(match is_held(file, Kind::Write, at, 1)? {
        false => Evidence::None,
        true if is_held(file, Kind::Read, at, 1)? => Evidence::Certain,
        true => Evidence::Doubtful,
    })
}

/// Whether who had the write lock on the first byte of a file has ended. Until somebody had it the file is empty: who takes the lock
/// writes to the file then.
pub fn has_ended(file: &File) -> Result<bool, Failure> {
    // Who may only read the file can lock it, too, but not so that nobody can read it.
    if is_held(file, Kind::Read, 0, 1)? {
        return Ok(false);
    }
    let about =
        file.metadata().map_err(|source| Failure { call: "fstat", detail: "a file with a lock".into(), source })?;
    Ok(about.len() > 0)
}
