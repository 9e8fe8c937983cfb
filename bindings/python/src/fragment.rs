//! Fragments of objects, to write and to read.
//!
//! # Safety
//! Addresses of a fragment's memory are given to Python here. What keeps them valid is the owner that each [`Memory`] has: of a
//! fragment to write its cell, which has the fragment as long as it is attached, and the memory that was kept of it afterwards;
//! of a loan its cell; of a fragment to read its cell, which has the fragment to the end.
#![allow(unsafe_code)]

use crate::drepl::DreplFragment;
use crate::exclusive::Exclusive;
use crate::memory::{Borrowed, Layout, Memory};
use crate::object::limit;
use crate::region::{LoanCell, Published, told};
use crate::{errors, wait};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use stillframe::KeptMemory;
use stillframe_object::Error;

/// A fragment to write, and the memory of it that Python may know.
struct Writing {
    fragment: Option<stillframe_object::WriteFragment>,
    is_loaned: bool,
    /// The loan of the next version, once it was asked for.
    loan: Option<Arc<LoanCell>>,
    /// Cloned into each array over the memory, so that its count tells whether any is left.
    exports: Arc<()>,
    /// What arrays that outlive the fragment refer to.
    kept: Option<KeptMemory>,
}

/// Why something did not happen, before it is an exception: those need the interpreter.
enum Failure {
    Object(Error),
    Region(stillframe::Error),
    Detached,
}

impl Failure {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Failure::Object(error) => errors::raise_object(py, error),
            Failure::Region(error) => errors::raise(py, error),
            Failure::Detached => detached(py),
        }
    }
}

fn detached(py: Python<'_>) -> PyErr {
    errors::misuse(py, "the fragment is detached")
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Object(error)
    }
}

impl From<stillframe::Error> for Failure {
    fn from(error: stillframe::Error) -> Self {
        Failure::Region(error)
    }
}

impl Writing {
    fn fragment(&mut self) -> Result<&mut stillframe_object::WriteFragment, Failure> {
        self.fragment.as_mut().ok_or(Failure::Detached)
    }

    fn detach(&mut self) -> Result<(), Failure> {
        let Some(fragment) = self.fragment.take() else { return Ok(()) };
        if let Some(loan) = self.loan.take() {
            // Where this fails, the loan's addresses stay for ever, and nothing is lost but they.
            let _ = loan.end(false);
        }
        if self.is_loaned || Arc::strong_count(&self.exports) == 1 {
            return Ok(fragment.detach()?);
        }
        let (kept, outcome) = fragment.detach_keeping();
        self.kept = kept;
        Ok(outcome?)
    }
}

/// A fragment that is written.
#[pyclass(frozen, module = "stillframe._native")]
pub struct WriteFragment {
    cell: Arc<Exclusive<Writing>>,
    fragment: Arc<drepl::Fragment>,
    number: u32,
    version: AtomicU64,
    is_detached: AtomicBool,
}

impl WriteFragment {
    pub fn new(fragment: stillframe_object::WriteFragment, is_loaned: bool) -> Self {
        let (laid_out, number) = (fragment.fragment().clone(), fragment.number());
        let version = AtomicU64::new(fragment.version());
        let (exports, fragment) = (Arc::default(), Some(fragment));
        let writing = Writing { fragment, is_loaned, loan: None, exports, kept: None };
        let cell = Arc::new(Exclusive::new(writing));
        Self { cell, fragment: laid_out, number, version, is_detached: AtomicBool::new(false) }
    }

    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Writing) -> Result<R, Failure> + Send,
    ) -> PyResult<R> {
        self.cell.with(py, work)?.map_err(|failure| failure.raise(py))
    }
}

#[pymethods]
impl WriteFragment {
    #[getter]
    fn fragment(&self) -> DreplFragment {
        DreplFragment(self.fragment.clone())
    }

    #[getter]
    fn number(&self) -> u32 {
        self.number
    }

    #[getter]
    fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    #[getter]
    fn is_detached(&self) -> bool {
        self.is_detached.load(Ordering::Relaxed)
    }

