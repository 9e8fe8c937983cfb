//! Groups of ranks: processes that publish each at its own speed, die and begin again, and observers that see them as one.

use crate::common;
use crate::helper;

use crate::common::{Dir, HeadFile, Numbers, names_in, watchdog};
use crate::helper::{Helper, say, start, until};
use std::path::Path;
use std::time::Duration;
use stillframe::{
    Array, Error, Family, Group, GroupSnapshot, Observer, Outcome, RankState, Region, RegionOptions, Rule, Snapshot,
    inspect,
};

const PAGES: usize = 16;
const WORDS: usize = PAGES * 512;
const BYTES: u64 = (PAGES * 4096) as u64;
const LONG: Option<Duration> = Some(Duration::from_secs(60));

fn content(rank: usize, version: u64) -> u64 {
    version << 16 | rank as u64
}

/// A rank with one array, all of which every version writes.
struct Rank {
    region: Region,
    array: Array<u64>,
    rank: usize,
}

impl Rank {
    fn open(options: RegionOptions, rank: usize, ranks: usize) -> Rank {
        let mut region = options.rank(rank as u32, ranks as u32).create("g").unwrap();
        let array = region.array("a", &[WORDS]).unwrap();
        Rank { region, array, rank }
    }

    fn publish(&mut self, version: u64) {
        let rank = self.rank;
        self.region.slice_mut(&self.array).fill(content(rank, version));
        let published = self.region.publish(version).commit().unwrap();
        assert_eq!(published.outcome, Outcome::Published);
    }
}

fn open_all(dir: &Dir, ranks: usize) -> Vec<Rank> {
    (0..ranks).map(|rank| Rank::open(dir.options(), rank, ranks)).collect()
}

fn group(dir: &Path) -> Group {
    Group::options().dir(dir).open("g").unwrap()
}

fn check(snapshot: &GroupSnapshot) {
    for (rank, part) in snapshot.ranks().iter().enumerate() {
        assert_eq!((part.version(), part.region()), (snapshot.version(), format!("g/{rank}").as_str()));
        check_rank(part, rank);
    }
}

fn check_rank(snapshot: &Snapshot, rank: usize) {
    let expected = content(rank, snapshot.version());
    assert!(snapshot.slice::<u64>("a").unwrap().iter().all(|word| *word == expected));
}

/// Publishes versions up to `last` with pauses, as its arguments say: directory, rank, ranks, last, most pause in µs, and if
/// there is one more, after how many versions it waits each time until it is told to go on.
fn rank_process(arguments: &[String]) {
    let [dir, numbers @ ..] = arguments else { panic!("{arguments:?}") };
    let numbers: Vec<usize> = numbers.iter().map(|n| n.parse().unwrap()).collect();
    let [rank, ranks, last, pause, ref together @ ..] = numbers[..] else { panic!("{arguments:?}") };
    let mut rank = Rank::open(Region::options().dir(dir), rank, ranks);
    let first = rank.region.recovered().map_or(1, |version| version + 1);
    say(&format!("begins {first}"));
    let mut numbers = Numbers(rank.rank as u64);
    for version in first..=last as u64 {
        rank.publish(version);
        say(&format!("published {version}"));
        if pause > 0 {
            std::thread::sleep(Duration::from_micros(numbers.below(pause) as u64));
        }
        if version < last as u64 && together.iter().any(|together| version % *together as u64 == 0) {
            helper::wait_for_word();
        }
    }
    helper::wait_for_word();
}

/// Takes over rank 0 of 2 and returns to a version, as its arguments say.
fn returning_process(arguments: &[String]) {
    let [dir, version] = arguments else { panic!("{arguments:?}") };
    drop(Rank::open(Region::options().dir(dir).rollback(version.parse().unwrap()), 0, 2));
}

/// Begins as a fresh rank and publishes one version.
fn fresh_process(arguments: &[String]) {
    let [dir, rank] = arguments else { panic!("{arguments:?}") };
    let mut rank = Rank::open(Region::options().dir(dir).fresh(true), rank.parse().unwrap(), 4);
    assert_eq!(rank.region.recovered(), None);
    rank.publish(1);
    say("published");
    helper::wait_for_word();
}

/// Looks at the group and holds two of its versions, until all ranks are gone.
fn observer_process(arguments: &[String]) {
    let group = Group::options().dir(&arguments[0]).wait(Duration::from_secs(60)).open("g").unwrap();
    let mut held: Vec<GroupSnapshot> = Vec::new();
    let mut last = 0;
    for snapshot in group.snapshots(false, LONG) {
        let snapshot = snapshot.unwrap();
        assert!(snapshot.version() > last);
        last = snapshot.version();
        check(&snapshot);
        held.push(snapshot);
        if held.len() > 2 {
            check(&held.remove(0));
        }
    }
    say(&format!("saw {last}"));
}

#[test]
fn helper_process() {
    helper::enter(&[
        ("rank", rank_process),
        ("observer", observer_process),
        ("return", returning_process),
        ("fresh", fresh_process),
    ]);
}

fn start_rank(dir: &Dir, rank: usize, ranks: usize, last: u64, pause_us: u64) -> Helper {
    start_with(dir, &[rank as u64, ranks as u64, last, pause_us])
}

fn start_with(dir: &Dir, numbers: &[u64]) -> Helper {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let dir = [dir.path().to_str().unwrap()];
    start("rank", &dir.into_iter().chain(numbers.iter().map(String::as_str)).collect::<Vec<_>>())
}

