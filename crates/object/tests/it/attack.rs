//! What must hold whatever others do with names, places and versions.

use crate::common::{Dir, watchdog};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use stillframe_object::{Error, Object};

const LONG: Duration = Duration::from_secs(60);

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

#[test]
fn what_is_shown_is_aligned_as_what_is_copied() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("aligned");
    let object = create(&dir, "u", "var a [3] uint8\nvar u [100000] float64");
    let mut writer = object.write("{ var a = a; var u = u }").attach().unwrap();
    let at = writer.fragment().variables()[1].offset_bytes as usize;
    for (number, bytes) in writer.bytes_mut().unwrap()[at..].chunks_exact_mut(8).enumerate() {
        bytes.copy_from_slice(&(number as f64).to_ne_bytes());
    }
    writer.publish(1).unwrap();
    let mut reader = object.read("{ var v = u }").attach().unwrap();
    reader.reattach(1, LONG).unwrap();
    let shown = reader.variable::<f64>("v").unwrap();
    assert!(shown.iter().enumerate().all(|(number, value)| *value == number as f64));
}

#[test]
fn bytes_that_were_looked_at_stay_where_they_are() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("stays");
    let object = create(&dir, "u", "var a [32] float64\nvar u [100000] float64");
    let mut writer = object.write("{ var a = a; var u = u }").attach().unwrap();
    writer.publish(1).unwrap();
    let mut reader = object.read("{ var v = u }").attach().unwrap();
    let before = reader.bytes().as_ptr();
    reader.reattach(1, LONG).unwrap();
    assert_eq!(reader.bytes().as_ptr(), before);
}

#[test]
fn the_initial_version_was_never_published() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("initial");
    let object = create(&dir, "u", "var u [8] int32");
    let mut writer = object.write("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    let mut reader = object.read("{ var v = u }").attach().unwrap();
    reader.reattach(1, LONG).unwrap();
    assert!(reader.published_ns() > 0);
    reader.reattach(0, LONG).unwrap();
    assert_eq!(reader.published_ns(), 0);
}

#[test]
fn an_error_leaves_a_fragment_as_it_was() {
    // It shows a version of one writer; then it fails to copy one of two writers.
    let _watchdog = watchdog(120);
    let dir = Dir::new("as-it-was");
    let object = create(&dir, "u", "var u [100000] float64");
    let mut whole = object.write("{ var v = u }").attach().unwrap();
    whole.variable_mut::<f64>("v").unwrap().fill(1.0);
    whole.publish(1).unwrap();
    let mut reader = object.read("{ var v = u }").attach().unwrap();
    reader.reattach(1, LONG).unwrap();
    assert!(reader.is_shown());
    whole.detach().unwrap();
    let half = |first: i64| object.write("{ var v [x:50000] = u[x+first] }").bind("first", first).attach().unwrap();
    let (mut left, mut right) = (half(0), half(50_000));
    left.publish(2).unwrap();
    let region = right.region().unwrap();
    region.remove("v").unwrap();
    region.array::<f64>("v", &[10]).unwrap();
    region.publish(2).commit().unwrap();
    let error = reader.reattach(2, LONG).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    assert_eq!(reader.version(), 1);
    assert!(reader.variable::<f64>("v").unwrap().iter().all(|value| *value == 1.0));
}

