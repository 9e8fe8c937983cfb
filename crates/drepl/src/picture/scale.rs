//! From places along an axis to places on paper.

use super::panel::{Axis, Plane, cuts};
use crate::progression::Progression;

/// Grows with the axis, but by some least length from each cut to the next, so that a row of ghost cells is seen.
#[derive(Debug, Clone)]
pub struct Scale {
    /// Where anything begins or ends, sorted; the first is 0, the last the number of places.
    pub cuts: Vec<u64>,
    /// Where the cuts are drawn.
    pub marks: Vec<f64>,
    /// Whether equal distances are drawn equal.
    pub is_even: bool,
    /// Whether every cut has a mark of its own: otherwise there are too many, and `cuts` are the ends alone.
    pub is_exact: bool,
}

/// Which of its axes a plane is looked at along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Down,
    Right,
}

impl Scale {
    /// Draws an axis of all planes on a length. Cuts are at least as far apart as the first of `leasts` that there is
    /// room for.
    pub fn new(axis: Option<&Axis>, planes: &[Plane], direction: Direction, length: f64, leasts: &[f64]) -> Self {
        let count = axis.map_or(1, |axis| axis.count);
        let patches = planes.iter().flat_map(|plane| &plane.patches).map(|patch| match direction {
            Direction::Down => patch.rows,
            Direction::Right => patch.columns,
        });
        let patches: Vec<Progression> = patches.collect();
        let all = cuts(patches.iter().copied(), count).unwrap_or_default();
        let fits = |least: &&f64| all.len() > 1 && (all.len() - 1) as f64 * **least <= length * 1.0001;
        // What alternates is seen at its beginning, and nowhere from afar.
        let alternates = patches.iter().any(|places| places.step() > 1);
        let leasts = if alternates { &leasts[..leasts.len().min(2)] } else { leasts };
        let coarse = leasts.last().copied().unwrap_or(1.0);
        let (cuts, least, is_exact) = match leasts.iter().find(fits) {
            Some(least) => (all, *least, true),
            None if alternates => {
                let room = (length / coarse) as u64;
                let near = patches.iter().filter_map(|places| places.clip(0, room.min(count)));
                (cuts(near, room.min(count)).unwrap_or_else(|| vec![0, room.min(count)]), coarse, true)
            }
            None => (vec![0, count], 0.0, false),
        };
        let (marks, is_even) = marks(&cuts, length, least);
        Self { cuts, marks, is_even, is_exact }
    }

    /// How many places are drawn: the first ones.
    pub fn shown(&self) -> u64 {
        self.cuts.last().copied().unwrap_or(0)
    }

    /// Where a place begins on paper.
    pub fn at(&self, place: u64) -> f64 {
        match self.cuts.binary_search(&place) {
            Ok(cut) => self.marks[cut],
            Err(next) => {
                let next = next.clamp(1, self.cuts.len() - 1);
                let (low, high) = (self.cuts[next - 1], self.cuts[next]);
                let share = (place - low) as f64 / (high - low) as f64;
                self.marks[next - 1] + share * (self.marks[next] - self.marks[next - 1])
            }
        }
    }

    /// The same on whole numbers, each cut at one of its own.
    pub fn rounded(mut self) -> Self {
        let mut least = 0.0;
        for mark in &mut self.marks {
            *mark = mark.round().max(least);
            least = *mark + 1.0;
        }
        self
    }

    /// The same, evenly and in cells of a side.
    pub fn in_cells(&self, side: f64) -> Self {
        let ends = [self.cuts[0], self.cuts[self.cuts.len() - 1]];
        let length = (self.length() / side).floor().max(1.0);
        Self { cuts: ends.to_vec(), marks: vec![0.0, length], is_even: true, is_exact: false }
    }

    pub fn length(&self) -> f64 {
        self.marks.last().copied().unwrap_or(0.0)
    }
}

/// Shares a length among the distances between cuts; those that would be too short get the least, the others what is left.
fn marks(cuts: &[u64], length: f64, least: f64) -> (Vec<f64>, bool) {
    let distances: Vec<f64> = cuts.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let mut lengths: Vec<Option<f64>> = vec![None; distances.len()];
    let mut scale;
    loop {
        let given: f64 = lengths.iter().flatten().sum();
        let open = || distances.iter().zip(&lengths).filter(|(_, length)| length.is_none());
        let sum: f64 = open().map(|(distance, _)| distance).sum();
        scale = (length - given).max(0.0) / sum.max(1.0);
        let short = |distance: f64| distance * scale < least - 1e-9;
        if sum == 0.0 || !open().any(|(distance, _)| short(*distance)) {
            break;
        }
        for (distance, length) in distances.iter().zip(&mut lengths) {
            if length.is_none() && short(*distance) {
                *length = Some(least);
            }
        }
    }
    let is_even = lengths.iter().all(Option::is_none);
    let mut marks = vec![0.0];
    for (distance, length) in distances.iter().zip(&lengths) {
        marks.push(marks[marks.len() - 1] + length.unwrap_or(distance * scale));
    }
    (marks, is_even)
}
