//! Versions of this node's writers, for fragments that processes of other nodes read.

use crate::ahead::ahead;
use crate::network::{Outgoing, Transmission};
use drepl::clip::part;
use drepl::executor::Executor;
use drepl::transfer::{Move, Side, Transfer};
use drepl::{Fragment, Source, Wanted};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use stillframe::{Snapshot, View};
use stillframe_kernel::points;
use stillframe_roster::readiness::Cause;
use stillframe_roster::writer::{Version, Who, Writer};
use stillframe_wire::Message;
use stillframe_wire::bounds::BODY_BYTES_MAX;
use stillframe_wire::data::{FragmentText, Lost, Piece, Sent, SourceShare, Sources, Unchanged};

/// Bytes that are packed and sent at once: they stay in a processor's cache until they were sent.
const PIECE_BYTES: u64 = 1 << 20;

/// Where more moves are told than these, pieces are larger and fewer: the other node looks through all of them for each piece.
const MOVES_WANTED: usize = 1 << 14;

/// No piece is larger for that: both nodes have memory for one.
const PIECE_BYTES_MOST: u64 = 256 << 20;

/// The same of bytes that lie together, which are sent from where they lie.
const TOGETHER_BYTES: u64 = 4 << 20;

/// Of a cache.
const LINE_BYTES: u64 = 64;

/// Fewer bytes that lie together and did not change are sent with those around them.
const UNCHANGED_BYTES: u64 = 64 << 10;

/// A fragment of another node, and what it waits for.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) layout: FragmentText,
    pub(crate) fragment: Arc<Fragment>,
    pub(crate) version: Version,
    /// Which version of these writers' elements it has.
    pub(crate) has: Option<Version>,
    pub(crate) writers: Vec<Writer>,
    /// Whether the version was sent.
    pub(crate) is_served: bool,
    /// What is sent of these writers, once it is known.
    pub(crate) planned: Option<(Vec<Writer>, Arc<Planned>)>,
    /// The version, from when it is to be sent.
    pub(crate) held: Held,
}

/// What is sent of each version of some writers.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) cargo: Vec<Cargo>,
    /// Whether the other node was told where the pieces go.
    pub(crate) is_told: AtomicBool,
    /// Whether that is more than a message says, and nothing can be sent.
    pub(crate) is_too_long: bool,
}

impl Planned {
    pub(crate) fn new(ways: Vec<Way>) -> Planned {
        let cargo: Vec<Cargo> = ways.into_iter().map(Cargo::new).collect();
        let mut planned = Planned { cargo, is_told: AtomicBool::new(false), is_too_long: false };
        let mut body = Vec::new();
        planned.sources(0, 0).encode(&mut body);
        planned.is_too_long = body.len() > BODY_BYTES_MAX;
        planned
    }

    /// What the other node is told: where the pieces go.
    fn sources(&self, subscription: u64, epoch: Version) -> Message {
        let shares = self.cargo.iter().map(|one| one.share.clone()).collect();
        Message::Sources(Sources { subscription, epoch, shares })
    }
}

/// A version that is held until it is sent, or until nobody waits for it any more: a slow link keeps nothing else of a writer.
#[derive(Debug, Default)]
pub(crate) struct Held(Arc<Mutex<Option<Snapshots>>>);

/// Of each writer.
#[derive(Debug)]
pub(crate) struct Snapshots {
    pub(crate) new: Vec<Snapshot>,
    /// The same in a version that the other node has.
    pub(crate) older: Option<Vec<Snapshot>>,
}

impl Held {
    pub(crate) fn new(snapshots: Snapshots) -> Held {
        Held(Arc::new(Mutex::new(Some(snapshots))))
    }

    fn take(&self) -> Option<Snapshots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.take();
    }
}

/// How a writer's elements come into a fragment.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    pub(crate) writer: Writer,
    /// What the writer's region calls its bytes.
    pub(crate) variable: String,
    pub(crate) transfer: Transfer,
}

/// What is sent of a writer, piece by piece.
#[derive(Debug)]
pub(crate) struct Cargo {
    variable: String,
    /// What the other node is told: how all pieces, one after the other, come into the fragment.
    share: SourceShare,
    pieces: Vec<Packed>,
}

