//! Directories and files that somebody else made, or could change: whoever writes, removes or looks must not take them for
//! the user's own.

#![allow(unsafe_code)]

use crate::common;
use crate::helper;

use crate::common::{Dir, watchdog};
use crate::helper::{Helper, Play, check_play, command, say, start, wait_for_word};
use std::fs::Permissions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use stillframe::{Error, Family, Group, Observer, Region, Staging, Trust, inspect};

const NOBODY: u32 = 65534;
const FILES: [&str; 5] = ["head", "lease", "tables", "plane.0", "schema.1"];

fn is_root() -> bool {
    // SAFETY: the call touches no memory.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        eprintln!("skipped: only root can make files of other users");
    }
    root
}

/// A directory with a region `r` that a producer left, and a file beside it that is no business of the region's.
fn left(name: &str) -> (Dir, PathBuf) {
    let dir = Dir::new(name);
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let mut play = Play::open(dir.options().dir(dir.path().join("regions")), "r");
    play.step();
    drop(play);
    let victim = dir.path().join("victim");
    std::fs::write(&victim, content()).unwrap();
    (dir, victim)
}

fn content() -> Vec<u8> {
    (0..9 << 20).map(|index| (index % 251) as u8).collect()
}

fn give_to(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).unwrap();
    if path.is_dir() {
        std::fs::read_dir(path).unwrap().for_each(|entry| give_to(&entry.unwrap().path(), user));
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn make_pipe(path: &Path) {
    let text = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the pointer is to a text that ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(text.as_ptr(), 0o666) }, 0);
}

/// That an error says that something is not the user's own, and what.
fn check_refusal<T>(result: stillframe::Result<T>, words: &[&str]) {
    let Err(error) = result else { panic!("it was taken for one's own: {words:?}") };
    let text = error.to_string();
    assert_eq!((error.code(), error.family()), (120, Family::Environment), "{text}");
    words.iter().for_each(|word| assert!(text.contains(word), "'{word}' is not in: {text}"));
}

#[test]
fn a_directory_that_somebody_else_made_is_not_produced_in() {
    let _watchdog = watchdog(300);
    if !is_root() {
        return;
    }
    let (dir, victim) = left("foreign");
    let root = dir.path().join("regions");
    give_to(&root, NOBODY);
    set_mode(&root, 0o777);
    set_mode(&root.join("r"), 0o777);
    std::fs::remove_file(root.join("r/plane.0")).unwrap();
    symlink(&victim, root.join("r/plane.0")).unwrap();
    let create = |fresh| Region::options().dir(&root).fresh(fresh).create("r");
    let words = [root.to_str().unwrap(), "belongs to user 65534, not to user 0", "777", "STILLFRAME_TRUST=user:65534"];
    check_refusal(create(false), &words);
    check_refusal(create(true), &words);
    check_refusal(Region::options().dir(&root).create("another"), &words);
    check_refusal(Staging::begin(&Region::options().dir(&root), "another"), &words);
    check_refusal(inspect::remove(&root, "r", true), &words);
    check_refusal(inspect::collect(&root), &words);
    assert_eq!(std::fs::read(&victim).unwrap(), content());
    assert_eq!(std::fs::read_dir(root.join("r")).unwrap().count(), FILES.len());
    // The directory above may be one's own, and the region another's.
    chown(&root, Some(0), Some(0)).unwrap();
    set_mode(&root, 0o755);
    let region = root.join("r");
    check_refusal(create(false), &[region.to_str().unwrap(), "belongs to user 65534"]);
    check_refusal(create(true), &[region.to_str().unwrap(), "belongs to user 65534"]);
    check_refusal(inspect::remove(&root, "r", true), &[region.to_str().unwrap(), "belongs to user 65534"]);
    assert_eq!(std::fs::read(&victim).unwrap(), content());
}

