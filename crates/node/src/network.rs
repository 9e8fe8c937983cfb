//! Who carries messages to other nodes.

use std::fmt::Debug;
use std::io::{self, IoSliceMut};
use stillframe_roster::writer::Node;
use stillframe_wire::Message;

/// Carries messages. What comes in is given to [`Runtime::receive`](crate::Runtime::receive).
///
/// Messages to one node arrive in order, and so do versions, but those may overtake messages and be overtaken. Or the connection
/// ends: then [`Runtime::connected`](crate::Runtime::connected) is called when there is another, and both sides say again what the
/// other has to know.
pub trait Network: Send + Sync + Debug {
    /// Sends messages, without waiting for anything.
    fn send(&self, to: Node, messages: Vec<Message>);

    /// Lets a version be sent when those before it were, without waiting for that.
    fn transmit(&self, to: Node, version: Box<dyn Transmission>);

    /// What went between this node and another one.
    fn traffic(&self, node: Node) -> Traffic;
}

/// What went between two nodes since this one's runtime was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Whether there is a connection to the other, which said lately that it hears this one, and counts it as a node.
    pub is_connected: bool,
    /// Bytes that were sent to it.
    pub sent_bytes: u64,
    /// Bytes that came from it.
    pub received_bytes: u64,
}

/// A version on its way: it is read as fast as it can be sent, so that nothing of it waits in memory.
pub trait Transmission: Send + Debug {
    /// Sends it.
    ///
    /// # Errors
    /// The connection has ended.
    fn run(self: Box<Self>, to: &mut dyn Outgoing) -> io::Result<()>;
}

/// Where a version is sent to.
pub trait Outgoing {
    /// Sends a message and what follows it, and waits until that is on its way.
    ///
    /// # Errors
    /// The connection has ended.
    fn send(&mut self, message: Message, bulk: &[u8]) -> io::Result<()>;
}

/// What follows a message that came.
pub trait Incoming {
    /// How many bytes are still to be read.
    fn left_bytes(&self) -> u64;

    /// On which connection it came, by a number that no other one has which is to be told apart from it.
    fn connection(&self) -> u64 {
        0
    }

    /// Reads so many of them.
    ///
    /// # Errors
    /// The connection has ended.
    fn read(&mut self, into: &mut [u8]) -> io::Result<()>;

    /// Reads as many as these places have room for, one after the other.
    ///
    /// # Errors
    /// The connection has ended.
    fn read_pieces(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        into.iter_mut().try_for_each(|piece| self.read(piece))
    }
}

/// Of messages without.
#[derive(Debug)]
pub struct Nothing;

impl Incoming for Nothing {
    fn left_bytes(&self) -> u64 {
        0
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<()> {
        if into.is_empty() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl Incoming for &[u8] {
    fn left_bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<()> {
        io::Read::read_exact(self, into)
    }
}