#[test]
fn observers_see_all_ranks_at_the_same_version_whatever_their_speeds() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("speeds");
    let observers: Vec<Helper> = (0..2).map(|_| start("observer", &[dir.path().to_str().unwrap()])).collect();
    // In between each goes on at its own speed; where all come together, even an observer that is starved sees what they have.
    let rank = |(rank, pause)| start_with(&dir, &[rank, 4, 400, pause, 25]);
    let mut ranks: Vec<Helper> = (0..).zip([400, 500, 600, 900]).map(rank).collect();
    let group = Group::options().dir(dir.path()).wait(Duration::from_secs(60)).open("g").unwrap();
    let mut seen = 0;
    let mut version = None;
    for together in (25..=400).step_by(25) {
        while version != Some(together) {
            let snapshot = group.next_after(version, LONG).unwrap();
            check(&snapshot);
            version = Some(snapshot.version());
            seen += 1;
        }
        if together < 400 {
            ranks.iter_mut().for_each(Helper::tell);
        }
    }
    assert!(seen > 10, "only {seen} versions were common");
    ranks.iter_mut().for_each(Helper::tell);
    ranks.into_iter().for_each(|rank| drop(rank.finish()));
    for observer in observers {
        assert_eq!(observer.finish(), ["saw 400"]);
    }
    // What was retained for the slowest is bounded, and what was held is free.
    assert_eq!(inspect::collect(dir.path()).unwrap().len(), 4);
    assert_eq!(names_in(dir.path()), [""; 0]);
}

#[test]
fn the_newest_version_that_all_have_stays_while_one_rank_waits_and_is_drawn_forward_when_it_goes_on() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("drift");
    let mut ranks = open_all(&dir, 3);
    let group = group(dir.path());
    ranks.iter_mut().for_each(|rank| rank.publish(1));
    for version in 2..200 {
        ranks[0].publish(version);
        ranks[1].publish(version);
        let snapshot = group.newest().unwrap();
        assert_eq!(snapshot.version(), 1);
        check(&snapshot);
    }
    let infos = group.ranks().unwrap();
    assert_eq!((infos[2].newest, infos[0].newest, infos[0].behind), (Some(1), Some(199), 0));
    assert_eq!(infos[2].behind, 16);
    let mut versions = vec![1];
    for version in 2..200 {
        ranks[2].publish(version);
        // The others let go of what is past when they publish.
        let snapshot = group.newest().unwrap();
        check(&snapshot);
        if versions.last() != Some(&snapshot.version()) {
            versions.push(snapshot.version());
        }
    }
    assert_eq!(versions.last(), Some(&199));
    assert_eq!(versions.len(), 17, "{versions:?}");
    assert!(versions.windows(2).all(|pair| pair[0] < pair[1]), "{versions:?}");
    ranks.iter_mut().for_each(|rank| rank.publish(200));
    ranks.iter_mut().for_each(|rank| rank.publish(201));
    let versions = |rank: usize| dir.observe(&format!("g/{rank}")).versions().len();
    assert!((0..3).all(|rank| versions(rank) <= 2));
}

#[test]
fn a_rank_that_has_not_begun_is_named() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("absent");
    let mut one = Rank::open(dir.options(), 1, 3);
    let mut two = Rank::open(dir.options(), 2, 3);
    one.publish(1);
    let group = group(dir.path());
    assert_eq!(group.size(), 3);
    let states: Vec<RankState> = group.ranks().unwrap().iter().map(|info| info.state).collect();
    assert_eq!(states, [RankState::Absent, RankState::Live, RankState::Live]);
    let error = group.newest().unwrap_err();
    assert!(matches!(error, Error::RankMissing { rank: 0, ranks: 3, begun: false, .. }), "{error}");
    let error = Group::options().dir(dir.path()).wait(Duration::from_millis(30)).open("g").unwrap_err();
    assert!(matches!(error, Error::SlowRank { rank: 0, begun: false, furthest: 1, .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("rank 0 of 3 has not begun, while rank 1 is at version 1"), "{text}");
    let mut zero = Rank::open(dir.options(), 0, 3);
    let error = group.newest().unwrap_err();
    assert!(matches!(error, Error::RankMissing { rank: 0, begun: true, .. }), "{error}");
    assert_eq!(error.family(), Family::Environment);
    (2..=9).for_each(|version| one.publish(version));
    (1..=3).for_each(|version| two.publish(version));
    (1..=2).for_each(|version| zero.publish(version));
    let snapshot = group.newest().unwrap();
    assert_eq!(snapshot.version(), 2);
    check(&snapshot);
    let error = group.newest_after(Some(2), Some(Duration::from_millis(20))).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("ms for a version above 2 of group 'g': rank 0 of 3 is slowest, at version 2"), "{text}");
    assert!(text.contains("with its producer alive, while rank 1 is at version 9"), "{text}");
    let error = group.version(3).unwrap_err();
    assert!(matches!(&error, Error::VersionGone { region, newest: Some(2), .. } if region == "g/0"), "{error}");
    check(&group.version(2).unwrap());
}

