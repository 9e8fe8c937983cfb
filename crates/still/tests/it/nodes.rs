//! The commands that remove objects, beside a runtime that speaks for other nodes.

use crate::support::Scene;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use stillframe_object::Objects;
use stillframe_object::runtime::{NodeSummary, Reply, Request, RuntimeLock, SOCKET};

fn summary(number: u32) -> NodeSummary {
    let (name, address) = (format!("n{number}"), format!("10.0.0.{number}:7000"));
    NodeSummary { number, name, address, is_own: number == 1, is_connected: true, sent_bytes: 0, received_bytes: 0 }
}

/// A runtime of one of so many nodes, until what is returned is dropped. It has heard all homes.
fn runtime(scene: &Scene, nodes: u32) -> RuntimeLock {
    let own = scene.dir().join(".objects");
    let objects = Objects::options().dir(scene.dir()).as_runtime().open().unwrap();
    let held = loop {
        // A child that another test has just forked may have the one of before for a moment.
        match RuntimeLock::take(&objects).unwrap() {
            Some(held) => break held,
            None => std::thread::yield_now(),
        }
    };
    let _ = std::fs::remove_file(own.join(SOCKET));
    let listener = UnixListener::bind(own.join(SOCKET)).unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            for line in lines.map_while(Result::ok) {
                let reply = match serde_json::from_str(&line).unwrap() {
                    Request::Nodes => Reply::Nodes((1..=nodes).map(summary).collect()),
                    Request::Heard { .. } => Reply::Heard,
                    Request::Remove { .. } => Reply::Removed(true),
                    other => Reply::Failed(format!("{other:?}")),
                };
                writeln!(stream, "{}", serde_json::to_string(&reply).unwrap()).unwrap();
            }
        }
    });
    held
}

#[test]
fn gc_leaves_an_object_that_programs_of_other_nodes_may_read() {
    let scene = Scene::new();
    let objects = Objects::options().dir(scene.dir()).open().unwrap();
    let object = objects.create("heat", "var u [8] int32").create().unwrap();
    let mut writer = object.write("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    writer.detach().unwrap();
    let held = runtime(&scene, 2);
    for words in [&["gc", "--dry-run"][..], &["gc"]] {
        let told = scene.ok(words);
        assert!(told.starts_with("left object heat: ") && told.contains("still rm 'heat'"), "{told}");
    }
    let report = scene.json(&["gc", "--json"]);
    let [told] = &report["objects"].as_array().unwrap()[..] else { panic!("{report}") };
    assert!(told["kept"].is_string() && told["error"].is_null() && told["freed_bytes"].is_null(), "{told}");
    assert_eq!(object.versions().unwrap(), [1]);
    drop(held);
    let _held = runtime(&scene, 1);
    assert!(scene.ok(&["gc"]).starts_with("removed object heat, "));
}
