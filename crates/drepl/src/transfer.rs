//! Byte moves from one buffer into another, and numbers that are converted on the way: all that is left of a plan when names and
//! indices are done with.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use smallvec::SmallVec;

pub use crate::{
    conversion::{Conversion, Float, Number},
    moves::Move,
    strided::{Axes, Axis, Side},
};
pub(crate) use crate::{
    moves::{RECORD_BYTES, interleave},
    strided::{LINE_BYTES, span},
};
use crate::{
    moves::{merge, order_groups},
    strided::Flaw,
};

/// Moves and conversions from one source into one destination. It can be stored, sent, and executed elsewhere.
///
/// Those of a transfer are in normal form, whoever made it and wherever it comes from ([`Transfer::converting`] is the only
/// way in, for bytes too): lengths are known, nothing lies outside them, and none writes a byte twice. All of them together write
/// no more bytes than there is room for. A [part](crate::clip::part) may, of a transfer from elsewhere whose moves share bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transfer {
    schedule: Schedule,
}

/// Moves in normal form in the order in which they are executed, conversions in normal form, which follow them, and what is asked
/// of all at each execution.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Schedule {
    moves: Vec<Move>,
    conversions: Vec<Conversion>,
    /// Where each group of moves ends that are executed together.
    ends: Vec<usize>,
    source_bytes: u64,
    destination_bytes: u64,
    moved_bytes: u64,
}

impl Schedule {
    pub(crate) fn new(mut moves: Vec<Move>, mut conversions: Vec<Conversion>) -> Schedule {
        moves.shrink_to_fit();
        conversions.shrink_to_fit();
        let mut ends = Vec::new();
        let mut rest = &moves[..];
        while let Some((first, after)) = rest.split_first() {
            let others = after.iter().take_while(|each| interleave(first, each)).count();
            rest = &after[others..];
            ends.push(moves.len() - rest.len());
        }
        let end = |side: Side| extents(&moves, &conversions, side).map(|(_, end)| end).max().unwrap_or(0);
        let (source_bytes, destination_bytes) = (end(Side::Source), end(Side::Destination));
        let moved_bytes = moves.iter().map(Move::moved_bytes).chain(conversions.iter().map(Conversion::moved_bytes));
        let moved_bytes = add_up(moved_bytes);
        Schedule { ends, source_bytes, destination_bytes, moved_bytes, moves, conversions }
    }

    /// Of moves and conversions in whatever form, which may write a byte more than once.
    fn normal(moves: Vec<Move>, conversions: Vec<Conversion>) -> Result<Schedule, TransferError> {
        let refuse = |position: usize, flaw: Flaw, numbers: TransferError| match flaw {
            Flaw::Numbers => numbers,
            Flaw::Range(side) => TransferError::Range { position, side },
            Flaw::Overlap => TransferError::Overlap { position },
        };
        let (mut normal, behind) = (Vec::with_capacity(moves.len()), moves.len());
        for (position, each) in moves.into_iter().enumerate() {
            let numbers = TransferError::Swap { position, swap_bytes: each.swap_bytes, run_bytes: each.run_bytes };
            normal.extend(each.normalised().map_err(|flaw| refuse(position, flaw, numbers))?);
        }
        let mut converted = Vec::with_capacity(conversions.len());
        for (position, each) in (behind..).zip(conversions) {
            let each = each.normalised();
            converted.extend(each.map_err(|flaw| refuse(position, flaw, TransferError::Number { position }))?);
        }
        Ok(Schedule::new(order_groups(merge(normal)), converted))
    }

    pub(crate) fn moves(&self) -> &[Move] {
        &self.moves
    }

    pub(crate) fn conversions(&self) -> &[Conversion] {
        &self.conversions
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.moves.is_empty() && self.conversions.is_empty()
    }

    /// The bytes of one side that each move and conversion touches, from the first to the last: begins and ends.
    pub(crate) fn extents(&self, side: Side) -> impl Iterator<Item = (u64, u64)> {
        extents(&self.moves, &self.conversions, side)
    }

    /// Moves that interleave, one group after the other.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &[Move]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| &self.moves[begin..*end])
    }

    /// Bytes of the source from its begin to the last that is read.
    pub(crate) fn source_bytes(&self) -> u64 {
        self.source_bytes
    }

    /// Bytes of the destination from its begin to the last that is written.
    pub(crate) fn destination_bytes(&self) -> u64 {
        self.destination_bytes
    }

    pub(crate) fn moved_bytes(&self) -> u64 {
        self.moved_bytes
    }
}

fn extents(moves: &[Move], conversions: &[Conversion], side: Side) -> impl Iterator<Item = (u64, u64)> {
    moves.iter().map(move |each| each.extent(side)).chain(conversions.iter().map(move |each| each.extent(side)))
}