/// A piece of a share.
#[derive(Debug)]
struct Packed {
    /// The bytes of the variable that it is made of.
    window: Range<u64>,
    /// How it is made of them.
    pack: Transfer,
    bytes: u64,
}

/// Some of a piece: all of it, or a part of one whose bytes lie together.
#[derive(Debug)]
struct Stretch<'p> {
    piece: &'p Packed,
    /// The bytes of the variable that it is made of.
    range: Range<u64>,
    bytes: u64,
    /// Whether they are to be sent, since the other node has others.
    is_new: bool,
}

impl Stretch<'_> {
    /// Whether its bytes are packed before they are sent.
    fn is_packed(&self) -> bool {
        self.is_new && self.piece.run().is_none()
    }
}

impl Packed {
    /// Which bytes of the variable it is, if these lie together.
    fn run(&self) -> Option<Range<u64>> {
        let (from, _) = self.pack.only_run()?;
        let begin = self.window.start + from;
        Some(begin..begin + self.bytes)
    }

    /// What is sent of it, one after the other. Where bytes have changed is said ascending.
    fn stretches(&self, changed: Option<&[Range<usize>]>) -> Vec<Stretch<'_>> {
        let stretch = |range, bytes, is_new| Stretch { piece: self, range, bytes, is_new };
        let part = |range: Range<u64>, is_new| stretch(range.clone(), range.end - range.start, is_new);
        let whole = self.run().unwrap_or_else(|| self.window.clone());
        let Some(changed) = changed else { return vec![stretch(whole, self.bytes, true)] };
        let first = changed.partition_point(|range| range.end as u64 <= whole.start);
        let changed = changed[first..].iter().map(|range| range.start as u64..range.end as u64);
        let mut changed = changed.take_while(|range| range.start < whole.end).peekable();
        if self.run().is_none() {
            let is_new = changed.peek().is_some();
            return vec![stretch(whole, self.bytes, is_new)];
        }
        let (mut all, mut at) = (Vec::new(), whole.start);
        while let Some(range) = changed.next() {
            let (begin, mut end) = (range.start.max(at), range.end.min(whole.end));
            // What is short and unchanged takes less time to be sent along.
            while let Some(next) = changed.next_if(|next| next.start < end + UNCHANGED_BYTES) {
                end = next.end.min(whole.end);
            }
            let begin = if begin - at < UNCHANGED_BYTES { at } else { begin };
            let end = if whole.end - end < UNCHANGED_BYTES { whole.end } else { end };
            all.extend((begin > at).then(|| part(at..begin, false)));
            all.push(part(begin..end, true));
            at = end;
        }
        all.extend((whole.end > at).then(|| part(at..whole.end, false)));
        all
    }
}

impl Cargo {
    /// Divides what goes this way by where it comes from: what lies near each other is read once.
    fn new(way: Way) -> Cargo {
        let Way { writer, variable, transfer } = way;
        let is_together = transfer.pack().only_run().is_some();
        let mut wanted = if is_together { TOGETHER_BYTES } else { PIECE_BYTES };
        loop {
            let (pieces, unpack, bytes) = divide(&transfer, wanted);
            let excess = unpack.len() / MOVES_WANTED;
            if excess > 0 && pieces.len() > 1 && wanted < PIECE_BYTES_MOST {
                wanted = wanted.saturating_mul((excess as u64 + 1).next_power_of_two()).min(PIECE_BYTES_MOST);
                continue;
            }
            // The parts write no byte twice, for the whole does not.
            let transfer = Transfer::new(unpack).unwrap_or_default();
            return Cargo { variable, share: SourceShare { writer, transfer, bytes }, pieces };
        }
    }

    pub(crate) fn writer(&self) -> Writer {
        self.share.writer
    }
}

