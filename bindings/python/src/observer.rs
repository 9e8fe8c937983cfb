//! The observer and its snapshots.

use crate::arena::Arena;
use crate::convert::PoliteRow;
use crate::memory::{Chunks, Layout, Memory, zeroed};
use crate::{convert, errors, wait};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stillframe::Error;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An observer of one region.
#[pyclass(frozen, module = "stillframe._native")]
pub struct Observer {
    observer: Mutex<Option<Arc<stillframe::Observer>>>,
    name: String,
}

/// Version, time of its publish, dirty pages, total pages, and whether it is about to go.
type VersionRow = (u64, u64, u64, u64, bool);

impl Observer {
    fn open(&self, py: Python<'_>) -> PyResult<Arc<stillframe::Observer>> {
        locked(&self.observer).clone().ok_or_else(|| errors::misuse(py, "the observer is closed"))
    }
}

#[pymethods]
impl Observer {
    #[new]
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (name, *, wait, dir, populate, trust, arena, polite))]
    fn new(
        py: Python<'_>,
        name: String,
        wait: Option<f64>,
        dir: Option<PathBuf>,
        populate: Option<usize>,
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
                Error::NoRegion { .. } | Error::NoBroker { .. } | Error::NoVersion { .. } | Error::Timeout { .. }
            )
        };
        let observer = wait::in_slices(py, deadline, not_yet, |slice| {
            let options = stillframe::Observer::options().wait(slice);
            let options = match &dir {
                Some(dir) => options.dir(dir),
                None => options,
            };
            let options = match populate {
                Some(threads) => options.populate(threads),
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
        let name = observer.name().into();
        Ok(Self { observer: Mutex::new(Some(Arc::new(observer))), name })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn alive(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.open(py)?.producer_alive())
    }

    fn newest(&self, py: Python<'_>) -> PyResult<Snapshot> {
        let observer = self.open(py)?;
        py.detach(|| observer.newest()).map(Snapshot::new).map_err(|error| errors::raise(py, error))
    }

    fn version(&self, py: Python<'_>, version: u64) -> PyResult<Snapshot> {
        let observer = self.open(py)?;
        py.detach(|| observer.version(version)).map(Snapshot::new).map_err(|error| errors::raise(py, error))
    }

    /// Waits for a version after that one: the next, or if `newest` the newest.
    fn after(&self, py: Python<'_>, after: Option<u64>, timeout: Option<f64>, newest: bool) -> PyResult<Snapshot> {
        let observer = self.open(py)?;
        let timeout = convert::seconds(py, "timeout", timeout)?;
        let timed_out = |error: &Error| matches!(error, Error::Timeout { .. });
        let snapshot = wait::in_slices(py, wait::deadline(timeout), timed_out, |slice| {
            Ok(py.detach(|| match newest {
                true => observer.newest_after(after, Some(slice)),
                false => observer.next_after(after, Some(slice)),
            }))
        });
        snapshot.map(Snapshot::new)
    }

    /// Sleeps as long as a polite process has to before it looks again.
    fn pause(&self, py: Python<'_>) -> PyResult<()> {
        let observer = self.open(py)?;
        wait::pause(py, |slice| observer.pause(Some(slice)))
    }

    fn versions(&self, py: Python<'_>) -> PyResult<Vec<VersionRow>> {
        let observer = self.open(py)?;
        let versions = py.detach(|| observer.versions());
        let row = |v: stillframe::VersionInfo| (v.version, v.published_ns, v.dirty_pages, v.total_pages, v.retiring);
        Ok(versions.into_iter().map(row).collect())
    }

    fn close(&self) {
        locked(&self.observer).take();
    }
}

/// A hold on one version.
#[pyclass(frozen, module = "stillframe._native")]
pub struct Snapshot {
    snapshot: Mutex<Option<stillframe::Snapshot>>,
    version: u64,
    published_ns: u64,
}

impl Snapshot {
    pub fn new(snapshot: stillframe::Snapshot) -> Self {
        let (version, published_ns) = (snapshot.version(), snapshot.published_ns());
        Self { version, published_ns, snapshot: Mutex::new(Some(snapshot)) }
    }

    fn open(&self, py: Python<'_>) -> PyResult<stillframe::Snapshot> {
        let version = self.version;
        locked(&self.snapshot).clone().ok_or_else(|| errors::misuse(py, format!("snapshot {version} is closed")))
    }

    fn layout(snapshot: &stillframe::Snapshot, name: &str) -> Result<Layout, Error> {
        snapshot.variable(name).map(|variable| Layout::new(&variable.dtype, &variable.shape, variable.order))
    }
}

/// Name, dtype, shape, order, units, attributes and bytes.
type VariableRow<'py> = (String, Bound<'py, PyAny>, Vec<usize>, &'static str, String, Bound<'py, PyDict>, usize);

