//! Objects: creating, finding and looking at them.

use crate::drepl::DreplSchema;
use crate::fragment::{ReadFragment, WriteFragment};
use crate::{convert, errors, wait};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use stillframe_object::{Error, Objects, ObjectsOptions};

/// Numbers of the names that a text leaves open.
type Numbers = BTreeMap<String, i64>;

/// Number, process, rank, whether it is alive, first version, first version that it does not write any more, newest version,
/// all versions, text, numbers, and the name of its region.
type WriterRow = (u32, u32, Option<u32>, bool, u64, Option<u64>, Option<u64>, Vec<u64>, String, Numbers, String);

/// An object, and where it lies.
#[pyclass(frozen, module = "stillframe._native")]
pub struct Object {
    object: stillframe_object::Object,
    objects: Objects,
    /// Of the process that found it.
    pid: u32,
}

impl Object {
    fn new(object: stillframe_object::Object, objects: Objects) -> Self {
        Self { object, objects, pid: std::process::id() }
    }

    /// Runs `work` away from the interpreter. What this process knows of the writers means nothing in a fork of it.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&stillframe_object::Object) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        if std::process::id() != self.pid {
            let why = format!("object '{}' was found by the process that forked this one: find it again", self.name());
            return Err(errors::new(py, "ForkError", why));
        }
        py.detach(|| work(&self.object)).map_err(|error| errors::raise_object(py, error))
    }
}

fn options(dir: Option<PathBuf>) -> ObjectsOptions {
    let options = Objects::options().interrupt(wait::is_interrupted);
    match dir {
        Some(dir) => options.dir(dir),
        None => options,
    }
}

/// A limit for waits of the engine, which all have one.
pub fn limit(py: Python<'_>, what: &str, value: Option<f64>) -> PyResult<Duration> {
    Ok(convert::seconds(py, what, value)?.unwrap_or(Duration::MAX))
}