#[test]
fn a_rank_that_dies_is_named_and_nobody_waits_for_it() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("dies");
    let mut dying = start_rank(&dir, 2, 3, 10, 0);
    dying.expect("begins 1");
    (1..=10).for_each(|version| dying.expect(&format!("published {version}")));
    let mut ranks: Vec<Rank> = (0..2).map(|rank| Rank::open(dir.options(), rank, 3)).collect();
    let group = group(dir.path());
    (1..=12).for_each(|version| ranks.iter_mut().for_each(|rank| rank.publish(version)));
    let held = group.newest().unwrap();
    assert_eq!(held.version(), 10);
    let watcher = {
        let group = group.clone();
        std::thread::spawn(move || group.newest_after(Some(10), LONG).unwrap_err())
    };
    dying.kill();
    let error = watcher.join().unwrap();
    assert!(matches!(error, Error::RankGone { rank: 2, ranks: 3, newest: Some(10), .. }), "{error}");
    assert!(error.to_string().contains("rank 2 of 3 of group 'g' is gone: its newest is version 10"), "{error}");
    assert_eq!(group.ranks().unwrap()[2].state, RankState::Dead);
    let mut snapshots = group.snapshots(false, LONG);
    assert_eq!(snapshots.next().unwrap().unwrap().version(), 10);
    assert!(matches!(snapshots.next(), Some(Err(Error::RankGone { rank: 2, .. }))));
    assert!(snapshots.next().is_none());
    // The others go on. Soon they retain nothing for the dead but what all have.
    std::thread::sleep(Duration::from_millis(30));
    (13..=100).for_each(|version| ranks.iter_mut().for_each(|rank| rank.publish(version)));
    check(&held);
    check(&group.newest().unwrap());
    let versions: Vec<u64> = dir.observe("g/0").versions().iter().map(|info| info.version).collect();
    assert_eq!(versions, [10, 100]);
    // Its next producer goes on, and so does the group when it has caught up.
    let mut again = Rank::open(dir.options(), 2, 3);
    assert_eq!(again.region.recovered(), Some(10));
    (101..=103).for_each(|version| ranks.iter_mut().for_each(|rank| rank.publish(version)));
    std::thread::sleep(Duration::from_millis(30));
    (104..=106).for_each(|version| ranks.iter_mut().for_each(|rank| rank.publish(version)));
    (11..=106).for_each(|version| again.publish(version));
    let snapshot = group.newest_after(Some(10), LONG).unwrap();
    assert_eq!(snapshot.version(), 106);
    check(&snapshot);
}

#[test]
fn a_rank_that_ended_long_before_the_others_is_no_accident() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("early");
    let mut ranks: Vec<Rank> = (0..2).map(|rank| Rank::open(dir.options(), rank, 2)).collect();
    let (mut slow, mut fast) = (ranks.pop().unwrap(), ranks.pop().unwrap());
    (1..=3).for_each(|version| fast.publish(version));
    drop(fast);
    // Longer than observers wait for ranks that end apart.
    std::thread::sleep(Duration::from_millis(10_100));
    (1..=3).for_each(|version| slow.publish(version));
    let group = group(dir.path());
    let mut snapshots = group.snapshots(false, LONG);
    assert_eq!(snapshots.next().unwrap().unwrap().version(), 3);
    let rest = std::thread::spawn(move || snapshots.count());
    std::thread::sleep(Duration::from_millis(50));
    drop(slow);
    assert_eq!(rest.join().unwrap(), 0);
}

#[test]
fn memory_at_its_bound_takes_what_is_retained_before_anybody_waits() {
    let _watchdog = watchdog(300);
    for rule in [Rule::Fail, Rule::Skip, Rule::Wait { timeout: None }] {
        let dir = Dir::new("bound");
        let mut ranks: Vec<Rank> =
            (0..2).map(|rank| Rank::open(dir.options().bound_bytes(6 * BYTES).rule(rule), rank, 2)).collect();
        ranks.iter_mut().for_each(|rank| rank.publish(1));
        (2..=50).for_each(|version| ranks[0].publish(version));
        let group = group(dir.path());
        let held = group.newest().unwrap();
        assert_eq!(held.version(), 1);
        check(&held);
        assert!(inspect::region(dir.path(), "g/0").unwrap().versions.len() <= 6);
        // The slow one finds one that the fast one still has.
        let mut steps = 0;
        let mut last = 1;
        for version in 2..=50 {
            ranks[1].publish(version);
            let snapshot = group.newest().unwrap();
            check(&snapshot);
            steps += usize::from(snapshot.version() > last);
            last = snapshot.version();
        }
        assert!(last == 50 && steps >= 3, "{steps} steps to {last}");
        check(&held);
    }
}

#[test]
fn a_version_that_a_rank_leaves_out_is_never_the_groups_and_holds_no_other_rank_up() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("left-out");
    let rule = Rule::WaitThenSkip { limit: Duration::from_millis(50) };
    let mut ranks =
        [Rank::open(dir.options().bound_bytes(2 * BYTES).rule(rule), 0, 2), Rank::open(dir.options(), 1, 2)];
    for version in [1, 2] {
        ranks.iter_mut().for_each(|rank| rank.publish(version));
    }
    let group = group(dir.path());
    let held = [group.newest().unwrap(), {
        ranks.iter_mut().for_each(|rank| rank.publish(3));
        group.newest().unwrap()
    }];
    assert_eq!(held.each_ref().map(|snapshot| snapshot.version()), [2, 3]);
    for version in 4..=20 {
        ranks[1].publish(version);
        let (region, array) = (&mut ranks[0].region, ranks[0].array);
        region.slice_mut(&array).fill(content(0, version));
        assert_eq!(region.publish(version).commit().unwrap().outcome, Outcome::Skipped);
        assert_eq!(group.newest().unwrap().version(), 3);
    }
    assert_eq!(inspect::region(dir.path(), "g/0").unwrap().skipping, 17);
    held.iter().for_each(check);
    drop(held);
    ranks.iter_mut().for_each(|rank| rank.publish(21));
    assert_eq!(group.next_after(Some(3), LONG).unwrap().version(), 21);
    check(&group.newest().unwrap());
}