/// Pieces of about so many bytes, where all of them, one after the other, go, and how many bytes they have.
fn divide(transfer: &Transfer, wanted: u64) -> (Vec<Packed>, Vec<Move>, u64) {
    let (all, moved) = (transfer.source_bytes(), transfer.moved_bytes());
    // As many bytes of the source as make a piece; whole cache lines, so that few elements are cut.
    let step = u128::from(wanted) * u128::from(all) / u128::from(moved.max(1));
    let step = u64::try_from(step.max(1)).unwrap_or(u64::MAX).checked_next_multiple_of(LINE_BYTES).unwrap_or(u64::MAX);
    let (mut pieces, mut unpack, mut bytes) = (Vec::new(), Vec::new(), 0);
    let mut begin = transfer.source_begin();
    while begin < all {
        let end = all.min(begin.saturating_add(step));
        let one = part(transfer, Side::Source, begin..end);
        // A number that is converted is read whole, where its first bytes lie.
        let window = begin..end.max(begin + one.source_bytes());
        let moved = one.moved_bytes();
        if moved > 0 {
            unpack.extend(one.unpack().moves().iter().map(|each| Move { from: each.from + bytes, ..each.clone() }));
            pieces.push(Packed { window, pack: one.pack(), bytes: moved });
            bytes += moved;
        }
        begin = end;
    }
    (pieces, unpack, bytes)
}

/// A writer, its fragment, and what its region calls the bytes.
pub(crate) type Origin = (Writer, Arc<Fragment>, String);

/// Plans how elements of writers' fragments come into another: a way for each of them, also for one that has nothing to give, for
/// somebody waits for it.
pub(crate) fn plan(wanted: &Fragment, origins: &[Origin]) -> Result<Vec<Way>, drepl::PlanError> {
    let source = |(_, fragment, _): &Origin| Source { fragment: fragment.clone(), version: 0, cost: 0, readable: true };
    let sources: Vec<Source> = origins.iter().map(source).collect();
    let mut plan = drepl::plan(&Wanted { fragment: wanted, versions: 0..=0 }, &sources)?;
    let mut take = |position: usize| {
        let found = plan.transfers.iter_mut().find(|(source, _)| *source == position);
        found.map(|(_, transfer)| std::mem::take(transfer)).unwrap_or_default()
    };
    let ways = origins.iter().enumerate();
    let way = |(position, (writer, _, variable)): (usize, &Origin)| Way {
        writer: *writer,
        variable: variable.clone(),
        transfer: take(position),
    };
    Ok(ways.map(way).collect())
}

/// A version that has to be sent.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) subscription: u64,
    pub(crate) version: Version,
    pub(crate) planned: Arc<Planned>,
    /// The version, unless nobody waits for it any more.
    snapshots: Arc<Mutex<Option<Snapshots>>>,
}

impl Job {
    pub(crate) fn new(subscription: u64, version: Version, planned: Arc<Planned>, held: &Held) -> Job {
        Job { subscription, version, planned, snapshots: held.0.clone() }
    }
}

impl Transmission for Job {
    /// What cannot be read is told to who waits.
    fn run(self: Box<Self>, to: &mut dyn Outgoing) -> io::Result<()> {
        let Job { subscription, version, planned, snapshots } = *self;
        let taken = snapshots.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Snapshots { new: snapshots, older }) = taken else { return Ok(()) };
        if !planned.is_told.swap(true, Ordering::SeqCst) {
            to.send(planned.sources(subscription, version), &[])?;
            points::hit("send.told");
        }
        let published_ns = snapshots.iter().map(Snapshot::published_ns).max().unwrap_or(0);
        let mut sending = Sending { to, subscription, version };
        for (share, (one, snapshot)) in planned.cargo.iter().zip(snapshots).enumerate() {
            let changed = older.as_ref().and_then(|older| snapshot.changed(&older[share], &one.variable).ok());
            match sending.send(share as u32, one, snapshot, changed.as_deref()) {
                Ok(()) => {}
                Err(Failed::Connection(error)) => return Err(error),
                Err(Failed::Source) => {
                    let who = Some(Who { writer: one.writer(), rank: None });
                    let lost = Lost { subscription, version, cause: Cause::Gone, who };
                    return sending.to.send(Message::Lost(lost), &[]);
                }
            }
        }
        points::hit("send.pieces");
        sending.to.send(Message::Sent(Sent { subscription, version, published_ns }), &[])
    }
}

/// Why a share was not sent.
enum Failed {
    /// The version cannot be read.
    Source,
    /// The connection has ended.
    Connection(io::Error),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::Connection(error)
    }
}

