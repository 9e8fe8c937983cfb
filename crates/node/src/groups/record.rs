//! Which regions a runtime shows ranks of other nodes in, written down for the next one, should it be killed.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stillframe::inspect::{self, State};

/// In the directory of objects.
const FILE: &str = "runtime.ranks";

/// The longest file that is read.
const BYTES_MAX: u64 = 16 << 20;

/// The file, which begins with the number of the process.
#[derive(Debug, Clone)]
pub(super) struct Record {
    path: PathBuf,
    content: Arc<Mutex<Content>>,
}

/// What the file is to say.
#[derive(Debug, Default)]
struct Content {
    regions: BTreeSet<String>,
    /// Whether it says all of that.
    is_written: bool,
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
        let record = Record { path, content: Arc::default() };
        record.write(&mut record.content());
        record
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a region down before it is made. Where that cannot be, a runtime that is killed leaves regions that somebody has to remove.
    pub(super) fn add(&self, region: &str) {
        let mut content = self.content();
        if !content.regions.insert(region.into()) {
            return;
        }
        let append = || {
            let mut file = OpenOptions::new().append(true).open(&self.path)?;
            file.write_all(format!("{region}\n").as_bytes())
        };
        // Where the file has gone, or a part of a line is in it, all is written.
        if !content.is_written || append().is_err() {
            self.write(&mut content);
        }
    }

    /// Writes all of it, in the place of what is there.
    fn write(&self, content: &mut Content) {
        let lines = content.regions.iter().map(|region| format!("{region}\n"));
        let text: String = std::iter::once(format!("{}\n", std::process::id())).chain(lines).collect();
        let aside = self.path.with_extension("ranks.part");
        let written = fs::write(&aside, text).and_then(|()| fs::rename(&aside, &self.path));
        content.is_written = written.inspect_err(|_| _ = fs::remove_file(&aside)).is_ok();
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
        let all = own + "heat/0\nheat/1\nheat/2\nheat/3\n";
        assert_eq!(text(), all);
        // As on a full file system, where the file has gone, too.
        let aside = path.with_extension("ranks.part");
        fs::create_dir(&aside).unwrap();
        fs::remove_file(&path).unwrap();
        record.add("heat/4");
        assert!(!path.exists());
        fs::write(&path, "heat/").unwrap();
        fs::remove_dir(&aside).unwrap();
        record.add("heat/5");
        assert_eq!(text(), all + "heat/4\nheat/5\n");
        record.end();
        assert!(!path.exists());
    }
}
