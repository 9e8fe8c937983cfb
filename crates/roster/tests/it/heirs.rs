//! Who takes the place of a writer that died goes on from the newest complete version, whatever the dead one had published above it.

use drepl::{IndexBox, IndexSet, Progression};
use stillframe_roster::{
    home::Home,
    readiness::{Cause, Readiness},
    refusal::Refusal,
    runtime::{Event, Runtime},
    writer::{Node, Role, Stage, Version, Who, Writer},
};

const WHOLE: u64 = 8;

fn who(node: u32, process: u32) -> Who {
    Who { writer: Writer { node: Node(node), process, serial: 0 }, rank: None }
}

fn range(start: u64, end: u64) -> IndexSet {
    IndexBox::new([Progression::range(start, end).unwrap()]).unwrap().into()
}

fn node(number: u32, revision: u64) -> Runtime {
    let mut node = Runtime::new(Node(number), 0);
    node.follow(revision);
    node
}

fn home(revision: u64, nodes: impl IntoIterator<Item = u32>) -> Home {
    Home::new(revision, range(0, WHOLE), 0, nodes.into_iter().map(Node))
}

/// Lets nodes and home hear each other until nothing is new; what nodes are told beside that.
fn exchange(home: &mut Home, nodes: &mut [&mut Runtime]) -> Vec<Event> {
    let mut events = Vec::new();
    for _ in 0..6 {
        nodes.iter().for_each(|node| _ = home.receive(node.report()));
        for node in &mut *nodes {
            let Some(decision) = home.decision(node.node()).cloned() else { continue };
            for event in node.hear(decision) {
                match event {
                    Event::Pin { version, .. } => _ = node.hold(version),
                    Event::Refused { .. } | Event::Ended { .. } => events.push(event),
                    _ => {}
                }
            }
        }
    }
    events
}

fn publish(node: &mut Runtime, writer: Who, versions: impl IntoIterator<Item = Version>) {
    versions.into_iter().for_each(|version| node.publish(writer.writer, version).unwrap());
}

fn writer_of(home: &Home, version: Version) -> Writer {
    let readiness = home.ledger().readiness(version, &range(0, 4)).unwrap();
    let Readiness::Ready(shares) = readiness else { panic!("version {version}: {readiness:?}") };
    shares[0].who.unwrap().writer
}

fn refusals(events: &[Event]) -> Vec<&Refusal> {
    let mut refusals = Vec::new();
    for event in events {
        if let Event::Refused { refusal, .. } = event {
            refusals.push(refusal);
        }
    }
    refusals
}

/// Two nodes with a writer each, of which the first is far ahead and dies.
fn ahead(home: &mut Home) -> (Runtime, Runtime) {
    let (mut here, mut there) = (node(0, 1), node(1, 1));
    here.declare(who(0, 5), Stage::member(1, range(0, 4))).unwrap();
    there.declare(who(1, 1), Stage::member(1, range(4, WHOLE))).unwrap();
    exchange(home, &mut [&mut here, &mut there]);
    publish(&mut here, who(0, 5), 1..=5);
    publish(&mut there, who(1, 1), 1..=2);
    exchange(home, &mut [&mut here, &mut there]);
    assert_eq!(home.announced().version, 2);
    here.die(who(0, 5).writer);
    (here, there)
}

#[test]
fn an_heir_has_the_elements_from_the_version_after_the_complete_one_on() {
    for heirs_process in [1, 9] {
        let mut home = home(1, 0..2);
        let (mut here, mut there) = ahead(&mut home);
        let heir = who(0, heirs_process);
        here.declare(heir, Stage::member(3, range(0, 4))).unwrap();
        let events = exchange(&mut home, &mut [&mut here, &mut there]);
        assert_eq!(events, [Event::Ended { writer: who(0, 5).writer, from: 3 }], "process {heirs_process}");
        publish(&mut there, who(1, 1), 3..=4);
        exchange(&mut home, &mut [&mut here, &mut there]);
        assert_eq!(home.announced().version, 2, "what the dead one published counts for nothing");
        publish(&mut here, heir, 3..=4);
        exchange(&mut home, &mut [&mut here, &mut there]);
        assert_eq!((home.announced().version, writer_of(&home, 4)), (4, heir.writer));
        let dead = here.record(who(0, 5).writer);
        assert!(dead.is_none_or(|dead| !dead.published.present.contains(&5)), "{dead:?}");
    }
}

