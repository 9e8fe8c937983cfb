//! The search for what a run goes on from: in memory, and among the checkpoints.

use crate::decision;
use crate::origin::RecoveryOptions;
use crate::{Checkpoint, Error, Result, Store};
use std::path::{Path, PathBuf};
use stillframe::{Family, Group, Snapshot};

/// What is in memory under a name.
#[derive(Debug)]
pub(crate) struct InMemory {
    pub(crate) version: u64,
    published_ns: u64,
    /// 0 for a single region.
    pub(crate) ranks: u32,
    /// Whether it was set aside by a run with another number of ranks, which did not get far enough.
    pub(crate) is_former: bool,
}

/// What to go on from.
pub(crate) enum Found {
    Memory(InMemory),
    Checkpoint(Box<Checkpoint>),
    Nothing,
}

/// The search for what to go on from, again and again while what is found turns out to be damaged.
pub(crate) struct Search<'a> {
    options: &'a RecoveryOptions,
    name: &'a str,
    /// What is damaged, in words.
    pub(crate) skipped: Vec<String>,
    /// Why memory is of no use.
    damage: Option<stillframe::Error>,
    /// Why the group that was set aside is of no use.
    former_damage: Option<stillframe::Error>,
    /// Checkpoints that are of no use.
    left: Vec<PathBuf>,
}

/// What is wrong in memory, in words.
fn in_memory(error: &stillframe::Error) -> String {
    format!("in memory: {error}")
}

