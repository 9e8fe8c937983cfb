//! The part of a move that lies in a window of one side: what a thread writes, what a staging buffer holds, or what is sent at once.

use std::ops::Range;

use smallvec::smallvec;

use crate::{
    conversion::Conversion,
    moves::Move,
    strided::{Axes, Axis, Side, span},
    transfer::{Schedule, Transfer},
};

/// Passes the parts of `each` whose bytes of `side` lie in `window` to `emit`. They are exact to the byte: windows that
/// share no byte give parts that share none. Of a number that is cut, the bytes are moved one by one.
///
/// Of numbers that are converted, a window of the source has those whose first bytes lie in it: a part of one may read up to seven
/// bytes behind the window.
pub(crate) fn clip<R: Repeated>(each: &R, side: Side, window: Range<u64>, emit: &mut impl FnMut(R)) {
    let (from, to, axes) = each.place();
    let offset = |at: u64| at.min(i64::MAX as u64) as i64;
    let window = offset(window.start)..offset(window.end);
    let clip = Clip { each, side, bytes: each.bytes(side) as i64, window };
    match side {
        Side::Destination => clip.block(from as i64, to as i64, axes, emit),
        Side::Source => {
            let mut axes = axes.clone();
            axes.sort_by_key(|axis| std::cmp::Reverse(axis.from_bytes.unsigned_abs()));
            clip.block(from as i64, to as i64, &axes, emit);
        }
    }
}

/// The parts of a schedule in a window of one side, with offsets from where the window begins.
pub(crate) fn parts(all: &Schedule, side: Side, window: &Range<u64>) -> Schedule {
    let (moves, conversions) = clipped(all, side, window);
    Schedule::new(moves, conversions)
}

/// The part of a transfer that lies in a window of one side, to the byte; offsets on that side count from where the window begins.
/// Parts of windows that follow each other, executed in any order, are the transfer.
///
/// Numbers that are converted belong to the window of the source in which they begin, and are read whole: the part says by
/// [`source_bytes`](Transfer::source_bytes) whether it needs bytes behind the window.
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
    let (moves, conversions) = clipped(transfer.schedule(), side, &window);
    Transfer::of_parts(moves, conversions)
}

fn clipped(all: &Schedule, side: Side, window: &Range<u64>) -> (Vec<Move>, Vec<Conversion>) {
    let (mut moves, mut conversions) = (Vec::new(), Vec::new());
    for each in all.moves() {
        clip(each, side, window.clone(), &mut |part| moves.push(part.within(side, window.start)));
    }
    for each in all.conversions() {
        clip(each, side, window.clone(), &mut |part| conversions.push(part.within(side, window.start)));
    }
    (moves, conversions)
}

/// What is repeated along axes, and can be cut.
pub(crate) trait Repeated: Clone {
    fn place(&self) -> (u64, u64, &Axes);

    /// Bytes of each on one side.
    fn bytes(&self, side: Side) -> u64;

    /// The same at other places.
    fn at(&self, from: i64, to: i64, axes: Axes) -> Self;

    /// Some bytes of the one that lies there.
    fn cut(&self, from: i64, to: i64, side: Side, bytes: Range<i64>, emit: &mut impl FnMut(Self));

    /// The same, with offsets of one side that count from `begin`.
    fn within(self, side: Side, begin: u64) -> Self {
        let (from, to, axes) = self.place();
        let (from, to) = match side {
            Side::Source => (from - begin, to),
            Side::Destination => (from, to - begin),
        };
        let axes = axes.clone();
        self.at(from as i64, to as i64, axes)
    }
}

impl Repeated for Move {
    fn place(&self) -> (u64, u64, &Axes) {
        (self.from, self.to, &self.axes)
    }

    fn bytes(&self, _: Side) -> u64 {
        self.run_bytes
    }

    fn at(&self, from: i64, to: i64, axes: Axes) -> Move {
        Move { from: from as u64, to: to as u64, axes, ..*self }
    }

