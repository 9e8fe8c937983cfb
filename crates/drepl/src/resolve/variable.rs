//! A variable of a view: which elements its right side chooses, and where its left side puts them.
//!
//! The right side becomes a tree of what is chosen from the object's type; the left side is read along it and becomes a
//! tree of what lies in the view. For each leaf, the axes on the way to it are then linked: by the name of their
//! variable, wildcards by their position.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{
    affine::{Affine, Link, Linked, Overflow, link},
    names::{Context, LEAF_WORK, Names, Noted, Resolved, Value, Variable as IndexVariable, twice},
};
use crate::{
    dataset::{Dataset, LeafId},
    fragment::{Part, Variable},
    index_box::IndexBox,
    progression::Progression,
    text::{
        diagnostic::{Code, Problem},
        parser::clip,
        source::Span,
        syntax::{Index, Pattern, PatternField, PatternPart, VariableDeclaration},
    },
    types::{Array, ByteOrder, Field, Layout, Placement, Primitive, Record, Type, strides},
};

/// A variable, laid out from byte 0 on.
pub struct Laid {
    pub variable: Variable,
    pub parts: Vec<Part>,
    pub size: u64,
    pub alignment: u64,
}

/// Lays out a variable of a view. `clipped`: elements beyond the rim of the object are holes.
pub fn lay<'a>(
    names: &mut Names<'a>,
    dataset: &Dataset,
    declaration: &'a VariableDeclaration,
    layout: Layout,
    clipped: bool,
) -> Resolved<Laid> {
    let name = names.text(declaration.object);
    let Some((position, object)) = dataset.object(name) else {
        if names.lost.contains(name) {
            return Err(Noted);
        }
        let problem = Problem::new(Code::Unknown, declaration.object, format!("no object is named `{}`", clip(name)));
        let known = dataset.objects().iter().map(|object| &*object.name).chain(names.lost.iter().copied());
        let problem = problem.suggest(name, known);
        return names.fail(problem);
    };
    let first = dataset.leaves_of(position).next().map_or(0, |(leaf, _)| leaf.0);
    let mut lefts = Lefts::default();
    lefts.read(names, &declaration.left)?;
    let mut right = Right { names, known: &lefts.known, groups: 0, behind: declaration.object };
    let chosen = right.choose(&object.kind, first, &declaration.right.parts, None)?;
    let mut builder = Builder {
        names,
        name: declaration.name,
        object: name,
        clipped,
        lefts: lefts.axes.into_iter(),
        axes: Vec::new(),
        leaves: Vec::new(),
        right: Vec::new(),
        left: Vec::new(),
    };
    let mut local = builder.build(&declaration.left.parts, None, &chosen, declaration.left.span)?;
    let (mut axes, leaves) = builder.measured()?;
    let Some((kind, size, alignment)) = local.measure(&mut axes, layout) else {
        let problem = Problem::new(Code::Arithmetic, declaration.name, "this variable is larger than 2^63 - 1 bytes");
        return names.fail(problem);
    };
    let mut parts = Vec::with_capacity(leaves.len());
    local.parts(0, &axes, &leaves, layout.byte_order, &mut parts).ok_or(Noted)?;
    let name = names.text(declaration.name);
    Ok(Laid { variable: Variable { name: name.into(), offset_bytes: 0, kind, layout }, parts, size, alignment })
}

/// An axis that is chosen from: one of the object's.
#[derive(Debug, Clone)]
struct RightAxis<'a> {
    index: RightIndex<'a>,
    extent: u64,
    span: Span,
    /// Which pair of brackets it is in.
    group: u32,
}

#[derive(Debug, Clone, Copy)]
enum RightIndex<'a> {
    Wild,
    Constant(u64),
    /// A constant that the object does not have, in a view that is clipped.
    Outside(i64),
    Affine(Affine, IndexVariable<'a>),
}

/// What is chosen from an object.
#[derive(Debug)]
enum Chosen<'a> {
    Array(Vec<RightAxis<'a>>, Box<Self>),
    Record(Option<Arc<str>>, Vec<(Arc<str>, Self)>),
    Leaf(LeafId, Primitive),
}

/// Reads the right side.
struct Right<'n, 'a> {
    names: &'n mut Names<'a>,
    /// Variables of the left side.
    known: &'n [&'a str],
    groups: u32,
    /// Where the part at hand follows.
    behind: Span,
}

