//! Arenas.
//!
//! # Safety
//! A descriptor is copied by its number, and only the copy is used.
#![allow(unsafe_code)]

use crate::{convert, errors};
use pyo3::prelude::*;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Many regions in one file.
#[pyclass(frozen, module = "stillframe._native")]
pub struct Arena {
    arena: Mutex<Option<stillframe::Arena>>,
    name: String,
    path: PathBuf,
    bytes: u64,
    pid: u32,
}

/// Length, tables and free bytes, free and small chunks, most regions; and of each region name, bytes and whether it was
/// removed.
type UsageRow = (u64, u64, u64, u32, u32, u32, Vec<(String, u64, bool)>);

impl Arena {
    /// The arena itself, unless it was closed or is another process's.
    pub fn open_arena(&self, py: Python<'_>) -> PyResult<stillframe::Arena> {
        if std::process::id() != self.pid {
            return Err(errors::new(py, "ForkError", "this arena belongs to the process that forked this one"));
        }
        let arena = self.arena.lock().unwrap_or_else(PoisonError::into_inner).clone();
        arena.ok_or_else(|| errors::misuse(py, "the arena is closed"))
    }

    fn new(py: Python<'_>, open: impl FnOnce() -> stillframe::Result<stillframe::Arena> + Send) -> PyResult<Self> {
        let arena = py.detach(open).map_err(|error| errors::raise(py, error))?;
        Ok(Self {
            name: arena.name().into(),
            path: arena.path().into(),
            bytes: arena.bytes(),
            pid: std::process::id(),
            arena: Mutex::new(Some(arena)),
        })
    }
}

#[pymethods]
impl Arena {
    /// Makes an arena or opens the one that is there; with a descriptor, over its file.
    #[staticmethod]
    #[pyo3(signature = (name, *, bytes, regions, dir, mode, large_pages, trust, descriptor))]
    #[allow(clippy::too_many_arguments)]
    fn create(
        py: Python<'_>,
        name: String,
        bytes: Option<u64>,
        regions: Option<u32>,
        dir: Option<PathBuf>,
        mode: u32,
        large_pages: bool,
        trust: Option<&str>,
        descriptor: Option<i32>,
    ) -> PyResult<Self> {
        let mut options = stillframe::Arena::options().mode(mode).large_pages(large_pages);
        if let Some(bytes) = bytes {
            options = options.bytes(bytes);
        }
        if let Some(regions) = regions {
            options = options.regions(regions);
        }
        if let Some(dir) = dir {
            options = options.dir(dir);
        }
        if let Some(trust) = convert::trust(py, trust)? {
            options = options.trust(trust);
        }
        let Some(descriptor) = descriptor else { return Self::new(py, move || options.create(&name)) };
        if descriptor < 0 {
            return Err(errors::misuse(py, format!("descriptor {descriptor} is none")));
        }
        // SAFETY: it is not -1, and lent to one system call only, which fails if there is no such descriptor.
        let lent = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let own = lent.try_clone_to_owned();
        let own = own.map_err(|error| errors::misuse(py, format!("descriptor {descriptor} is none: {error}")))?;
        Self::new(py, move || options.from_descriptor(own, &name))
    }

    /// Opens an arena that is there.
    #[staticmethod]
    #[pyo3(signature = (name, *, look, dir, large_pages, trust))]
    fn open(
        py: Python<'_>,
        name: String,
        look: bool,
        dir: Option<PathBuf>,
        large_pages: bool,
        trust: Option<&str>,
    ) -> PyResult<Self> {
        let mut options = stillframe::Arena::options().large_pages(large_pages);
        if let Some(dir) = dir {
            options = options.dir(dir);
        }
        if let Some(trust) = convert::trust(py, trust)? {
            options = options.trust(trust);
        }
        Self::new(py, move || if look { options.look(&name) } else { options.open(&name) })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    #[getter]
    fn nbytes(&self) -> u64 {
        self.bytes
    }

    fn usage(&self, py: Python<'_>) -> PyResult<UsageRow> {
        let arena = self.open_arena(py)?;
        let found = py.detach(|| arena.usage()).map_err(|error| errors::raise(py, error))?;
        let regions = found.regions.into_iter().map(|region| (region.name, region.bytes, region.is_removed)).collect();
        let (chunks, small) = (found.free_chunks, found.small_chunks);
        Ok((found.bytes, found.tables_bytes, found.free_bytes, chunks, small, found.regions_max, regions))
    }

    fn close(&self) {
        self.arena.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
