//! What could mix elements of several versions or writers in one fragment, or let a reader that gives up hold up those who write.

use crate::common::watchdog;
use crate::places::{Fault, Nodes};
use std::time::{Duration, Instant};
use stillframe::Outcome;
use stillframe_wire::Message;
use stillframe_wire::data::{Sent, Unchanged};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);

/// Where pieces go was said on a connection that broke, of other writers than before.
#[test]
fn bytes_of_one_writer_never_come_where_another_one_has_its_elements() {
    let _watchdog = watchdog(120);
    let nodes = Nodes::new("plan", 2);
    let here = nodes.objects(0).create("u", "var u [8] int32").create().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut former = here.write("{ var v [x:4] = u[x] }").attach().unwrap();
    let mut upper = here.write("{ var v [x:4] = u[x+4] }").attach().unwrap();
    let mut all = there.read("{ var v = u }").attach().unwrap();
    former.publish(1).unwrap();
    upper.publish(1).unwrap();
    all.reattach(1, LONG).unwrap();
    former.detach().unwrap();
    let mut lower = here.write("{ var v [x:4] = u[x] }").attach().unwrap();
    let mut publish = |version: u64| {
        for (fragment, sign) in [(&mut lower, 1), (&mut upper, -1)] {
            fragment.variable_mut::<i32>("v").unwrap().fill(sign * version as i32);
            fragment.publish(version).unwrap();
        }
    };
    publish(2);
    nodes.set_fault(0, 1, Fault { loses_versions: true, ..Fault::default() });
    assert!(all.reattach(2, SHORT).unwrap_err().is_timeout());
    publish(3);
    // The next version is asked for, and on its way, before either side knows that there is another connection.
    nodes.set_fault(0, 1, Fault { delay: Duration::from_millis(300), ..Fault::default() });
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| all.reattach(3, LONG));
        std::thread::sleep(Duration::from_millis(200));
        nodes.runtime(1).connected(nodes.number(0));
        nodes.runtime(0).connected(nodes.number(1));
        reading.join().unwrap().unwrap();
    });
    assert_eq!(all.variable::<i32>("v").unwrap(), [3, 3, 3, 3, -3, -3, -3, -3]);
}

/// A link takes no bytes, and a program asks for one version after the other, as they come.
#[test]
fn versions_that_nobody_waits_for_any_more_are_held_for_nobody() {
    let _watchdog = watchdog(180);
    let nodes = Nodes::new("stalled", 2);
    let here = nodes.objects(0).create("u", "var u [8] int32").create().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut writer = here.write("{ var v = u }").attach().unwrap();
    let mut all = there.read("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    all.reattach(1, LONG).unwrap();
    nodes.set_fault(0, 1, Fault { stalls_versions: true, ..Fault::default() });
    for version in 2..=100 {
        writer.variable_mut::<i32>("v").unwrap().fill(version as i32);
        let begin = Instant::now();
        // The writer's node may hear a moment later that nobody waits for the one before.
        while writer.publish(version).unwrap().outcome != Outcome::Published {
            assert!(begin.elapsed() < LONG, "version {version}");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(all.reattach(version, Duration::from_millis(30)).unwrap_err().is_timeout());
    }
    nodes.set_fault(0, 1, Fault::default());
    all.reattach(100, LONG).unwrap();
    assert_eq!(all.variable::<i32>("v").unwrap(), [100; 8]);
}

/// What a connection that broke still says of a version comes when a reader has gone back, and asks for that version again.
#[test]
fn what_is_as_in_one_version_is_not_taken_from_an_older_one() {
    let _watchdog = watchdog(120);
    let nodes = Nodes::new("back", 2);
    let here = nodes.objects(0).create("u", "var u [8] int32").create().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut writer = here.write("{ var v = u }").keep(8).attach().unwrap();
    let mut all = there.read("{ var v = u }").attach().unwrap();
    for version in 1..=3 {
        // The third is as the second.
        writer.variable_mut::<i32>("v").unwrap().fill(version.min(2) as i32);
        writer.publish(version).unwrap();
    }
    all.reattach(2, LONG).unwrap();
    let subscription = *nodes.subscriptions().last().unwrap();
    nodes.set_fault(0, 1, Fault { loses_versions: true, ..Fault::default() });
    assert!(all.reattach(3, SHORT).unwrap_err().is_timeout());
    assert_eq!(nodes.subscriptions().last(), Some(&subscription));
    nodes.set_fault(0, 1, Fault::default());
    all.reattach(1, LONG).unwrap();
    nodes.set_fault(0, 1, Fault { stalls_versions: true, ..Fault::default() });
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| all.reattach(3, LONG));
        std::thread::sleep(SHORT);
        let unchanged = Unchanged { subscription, version: 3, share: 0, offset: 0, bytes: 32 };
        nodes.say(1, nodes.number(0), Some(Message::Unchanged(unchanged)), &[]);
        let sent = Sent { subscription, version: 3, published_ns: 0 };
        nodes.say(1, nodes.number(0), Some(Message::Sent(sent)), &[]);
        nodes.set_fault(0, 1, Fault::default());
        reading.join().unwrap().unwrap();
    });
    assert_eq!(all.variable::<i32>("v").unwrap(), [2; 8]);
}
