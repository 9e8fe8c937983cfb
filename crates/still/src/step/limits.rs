//! When to stop: signals, a file, and the end of the job's time.

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Unix seconds at which the job's time ends, as SLURM tells batch scripts and the steps they start.
const SLURM_END: &str = "SLURM_JOB_END_TIME";

/// The signals that stop a run.
pub const STOPPING: [i32; 4] = [SIGTERM, SIGUSR1, SIGHUP, SIGINT];

/// Who ends a job signals its processes one after the other. So much later the driver has its signal too, also where
/// processors are scarce.
const SIGNALS_APART: Duration = Duration::from_millis(500);

/// Why the run was stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    Signal(&'static str),
    File(PathBuf),
    Time(Duration),
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reason::Signal(name) => write!(f, "{name} came"),
            Reason::File(path) => write!(f, "{} is there", path.display()),
            Reason::Time(left) => {
                write!(f, "{:.0} s are left, too few for another step, a checkpoint and the margin", left.as_secs_f64())
            }
        }
    }
}

/// What may stop a run.
pub struct Limits {
    end: Option<Instant>,
    margin: Duration,
    grace: Duration,
    stop_file: Option<PathBuf>,
    signal: Arc<AtomicUsize>,
    /// When the signal was first seen.
    seen: Option<Instant>,
}

impl Limits {
    pub fn new(
        time_limit: Option<Duration>,
        margin: Duration,
        grace: Duration,
        stop_file: Option<PathBuf>,
    ) -> Result<Limits, Failure> {
        let signal = Arc::new(AtomicUsize::new(0));
        for number in STOPPING {
            signal_hook::flag::register_usize(number, signal.clone(), number as usize)?;
        }
        let ends = [time_limit, job_time_left()?].into_iter().flatten();
        let end = ends.min().and_then(|left| Instant::now().checked_add(left));
        Ok(Limits { end, margin, grace, stop_file, signal, seen: None })
    }

    /// Why no other step should begin that takes, with all that follows, `needed`.
    pub fn reason(&mut self, needed: Duration) -> Option<Reason> {
        if let Some(reason) = self.stopped() {
            return Some(reason);
        }
        let left = self.end?.saturating_duration_since(Instant::now());
        (left < needed + self.margin).then_some(Reason::Time(left))
    }

    /// Why the run was told to stop.
    pub fn stopped(&mut self) -> Option<Reason> {
        let signal = match self.signal.load(Ordering::Relaxed) as i32 {
            SIGTERM => Some("SIGTERM"),
            SIGUSR1 => Some("SIGUSR1"),
            SIGHUP => Some("SIGHUP"),
            SIGINT => Some("SIGINT"),
            _ => None,
        };
        if let Some(name) = signal {
            self.seen.get_or_insert_with(Instant::now);
            return Some(Reason::Signal(name));
        }
        self.stop_file.as_ref().filter(|path| path.exists()).map(|path| Reason::File(path.clone()))
    }

    /// The signal that tells the run to stop, or does so in a moment: what ended the step's program may have been the first of
    /// those that end the whole job.
    pub fn signalled_with_the_step(&mut self) -> Option<Reason> {
        let begin = Instant::now();
        loop {
            // First the time, and then the signal: this may have waited for a processor since.
            let is_late = begin.elapsed() >= SIGNALS_APART;
            let reason = self.stopped().filter(|reason| matches!(reason, Reason::Signal(_)));
            if reason.is_some() || is_late {
                return reason;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Why the step that runs must end: a signal came, and what it was granted since has passed.
    pub fn must_end(&mut self) -> Option<Reason> {
        let reason = self.stopped().filter(|reason| matches!(reason, Reason::Signal(_)))?;
        self.seen.is_some_and(|seen| seen.elapsed() >= self.grace).then_some(reason)
    }
}

fn job_time_left() -> Result<Option<Duration>, Failure> {
    let Ok(text) = std::env::var(SLURM_END) else { return Ok(None) };
    let end: u64 = text
        .trim()
        .parse()
        .map_err(|_| Failure::Misuse(format!("{SLURM_END} is '{text}' and should be seconds since 1970: unset it")))?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Ok(Some(Duration::from_secs(end).saturating_sub(now)))
}
