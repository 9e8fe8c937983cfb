//! What a stranger tries: links that fail at the worst moment, programs and peers that talk nonsense.

use crate::common::{until, watchdog};
use crate::places::{Fault, Nodes};
use std::io::{BufRead, BufReader, Read, Write};
use std::num::NonZeroU64;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stillframe_kernel::lock::{self, Kind};
use stillframe_node::network::Nothing;
use stillframe_object::{Error, Object};
use stillframe_roster::message::Report;
use stillframe_roster::readiness::Cause;
use stillframe_roster::runtime::Runtime;
use stillframe_roster::writer::{Node, Who, Writer};
use stillframe_wire::data::Lost;
use stillframe_wire::roster::{Ask, ObjectReport};
use stillframe_wire::{Message, ObjectId};

const LONG: Duration = Duration::from_secs(60);

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
fn a_reader_may_go_back_to_an_older_version() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("back", 2);
    let here = nodes.objects(0).create("u", "var u [8] int32").create().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut writer = here.write("{ var v = u }").keep(8).attach().unwrap();
    let mut near = here.read("{ var v = u }").attach().unwrap();
    let mut far = there.read("{ var v = u }").attach().unwrap();
    for version in 1..=2 {
        writer.variable_mut::<i32>("v").unwrap().fill(version as i32);
        writer.publish(version).unwrap();
    }
    for version in [2, 1, 2] {
        let is_near = near.reattach(version, LONG);
        let is_far = far.reattach(version, LONG);
        is_near.unwrap();
        is_far.unwrap_or_else(|error| panic!("version {version}: {error}"));
        assert_eq!(far.variable::<i32>("v").unwrap(), [version as i32; 8]);
    }
}

#[test]
fn one_message_with_a_term_of_nobody_stops_no_object() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("term", 2);
    let (here, name) = create_at(&nodes, "u", 0);
    let there = nodes.objects(1).wait(&name, LONG).unwrap();
    let mut writer = there.write("{ var v = u }").attach().unwrap();
    let mut all = here.read("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    all.reattach(1, LONG).unwrap();
    let ask = Ask { object: id_of(&here), name: name.clone(), revision: u64::MAX };
    nodes.runtime(1).receive(Node(77), Message::Ask(ask), &mut Nothing);
    writer.publish(2).unwrap();
    all.reattach(2, LONG).unwrap();
    assert_eq!(here.wait_newer(1, LONG).unwrap(), 2);
}

/// What a node with nothing to say reports.
fn report(of: Node, revision: u64) -> Report {
    let mut runtime = Runtime::new(of, 0);
    runtime.follow(revision);
    Report { serial: 1, ..runtime.report() }
}

#[test]
fn one_report_for_a_home_that_nobody_is_stops_no_object() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("fence", 2);
    let (here, name) = create_at(&nodes, "u", 0);
    let there = nodes.objects(1).wait(&name, LONG).unwrap();
    let mut writer = there.write("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    assert_eq!(here.wait_newer(0, LONG).unwrap(), 1);
    let from = nodes.number(1);
    let report = ObjectReport { object: id_of(&here), name, report: report(from, u64::MAX) };
    nodes.say(0, from, Some(Message::Reports(vec![report])), &[]);
    writer.publish(2).unwrap();
    assert_eq!(here.wait_newer(1, LONG).unwrap(), 2);
}

#[test]
fn who_keeps_the_names_may_be_slow_while_others_speak_of_objects_that_are_not_known() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("slow", 2);
    let (here, name) = create_at(&nodes, "u", 0);
    let there = nodes.objects(1).wait(&name, LONG).unwrap();
    let mut writer = there.write("{ var v = u }").attach().unwrap();
    let mut all = here.read("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    all.reattach(1, LONG).unwrap();
    nodes.set_slow_names(true);
    let (from, object) = (nodes.number(1), ObjectId(NonZeroU64::MAX));
    let messages = [
        Message::Reports(vec![ObjectReport { object, name: "other".into(), report: report(from, 1) }]),
        Message::Ask(Ask { object, name: "other".into(), revision: 1 }),
    ];
    std::thread::scope(|scope| {
        scope.spawn(|| messages.map(|message| nodes.say(0, from, Some(message), &[])));
        until("the names are asked", || nodes.asks_names());
        let done = (2..=5).try_for_each(|version| {
            writer.publish(version).unwrap();
            all.reattach(version, LONG)
        });
        nodes.set_slow_names(false);
        done.unwrap();
    });
}