#[pymethods]
impl Snapshot {
    #[getter]
    fn version(&self) -> u64 {
        self.version
    }

    #[getter]
    fn published_ns(&self) -> u64 {
        self.published_ns
    }

    fn attrs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        convert::attributes_to_python(py, self.open(py)?.attributes())
    }

    fn variables<'py>(&self, py: Python<'py>) -> PyResult<Vec<VariableRow<'py>>> {
        let snapshot = self.open(py)?;
        let row = |variable: &stillframe::VariableView| {
            Ok((
                variable.name.clone(),
                convert::dtype_to_python(py, &variable.dtype)?,
                variable.shape.clone(),
                convert::order_to_python(variable.order),
                variable.units.clone(),
                convert::attributes_to_python(py, &variable.attributes)?,
                variable.bytes,
            ))
        };
        snapshot.variables().iter().map(row).collect()
    }

    /// A variable where it lies.
    fn memory(&self, py: Python<'_>, name: &str) -> PyResult<Memory> {
        let snapshot = self.open(py)?;
        py.detach(|| Ok(Memory::of_view(snapshot.view(name)?, Self::layout(&snapshot, name)?)))
            .map_err(|error| errors::raise(py, error))
    }

    /// The pieces of a variable where they lie, without a mapping for this version.
    fn chunks(&self, py: Python<'_>, name: &str) -> PyResult<Chunks> {
        let snapshot = self.open(py)?;
        let chunks = py.detach(|| Chunks::new(snapshot, name)).map_err(|error| errors::raise(py, error))?;
        let why = || {
            format!("the pieces of variable '{name}' are more than there is memory for: read some elements at a time")
        };
        chunks.ok_or_else(|| errors::new(py, "OutOfMemory", why()))
    }

    /// A copy of some bytes of a variable.
    fn read(&self, py: Python<'_>, name: &str, offset: usize, bytes: usize) -> PyResult<Memory> {
        let snapshot = self.open(py)?;
        let room = snapshot.variable(name).map_err(|error| errors::raise(py, error))?.bytes;
        if offset.checked_add(bytes).is_none_or(|end| end > room) {
            return Err(errors::misuse(py, format!("{bytes} bytes at {offset} of '{name}', which has {room} bytes")));
        }
        let Some(mut data) = zeroed(bytes) else {
            let what = format!("{bytes} bytes for a copy of variable '{name}' cannot be had");
            return Err(errors::new(py, "OutOfMemory", format!("{what}: read fewer elements at a time")));
        };
        py.detach(|| snapshot.read(name, offset, &mut data)).map_err(|error| errors::raise(py, error))?;
        Ok(Memory::of_vec(data))
    }

    /// Byte ranges of a variable that may differ from an older snapshot.
    fn changed(&self, py: Python<'_>, older: &Self, name: &str) -> PyResult<Vec<(usize, usize)>> {
        let (snapshot, older) = (self.open(py)?, older.open(py)?);
        let ranges = py.detach(|| snapshot.changed(&older, name)).map_err(|error| errors::raise(py, error))?;
        Ok(ranges.into_iter().map(|range| (range.start, range.end)).collect())
    }

    /// Closes it for a later one of the region, and brings what was viewed along.
    fn advance(&self, py: Python<'_>, next: &Self) -> PyResult<()> {
        let next = next.open(py)?;
        next.check_region(&self.open(py)?).map_err(|error| errors::raise(py, error))?;
        let Some(mut older) = locked(&self.snapshot).take() else {
            return Err(errors::misuse(py, format!("snapshot {} is closed", self.version)));
        };
        py.detach(|| older.advance(next)).map_err(|error| errors::raise(py, error))
    }

    fn close(&self, py: Python<'_>) {
        let snapshot = locked(&self.snapshot).take();
        py.detach(|| drop(snapshot));
    }
}
