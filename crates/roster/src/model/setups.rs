//! The worlds that are explored.

use std::collections::BTreeSet;

use super::{
    checker::explore,
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

use Op::Publish;

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
        writers: vec![
            script(0, [member(1, 0, 2), Publish(1), Publish(2)]),
            script(1, [member(1, 0, 2), Publish(1), Publish(2)]),
        ],
        truth: vec![(1, vec![roster([0]), roster([1])])],
        wants: vec![(0, 1, 0, 2)],
        ..Setup::default()
    }
}

fn check(name: &str, setup: &Setup) {
    let is_long = std::env::var_os("STILLFRAME_TEST_ROSTER").is_some();
    let states_max = if is_long { usize::MAX } else { 400_000 };
    let begun = std::time::Instant::now();
    let explored = explore(setup, states_max).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    println!("{name}: {explored:?} in {:.1} s", begun.elapsed().as_secs_f64());
    assert!(explored.states < states_max, "{name}: not all states were looked at");
}

#[test]
fn one_node_completes_versions() {
    check("one node", &Setup { wants: vec![(0, 2, 1, 3)], drops: 1, ..one_node(2) });
}

#[test]
fn two_nodes_complete_versions() {
    check("two nodes", &two_nodes(2));
}

#[test]
fn homes_change() {
    check("homes", &Setup { home_changes: 1, ..two_nodes(1) });
}

#[test]
fn pins_yield() {
    check("yields", &Setup { yields: 1, ..two_nodes(2) });
}

#[test]
fn writers_repart() {
    check("reparting", &reparting());
}

#[test]
fn writers_leave() {
    check("leaving", &leaving());
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
    check("nodes", &Setup { node_deaths: 1, wants: vec![(0, 1, 2, 4)], ..two_nodes(1) });
}

#[test]
fn writers_die() {
    check("writers", &Setup { writer_deaths: 1, wants: vec![(0, 1, 2, 4)], ..two_nodes(1) });
}
