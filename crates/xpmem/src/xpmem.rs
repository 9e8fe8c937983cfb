//! The functions of `xpmem.h`.
//!
//! # Safety
//! Addresses that callers hand in are passed to the kernel, which checks them. What is replaced, the header says.

use crate::access;
use crate::attachment;
use crate::call::{self, run};
use crate::problem::Problem;
use crate::segment::{self, Permit};
use libc::{c_char, c_int, c_void, off_t, size_t};

/// What XPMEM's own library has for `xpmem_version`.
const VERSION: c_int = 0x0002_6003;
const READ_ONLY: c_int = 1;
const READ_WRITE: c_int = 2;
const PERMIT_MODE: c_int = 1;

/// `struct xpmem_addr`, and `struct xemem_addr`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Address {
    pub apid: i64,
    pub offset: off_t,
}

/// What calls return that give an address, when they fail.
pub fn failed_address() -> *mut c_void {
    libc::MAP_FAILED
}

/// The version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn xpmem_version() -> c_int {
    VERSION
}

/// Shares memory.
///
/// # Safety
/// No thread writes the memory during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xpmem_make(
    vaddr: *mut c_void,
    size: size_t,
    permit_type: c_int,
    permit_value: *mut c_void,
) -> i64 {
    run("xpmem_make", -1, |state| {
        check_permit_type(permit_type)?;
        let mode = permit_value as usize;
        if mode > 0o777 {
            return Err(Problem::argument("permit_value", format!("{mode:#o} is no mode between 0 and 0777")));
        }
        segment::make(state, vaddr as usize, size, Permit::Mode(mode as u32), None)
    })
}

fn check_permit_type(permit_type: c_int) -> Result<(), Problem> {
    match permit_type {
        PERMIT_MODE => Ok(()),
        other => Err(Problem::argument("permit_type", format!("{other} is not XPMEM_PERMIT_MODE (1)"))),
    }
}

/// Removes a segment.
#[unsafe(no_mangle)]
pub extern "C" fn xpmem_remove(segid: i64) -> c_int {
    run("xpmem_remove", -1, |state| segment::remove(state, segid).map(|()| 0))
}

/// Asks for a segment.
#[unsafe(no_mangle)]
pub extern "C" fn xpmem_get(segid: i64, flags: c_int, permit_type: c_int, _permit_value: *mut c_void) -> i64 {
    run("xpmem_get", -1, |state| {
        check_permit_type(permit_type)?;
        access::get(state, segid, is_writing(flags)?)
    })
}

/// Whether flags ask to write.
pub fn is_writing(flags: c_int) -> Result<bool, Problem> {
    match flags {
        READ_ONLY => Ok(false),
        READ_WRITE => Ok(true),
        other => Err(Problem::argument("flags", format!("{other:#x} is neither XPMEM_RDONLY (1) nor XPMEM_RDWR (2)"))),
    }
}

/// Gives back what was granted.
///
/// # Safety
/// Nobody relies on the attachments that were made with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xpmem_release(apid: i64) -> c_int {
    run("xpmem_release", -1, |state| attachment::release(state, apid).map(|()| 0))
}

/// Attaches a part of a segment.
///
/// # Safety
/// Nobody relies on what is mapped from `vaddr` on, if that is not NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xpmem_attach(addr: Address, size: size_t, vaddr: *mut c_void) -> *mut c_void {
    run("xpmem_attach", failed_address(), |state| {
        let at = attachment::attach(state, addr.apid, addr.offset, size, vaddr as usize)?;
        Ok(at as *mut c_void)
    })
}

/// Ends an attachment.
///
/// # Safety
/// Nobody relies on it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xpmem_detach(vaddr: *mut c_void) -> c_int {
    run("xpmem_detach", -1, |state| attachment::detach(state, vaddr as usize).map(|()| 0))
}

/// Why the last call of this thread that failed did so.
#[unsafe(no_mangle)]
pub extern "C" fn xpmem_error() -> *const c_char {
    call::text()
}
