//! Homes of objects, spread over the nodes of a job.

use crate::common::watchdog;
use crate::gateway;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use stillframe_etcd::{Child, SHARDS, Shard, shard_of};
use stillframe_link::{Identity, Means, identity};
use stillframe_node::{Service, ServiceOptions};
use stillframe_object::{Object, Objects, WriteFragment};
use stillframe_roster::writer::Node;

const LONG: Duration = Duration::from_secs(60);

/// Directories of some nodes, and the job's certificate.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let dir = PathBuf::from(format!("/dev/shm/stillframe-test-homes-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        identity::create(dir.join("certificate"), "heat-17", identity::LIFETIME).unwrap();
        Place(dir)
    }

    fn objects(&self, name: &str) -> Objects {
        Objects::options().dir(self.0.join(name)).open().unwrap()
    }

    /// A key of the job, as docs/names.md says that it begins.
    fn key(&self, rest: &str) -> String {
        let number = Identity::open(self.0.join("certificate")).unwrap().number();
        format!("stillframe/heat-17-{number:016x}/{rest}")
    }

    fn start(&self, name: &str) -> Service {
        self.start_by(name, Vec::new())
    }

    /// Starts a node whose names are kept at these addresses.
    fn start_by(&self, name: &str, names: Vec<String>) -> Service {
        let options = ServiceOptions {
            dir: self.0.join(name),
            name: name.into(),
            listen: "127.0.0.1:0".parse().unwrap(),
            advertise: None,
            identity: self.0.join("certificate"),
            names,
            names_tls: None,
            memory_bytes: None,
            means: Means::Tls,
            // No lease ends by itself here, however long a node gets no processor.
            lease: Duration::from_secs(600),
        };
        Service::start(options).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits until all see all shards spread over these nodes, each of which has at least half of what is its due.
fn wait_for_spread(seers: &[&Service], nodes: &[Node]) {
    let (begin, fair) = (Instant::now(), SHARDS as usize / nodes.len());
    let is_spread = |service: &&Service| {
        let mut counts: BTreeMap<Node, usize> = BTreeMap::new();
        service.homes().into_iter().for_each(|(_, home)| *counts.entry(home.node).or_default() += 1);
        counts.values().sum::<usize>() == SHARDS as usize
            && counts.keys().eq(nodes)
            && counts.values().all(|count| *count >= fair / 2)
    };
    while !seers.iter().all(is_spread) {
        let homes: Vec<_> = seers.iter().map(|service| service.homes()).collect();
        assert!(begin.elapsed() < LONG, "homes are not spread over {nodes:?}: {homes:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn nodes(services: &[Service]) -> Vec<Node> {
    let mut nodes: Vec<Node> = services.iter().map(Service::node).collect();
    nodes.sort();
    nodes
}

#[test]
fn homes_are_spread_over_nodes_that_start_one_after_the_other() {
    let _watchdog = watchdog(180);
    let place = Place::new("row");
    let mut services: Vec<Service> = Vec::new();
    for name in ["a", "b", "c", "d"] {
        services.push(place.start(name));
        wait_for_spread(&services.iter().collect::<Vec<_>>(), &nodes(&services));
    }
}

#[test]
fn homes_are_spread_over_nodes_that_start_together() {
    let _watchdog = watchdog(180);
    let place = Place::new("together");
    let services: Vec<Service> = std::thread::scope(|scope| {
        let starts = ["a", "b", "c", "d"].map(|name| {
            let place = &place;
            scope.spawn(move || place.start(name))
        });
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    wait_for_spread(&services.iter().collect::<Vec<_>>(), &nodes(&services));
}

/// An object of which this process writes all, and says whether that becomes complete.
struct Written {
    object: Object,
    writer: WriteFragment,
    version: u64,
}

impl Written {
    fn new(objects: &Objects, name: &str) -> Written {
        let object = objects.create(name, "var u [8] int64").create().unwrap();
        let writer = object.write("{ var v = u }").attach().unwrap();
        Written { object, writer, version: 0 }
    }

    fn shard(&self, objects: &Objects) -> Shard {
        shard_of(objects.names().get(self.object.name()).unwrap().unwrap().id)
    }

    fn publish(&mut self) {
        self.version += 1;
        self.writer.variable_mut::<i64>("v").unwrap().fill(self.version as i64);
        self.writer.publish(self.version).unwrap();
    }

    /// Reads it on another node, with all its elements.
    fn check(&self, there: &Objects) {
        let mut reader = there.wait(self.object.name(), LONG).unwrap().read("{ var v = u }").attach().unwrap();
        reader.reattach(self.version, LONG).unwrap();
        assert!(reader.variable::<i64>("v").unwrap().iter().all(|number| *number == self.version as i64));
    }
}

#[test]
fn objects_stay_complete_while_shards_are_handed_over() {
    let _watchdog = watchdog(240);
    let place = Place::new("hand");
    let first = place.start("a");
    let here = place.objects("a");
    let mut all: Vec<Written> = (0..6).map(|number| Written::new(&here, &format!("old/u{number}"))).collect();
    let kept: Vec<(Shard, Node)> = all.iter().map(|one| (one.shard(&here), first.node())).collect();
    all.iter_mut().for_each(Written::publish);
    let mut others = Vec::new();
    for name in ["b", "c"] {
        others.push(place.start(name));
        let newcomer = others.last().unwrap().node();
        let has_one = || first.homes().iter().any(|(_, home)| home.node == newcomer);
        let begin = Instant::now();
        let mut rounds = 0;
        // While shards go, objects come and versions go on.
        while rounds < 20 || !has_one() {
            assert!(begin.elapsed() < 2 * LONG, "nothing is handed over");
            rounds += 1;
            all.push(Written::new(&here, &format!("new/{name}/u{}", all.len())));
            all.iter_mut().for_each(Written::publish);
            for one in &all {
                assert_eq!(one.object.wait_newer(one.version - 1, LONG).unwrap(), one.version);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let there = place.objects(name);
        all.iter().for_each(|one| one.check(&there));
    }
    let homes: BTreeMap<Shard, Node> = first.homes().into_iter().map(|(shard, home)| (shard, home.node)).collect();
    assert!(kept.iter().all(|(shard, node)| homes.get(shard) == Some(node)), "what has objects stays: {homes:?}");
    assert!(homes.values().any(|node| *node != first.node()), "what has none goes");
}

#[test]
fn a_home_that_dies_with_what_it_was_just_given_is_replaced() {
    let _watchdog = watchdog(240);
    let place = Place::new("dies");
    let names = Child::options().deadline(LONG).start().unwrap();
    let start = |name: &str| place.start_by(name, vec![names.endpoint().to_owned()]);
    let first = start("a");
    let here = place.objects("a");
    for turn in 0..2 {
        let second = start(&format!("b{turn}"));
        let lost = second.node();
        let begin = Instant::now();
        // It has a shard, and perhaps not yet all that it is to have.
        while !first.homes().iter().any(|(_, home)| home.node == second.node()) {
            assert!(begin.elapsed() < LONG, "nothing is handed over");
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut all: Vec<Written> =
            (0..12).map(|number| Written::new(&here, &format!("turn{turn}/u{number}"))).collect();
        all.iter_mut().for_each(Written::publish);
        // As if it were killed: it gives nothing back, and its lease ends later.
        drop(second);
        all.iter_mut().for_each(Written::publish);
        gateway::end_lease(names.endpoint(), &place.key(&format!("node/{}", lost.0)));
        for one in &all {
            assert_eq!(one.object.wait_newer(1, LONG).unwrap(), 2, "turn {turn}");
        }
        wait_for_spread(&[&first], &[first.node()]);
    }
}
