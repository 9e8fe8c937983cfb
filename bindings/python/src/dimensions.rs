//! Names of dimensions for what xarray shows.

use pyo3::prelude::*;
use std::collections::BTreeMap;
use stillframe::dimensions::{self, Named};

/// A variable's name and shape, and the name that is given to each dimension, if one is.
type NamedRow = (String, Vec<usize>, Vec<Option<String>>);

/// The names that an attribute `dims` gives to so many dimensions, if it names each once.
#[pyfunction]
pub fn given_dimensions(text: &str, count: usize) -> Option<Vec<String>> {
    dimensions::of_text(text, count)
}

/// The names of the dimensions of arrays that are shown together.
#[pyfunction]
pub fn name_dimensions(arrays: Vec<NamedRow>) -> Vec<Vec<String>> {
    let named = |(name, shape, given): NamedRow| Named { name, shape, given };
    dimensions::name(&arrays.into_iter().map(named).collect::<Vec<_>>(), &BTreeMap::new())
}
