//! Checkpoints while a program runs, and what is safe in a directory of them.

use crate::{convert, errors, wait};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stillframe_checkpoint::{Codec, Keep, SaveOptions, State, Status};

/// Threads that save versions as they come.
#[pyclass(frozen, module = "stillframe._native")]
pub struct Checkpointer {
    running: Mutex<Option<Arc<stillframe_checkpoint::Checkpointer>>>,
    pid: u32,
}

/// State, newest safe version, saved, missed, versions being saved, written and linked bytes, error.
type StatusRow = (&'static str, Option<u64>, u64, u64, Vec<u64>, u64, u64, Option<String>);

fn row(status: Status) -> StatusRow {
    let state = match status.state {
        State::Running => "running",
        State::Ended => "ended",
        State::Failed => "failed",
    };
    let saving = status.saving.iter().map(|saving| saving.version).collect();
    let (written, linked) = (status.written_bytes, status.linked_bytes);
    (state, status.newest_safe, status.saved, status.missed, saving, written, linked, status.error)
}

impl Checkpointer {
    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Arc<stillframe_checkpoint::Checkpointer>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self, py: Python<'_>) -> PyResult<Arc<stillframe_checkpoint::Checkpointer>> {
        if std::process::id() != self.pid {
            return Err(errors::new(py, "ForkError", "this checkpointer belongs to the process that forked this one"));
        }
        self.slot().clone().ok_or_else(|| errors::misuse(py, "the checkpointer was stopped"))
    }
}

impl Checkpointer {
    fn wait(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        look: impl Fn(&stillframe_checkpoint::Checkpointer, Duration) -> stillframe_checkpoint::Result<Option<u64>> + Sync,
    ) -> PyResult<Option<u64>> {
        let running = self.running(py)?;
        let deadline = wait::deadline(convert::seconds(py, "timeout", timeout)?);
        loop {
            let left = deadline.map_or(wait::SLICE, |end| end.saturating_duration_since(Instant::now()));
            let found = py.detach(|| look(&running, left.min(wait::SLICE)));
            let found = found.map_err(|error| errors::raise_checkpoint(py, error))?;
            if found.is_some() || left <= wait::SLICE && deadline.is_some() || running.has_ended() {
                return Ok(found);
            }
            py.check_signals()?;
        }
    }
}

#[pymethods]
impl Checkpointer {
    #[new]
    #[pyo3(signature = (name, to, *, every, every_seconds, when, at_end, once, keep, keep_every, all, held, held_bytes, compress, chunk_bytes, threads, nice, wait, follow, dir, trust))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        name: &str,
        to: PathBuf,
        every: Option<u64>,
        every_seconds: Option<f64>,
        when: Option<&str>,
        at_end: bool,
        once: bool,
        keep: usize,
        keep_every: Option<u64>,
        all: bool,
        held: Option<usize>,
        held_bytes: Option<u64>,
        compress: Option<&str>,
        chunk_bytes: Option<usize>,
        threads: Option<usize>,
        nice: u32,
        wait: Option<f64>,
        follow: Option<f64>,
        dir: Option<PathBuf>,
        trust: Option<&str>,
    ) -> PyResult<Self> {
        let failed = |error| errors::raise_checkpoint(py, error);
        let mut save = SaveOptions::new().keep(Keep { newest: keep, every: keep_every });
        save = match compress {
            None => save,
            Some("zstd") => save.codec(Codec::Zstd { level: 3 }),
            Some("lz4") => save.codec(Codec::Lz4),
            Some(other) => {
                return Err(errors::misuse(py, format!("compress is 'zstd' or 'lz4', not '{other}'")));
            }
        };
        if let Some(trust) = convert::trust(py, trust)? {
            save = save.trust(trust);
        }
        if let Some(bytes) = chunk_bytes {
            save = save.chunk_bytes(bytes);
        }
        if let Some(threads) = threads {
            save = save.threads(threads);
        }
        let mut options =
            stillframe_checkpoint::Checkpointer::options().at_end(at_end).once(once).all(all).save(save).nice(nice);
        if let Some(versions) = every {
            options = options.every(versions);
        }
        let limit = |what, given| Ok::<_, PyErr>(convert::seconds(py, what, given)?.unwrap_or(Duration::MAX));
        if every_seconds.is_some() {
            options = options.every_time(limit("every_seconds", every_seconds)?);
        }
        if let Some(condition) = when {
            options = options.when(condition).map_err(failed)?;
        }
        if let Some(versions) = held {
            options = options.held(versions);
        }
        if let Some(bytes) = held_bytes {
            options = options.held_bytes(bytes);
        }
        options = options.wait(limit("wait", wait)?).follow(limit("follow", follow)?);
        if let Some(dir) = dir {
            options = options.dir(dir);
        }
        let running = py.detach(|| options.start(name, to)).map_err(failed)?;
        Ok(Self { running: Mutex::new(Some(Arc::new(running))), pid: std::process::id() })
    }

    fn status(&self, py: Python<'_>) -> PyResult<StatusRow> {
        Ok(row(self.running(py)?.status()))
    }

    /// Waits until a version is safe, or the time is over, or the checkpointer has ended without it.
    fn wait_safe(&self, py: Python<'_>, version: u64, timeout: Option<f64>) -> PyResult<bool> {
        let found = self.wait(py, timeout, |running, slice| Ok(running.wait_safe(version, slice)?.then_some(version)));
        found.map(|found| found.is_some())
    }

    /// Waits until that version or a newer one is safe, and says which.
    fn wait_safe_from(&self, py: Python<'_>, version: u64, timeout: Option<f64>) -> PyResult<Option<u64>> {
        self.wait(py, timeout, |running, slice| running.wait_safe_from(version, slice))
    }

    /// Ends when what is held is safe; `None` if it has ended before.
    fn stop(&self, py: Python<'_>) -> PyResult<Option<StatusRow>> {
        self.running(py).map(drop).or_else(|error| if self.slot().is_none() { Ok(()) } else { Err(error) })?;
        let Some(running) = self.slot().take() else { return Ok(None) };
        let status = py.detach(|| {
            let mut running = running;
            // Other threads that wait for a version end first, in a slice of time.
            loop {
                match Arc::try_unwrap(running) {
                    Ok(alone) => return alone.stop(),
                    Err(shared) => running = shared,
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        status.map(row).map(Some).map_err(|error| errors::raise_checkpoint(py, error))
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        if std::process::id() != self.pid {
            // Its threads are the parent's, and would be waited for in vain.
            std::mem::forget(self.slot().take());
        }
    }
}

/// Whether a version is safe in a directory.
#[pyfunction]
pub fn is_safe(py: Python<'_>, dir: PathBuf, version: u64) -> PyResult<bool> {
    py.detach(|| stillframe_checkpoint::is_safe(dir, version)).map_err(|error| errors::raise_checkpoint(py, error))
}

/// The newest version that is safe in a directory.
#[pyfunction]
pub fn newest_safe(py: Python<'_>, dir: PathBuf) -> PyResult<Option<u64>> {
    py.detach(|| stillframe_checkpoint::newest_safe(dir)).map_err(|error| errors::raise_checkpoint(py, error))
}
