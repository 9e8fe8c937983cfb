//! Versions whose pages are scattered over the planes, after many that wrote single pages: recovered, compacted, gone on
//! with, and killed in the middle of that.

use crate::common;
use crate::helper;

use crate::common::{Dir, trackers, watchdog};
use crate::helper::{run, say};
use std::path::Path;
use stillframe::{Array, PAGE_BYTES, Region, RegionOptions, Snapshot, TrackerKind, inspect};

const WINDOW_PAGES: usize = 512;
/// Four windows and a bit.
const PAGES: usize = 4 * WINDOW_PAGES + 9;
const BYTES: usize = PAGES * PAGE_BYTES - 100;
const VERSIONS: u64 = 30;

/// A number that looks like chance.
fn chance(version: u64, page: usize) -> u64 {
    let mut x = version << 32 | page as u64;
    x = (x ^ x >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ x >> 32
}

/// Whether a version writes a page: the first writes all of them, each later one a tenth, anywhere. The second window is
/// all but left alone, and the beginning of the third written as a whole.
fn is_written(version: u64, page: usize) -> bool {
    let share = match page / WINDOW_PAGES {
        1 => 1000,
        2 if page % WINDOW_PAGES < 200 => 1,
        _ => 10,
    };
    version == 1 || chance(version, page).is_multiple_of(share)
}

fn write(memory: &mut [u8], version: u64) {
    for (page, bytes) in memory.chunks_mut(PAGE_BYTES).enumerate().filter(|(page, _)| is_written(version, *page)) {
        let end = bytes.len() - 1;
        bytes[0] = version as u8;
        bytes[end] = page as u8;
        bytes[end / 2] = chance(version, page) as u8;
    }
}

/// What a version shows.
fn content(version: u64) -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    (1..=version).for_each(|version| write(&mut bytes, version));
    bytes
}

fn check(snapshot: &Snapshot) {
    let version = snapshot.version();
    assert!(snapshot.slice::<u8>("u").unwrap() == content(version), "version {version} is not what was published");
}

fn pieces(snapshot: &Snapshot) -> usize {
    snapshot.chunks("u").unwrap().count()
}

fn options(dir: &Path, tracker: TrackerKind, keep: usize) -> RegionOptions {
    Region::options().dir(dir).tracker(tracker).keep(keep).threads(2)
}

/// A producer and its array.
struct Run(Region, Array<u8>);

impl Run {
    fn begin(options: RegionOptions) -> Run {
        let mut region = options.create("r").unwrap();
        let array = region.array("u", &[BYTES]).unwrap();
        let run = Run(region, array);
        if let Some(version) = run.0.recovered() {
            assert!(run.0.slice(&run.1) == content(version), "what was recovered is not version {version}");
        }
        run
    }

    fn step(&mut self) {
        let version = self.0.newest().unwrap_or(0) + 1;
        write(self.0.slice_mut(&self.1), version);
        self.0.publish(version).commit().unwrap();
    }

    /// Bytes of memory behind the planes, which an arena tells only in chunks.
    fn taken_bytes(&self, dir: &Path) -> u64 {
        if common::is_in_arena() { self.0.statistics().plane_bytes } else { taken_bytes(dir) }
    }

    /// The producer's books say what the file system says.
    fn check_memory(&self, dir: &Path) {
        let allocated = taken_bytes(dir);
        let counted = self.0.statistics().plane_bytes;
        // In an arena a plane has whole chunks, of which pages have memory.
        let is_right = if common::is_in_arena() { counted <= allocated } else { counted == allocated };
        assert!(is_right, "{counted} bytes are counted, {allocated} are behind the planes");
        assert_eq!(inspect::verify(dir, "r").unwrap(), []);
    }
}

fn taken_bytes(dir: &Path) -> u64 {
    inspect::region(dir, "r").unwrap().planes.iter().map(|plane| plane.allocated_bytes).sum()
}