#[test]
fn an_heir_on_another_node_has_them_too_and_the_dead_ones_node_is_told() {
    let mut home = home(1, 0..2);
    let (mut here, mut there) = ahead(&mut home);
    exchange(&mut home, &mut [&mut here, &mut there]);
    there.declare(who(1, 2), Stage::member(3, range(0, 4))).unwrap();
    let events = exchange(&mut home, &mut [&mut here, &mut there]);
    assert_eq!(events, [Event::Ended { writer: who(0, 5).writer, from: 3 }]);
    let dead = here.record(who(0, 5).writer).unwrap();
    assert!(matches!(dead.stages[..], [_, Stage { from: 3, role: Role::Died { .. } }]), "{dead:?}");
    assert_eq!(dead.published.present, [1, 2].into());
    publish(&mut there, who(1, 1), [3]);
    publish(&mut there, who(1, 2), [3]);
    exchange(&mut home, &mut [&mut here, &mut there]);
    assert_eq!((home.announced().version, writer_of(&home, 3)), (3, who(1, 2).writer));
}

#[test]
fn an_heir_of_a_lost_nodes_writer_goes_on_too() {
    let mut home = home(1, 0..2);
    let (_, mut there) = ahead(&mut home);
    home.lose(Node(0));
    there.declare(who(1, 2), Stage::member(3, range(0, 4))).unwrap();
    assert_eq!(exchange(&mut home, &mut [&mut there]), []);
    publish(&mut there, who(1, 1), [3]);
    publish(&mut there, who(1, 2), [3]);
    exchange(&mut home, &mut [&mut there]);
    assert_eq!((home.announced().version, writer_of(&home, 3)), (3, who(1, 2).writer));
}

#[test]
fn a_version_that_is_whole_and_not_proposed_yet_is_not_taken_from_the_dead_one() {
    let mut home = home(1, 0..2);
    let (mut here, mut there) = (node(0, 1), node(1, 1));
    let (dying, other) = (who(0, 5), who(0, 6));
    here.declare(dying, Stage::member(1, range(0, 4))).unwrap();
    here.declare(other, Stage::member(1, range(4, WHOLE))).unwrap();
    exchange(&mut home, &mut [&mut here, &mut there]);
    // The node has not pinned version 1 by the time when version 2 is whole.
    for version in 1..=2 {
        [dying, other].into_iter().for_each(|writer| publish(&mut here, writer, [version]));
        home.receive(here.report());
    }
    here.die(dying.writer);
    home.receive(here.report());
    there.declare(who(1, 1), Stage::member(2, range(0, 4))).unwrap();
    home.receive(there.report());
    let events = exchange(&mut home, &mut [&mut here, &mut there]);
    assert!(matches!(refusals(&events)[..], [Refusal::Late { from: 2, settled: 2 }]), "{events:?}");
    assert_eq!(home.announced().version, 2);
}

#[test]
fn a_version_that_is_proposed_is_not_taken_from_the_dead_one() {
    let mut home = home(1, 0..2);
    let (mut here, mut there) = ahead(&mut home);
    publish(&mut there, who(1, 1), [3]);
    home.receive(here.report());
    home.receive(there.report());
    assert_eq!(home.proposed().unwrap().version, 3);
    here.declare(who(0, 9), Stage::member(3, range(0, 4))).unwrap();
    let events = exchange(&mut home, &mut [&mut here, &mut there]);
    assert!(matches!(refusals(&events)[..], [Refusal::Late { from: 3, settled: 3 }]), "{events:?}");
    assert_eq!((home.announced().version, writer_of(&home, 3)), (3, who(0, 5).writer));
    here.declare(who(0, 10), Stage::member(4, range(0, 4))).unwrap();
    let events = exchange(&mut home, &mut [&mut here, &mut there]);
    assert_eq!(events, [Event::Ended { writer: who(0, 5).writer, from: 4 }]);
}

