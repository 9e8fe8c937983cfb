//! What is exported: groups of arrays, told in the same way whether they come from a region, a group or a checkpoint.
//!
//! Both formats are row-major. A column-major variable is the same bytes under the reversed shape, as Fortran programs
//! have always written it: so shapes, names of dimensions and offsets are reversed here, once, and nothing is transposed.

use crate::error::{Error, Result};
use crate::source::{Described, Source};
use std::collections::{BTreeMap, BTreeSet};
use stillframe::dimensions::{self, Axes};
use stillframe::{Attributes, Block, DType, Order, Part, Scalar, bfloat16};

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// One that is not negative: versions and times.
    Uint(u64),
    /// A real number.
    Float(f64),
    /// Text.
    Text(String),
}

impl From<&Scalar> for Value {
    fn from(scalar: &Scalar) -> Value {
        match scalar {
            Scalar::Bool(value) => Value::Bool(*value),
            Scalar::Int(value) => Value::Int(*value),
            Scalar::Float(value) => Value::Float(*value),
            Scalar::Text(value) => Value::Text(value.clone()),
        }
    }
}

/// Names with values, in the order in which they are written.
pub type Values = Vec<(String, Value)>;

/// All of it.
#[derive(Debug)]
pub struct Content {
    /// The root first.
    pub groups: Vec<Group>,
}

/// The root of the file, or the group of one rank.
#[derive(Debug)]
pub struct Group {
    /// Its name, none of the root.
    pub name: Option<String>,
    /// What is known of the version.
    pub attributes: Values,
    /// The arrays.
    pub arrays: Vec<Array>,
}

/// An array, row-major.
#[derive(Debug)]
pub struct Array {
    /// The variable's name.
    pub name: String,
    /// Type of the elements in the file.
    pub dtype: DType,
    /// Type of the elements where they come from.
    pub source_dtype: DType,
    /// Units, the order if it was column-major, and the variable's own.
    pub attributes: Values,
    /// The shape in the file.
    pub shape: Vec<usize>,
    /// A name for each dimension, once all arrays of the group are known.
    pub dimensions: Vec<String>,
    /// What the dimensions are named by, in the order of the variable's indices.
    axes: Axes,
    /// The order of the variable's elements.
    order: Order,
    /// Where its elements are.
    pub contributions: Vec<Contribution>,
}

/// A box of an array, and the rank that has it.
#[derive(Debug, PartialEq)]
pub struct Contribution {
    /// The rank; 0 where there are no ranks.
    pub rank: usize,
    /// Index of its first element in the array.
    pub offset: Vec<usize>,
    /// Its extents.
    pub shape: Vec<usize>,
    /// Index of its first element in the rank's variable, row-major.
    pub within: Vec<usize>,
    /// Extents of the rank's variable, row-major.
    pub of: Vec<usize>,
}

impl Array {
    /// Bytes of all elements.
    pub fn bytes(&self) -> u64 {
        self.elements() * self.dtype.bytes() as u64
    }

    /// How many elements no rank has.
    pub fn missing(&self) -> u64 {
        let there: u64 = self.contributions.iter().map(|contribution| volume(&contribution.shape)).sum();
        self.elements().saturating_sub(there)
    }

    fn elements(&self) -> u64 {
        volume(&self.shape)
    }
}

fn volume(shape: &[usize]) -> u64 {
    shape.iter().map(|length| *length as u64).product()
}

