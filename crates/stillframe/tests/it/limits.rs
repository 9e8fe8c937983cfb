//! Full file systems, and processes without file descriptors or mappings: a clear error, never a fatal signal, and
//! everything goes on once there is room again.

#![allow(unsafe_code)]

use crate::common;
use crate::helper;

use crate::common::{Dir, trackers, watchdog};
use crate::helper::{PLAY_BYTES, Play, check_play, check_play_in_pieces};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stillframe::{
    Declaration, Element, Error, Family, Kind, Observer, Outcome, Part, Region, RegionOptions, Rule, TrackerKind,
};

const FULL: u64 = 64 << 20;

/// A small file system that only this process sees, and a file in it that takes all but some of its space.
struct Small {
    path: PathBuf,
    ballast: File,
}

impl Small {
    fn mount(path: &str) -> Small {
        let text = |text: &str| CString::new(text).unwrap();
        let (none, root, tmpfs, target) = (text("none"), text("/"), text("tmpfs"), text(path));
        let size = text(&format!("size={FULL},mode=700"));
        // SAFETY: all pointers are to strings that live through the calls.
        unsafe {
            assert_eq!(libc::unshare(libc::CLONE_NEWNS), 0);
            let private = libc::MS_REC | libc::MS_PRIVATE;
            assert_eq!(libc::mount(none.as_ptr(), root.as_ptr(), std::ptr::null(), private, std::ptr::null()), 0);
            assert_eq!(libc::mount(tmpfs.as_ptr(), target.as_ptr(), tmpfs.as_ptr(), 0, size.as_ptr().cast()), 0);
        }
        let ballast = File::create(Path::new(path).join("ballast")).unwrap();
        Small { path: path.into(), ballast }
    }

    /// Leaves exactly so many bytes free.
    fn leave(&self, bytes: u64) {
        let held = self.ballast.metadata().unwrap().len();
        let most = held + self.free();
        let wanted = most.saturating_sub(bytes);
        if wanted <= held {
            self.ballast.set_len(wanted).unwrap();
        } else {
            // SAFETY: the call takes numbers only.
            let taken = unsafe { libc::fallocate(self.ballast.as_raw_fd(), 0, held as i64, (wanted - held) as i64) };
            assert_eq!(taken, 0, "{}", std::io::Error::last_os_error());
        }
        assert_eq!(self.free(), bytes.min(most));
    }

    fn free(&self) -> u64 {
        // SAFETY: `statvfs` is plain data, valid when zeroed, and the pointer is to a live one.
        let status = unsafe {
            let mut status: libc::statvfs = std::mem::zeroed();
            assert_eq!(libc::fstatvfs(self.ballast.as_raw_fd(), &mut status), 0);
            status
        };
        status.f_bavail * status.f_frsize
    }

    fn empty(&self) {
        self.ballast.set_len(0).unwrap();
    }

    fn options(&self) -> RegionOptions {
        Region::options().dir(&self.path).threads(2)
    }

    fn observe(&self) -> Observer {
        Observer::options().dir(&self.path).open("r").unwrap()
    }
}

/// Whether this process may mount. Says why a test did nothing if not.
fn can_mount() -> bool {
    // SAFETY: the call touches no memory.
    let root = unsafe { libc::geteuid() } == 0;
    let mut child = std::process::Command::new("unshare");
    let can = root && child.args(["-m", "true"]).status().is_ok_and(|status| status.success());
    if !can {
        eprintln!("skipped: only root can mount a small file system");
    }
    can
}

fn run_mounted(role: &str) {
    let _watchdog = watchdog(600);
    if can_mount() {
        let dir = Dir::new("small");
        helper::run(role, &[dir.path().to_str().unwrap()]);
    }
}

/// The error says how much is there, how much is needed, and what to do.
fn check_no_space(error: Error) {
    assert_eq!(error.family(), Family::Environment, "{error}");
    let text = error.to_string();
    let Error::NoSpace { free_bytes: Some(free_bytes), needed_bytes, .. } = error else { panic!("{text}") };
    assert!(free_bytes < needed_bytes, "{text}");
    assert!(text.contains(&free_bytes.to_string()) && text.contains(&needed_bytes.to_string()), "{text}");
    assert!(text.contains("free some"), "{text}");
}

