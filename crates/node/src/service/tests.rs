//! Services whose nodes, connections and etcd end at chosen moments.

use super::*;
use crate::cluster::Cluster;
use crate::network::Network;
use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroU64;
use std::path::Path;
use stillframe_etcd::shard_of;
use stillframe_link::identity;
use stillframe_object::{Description, Names};
use stillframe_wire::ObjectId;

const LONG: Duration = Duration::from_secs(60);

/// Directories of some nodes, and the job's certificate.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = tempfile::Builder::new().prefix("stillframe-test-service-").tempdir_in("/dev/shm").unwrap();
        identity::create(place.path().join("certificate"), "heat-17", identity::LIFETIME).unwrap();
        Place(place)
    }

    fn options(&self, name: &str) -> ServiceOptions {
        ServiceOptions {
            dir: self.0.path().join(name),
            name: name.into(),
            listen: "127.0.0.1:0".parse().unwrap(),
            advertise: None,
            identity: self.0.path().join("certificate"),
            names: Vec::new(),
            names_tls: None,
            memory_bytes: None,
            means: Means::Tls,
            lease: LONG,
        }
    }

    fn start(&self, name: &str) -> Service {
        let options = self.options(name);
        let begin = std::time::Instant::now();
        loop {
            match Service::start(options.clone()) {
                // The one before may be ending still.
                Err(Error::Running { .. }) if begin.elapsed() < LONG => thread::sleep(Duration::from_millis(5)),
                started => return started.unwrap(),
            }
        }
    }

    fn objects(&self, name: &str) -> Objects {
        Objects::options().dir(self.0.path().join(name)).open().unwrap()
    }
}

/// Of the connections between two nodes one ends, and only who sends on it learns that.
#[test]
fn a_reader_goes_on_when_one_connection_was_cut() {
    let place = Place::new();
    let (first, _second) = (place.start("a"), place.start("b"));
    let here = place.objects("a").create("u", "var u [100000] int64").create().unwrap();
    let there = place.objects("b").wait("u", LONG).unwrap();
    let mut writer = here.write("{ var v = u }").attach().unwrap();
    let mut reader = there.read("{ var v = u }").attach().unwrap();
    for version in 1..=10 {
        writer.variable_mut::<i64>("v").unwrap().fill(version as i64);
        writer.publish(version).unwrap();
        reader.reattach(version, LONG).unwrap();
        assert!(reader.variable::<i64>("v").unwrap().iter().all(|number| *number == version as i64));
        first.links.cut_versions();
    }
}

/// The home's node hears by a connection that a runtime was started again before it has told its own runtime so.
#[test]
fn writers_of_a_runtime_that_is_started_again_stand_against_none_of_its_former_number() {
    let place = Place::new();
    let first = place.start("a");
    // With nobody else there, this node is its home.
    let here = place.objects("a").create("u", "var u [8] int64").create().unwrap();
    let second = place.start("b");
    let there = place.objects("b").wait("u", LONG).unwrap();
    let mut upper = here.write("{ var v [x:4] = u[x] }").attach().unwrap();
    let mut lower = there.write("{ var v [x:4] = u[x+4] }").attach().unwrap();
    upper.publish(1).unwrap();
    lower.publish(1).unwrap();
    assert_eq!((here.wait_newer(0, LONG).unwrap(), there.wait_newer(0, LONG).unwrap()), (1, 1));

    drop(second);
    let busy = first.numbers.hold();
    let _again = place.start("b");
    // It has time to connect and to report, whichever side connects first.
    first.cluster.reach_all(&first.links);
    thread::sleep(Duration::from_secs(1));
    drop(busy);
    for version in 2..=3 {
        upper.publish(version).unwrap();
        lower.publish(version).unwrap();
        assert_eq!(here.wait_newer(version - 1, LONG).unwrap(), version);
        assert_eq!(there.wait_newer(version - 1, LONG).unwrap(), version);
    }
}

