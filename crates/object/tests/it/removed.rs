//! Objects that were removed, and what programs are told that have handles of them.

use crate::common::{Dir, watchdog};
use std::fmt::Debug;
use std::time::Duration;
use stillframe::inspect;
use stillframe_object::relay::{Remote, RemoteFragment};
use stillframe_object::runtime::RuntimeLock;
use stillframe_object::{Error, Object, Objects, ReadFragment};

const LONG: Duration = Duration::from_secs(60);

const ALL: &str = "{ var v = u }";

fn create(dir: &Dir, initial: u64) -> Object {
    dir.objects().create("u", "var u [8] int32").initial(initial).create().unwrap()
}

/// An object whose writer has left at a version.
fn written(dir: &Dir, initial: u64, version: u64) -> Object {
    let object = create(dir, initial);
    write(&object, version);
    object
}

/// Publishes a version, which is that number all over, and detaches.
fn write(object: &Object, version: u64) {
    let mut writer = object.write(ALL).attach().unwrap();
    writer.variable_mut::<i32>("v").unwrap().fill(version as i32);
    writer.publish(version).unwrap();
    writer.detach().unwrap();
}

fn assert_removed<T: Debug>(what: &str, outcome: Result<T, Error>) {
    assert!(matches!(outcome, Err(Error::Removed { .. })), "{what}: {outcome:?}");
}

/// Whoever asks what there is of the object is told that there is none.
fn assert_all_removed(object: &Object, reader: &mut ReadFragment) {
    assert_removed("newest", object.newest());
    assert_removed("versions", object.versions());
    assert_removed("writers", object.writers());
    assert_removed("alive", object.is_alive());
    assert_removed("newer", object.wait_newer(42, LONG));
    assert_removed("waited", object.wait_for(43, LONG));
    let mut out = vec![9; 32];
    let mut fresh = object.read(ALL).attach().unwrap();
    for reader in [reader, &mut fresh] {
        assert_removed("filled", reader.fill_newest(LONG, &mut out));
        assert_removed("at a version", reader.reattach(43, LONG));
        assert_removed("at a newer one", reader.reattach_newer(42, LONG));
    }
    assert_eq!(out, [9; 32], "nothing is given for data");
}

/// Removes an object in which a program has read, with or without a writer, and makes another of the name or none.
fn check_reader(by_force: bool, is_anew: bool) {
    let dir = Dir::new("reader");
    let object = written(&dir, 5, 42);
    let mut reader = object.read(ALL).attach().unwrap();
    let mut out = vec![0; 32];
    assert_eq!(reader.fill_newest(LONG, &mut out).unwrap(), 42);
    reader.reattach(42, LONG).unwrap();
    assert_eq!((object.newest().unwrap(), object.versions().unwrap()), (42, vec![42]));
    let unread = dir.objects().object_named("u").unwrap();
    let writer = by_force.then(|| unread.write(ALL).attach().unwrap());
    dir.objects().remove("u", by_force).unwrap();
    if is_anew {
        write(&create(&dir, 5), 41);
    }
    for object in [&object, &unread] {
        assert_all_removed(object, &mut reader);
    }
    assert_eq!(reader.variable::<i32>("v").unwrap(), [42; 8], "what a program holds stays");
    drop(writer);
}

#[test]
fn who_has_an_object_that_was_removed_is_told_so_and_given_no_zeros() {
    let _watchdog = watchdog(120);
    for (by_force, is_anew) in [(false, false), (false, true), (true, false), (true, true)] {
        check_reader(by_force, is_anew);
    }
}

/// The board goes last: what whoever removed the object left, if he died of it, or leaves for as long as memory is given back.
#[test]
fn an_object_that_was_removed_in_part_gives_no_zeros() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("part");
    let object = written(&dir, 5, 42);
    let read = object.read(ALL).attach().unwrap();
    let id = object.description().id;
    assert!(dir.objects().names().remove("u", id).unwrap());
    inspect::remove(dir.path(), "objects/u/0", true).unwrap();
    let mut fresh = object.read(ALL).attach().unwrap();
    assert_removed("newest", object.newest());
    assert_removed("versions", object.versions());
    assert_removed("writers", object.writers());
    let mut out = vec![9; 32];
    for mut reader in [read, object.read(ALL).attach().unwrap()] {
        assert_removed("filled", reader.fill_newest(LONG, &mut out));
    }
    assert_removed("filled anew", fresh.fill_newest(LONG, &mut out));
    assert_eq!(out, [9; 32], "nothing is given for data");
}

/// The name goes first, the board last: who removed the object may have died between, and a handle of before is still there.
#[test]
fn nobody_attaches_to_an_object_that_was_removed_in_part() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("half");
    let object = written(&dir, 5, 42);
    let id = object.description().id;
    let mut early = object.write("{ var v [x:4] = u[x] }").attach().unwrap();
    assert!(dir.objects().names().remove("u", id).unwrap());
    assert_removed("attached", object.write("{ var v [x:4] = u[x+4] }").attach().map(drop));
    assert_removed("collected", object.collect());
    early.publish(43).unwrap();
    assert_removed("detached", early.detach());
    // Whoever comes to remove it takes away the rest.
    dir.objects().remove_object(&object, false).unwrap();
    assert_eq!(std::fs::read_dir(dir.path().join(".objects/boards")).unwrap().count(), 0);
    assert!(inspect::regions(&dir.path().join("objects")).unwrap().is_empty());
    write(&create(&dir, 5), 6);
}

