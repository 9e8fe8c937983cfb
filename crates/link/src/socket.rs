//! One TCP connection, with a deadline on everything.

use crate::deadline::Deadline;
use crate::error::{Error, Os, Result};
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;
use stillframe_kernel::Failure;
use stillframe_kernel::socket::{self, FileRoute, Ready};

/// A connection, which two threads may use: one to send, one to receive.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    peer: SocketAddr,
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Socket {
    /// Takes a connection over, and sets it up.
    pub(crate) fn new(stream: TcpStream, peer: SocketAddr, silence: Duration) -> Result<Socket> {
        let socket = Socket { stream, peer };
        socket::set_up(&socket.stream, silence).map_err(|failure| socket.broken(failure))?;
        Ok(socket)
    }

    pub(crate) fn connect(peer: SocketAddr, silence: Duration, deadline: Deadline) -> Result<Socket> {
        // The kernel would ask less and less often, and notice late that the peer is back. The call refuses a limit of zero.
        let limit = deadline.left().unwrap_or(silence).min(silence).max(Duration::from_millis(1));
        let stream = TcpStream::connect_timeout(&peer, limit);
        let stream = stream.map_err(|error| Error::Connect { peer, call: "connect", source: Os::from(&error) })?;
        Socket::new(stream, peer, silence)
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn broken(&self, failure: Failure) -> Error {
        let source = Os::from(&failure);
        match source.kind {
            // The other side, or this one, ended it, and bytes were under way.
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Error::Closed { peer: self.peer, missing_bytes: 0 },
            _ => Error::Broken { peer: self.peer, call: failure.call, source },
        }
    }

    /// Whether the deadline has not passed. Whoever moves much asks after each part: a peer that always gives or takes something never
    /// lets it wait.
    pub(crate) fn check(&self, ready: Ready, deadline: Deadline) -> Result<Option<Duration>> {
        let left = deadline.left();
        if left.is_some_and(|left| left.is_zero()) {
            let what = match ready {
                Ready::Readable => "receiving from",
                Ready::Writable => "sending to",
            };
            return Err(Error::Timeout { peer: self.peer, what, waited: deadline.waited(), is_intact: false });
        }
        Ok(left)
    }

    /// Sleeps until the socket is ready.
    fn wait(&self, ready: Ready, deadline: Deadline) -> Result<()> {
        loop {
            let left = self.check(ready, deadline)?;
            if socket::wait(&self.stream, ready, left).map_err(|failure| self.broken(failure))? {
                return Ok(());
            }
        }
    }

    /// Receives at least a byte; 0 is the end of the stream.
    pub(crate) fn receive(&self, into: &mut [u8], deadline: Deadline) -> Result<usize> {
        loop {
            match socket::receive(&self.stream, into) {
                Ok(Some(count)) => return Ok(count),
                Ok(None) => self.wait(Ready::Readable, deadline)?,
                Err(failure) => return Err(self.broken(failure)),
            }
        }
    }

    /// Bytes that have come, and stay; 0 at the end of the stream, nothing if none have come.
    pub(crate) fn peek(&self, into: &mut [u8]) -> Result<Option<usize>> {
        match self.stream.peek(into) {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(Error::Broken { peer: self.peer, call: "recv", source: Os::from(&error) }),
        }
    }

    /// Whether the stream begins with these bytes, which are taken then. The first of them tells.
    pub(crate) fn begins_with(&self, bytes: &[u8; 4], deadline: Deadline) -> Result<bool> {
        let mut first = [0];
        self.wait(Ready::Readable, deadline)?;
        match self.stream.peek(&mut first) {
            Ok(1) if first[0] == bytes[0] => {}
            _ => return Ok(false),
        }
        let mut all = [0; 4];
        Ok(self.receive_all(&mut all, deadline)? == all.len() && all == *bytes)
    }

    /// Receives all of it; what came before the stream ended otherwise.
    pub(crate) fn receive_all(&self, into: &mut [u8], deadline: Deadline) -> Result<usize> {
        let mut count = 0;
        while count < into.len() {
            match self.receive(&mut into[count..], deadline)? {
                0 => break,
                received => count += received,
            }
        }
        Ok(count)
    }

    /// Receives into all of these places; how many bytes came before the stream ended.
    pub(crate) fn receive_pieces(&self, into: &mut [IoSliceMut<'_>], deadline: Deadline) -> Result<u64> {
        let (mut into, mut count) = (into, 0);
        IoSliceMut::advance_slices(&mut into, 0);
        while !into.is_empty() {
            let some = into.len().min(PIECES_MAX);
            match socket::receive_pieces(&self.stream, &mut into[..some]) {
                Ok(Some(0)) => break,
                Ok(Some(received)) => {
                    IoSliceMut::advance_slices(&mut into, received);
                    count += received as u64;
                    if !into.is_empty() {
                        self.check(Ready::Readable, deadline)?;
                    }
                }
                Ok(None) => self.wait(Ready::Readable, deadline)?,
                Err(failure) => return Err(self.broken(failure)),
            }
        }
        Ok(count)
    }

    /// Sends all of it.
    pub(crate) fn send(&self, pieces: &mut [IoSlice<'_>], deadline: Deadline) -> Result<()> {
        let mut pieces = pieces;
        IoSlice::advance_slices(&mut pieces, 0);
        while !pieces.is_empty() {
            let some = pieces.len().min(PIECES_MAX);
            match socket::send(&self.stream, &pieces[..some]) {
                Ok(Some(count)) => {
                    IoSlice::advance_slices(&mut pieces, count);
                    if !pieces.is_empty() {
                        self.check(Ready::Writable, deadline)?;
                    }
                }
                Ok(None) => self.wait(Ready::Writable, deadline)?,
                Err(failure) => return Err(self.broken(failure)),
            }
        }
        Ok(())
    }

    /// Sends a range of a file; how many bytes of it there were.
    pub(crate) fn send_file(
        &self,
        route: &mut FileRoute,
        file: impl AsFd,
        at: u64,
        bytes: u64,
        deadline: Deadline,
    ) -> Result<u64> {
        let mut sent = 0;
        while sent < bytes {
            match route.send(&self.stream, &file, at.saturating_add(sent), bytes - sent) {
                Ok(Some(0)) => break,
                Ok(Some(count)) => {
                    sent += count as u64;
                    if sent < bytes {
                        self.check(Ready::Writable, deadline)?;
                    }
                }
                Ok(None) => self.wait(Ready::Writable, deadline)?,
                Err(failure) => return Err(self.broken(failure)),
            }
        }
        Ok(sent)
    }

    /// This side's address.
    pub(crate) fn local(&self) -> Result<SocketAddr> {
        let peer = self.peer;
        let broken = |error: std::io::Error| Error::Broken { peer, call: "getsockname", source: Os::from(&error) };
        self.stream.local_addr().map_err(broken)
    }

    /// Whether the peer has ended the connection, or it has failed.
    pub(crate) fn has_hung_up(&self) -> bool {
        socket::has_hung_up(&self.stream)
    }

    /// Ends the connection; whoever waits for it is woken.
    pub(crate) fn shut_down(&self) {
        socket::shut_down(&self.stream);
    }
}

/// Pieces that one call takes (`UIO_MAXIOV`).
const PIECES_MAX: usize = 1024;
