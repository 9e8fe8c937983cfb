//! The part of a move that lies in a window of one side: what a thread writes, what a staging buffer holds, or what is sent at once.

use std::ops::Range;

use smallvec::{SmallVec, smallvec};

use crate::transfer::{Axis, Move, Schedule, Side, Transfer, span};

/// Passes the parts of `each` whose bytes of `side` lie in `window` to `emit`. They are exact to the byte: windows that
/// share no byte give parts that share none. Of a number that is cut, the bytes are moved one by one.
pub(crate) fn clip(each: &Move, side: Side, window: Range<u64>, emit: &mut impl FnMut(Move)) {
    let (begin, end) = each.extent(side);
    if window.start <= begin && end <= window.end {
        return emit(each.clone());
    }
    let mut axes = each.axes.clone();
    if side == Side::Source {
        axes.sort_by_key(|axis| std::cmp::Reverse(axis.from_bytes.unsigned_abs()));
    }
    let window = window.start as i64..window.end.min(i64::MAX as u64) as i64;
    let clip = Clip { side, run_bytes: each.run_bytes, swap_bytes: each.swap_bytes, window };
    clip.block(each.from as i64, each.to as i64, &axes, emit);
}

/// The parts of moves in a window of one side, with offsets from where the window begins.
pub(crate) fn parts(moves: &[Move], side: Side, window: &Range<u64>) -> Schedule {
    Schedule::new(clipped(moves, side, window))
}

/// The part of a transfer that lies in a window of one side, to the byte; offsets on that side count from where the window begins.
/// Parts of windows that follow each other, executed in any order, are the transfer.
///
/// ```
/// # use drepl::{clip::part, executor::Executor, transfer::{Move, Side, Transfer}};
/// let all = Transfer::new(vec![Move { from: 1, to: 0, run_bytes: 4, swap_bytes: 1, axes: Default::default() }])?;
/// let mut destination = *b"----";
/// Executor::new(1).run(&part(&all, Side::Source, 3..6), b"def", &mut destination)?;
/// assert_eq!(&destination, b"--de");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn part(transfer: &Transfer, side: Side, window: Range<u64>) -> Transfer {
    // They move fewer bytes than the whole, and none elsewhere.
    Transfer::new(clipped(transfer.moves(), side, &window)).unwrap_or_default()
}

fn clipped(moves: &[Move], side: Side, window: &Range<u64>) -> Vec<Move> {
    let mut parts = Vec::new();
    for each in moves {
        clip(each, side, window.clone(), &mut |mut part| {
            match side {
                Side::Source => part.from -= window.start,
                Side::Destination => part.to -= window.start,
            }
            parts.push(part);
        });
    }
    parts
}

struct Clip {
    side: Side,
    run_bytes: u64,
    swap_bytes: u8,
    window: Range<i64>,
}

impl Clip {
    fn block(&self, from: i64, to: i64, axes: &[Axis], emit: &mut impl FnMut(Move)) {
        let (below, above) = span(axes, self.side);
        let first = if self.side == Side::Source { from } else { to };
        let (begin, end) = (first + below, first + above + self.run_bytes as i64);
        if end <= self.window.start || self.window.end <= begin {
            return;
        }
        if self.window.start <= begin && end <= self.window.end {
            return emit(self.part(from, to, axes));
        }
        let Some((outer, inner)) = axes.split_first() else {
            return self.run(from, to, first, emit);
        };
        let count = outer.count as i64;
        let step = outer.bytes(self.side);
        let (below, above) = span(inner, self.side);
        let above = above + self.run_bytes as i64;
        let (touched, whole) = if step == 0 {
            (0..count, 0..0)
        } else {
            // Upwards; where the axis runs downwards, its last index lies lowest.
            let lowest = if step > 0 { first } else { first + (count - 1) * step };
            let distance = step.abs();
            let clamp = |range: Range<i64>| range.start.clamp(0, count)..range.end.clamp(0, count);
            let touched = clamp(
                (self.window.start - lowest - above).div_euclid(distance) + 1
                    ..ceiling(self.window.end - lowest - below, distance),
            );
            let whole = clamp(
                ceiling(self.window.start - lowest - below, distance)
                    ..(self.window.end - lowest - above).div_euclid(distance) + 1,
            );
            let turn = |range: Range<i64>| if step > 0 { range } else { count - range.end..count - range.start };
            (turn(touched), turn(whole))
        };
        let place = |at: i64| (from + at * outer.from_bytes, to + at * outer.to_bytes);
        if whole.start >= whole.end {
            for at in touched {
                let (from, to) = place(at);
                self.block(from, to, inner, emit);
            }
            return;
        }
        for at in (touched.start..whole.start).chain(whole.end..touched.end) {
            let (from, to) = place(at);
            self.block(from, to, inner, emit);
        }
        let (from, to) = place(whole.start);
        let mut axes: SmallVec<[Axis; 4]> = SmallVec::from_slice(axes);
        axes[0].count = (whole.end - whole.start) as u64;
        emit(self.part(from, to, &axes));
    }

    /// A move in normal form but for axes that could be merged.
    fn part(&self, from: i64, to: i64, axes: &[Axis]) -> Move {
        let mut axes: SmallVec<[Axis; 4]> = axes.iter().filter(|axis| axis.count > 1).copied().collect();
        if self.side == Side::Source {
            axes.sort_by_key(|axis| std::cmp::Reverse(axis.to_bytes));
        }
        Move { from: from as u64, to: to as u64, run_bytes: self.run_bytes, swap_bytes: self.swap_bytes, axes }
    }

    /// A run that the window cuts.
    fn run(&self, from: i64, to: i64, first: i64, emit: &mut impl FnMut(Move)) {
        let begin = (self.window.start - first).max(0);
        let end = (self.window.end - first).min(self.run_bytes as i64);
        let number = i64::from(self.swap_bytes);
        let (whole_begin, whole_end) = (ceiling(begin, number) * number, end / number * number);
        if whole_begin > whole_end {
            // Begins and ends within one number.
            return self.bytes(from, to, begin..end, emit);
        }
        self.bytes(from, to, begin..whole_begin, emit);
        if whole_begin < whole_end {
            emit(Move {
                from: (from + whole_begin) as u64,
                to: (to + whole_begin) as u64,
                run_bytes: (whole_end - whole_begin) as u64,
                swap_bytes: self.swap_bytes,
                axes: smallvec![],
            });
        }
        self.bytes(from, to, whole_end..end, emit);
    }

    /// Some bytes of one number of a run, reversed: upwards in the destination, downwards in the source.
    fn bytes(&self, from: i64, to: i64, cut: Range<i64>, emit: &mut impl FnMut(Move)) {
        if cut.is_empty() {
            return;
        }
        let number = i64::from(self.swap_bytes);
        let count = cut.end - cut.start;
        let base = cut.start.div_euclid(number) * number;
        let (low, high) = (cut.start - base, cut.end - base);
        let (from_at, to_at) = match self.side {
            Side::Source => (high - 1, number - high),
            Side::Destination => (number - 1 - low, low),
        };
        let axis = Axis { count: count as u64, from_bytes: -1, to_bytes: 1 };
        emit(Move {
            from: (from + base + from_at) as u64,
            to: (to + base + to_at) as u64,
            run_bytes: 1,
            swap_bytes: 1,
            axes: if count > 1 { smallvec![axis] } else { smallvec![] },
        });
    }
}

fn ceiling(dividend: i64, divisor: i64) -> i64 {
    -(-dividend).div_euclid(divisor)
}
