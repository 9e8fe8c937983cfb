//! How bulk travels: many bytes that go with a frame.
//!
//! | | bulk is | for |
//! |---|---|---|
//! | [`Tls`] | in the stream of frames, behind its frame's body | any network |
//! | [`Plain`] | on a connection of its own, as it is, in the order of the frames | a network that nobody else can listen to or write into |
//! | [`Fabric`] | on another network than TCP, as it is, in the order of the frames | the same |
//!
//! None is ever open to somebody without the job's certificate. With [`Plain`] and with a [`Fabric`], whoever can change what travels
//! on the network can change bulk, and nobody would notice.
//!
//! **Pages in flight.** `sendfile` returns when the pages of the file stand in the connection's queue, not when they are with the
//! peer: the network card reads them later, and a page that is written meanwhile arrives as it is then. So whoever sends a range of a
//! plane keeps the lease on its version until the *receiver* says, by a frame of its own, that it has the bulk. That [`Sender::send`]
//! returned is not enough, nor that the kernel's queue is empty here.
//!
//! What a [`Fabric`] is, this crate does not know. It opens an [`End`] on each side, whose addresses go to the other side inside TLS
//! with the greeting; then both join them.
//!
//! [`Sender::send`]: crate::Sender::send

use crate::deadline::Deadline;
use crate::error::Result;
use crate::socket::Socket;
use crate::stream::{Incoming, Outgoing};
use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use stillframe_kernel::socket::{FileRoute, Ready};

/// Which way bulk travels. Both sides of a connection have to choose the same.
#[derive(Debug, Clone, Default)]
pub enum Means {
    /// Inside TLS.
    #[default]
    Tls,
    /// Beside TLS, as it is.
    Plain,
    /// Beside TLS, on another network than TCP.
    Fabric(Arc<dyn Fabric>),
}

/// What is said of a fabric before its name is.
const FABRIC: &str = "a fabric";

impl Means {
    pub(crate) fn number(&self) -> u8 {
        match self {
            Means::Tls => 1,
            Means::Plain => 2,
            Means::Fabric(_) => 3,
        }
    }

    /// What a peer calls so.
    pub(crate) fn name_of(number: u8) -> String {
        match number {
            1 => Means::Tls.to_string(),
            2 => Means::Plain.to_string(),
            3 => FABRIC.into(),
            _ => "something unknown".into(),
        }
    }
}

impl fmt::Display for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Means::Tls => "tls",
            Means::Plain => "plain",
            Means::Fabric(fabric) => fabric.name(),
        })
    }
}

/// Fabrics are equal if their names are.
impl PartialEq for Means {
    fn eq(&self, other: &Means) -> bool {
        match (self, other) {
            (Means::Fabric(one), Means::Fabric(two)) => one.name() == two.name(),
            _ => self.number() == other.number(),
        }
    }
}

impl Eq for Means {}

impl FromStr for Means {
    type Err = String;

    fn from_str(text: &str) -> Result<Means, String> {
        match text {
            "tls" => Ok(Means::Tls),
            "plain" => Ok(Means::Plain),
            other => Err(format!("'{other}' is none of tls, plain")),
        }
    }
}

/// Where bulk comes from.
#[derive(Debug, Clone, Copy, Default)]
pub enum Source<'a> {
    /// There is none.
    #[default]
    Nothing,
    /// Memory.
    Bytes(&'a [u8]),
    /// Several parts of memory, one after the other.
    Pieces(&'a [&'a [u8]]),
    /// A range of a file.
    File {
        /// The file.
        file: BorrowedFd<'a>,
        /// Where the range begins.
        at: u64,
        /// How long it is.
        bytes: u64,
    },
}

impl<'a> Source<'a> {
    /// A range of a file, such as the plane of a region.
    pub fn file(file: &'a impl AsFd, at: u64, bytes: u64) -> Source<'a> {
        Source::File { file: file.as_fd(), at, bytes }
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        match self {
            Source::Nothing => 0,
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::Pieces(pieces) => pieces.iter().map(|piece| piece.len() as u64).sum(),
            Source::File { bytes, .. } => *bytes,
        }
    }
}

/// Bytes of the name of a fabric at most.
pub const NAME_BYTES_MAX: usize = 255;
/// Bytes of an end's address at most.
pub const ADDRESS_BYTES_MAX: usize = 4096;

/// Another network than TCP.
pub trait Fabric: Send + Sync + fmt::Debug {
    /// What it is called, on both sides alike: at most [`NAME_BYTES_MAX`].
    fn name(&self) -> &str;

    /// Opens this side's end of a way for bulk.
    ///
    /// # Errors
    /// [`Error::Fabric`](crate::Error::Fabric), and [`Error::NoMemory`](crate::Error::NoMemory).
    fn open(&self, place: &Place) -> Result<Box<dyn End>>;
}

/// For which connection an end is opened.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// This side's address in TCP.
    pub local: IpAddr,
    /// The other side.
    pub peer: SocketAddr,
    /// How long a peer may take nothing of what is sent to it.
    pub silence: Duration,
    /// Bytes that nobody else knows, and no other end has.
    pub random: [u8; 64],
}

/// One side of a way for bulk that does not know the other yet.
pub trait End: Send {
    /// Where it is, and what else the other side needs, secrets among it: it travels inside TLS. At most [`ADDRESS_BYTES_MAX`].
    fn address(&self) -> &[u8];

    /// Joins it to an end of the peer, by the address that came from there.
    ///
    /// # Errors
    /// [`Error::Malformed`](crate::Error::Malformed) for what is no address, and as [`Fabric::open`].
    fn join(self: Box<Self>, theirs: &[u8]) -> Result<Box<dyn Bulk>>;
}

