//! Removals and creations of objects that another node has not heard of yet.

use crate::common::{until, watchdog};
use crate::places::Nodes;
use std::time::Duration;
use stillframe_object::{Error, Object, Objects};
use stillframe_wire::ObjectId;

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

/// Whoever removed it has told the program that creates it anew, before its node was told.
#[test]
fn an_object_that_another_node_removed_is_created_anew_although_this_node_has_it_still() {
    let _watchdog = watchdog(240);
    for has_next in [false, true] {
        let nodes = Nodes::new("stale", 2);
        let (here, there) = (nodes.objects(0), nodes.objects(1));
        let former = create(&here);
        let known = there.wait("u", LONG).unwrap();
        // The node has to be told of its creation, too.
        assert_eq!(create(&there).description().id, known.description().id);
        let apart = Objects::options().dir(nodes.dir(0).join("apart")).open().unwrap();
        let next = has_next.then(|| create(&apart));
        match &next {
            Some(next) => nodes.rename(next),
            None => here.remove("u", false).unwrap(),
        }
        let created = std::thread::scope(|scope| {
            nodes.set_slow_names(true);
            let creating = scope.spawn(|| create(&there));
            until("its runtime asks who keeps the names", || nodes.asks_names() || creating.is_finished());
            nodes.set_slow_names(false);
            nodes.runtime(1).removed("u", ObjectId(former.description().id));
            creating.join().unwrap()
        });
        assert_ne!(created.description().id, former.description().id, "it was removed");
        if let Some(next) = next {
            assert_eq!(created.description().id, next.description().id);
        }
        assert_eq!(there.object_named("u").unwrap().description().id, created.description().id);
        let mut writer = created.write(ALL).attach().unwrap();
        writer.publish(1).unwrap();
        assert_eq!(created.wait_newer(0, LONG).unwrap(), 1);
    }
}

/// It is the only one that programs of this node can have.
#[test]
fn an_object_of_one_node_alone_is_found_by_who_creates_it() {
    let _watchdog = watchdog(240);
    let mut nodes = Nodes::new("alone", 2);
    nodes.stop(1);
    std::fs::remove_dir_all(nodes.dir(1)).unwrap();
    let alone = create(&nodes.objects(1));
    let mut writer = alone.write(ALL).attach().unwrap();
    let of_all = create(&nodes.objects(0));
    nodes.start(1);
    nodes.runtime(1).created("u", of_all.description());
    assert_eq!(create(&nodes.objects(1)).description().id, alone.description().id);
    assert_eq!(create(&nodes.objects(0)).description().id, of_all.description().id);
    writer.publish(1).unwrap();
    drop(writer);
}
