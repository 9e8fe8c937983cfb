//! From a wanted fragment and those that exist to a plan.
//!
//! ```
//! use drepl::{Bindings, Program, Source, Wanted, executor::Executor, plan};
//!
//! let schema = Program::parse("var grid [32,32] float64")?.bind(&Bindings::new())?;
//! let block = schema.fragment("{ var g[x:16,y:32] = grid[x,y] }", &Bindings::new())?;
//! let bytes = vec![1; block.size_bytes() as usize];
//! let sources = [Source { fragment: block, version: 7, cost: 0, readable: true }];
//!
//! // Two rows: the last of the block, and one that nobody has.
//! let rows = schema.fragment("{ var rows[x:2,y:32] = grid[x+15,y] }", &Bindings::new())?;
//! let plan = plan(&Wanted::newest(&rows), &sources)?;
//! assert_eq!(plan.missing[0].to_string(), "grid[16, 0..32]");
//!
//! let mut destination = vec![0; rows.size_bytes() as usize];
//! for (source, transfer) in &plan.transfers {
//!     assert_eq!(*source, 0);
//!     Executor::new(1).run(transfer, &bytes, &mut destination)?;
//! }
//! assert_eq!(destination, [[1; 256], [0; 256]].concat());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{cmp::Reverse, collections::HashMap, ops::RangeInclusive, sync::Arc};

use smallvec::SmallVec;

use crate::{
    cover::{Budget, cover},
    dataset::{Dataset, LeafId},
    fragment::{Fragment, Part},
    index_box::{IndexBox, TooScattered},
    index_set::{IndexSet, PAIRED_MAX, are_disjoint},
    plan::{Missing, Piece, Plan},
    transfer::{Axes, Axis, Conversion, Float, Move, Number, Transfer, TransferError},
    tree::Tree,
};

/// A fragment that exists.
#[derive(Debug, Clone)]
pub struct Source {
    /// What it holds, and where.
    pub fragment: Arc<Fragment>,
    /// The version of its elements.
    pub version: u64,
    /// What reading from it costs, in any unit: of sources of one version, the cheapest is taken.
    pub cost: u64,
    /// Whether it can be read at all.
    pub readable: bool,
}

/// A fragment to be made.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    /// What it is to hold, and where.
    pub fragment: &'a Fragment,
    /// Which versions of its elements will do; the newest of them is taken, for each element.
    pub versions: RangeInclusive<u64>,
}

impl<'a> Wanted<'a> {
    /// The fragment in the newest versions there are.
    pub fn newest(fragment: &'a Fragment) -> Self {
        Self { fragment, versions: 0..=u64::MAX }
    }

    /// Whether elements of the source will do.
    fn accepts(&self, source: &Source) -> bool {
        source.readable && self.versions.contains(&source.version)
    }
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Elements of different datasets have nothing to do with each other, whatever they are called.
    #[error(
        "{} of another dataset: fragments that have to do with each other are described in one text, or in equal ones",
        position.map_or_else(|| "the fragments of the index are".to_owned(), |at| format!("fragment {at} is"))
    )]
    Dataset {
        /// Position of the source; `None` for those of an index together.
        position: Option<usize>,
    },
    /// Too many boxes.
    #[error(transparent)]
    TooScattered(#[from] TooScattered),
    /// The wanted fragment has two elements in the same bytes.
    #[error("no plan can fill the wanted fragment: {0}")]
    Transfer(#[from] TransferError),
}

/// Wanted parts of one leaf from which on a tree of the sources' parts is worth building.
const PARTS_FOR_A_TREE: usize = 16;

/// How to make the wanted fragment from the sources, each element from the newest that can be read and whose version is
/// wanted, of those from the cheapest, and of those from the first.
///
/// Looks at every source: against many thousands of them, or for many plans against the same ones, see
/// [`Index`](crate::index::Index).
///
/// # Errors
///
/// All have to be of one dataset. What no source has is no error, but in [`Plan::missing`].
pub fn plan(wanted: &Wanted<'_>, sources: &[Source]) -> Result<Plan, PlanError> {
    let mut same = wanted.fragment.dataset();
    let mut near = Vec::new();
    for (position, source) in sources.iter().enumerate() {
        let own = source.fragment.dataset();
        if !Arc::ptr_eq(own, same) {
            if own != same {
                return Err(PlanError::Dataset { position: Some(position) });
            }
            // Fragments of one text share their dataset: what follows will be of the same again.
            same = own;
        }
        if wanted.accepts(source) && source.fragment.meets(wanted.fragment) {
            near.push(position);
        }
    }
    // Position of the source, position of the part in it, and the part's elements.
    let parts_of = |leaf| {
        near.iter().flat_map(move |position| {
            let (first, parts) = sources[*position].fragment.parts_of(leaf);
            parts.iter().enumerate().map(move |(number, part)| (*position, first + number, &part.elements))
        })
    };
    let mut tree: Option<(LeafId, Tree<(usize, usize)>)> = None;
    plan_with(wanted, |leaf, elements, found| {
        if wanted.fragment.parts_of(leaf).1.len() >= PARTS_FOR_A_TREE {
            let tree = match &tree {
                Some((of, tree)) if *of == leaf => tree,
                _ => &tree.insert((leaf, Tree::new(parts_of(leaf).map(|(source, part, own)| ((source, part), own))))).1,
            };
            tree.search(elements, |(source, part)| found(*source, &sources[*source], *part));
            return;
        }
        for (source, part, own) in parts_of(leaf) {
            if own.meets(elements) {
                found(source, &sources[source], part);
            }
        }
    })
}

pub(crate) fn same_dataset(a: &Arc<Dataset>, b: &Arc<Dataset>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

/// A part of a source that may have wanted elements.
struct Candidate<'a> {
    position: usize,
    source: &'a Source,
    part: usize,
}

/// What is moved to a part, from a part of a source.
struct Found<'a> {
    position: usize,
    source: &'a Source,
    held: &'a Part,
    elements: IndexBox,
}

