//! What all exported functions have in common: the process's state, `errno`, the text of an error, and that no panic gets out.

use crate::fork;
use crate::memory::{errno, set_errno};
use crate::problem::Problem;
use crate::state::State;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
    static TEXT: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// While it lives, this thread is in a call of this library.
#[derive(Debug)]
pub struct Inside(());

impl Inside {
    /// `None` if the thread is in one already, or ends.
    pub fn enter() -> Option<Inside> {
        IS_INSIDE.try_with(|is_inside| (!is_inside.replace(true)).then(|| Inside(()))).ok().flatten()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = IS_INSIDE.try_with(|is_inside| is_inside.set(false));
    }
}

/// Runs the body of the exported function of this name. If it fails, `errno` and the text say why, and the function returns
/// `failed`.
pub fn run<T>(function: &'static str, failed: T, body: impl FnOnce(&mut State) -> Result<T, Problem>) -> T {
    let before = errno();
    // Until the end: a signal handler must not wait for the allocator that it interrupted.
    let Some(_inside) = Inside::enter() else {
        set_errno(libc::EBUSY);
        return failed;
    };
    let problem = match catch_unwind(AssertUnwindSafe(|| body(&mut fork::state()))) {
        Ok(Ok(value)) => {
            set_errno(before);
            return value;
        }
        Ok(Err(problem)) => problem,
        Err(payload) => Problem::Panic(words(payload)),
    };
    note(function, &problem);
    set_errno(problem.errno());
    failed
}

fn words(payload: Box<dyn Any + Send>) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".into())
}

fn note(function: &str, problem: &Problem) {
    let text = format!("{function}: {problem}").replace('\0', " ");
    let _ = TEXT.try_with(|place| {
        // A signal handler may have come while the text was being read.
        if let Ok(mut place) = place.try_borrow_mut() {
            *place = CString::new(text).ok();
        }
    });
}

/// The text of this thread's last error, valid until its next.
pub fn text() -> *const c_char {
    const NONE: &CStr = c"";
    let text = TEXT.try_with(|place| place.try_borrow().ok()?.as_ref().map(|text| text.as_ptr()));
    text.ok().flatten().unwrap_or(NONE.as_ptr())
}

/// A text of the caller's that may be NULL.
///
/// # Safety
/// It ends with a zero, and stays during the call.
pub unsafe fn text_of<'a>(name: &'static str, text: *const c_char) -> Result<Option<&'a str>, Problem> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: it is not NULL, and the caller vouches for the rest.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| Problem::argument(name, format!("{text:?} is not UTF-8")))
}

/// Writes a result where the caller wants it.
///
/// # Safety
/// `to` is NULL, or the caller's own memory for it.
pub unsafe fn put<T>(name: &'static str, to: *mut T, value: T) -> Result<(), Problem> {
    check_place(name, to)?;
    // SAFETY: it is neither NULL nor unaligned, and the caller vouches for the rest.
    unsafe { to.write(value) };
    Ok(())
}

/// Refuses a place for a result that cannot be one.
pub fn check_place<T>(name: &'static str, to: *mut T) -> Result<(), Problem> {
    match to.is_null() || !to.is_aligned() {
        true => Err(Problem::argument(name, format!("{to:p} is no place for a result"))),
        false => Ok(()),
    }
}