/// Where pieces of a version go.
struct Sending<'a> {
    to: &'a mut dyn Outgoing,
    subscription: u64,
    version: Version,
}

impl Sending<'_> {
    /// Sends a share. `changed` says where its writer's bytes differ from those that the other node has, if it has any.
    fn send(
        &mut self,
        share: u32,
        cargo: &Cargo,
        snapshot: Snapshot,
        changed: Option<&[Range<usize>]>,
    ) -> Result<(), Failed> {
        let content = Content::new(&snapshot, &cargo.variable)?;
        let stretches: Vec<Stretch<'_>> = cargo.pieces.iter().flat_map(|piece| piece.stretches(changed)).collect();
        let packed: Vec<&Stretch<'_>> = stretches.iter().filter(|one| one.is_packed()).collect();
        // While a piece is sent the next one is packed.
        ahead(&packed, |one, memory| content.pack(one, memory), |next| self.send_all(share, &stretches, &content, next))
    }

    fn send_all(
        &mut self,
        share: u32,
        stretches: &[Stretch<'_>],
        content: &Content<'_>,
        next_packed: &mut dyn FnMut(Memory) -> Option<Result<Memory, Failed>>,
    ) -> Result<(), Failed> {
        let (subscription, version) = (self.subscription, self.version);
        let (mut offset, mut memory) = (0, Memory::default());
        for one in stretches {
            let bytes = one.bytes;
            if !one.is_new {
                let unchanged = Unchanged { subscription, version, share, offset, bytes };
                self.to.send(Message::Unchanged(unchanged), &[])?;
            } else {
                let head = Message::Piece(Piece { subscription, version, share, offset });
                let bulk = if one.is_packed() {
                    memory = next_packed(memory).ok_or(Failed::Source)??;
                    &memory.packed
                } else {
                    content.bytes(&one.range, &mut memory.window)?
                };
                self.to.send(head, bulk)?;
            }
            offset += bytes;
        }
        Ok(())
    }
}

/// Memory for a piece.
#[derive(Default)]
struct Memory {
    packed: Vec<u8>,
    /// What it is packed of, if that has to be copied first.
    window: Vec<u8>,
}

/// The bytes of a variable.
struct Content<'a> {
    snapshot: &'a Snapshot,
    variable: &'a str,
    /// Where they lie. Another user could cut the file short meanwhile: of his there are only copies.
    view: Option<View>,
}

impl<'a> Content<'a> {
    fn new(snapshot: &'a Snapshot, variable: &'a str) -> Result<Content<'a>, Failed> {
        let view = match snapshot.is_foreign() {
            true => None,
            false => Some(snapshot.view(variable).map_err(|_| Failed::Source)?),
        };
        Ok(Content { snapshot, variable, view })
    }

    /// Some of them, where they lie or as a copy.
    fn bytes<'m>(&'m self, range: &Range<u64>, memory: &'m mut Vec<u8>) -> Result<&'m [u8], Failed> {
        match &self.view {
            Some(view) => view.get(range.start as usize..range.end as usize).ok_or(Failed::Source),
            None => {
                make_room(memory, range.end - range.start).map_err(|_| Failed::Source)?;
                self.snapshot.read(self.variable, range.start as usize, memory).map_err(|_| Failed::Source)?;
                Ok(memory)
            }
        }
    }

    /// Packs a stretch.
    fn pack(&self, one: &Stretch<'_>, memory: &mut Memory) -> Result<(), Failed> {
        make_room(&mut memory.packed, one.bytes).map_err(|_| Failed::Source)?;
        let source = self.bytes(&one.range, &mut memory.window)?;
        Executor::new(1).run(&one.piece.pack, source, &mut memory.packed).map_err(|_| Failed::Source)
    }
}

/// Makes memory just as long as somebody else decides. What lies in it is not cleared.
///
/// # Errors
/// There is none.
pub(crate) fn make_room(memory: &mut Vec<u8>, bytes: u64) -> Result<(), String> {
    let length = usize::try_from(bytes).map_err(|error| error.to_string())?;
    memory
        .try_reserve_exact(length.saturating_sub(memory.len()))
        .map_err(|_| format!("there is no memory for {length} bytes"))?;
    memory.resize(length, 0);
    Ok(())
}

#[cfg(test)]
mod tests;
