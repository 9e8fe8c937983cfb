//! Byte moves: runs of bytes that lie together on both sides, at constant distances.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::strided::{Axes, Block, Flaw, LINE_BYTES, Side, merge_axes, writes_twice};

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
    pub axes: Axes,
}

impl Move {
    /// Bytes that are moved.
    pub fn moved_bytes(&self) -> u64 {
        self.axes.iter().fold(self.run_bytes, |bytes, axis| bytes.saturating_mul(axis.count))
    }

    /// The bytes of one side between the first and the last that is touched: begin and end. For moves in normal form.
    pub(crate) fn extent(&self, side: Side) -> (u64, u64) {
        self.run().extent(side, &self.axes)
    }

    pub(crate) fn offset(&self, side: Side) -> u64 {
        match side {
            Side::Source => self.from,
            Side::Destination => self.to,
        }
    }

    fn run(&self) -> Block {
        Block { from: self.from, to: self.to, source_bytes: self.run_bytes, destination_bytes: self.run_bytes }
    }

    /// The move in normal form, and nothing for one that moves nothing.
    pub(crate) fn normalised(mut self) -> Result<Option<Move>, Flaw> {
        if self.run_bytes == 0 || self.axes.iter().any(|axis| axis.count == 0) {
            return Ok(None);
        }
        if !matches!(self.swap_bytes, 1 | 2 | 4 | 8) || !self.run_bytes.is_multiple_of(u64::from(self.swap_bytes)) {
            return Err(Flaw::Numbers);
        }
        let mut run = self.run();
        run.arrange(&mut self.axes)?;
        (self.from, self.to) = (run.from, run.to);
        self.merge();
        Ok(Some(self))
    }

    /// Makes one axis of two that continue each other, and a longer run of runs that do.
    fn merge(&mut self) {
        merge_axes(&mut self.axes);
        while let Some(axis) = self.axes.last().copied()
            && Some((self.run_bytes as i64, self.run_bytes as i64)) == axis.steps(1)
        {
            self.axes.pop();
            self.run_bytes *= axis.count;
        }
    }
}

/// Makes one move of those that continue each other. Sorts them by destination.
pub(crate) fn merge(mut moves: Vec<Move>) -> Vec<Move> {
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
        if writes_twice(joined.run_bytes, &joined.axes) {
            return None;
        }
        joined.merge();
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
pub(crate) fn order_groups(moves: Vec<Move>) -> Vec<Move> {
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