/// Runs out of space after each number of bytes in turn, frees some, and goes on.
fn full_after(arguments: &[String]) {
    let small = Small::mount(&arguments[0]);
    let mut reached = Vec::new();
    let mut bytes = 0;
    loop {
        small.leave(bytes);
        let mut failures = 0;
        let mut play = loop {
            match Play::try_open(small.options(), "r") {
                Ok(play) => break play,
                Err(error) => {
                    check_no_space(error);
                    failures += 1;
                    assert_eq!(failures, 1, "there is room again");
                    small.empty();
                }
            }
        };
        let observer = small.observe();
        let mut last = None;
        for _ in 0..9 {
            for part in [Play::write as fn(&mut Play) -> stillframe::Result<()>, |play| play.publish().map(drop)] {
                while let Err(error) = part(&mut play) {
                    check_no_space(error);
                    failures += 1;
                    // One more when the first frees nothing yet and the loan of the same version fails, too.
                    assert!(failures <= 1, "there is room again");
                    // The last version is whole, also for those who come now.
                    if let Some(last) = last {
                        let snapshot = small.observe().newest().unwrap();
                        assert_eq!(snapshot.version(), last);
                        check_play(&snapshot);
                    }
                    small.empty();
                }
            }
            let snapshot = observer.newest().unwrap();
            assert_eq!(snapshot.version(), play.version);
            check_play(&snapshot);
            last = Some(play.version);
        }
        reached.push(failures);
        play.region.unlink().unwrap();
        if failures == 0 {
            break;
        }
        bytes += if bytes < 16 * 4096 { 4096 } else { 53 * 4096 };
    }
    assert!(reached.len() > 30, "{reached:?}");
}

#[test]
fn a_full_file_system_is_an_error_wherever_it_is_met() {
    run_mounted("full_after");
}

/// Has no free space at all before each step, again and again while windows are shared, held and retired.
fn full_before(arguments: &[String]) {
    let small = Small::mount(&arguments[0]);
    for tracker in trackers() {
        let mut play = Play::open(small.options().tracker(tracker).rule(Rule::Fail).keep(2), "r");
        let observer = small.observe();
        let mut held = Vec::new();
        let mut failures = 0;
        for step in 0..60 {
            small.leave(if step % 3 == 2 { 5 * 4096 } else { 0 });
            if let Err(error) = play.write() {
                check_no_space(error);
                small.empty();
                play.write().unwrap();
                small.leave(0);
            }
            while let Err(error) = play.publish() {
                check_no_space(error);
                failures += 1;
                held.iter().for_each(check_play);
                small.empty();
            }
            let snapshot = observer.newest().unwrap();
            check_play(&snapshot);
            if step % 7 == 0 {
                held.push(snapshot);
            }
            if held.len() > 3 {
                check_play(&held.remove(step % 3));
            }
        }
        assert!(failures > 5, "{failures}");
        play.region.unlink().unwrap();
    }
}

#[test]
fn no_free_byte_at_any_time_harms_no_version() {
    run_mounted("full_before");
}

/// A producer that recovers on a full file system, with nothing at all to spare.
fn full_recovery(arguments: &[String]) {
    let small = Small::mount(&arguments[0]);
    let mut play = Play::open(small.options(), "r");
    // Versions that lie scattered over planes, with pages that were never written among them.
    for _ in 0..23 {
        play.step();
    }
    drop(play);
    small.leave(0);
    let observer = small.observe();
    let mut play = Play::open(small.options(), "r");
    assert_eq!(play.version, 23);
    check_play(&observer.newest().unwrap());
    let mut failures = 0;
    for _ in 0..4 {
        play.write().unwrap();
        while let Err(error) = play.publish() {
            check_no_space(error);
            failures += 1;
            check_play(&observer.newest().unwrap());
            small.empty();
        }
        check_play(&observer.newest().unwrap());
        small.leave(0);
    }
    assert!(failures > 0);
}

#[test]
fn a_full_file_system_does_not_keep_a_region_from_being_recovered() {
    run_mounted("full_recovery");
}

/// A version in many pieces, whose pages have no room to be compacted, or for some of them.
fn full_compaction(arguments: &[String]) {
    const PAGES: usize = 1100;
    let small = Small::mount(&arguments[0]);
    let begin = |options: RegionOptions| {
        let mut region = options.create("r").unwrap();
        let array = region.array::<u8>("u", &[PAGES * 4096]).unwrap();
        (region, array)
    };
    let mut plain = vec![0; PAGES * 4096];
    let (mut version, mut numbers) = (0, common::Numbers(5));
    for room in (0..1200).step_by(60) {
        let (mut region, array) = begin(small.options());
        assert!(region.slice(&array) == plain);
        for _ in 0..6 {
            for page in 0..PAGES {
                if version == 0 || numbers.below(4) == 0 {
                    plain[page * 4096 + 9] = numbers.next() as u8;
                    region.slice_mut(&array)[page * 4096 + 9] = plain[page * 4096 + 9];
                }
            }
            version += 1;
            region.publish(version).commit().unwrap();
        }
        drop(region);
        // With this bound free frames lose their memory, and a part of the file system is then left for it.
        drop(small.options().bound_bytes(1).create("r").unwrap());
        small.leave(room * 4096);
        let held = small.observe().newest().unwrap();
        let (region, array) = begin(small.options());
        assert!(region.slice(&array) == plain, "{room} pages were free");
        assert!(small.observe().newest().unwrap().slice::<u8>("u").unwrap() == plain, "{room} pages were free");
        assert!(held.slice::<u8>("u").unwrap() == plain, "{room} pages were free");
        drop(region);
        small.empty();
    }
}

#[test]
fn a_full_file_system_does_not_keep_a_scattered_version_from_being_recovered() {
    run_mounted("full_compaction");
}

