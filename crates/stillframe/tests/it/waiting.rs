//! Producers without room: how long they wait, what they leave out, and that everybody can see it.

#![allow(unsafe_code)]

use crate::helper;

use crate::common::{Dir, HeadFile, watchdog};
use crate::helper::{command, say, start, until};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use stillframe::inspect::{self, RegionInfo, State};
use stillframe::{Array, Error, Observer, Outcome, Region, RegionOptions, Rule, Snapshot};
use stillframe_kernel::remark::QUIET;
use stillframe_segment::head;

const PAGES: usize = 64;
const WORDS: usize = PAGES * 512;
const BYTES: u64 = (PAGES * 4096) as u64;
/// More publishes than there is time for if each of them waited.
const MANY: u64 = 1000;
const LIMIT: Duration = Duration::from_millis(400);

/// A region whose versions are written whole, with room for two of them, the older one of which is held.
struct Crowded {
    region: Region,
    array: Array<u64>,
    dir: std::path::PathBuf,
    held: Option<Snapshot>,
}

impl Crowded {
    fn new(options: RegionOptions) -> Crowded {
        let dir = options.directory().to_path_buf();
        let mut region = options.bound_bytes(2 * BYTES).create("r").unwrap();
        let array = region.array("a", &[WORDS]).unwrap();
        let mut crowded = Crowded { region, array, dir, held: None };
        crowded.crowd(1);
        crowded
    }

    /// Publishes two versions and holds the first of them.
    fn crowd(&mut self, version: u64) {
        assert_eq!(self.publish(version), Outcome::Published);
        self.held = Some(self.newest());
        assert_eq!(self.publish(version + 1), Outcome::Published);
    }

    fn publish(&mut self, version: u64) -> Outcome {
        self.region.slice_mut(&self.array).fill(version);
        self.region.publish(version).commit().unwrap().outcome
    }

    fn newest(&self) -> Snapshot {
        Observer::options().dir(&self.dir).open("r").unwrap().newest().unwrap()
    }

    fn info(&self) -> RegionInfo {
        info(&self.dir)
    }
}

fn info(dir: &Path) -> RegionInfo {
    inspect::region(dir, "r").unwrap()
}

fn now_ns() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
}

#[test]
fn the_default_is_to_wait_for_a_second_and_then_to_skip() {
    let _watchdog = watchdog(120);
    assert_eq!(Rule::default(), Rule::WaitThenSkip { limit: Duration::from_secs(1) });
    let dir = Dir::new("default");
    let mut crowded = Crowded::new(dir.options());
    let begin = Instant::now();
    assert_eq!(crowded.publish(3), Outcome::Skipped);
    assert!(begin.elapsed() >= Duration::from_secs(1));
    assert!((4..MANY).all(|version| crowded.publish(version) == Outcome::Skipped));
    assert_eq!(crowded.region.statistics().skipped, MANY - 3);
}

#[test]
fn a_limit_is_for_all_publishes_since_the_newest_version() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("limit");
    let mut crowded = Crowded::new(dir.options().rule(Rule::WaitThenSkip { limit: LIMIT }));
    for first in [3, 10_000] {
        let (begin, begin_ns) = (Instant::now(), now_ns());
        for version in first..first + MANY {
            assert_eq!(crowded.publish(version), Outcome::Skipped);
        }
        assert!(begin.elapsed() >= LIMIT);
        let info = crowded.info();
        assert_eq!((info.skipping, info.waiting_ns), (MANY, None));
        assert!((begin_ns + LIMIT.as_nanos() as u64..=now_ns()).contains(&info.skipping_ns.unwrap()));
        // What was written meanwhile is part of the next version, after which waiting begins anew.
        crowded.held = None;
        crowded.region.publish(first + MANY).commit().unwrap();
        let snapshot = crowded.newest();
        assert!(snapshot.slice::<u64>("a").unwrap().iter().all(|element| *element == first + MANY - 1));
        drop(snapshot);
        let info = crowded.info();
        assert_eq!((info.skipping, info.skipping_ns), (0, None));
        crowded.crowd(first + MANY + 1);
    }
}

