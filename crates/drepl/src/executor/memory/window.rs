//! Executing the part of a transfer that ends in a window of its destination, where that window is all there is of it.
//!
//! # Safety
//!
//! The invariant is that of [`memory`](super): a move that was clipped to a window has no position outside of it.
#![allow(unsafe_code)]

use std::ops::Range;

use super::{for_each, kernels, numbers, run_single};
use crate::clip::clip;
use crate::transfer::{Axis, LINE_BYTES, Side, Transfer, span};

impl Transfer {
    /// Moves the bytes that end in `window` of the destination to memory that is just this window. For who needs small
    /// parts of a destination one after the other, and has no memory for the whole. Nothing is planned and no thread is
    /// started, so that a window may be as small as a page.
    ///
    /// ```
    /// # use drepl::transfer::{Axis, Move, Transfer};
    /// // Every second byte.
    /// let axis = Axis { count: 4, from_bytes: 2, to_bytes: 1 };
    /// let all = Move { from: 0, to: 0, run_bytes: 1, swap_bytes: 1, axes: [axis].into_iter().collect() };
    /// let (transfer, source, mut two) = (Transfer::new(vec![all])?, b"a-b-c-d", [0; 2]);
    /// // SAFETY: the source has as many bytes as the transfer reads, and the window as many as its memory.
    /// unsafe { transfer.run_window(source.as_ptr(), 1..3, two.as_mut_ptr()) };
    /// assert_eq!(&two, b"bc");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    ///
    /// `source` is valid for reads of [`source_bytes`](Transfer::source_bytes) bytes, and `to` for writes of as many bytes as
    /// the window has, until this returns. They do not overlap, and no other thread of this process writes either of them
    /// meanwhile or reads what is written.
    pub unsafe fn run_window(&self, source: *const u8, window: Range<u64>, to: *mut u8) {
        let to = to.wrapping_sub(window.start as usize);
        for each in self.moves() {
            clip(each, Side::Destination, window.clone(), &mut |part| {
                // SAFETY: the part reads positions of the move, which lie inside the source, and writes inside the window.
                unsafe { run_single(&part, source, to, false) };
            });
        }
        for each in self.conversions() {
            clip(each, Side::Destination, window.clone(), &mut |part| {
                // SAFETY: as above.
                unsafe { numbers::convert(&part, source, to) };
            });
        }
    }

    /// Asks the memory for what [`run_window`](Transfer::run_window) will read, and does not wait: while one window is moved,
    /// the next one comes. Nothing is read, so that the address may be any.
    pub fn fetch_window(&self, source: *const u8, window: Range<u64>) {
        for each in self.moves() {
            clip(each, Side::Destination, window.clone(), &mut |part| {
                fetch(part.from, part.run_bytes, &part.axes, source);
            });
        }
        for each in self.conversions() {
            clip(each, Side::Destination, window.clone(), &mut |part| {
                fetch(part.from, part.source.float.size_bytes(), &part.axes, source);
            });
        }
    }

    /// Where in the source the bytes lie that end in `window` of the destination, if they lie together in both.
    pub fn run_of(&self, window: Range<u64>) -> Option<u64> {
        let bytes = window.end.checked_sub(window.start)?;
        // Most who ask have runs that are too short.
        if bytes == 0 || self.moves().first()?.run_bytes < bytes {
            return None;
        }
        self.run_at(window.start).filter(|(_, run_bytes)| bytes <= *run_bytes).map(|(from, _)| from)
    }

    /// Where in the source the byte lies that ends at `at` of the destination, and how many there are from it on that lie
    /// together in both. `None` where nothing ends, and for a transfer of several moves or of numbers that are converted.
    pub fn run_at(&self, at: u64) -> Option<(u64, u64)> {
        let ([each], []) = (self.moves(), self.conversions()) else { return None };
        let (mut from, mut at) = (each.from as i64, at.checked_sub(each.to)?);
        for axis in &each.axes {
            let index = (at / axis.to_bytes as u64).min(axis.count - 1);
            at -= index * axis.to_bytes as u64;
            from += index as i64 * axis.from_bytes;
        }
        let rest = each.run_bytes.checked_sub(at).filter(|rest| *rest > 0)?;
        Some((from as u64 + at, rest))
    }
}

fn fetch(from: u64, block_bytes: u64, axes: &[Axis], source: *const u8) {
    // Along the last axes there is something in every line, or nearly.
    let is_far = |axis: &Axis| axis.from_bytes.unsigned_abs() > LINE_BYTES;
    let outer = axes.iter().rposition(is_far).map_or(0, |last| last + 1);
    let (outer, inner) = axes.split_at(outer);
    let (below, above) = span(inner, Side::Source);
    for_each(outer, |from_at, _| {
        let first = from as i64 + from_at;
        for at in (first + below..first + above + block_bytes as i64).step_by(LINE_BYTES as usize) {
            kernels::fetch(source.wrapping_offset(at as isize));
        }
    });
}
