//! What must hold when names, files, memory and other processes are not as one wishes.

mod common;

use common::{Dir, watchdog};
use std::time::Duration;
use stillframe_object::{Error, Object};

const LONG: Duration = Duration::from_secs(30);

fn create(dir: &Dir, name: &str, text: &str) -> Object {
    dir.objects().create(name, text).create().unwrap()
}

#[test]
fn who_has_a_removed_object_does_no_harm_to_the_next_of_its_name() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("zombie");
    let objects = dir.objects();
    let old = create(&dir, "u", "var u [8] int32");
    let mut left = old.write("{ var v [x:4] = u[x] }").attach().unwrap();
    let mut right = old.write("{ var v [x:4] = u[x+4] }").attach().unwrap();
    left.publish(1).unwrap();
    right.publish(1).unwrap();
    objects.remove("u", true).unwrap();
    let new = create(&dir, "u", "var u [8] int64");
    let mut writer = new.write("{ var v = u }").attach().unwrap();
    writer.variable_mut::<i64>("v").unwrap().fill(7);
    writer.publish(3).unwrap();
    // Whatever those do who know the old one.
    let _ = left.publish(2);
    let _ = left.detach();
    drop(right);
    let _ = old.collect();
    let _ = old.write("{ var v = u }").wait(Duration::ZERO).attach();
    let _ = old.newest();
    let other = dir.objects().object_named("u").unwrap();
    assert_eq!(other.newest().unwrap(), 3);
    let mut reader = other.read("{ var v = u }").attach().unwrap();
    reader.reattach(3, LONG).unwrap();
    assert!(reader.variable::<i64>("v").unwrap().iter().all(|value| *value == 7));
    writer.publish(4).unwrap();
    assert_eq!(new.newest().unwrap(), 4);
}

#[test]
fn a_removed_object_is_not_attached_to() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("removed");
    let old = create(&dir, "u", "var u [8] int32");
    dir.objects().remove("u", false).unwrap();
    let error = old.write("{ var v = u }").attach().unwrap_err();
    assert!(matches!(error, Error::Removed { .. }), "{error}");
    assert!(!dir.path().join(".objects/boards/u").exists());
}

/// The reader's fragment shows a version of one writer; then it fails to copy one of two writers.
