//! Publishes in the background: what is started is what is seen, whatever the program does before it is finished.
#![allow(unsafe_code)]

use crate::helper;

use crate::common::{Dir, Numbers, trackers, watchdog};
use crate::helper::{say, start};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;
use stillframe::{
    Arena, Array, Error, Finish, Group, Observer, Outcome, Region, Result, Rule, Tracked, TrackerKind, inspect,
};

const PAGE_WORDS: usize = 512;
const PAGES: usize = 1500;
const WORDS: usize = PAGES * PAGE_WORDS;

/// A region with a managed and a tracked array.
struct Both {
    dir: Dir,
    region: Region,
    managed: Array<u64>,
    tracked: Tracked<u64>,
    words: Vec<u64>,
}

impl Both {
    fn new(dir: Dir, options: impl FnOnce(&Dir) -> stillframe::RegionOptions) -> Both {
        let mut region = options(&dir).create("r").unwrap();
        let managed = region.array("managed", &[WORDS]).unwrap();
        let tracked = region.track("tracked").unwrap();
        Both { dir, region, managed, tracked, words: vec![0; WORDS] }
    }

    fn with(name: &str, options: impl FnOnce(stillframe::RegionOptions) -> stillframe::RegionOptions) -> Both {
        Both::new(Dir::new(name), |dir| options(dir.options().threads(2)))
    }

    fn fill(&mut self, value: u64) {
        self.region.slice_mut(&self.managed).fill(value);
        self.words.fill(value);
    }

    /// Starts a version. Whoever calls it keeps the contract, or means to break it.
    fn start(&mut self, version: u64) -> Result<()> {
        let words = &self.words[3..];
        // SAFETY: the memory stays for as long as this value; what is written before the end is what tests are about.
        unsafe { self.region.publish(version).tracked(&self.tracked, words, &[words.len()]).start() }
    }

    /// As `start`, of a version that may be written meanwhile.
    fn start_guarded(&mut self, version: u64) -> Result<()> {
        let words = &self.words[3..];
        self.region.publish(version).tracked(&self.tracked, words, &[words.len()]).start_guarded()
    }

    fn newest(&self) -> Option<u64> {
        self.dir.observe("r").newest().ok().map(|snapshot| snapshot.version())
    }

    /// Whether both arrays of the newest version have this value throughout.
    fn shows(&self, version: u64, value: u64) {
        let snapshot = self.dir.observe("r").newest().unwrap();
        assert_eq!(snapshot.version(), version);
        for name in ["managed", "tracked"] {
            assert!(snapshot.slice::<u64>(name).unwrap().iter().all(|word| *word == value), "{name} of {version}");
        }
    }

    /// Whether the tracked array of the newest version has this value throughout.
    fn shows_tracked(&self, version: u64, value: u64) {
        let snapshot = self.dir.observe("r").newest().unwrap();
        assert_eq!(snapshot.version(), version);
        assert!(snapshot.slice::<u64>("tracked").unwrap().iter().all(|word| *word == value), "{version}");
    }
}

#[test]
fn a_version_is_seen_when_it_is_finished_and_is_what_was_started() {
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        for threads in [1, 2, 4] {
            let mut both = Both::with("started", |options| options.tracker(tracker).threads(threads));
            let mut numbers = Numbers(7);
            let mut version = 0;
            for round in 0..30 {
                version += 1;
                for _ in 0..numbers.below(40) {
                    let at = numbers.below(WORDS);
                    both.region.slice_mut(&both.managed)[at] = version;
                    both.words[at] = version;
                }
                if round % 7 == 0 {
                    both.fill(version);
                }
                both.start(version).unwrap();
                let seen = tracker == TrackerKind::PrivateCow;
                assert_eq!(both.newest() == Some(version), seen, "{tracker}");
                match numbers.below(3) {
                    0 => std::thread::sleep(Duration::from_micros(numbers.below(2000) as u64)),
                    1 => while !both.region.publish_test().unwrap() && threads > 1 {},
                    _ => {}
                }
                let published = both.region.publish_finish().unwrap();
                assert!(published.is_none_or(|done| done.version == version && done.outcome == Outcome::Published));
                assert_eq!(both.region.publish_finish().unwrap(), None, "it is told once");
                let snapshot = both.dir.observe("r").newest().unwrap();
                assert_eq!(snapshot.version(), version);
                assert!(snapshot.slice::<u64>("managed").unwrap() == both.region.slice(&both.managed), "{tracker}");
                assert!(snapshot.slice::<u64>("tracked").unwrap() == &both.words[3..], "{tracker}");
            }
            assert_eq!(both.region.statistics().published, version);
        }
    }
}

