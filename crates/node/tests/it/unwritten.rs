//! Objects of which nobody writes a part, read on another node than that of their writers.

use crate::common::{until, watchdog};
use crate::places::Nodes;
use std::time::Duration;
use stillframe_object::{Cause, Error};

const LONG: Duration = Duration::from_secs(60);

/// Also once the writer has left: whoever saves the object has to tell that from a version that its writers let go.
#[test]
fn who_reads_a_part_that_nobody_writes_is_told_which_on_every_node() {
    let _watchdog = watchdog(120);
    let nodes = Nodes::new("unwritten", 2);
    let here = nodes.objects(0).create("u", "var u [8] int32").create().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut writer = here.write("{ var v [x:4] = u[x] }").writers(1).attach().unwrap();
    writer.publish(1).unwrap();
    until("both nodes know that it is complete", || [&here, &there].iter().all(|one| one.newest().unwrap() == 1));
    let check = || {
        for object in [&here, &there] {
            object.read("{ var v [x:4] = u[x] }").attach().unwrap().reattach(1, LONG).unwrap();
            let mut all = object.read("{ var v = u }").attach().unwrap();
            let error = all.reattach(1, LONG).unwrap_err();
            let Error::Lost { version: 1, losses, .. } = &error else { panic!("{error}") };
            let [part] = &losses[..] else { panic!("{error}") };
            assert!(part.cause == Some(Cause::Unwritten) && part.who.is_none(), "{error}");
            assert!(error.to_string().contains("u[4..8]"), "{error}");
        }
    };
    check();
    writer.detach().unwrap();
    until("both nodes know that nobody writes", || [&here, &there].iter().all(|one| !one.is_alive().unwrap()));
    check();
}
