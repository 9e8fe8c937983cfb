//! A machine that was apart for longer than its lease comes back, when others have taken its writers' places; or whose runtime is
//! started again, and knows less than the one before.

use drepl::{IndexBox, IndexSet, Progression};
use stillframe_roster::{
    home::Home,
    message::Unpinned,
    readiness::Readiness,
    refusal::Refusal,
    runtime::{Event, Runtime},
    writer::{Node, Stage, Version, Who, Writer},
};

fn who(node: u32, process: u32) -> Who {
    Who { writer: Writer { node: Node(node), process, serial: 0 }, rank: None }
}

fn range(start: u64, end: u64) -> IndexSet {
    IndexBox::new([Progression::range(start, end).unwrap()]).unwrap().into()
}

/// Lets nodes and home hear each other until nothing is new; what was refused.
fn exchange(home: &mut Home, nodes: &mut [&mut Runtime]) -> Vec<Event> {
    let mut refused = Vec::new();
    for _ in 0..6 {
        nodes.iter().for_each(|node| _ = home.receive(node.report()));
        for node in &mut *nodes {
            let Some(decision) = home.decision(node.node()).cloned() else { continue };
            for event in node.hear(decision) {
                match event {
                    Event::Pin { version, .. } => _ = node.hold(version),
                    Event::Refused { .. } => refused.push(event),
                    _ => {}
                }
            }
        }
    }
    refused
}

fn writer_of(home: &Home, version: Version) -> Writer {
    let readiness = home.ledger().readiness(version, &range(4, 8)).unwrap();
    let Readiness::Ready(shares) = readiness else { panic!("version {version}: {readiness:?}") };
    shares[0].who.unwrap().writer
}

fn node(number: u32) -> Runtime {
    let mut node = Runtime::new(Node(number), 0);
    node.follow(1);
    node
}

#[test]
fn what_an_heir_published_stays_when_the_lost_writer_comes_back() {
    for is_new_home in [false, true] {
        come_back(is_new_home);
    }
}

fn come_back(is_new_home: bool) {
    let (mut stays, mut apart, mut heir) = (node(0), node(1), node(2));
    let mut home = Home::new(1, range(0, 8), 0, [0, 1, 2].map(Node));
    stays.declare(who(0, 0), Stage::member(1, range(0, 4))).unwrap();
    apart.declare(who(1, 1), Stage::member(1, range(4, 8))).unwrap();
    stays.publish(who(0, 0).writer, 1).unwrap();
    apart.publish(who(1, 1).writer, 1).unwrap();
    exchange(&mut home, &mut [&mut stays, &mut apart, &mut heir]);
    assert_eq!(home.announced().version, 1);

    home.lose(Node(1));
    heir.declare(who(2, 2), Stage::member(2, range(4, 8))).unwrap();
    for version in 2..=3 {
        stays.publish(who(0, 0).writer, version).unwrap();
        heir.publish(who(2, 2).writer, version).unwrap();
        exchange(&mut home, &mut [&mut stays, &mut heir]);
    }
    assert_eq!(home.announced().version, 3);
    assert_eq!(writer_of(&home, 3), who(2, 2).writer);

    // Its program went on publishing meanwhile.
    let mut back = node(3);
    back.restore(who(3, 1), vec![Stage::member(1, range(4, 8))]);
    for version in 1..=5 {
        back.publish(who(3, 1).writer, version).unwrap();
    }
    if is_new_home {
        home = Home::new(2, range(0, 8), 0, [0, 2, 3].map(Node));
        [&mut stays, &mut heir, &mut back].into_iter().for_each(|node| node.follow(2));
    } else {
        home.replace(Node(1), Node(3));
    }
    let refused = exchange(&mut home, &mut [&mut stays, &mut heir, &mut back]);
    assert!(home.ledger().is_whole(3).unwrap(), "it is complete; {refused:?}");
    assert_eq!(writer_of(&home, 3), who(2, 2).writer, "whose elements others have read; {refused:?}");
}