/// Its data would stay for as long as the next object of the name. The node's runtime may be the first to have the board.
#[test]
fn what_is_left_of_a_removed_object_goes_with_the_next_whoever_has_its_board_first() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("left");
    let former = written(&dir, 0, 42);
    assert!(dir.objects().names().remove("u", former.description().id).unwrap());
    let left = || inspect::regions(&dir.path().join("objects")).unwrap();
    assert!(!left().is_empty(), "whoever removed it died");
    let mut relay = create(&dir, 0).relay();
    let (remote, bindings) = (Remote { node: 2, host: "node2".into(), number: 0 }, Default::default());
    let (process, rank, from, died, writers) = (1, None, 1, false, None);
    let text = ALL.into();
    relay.tell(&[RemoteFragment { remote, process, rank, from, left: None, died, text, bindings, writers }]).unwrap();
    let names: Vec<String> = left().into_iter().map(|region| region.name).collect();
    assert!(!names.iter().any(|name| name.ends_with("u/0")), "{names:?}");
    relay.complete(1).unwrap();
    assert_eq!(create(&dir, 0).newest().unwrap(), 1);
}

#[test]
fn an_object_that_nobody_has_written_is_there() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("unwritten");
    let object = create(&dir, 5);
    // With and without a board, and once its only writer has left without a version.
    for _ in 0..2 {
        assert_eq!((object.newest().unwrap(), object.versions().unwrap()), (5, Vec::new()));
        assert!(object.writers().unwrap().is_empty());
        let mut out = vec![9; 32];
        assert_eq!(object.read(ALL).attach().unwrap().fill_newest(LONG, &mut out).unwrap(), 5);
        assert_eq!(out, [0; 32]);
        object.write(ALL).attach().unwrap().detach().unwrap();
    }
}

/// A program that ends removes the object that it had, and not what has the name by now.
#[test]
fn a_handle_removes_no_other_object_that_has_the_name_by_now() {
    let _watchdog = watchdog(120);
    for (force, is_written, is_damaged) in
        [(false, true, false), (true, true, false), (false, false, false), (true, false, false), (true, true, true)]
    {
        let dir = Dir::new("stale");
        let object = written(&dir, 0, 7);
        let stale = dir.objects().object_named("u").unwrap();
        dir.objects().remove_object(&object, false).unwrap();
        assert_removed("none has the name", dir.objects().remove_object(&stale, force));
        let next = create(&dir, 0);
        if is_written {
            write(&next, 8);
        }
        let board = dir.path().join(".objects/boards/u");
        if is_damaged {
            std::fs::write(&board, [b'?'; 100]).unwrap();
        }
        assert_removed("another one has it", dir.objects().remove_object(&stale, force));
        let there = dir.objects().object_named("u").unwrap();
        assert_eq!(there.description().id, next.description().id);
        match is_damaged {
            true => assert!(board.exists()),
            false => assert_eq!(there.newest().unwrap(), if is_written { 8 } else { 0 }),
        }
    }
}

#[test]
fn a_handle_removes_its_object_also_if_that_is_damaged() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("damaged-handle");
    let object = written(&dir, 0, 7);
    let board = dir.path().join(".objects/boards/u");
    let mut bytes = std::fs::read(&board).unwrap();
    bytes[..8].fill(b'?');
    std::fs::write(&board, bytes).unwrap();
    assert!(matches!(dir.objects().object_named("u").unwrap().newest(), Err(Error::Corrupt { .. })));
    dir.objects().remove_object(&object, false).unwrap();
    assert!(matches!(dir.objects().object_named("u"), Err(Error::NoObject { .. })));
    assert!(!board.exists());
}

/// As a restore that could put nothing into the object that it made, while another program used it.
#[test]
fn what_somebody_published_is_not_removed_as_if_nobody_had() {
    let dir = Dir::new("unwritten");
    let object = create(&dir, 3);
    object.write(ALL).attach().unwrap().detach().unwrap();
    dir.objects().remove_unwritten(&object).unwrap();
    assert!(dir.objects().list().unwrap().is_empty(), "who attached published nothing");
    let object = written(&dir, 3, 7);
    let refused = dir.objects().remove_unwritten(&object).unwrap_err();
    assert!(matches!(refused, Error::Survives { newest: 7, .. }), "{refused}");
    assert_eq!(object.newest().unwrap(), 7);
    dir.objects().remove_object(&object, false).unwrap();
}

/// A runtime that runs and says nothing, until what is returned is dropped.
fn silent_runtime(dir: &Dir) -> RuntimeLock {
    let objects = Objects::options().dir(dir.path()).as_runtime().open().unwrap();
    RuntimeLock::take(&objects).unwrap().expect("there is no other runtime")
}

/// Its home says nothing of the fragment, and never will.
#[test]
fn who_attaches_to_an_object_is_told_that_it_was_removed_meanwhile() {
    let _watchdog = watchdog(120);
    for is_anew in [false, true] {
        let dir = Dir::new("attaching");
        let object = create(&dir, 0);
        let as_runtime = || Objects::options().dir(dir.path()).as_runtime().open().unwrap();
        let _held = silent_runtime(&dir);
        std::thread::scope(|scope| {
            let attaching = scope.spawn(|| object.write(ALL).attach().map(drop));
            while object.writers().unwrap().is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
            as_runtime().remove("u", true).unwrap();
            if is_anew {
                as_runtime().create("u", "var u [8] int32").create().unwrap();
            }
            assert_removed("attached", attaching.join().unwrap());
        });
    }
}