/// Bytes that all of these write; `u64::MAX` where they are more than that, as those of a plan from elsewhere may be.
pub fn moved_bytes<'a>(transfers: impl IntoIterator<Item = &'a Transfer>) -> u64 {
    add_up(transfers.into_iter().map(Transfer::moved_bytes))
}

/// The sum of numbers of bytes, or `u64::MAX` where that is less.
pub(crate) fn add_up(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}

/// Why moves are no transfer. `position` is that of the move in the list that was passed; conversions count on behind the moves.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    #[error(
        "move {position} reverses numbers of {swap_bytes} bytes in runs of {run_bytes}; \
         numbers have 1, 2, 4 or 8 bytes and fill the run"
    )]
    /// Numbers of a length there is none of, or that do not fill a run.
    Swap {
        /// The move.
        position: usize,
        /// The length of its numbers, in bytes.
        swap_bytes: u8,
        /// The length of its runs, in bytes.
        run_bytes: u64,
    },
    #[error(
        "move {position} converts numbers into the type that they have, or writes bytes of them that they do not have"
    )]
    /// A conversion that is a move, or more bytes of a number than it has, or fewer than none.
    Number {
        /// The conversion.
        position: usize,
    },
    #[error("move {position} leaves the bytes 0 to 2^63 - 1 of its {side}; check its offset, strides and counts")]
    /// Bytes before the begin of a buffer, or at offsets that no buffer has.
    Range {
        /// The move.
        position: usize,
        /// The buffer.
        side: Side,
    },
    #[error("move {position} writes bytes of the destination more than once; its axes have to span different bytes")]
    /// A move that writes a byte twice.
    Overlap {
        /// The move.
        position: usize,
    },
    #[error(
        "the moves write {moved_bytes} bytes into {destination_bytes}: some are written more than once; \
         fragments that are written to must not overlap"
    )]
    /// More is written than there is room for.
    Overlaps {
        /// Bytes that the moves write.
        moved_bytes: u64,
        /// Bytes from the first that is written to the last.
        destination_bytes: u64,
    },
    /// Bytes that [`Transfer::encode`] did not write.
    #[error("{0}")]
    Encoding(String),
}

/// First byte of an encoded transfer. Another value is another format.
const FORMAT: u8 = 2;

impl Transfer {
    /// Brings `moves` into normal form: axes of one step are dropped, axes and moves that continue each other are
    /// merged, the destination is written upwards along every axis and the innermost axis is that of its smallest
    /// distance. Moves that interleave on one side, as the fields of records do, follow each other: they are executed
    /// together. Empty moves vanish.
    pub fn new(moves: Vec<Move>) -> Result<Transfer, TransferError> {
        Transfer::converting(moves, Vec::new())
    }

    /// As [`new`](Self::new), with numbers that are converted.
    pub fn converting(moves: Vec<Move>, conversions: Vec<Conversion>) -> Result<Transfer, TransferError> {
        let schedule = Schedule::normal(moves, conversions)?;
        let Schedule { destination_bytes, moved_bytes, .. } = &schedule;
        let first = schedule.extents(Side::Destination).map(|(begin, _)| begin).min().unwrap_or(0);
        // A hostile transfer could otherwise write one small place for years.
        if *moved_bytes > destination_bytes - first {
            let (moved_bytes, destination_bytes) = (*moved_bytes, destination_bytes - first);
            return Err(TransferError::Overlaps { moved_bytes, destination_bytes });
        }
        Ok(Transfer { schedule })
    }

    /// Parts of the moves and conversions of another transfer. What several of its moves write, a part may have more often than
    /// there is room for.
    pub(crate) fn of_parts(moves: Vec<Move>, conversions: Vec<Conversion>) -> Transfer {
        // Parts of what is in order are in order.
        Transfer { schedule: Schedule::normal(moves, conversions).unwrap_or_default() }
    }

    pub(crate) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The moves, in normal form. They are not all that is done where there are [`conversions`](Self::conversions).
    pub fn moves(&self) -> &[Move] {
        &self.schedule.moves
    }

    /// The numbers that are converted, in normal form.
    pub fn conversions(&self) -> &[Conversion] {
        &self.schedule.conversions
    }

    /// Where in the source and in the destination its bytes begin, if they lie together in both, and nothing is reversed or
    /// converted; [`moved_bytes`](Self::moved_bytes) says how many they are.
    pub fn only_run(&self) -> Option<(u64, u64)> {
        match (self.moves(), self.conversions()) {
            ([one], []) if one.axes.is_empty() && one.swap_bytes == 1 => Some((one.from, one.to)),
            _ => None,
        }
    }

    /// The first byte of the source that is read; 0 where none is.
    pub fn source_begin(&self) -> u64 {
        self.schedule.extents(Side::Source).map(|(begin, _)| begin).min().unwrap_or(0)
    }

    /// The least length a source has to have.
    pub fn source_bytes(&self) -> u64 {
        self.schedule.source_bytes
    }

