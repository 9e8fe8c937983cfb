//! What the tests share: directories of their own, a watchdog, and the trackers that work here.
#![allow(dead_code, unused_imports)]

use crate::tier::by_tier;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use stillframe::{Arena, RegionOptions, TRACKERS, TrackerKind};
use stillframe_segment::{PAGE_BYTES, arena, head, lease};

pub mod content;
pub mod refuse;
mod watchdog;

pub use watchdog::watchdog;

/// A directory of one test's own in shared memory, removed at its end. With `STILLFRAME_TEST_PLACE=arena` it is that of an
/// arena, so that all regions lie in that.
pub struct Dir(PathBuf);

/// Number of versions that a test of many plays: that of `STILLFRAME_TEST_VERSIONS`, or the tier's.
pub fn versions() -> u64 {
    std::env::var("STILLFRAME_TEST_VERSIONS")
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| by_tier(40, 150))
}

/// Index of the first element that differs. Equal slices are compared as memory, because a loop in tests that no optimizer has seen
/// takes thirty times as long.
pub fn difference_at<T: PartialEq>(found: &[T], expected: &[T]) -> Option<usize> {
    if found == expected {
        return None;
    }
    let different = found.iter().zip(expected).position(|(found, expected)| found != expected);
    Some(different.unwrap_or(found.len().min(expected.len())))
}

/// Length of the arena: addresses, of which it takes what its regions do.
const ARENA_BYTES: u64 = 64 << 30;

/// Whether regions lie in arenas.
pub fn is_in_arena() -> bool {
    std::env::var("STILLFRAME_TEST_PLACE").as_deref() == Ok("arena")
}

impl Dir {
    pub fn new(name: &str) -> Dir {
        let dir = Dir::plain(name);
        if is_in_arena() {
            let own = dir.path().file_name().unwrap().to_str().unwrap();
            Arena::options().dir("/dev/shm").bytes(ARENA_BYTES).create(own).unwrap();
        }
        dir
    }

    /// One that is that of no arena.
    pub fn plain(name: &str) -> Dir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let own = format!("stillframe-test-{}-{number}-{name}", std::process::id());
        let path = Path::new("/dev/shm").join(own);
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

/// The names in a directory but for the files of the arena that it may be.
pub fn names_in(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_arenas =
        |name: &String| is_in_arena() && (name == arena::FILE || name.split('.').next() == Some(lease::FILE));
    let mut names: Vec<String> = names.filter(|name| !is_arenas(name)).collect();
    names.sort();
    names
}

/// The head of a region as the file has it in which it lies.
pub struct HeadFile {
    file: std::fs::File,
    at: u64,
}

impl HeadFile {
    /// That of a region in a directory, or in the arena whose directory this is.
    pub fn open(dir: &Path, region: &str) -> HeadFile {
        let open = |path: PathBuf| std::fs::File::options().read(true).write(true).open(path).unwrap();
        if !dir.join(arena::FILE).is_file() {
            return HeadFile { file: open(dir.join(region).join(head::FILE)), at: 0 };
        }
        let file = open(dir.join(arena::FILE));
        let mut header = vec![0; arena::HEADER_BYTES];
        file.read_exact_at(&mut header, 0).unwrap();
        let geometry = arena::Geometry::decode(&header, file.metadata().unwrap().len()).unwrap().unwrap();
        for number in 0..geometry.regions() {
            let mut bytes = [0; arena::RECORD_BYTES];
            file.read_exact_at(&mut bytes, geometry.record_at(number) as u64).unwrap();
            match geometry.decode_record(number, &bytes) {
                Ok(record) if record.state == arena::State::Used && record.name == region => {
                    return HeadFile { file, at: u64::from(record.head_page.unwrap()) * PAGE_BYTES as u64 };
                }
                _ => {}
            }
        }
        panic!("no region '{region}' in the arena {}", dir.display());
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, self.at + at).unwrap();
    }

    pub fn read(&self, at: u64, bytes: &mut [u8]) {
        self.file.read_exact_at(bytes, self.at + at).unwrap();
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
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