/// A way for bulk, on both sides of a connection and in both directions.
pub trait Bulk: Send {
    /// What ends it from any thread: whoever sends or receives is woken and gets an error. Again, it does nothing.
    fn ender(&self) -> Arc<dyn Fn() + Send + Sync>;

    /// The two directions.
    fn split(self: Box<Self>) -> (Box<dyn BulkSender>, Box<dyn BulkReceiver>);
}

/// Sends the bulk of a frame, whose head and body are on their way.
pub trait BulkSender: Send {
    /// Sends it; how many bytes were there to be sent, fewer than promised if a file is shorter.
    ///
    /// # Errors
    /// The connection ends by any.
    fn send(&mut self, stream: &mut Outgoing, source: Source<'_>, deadline: Deadline) -> Result<u64>;
}

/// Receives the bulk of a frame, whose head and body were received.
pub trait BulkReceiver: Send {
    /// Fills all these places; how many bytes came before the peer ended the connection.
    ///
    /// # Errors
    /// The connection ends by any.
    fn receive(&mut self, stream: &mut Incoming, into: &mut [IoSliceMut<'_>], deadline: Deadline) -> Result<u64>;

    /// Leaves bytes out; how many came before the peer ended the connection.
    ///
    /// # Errors
    /// The connection ends by any.
    fn skip(&mut self, stream: &mut Incoming, bytes: u64, deadline: Deadline) -> Result<u64>;
}

/// Bulk in the stream of frames.
#[derive(Debug, Default)]
pub struct Tls;

impl Bulk for Tls {
    fn ender(&self) -> Arc<dyn Fn() + Send + Sync> {
        Arc::new(|| ())
    }

    fn split(self: Box<Self>) -> (Box<dyn BulkSender>, Box<dyn BulkReceiver>) {
        (Box::new(Tls), Box::new(Tls))
    }
}

impl BulkSender for Tls {
    fn send(&mut self, stream: &mut Outgoing, source: Source<'_>, deadline: Deadline) -> Result<u64> {
        match source {
            Source::Nothing => {}
            Source::Bytes(bytes) => stream.send(&[bytes], deadline)?,
            Source::Pieces(pieces) => stream.send(pieces, deadline)?,
            Source::File { file, at, bytes } => return stream.send_file(file, at, bytes, deadline),
        }
        Ok(source.bytes())
    }
}

impl BulkReceiver for Tls {
    fn receive(&mut self, stream: &mut Incoming, into: &mut [IoSliceMut<'_>], deadline: Deadline) -> Result<u64> {
        let mut count = 0;
        for piece in into {
            let received = stream.receive(piece, deadline)?;
            count += received as u64;
            if received < piece.len() {
                break;
            }
        }
        Ok(count)
    }

    fn skip(&mut self, stream: &mut Incoming, bytes: u64, deadline: Deadline) -> Result<u64> {
        stream.skip(bytes, deadline)
    }
}

/// Bulk on a connection of its own.
#[derive(Debug)]
pub struct Plain {
    socket: Arc<Socket>,
}

impl Plain {
    pub(crate) fn new(socket: Arc<Socket>) -> Plain {
        Plain { socket }
    }
}

impl Bulk for Plain {
    fn ender(&self) -> Arc<dyn Fn() + Send + Sync> {
        let socket = Arc::clone(&self.socket);
        Arc::new(move || socket.shut_down())
    }

    fn split(self: Box<Self>) -> (Box<dyn BulkSender>, Box<dyn BulkReceiver>) {
        let receiver = PlainReceiver { socket: Arc::clone(&self.socket), rest: Vec::new() };
        (Box::new(PlainSender { socket: self.socket, route: FileRoute::default() }), Box::new(receiver))
    }
}

/// Sends files without copying them.
struct PlainSender {
    socket: Arc<Socket>,
    route: FileRoute,
}

impl BulkSender for PlainSender {
    fn send(&mut self, _: &mut Outgoing, source: Source<'_>, deadline: Deadline) -> Result<u64> {
        match source {
            Source::Nothing => {}
            Source::Bytes(bytes) => self.socket.send(&mut [IoSlice::new(bytes)], deadline)?,
            Source::Pieces(pieces) => {
                let mut pieces: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
                self.socket.send(&mut pieces, deadline)?;
            }
            Source::File { file, at, bytes } => {
                return self.socket.send_file(&mut self.route, file, at, bytes, deadline);
            }
        }
        Ok(source.bytes())
    }
}

struct PlainReceiver {
    socket: Arc<Socket>,
    /// Where bytes go that nobody wants.
    rest: Vec<u8>,
}

/// Bytes that are left out with one call.
const REST_BYTES: usize = 256 << 10;

impl BulkReceiver for PlainReceiver {
    fn receive(&mut self, _: &mut Incoming, into: &mut [IoSliceMut<'_>], deadline: Deadline) -> Result<u64> {
        self.socket.receive_pieces(into, deadline)
    }

    fn skip(&mut self, _: &mut Incoming, bytes: u64, deadline: Deadline) -> Result<u64> {
        self.rest.resize(REST_BYTES, 0);
        let mut count = 0;
        while count < bytes {
            let some = self.rest.len().min(usize::try_from(bytes - count).unwrap_or(usize::MAX));
            match self.socket.receive(&mut self.rest[..some], deadline)? {
                0 => break,
                received => count += received as u64,
            }
            if count < bytes {
                self.socket.check(Ready::Readable, deadline)?;
            }
        }
        Ok(count)
    }
}
