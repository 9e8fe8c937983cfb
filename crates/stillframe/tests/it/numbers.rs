//! Numbers that are given once: of schemas and of variables, whatever becomes of the versions that had them.

use crate::common::{Dir, HeadFile, watchdog};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use stillframe::{DType, Declaration, Error, Kind, Region, Snapshot};

fn declare(region: &mut Region, name: &str, units: &str) -> u32 {
    let kind = Kind::Managed { shape: vec![3] };
    let declaration = Declaration { units: units.into(), ..Declaration::new(name, DType::Float(8), kind) };
    region.declare(declaration).unwrap().number()
}

/// Names and units of the variables of a version.
fn described(snapshot: &Snapshot) -> Vec<(String, String)> {
    snapshot.variables().iter().map(|variable| (variable.name.clone(), variable.units.clone())).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, units)| (name.to_string(), units.to_string())).collect()
}

#[test]
fn an_observer_that_attached_before_a_rollback_sees_what_is_published_after_it() {
    let _watchdog = watchdog(60);
    for is_held in [false, true] {
        let dir = Dir::new("rollback");
        let mut region = dir.options().keep(4).create("r").unwrap();
        declare(&mut region, "u", "K");
        region.publish(1).commit().unwrap();
        declare(&mut region, "v", "Pa");
        region.publish(2).commit().unwrap();
        let observer = dir.observe("r");
        let held = observer.newest().unwrap();
        assert_eq!(described(&held), pairs(&[("u", "K"), ("v", "Pa")]));
        drop(region);
        let held = Some(held).filter(|_| is_held);

        let mut region = dir.options().keep(4).rollback(1).create("r").unwrap();
        assert_eq!(region.recovered(), Some(1));
        declare(&mut region, "u", "m");
        declare(&mut region, "w", "s");
        region.publish(2).commit().unwrap();
        assert_eq!(described(&observer.newest().unwrap()), pairs(&[("u", "m"), ("w", "s")]));
        held.iter().for_each(|held| assert_eq!(described(held), pairs(&[("u", "K"), ("v", "Pa")])));
    }
}

/// The variables there ever were, by their numbers.
#[derive(Default)]
struct Seen {
    variables: BTreeMap<u32, String>,
}

impl Seen {
    /// Notes that a number was given to a variable.
    fn note(&mut self, id: u32, name: String) {
        if let Some(before) = self.variables.insert(id, name.clone()) {
            assert_eq!(before, name, "number {id} was given twice");
        }
    }
}

#[test]
fn numbers_of_variables_are_never_given_again() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("variables");
    let mut seen = Seen::default();
    let mut version = 0;
    for run in 0..12 {
        let rollback = if run % 3 == 2 { version - 1 } else { u64::MAX };
        let mut region = dir.options().keep(3).rollback(rollback).create("r").unwrap();
        version = region.recovered().unwrap_or(0);
        for step in 0..3 {
            let name = format!("v{run}.{step}");
            seen.note(declare(&mut region, &name, ""), name.clone());
            if run % 4 != 3 {
                version += 1;
                region.publish(version).commit().unwrap();
            }
            if step == run % 3 {
                // The highest number is that of a variable which no newer version has.
                region.remove(&name).unwrap();
            }
        }
        if run % 2 == 0 {
            version += 1;
            region.publish(version).commit().unwrap();
        }
    }
}

#[test]
fn a_rollback_whose_producer_publishes_nothing_gives_no_number_back() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("nothing");
    let mut region = dir.options().keep(4).create("r").unwrap();
    declare(&mut region, "u", "0");
    region.publish(1).commit().unwrap();
    declare(&mut region, "v", "0");
    region.publish(2).commit().unwrap();
    let observer = dir.observe("r");
    assert_eq!(observer.newest().unwrap().variables().len(), 2);
    drop(region);
    drop(dir.options().keep(4).rollback(1).create("r").unwrap());
    // Others commit what they took over once more, so that the descriptor of what was dropped is written over.
    for _ in 0..3 {
        drop(dir.options().keep(1).rollback(0).create("r").err());
        drop(dir.options().keep(1).create("r").unwrap());
    }
    let mut region = dir.options().keep(4).create("r").unwrap();
    declare(&mut region, "w", "1");
    region.publish(2).commit().unwrap();
    assert_eq!(described(&observer.newest().unwrap()), pairs(&[("w", "1")]));
}

