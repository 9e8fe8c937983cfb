//! The state: a region, or a group of them, seen by its name and newest version.

use crate::failure::Failure;
use std::fs::{File, Metadata, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stillframe::inspect::{self, RegionInfo};
use stillframe::{AnySnapshot, Observer};

/// How long the kernel may take to end a program that was killed: it gives its memory back first.
const ENDING: Duration = Duration::from_secs(30);

/// How long another lock on the state may be that of somebody who looks at it alone.
const LOOKED_AT: Duration = Duration::from_millis(300);

/// The region or group that is stepped.
pub struct State {
    dir: PathBuf,
    name: String,
    lock: Option<File>,
}

impl State {
    pub fn new(dir: PathBuf, name: &str) -> Result<State, Failure> {
        let state = State { dir, name: name.into(), lock: None };
        // A bad name is to be told before anything runs.
        state.newest()?;
        Ok(state)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The region, or those of the ranks that have begun, and the newest version that all have.
    fn look(&self) -> Result<(Vec<RegionInfo>, Option<u64>), Failure> {
        match inspect::region(&self.dir, &self.name) {
            Ok(info) => {
                let newest = info.newest;
                Ok((vec![info], newest))
            }
            Err(stillframe::Error::NoRegion { .. } | stillframe::Error::IsGroup { .. }) => {
                let group = inspect::group(&self.dir, &self.name)?;
                Ok(group.map_or((Vec::new(), None), |group| (group.regions, group.versions.last().copied())))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The newest version, of a group the newest that all ranks have.
    pub fn newest(&self) -> Result<Option<u64>, Failure> {
        let (regions, newest) = self.look()?;
        for info in regions {
            if let inspect::State::Unreadable(why) = info.state {
                let name = info.name;
                return Err(Failure::Problem(format!(
                    "the region {name} cannot be read: {why}; if its files are damaged, `still rm {name}` removes it"
                )));
            }
        }
        Ok(newest)
    }

    /// Whether ranks of a group have newer versions than this one, none of which all have.
    pub fn is_parted(&self, read: Option<u64>) -> Result<bool, Failure> {
        let (regions, _) = self.look()?;
        let is_newer = |info: &RegionInfo| info.newest.is_some_and(|newest| read.is_none_or(|read| newest > read));
        Ok(regions.iter().any(|info| info.rank.is_some() && is_newer(info)))
    }

    /// Holds the newest version.
    pub fn hold(&self) -> Result<AnySnapshot, Failure> {
        Ok(Observer::options().dir(&self.dir).open_any(&self.name)?.newest()?)
    }

    /// The process that produces it, if one does.
    pub fn producer(&self) -> Result<Option<u32>, Failure> {
        let (regions, _) = self.look()?;
        Ok(regions.iter().find(|info| info.state == inspect::State::Live).map(|info| info.producer_pid))
    }

    /// Waits until what the last call started is gone too.
    ///
    /// # Errors
    /// If somebody goes on producing.
    pub fn wait_for_no_producer(&self) -> Result<(), Failure> {
        let begin = Instant::now();
        let mut pause = Duration::from_micros(100);
        while let Some(pid) = self.producer()? {
            if begin.elapsed() > ENDING {
                return Err(Failure::Problem(format!(
                    "region {} still has a producer, process {pid}, between steps: end that program first",
                    self.name
                )));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Keeps other drivers away from the state, if it is there, for as long as this one lives, and whoever removes what nobody needs.
    pub fn lock(&mut self) -> Result<(), Failure> {
        let path = self.dir.join(&self.name);
        let fail = |error| Failure::Problem(format!("{}: {error}", path.display()));
        // The lock of a directory that another one replaced protects nothing.
        let identity = |about: Metadata| (about.dev(), about.ino());
        let there = path.metadata().ok().map(identity);
        let held = self.lock.as_ref().and_then(|lock| lock.metadata().ok()).map(identity);
        if held.is_some() && held == there {
            return Ok(());
        }
        self.lock = None;
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(fail(error)),
        };
        let begin = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                // Who removes what nobody needs has it for an instant.
                Err(TryLockError::WouldBlock) if begin.elapsed() < LOOKED_AT => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(TryLockError::WouldBlock) => {
                    let why = format!("another `still step` runs region {}: end it first", self.name);
                    return Err(Failure::Problem(why));
                }
                Err(TryLockError::Error(error)) => return Err(fail(error)),
            }
        }
        self.lock = Some(file);
        Ok(())
    }
}
