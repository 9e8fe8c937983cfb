//! How regions end where a program does so by an exception, which runs the end of a process as a return of its main function does.

use pyo3::prelude::*;
use stillframe::{Error, Region};

/// Has regions that end from now on count as ended by an accident.
#[pyfunction]
pub fn end_by_accident() {
    stillframe::end_by_accident();
}

/// Ends a region by itself, or as an accident does.
pub fn how(is_accident: bool) -> fn(Region) -> Result<(), Error> {
    match is_accident {
        false => Region::close,
        true => |region| {
            region.give_up();
            Ok(())
        },
    }
}
