//! What was gathered for a pool, in a file beside it: it goes back whoever is killed meanwhile.
//!
//! A note says at any time what is still to go back. Where it is not known whether pages came, or went, it says how many there were
//! before; what is more by then goes back, and nothing else.

use crate::error::{Error, Result};
use crate::page::Page;
use crate::supply::System;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long pages of a process that has ended may stay away.
const ENDING: Duration = Duration::from_secs(1);

/// Pages that go back between two notes. So many are in doubt where a command is killed in between and others reserve pages before
/// somebody finds the note.
const STEP_PAGES: u64 = 16;

/// What was gathered for a pool, and goes back with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gathered {
    pub page_bytes: u64,
    pub parts: Vec<Part>,
    /// Whether it is still being made, or whoever made it was killed.
    #[serde(default)]
    pub is_unfinished: bool,
}

/// Pages of a memory node, or of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    pub node: Option<u32>,
    pub count: u64,
    /// How many there were before they came, or will be when they are gone, as long as it is not known whether they are there.
    pub before: Option<u64>,
}

/// How the file is called that lies beside a pool.
const EXTENSION: &str = "gathered";

/// How it is called while it is written.
const EXTENSION_NEW: &str = "gathering";

/// The file beside the pool at this place.
pub(crate) fn file(path: &Path) -> PathBuf {
    path.with_extension(EXTENSION)
}

/// Whether a pool left something here, with or without a note.
pub(crate) fn is_left(path: &Path) -> bool {
    [path, &file(path), &path.with_extension(EXTENSION_NEW)].into_iter().any(Path::exists)
}

/// The places in a folder beside which there are notes.
pub(crate) fn places(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let notes = entries.filter(|path| path.extension().is_some_and(|extension| extension == EXTENSION));
    notes.map(|path| path.with_extension("")).collect()
}

/// Removes what lies beside a pool.
pub(crate) fn remove(path: &Path) {
    for path in [file(path), path.with_extension(EXTENSION_NEW)] {
        let _ = fs::remove_file(path);
    }
}

impl Gathered {
    /// What the note of a pool says, if there is one that can be read.
    pub(crate) fn read(path: &Path) -> Option<Gathered> {
        serde_json::from_slice(&fs::read(file(path)).ok()?).ok()
    }

    /// Writes it beside the pool. Whoever is killed meanwhile leaves what was noted before.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let (new, path) = (path.with_extension(EXTENSION_NEW), file(path));
        let text = serde_json::to_vec(self).unwrap_or_default();
        let mut options = File::options();
        let file = options.create(true).truncate(true).write(true).mode(0o600).open(&new);
        file.and_then(|mut file| file.write_all(&text)).map_err(Error::io("write", &new))?;
        fs::rename(&new, &path).map_err(Error::io("rename", &path))
    }

    /// Gives all of it back, and notes what is gone; says the first error, and goes on. Returns how many pages somebody still has: the
    /// kernel takes them when he lets them go.
    ///
    /// # Errors
    /// Those of the files. What did not go back is still noted.
    pub(crate) fn scatter(&mut self, system: &System, path: &Path) -> Result<u64> {
        let Some(page) = Page::of_bytes(self.page_bytes) else { return Ok(0) };
        let before = system.surplus(page, None);
        let mut result = Ok(());
        for index in 0..self.parts.len() {
            result = result.and(self.scatter_part(system, path, page, index));
        }
        result.map(|()| wait_for_surplus(system, page, before))
    }

    fn scatter_part(&mut self, system: &System, path: &Path, page: Page, index: usize) -> Result<()> {
        loop {
            let Part { node, count, before } = self.parts[index];
            let lasting = system.lasting(page, node)?;
            let before = before.unwrap_or(lasting.saturating_sub(count));
            let left = lasting.saturating_sub(before).min(count);
            self.parts[index] = Part { node, count: left, before: Some(before) };
            // Whoever is killed between this and the next note leaves a number of pages by which it shows what is gone.
            self.write(path)?;
            if left == 0 {
                return Ok(());
            }
            let step = left.min(STEP_PAGES);
            system.scatter(page, node, step)?;
            self.parts[index].count = left - step;
        }
    }
}

/// How many pages somebody still has beyond `before`. A process that ends gives its own back a little later than it is gone.
fn wait_for_surplus(system: &System, page: Page, before: u64) -> u64 {
    let begin = Instant::now();
    loop {
        let kept = system.surplus(page, None).saturating_sub(before);
        if kept == 0 || begin.elapsed() >= ENDING {
            return kept;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supply::tests::machine_with;

    fn total(system: &System) -> u64 {
        system.supply(Page::Large, None).unwrap().total
    }

    fn gathered(count: u64) -> Gathered {
        let parts = vec![Part { node: None, count, before: None }];
        Gathered { page_bytes: Page::Large.bytes(), parts, is_unfinished: false }
    }

    #[test]
    fn pages_of_others_stay_where_whoever_gave_some_back_was_killed_before_the_note_was_gone() {
        let (dir, system) = machine_with(142);
        let path = dir.path().join("pool");
        gathered(100).scatter(&system, &path).unwrap();
        assert_eq!(total(&system), 42);
        Gathered::read(&path).unwrap().scatter(&system, &path).unwrap();
        assert_eq!(total(&system), 42, "they were gone");
        // Others reserve some before anybody finds the note.
        let nr = dir.path().join("kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
        fs::write(&nr, "90").unwrap();
        Gathered::read(&path).unwrap().scatter(&system, &path).unwrap();
        assert_eq!(total(&system), 90);
    }

    #[test]
    fn a_note_is_there_whole_or_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        gathered(100).write(&path).unwrap();
        let before = File::open(file(&path)).unwrap();
        gathered(7).write(&path).unwrap();
        // Who has opened the former one still reads it: it was not truncated.
        let read: Gathered = serde_json::from_reader(before).unwrap();
        assert_eq!((read, Gathered::read(&path)), (gathered(100), Some(gathered(7))));
        // What is left of one that was not written to its end is no note, and goes with the rest.
        fs::write(path.with_extension(EXTENSION_NEW), "{").unwrap();
        assert_eq!((places(dir.path()), is_left(&path)), (vec![path.clone()], true));
        remove(&path);
        assert!(!is_left(&path));
    }

    #[test]
    fn what_a_note_says_is_true_at_each_step() {
        let (dir, system) = machine_with(142);
        let path = dir.path().join("pool");
        let nr = dir.path().join("kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
        // As if it were killed after each number that it writes: what was noted before that leads to the same end.
        let mut now = 142;
        while now > 42 {
            let mut noted = gathered(100);
            noted.parts[0] = Part { node: None, count: now - 42, before: Some(42) };
            noted.write(&path).unwrap();
            now -= STEP_PAGES.min(now - 42);
            fs::write(&nr, now.to_string()).unwrap();
            Gathered::read(&path).unwrap().scatter(&system, &path).unwrap();
            assert_eq!(total(&system), 42, "killed at {now}");
        }
        // Of what others reserve in between it takes no more than a step.
        for (count, now) in [(100, 126), (16, 42)] {
            let parts = vec![Part { node: None, count, before: Some(42) }];
            Gathered { parts, ..gathered(0) }.write(&path).unwrap();
            fs::write(&nr, (now + 1000).to_string()).unwrap();
            Gathered::read(&path).unwrap().scatter(&system, &path).unwrap();
            assert!(total(&system) + STEP_PAGES >= 1042, "{}", total(&system));
        }
    }
}
