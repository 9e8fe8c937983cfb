//! The native half of the Python package `stillframe`: what needs the engine, in terms the typed facade in
//! `python/stillframe` builds numpy arrays and dataclasses from.
//!
//! Memory crosses as objects with the buffer protocol ([`memory`]); everything else as plain Python values. Nothing here
//! holds the interpreter while it waits or copies, and every wait is cut into slices so that Ctrl-C is noticed.

mod arena;
mod checkpointer;
mod convert;
mod dimensions;
mod drepl;
mod ending;
mod errors;
mod exclusive;
mod fragment;
mod given;
mod group;
mod inspect;
mod memory;
mod object;
mod observer;
mod recovery;
mod region;
mod wait;

use pyo3::prelude::*;

/// The extension module `stillframe._native`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::arena::Arena;
    #[pymodule_export]
    use super::checkpointer::{Checkpointer, is_safe, newest_safe};
    #[pymodule_export]
    use super::dimensions::{given_dimensions, name_dimensions};
    #[pymodule_export]
    use super::drepl::{
        DreplFragment, DreplIndex, DreplPlan, DreplSchema, DreplShare, DreplUpdates, drepl_load, drepl_parse,
    };
    #[pymodule_export]
    use super::ending::end_by_accident;
    #[pymodule_export]
    use super::fragment::{ReadFragment, WriteFragment};
    #[pymodule_export]
    use super::given::ArrayInput;
    #[pymodule_export]
    use super::group::Group;
    #[pymodule_export]
    use super::inspect::{regions, remove};
    #[pymodule_export]
    use super::memory::{Chunks, Memory};
    #[pymodule_export]
    use super::object::Object;
    #[pymodule_export]
    use super::observer::{Observer, Snapshot};
    #[pymodule_export]
    use super::recovery::{recovered_variable, recovered_variables};
    #[pymodule_export]
    use super::region::{Loan, Region};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
