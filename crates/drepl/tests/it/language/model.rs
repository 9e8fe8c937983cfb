//! Views of random objects, against a model that looks at each element by itself: it evaluates both index expressions for
//! every value of their variable, and adds sizes up for the place of an element.

use std::collections::{BTreeMap, BTreeSet};

use drepl::{Bindings, Program, fragment::Fragment, text::diagnostic::Code, types::Type};

use crate::dice::Dice;

/// Values of index variables that are tried. No expression of this file needs others.
const VALUES: std::ops::RangeInclusive<i64> = -400..=400;

/// Its name, bytes and alignment.
type Primitive = (&'static str, u64, u64);

/// Each is converted into any other of these,
const FLOATS: [Primitive; 4] = [("float16", 2, 2), ("bfloat16", 2, 2), ("float32", 4, 4), ("float64", 8, 8)];
/// and each of these into the other.
const COMPLEX: [Primitive; 2] = [("complex64", 8, 4), ("complex128", 16, 8)];

enum Kind {
    Primitive(Primitive),
    Array(Vec<u64>, Box<Kind>),
    Record(Vec<(String, Kind)>),
}

#[derive(Clone, Debug)]
enum Expression {
    Variable,
    Number(i64),
    Add(Box<Self>, Box<Self>),
    Subtract(Box<Self>, Box<Self>),
    Multiply(Box<Self>, Box<Self>),
    Divide(Box<Self>, Box<Self>),
}

/// What an index of the right does with its expression.
#[derive(Clone, Debug)]
enum Form {
    Straight,
    /// What a division by this number leaves.
    Wrapped(i64),
    /// A function of what a list of this name has there.
    Listed(String, Vec<i64>, Expression),
}

#[derive(Clone, Debug)]
enum Index {
    Wild,
    Constant(i64),
    Variable(String, Expression, Form),
}

#[derive(Clone, Debug)]
struct RightAxis {
    index: Index,
    extent: u64,
    bracket: usize,
}

/// What the right side chooses.
enum Chosen {
    Array(Vec<RightAxis>, Box<Chosen>),
    Record(Vec<(String, Chosen)>),
    Leaf(u32, Primitive),
}

#[derive(Debug)]
struct LeftAxis {
    index: Index,
    explicit: Option<u64>,
    extent: u64,
}

/// What lies in the view; axes by number.
enum Local {
    Array(Vec<usize>, Box<Local>),
    Record(Vec<(String, Local)>),
    Leaf { leaf: u32, primitive: Primitive, right: Vec<RightAxis>, left: Vec<usize> },
}

impl Expression {
    fn random(dice: &mut Dice, depth: usize) -> Self {
        use Expression::{Add, Divide, Multiply, Number, Subtract, Variable};
        let small =
            |dice: &mut Dice, low: i64, high: i64| Box::new(Number(low + dice.below((high - low + 1) as usize) as i64));
        if depth == 0 || dice.below(4) == 0 {
            return Variable;
        }
        let inner = Box::new(Self::random(dice, depth - 1));
        match dice.below(8) {
            0 | 1 => Add(inner, small(dice, 0, 5)),
            2 => Subtract(inner, small(dice, 0, 4)),
            3 => Subtract(small(dice, 0, 6), inner),
            4 => Multiply(small(dice, 1, 3), inner),
            5 => Divide(inner, small(dice, 1, 3)),
            6 => Add(inner, Box::new(Multiply(small(dice, 1, 2), Box::new(Variable)))),
            // Numbers alone are divided to the lower side.
            _ => Add(inner, Box::new(Divide(small(dice, -5, 5), small(dice, 1, 4)))),
        }
    }

    /// How often the variable stands in it.
    fn variables(&self) -> usize {
        match self {
            Self::Variable => 1,
            Self::Number(_) => 0,
            Self::Add(a, b) | Self::Subtract(a, b) | Self::Multiply(a, b) | Self::Divide(a, b) => {
                a.variables() + b.variables()
            }
        }
    }

    /// `None` where a division leaves a remainder.
    fn at(&self, x: i64) -> Option<i64> {
        Some(match self {
            Self::Variable => x,
            Self::Number(number) => *number,
            Self::Add(a, b) => a.at(x)? + b.at(x)?,
            Self::Subtract(a, b) => a.at(x)? - b.at(x)?,
            Self::Multiply(a, b) => a.at(x)? * b.at(x)?,
            Self::Divide(a, b) => {
                let (dividend, divisor) = (a.at(x)?, b.at(x)?);
                if self.variables() > 0 && dividend % divisor != 0 {
                    return None;
                }
                dividend.div_euclid(divisor)
            }
        })
    }

    /// Whether its value is the same wherever it has one: such expressions are refused, and not generated.
    fn cancels(&self) -> bool {
        let mut values = VALUES.filter_map(|x| self.at(x));
        let first = values.next();
        values.all(|value| Some(value) == first)
    }

    fn write(&self, variable: &str) -> String {
        let pair =
            |a: &Self, operator: &str, b: &Self| format!("({} {operator} {})", a.write(variable), b.write(variable));
        match self {
            Self::Variable => variable.into(),
            Self::Number(number) => number.to_string(),
            Self::Add(a, b) => pair(a, "+", b),
            Self::Subtract(a, b) => pair(a, "-", b),
            Self::Multiply(a, b) => pair(a, "*", b),
            Self::Divide(a, b) => pair(a, "/", b),
        }
    }
}

impl Index {
    fn random_expression(dice: &mut Dice) -> Expression {
        loop {
            let depth = dice.below(4);
            let expression = Expression::random(dice, depth);
            if !expression.cancels() {
                return expression;
            }
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Wild => String::new(),
            Self::Constant(constant) => constant.to_string(),
            Self::Variable(name, expression, Form::Straight) => expression.write(name),
            Self::Variable(name, expression, Form::Wrapped(number)) => format!("{} % {number}", expression.write(name)),
            Self::Variable(name, expression, Form::Listed(list, _, outer)) => {
                outer.write(&format!("{list}[{}]", expression.write(name)))
            }
        }
    }
}

impl Kind {
    fn random(dice: &mut Dice, depth: usize) -> Self {
        let primitives = [
            ("bool", 1, 1),
            ("int16", 2, 2),
            ("float32", 4, 4),
            ("float64", 8, 8),
            ("complex64", 8, 4),
            ("complex128", 16, 8),
            ("string3", 3, 1),
            ("uint64", 8, 8),
        ];
        match if depth == 0 { 0 } else { dice.below(5) } {
            0 => Self::Primitive(primitives[dice.below(primitives.len())]),
            1 | 2 => {
                let extents = (0..=dice.below(2)).map(|_| 1 + dice.below(5) as u64).collect();
                Self::Array(extents, Box::new(Self::random(dice, depth - 1)))
            }
            _ => {
                let fields = (0..=dice.below(3)).map(|field| (format!("f{field}"), Self::random(dice, depth - 1)));
                Self::Record(fields.collect())
            }
        }
    }

    fn leaves(&self) -> u32 {
        match self {
            Self::Primitive(..) => 1,
            Self::Array(_, element) => element.leaves(),
            Self::Record(fields) => fields.iter().map(|(_, kind)| kind.leaves()).sum(),
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Primitive((name, ..)) => (*name).into(),
            Self::Array(extents, element) => {
                let extents: Vec<String> = extents.iter().map(u64::to_string).collect();
                format!("[{}]{}", extents.join(","), element.write())
            }
            Self::Record(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(name, kind)| format!("{name} {}", kind.write())).collect();
                format!("struct {{ {} }}", fields.join("; "))
            }
        }
    }
}

