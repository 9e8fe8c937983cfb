//! Replicas: views back to back, and the rest of the dataset behind them.

use std::{collections::HashMap, sync::Arc};

use smallvec::SmallVec;

use super::{
    names::{LEAF_WORK, Names, Noted, Resolved, twice},
    view::{checked, layout},
};
use crate::{
    dataset::Dataset,
    fill::Fill,
    fragment::{Fragment, Part, Variable},
    index_box::{IndexBox, TooScattered},
    index_set::IndexSet,
    schema::{Replica, StoredView, View},
    text::{
        diagnostic::{Code, Problem, clip},
        source::Span,
        syntax::{ReplicaDeclaration, ReplicaEntry},
    },
    types::{AxisOrder, Layout, Type, strides},
};

/// Boxes that the rest of one leaf may consist of.
const REST_BOXES_MAX: u64 = 1 << 12;

/// Resolves all replicas. Views with mistakes are `None`, and replicas of them are left out.
pub fn replicas(names: &mut Names<'_>, dataset: &Arc<Dataset>, views: &[Option<View>], replicas: &mut Vec<Replica>) {
    let syntax = names.syntax;
    let mut spans: HashMap<&str, Span> = HashMap::new();
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    for (number, view) in syntax.views.iter().enumerate() {
        if let Some(name) = view.name {
            numbers.entry(names.text(name)).or_insert(number);
        }
    }
    for declaration in &syntax.replicas {
        let name = names.text(declaration.name);
        if let Some(first) = spans.get(name) {
            names.problems.push(twice("replicas", name, declaration.name, *first));
        } else {
            spans.insert(name, declaration.name);
        }
        if let Ok(replica) = resolve(names, dataset, views, &numbers, declaration) {
            replicas.push(replica);
        }
    }
}

fn resolve<'a>(
    names: &mut Names<'a>,
    dataset: &Arc<Dataset>,
    views: &[Option<View>],
    numbers: &HashMap<&'a str, usize>,
    declaration: &'a ReplicaDeclaration,
) -> Resolved<Replica> {
    let mut end = 0u64;
    let mut stored = Vec::new();
    let (mut variables, mut parts) = (Vec::new(), Vec::new());
    let mut seen: HashMap<&str, Span> = HashMap::new();
    let mut failed = false;
    // What the first view says that holes have.
    let mut fill: Option<Option<Fill>> = None;
    for entry in &declaration.entries {
        let (size, span) = match entry {
            ReplicaEntry::Skip(expression) => match names.gap(expression, 0) {
                Ok(bytes) => (bytes, expression.span),
                Err(Noted) => {
                    failed = true;
                    continue;
                }
            },
            ReplicaEntry::View(span) => {
                let name = names.text(*span);
                let Some(number) = numbers.get(name) else {
                    let problem = Problem::new(Code::Unknown, *span, format!("no view is named `{}`", clip(name)));
                    names.problems.push(problem.suggest(name, numbers.keys().copied()));
                    failed = true;
                    continue;
                };
                if let Some(first) = seen.insert(name, *span) {
                    let message = format!("`{}` is in this replica already", clip(name));
                    names.problems.push(Problem::new(Code::Duplicate, *span, message).label(first, "the first"));
                    failed = true;
                    continue;
                }
                let Some(view) = &views[*number] else {
                    failed = true;
                    continue;
                };
                let fragment = &view.fragment;
                names.work(fragment.parts().len() as u64 * LEAF_WORK, *span)?;
                let own = Some(fragment.fill()).filter(|_| !fragment.variables().is_empty());
                if fill.is_none() {
                    fill = own;
                } else if own.is_some_and(|own| fill != Some(own)) {
                    let message = "a view whose holes have another value than those of the views before it";
                    let help = "give all views of a replica the same `fill`, or none; or make it two replicas";
                    names.problems.push(Problem::new(Code::Mismatch, *span, message).help(help));
                    failed = true;
                    continue;
                }
                for variable in fragment.variables() {
                    let name = format!("{name}.{}", variable.name).into();
                    let offset_bytes = end.saturating_add(variable.offset_bytes);
                    variables.push(Variable { name, offset_bytes, ..variable.clone() });
                }
                for part in fragment.parts() {
                    parts.push(Part { offset_bytes: end.saturating_add(part.offset_bytes), ..part.clone() });
                }
                // Their position among the views that are kept: all are, where nothing is wrong.
                stored.push(StoredView { view: *number, offset_bytes: end });
                (fragment.size_bytes(), *span)
            }
        };
        end = grown(names, end, size, span)?;
    }
    let complete = declaration.attributes.complete.is_some();
    if failed {
        return Err(Noted);
    }
    if stored.is_empty() && !complete {
        let problem = Problem::new(Code::Empty, declaration.span, "a replica without views");
        return names.fail(problem.help("name one in its braces: `view sim`"));
    }
    let rest_offset_bytes = end;
    if complete {
        let layout = Layout { order: AxisOrder::RowMajor, ..layout(&declaration.attributes) };
        end = rest(names, dataset, layout, declaration.span, end, &mut variables, &mut parts)?;
    }
    let fragment = Fragment::new(dataset.clone(), variables, parts, end);
    let fragment = fragment.map(|fragment| fragment.with_fill(fill.flatten()));
    Ok(Replica {
        name: names.text(declaration.name).into(),
        file: declaration.file.as_deref().map(Arc::from),
        complete,
        readonly: declaration.attributes.readonly.is_some(),
        views: stored,
        rest_offset_bytes,
        fragment: Arc::new(checked(names, fragment, declaration.span)?),
    })
}

