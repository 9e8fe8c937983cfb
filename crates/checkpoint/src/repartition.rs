//! Boxes of global arrays, put together from what the ranks of another run had of them.

use crate::{Error, Result};
use std::ops::Range;
use stillframe::{Block, DType, Order, Part};

/// Bytes of a row that are taken at a time where its elements do not come to lie side by side.
const ROW_BYTES: usize = 1 << 20;

/// What is known of a piece of a global array that somebody stored.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) part: Part,
    pub(crate) shape: Vec<usize>,
    pub(crate) order: Order,
}

impl Piece {
    fn block(&self) -> Block {
        Block::new(&self.part.offset, &self.shape)
    }
}

/// Reads a box of a global array into `out`, which has its elements in this order, from pieces that `read` reads bytes of.
/// Every element comes from one piece; what no piece has is an error.
pub(crate) fn read(
    name: &str,
    dtype: &DType,
    pieces: &[Piece],
    wanted: &Block,
    order: Order,
    out: &mut [u8],
    mut read: impl FnMut(usize, Range<usize>, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let parts: Vec<(Part, Vec<usize>)> = pieces.iter().map(|piece| (piece.part.clone(), piece.shape.clone())).collect();
    let (sources, missing) = Part::sources(&parts, wanted);
    if let Some(gap) = missing.first() {
        return Err(Error::Uncovered {
            name: name.into(),
            wanted: wanted.to_string(),
            missing: gap.to_string(),
            parts: pieces.iter().map(|piece| piece.block().to_string()).collect(),
        });
    }
    sources.iter().try_for_each(|(index, common)| {
        copy(dtype.bytes(), &pieces[*index], wanted, common, order, out, |range, to| read(*index, range, to))
    })
}

/// Elements between neighbours along each dimension.
fn strides(shape: &[usize], order: Order) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    let mut stride = 1;
    let dimensions: Vec<usize> = slow_to_fast(shape.len(), order).collect();
    for d in dimensions.into_iter().rev() {
        strides[d] = stride;
        stride *= shape[d];
    }
    strides
}

/// The dimensions, the one along which neighbours lie side by side last.
fn slow_to_fast(dimensions: usize, order: Order) -> Box<dyn Iterator<Item = usize>> {
    match order {
        Order::C => Box::new(0..dimensions),
        Order::Fortran => Box::new((0..dimensions).rev()),
    }
}

/// Copies what a box has in common with a piece, run by run as they lie in the piece.
fn copy(
    element: usize,
    piece: &Piece,
    wanted: &Block,
    common: &Block,
    order: Order,
    out: &mut [u8],
    mut read: impl FnMut(Range<usize>, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let dimensions = common.shape.len();
    let (from, to) = (strides(&piece.shape, piece.order), strides(&wanted.shape, order));
    let axes: Vec<usize> = slow_to_fast(dimensions, piece.order).collect();
    // As many of the fastest axes as lie in one run on both sides; at least the fastest.
    let is_same_order = piece.order == order || dimensions < 2;
    let mut run = dimensions.saturating_sub(1);
    let is_whole = |d: usize| common.shape[d] == piece.shape[d] && common.shape[d] == wanted.shape[d];
    while is_same_order && run > 0 && is_whole(axes[run]) {
        run -= 1;
    }
    let count: usize = axes[run..].iter().map(|d| common.shape[*d]).product();
    let bytes = count * element;
    let most = (ROW_BYTES / element.max(1)).max(1);
    let fast = axes.last().map_or(1, |d| to[*d]);
    let mut row = Vec::new();
    let mut index = vec![0; run];
    loop {
        let start = |strides: &[usize], offset: &[usize]| -> usize {
            let along = |(place, d): (usize, &usize)| {
                let step = index.get(place).copied().unwrap_or(0);
                (common.offset[*d] - offset[*d] + step) * strides[*d]
            };
            axes.iter().enumerate().map(along).sum()
        };
        let (source, target) = (start(&from, &piece.part.offset) * element, start(&to, &wanted.offset) * element);
        if fast == 1 {
            read(source..source + bytes, &mut out[target..target + bytes])?;
        } else {
            // Of all that is wanted there may be one row, for which there is no memory beside `out`.
            for first in (0..count).step_by(most) {
                let part = first..count.min(first + most);
                row.resize(part.len() * element, 0);
                read(source + part.start * element..source + part.end * element, &mut row)?;
                for (number, value) in part.zip(row.chunks_exact(element.max(1))) {
                    let at = target + number * fast * element;
                    out[at..at + element].copy_from_slice(value);
                }
            }
        }
        // The next row, the fastest of the slow axes first.
        let Some(place) = (0..run).rev().find(|place| index[*place] + 1 < common.shape[axes[*place]]) else {
            return Ok(());
        };
        index[place] += 1;
        index[place + 1..].fill(0);
    }
}
