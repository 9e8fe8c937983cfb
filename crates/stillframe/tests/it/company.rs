//! Others around a region: a second producer, other users, forked children, and those who remove it.

#![allow(unsafe_code)]

use crate::common;
use crate::helper;

use crate::common::{Dir, trackers, watchdog};
use crate::helper::{Helper, Play, check_play, command, run, say, start, until, wait_for_word};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use stillframe::{Error, Family, Observer, Part, Region, RegionOptions, Snapshot, Staging, inspect};

const NOBODY: u32 = 65534;

fn is_root() -> bool {
    // SAFETY: the call touches no memory.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        eprintln!("skipped: only root can be other users");
    }
    root
}

/// Produces a few versions and waits to be told to go on, again and again.
fn producer(arguments: &[String]) {
    let mut play = Play::open(Region::options().dir(&arguments[0]), "r");
    loop {
        for _ in 0..5 {
            play.step();
        }
        say(&format!("version {}", play.version));
        wait_for_word();
    }
}

fn check_in_use(error: Error, pid: i32) {
    let text = error.to_string();
    assert!(matches!(error, Error::InUse { pid: found, .. } if found == pid as u32), "{text}");
    assert!(text.contains(&pid.to_string()) && text.contains("'r'"), "{text}");
    assert_eq!(error.family(), Family::Environment);
}

#[test]
fn a_second_producer_of_a_name_is_refused_until_the_first_is_gone() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("second");
    let mut helper = start("producer", &[dir.path().to_str().unwrap()]);
    helper.expect("version 5");
    check_in_use(dir.options().create("r").unwrap_err(), helper.pid());
    check_in_use(inspect::remove(dir.path(), "r", false).unwrap_err(), helper.pid());
    // Those who were refused disturbed nobody.
    helper.tell();
    helper.expect("version 10");
    check_play(&dir.observe("r").newest().unwrap());
    helper.stop();
    check_in_use(dir.options().create("r").unwrap_err(), helper.pid());
    helper.kill();
    let mut play = Play::open(dir.options(), "r");
    assert_eq!(play.version, 10);
    check_in_use(dir.options().create("r").unwrap_err(), std::process::id() as i32);
    play.step();
    drop(play);
    Play::open(dir.options(), "r").step();
}

