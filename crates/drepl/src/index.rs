//! Finding the sources that a wanted fragment overlaps, among many.

use std::{collections::HashMap, sync::Arc};

use crate::{
    dataset::{Dataset, LeafId},
    index_box::IndexBox,
    plan::Plan,
    planner::{self, PlanError, Source, Wanted},
    tree::Tree,
};

/// Additions that are searched one by one until they are made a tree of.
const ADDED_MAX: usize = 64;

/// Sources that many plans are made against. They may come and go, and get other versions.
///
/// A source is named by the position that [`insert`](Self::insert) gives it, from 0 on for those that [`new`](Self::new)
/// begins with. The position of one that was removed is given to another later.
#[derive(Debug, Default)]
pub struct Index {
    dataset: Option<Arc<Dataset>>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    leaves: HashMap<LeafId, Forest>,
}

#[derive(Debug)]
struct Slot {
    source: Option<Source>,
    /// How many sources have left this slot: entries of trees that name an earlier one are dead.
    generation: u32,
}

/// One part of a source in a tree.
#[derive(Debug, Clone, Copy)]
struct Entry {
    slot: u32,
    generation: u32,
    part: u32,
}

/// All entries of a leaf. Trees are never changed, but made anew of several when there are too many (Bentley and Saxe,
/// "Decomposable searching problems I", 1980): each entry is moved to a larger tree a logarithmic number of times.
#[derive(Debug, Default)]
struct Forest {
    trees: Vec<Tree<Entry>>,
    added: Vec<Entry>,
    entries: usize,
    dead: usize,
}

impl Index {
    /// An index over sources, whose positions in the list name them.
    ///
    /// # Errors
    ///
    /// All have to be of one dataset.
    pub fn new(sources: Vec<Source>) -> Result<Self, PlanError> {
        let mut index = Self::default();
        let mut leaves: HashMap<LeafId, Vec<Entry>> = HashMap::new();
        for source in sources {
            let entries = index.register(source)?.1;
            for (leaf, entry) in entries {
                leaves.entry(leaf).or_default().push(entry);
            }
        }
        for (leaf, entries) in leaves {
            let count = entries.len();
            let tree = index.tree(entries);
            index.leaves.insert(leaf, Forest { trees: vec![tree], added: Vec::new(), entries: count, dead: 0 });
        }
        Ok(index)
    }

    /// Adds a source, and says at which position.
    ///
    /// # Errors
    ///
    /// It has to be of the dataset of the others.
    pub fn insert(&mut self, source: Source) -> Result<usize, PlanError> {
        let (position, entries) = self.register(source)?;
        for (leaf, entry) in entries {
            let forest = self.leaves.entry(leaf).or_default();
            forest.added.push(entry);
            forest.entries += 1;
            if forest.added.len() >= ADDED_MAX {
                self.grow(leaf);
            }
        }
        Ok(position)
    }

    /// Takes a source away, and returns it; `None` where there is none at the position.
    pub fn remove(&mut self, position: usize) -> Option<Source> {
        let slot = self.slots.get_mut(position)?;
        let source = slot.source.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(position);
        for (leaf, parts) in source.fragment.leaves() {
            let Some(forest) = self.leaves.get_mut(&leaf) else { continue };
            forest.dead += parts.len();
            if forest.dead > ADDED_MAX && 2 * forest.dead > forest.entries {
                self.rebuild(leaf);
            }
        }
        Some(source)
    }

    /// The source at a position.
    pub fn get(&self, position: usize) -> Option<&Source> {
        self.slots.get(position)?.source.as_ref()
    }

    /// Gives the source at a position another version, cost and readability, at no cost of time: fragments keep their
    /// elements when they are published anew. Returns whether there is a source.
    pub fn update(&mut self, position: usize, version: u64, cost: u64, readable: bool) -> bool {
        match self.slots.get_mut(position).and_then(|slot| slot.source.as_mut()) {
            Some(source) => {
                (source.version, source.cost, source.readable) = (version, cost, readable);
                true
            }
            None => false,
        }
    }

