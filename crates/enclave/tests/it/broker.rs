//! Observers to whom a broker hands out regions: what they see, what they cannot do, and what befalls the broker.
#![allow(unsafe_code)]

use crate::common;
use crate::helper;

use crate::child::{in_child, reap};
use crate::common::refuse::refuse;
use crate::common::{Dir, watchdog};
use crate::enclosure::{Enclosure, INSIDE, NOBODY, may_enclose};
use crate::helper::{Helper, Play, check_play, enter, say, start, until, wait_for_word};
use std::fs::{File, Permissions};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use stillframe::enclave::{Handout, Reply};
use stillframe::{Arena, Error, Group, Observer, Region, RegionOptions, Rule, Trust, inspect};
use stillframe_enclave::{Admission, Desk, Options, Service};
use stillframe_kernel::local::{self, Peer};
use stillframe_segment::broker::{ANSWER_BYTES_MAX, Answer, Question};

const LONG: Duration = Duration::from_secs(60);

#[test]
fn helper_process() {
    enter(&[
        ("broker", be_broker),
        ("viewless", be_viewless_broker),
        ("short", be_short_broker),
        ("plain", be_plain_broker),
        ("old", be_old_broker),
        ("limited", be_limited_broker),
        ("observe", observe),
        ("write", try_to_write),
        ("say", say_what_comes),
        ("few", use_all_descriptors),
    ]);
}

/// A broker: until its input ends.
fn be_broker(arguments: &[String]) {
    serve_with(arguments, |handout| handout);
}

fn serve_with(arguments: &[String], change: impl FnOnce(Handout) -> Handout) {
    let [socket, dir, mode, rest @ ..] = arguments else { panic!("broker SOCKET DIR MODE [allow] [name]...") };
    let (allowed, only): (Vec<&String>, Vec<&String>) = rest.iter().partition(|word| word.contains(':'));
    let only: Vec<String> = only.into_iter().cloned().collect();
    let handout = change(Handout::new(Path::new(dir), None, &only).unwrap());
    let mode = u32::from_str_radix(mode, 8).unwrap();
    let options = Options { socket: socket.into(), mode, trust: Trust::Own, stays: false };
    let admission = Admission(allowed.iter().map(|allow| allow.parse().unwrap()).collect());
    let service = match Service::begin(&options, handout, admission) {
        Ok(service) => service,
        Err(error) => return say(&error.to_string()),
    };
    say(if service.desk().is_plain().unwrap().is_some() { "plain" } else { "serves" });
    service.serve(std::io::stdin().as_fd()).unwrap();
}

/// A broker that can make no read-only view, as in a container without privileges: the kernel refuses (seccomp(2)).
fn be_viewless_broker(arguments: &[String]) {
    assert!(refuse(libc::SYS_open_tree, None, libc::EPERM));
    be_broker(arguments);
}

/// The same, which was told to serve all the same.
fn be_plain_broker(arguments: &[String]) {
    assert!(refuse(libc::SYS_open_tree, None, libc::EPERM));
    serve_with(arguments, |handout| handout.accept_plain(true));
}

/// A broker that has no descriptor left for a read-only view when it begins.
fn be_short_broker(arguments: &[String]) {
    let limit = |current: u64| {
        let limit = libc::rlimit { rlim_cur: current, rlim_max: 1024 };
        // SAFETY: the pointer is to a value that lives through the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    };
    serve_with(arguments, |handout| {
        let next = std::fs::File::open("/dev/null").unwrap().as_raw_fd() as u64;
        // One for the directory, and none for the view.
        limit(next + 1);
        assert!(handout.is_plain().unwrap().is_some_and(|why| why.contains("Too many open files")));
        limit(1024);
        handout
    });
}

/// A broker whose kernel cannot refuse the files that clients send.
fn be_old_broker(arguments: &[String]) {
    assert!(refuse(libc::SYS_setsockopt, Some(libc::SOL_SOCKET as u32), libc::ENOPROTOOPT));
    be_broker(arguments);
}

/// A broker that may have few files open.
fn be_limited_broker(arguments: &[String]) {
    let limit = libc::rlimit { rlim_cur: 256, rlim_max: 256 };
    // SAFETY: the pointer is to a value that lives through the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    be_broker(arguments);
}

/// Observes by an address: holds a version until told, then follows some, then holds one to the end.
fn observe(arguments: &[String]) {
    let [address] = arguments else { panic!("observe ADDRESS") };
    let observer = Observer::options().wait(LONG).open(address).unwrap();
    let mut held = observer.newest().unwrap();
    check_play(&held);
    say("holds");
    wait_for_word();
    check_play(&held);
    for _ in 0..20 {
        held = observer.newest_after(Some(held.version()), Some(LONG)).unwrap();
        check_play(&held);
    }
    assert!(observer.producer_alive() && observer.is_current());
    say("followed");
    wait_for_word();
    drop(held);
}

/// Tries whatever could write, by each descriptor that this process has of the region's files.
fn try_to_write(arguments: &[String]) {
    let [address] = arguments else { panic!("write ADDRESS") };
    let observer = Observer::options().open(address).unwrap();
    let held = observer.newest().unwrap();
    check_play(&held);
    let mut tried = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let leads_to = std::fs::read_link(entry.path()).unwrap_or_default();
        let is_of_region = |name: &str| {
            ["head", "tables", "lease", "arena", "plane.", "schema."].iter().any(|own| name.starts_with(own))
        };
        if !leads_to.file_name().is_some_and(|name| is_of_region(&name.to_string_lossy())) {
            continue;
        }
        tried += 1;
        let number: i32 = entry.file_name().to_str().unwrap().parse().unwrap();
        let refused = |what: &str, done: i64| {
            assert_eq!(done, -1, "{what} of {}", leads_to.display());
        };
        let text = std::ffi::CString::new(format!("/proc/self/fd/{number}")).unwrap();
        // SAFETY: the descriptor is open, pointers are to memory that lives through the calls, and none of them is to succeed.
        unsafe {
            for flags in [libc::O_RDWR, libc::O_WRONLY, libc::O_RDWR | libc::O_TRUNC] {
                refused("open", libc::open(text.as_ptr(), flags).into());
            }
            refused("truncate", libc::truncate(text.as_ptr(), 0).into());
            refused("chmod", libc::chmod(text.as_ptr(), 0o666).into());
            refused("pwrite", libc::pwrite(number, text.as_ptr().cast(), 1, 0) as i64);
            refused("ftruncate", libc::ftruncate(number, 0).into());
            refused("fallocate", libc::fallocate(number, 0, 0, 4096).into());
            refused("fchmod", libc::fchmod(number, 0o666).into());
            refused("fchown", libc::fchown(number, libc::getuid(), libc::getgid()).into());
            refused("futimens", libc::futimens(number, std::ptr::null()).into());
            let shared =
                libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, number, 0);
            refused("mmap", if shared == libc::MAP_FAILED { -1 } else { 0 });
            let read = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, number, 0);
            if read != libc::MAP_FAILED {
                refused("mprotect", libc::mprotect(read, 4096, libc::PROT_READ | libc::PROT_WRITE).into());
                refused("MADV_REMOVE", libc::madvise(read, 4096, libc::MADV_REMOVE).into());
                libc::munmap(read, 4096);
            }
            // A flag of the opening cannot make it writable.
            libc::fcntl(number, libc::F_SETFL, libc::O_RDWR);
            assert_eq!(libc::fcntl(number, libc::F_GETFL) & libc::O_ACCMODE, libc::O_RDONLY);
            let mut lock: libc::flock = std::mem::zeroed();
            lock.l_type = libc::F_WRLCK as _;
            lock.l_len = 1;
            refused("a write lock", libc::fcntl(number, libc::F_OFD_SETLK, &lock).into());
        }
    }
    say(&format!("tried {}", if tried >= 2 { "all".into() } else { tried.to_string() }));
    wait_for_word();
}

