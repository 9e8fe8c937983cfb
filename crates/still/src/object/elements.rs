//! Chosen elements of an object: a fragment with them, and nothing else, is attached and filled.

use super::variable::{Chosen, Step};
use crate::failure::Failure;
use crate::selection::Selection;
use crate::slice::Axis;
use std::fmt::Write;
use std::time::Duration;
use stillframe_object::{Error, Object, ReadFragment};

/// How long elements of a version that is complete are waited for: they are there, unless their writers go on quickly.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the next version is waited for where the newest cannot be had any more.
const SOON: Duration = Duration::from_secs(10);

/// Elements of one version, packed, the last axis fastest.
pub struct Elements {
    /// The version.
    pub version: u64,
    /// When the last of their writers published it, in nanoseconds since 1970; none of the initial version, or of no elements.
    pub published_ns: Option<u64>,
    bytes: Bytes,
}

enum Bytes {
    /// As they lie in the fragment.
    Whole(Box<ReadFragment>),
    /// Put together.
    Joined(Vec<u8>),
}

impl Elements {
    /// Reads what is chosen of a version, or of the newest complete one. `selection` is `chosen`'s own, or abbreviated.
    pub fn read(
        object: &Object,
        chosen: &Chosen,
        selection: &Selection,
        version: Option<u64>,
        wait: Duration,
    ) -> Result<Elements, Failure> {
        if selection.count() == 0 {
            let version = version.map_or_else(|| object.newest(), Ok)?;
            return Ok(Elements { version, published_ns: None, bytes: Bytes::Joined(Vec::new()) });
        }
        let spans = combine(selection);
        let mut fragment = object.read(&text(object, &chosen.way, selection, &spans)).attach()?;
        match version {
            Some(version) => fragment.reattach(version, wait)?,
            None => take_newest(object, &mut fragment, wait)?,
        }
        let version = fragment.version();
        let published_ns = Some(fragment.published_ns()).filter(|ns| *ns > 0);
        let bytes = match spans.len() {
            1 => Bytes::Whole(Box::new(fragment)),
            _ => Bytes::Joined(join(&fragment, selection, &spans)?),
        };
        Ok(Elements { version, published_ns, bytes })
    }

    /// Their bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Whole(fragment) => fragment.bytes(),
            Bytes::Joined(bytes) => bytes,
        }
    }
}

fn take_newest(object: &Object, fragment: &mut ReadFragment, wait: Duration) -> Result<(), Failure> {
    let (initial, newest) = (object.description().initial, object.newest()?);
    if newest > initial {
        match fragment.reattach(newest, wait.max(PATIENCE)) {
            // Its writers went on meanwhile; or a part of it is gone for good, and whose that is says the first error.
            Err(lost @ (Error::Lost { .. } | Error::LostElsewhere { .. })) => {
                fragment.reattach_newer(newest, wait.max(SOON)).map_err(|_| lost)?;
            }
            read => read?,
        }
    } else if wait.is_zero() {
        fragment.reattach(initial, wait)?;
    } else {
        fragment.reattach_newer(initial, wait)?;
    }
    Ok(())
}

/// Selected elements of an axis that are equally far from each other: places among the selected ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    first: usize,
    count: usize,
}

/// Boxes of equally distant elements that make up a selection: several where axes are abbreviated.
fn combine(selection: &Selection) -> Vec<Vec<Span>> {
    let mut all = vec![Vec::new()];
    for axis in &selection.axes {
        let spans = match axis.gap {
            Some((after, _)) if after > 0 && after < axis.count => {
                vec![Span { first: 0, count: after }, Span { first: after, count: axis.count - after }]
            }
            _ => vec![Span { first: 0, count: axis.count }],
        };
        let extended = |one: &Vec<Span>| {
            let one = one.clone();
            spans.clone().into_iter().map(move |span| one.iter().copied().chain([span]).collect())
        };
        all = all.iter().flat_map(extended).collect();
    }
    all
}

/// The view with these boxes, one variable for each.
fn text(object: &Object, way: &[Step], selection: &Selection, boxes: &[Vec<Span>]) -> String {
    // Names that have numbers in the object's text are no names of indices.
    let mut prefix = String::from("i");
    let has_number =
        |name: &str| object.schema().constant(name).is_some() || object.description().bindings.contains_key(name);
    while (0..selection.axes.len()).any(|axis| has_number(&format!("{prefix}{axis}"))) {
        prefix.push('_');
    }
    let mut text = String::from("{");
    for (number, spans) in boxes.iter().enumerate() {
        // Writing to a text does not fail.
        let _ = write!(text, " var v{number}{} =", left(selection, spans, &prefix));
        let mut axes = selection.axes.iter().zip(spans).enumerate();
        for (place, step) in way.iter().enumerate() {
            match step {
                Step::Name(name) => {
                    let _ = write!(text, "{}{name}", if place == 0 { " " } else { "." });
                }
                Step::Axes(count) => {
                    let indices: Vec<String> =
                        axes.by_ref().take(*count).map(|(at, (axis, span))| index(axis, *span, at, &prefix)).collect();
                    let _ = write!(text, "[{}]", indices.join(","));
                }
            }
        }
        text.push(';');
    }
    text + " }"
}

fn left(selection: &Selection, spans: &[Span], prefix: &str) -> String {
    let axes = selection.axes.iter().zip(spans).enumerate().filter(|(_, (axis, _))| !axis.dropped);
    let axes: Vec<String> = axes.map(|(at, (_, span))| format!("{prefix}{at}:{}", span.count)).collect();
    if axes.is_empty() { String::new() } else { format!(" [{}]", axes.join(",")) }
}

/// The index of the variable at each place of a span.
fn index(axis: &Axis, span: Span, at: usize, prefix: &str) -> String {
    let first = axis.index(span.first);
    match axis.step {
        _ if axis.dropped => first.to_string(),
        step if step < 0 => format!("{first}-{}*{prefix}{at}", step.unsigned_abs()),
        step => format!("{step}*{prefix}{at}+{first}"),
    }
}

/// Puts boxes, which lie one behind the other, together to one array.
fn join(fragment: &ReadFragment, selection: &Selection, boxes: &[Vec<Span>]) -> Result<Vec<u8>, Failure> {
    let size = selection.dtype.bytes();
    let mut joined = vec![0; selection.count() * size];
    for (variable, spans) in fragment.fragment().variables().iter().zip(boxes) {
        let mut from = variable.offset_bytes as usize;
        let (last, outer) = spans.split_last().ok_or_else(|| Failure::Problem("an array without axes".into()))?;
        let mut places = vec![0; outer.len()];
        loop {
            let outer_place = outer.iter().zip(&places).zip(&selection.axes);
            let row = outer_place.fold(0, |at, ((span, place), axis)| at * axis.count + span.first + place);
            let to = (row * selection.axes[outer.len()].count + last.first) * size;
            let bytes = last.count * size;
            joined[to..to + bytes].copy_from_slice(&fragment.bytes()[from..from + bytes]);
            from += bytes;
            let is_more = (0..places.len()).rev().any(|axis| {
                places[axis] = (places[axis] + 1) % outer[axis].count;
                places[axis] > 0
            });
            if !is_more {
                break;
            }
        }
    }
    Ok(joined)
}
