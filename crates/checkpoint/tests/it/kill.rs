//! Savers that are killed, at every named point and at any instant.
//!
//! A reader sees whole checkpoints or none; what was said to be safe is there, and stays until something newer is; what the
//! dead left is cleaned up by the next one. `STILLFRAME_TEST_KILLS` is the number of kills at random instants.
#![allow(unsafe_code)]

use crate::reading::watchdog;
#[cfg(feature = "points")]
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;
use stillframe::{Array, Observer, Region, Snapshot};
use stillframe_checkpoint::{Checkpoint, Codec, Keep, SaveOptions, Saver, Store};

const DIR: &str = "STILLFRAME_TEST_DIR";
const ELEMENTS: usize = 1 << 15;
const STEPS: u64 = 6;

/// What version `version` has at `index`: the first half changes from version to version, the second stays.
fn element(version: u64, index: usize) -> u64 {
    if index < ELEMENTS / 2 { version * 1000 + index as u64 } else { index as u64 }
}

/// A producer in this process.
struct Producer {
    region: Region,
    array: Array<u64>,
    observer: Option<Observer>,
    dir: PathBuf,
}

impl Producer {
    fn new(dir: PathBuf) -> Producer {
        let _ = std::fs::remove_dir_all(&dir);
        let mut region = Region::options().dir(&dir).create("r").unwrap();
        let array = region.array::<u64>("u", &[ELEMENTS]).unwrap();
        Producer { region, array, observer: None, dir }
    }

    /// Publishes a version and holds it.
    fn publish(&mut self, version: u64) -> Snapshot {
        self.publish_as("", version)
    }

    /// Publishes a version that tells its run.
    fn publish_as(&mut self, run: &str, version: u64) -> Snapshot {
        for (index, place) in self.region.slice_mut(&self.array).iter_mut().enumerate() {
            *place = element(version, index);
        }
        self.region.publish(version).attr("t", version as f64).attr("run", run).commit().unwrap();
        let observer = self.observer.get_or_insert_with(|| Observer::options().dir(&self.dir).open("r").unwrap());
        observer.newest().unwrap()
    }
}

fn open(dir: &Path) -> Saver {
    // The codec of the second half of the tests is one that compresses, by the name of the directory.
    let codec = if dir.ends_with("zstd") { Codec::Zstd { level: 1 } } else { Codec::Plain };
    let keep = Keep { newest: 1, every: None };
    Saver::open(dir.join("store"), SaveOptions::new().chunk_bytes(1 << 15).threads(2).codec(codec).keep(keep)).unwrap()
}

