//! What a node has of a version that was not complete when it came, once somebody else has written the version.

use crate::common::{until, watchdog};
use crate::places::{Fault, Nodes};
use std::time::Duration;
use stillframe_object::{Error, Object, ReadFragment, WriteFragment};
use stillframe_roster::readiness::Cause;
use stillframe_wire::Message;
use stillframe_wire::data::Lost;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(50);

const LEFT: &str = "{ var v [x:4] = u[x] }";
const RIGHT: &str = "{ var v [x:4] = u[x+4] }";
const ALL: &str = "{ var v = u }";

/// What a writer publishes says who it is.
fn publish(fragment: &mut WriteFragment, who: i64, version: u64) {
    fragment.variable_mut::<i64>("v").unwrap().fill(100 * version as i64 + who);
    fragment.publish(version).unwrap();
}

/// The first number that a fragment shows, and the last one.
fn ends(fragment: &ReadFragment) -> [i64; 2] {
    let all = fragment.variable::<i64>("v").unwrap();
    [all[0], all[all.len() - 1]]
}

fn await_newest(object: &Object, version: u64) {
    until("it is complete", || object.newest().unwrap() == version);
}

/// An object of two halves on two nodes. Both are written at the first one, or the right half at the second one; both have version 2.
fn halves(nodes: &Nodes, of_right: usize) -> ([Object; 2], WriteFragment, WriteFragment) {
    let here = nodes.objects(0).create("u", "var u [8] int64").create().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let objects = [here, there];
    let mut left = objects[0].write(LEFT).attach().unwrap();
    let mut right = objects[of_right].write(RIGHT).attach().unwrap();
    for version in 1..=2 {
        publish(&mut left, 1, version);
        publish(&mut right, 2, version);
    }
    objects.iter().for_each(|object| await_newest(object, 2));
    (objects, left, right)
}

/// Who has a version by its number before it is complete, and writes it anew with the others, has what they wrote.
#[test]
fn a_version_that_is_written_anew_is_read_anew() {
    let _watchdog = watchdog(120);
    for (reads_between, of_heir) in [(false, 0), (true, 0), (false, 1)] {
        let nodes = Nodes::new("anew", 2);
        let (objects, mut left, mut right) = halves(&nodes, 1);
        let mut ghost = objects[1].read(LEFT).attach().unwrap();
        ghost.reattach(2, LONG).unwrap();
        publish(&mut left, 1, 3);
        ghost.reattach(3, LONG).unwrap();
        assert_eq!(ends(&ghost), [301, 301]);
        left.detach().unwrap();
        let mut heir = objects[of_heir].write(LEFT).wait(LONG).attach().unwrap();
        assert_eq!(heir.version(), 2);
        if reads_between {
            ghost.reattach(2, LONG).unwrap();
            assert_eq!(ends(&ghost), [201, 201]);
        }
        publish(&mut heir, 3, 3);
        publish(&mut right, 2, 3);
        await_newest(&objects[1], 3);
        let mut fresh = objects[1].read(LEFT).attach().unwrap();
        for reader in [&mut ghost, &mut fresh] {
            reader.reattach(3, LONG).unwrap();
            assert_eq!(ends(reader), [303, 303]);
        }
    }
}

/// The next version of a writer that is ahead is fetched, and the writer is gone before it is complete.
#[test]
fn what_was_fetched_of_a_writer_whose_place_another_took_is_fetched_anew() {
    let _watchdog = watchdog(120);
    for (of_heir, reads_between) in [(0, false), (1, false), (0, true)] {
        let nodes = Nodes::new("fetched", 2);
        let (objects, mut left, mut right) = halves(&nodes, 0);
        let mut ahead = objects[1].read(LEFT).prefetch().attach().unwrap();
        let mut all = objects[1].read(ALL).prefetch().attach().unwrap();
        for version in 1..=2 {
            ahead.reattach(version, LONG).unwrap();
        }
        publish(&mut left, 1, 3);
        until("the next one is fetched", || nodes.filled(1, "u") == Some(3));
        drop(left);
        let mut heir = objects[of_heir].write(LEFT).wait(LONG).attach().unwrap();
        assert_eq!(heir.version(), 2);
        if reads_between {
            // What it says of the next one holds until the heir publishes that.
            ahead.reattach(2, LONG).unwrap();
        }
        publish(&mut heir, 3, 3);
        publish(&mut right, 2, 3);
        await_newest(&objects[1], 3);
        assert_eq!(ahead.reattach_newer(2, LONG).unwrap(), 3);
        assert_eq!(all.reattach_newer(2, LONG).unwrap(), 3);
        assert_eq!((ends(&ahead), ends(&all)), ([303, 303], [303, 302]));
        // And it goes on from there.
        for version in 4..=6 {
            publish(&mut heir, 3, version);
            publish(&mut right, 2, version);
            await_newest(&objects[1], version);
            for reader in [&mut ahead, &mut all] {
                assert_eq!(reader.reattach_newer(version - 1, LONG).unwrap(), version);
            }
            let number = 100 * version as i64;
            assert_eq!((ends(&ahead), ends(&all)), ([number + 3, number + 3], [number + 3, number + 2]));
        }
    }
}

