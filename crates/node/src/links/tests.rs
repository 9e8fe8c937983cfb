//! When another node counts as connected, and when it does not.

use super::*;
use std::num::NonZeroU64;
use std::sync::mpsc;
use std::time::Instant;
use stillframe_link::identity;
use stillframe_roster::writer::Writer;
use stillframe_wire::ObjectId;
use stillframe_wire::bounds::BODY_BYTES_MAX;
use stillframe_wire::data::FragmentText;
use stillframe_wire::group::GroupRanks;
use stillframe_wire::hello::Protocols;
use stillframe_wire::roster::Layouts;

/// As long as nothing that is expected takes.
const LONG: Duration = Duration::from_secs(60);

/// A lease that is over soon, and one that is not over while a test runs.
const SHORT: Duration = Duration::from_millis(400);
const ENDLESS: Duration = Duration::from_secs(3600);

/// That of all runtimes here, unless they are others.
const INCARNATION: u64 = 7;

/// The certificate of a job.
struct Job(tempfile::TempDir);

impl Job {
    fn new() -> Job {
        let dir = tempfile::Builder::new().prefix("stillframe-test-links-").tempdir_in("/dev/shm").unwrap();
        identity::create(dir.path().join("certificate"), "heat-17", identity::LIFETIME).unwrap();
        Job(dir)
    }

    fn identity(&self) -> Identity {
        Identity::open(self.0.path().join("certificate")).unwrap()
    }

    fn listen(&self) -> Listener {
        Listener::bind("127.0.0.1:0".parse().unwrap(), &self.identity(), &Options::default()).unwrap()
    }
}

fn hello(node: Node) -> Hello {
    let (job, name) = ("heat-17".into(), format!("n{}", node.0));
    Hello { protocols: Protocols::OWN, job, node, name, incarnation: INCARNATION.into(), abi: 1 }
}