/// Publishes scattered versions, the last of which observers of this process hold.
fn scatter(dir: &Dir, tracker: TrackerKind, keep: usize, held: u64) -> Vec<Snapshot> {
    let mut run = Run::begin(options(dir.path(), tracker, keep));
    let mut snapshots = Vec::new();
    for version in 1..=VERSIONS {
        run.step();
        if version + held > VERSIONS {
            snapshots.push(dir.observe("r").newest().unwrap());
        }
    }
    snapshots
}

#[test]
fn scattered_versions_are_gathered_and_none_changes() {
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        for (keep, held) in [(1, 0), (1, 1), (1, 3), (2, 0), (3, 2)] {
            let dir = Dir::new("scattered");
            let mut snapshots = scatter(&dir, tracker, keep, held);
            let observer = dir.observe("r");
            let before = pieces(&observer.newest().unwrap());
            assert!(before > 100, "{tracker}: {before} pieces are not scattered");
            for _ in 0..3 {
                let mut run = Run::begin(options(dir.path(), tracker, keep));
                let newest = observer.newest().unwrap();
                check(&newest);
                if keep == 1 && held == 0 {
                    assert!(pieces(&newest) < 20, "{tracker}: {} pieces of {before} are left", pieces(&newest));
                }
                snapshots.push(newest);
                for _ in 0..20 {
                    run.step();
                }
                snapshots.iter().for_each(check);
                check(&observer.newest().unwrap());
                run.check_memory(dir.path());
                snapshots.clear();
                for _ in 0..3 {
                    run.step();
                }
                let kept: Vec<u64> = observer.versions().iter().map(|info| info.version).collect();
                let newest = run.0.newest().unwrap();
                assert_eq!(kept, (newest + 1 - keep as u64..=newest).collect::<Vec<_>>());
                run.check_memory(dir.path());
            }
        }
    }
}

#[test]
fn a_compacted_version_is_the_same_to_those_who_have_it() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("same");
    let held = scatter(&dir, trackers()[0], 1, 1);
    let observer = dir.observe("r");
    let published_ns = observer.newest().unwrap().published_ns();
    let _run = Run::begin(options(dir.path(), trackers()[0], 1));
    let newest = observer.newest().unwrap();
    assert_eq!((newest.version(), newest.published_ns()), (VERSIONS, published_ns));
    assert!(pieces(&newest) < pieces(&held[0]));
    // Nobody who has seen it is told that there is something new.
    let next = observer.newest_after(Some(VERSIONS), Some(std::time::Duration::from_millis(1)));
    assert!(matches!(next, Err(stillframe::Error::Timeout { .. })), "{next:?}");
}

#[test]
fn what_was_only_recovered_is_not_published_again() {
    let _watchdog = watchdog(300);
    for (keep, held) in [(1, 0), (2, 0), (1, 3)] {
        let dir = Dir::new("again");
        let tracker = TrackerKind::WpAsync;
        if !trackers().contains(&tracker) {
            return;
        }
        let held = scatter(&dir, tracker, keep, held);
        let mut run = Run::begin(options(dir.path(), tracker, keep));
        let first = 3 * WINDOW_PAGES;
        for page in [first, first + 5, first + 6] {
            run.0.slice_mut(&run.1)[page * PAGE_BYTES] ^= 1;
        }
        let published = run.0.publish(VERSIONS + 1).commit().unwrap();
        assert_eq!((published.dirty_pages, published.copied_pages), (3, 3), "keep {keep}");
        let mut expected = content(VERSIONS);
        [first, first + 5, first + 6].iter().for_each(|page| expected[page * PAGE_BYTES] ^= 1);
        assert!(dir.observe("r").newest().unwrap().slice::<u8>("u").unwrap() == expected);
        held.iter().for_each(check);
    }
}