#[test]
fn a_node_that_is_none_of_the_job_holds_up_no_home() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("zombie", 2);
    let (here, name) = create_at(&nodes, "u", 0);
    let there = nodes.objects(1).wait(&name, LONG).unwrap();
    let mut writer = there.write("{ var v = u }").attach().unwrap();
    let mut all = here.read("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    all.reattach(1, LONG).unwrap();
    nodes.set_fault(1, 0, Fault { delay: Duration::from_millis(200), ..Fault::default() });
    nodes.begin_term();
    // One whose lease ended while it was apart, before it has learned that.
    nodes.runtime(0).connected(Node(77));
    nodes.set_fault(1, 0, Fault::default());
    writer.publish(2).unwrap();
    all.reattach(2, LONG).unwrap();
    assert_eq!(here.wait_newer(1, LONG).unwrap(), 2);
}

#[test]
fn what_was_lost_with_a_connection_comes_on_the_next_one() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("sources", 2);
    let here = nodes.objects(0).create("u", "var u [8] int32").create().unwrap();
    let mut writer = here.write("{ var v = u }").attach().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut all = there.read("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    nodes.set_fault(0, 1, Fault { loses_versions: true, ..Fault::default() });
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| all.reattach(1, LONG));
        until("the version is lost", || nodes.lost_versions() > 0);
        nodes.set_fault(0, 1, Fault::default());
        // Who reads learns first that there is a new connection, and asks again.
        nodes.runtime(1).connected(nodes.number(0));
        std::thread::sleep(Duration::from_millis(200));
        nodes.runtime(0).connected(nodes.number(1));
        reading.join().unwrap().unwrap();
    });
}

#[test]
fn what_a_writer_does_not_have_that_is_not_asked_any_more_is_not_lost() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("former", 2);
    let (here, name) = create_at(&nodes, "u", 0);
    let there = nodes.objects(1).wait(&name, LONG).unwrap();
    let mut writer = there.write("{ var v = u }").attach().unwrap();
    let mut all = here.read("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    all.reattach(1, LONG).unwrap();
    nodes.set_fault(1, 0, Fault { reading: Duration::from_secs(2), ..Fault::default() });
    writer.publish(2).unwrap();
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| all.reattach(2, LONG));
        std::thread::sleep(Duration::from_millis(700));
        // As a node says on a slow link that was asked before the home said who writes this version.
        let from = nodes.number(1);
        let who = Some(Who { writer: Writer { node: from, process: 1, serial: 77 }, rank: None });
        for subscription in 1..10 {
            let lost = Lost { subscription, version: 2, cause: Cause::Gone, who };
            nodes.runtime(0).receive(from, Message::Lost(lost), &mut Nothing);
        }
        reading.join().unwrap().unwrap();
    });
}

