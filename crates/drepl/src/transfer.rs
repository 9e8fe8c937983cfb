//! Byte moves from one buffer into another: all that is left of a plan when names, types and indices are done with.

use std::cmp::Ordering;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use smallvec::SmallVec;

/// Moves from one source into one destination. It can be stored, sent, and executed elsewhere.
///
/// The moves of a transfer are in normal form, whoever made it and wherever it comes from ([`Transfer::new`] is the only
/// way in, for bytes too): lengths are known, nothing lies outside them, and no move writes a byte twice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transfer {
    schedule: Schedule,
}

/// Moves in normal form in the order in which they are executed, and what is asked of them at each execution.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Schedule {
    moves: Vec<Move>,
    /// Where each group of moves ends that are executed together.
    ends: Vec<usize>,
    source_bytes: u64,
    destination_bytes: u64,
    moved_bytes: u64,
}

impl Schedule {
    pub(crate) fn new(mut moves: Vec<Move>) -> Schedule {
        moves.shrink_to_fit();
        let mut ends = Vec::new();
        let mut rest = &moves[..];
        while let Some((first, after)) = rest.split_first() {
            let others = after.iter().take_while(|each| interleave(first, each)).count();
            rest = &after[others..];
            ends.push(moves.len() - rest.len());
        }
        let end = |side: Side| moves.iter().map(|each| each.extent(side).1).max().unwrap_or(0);
        let (source_bytes, destination_bytes) = (end(Side::Source), end(Side::Destination));
        let moved_bytes = add_up(moves.iter().map(Move::moved_bytes));
        Schedule { ends, source_bytes, destination_bytes, moved_bytes, moves }
    }

    pub(crate) fn moves(&self) -> &[Move] {
        &self.moves
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

/// Bytes that all of these move; `u64::MAX` where they are more than that, as those of a plan from elsewhere may be.
pub fn moved_bytes<'a>(transfers: impl IntoIterator<Item = &'a Transfer>) -> u64 {
    add_up(transfers.into_iter().map(Transfer::moved_bytes))
}

/// The sum of numbers of bytes, or `u64::MAX` where that is less.
pub(crate) fn add_up(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}

/// One strided block: runs of `run_bytes` bytes, at the positions that `axes` span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// Offset in bytes of the first run in the source.
    pub from: u64,
    /// Offset in bytes of the first run in the destination.
    pub to: u64,
    /// Bytes that lie together on both sides.
    pub run_bytes: u64,
    /// Bytes of the numbers whose byte order is reversed on the way: 2, 4 or 8; 1 where none is. Divides `run_bytes`.
    pub swap_bytes: u8,
    /// Outermost first.
    pub axes: SmallVec<[Axis; 4]>,
}

/// One loop of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// Steps, the first included.
    pub count: u64,
    /// Distance in the source, in bytes.
    pub from_bytes: i64,
    /// Distance in the destination, in bytes.
    pub to_bytes: i64,
}

/// Why moves are no transfer. `position` is that of the move in the list that was passed.
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

/// One of the two buffers of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that is read.
    Source,
    /// The one that is written.
    Destination,
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Side::Source => "source",
            Side::Destination => "destination",
        })
    }
}

/// Bytes of a cache line, on all machines that matter here.
pub(crate) const LINE_BYTES: u64 = 64;

/// First byte of an encoded transfer. Another value is another format.
const FORMAT: u8 = 1;

/// Offsets stay below this, so that differences of any two fit `i64`.
const BYTES_MAX: i128 = i64::MAX as i128;

impl Transfer {
    /// Brings `moves` into normal form: axes of one step are dropped, axes and moves that continue each other are
    /// merged, the destination is written upwards along every axis and the innermost axis is that of its smallest
    /// distance. Moves that interleave on one side, as the fields of records do, follow each other: they are executed
    /// together. Empty moves vanish.
    pub fn new(moves: Vec<Move>) -> Result<Transfer, TransferError> {
        let mut normal = Vec::with_capacity(moves.len());
        for (position, each) in moves.into_iter().enumerate() {
            if let Some(each) = normalise(position, each)? {
                normal.push(each);
            }
        }
        let schedule = Schedule::new(order_groups(merge(normal)));
        let Schedule { moves, destination_bytes, moved_bytes, .. } = &schedule;
        let first = moves.iter().map(|each| each.to).min().unwrap_or(0);
        // A hostile transfer could otherwise write one small place for years.
        if *moved_bytes > destination_bytes - first {
            let (moved_bytes, destination_bytes) = (*moved_bytes, destination_bytes - first);
            return Err(TransferError::Overlaps { moved_bytes, destination_bytes });
        }
        Ok(Transfer { schedule })
    }

