//! What programs of a node see of objects that were there before it joined.

use crate::common::watchdog;
use crate::places::{Fault, Nodes};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use stillframe_object::{Object, WriteFragment};
use stillframe_wire::ObjectId;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);

fn id_of(object: &Object) -> ObjectId {
    ObjectId(object.description().id)
}

/// An object whose home is at node 0, with three complete versions. Node 1 has joined with empty memory; it knows the object's name, and
/// hears nothing of its home.
fn joined(name: &str) -> (Nodes, Object, WriteFragment) {
    let mut nodes = Nodes::new(name, 2);
    let objects = nodes.objects(0);
    let mut created =
        (0..200).map(|attempt| objects.create(&format!("u{attempt}"), "var u [8] int32").create().unwrap());
    let object = created.find(|object| nodes.home(id_of(object)) == 0).expect("some object has its home there");
    let mut writer = object.write("{ var v = u }").attach().unwrap();
    for version in 1..=3 {
        writer.variable_mut::<i32>("v").unwrap().fill(version as i32);
        writer.publish(version).unwrap();
    }
    assert_eq!(object.wait_newer(2, LONG).unwrap(), 3);
    nodes.stop(1);
    std::fs::remove_dir_all(nodes.dir(1)).unwrap();
    nodes.set_fault(0, 1, Fault { holds: true, ..Fault::default() });
    nodes.start(1);
    nodes.runtime(1).created(object.name(), object.description());
    (nodes, object, writer)
}

#[test]
fn who_waits_for_an_object_on_a_node_that_just_joined_sees_what_is_complete() {
    let _watchdog = watchdog(120);
    let (nodes, object, _writer) = joined("joined");
    let (there, newest) = std::thread::scope(|scope| {
        let finding = scope.spawn(|| {
            let there = nodes.objects(1).wait(object.name(), LONG).unwrap();
            let newest = there.newest().unwrap();
            (there, newest)
        });
        // So long that one who does not wait has seen the object by then.
        std::thread::sleep(SHORT);
        nodes.set_fault(0, 1, Fault::default());
        finding.join().unwrap()
    });
    assert_eq!(newest, 3);
    let mut all = there.read("{ var v = u }").attach().unwrap();
    all.reattach(newest, LONG).unwrap();
    assert_eq!(all.variable::<i32>("v").unwrap(), [3; 8]);
}

#[test]
fn an_object_whose_home_is_not_heard_is_there_once_nobody_waits_any_longer() {
    let _watchdog = watchdog(120);
    let (nodes, object, _writer) = joined("unheard");
    let there = nodes.objects(1).wait(object.name(), SHORT).unwrap();
    assert_eq!(there.newest().unwrap(), 0);
    nodes.set_fault(0, 1, Fault::default());
}

#[test]
fn who_waits_for_the_home_of_an_object_that_is_removed_waits_no_longer() {
    let _watchdog = watchdog(120);
    let (nodes, object, _writer) = joined("removed");
    let stream = UnixStream::connect(nodes.dir(1).join(".objects/runtime")).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let asked = format!(r#"{{"heard":{{"name":"{}","id":{}}}}}"#, object.name(), object.description().id);
    // What is asked second is answered at once, when the first has been heard.
    (&stream).write_all(format!("{asked}\n\"nodes\"\n").as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().starts_with(r#"{"nodes":"#), "the home was not heard");
    nodes.runtime(1).removed(object.name(), id_of(&object));
    assert_eq!(lines.next().unwrap(), r#""heard""#);
    nodes.set_fault(0, 1, Fault::default());
}