/// Makes a variable of a view: its text, and what it means.
struct Writer<'n> {
    dice: &'n mut Dice,
    variables: usize,
    brackets: usize,
    axes: Vec<LeftAxis>,
    text: String,
    /// The lists that indices need.
    lists: String,
    /// A variable of the right side has no place on the left.
    forgotten: bool,
}

impl Writer<'_> {
    fn whole(&mut self, kind: &Kind, leaf: u32) -> Chosen {
        match kind {
            Kind::Primitive(primitive) => Chosen::Leaf(leaf, *primitive),
            Kind::Array(extents, element) => {
                let axes = self.bracket(extents, |_, _| Index::Wild);
                Chosen::Array(axes, Box::new(self.whole(element, leaf)))
            }
            Kind::Record(fields) => {
                let mut next = leaf;
                let chosen = fields.iter().map(|(name, kind)| {
                    let chosen = self.whole(kind, next);
                    next += kind.leaves();
                    (name.clone(), chosen)
                });
                Chosen::Record(chosen.collect())
            }
        }
    }

    fn bracket(&mut self, extents: &[u64], mut index: impl FnMut(&mut Self, u64) -> Index) -> Vec<RightAxis> {
        self.brackets += 1;
        let bracket = self.brackets;
        extents.iter().map(|extent| RightAxis { index: index(self, *extent), extent: *extent, bracket }).collect()
    }

    fn right(&mut self, kind: &Kind, leaf: u32) -> Chosen {
        if self.dice.below(6) == 0 {
            return self.whole(kind, leaf);
        }
        match kind {
            Kind::Primitive(..) => self.whole(kind, leaf),
            Kind::Array(extents, element) => {
                let before = self.variables;
                let axes = self.bracket(extents, |writer, extent| match writer.dice.below(5) {
                    0 => Index::Wild,
                    1 => Index::Constant(writer.dice.below(extent as usize) as i64),
                    _ => {
                        // Now and then it is that of another axis of these brackets.
                        if before == writer.variables || writer.dice.below(4) > 0 {
                            writer.variables += 1;
                        }
                        let name = format!("x{}", writer.variables);
                        let (expression, form) = (Index::random_expression(writer.dice), writer.form(extent));
                        Index::Variable(name, expression, form)
                    }
                });
                let written: Vec<String> = axes.iter().map(|axis| axis.index.write()).collect();
                self.text += &format!("[{}]", written.join(","));
                Chosen::Array(axes, Box::new(self.right(element, leaf)))
            }
            Kind::Record(fields) => {
                let starts: Vec<u32> = fields
                    .iter()
                    .scan(leaf, |next, (_, kind)| {
                        *next += kind.leaves();
                        Some(*next - kind.leaves())
                    })
                    .collect();
                if self.dice.below(2) == 0 {
                    let field = self.dice.below(fields.len());
                    self.text += &format!(".{}", fields[field].0);
                    return self.right(&fields[field].1, starts[field]);
                }
                self.text += " {";
                let mut order: Vec<usize> = (0..fields.len()).collect();
                self.dice.shuffle(&mut order);
                order.truncate(1 + self.dice.below(fields.len()));
                let mut chosen = Vec::new();
                for field in order {
                    self.text += &format!(" {}", fields[field].0);
                    chosen.push((fields[field].0.clone(), self.right(&fields[field].1, starts[field])));
                    self.text += ";";
                }
                self.text += " }";
                Chosen::Record(chosen)
            }
        }
    }

    fn form(&mut self, extent: u64) -> Form {
        match self.dice.below(8) {
            0 => Form::Wrapped(1 + self.dice.below(extent as usize + 1) as i64),
            1 | 2 => {
                let count = 1 + self.dice.below(5);
                let reach = if self.dice.below(5) == 0 { extent + 1 } else { extent };
                let numbers: Vec<i64> = (0..count).map(|_| self.dice.below(reach as usize) as i64).collect();
                let name = format!("l{}", self.lists.lines().count());
                self.lists += &format!("const {name} = {numbers:?}\n");
                let outer = match self.dice.below(2) {
                    0 => Expression::Variable,
                    _ => loop {
                        let outer = Index::random_expression(self.dice);
                        if outer.variables() == 1 {
                            break outer;
                        }
                    },
                };
                Form::Listed(name, numbers, outer)
            }
            _ => Form::Straight,
        }
    }

    fn left(&mut self, chosen: &Chosen, mut right: Vec<RightAxis>, mut left: Vec<usize>) -> Local {
        let mut chosen = chosen;
        while let Chosen::Array(axes, element) = chosen {
            right.extend(axes.iter().cloned());
            chosen = element;
        }
        let open = self.open(&right, &left);
        // A variable that is not written would be a mistake, and is one now and then.
        let wanted = open.iter().any(|axis| matches!(axis.index, Index::Variable(..))) && self.dice.below(12) > 0;
        let mut named = BTreeSet::new();
        let last = matches!(chosen, Chosen::Leaf(..)) || self.dice.below(3) == 0;
        let mut groups = Vec::new();
        if (wanted && last) || self.dice.below(2) == 0 {
            let mut indices = Vec::new();
            for axis in &open {
                if let Index::Variable(name, ..) = &axis.index
                    && named.insert(name.clone())
                {
                    let simple = self.dice.below(3) > 0;
                    let expression = if simple { Expression::Variable } else { Index::random_expression(self.dice) };
                    indices.push(Index::Variable(name.clone(), expression, Form::Straight));
                }
            }
            if self.dice.below(6) == 0 {
                indices.push(Index::Constant(self.dice.below(3) as i64));
            }
            let mut order: Vec<usize> = (0..indices.len()).collect();
            self.dice.shuffle(&mut order);
            let mut indices: Vec<Index> = order.into_iter().map(|index| indices[index].clone()).collect();
            let wild = open.iter().filter(|axis| matches!(axis.index, Index::Wild)).count();
            let placed = self.dice.below(wild + 1);
            for _ in 0..placed {
                indices.insert(self.dice.below(indices.len() + 1), Index::Wild);
            }
            while !indices.is_empty() {
                let rest = indices.split_off(1 + self.dice.below(indices.len()));
                let mut group = Vec::new();
                let mut texts = Vec::new();
                for index in indices {
                    let mut text = index.write();
                    let mut explicit = None;
                    if self.dice.below(3) == 0 {
                        let extent = match index {
                            Index::Constant(constant) => constant as u64 + 1 + self.dice.below(2) as u64,
                            _ => 1 + self.dice.below(5) as u64,
                        };
                        text += &format!(":{extent}");
                        explicit = Some(extent);
                    }
                    texts.push(text);
                    group.push(self.axes.len());
                    self.axes.push(LeftAxis { index, explicit, extent: 0 });
                }
                self.text += &format!("[{}]", texts.join(","));
                left.extend(&group);
                groups.push(group);
                indices = rest;
            }
        }
        let local = match chosen {
            Chosen::Record(fields) if !last => {
                self.text += " {";
                let mut order: Vec<usize> = (0..fields.len()).collect();
                self.dice.shuffle(&mut order);
                order.truncate(1 + self.dice.below(fields.len()));
                let mut local = Vec::new();
                for field in order {
                    self.text += &format!(" {}", fields[field].0);
                    local.push((fields[field].0.clone(), self.left(&fields[field].1, right.clone(), left.clone())));
                    self.text += ";";
                }
                self.text += " }";
                Local::Record(local)
            }
            Chosen::Leaf(leaf, primitive) if self.open(&right, &left).is_empty() && self.dice.below(2) == 0 => {
                let primitive = self.convert(*primitive);
                self.text += &format!(" {}", primitive.0);
                Local::Leaf { leaf: *leaf, primitive, right, left }
            }
            _ => self.tail(chosen, right, left),
        };
        groups.into_iter().rev().fold(local, |local, group| Local::Array(group, Box::new(local)))
    }

    /// The same, or another one into which it is converted.
    fn convert(&mut self, primitive: Primitive) -> Primitive {
        let all: &[&[Primitive]] = &[&FLOATS, &COMPLEX];
        match all.iter().find(|alike| alike.contains(&primitive)) {
            Some(alike) => alike[self.dice.below(alike.len())],
            None => primitive,
        }
    }

    /// Axes on the right that have no place on the left.
    fn open(&self, right: &[RightAxis], left: &[usize]) -> Vec<RightAxis> {
        let wild_left = left.iter().filter(|axis| matches!(self.axes[**axis].index, Index::Wild)).count();
        let mut wild = 0;
        let mut open = Vec::new();
        for axis in right {
            let placed = match &axis.index {
                Index::Wild => {
                    wild += 1;
                    wild <= wild_left
                }
                Index::Constant(_) => true,
                Index::Variable(name, ..) => left
                    .iter()
                    .any(|left| matches!(&self.axes[*left].index, Index::Variable(other, ..) if other == name)),
            };
            if !placed {
                open.push(axis.clone());
            }
        }
        open
    }

    /// What is not written on the left is as on the right.
    fn tail(&mut self, chosen: &Chosen, mut right: Vec<RightAxis>, mut left: Vec<usize>) -> Local {
        let mut chosen = chosen;
        while let Chosen::Array(axes, element) = chosen {
            right.extend(axes.iter().cloned());
            chosen = element;
        }
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for axis in self.open(&right, &left) {
            self.forgotten |= matches!(axis.index, Index::Variable(..));
            let index = match axis.index {
                Index::Variable(name, ..) => Index::Variable(name, Expression::Variable, Form::Straight),
                _ => Index::Wild,
            };
            groups.entry(axis.bracket).or_default().push(self.axes.len());
            left.push(self.axes.len());
            self.axes.push(LeftAxis { index, explicit: None, extent: 0 });
        }
        let local = match chosen {
            Chosen::Leaf(leaf, primitive) => Local::Leaf { leaf: *leaf, primitive: *primitive, right, left },
            Chosen::Record(fields) => Local::Record(
                fields
                    .iter()
                    .map(|(name, field)| (name.clone(), self.tail(field, right.clone(), left.clone())))
                    .collect(),
            ),
            Chosen::Array(..) => unreachable!("arrays are on the right list"),
        };
        groups.into_values().rev().fold(local, |local, group| Local::Array(group, Box::new(local)))
    }
}