    /// The sources and their positions.
    pub fn sources(&self) -> impl Iterator<Item = (usize, &Source)> {
        self.slots.iter().enumerate().filter_map(|(position, slot)| Some((position, slot.source.as_ref()?)))
    }

    /// How many sources there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How to make the wanted fragment from the sources: the plan that [`plan`](crate::planner::plan) makes, found
    /// without looking at those that share no element with it.
    pub fn plan(&self, wanted: &Wanted<'_>) -> Result<Plan, PlanError> {
        if let Some(dataset) = &self.dataset
            && !planner::same_dataset(dataset, wanted.fragment.dataset())
        {
            return Err(PlanError::Dataset { position: None });
        }
        planner::plan_with(wanted, |leaf, elements, found| {
            self.overlapping(leaf, elements, found);
        })
    }

    /// Calls `found` for each part of a source whose range of indices meets that of `elements`.
    pub(crate) fn overlapping<'a>(
        &'a self,
        leaf: LeafId,
        elements: &IndexBox,
        mut found: impl FnMut(usize, &'a Source, usize),
    ) {
        let Some(forest) = self.leaves.get(&leaf) else { return };
        let mut visit = |entry: &Entry| {
            if let Some(source) = self.source(entry) {
                found(entry.slot as usize, source, entry.part as usize);
            }
        };
        for tree in &forest.trees {
            tree.search(elements, &mut visit);
        }
        for entry in &forest.added {
            if self.source(entry).is_some_and(|s| s.fragment.parts()[entry.part as usize].elements.meets(elements)) {
                visit(entry);
            }
        }
    }

    fn register(&mut self, source: Source) -> Result<(usize, Vec<(LeafId, Entry)>), PlanError> {
        let dataset = self.dataset.get_or_insert_with(|| source.fragment.dataset().clone());
        if !planner::same_dataset(dataset, source.fragment.dataset()) {
            return Err(PlanError::Dataset { position: Some(self.slots.len()) });
        }
        let position = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { source: None, generation: 0 });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[position];
        let generation = slot.generation;
        let parts = source.fragment.parts().iter().enumerate();
        // Four thousand million parts do not fit into any memory.
        let entry = |part| Entry { slot: position as u32, generation, part: part as u32 };
        let entries = parts.map(|(number, part)| (part.leaf, entry(number))).collect();
        slot.source = Some(source);
        Ok((position, entries))
    }

    /// The source that an entry is a part of, if it is still there.
    fn source(&self, entry: &Entry) -> Option<&Source> {
        let slot = &self.slots[entry.slot as usize];
        slot.source.as_ref().filter(|_| slot.generation == entry.generation)
    }

    fn tree(&self, entries: Vec<Entry>) -> Tree<Entry> {
        let live = entries.into_iter().filter_map(|entry| Some((entry, self.source(&entry)?)));
        Tree::new(live.map(|(entry, source)| (entry, &source.fragment.parts()[entry.part as usize].elements)))
    }

    /// Makes a tree of the entries added of late, and of those trees that are no larger than what comes together.
    fn grow(&mut self, leaf: LeafId) {
        let Some(forest) = self.leaves.get_mut(&leaf) else { return };
        let mut entries = std::mem::take(&mut forest.added);
        while let Some(smallest) = forest.trees.pop_if(|tree| tree.len() <= entries.len()) {
            entries.extend(smallest.into_items());
        }
        self.plant(leaf, entries);
    }

    /// Makes one tree of all entries that live.
    fn rebuild(&mut self, leaf: LeafId) {
        let Some(forest) = self.leaves.get_mut(&leaf) else { return };
        let mut entries = std::mem::take(&mut forest.added);
        entries.extend(forest.trees.drain(..).flat_map(Tree::into_items));
        self.plant(leaf, entries);
    }

    fn plant(&mut self, leaf: LeafId, entries: Vec<Entry>) {
        let before = entries.len();
        let tree = self.tree(entries);
        let Some(forest) = self.leaves.get_mut(&leaf) else { return };
        let gone = before - tree.len();
        forest.entries -= gone;
        forest.dead -= gone;
        // Trees are sorted by size, the smallest last.
        let place = forest.trees.partition_point(|other| other.len() > tree.len());
        forest.trees.insert(place, tree);
    }
}