/// Says what comes of opening, again and again.
fn say_what_comes(arguments: &[String]) {
    let [address] = arguments else { panic!("say ADDRESS") };
    loop {
        match Observer::options().open(address).and_then(|observer| observer.newest()) {
            Ok(snapshot) => say(&format!("version {}", snapshot.version())),
            Err(error) => say(&error.to_string()),
        }
        wait_for_word();
    }
}

/// Opens with fewer and fewer descriptors left: an error each time, and nothing that is left open.
fn use_all_descriptors(arguments: &[String]) {
    let [address] = arguments else { panic!("few ADDRESS") };
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    drop(Observer::options().open(address).unwrap());
    let before = open();
    let mut failed = 0;
    for more in 0..14 {
        let limit = libc::rlimit { rlim_cur: before - 1 + more, rlim_max: 1024 };
        // SAFETY: the pointer is to a value that lives through the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
        match Observer::options().open(address) {
            Ok(observer) => drop(observer.newest().map(|snapshot| check_play(&snapshot))),
            Err(Error::NoFiles { .. }) => failed += 1,
            Err(error) => panic!("{error}"),
        }
    }
    let all = libc::rlimit { rlim_cur: 1024, rlim_max: 1024 };
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &all) }, 0);
    assert!(failed > 2, "{failed}");
    assert_eq!(open(), before);
    say("few");
}

/// A directory of regions, and beside it one for the socket.
struct Place {
    dir: Dir,
    arena: Option<Arena>,
}

impl Place {
    fn new(name: &str, in_arena: bool) -> Place {
        let dir = Dir::plain(name);
        for folder in ["regions", "sockets"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
            std::fs::set_permissions(dir.path().join(folder), Permissions::from_mode(0o755)).unwrap();
        }
        let regions = dir.path().join("regions");
        let arena = in_arena.then(|| Arena::options().dir(regions).bytes(1 << 30).create("pool").unwrap());
        Place { dir, arena }
    }

    fn regions(&self) -> PathBuf {
        self.dir.path().join("regions")
    }

    fn sockets(&self) -> PathBuf {
        self.dir.path().join("sockets")
    }

    fn socket(&self) -> PathBuf {
        self.sockets().join("sock")
    }

    fn shown(&self) -> &'static str {
        if self.arena.is_some() { "pool/r" } else { "r" }
    }

    fn address(&self, name: &str) -> String {
        format!("unix:{}#{name}", self.socket().display())
    }

    fn inside(&self, name: &str) -> String {
        format!("unix:{INSIDE}/sock#{name}")
    }

    fn options(&self) -> RegionOptions {
        let options = Region::options().dir(self.regions()).rule(Rule::Wait { timeout: None });
        match &self.arena {
            Some(arena) => options.arena(arena),
            None => options,
        }
    }

    fn start(&self, mode: &str, more: &[&str]) -> Helper {
        let (socket, regions) = (self.socket(), self.regions());
        let first = [socket.to_str().unwrap(), regions.to_str().unwrap(), mode];
        start("broker", &[&first[..], more].concat())
    }

    /// A broker that everybody may connect to.
    fn serve(&self) -> Helper {
        let mut broker = self.start("666", &[]);
        broker.expect("serves");
        broker
    }

    fn holders(&self) -> usize {
        inspect::holders(&self.regions(), self.shown()).unwrap().len()
    }

    fn open(&self, name: &str) -> stillframe::Result<Observer> {
        Observer::options().open(&self.address(name))
    }
}

#[test]
fn an_observer_without_the_directory_holds_is_woken_and_ends() {
    let _watchdog = watchdog(300);
    for in_arena in [false, true] {
        let place = Place::new("without", in_arena);
        let broker = place.serve();
        let mut play = Play::open(place.options(), "r");
        play.step();
        let mut ways = vec![helper::command("observe", &[&place.address(place.shown())])];
        if may_enclose() {
            let enclosed = |user| {
                let enclosure = Enclosure { is_read_only: true, user };
                enclosure.command(&place.sockets(), "observe", &[&place.inside(place.shown())])
            };
            ways.extend([None, Some(NOBODY)].map(enclosed));
        }
        for way in ways {
            let mut observer = Helper::start(way);
            play.step_beside(&mut observer, || place.holders());
            observer.kill();
            until("its hold to go with it", || place.holders() == 0);
        }
        drop(broker);
    }
}

#[test]
fn nothing_can_be_written_by_what_is_handed_out() {
    let _watchdog = watchdog(300);
    for in_arena in [false, true] {
        let place = Place::new("write", in_arena);
        let _broker = place.serve();
        let mut play = Play::open(place.options().mode(0o777).trust(Trust::Any), "r");
        play.step();
        let mut helper = start("write", &[&place.address(place.shown())]);
        helper.expect("tried all");
        if may_enclose() {
            for user in [None, Some(NOBODY)] {
                let enclosure = Enclosure { is_read_only: true, user };
                let words = enclosure.command(&place.sockets(), "write", &[&place.inside(place.shown())]);
                Helper::start(words).expect("tried all");
            }
        }
        play.step();
    }
}

