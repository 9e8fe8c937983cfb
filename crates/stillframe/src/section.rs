//! Sections: which elements of an array in memory a variable shows.

use std::ops::Range;
use stillframe_segment::{DType, Order};

/// Some elements of an array: a box of it, and of that every n-th element along each dimension. A variable that is published
/// by [`Publication::section`](crate::Publication::section) shows these elements and no others.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("stillframe-doc-section-{}", std::process::id()));
/// use stillframe::{Region, Section};
/// // A row and a column of ghosts on each side.
/// let (n, m) = (6, 10);
/// let u: Vec<f64> = (0..n * m).map(|number| number as f64).collect();
/// let inner = Section::of(&[n, m]).inside(&[1..n - 1, 1..m - 1]);
///
/// let mut region = Region::options().dir(&dir).create("ghosts")?;
/// let (wide, narrow) = (region.track::<f64>("u")?, region.track::<f32>("coarse")?);
/// region.publish(1).section(&wide, &u, &inner).section(&narrow, &u, &inner.clone().every(&[2, 2])).commit()?;
///
/// let observer = stillframe::Observer::options().dir(&dir).open("ghosts")?;
/// assert_eq!(observer.newest()?.slice::<f64>("u")?[..8], [11., 12., 13., 14., 15., 16., 17., 18.]);
/// assert_eq!(observer.newest()?.slice::<f32>("coarse")?, [11., 13., 15., 17., 31., 33., 35., 37.]);
/// # region.unlink()?;
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok::<(), stillframe::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    array: Vec<usize>,
    order: Order,
    inside: Option<Vec<Range<usize>>>,
    every: Option<Vec<usize>>,
}

/// A section by the addresses of its elements, as other languages describe arrays: for
/// [`Publication::section_raw`](crate::Publication::section_raw).
#[derive(Debug, Clone)]
pub struct Strided<'a> {
    /// Address of the element with the index 0 along all dimensions.
    pub address: *const u8,
    /// Elements along each dimension.
    pub shape: &'a [usize],
    /// Distance in bytes from one element to the next along each dimension; it may be negative.
    pub strides: &'a [isize],
    /// Type of the elements in memory: that of the variable, or a wider one that it is rounded from.
    pub dtype: DType,
    /// In which order versions show the elements. Most is copied at once where it is that of the memory.
    pub order: Order,
}

/// Where the elements of a section lie in their array.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) shape: Vec<usize>,
    /// The first element, counted in the array.
    pub(crate) first: usize,
    /// Distances in elements of the array.
    pub(crate) strides: Vec<usize>,
    pub(crate) order: Order,
}

impl Section {
    /// All elements of a row-major array of this shape.
    pub fn of(shape: &[usize]) -> Section {
        Section { array: shape.to_vec(), order: Order::C, inside: None, every: None }
    }

    /// Says in which order the elements of the array lie in memory. Versions show those of the section in the same order.
    pub fn order(self, order: Order) -> Section {
        Section { order, ..self }
    }

    /// Takes those with these indices, a range for each dimension.
    pub fn inside(self, ranges: &[Range<usize>]) -> Section {
        Section { inside: Some(ranges.to_vec()), ..self }
    }

    /// Takes every n-th element along each dimension, beginning with the first of the box.
    pub fn every(self, steps: &[usize]) -> Section {
        Section { every: Some(steps.to_vec()), ..self }
    }

    /// Where its elements lie in an array of so many elements.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn places(&self, elements: usize) -> Result<Places, String> {
        let Section { array, order, inside, every } = self;
        let ndim = array.len();
        let all = array.iter().try_fold(1usize, |product, n| product.checked_mul(*n));
        if all != Some(elements) {
            return Err(format!("a section of an array of shape {array:?} was given an array of {elements} elements"));
        }
        let whole = || array.iter().map(|n| 0..*n).collect();
        let (ranges, steps) = (inside.clone().unwrap_or_else(whole), every.clone().unwrap_or_else(|| vec![1; ndim]));
        if ranges.len() != ndim || steps.len() != ndim {
            return Err(format!(
                "a section of an array of {ndim} dimensions has {} ranges and {} steps",
                ranges.len(),
                steps.len()
            ));
        }
        let (mut shape, mut strides, mut first, mut stride) = (vec![0; ndim], vec![0; ndim], 0, 1);
        let mut step = |at: usize| {
            let (range, step) = (&ranges[at], steps[at]);
            if range.start > range.end || range.end > array[at] {
                return Err(format!(
                    "the range {range:?} of dimension {at} is not inside the array's 0..{}",
                    array[at]
                ));
            }
            if step == 0 {
                return Err(format!("every 0th element of dimension {at} is none; say 1 for all of them"));
            }
            shape[at] = range.len().div_ceil(step);
            // Of an array without elements nobody follows these numbers, which may be too large.
            strides[at] = step.saturating_mul(stride);
            first += if shape[at] > 0 { range.start.saturating_mul(stride) } else { 0 };
            stride = stride.saturating_mul(array[at]);
            Ok(())
        };
        match order {
            Order::C => (0..ndim).rev().try_for_each(&mut step)?,
            Order::Fortran => (0..ndim).try_for_each(&mut step)?,
        }
        Ok(Places { shape, first, strides, order: *order })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_and_steps_become_distances() {
        let section = Section::of(&[4, 10]).inside(&[1..3, 2..9]).every(&[1, 3]);
        let places = Places { shape: vec![2, 3], first: 12, strides: vec![10, 3], order: Order::C };
        assert_eq!(section.places(40), Ok(places));
        let places = Places { shape: vec![2, 3], first: 9, strides: vec![1, 12], order: Order::Fortran };
        assert_eq!(section.order(Order::Fortran).places(40), Ok(places));
        assert_eq!(Section::of(&[]).places(1).unwrap().shape, [0usize; 0]);
        assert_eq!(Section::of(&[3, 0]).places(0).unwrap().shape, [3, 0]);
    }

    #[test]
    fn what_is_not_in_the_array_is_refused() {
        let of = |section: Section| section.places(40).unwrap_err();
        let all = Section::of(&[4, 10]);
        assert!(all.places(41).unwrap_err().contains("41 elements"));
        assert!(of(all.clone().inside(&[0..4, 0..11])).contains("0..11 of dimension 1"));
        #[allow(clippy::reversed_empty_ranges)]
        let backwards = all.clone().inside(&[3..2, 0..1]);
        assert!(of(backwards).contains("3..2 of dimension 0"));
        assert!(of(all.clone().inside(&[0..4, 0..4, 0..4])).contains("3 ranges"));
        assert!(of(all.clone().every(&[1, 0])).contains("every 0th"));
        assert!(Section::of(&[usize::MAX, 3]).places(40).is_err());
    }
}
