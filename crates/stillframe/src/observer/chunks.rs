//! The bytes of a variable piece by piece, as they lie in the planes.
//!
//! # Safety
//!
//! The invariant of [`pieces`](crate::observer::pieces): a chunk lives no longer than the snapshot whose version its pages belong to.
#![allow(unsafe_code)]

use crate::error::Result;
use crate::observer::pieces::{Inner, Piece};
use crate::observer::variable::VariableView;
use std::ops::Range;
use std::sync::Arc;
use stillframe_kernel::map::Mapping;
use stillframe_segment::table::ZERO_PLANE;
use stillframe_segment::{Extent, PAGE_BYTES, WINDOW_BYTES};

/// A piece of a variable.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    /// Offset of the first byte in the variable.
    pub offset: usize,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// The pieces of a variable; see [`Snapshot::chunks`](crate::Snapshot::chunks).
#[derive(Debug)]
pub struct Chunks<'a> {
    /// Its hold, and the maps that it keeps, are what the pieces live on.
    _inner: &'a Inner,
    extent: &'a Extent,
    /// The runs with their maps, which those of zeros do not have.
    runs: std::vec::IntoIter<(Piece, Option<Arc<Mapping>>)>,
    /// The run being handed out.
    run: Option<(Piece, Option<Arc<Mapping>>)>,
    range: Range<usize>,
}

/// Zeros that may be seen as elements of any type, as those in pages may.
#[repr(align(4096))]
struct Zeros([u8; WINDOW_BYTES]);

static ZEROS: Zeros = Zeros([0; WINDOW_BYTES]);

impl<'a> Chunks<'a> {
    pub(crate) fn new(
        inner: &'a Inner,
        variable: &'a VariableView,
        runs: Vec<Piece>,
        range: Range<usize>,
    ) -> Result<Self> {
        let extent = &variable.extent;
        let mut mapped = Vec::new();
        inner.hold.shared.make_room(&mut mapped, runs.len())?;
        // All maps are made here, so that iterating cannot fail.
        for run in runs {
            let is_zeros = run.plane == ZERO_PLANE;
            let map = if is_zeros { None } else { Some(inner.plane_map(run.plane, run.end())?) };
            mapped.push((run, map));
        }
        Ok(Chunks { _inner: inner, extent, runs: mapped.into_iter(), run: None, range })
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Chunk<'a>;

    fn next(&mut self) -> Option<Chunk<'a>> {
        let page_offset = self.extent.page_offset as usize;
        loop {
            let (run, map) = self.run.take().or_else(|| self.runs.next())?;
            let start = (run.page * PAGE_BYTES).saturating_sub(page_offset).max(self.range.start);
            let end = ((run.page + run.pages) * PAGE_BYTES - page_offset).min(self.range.end);
            if start >= end {
                continue;
            }
            let Some(map) = map else {
                let stop = end.min(start + ZEROS.0.len());
                if stop < end {
                    self.run = Some((run, None));
                }
                self.range.start = stop;
                return Some(Chunk { offset: start, bytes: &ZEROS.0[..stop - start] });
            };
            // SAFETY: the pages belong to the version that the snapshot holds, and the snapshot keeps the map.
            let bytes = unsafe {
                &*std::ptr::from_ref(
                    map.bytes_at(run.at as usize + page_offset + start - run.page * PAGE_BYTES, end - start),
                )
            };
            return Some(Chunk { offset: start, bytes });
        }
    }
}
