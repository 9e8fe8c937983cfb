//! Who carries messages to other nodes.

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use stillframe::View;
use stillframe_roster::writer::Node;
use stillframe_wire::Message;

/// Carries messages. What comes in is given to [`Runtime::receive`](crate::Runtime::receive).
///
/// Messages to one node arrive in order, but those with [data](is_data) may overtake others and be overtaken. Or the connection ends:
/// then [`Runtime::connected`](crate::Runtime::connected) is called when there is another, and both sides say again what the
/// other has to know.
pub trait Network: Send + Sync + Debug {
    /// Sends a message, without waiting for anything.
    fn send(&self, to: Node, message: Message, bulk: Bulk);
}

/// Whether a message belongs to versions on their way, of which there may be many bytes.
pub fn is_data(message: &Message) -> bool {
    matches!(message, Message::Sources(_) | Message::Piece(_) | Message::Sent(_))
}

/// What follows a message.
#[derive(Debug, Default)]
pub enum Bulk {
    /// Nothing.
    #[default]
    None,
    /// These bytes.
    Bytes(Vec<u8>),
    /// Bytes of a version, which is held until they were sent.
    View(View, Range<usize>),
}

impl Bulk {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Bulk::None => &[],
            Bulk::Bytes(bytes) => bytes,
            Bulk::View(view, range) => &view[range.clone()],
        }
    }
}

/// What follows a message that came.
pub trait Incoming {
    /// How many bytes are still to be read.
    fn left_bytes(&self) -> u64;

    /// Reads so many of them.
    ///
    /// # Errors
    /// The connection has ended.
    fn read(&mut self, into: &mut [u8]) -> io::Result<()>;
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