impl<'a> Search<'a> {
    pub(crate) fn new(options: &'a RecoveryOptions, name: &'a str) -> Search<'a> {
        Search { options, name, skipped: Vec::new(), damage: None, former_damage: None, left: Vec::new() }
    }

    pub(crate) fn leave_memory(&mut self, error: stillframe::Error) {
        self.skipped.push(in_memory(&error));
        self.damage = Some(error);
    }

    pub(crate) fn leave_checkpoint(&mut self, path: &Path, error: &Error) {
        self.left.push(path.into());
        self.skipped.push(error.to_string());
    }

    /// What was published last of that which was not left aside.
    pub(crate) fn next(&mut self) -> Result<Found> {
        if self.options.region.is_fresh() {
            return Ok(Found::Nothing);
        }
        let memory = self.memory()?;
        if let Some(checkpoint) = self.checkpoint(memory.as_ref().map(|memory| memory.published_ns))? {
            return Ok(Found::Checkpoint(checkpoint.into()));
        }
        if let Some(memory) = memory {
            return Ok(Found::Memory(memory));
        }
        // Rather no beginning than one that takes the last hope of recovering away.
        if let Some(damage) = self.damage.take().or(self.former_damage.take()) {
            return Err(damage.into());
        }
        match (&self.options.checkpoints, self.options.version) {
            (Some(dir), _) if !self.left.is_empty() => {
                Err(Error::NoCheckpoint { dir: dir.clone(), skipped: self.skipped.clone() })
            }
            (Some(dir), Some(version)) => {
                let known = Store::open(dir).and_then(|store| store.versions()).unwrap_or_default();
                Err(Error::NoSuchVersion { dir: dir.clone(), version, known })
            }
            (None, Some(version)) => {
                let (region, oldest, newest) = (self.name.into(), None, None);
                Err(stillframe::Error::VersionGone { region, version, oldest, newest }.into())
            }
            _ => Ok(Found::Nothing),
        }
    }

    /// The newest good checkpoint, if it was published after `published_ns`, or the version asked for.
    fn checkpoint(&mut self, published_ns: Option<u64>) -> Result<Option<Checkpoint>> {
        let Some(dir) = &self.options.checkpoints else { return Ok(None) };
        let store = match Store::open(dir) {
            Err(Error::NoStore { .. }) if !dir.exists() => return Ok(None),
            other => other?,
        };
        let entries = match self.options.version {
            Some(version) => store.only(version)?,
            None => store.newest_first()?,
        };
        for entry in entries {
            if self.left.contains(&entry.path) {
                continue;
            }
            let is_later =
                |found: &Checkpoint| published_ns.is_none_or(|memory_ns| found.manifest().published_ns > memory_ns);
            let checked = entry.checkpoint.and_then(|found| match is_later(&found) {
                true => found.check().map(|()| Some(found)),
                false => Ok(None),
            });
            match checked {
                // All others are older still.
                Ok(found) => return Ok(found),
                Err(error) if error.family() == Family::Corrupt => self.leave_checkpoint(&entry.path, &error),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// What is in memory and was published last, as far as it is not damaged.
    fn memory(&mut self) -> stillframe::Result<Option<InMemory>> {
        let (region, name) = (&self.options.region, self.name);
        if region.rank_and_ranks().is_none() {
            return self.present(Search::region);
        }
        let dir = region.directory();
        let present = self.present(|search| search.group_in(Group::options().dir(dir).here().open(name), false))?;
        let former = match self.former_damage {
            Some(_) => None,
            // One that is good is not given up for another that is damaged.
            None => match self.group_in(decision::open_former(region, name), true) {
                Err(error) if error.family() == Family::Corrupt => {
                    self.skipped.push(in_memory(&error));
                    self.former_damage = Some(error);
                    None
                }
                other => other?,
            },
        };
        Ok([present, former].into_iter().flatten().max_by_key(|memory| memory.published_ns))
    }

    /// What has the name, if it was not found to be damaged.
    fn present(
        &mut self,
        look: impl FnOnce(&mut Self) -> stillframe::Result<Option<InMemory>>,
    ) -> stillframe::Result<Option<InMemory>> {
        if self.damage.is_some() {
            return Ok(None);
        }
        match look(self) {
            Err(error) if error.family() == Family::Corrupt => {
                self.leave_memory(error);
                Ok(None)
            }
            other => other,
        }
    }

    fn region(&mut self) -> stillframe::Result<Option<InMemory>> {
        let observer = match self.options.region.observing().open(self.name) {
            Err(stillframe::Error::NoRegion { .. }) => return Ok(None),
            other => other?,
        };
        let snapshot = match self.options.version {
            None => observer.newest(),
            Some(version) => observer.version(version),
        };
        match snapshot {
            Err(stillframe::Error::NoVersion { .. } | stillframe::Error::VersionGone { .. }) => Ok(None),
            Err(error) => Err(error),
            Ok(snapshot) => Ok(Some(InMemory {
                version: snapshot.version(),
                published_ns: snapshot.published_ns(),
                ranks: 0,
                is_former: false,
            })),
        }
    }

    fn group_in(&mut self, opened: stillframe::Result<Group>, is_former: bool) -> stillframe::Result<Option<InMemory>> {
        let group = match opened {
            Err(stillframe::Error::NoRegion { .. }) => return Ok(None),
            other => other?,
        };
        let snapshot = match self.options.version {
            None => group.newest(),
            Some(version) => group.version(version),
        };
        match snapshot {
            Err(
                error @ (stillframe::Error::NoCommonVersion { .. }
                | stillframe::Error::MixedRuns { .. }
                | stillframe::Error::RankMissing { .. }),
            ) => {
                let (has_any, words) = (group.ranks()?.iter().any(|rank| rank.newest.is_some()), in_memory(&error));
                // Memory is looked at again after each checkpoint that is damaged.
                if has_any && !self.skipped.contains(&words) {
                    self.skipped.push(words);
                }
                Ok(None)
            }
            Err(stillframe::Error::NoVersion { .. } | stillframe::Error::VersionGone { .. }) => Ok(None),
            Err(error) => Err(error),
            Ok(snapshot) => Ok(Some(InMemory {
                version: snapshot.version(),
                published_ns: snapshot.ranks().iter().map(Snapshot::published_ns).max().unwrap_or(0),
                ranks: snapshot.ranks().len() as u32,
                is_former,
            })),
        }
    }
}
