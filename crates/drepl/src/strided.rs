//! Positions at constant distances in two buffers: the axes along which something is repeated.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// One loop: something is repeated at constant distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// Steps, the first included.
    pub count: u64,
    /// Distance in the source, in bytes.
    pub from_bytes: i64,
    /// Distance in the destination, in bytes.
    pub to_bytes: i64,
}

/// The loops of what is repeated, outermost first.
pub type Axes = SmallVec<[Axis; 4]>;

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

/// Offsets stay below this, so that differences of any two fit `i64`.
const BYTES_MAX: i128 = i64::MAX as i128;

/// Why positions are none that something can be moved between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Numbers of a length there is none of, or that do not fill what is repeated.
    Numbers,
    /// Bytes before the begin of a buffer, or at offsets that no buffer has.
    Range(Side),
    /// A byte of the destination that is written twice.
    Overlap,
}

/// What is repeated along axes: where it lies first, and its length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub from: u64,
    pub to: u64,
    pub source_bytes: u64,
    pub destination_bytes: u64,
}

impl Block {
    fn place(&self, side: Side) -> (u64, u64) {
        match side {
            Side::Source => (self.from, self.source_bytes),
            Side::Destination => (self.to, self.destination_bytes),
        }
    }

    /// The bytes of one side between the first and the last that is touched: begin and end. For axes in normal form.
    pub(crate) fn extent(&self, side: Side, axes: &[Axis]) -> (u64, u64) {
        let (below, above) = span(axes, side);
        let (offset, bytes) = self.place(side);
        (offset.wrapping_add_signed(below), offset.wrapping_add_signed(above).wrapping_add(bytes))
    }

    /// Brings axes, none of which has a count of 0, into normal form: those of one step are dropped, the destination is written
    /// upwards along each, and that of its smallest distance is the innermost.
    pub(crate) fn arrange(&mut self, axes: &mut Axes) -> Result<(), Flaw> {
        axes.retain(|axis| axis.count > 1);
        for side in [Side::Source, Side::Destination] {
            let (offset, bytes) = self.place(side);
            let mut begin = i128::from(offset);
            let mut end = begin + i128::from(bytes);
            for axis in axes.iter() {
                let reach = i128::from(axis.count - 1) * i128::from(axis.bytes(side));
                begin = begin.saturating_add(reach.min(0));
                end = end.saturating_add(reach.max(0));
            }
            // Every distance has an opposite, and every count fits i64: what follows cannot overflow.
            let excessive = |axis: &Axis| axis.count > i64::MAX as u64 || axis.bytes(side) == i64::MIN;
            if begin < 0 || end > BYTES_MAX || axes.iter().any(excessive) {
                return Err(Flaw::Range(side));
            }
        }
        for axis in axes.iter_mut() {
            if axis.to_bytes < 0 {
                let last = (axis.count - 1) as i64;
                self.from = self.from.wrapping_add_signed(last * axis.from_bytes);
                self.to = self.to.wrapping_add_signed(last * axis.to_bytes);
                *axis = axis.reversed();
            }
        }
        axes.sort_by_key(|axis| std::cmp::Reverse(axis.to_bytes));
        if writes_twice(self.destination_bytes, axes) { Err(Flaw::Overlap) } else { Ok(()) }
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
    pub(crate) fn steps(&self, count: u64) -> Option<(i64, i64)> {
        let count = i64::try_from(count).ok()?;
        Some((self.from_bytes.checked_mul(count)?, self.to_bytes.checked_mul(count)?))
    }

    fn reversed(self) -> Axis {
        Axis { count: self.count, from_bytes: -self.from_bytes, to_bytes: -self.to_bytes }
    }
}

/// How far `axes` reach below and above the first of what is repeated, in normal form.
pub(crate) fn span(axes: &[Axis], side: Side) -> (i64, i64) {
    axes.iter().fold((0, 0), |(below, above), axis| {
        let reach = (axis.count as i64 - 1).wrapping_mul(axis.bytes(side));
        (below + reach.min(0), above + reach.max(0))
    })
}

/// Whether blocks along axes may share a byte of the destination; the axes go upwards, the innermost last.
pub(crate) fn writes_twice(block_bytes: u64, axes: &[Axis]) -> bool {
    let mut block = block_bytes as i64;
    axes.iter().rev().any(|axis| {
        let overlaps = axis.to_bytes < block;
        block += (axis.count as i64 - 1) * axis.to_bytes;
        overlaps
    })
}

/// Makes one axis of two that continue each other.
pub(crate) fn merge_axes(axes: &mut Axes) {
    let mut kept = Axes::new();
    for axis in axes.iter().rev() {
        match kept.last_mut() {
            Some(inner) if inner.steps(inner.count) == axis.steps(1) => inner.count *= axis.count,
            _ => kept.push(*axis),
        }
    }
    kept.reverse();
    *axes = kept;
}