#[test]
fn the_owner_of_the_files_gets_no_more_than_others() {
    let _watchdog = watchdog(300);
    if !may_enclose() {
        return;
    }
    // Broker, producer and observer are one user without privileges.
    let place = Place::new("owner", false);
    for folder in [place.regions(), place.sockets()] {
        std::os::unix::fs::chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let as_user = |role: &str, arguments: &[&str]| {
        let mut command = helper::command(role, arguments);
        command.uid(NOBODY).gid(NOBODY);
        Helper::start(command)
    };
    let (socket, regions) = (place.socket(), place.regions());
    let mut broker = as_user("broker", &[socket.to_str().unwrap(), regions.to_str().unwrap(), "600"]);
    broker.expect("serves");
    let mut play = Play::open(place.options().trust(Trust::Any), "r");
    play.step();
    for path in
        std::fs::read_dir(regions.join("r")).unwrap().flatten().map(|entry| entry.path()).chain([regions.join("r")])
    {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    as_user("write", &[&place.address("r")]).expect("tried all");
    let refused = |said: Option<String>| assert!(said.as_ref().unwrap().contains("may not be opened"), "{said:?}");
    let mut other = helper::command("say", &[&place.address("r")]);
    other.uid(NOBODY - 1).gid(NOBODY - 1);
    refused(Helper::start(other).hear());
}

/// The broker is in a container, and observers are not: they are processes that it cannot see, and users that it may not know.
#[test]
fn a_broker_in_a_container_serves_those_outside() {
    let _watchdog = watchdog(300);
    if !may_enclose() {
        return;
    }
    for user in [None, Some(NOBODY)] {
        let place = Place::new("inside", false);
        if let Some(user) = user {
            for folder in [place.regions(), place.sockets()] {
                std::os::unix::fs::chown(folder, Some(user), Some(user)).unwrap();
            }
        }
        let enclosure = Enclosure { is_read_only: false, user };
        let (socket, regions) = (format!("{INSIDE}/sockets/sock"), format!("{INSIDE}/regions"));
        let words = enclosure.command(place.dir.path(), "broker", &[&socket, &regions, "666"]);
        let mut broker = Helper::start(words);
        broker.expect("serves");
        let mut play = Play::open(place.options().mode(0o755).trust(Trust::Any), "r");
        play.step();
        let mut observer = start("observe", &[&place.address("r")]);
        play.step_beside(&mut observer, || place.holders());
        start("write", &[&place.address("r")]).expect("tried all");
    }
}

#[test]
fn where_no_view_can_be_made_nobody_is_served_unless_that_is_accepted() {
    let _watchdog = watchdog(300);
    if !may_enclose() {
        return;
    }
    for in_arena in [false, true] {
        let place = Place::new("plain", in_arena);
        let mut play = Play::open(place.options().mode(0o755), "r");
        play.step();
        let (socket, regions) = (place.socket(), place.regions());
        let serve = |role: &str| {
            let mut broker = start(role, &[socket.to_str().unwrap(), regions.to_str().unwrap(), "666"]);
            broker.expect("plain");
            broker
        };
        let as_nobody = |role: &str| {
            let mut command = helper::command(role, &[&place.address(place.shown())]);
            command.uid(NOBODY).gid(NOBODY);
            Helper::start(command)
        };
        let broker = serve("viewless");
        let error = place.open(place.shown()).unwrap_err();
        assert!(error.to_string().contains("no read-only view can be made"), "{error}");
        // Whoever cannot write may be another one soon.
        let said = as_nobody("say").hear().unwrap();
        assert!(said.contains("no read-only view can be made"), "{said}");
        let dir = PathBuf::from(format!("unix:{}", place.socket().display()));
        assert!(inspect::regions(&dir).is_err());
        broker.finish();
        let _broker = serve("plain");
        check_play(&place.open(place.shown()).unwrap().newest().unwrap());
        as_nobody("write").expect("tried all");
    }
}

#[test]
fn a_view_that_could_not_be_made_once_is_made_later() {
    let _watchdog = watchdog(300);
    let place = Place::new("short", false);
    let mut play = Play::open(place.options(), "r");
    play.step();
    let (socket, regions) = (place.socket(), place.regions());
    let mut broker = start("short", &[socket.to_str().unwrap(), regions.to_str().unwrap(), "666"]);
    broker.expect("serves");
    start("write", &[&place.address("r")]).expect("tried all");
}

/// Kills a broker wherever it passes by, while clients ask: they get an answer or an error, and the next broker serves.
#[test]
fn a_broker_that_is_killed_anywhere_leaves_nothing_that_the_next_one_minds() {
    let _watchdog = watchdog(300);
    let place = Place::new("points", false);
    let mut play = Play::open(place.options(), "r");
    play.step();
    let held = {
        let _broker = place.serve();
        place.open("r").unwrap().newest().unwrap()
    };
    let points =
        ["broker.locked", "broker.bound", "broker.listening", "broker.accepted", "broker.opened", "broker.answered"];
    for (point, times) in points.into_iter().flat_map(|point| [(point, 1), (point, 3)]) {
        let (socket, regions) = (place.socket(), place.regions());
        let mut dies = helper::command("broker", &[socket.to_str().unwrap(), regions.to_str().unwrap(), "600"]);
        dies.env("STILLFRAME_DIE_AT", format!("{point}:{times}"));
        let mut broker = Helper::start(dies);
        // Without the named points it is killed by hand.
        let serves = broker.hear().is_some();
        for _ in 0..if serves { 4 } else { 0 } {
            match place.open("r") {
                Ok(observer) => check_play(&observer.newest().unwrap()),
                Err(error) => assert!(matches!(error, Error::NoBroker { .. }), "{error}"),
            }
        }
        broker.kill();
        drop(place.serve());
        play.step();
    }
    check_play(&held);
    // A process that another test starts has this one's descriptors for a moment.
    until("nobody but this process to hold anything", || place.holders() == 1);
}

/// Kills brokers at random moments, while observers of several processes open, hold and go on.
#[test]
fn observers_go_on_while_brokers_are_killed_at_random() {
    let _watchdog = watchdog(300);
    let place = Place::new("random", false);
    let mut play = Play::open(place.options().keep(2), "r");
    play.step();
    let address = place.address("r");
    let end = std::sync::atomic::AtomicBool::new(false);
    let is_over = || end.load(std::sync::atomic::Ordering::Relaxed);
    let observer = {
        let _broker = place.serve();
        place.open("r").unwrap()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut opened = 0;
                    while !is_over() {
                        match Observer::options().open(&address) {
                            Ok(observer) => {
                                opened += 1;
                                match observer.newest() {
                                    Ok(snapshot) => check_play(&snapshot),
                                    Err(error) => assert!(matches!(error, Error::NoBroker { .. }), "{error}"),
                                }
                            }
                            Err(error) => assert!(matches!(error, Error::NoBroker { .. }), "{error}"),
                        }
                    }
                    opened
                })
            })
            .collect();
        let mut numbers = common::Numbers(17);
        for _ in 0..30 {
            let mut broker = place.serve();
            for _ in 0..numbers.below(20) {
                play.step();
            }
            std::thread::sleep(Duration::from_micros(numbers.below(20_000) as u64));
            broker.kill();
            if let Err(error) = observer.newest().map(|snapshot| check_play(&snapshot)) {
                assert!(matches!(error, Error::NoBroker { .. }), "{error}");
            }
        }
        end.store(true, std::sync::atomic::Ordering::Relaxed);
        let opened: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert!(opened > 30, "{opened}");
    });
    until("nobody to hold anything", || place.holders() == 0);
    play.step();
}

#[test]
fn an_observer_goes_on_when_its_broker_is_killed_and_asks_the_next_one() {
    let _watchdog = watchdog(300);
    for in_arena in [false, true] {
        let place = Place::new("killed", in_arena);
        let mut broker = place.serve();
        let mut play = Play::open(place.options().keep(3), "r");
        play.step();
        let observer = place.open(place.shown()).unwrap();
        check_play(&observer.newest().unwrap());
        broker.kill();
        assert!(place.socket().exists(), "it left its socket");
        assert!(observer.is_current() && observer.producer_alive());
        let error = place.open(place.shown()).unwrap_err();
        assert!(matches!(error, Error::NoBroker { .. }), "{error}");
        assert_eq!(error.code(), 126);
        // What it has goes on; new planes it cannot have, if there are any, and says so.
        let mut last = 1;
        for _ in 0..10 {
            play.step();
            match observer.newest_after(Some(last), Some(LONG)) {
                Ok(snapshot) => {
                    check_play(&snapshot);
                    last = snapshot.version();
                }
                Err(error) => assert!(matches!(error, Error::NoBroker { .. }), "{error}"),
            }
        }
        assert!(in_arena || last >= 1);
        let _broker = place.serve();
        for _ in 0..30 {
            play.step();
            check_play(&observer.newest().unwrap());
        }
        check_play(&place.open(place.shown()).unwrap().newest().unwrap());
    }
}

#[test]
fn a_region_that_is_made_anew_is_another_one() {
    let _watchdog = watchdog(300);
    for in_arena in [false, true] {
        let place = Place::new("anew", in_arena);
        let _broker = place.serve();
        let mut play = Play::open(place.options(), "r");
        play.step();
        let observer = place.open(place.shown()).unwrap();
        let held = observer.newest().unwrap();
        let begun = observer.begun_ns();
        play.region.unlink().unwrap();
        assert!(!observer.is_current());
        assert!(matches!(place.open(place.shown()), Err(Error::NoRegion { .. })));
        let mut play = Play::open(place.options(), "r");
        play.step();
        play.step();
        assert!(!observer.is_current());
        check_play(&held);
        let again = place.open(place.shown()).unwrap();
        assert!(again.is_current() && again.begun_ns() != begun);
        check_play(&again.newest().unwrap());
        // The whole directory, too.
        if !in_arena {
            drop(play);
            std::fs::remove_dir_all(place.regions()).unwrap();
            assert!(matches!(place.open("r"), Err(Error::NoRegion { .. })));
            let mut play = Play::open(place.options(), "r");
            play.step();
            check_play(&place.open("r").unwrap().newest().unwrap());
        }
    }
}

