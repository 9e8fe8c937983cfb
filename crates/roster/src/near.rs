//! Which fragments of an object may have elements in common with one.
//!
//! Trees are never changed, but made anew of several when there are too many (Bentley and Saxe, "Decomposable searching problems
//! I", 1980). What is not in the records any more may still be found: whoever asks looks at the records.

use std::{collections::BTreeSet, sync::Arc};

use drepl::{IndexBox, IndexSet, tree::Tree};

use crate::writer::{Elements, Record, Role, Writer};

/// So many that were added are looked through one by one; few where the crate's own tests are to see trees.
const ADDED_MAX: usize = if cfg!(test) { 2 } else { 64 };

/// A box of a fragment.
#[derive(Debug, Clone)]
struct Entry {
    writer: Writer,
    elements: Elements,
    /// The box's position among them.
    part: usize,
}

impl Entry {
    fn part(&self) -> &IndexBox {
        &self.elements.boxes()[self.part]
    }
}

/// All fragments that were added.
#[derive(Debug, Clone, Default)]
pub(crate) struct Near {
    /// Each is of twice as many boxes as the next, or more.
    trees: Vec<Arc<Tree<Entry>>>,
    added: Vec<Entry>,
    /// How many boxes it began with.
    begun: usize,
}

impl Near {
    /// All fragments of these writers in an object of so many axes.
    pub(crate) fn new<'a>(records: impl Iterator<Item = &'a Record>, rank: usize) -> Self {
        let mut near = Self::default();
        for record in records {
            for stage in &record.stages {
                if let Some(elements) = elements_of(&stage.role) {
                    near.added.extend(entries(record.writer, elements, rank));
                }
            }
        }
        near.begun = near.added.len();
        near.grow();
        near
    }

    /// Adds a fragment.
    pub(crate) fn add(&mut self, writer: Writer, elements: &Elements, rank: usize) {
        self.added.extend(entries(writer, elements, rank));
        if self.added.len() > ADDED_MAX {
            self.grow();
        }
    }

    /// Whether there are so many more than in the beginning that much of it may not count any more.
    pub(crate) fn is_old(&self) -> bool {
        self.added.len() + self.trees.iter().map(|tree| tree.len()).sum::<usize>() > 2 * self.begun + ADDED_MAX
    }

    /// Writers whose fragments lie near some of these elements, or lay there once.
    pub(crate) fn of(&self, elements: &IndexSet) -> BTreeSet<Writer> {
        let mut found = BTreeSet::new();
        for part in elements.boxes() {
            let is_near = |one: &&Entry| one.part().meets(part);
            found.extend(self.added.iter().filter(is_near).map(|one| one.writer));
            self.trees.iter().for_each(|tree| tree.search(part, |one| _ = found.insert(one.writer)));
        }
        found
    }

    fn grow(&mut self) {
        let mut all = std::mem::take(&mut self.added);
        while let Some(last) = self.trees.pop_if(|last| last.len() < 2 * all.len()) {
            all.extend(last.items().iter().cloned());
        }
        if !all.is_empty() {
            self.trees.push(Arc::new(Tree::new(all.iter().map(|one| (one.clone(), one.part())))));
        }
    }
}

/// What a writer has, or would have if it lived.
pub(crate) fn elements_of(role: &Role) -> Option<&Elements> {
    match role {
        Role::Member { elements, .. } | Role::Died { elements } => Some(elements),
        Role::Left => None,
    }
}

/// Whether some fragment of a writer may have some of these elements.
pub(crate) fn is_near(record: &Record, elements: &IndexSet) -> bool {
    let mut own =
        record.stages.iter().filter_map(|stage| elements_of(&stage.role)).flat_map(|elements| elements.boxes());
    let meets = |one: &IndexBox| elements.boxes().iter().any(|part| one.meets(part));
    own.any(meets)
}

/// Boxes of another number of axes have nothing in common with any of the object's.
fn entries(writer: Writer, elements: &Elements, rank: usize) -> impl Iterator<Item = Entry> {
    let parts = elements.boxes().iter().enumerate().filter(move |(_, one)| one.rank() == rank);
    parts.map(move |(part, _)| Entry { writer, elements: elements.clone(), part })
}