impl<'a> Right<'_, 'a> {
    fn choose(
        &mut self,
        kind: &Type,
        leaf: u32,
        pattern: &'a [PatternPart],
        expected: Option<(&Type, Span)>,
    ) -> Resolved<Chosen<'a>> {
        let Some((part, rest)) = pattern.split_first() else {
            if let Some((expected, span)) = expected {
                return self.narrow(kind, leaf, expected, span);
            }
            return self.whole(kind, leaf);
        };
        match (part, kind) {
            (PatternPart::Indices(indices), Type::Array(array)) if indices.len() == array.extents.len() => {
                self.groups += 1;
                let group = self.groups;
                let mut axes = Vec::with_capacity(indices.len());
                let mut failed = false;
                for (index, extent) in indices.iter().zip(&array.extents) {
                    match self.index(index, *extent) {
                        Ok(index_kind) => {
                            axes.push(RightAxis { index: index_kind, extent: *extent, span: index.span, group });
                        }
                        Err(Noted) => failed = true,
                    }
                }
                let element = self.choose(&array.element, leaf, rest, expected)?;
                if failed { Err(Noted) } else { Ok(Chosen::Array(axes, Box::new(element))) }
            }
            (PatternPart::Indices(indices), _) => {
                let first = indices.first().map_or(self.behind, |index| index.span);
                let span = indices.last().map_or(first, |last| first.to(last.span));
                let written = indices.len();
                let problem = match kind {
                    Type::Array(array) => {
                        let message = format!(
                            "{} here, where {kind} has {}",
                            count(written, "index", "indices"),
                            array.extents.len()
                        );
                        let help = match array.element {
                            Type::Array(_) => "write one pair of brackets for each of the type",
                            _ => "write one for each axis; an empty one stands for all",
                        };
                        Problem::new(Code::Mismatch, span, message).help(help)
                    }
                    _ => Problem::new(Code::Mismatch, span, format!("{kind} is no array and has no index")),
                };
                self.names.fail(problem)
            }
            (PatternPart::Type(span), _) => {
                let expected = self.names.type_named(self.names.text(*span), *span)?;
                self.narrow(kind, leaf, &expected, *span)
            }
            // Fields of all elements, where no brackets say which.
            (_, Type::Array(array)) => {
                let axes = self.wild(array);
                let element = self.choose(&array.element, leaf, pattern, expected)?;
                Ok(Chosen::Array(axes, Box::new(element)))
            }
            (PatternPart::Field(span), Type::Record(record)) => {
                let (field, leaf) = self.field(record, leaf, *span)?;
                self.behind = *span;
                self.choose(&field.kind, leaf, rest, expected)
            }
            (PatternPart::Fields { fields, span }, Type::Record(record)) => {
                let named = match rest.first() {
                    Some(PatternPart::Type(span)) => {
                        Some((self.names.type_named(self.names.text(*span), *span)?, *span))
                    }
                    _ => None,
                };
                let expected = named.as_ref().map(|(kind, span)| (kind, *span)).or(expected);
                let mut chosen: Vec<(Arc<str>, Chosen<'a>)> = Vec::new();
                each_field(self.names, fields, *span, expected, |names, field_span, pattern, expected| {
                    let mut right = Right { names, known: self.known, groups: self.groups, behind: field_span };
                    let (field, leaf) = right.field(record, leaf, field_span)?;
                    let node = right.choose(&field.kind, leaf, &pattern.parts, expected)?;
                    self.groups = right.groups;
                    chosen.push((field.name.clone(), node));
                    Ok(())
                })?;
                let name = expected.and_then(|(kind, _)| record_name(kind));
                Ok(Chosen::Record(name, chosen))
            }
            (PatternPart::Field(span) | PatternPart::Fields { span, .. }, _) => {
                let problem = Problem::new(Code::Mismatch, *span, format!("{kind} is no record and has no fields"));
                self.names.fail(problem)
            }
        }
    }

    fn field<'r>(&mut self, record: &'r Record, leaf: u32, span: Span) -> Resolved<(&'r Field, u32)> {
        let name = self.names.text(span);
        let Some((position, field)) = record.field(name) else {
            let what = record.name.as_deref().unwrap_or("this record");
            let message = format!("`{}` is no field of {what}", clip(name));
            let known = record.fields.iter().map(|field| &*field.name);
            let problem = Problem::new(Code::Unknown, span, message).suggest(name, known.clone());
            let problem = match problem.help {
                Some(_) => problem,
                None => problem.help(format!("it has {}", listed(known))),
            };
            return self.names.fail(problem);
        };
        let before: u32 = record.fields[..position].iter().map(|field| field.kind.leaves()).sum();
        self.names.work(before.into(), span)?;
        Ok((field, leaf + before))
    }

    fn wild(&mut self, array: &Array) -> Vec<RightAxis<'a>> {
        self.groups += 1;
        let (group, span) = (self.groups, self.behind);
        let extents = array.extents.iter();
        extents.map(|extent| RightAxis { index: RightIndex::Wild, extent: *extent, span, group }).collect()
    }

    fn whole(&mut self, kind: &Type, leaf: u32) -> Resolved<Chosen<'a>> {
        match kind {
            Type::Primitive(primitive) => {
                self.names.work(LEAF_WORK, self.behind)?;
                Ok(Chosen::Leaf(LeafId(leaf), *primitive))
            }
            Type::Array(array) => Ok(Chosen::Array(self.wild(array), Box::new(self.whole(&array.element, leaf)?))),
            Type::Record(record) => {
                let mut next = leaf;
                let mut fields = Vec::with_capacity(record.fields.len());
                for field in &record.fields {
                    fields.push((field.name.clone(), self.whole(&field.kind, next)?));
                    next += field.kind.leaves();
                }
                Ok(Chosen::Record(record.name.clone(), fields))
            }
        }
    }

    /// What a type names of another: the same primitives and extents, and of records its fields.
    fn narrow(&mut self, kind: &Type, leaf: u32, to: &Type, span: Span) -> Resolved<Chosen<'a>> {
        match (kind, to) {
            (Type::Primitive(one), Type::Primitive(other)) if one == other => {
                self.names.work(LEAF_WORK, span)?;
                Ok(Chosen::Leaf(LeafId(leaf), *one))
            }
            (Type::Array(one), Type::Array(other)) if one.extents == other.extents => {
                let element = self.narrow(&one.element, leaf, &other.element, span)?;
                Ok(Chosen::Array(self.wild(one), Box::new(element)))
            }
            (Type::Record(one), Type::Record(other)) => {
                let mut fields = Vec::with_capacity(other.fields.len());
                for wanted in &other.fields {
                    let Some((position, field)) = one.field(&wanted.name) else {
                        let problem = missing_field(to, &wanted.name, kind, span);
                        return self.names.fail(problem);
                    };
                    let before: u32 = one.fields[..position].iter().map(|field| field.kind.leaves()).sum();
                    self.names.work(before.into(), span)?;
                    fields.push((field.name.clone(), self.narrow(&field.kind, leaf + before, &wanted.kind, span)?));
                }
                Ok(Chosen::Record(other.name.clone(), fields))
            }
            _ => {
                let problem = Problem::new(Code::Mismatch, span, format!("{to} is not {kind}, which the object holds"));
                self.names.fail(problem.help("values are moved, never converted: write the object's type, or none"))
            }
        }
    }

    fn index(&mut self, index: &'a Index, extent: u64) -> Resolved<RightIndex<'a>> {
        let Some(expression) = &index.expression else { return Ok(RightIndex::Wild) };
        match self.names.evaluate(expression, Context::Index(self.known))? {
            Value::Constant(constant) => match u64::try_from(constant) {
                Ok(index) if index < extent => Ok(RightIndex::Constant(index)),
                _ => Ok(RightIndex::Outside(constant)),
            },
            Value::Affine(affine, variable) => Ok(RightIndex::Affine(affine, variable)),
        }
    }
}

