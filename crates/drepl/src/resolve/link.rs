//! Reads the left side along what the right side chose, and links the axes on the way to each leaf.

use smallvec::{SmallVec, smallvec};

use super::{
    affine::{Affine, Link, Linked, Overflow, TURNS_MAX, Turns, link, link_wrapped},
    fields::{count, each_field, listed, missing_field, record_name},
    left::{LeftAxis, LeftIndex},
    local::{LinkedAxis, Local, LocalLeaf},
    names::{LEAF_WORK, LINK_WORK, Names, Noted, Resolved, SUGGESTION_WORK, Variable},
    points::{POINTS_MAX, Points, Pointwise, link_points, variables},
    right::{Chosen, RightAxis, RightIndex, by_name, describe},
};
use crate::{
    conversion::is_convertible,
    dataset::LeafId,
    progression::Progression,
    text::{
        diagnostic::{Code, Problem, clip},
        source::Span,
        syntax::{Pattern, PatternPart},
    },
    types::{Primitive, Type},
};

/// So many places an axis may have for each of its elements, unless its extent is written.
const PLACES_PER_ELEMENT_MAX: u64 = 1024;

/// The links of one axis; none where all its places are holes.
type Links = SmallVec<[Link; 1]>;

/// Variables that stand in several indices: how many parts each of their links has, and those of the axes that are still to come.
type Joined<'a> = SmallVec<[(&'a str, usize, std::vec::IntoIter<Links>); 1]>;

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
                let chosen = by_name(from);
                let (mut built, mut gaps) = (Vec::new(), vec![0]);
                let mut failed = false;
                for field in fields {
                    if let (Some(skip), Some(gap)) = (self.names.skipped(field), gaps.last_mut()) {
                        *gap = self.names.gap(skip, *gap)?;
                        continue;
                    }
                    for name_span in &field.names {
                        let name = self.names.text(*name_span);
                        let Some(node) = chosen.get(name) else {
                            self.names.work(SUGGESTION_WORK, *name_span)?;
                            let known = from.iter().map(|(known, _)| &**known);
                            let message = format!("`{}` is no field of what the right side chooses", clip(name));
                            let problem = Problem::new(Code::Unknown, *name_span, message).suggest(name, known.clone());
                            self.names.problems.push(match (&problem.help, &field.skip) {
                                (_, Some(skip)) => {
                                    let kind = clip(self.names.text(skip.span));
                                    problem
                                        .help(format!("`{kind}` is a type: to leave out bytes, write `skip ({kind})`"))
                                }
                                (Some(_), None) => problem,
                                (None, None) => problem.help(format!("it has {}", listed(known))),
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
                            Ok(local) => {
                                built.push((name.into(), local));
                                gaps.push(0);
                            }
                            // The axes of what failed are not known to be used up.
                            Err(Noted) => return Err(Noted),
                        }
                    }
                }
                if failed {
                    return Err(Noted);
                }
                let name = expected.and_then(|(kind, _)| record_name(kind));
                Ok(Local::Record { name, fields: built, gaps, offsets: Vec::new() })
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
            (Chosen::Leaf(leaf, primitive), Some((Type::Primitive(wanted), _)))
                if primitive == wanted || is_convertible(*primitive, *wanted) =>
            {
                self.leaf(*leaf, *wanted, behind)
            }
            (Chosen::Leaf(leaf, primitive), None) => self.leaf(*leaf, *primitive, behind),
            (Chosen::Record(name, fields), None) => {
                let mut built = Vec::with_capacity(fields.len());
                for (name, node) in fields {
                    built.push((name.clone(), self.build(&[], None, node, behind)?));
                }
                Ok(Local::Record { name: name.clone(), fields: built, gaps: Vec::new(), offsets: Vec::new() })
            }
            (Chosen::Record(..), Some((kind @ Type::Record(record), span))) => {
                let Chosen::Record(_, fields) = chosen else { return Err(Noted) };
                let fields = by_name(fields);
                let mut built = Vec::with_capacity(record.fields().len());
                for wanted in record.fields() {
                    let Some(node) = fields.get(&*wanted.name) else {
                        let problem = missing_field(kind, &wanted.name, &describe(chosen), span);
                        return self.names.fail(problem);
                    };
                    built.push((wanted.name.clone(), self.build(&[], Some((&wanted.kind, span)), node, behind)?));
                }
                Ok(Local::Record { name: record.name().cloned(), fields: built, gaps: Vec::new(), offsets: Vec::new() })
            }
            (_, Some((kind, span))) => {
                let message = format!("{kind} is not {}, which the object holds", describe(chosen));
                let problem = Problem::new(Code::Mismatch, span, message);
                let help = "floating-point numbers are converted into others, and complex ones into complex ones; \
                            of all else write the object's type, or none";
                self.names.fail(problem.help(help))
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
    fn leaf(&mut self, leaf: LeafId, primitive: Primitive, behind: Span) -> Resolved<Local> {
        self.check_variables(behind)?;
        let mut local = LocalLeaf::new(leaf);
        for position in 0..self.left.len() {
            let axis = self.left[position];
            if let LeftIndex::Constant(place) = self.axes[axis].index {
                local.fixed.push((axis, place));
                self.reach(axis, place + 1, 1)?;
            }
        }
        let wild: SmallVec<[usize; 4]> =
            self.left.iter().copied().filter(|axis| matches!(self.axes[*axis].index, LeftIndex::Wild)).collect();
        let mut wild = wild.into_iter();
        let mut joined = Joined::new();
        let mut failed = false;
        for position in 0..self.right.len() {
            let axis = self.right[position];
            let linked = match axis.index {
                RightIndex::Constant(index) => {
                    let elements = Progression::new(index, 1, 1).ok_or(Noted)?;
                    local.link(smallvec![Link { elements, place: 0, step: 0 }], None);
                    continue;
                }
                RightIndex::Outside(_) if self.clipped => {
                    local.empty = true;
                    continue;
                }
                RightIndex::Outside(index) => {
                    self.outside(index.into(), index.into(), axis);
                    failed = true;
                    continue;
                }
                RightIndex::Wild => {
                    let place = wild.next().ok_or(Noted)?;
                    self.straight(place, &Affine::VARIABLE, axis)?.map(|links| (links, place))
                }
                RightIndex::Affine(_, variable)
                | RightIndex::Wrapped(_, _, variable)
                | RightIndex::Listed(_, variable) => {
                    if let Some((_, each, links)) = joined.iter_mut().find(|(name, ..)| *name == variable.name) {
                        // Its first axis says where it lies.
                        local.links.extend(links.next().map(|links| LinkedAxis { links, place: None, each: *each }));
                        continue;
                    }
                    let place = self.left_of(variable.name).ok_or(Noted)?;
                    let is_of_it =
                        |axis: &&&RightAxis<'a>| axis.index.variable().is_some_and(|other| other.name == variable.name);
                    let together: SmallVec<[&RightAxis<'a>; 4]> = self.right.iter().filter(is_of_it).copied().collect();
                    let linked = match axis.index {
                        RightIndex::Affine(affine, _) if together.len() == 1 => self.straight(place, &affine, axis)?,
                        RightIndex::Wrapped(affine, modulus, _) if together.len() == 1 => {
                            self.turns(place, &affine, modulus, axis)?
                        }
                        _ => self.points(place, &together)?.map(|mut all| {
                            let first = if all.is_empty() { SmallVec::new() } else { all.remove(0) };
                            joined.push((variable.name, local.parts, all.into_iter()));
                            first
                        }),
                    };
                    linked.map(|links| (links, place))
                }
            };
            match linked {
                Ok((links, _)) if links.is_empty() => local.empty = true,
                Ok((links, place)) => local.link(links, Some(place)),
                Err(Noted) => failed = true,
            }
        }
        if failed {
            return Err(Noted);
        }
        if local.parts > 1 && !local.empty {
            let each = LEAF_WORK + local.links.len() as u64;
            self.names.work((local.parts as u64).saturating_mul(each), behind)?;
        }
        self.leaves.push(local);
        Ok(Local::Leaf(self.leaves.len() - 1, primitive))
    }

    /// The function by which an axis of the variable has its places.
    fn left_function(&self, place: usize) -> Affine {
        match self.axes[place].index {
            LeftIndex::Affine(affine, _) => affine,
            _ => Affine::VARIABLE,
        }
    }

    fn no_element<T>(&mut self, axis: &RightAxis<'a>) -> Resolved<T> {
        let message = format!("no element of `{}` has this index", clip(self.object));
        let help = format!("the indices of this axis are 0 to {}", axis.extent - 1);
        self.names.fail(Problem::new(Code::Empty, axis.span, message).help(help))
    }

    /// The link of an index that is a straight line; none where all places are holes. The inner mistake lets those of other indices be
    /// found.
    fn straight(&mut self, place: usize, right: &Affine, axis: &RightAxis<'a>) -> Resolved<Resolved<Links>> {
        let (left, explicit) = (self.left_function(place), self.axes[place].explicit);
        match link(&left, explicit, right, axis.extent, self.clipped) {
            Ok(Linked::Some(link)) => {
                self.reach(place, link.last() + 1, link.elements.count())?;
                Ok(Ok(smallvec![link]))
            }
            Ok(Linked::Empty) if explicit.is_some() && self.clipped => Ok(Ok(Links::new())),
            Ok(Linked::Empty) => self.no_element(axis),
            Ok(Linked::Outside(low, high)) => {
                self.outside(low, high, axis);
                Ok(Err(Noted))
            }
            Err(Overflow) => self.names.overflow(axis.span),
        }
    }

    /// The links of indices that have one variable together, or of one that a list has: one for each place. As for
    /// [`straight`](Self::straight).
    fn points(&mut self, place: usize, together: &[&RightAxis<'a>]) -> Resolved<Resolved<Vec<Links>>> {
        let (left, explicit) = (self.left_function(place), self.axes[place].explicit);
        let pointwise = |axis: &&RightAxis<'a>| {
            let right = match axis.index {
                RightIndex::Wrapped(affine, modulus, _) => Pointwise::Wrapped(affine, modulus),
                RightIndex::Listed(listed, _) => {
                    Pointwise::Listed(listed.inner, self.names.numbers_of(&listed), listed.outer)
                }
                RightIndex::Affine(affine, _) => Pointwise::Affine(affine),
                _ => Pointwise::Affine(Affine::VARIABLE),
            };
            (right, axis.extent)
        };
        let rights: Vec<_> = together.iter().map(pointwise).collect();
        let first = together.first().ok_or(Noted)?;
        let Some(variables) = variables(&left, explicit, &rights, self.clipped) else { return self.endless(first) };
        if variables.count > POINTS_MAX {
            let message = format!("more than {POINTS_MAX} places, which a diagonal or a list links one by one");
            return self.names.fail(Problem::new(Code::Limit, first.span, message).help("divide the view"));
        }
        self.names.work(variables.count as u64 * rights.len() as u64 * LINK_WORK, first.span)?;
        match link_points(&left, variables, &rights, self.clipped) {
            Ok(Points::Links(links)) => {
                let there = links.first().map_or(&[][..], |links| &links[..]);
                if there.is_empty() && !(explicit.is_some() && self.clipped) {
                    return self.no_element(first);
                }
                if let Some(last) = there.iter().map(Link::last).max() {
                    if last >= i64::MAX as u64 {
                        return self.names.overflow(first.span);
                    }
                    self.reach(place, last + 1, there.iter().map(|link| link.elements.count()).sum())?;
                }
                Ok(Ok(links.into_iter().map(Links::from).collect()))
            }
            Ok(Points::Outside(position, index)) => {
                self.outside(index, index, together[position]);
                Ok(Err(Noted))
            }
            Ok(Points::OutsideList(position, index)) => {
                let length = match &rights[position].0 {
                    Pointwise::Listed(_, list, _) => list.len(),
                    _ => 0,
                };
                let message = format!("index {index} of a list of {length} numbers");
                let help = "shorten it; in a view that says `clipped`, places behind the end of a list are holes";
                self.names.problems.push(Problem::new(Code::Range, together[position].span, message).help(help));
                Ok(Err(Noted))
            }
            Err(Overflow) => self.names.overflow(first.span),
        }
    }

    fn endless<T>(&mut self, axis: &RightAxis<'a>) -> Resolved<T> {
        let problem = Problem::new(Code::Extent, axis.span, "an index that wraps around has no last place");
        self.names.fail(problem.help("write its extent on the left: `var a [i:18] = b[(i - 1) % 16]`"))
    }

    /// The links of an index that wraps around, one for each turn. As for [`straight`](Self::straight).
    fn turns(&mut self, place: usize, right: &Affine, modulus: u64, axis: &RightAxis<'a>) -> Resolved<Resolved<Links>> {
        let left = self.left_function(place);
        let Some(places) = self.axes[place].explicit else { return self.endless(axis) };
        match link_wrapped(&left, places, right, modulus, axis.extent, self.clipped) {
            Ok(Turns::Links(links)) if links.is_empty() && !self.clipped => self.no_element(axis),
            Ok(Turns::Links(links)) => Ok(Ok(links.into())),
            Ok(Turns::Outside(low, high)) => {
                self.outside(low.into(), high.into(), axis);
                Ok(Err(Noted))
            }
            Ok(Turns::TooMany) => {
                let message = format!("this index wraps around more than {TURNS_MAX} times");
                self.names.fail(Problem::new(Code::Limit, axis.span, message).help("divide the view"))
            }
            Err(Overflow) => self.names.overflow(axis.span),
        }
    }

    /// An axis has so many places, some of which have elements. Of many holes the text has to say that they are wanted.
    fn reach(&mut self, axis: usize, places: u64, elements: u64) -> Resolved<()> {
        let axis = &mut self.axes[axis];
        axis.extent = axis.extent.max(places);
        let span = axis.span;
        if axis.explicit.is_some() || places / PLACES_PER_ELEMENT_MAX <= elements {
            return Ok(());
        }
        let message = format!("this axis has {places} places and {}", count(elements as usize, "element", "elements"));
        let help = format!("if that is meant, write its extent in a view that says `clipped`: `…:{places}`");
        self.names.fail(Problem::new(Code::Extent, span, message).help(help))
    }

    fn outside(&mut self, low: i128, high: i128, axis: &RightAxis<'a>) {
        let reached = if low == high { format!("index {low}") } else { format!("indices {low} to {high}") };
        let message = format!("{reached} of an axis of 0 to {}", axis.extent - 1);
        let help = "shift or shorten it; in a view that says `clipped`, what lies outside is a hole";
        self.names.problems.push(Problem::new(Code::Range, axis.span, message).help(help));
    }

    /// Each variable stands on both sides, and once on the left, and there are as many wildcards.
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
        let right: SmallVec<[Variable<'a>; 4]> = self.right.iter().filter_map(|axis| axis.index.variable()).collect();
        for (position, variable) in left.iter().enumerate() {
            if let Some(first) = left[..position].iter().find(|first| first.name == variable.name) {
                let message = format!("`{}` stands twice on the left", clip(variable.name));
                let help = "write a variable for each axis; a diagonal stands on the right: `var d [i] = m[i,i]`";
                note(Problem::new(Code::Index, variable.span, message).label(first.span, "the first").help(help));
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
