//! Removals and creations of objects that another node has not heard of yet.

use crate::common::{until, watchdog};
use crate::places::Nodes;
use std::time::Duration;
use stillframe_object::{Error, Object, Objects};

const LONG: Duration = Duration::from_secs(60);

const ALL: &str = "{ var v = u }";

fn create(objects: &Objects) -> Object {
    objects.create("u", "var u [8] int32").create().unwrap()
}

/// A node whose machine is new knows an object by its name before it hears who writes it.
#[test]
fn an_object_is_not_removed_by_a_node_that_has_not_heard_who_writes_it() {
    let _watchdog = watchdog(240);
    let mut nodes = Nodes::new("unheard", 2);
    let object = create(&nodes.objects(0));
    let mut writer = object.write(ALL).attach().unwrap();
    writer.publish(1).unwrap();
    assert_eq!(object.wait_newer(0, LONG).unwrap(), 1);
    nodes.stop(1);
    std::fs::remove_dir_all(nodes.dir(1)).unwrap();
    nodes.set_homeless(true);
    nodes.start(1);
    nodes.runtime(1).created("u", object.description());
    let impatient = || Objects::options().dir(nodes.dir(1)).interrupt(|| true).open().unwrap();
    let there = impatient().object_named("u").unwrap();
    for outcome in [impatient().remove("u", false), impatient().remove_object(&there, false)] {
        assert!(matches!(outcome, Err(Error::Interrupted { .. })), "{outcome:?}");
    }
    nodes.set_homeless(false);
    nodes.begin_term();
    for outcome in [nodes.objects(1).remove("u", false), nodes.objects(1).remove_object(&there, false)] {
        assert!(matches!(outcome, Err(Error::InUse { .. })), "{outcome:?}");
    }
    writer.publish(2).unwrap();
    assert_eq!(object.wait_newer(1, LONG).unwrap(), 2);
    assert_eq!(nodes.objects(1).wait("u", LONG).unwrap().wait_newer(1, LONG).unwrap(), 2);
    writer.detach().unwrap();
    until("the other node hears that the writer has left", || !there.is_alive().unwrap());
    nodes.objects(1).remove("u", false).unwrap();
    assert!(matches!(there.newest(), Err(Error::Removed { .. })));
}