/// All runtimes were started again, and one node is new: what a former run left on the other fits to what it writes. Its fragment was
/// accepted before the home heard of that.
#[test]
fn no_version_is_made_of_two_runs() {
    for (floor, new_floor) in [(0, 0), (5, 0), (5, 1)] {
        let (mut left, mut new) = (node(0), node(1));
        left.set_floor(floor, 0);
        new.set_floor(new_floor, 0);
        left.restore(who(0, 0), vec![Stage::member(1, range(0, 4))]);
        left.publish(who(0, 0).writer, 5).unwrap();
        let mut home = begin_with(&mut new, who(1, 1), new_floor + 1, range(4, 8));
        home.admit(Node(0));
        for version in new_floor + 1..=5 {
            new.publish(who(1, 1).writer, version).unwrap();
            exchange(&mut home, &mut [&mut left, &mut new]);
        }
        let announced = home.announced().version;
        // Without a floor nobody can know; what the new node remembers is gone.
        assert_eq!(announced, if floor == 0 { 5 } else { new_floor });
        let readiness = home.ledger().readiness(5, &range(0, 8)).unwrap();
        assert_eq!(matches!(readiness, Readiness::Lost(_)), floor > 0, "{readiness:?}");
        [&mut left, &mut new]
            .into_iter()
            .zip([0, 1])
            .for_each(|(node, number)| node.publish(who(number, number).writer, 6).unwrap());
        exchange(&mut home, &mut [&mut left, &mut new]);
        assert_eq!(home.announced().version, 6, "this run has all of it");
    }
}

/// A home that accepts the fragment of a new node while no other node is known.
fn begin_with(new: &mut Runtime, writer: Who, from: Version, elements: IndexSet) -> Home {
    new.declare(writer, Stage::member(from, elements)).unwrap();
    let mut home = Home::new(1, range(0, 8), 0, [new.node()]);
    assert_eq!(exchange(&mut home, &mut [new]), Vec::new());
    home
}

/// All runtimes were started again, and one machine is another one: what was complete before is so still for the programs of those that
/// remember it, and nothing else gets its numbers.
#[test]
fn nobody_begins_with_numbers_that_were_complete_before_the_run() {
    let (mut left, mut new) = (node(0), node(1));
    left.set_floor(5, 0);
    left.restore(who(0, 0), vec![Stage::member(1, range(0, 4))]);
    left.publish(who(0, 0).writer, 5).unwrap();
    let mut home = Home::new(1, range(0, 8), 0, [0, 1].map(Node));
    exchange(&mut home, &mut [&mut left, &mut new]);
    assert_eq!((new.announced().version, new.announced().is_gone()), (5, true), "its programs would be given zeros");
    for from in [1, 5] {
        new.declare(who(1, from), Stage::member(from.into(), range(4, 8))).unwrap();
        let refused = exchange(&mut home, &mut [&mut left, &mut new]);
        let is_late = |event: &Event| matches!(event, Event::Refused { refusal: Refusal::Late { settled: 5, .. }, .. });
        assert!(refused.iter().all(is_late) && refused.len() == 1, "{refused:?}");
    }
    new.declare(who(1, 6), Stage::member(6, range(4, 8))).unwrap();
    assert_eq!(exchange(&mut home, &mut [&mut left, &mut new]), Vec::new());
    left.publish(who(0, 0).writer, 6).unwrap();
    new.publish(who(1, 6).writer, 6).unwrap();
    exchange(&mut home, &mut [&mut left, &mut new]);
    assert_eq!(home.announced().version, 6);
}

/// All runtimes were started again, and the home begins before one of them is there.
#[test]
fn what_was_complete_is_so_again_when_a_machine_that_was_late_has_the_rest_of_it() {
    for revisions in [1, 2] {
        let (mut left, mut late, mut new) = (node(0), node(1), node(2));
        for (node, number, elements) in [(&mut left, 0, range(0, 4)), (&mut late, 1, range(4, 8))] {
            node.set_floor(5, 0);
            node.restore(who(number, number), vec![Stage::member(1, elements)]);
            [4, 5].into_iter().for_each(|version| node.publish(who(number, number).writer, version).unwrap());
        }
        let mut home = Home::new(1, range(0, 8), 0, [0, 2].map(Node));
        for revision in 1..=revisions {
            home = Home::new(revision, range(0, 8), 0, [0, 2].map(Node));
            [&mut left, &mut new].into_iter().for_each(|node| node.follow(revision));
            exchange(&mut home, &mut [&mut left, &mut new]);
            assert_eq!((home.announced().version, home.announced().is_gone()), (5, true));
        }
        late.follow(revisions);
        home.admit(Node(1));
        let refused = exchange(&mut home, &mut [&mut left, &mut late, &mut new]);
        assert_eq!(refused, Vec::new());
        for node in [&left, &late, &new] {
            assert_eq!((node.announced().version, node.announced().is_gone()), (5, false), "{:?}", node.node());
        }
        assert_eq!(left.report().pins.len() + late.report().pins.len(), 2, "nobody lets go of it");
        for version in [4, 5] {
            let readiness = home.ledger().readiness(version, &range(0, 8)).unwrap();
            assert!(matches!(readiness, Readiness::Ready(_)), "{version}: {readiness:?}");
        }
    }
}

