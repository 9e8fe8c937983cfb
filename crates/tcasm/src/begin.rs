//! What is done when the library is loaded, and at the end of the process.

use crate::inside::inside;
use crate::removal::enter_and_settle;
use crate::{names, next, report};

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

/// Finds out what signal handlers need, who must neither allocate nor wait, and what other threads may change later.
extern "C" fn begin() {
    next::find_all();
    let found = || {
        names::find();
        report::is_verbose();
        Some(())
    };
    inside(found, || ());
}

extern "C" fn end() {
    enter_and_settle();
}