#[test]
fn what_all_ranks_have_goes_last_and_not_while_it_is_held() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("last");
    let open = |rank| Rank::open(dir.options().bound_bytes(2 * BYTES).rule(Rule::Fail), rank, 2);
    let mut ranks = [open(0), open(1)];
    ranks.iter_mut().for_each(|rank| rank.publish(1));
    let group = group(dir.path());
    let held = group.newest().unwrap();
    ranks[0].publish(2);
    let (region, array) = (&mut ranks[0].region, ranks[0].array);
    region.slice_mut(&array).fill(content(0, 3));
    let error = region.publish(3).commit().unwrap_err();
    assert!(matches!(error, Error::Bound { held: 1, .. }), "{error}");
    check(&held);
    assert_eq!(group.newest().unwrap().version(), 1);
    drop(held);
    ranks[0].publish(3);
    let error = group.newest().unwrap_err();
    assert!(matches!(error, Error::NoCommonVersion { slowest: 1, furthest: 0, .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("rank 1 is slowest, at version 1, and rank 0 is at version 3"), "{text}");
    (2..=3).for_each(|version| ranks[1].publish(version));
    check(&group.newest().unwrap());
}

#[test]
fn a_group_that_died_at_different_versions_returns_to_one_that_all_have() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("restart");
    let mut ranks = open_all(&dir, 3);
    (1..=20).for_each(|version| ranks.iter_mut().for_each(|rank| rank.publish(version)));
    (21..=23).for_each(|version| ranks[0].publish(version));
    (21..=22).for_each(|version| ranks[1].publish(version));
    let watching = group(dir.path());
    let newer = dir.observe("g/0").version(22).unwrap();
    drop(ranks);
    let common = watching.newest().unwrap();
    assert_eq!(common.version(), 20);
    let recovered: Vec<Option<u64>> = {
        let ranks = open_all(&dir, 3);
        ranks.iter().map(|rank| rank.region.recovered()).collect()
    };
    assert_eq!(recovered, [Some(23), Some(22), Some(20)]);
    let to = group(dir.path()).newest().unwrap().version();
    let mut ranks: Vec<Rank> = (0..3).map(|rank| Rank::open(dir.options().rollback(to), rank, 3)).collect();
    for rank in &mut ranks {
        assert_eq!((rank.region.recovered(), rank.region.newest()), (Some(20), Some(20)));
        let expected = content(rank.rank, 20);
        assert!(rank.region.slice(&rank.array).iter().all(|word| *word == expected));
    }
    assert_eq!(watching.newest().unwrap().version(), 20);
    assert!(watching.newest_after(Some(20), Some(Duration::ZERO)).is_err());
    for version in 21..=60 {
        ranks.iter_mut().for_each(|rank| rank.publish(version));
        check(&watching.newest().unwrap());
        check(&common);
        check_rank(&newer, 0);
    }
    drop((common, newer));
    for version in 61..=80 {
        ranks.iter_mut().for_each(|rank| rank.publish(version));
    }
    assert_eq!(watching.newest().unwrap().version(), 80);
    (0..3).for_each(|rank| assert_eq!(inspect::verify(dir.path(), &format!("g/{rank}")).unwrap(), []));
    drop(ranks);
    let error = dir.options().rank(1, 3).rollback(3).create("g").unwrap_err();
    assert!(matches!(error, Error::VersionGone { version: 3, newest: Some(80), .. }), "{error}");
    assert_eq!(Rank::open(dir.options().rollback(1000), 1, 3).region.recovered(), Some(80));
}

#[test]
fn what_a_run_with_more_ranks_left_is_no_part_of_the_group() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("stale");
    let mut eight = open_all(&dir, 8);
    eight.iter_mut().for_each(|rank| rank.publish(7));
    let watching = group(dir.path());
    assert_eq!((watching.size(), watching.newest().unwrap().ranks().len()), (8, 8));
    let error = dir.options().rank(0, 4).create("g").unwrap_err();
    assert!(matches!(error, Error::InUse { .. } | Error::BadOption { option: "ranks", .. }), "{error}");
    eight.remove(0);
    let error = dir.options().rank(0, 4).create("g").unwrap_err();
    let text = error.to_string();
    assert!(text.contains("option ranks: 4, but rank 1 of group 'g' lives and says 8"), "{text}");
    assert_eq!(error.family(), Family::Misuse);
    drop(eight);
    // The first of four: what the eight left has not begun.
    let mut four = vec![Rank::open(dir.options(), 0, 4)];
    assert_eq!(group(dir.path()).size(), 4);
    let error = watching.newest().unwrap_err();
    assert!(matches!(error, Error::RankMissing { rank: 1, ranks: 4, begun: false, .. }), "{error}");
    (1..4).for_each(|rank| four.push(Rank::open(dir.options(), rank, 4)));
    assert!(four.iter().all(|rank| rank.region.recovered() == Some(7)));
    four.iter_mut().for_each(|rank| rank.publish(8));
    let snapshot = watching.newest().unwrap();
    assert_eq!((snapshot.version(), snapshot.ranks().len(), watching.size()), (8, 4, 4));
    check(&snapshot);
    drop(four);
    assert_eq!(group(dir.path()).size(), 4, "the run that began last says how many");
}

