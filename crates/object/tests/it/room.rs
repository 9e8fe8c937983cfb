//! Writers that have no room let the newest complete version go last. Then it is lost, and nobody is given zeros for it or begins below it.

use crate::helper;

use crate::common::{Dir, watchdog};
use crate::helper::{Helper, say, start};
use std::path::Path;
use std::time::Duration;
use stillframe::{Observer, Outcome};
use stillframe_object::{Error, Object, Objects, WriteFragment, WriteOptions};

const LONG: Duration = Duration::from_secs(60);

/// Cells of each half: several pages.
const HALF: usize = 16 << 10;

/// Room for two versions of a half, and not for three.
const BOUND: u64 = (HALF * 8 * 5 / 2) as u64;

fn opened(dir: &Path) -> Object {
    let objects = Objects::options().dir(dir).open().unwrap();
    objects.create("u", "var u [32768] float64").create().unwrap()
}

fn left(object: &Object) -> WriteOptions {
    object.write("{ var v [x:16384] = u[x] }")
}

fn right(object: &Object) -> WriteOptions {
    object.write("{ var v [x:16384] = u[x+16384] }")
}

fn publish(fragment: &mut WriteFragment, version: u64) -> Outcome {
    fragment.variable_mut::<f64>("v").unwrap().fill(version as f64);
    fragment.publish(version).unwrap().outcome
}

fn publish_all(fragment: &mut WriteFragment, versions: impl IntoIterator<Item = u64>) {
    for version in versions {
        assert_eq!(publish(fragment, version), Outcome::Published, "version {version}");
    }
}

/// The newest complete version has gone: it is still the newest, and nobody is given anything for it.
fn expect_lost(object: &Object, newest: u64) {
    assert_eq!(object.newest().unwrap(), newest);
    let mut all = object.read("{ var v = u }").attach().unwrap();
    let mut out = vec![9; 2 * HALF * 8];
    let error = all.fill_newest(Duration::ZERO, &mut out).unwrap_err();
    assert!(matches!(error, Error::Lost { version, .. } if version == newest), "{error}");
    assert!(out.iter().all(|byte| *byte == 9), "nothing is given for data");
    let error = object.wait_newer(newest, Duration::ZERO).unwrap_err();
    assert!(matches!(error, Error::NoNewer { .. }), "{error}");
}

/// The newest complete version, which has to be one that can be read, and of which a reader is given the numbers.
fn read_newest(object: &Object) -> u64 {
    let mut all = object.read("{ var v = u }").attach().unwrap();
    let mut out = vec![0; 2 * HALF * 8];
    let read = all.fill_newest(LONG, &mut out).unwrap();
    let newest = object.newest().unwrap();
    all.reattach(newest, LONG).unwrap();
    let shown = all.variable::<f64>("v").unwrap();
    assert!(shown.iter().all(|value| *value == newest as f64), "{newest}: {:?}", object.writers());
    assert!(out.chunks(8).all(|value| value == (read as f64).to_ne_bytes()), "{read}: {:?}", object.writers());
    assert_eq!(read, newest);
    newest
}

/// Attaches the right half, publishes three versions, and does nothing more.
fn slow(arguments: &[String]) {
    let mut fragment = right(&opened(Path::new(&arguments[0]))).attach().unwrap();
    publish_all(&mut fragment, 1..=3);
    say("published");
    helper::wait_for_word();
}

#[test]
fn helper_process() {
    helper::enter(&[("slow", slow)]);
}

fn start_slow(dir: &Dir) -> Helper {
    let mut helper = start("slow", &[dir.path().to_str().unwrap()]);
    helper.expect("published");
    helper
}

#[test]
fn a_writer_at_its_bound_goes_on_and_nobody_is_given_zeros() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("bound");
    let object = opened(dir.path());
    let (mut a, mut b) = (left(&object).bound_bytes(BOUND).attach().unwrap(), right(&object).attach().unwrap());
    for version in 1..=3 {
        publish_all(&mut a, [version]);
        publish_all(&mut b, [version]);
    }
    assert_eq!(read_newest(&object), 3);
    publish_all(&mut a, 4..=8);
    expect_lost(&object, 3);
    // Who opens it later knows as much.
    expect_lost(&Objects::options().dir(dir.path()).open().unwrap().object_named("u").unwrap(), 3);
    publish_all(&mut b, 4..=8);
    assert_eq!(read_newest(&object), 8);
}

#[test]
fn with_all_slots_taken_nobody_is_given_zeros() {
    let _watchdog = watchdog(240);
    let dir = Dir::new("slots");
    let object = opened(dir.path());
    let (mut a, mut b) = (left(&object).attach().unwrap(), right(&object).attach().unwrap());
    let observer = Observer::options().dir(dir.path()).open("objects/u/0").unwrap();
    let mut held = Vec::new();
    for version in 1..=63 {
        publish_all(&mut a, [version]);
        publish_all(&mut b, [version]);
        held.push(observer.version(version).unwrap());
    }
    // That which is complete is nobody's.
    held.pop();
    publish_all(&mut a, 64..=66);
    expect_lost(&object, 63);
    publish_all(&mut b, 64..=66);
    assert_eq!(read_newest(&object), 66);
}

#[test]
fn who_takes_the_place_of_a_dead_writer_goes_on_from_what_was_complete() {
    let _watchdog = watchdog(240);
    let dir = Dir::new("dead");
    let object = opened(dir.path());
    let mut a = left(&object).bound_bytes(BOUND).attach().unwrap();
    let mut b = start_slow(&dir);
    publish_all(&mut a, 1..=6);
    b.kill();
    expect_lost(&object, 3);
    // The dead one's own part is still there.
    let mut heir = right(&object).bound_bytes(BOUND).attach().unwrap();
    assert_eq!(heir.version(), 3);
    assert!(heir.variable_mut::<f64>("v").unwrap().iter().all(|value| *value == 3.0), "it begins with its content");
    publish_all(&mut heir, 4..=6);
    assert_eq!(read_newest(&object), 6);
}

#[test]
fn nobody_begins_below_a_complete_version_of_which_nothing_is_left() {
    let _watchdog = watchdog(240);
    let dir = Dir::new("lapsed");
    let object = opened(dir.path());
    let attach = |options: WriteOptions| options.bound_bytes(BOUND).wait(Duration::ZERO).attach();
    let (mut a, mut b) = (attach(left(&object)).unwrap(), attach(right(&object)).unwrap());
    for version in 1..=3 {
        publish_all(&mut a, [version]);
        publish_all(&mut b, [version]);
    }
    // Each leaves out what the other has.
    publish_all(&mut a, [4, 6, 8]);
    publish_all(&mut b, [5, 7, 9]);
    expect_lost(&object, 3);
    a.detach().unwrap();
    b.detach().unwrap();
    for (options, elements) in [(left(&object), "u[0"), (right(&object), "u[16384")] {
        let error = attach(options).map(drop).unwrap_err();
        assert!(matches!(error, Error::ContentLost { version: 3, .. }), "{elements}: {error}");
    }
    let (mut a, mut b) = (attach(left(&object).zeros()).unwrap(), attach(right(&object).zeros()).unwrap());
    assert_eq!((a.version(), b.version()), (3, 3), "what was complete is written by nobody again");
    publish_all(&mut a, [4]);
    publish_all(&mut b, [4]);
    assert_eq!(read_newest(&object), 4);
}