#[test]
fn a_dead_brokers_socket_is_taken_over_and_a_living_ones_is_not() {
    let _watchdog = watchdog(300);
    let place = Place::new("taken", false);
    let mut play = Play::open(place.options(), "r");
    play.step();
    let first = place.serve();
    let inode = || std::fs::metadata(place.socket()).unwrap().ino();
    let own = inode();
    let said = place.start("666", &[]).hear().unwrap();
    assert!(said.contains("is in use"), "{said}");
    assert_eq!(inode(), own);
    // Also one that answers nobody.
    first.stop();
    let said = place.start("666", &[]).hear().unwrap();
    assert!(said.contains("is in use"), "{said}");
    first.signal(libc::SIGCONT);
    let mut first = first;
    first.kill();
    let second = place.serve();
    check_play(&place.open("r").unwrap().newest().unwrap());
    assert_eq!(std::fs::metadata(place.socket()).unwrap().mode() & 0o777, 0o666);
    // Many at once: one serves.
    second.finish();
    assert!(std::fs::read_dir(place.sockets()).unwrap().next().is_none(), "one that ends leaves nothing");
    let mut all: Vec<Helper> = (0..6).map(|_| place.start("600", &[])).collect();
    let said: Vec<String> = all.iter_mut().map(|broker| broker.hear().unwrap()).collect();
    assert_eq!(said.iter().filter(|said| *said == "serves").count(), 1, "{said:?}");
    check_play(&place.open("r").unwrap().newest().unwrap());
}

#[test]
fn what_is_no_dead_brokers_socket_is_left_alone() {
    let _watchdog = watchdog(300);
    let place = Place::new("alone", false);
    let says = |word: &str| {
        let said = place.start("600", &[]).hear().unwrap();
        assert!(said.contains(word), "'{word}' is not in: {said}");
    };
    // Another program's socket, a file, a link to a file.
    let listener = std::os::unix::net::UnixListener::bind(place.socket()).unwrap();
    says("is in use");
    drop(listener);
    std::fs::remove_file(place.socket()).unwrap();
    std::fs::write(place.socket(), "content").unwrap();
    says("is no socket");
    assert_eq!(std::fs::read(place.socket()).unwrap(), b"content");
    std::fs::rename(place.socket(), place.sockets().join("other")).unwrap();
    std::os::unix::fs::symlink(place.sockets().join("other"), place.socket()).unwrap();
    says("is no socket");
    std::fs::remove_file(place.socket()).unwrap();
    // A link where the lock should be, and a directory that others can write to.
    let lock = place.sockets().join(".sock.lock");
    std::fs::remove_file(&lock).ok();
    std::os::unix::fs::symlink(place.sockets().join("other"), &lock).unwrap();
    says("symbolic link");
    assert_eq!(std::fs::read(place.sockets().join("other")).unwrap(), b"content");
    std::fs::remove_file(&lock).unwrap();
    std::fs::set_permissions(place.sockets(), Permissions::from_mode(0o777)).unwrap();
    says("can be written to by everybody");
    std::fs::set_permissions(place.sockets(), Permissions::from_mode(0o755)).unwrap();
    if may_enclose() {
        std::os::unix::fs::chown(place.sockets(), Some(NOBODY), None).unwrap();
        says("belongs to user 65534");
    }
}

/// The broker's answer, which is to come without files.
fn answer(socket: &OwnedFd) -> Vec<u8> {
    until("an answer", || local::wait_any(&[socket.as_fd()], Some(LONG)).unwrap()[0]);
    let mut bytes = [0; 4096];
    let message = local::receive(socket, &mut bytes).unwrap().unwrap();
    assert!(message.files.is_empty());
    bytes[..message.bytes].to_vec()
}

#[test]
fn who_says_nothing_or_garbage_holds_nobody_up() {
    let _watchdog = watchdog(300);
    let place = Place::new("garbage", false);
    let broker = place.serve();
    let mut play = Play::open(place.options(), "r");
    play.step();
    let connect = || local::connect(&place.socket(), Instant::now() + LONG).unwrap();
    let silent: Vec<_> = (0..200).map(|_| connect()).collect();
    for garbage in
        [&b"\0"[..], b"GET / HTTP/1.1\r\n\r\n", b"\xff\xfe", &[b'x'; 100_000], b"stillframe broker 1\nopen\na\nb"]
    {
        let socket = connect();
        assert!(local::send(&socket, garbage, &[]).unwrap());
        assert!(matches!(Answer::decode(&answer(&socket)), Ok(Answer::Refused { .. })));
        check_play(&place.open("r").unwrap().newest().unwrap());
    }
    for name in ["../../etc/passwd", "/etc/passwd", "..", ".", "", "r/../r", "r/head", "a\0b", &"x".repeat(3000)] {
        let socket = connect();
        assert!(local::send(&socket, &Question::Open { name: name.into() }.encode(), &[]).unwrap());
        assert_eq!(Answer::decode(&answer(&socket)), Ok(Answer::Missing), "{name}");
    }
    let identity = std::fs::metadata(place.regions().join("r/head")).unwrap();
    let identity = (identity.dev(), identity.ino());
    for file in ["../r/head", "lease.producer", "/etc/passwd", ""] {
        let socket = connect();
        let question = Question::More { name: "r".into(), identity, files: vec![file.into()] };
        assert!(local::send(&socket, &question.encode(), &[]).unwrap());
        assert_eq!(Answer::decode(&answer(&socket)), Ok(Answer::More { files: Vec::new() }), "{file}");
    }
    // Those that said nothing are let go, and no descriptor of theirs stays.
    for socket in &silent {
        let mut bytes = [0; 16];
        until("the silent to be let go", || local::wait_any(&[socket.as_fd()], Some(LONG)).unwrap()[0]);
        assert_eq!(local::receive(socket, &mut bytes).unwrap().unwrap().bytes, 0);
    }
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", broker.pid())).unwrap().count();
    until("its descriptors to be few", || descriptors() < 20);
}

/// A connection whose last close waits for ever, as the other end, which comes with it, takes nothing (`SO_LINGER`).
fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    while (&stream).write(&[0; 1 << 16]).is_ok() {}
    let linger = libc::linger { l_onoff: 1, l_linger: 3600 };
    // SAFETY: the descriptor is open, and the pointer is to a value of this size.
    let set = unsafe {
        let (level, name, bytes) = (libc::SOL_SOCKET, libc::SO_LINGER, size_of::<libc::linger>() as u32);
        libc::setsockopt(stream.as_raw_fd(), level, name, (&raw const linger).cast(), bytes)
    };
    assert_eq!(set, 0);
    (stream, other)
}

#[test]
fn a_file_whose_close_waits_holds_no_broker_up() {
    let _watchdog = watchdog(300);
    for role in ["broker", "old"] {
        let place = Place::new("linger", false);
        let mut play = Play::open(place.options(), "r");
        play.step();
        let (socket, regions) = (place.socket(), place.regions());
        let mut broker = start(role, &[socket.to_str().unwrap(), regions.to_str().unwrap(), "666"]);
        broker.expect("serves");
        let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", broker.pid())).unwrap().count();
        let before = descriptors();
        let connect = || local::connect(&place.socket(), Instant::now() + LONG).unwrap();
        let (mut others, mut closes) = (Vec::new(), Vec::new());
        for number in 0..30 {
            let (client, (stream, other)) = (connect(), lingering());
            let question = Question::Names { after: String::new() }.encode();
            // With nothing, with its question, or behind it.
            let bytes: &[u8] = if number % 3 == 0 { b"" } else { &question };
            if number % 3 == 2 {
                assert!(local::send(&client, &question, &[]).unwrap());
            }
            if let Err(failure) = local::send(&client, bytes, &[stream.as_fd()]) {
                // It is refused, or the broker has ended the connection with its answer.
                let is_expected = match failure.errno() {
                    libc::EPERM => role == "broker",
                    errno => errno == libc::EPIPE && number % 3 == 2,
                };
                assert!(is_expected, "{role}: {failure}");
            }
            // Whoever closes the last copy waits: this thread or the broker's.
            closes.push(std::thread::spawn(move || drop(stream)));
            others.push(other);
        }
        for _ in 0..20 {
            check_play(&place.open("r").unwrap().newest().unwrap());
        }
        drop(others);
        closes.into_iter().for_each(|close| close.join().unwrap());
        until("what was sent to be closed", || descriptors() <= before);
        broker.finish();
    }
}

