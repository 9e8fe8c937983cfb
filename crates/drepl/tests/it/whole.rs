//! From texts to bytes: objects, views and replicas made at random and written as texts; plans between them; the bytes
//! they move. The model behind it evaluates what a text says for every element by itself, and shares nothing with the
//! crate but the text.

use crate::model;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write as _,
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
};

use crate::model::Dice;
use drepl::{
    Bindings, Fragment, Index as SourceIndex, Participant, Plan, Program, Schema, Share, Source, Updates, Wanted,
    Written,
    executor::{self, Destination, Executor, FileRange},
    fragment::Variable,
    plan,
    types::Type,
};

/// An element: what its leaf is called, and its indices.
type Key = (String, Vec<u64>);

#[derive(Clone)]
enum Kind {
    /// Name, bytes, and bytes of the numbers that change their order.
    Primitive(&'static str, u64, u64),
    Array(Vec<u64>, Box<Kind>),
    Record(Vec<(String, Kind)>),
}

const PRIMITIVES: [(&str, u64, u64); 18] = [
    ("bool", 1, 1),
    ("int8", 1, 1),
    ("uint8", 1, 1),
    ("int16", 2, 2),
    ("uint16", 2, 2),
    ("float16", 2, 2),
    ("bfloat16", 2, 2),
    ("int32", 4, 4),
    ("uint32", 4, 4),
    ("float32", 4, 4),
    ("int64", 8, 8),
    ("uint64", 8, 8),
    ("float64", 8, 8),
    ("complex64", 8, 4),
    ("complex128", 16, 8),
    ("string1", 1, 1),
    ("string5", 5, 1),
    ("string24", 24, 1),
];

impl Kind {
    fn random(dice: &mut Dice, depth: u64) -> Self {
        match if depth == 0 { 0 } else { dice.roll(0, 5) } {
            0 => {
                let (name, bytes, word) = *dice.pick(&PRIMITIVES);
                Self::Primitive(name, bytes, word)
            }
            1..=3 => {
                let rank = dice.roll(1, 3);
                let largest = [12, 6, 4][rank as usize - 1];
                let extents = (0..rank).map(|_| dice.roll(1, largest)).collect();
                Self::Array(extents, Box::new(Self::random(dice, depth - 1)))
            }
            _ => {
                let count = dice.roll(1, 3);
                Self::Record((0..count).map(|at| (format!("f{at}"), Self::random(dice, depth - 1))).collect())
            }
        }
    }

    /// The type as the language writes it; records get a name at times, in `types`.
    fn write(&self, dice: &mut Dice, types: &mut Vec<String>) -> String {
        match self {
            Self::Primitive(name, ..) => (*name).into(),
            Self::Array(extents, element) => {
                format!("[{}]{}", joined(extents.iter().map(u64::to_string)), element.write(dice, types))
            }
            Self::Record(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(name, kind)| format!("{name} {}", kind.write(dice, types))).collect();
                let written = format!("struct {{ {} }}", fields.join("; "));
                if dice.one_in(2) {
                    return written;
                }
                types.push(format!("type T{} {written}", types.len()));
                format!("T{}", types.len() - 1)
            }
        }
    }

    fn leaves(&self, path: &str, extents: &[u64], found: &mut Vec<(String, Vec<u64>, u64)>) {
        match self {
            Self::Primitive(_, bytes, _) => found.push((path.into(), extents.to_vec(), *bytes)),
            Self::Array(own, element) => element.leaves(path, &[extents, own].concat(), found),
            Self::Record(fields) => {
                fields.iter().for_each(|(name, kind)| kind.leaves(&format!("{path}.{name}"), extents, found))
            }
        }
    }
}

fn joined(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join(",")
}

/// `(a*x + b) / c`.
#[derive(Clone, Copy)]
struct Function {
    a: i64,
    b: i64,
    c: i64,
    /// Whether it wraps around, and at which number.
    modulus: Option<i64>,
}

/// Values of index variables that are tried: no function of [`Function::random`] reaches small indices from elsewhere.
const VALUES: std::ops::RangeInclusive<i64> = -150..=150;

impl Function {
    const SAME: Self = Self { a: 1, b: 0, c: 1, modulus: None };

    fn random(dice: &mut Dice, extent: u64) -> Self {
        let small = |dice: &mut Dice| dice.roll(0, 6) as i64 - 3;
        match dice.roll(0, 9) {
            0..=2 => Self::SAME,
            3 => Self { b: small(dice), ..Self::SAME },
            4 | 5 => Self { a: -1, b: extent as i64 - 1 + small(dice).max(0), ..Self::SAME },
            6 => Self { a: dice.roll(2, 3) as i64, b: small(dice), ..Self::SAME },
            7 => Self { c: dice.roll(2, 3) as i64, ..Self::SAME },
            8 => Self { a: -2, b: extent as i64 + 1, ..Self::SAME },
            _ => Self { a: 3, b: small(dice), c: 2, ..Self::SAME },
        }
    }

    /// As those of the right side are: now and then one that wraps around at the end of the axis, before or behind it.
    fn random_or_wrapped(dice: &mut Dice, extent: u64) -> Self {
        let wraps = dice.one_in(5);
        let modulus = (extent as i64 + dice.roll(0, 2) as i64 - 1).max(1);
        Self { modulus: wraps.then_some(modulus), ..Self::random(dice, extent) }
    }

    fn at(&self, x: i64) -> Option<i64> {
        let value = self.a * x + self.b;
        let value = (value % self.c == 0).then(|| value / self.c)?;
        Some(self.modulus.map_or(value, |modulus| value.rem_euclid(modulus)))
    }