/// Which place along an axis of the variable is linked with which indices along some axes of the object.
struct Points {
    right: Vec<usize>,
    points: Vec<(u64, Vec<u64>)>,
    left: Option<usize>,
}

/// What a leaf is linked with.
struct Linked {
    axes: Vec<Points>,
    fixed: Vec<(usize, u64)>,
}

/// What an index of the right is at a value of its variable.
enum Value {
    Index(i64),
    /// No element, as a division leaves a remainder.
    Nowhere,
    /// Behind the end of a list.
    Behind,
}

impl Form {
    fn at(&self, value: Option<i64>) -> Value {
        let index = match (self, value) {
            (_, None) => None,
            (Self::Straight, Some(value)) => Some(value),
            (Self::Wrapped(number), Some(value)) => Some(value.rem_euclid(*number)),
            (Self::Listed(_, numbers, outer), Some(place)) => {
                match usize::try_from(place).ok().and_then(|place| numbers.get(place)) {
                    Some(number) => outer.at(*number),
                    None => return Value::Behind,
                }
            }
        };
        index.map_or(Value::Nowhere, Value::Index)
    }
}

/// The points of one variable: its axis on the left, and all on the right.
fn points(left: &LeftAxis, right: &[&RightAxis], clipped: bool) -> Result<Vec<(u64, Vec<u64>)>, Code> {
    let function = match &left.index {
        Index::Variable(_, function, _) => function,
        _ => &Expression::Variable,
    };
    let form = |axis: &&RightAxis| match &axis.index {
        Index::Variable(_, expression, form) => (expression.clone(), form.clone()),
        _ => (Expression::Variable, Form::Straight),
    };
    let forms: Vec<(Expression, Form)> = right.iter().map(form).collect();
    if left.explicit.is_none() && forms.iter().all(|(_, form)| matches!(form, Form::Wrapped(_))) {
        return Err(Code::Extent);
    }
    let mut points = Vec::new();
    // Without an extent there are as many places as the longest list has.
    let is_listed = |(_, form): &(Expression, Form)| matches!(form, Form::Listed(..));
    let lists_say = left.explicit.is_none() && !clipped && forms.iter().any(is_listed);
    let has_number = |x: &i64| {
        let mut lists = forms.iter().filter(|one| is_listed(one));
        lists.any(|(expression, form)| {
            let place = expression.at(*x);
            place.is_some() && !matches!(form.at(place), Value::Behind)
        })
    };
    let mut listed = VALUES.filter(has_number);
    let first = listed.next();
    let last = listed.next_back().or(first);
    for x in VALUES {
        if lists_say && !(first <= Some(x) && Some(x) <= last) {
            continue;
        }
        let Some(place) = function.at(x) else { continue };
        if place < 0 || left.explicit.is_some_and(|extent| place >= extent as i64) {
            continue;
        }
        let values: Vec<Value> = forms.iter().map(|(expression, form)| form.at(expression.at(x))).collect();
        if values.iter().any(|value| matches!(value, Value::Nowhere)) {
            continue;
        }
        let inside = |(value, axis): (&Value, &&RightAxis)| match value {
            Value::Index(index) if (0..axis.extent as i64).contains(index) => Some(*index as u64),
            _ => None,
        };
        let found: Option<Vec<u64>> = values.iter().zip(right).map(inside).collect();
        // Without an extent places end where a straight line leaves its axis, or a list ends.
        let ends = |((value, axis), (_, form)): ((&Value, &&RightAxis), &(Expression, Form))| {
            matches!(value, Value::Behind) || matches!(form, Form::Straight) && inside((value, axis)).is_none()
        };
        let has_ended = left.explicit.is_none() && !lists_say && values.iter().zip(right).zip(&forms).any(ends);
        match found {
            Some(found) => points.push((place as u64, found)),
            None if has_ended || clipped => {}
            None => return Err(Code::Range),
        }
    }
    if points.is_empty() && !(clipped && left.explicit.is_some()) { Err(Code::Empty) } else { Ok(points) }
}