/// A home leads before the node joins that remembers a former run: those that were there are told, too, for their programs would be given zeros.
#[test]
fn all_nodes_are_told_what_one_remembers_that_joins_later() {
    let (mut left, mut new) = (node(0), node(1));
    left.set_floor(5, 0);
    let mut home = Home::new(1, range(0, 8), 0, [Node(1)]);
    exchange(&mut home, &mut [&mut new]);
    home.admit(Node(0));
    let told = home.receive(left.report());
    assert!([0, 1].iter().all(|number| told.contains(&Node(*number))), "{told:?}");
    assert_eq!(home.decision(Node(1)).unwrap().announced.version, 5);
}

/// A run began below what a former one completed, and its machine is away when a home begins that knows of the former run alone.
#[test]
fn a_version_of_two_runs_is_not_brought_back_by_who_has_the_number_of_one() {
    let (mut new, mut left) = (node(0), node(1));
    left.set_floor(5, 0);
    left.restore(who(1, 1), vec![Stage::member(1, range(0, 4))]);
    left.publish(who(1, 1).writer, 5).unwrap();
    let mut home = begin_with(&mut new, who(0, 0), 1, range(4, 8));
    home.admit(Node(1));
    for version in 1..=5 {
        new.publish(who(0, 0).writer, version).unwrap();
        exchange(&mut home, &mut [&mut new, &mut left]);
    }
    home = Home::new(2, range(0, 8), 0, [Node(1)]);
    left.follow(2);
    exchange(&mut home, &mut [&mut left]);
    assert_eq!((home.announced().version, home.announced().is_gone()), (5, true));
    let mut back = restarted(0, 2, &[1, 2, 3, 4, 5]);
    back.follow(2);
    home.learn_replaced([(Node(0), Node(2))]);
    home.admit(Node(2));
    exchange(&mut home, &mut [&mut left, &mut back]);
    assert!(home.announced().is_gone(), "{:?}", home.announced());
    let readiness = home.ledger().readiness(5, &range(0, 8)).unwrap();
    assert!(matches!(readiness, Readiness::Lost(_)), "{readiness:?}");
}

/// A run has begun below what a former one completed: it goes on where the runtime of its only machine is started again.
#[test]
fn a_run_goes_on_while_the_runtime_that_began_it_is_started_again() {
    [true, false].into_iter().for_each(start_again);
}

fn start_again(is_there: bool) {
    let (mut new, mut left) = (node(0), node(1));
    left.set_floor(5, 0);
    left.restore(who(1, 1), vec![Stage::member(1, range(0, 4))]);
    left.die(who(1, 1).writer);
    let mut home = begin_with(&mut new, who(0, 0), 1, range(4, 8));
    // The other one is there before, or comes only then.
    if is_there {
        home.admit(Node(1));
        exchange(&mut home, &mut [&mut new, &mut left]);
    }
    home.replace(Node(0), Node(2));
    home.admit(Node(1));
    exchange(&mut home, &mut [&mut left]);
    assert_eq!(home.announced().version, 0, "its programs go on below that");
    let mut again = restarted(0, 2, &[1]);
    exchange(&mut home, &mut [&mut left, &mut again]);
    left.declare(who(1, 3), Stage::member(1, range(0, 4))).unwrap();
    left.publish(who(1, 3).writer, 1).unwrap();
    exchange(&mut home, &mut [&mut left, &mut again]);
    assert_eq!(home.announced().version, 1);
}

