//! Parts of global arrays: what a rank says about the box that its variable is.
//!
//! A part is kept as two attributes of the variable, so that observers, files and programs in any language read it
//! without knowing more than attributes.

use crate::block::Block;
use crate::error::{Error, Result};
use crate::observer::variable::VariableView;
use crate::variable::{Attributes, Declaration};
use std::ops::Range;
use stillframe_segment::Scalar;

/// The box of a global array that a variable holds: the array of all ranks has `global_shape` elements, and the variable,
/// with its own shape, begins at `offset` in it.
///
/// ```
/// # use stillframe::{Declaration, Element, Kind, Part};
/// // The lower half of a 1024 × 512 array.
/// let part = Part { offset: vec![512, 0], global_shape: vec![1024, 512] };
/// let lower = Declaration::new("u", f64::dtype(), Kind::Managed { shape: vec![512, 512] }).part(part.clone());
/// assert_eq!(Part::of(&lower.attributes), Ok(Some(part)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Index of the first element in the global array, for each dimension.
    pub offset: Vec<usize>,
    /// The shape of the global array.
    pub global_shape: Vec<usize>,
}

impl Part {
    /// Name of the attribute that has the offset: whole numbers, separated by commas.
    pub const OFFSET: &str = "offset";
    /// Name of the attribute that has the global shape: whole numbers, separated by commas.
    pub const GLOBAL_SHAPE: &str = "global_shape";

    /// The part that attributes of a variable tell; `None` if they do not have both names.
    ///
    /// # Errors
    /// What is wrong with them, if they are not texts of as many whole numbers each.
    pub fn of(attributes: &Attributes) -> Result<Option<Part>, String> {
        let (Some(offset), Some(global_shape)) = (attributes.get(Part::OFFSET), attributes.get(Part::GLOBAL_SHAPE))
        else {
            return Ok(None);
        };
        let offset = read_numbers(Part::OFFSET, offset)?;
        let global_shape = read_numbers(Part::GLOBAL_SHAPE, global_shape)?;
        if offset.len() != global_shape.len() {
            let (few, many) = (offset.len(), global_shape.len());
            return Err(format!("the attribute 'offset' has {few} numbers, and 'global_shape' has {many}"));
        }
        Ok(Some(Part { offset, global_shape }))
    }

    /// Puts the part into the attributes of a variable.
    pub fn write(&self, attributes: &mut Attributes) {
        attributes.insert(Part::OFFSET.into(), Scalar::Text(write_numbers(&self.offset)));
        attributes.insert(Part::GLOBAL_SHAPE.into(), Scalar::Text(write_numbers(&self.global_shape)));
    }

    /// The boxes of the global array that these parts, with the shapes of their variables, give
    /// when it is put together: where a part ends in the next one, as in its ghost cells, the overlap is split in its
    /// middle, so that own cells win over ghosts of any width. Only parts of the same global shape are split.
    ///
    /// Two parts are kept apart along one dimension, that in which they overlap least: blocks that lie next to each other
    /// overlap there by their ghost cells, and elsewhere by more. Of parts of which one lies within the other, the smaller
    /// one gives nothing, and of equal ones the later one.
    pub fn owned(parts: &[(Part, Vec<usize>)]) -> Vec<Block> {
        let spans: Vec<Vec<Range<usize>>> = parts
            .iter()
            .map(|(part, shape)| part.offset.iter().zip(shape).map(|(start, extent)| *start..start + extent).collect())
            .collect();
        let mut owned = spans.clone();
        for second in 0..parts.len() {
            for first in 0..second {
                let (one, two) = (&spans[first], &spans[second]);
                if parts[first].0.global_shape != parts[second].0.global_shape || one.len() != two.len() {
                    continue;
                }
                let overlap = |dimension: usize| {
                    let (one, two) = (&one[dimension], &two[dimension]);
                    one.end.min(two.end).saturating_sub(one.start.max(two.start))
                };
                if (0..one.len()).any(|dimension| overlap(dimension) == 0) {
                    continue;
                }
                let side = |dimension: &usize| {
                    let starts = one[*dimension].start.cmp(&two[*dimension].start);
                    starts.is_ne() && starts == one[*dimension].end.cmp(&two[*dimension].end)
                };
                if let Some(dimension) = (0..one.len()).filter(side).min_by_key(|dimension| overlap(*dimension)) {
                    let (low, high) =
                        if one[dimension].start < two[dimension].start { (first, second) } else { (second, first) };
                    let middle = spans[high][dimension].start + overlap(dimension) / 2;
                    owned[low][dimension].end = owned[low][dimension].end.min(middle);
                    owned[high][dimension].start = owned[high][dimension].start.max(middle);
                    continue;
                }
                let within = |inner: &[Range<usize>], outer: &[Range<usize>]| {
                    inner.iter().zip(outer).all(|(inner, outer)| outer.start <= inner.start && inner.end <= outer.end)
                };
                match (within(two, one), within(one, two)) {
                    (true, _) => owned[second].iter_mut().for_each(|span| span.end = span.start),
                    (false, true) => owned[first].iter_mut().for_each(|span| span.end = span.start),
                    // Boxes that cross share what lies where they do.
                    (false, false) => {}
                }
            }
        }
        let block = |spans: &Vec<Range<usize>>| Block {
            offset: spans.iter().map(|span| span.start).collect(),
            shape: spans.iter().map(|span| span.end.saturating_sub(span.start)).collect(),
        };
        owned.iter().map(block).collect()
    }

