//! Sets of elements of one leaf that one progression per axis spans: boxes with strides.

use std::{collections::HashMap, fmt};

use smallvec::SmallVec;

use crate::progression::{self, Progression};

/// The most boxes that a set may consist of. Boxes of many different steps cut each other into ever more pieces; an
/// operation that would need more than this is refused before it fills the memory.
pub const BOXES_MAX: usize = 1 << 20;

/// An operation would have needed more than [`BOXES_MAX`] boxes, or many times the steps that as many blocks of a
/// decomposition take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the elements lie too scattered: strides that do not divide each other cut them into very many pieces, and telling \
     these apart was given up after far more steps than blocks take; plan a part of what is wanted at a time, or against \
     fewer fragments"
)]
pub struct TooScattered;

/// The product of one progression per axis of a leaf. Without axes it is the one element of a scalar.
///
/// The number of its elements fits a `u64`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "RawBox")]
pub struct IndexBox {
    axes: SmallVec<[Progression; 4]>,
}

/// A box as it comes from outside: the number of its elements is not known to fit.
#[derive(serde::Deserialize)]
struct RawBox {
    axes: SmallVec<[Progression; 4]>,
}

impl TryFrom<RawBox> for IndexBox {
    type Error = &'static str;

    fn try_from(raw: RawBox) -> Result<Self, Self::Error> {
        Self::new(raw.axes).ok_or("a box of more elements than 64 bits count")
    }
}

impl IndexBox {
    /// The box that the progressions span. `None` where it has more elements than a `u64` counts.
    pub fn new(axes: impl IntoIterator<Item = Progression>) -> Option<Self> {
        let axes: SmallVec<[Progression; 4]> = axes.into_iter().collect();
        axes.iter().try_fold(1_u64, |count, axis| count.checked_mul(axis.count()))?;
        Some(Self { axes })
    }

    /// All elements of a leaf of these extents: `None` where an extent is 0 or there are more than a `u64` counts.
    pub fn all(extents: &[u64]) -> Option<Self> {
        let axes: Option<SmallVec<[_; 4]>> = extents.iter().map(|extent| Progression::all(*extent)).collect();
        Self::new(axes?)
    }

    /// One progression per axis of the leaf, outermost first.
    pub fn axes(&self) -> &[Progression] {
        &self.axes
    }

    /// The number of axes; 0 for a scalar.
    pub fn rank(&self) -> usize {
        self.axes.len()
    }

    /// The number of elements: at least 1.
    pub fn count(&self) -> u64 {
        self.axes.iter().map(Progression::count).product()
    }

    /// Whether it holds the element of these indices, one per axis.
    pub fn contains(&self, indices: &[u64]) -> bool {
        self.rank() == indices.len() && self.axes.iter().zip(indices).all(|(axis, index)| axis.contains(*index))
    }

    /// Whether it holds every element of `other`.
    pub fn contains_all(&self, other: &Self) -> bool {
        self.rank() == other.rank() && self.axes.iter().zip(&other.axes).all(|(a, b)| a.contains_all(b))
    }

    /// Whether the smallest boxes without steps around the two share an element: what is cheap to know before
    /// [`intersection`](Self::intersection).
    #[inline]
    pub fn meets(&self, other: &Self) -> bool {
        self.rank() == other.rank() && self.axes.iter().zip(&other.axes).all(|(a, b)| a.meets(b))
    }

    /// The elements in both: a box again, or `None` where there are none. Boxes of different ranks share none.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        if !self.meets(other) {
            return None;
        }
        let axes: Option<SmallVec<_>> = self.axes.iter().zip(&other.axes).map(|(a, b)| a.intersection(b)).collect();
        Some(Self { axes: axes? })
    }

    /// The elements with indices from `low` up to and without `high` along one axis.
    pub(crate) fn clip(&self, axis: usize, low: u64, high: u64) -> Option<Self> {
        self.axes[axis].clip(low, high).map(|clipped| self.with(axis, clipped))
    }

    /// The same box with another progression along one axis, of which the caller knows that it is a part of the present.
    pub(crate) fn with(&self, axis: usize, progression: Progression) -> Self {
        let mut changed = self.clone();
        changed.axes[axis] = progression;
        changed
    }

    /// Appends the elements that `other` does not have to `rest`, as boxes that share none.
    pub fn difference(&self, other: &Self, rest: &mut Vec<Self>) -> Result<(), TooScattered> {
        match self.intersection(other) {
            Some(common) => self.without(&common, rest, BOXES_MAX),
            None => push(rest, self.clone(), BOXES_MAX),
        }
    }

    /// Appends the elements that are not in `part`, which lies within this box, unless there would be more than `boxes_max`.
    pub(crate) fn without(&self, part: &Self, rest: &mut Vec<Self>, boxes_max: usize) -> Result<(), TooScattered> {
        let mut inner = self.clone();
        for (axis, cut) in part.axes.iter().enumerate() {
            for outside in self.axes[axis].difference(cut) {
                push(rest, inner.with(axis, outside), boxes_max)?;
            }
            inner.axes[axis] = *cut;
        }
        Ok(())
    }
}

fn push(boxes: &mut Vec<IndexBox>, one: IndexBox, boxes_max: usize) -> Result<(), TooScattered> {
    if boxes.len() >= boxes_max {
        return Err(TooScattered);
    }
    boxes.push(one);
    Ok(())
}

/// As slices, outermost axis first: `0..16, 32..63 step 2`. Nothing for a scalar.
impl fmt::Display for IndexBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, axis) in self.axes.iter().enumerate() {
            write!(f, "{}{axis}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Brings boxes that share no element into fewer with the same elements: those that differ along one axis alone become
/// one where their progressions do, axis after axis until nothing changes.
pub(crate) fn coalesce(mut boxes: Vec<IndexBox>) -> Vec<IndexBox> {
    let rank = boxes.first().map_or(0, IndexBox::rank);
    // Innermost first: what lies together in the order of the indices is what people expect in one range.
    let mut axis = 0;
    let mut unchanged = 0;
    while boxes.len() > 1 && unchanged < rank {
        let before = boxes.len();
        boxes = coalesce_along(boxes, rank - 1 - axis);
        unchanged = if boxes.len() < before { 1 } else { unchanged + 1 };
        axis = (axis + 1) % rank;
    }
    boxes.sort_unstable_by(|a, b| a.axes.iter().map(Progression::start).cmp(b.axes.iter().map(Progression::start)));
    boxes
}

fn coalesce_along(boxes: Vec<IndexBox>, axis: usize) -> Vec<IndexBox> {
    let mut groups: HashMap<IndexBox, Vec<Progression>> = HashMap::with_capacity(boxes.len());
    for one in boxes {
        // The box without its progression along the axis is what all of a group have in common.
        let own = one.axes[axis];
        let others = one.with(axis, Progression::new(0, 1, 1).expect("one index is a progression"));
        groups.entry(others).or_default().push(own);
    }
    let mut joined = Vec::with_capacity(groups.len());
    for (others, mut own) in groups {
        progression::coalesce(&mut own);
        joined.extend(own.into_iter().map(|one| others.with(axis, one)));
    }
    joined
}