/// Sparse managed memory, most pages of which exist nowhere, shared while nothing is free.
fn full_sharing(arguments: &[String]) {
    let small = Small::mount(&arguments[0]);
    for tracker in trackers() {
        let mut region = small.options().tracker(tracker).create("r").unwrap();
        let array = region.array::<u64>("a", &[4 * 512 * 512]).unwrap();
        for version in 1..=80 {
            small.leave(FULL / 2);
            let slice = region.slice_mut(&array);
            for page in (0..2048).step_by(if version < 3 { 3 } else { 512 }) {
                slice[page * 512 + 5] = version;
            }
            if version > 4 {
                small.leave(16 * 4096);
            }
            region.publish(version).commit().unwrap();
            // The parts of the array that were never written are touched for the first time on a full file system.
            small.leave(0);
            if version % 10 == 0 {
                region.slice_mut(&array)[(version as usize * 7 + 1) * 512] = version;
            }
            let snapshot = small.observe().newest().unwrap();
            assert_eq!(snapshot.slice::<u64>("a").unwrap()[5], version);
        }
        region.unlink().unwrap();
    }
}

#[test]
fn demotion_on_a_full_file_system_is_left_undone() {
    run_mounted("full_sharing");
}

/// The rules at a full file system are those at the bound.
fn full_rules(arguments: &[String]) {
    let small = Small::mount(&arguments[0]);
    let mut region = small.options().rule(Rule::Skip).create("r").unwrap();
    let array = region.array::<u64>("a", &[100 * 512]).unwrap();
    let mut publish = |version: u64| {
        region.slice_mut(&array).fill(version);
        region.publish(version).commit()
    };
    publish(1).unwrap();
    let held = small.observe().newest().unwrap();
    publish(2).unwrap();
    let also_held = small.observe().newest().unwrap();
    small.leave(0);
    assert_eq!(publish(3).unwrap().outcome, Outcome::Skipped);
    assert_eq!(small.observe().newest().unwrap().version(), 2);
    drop(held);
    assert_eq!(publish(4).unwrap().outcome, Outcome::Published);
    assert_eq!(also_held.slice::<u64>("a").unwrap(), [2; 100 * 512]);
    assert_eq!(small.observe().newest().unwrap().slice::<u64>("a").unwrap(), [4; 100 * 512]);
}

/// What a loan for which there is no room is told: the sizes of the file system, which is what is full.
fn full_loan(arguments: &[String]) {
    let small = Small::mount(&arguments[0]);
    let mut region = small.options().rule(Rule::Skip).create("r").unwrap();
    let loaned = region.loaned::<u64>("l", &[100 * 512]).unwrap();
    let mut held = Vec::new();
    for version in 1..3 {
        region.loan(&loaned).unwrap().submit();
        region.publish(version).commit().unwrap();
        held.push(small.observe().newest().unwrap());
    }
    small.leave(3 * 4096);
    let error = region.loan(&loaned).unwrap_err();
    println!("said: {error}");
    check_no_space(error);
}

#[test]
fn a_loan_on_a_full_file_system_names_its_sizes() {
    run_mounted("full_loan");
}

/// A producer that waits for an observer leaves to others what the file system has.
fn full_wait(arguments: &[String]) {
    let small = Small::mount(&arguments[0]);
    let mut region = small.options().rule(Rule::Wait { timeout: None }).create("r").unwrap();
    let array = region.array::<u64>("a", &[2000 * 512]).unwrap();
    let mut publish = |version: u64| {
        region.slice_mut(&array).fill(version);
        region.publish(version).commit()
    };
    publish(1).unwrap();
    let held = small.observe().newest().unwrap();
    publish(2).unwrap();
    let also_held = small.observe().newest().unwrap();
    small.leave(1000 * 4096);
    let (done, looked) = (std::sync::atomic::AtomicBool::new(false), std::sync::atomic::AtomicUsize::new(0));
    let seen = std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut seen = Vec::new();
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                seen.push(small.free());
                looked.store(seen.len(), std::sync::atomic::Ordering::Relaxed);
            }
            seen
        });
        let lets_go = scope.spawn(|| {
            helper::until("the producer to wait", || {
                stillframe::inspect::region(&small.path, "r").unwrap().waiting_ns.is_some()
            });
            // Many looks, for as long as the producer tries again and again.
            let first = looked.load(std::sync::atomic::Ordering::Relaxed);
            std::thread::sleep(std::time::Duration::from_millis(400));
            helper::until("looks at what is free", || looked.load(std::sync::atomic::Ordering::Relaxed) > first + 1000);
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(held.slice::<u64>("a").unwrap(), [1; 2000 * 512]);
            drop(held);
        });
        assert_eq!(publish(3).unwrap().outcome, Outcome::Published);
        lets_go.join().unwrap();
        looks.join().unwrap()
    });
    let taken = seen.iter().filter(|free| **free < 1000 * 4096).count();
    assert_eq!(taken, 0, "of {} looks", seen.len());
    assert_eq!(also_held.slice::<u64>("a").unwrap(), [2; 2000 * 512]);
    assert_eq!(small.observe().newest().unwrap().slice::<u64>("a").unwrap(), [3; 2000 * 512]);
}

