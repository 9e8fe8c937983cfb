//! Nodes and homes: joining, claiming, being told.

use crate::epoch;
use crate::error::{Error, Result};
use crate::event::{Home, Told};
use crate::join::Remembered;
use crate::keys::shown;
use crate::member::{Granted, Member, Standing, keep};
use crate::message::{Compare, KeyValue, RangeRequest, Response, ResponseOp, TxnRequest, delete, get, put, txn};
use crate::mirror::{Mirror, term};
use crate::names::EtcdNames;
use crate::queue::Queue;
use crate::shard::Shard;
use crate::shared::Shared;
use crate::values::{NodeInfo, read_home, read_node, write_home, write_node};
use crate::watch::Subscriber;
use crate::{Etcd, JoinOptions, counter};
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stillframe_kernel::{boot_ns, points};
use stillframe_object::Description;
use stillframe_roster::writer::{Node, Revision};
use tokio::sync::oneshot;

/// Longest lease of a node, in seconds: whoever dies is missed no later.
const LEASE_MAX: u64 = 3600;

/// This process as one of the nodes. It is one until its lease ends; dropped, it is missed after as long as its lease is.
#[derive(Debug)]
pub struct Cluster {
    shared: Arc<Shared>,
    member: Arc<Member>,
    queue: Arc<Queue>,
    // Dropped, it ends the keeping of the lease.
    _keeping: oneshot::Sender<()>,
}

impl Cluster {
    /// Makes this process a node, with a number that no node had before. When it returns, other nodes can find it, and it knows those
    /// that there are. All that is there is told by [`next`](Cluster::next), before any change.
    ///
    /// # Errors
    /// [`Error::Unfit`] for names that cannot be kept; [`Error::Option`] if this `etcd` has a node already; those of etcd.
    pub fn join(etcd: &Etcd, options: JoinOptions) -> Result<Cluster> {
        let shared = etcd.shared.clone();
        let JoinOptions { name, address, memory, lease, former, continued, above, patience, remembered } = options;
        let continued = continued.into_iter().map(|node| node.0).collect();
        let info = NodeInfo { name, address, incarnation: epoch::random(), memory, former: continued };
        info.check().map_err(|why| Error::Unfit { what: format!("node '{}'", info.name), why })?;
        let seconds = lease.as_secs() + u64::from(lease.subsec_nanos() > 0);
        if !(1..=LEASE_MAX).contains(&seconds) {
            return Err(Error::option("lease of a node", format!("it can last 1 to {LEASE_MAX} s, not {seconds}")));
        }
        if shared.has_node.swap(true, Ordering::AcqRel) {
            return Err(Error::option("joining", "there is a node by this handle: drop it first, or open another"));
        }
        let joined = enter(&shared, info, seconds as i64, (above, patience), remembered).and_then(|cluster| {
            former.into_iter().try_for_each(|former| cluster.end_former(former))?;
            Ok(cluster)
        });
        if joined.is_err() {
            shared.has_node.store(false, Ordering::Release);
        }
        joined
    }

    /// The number of this node.
    pub fn node(&self) -> Node {
        self.member.node
    }

    /// What this node told of itself.
    pub fn own_info(&self) -> &NodeInfo {
        &self.member.info
    }

    /// The number of the epoch of etcd's data in which this is a node: another one when these were lost.
    pub fn epoch(&self) -> u64 {
        self.member.state().epoch.id
    }

    /// The number of the epoch that etcd's data have at this moment; none of data that have none yet.
    ///
    /// # Errors
    /// Those of etcd.
    pub fn epoch_now(&self) -> Result<Option<u64>> {
        let (client, keys) = (self.shared.client.clone(), self.shared.keys.clone());
        self.wait("get", 1, async move {
            let (found, _) = epoch::look(&client, &keys).await?;
            found.map(|kv| epoch::read(&kv).map(|epoch| epoch.id)).transpose()
        })
    }