/// A home was lost with the only writer of the newest versions. What a machine whose runtime was started again has of older ones is of this run.
#[test]
fn older_versions_stay_where_a_home_is_lost_after_a_runtime_was_started_again() {
    let (mut first, mut again, mut newest) = (node(0), node(1), node(5));
    let mut home = Home::new(1, range(0, 8), 0, [0, 1, 5].map(Node));
    home.set_margin(4);
    first.declare(who(0, 0), Stage::member(1, range(0, 4))).unwrap();
    again.declare(who(1, 1), Stage::member(1, range(4, 8))).unwrap();
    for version in 1..=5 {
        first.publish(who(0, 0).writer, version).unwrap();
        again.publish(who(1, 1).writer, version).unwrap();
        exchange(&mut home, &mut [&mut first, &mut again, &mut newest]);
    }
    first.declare(who(0, 0), Stage::left(6)).unwrap();
    again.declare(who(1, 1), Stage::left(6)).unwrap();
    exchange(&mut home, &mut [&mut first, &mut again, &mut newest]);
    newest.declare(who(5, 5), Stage::member(6, range(0, 8))).unwrap();
    for version in 6..=8 {
        newest.publish(who(5, 5).writer, version).unwrap();
        exchange(&mut home, &mut [&mut first, &mut again, &mut newest]);
    }
    assert_eq!(home.announced().version, 8);
    again = node(2);
    again.restore(who(2, 1), vec![Stage::member(1, range(4, 8)), Stage::left(6)]);
    (1..=5).for_each(|version| again.publish(who(2, 1).writer, version).unwrap());
    again.set_floor(8, 0);
    home = Home::new(2, range(0, 8), 0, [0, 2].map(Node));
    home.set_replaced([(Node(1), Node(2))]);
    home.lose(Node(5));
    [&mut first, &mut again].into_iter().for_each(|node| node.follow(2));
    exchange(&mut home, &mut [&mut first, &mut again]);
    assert!(home.announced().version > 8 && home.announced().is_gone(), "{:?}", home.announced());
    for version in 3..=5 {
        let readiness = home.ledger().readiness(version, &range(0, 8)).unwrap();
        assert!(matches!(readiness, Readiness::Ready(_)), "{version}: {readiness:?}");
    }
}

/// A run began without the machine that remembers one before it, and has versions of its own, or has accepted who writes them, when that is
/// there.
#[test]
fn a_run_that_began_without_a_machine_goes_on_when_that_is_there() {
    for has_versions in [true, false] {
        let (mut left, mut new) = (node(0), node(1));
        left.set_floor(100, 0);
        left.restore(who(0, 0), vec![Stage::member(1, range(0, 4))]);
        left.publish(who(0, 0).writer, 100).unwrap();
        left.die(who(0, 0).writer);
        let mut home = begin_with(&mut new, who(1, 1), 1, range(0, 8));
        if !has_versions {
            home.admit(Node(0));
        }
        for version in 1..=5 {
            new.publish(who(1, 1).writer, version).unwrap();
            exchange(&mut home, &mut [&mut left, &mut new]);
        }
        assert_eq!(home.announced().version, 5);
        home.admit(Node(0));
        exchange(&mut home, &mut [&mut left, &mut new]);
        new.declare(who(1, 1), Stage::left(6)).unwrap();
        new.declare(who(1, 2), Stage::member(6, range(0, 8))).unwrap();
        assert_eq!(exchange(&mut home, &mut [&mut left, &mut new]), Vec::new());
        new.publish(who(1, 2).writer, 6).unwrap();
        exchange(&mut home, &mut [&mut left, &mut new]);
        assert_eq!(home.announced().version, 6);
    }
}

/// Two runtimes of a run are started again at once, of which one had heard that a version is complete; the home begins where nobody has.
#[test]
fn what_one_machine_alone_has_heard_of_is_of_the_run_that_goes_on() {
    let (mut lower, mut upper, mut reads) = (node(0), node(1), node(2));
    let mut home = Home::new(1, range(0, 8), 0, [0, 1, 2].map(Node));
    lower.declare(who(0, 0), Stage::member(1, range(0, 4))).unwrap();
    upper.declare(who(1, 1), Stage::member(1, range(4, 8))).unwrap();
    for version in 1..=8 {
        lower.publish(who(0, 0).writer, version).unwrap();
        upper.publish(who(1, 1).writer, version).unwrap();
        exchange(&mut home, &mut [&mut lower, &mut upper, &mut reads]);
    }
    assert_eq!(reads.announced().version, 8);
    let back = |number: u32, process, elements, floor| {
        let mut back = node(number);
        back.set_floor(floor, 0);
        back.restore(who(number, process), vec![Stage::member(1, elements)]);
        [8, 9].into_iter().for_each(|version| back.publish(who(number, process).writer, version).unwrap());
        back
    };
    // The home had announced version 9, and only the first one's programs were told.
    let (mut lower, mut upper) = (back(3, 0, range(0, 4), 9), back(4, 1, range(4, 8), 8));
    for revision in 2..4 {
        home = Home::new(revision, range(0, 8), 0, [2, 3, 4].map(Node));
        home.set_replaced([(Node(0), Node(3)), (Node(1), Node(4))]);
        [&mut lower, &mut upper, &mut reads].into_iter().for_each(|node| node.follow(revision));
        exchange(&mut home, &mut [&mut lower, &mut upper, &mut reads]);
        assert_eq!(home.announced().version, 9, "home {revision}");
        let readiness = home.ledger().readiness(9, &range(0, 8)).unwrap();
        assert!(matches!(readiness, Readiness::Ready(_)), "home {revision}: {readiness:?}");
    }
}

