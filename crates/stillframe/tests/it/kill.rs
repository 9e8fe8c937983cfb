//! Producers and observers that are killed or stopped, at every named point and at any instant.
//!
//! Observers never see a torn version and keep what they hold; the next producer goes on with the last version that was
//! committed; memory comes back. `STILLFRAME_TEST_KILLS` is the number of kills at random instants.

use crate::helper;

use crate::common::{Dir, HeadFile, Numbers, is_in_arena, names_in, trackers, watchdog};
#[cfg(feature = "points")]
use crate::helper::command;
use crate::helper::{Helper, PLAY_BYTES, Play, attach, check_play, check_play_in_pieces, say, start, until};
use crate::seed::Seed;
use crate::tier::by_tier;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::{Duration, Instant};
use stillframe::{Error, Observer, Region, RegionOptions, Rule, Snapshot, TrackerKind, inspect};
use stillframe_segment::head;

/// Observers of these tests hold few versions, so that a producer never waits long at this bound.
const BOUND_BYTES: u64 = 4 * PLAY_BYTES;

fn options(dir: &Path, tracker: TrackerKind) -> RegionOptions {
    let options = Region::options().dir(dir).tracker(tracker).rule(Rule::Wait { timeout: None });
    options.keep(2).bound_bytes(BOUND_BYTES).threads(2)
}

/// Publishes so many versions; then once more what the rest says, after giving up the region and taking it again.
fn producer(arguments: &[String]) {
    let [dir, tracker, counts @ ..] = arguments else { panic!("{arguments:?}") };
    for count in counts {
        let mut play = Play::open(options(Path::new(dir), tracker.parse().unwrap()), "r");
        say(&format!("open {}", play.version));
        for _ in 0..count.parse::<u64>().unwrap() {
            play.step();
            say(&format!("committed {}", play.version));
        }
    }
}

