//! Channels between the nodes of one process, and what goes wrong on them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stillframe_node::Runtime;
use stillframe_node::network::{Incoming, Network, Outgoing, Traffic, Transmission};
use stillframe_roster::message::Proposal;
use stillframe_roster::writer::Node;
use stillframe_wire::Message;
use stillframe_wire::roster::ObjectDecision;

/// Who has which number now; a runtime that is started again has another.
#[derive(Debug)]
pub struct Wires {
    pub numbers: RwLock<Vec<Option<Node>>>,
    pub runtimes: RwLock<Vec<Option<Arc<Runtime>>>>,
    pub sent_bytes: AtomicU64,
    /// The numbers of all subscriptions.
    pub subscriptions: Mutex<Vec<u64>>,
    /// How many versions were lost on their way, to their end.
    pub lost: AtomicU64,
    /// How often it was lost that a node pins a version.
    pub lost_pins: AtomicU64,
    /// How many times a node was told what an object is.
    pub descriptions: AtomicU64,
    /// The newest version of which each place heard that it is complete.
    pub announced: Mutex<BTreeMap<usize, u64>>,
    /// What is wrong on the way from one place to another.
    pub faults: RwLock<BTreeMap<(usize, usize), Fault>>,
}

/// What is wrong on a way.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fault {
    /// Whether everything waits on its way, in order.
    pub holds: bool,
    /// How much later everything comes.
    pub delay: Duration,
    /// How long it takes to read what follows a message.
    pub reading: Duration,
    /// Whether the connection ends before what follows a message.
    pub cuts_reading: bool,
    /// Whether versions and what is said of them are lost.
    pub loses_versions: bool,
    /// Whether versions wait to be sent, as on a link that takes no bytes.
    pub stalls_versions: bool,
    /// Whether rosters are lost.
    pub loses_rosters: bool,
    /// The version of which is lost that a node pins it; none if zero.
    pub loses_pins_of: u64,
    /// Whether everything is lost.
    pub loses_all: bool,
}

/// What follows a message, read as slowly as the way is.
struct Slow<'b> {
    left: &'b [u8],
    wires: &'b Wires,
    way: (usize, usize),
}

impl Incoming for Slow<'_> {
    fn left_bytes(&self) -> u64 {
        self.left.len() as u64
    }

    fn read(&mut self, into: &mut [u8]) -> std::io::Result<()> {
        let begin = Instant::now();
        // Once the way is mended, nothing is slow any more.
        while begin.elapsed() < self.wires.fault(self.way).reading {
            std::thread::sleep(Duration::from_millis(5));
        }
        if self.wires.fault(self.way).cuts_reading {
            return Err(std::io::ErrorKind::ConnectionReset.into());
        }
        std::io::Read::read_exact(&mut self.left, into)
    }
}

impl Wires {
    fn fault(&self, way: (usize, usize)) -> Fault {
        self.faults.read().unwrap().get(&way).copied().unwrap_or_default()
    }
}

pub type Letter = (Node, Node, Message, Vec<u8>);

/// One end: messages to each other node arrive in order, by a thread for each.
#[derive(Debug)]
pub struct Wire {
    pub place: usize,
    pub wires: Arc<Wires>,
    pub to: Vec<Mutex<Sender<Letter>>>,
    pub stalled: Mutex<Vec<(Node, Box<dyn Transmission>)>>,
}

impl Network for Wire {
    fn send(&self, to: Node, messages: Vec<Message>) {
        messages.into_iter().for_each(|message| self.post(to, message, Vec::new()));
    }

    fn transmit(&self, to: Node, version: Box<dyn Transmission>) {
        let place = self.wires.numbers.read().unwrap().iter().position(|node| *node == Some(to));
        let fault = place.and_then(|place| self.wires.faults.read().unwrap().get(&(self.place, place)).copied());
        if fault.is_some_and(|fault| fault.stalls_versions) {
            return self.stalled.lock().unwrap().push((to, version));
        }
        version.run(&mut Letters { wire: self, to }).unwrap();
    }