/// One runtime of a run is started again: what its node has of older versions is of the run that goes on.
#[test]
fn older_versions_stay_where_one_runtime_is_started_again() {
    for has_new_home in [false, true] {
        let (mut stays, mut again) = (node(0), node(1));
        let mut home = Home::new(1, range(0, 8), 0, [0, 1].map(Node));
        stays.declare(who(0, 0), Stage::member(1, range(0, 4))).unwrap();
        again.declare(who(1, 1), Stage::member(1, range(4, 8))).unwrap();
        for version in 1..=5 {
            stays.publish(who(0, 0).writer, version).unwrap();
            again.publish(who(1, 1).writer, version).unwrap();
            exchange(&mut home, &mut [&mut stays, &mut again]);
        }
        assert_eq!(home.announced().version, 5);
        again = restarted(1, 2, &[3, 4, 5]);
        again.set_floor(5, 0);
        change_home(&mut home, has_new_home, &mut stays, &mut again);
        for version in 3..=5 {
            let readiness = home.ledger().readiness(version, &range(0, 8)).unwrap();
            assert!(matches!(readiness, Readiness::Ready(_)), "{version}: {readiness:?}");
        }
    }
}

/// All runtimes were started again, one node is new, and then one runtime alone is started again.
#[test]
fn a_run_goes_on_to_know_what_was_before_it_when_a_runtime_is_started_again() {
    for has_new_home in [false, true] {
        let (mut new, mut left) = (node(0), node(1));
        left.set_floor(5, 0);
        left.restore(who(1, 1), vec![Stage::member(1, range(4, 8))]);
        left.publish(who(1, 1).writer, 5).unwrap();
        let mut home = begin_with(&mut new, who(0, 0), 1, range(0, 4));
        home.admit(Node(1));
        for version in 1..=6 {
            new.publish(who(0, 0).writer, version).unwrap();
            exchange(&mut home, &mut [&mut new, &mut left]);
        }
        left.publish(who(1, 1).writer, 6).unwrap();
        exchange(&mut home, &mut [&mut new, &mut left]);
        assert_eq!((home.announced().version, left.run_floor()), (6, 5));
        let mut again = restarted(1, 2, &[5, 6]);
        again.set_floor(6, left.run_floor());
        change_home(&mut home, has_new_home, &mut new, &mut again);
        for elements in [range(0, 8), range(0, 4), range(4, 8)] {
            let readiness = home.ledger().readiness(5, &elements).unwrap();
            assert!(matches!(readiness, Readiness::Lost(_)), "{elements}: {readiness:?}");
            let readiness = home.ledger().readiness(6, &elements).unwrap();
            assert!(matches!(readiness, Readiness::Ready(_)), "{elements}: {readiness:?}");
        }
    }
}

/// The runtime of a machine that was started again under another number, with what its writer left.
fn restarted(process: u32, number: u32, versions: &[Version]) -> Runtime {
    let mut again = node(number);
    again.restore(who(number, process), vec![Stage::member(1, range(4, 8))]);
    versions.iter().for_each(|version| again.publish(who(number, process).writer, *version).unwrap());
    again
}

/// Tells the home of a runtime that was started again, or lets another home begin where that is.
fn change_home(home: &mut Home, is_new: bool, stays: &mut Runtime, again: &mut Runtime) {
    if is_new {
        *home = Home::new(2, range(0, 8), 0, [0, 2].map(Node));
        [&mut *stays, again].into_iter().for_each(|node| node.follow(2));
    } else {
        home.replace(Node(1), Node(2));
    }
    exchange(home, &mut [stays, again]);
}