    /// Nodes that have not come back since etcd lost its data, and count as nodes still.
    pub fn missing(&self) -> BTreeSet<Node> {
        self.shared.watch().mirror().missing()
    }

    /// The object that this node knows by a name.
    pub fn object(&self, name: &str) -> Option<NonZeroU64> {
        self.shared.watch().mirror().object(name)
    }

    /// Whether it still is a node.
    pub fn standing(&self) -> Standing {
        self.member.state().standing
    }

    /// The next change, in the order of their revisions; waits for one at most so long. Whoever never asks is kept in mind: when 4096
    /// changes wait, nothing more is read from etcd, not for those who wait for names either.
    pub fn next(&self, timeout: Duration) -> Option<Told> {
        self.queue.pop(timeout)
    }

    /// The next changes, as [`next`](Cluster::next) tells one after the other: those that wait, at most so many.
    pub fn next_some(&self, timeout: Duration, most: usize) -> Vec<Told> {
        self.queue.pop_some(timeout, most)
    }

    /// All nodes, as far as this one has heard.
    pub fn nodes(&self) -> Vec<(Node, NodeInfo)> {
        self.shared.watch().mirror().nodes()
    }

    /// What a node told of itself, as far as this one has heard of it.
    pub fn info(&self, node: Node) -> Option<NodeInfo> {
        self.shared.watch().mirror().node(node).cloned()
    }

    /// The home of a shard, as far as this node has heard.
    pub fn home(&self, shard: Shard) -> Option<Home> {
        self.shared.watch().mirror().home(shard)
    }

    /// All homes, as far as this node has heard.
    pub fn homes(&self) -> Vec<(Shard, Home)> {
        self.shared.watch().mirror().homes()
    }

    /// The term of a shard whose home this node is. `None` as soon as its lease may have ended by this machine's own clock, which goes on
    /// while a process is stopped or the machine sleeps: etcd gives the shard to nobody else before. Ask right before each decision; a
    /// message that is on its way longer than that is refused by its term.
    pub fn acts_as_home(&self, shard: Shard) -> Option<Revision> {
        self.member.acts_as_home(shard)
    }

    /// The term of a shard that this node has claimed and not given up, though its lease may be over.
    pub fn term_held(&self, shard: Shard) -> Option<Revision> {
        self.member.term_held(shard)
    }

    /// Makes this node the home of those of the shards that have none; the homes that all of them have then, in the order given.
    ///
    /// # Errors
    /// [`Error::Lost`] if this is no node any more; those of etcd.
    pub fn claim(&self, shards: &[Shard]) -> Result<Vec<Home>> {
        let (shared, member, shards) = (self.shared.clone(), self.member.clone(), shards.to_vec());
        self.wait("claim", 2, async move { claim(&shared, &member, &shards).await })
    }

    /// Gives a shard up, so that another node can be its home. This one acts as it no more when the call begins.
    ///
    /// # Errors
    /// Those of etcd, which takes the shard away when the lease ends.
    pub fn give_up(&self, shard: Shard) -> Result<()> {
        self.member.let_go(shard);
        let (client, key, node) = (self.shared.client.clone(), self.shared.keys.home(shard), self.node());
        self.wait("give up", 2, async move {
            let request = RangeRequest { key: key.clone(), ..RangeRequest::default() };
            let Some(kv) = client.range(&request).await?.kvs.pop() else { return Ok(()) };
            if read_home(&kv.value).is_ok_and(|home| home == node) {
                let compare = vec![Compare::unchanged(&key, kv.mod_revision)];
                client.txn(&TxnRequest { compare, success: vec![delete(&key)], failure: Vec::new() }).await?;
            }
            Ok(())
        })
    }