/// By that path no program finds its socket any more.
#[test]
fn a_runtime_ends_whatever_its_directory_is_called_and_though_it_was_removed() {
    for is_removed in [false, true] {
        let place = Place::new();
        let dir = place.0.path().join("d".repeat(if is_removed { 1 } else { 120 }));
        let service = Service::start(ServiceOptions { dir: dir.clone(), ..place.options("a") }).unwrap();
        if is_removed {
            // It may be writing there.
            until("the directory is removed", || std::fs::remove_dir_all(&dir).is_ok() || !dir.exists());
        }
        let (ended, end) = std::sync::mpsc::channel();
        thread::spawn(move || ended.send(service.leave().is_ok()));
        end.recv_timeout(LONG).expect("it ends");
    }
}

/// Homes that begin wait for all nodes, so that one which cannot begin is none.
#[test]
fn a_machine_whose_directory_cannot_be_written_is_no_node() {
    let place = Place::new();
    let _first = place.start("a");
    let second = place.start("b");
    let number = second.node();
    drop(second);
    std::fs::create_dir(place.options("b").dir.join(".objects/runtime.part")).unwrap();
    until("it cannot begin", || match Service::start(place.options("b")) {
        Err(Error::Running { .. }) => false,
        ended => matches!(ended, Err(Error::Io { .. })),
    });
    assert_eq!(place.start("c").node(), Node(number.0 + 1), "no number was given to it");
}

/// Nobody told it of any of the numbers before.
#[test]
fn a_node_that_joins_later_knows_all_numbers_that_a_machine_had() {
    let place = Place::new();
    let (_first, second) = (place.start("a"), place.start("b"));
    let mut numbers = vec![second.node()];
    drop(second);
    for _ in 0..2 {
        let again = place.start("b");
        numbers.push(again.node());
        drop(again);
    }
    let (again, third) = (place.start("b"), place.start("c"));
    let begin = std::time::Instant::now();
    while !third.cluster.nodes().contains(&again.node()) {
        assert!(begin.elapsed() < LONG, "it sees the newest one");
        thread::sleep(Duration::from_millis(5));
    }
    let expected: Vec<_> = numbers.into_iter().map(|former| (former, again.node())).collect();
    assert_eq!(third.cluster.replaced(), expected);
}

/// All runtimes of a run end, and who begins the next one knows nothing of it: nodes are counted anew.
#[test]
fn a_machine_is_not_what_another_one_is_that_has_its_number_of_a_former_run() {
    let place = Place::new();
    drop((place.start("a"), place.start("b")));
    std::fs::remove_file(place.options("a").identity.join("names.json")).unwrap();
    let new = place.start("new");
    let back = place.start("a");
    assert_eq!(new.node(), Node(1), "as the other one was");
    assert_eq!(back.numbers.all_former(), [back.node()]);
    assert_eq!(new.cluster.replaced(), []);
}

