//! The threads of a runtime.

use crate::cluster::Cluster;
use crate::desk::Desk;
use crate::error::{Error, Result};
use crate::filling::{Filling, Put};
use crate::groups::Groups;
use crate::memory::Memory;
use crate::network::{Incoming, Network};
use crate::readers::reader_of;
use crate::shares::Shares;
use crate::socket::{self, Clients};
use crate::surroundings::{OwnJob, Surroundings, Todo, Unknown};
use crate::watched::Watched;
use drepl::executor::Executor;
use std::collections::VecDeque;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use stillframe_kernel::exits::Exits;
use stillframe_kernel::points;
use stillframe_kernel::socket::shut_down;
use stillframe_kernel::thread::take_no_signals;
use stillframe_object::Objects;
use stillframe_object::runtime::{LOCK, Reply, Request, RuntimeLock, SOCKET};
use stillframe_roster::writer::{Node, Version};
use stillframe_wire::data::{Piece, Sent, SourceShare, Unchanged};
use stillframe_wire::{Message, ObjectId};

/// How often objects are looked at with writers of whose end nobody tells, as they are of another namespace of processes, without a home
/// that acts, or with a home that waits for nodes; and how often what could not be kept is tried again.
const LOOK: Duration = Duration::from_millis(500);

/// The same while no home acts: nobody tells that one does again because who keeps the names is back.
const LOOK_FOR_HOME: Duration = Duration::from_millis(50);

/// Hints that come so soon after others are gathered: so long at first, and longer as long as more come.
const SOON: Duration = Duration::from_micros(50);
const GATHER: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(1)];

/// Hints that are looked at before others have the desk, and what follows goes to other nodes.
const TOGETHER: usize = 64;

/// How long to wait where a limit of the machine stands in the way.
const AGAIN: Duration = Duration::from_millis(10);

/// How long to wait before elements are put again where others were just coming.
const BUSY: Duration = Duration::from_millis(1);

/// The runtime of a node. When it is dropped, its threads end; what it told the node's programs stays.
#[derive(Debug)]
pub struct Runtime {
    inner: Arc<Inner>,
    threads: Vec<JoinHandle<()>>,
    /// Locked as long as it runs.
    _lock: RuntimeLock,
}

#[derive(Debug)]
struct Inner {
    desk: Mutex<Desk>,
    objects: Objects,
    cluster: Arc<dyn Cluster>,
    clients: Clients,
    groups: Groups,
    network: Arc<dyn Network>,
    movers: Mutex<Option<Sender<Vec<OwnJob>>>>,
    asking: Mutex<Option<Sender<Vec<Unknown>>>>,
    executor: Executor,
    exits: Arc<Exits>,
    /// What comes from a node for a fragment, version by version.
    shares: Mutex<Shares>,
    socket: PathBuf,
    next_client: AtomicU64,
    /// Threads that serve programs.
    programs: Mutex<Vec<JoinHandle<()>>>,
    listener: UnixListener,
    has_ended: AtomicBool,
}

impl Runtime {
    /// Starts the runtime of a node, for the objects of a directory. What its programs read of other nodes takes at most `memory_bytes`.
    ///
    /// # Errors
    /// [`Error::Running`] if these have one already; those of the system.
    pub fn start(
        node: Node,
        objects: Objects,
        cluster: Arc<dyn Cluster>,
        network: Arc<dyn Network>,
        memory_bytes: u64,
    ) -> Result<Runtime> {
        let lock = take_lock(&objects)?;
        Runtime::start_locked(node, objects, cluster, network, memory_bytes, lock)
    }