/// The links of all leaves, in the order of the tree. `Err`: the mistake that has to be found.
fn link(local: &Local, axes: &mut [LeftAxis], clipped: bool, links: &mut Vec<Linked>) -> Result<(), Code> {
    match local {
        Local::Array(_, element) => link(element, axes, clipped, links),
        Local::Record(fields) => fields.iter().try_for_each(|(_, field)| link(field, axes, clipped, links)),
        Local::Leaf { right, left, .. } => {
            let wild: Vec<usize> =
                left.iter().copied().filter(|axis| matches!(axes[*axis].index, Index::Wild)).collect();
            let mut wild = wild.into_iter();
            let mut linked = Linked { axes: Vec::new(), fixed: Vec::new() };
            for axis in left {
                if let Index::Constant(place) = axes[*axis].index {
                    axes[*axis].extent = place as u64 + 1;
                    linked.fixed.push((*axis, place as u64));
                }
            }
            for (position, axis) in right.iter().enumerate() {
                let (place, together) = match &axis.index {
                    Index::Constant(constant) => {
                        let points = vec![(0, vec![*constant as u64])];
                        linked.axes.push(Points { right: vec![position], points, left: None });
                        continue;
                    }
                    Index::Wild => (wild.next().unwrap(), vec![position]),
                    Index::Variable(name, ..) => {
                        let is_it = |index: &Index| matches!(index, Index::Variable(other, ..) if other == name);
                        let all: Vec<usize> = (0..right.len()).filter(|one| is_it(&right[*one].index)).collect();
                        if all[0] != position {
                            continue;
                        }
                        (*left.iter().find(|place| is_it(&axes[**place].index)).unwrap(), all)
                    }
                };
                let of: Vec<&RightAxis> = together.iter().map(|position| &right[*position]).collect();
                let points = points(&axes[place], &of, clipped)?;
                let extent = points.iter().map(|(place, _)| place + 1).max().unwrap_or(0);
                axes[place].extent = axes[place].extent.max(extent);
                linked.axes.push(Points { right: together, points, left: Some(place) });
            }
            links.push(linked);
            Ok(())
        }
    }
}

