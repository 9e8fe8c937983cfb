//! What is drawn together: leaves with the same pieces, and the planes that they are cut into.

use std::collections::{BTreeSet, HashMap};

use super::amount;
use crate::{index_box::IndexBox, plan::Plan, progression::Progression};

/// Planes that are looked at; a drawing shows fewer still.
const PLANES_MAX: usize = 256;

/// Places along an axis at which anything changes, beyond which nobody could tell them apart.
const CUTS_MAX: usize = 512;

/// Pieces that are compared with each other, for colours that tell them apart; more would take too long.
const COMPARISONS_MAX: usize = 10_000_000;

/// Leaves that get the same elements from the same sources.
#[derive(Debug, Clone)]
pub struct Panel {
    /// What the leaves are called.
    pub names: Vec<String>,
    /// Elements of each leaf.
    pub elements: u128,
    /// What each leaf gets, and what it does not.
    pub pieces: Vec<Piece>,
    /// Of the leaves, outermost first.
    pub axes: Vec<Axis>,
    /// Maps of the last two axes along which there are several elements, or one bar.
    pub planes: Vec<Plane>,
    /// How many planes there are beside them.
    pub planes_left_out: usize,
}

/// Elements from one source, or missing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Position among the sources that give something; `None` for what is missing.
    pub source: Option<usize>,
    /// Which elements.
    pub elements: IndexBox,
}

/// The indices of an axis that are drawn, a place for each: `origin + step * place`.
#[derive(Debug, Clone)]
pub struct Axis {
    /// Which axis of the leaf it is.
    pub number: usize,
    pub origin: u64,
    pub step: u64,
    /// How many places there are.
    pub count: u64,
}

/// A map of two axes, a bar with one row, or one place.
#[derive(Debug, Clone)]
pub struct Plane {
    /// Where it lies along the other axes; empty where there are none.
    pub label: String,
    pub patches: Vec<Patch>,
}

/// Places of one source in a plane.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Patch {
    pub source: Option<usize>,
    pub rows: Progression,
    pub columns: Progression,
}

/// All panels of a plan. `entries` are the positions of sources among those that give something.
pub fn panels(plan: &Plan, entries: &HashMap<usize, usize>) -> Vec<Panel> {
    let mut leaves: Vec<Vec<Piece>> = vec![Vec::new(); plan.names.len()];
    let place = |leaf| plan.names.binary_search_by_key(&leaf, |name| name.0).ok();
    for piece in &plan.pieces {
        if let (Some(leaf), Some(source)) = (place(piece.leaf), entries.get(&piece.source)) {
            leaves[leaf].push(Piece { source: Some(*source), elements: piece.elements.clone() });
        }
    }
    for missing in &plan.missing {
        if let Some(leaf) = place(missing.leaf) {
            let boxes = missing.elements.boxes().iter();
            leaves[leaf].extend(boxes.map(|elements| Piece { source: None, elements: elements.clone() }));
        }
    }
    let mut panels: Vec<Panel> = Vec::new();
    let mut known: HashMap<Vec<Piece>, usize> = HashMap::new();
    for (mut pieces, (_, name)) in leaves.into_iter().zip(&plan.names) {
        let starts = |piece: &Piece| piece.elements.axes().iter().map(Progression::start).collect::<Vec<_>>();
        pieces.sort_by_cached_key(|piece| (piece.source.is_none(), piece.source, starts(piece)));
        // A fragment that holds an element twice gets it twice.
        pieces.dedup();
        let rank = pieces.first().map_or(0, |piece| piece.elements.rank());
        pieces.retain(|piece| piece.elements.rank() == rank);
        if pieces.is_empty() {
            continue;
        }
        match known.get(&pieces) {
            Some(panel) => panels[*panel].names.push(name.clone()),
            None => {
                known.insert(pieces.clone(), panels.len());
                panels.push(Panel::new(name.clone(), pieces));
            }
        }
    }
    panels
}

impl Panel {
    fn new(name: String, pieces: Vec<Piece>) -> Self {
        let elements = pieces.iter().map(|piece| u128::from(piece.elements.count())).sum();
        let rank = pieces[0].elements.rank();
        let axes = (0..rank).map(|number| Axis::new(number, &pieces)).collect();
        let mut panel = Self { names: vec![name], elements, pieces, axes, planes: Vec::new(), planes_left_out: 0 };
        panel.cut();
        panel
    }

    /// The axes along which there are several elements; the others are in the heading.
    pub fn drawn(&self) -> Vec<&Axis> {
        self.axes.iter().filter(|axis| axis.count > 1).collect()
    }

