//! Objects over several nodes: each is a directory with a runtime of its own, in this process.

mod common;
#[path = "common/places.rs"]
mod places;

use common::watchdog;
use places::Nodes;
use std::time::Duration;
use stillframe_object::Error;

const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_reader_has_elements_of_writers_of_two_other_nodes() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("two", 3);
    let object = nodes.objects(0).create("u", "var u [8] int32").create().unwrap();
    let mut left = object.write("{ var v [x:4] = u[x] }").rank(0).attach().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut right = there.write("{ var v [x:4] = u[x+4] }").rank(1).attach().unwrap();
    for version in 1..=20_u64 {
        left.variable_mut::<i32>("v").unwrap().copy_from_slice(&[0, 1, 2, 3].map(|x| x + 100 * version as i32));
        right.variable_mut::<i32>("v").unwrap().copy_from_slice(&[4, 5, 6, 7].map(|x| x + 100 * version as i32));
        left.publish(version).unwrap();
        right.publish(version).unwrap();
        if version == 1 {
            continue;
        }
    }
    let reading = nodes.objects(2).wait("u", LONG).unwrap();
    let mut all = reading.read("{ var v = u }").attach().unwrap();
    all.reattach(20, LONG).unwrap();
    let wanted: Vec<i32> = (0..8).map(|x| x + 2000).collect();
    assert_eq!(all.variable::<i32>("v").unwrap(), wanted);
    assert_eq!(reading.newest().unwrap(), 20);
}

#[test]
fn ghosts_are_exchanged_between_nodes_version_by_version() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("ghosts", 2);
    nodes.objects(0).create("u", "var u [8] int64").create().unwrap();
    std::thread::scope(|scope| {
        for rank in 0..2_usize {
            let objects = nodes.objects(rank);
            scope.spawn(move || {
                let object = objects.wait("u", LONG).unwrap();
                let begin = 4 * rank as i64;
                let mut own =
                    object.write("{ var v [x:4] = u[x+b] }").bind("b", begin).rank(rank as u32).attach().unwrap();
                let ghost = if rank == 0 { 4 } else { 3 };
                let mut ghost = object.read("{ var g [x:1] = u[x+b] }").bind("b", ghost).attach().unwrap();
                let mut seen = 0;
                for version in 1..=50_u64 {
                    own.variable_mut::<i64>("v").unwrap().fill(version as i64 * 10 + rank as i64 + seen % 7);
                    let sent = version as i64 * 10 + rank as i64 + seen % 7;
                    own.publish(version).unwrap();
                    ghost.reattach(version, LONG).unwrap();
                    let got = ghost.variable::<i64>("g").unwrap()[0];
                    assert_eq!(got / 10, version as i64 + (got % 10) / 10, "rank {rank}, version {version}");
                    assert_eq!(got - got % 10, version as i64 * 10, "rank {rank} sent {sent}");
                    seen = got;
                }
            });
        }
    });
}

#[test]
fn writers_of_two_nodes_that_want_the_same_elements_are_not_both_attached() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("overlap", 2);
    let here = nodes.objects(0).create("u", "var u [8] int32").create().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let first = here.write("{ var v [x:5] = u[x] }").rank(3).attach().unwrap();
    let text = "{ var v [x:5] = u[x+3] }";
    let error = there.write(text).wait(Duration::from_millis(300)).attach().unwrap_err();
    assert!(matches!(error, Error::Overlap { .. } | Error::NotAccepted { .. }), "{error}");
    drop(first);
    there.write(text).wait(LONG).attach().unwrap();
}

#[test]
fn what_a_reader_waits_for_is_named_with_its_node() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("names", 2);
    let here = nodes.objects(0).create("u", "var u [8] int32").create().unwrap();
    let _writer = here.write("{ var v = u }").rank(3).attach().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut all = there.read("{ var v = u }").attach().unwrap();
    let error = all.reattach(1, Duration::from_millis(500)).unwrap_err();
    let text = error.to_string();
    assert!(error.is_timeout() && text.contains("rank 3") && text.contains("on node 1"), "{text}");
}

#[test]
fn publishing_goes_on_without_a_runtime_and_readers_go_on_when_it_is_back() {
    let _watchdog = watchdog(60);
    let mut nodes = Nodes::new("restart", 2);
    let here = nodes.objects(0).create("u", "var u [8] int32").create().unwrap();
    let mut writer = here.write("{ var v = u }").attach().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut all = there.read("{ var v = u }").attach().unwrap();
    writer.variable_mut::<i32>("v").unwrap().fill(1);
    writer.publish(1).unwrap();
    all.reattach(1, LONG).unwrap();
    for node in 0..2 {
        nodes.stop(node);
        let version = 2 * (node as u64 + 1);
        writer.variable_mut::<i32>("v").unwrap().fill(version as i32);
        writer.publish(version).unwrap();
        nodes.start(node);
        writer.variable_mut::<i32>("v").unwrap().fill(version as i32 + 1);
        writer.publish(version + 1).unwrap();
        all.reattach(version + 1, LONG).unwrap();
        assert_eq!(all.variable::<i32>("v").unwrap(), [version as i32 + 1; 8]);
    }
}
