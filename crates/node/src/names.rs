//! Nodes, homes and names in etcd.

use crate::cluster::Cluster;
use crate::directory;
use crate::error::{Error, Result};
use crate::links::Links;
use crate::machines::{Former, Machines};
use crate::network::Network;
use crate::numbers::Numbers;
use crate::runtime::Runtime;
use crate::spread;
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use stillframe_etcd::{Etcd, EtcdNames, Event, Home, NodeInfo, Shard, Standing, shard_of};
use stillframe_kernel::points;
use stillframe_object::{Description, Names, Objects};
use stillframe_roster::writer::{Node, Revision};
use stillframe_wire::ObjectId;

/// How long to wait for news.
const LOOK: Duration = Duration::from_secs(1);

/// The same while shards have no home, or not the one that they prefer; and for how long none but that one claims them.
const SOON: Duration = Duration::from_millis(300);

/// Changes that are told a runtime together, at most.
const TOGETHER: usize = 256;

/// What etcd knows of nodes, homes and names.
#[derive(Debug)]
pub struct EtcdCluster {
    cluster: stillframe_etcd::Cluster,
    names: Arc<EtcdNames>,
    links: OnceLock<Arc<Links>>,
    /// Whether another node has this one's number.
    is_taken: AtomicBool,
    /// Whether etcd has all objects of this node's directory, as far as it was told. Before that, what has no home may be theirs.
    is_put: AtomicBool,
    known: Mutex<Machines>,
    numbers: Arc<Numbers>,
    lease: Duration,
    /// Whether the etcd is this runtime's own.
    keeps_names: bool,
    /// When this node may first become a home.
    claims_from: Instant,
}

/// Changes of which many come at once.
#[derive(Debug, Default)]
struct Gathered {
    created: Vec<(String, Description)>,
    /// Those with another home, or none.
    shards: BTreeSet<Shard>,
}

impl Gathered {
    /// Takes a change, or returns one of another kind, before which these are to be told.
    fn take(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::ObjectCreated { name, description } => self.created.push((name, description)),
            Event::HomeChanged { shard, .. } => _ = self.shards.insert(shard),
            other => return Some(other),
        }
        None
    }
}

/// Tells a runtime what many changes have in common; whether homes have changed.
fn pass_on(gathered: &mut Gathered, runtime: &Runtime) -> bool {
    let Gathered { created, shards } = std::mem::take(gathered);
    if !created.is_empty() {
        runtime.created_all(&created);
    }
    if !shards.is_empty() {
        runtime.changed_homes_of(|id| shards.contains(&shard_of(id.0)));
    }
    !shards.is_empty()
}

impl Cluster for EtcdCluster {
    fn nodes(&self) -> Vec<Node> {
        // A runtime that was started again reports for the one before, which etcd may not even know as lost if its data are.
        let known = self.known();
        let nodes = self.cluster.nodes().into_iter().map(|(node, _)| node);
        nodes.filter(|node| !known.is_former(*node)).collect()
    }

    fn host(&self, node: Node) -> String {
        self.cluster.info(node).map_or_else(|| format!("node {}", node.0), |info| info.name)
    }

    fn address(&self, node: Node) -> String {
        self.cluster.info(node).map_or_else(String::new, |info| info.address)
    }

    fn home(&self, object: ObjectId) -> Option<(Node, Revision)> {
        let shard = shard_of(object.0);
        let home = self.cluster.home(shard)?;
        if home.node != self.cluster.node() {
            return Some((home.node, home.term));
        }
        // One that may have lost its role, or has given it up and not heard who has it, decides nothing.
        let by_lease = self.cluster.acts_as_home(shard);
        let term = by_lease.or_else(|| self.cluster.term_held(shard).filter(|_| self.reaches_all()))?;
        Some((home.node, term))
    }