/// What was complete stays so where all that wrote it are started again.
#[test]
fn a_version_of_a_former_run_stays_complete() {
    let (mut left, mut other) = (node(0), node(1));
    for (node, number, floor, elements) in [(&mut left, 0, 5, range(0, 4)), (&mut other, 1, 4, range(4, 8))] {
        node.set_floor(floor, 0);
        node.restore(who(number, number), vec![Stage::member(1, elements)]);
        node.publish(who(number, number).writer, 5).unwrap();
    }
    let mut home = Home::new(1, range(0, 8), 0, [0, 1].map(Node));
    exchange(&mut home, &mut [&mut left, &mut other]);
    assert_eq!(home.announced().version, 5);
}

/// The runtime of a machine was started again, and ends for good.
#[test]
fn what_a_machine_had_is_lost_with_its_last_runtime() {
    let (mut here, mut there) = (node(0), node(1));
    there.declare(who(1, 1), Stage::member(1, range(0, 8))).unwrap();
    there.publish(who(1, 1).writer, 1).unwrap();
    let mut home = Home::new(1, range(0, 8), 0, [0, 1].map(Node));
    exchange(&mut home, &mut [&mut here, &mut there]);
    home.replace(Node(1), Node(2));
    let unpinned = |home: &Home| home.decision(Node(0)).unwrap().unpinned.clone();
    let unpinned_by = |is_lost| vec![Unpinned { node: Node(1), is_lost }];
    assert_eq!(unpinned(&home), unpinned_by(false), "its runtime may still hold it");
    assert!(home.lose(Node(2)).contains(&Node(0)));
    assert_eq!(unpinned(&home), unpinned_by(true));
}

/// A writer's fragment was accepted, and a version proposed with it; its runtime ends before it has heard that.
#[test]
fn a_fragment_that_was_accepted_counts_though_nobody_wrote_that_down() {
    for is_new_home in [false, true] {
        let (mut stays, mut former) = (node(0), node(1));
        let mut home = Home::new(1, range(0, 8), 0, [0, 1].map(Node));
        stays.declare(who(0, 0), Stage::member(1, range(0, 4))).unwrap();
        former.declare(who(1, 1), Stage::member(1, range(4, 8))).unwrap();
        stays.publish(who(0, 0).writer, 1).unwrap();
        former.publish(who(1, 1).writer, 1).unwrap();
        home.receive(former.report());
        exchange(&mut home, &mut [&mut stays]);
        assert_eq!(home.proposed().map(|proposal| proposal.version), Some(1));

        let mut again = node(2);
        again.declare(who(2, 1), Stage::member(1, range(4, 8))).unwrap();
        again.publish(who(2, 1).writer, 1).unwrap();
        if is_new_home {
            home = Home::new(2, range(0, 8), 0, [0, 2].map(Node));
            home.set_replaced([(Node(1), Node(2))]);
            [&mut stays, &mut again].into_iter().for_each(|node| node.follow(2));
        } else {
            home.replace(Node(1), Node(2));
        }
        let refused = exchange(&mut home, &mut [&mut stays, &mut again]);
        assert_eq!((refused, home.announced().version), (Vec::new(), 1), "a new home: {is_new_home}");
    }
}