#[test]
fn of_many_who_create_a_region_at_once_one_succeeds() {
    let _watchdog = watchdog(300);
    for _ in 0..20 {
        let dir = Dir::new("many");
        let barrier = std::sync::Barrier::new(4);
        let created: Vec<stillframe::Result<Region>> = std::thread::scope(|scope| {
            let create = || {
                barrier.wait();
                dir.options().create("r")
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(create)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut regions: Vec<Region> = created
            .into_iter()
            .filter_map(|result| match result {
                Ok(region) => Some(region),
                Err(Error::InUse { .. }) => None,
                Err(error) => panic!("{error}"),
            })
            .collect();
        assert_eq!(regions.len(), 1);
        regions[0].publish(1).commit().unwrap();
        assert_eq!(dir.observe("r").newest().unwrap().version(), 1);
    }
}

/// Looks at a region as another user, and says how that went.
fn stranger(arguments: &[String]) {
    // SAFETY: the call touches no memory.
    assert_ne!(unsafe { libc::geteuid() }, 0);
    let observer = match Observer::options().dir(&arguments[0]).open("r") {
        Ok(observer) => observer,
        Err(error) => {
            let kind = if matches!(error, Error::Denied { .. }) { "denied" } else { "error" };
            return say(&format!("{kind} {error}"));
        }
    };
    let snapshot = observer.newest().unwrap();
    assert!(observer.producer_alive());
    check_play(&snapshot);
    say(&format!("version {}", snapshot.version()));
    wait_for_word();
    check_play(&snapshot);
    check_play(&observer.newest().unwrap());
    let error = Region::options().dir(&arguments[0]).create("r").unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error}");
    let error = inspect::remove(Path::new(&arguments[0]), "r", true).unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error}");
    say(&format!("still {}", snapshot.version()));
    wait_for_word();
}

/// Produces in a directory of its own, as any user.
fn own_producer(arguments: &[String]) {
    // SAFETY: the call touches no memory.
    assert_ne!(unsafe { libc::geteuid() }, 0);
    for tracker in trackers() {
        let options = || Region::options().dir(&arguments[0]).tracker(tracker);
        let mut play = Play::open(options(), "mine/r");
        for _ in 0..20 {
            play.step();
        }
        drop(play);
        let play = Play::open(options(), "mine/r");
        assert_eq!(play.version, 20);
        let observer = Observer::options().dir(&arguments[0]).open("mine/r").unwrap();
        check_play(&observer.newest().unwrap());
        play.region.unlink().unwrap();
    }
}

fn as_nobody(role: &str, dir: &Path) -> Helper {
    let mut command = command(role, &[dir.to_str().unwrap()]);
    command.uid(NOBODY).gid(NOBODY);
    Helper::start(command)
}

/// Produces with a mode and a mask of the process that takes bits from it.
fn masked(arguments: &[String]) {
    // SAFETY: the call touches no memory.
    unsafe { libc::umask(0o077) };
    let mut play = Play::open(Region::options().dir(&arguments[0]).mode(0o755), "r");
    for _ in 0..8 {
        play.step();
    }
    say("ready");
    wait_for_word();
    for _ in 0..30 {
        play.step();
    }
    say("ready");
    wait_for_word();
}

#[test]
fn another_user_needs_to_be_let_in() {
    // It is about the files of a region's directory.
    if common::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(300);
    if !is_root() {
        return;
    }
    let dir = Dir::new("closed");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut play = Play::open(dir.options(), "r");
    play.step();
    assert_eq!(std::fs::metadata(dir.path().join("r")).unwrap().mode() & 0o777, 0o700);
    let mut stranger = as_nobody("stranger", dir.path());
    let said = stranger.hear().unwrap();
    assert!(said.starts_with("denied") && said.contains("may not be opened or made by this user"), "{said}");
    assert!(said.contains("'mode'"), "{said}");
    drop(stranger);
    play.step();
    play.region.unlink().unwrap();

    let mut helper = start("masked", &[dir.path().to_str().unwrap()]);
    helper.expect("ready");
    let mut stranger = as_nobody("stranger", dir.path());
    stranger.expect("version 8");
    // The hold of another user is a hold, and is seen by those who may.
    let holders = inspect::holders(dir.path(), "r").unwrap();
    assert_eq!(holders.len(), 1);
    assert_eq!((holders[0].pid, holders[0].version), (Some(stranger.pid()), Some(8)));
    helper.tell();
    helper.expect("ready");
    let versions: Vec<u64> = dir.observe("r").versions().iter().map(|info| info.version).collect();
    assert_eq!(versions, [8, 38]);
    stranger.tell();
    stranger.expect("still 8");
    stranger.tell();
    stranger.finish();
    helper.kill();
}

#[test]
fn any_user_can_produce_in_a_directory_of_its_own() {
    // It is about the files of a region's directory.
    if common::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(300);
    if !is_root() {
        return;
    }
    let dir = Dir::new("own");
    std::os::unix::fs::chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    as_nobody("own_producer", dir.path()).finish();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// Forks. The child does `act` and ends; returns its number to the parent.
fn fork(act: impl FnOnce()) -> i32 {
    // SAFETY: the child uses of what other threads had only this library and the C library's memory, both made for it.
    match unsafe { libc::fork() } {
        -1 => panic!("{}", std::io::Error::last_os_error()),
        0 => {
            // SAFETY: prctl with these numbers touches no memory.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
            // SAFETY: the call ends the process without running what belongs to the parent.
            unsafe { libc::_exit(if done.is_ok() { 0 } else { 1 }) }
        }
        pid => pid,
    }
}

fn reap(pid: i32) {
    let mut status = 0;
    // SAFETY: the pointer is to a live number, and the child is one of this process.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "what the child did went wrong");
}

fn is_forked<T>(result: stillframe::Result<T>) -> bool {
    let Err(error) = result else { return false };
    assert!(error.to_string().contains("open the region again"), "{error}");
    assert_eq!(error.family(), Family::Misuse);
    matches!(error, Error::Forked { .. })
}

fn try_everything(play: &mut Play, observer: &Observer, snapshot: &Snapshot) {
    let region = &mut play.region;
    assert!(is_forked(region.publish(1000).commit()));
    assert!(is_forked(region.array::<u64>("new", &[1])));
    assert!(is_forked(region.remove("managed")));
    assert!(is_forked(region.repart(play.tracked.id(), &[1], &Part { offset: vec![0], global_shape: vec![1] })));
    assert!(is_forked(observer.newest()));
    assert!(is_forked(observer.version(snapshot.version())));
    assert!(is_forked(observer.newest_after(None, None)));
    assert!(is_forked(observer.next_after(None, None)));
    assert!(is_forked(snapshot.slice::<u64>("managed")));
    assert!(is_forked(snapshot.view("managed")));
    assert!(is_forked(snapshot.chunks("managed")));
    assert!(is_forked(snapshot.read("managed", 0, &mut [0; 8])));
    assert!(is_forked(snapshot.changed(snapshot, "managed")));
}

/// Forks children that try to disturb it, and goes on with each of them alive.
fn forking(arguments: &[String]) {
    let dir = Path::new(&arguments[0]);
    for tracker in trackers() {
        let mut play = Play::open(Region::options().dir(dir).tracker(tracker), "r");
        for _ in 0..20 {
            play.step();
        }
        let observer = Observer::options().dir(dir).open("r").unwrap();
        let snapshot = observer.newest().unwrap();
        let mut children = Vec::new();
        for _ in 0..4 {
            let (mut ready, mut go_on) = ([0; 2], [0; 2]);
            // SAFETY: both point to two live numbers.
            unsafe { assert_eq!(libc::pipe(ready.as_mut_ptr()) + libc::pipe(go_on.as_mut_ptr()), 0) };
            let pid = fork(|| {
                try_everything(&mut play, &observer, &snapshot);
                // Handles of its own are as good as any.
                let own = Observer::options().dir(dir).open("r").unwrap();
                check_play(&own.newest().unwrap());
                drop(Play::open(Region::options().dir(dir).tracker(tracker), "child").region);
                // SAFETY: the call writes from a live byte.
                unsafe { libc::write(ready[1], [0u8].as_ptr().cast(), 1) };
                // SAFETY: the call reads to a live byte.
                unsafe { libc::read(go_on[0], [0u8].as_mut_ptr().cast(), 1) };
                // What ends with the child is not the parent's.
                drop(std::mem::replace(&mut play, Play::open(Region::options().dir(dir), "other")));
                drop(snapshot.clone());
            });
            // SAFETY: the end is the child's alone, whose death is then seen.
            unsafe { libc::close(ready[1]) };
            // SAFETY: the call reads to a live byte.
            assert_eq!(unsafe { libc::read(ready[0], [0u8].as_mut_ptr().cast(), 1) }, 1);
            children.push((pid, go_on[1]));
            let error = Region::options().dir(dir).create("r").unwrap_err();
            check_in_use(error, std::process::id() as i32);
            for _ in 0..20 {
                play.step();
                check_play(&observer.newest().unwrap());
            }
            check_play(&snapshot);
        }
        for (pid, go_on) in children {
            // SAFETY: the call writes from a live byte.
            unsafe { libc::write(go_on, [0u8].as_ptr().cast(), 1) };
            reap(pid);
            let error = Region::options().dir(dir).create("r").unwrap_err();
            check_in_use(error, std::process::id() as i32);
            play.step();
            check_play(&observer.newest().unwrap());
            check_play(&snapshot);
        }
        let holders = inspect::holders(dir, "r").unwrap();
        assert_eq!(holders.len(), 1, "{holders:?} {} {tracker:?}", std::process::id());
        play.region.unlink().unwrap();
        inspect::collect(dir).unwrap();
    }
}

/// Makes a region, publishes, looks at it, and lets go of it.
fn live_once(dir: &Path, options: RegionOptions, name: &str) {
    let mut play = Play::open(options.dir(dir), name);
    play.step();
    check_play(&Observer::options().dir(dir).open(name).unwrap().newest().unwrap());
    play.region.unlink().unwrap();
}

/// The files with the locks of regions in a directory that this process has open.
fn lease_files(dir: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let files = files.filter_map(|file| std::fs::read_link(file.path()).ok()).filter(|path| path.starts_with(dir));
    files.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("lease")).collect()
}

/// Tells the other threads when the work of one is over, or went wrong.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Forks while other threads are anywhere inside the library. What they have locked stays locked in the children, which
/// never see them again; and so would what they lock in files that a child has as well.
fn forking_crowd(arguments: &[String]) {
    let (dir, forks) = (Path::new(&arguments[0]), arguments[1].parse().unwrap());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    live_once(dir, Region::options().threads(2), &format!("thread-{thread}"));
                }
            });
        }
        let _over = Over(&is_over);
        for _ in 0..forks {
            reap(fork(|| {
                assert_eq!(lease_files(dir), [] as [PathBuf; 0]);
                live_once(dir, Region::options().threads(2), "child");
            }));
        }
    });
}

