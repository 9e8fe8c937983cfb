//! Where other runtimes connect to.
//!
//! One thread waits for connections, and for the first words of each ([`Newcomers`]). Who has said these shows who it is to a thread of its
//! own, as long as it has a place ([`Places`]). Nobody who connects and says nothing, or says nothing more, keeps others waiting.

use crate::bulk::{Bulk, Means, Plain, Tls};
use crate::connection::{Connection, Options};
use crate::deadline::Deadline;
use crate::error::{Error, Os, Result};
use crate::greeting::{self, BULK, Secret, Tickets};
use crate::handshake;
use crate::identity::Identity;
use crate::newcomers::Newcomers;
use crate::places::{Place, Places};
use crate::socket::Socket;
use std::fmt;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use stillframe_kernel::socket;

/// Connections and refusals that wait for [`Listener::accept`].
const WAITING: usize = 64;
/// Stack of a thread that meets a connection.
const STACK_BYTES: usize = 512 << 10;
/// Connections that are taken before it is looked whether those that were taken have said something: fewer than may be silent at once.
const TOGETHER: usize = 64;
/// How long to wait where the process has no descriptor left, which takes time to change.
const AGAIN: Duration = Duration::from_millis(10);

/// What is accepted: who of the job connects, and who was refused.
pub struct Listener {
    socket: Arc<TcpListener>,
    address: SocketAddr,
    arrives: Mutex<mpsc::Receiver<Result<Connection>>>,
    door: Arc<Door>,
    thread: Option<thread::JoinHandle<()>>,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}

/// What the threads of a listener share.
struct Door {
    identity: Identity,
    options: Options,
    tickets: Tickets,
    arrived: SyncSender<Result<Connection>>,
    places: Arc<Places>,
}