/// Goes through the fields in braces: refuses names that stand there twice and, where a type follows, those that it does
/// not have and leaves out none that it has.
fn each_field<'a>(
    names: &mut Names<'a>,
    fields: &'a [PatternField],
    braces: Span,
    expected: Option<(&Type, Span)>,
    mut visit: impl FnMut(&mut Names<'a>, Span, &'a Pattern, Option<(&Type, Span)>) -> Resolved<()>,
) -> Resolved<()> {
    let record = match expected {
        Some((Type::Record(record), _)) => Some(record),
        Some((kind, span)) => {
            let problem = Problem::new(Code::Mismatch, span, format!("{kind} is no record"));
            return names.fail(problem.label(braces, "these are its fields"));
        }
        None => None,
    };
    let mut seen: Vec<(&str, Span)> = Vec::new();
    let mut failed = false;
    for field in fields {
        for span in &field.names {
            let name = names.text(*span);
            names.work(1 + seen.len() as u64 / 64, *span)?;
            if let Some((_, first)) = seen.iter().find(|(seen, _)| *seen == name) {
                names.problems.push(twice("fields", name, *span, *first));
                failed = true;
                continue;
            }
            seen.push((name, *span));
            let inner = match (record, expected) {
                (Some(record), Some((kind, kind_span))) => match record.field(name) {
                    // What the braces write behind a field says more than its type.
                    Some(_) if !field.pattern.parts.is_empty() => None,
                    Some((_, inner)) => Some((&inner.kind, kind_span)),
                    None => {
                        let message = format!("`{}` is no field of {kind}", clip(name));
                        let known = record.fields.iter().map(|field| &*field.name);
                        names.problems.push(Problem::new(Code::Unknown, *span, message).suggest(name, known));
                        failed = true;
                        continue;
                    }
                },
                _ => None,
            };
            failed |= visit(names, *span, &field.pattern, inner).is_err();
        }
    }
    if seen.is_empty() {
        return names.fail(Problem::new(Code::Empty, braces, "no field is chosen here"));
    }
    if let (Some(record), Some((kind, span)), false) = (record, expected, failed)
        && let Some(left_out) = record.fields.iter().find(|field| !seen.iter().any(|(name, _)| **name == *field.name))
    {
        let message = format!("{kind} has a field `{}`, which the braces leave out", left_out.name);
        return names.fail(Problem::new(Code::Mismatch, span, message).label(braces, "these are its fields"));
    }
    if failed { Err(Noted) } else { Ok(()) }
}