#[test]
fn a_child_needs_nothing_of_the_threads_that_its_parent_had() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("crowd");
    // What a process does only once is done when it is young.
    for _ in 0..20 {
        run("forking_crowd", &[dir.path().to_str().unwrap(), "1"]);
    }
    run("forking_crowd", &[dir.path().to_str().unwrap(), "100"]);
}

/// Forks a child that lets go of what its parent stages, and lives on.
fn staging(arguments: &[String]) {
    let options = Region::options().dir(&arguments[0]);
    let staged = Staging::begin(&options, "r").unwrap();
    // SAFETY: the copy is dropped in the child alone.
    reap(fork(|| drop(unsafe { std::ptr::read(&staged) })));
    assert!(staged.path().is_dir());
    let child = fork(|| std::thread::sleep(std::time::Duration::from_secs(300)));
    drop(staged);
    let again = Staging::begin(&options, "r");
    // SAFETY: the child is one of this process, and was not waited for.
    unsafe { libc::kill(child, libc::SIGKILL) };
    again.unwrap();
}

#[test]
fn what_is_staged_is_not_a_forked_childs() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("staging");
    run("staging", &[dir.path().to_str().unwrap()]);
}

#[test]
fn forked_children_disturb_nothing() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("forks");
    run("forking", &[dir.path().to_str().unwrap()]);
}