#[test]
fn a_version_that_comes_slowly_holds_up_no_other_object() {
    let _watchdog = watchdog(90);
    let nodes = Nodes::new("mover", 3);
    let mut own = Vec::new();
    let mut far = Vec::new();
    let mut read = Vec::new();
    for (name, node) in [("slow", 1), ("fast", 2)] {
        // What a home says comes on the same way, which is the slow one.
        let (here, name) = create_at(&nodes, name, 0);
        let there = nodes.objects(node).wait(&name, LONG).unwrap();
        own.push(here.write("{ var v [x:4] = u[x] }").attach().unwrap());
        far.push(there.write("{ var v [x:4] = u[x+4] }").attach().unwrap());
        read.push(here.read("{ var v = u }").attach().unwrap());
    }
    for at in 0..2 {
        own[at].publish(1).unwrap();
        far[at].publish(1).unwrap();
        read[at].reattach(1, LONG).unwrap();
    }
    nodes.set_fault(1, 0, Fault { reading: Duration::from_secs(1000), ..Fault::default() });
    for one in &mut far {
        // What has not changed would not be sent.
        one.variable_mut::<i32>("v").unwrap().fill(2);
        one.publish(2).unwrap();
    }
    let slow_is_there = AtomicBool::new(false);
    let mut fast = read.pop().unwrap();
    let mut slow = read.pop().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            slow.reattach(2, 3 * LONG).unwrap();
            slow_is_there.store(true, Ordering::SeqCst);
        });
        // The other node's elements are on their way by then.
        std::thread::sleep(Duration::from_millis(500));
        own.iter_mut().for_each(|one| _ = one.publish(2).unwrap());
        std::thread::sleep(Duration::from_millis(200));
        fast.reattach(2, LONG).unwrap();
        assert!(!slow_is_there.load(Ordering::SeqCst), "the other object waited for it");
        nodes.set_fault(1, 0, Fault::default());
    });
}

#[test]
fn a_program_that_stops_with_the_board_of_an_object_holds_up_no_other() {
    let _watchdog = watchdog(120);
    let nodes = Nodes::new("board", 2);
    let held = nodes.objects(0).create("a", "var u [8] int32").create().unwrap();
    let there = nodes.objects(1).wait("a", LONG).unwrap();
    let mut all = there.read("{ var v = u }").attach().unwrap();
    let mut other_writer = held.write("{ var v [x:4] = u[x] }").attach().unwrap();
    other_writer.publish(1).unwrap();
    let there_too = there.clone();
    let mut half = there.read("{ var v [x:4] = u[x] }").attach().unwrap();
    half.reattach(1, LONG).unwrap();
    let _ = all.reattach(1, Duration::from_millis(100));
    let boards = nodes.dir(1).join(".objects/boards");
    let files: Vec<_> = std::fs::read_dir(&boards).unwrap().map(|entry| entry.unwrap().path()).collect();
    let files: Vec<_> =
        files.iter().map(|path| std::fs::File::options().read(true).write(true).open(path).unwrap()).collect();
    let here = nodes.objects(0).create("b", "var u [8] int32").create().unwrap();
    let mut writer = here.write("{ var v = u }").attach().unwrap();
    let there = nodes.objects(1).wait("b", LONG).unwrap();
    let mut other = there.read("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    other.reattach(1, LONG).unwrap();
    files.iter().for_each(|file| until("the board is free", || lock::try_lock(file, Kind::Write, 0, 1).unwrap()));
    // The other node is to tell its programs of this one.
    let _writer = held.write("{ var v [x:4] = u[x+4] }").attach().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let mut version = 1;
    // Where a program gives up before the other object has come that far, the runtime may have waited for the board as long, or the
    // machine stood still: that does not happen each time.
    let is_free = (0..5).any(|_| {
        let has_given_up = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // A program waits for the board as long as programs do.
                let attached = there_too.write("{ var v [x:1] = u[x] }").version(5).attach();
                assert!(matches!(attached, Err(Error::Locked { .. })), "{attached:?}");
                has_given_up.store(true, Ordering::SeqCst);
            });
            for _ in 0..5 {
                version += 1;
                writer.publish(version).unwrap();
                std::thread::sleep(Duration::from_millis(300));
                other.reattach(version, LONG).unwrap();
            }
            !has_given_up.load(Ordering::SeqCst)
        })
    });
    assert!(is_free, "the other object waited for the board");
}

fn ask(stream: &mut BufReader<UnixStream>, line: &str) -> String {
    stream.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
    let mut reply = String::new();
    stream.get_ref().set_read_timeout(Some(LONG)).unwrap();
    let _ = stream.read_line(&mut reply);
    reply
}