    fn write(&self, dice: &mut Dice, x: &str, bindings: &mut Bindings) -> String {
        let mut b = match self.b {
            b if b < 0 => format!("({b})"),
            b => b.to_string(),
        };
        if dice.one_in(4) {
            b = format!("bound{}", self.b.rem_euclid(1000));
            bindings.set(b.clone(), self.b);
        }
        let product = match self.a {
            1 => x.to_string(),
            a if dice.one_in(2) => format!("{x}*{a}"),
            a => format!("{a}*{x}"),
        };
        let sum = match self.b {
            0 => product,
            _ if self.a == -1 => format!("{b}-{x}"),
            _ if dice.one_in(2) => format!("{b}+{product}"),
            _ => format!("{product} + {b}"),
        };
        let quotient = match self.c {
            1 => sum,
            c => format!("({sum})/{c}"),
        };
        match self.modulus {
            None => quotient,
            Some(modulus) => format!("({quotient}) % {modulus}"),
        }
    }
}

#[derive(Clone)]
enum Index {
    Wild,
    Constant(u64),
    Variable(usize, Function),
}

#[derive(Clone)]
struct RightAxis {
    index: Index,
    extent: u64,
    /// Which pair of brackets of the type it is in.
    bracket: usize,
}

/// What the right side chooses.
enum Chosen {
    Axes(Vec<RightAxis>, Box<Chosen>),
    Record(Vec<(String, Chosen)>),
    Leaf { name: String, bytes: u64, word: u64 },
}

struct LeftAxis {
    index: Index,
    explicit: Option<u64>,
    extent: u64,
}

/// What lies in the view; axes by number.
enum Local {
    Axes(Vec<usize>, Box<Local>),
    Record(Vec<Local>),
    Leaf { name: String, bytes: u64, word: u64, right: Vec<RightAxis>, left: Vec<usize> },
}

/// Where an element lies.
#[derive(Clone)]
struct Place {
    key: Key,
    offset: u64,
    bytes: u64,
    word: u64,
}

#[derive(Clone, Copy)]
struct Attributes {
    column_major: bool,
    aligned: bool,
    big_endian: bool,
    clipped: bool,
    readonly: bool,
}

/// Writes variables of views.
struct Writer<'d> {
    dice: &'d mut Dice,
    bindings: &'d mut Bindings,
    variables: usize,
    brackets: usize,
    axes: Vec<LeftAxis>,
}

impl Writer<'_> {
    fn whole(&mut self, kind: &Kind, name: &str) -> Chosen {
        match kind {
            Kind::Primitive(_, bytes, word) => Chosen::Leaf { name: name.into(), bytes: *bytes, word: *word },
            Kind::Array(extents, element) => Chosen::Axes(self.wild(extents), Box::new(self.whole(element, name))),
            Kind::Record(fields) => {
                let fields =
                    fields.iter().map(|(field, kind)| (field.clone(), self.whole(kind, &format!("{name}.{field}"))));
                Chosen::Record(fields.collect())
            }
        }
    }

    fn wild(&mut self, extents: &[u64]) -> Vec<RightAxis> {
        self.brackets += 1;
        extents.iter().map(|extent| RightAxis { index: Index::Wild, extent: *extent, bracket: self.brackets }).collect()
    }

    fn choose(&mut self, kind: &Kind, name: &str, text: &mut String) -> Chosen {
        if self.dice.one_in(7) {
            return self.whole(kind, name);
        }
        match kind {
            Kind::Primitive(..) => self.whole(kind, name),
            Kind::Array(extents, element) => {
                let mut axes = self.wild(extents);
                for axis in &mut axes {
                    axis.index = match self.dice.roll(0, 5) {
                        0 => Index::Wild,
                        1 => Index::Constant(self.dice.roll(0, axis.extent - 1)),
                        _ => {
                            self.variables += 1;
                            Index::Variable(self.variables, Function::random_or_wrapped(self.dice, axis.extent))
                        }
                    };
                }
                let written: Vec<String> = axes.iter().map(|axis| self.write(&axis.index)).collect();
                write!(text, "[{}]", written.join(",")).unwrap();
                Chosen::Axes(axes, Box::new(self.choose(element, name, text)))
            }
            Kind::Record(fields) if self.dice.one_in(2) => {
                let (field, kind) = self.dice.pick(fields);
                write!(text, ".{field}").unwrap();
                self.choose(kind, &format!("{name}.{field}"), text)
            }
            Kind::Record(fields) => {
                text.push('{');
                let mut chosen = Vec::new();
                for (field, kind) in some(self.dice, fields) {
                    text.push_str(field);
                    chosen.push((field.clone(), self.choose(kind, &format!("{name}.{field}"), text)));
                    text.push(';');
                }
                text.push('}');
                Chosen::Record(chosen)
            }
        }
    }

    fn write(&mut self, index: &Index) -> String {
        match index {
            Index::Wild => String::new(),
            Index::Constant(constant) => constant.to_string(),
            Index::Variable(number, function) => function.write(self.dice, &format!("x{number}"), self.bindings),
        }
    }

    /// The left side: all variables are written, and without variables it may be implied.
    fn place(&mut self, chosen: &Chosen, text: &mut String) -> Local {
        if !has_variables(chosen) && self.dice.one_in(4) {
            self.implied(chosen, &[], &[])
        } else {
            self.written(chosen, &[], &[], text)
        }
    }

    fn written(&mut self, chosen: &Chosen, right: &[RightAxis], left: &[usize], text: &mut String) -> Local {
        let (right, chosen) = along(chosen, right);
        let mut left = left.to_vec();
        let mut open: Vec<Index> = self.open(&right, &left).into_iter().filter(is_variable).collect();
        let braces = match chosen {
            Chosen::Record(fields) => fields.iter().any(|(_, field)| has_variables(field)) || self.dice.one_in(2),
            _ => false,
        };
        self.dice.shuffle(&mut open);
        if braces {
            open.truncate(self.dice.roll(0, open.len() as u64) as usize);
        }
        for index in &mut open {
            if let Index::Variable(_, function) = index {
                *function = if self.dice.one_in(3) { Function::random(self.dice, 4) } else { Function::SAME };
            }
        }
        if self.dice.one_in(8) {
            open.insert(0, Index::Constant(self.dice.roll(0, 2)));
        }
        // What is implied behind a record's braces is implied in each of its fields.
        let wild = self.open(&right, &left).iter().filter(|index| matches!(index, Index::Wild)).count() as u64;
        for _ in 0..self.dice.roll(0, wild) {
            open.insert(self.dice.roll(0, open.len() as u64) as usize, Index::Wild);
        }
        let mut groups = Vec::new();
        while !open.is_empty() {
            let rest = open.split_off(self.dice.roll(1, open.len() as u64) as usize);
            let (mut group, mut texts) = (Vec::new(), Vec::new());
            for index in std::mem::replace(&mut open, rest) {
                let mut written = self.write(&index);
                let explicit = match index {
                    _ if !self.dice.one_in(4) => None,
                    Index::Constant(constant) => Some(constant + self.dice.roll(1, 2)),
                    _ => Some(self.dice.roll(1, 6)),
                };
                if let Some(extent) = explicit {
                    write!(written, ":{extent}").unwrap();
                }
                texts.push(written);
                group.push(self.axes.len());
                self.axes.push(LeftAxis { index, explicit, extent: 0 });
            }
            write!(text, "[{}]", texts.join(",")).unwrap();
            left.extend(&group);
            groups.push(group);
        }
        let local = match chosen {
            Chosen::Record(fields) if braces => {
                text.push('{');
                let mut local = Vec::new();
                for (name, field) in some(self.dice, fields) {
                    text.push_str(name);
                    text.push(' ');
                    local.push(self.written(field, &right, &left, text));
                    text.push(';');
                }
                text.push('}');
                Local::Record(local)
            }
            _ => self.implied_here(chosen, &right, &left),
        };
        wrapped(groups, local)
    }

    fn implied(&mut self, chosen: &Chosen, right: &[RightAxis], left: &[usize]) -> Local {
        let (right, chosen) = along(chosen, right);
        self.implied_here(chosen, &right, left)
    }

    fn implied_here(&mut self, chosen: &Chosen, right: &[RightAxis], left: &[usize]) -> Local {
        let mut left = left.to_vec();
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut placed = self.placed(&left);
        for axis in right {
            match axis.index {
                Index::Wild if placed > 0 => {
                    placed -= 1;
                    continue;
                }
                Index::Wild => {}
                _ => continue,
            }
            groups.entry(axis.bracket).or_default().push(self.axes.len());
            left.push(self.axes.len());
            self.axes.push(LeftAxis { index: Index::Wild, explicit: None, extent: 0 });
        }
        let local = match chosen {
            Chosen::Leaf { name, bytes, word } => {
                Local::Leaf { name: name.clone(), bytes: *bytes, word: *word, right: right.to_vec(), left }
            }
            Chosen::Record(fields) => {
                Local::Record(fields.iter().map(|(_, field)| self.implied(field, right, &left)).collect())
            }
            Chosen::Axes(..) => unreachable!("axes were gone along"),
        };
        wrapped(groups.into_values().collect(), local)
    }

    /// What of the right side has no axis on the left.
    fn open(&self, right: &[RightAxis], left: &[usize]) -> Vec<Index> {
        let mut placed = self.placed(left);
        let mut open = Vec::new();
        for axis in right {
            match axis.index {
                Index::Wild if placed > 0 => placed -= 1,
                Index::Constant(_) => {}
                Index::Variable(number, _) if self.holds(left, number) => {}
                _ => open.push(axis.index.clone()),
            }
        }
        open
    }

    fn placed(&self, left: &[usize]) -> usize {
        left.iter().filter(|axis| matches!(self.axes[**axis].index, Index::Wild)).count()
    }

    fn holds(&self, left: &[usize], number: usize) -> bool {
        left.iter().any(|axis| matches!(self.axes[*axis].index, Index::Variable(other, _) if other == number))
    }
}

