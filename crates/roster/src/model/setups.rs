//! The worlds that are explored.

use std::collections::BTreeSet;

use Op::Publish;

use super::{
    checker::{Explored, explore},
    world::{Op, Script, Setup, range},
};
use crate::writer::{Stage, Version};

pub fn member(from: Version, start: u64, end: u64) -> Op {
    Op::Declare(Stage::member(from, range(start, end)))
}

pub fn member_of(from: Version, start: u64, end: u64, expected: u32) -> Op {
    Op::Declare(Stage::member_of(from, range(start, end), expected))
}

pub fn left(from: Version) -> Op {
    Op::Declare(Stage::left(from))
}

pub fn script(node: usize, ops: impl IntoIterator<Item = Op>) -> Script {
    Script { node, ops: ops.into_iter().collect() }
}

pub fn roster(writers: impl IntoIterator<Item = usize>) -> BTreeSet<usize> {
    writers.into_iter().collect()
}

/// Two nodes with a writer each, and so many versions.
pub fn two_nodes(versions: Version) -> Setup {
    let ops = |start| [member(1, start, start + 2)].into_iter().chain((1..=versions).map(Publish));
    Setup {
        extent: 4,
        nodes: 2,
        writers: vec![script(0, ops(0)), script(1, ops(2))],
        truth: vec![(1, vec![roster([0, 1])])],
        ..Setup::default()
    }
}

/// One writer, so many versions.
pub fn alone(versions: Version) -> Setup {
    Setup {
        extent: 2,
        nodes: 1,
        writers: vec![script(0, [member(1, 0, 2)].into_iter().chain((1..=versions).map(Publish)))],
        truth: vec![(1, vec![roster([0])])],
        ..Setup::default()
    }
}

/// Three nodes with a writer each, and so many versions.
fn three_nodes(versions: Version) -> Setup {
    let ops = |start| [member(1, start, start + 2)].into_iter().chain((1..=versions).map(Publish));
    Setup {
        extent: 6,
        nodes: 3,
        writers: vec![script(0, ops(0)), script(1, ops(2)), script(2, ops(4))],
        truth: vec![(1, vec![roster([0, 1, 2])])],
        attached: true,
        ..Setup::default()
    }
}

/// One node, three writers.
pub fn one_node(versions: Version) -> Setup {
    let ops = |start| [member(1, start, start + 2)].into_iter().chain((1..=versions).map(Publish));
    Setup {
        extent: 6,
        nodes: 1,
        writers: vec![script(0, ops(0)), script(0, ops(2)), script(0, ops(4))],
        truth: vec![(1, vec![roster([0, 1, 2])])],
        ..Setup::default()
    }
}

/// Two writers that move the border between them from version 2 on.
pub fn reparting() -> Setup {
    Setup {
        extent: 4,
        nodes: 2,
        writers: vec![
            script(0, [member(1, 0, 2), Publish(1), member(2, 0, 3), Publish(2)]),
            script(1, [member(1, 2, 4), Publish(1), member(2, 3, 4), Publish(2)]),
        ],
        truth: vec![(1, vec![roster([0, 1])])],
        wants: vec![(0, 2, 0, 4)],
        ..Setup::default()
    }
}

/// A writer leaves, and one on another node takes its place from version 2 on.
pub fn leaving() -> Setup {
    Setup {
        extent: 4,
        nodes: 2,
        writers: vec![
            script(0, [member(1, 0, 2), Publish(1), Publish(2)]),
            script(1, [member(1, 2, 4), Publish(1), left(2)]),
            script(0, [member(2, 2, 4), Publish(2)]),
        ],
        truth: vec![(1, vec![roster([0, 1])]), (2, vec![roster([0, 2])])],
        ..Setup::default()
    }
}

/// Two writers that the program promised, and a hole between them.
pub fn counted() -> Setup {
    Setup {
        extent: 5,
        nodes: 2,
        writers: vec![
            script(0, [member_of(1, 0, 2, 2), Publish(1), Publish(2)]),
            script(1, [member_of(1, 3, 5, 2), Publish(1), Publish(2)]),
        ],
        truth: vec![(1, vec![roster([0, 1])])],
        wants: vec![(0, 1, 2, 3)],
        ..Setup::default()
    }
}

/// Two writers of which each wants the whole object: one is refused.
pub fn overlapping() -> Setup {
    Setup {
        extent: 2,
        nodes: 2,
        writers: vec![script(0, [member(1, 0, 2), Publish(1)]), script(1, [member(1, 0, 2), Publish(1)])],
        truth: vec![(1, vec![roster([0]), roster([1])])],
        may_refuse: true,
        wants: vec![(0, 1, 0, 2)],
        ..Setup::default()
    }
}

