//! A runtime with its connections and names, as `still-node` runs it.

use crate::error::{Error, Result};
use crate::links::Links;
use crate::names::EtcdCluster;
use crate::runtime::Runtime;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use stillframe_etcd::{Child, Etcd, JoinOptions, Tls};
use stillframe_link::{Identity, Listener, Means, Options};
use stillframe_object::Objects;
use stillframe_roster::writer::Node;
use stillframe_wire::hello::{Hello, Protocols};

/// In the directory of objects: the number that this machine had last.
const NODE: &str = "runtime.node";

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
    /// Addresses of etcd. Without any, one is started as a child.
    pub names: Vec<String>,
    /// Certificates for etcd.
    pub names_tls: Option<Tls>,
    /// Whether versions travel beside TLS, on a network that nobody else is on.
    pub is_plain: bool,
    /// After how long a node that is not heard of counts as lost.
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
    _child: Option<Child>,
}

impl Service {
    /// Joins the others of the job, and begins.
    ///
    /// # Errors
    /// Those of the certificate, of etcd, and of [`Runtime::start`].
    pub fn start(options: ServiceOptions) -> Result<Service> {
        let identity = Identity::open(&options.identity)?;
        let means = if options.is_plain { Means::Plain } else { Means::Tls };
        let linking = Options { means, ..Options::default() };
        let listener = Listener::bind(options.listen, &identity, &linking)?;
        let mut address = listener.address();
        if let Some(ip) = options.advertise {
            address.set_ip(ip);
        }
        let (child, endpoints) = match options.names.is_empty() {
            false => (None, options.names.clone()),
            true => {
                let child = start_child(&options)?;
                let endpoint = child.endpoint().to_owned();
                (Some(child), vec![endpoint])
            }
        };
        let mut etcd = Etcd::options().prefix(format!("stillframe/{}", identity.job()));
        etcd = endpoints.iter().fold(etcd, |etcd, endpoint| etcd.endpoint(endpoint.as_str()));
        if let Some(tls) = &options.names_tls {
            etcd = etcd.tls(tls.clone());
        }
        let etcd = etcd.open()?;

        let objects = Objects::options().dir(&options.dir).as_runtime().open()?;
        let kept = options.dir.join(".objects").join(NODE);
        // Before this machine has another number, its former runtime has to have ended.
        let lock = crate::runtime::take_lock(&options.dir)?;
        let joining = JoinOptions::new(&options.name, address.to_string()).lease(options.lease).former(former(&kept));
        let joined = stillframe_etcd::Cluster::join(&etcd, joining)?;
        let node = joined.node();
        fs::write(&kept, node.0.to_string()).map_err(Error::io("write", &kept))?;
        let cluster = Arc::new(EtcdCluster::new(&etcd, joined));
        let hello = Hello {
            protocols: Protocols::OWN,
            job: identity.job().into(),
            node,
            name: options.name.clone(),
            incarnation: u128::from(node.0),
            abi: stillframe_segment::head::ABI,
        };
        let links = Links::new(hello, identity, linking);
        let runtime = Runtime::start_locked(node, objects.clone(), cluster.clone(), links.clone(), lock)?;
        let runtime = Arc::new(runtime);
        links.serve(listener, &runtime)?;
        let has_ended = Arc::new(AtomicBool::new(false));
        let follower = {
            let (runtime, links, cluster, has_ended) =
                (runtime.clone(), links.clone(), cluster.clone(), has_ended.clone());
            let follow = move || cluster.follow(&runtime, &links, &objects, || has_ended.load(Ordering::SeqCst));
            thread::Builder::new().name("stillframe-names".into()).spawn(follow).map_err(Error::io("clone", "names"))?
        };
        let endpoint = endpoints.join(",");
        Ok(Service { runtime, links, cluster, address, endpoint, has_ended, follower: Some(follower), _child: child })
    }

    /// The number of this node.
    pub fn node(&self) -> Node {
        self.cluster.node()
    }

    /// Where others reach it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where names are kept.
    pub fn names(&self) -> &str {
        &self.endpoint
    }

    /// The runtime.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.links.end();
        if let Some(follower) = self.follower.take() {
            let _ = follower.join();
        }
    }
}

fn start_child(options: &ServiceOptions) -> Result<Child> {
    let ip = options.advertise.unwrap_or(options.listen.ip());
    let child = Child::options().address(ip);
    Ok(match &options.names_tls {
        Some(tls) => child.tls(tls.clone()).start()?,
        None if ip.is_loopback() => child.start()?,
        None => child.allow_plain().start()?,
    })
}

/// The number that this machine had last, if it wrote it down.
fn former(kept: &Path) -> Option<Node> {
    fs::read_to_string(kept).ok()?.trim().parse().ok().map(Node)
}
