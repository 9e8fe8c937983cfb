//! The versions that are saved: several runs of one program, each of which gives the same numbers.

use crate::reading::Numbers;
use std::collections::BTreeMap;
use stillframe::{Observer, Region, Snapshot};
use stillframe_checkpoint::{Checkpoint, layout};
use tempfile::TempDir;

const RUNS: usize = 4;
/// Versions of each run, numbered from 1 on.
const VERSIONS: u64 = 7;
/// Bytes of the two variables: one has three chunks, of which the last is not full, and one has one.
const BYTES: [usize; 2] = [3 * CHUNK_BYTES - 100, 600];
pub const CHUNK_BYTES: usize = 4096;
const NAMES: [&str; 2] = ["a", "b"];

pub struct Version {
    pub run: usize,
    pub number: u64,
    pub snapshot: Snapshot,
    content: [Vec<u8>; 2],
}

/// All versions, in the order in which they were published, and held.
pub struct Pool {
    pub versions: Vec<Version>,
    by_time: BTreeMap<u64, usize>,
    _regions: Vec<Region>,
    _dir: TempDir,
}

/// What a chunk of a version has everywhere. The first chunk changes with each version, the second with some, the third never.
fn stamp(run: usize, number: u64, chunk: usize) -> u8 {
    let period = match chunk {
        0 => run as u64 * 20 + number,
        1 => run as u64 * 20 + number / 3,
        _ => 0,
    };
    period as u8 + 1
}

fn content(run: usize, number: u64, variable: usize) -> Vec<u8> {
    let stamp = |at: usize| match variable {
        0 => stamp(run, number, at / CHUNK_BYTES),
        _ => stamp(run, number, 1).wrapping_add(at as u8),
    };
    (0..BYTES[variable]).map(stamp).collect()
}

impl Pool {
    pub fn new() -> Pool {
        let dir = tempfile::Builder::new().prefix("simulator-").tempdir_in("/dev/shm").unwrap();
        let (mut versions, mut regions) = (Vec::new(), Vec::new());
        for run in 0..RUNS {
            let own = dir.path().join(run.to_string());
            let mut region = Region::options().dir(&own).keep(VERSIONS as usize + 1).threads(1).create("r").unwrap();
            let arrays = [0, 1].map(|index| region.array::<u8>(NAMES[index], &[BYTES[index]]).unwrap());
            let observer = Observer::options().dir(&own).open("r").unwrap();
            for number in 1..=VERSIONS {
                let content = [0, 1].map(|variable| content(run, number, variable));
                for (array, content) in arrays.iter().zip(&content) {
                    region.slice_mut(array).copy_from_slice(content);
                }
                region.publish(number).commit().unwrap();
                let snapshot = observer.newest().unwrap();
                // What is mapped when it is first read would be a call that only the first run makes.
                for (name, content) in NAMES.into_iter().zip(&content) {
                    assert!(snapshot.slice::<u8>(name).unwrap() == content);
                }
                versions.push(Version { run, number, snapshot, content });
            }
            regions.push(region);
        }
        let by_time = versions.iter().enumerate().map(|(index, version)| (version.snapshot.published_ns(), index));
        Pool { by_time: by_time.collect(), versions, _regions: regions, _dir: dir }
    }

    /// Chooses what is saved after a version: mostly a later one of its run, or one of the next run, seldom the same or one
    /// before it. `None` if there is none.
    pub fn next(&self, after: Option<usize>, numbers: &mut Numbers) -> Option<usize> {
        let Some(index) = after else { return Some(numbers.below(VERSIONS as usize)) };
        let run = self.versions[index].run * VERSIONS as usize;
        let next_run = run + VERSIONS as usize;
        match numbers.below(10) {
            0 => Some(index),
            1 => Some(run + numbers.below(index - run + 1)),
            2..4 if index >= run + 2 || index + 1 == next_run => Some(next_run + numbers.below(index - run + 1)),
            _ => Some(index + 1 + numbers.below(2)),
        }
        .filter(|next| *next < self.versions.len())
    }

    /// Whose checkpoint it is that is there, if it has what that version had.
    pub fn whose(&self, checkpoint: &Checkpoint) -> Result<usize, String> {
        let path = checkpoint.path().display();
        let damages = checkpoint.verify(1, &|_| {}).map_err(|error| error.to_string())?;
        if let Some(damage) = damages.first() {
            return Err(format!("{path} is torn: {damage}"));
        }
        let index = self.by_time.get(&checkpoint.manifest().published_ns).copied();
        let index = index.filter(|index| self.versions[*index].number == checkpoint.version());
        let index = index.ok_or_else(|| format!("{path} is that of no version"))?;
        for (name, content) in NAMES.into_iter().zip(&self.versions[index].content) {
            let mut found = vec![0; content.len()];
            checkpoint.read(None, name, 0..content.len(), &mut found).map_err(|error| error.to_string())?;
            if found != *content {
                return Err(format!("{path} has another content of {name} than was published"));
            }
        }
        Ok(index)
    }

    /// The directory of a version, in its store.
    pub fn dir(&self, index: usize) -> String {
        layout::checkpoint_dir(self.versions[index].number)
    }

    /// A version in words.
    pub fn name(&self, index: usize) -> String {
        let Version { run, number, .. } = self.versions[index];
        format!("{number} of run {run}")
    }
}
