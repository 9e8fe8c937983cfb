//! Nodes in one process: a directory each, and channels instead of a network.

pub use crate::wires::Fault;
use crate::wires::{Wire, Wires, carry};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;
use stillframe_node::Runtime;
use stillframe_node::cluster::Cluster;
use stillframe_node::network::{Network, Transmission};
use stillframe_object::{Description, Error, Names, Object, Objects, Result};
use stillframe_roster::writer::{Node, Revision};
use stillframe_wire::{Message, ObjectId};

/// Names of all nodes, which hear of new ones.
#[derive(Debug)]
struct Kept {
    names: Objects,
    /// Whether who asks for a name has to wait.
    is_slow: AtomicBool,
    /// Whether nobody who asks for a name is answered.
    is_away: AtomicBool,
    /// Whether somebody does.
    is_asked: AtomicBool,
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
        while self.is_slow.load(Ordering::SeqCst) {
            self.is_asked.store(true, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.is_away.load(Ordering::SeqCst) {
            self.is_asked.store(true, Ordering::SeqCst);
            return Err(Error::Keeper { is_timeout: true, source: "it does not answer".into() });
        }
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
    replaced: RwLock<Vec<(Node, Node)>>,
    lease: RwLock<Duration>,
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

    fn replaced(&self) -> Vec<(Node, Node)> {
        self.replaced.read().unwrap().clone()
    }

    fn lease(&self) -> Duration {
        *self.lease.read().unwrap()
    }

    fn names(&self) -> Arc<dyn Names> {
        self.names.clone()
    }
}

/// Nodes, numbered from 0 on here.
pub struct Nodes {
    dir: PathBuf,
    kept: Arc<Kept>,
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
        let wires = Arc::new(Wires {
            numbers: RwLock::new(vec![None; count]),
            runtimes: none(),
            sent_bytes: AtomicU64::new(0),
            subscriptions: Mutex::default(),
            lost: AtomicU64::new(0),
            lost_pins: AtomicU64::new(0),
            descriptions: AtomicU64::new(0),
            announced: Mutex::default(),
            faults: RwLock::default(),
        });
        let kept = Arc::new(Kept {
            names,
            is_slow: AtomicBool::new(false),
            is_away: AtomicBool::new(false),
            is_asked: AtomicBool::new(false),
            wires: wires.clone(),
        });
        let cluster = Arc::new(Fixed {
            living: RwLock::default(),
            replaced: RwLock::default(),
            lease: RwLock::new(Duration::from_secs(3)),
            is_homeless: AtomicBool::new(false),
            names: kept.clone(),
        });
        let mut threads = Vec::new();
        let networks = (0..count).map(|place| {
            let carry = |to| {
                let (sender, thread) = carry(wires.clone(), (place, to));
                threads.push(thread);
                sender
            };
            let to = (0..count).map(carry).collect();
            Arc::new(Wire { place, wires: wires.clone(), to, stalled: Mutex::default() })
        });
        let networks = networks.collect();
        let mut nodes = Nodes { dir, kept, wires, networks, cluster, next: 1, _threads: threads };
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
            let mut replaced = self.cluster.replaced.write().unwrap();
            replaced.iter_mut().filter(|(_, now)| Some(*now) == former).for_each(|(_, now)| *now = node);
            replaced.extend(former.map(|former| (former, node)));
            drop(replaced);
            living.retain(|one| Some(*one) != former);
            living.push(node);
            *revision += 1;
        }
        let runtime = Runtime::start(node, objects, self.cluster.clone(), network, 128 << 20).unwrap();
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

    /// Bytes of versions that were sent so far.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn sent_bytes(&self) -> u64 {
        self.wires.sent_bytes.load(Ordering::Relaxed)
    }

