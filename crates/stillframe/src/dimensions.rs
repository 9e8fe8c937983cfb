//! Names of dimensions, for what is read by them: xarray, Zarr and netCDF. `docs/formats.md` tells the rule.
//!
//! All that shows arrays under names of dimensions takes them from here, so that they are the same in datasets, checkpoints and
//! exports.

use crate::variable::Attributes;
use std::collections::{BTreeMap, BTreeSet};
use stillframe_segment::Scalar;

/// Name of the attribute that names a variable's dimensions, separated by blanks or commas.
pub const ATTRIBUTE: &str = "dims";

/// The axes of an array among others, as the naming of dimensions needs them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axes {
    /// The variable's name among the others.
    pub name: String,
    /// Its shape, in the order of its indices.
    pub shape: Vec<usize>,
    /// The name that the program gives to each dimension, if it gives one.
    pub given: Vec<Option<String>>,
}

impl Axes {
    /// A variable with the names that its attributes give.
    pub fn new(name: &str, shape: &[usize], attributes: &Attributes) -> Axes {
        let given = match given_names(attributes, shape.len()) {
            Some(names) => names.into_iter().map(Some).collect(),
            None => vec![None; shape.len()],
        };
        Axes { name: name.into(), shape: shape.into(), given }
    }

    /// Whether it is the coordinate of its only dimension, whose name the program gave.
    fn is_coordinate(&self) -> bool {
        matches!((&self.shape[..], &self.given[..]), ([_], [Some(given)]) if *given == self.name)
    }
}

/// The names that attributes of a variable give to so many dimensions; `None` if they do not name each of them once, by a name
/// that any format has room for.
pub fn given_names(attributes: &Attributes, count: usize) -> Option<Vec<String>> {
    match attributes.get(ATTRIBUTE) {
        Some(Scalar::Text(text)) => read_names(text, count),
        _ => None,
    }
}

/// As [`given_names`], from the attribute's text.
pub fn read_names(text: &str, count: usize) -> Option<Vec<String>> {
    let names = text.split(|letter: char| letter == ',' || letter.is_whitespace()).filter(|name| !name.is_empty());
    let names: Vec<String> = names.map(String::from).collect();
    let different: BTreeSet<&String> = names.iter().collect();
    let is_usable = names.len() == count && different.len() == count && names.iter().all(|name| is_name(name));
    is_usable.then_some(names)
}

/// Whether all formats have room for a dimension of this name; netCDF has the narrowest rules.
fn is_name(name: &str) -> bool {
    let begins_well =
        name.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_' || !first.is_ascii());
    begins_well && !name.contains(|letter: char| letter == '/' || letter.is_control())
}

/// The names of the dimensions of arrays that are shown together, for each array in the order of its indices. The same arrays
/// in another order have the same names. `outer` are dimensions, with their lengths, that the arrays share with others around
/// them.
///
/// A name stands for one length, and is no variable's but that of its coordinate:
///
/// * A name that the program gave stays where nothing is in its way. If several lengths are given it, it is its coordinate's,
///   and all others are named with their length, as `x_5`. If a variable that is no coordinate has it, all are.
/// * A dimension without a name is called by its length, as `n128`. Of several that are as long in one array the last one is
///   called so, and those before it `n128_2`, `n128_3`.
/// * A name that is made here and is taken is followed by `_`.
pub fn name_dimensions(arrays: &[Axes], outer: &BTreeMap<String, usize>) -> Vec<Vec<String>> {
    let names = Names::of(arrays, outer);
    let of_array = |array: &Axes| {
        let mut found = Vec::with_capacity(array.shape.len());
        let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
        for (axis, length) in array.shape.iter().enumerate().rev() {
            found.push(match array.given.get(axis) {
                Some(Some(given)) => names.of_given(given, *length),
                _ => {
                    let number = seen.entry(*length).or_default();
                    *number += 1;
                    names.of_length(*length, *number)
                }
            });
        }
        found.reverse();
        found
    };
    arrays.iter().map(of_array).collect()
}

/// Which names there are.
struct Names<'a> {
    /// Names of variables, which no dimension has that is named by its length.
    variables: BTreeSet<&'a str>,
    /// What each name that was given becomes, by its length.
    given: BTreeMap<(String, usize), String>,
    /// The names of dimensions, and their lengths.
    lengths: BTreeMap<String, usize>,
}

impl<'a> Names<'a> {
    fn of(arrays: &'a [Axes], outer: &BTreeMap<String, usize>) -> Names<'a> {
        let variables: BTreeSet<&str> = arrays.iter().map(|array| array.name.as_str()).collect();
        let mut wanted: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for (given, length) in arrays.iter().flat_map(|array| array.given.iter().zip(&array.shape)) {
            if let Some(given) = given {
                wanted.entry(given).or_default().insert(*length);
            }
        }
        let coordinates = arrays.iter().filter(|array| array.is_coordinate());
        let mut owners: BTreeMap<&str, usize> =
            coordinates.map(|array| (array.name.as_str(), array.shape[0])).collect();
        owners.extend(outer.iter().map(|(name, length)| (name.as_str(), *length)));
        let mut names = Names { variables, given: BTreeMap::new(), lengths: outer.clone() };
        // First the names that stay, so that none of those that are made is one of them.
        let mut renamed = Vec::new();
        for (name, lengths) in &wanted {
            for length in lengths {
                let stays = match owners.get(name) {
                    Some(owned) => owned == length,
                    None => lengths.len() == 1 && !names.variables.contains(name),
                };
                if stays {
                    names.lengths.insert((*name).into(), *length);
                    names.given.insert(((*name).into(), *length), (*name).into());
                } else {
                    renamed.push((*name, *length));
                }
            }
        }
        for (name, length) in renamed {
            let mut made = format!("{name}_{length}");
            while names.variables.contains(made.as_str())
                || names.lengths.contains_key(&made)
                || wanted.contains_key(made.as_str())
            {
                made.push('_');
            }
            names.lengths.insert(made.clone(), length);
            names.given.insert((name.into(), length), made);
        }
        names
    }

    /// The name of a dimension of this length that was given this one.
    fn of_given(&self, given: &str, length: usize) -> String {
        self.given.get(&(given.to_string(), length)).map_or(given, String::as_str).to_string()
    }

    /// The name of the dimension of an array that is the so-manieth of this length, counted from the last one, and was given none.
    fn of_length(&self, length: usize, number: usize) -> String {
        let mut made = if number == 1 { format!("n{length}") } else { format!("n{length}_{number}") };
        while self.variables.contains(made.as_str()) || self.lengths.get(&made).is_some_and(|taken| *taken != length) {
            made.push('_');
        }
        made
    }
}

#[cfg(test)]
mod tests;
