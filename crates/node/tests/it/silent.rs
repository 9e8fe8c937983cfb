//! A node of which its objects' homes hear nothing, while who keeps the names goes on to hear of it.

use crate::common::watchdog;
use crate::places::{Fault, Nodes};
use drepl::{IndexBox, IndexSet};
use std::time::{Duration, Instant};
use stillframe_node::home::{Home, Outgoing};
use stillframe_roster::message::Decision;
use stillframe_roster::runtime::{Event, Runtime};
use stillframe_roster::writer::{Node, Stage, Version, Who, Writer};
use stillframe_wire::ObjectId;

const LONG: Duration = Duration::from_secs(60);

/// Its lease never ends here. As coupled codes do, nobody publishes before the version before is complete: so nobody says anything more.
#[test]
fn a_silent_node_does_not_hold_up_for_ever_who_waits_for_each_version() {
    let _watchdog = watchdog(120);
    let nodes = Nodes::new("silent", 2);
    nodes.set_lease(Duration::from_millis(100));
    let objects = nodes.objects(0);
    let mut created = (0..).map(|number| objects.create(&format!("u{number}"), "var u [8] int32").create().unwrap());
    let object = created.find(|one| nodes.home(ObjectId(one.description().id)) == 0).unwrap();
    let mut writer = object.write("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    assert_eq!(object.wait_newer(0, LONG).unwrap(), 1, "all nodes have reported");
    for (from, to) in [(0, 1), (1, 0)] {
        nodes.set_fault(from, to, Fault { loses_all: true, ..Fault::default() });
    }
    for version in 2..=40 {
        writer.publish(version).unwrap();
        assert_eq!(object.wait_newer(version - 1, LONG).unwrap(), version);
    }
}

const LEASE: Duration = Duration::from_secs(60);
/// After how many of them nobody waits for a node any more that does not answer and is not lost.
const LEASES: u32 = 3;

const WRITER: Writer = Writer { node: Node(0), process: 1, serial: 0 };

fn node(number: u32) -> Runtime {
    let mut node = Runtime::new(Node(number), 0);
    node.follow(1);
    node
}

/// A home beside a node that writes everything, and one that only listens, both of which have reported.
fn begin() -> (Home, Runtime, Runtime) {
    let all = IndexSet::from(IndexBox::all(&[8]).unwrap());
    let mut home = Home::new(1, all.clone(), 0, [Node(0), Node(1)], LEASE);
    let (mut writing, listening) = (node(0), node(1));
    writing.declare(Who { writer: WRITER, rank: None }, Stage::member(1, all)).unwrap();
    home.receive(writing.report());
    home.receive(listening.report());
    (home, writing, listening)
}

fn hear(node: &mut Runtime, decision: Decision) {
    for event in node.hear(decision) {
        if let Event::Pin { version, .. } = event {
            node.hold(version);
        }
    }
}

/// Lets the node that writes hear what the home decides until nothing is new; the newest decision for the other one.
fn talk(home: &mut Home, writing: &mut Runtime) -> Option<Decision> {
    let mut for_other = None;
    loop {
        let outgoing = home.outgoing();
        if outgoing.is_empty() {
            return for_other;
        }
        for (node, what) in outgoing {
            match what {
                Outgoing::Decision { decision, .. } if node == Node(0) => hear(writing, decision),
                Outgoing::Decision { decision, .. } => for_other = Some(decision),
                Outgoing::Roster { .. } => {}
            }
        }
        home.receive(writing.report());
    }
}

fn publish(home: &mut Home, writing: &mut Runtime, version: Version) -> Option<Decision> {
    writing.publish(WRITER, version).unwrap();
    home.receive(writing.report());
    talk(home, writing)
}

#[test]
fn a_version_becomes_complete_by_time_alone_where_a_node_is_silent() {
    let ((mut home, mut writing, _), begin) = (self::begin(), Instant::now());
    let newest = |home: &Home| home.protocol().announced().version;
    let stuck = (1..100).find(|version| {
        publish(&mut home, &mut writing, *version);
        newest(&home) < *version
    });
    let stuck = stuck.expect("it does not go further than the other node knows");
    assert!(home.is_waiting());
    home.look(begin);
    home.look(begin + LEASE);
    talk(&mut home, &mut writing);
    assert_eq!(newest(&home), stuck - 1);
    // Nothing more is received.
    home.look(begin + LEASE * (LEASES + 1));
    talk(&mut home, &mut writing);
    assert_eq!(newest(&home), stuck);
}

/// Each version needs another ceiling, and the next version is whole before that one is acknowledged.
#[test]
fn a_node_that_answers_is_waited_for_however_long_another_answer_is_due() {
    let ((mut home, mut writing, mut slow), begin) = (self::begin(), Instant::now());
    let mut version = 0;
    let mut next = |home: &mut Home| {
        version += 1 << 21;
        publish(home, &mut writing, version)
    };
    let mut asked = next(&mut home);
    for round in 0..4 * LEASES {
        let later = next(&mut home);
        home.look(begin + LEASE * round);
        assert!(home.protocol().unacknowledged().contains(&Node(1)), "round {round}");
        if let Some(decision) = asked.take() {
            hear(&mut slow, decision);
            home.receive(slow.report());
        }
        asked = next(&mut home).or(later);
    }
    // From here on it says nothing.
    let known = slow.report().ceiling.version;
    (0..20).for_each(|_| _ = next(&mut home));
    let newest = home.protocol().announced().version;
    assert!(newest <= known, "{newest} above {known}");
}