#[test]
fn the_greatest_numbers_are_versions_too() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("greatest");
    let objects = dir.objects();
    let last = objects.create("last", "var u [8] int32").initial(u64::MAX).create().unwrap();
    assert_eq!(last.newest().unwrap(), u64::MAX);
    assert!(last.wait_newer(u64::MAX, Duration::from_millis(5)).is_err());
    assert!(last.write("{ var v = u }").attach().is_err());
    let object = objects.create("u", "var u [8] int32").initial(u64::MAX - 2).create().unwrap();
    let mut writer = object.write("{ var v = u }").attach().unwrap();
    for version in [u64::MAX - 1, u64::MAX] {
        if writer.publish(version).is_err() {
            break;
        }
        writer.variable_mut::<i32>("v").unwrap().fill(4);
    }
    let newest = writer.version();
    assert_eq!(object.newest().unwrap(), newest);
    assert!(object.wait_newer(newest, Duration::from_millis(5)).is_err());
    writer.detach().unwrap();
    assert_eq!(object.newest().unwrap(), newest, "what was published stays");
    assert!(object.wait_newer(newest, Duration::from_millis(5)).is_err());
    let mut reader = object.read("{ var v = u }").attach().unwrap();
    reader.reattach(newest, Duration::MAX).unwrap();
    assert_eq!(reader.reattach_newer(newest - 1, Duration::MAX).unwrap(), newest);
    objects.wait("u", Duration::MAX).unwrap();
    object.wait_for(newest, Duration::MAX).unwrap();
}

#[test]
fn who_takes_the_place_of_another_takes_no_complete_version_away() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("place");
    let rounds: u64 = std::env::var("STILLFRAME_TEST_KILLS").map_or(300, |kills| 10 * kills.parse::<u64>().unwrap());
    for round in 0..rounds {
        let object = create(&dir, &format!("u{round}"), "var u [2,600] int64");
        let row = |x: i64| object.write("{ var v [y:600] = u[x0,y] }").bind("x0", x);
        let mut stays = row(0).attach().unwrap();
        let mut goes = row(1).attach().unwrap();
        stays.publish(1).unwrap();
        goes.publish(1).unwrap();
        goes.publish(2).unwrap();
        goes.detach().unwrap();
        let seen = Arc::new(AtomicU64::new(0));
        let slow = thread::spawn({
            let (object, seen) = (object.clone(), seen.clone());
            move || {
                thread::sleep(Duration::from_micros(round * 37 % 400));
                stays.publish(2).unwrap();
                seen.store(object.newest().unwrap(), Ordering::Relaxed);
                stays
            }
        });
        let heir = row(1).attach();
        let stays = slow.join().unwrap();
        let seen = seen.load(Ordering::Relaxed);
        let newest = object.newest().unwrap();
        assert!(newest >= seen && newest >= 1, "round {round}: {newest} after {seen}");
        let heir = heir.unwrap_or_else(|error| panic!("round {round}, newest {newest}: {error}"));
        assert!(heir.version() >= 1);
        object.read("{ var v = u }").attach().unwrap().reattach(newest, LONG).unwrap();
        drop((stays, heir));
    }
}

#[test]
fn memory_of_others_does_not_show_between_elements() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("between");
    let secret = create(&dir, "secret", "var u [600000] uint8");
    let mut writer = secret.write("{ var v = u }").attach().unwrap();
    for version in 1..4 {
        writer.bytes_mut().unwrap().fill(0xa5);
        writer.publish(version).unwrap();
    }
    writer.detach().unwrap();
    dir.objects().remove("secret", true).unwrap();
    let object = create(&dir, "u", "type Cell struct { a int8; b float64 } var u [20000] Cell");
    let text = "view v aligned { var v = u }";
    let mut plain = object.write(text).attach().unwrap();
    assert!(plain.fragment().size_bytes() > 9 * 20_000, "there are bytes between elements");
    plain.publish(1).unwrap();
    plain.detach().unwrap();
    for version in 1..4 {
        let mut loaned = object.write(text).loaned().attach().unwrap();
        assert_eq!(loaned.version(), version);
        assert!(!loaned.bytes_mut().unwrap().contains(&0xa5), "at version {version}");
        loaned.publish(version + 1).unwrap();
        let mut reader = object.read(text).attach().unwrap();
        reader.reattach(version + 1, LONG).unwrap();
        assert!(!reader.bytes().contains(&0xa5), "at version {version}");
    }
}