/// What who keeps the names tells of a runtime.
fn info(address: &str) -> NodeInfo {
    NodeInfo { name: "n".into(), address: address.into(), incarnation: INCARNATION, memory: 1, former: Vec::new() }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LONG, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A node with its connections, and no runtime behind them.
struct Real {
    links: Arc<Links>,
    address: String,
}

impl Real {
    fn new(job: &Job, number: u32, lease: Duration) -> Real {
        let listener = job.listen();
        let address = listener.address().to_string();
        let links = Links::new(hello(Node(number)), job.identity(), Options::default(), lease);
        links.listen(listener).unwrap();
        Real { links, address }
    }

    fn is_connected(&self, number: u32) -> bool {
        self.links.traffic(Node(number)).is_connected
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.links.end();
    }
}

/// Two nodes that know each other.
fn pair(job: &Job, lease: Duration) -> (Real, Real) {
    let (one, two) = (Real::new(job, 1, lease), Real::new(job, 2, lease));
    one.links.add(Node(2), &info(&two.address)).unwrap();
    two.links.add(Node(1), &info(&one.address)).unwrap();
    until("they are connected", || one.is_connected(2) && two.is_connected(1));
    (one, two)
}

/// A node that greets whoever connects, takes what comes, and answers nothing by itself.
struct Mute {
    node: Node,
    identity: Identity,
    address: String,
    greeted: mpsc::Receiver<()>,
    pings: mpsc::Receiver<u64>,
}

impl Mute {
    fn new(job: &Job, number: u32) -> Mute {
        let (node, listener) = (Node(number), job.listen());
        let ((greets, greeted), (pinged, pings)) = (mpsc::channel(), mpsc::channel());
        let address = listener.address().to_string();
        thread::spawn(move || {
            while let Ok(connected) = listener.accept(Duration::MAX) {
                let (sender, mut receiver) = connected.unwrap().split();
                let (greets, pinged) = (greets.clone(), pinged.clone());
                thread::spawn(move || {
                    let _ = send_alone(&sender, Message::Hello(hello(node)));
                    let _ = greets.send(());
                    while let Ok(Some(frame)) = receiver.next(Duration::MAX) {
                        if let Ok(Message::Ping(number)) = Message::decode(Kind(frame.kind()), frame.body()) {
                            let _ = pinged.send(number);
                        }
                    }
                });
            }
        });
        Mute { node, identity: job.identity(), address, greeted, pings }
    }

    /// The number of a ping that came, as one does while nothing else is said.
    fn ping(&self) -> u64 {
        self.pings.recv_timeout(LONG).expect("an idle connection is pinged")
    }

    /// A connection of its own to a node, which answers pings.
    fn connect(&self, to: &Real) -> impl Fn(u64) + use<> {
        let to = to.address.parse().unwrap();
        let connection = Connection::connect(to, &self.identity, &Options::default(), LONG).unwrap();
        let (sender, mut receiver) = connection.split();
        send_alone(&sender, Message::Hello(hello(self.node))).unwrap();
        assert!(receiver.next(LONG).unwrap().is_some(), "it is greeted");
        move |number| {
            // Both halves are there as long as this is.
            let _ = &receiver;
            send_alone(&sender, Message::Pong(number)).unwrap();
        }
    }
}

#[test]
fn a_node_that_takes_everything_and_answers_no_ping_is_apart() {
    let job = Job::new();
    let (one, mute) = (Real::new(&job, 1, SHORT), Mute::new(&job, 2));
    one.links.add(Node(2), &info(&mute.address)).unwrap();
    for _ in 0..3 {
        mute.ping();
        assert!(!one.is_connected(2));
    }
}

#[test]
fn a_node_that_answers_no_more_is_apart_though_its_connection_stands() {
    let job = Job::new();
    let (one, mute) = (Real::new(&job, 1, SHORT), Mute::new(&job, 2));
    one.links.add(Node(2), &info(&mute.address)).unwrap();
    let answer = mute.connect(&one);
    until("it is connected", || {
        mute.pings.try_iter().for_each(&answer);
        one.is_connected(2)
    });
    until("it is apart", || !one.is_connected(2));
    mute.pings.try_iter().for_each(drop);
    mute.ping();
    assert!(!one.is_connected(2));
    // Numbers that were not sent, or long ago, tell nothing.
    answer(u64::MAX);
    answer(1);
    mute.ping();
    assert!(!one.is_connected(2));
}

#[test]
fn who_lost_a_node_cuts_it_off_in_both_directions() {
    let job = Job::new();
    let (one, two) = pair(&job, ENDLESS);
    // Only this one is told: the other has to learn it from the connections.
    two.links.remove(Node(1));
    until("the one that was lost is apart", || !one.is_connected(2));
}

#[test]
fn a_node_that_was_lost_counts_on_those_who_answered_it_while_its_connections_stand() {
    let job = Job::new();
    let (one, two) = pair(&job, ENDLESS);
    assert!(!two.links.is_counted_on());
    two.links.remove(Node(1));
    assert!(two.links.is_counted_on());

    let (one_more, two) = pair(&job, ENDLESS);
    // Its process ends, and with it its connections.
    drop(one_more);
    let has_connection = || two.links.peers().get(&Node(1)).is_some_and(|peer| peer.has_connection());
    until("they have ended", || two.links.incoming().is_empty() && !has_connection());
    two.links.remove(Node(1));
    assert!(!two.links.is_counted_on());
    drop(one);

    let (_one, two) = pair(&job, ENDLESS);
    // One connection of a process that lives ends, which may not have heard so.
    two.links.incoming().values().for_each(|incoming| incoming.cut.cut());
    two.links.remove(Node(1));
    assert!(two.links.is_counted_on());

    let (_one, two) = pair(&job, SHORT);
    two.links.remove(Node(1));
    until("nobody counts on it for ever", || !two.links.is_counted_on());
}

#[test]
fn a_runtime_that_was_started_at_the_address_of_another_is_not_taken_for_it() {
    let job = Job::new();
    let (one, mute) = (Real::new(&job, 1, SHORT), Mute::new(&job, 2));
    let other = NodeInfo { incarnation: INCARNATION + 1, ..info(&mute.address) };
    one.links.add(Node(2), &other).unwrap();
    // It greets whoever connects, again and again, and is told nothing.
    for _ in 0..4 {
        mute.greeted.recv_timeout(LONG).expect("it is tried again");
    }
    assert!(mute.pings.try_recv().is_err() && !one.is_connected(2));
    // It is told of the one that listens there, which has the number, too.
    one.links.add(Node(2), &info(&mute.address)).unwrap();
    mute.ping();
}

/// Whoever follows the names may hear of a node just then: connections that nobody ends would go on to answer.
#[test]
fn a_node_whose_connections_have_ended_makes_no_others() {
    let job = Job::new();
    let (one, mute) = (Real::new(&job, 1, ENDLESS), Mute::new(&job, 2));
    one.links.end();
    one.links.add(Node(2), &info(&mute.address)).unwrap();
    assert!(one.links.peers().is_empty());
}

#[test]
fn a_message_that_is_too_long_is_left_out_and_what_follows_it_comes() {
    let job = Job::new();
    let (one, mute) = (Real::new(&job, 1, ENDLESS), Mute::new(&job, 2));
    one.links.add(Node(2), &info(&mute.address)).unwrap();
    mute.ping();
    let layout = FragmentText { text: "u".repeat(BODY_BYTES_MAX), ..FragmentText::default() };
    let writer = Writer { node: Node(1), process: 1, serial: 0 };
    let (object, name) = (ObjectId(NonZeroU64::MIN), "heat".to_owned());
    let long = Message::Layouts(Layouts { object, name, layouts: vec![(writer, layout)] });
    one.links.send(Node(2), vec![long, Message::Ping(3)]);
    // Those of new connections have other numbers.
    while mute.ping() != 3 {}
}

#[test]
fn of_what_is_said_of_a_groups_ranks_only_the_newest_waits() {
    let job = Job::new();
    let one = Real::new(&job, 1, ENDLESS);
    // Nobody listens there.
    one.links.add(Node(2), &info("127.0.0.1:1")).unwrap();
    let ranks = |group: &str, size| {
        let (group, ranks, runs, versions) = (group.into(), Vec::new(), Vec::new(), Vec::new());
        Message::GroupRanks(GroupRanks { group, size, ranks, runs, versions })
    };
    for size in 1..=3 {
        one.links.send(Node(2), vec![ranks("heat", size)]);
        one.links.send(Node(2), vec![ranks("flow", size)]);
        one.links.send(Node(2), vec![Message::Ping(size.into())]);
    }
    let peer = one.links.peers().get(&Node(2)).cloned().unwrap();
    let waiting: Vec<Message> = peer.messages.take(Duration::ZERO).unwrap().into();
    let others = |number| Message::Ping(number);
    assert_eq!(waiting, [others(1), others(2), ranks("heat", 3), ranks("flow", 3), others(3)]);
}
