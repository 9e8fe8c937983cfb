//! A process that is halted while it has the lock of a board: what others are told of versions stays so, whatever it does when it goes on.
#![cfg(feature = "points")]

use crate::common::{Dir, watchdog};
use crate::helper::{self, Helper, say};
use std::path::Path;
use std::time::Duration;
use stillframe_object::runtime::LOCK;
use stillframe_object::{Object, Objects, WriteFragment};

const LONG: Duration = Duration::from_secs(60);

fn opened(dir: &Path) -> Object {
    Objects::options().dir(dir).open().unwrap().create("u", "var u [8] int32").create().unwrap()
}

/// Waits for nobody who has still to publish what the one before had.
fn half(object: &Object, first: i64) -> WriteFragment {
    object.write("{ var v [x:4] = u[x+first] }").bind("first", first).wait(Duration::ZERO).attach().unwrap()
}

fn publish(fragment: &mut WriteFragment, version: u64, value: i32) {
    fragment.variable_mut::<i32>("v").unwrap().fill(value);
    fragment.publish(version).unwrap();
}

/// The elements that a version has, if it can be had.
fn content(object: &Object, version: u64) -> Option<Vec<i32>> {
    let mut all = object.read("{ var v = u }").attach().unwrap();
    all.reattach(version, Duration::ZERO).is_ok().then(|| all.variable::<i32>("v").unwrap().to_vec())
}

/// Takes the place of a writer that is gone, and publishes its next version with a content of its own.
fn heir(arguments: &[String]) {
    let mut fragment = half(&opened(Path::new(&arguments[0])), 4);
    say(&format!("attached {}", fragment.version()));
    helper::wait_for_word();
    let next = fragment.version() + 1;
    publish(&mut fragment, next, 99);
    say("published");
    helper::wait_for_word();
}

/// Removes what writers left.
fn collector(arguments: &[String]) {
    opened(Path::new(&arguments[0])).collect().unwrap();
    say("collected");
    helper::wait_for_word();
}

#[test]
fn helper_process() {
    helper::enter(&[("heir", heir), ("collector", collector)]);
}

/// What was said to be complete, with its content: neither goes back.
#[derive(Default)]
struct Told(Vec<(u64, Vec<i32>)>);

impl Told {
    fn look(&mut self, object: &Object, when: &str) -> u64 {
        let newest = object.newest().unwrap();
        let found = content(object, newest).unwrap_or_else(|| panic!("{when}: version {newest} cannot be had"));
        if let Some((before, had)) = self.0.last() {
            assert!(newest >= *before, "{when}: {newest} after {before}");
            assert!(newest > *before || found == *had, "{when}: version {newest} is {found:?} after {had:?}");
        }
        self.0.push((newest, found));
        newest
    }
}

/// An object of which one writer is a version ahead and gone, with an heir that stands still at a point.
fn halted(dir: &Dir, at: &str) -> (Object, WriteFragment, Helper) {
    let object = opened(dir.path());
    let (mut stays, mut goes) = (half(&object, 0), half(&object, 4));
    publish(&mut stays, 1, 1);
    (1..=2).for_each(|version| publish(&mut goes, version, version as i32));
    drop(goes);
    if at == "follow" {
        std::fs::write(dir.path().join(".objects").join(LOCK), "").unwrap();
    }
    let mut command = helper::command("heir", &[dir.path().to_str().unwrap()]);
    let point = if at == "follow" { "board.written" } else { at };
    command.env("STILLFRAME_STOP_AT", format!("{point}:1"));
    let heir = Helper::start(command);
    heir.wait_stopped();
    (object, stays, heir)
}

#[test]
fn an_heir_that_is_halted_lets_nothing_become_complete_that_it_then_writes_anew() {
    let _watchdog = watchdog(240);
    // Before it looks at the writers for the last time; before its entry counts; and where the first entry gives the object a home.
    for at in ["attach.made", "board.written", "follow"] {
        let dir = Dir::new("halted");
        let (object, mut stays, mut heir) = halted(&dir, at);
        let mut told = Told::default();
        told.look(&object, at);
        publish(&mut stays, 2, 2);
        for _ in 0..2 {
            told.look(&opened(dir.path()), &format!("{at}, halted"));
        }
        heir.signal(libc::SIGCONT);
        let attached = heir.hear().unwrap_or_else(|| panic!("{at}: it ended"));
        told.look(&object, &format!("{at}, {attached}"));
        heir.tell();
        heir.expect("published");
        let version = if attached == "attached 2" { 3 } else { 2 };
        if version == 3 {
            publish(&mut stays, 3, 3);
        }
        let newest = told.look(&object, &format!("{at}, published"));
        // Without a runtime nobody says that it is complete.
        assert_eq!(newest, if at == "follow" { 1 } else { version }, "{at}");
        heir.kill();
    }
}