#[test]
fn a_thousand_clients_at_once_are_all_served() {
    let _watchdog = watchdog(300);
    let place = Place::new("thousand", true);
    let _broker = place.serve();
    let mut play = Play::open(place.options(), "r");
    play.step();
    let address = place.address(place.shown());
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                for _ in 0..10 {
                    check_head(&Observer::options().open(&address).unwrap());
                }
            });
        }
    });
    // And all connected at one moment, before the first of them is answered.
    let question = Question::Open { name: place.shown().into() }.encode();
    stillframe_kernel::descriptors::raise_limit();
    let connect = || local::connect(&place.socket(), Instant::now() + LONG).unwrap();
    let sockets: Vec<_> = (0..1000).map(|_| connect()).collect();
    for socket in &sockets {
        local::send(socket, &question, &[]).unwrap();
    }
    for socket in &sockets {
        let mut bytes = [0; 4096];
        until("an answer", || local::wait_any(&[socket.as_fd()], Some(LONG)).unwrap()[0]);
        let message = local::receive(socket, &mut bytes).unwrap().unwrap();
        assert_eq!(message.files.len(), 2);
    }
}

fn check_head(observer: &Observer) {
    assert_eq!(observer.newest().unwrap().version(), 1);
}

#[test]
fn a_broker_without_descriptors_says_so_and_goes_on() {
    let _watchdog = watchdog(300);
    let place = Place::new("exhausted", false);
    let broker = place.serve();
    let mut play = Play::open(place.options(), "r");
    play.step();
    check_play(&place.open("r").unwrap().newest().unwrap());
    // It may have some open still for who was answered just now.
    let counts = (0..100).map(|_| {
        std::thread::sleep(Duration::from_millis(1));
        std::fs::read_dir(format!("/proc/{}/fd", broker.pid())).unwrap().count() as u64
    });
    let open = counts.min().unwrap();
    let limit = |count: u64| {
        let limit = libc::rlimit { rlim_cur: count, rlim_max: 1024 };
        // SAFETY: the pointer is to a value that lives through the call.
        assert_eq!(unsafe { libc::prlimit(broker.pid(), libc::RLIMIT_NOFILE, &limit, std::ptr::null_mut()) }, 0);
    };
    let mut refused = 0;
    for more in 1..12 {
        limit(open + more);
        match place.open("r") {
            Ok(observer) => check_play(&observer.newest().unwrap()),
            Err(Error::Broker { why, .. }) if why.contains("descriptor") => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 0);
    limit(1024);
    check_play(&place.open("r").unwrap().newest().unwrap());
    start("few", &[&place.address("r")]).expect("few");
}

/// With the last descriptor gone for a client, there is none for a further one that might come: that is no reason to let this one go.
#[test]
fn who_has_just_come_is_heard_by_a_broker_without_descriptors() {
    let _watchdog = watchdog(300);
    let place = Place::new("last", false);
    let broker = place.serve();
    let has = |number: u64| Path::new(&format!("/proc/{}/fd/{number}", broker.pid())).symlink_metadata().is_ok();
    let last = (0..).find(|number| !has(*number)).unwrap();
    let limit = libc::rlimit { rlim_cur: last + 1, rlim_max: 1024 };
    // SAFETY: the pointer is to a value that lives through the call.
    assert_eq!(unsafe { libc::prlimit(broker.pid(), libc::RLIMIT_NOFILE, &limit, std::ptr::null_mut()) }, 0);
    for _ in 0..20 {
        until("its last answer to be closed", || !has(last));
        let socket = local::connect(&place.socket(), Instant::now() + LONG).unwrap();
        // It takes the client, and finds nobody behind it.
        std::thread::sleep(Duration::from_millis(5));
        assert!(local::send(&socket, &Question::Open { name: "none".into() }.encode(), &[]).unwrap());
        assert!(matches!(Answer::decode(&answer(&socket)), Ok(Answer::Missing | Answer::Refused { .. })));
    }
}

#[test]
fn only_who_and_what_was_named_is_served() {
    let _watchdog = watchdog(300);
    let place = Place::new("named", false);
    let mut plays: Vec<Play> = ["a", "b", "run/c"].map(|name| Play::open(place.options(), name)).into_iter().collect();
    plays.iter_mut().for_each(Play::step);
    let mut broker = place.start("666", &["a", "run"]);
    broker.expect("serves");
    let names = inspect::regions(Path::new(&format!("unix:{}", place.socket().display()))).unwrap();
    let names: Vec<&str> = names.iter().map(|info| info.name.as_str()).collect();
    assert_eq!(names, ["a", "run/c"]);
    check_play(&place.open("run/c").unwrap().newest().unwrap());
    for name in ["b", "none", "ru"] {
        assert!(matches!(place.open(name), Err(Error::NoRegion { .. })), "{name}");
    }
    broker.finish();
    if !may_enclose() {
        return;
    }
    let mut broker = place.start("666", &["user:1000", &format!("group:{}", NOBODY - 1)]);
    broker.expect("serves");
    let error = place.open("a").unwrap_err();
    assert!(error.to_string().contains("does not serve user 0 of group 0") && error.code() == 127, "{error}");
    for (user, group, is_served) in [(1000, 7, true), (7, NOBODY - 1, true), (7, 1000, false)] {
        let mut command = helper::command("say", &[&place.address("a")]);
        command.uid(user).gid(group);
        let said = Helper::start(command).hear().unwrap();
        assert_eq!(said == "version 1", is_served, "{said}");
    }
}

#[test]
fn groups_and_lists_go_through_the_broker() {
    let _watchdog = watchdog(300);
    for in_arena in [false, true] {
        let place = Place::new("groups", in_arena);
        let _broker = place.serve();
        let name = if in_arena { "pool/heat" } else { "heat" };
        let mut ranks: Vec<Region> = Vec::new();
        for rank in 0..12 {
            let mut region = place.options().rank(rank, 12).keep(3).create("heat").unwrap();
            let u = region.array::<u32>("u", &[10]).unwrap();
            region.slice_mut(&u).fill(rank);
            region.publish(1).commit().unwrap();
            ranks.push(region);
        }
        let group = Group::open(&place.address(name)).unwrap();
        let snapshot = group.newest().unwrap();
        for rank in 0..12 {
            assert_eq!(snapshot.rank(rank).slice::<u32>("u").unwrap(), [rank as u32; 10]);
        }
        for region in &mut ranks {
            region.publish(2).commit().unwrap();
        }
        assert_eq!(group.newest_after(Some(1), Some(LONG)).unwrap().version(), 2);
        let dir = PathBuf::from(format!("unix:{}", place.socket().display()));
        let found = inspect::regions(&dir).unwrap();
        let by_path = inspect::regions(&place.regions()).unwrap();
        let names = |infos: &[inspect::RegionInfo]| infos.iter().map(|info| info.name.clone()).collect::<Vec<_>>();
        assert_eq!((found.len(), names(&found)), (12, names(&by_path)));
        assert_eq!(inspect::arenas(&dir).unwrap(), inspect::arenas(&place.regions()).unwrap());
        for (one, other) in found.iter().zip(&by_path) {
            assert_eq!((one.state.clone(), one.newest, one.rank), (other.state.clone(), other.newest, other.rank));
            assert!(one.planes.len() == other.planes.len() && one.allocated_bytes > 0);
        }
        assert_eq!(inspect::group(&dir, name).unwrap().unwrap().versions, [1, 2]);
        assert_eq!(inspect::verify(&dir, &format!("{name}/3")).unwrap(), []);
        // Nothing is made or removed there.
        let refused = |error: Error| assert!(error.to_string().contains("hands out regions to look at"), "{error}");
        refused(Region::options().dir(&dir).create("x").unwrap_err());
        refused(Arena::options().dir(&dir).bytes(1 << 30).create("y").unwrap_err());
        refused(inspect::remove(&dir, name, true).unwrap_err());
        assert!(inspect::collect(&dir).is_err());
    }
}

#[test]
fn a_list_that_is_longer_than_an_answer_is_whole() {
    let _watchdog = watchdog(300);
    let place = Place::new("long", true);
    let _broker = place.serve();
    let name = |number: usize| format!("{}-{number}", "long".repeat(30));
    for number in 0..600 {
        drop(place.options().create(&name(number)).unwrap());
    }
    let dir = PathBuf::from(format!("unix:{}", place.socket().display()));
    let found = inspect::regions(&dir).unwrap();
    assert_eq!(found.len(), 600);
    assert!(found.windows(2).all(|pair| pair[0].name < pair[1].name));
}

#[test]
fn a_forked_child_opens_its_own_and_leaves_its_parents() {
    let _watchdog = watchdog(300);
    for in_arena in [false, true] {
        let place = Place::new("forked", in_arena);
        let _broker = place.serve();
        let mut play = Play::open(place.options(), "r");
        play.step();
        let address = place.address(place.shown());
        let observer = Observer::options().open(&address).unwrap();
        let held = observer.newest().unwrap();
        let kept = held.keep().unwrap();
        let child = in_child(|| {
            assert!(matches!(observer.newest(), Err(Error::Forked { .. })));
            let own = Observer::options().open(&address).unwrap();
            check_play(&own.newest().unwrap());
        });
        assert_eq!(reap(child), 0);
        until("this process alone to hold it", || place.holders() == 1);
        // A child that lives on does not keep what its parent lets go of, unless that was kept for it.
        let mut pipe = [0; 2];
        // SAFETY: the pointer is to two numbers.
        assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
        let child = in_child(|| {
            let mut byte = 0u8;
            // SAFETY: the pointers are to a live byte, and the descriptors are open.
            unsafe {
                libc::close(pipe[1]);
                libc::read(pipe[0], (&raw mut byte).cast(), 1);
            }
        });
        drop((held, kept));
        until("the child to have what was kept", || place.holders() == 1);
        // SAFETY: the descriptors are this process's own.
        unsafe {
            libc::close(pipe[0]);
            libc::close(pipe[1]);
        }
        assert_eq!(reap(child), 0);
        until("its hold to go", || place.holders() == 0);
        let held = observer.newest().unwrap();
        check_play(&held);
        // Threads that open while others fork leave nothing in the children.
        std::thread::scope(|scope| {
            let opens = scope.spawn(|| {
                for _ in 0..200 {
                    check_play(&Observer::options().open(&address).unwrap().newest().unwrap());
                }
            });
            while !opens.is_finished() {
                assert_eq!(reap(in_child(|| {})), 0);
            }
        });
    }
}

#[test]
fn an_observer_waits_for_a_broker_and_a_region_that_come_later() {
    let _watchdog = watchdog(300);
    let place = Place::new("later", false);
    assert!(matches!(place.open("r"), Err(Error::NoBroker { .. })));
    let soon = Observer::options().wait(Duration::from_millis(30)).open(&place.address("r"));
    assert!(matches!(soon, Err(Error::NoBroker { .. })), "{soon:?}");
    let mut observer = start("observe", &[&place.address("r")]);
    std::thread::sleep(Duration::from_millis(50));
    let _broker = place.serve();
    std::thread::sleep(Duration::from_millis(50));
    let mut play = Play::open(place.options(), "r");
    play.step();
    play.step_beside(&mut observer, || place.holders());
}

#[test]
fn a_broker_that_is_stopped_is_given_up_and_one_that_lies_is_not_believed() {
    let _watchdog = watchdog(300);
    let place = Place::new("lies", false);
    let broker = place.serve();
    let mut play = Play::open(place.options(), "r");
    play.step();
    broker.stop();
    let error = place.open("r").unwrap_err();
    assert!(error.to_string().contains("does not answer"), "{error}");
    drop(broker);
    let folder = stillframe_kernel::folder::Folder::open(&place.sockets(), false).unwrap();
    let listener = local::listen(local::Kind::Messages, &folder, "sock", ".new", 0o600, 8).unwrap();
    let answer_with = |bytes: &[u8], files: &[&Path]| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                until("a client", || local::wait_any(&[listener.as_fd()], Some(LONG)).unwrap()[0]);
                let client = local::accept(&listener).unwrap().unwrap();
                let files: Vec<File> = files.iter().map(|path| File::open(path).unwrap()).collect();
                let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
                assert!(local::send(&client, bytes, &files).unwrap());
            });
            place.open("r").unwrap_err()
        })
    };
    let region =
        |files: &[&str]| Answer::Region { files: files.iter().map(|file| file.to_string()).collect() }.encode();
    let head = place.regions().join("r/head");
    let plane = place.regions().join("r/plane.0");
    let three = ["head", "tables", "lease"];
    for (bytes, files) in [
        (b"hello".to_vec(), vec![]),
        (region(&three), vec![]),
        (region(&[]), vec![head.as_path()]),
        (region(&["tables"]), vec![head.as_path()]),
        (region(&three), vec![Path::new("/dev/null"); 3]),
        (region(&three), vec![Path::new("/"); 3]),
        (region(&three), vec![plane.as_path(); 3]),
        (Answer::Names { regions: Vec::new(), arenas: Vec::new(), next: None }.encode(), vec![]),
        (Answer::Arena { leads: "elsewhere".into(), files: vec![] }.encode(), vec![]),
        (
            Answer::Arena { leads: String::new(), files: vec!["arena".into(), "lease".into()] }.encode(),
            vec![plane.as_path(); 2],
        ),
    ] {
        let error = answer_with(&bytes, &files);
        let is_told = matches!(error.code(), 101 | 102 | 120 | 122 | 126 | 127 | 200);
        assert!(is_told, "{}: {error}", String::from_utf8_lossy(&bytes));
    }
    assert!(own_files_are_closed(&place.regions()));
}

