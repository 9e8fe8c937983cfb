//! Objects whose names a node's directory could not take, or could not be asked about.

use crate::common::watchdog;
use crate::places::Nodes;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use stillframe_object::{Error, Object, Objects};
use stillframe_wire::roster::Describe;
use stillframe_wire::{Message, ObjectId};

const LONG: Duration = Duration::from_secs(60);

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn id_of(object: &Object) -> ObjectId {
    ObjectId(object.description().id)
}

/// Names of which nobody has created an object.
fn names() -> impl Iterator<Item = String> {
    (0..200).map(|attempt| format!("u{attempt}"))
}

/// An object whose home is at a node, of those with these names.
fn created_at(nodes: &Nodes, home: usize, names: impl Iterator<Item = String>) -> Object {
    let objects = nodes.objects(0);
    let mut created = names.map(|name| objects.create(&name, "var u [8] int32").create().unwrap());
    created.find(|object| nodes.home(id_of(object)) == home).expect("some object has its home there")
}

/// A writer's versions become complete on its own node, and are read there.
fn goes_on(object: &Object) {
    let mut writer = object.write("{ var v = u }").attach().unwrap();
    for version in 1..=3 {
        writer.variable_mut::<i32>("v").unwrap().fill(version as i32);
        writer.publish(version).unwrap();
        assert_eq!(object.wait_newer(version - 1, LONG).unwrap(), version);
    }
}

fn sees_the_newest(there: &Object) {
    let mut all = there.read("{ var v = u }").attach().unwrap();
    all.reattach(3, LONG).unwrap();
    assert_eq!(all.variable::<i32>("v").unwrap(), [3; 8]);
    assert_eq!(there.wait_newer(2, LONG).unwrap(), 3);
}

/// A program of node 1 created objects of all names before the node had a runtime, and its own stand in the way of those of the others.
#[test]
fn an_object_whose_name_another_one_has_on_a_node_goes_on_elsewhere() {
    let _watchdog = watchdog(240);
    for home in [0, 1] {
        let mut nodes = Nodes::new("taken", 2);
        nodes.stop(1);
        std::fs::remove_dir_all(nodes.dir(1)).unwrap();
        let apart = Objects::options().dir(nodes.dir(1)).open().unwrap();
        for name in names().take(20) {
            apart.create(&name, "var u [4] int64").create().unwrap();
        }
        nodes.start(1);
        let object = created_at(&nodes, home, names().take(20));
        goes_on(&object);
        // It is the one of all nodes as soon as its name is free.
        let there = nodes.objects(1);
        there.remove(object.name(), true).unwrap();
        let has = || there.object_named(object.name()).is_ok_and(|other| id_of(&other) == id_of(&object));
        until("the node has it", has);
        sees_the_newest(&there.object_named(object.name()).unwrap());
    }
}

/// The same, but etcd has lost its data, and node 1 put its own there first: nobody tells it of the other one.
#[test]
fn an_object_goes_on_though_its_name_leads_to_another_one_where_names_are_kept() {
    let _watchdog = watchdog(240);
    for home in [0, 1] {
        let mut nodes = Nodes::new("first", 2);
        let object = created_at(&nodes, home, names());
        nodes.stop(1);
        std::fs::remove_dir_all(nodes.dir(1)).unwrap();
        let apart = Objects::options().dir(nodes.dir(1)).open().unwrap();
        let apart = apart.create(object.name(), "var u [8] int32").create().unwrap();
        nodes.rename(&apart);
        nodes.start(1);
        goes_on(&object);
        goes_on(&apart);
    }
}

/// A node with objects that it has alone, of whose removal the other one was told before, and one of them with its home at a node.
fn alone(name: &str, home: usize) -> (Nodes, Object) {
    let mut nodes = Nodes::new(name, 2);
    nodes.stop(1);
    std::fs::remove_dir_all(nodes.dir(1)).unwrap();
    let apart = Objects::options().dir(nodes.dir(1)).open().unwrap();
    let all: Vec<Object> =
        names().take(20).map(|name| apart.create(&name, "var u [8] int32").create().unwrap()).collect();
    all.iter().for_each(|object| nodes.runtime(0).removed(object.name(), id_of(object)));
    nodes.start(1);
    let name =
        all.iter().find(|object| nodes.home(id_of(object)) == home).expect("some object has its home there").name();
    let object = nodes.objects(1).object_named(name).unwrap();
    (nodes, object)
}