    /// The least length a destination has to have.
    pub fn destination_bytes(&self) -> u64 {
        self.schedule.destination_bytes
    }

    /// Bytes that are written.
    pub fn moved_bytes(&self) -> u64 {
        self.schedule.moved_bytes
    }

    /// Whether nothing is moved.
    pub fn is_empty(&self) -> bool {
        self.schedule.is_empty()
    }

    /// The first half of this transfer: from the source into a compact form of [`moved_bytes`](Self::moved_bytes) bytes
    /// without holes. The source is read in its own order and bytes are not reversed: who has the source does the least. Numbers
    /// are converted here, so that what is sent is of the type that is wanted.
    pub fn pack(&self) -> Transfer {
        let mut compact = Compact::default();
        let moves = self.moves().iter().map(|each| {
            let (to, axes) = compact.place(each.run_bytes, &each.axes, |axis, bytes| Axis { to_bytes: bytes, ..axis });
            Move { from: each.from, to, run_bytes: each.run_bytes, swap_bytes: 1, axes }
        });
        let moves = moves.collect();
        let conversions = self.conversions().iter().map(|each| {
            let bytes = each.written_bytes();
            let (to, axes) = compact.place(bytes, &each.axes, |axis, bytes| Axis { to_bytes: bytes, ..axis });
            Conversion { to, axes, ..each.clone() }
        });
        let conversions = conversions.collect();
        // The compact form has no more bytes than the destination, so all that held for the whole holds for the halves.
        Transfer::converting(moves, conversions).unwrap_or_default()
    }

    /// The second half of this transfer: from the compact form that [`pack`](Self::pack) makes into the destination.
    pub fn unpack(&self) -> Transfer {
        let mut compact = Compact::default();
        let moves = self.moves().iter().map(|each| (each.to, each.run_bytes, each.swap_bytes, &each.axes));
        let numbers = self.conversions().iter().map(|each| (each.to, each.written_bytes(), 1, &each.axes));
        let moves = moves.chain(numbers).map(|(to, run_bytes, swap_bytes, axes)| {
            let (from, axes) = compact.place(run_bytes, axes, |axis, bytes| Axis { from_bytes: bytes, ..axis });
            Move { from, to, run_bytes, swap_bytes, axes }
        });
        Transfer::of_parts(moves.collect(), Vec::new())
    }

    /// Bytes to store or to send.
    pub fn encode(&self) -> Vec<u8> {
        // Writing into memory fails only for want of it.
        postcard::to_extend(self, vec![FORMAT]).unwrap_or_default()
    }

    /// What [`encode`](Self::encode) wrote. Bytes from elsewhere are checked like moves that are passed to
    /// [`Transfer::new`].
    pub fn decode(bytes: &[u8]) -> Result<Transfer, TransferError> {
        let (format, rest) = bytes
            .split_first()
            .ok_or_else(|| TransferError::Encoding("no bytes, where an encoded transfer was expected".into()))?;
        if *format != FORMAT {
            let message =
                format!("an encoded transfer begins with {FORMAT}, not with {format}: it is of another version");
            return Err(TransferError::Encoding(message));
        }
        match postcard::take_from_bytes(rest) {
            Ok((transfer, [])) => Ok(transfer),
            Ok((_, rest)) => Err(TransferError::Encoding(format!("{} bytes follow the encoded transfer", rest.len()))),
            Err(error) => Err(TransferError::Encoding(format!("the bytes are no encoded transfer: {error}"))),
        }
    }
}

impl Serialize for Transfer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.moves(), self.conversions()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Transfer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Transfer, D::Error> {
        let (moves, conversions) = Deserialize::deserialize(deserializer)?;
        Transfer::converting(moves, conversions).map_err(D::Error::custom)
    }
}

/// The compact form between the halves of a transfer: one behind the other, as each lies in the source.
#[derive(Default)]
struct Compact {
    end: u64,
}

impl Compact {
    /// Where what is repeated along axes begins in it, and the axes that `with` makes of each and the distance here.
    fn place(&mut self, block_bytes: u64, axes: &Axes, with: impl Fn(Axis, i64) -> Axis) -> (u64, Axes) {
        let mut compact: SmallVec<[(Axis, i64); 4]> = axes.iter().map(|axis| (*axis, 0)).collect();
        compact.sort_by_key(|(axis, _)| std::cmp::Reverse(axis.from_bytes.unsigned_abs()));
        let (mut block, mut at) = (block_bytes, self.end);
        for (axis, bytes) in compact.iter_mut().rev() {
            *bytes = block as i64;
            // Where the destination runs against the source, so does the compact form against the destination.
            if axis.from_bytes < 0 {
                at += (axis.count - 1) * block;
                *bytes = -*bytes;
            }
            block *= axis.count;
        }
        self.end += block;
        (at, compact.into_iter().map(|(axis, bytes)| with(axis, bytes)).collect())
    }
}