/// What three ranks left of a run that came to version 9, and of which all have version 5.
fn left_at_nine(dir: &Dir) {
    let mut ranks: Vec<Rank> = (0..3).map(|rank| Rank::open(dir.options().keep(8), rank, 3)).collect();
    (1..=9).for_each(|version| ranks.iter_mut().for_each(|rank| rank.publish(version)));
}

#[test]
fn versions_of_a_rank_that_returned_alone_are_none_of_the_group() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("alone");
    left_at_nine(&dir);
    // The others of its run never began.
    let mut alone = Rank::open(dir.options().keep(8).rollback(5), 0, 3);
    (6..=8).for_each(|version| alone.publish(version));
    drop(alone);
    let watching = group(dir.path());
    check(&watching.newest().unwrap());
    assert_eq!(watching.newest().unwrap().version(), 5);
    assert_eq!(watching.versions().unwrap().last(), Some(&5));
    let error = watching.version(7).unwrap_err();
    assert!(matches!(error, Error::MixedRuns { version: 7, rank: 0, other: 1, .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("version 7 of rank 0 and of rank 1") && text.contains("'rollback'"), "{text}");

    // The next run of all has what it publishes, whoever was how far.
    let mut ranks: Vec<Rank> = (0..3).map(|rank| Rank::open(dir.options().keep(8), rank, 3)).collect();
    assert_eq!(ranks.iter().map(|rank| rank.region.newest()).collect::<Vec<_>>(), [Some(8), Some(9), Some(9)]);
    ranks[0].publish(9);
    assert_eq!(watching.newest().unwrap().version(), 5);
    ranks.iter_mut().for_each(|rank| rank.publish(10));
    assert_eq!(watching.newest().unwrap().version(), 10);
}

#[test]
fn ranks_that_begin_while_one_lives_are_of_its_run() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("joined");
    left_at_nine(&dir);
    let mut ranks: Vec<Rank> = (0..3).map(|rank| Rank::open(dir.options().keep(8).rollback(5), rank, 3)).collect();
    (6..=7).for_each(|version| ranks.iter_mut().for_each(|rank| rank.publish(version)));
    // One dies, and begins again with what it had.
    drop(ranks.remove(1));
    ranks.insert(1, Rank::open(dir.options().keep(8), 1, 3));
    (8..=9).for_each(|version| ranks.iter_mut().for_each(|rank| rank.publish(version)));
    assert_eq!(group(dir.path()).versions().unwrap(), [2, 3, 4, 5, 6, 7, 8, 9]);
    check(&group(dir.path()).newest().unwrap());
}

#[test]
fn who_returns_is_not_of_the_run_of_a_rank_that_lingers() {
    let _watchdog = watchdog(300);
    let begin: [fn(RegionOptions) -> RegionOptions; 2] = [|options| options.rollback(5), |options| options.fresh(true)];
    for (common, begin) in [Some(5), None].into_iter().zip(begin) {
        let dir = Dir::new("lingers");
        let mut ranks: Vec<Rank> = (0..3).map(|rank| Rank::open(dir.options().keep(9), rank, 3)).collect();
        (1..=9).for_each(|version| ranks.iter_mut().for_each(|rank| rank.publish(version)));
        let lingering = ranks.pop().unwrap();
        drop(ranks);
        let mut ranks: Vec<Rank> = (0..2).map(|rank| Rank::open(begin(dir.options().keep(9)), rank, 3)).collect();
        (6..=8).for_each(|version| ranks.iter_mut().for_each(|rank| rank.publish(version)));
        assert_eq!(ranks[0].region.run(), ranks[1].region.run());
        assert_eq!(group(dir.path()).newest().ok().map(|found| found.version()), common);
        // It dies at last, and its next producer is one of the new run.
        drop(lingering);
        ranks.push(Rank::open(begin(dir.options().keep(9)), 2, 3));
        ranks.iter_mut().for_each(|rank| rank.publish(10));
        check(&group(dir.path()).version(10).unwrap());
    }
}

#[test]
fn a_rank_without_versions_is_not_of_a_run_that_ended() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("ended");
    let mut ranks = open_all(&dir, 2);
    // One ends without a version, and the other goes on to its end.
    ranks.pop().unwrap().region.close().unwrap();
    (1..=4).for_each(|version| ranks[0].publish(version));
    ranks.pop().unwrap().region.close().unwrap();
    let mut again = Rank::open(dir.options(), 1, 2);
    (1..=4).for_each(|version| again.publish(version));
    let error = group(dir.path()).newest().unwrap_err();
    assert!(matches!(error, Error::MixedRuns { version: 4, .. }), "{error}");
}

#[test]
fn what_only_another_run_could_publish_is_waited_for_by_nobody() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("never");
    let mut ranks: Vec<Rank> = (0..2).map(|rank| Rank::open(dir.options().keep(8), rank, 2)).collect();
    (1..=5).for_each(|version| ranks.iter_mut().for_each(|rank| rank.publish(version)));
    (6..=8).for_each(|version| ranks[0].publish(version));
    drop(ranks);
    let _again = Rank::open(dir.options().keep(8), 1, 2);
    let error = group(dir.path()).next_after(Some(5), LONG).unwrap_err();
    assert!(matches!(error, Error::RankGone { .. }), "{error}");
}

