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

#[test]
fn a_name_is_that_of_one_object_only() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("alias");
    let objects = dir.objects();
    let object = create(&dir, "a/b", "var u [8] int32");
    let mut writer = object.write("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    for name in ["a:b", "", ".", "..", "../names/a:b", "/a/b", "a//b", ".new.1.0"] {
        let found = objects.object_named(name);
        assert!(found.is_err(), "{name}: {found:?}");
        assert!(objects.remove(name, true).is_err(), "{name}");
    }
    assert_eq!(object.newest().unwrap(), 1);
    objects.object_named("a/b").unwrap();
}

#[test]
fn what_can_be_created_can_be_attached() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("long");
    let objects = dir.objects();
    let mut made = 0;
    for bytes in 180..=220 {
        let name = "n".repeat(bytes);
        if let Ok(object) = objects.create(&name, "var u [8] int32").create() {
            made += 1;
            let mut writer = object.write("{ var v = u }").attach().unwrap_or_else(|error| panic!("{bytes}: {error}"));
            writer.publish(1).unwrap();
            assert_eq!(object.newest().unwrap(), 1);
        }
    }
    assert!(made > 0);
}
