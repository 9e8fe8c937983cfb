//! Nodes in one process: a directory each, and channels instead of a network.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;
use stillframe_node::Runtime;
use stillframe_node::cluster::Cluster;
use stillframe_node::network::{Network, Outgoing, Traffic, Transmission};
use stillframe_object::{Description, Names, Objects, Result};
use stillframe_roster::writer::{Node, Revision};
use stillframe_wire::{Message, ObjectId};

/// Who has which number now; a runtime that is started again has another.
#[derive(Debug, Default)]
struct Wires {
    numbers: RwLock<Vec<Option<Node>>>,
    runtimes: RwLock<Vec<Option<Arc<Runtime>>>>,
}

type Letter = (Node, Node, Message, Vec<u8>);

/// One end: messages to each other node arrive in order, by a thread for each.
#[derive(Debug)]
struct Wire {
    place: usize,
    wires: Arc<Wires>,
    to: Vec<Mutex<Sender<Letter>>>,
}

impl Network for Wire {
    fn send(&self, to: Node, message: Message) {
        self.post(to, message, Vec::new());
    }

    fn transmit(&self, to: Node, version: Box<dyn Transmission>) {
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
        let _ = self.to[place].lock().unwrap().send((from, to, message, bulk));
    }
}

/// Names of all nodes, which hear of new ones.
#[derive(Debug)]
struct Kept {
    names: Objects,
    wires: Arc<Wires>,
}

impl Names for Kept {
    fn put(&self, name: &str, description: &Description) -> Result<Description> {
        let there = self.names.names().put(name, description)?;
        let (wires, name, told) = (self.wires.clone(), name.to_owned(), there.clone());
        // Later, as those who watch names are told.
        std::thread::spawn(move || {
            let runtimes = wires.runtimes.read().unwrap().clone();
            runtimes.into_iter().flatten().for_each(|runtime| runtime.created(&name, &told));
        });
        Ok(there)
    }

    fn get(&self, name: &str) -> Result<Option<Description>> {
        self.names.names().get(name)
    }

    fn wait(&self, name: &str, timeout: Duration) -> Result<Option<Description>> {
        self.names.names().wait(name, timeout)
    }

    fn remove(&self, name: &str, id: std::num::NonZeroU64) -> Result<bool> {
        self.names.names().remove(name, id)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.names.names().list()
    }
}

/// The nodes that live, and how often that changed.
#[derive(Debug)]
struct Fixed {
    living: RwLock<(Vec<Node>, Revision)>,
    /// Whether no home may act, as when who keeps the names is away.
    is_homeless: AtomicBool,
    names: Arc<dyn Names>,
}

impl Cluster for Fixed {
    fn nodes(&self) -> Vec<Node> {
        self.living.read().unwrap().0.clone()
    }

    fn host(&self, node: Node) -> String {
        format!("n{}", node.0)
    }

    fn address(&self, _: Node) -> String {
        String::new()
    }

    fn home(&self, object: ObjectId) -> Option<(Node, Revision)> {
        if self.is_homeless.load(Ordering::SeqCst) {
            return None;
        }
        let (living, revision) = &*self.living.read().unwrap();
        let position = (object.0.get() % living.len().max(1) as u64) as usize;
        living.get(position).map(|node| (*node, *revision))
    }

    fn names(&self) -> Arc<dyn Names> {
        self.names.clone()
    }
}

/// Nodes, numbered from 0 on here.
pub struct Nodes {
    dir: PathBuf,
    wires: Arc<Wires>,
    networks: Vec<Arc<Wire>>,
    cluster: Arc<Fixed>,
    next: u32,
    _threads: Vec<JoinHandle<()>>,
}