#[test]
fn a_holder_that_lets_go_in_time_costs_no_version() {
    let _watchdog = watchdog(240);
    let dir = Dir::new("in-time");
    let limit = Duration::from_secs(300);
    let mut crowded = Crowded::new(dir.options().rule(Rule::WaitThenSkip { limit }));
    let held = crowded.held.take();
    let waited_for = dir.path().to_path_buf();
    let thread = std::thread::spawn(move || {
        until("the producer to wait", || info(&waited_for).waiting_ns.is_some());
        drop(held);
    });
    assert_eq!(crowded.publish(3), Outcome::Published);
    thread.join().unwrap();
    assert_eq!(crowded.region.statistics().skipped, 0);
}

#[test]
fn a_loan_waits_as_a_publish_does_and_is_then_an_error_that_names_the_sizes() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("loan");
    for rule in [Rule::WaitThenSkip { limit: LIMIT }, Rule::Skip, Rule::Wait { timeout: Some(LIMIT) }] {
        let mut region = dir.options().fresh(true).rule(rule).bound_bytes(2 * BYTES).create("r").unwrap();
        let loaned = region.loaned::<u64>("l", &[WORDS]).unwrap();
        let mut held = Vec::new();
        for version in 1..3 {
            region.loan(&loaned).unwrap().submit();
            region.publish(version).commit().unwrap();
            held.push(dir.observe("r").newest().unwrap());
        }
        let begin = Instant::now();
        // Who would have to wait is asked first.
        let at_once = region.loan_bytes_within(loaned.id(), Duration::ZERO);
        assert_eq!(matches!(at_once, Ok(None)), rule != Rule::Skip, "{rule:?}");
        drop(at_once);
        let error = region.loan(&loaned).unwrap_err();
        assert!(begin.elapsed() >= LIMIT || rule == Rule::Skip, "{rule:?}");
        let Error::Bound { used_bytes, needed_bytes, bound_bytes, held: 1, .. } = error else { panic!("{error}") };
        assert_eq!((used_bytes, needed_bytes, bound_bytes), (2 * BYTES, BYTES, 2 * BYTES));
        if let Rule::WaitThenSkip { .. } = rule {
            // Nothing is left to wait for, neither for loans nor for publishes.
            assert!((0..MANY).all(|_| matches!(region.loan(&loaned), Err(Error::Bound { .. }))));
        }
        held.remove(0);
        region.loan(&loaned).unwrap().submit();
        assert_eq!(region.publish(3).commit().unwrap().outcome, Outcome::Published);
        drop(held);
        region.unlink().unwrap();
    }
}

#[test]
fn a_producer_that_waits_is_seen_and_so_is_who_is_in_its_way() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("seen");
    let mut crowded = Crowded::new(dir.options().rule(Rule::Wait { timeout: None }));
    assert_eq!(crowded.info().waiting_ns, None);
    let begin_ns = now_ns();
    let held = crowded.held.take();
    std::thread::scope(|scope| {
        let publishing = scope.spawn(|| crowded.publish(3));
        until("the producer to wait", || info(dir.path()).waiting_ns.is_some());
        assert!((begin_ns..=now_ns()).contains(&info(dir.path()).waiting_ns.unwrap()));
        let holders = inspect::holders(dir.path(), "r").unwrap();
        let found: Vec<_> = holders.iter().map(|holder| (holder.pid, holder.version, holder.versions)).collect();
        assert_eq!(found, [(Some(std::process::id() as i32), Some(1), 1)]);
        drop(held);
        assert_eq!(publishing.join().unwrap(), Outcome::Published);
    });
    assert_eq!(crowded.info().waiting_ns, None);
}

#[test]
fn all_that_a_process_holds_is_one_holder() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("holders");
    let mut region = dir.options().create("r").unwrap();
    let array = region.array::<u64>("a", &[WORDS]).unwrap();
    let mut held = Vec::new();
    for version in 5..25 {
        region.slice_mut(&array)[0] = version;
        region.publish(version).commit().unwrap();
        // The same one twice, through openings of their own.
        held.extend([dir.observe("r").newest().unwrap(), dir.observe("r").newest().unwrap()]);
    }
    let holders = inspect::holders(dir.path(), "r").unwrap();
    let [holder] = &holders[..] else { panic!("{holders:?}") };
    assert_eq!((holder.pid, holder.version, holder.versions), (Some(std::process::id() as i32), Some(5), 20));
    assert!(holder.to_string().ends_with(&format!("({}) holds 20 versions", std::process::id())), "{holder}");
}

