//! The two directions of a connection in TLS: bytes in, bytes out.

use crate::deadline::Deadline;
use crate::error::{Error, Os, Result};
use crate::record::{HEAD_BYTES, NotOpened, Opened, Opener, PLAIN_BYTES_MAX, RECORD_BYTES_MAX, Sealer};
use crate::refusal;
use crate::socket::Socket;
use rustls::crypto::cipher::OutboundChunks;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::sync::Arc;
use stillframe_kernel::points;
use stillframe_kernel::socket::{Ready, read_at};

/// Records that are sealed before they are sent together: with 16 the processors worked a tenth longer for the same bytes.
const BATCH_RECORDS: usize = 4;
/// Bytes of the buffer for what was received and not opened yet.
const BUFFER_BYTES: usize = 16 * RECORD_BYTES_MAX;

/// The connection in TCP beside which bulk travels on another network. As long as there is one of these, it stays open, unless
/// somebody ends it.
#[derive(Debug, Clone)]
pub struct Line {
    socket: Arc<Socket>,
}

impl Line {
    /// Whether the peer has ended the connection, or it has failed: who waits for bulk asks now and then.
    pub fn has_hung_up(&self) -> bool {
        self.socket.has_hung_up()
    }

    /// Ends the connection: whoever sends or receives is woken, on both sides.
    pub fn end(&self) {
        self.socket.shut_down();
    }
}

/// What is sent to a peer, sealed.
pub struct Outgoing {
    socket: Arc<Socket>,
    sealer: Sealer,
    sealed: Vec<Vec<u8>>,
    /// What is read of files on the way to the peer.
    read: Vec<u8>,
}

impl Outgoing {
    pub(crate) fn new(socket: Arc<Socket>, sealer: Sealer) -> Outgoing {
        Outgoing { socket, sealer, sealed: Vec::new(), read: Vec::new() }
    }

    #[cfg(test)]
    pub(crate) fn sealer(&mut self) -> &mut Sealer {
        &mut self.sealer
    }

    pub(crate) fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// The connection itself.
    pub fn line(&self) -> Line {
        Line { socket: Arc::clone(&self.socket) }
    }

    fn seal(&mut self, plain: OutboundChunks<'_>) -> Result<()> {
        let sealed = self.sealer.seal(plain, &mut self.sealed);
        sealed.map_err(|error| Error::Ended { peer: self.socket.peer(), why: format!("sealing failed: {error}") })
    }

    fn flush(&mut self, deadline: Deadline) -> Result<()> {
        let mut pieces: Vec<IoSlice<'_>> = self.sealed.iter().map(|record| IoSlice::new(record)).collect();
        let sent = self.socket.send(&mut pieces, deadline);
        self.sealed.clear();
        sent
    }

    /// Sends these bytes, one piece after the other, in as few records and calls as they need.
    ///
    /// # Errors
    /// The connection has ended, or ends by this.
    pub fn send(&mut self, pieces: &[&[u8]], deadline: Deadline) -> Result<()> {
        let mut left = OutboundChunks::new(pieces);
        while !left.is_empty() {
            let (record, rest) = left.split_at(PLAIN_BYTES_MAX.min(left.len()));
            self.seal(record)?;
            left = rest;
            if self.sealed.len() >= BATCH_RECORDS {
                self.flush(deadline)?;
                if !left.is_empty() {
                    points::hit("link.sends");
                    self.socket.check(Ready::Writable, deadline)?;
                }
            }
        }
        self.flush(deadline)
    }

    /// Sends a range of a file; how many bytes of it there were.
    ///
    /// # Errors
    /// As [`send`](Outgoing::send), and where the file cannot be read.
    pub fn send_file(&mut self, file: impl AsFd, at: u64, bytes: u64, deadline: Deadline) -> Result<u64> {
        let mut read = std::mem::take(&mut self.read);
        read.resize(BATCH_RECORDS * PLAIN_BYTES_MAX, 0);
        let mut sent = 0;
        let done = loop {
            let most = read.len().min(usize::try_from(bytes - sent).unwrap_or(usize::MAX));
            if most == 0 {
                break Ok(sent);
            }
            let count = match read_at(&file, &mut read[..most], at.saturating_add(sent)) {
                Ok(0) => break Ok(sent),
                Ok(count) => count,
                Err(failure) => {
                    let source = Os::from(&failure);
                    break Err(Error::File { peer: self.socket.peer(), call: failure.call, source, is_intact: false });
                }
            };
            if let Err(error) = self.send(&[&read[..count]], deadline) {
                break Err(error);
            }
            sent += count as u64;
            if sent < bytes
                && let Err(error) = self.socket.check(Ready::Writable, deadline)
            {
                break Err(error);
            }
        };
        self.read = read;
        done
    }

