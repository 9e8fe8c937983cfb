//! Who wrote a version is known on a node before it counts as complete there.

use crate::common::{until, watchdog};
use crate::places::{Fault, Nodes};
use std::time::Duration;
use stillframe_wire::ObjectId;

const LONG: Duration = Duration::from_secs(60);

/// A roster that was lost with a connection comes again with the next one. Until then a reader by number would find nobody who has the
/// version, and take it for lost.
#[test]
fn a_version_is_complete_once_the_roster_that_it_needs_is_there() {
    let _watchdog = watchdog(120);
    let nodes = Nodes::new("rosters", 2);
    let mut created =
        (0..).map(|number| nodes.objects(0).create(&format!("u{number}"), "var u [8] int64").create().unwrap());
    let here = created.find(|object| nodes.home(ObjectId(object.description().id)) == 0).unwrap();
    let there = nodes.objects(1).wait(here.name(), LONG).unwrap();
    let publish = |version: u64| {
        let mut writer = here.write("{ var v = u }").wait(LONG).attach().unwrap();
        writer.variable_mut::<i64>("v").unwrap().fill(version as i64);
        writer.publish(version).unwrap();
        writer
    };
    let first = publish(1);
    until("it is complete", || there.newest().unwrap() == 1);
    nodes.set_fault(0, 1, Fault { loses_rosters: true, ..Fault::default() });
    drop(first);
    let _second = publish(2);
    until("the other node is told", || nodes.heard_announced(1) == 2);
    assert_eq!((here.newest().unwrap(), there.newest().unwrap()), (2, 1), "{:?}", there.writers());
    nodes.set_fault(0, 1, Fault::default());
    nodes.reconnect(0, 1);
    let mut reader = there.read("{ var v = u }").attach().unwrap();
    reader.reattach(2, LONG).unwrap();
    assert_eq!((reader.variable::<i64>("v").unwrap(), there.newest().unwrap()), (&[2; 8][..], 2));
}
