//! Readers are told as soon as what they want is there, whatever else their home hears and decides at the same time.

use drepl::{IndexBox, IndexSet, Progression};
use stillframe_roster::{
    home::Home,
    readiness::Readiness,
    runtime::{Event, Runtime},
    writer::{Node, Stage, Who, Writer},
};

fn who(node: u32) -> Who {
    Who { writer: Writer { node: Node(node), process: node, serial: 0 }, rank: None }
}

fn range(start: u64, end: u64) -> IndexSet {
    IndexBox::new([Progression::range(start, end).unwrap()]).unwrap().into()
}

/// A node with a writer of five elements.
fn node(number: u32) -> Runtime {
    let mut runtime = Runtime::new(Node(number), 0);
    runtime.follow(1);
    let start = u64::from(number) * 5;
    runtime.declare(who(number), Stage::member(1, range(start, start + 5))).unwrap();
    runtime
}

/// Lets a node hear what the home decided, and pin what it is to pin.
fn hear(runtime: &mut Runtime, home: &Home) -> Vec<Event> {
    let events = runtime.hear(home.decision(runtime.node()).unwrap().clone());
    for event in &events {
        if let Event::Pin { version, .. } = event {
            runtime.hold(*version);
        }
    }
    events
}

#[test]
fn who_begins_to_wait_as_a_version_is_announced_is_told_when_another_node_publishes_the_next() {
    let mut nodes = [node(0), node(1), node(2)];
    let mut home = Home::new(1, IndexBox::all(&[15]).unwrap(), 0, [0, 1, 2].map(Node));
    for number in 0..3 {
        nodes[number as usize].publish(who(number).writer, 1).unwrap();
    }
    nodes.iter().for_each(|node| _ = home.receive(node.report()));
    nodes.iter_mut().for_each(|node| _ = hear(node, &home));
    [1, 2].into_iter().for_each(|number| _ = home.receive(nodes[number].report()));
    assert_eq!(home.announced().version, 0, "node 0 has still to pin it");
    nodes[0].publish(who(0).writer, 2).unwrap();
    nodes[0].want(7, 2, range(3, 8));
    assert!(home.receive(nodes[0].report()).contains(&Node(0)));
    assert_eq!(home.announced().version, 1);

    // Node 2 does not: nothing is proposed that all would hear of.
    nodes[1].publish(who(1).writer, 2).unwrap();
    assert!(home.receive(nodes[1].report()).contains(&Node(0)), "something is new for the reader");
    let events = hear(&mut nodes[0], &home);
    let is_ready = |event: &Event| matches!(event, Event::Answer { reader: 7, readiness: Readiness::Ready(shares) } if shares.len() == 2);
    assert!(events.iter().any(is_ready), "{events:?}");
}