#[test]
fn a_failing_collection_is_no_failed_publish() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("collection");
    let object = create(&dir, "u", "var u [8] int32");
    let mut left = object.write("{ var v [x:4] = u[x] }").attach().unwrap();
    let mut right = object.write("{ var v [x:4] = u[x+4] }").attach().unwrap();
    left.publish(1).unwrap();
    right.publish(1).unwrap();
    right.detach().unwrap();
    let mut right = object.write("{ var v [x:4] = u[x+4] }").attach().unwrap();
    left.publish(2).unwrap();
    right.publish(2).unwrap();
    let mut third = Some(right);
    third.take().unwrap().detach().unwrap();
    left.publish(3).unwrap();
    // When it is time to look for what others left, that fails.
    let board = dir.path().join(".objects/boards/u");
    let good = std::fs::read(&board).unwrap();
    let mut bad = good.clone();
    bad[..8].fill(b'X');
    std::fs::write(&board, &bad).unwrap();
    thread::sleep(Duration::from_millis(1100));
    left.publish(4).unwrap();
    assert_eq!(left.version(), 4);
    std::fs::write(&board, &good).unwrap();
}

#[test]
#[ignore = "measures how calls grow with the number of writers; attaching and `newest` grow too fast"]
fn calls_do_not_grow_with_the_square_of_the_writers() {
    let _watchdog = watchdog(600);
    let mut newest_us = Vec::new();
    for count in [100, 200, 400, 800] {
        let dir = Dir::new("scale");
        let object = create(&dir, "u", "var u [100000] int32");
        let attach = |at: i64| object.write("{ var v [x:10] = u[10*at+x] }").bind("at", at).attach().unwrap();
        let mut writers: Vec<_> = (0..count - 1).map(attach).collect();
        let begin = std::time::Instant::now();
        writers.push(attach(count - 1));
        let attached = begin.elapsed();
        let time = |what: &mut dyn FnMut()| {
            let begin = std::time::Instant::now();
            what();
            begin.elapsed()
        };
        let publish = time(&mut || writers[0].publish(1).map(drop).unwrap());
        let publish_again = time(&mut || writers[0].publish(2).map(drop).unwrap());
        object.newest().unwrap();
        let newest = time(&mut || assert_eq!(object.newest().unwrap(), 0));
        let mut reader = object.read("{ var v [x:10] = u[x] }").attach().unwrap();
        let reattach = time(&mut || reader.reattach(1, LONG).unwrap());
        let again = time(&mut || reader.reattach(2, LONG).unwrap());
        println!(
            "{count}: attach {attached:?}, publish {publish:?}, again {publish_again:?}, newest {newest:?}, reattach \
             {reattach:?}, again {again:?}"
        );
        newest_us.push(newest.as_secs_f64() * 1e6);
        let begin = std::time::Instant::now();
        drop(writers);
        println!("detach: {:?} each", begin.elapsed() / count as u32);
    }
    // Eight times as many writers take less than sixteen times as long.
    assert!(newest_us[3] < 16.0 * newest_us[0], "{newest_us:?}");
}

#[test]
fn writers_with_every_second_element_do_not_meet() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("second");
    let object = create(&dir, "u", "var u [8] int32");
    let every = |first: i64| object.write("{ var v [x:4] = u[2*x+first] }").bind("first", first).wait(Duration::ZERO);
    let mut even = every(0).attach().unwrap();
    let mut odd = every(1).attach().unwrap();
    even.variable_mut::<i32>("v").unwrap().fill(2);
    odd.variable_mut::<i32>("v").unwrap().fill(1);
    for version in 1..4 {
        even.publish(version).unwrap();
        odd.publish(version).unwrap();
        assert_eq!(object.newest().unwrap(), version);
        let mut all = object.read("{ var v = u }").attach().unwrap();
        all.reattach(version, LONG).unwrap();
        assert_eq!(all.variable::<i32>("v").unwrap(), [2, 1, 2, 1, 2, 1, 2, 1]);
    }
    // One that is ahead and gone keeps what the other one's heir has nothing to do with.
    even.publish(4).unwrap();
    even.detach().unwrap();
    odd.detach().unwrap();
    let mut odd = every(1).attach().unwrap();
    assert_eq!(odd.version(), 3);
    odd.publish(4).unwrap();
    assert_eq!(object.newest().unwrap(), 4);
}
