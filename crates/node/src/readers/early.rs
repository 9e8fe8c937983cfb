//! Versions that a fragment had before they were complete.

use crate::roster::Heard;
use std::collections::{BTreeMap, BTreeSet};
use stillframe_roster::writer::{Version, Writer};

/// Versions that a fragment had before they were complete, with those whose elements they consist of. Until a version is complete others may
/// take the places of these, and write it as well: then it counts no more.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// Nothing of those that count no more.
    writers: BTreeMap<Version, Option<BTreeSet<Writer>>>,
}

impl Early {
    /// Notes a version, and forgets those that are not there any more.
    pub(super) fn note(&mut self, version: Version, writers: BTreeSet<Writer>, is_there: impl FnMut(Version) -> bool) {
        let mut is_there = is_there;
        self.writers.retain(|version, _| is_there(*version));
        self.writers.insert(version, Some(writers));
    }

    /// Whether what the fragment has of a version counts, as far as is known now.
    pub(super) fn counts(&self, version: Version, roster: &Heard) -> bool {
        let is_of = |writers: &BTreeSet<Writer>| writers.iter().all(|writer| roster.has(*writer, version));
        self.writers.get(&version).is_none_or(|writers| writers.as_ref().is_some_and(is_of))
    }

    /// Takes note that the versions up to one are complete: what has counted until now counts for good, also when its writers are gone.
    pub(super) fn settle(&mut self, roster: &Heard, complete: Version) {
        let due: Vec<Version> = self.writers.range(..=complete).map(|(version, _)| *version).collect();
        for version in due {
            match self.counts(version, roster) {
                true => self.writers.remove(&version),
                false => self.writers.insert(version, None),
            };
        }
    }

    /// Forgets all: nothing of it is there any more.
    pub(super) fn clear(&mut self) {
        self.writers.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::Early;
    use crate::roster::{Heard, News};
    use std::sync::Arc;
    use stillframe_roster::writer::{Node, Writer};
    use stillframe_wire::data::FragmentText;
    use stillframe_wire::roster::Declared;

    fn writer(serial: u32) -> Writer {
        Writer { node: Node(1), process: 7, serial }
    }

    fn declared(serial: u32, from: u64, left: Option<u64>) -> Declared {
        let (rank, layout, died, expected) = (None, FragmentText::default(), left.is_some(), None);
        Declared { writer: writer(serial), rank, layout, from, left, died, expected }
    }

    fn early(versions: &[u64]) -> Early {
        let mut early = Early::default();
        versions.iter().for_each(|version| early.note(*version, [writer(1), writer(2)].into(), |_| true));
        early
    }

    #[test]
    fn a_version_counts_as_long_as_its_writers_have_a_part_in_it() {
        let mut roster = Heard::default();
        assert!(early(&[]).counts(3, &roster), "it was complete when it came");
        roster.hear(1, 1, vec![declared(1, 1, None), declared(2, 2, Some(4))], true);
        let early = early(&[1, 2, 3, 4, 5]);
        for (version, counts) in [(1, false), (2, true), (3, true), (4, false), (5, false), (6, true)] {
            assert_eq!(early.counts(version, &roster), counts, "version {version}");
        }
    }

    #[test]
    fn what_counted_when_it_became_complete_counts_for_good_and_what_did_not_never_does() {
        let mut roster = Heard::default();
        roster.hear(1, 1, vec![declared(1, 1, None), declared(2, 1, Some(4))], true);
        let mut early = early(&[3, 4, 5]);
        early.settle(&roster, 4);
        // The first one is forgotten, and the second one is back.
        roster.hear(1, 2, vec![declared(1, 4, None), declared(2, 1, None)], true);
        for (version, counts) in [(3, true), (4, false), (5, true)] {
            assert_eq!(early.counts(version, &roster), counts, "version {version}");
        }
        early.note(4, [writer(1)].into(), |version| version == 4);
        assert!(early.counts(4, &roster), "it came again");
        early.clear();
        assert!(early.counts(5, &roster));
    }

    #[test]
    fn nothing_counts_that_the_home_may_have_told_otherwise() {
        let mut roster = Heard::default();
        roster.hear(1, 1, vec![declared(1, 1, None), declared(2, 1, None)], true);
        let early = early(&[3]);
        assert!(early.counts(3, &roster));
        let news = News { base: Some(2), serial: 3, declared: Arc::default(), gone: Arc::default(), is_last: true };
        assert!(roster.change(1, news).is_err());
        assert!(!early.counts(3, &roster));
        roster.hear(1, 3, vec![declared(1, 1, None), declared(2, 1, None)], true);
        assert!(early.counts(3, &roster));
    }
}