fn along<'c>(mut chosen: &'c Chosen, right: &[RightAxis]) -> (Vec<RightAxis>, &'c Chosen) {
    let mut right = right.to_vec();
    while let Chosen::Axes(axes, element) = chosen {
        right.extend(axes.iter().cloned());
        chosen = element;
    }
    (right, chosen)
}

fn is_variable(index: &Index) -> bool {
    matches!(index, Index::Variable(..))
}

fn has_variables(chosen: &Chosen) -> bool {
    match chosen {
        Chosen::Axes(axes, element) => axes.iter().any(|axis| is_variable(&axis.index)) || has_variables(element),
        Chosen::Record(fields) => fields.iter().any(|(_, field)| has_variables(field)),
        Chosen::Leaf { .. } => false,
    }
}

fn wrapped(groups: Vec<Vec<usize>>, local: Local) -> Local {
    groups.into_iter().rev().fold(local, |local, group| Local::Axes(group, Box::new(local)))
}

/// At least one of them, in any order.
fn some<'l, T>(dice: &mut Dice, list: &'l [T]) -> Vec<&'l T> {
    let mut some: Vec<&T> = list.iter().collect();
    dice.shuffle(&mut some);
    some.truncate(dice.roll(1, some.len() as u64) as usize);
    some
}

/// Places along one axis of the view and the indices there. `None`: the text is to be refused.
fn pairs(left: &LeftAxis, right: &Function, extent: u64, clipped: bool) -> Option<Vec<(u64, u64)>> {
    let place = match left.index {
        Index::Variable(_, function) => function,
        _ => Function::SAME,
    };
    if right.modulus.is_some() && left.explicit.is_none() {
        return None;
    }
    let mut pairs = Vec::new();
    for x in VALUES {
        let (Some(place), Some(index)) = (place.at(x), right.at(x)) else { continue };
        if place < 0 || left.explicit.is_some_and(|extent| place >= extent as i64) {
            continue;
        }
        match u64::try_from(index) {
            Ok(index) if index < extent => pairs.push((place as u64, index)),
            _ if left.explicit.is_some() && !clipped => return None,
            _ => {}
        }
    }
    (!pairs.is_empty() || (clipped && left.explicit.is_some())).then_some(pairs)
}

/// Along each axis of a leaf: the axis of the view, and which of its places has which index.
type Links = Vec<(Option<usize>, Vec<(u64, u64)>)>;

