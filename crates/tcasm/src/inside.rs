//! Work of this library's own, inside a call of the program.

use crate::kernel::{Inside, errno, set_errno};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work` inside, or `otherwise` if this thread is inside already or something went very wrong. `errno` is as the
/// work leaves it.
pub fn inside<T>(work: impl FnOnce() -> Option<T>, otherwise: impl FnOnce() -> T) -> T {
    let result = Inside::enter().and_then(|_inside| catch_unwind(AssertUnwindSafe(work)).ok().flatten());
    result.unwrap_or_else(otherwise)
}

/// Runs `work` without a trace in `errno`.
pub fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let before = errno();
    let result = work();
    set_errno(before);
    result
}
