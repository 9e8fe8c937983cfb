//! Runtimes as `still-node` runs them: over TCP with a job's certificate, with names in an etcd of their own.

use crate::common::watchdog;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stillframe_etcd::Child;
use stillframe_fabric::Libfabric;
use stillframe_link::{Connection, Means, Options, Source, identity};
use stillframe_node::{Error, Service, ServiceOptions};
use stillframe_object::Objects;
use stillframe_object::hints::bit_of;
use stillframe_roster::writer::Node;
use stillframe_segment::head::ABI;
use stillframe_wire::hello::{Hello, Protocols, Refuse};
use stillframe_wire::{Kind, Message};

const LONG: Duration = Duration::from_secs(60);

/// Directories of some nodes, and the job's certificate.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let dir = PathBuf::from(format!("/dev/shm/stillframe-test-service-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        identity::create(dir.join("certificate"), "heat-17", identity::LIFETIME).unwrap();
        Place(dir)
    }

    fn node(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn objects(&self, name: &str) -> Objects {
        Objects::options().dir(self.node(name)).open().unwrap()
    }

    fn options(&self, name: &str, names: &[&str], means: &Means) -> ServiceOptions {
        ServiceOptions {
            dir: self.node(name),
            name: name.into(),
            listen: "127.0.0.1:0".parse().unwrap(),
            advertise: None,
            identity: self.0.join("certificate"),
            names: names.iter().map(|name| name.to_string()).collect(),
            names_tls: None,
            memory_bytes: None,
            means: means.clone(),
            // None of these is about the end of one.
            lease: Duration::from_secs(60),
        }
    }

    fn start(&self, name: &str, names: &[&str], means: &Means) -> Service {
        Service::start(self.options(name, names, means)).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn exchange(means: &Means) {
    let place = Place::new(&means.to_string().replace(':', "-"));
    let first = place.start("a", &[], means);
    let second = place.start("b", &[first.names()], means);
    assert_ne!(first.node(), second.node());
    let here = place.objects("a").create("u", "var u [300,1000] float64").create().unwrap();
    let there = place.objects("b").wait("u", LONG).unwrap();
    let mut upper = here.write("{ var v [x:150,y:1000] = u[x,y] }").rank(0).attach().unwrap();
    let mut lower = there.write("{ var v [x:150,y:1000] = u[x+150,y] }").rank(1).attach().unwrap();
    // Whole rows, which lie together, and every third column of all, which do not.
    let mut rows = here.read("{ var g [x:100,y:1000] = u[x+200,y] }").attach().unwrap();
    let mut columns = there.read("{ var g [x:300,y:300] = u[x,3*y] }").attach().unwrap();
    for version in 1..=10_u64 {
        let values = |begin: u64| {
            move |(at, value): (usize, &mut f64)| *value = (version * 1_000_000 + begin + at as u64) as f64
        };
        upper.variable_mut::<f64>("v").unwrap().iter_mut().enumerate().for_each(values(0));
        lower.variable_mut::<f64>("v").unwrap().iter_mut().enumerate().for_each(values(150_000));
        upper.publish(version).unwrap();
        lower.publish(version).unwrap();
        rows.reattach(version, LONG).unwrap();
        columns.reattach(version, LONG).unwrap();
        let value = |x: usize, y: usize| (version * 1_000_000) as f64 + (x * 1000 + y) as f64;
        let got = rows.variable::<f64>("g").unwrap();
        assert!((0..100_000).all(|at| got[at] == value(200 + at / 1000, at % 1000)), "version {version}");
        let got = columns.variable::<f64>("g").unwrap();
        assert!((0..90_000).all(|at| got[at] == value(at / 300, 3 * (at % 300))), "version {version}");
    }
    assert_eq!(here.wait_newer(9, LONG).unwrap(), 10);
    assert_eq!(there.wait_newer(9, LONG).unwrap(), 10);
}

#[test]
fn nodes_exchange_versions_inside_tls() {
    let _watchdog = watchdog(120);
    exchange(&Means::Tls);
}

#[test]
fn nodes_exchange_versions_beside_tls() {
    let _watchdog = watchdog(120);
    exchange(&Means::Plain);
}

#[test]
fn nodes_exchange_versions_over_libfabric() {
    let _watchdog = watchdog(120);
    // `shm` is for nodes of one machine, as these are.
    // With both in one process libfabric 1.17 may crash: `make fabric` asks for that.
    if std::env::var_os("STILLFRAME_TEST_FABRIC").is_none() {
        eprintln!("skipped: make fabric runs this");
        return;
    }
    for provider in ["tcp", "shm"] {
        match Libfabric::open(provider) {
            Ok(fabric) => exchange(&Means::Fabric(Arc::new(fabric))),
            Err(error @ stillframe_fabric::Error::Environment { .. }) => panic!("{error}"),
            Err(error) => eprintln!("skipped: {error}"),
        }
    }
}

#[test]
fn a_stranger_is_not_let_in() {
    let _watchdog = watchdog(120);
    let (place, other) = (Place::new("own"), Place::new("other"));
    // Names that everybody reaches, as those of a site may be.
    let names = Child::options().deadline(LONG).start().unwrap();
    let first = place.start("a", &[names.endpoint()], &Means::Tls);
    let here = place.objects("a").create("u", "var u [8] int32").create().unwrap();
    let mut writer = here.write("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    // One with the certificate of another job of the same name.
    let stranger = other.start("b", &[names.endpoint()], &Means::Tls);
    let seen = other.objects("b");
    let own = seen.create("u", "var u [4] int64").create().unwrap();
    assert_eq!(
        (seen.list().unwrap(), own.newest().unwrap()),
        (vec!["u".to_owned()], 0),
        "it sees nothing of the others'"
    );
    // Also where it knows the address.
    let identity = identity::Identity::open(other.0.join("certificate")).unwrap();
    let error = Connection::connect(first.address(), &identity, &Options::default(), LONG).unwrap_err();
    assert!(matches!(error, stillframe_link::Error::Refused { .. }), "{error}");
    assert_eq!(here.wait_newer(0, LONG).unwrap(), 1, "those of the job go on");
    drop(stranger);
}

/// What a runtime answers to who greets it so.
fn answer(place: &Place, to: SocketAddr, hello: Hello) -> Message {
    let identity = identity::Identity::open(place.0.join("certificate")).unwrap();
    let (sender, mut receiver) = Connection::connect(to, &identity, &Options::default(), LONG).unwrap().split();
    let mut body = Vec::new();
    let kind = Message::Hello(hello).encode(&mut body);
    sender.send(kind.0, &body, Source::Nothing, LONG).unwrap();
    let frame = receiver.next(LONG).unwrap().expect("it answers");
    Message::decode(Kind(frame.kind()), frame.body()).unwrap()
}

#[test]
fn a_runtime_that_cannot_be_talked_to_is_told_why() {
    let _watchdog = watchdog(120);
    let place = Place::new("refused");
    let first = place.start("a", &[], &Means::Tls);
    let hello = |node: Node, abi: u32| Hello {
        protocols: Protocols::OWN,
        job: "heat-17".into(),
        node,
        name: "b".into(),
        incarnation: 1,
        abi,
    };
    let other = Node(first.node().0 + 1);
    let greeted = answer(&place, first.address(), hello(other, ABI));
    assert!(matches!(&greeted, Message::Hello(theirs) if theirs.node == first.node()), "{greeted:?}");
    for (node, abi, word) in [(other, ABI + 1, (ABI + 1).to_string()), (first.node(), ABI, first.node().0.to_string())]
    {
        let refused = answer(&place, first.address(), hello(node, abi));
        assert!(matches!(&refused, Message::Refuse(Refuse { why }) if why.contains(&word)), "{refused:?}");
    }
}

#[test]
fn names_of_a_job_are_for_those_with_its_certificate() {
    let _watchdog = watchdog(120);
    let (place, other) = (Place::new("own-names"), Place::new("other-names"));
    let first = place.start("a", &[], &Means::Tls);
    assert!(first.names().starts_with("https://"), "{}", first.names());
    let refused = Service::start(other.options("b", &[first.names()], &Means::Tls)).unwrap_err();
    assert!(matches!(refused, Error::Names(_)), "{refused}");
    let plain = first.names().replace("https", "http");
    let refused = Service::start(place.options("b", &[&plain], &Means::Tls)).unwrap_err();
    assert!(matches!(refused, Error::Names(_)), "{refused}");
}

#[test]
fn nodes_find_each_other_by_the_directory_of_the_certificate() {
    let _watchdog = watchdog(120);
    let place = Place::new("meeting");
    let names = ["a", "b", "c"];
    let mut all: Vec<Service> = std::thread::scope(|scope| {
        let place = &place;
        let start = |name| scope.spawn(move || place.start(name, &[], &Means::Tls));
        let threads: Vec<_> = names.into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(all.iter().filter(|one| one.names_process().is_some()).count(), 1);
    let here = place.objects("a").create("u", "var u [8] int32").create().unwrap();
    let mut writer = here.write("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    for name in names {
        assert_eq!(place.objects(name).wait("u", LONG).unwrap().wait_newer(0, LONG).unwrap(), 1);
        let begin = Instant::now();
        let nodes = loop {
            let nodes = place.objects(name).nodes().unwrap().unwrap();
            let called: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
            if called == names.into() {
                break nodes;
            }
            assert!(begin.elapsed() < LONG, "{nodes:?}");
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(nodes.iter().all(|node| node.is_own == (node.name == name)), "{nodes:?}");
    }
    let mut all_of_it = place.objects("b").wait("u", LONG).unwrap().read("{ var v = u }").attach().unwrap();
    all_of_it.reattach(1, LONG).unwrap();
    let nodes = place.objects("b").nodes().unwrap().unwrap();
    let writers = nodes.iter().find(|node| node.name == "a").unwrap();
    assert!(writers.is_connected && writers.received_bytes >= 32 && writers.sent_bytes > 0, "{writers:?}");
    drop(all_of_it);
    // Those that leave are no nodes any more, and the next one finds nobody's names.
    drop(writer);
    all.sort_by_key(|one| one.names_process().is_some());
    all.into_iter().for_each(|one| one.leave().unwrap());
    let again = place.start("d", &[], &Means::Tls);
    assert!(again.names_process().is_some());
}

#[test]
fn the_certificate_may_be_named_as_it_lies_from_here() {
    let _watchdog = watchdog(120);
    let place = Place::new("relative");
    let up = "../".repeat(std::env::current_dir().unwrap().components().count());
    let mut options = place.options("a", &[], &Means::Tls);
    options.identity = Path::new(&up).join(options.identity.strip_prefix("/").unwrap());
    assert!(options.identity.is_relative());
    Service::start(options).unwrap();
}

#[test]
fn names_are_kept_again_when_their_etcd_was_killed() {
    let _watchdog = watchdog(120);
    let place = Place::new("killed");
    let first = place.start("a", &[], &Means::Tls);
    let _second = place.start("b", &[], &Means::Tls);
    let here = place.objects("a").create("u", "var u [8] int32").create().unwrap();
    let mut writer = here.write("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    let there = place.objects("b").wait("u", LONG).unwrap();
    let mut all = there.read("{ var v = u }").attach().unwrap();
    all.reattach(1, LONG).unwrap();
    let former = first.names_process().unwrap();
    assert!(std::process::Command::new("kill").args(["-9", &former.to_string()]).status().unwrap().success());
    // Without names, data go on.
    writer.publish(2).unwrap();
    all.reattach(2, LONG).unwrap();
    let begin = Instant::now();
    while first.names_process().is_none_or(|process| process == former) {
        assert!(begin.elapsed() < LONG, "no etcd was started");
        std::thread::sleep(Duration::from_millis(20));
    }
    let back = Instant::now();
    // With names again, what is new is found, and so is what there was.
    let new = place.objects("b").create("w", "var w [8] int32").create().unwrap();
    println!("created {} ms after there were names", back.elapsed().as_millis());
    let mut own = new.write("{ var v = w }").attach().unwrap();
    own.publish(1).unwrap();
    assert_eq!(place.objects("a").wait("w", LONG).unwrap().wait_newer(0, LONG).unwrap(), 1);
    assert_eq!(place.objects("b").wait("u", LONG).unwrap().wait_newer(1, LONG).unwrap(), 2);
}

#[test]
fn an_object_that_is_removed_can_be_created_anew() {
    let _watchdog = watchdog(240);
    let place = Place::new("anew");
    let _first = place.start("a", &[], &Means::Tls);
    let _second = place.start("b", &[], &Means::Tls);
    let (here, there) = (place.objects("a"), place.objects("b"));
    for round in 1..=20_i64 {
        let object = here.create("u", "var u [n] int64").bind("n", 8 * round).create().unwrap();
        let mut writer = object.write("{ var v = u }").attach().unwrap_or_else(|error| panic!("{round}: {error}"));
        writer.variable_mut::<i64>("v").unwrap().fill(round);
        writer.publish(1).unwrap();
        let begin = Instant::now();
        // Until the other node has heard of the new one, the name leads to the old one, or nowhere.
        loop {
            let read = || -> Result<Vec<i64>, stillframe_object::Error> {
                let mut reader = there.wait("u", LONG)?.read("{ var v = u }").attach()?;
                reader.reattach(1, Duration::from_secs(1))?;
                Ok(reader.variable::<i64>("v")?.to_vec())
            };
            match read() {
                Ok(numbers) if numbers == vec![round; 8 * round as usize] => break,
                other => assert!(begin.elapsed() < LONG, "{round}: {other:?}"),
            }
        }
        writer.detach().unwrap();
        drop(object);
        here.remove("u", false).unwrap();
    }
}

#[test]
fn objects_are_told_apart_whatever_they_are_called() {
    let _watchdog = watchdog(120);
    let place = Place::new("alike");
    let _first = place.start("a", &[], &Means::Tls);
    let here = place.objects("a");
    let alike = (0..).map(|number| format!("u{number}")).filter(|name| bit_of(name) == bit_of("u"));
    for name in std::iter::once("u".to_owned()).chain(alike.take(2)) {
        let object = here.create(&name, "var u [8] int64").create().unwrap();
        let mut writer = object.write("{ var v = u }").attach().unwrap_or_else(|error| panic!("{name}: {error}"));
        writer.publish(1).unwrap();
        assert_eq!(object.wait_newer(0, LONG).unwrap(), 1);
    }
}

fn restart(place: &Path, service: &mut Option<Service>, options: ServiceOptions) -> Duration {
    drop(service.take());
    let begin = Instant::now();
    loop {
        match Service::start(options.clone()) {
            // A thread of a connection may still have the one before.
            Err(Error::Running { .. }) if begin.elapsed() < LONG => std::thread::sleep(Duration::from_millis(5)),
            started => {
                *service = Some(started.unwrap_or_else(|error| panic!("{}: {error}", place.display())));
                return begin.elapsed();
            }
        }
    }
}

#[test]
fn a_runtime_that_is_started_again_goes_on_where_it_was() {
    let _watchdog = watchdog(120);
    let place = Place::new("again");
    let first = place.start("a", &[], &Means::Tls);
    let names = first.names().to_owned();
    let mut second = Some(place.start("b", &[&names], &Means::Tls));
    let there = place.objects("b").create("u", "var u [1000] int64").create().unwrap();
    let here = place.objects("a").wait("u", LONG).unwrap();
    let mut writer = there.write("{ var v = u }").attach().unwrap();
    let mut all = here.read("{ var v = u }").attach().unwrap();
    for version in 1..=3_u64 {
        writer.variable_mut::<i64>("v").unwrap().fill(version as i64);
        writer.publish(version).unwrap();
        all.reattach(version, LONG).unwrap();
        assert_eq!(all.variable::<i64>("v").unwrap(), [version as i64; 1000]);
        let took = restart(&place.node("b"), &mut second, place.options("b", &[&names], &Means::Tls));
        let begin = Instant::now();
        assert_eq!(here.wait_newer(version - 1, LONG).unwrap(), version);
        let mut other = here.read("{ var v = u }").attach().unwrap();
        other.reattach(version, LONG).unwrap();
        println!("started in {} ms, read {} ms later", took.as_millis(), begin.elapsed().as_millis());
    }
}

/// Names are in the memory of an etcd that ends with the first node's runtime, and its count with them.
#[test]
fn the_first_node_never_gets_a_number_for_the_second_time() {
    let _watchdog = watchdog(120);
    let place = Place::new("count");
    let mut given = BTreeSet::new();
    let mut first = Some(place.start("a", &[], &Means::Tls));
    given.insert(first.as_ref().unwrap().node());
    let second = place.start("b", &[], &Means::Tls);
    given.insert(second.node());
    drop(second);
    for _ in 0..3 {
        restart(&place.node("a"), &mut first, place.options("a", &[], &Means::Tls));
        let node = first.as_ref().unwrap().node();
        assert!(given.insert(node), "{node:?} is one of those before");
    }
    // As after the machine was started anew, for regions are in memory.
    drop(first.take());
    std::fs::remove_dir_all(place.node("a")).unwrap();
    let node = place.start("a", &[], &Means::Tls).node();
    assert!(given.insert(node), "{node:?} is one of those before");
}

#[test]
fn a_program_creates_on_all_nodes_whatever_runtimes_end_between() {
    let _watchdog = watchdog(120);
    let place = Place::new("creates");
    let first = place.start("a", &[], &Means::Tls);
    let names = first.names().to_owned();
    let mut second = Some(place.start("b", &[&names], &Means::Tls));
    let (here, there) = (place.objects("a"), place.objects("b"));
    for round in 0..3 {
        for object in 0..3 {
            let name = format!("u{round}-{object}");
            there.create(&name, "var u [4] int64").create().unwrap();
            here.wait(&name, LONG).unwrap();
        }
        restart(&place.node("b"), &mut second, place.options("b", &[&names], &Means::Tls));
    }
    drop(second.take());
    assert!(there.create("late", "var u [4] int64").create().is_err(), "there is no runtime to tell others");
}

#[test]
fn a_writer_attaches_while_another_one_publishes() {
    let _watchdog = watchdog(120);
    let place = Place::new("ahead");
    let first = place.start("a", &[], &Means::Tls);
    let _second = place.start("b", &[first.names()], &Means::Tls);
    let here = place.objects("a").create("u", "var u [8] float64").create().unwrap();
    let mut left = here.write("{ var v [x:4] = u[x] }").attach().unwrap();
    for version in 1..=20_u64 {
        left.variable_mut::<f64>("v").unwrap().fill(version as f64);
        left.publish(version).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    let there = place.objects("b").wait("u", LONG).unwrap();
    let mut right = there.write("{ var v [x:4] = u[x+4] }").attach().unwrap();
    let mut ghost = there.read("{ var g [x:1] = u[x+3] }").attach().unwrap();
    right.publish(20).unwrap();
    ghost.reattach(20, LONG).unwrap();
    assert_eq!(ghost.variable::<f64>("g").unwrap(), [20.0]);
}

#[test]
fn writers_of_two_nodes_attach_as_soon_as_there_is_an_object() {
    let _watchdog = watchdog(240);
    let place = Place::new("at-once");
    let first = place.start("a", &[], &Means::Tls);
    let _second = place.start("b", &[first.names()], &Means::Tls);
    for round in 0..40 {
        let name = format!("u{round}");
        std::thread::scope(|scope| {
            let (here, there) = (place.objects("a"), place.objects("b"));
            let name = &name;
            scope.spawn(move || {
                let object = here.create(name, "var u [8] float64").create().unwrap();
                let mut left = object.write("{ var v [x:4] = u[x] }").attach().unwrap();
                left.publish(1).unwrap();
                object.wait_for(1, LONG).unwrap_or_else(|error| panic!("{name}: {error}"));
            });
            scope.spawn(move || {
                let object = there.wait(name, LONG).unwrap();
                let right = object.write("{ var v [x:4] = u[x+4] }").attach();
                let mut right = right.unwrap_or_else(|error| panic!("{name}: {error}"));
                right.publish(1).unwrap();
                object.wait_for(1, LONG).unwrap_or_else(|error| panic!("{name}: {error}"));
            });
        });
    }
}

/// As on one machine with two directories of regions, where both are called what the machine is.
#[test]
fn two_nodes_of_one_name_do_not_push_each_other_out() {
    let _watchdog = watchdog(120);
    let place = Place::new("namesakes");
    let first = place.start("a", &[], &Means::Tls);
    let here = place.objects("a").create("u", "var u [1000] int64").create().unwrap();
    let mut writer = here.write("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    let _third = place.start("c", &[first.names()], &Means::Tls);
    let there = place.objects("c").wait("u", LONG).unwrap();
    let mut all = there.read("{ var v = u }").attach().unwrap();
    all.reattach(1, LONG).unwrap();
    let namesake = ServiceOptions { name: "a".into(), ..place.options("b", &[first.names()], &Means::Tls) };
    match Service::start(namesake) {
        Err(error) => assert!(error.to_string().contains("'a'"), "{error}"),
        Ok(second) => {
            println!("node {} and node {} have one name", first.node().0, second.node().0);
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    writer.variable_mut::<i64>("v").unwrap().fill(2);
    writer.publish(2).unwrap();
    all.reattach(2, LONG).unwrap();
    assert_eq!(all.variable::<i64>("v").unwrap(), [2; 1000]);
    assert_eq!(there.wait_newer(1, LONG).unwrap(), 2);
}