/// Waits in slices until the limit is over, as one wait; the number of the slices that ended before.
fn count_slices(crowded: &mut Crowded, slice: Duration) -> usize {
    let (begin, mut slices) = (Instant::now(), 0);
    let mut since = None;
    let error = loop {
        match crowded.region.publish(3).commit_within(slice) {
            Ok(None) => slices += 1,
            Ok(Some(published)) => panic!("{published:?}"),
            Err(error) => break error,
        }
        let waiting_ns = crowded.info().waiting_ns;
        assert!(waiting_ns.is_some() && since.is_none_or(|since| since == waiting_ns), "{since:?}, {waiting_ns:?}");
        since = Some(waiting_ns);
    };
    assert!(begin.elapsed() >= LIMIT, "{:?}", begin.elapsed());
    assert!(matches!(error, Error::Bound { held: 1, .. }), "{error}");
    slices
}

#[test]
fn a_wait_in_slices_is_one_wait() {
    let _watchdog = watchdog(60);
    let slice = Duration::from_millis(20);
    let dir = Dir::new("slices");
    let mut crowded = Crowded::new(dir.options().rule(Rule::Wait { timeout: Some(LIMIT) }));
    crowded.region.slice_mut(&crowded.array).fill(3);
    // A machine that stops for the whole limit leaves room for one slice only: the same again then.
    while count_slices(&mut crowded, slice) < 2 {}
    assert_eq!(crowded.info().waiting_ns, None);
    // Given up in the middle.
    assert!(crowded.region.publish(3).commit_within(slice).unwrap().is_none());
    assert!(crowded.info().waiting_ns.is_some());
    crowded.region.stop_waiting();
    assert_eq!(crowded.info().waiting_ns, None);
    crowded.held = None;
    assert!(crowded.region.publish(3).commit_within(slice).unwrap().is_some());
}

fn rule(name: &str) -> Rule {
    match name {
        "wait" => Rule::Wait { timeout: None },
        _ => Rule::WaitThenSkip { limit: Duration::from_millis(100) },
    }
}

/// Finds no room, twice, and lets go of what it holds when it is told to.
fn crowd(arguments: &[String]) {
    // As in a program that is not written in Rust.
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let mut crowded = Crowded::new(Region::options().dir(&arguments[0]).rule(rule(&arguments[1])));
    for version in [3, 13] {
        let held = crowded.held.take();
        let lets_go = std::thread::spawn(move || {
            helper::wait_for_word();
            drop(held);
        });
        while crowded.publish(version) == Outcome::Skipped {}
        lets_go.join().unwrap();
        say("went on");
        crowded.crowd(version + 1);
    }
    helper::wait_for_word();
}

/// What it says on standard error.
fn listen(rule: &str, quiet: Option<&str>, expected: usize) -> Vec<String> {
    let dir = Dir::new("said");
    let path = dir.path().join("err");
    let mut command = command("crowd", &[dir.path().to_str().unwrap(), rule]);
    match quiet {
        Some(quiet) => command.env(QUIET, quiet),
        None => command.env_remove(QUIET),
    };
    let mut helper = helper::Helper::start({
        command.stderr(File::create(&path).unwrap());
        command
    });
    let lines = || -> Vec<String> { std::fs::read_to_string(&path).unwrap().lines().map(String::from).collect() };
    for round in 1..=2 {
        until("the producer to have no room", || info_of(dir.path(), |info| is_stuck(info, rule)));
        match expected {
            // As long as it takes to be said, and longer.
            0 => std::thread::sleep(Duration::from_millis(if rule == "wait" { 2300 } else { 300 })),
            _ => until("a line", || lines().len() >= round * expected / 2),
        }
        helper.tell();
        helper.expect("went on");
    }
    let pid = helper.pid();
    helper.tell();
    helper.finish();
    lines().iter().map(|line| line.replace(&pid.to_string(), "PID")).collect()
}

fn is_stuck(info: &RegionInfo, rule: &str) -> bool {
    if rule == "wait" { info.waiting_ns.is_some() } else { info.skipping > 3 }
}

fn info_of(dir: &Path, is_so: impl Fn(&RegionInfo) -> bool) -> bool {
    inspect::region(dir, "r").is_ok_and(|info| is_so(&info))
}