    /// From which of these parts, with the shapes of their variables, each element of a box of their global array is taken:
    /// boxes that are apart, each with the number of its part; and the boxes that are in no part.
    ///
    /// What [`owned`](Part::owned) took from a part although nobody else has it, the part still gives.
    pub fn sources(parts: &[(Part, Vec<usize>)], wanted: &Block) -> (Vec<(usize, Block)>, Vec<Block>) {
        let whole = parts.iter().map(|(part, shape)| Block::new(&part.offset, shape));
        let given = Part::owned(parts).into_iter().enumerate().chain(whole.enumerate());
        let mut taken: Vec<(usize, Block)> = Vec::new();
        for (index, block) in given {
            let mut rest: Vec<Block> = wanted.overlap(&block).into_iter().collect();
            for (_, other) in taken.iter().filter(|(_, other)| other.meets(&block)) {
                rest = rest.iter().flat_map(|block| block.without(other)).collect();
            }
            taken.extend(rest.into_iter().map(|block| (index, block)));
        }
        let mut missing: Vec<Block> = Some(wanted.clone()).filter(|wanted| !wanted.is_empty()).into_iter().collect();
        for (_, block) in &taken {
            missing = missing.iter().flat_map(|gap| gap.without(block)).collect();
        }
        (taken, missing)
    }

    /// Whether a variable of this shape lies within the global array.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self, shape: &[usize]) -> Result<(), String> {
        let Part { offset, global_shape } = self;
        if offset.len() != shape.len() || global_shape.len() != shape.len() {
            return Err(format!(
                "its shape {shape:?} has {} dimensions, its offset {offset:?} {} and its global shape {global_shape:?} {}",
                shape.len(),
                offset.len(),
                global_shape.len()
            ));
        }
        let fits = |dimension: usize| {
            let end = offset[dimension].checked_add(shape[dimension]);
            end.is_some_and(|end| end <= global_shape[dimension])
        };
        match (0..shape.len()).all(fits) {
            true => Ok(()),
            false => {
                Err(format!("its shape {shape:?} at offset {offset:?} reaches beyond the global {global_shape:?}"))
            }
        }
    }
}

