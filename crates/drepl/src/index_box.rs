//! Sets of elements of one leaf: boxes with strides, and their unions.

use std::{borrow::Borrow, collections::HashMap, fmt};

use smallvec::SmallVec;

use crate::{
    cover::{Budget, cover},
    progression::{self, Progression},
    tree::{Tree, each_overlap},
};

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

/// A set of elements of one leaf: boxes that share no element.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct IndexSet {
    boxes: Vec<IndexBox>,
}

impl From<IndexBox> for IndexSet {
    fn from(one: IndexBox) -> Self {
        Self { boxes: vec![one] }
    }
}

impl IndexSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The boxes' elements. They may share some; those of another rank than the first are left out, being of another leaf.
    pub fn of(boxes: impl IntoIterator<Item: Borrow<IndexBox>>) -> Result<Self, TooScattered> {
        let given: Vec<_> = boxes.into_iter().collect();
        let boxes: Vec<&IndexBox> = given.iter().map(Borrow::borrow).collect();
        let Some(around) = hull(&boxes) else {
            let mut set = Self::new();
            boxes.iter().try_for_each(|one| set.insert(one))?;
            return Ok(set);
        };
        let pieces = cover(&around, &boxes, &mut Budget::of(boxes.len()))?.pieces;
        Ok(Self::of_disjoint(pieces.into_iter().map(|piece| piece.1).collect()))
    }

    /// The set of boxes that are known to share no element, in as few boxes as [`coalesce`] finds.
    pub(crate) fn of_disjoint(boxes: Vec<IndexBox>) -> Self {
        Self { boxes: coalesce(boxes) }
    }

    /// Boxes that share no element and have all of the set's.
    pub fn boxes(&self) -> &[IndexBox] {
        &self.boxes
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.boxes.is_empty()
    }

    /// The number of elements.
    pub fn count(&self) -> u128 {
        self.boxes.iter().map(|one| u128::from(one.count())).sum()
    }

    /// Whether it holds the element of these indices, one per axis.
    pub fn contains(&self, indices: &[u64]) -> bool {
        self.boxes.iter().any(|one| one.contains(indices))
    }

    /// Adds a box.
    pub fn insert(&mut self, one: &IndexBox) -> Result<(), TooScattered> {
        let present: Vec<&IndexBox> = self.boxes.iter().collect();
        let mut new = cover(one, &present, &mut Budget::of(present.len()))?.missing;
        if self.boxes.len() + new.len() > BOXES_MAX {
            return Err(TooScattered);
        }
        self.boxes.append(&mut new);
        Ok(())
    }

    /// Takes a box away.
    pub fn remove(&mut self, one: &IndexBox) -> Result<(), TooScattered> {
        let mut rest = Vec::with_capacity(self.boxes.len());
        for present in &self.boxes {
            present.difference(one, &mut rest)?;
        }
        self.boxes = rest;
        Ok(())
    }

    /// The elements in either.
    pub fn union(&self, other: &Self) -> Result<Self, TooScattered> {
        Self::of(self.boxes.iter().chain(&other.boxes))
    }

    /// The elements in both.
    pub fn intersection(&self, other: &Self) -> Result<Self, TooScattered> {
        let others = other.tree();
        let mut common = Vec::new();
        for own in &self.boxes {
            others.search(own, |one| common.extend(own.intersection(one)));
            if common.len() > BOXES_MAX {
                return Err(TooScattered);
            }
        }
        Ok(Self::of_disjoint(common))
    }

    /// The elements in this set but not in the other.
    pub fn difference(&self, other: &Self) -> Result<Self, TooScattered> {
        let others = other.tree();
        let mut rest = Vec::new();
        let mut budget = Budget::of(self.boxes.len());
        for own in &self.boxes {
            let mut near = Vec::new();
            others.search(own, |one| near.push(*one));
            budget.grant(near.len());
            rest.append(&mut cover(own, &near, &mut budget)?.missing);
            if rest.len() > BOXES_MAX {
                return Err(TooScattered);
            }
        }
        Ok(Self::of_disjoint(rest))
    }

    fn tree(&self) -> Tree<&IndexBox> {
        Tree::new(self.boxes.iter().map(|one| (one, one)))
    }

    /// Whether it holds every element of the other.
    pub fn contains_all(&self, other: &Self) -> Result<bool, TooScattered> {
        other.difference(self).map(|rest| rest.is_empty())
    }

    /// Whether both have the same elements, in whatever boxes.
    pub fn same_elements(&self, other: &Self) -> Result<bool, TooScattered> {
        Ok(self.count() == other.count() && self.contains_all(other)?)
    }
}

/// Each box in brackets: `[0..16, 32..63 step 2] [20, 0..4]`.
impl fmt::Display for IndexSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, one) in self.boxes.iter().enumerate() {
            write!(f, "{}[{one}]", if i == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl<'de> serde::Deserialize<'de> for IndexSet {
    /// Refuses boxes that share elements: every count and every plan made of such a set would be wrong.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        #[derive(serde::Deserialize)]
        struct RawSet {
            boxes: Vec<IndexBox>,
        }
        let raw = RawSet::deserialize(deserializer)?;
        match are_disjoint(&raw.boxes).map_err(D::Error::custom)? {
            true => Ok(Self { boxes: raw.boxes }),
            false => Err(D::Error::custom("boxes of a set overlap")),
        }
    }
}

/// So many boxes can be told apart pair by pair, whatever they are.
pub(crate) const PAIRED_MAX: usize = 1 << 13;

/// Whether boxes share no element. An answer is certain for [`PAIRED_MAX`] boxes.
pub(crate) fn are_disjoint(boxes: &[IndexBox]) -> Result<bool, TooScattered> {
    if boxes.windows(2).any(|two| two[0].rank() != two[1].rank()) {
        return Ok(false);
    }
    let given: u128 = boxes.iter().map(|one| u128::from(one.count())).sum();
    match IndexSet::of(boxes) {
        Ok(set) => Ok(set.count() == given),
        // Dividing them makes ever more of some boxes whose pairs are soon looked through.
        Err(TooScattered) if boxes.len() <= PAIRED_MAX => {
            let boxes: Vec<&IndexBox> = boxes.iter().collect();
            Ok(each_overlap(&boxes, |_, _, _| Err(())).is_ok())
        }
        Err(TooScattered) => Err(TooScattered),
    }
}

/// The smallest box without steps around all. `None` without boxes, and where it has more elements than a `u64` counts.
fn hull(boxes: &[&IndexBox]) -> Option<IndexBox> {
    let rank = boxes.first()?.rank();
    let same = || boxes.iter().filter(|one| one.rank() == rank);
    IndexBox::new((0..rank).map_while(|axis| {
        let low = same().map(|one| one.axes[axis].start()).min()?;
        let end = same().map(|one| one.axes[axis].end()).max()?;
        Progression::range(low, end)
    }))
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
