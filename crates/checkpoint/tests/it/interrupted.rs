//! Restores that are killed, that find no room, or that may not: nothing half-restored is seen, what was in memory stays,
//! and what a dead one left goes with the next. `STILLFRAME_TEST_KILLS` is the number of kills at random instants.

use crate::reading;

use crate::reading::{Numbers, Place, Version, watchdog};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use stillframe::{Group, Region};
use stillframe_checkpoint::{Checkpoint, Codec, Error, RestoreOptions, layout, restore, restore_newest};

const ROLE: &str = "STILLFRAME_TEST_ROLE";
const KILLED: i32 = 9;

/// Restores, replacing what is there, in a process of its own, and says what came of it.
#[test]
fn helper_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let [store, shm, name] = role.split('\n').collect::<Vec<_>>()[..] else { panic!("{role:?}") };
    let options = RestoreOptions::new().replace(true).threads(2);
    match options.restore_newest(store, &Region::options().dir(shm), name, &|_| {}) {
        Ok(restored) => println!("restored {}", restored.version),
        Err(error) => println!("code {}: {error}", error.code()),
    }
    std::process::exit(0);
}

fn command(place: &Place, shm: &Path, name: &str) -> Command {
    // The link works for users who cannot reach the directory of the test binary.
    let mut command = Command::new("/proc/self/exe");
    command.args(["interrupted::helper_process", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, format!("{}\n{}\n{name}", place.store().display(), shm.display()));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A store with a version of a region, or of a group of two.
struct Scene {
    place: Place,
    versions: Vec<Version>,
    is_group: bool,
}

const OLD: u64 = 3;
const SAVED: u64 = 9;

impl Scene {
    fn new(name: &str, is_group: bool) -> Scene {
        let place = Place::new(name);
        let count = if is_group { 2 } else { 1 };
        let versions: Vec<Version> =
            (0..count).map(|rank| Version { number: SAVED, ..Version::example(rank) }).collect();
        let scene = Scene { place, versions, is_group };
        scene.publish(SAVED);
        let store = scene.place.store();
        match is_group {
            true => {
                let snapshot = Group::options().dir(scene.place.shm()).open("heat").unwrap().newest().unwrap();
                reading::save(&store, &snapshot, 20_000, Codec::Plain);
            }
            false => {
                reading::save(&store, scene.place.newest("heat"), 20_000, Codec::Plain);
            }
        }
        scene.clear();
        scene
    }

    /// Publishes what is saved, under this number.
    fn publish(&self, number: u64) {
        let publish = |(rank, version): (usize, &Version)| {
            let options = self.place.options();
            let options = if self.is_group { options.rank(rank as u32, 2) } else { options };
            Version { number, ..version.clone() }.publish(options, "heat")
        };
        // All live until the last has published: they are of one run.
        let _ranks: Vec<_> = self.versions.iter().enumerate().map(publish).collect();
    }

    fn clear(&self) {
        let _ = std::fs::remove_dir_all(self.place.shm());
        std::fs::create_dir(self.place.shm()).unwrap();
    }

    /// The version that observers see, whole on all ranks.
    fn seen(&self) -> Option<u64> {
        let found: Vec<Version> = match self.is_group {
            true => {
                let group = Group::options().dir(self.place.shm()).open("heat").ok()?;
                group.newest().unwrap().ranks().iter().map(Version::of).collect()
            }
            false => {
                let observer = stillframe::Observer::options().dir(self.place.shm()).open("heat").ok()?;
                vec![Version::of(&observer.newest().unwrap())]
            }
        };
        let number = found[0].number;
        let expected: Vec<Version> =
            self.versions.iter().map(|version| Version { number, ..version.clone() }).collect();
        assert!(found == expected, "version {number} is torn");
        Some(number)
    }

    /// After a kill: what was there or what was saved, and the next attempt succeeds and leaves nothing of the killed one.
    fn check(&self, survivor: Option<u64>) {
        let seen = self.seen();
        assert!(seen == survivor || seen == Some(SAVED), "{seen:?}");
        let options = RestoreOptions::new().replace(true);
        options.restore_newest(self.place.store(), &self.place.options(), "heat", &|_| {}).unwrap();
        assert_eq!(self.seen(), Some(SAVED));
        assert_eq!(self.place.names(), ["heat"]);
        // A program goes on from it.
        if !self.is_group {
            assert_eq!(self.place.options().create("heat").unwrap().recovered(), Some(SAVED));
        }
    }
}

/// Before each kill: nothing in memory, or an older version.
fn prepare(scene: &Scene, survives: bool) -> Option<u64> {
    scene.clear();
    survives.then(|| scene.publish(OLD)).map(|()| OLD)
}

#[cfg(feature = "points")]
fn points(scene: &Scene) -> BTreeMap<String, u64> {
    let file = scene.place.path().join("points");
    let output =
        command(&scene.place, &scene.place.shm(), "heat").env("STILLFRAME_COUNT_POINTS", &file).output().unwrap();
    assert!(said(&output).contains("restored 9"), "{output:?}");
    let mut counts = BTreeMap::new();
    for name in std::fs::read_to_string(&file).unwrap().lines() {
        *counts.entry(name.to_string()).or_insert(0) += 1;
    }
    counts
}

#[cfg(feature = "points")]
#[test]
fn killed_at_any_named_point_nothing_half_restored_is_seen() {
    let _watchdog = watchdog(500);
    for (is_group, survives) in [(false, false), (false, true), (true, false), (true, true)] {
        let scene = Scene::new("points", is_group);
        prepare(&scene, survives);
        let counts = points(&scene);
        let wanted = ["staging.begun", "restore.lent", "restore.chunk", "restore.read", "restore.filled"];
        let last = if survives { "staging.exchanged" } else { "staging.renamed" };
        for name in wanted.into_iter().chain([last]) {
            assert!(counts.contains_key(name), "{name} of {counts:?}");
        }
        for (name, count) in counts {
            let mut numbers = vec![1, count.div_ceil(2), count];
            numbers.dedup();
            for number in numbers {
                let survivor = prepare(&scene, survives);
                let mut command = command(&scene.place, &scene.place.shm(), "heat");
                let output = command.env("STILLFRAME_DIE_AT", format!("{name}:{number}")).output().unwrap();
                assert_eq!(output.status.signal(), Some(KILLED), "{name}:{number}: {output:?}");
                scene.check(survivor);
            }
        }
    }
}

#[test]
fn killed_at_any_instant_nothing_half_restored_is_seen() {
    let _watchdog = watchdog(500);
    let kills: u64 = std::env::var("STILLFRAME_TEST_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let mut numbers = Numbers(5);
    let scenes = [Scene::new("instants", false), Scene::new("instants", true)];
    let mut outcomes = BTreeMap::new();
    for number in 0..kills {
        let scene = &scenes[number as usize % 2];
        let survivor = prepare(scene, number % 4 > 1);
        let mut child = command(&scene.place, &scene.place.shm(), "heat").spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_micros(numbers.below(12_000) as u64));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        // It may have been quicker.
        assert!(status.success() || status.signal() == Some(KILLED), "{status}");
        *outcomes.entry((survivor, scene.seen())).or_insert(0) += 1;
        scene.check(survivor);
    }
    println!("{outcomes:?}");
}

/// A small file system of memory, for the one user who may make one; unmounted at the end.
struct Small(PathBuf);

impl Small {
    fn new(place: &Place, bytes: u64) -> Option<Small> {
        let path = place.path().join("small");
        std::fs::create_dir_all(&path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "still-test"]).arg(&path);
        let is_mounted = mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        is_mounted.then_some(Small(path))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Lazily, for a child that another test just forks has this one's files open for an instant.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn too_little_memory_is_an_error_and_leaves_nothing() {
    let _watchdog = watchdog(300);
    let scene = Scene::new("full", false);
    let checkpoint = Checkpoint::open(scene.place.store().join(layout::checkpoint_dir(SAVED))).unwrap();
    let (mut full, mut fitting) = (0, 0);
    // From far too little to just enough: the memory ends at every place where it can.
    for pages in [1, 2, 7, 20].into_iter().chain(34..44).chain((44..300).step_by(20)) {
        let Some(small) = Small::new(&scene.place, pages * 4096) else {
            println!("skipped: this user may not mount anything");
            return;
        };
        match restore(&checkpoint, Region::options().dir(&small.0), "heat") {
            Ok(_) => {
                fitting += 1;
                let observer = stillframe::Observer::options().dir(&small.0).open("heat").unwrap();
                assert_eq!(Version::of(&observer.newest().unwrap()), scene.versions[0]);
            }
            Err(error) => {
                full += 1;
                assert!(matches!(&error, Error::Engine(stillframe::Error::NoSpace { .. })), "{pages} pages: {error}");
                assert!(std::fs::read_dir(&small.0).unwrap().next().is_none(), "{pages} pages: {error}");
            }
        }
    }
    assert!(full > 10 && fitting > 1, "{full} {fitting}");
}

#[test]
fn whoever_may_not_is_told_and_changes_nothing() {
    let _watchdog = watchdog(300);
    let scene = Scene::new("denied", false);
    let told = |shm: &Path, mode: &str, path: &Path| {
        // This user may be the other one.
        let own = std::fs::metadata(path).ok().filter(|own| own.uid() != 65_534);
        own?;
        let chmod = |mode: &str| assert!(Command::new("chmod").arg(mode).arg(path).status().unwrap().success());
        chmod(mode);
        let output = command(&scene.place, shm, "heat").uid(65_534).gid(65_534).output();
        chmod("755");
        output.ok().map(|output| said(&output))
    };
    let checkpoint = scene.place.store().join(layout::checkpoint_dir(SAVED));
    let (open, chunk) = (scene.place.path().join("open"), checkpoint.join("u/c.1.0.0"));
    std::fs::create_dir(&open).unwrap();
    let Some(text) = told(&scene.place.shm(), "755", &scene.place.shm()) else {
        println!("skipped: this user may not become another one");
        return;
    };
    assert!(text.contains("code 102:") && text.contains("may not be opened or made by this user"), "{text}");
    assert!(Command::new("chmod").arg("1777").arg(&open).status().unwrap().success());
    for path in [&chunk, &checkpoint.join(layout::MANIFEST), &checkpoint, &scene.place.store()] {
        let text = told(&open, "0", path).unwrap();
        assert!(text.contains("code 1110:") && text.contains("give this user the right"), "{path:?}: {text}");
        assert!(text.contains(&path.display().to_string()), "{path:?}: {text}");
        assert_eq!(std::fs::read_dir(&open).unwrap().count(), 0, "{path:?}");
    }
    let text = told(&open, "644", &chunk).unwrap();
    assert!(text.contains("restored 9"), "{text}");
}

#[test]
fn of_several_that_restore_at_once_one_succeeds() {
    let _watchdog = watchdog(300);
    let scene = Scene::new("several", false);
    for _ in 0..20 {
        scene.clear();
        let restore = || restore_newest(scene.place.store(), scene.place.options(), "heat");
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(restore)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
        for error in results.into_iter().filter_map(Result::err) {
            let expected = |error: &stillframe::Error| {
                use stillframe::Error::{InUse, Staged, Survives};
                matches!(error, InUse { .. } | Staged { .. } | Survives { .. })
            };
            assert!(matches!(&error, Error::Engine(engine) if expected(engine)), "{error}");
        }
        assert_eq!(scene.seen(), Some(SAVED));
        assert_eq!(scene.place.names(), ["heat"]);
    }
}
