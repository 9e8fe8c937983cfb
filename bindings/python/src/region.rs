//! The producer.
//!
//! # Safety
//! Two pointers cross here: that of managed or loaned memory to Python, kept alive by what the [`Memory`] owns, and that
//! of tracked memory to the engine, kept alive by a [`Borrowed`] until the publish is over.
#![allow(unsafe_code)]

use crate::arena::Arena;
use crate::given::{ArrayInput, Given};
use crate::memory::{Borrowed, Layout, Memory};
use crate::recovery::{self, OriginRow};
use crate::{convert, ending, errors, wait};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};
use stillframe::{
    Declaration, EndedLoan, Error, Finish, KeptMemory, Kind, LoanBytes, Order, Outcome, Part, Rule, VariableId,
};
use stillframe_checkpoint::Recovered;

struct State {
    region: Option<stillframe::Region>,
    variables: HashMap<String, Known>,
    /// What arrays that outlive the region refer to.
    kept: Vec<KeptMemory>,
    /// What was recovered, until the first publish.
    recovered: Option<Recovered>,
}

/// What the binding has to remember of a variable.
pub struct Known {
    pub(crate) id: VariableId,
    managed: bool,
    /// Bytes, of a tracked variable those of the last publish.
    pub(crate) bytes: usize,
    pub(crate) dtype: stillframe::DType,
    order: Order,
    shape: Vec<usize>,
    /// Cloned into each array over the variable's memory, so that its count tells whether any is left.
    exports: Arc<()>,
    /// Loans that may be open.
    loans: Vec<Weak<LoanCell>>,
}

impl Known {
    fn exported(&self) -> usize {
        Arc::strong_count(&self.exports) - 1
    }

    /// Takes the shape that the region has for the variable, which is none for a tracked one.
    fn set_shape(&mut self, kind: Kind) {
        if let Kind::Managed { shape } | Kind::Loaned { shape } = kind {
            self.bytes = self.dtype.bytes() * shape.iter().product::<usize>();
            self.shape = shape;
        }
    }
}

pub struct Shared {
    state: Mutex<State>,
    pid: u32,
}

impl State {
    /// Ends the region as `how` says, if that did not happen already. Memory that arrays refer to stays.
    fn end(&mut self, pid: u32, how: fn(stillframe::Region) -> Result<(), Error>) -> Result<(), Error> {
        let Some(region) = self.region.take() else { return Ok(()) };
        if std::process::id() != pid {
            // A forked child has none of the region's threads, and what they had locked stays locked.
            let region_name = region.name().to_string();
            std::mem::forget(region);
            return Err(Error::Forked { region: region_name });
        }
        self.keep_memory(region).and_then(how)
    }

    /// Ends loans, and takes the memory that arrays refer to out of the region.
    fn keep_memory(&mut self, mut region: stillframe::Region) -> Result<stillframe::Region, Error> {
        for known in self.variables.values() {
            for loan in known.loans.iter().filter_map(Weak::upgrade) {
                // Where this fails, the loan's addresses stay for ever, and the name in use until the process ends: nothing
                // is lost but they.
                let _ = loan.end(false);
            }
            if known.exported() == 0 || !known.managed {
                continue;
            }
            match region.remove_keeping(known.id) {
                Ok(memory) => self.kept.push(memory),
                Err(error) => {
                    // Arrays refer to memory that goes with the region: better keep it for ever.
                    std::mem::forget(region);
                    return Err(error);
                }
            }
        }
        Ok(region)
    }
}