#[test]
fn a_file_that_somebody_else_made_is_not_written() {
    let _watchdog = watchdog(300);
    if !is_root() {
        return;
    }
    for name in FILES {
        let (dir, _) = left("foreign-file");
        let root = dir.path().join("regions");
        let file = root.join("r").join(name);
        give_to(&file, NOBODY);
        set_mode(&file, 0o666);
        let before = std::fs::read(&file).unwrap();
        let words = [file.to_str().unwrap(), "belongs to user 65534, not to user 0", "666"];
        check_refusal(Region::options().dir(&root).create("r"), &words);
        assert_eq!(std::fs::read(&file).unwrap(), before, "{name}");
    }
}

#[test]
fn no_link_is_followed_and_no_pipe_waited_for() {
    let _watchdog = watchdog(300);
    for name in FILES {
        for kind in ["link", "loose link", "pipe", "directory", "second name"] {
            let (dir, victim) = left("kind");
            let root = dir.path().join("regions");
            let file = root.join("r").join(name);
            // What is put there is a file of the region, so that only how it is reached is wrong.
            std::fs::rename(&file, dir.path().join("moved")).unwrap();
            match kind {
                "link" => symlink(dir.path().join("moved"), &file).unwrap(),
                "loose link" => symlink(dir.path().join("nowhere"), &file).unwrap(),
                "pipe" => make_pipe(&file),
                "directory" => std::fs::create_dir(&file).unwrap(),
                _ => std::fs::hard_link(dir.path().join("moved"), &file).unwrap(),
            }
            let before = std::fs::read(dir.path().join("moved")).unwrap();
            let word = match kind {
                "link" | "loose link" => "symbolic link",
                "second name" => "2 names",
                other => other,
            };
            let words = [file.to_str().unwrap(), word];
            check_refusal(Region::options().dir(&root).create("r"), &words);
            let look = || Observer::options().dir(&root).open("r")?.newest().map(drop);
            match kind {
                "second name" => look().unwrap(),
                _ => check_refusal(look(), &words),
            }
            assert_eq!(std::fs::read(dir.path().join("moved")).unwrap(), before, "{name}, {kind}");
            assert!(!dir.path().join("nowhere").exists());
            // To remove a region is to remove names, wherever they lead.
            if kind != "directory" {
                let removed = inspect::remove(&root, "r", true);
                if name != "lease" {
                    removed.unwrap();
                    assert!(!root.join("r").exists());
                }
            }
            assert_eq!(std::fs::read(dir.path().join("moved")).unwrap(), before, "{name}, {kind}");
            assert_eq!(std::fs::read(&victim).unwrap(), content());
        }
    }
}

#[test]
fn what_fresh_cannot_read_is_set_aside_and_what_it_cannot_lock_is_refused() {
    let _watchdog = watchdog(300);
    for name in FILES {
        for kind in ["link", "loose link", "pipe", "second name"] {
            let (dir, victim) = left("fresh");
            let (root, moved) = (dir.path().join("regions"), dir.path().join("moved"));
            let file = root.join("r").join(name);
            std::fs::rename(&file, &moved).unwrap();
            match kind {
                "link" => symlink(&moved, &file).unwrap(),
                "loose link" => symlink(dir.path().join("nowhere"), &file).unwrap(),
                "pipe" => make_pipe(&file),
                _ => std::fs::hard_link(&moved, &file).unwrap(),
            }
            // The owner may not write to it, so that whoever opens it as its user is wrong, too, if it changes.
            set_mode(&moved, if is_root() { 0o444 } else { 0o644 });
            let before = (std::fs::read(&moved).unwrap(), std::fs::metadata(&moved).unwrap().mode());
            let created = Region::options().dir(&root).fresh(true).create("r");
            match (name, kind) {
                ("lease", "second name") => drop(created.unwrap()),
                ("lease", _) => check_refusal(created, &[file.to_str().unwrap()]),
                _ => drop(created.unwrap()),
            }
            // Of a region without a head that can be read nobody knows how it ended.
            let is_aside = name == "head" && kind != "second name";
            assert_eq!(root.join("r~1/plane.0").exists(), is_aside, "{name}, {kind}");
            assert_eq!(before, (std::fs::read(&moved).unwrap(), std::fs::metadata(&moved).unwrap().mode()));
            assert!(!dir.path().join("nowhere").exists());
            assert_eq!(std::fs::read(&victim).unwrap(), content());
        }
    }
}