#[test]
fn a_producer_that_waits_for_room_in_a_full_file_system_takes_none_meanwhile() {
    run_mounted("full_wait");
}

/// Each rule in a file system that is full, while versions are held and while none is.
fn full_by_rule(arguments: &[String]) {
    // What is said of a version that is left out names the holders. Who looks them up maps the region for a moment, also when it
    // is unlinked already, so that its pages would be given back late.
    // SAFETY: this process has one thread so far.
    unsafe { std::env::set_var("STILLFRAME_QUIET", "1") };
    let small = Small::mount(&arguments[0]);
    let limit = Duration::from_millis(200);
    let rules = [Rule::Fail, Rule::Skip, Rule::WaitThenSkip { limit }, Rule::Wait { timeout: Some(limit) }];
    for rule in rules {
        small.empty();
        let mut region = small.options().rule(rule).create("r").unwrap();
        let array = region.array::<u64>("a", &[1000 * 512]).unwrap();
        let mut publish = |version: u64, slice: Option<Duration>| {
            region.slice_mut(&array).fill(version);
            match slice {
                Some(slice) => region.publish(version).commit_within(slice),
                None => region.publish(version).commit().map(Some),
            }
        };
        publish(1, None).unwrap();
        let held = small.observe().newest().unwrap();
        publish(2, None).unwrap();
        let also_held = small.observe().newest().unwrap();
        let left = 500 * 4096;
        small.leave(left);
        let begin = std::time::Instant::now();
        let is_patient = !matches!(rule, Rule::Fail | Rule::Skip);
        // Who would have to wait is asked first.
        assert_eq!(matches!(publish(3, Some(Duration::ZERO)), Ok(None)), is_patient, "{rule:?}");
        match (rule, publish(3, None)) {
            (Rule::Skip | Rule::WaitThenSkip { .. }, Ok(done)) => assert_eq!(done.unwrap().outcome, Outcome::Skipped),
            (_, result) => check_no_space(result.unwrap_err()),
        }
        assert!(begin.elapsed() >= limit || !is_patient, "{rule:?}");
        assert_eq!(small.free(), left, "what was not enough was given back");
        drop((held, also_held));
        publish(4, None).unwrap();
        // Nobody holds anything, so that nobody is waited for.
        small.leave(left);
        let other = region.array::<u64>("b", &[5000 * 512]).unwrap();
        region.slice_mut(&other).fill(1);
        check_no_space(region.publish(5).commit().unwrap_err());
        region.unlink().unwrap();
    }
}

#[test]
fn a_full_file_system_follows_the_rule_while_versions_are_held_and_is_an_error_otherwise() {
    run_mounted("full_by_rule");
}

/// A wait that ends because somebody else gives room back.
fn full_of_others(arguments: &[String]) {
    let small = Small::mount(&arguments[0]);
    let mut region = small.options().rule(Rule::Wait { timeout: None }).create("r").unwrap();
    let array = region.array::<u64>("a", &[1000 * 512]).unwrap();
    let mut held = Vec::new();
    for version in 1..5 {
        region.slice_mut(&array).fill(version);
        std::thread::scope(|scope| {
            if version > 2 {
                small.leave(0);
                scope.spawn(|| {
                    helper::until("the producer to wait", || {
                        stillframe::inspect::region(&small.path, "r").unwrap().waiting_ns.is_some()
                    });
                    let bytes = small.ballast.metadata().unwrap().len();
                    small.ballast.set_len(bytes - 1100 * 4096).unwrap();
                });
            }
            assert_eq!(region.publish(version).commit().unwrap().outcome, Outcome::Published);
        });
        held.push(small.observe().newest().unwrap());
    }
    for (snapshot, version) in held.iter().zip(1..) {
        assert!(snapshot.slice::<u64>("a").unwrap().iter().all(|element| *element == version));
    }
}

#[test]
fn room_that_others_make_ends_a_wait() {
    run_mounted("full_of_others");
}

#[test]
fn a_full_file_system_is_a_bound() {
    run_mounted("full_rules");
}

/// Needs more room for descriptions while the planes have all there is, much of it idle.
fn full_tables(arguments: &[String]) {
    let small = Small::mount(&arguments[0]);
    // This tracker takes no page for dirty that is not.
    let options = small.options().large_pages(false).rule(Rule::Fail).tracker(TrackerKind::FullCopy);
    let mut region = options.create("r").unwrap();
    let array = region.array::<u64>("a", &[24 * 512 * 512]).unwrap();
    let mut held = Vec::new();
    for version in 1..50 {
        let slice = region.slice_mut(&array);
        for window in 0..24 {
            // The first versions write many pages, which leaves many slots idle; later ones write one after the other.
            let pages = if version < 4 { 0..85 } else { version as usize..version as usize + 1 };
            for page in pages {
                slice[(window * 512 + page * 6) * 512] = version;
            }
        }
        if version == 4 {
            small.leave(0);
        }
        region.publish(version).commit().unwrap();
        let snapshot = small.observe().newest().unwrap();
        let mut word = [0; 8];
        snapshot.read("a", version as usize * 6 * 4096, &mut word).unwrap();
        assert_eq!(u64::from_le_bytes(word), version);
        if version >= 4 {
            held.push(snapshot);
        }
    }
}

