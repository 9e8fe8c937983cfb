//! Messages over connections of `stillframe-link`.
//!
//! To each other node there are two connections, that this node makes and only sends on: one for what is short, and one for
//! versions, so that nobody waits for a version before he learns that there is one. What comes, comes on those that others make.
//!
//! On the first of them the other node is asked several times in a lease whether it is there, whatever else is said, and it answers on its
//! own: so an answer tells that both can say something to each other, and that each counted the other as a node.

mod channel;
mod frames;
mod peer;

use crate::error::{Error, Result};
use crate::network::{Network, Traffic, Transmission};
use crate::runtime::Runtime;
use channel::Channel;
use frames::{InFrame, Out, about_bytes, send_messages, send_versions};
use peer::{Peer, Pulse};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;
use stillframe_etcd::NodeInfo;
use stillframe_kernel::thread::take_no_signals;
use stillframe_kernel::{boot_ns, points};
use stillframe_link::{Connection, Cut, Identity, Listener, Options, Receiver, Sender, Source};
use stillframe_roster::writer::Node;
use stillframe_wire::hello::{self, Hello, Refuse};
use stillframe_wire::{Kind, Message};

/// How long the other side may take to greet, and to take what it is sent.
const LIMIT: Duration = Duration::from_secs(30);

/// How often a connection to a node that is not known yet is asked whether it stands.
const STANDS: Duration = Duration::from_secs(1);

/// Pauses between attempts to connect: the first and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(500)];

/// The connections of a runtime.
#[derive(Debug)]
pub struct Links {
    hello: Hello,
    identity: Identity,
    options: Options,
    pulse: Pulse,
    peers: Mutex<BTreeMap<Node, Arc<Peer>>>,
    /// Whoever waits for one of them wakes up when there is another, and at the end.
    joined: Condvar,
    runtime: OnceLock<Weak<Runtime>>,
    incoming: Mutex<BTreeMap<u64, Heard>>,
    next_incoming: AtomicU64,
    /// Until when a node that was lost may count on this one, by this machine's clock.
    counted_on_until_ns: AtomicU64,
    has_ended: AtomicBool,
}

/// A connection that another made.
#[derive(Debug)]
struct Heard {
    cut: Cut,
    /// Who is at the other end, once that has greeted.
    from: Option<Node>,
}

/// Why there is no connection.
enum Unconnected {
    /// Nobody answers, who may a little later.
    Absent,
    /// One of the two does not want the other, and will not.
    Refused(String),
}

impl From<stillframe_link::Error> for Unconnected {
    fn from(error: stillframe_link::Error) -> Unconnected {
        match error {
            stillframe_link::Error::Refused { .. }
            | stillframe_link::Error::RefusedThere { .. }
            | stillframe_link::Error::Fabric { .. } => Unconnected::Refused(error.to_string()),
            _ => Unconnected::Absent,
        }
    }
}