/// Looks at versions in all ways until it is killed, as its arguments say: directory, seed.
fn observer(arguments: &[String]) {
    let observer = Observer::options().dir(&arguments[0]).wait(Duration::from_secs(60)).open("r").unwrap();
    let mut numbers = Numbers(arguments[1].parse().unwrap());
    let mut held: Vec<Snapshot> = Vec::new();
    say("ready");
    loop {
        let snapshot = match numbers.below(3) {
            0 => observer.newest(),
            1 => observer.newest_after(held.last().map(|held| held.version()), Some(Duration::from_millis(20))),
            _ => observer.next_after(held.first().map(|held| held.version()), Some(Duration::from_millis(20))),
        };
        match snapshot {
            Ok(snapshot) => held.push(snapshot),
            Err(Error::Timeout { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        held.iter().rev().take(1).for_each(check_play);
        if held.len() > 2 {
            let snapshot = held.remove(numbers.below(3));
            check_play_in_pieces(&snapshot);
        }
    }
}

fn start_observer(dir: &str, seeds: &mut Numbers) -> Helper {
    start("observer", &[dir, &seeds.next().to_string()])
}

/// Holds the newest version until it is killed.
fn holder(arguments: &[String]) {
    let observer = Observer::options().dir(&arguments[0]).open("r").unwrap();
    let snapshot = observer.newest().unwrap();
    check_play(&snapshot);
    say(&format!("holds {}", snapshot.version()));
    helper::wait_for_word();
}

#[test]
fn helper_process() {
    helper::enter(&[("producer", producer), ("observer", observer), ("holder", holder)]);
}

/// An observer in this process that looks at all it can and keeps some of it.
#[derive(Default)]
struct Watcher {
    observer: Option<Observer>,
    held: Vec<Snapshot>,
    newest: u64,
    seen: u64,
}

impl Watcher {
    fn look(&mut self, dir: &Path, wait: Duration) {
        if self.observer.is_none() {
            self.observer = attach(dir, "r", wait);
        }
        let Some(observer) = &self.observer else { return };
        match observer.newest_after(Some(self.newest), Some(wait)) {
            Ok(snapshot) => {
                self.newest = snapshot.version();
                check_play(&snapshot);
                self.seen += 1;
                if self.seen % 3 == 1 {
                    self.held.push(snapshot);
                }
                if self.held.len() > 2 {
                    // Before they go, those that were held longest are still what they were.
                    check_play(&self.held.remove(self.seen as usize % 2));
                }
            }
            Err(Error::Timeout { .. }) => {}
            // Nobody wakes who waits for a producer that is yet to come.
            Err(Error::ProducerGone { .. }) => std::thread::sleep(wait.min(Duration::from_millis(1))),
            Err(error) => panic!("{error}"),
        }
    }

    fn check(&self) {
        self.held.iter().for_each(check_play);
        self.held.iter().for_each(check_play_in_pieces);
    }
}

fn last_committed(lines: &[String], before: u64) -> u64 {
    let said = |line: &String| {
        line.strip_prefix("committed ").or(line.strip_prefix("open ")).and_then(|number| number.parse::<u64>().ok())
    };
    lines.iter().filter_map(said).next_back().unwrap_or(before)
}

/// What must be so after a producer was killed: nothing is damaged, and the last committed version is gone on from.
fn check_recovery(dir: &Path, tracker: TrackerKind, watcher: &mut Watcher, committed: u64, steps: usize) -> Play {
    watcher.check();
    match inspect::region(dir, "r").map(|info| info.state) {
        Ok(inspect::State::Dead) => assert_eq!(inspect::verify(dir, "r").unwrap(), []),
        Ok(inspect::State::Incomplete) | Err(Error::NoRegion { .. }) => assert_eq!(committed, 0),
        other => panic!("{other:?}"),
    }
    let mut play = Play::open(options(dir, tracker), "r");
    // It may have died between the commit and saying so.
    assert!(play.version == committed || play.version == committed + 1, "{} after {committed}", play.version);
    assert!(play.version >= watcher.newest, "version {} was seen, {} is what is left", watcher.newest, play.version);
    watcher.check();
    for _ in 0..steps {
        play.step();
        watcher.look(dir, Duration::from_secs(10));
        assert_eq!(watcher.newest, play.version);
    }
    watcher.check();
    play
}

/// The producer's books are right, and the planes are within bounds.
fn check_memory(dir: &Path, play: &Play) {
    let planes = inspect::region(dir, "r").unwrap().planes;
    let allocated: u64 = planes.iter().map(|plane| plane.allocated_bytes).sum();
    if is_in_arena() {
        // There a plane has whole chunks, of which pages have memory.
        assert!(play.region.statistics().plane_bytes <= allocated.min(BOUND_BYTES), "{allocated} bytes of chunks");
        return;
    }
    assert_eq!(allocated, play.region.statistics().plane_bytes, "bytes behind the planes");
    assert!(allocated <= BOUND_BYTES, "{allocated} bytes behind the planes, {} of content", PLAY_BYTES);
}

fn check_end(dir: &Path, watcher: Watcher, mut play: Play) {
    let Watcher { held, observer, .. } = watcher;
    drop(held);
    for _ in 0..3 {
        play.step();
    }
    check_memory(dir, &play);
    let live = observer.unwrap().versions();
    assert_eq!(
        live.iter().map(|info| (info.version, info.retiring)).collect::<Vec<_>>(),
        [(play.version - 1, false), (play.version, false)]
    );
    play.region.unlink().unwrap();
    assert_eq!(names_in(dir), [""; 0], "unlink leaves nothing");
}

#[cfg(feature = "points")]
mod points {
    use super::*;
    use std::collections::BTreeMap;

    const COUNTS: [&str; 2] = ["45", "7"];

    fn arguments<'a>(dir: &'a str, tracker: &'a str) -> Vec<&'a str> {
        [dir, tracker].into_iter().chain(COUNTS).collect()
    }

    /// How often a producer that is let live passes each point.
    fn count(tracker: TrackerKind) -> BTreeMap<String, usize> {
        let dir = Dir::new("count");
        let log = dir.path().join("points");
        let mut command = command("producer", &arguments(dir.path().to_str().unwrap(), tracker.name()));
        Helper::start({
            command.env("STILLFRAME_COUNT_POINTS", &log);
            command
        })
        .finish();
        let mut counts = BTreeMap::new();
        for point in std::fs::read_to_string(&log).unwrap().lines() {
            *counts.entry(point.to_string()).or_default() += 1;
        }
        counts
    }

    fn die_at(tracker: TrackerKind, point: &str, occurrence: usize) -> bool {
        let dir = Dir::new("die");
        let mut command = command("producer", &arguments(dir.path().to_str().unwrap(), tracker.name()));
        command.env("STILLFRAME_DIE_AT", format!("{point}:{occurrence}"));
        let mut helper = Helper::start(command);
        let mut watcher = Watcher::default();
        let mut lines = Vec::new();
        while let Some(line) = helper.hear() {
            lines.push(line);
            watcher.look(dir.path(), Duration::ZERO);
        }
        let status = helper.wait().0;
        let died = status.signal() == Some(libc::SIGKILL);
        // What the watcher holds is retired later, so that the last occurrences may not come, and may keep the slots into
        // which pages would be compacted.
        let may_not_come = occurrence > 3 || point.starts_with("compact");
        assert!(died || status.success() && may_not_come, "{point}:{occurrence} ended with {status}");
        let play = check_recovery(dir.path(), tracker, &mut watcher, last_committed(&lines, 0), 3);
        check_end(dir.path(), watcher, play);
        died
    }

    #[test]
    fn a_producer_may_die_at_every_point() {
        let _watchdog = watchdog(900);
        let mut died = 0;
        for tracker in trackers().into_iter().filter(|kind| *kind != TrackerKind::FullCopy) {
            let counts = count(tracker);
            let expected = [
                "create.dir",
                "create.locked",
                "create.head",
                "create.tables",
                "create.done",
                "plane.created",
                "publish.begin",
                "publish.collected",
                "publish.allocate",
                "publish.started",
                "publish.joined",
                "publish.copied",
                "publish.schema",
                "publish.described",
                "publish.committed",
                "retire.begin",
                "retire.asked",
                "retire.done",
                "demote.begin",
                "demote.replaced",
                "demote.done",
                "recover.begin",
                "recover.board",
                "recover.planes",
                "recover.done",
            ];
            let is_passed = |point: &&str| match *point {
                "create.dir" => !is_in_arena(),
                // This one publishes at once what is started.
                "publish.started" | "publish.joined" => tracker != TrackerKind::PrivateCow,
                _ => true,
            };
            for point in expected.into_iter().filter(is_passed) {
                assert!(counts.contains_key(point), "{tracker}: the scenario does not pass {point}: {counts:?}");
            }
            for (point, count) in counts {
                let mut occurrences = by_tier(vec![1, 2, count], vec![1, 2, 3, count / 2, count]);
                occurrences.retain(|occurrence| (1..=count).contains(occurrence));
                occurrences.sort();
                occurrences.dedup();
                for occurrence in occurrences {
                    eprintln!("{tracker}: {point}:{occurrence} of {count}");
                    died += usize::from(die_at(tracker, &point, occurrence));
                }
            }
        }
        eprintln!("{died} producers died at points");
    }
}

#[test]
fn a_producer_may_die_at_any_instant() {
    let _watchdog = watchdog(1800);
    let kills: Option<usize> = std::env::var("STILLFRAME_TEST_KILLS").ok().and_then(|n| n.parse().ok());
    let kills = kills.unwrap_or_else(|| by_tier(50, 150));
    let all = trackers();
    let numbers = &mut Numbers(7);
    // Regions are used for a while, so that what one death leaves behind meets the next.
    for round in 0..kills.div_ceil(50) {
        let dir = Dir::new("instant");
        let mut watcher = Watcher::default();
        let mut committed = 0;
        for _ in 0..50.min(kills - round * 50) {
            let tracker = all[numbers.below(all.len())];
            let mut helper = start("producer", &[dir.path().to_str().unwrap(), tracker.name(), "1000000"]);
            let mut lines = Vec::new();
            // From the first instants of the process to many versions later.
            if numbers.below(4) > 0 {
                lines.extend(helper.hear());
            }
            let end = Instant::now() + Duration::from_micros(numbers.below(20_000) as u64);
            while Instant::now() < end {
                watcher.look(dir.path(), Duration::from_millis(1));
            }
            lines.extend(helper.kill());
            committed = last_committed(&lines, committed);
            watcher.check();
            if numbers.below(8) == 0 {
                let tracker = all[numbers.below(all.len())];
                let play = check_recovery(dir.path(), tracker, &mut watcher, committed, numbers.below(4));
                committed = play.version;
            }
        }
        let play = check_recovery(dir.path(), all[0], &mut watcher, committed, 2);
        eprintln!("round {round}: version {}, {} seen", play.version, watcher.seen);
        check_end(dir.path(), watcher, play);
    }
}

/// A death between the two stores of a commit, between which no point lies.
#[test]
fn a_commit_that_was_cut_short_is_forgotten() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("short");
    let options = || options(dir.path(), trackers()[0]);
    let mut play = Play::open(options(), "r");
    for _ in 0..5 {
        play.step();
    }
    drop(play);
    let head = HeadFile::open(dir.path(), "r");
    let read = |at: usize, bytes: &mut [u8]| head.read(at as u64, bytes);
    let mut newest = [0; 8];
    read(head::NEWEST_AT, &mut newest);
    let (sequence, slot) = (u64::from_le_bytes(newest) >> 8, usize::from(newest[0]));
    let mut descriptor = [0; head::DESCRIPTOR_BYTES];
    read(head::descriptor_at(slot), &mut descriptor);
    assert_eq!(descriptor[..8], (sequence << 8 | 1).to_le_bytes());
    // The next version is as live as can be, but not the newest.
    let free = (0..head::SLOTS).find(|slot| {
        let mut stamp = [0; 1];
        read(head::descriptor_at(*slot), &mut stamp);
        stamp == [0]
    });
    descriptor[..8].copy_from_slice(&((sequence + 1) << 8 | 1).to_le_bytes());
    descriptor[8..16].copy_from_slice(&6u64.to_le_bytes());
    head.write(head::descriptor_at(free.unwrap()) as u64, &descriptor);
    let observer = dir.observe("r");
    assert_eq!(observer.newest().unwrap().version(), 5);
    assert_eq!(observer.versions().last().unwrap().version, 5);
    assert!(matches!(observer.version(6), Err(Error::VersionGone { .. })));
    let mut play = Play::open(options(), "r");
    assert_eq!(play.version, 5);
    play.step();
    check_play(&observer.newest().unwrap());
    assert_eq!(observer.newest().unwrap().version(), 6);
}

#[test]
fn observers_may_die_at_any_instant() {
    let _watchdog = watchdog(600);
    let dir = Dir::new("observers");
    let numbers = &mut Numbers(8);
    // With this rule the producer waits for nobody.
    let rule = |options: RegionOptions| options.rule(Rule::Fail);
    let mut play = Play::open(rule(options(dir.path(), trackers()[0]).bound_bytes(20 * PLAY_BYTES)), "r");
    play.step();
    let (path, seeds) = (dir.path().to_str().unwrap(), &mut Numbers(Seed::first(1)));
    let mut helpers: Vec<Helper> = (0..4).map(|_| start_observer(path, seeds)).collect();
    for _ in 0..60 {
        let index = numbers.below(helpers.len());
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(numbers.below(15_000) as u64) {
            play.step();
        }
        let mut helper = std::mem::replace(&mut helpers[index], start_observer(path, seeds));
        helper.signal(libc::SIGKILL);
        // It did not end by itself, as it would on seeing something wrong.
        assert_eq!(helper.wait().0.signal(), Some(libc::SIGKILL));
    }
    for mut helper in helpers {
        helper.expect("ready");
        helper.kill();
    }
    assert_eq!(inspect::holders(dir.path(), "r").unwrap(), []);
    for _ in 0..3 {
        play.step();
    }
    let observer = dir.observe("r");
    assert!(observer.versions().iter().all(|info| !info.retiring), "the dead hold nothing");
    drop(play);
    // A bound asks for what the dead held.
    let mut play = Play::open(rule(options(dir.path(), trackers()[0])), "r");
    for _ in 0..3 {
        play.step();
    }
    check_memory(dir.path(), &play);
}

#[test]
fn a_stopped_observer_keeps_its_version_and_stops_nobody() {
    let _watchdog = watchdog(600);
    let dir = Dir::new("stopped");
    let path = dir.path().to_str().unwrap();
    let mut play = Play::open(options(dir.path(), trackers()[0]).bound_bytes(20 * PLAY_BYTES).rule(Rule::Fail), "r");
    play.step();
    let mut helper = start("holder", &[path]);
    helper.expect("holds 1");
    helper.stop();
    // Others that are stopped somewhere in the middle of things.
    let seeds = &mut Numbers(Seed::first(1));
    let mut others: Vec<Helper> = (0..3).map(|_| start_observer(path, seeds)).collect();
    for other in &mut others {
        other.expect("ready");
        play.step();
        std::thread::sleep(Duration::from_millis(3));
        other.stop();
    }
    for _ in 0..40 {
        play.step();
    }
    std::thread::sleep(Duration::from_millis(30));
    let holders = inspect::holders(dir.path(), "r").unwrap();
    let holder = holders.iter().find(|holder| holder.pid == Some(helper.pid())).unwrap();
    assert_eq!((holder.state, holder.version), ('T', Some(1)));
    assert!(holder.age_ms >= Some(30), "{holder:?}");
    assert!(holder.command.is_some());
    assert_eq!(holders[0], *holder, "who holds longest comes first");
    let version = |version| inspect::region(dir.path(), "r").unwrap().versions.iter().any(|v| v.version == version);
    assert!(version(1));
    for other in others {
        other.signal(libc::SIGCONT);
    }
    // What it held while it stood still is whole.
    helper.signal(libc::SIGCONT);
    helper.stop();
    helper.kill();
    until("the hold to end", || inspect::holders(dir.path(), "r").unwrap().is_empty());
    play.step();
    assert!(!version(1));
}