    /// The memory to be written; of a loaned fragment that of the next version.
    fn memory(&self, py: Python<'_>) -> PyResult<Memory> {
        let cell = self.cell.clone();
        self.with(py, move |writing| {
            let (exports, is_loaned) = (writing.exports.clone(), writing.is_loaned);
            if is_loaned {
                let loan = match &writing.loan {
                    Some(loan) => loan.clone(),
                    None => {
                        let loan = Arc::new(LoanCell::new(writing.fragment()?.take_loan()?, exports));
                        writing.loan.insert(loan).clone()
                    }
                };
                let bytes = writing.fragment()?.fragment().size_bytes() as usize;
                return loan.memory(Layout::raw(bytes)).ok_or(Failure::Detached);
            }
            let (start, bytes) = writing.fragment()?.address()?;
            // SAFETY: the engine keeps a managed variable where it is until the fragment goes, and then this memory is kept
            // in the cell, which the owner shares, as the export counts.
            Ok(unsafe { Memory::new(start, bytes, true, Layout::raw(bytes), (exports, cell)) })
        })
    }

    /// Its newest version, to be read; none before the first publish.
    fn previous(&self, py: Python<'_>) -> PyResult<Option<Memory>> {
        self.with(py, |writing| {
            let view = writing.fragment()?.previous_view()?;
            Ok(view.map(|view| {
                let layout = Layout::raw(view.len());
                Memory::of_view(view, layout)
            }))
        })
    }

    fn publish(&self, py: Python<'_>, version: u64) -> PyResult<Published> {
        let published = self.with(py, |writing| {
            let follows = version > writing.fragment()?.version();
            if follows && let Some(loan) = writing.loan.take() {
                loan.end(true)?;
            }
            Ok(told(writing.fragment()?.publish(version)?))
        })?;
        if !published.1 {
            self.version.store(version, Ordering::Relaxed);
        }
        Ok(published)
    }

    /// Detaches it. Memory that arrays refer to stays.
    fn detach(&self, py: Python<'_>) -> PyResult<()> {
        // Nothing to end for a forked child, which leaves `with` blocks of its parent as it ends.
        if self.is_detached.load(Ordering::Relaxed) || !self.cell.is_ours() {
            return Ok(());
        }
        // Ctrl-C while another thread has the fragment leaves it attached.
        let outcome = self.cell.with(py, Writing::detach)?;
        self.is_detached.store(true, Ordering::Relaxed);
        outcome.map_err(|failure| failure.raise(py))
    }
}

impl Drop for WriteFragment {
    fn drop(&mut self) {
        // Arrays that are left keep their memory, but not the fragment attached. Other threads of Python go on meanwhile: another
        // process may have the board for a while.
        let detach = || {
            if self.cell.is_ours()
                && let Some(mut writing) = self.cell.lock()
            {
                let _ = writing.detach();
            }
        };
        if Python::try_attach(|py| py.detach(detach)).is_none() {
            detach();
        }
    }
}

/// What Python gives back where this node's runtime has no memory for what it reads.
struct Relief {
    /// The object that is read.
    object: String,
    /// Called with whether memory is short, and whether the read had some before; it returns whether asking again may help.
    call: Py<PyAny>,
}

impl Relief {
    fn call(&self, is_short: bool, had_memory: bool) -> Result<bool, Error> {
        let called = Python::try_attach(|py| self.call.bind(py).call1((is_short, had_memory))?.is_truthy());
        match called {
            Some(Ok(outcome)) => Ok(outcome),
            Some(Err(error)) => {
                wait::raise(error);
                Err(Error::Interrupted { name: self.object.clone() })
            }
            // The interpreter is going away.
            None => Err(Error::Interrupted { name: self.object.clone() }),
        }
    }
}

impl stillframe_object::Relief for Relief {
    fn give_back(&self, had_memory: bool) -> Result<bool, Error> {
        self.call(true, had_memory)
    }

    fn ask_again(&self) -> Result<(), Error> {
        self.call(false, false).map(drop)
    }
}

/// A fragment that is read.
#[pyclass(frozen, module = "stillframe._native")]
pub struct ReadFragment {
    /// `None` once it was detached.
    cell: Mutex<Option<Arc<Exclusive<stillframe_object::ReadFragment>>>>,
    fragment: Arc<drepl::Fragment>,
    /// The name of its object.
    object: String,
    version: AtomicU64,
}

impl ReadFragment {
    pub fn new(fragment: stillframe_object::ReadFragment) -> Self {
        let (laid_out, object) = (fragment.fragment().clone(), fragment.object().to_owned());
        let version = AtomicU64::new(fragment.version());
        let cell = Mutex::new(Some(Arc::new(Exclusive::new(fragment))));
        Self { cell, fragment: laid_out, object, version }
    }