    /// As [`start`](Runtime::start), with the lock that only one runtime has.
    pub(crate) fn start_locked(
        node: Node,
        objects: Objects,
        cluster: Arc<dyn Cluster>,
        network: Arc<dyn Network>,
        memory_bytes: u64,
        lock: RuntimeLock,
    ) -> Result<Runtime> {
        let within = objects.dir().join(".objects");
        let (socket, listener) = (within.join(SOCKET), socket::listen(&within, SOCKET)?);
        let (movers, todo) = channel();
        let (asking, unknown) = channel();
        let exits = Arc::new(Exits::new()?);
        let memory = Memory::new(memory_bytes);
        let mut desk = Desk::new(node, objects.clone(), cluster.clone(), network.clone(), memory, exits.clone());
        desk.begin()?;
        let clients = Clients::default();
        let tell = {
            let clients = clients.clone();
            Arc::new(move |client, reply: &Reply| clients.tell(client, reply))
        };
        let groups = Groups::new(node, objects.dir(), cluster.clone(), network.clone(), tell);
        let inner = Arc::new(Inner {
            desk: Mutex::new(desk),
            objects,
            cluster,
            clients,
            groups,
            network,
            movers: Mutex::new(Some(movers)),
            asking: Mutex::new(Some(asking)),
            executor: Executor::new(0),
            exits,
            shares: Mutex::default(),
            socket,
            next_client: AtomicU64::new(1),
            programs: Mutex::default(),
            listener,
            has_ended: AtomicBool::new(false),
        });
        let threads = vec![
            Inner::spawn(&inner, "hints", |inner| inner.follow_hints()),
            Inner::spawn(&inner, "exits", |inner| inner.follow_exits()),
            Inner::spawn(&inner, "programs", |inner| inner.serve_programs()),
            Inner::spawn(&inner, "mover", move |inner| inner.move_bytes(&todo)),
            Inner::spawn(&inner, "asking", move |inner| inner.ask_names(&unknown)),
            // Meanwhile others may begin: of many objects it takes seconds. Where it fails, the memory is found by numbers, later.
            Inner::spawn(&inner, "filled", |inner| drop(inner.objects.remove_filled())),
        ];
        inner.carry_out(inner.desk());
        Ok(Runtime { inner, threads, _lock: lock })
    }

    /// Takes a message from another node, and what follows it. Of a machine that was started again this comes after
    /// [`replaced`](Runtime::replaced).
    pub fn receive(&self, from: Node, message: Message, bulk: &mut dyn Incoming) {
        self.inner.receive(from, message, bulk);
    }

    /// There is a new connection to a node. Of a machine that was started again this comes after [`replaced`](Runtime::replaced).
    pub fn connected(&self, node: Node) {
        self.inner.change(|desk| desk.for_all(|one, around| one.reconnect(node, around)));
        self.inner.groups.connected(node);
    }

    /// A connection from a node has ended, after all that came on it. There may be another one by now.
    pub fn disconnected(&self, node: Node, connection: u64) {
        self.inner.groups.disconnected(node, connection);
    }

    /// The runtime of a machine was started again: it is another node now.
    pub fn replaced(&self, former: Node, node: Node) {
        self.inner.change(|desk| {
            desk.forget_node(former);
            desk.for_all(|one, around| one.replace(former, node, around));
        });
        self.inner.shares().forget(|from, _| from == former);
        self.inner.groups.lose(former, true);
    }

    /// A node does not live any more.
    pub fn lost(&self, node: Node) {
        self.inner.change(|desk| {
            desk.forget_node(node);
            desk.for_all(|one, around| one.lose(node, around));
        });
        self.inner.shares().forget(|from, _| from == node);
        self.inner.groups.lose(node, false);
    }

    /// Lets homes that are here announce nothing any more, for this node is about to leave, and waits at most so long until all other nodes
    /// know that: then the next homes leave no numbers out.
    pub fn retire(&self, limit: Duration) {
        let begin = Instant::now();
        loop {
            // Homes of nodes that leave at the same time may come here meanwhile.
            let mut have_retired = false;
            self.inner.change(|desk| have_retired = desk.retire_homes());
            if have_retired || begin.elapsed() >= limit {
                return;
            }
            thread::sleep(BUSY);
        }
    }

    /// Other nodes are homes of some objects.
    pub fn changed_homes(&self) {
        self.changed_homes_of(|_| true);
    }

    /// Other nodes are homes of these objects.
    pub fn changed_homes_of(&self, is_one: impl Fn(ObjectId) -> bool) {
        let change = |one: &mut Watched, around: &mut Surroundings| match is_one(one.id()) {
            true => one.change_home(around),
            false => Ok(()),
        };
        self.inner.change(|desk| desk.for_all(change));
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.inner.has_ended.store(true, Ordering::SeqCst);
        self.inner.objects.hints().wake();
        self.inner.exits.wake();
        self.inner.groups.end();
        self.inner.clients.close();
        *self.inner.movers.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.inner.asking.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // The thread that waits for a program. To connect to the socket would not do: its name may be gone, or too long.
        shut_down(&self.inner.listener);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // Their connections have ended. Regions that were filled for them go with the desk, which the next runtime finds empty.
        self.inner.clients.close();
        let programs = std::mem::take(&mut *self.inner.programs.lock().unwrap_or_else(PoisonError::into_inner));
        programs.into_iter().for_each(|program| _ = program.join());
        let _ = std::fs::remove_file(&self.inner.socket);
    }
}

/// Makes sure that the objects of a directory have no other runtime.
pub(crate) fn take_lock(objects: &Objects) -> Result<RuntimeLock> {
    RuntimeLock::take(objects)?.ok_or_else(|| Error::Running { path: objects.dir().join(".objects").join(LOCK) })
}