#[test]
fn idle_frames_make_room_for_descriptions() {
    run_mounted("full_tables");
}

/// Loans of several pieces for several threads: one that finds no memory is refused, and one that was given can be written
/// whatever becomes of the file system.
fn full_loans(arguments: &[String]) {
    const BYTES: u64 = 20 << 20;
    let small = Small::mount(&arguments[0]);
    for threads in [1, 4] {
        for large_pages in [false, true] {
            small.empty();
            let options = small.options().threads(threads).large_pages(large_pages).rule(Rule::Fail);
            let mut region = options.create("r").unwrap();
            let loaned = region.loaned::<u64>("l", &[BYTES as usize / 8]).unwrap();
            for version in 1..6 {
                if version == 2 {
                    small.leave(BYTES - 4096);
                    check_no_space(region.loan(&loaned).unwrap_err());
                    small.leave(BYTES);
                }
                let mut given = region.loan(&loaned).unwrap();
                if version == 3 {
                    // Slots that have memory that nobody wrote are recycled.
                    drop(given);
                    given = region.loan(&loaned).unwrap();
                }
                // The first version brings its description.
                small.leave(if version == 1 { 1 << 20 } else { 0 });
                given.fill(version);
                given.submit();
                region.publish(version).commit().unwrap();
                let snapshot = small.observe().newest().unwrap();
                assert!(snapshot.slice::<u64>("l").unwrap().iter().all(|value| *value == version));
                if version == 1 {
                    small.empty();
                }
            }
            region.unlink().unwrap();
        }
    }
}

#[test]
fn a_loan_on_a_full_file_system_is_an_error_or_can_be_written() {
    run_mounted("full_loans");
}

fn set_files(limit: u64) {
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: 1024 };
    // SAFETY: the pointer is to a live value.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
}

fn check_no_files(error: Error) {
    let text = error.to_string();
    assert!(matches!(error, Error::NoFiles { .. }), "{text}");
    assert!(text.contains("ulimit -n"), "{text}");
}

/// Has each number of file descriptors in turn, gets more after the first error, and goes on.
fn few_files(arguments: &[String]) {
    let dir = Path::new(&arguments[0]);
    let mut limit = 3;
    loop {
        let mut failures = 0;
        let mut more = |error| {
            check_no_files(error);
            failures += 1;
            assert_eq!(failures, 1, "there are enough again");
            set_files(1024);
        };
        set_files(limit);
        let mut play = loop {
            match Play::try_open(Region::options().dir(dir).threads(2), "r") {
                Ok(play) => break play,
                Err(error) => more(error),
            }
        };
        let observer = loop {
            match Observer::options().dir(dir).open("r") {
                Ok(observer) => break observer,
                Err(error) => more(error),
            }
        };
        let mut held = Vec::new();
        for _ in 0..8 {
            while let Err(error) = play.write() {
                more(error);
            }
            while let Err(error) = play.publish() {
                more(error);
            }
            let snapshot = loop {
                match observer.newest() {
                    Ok(snapshot) => break snapshot,
                    Err(error) => more(error),
                }
            };
            // What an observer could hold it can read, whatever happens.
            check_play(&snapshot);
            check_play_in_pieces(&snapshot);
            held.push(snapshot);
        }
        set_files(1024);
        play.region.unlink().unwrap();
        if failures == 0 {
            break;
        }
        limit += 1;
    }
    assert!(limit > 12, "{limit}");
}

#[test]
fn running_out_of_file_descriptors_is_an_error_wherever_it_happens() {
    let _watchdog = watchdog(600);
    let dir = Dir::new("files");
    helper::run("few_files", &[dir.path().to_str().unwrap()]);
}

/// Asks for more memory than this process may have, and goes on with what there was.
fn little_memory(arguments: &[String]) {
    let limit = libc::rlimit { rlim_cur: 1 << 40, rlim_max: 1 << 40 };
    // SAFETY: the pointer is to a live value.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    let dir = Path::new(&arguments[0]);
    let mut region = Region::options().dir(dir).create("r").unwrap();
    let part = |extent| Part { offset: vec![0], global_shape: vec![extent] };
    let declaration = Declaration::new("u", f64::dtype(), Kind::Managed { shape: vec![4] }).part(part(1 << 39));
    let id = region.declare(declaration).unwrap();
    region.bytes_mut(id).unwrap().fill(7);
    let too_many = 1 << 38;
    assert_eq!(region.resize(id, &[too_many]).unwrap_err().family(), Family::Environment);
    assert_eq!(region.repart(id, &[too_many], &part(too_many)).unwrap_err().family(), Family::Environment);
    region.publish(1).commit().unwrap();
    let snapshot = Observer::options().dir(dir).open("r").unwrap().newest().unwrap();
    let u = snapshot.variable("u").unwrap();
    assert_eq!((u.part().unwrap(), &u.shape[..]), (Some(part(1 << 39)), &[4][..]));
    assert_eq!(snapshot.view("u").unwrap()[..], [7; 32]);
    assert_eq!(region.declared(id).unwrap().kind, Kind::Managed { shape: vec![4] });
    region.unlink().unwrap();
}