#[test]
fn the_next_publish_and_what_changes_variables_finish_it_first() {
    let _watchdog = watchdog(300);
    let mut both = Both::with("settled", |options| options);
    both.fill(1);
    both.start(1).unwrap();
    both.start(2).unwrap();
    assert_eq!(both.newest(), Some(1));
    let words = &both.words[3..];
    both.region.publish(3).tracked(&both.tracked, words, &[words.len()]).commit().unwrap();
    both.shows(3, 1);
    both.fill(4);
    both.start(4).unwrap();
    both.region.resize(both.managed.id(), &[5]).unwrap();
    both.shows(4, 4);
    assert_eq!(both.region.publish_finish().unwrap().unwrap().version, 4);
    both.region.resize(both.managed.id(), &[WORDS]).unwrap();
    both.fill(5);
    both.start(5).unwrap();
    both.region.remove("managed").unwrap();
    both.shows(5, 5);
    both.managed = both.region.array("managed", &[WORDS]).unwrap();
    both.fill(6);
    both.start(6).unwrap();
    let late = both.region.array::<u8>("late", &[1]).unwrap();
    assert!(!both.dir.observe("r").newest().unwrap().variables().iter().any(|variable| variable.name == "late"));
    both.shows(6, 6);
    both.region.slice_mut(&late)[0] = 7;
    both.fill(7);
    both.start(7).unwrap();
    let loaned = both.region.loaned::<u64>("loaned", &[10]).unwrap();
    both.shows(7, 7);
    let mut loan = both.region.loan(&loaned).unwrap();
    loan.fill(8);
    both.start(8).unwrap();
    loan.submit();
    both.region.publish_finish().unwrap();
    let shown = |both: &Both| both.dir.observe("r").newest().unwrap().slice::<u64>("loaned").unwrap().to_vec();
    assert_eq!(shown(&both), [0; 10], "what is submitted later is of the next version");
    both.start(9).unwrap();
    both.region.publish_finish().unwrap();
    assert_eq!(shown(&both), [8; 10]);
    both.fill(10);
    both.start(10).unwrap();
    let Both { dir, region, .. } = both;
    region.close().unwrap();
    assert_eq!(dir.observe("r").newest().unwrap().version(), 10);
}

#[test]
fn a_program_that_writes_too_early_makes_a_mixture_and_loses_nothing() {
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        let mut both = Both::with("mixture", |options| options.tracker(tracker));
        for version in 1..60u64 {
            let (old, new) = (2 * version - 1, 2 * version);
            both.fill(old);
            both.start(version).unwrap();
            both.fill(new);
            both.region.publish_finish().unwrap();
            {
                let snapshot = both.dir.observe("r").newest().unwrap();
                for name in ["managed", "tracked"] {
                    let words = snapshot.slice::<u64>(name).unwrap();
                    assert!(words.iter().all(|word| [old, new].contains(word)), "{tracker}: {name} of {version}");
                }
            }
            assert!(both.region.slice(&both.managed).iter().all(|word| *word == new), "{tracker}: the program's own");
        }
        // What was written too early is in the next version, whatever the last one had of it.
        both.start(100).unwrap();
        both.region.publish_finish().unwrap();
        both.shows(100, 118);
    }
}

