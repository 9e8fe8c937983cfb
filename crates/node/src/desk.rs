//! All objects of a node, and who is asked what about them.

use crate::cluster::Cluster;
use crate::error::Result;
use crate::filling::Filling;
use crate::message::{Layout, Message, ObjectId};
use crate::network::Network;
use crate::sending::Job;
use crate::watched::{OwnJob, Surroundings, Watched};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stillframe_kernel::exits::Exits;
use stillframe_object::runtime::{Reply, Request};
use stillframe_object::{Description, Objects};
use stillframe_roster::writer::{Node, Version};

/// What is to be done once the desk's lock is let go of.
#[derive(Debug, Default)]
pub(crate) struct Todo {
    pub(crate) jobs: Vec<Job>,
    pub(crate) own: Vec<OwnJob>,
    pub(crate) replies: Vec<(u64, Reply)>,
}

/// The desk.
#[derive(Debug)]
pub(crate) struct Desk {
    node: Node,
    objects: Objects,
    cluster: Arc<dyn Cluster>,
    network: Arc<dyn Network>,
    watched: BTreeMap<ObjectId, Watched>,
    /// Whose fragments the connections of this node's programs are.
    readers: BTreeMap<u64, ObjectId>,
    exits: Arc<Exits>,
    /// Objects with writers whose end nobody tells.
    silent: BTreeSet<ObjectId>,
    todo: Todo,
}