#[test]
fn a_region_whose_directory_is_a_link_is_refused() {
    let _watchdog = watchdog(300);
    let (dir, _) = left("linked");
    let (root, there) = (dir.path().join("regions"), dir.path().join("there"));
    std::fs::rename(root.join("r"), &there).unwrap();
    symlink(&there, root.join("r")).unwrap();
    let region = root.join("r");
    let words = [region.to_str().unwrap(), "symbolic link"];
    check_refusal(Region::options().dir(&root).create("r"), &words);
    check_refusal(Region::options().dir(&root).create("r/below"), &words);
    check_refusal(Observer::options().dir(&root).open("r"), &words);
    check_refusal(inspect::remove(&root, "r", true), &words);
    assert_eq!(std::fs::read_dir(&there).unwrap().count(), FILES.len());
    // One that its user names for all regions is followed.
    let link = dir.path().join("link");
    std::fs::remove_file(&region).unwrap();
    std::fs::rename(&there, &region).unwrap();
    symlink(&root, &link).unwrap();
    check_play(&Observer::options().dir(&link).open("r").unwrap().newest().unwrap());
    Play::open(Region::options().dir(&link), "r").step();
    if is_root() {
        let text = std::ffi::CString::new(link.to_str().unwrap()).unwrap();
        // SAFETY: the pointer is to a text that ends with a zero byte.
        assert_eq!(unsafe { libc::lchown(text.as_ptr(), NOBODY, NOBODY) }, 0);
        let words = [link.to_str().unwrap(), "belongs to user 65534"];
        check_refusal(Region::options().dir(&link).create("r"), &words);
    }
}

#[test]
fn what_others_may_write_to_is_refused() {
    let _watchdog = watchdog(300);
    let (dir, _) = left("writable");
    let root = dir.path().join("regions");
    let region = root.join("r");
    let create = || Region::options().dir(&root).create("r").map(drop);
    for (path, mode, words) in [
        (root.clone(), 0o770, ["its group", "chmod g-w"]),
        (root.clone(), 0o702, ["everybody", "chmod o-w"]),
        (region.clone(), 0o720, ["its group", "chmod g-w"]),
        (region.join("head"), 0o666, ["everybody", "chmod go-w"]),
        (region.join("plane.0"), 0o620, ["its group", "chmod g-w"]),
    ] {
        let was = std::fs::metadata(&path).unwrap().mode();
        set_mode(&path, mode);
        check_refusal(create(), &[&words[..], &[path.to_str().unwrap(), &format!("{mode:04o}")]].concat());
        set_mode(&path, was);
        create().unwrap();
    }
    // In a sticky directory nobody takes away what is another's.
    set_mode(&root, 0o1777);
    create().unwrap();
    // Who asks for such a mode has said that it is meant.
    set_mode(&root, 0o770);
    Region::options().dir(&root).mode(0o770).create("r").unwrap();
}

