//! Producers and observers in containers: in namespaces of their own, of other users, over a directory that is mounted.

mod enclosure;
mod runtime;

use crate::common::{Dir, watchdog};
use crate::helper::{Helper, Play, attach, check_play, enter, say, until, wait_for_word};
use enclosure::{Enclosure, INSIDE, NOBODY, may_enclose};
use runtime::{Container, may_run};
use std::fs::{File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;
use stillframe::{Arena, Error, Group, Observer, Region, RegionOptions, Rule, Trust, inspect};

const LONG: Duration = Duration::from_secs(60);

#[test]
fn helper_process() {
    enter(&[("observe", observe), ("produce", produce), ("try", try_to_observe), ("rank", be_rank)]);
}

/// Observes from within: holds a version until told, then follows some, then holds one to the end.
fn observe(arguments: &[String]) {
    let [name] = arguments else { panic!("observe NAME") };
    let observer = attach(Path::new(INSIDE), name, LONG).unwrap();
    let mut held = observer.newest().unwrap();
    check_play(&held);
    check_nothing_can_be_written(Path::new(INSIDE));
    say("holds");
    wait_for_word();
    check_play(&held);
    for _ in 0..20 {
        let next = observer.newest_after(Some(held.version()), Some(LONG)).unwrap();
        check_play(&next);
        held = next;
    }
    assert!(observer.producer_alive() && observer.is_current());
    say("followed");
    wait_for_word();
    drop(held);
}

/// Tries to write to all files there are, and to make one.
fn check_nothing_can_be_written(place: &Path) {
    let is_refused = |kind| matches!(kind, ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied);
    for entry in std::fs::read_dir(place).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => check_nothing_can_be_written(&entry.path()),
            // What may not be read is not an observer's either.
            false => {
                let opened = File::options().write(true).open(entry.path());
                assert!(is_refused(opened.unwrap_err().kind()), "{}", entry.path().display());
                if let Ok(file) = File::open(entry.path()) {
                    use std::os::fd::AsRawFd;
                    let again = File::options().write(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()));
                    assert!(is_refused(again.unwrap_err().kind()), "{}", entry.path().display());
                }
            }
        }
    }
    assert!(is_refused(File::create(place.join("new")).unwrap_err().kind()));
}

/// Produces from within, until it is killed: a version each time it is told to.
fn produce(arguments: &[String]) {
    let [name, arena] = arguments else { panic!("produce NAME ARENA") };
    let options = Region::options().mode(0o755).dir(INSIDE);
    let mut play = match arena.as_str() {
        "-" => Play::open(options, name),
        arena => {
            let arena = Arena::options().dir(INSIDE).mode(0o755).bytes(1 << 30).create(arena).unwrap();
            Play::open(options.arena(&arena), name)
        }
    };
    loop {
        play.step();
        say(&play.version.to_string());
        wait_for_word();
    }
}

/// Says what comes of opening a region.
fn try_to_observe(arguments: &[String]) {
    let [name] = arguments else { panic!("try NAME") };
    match Observer::options().dir(INSIDE).open(name) {
        Ok(observer) => say(&format!("version {}", observer.newest().unwrap().version())),
        Err(error) => say(&error.to_string()),
    }
}

/// A rank of a group of two, which publishes ten versions and stays.
fn be_rank(arguments: &[String]) {
    let rank: u32 = arguments[0].parse().unwrap();
    let options = Region::options().dir(INSIDE).mode(0o777).trust(Trust::Any).rule(Rule::Wait { timeout: None });
    let mut region = options.rank(rank, 2).keep(4).create("group").unwrap();
    let u = region.array::<u64>("u", &[1000]).unwrap();
    for version in 1..=10 {
        region.slice_mut(&u).fill(version * 10 + u64::from(rank));
        region.publish(version).commit().unwrap();
    }
    say("published");
    wait_for_word();
}

/// A directory of regions that is mounted into containers, and the name of the region there.
struct Place {
    dir: Dir,
    arena: Option<Arena>,
}

impl Place {
    fn new(name: &str, in_arena: bool) -> Place {
        let dir = Dir::plain(name);
        std::fs::create_dir(dir.path().join("regions")).unwrap();
        set_mode(&dir.path().join("regions"), 0o755);
        let path = dir.path().join("regions");
        let arena = in_arena.then(|| Arena::options().dir(path).mode(0o755).bytes(1 << 30).create("pool").unwrap());
        Place { dir, arena }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("regions")
    }

    fn options(&self) -> RegionOptions {
        let options = Region::options().dir(self.path()).mode(0o755).rule(Rule::Wait { timeout: None });
        match &self.arena {
            Some(arena) => options.arena(arena),
            None => options,
        }
    }