/// Saves version after version, and says which is safe.
#[test]
fn helper_process() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    // SAFETY: prctl with these numbers touches no memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let dir = Path::new(&dir);
    let begun =
        Store::open(dir.join("store")).ok().and_then(|store| store.newest().ok()).map_or(0, |good| good.version());
    let mut producer = Producer::new(dir.join("regions"));
    let saver = open(dir);
    for version in begun + 1..=begun + STEPS {
        let snapshot = producer.publish(version);
        saver.save(&snapshot, &|_| {}).unwrap();
        let mut out = std::io::stdout().lock();
        out.write_all(format!("\nsafe {version}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
    }
    std::process::exit(0);
}

#[cfg(feature = "points")]
const AGAIN: &str = "STILLFRAME_TEST_AGAIN";

/// Saves a version of another run, whose number was given before.
#[cfg(feature = "points")]
#[test]
fn helper_of_the_next_run() {
    let (Some(dir), Ok(version)) = (std::env::var_os(DIR), std::env::var(AGAIN)) else { return };
    // SAFETY: prctl with these numbers touches no memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    save_run(Path::new(&dir), "second", &[version.parse().unwrap()]);
    std::process::exit(0);
}

/// Saves versions of a run that begins with nothing, each telling its run.
#[cfg(feature = "points")]
fn save_run(dir: &Path, run: &str, versions: &[u64]) {
    let mut producer = Producer::new(dir.join(run));
    let options = SaveOptions::new().chunk_bytes(1 << 15).keep(Keep { newest: 3, every: None });
    let saver = Saver::open(dir.join("store"), options).unwrap();
    for version in versions {
        let snapshot = producer.publish_as(run, *version);
        saver.save(&snapshot, &|_| {}).unwrap();
    }
}

fn helper(dir: &Path) -> Command {
    helper_called("kill::helper_process", dir)
}

fn helper_called(name: &str, dir: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(DIR, dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// Runs a helper to its end, which comes after `life` at the latest if there is one, and looks at the store all the while.
/// Returns what was last said to be safe.
fn run(command: &mut Command, dir: &Path, life: Option<Duration>) -> (ExitStatus, u64) {
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    if let Some(life) = life {
        std::thread::sleep(life);
        child.kill().unwrap();
    }
    let mut safe = 0;
    for line in lines.map_while(Result::ok) {
        if let Some(version) = line.strip_prefix("safe ").and_then(|number| number.parse().ok()) {
            safe = version;
            check_store(dir, safe);
        }
    }
    (child.wait().unwrap(), safe)
}

/// Every checkpoint that can be seen is whole, and there is one that is no older than what was said to be safe.
fn check_store(dir: &Path, safe: u64) -> u64 {
    let Ok(store) = Store::open(dir.join("store")) else {
        assert_eq!(safe, 0);
        return 0;
    };
    loop {
        let versions = store.versions().unwrap();
        let mut newest = 0;
        for version in versions.iter().copied() {
            // Old ones go while they are looked at.
            let Ok(checkpoint) = store.version(version) else {
                assert!(store.versions().unwrap().iter().any(|newer| *newer > version), "version {version} is no good");
                continue;
            };
            let whole = check_content(&checkpoint);
            assert!(whole || store.versions().unwrap().iter().any(|newer| *newer > version), "version {version}");
            newest = if whole { version } else { newest };
        }
        // All that were there may have gone meanwhile, because newer ones came.
        if newest >= safe || store.versions().unwrap() == versions {
            assert!(newest >= safe, "version {safe} was said to be safe, and {newest} is what there is");
            return newest;
        }
    }
}

fn check_content(checkpoint: &Checkpoint) -> bool {
    let mut bytes = vec![0; ELEMENTS * 8];
    if checkpoint.read(None, "u", 0..ELEMENTS * 8, &mut bytes).is_err() {
        return false;
    }
    let version = checkpoint.version();
    for (index, word) in bytes.chunks_exact(8).enumerate() {
        assert_eq!(u64::from_le_bytes(word.try_into().unwrap()), element(version, index), "{version} at {index}");
    }
    true
}

/// The next saver goes on, and leaves nothing of what the dead one left.
fn check_next(dir: &Path, safe: u64) {
    let newest = check_store(dir, safe);
    let snapshot = Producer::new(dir.join("regions-of-next")).publish(newest + 1);
    let saver = open(dir);
    let saved = saver.save(&snapshot, &|_| {}).unwrap();
    assert_eq!(saved.trouble, None);
    let mut names: Vec<String> = std::fs::read_dir(dir.join("store"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let version = stillframe_checkpoint::layout::checkpoint_dir(newest + 1);
    assert_eq!(names, ["latest.zarr", "lock", version.as_str()], "after version {newest}");
    let checkpoint = Checkpoint::open(&saved.path).unwrap();
    assert!(checkpoint.verify(1, &|_| {}).unwrap().is_empty() && check_content(&checkpoint));
}

fn temporary(codec: &str) -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir_in("/dev/shm").unwrap();
    let dir = temporary.path().join(codec);
    std::fs::create_dir(&dir).unwrap();
    (temporary, dir)
}

#[cfg(feature = "points")]
#[test]
fn a_saver_may_die_at_every_point() {
    let _watchdog = watchdog(600);
    for codec in ["plain", "zstd"] {
        let (_keep, dir) = temporary(codec);
        let log = dir.join("points");
        assert!(run(helper(&dir).env("STILLFRAME_COUNT_POINTS", &log), &dir, None).0.success());
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let steps = ["open", "save", "latest", "remove"];
        for point in std::fs::read_to_string(&log).unwrap().lines() {
            if steps.iter().any(|step| point.starts_with(&format!("{step}."))) {
                *counts.entry(point.into()).or_default() += 1;
            }
        }
        let expected = [
            "latest.made",
            "open.locked",
            "remove.removed",
            "remove.rename",
            "remove.renamed",
            "remove.synced",
            "save.announced",
            "save.begun",
            "save.checksums",
            "save.chunk",
            "save.chunks",
            "save.committed",
            "save.end",
            "save.linked",
            "save.manifest",
            "save.metadata",
            "save.renamed",
            "save.synced",
            "save.written",
        ];
        assert_eq!(counts.keys().collect::<Vec<_>>(), expected);
        for (point, count) in counts {
            // The first time, one in the middle, and the last time are as good as all.
            let occurrences = std::collections::BTreeSet::from([1, count.div_ceil(2), count]);
            for occurrence in occurrences {
                let (_keep, dir) = temporary(codec);
                let (status, safe) =
                    run(helper(&dir).env("STILLFRAME_DIE_AT", format!("{point}:{occurrence}")), &dir, None);
                assert_eq!(status.signal(), Some(libc::SIGKILL), "{point}:{occurrence} ended with {status}");
                check_next(&dir, safe);
            }
        }
    }
}

#[cfg(feature = "points")]
#[test]
fn a_saver_may_die_while_it_cleans_up() {
    let _watchdog = watchdog(300);
    let (_keep, dir) = temporary("plain");
    let died = |point: &str| run(helper(&dir).env("STILLFRAME_DIE_AT", point), &dir, None);
    assert_eq!(died("save.synced:2").0.signal(), Some(libc::SIGKILL));
    let (status, _) = died("open.clean:1");
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    check_next(&dir, 1);
}

/// The versions of a store that are whole, with their runs.
#[cfg(feature = "points")]
fn runs(store: &Path) -> Vec<(u64, String)> {
    let store = Store::open(store).unwrap();
    let run = |version: &u64| {
        let checkpoint = store.version(*version).unwrap();
        assert!(checkpoint.verify(1, &|_| {}).unwrap().is_empty() && check_content(&checkpoint));
        let Some(stillframe::Scalar::Text(run)) = checkpoint.manifest().attributes.get("run") else { panic!("no run") };
        (*version, run.clone())
    };
    store.versions().unwrap().iter().map(run).collect()
}

#[cfg(feature = "points")]
#[test]
fn a_saver_may_die_at_every_point_where_an_earlier_run_gives_way() {
    let _watchdog = watchdog(300);
    let expected: [(&[u64], u64, &[&str]); 4] = [
        // The only one there is, and its very number.
        (&[7], 7, &["exchanged", "made", "moved", "replaced", "synced"]),
        (&[5, 6, 7], 7, &["exchanged", "made", "moved", "replaced", "synced"]),
        (&[5, 6, 7], 6, &["exchanged", "made", "moved", "replaced", "synced"]),
        (&[5, 6, 7], 2, &["made", "moved", "synced"]),
    ];
    for (old, again, points) in expected {
        let begin = || {
            let (keep, dir) = temporary("plain");
            save_run(&dir, "first", old);
            let mut command = helper_called("kill::helper_of_the_next_run", &dir);
            command.env(AGAIN, again.to_string());
            (keep, dir, command)
        };
        let (_keep, dir, mut command) = begin();
        let log = dir.join("points");
        assert!(run(command.env("STILLFRAME_COUNT_POINTS", &log), &dir, None).0.success());
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for point in std::fs::read_to_string(&log).unwrap().lines() {
            *counts.entry(point.into()).or_default() += 1;
        }
        let known = counts.keys().filter_map(|point| point.strip_prefix("earlier.")).collect::<Vec<_>>();
        assert_eq!(known, points, "{again} after {old:?}");
        counts.retain(|point, _| ["earlier.", "latest.", "save."].iter().any(|step| point.starts_with(step)));
        for (point, count) in counts {
            for occurrence in std::collections::BTreeSet::from([1, count]) {
                let context = format!("{again} after {old:?}, dead at {point}:{occurrence}");
                let (_keep, dir, mut command) = begin();
                let (status, _) = run(command.env("STILLFRAME_DIE_AT", format!("{point}:{occurrence}")), &dir, None);
                assert_eq!(status.signal(), Some(libc::SIGKILL), "{context}: {status}");
                check_run_after(&dir, old, again, &context);
            }
        }
    }
}

/// There is a good checkpoint in the store itself, and the next run loses nothing and finds nothing in its way.
#[cfg(feature = "points")]
fn check_run_after(dir: &Path, old: &[u64], again: u64, context: &str) {
    let store = dir.join("store");
    let newest = Store::open(&store).unwrap().newest().expect(context).version();
    assert!(runs(&store).iter().any(|found| found.0 == newest), "{context}");
    let is_committed = runs(&store).contains(&(again, "second".into()));
    if is_committed {
        // Whoever restarts now goes on from the later run, whatever numbers the earlier one left.
        assert_eq!(newest, again, "{context}");
        assert_eq!(stillframe_checkpoint::newest_safe(&store).unwrap(), Some(again), "{context}");
        // Whoever saves it again, because nobody said that it is safe, finishes what the dead one began.
        let saver = Saver::open(&store, SaveOptions::new()).unwrap();
        let held = Observer::options().dir(dir.join("second")).open("r").unwrap().newest().unwrap();
        assert!(saver.save(&held, &|_| {}).unwrap().already, "{context}");
        let newest = Store::open(&store).unwrap().newest().unwrap();
        assert_eq!((newest.version(), newest.path()), (again, &*store.join("latest.zarr").canonicalize().unwrap()));
    }
    save_run(dir, "third", &[again]);
    let mut names: Vec<String> =
        std::fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let mut left: Vec<(u64, String)> =
        names.iter().filter(|name| name.starts_with("earlier-")).flat_map(|name| runs(&store.join(name))).collect();
    left.sort();
    let of = |versions: &mut dyn Iterator<Item = &u64>| -> Vec<(u64, String)> {
        versions.map(|version| (*version, "first".into())).collect()
    };
    let mut aside = of(&mut old.iter().filter(|version| **version >= again));
    aside.extend(is_committed.then(|| (again, "second".into())));
    aside.sort();
    assert_eq!(left, aside, "{context}");
    let mut present = of(&mut old.iter().filter(|version| **version < again));
    present.push((again, "third".into()));
    assert_eq!(runs(&store), present, "{context}");
    names.retain(|name| !name.starts_with("earlier-") && !name.starts_with('v'));
    names.sort();
    assert_eq!(names, ["latest.zarr", "lock"], "{context}");
}

#[test]
fn a_saver_may_die_at_any_instant() {
    let _watchdog = watchdog(600);
    let kills = std::env::var("STILLFRAME_TEST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(12u64);
    let (_keep, dir) = temporary("plain");
    let mut safe = 0;
    for kill in 0..kills {
        // Lives of all lengths up to a little more than a whole one takes.
        let life = Duration::from_micros(kill * 7919 % 40 * 2500);
        let (status, said) = run(&mut helper(&dir), &dir, Some(life));
        assert!(status.success() || status.signal() == Some(libc::SIGKILL), "{status}");
        safe = check_store(&dir, said.max(safe));
    }
    check_next(&dir, safe);
}
