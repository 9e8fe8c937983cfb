//! A runtime with its connections and names, as `still-node` runs it.

use crate::directory;
use crate::error::{Error, Result};
use crate::keeper::{Keeper, port_of};
use crate::links::Links;
use crate::meeting::{self, Meeting};
use crate::names::EtcdCluster;
use crate::numbers::{NUMBER_MAX, Numbers};
use crate::peers::Peers;
use crate::runtime::Runtime;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use stillframe_etcd::{Child, Etcd, Home, JoinOptions, NodeInfo, Shard, Tls};
use stillframe_kernel::disk::capacity_bytes;
use stillframe_kernel::points;
use stillframe_link::identity::{AUTHORITY, CERTIFICATE, KEY};
use stillframe_link::{Connection, Identity, Listener, Means, Options};
use stillframe_object::Objects;
use stillframe_object::runtime::LOCK;
use stillframe_roster::writer::Node;
use stillframe_wire::hello::{Hello, Protocols};

/// How long another node may take to start an etcd.
const MEETING_LIMIT: Duration = Duration::from_secs(60);

/// How long a node of the same name may take to answer, if it lives.
const NAMESAKE_LIMIT: Duration = Duration::from_secs(2);

/// How long to wait before one is asked again that ended the connection.
const AGAIN: Duration = Duration::from_millis(20);

/// How long whoever keeps the names may take to join itself, before others do.
const COUNT_LIMIT: Duration = Duration::from_secs(5);

/// How long others have to come back when etcd has lost its data, at least: no node is given up before its lease can have ended.
const GRACE: Duration = Duration::from_secs(10);

/// How long other nodes may take to hear how far homes came whose node leaves.
const RETIRE_LIMIT: Duration = Duration::from_secs(2);

/// How many nodes may have joined of which a machine had not heard when it ended.
const UNHEARD: u32 = 64;

/// What a clock that is wrong is taken for.
const ABOVE_ALL_MIN: u32 = 1 << 30;

/// What a service needs.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// The directory of regions.
    pub dir: PathBuf,
    /// What this machine is called, for people. No other node of the job has this name.
    pub name: String,
    /// Where to listen for other runtimes.
    pub listen: SocketAddr,
    /// Where others reach it, if that is another address.
    pub advertise: Option<IpAddr>,
    /// The directory with the job's certificate.
    pub identity: PathBuf,
    /// Addresses of etcd. Without any, the first node of the job starts one as a child, and the others find it by a file in the
    /// directory of the certificate.
    pub names: Vec<String>,
    /// Certificates for etcd, if they are others than the job's.
    pub names_tls: Option<Tls>,
    /// How many bytes of memory versions may take that this node's programs read of other nodes; half of the file system of `dir` by
    /// default.
    pub memory_bytes: Option<u64>,
    /// How versions travel, on all nodes alike.
    pub means: Means,
    /// After how long a node that is not heard of counts as lost, on all nodes alike.
    pub lease: Duration,
}

/// A runtime that runs.
#[derive(Debug)]
pub struct Service {
    runtime: Arc<Runtime>,
    links: Arc<Links>,
    cluster: Arc<EtcdCluster>,
    address: SocketAddr,
    endpoint: String,
    has_ended: Arc<AtomicBool>,
    follower: Option<JoinHandle<()>>,
    keeper: Option<Keeper>,
    meeting: Option<Meeting>,
    numbers: Arc<Numbers>,
    lease: Duration,
}

/// Where names are kept.
#[derive(Debug)]
struct Names {
    addresses: Vec<String>,
    tls: Tls,
    keeper: Option<Keeper>,
    meeting: Option<Meeting>,
    /// Whether this node kept them before, in the memory of an etcd that has ended.
    has_lost_count: bool,
}

impl Names {
    /// The file by which they were found at another node.
    fn kept_elsewhere(&self) -> Option<&Meeting> {
        self.meeting.as_ref().filter(|_| self.keeper.is_none())
    }

