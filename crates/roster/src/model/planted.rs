//! Each rule is broken once: the model notices, and what it says is about that rule.

use super::{
    checker::explore,
    setups::{
        alone, cut_off, cut_off_with_home, inheriting, inheriting_later, member_of, one_node, overlapping, roster,
        script, two_nodes,
    },
    world::{Op::Publish, Setup},
};
use crate::planted::Bug;

/// More states than any of these needs until the bug is found.
const STATES_MAX: usize = 300_000;

fn notice(bug: Bug, setup: Setup, expected: &str) {
    let found = explore(&Setup { bug: Some(bug), ..setup }, STATES_MAX);
    let wrong = found.expect_err("a planted bug was not noticed");
    println!("{bug:?}: {}", wrong.lines().next().unwrap_or_default());
    assert!(wrong.contains(expected), "{bug:?} was noticed as something else: {wrong}");
}

#[test]
fn an_open_roster_that_counts_as_closed_is_noticed() {
    // It also refuses writers that come later; which of the two is come upon first is chance.
    notice(Bug::OpenRosters, Setup { may_refuse: true, ..two_nodes(1) }, "was announced with the writers");
}

#[test]
fn a_version_that_is_proposed_before_all_published_it_is_noticed() {
    notice(Bug::Unpublished, two_nodes(1), "is to be pinned and is not there");
}

#[test]
fn elements_of_another_version_are_noticed() {
    notice(Bug::StaleElements, Setup { wants: vec![(0, 2, 0, 4)], ..two_nodes(2) }, "gets elements of another version");
}

#[test]
fn a_roster_that_is_changed_when_it_was_announced_is_noticed() {
    // Before it is announced, or after; which of the two is come upon first is chance.
    notice(Bug::LateChanges, late(), "version 1 was announced");
}

#[test]
fn fragments_that_may_overlap_are_noticed() {
    notice(Bug::Overlaps, overlapping(), "reader 0 gets");
}

#[test]
fn a_home_that_announces_before_all_pin_is_noticed() {
    // Of the first version no node can acknowledge the ceiling without having heard that it is to pin it.
    notice(Bug::Unpinned, Setup { margin: 2, ..two_nodes(2) }, "does not pin it");
}

#[test]
fn a_home_that_takes_older_reports_for_newer_ones_is_noticed() {
    notice(Bug::OldReports, Setup { kept: 4, ..alone(1) }, "was refused");
}

#[test]
fn a_new_home_that_does_not_wait_for_all_nodes_is_noticed() {
    // It also refuses writers of which it has yet to hear; which of the two is come upon first is chance.
    notice(Bug::HastyHome, Setup { home_changes: 1, may_refuse: true, ..two_nodes(1) }, "does not pin it");
}

#[test]
fn a_new_home_that_forgets_what_the_former_one_announced_is_noticed() {
    notice(Bug::ForgetfulHome, Setup { home_changes: 1, ..alone(2) }, "does not pin it");
}

#[test]
fn programs_that_find_out_by_themselves_what_is_complete_are_noticed() {
    notice(Bug::LoneBoards, cut_off(2), "is complete twice");
}

#[test]
fn a_home_that_announces_what_nobody_else_can_know_of_is_noticed() {
    // It gets other writers, or is announced twice; which of the two is come upon first is chance.
    notice(Bug::Boundless, cut_off_with_home(2, 1), "version 1 ");
}

#[test]
fn a_home_that_leaves_before_all_know_how_far_it_came_is_noticed() {
    notice(Bug::HastyLeave, Setup { retires: 1, ..cut_off_with_home(2, 1) }, "numbers are left out");
}

#[test]
fn a_runtime_that_obeys_a_former_home_is_noticed() {
    notice(Bug::NoFence, Setup { home_changes: 1, ..alone(2) }, "");
}

#[test]
fn a_runtime_that_takes_older_decisions_for_newer_ones_is_noticed() {
    notice(Bug::OldDecisions, Setup { kept: 2, ..two_nodes(1) }, "");
}

#[test]
fn a_pin_that_is_let_go_too_early_is_noticed() {
    notice(Bug::EarlyUnpin, two_nodes(2), "does not pin it");
}

#[test]
fn a_version_that_is_pinned_anew_is_noticed() {
    notice(Bug::PinAnew, Setup { yields: 1, wants: vec![(0, 2, 0, 2)], ..alone(2) }, "anew");
}

#[test]
fn a_pin_that_is_given_up_in_silence_is_noticed() {
    notice(Bug::SilentYield, Setup { yields: 1, ..one_node(1) }, "do not pin it");
}

#[test]
fn a_dead_writer_that_stays_beside_its_heir_is_noticed() {
    notice(Bug::DeadStay, inheriting(0, 2), "is there, and is never complete");
}

#[test]
fn an_heir_that_takes_what_is_complete_is_noticed() {
    // Or it has got other writers; which of the two is come upon first is chance.
    notice(Bug::Robbed, inheriting_later(1), "version 2 was announced, and ");
}

#[test]
fn a_new_home_that_does_not_know_heirs_is_noticed() {
    notice(Bug::Disinherited, Setup { home_changes: 1, may_refuse: false, ..inheriting_later(1) }, "was refused");
}

#[test]
fn a_decision_of_which_a_home_never_hears_that_it_was_heard_is_noticed() {
    notice(Bug::SilentPin, Setup { home_changes: 1, ..two_nodes(1) }, "is never complete");
}

/// The program said one writer; another one comes, perhaps too late.
fn late() -> Setup {
    Setup {
        extent: 4,
        nodes: 2,
        writers: vec![script(0, [member_of(1, 0, 2, 1), Publish(1)]), script(1, [member_of(1, 2, 4, 1), Publish(1)])],
        truth: vec![(1, vec![roster([0]), roster([1])])],
        may_refuse: true,
        may_be_stuck: true,
        ..Setup::default()
    }
}