/// Does something as another user, which only this thread is meanwhile.
fn as_user<T: Send>(user: u32, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: the call takes numbers. Unlike libc's function it changes this thread alone.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) }, 0);
            act()
        });
        thread.join().unwrap()
    })
}

impl Place {
    fn connect(&self) -> OwnedFd {
        local::connect(&self.socket(), Instant::now() + LONG).unwrap()
    }

    /// Connections of a user, each of which has asked.
    fn ask_as(&self, user: u32, count: usize, question: &Question) -> Vec<OwnedFd> {
        let ask = |_| {
            let socket = self.connect();
            assert!(local::send(&socket, &question.encode(), &[]).unwrap());
            socket
        };
        as_user(user, || (0..count).map(ask).collect())
    }

    /// The message that comes, and how many files with it.
    fn hear(&self, socket: &OwnedFd) -> (Answer, usize) {
        until("an answer", || local::wait_any(&[socket.as_fd()], Some(LONG)).unwrap()[0]);
        let mut bytes = vec![0; ANSWER_BYTES_MAX];
        let message = local::receive(socket, &mut bytes).unwrap().unwrap();
        assert!(!message.is_cut && !message.lacks_files);
        (Answer::decode(&bytes[..message.bytes]).unwrap(), message.files.len())
    }