    fn shown(&self) -> &'static str {
        if self.arena.is_some() { "pool/r" } else { "r" }
    }

    fn holders(&self) -> usize {
        inspect::holders(&self.path(), self.shown()).unwrap().len()
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn an_observer_in_other_namespaces_holds_and_is_woken_and_writes_nothing() {
    let _watchdog = watchdog(300);
    if !may_enclose() {
        return;
    }
    for (user, in_arena) in [(None, false), (Some(NOBODY), false), (None, true), (Some(NOBODY), true)] {
        let place = Place::new("observer", in_arena);
        let mut play = Play::open(place.options(), "r");
        play.step();
        let enclosure = Enclosure { is_read_only: true, user };
        let mut observer = Helper::start(enclosure.command(&place.path(), "observe", &[place.shown()]));
        play.step_beside(&mut observer, || place.holders());
        observer.kill();
        until("its hold to go with it", || place.holders() == 0);
        play.step();
    }
}

#[test]
fn a_producer_in_other_namespaces_is_observed_missed_and_followed_by_another() {
    let _watchdog = watchdog(300);
    if !may_enclose() {
        return;
    }
    for arena in ["-", "pool"] {
        let place = Place::new("producer", false);
        chown(place.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        let enclosure = Enclosure { is_read_only: false, user: Some(NOBODY) };
        let start = || Helper::start(enclosure.command(&place.path(), "produce", &["r", arena]));
        let name = if arena == "-" { "r" } else { "pool/r" };
        let mut producer = start();
        producer.expect("1");
        let observer = attach(&place.path(), name, LONG).unwrap();
        for version in 2..30 {
            producer.tell();
            let snapshot = observer.newest_after(Some(version - 1), Some(LONG)).unwrap();
            assert_eq!(snapshot.version(), version);
            check_play(&snapshot);
        }
        assert!(observer.producer_alive());
        producer.kill();
        let gone = observer.newest_after(Some(29), Some(LONG)).unwrap_err();
        assert!(matches!(gone, Error::ProducerGone { .. }), "{gone}");
        check_play(&observer.newest().unwrap());
        // Another container's process, which has the same process number in there, goes on from it.
        let mut producer = start();
        producer.expect("30");
        assert!(observer.producer_alive() && observer.is_current());
        check_play(&observer.newest_after(Some(29), Some(LONG)).unwrap());
        // Only one at a time, wherever it is.
        let second = Region::options().dir(place.path()).trust(Trust::Any);
        let second = match arena {
            "-" => second.create("r"),
            arena => {
                second.arena(&Arena::options().dir(place.path()).trust(Trust::Any).open(arena).unwrap()).create("r")
            }
        };
        assert!(matches!(second, Err(Error::InUse { .. })), "{second:?}");
    }
}

#[test]
fn producer_and_observer_in_two_containers_meet_over_the_directory() {
    let _watchdog = watchdog(300);
    if !may_enclose() {
        return;
    }
    let place = Place::new("two", false);
    chown(place.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let inside = Enclosure { is_read_only: false, user: Some(NOBODY) };
    let mut producer = Helper::start(inside.command(&place.path(), "produce", &["r", "-"]));
    producer.expect("1");
    let beside = Enclosure { is_read_only: true, user: Some(NOBODY - 1) };
    let mut observer = Helper::start(beside.command(&place.path(), "observe", &["r"]));
    observer.expect("holds");
    observer.tell();
    let mut version = 1;
    while observer.try_hear(Duration::from_millis(2)).is_none() {
        producer.tell();
        version += 1;
        producer.expect(&version.to_string());
    }
    producer.kill();
    observer.finish();
}

#[test]
fn modes_decide_across_user_namespaces() {
    let _watchdog = watchdog(300);
    if !may_enclose() {
        return;
    }
    let place = Place::new("modes", false);
    let mut play = Play::open(place.options().mode(0o700), "r");
    play.step();
    let try_it = |user| {
        let enclosure = Enclosure { is_read_only: true, user };
        let mut helper = Helper::start(enclosure.command(&place.path(), "try", &["r"]));
        let said = helper.hear().unwrap();
        helper.finish();
        said
    };
    // Root of its own user namespace is nobody outside.
    let refused = try_it(Some(NOBODY));
    assert!(refused.contains("may not be opened"), "{refused}");
    assert_eq!(try_it(None), "version 1");
    set_mode(&place.path().join("r"), 0o750);
    chown(place.path().join("r"), None, Some(NOBODY)).unwrap();
    for name in ["head", "tables", "lease", "plane.0", "schema.1"] {
        chown(place.path().join("r").join(name), None, Some(NOBODY)).unwrap();
        set_mode(&place.path().join("r").join(name), 0o640);
    }
    assert_eq!(try_it(Some(NOBODY)), "version 1", "the group may look, and keeps its number in a namespace");
    let other = try_it(Some(NOBODY - 1));
    assert!(other.contains("may not be opened"), "{other}");
}

#[test]
fn the_ranks_of_a_group_are_in_containers_of_their_own() {
    let _watchdog = watchdog(300);
    if !may_enclose() {
        return;
    }
    let place = Place::new("group", false);
    set_mode(&place.path(), 0o777);
    let enclosure = |user| Enclosure { is_read_only: false, user: Some(user) };
    let start = |rank: &str, user| Helper::start(enclosure(user).command(&place.path(), "rank", &[rank]));
    let mut ranks = [start("0", NOBODY), start("1", NOBODY - 1)];
    ranks.iter_mut().for_each(|rank| rank.expect("published"));
    let group = Group::options().dir(place.path()).wait(LONG).open("group").unwrap();
    let snapshot = group.newest().unwrap();
    assert_eq!(snapshot.version(), 10);
    for rank in 0..2 {
        assert_eq!(snapshot.rank(rank).slice::<u64>("u").unwrap()[999], 100 + u64::from(rank as u32));
    }
    drop(snapshot);
    ranks.into_iter().for_each(|mut rank| {
        rank.tell();
        rank.finish();
    });
}

#[test]
fn an_observer_in_a_container_of_a_runtime_holds_and_is_woken_and_writes_nothing() {
    let _watchdog = watchdog(300);
    if !may_enclose() || !may_run(&Dir::plain("runtime")) {
        return;
    }
    for in_arena in [false, true] {
        let place = Place::new("runtime", in_arena);
        let mut play = Play::open(place.options(), "r");
        play.step();
        let mut container = Container::start(&place.dir, &place.path(), 1000, "observe", &[place.shown()]);
        play.step_beside(container.helper(), || place.holders());
        container.kill();
        until("its hold to go with it", || place.holders() == 0);
    }
}