    pub(crate) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The moves, in normal form.
    pub fn moves(&self) -> &[Move] {
        &self.schedule.moves
    }

    /// The least length a source has to have.
    pub fn source_bytes(&self) -> u64 {
        self.schedule.source_bytes
    }

    /// The least length a destination has to have.
    pub fn destination_bytes(&self) -> u64 {
        self.schedule.destination_bytes
    }

    /// Bytes that are moved.
    pub fn moved_bytes(&self) -> u64 {
        self.schedule.moved_bytes
    }

    /// Whether nothing is moved.
    pub fn is_empty(&self) -> bool {
        self.moves().is_empty()
    }

    /// The first half of this transfer: from the source into a compact form of [`moved_bytes`](Self::moved_bytes) bytes
    /// without holes. The source is read in its own order and bytes are not reversed: who has the source does the least.
    pub fn pack(&self) -> Transfer {
        self.halves(|each, at, compact| Move {
            from: each.from,
            to: at,
            run_bytes: each.run_bytes,
            swap_bytes: 1,
            axes: compact.iter().map(|(axis, bytes)| Axis { to_bytes: *bytes, ..*axis }).collect(),
        })
    }

    /// The second half of this transfer: from the compact form that [`pack`](Self::pack) makes into the destination.
    pub fn unpack(&self) -> Transfer {
        self.halves(|each, at, compact| Move {
            from: at,
            to: each.to,
            run_bytes: each.run_bytes,
            swap_bytes: each.swap_bytes,
            axes: compact.iter().map(|(axis, bytes)| Axis { from_bytes: *bytes, ..*axis }).collect(),
        })
    }

