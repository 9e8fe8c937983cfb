//! Regions made unseen and put in their place at once.

use crate::common;

use crate::common::{Dir, is_in_arena, names_in, watchdog};
use std::path::Path;
use stillframe::inspect::{self, State};
use stillframe::{Arena, Error, Group, Region, Staging};

/// Makes a region with one version in its hidden place.
fn make(staging: &Staging, name: &str, rank: Option<(u32, u32)>, version: u64, value: f64) {
    let mut region = staging.options(rank).create(name).unwrap();
    let u = region.array::<f64>("u", &[1000]).unwrap();
    region.slice_mut(&u).fill(value);
    region.publish(version).attr("value", value).published_ns(7).commit().unwrap();
}

fn stage(dir: &Dir, name: &str, version: u64, value: f64) -> Staging {
    let staging = Staging::begin(&dir.options(), name).unwrap();
    make(&staging, name, None, version, value);
    staging
}

/// What nobody is shown, of a directory.
fn hidden(dir: &Path) -> usize {
    names_in(dir).iter().filter(|name| name.starts_with('.')).count()
}

fn check(dir: &Dir, name: &str, version: u64, value: f64) {
    let snapshot = dir.observe(name).newest().unwrap();
    assert_eq!((snapshot.version(), snapshot.published_ns()), (version, 7));
    assert!(snapshot.slice::<f64>("u").unwrap().iter().all(|found| *found == value));
}

#[test]
fn a_region_is_seen_when_it_is_in_its_place_and_not_before() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("place");
    for name in ["heat", "run/a/heat"] {
        let staging = stage(&dir, name, 12, 1.5);
        assert!(inspect::regions(dir.path()).unwrap().iter().all(|info| info.name != name));
        assert_eq!(hidden(dir.path()), usize::from(!is_in_arena()));
        staging.commit(false).unwrap();
        check(&dir, name, 12, 1.5);
        assert_eq!(inspect::region(dir.path(), name).unwrap().state, State::Dead);
        assert_eq!(hidden(dir.path()), 0);
        let mut region = dir.options().create(name).unwrap();
        assert_eq!(region.recovered(), Some(12));
        let u = region.array::<f64>("u", &[1000]).unwrap();
        assert_eq!(region.slice(&u)[999], 1.5);
        region.publish(13).commit().unwrap();
    }
}

#[test]
fn what_is_not_put_in_its_place_leaves_nothing() {
    let dir = Dir::new("dropped");
    drop(stage(&dir, "heat", 1, 1.0));
    assert_eq!(names_in(dir.path()), [""; 0]);
}

#[test]
fn a_surviving_region_is_replaced_only_if_that_is_asked_for() {
    let dir = Dir::new("survivor");
    stage(&dir, "heat", 12, 1.0).commit(false).unwrap();
    let held = dir.observe("heat").newest().unwrap();
    let error = stage(&dir, "heat", 5, 2.0).commit(false).unwrap_err();
    assert!(matches!(&error, Error::Survives { newest: Some(12), .. }), "{error}");
    check(&dir, "heat", 12, 1.0);
    stage(&dir, "heat", 5, 2.0).commit(true).unwrap();
    check(&dir, "heat", 5, 2.0);
    assert_eq!(held.slice::<f64>("u").unwrap()[0], 1.0);
    assert_eq!(hidden(dir.path()), 0);
}

#[test]
fn a_region_without_a_version_makes_way() {
    let dir = Dir::new("empty");
    drop(dir.options().create("heat").unwrap());
    stage(&dir, "heat", 5, 2.0).commit(false).unwrap();
    check(&dir, "heat", 5, 2.0);
}

#[test]
fn a_living_producer_is_not_replaced() {
    let dir = Dir::new("living");
    let mut region = dir.options().create("heat").unwrap();
    for replace in [false, true] {
        let error = stage(&dir, "heat", 5, 2.0).commit(replace).unwrap_err();
        assert!(matches!(&error, Error::InUse { pid, .. } if *pid == std::process::id()), "{error}");
    }
    region.publish(1).commit().unwrap();
    assert_eq!(dir.observe("heat").newest().unwrap().version(), 1);
}

