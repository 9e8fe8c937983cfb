//! Names of dimensions for what xarray shows.

use pyo3::prelude::*;
use std::collections::BTreeMap;
use stillframe::dimensions::{self, Axes};

/// A variable's name and shape, and the name that is given to each dimension, if one is.
type AxesRow = (String, Vec<usize>, Vec<Option<String>>);

/// The names that an attribute `dims` gives to so many dimensions, if it names each once.
#[pyfunction]
pub fn given_dimensions(text: &str, count: usize) -> Option<Vec<String>> {
    dimensions::read_names(text, count)
}

/// The names of the dimensions of arrays that are shown together.
#[pyfunction]
pub fn name_dimensions(arrays: Vec<AxesRow>) -> Vec<Vec<String>> {
    let axes = |(name, shape, given): AxesRow| Axes { name, shape, given };
    dimensions::name_dimensions(&arrays.into_iter().map(axes).collect::<Vec<_>>(), &BTreeMap::new())
}
