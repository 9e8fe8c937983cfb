//! Brokers and clients that have few descriptors: they say so, and go on.

use super::place::answer;
use super::{LONG, Place};
use crate::common::watchdog;
use crate::enclosure::{NOBODY, may_enclose};
use crate::helper::{Play, check_play, start, until};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};
use stillframe::Error;
use stillframe_kernel::local;
use stillframe_segment::broker::{Answer, Question};

#[test]
fn a_broker_without_descriptors_says_so_and_goes_on() {
    let _watchdog = watchdog(300);
    let place = Place::new("exhausted", false);
    let broker = place.serve();
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", broker.pid())).unwrap().count() as u64;
    let open = descriptors();
    let mut play = Play::open(place.options(), "r");
    play.step();
    check_play(&place.open("r").unwrap().newest().unwrap());
    until("what was opened for an answer to be closed", || descriptors() <= open);
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

/// Half of the time after which a broker may let go of who says nothing: later than this nothing is known.
const SOON: Duration = Duration::from_secs(1);

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
        let come = Instant::now();
        let socket = local::connect(&place.socket(), come + LONG).unwrap();
        until("it to take the client", || has(last) || come.elapsed() > SOON);
        // It finds nobody behind it. If it does so later than this, it may have heard the question by then.
        std::thread::sleep(Duration::from_millis(5));
        let sent = local::send(&socket, &Question::Open { name: "none".into() }.encode(), &[]);
        if come.elapsed() > SOON {
            continue;
        }
        assert!(sent.unwrap());
        assert!(matches!(Answer::decode(&answer(&socket)), Ok(Answer::Missing | Answer::Refused { .. })));
    }
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