    fn replaced(&self) -> Vec<(Node, Node)> {
        // As the nodes say themselves: a node that joined after one was started again was told of neither number by events.
        let nodes = self.cluster.nodes().into_iter();
        nodes.flat_map(|(node, info)| info.former.into_iter().map(move |former| (Node(former), node))).collect()
    }

    fn lease(&self) -> Duration {
        self.lease
    }

    fn names(&self) -> Arc<dyn Names> {
        self.names.clone()
    }
}

impl EtcdCluster {
    /// Of a node that has joined with such a lease, and which keeps the names itself or does not.
    pub fn new(
        etcd: &Etcd,
        cluster: stillframe_etcd::Cluster,
        numbers: Arc<Numbers>,
        lease: Duration,
        keeps_names: bool,
    ) -> EtcdCluster {
        EtcdCluster {
            cluster,
            names: Arc::new(etcd.names()),
            links: OnceLock::new(),
            is_taken: AtomicBool::new(false),
            is_put: AtomicBool::new(true),
            known: Mutex::default(),
            numbers,
            lease,
            keeps_names,
            claims_from: Instant::now(),
        }
    }

    /// Has this node become no home for so long: others that it does not know of may have to come back first.
    pub fn hold_back(self, limit: Duration) -> EtcdCluster {
        EtcdCluster { claims_from: Instant::now() + limit, ..self }
    }

    /// The connections to the others, as soon as there are any.
    pub(crate) fn connect(&self, links: Arc<Links>) {
        let _ = self.links.set(links);
    }

    /// Whether this node is connected to all others, and has heard of nothing that ended its own role. Then no other node has become a home in
    /// its place: whoever hears from etcd that a lease has ended closes the connection before anybody claims what is free, and a new home
    /// decides nothing for a node that has not reported to it. Where there are no others, none would: who joins meanwhile finds nobody in
    /// etcd, and knows of no connection to close. Nobody does by an etcd that this runtime keeps itself and does not reach.
    fn reaches_all(&self) -> bool {
        let Some(links) = self.links.get().filter(|_| self.cluster.standing() == Standing::Joined) else {
            return false;
        };
        let mut others = self.nodes().into_iter().filter(|node| *node != self.node()).peekable();
        (others.peek().is_some() || self.keeps_names) && others.all(|node| links.traffic(node).is_connected)
    }

    /// This node.
    pub fn node(&self) -> Node {
        self.cluster.node()
    }

    /// The homes of all shards that have one, as far as this node has heard.
    pub fn homes(&self) -> Vec<(Shard, Home)> {
        self.cluster.homes()
    }

    /// Whether this is no node any more: its lease has ended, or another has its number.
    pub fn is_lost(&self) -> bool {
        self.cluster.standing() == Standing::Lost || self.is_taken.load(Ordering::Relaxed)
    }

    /// Leaves: others hear of it at once, if etcd does.
    ///
    /// # Errors
    /// Those of etcd: then they hear of it when the lease ends.
    pub fn leave(&self) -> Result<()> {
        Ok(self.cluster.leave()?)
    }

    pub(crate) fn is_put(&self) -> bool {
        self.is_put.load(Ordering::Relaxed)
    }

    /// etcd may not have all objects of this node's directory, until they are put there again. If this runtime ends meanwhile, the next one
    /// puts all there, too.
    fn note_unput(&self) {
        self.is_put.store(false, Ordering::Relaxed);
        let _ = self.numbers.note_epoch(None);
    }