impl Desk {
    pub(crate) fn new(
        node: Node,
        objects: Objects,
        cluster: Arc<dyn Cluster>,
        network: Arc<dyn Network>,
        exits: Arc<Exits>,
    ) -> Desk {
        let (watched, readers, silent, todo) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new(), Todo::default());
        Desk { node, objects, cluster, network, watched, readers, exits, silent, todo }
    }

    pub(crate) fn take_todo(&mut self) -> Todo {
        std::mem::take(&mut self.todo)
    }

    fn with<T>(
        &mut self,
        id: ObjectId,
        work: impl FnOnce(&mut Watched, &mut Surroundings) -> Result<T>,
    ) -> Option<Result<T>> {
        let Desk { node, cluster, network, watched, todo, .. } = self;
        let mut around = Surroundings {
            node: *node,
            cluster: &**cluster,
            network: &**network,
            jobs: &mut todo.jobs,
            own: &mut todo.own,
            replies: &mut todo.replies,
        };
        watched.get_mut(&id).map(|one| work(one, &mut around))
    }

    /// Watches all objects that have names on this node.
    pub(crate) fn begin(&mut self) -> Result<()> {
        for name in self.objects.list()? {
            // One whose name or board is damaged hurts no other.
            if let Ok(id) = self.watch(&name) {
                self.look(id);
            }
        }
        Ok(())
    }

    /// Looks at objects whose bits were set.
    pub(crate) fn look_at(&mut self, bits: &[usize]) -> Result<()> {
        let known = |desk: &Desk, bit: usize| {
            let of_bit = desk.watched.values().filter(|one| one.bit() == bit);
            of_bit.map(Watched::id).collect::<Vec<_>>()
        };
        if bits.iter().any(|bit| known(self, *bit).is_empty()) {
            for name in self.objects.list()? {
                if bits.contains(&stillframe_object::hints::bit_of(&name)) {
                    let _ = self.watch(&name);
                }
            }
        }
        for bit in bits {
            for id in known(self, *bit) {
                self.look(id);
            }
        }
        Ok(())
    }

    /// Looks at the objects that processes wrote which have ended.
    pub(crate) fn look_at_ended(&mut self, ended: &[u32]) {
        let wrote = |one: &&Watched| one.processes().iter().any(|process| ended.contains(process));
        let of_them: Vec<ObjectId> = self.watched.values().filter(wrote).map(Watched::id).collect();
        of_them.into_iter().for_each(|id| self.look(id));
    }

    /// Looks at objects of whose writers nobody tells when they end.
    pub(crate) fn look_at_silent(&mut self) {
        self.silent.clone().into_iter().for_each(|id| self.look(id));
    }

    fn look(&mut self, id: ObjectId) {
        let looked = self.with(id, |one, around| one.look(around));
        if let Some(Err(crate::Error::Object(stillframe_object::Error::Removed { .. }))) = looked {
            self.watched.remove(&id);
        }
        let processes = self.watched.get(&id).map(Watched::processes).unwrap_or_default();
        let is_told = |process: u32| self.exits.add(process).unwrap_or(false);
        match processes.into_iter().all(is_told) {
            true => self.silent.remove(&id),
            false => self.silent.insert(id),
        };
    }

    fn watch(&mut self, name: &str) -> Result<ObjectId> {
        let object = self.objects.object_named(name)?;
        let id = object.description().id;
        if !self.watched.contains_key(&id) {
            self.watched.retain(|_, one| one.name() != name);
            self.watched.insert(id, Watched::new(&object, self.node));
        }
        Ok(id)
    }

    /// Takes a message from another node.
    pub(crate) fn receive(&mut self, from: Node, id: ObjectId, message: Message) -> Result<()> {
        match &message {
            Message::Created { name, description } => {
                self.objects.names().put(name, description)?;
                return Ok(());
            }
            Message::Ask { name, .. } | Message::Report { name, .. } if !self.watched.contains_key(&id) => {
                // Its name may not have come to this node yet.
                let there = match self.objects.names().get(name)? {
                    Some(there) => Some(there),
                    None => self.cluster.names().get(name)?,
                };
                let Some(description) = there.filter(|there| there.id == id) else { return Ok(()) };
                self.objects.names().put(name, &description)?;
                self.watch(name)?;
            }
            _ => {}
        }
        self.with(id, |one, around| one.receive(from, message, around)).unwrap_or(Ok(()))
    }

    /// What a program of this node asks; the reply, unless it comes later.
    pub(crate) fn ask(&mut self, client: u64, request: Request) -> Option<Reply> {
        match self.try_ask(client, request) {
            Ok(reply) => reply,
            Err(error) => Some(Reply::Failed(error.to_string())),
        }
    }

    fn try_ask(&mut self, client: u64, request: Request) -> Result<Option<Reply>> {
        match request {
            Request::Create { name, description } => {
                self.create(&name, &description).map(|made| Some(Reply::Created(made)))
            }
            Request::Remove { name, id } => {
                let removed = self.cluster.names().remove(&name, id)?;
                self.watched.remove(&id);
                Ok(Some(Reply::Removed(removed)))
            }
            Request::Read { name, id, text, bindings } => {
                let found = self.watch(&name)?;
                if found != id {
                    return Ok(Some(Reply::Failed(format!("object '{name}' is another one by now: open it anew"))));
                }
                let layout = Layout { text, bindings };
                let region = self.with(id, |one, _| one.read(client, layout));
                self.readers.insert(client, id);
                region.transpose().map(|region| region.map(Reply::Reading))
            }
            Request::Version(version) => {
                self.want(client, version)?;
                Ok(None)
            }
        }
    }

    fn create(&mut self, name: &str, description: &Description) -> Result<Description> {
        let there = self.cluster.names().put(name, description)?;
        self.objects.names().put(name, &there)?;
        let created = Message::Created { name: name.into(), description: there.clone() };
        for node in self.cluster.nodes().into_iter().filter(|node| *node != self.node) {
            self.network.send(node, there.id, created.clone());
        }
        Ok(there)
    }

    fn want(&mut self, client: u64, version: Version) -> Result<()> {
        let Some(id) = self.readers.get(&client).copied() else { return Ok(()) };
        self.with(id, |one, around| one.want(client, version, around)).unwrap_or(Ok(()))
    }

    /// A program of this node has closed its connection.
    pub(crate) fn close(&mut self, client: u64) {
        if let Some(id) = self.readers.remove(&client) {
            let _ = self.with(id, |one, around| one.leave(client, around));
        }
    }

    /// What a piece is to be put into.
    pub(crate) fn filling(&self, id: ObjectId, reader: u64, version: Version) -> Option<Arc<Filling>> {
        self.watched.get(&id)?.filling(reader, version)
    }

    /// A fragment may have all its elements.
    pub(crate) fn finish(&mut self, id: ObjectId, reader: u64) -> Result<()> {
        self.with(id, |one, _| one.finish(reader)).unwrap_or(Ok(()))
    }

    /// Does something with all objects, whatever becomes of each.
    pub(crate) fn for_all(&mut self, mut work: impl FnMut(&mut Watched, &mut Surroundings) -> Result<()>) {
        let all: Vec<ObjectId> = self.watched.keys().copied().collect();
        for id in all {
            let _ = self.with(id, |one, around| work(one, around));
        }
    }
}
