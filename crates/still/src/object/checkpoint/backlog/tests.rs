use super::*;
use std::sync::mpsc::{Receiver, channel};

fn late_error() -> Error {
    Error::TimeoutElsewhere { name: "u".into(), version: 1, waited: limits::pause(), why: "node 2 is silent".into() }
}

fn backlog(all: bool) -> (Backlog, Obstacle, Receiver<Event>) {
    let (obstacle, (events, heard)) = (Obstacle::default(), channel());
    (Backlog::new(all, &obstacle, &events), obstacle, heard)
}

fn choice(version: u64) -> Choice {
    Choice { version, is_asked: false }
}

fn attempt(version: u64, is_last: bool) -> Attempt {
    Attempt { choice: choice(version), begun: Instant::now(), is_last }
}

/// The pause after which it tries again that it told last, in seconds.
fn retry(heard: &Receiver<Event>) -> Option<u64> {
    match heard.try_iter().last() {
        Some(Event::Failed { retry, .. }) => retry.map(|retry| retry.as_secs()),
        other => panic!("{other:?}"),
    }
}

fn missed(heard: &Receiver<Event>) -> Vec<u64> {
    let missed = |event| match event {
        Event::Missed { count: 1, before, .. } => Some(before - 1),
        _ => None,
    };
    heard.try_iter().filter_map(missed).collect()
}

#[test]
fn what_fails_again_and_again_waits_longer_and_the_last_version_does_not() {
    let (mut backlog, obstacle, heard) = backlog(false);
    let mut fail = |is_last| {
        backlog.fail(attempt(1, is_last), &late_error(), false);
        assert!(!backlog.is_given_up(1) && !backlog.is_due(1));
        retry(&heard).unwrap()
    };
    let pauses = [false, false, false, false, false, false, false, true, true].map(&mut fail);
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 5, 5]);
    // Once it is known that nobody will write any more before the next try.
    backlog.set_end(Some(Instant::now()));
    assert!(obstacle.has(1) && backlog.is_given_up(1) && backlog.newest().is_none());
    backlog.set_end(None);
    assert_eq!(backlog.newest(), Some(choice(1)));
}

#[test]
fn the_last_version_is_tried_twice_whatever_became_of_another() {
    let (mut backlog, _, heard) = backlog(false);
    backlog.set_end(Some(Instant::now()));
    for is_last in [false, true, true] {
        assert!(!backlog.is_given_up(1000));
        backlog.fail(attempt(1000, is_last), &late_error(), false);
    }
    assert!(backlog.is_given_up(1000));
    // It is over before the next try would begin.
    assert_eq!(retry(&heard), None);
    for (is_last, pause) in [(false, Some(8)), (true, Some(5)), (true, None)] {
        assert!(!backlog.is_given_up(1042));
        backlog.fail(attempt(1042, is_last), &late_error(), false);
        assert_eq!(retry(&heard), pause);
    }
    assert!(backlog.is_given_up(1042));
}

#[test]
fn a_newer_version_waits_no_longer_than_from_the_begin_of_the_try_before() {
    let Some(begun) = Instant::now().checked_sub(limits::pause()) else { return };
    let (mut backlog, _, _heard) = backlog(false);
    backlog.fail(Attempt { begun, ..attempt(1, false) }, &late_error(), false);
    assert!(backlog.is_due(2) && !backlog.is_due(1));
    backlog.fail(attempt(1, false), &late_error(), false);
    assert!(!backlog.is_due(2));
}

#[test]
fn what_is_late_is_tried_soon_when_nobody_writes_any_more() {
    let (mut backlog, _, _heard) = backlog(false);
    let Some(begun) = Instant::now().checked_sub(limits::pause()) else { return };
    for _ in 0..5 {
        backlog.fail(Attempt { begun, ..attempt(1, false) }, &late_error(), false);
    }
    assert!(!backlog.is_due(1) && !backlog.is_due(2));
    backlog.set_end(Some(Instant::now()));
    assert!(backlog.is_due(1) && backlog.is_due(2));
}