#[test]
fn a_rank_that_is_stopped_while_it_begins_is_told_of() {
    let _watchdog = watchdog(300);
    // It is about a file of the directory.
    if common::is_in_arena() {
        return;
    }
    let dir = Dir::new("stopped");
    drop(dir.options().create("other").unwrap());
    let turn = dir.path().join(".g~run.staged");
    std::fs::create_dir(&turn).unwrap();
    let held = std::fs::File::open(turn).unwrap();
    held.lock().unwrap();
    let error = dir.options().rank(0, 2).create("g").unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Timeout { .. }) && text.contains("another rank of the group that begins"), "{text}");
    drop(held);
    drop(dir.options().rank(0, 2).create("g").unwrap());
}

#[test]
fn ranks_that_begin_at_the_same_time_are_of_one_run() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("together");
    let mut known = Vec::new();
    for round in 1..=30 {
        let began = std::sync::Barrier::new(6);
        let run = |rank| {
            began.wait();
            let mut rank = Rank::open(dir.options(), rank, 6);
            rank.publish(round);
            let run = rank.region.run();
            began.wait();
            run
        };
        let runs: Vec<_> = std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..6)
                .map(|rank| {
                    let run = &run;
                    scope.spawn(move || run(rank))
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        assert!(runs.iter().all(|run| *run == runs[0]) && !known.contains(&runs[0]), "round {round}: {runs:?}");
        check(&group(dir.path()).version(round).unwrap());
        known.push(runs[0]);
    }
}

#[test]
fn a_version_that_all_have_stays_while_others_are_of_several_runs() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("retained");
    let mut ranks = open_all(&dir, 3);
    (1..=5).for_each(|version| ranks.iter_mut().for_each(|rank| rank.publish(version)));
    (6..=8).for_each(|version| ranks[0].publish(version));
    (6..=7).for_each(|version| ranks[1].publish(version));
    drop(ranks);
    // Each goes on from its own newest one, as a program does that does not ask for one of all.
    let mut ranks = open_all(&dir, 3);
    let watching = group(dir.path());
    for version in 6..=8 {
        (0..3)
            .filter(|rank| ranks[*rank].region.newest() < Some(version))
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|rank| ranks[rank].publish(version));
        assert_eq!(watching.newest().unwrap().version(), 5, "at {version}");
    }
    ranks.iter_mut().for_each(|rank| rank.publish(9));
    assert_eq!(watching.newest().unwrap().version(), 9);
}

#[test]
fn versions_of_the_last_run_are_not_taken_for_those_of_a_fresh_one() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("fresh");
    let mut ranks = open_all(&dir, 4);
    (1..=5).for_each(|version| ranks.iter_mut().for_each(|rank| rank.publish(version)));
    let held = group(dir.path()).newest().unwrap();
    drop(ranks);
    let mut ranks = vec![Rank::open(dir.options().fresh(true), 0, 3)];
    (1..=5).for_each(|version| ranks[0].publish(version));
    let error = group(dir.path()).newest().unwrap_err();
    assert!(matches!(error, Error::RankMissing { rank: 1, ranks: 3, begun: false, .. }), "{error}");
    assert!(inspect::region(dir.path(), "g/3").is_err());
    (1..3).for_each(|rank| ranks.push(Rank::open(dir.options().fresh(true), rank, 3)));
    (1..3).for_each(|rank| ranks[rank].publish(1));
    let snapshot = group(dir.path()).newest().unwrap();
    assert_eq!((snapshot.version(), held.version()), (1, 5));
    check(&snapshot);
    check(&held);
    // Plain regions beside the ranks are nobody's run.
    drop(ranks);
    drop(dir.options().create("g/plain").unwrap());
    drop(Rank::open(dir.options().fresh(true), 0, 3));
    assert!(inspect::region(dir.path(), "g/plain").is_ok());
}

#[test]
fn all_ranks_of_a_fresh_run_may_begin_at_once() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("at-once");
    for _ in 0..10 {
        let begin = |rank: u32| start("fresh", &[dir.path().to_str().unwrap(), &rank.to_string()]);
        let mut ranks: Vec<Helper> = (0..4).map(begin).collect();
        ranks.iter_mut().for_each(|rank| rank.expect("published"));
        check(&group(dir.path()).version(1).unwrap());
        ranks.iter_mut().for_each(Helper::tell);
        ranks.into_iter().for_each(|rank| drop(rank.finish()));
    }
}