#[test]
fn a_shape_for_which_there_is_no_memory_changes_nothing() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("memory");
    helper::run("little_memory", &[dir.path().to_str().unwrap()]);
}

/// Address ranges that use up all mappings of this process but some.
struct Crowd {
    address: usize,
    pages: usize,
    protected: usize,
}

impl Crowd {
    fn new() -> Crowd {
        let count = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
        let pages = 2 * count.trim().parse::<usize>().unwrap();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: the kernel chooses free addresses.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), pages * 4096, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Crowd { address: at as usize, pages, protected: 0 }
    }

    fn protect(&self, index: usize, protection: i32) -> bool {
        // SAFETY: the page belongs to the range that was mapped for this, and nothing is in it.
        unsafe { libc::mprotect((self.address + (2 * index + 1) * 4096) as *mut libc::c_void, 4096, protection) == 0 }
    }

    /// Leaves about twice this many mappings.
    fn leave(&mut self, pairs: usize) {
        // A page that differs from its neighbours splits their mapping, until no more can be.
        while 2 * self.protected + 2 < self.pages && self.protect(self.protected, libc::PROT_READ) {
            self.protected += 1;
        }
        for _ in 0..pairs.min(self.protected) {
            self.protected -= 1;
            assert!(self.protect(self.protected, libc::PROT_NONE));
        }
    }
}

fn check_no_mappings(error: Error) {
    let text = error.to_string();
    // Where the kernel has no mapping left it may refuse a tracker, too.
    assert!(matches!(error, Error::NoMappings { .. }), "{text}");
    assert!(text.contains("vm.max_map_count"), "{text}");
}

/// Has each small number of mappings in turn, gets more after the first error, and goes on.
fn few_mappings(arguments: &[String]) {
    let dir = Path::new(&arguments[0]);
    let mut crowd = Crowd::new();
    let mut failed = 0;
    for pairs in 0..40 {
        let mut failures = 0;
        let options = || Region::options().dir(dir).threads(1);
        crowd.leave(pairs);
        let mut more = |crowd: &mut Crowd, error| {
            check_no_mappings(error);
            failures += 1;
            assert_eq!(failures, 1, "there are enough again");
            crowd.leave(2000);
        };
        let mut play = loop {
            match Play::try_open(options(), "r") {
                Ok(play) => break play,
                Err(error) => more(&mut crowd, error),
            }
        };
        let observer = loop {
            match Observer::options().dir(dir).open("r") {
                Ok(observer) => break observer,
                Err(error) => more(&mut crowd, error),
            }
        };
        for _ in 0..20 {
            while let Err(error) = play.write() {
                more(&mut crowd, error);
            }
            while let Err(error) = play.publish() {
                more(&mut crowd, error);
            }
            let snapshot = observer.newest().unwrap();
            while let Err(error) = snapshot.slice::<u64>("managed") {
                more(&mut crowd, error);
            }
            let mut read = vec![0; 4096 * 600];
            while let Err(error) = snapshot.read("managed", 0, &mut read) {
                more(&mut crowd, error);
            }
            while let Err(error) = snapshot.slice::<u64>("tracked").and(snapshot.slice::<u64>("loaned")) {
                more(&mut crowd, error);
            }
            if snapshot.variable("extra").is_ok() {
                while let Err(error) = snapshot.slice::<u64>("extra") {
                    more(&mut crowd, error);
                }
            }
            check_play(&snapshot);
        }
        failed += failures;
        play.region.unlink().unwrap();
    }
    assert!(failed > 5, "{failed}");
}

#[test]
fn running_out_of_mappings_is_an_error_wherever_it_happens() {
    let _watchdog = watchdog(600);
    let dir = Dir::new("mappings");
    helper::run("few_mappings", &[dir.path().to_str().unwrap()]);
}

