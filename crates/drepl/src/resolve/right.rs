//! The right side of a variable: what it chooses from an object.

use std::{collections::HashMap, sync::Arc};

use super::{
    affine::Affine,
    fields::{count, each_field, listed, missing_field, record_name},
    left::LeftNumber,
    names::{Context, LEAF_WORK, Listed, Names, Noted, Resolved, SUGGESTION_WORK, Value, Variable},
};
use crate::{
    conversion::is_convertible,
    dataset::LeafId,
    text::{
        diagnostic::{Code, Problem, clip},
        source::Span,
        syntax::{Expression, Index, PatternPart},
    },
    types::{Array, Field, Primitive, Record, Type},
};

/// An axis that is chosen from: one of the object's.
#[derive(Debug, Clone)]
pub struct RightAxis<'a> {
    pub index: RightIndex<'a>,
    pub extent: u64,
    pub span: Span,
    /// Which pair of brackets it is in.
    pub group: u32,
}

#[derive(Debug, Clone, Copy)]
pub enum RightIndex<'a> {
    Wild,
    Constant(u64),
    /// A constant that the object does not have, in a view that is clipped.
    Outside(i64),
    Affine(Affine, Variable<'a>),
    /// The function's value, less the largest multiple of the number that is no larger.
    Wrapped(Affine, u64, Variable<'a>),
    Listed(Listed, Variable<'a>),
}

impl<'a> RightIndex<'a> {
    /// The index variable, if there is one.
    pub fn variable(&self) -> Option<Variable<'a>> {
        match self {
            Self::Affine(_, variable) | Self::Wrapped(_, _, variable) | Self::Listed(_, variable) => Some(*variable),
            _ => None,
        }
    }
}

/// What is chosen from an object.
#[derive(Debug)]
pub enum Chosen<'a> {
    Array(Vec<RightAxis<'a>>, Box<Self>),
    Record(Option<Arc<str>>, Vec<(Arc<str>, Self)>),
    Leaf(LeafId, Primitive),
}

/// Reads the right side.
pub struct Right<'n, 'a> {
    pub names: &'n mut Names<'a>,
    /// Variables of the left side.
    pub known: &'n [&'a str],
    /// Names in indices there that are numbers.
    pub numbers: &'n [LeftNumber<'a>],
    pub groups: u32,
    /// How many axes lie before the part at hand.
    pub axis: usize,
    /// Where the part at hand follows.
    pub behind: Span,
}

impl<'a> Right<'_, 'a> {
    /// What a pattern chooses from a type, whose first leaf is `leaf`.
    pub fn choose(
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
                    self.axis += 1;
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
                    let mut right = Right {
                        names,
                        known: self.known,
                        numbers: self.numbers,
                        groups: self.groups,
                        axis: self.axis,
                        behind: field_span,
                    };
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
            self.names.work(SUGGESTION_WORK, span)?;
            let what = record.name().map_or("this record", |name| name);
            let message = format!("`{}` is no field of {what}", clip(name));
            let known = record.fields().iter().map(|field| &*field.name);
            let problem = Problem::new(Code::Unknown, span, message).suggest(name, known.clone());
            let problem = match problem.help {
                Some(_) => problem,
                None => problem.help(format!("it has {}", listed(known))),
            };
            return self.names.fail(problem);
        };
        Ok((field, leaf + record.leaves_before(position)))
    }

    fn wild(&mut self, array: &Array) -> Vec<RightAxis<'a>> {
        self.groups += 1;
        let (group, span) = (self.groups, self.behind);
        let extents = array.extents.iter();
        self.axis += extents.len();
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
                let mut fields = Vec::with_capacity(record.fields().len());
                for (position, field) in record.fields().iter().enumerate() {
                    fields.push((field.name.clone(), self.whole(&field.kind, leaf + record.leaves_before(position))?));
                }
                Ok(Chosen::Record(record.name().cloned(), fields))
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
                let mut fields = Vec::with_capacity(other.fields().len());
                for wanted in other.fields() {
                    let Some((position, field)) = one.field(&wanted.name) else {
                        let problem = missing_field(to, &wanted.name, kind, span);
                        return self.names.fail(problem);
                    };
                    let leaf = leaf + one.leaves_before(position);
                    fields.push((field.name.clone(), self.narrow(&field.kind, leaf, &wanted.kind, span)?));
                }
                Ok(Chosen::Record(other.name().cloned(), fields))
            }
            _ => {
                let problem = Problem::new(Code::Mismatch, span, format!("{to} is not {kind}, which the object holds"));
                self.names.fail(problem.help(match (kind, to) {
                    (Type::Primitive(one), Type::Primitive(other)) if is_convertible(*one, *other) => {
                        "numbers are converted on the left: write the type there"
                    }
                    _ => "write the object's type, or none",
                }))
            }
        }
    }

    fn index(&mut self, index: &'a Index, extent: u64) -> Resolved<RightIndex<'a>> {
        let Some(expression) = &index.expression else { return Ok(RightIndex::Wild) };
        match self.names.evaluate(expression, Context::Index(self.known))? {
            Value::Constant(constant) => {
                if let Some(name) = self.captured(expression) {
                    // An index variable was meant, which a binding of that name has made a number.
                    let number = self.names.named_number(name).unwrap_or(constant);
                    let origin = self.names.origin(name);
                    let name = clip(name);
                    let message = format!("`{name}` is the number {number} on both sides, and no index variable");
                    let problem = Problem::new(Code::Index, expression.span, message);
                    let help = format!(
                        "{origin}: give the variable another name; for the number write `{name}+0` where it stands alone"
                    );
                    return self.names.fail(problem.help(help));
                }
                match u64::try_from(constant) {
                    Ok(index) if index < extent => Ok(RightIndex::Constant(index)),
                    _ => Ok(RightIndex::Outside(constant)),
                }
            }
            Value::Affine(affine, variable) => Ok(RightIndex::Affine(affine, variable)),
            Value::Wrapped(affine, modulus, variable) => Ok(RightIndex::Wrapped(affine, modulus, variable)),
            Value::Listed(listed, variable) => Ok(RightIndex::Listed(listed, variable)),
        }
    }
}

impl<'a> Right<'_, 'a> {
    /// The name of a constant index that links it with one of the left side, as nothing but an index variable does: where it stands
    /// alone on both sides, and, if somebody bound it, where it stands alone on one side and is a part of the same axis on the other. A
    /// number that is a part of both, as of `[N-1] = line[N-1]`, may be meant, and what a text calls a constant is one.
    fn captured(&self, expression: &'a Expression) -> Option<&'a str> {
        let is_lone = self.names.lone_name(expression).is_some();
        let links = |name: &&str| {
            let is_bound = self.names.is_bound(name);
            self.numbers.iter().filter(|left| left.name == *name).any(|left| match (is_lone, left.is_lone) {
                (true, true) => true,
                (false, false) => false,
                _ => is_bound && left.axis == self.axis,
            })
        };
        self.names.names_in(expression).find(links)
    }
}

/// The fields of a record, by their names.
pub fn by_name<'c, 'a>(fields: &'c [(Arc<str>, Chosen<'a>)]) -> HashMap<&'c str, &'c Chosen<'a>> {
    fields.iter().map(|(name, chosen)| (&**name, chosen)).collect()
}

/// What is chosen, in a word.
pub fn describe(chosen: &Chosen<'_>) -> String {
    match chosen {
        Chosen::Leaf(_, primitive) => primitive.to_string(),
        Chosen::Record(Some(name), _) => name.to_string(),
        Chosen::Record(None, _) => "the record".into(),
        Chosen::Array(..) => "the array".into(),
    }
}