/// Plans with whatever finds the sources' parts of a leaf that meet a box: it calls back with the position of the
/// source, the source, and the position of the part in it.
pub(crate) fn plan_with<'a>(
    wanted: &Wanted<'_>,
    mut find: impl FnMut(LeafId, &IndexBox, &mut dyn FnMut(usize, &'a Source, usize)),
) -> Result<Plan, PlanError> {
    let mut pieces = Vec::new();
    let mut moves: Vec<(usize, Carried)> = Vec::new();
    let mut missing = Vec::new();
    let mut names = Vec::new();
    let mut budget = Budget::of(0);
    let dataset = wanted.fragment.dataset();
    let mut number = 0;
    for (leaf, parts) in wanted.fragment.leaves() {
        let name = dataset.leaf_name(leaf);
        let mut nowhere = Vec::new();
        let mut own: Option<Tree<usize>> = None;
        // Parts of a fragment that nobody writes to may hold the same elements, many times over: of those the first one is looked for.
        let mut known: HashMap<&IndexBox, Vec<Found<'_>>> = HashMap::new();
        for (position, part) in parts.iter().enumerate() {
            if let Some(found) = known.get(&part.elements) {
                for Found { position: source, source: Source { version, .. }, held, elements } in found {
                    moves.push((*source, carry(elements, held, part)));
                    let elements = elements.clone();
                    pieces.push(Piece { source: *source, version: *version, leaf, elements, part: number });
                }
                number += 1;
                continue;
            }
            let mut candidates: Vec<Candidate<'_>> = Vec::new();
            find(leaf, &part.elements, &mut |position, source, part| {
                if wanted.accepts(source) {
                    candidates.push(Candidate { position, source, part });
                }
            });
            candidates.sort_unstable_by_key(|c| (Reverse(c.source.version), c.source.cost, c.position, c.part));
            let held: SmallVec<[&Part; 8]> = candidates.iter().map(|c| &c.source.fragment.parts()[c.part]).collect();
            let boxes: SmallVec<[&IndexBox; 8]> = held.iter().map(|part| &part.elements).collect();
            budget.grant(1 + boxes.len());
            let mut covered = cover(&part.elements, &boxes, &mut budget)?;
            let mut found = Vec::new();
            for (candidate, elements) in covered.pieces {
                let Candidate { position: source, source: of, .. } = candidates[candidate];
                moves.push((source, carry(&elements, held[candidate], part)));
                pieces.push(Piece { source, version: of.version, leaf, elements: elements.clone(), part: number });
                found.push(Found { position: source, source: of, held: held[candidate], elements });
            }
            if parts.len() > 1 {
                known.insert(&part.elements, found);
            }
            // Others may hold some of the same elements: what earlier ones lack is known.
            if position > 0 && !covered.missing.is_empty() {
                let own = own.get_or_insert_with(|| Tree::new(parts.iter().map(|part| &part.elements).enumerate()));
                let mut before = Vec::new();
                own.search(&part.elements, |at| before.extend((*at < position).then(|| &parts[*at].elements)));
                budget.grant(before.len());
                for one in std::mem::take(&mut covered.missing) {
                    covered.missing.append(&mut cover(&one, &before, &mut budget)?.missing);
                }
            }
            nowhere.append(&mut covered.missing);
            number += 1;
        }
        if !nowhere.is_empty() {
            let elements = IndexSet::of_disjoint(nowhere);
            // Whoever reads an encoded plan has to be able to tell.
            if elements.boxes().len() > PAIRED_MAX && !are_disjoint(elements.boxes())? {
                return Err(TooScattered.into());
            }
            missing.push(Missing { leaf, name: name.clone(), elements });
        }
        names.push((leaf, name));
    }
    pieces.sort_by_key(|piece| piece.source);
    let transfers = transfers(moves)?;
    Ok(Plan { pieces, missing, transfers, names })
}

/// How elements come from one part into another.
pub(crate) enum Carried {
    Moved(Move),
    Converted(Conversion),
}

/// One transfer per position, with all that is carried; sorted by position.
pub(crate) fn transfers(mut all: Vec<(usize, Carried)>) -> Result<Vec<(usize, Transfer)>, TransferError> {
    all.sort_by_key(|(position, _)| *position);
    let mut transfers = Vec::new();
    let mut rest = all.into_iter().peekable();
    while let Some((position, _)) = rest.peek() {
        let position = *position;
        let (mut moves, mut conversions) = (Vec::new(), Vec::new());
        while let Some((_, next)) = rest.next_if(|(other, _)| *other == position) {
            match next {
                Carried::Moved(one) => moves.push(one),
                Carried::Converted(one) => conversions.push(one),
            }
        }
        transfers.push((position, Transfer::converting(moves, conversions)?));
    }
    Ok(transfers)
}

/// The bytes of elements that both parts hold. Everything fits: each part lies within its fragment, and `elements`
/// within both.
pub(crate) fn carry(elements: &IndexBox, source: &Part, wanted: &Part) -> Carried {
    let (from, from_strides) = place(elements, source);
    let (to, to_strides) = place(elements, wanted);
    let axes = elements.axes().iter().zip(from_strides.iter().zip(&to_strides));
    let axes = axes.map(|(axis, (from, to))| Axis { count: axis.count(), from_bytes: *from, to_bytes: *to });
    let mut axes: Axes = axes.collect();
    let primitive = wanted.primitive;
    if source.primitive != primitive
        // Parts of one leaf are of types that are converted into each other: no fragment is made of others.
        && let (Some((held, count)), Some((float, _))) = (Float::of(source.primitive), Float::of(primitive))
    {
        let (from_bytes, to_bytes) = (held.size_bytes() as i64, float.size_bytes() as i64);
        axes.push(Axis { count, from_bytes, to_bytes });
        return Carried::Converted(Conversion {
            from,
            to,
            source: Number { float: held, byte_order: source.byte_order },
            destination: Number { float, byte_order: wanted.byte_order },
            written: 0..float.size_bytes() as u8,
            axes,
        });
    }
    let swaps = source.byte_order != wanted.byte_order;
    let swap_bytes = if swaps { primitive.word_bytes() as u8 } else { 1 };
    Carried::Moved(Move { from, to, run_bytes: primitive.size_bytes(), swap_bytes, axes })
}

/// Where the first of the elements lies in a part that holds them all, and how far they are from each other.
fn place(elements: &IndexBox, part: &Part) -> (u64, SmallVec<[i64; 4]>) {
    let mut offset = part.offset_bytes as i64;
    let axes = elements.axes().iter().zip(part.elements.axes().iter().zip(&part.strides_bytes));
    let strides = axes.map(|(own, (held, stride))| {
        offset += ((own.start() - held.start()) / held.step()) as i64 * stride;
        if own.count() == 1 { 0 } else { (own.step() / held.step()) as i64 * stride }
    });
    let strides = strides.collect();
    (offset as u64, strides)
}
