//! What the tests share: directories of their own, a watchdog, and the trackers that work here.
#![allow(dead_code)]

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use stillframe::{Arena, RegionOptions, TRACKERS, TrackerKind};

/// A directory of one test's own in shared memory, removed at its end. With `STILLFRAME_TEST_PLACE=arena` it is that of an
/// arena, so that all regions lie in that.
pub struct Dir(PathBuf);

/// Length of the arena: addresses, of which it takes what its regions do.
const ARENA_BYTES: u64 = 64 << 30;

/// Whether regions lie in arenas.
pub fn is_in_arena() -> bool {
    std::env::var("STILLFRAME_TEST_PLACE").as_deref() == Ok("arena")
}

impl Dir {
    pub fn new(name: &str) -> Dir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let own = format!("stillframe-test-{}-{number}-{name}", std::process::id());
        let path = Path::new("/dev/shm").join(&own);
        // Whatever the tests' mask is, the group must not write to it.
        std::fs::DirBuilder::new().mode(0o755).create(&path).unwrap();
        if is_in_arena() {
            Arena::options().dir("/dev/shm").bytes(ARENA_BYTES).create(&own).unwrap();
        }
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