/// The writer's node is lost, and the home is not, which tells all nodes of who takes the writer's place.
#[test]
fn what_came_of_a_lost_node_is_read_anew_once_another_has_written_it() {
    let _watchdog = watchdog(120);
    let mut nodes = Nodes::new("lost", 3);
    let created =
        (0..).map(|number| nodes.objects(0).create(&format!("u{number}"), "var u [8] int64").create().unwrap());
    let here = created.into_iter().find(|object| object.description().id.get() % 6 == 0).unwrap();
    let [there, beside] = [1, 2].map(|node| nodes.objects(node).wait(here.name(), LONG).unwrap());
    let (mut left, mut right) = (there.write(LEFT).attach().unwrap(), here.write(RIGHT).attach().unwrap());
    for version in 1..=2 {
        publish(&mut left, 1, version);
        publish(&mut right, 2, version);
    }
    [&here, &there, &beside].into_iter().for_each(|object| await_newest(object, 2));
    let mut ghost = here.read(LEFT).attach().unwrap();
    publish(&mut left, 1, 3);
    ghost.reattach(3, LONG).unwrap();
    assert_eq!(ends(&ghost), [301, 301]);

    nodes.stop(1);
    nodes.lose_beside_homes(1);
    let mut heir = beside.write(LEFT).zeros().wait(LONG).attach().unwrap();
    assert_eq!(heir.version(), 2);
    publish(&mut heir, 3, 3);
    publish(&mut right, 2, 3);
    await_newest(&here, 3);
    let mut fresh = here.read(LEFT).attach().unwrap();
    for reader in [&mut ghost, &mut fresh] {
        reader.reattach(3, LONG).unwrap();
        assert_eq!(ends(reader), [303, 303]);
    }
    let mut shown = [0; 64];
    assert_eq!(here.read(ALL).attach().unwrap().fill_newest(LONG, &mut shown).unwrap(), 3);
    assert_eq!(shown[..8], 303_i64.to_le_bytes());
}

/// What came before a version was complete, of those who have a part in it, is there also when they have let go of it.
#[test]
fn a_version_that_is_complete_as_it_came_stays_there() {
    let _watchdog = watchdog(120);
    let nodes = Nodes::new("stays", 2);
    let (objects, mut left, mut right) = halves(&nodes, 0);
    let mut ahead = objects[1].read(LEFT).attach().unwrap();
    publish(&mut left, 1, 3);
    ahead.reattach(3, LONG).unwrap();
    publish(&mut right, 2, 3);
    await_newest(&objects[1], 3);
    for version in 4..=6 {
        publish(&mut left, 1, version);
        publish(&mut right, 2, version);
    }
    await_newest(&objects[1], 6);
    left.detach().unwrap();
    let _heir = objects[0].write(LEFT).wait(LONG).attach().unwrap();
    for _ in 0..3 {
        ahead.reattach(3, LONG).unwrap();
        assert_eq!(ends(&ahead), [301, 301]);
    }
}