impl Links {
    /// Connections of a node that greets so, to others of its job. `lease` is how long a node is one of which nothing is heard.
    pub fn new(hello: Hello, identity: Identity, options: Options, lease: Duration) -> Arc<Links> {
        let pulse = Pulse::of(lease);
        let (peers, joined, runtime, incoming) = (Mutex::default(), Condvar::new(), OnceLock::new(), Mutex::default());
        let (next_incoming, counted_on_until_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        let has_ended = AtomicBool::new(false);
        Arc::new(Links {
            hello,
            identity,
            options,
            pulse,
            peers,
            joined,
            runtime,
            incoming,
            next_incoming,
            counted_on_until_ns,
            has_ended,
        })
    }

    /// Takes what comes on a listener, for a runtime.
    ///
    /// # Errors
    /// Those of a thread that is started.
    pub fn serve(self: &Arc<Self>, listener: Listener, runtime: &Arc<Runtime>) -> Result<()> {
        let _ = self.runtime.set(Arc::downgrade(runtime));
        self.listen(listener)
    }

    fn listen(self: &Arc<Self>, listener: Listener) -> Result<()> {
        let links = self.clone();
        self.spawn("listener", move || {
            while !links.has_ended() {
                // Whoever is refused is none of the job.
                if let Ok(Some(connection)) = listener.accept(Duration::from_millis(500)) {
                    let taken = links.clone();
                    let _ = links.spawn("incoming", move || taken.take_all(connection));
                }
            }
        })
    }

    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let named = thread::Builder::new().name(format!("stillframe-{name}")).stack_size(512 << 10);
        let work = || {
            take_no_signals();
            work();
        };
        named.spawn(work).map_err(Error::io("clone", name)).map(drop)
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    fn runtime(&self) -> Option<Arc<Runtime>> {
        self.runtime.get()?.upgrade()
    }

    fn peers(&self) -> MutexGuard<'_, BTreeMap<Node, Arc<Peer>>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is a node, which told this of itself. From now on the runtime hears what it says, and so has to know by now whom it
    /// [replaces](Runtime::replaced).
    ///
    /// # Errors
    /// Those of a thread that is started.
    pub fn add(self: &Arc<Self>, node: Node, info: &NodeInfo) -> Result<()> {
        let known = self.peers().get(&node).map(|peer| peer.info.incarnation);
        if node == self.hello.node || known == Some(info.incarnation) {
            return Ok(());
        }
        // Another runtime has the number, as when etcd has lost its count.
        if known.is_some() {
            self.remove(node);
        }
        let peer = Arc::new(Peer::new(node, info));
        {
            let mut peers = self.peers();
            // Who ends all takes the list once.
            if self.has_ended() {
                return Ok(());
            }
            peers.insert(node, peer.clone());
        }
        self.joined.notify_all();
        let (links, of) = (self.clone(), peer.clone());
        let messages = self.spawn("messages", move || links.send_all_messages(&of));
        let links = self.clone();
        let versions = move || links.send_all_versions(&peer);
        // One that nothing is sent to is not there, so that it can be added once more.
        messages.and_then(|()| self.spawn("versions", versions)).inspect_err(|_| self.remove(node))
    }

    /// A node does not live any more. What it still says is not heard, and it learns by the end of both directions that it is none for
    /// this one: it may be alone in not having heard so from etcd.
    pub fn remove(&self, node: Node) {
        // Held throughout: who takes what comes stops as soon as the peer is gone, and its connection would be taken for one that ended.
        let incoming = self.incoming();
        let peer = self.peers().remove(&node);
        let mut stands = peer.as_ref().is_some_and(|peer| peer.has_connection());
        for one in incoming.values().filter(|one| one.from == Some(node)) {
            stands |= !one.cut.has_ended();
            one.cut.cut();
        }
        drop(incoming);
        if let Some(peer) = peer {
            peer.end();
            // One whose process ended counts on nobody: all its connections ended with it, in both directions.
            if stands {
                self.counted_on_until_ns.fetch_max(peer.counts_until_ns(self.pulse), Ordering::SeqCst);
            }
        }
    }

    /// Whether a node that was lost may count on this one still: it acts as a home as long as all others answered lately, although its
    /// lease may have ended, if it has not heard so. Nobody takes its place meanwhile.
    pub fn is_counted_on(&self) -> bool {
        boot_ns() < self.counted_on_until_ns.load(Ordering::SeqCst)
    }

    /// Whether there is a node besides these that is to be [removed](Links::remove).
    pub fn has_others_than(&self, nodes: &[(Node, NodeInfo)]) -> bool {
        let living: BTreeMap<Node, u64> = nodes.iter().map(|(node, info)| (*node, info.incarnation)).collect();
        self.peers().values().any(|peer| living.get(&peer.node) != Some(&peer.info.incarnation))
    }

    /// Ends all connections.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        std::mem::take(&mut *self.peers()).into_values().for_each(|peer| peer.end());
        self.joined.notify_all();
        let incoming = std::mem::take(&mut *self.incoming());
        incoming.values().for_each(|one| one.cut.cut());
    }

