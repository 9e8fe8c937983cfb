//! Where in a destination the bytes of a part of the source end.

use std::ops::Range;

use crate::clip::clip;
use crate::transfer::{Axis, Move, Side, Transfer, span};

impl Transfer {
    /// Passes to `emit` where in the destination the bytes end that come from `window` of the source, in any order. Ranges that
    /// lie less than `gap_bytes` apart may be passed as one: who asks which blocks of so many bytes are touched loses
    /// nothing by it, for such a gap has no whole block in it.
    pub fn destinations(&self, window: Range<u64>, gap_bytes: u64, emit: &mut impl FnMut(Range<u64>)) {
        for each in self.moves() {
            clip(each, Side::Source, window.clone(), &mut |part: Move| {
                reach(part.to, &part.axes, part.run_bytes, gap_bytes, emit);
            });
        }
        for each in self.conversions() {
            // Of a number that begins before the window some bytes may lie in it.
            let begin = window.start.saturating_sub(each.source.float.size_bytes() - 1);
            clip(each, Side::Source, begin..window.end, &mut |part| {
                reach(part.to, &part.axes, part.written_bytes(), gap_bytes, emit);
            });
        }
    }
}

/// Passes on the bytes at `to` that runs along the axes touch; the axes go upwards, the innermost last.
fn reach(to: u64, axes: &[Axis], run_bytes: u64, gap_bytes: u64, emit: &mut impl FnMut(Range<u64>)) {
    let bytes_of = |axes: &[Axis]| span(axes, Side::Destination).1 as u64 + run_bytes;
    let bytes = bytes_of(axes);
    let has_gap = (0..axes.len()).any(|at| axes[at].to_bytes as u64 >= bytes_of(&axes[at + 1..]) + gap_bytes);
    match axes.split_first() {
        Some((outer, inner)) if has_gap => {
            for at in 0..outer.count {
                reach(to + at * outer.to_bytes as u64, inner, run_bytes, gap_bytes, emit);
            }
        }
        _ => emit(to..to + bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn axes() -> impl Strategy<Value = Vec<(u64, i64)>> {
        prop::collection::vec((1..6u64, -40..40i64), 0..5)
    }

    proptest! {
        /// Against all bytes of a move, one by one: what is passed covers where they end, and what is between two of them only
        /// where less than a gap is.
        #[test]
        fn ranges_are_where_the_bytes_of_a_window_end(
            axes in axes(), run_bytes in 1..9u64, slack in 0..3u64, start in 0..200u64, bytes in 0..100u64, gap in 1..20u64,
        ) {
            let from = axes.iter().map(|(count, step)| (step * (*count as i64 - 1)).min(0).unsigned_abs()).sum();
            let (mut to_bytes, mut all) = (run_bytes, Vec::new());
            for (count, step) in axes.iter().rev() {
                all.push(Axis { count: *count, from_bytes: *step, to_bytes: to_bytes as i64 });
                to_bytes = to_bytes * count + slack;
            }
            all.reverse();
            let mut places = vec![(from as i64, 0u64)];
            for axis in &all {
                places = places.iter().flat_map(|(from, to)| {
                    (0..axis.count).map(move |at| (from + at as i64 * axis.from_bytes, to + at * axis.to_bytes as u64))
                }).collect();
            }
            let each = Move { from, to: 0, run_bytes, swap_bytes: 1, axes: all.into_iter().collect() };
            let transfer = Transfer::new(vec![each]).unwrap();
            let window = start..start + bytes;
            let expected: BTreeSet<u64> = places.iter().flat_map(|(from, to)| {
                let window = &window;
                (0..run_bytes).filter(move |at| window.contains(&(*from as u64 + at))).map(move |at| to + at)
            }).collect();
            let mut found = BTreeSet::new();
            transfer.destinations(window.clone(), gap, &mut |range| found.extend(range));
            prop_assert!(found.is_superset(&expected));
            let mut between = 0;
            for byte in 0..transfer.destination_bytes() {
                between = if expected.contains(&byte) { 0 } else { between + 1 };
                prop_assert!(between < gap || !found.contains(&byte), "{byte} is in a gap");
            }
            // And a window of the destination has what the whole has there.
            let source: Vec<u8> = (0..transfer.source_bytes()).map(|at| (at * 7 + at / 200) as u8).collect();
            let mut whole = vec![0xa5; transfer.destination_bytes() as usize];
            super::super::Executor::new(1).run(&transfer, &source, &mut whole).unwrap();
            let window = start.min(whole.len() as u64) as usize..(start + bytes).min(whole.len() as u64) as usize;
            let mut part = vec![0xa5; window.len()];
            let asked = window.start as u64..window.end as u64;
            #[allow(unsafe_code)]
            // SAFETY: the source is as long as it has to be, and the part as long as the window.
            unsafe { transfer.run_window(source.as_ptr(), asked, part.as_mut_ptr()) };
            prop_assert_eq!(&part, &whole[window]);
            // What is said to lie together does.
            let few = start..start + bytes % 4;
            if let Some(from) = transfer.run_of(few.clone()) {
                let (from, few) = (from as usize, few.start as usize..few.end as usize);
                prop_assert_eq!(&source[from..from + few.len()], &whole[few]);
            }
        }
    }
}
