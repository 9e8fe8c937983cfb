//! Brokers that die, and come late: what observers have goes on, and the next broker serves.

use super::{LONG, Place};
use crate::common::{self, watchdog};
use crate::helper::{self, Helper, Play, check_play, start, until};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use stillframe::{Error, Observer};

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

/// Has threads end with whoever drops this.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Kills brokers at random moments, while observers of several processes open, hold and go on.
#[test]
fn observers_go_on_while_brokers_are_killed_at_random() {
    let _watchdog = watchdog(300);
    let place = Place::new("random", false);
    let mut play = Play::open(place.options().keep(2), "r");
    play.step();
    let address = place.address("r");
    let (end, opened) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (is_over, count) = (|| end.load(Ordering::Relaxed), || opened.load(Ordering::Relaxed));
    let observer = {
        let _broker = place.serve();
        place.open("r").unwrap()
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // Whoever fails ends the test: nobody waits for him any more.
                let _ends = Ends(&end);
                while !is_over() {
                    match Observer::options().open(&address) {
                        Ok(observer) => {
                            opened.fetch_add(1, Ordering::Relaxed);
                            match observer.newest() {
                                Ok(snapshot) => check_play(&snapshot),
                                Err(error) => assert!(matches!(error, Error::NoBroker { .. }), "{error}"),
                            }
                        }
                        Err(error) => assert!(matches!(error, Error::NoBroker { .. }), "{error}"),
                    }
                }
            });
        }
        let _ends = Ends(&end);
        let mut numbers = common::Numbers(17);
        for _ in 0..30 {
            let mut broker = place.serve();
            for _ in 0..numbers.below(20) {
                play.step();
            }
            // It dies at whatever the next question is when so many were answered.
            let enough = count() + 2 + numbers.below(10);
            until("observers to be served", || count() >= enough || is_over());
            assert!(!is_over(), "an observer has failed");
            broker.kill();
            if let Err(error) = observer.newest().map(|snapshot| check_play(&snapshot)) {
                assert!(matches!(error, Error::NoBroker { .. }), "{error}");
            }
        }
    });
    assert!(count() > 30, "{}", count());
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
fn an_observer_waits_for_a_broker_and_a_region_that_come_later() {
    let _watchdog = watchdog(300);
    let place = Place::new("later", false);
    assert!(matches!(place.open("r"), Err(Error::NoBroker { .. })));
    let soon = Observer::options().wait(Duration::from_millis(30)).open(&place.address("r"));
    assert!(matches!(soon, Err(Error::NoBroker { .. })), "{soon:?}");
    let mut observer = start("observe", &[&place.address("r")]);
    // It has less to wait for if it begins later than this, and sees the same.
    std::thread::sleep(Duration::from_millis(50));
    let _broker = place.serve();
    std::thread::sleep(Duration::from_millis(50));
    let mut play = Play::open(place.options(), "r");
    play.step();
    play.step_beside(&mut observer, || place.holders());
}
