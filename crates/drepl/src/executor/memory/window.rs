//! Executing the part of a transfer that ends in a window of its destination, where that window is all there is of it.
//!
//! # Safety
//!
//! The invariant is that of [`memory`](super): a move that was clipped to a window has no position outside of it.
#![allow(unsafe_code)]

use std::ops::Range;

use super::super::clip::clip;
use super::run_single;
use crate::transfer::{Side, Transfer};

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
    }
}
