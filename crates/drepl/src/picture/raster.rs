//! Planes as grids of cells.

use super::{panel::Plane, scale::Scale};
use crate::progression::Progression;

/// What is in one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// Nothing that is wanted.
    Nothing,
    /// Elements of one source, or missing.
    One(Option<usize>),
    /// Elements of several sources.
    Several,
}

/// The cells of a plane, row by row, on scales whose marks are whole numbers.
pub fn cells(plane: &Plane, down: &Scale, right: &Scale) -> Vec<Vec<Cell>> {
    let mut cells = vec![vec![Cell::Nothing; right.length() as usize]; down.length() as usize];
    for patch in &plane.patches {
        let own = Cell::One(patch.source);
        let columns = spans(&patch.columns, right);
        for (top, bottom) in spans(&patch.rows, down) {
            for row in &mut cells[top..bottom] {
                for (left, end) in &columns {
                    for cell in &mut row[*left..*end] {
                        *cell = if [Cell::Nothing, own].contains(cell) { own } else { Cell::Several };
                    }
                }
            }
        }
    }
    cells
}

/// Where places are drawn, from the first cell up to and without the last.
fn spans(places: &Progression, scale: &Scale) -> Vec<(usize, usize)> {
    let Some(places) = places.clip(0, scale.shown()) else { return Vec::new() };
    let length = scale.length() as usize;
    let span = |start: u64, end: u64| {
        let low = (scale.at(start).floor() as usize).min(length - 1);
        (low, (scale.at(end).floor() as usize).clamp(low + 1, length))
    };
    if places.step() == 1 || places.count() > 4 * length as u64 {
        return vec![span(places.start(), places.end())];
    }
    let mut spans: Vec<_> = places.iter().map(|place| span(place, place + 1)).collect();
    spans.dedup();
    spans
}
