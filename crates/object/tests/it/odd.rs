//! Objects that are odd in name, shape, number or time.

use crate::common::{Dir, watchdog};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use stillframe_object::{Error, Object, Objects};

const LONG: Duration = Duration::from_secs(60);

fn create(dir: &Dir, name: &str, text: &str) -> Object {
    dir.objects().create(name, text).create().unwrap()
}

#[test]
fn an_object_below_another_one_is_its_own() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("below");
    let (upper, lower) = (create(&dir, "a", "var u [8] int32"), create(&dir, "a/b", "var u [8] int32"));
    let mut below = lower.write("{ var v = u }").attach().unwrap();
    below.publish(1).unwrap();
    let mut above = upper.write("{ var v = u }").attach().unwrap();
    for version in 1..3 {
        above.publish(version).unwrap();
    }
    above.detach().unwrap();
    upper.collect().unwrap();
    let mut again = upper.write("{ var v = u }").attach().unwrap();
    again.publish(3).unwrap();
    again.detach().unwrap();
    dir.objects().remove("a", false).unwrap();
    assert!(matches!(dir.objects().remove("a/b", false), Err(Error::InUse { .. })));
    below.publish(2).unwrap();
    assert_eq!(dir.objects().object_named("a/b").unwrap().newest().unwrap(), 2);
    lower.read("{ var v = u }").attach().unwrap().reattach(2, LONG).unwrap();
}

/// Either would keep the other from being attached.
#[test]
fn no_object_has_a_name_that_is_one_of_a_fragment_of_another() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("fragments");
    let objects = dir.objects();
    let create_all =
        |names: &[&str]| -> Vec<Object> { names.iter().map(|name| create(&dir, name, "var u [8] int32")).collect() };
    let mut all =
        create_all(&["a", "a/b", "0", "r0", "many/0", "many/1", "many/r2", "a/b2", "a/r", "a/r0x", "a/1.5", "a/-1"]);
    for name in ["a/0", "a/r0", "a/17", "a/4294967295", "a/99999999999", "a/007", "a/b/2", "0/1"] {
        let refused = objects.create(name, "var u [8] int32").create();
        let Err(Error::Region(stillframe::Error::BadName { why, .. })) = &refused else {
            panic!("{name}: {refused:?}")
        };
        assert!(why.contains("fragment"), "{name}: {why}");
    }
    // One that is there is found, whatever it is called.
    all.extend(create_all(&["many/0"]));
    let writers: Vec<_> = all[..12].iter().map(|object| object.write("{ var v = u }").attach().unwrap()).collect();
    for mut writer in writers {
        writer.publish(1).unwrap();
    }
    assert!(all.iter().all(|object| object.newest().unwrap() == 1));
}

/// The object that fragments could be called by was there first.
#[test]
fn fragments_are_not_called_by_the_names_of_other_objects() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("older");
    let older: Vec<Object> =
        ["run/0", "run/1", "run/3"].iter().map(|name| create(&dir, name, "var u [8] int32")).collect();
    let run = create(&dir, "run", "var u [8] int32");
    let upper = run.write("{ var v [x:4] = u[x] }").attach().unwrap();
    let lower = run.write("{ var v [x:4] = u[x+4] }").attach().unwrap();
    let others = older.iter().map(|object| object.write("{ var v = u }").attach().unwrap());
    for mut writer in [upper, lower].into_iter().chain(others) {
        writer.publish(1).unwrap();
    }
    for object in older.iter().chain([&run]) {
        object.read("{ var v = u }").attach().unwrap().reattach(1, LONG).unwrap();
    }
    let refused = dir.objects().create("run/7/b", "var u [8] int32").create();
    assert!(matches!(refused, Err(Error::Region(stillframe::Error::BadName { .. }))), "{refused:?}");
}

#[test]
fn scalars_and_arrays_of_many_axes_are_objects() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("axes");
    let object = create(&dir, "u", "var time float64\nvar u [2,3,2,1,2,3,1,2] int32");
    let mut one = object.write("{ var t = time }").attach().unwrap();
    let mut many = object.write("view v columnmajor { var v = u }").attach().unwrap();
    one.variable_mut::<f64>("t").unwrap()[0] = 2.5;
    for (at, bytes) in many.bytes_mut().unwrap().chunks_exact_mut(4).enumerate() {
        bytes.copy_from_slice(&(at as i32).to_ne_bytes());
    }
    one.publish(1).unwrap();
    many.publish(1).unwrap();
    let mut reader = object.read("{ var v = u; var t = time }").attach().unwrap();
    reader.reattach(1, LONG).unwrap();
    assert_eq!(reader.variable::<i32>("v").unwrap()[1], 2 * 3 * 2 * 2 * 3);
    let at = reader.fragment().variables()[1].offset_bytes as usize;
    assert_eq!(reader.bytes()[at..at + 8], 2.5f64.to_ne_bytes());
}

