//! Views: their variables one after another, and that no two of them write one element.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    names::{Names, Noted, Resolved, twice},
    variable,
};
use crate::{
    dataset::{Dataset, LeafId},
    fill::unfit,
    fragment::{Fragment, FragmentError, Part},
    index_box::IndexBox,
    schema::View,
    text::{
        diagnostic::{Code, Problem, clip},
        source::Span,
        syntax::{Attributes, ViewDeclaration},
    },
    types::{Layout, Placement},
};

/// All views, `None` for those with mistakes.
pub fn views(names: &mut Names<'_>, dataset: &Arc<Dataset>) -> Vec<Option<View>> {
    let syntax = names.syntax;
    let mut spans: HashMap<&str, Span> = HashMap::new();
    let mut default = None;
    let mut views = Vec::with_capacity(syntax.views.len());
    for declaration in &syntax.views {
        if let Some(span) = declaration.name {
            let name = names.text(span);
            if let Some(first) = spans.get(name) {
                names.problems.push(twice("views", name, span, *first));
            } else {
                spans.insert(name, span);
            }
        }
        if let Some(span) = declaration.attributes.default
            && let Some(first) = default.replace(span)
        {
            let problem = Problem::new(Code::Duplicate, span, "two views say `default`").label(first, "the first");
            names.problems.push(problem.help("only one view can be that from which the others are read"));
        }
        views.push(resolve(names, dataset, declaration).ok());
    }
    views
}

/// The layout that attributes ask for.
pub fn layout(attributes: &Attributes) -> Layout {
    let usual = Layout::default();
    Layout {
        order: attributes.order.map_or(usual.order, |(order, _)| order),
        packing: attributes.packing.map_or(usual.packing, |(packing, _)| packing),
        byte_order: attributes.byte_order.map_or(usual.byte_order, |(order, _)| order),
    }
}

/// One view.
pub fn resolve<'a>(names: &mut Names<'a>, dataset: &Arc<Dataset>, declaration: &'a ViewDeclaration) -> Resolved<View> {
    let layout = layout(&declaration.attributes);
    let clipped = declaration.attributes.clipped.is_some();
    let readonly = declaration.attributes.readonly.is_some();
    let mut place = Placement::new(layout.packing);
    let (mut variables, mut parts, mut origins) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen: HashMap<&str, Span> = HashMap::new();
    let mut failed = false;
    for declared in &declaration.variables {
        let name = names.text(declared.name);
        if let Some(first) = seen.get(name) {
            names.problems.push(twice("variables", name, declared.name, *first));
            failed = true;
        } else {
            seen.insert(name, declared.name);
        }
        let Ok(mut laid) = variable::lay(names, dataset, declared, layout, clipped) else {
            failed = true;
            continue;
        };
        let Some(offset) = place.add(laid.size, laid.alignment).filter(|_| place.size_bytes().is_some()) else {
            let message = "up to here the view is larger than 2^63 - 1 bytes";
            return names.fail(Problem::new(Code::Arithmetic, declared.name, message));
        };
        laid.variable.offset_bytes = offset;
        variables.push(laid.variable);
        for mut part in laid.parts {
            part.offset_bytes += offset;
            parts.push(part);
            origins.push(declared.span);
        }
    }
    if declaration.variables.is_empty() {
        let problem = Problem::new(Code::Empty, declaration.span, "a view without variables");
        return names.fail(problem.help("write `var a = b` in its braces"));
    }
    if failed {
        return Err(Noted);
    }
    if !readonly {
        check_writers(names, dataset, &parts, &origins)?;
    }
    let fill = declaration.attributes.fill;
    if let Some((fill, span)) = fill
        && let Some((variable, primitive)) =
            variables.iter().find_map(|variable| unfit(fill, &variable.kind).map(|primitive| (variable, primitive)))
    {
        let message = format!("this is no value of {primitive}, which `{}` has", clip(&variable.name));
        let help = "choose another one, or give these fields a view of their own";
        return names.fail(Problem::new(Code::Mismatch, span, message).help(help));
    }
    let fragment = Fragment::new(dataset.clone(), variables, parts, place.size_bytes().unwrap_or(0));
    let fragment = checked(names, fragment, declaration.span)?.with_fill(fill.map(|(fill, _)| fill));
    let fragment = Arc::new(fragment);
    let default = declaration.attributes.default.is_some();
    let name = declaration.name.map(|span| names.text(span).into());
    Ok(View { name, layout, default, readonly, clipped, fragment })
}

/// What the rules above cannot have let through is told rather than trusted.
pub fn checked(names: &mut Names<'_>, fragment: Result<Fragment, FragmentError>, span: Span) -> Resolved<Fragment> {
    match fragment {
        Ok(fragment) => Ok(fragment),
        Err(error) => names.fail(Problem::new(Code::Limit, span, error.to_string())),
    }
}

/// Refuses two writers of one element: what they write in which order would decide on its value.
fn check_writers(names: &mut Names<'_>, dataset: &Dataset, parts: &[Part], origins: &[Span]) -> Resolved<()> {
    if parts.len() < 2 {
        return Ok(());
    }
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|part| parts[*part].leaf);
    for group in order.chunk_by_mut(|one, other| parts[*one].leaf == parts[*other].leaf) {
        let axis = widest_axis(parts, group);
        // Sorted along it, a part can meet those that begin before it ends, and no others.
        let range =
            |part: usize| parts[part].elements.axes().get(axis).map_or((0, 0), |axis| (axis.start(), axis.last()));
        group.sort_by_key(|part| range(*part));
        for (position, one) in group.iter().enumerate() {
            let last = range(*one).1;
            for other in group[position + 1..].iter().take_while(|other| range(**other).0 <= last) {
                names.work(1, origins[*other])?;
                if let Some(common) = parts[*one].elements.intersection(&parts[*other].elements) {
                    let (first, second) = (origins[*one.min(other)], origins[*one.max(other)]);
                    let element = element_name(dataset, parts[*one].leaf, &common);
                    let problem = Problem::new(Code::Overlap, second, format!("{element} lies in this view twice"));
                    let help = "only a view that says `readonly` may hold an element more than once";
                    // One such pair shows the mistake.
                    return names.fail(problem.mark("here").label(first, "and here").help(help));
                }
            }
        }
    }
    Ok(())
}

/// The axis along which parts of a leaf begin at the most places.
fn widest_axis(parts: &[Part], group: &[usize]) -> usize {
    let rank = parts[group[0]].elements.rank();
    let starts = |axis: usize| {
        let starts = group.iter().map(|part| parts[*part].elements.axes()[axis].start());
        starts.collect::<HashSet<_>>().len()
    };
    if group.len() < 3 { 0 } else { (0..rank).max_by_key(|axis| starts(*axis)).unwrap_or(0) }
}

/// `mesh[3,4].rho`, the first element of a box.
fn element_name(dataset: &Dataset, leaf: LeafId, elements: &IndexBox) -> String {
    let name = dataset.leaf_name(leaf);
    let indices: Vec<String> = elements.axes().iter().map(|axis| axis.start().to_string()).collect();
    let (object, path) = name.split_once('.').map_or((&*name, String::new()), |(o, p)| (o, format!(".{p}")));
    let object = clip(object);
    if indices.is_empty() { format!("{object}{path}") } else { format!("{object}[{}]{path}", indices.join(",")) }
}