/// Two writers, of which the one may die when it is ahead, and a third that then takes its place on one of the nodes.
pub fn inheriting(heir: usize, versions: Version) -> Setup {
    let ops = |start| [member(1, start, start + 2)].into_iter().chain((1..=versions).map(Publish));
    Setup {
        extent: 4,
        nodes: 2,
        writers: vec![
            script(0, ops(0)),
            script(1, ops(2)),
            script(heir, [Op::Inherit { of: 0, start: 0, end: 2, from: None }, Op::PublishUpTo(versions)]),
        ],
        truth: vec![(1, vec![roster([0, 1]), roster([2, 1])])],
        writer_deaths: 1,
        attached: true,
        heard: true,
        ..Setup::default()
    }
}

/// The same with one version, which the third wants to begin with, while the others have attached before it.
pub fn inheriting_later(heir: usize) -> Setup {
    let ops = |start| [member(1, start, start + 2), Publish(2)];
    let inherit = Op::Inherit { of: 0, start: 0, end: 2, from: Some(2) };
    let writers = vec![script(0, ops(0)), script(1, ops(2)), script(heir, [inherit, Op::PublishUpTo(2)])];
    Setup { writers, may_refuse: true, ..inheriting(heir, 2) }
}

/// A node whose writer has the whole object, and another one that takes its place once it is cut off.
pub fn cut_off(versions: Version) -> Setup {
    let ops = [member(1, 0, 2)].into_iter().chain((1..=versions).map(Publish));
    let inherit = Op::Inherit { of: 0, start: 0, end: 2, from: None };
    Setup {
        extent: 2,
        nodes: 2,
        writers: vec![script(0, ops), script(1, [inherit, Op::PublishUpTo(versions + 1)])],
        truth: vec![(1, vec![roster([0]), roster([1])])],
        cuts: 1,
        // What is cut off completes nothing; and who wants its place before the home has lost it is refused.
        may_be_stuck: true,
        may_refuse: true,
        attached: true,
        heard: true,
        ..Setup::default()
    }
}

/// The same, where the home lies on the node that is cut off, and another one takes over.
pub fn cut_off_with_home(versions: Version, margin: u64) -> Setup {
    let mut setup = Setup { homes_on_nodes: true, home_changes: 1, margin, ..cut_off(versions) };
    setup.writers[1].ops[1] = Op::PublishUpTo(versions + margin + 2);
    setup
}

/// Two nodes of which the first is cut off with the home; from what is left somebody on the second one goes on.
fn cut_off_from(writers: Vec<Script>, later: Vec<BTreeSet<usize>>) -> Setup {
    let first = roster(if writers[1].is_from_the_beginning() { vec![0, 1] } else { vec![0] });
    // Whoever takes the place of one that is gone may begin with the first version, too.
    let first = [&[first][..], &later[..]].concat();
    Setup {
        extent: 4,
        nodes: 2,
        writers,
        truth: vec![(1, first), (2, later)],
        cuts: 1,
        homes_on_nodes: true,
        home_changes: 1,
        margin: 1,
        may_be_stuck: true,
        may_refuse: true,
        attached: true,
        heard: true,
        ..Setup::default()
    }
}

/// A writer of the node that stays leaves, and one on the other node takes its place.
pub fn cut_off_from_one_that_left() -> Setup {
    let writers = vec![
        script(0, [member(1, 0, 2), Publish(1), Publish(2)]),
        script(1, [member(1, 2, 4), Publish(1), left(2)]),
        script(0, [member(2, 2, 4), Publish(2)]),
        script(1, [Op::Inherit { of: 0, start: 0, end: 4, from: None }, Op::PublishUpTo(4)]),
    ];
    cut_off_from(writers, vec![roster([0, 2]), roster([3])])
}

/// A writer of the node that stays dies when it is ahead, and one on the other node takes its place.
pub fn cut_off_from_one_that_died() -> Setup {
    let writers = vec![
        script(0, [member(1, 0, 2), Publish(1), Publish(2)]),
        script(1, [member(1, 2, 4), Publish(1), Publish(2)]),
        script(0, [Op::Inherit { of: 1, start: 2, end: 4, from: None }, Op::PublishUpTo(2)]),
        script(1, [Op::Inherit { of: 0, start: 0, end: 4, from: None }, Op::PublishUpTo(4)]),
    ];
    let rosters = [vec![0, 1], vec![0, 2], vec![3]].map(roster).to_vec();
    Setup { writer_deaths: 1, ..cut_off_from(writers, rosters) }
}

/// A writer of the node that stays wants elements that another one keeps by publishing.
pub fn cut_off_from_one_that_is_refused() -> Setup {
    let writers = vec![
        script(0, [member(1, 0, 4), Publish(1), Publish(2)]),
        script(1, [member(2, 2, 4), Publish(2), Publish(3), Publish(4)]),
        script(1, [Op::Inherit { of: 0, start: 0, end: 2, from: None }, Op::PublishUpTo(4)]),
    ];
    cut_off_from(writers, vec![roster([0]), roster([1, 2])])
}

/// Looks at all states.
fn check(name: &str, setup: &Setup) -> Explored {
    let begun = std::time::Instant::now();
    let explored = explore(setup, usize::MAX).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    let seconds = begun.elapsed().as_secs_f64();
    println!("{name}: {} states, {} of them to the end, in {seconds:.1} s", explored.states, explored.finished);
    explored
}