    fn service<D: Desk>(&self, desk: D) -> Service<D> {
        let options = Options { socket: self.socket(), mode: 0o666, trust: Trust::Own, stays: false };
        Service::begin(&options, desk, Admission::default()).unwrap()
    }
}

/// Answers everybody that there is nothing, and notes who asked. After some answers it has the service stop.
struct Notes {
    users: Mutex<Vec<u32>>,
    stop: Mutex<Option<UnixStream>>,
    stops_after: usize,
}

impl Notes {
    /// The notes, and what the service is to stop by.
    fn stopping_after(stops_after: usize) -> (Notes, UnixStream) {
        let (stop, stops) = UnixStream::pair().unwrap();
        (Notes { users: Mutex::default(), stop: Mutex::new(Some(stop)), stops_after }, stops)
    }

    fn stop(&self) {
        self.stop.lock().unwrap().take();
    }

    fn count(&self, user: u32) -> usize {
        self.users.lock().unwrap().iter().filter(|asked| **asked == user).count()
    }
}

impl Desk for Notes {
    fn answer(&self, _: &[u8], peer: &Peer) -> Reply {
        let mut users = self.users.lock().unwrap();
        users.push(peer.user);
        if users.len() == self.stops_after {
            self.stop();
        }
        Reply { bytes: Answer::Missing.encode(), files: Vec::new() }
    }
}

#[test]
fn users_take_turns_and_who_has_gone_is_passed_over() {
    let _watchdog = watchdog(300);
    if !may_enclose() {
        return;
    }
    let place = Place::new("turns", false);
    let (notes, stops) = Notes::stopping_after(usize::MAX);
    let service = place.service(notes);
    let question = Question::Names { after: String::new() };
    let many = place.ask_as(NOBODY, 300, &question);
    drop(place.ask_as(NOBODY - 1, 50, &question));
    let own = place.ask_as(0, 1, &question);
    std::thread::scope(|scope| {
        scope.spawn(|| service.serve(stops.as_fd()).unwrap());
        for socket in own.iter().chain(&many) {
            assert_eq!(place.hear(socket), (Answer::Missing, 0));
        }
        service.desk().stop();
    });
    let notes = service.desk();
    assert_eq!((notes.count(NOBODY), notes.count(NOBODY - 1), notes.count(0)), (300, 0, 1));
    // Who came last, behind all of one user's, is the second that is answered.
    let at = notes.users.lock().unwrap().iter().position(|user| *user == 0);
    assert!(at < Some(2), "{at:?}");
}

#[test]
fn a_service_stops_between_two_answers() {
    let _watchdog = watchdog(300);
    let place = Place::new("stops", false);
    let (notes, stops) = Notes::stopping_after(5);
    let service = place.service(notes);
    let sockets: Vec<OwnedFd> = (0..100).map(|_| place.connect()).collect();
    for socket in &sockets {
        assert!(local::send(socket, &Question::Names { after: String::new() }.encode(), &[]).unwrap());
    }
    service.serve(stops.as_fd()).unwrap();
    assert_eq!(service.desk().users.lock().unwrap().len(), 5);
}

#[test]
fn an_observer_that_waits_asks_a_broker_now_and_then() {
    let _watchdog = watchdog(300);
    let place = Place::new("waits", false);
    let (notes, stops) = Notes::stopping_after(usize::MAX);
    let service = place.service(notes);
    std::thread::scope(|scope| {
        scope.spawn(|| service.serve(stops.as_fd()).unwrap());
        let soon = Observer::options().wait(Duration::from_millis(1000)).open(&place.address("r"));
        assert!(matches!(soon, Err(Error::Timeout { .. })), "{soon:?}");
        service.desk().stop();
    });
    let asked = service.desk().users.lock().unwrap().len();
    assert!((3..60).contains(&asked), "{asked} questions");
}

#[test]
fn answers_that_are_not_taken_are_bounded_for_each_user() {
    let _watchdog = watchdog(300);
    if !may_enclose() {
        return;
    }
    let place = Place::new("untaken", false);
    let mut play = Play::open(place.options(), "r");
    play.step();
    let (socket, regions) = (place.socket(), place.regions());
    let mut broker = start("limited", &[socket.to_str().unwrap(), regions.to_str().unwrap(), "666"]);
    broker.expect("serves");
    let question = Question::Open { name: "r".into() };
    let many = place.ask_as(NOBODY, 60, &question);
    // Others are served all the while.
    for _ in 0..20 {
        check_play(&place.open("r").unwrap().newest().unwrap());
    }
    for socket in &many {
        until("an answer", || local::wait_any(&[socket.as_fd()], Some(LONG)).unwrap()[0]);
    }
    let heard: Vec<(Answer, usize)> = many.iter().map(|socket| place.hear(socket)).collect();
    let files: usize = heard.iter().map(|(_, files)| files).sum();
    assert!((1..64).contains(&files), "{files} files were open for nobody");
    let refused = |answer: &Answer| matches!(answer, Answer::Refused { why } if why.contains("not taken"));
    assert!(heard.iter().all(|(answer, files)| (*files == 0) == refused(answer)), "{heard:?}");
    // Who takes his is served again, also while he keeps the connections.
    let again = place.ask_as(NOBODY, 1, &question);
    assert!(place.hear(&again[0]).1 > 0);
    drop((many, again));
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", broker.pid())).unwrap().count();
    until("all to be let go", || descriptors() < 20);
}

#[test]
fn a_name_that_is_asked_for_many_times_is_answered_once() {
    let _watchdog = watchdog(300);
    let place = Place::new("twice", false);
    let _broker = place.serve();
    let mut play = Play::open(place.options(), "r");
    play.step();
    let about = std::fs::metadata(place.regions().join("r/head")).unwrap();
    let files = (0..200).map(|number| if number % 2 == 0 { "head" } else { "lease" }.to_string()).collect();
    let question = Question::More { name: "r".into(), identity: (about.dev(), about.ino()), files };
    let socket = place.connect();
    assert!(local::send(&socket, &question.encode(), &[]).unwrap());
    assert_eq!(place.hear(&socket), (Answer::More { files: vec!["head".into(), "lease".into()] }, 2));
}

#[test]
fn ranks_that_no_answer_has_room_for_are_told_in_several() {
    let _watchdog = watchdog(300);
    let place = Place::new("sparse", false);
    let _broker = place.serve();
    // Directories are enough to be asked for, and none of them is a region.
    for rank in (0..10_000).step_by(2) {
        std::fs::create_dir_all(place.regions().join(format!("heat/{rank}"))).unwrap();
    }
    let (mut told, mut after) = (Vec::new(), None);
    loop {
        let socket = place.connect();
        assert!(local::send(&socket, &Question::Ranks { name: "heat".into(), after }.encode(), &[]).unwrap());
        let (Answer::Ranks { ranges, next }, 0) = place.hear(&socket) else { panic!("no ranks") };
        told.extend(ranges);
        match next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(told, (0..10_000).step_by(2).map(|rank| (rank, rank)).collect::<Vec<_>>());
    let error = place.open("heat").unwrap_err();
    assert!(matches!(error, Error::NoRegion { .. }), "{error}");
}

#[test]
fn files_that_may_be_others_are_handed_out_only_if_that_is_meant() {
    let _watchdog = watchdog(300);
    for in_arena in [false, true] {
        let place = Place::new("others", in_arena);
        let mut play = Play::open(place.options(), "r");
        play.step();
        let (socket, regions) = (place.socket(), place.regions());
        let first = regions.join(if in_arena { "pool/arena" } else { "r/head" });
        let serve = |trust: Option<&str>| {
            let mut command = helper::command("broker", &[socket.to_str().unwrap(), regions.to_str().unwrap(), "666"]);
            command.envs(trust.map(|trust| ("STILLFRAME_TRUST", trust)));
            let mut broker = Helper::start(command);
            broker.expect("serves");
            broker
        };
        let is_refused = |word: &str| {
            let error = place.open(place.shown()).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        };
        let is_served = || check_play(&place.open(place.shown()).unwrap().newest().unwrap());
        let broker = serve(None);
        is_served();
        std::fs::hard_link(&first, regions.join("other")).unwrap();
        is_refused("2 names");
        broker.finish();
        let broker = serve(Some("any"));
        is_served();
        broker.finish();
        std::fs::remove_file(regions.join("other")).unwrap();
        let broker = serve(None);
        is_served();
        if may_enclose() {
            std::os::unix::fs::chown(&first, Some(NOBODY), None).unwrap();
            is_refused("belongs to user 65534");
            std::os::unix::fs::chown(&first, Some(0), None).unwrap();
            is_served();
        }
        broker.finish();
    }
}

#[test]
fn a_list_says_nothing_of_what_links_lead_to() {
    let _watchdog = watchdog(300);
    let place = Place::new("links", false);
    let _broker = place.serve();
    let mut play = Play::open(place.options(), "r");
    play.step();
    let outside = place.dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("head"), "secret").unwrap();
    std::os::unix::fs::symlink(&outside, place.regions().join("link")).unwrap();
    let names =
        |dir: &Path| -> Vec<String> { inspect::regions(dir).unwrap().into_iter().map(|info| info.name).collect() };
    assert_eq!(names(&place.regions()), ["link", "r"]);
    assert_eq!(names(Path::new(&format!("unix:{}", place.socket().display()))), ["r"]);
}