    /// Says by which file an address was found that leads nowhere.
    fn explain(&self, error: stillframe_etcd::Error) -> Error {
        match self.kept_elsewhere() {
            Some(meeting) => {
                let why = format!("it leads to {}: {error}", self.addresses.join(","));
                Error::Meeting { path: meeting.path().into(), why }
            }
            _ => error.into(),
        }
    }
}

impl Service {
    /// Joins the others of the job, and begins.
    ///
    /// # Errors
    /// Those of the certificate, of etcd, and of [`Runtime::start`].
    pub fn start(mut options: ServiceOptions) -> Result<Service> {
        // An etcd as a child is in another directory.
        let files = options.names_tls.iter_mut().flat_map(|tls| [&mut tls.ca, &mut tls.certificate, &mut tls.key]);
        for path in files.chain([&mut options.identity]) {
            *path = std::path::absolute(&*path).map_err(Error::io("find", &*path))?;
        }
        let identity = Identity::open(&options.identity)?;
        // A connection on which nothing comes through for a lease is none.
        let silence = options.lease.min(Options::default().silence);
        let linking = Options { means: options.means.clone(), silence, ..Options::default() };
        let listener = Listener::bind(options.listen, &identity, &linking)?;
        let mut address = listener.address();
        if let Some(ip) = options.advertise {
            address.set_ip(ip);
        }
        let objects = Objects::options().dir(&options.dir).as_runtime().open()?;
        // Without that file programs create objects of which etcd is not told.
        if !options.dir.join(".objects").join(LOCK).exists() {
            Numbers::open(&options.dir, identity.number()).note_epoch(None)?;
        }
        // Before this machine has another number, its former runtime has to have ended.
        let lock = crate::runtime::take_lock(&objects)?;
        let memory_bytes = match options.memory_bytes {
            Some(bytes) => bytes,
            None => lock.file().map_or(Ok(0), capacity_bytes)? / 2,
        };
        let numbers = Arc::new(Numbers::open(&options.dir, identity.number()));
        numbers.keep_memory()?;
        let names = find_names(&options, &identity, numbers.memory())?;
        let etcd = open(&names, &identity, options.lease)?;
        let nodes = etcd.nodes().map_err(|error| names.explain(error))?;
        // Another run of the job counted anew: what this machine was before, other machines are now.
        let others = nodes.iter().filter(|(_, info)| info.memory != numbers.memory()).map(|(node, _)| *node);
        numbers.forget(&others.collect());
        let former = numbers.former();
        let namesakes = check_namesakes(&nodes, &options.name, former, address, &identity, &linking)?;
        let above = match numbers.highest() {
            // Others may have joined of whom it did not hear before it ended.
            Some(highest) if names.has_lost_count => Some(Node(highest.0.saturating_add(UNHEARD))),
            None if names.has_lost_count => Some(above_all()),
            known => known,
        };
        // Who keeps the names, or knew the job before, begins the count where others only follow.
        let patience = if names.kept_elsewhere().is_some() && above.is_none() { COUNT_LIMIT } else { Duration::ZERO };
        let joining = JoinOptions::new(&options.name, address.to_string()).lease(options.lease);
        let joining = joining.memory(numbers.memory()).continues(numbers.all_former());
        let joining = joining.former(former.into_iter().chain(namesakes));
        let joining = joining.above(above).patience(patience);
        let remembered = numbers.peers();
        let is_forgetful = names.has_lost_count && remembered.is_none();
        let joining = match remembered {
            Some(Peers { epoch, nodes, missing, .. }) => {
                let nodes = nodes.into_iter().map(|(node, info)| (Node(node), info)).collect();
                joining.remembers(epoch, nodes, missing.into_iter().map(Node).collect())
            }
            None => joining,
        };
        let joined = stillframe_etcd::Cluster::join(&etcd, joining).map_err(|error| names.explain(error))?;
        let node = joined.node();
        points::hit("node.joined");
        numbers.join(node)?;
        points::hit("node.noted");
        directory::agree(&objects, &etcd.names(), &numbers, || joined.epoch_now())?;
        let hello = Hello {
            protocols: Protocols::OWN,
            job: identity.job().into(),
            node,
            name: options.name.clone(),
            incarnation: joined.own_info().incarnation.into(),
            abi: stillframe_segment::head::ABI,
        };
        let keeps_names = names.keeper.is_some();
        let cluster = EtcdCluster::new(&etcd, joined, numbers.clone(), options.lease, keeps_names);
        // Its machine lost what it knew together with the names: the others claim what is free as soon as they are back.
        let cluster = if is_forgetful { cluster.hold_back(options.lease.min(GRACE)) } else { cluster };
        let cluster = Arc::new(cluster);
        let links = Links::new(hello, identity, linking, options.lease);
        cluster.connect(links.clone());
        let runtime = Runtime::start_locked(node, objects.clone(), cluster.clone(), links.clone(), memory_bytes, lock)?;
        let runtime = Arc::new(runtime);
        links.serve(listener, &runtime)?;
        points::hit("node.listens");
        let has_ended = Arc::new(AtomicBool::new(false));
        let follower = {
            let (runtime, links, cluster, has_ended) =
                (runtime.clone(), links.clone(), cluster.clone(), has_ended.clone());
            let follow = move || cluster.follow(&runtime, &links, &objects, || has_ended.load(Ordering::SeqCst));
            thread::Builder::new().name("stillframe-names".into()).spawn(follow).map_err(Error::io("clone", "names"))?
        };
        let Names { addresses, keeper, meeting, .. } = names;
        let (endpoint, follower) = (addresses.join(","), Some(follower));
        let lease = options.lease;
        Ok(Service { runtime, links, cluster, address, endpoint, has_ended, follower, keeper, meeting, numbers, lease })
    }