/// A program did not read what it was told of a version that it had given up.
#[test]
fn what_was_said_of_a_version_before_it_was_asked_for_again_holds_no_more() {
    let _watchdog = watchdog(120);
    let nodes = Nodes::new("said", 2);
    let here = nodes.objects(0).create("u", "var u [8] int64").create().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut writer = here.write(ALL).attach().unwrap();
    let mut all = there.read(ALL).attach().unwrap();
    publish(&mut writer, 1, 1);
    all.reattach(1, LONG).unwrap();
    nodes.set_fault(0, 1, Fault { loses_versions: true, ..Fault::default() });
    publish(&mut writer, 1, 2);
    assert!(all.reattach(2, SHORT).unwrap_err().is_timeout());
    await_newest(&there, 2);
    let subscription = *nodes.subscriptions().last().unwrap();
    let lost = Lost { subscription, version: 2, cause: Cause::Gone, who: None };
    nodes.say(1, nodes.number(0), Some(Message::Lost(lost)), &[]);
    nodes.set_fault(0, 1, Fault::default());
    all.reattach(2, LONG).unwrap();
    assert_eq!(ends(&all), [201, 201]);
}

/// Who does not want to wait for writers has what is complete all the same: it has only to be brought.
#[test]
fn a_complete_version_is_had_without_waiting_for_writers() {
    let _watchdog = watchdog(120);
    let nodes = Nodes::new("at-once", 2);
    let here = nodes.objects(0).create("u", "var u [8] int64").create().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut writer = here.write(ALL).keep(4).attach().unwrap();
    for version in 1..=3 {
        publish(&mut writer, 1, version);
        await_newest(&there, version);
    }
    let mut all = there.read(ALL).attach().unwrap();
    for version in [2, 3, 1] {
        all.reattach(version, Duration::ZERO).unwrap();
        assert_eq!(ends(&all), [100 * version as i64 + 1; 2]);
        let mut fresh = there.read(LEFT).attach().unwrap();
        let mut out = [0; 32];
        fresh.fill(version, Duration::ZERO, &mut out).unwrap();
        assert_eq!(out[..8], (100 * version as i64 + 1).to_ne_bytes());
    }
    // What nobody has published yet is not waited for, and nobody says that the runtime does not answer.
    let mut fresh = there.read(RIGHT).attach().unwrap();
    for reader in [&mut all, &mut fresh] {
        let early = reader.reattach(4, Duration::ZERO).unwrap_err();
        assert!(matches!(early, Error::TimeoutElsewhere { version: 4, .. }), "{early}");
    }
}

/// Who asks now and then whether there is a newer version has the one that is complete, however long it takes to be brought.
#[test]
fn the_newest_version_is_had_without_waiting_for_writers() {
    let _watchdog = watchdog(120);
    let nodes = Nodes::new("polled", 2);
    let here = nodes.objects(0).create("u", "var u [8] int64").create().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut writer = here.write(ALL).attach().unwrap();
    let (mut all, mut fresh) = (there.read(ALL).attach().unwrap(), there.read(ALL).attach().unwrap());
    let early = all.reattach_newer(0, Duration::ZERO).unwrap_err();
    assert!(matches!(early, Error::NoNewer { .. }), "{early}");
    nodes.set_fault(0, 1, Fault { delay: Duration::from_millis(50), ..Fault::default() });
    for version in 1..=3 {
        publish(&mut writer, 1, version);
        await_newest(&there, version);
        assert_eq!(all.reattach_newer(version - 1, Duration::ZERO).unwrap(), version);
        assert_eq!(ends(&all), [100 * version as i64 + 1; 2]);
    }
    publish(&mut writer, 1, 4);
    await_newest(&there, 4);
    let mut out = [0; 64];
    assert_eq!(fresh.fill_newest(Duration::ZERO, &mut out).unwrap(), 4);
    assert_eq!(out[..8], 401_i64.to_ne_bytes());
}

/// What can never be filled is no runtime that may be started again.
#[test]
fn a_fragment_for_which_there_is_no_memory_is_refused_at_once() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("memory", 2);
    // Three versions of it take more than what the runtimes of these tests may.
    let here = nodes.objects(0).create("u", "var u [8388608] int64").create().unwrap();
    let mut writer = here.write(LEFT).attach().unwrap();
    publish(&mut writer, 1, 1);
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut few = there.read(LEFT).attach().unwrap();
    few.reattach(1, LONG).unwrap();
    let mut all = there.read(ALL).attach().unwrap();
    for timeout in [Duration::ZERO, Duration::from_secs(1)] {
        let refused = all.reattach(1, timeout).unwrap_err();
        let text = refused.to_string();
        assert!(matches!(refused, Error::NoMemory { .. }) && text.contains("smaller parts"), "{text}");
    }
}