#[test]
fn compaction_keeps_within_the_bound() {
    let _watchdog = watchdog(300);
    // Others publish a window of which pages were copied as a whole.
    for tracker in trackers().into_iter().filter(|kind| matches!(kind, TrackerKind::WpAsync | TrackerKind::FullCopy)) {
        let dir = Dir::new("bound");
        scatter(&dir, tracker, 1, 0);
        // Room for one version and a step, so that free frames lose their memory; then room for all of it again.
        let bound_bytes = (PAGES + PAGES / 4 + 200) as u64 * PAGE_BYTES as u64;
        for bound_bytes in [bound_bytes, bound_bytes, u64::MAX] {
            let mut run = Run::begin(options(dir.path(), tracker, 1).bound_bytes(bound_bytes));
            assert!(run.taken_bytes(dir.path()) <= bound_bytes);
            run.step();
            run.check_memory(dir.path());
            assert!(run.taken_bytes(dir.path()) <= bound_bytes);
        }
    }
}

fn scatterer(arguments: &[String]) {
    let [dir, tracker, keep] = arguments else { panic!("{arguments:?}") };
    let mut run = Run::begin(options(Path::new(dir), tracker.parse().unwrap(), keep.parse().unwrap()));
    say("began");
    for _ in 0..3 {
        run.step();
    }
}

#[test]
fn helper_process() {
    helper::enter(&[("scatterer", scatterer)]);
}

#[test]
fn a_region_is_gathered_by_another_process() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("other");
    let held = scatter(&dir, trackers()[0], 1, 2);
    let name = dir.path().to_str().unwrap();
    run("scatterer", &[name, trackers()[0].name(), "1"]);
    held.iter().for_each(check);
    check(&dir.observe("r").newest().unwrap());
    Run::begin(options(dir.path(), trackers()[0], 1)).step();
    held.iter().for_each(check);
}

#[cfg(feature = "points")]
#[test]
fn a_producer_may_die_at_every_point_of_compaction() {
    use crate::helper::{Helper, command};
    use std::os::unix::process::ExitStatusExt;
    let _watchdog = watchdog(600);
    for tracker in trackers() {
        for (keep, held) in [(1, 0), (1, 2), (2, 1)] {
            for point in ["compact.copied", "compact.described", "compact.committed", "retire.begin", "retire.asked"]
                .into_iter()
                .chain(["compact.done", "recover.done", "publish.copied", "publish.committed"])
            {
                let dir = Dir::new("die");
                let mut snapshots = scatter(&dir, tracker, keep, held);
                let observer = dir.observe("r");
                // What one leaves behind meets the next.
                for round in 0..2 {
                    let keep = keep.to_string();
                    let mut command = command("scatterer", &[dir.path().to_str().unwrap(), tracker.name(), &keep]);
                    command.env("STILLFRAME_DIE_AT", format!("{point}:1"));
                    let status = Helper::start(command).wait().0;
                    // A version that was compacted is not compacted again.
                    let died = status.signal() == Some(libc::SIGKILL);
                    let is_compacted = round > 0 && point.starts_with("compact");
                    assert!(died || status.success() && is_compacted, "{tracker}, keep {keep}: {point}: {status}");
                    assert_eq!(inspect::verify(dir.path(), "r").unwrap(), []);
                    let newest = observer.newest().unwrap();
                    check(&newest);
                    snapshots.push(newest);
                    snapshots.iter().for_each(check);
                }
                let mut run = Run::begin(options(dir.path(), tracker, keep));
                for _ in 0..5 {
                    run.step();
                    snapshots.iter().for_each(check);
                }
                check(&observer.newest().unwrap());
                snapshots.clear();
                for _ in 0..3 {
                    run.step();
                }
                run.check_memory(dir.path());
                let newest = run.0.newest().unwrap();
                let kept: Vec<u64> = observer.versions().iter().map(|info| info.version).collect();
                assert_eq!(kept, (newest + 1 - keep as u64..=newest).collect::<Vec<_>>());
            }
        }
    }
}