#[test]
fn a_long_wait_is_said_once() {
    let _watchdog = watchdog(120);
    // At the same time, as what is awaited is a clock.
    let (lines, quiet) = std::thread::scope(|scope| {
        let quiet = scope.spawn(|| listen("wait", Some("1"), 0));
        (listen("wait", None, 2), quiet.join().unwrap())
    });
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in &lines {
        assert!(line.starts_with("stillframe: region 'r' has waited for room for 2 s: "), "{line}");
        assert!(
            line.contains(" (PID) holds version ") && line.ends_with("'still show r' tells who holds what"),
            "{line}"
        );
    }
    assert_eq!(quiet, [""; 0]);
}

#[test]
fn versions_that_are_left_out_are_said_once_until_there_is_room() {
    let _watchdog = watchdog(120);
    for quiet in [None, Some(""), Some("0")] {
        let lines = listen("default", quiet, 2);
        assert_eq!(lines.len(), 2, "{lines:?}");
        for (line, version) in lines.iter().zip([3, 13]) {
            let begin = "stillframe: region 'r' has no room after waiting ";
            // The time that it really took.
            let (seconds, rest) = line.strip_prefix(begin).and_then(|rest| rest.split_once(" s, ")).unwrap_or_default();
            assert!(seconds.parse::<f64>().is_ok_and(|seconds| seconds >= 0.1), "{line}");
            assert!(rest.starts_with(&format!("and leaves out version {version} and those after it")), "{line}");
            assert!(line.contains(" (PID) holds version "), "{line}");
        }
    }
    assert_eq!(listen("default", Some("yes"), 0), [""; 0]);
}

#[test]
fn a_standard_error_that_nobody_reads_harms_nobody() {
    let _watchdog = watchdog(120);
    for is_read in [true, false] {
        let dir = Dir::new("unread");
        let (reader, mut writer) = std::io::pipe().unwrap();
        if is_read {
            // Somebody has it, and reads nothing of it: it is full.
            let bytes = {
                use std::os::fd::AsRawFd;
                // SAFETY: the call takes numbers only.
                unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_GETPIPE_SZ) }
            };
            std::io::Write::write_all(&mut writer, &vec![b'x'; bytes as usize]).unwrap();
        }
        let reader = is_read.then_some(reader);
        let mut command = command("crowd", &[dir.path().to_str().unwrap(), "default"]);
        command.env_remove(QUIET).stderr(Stdio::from(OwnedFd::from(writer)));
        let mut helper = helper::Helper::start(command);
        for _ in 0..2 {
            until("versions to be left out", || info_of(dir.path(), |info| info.skipping > 3));
            std::thread::sleep(Duration::from_millis(100));
            helper.tell();
            helper.expect("went on");
        }
        helper.tell();
        helper.finish();
        drop(reader);
    }
}

fn stuck(arguments: &[String]) {
    let mut crowded = Crowded::new(Region::options().dir(&arguments[0]).rule(rule(&arguments[1])));
    for version in 3.. {
        crowded.publish(version);
    }
}

#[test]
fn a_producer_killed_without_room_is_not_shown_as_one_that_waits() {
    let _watchdog = watchdog(60);
    for rule in ["wait", "default"] {
        let dir = Dir::new("killed");
        let mut helper = start("stuck", &[dir.path().to_str().unwrap(), rule]);
        until("the producer to have no room", || info_of(dir.path(), |info| is_stuck(info, rule)));
        helper.kill();
        let nothing = |info: RegionInfo, state| {
            assert_eq!((info.waiting_ns, info.skipping_ns, info.skipping, info.state), (None, None, 0, state));
        };
        nothing(info(dir.path()), State::Dead);
        let region = dir.options().create("r").unwrap();
        nothing(info(dir.path()), State::Live);
        // Its next producer may be of a library that does not know these words.
        let head = HeadFile::open(dir.path(), "r");
        for at in [head::WAITING_NS_AT, head::SKIPPING_NS_AT, head::SKIPPING_AT] {
            head.write(at as u64, &1000u64.to_le_bytes());
        }
        nothing(info(dir.path()), State::Live);
        region.unlink().unwrap();
    }
}

#[test]
fn helper_process() {
    helper::enter(&[("crowd", crowd), ("stuck", stuck)]);
}
