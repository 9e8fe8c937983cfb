//! The half of a connection that sends.
//!
//! One thread at a time writes. Small messages of the others gather meanwhile, and whoever writes next writes them all with one call.

use crate::bulk::{BulkSender, Source};
use crate::connection::{Cut, Shared};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::frame::{HEAD_BYTES, Head};
use crate::stream::Outgoing;
use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stillframe_kernel::socket::file_bytes;

/// Bytes of a body up to which it is copied to where messages gather.
const SMALL_BYTES: usize = 16 << 10;
/// Bytes of messages that gather at most.
const GATHERED_BYTES: usize = 256 << 10;

/// What waits to be written.
#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    /// Number and length of each message in it.
    messages: VecDeque<(u64, usize)>,
    /// Number of the next message.
    next: u64,
    /// All messages below this number are written.
    written: u64,
    /// Whether a thread writes.
    is_busy: bool,
    /// The memory of what was written last, for what comes next.
    spare: Vec<u8>,
}

struct Wire {
    stream: Outgoing,
    bulk: Box<dyn BulkSender>,
}

/// Sends frames, from any thread.
pub struct Sender {
    shared: Arc<Shared>,
    queue: Mutex<Queue>,
    changed: Condvar,
    wire: Mutex<Wire>,
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("peer", &self.shared.peer).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to write, with what has gathered.
struct Turn<'s> {
    sender: &'s Sender,
    gathered: Vec<u8>,
    /// All messages below this number are in what gathered.
    until: u64,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queue = lock(&self.sender.queue);
        // After an error nobody asks for what was written.
        queue.written = self.until;
        queue.is_busy = false;
        queue.spare = std::mem::take(&mut self.gathered);
        queue.spare.clear();
        drop(queue);
        self.sender.changed.notify_all();
    }
}

impl Sender {
    pub(crate) fn new(shared: Arc<Shared>, stream: Outgoing, bulk: Box<dyn BulkSender>) -> Sender {
        Sender { shared, queue: Mutex::default(), changed: Condvar::new(), wire: Mutex::new(Wire { stream, bulk }) }
    }

    /// Whom it sends to.
    pub fn peer(&self) -> SocketAddr {
        self.shared.peer
    }

    /// What ends the connection.
    pub fn cut(&self) -> Cut {
        Cut { shared: Arc::clone(&self.shared) }
    }

    /// Sends a frame, and what [`queue`](Sender::queue) left. When it returns, memory of `body` and `bulk` is the caller's again. A
    /// file is not: see [`bulk`](crate::bulk).
    ///
    /// # Errors
    /// [`Error::TooLarge`], and [`Error::ShortFile`] and [`Error::Timeout`] where they say so, leave the connection intact, and nothing
    /// was sent. After any other the connection has ended.
    pub fn send(&self, kind: u16, body: &[u8], bulk: Source<'_>, limit: Duration) -> Result<()> {
        let deadline = Deadline::after(limit);
        let head = Head::new(kind, body.len(), bulk.bytes())?;
        self.check_file(bulk)?;
        if head.bulk_bytes == 0 && body.len() <= SMALL_BYTES {
            let number = self.gather(head, body, deadline)?;
            return self.settle(number, deadline);
        }
        let turn = self.turn(deadline)?;
        let mut wire = lock(&self.wire);
        let Wire { stream, bulk: way } = &mut *wire;
        let done = stream.send(&[&turn.gathered, &head.encode(), body], deadline);
        let done = done.and_then(|()| way.send(stream, bulk, deadline));
        let done = done.and_then(|sent| match sent == head.bulk_bytes {
            true => Ok(()),
            false => Err(self.short_file(head.bulk_bytes, sent, false)),
        });
        done.map_err(|error| self.shared.end(error))
    }

    /// Leaves a frame without bulk to be sent with the next one, or by [`flush`](Sender::flush). It is sent at once when much has
    /// gathered, and lost if the sender is dropped before.
    ///
    /// # Errors
    /// As [`send`](Sender::send).
    pub fn queue(&self, kind: u16, body: &[u8], limit: Duration) -> Result<()> {
        if body.len() > SMALL_BYTES {
            return self.send(kind, body, Source::Nothing, limit);
        }
        let head = Head::new(kind, body.len(), 0)?;
        self.gather(head, body, Deadline::after(limit)).map(drop)
    }