/// The runtime that keeps the names is started again, and with the names it has lost who is a node. The only writer's node is not back yet.
#[test]
fn a_home_waits_for_nodes_that_are_not_back_since_the_names_were_lost() {
    let place = Place::new();
    let (first, second) = (place.start("a"), place.start("b"));
    let here = place.objects("a").create("u", "var u [8] int64").create().unwrap();
    let there = place.objects("b").wait("u", LONG).unwrap();
    let mut writer = there.write("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    assert_eq!(here.wait_newer(0, LONG).unwrap(), 1);

    let missing = second.node();
    drop(second);
    drop(first);
    let first = place.start("a");
    assert!(first.cluster.nodes().contains(&missing), "{:?}", first.cluster.nodes());
    let taking = thread::spawn(move || here.write("{ var v = u }").attach());
    let _second = place.start("b");
    let error = taking.join().unwrap().unwrap_err();
    assert!(matches!(error, stillframe_object::Error::Overlap { .. }), "{error}");
    writer.publish(2).unwrap();
    assert_eq!(there.wait_newer(1, LONG).unwrap(), 2);
}

/// Names are for people.
#[test]
fn a_runtime_that_is_called_otherwise_goes_on_with_its_writers() {
    let place = Place::new();
    let _first = place.start("a");
    let here = place.objects("a").create("u", "var u [8] int64").create().unwrap();
    let second = place.start("b");
    let there = place.objects("b").wait("u", LONG).unwrap();
    let mut upper = here.write("{ var v [x:4] = u[x] }").attach().unwrap();
    let mut lower = there.write("{ var v [x:4] = u[x+4] }").attach().unwrap();
    let mut publish = |version| {
        upper.publish(version).unwrap();
        lower.publish(version).unwrap();
        assert_eq!(here.wait_newer(version - 1, LONG).unwrap(), version);
    };
    publish(1);
    drop(second);
    let _again = Service::start(ServiceOptions { name: "c".into(), ..place.options("b") }).unwrap();
    (2..=3).for_each(publish);
}

/// Between the nodes everything goes on.
#[test]
fn a_home_that_is_cut_off_from_etcd_alone_does_not_act_beside_its_successor() {
    let (place, etcd) = (Place::new(), Child::options().deadline(LONG).start().unwrap());
    let proxy = proxy::Proxy::start(etcd.endpoint());
    let start = |name: &str, endpoint: String| {
        // Long enough for one that gets no processor for a while to keep its own.
        let lease = Duration::from_secs(5);
        Service::start(ServiceOptions { names: vec![endpoint], lease, ..place.options(name) }).unwrap()
    };
    let (first, second) = (start("a", etcd.endpoint().into()), start("b", proxy.endpoint()));
    let acts = |service: &Service, id| service.cluster.home(id).is_some_and(|(node, _)| node == service.node());
    let ids = || (1..=1000).filter_map(NonZeroU64::new).map(ObjectId);
    let begin = std::time::Instant::now();
    let id = loop {
        assert!(begin.elapsed() < LONG, "the second node becomes a home");
        thread::sleep(Duration::from_millis(5));
        if let Some(id) = ids().find(|id| acts(&second, *id)) {
            break id;
        }
    };
    proxy.cut();
    while !acts(&first, id) {
        assert!(begin.elapsed() < LONG, "it has a successor");
        thread::sleep(Duration::from_millis(5));
    }
    assert!(!acts(&second, id));
}

/// etcd may have done what it was asked for, and another be the home, when the answer and all news are lost.
#[test]
fn a_home_that_gave_its_role_up_does_not_act_although_it_has_heard_of_no_other() {
    let (place, etcd) = (Place::new(), Child::options().deadline(LONG).start().unwrap());
    let proxy = proxy::Proxy::start(etcd.endpoint());
    let start = |name: &str, endpoint: String| {
        Service::start(ServiceOptions { names: vec![endpoint], ..place.options(name) }).unwrap()
    };
    let (first, second) = (start("a", etcd.endpoint().into()), start("b", proxy.endpoint()));
    let own = |id| second.cluster.home(id).is_some_and(|(node, _)| node == second.node());
    let begin = std::time::Instant::now();
    let id = loop {
        assert!(begin.elapsed() < LONG, "the second node becomes a home, and reaches the first");
        thread::sleep(Duration::from_millis(5));
        let id = (1..=1000).filter_map(NonZeroU64::new).map(ObjectId).find(|id| own(*id));
        if let Some(id) = id.filter(|_| second.links.traffic(first.node()).is_connected) {
            break id;
        }
    };
    proxy.cut();
    assert!(second.cluster.give_up(&[shard_of(id.0)]).is_err());
    assert!(!own(id));
}

/// Who comes to etcd meanwhile finds no node there, and becomes the home of all: nobody tells the two of each other.
#[test]
fn a_node_without_others_acts_no_longer_than_its_lease_where_it_hears_nothing_of_etcd() {
    for had_another in [false, true] {
        let (place, etcd) = (Place::new(), Child::options().deadline(LONG).start().unwrap());
        let proxy = proxy::Proxy::start(etcd.endpoint());
        // Long enough for one that gets no processor for a while to keep its own.
        let lease = Duration::from_secs(5);
        let start = |name: &str| {
            Service::start(ServiceOptions { names: vec![proxy.endpoint()], lease, ..place.options(name) }).unwrap()
        };
        let alone = start("a");
        if had_another {
            start("b").leave().unwrap();
        }
        let acts = || ids().all(|id| alone.cluster.home(id).is_some());
        until("it is the home of all", || acts() && alone.cluster.nodes() == [alone.node()]);
        proxy.cut();
        until("it is the home of none", || ids().all(|id| alone.cluster.home(id).is_none()));
    }
}

/// Whoever joins does so by that etcd, which is there or not as this node is.
#[test]
fn a_node_without_others_acts_on_where_it_keeps_the_names_itself() {
    let place = Place::new();
    // Long enough for one that gets no processor for a while to keep its own.
    let lease = Duration::from_secs(5);
    let alone = Service::start(ServiceOptions { lease, ..place.options("a") }).unwrap();
    let acts = || ids().all(|id| alone.cluster.home(id).is_some());
    until("it is the home of all", acts);
    let process = alone.names_process().unwrap().to_string();
    let stopped = std::process::Command::new("kill").args(["-STOP", &process]).status().unwrap();
    assert!(stopped.success());
    thread::sleep(lease);
    assert!(acts());
}

/// On the same machines, as of two users: by one etcd, with the same names of nodes.
#[test]
fn jobs_of_one_name_know_nothing_of_each_other() {
    let (places, etcd) = ([Place::new(), Place::new()], Child::options().deadline(LONG).start().unwrap());
    let start = |place: &Place| {
        Service::start(ServiceOptions { names: vec![etcd.endpoint().into()], ..place.options("a") }).unwrap()
    };
    let services = [start(&places[0]), start(&places[1])];
    assert_eq!([services[0].node(), services[1].node()], [Node(1); 2], "each is the first of its job");
    for service in &services {
        assert_eq!(service.cluster.nodes(), [service.node()]);
    }
    let objects = [places[0].objects("a"), places[1].objects("a")];
    for (objects, text) in objects.iter().zip(["var u [4] int64", "var u [8] int64"]) {
        objects.create("u", text).create().unwrap();
    }
}

/// Somebody who has the port of a node by now, or a node that lives and does not let this one in.
#[test]
fn a_namesake_where_somebody_listens_whom_this_node_cannot_ask_stays_what_it_is() {
    let (place, other, etcd) = (Place::new(), Place::new(), Child::options().deadline(LONG).start().unwrap());
    let identity = |place: &Place| Identity::open(place.options("a").identity).unwrap();
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), &identity(&other), &Options::default()).unwrap();
    let of_other_job = listener.address();
    thread::spawn(move || while matches!(listener.accept(LONG), Ok(_) | Err(_)) {});
    let speaks = |words: &'static [u8]| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || listener.incoming().flatten().for_each(|mut stream| _ = stream.write_all(words)));
        address
    };
    for address in [of_other_job, speaks(b"220 mail.example ESMTP\r\n"), speaks(b"")] {
        let names = format!("stillframe/heat-17-{:016x}", identity(&place).number());
        let known = Etcd::options().prefix(names).endpoint(etcd.endpoint()).open().unwrap();
        let joining = JoinOptions::new("a", address.to_string()).lease(Duration::from_secs(600));
        let namesake = stillframe_etcd::Cluster::join(&known, joining).unwrap();
        let options = ServiceOptions { names: vec![etcd.endpoint().into()], ..place.options("a") };
        let error = Service::start(options.clone()).unwrap_err();
        assert!(matches!(&error, Error::Stranger { node, .. } if *node == namesake.node()), "{error}");
        assert!(known.nodes().unwrap().iter().any(|(node, _)| *node == namesake.node()), "its lease goes on");
        namesake.leave().unwrap();
        Service::start(options).unwrap().leave().unwrap();
    }
}

