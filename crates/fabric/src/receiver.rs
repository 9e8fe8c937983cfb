//! Receives bulk in chunks, and grants as many as there is room for.

use crate::fi::{Endpoint, Event};
use crate::message::{self, CHUNK_BYTES, HEAD_BYTES, Head, Pass, WINDOW};
use crate::wait::{TOGETHER, Wait, Way};
use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::time::Duration;
use stillframe_link::{BulkReceiver, Deadline, Error, Incoming, Line, Result};

/// How long after a peer has ended the connection nothing may come before nothing more is waited for.
const QUIET: Duration = Duration::from_millis(250);
/// Chunks that are taken before the peer is told, unless a frame ends.
const TOLD_CHUNKS: u64 = WINDOW / 4;

/// The direction in.
pub(crate) struct FabricReceiver {
    way: Way,
    endpoint: Endpoint,
    /// What chunks carry.
    own: Pass,
    /// What grants carry.
    theirs: Pass,
    /// Slots that are to be given to libfabric.
    free: Vec<usize>,
    has_slots: bool,
    /// Chunks that have come, by their numbers.
    come: BTreeMap<u64, Chunk>,
    /// The chunk that is read, and how much of it was.
    current: Option<(Chunk, usize)>,
    /// The number of the next chunk to be read.
    next: u64,
    /// Chunks that there was room for since the begin, and how many of them the peer was told.
    granted: u64,
    told: u64,
    /// Whether the peer is to be told at once.
    is_due: bool,
}

#[derive(Debug, Clone, Copy)]
struct Chunk {
    slot: usize,
    bytes: usize,
    is_last: bool,
}

/// Where bytes go.
enum Into<'i, 'p> {
    Pieces(&'i mut [IoSliceMut<'p>]),
    Nowhere,
}

impl FabricReceiver {
    pub(crate) fn new(way: Way, endpoint: Endpoint, own: Pass, theirs: Pass) -> FabricReceiver {
        let (free, has_slots, come, current) = (Vec::new(), false, BTreeMap::new(), None);
        let (next, granted, told, is_due) = (0, 0, 0, false);
        FabricReceiver { way, endpoint, own, theirs, free, has_slots, come, current, next, granted, told, is_due }
    }

    /// Memory for chunks, which many a connection never needs.
    fn prepare(&mut self) -> Result<()> {
        if !self.has_slots {
            let slots = self.endpoint.add(WINDOW as usize, HEAD_BYTES + CHUNK_BYTES);
            self.free = slots.map_err(|error| self.way.error(error))?.collect();
            (self.has_slots, self.is_due) = (true, true);
        }
        Ok(())
    }

    /// Takes what has come; whether anything has.
    fn look(&mut self) -> Result<bool> {
        let mut has_moved = false;
        for _ in 0..TOGETHER {
            let Some(event) = self.endpoint.poll().map_err(|error| self.way.error(error))? else { break };
            match event {
                Event::Received { slot, bytes } => self.take(slot, bytes)?,
                Event::TooLong => return Err(self.way.malformed("a chunk that is too long")),
                // The peer went while it was sending.
                Event::Failed { error } => return Err(self.way.error(error)),
                Event::Sent { .. } => {}
            }
            has_moved = true;
        }
        Ok(has_moved)
    }

    fn take(&mut self, slot: usize, bytes: usize) -> Result<()> {
        let message = self.endpoint.bytes(slot).map_err(|error| self.way.error(error))?;
        let head = Head::decode(&message[..bytes], &self.own).map_err(|what| self.way.malformed(what))?;
        let Head { number, bytes, is_last } = head;
        let is_new = (self.next..self.told).contains(&number) && !self.come.contains_key(&number);
        if !is_new {
            return Err(self.way.malformed("a chunk that was not granted, or that came before"));
        }
        self.come.insert(number, Chunk { slot, bytes, is_last });
        Ok(())
    }

