//! Observers that take only what others leave.

#![allow(unsafe_code)]

use crate::helper;

use crate::common::refuse::refuse;
use crate::common::{Dir, watchdog};
use crate::helper::{Play, check_play, command, say, start, wait_for_word};
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};
use stillframe::{Error, Observer, Polite};

/// The classes of all threads of this process (proc(5), field 41 of `stat`).
fn classes() -> Vec<i32> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    // A thread may end between the list and its turn.
    let texts = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    texts.map(|text| text.rsplit_once(')').unwrap().1.split_whitespace().nth(38).unwrap().parse().unwrap()).collect()
}

fn observe(dir: &str, polite: Polite) -> stillframe::Result<Observer> {
    Observer::options().dir(dir).polite(polite).open("r")
}

/// Says of which class its threads are and how its session counts, before and after it opens an observer.
fn looks(arguments: &[String]) {
    let (said, goes_on) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || goes_on.recv().ok());
    let observer = observe(&arguments[0], Polite::new()).unwrap();
    let snapshot = observer.newest_after(None, None).unwrap();
    check_play(&snapshot);
    std::thread::spawn(|| assert!(classes().len() >= 3)).join().unwrap();
    assert!(classes().iter().all(|class| *class == libc::SCHED_IDLE), "{:?}", classes());
    let session = std::fs::read_to_string("/proc/self/autogroup").unwrap_or_default();
    let is_least = session.trim_end().ends_with("nice 19");
    say(&format!("version {} least {}", snapshot.version(), is_least || session.is_empty()));
    drop(said);
    other.join().unwrap();
}

#[test]
fn a_polite_process_is_of_the_idle_class_and_lets_its_own_session_count_least() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("class");
    let mut play = Play::open(dir.options(), "r");
    play.step();
    // One that leads no session leaves that of others as it is.
    assert_eq!(start("looks", &[dir.path().to_str().unwrap()]).hear().unwrap(), own_session("version 1 least "));
    let mut leader = command("looks", &[dir.path().to_str().unwrap()]);
    // SAFETY: the call is one that a forked child may make, and touches no memory.
    unsafe {
        leader.pre_exec(|| match libc::setsid() {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        })
    };
    let mut leader = helper::Helper::start(leader);
    leader.expect("version 1 least true");
    leader.finish();
}

/// Has the kernel refuse to change a thread's class (seccomp(2)), as a container may, and looks twice.
fn forbidden(arguments: &[String]) {
    assert!(refuse(libc::SYS_sched_setscheduler, None, libc::EPERM));
    for _ in 0..2 {
        let observer = observe(&arguments[0], Polite::new()).unwrap();
        check_play(&observer.newest_after(None, None).unwrap());
    }
    assert!(classes().iter().all(|class| *class != libc::SCHED_IDLE), "{:?}", classes());
    computes(arguments);
}

#[test]
fn where_the_class_is_forbidden_it_says_so_once_and_goes_on() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("forbidden");
    let mut play = Play::open(dir.options(), "r");
    play.step();
    let said = dir.path().join("said");
    let mut looks = command("forbidden", &[dir.path().to_str().unwrap()]);
    looks.stderr(std::fs::File::create(&said).unwrap());
    let mut helper = helper::Helper::start(looks);
    let said = || std::fs::read_to_string(&said).unwrap();
    loop {
        match helper.try_hear_end(Duration::from_millis(20)) {
            Some(Some(_)) => break,
            Some(None) => play.step(),
            None => panic!("the helper process ended: {}", said()),
        }
    }
    helper.finish();
    let said = said();
    assert_eq!(said.matches("not as politely as it was asked to").count(), 1, "{said}");
    assert!(said.contains("sched_setscheduler"), "{said}");
}

/// What a process of the session of this one has to say.
fn own_session(text: &str) -> String {
    let session = std::fs::read_to_string("/proc/self/autogroup").unwrap_or_default();
    format!("{text}{}", session.is_empty() || session.trim_end().ends_with("nice 19"))
}

/// The first processor that this process may run on.
fn first_processor() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    allowed.split([',', '-']).next().unwrap().parse().unwrap()
}

