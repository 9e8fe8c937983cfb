//! Which elements of which ranks are meant.

use crate::failure::Failure;
use crate::gather::{SnapshotSource, Source};
use crate::selection::Selection;
use crate::slice::{self, Axis, Request};
use std::ops::Range;
use stillframe::{AnySnapshot, Block, Part, Snapshot};

/// Bytes that are read at once: they stay in the cache until they are counted.
const BLOCK_BYTES: usize = 1 << 18;

/// Elements of a version: a selection of each snapshot that has some.
pub struct Scope<'a> {
    shares: Vec<(&'a Snapshot, Selection)>,
    /// Shape of what all snapshots together have, before a slice was taken.
    pub shape: Option<Vec<usize>>,
}

impl<'a> Scope<'a> {
    /// What a text such as `u[0, :]` means in a version. Slices of groups are of the global array.
    pub fn resolve(text: &str, held: &'a AnySnapshot) -> Result<Scope<'a>, Failure> {
        let ranks = match held {
            AnySnapshot::Region(snapshot) => {
                let selection = Selection::resolve(text, snapshot.variables())?;
                let shape = Some(selection.axes.iter().map(|axis| axis.length).collect());
                return Ok(Scope { shares: vec![(snapshot, selection)], shape });
            }
            AnySnapshot::Group(group) => group.ranks(),
        };
        let is_name = ranks.iter().any(|rank| rank.variable(text).is_ok());
        let request = if is_name { Request { path: text.into(), indices: Vec::new() } } else { text.parse()? };
        let shares: Vec<_> = ranks
            .iter()
            .filter_map(|rank| Some((rank, Selection::resolve(&request.path, rank.variables()).ok()?)))
            .collect();
        if shares.is_empty() {
            // The first rank says what it has instead.
            Selection::resolve(&request.path, ranks[0].variables())?;
        }
        let parts = shares.iter().map(|(rank, selection)| rank.variable(&selection.variable)?.part());
        let parts: Vec<Option<Part>> = parts.collect::<stillframe::Result<_>>()?;
        let Some(parts) = parts.into_iter().collect::<Option<Vec<Part>>>() else {
            if request.indices.is_empty() {
                return Ok(Scope { shares, shape: None });
            }
            let name = &request.path;
            return Err(Failure::Misuse(format!(
                "'{name}' does not tell its part of a global array (attributes offset and global_shape), so there is \
                 nothing to slice: take '{name}' of all ranks, or a rank as in 'NAME/0'"
            )));
        };
        let shape = parts[0].global_shape.clone();
        if let Some(other) = parts.iter().find(|part| part.global_shape != shape) {
            let (one, other) = (slice::format_shape(&shape), slice::format_shape(&other.global_shape));
            let name = &request.path;
            return Err(Failure::Problem(format!("ranks tell different global shapes of '{name}': {one} and {other}")));
        }
        let wanted = slice::select(&request.indices, &shape)?;
        let lengths = |own: &Selection| own.axes.iter().map(|axis| axis.length).collect();
        let parts: Vec<(Part, Vec<usize>)> =
            parts.into_iter().zip(&shares).map(|(part, (_, own))| (part, lengths(own))).collect();
        let (sources, _) = Part::sources(&parts, &Block::new(&vec![0; shape.len()], &shape));
        let share = |(index, block): (usize, Block)| {
            let (snapshot, mut selection) = shares[index].clone();
            for (dimension, axis) in selection.axes.iter_mut().enumerate() {
                let start = block.offset[dimension];
                let given = start..start + block.shape[dimension];
                *axis = localize(&wanted[dimension], axis.length, parts[index].0.offset[dimension], &given);
            }
            (snapshot, selection)
        };
        let shares = sources.into_iter().map(share).filter(|(_, selection)| selection.count() > 0).collect();
        Ok(Scope { shares, shape: Some(shape) })
    }

    /// What is known of the variable: type and units are those of the first rank that has some of it.
    pub fn selection(&self) -> Option<&Selection> {
        self.shares.first().map(|(_, selection)| selection)
    }

    /// Passes on the bytes of all elements in pieces, rank by rank; whole variables in blocks.
    pub fn visit(&self, sink: &mut dyn FnMut(&[u8])) -> Result<(), Failure> {
        for (snapshot, selection) in &self.shares {
            let whole = selection.axes.iter().all(Axis::is_whole) && selection.stride_bytes == selection.dtype.bytes();
            if whole {
                let bytes = snapshot.variable(&selection.variable)?.bytes;
                let mut block = vec![0; bytes.min(BLOCK_BYTES)];
                for at in (0..bytes).step_by(BLOCK_BYTES) {
                    let some = &mut block[..BLOCK_BYTES.min(bytes - at)];
                    snapshot.read(&selection.variable, at, some)?;
                    sink(some);
                }
                continue;
            }
            let source = SnapshotSource { snapshot, variable: &selection.variable };
            source.stream(selection, &mut |piece| {
                sink(piece);
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// The elements of a rank's axis that are selected from the global one, in ascending order.
fn localize(wanted: &Axis, length: usize, offset: usize, owned: &Range<usize>) -> Axis {
    let none = Axis { length, start: 0, step: 1, count: 0, dropped: false, gap: None };
    if wanted.count == 0 {
        return none;
    }
    let step = wanted.step.unsigned_abs();
    let start = wanted.index(0).min(wanted.index(wanted.count - 1));
    let place = |border: usize| border.saturating_sub(start).div_ceil(step).min(wanted.count);
    let (first, end) = (place(owned.start), place(owned.end));
    if first >= end {
        return none;
    }
    let count = end - first;
    let step = if count == 1 { 1 } else { step as isize };
    Axis { start: start + first * wanted.step.unsigned_abs() - offset, step, count, ..none }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_of_a_slice_is_on_one_rank() {
        let spans = [0..5usize, 5..6, 6..13];
        for start in -14..14 {
            for stop in -14..14 {
                for step in [-7, -3, -2, -1, 1, 2, 5] {
                    let index = slice::Index::Span { start: Some(start), stop: Some(stop), step: Some(step) };
                    let wanted = slice::select(&[index], &[13]).unwrap()[0];
                    let mut expected: Vec<usize> = (0..wanted.count).map(|place| wanted.index(place)).collect();
                    expected.sort_unstable();
                    let found: Vec<usize> = spans
                        .iter()
                        .flat_map(|span| {
                            // The rank has an element more on either side.
                            let offset = span.start.saturating_sub(1);
                            let axis = localize(&wanted, span.len() + 2, offset, span);
                            (0..axis.count).map(move |place| offset + axis.index(place))
                        })
                        .collect();
                    assert_eq!(found, expected, "{start}:{stop}:{step}");
                }
            }
        }
    }
}
