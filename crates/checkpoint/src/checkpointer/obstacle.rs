//! Why versions that are due do not reach the checkpointer.

use crate::status::Status;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most versions that stay in mind, and most of an earlier run.
const VERSIONS_MAX: usize = 128;
const FORMER_MAX: usize = 64;

/// Why versions that are due do not reach the checkpointer, as whoever puts versions together says. The status has them among those that are
/// not saved until they are safe, or a later one is that stands for them: with [`all`](super::CheckpointerOptions::all) that is so only of
/// those that were [released](Obstacle::release). See [`CheckpointerOptions::obstacle`](super::CheckpointerOptions::obstacle).
#[derive(Debug, Clone, Default)]
pub struct Obstacle(Arc<Mutex<Hindrances>>);

#[derive(Debug, Default)]
struct Hindrances {
    versions: BTreeMap<u64, Hindrance>,
    /// What an earlier run left, until a version of this one is safe.
    former: Option<EarlierRun>,
    /// Versions that are saved no more.
    missed: u64,
}

/// What keeps a version from its checkpointer.
#[derive(Debug)]
struct Hindrance {
    why: String,
    /// Whether any later version stands for this one.
    is_released: bool,
}

/// What is wrong of an earlier run.
#[derive(Debug)]
struct EarlierRun {
    versions: Vec<u64>,
    error: String,
}

impl Obstacle {
    /// Sets why a version cannot be handed over. Where too many cannot, the oldest is returned, which is missed from now on.
    pub fn set(&self, version: u64, why: &str) -> Option<u64> {
        let mut hindrances = self.lock();
        hindrances.versions.insert(version, Hindrance { why: why.to_owned(), is_released: false });
        if hindrances.versions.len() <= VERSIONS_MAX {
            return None;
        }
        hindrances.missed += 1;
        hindrances.versions.pop_first().map(|(oldest, _)| oldest)
    }

    /// Lets any later version that is safe stand for this one, which cannot be had any more.
    pub fn release(&self, version: u64) {
        if let Some(hindrance) = self.lock().versions.get_mut(&version) {
            hindrance.is_released = true;
        }
    }

    /// Removes a version that is not due any more, or that is dealt with.
    pub fn remove(&self, version: u64) {
        self.lock().versions.remove(&version);
    }

    /// Removes a version that was due and is saved no more, and counts it as missed.
    pub fn miss(&self, version: u64) {
        let mut hindrances = self.lock();
        hindrances.versions.remove(&version);
        hindrances.missed += 1;
    }

    /// Whether a version is still to be handed over, or to be safe.
    pub fn has(&self, version: u64) -> bool {
        self.lock().versions.contains_key(&version)
    }

    /// Begins with what a checkpointer of an earlier run left unsaved. That is missed as soon as a version of this run is safe.
    pub fn inherit(&self, status: &Status) {
        let surplus = status.unsaved.len().saturating_sub(FORMER_MAX);
        let versions = status.unsaved[surplus..].to_vec();
        let error = status.error.clone().unwrap_or_else(|| "the last version is not safe".into());
        let mut hindrances = self.lock();
        hindrances.missed += surplus as u64;
        hindrances.former = Some(EarlierRun { versions, error });
    }

    /// Takes a version for safe. Returns those for which it stands, which are missed; with `all` it stands for no other that may still be had.
    pub(super) fn settle(&self, version: u64, all: bool) -> Vec<u64> {
        let mut hindrances = self.lock();
        hindrances.versions.remove(&version);
        let mut missed = hindrances.former.take().map_or(Vec::new(), |former| former.versions);
        hindrances.versions.retain(|earlier, hindrance| {
            let stays = *earlier > version || all && !hindrance.is_released;
            if !stays {
                missed.push(*earlier);
            }
            stays
        });
        hindrances.missed += missed.len() as u64;
        missed
    }

    /// How many versions were missed.
    pub(super) fn missed(&self) -> u64 {
        self.lock().missed
    }

    /// The versions that are not safe because of it, and what is wrong.
    pub(super) fn state(&self) -> (Vec<u64>, Option<String>) {
        let hindrances = self.lock();
        let former = hindrances.former.iter().flat_map(|former| former.versions.iter());
        let versions = former.chain(hindrances.versions.keys()).copied().collect();
        let last = hindrances.versions.last_key_value();
        let error = last.map(|(version, Hindrance { why, .. })| format!("version {version} is not saved: {why}"));
        (versions, error.or_else(|| hindrances.former.as_ref().map(|former| former.error.clone())))
    }

    /// Whether an earlier run left something, and nothing of this one is safe.
    pub(super) fn has_former(&self) -> bool {
        self.lock().former.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Hindrances> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_is_safe_stands_for_those_before_it_and_with_all_only_for_what_is_gone() {
        for (all, missed, left) in [(false, vec![3, 5], vec![9]), (true, vec![3], vec![5, 9])] {
            let obstacle = Obstacle::default();
            for version in [3, 5, 7, 9] {
                assert_eq!(obstacle.set(version, "nobody answers"), None);
            }
            obstacle.release(3);
            assert_eq!(obstacle.settle(7, all), missed);
            assert_eq!((obstacle.missed(), obstacle.state().0), (missed.len() as u64, left));
        }
    }

    #[test]
    fn what_an_earlier_run_left_is_missed_when_a_version_of_this_one_is_safe() {
        for all in [false, true] {
            let obstacle = Obstacle::default();
            let mut status = Status::new("r");
            (status.unsaved, status.error) = (vec![7, 12], Some("version 12 is not saved: full".into()));
            obstacle.inherit(&status);
            assert_eq!(obstacle.state(), (vec![7, 12], status.error));
            assert_eq!(obstacle.settle(3, all), [7, 12]);
            assert_eq!(obstacle.state(), (vec![], None));
        }
    }

    #[test]
    fn of_many_versions_the_oldest_are_missed() {
        let obstacle = Obstacle::default();
        let missed: Vec<u64> = (0..130).filter_map(|version| obstacle.set(version, "nobody answers")).collect();
        assert_eq!((missed, obstacle.missed(), obstacle.state().0.len()), (vec![0, 1], 2, VERSIONS_MAX));
    }

    #[test]
    fn what_many_runs_left_takes_no_more_memory_than_what_some_did() {
        let (obstacle, mut status) = (Obstacle::default(), Status::new("r"));
        status.unsaved = (0..1000).collect();
        obstacle.inherit(&status);
        assert_eq!((obstacle.state().0.len(), obstacle.missed()), (FORMER_MAX, 1000 - FORMER_MAX as u64));
    }
}
