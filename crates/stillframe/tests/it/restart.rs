//! Managed memory that goes on where it stopped: against a plain copy, over all trackers and ways the pages of a version
//! can lie in the planes.
#![allow(unsafe_code)]

use crate::common;

use crate::common::{Dir, Numbers, trackers, watchdog};
use stillframe::{Array, PAGE_BYTES, Region, TrackerKind};

const WINDOW: usize = 512 * PAGE_BYTES;

/// Writes pages of the array and of the plain copy alike: single ones, long runs, or all.
fn write(memory: &mut [u8], plain: &mut [u8], numbers: &mut Numbers) {
    let pages = plain.len().div_ceil(PAGE_BYTES);
    let (count, longest) = [(200, 1), (3, 900), (1, pages), (40, 12), (0, 1)][numbers.below(5)];
    for _ in 0..count {
        let first = numbers.below(pages);
        let run = if longest == pages { 0..pages } else { first..pages.min(first + 1 + numbers.below(longest)) };
        for page in run {
            let at = page * PAGE_BYTES + numbers.below(PAGE_BYTES);
            if at < plain.len() {
                plain[at] = numbers.next() as u8;
                memory[at] = plain[at];
            }
        }
    }
}

fn play(tracker: TrackerKind, seed: u64, runs: u64) {
    let dir = Dir::new("restart");
    let numbers = &mut Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    // In the last window only few pages are the array's.
    let bytes = [3 * WINDOW + 5 * PAGE_BYTES + 77, WINDOW, 9 * PAGE_BYTES, 100][seed as usize % 4];
    let mut plain = vec![0; bytes];
    let mut version = 0;
    for run in 0..runs {
        let options = dir.options().tracker(tracker).keep(1 + numbers.below(3)).threads(1 + numbers.below(3));
        let mut region = options.large_pages(numbers.below(2) == 0).create("r").unwrap();
        assert_eq!(region.recovered(), (run > 0).then_some(version));
        let array: Array<u8> = region.array("u", &[bytes]).unwrap();
        assert!(region.slice(&array) == plain, "seed {seed}, run {run}: what was recovered differs");
        if run > 0 && tracker != TrackerKind::FullCopy && bytes <= WINDOW {
            // All of it was just read, which is no reason to publish it again.
            version += 1;
            let published = region.publish(version).commit().unwrap();
            let few = if tracker == TrackerKind::WpAsync { 0 } else { published.total_pages };
            assert!(published.dirty_pages <= few, "seed {seed}, run {run}: {published:?}");
        }
        let observer = dir.observe("r");
        let held = observer.newest().ok().map(|snapshot| (snapshot, plain.clone()));
        for _ in 0..numbers.below(30) {
            write(region.slice_mut(&array), &mut plain, numbers);
            version += 1;
            region.publish(version).commit().unwrap();
            assert!(
                observer.newest().unwrap().slice::<u8>("u").unwrap() == plain,
                "seed {seed}, run {run}, version {version}"
            );
        }
        if let Some((snapshot, expected)) = held {
            assert!(snapshot.slice::<u8>("u").unwrap() == expected, "seed {seed}, run {run}: a held version changed");
        }
        if version == 0 {
            version += 1;
            region.publish(version).commit().unwrap();
        }
        // What was not published is not what is recovered.
        let memory = region.slice_mut(&array);
        memory[numbers.below(bytes)] ^= 1;
        drop(region);
    }
}

#[test]
fn arrays_go_on_as_they_were_published_with_every_tracker() {
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        for seed in 1..=8 {
            play(tracker, seed, 6);
        }
    }
}

/// A region whose array has so many pages, as a publish shows it that has written all of them.
struct Grid {
    region: Region,
    array: Array<u8>,
    version: u64,
}

impl Grid {
    fn begin(options: stillframe::RegionOptions, pages: usize) -> Grid {
        let mut region = options.create("r").unwrap();
        let version = region.recovered().unwrap_or(0);
        let array = region.array::<u8>("u", &[pages * PAGE_BYTES]).unwrap();
        Grid { region, array, version }
    }

    fn publish(&mut self, times: usize) {
        for _ in 0..times {
            self.version += 1;
            self.region.slice_mut(&self.array).fill(self.version as u8);
            self.region.publish(self.version).commit().unwrap();
        }
    }
}

/// Bytes that all files of a region take.
fn taken_bytes(dir: &Dir) -> u64 {
    let files = std::fs::read_dir(dir.path().join("r")).unwrap().flatten();
    files.map(|entry| std::os::unix::fs::MetadataExt::blocks(&entry.metadata().unwrap()) * 512).sum()
}

#[test]
fn a_run_on_a_smaller_grid_has_no_more_memory_than_one_that_begins_with_nothing() {
    // The chunks of an arena are counted elsewhere.
    if common::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(120);
    let (small, large) = (1800, 7000);
    for (former_keep, keep) in [(1, 1), (4, 1), (1, 2)] {
        let fresh = Dir::new("fresh");
        Grid::begin(fresh.options().keep(keep), small).publish(4);
        let dir = Dir::new("smaller");
        Grid::begin(dir.options().keep(former_keep), large).publish(6);
        let former_bytes = taken_bytes(&dir);
        assert!(former_bytes >= (large * PAGE_BYTES) as u64);
        // Who holds a version of the former run keeps its memory, and no longer.
        let held = (keep == 2).then(|| dir.observe("r").newest().unwrap());
        let mut grid = Grid::begin(dir.options().keep(keep), small);
        grid.publish(4);
        if let Some(held) = held {
            assert!(taken_bytes(&dir) >= (large * PAGE_BYTES) as u64);
            assert!(held.slice::<u8>("u").unwrap().iter().all(|byte| *byte == 6));
            drop(held);
            // What was held for long is asked for now and then.
            let mut publishes = 0;
            while grid.region.statistics().plane_bytes >= (large * PAGE_BYTES) as u64 {
                assert!(publishes < 2000, "what was held is never given back");
                grid.publish(1);
                publishes += 1;
            }
            grid.publish(2);
        }
        // Tables of windows that the former run had may have a few blocks.
        let (bytes, fresh_bytes) = (taken_bytes(&dir), taken_bytes(&fresh));
        assert!(
            bytes <= fresh_bytes + (64 << 10),
            "keep {keep} after {former_keep}: {bytes} bytes, {fresh_bytes} of one that began with nothing, {former_bytes} before"
        );
        assert_eq!(grid.region.statistics().plane_bytes, plane_bytes(&dir));
    }
}