#[test]
fn what_is_written_too_early_stays_though_all_around_it_is_cold() {
    let _watchdog = watchdog(300);
    // A window that stayed cold for a while is shared with the planes: at one of these versions.
    for (tracker, at) in trackers().into_iter().flat_map(|tracker| (10..40).map(move |at| (tracker, at))) {
        let mut both = Both::with("cold", |options| options.tracker(tracker));
        both.fill(7);
        let mut expected = vec![7; WORDS];
        for version in 1..45u64 {
            let hot = PAGE_WORDS * (version as usize % 5);
            both.region.slice_mut(&both.managed)[hot] = version;
            both.start(version).unwrap();
            if version == at {
                for window in 0..3 {
                    both.region.slice_mut(&both.managed)[PAGE_WORDS * (512 * window + 300)] = version;
                    expected[PAGE_WORDS * (512 * window + 300)] = version;
                }
            }
            expected[hot] = version;
            both.region.publish_finish().unwrap();
        }
        assert!(both.region.slice(&both.managed) == expected, "{tracker}: written at {at}");
        both.start(100).unwrap();
        both.region.publish_finish().unwrap();
        let snapshot = both.dir.observe("r").newest().unwrap();
        assert!(snapshot.slice::<u64>("managed").unwrap() == expected, "{tracker}: written at {at}");
    }
}

#[test]
fn who_writes_too_early_is_told_the_variable_and_the_page() {
    let _watchdog = watchdog(300);
    for tracker in trackers().into_iter().filter(|tracker| *tracker != TrackerKind::PrivateCow) {
        let mut both = Both::with("checked", |options| options.tracker(tracker).check_writes(true));
        both.fill(1);
        both.start(1).unwrap();
        both.region.publish_finish().unwrap();
        both.fill(2);
        both.start(2).unwrap();
        // In the variable's 801st page: it begins three words behind the begin of the words.
        let at = 800 * PAGE_WORDS + 100;
        both.words[at] = 77;
        let address = &both.words[3] as *const u64 as usize;
        let expected = (address % 4096 + (at - 3) * 8) / 4096;
        match both.region.publish_finish().unwrap_err() {
            Error::Written { name, version: 2, page, bytes } => {
                assert_eq!((name.as_str(), page), ("tracked", expected));
                assert!(bytes.contains(&((at - 3) * 8)) && bytes.len() == 4096, "{bytes:?}");
            }
            error => panic!("{error}"),
        }
        both.shows(1, 1);
        both.words[at] = 2;
        both.start(2).unwrap();
        both.region.publish_finish().unwrap();
        both.shows(2, 2);
        both.fill(3);
        both.start(3).unwrap();
        both.region.slice_mut(&both.managed)[5 * PAGE_WORDS] = 99;
        let error = both.region.publish_finish().unwrap_err();
        assert!(matches!(&error, Error::Written { name, page: 5, .. } if name == "managed"), "{error}");
        assert!(error.to_string().contains("page 5"), "{error}");
        both.region.check_accounts_or_skip();
    }
}

/// Accounts are there to be checked with the points alone.
trait Accounts {
    fn check_accounts_or_skip(&self);
}

impl Accounts for Region {
    fn check_accounts_or_skip(&self) {
        #[cfg(feature = "points")]
        self.check_accounts().unwrap();
    }
}

/// Memory of the test's own, to be unmapped.
struct Map(*mut u64);

impl Map {
    const BYTES: usize = WORDS * 8;
    /// Far from where others map, so that what is unmapped stays so.
    const FREED: usize = 0x2b00_0000_0000;

    fn new(value: u64) -> Map {
        let map = Map::bare(Map::FREED);
        // SAFETY: the words were mapped just now.
        unsafe { std::slice::from_raw_parts_mut(map.0, WORDS) }.fill(value);
        map
    }