#[test]
fn an_object_may_have_many_variables() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("leaves");
    for count in [1000, 4000] {
        let declared: String = (0..count).map(|number| format!("var a{number} [4] int8\n")).collect();
        let begin = Instant::now();
        let object = create(&dir, &format!("u{count}"), &declared);
        let created = begin.elapsed();
        let text: String = (0..count).map(|number| format!("var v{number} = a{number}; ")).collect();
        let mut writer = object.write(&format!("{{ {text} }}")).attach().unwrap();
        let attached = begin.elapsed();
        writer.bytes_mut().unwrap().fill(3);
        writer.publish(1).unwrap();
        let mut reader = object.read(&format!("{{ {text} }}")).attach().unwrap();
        reader.reattach(1, LONG).unwrap();
        assert!(reader.bytes().iter().all(|byte| *byte == 3));
        println!("{count} variables: created {created:?}, attached {attached:?}, read {:?}", begin.elapsed());
    }
}

#[test]
fn an_arena_that_is_full_says_so_and_has_room_again() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("arena");
    let objects = Objects::options().dir(dir.path()).arena_bytes(64 << 20).arena_fragments(2).open().unwrap();
    let object = objects.create("u", "var u [3,600] int32").create().unwrap();
    let row = |x: i64| object.write("{ var v [y:600] = u[x0,y] }").bind("x0", x).wait(Duration::from_millis(20));
    let (mut first, mut second) = (row(0).attach().unwrap(), row(1).attach().unwrap());
    first.publish(1).unwrap();
    second.publish(1).unwrap();
    let error = row(2).attach().unwrap_err();
    assert!(matches!(error, Error::Region(_)), "{error}");
    println!("{error}");
    assert_eq!(object.writers().unwrap().len(), 2, "nothing is left of it");
    drop((first, second, object));
    dir.objects().remove("u", true).unwrap();
    let other = objects.create("v", "var u [3] int32").create().unwrap();
    let mut writer = other.write("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    assert_eq!(other.newest().unwrap(), 1);
}

#[test]
fn who_waits_for_a_removed_object_is_told_in_time() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("waits");
    let object = create(&dir, "u", "var u [2,100000] float64");
    let mut writer = object.write("{ var v [y:100000] = u[0,y] }").attach().unwrap();
    let mut other = object.write("{ var v [y:100000] = u[1,y] }").attach().unwrap();
    writer.variable_mut::<f64>("v").unwrap().fill(1.0);
    writer.publish(1).unwrap();
    other.publish(1).unwrap();
    let mut reader = object.read("{ var v [y:100000] = u[0,y] }").attach().unwrap();
    reader.reattach(1, LONG).unwrap();
    assert!(reader.is_shown());
    let (attached, is_attached) = mpsc::channel();
    let waiting = {
        let object = object.clone();
        thread::spawn(move || {
            let begin = Instant::now();
            let mut all = object.read("{ var v = u }").attach().unwrap();
            attached.send(()).unwrap();
            let read = all.reattach(2, Duration::from_millis(700)).unwrap_err();
            let newer = object.wait_newer(1, Duration::from_millis(300)).unwrap_err();
            (begin.elapsed(), read, newer)
        })
    };
    is_attached.recv().unwrap();
    thread::sleep(Duration::from_millis(100));
    dir.objects().remove("u", true).unwrap();
    for version in 2..6 {
        writer.variable_mut::<f64>("v").unwrap().fill(version as f64);
        let _ = writer.publish(version);
    }
    let (waited, read, newer) = waiting.join().unwrap();
    println!("{waited:?}: {read}; {newer}");
    assert!(reader.variable::<f64>("v").unwrap().iter().all(|value| *value == 1.0), "what is held stays");
    assert!(writer.detach().is_err());
    drop(other);
    assert!(!dir.path().join(".objects/boards/u").exists());
}

