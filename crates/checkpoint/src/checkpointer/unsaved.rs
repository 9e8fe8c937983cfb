//! Versions that were to be saved and are not. Errors belong to versions: that another one is safe mends none of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use stillframe::AnySnapshot;
use stillframe_kernel::points;

/// How long nothing is tried after a save that failed; twice as long after each further round of tries, up to 60 times as long.
fn pause() -> Duration {
    points::duration("STILLFRAME_PAUSE_MS", Duration::from_secs(1))
}

const PAUSES_MAX: u32 = 60;

/// A version that was to be saved. Those of a later run come later, whatever their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asked {
    pub(super) published_ns: u64,
    pub(super) version: u64,
}

impl Asked {
    pub(super) fn of(snapshot: &AnySnapshot) -> Asked {
        Asked { published_ns: snapshot.published_ns(), version: snapshot.version() }
    }
}

/// Versions that were to be saved and are not, and when that is tried again.
#[derive(Default)]
pub(super) struct Unsaved {
    /// What was in the way of each.
    errors: BTreeMap<Asked, String>,
    /// Those that are still held, to be tried again themselves.
    held: Vec<AnySnapshot>,
    /// Rounds of tries in which a save failed, one after the other. Where several are saved at once, all of them fail in one.
    failed_rounds: u32,
    retry: Option<Instant>,
}

impl Unsaved {
    pub(super) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    pub(super) fn versions(&self) -> Vec<u64> {
        let numbers: BTreeSet<u64> = self.errors.keys().map(|asked| asked.version).collect();
        numbers.into_iter().collect()
    }

    /// Those that are held.
    pub(super) fn held(&self) -> &[AnySnapshot] {
        &self.held
    }

    /// When the next try is due, if there is to be one.
    pub(super) fn retry(&self) -> Option<Instant> {
        self.retry
    }

    /// Takes note of a save that failed, and keeps what is held to be tried again. Returns how long nothing is tried.
    pub(super) fn fail(&mut self, asked: Asked, error: String, held: Option<AnySnapshot>) -> Duration {
        let is_new_round = self.retry.is_none() || self.failed_rounds == 0;
        self.failed_rounds += u32::from(is_new_round);
        let pauses = 1 << (self.failed_rounds - 1).min(10);
        let pause = pause().saturating_mul(PAUSES_MAX.min(pauses));
        self.retry = Some(Instant::now() + pause);
        self.errors.insert(asked, error);
        self.held.extend(held);
        pause
    }

    /// Takes note of a version that was dropped because somebody asked for it.
    pub(super) fn drop_asked(&mut self, asked: Asked) {
        self.errors.insert(asked, "it was dropped, as was asked".into());
    }

    /// Takes note of a version that is safe. `is_newest` says that it stands for all before it, too: then those that are not
    /// saved are missed, and their number is returned.
    pub(super) fn save(&mut self, asked: Asked, is_newest: bool) -> u64 {
        self.errors.remove(&asked);
        let missed = match is_newest {
            true => {
                let later = self.errors.split_off(&asked);
                std::mem::replace(&mut self.errors, later).len() as u64
            }
            false => 0,
        };
        self.failed_rounds = 0;
        // What failed is tried at its time, whatever else went well meanwhile.
        if self.errors.is_empty() {
            self.retry = None;
        }
        missed
    }

    /// What is to be tried again, in the order of publishing. Its errors stay until it is safe.
    pub(super) fn take_held(&mut self) -> Vec<AnySnapshot> {
        self.retry = None;
        let mut held = std::mem::take(&mut self.held);
        held.sort_by_key(Asked::of);
        held
    }

    /// Nothing is tried at a time of its own any more.
    pub(super) fn stop_waiting(&mut self) {
        self.retry = None;
    }

    /// What is wrong, for people.
    pub(super) fn error(&self) -> Option<String> {
        let (Asked { version: last, .. }, error) = self.errors.last_key_value()?;
        let rest = self.errors.len() - 1;
        Some(match rest {
            0 => format!("version {last} is not saved: {error}"),
            _ => format!("version {last}, and {rest} before it, are not saved: {error}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(version: u64) -> Asked {
        Asked { published_ns: 1000 + version, version }
    }

    #[test]
    fn a_version_that_is_safe_mends_no_other() {
        let mut unsaved = Unsaved::default();
        unsaved.fail(asked(12), "full".into(), None);
        assert_eq!(unsaved.save(asked(11), false), 0);
        assert_eq!(unsaved.versions(), [12]);
        assert!(unsaved.retry().is_some());
        assert_eq!(unsaved.error().unwrap(), "version 12 is not saved: full");
        // Nor where only the newest counts: 11 is older.
        assert_eq!(unsaved.save(asked(11), true), 0);
        assert_eq!(unsaved.versions(), [12]);
        assert_eq!(unsaved.save(asked(12), false), 0);
        assert!(unsaved.is_empty() && unsaved.retry().is_none() && unsaved.error().is_none());
    }

    #[test]
    fn where_only_the_newest_counts_those_before_it_are_missed() {
        let mut unsaved = Unsaved::default();
        for version in [3, 5, 9] {
            unsaved.fail(asked(version), "full".into(), None);
        }
        assert_eq!(unsaved.error().unwrap(), "version 9, and 2 before it, are not saved: full");
        assert_eq!(unsaved.save(asked(7), true), 2);
        assert_eq!(unsaved.versions(), [9]);
        unsaved.drop_asked(asked(10));
        assert_eq!(unsaved.save(asked(11), true), 2);
        assert!(unsaved.is_empty());
    }

    #[test]
    fn a_later_run_stands_for_an_earlier_one_and_mends_none_of_its_versions() {
        let mut unsaved = Unsaved::default();
        let later = Asked { published_ns: 5000, version: 12 };
        unsaved.fail(asked(12), "full".into(), None);
        unsaved.fail(asked(100), "full".into(), None);
        assert_eq!(unsaved.save(later, false), 0);
        assert_eq!(unsaved.versions(), [12, 100]);
        assert_eq!(unsaved.save(later, true), 2);
        assert!(unsaved.is_empty());
    }

    #[test]
    fn what_fails_again_and_again_waits_longer() {
        let mut unsaved = Unsaved::default();
        let mut fail = |version| unsaved.fail(asked(version), "full".into(), None).as_secs();
        assert_eq!([fail(1), fail(2), fail(3)], [1; 3], "all in one round");
        let mut pauses = Vec::new();
        for _ in 0..8 {
            unsaved.take_held();
            pauses.push(unsaved.fail(asked(1), "full".into(), None).as_secs());
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60, 60]);
        [1, 2, 3].into_iter().for_each(|version| _ = unsaved.save(asked(version), false));
        assert_eq!(unsaved.fail(asked(2), "full".into(), None).as_secs(), 1);
        // While that waits another one goes well, and one does not.
        unsaved.save(asked(4), false);
        assert_eq!(unsaved.fail(asked(5), "full".into(), None).as_secs(), 1);
    }
}