#[test]
fn a_damaged_region_is_replaced_only_if_that_is_asked_for() {
    // It is about the files of a region's directory.
    if common::is_in_arena() {
        return;
    }
    let dir = Dir::new("damaged");
    stage(&dir, "heat", 12, 1.0).commit(false).unwrap();
    let head = std::fs::File::options().write(true).open(dir.path().join("heat/head")).unwrap();
    head.set_len(100).unwrap();
    let error = stage(&dir, "heat", 5, 2.0).commit(false).unwrap_err();
    assert!(matches!(&error, Error::Survives { newest: None, .. }), "{error}");
    stage(&dir, "heat", 5, 2.0).commit(true).unwrap();
    check(&dir, "heat", 5, 2.0);
}

#[test]
fn all_ranks_of_a_group_come_at_once() {
    let dir = Dir::new("group");
    let stage = |version, ranks: u32, value| {
        let staging = Staging::begin(&dir.options(), "heat").unwrap();
        (0..ranks).for_each(|rank| make(&staging, "heat", Some((rank, ranks)), version, value + f64::from(rank)));
        staging
    };
    let staging = stage(9, 3, 1.0);
    assert!(Group::options().dir(dir.path()).open("heat").is_err());
    staging.commit(false).unwrap();
    let snapshot = Group::options().dir(dir.path()).open("heat").unwrap().newest().unwrap();
    assert_eq!((snapshot.version(), snapshot.ranks().len()), (9, 3));
    assert_eq!(snapshot.ranks()[2].slice::<f64>("u").unwrap()[5], 3.0);
    // With another number of ranks, over what survived.
    assert!(matches!(stage(8, 2, 5.0).commit(false), Err(Error::Survives { .. })));
    stage(8, 2, 5.0).commit(true).unwrap();
    let snapshot = Group::options().dir(dir.path()).open("heat").unwrap().newest().unwrap();
    assert_eq!((snapshot.version(), snapshot.ranks().len()), (8, 2));
    let mut ranks: Vec<Region> = (0..2).map(|rank| dir.options().rank(rank, 2).create("heat").unwrap()).collect();
    assert!(matches!(stage(7, 2, 6.0).commit(true), Err(Error::InUse { .. })));
    for region in &mut ranks {
        assert_eq!(region.recovered(), Some(8));
        region.publish(9).commit().unwrap();
    }
    // A region in the group's place, and a group in the region's.
    drop(ranks);
    let staging = Staging::begin(&dir.options(), "heat").unwrap();
    make(&staging, "heat", None, 1, 1.0);
    staging.commit(true).unwrap();
    check(&dir, "heat", 1, 1.0);
    stage(2, 2, 5.0).commit(true).unwrap();
    assert_eq!(Group::options().dir(dir.path()).open("heat").unwrap().newest().unwrap().version(), 2);
}

#[test]
fn what_is_not_the_regions_is_never_taken_away() {
    let dir = Dir::new("strangers");
    stage(&dir, "heat/energy", 1, 1.0).commit(false).unwrap();
    for replace in [false, true] {
        let error = stage(&dir, "heat", 5, 2.0).commit(replace).unwrap_err();
        assert!(matches!(&error, Error::BadName { .. }), "{error}");
    }
    check(&dir, "heat/energy", 1, 1.0);
    let error = stage(&dir, "heat/energy/0", 5, 2.0).commit(true).unwrap_err();
    assert!(matches!(&error, Error::BadName { .. }), "{error}");
    std::fs::create_dir(dir.path().join("notes")).unwrap();
    if is_in_arena() {
        return;
    }
    std::fs::write(dir.path().join("notes/mine.txt"), "text").unwrap();
    assert!(matches!(stage(&dir, "notes", 5, 2.0).commit(true), Err(Error::BadName { .. })));
    assert_eq!(std::fs::read_to_string(dir.path().join("notes/mine.txt")).unwrap(), "text");
}