#[test]
fn one_node_completes_versions() {
    check("one node", &Setup { wants: vec![(0, 1, 1, 3)], attached: true, ..one_node(2) });
    check("a version that is let go", &Setup { drops: 1, attached: true, ..one_node(2) });
}

#[test]
fn two_nodes_complete_versions() {
    check("two nodes", &two_nodes(2));
    check("two nodes, and messages that overtake", &Setup { kept: 2, ..two_nodes(1) });
}

#[test]
fn three_nodes_complete_versions() {
    check("three nodes", &three_nodes(1));
    check("three nodes, of which one dies", &Setup { node_deaths: 1, ..three_nodes(1) });
}

#[test]
fn homes_change() {
    check("a change of home", &Setup { home_changes: 1, ..alone(3) });
    let overtaking = Setup { home_changes: 1, kept: 2, attached: true, ..alone(2) };
    check("a change of home, and messages that overtake", &overtaking);
    check("a change of home and a death", &Setup { home_changes: 1, node_deaths: 1, attached: true, ..two_nodes(1) });
    check("a change of home of two nodes", &Setup { home_changes: 1, attached: true, ..two_nodes(1) });
}

#[test]
fn what_is_cut_off_completes_nothing_twice() {
    check("a node that is cut off", &cut_off(2));
    let explored = check("a node that is cut off with the home", &cut_off_with_home(2, 0));
    assert_eq!(explored.newest, 2 + 2, "whoever takes the place goes on");
}

#[test]
fn a_home_that_retires_leaves_no_numbers_out() {
    check("a home that is about to leave", &Setup { retires: 1, ..cut_off_with_home(1, 0) });
}

#[test]
fn a_home_that_is_cut_off_completes_nothing_twice() {
    let explored = check("a node that is cut off with the home, one ahead", &cut_off_with_home(2, 1));
    assert_eq!(explored.newest, 2 + 1 + 2, "whoever takes the place goes on");
    check("a node that is cut off from one whose writer left", &cut_off_from_one_that_left());
}

#[test]
fn a_home_that_is_cut_off_from_a_refused_writer_completes_nothing_twice() {
    check("a node that is cut off from one whose writer is refused", &cut_off_from_one_that_is_refused());
}

#[test]
fn pins_yield() {
    check("yields", &Setup { yields: 1, attached: true, ..two_nodes(2) });
    check("yields and a change of home", &Setup { yields: 1, home_changes: 1, ..alone(2) });
}

#[test]
fn writers_repart() {
    check("reparting", &Setup { attached: true, heard: true, ..reparting() });
}

#[test]
fn writers_leave() {
    check("leaving", &Setup { attached: true, heard: true, ..leaving() });
}

#[test]
fn holes_are_known() {
    check("counted", &counted());
}

#[test]
fn overlaps_are_refused() {
    check("overlapping", &overlapping());
}

#[test]
fn nodes_are_lost() {
    check("nodes", &Setup { node_deaths: 1, wants: vec![(0, 1, 2, 4)], attached: true, ..two_nodes(1) });
}

#[test]
fn writers_die() {
    check("writers", &Setup { writer_deaths: 1, wants: vec![(0, 1, 2, 4)], attached: true, ..two_nodes(1) });
}

#[test]
fn heirs_go_on() {
    for heir in 0..2 {
        check(&format!("an heir on node {heir}"), &inheriting(heir, 2));
        check(&format!("an heir of a part on node {heir}"), &inheriting_later(heir));
    }
    check("an heir of a lost node's writer", &Setup { node_deaths: 1, ..inheriting_later(1) });
    check("an heir, and yields", &Setup { yields: 1, ..inheriting_later(0) });
}

#[test]
fn heirs_go_on_under_another_home() {
    for heir in 0..2 {
        let homes = Setup { home_changes: 1, ..inheriting_later(heir) };
        check(&format!("an heir on node {heir}, and a change of home"), &homes);
    }
}

/// Minutes to hours, and gigabytes.
#[test]
fn larger_worlds_hold_too() {
    if std::env::var_os("STILLFRAME_TEST_ROSTER").is_none() {
        return;
    }
    check("two nodes, and messages that overtake", &Setup { kept: 2, ..two_nodes(2) });
    check("homes", &Setup { home_changes: 1, attached: true, ..two_nodes(2) });
    check("yields and homes", &Setup { yields: 1, home_changes: 1, attached: true, ..two_nodes(1) });
    check("deaths and homes", &Setup { node_deaths: 1, home_changes: 1, attached: true, ..two_nodes(1) });
    check("reparting and homes", &Setup { home_changes: 1, attached: true, heard: true, ..reparting() });
    check("a node that is cut off from one whose writer died", &cut_off_from_one_that_died());
    check("three nodes", &three_nodes(2));
    for heir in 0..2 {
        check("an heir, and homes", &Setup { home_changes: 1, ..inheriting(heir, 2) });
        check("an heir, and messages that overtake", &Setup { kept: 2, ..inheriting(heir, 2) });
    }
}