/// Answers each client of a listener by what `answer` makes of the number of clients before it, until it makes nothing.
fn lie(listener: &local::Listener, answer: impl Fn(usize) -> Option<(Vec<u8>, Vec<OwnedFd>)>) {
    for number in 0.. {
        until("a client", || local::wait_any(&[listener.as_fd()], Some(LONG)).unwrap()[0]);
        let client = local::accept(listener).unwrap().unwrap();
        // What is closed with a question in it takes the answer with it.
        until("a question", || local::wait_any(&[client.as_fd()], Some(LONG)).unwrap()[0]);
        local::receive(&client, &mut [0; 4096]).unwrap();
        let Some((bytes, files)) = answer(number) else { return };
        let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        // One who asks no more takes nothing.
        let _ = local::send(&client, &bytes, &borrowed);
    }
}

fn listen(place: &Place) -> local::Listener {
    let folder = stillframe_kernel::folder::Folder::open(&place.sockets(), false).unwrap();
    local::listen(local::Kind::Messages, &folder, "sock", ".new", 0o666, 64).unwrap()
}

#[test]
fn a_list_without_order_or_end_is_not_believed() {
    let _watchdog = watchdog(300);
    let place = Place::new("endless", false);
    let listener = listen(&place);
    let dir = PathBuf::from(format!("unix:{}", place.socket().display()));
    let list = |names: &[&str], next: Option<&str>| {
        let regions = names.iter().map(|name| name.to_string()).collect();
        Answer::Names { regions, arenas: Vec::new(), next: next.map(String::from) }.encode()
    };
    for (answers, word) in [
        (vec![list(&["b", "a"], None)], "ascend"),
        (vec![list(&["a", "a"], None)], "ascend"),
        (vec![list(&["b"], Some("b")), list(&["a"], None)], "ascend"),
        (vec![list(&["../a"], None)], "are none"),
        (vec![vec![b'x'; ANSWER_BYTES_MAX + 1]], "has more than"),
    ] {
        std::thread::scope(|scope| {
            scope.spawn(|| lie(&listener, |number| answers.get(number).map(|bytes| (bytes.clone(), Vec::new()))));
            let error = inspect::regions(&dir).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
            drop(place.connect());
        });
    }
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            lie(&listener, |number| {
                let names: Vec<String> = (0..1500).map(|name| format!("n{:012}", number * 1500 + name)).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let is_over = is_over.load(std::sync::atomic::Ordering::Relaxed);
                (!is_over).then(|| (list(&names, names.last().copied()), Vec::new()))
            })
        });
        let error = inspect::regions(&dir).unwrap_err();
        assert!(error.to_string().contains("more than 1000000 names"), "{error}");
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        drop(place.connect());
    });
}

#[test]
fn a_listener_that_is_not_trusted_is_neither_asked_nor_heard() {
    let _watchdog = watchdog(300);
    if !may_enclose() {
        return;
    }
    let place = Place::new("listener", false);
    std::os::unix::fs::chown(place.sockets(), Some(NOBODY), None).unwrap();
    let listener = as_user(NOBODY, || listen(&place));
    let open = |trust: Trust| Observer::options().trust(trust).open(&place.address("r")).unwrap_err();
    for trust in [Trust::Own, Trust::User(NOBODY - 1), Trust::Group(NOBODY)] {
        let error = open(trust);
        assert!(error.to_string().contains("is listened at by user 65534"), "{error}");
        let client = local::accept(&listener).unwrap().unwrap();
        assert_eq!(local::receive(&client, &mut [0; 16]).unwrap().unwrap().bytes, 0);
    }
    for trust in [Trust::User(NOBODY), Trust::Any] {
        std::thread::scope(|scope| {
            let is_over = std::sync::atomic::AtomicBool::new(false);
            let (listener, is_over) = (&listener, std::sync::Arc::new(is_over));
            let over = is_over.clone();
            scope.spawn(move || {
                let is_over = || over.load(std::sync::atomic::Ordering::Relaxed);
                lie(listener, |_| (!is_over()).then(|| (Answer::Missing.encode(), Vec::new())))
            });
            let error = open(trust);
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            drop(place.connect());
            assert!(matches!(error, Error::NoRegion { .. }), "{error}");
        });
    }
}

#[test]
fn what_a_broker_sends_and_nobody_wants_is_closed_where_no_fork_waits_for_it() {
    let _watchdog = watchdog(300);
    let place = Place::new("unwanted", false);
    let mut play = Play::open(place.options(), "r");
    play.step();
    let listener = listen(&place);
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    // Files that no region has are not kept.
    let (kept, told) = (place.dir.path().join("kept"), names(&["head", "tables", "lease", "other"]));
    std::fs::write(&kept, "content").unwrap();
    let observer = std::thread::scope(|scope| {
        scope.spawn(|| {
            lie(&listener, |number| {
                let of_region = told[..3].iter().map(|name| place.regions().join("r").join(name));
                let files = of_region.chain([kept.clone()]).map(|path| File::open(path).unwrap().into()).collect();
                (number == 0).then(|| (Answer::Region { files: told.clone() }.encode(), files))
            })
        });
        let observer = place.open("r");
        drop(place.connect());
        observer.unwrap()
    });
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    assert_eq!(entries.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|path| path == kept)).count(), 0);
    drop(observer);
    // One whose close waits keeps who asked, or who sent it if that one closes it last, and nobody else.
    for bytes in [b"garbage".to_vec(), Answer::Region { files: names(&["lease"]) }.encode()] {
        let (stream, other) = lingering();
        let stream = Mutex::new(Some(stream));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                lie(&listener, |_| {
                    let stream = stream.lock().unwrap().take()?;
                    Some((bytes.clone(), vec![OwnedFd::from(stream)]))
                })
            });
            let asks = scope.spawn(|| place.open("r").unwrap_err());
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(reap(in_child(|| {})), 0);
            drop(other);
            asks.join().unwrap();
            drop(place.connect());
        });
    }
}

/// Whether this process has nothing open of a directory but what its own producer has.
fn own_files_are_closed(dir: &Path) -> bool {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let count = entries.filter(|entry| {
        std::fs::read_link(entry.path()).is_ok_and(|path| path.starts_with(dir) && path.ends_with("head"))
    });
    count.count() <= 1
}
