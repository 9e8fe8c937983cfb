//! Numbers of versions that a home announced while it was cut off together with all writers are given to no other version.

use drepl::{IndexBox, IndexSet, Progression};
use stillframe_roster::{
    home::Home,
    refusal::Refusal,
    runtime::{Event, Runtime},
    writer::{Node, Stage, Version, Who, Writer},
};

const WHOLE: u64 = 8;
const MARGIN: u64 = 4;

fn who(node: u32) -> Who {
    Who { writer: Writer { node: Node(node), process: 1, serial: 0 }, rank: None }
}

fn range(start: u64, end: u64) -> IndexSet {
    IndexBox::new([Progression::range(start, end).unwrap()]).unwrap().into()
}

fn node(number: u32) -> Runtime {
    let mut node = Runtime::new(Node(number), 0);
    node.follow(1);
    node
}

fn home(revision: u64, nodes: impl IntoIterator<Item = u32>) -> Home {
    let mut home = Home::new(revision, range(0, WHOLE), 0, nodes.into_iter().map(Node));
    home.set_margin(MARGIN);
    home
}

/// Lets nodes and home hear each other until nothing is new; what was refused.
fn exchange(home: &mut Home, nodes: &mut [&mut Runtime]) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    for _ in 0..8 {
        nodes.iter().for_each(|node| _ = home.receive(node.report()));
        for node in &mut *nodes {
            let Some(decision) = home.decision(node.node()).cloned() else { continue };
            for event in node.hear(decision) {
                match event {
                    Event::Pin { version, .. } => _ = node.hold(version),
                    Event::Refused { refusal, .. } => refusals.push(refusal),
                    _ => {}
                }
            }
        }
    }
    refusals
}

/// Publishes the versions that follow, one after the other, each of which the home hears of; the newest that is complete then.
fn publish(home: &mut Home, node: &mut Runtime, versions: impl IntoIterator<Item = Version>) -> Version {
    let writer = who(node.node().0).writer;
    for version in versions {
        node.publish(writer, version).unwrap();
        exchange(home, &mut [&mut *node]);
    }
    home.announced().version
}

/// Two nodes of which the first has all writers, with a first version that all know to be complete.
fn alone() -> (Home, Runtime, Runtime) {
    let (mut home, mut writing, mut other) = (home(1, 0..2), node(0), node(1));
    writing.declare(who(0), Stage::member(1, range(0, WHOLE))).unwrap();
    writing.publish(who(0).writer, 1).unwrap();
    exchange(&mut home, &mut [&mut writing, &mut other]);
    assert_eq!((home.announced().version, other.announced().version), (1, 1));
    (home, writing, other)
}

#[test]
fn who_takes_the_place_of_writers_that_were_lost_with_their_home_goes_on_above_what_that_may_have_announced() {
    let (mut former, mut writing, mut other) = alone();
    // No message comes to the other node any more.
    let complete = publish(&mut former, &mut writing, 2..40);
    assert!((2..=1 + MARGIN).contains(&complete), "{complete}: as far as the other node knows that it may");

    let mut home = home(2, [1]);
    other.follow(2);
    exchange(&mut home, &mut [&mut other]);
    let gone = home.announced().clone();
    assert!(gone.version >= complete && gone.is_gone(), "{gone:?}");
    assert_eq!(other.announced().version, gone.version);

    other.declare(who(1), Stage::member(2, range(0, WHOLE))).unwrap();
    let refused = exchange(&mut home, &mut [&mut other]);
    assert!(matches!(refused[..], [Refusal::Late { from: 2, settled }] if settled == gone.version), "{refused:?}");
    other.declare(who(1), Stage::member(gone.version + 1, range(0, WHOLE))).unwrap();
    assert_eq!(exchange(&mut home, &mut [&mut other]), []);
    assert_eq!(publish(&mut home, &mut other, [gone.version + 1]), gone.version + 1);
}