#[test]
fn boards_are_written_anew_while_others_read() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("anew");
    let object = create(&dir, "u", "var u [2,8] int32");
    let mut stays = object.write("{ var v [y:8] = u[0,y] }").attach().unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (object, done) = (dir.objects().object_named("u").unwrap(), done.clone());
            thread::spawn(move || {
                let mut newest = 0;
                let mut reader = object.read("{ var v = u }").attach().unwrap();
                // One that begins late sees what is there at the end.
                while !done.load(Ordering::Relaxed) || newest == 0 {
                    let now = object.newest().unwrap();
                    assert!(now >= newest, "{now} after {newest}");
                    newest = now;
                    match reader.reattach(now, LONG) {
                        Ok(()) => {
                            let all = reader.variable::<i32>("v").unwrap();
                            assert!(all.iter().all(|value| *value == now as i32), "{now}: {all:?}");
                        }
                        Err(Error::Lost { complete: Some(complete), .. }) if complete > now => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                newest
            })
        })
        .collect();
    let comment = "x".repeat(2000);
    let text = format!("{{ var v [y:8] = u[1,y] }} // {comment}");
    let board = dir.path().join(".objects/boards/u");
    let (mut longest, mut anew, mut before) = (0, 0, 0);
    for version in 1..=120 {
        let mut fragment = object.write(&text).attach().unwrap();
        assert_eq!(fragment.version(), version - 1);
        stays.variable_mut::<i32>("v").unwrap().fill(version as i32);
        fragment.variable_mut::<i32>("v").unwrap().fill(version as i32);
        stays.publish(version).unwrap();
        fragment.publish(version).unwrap();
        fragment.detach().unwrap();
        let bytes = std::fs::metadata(&board).unwrap().len();
        longest = longest.max(bytes);
        anew += u64::from(bytes < before);
        before = bytes;
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.join().unwrap() > 0);
    }
    println!("at most {longest} bytes, {anew} times anew");
    assert!(anew > 1 && longest < 150_000);
}

#[test]
fn a_fast_writer_beyond_its_drift_keeps_a_complete_version() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("drift");
    let object = create(&dir, "u", "var u [3,3000] int64");
    let row = |x: i64| object.write("{ var v [y:3000] = u[x0,y] }").bind("x0", x).bound_bytes(1 << 20);
    let mut writers: Vec<_> = (0..3).map(|x| row(x).attach().unwrap()).collect();
    let mut reader = object.read("{ var v = u }").attach().unwrap();
    let mut publish = |which: usize, version: u64| {
        let writer = &mut writers[which];
        writer.variable_mut::<i64>("v").unwrap().fill(version as i64);
        writer.publish(version).unwrap();
    };
    for version in 1..=500 {
        publish(0, version);
        if version % 3 == 0 {
            publish(1, version);
        }
    }
    let (mut newest, mut complete) = (0, 0);
    for version in 1..=500 {
        publish(2, version);
        let now = object.newest().unwrap();
        assert!(now >= newest, "{now} after {newest}");
        complete += u64::from(now > newest);
        newest = now;
        reader.reattach(now, LONG).unwrap_or_else(|error| panic!("{error}"));
        let all = reader.variable::<i64>("v").unwrap();
        assert!(all.iter().all(|value| *value == now as i64), "{now}");
    }
    println!("{complete} complete versions, the newest {newest}");
    assert!(newest > 400);
}

#[test]
#[ignore = "who looked at an object once keeps the memory of its removed fragments until it looks again"]
fn who_looked_once_keeps_no_memory() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("idle");
    let objects = Objects::options().dir(dir.path()).arena_bytes(64 << 20).arena_fragments(2).open().unwrap();
    let object = objects.create("u", "var u [600] int32").create().unwrap();
    let mut writer = object.write("{ var v = u }").attach().unwrap();
    let mut other = objects.create("w", "var u [600] int32").create().unwrap().write("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    other.publish(1).unwrap();
    let idle = dir.objects().object_named("u").unwrap();
    assert_eq!(idle.newest().unwrap(), 1);
    writer.detach().unwrap();
    objects.remove("u", false).unwrap();
    // There is room for two.
    objects.create("v", "var u [600] int32").create().unwrap().write("{ var v = u }").attach().unwrap();
    drop(idle);
}