/// Publishes and holds, forks a child that lives on, and waits to be killed.
fn parent(arguments: &[String]) {
    let dir = Path::new(&arguments[0]);
    let mut play = Play::open(Region::options().dir(dir), "r");
    play.step();
    let observer = Observer::options().dir(dir).open("r").unwrap();
    let snapshot = observer.newest().unwrap();
    let child = fork(|| {
        // SAFETY: prctl with these numbers touches no memory.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, 0) };
        std::thread::sleep(std::time::Duration::from_secs(600));
    });
    play.step();
    check_play(&snapshot);
    say(&child.to_string());
    wait_for_word();
}

#[test]
fn a_forked_child_keeps_neither_region_nor_hold_of_its_dead_parent() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("orphan");
    let mut helper = start("parent", &[dir.path().to_str().unwrap()]);
    let child: i32 = helper.hear().unwrap().parse().unwrap();
    // The child lets go as soon as it runs, which may be later than its parent knows of it.
    until("the parent alone to hold", || inspect::holders(dir.path(), "r").unwrap().len() == 1);
    helper.signal(libc::SIGKILL);
    let observer = dir.observe("r");
    until("the producer to be gone", || !observer.producer_alive());
    // SAFETY: signal zero only asks.
    assert_eq!(unsafe { libc::kill(child, 0) }, 0, "the child is alive");
    assert_eq!(inspect::holders(dir.path(), "r").unwrap(), []);
    let mut play = Play::open(dir.options(), "r");
    assert_eq!(play.version, 2);
    play.step();
    assert!(observer.versions().iter().all(|info| info.version > 2));
    // SAFETY: the child was just found alive, and only its own end could have given its number away since.
    unsafe { libc::kill(child, libc::SIGKILL) };
}

#[test]
fn snapshots_outlive_their_region_and_the_next_of_its_name() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("outlive");
    let mut play = Play::open(dir.options(), "r");
    let observer = dir.observe("r");
    for _ in 0..7 {
        play.step();
    }
    // Nothing of it was looked at before the region went.
    let first = observer.newest().unwrap();
    play.region.unlink().unwrap();
    check_play(&first);
    // What an arena takes back is gone for who does not hold it.
    let late = if common::is_in_arena() { first.clone() } else { observer.newest().unwrap() };
    check_play(&late);
    let mut play = Play::open(dir.options(), "r");
    assert_eq!(play.version, 0);
    for _ in 0..3 {
        play.step();
    }
    check_play(&late);
    assert_eq!(late.version(), 7);
    // An observer looks at the region it was opened on, or says that there is none.
    match observer.newest() {
        Ok(snapshot) => {
            assert_eq!(snapshot.version(), 7);
            check_play(&snapshot);
        }
        Err(error) => assert!(matches!(error, Error::NoRegion { .. }), "{error}"),
    }
    assert!(!observer.producer_alive());
    let second = dir.observe("r").newest().unwrap();
    assert_eq!(second.version(), 3);
    inspect::remove(dir.path(), "r", true).unwrap();
    check_play(&second);
    // The producer goes on into files that nobody can open any more.
    play.step();
    assert!(matches!(Observer::options().dir(dir.path()).open("r"), Err(Error::NoRegion { .. })));
    drop(play);
    let mut unread = Play::open(dir.options(), "r");
    unread.step();
    let observer = dir.observe("r");
    unread.region.unlink().unwrap();
    // Nothing was held and nothing is left of it.
    match observer.newest() {
        Ok(snapshot) => check_play(&snapshot),
        Err(error) => assert!(matches!(error, Error::NoRegion { .. }), "{error}"),
    }
}