    /// Gives free slots to libfabric, and tells the peer.
    fn grant(&mut self) -> Result<()> {
        while let Some(&slot) = self.free.last() {
            if !self.endpoint.receive(slot, self.own.tag).map_err(|error| self.way.error(error))? {
                break;
            }
            self.free.pop();
            self.granted += 1;
        }
        if self.granted - self.told >= TOLD_CHUNKS || self.is_due && self.granted > self.told {
            let grant = message::encode_grant(self.granted, &self.theirs);
            if self.endpoint.inject(&grant, self.theirs.tag).map_err(|error| self.way.error(error))? {
                (self.told, self.is_due) = (self.granted, !self.free.is_empty());
            }
        }
        Ok(())
    }

    /// The chunk to be read now, and how much of it was.
    fn current(&mut self) -> Option<(Chunk, usize)> {
        if self.current.is_none()
            && let Some(chunk) = self.come.remove(&self.next)
        {
            self.next += 1;
            self.current = Some((chunk, 0));
        }
        self.current
    }

    /// Reads as much of chunks that are here as is wanted; how much that was.
    fn read(&mut self, into: &mut Into<'_, '_>, wanted: u64) -> Result<u64> {
        let mut count = 0;
        while count < wanted
            && let Some((chunk, at)) = self.current()
        {
            let some = (chunk.bytes - at).min(usize::try_from(wanted - count).unwrap_or(usize::MAX));
            if let Into::Pieces(pieces) = into {
                let bytes = self.endpoint.bytes(chunk.slot).map_err(|error| self.way.error(error))?;
                scatter(pieces, &bytes[HEAD_BYTES + at..][..some]);
            }
            count += some as u64;
            self.current = Some((chunk, at + some));
            if at + some == chunk.bytes {
                self.current = None;
                self.free.push(chunk.slot);
                self.is_due |= chunk.is_last;
                self.grant()?;
            }
        }
        Ok(count)
    }

    fn run(&mut self, stream: &Incoming, into: Into<'_, '_>, wanted: u64, deadline: Deadline) -> Result<u64> {
        if wanted == 0 {
            return Ok(0);
        }
        self.prepare()?;
        let (line, mut count) = (stream.line(), 0);
        match self.wait(&line, into, wanted, &mut count, deadline) {
            Err(Error::Fabric { .. }) if !self.way.has_ended() && self.way.is_gone(&line) => Ok(count),
            Err(error) => Err(error),
            Ok(()) => Ok(count),
        }
    }

    /// Reads so many bytes, and counts them. They are fewer if the peer ends the connection.
    fn wait(
        &mut self,
        line: &Line,
        mut into: Into<'_, '_>,
        wanted: u64,
        count: &mut u64,
        deadline: Deadline,
    ) -> Result<()> {
        let way = self.way.clone();
        let mut wait = Wait::new(&way, "receiving from", deadline);
        loop {
            let has_come = self.look()?;
            let read = self.read(&mut into, wanted - *count)?;
            *count += read;
            self.grant()?;
            if *count == wanted {
                return Ok(());
            }
            if has_come || read > 0 {
                wait.go_on()?;
            } else if wait.pause()? && wait.pace().quiet() >= QUIET && line.has_hung_up() {
                return Ok(());
            }
        }
    }
}

/// Copies bytes to where pieces begin, and takes that off the pieces.
fn scatter(pieces: &mut [IoSliceMut<'_>], mut bytes: &[u8]) {
    for piece in pieces {
        let some = piece.len().min(bytes.len());
        piece[..some].copy_from_slice(&bytes[..some]);
        piece.advance(some);
        bytes = &bytes[some..];
        if bytes.is_empty() {
            break;
        }
    }
}

impl BulkReceiver for FabricReceiver {
    fn receive(&mut self, stream: &mut Incoming, into: &mut [IoSliceMut<'_>], deadline: Deadline) -> Result<u64> {
        let wanted = into.iter().map(|piece| piece.len() as u64).sum();
        self.run(stream, Into::Pieces(into), wanted, deadline)
    }

    fn skip(&mut self, stream: &mut Incoming, bytes: u64, deadline: Deadline) -> Result<u64> {
        self.run(stream, Into::Nowhere, bytes, deadline)
    }
}