    /// As [`give_up`](Cluster::give_up), of several at once.
    ///
    /// # Errors
    /// As [`give_up`](Cluster::give_up).
    pub fn give_up_all(&self, shards: &[Shard]) -> Result<()> {
        shards.iter().for_each(|shard| self.member.let_go(*shard));
        let (client, lease) = (self.shared.client.clone(), self.member.state().lease);
        let keys: Vec<Vec<u8>> = shards.iter().map(|shard| self.shared.keys.home(*shard)).collect();
        // What is under this node's lease, nobody else put there.
        let one = |key: &Vec<u8>| TxnRequest {
            compare: vec![Compare::leased(key, lease)],
            success: vec![delete(key)],
            failure: Vec::new(),
        };
        let success = keys.iter().map(|key| txn(one(key))).collect();
        self.wait("give up", 1, async move {
            client.txn(&TxnRequest { compare: Vec::new(), success, failure: Vec::new() }).await.map(drop)
        })
    }

    /// The shards of which there are objects, as far as this node has heard.
    pub fn shards_in_use(&self) -> BTreeSet<Shard> {
        self.shared.watch().mirror().shards_in_use()
    }

    /// The shards that this node holds, whether it may act as their home at this instant or not.
    pub fn held(&self) -> Vec<Shard> {
        self.member.held()
    }

    /// Puts everything that the caller knows where etcd has lost it: this node, under its number; that numbers and terms go on
    /// above those of before, and numbers `above` one that was given, if that is higher; and these objects. Homes are to be
    /// claimed anew. What is there already stays. The descriptions that the objects have then, in the order given: where another
    /// was quicker, they differ. Objects that nobody has put back are [missing](crate::Event::ObjectMissing) as long as the handle's grace
    /// after that: not before all of these are there, or cannot be.
    ///
    /// # Errors
    /// [`Error::Taken`] if another node has this one's number by now, [`Error::Lost`] if this is no node any more, also because others
    /// were told so; those of etcd.
    pub fn rebuild(
        &self,
        objects: &[(String, Description)],
        above: Option<Node>,
    ) -> Result<Vec<Result<Description, stillframe_object::Error>>> {
        let (shared, member, watch) = (self.shared.clone(), self.member.clone(), self.shared.watch());
        watch.note_rebuilt(false);
        self.wait("rebuild", 8, async move { reenter(&shared, &member, above).await })?;
        let put = EtcdNames::new(self.shared.clone()).put_all(objects);
        watch.note_rebuilt(put.iter().all(|one| one.as_ref().err().is_none_or(EtcdNames::is_unfit)));
        Ok(put)
    }

    /// Ends the lease of a node that this machine was before.
    fn end_former(&self, former: Node) -> Result<()> {
        if former == self.node() {
            return Ok(());
        }
        let (shared, own) = (self.shared.clone(), self.member.info.clone());
        self.wait("join", 2, async move {
            let request = RangeRequest { key: shared.keys.node(former), ..RangeRequest::default() };
            let Some(kv) = shared.client.range(&request).await?.kvs.pop() else { return Ok(()) };
            match read_node(&kv.value) {
                Ok(info) if (info.name == own.name || info.memory == own.memory) && kv.lease != 0 => {
                    shared.client.revoke(kv.lease).await
                }
                _ => Ok(()),
            }
        })
    }

    /// Leaves, with all that is kept under the lease. Others hear of it at once.
    ///
    /// # Errors
    /// Those of etcd: then others hear of it when the lease ends.
    pub fn leave(&self) -> Result<()> {
        let (client, lease) = (self.shared.client.clone(), self.member.state().lease);
        self.wait("leave", 1, async move { client.revoke(lease).await })
    }

    fn wait<T: Send + 'static>(
        &self,
        call: &'static str,
        calls: u32,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.shared.reactor.wait(call, self.shared.client.deadline.saturating_mul(calls), work)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.queue.close();
        self.shared.has_node.store(false, Ordering::Release);
    }
}