/// Links all leaves, in the order of the tree. `None`: the text is to be refused.
fn link(local: &Local, axes: &mut [LeftAxis], clipped: bool, links: &mut Vec<Links>) -> Option<()> {
    match local {
        Local::Axes(_, element) => link(element, axes, clipped, links),
        Local::Record(fields) => fields.iter().try_for_each(|field| link(field, axes, clipped, links)),
        Local::Leaf { right, left, .. } => {
            let mut own = Links::new();
            let wild: Vec<usize> =
                left.iter().copied().filter(|axis| matches!(axes[*axis].index, Index::Wild)).collect();
            let mut wild = wild.into_iter();
            for axis in left {
                if let Index::Constant(place) = axes[*axis].index {
                    axes[*axis].extent = place + 1;
                }
            }
            for axis in right {
                let (place, function) = match axis.index {
                    Index::Constant(index) => {
                        own.push((None, vec![(0, index)]));
                        continue;
                    }
                    Index::Wild => (wild.next().unwrap(), Function::SAME),
                    Index::Variable(number, function) => {
                        let holds =
                            |at: &&usize| matches!(axes[**at].index, Index::Variable(other, _) if other == number);
                        (*left.iter().find(holds).unwrap(), function)
                    }
                };
                let pairs = pairs(&axes[place], &function, axis.extent, clipped)?;
                let reached = pairs.iter().map(|(place, _)| place + 1).max().unwrap_or(0);
                axes[place].extent = axes[place].extent.max(reached);
                own.push((Some(place), pairs));
            }
            links.push(own);
            Some(())
        }
    }
}

fn padded(offset: u64, alignment: u64) -> u64 {
    offset.div_ceil(alignment) * alignment
}

/// Bytes and alignment of what lies in a view; an alignment of 1 where it is packed.
fn measure(local: &Local, axes: &[LeftAxis], aligned: bool) -> (u64, u64) {
    match local {
        Local::Leaf { bytes, word, .. } => (*bytes, if aligned { *word } else { 1 }),
        Local::Axes(group, element) => {
            let (bytes, alignment) = measure(element, axes, aligned);
            (group.iter().map(|axis| axes[*axis].extent).product::<u64>() * bytes, alignment)
        }
        Local::Record(fields) => {
            let (mut end, mut largest) = (0, 1);
            for field in fields {
                let (bytes, alignment) = measure(field, axes, aligned);
                end = padded(end, alignment) + bytes;
                largest = largest.max(alignment);
            }
            (padded(end, largest), largest)
        }
    }
}

struct Layout<'m> {
    axes: &'m [LeftAxis],
    attributes: Attributes,
    /// Distance between neighbours along each axis of the view.
    strides: Vec<u64>,
}

impl Layout<'_> {
    fn places(&mut self, local: &Local, offset: u64, links: &mut impl Iterator<Item = Links>, found: &mut Vec<Place>) {
        match local {
            Local::Axes(group, element) => {
                let mut stride = measure(element, self.axes, self.attributes.aligned).0;
                let mut order = group.clone();
                if !self.attributes.column_major {
                    order.reverse();
                }
                for axis in order {
                    self.strides[axis] = stride;
                    stride *= self.axes[axis].extent;
                }
                self.places(element, offset, links, found);
            }
            Local::Record(fields) => {
                let mut end = 0;
                for field in fields {
                    let (bytes, alignment) = measure(field, self.axes, self.attributes.aligned);
                    end = padded(end, alignment);
                    self.places(field, offset + end, links, found);
                    end += bytes;
                }
            }
            Local::Leaf { name, bytes, word, left, .. } => {
                let mut offset = offset;
                for axis in left {
                    if let Index::Constant(place) = self.axes[*axis].index {
                        offset += place * self.strides[*axis];
                    }
                }
                let mut all = vec![(Vec::new(), offset)];
                for (axis, pairs) in links.next().unwrap() {
                    let stride = axis.map_or(0, |axis| self.strides[axis]);
                    let further = |(indices, offset): (Vec<u64>, u64)| {
                        let next = move |(place, index): &(u64, u64)| {
                            ([&indices[..], &[*index]].concat(), offset + place * stride)
                        };
                        pairs.iter().map(next).collect::<Vec<_>>()
                    };
                    all = all.into_iter().flat_map(further).collect();
                }
                let place =
                    |(indices, offset)| Place { key: (name.clone(), indices), offset, bytes: *bytes, word: *word };
                found.extend(all.into_iter().map(place));
            }
        }
    }
}

/// A view: its text, and what it means.
struct View {
    text: String,
    bindings: Bindings,
    attributes: Attributes,
    /// `None`: the text is to be refused.
    content: Option<Content>,
}

#[derive(Clone)]
struct Content {
    /// Each element's place and byte order.
    places: Vec<(Place, bool)>,
    bytes: u64,
}

impl Content {
    fn repeats(&self) -> bool {
        let mut seen = BTreeSet::new();
        !self.places.iter().all(|(place, _)| seen.insert(&place.key))
    }

    /// A buffer of it.
    fn buffer(&self, dice: &mut Dice, version: u64) -> Vec<u8> {
        let mut buffer = dice.bytes(self.bytes);
        self.places.iter().for_each(|(place, big_endian)| place.put(*big_endian, version, &mut buffer));
        buffer
    }
}

impl Place {
    fn put(&self, big_endian: bool, version: u64, buffer: &mut [u8]) {
        let bytes = value(&self.key, version, self.bytes, self.word, big_endian);
        buffer[self.offset as usize..][..bytes.len()].copy_from_slice(&bytes);
    }
}

/// The bytes of an element of a version.
fn value(key: &Key, version: u64, bytes: u64, word: u64, big_endian: bool) -> Vec<u8> {
    let name = key.0.bytes().map(u64::from);
    let seed = name.chain(key.1.iter().copied()).chain([version]).fold(7, |seed, next| Dice(seed ^ next).next());
    let mut value = Dice(seed).bytes(bytes);
    if !big_endian {
        value.chunks_mut(word as usize).for_each(<[u8]>::reverse);
    }
    value
}

