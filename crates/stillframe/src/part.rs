//! Parts of global arrays: what a rank says about the box that its variable is.
//!
//! A part is kept as two attributes of the variable, so that observers, files and programs in any language read it
//! without knowing more than attributes.

use crate::region::Attributes;
use crate::{Declaration, Error, Result, Scalar, VariableView};
use std::cmp::Ordering;

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

    /// The boxes of the global array, each as offset and shape, that these parts, with the shapes of their variables, give
    /// when it is put together: where a part ends in the next one, as in its ghost cells, the overlap is split in its
    /// middle, so that own cells win over ghosts of any width. Only parts of the same global shape are split.
    ///
    /// Boxes still overlap where one part lies within another, and there the first in order counts.
    pub fn owned(parts: &[(Part, Vec<usize>)]) -> Vec<(Vec<usize>, Vec<usize>)> {
        let end = |index: usize, dimension: usize| {
            let (part, shape) = &parts[index];
            part.offset[dimension] + shape[dimension]
        };
        let own = |index: usize| {
            let (part, shape) = &parts[index];
            let mut starts = part.offset.clone();
            let mut ends: Vec<usize> = (0..shape.len()).map(|dimension| end(index, dimension)).collect();
            for (other, (next, next_shape)) in parts.iter().enumerate().filter(|(other, _)| *other != index) {
                if next.global_shape != part.global_shape || next_shape.len() != shape.len() {
                    continue;
                }
                let low = |dimension: usize| part.offset[dimension].max(next.offset[dimension]);
                let high = |dimension: usize| end(index, dimension).min(end(other, dimension));
                let mut sides = Vec::new();
                for dimension in 0..shape.len() {
                    let starts = part.offset[dimension].cmp(&next.offset[dimension]);
                    if starts.is_ne() && starts == end(index, dimension).cmp(&end(other, dimension)) {
                        sides.push((dimension, starts));
                    }
                }
                // Parts that meet at a corner are kept apart by those at its sides.
                if let [(dimension, side)] = sides[..]
                    && (0..shape.len()).all(|dimension| low(dimension) < high(dimension))
                {
                    let middle = low(dimension) + (high(dimension) - low(dimension)) / 2;
                    match side {
                        Ordering::Less => ends[dimension] = ends[dimension].min(middle),
                        _ => starts[dimension] = starts[dimension].max(middle),
                    }
                }
            }
            let shape = starts.iter().zip(&ends).map(|(start, end)| end.saturating_sub(*start)).collect();
            (starts, shape)
        };
        (0..parts.len()).map(own).collect()
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
