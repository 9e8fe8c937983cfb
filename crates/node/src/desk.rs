//! All objects of a node, and who is asked what about them.

use crate::cluster::Cluster;
use crate::diagnostics;
use crate::error::Result;
use crate::filling::Filling;
use crate::listening::Listening;
use crate::memory::Memory;
use crate::network::{Network, Traffic};
use crate::outbox::Outbox;
use crate::readers::{Asked, reader_of};
use crate::surroundings::{Surroundings, Todo};
use crate::watched::Watched;
use names::Names;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use stillframe_kernel::exits::Exits;
use stillframe_object::Objects;
use stillframe_object::runtime::{NodeSummary, Reply, Request};
use stillframe_roster::writer::{Node, Version};
use stillframe_wire::roster::{Ask, Layouts, ObjectReport};
use stillframe_wire::{Message, ObjectId};

/// How many objects that this node writes are looked at, twice a second.
const WRITTEN_AT_ONCE: usize = 32;

/// The desk.
#[derive(Debug)]
pub(crate) struct Desk {
    node: Node,
    objects: Objects,
    cluster: Arc<dyn Cluster>,
    network: Arc<dyn Network>,
    memory: Memory,
    outbox: Outbox,
    watched: BTreeMap<ObjectId, Watched>,
    names: Names,
    /// Whose fragments the connections of this node's programs are.
    readers: BTreeMap<u64, ObjectId>,
    listening: Listening,
    /// What the fragments of other nodes that this one sends versions to belong to.
    subscriptions: BTreeMap<(Node, u64), ObjectId>,
    exits: Arc<Exits>,
    /// Objects that are looked at now and then: with writers whose end nobody tells, without a home that acts, or with one here that waits.
    silent: BTreeSet<ObjectId>,
    /// The last object that was looked at because this node writes it.
    written_last: Option<ObjectId>,
    /// What was said of each on standard error, once.
    said: BTreeMap<ObjectId, String>,
    todo: Todo,
}

impl Desk {
    pub(crate) fn new(
        node: Node,
        objects: Objects,
        cluster: Arc<dyn Cluster>,
        network: Arc<dyn Network>,
        memory: Memory,
        exits: Arc<Exits>,
    ) -> Desk {
        let (watched, names, readers) = (BTreeMap::new(), Names::default(), BTreeMap::new());
        let (silent, todo) = (BTreeSet::new(), Todo::default());
        let (subscriptions, said, outbox) = (BTreeMap::new(), BTreeMap::new(), Outbox::default());
        Desk {
            node,
            objects,
            cluster,
            network,
            memory,
            outbox,
            watched,
            names,
            readers,
            listening: Listening::default(),
            subscriptions,
            exits,
            silent,
            written_last: None,
            said,
            todo,
        }
    }

    /// Sends what is to go to other nodes, and says what else is to be done. Messages of one object go in the order in which the desk
    /// made them, for they go before it is let go of.
    pub(crate) fn finish_round(&mut self) -> Todo {
        for (to, messages) in self.outbox.take() {
            self.network.send(to, messages);
        }
        std::mem::take(&mut self.todo)
    }

    fn with<T>(
        &mut self,
        id: ObjectId,
        work: impl FnOnce(&mut Watched, &mut Surroundings) -> Result<T>,
    ) -> Option<Result<T>> {
        let Desk { node, cluster, outbox, memory, watched, todo, .. } = self;
        let mut around = Surroundings {
            node: *node,
            cluster: &**cluster,
            outbox,
            memory,
            jobs: &mut todo.jobs,
            own: &mut todo.own,
            replies: &mut todo.replies,
        };
        let done = watched.get_mut(&id).map(|one| work(one, &mut around));
        if watched.get(&id).is_some_and(Watched::is_open) {
            self.silent.insert(id);
        }
        if let Some(Err(error)) = &done {
            // What does not succeed now may later.
            self.silent.insert(id);
            let text = error.to_string();
            let name = self.watched.get(&id).map_or("", Watched::name).to_owned();
            self.say(id, &name, text);
        }
        self.tell_listening(id);
        done
    }

    /// Says on standard error what is wrong with an object, once.
    fn say(&mut self, id: ObjectId, name: &str, text: String) {
        if self.said.get(&id) != Some(&text) {
            diagnostics::report(format!("object '{name}': {text}"));
            self.said.insert(id, text);
        }
    }

    /// Tells programs that wait for it that the home of an object was heard, or that there is no such object.
    fn tell_listening(&mut self, id: ObjectId) {
        if !self.listening.is_empty() && self.watched.get(&id).is_none_or(Watched::has_told_programs) {
            self.todo.replies.extend(self.listening.end(id).map(|client| (client, Reply::Heard)));
        }
    }

    /// Watches all objects that have names on this node.
    pub(crate) fn begin(&mut self) -> Result<()> {
        for name in self.objects.list()? {
            self.note_name(&name);
            // One whose name or board is damaged hurts no other.
            if let Ok(id) = self.watch(&name) {
                self.look(id);
            }
        }
        Ok(())
    }

