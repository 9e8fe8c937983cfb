//! Arrays of the program that versions are given for tracked variables.
//!
//! # Safety
//! The address of an array goes to the engine: a [`Borrowed`] keeps the memory until the publish is over.
#![allow(unsafe_code)]

use crate::convert;
use crate::memory::Borrowed;
use crate::region::{Failure, Known};
use pyo3::intern;
use pyo3::prelude::*;
use std::collections::HashMap;
use stillframe::{Attributes, DType, Order, Publication, Strided};

/// An array for a tracked variable, as it was when this was made. It serves for as many publishes as the array stays so.
#[pyclass(frozen, module = "stillframe._native")]
pub struct ArrayInput {
    name: String,
    /// What the program has.
    #[pyo3(get)]
    array: Py<PyAny>,
    /// What is borrowed for it, if it cannot be borrowed itself.
    view: Option<Py<PyAny>>,
    /// The array's own dtype, which may be replaced; none where the elements have a format that stays.
    dtype: Option<Py<PyAny>>,
    shape: Vec<usize>,
    strides: Vec<isize>,
    order: Order,
    /// The type of the elements in memory, of an array with gaps or whose numbers are rounded.
    section: Option<DType>,
}

#[pymethods]
impl ArrayInput {
    /// `section` is the dtype in memory of an array with gaps, or whose numbers are rounded.
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        name: String,
        array: Bound<'_, PyAny>,
        view: Option<Py<PyAny>>,
        shape: Vec<usize>,
        strides: Vec<isize>,
        order: &str,
        section: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<ArrayInput> {
        let dtype = array.getattr_opt(intern!(py, "dtype"))?.map(Bound::unbind);
        let (order, section) =
            (convert::order_from_python(py, order)?, section.map(convert::dtype_from_python).transpose()?);
        Ok(ArrayInput { name, array: array.unbind(), view, dtype, shape, strides, order, section })
    }
}

impl ArrayInput {
    /// Borrows the array; `None` if it is not what it was.
    fn borrow(&self, py: Python<'_>) -> PyResult<Option<Borrowed>> {
        let array = self.array.bind(py);
        if let Some(dtype) = &self.dtype {
            let found = array.getattr(intern!(py, "dtype"))?;
            if !found.is(dtype) && !found.eq(dtype)? {
                return Ok(None);
            }
        }
        if let Some(view) = &self.view {
            let shape: Vec<usize> = array.getattr(intern!(py, "shape"))?.extract()?;
            let strides: Vec<isize> = array.getattr(intern!(py, "strides"))?.extract()?;
            let is_same = shape == self.shape && strides == self.strides;
            return is_same.then(|| Borrowed::strided(view.bind(py))).transpose();
        }
        let memory = Borrowed::strided(array)?;
        Ok(memory.has_layout(&self.shape, &self.strides).then_some(memory))
    }
}

/// An array that was borrowed for a version.
struct BorrowedArray<'a> {
    input: &'a ArrayInput,
    memory: Borrowed,
}

/// The arrays that a version is given.
pub(crate) struct Given<'a>(Vec<BorrowedArray<'a>>);

impl<'a> Given<'a> {
    /// Borrows arrays; `None` if one of them is not what it was when its input was made.
    pub(crate) fn new(py: Python<'_>, inputs: &'a [PyRef<'_, ArrayInput>]) -> PyResult<Option<Given<'a>>> {
        let borrow =
            |input: &'a PyRef<'_, ArrayInput>| Ok(input.borrow(py)?.map(|memory| BorrowedArray { input, memory }));
        Ok(inputs.iter().map(borrow).collect::<PyResult<Option<Vec<_>>>>()?.map(Given))
    }

    /// What keeps the arrays where they are.
    pub(crate) fn into_memory(self) -> Vec<Borrowed> {
        self.0.into_iter().map(|array| array.memory).collect()
    }

    /// Remembers how long the arrays are, as versions show them.
    pub(crate) fn note(&self, variables: &mut HashMap<String, Known>) {
        for BorrowedArray { input, .. } in &self.0 {
            if let Some(known) = variables.get_mut(&input.name) {
                known.bytes = known.dtype.array_bytes(&input.shape).unwrap_or(0);
            }
        }
    }

    /// Prepares the publish of a version that shows them.
    pub(crate) fn prepare<'r>(
        &self,
        region: &'r mut stillframe::Region,
        variables: &HashMap<String, Known>,
        version: u64,
        attributes: &Attributes,
    ) -> Result<Publication<'r>, Failure> {
        let mut publication = region.publish(version);
        for BorrowedArray { input, memory } in &self.0 {
            let ArrayInput { name, shape, strides, order, section, .. } = input;
            let known = variables.get(name);
            let id =
                known.ok_or_else(|| Failure::Misuse(format!("variable '{name}' was not declared by this region")))?.id;
            // SAFETY: the borrowed memory lives until the publish is finished, and is as long as its shape and strides say.
            publication = unsafe {
                match section {
                    None => publication.tracked_raw(id, memory.start(), memory.bytes(), shape, *order),
                    Some(dtype) => {
                        let (address, dtype, order) = (memory.start(), dtype.clone(), *order);
                        publication.section_raw(id, &Strided { address, shape, strides, dtype, order })
                    }
                }
            };
        }
        for (name, value) in attributes {
            publication = publication.attr(name, value.clone());
        }
        Ok(publication)
    }
}
