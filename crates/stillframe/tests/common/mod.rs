//! What the tests share: directories of their own, a watchdog, and the trackers that work here.
#![allow(dead_code)]

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use stillframe::{Arena, RegionOptions, TRACKERS, TrackerKind};

/// A directory of one test's own in shared memory, removed at its end. With `STILLFRAME_TEST_PLACE=arena` its regions lie in
/// an arena.
pub struct Dir(PathBuf, Option<Arena>);

/// Name of the arena, and its length: addresses, of which it takes what its regions do.
const ARENA: &str = "arena";
const ARENA_BYTES: u64 = 64 << 30;

impl Dir {
    pub fn new(name: &str) -> Dir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/dev/shm/stillframe-test-{}-{number}-{name}", std::process::id()));
        // Whatever the tests' mask is, the group must not write to it.
        std::fs::DirBuilder::new().mode(0o755).create(&path).unwrap();
        let arena = (std::env::var("STILLFRAME_TEST_PLACE").as_deref() == Ok("arena"))
            .then(|| Arena::options().dir(&path).bytes(ARENA_BYTES).create(ARENA).unwrap());
        Dir(path, arena)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn options(&self) -> RegionOptions {
        let options = stillframe::Region::options().dir(&self.0);
        match &self.1 {
            Some(arena) => options.arena(arena),
            None => options,
        }
    }

    /// The name by which observers find a region.
    pub fn name(&self, region: &str) -> String {
        if self.1.is_some() { format!("{ARENA}/{region}") } else { region.into() }
    }

    pub fn observe(&self, name: &str) -> stillframe::Observer {
        stillframe::Observer::options().dir(&self.0).open(&self.name(name)).unwrap()
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