fn measure(local: &Local, axes: &[LeftAxis], aligned: bool) -> (u64, u64) {
    match local {
        Local::Leaf { primitive: (_, size, alignment), .. } => (*size, *alignment),
        Local::Array(group, element) => {
            let (size, alignment) = measure(element, axes, aligned);
            (group.iter().map(|axis| axes[*axis].extent).product::<u64>() * size, alignment)
        }
        Local::Record(fields) => {
            let (mut end, mut most) = (0u64, 1);
            for (_, field) in fields {
                let (size, alignment) = measure(field, axes, aligned);
                most = most.max(alignment);
                if aligned {
                    end = end.next_multiple_of(alignment);
                }
                end += size;
            }
            (if aligned { end.next_multiple_of(most) } else { end }, most)
        }
    }
}

/// How a view is laid out.
#[derive(Clone, Copy)]
struct Order {
    columns: bool,
    aligned: bool,
}

/// Elements, and where they lie.
type Places = BTreeSet<((u32, Vec<u64>), u64)>;

/// Writes down where every element lies, one by one.
fn place(
    local: &Local,
    axes: &[LeftAxis],
    links: &mut std::vec::IntoIter<Linked>,
    order: Order,
    at: &dyn Fn(&BTreeMap<usize, u64>) -> u64,
    places: &mut Places,
) {
    match local {
        Local::Array(group, element) => {
            let size = measure(element, axes, order.aligned).0;
            let inner = |indices: &BTreeMap<usize, u64>| {
                let ordered: Vec<usize> =
                    if order.columns { group.iter().rev().copied().collect() } else { group.clone() };
                let number = ordered.iter().fold(0, |number, axis| number * axes[*axis].extent + indices[axis]);
                at(indices) + number * size
            };
            place(element, axes, links, order, &inner, places);
        }
        Local::Record(fields) => {
            let mut end = 0u64;
            for (_, field) in fields {
                let (size, alignment) = measure(field, axes, order.aligned);
                if order.aligned {
                    end = end.next_multiple_of(alignment);
                }
                let start = end;
                place(field, axes, links, order, &|indices| at(indices) + start, places);
                end += size;
            }
        }
        Local::Leaf { leaf, .. } => {
            let linked = links.next().unwrap();
            let rank = linked.axes.iter().map(|axis| axis.right.len()).sum();
            let fixed = linked.fixed.iter().copied().collect::<BTreeMap<_, _>>();
            let mut elements: Vec<(Vec<u64>, _)> = vec![(vec![0; rank], fixed)];
            for axis in &linked.axes {
                let mut more = Vec::new();
                for (element, indices) in &elements {
                    for (place, found) in &axis.points {
                        let (mut element, mut indices) = (element.clone(), indices.clone());
                        axis.right.iter().zip(found).for_each(|(position, index)| element[*position] = *index);
                        indices.extend(axis.left.map(|left| (left, *place)));
                        more.push((element, indices));
                    }
                }
                elements = more;
            }
            let lying = elements.into_iter().map(|(element, indices)| ((*leaf, element), at(&indices)));
            places.extend(lying);
        }
    }
}