impl Shared {
    /// Runs `work` on the open region, away from the interpreter.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut stillframe::Region, &mut HashMap<String, Known>) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        self.with_state(py, |region, variables, _| work(region, variables))
    }

    /// Runs `work` on the open region and what it was recovered from.
    fn with_state<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(
            &mut stillframe::Region,
            &mut HashMap<String, Known>,
            &mut Option<Recovered>,
        ) -> Result<T, Failure>
        + Send,
    ) -> PyResult<T> {
        let mut work = Some(work);
        loop {
            let outcome = py.detach(|| {
                let mut state = self.lock()?;
                let State { region, variables, recovered, .. } = &mut *state;
                let region = region.as_mut().ok_or(Failure::Misuse("the region is closed".into()));
                Some(region.and_then(|region| {
                    work.take().map_or(Err(Failure::Interrupted), |work| work(region, variables, recovered))
                }))
            });
            match outcome {
                Some(outcome) => return outcome.map_err(|failure| failure.raise(py)),
                None => self.still_ours(py)?,
            }
        }
    }

    /// Runs `work` on what was recovered, away from the interpreter.
    pub fn with_recovered<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Recovered, &mut stillframe::Region, &mut HashMap<String, Known>) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        self.with_state(py, |region, variables, recovered| match recovered {
            Some(recovered) => work(recovered, region, variables),
            None => Err(Failure::Misuse(
                "there is nothing to read: the region is not from recover(), or has published".into(),
            )),
        })
    }

    /// Ends the region as `how` says, if that did not happen already. Memory that arrays refer to stays.
    fn end(&self, py: Python<'_>, how: fn(stillframe::Region) -> Result<(), Error>) -> PyResult<Result<(), Error>> {
        loop {
            let outcome = py.detach(|| Some(self.lock()?.end(self.pid, how)));
            match outcome {
                Some(outcome) => return Ok(outcome),
                None => self.still_ours(py)?,
            }
        }
    }

    /// Whether the region is this process's and was not closed.
    fn is_open(&self) -> bool {
        std::process::id() == self.pid && self.lock().is_none_or(|state| state.region.is_some())
    }

    /// The state, unless another thread keeps it for long: a mutex of the standard library cannot be waited for with a
    /// limit, and without one Ctrl-C would go unnoticed.
    fn lock(&self) -> Option<MutexGuard<'_, State>> {
        let until = Instant::now() + wait::SLICE;
        loop {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(state)) => return Some(state.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
                Err(TryLockError::WouldBlock) => return None,
            }
        }
    }

    /// A thread that held the lock when this process was forked exists in the parent only, and would never let go.
    fn still_ours(&self, py: Python<'_>) -> PyResult<()> {
        if std::process::id() != self.pid {
            return Err(errors::new(py, "ForkError", "this region belongs to the process that forked this one"));
        }
        py.check_signals()
    }
}

/// Why some work on a region did not happen, before it is an exception: those need the interpreter.
pub enum Failure {
    Engine(Error),
    Checkpoint(Box<stillframe_checkpoint::Error>),
    Misuse(String),
    Interrupted,
}

impl Failure {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Failure::Engine(error) => errors::raise(py, error),
            Failure::Checkpoint(error) => errors::raise_checkpoint(py, *error),
            Failure::Misuse(why) => errors::misuse(py, why),
            Failure::Interrupted => errors::misuse(py, "the work was already done"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Engine(error)
    }
}

impl From<stillframe_checkpoint::Error> for Failure {
    fn from(error: stillframe_checkpoint::Error) -> Self {
        Failure::Checkpoint(Box::new(error))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn known<'a>(variables: &'a mut HashMap<String, Known>, name: &str) -> Result<&'a mut Known, Failure> {
    variables.get_mut(name).ok_or_else(|| Failure::Misuse(format!("variable '{name}' was not declared by this region")))
}

/// A region, by its producer.
#[pyclass(frozen, module = "stillframe._native")]
pub struct Region {
    pub shared: Arc<Shared>,
    name: String,
    recovered: Option<u64>,
    tracker: String,
    /// What it begins with, if it was recovered.
    origin: Option<OriginRow>,
    /// Memory that a publish which was started reads.
    started: Mutex<Vec<Borrowed>>,
}

/// What the engine said about a publish: version, skipped, dirty, copied and total pages, seconds.
pub(crate) type Published = (u64, bool, u64, u64, u64, f64);

