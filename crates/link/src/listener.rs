//! Where other runtimes connect to.
//!
//! One thread waits for connections. Each shows who it is to a thread of its own, so that nobody who connects and says nothing keeps
//! others waiting; there are at most [`GREETED_AT_ONCE`] of these.

use crate::bulk::{Bulk, Means, Plain, Tls};
use crate::connection::{Connection, Options};
use crate::deadline::Deadline;
use crate::error::{Error, Os, Result};
use crate::greeting::{self, BULK, Secret, Tickets};
use crate::handshake;
use crate::identity::Identity;
use crate::socket::Socket;
use std::fmt;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use stillframe_kernel::socket;

/// Connections that may be showing who they are at once; more wait.
pub const GREETED_AT_ONCE: usize = 64;
/// Connections and refusals that wait for [`Listener::accept`].
const WAITING: usize = 64;
/// Stack of a thread that meets a connection.
const STACK_BYTES: usize = 512 << 10;

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
    busy: Mutex<Busy>,
    freed: Condvar,
}

#[derive(Default)]
struct Busy {
    places: usize,
    is_closed: bool,
}

/// One of [`GREETED_AT_ONCE`] places.
struct Place(Arc<Door>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.busy.lock().unwrap_or_else(PoisonError::into_inner).places -= 1;
        self.0.freed.notify_one();
    }
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
            busy: Mutex::default(),
            freed: Condvar::new(),
        });
        let (listens, own) = (Arc::clone(&socket), Arc::clone(&door));
        let thread = named("still-listen").spawn(move || listen(&listens, &own)).map_err(failed("pthread_create"))?;
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
        self.door.close();
        socket::shut_down(&*self.socket);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn named(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.into()).stack_size(STACK_BYTES)
}

fn listen(socket: &TcpListener, door: &Arc<Door>) {
    loop {
        let (stream, peer) = match socket.accept() {
            Ok(accepted) => accepted,
            // It was shut down.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => return,
            Err(_) => {
                // The one who connected is gone, or the process has no descriptor left, which takes time to change.
                thread::sleep(Duration::from_millis(10));
                continue;
            }
        };
        let Some(place) = door.place() else { return };
        let own = Arc::clone(door);
        // Without a thread the connection is dropped, and tried again by the other side.
        let _ = named("still-greet").spawn(move || own.meet(stream, peer, place));
    }
}

impl Door {
    /// Waits for a place, of which there are none any more at the end.
    fn place(self: &Arc<Door>) -> Option<Place> {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        while busy.places >= GREETED_AT_ONCE && !busy.is_closed {
            busy = self.freed.wait(busy).unwrap_or_else(PoisonError::into_inner);
        }
        if busy.is_closed {
            return None;
        }
        busy.places += 1;
        Some(Place(Arc::clone(self)))
    }

    fn close(&self) {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.freed.notify_all();
    }

    fn meet(&self, stream: TcpStream, peer: SocketAddr, place: Place) {
        match self.greet(stream, peer, place) {
            // It belongs to another connection.
            Ok(None) => {}
            Ok(Some(connection)) => {
                // Waits while there are too many that nobody accepts; at the end of the listener nobody will.
                let _ = self.arrived.send(Ok(connection));
            }
            Err(error) => match self.arrived.try_send(Err(error)) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => {}
                // Whoever is refused may come as often as it likes, and is not told of every time.
                Err(TrySendError::Full(_)) => {}
            },
        }
    }

    fn greet(&self, stream: TcpStream, peer: SocketAddr, place: Place) -> Result<Option<Connection>> {
        let Options { means, silence, patience } = &self.options;
        let deadline = Deadline::after(*patience);
        let socket = Socket::new(stream, peer, *silence)?;
        if socket.begins_with(&BULK, deadline)? {
            self.tickets.admit(socket, deadline)?;
            return Ok(None);
        }
        let socket = Arc::new(socket);
        let (mut out, mut incoming) = handshake::accept(&socket, &self.identity, deadline)?;
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
                // It needs a place, too.
                drop(place);
                Box::new(Plain::new(waiting.arrive(deadline)?))
            }
        };
        Ok(Some(Connection::new(out, incoming, bulk, &self.options)))
    }
}