/// Looks once for an object, and waits for it a slice at most; if it is there, as long as need be for what the node knows of it. Whoever
/// only reads needs no right to write.
fn find(
    options: ObjectsOptions,
    name: &str,
    slice: Duration,
    left: impl Fn() -> Duration,
) -> Result<Option<Object>, Error> {
    let Some(objects) = options.look()? else {
        std::thread::sleep(slice);
        return Ok(None);
    };
    let mut found = objects.object_named(name);
    let is_missing = matches!(found, Err(Error::NoObject { .. }));
    if is_missing && !slice.is_zero() && objects.names().wait(name, slice)?.is_some() {
        found = objects.object_named(name);
    }
    match found {
        Ok(object) => {
            object.wait_heard(left())?;
            Ok(Some(Object::new(object, objects)))
        }
        Err(Error::NoObject { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[pymethods]
impl Object {
    /// Creates an object, or finds the one that is there and the same.
    #[staticmethod]
    fn create(
        py: Python<'_>,
        name: &str,
        text: &str,
        bindings: Numbers,
        initial: u64,
        dir: Option<PathBuf>,
    ) -> PyResult<Self> {
        let created = py.detach(|| {
            let objects = options(dir).open()?;
            let created = objects.create(name, text).initial(initial);
            let created = bindings.iter().fold(created, |created, (name, value)| created.bind(name, *value));
            Ok(Self::new(created.create()?, objects.clone()))
        });
        created.map_err(|error| errors::raise_object(py, error))
    }

    /// Finds an object, waiting for it if need be.
    #[staticmethod]
    fn open(py: Python<'_>, name: &str, wait: Option<f64>, dir: Option<PathBuf>) -> PyResult<Self> {
        let (begin, deadline) = (Instant::now(), wait::deadline(convert::seconds(py, "wait", wait)?));
        loop {
            let left_of = |longest| {
                deadline.map_or(longest, |deadline: Instant| deadline.saturating_duration_since(Instant::now()))
            };
            let left = left_of(wait::SLICE);
            let found =
                py.detach(|| find(options(dir.clone()), name, left.min(wait::SLICE), || left_of(Duration::MAX)));
            match found.map_err(|error| errors::raise_object(py, error))? {
                Some(object) => return Ok(object),
                None if left > wait::SLICE || deadline.is_none() => py.check_signals()?,
                None => {
                    let waited = if left.is_zero() { Duration::ZERO } else { begin.elapsed() };
                    let dir = dir.unwrap_or_else(stillframe::inspect::root);
                    return Err(errors::raise_object(py, Error::NoObject { name: name.into(), dir, waited }));
                }
            }
        }
    }

    #[getter]
    fn name(&self) -> &str {
        self.object.name()
    }

    #[getter]
    fn id(&self) -> u64 {
        self.object.description().id.get()
    }

    #[getter]
    fn text(&self) -> &str {
        &self.object.description().text
    }

    fn bindings(&self) -> Numbers {
        self.object.description().bindings.clone()
    }

    #[getter]
    fn initial(&self) -> u64 {
        self.object.description().initial
    }

    #[getter]
    fn dir(&self) -> PathBuf {
        self.objects.dir().into()
    }

    fn schema(&self) -> DreplSchema {
        DreplSchema(self.object.schema().clone())
    }

    fn newest(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |object| object.newest())
    }

    fn versions(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        self.with(py, |object| object.versions())
    }

    fn wait_newer(&self, py: Python<'_>, after: u64, timeout: Option<f64>) -> PyResult<u64> {
        let timeout = limit(py, "timeout", timeout)?;
        self.with(py, |object| object.wait_newer(after, timeout))
    }

    fn writers(&self, py: Python<'_>) -> PyResult<Vec<WriterRow>> {
        let writers = self.with(py, |object| object.writers())?;
        let row = |info: stillframe_object::WriterInfo| {
            let who = info.who.0;
            let (process, rank) = (who.writer.process, who.rank);
            let versions = (info.from, info.left, info.newest, info.versions);
            (
                info.number,
                process,
                rank,
                info.is_alive,
                versions.0,
                versions.1,
                versions.2,
                versions.3,
                info.text,
                info.bindings,
                info.region,
            )
        };
        Ok(writers.into_iter().map(row).collect())
    }

    fn remove(&self, py: Python<'_>, force: bool) -> PyResult<()> {
        self.with(py, |object| self.objects.remove_object(object, force))
    }

    /// Attaches a fragment to write.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (text, bindings, *, version, rank, writers, keep, bound, loaned, zeros, wait))]
    fn write(
        &self,
        py: Python<'_>,
        text: &str,
        bindings: Numbers,
        version: Option<u64>,
        rank: Option<u32>,
        writers: Option<u32>,
        keep: usize,
        bound: Option<u64>,
        loaned: bool,
        zeros: bool,
        wait: Option<f64>,
    ) -> PyResult<WriteFragment> {
        let mut options = self.object.write(text).keep(keep).wait(limit(py, "wait", wait)?);
        for (name, value) in &bindings {
            options = options.bind(name, *value);
        }
        if let Some(version) = version {
            options = options.version(version);
        }
        if let Some(rank) = rank {
            options = options.rank(rank);
        }
        if let Some(writers) = writers {
            options = options.writers(writers);
        }
        if let Some(bytes) = bound {
            options = options.bound_bytes(bytes);
        }
        if loaned {
            options = options.loaned();
        }
        if zeros {
            options = options.zeros();
        }
        let attached = self.with(py, |_| options.attach())?;
        Ok(WriteFragment::new(attached, loaned))
    }

    /// Attaches a fragment to read.
    fn read(
        &self,
        py: Python<'_>,
        text: &str,
        bindings: Numbers,
        threads: usize,
        prefetch: bool,
    ) -> PyResult<ReadFragment> {
        let options = self.object.read(text).threads(threads);
        let options = if prefetch { options.prefetch() } else { options };
        let options = bindings.iter().fold(options, |options, (name, value)| options.bind(name, *value));
        self.with(py, |_| options.attach()).map(ReadFragment::new)
    }
}
