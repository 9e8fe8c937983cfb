//! Who takes the place of others takes no complete version away, whether he stays or not.

use crate::common::{Dir, watchdog};
use crate::tier::by_tier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use stillframe_object::{Error, Object, WriteFragment, WriteOptions};

const LONG: Duration = Duration::from_secs(60);

fn create(dir: &Dir) -> Object {
    dir.objects().create("u", "var u [8] int32").create().unwrap()
}

fn left(object: &Object) -> WriteOptions {
    object.write("{ var v [x:4] = u[x] }")
}

fn right(object: &Object) -> WriteOptions {
    object.write("{ var v [x:4] = u[x+4] }")
}

fn publish(fragment: &mut WriteFragment, version: u64) {
    fragment.variable_mut::<i32>("v").unwrap().fill(version as i32);
    fragment.publish(version).unwrap();
}

/// The newest complete version, which has to be one that can be read.
fn read_newest(object: &Object) -> u64 {
    let newest = object.newest().unwrap();
    let mut all = object.read("{ var v = u }").attach().unwrap();
    all.reattach(newest, LONG).unwrap();
    assert!(all.variable::<i32>("v").unwrap().iter().all(|value| *value == newest as i32));
    newest
}

#[test]
fn an_heir_that_goes_without_a_version_takes_none_away() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("went");
    let object = create(&dir);
    let (mut a, mut b) = (left(&object).attach().unwrap(), right(&object).attach().unwrap());
    publish(&mut a, 1);
    publish(&mut b, 1);
    // It was ahead when it left, of which the heir makes nothing.
    publish(&mut a, 2);
    a.detach().unwrap();
    assert_eq!(read_newest(&object), 1);
    left(&object).wait(Duration::ZERO).attach().unwrap().detach().unwrap();
    publish(&mut b, 2);
    assert_eq!(read_newest(&object), 1, "{:?}", object.writers());
    publish(&mut b, 3);
    assert_eq!(read_newest(&object), 1, "{:?}", object.writers());
    let mut heir = left(&object).attach().unwrap();
    publish(&mut heir, 3);
    assert_eq!(read_newest(&object), 3);
}

#[test]
fn an_heir_goes_on_from_the_complete_version_whatever_the_one_before_had_published() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("beyond");
    let object = create(&dir);
    let (mut a, mut b) = (left(&object).attach().unwrap(), right(&object).attach().unwrap());
    (1..=5).for_each(|version| publish(&mut a, version));
    (1..=2).for_each(|version| publish(&mut b, version));
    drop(a);
    let mut heir = left(&object).wait(Duration::ZERO).attach().unwrap();
    assert_eq!(heir.version(), 2);
    (3..=5).for_each(|version| publish(&mut b, version));
    assert_eq!(read_newest(&object), 2, "{:?}", object.writers());
    for version in 3..=5 {
        publish(&mut heir, version);
        assert_eq!(read_newest(&object), version, "{:?}", object.writers());
    }
}

#[test]
fn an_heir_of_a_part_takes_no_version_away() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("part");
    let object = create(&dir);
    let (mut a, mut b) = (left(&object).attach().unwrap(), right(&object).attach().unwrap());
    publish(&mut a, 1);
    publish(&mut b, 1);
    publish(&mut a, 2);
    a.detach().unwrap();
    let mut heir = object.write("{ var v [x:2] = u[x] }").wait(Duration::ZERO).attach().unwrap();
    publish(&mut heir, 2);
    publish(&mut b, 2);
    assert_eq!(read_newest(&object), 1, "{:?}", object.writers());
    publish(&mut heir, 3);
    publish(&mut b, 3);
    assert_eq!(read_newest(&object), 1, "{:?}", object.writers());
    let mut other = object.write("{ var v [x:2] = u[x+2] }").attach().unwrap();
    publish(&mut other, 3);
    assert_eq!(read_newest(&object), 3);
}

#[test]
fn an_heir_that_waits_for_a_version_which_cannot_come_takes_none_away() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("hole");
    let object = create(&dir);
    let (mut a, mut b) = (left(&object).attach().unwrap(), right(&object).attach().unwrap());
    publish(&mut a, 1);
    publish(&mut b, 1);
    a.detach().unwrap();
    thread::scope(|scope| {
        let heir = scope.spawn(|| left(&object).version(3).wait(Duration::from_millis(500)).attach());
        thread::sleep(Duration::from_millis(200));
        publish(&mut b, 2);
        assert_eq!(read_newest(&object), 1, "{:?}", object.writers());
        publish(&mut b, 3);
        assert_eq!(read_newest(&object), 1, "{:?}", object.writers());
        let error = heir.join().unwrap().unwrap_err();
        assert!(matches!(error, Error::Timeout { .. } | Error::Lost { .. }), "{error}");
    });
    let mut heir = left(&object).attach().unwrap();
    publish(&mut heir, 3);
    assert_eq!(read_newest(&object), 3);
}

#[test]
fn heirs_of_one_beside_one_that_is_publishing_take_no_version_away() {
    let _watchdog = watchdog(240);
    let dir = Dir::new("joins");
    let object = create(&dir);
    let is_over = AtomicBool::new(false);
    let (mut a, mut b) = (left(&object).attach().unwrap(), right(&object).attach().unwrap());
    publish(&mut a, 1);
    publish(&mut b, 1);
    drop(b);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let version = a.version() + 1;
                publish(&mut a, version);
                thread::sleep(Duration::from_micros(50));
            }
        });
        let mut newest = 1;
        let mut check = || {
            for round in 0..by_tier(125, 500) {
                let mut heir = right(&object).attach().map_err(|error| format!("round {round}: {error}"))?;
                let ahead = object.writers().unwrap().iter().filter_map(|writer| writer.newest).max().unwrap();
                for version in ahead + 1..ahead + 1 + round % 4 {
                    publish(&mut heir, version);
                    let now = object.newest().map_err(|error| error.to_string())?;
                    if now < newest {
                        return Err(format!("round {round}: {now} after {newest}"));
                    }
                    newest = now;
                }
                drop(heir);
                let now = object.newest().map_err(|error| error.to_string())?;
                if now < newest {
                    return Err(format!("round {round}, detached: {now} after {newest}"));
                }
                newest = now;
            }
            Ok(())
        };
        let checked: Result<(), String> = check();
        is_over.store(true, Ordering::Relaxed);
        checked.unwrap();
        assert!(newest > 1);
    });
}

#[test]
#[ignore = "elements that nobody wrote although all writers had attached cannot be begun with, so that nobody can join"]
fn a_writer_may_join_where_nobody_wrote() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("unwritten");
    let object = create(&dir);
    let mut a = left(&object).writers(1).attach().unwrap();
    publish(&mut a, 1);
    let mut joins = right(&object).writers(2).attach().unwrap();
    assert!(joins.variable_mut::<i32>("v").unwrap().iter().all(|value| *value == 0));
}
