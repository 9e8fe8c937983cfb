//! Sets of elements of one leaf: unions of boxes with strides.

use std::{borrow::Borrow, fmt};

use crate::{
    cover::{Budget, cover},
    index_box::{BOXES_MAX, IndexBox, TooScattered, coalesce},
    progression::Progression,
    tree::{Tree, each_overlap},
};

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

    /// The set of boxes from elsewhere, as they are and in their order, if they share no element.
    ///
    /// Each box is compared with those whose ranges meet its own: about once with itself where boxes are blocks, and with all
    /// others where they are strided through each other. `comparisons` is how many of these may still be made, and is lowered.
    ///
    /// # Errors
    ///
    /// See [`NotDisjoint`].
    pub fn from_disjoint(boxes: Vec<IndexBox>, comparisons: &mut u64) -> Result<Self, NotDisjoint> {
        if let Some(second) = boxes.iter().position(|one| one.rank() != boxes[0].rank()) {
            return Err(NotDisjoint::Ranks { second });
        }
        if boxes.len() > 1 {
            compare_all(&boxes, comparisons)?;
        }
        Ok(Self { boxes })
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

/// Why boxes are no set as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotDisjoint {
    /// Boxes of different numbers of axes.
    #[error("box {second} has another number of axes than the first")]
    Ranks {
        /// The position of the first box that has.
        second: usize,
    },
    /// Two boxes share elements.
    #[error("boxes {first} and {second} share elements")]
    Overlap {
        /// The position of one.
        first: usize,
        /// The position of the other.
        second: usize,
    },
    /// To tell them apart would take more comparisons than were allowed.
    #[error("the boxes lie too scattered to be told apart")]
    TooScattered,
}

fn compare_all(boxes: &[IndexBox], comparisons: &mut u64) -> Result<(), NotDisjoint> {
    let tree = Tree::new(boxes.iter().enumerate());
    for (first, one) in boxes.iter().enumerate() {
        let mut outcome = Ok(());
        tree.search(one, |second| {
            if outcome.is_err() {
                return;
            }
            outcome = match comparisons.checked_sub(1) {
                None => Err(NotDisjoint::TooScattered),
                Some(left) => {
                    *comparisons = left;
                    let is_shared = first < *second && one.intersection(&boxes[*second]).is_some();
                    if is_shared { Err(NotDisjoint::Overlap { first, second: *second }) } else { Ok(()) }
                }
            };
        });
        outcome?;
    }
    Ok(())
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
        let low = same().map(|one| one.axes()[axis].start()).min()?;
        let end = same().map(|one| one.axes()[axis].end()).max()?;
        Progression::range(low, end)
    }))
}