const LARGEST_VIEW_BYTES: u64 = 1 << 16;

fn view(dice: &mut Dice, objects: &[(String, Kind)], name: &str) -> View {
    loop {
        let mut attributes = Attributes {
            column_major: dice.one_in(2),
            aligned: dice.one_in(2),
            big_endian: dice.one_in(2),
            clipped: dice.one_in(2),
            readonly: dice.one_in(5),
        };
        let mut bindings = Bindings::new();
        let mut text = String::new();
        let (mut places, mut end, mut largest) = (Vec::new(), 0, 1);
        let mut refused = false;
        for number in 0..dice.roll(1, 2) {
            let (object, kind) = dice.pick(objects);
            let mut writer = Writer { dice, bindings: &mut bindings, variables: 0, brackets: 0, axes: Vec::new() };
            let (mut left, mut right) = (String::new(), String::new());
            let chosen = writer.choose(kind, object, &mut right);
            let local = writer.place(&chosen, &mut left);
            let mut axes = writer.axes;
            writeln!(text, "var v{number} {left} = {object}{right}").unwrap();
            let mut links = Vec::new();
            let linked = link(&local, &mut axes, attributes.clipped, &mut links);
            for axis in &mut axes {
                axis.extent = axis.explicit.unwrap_or(axis.extent);
                refused |= axis.extent == 0;
            }
            refused |= linked.is_none();
            if refused {
                continue;
            }
            let (bytes, alignment) = measure(&local, &axes, attributes.aligned);
            end = padded(end, alignment);
            let strides = vec![0; axes.len()];
            Layout { axes: &axes, attributes, strides }.places(&local, end, &mut links.into_iter(), &mut places);
            end += bytes;
            largest = largest.max(alignment);
            if end > LARGEST_VIEW_BYTES {
                break;
            }
        }
        if end > LARGEST_VIEW_BYTES {
            continue;
        }
        let places = places.into_iter().map(|place| (place, attributes.big_endian)).collect();
        let content = Content { places, bytes: padded(end, largest) };
        attributes.readonly |= content.repeats();
        let mut words = vec![
            ["rowmajor", "columnmajor"][usize::from(attributes.column_major)],
            ["packed", "aligned"][usize::from(attributes.aligned)],
            ["littleendian", "bigendian"][usize::from(attributes.big_endian)],
        ];
        words.extend(attributes.clipped.then_some("clipped"));
        words.extend(attributes.readonly.then_some("readonly"));
        dice.shuffle(&mut words);
        let text = format!("view {name} {} {{ {text} }}", words.join(" "));
        return View { text, bindings, attributes, content: (!refused).then_some(content) };
    }
}

/// Objects, and the text that declares them.
fn objects(dice: &mut Dice) -> (Vec<(String, Kind)>, String) {
    let (mut types, mut text) = (Vec::new(), String::new());
    let objects: Vec<(String, Kind)> =
        (0..dice.roll(1, 3)).map(|number| (format!("object{number}"), Kind::random(dice, 3))).collect();
    for (name, kind) in &objects {
        writeln!(text, "var {name} {}", kind.write(dice, &mut types)).unwrap();
    }
    let text = format!("{text}\n{}", types.join("\n"));
    (objects, if dice.one_in(2) { format!("dataset {{ {text} }}") } else { text })
}

/// A fragment that exists, with its content by the model.
struct Held {
    fragment: Arc<Fragment>,
    content: Content,
    readonly: bool,
}

/// Objects and fragments of them: views of the text and beside it, and replicas.
fn fragments(dice: &mut Dice, most: u64) -> (Schema, Vec<Held>) {
    let (objects, mut text) = objects(dice);
    let mut bindings = Bindings::new();
    let mut views = Vec::new();
    let mut beside = Vec::new();
    for number in 0..dice.roll(2, most) {
        let one = view(dice, &objects, &format!("view{number}"));
        let Some(content) = one.content.clone() else {
            let program = Program::parse(&format!("{text}\n{}", one.text)).unwrap();
            assert!(program.bind(&one.bindings).is_err(), "taken:\n{text}\n{}", one.text);
            continue;
        };
        if dice.one_in(3) {
            // The placement dialect has no words before the brace that an anonymous view needs.
            beside.push((one, content));
            continue;
        }
        bindings.extend(one.bindings.iter().map(|(name, value)| (name.to_owned(), value)));
        writeln!(text, "{}", one.text).unwrap();
        views.push((format!("view{number}"), content, one.attributes.readonly));
    }
    let mut replicas = Vec::new();
    for number in 0..if views.is_empty() { 0 } else { dice.roll(0, 2) } {
        let complete = dice.one_in(2);
        let big_endian = dice.one_in(2);
        let mut all = Content { places: Vec::new(), bytes: 0 };
        let words = [["littleendian", "bigendian"][usize::from(big_endian)], if complete { "complete" } else { "" }];
        write!(text, "replica {} replica{number} {{", words.join(" ")).unwrap();
        for (name, content, _) in some(dice, &views) {
            if dice.one_in(2) {
                let skipped = dice.roll(0, 20);
                write!(text, " skip {skipped};").unwrap();
                all.bytes += skipped;
            }
            write!(text, " view {name};").unwrap();
            let shifted =
                |(place, order): &(Place, bool)| (Place { offset: place.offset + all.bytes, ..place.clone() }, *order);
            all.places.extend(content.places.iter().map(shifted).collect::<Vec<_>>());
            all.bytes += content.bytes;
        }
        writeln!(text, " }}").unwrap();
        replicas.push((format!("replica{number}"), complete, big_endian, all));
    }
    let schema = Program::parse(&text)
        .unwrap_or_else(|mistakes| panic!("{mistakes}"))
        .bind(&bindings)
        .unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let mut held: Vec<Held> = Vec::new();
    for (name, content, readonly) in views {
        let view = schema.view(&name).unwrap();
        held.push(Held { fragment: view.fragment.clone(), content, readonly });
    }
    for (one, content) in beside {
        let view = schema.parse_view(&one.text, &one.bindings).unwrap_or_else(|mistakes| panic!("{text}\n{mistakes}"));
        held.push(Held { fragment: view.fragment, content, readonly: one.attributes.readonly });
    }
    for (name, complete, big_endian, mut content) in replicas {
        let replica = schema.replica(&name).unwrap();
        assert_eq!(replica.rest_offset_bytes, content.bytes);
        if complete {
            rest(&objects, &replica.fragment, big_endian, &mut content);
        }
        held.push(Held { fragment: replica.fragment.clone(), readonly: content.repeats(), content });
    }
    for one in &held {
        assert_eq!(one.fragment.size_bytes(), one.content.bytes, "{text}");
    }
    (schema, held)
}