    /// The number of this node.
    pub fn node(&self) -> Node {
        self.cluster.node()
    }

    /// The homes of all shards that have one, as far as this node has heard.
    pub fn homes(&self) -> Vec<(Shard, Home)> {
        self.cluster.homes()
    }

    /// Where others reach it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where names are kept.
    pub fn names(&self) -> &str {
        &self.endpoint
    }

    /// Whether this node is none of the job's any more: its lease ended before others heard of it. It can join anew, as another node, by
    /// another service.
    pub fn is_lost(&self) -> bool {
        self.cluster.is_lost()
    }

    /// The number of the etcd's process, if this node keeps it.
    pub fn names_process(&self) -> Option<u32> {
        self.keeper.as_ref()?.process()
    }

    /// Leaves the job: other nodes hear of it at once. Before that they are told how far the homes here came, for which a third of a lease
    /// is waited, and no longer than two seconds. An etcd of this node's own ends.
    ///
    /// # Errors
    /// Those of etcd: then others hear of it when the lease ends.
    pub fn leave(mut self) -> Result<()> {
        self.runtime.retire(RETIRE_LIMIT.min(self.lease / 3));
        self.end();
        self.numbers.leave();
        if let Some(meeting) = &self.meeting {
            meeting.end();
        }
        self.cluster.leave()
    }

    /// The runtime.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end();
    }
}

impl Service {
    /// Ends what the threads of a service do.
    fn end(&mut self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.links.end();
        if let Some(follower) = self.follower.take() {
            let _ = follower.join();
        }
    }
}

/// Finds the names where the options say, or starts an etcd for all.
fn find_names(options: &ServiceOptions, identity: &Identity, memory: u64) -> Result<Names> {
    let tls = options.names_tls.clone().unwrap_or_else(|| {
        let file = |name: &str| options.identity.join(name);
        Tls { ca: file(AUTHORITY), certificate: file(CERTIFICATE), key: file(KEY), name: Some(identity.name()) }
    });
    if !options.names.is_empty() {
        let addresses = options.names.clone();
        return Ok(Names { addresses, tls, keeper: None, meeting: None, has_lost_count: false });
    }
    let meeting = Meeting::new(&options.identity, &options.name, &options.dir, memory);
    let before = match meeting.join(MEETING_LIMIT)? {
        meeting::Keeper::Other(address) => {
            let (addresses, meeting) = (vec![address], Some(meeting));
            return Ok(Names { addresses, tls, keeper: None, meeting, has_lost_count: false });
        }
        meeting::Keeper::Own(before) => before,
    };
    let child = Child::options().address(options.advertise.unwrap_or(options.listen.ip())).tls(tls.clone());
    let keeper = start_keeper(&meeting, before.as_deref(), |port| Keeper::start(child, port))?;
    let addresses = vec![keeper.address().to_owned()];
    let has_lost_count = before.is_some();
    Ok(Names { addresses, tls, keeper: Some(keeper), meeting: Some(meeting), has_lost_count })
}