fn shape(local: &Local, axes: &[LeftAxis]) -> String {
    match local {
        Local::Array(group, element) => {
            let extents: Vec<String> = group.iter().map(|axis| axes[*axis].extent.to_string()).collect();
            format!("[{}]{}", extents.join(","), shape(element, axes))
        }
        Local::Record(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, field)| format!("{name} {}", shape(field, axes))).collect();
            format!("{{{}}}", fields.join(" "))
        }
        Local::Leaf { primitive: (name, ..), .. } => (*name).into(),
    }
}

fn shape_of(kind: &Type) -> String {
    match kind {
        Type::Primitive(primitive) => primitive.to_string(),
        Type::Array(array) => {
            let extents: Vec<String> = array.extents.iter().map(u64::to_string).collect();
            format!("[{}]{}", extents.join(","), shape_of(&array.element))
        }
        Type::Record(record) => {
            let fields: Vec<String> =
                record.fields().iter().map(|field| format!("{} {}", field.name, shape_of(&field.kind))).collect();
            format!("{{{}}}", fields.join(" "))
        }
    }
}

fn places_of(fragment: &Fragment) -> Places {
    let mut places = Places::new();
    for part in fragment.parts() {
        let mut elements = vec![(Vec::new(), part.offset_bytes as i64)];
        for (axis, stride) in part.elements.axes().iter().zip(&part.strides_bytes) {
            let mut more = Vec::new();
            for (element, offset) in &elements {
                for (number, index) in axis.iter().enumerate() {
                    let element: Vec<u64> = element.iter().copied().chain([index]).collect();
                    more.push((element, offset + number as i64 * stride));
                }
            }
            elements = more;
        }
        for (element, offset) in elements {
            assert!(places.insert(((part.leaf.0, element), offset as u64)), "no byte belongs to two parts");
        }
    }
    places
}