    fn known(&self) -> MutexGuard<'_, Machines> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a runtime what changes, until `has_ended`.
    pub fn follow(&self, runtime: &Runtime, links: &Arc<Links>, objects: &Objects, has_ended: impl Fn() -> bool) {
        self.note_peers();
        self.claim(runtime, &self.preferring());
        let (mut looked, mut longest, mut free) = (Instant::now(), SOON, Vec::new());
        while !has_ended() {
            let told = self.cluster.next_some(longest, TOGETHER);
            // What others have removed before is not put back: all that had come is told by then.
            let is_all = told.len() < TOGETHER;
            // Before this runtime does anything with a node, the next one would know of it.
            if !told.is_empty() {
                self.note_peers();
            }
            let (mut gathered, mut is_other) = (Gathered::default(), false);
            for told in told {
                if let Some(event) = gathered.take(told.event) {
                    pass_on(&mut gathered, runtime);
                    self.tell(event, runtime, links, objects);
                    (longest, is_other) = (SOON, true);
                }
            }
            is_other |= pass_on(&mut gathered, runtime);
            // Behind all that was told: the connection to a home that was lost is closed by then, and it is none that is preferred.
            if is_other {
                longest = SOON;
                self.claim(runtime, &self.preferring());
            }
            if looked.elapsed() >= SOON {
                // etcd may have been lost once more while this node was put there again, which then did not succeed, or was forgotten. It
                // is tried again by the clock: something may be told all the time.
                if is_all && (self.cluster.standing() == Standing::Forgotten || !self.is_put()) {
                    self.rebuild(runtime, objects);
                }
                // Whoever was to be the home of what was free the last time has had the time.
                let before = std::mem::replace(&mut free, self.free());
                self.claim(runtime, &free.iter().copied().filter(|shard| before.contains(shard)).collect::<Vec<_>>());
                self.hand_over(links);
                self.reach_all(links);
                // It could not be written, perhaps.
                self.note_peers();
                looked = Instant::now();
                longest = if self.is_settled() && self.is_put() { LOOK } else { SOON };
            }
        }
    }

    fn note_peers(&self) {
        let others = self.cluster.nodes().into_iter().filter(|(node, _)| *node != self.node());
        self.numbers.note_peers(self.cluster.epoch(), others.collect(), self.cluster.missing());
    }

    pub(crate) fn tell(&self, event: Event, runtime: &Runtime, links: &Arc<Links>, objects: &Objects) {
        match event {
            Event::NodeJoined { node, info } => self.join(node, &info, runtime, links),
            Event::NodeLost { node } => {
                links.remove(node);
                let is_news = self.known().lose(node);
                if is_news {
                    runtime.lost(node);
                }
            }
            Event::ObjectRemoved { name, id } => runtime.removed(&name, ObjectId(id)),
            Event::ObjectMissing { name, id } => self.give_up_object(&name, id, runtime, objects),
            Event::NamesLost => self.rebuild(runtime, objects),
            // Nobody healthy wrote it, and others go on.
            _ => {}
        }
    }

    /// Nobody has put an object back that etcd has lost. Nobody has removed it either: what this node's directory has it puts there again.
    fn give_up_object(&self, name: &str, id: NonZeroU64, runtime: &Runtime, objects: &Objects) {
        match objects.names().get(name) {
            Ok(there) if there.as_ref().is_none_or(|there| there.id != id) => runtime.given_up(name, ObjectId(id)),
            // What cannot be read just now may be it.
            Ok(_) | Err(_) => self.note_unput(),
        }
    }

    fn join(&self, node: Node, info: &NodeInfo, runtime: &Runtime, links: &Arc<Links>) {
        // Where it cannot be written, etcd's count has to do.
        let _ = self.numbers.note(node);
        let before = self.known().join(&info.name, node, info.memory);
        for former in before {
            match former {
                Former::Replaced(former) => {
                    runtime.replaced(former, node);
                    links.remove(former);
                }
                Former::Lost(former) => {
                    links.remove(former);
                    runtime.lost(former);
                }
            }
        }
        self.reach(node, info, links);
        runtime.changed_homes();
    }

    /// Sees to it that there is a connection to another node. What this machine's former runtime told is where its own one listens.
    fn reach(&self, node: Node, info: &NodeInfo, links: &Arc<Links>) {
        if info.address != self.cluster.own_info().address {
            // Without a thread for it now, it is tried again.
            let _ = links.add(node, info);
        }
    }

