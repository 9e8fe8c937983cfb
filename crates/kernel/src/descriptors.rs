//! How many descriptors this process may have (getrlimit(2)), and who inherits them.

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::fd::AsFd;

/// How many it may have now.
pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises that to what it may raise it to. What fails leaves it as it was.
///
/// Not for processes that anybody else has a part in: `select` knows no descriptors above 1024.
pub fn raise_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Has the program that this process becomes have a file open, too.
///
/// # Errors
/// As fcntl(2).
pub fn keep_open(file: impl AsFd) -> std::io::Result<()> {
    Ok(fcntl_setfd(file, FdFlags::empty())?)
}