fn write_numbers(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

fn read_numbers(name: &str, value: &Scalar) -> Result<Vec<usize>, String> {
    let fail = || {
        let form = "whole numbers separated by commas, as in '0,512'";
        format!("the attribute '{name}' is '{value}', and says with 'offset' and 'global_shape' {form}")
    };
    let Scalar::Text(text) = value else { return Err(fail()) };
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let numbers = text.split(',').map(|number| number.trim().parse());
    numbers.collect::<Result<_, _>>().map_err(|_: std::num::ParseIntError| fail())
}

impl Declaration {
    /// Says which part of a global array the variable is.
    pub fn part(mut self, part: Part) -> Declaration {
        part.write(&mut self.attributes);
        self
    }
}

impl VariableView {
    /// The part of a global array that the variable is in this version, if it is one.
    ///
    /// # Errors
    /// [`Error::WrongShape`] if its attributes `offset` and `global_shape` tell nothing into which it fits.
    pub fn part(&self) -> Result<Option<Part>> {
        let fail = |why| Error::WrongShape { name: self.name.clone(), why };
        let part = Part::of(&self.attributes).map_err(fail)?;
        part.as_ref().map_or(Ok(()), |part| part.check(&self.shape)).map_err(fail)?;
        Ok(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(offset: [usize; 2], shape: [usize; 2]) -> (Part, Vec<usize>) {
        (Part { offset: offset.to_vec(), global_shape: vec![14, 14] }, shape.to_vec())
    }

    fn owned(parts: &[(Part, Vec<usize>)]) -> Vec<(Vec<usize>, Vec<usize>)> {
        Part::owned(parts).into_iter().map(|Block { offset, shape }| (offset, shape)).collect()
    }

    #[test]
    fn ranks_give_the_cells_that_they_compute() {
        let grid = [part([0, 0], [8, 8]), part([0, 6], [8, 8]), part([6, 0], [8, 8]), part([6, 6], [8, 8])];
        let found = owned(&grid);
        let expected = [([0, 0], [7, 7]), ([0, 7], [7, 7]), ([7, 0], [7, 7]), ([7, 7], [7, 7])];
        assert_eq!(found, expected.map(|(offset, shape)| (offset.to_vec(), shape.to_vec())));
    }

    #[test]
    fn blocks_whose_edges_do_not_meet_are_kept_apart_where_they_touch() {
        // Ghosts of one cell around blocks of which two on the right lie against one and a half on the left.
        let blocks = [part([0, 0], [11, 8]), part([9, 0], [5, 8]), part([0, 6], [7, 8]), part([5, 6], [9, 8])];
        let found = owned(&blocks);
        let mut times = vec![0; 14 * 14];
        for (offset, shape) in &found {
            for y in offset[0]..offset[0] + shape[0] {
                for x in offset[1]..offset[1] + shape[1] {
                    times[y * 14 + x] += 1;
                }
            }
        }
        assert!(times.iter().all(|times| *times == 1), "{found:?}");
        assert_eq!(found[2], (vec![0, 7], vec![6, 7]));
    }

    #[test]
    fn each_element_of_a_box_has_one_source_or_is_missing() {
        // Two boxes that cross, a third beside them, and a corner that nobody has.
        let parts = [part([0, 4], [14, 4]), part([4, 0], [4, 14]), part([8, 8], [4, 6])];
        let wanted = Block::new(&[2, 2], &[12, 12]);
        let (sources, missing) = Part::sources(&parts, &wanted);
        let mut found: Vec<&Block> = sources.iter().map(|(_, block)| block).chain(&missing).collect();
        assert_eq!(found.iter().map(|block| block.elements()).sum::<u64>(), 144);
        while let Some(block) = found.pop() {
            assert!(found.iter().all(|other| other.overlap(block).is_none()));
        }
        for (index, block) in &sources {
            let (part, shape) = &parts[*index];
            assert_eq!(Block::new(&part.offset, shape).overlap(block).as_ref(), Some(block));
        }
        for gap in &missing {
            assert!(parts.iter().all(|(part, shape)| Block::new(&part.offset, shape).overlap(gap).is_none()));
        }
    }

    #[test]
    fn what_lies_within_another_part_gives_nothing() {
        let found = owned(&[part([2, 2], [3, 3]), part([0, 0], [14, 14]), part([0, 0], [14, 14])]);
        let cells: Vec<usize> = found.iter().map(|(_, shape)| shape.iter().product()).collect();
        assert_eq!(cells, [0, 196, 0]);
        let apart = (Part { offset: vec![2, 2], global_shape: vec![9, 9] }, vec![3, 3]);
        assert_eq!(owned(&[part([0, 0], [14, 14]), apart])[1].1, [3, 3], "another array");
    }
}
