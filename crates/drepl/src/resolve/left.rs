//! The left side of a variable: the axes that it names.

use super::{
    affine::Affine,
    names::{Context, Names, Noted, Resolved, Value, Variable},
};
use crate::text::{
    diagnostic::{Code, Problem, clip},
    source::Span,
    syntax::{Index, Pattern, PatternPart},
};

/// An axis of the variable.
#[derive(Debug, Clone)]
pub struct LeftAxis<'a> {
    pub index: LeftIndex<'a>,
    pub explicit: Option<u64>,
    pub span: Span,
    /// What it has to be, from what lies along it.
    pub extent: u64,
    pub stride: u64,
}

#[derive(Debug, Clone, Copy)]
pub enum LeftIndex<'a> {
    Wild,
    Constant(u64),
    Affine(Affine, Variable<'a>),
}

/// Indices of the left side, in the order they are written in.
#[derive(Default)]
pub struct Lefts<'a> {
    pub axes: Vec<LeftAxis<'a>>,
    pub known: Vec<&'a str>,
    /// Names in indices that are numbers.
    pub numbers: Vec<LeftNumber<'a>>,
}

/// A name in an index of the left side that is a number.
#[derive(Debug, Clone, Copy)]
pub struct LeftNumber<'a> {
    pub name: &'a str,
    /// How many axes lie before that of the index, along its pattern.
    pub axis: usize,
    pub is_lone: bool,
}

impl<'a> Lefts<'a> {
    /// Reads a pattern of the left side.
    pub fn read(&mut self, names: &mut Names<'a>, pattern: &'a Pattern) -> Resolved<()> {
        self.read_below(names, pattern, 0)
    }

    /// Reads a pattern before which there are so many axes.
    fn read_below(&mut self, names: &mut Names<'a>, pattern: &'a Pattern, mut axis: usize) -> Resolved<()> {
        let mut failed = false;
        for part in &pattern.parts {
            match part {
                PatternPart::Indices(indices) => {
                    for index in indices {
                        failed |= self.index(names, index, axis).is_err();
                        axis += 1;
                    }
                }
                PatternPart::Fields { fields, .. } => {
                    for field in fields {
                        // Each of several names has axes of its own.
                        for _ in &field.names {
                            failed |= self.read_below(names, &field.pattern, axis).is_err();
                        }
                    }
                }
                PatternPart::Field(_) | PatternPart::Type(_) => {}
            }
        }
        if failed { Err(Noted) } else { Ok(()) }
    }

    fn index(&mut self, names: &mut Names<'a>, index: &'a Index, axis: usize) -> Resolved<()> {
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
            Some(Value::Listed(..)) => {
                let problem = Problem::new(Code::Index, index.span, "places of a variable are not listed");
                return names.fail(problem.help("write the list on the right: `var a [i] = b[at[i]]`"));
            }
            Some(Value::Wrapped(..)) => {
                let problem = Problem::new(Code::Index, index.span, "places of a variable do not wrap around");
                return names.fail(problem.help("write `%` on the right: `var a [i:18] = b[(i - 1) % 16]`"));
            }
            Some(Value::Constant(constant)) => {
                let one_name = index.expression.as_ref().and_then(|expression| {
                    let lone = names.lone_name(expression);
                    let is_lone = lone.is_some();
                    self.numbers.extend(names.names_in(expression).map(|name| LeftNumber { name, axis, is_lone }));
                    Some((lone.filter(|_| explicit.is_some())?, expression))
                });
                if let Some((name, expression)) = one_name {
                    let message = format!("`{}` is the number {constant} and no index variable", clip(name));
                    let problem = Problem::new(Code::Index, expression.span, message);
                    let help = format!(
                        "{}: give the variable another name; for the number write `{}+0`",
                        names.origin(name),
                        clip(name)
                    );
                    return names.fail(problem.help(help));
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