/// Publishes that fail for want of mappings, wherever: what was dirty is part of the next version all the same.
fn mappings_in_collection(arguments: &[String]) {
    let dir = Path::new(&arguments[0]);
    for tracker in trackers() {
        let mut crowd = Crowd::new();
        let mut region = Region::options().dir(dir).tracker(tracker).threads(1).keep(3).create("r").unwrap();
        let array = region.array::<u64>("a", &[100 * 512]).unwrap();
        let tracked = region.track::<u64>("t").unwrap();
        let mut buffer = vec![0u64; 100 * 512 + 300];
        let mut failures = 0;
        for version in 1..60 {
            region.slice_mut(&array)[version as usize * 512] = version;
            // Pages at the ends of an array are compared with the planes they lie in, which takes a mapping of each.
            buffer[100] = version;
            buffer[version as usize * 512] = version;
            let end = buffer.len() - 7;
            buffer[end - 1] = version;
            if version > 3 {
                crowd.leave(0);
            }
            let slice = &buffer[100..end];
            if let Err(error) = region.publish(version).tracked(&tracked, slice, &[slice.len()]).commit() {
                check_no_mappings(error);
                failures += 1;
                crowd.leave(100);
                region.publish(version).tracked(&tracked, slice, &[slice.len()]).commit().unwrap();
            }
            crowd.leave(100);
            let snapshot = Observer::options().dir(dir).open("r").unwrap().newest().unwrap();
            assert!(snapshot.slice::<u64>("a").unwrap() == region.slice(&array), "version {version}");
            assert!(snapshot.slice::<u64>("t").unwrap() == slice, "version {version}");
        }
        helper::say(&format!("{tracker} {failures}"));
        region.unlink().unwrap();
    }
}

#[test]
fn a_publish_without_mappings_forgets_no_dirty_page() {
    // Of an arena planes are not mapped by themselves.
    if common::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(600);
    let dir = Dir::new("collection");
    let said = helper::run("mappings_in_collection", &[dir.path().to_str().unwrap()]);
    assert!(said.iter().any(|line| !line.ends_with(" 0")), "{said:?}");
}

/// Loans that fail take nothing with them.
fn mappings_for_loans(arguments: &[String]) {
    let dir = Path::new(&arguments[0]);
    let mut region = Region::options().dir(dir).threads(1).create("r").unwrap();
    let loaned = region.loaned::<u64>("l", &[100 * 512]).unwrap();
    let mut crowd = Crowd::new();
    for version in 1..40 {
        crowd.leave(0);
        if let Err(error) = region.loan(&loaned) {
            check_no_mappings(error);
        }
        crowd.leave(50);
        let mut loan = region.loan(&loaned).unwrap();
        loan.fill(version);
        loan.submit();
        region.publish(version).commit().unwrap();
    }
    assert!(region.statistics().plane_bytes <= 3 * 100 * 4096, "{:?}", region.statistics());
    region.unlink().unwrap();
}

#[test]
fn a_loan_that_cannot_be_mapped_takes_no_memory() {
    let _watchdog = watchdog(600);
    let dir = Dir::new("loans");
    helper::run("mappings_for_loans", &[dir.path().to_str().unwrap()]);
}

/// Pieces are handed out of maps that were there when the first was asked for, or that is an error: none of them is zeros
/// because it could not be mapped.
fn mappings_for_chunks(arguments: &[String]) {
    let dir = Path::new(&arguments[0]);
    let mut region = Region::options().dir(dir).threads(1).keep(4).create("r").unwrap();
    let array = region.array::<u64>("a", &[100 * 512]).unwrap();
    let mut held = Vec::new();
    for version in 1..5 {
        // Each version has pages of its own in another plane, and some are never written.
        region.slice_mut(&array)[..90 * 512]
            .iter_mut()
            .step_by(version * 512)
            .for_each(|value| *value = version as u64);
        region.publish(version as u64).commit().unwrap();
        held.push(Observer::options().dir(dir).open("r").unwrap().newest().unwrap());
    }
    let expected = region.slice(&array).to_vec();
    let (mut crowd, mut failures) = (Crowd::new(), 0);
    for pairs in (0..8).rev() {
        crowd.leave(100);
        let snapshot = Observer::options().dir(dir).open("r").unwrap().newest().unwrap();
        crowd.leave(pairs);
        match snapshot.chunks("a") {
            Ok(chunks) => {
                crowd.leave(0);
                let mut found = vec![u64::MAX; expected.len()];
                for chunk in chunks {
                    let (first, last) = (chunk.offset / 8, (chunk.offset + chunk.bytes.len()) / 8);
                    found[first..last].copy_from_slice(bytemuck::cast_slice(chunk.bytes));
                }
                assert!(found == expected, "{pairs}");
            }
            Err(error) => {
                check_no_mappings(error);
                // What goes through the files needs no mapping.
                let mut found = vec![u64::MAX; expected.len()];
                snapshot.read("a", 0, bytemuck::cast_slice_mut(&mut found)).unwrap();
                assert!(found == expected, "{pairs}");
                failures += 1;
            }
        }
    }
    assert!((1..8).contains(&failures), "{failures}");
    crowd.leave(100);
    region.unlink().unwrap();
}

#[test]
fn pieces_that_cannot_be_mapped_are_an_error_and_not_zeros() {
    // Of an arena planes are not mapped by themselves.
    if common::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(600);
    let dir = Dir::new("chunks");
    helper::run("mappings_for_chunks", &[dir.path().to_str().unwrap()]);
}