#[pymethods]
impl Region {
    #[new]
    #[pyo3(signature = (name, *, keep, bound, rule, timeout, threads, tracker, dir, mode, large_pages, demote, copy_unit, memory_unit, rank, ranks, drift, rollback, fresh, trust, arena, recovery))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        name: String,
        keep: usize,
        bound: Option<u64>,
        rule: &str,
        timeout: Option<f64>,
        threads: Option<usize>,
        tracker: Option<&str>,
        dir: Option<PathBuf>,
        mode: u32,
        large_pages: bool,
        demote: bool,
        copy_unit: Option<&str>,
        memory_unit: Option<&str>,
        rank: Option<u32>,
        ranks: Option<u32>,
        drift: Option<usize>,
        rollback: Option<u64>,
        fresh: bool,
        trust: Option<&str>,
        arena: Option<&Arena>,
        recovery: Option<(Option<PathBuf>, Option<u64>)>,
    ) -> PyResult<Self> {
        let timeout = convert::seconds(py, "timeout", timeout)?;
        let rule = match rule {
            "wait_then_skip" => timeout.map_or_else(Rule::default, |limit| Rule::WaitThenSkip { limit }),
            "wait" => Rule::Wait { timeout },
            "skip" => Rule::Skip,
            "fail" => Rule::Fail,
            other => {
                let why = format!("rule is 'wait_then_skip', 'wait', 'skip' or 'fail', not '{other}'");
                return Err(errors::misuse(py, why));
            }
        };
        let mut options = stillframe::Region::options().keep(keep).rule(rule).mode(mode).fresh(fresh);
        options = options.large_pages(large_pages).demote(demote);
        if let Some(bytes) = bound {
            options = options.bound_bytes(bytes);
        }
        if let Some(threads) = threads {
            options = options.threads(threads);
        }
        if let Some(tracker) = tracker {
            options = options.tracker(tracker.parse().map_err(|error| errors::raise(py, error))?);
        }
        if let Some(unit) = copy_unit {
            options = options.copy_unit(unit.parse().map_err(|error| errors::raise(py, error))?);
        }
        if let Some(unit) = memory_unit {
            options = options.memory_unit(unit.parse().map_err(|error| errors::raise(py, error))?);
        }
        if dir.is_some() && arena.is_some() {
            return Err(errors::misuse(py, "dir has no meaning beside arena: leave it out"));
        }
        if let Some(dir) = dir {
            options = options.dir(dir);
        }
        if let Some(trust) = convert::trust(py, trust)? {
            options = options.trust(trust);
        }
        if let Some(arena) = arena {
            options = options.arena(&arena.open_arena(py)?);
        }
        match (rank, ranks) {
            (Some(rank), Some(ranks)) => options = options.rank(rank, ranks),
            (None, None) => {}
            _ => return Err(errors::misuse(py, "a rank of a group needs both rank and ranks")),
        }
        if let Some(versions) = drift {
            options = options.drift(versions);
        }
        if let Some(version) = rollback {
            options = options.rollback(version);
        }
        let (region, recovered) = match recovery {
            None => (py.detach(|| options.create(&name)).map_err(|error| errors::raise(py, error))?, None),
            Some((checkpoints, version)) => {
                let (region, recovered) = py
                    .detach(|| recovery::open(&name, options, checkpoints, version))
                    .map_err(|error| errors::raise_checkpoint(py, error))?;
                (region, Some(recovered))
            }
        };
        Ok(Self {
            origin: recovered.as_ref().map(recovery::origin_of),
            recovered: region.recovered(),
            tracker: region.tracker().to_string(),
            started: Mutex::default(),
            name: region.name().to_string(),
            shared: Arc::new(Shared {
                pid: std::process::id(),
                state: Mutex::new(State {
                    region: Some(region),
                    variables: HashMap::new(),
                    kept: Vec::new(),
                    recovered,
                }),
            }),
        })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn recovered(&self) -> Option<u64> {
        self.recovered
    }

    /// Kind, version, path, sentence, damaged checkpoints and attributes of what was recovered.
    #[getter]
    fn origin<'py>(&self, py: Python<'py>) -> PyResult<Option<recovery::PythonOrigin<'py>>> {
        self.origin.as_ref().map(|origin| recovery::origin_to_python(py, origin)).transpose()
    }

    /// Reads a box of what was recovered into an array.
    #[allow(clippy::too_many_arguments)]
    fn read(
        &self,
        py: Python<'_>,
        name: &str,
        dtype: &Bound<'_, PyAny>,
        order: &str,
        offset: Option<Vec<usize>>,
        shape: Vec<usize>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let dtype = convert::dtype_from_python(dtype)?;
        let order = convert::order_from_python(py, order)?;
        let mut out = Borrowed::writable(out)?;
        self.shared.with_recovered(py, move |recovered, _, _| {
            Ok(out.write(|bytes| recovered.read_bytes(name, &dtype, order, offset.as_deref(), &shape, bytes))?)
        })
    }

    /// Fills a managed variable with its part of what was recovered.
    fn fill(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.shared.with_recovered(py, |recovered, region, variables| {
            let id = known(variables, name)?.id;
            Ok(recovered.fill(region, id)?)
        })
    }

    #[getter]
    fn tracker(&self) -> &str {
        &self.tracker
    }

    #[getter]
    fn newest(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.shared.with(py, |region, _| Ok(region.newest()))
    }

    /// Adds a variable; `kind` is "managed", "tracked" or "loaned".
    #[pyo3(signature = (name, dtype, kind, shape, order, units, attrs, pinned))]
    #[allow(clippy::too_many_arguments)]
    fn declare(
        &self,
        py: Python<'_>,
        name: String,
        dtype: &Bound<'_, PyAny>,
        kind: &str,
        shape: Vec<usize>,
        order: &str,
        units: String,
        attrs: &Bound<'_, PyDict>,
        pinned: bool,
    ) -> PyResult<()> {
        let dtype = convert::dtype_from_python(dtype)?;
        let order = convert::order_from_python(py, order)?;
        let attributes = convert::attributes_from_python(attrs)?;
        let kind = match kind {
            "managed" => Kind::Managed { shape: shape.clone() },
            "tracked" => Kind::Tracked,
            "loaned" => Kind::Loaned { shape: shape.clone() },
            other => return Err(errors::misuse(py, format!("there is no kind '{other}' of variable"))),
        };
        let (managed, tracked) = (matches!(kind, Kind::Managed { .. }), matches!(kind, Kind::Tracked));
        self.settle(py)?;
        self.shared.with(py, move |region, variables| {
            let declaration =
                Declaration { name: name.clone(), dtype: dtype.clone(), order, units, attributes, kind, pinned };
            let id = region.declare(declaration)?;
            let bytes = if tracked { 0 } else { dtype.bytes() * shape.iter().product::<usize>() };
            let (exports, loans) = (Arc::default(), Vec::new());
            variables.insert(name, Known { id, managed, bytes, dtype, order, shape, exports, loans });
            Ok(())
        })
    }

    /// The memory of a managed variable.
    fn managed(&self, py: Python<'_>, name: &str) -> PyResult<Memory> {
        let shared = self.shared.clone();
        self.shared.with(py, move |region, variables| {
            let known = known(variables, name)?;
            let (start, bytes) = region.managed_bytes(known.id)?;
            let layout = Layout::new(&known.dtype, &known.shape, known.order);
            // SAFETY: the engine keeps a managed variable where it is until it is resized, removed or the region dropped.
            // The first two are refused while the export counts. When the region ends, this memory is taken out of it
            // first and kept in what the owner shares.
            Ok(unsafe { Memory::new(start, bytes, true, layout, (known.exports.clone(), shared)) })
        })
    }

    /// Changes the shape of a managed or loaned variable.
    fn resize(&self, py: Python<'_>, name: &str, shape: Vec<usize>) -> PyResult<()> {
        self.settle(py)?;
        self.shared.with(py, move |region, variables| {
            let known = known(variables, name)?;
            refuse_if_exported(name, known, "resized")?;
            region.resize(known.id, &shape)?;
            known.set_shape(region.declared(known.id)?.kind);
            Ok(())
        })
    }

    /// Makes a variable another part of its global array.
    fn repart(
        &self,
        py: Python<'_>,
        name: &str,
        shape: Vec<usize>,
        offset: Vec<usize>,
        global_shape: Vec<usize>,
    ) -> PyResult<()> {
        self.settle(py)?;
        self.shared.with(py, move |region, variables| {
            let known = known(variables, name)?;
            refuse_if_exported(name, known, "made another part")?;
            region.repart(known.id, &shape, &Part { offset, global_shape })?;
            known.set_shape(region.declared(known.id)?.kind);
            Ok(())
        })
    }

    /// Removes a variable from the versions to come.
    fn remove(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.settle(py)?;
        self.shared.with(py, move |region, variables| {
            refuse_if_exported(name, known(variables, name)?, "removed")?;
            region.remove(name)?;
            variables.remove(name);
            Ok(())
        })
    }

    /// Lets a managed variable keep its memory, page by page.
    fn pin(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.settle(py)?;
        self.shared.with(py, move |region, variables| Ok(region.pin(known(variables, name)?.id)?))
    }

    /// Ends that.
    fn unpin(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.shared.with(py, move |region, variables| Ok(region.unpin(known(variables, name)?.id)?))
    }

    /// Declares bytes dirty that were written where the kernel does not see it.
    fn mark_dirty(&self, py: Python<'_>, name: &str, start: usize, stop: Option<usize>) -> PyResult<()> {
        self.shared.with(py, move |region, variables| {
            let known = known(variables, name)?;
            Ok(region.mark_dirty(known.id, start..stop.unwrap_or(known.bytes))?)
        })
    }

    /// Free slots to write a loaned variable into.
    fn loan(&self, py: Python<'_>, name: &str) -> PyResult<Loan> {
        self.patiently(py, |region, variables, slice| {
            let known = known(variables, name)?;
            let Some(loan) = region.loan_bytes_within(known.id, slice)? else { return Ok(None) };
            let layout = Layout::new(&known.dtype, &known.shape, known.order);
            let cell = Arc::new(LoanCell::new(loan, known.exports.clone()));
            known.loans.retain(|loan| loan.strong_count() > 0);
            known.loans.push(Arc::downgrade(&cell));
            Ok(Some(Loan { cell, layout: Mutex::new(Some(layout)) }))
        })
    }

    /// Publishes; `tracked` has an array for each tracked variable.
    fn publish(
        &self,
        py: Python<'_>,
        version: u64,
        tracked: Vec<PyRef<'_, ArrayInput>>,
        attrs: &Bound<'_, PyDict>,
    ) -> PyResult<Option<Published>> {
        let attributes = convert::attributes_from_python(attrs)?;
        let Some(given) = Given::new(py, &tracked)? else { return Ok(None) };
        self.settle(py)?;
        let published = self.patiently(py, |region, variables, slice| {
            let Some(done) = given.prepare(region, variables, version, &attributes)?.commit_within(slice)? else {
                return Ok(None);
            };
            given.note(variables);
            Ok(Some(told(done)))
        })?;
        self.note(py, published.1)?;
        Ok(Some(published))
    }

    /// Starts a publish, and keeps the memory it reads until it is finished.
    fn publish_start(
        &self,
        py: Python<'_>,
        version: u64,
        tracked: Vec<PyRef<'_, ArrayInput>>,
        attrs: &Bound<'_, PyDict>,
        guard: bool,
    ) -> PyResult<bool> {
        let attributes = convert::attributes_from_python(attrs)?;
        let Some(given) = Given::new(py, &tracked)? else { return Ok(false) };
        self.settle(py)?;
        self.patiently(py, |region, variables, slice| {
            let publication = given.prepare(region, variables, version, &attributes)?;
            let publication = if guard { publication.guard() } else { publication };
            // SAFETY: the borrowed memory is kept until the publish is finished; that it is not written meanwhile, unless it
            // is guarded, is what the caller is asked for.
            let is_started = unsafe { publication.start_within(slice) }?;
            given.note(variables);
            Ok(is_started.then_some(()))
        })?;
        *self.started() = given.into_memory();
        Ok(true)
    }

    /// Finishes the publish that was started; what the last one did that was not told.
    fn publish_finish(&self, py: Python<'_>) -> PyResult<Option<Published>> {
        let finished = self.finish_patiently(py, |region, slice| {
            Ok(match region.publish_finish_within(slice)? {
                Finish::Done(published) => Some(published.map(told)),
                Finish::Later => None,
            })
        })?;
        if let Some(published) = &finished {
            self.note(py, published.1)?;
        }
        Ok(finished)
    }

    /// Finishes the publish that was started if that needs no waiting; whether none is left.
    fn publish_test(&self, py: Python<'_>) -> PyResult<bool> {
        let is_finished = self.shared.with(py, |region, _| Ok(region.publish_test()?))?;
        if is_finished {
            drop(std::mem::take(&mut *self.started()));
        }
        Ok(is_finished)
    }

    /// Counts since the region was created.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let statistics = self.shared.with(py, |region, _| Ok(region.statistics()))?;
        let dict = PyDict::new(py);
        dict.set_item("published", statistics.published)?;
        dict.set_item("skipped", statistics.skipped)?;
        dict.set_item("dirty_pages", statistics.dirty_pages)?;
        dict.set_item("copied_pages", statistics.copied_pages)?;
        dict.set_item("total_pages", statistics.total_pages)?;
        dict.set_item("plane_bytes", statistics.plane_bytes)?;
        dict.set_item("working_bytes", statistics.working_bytes)?;
        dict.set_item("publish_seconds", statistics.publish_time.as_secs_f64())?;
        dict.set_item("tracker", &self.tracker)?;
        Ok(dict)
    }

    /// Ends the producer's part; the files stay. Memory that arrays refer to stays as well.
    fn close(&self, py: Python<'_>, is_accident: bool) -> PyResult<()> {
        // Of a forked child, and of who has closed it, nothing is left to be finished.
        let settled = if self.shared.is_open() { self.settle(py) } else { Ok(()) };
        if settled.is_err() && self.is_publishing(py) {
            return settled;
        }
        let closed = match self.shared.end(py, ending::how(is_accident))? {
            // Nothing to end for a forked child, which leaves `with` blocks of its parent as it ends.
            Err(Error::Forked { .. }) => Ok(()),
            outcome => outcome.map_err(|error| errors::raise(py, error)),
        };
        settled.and(closed)
    }

    /// Ends the producer's part and removes the files.
    fn unlink(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.end(py, stillframe::Region::unlink)?.map_err(|error| errors::raise(py, error))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // Arrays that are left keep their memory, but not the region open. Nobody can interrupt this, so it waits for no room.
        if let Some(mut state) = self.shared.lock() {
            let _ = state.end(self.shared.pid, |region| {
                drop(region);
                Ok(())
            });
        }
    }
}

