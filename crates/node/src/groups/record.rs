//! Which regions a runtime shows ranks of other nodes in, written down for the next one, should it be killed.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
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
    /// The regions in it.
    regions: Arc<Mutex<BTreeSet<String>>>,
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
        let record = Record { path, regions: Arc::default() };
        let _ = record.write(&BTreeSet::new());
        record
    }

    /// Writes a region down before it is made.
    pub(super) fn add(&self, region: &str) {
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        if regions.insert(region.into()) {
            let file = OpenOptions::new().append(true).open(&self.path);
            // Where a part of a line was written, or the file has gone, all of it is. Without it a runtime that is killed leaves regions
            // that somebody has to remove.
            let _ = file
                .and_then(|mut file| file.write_all(format!("{region}\n").as_bytes()))
                .or_else(|_| self.write(&regions));
        }
    }

    fn write(&self, regions: &BTreeSet<String>) -> io::Result<()> {
        let lines = regions.iter().map(|region| format!("{region}\n"));
        let text: String = std::iter::once(format!("{}\n", std::process::id())).chain(lines).collect();
        fs::write(&self.path, text)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_written_down_beside_those_that_are() {
        let dir = tempfile::Builder::new().prefix("stillframe-test-record-").tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join(".objects").join(FILE);
        fs::create_dir(dir.path().join(".objects")).unwrap();
        let record = Record::begin(dir.path());
        let own = format!("{}\n", std::process::id());
        let text = || fs::read_to_string(&path).unwrap();
        assert_eq!(text(), own);
        ["heat/1", "heat/0", "heat/1"].into_iter().for_each(|region| record.add(region));
        assert_eq!(text(), own.clone() + "heat/1\nheat/0\n");
        // What is there is not written once more.
        fs::write(&path, "7\n").unwrap();
        record.add("heat/2");
        assert_eq!(text(), "7\nheat/2\n");
        // Where it cannot be written, all of it is the next time.
        fs::remove_file(&path).unwrap();
        record.add("heat/3");
        assert_eq!(text(), own + "heat/0\nheat/1\nheat/2\nheat/3\n");
        record.end();
        assert!(!path.exists());
    }
}
