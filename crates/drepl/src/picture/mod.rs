//! Drawings of plans: which source gives which part of a wanted fragment, as text and as SVG.
//!
//! Leaves that get the same parts from the same sources are drawn as one panel. Axes are in the indices of the object;
//! where all elements have a common step, as in every fourth cell, only these are drawn. Up to two axes make a bar or a
//! map; of more, the leading ones are cut where anything changes, and each cut is a map of its own.

mod palette;
mod panel;
mod raster;
mod scale;
mod svg;
mod text;

use std::collections::HashMap;

use self::panel::Panel;
use crate::plan::Plan;

/// A drawing of a plan.
///
/// ```
/// use drepl::{Bindings, Program, Source, Wanted, picture::Picture, plan};
///
/// let schema = Program::parse("var line [32] float64")?.bind(&Bindings::new())?;
/// let block = schema.fragment("{ var b[x:16] = line[x] }", &Bindings::new())?;
/// let sources = [Source { fragment: block, version: 0, cost: 0, readable: true }];
/// let wanted = schema.fragment("{ var w[x:8] = line[x+12] }", &Bindings::new())?;
///
/// let plan = plan(&Wanted::newest(&wanted), &sources)?;
/// let text = Picture::new(&plan).names(["left"]).text();
/// assert!(text.contains("AAAA") && text.contains("left"), "{text}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Picture {
    title: String,
    sources: Vec<Source>,
    panels: Vec<Panel>,
    missing_elements: u128,
}

/// A source that gives something.
#[derive(Debug, Clone)]
struct Source {
    /// Position in the list that was planned with.
    position: usize,
    name: String,
    elements: u128,
    bytes: u64,
    /// Index of its colour: not that of any source that it touches, as far as there are colours.
    colour: usize,
}

impl Picture {
    /// The drawing of a plan.
    pub fn new(plan: &Plan) -> Self {
        let mut sources: Vec<Source> = Vec::new();
        let mut entries: HashMap<usize, usize> = HashMap::new();
        for piece in &plan.pieces {
            let entry = *entries.entry(piece.source).or_insert_with(|| {
                let name = format!("source {}", piece.source);
                let found = plan.transfers.binary_search_by_key(&piece.source, |transfer| transfer.0);
                let bytes = found.map_or(0, |place| plan.transfers[place].1.moved_bytes());
                sources.push(Source { position: piece.source, name, elements: 0, bytes, colour: 0 });
                sources.len() - 1
            });
            sources[entry].elements += u128::from(piece.elements.count());
        }
        let panels = panel::panels(plan, &entries);
        let colours = palette::colours(sources.len(), &panels);
        for (source, colour) in sources.iter_mut().zip(colours) {
            source.colour = colour;
        }
        let missing_elements = plan.missing.iter().map(|missing| missing.elements.count()).sum();
        Self { title: String::new(), sources, panels, missing_elements }
    }

    /// What the wanted fragment is called.
    pub fn title(self, title: impl Into<String>) -> Self {
        Self { title: title.into(), ..self }
    }

    /// What the sources are called, in the order of the list that was planned with.
    pub fn names(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        for source in &mut self.sources {
            if let Some(name) = names.get(source.position) {
                source.name.clone_from(name);
            }
        }
        self
    }

    /// The drawing in characters, at most about 100 of them wide: each source has a letter.
    pub fn text(&self) -> String {
        text::draw(self)
    }

    /// The drawing as an SVG document: each source has a colour.
    pub fn svg(&self) -> String {
        svg::draw(self)
    }

    fn elements(&self) -> u128 {
        self.sources.iter().map(|source| source.elements).sum::<u128>() + self.missing_elements
    }
}

/// `1 element`, `12 elements`.
fn amount(number: u128, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