#[test]
fn a_group_and_a_region_say_which_they_are() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("which");
    let error = Group::options().dir(dir.path()).open("g").unwrap_err();
    assert!(matches!(error, Error::NoRegion { .. }), "{error}");
    let _ranks = open_all(&dir, 2);
    let error = Observer::options().dir(dir.path()).open("g").unwrap_err();
    assert!(matches!(error, Error::IsGroup { ranks: 2, .. }), "{error}");
    assert!(error.to_string().contains("one of its regions 'g/0' to 'g/1'"), "{error}");
    assert_eq!(error.family(), Family::Misuse);
    assert!(Observer::options().dir(dir.path()).open("g/1").is_ok());
    let _alone = dir.options().create("alone").unwrap();
    let error = Group::options().dir(dir.path()).open("alone").unwrap_err();
    assert!(matches!(error, Error::NotGroup { .. }), "{error}");
    let error = Group::options().dir(dir.path()).open("g/1").unwrap_err();
    assert!(matches!(error, Error::NotGroup { .. }), "{error}");
    let error = dir.options().create("g").unwrap_err();
    assert!(
        matches!(error, Error::BadName { .. }) && error.to_string().contains("regions of ranks lie below it"),
        "{error}"
    );
    let error = dir.options().rank(1, 2).create("alone").unwrap_err();
    let words = "'alone' is a region by itself, of a process that did not say which rank it is";
    assert!(matches!(error, Error::BadName { .. }) && error.to_string().contains(words), "{error}");
    for (rank, ranks, drift, option) in
        [(2, 2, 16, "rank"), (0, 0, 16, "ranks"), (0, 2, 1, "drift"), (0, 2, 33, "drift")]
    {
        let error = dir.options().rank(rank, ranks).drift(drift).create("other").unwrap_err();
        assert!(matches!(error, Error::BadOption { option: found, .. } if found == option), "{error}");
    }
    let error = dir.options().rank(0, 2).keep(32).drift(32).create("other").unwrap_err();
    assert!(matches!(error, Error::BadOption { option: "drift", .. }), "{error}");
}

#[test]
fn numbers_that_a_rank_leaves_out_are_not_waited_for() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("intervals");
    let mut ranks = open_all(&dir, 2);
    let group = group(dir.path());
    for version in 0..100 {
        ranks[0].publish(version);
        if version % 5 == 0 {
            ranks[1].publish(version);
            assert_eq!(group.newest().unwrap().version(), version);
        }
        assert!(group.newest().unwrap().version() + 5 > version);
    }
    assert!(dir.observe("g/0").versions().len() <= 6);
}

#[test]
fn a_rank_that_is_removed_by_force_and_made_anew_is_found() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("anew");
    let mut ranks = open_all(&dir, 2);
    let group = group(dir.path());
    (1..=5).for_each(|version| ranks.iter_mut().for_each(|rank| rank.publish(version)));
    inspect::remove(dir.path(), "g/1", true).unwrap();
    let mut anew = Rank::open(dir.options(), 1, 2);
    std::thread::sleep(Duration::from_millis(30));
    ranks[0].publish(6);
    ranks[0].publish(7);
    (5..=6).for_each(|version| anew.publish(version));
    let snapshot = group.newest().unwrap();
    assert_eq!(snapshot.version(), 6);
    check(&snapshot);
}

/// A rank and observers take nothing that the head of another rank says for granted.
#[test]
fn a_damaged_head_of_another_rank_harms_nobody() {
    let _watchdog = watchdog(300);
    let mut numbers = Numbers(5);
    let mut errors = 0;
    for round in 0..200 {
        let dir = Dir::new("damage");
        let mut ranks = open_all(&dir, 2);
        (1..=3).for_each(|version| ranks.iter_mut().for_each(|rank| rank.publish(version)));
        drop(ranks.pop());
        let watching = group(dir.path());
        // The words that groups read, and any others.
        let at = match round % 3 {
            0 => [56, 60, 64, 72, 256, 264][numbers.below(6)],
            1 => 4096 + 128 * numbers.below(4) + 8 * numbers.below(9),
            _ => numbers.below(1536) * 8,
        };
        let word = match numbers.below(3) {
            0 => u64::MAX,
            1 => numbers.next(),
            _ => numbers.next() << 33 | numbers.next(),
        };
        HeadFile::open(dir.path(), "g/1").write(at as u64, &word.to_le_bytes());
        (4..=6).for_each(|version| ranks[0].publish(version));
        let look = |group: &Group| {
            let newest = group.newest().map(|snapshot| snapshot.version());
            let next = group.next_after(Some(1), Some(Duration::ZERO)).map(|snapshot| snapshot.version());
            group.ranks()?;
            group.versions()?;
            newest.and(next)
        };
        errors += u32::from(look(&watching).is_err());
        let opened = Group::options().dir(dir.path()).open("g").and_then(|group| look(&group));
        errors += u32::from(opened.is_err());
        let _ = inspect::group(dir.path(), "g");
        check_rank(&dir.observe("g/0").newest().unwrap(), 0);
    }
    assert!(errors > 50, "{errors}");
}

/// Looks at ranks that are stopped and go on.
const LOOKS: usize = 600;

/// Ranks that are stopped and killed at any time, and observers that look: what was seen once never goes back.
#[test]
fn observers_always_find_a_version_while_ranks_stop_and_go() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("stops");
    let mut ranks: Vec<Helper> = (0..3).map(|rank| start_rank(&dir, rank, 3, 1_000_000, 200)).collect();
    let group = Group::options().dir(dir.path()).wait(Duration::from_secs(60)).open("g").unwrap();
    let mut numbers = Numbers(11);
    let mut last = 0;
    let mut stopped: Option<usize> = None;
    let mut looks = 0;
    while looks < LOOKS || last <= 20 {
        looks += 1;
        if numbers.below(20) == 0 {
            match stopped.take() {
                Some(rank) => ranks[rank].signal(libc::SIGCONT),
                None => {
                    let rank = numbers.below(3);
                    ranks[rank].stop();
                    stopped = Some(rank);
                }
            }
        }
        let snapshot = group.newest().unwrap();
        check(&snapshot);
        // A version that another rank let go when the last one published it is held by whoever found it in between.
        assert!(snapshot.version() >= last || stopped.is_some(), "{} after {last}", snapshot.version());
        last = last.max(snapshot.version());
        std::thread::sleep(Duration::from_millis(numbers.below(4) as u64));
    }
    if let Some(rank) = stopped {
        ranks[rank].signal(libc::SIGCONT);
    }
    until("the group to go on", || group.newest_after(Some(last), LONG).is_ok());
    ranks.iter_mut().for_each(|rank| drop(rank.kill()));
}