/// An axis of the variable.
#[derive(Debug, Clone)]
struct LeftAxis<'a> {
    index: LeftIndex<'a>,
    explicit: Option<u64>,
    span: Span,
    /// What it has to be, from what lies along it.
    extent: u64,
    stride: u64,
}

#[derive(Debug, Clone, Copy)]
enum LeftIndex<'a> {
    Wild,
    Constant(u64),
    Affine(Affine, IndexVariable<'a>),
}

/// Indices of the left side, in the order they are written in.
#[derive(Default)]
struct Lefts<'a> {
    axes: Vec<LeftAxis<'a>>,
    known: Vec<&'a str>,
}

impl<'a> Lefts<'a> {
    fn read(&mut self, names: &mut Names<'a>, pattern: &'a Pattern) -> Resolved<()> {
        let mut failed = false;
        for part in &pattern.parts {
            match part {
                PatternPart::Indices(indices) => {
                    for index in indices {
                        failed |= self.index(names, index).is_err();
                    }
                }
                PatternPart::Fields { fields, .. } => {
                    for field in fields {
                        // Each of several names has axes of its own.
                        for _ in &field.names {
                            failed |= self.read(names, &field.pattern).is_err();
                        }
                    }
                }
                PatternPart::Field(_) | PatternPart::Type(_) => {}
            }
        }
        if failed { Err(Noted) } else { Ok(()) }
    }

    fn index(&mut self, names: &mut Names<'a>, index: &'a Index) -> Resolved<()> {
        let explicit = index.extent.as_ref().map(|extent| names.extent(extent)).transpose();
        let value = index.expression.as_ref().map(|expression| names.evaluate(expression, Context::Index(&[])));
        let value = value.transpose()?;
        let explicit = explicit?;
        let place = match value {
            None => LeftIndex::Wild,
            Some(Value::Affine(affine, variable)) => {
                self.known.push(variable.name);
                LeftIndex::Affine(affine, variable)
            }
            Some(Value::Constant(constant)) => {
                let one_name = index.expression.as_ref().filter(|expression| {
                    let written = names.text(expression.span);
                    explicit.is_some()
                        && written.starts_with(|c: char| c.is_alphabetic() || c == '_')
                        && expression.steps.len() == 1
                });
                if let Some(expression) = one_name {
                    let name = names.text(expression.span);
                    let message = format!("`{}` is the number {constant} and no index variable", clip(name));
                    let problem = Problem::new(Code::Index, expression.span, message);
                    return names.fail(problem.help("give the variable another name"));
                }
                let place = u64::try_from(constant).ok().filter(|place| *place < explicit.unwrap_or(i64::MAX as u64));
                let Some(place) = place else {
                    let message = match explicit {
                        Some(extent) => format!("index {constant} of a variable of 0 to {}", extent - 1),
                        None => format!("index {constant} of a variable"),
                    };
                    let help = "this is the one place along the axis that is filled; places are counted from 0";
                    return names.fail(Problem::new(Code::Range, index.span, message).help(help));
                };
                LeftIndex::Constant(place)
            }
        };
        let axis = LeftAxis { index: place, explicit, span: index.span, extent: 0, stride: 0 };
        self.axes.push(axis);
        Ok(())
    }
}

/// What lies in the view.
#[derive(Debug)]
enum Local {
    Array { axes: SmallVec<[usize; 4]>, element: Box<Self> },
    Record { name: Option<Arc<str>>, fields: Vec<(Arc<str>, Self)>, offsets: Vec<u64> },
    Leaf(usize, Primitive),
}

/// Elements of one leaf, and along which axes of the variable they lie.
#[derive(Debug)]
struct LocalLeaf {
    leaf: LeafId,
    /// For each axis of the leaf.
    links: SmallVec<[(Link, Option<usize>); 4]>,
    /// Axes of the variable that are constant.
    fixed: SmallVec<[(usize, u64); 2]>,
    /// All of it is a hole.
    empty: bool,
}

/// Reads the left side along what the right side has chosen.
struct Builder<'n, 'a, 'c> {
    names: &'n mut Names<'a>,
    name: Span,
    object: &'n str,
    clipped: bool,
    lefts: std::vec::IntoIter<LeftAxis<'a>>,
    axes: Vec<LeftAxis<'a>>,
    leaves: Vec<LocalLeaf>,
    /// Axes on the way to what is at hand, on both sides.
    right: Vec<&'c RightAxis<'a>>,
    left: Vec<usize>,
}

