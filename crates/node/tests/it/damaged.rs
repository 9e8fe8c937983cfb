//! An object that is damaged on one node, and removed there as its errors advise, while it is one of all nodes.

use crate::common::{until, watchdog};
use crate::places::Nodes;
use std::path::Path;
use std::time::Duration;
use stillframe_object::{Object, ReadFragment, WriteFragment};
use stillframe_wire::ObjectId;

const LONG: Duration = Duration::from_secs(60);

const TEXT: &str = "var u [8] int32";
const LEFT: &str = "{ var v [x:4] = u[x] }";
const RIGHT: &str = "{ var v [x:4] = u[x+4] }";

fn id_of(object: &Object) -> ObjectId {
    ObjectId(object.description().id)
}

/// An object of all nodes whose home is at one of them.
fn created_at(nodes: &Nodes, home: usize) -> Object {
    let objects = nodes.objects(0);
    let mut created = (0..200).map(|attempt| objects.create(&format!("u{attempt}"), TEXT).create().unwrap());
    created.find(|object| nodes.home(id_of(object)) == home).expect("some object has its home there")
}

fn publish(fragments: &mut [&mut WriteFragment], version: u64) {
    for fragment in fragments {
        fragment.variable_mut::<i32>("v").unwrap().fill(version as i32);
        fragment.publish(version).unwrap();
    }
}

fn shows(reader: &mut ReadFragment, version: u64) {
    reader.reattach(version, LONG).unwrap();
    assert_eq!(reader.variable::<i32>("v").unwrap(), [version as i32; 8]);
}

fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let last = bytes.len() - 10;
    bytes[..8].fill(0x41);
    bytes[last..].fill(0xff);
    std::fs::write(path, bytes).unwrap();
}

/// Programs of the second node wrote a half of it before. Nobody on the first one has to do anything, and its home goes on with what it knows.
fn check(file: &str, home: usize, is_created: bool) {
    let nodes = Nodes::new("damaged", 2);
    let here = created_at(&nodes, home);
    let name = here.name();
    let there = nodes.objects(1).wait(name, LONG).unwrap();
    let mut left = here.write(LEFT).attach().unwrap();
    let mut right = there.write(RIGHT).attach().unwrap();
    publish(&mut [&mut left, &mut right], 1);
    [&here, &there].iter().for_each(|object| assert_eq!(object.wait_newer(0, LONG).unwrap(), 1));
    right.detach().unwrap();
    damage(&nodes.dir(1).join(".objects").join(file).join(name));
    nodes.objects(1).remove(name, false).unwrap();
    // The home has news for the second node meanwhile. What that node had went with its files.
    let mut right = here.write(RIGHT).zeros().attach().unwrap();
    publish(&mut [&mut left, &mut right], 2);
    if is_created {
        nodes.objects(1).create(name, TEXT).create().unwrap();
    }
    let there = nodes.objects(1).wait(name, LONG).unwrap();
    assert_eq!(id_of(&there), id_of(&here));
    until("both know what is complete", || {
        [&here, &there].iter().all(|object| object.newest().is_ok_and(|it| it == 2))
    });
    shows(&mut there.read("{ var v = u }").attach().unwrap(), 2);
    right.detach().unwrap();
    let mut right = there.write(RIGHT).attach().unwrap();
    for version in 3..=5 {
        publish(&mut [&mut left, &mut right], version);
        [&here, &there].iter().for_each(|object| assert_eq!(object.wait_newer(version - 1, LONG).unwrap(), version));
    }
    [&here, &there].iter().for_each(|object| shows(&mut object.read("{ var v = u }").attach().unwrap(), 5));
}

#[test]
fn a_node_has_an_object_of_all_nodes_again_that_was_damaged_and_removed_there() {
    let _watchdog = watchdog(240);
    for (home, is_created) in [(0, true), (1, true), (0, false), (1, false)] {
        check("boards", home, is_created);
    }
}

#[test]
fn a_node_has_an_object_of_all_nodes_again_whose_name_was_damaged_there() {
    let _watchdog = watchdog(240);
    for (home, is_created) in [(0, true), (1, true), (0, false), (1, false)] {
        check("names", home, is_created);
    }
}