    /// Without content.
    fn bare(at: usize) -> Map {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let at = at as *mut libc::c_void;
        // SAFETY: nothing lies there, which the kernel checks.
        let at = unsafe { libc::mmap(at, Map::BYTES, protection, flags | libc::MAP_FIXED_NOREPLACE, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Map(at.cast())
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the memory is the test's own, and whoever still reads there is the library, which is what is tested.
        unsafe { libc::munmap(self.0.cast(), Map::BYTES) };
    }
}

#[test]
fn an_array_that_is_freed_too_early_is_an_error_or_a_version_and_no_signal() {
    let _watchdog = watchdog(300);
    let (mut errors, mut versions) = (0, 0);
    for threads in [1, 2] {
        let mut both = Both::with("freed", |options| options.threads(threads));
        let mut numbers = Numbers(3);
        let mut version = 0;
        // Until the memory was gone before it was copied: who has it all copied at once is given no error.
        let mut turns = 0..;
        while let Some(turn) = turns.next().filter(|turn| *turn < 100 || errors == 0) {
            let round = turn % 100;
            let map = Map::new(round);
            let slice = std::ptr::slice_from_raw_parts(map.0.cast::<u8>(), Map::BYTES);
            both.region.slice_mut(&both.managed)[round as usize * PAGE_WORDS] = round;
            version += 1;
            let id = both.tracked.id();
            // SAFETY: that the memory goes is what is tested.
            unsafe {
                let publication = both.region.publish(version);
                publication.tracked_raw(id, slice.cast(), slice.len(), &[WORDS], stillframe::Order::C).start().unwrap();
            }
            std::thread::sleep(Duration::from_micros(numbers.below(1500) as u64));
            drop(map);
            match both.region.publish_finish() {
                Ok(published) => {
                    assert_eq!(published.unwrap().version, version);
                    versions += 1;
                    let snapshot = both.dir.observe("r").newest().unwrap();
                    assert!(snapshot.slice::<u64>("tracked").unwrap().iter().all(|word| *word == round));
                }
                Err(Error::NotMapped { name, .. }) => {
                    assert_eq!(name, "tracked");
                    errors += 1;
                    version -= 1;
                }
                Err(error) => panic!("{error}"),
            }
            both.region.check_accounts_or_skip();
        }
        both.region.publish(version + 1).commit().unwrap();
        let snapshot = both.dir.observe("r").newest().unwrap();
        assert!(snapshot.slice::<u64>("managed").unwrap() == both.region.slice(&both.managed));
    }
    eprintln!("{errors} errors, {versions} versions");
    assert!(errors > 0);
}

#[test]
fn without_room_it_is_left_out_or_an_error_when_it_starts_and_what_was_written_comes_later() {
    let _watchdog = watchdog(300);
    let bytes = (2 * WORDS * 8) as u64;
    for rule in [Rule::Fail, Rule::Skip, Rule::Wait { timeout: Some(Duration::from_millis(20)) }] {
        let mut both = Both::with("room", |options| options.rule(rule).bound_bytes(2 * bytes + bytes / 2));
        both.fill(1);
        both.start(1).unwrap();
        both.region.publish_finish().unwrap();
        let one = both.dir.observe("r").newest().unwrap();
        both.fill(2);
        both.start(2).unwrap();
        both.region.publish_finish().unwrap();
        let two = both.dir.observe("r").newest().unwrap();
        both.fill(3);
        match (rule, both.start(3)) {
            (Rule::Skip, started) => {
                started.unwrap();
                let done = both.region.publish_finish().unwrap().unwrap();
                assert_eq!((done.version, done.outcome, done.copied_pages), (3, Outcome::Skipped, 0));
            }
            (_, Err(Error::Bound { .. })) => assert_eq!(both.region.publish_finish().unwrap(), None),
            (rule, other) => panic!("{rule:?}: {other:?}"),
        }
        // With a slice the caller is asked before more is waited for.
        if let Rule::Wait { .. } = rule {
            let words = &both.words[3..];
            let publication = both.region.publish(3).tracked(&both.tracked, words, &[words.len()]);
            // SAFETY: nothing is written meanwhile.
            assert!(!unsafe { publication.start_within(Duration::ZERO) }.unwrap());
            both.region.stop_waiting();
        }
        drop((one, two));
        both.start(4).unwrap();
        // Threads that copy are waited for; room is there.
        let finish = both.region.publish_finish_within(Duration::from_secs(60)).unwrap();
        assert!(matches!(finish, Finish::Done(Some(_))));
        both.shows(4, 3);
    }
}

#[test]
fn work_that_panics_leaves_the_region_as_it_was() {
    let _watchdog = watchdog(300);
    let mut both = Both::with("panic", |options| options);
    both.fill(1);
    let words = std::mem::take(&mut both.words);
    let region = &mut both.region;
    let tracked = &both.tracked;
    let panics = std::panic::AssertUnwindSafe(|| {
        region.publish(1).tracked(tracked, &words, &[WORDS]).commit_while(|| std::panic::resume_unwind(Box::new(7)))
    });
    let payload = std::panic::catch_unwind(panics).map(|done: Result<((), _)>| drop(done)).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&7));
    assert_eq!(both.newest(), None);
    let publication = both.region.publish(1).tracked(&both.tracked, &words, &[WORDS]);
    let (seven, published) = publication.commit_while(|| 7).unwrap();
    assert_eq!((seven, published.version), (7, 1));
    both.shows(1, 1);
}

