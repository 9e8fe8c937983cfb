//! The state of versions that another program puts together, before they reach the checkpointer.

use crate::status::Status;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most versions that stay in mind, and most of an earlier run.
const VERSIONS_MAX: usize = 128;
const FORMER_MAX: usize = 64;

/// What a program that puts versions together knows of them, and its checkpointer does not: why some that are due cannot be had, which ones it
/// has handed over, and what ended it. The status has among those that are not saved
///
/// - versions that [cannot be had](Obstacle::set), until they are safe, or a later one is that stands for them: with
///   [`all`](super::CheckpointerOptions::all) that is so only of those that were [released](Obstacle::release);
/// - versions that were [handed over](Obstacle::hand_over) and that the checkpointer had not saved when it ended.
///
/// See [`CheckpointerOptions::obstacle`](super::CheckpointerOptions::obstacle).
#[derive(Debug, Clone, Default)]
pub struct Obstacle(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    hindrances: Mutex<Hindrances>,
    /// Fewer versions are pending.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Hindrances {
    versions: BTreeMap<u64, Hindrance>,
    /// Versions that were handed over, and are neither safe nor given up.
    pending: BTreeMap<u64, Pending>,
    /// Whether any version was saved.
    has_safe: bool,
    /// What ended the program that puts versions together.
    fatal: Option<String>,
    /// What an earlier run left, until a version of this one is safe.
    former: Option<EarlierRun>,
    /// Versions that are saved no more.
    missed: u64,
}

/// A version that was handed over.
#[derive(Debug)]
struct Pending {
    /// Whether it has to be saved even if others were.
    is_needed: bool,
    /// How often it could not be saved. It is tried again.
    failures: u32,
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

    /// Hands a version over, before it can be found in the region: it is pending until it is safe or given up. `is_needed` says whether it
    /// has to be saved even if others were.
    pub fn hand_over(&self, version: u64, is_needed: bool) {
        self.lock().pending.insert(version, Pending { is_needed, failures: 0 });
    }

    /// Takes back a version that was handed over and could not be put together.
    pub fn take_back(&self, version: u64) {
        self.lock().pending.remove(&version);
    }

    /// Waits, at most so long, until fewer versions than this are pending; whether that is so.
    pub fn wait_for_room(&self, versions: usize, timeout: Duration) -> bool {
        let is_full = |hindrances: &mut Hindrances| hindrances.pending.len() >= versions;
        let waited = self.0.changed.wait_timeout_while(self.lock(), timeout, is_full);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// How often a version that was handed over could not be saved: of several that of which it is most.
    pub fn failures(&self) -> u32 {
        self.lock().pending.values().map(|pending| pending.failures).max().unwrap_or(0)
    }

    /// Whether any version was saved.
    pub fn has_safe(&self) -> bool {
        self.lock().has_safe
    }

    /// Sets what ended the program that puts versions together.
    pub fn set_fatal(&self, why: &str) {
        self.lock().fatal = Some(why.to_owned());
    }

    /// Counts the versions that are pending as not safe, when no more are begun with; `error` is what is wrong with another one. One that is
    /// being saved just then is [settled](Obstacle::settle) all the same.
    pub(super) fn give_up_pending(&self, error: Option<&str>) {
        let mut hindrances = self.lock();
        let has_safe = hindrances.has_safe;
        let pending = std::mem::take(&mut hindrances.pending).into_iter();
        let waited = "it was put together, and waited until no more was saved";
        let why = error.map_or(waited.to_owned(), |error| format!("{waited}; {error}"));
        let needed = pending.filter(|(_, pending)| pending.is_needed || !has_safe);
        for (version, _) in needed {
            // What could not be saved is known to the checkpointer.
            hindrances.versions.entry(version).or_insert(Hindrance { why: why.clone(), is_released: false });
        }
        self.0.changed.notify_all();
    }

    /// The checkpointer knows why a version is not safe; whether it will not try it again.
    pub(super) fn fail(&self, version: u64, is_given_up: bool) {
        let mut hindrances = self.lock();
        hindrances.versions.remove(&version);
        if is_given_up {
            hindrances.pending.remove(&version);
            self.0.changed.notify_all();
        } else if let Some(pending) = hindrances.pending.get_mut(&version) {
            pending.failures += 1;
        }
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
        hindrances.pending.remove(&version);
        hindrances.has_safe = true;
        self.0.changed.notify_all();
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
        let former_error = || hindrances.former.as_ref().map(|former| former.error.clone());
        (versions, error.or_else(former_error))
    }

    /// What ended the program that puts versions together.
    pub(super) fn fatal(&self) -> Option<String> {
        self.lock().fatal.clone()
    }

    /// Whether something is wrong that no version stands for: an error ended the program that puts versions together, or an earlier run left
    /// something and nothing of this one is safe.
    pub(super) fn has_failed(&self) -> bool {
        let hindrances = self.lock();
        hindrances.fatal.is_some() || hindrances.former.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Hindrances> {
        self.0.hindrances.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn a_version_that_was_handed_over_is_not_safe_before_it_was_saved() {
        for is_needed in [true, false] {
            let obstacle = Obstacle::default();
            (1..=4).for_each(|version| obstacle.hand_over(version, is_needed));
            // One that could not be saved is known to the checkpointer, which may try it again.
            obstacle.fail(2, false);
            assert!(!obstacle.wait_for_room(4, Duration::ZERO) && obstacle.failures() == 1 && !obstacle.has_safe());
            obstacle.fail(2, true);
            obstacle.settle(1, true);
            assert!(obstacle.wait_for_room(3, Duration::ZERO) && obstacle.failures() == 0 && obstacle.has_safe());
            obstacle.give_up_pending(None);
            assert_eq!(obstacle.state().0, if is_needed { vec![3, 4] } else { vec![] });
            // What was at hand then.
            obstacle.settle(3, true);
            assert_eq!(obstacle.state().0, if is_needed { vec![4] } else { vec![] });
        }
        let obstacle = Obstacle::default();
        obstacle.hand_over(1, false);
        obstacle.give_up_pending(None);
        assert_eq!(obstacle.state().0, [1], "none is safe");
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