    /// One move per move; `half` gets where it begins in the compact form and its axes with their distances there.
    fn halves(&self, half: impl Fn(&Move, u64, &[(Axis, i64)]) -> Move) -> Transfer {
        let mut begin = 0;
        let moves = self.moves().iter().map(|each| {
            let mut compact: SmallVec<[(Axis, i64); 4]> = each.axes.iter().map(|axis| (*axis, 0)).collect();
            compact.sort_by_key(|(axis, _)| std::cmp::Reverse(axis.from_bytes.unsigned_abs()));
            let mut block = each.run_bytes;
            let mut at = begin;
            for (axis, bytes) in compact.iter_mut().rev() {
                *bytes = block as i64;
                // Where the destination runs against the source, so does the compact form against the destination.
                if axis.from_bytes < 0 {
                    at += (axis.count - 1) * block;
                    *bytes = -*bytes;
                }
                block *= axis.count;
            }
            begin += block;
            half(each, at, &compact)
        });
        let moves = moves.collect();
        // The compact form has no more bytes than the destination, so all that held for the whole holds for the halves.
        Transfer::new(moves).unwrap_or_default()
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
        self.moves().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Transfer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Transfer, D::Error> {
        Transfer::new(Vec::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Move {
    /// Bytes that are moved.
    pub fn moved_bytes(&self) -> u64 {
        self.axes.iter().fold(self.run_bytes, |bytes, axis| bytes.saturating_mul(axis.count))
    }

    /// The bytes of one side between the first and the last that is touched: begin and end. For moves in normal form.
    pub(crate) fn extent(&self, side: Side) -> (u64, u64) {
        let (below, above) = span(&self.axes, side);
        let offset = self.offset(side);
        (offset.wrapping_add_signed(below), offset.wrapping_add_signed(above).wrapping_add(self.run_bytes))
    }

    pub(crate) fn offset(&self, side: Side) -> u64 {
        match side {
            Side::Source => self.from,
            Side::Destination => self.to,
        }
    }
}

impl Axis {
    pub(crate) fn bytes(&self, side: Side) -> i64 {
        match side {
            Side::Source => self.from_bytes,
            Side::Destination => self.to_bytes,
        }
    }

    /// The distance of `count` steps in the source and in the destination; none where it is no `i64`.
    fn steps(&self, count: u64) -> Option<(i64, i64)> {
        let count = i64::try_from(count).ok()?;
        Some((self.from_bytes.checked_mul(count)?, self.to_bytes.checked_mul(count)?))
    }

    fn reversed(self) -> Axis {
        Axis { count: self.count, from_bytes: -self.from_bytes, to_bytes: -self.to_bytes }
    }
}

/// How far `axes` reach below and above the first run of a move in normal form.
pub(crate) fn span(axes: &[Axis], side: Side) -> (i64, i64) {
    axes.iter().fold((0, 0), |(below, above), axis| {
        let reach = (axis.count as i64 - 1).wrapping_mul(axis.bytes(side));
        (below + reach.min(0), above + reach.max(0))
    })
}

/// One move in normal form, and nothing for one that moves nothing.
fn normalise(position: usize, mut each: Move) -> Result<Option<Move>, TransferError> {
    if each.run_bytes == 0 || each.axes.iter().any(|axis| axis.count == 0) {
        return Ok(None);
    }
    let swap_bytes = each.swap_bytes;
    if !matches!(swap_bytes, 1 | 2 | 4 | 8) || !each.run_bytes.is_multiple_of(u64::from(swap_bytes)) {
        return Err(TransferError::Swap { position, swap_bytes, run_bytes: each.run_bytes });
    }
    each.axes.retain(|axis| axis.count > 1);
    for side in [Side::Source, Side::Destination] {
        let mut begin = i128::from(each.offset(side));
        let mut end = begin + i128::from(each.run_bytes);
        for axis in &each.axes {
            let reach = i128::from(axis.count - 1) * i128::from(axis.bytes(side));
            begin = begin.saturating_add(reach.min(0));
            end = end.saturating_add(reach.max(0));
        }
        // Every distance has an opposite, and every count fits i64: what follows cannot overflow.
        let excessive = |axis: &Axis| axis.count > i64::MAX as u64 || axis.bytes(side) == i64::MIN;
        if begin < 0 || end > BYTES_MAX || each.axes.iter().any(excessive) {
            return Err(TransferError::Range { position, side });
        }
    }
    for axis in &mut each.axes {
        if axis.to_bytes < 0 {
            let last = (axis.count - 1) as i64;
            each.from = each.from.wrapping_add_signed(last * axis.from_bytes);
            each.to = each.to.wrapping_add_signed(last * axis.to_bytes);
            *axis = axis.reversed();
        }
    }
    each.axes.sort_by_key(|axis| std::cmp::Reverse(axis.to_bytes));
    if writes_twice(&each) {
        return Err(TransferError::Overlap { position });
    }
    merge_axes(&mut each);
    Ok(Some(each))
}

/// Whether a move may write a byte twice; its axes go upwards, the innermost last.
fn writes_twice(each: &Move) -> bool {
    let mut block = each.run_bytes as i64;
    each.axes.iter().rev().any(|axis| {
        let overlaps = axis.to_bytes < block;
        block += (axis.count as i64 - 1) * axis.to_bytes;
        overlaps
    })
}

/// Makes one axis of two that continue each other, and a longer run of runs that do.
fn merge_axes(each: &mut Move) {
    let mut kept: SmallVec<[Axis; 4]> = SmallVec::new();
    for axis in each.axes.iter().rev() {
        let continues = match kept.last() {
            Some(inner) => inner.steps(inner.count) == axis.steps(1),
            None => Some((each.run_bytes as i64, each.run_bytes as i64)) == axis.steps(1),
        };
        if !continues {
            kept.push(*axis);
            continue;
        }
        match kept.last_mut() {
            Some(inner) => inner.count *= axis.count,
            None => each.run_bytes *= axis.count,
        }
    }
    kept.reverse();
    each.axes = kept;
}

/// Makes one move of those that continue each other. Sorts them by destination.
fn merge(mut moves: Vec<Move>) -> Vec<Move> {
    moves.sort_by_key(|each| each.to);
    let mut kept: Vec<Move> = Vec::with_capacity(moves.len());
    for mut each in moves {
        // What was merged may continue what lies before it.
        while let Some(joined) = kept.last().and_then(|last| join(last, &each)) {
            kept.pop();
            each = joined;
        }
        kept.push(each);
    }
    kept
}

/// `first` and `second` as one move, where the second continues the first along the run or along the outermost axis.
fn join(first: &Move, second: &Move) -> Option<Move> {
    let apart = (second.from.wrapping_sub(first.from) as i64, second.to.wrapping_sub(first.to) as i64);
    let run_bytes = first.run_bytes as i64;
    if first.swap_bytes != second.swap_bytes {
        return None;
    }
    if apart == (run_bytes, run_bytes) && first.axes == second.axes {
        let mut joined = Move { run_bytes: first.run_bytes + second.run_bytes, ..first.clone() };
        // Moves that overlap are kept apart, to be refused together.
        if writes_twice(&joined) {
            return None;
        }
        merge_axes(&mut joined);
        return Some(joined);
    }
    let (outer, rest) = first.axes.split_first()?;
    let (second_outer, second_rest) = second.axes.split_first()?;
    let continues = first.run_bytes == second.run_bytes
        && rest == second_rest
        && outer.steps(1) == second_outer.steps(1)
        && outer.steps(outer.count) == Some(apart);
    if !continues {
        return None;
    }
    let mut joined = first.clone();
    joined.axes[0].count += second_outer.count;
    Some(joined)
}

/// Sorts moves so that those which interleave on one side follow each other: they touch the same cache lines. Groups
/// are in the order of the destination.
fn order_groups(moves: Vec<Move>) -> Vec<Move> {
    // Rank of the group's first move, for each move.
    let mut group: Vec<usize> = (0..moves.len()).collect();
    let mut alone: Vec<usize> = (0..moves.len()).filter(|at| !moves[*at].axes.is_empty()).collect();
    for side in [Side::Source, Side::Destination] {
        let steps = |at: usize| moves[at].axes.iter().map(move |axis| (axis.count, axis.bytes(side)));
        alone.sort_by(|a, b| steps(*a).cmp(steps(*b)).then(moves[*a].offset(side).cmp(&moves[*b].offset(side))));
        let together = |a: usize, b: usize| {
            let nearest = moves[a].axes.iter().map(|axis| axis.bytes(side).unsigned_abs()).min().unwrap_or(0);
            steps(a).cmp(steps(b)) == Ordering::Equal && moves[b].offset(side) - moves[a].offset(side) < nearest
        };
        let mut single = Vec::new();
        let mut rest = &alone[..];
        while let Some(first) = rest.first() {
            let (members, after) = rest.split_at(rest.iter().take_while(|at| together(*first, **at)).count().max(1));
            let leader = members.iter().copied().min().unwrap_or(*first);
            members.iter().for_each(|at| group[*at] = leader);
            if members.len() == 1 {
                single.push(*first);
            }
            rest = after;
        }
        alone = single;
    }
    if group.iter().enumerate().all(|(at, leader)| at == *leader) {
        return moves;
    }
    let mut ordered: Vec<(usize, usize, Move)> =
        moves.into_iter().enumerate().map(|(at, each)| (group[at], at, each)).collect();
    ordered.sort_by_key(|(leader, at, _)| (*leader, *at));
    ordered.into_iter().map(|(_, _, each)| each).collect()
}

/// How far fields of one record may lie apart for moves of them to be executed together.
pub(crate) const RECORD_BYTES: u64 = 4096;

/// Whether two moves touch the same cache lines of one side at the same indices. Counts of the outermost axis may differ:
/// threads cut moves at lines, which are not at the same index in each.
pub(crate) fn interleave(first: &Move, second: &Move) -> bool {
    let alike = |side: Side| {
        let apart = first.offset(side).abs_diff(second.offset(side));
        let nearest = first.axes.iter().map(|axis| axis.bytes(side).unsigned_abs()).min().unwrap_or(0);
        // In records of many lines, those share lines that are near in one record, or in one and the next.
        let near = LINE_BYTES + first.run_bytes.max(second.run_bytes);
        let shared = nearest < 4 * LINE_BYTES || apart % nearest < near || nearest - apart % nearest < near;
        apart < RECORD_BYTES
            && shared
            && first.axes.iter().zip(&second.axes).all(|(a, b)| a.bytes(side) == b.bytes(side))
    };
    !first.axes.is_empty()
        && first.axes.len() == second.axes.len()
        && first.axes[1..].iter().zip(&second.axes[1..]).all(|(a, b)| a.count == b.count)
        && (alike(Side::Source) || alike(Side::Destination))
}