#[test]
fn a_home_that_hands_its_role_over_leaves_no_number_out() {
    let (_, mut writing, mut other) = alone();
    writing.declare(who(0), Stage::left(2)).unwrap();
    let mut home = home(2, 0..2);
    [&mut writing, &mut other].into_iter().for_each(|node| node.follow(2));
    exchange(&mut home, &mut [&mut writing, &mut other]);
    assert_eq!(home.announced().version, 1);
    other.declare(who(1), Stage::member(2, range(0, WHOLE))).unwrap();
    other.publish(who(1).writer, 2).unwrap();
    assert_eq!(exchange(&mut home, &mut [&mut writing, &mut other]), []);
    assert_eq!(home.announced().version, 2);
}

#[test]
fn a_writer_that_is_not_lost_keeps_its_numbers() {
    let (mut home, mut lost, mut stays) = (home(1, 0..2), node(0), node(1));
    lost.declare(who(0), Stage::member(1, range(0, 4))).unwrap();
    stays.declare(who(1), Stage::member(1, range(4, WHOLE))).unwrap();
    lost.publish(who(0).writer, 1).unwrap();
    stays.publish(who(1).writer, 1).unwrap();
    exchange(&mut home, &mut [&mut lost, &mut stays]);
    assert_eq!(home.announced().version, 1);

    // Without it nothing was complete.
    let mut home = self::home(2, [1]);
    stays.follow(2);
    exchange(&mut home, &mut [&mut stays]);
    assert_eq!((home.announced().version, home.announced().is_gone()), (1, false));
    let heir = Who { writer: Writer { process: 2, ..who(1).writer }, rank: None };
    stays.declare(heir, Stage::member(2, range(0, 4))).unwrap();
    assert_eq!(exchange(&mut home, &mut [&mut stays]), []);
    stays.publish(heir.writer, 2).unwrap();
    assert_eq!(publish(&mut home, &mut stays, [2]), 2);
}

#[test]
fn what_is_left_of_the_version_before_stays_where_a_newer_one_is_gone() {
    let (mut home, mut lost, mut left) = (self::home(1, 0..2), node(0), node(1));
    left.declare(who(1), Stage::member(1, range(0, WHOLE))).unwrap();
    left.publish(who(1).writer, 1).unwrap();
    exchange(&mut home, &mut [&mut lost, &mut left]);
    left.declare(who(1), Stage::left(2)).unwrap();
    lost.declare(who(0), Stage::member(2, range(0, WHOLE))).unwrap();
    exchange(&mut home, &mut [&mut lost, &mut left]);
    lost.publish(who(0).writer, 2).unwrap();
    home.receive(lost.report());
    left.hear(home.decision(Node(1)).unwrap().clone());
    assert_eq!((home.announced().version, left.announced().version), (1, 1));

    let mut home = self::home(2, [1]);
    left.follow(2);
    exchange(&mut home, &mut [&mut left]);
    assert!(home.announced().version >= 2 && home.announced().is_gone(), "{:?}", home.announced());
    assert!(left.has_pinned(1) && left.has(who(1).writer, 1), "nobody has anything newer");
}

#[test]
fn a_node_that_does_not_answer_holds_nothing_up_before_the_ceiling_and_nothing_once_it_is_lost() {
    let (mut home, mut writing, _silent) = alone();
    let before = publish(&mut home, &mut writing, 2..=1 + MARGIN / 2);
    assert_eq!(before, 1 + MARGIN / 2);
    let held = publish(&mut home, &mut writing, 2 + MARGIN / 2..40);
    assert!(held < 39, "{held}");
    home.lose(Node(1));
    exchange(&mut home, &mut [&mut writing]);
    assert_eq!(home.announced().version, 39);
}

#[test]
fn a_node_that_joins_and_says_nothing_holds_nothing_up() {
    let (mut home, mut writing, mut other) = alone();
    home.admit(Node(2));
    for version in 2..40 {
        writing.publish(who(0).writer, version).unwrap();
        exchange(&mut home, &mut [&mut writing, &mut other]);
    }
    assert_eq!(home.announced().version, 39);
}