/// As older libraries left it, that told no numbers in the head.
fn forget(dir: &Dir) {
    HeadFile::open(dir.path(), "r").write(272, &[0; 8]);
}

#[test]
fn regions_of_older_libraries_give_no_number_again_that_a_version_tells() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("older");
    let mut region = dir.options().keep(4).create("r").unwrap();
    let mut ids = vec![declare(&mut region, "u", "0")];
    region.publish(1).commit().unwrap();
    ids.push(declare(&mut region, "v", "0"));
    region.publish(2).commit().unwrap();
    region.remove("v").unwrap();
    region.publish(3).commit().unwrap();
    let observer = dir.observe("r");
    assert_eq!(observer.version(2).unwrap().variables().len(), 2);
    drop(region);
    forget(&dir);
    // The rollback commits nothing of its own, but has the head tell what the versions it drops did.
    drop(dir.options().keep(4).rollback(1).create("r").unwrap());
    let mut region = dir.options().keep(4).create("r").unwrap();
    let id = declare(&mut region, "w", "1");
    assert!(!ids.contains(&id), "{id} is one of {ids:?}");
    region.publish(2).commit().unwrap();
    assert_eq!(described(&observer.newest().unwrap()), pairs(&[("w", "1")]));
}

#[test]
fn numbers_in_the_head_that_no_producer_writes_are_damage() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("damage");
    let mut region = dir.options().create("r").unwrap();
    declare(&mut region, "u", "0");
    region.publish(1).commit().unwrap();
    drop(region);
    let head = HeadFile::open(dir.path(), "r");
    for (at, number) in [(272, 1u32 << 31), (276, (1 << 31) + 1)] {
        head.write(at, &number.to_le_bytes());
        match dir.options().create("r") {
            Err(Error::Corrupt { corrupt, .. }) => assert_eq!((corrupt.file.as_str(), corrupt.offset), ("head", at)),
            other => panic!("{other:?}"),
        }
        head.write(at, &[0; 4]);
    }
    dir.options().create("r").unwrap();
}

#[test]
fn looking_at_versions_while_producers_come_roll_back_and_go_shows_each_with_its_own_schema() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("churn");
    let mut region = dir.options().create("r").unwrap();
    declare(&mut region, "run", "0");
    region.publish(1).attr("run", 0i64).commit().unwrap();
    drop(region);
    /// Ends the watcher, also if the producer fails.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ends = Over(&over);
        let watcher = scope.spawn(|| {
            let observer = dir.observe("r");
            let mut looks = 0;
            while !over.load(Ordering::Relaxed) || looks == 0 {
                let snapshot = match observer.newest() {
                    Err(Error::NoVersion { .. }) => continue,
                    other => other.unwrap(),
                };
                let run = snapshot.attributes()["run"].to_string();
                let units: Vec<_> = snapshot.variables().iter().map(|variable| variable.units.clone()).collect();
                assert!(units.iter().all(|units| *units == run), "a version of run {run} with units {units:?}");
                looks += 1;
            }
            looks
        });
        for run in 1..80i64 {
            let mut region = dir.options().keep(8).rollback(1).create("r").unwrap();
            let mut version = region.recovered().unwrap();
            for name in ["run", "a", "b", "c"].iter().take(1 + run as usize % 4) {
                declare(&mut region, name, &run.to_string());
                version += 1;
                region.publish(version).attr("run", run).commit().unwrap();
            }
            if watcher.is_finished() {
                break;
            }
        }
        drop(ends);
        assert!(watcher.join().unwrap() > 0);
    });
}