/// Takes all that others leave of a processor, until it is told to end. As one of little weight, so that tests beside it
/// hardly feel it; an idle class has less still.
fn takes_what_is_left(processor: usize, ends: &std::sync::atomic::AtomicBool) {
    // SAFETY: a set is plain data, valid when zeroed, and the calls write to nothing.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
        assert_eq!(libc::setpriority(libc::PRIO_PROCESS, 0, 19), 0);
    }
    while !ends.load(std::sync::atomic::Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

/// Reads the newest version again and again, and computes for 5 ms of processor time.
fn computes(arguments: &[String]) {
    let first = first_processor();
    let observer = observe(&arguments[0], Polite::new().share(0.05).processors([first..=first])).unwrap();
    let used = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer refers to a live timespec.
        unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let (begin, before) = (Instant::now(), used());
    let mut last = None;
    for _ in 0..4 {
        let snapshot = observer.newest_after(last, None).unwrap();
        last = Some(snapshot.version());
        check_play(&snapshot);
        drop(snapshot);
        let until = used() + Duration::from_millis(5);
        while used() < until {}
    }
    observer.pause(None);
    let share = (used() - before).as_secs_f64() / begin.elapsed().as_secs_f64();
    say(&format!("{share}"));
}

#[test]
fn where_nothing_is_left_over_a_polite_observer_still_comes_to_its_pictures_and_keeps_to_its_share() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("share");
    let mut play = Play::open(dir.options(), "r");
    play.step();
    let ends = std::sync::atomic::AtomicBool::new(false);
    let share: f64 = std::thread::scope(|scope| {
        // The one processor that the observer has is never idle. Others that want it as well only make the share smaller.
        scope.spawn(|| takes_what_is_left(first_processor(), &ends));
        let mut helper = start("computes", &[dir.path().to_str().unwrap()]);
        let share = loop {
            play.step();
            match helper.try_hear(Duration::from_millis(20)) {
                Some(text) => break text.parse().unwrap(),
                None => continue,
            }
        };
        ends.store(true, std::sync::atomic::Ordering::Relaxed);
        helper.finish();
        share
    });
    assert!(share < 0.2, "{share} of a processor");
}

/// Holds a version until it is told to go on, and looks at it again.
fn holds(arguments: &[String]) {
    let observer = observe(&arguments[0], Polite::new()).unwrap();
    let snapshot = observer.newest_after(None, None).unwrap();
    check_play(&snapshot);
    say(&format!("holds {}", snapshot.version()));
    wait_for_word();
    check_play(&snapshot);
    say(&format!("held {}", snapshot.version()));
}

#[test]
fn one_that_is_starved_while_it_holds_a_version_stops_nobody_and_loses_nothing() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("starved");
    let mut play = Play::open(dir.options(), "r");
    play.step();
    let mut helper = start("holds", &[dir.path().to_str().unwrap()]);
    helper.expect("holds 1");
    // A thread that gets no processor at all.
    helper.stop();
    for _ in 0..50 {
        play.step();
    }
    let planes = play.region.statistics().plane_bytes;
    for _ in 0..500 {
        play.step();
    }
    assert_eq!(
        play.region.statistics().plane_bytes,
        planes,
        "one held version costs its own pages, and no more with time"
    );
    check_play(&dir.observe("r").newest().unwrap());
    helper.signal(libc::SIGCONT);
    helper.tell();
    helper.expect("held 1");
    helper.finish();
}

#[test]
fn options_that_make_no_sense_are_refused_before_anything_changes() {
    let dir = Dir::new("refused");
    Play::open(dir.options(), "r").step();
    let path = dir.path().to_str().unwrap();
    let before = classes();
    let refused = |polite: Polite, name: &str| match observe(path, polite) {
        Err(Error::BadOption { option, .. }) => assert_eq!(option, name),
        other => panic!("{other:?}"),
    };
    refused(Polite::new().share(0.0), "share");
    refused(Polite::new().share(f64::NAN), "share");
    refused(Polite::new().share(1.5), "share");
    refused(Polite::new().bytes_per_s(0), "bytes_per_s");
    refused(Polite::new().processors([]), "processors");
    refused(Polite::new().processors([100_000..=usize::MAX]), "processors");
    assert_eq!(classes().first(), before.first(), "the process is what it was");
}

/// Says on how many processors it may run.
fn is_bound(arguments: &[String]) {
    let first = first_processor();
    observe(&arguments[0], Polite::new().processors([first..=first])).unwrap();
    say(&std::thread::available_parallelism().unwrap().to_string());
}

#[test]
fn it_uses_the_processors_it_is_told_alone() {
    let dir = Dir::new("bound");
    Play::open(dir.options(), "r").step();
    assert_eq!(helper::run("bound", &[dir.path().to_str().unwrap()]), ["1"]);
}

#[test]
fn helper_process() {
    helper::enter(&[
        ("looks", looks),
        ("computes", computes),
        ("forbidden", forbidden),
        ("holds", holds),
        ("bound", is_bound),
    ]);
}
