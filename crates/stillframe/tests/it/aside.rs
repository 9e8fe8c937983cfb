//! What a run that did not end by itself left: set aside by the next one that begins with nothing.

use crate::helper;

use crate::common::{Dir, is_in_arena, names_in, watchdog};
use crate::helper::Helper;
use std::path::Path;
use stillframe::inspect::{self, State};
use stillframe::{Error, Group, Observer, Region, RegionOptions, Snapshot};

const WORDS: usize = 100_000;

fn open(options: RegionOptions, name: &str) -> (Region, stillframe::Array<u64>) {
    let mut region = options.create(name).unwrap();
    let array = region.array::<u64>("a", &[WORDS]).unwrap();
    (region, array)
}

fn publish(region: &mut Region, array: &stillframe::Array<u64>, version: u64) {
    region.slice_mut(array).fill(version);
    region.publish(version).commit().unwrap();
}

fn check(snapshot: &Snapshot, version: u64) {
    assert_eq!(snapshot.version(), version);
    assert!(snapshot.slice::<u64>("a").unwrap().iter().all(|word| *word == version));
}

/// Runs as the arguments say (directory, name, rank, ranks, version, how it ends) and, unless told otherwise, waits.
fn run(arguments: &[String]) {
    let [dir, name, rank, ranks, version, end] = arguments else { panic!("{arguments:?}") };
    let [rank, ranks] = [rank, ranks].map(|number| number.parse::<u32>().unwrap());
    let version = version.parse::<u64>().unwrap();
    let mut options = Region::options().dir(dir).fresh(end != "recover").threads(1);
    if ranks > 0 {
        options = options.rank(rank, ranks);
    }
    let (mut region, array) = open(options, name);
    if version > 0 {
        publish(&mut region, &array, version);
    }
    helper::say("published");
    helper::wait_for_word();
    match end.as_str() {
        "exit" => std::process::exit(1),
        "unlink" => region.unlink().unwrap(),
        _ => region.close().unwrap(),
    }
}

fn start(dir: &Path, name: &str, (rank, ranks): (u32, u32), version: u64, end: &str) -> Helper {
    let words = [dir.to_str().unwrap(), name, &rank.to_string(), &ranks.to_string(), &version.to_string(), end];
    let mut helper = helper::start("run", &words);
    helper.expect("published");
    helper
}

/// A run that publishes a version and is killed.
fn crash(dir: &Path, name: &str, version: u64) {
    start(dir, name, (0, 0), version, "close").kill();
}

fn finish(mut helper: Helper) {
    helper.tell();
    helper.finish();
}

fn names(dir: &Path) -> Vec<String> {
    inspect::regions(dir).unwrap().into_iter().map(|info| info.name).collect()
}

fn group(dir: &Path, name: &str) -> Result<Group, Error> {
    Group::options().dir(dir).open(name)
}

#[test]
fn helper_process() {
    helper::enter(&[("run", run)]);
}

#[test]
fn what_a_killed_run_left_is_set_aside_and_stays_until_a_good_end() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("killed");
    for name in ["run", "a/b"] {
        let aside = format!("{name}~1");
        crash(dir.path(), name, 7);
        let held = dir.observe(name).newest().unwrap();
        let second = start(dir.path(), name, (0, 0), 3, "close");
        check(&dir.observe(name).newest().unwrap(), 3);
        check(&dir.observe(&aside).newest().unwrap(), 7);
        check(&held, 7);
        let info = inspect::region(dir.path(), &aside).unwrap();
        assert_eq!((info.state, info.newest), (State::Dead, Some(7)));
        assert_eq!(names(dir.path()), [name, &aside]);
        // One only: the newer one.
        drop(second);
        let third = start(dir.path(), name, (0, 0), 4, "close");
        check(&dir.observe(&aside).newest().unwrap(), 3);
        assert_eq!(names(dir.path()), [name, &aside]);
        finish(third);
        assert_eq!(names(dir.path()), [name]);
        inspect::remove(dir.path(), name, false).unwrap();
        assert_eq!(names_in(dir.path()), [""; 0]);
    }
}