    fn incoming(&self) -> MutexGuard<'_, BTreeMap<u64, Heard>> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn cut_versions(&self) {
        let peers = self.peers();
        let cuts = peers.values().filter_map(|peer| peer.versions.waiting().cut.clone());
        cuts.for_each(|cut| cut.cut());
    }

    fn send_all_messages(&self, peer: &Peer) {
        let next_ping = || peer.next_ping(self.pulse);
        self.send_all(peer, &peer.messages, next_ping, |out, mut messages| {
            if peer.next_ping(self.pulse).is_zero() {
                peer.note_silence(self.pulse);
                // What is sent on a connection that the other side has ended is lost without an error, at first.
                if out.sender.cut().has_ended() {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                messages.push_back(peer.ping());
            }
            send_messages(out, messages, |why| peer.say(why))
        });
    }

    fn send_all_versions(&self, peer: &Peer) {
        self.send_all(
            peer,
            &peer.versions,
            || self.pulse.every,
            |out, versions| {
                // What was sent on one that the other side has ended nobody has, and who waits for it asks again where there is a new one.
                if out.sender.cut().has_ended() {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                send_versions(out, versions)
            },
        );
    }

    /// Sends what is put on a channel until its end, on one connection after the other. `send` is also called when nothing was put there
    /// for as long as `longest` says.
    fn send_all<T>(
        &self,
        peer: &Peer,
        channel: &Channel<T>,
        longest: impl Fn() -> Duration,
        send: impl Fn(&mut Out<'_>, VecDeque<T>) -> io::Result<()>,
    ) {
        let mut pause = PAUSES[0];
        loop {
            match self.connect(peer) {
                Ok(sender) => {
                    pause = PAUSES[0];
                    channel.waiting().cut = Some(sender.cut());
                    peer.ask();
                    if let Some(runtime) = self.runtime() {
                        runtime.connected(peer.node);
                    }
                    let mut out = Out { sender: &sender, sent_bytes: &peer.sent_bytes, body: Vec::new() };
                    while let Some(all) = channel.take(longest()) {
                        if send(&mut out, all).is_err() {
                            break;
                        }
                    }
                    // What was to go on it, the other side is told anew. What comes from now on goes on the next one: some of it may
                    // be asked for before this thread knows that there is one.
                    let mut waiting = channel.waiting();
                    waiting.clear();
                    waiting.cut = None;
                }
                Err(why) => {
                    pause = (pause * 2).min(PAUSES[1]);
                    match why {
                        Unconnected::Refused(why) => peer.say(why),
                        Unconnected::Absent => peer.note_silence(self.pulse),
                    }
                }
            }
            if !channel.pause(pause) {
                return;
            }
        }
    }

    fn connect(&self, peer: &Peer) -> Result<Sender, Unconnected> {
        let address: SocketAddr = peer.info.address.parse().map_err(|_| Unconnected::Absent)?;
        let connection = Connection::connect(address, &self.identity, &self.options, LIMIT)?;
        let (sender, mut receiver) = connection.split();
        send_alone(&sender, Message::Hello(self.hello.clone()))?;
        let Some(frame) = receiver.next(LIMIT)? else { return Err(Unconnected::Absent) };
        match Message::decode(Kind(frame.kind()), frame.body()) {
            // Another runtime may have the port of one that ended.
            Ok(Message::Hello(theirs)) if peer.is_who(&theirs) => match hello::agree(&self.hello, &theirs) {
                Ok(_) => Ok(sender),
                Err(fault) => Err(Unconnected::Refused(fault.to_string())),
            },
            Ok(Message::Refuse(Refuse { why })) => Err(Unconnected::Refused(format!("it refuses this node: {why}"))),
            _ => Err(Unconnected::Absent),
        }
    }

    fn take_all(&self, connection: Connection) {
        let number = self.next_incoming.fetch_add(1, Ordering::Relaxed);
        let cut = connection.cut();
        self.incoming().insert(number, Heard { cut: cut.clone(), from: None });
        // Who ends all takes the list once.
        if !self.has_ended() {
            let (sender, mut receiver) = connection.split();
            if let Some(theirs) = self.greeted(number, &sender, &mut receiver) {
                let from = theirs.node;
                points::hit("link.greeted");
                if self.has_joined(&theirs, &cut) {
                    // What was on its way on the one before may be lost, and only this side knows what it still waits for.
                    if let Some(runtime) = self.runtime() {
                        runtime.connected(from);
                    }
                    self.peers().get(&from).inspect(|peer| peer.ask());
                    self.take_from(from, number, &mut receiver);
                    if let Some(runtime) = self.runtime() {
                        runtime.disconnected(from, number);
                    }
                }
            }
        }
        self.incoming().remove(&number);
    }

    /// Waits until this node was told of who is at the other end, who may be quicker than that: the writers that a runtime reports which
    /// was started again would stand against those of its former number, as long as these count. As long as the connection stands it is
    /// waited for: what it said already would be lost with it, and only what it says next would tell it so.
    fn has_joined(&self, theirs: &Hello, connection: &Cut) -> bool {
        let is_one =
            |peers: &BTreeMap<Node, Arc<Peer>>| peers.get(&theirs.node).is_some_and(|peer| peer.is_who(theirs));
        let is_awaited = |peers: &mut BTreeMap<Node, Arc<Peer>>| !is_one(peers) && !self.has_ended();
        loop {
            let waited = self.joined.wait_timeout_while(self.peers(), STANDS, is_awaited);
            let (peers, time) = waited.unwrap_or_else(PoisonError::into_inner);
            let (is_known, is_over) = (is_one(&peers), !time.timed_out());
            drop(peers);
            if is_known || is_over || connection.has_ended() {
                return is_known;
            }
        }
    }

    fn take_from(&self, from: Node, connection: u64, receiver: &mut Receiver) {
        while let Ok(frame) = receiver.next(Duration::MAX) {
            let Some(mut frame) = frame else { continue };
            let message = match Message::decode(Kind(frame.kind()), frame.body()) {
                Ok(message) => message,
                // A newer runtime says more than this one understands.
                Err(fault) if fault.is_unknown_kind() => continue,
                Err(_) => return,
            };
            let peers = self.peers();
            // Who was lost is not heard.
            let Some(peer) = peers.get(&from).cloned() else { return };
            match message {
                // With the lock, so that who was lost is not answered.
                Message::Ping(number) => {
                    peer.answer(number);
                    continue;
                }
                Message::Pong(number) => {
                    peer.hear(number);
                    continue;
                }
                _ => drop(peers),
            }
            let bytes = frame.body().len() as u64 + frame.bulk_bytes();
            peer.received_bytes.fetch_add(bytes, Ordering::Relaxed);
            let Some(runtime) = self.runtime() else { return };
            runtime.receive(from, message, &mut InFrame { frame: &mut frame, connection });
        }
    }

    /// Who is at the other end of a connection, if it can be talked to; else it is told why not.
    fn greeted(&self, connection: u64, sender: &Sender, receiver: &mut Receiver) -> Option<Hello> {
        let frame = receiver.next(LIMIT).ok()??;
        let Ok(Message::Hello(theirs)) = Message::decode(Kind(frame.kind()), frame.body()) else { return None };
        match hello::agree(&self.hello, &theirs) {
            Ok(_) => {
                // Before it is answered, and may count on this node; and before it is asked whether that is a node still: who removes
                // it looks here after that.
                if let Some(one) = self.incoming().get_mut(&connection) {
                    one.from = Some(theirs.node);
                }
                send_alone(sender, Message::Hello(self.hello.clone())).ok().map(|()| theirs)
            }
            Err(fault) => {
                let _ = send_alone(sender, Message::Refuse(Refuse { why: fault.to_string() }));
                None
            }
        }
    }
}

fn send_alone(sender: &Sender, message: Message) -> stillframe_link::Result<()> {
    let mut body = Vec::new();
    let kind = message.encode(&mut body);
    sender.send(kind.0, &body, Source::Nothing, LIMIT)
}

impl Network for Links {
    fn send(&self, to: Node, messages: Vec<Message>) {
        let peer = self.peers().get(&to).cloned();
        if let Some(peer) = peer {
            if let [Message::GroupRanks(newest)] = &messages[..] {
                // Each says all that is to be known.
                peer.messages.withdraw(|waiting| match waiting {
                    Message::GroupRanks(older) if older.group == newest.group => Some(about_bytes(waiting)),
                    _ => None,
                });
            }
            let bytes = messages.iter().map(about_bytes).sum();
            peer.messages.push(messages, bytes);
        }
    }

    fn transmit(&self, to: Node, version: Box<dyn Transmission>) {
        let peer = self.peers().get(&to).cloned();
        if let Some(peer) = peer {
            // What it holds is the writers' memory.
            peer.versions.push([version], 0);
        }
    }

    fn traffic(&self, node: Node) -> Traffic {
        let Some(peer) = self.peers().get(&node).cloned() else { return Traffic::default() };
        Traffic {
            is_connected: peer.is_connected(self.pulse),
            sent_bytes: peer.sent_bytes.load(Ordering::Relaxed),
            received_bytes: peer.received_bytes.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests;