impl Content {
    /// What a source has of these variables, of all if none is named.
    ///
    /// # Errors
    /// [`Error::UnknownVariable`], [`Error::Parts`].
    pub fn of(source: &Source, wanted: &[String]) -> Result<Content> {
        let described = source.variables();
        let known: BTreeSet<&str> = described.iter().map(|variable| variable.name.as_str()).collect();
        if let Some(name) = wanted.iter().find(|name| !known.contains(name.as_str())) {
            let known = known.into_iter().map(String::from).collect();
            return Err(Error::UnknownVariable { source_name: source.describe(), name: name.clone(), known });
        }
        let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
        let mut named: BTreeMap<&str, Vec<&Described>> = BTreeMap::new();
        for variable in &described {
            named.entry(&variable.name).or_default().push(variable);
        }
        let (common, of_ranks) = source.attributes();
        let mut root = Group { name: None, attributes: about(source, &common), arrays: Vec::new() };
        let rank = |(rank, own): (usize, &Attributes)| {
            let attributes = own.iter().map(|(name, value)| (name.clone(), Value::from(value))).collect();
            Group { name: Some(rank.to_string()), attributes, arrays: Vec::new() }
        };
        let mut ranks: Vec<Group> = of_ranks.iter().enumerate().map(rank).collect();
        for (name, variables) in named {
            let assembled = match assemble(source.region(), name, &variables) {
                // What is wrong with a variable that nobody asked for is no matter.
                Err(_) if !is_wanted(name) => continue,
                assembled => assembled?,
            };
            match assembled {
                Some(array) => root.arrays.push(array),
                None if source.ranks().is_none() => root.arrays.extend(variables.into_iter().map(whole)),
                None => variables.into_iter().for_each(|variable| ranks[variable.rank].arrays.push(whole(variable))),
            }
        }
        let mut groups = vec![root];
        groups.extend(ranks);
        // Of all variables, so that a file of some of them has the same names.
        name_dimensions(&mut groups);
        for group in &mut groups {
            group.arrays.retain(|array| is_wanted(&array.name));
        }
        groups.retain(|group| group.name.is_none() || !group.attributes.is_empty() || !group.arrays.is_empty());
        Ok(Content { groups })
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> u64 {
        self.groups.iter().flat_map(|group| &group.arrays).map(Array::bytes).sum()
    }
}

/// What stands at the file itself: of what it is, and the version's attributes.
fn about(source: &Source, common: &Attributes) -> Values {
    let mut values = vec![
        ("region".to_string(), Value::Text(source.region().into())),
        ("version".to_string(), Value::Uint(source.version())),
        ("published_ns".to_string(), Value::Uint(source.published_ns())),
    ];
    if let Some(ranks) = source.ranks() {
        values.push(("ranks".into(), Value::Uint(ranks as u64)));
    }
    for (name, value) in common {
        // A program may use any name; ours are the ones others look for.
        let taken = values.iter().any(|(taken, _)| taken == name);
        let name = if taken { format!("attributes.{name}") } else { name.clone() };
        values.push((name, value.into()));
    }
    values
}

fn describe(variable: &Described, without: &[&str]) -> Values {
    let mut values = Values::new();
    let units = variable.attributes.get("units").map(Scalar::to_string).filter(|_| variable.units.is_empty());
    let units = units.unwrap_or_else(|| variable.units.clone());
    if !units.is_empty() {
        values.push(("units".into(), Value::Text(units)));
    }
    // No format has it, and the same numbers are written as float32.
    if variable.dtype == DType::Bfloat16 {
        values.push(("dtype".into(), Value::Text(variable.dtype.to_string())));
    }
    if variable.order == Order::Fortran && variable.shape.len() > 1 {
        values.push(("order".into(), Value::Text("fortran".into())));
    }
    // Names that dimensions cannot have stay as the attribute that they are.
    let is_named = dimensions::given_names(&variable.attributes, variable.shape.len()).is_some();
    let own = variable.attributes.iter().filter(|(name, _)| *name != "units");
    let own = own.filter(|(name, _)| !is_named || *name != dimensions::ATTRIBUTE);
    let own = own.filter(|(name, _)| !without.contains(&name.as_str()));
    let own = own.filter(|(name, _)| values.iter().all(|(taken, _)| taken != *name));
    let own: Values = own.map(|(name, value)| (name.clone(), value.into())).collect();
    values.extend(own);
    values
}

fn in_file<T: Clone>(order: Order, list: &[T]) -> Vec<T> {
    match order {
        Order::C => list.to_vec(),
        Order::Fortran => list.iter().rev().cloned().collect(),
    }
}

/// The array of a variable that stands for itself.
fn whole(variable: &Described) -> Array {
    let shape = in_file(variable.order, &variable.shape);
    Array {
        name: variable.name.clone(),
        dtype: bfloat16::wide_dtype(&variable.dtype),
        source_dtype: variable.dtype.clone(),
        attributes: describe(variable, &[]),
        dimensions: Vec::new(),
        axes: Axes::new(&variable.name, &variable.shape, &variable.attributes),
        order: variable.order,
        contributions: vec![contribution(
            variable.rank,
            &shape,
            &vec![0; shape.len()],
            Block::new(&vec![0; shape.len()], &shape),
        )],
        shape,
    }
}

/// The global array of which these variables of the ranks are parts, if they are.
fn assemble(group: &str, name: &str, variables: &[&Described]) -> Result<Option<Array>> {
    let fail = |why| Err(Error::Parts { name: name.into(), why });
    let mut parts = Vec::new();
    for variable in variables {
        let of = |why: String| Error::Parts { name: name.into(), why: format!("of rank {}: {why}", variable.rank) };
        let Some(part) = Part::of(&variable.attributes).map_err(of)? else { return Ok(None) };
        part.check(&variable.shape).map_err(of)?;
        parts.push(part);
    }
    let ([first, ..], [part, ..]) = (variables, &parts[..]) else { return Ok(None) };
    // One rank's region by itself is the part that it is.
    if first.alone {
        return Ok(None);
    }
    for (other, its) in variables.iter().zip(&parts) {
        let (left, right) = (first.rank, other.rank);
        if its.global_shape != part.global_shape {
            let (ours, theirs) = (&part.global_shape, &its.global_shape);
            return fail(format!("rank {left} tells of a global shape {ours:?}, rank {right} of {theirs:?}"));
        }
        if other.dtype != first.dtype {
            return Err(unlike(group, "dtype", first, other, |variable| variable.dtype.to_string()));
        }
    }
    let order = common_order(group, variables)?;
    let first = &Described { order, ..(*first).clone() };
    // Parts may overlap by what programs keep of their neighbours: the engine's rule says whose is taken.
    let stated: Vec<(Part, Vec<usize>)> =
        parts.iter().cloned().zip(variables.iter().map(|it| it.shape.clone())).collect();
    let whole = Block::new(&vec![0; part.global_shape.len()], &part.global_shape);
    let (sources, _) = Part::sources(&stated, &whole);
    let contributions = sources.into_iter().map(|(index, block)| {
        let (variable, part) = (variables[index], &parts[index]);
        let in_order = Block { offset: in_file(order, &block.offset), shape: in_file(order, &block.shape) };
        contribution(variable.rank, &in_file(order, &variable.shape), &in_file(order, &part.offset), in_order)
    });
    let contributions = contributions.collect();
    Ok(Some(Array {
        name: name.into(),
        dtype: bfloat16::wide_dtype(&first.dtype),
        source_dtype: first.dtype.clone(),
        attributes: describe(first, &[Part::OFFSET, Part::GLOBAL_SHAPE]),
        shape: in_file(order, &part.global_shape),
        dimensions: Vec::new(),
        axes: Axes::new(name, &part.global_shape, &first.attributes),
        order,
        contributions,
    }))
}

/// The order of the elements of all parts. One with a single row or column, or with no elements, is the same bytes in either.
fn common_order(group: &str, variables: &[&Described]) -> Result<Order> {
    let is_of_both = |shape: &[usize]| shape.contains(&0) || shape.iter().filter(|length| **length != 1).count() < 2;
    let mut ordered = variables.iter().filter(|variable| !is_of_both(&variable.shape));
    let Some(first) = ordered.next() else { return Ok(variables.first().map_or(Order::C, |first| first.order)) };
    match ordered.find(|other| other.order != first.order) {
        None => Ok(first.order),
        Some(other) => Err(unlike(group, "order", first, other, |variable| match variable.order {
            Order::C => "C (row by row)".into(),
            Order::Fortran => "F (column by column)".into(),
        })),
    }
}

fn unlike(
    group: &str,
    what: &'static str,
    first: &Described,
    other: &Described,
    of: impl Fn(&Described) -> String,
) -> Error {
    let left = format!("rank {} has {what} {}", first.rank, of(first));
    let right = format!("rank {} {what} {}", other.rank, of(other));
    Error::Unlike { group: group.into(), name: first.name.clone(), what, left, right }
}

/// A box of the array, from the variable of these extents that lies at `at` in it.
fn contribution(rank: usize, of: &[usize], at: &[usize], block: Block) -> Contribution {
    let within = block.offset.iter().zip(at).map(|(offset, at)| offset - at).collect();
    Contribution { rank, offset: block.offset, shape: block.shape, within, of: of.to_vec() }
}

/// Names the dimensions of all arrays. Those of the root are dimensions of the ranks' groups, too.
fn name_dimensions(groups: &mut [Group]) {
    let mut outer: BTreeMap<String, usize> = BTreeMap::new();
    for group in groups {
        let axes: Vec<Axes> = group.arrays.iter().map(|array| array.axes.clone()).collect();
        for (array, names) in group.arrays.iter_mut().zip(dimensions::name_dimensions(&axes, &outer)) {
            array.dimensions = in_file(array.order, &names);
        }
        if group.name.is_none() {
            for array in &group.arrays {
                outer.extend(array.dimensions.iter().cloned().zip(array.shape.iter().copied()));
            }
        }
    }
}

/// Which rule of netCDF's for names this one breaks. They are the narrower of the two formats'.
pub fn name_fault(name: &str) -> Option<&'static str> {
    let first = name.chars().next()?;
    if !(first.is_ascii_alphanumeric() || first == '_' || !first.is_ascii()) {
        return Some("a name begins with a letter, a digit or _");
    }
    name.contains('/').then_some("a name has no /")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str, shape: &[usize], dims: &str) -> Described {
        let dims = (!dims.is_empty()).then(|| ("dims".to_string(), Scalar::from(dims)));
        Described {
            rank: 0,
            alone: true,
            name: name.into(),
            dtype: DType::Float(8),
            order: Order::C,
            units: String::new(),
            attributes: dims.into_iter().collect(),
            shape: shape.into(),
        }
    }

    /// The groups with these arrays, the root first, with names for dimensions.
    fn named(groups: Vec<Vec<Array>>) -> Vec<Vec<Vec<String>>> {
        let group = |(rank, arrays): (usize, Vec<Array>)| {
            let name = rank.checked_sub(1).map(|rank| rank.to_string());
            Group { name, attributes: Values::new(), arrays }
        };
        let mut groups: Vec<Group> = groups.into_iter().enumerate().map(group).collect();
        name_dimensions(&mut groups);
        groups.into_iter().map(|group| group.arrays.into_iter().map(|array| array.dimensions).collect()).collect()
    }

    #[test]
    fn dimensions_have_one_length_in_a_group_and_in_the_root() {
        let root = vec![whole(&variable("u", &[2, 3], "y x")), whole(&variable("v", &[4], ""))];
        let rank = vec![whole(&variable("w", &[2, 5], "y x")), whole(&variable("x", &[5], "x"))];
        let expected: [&[&[&str]]; 2] = [&[&["y", "x"], &["n4"]], &[&["y", "x_5"], &["x_5"]]];
        assert_eq!(named(vec![root, rank]), expected);
    }

    #[test]
    fn names_that_no_dimension_can_have_stay_an_attribute() {
        let kept = |dims: &str| whole(&variable("u", &[2, 3], dims)).attributes;
        assert_eq!(kept("y x"), []);
        assert_eq!(kept("x"), [("dims".to_string(), Value::Text("x".into()))]);
    }

    #[test]
    fn a_column_major_variable_is_its_reverse() {
        let variable = Described { order: Order::Fortran, ..variable("u", &[2, 3], "x y") };
        let array = whole(&variable);
        assert_eq!(array.shape, [3, 2]);
        assert_eq!(named(vec![vec![whole(&variable)]]), [[["y", "x"]]]);
        assert_eq!(array.attributes, [("order".to_string(), Value::Text("fortran".into()))]);
    }

    #[test]
    fn parts_make_one_array_and_gaps_are_counted() {
        let part = |rank, offset: &str| {
            let mut found = Described { rank, alone: false, ..variable("u", &[2, 3], "") };
            found.attributes.insert("offset".into(), offset.into());
            found.attributes.insert("global_shape".into(), "5,3".into());
            found
        };
        let (first, second) = (part(0, "0,0"), part(1, "2,0"));
        let array = assemble("g", "u", &[&first, &second]).unwrap().unwrap();
        assert_eq!((&array.shape, array.missing()), (&vec![5, 3], 3));
        assert_eq!(
            (array.contributions[1].rank, &array.contributions[1].offset, &array.contributions[1].within),
            (1, &vec![2, 0], &vec![0, 0])
        );
        assert!(array.attributes.is_empty());

        let mut other = part(1, "2,0");
        other.attributes.insert("global_shape".into(), "6,3".into());
        let text = assemble("g", "u", &[&first, &other]).unwrap_err().to_string();
        assert!(text.contains("rank 0 tells of a global shape [5, 3], rank 1 of [6, 3]"), "{text}");
        let beyond = part(1, "4,0");
        assert!(assemble("g", "u", &[&first, &beyond]).unwrap_err().to_string().contains("of rank 1"));
    }

    #[test]
    fn every_element_of_overlapping_parts_comes_from_one_rank() {
        let part = |rank: usize, offset: &str, shape: &[usize]| {
            let mut found = Described { rank, alone: false, ..variable("u", shape, "") };
            found.attributes.insert("offset".into(), offset.into());
            found.attributes.insert("global_shape".into(), "10,9".into());
            found
        };
        // Four ranks with ghosts of one cell: the global array with its border is covered once.
        let ranks =
            [part(0, "0,0", &[6, 5]), part(1, "0,3", &[6, 6]), part(2, "4,0", &[6, 5]), part(3, "4,3", &[6, 6])];
        let array = assemble("g", "u", &ranks.iter().collect::<Vec<_>>()).unwrap().unwrap();
        let mut count = vec![0; 90];
        for contribution in &array.contributions {
            for row in 0..contribution.shape[0] {
                for column in 0..contribution.shape[1] {
                    count[(contribution.offset[0] + row) * 9 + contribution.offset[1] + column] += 1;
                }
            }
        }
        assert_eq!((count, array.missing()), (vec![1; 90], 0));
        // A border cell is its owner's: the neighbour's copy of it is older.
        let owner = |row: usize, column: usize| {
            let has = |contribution: &&Contribution| {
                (contribution.offset[0]..contribution.offset[0] + contribution.shape[0]).contains(&row)
                    && (contribution.offset[1]..contribution.offset[1] + contribution.shape[1]).contains(&column)
            };
            array.contributions.iter().find(has).map(|contribution| contribution.rank)
        };
        assert_eq!([owner(4, 0), owner(5, 0), owner(0, 3), owner(0, 4)], [Some(0), Some(2), Some(0), Some(1)]);
    }
}