    fn cut(&self, from: i64, to: i64, side: Side, bytes: Range<i64>, emit: &mut impl FnMut(Move)) {
        let number = i64::from(self.swap_bytes);
        let whole = ceiling(bytes.start, number) * number..bytes.end / number * number;
        if whole.start > whole.end {
            // Begins and ends within one number.
            return self.cut_number(from, to, side, bytes, emit);
        }
        self.cut_number(from, to, side, bytes.start..whole.start, emit);
        if !whole.is_empty() {
            let (from, to) = ((from + whole.start) as u64, (to + whole.start) as u64);
            emit(Move { from, to, run_bytes: (whole.end - whole.start) as u64, axes: smallvec![], ..*self });
        }
        self.cut_number(from, to, side, whole.end..bytes.end, emit);
    }
}

impl Repeated for Conversion {
    fn place(&self) -> (u64, u64, &Axes) {
        (self.from, self.to, &self.axes)
    }

    /// On the side of the source, where a number begins counts alone.
    fn bytes(&self, side: Side) -> u64 {
        match side {
            Side::Source => 1,
            Side::Destination => self.written_bytes(),
        }
    }

    fn at(&self, from: i64, to: i64, axes: Axes) -> Conversion {
        Conversion { from: from as u64, to: to as u64, axes, written: self.written.clone(), ..*self }
    }

    fn cut(&self, from: i64, to: i64, _: Side, bytes: Range<i64>, emit: &mut impl FnMut(Conversion)) {
        let first = i64::from(self.written.start);
        let written = (first + bytes.start) as u8..(first + bytes.end) as u8;
        emit(Conversion { written, ..self.at(from, to + bytes.start, smallvec![]) });
    }
}

impl Move {
    /// Some bytes of one number of a run, reversed: upwards in the destination, downwards in the source.
    fn cut_number(&self, from: i64, to: i64, side: Side, cut: Range<i64>, emit: &mut impl FnMut(Move)) {
        if cut.is_empty() {
            return;
        }
        let number = i64::from(self.swap_bytes);
        let count = cut.end - cut.start;
        let base = cut.start.div_euclid(number) * number;
        let (low, high) = (cut.start - base, cut.end - base);
        let (from_at, to_at) = match side {
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

struct Clip<'r, R> {
    each: &'r R,
    side: Side,
    /// Bytes of each on that side.
    bytes: i64,
    window: Range<i64>,
}

impl<R: Repeated> Clip<'_, R> {
    fn block(&self, from: i64, to: i64, axes: &[Axis], emit: &mut impl FnMut(R)) {
        let (below, above) = span(axes, self.side);
        let first = if self.side == Side::Source { from } else { to };
        let (begin, end) = (first + below, first + above + self.bytes);
        if end <= self.window.start || self.window.end <= begin {
            return;
        }
        if self.window.start <= begin && end <= self.window.end {
            return emit(self.part(from, to, axes));
        }
        let Some((outer, inner)) = axes.split_first() else {
            let cut = (self.window.start - first).max(0)..(self.window.end - first).min(self.bytes);
            return self.each.cut(from, to, self.side, cut, emit);
        };
        let count = outer.count as i64;
        let step = outer.bytes(self.side);
        let (below, above) = span(inner, self.side);
        let above = above + self.bytes;
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
        let mut axes = Axes::from_slice(axes);
        axes[0].count = (whole.end - whole.start) as u64;
        emit(self.part(from, to, &axes));
    }

    /// In normal form but for axes that could be merged.
    fn part(&self, from: i64, to: i64, axes: &[Axis]) -> R {
        let mut axes: Axes = axes.iter().filter(|axis| axis.count > 1).copied().collect();
        if self.side == Side::Source {
            axes.sort_by_key(|axis| std::cmp::Reverse(axis.to_bytes));
        }
        self.each.at(from, to, axes)
    }
}

fn ceiling(dividend: i64, divisor: i64) -> i64 {
    -(-dividend).div_euclid(divisor)
}