/// A job's place with an etcd that lies beside it, and who looks at that etcd.
fn beside(place: &Place, etcd: &Child) -> (Service, Etcd) {
    let service = Service::start(ServiceOptions { names: vec![etcd.endpoint().into()], ..place.options("a") }).unwrap();
    let number = Identity::open(place.options("a").identity).unwrap().number();
    let prefix = format!("stillframe/heat-17-{number:016x}");
    (service, Etcd::options().prefix(prefix).endpoint(etcd.endpoint()).open().unwrap())
}

/// As after a loss of etcd's data: the others are slower, or there are none.
#[test]
fn an_object_that_nobody_has_put_back_is_put_back_by_the_node_that_has_it() {
    let (place, etcd) = (Place::new(), Child::options().deadline(LONG).start().unwrap());
    let (service, known) = beside(&place, &etcd);
    let here = place.objects("a").create("u", "var u [8] int64").create().unwrap();
    let mut writer = here.write("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    assert_eq!(here.wait_newer(0, LONG).unwrap(), 1);
    // Of another one etcd has nothing.
    let objects = Objects::options().dir(place.0.path().join("a")).as_runtime().open().unwrap();
    let alone = objects.create("alone", "var u [8] int64").create().unwrap();
    for (name, id) in [("u", here.description().id), ("alone", alone.description().id), ("nobody's", NonZeroU64::MIN)] {
        let missing = stillframe_etcd::Event::ObjectMissing { name: name.into(), id };
        service.cluster.tell(missing, &service.runtime, &service.links, &objects);
    }
    until("it is put there", || known.names().get("alone").unwrap().is_some_and(|there| there == *alone.description()));
    until("all are put there", || service.cluster.is_put());
    assert_eq!(objects.list().unwrap(), ["alone", "u"]);
    assert_eq!(known.names().get("u").unwrap().unwrap(), *here.description());
    writer.publish(2).unwrap();
    assert_eq!(here.wait_newer(1, LONG).unwrap(), 2);
}

/// Says that it is over when it is dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_node_puts_itself_back_whatever_it_is_told_meanwhile() {
    let (place, etcd) = (Place::new(), Child::options().deadline(LONG).start().unwrap());
    let (service, known) = beside(&place, &etcd);
    let objects = place.objects("a");
    objects.create("u", "var u [8] int64").create().unwrap();
    // It fails as long as the directory cannot be read.
    let (name, aside) = (place.0.path().join("a/.objects/names/u"), place.0.path().join("aside"));
    std::fs::rename(&name, &aside).unwrap();
    std::fs::create_dir(&name).unwrap();
    let port = etcd.endpoint().rsplit_once(':').unwrap().1.parse().unwrap();
    drop(etcd);
    let _etcd = Child::options().port(port).deadline(LONG).start().unwrap();
    let is_node = || known.nodes().unwrap().iter().any(|(node, _)| *node == service.node());
    let (is_over, names) = (AtomicBool::new(false), known.names());
    thread::scope(|scope| {
        // Whatever fails here, the thread ends.
        let _end = End(&is_over);
        let creating = scope.spawn(|| {
            let described =
                |id| Description { text: "var u [8] int64".into(), bindings: BTreeMap::new(), initial: 0, id };
            for id in (1000..).filter_map(NonZeroU64::new).take_while(|_| !is_over.load(Ordering::SeqCst)) {
                let _ = names.put(&format!("other/{id}"), &described(id));
            }
        });
        // What is told after the loss is told after the first attempt.
        until("something is told", || objects.list().unwrap().iter().any(|name| name.starts_with("other/")));
        assert!(!is_node());
        std::fs::remove_dir(&name).unwrap();
        std::fs::rename(&aside, &name).unwrap();
        until("it is a node again", is_node);
        until("all are there", || service.cluster.is_put() && names.get("u").unwrap().is_some());
        assert!(!creating.is_finished());
    });
}

