//! Looking whether a variable is written while a publish in the background copies it: by checksums of what is to be copied,
//! taken when the publish starts, and compared with what the program has and what was copied when it ends.
//!
//! # Safety
//!
//! This module reads memory the application owns, which is there when the publish starts and was looked for when it ends, and
//! frames that no version uses yet. Both are copied before they are looked at.
#![allow(unsafe_code)]

use crate::list;
use stillframe_kernel::Failure;
use stillframe_kernel::copy::{Piece, copy_bytes};
use stillframe_segment::PAGE_BYTES;
use stillframe_segment::table::checksum;

/// What was to be copied, page by page, and the checksum of each.
#[derive(Debug)]
pub(crate) struct Sums(Vec<(Piece, u32)>);

impl Sums {
    pub(crate) fn of(pieces: &[Piece]) -> Result<Sums, Failure> {
        let pages = pieces.iter().flat_map(|piece| {
            let offsets = (0..piece.bytes).step_by(PAGE_BYTES);
            offsets.map(|at| Piece {
                from: piece.from + at,
                to: piece.to + at,
                bytes: PAGE_BYTES.min(piece.bytes - at),
            })
        });
        let mut sums = Vec::new();
        list::make_room(&mut sums, pages.clone().count())?;
        sums.extend(pages.map(|page| (page, sum(page.from, page.bytes))));
        Ok(Sums(sums))
    }

    /// The first page that was written since, by the address of its first byte.
    pub(crate) fn find_written(&self) -> Option<usize> {
        let is_other = |(page, before): &&(Piece, u32)| {
            sum(page.from, page.bytes) != *before || sum(page.to, page.bytes) != *before
        };
        self.0.iter().find(is_other).map(|(page, _)| page.from)
    }
}

fn sum(address: usize, bytes: usize) -> u32 {
    let mut copy = [0; PAGE_BYTES];
    // SAFETY: the bytes are no more than a page, and are there.
    unsafe { copy_bytes(address, copy.as_mut_ptr() as usize, bytes) };
    checksum(&copy[..bytes])
}