fn enter(
    shared: &Arc<Shared>,
    info: NodeInfo,
    seconds: i64,
    (above, patience): (Option<Node>, Duration),
    remembered: Option<Remembered>,
) -> Result<Cluster> {
    let (inner, deadline) = (shared.clone(), shared.client.deadline);
    let limit = deadline.saturating_mul(5).saturating_add(patience);
    let member = shared.reactor.wait("join", limit, async move {
        let Shared { client, keys, .. } = &*inner;
        counter::wait(client, keys, patience).await?;
        let (epoch, _) = epoch::ensure(client, keys, 0).await?;
        let granted = grant(&inner, seconds).await?;
        points::hit("join.granted");
        if let Some(above) = above {
            counter::raise(client, keys, above).await?;
        }
        loop {
            let node = counter::next(client, keys).await?;
            // A number that is in use although the counter is below it: of a node from before etcd lost its data.
            if let Put::Done(created) = put_node(&inner, node, &info, granted.lease).await? {
                points::hit("join.put");
                return Ok(Arc::new(Member::new(node, info, granted, epoch, created)));
            }
        }
    })?;
    let (queue, watch) = (Arc::new(Queue::default()), shared.watch());
    let epoch = member.state().epoch.id;
    let missing = remembered.map_or_else(Vec::new, |remembered| remembered.expected(epoch));
    watch.subscribe(Subscriber { queue: queue.clone(), member: member.clone(), missing });
    let (keeping, end) = oneshot::channel();
    shared.reactor.spawn(keep(shared.client.clone(), shared.keys.clone(), member.clone(), end));
    let cluster = Cluster { shared: shared.clone(), member, queue, _keeping: keeping };
    let (node, incarnation) = (cluster.node(), cluster.member.info.incarnation);
    let is_seen = cluster.wait("join", 1, async move {
        let is_told = |mirror: &Mirror| {
            mirror.reader == incarnation && mirror.node(node).is_some_and(|info| info.incarnation == incarnation)
        };
        Ok(watch.until(deadline, is_told).await)
    })?;
    match is_seen {
        true => Ok(cluster),
        false => Err(Error::Unreachable {
            call: "join",
            endpoints: shared.client.shown(),
            waited: deadline,
            last: "what was put there was not seen".into(),
        }),
    }
}

async fn grant(shared: &Shared, seconds: i64) -> Result<Granted> {
    let sent_ns = boot_ns();
    let granted = shared.client.grant(seconds).await?;
    // Where it took several attempts this is the time of the first one, which is on the safe side.
    Ok(Granted { lease: granted.id, seconds: granted.ttl, sent_ns })
}

/// What became of the key of a node that was to be put.
enum Put {
    /// It is there, made at this revision.
    Done(i64),
    /// Another node has the number.
    Taken(NodeInfo),
    /// Others were told that the node of this number is lost.
    Lost,
}

async fn put_node(shared: &Shared, node: Node, info: &NodeInfo, lease: i64) -> Result<Put> {
    let (key, mark) = (shared.keys.node(node), shared.keys.lost(node));
    let request = TxnRequest {
        compare: vec![Compare::created(&key, 0), Compare::created(&mark, 0)],
        success: vec![put(&key, &write_node(info), lease)],
        failure: vec![get(&key), get(&mark)],
    };
    let answer = shared.client.txn(&request).await?;
    if answer.succeeded {
        return Ok(Put::Done(revision(&answer.header)));
    }
    let found = |at: usize| answer.responses.get(at).and_then(ResponseOp::found);
    let Some(kv) = found(0) else {
        let is_lost = found(1).is_some();
        return if is_lost { Ok(Put::Lost) } else { Err(hostile(&key, "it is there and cannot be read")) };
    };
    let there = read_node(&kv.value).map_err(|why| hostile(&key, &why))?;
    // This very node, whose first attempt got no answer.
    let is_own = there.incarnation == info.incarnation && kv.lease == lease;
    Ok(if is_own { Put::Done(kv.create_revision) } else { Put::Taken(there) })
}