    /// Says farewell, if there is room for it now.
    pub(crate) fn close(&mut self) {
        if let Ok(record) = self.sealer.farewell() {
            let _ = self.socket.send(&mut [IoSlice::new(&record)], Deadline::after(std::time::Duration::ZERO));
        }
    }
}

/// What is received from a peer, opened.
pub struct Incoming {
    socket: Arc<Socket>,
    opener: Opener,
    buffer: Vec<u8>,
    /// Opened bytes that nobody read yet.
    plain: std::ops::Range<usize>,
    /// Sealed bytes, which follow them.
    sealed: std::ops::Range<usize>,
}

impl Incoming {
    /// A stream, of which so much was received with the end of the handshake.
    pub(crate) fn new(socket: Arc<Socket>, opener: Opener, received: &[u8]) -> Incoming {
        let mut buffer = vec![0; BUFFER_BYTES.max(received.len())];
        buffer[..received.len()].copy_from_slice(received);
        Incoming { socket, opener, buffer, plain: 0..0, sealed: 0..received.len() }
    }

    pub(crate) fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// The connection itself.
    pub fn line(&self) -> Line {
        Line { socket: Arc::clone(&self.socket) }
    }

    /// Receives until so many sealed bytes are there; whether they are, for the stream may end before.
    fn fill(&mut self, bytes: usize, deadline: Deadline) -> Result<bool> {
        while self.sealed.len() < bytes {
            if self.sealed.start + bytes > self.buffer.len() || self.sealed.is_empty() {
                self.buffer.copy_within(self.sealed.clone(), 0);
                self.sealed = 0..self.sealed.len();
            }
            match self.socket.receive(&mut self.buffer[self.sealed.end..], deadline)? {
                0 => return Ok(false),
                count => self.sealed.end += count,
            }
        }
        Ok(true)
    }

    /// Opens records until there is something to read; `false` at the end of the stream.
    fn open(&mut self, deadline: Deadline) -> Result<bool> {
        let peer = self.socket.peer();
        let malformed = |why: NotOpened| Error::Malformed {
            peer,
            what: match why {
                NotOpened::Tls(error) => format!("a record that cannot be opened ({error})"),
                NotOpened::Unknown(what) => what.into(),
            },
        };
        while self.plain.is_empty() {
            if !self.fill(HEAD_BYTES, deadline)? {
                return Ok(false);
            }
            let start = self.sealed.start;
            let mut head = [0; HEAD_BYTES];
            head.copy_from_slice(&self.buffer[start..start + HEAD_BYTES]);
            let bytes = Opener::record_bytes(head).map_err(malformed)?;
            if !self.fill(bytes, deadline)? {
                return Ok(false);
            }
            let start = self.sealed.start;
            let record = &mut self.buffer[start..start + bytes];
            self.sealed.start += bytes;
            match self.opener.open(record).map_err(malformed)? {
                Opened::Plain(plain) => self.plain = start + plain.start..start + plain.end,
                Opened::Nothing => {
                    self.socket.check(Ready::Readable, deadline)?;
                }
                Opened::Farewell => return Ok(false),
                Opened::Alert(alert) => return Err(refusal::there(peer, alert)),
            }
        }
        Ok(true)
    }

    /// What has come, at least a byte, of which nothing is taken; nothing at the end of the stream.
    pub(crate) fn peek(&mut self, deadline: Deadline) -> Result<&[u8]> {
        self.open(deadline)?;
        Ok(&self.buffer[self.plain.clone()])
    }

    /// Takes bytes that were looked at.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.plain.start += bytes.min(self.plain.len());
    }

    /// Receives all of it; how many bytes came before the stream ended.
    ///
    /// # Errors
    /// The connection has ended, or ends by this.
    pub fn receive(&mut self, into: &mut [u8], deadline: Deadline) -> Result<usize> {
        let mut count = 0;
        while count < into.len() {
            let plain = self.peek(deadline)?;
            if plain.is_empty() {
                break;
            }
            let some = plain.len().min(into.len() - count);
            into[count..count + some].copy_from_slice(&plain[..some]);
            self.take(some);
            count += some;
            if count < into.len() {
                points::hit("link.receives");
                self.socket.check(Ready::Readable, deadline)?;
            }
        }
        Ok(count)
    }

    /// Leaves bytes out; how many came before the stream ended.
    ///
    /// # Errors
    /// As [`receive`](Incoming::receive).
    pub fn skip(&mut self, bytes: u64, deadline: Deadline) -> Result<u64> {
        let mut count = 0;
        while count < bytes {
            let plain = self.peek(deadline)?.len();
            if plain == 0 {
                break;
            }
            let some = plain.min(usize::try_from(bytes - count).unwrap_or(usize::MAX));
            self.take(some);
            count += some as u64;
            if count < bytes {
                self.socket.check(Ready::Readable, deadline)?;
            }
        }
        Ok(count)
    }
}