#[test]
fn what_ended_by_itself_or_has_no_version_is_not_set_aside() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("ended");
    finish(start(dir.path(), "run", (0, 0), 7, "close"));
    finish(start(dir.path(), "run", (0, 0), 3, "close"));
    assert_eq!(names(dir.path()), ["run"]);
    crash(dir.path(), "run", 0);
    crash(dir.path(), "run", 5);
    assert_eq!(names(dir.path()), ["run"]);
    // A run that publishes nothing has come to nothing, and takes nothing away, however it ends.
    for end in ["close", "exit", "unlink"] {
        finish_badly(start(dir.path(), "run", (0, 0), 0, end));
        check(&dir.observe("run~1").newest().unwrap(), 5);
    }
    assert_eq!(names(dir.path()), ["run~1"]);
    crash(dir.path(), "run", 0);
    check(&dir.observe("run~1").newest().unwrap(), 5);
    // A run that recovers is a run.
    finish(start(dir.path(), "run", (0, 0), 9, "recover"));
    assert_eq!(names(dir.path()), ["run"]);
}

/// Lets a run end by itself, with whatever status.
fn finish_badly(mut helper: Helper) {
    helper.tell();
    helper.wait();
}

#[test]
fn every_good_end_of_a_run_takes_away_what_was_set_aside() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("ends");
    for (end, left) in [("close", "run"), ("exit", "run"), ("unlink", "")] {
        crash(dir.path(), "run", 7);
        let second = start(dir.path(), "run", (0, 0), 3, end);
        check(&dir.observe("run~1").newest().unwrap(), 7);
        finish_badly(second);
        assert_eq!(names(dir.path()).join(" "), left, "{end}");
        assert!(is_in_arena() || names_in(dir.path()).join(" ") == left, "{end}");
    }
}

#[test]
fn ranks_of_a_group_are_set_aside_together() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("group");
    let run = |version: u64| -> Vec<Helper> {
        (0..3).map(|rank| start(dir.path(), "g", (rank, 3), version, "close")).collect()
    };
    // One rank was killed, the others ended.
    let mut first = run(7);
    first.remove(1).kill();
    first.into_iter().for_each(finish);
    for (version, before) in [(3, 7), (4, 3)] {
        let mut ranks = run(version);
        let snapshot = group(dir.path(), "g~1").unwrap().newest().unwrap();
        assert_eq!(snapshot.ranks().len(), 3);
        snapshot.ranks().iter().for_each(|rank| check(rank, before));
        group(dir.path(), "g").unwrap().newest().unwrap().ranks().iter().for_each(|rank| check(rank, version));
        assert_eq!(inspect::group(dir.path(), "g~1").unwrap().unwrap().regions.len(), 3);
        if version == 4 {
            // What is set aside goes when the last rank ends well.
            for rank in ranks.drain(..) {
                assert!(group(dir.path(), "g~1").is_ok());
                finish(rank);
            }
        }
        ranks.iter_mut().for_each(|rank| drop(rank.kill()));
    }
    assert!(is_in_arena() || names_in(dir.path()) == ["g"]);
    // All ranks of a run may begin at once.
    let mut ranks: Vec<Helper> = run(5);
    ranks.iter_mut().for_each(|rank| drop(rank.kill()));
    for _ in 0..10 {
        let words =
            |rank: u32| [dir.path().to_str().unwrap(), "g", &rank.to_string(), "4", "6", "close"].map(String::from);
        let begin = |rank: u32| {
            let words = words(rank);
            helper::start("run", &words.each_ref().map(String::as_str))
        };
        let mut ranks: Vec<Helper> = (0..4).map(begin).collect();
        ranks.iter_mut().for_each(|rank| rank.expect("published"));
        assert_eq!(group(dir.path(), "g").unwrap().newest().unwrap().version(), 6);
        assert!(group(dir.path(), "g~1").is_ok());
        ranks.iter_mut().for_each(|rank| drop(rank.kill()));
    }
}

