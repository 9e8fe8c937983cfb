//! Which regions a runtime shows ranks of other nodes in, written down for the next one, should it be killed.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use stillframe::inspect::{self, State};

/// In the directory of objects.
const FILE: &str = "runtime.ranks";

/// The longest file that is read.
const BYTES_MAX: u64 = 16 << 20;

/// The file, which begins with the number of the process.
#[derive(Debug, Clone)]
pub(super) struct Record {
    path: PathBuf,
    text: Arc<Mutex<String>>,
}

impl Record {
    /// Removes what a runtime left that was killed, and begins anew.
    pub(super) fn begin(dir: &Path) -> Record {
        let path = dir.join(".objects").join(FILE);
        let mut text = String::new();
        // Without a file there is nothing to be removed.
        let _ = File::open(&path).and_then(|file| file.take(BYTES_MAX).read_to_string(&mut text));
        let mut lines = text.lines();
        if let Some(process) = lines.next().and_then(|line| line.parse::<u32>().ok()) {
            lines.for_each(|region| remove_of(dir, region, process));
        }
        let record = Record { path, text: Arc::new(Mutex::new(format!("{}\n", std::process::id()))) };
        record.write("");
        record
    }

    /// Writes a region down before it is made.
    pub(super) fn add(&self, region: &str) {
        self.write(&format!("{region}\n"));
    }

    fn write(&self, more: &str) {
        let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        if more.is_empty() || !text.lines().any(|line| line == more.trim_end()) {
            text.push_str(more);
            // Without it a runtime that is killed leaves regions that somebody has to remove.
            let _ = fs::write(&self.path, text.as_bytes());
        }
    }

    /// Nothing is left.
    pub(super) fn end(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes a region that a process made which lives no more, unless somebody else has its name by now.
fn remove_of(dir: &Path, region: &str, process: u32) {
    if let Ok(info) = inspect::region(dir, region)
        && info.producer_pid == process
        && info.state != State::Live
    {
        let _ = inspect::remove(dir, region, false);
    }
}
