//! The half of a connection that receives.

use crate::bulk::BulkReceiver;
use crate::connection::{Cut, Shared};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::frame::{HEAD_BYTES, Head};
use crate::stream::Incoming;
use std::fmt;
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Memory for bodies that is kept between frames.
const KEPT_BYTES: usize = 1 << 20;

/// Receives frames, one after the other.
pub struct Receiver {
    shared: Arc<Shared>,
    stream: Incoming,
    bulk: Box<dyn BulkReceiver>,
    head: [u8; HEAD_BYTES],
    /// Bytes of the next head that have come.
    head_bytes: usize,
    body: Vec<u8>,
    /// Bytes of bulk that nobody took yet.
    left_bytes: u64,
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("peer", &self.shared.peer).finish_non_exhaustive()
    }
}

impl Receiver {
    pub(crate) fn new(shared: Arc<Shared>, stream: Incoming, bulk: Box<dyn BulkReceiver>) -> Receiver {
        Receiver { shared, stream, bulk, head: [0; HEAD_BYTES], head_bytes: 0, body: Vec::new(), left_bytes: 0 }
    }

    /// Whom it receives from.
    pub fn peer(&self) -> SocketAddr {
        self.shared.peer
    }

    /// What ends the connection.
    pub fn cut(&self) -> Cut {
        Cut { shared: Arc::clone(&self.shared) }
    }

    /// Waits for the next frame, and receives its head and body; `None` if none begins in time. What was not taken of the bulk of the
    /// one before is left out. A frame that has begun comes to its end within [`Options::patience`](crate::Options::patience), or the
    /// connection ends.
    ///
    /// # Errors
    /// [`Error::Closed`] when the peer is gone; any error ends the connection.
    pub fn next(&mut self, limit: Duration) -> Result<Option<Frame<'_>>> {
        self.shared.check()?;
        let deadline = Deadline::after(limit);
        let received = self.receive(deadline);
        match received.map_err(|error| self.shared.end(error))? {
            Some(head) => Ok(Some(Frame { receiver: self, head })),
            None => Ok(None),
        }
    }

    fn receive(&mut self, deadline: Deadline) -> Result<Option<Head>> {
        let patient = deadline.or_after(self.shared.patience);
        if self.left_bytes > 0 {
            self.skip(patient)?;
        }
        while self.head_bytes < HEAD_BYTES {
            let come = match self.stream.peek(deadline) {
                Ok(come) => come,
                // What has come stays.
                Err(Error::Timeout { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
            if come.is_empty() {
                let missing_bytes = if self.head_bytes == 0 { 0 } else { HEAD_BYTES - self.head_bytes };
                return Err(Error::Closed { peer: self.shared.peer, missing_bytes: missing_bytes as u64 });
            }
            let some = come.len().min(HEAD_BYTES - self.head_bytes);
            self.head[self.head_bytes..self.head_bytes + some].copy_from_slice(&come[..some]);
            self.stream.take(some);
            self.head_bytes += some;
        }
        self.head_bytes = 0;
        let peer = self.shared.peer;
        let head = Head::decode(&self.head).map_err(|what| Error::Malformed { peer, what })?;
        self.receive_body(head, patient)?;
        self.left_bytes = head.bulk_bytes;
        Ok(Some(head))
    }

    fn receive_body(&mut self, head: Head, deadline: Deadline) -> Result<()> {
        if self.body.capacity() > KEPT_BYTES.max(head.body_bytes) {
            self.body = Vec::new();
        }
        self.body.clear();
        let reserved = self.body.try_reserve_exact(head.body_bytes);
        reserved.map_err(|_| Error::NoMemory { what: format!("a body of {} bytes", head.body_bytes) })?;
        self.body.resize(head.body_bytes, 0);
        let received = self.stream.receive(&mut self.body, deadline)?;
        self.check_end(head.body_bytes as u64 - received as u64 + head.bulk_bytes, received == head.body_bytes)
    }

    fn check_end(&self, missing_bytes: u64, is_all: bool) -> Result<()> {
        if is_all { Ok(()) } else { Err(Error::Closed { peer: self.shared.peer, missing_bytes }) }
    }

    fn skip(&mut self, deadline: Deadline) -> Result<()> {
        let wanted = self.left_bytes;
        let skipped = self.bulk.skip(&mut self.stream, wanted, deadline)?;
        self.left_bytes -= skipped;
        self.check_end(self.left_bytes, skipped == wanted)
    }

    fn fill(&mut self, into: &mut [IoSliceMut<'_>], wanted: u64, deadline: Deadline) -> Result<()> {
        let received = self.bulk.receive(&mut self.stream, into, deadline)?;
        self.left_bytes -= received;
        self.check_end(self.left_bytes, received == wanted)
    }
}

/// A frame, of which head and body are there, and the bulk is still to be taken. Dropped, it leaves the rest of its bulk to be left
/// out.
pub struct Frame<'r> {
    receiver: &'r mut Receiver,
    head: Head,
}

impl fmt::Debug for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("head", &self.head)
            .field("left_bytes", &self.left_bytes())
            .finish_non_exhaustive()
    }
}

impl Frame<'_> {
    /// What the body is.
    pub fn kind(&self) -> u16 {
        self.head.kind
    }

    /// Its body.
    pub fn body(&self) -> &[u8] {
        &self.receiver.body
    }

    /// Bytes of bulk that came with it.
    pub fn bulk_bytes(&self) -> u64 {
        self.head.bulk_bytes
    }

    /// Bytes of bulk that were not taken yet.
    pub fn left_bytes(&self) -> u64 {
        self.receiver.left_bytes
    }

    /// Takes as much of the bulk as `into` is long.
    ///
    /// # Errors
    /// [`Error::PastEnd`] leaves everything as it is. After any other the connection has ended, and `into` may hold anything.
    pub fn read(&mut self, into: &mut [u8], limit: Duration) -> Result<()> {
        self.read_pieces(&mut [IoSliceMut::new(into)], limit)
    }

    /// Takes as much of the bulk as all pieces together are long. The slices are used up by it.
    ///
    /// # Errors
    /// As [`read`](Frame::read).
    pub fn read_pieces(&mut self, into: &mut [IoSliceMut<'_>], limit: Duration) -> Result<()> {
        let wanted_bytes = into.iter().map(|piece| piece.len() as u64).sum();
        let left_bytes = self.receiver.left_bytes;
        if wanted_bytes > left_bytes {
            return Err(Error::PastEnd { wanted_bytes, left_bytes });
        }
        self.receiver.shared.check()?;
        let filled = self.receiver.fill(into, wanted_bytes, Deadline::after(limit));
        filled.map_err(|error| self.receiver.shared.end(error))
    }

    /// Leaves the rest of the bulk out.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn skip(self, limit: Duration) -> Result<()> {
        self.receiver.shared.check()?;
        let skipped = self.receiver.skip(Deadline::after(limit));
        skipped.map_err(|error| self.receiver.shared.end(error))
    }
}
