//! What the tests share: directories of their own, a watchdog, and the trackers that work here.
#![allow(dead_code)]

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use stillframe::{RegionOptions, TRACKERS, TrackerKind};

/// A directory of one test's own in shared memory, removed at its end.
pub struct Dir(PathBuf);

impl Dir {
    pub fn new(name: &str) -> Dir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/dev/shm/stillframe-test-{}-{number}-{name}", std::process::id()));
        // Whatever the tests' mask is, the group must not write to it.
        std::fs::DirBuilder::new().mode(0o755).create(&path).unwrap();
        Dir(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn options(&self) -> RegionOptions {
        stillframe::Region::options().dir(&self.0)
    }

    pub fn observe(&self, name: &str) -> stillframe::Observer {
        stillframe::Observer::options().dir(&self.0).open(name).unwrap()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Ends the whole test process if a test hangs.
pub fn watchdog(seconds: u64) {
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(seconds));
        eprintln!("the watchdog ends this test process after {seconds} s");
        std::process::abort();
    });
}

/// The trackers that work on this kernel; `STILLFRAME_TRACKER` narrows them to one.
pub fn trackers() -> Vec<TrackerKind> {
    let wanted: Option<TrackerKind> = std::env::var("STILLFRAME_TRACKER").ok().and_then(|name| name.parse().ok());
    TRACKERS.into_iter().filter(|kind| kind.probe().is_ok() && wanted.is_none_or(|wanted| wanted == *kind)).collect()
}

/// A deterministic stream of numbers.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}