impl<'a, 'c> Builder<'_, 'a, 'c> {
    fn build(
        &mut self,
        pattern: &'a [PatternPart],
        expected: Option<(&Type, Span)>,
        chosen: &'c Chosen<'a>,
        behind: Span,
    ) -> Resolved<Local> {
        let before = self.right.len();
        let mut chosen = chosen;
        while let Chosen::Array(axes, element) = chosen {
            self.right.extend(axes);
            chosen = element;
        }
        let local = self.build_here(pattern, expected, chosen, behind);
        self.right.truncate(before);
        local
    }

    fn build_here(
        &mut self,
        pattern: &'a [PatternPart],
        expected: Option<(&Type, Span)>,
        chosen: &'c Chosen<'a>,
        behind: Span,
    ) -> Resolved<Local> {
        let Some((part, rest)) = pattern.split_first() else { return self.tail(expected, chosen, behind) };
        match part {
            PatternPart::Indices(indices) => {
                let start = self.left.len();
                let mut axes = SmallVec::new();
                for axis in self.lefts.by_ref().take(indices.len()) {
                    axes.push(self.axes.len());
                    self.left.push(self.axes.len());
                    self.axes.push(axis);
                }
                let element = self.build_here(rest, expected, chosen, behind);
                self.left.truncate(start);
                Ok(Local::Array { axes, element: Box::new(element?) })
            }
            PatternPart::Type(span) => {
                let kind = self.names.type_named(self.names.text(*span), *span)?;
                self.tail(Some((&kind, *span)), chosen, *span)
            }
            PatternPart::Fields { fields, span } => {
                let Chosen::Record(_, from) = chosen else {
                    let Chosen::Leaf(_, primitive) = chosen else { return Err(Noted) };
                    let message = format!("{primitive} is no record and has no fields");
                    return self.names.fail(Problem::new(Code::Mismatch, *span, message));
                };
                let named = match rest.first() {
                    Some(PatternPart::Type(span)) => {
                        Some((self.names.type_named(self.names.text(*span), *span)?, *span))
                    }
                    _ => None,
                };
                let expected = named.as_ref().map(|(kind, span)| (kind, *span)).or(expected);
                // Those of the type are compared before anything is built.
                each_field(self.names, fields, *span, expected, |_, _, _, _| Ok(()))?;
                let mut built = Vec::new();
                let mut failed = false;
                for field in fields {
                    for name_span in &field.names {
                        let name = self.names.text(*name_span);
                        let Some((name, node)) = from.iter().find(|(known, _)| **known == *name) else {
                            let known = from.iter().map(|(known, _)| &**known);
                            let message = format!("`{}` is no field of what the right side chooses", clip(name));
                            let problem = Problem::new(Code::Unknown, *name_span, message).suggest(name, known.clone());
                            self.names.problems.push(match problem.help {
                                Some(_) => problem,
                                None => problem.help(format!("it has {}", listed(known))),
                            });
                            // Its axes are not those of the next field.
                            skip_axes(&field.pattern, &mut self.lefts);
                            failed = true;
                            continue;
                        };
                        let inner = expected.and_then(|(kind, span)| match kind {
                            Type::Record(record) if field.pattern.parts.is_empty() => {
                                record.field(name).map(|(_, field)| (&field.kind, span))
                            }
                            _ => None,
                        });
                        match self.build(&field.pattern.parts, inner, node, *name_span) {
                            Ok(local) => built.push((name.clone(), local)),
                            // The axes of what failed are not known to be used up.
                            Err(Noted) => return Err(Noted),
                        }
                    }
                }
                if failed {
                    return Err(Noted);
                }
                let name = expected.and_then(|(kind, _)| record_name(kind));
                Ok(Local::Record { name, fields: built, offsets: Vec::new() })
            }
            PatternPart::Field(span) => {
                self.names.fail(Problem::new(Code::Syntax, *span, "fields are chosen on the right"))
            }
        }
    }

    /// What the left side does not write: whatever is left of the right side, in its order.
    fn tail(&mut self, expected: Option<(&Type, Span)>, chosen: &'c Chosen<'a>, behind: Span) -> Resolved<Local> {
        let unplaced = self.unplaced();
        let expected = match expected {
            Some((kind, span)) => Some((self.peel(kind, &unplaced, span)?, span)),
            None => None,
        };
        let start = self.left.len();
        let mut groups: SmallVec<[SmallVec<[usize; 4]>; 2]> = SmallVec::new();
        let mut last = None;
        for axis in unplaced {
            if last != Some(axis.group) {
                groups.push(SmallVec::new());
                last = Some(axis.group);
            }
            if let Some(group) = groups.last_mut() {
                group.push(self.axes.len());
            }
            self.left.push(self.axes.len());
            let span = axis.span;
            self.axes.push(LeftAxis { index: LeftIndex::Wild, explicit: None, span, extent: 0, stride: 0 });
        }
        let element = self.content(expected, chosen, behind);
        self.left.truncate(start);
        let wrap = |element, axes| Local::Array { axes, element: Box::new(element) };
        Ok(groups.into_iter().rev().fold(element?, wrap))
    }

    /// A record or leaf of which all axes have a place.
    fn content(&mut self, expected: Option<(&Type, Span)>, chosen: &'c Chosen<'a>, behind: Span) -> Resolved<Local> {
        match (chosen, expected) {
            (Chosen::Leaf(_, primitive), Some((Type::Primitive(other), _))) if primitive == other => {
                self.leaf(chosen, behind)
            }
            (Chosen::Leaf(..), None) => self.leaf(chosen, behind),
            (Chosen::Record(name, fields), None) => {
                let mut built = Vec::with_capacity(fields.len());
                for (name, node) in fields {
                    built.push((name.clone(), self.build(&[], None, node, behind)?));
                }
                Ok(Local::Record { name: name.clone(), fields: built, offsets: Vec::new() })
            }
            (Chosen::Record(..), Some((kind @ Type::Record(record), span))) => {
                let Chosen::Record(_, fields) = chosen else { return Err(Noted) };
                let mut built = Vec::with_capacity(record.fields.len());
                for wanted in &record.fields {
                    let Some((name, node)) = fields.iter().find(|(name, _)| *name == wanted.name) else {
                        let problem = missing_field(kind, &wanted.name, &describe(chosen), span);
                        return self.names.fail(problem);
                    };
                    built.push((name.clone(), self.build(&[], Some((&wanted.kind, span)), node, behind)?));
                }
                Ok(Local::Record { name: record.name.clone(), fields: built, offsets: Vec::new() })
            }
            (_, Some((kind, span))) => {
                let message = format!("{kind} is not {}, which the object holds", describe(chosen));
                let problem = Problem::new(Code::Mismatch, span, message);
                self.names.fail(problem.help("values are moved, never converted: write the object's type, or none"))
            }
            (Chosen::Array(..), None) => Err(Noted),
        }
    }

    /// Whole axes of the right side that the left side has not named on the way to here, but implies. A variable it has to
    /// name: one that is forgotten among the numbers would else stand for a whole axis.
    fn unplaced(&self) -> SmallVec<[&'c RightAxis<'a>; 4]> {
        let mut placed = self.left.iter().filter(|axis| matches!(self.axes[**axis].index, LeftIndex::Wild)).count();
        let mut unplaced = SmallVec::new();
        for axis in &self.right {
            match axis.index {
                RightIndex::Wild if placed > 0 => placed -= 1,
                RightIndex::Wild => unplaced.push(*axis),
                _ => {}
            }
        }
        unplaced
    }

    /// What is left of a type that begins with these axes.
    fn peel<'t>(&mut self, kind: &'t Type, axes: &[&RightAxis<'a>], span: Span) -> Resolved<&'t Type> {
        let mut inner = kind;
        let mut extents = axes.iter();
        while extents.len() > 0 {
            let Type::Array(array) = inner else { break };
            for extent in &array.extents {
                match extents.next() {
                    Some(axis) if axis.extent == *extent => {}
                    _ => return self.other_shape(kind, axes, span),
                }
            }
            inner = &array.element;
        }
        if extents.len() > 0 { self.other_shape(kind, axes, span) } else { Ok(inner) }
    }

    fn other_shape<T>(&mut self, kind: &Type, axes: &[&RightAxis<'a>], span: Span) -> Resolved<T> {
        let extents: Vec<String> = axes.iter().map(|axis| axis.extent.to_string()).collect();
        let message = format!("{kind} is not of shape [{}], which the object has here", extents.join(","));
        self.names.fail(Problem::new(Code::Mismatch, span, message).help("write the object's type, or none"))
    }

    fn left_of(&self, name: &str) -> Option<usize> {
        let matches = |axis: &&usize| match self.axes[**axis].index {
            LeftIndex::Affine(_, variable) => variable.name == name,
            _ => false,
        };
        self.left.iter().find(matches).copied()
    }

    /// Links the axes on both sides of a leaf.
    fn leaf(&mut self, chosen: &Chosen<'a>, behind: Span) -> Resolved<Local> {
        let Chosen::Leaf(leaf, primitive) = chosen else { return Err(Noted) };
        self.check_variables(behind)?;
        let mut local = LocalLeaf { leaf: *leaf, links: SmallVec::new(), fixed: SmallVec::new(), empty: false };
        for axis in &self.left {
            if let LeftIndex::Constant(place) = self.axes[*axis].index {
                local.fixed.push((*axis, place));
                self.axes[*axis].extent = place + 1;
            }
        }
        let wild: SmallVec<[usize; 4]> =
            self.left.iter().copied().filter(|axis| matches!(self.axes[*axis].index, LeftIndex::Wild)).collect();
        let mut wild = wild.into_iter();
        for position in 0..self.right.len() {
            let axis = self.right[position];
            let (right, place) = match axis.index {
                RightIndex::Constant(index) => {
                    let elements = Progression::new(index, 1, 1).ok_or(Noted)?;
                    local.links.push((Link { elements, place: 0, step: 0 }, None));
                    continue;
                }
                RightIndex::Outside(_) if self.clipped => {
                    local.empty = true;
                    continue;
                }
                RightIndex::Outside(index) => return self.outside(index.into(), index.into(), axis),
                RightIndex::Wild => (Affine::VARIABLE, wild.next()),
                RightIndex::Affine(affine, variable) => (affine, self.left_of(variable.name)),
            };
            let place = place.ok_or(Noted)?;
            let left = match self.axes[place].index {
                LeftIndex::Affine(affine, _) => affine,
                _ => Affine::VARIABLE,
            };
            let explicit = self.axes[place].explicit;
            match link(&left, explicit, &right, axis.extent, self.clipped) {
                Ok(Linked::Some(link)) => {
                    let place_axis = &mut self.axes[place];
                    place_axis.extent = place_axis.extent.max(link.last() + 1);
                    local.links.push((link, Some(place)));
                }
                Ok(Linked::Empty) if explicit.is_some() && self.clipped => local.empty = true,
                Ok(Linked::Empty) => {
                    let message = format!("no element of `{}` has this index", clip(self.object));
                    let help = format!("the indices of this axis are 0 to {}", axis.extent - 1);
                    return self.names.fail(Problem::new(Code::Empty, axis.span, message).help(help));
                }
                Ok(Linked::Outside(low, high)) => return self.outside(low, high, axis),
                Err(Overflow) => return self.names.overflow(axis.span),
            }
        }
        self.leaves.push(local);
        Ok(Local::Leaf(self.leaves.len() - 1, *primitive))
    }

    fn outside<T>(&mut self, low: i128, high: i128, axis: &RightAxis<'a>) -> Resolved<T> {
        let reached = if low == high { format!("index {low}") } else { format!("indices {low} to {high}") };
        let message = format!("{reached} of an axis of 0 to {}", axis.extent - 1);
        let help = "shift or shorten it; in a view that says `clipped`, what lies outside is a hole";
        self.names.fail(Problem::new(Code::Range, axis.span, message).help(help))
    }

    /// Each variable stands once on each side, and there are as many wildcards.
    fn check_variables(&mut self, behind: Span) -> Resolved<()> {
        let mut problem = None;
        let mut note = |found: Problem| problem = problem.take().or(Some(found));
        let lefts = self.left.iter().map(|axis| &self.axes[*axis]);
        let left: SmallVec<[IndexVariable<'a>; 4]> = lefts
            .clone()
            .filter_map(|axis| match axis.index {
                LeftIndex::Affine(_, variable) => Some(variable),
                _ => None,
            })
            .collect();
        let right: SmallVec<[IndexVariable<'a>; 4]> = self
            .right
            .iter()
            .filter_map(|axis| match axis.index {
                RightIndex::Affine(_, variable) => Some(variable),
                _ => None,
            })
            .collect();
        for side in [&left, &right] {
            for (position, variable) in side.iter().enumerate() {
                if let Some(first) = side[..position].iter().find(|first| first.name == variable.name) {
                    let message = format!("`{}` stands twice on one side", clip(variable.name));
                    let help = "diagonals are not described; write a variable for each axis";
                    note(Problem::new(Code::Index, variable.span, message).label(first.span, "the first").help(help));
                }
            }
        }
        let lonely = |one: &[IndexVariable<'a>], other: &[IndexVariable<'a>]| {
            one.iter().find(|variable| !other.iter().any(|partner| partner.name == variable.name)).copied()
        };
        if let Some(variable) = lonely(&right, &left) {
            let message = format!("`{}` stands on the right side only", clip(variable.name));
            let found = self.names.suggest_number(Problem::new(Code::Index, variable.span, message), variable.name);
            let likely = found.help.as_ref().is_some_and(|help| help.starts_with("did you mean"));
            let name = clip(variable.name);
            note(if likely {
                found
            } else {
                found
                    .help(format!("write `{name}` on the left, too; or pass a number for `{name}` to choose one index"))
            });
        }
        if let Some(variable) = lonely(&left, &right) {
            let message = format!("`{}` stands on the left side only", clip(variable.name));
            let found = Problem::new(Code::Index, variable.span, message);
            let free = right.iter().map(|variable| variable.name);
            let found = found.suggest(variable.name, free);
            note(match found.help {
                Some(_) => found,
                None => found.help("write on the right which element it stands for"),
            });
        }
        let wild_left = lefts.filter(|axis| matches!(axis.index, LeftIndex::Wild));
        let wild_right = self.right.iter().filter(|axis| matches!(axis.index, RightIndex::Wild)).count();
        if let Some(axis) = wild_left.clone().nth(wild_right) {
            let message = format!(
                "{} on the left, where the right has {wild_right}",
                count(wild_left.count(), "empty index", "empty indices"),
            );
            let help = "an empty index stands for a whole axis, and is linked with that of the same position";
            note(Problem::new(Code::Index, axis.span, message).label(behind, "here").help(help));
        }
        match problem {
            Some(problem) => self.names.fail(problem),
            None => Ok(()),
        }
    }

    /// The axes, each with its extent.
    fn measured(mut self) -> Resolved<(Vec<LeftAxis<'a>>, Vec<LocalLeaf>)> {
        for position in 0..self.axes.len() {
            let axis = &mut self.axes[position];
            axis.extent = axis.explicit.unwrap_or(axis.extent);
            if axis.extent == 0 {
                let message = format!("no element of `{}` lies along this axis", clip(self.object));
                return self.names.fail(Problem::new(Code::Empty, axis.span, message).label(self.name, "of this"));
            }
        }
        Ok((self.axes, self.leaves))
    }
}

impl Local {
    /// The type, size and alignment; notes strides and offsets down. `None` where they do not fit an `i64`.
    fn measure(&mut self, axes: &mut [LeftAxis<'_>], layout: Layout) -> Option<(Type, u64, u64)> {
        match self {
            Self::Array { axes: own, element } => {
                let (kind, size, alignment) = element.measure(axes, layout)?;
                let extents: Vec<u64> = own.iter().map(|axis| axes[*axis].extent).collect();
                let strides = strides(layout.order, extents.iter().copied(), size)?;
                for (axis, stride) in own.iter().zip(strides) {
                    axes[*axis].stride = stride;
                }
                let size = extents.iter().try_fold(size, |size, extent| size.checked_mul(*extent))?;
                (size <= i64::MAX as u64).then_some((Type::array(extents, kind), size, alignment))
            }
            Self::Record { name, fields, offsets } => {
                let mut place = Placement::new(layout.packing);
                let mut kinds = Vec::with_capacity(fields.len());
                for (name, field) in fields {
                    let (kind, size, alignment) = field.measure(axes, layout)?;
                    offsets.push(place.add(size, alignment)?);
                    kinds.push(Field { name: name.clone(), kind });
                }
                let kind = Type::Record(Arc::new(Record { name: name.clone(), fields: kinds }));
                Some((kind, place.size_bytes()?, place.alignment_bytes()))
            }
            Self::Leaf(_, primitive) => {
                let alignment = layout.alignment_bytes(&Type::Primitive(*primitive));
                Some((Type::Primitive(*primitive), primitive.size_bytes(), alignment))
            }
        }
    }

    /// Where the elements of all leaves lie.
    fn parts(
        &self,
        offset: u64,
        axes: &[LeftAxis<'_>],
        leaves: &[LocalLeaf],
        byte_order: ByteOrder,
        parts: &mut Vec<Part>,
    ) -> Option<()> {
        match self {
            Self::Array { element, .. } => element.parts(offset, axes, leaves, byte_order, parts),
            Self::Record { fields, offsets, .. } => {
                for ((_, field), inside) in fields.iter().zip(offsets) {
                    field.parts(offset.checked_add(*inside)?, axes, leaves, byte_order, parts)?;
                }
                Some(())
            }
            Self::Leaf(position, _) => {
                let leaf = leaves.get(*position)?;
                if leaf.empty {
                    return Some(());
                }
                let mut offset_bytes = offset;
                for (axis, place) in &leaf.fixed {
                    offset_bytes = offset_bytes.checked_add(axes[*axis].stride.checked_mul(*place)?)?;
                }
                let mut strides_bytes = SmallVec::with_capacity(leaf.links.len());
                for (link, axis) in &leaf.links {
                    let stride = axis.map_or(0, |axis| axes[axis].stride);
                    offset_bytes = offset_bytes.checked_add(stride.checked_mul(link.place)?)?;
                    let alone = link.elements.count() == 1;
                    strides_bytes.push(if alone { 0 } else { i64::try_from(stride).ok()?.checked_mul(link.step)? });
                }
                let elements = IndexBox::new(leaf.links.iter().map(|(link, _)| link.elements))?;
                parts.push(Part { leaf: leaf.leaf, elements, offset_bytes, strides_bytes, byte_order });
                Some(())
            }
        }
    }
}

fn skip_axes(pattern: &Pattern, axes: &mut impl Iterator) {
    for part in &pattern.parts {
        match part {
            PatternPart::Indices(indices) => indices.iter().for_each(|_| drop(axes.next())),
            PatternPart::Fields { fields, .. } => {
                for field in fields {
                    field.names.iter().for_each(|_| skip_axes(&field.pattern, axes));
                }
            }
            PatternPart::Field(_) | PatternPart::Type(_) => {}
        }
    }
}

fn record_name(kind: &Type) -> Option<Arc<str>> {
    match kind {
        Type::Record(record) => record.name.clone(),
        _ => None,
    }
}

fn missing_field(wanted: &Type, field: &str, from: &dyn std::fmt::Display, span: Span) -> Problem {
    Problem::new(Code::Mismatch, span, format!("{wanted} has a field `{field}`, which {from} has not"))
}

fn describe(chosen: &Chosen<'_>) -> String {
    match chosen {
        Chosen::Leaf(_, primitive) => primitive.to_string(),
        Chosen::Record(Some(name), _) => name.to_string(),
        Chosen::Record(None, _) => "the record".into(),
        Chosen::Array(..) => "the array".into(),
    }
}

fn listed<'s>(names: impl Iterator<Item = &'s str>) -> String {
    let mut names: Vec<&str> = names.take(9).collect();
    let more = names.len() == 9;
    names.truncate(8);
    format!("{}{}", names.join(", "), if more { ", …" } else { "" })
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
