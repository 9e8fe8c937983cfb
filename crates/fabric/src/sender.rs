//! Sends bulk in chunks, as many as the peer has granted.
//!
//! What was copied into chunks is on its way: whoever sent it may go on. As libfabric works only while it is asked, a thread asks until
//! the chunks are gone, unless somebody sends more and asks meanwhile. It sleeps while there is nothing to be done.

use crate::fi::{Endpoint, Event};
use crate::message::{self, CHUNK_BYTES, GRANT_BYTES, HEAD_BYTES, Head, Pass, WINDOW};
use crate::wait::{Pace, TOGETHER, Wait, Way};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use stillframe_kernel::socket::read_at;
use stillframe_link::{BulkSender, Deadline, Error, Line, Os, Outgoing, Result, Source};

/// Chunks that are on their way at once.
const UNDER_WAY: usize = 4;
/// How long a peer may take what was sent before this side closed.
const LINGER: Duration = Duration::from_secs(10);
/// Stack of the thread that asks.
const STACK_BYTES: usize = 256 << 10;

/// The direction out.
pub(crate) struct FabricSender {
    desk: Arc<Desk>,
}

/// What somebody who sends and the thread that asks share.
struct Desk {
    way: Way,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    courier: Courier,
    /// The connection that the bulk belongs to, once there is any.
    line: Option<Line>,
    /// What ended it.
    failure: Option<Error>,
    /// Whether somebody sends, who asks meanwhile.
    is_busy: bool,
    has_thread: bool,
    /// Since when nobody can send any more.
    closed: Option<Instant>,
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
    /// Chunks that wait to be given to libfabric, and their lengths.
    ready: VecDeque<(usize, usize)>,
    /// Chunks that libfabric has.
    under_way: usize,
    /// The number of the next chunk.
    next: u64,
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
    fn is_done(&self) -> bool {
        self.done == self.source.bytes()
    }

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

impl Courier {
    /// Memory for chunks, which many a connection never needs.
    fn prepare(&mut self) -> crate::Result<()> {
        if !self.has_chunks {
            self.free = self.endpoint.add(UNDER_WAY, HEAD_BYTES + CHUNK_BYTES)?.collect();
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

    /// Gives chunks to libfabric, as many as were granted; whether there were any.
    fn push(&mut self) -> crate::Result<bool> {
        let mut has_moved = false;
        while let Some(&(slot, bytes)) = self.ready.front()
            && self.sent < self.granted
            && self.endpoint.send(slot, bytes, self.theirs.tag)?
        {
            self.ready.pop_front();
            (self.sent, self.under_way, has_moved) = (self.sent + 1, self.under_way + 1, true);
        }
        Ok(has_moved)
    }

    /// Does what can be done; whether that was anything.
    fn work(&mut self, way: &Way) -> Result<bool> {
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
                    let granted = message::decode_grant(&message[..bytes], &self.own, self.sent, self.granted);
                    self.granted = granted.map_err(|what| way.malformed(what))?;
                    self.grants.push(slot);
                }
                Event::TooLong => return Err(way.malformed("a grant that is too long")),
                // The peer's endpoint is gone, or there is no way to it.
                Event::Failed { error } => return Err(way.error(error)),
            }
        }
        self.listen().map_err(|error| way.error(error))?;
        Ok(self.push().map_err(|error| way.error(error))? || has_moved)
    }

    /// Fills a free chunk, if there is one, and lets it wait to be sent; how many bytes that were.
    fn fill(&mut self, rest: &mut Rest<'_>, way: &Way) -> Result<Option<usize>> {
        let Some(&slot) = self.free.last() else { return Ok(None) };
        let place = self.endpoint.bytes_mut(slot).map_err(|error| way.error(error))?;
        let (head, bulk) = place.split_at_mut(HEAD_BYTES);
        let bytes = rest.fill(bulk, way)?;
        if bytes > 0 {
            let head_of = Head { number: self.next, bytes, is_last: rest.is_done() };
            head.copy_from_slice(&head_of.encode(&self.theirs));
            self.free.pop();
            self.ready.push_back((slot, HEAD_BYTES + bytes));
            self.next += 1;
        }
        Ok(Some(bytes))
    }

    /// Whether libfabric has nothing more to do.
    fn is_idle(&self) -> bool {
        self.under_way == 0 && self.ready.is_empty()
    }