/// Much memory is given back slowly.
#[test]
fn who_removes_what_writers_left_keeps_nobody_from_attaching_and_detaching() {
    let _watchdog = watchdog(240);
    let dir = Dir::new("removes");
    let object = opened(dir.path());
    let quarter = |first: i64| {
        let write = object.write("{ var v [x:2] = u[x+first] }").bind("first", first);
        write.wait(Duration::ZERO).attach().unwrap()
    };
    // Two leave: a publish may remove one of them.
    let (mut stays, mut leave) = (half(&object, 0), [quarter(4), quarter(6)]);
    publish(&mut stays, 1, 1);
    leave.iter_mut().for_each(|fragment| publish(fragment, 1, 1));
    for fragment in leave {
        fragment.detach().unwrap();
    }
    let mut next = half(&object, 4);
    publish(&mut stays, 2, 2);
    publish(&mut next, 2, 2);
    let mut command = helper::command("collector", &[dir.path().to_str().unwrap()]);
    command.env("STILLFRAME_STOP_AT", "collect.forget:1");
    let mut collector = Helper::start(command);
    collector.wait_stopped();
    next.detach().unwrap();
    let mut heir = half(&object, 4);
    publish(&mut stays, 3, 3);
    publish(&mut heir, 3, 3);
    collector.signal(libc::SIGCONT);
    collector.expect("collected");
    assert_eq!(content(&object, 3), Some(vec![3; 8]));
    object.collect().unwrap();
    assert_eq!(object.writers().unwrap().len(), 2, "{:?}", object.writers());
    collector.kill();
}

/// A writer lets its former version go once the next one seems to be complete, with one that is gone.
#[test]
fn an_heir_that_is_halted_takes_no_version_away() {
    let _watchdog = watchdog(240);
    for at in ["attach.made", "board.written"] {
        let dir = Dir::new("takes");
        let object = opened(dir.path());
        let (mut stays, mut goes) = (half(&object, 0), half(&object, 4));
        publish(&mut stays, 1, 1);
        (1..=3).for_each(|version| publish(&mut goes, version, version as i32));
        drop(goes);
        publish(&mut stays, 2, 2);
        let mut told = Told::default();
        assert_eq!(told.look(&object, at), 2);
        let mut command = helper::command("heir", &[dir.path().to_str().unwrap()]);
        command.env("STILLFRAME_STOP_AT", format!("{at}:1"));
        let mut heir = Helper::start(command);
        heir.wait_stopped();
        publish(&mut stays, 3, 3);
        for _ in 0..2 {
            told.look(&opened(dir.path()), &format!("{at}, halted"));
            told.look(&object, &format!("{at}, halted, who has looked before"));
        }
        heir.kill();
    }
}

#[test]
fn an_heir_that_dies_where_it_was_halted_withholds_nothing_any_more() {
    let _watchdog = watchdog(240);
    for at in ["attach.made", "board.written"] {
        let dir = Dir::new("died");
        let (object, mut stays, mut heir) = halted(&dir, at);
        publish(&mut stays, 2, 2);
        heir.kill();
        assert_eq!(object.newest().unwrap(), 2, "{at}");
        assert_eq!(content(&object, 2), Some(vec![2; 8]), "{at}");
        object.wait_for(2, LONG).unwrap();
        // Whoever has the lock next has claimed nothing.
        let (mut next, before) = (half(&object, 4), object.newest().unwrap());
        assert_eq!((next.version(), before), (2, 2), "{at}");
        publish(&mut next, 3, 3);
        publish(&mut stays, 3, 3);
        assert_eq!(object.newest().unwrap(), 3, "{at}");
    }
}