    /// Sends what [`queue`](Sender::queue) left.
    ///
    /// # Errors
    /// As [`send`](Sender::send).
    pub fn flush(&self, limit: Duration) -> Result<()> {
        let last = lock(&self.queue).next;
        match last {
            0 => Ok(()),
            last => self.settle(last - 1, Deadline::after(limit)),
        }
    }

    fn short_file(&self, promised_bytes: u64, found_bytes: u64, is_intact: bool) -> Error {
        Error::ShortFile { peer: self.shared.peer, promised_bytes, found_bytes, is_intact }
    }

    /// A file that is too short is found before anything is promised to the peer, if it is so already.
    fn check_file(&self, bulk: Source<'_>) -> Result<()> {
        let Source::File { file, at, bytes } = bulk else { return Ok(()) };
        let length = file_bytes(file).map_err(|failure| {
            let source = crate::error::Os::from(&failure);
            Error::File { peer: self.shared.peer, call: failure.call, source, is_intact: true }
        })?;
        let found = length.saturating_sub(at);
        if found < bytes { Err(self.short_file(bytes, found, true)) } else { Ok(()) }
    }

    /// Puts a message to those that gather; its number.
    fn gather(&self, head: Head, body: &[u8], deadline: Deadline) -> Result<u64> {
        let bytes = HEAD_BYTES + body.len();
        let mut queue = lock(&self.queue);
        loop {
            self.shared.check()?;
            if queue.bytes.len() + bytes <= GATHERED_BYTES {
                break;
            }
            drop(queue);
            let turn = self.turn(deadline)?;
            self.write(turn, deadline)?;
            queue = lock(&self.queue);
        }
        queue.bytes.extend_from_slice(&head.encode());
        queue.bytes.extend_from_slice(body);
        let number = queue.next;
        queue.next += 1;
        queue.messages.push_back((number, bytes));
        Ok(number)
    }

    /// Sees to it that a message that gathered is written, by this thread or another.
    fn settle(&self, number: u64, deadline: Deadline) -> Result<()> {
        let mut queue = lock(&self.queue);
        loop {
            // What was written when the connection ended may have been lost.
            self.shared.check()?;
            if queue.written > number {
                return Ok(());
            }
            if !queue.is_busy {
                let turn = self.take_turn(&mut queue);
                drop(queue);
                return self.write(turn, deadline);
            }
            let is_waiting = queue.messages.iter().any(|(other, _)| *other == number);
            queue = match deadline.left() {
                Some(left) if left.is_zero() && is_waiting => {
                    queue.withdraw(number);
                    return Err(self.late(deadline));
                }
                // Another thread writes it already, by a deadline of its own.
                Some(left) if is_waiting => {
                    self.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0
                }
                _ => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn late(&self, deadline: Deadline) -> Error {
        Error::Timeout {
            peer: self.shared.peer,
            what: "what other threads send to",
            waited: deadline.waited(),
            is_intact: true,
        }
    }

    /// Waits until nobody else writes.
    fn turn(&self, deadline: Deadline) -> Result<Turn<'_>> {
        let mut queue = lock(&self.queue);
        loop {
            self.shared.check()?;
            if !queue.is_busy {
                return Ok(self.take_turn(&mut queue));
            }
            queue = match deadline.left() {
                Some(left) if left.is_zero() => return Err(self.late(deadline)),
                Some(left) => self.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn take_turn(&self, queue: &mut Queue) -> Turn<'_> {
        queue.is_busy = true;
        queue.messages.clear();
        let spare = std::mem::take(&mut queue.spare);
        Turn { sender: self, gathered: std::mem::replace(&mut queue.bytes, spare), until: queue.next }
    }

    fn write(&self, turn: Turn<'_>, deadline: Deadline) -> Result<()> {
        let done = lock(&self.wire).stream.send(&[&turn.gathered], deadline);
        done.map_err(|error| self.shared.end(error))
    }
}

impl Queue {
    /// Takes a message out again.
    fn withdraw(&mut self, number: u64) {
        let mut begin = 0;
        for (place, &(other, bytes)) in self.messages.iter().enumerate() {
            if other == number {
                self.bytes.drain(begin..begin + bytes);
                self.messages.remove(place);
                return;
            }
            begin += bytes;
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if self.shared.check().is_ok() {
            self.wire.get_mut().unwrap_or_else(PoisonError::into_inner).stream.close();
        }
    }
}