#[test]
fn a_program_that_asks_for_many_fragments_on_one_connection_leaves_nothing() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("twice", 2);
    let mut ids = Vec::new();
    for name in ["a", "b"] {
        let object = nodes.objects(0).create(name, "var u [8] int32").create().unwrap();
        nodes.objects(1).wait(name, LONG).unwrap();
        ids.push(object.description().id);
    }
    let stream = UnixStream::connect(nodes.dir(1).join(".objects/runtime")).unwrap();
    let mut stream = BufReader::new(stream);
    for (name, id) in [("a", ids[0]), ("a", ids[0]), ("b", ids[1]), ("a", ids[0])] {
        let line = format!(r#"{{"read":{{"name":"{name}","id":{id},"text":"{{ var v = u }}","bindings":{{}}}}}}"#);
        ask(&mut stream, &line);
    }
    drop(stream);
    let left = || stillframe::inspect::regions(&nodes.dir(1).join("objects")).unwrap();
    until("all regions are gone", || left().is_empty());
}

#[test]
fn who_waits_for_an_object_that_is_removed_is_told_so() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("removed", 2);
    let here = nodes.objects(0).create("u", "var u [8] int32").create().unwrap();
    let mut writer = here.write("{ var v = u }").attach().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut all = there.read("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    all.reattach(1, LONG).unwrap();
    let error = std::thread::scope(|scope| {
        let reading = scope.spawn(|| all.reattach(2, LONG));
        std::thread::sleep(Duration::from_millis(500));
        nodes.objects(0).remove("u", true).unwrap();
        // As those who watch names are told.
        nodes.runtime(1).removed("u", id_of(&here));
        reading.join().unwrap().unwrap_err()
    });
    assert!(!error.is_timeout(), "{error}");
    assert!(matches!(error, Error::Removed { .. }), "{error:?}");
    drop(all);
    let left = || stillframe::inspect::regions(&nodes.dir(1).join("objects")).unwrap();
    while !left().is_empty() {
        // The watchdog ends this if it never is.
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_writer_whose_place_another_one_took_while_it_was_lost_is_told_so() {
    let _watchdog = watchdog(90);
    let mut nodes = Nodes::new("returned", 3);
    let here = nodes.objects(0).create("u", "var u [8] int32").create().unwrap();
    let [apart, heirs] = [1, 2].map(|node| nodes.objects(node).wait("u", LONG).unwrap());
    let mut left = here.write("{ var v [x:4] = u[x] }").attach().unwrap();
    let mut lost = apart.write("{ var v [x:4] = u[x+4] }").attach().unwrap();
    nodes.stop(1);
    nodes.lose(1);
    let mut heir = heirs.write("{ var v [x:4] = u[x+4] }").wait(LONG).attach().unwrap();
    heir.variable_mut::<i32>("v").unwrap().fill(7);
    // Its program does not know that it is lost.
    lost.variable_mut::<i32>("v").unwrap().fill(9);
    for version in 1..=3 {
        left.publish(version).unwrap();
        heir.publish(version).unwrap();
        lost.publish(version).unwrap();
        assert_eq!(here.wait_newer(version - 1, LONG).unwrap(), version);
    }
    nodes.start(1);
    // The watchdog ends this if it never is.
    let told = (4..).find_map(|version| {
        std::thread::sleep(Duration::from_millis(50));
        lost.publish(version).err()
    });
    assert!(matches!(told, Some(Error::NotAccepted { .. })), "{told:?}");
    drop(lost);
    assert_eq!(apart.wait_newer(0, LONG).unwrap(), 3);
    for object in [&here, &apart] {
        let mut all = object.read("{ var v = u }").attach().unwrap();
        all.reattach(3, LONG).unwrap();
        assert_eq!(all.variable::<i32>("v").unwrap()[4..], [7; 4]);
    }
}

/// Programs that ask for more answers than they read, while what they wait for changes.
#[test]
fn programs_that_hardly_read_their_answers_hold_up_no_other() {
    let _watchdog = watchdog(120);
    let nodes = Nodes::new("deaf", 2);
    let (watched, fast) = ("watched", "fast");
    let here = nodes.objects(0).create(watched, "var u [8] int32").create().unwrap();
    let id = nodes.objects(1).wait(watched, LONG).unwrap().description().id;
    let mut parts: Vec<_> =
        (0..8).map(|at| here.write("{ var v [x:1] = u[x+at] }").bind("at", at).attach().unwrap()).collect();
    let other = nodes.objects(0).create(fast, "var u [8] int32").create().unwrap();
    let there = nodes.objects(1).wait(fast, LONG).unwrap();
    let mut writer = other.write("{ var v = u }").attach().unwrap();
    let mut reader = there.read("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    reader.reattach(1, LONG).unwrap();
    let deaf: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = UnixStream::connect(nodes.dir(1).join(".objects/runtime")).unwrap();
            let read =
                format!(r#"{{"read":{{"name":"{watched}","id":{id},"text":"{{ var v = u }}","bindings":{{}}}}}}"#);
            let asked = format!("{read}\n{}\n", r#"{"version":{"version":5,"next":null}}"#);
            stream.write_all(asked.as_bytes()).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        })
        .collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (number, stream) in deaf.iter().enumerate() {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut read = Instant::now() - Duration::from_millis(500) * number as u32;
                while !is_over.load(Ordering::SeqCst) {
                    let _ = (&*stream).write(b"\"nodes\"\n");
                    std::thread::sleep(Duration::from_micros(100));
                    if read.elapsed() > Duration::from_secs(4) {
                        // Often enough not to be one that reads nothing at all.
                        let mut answers = [0; 4096];
                        while matches!((&*stream).read(&mut answers), Ok(1..)) {}
                        read = Instant::now();
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_secs(1));
        // Whom they wait for is another one with each of these.
        for part in &mut parts {
            part.publish(5).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
        writer.publish(2).unwrap();
        let read = reader.reattach(2, LONG);
        is_over.store(true, Ordering::SeqCst);
        read.unwrap();
    });
}

/// Somebody holds every version of a fragment that the runtime fills, as many as a region can have.
#[test]
fn a_fragment_whose_versions_are_all_held_is_filled_elsewhere() {
    let _watchdog = watchdog(120);
    let nodes = Nodes::new("held", 2);
    let here = nodes.objects(0).create("u", "var u [8] int32").create().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    let mut writer = here.write("{ var v = u }").attach().unwrap();
    let mut all = there.read("{ var v = u }").attach().unwrap();
    let mut held = Vec::new();
    let mut version = 0;
    // The runtime may fill elsewhere before a version could be held: it goes on until enough are.
    while held.len() <= 90 {
        version += 1;
        writer.variable_mut::<i32>("v").unwrap().fill(version as i32);
        writer.publish(version).unwrap();
        all.reattach(version, LONG).unwrap_or_else(|error| panic!("version {version}: {error}"));
        assert_eq!(all.variable::<i32>("v").unwrap(), [version as i32; 8]);
        let options = stillframe::Observer::options().dir(nodes.dir(1));
        let regions = stillframe::inspect::regions(&nodes.dir(1).join("objects")).unwrap();
        for region in regions.iter().filter(|region| region.name.contains("/r")) {
            let observer = options.clone().open(&format!("objects/{}", region.name)).unwrap();
            held.extend(observer.version(version).ok());
        }
    }
}

#[test]
fn a_node_that_is_slow_in_the_middle_of_a_version_holds_up_nothing_of_others() {
    let _watchdog = watchdog(120);
    let nodes = Nodes::new("middle", 3);
    // Not where all messages come late: on a network decisions go by a connection of their own.
    let ((_, shared), (_, whole)) = (create_at(&nodes, "u", 1), create_at(&nodes, "w", 1));
    let open = |node: usize, name: &str| nodes.objects(node).wait(name, LONG).unwrap();
    let mut slow = open(0, &shared).write("{ var v [x:4] = u[x] }").attach().unwrap();
    let mut quick = open(1, &shared).write("{ var v [x:4] = u[x+4] }").attach().unwrap();
    let mut other = open(1, &whole).write("{ var v = u }").attach().unwrap();
    let (of_u, of_w) = (open(2, &shared), open(2, &whole));
    nodes.set_fault(0, 2, Fault { reading: Duration::from_secs(1000), ..Fault::default() });
    // What is quick comes when the other one is in the middle of it.
    nodes.set_fault(1, 2, Fault { delay: Duration::from_millis(300), ..Fault::default() });
    for writer in [&mut slow, &mut quick, &mut other] {
        writer.variable_mut::<i32>("v").unwrap().fill(1);
        writer.publish(1).unwrap();
    }
    std::thread::scope(|scope| {
        let all = scope.spawn(|| {
            let mut all = of_u.read("{ var v = u }").attach().unwrap();
            all.reattach(1, 3 * LONG).map(|()| all.variable::<i32>("v").unwrap().to_vec())
        });
        std::thread::sleep(Duration::from_secs(1));
        let mut read = of_w.read("{ var v = u }").attach().unwrap();
        let came = read.reattach(1, LONG);
        assert!(!all.is_finished());
        nodes.set_fault(0, 2, Fault::default());
        came.unwrap();
        assert_eq!(all.join().unwrap().unwrap(), [1; 8]);
    });
}

#[test]
fn what_the_home_decides_for_its_own_node_while_the_board_is_held_is_not_lost() {
    let _watchdog = watchdog(60);
    let mut nodes = Nodes::new("decided", 2);
    let (here, name) = create_at(&nodes, "u", 0);
    let there = nodes.objects(1).wait(&name, LONG).unwrap();
    let mut own = here.write("{ var v [x:4] = u[x] }").attach().unwrap();
    own.publish(1).unwrap();
    // All of the other node comes with one report: who writes there, and that version 1 is whole by that.
    nodes.stop(1);
    let mut other = there.write("{ var v [x:4] = u[x+4] }").attach().unwrap();
    other.publish(1).unwrap();
    let boards = std::fs::read_dir(nodes.dir(0).join(".objects/boards")).unwrap();
    let open = |path: PathBuf| std::fs::File::options().read(true).write(true).open(path).unwrap();
    let files: Vec<_> = boards.map(|entry| open(entry.unwrap().path())).collect();
    // The runtime may be about to let go of one.
    files.iter().for_each(|file| until("the board is free", || lock::try_lock(file, Kind::Write, 0, 1).unwrap()));
    nodes.start(1);
    std::thread::sleep(Duration::from_millis(500));
    drop(files);
    assert_eq!(here.wait_newer(0, LONG).unwrap(), 1);
    assert_eq!(there.wait_newer(0, LONG).unwrap(), 1);
}

#[test]
fn a_connection_that_ends_in_the_middle_of_a_version_loses_nothing() {
    let _watchdog = watchdog(60);
    let nodes = Nodes::new("cut", 2);
    let here = nodes.objects(0).create("u", "var u [1000] int64").create().unwrap();
    let mut writer = here.write("{ var v = u }").attach().unwrap();
    let there = nodes.objects(1).wait("u", LONG).unwrap();
    // One is put together as it comes, the other has to be taken apart.
    let mut whole = there.read("{ var v = u }").attach().unwrap();
    let mut parts = there.read("{ var v [x:500] = u[2*x] }").attach().unwrap();
    for version in 1..=3_u64 {
        writer.variable_mut::<i64>("v").unwrap().fill(version as i64);
        writer.publish(version).unwrap();
        nodes.set_fault(0, 1, Fault { cuts_reading: true, ..Fault::default() });
        std::thread::scope(|scope| {
            let reading = [&mut whole, &mut parts].map(|one| scope.spawn(move || one.reattach(version, LONG)));
            std::thread::sleep(Duration::from_millis(300));
            nodes.set_fault(0, 1, Fault::default());
            // There is another one.
            nodes.runtime(0).connected(nodes.number(1));
            nodes.runtime(1).connected(nodes.number(0));
            reading.into_iter().for_each(|one| one.join().unwrap().unwrap());
        });
        assert!(whole.variable::<i64>("v").unwrap().iter().all(|value| *value == version as i64));
        assert!(parts.variable::<i64>("v").unwrap().iter().all(|value| *value == version as i64));
    }
}
