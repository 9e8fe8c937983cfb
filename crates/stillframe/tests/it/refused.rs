//! Calls that say which pages were written and fail: what was written is found by comparing, and nothing is lost.

#![allow(unsafe_code)]

use crate::common::refuse::refuse;
use crate::common::{Dir, Numbers, trackers, watchdog};
use stillframe::{Array, Observer, Published, Region, Tracked, TrackerKind};

/// `PAGEMAP_SCAN` of linux/fs.h.
const PAGEMAP_SCAN: u32 = 0xC060_6610;
const MANAGED: usize = 700_000;

struct Stage {
    region: Region,
    observer: Observer,
    managed: Array<u64>,
    /// Two variables whose memory overlaps, so that what is found for one is told the other.
    tracked: [Tracked<u64>; 2],
    memory: Vec<u64>,
    numbers: Numbers,
    _dir: Dir,
}

impl Stage {
    fn new(tracker: TrackerKind) -> Stage {
        let dir = Dir::new("refused");
        let mut region = dir.options().tracker(tracker).create("r").unwrap();
        let managed = region.array::<u64>("managed", &[MANAGED]).unwrap();
        region.slice_mut(&managed).fill(1);
        let tracked = ["one", "two"].map(|name| region.track::<u64>(name).unwrap());
        let observer = dir.observe("r");
        Stage { region, observer, managed, tracked, memory: vec![1; 900_000], numbers: Numbers(3), _dir: dir }
    }

    fn write(&mut self) {
        for _ in 0..self.numbers.below(30) {
            let (at, value) = (self.numbers.next() as usize, self.numbers.next());
            self.region.slice_mut(&self.managed)[at % MANAGED] = value;
            let at = self.numbers.below(self.memory.len());
            self.memory[at] = value;
        }
    }

    /// The tracked variables of a version. They take turns, so that each has to be told what the search for the other found.
    fn given(&self, version: u64) -> impl Iterator<Item = (Tracked<u64>, &'static str, &[u64])> {
        let memory = [("one", &self.memory[..600_000], 1), ("two", &self.memory[300_000..], 2)];
        let all = self.tracked.into_iter().zip(memory);
        all.filter(move |(_, (_, _, turn))| version % 3 != *turn)
            .map(|(tracked, (name, words, _))| (tracked, name, words))
    }

    fn publish(&mut self) -> stillframe::Result<Published> {
        let version = self.region.newest().unwrap_or(0) + 1;
        let given: Vec<_> =
            self.given(version).map(|(tracked, _, words)| (tracked, words.as_ptr(), words.len())).collect();
        let mut publication = self.region.publish(version);
        for (tracked, address, length) in given {
            // SAFETY: the memory is the stage's, which is borrowed until the commit.
            publication = unsafe {
                publication.tracked_raw(tracked.id(), address.cast(), length * 8, &[length], stillframe::Order::C)
            };
        }
        publication.commit()
    }

    fn check(&self, what: &str) {
        let (kind, snapshot) = (self.region.tracker(), self.observer.newest().unwrap());
        let version = snapshot.version();
        let managed = snapshot.slice::<u64>("managed").unwrap() == self.region.slice(&self.managed);
        assert!(managed, "{kind}, {what}: managed of version {version}");
        for (_, name, words) in self.given(version) {
            assert!(snapshot.slice::<u64>(name).unwrap() == words, "{kind}, {what}: {name} of version {version}");
        }
    }
}

/// Plays publishes of which some are refused a call. Whether they were.
fn play(tracker: TrackerKind, call: libc::c_long, second: Option<u32>, errno: i32) -> bool {
    let mut stage = Stage::new(tracker);
    for step in 0..60 {
        stage.write();
        let is_refused = step % 20 >= 10;
        let what = format!("step {step}, errno {errno}");
        let published = if is_refused {
            let stage = &mut stage;
            // The filter is this thread's, and ends with it.
            let publish = move || refuse(call, second, errno).then(|| stage.publish());
            match std::thread::scope(|scope| scope.spawn(publish).join().unwrap()) {
                Some(published) => published,
                None => return false,
            }
        } else {
            stage.publish()
        };
        let published = published.unwrap_or_else(|error| panic!("{tracker}, {what}: {error}"));
        stage.check(&what);
        // Compared, and not copied whole.
        let most = published.total_pages / 10;
        assert!(!is_refused || published.dirty_pages < most, "{tracker}, {what}: {published:?}");
    }
    true
}

#[test]
fn a_search_for_written_pages_that_fails_is_replaced_by_comparing() {
    let _watchdog = watchdog(300);
    if !trackers().contains(&TrackerKind::WpAsync) {
        return;
    }
    for errno in [libc::EINVAL, libc::ENOTTY, libc::EFAULT, libc::ENOMEM, libc::EACCES] {
        if !play(TrackerKind::WpAsync, libc::SYS_ioctl, Some(PAGEMAP_SCAN), errno) {
            return println!("skipped: this kernel has no filters of system calls");
        }
    }
}

#[test]
fn a_page_map_that_cannot_be_read_is_replaced_by_comparing() {
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        if !play(tracker, libc::SYS_pread64, None, libc::EIO) {
            return println!("skipped: this kernel has no filters of system calls");
        }
    }
}