/// It is in nobody's way that it was removed elsewhere while a program of its node wrote it.
#[test]
fn an_object_of_one_node_alone_goes_on_though_another_one_was_told_of_its_removal() {
    let _watchdog = watchdog(240);
    for home in [0, 1] {
        let (_nodes, object) = alone("kept", home);
        goes_on(&object);
    }
}

/// Its home hears of all nodes who writes it before anybody removes it without force, and hears it soon.
#[test]
fn an_object_of_one_node_alone_is_removed_there_as_soon_as_nobody_writes_it() {
    let _watchdog = watchdog(240);
    for (home, is_written) in [(0, false), (1, false), (0, true), (1, true)] {
        let (nodes, object) = alone("unkept", home);
        let there = nodes.objects(1);
        if is_written {
            let mut writer = object.write("{ var v = u }").attach().unwrap();
            writer.publish(1).unwrap();
            for outcome in [there.remove(object.name(), false), there.remove_object(&object, false)] {
                assert!(matches!(outcome, Err(Error::InUse { .. })), "{outcome:?}");
            }
            writer.detach().unwrap();
        }
        there.remove(object.name(), false).unwrap();
        assert!(matches!(object.newest(), Err(Error::Removed { .. })));
    }
}

/// Who has not heard that an object was removed would have the others keep it for good.
#[test]
fn an_object_of_all_nodes_is_described_only_if_its_node_hears_of_no_removal() {
    let _watchdog = watchdog(240);
    for is_removed in [true, false] {
        let nodes = Nodes::new("described", 2);
        nodes.set_lease(if is_removed { Duration::from_secs(3600) } else { Duration::from_millis(300) });
        let object = nodes.objects(0).create("u", "var u [8] int32").create().unwrap();
        until("node 1 has it", || nodes.objects(1).object_named("u").is_ok());
        goes_on(&object);
        let (id, name) = (id_of(&object), object.name().to_owned());
        let ask = || {
            let asked = Message::Describe(Describe { object: id, name: name.clone() });
            nodes.say(0, nodes.number(1), Some(asked), &[]);
        };
        let begin = Instant::now();
        ask();
        if is_removed {
            assert_eq!(nodes.descriptions(), 0);
            nodes.runtime(0).removed("u", id);
            ask();
            assert_eq!(nodes.descriptions(), 0);
        } else {
            until("the node describes it", || nodes.descriptions() > 0);
            assert!(begin.elapsed() >= Duration::from_millis(300), "it has heard of no removal for a lease");
        }
    }
}

fn name_file(nodes: &Nodes, node: usize, name: &str) -> PathBuf {
    nodes.dir(node).join(".objects/names").join(name)
}

/// What lies in the place of the name's file cannot be read: whether a program of that node writes the object, nobody knows.
#[test]
fn a_name_that_cannot_be_kept_is_tried_again() {
    let _watchdog = watchdog(240);
    let nodes = Nodes::new("again", 2);
    let name = "u0";
    let probe = nodes.objects(1).create("probe", "var u [8] int32").create().unwrap();
    assert!(name_file(&nodes, 1, probe.name()).is_file(), "that is where names are");
    std::fs::create_dir(name_file(&nodes, 1, name)).unwrap();
    let object = nodes.objects(0).create(name, "var u [8] int32").create().unwrap();
    std::thread::scope(|scope| {
        let going = scope.spawn(|| goes_on(&object));
        // So long that all was said once by then, and nobody says it again by himself.
        std::thread::sleep(Duration::from_secs(1));
        std::fs::remove_dir(name_file(&nodes, 1, name)).unwrap();
        going.join().unwrap();
    });
    sees_the_newest(&nodes.objects(1).wait(name, LONG).unwrap());
}

/// A home that waits asks once.
#[test]
fn an_object_is_found_though_who_keeps_the_names_did_not_answer_at_first() {
    let _watchdog = watchdog(240);
    let mut nodes = Nodes::new("away", 2);
    let object = created_at(&nodes, 0, names());
    goes_on(&object);
    nodes.stop(1);
    std::fs::remove_dir_all(nodes.dir(1)).unwrap();
    nodes.set_away_names(true);
    nodes.start(1);
    nodes.begin_term();
    until("the node asks for the name", || nodes.asks_names());
    nodes.set_away_names(false);
    let has = || nodes.objects(1).object_named(object.name()).is_ok();
    until("the node has the object", has);
    sees_the_newest(&nodes.objects(1).object_named(object.name()).unwrap());
}