    /// The numbers of subscriptions, as they were made.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn subscriptions(&self) -> Vec<u64> {
        self.wires.subscriptions.lock().unwrap().clone()
    }

    /// The newest version of what the runtime of a node fills for the first reader of an object there.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn filled(&self, node: usize, object: &str) -> Option<u64> {
        let options = stillframe::Observer::options().dir(self.dir.join(node.to_string()));
        options.open(&format!("objects/{object}/r1")).unwrap().newest_number()
    }

    /// Makes something wrong on the way from one node to another.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn set_fault(&self, from: usize, to: usize, fault: Fault) {
        self.wires.faults.write().unwrap().insert((from, to), fault);
        // What has waited goes on, in order.
        let number = self.number(to);
        let mut stalled = std::mem::take(&mut *self.networks[from].stalled.lock().unwrap());
        if fault.stalls_versions {
            return self.networks[from].stalled.lock().unwrap().append(&mut stalled);
        }
        let of_it = |(node, _): &mut (Node, Box<dyn Transmission>)| *node == number;
        stalled.extract_if(.., of_it).for_each(|(node, version)| self.networks[from].transmit(node, version));
        self.networks[from].stalled.lock().unwrap().append(&mut stalled);
    }

    /// The runtime of a node that runs.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn runtime(&self, place: usize) -> Arc<Runtime> {
        self.wires.runtimes.read().unwrap()[place].clone().unwrap()
    }

    /// Its number.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn number(&self, place: usize) -> Node {
        self.wires.numbers.read().unwrap()[place].unwrap()
    }

    /// Where it has its regions.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn dir(&self, place: usize) -> PathBuf {
        self.dir.join(place.to_string())
    }

    /// Where the home of an object is.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn home(&self, object: ObjectId) -> usize {
        let home = self.cluster.home(object).unwrap().0;
        self.wires.numbers.read().unwrap().iter().position(|node| *node == Some(home)).unwrap()
    }

    /// Lets a node, whose runtime was stopped, be lost.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn lose(&self, place: usize) {
        self.end_lease(place);
        let places = self.wires.runtimes.read().unwrap().len();
        (0..places).for_each(|at| self.tell_lost(at, place));
    }

    /// Lets a node count as lost, of which the others have still to hear.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn end_lease(&self, place: usize) {
        let node = self.number(place);
        let (living, revision) = &mut *self.cluster.living.write().unwrap();
        living.retain(|one| *one != node);
        *revision += 1;
    }

    /// Lets a node be lost that is the home of nothing, so that the homes go on: objects whose ids are multiples of the numbers of nodes before
    /// and after that have the first node for theirs.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn lose_beside_homes(&self, place: usize) {
        self.forget(place);
        let places = self.wires.runtimes.read().unwrap().len();
        (0..places).for_each(|at| self.tell_lost(at, place));
    }

    /// The same, and nobody tells that it is lost.
    pub fn forget(&self, place: usize) {
        let node = self.number(place);
        self.cluster.living.write().unwrap().0.retain(|one| *one != node);
    }

    /// Tells the runtime of a node, if it runs, that another one is lost.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn tell_lost(&self, at: usize, place: usize) {
        let node = self.number(place);
        let runtime = self.wires.runtimes.read().unwrap()[at].clone();
        if let Some(runtime) = runtime {
            runtime.lost(node);
            runtime.changed_homes();
        }
    }

    /// Lets homes that begin from now on take leases for so long. None of them ever ends here.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn set_lease(&self, lease: Duration) {
        *self.cluster.lease.write().unwrap() = lease;
    }

    /// Begins another term of all homes.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn begin_term(&self) {
        self.cluster.living.write().unwrap().1 += 1;
        let runtimes = self.wires.runtimes.read().unwrap().clone();
        runtimes.into_iter().flatten().for_each(|runtime| runtime.changed_homes());
    }

    /// Lets who keeps the names answer nobody who asks for one, or again.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn set_slow_names(&self, is_slow: bool) {
        self.kept.is_slow.store(is_slow, Ordering::SeqCst);
    }

    /// Lets who keeps the names fail whoever asks for one, or answer again.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn set_away_names(&self, is_away: bool) {
        self.kept.is_away.store(is_away, Ordering::SeqCst);
    }

    /// Whether somebody asked for a name while it was so.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn asks_names(&self) -> bool {
        self.kept.is_asked.load(Ordering::SeqCst)
    }

    /// Has a name lead to this object where names are kept, as after a loss of what was there, and tells nobody.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn rename(&self, object: &Object) {
        let (names, name) = (self.kept.names.names(), object.name());
        let there = names.get(name).unwrap().expect("it leads to another one");
        assert!(names.remove(name, there.id).unwrap());
        names.put(name, object.description()).unwrap();
    }

    /// How many times a node was told by another one what an object is.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn descriptions(&self) -> u64 {
        self.wires.descriptions.load(Ordering::SeqCst)
    }

    /// The newest version of which another node told this one that it is complete.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn heard_announced(&self, place: usize) -> u64 {
        self.wires.announced.lock().unwrap().get(&place).copied().unwrap_or(0)
    }

    /// Has the runtime of a node begin with another one anew, as with a new connection.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn reconnect(&self, at: usize, place: usize) {
        self.runtime(at).connected(self.number(place));
    }

    /// How often it was lost that a node pins a version.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn lost_pins(&self) -> u64 {
        self.wires.lost_pins.load(Ordering::SeqCst)
    }

    /// How many versions were lost on their way.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn lost_versions(&self) -> u64 {
        self.wires.lost.load(Ordering::SeqCst)
    }

    /// Lets no home act, or again.
    #[allow(dead_code, reason = "not all suites do")]
    pub fn set_homeless(&self, is_homeless: bool) {
        self.cluster.is_homeless.store(is_homeless, Ordering::SeqCst);
    }

    /// Ends the runtime of a node.
    #[allow(dead_code, reason = "not all suites do")]
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
