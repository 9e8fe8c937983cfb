//! Groups of regions whose ranks are on several nodes.
//!
//! Whoever opens a group asks the runtime of his node for ranks that are on others. The runtime shows them in regions of this node
//! under the names that they would have here, so that the group is one as if all ranks were here. It hears from the other nodes how
//! far their ranks are, chooses a version that all have, asks each node for just that, and publishes it when all of it is there.
//!
//! | module | |
//! |---|---|
//! | `content` | what a version of a rank consists of |
//! | `choosing` | which version is brought |
//! | `record` | which regions a runtime made that was killed |
//! | `local` | the ranks of this node |
//! | `sending` | their versions on the way to another node |
//! | `telling` | what others are told of them |
//! | `loss` | versions that could not be had, and how long until one is asked for again |
//! | `room` | room for versions of other nodes |
//! | `region` | a region in which a rank of another node is shown |
//! | `fetch` | a version on its way here |
//! | `listing` | which groups there are |
//! | `bringing` | a group that programs of this node want |

mod bringing;
mod choosing;
mod content;
mod fetch;
mod listing;
mod local;
mod loss;
mod record;
mod region;
mod room;
mod sending;
mod telling;
#[cfg(test)]
mod tests;

use crate::cluster::Cluster;
use crate::diagnostics;
use crate::network::{Incoming, Network};
use bringing::{Bringing, Tell};
use listing::Listing;
use local::Shown;
use record::Record;
use region::Place;
use room::Room;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use stillframe::inspect;
use stillframe_object::runtime::GroupSummary;
use stillframe_roster::writer::Node;
use stillframe_wire::Message;
use stillframe_wire::group::{GroupGet, GroupList, GroupListed, GroupLost, GroupName, GroupRanks};
use telling::Telling;

/// Groups that are told of, or brought here, at most: each has a thread.
const GROUPS_MAX: usize = 256;

/// All groups of a runtime that somebody follows or wants.
pub(crate) struct Groups {
    node: Node,
    dir: PathBuf,
    cluster: Arc<dyn Cluster>,
    network: Arc<dyn Network>,
    shown: Shown,
    record: Record,
    room: Room,
    tell: Arc<Tell>,
    next_fetch: Arc<AtomicU64>,
    listing: Listing,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    told: BTreeMap<String, Arc<Telling>>,
    brought: BTreeMap<String, Arc<Bringing>>,
    /// Which groups the connections of programs want.
    clients: BTreeMap<u64, Vec<String>>,
    threads: Vec<JoinHandle<()>>,
    /// Whether it was said that no more groups are told of.
    has_said_full: bool,
    has_ended: bool,
}

impl std::fmt::Debug for Groups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Groups").field("node", &self.node).field("state", &self.state).finish_non_exhaustive()
    }
}