/// Adds what a complete replica has beside its views: whatever they leave out, leaf by leaf without gaps. In which boxes
/// is up to the crate.
fn rest(objects: &[(String, Kind)], fragment: &Fragment, big_endian: bool, content: &mut Content) {
    let present: BTreeSet<Key> = content.places.iter().map(|(place, _)| place.key.clone()).collect();
    let mut leaves = Vec::new();
    objects.iter().for_each(|(name, kind)| kind.leaves(name, &[], &mut leaves));
    let start = content.bytes;
    for (number, (name, extents, bytes)) in leaves.iter().enumerate() {
        let mut all = vec![Vec::new()];
        for extent in extents {
            all =
                all.iter().flat_map(|head: &Vec<u64>| (0..*extent).map(move |i| [&head[..], &[i]].concat())).collect();
        }
        let wanted: BTreeSet<Vec<u64>> =
            all.into_iter().filter(|indices| !present.contains(&(name.clone(), indices.clone()))).collect();
        let leaf = drepl::dataset::LeafId(number as u32);
        let word = fragment.dataset().leaf(leaf).unwrap().primitive.word_bytes();
        let mut found = BTreeMap::new();
        for part in fragment.parts_of(leaf).1.iter().filter(|part| part.offset_bytes >= start) {
            for indices in model::elements(&part.elements) {
                let at = model::bytes_of(part, &indices).into_iter().min().unwrap() as u64;
                found.insert(at, indices);
            }
        }
        assert_eq!(found.values().cloned().collect::<BTreeSet<_>>(), wanted);
        for (offset, indices) in found {
            assert_eq!(offset, content.bytes);
            let place = Place { key: (name.clone(), indices), offset, bytes: *bytes, word };
            content.places.push((place, big_endian));
            content.bytes += bytes;
        }
    }
}

fn stored(bytes: &[u8], offset: u64) -> File {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(bytes, offset).unwrap();
    file
}

fn range(file: &File, offset: u64, bytes: usize) -> FileRange<'_> {
    FileRange { file, path: Path::new("a file of the test"), offset, bytes: bytes as u64 }
}

/// Executes a plan in one of the ways there are.
fn execute(dice: &mut Dice, plan: &Plan, buffers: &[Vec<u8>], destination: &mut Vec<u8>) {
    let executor = Executor::new(dice.roll(1, 4) as usize).staging_bytes(dice.roll(0, 1 << 20) as usize);
    let plan = if dice.one_in(2) { Plan::decode(&plan.encode()).unwrap() } else { plan.clone() };
    match dice.roll(0, 2) {
        0 => {
            let work: Vec<_> = plan.transfers.iter().map(|(source, moves)| (moves, &buffers[*source][..])).collect();
            executor.run_all(&work, destination).unwrap();
        }
        1 => {
            for share in plan.split() {
                let sent = Share::decode(&share.encode()).unwrap();
                let mut compact = vec![0; sent.transfer.moved_bytes() as usize];
                executor.run(&sent.transfer.pack(), &buffers[sent.source], &mut compact).unwrap();
                executor.run(&share.transfer.unpack(), &compact, destination).unwrap();
            }
        }
        _ => {
            let offset = dice.roll(0, 5000);
            let files: Vec<Option<File>> =
                buffers.iter().map(|bytes| dice.one_in(2).then(|| stored(bytes, offset))).collect();
            let source = |at: usize| match &files[at] {
                Some(file) => executor::Source::File(range(file, offset, buffers[at].len())),
                None => executor::Source::Memory(&buffers[at]),
            };
            let work: Vec<_> = plan.transfers.iter().map(|(at, moves)| (moves, source(*at))).collect();
            if dice.one_in(3) {
                executor.run_stored(&work, Destination::Memory(destination)).unwrap();
                return;
            }
            let surrounded = [&[1; 77][..], destination, &[2; 33]].concat();
            let file = stored(&surrounded, 0);
            executor.run_stored(&work, Destination::File(range(&file, 77, destination.len()))).unwrap();
            let mut back = vec![0; surrounded.len()];
            file.read_exact_at(&mut back, 0).unwrap();
            assert!(back[..77] == [1; 77] && back[77 + destination.len()..] == [2; 33]);
            *destination = back[77..77 + destination.len()].to_vec();
        }
    }
}

fn rounds() -> u64 {
    std::env::var("DREPL_WHOLE_ROUNDS").map_or(400, |rounds| rounds.parse().unwrap())
}