/// A program that is stopped has the lock of its board.
#[test]
fn an_object_that_was_removed_elsewhere_is_removed_here_once_nobody_has_its_board() {
    let (place, etcd) = (Place::new(), Child::options().deadline(LONG).start().unwrap());
    let (service, known) = beside(&place, &etcd);
    let objects = place.objects("a");
    let object = objects.create("u", "var u [8] int64").create().unwrap();
    let mut writer = object.write("{ var v = u }").attach().unwrap();
    writer.publish(1).unwrap();
    assert_eq!(object.wait_newer(0, LONG).unwrap(), 1);
    let path = place.0.path().join("a/.objects/boards/u");
    let board = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let is_locked = || {
        use stillframe_kernel::lock::{Kind, try_lock};
        try_lock(&board, Kind::Write, 0, 1).unwrap()
    };
    until("it is locked", is_locked);
    assert!(known.names().remove("u", object.description().id).unwrap());
    until("it is to be removed", || service.runtime.unremoved().contains(&object.description().id));
    // What is told after that is done meanwhile.
    let next = Description { id: NonZeroU64::MIN, ..object.description().clone() };
    known.names().put("next", &next).unwrap();
    until("others are there", || objects.object_named("next").is_ok());
    assert_eq!(objects.list().unwrap(), ["next", "u"]);
    drop(board);
    until("it is removed", || objects.list().unwrap() == ["next"]);
    until("nothing is to be removed", || service.runtime.unremoved().is_empty());
}