    /// The axis that runs down, and that which runs to the right.
    pub fn map_axes(&self) -> (Option<&Axis>, Option<&Axis>) {
        let drawn = self.drawn();
        let mut last = drawn.iter().rev();
        let columns = last.next().copied();
        (last.next().copied(), columns)
    }

    /// What it is called: leaves, and the range that is wanted of them.
    pub fn heading(&self) -> String {
        const NAMES_MAX: usize = 4;
        let mut names = self.names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
        if self.names.len() > NAMES_MAX {
            names += &format!(" and {} more", self.names.len() - NAMES_MAX);
        }
        let ranges: Vec<String> = self.axes.iter().map(|axis| axis.range().to_string()).collect();
        let extents: Vec<String> = self.drawn().iter().map(|axis| axis.count.to_string()).collect();
        let space = if self.names.len() > 1 { " " } else { "" };
        let each = if self.names.len() > 1 { " each" } else { "" };
        match (&ranges[..], &extents[..]) {
            ([], _) => format!("{names}: 1 element{each}"),
            (_, [] | [_]) => {
                let elements = amount(self.elements, "element");
                format!("{names}{space}[{}]: {elements}{each}", ranges.join(", "))
            }
            _ => format!("{names}{space}[{}]: {}{each}", ranges.join(", "), extents.join(" × ")),
        }
    }

    /// Pairs of sources between whose pieces no element lies.
    pub fn touching(&self) -> Vec<(usize, usize)> {
        // Along the axis that tells most pieces apart, only those are compared that begin before the other one ends.
        let starts = |axis: &Axis| {
            let starts = self.pieces.iter().map(|piece| piece.elements.axes()[axis.number].start());
            starts.collect::<BTreeSet<_>>().len()
        };
        let along = self.axes.iter().max_by_key(|axis| starts(axis));
        let span = |piece: &Piece| {
            along.map_or((0, 0), |axis| {
                let places = axis.places(&piece.elements.axes()[axis.number]);
                (places.start(), places.end())
            })
        };
        let mut pieces: Vec<_> = self.pieces.iter().map(|piece| (span(piece), piece)).collect();
        pieces.sort_by_key(|piece| piece.0.0);
        let mut pairs = Vec::new();
        let mut left = COMPARISONS_MAX;
        for (position, ((_, end), one)) in pieces.iter().enumerate() {
            for (_, other) in pieces[position + 1..].iter().take_while(|piece| piece.0.0 <= *end) {
                let Some(less) = left.checked_sub(1) else { return pairs };
                left = less;
                if let (Some(a), Some(b)) = (one.source, other.source)
                    && a != b
                    && self.touch(one, other)
                {
                    pairs.push((a, b));
                }
            }
        }
        pairs
    }

    /// Whether no element lies between two pieces.
    fn touch(&self, one: &Piece, other: &Piece) -> bool {
        let axes = one.elements.axes().iter().zip(other.elements.axes());
        axes.zip(&self.axes).all(|((a, b), axis)| {
            let (a, b) = (axis.places(a), axis.places(b));
            a.start() <= b.end() && b.start() <= a.end()
        })
    }

    /// Cuts the leading axes where anything changes. Equal planes are one.
    fn cut(&mut self) {
        let drawn: Vec<usize> = self.drawn().iter().map(|axis| axis.number).collect();
        let leading = &drawn[..drawn.len().saturating_sub(2)];
        let segments: Vec<Vec<Progression>> = leading.iter().map(|axis| self.segments(*axis)).collect();
        let all: usize = segments.iter().map(Vec::len).fold(1, usize::saturating_mul);
        let mut known: HashMap<Vec<Patch>, usize> = HashMap::new();
        let mut labels: Vec<Vec<String>> = Vec::new();
        for number in 0..all.min(PLANES_MAX) {
            let mut rest = number;
            let mut at: Vec<Progression> = Vec::new();
            for segments in segments.iter().rev() {
                at.push(segments[rest % segments.len()]);
                rest /= segments.len();
            }
            at.reverse();
            let patches = self.patches(leading, &at);
            // Where nothing is wanted there is nothing to draw.
            if patches.is_empty() {
                continue;
            }
            let ranges: Vec<String> =
                leading.iter().zip(&at).map(|(axis, places)| self.axes[*axis].indices(places).to_string()).collect();
            let label = ranges.join(", ");
            match known.get(&patches) {
                Some(plane) => labels[*plane].push(label),
                None => {
                    known.insert(patches.clone(), self.planes.len());
                    self.planes.push(Plane { label: String::new(), patches });
                    labels.push(vec![label]);
                }
            }
        }
        self.planes_left_out = all.saturating_sub(PLANES_MAX);
        if leading.is_empty() {
            return;
        }
        for (plane, labels) in self.planes.iter_mut().zip(labels) {
            const LABELS_MAX: usize = 3;
            plane.label = labels.iter().take(LABELS_MAX).cloned().collect::<Vec<_>>().join(" and ");
            if labels.len() > LABELS_MAX {
                plane.label += " …";
            }
        }
    }

