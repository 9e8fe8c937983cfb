//! The functions of `xemem.h`.
//!
//! # Safety
//! As of `xpmem`; texts are the caller's and end with a zero.

use crate::access;
use crate::attachment;
use crate::call::{run, text_of};
use crate::problem::Problem;
use crate::segment::{self, Permit};
use crate::xpmem::{Address, failed_address, is_writing};
use libc::{c_char, c_int, c_void, size_t};
use stillframe::inspect;

/// Exports memory under a name.
///
/// # Safety
/// No thread writes the memory during the call; `name` is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xemem_make(vaddr: *mut c_void, size: size_t, name: *const c_char) -> i64 {
    run("xemem_make", -1, |state| {
        // SAFETY: as the caller vouches.
        let name = unsafe { text_of("name", name)? };
        if let Some(name) = name {
            inspect::check_name(name)?;
        }
        segment::make(state, vaddr as usize, size, Permit::Common, name)
    })
}

/// Removes a segment.
#[unsafe(no_mangle)]
pub extern "C" fn xemem_remove(segid: i64) -> c_int {
    run("xemem_remove", -1, |state| segment::remove(state, segid).map(|()| 0))
}

/// The newest segment of a name.
///
/// # Safety
/// `name` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xemem_lookup_segid(name: *const c_char) -> i64 {
    run("xemem_lookup_segid", -1, |state| {
        // SAFETY: as the caller vouches.
        let name = unsafe { text_of("name", name)? };
        let name = name.ok_or_else(|| Problem::argument("name", "it is NULL"))?;
        inspect::check_name(name)?;
        segment::look_up(state, name)
    })
}

/// Asks for a segment.
#[unsafe(no_mangle)]
pub extern "C" fn xemem_get(segid: i64, flags: c_int) -> i64 {
    run("xemem_get", -1, |state| access::get(state, segid, is_writing(flags)?))
}

/// Gives back what was granted.
///
/// # Safety
/// Nobody relies on the attachments that were made with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xemem_release(apid: i64) -> c_int {
    run("xemem_release", -1, |state| attachment::release(state, apid).map(|()| 0))
}

/// Attaches a part of a segment.
///
/// # Safety
/// Nobody relies on what is mapped from `vaddr` on, if that is not NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xemem_attach(addr: Address, size: size_t, vaddr: *mut c_void) -> *mut c_void {
    run("xemem_attach", failed_address(), |state| {
        let at = attachment::attach(state, addr.apid, addr.offset, size, vaddr as usize)?;
        Ok(at as *mut c_void)
    })
}

/// Ends an attachment.
///
/// # Safety
/// Nobody relies on it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xemem_detach(vaddr: *mut c_void) -> c_int {
    run("xemem_detach", -1, |state| attachment::detach(state, vaddr as usize).map(|()| 0))
}
