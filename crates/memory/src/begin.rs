//! What is done when the library is loaded, and at the end of the process.

use crate::{code, fork, mapped, next, nodes, pool, report, say, segments, setting, stacks};
use libc::{c_char, c_int};
use std::ffi::CStr;

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = begin;

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

/// Runs before all other libraries begin (`build.rs`): there is one thread, and nothing of the program has run.
extern "C" fn begin(_: c_int, _: *const *const c_char, environment: *const *const c_char) {
    say::remember();
    fork::install();
    // SAFETY: the linker gives the process's environment, and nobody has changed it yet.
    unsafe { setting::read(environment) };
    stacks::remember_main();
    // SAFETY: as above.
    let preloaded = unsafe { setting::variable(environment, c"LD_PRELOAD") }.map(CStr::to_bytes).unwrap_or_default();
    // valgrind preloads libraries of this name, and then looks at the C library's allocator.
    let is_watched = preloaded.windows(9).any(|part| part == b"vgpreload");
    next::find_allocator(is_watched);
    next::find_all();
    // What the pool's pages are decides where ranges of addresses may begin. That there is none is said when one is
    // asked for.
    let has_pool = pool::open().is_ok();
    nodes::find();
    report::begin();
    if !is_watched {
        // SAFETY: as said above.
        unsafe { segments::move_all() };
        if has_pool {
            mapped::begin();
            code::map_all();
        }
    }
}

extern "C" fn end() {
    report::end();
}
