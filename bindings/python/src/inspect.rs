//! Regions seen from outside.

use crate::errors;
use pyo3::prelude::*;
use std::path::PathBuf;
use stillframe::inspect::{self, State};
use stillframe_checkpoint::removal;

/// Name, path, state, the versions that can be had, process number of the producer, bytes of memory, since when the producer
/// waits and leaves out, in seconds since 1970, and how many it left out.
type RegionRow = (String, PathBuf, String, Vec<u64>, u32, u64, Option<f64>, Option<f64>, u64);

/// The regions in a directory.
#[pyfunction]
pub fn regions(py: Python<'_>, dir: Option<PathBuf>) -> PyResult<Vec<RegionRow>> {
    let regions =
        py.detach(|| inspect::regions(&dir.unwrap_or_else(inspect::root))).map_err(|error| errors::raise(py, error))?;
    let row = |region: inspect::RegionInfo| {
        let state = match region.state {
            State::Live => "live".into(),
            State::Dead => "dead".into(),
            State::Incomplete => "incomplete".into(),
            State::Unreadable(why) => format!("unreadable: {why}"),
        };
        let live = region.versions.iter().filter(|version| !version.retiring).map(|version| version.version).collect();
        let [waiting, skipping] = [region.waiting_ns, region.skipping_ns].map(|ns| ns.map(|ns| ns as f64 / 1e9));
        let (pid, bytes) = (region.producer_pid, region.allocated_bytes);
        (region.name, region.path, state, live, pid, bytes, waiting, skipping, region.skipping)
    };
    Ok(regions.into_iter().map(row).collect())
}

/// Removes what is left of a region.
#[pyfunction]
pub fn remove(py: Python<'_>, name: &str, dir: Option<PathBuf>, force: bool) -> PyResult<()> {
    py.detach(|| removal::remove(&dir.unwrap_or_else(inspect::root), name, force))
        .map(drop)
        .map_err(|error| errors::raise(py, error))
}
