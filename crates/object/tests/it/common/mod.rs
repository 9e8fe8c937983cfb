//! What the tests share: directories of their own, and a watchdog.
#![allow(dead_code, unused_imports)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use stillframe_object::Objects;

#[path = "../../../../stillframe/tests/it/common/watchdog.rs"]
mod watchdog;

pub use watchdog::watchdog;

/// A directory of one test's own in shared memory, removed at its end.
pub struct Dir(PathBuf);

impl Dir {
    pub fn new(name: &str) -> Dir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = Path::new("/dev/shm").join(format!("stillframe-test-{}-{number}-{name}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Dir(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn objects(&self) -> Objects {
        Objects::options().dir(&self.0).open().unwrap()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