#[test]
fn a_run_of_one_publish_gives_back_what_nobody_has_and_keeps_what_the_next_one_writes() {
    if common::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(60);
    let dir = Dir::new("once");
    Grid::begin(dir.options(), 7000).publish(3);
    Grid::begin(dir.options(), 1800).publish(1);
    assert!(plane_bytes(&dir) <= 3 * 1800 * PAGE_BYTES as u64, "{} bytes", plane_bytes(&dir));
    // From here on each run finds the memory that it writes.
    Grid::begin(dir.options(), 1800).publish(1);
    let before = plane_bytes(&dir);
    for _ in 0..4 {
        Grid::begin(dir.options(), 1800).publish(1);
        assert_eq!(plane_bytes(&dir), before);
    }
}

/// Bytes that the planes of a region take.
fn plane_bytes(dir: &Dir) -> u64 {
    let planes = std::fs::read_dir(dir.path().join("r")).unwrap().flatten();
    let planes = planes.filter(|entry| entry.file_name().to_string_lossy().starts_with("plane."));
    planes.map(|entry| std::os::unix::fs::MetadataExt::blocks(&entry.metadata().unwrap()) * 512).sum()
}

#[test]
fn memory_of_free_frames_is_found_again_and_counted() {
    // In an arena free slots give their memory back when a region is recovered.
    if common::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(60);
    let dir = Dir::new("memory");
    let pages = 1200;
    let taken = || plane_bytes(&dir);
    let begin = |bound: Option<u64>| -> (Region, Array<u8>) {
        let mut options = dir.options();
        if let Some(bound) = bound {
            options = options.bound_bytes(bound);
        }
        let mut region = options.create("r").unwrap();
        let array = region.array::<u8>("u", &[pages * PAGE_BYTES]).unwrap();
        (region, array)
    };
    let (mut region, array) = begin(None);
    for version in 1..=3 {
        region.slice_mut(&array).fill(version as u8);
        region.publish(version).commit().unwrap();
    }
    assert_eq!(region.statistics().plane_bytes, taken());
    drop(region);
    // Memory that was taken for a publish in which the producer died, and which no file system call tells.
    let plane = std::fs::File::options().write(true).open(dir.path().join("r/plane.2"));
    let plane = plane.or_else(|_| std::fs::File::create(dir.path().join("r/plane.2"))).unwrap();
    plane.set_len((3 * WINDOW) as u64).unwrap();
    let before = taken();
    // SAFETY: the call takes numbers only.
    assert_eq!(unsafe { libc::fallocate(std::os::fd::AsRawFd::as_raw_fd(&plane), 0, 0, 40 * PAGE_BYTES as i64) }, 0);
    assert!(taken() >= before);
    let (mut region, array) = begin(None);
    region.slice_mut(&array)[0] = 9;
    region.publish(4).commit().unwrap();
    assert_eq!(region.statistics().plane_bytes, taken());
    assert!(taken() <= before, "{} bytes nobody uses stay", taken() - before);
    drop(region);
    // With room for little more than one version, what free frames have makes way.
    let (mut region, array) = begin(Some((pages + 8) as u64 * PAGE_BYTES as u64));
    region.slice_mut(&array)[5 * PAGE_BYTES] = 9;
    region.publish(5).commit().unwrap();
    assert!(taken() <= (pages + 8) as u64 * PAGE_BYTES as u64);
    assert_eq!(region.statistics().plane_bytes, taken());
}

#[test]
fn what_a_tracked_array_left_shows_in_no_variable_of_the_next_program() {
    let _watchdog = watchdog(600);
    let dir = Dir::new("left");
    let mut region = dir.options().create("r").unwrap();
    let tracked = region.track::<u8>("t").unwrap();
    // Two buffers in turns, both of which the versions have for the next time.
    let buffers = [vec![7u8; 20_000], vec![8u8; 20_000]];
    for version in 1..5 {
        let buffer = &buffers[version as usize % 2];
        region.publish(version).tracked(&tracked, buffer, &[buffer.len()]).commit().unwrap();
    }
    drop(region);
    let mut region = dir.options().create("r").unwrap();
    let names = ["a", "b", "c"];
    let arrays = names.map(|name| region.array::<u8>(name, &[20_000]).unwrap());
    region.publish(5).commit().unwrap();
    let snapshot = dir.observe("r").newest().unwrap();
    for (name, array) in names.iter().zip(&arrays) {
        assert_eq!(region.slice(array), [0; 20_000], "the program's {name}");
        assert_eq!(snapshot.slice::<u8>(name).unwrap(), [0; 20_000], "the version's {name}");
    }
}