    /// Looks at the objects that processes wrote which have ended.
    pub(crate) fn look_at_ended(&mut self, ended: &[u32]) {
        let mut of_them = Vec::new();
        for (id, one) in &mut self.watched {
            one.known().note_ends(ended);
            of_them.extend(one.known().is_of_any(ended).then_some(*id));
        }
        of_them.into_iter().for_each(|id| self.look(id));
    }

    /// Whether some object has to be looked at again soon.
    pub(crate) fn has_waiting(&self) -> bool {
        self.silent.iter().any(|id| self.watched.get(id).is_some_and(Watched::is_waiting))
    }

    /// The next objects that processes of this node write, some at a time. They are looked at now and then: a process that executes another
    /// program goes on to live, and writes no more.
    pub(crate) fn next_written(&mut self) -> Vec<ObjectId> {
        let behind = self.written_last.map_or(Bound::Unbounded, Bound::Excluded);
        let is_written = |(id, one): (&ObjectId, &mut Watched)| one.known().is_written().then_some(*id);
        let next = self.watched.range_mut((behind, Bound::Unbounded)).filter_map(is_written);
        let next: Vec<ObjectId> = next.take(WRITTEN_AT_ONCE).collect();
        self.written_last = next.last().copied();
        next
    }

    /// Looks at an object, if it is still known.
    pub(crate) fn look_at_object(&mut self, id: ObjectId) {
        if self.watched.contains_key(&id) {
            self.look(id);
        }
    }

    /// Looks at objects of whose writers nobody tells when they end.
    pub(crate) fn look_at_silent(&mut self) {
        self.silent.clone().into_iter().for_each(|id| self.look(id));
    }

    fn look(&mut self, id: ObjectId) {
        let looked = self.with(id, |one, around| one.look(around));
        if let Some(Err(crate::Error::Object(stillframe_object::Error::Removed { .. }))) = looked
            && !self.lose_name_of(id)
        {
            self.forget(id);
        }
        let is_well = !matches!(looked, Some(Err(_))) && !self.watched.get(&id).is_some_and(Watched::is_open);
        let exits = &self.exits;
        let are_told = self.watched.get_mut(&id).is_none_or(|one| one.known().follow_exits(exits));
        match are_told && is_well {
            true => self.silent.remove(&id),
            false => self.silent.insert(id),
        };
    }

    /// An object was removed.
    fn forget(&mut self, id: ObjectId) {
        self.forget_discarded(id);
        if let Some(one) = self.watched.remove(&id) {
            one.end();
        }
        self.tell_listening(id);
    }