#[test]
fn a_region_beside_the_ranks_is_not_set_aside_with_them() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("beside");
    drop(dir.options().create("g/plain").unwrap());
    let mut first = [0, 1].map(|rank| start(dir.path(), "g", (rank, 2), 7, "close"));
    first.iter_mut().for_each(|rank| drop(rank.kill()));
    // A rank that is begun anew while others live is alone.
    let _first = start(dir.path(), "g", (0, 2), 3, "close");
    assert_eq!(names(dir.path()), ["g/0", "g/plain", "g~1/0", "g~1/1"]);
    start(dir.path(), "g", (1, 2), 4, "close").kill();
    let second = start(dir.path(), "g", (1, 2), 5, "close");
    assert_eq!(names(dir.path()), ["g/0", "g/1", "g/1~1", "g/plain", "g~1/0", "g~1/1"]);
    check(&dir.observe("g/1~1").newest().unwrap(), 4);
    assert_eq!(group(dir.path(), "g").unwrap().size(), 2);
    finish(second);
    assert_eq!(names(dir.path()), ["g/0", "g/1", "g/plain", "g~1/0", "g~1/1"]);
}

#[test]
fn nobody_can_give_a_region_such_a_name() {
    let dir = Dir::new("names");
    for name in ["run~1", "a~1/b", "run~", "run~2", "~1", "run~1~1", "head~1"] {
        let error = dir.options().create(name).err().unwrap();
        assert!(matches!(error, Error::BadName { .. }), "{name}: {error}");
        let error = stillframe::Staging::begin(&dir.options(), name).unwrap_err();
        assert!(matches!(error, Error::BadName { .. }), "{name}: {error}");
    }
    assert!(dir.options().create("run~1").err().unwrap().to_string().contains("did not end by itself"));
    for name in ["run~", "run~2", "~1", "run~1~1", "head~1"] {
        let error = Observer::options().dir(dir.path()).open(name).unwrap_err();
        assert!(matches!(error, Error::BadName { .. }), "{name}: {error}");
    }
    // The longest name that a region may have can be set aside.
    let long = "n".repeat(200);
    crash(dir.path(), &long, 7);
    let _second = start(dir.path(), &long, (0, 0), 3, "close");
    check(&dir.observe(&format!("{long}~1")).newest().unwrap(), 7);
}

#[test]
fn it_is_collected_or_goes_back_to_its_place() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("back");
    crash(dir.path(), "run", 7);
    let mut second = start(dir.path(), "run", (0, 0), 3, "close");
    {
        let held = dir.observe("run~1").newest().unwrap();
        assert!(inspect::collect(dir.path()).unwrap().is_empty());
        check(&held, 7);
    }
    let collected = inspect::collect(dir.path()).unwrap();
    assert_eq!(collected.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["run~1"]);
    second.kill();
    let mut third = start(dir.path(), "run", (0, 0), 4, "close");
    third.kill();
    inspect::remove(dir.path(), "run", false).unwrap();
    if is_in_arena() {
        return;
    }
    std::fs::rename(dir.path().join("run~1"), dir.path().join("run")).unwrap();
    let (region, array) = open(dir.options(), "run");
    assert_eq!((region.recovered(), region.slice(&array)[WORDS - 1]), (Some(3), 3));
}

#[test]
fn what_is_somebodys_own_under_that_name_stays() {
    if is_in_arena() {
        return;
    }
    let dir = Dir::new("stranger");
    crash(dir.path(), "run", 7);
    std::fs::create_dir(dir.path().join("run~1")).unwrap();
    std::fs::write(dir.path().join("run~1/notes"), "mine").unwrap();
    let error = dir.options().fresh(true).create("run").err().unwrap();
    assert!(matches!(&error, Error::BadName { name, .. } if name == "run~1"), "{error}");
    check(&dir.observe("run").newest().unwrap(), 7);
    assert_eq!(std::fs::read(dir.path().join("run~1/notes")).unwrap(), b"mine");
}

#[test]
fn a_run_whose_head_was_cut_is_set_aside_as_one_that_cannot_be_read() {
    // It is about the files of a region's directory.
    if is_in_arena() {
        return;
    }
    let _watchdog = watchdog(60);
    for bytes in [100, 4096] {
        let dir = Dir::new("cut-head");
        crash(dir.path(), "run", 7);
        std::fs::File::options().write(true).open(dir.path().join("run/head")).unwrap().set_len(bytes).unwrap();
        let plane = std::fs::read(dir.path().join("run/plane.0")).unwrap();
        let (region, array) = open(dir.options().fresh(true), "run");
        assert_eq!((region.recovered(), region.slice(&array)[0]), (None, 0));
        assert_eq!(std::fs::read(dir.path().join("run~1/plane.0")).unwrap(), plane);
    }
}