#[test]
fn every_element_lies_where_a_model_puts_it() {
    let rounds = std::env::var("DREPL_TEST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(4000);
    let (mut right, mut holes, mut refused, mut repeated) = (0, 0, 0, 0);
    for seed in 0..rounds {
        let mut dice = Dice(seed);
        let kind = Kind::random(&mut dice, 4);
        let (clipped, columns, aligned) = (dice.below(4) == 0, dice.below(2) == 0, dice.below(2) == 0);
        let mut writer = Writer {
            dice: &mut dice,
            variables: 0,
            brackets: 0,
            axes: Vec::new(),
            text: String::new(),
            lists: String::new(),
            forgotten: false,
        };
        let chosen = writer.right(&kind, 0);
        let right_text = std::mem::take(&mut writer.text);
        let local = writer.left(&chosen, Vec::new(), Vec::new());
        let (left_text, mut axes, forgotten, lists) = (writer.text, writer.axes, writer.forgotten, writer.lists);
        let readonly = dice.below(2) == 0;
        let mut attributes = String::new();
        let words = [" clipped", " columnmajor", " aligned", " readonly"];
        for (says, word) in [clipped, columns, aligned, readonly].into_iter().zip(words) {
            attributes += if says { word } else { "" };
        }
        let kind = kind.write();
        let text = format!("{lists}var o {kind}\nview v{attributes} {{ var a {left_text} = o{right_text} }}");
        let mut links = Vec::new();
        let expected = link(&local, &mut axes, clipped, &mut links).and_then(|()| {
            for axis in &mut axes {
                axis.extent = axis.explicit.unwrap_or(axis.extent);
            }
            if axes.iter().any(|axis| axis.extent == 0) { Err(Code::Empty) } else { Ok(()) }
        });
        let expected = expected.and_then(|()| {
            let mut places = Places::new();
            let order = Order { columns, aligned };
            place(&local, &axes, &mut links.into_iter(), order, &|_| 0, &mut places);
            let once: BTreeSet<_> = places.iter().map(|(element, _)| element).collect();
            if once.len() < places.len() && !readonly { Err(Code::Overlap) } else { Ok(places) }
        });
        let bound = Program::parse(&text).and_then(|program| program.bind(&Bindings::new()));
        if forgotten {
            assert!(bound.is_err(), "seed {seed}: a variable has no place\n{text}");
            continue;
        }
        match (expected, bound) {
            (Ok(places), Ok(schema)) => {
                let fragment = &schema.view("v").unwrap().fragment;
                let (size, alignment) = measure(&local, &axes, aligned);
                let size = if aligned { size.next_multiple_of(alignment) } else { size };
                assert_eq!(fragment.size_bytes(), size, "seed {seed}\n{text}");
                assert_eq!(shape_of(&fragment.variables()[0].kind), shape(&local, &axes), "seed {seed}\n{text}");
                let once: BTreeSet<_> = places.iter().map(|(element, _)| element).collect();
                repeated += (once.len() < places.len()) as usize;
                holes += places.is_empty() as usize;
                right += 1;
                assert_eq!(places_of(fragment), places, "seed {seed}\n{text}");
            }
            (Err(code), Err(found)) => {
                refused += 1;
                assert_eq!(found.iter().next().unwrap().code, code, "seed {seed}\n{text}\n{found}");
            }
            (Ok(_), Err(found)) => panic!("seed {seed}: refused\n{text}\n{found}"),
            (Err(code), Ok(_)) => panic!("seed {seed}: should be refused as {code:?}\n{text}"),
        }
    }
    assert!(right > rounds / 4 && refused > 0, "{right} right, {refused} refused");
    assert!(holes > 0 && repeated > 0, "{holes} of nothing but holes, {repeated} with elements that lie there twice");
}

#[test]
fn the_rest_of_a_complete_replica_is_what_no_view_holds() {
    for seed in 0..400 {
        let mut dice = Dice(seed);
        let rank = 1 + dice.below(3);
        let extents: Vec<String> = (0..rank).map(|_| (1 + dice.below(9)).to_string()).collect();
        let mut text = format!("var o [{}]int16\nvar other int8\n", extents.join(","));
        let mut stored = String::new();
        for view in 0..dice.below(4) {
            let indices = (0..rank).map(|axis| match dice.below(4) {
                0 => "0".into(),
                1 => format!("{}*x{axis}", 1 + dice.below(4)),
                _ => format!("x{axis}"),
            });
            let indices: Vec<String> = indices.collect();
            let variables = (0..rank).filter(|axis| indices[*axis] != "0").map(|axis| format!("x{axis}"));
            let variables: Vec<String> = variables.collect();
            let left = if variables.is_empty() { String::new() } else { format!("[{}]", variables.join(",")) };
            text += &format!("view v{view} readonly {{ var a {left} = o[{}] }}\n", indices.join(","));
            stored += &format!("view v{view} ");
        }
        text += &format!("replica complete all {{ {stored} }}");
        let schema = Program::parse(&text).and_then(|program| program.bind(&Bindings::new()));
        let schema = schema.unwrap_or_else(|mistakes| panic!("seed {seed}\n{text}\n{mistakes}"));
        let replica = schema.replica("all").unwrap();
        let (mut held, mut rest) = (BTreeSet::new(), Vec::new());
        let mut bytes = replica.rest_offset_bytes;
        for part in replica.fragment.parts() {
            let one = Fragment::new(schema.dataset().clone(), Vec::new(), vec![part.clone()], i64::MAX as u64).unwrap();
            let elements = places_of(&one).into_iter().map(|(element, _)| element);
            if part.offset_bytes < replica.rest_offset_bytes {
                held.extend(elements);
            } else {
                let size = part.primitive.size_bytes();
                bytes += part.elements.count() * size;
                rest.extend(elements);
            }
        }
        assert_eq!(bytes, replica.fragment.size_bytes(), "seed {seed}: the rest is packed\n{text}");
        let once: BTreeSet<_> = rest.iter().cloned().collect();
        assert_eq!(once.len(), rest.len(), "seed {seed}: no element of the rest is there twice\n{text}");
        assert!(once.is_disjoint(&held), "seed {seed}: what a view holds is no rest\n{text}");
        let all: u64 = schema.dataset().leaves().iter().map(|leaf| leaf.elements()).sum();
        assert_eq!((once.len() + held.len()) as u64, all, "seed {seed}: nothing is left out\n{text}");
    }
}
