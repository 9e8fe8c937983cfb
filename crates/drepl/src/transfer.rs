//! Byte moves from one buffer into another: all that is left of a plan when names, types and indices are done with.

use smallvec::SmallVec;

/// Moves from one source into one destination. It can be stored, sent, and executed elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Transfer {
    /// In no order that matters: no byte of the destination is written twice.
    moves: Vec<Move>,
    /// The least length a source has to have.
    source_bytes: u64,
    /// The least length a destination has to have.
    destination_bytes: u64,
}

/// One strided block: runs of `run_bytes` bytes, at the positions that `axes` span.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Axis {
    pub count: u64,
    /// Distance in the source, in bytes.
    pub from_bytes: i64,
    /// Distance in the destination, in bytes.
    pub to_bytes: i64,
}