impl Listener {
    /// Listens on an address; port 0 is any that is free.
    ///
    /// # Errors
    /// [`Error::Listen`].
    pub fn bind(address: SocketAddr, identity: &Identity, options: &Options) -> Result<Listener> {
        let failed = |call| move |error: std::io::Error| Error::Listen { address, call, source: Os::from(&error) };
        let socket = Arc::new(TcpListener::bind(address).map_err(failed("bind"))?);
        let address = socket.local_addr().map_err(failed("getsockname"))?;
        let (arrived, arrives) = mpsc::sync_channel(WAITING);
        let door = Arc::new(Door {
            identity: identity.clone(),
            options: options.clone(),
            tickets: Tickets::default(),
            arrived,
            places: Arc::default(),
        });
        socket.set_nonblocking(true).map_err(failed("ioctl"))?;
        let newcomers = Newcomers::new(&socket, options.patience);
        let newcomers = newcomers.map_err(|failure| failed(failure.call)(failure.source))?;
        let (listens, own) = (Arc::clone(&socket), Arc::clone(&door));
        let listening = move || listen(&listens, newcomers, &own);
        let thread = named("still-listen").spawn(listening).map_err(failed("pthread_create"))?;
        Ok(Listener { socket, address, arrives: Mutex::new(arrives), door, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a runtime of the job to connect; `None` if none does in time.
    ///
    /// # Errors
    /// Somebody was refused, or went away before it had shown who it is: worth a line in a log. The listener goes on.
    pub fn accept(&self, limit: Duration) -> Result<Option<Connection>> {
        let arrives = self.arrives.lock().unwrap_or_else(PoisonError::into_inner);
        match Deadline::after(limit).left() {
            Some(left) => match arrives.recv_timeout(left) {
                Ok(arrived) => arrived.map(Some),
                Err(RecvTimeoutError::Timeout) => Ok(None),
                Err(RecvTimeoutError::Disconnected) => Err(self.stopped()),
            },
            None => arrives.recv().unwrap_or_else(|_| Err(self.stopped())).map(Some),
        }
    }

    fn stopped(&self) -> Error {
        Error::Ended { peer: self.address, why: "it listens no more".into() }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.door.places.close();
        socket::shut_down(&*self.socket);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn named(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.into()).stack_size(STACK_BYTES)
}

fn listen(listener: &TcpListener, mut newcomers: Newcomers, door: &Arc<Door>) {
    loop {
        // However many come, those that came are looked at in between.
        let mut longest = Some(Duration::ZERO);
        for _ in 0..TOGETHER {
            match listener.accept() {
                Ok((stream, peer)) => {
                    let added = Socket::new(stream, peer, door.options.silence).and_then(|one| newcomers.add(one));
                    added.unwrap_or_else(|error| door.tell(error));
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => longest = None,
                // It was shut down.
                Err(error) if error.kind() == ErrorKind::InvalidInput => return,
                // The one who connected is gone, or there is no descriptor.
                Err(_) => longest = Some(AGAIN),
            }
            break;
        }
        let come = newcomers.wait(longest).unwrap_or_else(|_| {
            thread::sleep(AGAIN);
            Vec::new()
        });
        for socket in come.into_iter().filter_map(|number| newcomers.take(number)).collect::<Vec<_>>() {
            let (own, socket) = (Arc::clone(door), Arc::new(socket));
            let Some(place) = door.places.take(&socket) else { return };
            // Without a thread the connection is dropped, and tried again by the other side.
            let _ = named("still-greet").spawn(move || own.meet(socket, place));
        }
        newcomers.expire().into_iter().for_each(|error| door.tell(error));
    }
}

impl Door {
    fn meet(&self, socket: Arc<Socket>, place: Place) {
        match self.greet(socket, place) {
            // It belongs to another connection.
            Ok(None) => {}
            Ok(Some(connection)) => {
                // Waits while there are too many that nobody accepts; at the end of the listener nobody will.
                let _ = self.arrived.send(Ok(connection));
            }
            Err(error) => self.tell(error),
        }
    }

    /// Tells of who was refused. Whoever is refused may come as often as it likes, and is not told of every time.
    fn tell(&self, error: Error) {
        let _ = self.arrived.try_send(Err(error));
    }

    fn greet(&self, socket: Arc<Socket>, place: Place) -> Result<Option<Connection>> {
        let Options { means, silence, patience } = &self.options;
        let (peer, deadline) = (socket.peer(), Deadline::after(*patience));
        if socket.begins_with(&BULK, deadline)? {
            self.tickets.admit(&socket, deadline, || drop(place))?;
            return Ok(None);
        }
        let (mut out, mut incoming) = handshake::accept(&socket, &self.identity, deadline)?;
        // It is of the job.
        drop(place);
        let own = greeting::random()?;
        let other = match greeting::be_greeted(&mut incoming, means, deadline) {
            Ok(other) => other,
            Err(error) => {
                if let Error::Refused { .. } = error {
                    // So that it can say there what does not suit.
                    greeting::greet(&mut out, means, &own, deadline)?;
                    handshake::linger(&socket);
                }
                return Err(error);
            }
        };
        let bulk: Box<dyn Bulk> = match means {
            Means::Tls => {
                greeting::greet(&mut out, means, &own, deadline)?;
                Box::new(Tls)
            }
            Means::Fabric(fabric) => {
                greeting::greet(&mut out, means, &own, deadline)?;
                let joined = greeting::join(&mut out, &mut incoming, &**fabric, *silence, deadline);
                joined.inspect_err(|error| {
                    // So that it can say there what does not suit.
                    if let Error::Refused { .. } = error {
                        handshake::linger(&socket);
                    }
                })?
            }
            Means::Plain => {
                // It may come as soon as the other side knows these random bytes.
                let waiting = self.tickets.expect(Secret::of_connection(&other, &own), peer);
                greeting::greet(&mut out, means, &own, deadline)?;
                Box::new(Plain::new(waiting.arrive(deadline)?))
            }
        };
        Ok(Some(Connection::new(out, incoming, bulk, &self.options)))
    }
}