#[test]
fn every_text_moves_the_bytes_that_its_elements_say() {
    let (mut given, mut missed) = (0, 0);
    for seed in 0..rounds() {
        let dice = &mut Dice(seed);
        let (_, mut held) = fragments(dice, 8);
        if held.is_empty() {
            continue;
        }
        let wanted = held.swap_remove(dice.roll(0, held.len() as u64 - 1) as usize);
        held.truncate(6);
        let sources: Vec<Source> = held
            .iter()
            .map(|one| Source {
                fragment: one.fragment.clone(),
                version: dice.roll(1, 4),
                cost: dice.roll(0, 2),
                readable: !dice.one_in(6),
            })
            .collect();
        let versions = dice.roll(0, 2)..=dice.roll(3, 4);
        let buffers: Vec<Vec<u8>> =
            held.iter().zip(&sources).map(|(one, source)| one.content.buffer(dice, source.version)).collect();
        let mut best: HashMap<&Key, (std::cmp::Reverse<u64>, u64, usize)> = HashMap::new();
        for (position, (one, source)) in held.iter().zip(&sources).enumerate() {
            if source.readable && versions.contains(&source.version) {
                let rank = (std::cmp::Reverse(source.version), source.cost, position);
                for (place, _) in &one.content.places {
                    best.entry(&place.key).and_modify(|held| *held = rank.min(*held)).or_insert(rank);
                }
            }
        }
        let mut destination = dice.bytes(wanted.content.bytes);
        let mut expected = destination.clone();
        let mut nowhere = BTreeSet::new();
        let mut from = BTreeSet::new();
        for (place, big_endian) in &wanted.content.places {
            match best.get(&place.key) {
                Some((version, _, position)) => {
                    place.put(*big_endian, version.0, &mut expected);
                    from.insert(*position);
                    given += 1;
                }
                None => {
                    nowhere.insert(place.key.clone());
                    missed += 1;
                }
            }
        }
        let asked = Wanted { fragment: &wanted.fragment, versions };
        let made = plan(&asked, &sources).unwrap();
        let missing = made.missing.iter().flat_map(|one| {
            one.elements.boxes().iter().flat_map(model::elements).map(|indices| (one.name.clone(), indices))
        });
        assert_eq!(missing.collect::<BTreeSet<Key>>(), nowhere, "seed {seed}");
        assert_eq!(made.transfers.iter().map(|(source, _)| *source).collect::<BTreeSet<_>>(), from, "seed {seed}");
        assert_eq!(SourceIndex::new(sources).unwrap().plan(&asked).unwrap(), made, "seed {seed}");
        execute(dice, &made, &buffers, &mut destination);
        assert!(destination == expected, "seed {seed}");
    }
    assert!(given > 5 * rounds() && missed > rounds(), "{given} {missed}");
}

#[test]
fn numbers_of_two_bytes_are_moved_between_orders_of_axes_fields_and_bytes() {
    let text = "
        type Cell struct { id int32; half float16; brain bfloat16 }
        var cells [2,3]Cell
        view records { var c = cells }
        view sent bigendian { var b [j,i] = cells[i,j].brain; var h = cells[,].half }
    ";
    let schema = Program::parse(text).and_then(|program| program.bind(&Bindings::new())).unwrap();
    let (records, sent) = (&schema.views()[0].fragment, &schema.views()[1].fragment);
    // Of cell k the halves are 0x3c00 + k, which is a little more than 1, and 0xbf80 + k, below -1.
    let cells: Vec<u8> = (0..6u16)
        .flat_map(|k| [&[9; 4][..], &(0x3c00 + k).to_le_bytes(), &(0xbf80 + k).to_le_bytes()].concat())
        .collect();
    let brains = [0, 3, 1, 4, 2, 5].map(|k: u16| 0xbf80 + k);
    let halves = [0, 1, 2, 3, 4, 5].map(|k: u16| 0x3c00 + k);
    let expected: Vec<u8> = brains.iter().chain(&halves).flat_map(|bits| bits.to_be_bytes()).collect();

    let source =
        |fragment: &Arc<Fragment>| [Source { fragment: fragment.clone(), version: 0, cost: 0, readable: true }];
    let move_to = |wanted: &Fragment, given: &Arc<Fragment>, bytes: &[u8], out: &mut Vec<u8>| {
        let plan = plan(&Wanted::newest(wanted), &source(given)).unwrap();
        execute(&mut Dice(1), &plan, &[bytes.to_vec()], out);
    };
    let mut out = vec![0; expected.len()];
    move_to(sent, records, &cells, &mut out);
    assert_eq!(out, expected);
    let mut back = vec![9; cells.len()];
    move_to(records, sent, &expected, &mut back);
    assert_eq!(back, cells);
}

#[test]
fn a_write_to_one_view_of_a_text_reaches_all_the_others() {
    let mut refreshed = 0;
    for seed in 0..rounds() {
        let dice = &mut Dice(seed ^ 0x5eed);
        let (_, held) = fragments(dice, 6);
        let participants: Vec<Participant> = held
            .iter()
            .map(|one| Participant {
                fragment: one.fragment.clone(),
                materialised: !dice.one_in(5),
                readonly: one.readonly,
            })
            .collect();
        let updates = Updates::new(participants).unwrap();
        let Some(writer) = held.iter().position(|one| !one.readonly) else { continue };
        let mut buffers: Vec<Vec<u8>> = held.iter().map(|one| one.content.buffer(dice, 1)).collect();
        let own = &held[writer].content;
        let mut begin_end = [dice.roll(0, own.bytes), dice.roll(0, own.bytes)];
        begin_end.sort_unstable();
        let bytes = if dice.one_in(2) { 0..own.bytes } else { begin_end[0]..begin_end[1] };
        let written = if bytes == (0..own.bytes) { Written::All } else { Written::Bytes(bytes.clone()) };
        let mut changed = BTreeSet::new();
        for (place, big_endian) in &own.places {
            if bytes.start < place.offset + place.bytes && place.offset < bytes.end && bytes.start < bytes.end {
                place.put(*big_endian, 2, &mut buffers[writer]);
                changed.insert(place.key.clone());
            }
        }
        let mut expected = buffers.clone();
        for (at, one) in held.iter().enumerate() {
            if at == writer || !updates.participants()[at].materialised {
                continue;
            }
            for (place, big_endian) in one.content.places.iter().filter(|(place, _)| changed.contains(&place.key)) {
                place.put(*big_endian, 2, &mut expected[at]);
                refreshed += 1;
            }
        }
        for update in updates.write(writer, &written).unwrap() {
            assert!(update.plan.is_complete());
            let mut destination = buffers[update.destination].clone();
            execute(dice, &update.plan, &buffers, &mut destination);
            buffers[update.destination] = destination;
        }
        for (at, (is, should)) in buffers.iter().zip(&expected).enumerate() {
            assert!(is == should, "seed {seed}: fragment {at}");
        }
    }
    assert!(refreshed > rounds(), "{refreshed}");
}

