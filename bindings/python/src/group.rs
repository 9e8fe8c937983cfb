//! The observer of a group.

use crate::arena::Arena;
use crate::convert::PoliteRow;
use crate::observer::Snapshot;
use crate::{convert, errors, wait};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use stillframe::{Error, GroupSnapshot, RankInfo, RankState};

/// An observer of all ranks of a group.
#[pyclass(frozen, module = "stillframe._native")]
pub struct Group {
    group: Mutex<Option<Arc<stillframe::Group>>>,
    name: String,
}

/// Rank, state, process number, newest version, versions behind.
type RankRow = (u32, &'static str, u32, Option<u64>, u64);

impl Group {
    fn open(&self, py: Python<'_>) -> PyResult<Arc<stillframe::Group>> {
        let group = self.group.lock().unwrap_or_else(PoisonError::into_inner).clone();
        group.ok_or_else(|| errors::misuse(py, "the group is closed"))
    }
}

fn snapshots(snapshot: GroupSnapshot) -> Vec<Snapshot> {
    snapshot.ranks().iter().cloned().map(Snapshot::new).collect()
}

#[pymethods]
impl Group {
    #[new]
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (name, *, wait, dir, trust, arena, polite))]
    fn new(
        py: Python<'_>,
        name: String,
        wait: Option<f64>,
        dir: Option<PathBuf>,
        trust: Option<&str>,
        arena: Option<&Arena>,
        polite: Option<PoliteRow>,
    ) -> PyResult<Self> {
        if dir.is_some() && arena.is_some() {
            return Err(errors::misuse(py, "dir has no meaning beside arena: leave it out"));
        }
        let trust = convert::trust(py, trust)?;
        let arena = arena.map(|arena| arena.open_arena(py)).transpose()?;
        let deadline = wait::deadline(convert::seconds(py, "wait", wait)?);
        let not_yet = |error: &Error| {
            matches!(
                error,
                Error::NoRegion { .. } | Error::NoBroker { .. } | Error::Timeout { .. } | Error::SlowRank { .. }
            )
        };
        let group = wait::in_slices(py, deadline, not_yet, |slice| {
            let options = stillframe::Group::options().wait(slice);
            let options = match &dir {
                Some(dir) => options.dir(dir),
                None => options,
            };
            let options = match trust {
                Some(trust) => options.trust(trust),
                None => options,
            };
            let options = match &arena {
                Some(arena) => options.arena(arena),
                None => options,
            };
            let options = match &polite {
                Some(polite) => options.polite(convert::polite(polite)),
                None => options,
            };
            Ok(py.detach(|| options.open(&name)))
        })?;
        let name = group.name().into();
        Ok(Self { group: Mutex::new(Some(Arc::new(group))), name })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.open(py)?.size())
    }

    #[getter]
    fn alive(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.open(py)?.is_alive())
    }

    fn ranks(&self, py: Python<'_>) -> PyResult<Vec<RankRow>> {
        let group = self.open(py)?;
        let ranks = py.detach(|| group.ranks()).map_err(|error| errors::raise(py, error))?;
        let row = |info: RankInfo| {
            let state = match info.state {
                RankState::Live => "live",
                RankState::Dead => "dead",
                RankState::Absent => "absent",
            };
            (info.rank, state, info.pid, info.newest, info.behind)
        };
        Ok(ranks.into_iter().map(row).collect())
    }

    /// Sleeps as long as a polite process has to before it looks again.
    fn pause(&self, py: Python<'_>) -> PyResult<()> {
        let group = self.open(py)?;
        wait::pause(py, |slice| group.pause(Some(slice)))
    }

    fn newest(&self, py: Python<'_>) -> PyResult<Vec<Snapshot>> {
        let group = self.open(py)?;
        py.detach(|| group.newest()).map(snapshots).map_err(|error| errors::raise(py, error))
    }

    fn version(&self, py: Python<'_>, version: u64) -> PyResult<Vec<Snapshot>> {
        let group = self.open(py)?;
        py.detach(|| group.version(version)).map(snapshots).map_err(|error| errors::raise(py, error))
    }

    /// Waits for a version after that one: the next, or if `newest` the newest.
    fn after(&self, py: Python<'_>, after: Option<u64>, timeout: Option<f64>, newest: bool) -> PyResult<Vec<Snapshot>> {
        let group = self.open(py)?;
        let timeout = convert::seconds(py, "timeout", timeout)?;
        // The latter where a polite process has not had its turn.
        let timed_out = |error: &Error| matches!(error, Error::SlowRank { .. } | Error::Timeout { .. });
        let snapshot = wait::in_slices(py, wait::deadline(timeout), timed_out, |slice| {
            Ok(py.detach(|| match newest {
                true => group.newest_after(after, Some(slice)),
                false => group.next_after(after, Some(slice)),
            }))
        });
        snapshot.map(snapshots)
    }

    fn versions(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        let group = self.open(py)?;
        py.detach(|| group.versions()).map_err(|error| errors::raise(py, error))
    }

    fn close(&self) {
        self.group.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