#[test]
fn a_forked_child_disturbs_nothing() {
    let _watchdog = watchdog(300);
    let mut both = Both::with("forked", |options| options);
    for version in 1..20u64 {
        both.fill(version);
        both.start(version).unwrap();
        // SAFETY: the child calls nothing but the region, which it may not use, and _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused = matches!(both.region.publish_finish(), Err(Error::Forked { .. }));
            // SAFETY: ends the child without running anything of the test's.
            unsafe { libc::_exit(if refused { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: the status lives until the call returns.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        both.region.publish_finish().unwrap();
        both.shows(version, version);
    }
}

#[test]
fn a_guarded_version_is_what_it_was_whatever_is_written_meanwhile() {
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        let mut both = Both::with("guarded", |options| options.tracker(tracker));
        both.fill(1);
        for version in 1..30u64 {
            both.start_guarded(version).unwrap();
            both.fill(version + 1);
            // A system call writes there as well.
            let words = &mut both.words[10 * PAGE_WORDS..20 * PAGE_WORDS];
            let mut zeros = std::fs::File::open("/dev/zero").unwrap();
            let bytes = std::mem::size_of_val(words);
            // SAFETY: the bytes are those of the words.
            let bytes = unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), bytes) };
            std::io::Read::read_exact(&mut zeros, bytes).unwrap();
            words.fill(version + 1);
            if version % 3 == 0 {
                while !both.region.publish_test().unwrap() {
                    std::thread::yield_now();
                }
            }
            assert_eq!(both.region.publish_finish().unwrap().unwrap().version, version);
            both.shows(version, version);
        }
        both.region.check_accounts_or_skip();
    }
}

/// Memory of which a child would not have what this process has.
#[derive(Debug, Clone, Copy)]
enum Odd {
    Private,
    Shared,
    /// As libraries for RDMA do with what they have registered.
    NotForked,
    /// As libraries that keep keys do.
    Wiped,
    /// The last pages alone.
    WipedAtTheEnd,
    /// Another process may write what was not written here.
    OfFile,
}

