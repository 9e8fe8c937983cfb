//! What follows from the records of a ledger, brought up to date with each change.
//!
//! Questions that come with every message are answered from here without looking at all writers. It holds nothing that the records
//! do not say: so two ledgers are equal if their records are.

use std::{collections::BTreeMap, ops::Bound, sync::OnceLock};

use drepl::index_box::TooScattered;

use crate::{
    roster::Closure,
    writer::{Published, Record, Stage, Version},
};

/// Versions in which nobody changes, from the one on in which somebody did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Epoch {
    /// How many stages begin with it.
    stages: usize,
    /// How many members its versions have, once somebody asked.
    pub(crate) members: OnceLock<usize>,
    /// Whether they are all, once somebody asked.
    pub(crate) closure: OnceLock<Result<Closure, TooScattered>>,
}

/// How many writers have a version.
#[derive(Debug, Clone, Copy, Default)]
struct Having {
    /// All.
    writers: usize,
    /// Those of them that are members of it.
    members: usize,
}

/// What is kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    epochs: BTreeMap<Version, Epoch>,
    having: BTreeMap<Version, Having>,
    changes: u64,
}

impl Tally {
    /// Counts a record that is new, or has changed.
    pub(crate) fn add(&mut self, record: &Record) {
        record.stages.iter().for_each(|stage| self.epochs.entry(stage.from).or_default().stages += 1);
        self.add_published(record);
    }

    /// Counts a record no more. It is as it was added.
    pub(crate) fn remove(&mut self, record: &Record) {
        for stage in &record.stages {
            let Some(epoch) = self.epochs.get_mut(&stage.from) else { continue };
            epoch.stages -= 1;
            if epoch.stages == 0 {
                self.epochs.remove(&stage.from);
            }
        }
        self.remove_published(record);
    }

    /// Counts what a record published now, in place of what it had before.
    pub(crate) fn publish(&mut self, record: &mut Record, published: Published) {
        self.remove_published(record);
        record.published = published;
        self.add_published(record);
    }

    /// Notes that stages are others than before. What is the same in both, from the first on, makes no difference.
    pub(crate) fn note_stages(&mut self, before: &[Stage], after: &[Stage]) {
        let same = before.iter().zip(after).take_while(|(before, after)| before == after).count();
        let changed = before.get(same).into_iter().chain(after.get(same)).map(|stage| stage.from).min();
        if let Some(from) = changed {
            self.note_change(from);
        }
    }

    /// Notes that rosters from a version on are others than before.
    pub(crate) fn note_change(&mut self, from: Version) {
        self.changes += 1;
        for (_, epoch) in self.epochs.range_mut(from..) {
            (epoch.members, epoch.closure) = (OnceLock::new(), OnceLock::new());
        }
    }

    /// Notes that other stages than before are disputed.
    pub(crate) fn note_disputes(&mut self) {
        self.changes += 1;
    }

    /// How often stages have changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// The epoch of a version; none if it has no members.
    pub(crate) fn epoch(&self, version: Version) -> Option<(Version, &Epoch)> {
        self.epochs.range(..=version).next_back().map(|(from, epoch)| (*from, epoch))
    }

    /// How many members of a version have it.
    pub(crate) fn members_having(&self, version: Version) -> usize {
        self.having.get(&version).map_or(0, |having| having.members)
    }

    /// The oldest version that a writer has.
    pub(crate) fn oldest(&self) -> Option<Version> {
        self.having.keys().next().copied()
    }

    /// Versions above one that writers have, the newest first.
    pub(crate) fn versions_above(&self, above: Version) -> impl Iterator<Item = Version> {
        self.having.range((Bound::Excluded(above), Bound::Unbounded)).rev().map(|(version, _)| *version)
    }

    fn add_published(&mut self, record: &Record) {
        for version in &record.published.present {
            let having = self.having.entry(*version).or_default();
            having.writers += 1;
            having.members += usize::from(record.elements(*version).is_some());
        }
    }

    fn remove_published(&mut self, record: &Record) {
        for version in &record.published.present {
            let Some(having) = self.having.get_mut(version) else { continue };
            having.writers -= 1;
            having.members -= usize::from(record.elements(*version).is_some());
            if having.writers == 0 {
                self.having.remove(version);
            }
        }
    }
}