impl Region {
    fn started(&self) -> MutexGuard<'_, Vec<Borrowed>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finishes the publish that was started before what would have the engine finish it, which waits without a look for
    /// signals.
    fn settle(&self, py: Python<'_>) -> PyResult<()> {
        let is_started = self.shared.with(py, |region, _| Ok(region.is_publishing()))?;
        if !is_started {
            return Ok(());
        }
        self.finish_patiently(py, |region, slice| Ok(region.publish_settle_within(slice)?.then_some(())))
    }

    /// As [`patiently`](Region::patiently), for work after which no publish is started. Then what one reads is let go of, unless
    /// an interrupt came first: it goes on.
    fn finish_patiently<T: Send>(
        &self,
        py: Python<'_>,
        work: impl Fn(&mut stillframe::Region, Duration) -> Result<Option<T>, Failure> + Sync,
    ) -> PyResult<T> {
        let finished = self.patiently(py, |region, _, slice| work(region, slice));
        if !self.is_publishing(py) {
            drop(std::mem::take(&mut *self.started()));
        }
        finished
    }

    /// Whether a publish is started that is not finished.
    fn is_publishing(&self, py: Python<'_>) -> bool {
        self.shared.with(py, |region, _| Ok(region.is_publishing())).unwrap_or(false)
    }

