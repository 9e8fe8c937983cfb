//! Places that are linked with elements one by one: diagonals, and indices that are listed.

use smallvec::SmallVec;

use super::affine::{Affine, Defined, Link, Overflow};
use crate::progression::Progression;

/// So many places may be linked one by one.
pub const POINTS_MAX: i128 = 1 << 16;

/// An index of the right side, of a variable that stands in several or that lists choose by.
#[derive(Debug, Clone)]
pub enum Pointwise<L> {
    Affine(Affine),
    /// What a division of the function by the number leaves.
    Wrapped(Affine, u64),
    /// A function of what a list has at the place that is a function of the variable.
    Listed(Affine, L, Affine),
}

/// The variables at which there may be an element: they lie at equal distances.
#[derive(Debug, Clone, Copy)]
pub struct Variables {
    first: i128,
    step: i128,
    pub count: i128,
}

impl Variables {
    /// Those of a range at which all divisions come out even.
    fn between(low: i128, high: i128, defined: Defined) -> Self {
        let Defined::Every { modulus: step, residue } = defined else { return Self { first: low, step: 1, count: 0 } };
        let first = low + (residue - low).rem_euclid(step);
        let count = if first > high { 0 } else { (high - first) / step + 1 };
        Self { first, step, count }
    }

    fn iter(self) -> impl Iterator<Item = i128> {
        (0..self.count).map(move |number| self.first + number * self.step)
    }
}

/// What comes of the indices of one variable.
#[derive(Debug)]
pub enum Points {
    /// For each index its links, all of them as many: those at one position belong together. The places are those of the first index.
    Links(Vec<Vec<Link>>),
    /// An index leaves its axis, or its list: which index, and where it reaches.
    Outside(usize, i128),
    OutsideList(usize, i128),
}

/// Links the places `left(x)` of a variable with the elements at the indices of the right, each of which has an axis of so many elements,
/// for all `x` of the variables. An element for each place has to exist, unless they are `clipped`.
pub fn link_points<L: AsRef<[i64]>>(
    left: &Affine,
    variables: Variables,
    rights: &[(Pointwise<L>, u64)],
    clipped: bool,
) -> Result<Points, Overflow> {
    let mut points: Vec<u64> = Vec::new();
    let mut elements: Vec<Vec<u64>> = vec![Vec::new(); rights.len()];
    for x in variables.iter() {
        let Some(place) = left.value(x)? else { continue };
        let found = rights.iter().map(|(right, _)| right.at(x)).collect::<Result<SmallVec<[At; 4]>, Overflow>>()?;
        // Where one division leaves a remainder there is no element, wherever others reach.
        if found.iter().any(|at| matches!(at, At::Nowhere)) {
            continue;
        }
        let outside = found.iter().zip(rights).position(|(at, (_, extent))| at.index(*extent).is_none());
        if let Some(position) = outside {
            match found[position] {
                _ if clipped => continue,
                At::OutsideList(index) => return Ok(Points::OutsideList(position, index)),
                At::Index(index) => return Ok(Points::Outside(position, index)),
                At::Nowhere => continue,
            }
        }
        let found = found.iter().zip(rights).filter_map(|(at, (_, extent))| at.index(*extent));
        points.push(u64::try_from(place).map_err(|_| Overflow)?);
        elements.iter_mut().zip(found).for_each(|(elements, index)| elements.push(index));
    }
    let links = match &elements[..] {
        [alone] => vec![runs(&points, alone).ok_or(Overflow)?],
        together => {
            let one = |(place, index): (&u64, &u64)| {
                Some(Link { elements: Progression::new(*index, 1, 1)?, place: *place, step: 0 })
            };
            let links = together.iter().map(|elements| points.iter().zip(elements).map(one).collect());
            links.collect::<Option<Vec<Vec<Link>>>>().ok_or(Overflow)?
        }
    };
    Ok(Points::Links(links))
}