    /// Whether the peer has taken all that was sent.
    fn is_all_taken(&self) -> bool {
        self.is_idle() && (self.sent == 0 || self.granted == self.sent + WINDOW)
    }
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, source: Source<'_>, deadline: Deadline) -> Result<u64> {
        let whole = source.bytes();
        let mut rest = Rest { source, done: 0, piece: (0, 0) };
        let mut wait = Wait::new(&self.way, "sending to", deadline);
        loop {
            let (has_moved, line) = {
                let State { courier, failure, line, .. } = &mut *self.state();
                if let Some(failure) = failure {
                    return Err(failure.clone());
                }
                let mut has_moved = courier.work(&self.way)?;
                match courier.fill(&mut rest, &self.way)? {
                    Some(0) => return Ok(rest.done),
                    Some(_) if rest.is_done() => {
                        courier.push().map_err(|error| self.way.error(error))?;
                        return Ok(whole);
                    }
                    Some(_) => has_moved = true,
                    None => {}
                }
                (has_moved, line.clone())
            };
            if has_moved {
                wait.go_on()?;
            } else if wait.pause()? {
                if line.is_some_and(|line| line.has_hung_up()) {
                    return Err(self.way.closed());
                }
                self.way.check_silence(wait.pace())?;
            }
        }
    }

    /// What the thread does: asks while there is something on its way and nobody sends, until all is done and nobody can send.
    fn run(&self) {
        let mut pace = Pace::new();
        let mut state = self.state();
        loop {
            let is_done = match state.closed {
                Some(closed) => state.courier.is_all_taken() || closed.elapsed() > LINGER,
                None => false,
            };
            if is_done || self.way.has_ended() || state.failure.is_some() {
                return;
            }
            if state.is_busy || state.closed.is_none() && state.courier.is_idle() {
                pace = Pace::new();
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            match self.ask(&mut state, &mut pace) {
                Ok(true) => pace = Pace::new(),
                Ok(false) => {
                    drop(state);
                    pace.pause();
                    state = self.state();
                }
                Err(error) => {
                    // Whoever waits on either side learns it.
                    if let Some(line) = &state.line {
                        line.end();
                    }
                    state.failure = Some(error);
                }
            }
        }
    }

    fn ask(&self, state: &mut State, pace: &mut Pace) -> Result<bool> {
        let has_moved = state.courier.work(&self.way)?;
        if !has_moved {
            if state.line.as_ref().is_some_and(Line::has_hung_up) {
                return Err(self.way.closed());
            }
            self.way.check_silence(pace)?;
        }
        Ok(has_moved)
    }

    /// Leaves the rest to a thread.
    fn leave(self: &Arc<Self>) -> Result<()> {
        let mut state = self.state();
        state.is_busy = false;
        self.changed.notify_all();
        if state.has_thread || state.courier.is_idle() && state.closed.is_none() {
            return Ok(());
        }
        let own = Arc::clone(self);
        let thread = thread::Builder::new().name("still-fabric".into()).stack_size(STACK_BYTES);
        let started = thread.spawn(move || own.run());
        started.map_err(|_| Error::NoMemory { what: "a thread that sends bulk".into() })?;
        state.has_thread = true;
        Ok(())
    }
}

impl FabricSender {
    /// Sends by an endpoint that knows its peer, and lets grants come.
    ///
    /// # Errors
    /// Those of libfabric.
    pub(crate) fn new(way: Way, mut endpoint: Endpoint, theirs: Pass, own: Pass) -> crate::Result<FabricSender> {
        let grants = endpoint.add(WINDOW as usize + 2, GRANT_BYTES)?.collect();
        let mut courier = Courier {
            endpoint,
            theirs,
            own,
            grants,
            free: Vec::new(),
            has_chunks: false,
            ready: VecDeque::new(),
            under_way: 0,
            next: 0,
            sent: 0,
            granted: 0,
        };
        courier.listen()?;
        let state = State { courier, line: None, failure: None, is_busy: false, has_thread: false, closed: None };
        Ok(FabricSender { desk: Arc::new(Desk { way, state: Mutex::new(state), changed: Condvar::new() }) })
    }
}

impl BulkSender for FabricSender {
    fn send(&mut self, stream: &mut Outgoing, source: Source<'_>, deadline: Deadline) -> Result<u64> {
        if source.bytes() == 0 {
            return Ok(0);
        }
        let way = &self.desk.way;
        {
            let mut state = self.desk.state();
            state.courier.prepare().map_err(|error| way.error(error))?;
            state.is_busy = true;
            state.line.get_or_insert_with(|| stream.line());
        }
        let sent = self.desk.send(source, deadline).map_err(|error| match error {
            Error::Fabric { .. } if way.is_gone(&stream.line()) => way.closed(),
            other => other,
        });
        let left = self.desk.leave();
        sent.and_then(|sent| left.map(|()| sent))
    }
}

/// libfabric forgets what the peer has not taken when an endpoint is closed. So the thread keeps this one a little, as the kernel does
/// with a connection of TCP.
impl Drop for FabricSender {
    fn drop(&mut self) {
        let is_all_taken = {
            let mut state = self.desk.state();
            state.closed = Some(Instant::now());
            state.courier.is_all_taken() || state.failure.is_some()
        };
        if !is_all_taken && !self.desk.way.has_ended() {
            // Without a thread the peer learns that bytes are missing.
            let _ = self.desk.leave();
        } else {
            self.desk.changed.notify_all();
        }
    }
}
