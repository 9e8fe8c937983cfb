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
    of(node, 1)
}

fn of(node: u32, process: u32) -> Who {
    Who { writer: Writer { node: Node(node), process, serial: 0 }, rank: None }
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

/// Has a node hear the newest decision.
fn hear(home: &Home, node: &mut Runtime) {
    for event in node.hear(home.decision(node.node()).unwrap().clone()) {
        if let Event::Pin { version, .. } = event {
            node.hold(version);
        }
    }
}

/// Two nodes with half of the elements each, and a first version that both know to be complete.
fn halves() -> (Home, Runtime, Runtime) {
    let (mut home, mut lower, mut upper) = (home(1, 0..2), node(0), node(1));
    lower.declare(who(0), Stage::member(1, range(0, 4))).unwrap();
    upper.declare(who(1), Stage::member(1, range(4, WHOLE))).unwrap();
    lower.publish(who(0).writer, 1).unwrap();
    upper.publish(who(1).writer, 1).unwrap();
    exchange(&mut home, &mut [&mut lower, &mut upper]);
    assert_eq!(home.announced().version, 1);
    (home, lower, upper)
}

/// The home after one that was cut off with the first node, and what the others say to it.
fn next(nodes: &mut [&mut Runtime]) -> Home {
    let mut home = home(2, nodes.iter().map(|node| node.node().0));
    nodes.iter_mut().for_each(|node| node.follow(2));
    exchange(&mut home, nodes);
    home
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
fn a_writer_that_is_not_lost_keeps_its_numbers_also_if_it_died() {
    for has_died in [false, true] {
        let (_, _, mut stays) = halves();
        if has_died {
            stays.die(who(1).writer);
        }
        // Without it nothing was complete.
        let mut home = next(&mut [&mut stays]);
        assert_eq!((home.announced().version, home.announced().is_gone()), (1, false));
        let places = if has_died { vec![(2, 0..4), (3, 4..WHOLE)] } else { vec![(2, 0..4)] };
        for (process, place) in &places {
            stays.declare(of(1, *process), Stage::member(2, range(place.start, place.end))).unwrap();
        }
        assert_eq!(exchange(&mut home, &mut [&mut stays]), []);
        places.iter().for_each(|(process, _)| stays.publish(of(1, *process).writer, 2).unwrap());
        if !has_died {
            stays.publish(who(1).writer, 2).unwrap();
        }
        exchange(&mut home, &mut [&mut stays]);
        assert_eq!(home.announced().version, 2);
    }
}

/// The node of the one that leaves is cut off before it hears that this counts.
#[test]
fn nothing_is_complete_without_a_node_that_does_not_know_that_it_has_no_part() {
    for dies in [false, true] {
        let (mut home, mut cut, mut other) = halves();
        if dies {
            let ceiling = other.report().ceiling.version;
            (2..=ceiling).for_each(|version| other.publish(who(1).writer, version).unwrap());
            other.die(who(1).writer);
        } else {
            other.declare(who(1), Stage::left(2)).unwrap();
        }
        home.receive(other.report());
        cut.declare(of(0, 2), Stage::member(2, range(4, WHOLE))).unwrap();
        exchange(&mut home, &mut [&mut cut]);
        [who(0), of(0, 2)].iter().for_each(|who| cut.publish(who.writer, 2).unwrap());
        exchange(&mut home, &mut [&mut cut]);
        assert_eq!(home.announced().version, 1);
        assert_eq!(next(&mut [&mut other]).announced().version, 1, "it dies: {dies}");
    }
}

/// It was told that its fragment counts, and not that it came too late.
#[test]
fn a_fragment_that_was_refused_meanwhile_completes_nothing() {
    let (mut home, mut cut, mut other) = alone();
    other.declare(who(1), Stage::member(2, range(4, WHOLE))).unwrap();
    exchange(&mut home, &mut [&mut cut, &mut other]);
    let complete = publish(&mut home, &mut cut, [2]);
    assert_eq!(complete, 2);
    let home = next(&mut [&mut other]);
    assert!(home.announced().version >= complete, "{:?}", home.announced());
}

#[test]
fn a_ceiling_of_which_a_node_may_have_heard_stands_until_it_says_so() {
    let (mut home, mut cut, mut heir, mut third) = (home(1, 0..3), node(0), node(1), node(2));
    cut.declare(who(0), Stage::member(1, range(0, WHOLE))).unwrap();
    cut.publish(who(0).writer, 1).unwrap();
    exchange(&mut home, &mut [&mut cut, &mut heir, &mut third]);
    // The place goes to another node, which dies before it hears of that; what it and the third hear they cannot say.
    heir.declare(who(1), Stage::member(2, range(0, WHOLE))).unwrap();
    heir.publish(who(1).writer, 2).unwrap();
    cut.declare(who(0), Stage::left(2)).unwrap();
    [&heir, &cut].into_iter().for_each(|node| _ = home.receive(node.report()));
    heir.die(who(1).writer);
    heir.drop(who(1).writer, 2);
    let before = heir.report();
    [&mut heir, &mut third].into_iter().for_each(|node| hear(&home, node));
    home.receive(before);
    hear(&home, &mut cut);
    cut.declare(of(0, 2), Stage::member(3, range(0, WHOLE))).unwrap();
    exchange(&mut home, &mut [&mut cut]);
    cut.publish(of(0, 2).writer, 3).unwrap();
    exchange(&mut home, &mut [&mut cut]);
    let complete = home.announced().version;
    let home = next(&mut [&mut heir, &mut third]);
    assert!(home.announced().version >= complete, "{:?} after {complete}", home.announced());
}

/// One of two nodes that have all of it does not hear that it is complete, before a third one writes what follows.
#[test]
fn the_newest_complete_version_stays_on_nodes_that_have_left() {
    let (mut home, mut cut, mut lower, mut upper) = (home(1, 0..3), node(0), node(1), node(2));
    for (node, half) in [(&mut lower, 0..4), (&mut upper, 4..WHOLE)] {
        let who = who(node.node().0);
        node.declare(who, Stage::member(1, range(half.start, half.end))).unwrap();
        node.publish(who.writer, 1).unwrap();
    }
    exchange(&mut home, &mut [&mut cut, &mut lower, &mut upper]);
    for node in [&mut lower, &mut upper] {
        let who = who(node.node().0);
        node.publish(who.writer, 2).unwrap();
        node.declare(who, Stage::left(3)).unwrap();
    }
    cut.declare(who(0), Stage::member(3, range(0, WHOLE))).unwrap();
    [&cut, &lower, &upper].into_iter().for_each(|node| _ = home.receive(node.report()));
    hear(&home, &mut cut);
    cut.publish(who(0).writer, 3).unwrap();
    home.receive(cut.report());
    [&mut lower, &mut upper].into_iter().for_each(|node| hear(&home, node));
    [&lower, &upper].into_iter().for_each(|node| _ = home.receive(node.report()));
    assert_eq!(home.announced().version, 2);
    hear(&home, &mut lower);
    next(&mut [&mut lower, &mut upper]);
    assert!(lower.has_pinned(2) && upper.has_pinned(2));
}

#[test]
fn a_runtime_that_is_started_again_is_not_lost() {
    let (_, _, mut other) = alone();
    let mut again = node(5);
    again.restore(who(5), vec![Stage::member(1, range(0, WHOLE))]);
    again.publish(who(5).writer, 1).unwrap();
    again.die(who(5).writer);
    let mut home = home(2, [1, 5]);
    home.set_replaced([(Node(0), Node(5))]);
    [&mut other, &mut again].into_iter().for_each(|node| node.follow(2));
    exchange(&mut home, &mut [&mut other, &mut again]);
    assert_eq!(home.announced().version, 1);
}

#[test]
fn a_node_whose_writers_were_replaced_is_not_missed_when_its_home_is() {
    let (mut home, mut lost, mut stays) = halves();
    lost.publish(who(0).writer, 2).unwrap();
    exchange(&mut home, &mut [&mut lost, &mut stays]);
    home.lose(Node(0));
    stays.declare(of(1, 2), Stage::member(3, range(0, 4))).unwrap();
    exchange(&mut home, &mut [&mut stays]);
    for version in 2..30 {
        stays.publish(who(1).writer, version).unwrap();
        _ = stays.publish(of(1, 2).writer, version);
        exchange(&mut home, &mut [&mut stays]);
    }
    [who(1), of(1, 2)].iter().for_each(|who| stays.die(who.writer));
    exchange(&mut home, &mut [&mut stays]);
    assert_eq!(next(&mut [&mut stays]).announced().version, 29);
}

#[test]
fn the_greatest_number_has_nothing_above_it() {
    let (mut home, mut writing, mut other) = (home(1, 0..2), node(0), node(1));
    writing.declare(who(0), Stage::member(1, range(0, WHOLE))).unwrap();
    writing.publish(who(0).writer, Version::MAX).unwrap();
    exchange(&mut home, &mut [&mut writing, &mut other]);
    assert_eq!(home.announced().version, Version::MAX);
    assert_eq!(next(&mut [&mut other]).announced().version, Version::MAX);
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
fn a_node_of_which_only_who_keeps_the_names_hears_can_be_excused() {
    let (mut home, mut writing, mut silent) = alone();
    let held = publish(&mut home, &mut writing, 2..40);
    assert_eq!((held < 39, home.unacknowledged()), (true, &[Node(1)].into()));
    home.excuse(&[Node(1)].into());
    assert_eq!(publish(&mut home, &mut writing, [40]), 40);
    // What it has acknowledged counts again.
    exchange(&mut home, &mut [&mut writing, &mut silent]);
    let held = publish(&mut home, &mut writing, 41..80);
    assert!(held < 79, "{held}");
}

#[test]
fn a_node_that_joins_and_says_no_more_holds_nothing_up() {
    let (mut home, mut writing, mut other) = alone();
    home.admit(Node(2));
    home.receive(node(2).report());
    for version in 2..40 {
        writing.publish(who(0).writer, version).unwrap();
        exchange(&mut home, &mut [&mut writing, &mut other]);
    }
    assert_eq!(home.announced().version, 39);
}

/// Also if it has still to report when the next ceiling is set.
#[test]
fn a_node_that_joins_before_another_ceiling_and_reports_after_it_holds_nothing_up() {
    for is_started_again in [false, true] {
        let (mut home, mut writing, mut other) = alone();
        let mut nodes = vec![&mut writing];
        if is_started_again {
            home.replace(Node(1), Node(2));
        } else {
            home.admit(Node(2));
            nodes.push(&mut other);
        }
        let before = home.decision(Node(0)).unwrap().ceiling.clone();
        for version in 2..40 {
            nodes[0].publish(who(0).writer, version).unwrap();
            exchange(&mut home, &mut nodes);
            if version == 20 {
                assert_ne!(home.decision(Node(0)).unwrap().ceiling, before);
                home.receive(node(2).report());
            }
        }
        assert_eq!(home.announced().version, 39, "it is started again: {is_started_again}");
    }
}

/// The home and a writer are on the first node; one on the second has left, and its node is silent since before it heard that this counts.
/// It is to be excused. The third node has heard of so many versions more.
fn silent_since_it_left(heard: u64) -> (Home, Runtime, Runtime, Runtime) {
    let (mut home, mut cut, mut silent, mut third) = (home(1, 0..3), node(0), node(1), node(2));
    cut.declare(who(0), Stage::member(1, range(4, WHOLE))).unwrap();
    silent.declare(who(1), Stage::member(1, range(0, 4))).unwrap();
    cut.publish(who(0).writer, 1).unwrap();
    silent.publish(who(1).writer, 1).unwrap();
    exchange(&mut home, &mut [&mut cut, &mut silent, &mut third]);
    silent.declare(who(1), Stage::left(2)).unwrap();
    home.receive(silent.report());
    cut.declare(of(0, 2), Stage::member(2, range(0, 4))).unwrap();
    exchange(&mut home, &mut [&mut cut, &mut third]);
    let go_on = |home: &mut Home, nodes: &mut [&mut Runtime], version| {
        nodes[0].publish(who(0).writer, version).unwrap();
        nodes[0].publish(of(0, 2).writer, version).unwrap();
        exchange(home, nodes);
    };
    go_on(&mut home, &mut [&mut cut, &mut third], 2);
    assert_eq!((home.announced().version, home.unacknowledged()), (1, &[Node(1)].into()));
    home.excuse(&[Node(1)].into());
    for version in 3..=2 + heard {
        go_on(&mut home, &mut [&mut cut, &mut third], version);
    }
    for version in 3 + heard..40 {
        go_on(&mut home, &mut [&mut cut], version);
    }
    (home, cut, silent, third)
}

#[test]
fn a_node_that_is_silent_since_its_writer_left_does_not_say_how_far_its_home_came() {
    for heard in 0..12 {
        let (former, _, mut silent, mut third) = silent_since_it_left(heard);
        let complete = former.announced().version;
        let home = next(&mut [&mut silent, &mut third]);
        assert!(home.announced().version >= complete, "{:?} after {complete}, heard {heard}", home.announced());
    }
}

#[test]
fn a_node_that_has_not_heard_that_it_has_no_part_any_more_holds_up_until_it_has_or_is_lost() {
    for is_lost in [false, true] {
        let (mut home, mut cut, mut silent, mut third) = silent_since_it_left(4);
        assert_eq!((home.announced().version, home.unacknowledged()), (1, &[Node(1)].into()));
        if is_lost {
            home.lose(Node(1));
            exchange(&mut home, &mut [&mut cut, &mut third]);
        } else {
            exchange(&mut home, &mut [&mut cut, &mut silent, &mut third]);
        }
        assert_eq!(home.announced().version, 39, "it is lost: {is_lost}");
    }
}

/// It answers all that it is asked, and each time a moment later than the next is asked.
#[test]
fn a_node_that_was_excused_counts_again_with_whatever_it_acknowledges_next() {
    let (mut home, mut writing, mut slow) = alone();
    publish(&mut home, &mut writing, 2..40);
    home.excuse(&[Node(1)].into());
    publish(&mut home, &mut writing, [40]);
    let late = home.decision(Node(1)).unwrap().clone();
    let before = publish(&mut home, &mut writing, 41..80);
    assert_eq!(before, 79, "it is not waited for");
    slow.hear(late);
    home.receive(slow.report());
    assert_eq!(home.unacknowledged(), &[Node(1)].into());
    assert_eq!(publish(&mut home, &mut writing, 80..100), 79, "it may not know of more");
    exchange(&mut home, &mut [&mut writing, &mut slow]);
    assert_eq!(home.announced().version, 99);
    let held = publish(&mut home, &mut writing, 100..140);
    assert!(held < 139, "{held}");
}

#[test]
fn a_home_that_retires_announces_nothing_more_and_the_next_one_leaves_no_number_out() {
    for is_heard in [true, false] {
        let (mut former, mut writing, mut other) = alone();
        former.retire();
        assert!(!former.has_retired(), "the other node does not know");
        writing.publish(who(0).writer, 2).unwrap();
        if is_heard {
            exchange(&mut former, &mut [&mut writing, &mut other]);
        } else {
            exchange(&mut former, &mut [&mut writing]);
        }
        assert_eq!((former.has_retired(), former.announced().version), (is_heard, 1));
        let home = next(&mut [&mut other]);
        assert_eq!((home.announced().version == 1, home.announced().is_gone()), (is_heard, !is_heard));
    }
}

#[test]
fn places_of_a_home_that_retires_are_free_from_the_version_after_the_newest_on() {
    let (mut home, mut lower, mut upper) = halves();
    lower.publish(who(0).writer, 2).unwrap();
    upper.publish(who(1).writer, 2).unwrap();
    [&mut lower, &mut upper].into_iter().for_each(|node| _ = home.receive(node.report()));
    hear(&home, &mut upper);
    assert!(upper.has_pinned(2), "it is proposed");
    home.retire();
    exchange(&mut home, &mut [&mut lower, &mut upper]);
    assert!(home.has_retired());
    assert_eq!((home.announced().version, home.proposed(), upper.has_pinned(2)), (1, None, false));
    // Its node is gone, and somebody goes on from the newest complete version.
    let mut home = next(&mut [&mut upper]);
    upper.declare(of(1, 2), Stage::member(2, range(0, 4))).unwrap();
    assert_eq!(exchange(&mut home, &mut [&mut upper]), []);
    upper.publish(of(1, 2).writer, 2).unwrap();
    exchange(&mut home, &mut [&mut upper]);
    assert_eq!(home.announced().version, 2);
}

/// A version is given up and proposed once more with other nodes; one of its nodes has not heard of the time between.
#[test]
fn what_a_node_pins_says_whose_it_is_also_where_it_is_proposed_once_more() {
    let (mut home, mut lost, mut stays, mut heir) = (home(1, 0..3), node(0), node(1), node(2));
    lost.declare(who(0), Stage::member(1, range(0, 4))).unwrap();
    stays.declare(who(1), Stage::member(1, range(4, WHOLE))).unwrap();
    [&mut lost, &mut stays, &mut heir].into_iter().for_each(|node| _ = home.receive(node.report()));
    lost.publish(who(0).writer, 1).unwrap();
    stays.publish(who(1).writer, 1).unwrap();
    [&mut lost, &mut stays].into_iter().for_each(|node| _ = home.receive(node.report()));
    hear(&home, &mut stays);
    let nodes = |node: &Runtime| node.report().pins.first().map(|pin| pin.nodes.iter().copied().collect::<Vec<_>>());
    assert_eq!(nodes(&stays), Some(vec![Node(0), Node(1)]));
    home.lose(Node(0));
    heir.declare(who(2), Stage::member(1, range(0, 4))).unwrap();
    home.receive(heir.report());
    hear(&home, &mut heir);
    heir.publish(who(2).writer, 1).unwrap();
    home.receive(heir.report());
    hear(&home, &mut stays);
    assert_eq!(nodes(&stays), Some(vec![Node(1), Node(2)]));
}
