//! The number of ranks changes while they run, and one is ahead: who comes first waits for the others.

use crate::helper;

use crate::common::{Dir, watchdog};
use crate::helper::{say, start, until};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use stillframe_object::{Object, Objects, WriteFragment};

const LONG: Duration = Duration::from_secs(60);

fn opened(dir: &Path) -> Object {
    Objects::options().dir(dir).open().unwrap().create("u", "var u [8] int32").create().unwrap()
}

/// The same object, and how often somebody who waits for something of it was asked whether to go on.
fn counting(dir: &Dir) -> (Object, Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    let counted = asked.clone();
    let options = Objects::options().dir(dir.path()).interrupt(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        false
    });
    (options.open().unwrap().create("u", "var u [8] int32").create().unwrap(), asked)
}

fn attach(object: &Object, start: u64, count: u64, wait: Duration) -> WriteFragment {
    object.write(&format!("{{ var v [x:{count}] = u[x+{start}] }}")).wait(wait).attach().unwrap()
}

fn publish(fragment: &mut WriteFragment, version: u64) {
    fragment.variable_mut::<i32>("v").unwrap().fill(version as i32);
    fragment.publish(version).unwrap();
}

/// A fragment begins with a version, and with its content.
fn assert_begins(fragment: &mut WriteFragment, version: u64) {
    assert_eq!(fragment.version(), version);
    assert!(fragment.variable_mut::<i32>("v").unwrap().iter().all(|value| *value == version as i32));
}

/// Attaches the right half, publishes five versions once it is told to, and does nothing more.
fn slow(arguments: &[String]) {
    let mut fragment = attach(&opened(Path::new(&arguments[0])), 4, 4, LONG);
    say("attached");
    helper::wait_for_word();
    (1..=5).for_each(|version| publish(&mut fragment, version));
    say("published");
    helper::wait_for_word();
}

#[test]
fn helper_process() {
    helper::enter(&[("slow", slow)]);
}

#[test]
fn a_rank_that_was_ahead_begins_with_what_all_have_published() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("ahead");
    let object = opened(dir.path());
    let (patient, asked) = counting(&dir);
    let (mut a, mut b) = (attach(&patient, 0, 4, LONG), attach(&object, 4, 4, LONG));
    for version in 1..=5 {
        publish(&mut a, version);
        publish(&mut b, version);
    }
    (6..=7).for_each(|version| publish(&mut a, version));
    let before = asked.load(Ordering::SeqCst);
    let mut first = thread::scope(|scope| {
        let first = scope.spawn(|| {
            a.detach().unwrap();
            attach(&patient, 0, 3, LONG)
        });
        until("the first rank to wait", || asked.load(Ordering::SeqCst) > before || first.is_finished());
        assert!(!first.is_finished(), "it does not wait");
        (6..=7).for_each(|version| publish(&mut b, version));
        b.detach().unwrap();
        first.join().unwrap()
    });
    assert_begins(&mut first, 7);
    let (mut second, mut third) = (attach(&object, 6, 2, LONG), attach(&object, 3, 3, LONG));
    for rank in [&mut second, &mut third] {
        assert_begins(rank, 7);
    }
    for rank in [&mut first, &mut second, &mut third] {
        publish(rank, 8);
    }
    assert_eq!(object.newest().unwrap(), 8);
}

#[test]
fn nobody_waits_for_a_rank_that_has_died() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("died");
    let (patient, asked) = counting(&dir);
    let mut b = start("slow", &[dir.path().to_str().unwrap()]);
    b.expect("attached");
    let mut a = attach(&patient, 0, 4, LONG);
    b.tell();
    (1..=7).for_each(|version| publish(&mut a, version));
    b.expect("published");
    let before = asked.load(Ordering::SeqCst);
    a.detach().unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(|| attach(&patient, 0, 3, Duration::from_secs(600)));
        until("the first rank to wait", || asked.load(Ordering::SeqCst) > before || first.is_finished());
        assert!(!first.is_finished(), "it does not wait");
        b.kill();
        assert_begins(&mut first.join().unwrap(), 5);
    });
}

#[test]
fn who_does_not_wait_begins_with_the_complete_version() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("hurried");
    let object = opened(dir.path());
    let (mut a, mut b) = (attach(&object, 0, 4, LONG), attach(&object, 4, 4, LONG));
    publish(&mut a, 1);
    publish(&mut b, 1);
    publish(&mut a, 2);
    a.detach().unwrap();
    assert_begins(&mut attach(&object, 0, 3, Duration::ZERO), 1);
    // Of one that left and published what all have there is nothing to wait for; nor of one that is to be replaced itself.
    assert_begins(&mut attach(&object, 3, 1, Duration::from_secs(600)), 1);
}
