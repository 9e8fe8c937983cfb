//! Versions of an object that cannot be read for a while, because this node's runtime does not run, or at all, and who saves them.

use crate::support::remote::{Answer, Heat, Saver};
use crate::support::until;
use std::collections::BTreeSet;
use std::fs::File;
use std::sync::{Arc, Mutex};
use stillframe_object::Objects;

#[test]
fn a_version_that_cannot_be_read_for_a_while_is_saved_in_the_end() {
    for rules in [&[][..], &["--once"], &["--every", "1"], &["--when", "version == 1"], &["--all"]] {
        let mut heat = Heat::new();
        let saver = heat.saver(rules);
        saver.await_failure();
        let _runtime = heat.start_runtime();
        until("the version is safe", || heat.is_safe(1));
        heat.detach(1);
        let (code, last, complaint) = saver.end();
        assert_eq!((code, complaint.as_str()), (Some(0), ""), "{rules:?}: {last}");
        assert!(last.contains("\"state\":\"ended\"") && last.contains("\"unsaved\":[]"), "{rules:?}: {last}");
    }
}

#[test]
fn a_later_version_that_is_safe_stands_for_one_that_could_not_be_read() {
    let mut heat = Heat::new();
    let saver = heat.saver(&["--every", "1"]);
    saver.await_failure();
    heat.complete(2);
    until("it tries the later one", || saver.said(&["\"failed\"", "\"version\":2"]));
    let _runtime = heat.start_runtime();
    until("the later version is safe", || heat.is_safe(2));
    heat.detach(2);
    until("the version before it is missed", || saver.said(&["\"missed\"", "\"after\":0", "\"before\":2"]));
    let (code, last, _) = saver.end();
    assert_eq!(code, Some(0), "{last}");
    assert!(last.contains("\"missed\":1"), "{last}");
    assert!(!heat.is_safe(1));
}

#[test]
fn a_last_version_that_cannot_be_read_is_a_failure() {
    for rules in [&[][..], &["--once"], &["--every", "1000"], &["--all"], &["--when", "true"]] {
        let mut heat = Heat::new();
        let saver = heat.saver(rules);
        if rules != ["--every", "1000"] {
            saver.await_failure();
        }
        heat.detach(1);
        match rules {
            // None was due.
            ["--every", "1000"] => assert_eq!(saver.end().0, Some(0)),
            _ => saver.assert_fails(&format!("{rules:?}")),
        }
    }
}

#[test]
fn a_last_version_that_is_due_at_the_end_and_cannot_be_read_is_a_failure() {
    let mut heat = Heat::new();
    let saver = heat.saver(&["--at-end"]);
    heat.detach(1);
    saver.await_failure();
    saver.assert_fails("--at-end");
    // It ends as well where they left before.
    heat.saver(&["--once"]).assert_fails("--once");
}

#[test]
fn who_is_ended_while_a_version_cannot_be_read_says_that_it_is_not_saved() {
    for rules in [&[][..], &["--once"], &["--follow", "600"]] {
        let heat = Heat::new();
        let saver = heat.saver(rules);
        saver.await_failure();
        saver.terminate();
        saver.assert_fails(&format!("{rules:?}"));
    }
}

/// Where a version is lost that is complete, the newest stays the newest, and errors say that it is lost.
#[test]
fn the_newest_version_that_is_lost_is_a_failure() {
    for rules in [&[][..], &["--once"], &["--every", "1"], &["--when", "true"], &["--all"], &["--at-end"]] {
        let mut heat = Heat::new();
        let _runtime = heat.start_runtime_that(|_| Answer::Lost);
        let saver = heat.saver(rules);
        heat.detach(1);
        saver.assert_fails(&format!("{rules:?}"));
    }
}

#[test]
fn a_version_that_is_lost_is_not_asked_for_without_end() {
    let mut heat = Heat::new();
    let _runtime = heat.start_runtime_that(|_| Answer::Lost);
    let saver = heat.saver(&["--every-seconds", "600"]);
    until("it asks for the version", || !heat.wanted.lock().unwrap().is_empty());
    heat.detach(1);
    saver.assert_fails("--every-seconds");
    let wanted = heat.wanted.lock().unwrap().len();
    assert!(wanted <= 8, "{wanted} times");
}

#[test]
fn a_multiple_that_goes_while_it_is_read_is_followed_by_the_next_version() {
    let mut heat = Heat::new();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let gone = std::sync::Mutex::new(gone);
    let _runtime = heat.start_runtime_that(move |version| {
        if version != 1000 {
            return Answer::Filled;
        }
        let _ = gone.lock().unwrap().recv();
        Answer::Lost
    });
    let saver = heat.saver_that_reads(600_000, &["--every", "1000"]);
    heat.complete(1000);
    until("it asks for the version", || heat.wanted.lock().unwrap().contains(&1000));
    heat.complete(1042);
    go.send(()).unwrap();
    heat.detach(1042);
    let (code, last, complaint) = saver.end();
    assert_eq!((code, complaint.as_str()), (Some(0), ""), "{last}");
    assert!(heat.is_safe(1042), "{last}");
}