#[test]
fn regions_that_come_and_go_show_nothing_that_is_not_theirs() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("replaced");
    let done = std::sync::atomic::AtomicBool::new(false);
    // Threads that have seen a region. One may get no processor for many rounds.
    let sighted = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut has_seen = false;
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let Some(observer) = helper::attach(dir.path(), "r", std::time::Duration::ZERO) else { continue };
                    for _ in 0..3 {
                        match observer.newest() {
                            Ok(snapshot) => {
                                check_play(&snapshot);
                                if !std::mem::replace(&mut has_seen, true) {
                                    sighted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                                }
                            }
                            Err(Error::NoVersion { .. } | Error::NoRegion { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
        let are_sighted = || sighted.load(std::sync::atomic::Ordering::Relaxed) == 2;
        for round in (0..).take_while(|round| *round < 60 || !are_sighted()) {
            let mut play = Play::open(dir.options(), "r");
            // The numbers of versions differ from one region to the next, and so does their content.
            for _ in 0..3 + round % 7 {
                play.step();
            }
            play.region.unlink().unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn a_region_whose_files_are_missing_is_damaged_and_says_so() {
    // It is about the files of a region's directory.
    if common::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(300);
    for file in ["schema.1", "plane.0", "tables"] {
        let dir = Dir::new("missing");
        let mut region = dir.options().create("r").unwrap();
        let array = region.array::<u64>("a", &[10_000]).unwrap();
        region.slice_mut(&array).fill(1);
        region.publish(1).commit().unwrap();
        drop(region);
        std::fs::remove_file(dir.path().join("r").join(file)).unwrap();
        let error = dir.options().create("r").map(drop).unwrap_err();
        assert_eq!(error.family(), Family::Corrupt, "{file}: {error}");
        assert!(error.to_string().contains(if file == "tables" { "0 blocks" } else { file }), "{error}");
        match Observer::options().dir(dir.path()).open("r").and_then(|observer| observer.newest()) {
            Ok(snapshot) => assert_eq!(snapshot.slice::<u64>("a").unwrap_err().family(), Family::Corrupt, "{file}"),
            Err(error) => assert_eq!(error.family(), Family::Corrupt, "{file}: {error}"),
        }
    }
}

#[test]
fn helper_process() {
    helper::enter(&[
        ("producer", producer),
        ("stranger", stranger),
        ("own_producer", own_producer),
        ("masked", masked),
        ("forking", forking),
        ("forking_crowd", forking_crowd),
        ("staging", staging),
        ("parent", parent),
    ]);
}

#[test]
fn collecting_in_a_wrong_directory_leaves_what_is_no_region() {
    // It is about the files of a region's directory.
    if common::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(60);
    let dir = Dir::new("wrong");
    let files = ["a/lease", "a/schema.sql", "a/tables", "b/head", "b/plane.rs", "c/lease"];
    for file in files {
        let path = dir.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // An empty head is what a producer leaves that ended before its region began.
        std::fs::write(&path, if file == "b/head" { "" } else { "somebody's" }).unwrap();
    }
    std::fs::create_dir(dir.path().join("d")).unwrap();
    std::fs::write(dir.path().join("d/lease"), "").unwrap();
    let collected: Vec<_> = inspect::collect(dir.path()).unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(collected, ["d"]);
    assert!(files.iter().all(|file| dir.path().join(file).exists()));
    // Whoever says the name means what is a region's.
    inspect::remove(dir.path(), "a", false).unwrap();
    assert!(dir.path().join("a/schema.sql").exists());
}

#[test]
fn what_removes_a_region_never_takes_the_next_one_of_the_name() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("next");
    let path = dir.path().to_path_buf();
    let removers: Vec<_> = (0..2)
        .map(|_| {
            let path = path.clone();
            std::thread::spawn(move || {
                for _ in 0..300 {
                    match inspect::remove(&path, "r", false) {
                        Ok(_) | Err(Error::NoRegion { .. } | Error::InUse { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            })
        })
        .collect();
    for version in 1..60 {
        let mut region = match dir.options().fresh(true).create("r") {
            Ok(region) => region,
            // Another thread was just removing what was there.
            Err(Error::InUse { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        region.publish(version).commit().unwrap();
        assert_eq!(dir.observe("r").newest().unwrap().version(), version);
    }
    removers.into_iter().for_each(|remover| remover.join().unwrap());
}