#[test]
fn a_plan_that_lacks_scattered_elements_can_be_read_again() {
    // Strides of six views cut what is missing into thousands of boxes, which divide each other ever further.
    let text = "
        type Cell struct { rho, e int8; f [3]float32 }
        dataset { var m [1000003,1000003,65537]Cell }
        view wanted readonly { var a0 [i,j,k*2+4] = m[(i+1)*4-2,(j+1)*3-2,k*7].rho; var a1 [,j/14,k] = m[,j,65536-k].rho }
        view v0 readonly columnmajor {
            var a0 [k/24,j:204444,i] = m[i,j+158252,k].rho
            var a1 [k,j:659705,i:7299] = m[i+292151,j+85994,65536-k].rho
        }
        view v2 readonly packed { var a0 [,j,k:12454] = m[,j*3,k+48850].rho }
        view v4 readonly clipped packed {
            var a0 [j*6+0,k] = m[12161,j*4,65536-k].rho
            var a1 [k,j/14] = m[821386,j,k].rho
        }
        view v5 readonly { var a0 [k,j,i*2+2] = m[i*5,(j+3)*1-2,k*39699+3848].rho }
        view v6 readonly { var a0 [k*6+7,j:46903,i:965450] = m[i+1207,j+752892,k*5].rho }
    ";
    let schema = Program::parse(text).and_then(|program| program.bind(&Bindings::new())).unwrap();
    let mut fragments = schema.views().iter().map(|view| view.fragment.clone());
    let wanted = fragments.next().unwrap();
    let sources: Vec<Source> =
        fragments.map(|fragment| Source { fragment, version: 0, cost: 0, readable: true }).collect();
    let plan = drepl::plan(&Wanted::newest(&wanted), &sources).unwrap();
    let missing = &plan.missing[0].elements;
    assert!(drepl::IndexSet::of(missing.boxes()).is_err(), "{} boxes are simply divided", missing.boxes().len());
    assert_eq!(Plan::decode(&plan.encode()).unwrap(), plan);
}

#[test]
fn fragments_and_schemas_are_the_same_when_they_have_been_sent() {
    for seed in 0..rounds() {
        let (schema, held) = fragments(&mut Dice(seed), 6);
        let sent = Schema::decode(&schema.encode()).unwrap();
        assert_eq!((sent.views(), sent.replicas()), (schema.views(), schema.replicas()), "seed {seed}");
        assert_eq!((sent.dataset(), sent.encode()), (schema.dataset(), schema.encode()), "seed {seed}");
        for one in held {
            assert_eq!(*Fragment::decode(&one.fragment.encode()).unwrap(), *one.fragment, "seed {seed}");
        }
    }
}

/// Extents and strides of a variable's axes, those of arrays in arrays included, and the bytes of what lies there.
fn axes_of(variable: &Variable) -> (Vec<u64>, Vec<u64>, u64) {
    let (mut extents, mut strides, mut kind) = (Vec::new(), Vec::new(), &variable.kind);
    while let Type::Array(array) = kind {
        extents.extend(&array.extents);
        strides.extend(variable.layout.strides_bytes(array).unwrap());
        kind = &array.element;
    }
    (extents, strides, variable.layout.size_bytes(kind).unwrap())
}

/// Distances of an array whose axes have any order and direction, and gaps between neighbours.
fn any_strides(dice: &mut Dice, extents: &[u64], element_bytes: u64) -> Vec<i64> {
    let mut order: Vec<usize> = (0..extents.len()).collect();
    (1..order.len()).rev().for_each(|at| order.swap(at, dice.roll(0, at as u64) as usize));
    let mut step = element_bytes + dice.roll(0, 2);
    let mut strides = vec![0; extents.len()];
    for axis in order {
        strides[axis] = if dice.one_in(2) { step as i64 } else { -(step as i64) };
        step = step * extents[axis] + dice.roll(0, 2);
    }
    strides
}

#[test]
fn an_array_that_lies_otherwise_has_the_same_elements() {
    let mut turned = 0;
    for seed in 0..rounds() {
        let dice = &mut Dice(seed);
        let (_, held) = fragments(dice, 6);
        for Held { fragment, content, .. } in held {
            let [variable] = fragment.variables() else {
                assert!(fragment.with_strides(&[]).is_err());
                continue;
            };
            let (extents, strides, element_bytes) = axes_of(variable);
            let other = any_strides(dice, &extents, element_bytes);
            let made = fragment.with_strides(&other).unwrap();
            assert!(fragment.with_strides(&[&other[..], &[1]].concat()).is_err());
            let lowest: i64 =
                other.iter().zip(&extents).map(|(stride, extent)| stride.min(&0) * (*extent as i64 - 1)).sum();
            let buffer = content.buffer(dice, 1);
            let mut used = vec![false; buffer.len()];
            for (place, _) in &content.places {
                used[place.offset as usize..][..place.bytes as usize].fill(true);
            }
            let mut destination = dice.bytes(made.size_bytes());
            let mut expected = destination.clone();
            for number in 0..extents.iter().product::<u64>() {
                let (mut rest, mut from, mut to) = (number, variable.offset_bytes, -lowest);
                for axis in 0..extents.len() {
                    from += rest % extents[axis] * strides[axis];
                    to += (rest % extents[axis]) as i64 * other[axis];
                    rest /= extents[axis];
                }
                for byte in 0..element_bytes {
                    let (from, to) = ((from + byte) as usize, (to as u64 + byte) as usize);
                    expected[to] = if used[from] { buffer[from] } else { expected[to] };
                }
            }
            let source = Source { fragment: fragment.clone(), version: 0, cost: 0, readable: true };
            let made = plan(&Wanted::newest(&made), &[source]).unwrap();
            execute(dice, &made, &[buffer], &mut destination);
            assert!(destination == expected, "seed {seed}");
            turned += usize::from(extents.len() > 1);
        }
    }
    assert!(turned as u64 > rounds() / 4, "{turned}");
}