fn grown(names: &mut Names<'_>, end: u64, size: u64, span: Span) -> Resolved<u64> {
    match end.checked_add(size).filter(|end| *end <= i64::MAX as u64) {
        Some(end) => Ok(end),
        None => {
            let message = "up to here the replica is larger than 2^63 - 1 bytes";
            names.fail(Problem::new(Code::Arithmetic, span, message))
        }
    }
}

/// Appends whatever no part holds, leaf by leaf and box by box, back to back.
fn rest(
    names: &mut Names<'_>,
    dataset: &Dataset,
    layout: Layout,
    span: Span,
    start: u64,
    variables: &mut Vec<Variable>,
    parts: &mut Vec<Part>,
) -> Resolved<u64> {
    let mut end = start;
    let mut held: HashMap<u32, Vec<IndexBox>> = HashMap::new();
    for part in parts.iter() {
        held.entry(part.leaf.0).or_default().push(part.elements.clone());
    }
    for object in 0..dataset.objects().len() as u32 {
        for (id, leaf) in dataset.leaves_of(object) {
            let Some(all) = IndexBox::all(&leaf.extents) else { return Err(Noted) };
            let held = held.remove(&id.0).unwrap_or_default();
            let boxes = left_over(names, all, &held, span)?;
            let name = dataset.leaf_name(id);
            let several = boxes.len() > 1;
            for (number, elements) in boxes.into_iter().enumerate() {
                names.work(LEAF_WORK, span)?;
                let extents: SmallVec<[u64; 4]> = elements.axes().iter().map(|axis| axis.count()).collect();
                let size = leaf.primitive.size_bytes();
                let Some(strides) = strides(layout.order, extents.iter().copied(), size) else {
                    return Err(Noted);
                };
                let mut kind = Type::Primitive(leaf.primitive);
                if !extents.is_empty() {
                    kind = Type::array(extents.to_vec(), kind);
                }
                let name = if several { format!("rest.{name}.{number}") } else { format!("rest.{name}") };
                variables.push(Variable { name: name.into(), offset_bytes: end, kind, layout });
                let strides_bytes = extents.iter().zip(&strides);
                let strides_bytes = strides_bytes.map(|(extent, stride)| if *extent == 1 { 0 } else { *stride as i64 });
                parts.push(Part {
                    leaf: id,
                    primitive: leaf.primitive,
                    offset_bytes: end,
                    strides_bytes: strides_bytes.collect(),
                    byte_order: layout.byte_order,
                    elements,
                });
                let bytes = extents.iter().product::<u64>() * size;
                end = grown(names, end, bytes, span)?;
            }
        }
    }
    Ok(end)
}

/// The elements of a leaf that no box holds, in boxes, those of the lowest indices first.
fn left_over(names: &mut Names<'_>, all: IndexBox, held: &[IndexBox], span: Span) -> Resolved<Vec<IndexBox>> {
    let mut left = IndexSet::of(&[all]).map_err(|_| Noted)?;
    for elements in held {
        names.work(left.boxes().len() as u64 / 16 + 1, span)?;
        // A step leaves pieces between: so many of them that nobody would want to read the rest.
        let pieces = |one: &IndexBox| -> u64 {
            one.axes().iter().zip(elements.axes()).map(|(axis, other)| axis.difference(other).bound()).sum()
        };
        let most: u64 = left.boxes().iter().filter(|one| one.meets(elements)).map(pieces).sum();
        let removed = if most > 16 * REST_BOXES_MAX { Err(TooScattered) } else { left.remove(elements) };
        if removed.is_err() || left.boxes().len() as u64 > REST_BOXES_MAX {
            let message = format!("the rest of the dataset lies in more than {REST_BOXES_MAX} pieces");
            let problem = Problem::new(Code::Limit, span, message);
            return names.fail(problem.help("add a view that holds what others leave out, or drop `complete`"));
        }
    }
    let mut boxes = IndexSet::of_disjoint(left.boxes().to_vec()).boxes().to_vec();
    let starts = |one: &IndexBox| one.axes().iter().map(|axis| axis.start()).collect::<SmallVec<[u64; 4]>>();
    boxes.sort_by_cached_key(starts);
    Ok(boxes)
}
