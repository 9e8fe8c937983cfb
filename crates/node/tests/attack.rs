//! What a stranger tries: links that fail at the worst moment, programs and peers that talk nonsense.

mod common;
#[path = "common/places.rs"]
mod places;

use common::watchdog;
use places::{Fault, Nodes};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stillframe_kernel::lock::{self, Kind};
use stillframe_node::network::Nothing;
use stillframe_object::{Error, Object};
use stillframe_roster::readiness::Cause;
use stillframe_roster::writer::{Node, Who, Writer};
use stillframe_wire::data::Lost;
use stillframe_wire::roster::Ask;
use stillframe_wire::{Message, ObjectId};

const LONG: Duration = Duration::from_secs(20);

fn id_of(object: &Object) -> ObjectId {
    ObjectId(object.description().id)
}

/// An object whose home is at a place.
fn create_at(nodes: &Nodes, name: &str, home: usize) -> (Object, String) {
    for attempt in 0..200 {
        let name = format!("{name}{attempt}");
        let object = nodes.objects(home).create(&name, "var u [8] int32").create().unwrap();
        if nodes.home(id_of(&object)) == home {
            return (object, name);
        }
    }
    panic!("no object has its home there")
}

#[test]
fn a_version_that_comes_slowly_holds_up_no_other_object() {
    let _watchdog = watchdog(90);
    let nodes = Nodes::new("mover", 3);
    let mut own = Vec::new();
    let mut far = Vec::new();
    let mut read = Vec::new();
    for (name, node) in [("slow", 1), ("fast", 2)] {
        let here = nodes.objects(0).create(name, "var u [8] int32").create().unwrap();
        let there = nodes.objects(node).wait(name, LONG).unwrap();
        own.push(here.write("{ var v [x:4] = u[x] }").attach().unwrap());
        far.push(there.write("{ var v [x:4] = u[x+4] }").attach().unwrap());
        read.push(here.read("{ var v = u }").attach().unwrap());
    }
    for at in 0..2 {
        own[at].publish(1).unwrap();
        far[at].publish(1).unwrap();
        read[at].reattach(1, LONG).unwrap();
    }
    nodes.set_fault(1, 0, Fault { reading: Duration::from_secs(6), ..Fault::default() });
    far.iter_mut().for_each(|one| _ = one.publish(2).unwrap());
    let slow_is_there = AtomicBool::new(false);
    let mut fast = read.pop().unwrap();
    let mut slow = read.pop().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            slow.reattach(2, LONG).unwrap();
            slow_is_there.store(true, Ordering::SeqCst);
        });
        // The other node's elements are on their way by then.
        std::thread::sleep(Duration::from_millis(500));
        own.iter_mut().for_each(|one| _ = one.publish(2).unwrap());
        std::thread::sleep(Duration::from_millis(200));
        fast.reattach(2, LONG).unwrap();
        assert!(!slow_is_there.load(Ordering::SeqCst), "the other object waited for it");
    });
}