impl Nodes {
    pub fn new(name: &str, count: usize) -> Nodes {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = PathBuf::from(format!("/dev/shm/stillframe-test-{name}-{}-{number}", std::process::id()));
        let names = Objects::options().dir(dir.join("names")).as_runtime().open().unwrap();
        let none = || RwLock::new((0..count).map(|_| None).collect());
        let wires = Arc::new(Wires { numbers: RwLock::new(vec![None; count]), runtimes: none() });
        let cluster = Arc::new(Fixed {
            living: RwLock::default(),
            is_homeless: AtomicBool::new(false),
            names: Arc::new(Kept { names, wires: wires.clone() }),
        });
        let mut threads = Vec::new();
        let networks = (0..count).map(|place| {
            let wire = |to: usize| {
                let (sender, receiver) = channel::<Letter>();
                let wires = wires.clone();
                threads.push(std::thread::spawn(move || {
                    for (from, node, message, bulk) in receiver {
                        let runtime = wires.runtimes.read().unwrap()[to].clone();
                        let is_current = wires.numbers.read().unwrap()[to] == Some(node);
                        if let Some(runtime) = runtime.filter(|_| is_current) {
                            // As the bytes that a network carries.
                            let mut body = Vec::new();
                            let kind = message.encode(&mut body);
                            let message = Message::decode(kind, &body).expect("what is encoded can be decoded");
                            runtime.receive(from, message, &mut &bulk[..]);
                        }
                    }
                }));
                Mutex::new(sender)
            };
            Arc::new(Wire { place, wires: wires.clone(), to: (0..count).map(wire).collect() })
        });
        let networks = networks.collect();
        let mut nodes = Nodes { dir, wires, networks, cluster, next: 1, _threads: threads };
        (0..count).for_each(|node| nodes.start(node));
        nodes
    }

    /// What a stranger says to a node, and whether he is lost then.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn say(&self, to: usize, stranger: Node, message: Option<Message>, bulk: &[u8]) {
        let runtime = self.wires.runtimes.read().unwrap()[to].clone().expect("it runs");
        match message {
            Some(message) => runtime.receive(stranger, message, &mut &bulk[..]),
            None => runtime.lost(stranger),
        }
    }

    /// The directory of regions of a node.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn dir(&self, node: usize) -> PathBuf {
        self.dir.join(node.to_string())
    }

    /// Ends the runtime of a node, and tells the others that the node is lost.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn lose(&mut self, place: usize) {
        self.stop(place);
        let Some(node) = self.wires.numbers.write().unwrap()[place].take() else { return };
        self.cluster.living.write().unwrap().0.retain(|one| *one != node);
        let runtimes = self.wires.runtimes.read().unwrap().clone();
        runtimes.into_iter().flatten().for_each(|runtime| runtime.lost(node));
    }

    /// The objects of a node, as its programs open them.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn objects(&self, node: usize) -> Objects {
        Objects::options().dir(self.dir.join(node.to_string())).open().unwrap()
    }

    /// Starts the runtime of a node; again, if it was stopped.
    pub fn start(&mut self, place: usize) {
        let objects = Objects::options().dir(self.dir.join(place.to_string())).as_runtime().open().unwrap();
        let network: Arc<dyn Network> = self.networks[place].clone();
        let node = Node(self.next);
        self.next += 1;
        let former = self.wires.numbers.write().unwrap()[place].replace(node);
        {
            let (living, revision) = &mut *self.cluster.living.write().unwrap();
            living.retain(|one| Some(*one) != former);
            living.push(node);
            *revision += 1;
        }
        let runtime = Runtime::start(node, objects, self.cluster.clone(), network).unwrap();
        self.wires.runtimes.write().unwrap()[place] = Some(Arc::new(runtime));
        let runtimes = self.wires.runtimes.read().unwrap().clone();
        let numbers = self.wires.numbers.read().unwrap().clone();
        for (other, runtime) in runtimes.iter().enumerate().filter(|(other, _)| *other != place) {
            let (Some(runtime), Some(own), Some(number)) = (runtime, &runtimes[place], numbers[other]) else {
                continue;
            };
            if let Some(former) = former {
                runtime.replaced(former, node);
            }
            runtime.changed_homes();
            runtime.connected(node);
            own.connected(number);
        }
    }

    /// Lets no home act, or again.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn set_homeless(&self, is_homeless: bool) {
        self.cluster.is_homeless.store(is_homeless, Ordering::SeqCst);
    }

    /// Ends the runtime of a node.
    pub fn stop(&mut self, node: usize) {
        let runtime = self.wires.runtimes.write().unwrap()[node].take();
        let mut runtime = runtime.expect("it runs");
        // A wire may be giving it a message just now.
        loop {
            match Arc::try_unwrap(runtime) {
                Ok(alone) => break drop(alone),
                Err(shared) => runtime = shared,
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        let runtimes: Vec<_> = self.wires.runtimes.write().unwrap().iter_mut().map(Option::take).collect();
        drop(runtimes);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