    fn traffic(&self, _: Node) -> Traffic {
        Traffic::default()
    }
}

/// A version becomes letters at once.
struct Letters<'w> {
    wire: &'w Wire,
    to: Node,
}

impl Outgoing for Letters<'_> {
    fn send(&mut self, message: Message, bulk: &[u8]) -> std::io::Result<()> {
        self.wire.post(self.to, message, bulk.to_vec());
        Ok(())
    }
}

impl Wire {
    fn post(&self, to: Node, message: Message, bulk: Vec<u8>) {
        let numbers = self.wires.numbers.read().unwrap().clone();
        let (Some(place), Some(from)) = (numbers.iter().position(|node| *node == Some(to)), numbers[self.place]) else {
            return;
        };
        if let Message::Subscribe(subscribe) = &message {
            self.wires.subscriptions.lock().unwrap().push(subscribe.subscription);
        }
        let is_description = matches!(message, Message::Description(_));
        self.wires.descriptions.fetch_add(u64::from(is_description), Ordering::SeqCst);
        self.wires.sent_bytes.fetch_add(bulk.len() as u64, Ordering::Relaxed);
        let _ = self.to[place].lock().unwrap().send((from, to, message, bulk));
    }
}

/// Carries what is sent from one place to another, in order.
pub fn carry(wires: Arc<Wires>, way: (usize, usize)) -> (Mutex<Sender<Letter>>, JoinHandle<()>) {
    let (sender, receiver) = channel::<Letter>();
    (Mutex::new(sender), std::thread::spawn(move || wires.carry_all(way, &receiver)))
}

impl Wires {
    fn carry_all(&self, way: (usize, usize), letters: &Receiver<Letter>) {
        let (_, to) = way;
        for (from, node, message, bulk) in letters {
            while self.fault(way).holds {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(self.fault(way).delay);
            if self.loses(way, &message) {
                continue;
            }
            let runtime = self.runtimes.read().unwrap()[to].clone();
            let is_current = self.numbers.read().unwrap()[to] == Some(node);
            let Some(runtime) = runtime.filter(|_| is_current) else { continue };
            // As the bytes that a network carries.
            let mut body = Vec::new();
            let kind = message.encode(&mut body);
            let decoded = Message::decode(kind, &body).expect("what is encoded can be decoded");
            runtime.receive(from, decoded, &mut Slow { left: &bulk, wires: self, way });
            if let Message::Decisions(decisions) = &message {
                self.note_announced(to, decisions);
            }
        }
    }

    /// Whether a message is lost on its way.
    fn loses(&self, way: (usize, usize), message: &Message) -> bool {
        let fault = self.fault(way);
        let is_version =
            matches!(message, Message::Sources(_) | Message::Piece(_) | Message::Unchanged(_) | Message::Sent(_));
        let is_roster = matches!(message, Message::Roster(_) | Message::RosterChange(_));
        let pins = |pins: &[Proposal]| pins.iter().any(|pin| pin.version == fault.loses_pins_of);
        let is_pin = fault.loses_pins_of > 0
            && match message {
                Message::Reports(reports) => reports.iter().any(|one| pins(&one.report.pins)),
                Message::Changes(changes) => changes.iter().any(|one| pins(&one.pins)),
                _ => false,
            };
        self.lost_pins.fetch_add(u64::from(is_pin), Ordering::SeqCst);
        let is_lost_version = fault.loses_versions && is_version && !fault.loses_all;
        self.lost.fetch_add(u64::from(is_lost_version && matches!(message, Message::Sent(_))), Ordering::SeqCst);
        fault.loses_all || is_lost_version || is_pin || fault.loses_rosters && is_roster
    }

    fn note_announced(&self, place: usize, decisions: &[ObjectDecision]) {
        let newest = decisions.iter().map(|one| one.decision.announced.version).max().unwrap_or(0);
        let mut announced = self.announced.lock().unwrap();
        let before = announced.entry(place).or_default();
        *before = newest.max(*before);
    }
}