#[test]
fn a_guarded_array_may_be_freed_and_one_that_a_child_would_not_have_is_copied_at_once() {
    let _watchdog = watchdog(300);
    let mut both = Both::with("guarded-maps", |options| options);
    both.region.publish(1).commit().unwrap();
    let bytes = WORDS * 8;
    let mut options = std::fs::File::options();
    let file = options.read(true).write(true).create(true).truncate(true).open(both.dir.path().join("odd")).unwrap();
    let kinds = [Odd::Private, Odd::Shared, Odd::NotForked, Odd::Wiped, Odd::WipedAtTheEnd, Odd::OfFile];
    for version in 2..20u64 {
        let odd = kinds[version as usize % kinds.len()];
        let (flags, descriptor) = match odd {
            Odd::Shared => (libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1),
            Odd::OfFile => (libc::MAP_PRIVATE, file.as_raw_fd()),
            _ => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
        };
        let content: Vec<u8> = std::iter::repeat_n(version.to_ne_bytes(), WORDS).flatten().collect();
        file.write_all_at(&content, 0).unwrap();
        // SAFETY: the kernel chooses an address that is free.
        let map = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), bytes, protection, flags, descriptor, 0).cast::<u64>()
        };
        // SAFETY: the words were mapped just now, and the guard allows them to go.
        unsafe {
            let words = if let Odd::OfFile = odd { WORDS / 2 } else { WORDS };
            std::slice::from_raw_parts_mut(map, words).fill(version);
            let advice = match odd {
                Odd::NotForked => libc::MADV_DONTFORK,
                Odd::Wiped | Odd::WipedAtTheEnd => libc::MADV_WIPEONFORK,
                _ => libc::MADV_NORMAL,
            };
            let begin = if let Odd::WipedAtTheEnd = odd { bytes - 10 * 4096 } else { 0 };
            assert_eq!(libc::madvise(map.byte_add(begin).cast(), bytes - begin, advice), 0);
            let publication = both.region.publish(version);
            let id = both.tracked.id();
            let publication = publication.tracked_raw(id, map.cast(), bytes, &[WORDS], stillframe::Order::C);
            publication.guard().start().unwrap();
            file.write_all_at(&vec![0; bytes], 0).unwrap();
            std::slice::from_raw_parts_mut(map, WORDS).fill(0);
            libc::munmap(map.cast(), bytes);
        }
        both.region.publish_finish().unwrap();
        let snapshot = both.dir.observe("r").newest().unwrap();
        assert_eq!(snapshot.version(), version);
        let words = snapshot.slice::<u64>("tracked").unwrap();
        assert!(words.iter().all(|word| *word == version), "{odd:?}: version {version}");
    }
}

#[test]
fn memory_without_any_content_is_guarded_as_any_other() {
    let _watchdog = watchdog(300);
    let mut both = Both::with("guarded-holes", |options| options);
    // Never written, and the first half only read.
    let holes = Map::bare(Map::FREED + 2 * Map::BYTES);
    // SAFETY: the words are mapped.
    let words = unsafe { std::slice::from_raw_parts(holes.0, WORDS) };
    assert!(words[..WORDS / 2].iter().all(|word| *word == 0));
    let mut guarded = 0;
    for version in 1..20u64 {
        let publication = both.region.publish(version).tracked(&both.tracked, &words[3..], &[WORDS - 3]);
        publication.start_guarded().unwrap();
        guarded += copying_children().len();
        both.region.publish_finish().unwrap();
        both.shows_tracked(version, 0);
        both.tracked = {
            both.region.remove("tracked").unwrap();
            both.region.track("tracked").unwrap()
        };
    }
    assert!(guarded > 0);
}