/// The variables of all places; `None` if there is no last one. With an extent of its own the axis has every place that `left` names there.
pub fn variables<L: AsRef<[i64]>>(
    left: &Affine,
    places: Option<u64>,
    rights: &[(Pointwise<L>, u64)],
    clipped: bool,
) -> Option<Variables> {
    let half = left.between(0, i128::from(places.unwrap_or(1)) - 1);
    let (mut low, mut high) = match places {
        Some(_) => (Some(half.0), Some(half.1)),
        None if left.rises() => (Some(half.0), None),
        None => (None, Some(half.1)),
    };
    let lists = rights.iter().filter_map(|(right, _)| right.listed());
    let listed = lists.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    match (places, listed) {
        // Each place of an extent that is written has to have an element, unless those without are holes.
        (Some(_), _) if !clipped => {}
        // There are as many places as the longest list has numbers: where another list or an axis has fewer, that is told.
        (None, Some((first, last))) if !clipped => {
            low = Some(low.map_or(first, |low| low.max(first)));
            high = Some(high.map_or(last, |high| high.min(last)));
        }
        _ => {
            for (first, last) in rights.iter().filter_map(|(right, extent)| right.range(*extent)) {
                low = Some(low.map_or(first, |low| low.max(first)));
                high = Some(high.map_or(last, |high| high.min(last)));
            }
        }
    }
    // What is too large to be computed with is left to each place.
    let even = rights.iter().fold(left.defined(), |even, (right, _)| even.and(right.defined()).unwrap_or(even));
    Some(Variables::between(low?, high?, even))
}

/// Where an index is, at one place.
#[derive(Clone, Copy)]
enum At {
    Index(i128),
    /// A division leaves a remainder.
    Nowhere,
    OutsideList(i128),
}

impl At {
    /// The index, if an axis of so many elements has it.
    fn index(self, extent: u64) -> Option<u64> {
        match self {
            Self::Index(index) => u64::try_from(index).ok().filter(|index| *index < extent),
            Self::Nowhere | Self::OutsideList(_) => None,
        }
    }
}

impl<L: AsRef<[i64]>> Pointwise<L> {
    fn at(&self, x: i128) -> Result<At, Overflow> {
        let index = match self {
            Self::Affine(affine) => affine.value(x)?,
            Self::Wrapped(affine, modulus) => affine.value(x)?.map(|value| value.rem_euclid(i128::from(*modulus))),
            Self::Listed(inner, list, outer) => {
                let Some(place) = inner.value(x)? else { return Ok(At::Nowhere) };
                let number = usize::try_from(place).ok().and_then(|place| list.as_ref().get(place));
                let Some(number) = number else { return Ok(At::OutsideList(place)) };
                outer.value(i128::from(*number))?
            }
        };
        Ok(index.map_or(At::Nowhere, At::Index))
    }

    /// The variables at which the divisions of the index come out even.
    fn defined(&self) -> Defined {
        match self {
            Self::Affine(affine) | Self::Wrapped(affine, _) | Self::Listed(affine, ..) => affine.defined(),
        }
    }

    /// The variables at which there may be an element; `None` for any.
    fn range(&self, extent: u64) -> Option<(i128, i128)> {
        match self {
            Self::Affine(affine) => Some(affine.between(0, i128::from(extent) - 1)),
            Self::Wrapped(..) => None,
            Self::Listed(..) => self.listed(),
        }
    }

    /// The variables at which a list has a number; `None` where there is no list.
    fn listed(&self) -> Option<(i128, i128)> {
        match self {
            Self::Listed(inner, list, _) => Some(inner.between(0, list.as_ref().len() as i128 - 1)),
            Self::Affine(_) | Self::Wrapped(..) => None,
        }
    }
}

/// So many elements at equal distances make one link, or fewer where they are next to each other, or all that there are.
const EQUAL_MIN: usize = 8;

/// Links of places with elements, where those at equal distances make one. Of numbers in no order any two are at some distance, and now
/// and then three: boxes from one to the other would all lie across each other.
fn runs(places: &[u64], elements: &[u64]) -> Option<Vec<Link>> {
    let step = |numbers: &[u64], at: usize| i64::try_from(i128::from(numbers[at + 1]) - i128::from(numbers[at])).ok();
    let mut links = Vec::new();
    let mut first = 0;
    while first < places.len() {
        let mut last = first;
        let mut steps = (0, 0);
        while last + 1 < places.len() {
            let next = (step(elements, last)?, step(places, last)?);
            if next.0 == 0 || (last > first && next != steps) {
                break;
            }
            (steps, last) = (next, last + 1);
        }
        let count = last - first + 1;
        if steps.0.unsigned_abs() > 1 && count < EQUAL_MIN.min(places.len()) {
            (steps, last) = ((0, 0), first);
        }
        // From the element of the lowest index on.
        let (lowest, sign) = if steps.0 < 0 { (last, -1) } else { (first, 1) };
        let count = (last - first + 1) as u64;
        let (element_step, step) = if count == 1 { (1, 0) } else { (steps.0.unsigned_abs(), sign * steps.1) };
        let elements = Progression::new(elements[lowest], element_step, count)?;
        links.push(Link { elements, place: places[lowest], step });
        first = last + 1;
    }
    Some(links)
}