/// The machine of the home and of a version's writers is started again. On another one somebody wants their places, who has not heard how
/// far they came, and which of the two numbers is lower is chance.
#[test]
fn places_of_writers_that_are_back_are_taken_only_above_what_they_have_whole() {
    for (heir, again, is_apart) in [(1, 5, false), (7, 5, false), (1, 5, true), (7, 5, true), (5, 1, true)] {
        // Both halves may be of one node, or one of them on a node that is known under its next number only to the new home.
        let (mut writing, mut other, mut waiting) = (node(0), node(8), node(heir));
        let mut home = Home::new(1, range(0, 8), 0, [0, heir, 8].map(Node));
        home.set_margin(4);
        let (first, second) = (who(0, 1), who(if is_apart { 8 } else { 0 }, 2));
        writing.declare(first, Stage::member(1, range(0, 4))).unwrap();
        let of_second = if is_apart { &mut other } else { &mut writing };
        of_second.declare(second, Stage::member(1, range(4, 8))).unwrap();
        let publish = |writing: &mut Runtime, other: &mut Runtime, version| {
            writing.publish(first.writer, version).unwrap();
            let of_second = if is_apart { other } else { writing };
            of_second.publish(second.writer, version).unwrap();
        };
        publish(&mut writing, &mut other, 1);
        exchange(&mut home, &mut [&mut writing, &mut other, &mut waiting]);
        for version in 2..=3 {
            publish(&mut writing, &mut other, version);
            exchange(&mut home, &mut [&mut writing, &mut other]);
        }
        assert_eq!((home.announced().version, waiting.announced().version), (3, 1));
        waiting.declare(who(heir, 3), Stage::member(2, range(0, 8))).unwrap();

        let mut back = node(again);
        let mut beside = node(6);
        for (process, half) in [(1, range(0, 4)), (2, range(4, 8))] {
            let of = if is_apart && process == 2 { &mut beside } else { &mut back };
            let who = who(of.node().0, process);
            of.restore(who, vec![Stage::member(1, half)]);
            (1..=3).for_each(|version| of.publish(who.writer, version).unwrap());
            of.die(who.writer);
        }
        let mut home = Home::new(2, range(0, 8), 0, [heir, again, 6].map(Node));
        home.set_margin(4);
        home.set_replaced([(Node(0), Node(again)), (Node(8), Node(6))]);
        [&mut waiting, &mut back, &mut beside].into_iter().for_each(|node| node.follow(2));
        let refused = exchange(&mut home, &mut [&mut waiting, &mut back, &mut beside]);
        let is_late = |event: &Event| matches!(event, Event::Refused { refusal: Refusal::Late { from: 2, .. }, .. });
        let names = format!("heir on {heir}, started again on {again}, apart: {is_apart}");
        assert!(matches!(&refused[..], [one] if is_late(one)), "{names}: {refused:?}");
        assert_eq!(home.announced().version, 3, "{names}");
    }
}

/// A home begins before it is told that a writer's runtime was started again: it hears so while it waits for reports, from one of its nodes or
/// several times.
#[test]
fn a_runtime_that_is_started_again_while_a_home_begins_is_not_lost() {
    for restarts in 1..=3 {
        let (mut reading, mut writing) = (node(0), node(1));
        let mut home = Home::new(1, range(0, 8), 0, [0, 1].map(Node));
        home.set_margin(4);
        writing.declare(who(1, 1), Stage::member(1, range(0, 8))).unwrap();
        writing.publish(who(1, 1).writer, 1).unwrap();
        exchange(&mut home, &mut [&mut reading, &mut writing]);
        assert_eq!(home.announced().version, 1);

        let mut home = Home::new(2, range(0, 8), 0, [0, 1].map(Node));
        reading.follow(2);
        home.receive(reading.report());
        (0..restarts).for_each(|number| _ = home.replace(Node(1 + number), Node(2 + number)));
        let mut again = node(1 + restarts);
        let who = who(1 + restarts, 1);
        again.restore(who, vec![Stage::member(1, range(0, 8))]);
        again.publish(who.writer, 1).unwrap();
        again.follow(2);
        exchange(&mut home, &mut [&mut reading, &mut again]);
        let announced = home.announced();
        assert_eq!((announced.version, announced.nodes.is_empty()), (1, false), "{restarts} times: {announced:?}");
    }
}

/// A machine whose runtime was started again is lost with its memory: what its former number was named for may have been announced.
#[test]
fn a_machine_that_is_lost_is_lost_by_all_its_numbers() {
    let (mut reading, mut writing) = (node(0), node(1));
    let mut home = Home::new(1, range(0, 8), 0, [0, 1].map(Node));
    home.set_margin(4);
    writing.declare(who(1, 1), Stage::member(1, range(0, 8))).unwrap();
    writing.publish(who(1, 1).writer, 1).unwrap();
    exchange(&mut home, &mut [&mut reading, &mut writing]);
    assert_eq!(home.announced().version, 1);

    let mut home = Home::new(2, range(0, 8), 0, [0, 2].map(Node));
    home.set_replaced([(Node(1), Node(2))]);
    home.lose(Node(2));
    reading.follow(2);
    exchange(&mut home, &mut [&mut reading]);
    assert!(home.announced().version > 1, "it may have announced up to the ceiling: {:?}", home.announced());
}
