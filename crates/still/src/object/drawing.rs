//! Which process has which part of an object, drawn.

use super::summary;
use crate::failure::Failure;
use crate::table::sanitize;
use ::drepl::picture::Picture;
use ::drepl::{Bindings, Dataset, Fragment, IndexBox, Plan, Source, Wanted, plan};
use std::fmt::Write;
use std::sync::Arc;
use stillframe_object::{Object, WriterInfo};

/// Boxes of elements that a line names.
const BOXES_MAX: usize = 3;

/// Boxes that are compared with each other; fields of one record lie together.
const COMPARED_MAX: usize = 64;

/// Who has what of an object.
pub struct Drawing {
    plan: Plan,
    names: Vec<String>,
    title: String,
}

impl Drawing {
    /// Of those who write a version, or of those who are attached now, or else of the last ones who were.
    pub fn new(object: &Object, infos: &[WriterInfo], version: Option<u64>, newest: u64) -> Result<Drawing, Failure> {
        let writes =
            |info: &&WriterInfo, version: u64| info.from <= version && info.left.is_none_or(|left| left > version);
        let has_left = infos.iter().all(|info| info.left.is_some());
        let chosen = |info: &&WriterInfo| match version {
            Some(version) => writes(info, version),
            None if has_left => writes(info, newest),
            None => info.left.is_none(),
        };
        let writers: Vec<&WriterInfo> = infos.iter().filter(chosen).collect();
        let sources: Vec<Source> = writers
            .iter()
            .map(|info| Source { fragment: info.fragment.clone(), version: 0, cost: 0, readable: true })
            .collect();
        let whole = whole(object)?;
        let plan = plan(&Wanted::newest(&whole), &sources).map_err(|error| Failure::Problem(error.to_string()))?;
        let name = |info: &&WriterInfo| match summary::state(info) {
            "alive" => info.who.to_string(),
            state => format!("{}, {state}", info.who),
        };
        Ok(Drawing { plan, names: writers.iter().map(name).collect(), title: sanitize(object.name()) })
    }

    /// For a terminal and for a file.
    pub fn picture(&self) -> Picture {
        Picture::new(&self.plan).title(&self.title).names(&self.names)
    }

    /// What no writer has, as `grid[0..4, 0..8]`.
    pub fn missing(&self) -> Vec<String> {
        self.plan.missing.iter().map(ToString::to_string).collect()
    }
}

/// All of an object.
fn whole(object: &Object) -> Result<Arc<Fragment>, Failure> {
    let names = object.schema().dataset().objects().iter().map(|variable| &variable.name);
    let text: String = names.map(|name| format!(" var {name} = {name};")).collect();
    let fragment = object.schema().fragment(&format!("{{{text} }}"), &Bindings::new());
    fragment.map_err(|mistakes| Failure::Problem(mistakes.to_string()))
}

/// The elements of a fragment, for people: `grid[0..4, 0..8]`. Fields of records that are all there are not named.
pub fn elements(fragment: &Fragment) -> String {
    let dataset = fragment.dataset();
    let mut groups: Vec<(&IndexBox, Vec<u32>)> = Vec::new();
    for part in fragment.parts() {
        match groups.iter_mut().take(COMPARED_MAX).find(|(elements, _)| **elements == part.elements) {
            Some((_, leaves)) => leaves.push(part.leaf.0),
            None => groups.push((&part.elements, vec![part.leaf.0])),
        }
    }
    let mut text = String::new();
    for (position, (elements, leaves)) in groups.iter().take(BOXES_MAX).enumerate() {
        let range = if elements.rank() == 0 { String::new() } else { format!("[{elements}]") };
        // Writing to a text does not fail.
        let _ = write!(text, "{}{}{range}", if position == 0 { "" } else { ", " }, names(dataset, leaves));
    }
    match groups.len().saturating_sub(BOXES_MAX) {
        0 => text,
        more => format!("{text} and {more} more boxes"),
    }
}

/// What leaves are called together.
fn names(dataset: &Dataset, leaves: &[u32]) -> String {
    let mut names: Vec<String> = Vec::new();
    for (number, variable) in dataset.objects().iter().enumerate() {
        let all: Vec<u32> = dataset.leaves_of(number as u32).map(|(id, _)| id.0).collect();
        if all.iter().all(|leaf| leaves.contains(leaf)) {
            names.push(variable.name.to_string());
        } else {
            let own = all.iter().filter(|leaf| leaves.contains(leaf));
            names.extend(own.map(|leaf| dataset.leaf_name(::drepl::dataset::LeafId(*leaf))));
        }
    }
    match names.as_slice() {
        [one] => one.clone(),
        names => format!("{{{}}}", names.join(", ")),
    }
}
