//! Runtimes that are started again, and know less than those before.

use crate::common::{until, watchdog};
use crate::places::Nodes;
use std::time::Duration;
use stillframe_object::{Error, Object, WriteFragment};
use stillframe_roster::writer::Node;

const LONG: Duration = Duration::from_secs(60);

const UPPER: &str = "{ var v [x:4] = u[x] }";
const LOWER: &str = "{ var v [x:4] = u[x+4] }";
const WHOLE: &str = "{ var v = u }";

/// Its machine's file system is full, say: it joins, and ends before it has reported.
#[test]
fn writers_of_a_machine_are_lost_whose_runtime_ends_before_it_has_reported() {
    let _watchdog = watchdog(240);
    let mut nodes = Nodes::new("unreported", 3);
    let objects = nodes.objects(2);
    let mut created = (0..).map(|number| objects.create(&format!("u{number}"), "var u [8] int32").create().unwrap());
    // Its home stays when the node ends.
    let object = created.find(|object| object.description().id.get().is_multiple_of(2 * 3)).unwrap();
    let mut writer = object.write("{ var v = u }").rank(5).attach().unwrap();
    let there = nodes.objects(1).wait(object.name(), LONG).unwrap();
    let mut all = there.read("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    assert_eq!(there.wait_newer(0, LONG).unwrap(), 1);
    let (former, again) = (nodes.number(2), Node(77));
    nodes.stop(2);
    nodes.forget(2);
    for at in [0, 1] {
        nodes.runtime(at).replaced(former, again);
        nodes.runtime(at).lost(again);
    }
    let error = all.reattach(1, LONG).unwrap_err();
    assert!(matches!(error, Error::Lost { .. } | Error::LostElsewhere { .. }), "{error}");
    assert!(error.to_string().contains("rank 5"), "{error}");
}

/// All runtimes end, and when they begin again one machine is another one. The half that it had in the former run nobody has; the other one
/// is there, at version 5, and its writer goes on. What the new machine `begins` with the object it does beside the other one, or alone.
fn begin_second_run<T>(
    nodes: &mut Nodes,
    is_alone: bool,
    begins: impl FnOnce(&Object) -> T,
) -> ([Object; 2], WriteFragment, T) {
    let here = nodes.objects(0).create("u", "var u [8] int32").create().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut upper = here.write(UPPER).attach().unwrap();
    let mut lower = there.write(LOWER).attach().unwrap();
    for version in 1..=5 {
        for writer in [&mut upper, &mut lower] {
            fill_and_publish(writer, 100 + version as i32, version);
        }
        assert_eq!(here.wait_newer(version - 1, LONG).unwrap(), version);
    }
    nodes.stop(0);
    nodes.stop(1);
    drop(lower);
    std::fs::remove_dir_all(nodes.dir(1)).unwrap();
    (0..2).for_each(|node| nodes.start(node));
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    if is_alone {
        nodes.stop(0);
        nodes.lose(0);
    }
    let made = begins(&there);
    if is_alone {
        nodes.start(0);
    }
    ([here, there], upper, made)
}

fn fill_and_publish(writer: &mut WriteFragment, value: i32, version: u64) {
    writer.variable_mut::<i32>("v").unwrap().fill(value);
    writer.publish(version).unwrap();
}

/// Waits for a version above another one, and makes sure that none on the way to it is half of one run and half of another.
fn read_on(object: &Object, above: u64, version: u64) {
    let mut all = object.read(WHOLE).attach().unwrap();
    let mut newest = above;
    while newest < version {
        newest = object.wait_newer(newest, LONG).unwrap();
        if all.reattach(newest, LONG).is_ok() {
            let values = all.variable::<i32>("v").unwrap();
            assert!(values.iter().all(|value| *value == values[0]), "version {newest}: {values:?}");
        }
    }
    assert_eq!(all.version(), version);
}

/// What is left of a former run fits to what a new node writes in this one, which began above it while the other one was away.
#[test]
fn no_version_is_made_of_two_runs() {
    let _watchdog = watchdog(240);
    let mut nodes = Nodes::new("runs", 2);
    let attach = |there: &Object| there.write(LOWER).zeros().attach().unwrap();
    let ([here, there], mut upper, mut lower) = begin_second_run(&mut nodes, true, attach);
    let all = there.read(WHOLE).attach().unwrap();
    assert_eq!(lower.version(), 5);
    fill_and_publish(&mut lower, 6, 6);
    for mut reader in [all, here.read(WHOLE).attach().unwrap(), here.read(LOWER).attach().unwrap()] {
        let read = reader.reattach(5, LONG);
        assert!(matches!(read, Err(Error::Lost { .. } | Error::LostElsewhere { .. })), "{read:?}");
    }
    // The half that is left is of the former run, as its number is.
    let mut left = there.read(UPPER).attach().unwrap();
    left.reattach(5, LONG).unwrap();
    assert_eq!(left.variable::<i32>("v").unwrap(), [105; 4]);
    fill_and_publish(&mut upper, 6, 6);
    read_on(&there, 5, 6);
}

/// What was complete in a former run is so still for programs on the machine that remembers it: nobody else gets its numbers.
#[test]
fn numbers_that_were_complete_in_a_former_run_are_given_to_nobody() {
    let _watchdog = watchdog(240);
    let mut nodes = Nodes::new("former", 2);
    let ([here, there], mut upper, ()) = begin_second_run(&mut nodes, false, |_| ());
    // Programs of the new one would be given zeros.
    assert_eq!(there.newest().unwrap(), 5);
    let mut reader = there.read(WHOLE).attach().unwrap();
    let read = reader.fill_newest(LONG, &mut [0; 32]);
    assert!(matches!(read, Err(Error::Lost { version: 5, .. } | Error::LostElsewhere { version: 5, .. })), "{read:?}");
    let refused = there.write(LOWER).attach();
    assert!(matches!(refused, Err(Error::ContentLost { version: 5, .. })), "{refused:?}");
    // Whoever goes on without what is lost begins above it.
    let mut lower = there.write(LOWER).zeros().attach().unwrap();
    assert_eq!(lower.version(), 5);
    fill_and_publish(&mut lower, 6, 6);
    fill_and_publish(&mut upper, 6, 6);
    [here, there].iter().for_each(|object| read_on(object, 5, 6));
}

/// One runtime of several is started again: the run goes on, and older versions of all nodes can still be read by their numbers.
#[test]
fn older_versions_are_read_after_one_runtime_was_started_again() {
    let _watchdog = watchdog(240);
    let mut nodes = Nodes::new("older", 2);
    for again in 0..2 {
        let name = format!("u{again}");
        let here = nodes.objects(0).create(&name, "var u [8] int32").create().unwrap();
        let there = nodes.objects(1).wait(&name, LONG).unwrap();
        let mut upper = here.write("{ var v [x:4] = u[x] }").keep(5).attach().unwrap();
        let mut lower = there.write("{ var v [x:4] = u[x+4] }").keep(5).attach().unwrap();
        for version in 1..=5 {
            for writer in [&mut upper, &mut lower] {
                writer.variable_mut::<i32>("v").unwrap().fill(100 + version as i32);
                writer.publish(version).unwrap();
            }
            assert_eq!(here.wait_newer(version - 1, LONG).unwrap(), version);
        }
        nodes.stop(again);
        nodes.start(again);
        for object in [&here, &there] {
            let mut reader = object.read("{ var v = u }").attach().unwrap();
            for version in [4, 5] {
                reader.reattach(version, LONG).unwrap();
                assert_eq!(reader.variable::<i32>("v").unwrap(), [100 + version as i32; 8]);
            }
        }
    }
}

/// They detached in order, long after the runtime was started again: nobody has lost anything.
#[test]
fn writers_that_left_are_not_lost_with_a_machine_whose_runtime_was_started_again() {
    let _watchdog = watchdog(240);
    let mut nodes = Nodes::new("left", 3);
    let objects = nodes.objects(0);
    let mut created = (0..).map(|number| objects.create(&format!("u{number}"), "var u [8] int32").create().unwrap());
    // Its home stays when the node ends.
    let object = created.find(|object| object.description().id.get().is_multiple_of(2 * 3)).unwrap();
    let elsewhere = nodes.objects(2).wait(object.name(), LONG).unwrap();
    let there = nodes.objects(1).wait(object.name(), LONG).unwrap();
    let mut upper = object.write("{ var v [x:4] = u[x] }").attach().unwrap();
    let mut lower = elsewhere.write("{ var v [x:4] = u[x+4] }").rank(5).attach().unwrap();
    let mut all = there.read("{ var v = u }").attach().unwrap();
    nodes.stop(2);
    nodes.start(2);
    for version in 1..=2 {
        lower.publish(version).unwrap();
        upper.publish(version).unwrap();
        all.reattach(version, LONG).unwrap();
    }
    lower.detach().unwrap();
    upper.publish(3).unwrap();
    let mut waits_for = |what: &str| {
        until(what, || {
            let waiting = all.reattach(3, Duration::from_millis(50)).unwrap_err();
            assert!(waiting.is_timeout(), "{waiting}");
            waiting.to_string().contains(what)
        });
    };
    waits_for("nobody has attached");
    nodes.stop(2);
    nodes.lose_beside_homes(2);
    waits_for("nobody has attached");
}

fn write_all(object: &Object, writer: &mut WriteFragment, version: u64) {
    writer.variable_mut::<i32>("v").unwrap().fill(100 + version as i32);
    writer.publish(version).unwrap();
    until("it is complete", || object.newest().unwrap() == version);
}

/// All of an object is written on the node that is its home. Before its runtime leaves it tells the others how far it came, so that the next
/// home knows which version is the newest complete one, and nobody leaves out a number.
#[test]
fn the_newest_version_stays_when_the_runtime_of_its_home_leaves_in_order() {
    let _watchdog = watchdog(240);
    let mut nodes = Nodes::new("home-leaves", 3);
    let objects = nodes.objects(2);
    let mut created = (0..).map(|number| objects.create(&format!("u{number}"), "var u [8] int32").create().unwrap());
    let object = created.find(|object| object.description().id.get() % 3 == 2).unwrap();
    let all = [0, 1, 2].map(|at| nodes.objects(at).wait(object.name(), LONG).unwrap());
    let mut writer = object.write("{ var v = u }").keep(5).attach().unwrap();
    (1..=5).for_each(|version| write_all(&object, &mut writer, version));
    all.iter().for_each(|object| until("all know of it", || object.newest().unwrap() == 5));
    nodes.runtime(2).retire(LONG);
    nodes.stop(2);
    nodes.lose(2);
    all.iter().for_each(|object| assert_eq!(object.newest().unwrap(), 5));
    nodes.start(2);
    for version in 6..=7 {
        write_all(&object, &mut writer, version);
        for object in &all {
            until("all know of it", || object.newest().unwrap() == version);
            let mut reader = object.read("{ var v = u }").attach().unwrap();
            reader.reattach(version, LONG).unwrap();
            assert_eq!(reader.variable::<i32>("v").unwrap(), [100 + version as i32; 8]);
        }
    }
}
