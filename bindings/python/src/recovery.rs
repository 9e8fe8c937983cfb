//! Create or recover.

use crate::convert;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use stillframe::{Attributes, Region, RegionOptions};
use stillframe_checkpoint::{Origin, Recovered, RecoveredVariable, Recovery};

/// What a region begins with.
pub struct OriginRow {
    kind: &'static str,
    version: Option<u64>,
    path: Option<PathBuf>,
    sentence: String,
    skipped: Vec<String>,
    attributes: Attributes,
}

/// The same for Python: kind, version, path, sentence, damaged checkpoints, attributes.
pub type PythonOrigin<'py> = (&'static str, Option<u64>, Option<PathBuf>, String, Vec<String>, Bound<'py, PyDict>);

/// Makes a region with what is found in memory or in checkpoints.
pub fn open(
    name: &str,
    options: RegionOptions,
    checkpoints: Option<PathBuf>,
    version: Option<u64>,
) -> stillframe_checkpoint::Result<(Region, Recovered)> {
    let mut recovery = Recovery::options().region(options);
    if let Some(dir) = checkpoints {
        recovery = recovery.checkpoints(dir);
    }
    if let Some(version) = version {
        recovery = recovery.version(version);
    }
    Ok(recovery.open(name)?.into_parts())
}

pub fn origin_of(recovered: &Recovered) -> OriginRow {
    let (kind, path) = match recovered.origin() {
        Origin::Fresh => ("fresh", None),
        Origin::Memory { .. } => ("memory", None),
        Origin::Checkpoint { path, .. } => ("checkpoint", Some(path.clone())),
    };
    OriginRow {
        kind,
        version: recovered.version(),
        path,
        sentence: recovered.origin().to_string(),
        skipped: recovered.skipped().to_vec(),
        attributes: recovered.attributes().clone(),
    }
}

pub fn origin_to_python<'py>(py: Python<'py>, origin: &OriginRow) -> PyResult<PythonOrigin<'py>> {
    let OriginRow { kind, version, path, sentence, skipped, attributes } = origin;
    let attributes = convert::attributes_to_python(py, attributes)?;
    Ok((kind, *version, path.clone(), sentence.clone(), skipped.clone(), attributes))
}

/// The type and the shape of all of a variable as it was recovered.
#[pyfunction]
pub fn recovered_variable<'py>(
    py: Python<'py>,
    region: &crate::region::Region,
    name: &str,
) -> PyResult<(Bound<'py, PyAny>, Vec<usize>)> {
    let (dtype, shape) = region.shared.with_recovered(py, |recovered, _, _| Ok(recovered.describe(name)?))?;
    Ok((convert::dtype_to_python(py, &dtype)?, shape))
}

/// Name, type and shape of a variable.
type VariableRow<'py> = (String, Bound<'py, PyAny>, Vec<usize>);

/// The variables that were recovered.
#[pyfunction]
pub fn recovered_variables<'py>(py: Python<'py>, region: &crate::region::Region) -> PyResult<Vec<VariableRow<'py>>> {
    let found = region.shared.with_recovered(py, |recovered, _, _| Ok(recovered.variables()?))?;
    let row = |variable: RecoveredVariable| {
        Ok((variable.name, convert::dtype_to_python(py, &variable.dtype)?, variable.shape))
    };
    found.into_iter().map(row).collect()
}
