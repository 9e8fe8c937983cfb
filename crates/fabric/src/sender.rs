//! Sends bulk in chunks, as many as the peer has granted.

use crate::fi::{Endpoint, Event};
use crate::message::{self, CHUNK_BYTES, GRANT_BYTES, HEAD_BYTES, Head, Pass, WINDOW};
use crate::wait::{TOGETHER, Wait, Way};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use stillframe_kernel::socket::read_at;
use stillframe_link::{BulkSender, Deadline, Error, Os, Outgoing, Result, Source};

/// Chunks that are on their way at once.
const UNDER_WAY: usize = 4;
/// How long a peer may take what was sent before this side closed.
const LINGER: Duration = Duration::from_secs(10);

/// The direction out.
pub(crate) struct FabricSender {
    way: Way,
    /// There until this is dropped.
    courier: Option<Courier>,
}

/// An endpoint that sends, and how far it is.
struct Courier {
    endpoint: Endpoint,
    /// What chunks carry.
    theirs: Pass,
    /// What grants carry.
    own: Pass,
    /// Slots for grants that are to be given to libfabric.
    grants: Vec<usize>,
    /// Slots for chunks that are free.
    free: Vec<usize>,
    has_chunks: bool,
    /// Chunks that libfabric has.
    under_way: usize,
    /// Chunks that were given to libfabric since the begin.
    sent: u64,
    granted: u64,
}

/// What is still to be read of a source.
struct Rest<'s> {
    source: Source<'s>,
    /// Bytes that were read.
    done: u64,
    /// The piece that is read, and how much of it was.
    piece: (usize, usize),
}

impl Rest<'_> {
    /// Fills as much as there is; how much that was.
    fn fill(&mut self, into: &mut [u8], way: &Way) -> Result<usize> {
        let left = usize::try_from(self.source.bytes() - self.done).unwrap_or(usize::MAX);
        let wanted = into.len().min(left);
        let into = &mut into[..wanted];
        match self.source {
            Source::Nothing => {}
            Source::Bytes(bytes) => into.copy_from_slice(&bytes[self.done as usize..][..wanted]),
            Source::Pieces(pieces) => self.fill_from(pieces, into),
            Source::File { file, at, .. } => {
                let mut filled = 0;
                while filled < wanted {
                    let place = at.saturating_add(self.done + filled as u64);
                    match read_at(file, &mut into[filled..], place) {
                        Ok(0) => break,
                        Ok(count) => filled += count,
                        Err(failure) => {
                            let (peer, source) = (way.peer, Os::from(&failure));
                            return Err(Error::File { peer, call: failure.call, source, is_intact: false });
                        }
                    }
                }
                self.done += filled as u64;
                return Ok(filled);
            }
        }
        self.done += wanted as u64;
        Ok(wanted)
    }

    fn fill_from(&mut self, pieces: &[&[u8]], into: &mut [u8]) {
        let (mut filled, (mut number, mut at)) = (0, self.piece);
        while filled < into.len() {
            let rest = &pieces[number][at..];
            let some = rest.len().min(into.len() - filled);
            into[filled..filled + some].copy_from_slice(&rest[..some]);
            filled += some;
            (number, at) = if some == rest.len() { (number + 1, 0) } else { (number, at + some) };
        }
        self.piece = (number, at);
    }
}

impl FabricSender {
    /// Sends by an endpoint that knows its peer, and lets grants come.
    ///
    /// # Errors
    /// Those of libfabric.
    pub(crate) fn new(way: Way, mut endpoint: Endpoint, theirs: Pass, own: Pass) -> crate::Result<FabricSender> {
        let grants = endpoint.add(WINDOW as usize + 2, GRANT_BYTES)?.collect();
        let (free, has_chunks, under_way, sent, granted) = (Vec::new(), false, 0, 0, 0);
        let mut courier = Courier { endpoint, theirs, own, grants, free, has_chunks, under_way, sent, granted };
        courier.listen()?;
        Ok(FabricSender { way, courier: Some(courier) })
    }
}

impl Courier {
    /// Memory for chunks, which many a connection never needs.
    fn prepare(&mut self, way: &Way) -> Result<()> {
        if !self.has_chunks {
            let slots = self.endpoint.add(UNDER_WAY, HEAD_BYTES + CHUNK_BYTES).map_err(|error| way.error(error))?;
            self.free = slots.collect();
            self.has_chunks = true;
        }
        Ok(())
    }

    /// Lets grants come.
    fn listen(&mut self) -> crate::Result<()> {
        while let Some(&slot) = self.grants.last()
            && self.endpoint.receive(slot, self.own.tag)?
        {
            self.grants.pop();
        }
        Ok(())
    }