    /// After a version was published, what was recovered is read no more.
    fn note(&self, py: Python<'_>, skipped: bool) -> PyResult<()> {
        if self.origin.is_some() && !skipped {
            self.shared.with_state(py, |_, _, recovered| {
                *recovered = None;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Repeats work that waits for room, a slice each time, until its rule decides: so Ctrl-C gets through, and other threads
    /// come to the region.
    fn patiently<T: Send>(
        &self,
        py: Python<'_>,
        work: impl Fn(&mut stillframe::Region, &mut HashMap<String, Known>, Duration) -> Result<Option<T>, Failure> + Sync,
    ) -> PyResult<T> {
        loop {
            if let Some(done) = self.shared.with(py, |region, variables| work(region, variables, wait::SLICE))? {
                return Ok(done);
            }
            if let Err(interrupt) = py.check_signals() {
                // Closed meanwhile, it does not wait any more either.
                let _ = self.shared.with(py, |region, _| {
                    region.stop_waiting();
                    Ok(())
                });
                return Err(interrupt);
            }
        }
    }
}

fn refuse_if_exported(name: &str, known: &Known, what: &str) -> Result<(), Failure> {
    match known.exported() {
        0 => Ok(()),
        n => Err(Failure::Misuse(format!(
            "variable '{name}' cannot be {what} while {n} array(s) refer to its memory: delete them first (del, also of \
             views and slices of them)"
        ))),
    }
}

pub(crate) fn told(done: stillframe::Published) -> Published {
    let skipped = done.outcome == Outcome::Skipped;
    let seconds = done.duration.as_secs_f64();
    (done.version, skipped, done.dirty_pages, done.copied_pages, done.total_pages, seconds)
}

/// Free slots of a loaned variable, until they are submitted or given back.
#[pyclass(frozen, module = "stillframe._native")]
pub struct Loan {
    cell: Arc<LoanCell>,
    layout: Mutex<Option<Layout>>,
}

/// Where a loan is until it ends, and then what keeps its addresses valid.
pub(crate) struct LoanCell(Mutex<LoanState>);

enum LoanState {
    Open {
        loan: LoanBytes,
        /// Counts it among the references to its variable.
        _export: Arc<()>,
    },
    Over {
        _addresses: Option<EndedLoan>,
    },
}

impl LoanCell {
    /// An open loan, which `export` counts among the references to its variable.
    pub(crate) fn new(loan: LoanBytes, export: Arc<()>) -> Self {
        Self(Mutex::new(LoanState::Open { loan, _export: export }))
    }

    /// The memory, unless the loan is over. It keeps its addresses valid from then on as well.
    pub(crate) fn memory(self: &Arc<Self>, layout: Layout) -> Option<Memory> {
        match &*locked(&self.0) {
            LoanState::Open { loan, .. } => {
                // SAFETY: the addresses are valid for as long as the cell lives, whether the loan is open or over.
                Some(unsafe { Memory::new(loan.ptr(), loan.len(), true, layout, self.clone()) })
            }
            LoanState::Over { .. } => None,
        }
    }

    /// Ends the loan, if that did not happen already: true if it did now.
    pub(crate) fn end(&self, submit: bool) -> Result<bool, Error> {
        let mut state = locked(&self.0);
        match std::mem::replace(&mut *state, LoanState::Over { _addresses: None }) {
            LoanState::Open { loan, .. } => {
                *state = LoanState::Over { _addresses: Some(loan.end(submit)?) };
                Ok(true)
            }
            over => {
                *state = over;
                Ok(false)
            }
        }
    }
}

#[pymethods]
impl Loan {
    /// The memory of the slots; once.
    fn memory(&self, py: Python<'_>) -> PyResult<Memory> {
        let layout = locked(&self.layout).take();
        let memory = layout.and_then(|layout| self.cell.memory(layout));
        memory.ok_or_else(|| errors::misuse(py, "the memory of this loan was already taken"))
    }

    /// Gives what was written to the next publish.
    fn submit(&self, py: Python<'_>) -> PyResult<()> {
        match py.detach(|| self.cell.end(true)).map_err(|error| errors::raise(py, error))? {
            true => Ok(()),
            false => Err(errors::misuse(py, "this loan is over: its region was closed")),
        }
    }

    /// Gives the slots back.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.cell.end(false)).map(drop).map_err(|error| errors::raise(py, error))
    }
}