/// Starts the etcd of a job, at the port that it had before, and writes down where it is.
fn start_keeper(
    meeting: &Meeting,
    before: Option<&str>,
    start: impl FnOnce(Option<u16>) -> Result<Keeper>,
) -> Result<Keeper> {
    let announced = start(before.and_then(port_of)).and_then(|keeper| {
        points::hit("keeper.begun");
        if before != Some(keeper.address()) {
            meeting.tell(keeper.address())?;
        }
        Ok(keeper)
    });
    announced.inspect_err(|_| {
        // Others would wait for the first address. Where there was one they ask there, and this node is to try once more.
        if before.is_none() {
            meeting.end();
        }
    })
}

fn open(names: &Names, identity: &Identity, lease: Duration) -> Result<Etcd> {
    // Jobs of one name may share an etcd.
    let prefix = format!("stillframe/{}-{:016x}", identity.job(), identity.number());
    let etcd = Etcd::options().prefix(prefix).grace(lease.max(GRACE));
    let etcd = names.addresses.iter().fold(etcd, |etcd, address| etcd.endpoint(address.as_str()));
    let is_secret = names.addresses.iter().any(|address| address.starts_with("https://"));
    let etcd = if is_secret { etcd.tls(names.tls.clone()) } else { etcd };
    etcd.open().map_err(|error| names.explain(error))
}

/// Makes sure that no other node that lives has this one's name: all would take this one for that one, started again. Those where nobody
/// listens any more, or nobody answers, are this one before its memory was lost.
fn check_namesakes(
    nodes: &[(Node, NodeInfo)],
    name: &str,
    former: Option<Node>,
    own: SocketAddr,
    identity: &Identity,
    options: &Options,
) -> Result<Vec<Node>> {
    let namesakes = || nodes.iter().filter(|(node, info)| info.name == name && Some(*node) != former);
    for (node, info) in namesakes() {
        let Ok(address) = info.address.parse::<SocketAddr>() else { continue };
        if address == own {
            continue;
        }
        let (name, node) = (name.to_owned(), *node);
        match connect(address, identity, options) {
            Ok(_) => return Err(Error::Namesake { name, node, address }),
            Err(why) if is_answer(&why) => return Err(Error::Stranger { name, node, address, why: why.into() }),
            Err(_) => {}
        }
    }
    Ok(namesakes().map(|(node, _)| *node).collect())
}

/// Connects to a namesake. One that is just ending may still end the connection, and the next time nobody listens there.
fn connect(address: SocketAddr, identity: &Identity, options: &Options) -> stillframe_link::Result<Connection> {
    let begin = Instant::now();
    loop {
        match Connection::connect(address, identity, options, NAMESAKE_LIMIT) {
            Err(stillframe_link::Error::Closed { .. }) if begin.elapsed() < NAMESAKE_LIMIT => thread::sleep(AGAIN),
            connected => return connected,
        }
    }
}

/// Whether somebody has answered a connection, and did not let this node in, or is not let in.
fn is_answer(error: &stillframe_link::Error) -> bool {
    use stillframe_link::Error;
    matches!(error, Error::Refused { .. } | Error::RefusedThere { .. } | Error::Malformed { .. } | Error::Closed { .. })
}

/// A number above all that were given, for a machine that was the first of the job and has lost what it wrote down, as when it was
/// started anew: the others, which know, may be too late. Nodes do not join once a second, so that the clock is ahead of their count.
fn above_all() -> Node {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Node(u32::try_from(since.as_secs()).unwrap_or(0).clamp(ABOVE_ALL_MIN, NUMBER_MAX))
}

#[cfg(test)]
#[path = "../../etcd/tests/it/proxy/mod.rs"]
mod proxy;

#[cfg(test)]
mod tests;