#[test]
fn of_all_versions_those_after_one_that_was_given_up_are_saved() {
    let mut heat = Heat::new();
    let _runtime = heat.start_runtime_that(|version| match version {
        1 => Answer::Failed,
        _ => Answer::Filled,
    });
    let saver = heat.saver(&["--all"]);
    until("it cannot read the first", || saver.said(&["\"failed\"", "\"version\":1"]));
    heat.complete(2);
    heat.detach(2);
    let (code, last, complaint) = saver.end();
    assert_eq!(code, Some(1), "{last} {complaint}");
    assert!(heat.is_safe(2) && last.contains("\"unsaved\":[1]"), "{last}");
    assert!(complaint.contains("version 1 is not saved"), "{complaint}");
}

#[test]
fn a_version_of_a_condition_is_tried_again_though_it_does_not_hold_for_a_newer_one() {
    let mut heat = Heat::new();
    let saver = heat.saver(&["--when", "version == 1"]);
    saver.await_failure();
    heat.complete(2);
    let _runtime = heat.start_runtime();
    until("it reads the newer one", || heat.wanted.lock().unwrap().contains(&2));
    heat.detach(2);
    let (code, last, complaint) = saver.end();
    assert_eq!((code, complaint.as_str()), (Some(0), ""), "{last}");
    assert!(heat.is_safe(1) && !heat.is_safe(2), "{last}");
}

#[test]
fn what_one_run_left_unsaved_is_a_failure_until_a_version_of_the_next_is_safe() {
    for is_saved in [true, false] {
        let heat = Heat::new();
        let saver = heat.saver(&["--every", "1", "--follow", "600"]);
        saver.await_failure();
        heat.scene.ok(&["rm", "--force", "heat"]);
        let objects = Objects::options().dir(heat.scene.dir()).open().unwrap();
        let object = objects.create("heat", "var u [6] int64").create().unwrap();
        until("it follows the next run", || saver.said(&["\"new-run\""]) || saver.has_ended());
        let mut writer = object.write("{ var v = u }").attach().unwrap();
        if !is_saved {
            until("it looks at the next run", || saver.count(&["\"attached\""]) == 2 || saver.has_ended());
            saver.terminate();
            saver.assert_fails("nothing of the next run");
            continue;
        }
        writer.publish(3).unwrap();
        until("a version of the next run is safe", || heat.is_safe(3) || saver.has_ended());
        until("what was before is missed", || saver.said(&["\"missed\"", "\"before\":2"]) || saver.has_ended());
        saver.terminate();
        let (code, last, complaint) = saver.end();
        assert_eq!(code, Some(0), "{last} {complaint}");
        assert!(last.contains("\"missed\":1") && last.contains("\"unsaved\":[]"), "{last}");
    }
}

/// Rules by which version 1 is due as soon as it is there.
const RULES: [&[&str]; 6] =
    [&["--once"], &["--all"], &["--every", "1"], &["--every-seconds", "600"], &["--when", "true"], &[]];

fn silent_heat() -> (Heat, File) {
    let heat = Heat::new();
    let runtime = heat.start_runtime_that(|_| Answer::Silence);
    (heat, runtime)
}

/// It ends at once, whatever the version takes, which is not saved.
#[test]
fn who_is_ended_while_a_version_is_read_that_is_due_says_that_it_is_not_saved() {
    for rules in RULES {
        let (heat, _runtime) = silent_heat();
        // With a condition it is not known whether it is due before it can be read.
        let (is_asked, saver) = (rules.contains(&"--when"), heat.saver_that_reads(3_600_000, rules));
        until("it asks for the version", || !heat.wanted.lock().unwrap().is_empty());
        saver.terminate();
        match is_asked {
            true => assert_eq!(saver.end().0, Some(0)),
            false => saver.assert_fails(&format!("{rules:?}")),
        }
    }
    let (mut heat, _runtime) = silent_heat();
    let saver = heat.saver_that_reads(3_600_000, &["--at-end"]);
    heat.detach(1);
    until("it asks for the last version", || !heat.wanted.lock().unwrap().is_empty());
    saver.terminate();
    saver.assert_fails("--at-end");
}

#[test]
fn an_object_that_is_removed_while_a_version_is_read_that_is_due_has_one_that_is_not_saved() {
    for rules in RULES.into_iter().filter(|rules| !rules.contains(&"--when")) {
        let (heat, _runtime) = silent_heat();
        let saver = heat.saver_that_reads(3_600_000, rules);
        until("it asks for the version", || !heat.wanted.lock().unwrap().is_empty());
        heat.scene.ok(&["rm", "--force", "heat"]);
        saver.assert_fails(&format!("{rules:?}"));
    }
}