    /// Sees to it that there are connections to all others, also to those for which there was no thread when they joined. Of one that is
    /// still to be told of, the runtime does not know yet whom it replaces.
    pub(crate) fn reach_all(&self, links: &Arc<Links>) {
        for (node, info) in self.cluster.nodes() {
            if self.known().is_last(info.memory, node) {
                self.reach(node, &info, links);
            }
        }
    }

    /// Shards that have no home, or this node without knowing its term: whether it gave them up was not answered.
    fn free(&self) -> Vec<Shard> {
        let (held, homes) = (self.cluster.held(), self.cluster.homes());
        let has_home = |shard: &Shard| {
            let of = homes.binary_search_by_key(shard, |(shard, _)| *shard);
            of.is_ok_and(|at| homes[at].1.node != self.node() || held.contains(shard))
        };
        Shard::all().filter(|shard| !has_home(shard)).collect()
    }

    /// Those of them that prefer this node to others.
    fn preferring(&self) -> Vec<Shard> {
        spread::preferring(self.node(), &self.free(), &self.nodes())
    }

    /// Shards of this node that another one is to have, which it reaches.
    fn to_give_up(&self, is_reached: impl Fn(Node) -> bool) -> Vec<Shard> {
        spread::to_give_up(self.node(), &self.cluster.held(), &self.nodes(), &self.cluster.shards_in_use(), is_reached)
    }

    /// Whether each shard has a home, and no other node is to have one of this node's.
    fn is_settled(&self) -> bool {
        self.free().is_empty() && self.to_give_up(|_| true).is_empty()
    }

    /// Becomes the home of those shards that have none.
    fn claim(&self, runtime: &Runtime, shards: &[Shard]) {
        // What is free may be a node's that was lost, and has not heard so; or this one has not been told yet that it was lost. It is
        // tried again.
        let is_early = |links: &Arc<Links>| links.is_counted_on() || links.has_others_than(&self.cluster.nodes());
        let is_held_back = Instant::now() < self.claims_from || !self.is_put();
        if is_held_back || self.links.get().is_some_and(is_early) {
            return;
        }
        if !shards.is_empty() && self.cluster.claim(shards).is_ok() {
            points::hit("home.claimed");
            runtime.changed_homes();
        }
    }

    /// Gives up what another node is to be the home of, which then claims it.
    fn hand_over(&self, links: &Links) {
        let shards = self.to_give_up(|node| links.traffic(node).is_connected);
        if self.is_put() && !shards.is_empty() && self.give_up(&shards).is_ok() {
            points::hit("home.given");
        }
    }

    pub(crate) fn give_up(&self, shards: &[Shard]) -> Result<()> {
        Ok(self.cluster.give_up_all(shards)?)
    }

    fn rebuild(&self, runtime: &Runtime, objects: &Objects) {
        points::hit("names.lost");
        self.note_unput();
        let known = |name: &str| self.cluster.object(name);
        let to_put = directory::to_put_back(objects, &self.numbers, &runtime.unremoved(), known);
        let rebuilt = to_put.and_then(|(all, is_clear)| {
            let put = self.cluster.rebuild(&all, self.numbers.highest())?;
            let (are_there, are_same) = directory::are_put(&all, &put);
            Ok((are_there, are_same && is_clear))
        });
        match rebuilt {
            // Who joined while etcd knew of nobody has its number, and it has to join anew.
            Err(Error::Names(stillframe_etcd::Error::Taken { .. })) => self.is_taken.store(true, Ordering::Relaxed),
            Ok((true, are_same)) => {
                let _ = self.numbers.note_epoch(are_same.then(|| self.cluster.epoch()));
                self.is_put.store(true, Ordering::Relaxed);
            }
            // It is tried again.
            Ok((false, _)) | Err(_) => {}
        }
        points::hit("names.rebuilt");
        self.claim(runtime, &self.preferring());
    }
}