/// The children of this thread that no handler of fork was told of: those that copy.
fn copying_children() -> Vec<i32> {
    let text = std::fs::read_to_string("/proc/thread-self/children").unwrap();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn a_guarded_version_whose_child_is_killed_is_an_error_and_comes_later() {
    let _watchdog = watchdog(300);
    let mut both = Both::with("child-killed", |options| options);
    let mut errors = 0;
    for version in 1..20u64 {
        both.fill(version);
        both.start_guarded(version).unwrap();
        signal(&copying_children(), libc::SIGKILL);
        match both.region.publish_finish() {
            Err(Error::ChildGone { version: gone, .. }) => {
                assert_eq!(gone, version);
                errors += 1;
                both.start_guarded(version).unwrap();
                both.region.publish_finish().unwrap();
            }
            finished => assert_eq!(finished.unwrap().unwrap().version, version),
        }
        both.shows(version, version);
        both.region.check_accounts_or_skip();
    }
    assert!(errors > 0 && copying_children().is_empty());
}

/// Takes what an arena has left.
fn fill(arena: &Arena) -> Region {
    let mut region = Region::options().arena(arena).rule(Rule::Fail).create("filler").unwrap();
    let mut version = 0;
    let mut bytes = 32 << 20;
    while bytes >= 4096 {
        version += 1;
        let name = format!("u{version}");
        let Ok(array) = region.array::<u8>(&name, &[bytes]) else { break };
        region.slice_mut(&array).fill(1);
        if region.publish(version).commit().is_err() {
            region.remove(&name).unwrap();
            bytes /= 2;
        }
    }
    region
}

#[test]
fn whoever_waits_in_slices_does_so_too_for_a_publish_that_is_finished_first() {
    let _watchdog = watchdog(300);
    let dir = Dir::plain("tables");
    let arena = Arena::options().dir(dir.path()).bytes(64 << 20).create("pool").unwrap();
    let options = Region::options().arena(&arena).rule(Rule::Wait { timeout: None }).threads(1);
    let mut region = options.create("r").unwrap();
    let array = region.array::<u64>("u", &[WORDS / 4]).unwrap();
    let loaned = region.loaned::<u64>("loaned", &[10]).unwrap();
    let observer = Observer::options().dir(dir.path()).open("pool/r").unwrap();
    let mut held = None;
    for version in 1..=2 {
        region.slice_mut(&array).fill(version);
        region.publish(version).commit().unwrap();
        held.get_or_insert_with(|| observer.newest().unwrap());
    }
    region.slice_mut(&array).fill(3);
    // Its tables have no room: so long a text takes more than the region has of the arena.
    let text = "long".repeat(1 << 20);
    // SAFETY: nothing is written meanwhile.
    unsafe { region.publish(3).attr("text", text.as_str()).start() }.unwrap();
    let filler = fill(&arena);
    for slice in [Duration::ZERO, Duration::from_millis(10)] {
        assert_eq!(region.publish_finish_within(slice).unwrap(), Finish::Later);
        assert_eq!(region.publish(4).commit_within(slice).unwrap(), None);
        // SAFETY: nothing is written meanwhile.
        assert!(!unsafe { region.publish(4).start_within(slice) }.unwrap());
        assert!(region.loan_bytes_within(loaned.id(), slice).unwrap().is_none());
        assert!(!region.publish_settle_within(slice).unwrap());
        assert!(!region.publish_test().unwrap(), "it would have to wait");
        assert!(region.is_publishing());
    }
    region.stop_waiting();
    filler.unlink().unwrap();
    assert!(region.publish_settle_within(Duration::ZERO).unwrap());
    assert_eq!(region.publish_finish().unwrap().unwrap().version, 3);
    let snapshot = observer.newest().unwrap();
    assert_eq!(snapshot.version(), 3);
    assert!(snapshot.slice::<u64>("u").unwrap().iter().all(|word| *word == 3));
}

#[test]
fn a_loan_waits_in_slices_for_a_publish_that_is_finished_first() {
    let _watchdog = watchdog(300);
    let mut both = Both::with("loan-slices", |options| options);
    let loaned = both.region.loaned::<u64>("loaned", &[10]).unwrap();
    let mut waited = 0;
    // A child may have copied all before it is stopped.
    let mut versions = 1u64..;
    while let Some(version) = versions.next().filter(|version| *version < 20 || waited == 0) {
        both.fill(version);
        both.start_guarded(version).unwrap();
        let children = copying_children();
        signal(&children, libc::SIGSTOP);
        waited += u32::from(both.region.loan_bytes_within(loaned.id(), Duration::from_millis(10)).unwrap().is_none());
        signal(&children, libc::SIGCONT);
        both.region.publish_finish().unwrap();
        both.shows(version, version);
    }
    assert!(waited > 0);
}

#[test]
fn who_finishes_within_a_time_waits_for_the_child_that_copies_no_longer_than_that() {
    let _watchdog = watchdog(300);
    let mut both = Both::with("child-slices", |options| options);
    let mut waited = 0;
    // A child may have copied all before it is stopped.
    let mut versions = 1u64..;
    while let Some(version) = versions.next().filter(|version| *version < 20 || waited == 0) {
        both.fill(version);
        both.start_guarded(version).unwrap();
        let children = copying_children();
        signal(&children, libc::SIGSTOP);
        for slice in [Duration::ZERO, Duration::from_millis(10)] {
            match both.region.publish_finish_within(slice).unwrap() {
                Finish::Later => waited += 1,
                Finish::Done(done) => assert!(done.is_none_or(|done| done.version == version)),
            }
        }
        signal(&children, libc::SIGCONT);
        both.region.publish_finish().unwrap();
        both.shows(version, version);
        both.region.check_accounts_or_skip();
    }
    assert!(waited > 0);
}

fn signal(processes: &[i32], signal: i32) {
    for process in processes {
        // SAFETY: it is this thread's child, and was not waited for.
        unsafe { libc::kill(*process, signal) };
    }
}

/// Starts a version and ends in the way that it is told, before it is finished.
fn starter(arguments: &[String]) {
    let [dir, way] = arguments else { panic!("{arguments:?}") };
    let dir = Path::new(dir);
    let mut region = Region::options().dir(dir).threads(2).create("r").unwrap();
    let array = region.array::<u64>("managed", &[WORDS]).unwrap();
    let version = region.recovered().unwrap_or(0) + 1;
    region.slice_mut(&array).fill(version);
    region.publish(version).commit().unwrap();
    region.slice_mut(&array).fill(version + 1);
    // SAFETY: nothing is written any more.
    unsafe {
        let publication = region.publish(version + 1);
        if way.starts_with("guarded") { publication.start_guarded() } else { publication.start() }.unwrap();
    }
    say("started");
    match way.trim_start_matches("guarded ") {
        "exits" => std::process::exit(0),
        "forgets" => std::mem::forget(region),
        "unlinks" => region.unlink().unwrap(),
        "drops" => drop(region),
        _ => helper::wait_for_word(),
    }
}

#[test]
fn a_program_that_ends_or_is_killed_before_it_finishes_leaves_the_version_before() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("ends");
    let path = dir.path().to_str().unwrap();
    let mut version = 0;
    let ways =
        ["exits", "forgets", "killed", "guarded killed", "drops", "guarded exits", "killed", "guarded drops", "exits"];
    for way in ways {
        let mut helper = start("starter", &[path, way]);
        helper.expect("started");
        match way.ends_with("killed") {
            true => drop(helper.kill()),
            false => drop(helper.finish()),
        }
        // What a child still copies for it, it has the region for.
        helper::until("the region to be free", || {
            !matches!(inspect::region(dir.path(), "r").unwrap().state, inspect::State::Live)
        });
        version += if way.ends_with("drops") { 2 } else { 1 };
        let snapshot = dir.observe("r").newest().unwrap();
        assert_eq!(snapshot.version(), version, "{way}");
        assert!(snapshot.slice::<u64>("managed").unwrap().iter().all(|word| *word == version), "{way}");
        assert_eq!(inspect::verify(dir.path(), "r").unwrap(), [], "{way}");
    }
    let mut helper = start("starter", &[path, "unlinks"]);
    helper.expect("started");
    helper.finish();
    assert!(matches!(Observer::options().dir(dir.path()).open("r"), Err(Error::NoRegion { .. })));
}

#[test]
fn ranks_that_finish_far_apart_have_a_common_version_all_the_while() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("ranks");
    let rank = |rank| {
        let mut region = dir.options().threads(2).rank(rank, 2).create("g").unwrap();
        let array = region.array::<u64>("u", &[WORDS]).unwrap();
        (region, array)
    };
    let mut ranks = [rank(0), rank(1)];
    let group: Group = Group::options().dir(dir.path()).open("g").unwrap();
    for version in 1..30u64 {
        for (region, array) in &mut ranks {
            region.slice_mut(array).fill(version);
            // SAFETY: nothing is written before the end.
            unsafe { region.publish(version).start() }.unwrap();
        }
        let late = version as usize % 2;
        ranks[1 - late].0.publish_finish().unwrap();
        let common = |version: u64| {
            let snapshot = group.newest().unwrap();
            assert_eq!(snapshot.version(), version);
            for rank in snapshot.ranks() {
                assert!(rank.slice::<u64>("u").unwrap().iter().all(|word| *word == version));
            }
        };
        if version > 1 {
            common(version - 1);
        }
        ranks[late].0.publish_finish().unwrap();
        common(version);
    }
}

#[test]
fn helper_process() {
    helper::enter(&[("starter", starter)]);
}