#[test]
fn helper_process() {
    assert_eq!(PLAY_BYTES / 4096, (600 + 41 + 20 + 5 + 3) as u64);
    helper::enter(&[
        ("full_after", full_after),
        ("full_before", full_before),
        ("full_recovery", full_recovery),
        ("full_compaction", full_compaction),
        ("full_sharing", full_sharing),
        ("full_rules", full_rules),
        ("full_loan", full_loan),
        ("full_wait", full_wait),
        ("full_by_rule", full_by_rule),
        ("full_of_others", full_of_others),
        ("full_tables", full_tables),
        ("full_loans", full_loans),
        ("few_files", few_files),
        ("little_memory", little_memory),
        ("few_mappings", few_mappings),
        ("mappings_in_collection", mappings_in_collection),
        ("mappings_for_loans", mappings_for_loans),
        ("mappings_for_chunks", mappings_for_chunks),
        ("sixteen", sixteen),
        ("aside", aside_makes_room),
        ("aside_with_notes", aside_with_notes),
    ]);
}

/// Publishes 16 MiB of one number, and waits to be killed.
fn sixteen(arguments: &[String]) {
    let (mut region, array) = open_sixteen(Region::options().dir(&arguments[0]).fresh(true));
    region.slice_mut(&array).fill(7);
    region.publish(7).commit().unwrap();
    helper::say("published");
    helper::wait_for_word();
}

fn open_sixteen(options: RegionOptions) -> (Region, stillframe::Array<u64>) {
    let mut region = options.create("r").unwrap();
    let array = region.array::<u64>("a", &[2 << 20]).unwrap();
    (region, array)
}

/// A killed run's last version is set aside while there is room for it, and goes before the new run lacks any.
fn aside_makes_room(arguments: &[String]) {
    let small = Small::mount(&arguments[0]);
    let aside = small.path.join("r~1");
    let begin = || {
        small.empty();
        let mut killed = helper::start("sixteen", &[small.path.to_str().unwrap()]);
        killed.expect("published");
        killed.kill();
    };
    begin();
    let (mut region, array) = open_sixteen(small.options().fresh(true).rule(Rule::Fail));
    region.slice_mut(&array).fill(1);
    region.publish(1).commit().unwrap();
    let first = small.observe().newest().unwrap();
    let killed = Observer::options().dir(&small.path).open("r~1").unwrap().newest().unwrap();
    assert!(killed.slice::<u64>("a").unwrap().iter().all(|word| *word == 7));
    drop(killed);
    small.leave(1 << 20);
    region.slice_mut(&array).fill(2);
    assert_eq!(region.publish(2).commit().unwrap().outcome, Outcome::Published);
    assert!(!aside.exists());
    let newest = small.observe().newest().unwrap();
    assert!(newest.slice::<u64>("a").unwrap().iter().all(|word| *word == 2));
    // Without anything to go, there is no room.
    small.leave(1 << 20);
    region.slice_mut(&array).fill(3);
    check_no_space(region.publish(3).commit().unwrap_err());
    drop((first, newest, region));
    std::fs::remove_dir_all(small.path.join("r")).unwrap();

    // A loan finds room in the same way, and so does a region that begins.
    begin();
    let mut region = small.options().fresh(true).create("r").unwrap();
    let loaned = region.loaned::<u64>("a", &[2 << 20]).unwrap();
    small.leave(1 << 20);
    assert!(aside.exists());
    let mut loan = region.loan(&loaned).unwrap();
    assert!(!aside.exists());
    loan.fill(5);
    loan.submit();
    region.publish(5).commit().unwrap();
    drop(region);
    std::fs::remove_dir_all(small.path.join("r")).unwrap();

    begin();
    small.leave(0);
    let region = small.options().fresh(true).create("r").unwrap();
    assert!(!aside.exists());
    drop(region);
}

#[test]
fn what_a_killed_run_left_stays_only_while_there_is_room_for_it() {
    run_mounted("aside");
}

/// What somebody put beside what was set aside stays, and makes no room however often it is looked at.
fn aside_with_notes(arguments: &[String]) {
    let small = Small::mount(&arguments[0]);
    let mut killed = helper::start("sixteen", &[small.path.to_str().unwrap()]);
    killed.expect("published");
    killed.kill();
    let (mut region, array) = open_sixteen(small.options().fresh(true).rule(Rule::Fail));
    let notes = small.path.join("r~1/notes.txt");
    std::fs::write(&notes, "it crashed at step 7").unwrap();
    small.leave(1 << 20);
    region.slice_mut(&array).fill(1);
    region.publish(1).commit().unwrap();
    let first = small.observe().newest().unwrap();
    small.leave(0);
    region.slice_mut(&array).fill(2);
    check_no_space(region.publish(2).commit().unwrap_err());
    assert_eq!(std::fs::read_to_string(notes).unwrap(), "it crashed at step 7");
    drop((first, region));
}

#[test]
fn what_lies_beside_a_run_that_was_set_aside_is_no_room() {
    run_mounted("aside_with_notes");
}