#[test]
fn only_one_stages_a_name_at_a_time() {
    let dir = Dir::new("two");
    let first = stage(&dir, "heat", 1, 1.0);
    let error = Staging::begin(&dir.options(), "heat").unwrap_err();
    assert!(matches!(&error, Error::Staged { .. }), "{error}");
    stage(&dir, "other", 2, 2.0).commit(false).unwrap();
    first.commit(false).unwrap();
    check(&dir, "heat", 1, 1.0);
    check(&dir, "other", 2, 2.0);
}

#[test]
fn left_overs_of_the_dead_are_removed_by_whoever_stages_next_or_cleans_up() {
    // It is about the files of a region's directory.
    if common::is_in_arena() {
        return;
    }
    let dir = Dir::new("left");
    let leave = || {
        let place = dir.path().join(".gone.staged/gone");
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("plane.0"), [1; 1 << 16]).unwrap();
    };
    leave();
    let living = stage(&dir, "heat", 1, 1.0);
    assert_eq!(hidden(dir.path()), 1);
    leave();
    let named: Vec<String> = inspect::collectable(dir.path()).unwrap().into_iter().map(|info| info.name).collect();
    assert_eq!(named, [".gone.staged"]);
    let collected = inspect::collect(dir.path()).unwrap();
    assert!(matches!(&collected[..], [(_, Ok(removed))] if removed.bytes >= 1 << 16), "{collected:?}");
    assert_eq!(hidden(dir.path()), 1);
    living.commit(false).unwrap();
    assert_eq!(hidden(dir.path()), 0);
}

#[test]
fn left_overs_that_somebody_looks_at_are_not_taken_for_the_next_ones() {
    // It is about the files of a region's directory.
    if common::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(60);
    let dir = Dir::new("looked");
    // What a killed process made, and nobody has locked any more.
    let elsewhere = Dir::new("elsewhere");
    stage(&elsewhere, "heat", 9, 9.0).commit(false).unwrap();
    std::fs::create_dir_all(dir.path().join(".heat.staged")).unwrap();
    std::fs::rename(elsewhere.path().join("heat"), dir.path().join(".heat.staged/heat")).unwrap();
    let looking = std::fs::File::open(dir.path().join(".heat.staged")).unwrap();
    looking.lock().unwrap();
    let looker = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        drop(looking);
    });
    stage(&dir, "heat", 9, 1.0).commit(false).unwrap();
    looker.join().unwrap();
    check(&dir, "heat", 9, 1.0);
    assert_eq!(hidden(dir.path()), 0);
}

#[test]
fn producers_that_begin_meanwhile_get_the_one_or_the_other() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("race");
    for round in 0..60 {
        let name = format!("r{round}");
        if round % 2 == 0 {
            stage(&dir, &name, 1, 1.0).commit(false).unwrap();
        }
        let staging = stage(&dir, &name, 7, 7.0);
        let options = dir.options();
        let other = name.clone();
        let producer = std::thread::spawn(move || options.create(&other));
        let committed = staging.commit(true);
        let region = producer.join().unwrap().unwrap();
        let expected = match &committed {
            Ok(()) => Some(7),
            Err(Error::InUse { .. }) => (round % 2 == 0).then_some(1),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(region.recovered(), expected, "{committed:?}");
    }
    assert_eq!(hidden(dir.path()), 0);
}

#[test]
fn what_is_dropped_before_its_regions_leaves_nothing_when_they_end() {
    let dir = Dir::new("before");
    let staging = Staging::begin(&dir.options(), "heat").unwrap();
    let mut region = staging.options(None).create("heat").unwrap();
    region.array::<f64>("u", &[1000]).unwrap();
    region.publish(1).commit().unwrap();
    drop(staging);
    // It goes on where nobody sees it.
    region.publish(2).commit().unwrap();
    drop(region);
    assert_eq!(names_in(dir.path()), [""; 0]);
    if is_in_arena() {
        let own = dir.path().file_name().unwrap().to_str().unwrap();
        let arena = Arena::options().dir("/dev/shm").open(own).unwrap();
        inspect::collect(dir.path()).unwrap();
        let left: Vec<_> = arena.usage().unwrap().regions;
        assert!(left.iter().all(|region| region.is_removed), "{left:?}");
    }
}
