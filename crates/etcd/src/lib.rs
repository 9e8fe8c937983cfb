//! What runtimes and programs on many nodes keep in etcd: names of objects, nodes, homes.
//!
//! One etcd holds it all, under a prefix for each job (`docs/names.md` lists keys and values). An [`Etcd`] reaches it.
//! [`EtcdNames`] are the names of objects, as the trait [`Names`](stillframe_object::Names) wants them. A [`Cluster`] makes this process a
//! node, claims homes for shards of objects, and tells of changes. A [`Child`] is an etcd with its data in memory, where nobody
//! runs one.
//!
//! ```no_run
//! use std::time::Duration;
//! use stillframe_etcd::{Child, Cluster, Etcd, Event, JoinOptions, Shard};
//! # fn main() -> stillframe_etcd::Result<()> {
//! let child = Child::options().start()?;
//! let etcd = Etcd::options().endpoint(child.endpoint()).open()?;
//! let cluster = Cluster::join(&etcd, JoinOptions::new("node-7", "10.0.0.7:4000"))?;
//! let shards: Vec<Shard> = Shard::all().collect();
//! cluster.claim(&shards)?;
//! while let Some(told) = cluster.next(Duration::from_secs(1)) {
//!     if let Event::NamesLost = told.event {
//!         cluster.rebuild(&[], None)?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! * All calls block, at most until their deadline. One thread does what waits for etcd, over gRPC: etcd's JSON gateway takes four
//!   times as long for a gathered create. The messages are written by hand, so that building this needs no compiler for them.
//! * Creates that arrive during a round trip go to etcd in one transaction, each as one of its own within it.
//! * There is one watch per handle, whoever waits for whatever. After a broken connection it goes on where it stopped; after a
//!   compaction it reads all anew, by pages, and tells the differences.
//! * A home acts as one only as long as this machine's own clock says that its lease goes on. Its term is the revision that made
//!   its key, counted from the base of the epoch: so terms go up even when etcd loses its data and begins again.
//! * What is in etcd may be anybody's. Keys and values are checked and bounded when they are read, and refused by their key.
//!
//! Modules, from the bottom up; each uses only those above it in this list: [`error`], [`shard`], [`keys`], [`values`], [`event`],
//! `message`, [`options`], `client`, `reactor`, `pages`, `epoch`, `counter`, `lost`, `mirror`, `queue`, [`member`], `watch`, `gather`,
//! `shared`, [`names`], [`cluster`]; [`child`] stands beside them.
#![deny(unsafe_code)]

pub mod child;
mod client;
pub mod cluster;
mod counter;
mod epoch;
pub mod error;
pub mod event;
mod gather;
mod join;
pub mod keys;
mod lost;
pub mod member;
mod message;
mod mirror;
pub mod names;
pub mod options;
mod pages;
mod queue;
mod reactor;
pub mod shard;
mod shared;
pub mod values;
mod watch;

pub use child::{Child, ChildOptions};
pub use cluster::Cluster;
pub use error::{Error, Result};
pub use event::{Event, Home, Told};
pub use join::JoinOptions;
pub use member::Standing;
pub use names::EtcdNames;
pub use options::{Options, Tls};
pub use shard::{SHARDS, Shard, shard_of};
pub use values::NodeInfo;

use shared::Shared;
use std::sync::Arc;
use stillframe_roster::writer::Node;

/// A way to etcd. Copies are the same; the last one that goes ends the thread that speaks to etcd.
#[derive(Debug, Clone)]
pub struct Etcd {
    shared: Arc<Shared>,
}

impl Etcd {
    /// Options for opening an etcd.
    pub fn options() -> Options {
        Options::default()
    }

    /// The names of objects.
    pub fn names(&self) -> EtcdNames {
        EtcdNames::new(self.shared.clone())
    }

    /// The nodes that are there now, for who has not joined yet; none whose key cannot be understood.
    ///
    /// # Errors
    /// Those of etcd.
    pub fn nodes(&self) -> Result<Vec<(Node, NodeInfo)>> {
        let (client, keys) = (self.shared.client.clone(), self.shared.keys.clone());
        let limit = client.deadline.saturating_mul(2);
        self.shared.reactor.wait("nodes", limit, async move {
            let (mut nodes, mut pages) = (Vec::new(), pages::Pages::new(keys.nodes(), 0, false));
            while let Some(page) = pages.next(&client).await? {
                nodes.extend(page.iter().filter_map(|kv| match keys.read(&kv.key) {
                    Ok(keys::Key::Node(node)) => Some((node, values::read_node(&kv.value).ok()?)),
                    _ => None,
                }));
            }
            Ok(nodes)
        })
    }

    /// Puts an object's description as etcd's other users put a key: alone, and whatever is there. It is what creating is
    /// compared with.
    ///
    /// # Errors
    /// Those of etcd.
    #[doc(hidden)]
    pub fn put_plain(&self, name: &str, description: &stillframe_object::Description) -> Result<()> {
        let value =
            values::write_description(name, description).map_err(|why| Error::Unfit { what: name.into(), why })?;
        let request =
            message::PutRequest { key: self.shared.keys.object(name), value, ..message::PutRequest::default() };
        let client = self.shared.client.clone();
        self.shared.reactor.wait("put", client.deadline, async move { client.put(&request).await })
    }

    /// Forgets all that was before the present revision, as operators have etcd do by itself.
    ///
    /// # Errors
    /// Those of etcd.
    pub fn compact(&self) -> Result<()> {
        let (client, keys) = (self.shared.client.clone(), self.shared.keys.clone());
        self.shared.reactor.wait("compact", client.deadline.saturating_mul(2), async move {
            let (_, revision) = epoch::look(&client, &keys).await?;
            client.compact(revision as i64).await
        })
    }
}

impl Options {
    /// Makes a way to etcd. It is not asked yet: the first call says whether it answers.
    ///
    /// # Errors
    /// [`Error::Option`] and [`Error::Io`] for what is wrong with addresses, certificates and files.
    pub fn open(self) -> Result<Etcd> {
        Ok(Etcd { shared: Arc::new(Shared::new(&self)?) })
    }
}