    /// Takes a message from another node. What belongs to an object that this node does not have is left.
    pub(crate) fn receive(&mut self, from: Node, message: Message) -> Result<()> {
        let id = match &message {
            Message::Reports(_) | Message::Changes(_) | Message::Decisions(_) => {
                return self.receive_many(from, message);
            }
            Message::Ask(Ask { object, name, .. }) | Message::Layouts(Layouts { object, name, .. }) => {
                self.find(*object, name, from)?;
                *object
            }
            Message::Describe(_) | Message::Description(_) => {
                self.receive_of_names(from, &message);
                return Ok(());
            }
            Message::Roster(roster) => roster.object,
            Message::RosterChange(change) => change.object,
            Message::Subscribe(subscribe) => {
                self.subscriptions.insert((from, subscribe.subscription), subscribe.object);
                subscribe.object
            }
            Message::Unsubscribe(gone) => match self.subscriptions.remove(&(from, gone.subscription)) {
                Some(object) => object,
                None => return Ok(()),
            },
            Message::Lost(lost) => match self.readers.get(&reader_of(lost.subscription)) {
                Some(object) => *object,
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        self.with(id, |one, around| one.receive(from, message, around)).unwrap_or(Ok(()))
    }

    fn receive_many(&mut self, from: Node, message: Message) -> Result<()> {
        // What fails of one object keeps no other from what it is told.
        let mut done = Ok(());
        match message {
            Message::Reports(reports) => {
                for ObjectReport { object, name, report } in reports {
                    let found = self.find(object, &name, from);
                    let taken = self.with(object, |one, around| one.take_report(from, report, around));
                    done = done.and(found).and(taken.unwrap_or(Ok(())));
                }
            }
            Message::Changes(changes) => {
                for change in changes {
                    let taken = self.with(change.object, |one, around| one.take_change(from, change, around));
                    done = done.and(taken.unwrap_or(Ok(())));
                }
            }
            Message::Decisions(decisions) => {
                for decision in decisions {
                    let taken = self.with(decision.object, |one, around| one.take_decision(from, decision, around));
                    done = done.and(taken.unwrap_or(Ok(())));
                }
            }
            _ => {}
        }
        done
    }

    /// A node does not live any more: nothing is sent to it.
    pub(crate) fn forget_node(&mut self, node: Node) {
        self.subscriptions.retain(|(from, _), _| *from != node);
        self.forget_node_of_names(node);
    }

    /// What a program of this node asks; the reply, unless it comes later.
    pub(crate) fn ask(&mut self, client: u64, request: Request) -> Option<Reply> {
        match self.try_ask(client, request) {
            Ok(reply) => reply,
            Err(error) => Some(error.reply()),
        }
    }

    fn try_ask(&mut self, client: u64, request: Request) -> Result<Option<Reply>> {
        match request {
            Request::Read { .. } if self.readers.contains_key(&client) => {
                let why = "this connection has a fragment already: each has one of its own";
                Ok(Some(Reply::Failed(why.into())))
            }
            Request::Read { name, id, text, bindings } => {
                let found = self.watch(&name)?;
                if found != ObjectId(id) {
                    return Ok(Some(Reply::Refused(format!("object '{name}' is another one by now: open it anew"))));
                }
                let region = self.with(found, |one, around| one.read(client, text, &bindings, around));
                if matches!(region, Some(Ok(_))) {
                    self.readers.insert(client, found);
                }
                region.transpose().map(|region| region.map(Reply::Reading))
            }
            Request::Version { version, next, number } => self.want(client, Asked { number, version, next }).map(Some),
            Request::Heard { name, id } => {
                let found = match self.watch(&name) {
                    // Nobody writes it any more.
                    Err(crate::Error::Object(stillframe_object::Error::NoObject { .. })) => {
                        return Ok(Some(Reply::Heard));
                    }
                    found => found?,
                };
                self.listening.begin(client, ObjectId(id));
                self.look(found);
                self.tell_listening(ObjectId(id));
                Ok(None)
            }
            Request::Nodes => Ok(Some(Reply::Nodes(self.nodes()))),
            // These need no desk.
            Request::Create { .. }
            | Request::Remove { .. }
            | Request::Discard { .. }
            | Request::Group { .. }
            | Request::Groups => Ok(None),
        }
    }

    fn nodes(&self) -> Vec<NodeSummary> {
        let summary = |node: Node| {
            let Traffic { is_connected, sent_bytes, received_bytes } = self.network.traffic(node);
            let (name, address) = (self.cluster.host(node), self.cluster.address(node));
            let (number, is_own) = (node.0, node == self.node);
            NodeSummary { number, name, address, is_own, is_connected, sent_bytes, received_bytes }
        };
        let mut nodes: Vec<NodeSummary> = self.cluster.nodes().into_iter().map(summary).collect();
        nodes.sort_by_key(|node| node.number);
        nodes
    }

    fn want(&mut self, client: u64, asked: Asked) -> Result<Reply> {
        let object = self.readers.get(&client).copied();
        let wanted = object.and_then(|id| self.with(id, |one, around| one.want(client, asked, around)));
        Ok(Reply::Wanted { number: asked.number, next: wanted.transpose()?.flatten() })
    }

    /// A program of this node has closed its connection.
    pub(crate) fn close(&mut self, client: u64) {
        self.listening.close(client);
        if let Some(id) = self.readers.remove(&client) {
            let _ = self.with(id, |one, around| one.leave(client, around));
        }
    }

    /// What a share is to be put into.
    pub(crate) fn filling(&self, subscription: u64, version: Version) -> Option<Arc<Filling>> {
        self.watched.get(self.readers.get(&reader_of(subscription))?)?.filling(subscription, version)
    }

    /// Whether a fragment of this node is filled by what others send for this subscription.
    pub(crate) fn subscribes(&self, subscription: u64) -> bool {
        let object = self.readers.get(&reader_of(subscription));
        object.and_then(|object| self.watched.get(object)).is_some_and(|one| one.subscribes(subscription))
    }

    /// A fragment may have all its elements.
    pub(crate) fn finish(&mut self, subscription: u64) -> Result<()> {
        let Some(id) = self.readers.get(&reader_of(subscription)).copied() else { return Ok(()) };
        self.with(id, |one, around| one.finish(subscription, around)).unwrap_or(Ok(()))
    }

    /// A version cannot be put together as it came.
    pub(crate) fn lose(&mut self, subscription: u64, version: Version, why: &str) {
        let Some(id) = self.readers.get(&reader_of(subscription)).copied() else { return };
        let _ = self.with(id, |one, around| one.lose_version(subscription, version, why, around));
    }

    /// Lets homes that are here announce nothing any more, those that came since too; whether all nodes know that of each.
    pub(crate) fn retire_homes(&mut self) -> bool {
        let announcing = self.watched.iter().filter(|(_, one)| !one.is_retiring());
        let announcing: Vec<ObjectId> = announcing.map(|(id, _)| *id).collect();
        announcing.into_iter().for_each(|id| _ = self.with(id, Watched::retire));
        self.watched.values().all(Watched::has_retired)
    }

    /// Does something with all objects, whatever becomes of each.
    pub(crate) fn for_all(&mut self, mut work: impl FnMut(&mut Watched, &mut Surroundings) -> Result<()>) {
        let all: Vec<ObjectId> = self.watched.keys().copied().collect();
        for id in all {
            let _ = self.with(id, |one, around| work(one, around));
        }
    }
}

#[path = "desk/descriptions.rs"]
mod descriptions;
#[path = "desk/names.rs"]
mod names;
