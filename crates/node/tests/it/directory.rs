//! What a node's directory of objects says against what etcd says when a runtime begins.

use crate::common::watchdog;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use stillframe_etcd::Child;
use stillframe_link::{Means, identity};
use stillframe_node::{Error, Service, ServiceOptions};
use stillframe_object::{Object, Objects, WriteFragment};

const LONG: Duration = Duration::from_secs(60);

/// Directories of some nodes, the job's certificate, and where names are kept, if that is no runtime's own etcd.
struct Place {
    dir: PathBuf,
    names: Vec<String>,
}

impl Place {
    fn new(name: &str, names: &[&str]) -> Place {
        let dir = PathBuf::from(format!("/dev/shm/stillframe-test-directory-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        identity::create(dir.join("certificate"), "heat-17", identity::LIFETIME).unwrap();
        Place { dir, names: names.iter().map(ToString::to_string).collect() }
    }

    fn objects(&self, name: &str) -> Objects {
        Objects::options().dir(self.dir.join(name)).open().unwrap()
    }

    fn start(&self, name: &str) -> Service {
        let options = ServiceOptions {
            dir: self.dir.join(name),
            name: name.into(),
            listen: "127.0.0.1:0".parse().unwrap(),
            advertise: None,
            identity: self.dir.join("certificate"),
            names: self.names.clone(),
            names_tls: None,
            memory_bytes: None,
            means: Means::Tls,
            // No lease ends by itself here, however long a node gets no processor.
            lease: Duration::from_secs(600),
        };
        let begin = Instant::now();
        loop {
            match Service::start(options.clone()) {
                // The one before may be ending still.
                Err(Error::Running { .. } | Error::Namesake { .. }) if begin.elapsed() < LONG => {}
                started => return started.unwrap(),
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Objects with a writer each, which has published one version. They are so many that shards of other nodes are among theirs.
fn written(objects: &Objects) -> Vec<(Object, WriteFragment)> {
    let created = (0..12).map(|number| {
        let object = objects.create(&format!("u{number}"), "var u [8] int64").create().unwrap();
        let mut writer = object.write("{ var v = u }").attach().unwrap();
        writer.publish(1).unwrap();
        assert_eq!(object.wait_newer(0, LONG).unwrap(), 1);
        (object, writer)
    });
    created.collect()
}

/// Each next version becomes complete, here and on another node, which finds the very objects.
fn go_on(all: &mut [(Object, WriteFragment)], there: &Objects, version: u64) {
    for (object, writer) in all {
        let other = there.wait(object.name(), LONG).unwrap();
        assert_eq!(other.description().id, object.description().id, "{}", object.name());
        writer.variable_mut::<i64>("v").unwrap().fill(version as i64);
        writer.publish(version).unwrap();
        assert_eq!(object.wait_newer(version - 1, LONG).unwrap(), version, "{}", object.name());
        let mut reader = other.read("{ var v = u }").attach().unwrap();
        reader.reattach(version, LONG).unwrap();
        assert_eq!(reader.variable::<i64>("v").unwrap(), [version as i64; 8]);
    }
}

#[test]
fn objects_of_before_the_first_runtime_go_on_when_other_nodes_join() {
    let _watchdog = watchdog(240);
    let place = Place::new("before", &[]);
    let mut all = written(&place.objects("a"));
    let _first = place.start("a");
    let _second = place.start("b");
    go_on(&mut all, &place.objects("b"), 2);
    let _third = place.start("c");
    go_on(&mut all, &place.objects("c"), 3);
}

#[test]
fn objects_that_etcd_forgot_while_no_runtime_ran_are_put_there_again() {
    let _watchdog = watchdog(240);
    for had_another in [false, true] {
        let place = Place::new(if had_another { "forgot-all" } else { "forgot-one" }, &[]);
        let first = place.start("a");
        let second = had_another.then(|| place.start("b"));
        let mut all = written(&place.objects("a"));
        if had_another {
            go_on(&mut all, &place.objects("b"), 2);
        }
        // The data of etcd go with the runtime that keeps the names.
        drop((second, first));
        let _first = place.start("a");
        let _second = had_another.then(|| place.start("b"));
        let _third = place.start("c");
        go_on(&mut all, &place.objects("c"), 3);
    }
}

#[test]
fn objects_that_were_removed_or_created_anew_while_a_runtime_was_down_are_so_here_too() {
    let _watchdog = watchdog(240);
    let etcd = Child::options().deadline(LONG).start().unwrap();
    let place = Place::new("stale", &[etcd.endpoint()]);
    let _first = place.start("a");
    let second = place.start("b");
    let (here, there) = (place.objects("a"), place.objects("b"));
    for name in ["anew", "kept", "removed"] {
        let object = here.create(name, "var u [8] int64").create().unwrap();
        let mut writer = object.write("{ var v = u }").attach().unwrap();
        writer.publish(1).unwrap();
        there.wait(name, LONG).unwrap();
    }
    // Without a home that nobody else takes over before its lease ends.
    second.leave().unwrap();
    here.remove("removed", true).unwrap();
    here.remove("anew", true).unwrap();
    let object = here.create("anew", "var u [8] int64").create().unwrap();
    let writer = object.write("{ var v = u }").attach().unwrap();
    let _second = place.start("b");
    assert!(there.list().unwrap().iter().all(|name| name != "removed"), "it was removed");
    go_on(&mut [(object, writer)], &there, 1);
    assert_eq!(there.list().unwrap(), ["anew", "kept"]);
    // What is created without a runtime is so no more, and a name that was removed can be given anew.
    there.create("removed", "var u [8] int64").create().unwrap();
    here.wait("removed", LONG).unwrap();
}

/// As `docs/nodes.md` advises where no job runs any more.
#[test]
fn objects_that_were_created_after_the_runtime_was_given_up_are_kept_by_the_next_one() {
    let _watchdog = watchdog(240);
    let etcd = Child::options().deadline(LONG).start().unwrap();
    let place = Place::new("given-up", &[etcd.endpoint()]);
    drop(place.start("a"));
    std::fs::remove_file(place.dir.join("a/.objects/runtime.lock")).unwrap();
    let mut all = written(&place.objects("a"));
    let _first = place.start("a");
    let _second = place.start("b");
    go_on(&mut all, &place.objects("b"), 2);
}

/// Programs of both nodes created an object before their runtimes ran.
#[test]
fn an_object_that_was_created_apart_stands_in_the_way_of_nobody_elsewhere() {
    let _watchdog = watchdog(240);
    let place = Place::new("apart", &[]);
    let there = place.objects("b");
    let apart = there.create("u3", "var u [8] int64").create().unwrap();
    let writer = apart.write("{ var v = u }").attach().unwrap();
    there.create("u4", "var u [8] int64").create().unwrap();
    let mut all = written(&place.objects("a"));
    let _first = place.start("a");
    let _second = place.start("b");
    let _third = place.start("c");
    go_on(&mut all, &place.objects("c"), 2);
    assert_eq!(there.object_named("u3").unwrap().description().id, apart.description().id, "it is being written");
    drop(writer);
    // This node hears of it, too.
    there.remove("u3", false).unwrap();
    let own = |name: &str| all.iter().find(|(object, _)| object.name() == name).unwrap().0.description().id;
    let has = |name: &str| there.object_named(name).is_ok_and(|object| object.description().id == own(name));
    until("the name is free, and the others' object has it", || has("u3"));
    assert!(has("u4"), "nobody wrote the one that was there");
    go_on(&mut all, &there, 3);
}