    fn cell(&self, py: Python<'_>) -> PyResult<Arc<Exclusive<stillframe_object::ReadFragment>>> {
        let cell = self.cell.lock().unwrap_or_else(PoisonError::into_inner);
        cell.clone().ok_or_else(|| detached(py))
    }
}

#[pymethods]
impl ReadFragment {
    #[getter]
    fn fragment(&self) -> DreplFragment {
        DreplFragment(self.fragment.clone())
    }

    #[getter]
    fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    #[getter]
    fn is_detached(&self) -> bool {
        self.cell.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// The memory that each reattach fills. Its address is fixed when it is asked for first: until then, a reattach may choose
    /// one at which a writer's pages can be shown.
    fn memory(&self, py: Python<'_>) -> PyResult<Memory> {
        let (cell, bytes) = (self.cell(py)?, self.fragment.size_bytes() as usize);
        let start = cell.with(py, |fragment| fragment.address() as usize)?;
        // SAFETY: the fragment's memory stays at its address as long as the fragment lives, which the owner shares. Only
        // the fragment writes it.
        Ok(unsafe { Memory::new(start as *mut u8, bytes, false, Layout::raw(bytes), cell) })
    }

    fn reattach(&self, py: Python<'_>, version: u64, timeout: Option<f64>) -> PyResult<()> {
        let timeout = limit(py, "timeout", timeout)?;
        let reattach =
            |fragment: &mut stillframe_object::ReadFragment| (fragment.reattach(version, timeout), fragment.version());
        let (outcome, shown) = self.cell(py)?.with(py, reattach)?;
        // Where the system took away what it showed before, an error leaves the initial version.
        self.version.store(shown, Ordering::Relaxed);
        outcome.map_err(|error| errors::raise_object(py, error))
    }

    fn reattach_newer(&self, py: Python<'_>, after: u64, timeout: Option<f64>) -> PyResult<u64> {
        let timeout = limit(py, "timeout", timeout)?;
        let reattach = |fragment: &mut stillframe_object::ReadFragment| {
            (fragment.reattach_newer(after, timeout), fragment.version())
        };
        let (outcome, shown) = self.cell(py)?.with(py, reattach)?;
        self.version.store(shown, Ordering::Relaxed);
        outcome.map_err(|error| errors::raise_object(py, error))
    }

    /// Copies the elements of a version into an array of Python's own, as long as the fragment. `relief(True, had_memory)` is called
    /// where this node's runtime has no memory for it, and `relief(False, False)` before it is asked once more.
    fn fill(
        &self,
        py: Python<'_>,
        version: u64,
        timeout: Option<f64>,
        out: &Bound<'_, PyAny>,
        relief: Py<PyAny>,
    ) -> PyResult<()> {
        let timeout = limit(py, "timeout", timeout)?;
        let (mut out, relief) = (Borrowed::writable(out)?, Relief { object: self.object.clone(), call: relief });
        let fill = |fragment: &mut stillframe_object::ReadFragment| {
            out.write(|out| fragment.fill_with(version, timeout, &relief, out))
        };
        self.cell(py)?.with(py, fill)?.map_err(|error| errors::raise_object(py, error))
    }

    /// The same of the newest complete version, whose number it returns.
    fn fill_newest(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        out: &Bound<'_, PyAny>,
        relief: Py<PyAny>,
    ) -> PyResult<u64> {
        let timeout = limit(py, "timeout", timeout)?;
        let (mut out, relief) = (Borrowed::writable(out)?, Relief { object: self.object.clone(), call: relief });
        let fill = |fragment: &mut stillframe_object::ReadFragment| {
            out.write(|out| fragment.fill_newest_with(timeout, &relief, out))
        };
        self.cell(py)?.with(py, fill)?.map_err(|error| errors::raise_object(py, error))
    }

    /// Whether it shows pages of a writer rather than a copy.
    fn is_shown(&self, py: Python<'_>) -> PyResult<bool> {
        self.cell(py)?.with(py, |fragment| fragment.is_shown())
    }

    /// Detaches it. Unless arrays still show it, this node's runtime has given back its memory then.
    fn detach(&self, py: Python<'_>) -> PyResult<()> {
        let cell = self.cell.lock().unwrap_or_else(PoisonError::into_inner).take();
        let give_back = || match cell.and_then(Arc::into_inner).and_then(Exclusive::into_inner) {
            Some(fragment) => fragment.give_back(),
            None => Ok(()),
        };
        py.detach(give_back).map_err(|error| errors::raise_object(py, error))
    }
}