#[test]
fn without_a_rule_no_version_has_to_be_safe_but_the_first() {
    let mut heat = Heat::new();
    let _runtime = heat.start_runtime_that(|version| if version == 1 { Answer::Filled } else { Answer::Silence });
    let saver = heat.saver_that_reads(3_600_000, &[]);
    until("a version is safe", || heat.is_safe(1));
    heat.complete(2);
    until("it asks for the next", || heat.wanted.lock().unwrap().contains(&2));
    saver.terminate();
    let (code, last, complaint) = saver.end();
    assert_eq!((code, complaint.as_str()), (Some(0), ""), "{last}");
}

#[test]
fn who_saves_a_version_from_time_to_time_ends_with_the_writers() {
    let mut heat = Heat::new();
    let _runtime = heat.start_runtime();
    let saver = heat.saver(&["--every-seconds", "86400"]);
    until("the first is safe", || heat.is_safe(1));
    heat.complete(2);
    heat.detach(2);
    let (code, last, complaint) = saver.end();
    assert_eq!((code, complaint.as_str()), (Some(0), ""), "{last}");
    assert!(!heat.is_safe(2));
}

#[test]
fn a_version_that_cannot_be_read_keeps_no_later_one_from_being_saved_before_the_next_run() {
    let mut heat = Heat::new();
    let _runtime = heat.start_runtime_that(|version| if version == 1 { Answer::Failed } else { Answer::Filled });
    let saver = heat.saver(&["--all", "--follow", "86400"]);
    until("it cannot read the first", || saver.said(&["\"failed\"", "\"version\":1"]));
    heat.complete(2);
    heat.detach(2);
    until("the later one is safe", || heat.is_safe(2));
    saver.terminate();
    saver.assert_fails("--all");
}

#[test]
fn what_ends_who_follows_an_object_is_in_the_status() {
    let heat = Heat::new();
    let _runtime = heat.start_runtime();
    let (code, last, complaint) = heat.saver(&["--when", "mispelt > 1"]).end();
    assert_eq!(code, Some(2), "{last} {complaint}");
    assert!(last.contains("\"state\":\"failed\"") && last.contains("mispelt"), "{last}");
}

#[test]
fn the_last_version_is_saved_before_another_run_is_waited_for() {
    let mut heat = Heat::new();
    let _runtime = heat.start_runtime();
    let saver = heat.saver(&["--at-end", "--follow", "86400"]);
    heat.detach(1);
    until("the last version is safe", || heat.is_safe(1));
    saver.terminate();
    let (code, last, complaint) = saver.end();
    assert_eq!((code, complaint.as_str()), (Some(0), ""), "{last}");
}

#[test]
fn a_last_version_that_goes_with_its_object_is_not_saved() {
    let mut heat = Heat::new();
    let saver = heat.saver_that_reads(3_600_000, &["--at-end"]);
    until("it follows the object", || saver.said(&["\"attached\""]));
    heat.detach(1);
    heat.scene.ok(&["rm", "--force", "heat"]);
    saver.assert_fails("--at-end");
}

fn failures(saver: &Saver, version: u64) -> usize {
    saver.count(&["\"failed\"", &format!("\"version\":{version},")])
}

/// Whether it fails at once, or in the time of a read.
#[test]
fn a_last_version_that_cannot_be_read_keeps_none_before_it_from_being_saved() {
    for is_lost in [false, true] {
        let mut heat = Heat::new();
        let blocked = Arc::new(Mutex::new(BTreeSet::from([100, 105])));
        let is_blocked = blocked.clone();
        let _runtime = heat.start_runtime_that(move |version| match is_blocked.lock().unwrap().contains(&version) {
            true if is_lost && version == 105 => Answer::Lost,
            true => Answer::Failed,
            false => Answer::Filled,
        });
        let saver = heat.saver(&["--every", "100", "--at-end", "--follow", "86400"]);
        heat.complete(100);
        until("it cannot read the multiple", || failures(&saver, 100) > 0);
        heat.complete(105);
        heat.detach(105);
        until("it cannot read the last one", || failures(&saver, 105) > 2);
        blocked.lock().unwrap().remove(&100);
        until("the multiple is safe", || heat.is_safe(100) || saver.has_ended());
        blocked.lock().unwrap().clear();
        until("the last one is safe", || heat.is_safe(105) || saver.has_ended());
        saver.terminate();
        let (code, last, complaint) = saver.end();
        assert_eq!((code, complaint.as_str()), (Some(0), ""), "{is_lost}: {last}");
    }
}

#[test]
fn the_last_version_is_that_of_who_wrote_while_another_one_was_tried() {
    let mut heat = Heat::new();
    let _runtime = heat.start_runtime_that(|version| if version == 2 { Answer::Failed } else { Answer::Filled });
    let saver = heat.saver(&["--every-seconds", "86400", "--at-end", "--follow", "86400"]);
    until("the first one is safe", || heat.is_safe(1));
    heat.complete(2);
    heat.detach(2);
    until("it cannot read the last one", || failures(&saver, 2) > 1);
    heat.attach_another(3);
    heat.complete(3);
    heat.detach(3);
    until("the last one is safe", || heat.is_safe(3) || saver.has_ended());
    saver.terminate();
    let (code, last, complaint) = saver.end();
    assert_eq!((code, complaint.as_str()), (Some(0), ""), "{last}");
}