#[test]
fn who_says_whose_a_directory_is_is_believed() {
    let _watchdog = watchdog(300);
    // One's own group, which may write where it is named.
    let (dir, _) = left("group");
    let root = dir.path().join("regions");
    let group = std::fs::metadata(&root).unwrap().gid();
    let create = |trust| Region::options().dir(&root).trust(trust).create("r").map(drop);
    for path in [root.clone(), root.join("r"), root.join("r/tables")] {
        set_mode(&path, if path.is_dir() { 0o770 } else { 0o660 });
        check_refusal(create(Trust::Own), &[&format!("STILLFRAME_TRUST=group:{group}"), path.to_str().unwrap()]);
        check_refusal(create(Trust::Group(group + 1)), &["its group"]);
        create(Trust::Group(group)).unwrap();
        create(Trust::Any).unwrap();
        set_mode(&path, if path.is_dir() { 0o700 } else { 0o600 });
    }
    if !is_root() {
        return;
    }
    // Another user, whose region and directory are gone on with and removed.
    let (dir, _) = left("user");
    let root = dir.path().join("regions");
    give_to(&root, NOBODY);
    let observe = |trust| Observer::options().dir(&root).trust(trust).open("r");
    let words = [root.to_str().unwrap(), "belongs to user 65534"];
    check_refusal(observe(Trust::Own), &words);
    check_refusal(observe(Trust::User(1)), &words);
    check_refusal(Group::options().dir(&root).trust(Trust::Own).open("r"), &words);
    for observer in [observe(Trust::User(NOBODY)), observe(Trust::Any), Observer::options().dir(&root).open("r")] {
        check_play(&observer.unwrap().newest().unwrap());
    }
    check_refusal(inspect::remove(&root, "r", false), &words);
    let text = root.to_str().unwrap();
    for (trust, is_good) in [("user:65534", true), ("group:65534", true), ("any", true), ("own", false), ("all", false)]
    {
        let mut command = command("truster", &[text, if is_good { "good" } else { "bad" }]);
        command.env("STILLFRAME_TRUST", trust);
        Helper::start(command).finish();
    }
    // Nothing that is somebody else's lies among what is one user's.
    give_to(&root.join("r/plane.0"), 1);
    let plane = root.join("r/plane.0");
    let words = [plane.to_str().unwrap(), "belongs to user 1, not to user 0"];
    check_refusal(observe(Trust::User(NOBODY)).unwrap().newest(), &words);
    check_refusal(Region::options().dir(&root).trust(Trust::User(NOBODY)).create("r"), &words);
}

/// Does with another user's regions what is done with one's own, if it is told that they are.
fn truster(arguments: &[String]) {
    let (root, is_good) = (Path::new(&arguments[0]), arguments[1] == "good");
    let created = Region::options().dir(root).create("r").map(drop);
    let made = Region::options().dir(root).create("made").map(|region| region.unlink().unwrap());
    let staged = Staging::begin(&Region::options().dir(root), "staged").map(drop);
    let collected = inspect::collectable(root).map(|infos| assert_eq!(infos.len(), 1));
    for result in [created, made, staged, collected] {
        match result {
            Ok(()) => assert!(is_good),
            Err(error) => assert!(!is_good && [11, 120].contains(&error.code()), "{error}"),
        }
    }
}

#[test]
fn removal_follows_no_link_and_spares_what_is_anothers() {
    let _watchdog = watchdog(300);
    let (dir, victim) = left("removal");
    let root = dir.path().join("regions");
    // What killed restores leave is removed with all that is in it, links as what they are.
    let staged = root.join(".x.staged");
    std::fs::create_dir_all(staged.join("x")).unwrap();
    symlink(&victim, staged.join("x/plane.0")).unwrap();
    symlink(dir.path(), staged.join("x/all")).unwrap();
    symlink(dir.path(), root.join(".linked.staged")).unwrap();
    symlink(dir.path(), root.join(".group.former")).unwrap();
    symlink(&victim, root.join(".group.recovery")).unwrap();
    let foreign = root.join(".foreign.staged");
    std::fs::create_dir_all(foreign.join("foreign")).unwrap();
    if is_root() {
        give_to(&foreign, NOBODY);
    }
    inspect::collect(&root).unwrap();
    assert!(!staged.exists() && !root.join("r").exists());
    assert_eq!(foreign.exists(), is_root());
    assert_eq!(std::fs::read(&victim).unwrap(), content());
    let staging = Staging::begin(&Region::options().dir(&root), "x").unwrap();
    drop(staging);
    if is_root() {
        let words = [foreign.to_str().unwrap(), "belongs to user 65534"];
        check_refusal(Staging::begin(&Region::options().dir(&root), "foreign"), &words);
    }
    assert_eq!(std::fs::read(&victim).unwrap(), content());
}