async fn claim(shared: &Shared, member: &Member, shards: &[Shard]) -> Result<Vec<Home>> {
    let Shared { keys, client, .. } = shared;
    let (lease, created, epoch_id) = {
        let state = member.state();
        if state.standing == Standing::Lost {
            return Err(Error::Lost { node: member.node });
        }
        (state.lease, state.created, state.epoch.id)
    };
    let value = write_home(member.node);
    let claims = shards.iter().map(|shard| txn(TxnRequest::put_new(&keys.home(*shard), &value, lease)));
    let request = TxnRequest {
        // A node that was lost puts nothing any more.
        compare: vec![Compare::created(&keys.node(member.node), created)],
        success: [get(&keys.epoch())].into_iter().chain(claims).collect(),
        failure: Vec::new(),
    };
    let answer = client.txn(&request).await?;
    let lost = || Error::Lost { node: member.node };
    let mut responses = answer.responses.iter();
    let epoch = responses.next().filter(|_| answer.succeeded).and_then(ResponseOp::found).map(epoch::read);
    let epoch = epoch.ok_or_else(lost)??;
    if epoch.id != epoch_id {
        return Err(lost());
    }
    let revision = revision(&answer.header);
    let mut homes = Vec::new();
    for (shard, answer) in shards.iter().zip(responses) {
        let key = keys.home(*shard);
        let Some(Response::Txn(one)) = &answer.response else {
            return Err(hostile(&key, "its claim was not answered"));
        };
        let found = one.responses.first().and_then(ResponseOp::found);
        let (node, created) = match found {
            _ if one.succeeded => (member.node, revision),
            Some(kv) => (read_home(&kv.value).map_err(|why| hostile(&key, &why))?, kv.create_revision),
            None => return Err(hostile(&key, "it is there and cannot be read")),
        };
        let term = term(&epoch, created).ok_or_else(|| hostile(&key, "it has no term"))?;
        let home = Home { node, term };
        // One that this node has already, or whose claim got no answer the first time.
        let is_own = found.is_none_or(|kv: &KeyValue| kv.lease == lease);
        if node == member.node && is_own {
            member.hold(*shard, home, lease);
        }
        homes.push(home);
    }
    Ok(homes)
}

/// Puts a node into data that do not have it any more.
async fn reenter(shared: &Shared, member: &Member, above: Option<Node>) -> Result<()> {
    let Shared { client, keys, .. } = shared;
    let (standing, seconds, old) = {
        let state = member.state();
        (state.standing, state.seconds, state.epoch)
    };
    if standing == Standing::Lost {
        return Err(Error::Lost { node: member.node });
    }
    let watch = shared.watch();
    let (floor, nodes) = {
        let mirror = watch.mirror();
        (mirror.floor(), mirror.nodes())
    };
    let epoch = epoch::raise(client, keys, floor).await?;
    points::hit("reenter.raised");
    let known = nodes.into_iter().map(|(node, _)| node).chain(above);
    let highest = known.fold(member.node, Node::max);
    counter::raise(client, keys, highest).await?;
    if epoch.id == old.id && standing == Standing::Joined {
        return Ok(());
    }
    let granted = grant(shared, seconds).await?;
    match put_node(shared, member.node, &member.info, granted.lease).await? {
        Put::Done(created) => {
            points::hit("reenter.put");
            member.reenter(granted, epoch, created);
            Ok(())
        }
        Put::Taken(other) => Err(Error::Taken { node: member.node, other: other.name }),
        Put::Lost => {
            member.end(Standing::Lost);
            Err(Error::Lost { node: member.node })
        }
    }
}

fn revision(header: &Option<crate::message::Header>) -> i64 {
    header.as_ref().map_or(0, |header| header.revision)
}

fn hostile(key: &[u8], why: &str) -> Error {
    Error::Hostile { key: shown(key), why: why.into() }
}
