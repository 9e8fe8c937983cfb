//! All objects of a node, and who is asked what about them.

use crate::cluster::Cluster;
use crate::error::Result;
use crate::filling::Filling;
use crate::listening::Listening;
use crate::memory::Memory;
use crate::network::{Network, Traffic};
use crate::outbox::Outbox;
use crate::readers::{Asked, reader_of};
use crate::surroundings::{Surroundings, Todo};
use crate::watched::Watched;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;
use stillframe_kernel::exits::Exits;
use stillframe_object::hints::bit_of;
use stillframe_object::runtime::{NodeSummary, Reply, Request};
use stillframe_object::{Description, Objects};
use stillframe_roster::writer::{Node, Version};
use stillframe_wire::roster::{Ask, Layouts, ObjectDecision, ObjectReport};
use stillframe_wire::{Message, ObjectId};

/// What is known of a name.
#[derive(Debug, Clone, Copy, Default)]
struct Named {
    /// The object that is watched.
    watched: Option<ObjectId>,
    /// The object that was created, whether this node's directory has it already or not yet.
    created: Option<NonZeroU64>,
    /// Whether the directory has it.
    is_kept: bool,
}

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
    /// All names of this node by their bits among the hints.
    names: BTreeMap<usize, BTreeMap<String, Named>>,
    /// Whose fragments the connections of this node's programs are.
    readers: BTreeMap<u64, ObjectId>,
    listening: Listening,
    /// What the fragments of other nodes that this one sends versions to belong to.
    subscriptions: BTreeMap<(Node, u64), ObjectId>,
    exits: Arc<Exits>,
    /// Objects that are looked at now and then: with writers whose end nobody tells, without a home that acts, or with one here that waits.
    silent: BTreeSet<ObjectId>,
    /// What was said of each on standard error, once.
    said: BTreeMap<ObjectId, String>,
    /// How many objects it was told of that they are removed.
    removals: u64,
    /// Objects that others spoke of before their names came to this node.
    awaited: BTreeMap<String, ObjectId>,
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
        let (watched, names, readers) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
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
            said,
            removals: 0,
            awaited: BTreeMap::new(),
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
            let name = self.watched.get(&id).map_or("", Watched::name);
            if self.said.get(&id) != Some(&text) {
                eprintln!("still node: object '{name}': {text}");
                self.said.insert(id, text);
            }
        }
        self.tell_listening(id);
        done
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

    /// Looks at objects whose bits were set.
    pub(crate) fn look_at(&mut self, bits: &[usize]) {
        for bit in bits {
            let known: Vec<ObjectId> =
                self.names.get(bit).into_iter().flat_map(BTreeMap::values).filter_map(|named| named.watched).collect();
            known.iter().for_each(|id| self.look(*id));
            // It is new, or the one before was just found removed, or may be: nobody writes that, and nobody told of its end yet.
            let has_writers = |id: ObjectId| self.watched.get(&id).is_some_and(Watched::has_writers);
            let is_new = |named: &Named| !named.watched.is_some_and(has_writers);
            let names = self.names.get(bit).into_iter().flatten();
            let new: Vec<String> = names.filter(|(_, named)| is_new(named)).map(|(name, _)| name.clone()).collect();
            for name in new {
                match self.watch(&name) {
                    Ok(id) if known.contains(&id) => {}
                    Ok(id) => self.look(id),
                    Err(crate::Error::Object(stillframe_object::Error::NoObject { .. })) => self.forget_name(&name),
                    // What is damaged now hurts no other.
                    Err(_) => {}
                }
            }
        }
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

    /// Looks at objects of whose writers nobody tells when they end.
    pub(crate) fn look_at_silent(&mut self) {
        self.silent.clone().into_iter().for_each(|id| self.look(id));
    }

    fn look(&mut self, id: ObjectId) {
        let looked = self.with(id, |one, around| one.look(around));
        if let Some(Err(crate::Error::Object(stillframe_object::Error::Removed { .. }))) = looked {
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

    fn watch(&mut self, name: &str) -> Result<ObjectId> {
        let object = self.objects.object_named(name)?;
        let id = ObjectId(object.description().id);
        if !self.watched.contains_key(&id) {
            self.watched.insert(id, Watched::new(&object, self.node));
        }
        let former = self.note_name(name).watched.replace(id).filter(|former| *former != id);
        former.into_iter().for_each(|former| self.forget(former));
        Ok(id)
    }

    /// An object was removed.
    fn forget(&mut self, id: ObjectId) {
        if let Some(one) = self.watched.remove(&id) {
            one.end();
        }
        self.tell_listening(id);
    }

    /// Keeps a name in mind.
    fn note_name(&mut self, name: &str) -> &mut Named {
        self.names.entry(bit_of(name)).or_default().entry(name.into()).or_default()
    }

    /// A name that no object has. One that is just being put there stays: whoever finds it may hint at it at once.
    fn forget_name(&mut self, name: &str) {
        if let Some(of_bit) = self.names.get_mut(&bit_of(name)) {
            let is_coming = of_bit.get(name).is_some_and(|named| named.created.is_some() && !named.is_kept);
            if !is_coming {
                of_bit.remove(name);
            }
        }
    }

    /// Takes a message from another node. What belongs to an object that this node does not have is left.
    pub(crate) fn receive(&mut self, from: Node, message: Message) -> Result<()> {
        let id = match &message {
            Message::Reports(_) | Message::Changes(_) | Message::Decisions(_) => {
                return self.receive_many(from, message);
            }
            Message::Ask(Ask { object, name, .. }) | Message::Layouts(Layouts { object, name, .. }) => {
                self.find(*object, name)?;
                *object
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
                    let found = self.find(object, &name);
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
                for ObjectDecision { object, decision } in decisions {
                    let taken = self.with(object, |one, around| one.take_decision(from, decision, around));
                    done = done.and(taken.unwrap_or(Ok(())));
                }
            }
            _ => {}
        }
        done
    }

    /// Makes an object known to this node that others speak of.
    fn find(&mut self, id: ObjectId, name: &str) -> Result<()> {
        if self.watched.contains_key(&id) {
            return Ok(());
        }
        // Its name may not have come to this node yet. Who keeps the names may be slow: he is asked without the desk's lock.
        match self.objects.names().get(name)? {
            Some(there) if ObjectId(there.id) == id => self.note_found(id, name, &there),
            Some(_) => {
                // The one before is still there. Who keeps the names will tell of its end, and then of this one.
                self.awaited.insert(name.into(), id);
                Ok(())
            }
            None => {
                self.awaited.insert(name.into(), id);
                self.todo.unknown.push((id, name.into()));
                Ok(())
            }
        }
    }

    /// How many objects it was told of that they are removed.
    pub(crate) fn removals(&self) -> u64 {
        self.removals
    }

    /// What was asked for without the lock is taken if nothing was removed meanwhile. Else it is asked for again.
    pub(crate) fn take_found(&mut self, id: ObjectId, name: &str, there: &Description, removals: u64) -> Result<()> {
        if self.removals == removals {
            return self.note_found(id, name, there);
        }
        self.todo.unknown.push((id, name.into()));
        Ok(())
    }

    /// Begins to watch an object that others spoke of, if it is the one of that name. What they said before is asked for again: by a home
    /// that begins, and by what this node reports to it.
    fn note_found(&mut self, id: ObjectId, name: &str, there: &Description) -> Result<()> {
        if ObjectId(there.id) == id && !self.watched.contains_key(&id) {
            self.objects.names().put(name, there)?;
            self.watch(name)?;
            self.awaited.remove(name);
            self.look(id);
        }
        Ok(())
    }

    /// A node does not live any more: nothing is sent to it.
    pub(crate) fn forget_node(&mut self, node: Node) {
        self.subscriptions.retain(|(from, _), _| *from != node);
    }

    /// Somebody created an object, on any node, and the directory is going to have it; whether it has it already.
    pub(crate) fn expect_name(&mut self, name: &str, id: NonZeroU64) -> bool {
        let named = self.note_name(name);
        if named.created != Some(id) {
            *named = Named { created: Some(id), is_kept: false, ..*named };
        }
        named.is_kept
    }

    /// The directory has an object `there` for the one that was expected; whether that was not removed meanwhile.
    pub(crate) fn keep_name(&mut self, name: &str, there: NonZeroU64, expected: NonZeroU64) -> bool {
        let named = self.note_name(name);
        let is_expected = named.created == Some(expected);
        named.is_kept |= is_expected && there == expected;
        if self.awaited.get(name) == Some(&ObjectId(there)) {
            self.awaited.remove(name);
            // What fails now is tried again when somebody speaks of it.
            if let Ok(id) = self.watch(name) {
                self.look(id);
            }
        }
        is_expected
    }

    /// Somebody removed an object, on any node.
    pub(crate) fn note_removed(&mut self, name: &str, id: ObjectId) -> Result<()> {
        self.removals += 1;
        if self.awaited.get(name) == Some(&id) {
            self.awaited.remove(name);
        }
        self.forget(id);
        let named = self.note_name(name);
        if named.created == Some(id.0) {
            *named = Named { created: None, is_kept: false, ..*named };
        }
        match self.objects.names().get(name)? {
            Some(there) if ObjectId(there.id) == id => self.objects.remove(name, true)?,
            // Somebody has created the next one already, and perhaps hinted at it while this one was looked at.
            Some(_) => {
                let id = self.watch(name)?;
                self.look(id);
            }
            None => {}
        }
        Ok(())
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
                let found = self.watch(&name)?;
                self.listening.begin(client, ObjectId(id));
                self.look(found);
                self.tell_listening(ObjectId(id));
                Ok(None)
            }
            Request::Nodes => Ok(Some(Reply::Nodes(self.nodes()))),
            // These need no desk.
            Request::Create { .. } | Request::Remove { .. } | Request::Group { .. } | Request::Groups => Ok(None),
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

    /// Does something with all objects, whatever becomes of each.
    pub(crate) fn for_all(&mut self, mut work: impl FnMut(&mut Watched, &mut Surroundings) -> Result<()>) {
        let all: Vec<ObjectId> = self.watched.keys().copied().collect();
        for id in all {
            let _ = self.with(id, |one, around| work(one, around));
        }
    }
}