impl Groups {
    /// Begins, and removes what a runtime left that was killed.
    pub(crate) fn new(
        node: Node,
        dir: &Path,
        cluster: Arc<dyn Cluster>,
        network: Arc<dyn Network>,
        tell: Arc<Tell>,
    ) -> Groups {
        let record = Record::begin(dir);
        let (shown, next_fetch, state) = (Shown::default(), Arc::new(AtomicU64::new(1)), Mutex::default());
        Groups {
            node,
            dir: dir.into(),
            cluster,
            network,
            shown,
            record,
            room: Room::new(dir),
            tell,
            next_fetch,
            listing: Listing::default(),
            state,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A program wants a group for as long as its connection is there; why that cannot be.
    pub(crate) fn want(&self, client: u64, name: &str) -> Result<(), String> {
        inspect::check_name(name).map_err(|error| error.to_string())?;
        let mut state = self.state();
        if state.has_ended {
            return Err("the runtime ends".into());
        }
        state.brought.retain(|_, brought| !brought.is_gone());
        let is_brought = state.brought.get(name).is_some_and(|brought| brought.want(client));
        if !is_brought {
            if state.brought.len() >= GROUPS_MAX {
                return Err(format!("there are {GROUPS_MAX} groups already"));
            }
            // One of the name that is just ending removes its regions first.
            let former = state.brought.remove(name);
            let (dir, group) = (self.dir.clone(), name.to_owned());
            let place =
                Place { dir, group, shown: self.shown.clone(), record: self.record.clone(), room: self.room.clone() };
            let (cluster, network, next) = (self.cluster.clone(), self.network.clone(), self.next_fetch.clone());
            let brought = Arc::new(Bringing::new(self.node, place, cluster, network, next));
            brought.want(client);
            state.brought.insert(name.into(), brought.clone());
            let tell = self.tell.clone();
            let begun = state.spawn("bring", move || {
                former.iter().for_each(|former| former.wait_for_end());
                brought.run(&*tell);
            });
            if let Err(why) = begun {
                // Nobody brings it. Who asks again tries that again.
                state.brought.remove(name);
                return Err(why);
            }
        }
        state.clients.entry(client).or_default().push(name.into());
        Ok(())
    }

    /// The groups of all nodes.
    pub(crate) fn list(&self) -> Vec<GroupSummary> {
        let own = (self.node, listing::own(&self.dir, &self.shown));
        let number = self.next_fetch.fetch_add(1, Ordering::Relaxed);
        self.listing.ask(number, own, &*self.cluster, &*self.network)
    }

    /// A program has closed its connection.
    pub(crate) fn close(&self, client: u64) {
        let mut state = self.state();
        for name in state.clients.remove(&client).unwrap_or_default() {
            state.brought.get(&name).into_iter().for_each(|brought| brought.close(client));
        }
    }

    /// Takes a message about groups from another node.
    pub(crate) fn receive(&self, from: Node, message: Message, bulk: &mut dyn Incoming) {
        match message {
            Message::GroupFollow(GroupName { group }) => self.follow(from, &group),
            Message::GroupLeave(GroupName { group }) => self.leave(from, &group),
            Message::GroupGet(get) => self.send(from, &get),
            Message::GroupRanks(ranks) => self.hear(from, ranks),
            Message::GroupList(GroupList { number }) => {
                let (dir, shown, network) = (self.dir.clone(), self.shown.clone(), self.network.clone());
                // Other messages do not wait for a look at all regions.
                let _ = self.state().spawn("list", move || {
                    let groups = listing::own(&dir, &shown);
                    network.send(from, vec![Message::GroupListed(GroupListed { number, groups })]);
                });
            }
            Message::GroupListed(listed) => self.listing.hear(from, listed),
            // What belongs to a version knows its number.
            message => {
                let brought: Vec<Arc<Bringing>> = self.state().brought.values().cloned().collect();
                let number = fetch_of(&message);
                if let Some(one) =
                    brought.into_iter().find(|one| Some(true) == number.map(|number| one.fetches(number)))
                {
                    one.receive(from, message, bulk);
                }
            }
        }
    }

    fn follow(&self, from: Node, group: &str) {
        if inspect::check_name(group).is_err() {
            return;
        }
        let mut state = self.state();
        if let Some(telling) = state.told.get(group) {
            return telling.follow(from);
        }
        if state.has_ended {
            return;
        }
        if state.told.len() >= GROUPS_MAX {
            let is_said = std::mem::replace(&mut state.has_said_full, true);
            drop(state);
            if !is_said {
                let which = format!("its ranks of group '{group}' are not there for observers on others");
                diagnostics::report(format!(
                    "other nodes follow {GROUPS_MAX} groups of this one, and are told of no more: {which} until some of \
                     them are closed"
                ));
            }
            return;
        }
        let telling = Arc::new(Telling::new(&self.dir, group, &self.shown, self.network.clone()));
        telling.follow(from);
        state.told.insert(group.into(), telling.clone());
        // Without a thread now there is one when it is asked for again.
        if state.spawn("tell", move || telling.run()).is_err() {
            state.told.remove(group);
        }
    }

    /// Sends a version of ranks that a node asked for, or tells it why not, for it waits for an answer.
    fn send(&self, to: Node, get: &GroupGet) {
        let GroupGet { group, fetch, ranks, .. } = get;
        let telling = self.state().told.get(group).cloned();
        match (telling, ranks.first()) {
            (Some(telling), _) => telling.send(to, get),
            (None, Some(rank)) => {
                let why = "its node tells nobody of that group".into();
                self.network.send(to, vec![Message::GroupLost(GroupLost { fetch: *fetch, rank: *rank, why })]);
            }
            // It was called off.
            (None, None) => {}
        }
    }

    /// A node says how its ranks are. It may have missed that nobody here wants them any more.
    fn hear(&self, from: Node, ranks: GroupRanks) {
        let state = self.state();
        match state.brought.get(&ranks.group).filter(|brought| !brought.is_gone()).cloned() {
            Some(brought) => {
                drop(state);
                brought.hear(from, ranks);
            }
            // With the lock: who begins to follow does so after that.
            None => self.network.send(from, vec![Message::GroupLeave(GroupName { group: ranks.group })]),
        }
    }

    fn leave(&self, from: Node, group: &str) {
        let mut state = self.state();
        if state.told.get(group).is_some_and(|telling| telling.leave(from)) {
            state.told.remove(group);
        }
    }

    /// There is a new connection to a node.
    pub(crate) fn connected(&self, node: Node) {
        let (told, brought) = self.all();
        told.into_iter().for_each(|telling| telling.tell_again(node));
        brought.into_iter().for_each(|brought| brought.connected(node));
    }

    /// A connection from a node has ended, after all that came on it.
    pub(crate) fn disconnected(&self, node: Node, connection: u64) {
        let (_, brought) = self.all();
        brought.into_iter().for_each(|brought| brought.disconnected(node, connection));
    }

    /// A node does not live any more, or is another one now.
    pub(crate) fn lose(&self, node: Node, is_replaced: bool) {
        let (told, brought) = self.all();
        told.into_iter().for_each(|telling| self.leave(node, telling.group()));
        brought.into_iter().for_each(|brought| brought.lose(node, is_replaced));
    }

    fn all(&self) -> (Vec<Arc<Telling>>, Vec<Arc<Bringing>>) {
        let state = self.state();
        (state.told.values().cloned().collect(), state.brought.values().cloned().collect())
    }

    /// Ends all threads. The regions that were made here go.
    pub(crate) fn end(&self) {
        let threads = {
            let mut state = self.state();
            state.has_ended = true;
            state.told.values().for_each(|telling| telling.end());
            state.brought.values().for_each(|brought| brought.end());
            std::mem::take(&mut state.threads)
        };
        threads.into_iter().for_each(|thread| _ = thread.join());
        if self.shown.names().is_empty() {
            self.record.end();
        }
    }
}

impl State {
    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), String> {
        self.threads.retain(|thread| !thread.is_finished());
        let named = thread::Builder::new().name(format!("stillframe-{name}"));
        let spawned = named.spawn(work).map_err(|error| format!("a thread: {error}"))?;
        self.threads.push(spawned);
        Ok(())
    }
}

/// The version to which a message belongs.
fn fetch_of(message: &Message) -> Option<u64> {
    match message {
        Message::GroupRank(rank) => Some(rank.fetch),
        Message::GroupPiece(piece) => Some(piece.fetch),
        Message::GroupSent(sent) => Some(sent.fetch),
        Message::GroupLost(lost) => Some(lost.fetch),
        _ => None,
    }
}