    /// Takes what has happened; whether anything has.
    fn look(&mut self, way: &Way) -> Result<bool> {
        let mut has_moved = false;
        for _ in 0..TOGETHER {
            let Some(event) = self.endpoint.poll().map_err(|error| way.error(error))? else { break };
            has_moved = true;
            match event {
                Event::Sent { slot } => {
                    self.under_way -= 1;
                    self.free.push(slot);
                }
                Event::Received { slot, bytes } => {
                    let message = self.endpoint.bytes(slot).map_err(|error| way.error(error))?;
                    let message = &message[..bytes];
                    let granted = message::decode_grant(message, &self.own, self.sent, self.granted);
                    self.granted = granted.map_err(|what| way.malformed(what))?;
                    self.grants.push(slot);
                }
                // The peer's endpoint is gone, or there is no way to it.
                Event::Failed { is_send: true, error } => return Err(way.error(error)),
                Event::Failed { is_send: false, .. } => return Err(way.malformed("a grant that is too long")),
            }
        }
        self.listen().map_err(|error| way.error(error))?;
        Ok(has_moved)
    }

    /// Whether the peer has taken all that was sent.
    fn is_all_taken(&self) -> bool {
        self.under_way == 0 && self.granted == self.sent + WINDOW
    }

    fn send(&mut self, way: &Way, stream: &Outgoing, source: Source<'_>, deadline: Deadline) -> Result<u64> {
        self.prepare(way)?;
        let whole = source.bytes();
        let mut rest = Rest { source, done: 0, piece: (0, 0) };
        let mut wait = Wait::new(way, "sending to", deadline);
        // A chunk that is ready to be sent.
        let mut ready: Option<(usize, usize)> = None;
        loop {
            let mut has_moved = self.look(way)?;
            if ready.is_none()
                && rest.done < whole
                && let Some(slot) = self.free.pop()
            {
                let place = self.endpoint.bytes_mut(slot).map_err(|error| way.error(error))?;
                let (head, bulk) = place.split_at_mut(HEAD_BYTES);
                let bytes = rest.fill(bulk, way)?;
                if bytes == 0 {
                    return Ok(rest.done);
                }
                let number = self.sent;
                head.copy_from_slice(&Head { number, bytes, is_last: rest.done == whole }.encode(&self.theirs));
                ready = Some((slot, HEAD_BYTES + bytes));
            }
            if let Some((slot, bytes)) = ready
                && self.sent < self.granted
                && self.endpoint.send(slot, bytes, self.theirs.tag).map_err(|error| way.error(error))?
            {
                (self.sent, self.under_way, ready, has_moved) = (self.sent + 1, self.under_way + 1, None, true);
            }
            if rest.done == whole && ready.is_none() && self.under_way == 0 {
                return Ok(whole);
            }
            if has_moved {
                wait.go_on()?;
            } else if wait.pause()? {
                if stream.has_hung_up() {
                    return Err(Error::Closed { peer: way.peer, missing_bytes: 0 });
                }
                wait.check_silence()?;
            }
        }
    }
}

impl BulkSender for FabricSender {
    fn send(&mut self, stream: &mut Outgoing, source: Source<'_>, deadline: Deadline) -> Result<u64> {
        if source.bytes() == 0 {
            return Ok(0);
        }
        let gone = Error::Closed { peer: self.way.peer, missing_bytes: 0 };
        let Some(courier) = &mut self.courier else { return Err(gone) };
        courier.send(&self.way, stream, source, deadline).map_err(|error| match error {
            // libfabric notices before TCP does that the other side is gone.
            Error::Fabric { .. } if is_gone(stream) => gone,
            other => other,
        })
    }
}

/// Whether the peer ends the connection in a moment.
fn is_gone(stream: &Outgoing) -> bool {
    let begin = Instant::now();
    while !stream.has_hung_up() {
        if begin.elapsed() > Duration::from_millis(250) {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

/// libfabric forgets what the peer has not taken when an endpoint is closed. So a thread keeps this one a little, as the kernel does
/// with a connection of TCP.
impl Drop for FabricSender {
    fn drop(&mut self) {
        let Some(mut courier) = self.courier.take().filter(|courier| courier.sent > 0) else { return };
        let way = self.way.clone();
        if courier.is_all_taken() || way.has_ended.load(Ordering::Acquire) {
            return;
        }
        let linger = move || {
            let begin = Instant::now();
            while courier.look(&way).is_ok() && !courier.is_all_taken() && begin.elapsed() < LINGER {
                thread::sleep(Duration::from_millis(1));
            }
        };
        // Without a thread the peer learns that bytes are missing.
        let _ = thread::Builder::new().name("still-linger".into()).stack_size(256 << 10).spawn(linger);
    }
}
