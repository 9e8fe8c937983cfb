//! Files that are handed out: what is seen by them, and that nothing is written.

use super::Place;
use crate::child::{in_child, reap};
use crate::common::watchdog;
use crate::enclosure::{Enclosure, INSIDE, NOBODY, may_enclose};
use crate::helper::{self, Helper, Play, check_play, start, until};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use stillframe::{Error, Observer, Trust, inspect};

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
