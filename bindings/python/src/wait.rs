//! Waiting without keeping Python from its other threads and from Ctrl-C.

use crate::errors;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// The longest time in which Python does not look for signals.
pub const SLICE: Duration = Duration::from_millis(100);

/// When a wait that starts now is over; `None` is never. A time too long to be counted is never as well.
pub fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

/// Repeats `attempt`, which may take as long as it is told, until it ends otherwise than by `timed_out` or `deadline` is
/// over; then the last outcome counts.
pub fn in_slices<T: Send>(
    py: Python<'_>,
    deadline: Option<Instant>,
    timed_out: impl Fn(&stillframe::Error) -> bool,
    mut attempt: impl FnMut(Duration) -> PyResult<Result<T, stillframe::Error>>,
) -> PyResult<T> {
    let start = Instant::now();
    loop {
        let left = deadline.map_or(SLICE, |deadline| deadline.saturating_duration_since(Instant::now()));
        match attempt(left.min(SLICE))? {
            Ok(value) => return Ok(value),
            Err(error) if timed_out(&error) && left > SLICE || deadline.is_none() && timed_out(&error) => {
                py.check_signals()?
            }
            Err(mut error) => {
                // The engine knows of the last slice only.
                if let stillframe::Error::Timeout { waited, .. } | stillframe::Error::SlowRank { waited, .. } =
                    &mut error
                {
                    *waited = start.elapsed();
                }
                return Err(errors::raise(py, error));
            }
        }
    }
}

/// Repeats `pause`, which sleeps for as long as it is told at most, until it says that the process may go on.
pub fn pause(py: Python<'_>, pause: impl Fn(Duration) -> bool + Sync) -> PyResult<()> {
    while !py.detach(|| pause(SLICE)) {
        py.check_signals()?;
    }
    Ok(())
}

thread_local! {
    /// When this thread looked for signals last.
    static LOOKED: Cell<Option<Instant>> = const { Cell::new(None) };
    /// What a signal raised in a wait of this thread.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Whether a wait of this thread, which has given the interpreter away, is to end because of a signal: `raised` says then
/// which exception that is. It may be asked often, and looks once in a slice.
pub fn is_interrupted() -> bool {
    let now = Instant::now();
    if LOOKED.get().is_some_and(|looked| now.saturating_duration_since(looked) < SLICE) {
        return false;
    }
    LOOKED.set(Some(now));
    // Where the interpreter is going away, nobody is left to wait for anything.
    match Python::try_attach(|py| py.check_signals()) {
        Some(Ok(())) => false,
        Some(Err(error)) => {
            RAISED.set(Some(error));
            true
        }
        None => true,
    }
}

/// A wait of this thread is to end with an exception, which `raised` says then.
pub fn raise(error: PyErr) {
    RAISED.set(Some(error));
}

/// The exception because of which a wait of this thread ended.
pub fn raised() -> Option<PyErr> {
    RAISED.take()
}
