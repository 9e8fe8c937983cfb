//! What a reader is told is about what it wants now.

use drepl::{IndexBox, IndexSet, Progression};
use stillframe_roster::{
    home::Home,
    readiness::Readiness,
    runtime::{Event, Runtime},
    writer::{Node, Stage, Who, Writer},
};

const HERE: Node = Node(1);
const THERE: Node = Node(2);

fn all() -> IndexSet {
    IndexBox::new([Progression::range(0, 4).unwrap()]).unwrap().into()
}

fn writer() -> Writer {
    Writer { node: HERE, process: 1, serial: 0 }
}

fn answers(events: Vec<Event>) -> Vec<Readiness> {
    let answer = |event| match event {
        Event::Answer { reader: 7, readiness } => Some(readiness),
        _ => None,
    };
    events.into_iter().filter_map(answer).collect()
}

/// A writer that publishes a version and lets the one before go, while the node of a reader has not said yet that it has that one.
#[test]
fn an_answer_about_the_version_before_is_none_about_this_one() {
    let mut home = Home::new(1, all(), 0, [HERE, THERE]);
    let (mut here, mut there) = (Runtime::new(HERE, 0), Runtime::new(THERE, 0));
    [&mut here, &mut there].into_iter().for_each(|one| one.follow(1));
    here.declare(Who { writer: writer(), rank: None }, Stage::member(1, all())).unwrap();
    home.receive(here.report());
    home.receive(there.report());
    here.publish(writer(), 1).unwrap();
    home.receive(here.report());
    there.want(7, 1, all());
    home.receive(there.report());
    let ready = answers(there.hear(home.decision(THERE).unwrap().clone()));
    assert!(matches!(ready[..], [Readiness::Ready(_)]), "{ready:?}");

    here.publish(writer(), 2).unwrap();
    here.drop(writer(), 1);
    home.receive(here.report());
    let late = home.decision(THERE).unwrap().clone();
    there.unwant(7);
    there.want(7, 2, all());
    assert_eq!(answers(there.hear(late)), []);
    home.receive(there.report());
    let ready = answers(there.hear(home.decision(THERE).unwrap().clone()));
    assert!(matches!(ready[..], [Readiness::Ready(_)]), "{ready:?}");
}