#[test]
fn a_list_goes_on_past_what_is_hostile_and_names_it() {
    // It is about the files of a region's directory.
    if common::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(300);
    let (dir, _) = left("list");
    let root = dir.path().join("regions");
    let make = |name: &str, file: &str| {
        std::fs::create_dir_all(root.join(name)).unwrap();
        make_pipe(&root.join(name).join(file));
    };
    make("a-head", "head");
    make("b-lease", "lease");
    symlink(root.join("r"), root.join("c-link")).unwrap();
    symlink("d-loop", root.join("d-loop")).unwrap();
    make_pipe(&root.join("e-pipe"));
    // Nothing but a rank below it, and a file that says that it is a region.
    std::fs::create_dir_all(root.join("f-group")).unwrap();
    std::fs::write(root.join("f-group/lease"), "").unwrap();
    let mut rank = Play::open(Region::options().dir(dir.path()).rank(0, 1), "g");
    rank.step();
    drop(rank);
    std::fs::rename(dir.path().join("g/0"), root.join("f-group/0")).unwrap();
    let infos = inspect::regions(&root).unwrap();
    let state = |name: &str| match infos.iter().find(|info| info.name == name).map(|info| &info.state) {
        Some(inspect::State::Unreadable(why)) => why.clone(),
        Some(state) => format!("{state:?}"),
        None => "not listed".into(),
    };
    assert!(state("a-head").contains("pipe"), "{}", state("a-head"));
    assert!(state("c-link").contains("symbolic link"), "{}", state("c-link"));
    assert_eq!(state("r"), "Dead");
    assert_ne!(state("f-group"), "not listed");
    assert!(inspect::holders(&root, "a-head").is_err());
    for name in ["a-head", "b-lease", "c-link", "r"] {
        let _ = inspect::region(&root, name).unwrap();
        let _ = inspect::verify(&root, name);
        let _ = inspect::group(&root, name);
    }
    inspect::collectable(&root).unwrap();
}

fn as_user(user: u32, role: &str, arguments: &[&str]) -> Helper {
    let mut command = command(role, arguments);
    command.uid(user).gid(user).env_remove("STILLFRAME_DIR");
    Helper::start(command)
}

/// Uses the directory that is a user's by default.
fn default_user(_: &[String]) {
    let root = inspect::root();
    assert_eq!(Region::options().directory(), root);
    // SAFETY: the call takes nothing.
    let user = unsafe { libc::getuid() };
    let words = [root.to_str().unwrap(), &format!("belongs to user 65534, not to user {user}")];
    check_refusal(Region::create("r"), &words);
    check_refusal(Observer::open("r"), &words);
    check_refusal(inspect::regions(&root), &words);
    check_refusal(inspect::region(&root, "r"), &words);
}

#[test]
fn the_default_directory_is_believed_only_if_it_is_the_users_own() {
    let _watchdog = watchdog(300);
    if !is_root() {
        return;
    }
    // A user of this run's own: another run beside it has another.
    let user = 1_000_000 + std::process::id();
    let (dir, _) = left("default");
    let root = PathBuf::from(format!("/dev/shm/stillframe-{user}"));
    let _ = std::fs::remove_dir_all(&root);
    std::fs::rename(dir.path().join("regions"), &root).unwrap();
    give_to(&root, NOBODY);
    set_mode(&root, 0o777);
    as_user(user, "default_user", &[]).finish();
    std::fs::remove_dir_all(&root).unwrap();
    // A link is as easily made as a directory.
    symlink(dir.path(), &root).unwrap();
    let text = std::ffi::CString::new(root.to_str().unwrap()).unwrap();
    // SAFETY: the pointer is to a text that ends with a zero byte.
    assert_eq!(unsafe { libc::lchown(text.as_ptr(), NOBODY, NOBODY) }, 0);
    as_user(user, "default_user", &[]).finish();
    std::fs::remove_file(&root).unwrap();
}

/// Locks, for reading, the byte of a region's lease file with which its producer shows that it lives, and all behind it.
fn locker(arguments: &[String]) {
    let file = std::fs::File::open(&arguments[0]).unwrap();
    // SAFETY: `flock` is plain data, valid when zeroed.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_RDLCK as _;
    lock.l_start = arguments[1].parse().unwrap();
    // SAFETY: the descriptor is open and the pointer refers to a live `flock`.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) }, 0);
    say("locked");
    wait_for_word();
    drop(file);
    say("unlocked");
    wait_for_word();
}

