//! Pieces (a file system calls them extents): pages side by side in one plane.

use crate::mask::Mask;
use crate::store::version::Subtable;
use stillframe_segment::WINDOW_PAGES;
use stillframe_segment::table::ZERO_PLANE;

/// Pages side by side in one plane, counted from the first page of the working memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) plane: u8,
    pub(crate) page: usize,
    pub(crate) pages: usize,
}

/// Pieces of a recovered window above which it is not shown as it lies: each piece takes one of the process's mappings.
pub(crate) const PIECES_MAX: usize = 8;

/// The pieces in which the pages of a window lie, but for those that are zeros.
pub(crate) fn pieces(index: usize, table: &Subtable) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (page, plane) in table.iter().enumerate().filter(|(_, plane)| **plane != ZERO_PLANE) {
        let page = index * WINDOW_PAGES + page;
        match pieces.last_mut() {
            Some(last) if last.plane == *plane && last.page + last.pages == page => last.pages += 1,
            _ => pieces.push(Piece { plane: *plane, page, pages: 1 }),
        }
    }
    pieces
}

/// The number of pieces in which the pages of a window lie.
pub(crate) fn count_pieces(table: &Subtable) -> usize {
    pieces(0, table).len()
}

/// The pieces of a window if the plane that has most of its pages had all of them, and the pages that it does not have.
pub(crate) fn pieces_below(index: usize, table: &Subtable) -> (Vec<Piece>, Mask) {
    let mut counts = [0; ZERO_PLANE as usize];
    table.iter().filter(|plane| **plane != ZERO_PLANE).for_each(|plane| counts[*plane as usize] += 1);
    let most = (0..ZERO_PLANE).max_by_key(|plane| counts[*plane as usize]).unwrap_or(0);
    let (mut below, mut own) = (*table, Mask::EMPTY);
    for (page, plane) in below.iter_mut().enumerate().filter(|(_, plane)| **plane != ZERO_PLANE && **plane != most) {
        *plane = most;
        own.insert(page);
    }
    (pieces(index, &below), own)
}