/// Whoever removes it by force may not be able to say which object it is.
#[test]
fn an_object_that_is_damaged_on_one_node_is_removed_on_all() {
    let place = Place::new();
    let (_first, _second) = (place.start("a"), place.start("b"));
    let (here, there) = (place.objects("a"), place.objects("b"));
    for (round, file) in ["names", "boards"].into_iter().enumerate() {
        let name = format!("u{round}");
        let object = here.create(&name, "var u [8] int64").create().unwrap();
        let mut writer = object.write("{ var v = u }").attach().unwrap();
        writer.publish(1).unwrap();
        assert_eq!(there.wait(&name, LONG).unwrap().wait_newer(0, LONG).unwrap(), 1);
        writer.detach().unwrap();
        std::fs::write(place.0.path().join("b/.objects").join(file).join(&name), "{").unwrap();
        there.remove(&name, true).unwrap();
        until("the others have it no more", || here.list().unwrap().is_empty());
        assert!(there.list().unwrap().is_empty());
        let next = here.create(&name, "var u [8] int64").create().unwrap();
        let next_there = there.wait(&name, LONG).unwrap();
        assert_eq!(next_there.description().id, next.description().id);
        let mut writer = next_there.write("{ var v = u }").attach().unwrap();
        writer.publish(1).unwrap();
        assert_eq!(next.wait_newer(0, LONG).unwrap(), 1);
        writer.detach().unwrap();
        here.remove(&name, true).unwrap();
        until("no node has it", || here.list().unwrap().is_empty() && there.list().unwrap().is_empty());
    }
}

fn ids() -> impl Iterator<Item = ObjectId> {
    (1..=1000).filter_map(NonZeroU64::new).map(ObjectId)
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = std::time::Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LONG, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Without its address the other nodes would ask the former one for ever, and this one would start an etcd that is another job's.
#[test]
fn who_kept_the_names_and_cannot_start_etcd_again_leaves_its_address_where_the_others_find_it() {
    let place = tempfile::tempdir().unwrap();
    let meeting = Meeting::new(place.path(), "a", Path::new("/dev/shm/stillframe"), 7);
    let failed = |port| {
        let why = format!("no room, at {port:?}");
        Err::<Keeper, _>(Error::Meeting { path: place.path().into(), why })
    };
    let join = || meeting.join(Duration::ZERO).unwrap();
    assert!(matches!(join(), meeting::Keeper::Own(None)));
    assert!(start_keeper(&meeting, None, failed).is_err());
    assert!(!meeting.path().exists(), "others would wait for an address");
    assert!(matches!(join(), meeting::Keeper::Own(None)));
    meeting.tell("https://127.0.0.1:77").unwrap();
    for _ in 0..2 {
        let meeting::Keeper::Own(before) = join() else { panic!("another node keeps them") };
        assert_eq!(before.as_deref(), Some("https://127.0.0.1:77"));
        let error = start_keeper(&meeting, before.as_deref(), failed).unwrap_err();
        assert!(error.to_string().contains("Some(77)"), "{error}");
    }
}
