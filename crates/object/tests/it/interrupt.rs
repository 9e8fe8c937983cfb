//! Waits that a program ends early.

use crate::common::{Dir, watchdog};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stillframe_object::runtime::{LOCK, SOCKET};
use stillframe_object::{Error, Object, Objects};

const LONG: Duration = Duration::from_secs(600);

/// An object whose waits end as soon as something was waited for.
fn object(dir: &Dir) -> (Object, Arc<AtomicBool>) {
    let asked = Arc::new(AtomicBool::new(false));
    let note = asked.clone();
    let options = Objects::options().dir(dir.path()).interrupt(move || {
        note.store(true, Ordering::Relaxed);
        true
    });
    let object = options.open().unwrap().create("grid", "var u [8] float64").create().unwrap();
    (object, asked)
}

#[test]
fn every_wait_ends_when_it_is_interrupted() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("interrupt");
    let (object, asked) = object(&dir);
    let first = object.write("{ var u [x:4] = u[x] }").attach().unwrap();
    let mut all = object.read("{ var u = u }").attach().unwrap();
    assert!(!asked.load(Ordering::Relaxed), "nothing was waited for");

    let waits = [
        all.reattach(1, LONG),
        all.reattach_newer(0, LONG).map(drop),
        object.wait_newer(0, LONG).map(drop),
        object.wait_for(1, LONG),
        // Version 7 was never published, and the elements are free.
        object.write("{ var u [x:4] = u[x+4] }").version(7).wait(LONG).attach().map(drop),
        // The first writer does not go.
        object.write("{ var u [x:2] = u[x+1] }").version(7).wait(LONG).attach().map(drop),
    ];
    for (number, outcome) in waits.into_iter().enumerate() {
        assert!(matches!(outcome, Err(Error::Interrupted { .. })), "wait {number}: {outcome:?}");
    }
    drop(first);
}

/// A runtime that is stopped takes up whoever connects, and answers nobody.
#[test]
fn who_creates_or_removes_objects_waits_for_a_stopped_runtime_until_he_is_interrupted() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("interrupt-names");
    dir.objects().create("there", "var u [8] float64").create().unwrap();
    let own = dir.path().join(".objects");
    std::fs::write(own.join(LOCK), "").unwrap();
    let _listener = UnixListener::bind(own.join(SOCKET)).unwrap();
    for attempt in 0..3 {
        let objects = Objects::options().dir(dir.path()).interrupt(|| true).open().unwrap();
        let outcome = match attempt {
            0 => objects.create("new", "var u [8] float64").create().map(drop),
            1 => objects.remove("there", false),
            _ => Objects::options().dir(dir.path()).interrupt(|| true).look().unwrap().unwrap().remove("there", true),
        };
        assert!(matches!(outcome, Err(Error::Interrupted { .. })), "{attempt}: {outcome:?}");
    }
}