#[test]
fn a_version_that_was_proposed_and_given_up_may_be_taken() {
    let mut home = home(1, 0..2);
    let (mut here, mut there) = ahead(&mut home);
    publish(&mut there, who(1, 1), [3]);
    home.receive(here.report());
    home.receive(there.report());
    assert_eq!(home.proposed().unwrap().version, 3);
    there.drop(who(1, 1).writer, 3);
    exchange(&mut home, &mut [&mut here, &mut there]);
    assert_eq!((home.proposed(), home.announced().version), (None, 2));
    here.declare(who(0, 9), Stage::member(3, range(0, 4))).unwrap();
    let events = exchange(&mut home, &mut [&mut here, &mut there]);
    assert_eq!(events, [Event::Ended { writer: who(0, 5).writer, from: 3 }]);
}

#[test]
fn a_new_home_knows_whose_elements_they_are_though_the_dead_ones_node_has_not_heard() {
    for (dead, heirs) in [(0, 1), (1, 0)] {
        let mut old = home(1, 0..2);
        let (mut a, mut b) = (node(0, 1), node(1, 1));
        let nodes = &mut [&mut a, &mut b];
        nodes[dead].declare(who(dead as u32, 5), Stage::member(1, range(0, 4))).unwrap();
        nodes[heirs].declare(who(heirs as u32, 1), Stage::member(1, range(4, WHOLE))).unwrap();
        exchange(&mut old, nodes);
        publish(nodes[dead], who(dead as u32, 5), 1..=5);
        publish(nodes[heirs], who(heirs as u32, 1), 1..=2);
        nodes[dead].die(who(dead as u32, 5).writer);
        exchange(&mut old, nodes);
        let heir = who(heirs as u32, 2);
        nodes[heirs].declare(heir, Stage::member(3, range(0, 4))).unwrap();
        old.receive(nodes[heirs].report());
        let accepted = nodes[heirs].hear(old.decision(Node(heirs as u32)).unwrap().clone());
        assert_eq!(refusals(&accepted), [&Refusal::Unknown; 0]);
        publish(nodes[heirs], who(heirs as u32, 1), [3]);
        publish(nodes[heirs], heir, [3]);
        old.receive(nodes[heirs].report());
        assert_eq!(old.proposed().unwrap().version, 3);
        nodes[heirs].hear(old.decision(Node(heirs as u32)).unwrap().clone());
        nodes[heirs].hold(3);

        let mut new = home(2, 0..2);
        nodes.iter_mut().for_each(|node| node.follow(2));
        let events = exchange(&mut new, nodes);
        assert_eq!(events, [Event::Ended { writer: who(dead as u32, 5).writer, from: 3 }], "dead on {dead}");
        assert_eq!((new.announced().version, writer_of(&new, 3)), (3, heir.writer));
    }
}

#[test]
fn what_a_dead_one_had_of_a_complete_version_stays_where_an_heir_was_refused_and_does_not_know() {
    let mut old = home(1, 0..2);
    let (mut here, mut there) = ahead(&mut old);
    publish(&mut there, who(1, 1), [3]);
    exchange(&mut old, &mut [&mut here, &mut there]);
    assert_eq!(old.announced().version, 3);
    here.declare(who(0, 9), Stage::member(3, range(0, 4))).unwrap_or(());
    let mut new = home(2, 0..2);
    [&mut here, &mut there].into_iter().for_each(|node| node.follow(2));
    let events = exchange(&mut new, &mut [&mut here, &mut there]);
    assert!(matches!(refusals(&events)[..], [Refusal::Late { .. }]), "{events:?}");
    assert_eq!((new.announced().version, writer_of(&new, 3)), (3, who(0, 5).writer));
}

#[test]
fn who_waits_for_elements_that_no_heir_took_is_told_who_died() {
    let mut home = home(1, 0..2);
    let (mut here, mut there) = ahead(&mut home);
    here.declare(who(0, 9), Stage::member(3, range(0, 2))).unwrap();
    exchange(&mut home, &mut [&mut here, &mut there]);
    let readiness = home.ledger().readiness(3, &range(0, 4)).unwrap();
    let Readiness::Lost(losses) = readiness else { panic!("{readiness:?}") };
    assert_eq!((losses[0].cause, &*losses[0].share.elements), (Cause::Died, &range(2, 4)));
}