impl Inner {
    fn spawn(inner: &Arc<Inner>, name: &str, work: impl FnOnce(&Arc<Inner>) + Send + 'static) -> JoinHandle<()> {
        let inner = inner.clone();
        let named = thread::Builder::new().name(format!("stillframe-{name}"));
        // Without one more thread there is no runtime; whoever starts it sees that at once.
        let work = move || {
            take_no_signals();
            work(&inner);
        };
        named.spawn(work).unwrap_or_else(|error| panic!("thread {name}: {error}"))
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    fn change(&self, work: impl FnOnce(&mut Desk)) {
        let mut desk = self.desk();
        work(&mut desk);
        self.carry_out(desk);
    }

    /// What is left to do, without the lock.
    fn carry_out(&self, mut desk: MutexGuard<'_, Desk>) {
        let Todo { jobs, own, replies, unknown } = desk.finish_round();
        drop(desk);
        if !unknown.is_empty() {
            let asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(asking) = &*asking {
                let _ = asking.send(unknown);
            }
        }
        for (client, reply) in replies {
            self.clients.tell(client, &reply);
        }
        for (to, job) in jobs {
            self.network.transmit(to, Box::new(job));
        }
        if !own.is_empty() {
            let movers = self.movers.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(movers) = &*movers {
                let _ = movers.send(own);
            }
        }
    }

    fn follow_hints(&self) {
        // While many publish, and how long: nobody has to be woken, for this thread looks by itself.
        let mut pause: Option<Duration> = None;
        while !self.has_ended() {
            let begin = Instant::now();
            let bits = self.objects.hints().take(if pause.is_some() { Duration::ZERO } else { Duration::MAX });
            let is_soon = begin.elapsed() < SOON;
            if bits.is_empty() {
                // It sleeps until it is woken, but looks once more when it has said so.
                pause = None;
                continue;
            }
            points::hit("hint.taken");
            for some in bits.chunks(TOGETHER) {
                self.change(|desk| desk.look_at(some));
            }
            pause = match pause {
                Some(pause) => Some(GATHER[1].min(pause * 2)),
                None => is_soon.then_some(GATHER[0]),
            };
            pause.into_iter().for_each(thread::sleep);
        }
    }

    fn follow_exits(&self) {
        let (mut longest, mut looked, mut kept) = (LOOK, Instant::now(), Instant::now());
        while !self.has_ended() {
            let ended = self.exits.wait(longest.saturating_sub(looked.elapsed()));
            if !ended.is_empty() {
                self.change(|desk| desk.look_at_ended(&ended));
            }
            // However many processes end meanwhile.
            if looked.elapsed() >= longest {
                self.change(|desk| desk.look_at_silent());
                looked = Instant::now();
            }
            if kept.elapsed() >= LOOK {
                let written = self.desk().next_written();
                written.into_iter().for_each(|id| self.change(|desk| desk.look_at_object(id)));
                self.keep_again();
                kept = Instant::now();
            }
            longest = if self.desk().has_waiting() { LOOK_FOR_HOME } else { LOOK };
        }
    }

    fn serve_programs(self: &Arc<Self>) {
        while !self.has_ended() {
            let Ok((stream, _)) = self.listener.accept() else {
                // Without descriptors for a while, or it has ended.
                thread::sleep(AGAIN);
                continue;
            };
            let client = self.next_client.fetch_add(1, Ordering::Relaxed);
            let Some(served) = self.clients.add(client, stream) else { continue };
            let inner = self.clone();
            let named = thread::Builder::new().name("stillframe-program".into()).stack_size(256 << 10);
            let spawned = named.spawn(move || {
                take_no_signals();
                let ask = |request| inner.ask(client, request);
                socket::serve(&served, ask, |reply| inner.clients.answer(client, reply));
                inner.clients.remove(client);
                inner.groups.close(client);
                inner.change(|desk| desk.close(client));
                // What comes from now on is of no subscription.
                inner.shares().forget(|_, place| reader_of(place) == client);
            });
            match spawned {
                Ok(spawned) => {
                    let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
                    programs.retain(|program| !program.is_finished());
                    programs.push(spawned);
                }
                Err(_) => self.clients.remove(client),
            }
        }
    }

    /// What a program of this node asks; the reply, unless it comes later.
    fn ask(&self, client: u64, request: Request) -> Option<Reply> {
        match request {
            // Nobody else waits meanwhile for who keeps the names.
            Request::Create { name, description } => Some(reply(self.create(&name, &description).map(Reply::Created))),
            Request::Remove { name, id } => Some(reply(self.remove(&name, id).map(Reply::Removed))),
            Request::Discard { name } => Some(reply(self.discard(&name).map(Reply::Removed))),
            Request::Groups => Some(Reply::Groups(self.groups.list())),
            // It is answered once it is known how it stands.
            Request::Group { name } => self.groups.want(client, &name).err().map(Reply::Failed),
            request => {
                let mut desk = self.desk();
                let reply = desk.ask(client, request);
                self.carry_out(desk);
                reply
            }
        }
    }

    fn move_bytes(&self, todo: &Receiver<Vec<OwnJob>>) {
        // Those of fragments into which another node's elements are just coming, perhaps slowly. Others do not wait for them.
        let mut left: VecDeque<OwnJob> = VecDeque::new();
        loop {
            let longest = if left.is_empty() { Duration::MAX } else { BUSY };
            match todo.recv_timeout(longest) {
                Ok(own) => left.extend(own),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            for one in std::mem::take(&mut left) {
                match one.filling.put_own(&one.ways, &one.snapshots, &self.executor) {
                    Put::Done => self.change(|desk| _ = desk.finish(one.subscription)),
                    Put::Busy => left.push_back(one),
                    Put::Failed(why) => self.change(|desk| desk.lose(one.subscription, one.filling.version, &why)),
                }
            }
        }
    }

    fn receive(&self, from: Node, message: Message, bulk: &mut dyn Incoming) {
        match message {
            Message::Sources(sources) => {
                let is_own = |share: &SourceShare| share.writer.node == from && is_packed(share);
                if sources.shares.iter().all(is_own) && self.desk().subscribes(sources.subscription) {
                    self.shares().hear(from, sources);
                }
            }
            Message::Piece(Piece { subscription, version, share, offset }) => {
                self.put(from, (subscription, version, share), |filling, share| {
                    filling.receive(share, offset, bulk, &self.executor)
                });
            }
            Message::Unchanged(Unchanged { subscription, version, share, offset, bytes }) => {
                self.put(from, (subscription, version, share), |filling, share| {
                    filling.keep(share, offset, bytes, &self.executor)
                });
            }
            Message::Sent(Sent { subscription, version, published_ns }) => {
                let Some((filling, shares)) = self.find_filling(from, subscription, version) else { return };
                filling.end(&shares, published_ns);
                self.change(|desk| _ = desk.finish(subscription));
            }
            Message::GroupFollow(_)
            | Message::GroupLeave(_)
            | Message::GroupRanks(_)
            | Message::GroupGet(_)
            | Message::GroupRank(_)
            | Message::GroupPiece(_)
            | Message::GroupSent(_)
            | Message::GroupLost(_)
            | Message::GroupList(_)
            | Message::GroupListed(_) => self.groups.receive(from, message, bulk),
            // What another node says and cannot be done here is left.
            other => self.change(|desk| _ = desk.receive(from, other)),
        }
    }

    /// Puts bytes of a share of a version that a fragment waits for.
    fn put(
        &self,
        from: Node,
        (subscription, version, share): (u64, Version, u32),
        put: impl FnOnce(&Filling, &SourceShare) -> Result<(), String>,
    ) {
        let Some((filling, shares)) = self.find_filling(from, subscription, version) else { return };
        let Some(share) = shares.get(share as usize) else { return };
        if let Err(why) = put(&filling, share) {
            self.change(|desk| desk.lose(subscription, version, &why));
        }
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a share belongs to; nothing if nobody waits for it any more. Where pieces go is said again with each other set of writers,
    /// but that may be lost with a connection: what was said of other writers is nothing to go by.
    fn find_filling(
        &self,
        from: Node,
        subscription: u64,
        version: Version,
    ) -> Option<(Arc<Filling>, Arc<Vec<SourceShare>>)> {
        let shares = self.shares().of(from, subscription, version)?;
        let filling = self.desk().filling(subscription, version)?;
        let is_of_these = filling.writers_of(from).eq(shares.iter().map(|share| share.writer));
        is_of_these.then_some((filling, shares))
    }
}

fn reply(done: stillframe_object::Result<Reply>) -> Reply {
    done.unwrap_or_else(|error| Reply::Failed(error.to_string()))
}

/// Whether each byte of a share goes to one place: none is left out of which the rest would count as all. Who sends has converted
/// what is to be converted.
fn is_packed(share: &SourceShare) -> bool {
    let SourceShare { transfer, bytes, .. } = share;
    transfer.source_bytes() == *bytes && transfer.moved_bytes() == *bytes && transfer.conversions().is_empty()
}

mod creating;
mod names;