/// The points that a process passes, each once, with how often it passes it.
#[cfg(feature = "points")]
fn points(dir: &Dir, role: &str, arguments: &[&str]) -> Vec<(String, usize)> {
    let file = dir.path().join("points");
    let _ = std::fs::remove_file(&file);
    let mut command = helper::command(role, arguments);
    command.env("STILLFRAME_COUNT_POINTS", &file);
    Helper::start(command).wait();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let mut points: Vec<(String, usize)> = Vec::new();
    for name in text.lines() {
        match points.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => points.push((name.into(), 1)),
        }
    }
    points
}

#[cfg(feature = "points")]
fn die_at(role: &str, arguments: &[&str], point: &str, count: usize) {
    let mut command = helper::command(role, arguments);
    command.env("STILLFRAME_DIE_AT", format!("{point}:{count}"));
    Helper::start(command).wait();
}

/// Rank 0 is killed at every point, while rank 1 is ahead of it or behind; then both return to what both have and go on.
#[cfg(feature = "points")]
#[test]
fn a_group_goes_on_after_a_rank_was_killed_at_any_point() {
    let _watchdog = watchdog(600);
    for (ahead, last) in [(3, 40), (40, 30)] {
        let arguments = |dir: &Dir| {
            [dir.path().to_str().unwrap().to_string(), "0".into(), "2".into(), last.to_string(), "0".into()]
        };
        let begin = || {
            let dir = Dir::new("killed");
            let mut one = Rank::open(dir.options(), 1, 2);
            (1..=ahead).for_each(|version| one.publish(version));
            (dir, one)
        };
        let (dir, _one) = begin();
        let strings = arguments(&dir);
        let points = points(&dir, "rank", &strings.each_ref().map(String::as_str));
        assert!(points.iter().any(|(name, _)| name == "publish.committed"), "{points:?}");
        assert_eq!(points.iter().any(|(name, _)| name == "retire.tentative"), ahead < last, "{points:?}");
        for (point, count) in points {
            for count in [1, count.div_ceil(2), count] {
                let (dir, one) = begin();
                let strings = arguments(&dir);
                die_at("rank", &strings.each_ref().map(String::as_str), &point, count);
                drop(one);
                let group = group(dir.path());
                let newest = group.ranks().unwrap()[0].newest;
                let to = match newest {
                    None => 0,
                    Some(_) => {
                        let snapshot = group.newest().unwrap_or_else(|error| panic!("{point}:{count}: {error}"));
                        check(&snapshot);
                        snapshot.version()
                    }
                };
                let returning = |rank| match to {
                    0 => Rank::open(dir.options(), rank, 2),
                    to => Rank::open(dir.options().rollback(to), rank, 2),
                };
                let mut ranks = [returning(0), returning(1)];
                let first = ranks.iter().filter_map(|rank| rank.region.recovered()).max().unwrap_or(0) + 1;
                for version in first..first + 5 {
                    ranks.iter_mut().for_each(|rank| rank.publish(version));
                    let snapshot = group.newest().unwrap();
                    assert_eq!(snapshot.version(), version);
                    check(&snapshot);
                }
            }
        }
    }
}

#[cfg(feature = "points")]
#[test]
fn a_return_that_is_killed_at_any_point_can_be_repeated() {
    let _watchdog = watchdog(600);
    let begin = || {
        let dir = Dir::new("returns");
        let mut ranks = open_all(&dir, 2);
        (1..=4).for_each(|version| ranks.iter_mut().for_each(|rank| rank.publish(version)));
        (5..=9).for_each(|version| ranks[0].publish(version));
        dir
    };
    let dir = begin();
    let points = points(&dir, "return", &[dir.path().to_str().unwrap(), "4"]);
    assert!(points.iter().any(|(name, _)| name == "rollback.committed"), "{points:?}");
    for (point, count) in points {
        for count in 1..=count {
            let dir = begin();
            let held = dir.observe("g/0").version(7).unwrap();
            die_at("return", &[dir.path().to_str().unwrap(), "4"], &point, count);
            let mut ranks: Vec<Rank> = (0..2).map(|rank| Rank::open(dir.options().rollback(4), rank, 2)).collect();
            assert_eq!(ranks[0].region.recovered(), Some(4), "{point}:{count}");
            let observer = dir.observe("g/0");
            for version in [6, 7, 9] {
                assert!(observer.version(version).is_err(), "{point}:{count}: version {version} is still there");
            }
            for version in 5..=12 {
                ranks.iter_mut().for_each(|rank| rank.publish(version));
                check(&group(dir.path()).newest().unwrap());
                check_rank(&held, 0);
            }
            assert_eq!(inspect::verify(dir.path(), "g/0").unwrap(), []);
        }
    }
}
