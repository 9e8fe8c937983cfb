//! What still comes of a version that was asked for, when it is asked for anew.

use crate::common::{until, watchdog};
use crate::places::{Fault, Nodes};
use std::time::Duration;
use stillframe_object::{Object, WriteFragment};
use stillframe_roster::readiness::Cause;
use stillframe_wire::data::Lost;
use stillframe_wire::{Message, ObjectId};

const LONG: Duration = Duration::from_secs(60);

/// Everything waits on its way.
const HELD: Fault = Fault {
    holds: true,
    delay: Duration::ZERO,
    reading: Duration::ZERO,
    cuts_reading: false,
    loses_versions: false,
    stalls_versions: false,
    loses_rosters: false,
    loses_pins_of: 0,
    loses_all: false,
};

/// Numbers of a row: more than what is sent along, though it did not change.
const ROW: usize = 32 << 10;
const ROW_BYTES: u64 = 8 * ROW as u64;

const UPPER: &str = "{ var v [x:2,y:n] = u[x,y] }";
const LOWER: &str = "{ var v [x:2,y:n] = u[x+2,y] }";
const ALL: &str = "{ var v = u }";

/// An object of four rows whose home is at node 1, at each node.
fn create(nodes: &Nodes, count: usize) -> Vec<Object> {
    for attempt in 0..200 {
        let name = format!("u{attempt}");
        let object = nodes.objects(0).create(&name, "var u [4,n] int64").bind("n", ROW as i64).create().unwrap();
        if nodes.home(ObjectId(object.description().id)) == 1 {
            let others = (1..count).map(|node| nodes.objects(node).wait(&name, LONG).unwrap());
            return [object].into_iter().chain(others).collect();
        }
    }
    panic!("no object has its home there")
}

/// Publishes a version whose first row is of that number; the other one stays as it is.
fn publish(fragment: &mut WriteFragment, version: u64) {
    fragment.variable_mut::<i64>("v").unwrap()[..ROW].fill(version as i64);
    fragment.publish(version).unwrap();
}

/// The first number of each row, if all of a row are the same.
fn rows(all: &[i64]) -> Vec<i64> {
    let row = |row: &[i64]| {
        assert!(row.iter().all(|number| *number == row[0]), "a row is mixed");
        row[0]
    };
    all.chunks_exact(ROW).map(row).collect()
}

/// Waits until so many subscriptions have been sent by all nodes.
fn wait_asked(nodes: &Nodes, count: usize) {
    until("it is asked for", || nodes.subscriptions().len() >= count);
}

/// A program asks for a version while it is still to come that one of those who wrote the one before writes it no more. One who does has
/// begun to send what changed since then.
#[test]
fn a_version_whose_writers_changed_comes_whole() {
    let _watchdog = watchdog(120);
    let nodes = Nodes::new("changed", 3);
    let objects = create(&nodes, 3);
    let mut upper = objects[0].write(UPPER).attach().unwrap();
    let mut former = objects[1].write(LOWER).attach().unwrap();
    let mut all = objects[2].read(ALL).attach().unwrap();
    let mut other = objects[2].read(ALL).attach().unwrap();
    for version in 1..=2 {
        publish(&mut upper, version);
        publish(&mut former, version);
        all.reattach(version, LONG).unwrap();
    }
    former.detach().unwrap();
    let mut heir = objects[1].write(LOWER).wait(LONG).attach().unwrap();
    publish(&mut heir, 3);
    nodes.set_fault(0, 2, HELD);
    let (asked, sent_bytes) = (nodes.subscriptions().len(), nodes.sent_bytes());
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| all.reattach(3, LONG));
        wait_asked(&nodes, asked + 2);
        publish(&mut upper, 3);
        until("what changed is sent", || nodes.sent_bytes() >= sent_bytes + ROW_BYTES);
        // The home says whose elements they are, and they are asked.
        wait_asked(&nodes, asked + 4);
        let reading_too = scope.spawn(|| other.reattach(3, LONG));
        nodes.set_fault(0, 2, Fault::default());
        reading.join().unwrap().unwrap();
        reading_too.join().unwrap().unwrap();
    });
    assert_eq!(rows(all.variable("v").unwrap()), [3, 0, 3, 0]);
    assert_eq!(rows(other.variable("v").unwrap()), [3, 0, 3, 0]);
}

/// The node of one writer says that it does not have the version, while another one has begun to send what changed in its elements. Then
/// the version is there all the same.
#[test]
fn a_version_that_was_lost_on_its_way_comes_whole() {
    let _watchdog = watchdog(120);
    let nodes = Nodes::new("lost", 3);
    let objects = create(&nodes, 3);
    let mut upper = objects[0].write(UPPER).attach().unwrap();
    let mut lower = objects[1].write(LOWER).attach().unwrap();
    let mut all = objects[2].read(ALL).attach().unwrap();
    for version in 1..=2 {
        publish(&mut upper, version);
        publish(&mut lower, version);
        all.reattach(version, LONG).unwrap();
    }
    nodes.set_fault(0, 2, HELD);
    let (asked, sent_bytes) = (nodes.subscriptions().len(), nodes.sent_bytes());
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| all.reattach(3, LONG));
        wait_asked(&nodes, asked + 2);
        publish(&mut upper, 3);
        until("what changed is sent", || nodes.sent_bytes() >= sent_bytes + ROW_BYTES);
        let subscription = nodes.subscriptions()[asked];
        let lost = Lost { subscription, version: 3, cause: Cause::Gone, who: None };
        nodes.say(2, nodes.number(1), Some(Message::Lost(lost)), &[]);
        publish(&mut lower, 3);
        wait_asked(&nodes, asked + 4);
        nodes.set_fault(0, 2, Fault::default());
        reading.join().unwrap().unwrap();
    });
    assert_eq!(rows(all.variable("v").unwrap()), [3, 0, 3, 0]);
}