#[test]
fn a_version_that_is_gone_is_missed_once_another_is_put_together_where_it_had_to_be_saved() {
    for (all, is_asked, is_missed) in [(false, false, false), (true, false, true), (false, true, true)] {
        let (mut backlog, obstacle, heard) = backlog(all);
        backlog.lose(Choice { version: 7, is_asked });
        assert!(backlog.is_closed(7) && !obstacle.has(7) && missed(&heard).is_empty());
        backlog.hand_over(8);
        assert_eq!(missed(&heard), if is_missed { vec![7] } else { vec![] });
        // Or at the end.
        backlog.lose(Choice { version: 9, is_asked });
        backlog.finish();
        assert_eq!(missed(&heard), if is_missed { vec![9] } else { vec![] });
    }
}

#[test]
fn a_version_of_which_a_failure_was_told_is_not_missed_before_another_is_safe() {
    for all in [false, true] {
        let (mut backlog, obstacle, heard) = backlog(all);
        backlog.fail(attempt(7, false), &late_error(), false);
        backlog.lose(choice(7));
        backlog.hand_over(8);
        backlog.finish();
        assert!(obstacle.has(7) && missed(&heard).is_empty());
    }
    // Nobody will know whether it was due.
    let (mut backlog, obstacle, heard) = backlog(false);
    let asked = Choice { version: 7, is_asked: true };
    backlog.fail(Attempt { choice: asked, ..attempt(7, false) }, &late_error(), false);
    backlog.lose(asked);
    backlog.hand_over(8);
    backlog.finish();
    assert!(!obstacle.has(7) && missed(&heard) == [7]);
}

#[test]
fn a_version_for_which_the_condition_does_not_hold_is_no_failure_any_more() {
    let (mut backlog, obstacle, heard) = backlog(false);
    backlog.fail(attempt(7, false), &late_error(), false);
    backlog.decline(7);
    assert!(!obstacle.has(7) && missed(&heard).is_empty() && backlog.open().next().is_none());
}

#[test]
fn of_an_object_of_which_nobody_writes_a_part_the_newest_version_is_the_failure() {
    let (mut backlog, obstacle, heard) = backlog(false);
    for version in 1..=3 {
        backlog.close_unwritten(choice(version), &late_error(), true);
    }
    assert!((1..=3).all(|version| backlog.is_closed(version)) && obstacle.has(3) && !obstacle.has(2));
    let told: Vec<Event> = heard.try_iter().collect();
    assert!(matches!(told[0], Event::Failed { version: 1, retry: None, .. }), "{told:?}");
    assert_eq!(told[1..], [Event::missed(1), Event::missed(2)]);
}

#[test]
fn a_last_version_that_is_gone_is_missed_and_a_failure() {
    let (mut backlog, obstacle, heard) = backlog(false);
    backlog.miss_gone(3, true);
    backlog.finish();
    assert!(obstacle.has(3) && missed(&heard) == [3]);
}

#[test]
fn what_fails_for_long_takes_no_more_memory_than_what_failed_for_a_while() {
    let (mut backlog, obstacle, heard) = backlog(false);
    (1..=100).for_each(|version| backlog.fail(attempt(version, false), &late_error(), false));
    assert_eq!(backlog.open().count(), VERSIONS_MAX);
    assert_eq!(missed(&heard), (1..=36).collect::<Vec<u64>>());
    assert!(backlog.is_closed(36) && !obstacle.has(36) && obstacle.has(37));
}

#[test]
fn what_never_heals_does_not_pass() {
    let fault = |is_timeout| Error::Plan { name: "u".into(), why: "no room".into(), is_timeout };
    let runtime = Error::NoRuntime { path: "runtime".into(), why: "it has ended".into() };
    let memory = |bytes| Error::NoMemory { name: "u".into(), bytes, taken_bytes: 8, bound_bytes: 16 };
    let lost = Error::LostElsewhere { name: "u".into(), version: 1, why: "it went".into() };
    let damaged = Error::Corrupt { path: "board".into(), offset: 0, why: "?".into() };
    assert!([late_error(), fault(true), runtime, memory(16)].iter().all(may_pass));
    assert!(![fault(false), memory(17), lost, damaged, Error::Removed { name: "u".into() }].iter().any(may_pass));
}
