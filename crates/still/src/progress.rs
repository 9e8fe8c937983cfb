//! One line on a terminal that says how far a long command is.

use crate::units::{format_bytes, format_rate_bytes, format_share};
use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often the line is written anew.
const PERIOD: Duration = Duration::from_millis(100);

/// A line on standard error, if that is a terminal, which is gone when the command ends.
pub struct Progress {
    what: &'static str,
    begin: Instant,
    is_terminal: bool,
    /// When it was written last; nothing was before the first period is over.
    written: Mutex<Option<Instant>>,
}

impl Progress {
    /// The line of a command that does this.
    pub fn new(what: &'static str) -> Progress {
        let is_terminal = std::io::stderr().is_terminal();
        Progress { what, begin: Instant::now(), is_terminal, written: Mutex::new(None) }
    }

    /// Says how far it is with a version, a file, or whatever it is about.
    pub fn show(&self, which: impl Display, done_bytes: u64, bytes: u64) {
        if !self.is_terminal {
            return;
        }
        // Whoever comes while another thread writes has nothing newer to say.
        let Ok(mut written) = self.written.try_lock() else { return };
        if written.unwrap_or(self.begin).elapsed() < PERIOD {
            return;
        }
        *written = Some(Instant::now());
        let share = format_share(done_bytes as f64 / bytes.max(1) as f64);
        let rate = format_rate_bytes(done_bytes as f64 / self.begin.elapsed().as_secs_f64());
        let text = format!("{} {which}: {share} of {}, {rate}", self.what, format_bytes(bytes));
        // A terminal that is gone is nothing to stop for.
        let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.written.get_mut().is_ok_and(|written| written.is_some()) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
