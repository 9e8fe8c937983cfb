//! A connection to another runtime, and what its two halves share.

use crate::bulk::{Bulk, Means, Plain, Tls};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::greeting::{self, Secret};
use crate::handshake;
use crate::identity::Identity;
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::socket::Socket;
use crate::stream::{Incoming, Outgoing};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How a connection behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How bulk travels; the same on both sides.
    pub means: Means,
    /// How long a peer may be silent before it counts as gone: 10 s. That is how long it is asked for a connection, how long what was
    /// sent may stay unacknowledged, and how long a peer may take nothing of what is sent to it (`TCP_USER_TIMEOUT`). On an idle
    /// connection the peer's kernel is asked after half of that time and then each tenth of it (`SO_KEEPALIVE`), at least a second apart,
    /// and given up at the end of the time.
    pub silence: Duration,
    /// How long the rest of a message may take that has begun to come: 10 s. It also bounds how long somebody who connects may take to
    /// show who it is.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Options {
        let time = Duration::from_secs(10);
        Options { means: Means::default(), silence: time, patience: time }
    }
}

/// Ends a connection from any thread. Whoever sends or receives is woken and gets [`Error::Ended`].
#[derive(Clone)]
pub struct Cut {
    pub(crate) shared: Arc<Shared>,
}

impl Cut {
    /// Ends it. Again, it does nothing.
    pub fn cut(&self) {
        self.shared.end_with("it was cut");
    }

    /// Whether it has ended, by whichever side.
    pub fn has_ended(&self) -> bool {
        self.shared.check().is_err() || self.shared.socket.has_hung_up()
    }
}

impl fmt::Debug for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cut").field("peer", &self.shared.peer).finish_non_exhaustive()
    }
}

/// What both halves have of a connection.
pub(crate) struct Shared {
    pub(crate) peer: SocketAddr,
    pub(crate) patience: Duration,
    socket: Arc<Socket>,
    bulk: Arc<dyn Fn() + Send + Sync>,
    /// What ended it.
    ended: Mutex<Option<String>>,
}

impl Shared {
    fn end_with(&self, why: &str) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| why.into());
        self.socket.shut_down();
        (self.bulk)();
    }

    /// Whether it has not ended.
    pub(crate) fn check(&self) -> Result<()> {
        match &*self.ended.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(why) => Err(Error::Ended { peer: self.peer, why: why.clone() }),
            None => Ok(()),
        }
    }

    /// Ends it with an error, and returns that, or what ended it before.
    pub(crate) fn end(&self, error: Error) -> Error {
        if let Err(before) = self.check() {
            return before;
        }
        self.end_with(&error.to_string());
        error
    }
}

/// A connection to another runtime of the job.
#[derive(Debug)]
pub struct Connection {
    sender: Sender,
    receiver: Receiver,
}

impl Connection {
    /// Connects to a runtime, and makes sure on both sides that the other is of the job.
    ///
    /// # Errors
    /// [`Error::Connect`] if nothing answers; [`Error::Refused`] and [`Error::RefusedThere`] if one of the sides does not believe the
    /// other; [`Error::Timeout`].
    pub fn connect(peer: SocketAddr, identity: &Identity, options: &Options, limit: Duration) -> Result<Connection> {
        let deadline = Deadline::after(limit);
        let socket = Arc::new(Socket::connect(peer, options.silence, deadline)?);
        let (mut out, mut incoming) = handshake::connect(&socket, identity, deadline)?;
        let own = greeting::random()?;
        greeting::greet(&mut out, &options.means, &own, deadline)?;
        let other = greeting::be_greeted(&mut incoming, &options.means, deadline)?;
        let bulk: Box<dyn Bulk> = match &options.means {
            Means::Tls => Box::new(Tls),
            Means::Fabric(fabric) => greeting::join(&mut out, &mut incoming, &**fabric, options.silence, deadline)?,
            Means::Plain => {
                let secret = Secret::of_connection(&own, &other);
                let socket = Arc::new(Socket::connect(peer, options.silence, deadline)?);
                greeting::connect_bulk(&socket, &secret, deadline)?;
                Box::new(Plain::new(socket))
            }
        };
        Ok(Connection::new(out, incoming, bulk, options))
    }

    pub(crate) fn new(out: Outgoing, incoming: Incoming, bulk: Box<dyn Bulk>, options: &Options) -> Connection {
        let socket = Arc::clone(out.socket());
        let shared = Shared {
            peer: socket.peer(),
            patience: options.patience,
            socket,
            bulk: bulk.ender(),
            ended: Mutex::default(),
        };
        let shared = Arc::new(shared);
        let (bulk_out, bulk_in) = bulk.split();
        Connection {
            sender: Sender::new(Arc::clone(&shared), out, bulk_out),
            receiver: Receiver::new(shared, incoming, bulk_in),
        }
    }

    /// Whom it is to.
    pub fn peer(&self) -> SocketAddr {
        self.sender.peer()
    }

    /// What ends it.
    pub fn cut(&self) -> Cut {
        self.sender.cut()
    }

    /// The half that sends, which threads may share, and the half that receives, which one thread has. The connection is there until
    /// both are dropped.
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }
}
