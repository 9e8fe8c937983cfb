//! A variable of a view: which elements its right side chooses, and where its left side puts them.
//!
//! The right side becomes a tree of what is chosen from the object's type; the left side is read along it and becomes a
//! tree of what lies in the view. For each leaf, the axes on the way to it are then linked: by the name of their
//! variable, wildcards by their position.

use super::{
    left::Lefts,
    link::Builder,
    names::{Names, Noted, Resolved},
    right::Right,
};
use crate::{
    dataset::Dataset,
    fragment::{Part, Variable},
    text::{
        diagnostic::{Code, Problem, clip},
        syntax::VariableDeclaration,
    },
    types::Layout,
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
    let mut right =
        Right { names, known: &lefts.known, numbers: &lefts.numbers, groups: 0, axis: 0, behind: declaration.object };
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
