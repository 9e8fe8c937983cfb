//! The limits that a program sets itself.

use crate::blocks;
use crate::kernel::{own_pid, quietly};
use crate::next;
use libc::{c_int, c_uint, rlimit};

/// What is reserved for large blocks is as much as the machine's memory, and counts as the program's addresses. So it goes as far as nobody has
/// used it, before these are bounded: later ranges are small.
fn before(resource: c_uint, limit: *const rlimit) {
    if resource == libc::RLIMIT_AS as c_uint && !limit.is_null() && !blocks::is_changing() {
        quietly(blocks::shrink);
    }
}

/// See setrlimit(2).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setrlimit(resource: c_uint, limit: *const rlimit) -> c_int {
    before(resource, limit);
    next::setrlimit(resource, limit)
}

/// See setrlimit(2); the same as [`setrlimit`].
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setrlimit64(resource: c_uint, limit: *const rlimit) -> c_int {
    // SAFETY: the caller's.
    unsafe { setrlimit(resource, limit) }
}

/// See prlimit(2).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prlimit(
    process: libc::pid_t,
    resource: c_uint,
    limit: *const rlimit,
    former: *mut rlimit,
) -> c_int {
    if process == 0 || process == own_pid() {
        before(resource, limit);
    }
    next::prlimit(process, resource, limit, former)
}

/// See prlimit(2); the same as [`prlimit`].
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prlimit64(
    process: libc::pid_t,
    resource: c_uint,
    limit: *const rlimit,
    former: *mut rlimit,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { prlimit(process, resource, limit, former) }
}