#[test]
fn a_reader_who_locks_what_is_the_producers_keeps_no_producer_out() {
    let _watchdog = watchdog(300);
    for at in [0u64, 1 << 62] {
        let (dir, _) = left("locker");
        let options = || Region::options().dir(dir.path().join("regions")).mode(0o755);
        let lease = dir.path().join("regions/r/lease");
        set_mode(&dir.path().join("regions"), 0o755);
        set_mode(&dir.path().join("regions/r"), 0o755);
        set_mode(&lease, 0o644);
        let arguments = [lease.to_str().unwrap(), &at.to_string()];
        let mut locker = if is_root() { as_user(NOBODY, "locker", &arguments) } else { start("locker", &arguments) };
        locker.expect("locked");
        let observer = Observer::options().dir(dir.path().join("regions")).open("r").unwrap();
        for _ in 0..2 {
            let mut play = Play::open(options(), "r");
            play.step();
            assert!(observer.producer_alive());
            assert!(matches!(options().create("r"), Err(Error::InUse { .. })));
            assert!(matches!(inspect::remove(&dir.path().join("regions"), "r", false), Err(Error::InUse { .. })));
        }
        let mut play = Play::open(options(), "r");
        locker.tell();
        locker.expect("unlocked");
        // Who comes now finds nobody's lock in the way but the producer's own.
        assert!(observer.producer_alive());
        assert!(matches!(options().create("r"), Err(Error::InUse { .. })));
        play.step();
        drop(play);
        assert!(!observer.producer_alive());
        let mut play = Play::open(options(), "r");
        assert!(observer.producer_alive());
        play.step();
        check_play(&observer.newest().unwrap());
        play.region.unlink().unwrap();
        assert!(!dir.path().join("regions/r").exists());
    }
}

#[test]
fn of_many_producers_one_begins_whatever_readers_lock_meanwhile() {
    // It is about the files of a region's directory.
    if common::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(300);
    let dir = Dir::new("many");
    drop(dir.options().create("r").unwrap());
    let is_over = AtomicBool::new(false);
    let produces = AtomicBool::new(false);
    let barrier = Barrier::new(4);
    let all_begun = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let path = dir.path().join("r/lease");
            while !is_over.load(Ordering::Relaxed) {
                let file = std::fs::File::open(&path).unwrap();
                // SAFETY: `flock` is plain data, valid when zeroed.
                let mut lock: libc::flock = unsafe { std::mem::zeroed() };
                lock.l_type = libc::F_RDLCK as _;
                lock.l_start = 1 << 62;
                lock.l_len = 1;
                // SAFETY: the descriptor is open and the pointer refers to a live `flock`. It fails while a producer has it.
                unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) };
                std::thread::yield_now();
            }
        });
        let producers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut rounds = 0;
                    // All of them see the same of the round before.
                    while rounds < 60 || all_begun.load(Ordering::SeqCst) <= 30 {
                        rounds += 1;
                        barrier.wait();
                        match dir.options().create("r") {
                            Ok(region) => {
                                assert!(!produces.swap(true, Ordering::SeqCst), "two producers at once");
                                std::thread::yield_now();
                                produces.store(false, Ordering::SeqCst);
                                drop(region);
                                all_begun.fetch_add(1, Ordering::SeqCst);
                            }
                            Err(Error::InUse { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                        barrier.wait();
                    }
                })
            })
            .collect();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn helper_process() {
    helper::enter(&[("default_user", default_user), ("locker", locker), ("truster", truster)]);
}

#[test]
fn a_directory_that_is_no_region_is_not_removed_as_one() {
    let dir = Dir::plain("no-region");
    let own = dir.path().join("project");
    std::fs::create_dir_all(own.join("src")).unwrap();
    for name in ["tables", "schema.1", "plane.7", "notes.txt", "src/main.c"] {
        std::fs::write(own.join(name), name).unwrap();
    }
    for force in [false, true] {
        let removed = inspect::remove(dir.path(), "project", force);
        assert!(matches!(removed, Err(Error::NoRegion { .. })), "{removed:?}");
        for name in ["tables", "schema.1", "plane.7", "notes.txt", "src/main.c"] {
            assert_eq!(std::fs::read_to_string(own.join(name)).unwrap(), name);
        }
        assert_eq!(std::fs::read_dir(&own).unwrap().count(), 5);
    }
}
