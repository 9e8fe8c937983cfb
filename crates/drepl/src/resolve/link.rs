//! Reads the left side along what the right side chose, and links the axes on the way to each leaf.

use smallvec::SmallVec;

use super::{
    affine::{Affine, Link, Linked, Overflow, link},
    fields::{count, each_field, listed, missing_field, record_name},
    left::{LeftAxis, LeftIndex},
    local::{Local, LocalLeaf},
    names::{Names, Noted, Resolved, Variable},
    right::{Chosen, RightAxis, RightIndex, describe},
};
use crate::{
    progression::Progression,
    text::{
        diagnostic::{Code, Problem, clip},
        source::Span,
        syntax::{Pattern, PatternPart},
    },
    types::Type,
};

/// Reads the left side along what the right side has chosen.
pub struct Builder<'n, 'a, 'c> {
    pub names: &'n mut Names<'a>,
    pub name: Span,
    pub object: &'n str,
    pub clipped: bool,
    pub lefts: std::vec::IntoIter<LeftAxis<'a>>,
    pub axes: Vec<LeftAxis<'a>>,
    pub leaves: Vec<LocalLeaf>,
    /// Axes on the way to what is at hand, on both sides.
    pub right: Vec<&'c RightAxis<'a>>,
    pub left: Vec<usize>,
}

impl<'a, 'c> Builder<'_, 'a, 'c> {
    pub fn build(
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
        let left: SmallVec<[Variable<'a>; 4]> = lefts
            .clone()
            .filter_map(|axis| match axis.index {
                LeftIndex::Affine(_, variable) => Some(variable),
                _ => None,
            })
            .collect();
        let right: SmallVec<[Variable<'a>; 4]> = self
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
        let lonely = |one: &[Variable<'a>], other: &[Variable<'a>]| {
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
    pub fn measured(mut self) -> Resolved<(Vec<LeftAxis<'a>>, Vec<LocalLeaf>)> {
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