    /// Ranges of places between which nothing changes along an axis.
    fn segments(&self, axis: usize) -> Vec<Progression> {
        let along = &self.axes[axis];
        let cuts = cuts(self.pieces.iter().map(|piece| along.places(&piece.elements.axes()[axis])), along.count);
        let cuts: Vec<u64> = cuts.unwrap_or_else(|| (0..=along.count.min(PLANES_MAX as u64)).collect());
        cuts.windows(2).filter_map(|pair| Progression::range(pair[0], pair[1])).collect()
    }

    /// What there is of each piece where the leading axes have these places.
    fn patches(&self, leading: &[usize], at: &[Progression]) -> Vec<Patch> {
        let (rows, columns) = self.map_axes();
        let one = Progression::all(1).expect("one is not none");
        let along = |piece: &Piece, axis: Option<&Axis>| {
            axis.map_or(one, |axis| axis.places(&piece.elements.axes()[axis.number]))
        };
        let mut patches = Vec::new();
        for piece in &self.pieces {
            let mut leading = leading.iter().zip(at);
            let held = |(axis, place): (&usize, &Progression)| {
                self.axes[*axis].places(&piece.elements.axes()[*axis]).contains(place.start())
            };
            if leading.all(held) {
                let (rows, columns) = (along(piece, rows), along(piece, columns));
                patches.push(Patch { source: piece.source, rows, columns });
            }
        }
        patches
    }
}

impl Patch {
    /// What lies in the first rows and columns.
    pub fn within(&self, rows: u64, columns: u64) -> Option<Self> {
        Some(Self { source: self.source, rows: self.rows.clip(0, rows)?, columns: self.columns.clip(0, columns)? })
    }
}

impl Axis {
    fn new(number: usize, pieces: &[Piece]) -> Self {
        let along = || pieces.iter().map(|piece| &piece.elements.axes()[number]);
        let origin = along().map(Progression::start).min().unwrap_or(0);
        let last = along().map(Progression::last).max().unwrap_or(0);
        let step = along().fold(0, |step, axis| {
            let own = if axis.count() > 1 { axis.step() } else { 0 };
            greatest_divisor(greatest_divisor(step, own), axis.start() - origin)
        });
        let step = step.max(1);
        Self { number, origin, step, count: (last - origin) / step + 1 }
    }

    /// All its indices.
    pub fn range(&self) -> Progression {
        Progression::new(self.origin, self.step, self.count).expect("pieces lie between its first and last index")
    }

    /// The index at a place, or behind the last one.
    pub fn index(&self, place: u64) -> u64 {
        if place == self.count { self.range().end() } else { self.origin + place * self.step }
    }

    /// Where indices of a piece lie.
    fn places(&self, indices: &Progression) -> Progression {
        let step = if indices.count() > 1 { indices.step() / self.step } else { 1 };
        let start = (indices.start() - self.origin) / self.step;
        Progression::new(start, step, indices.count()).expect("places are fewer than indices")
    }

    /// The indices at places.
    fn indices(&self, places: &Progression) -> Progression {
        let step = places.step() * self.step;
        Progression::new(self.index(places.start()), step, places.count()).expect("they are indices of the axis")
    }
}

/// Places at which a patch begins or ends, with 0 and `count`; `None` where there are too many.
pub fn cuts(patches: impl Iterator<Item = Progression>, count: u64) -> Option<Vec<u64>> {
    let mut cuts = BTreeSet::from([0, count]);
    for places in patches {
        if places.step() == 1 {
            cuts.extend([places.start(), places.end()]);
        } else if places.count() > CUTS_MAX as u64 {
            return None;
        } else {
            cuts.extend(places.iter().flat_map(|place| [place, place + 1]));
        }
        if cuts.len() > CUTS_MAX {
            return None;
        }
    }
    Some(cuts.into_iter().collect())
}

fn greatest_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}
