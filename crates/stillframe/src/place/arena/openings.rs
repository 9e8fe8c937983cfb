//! The arenas that this process has open: each is opened once, and found by its name without a look at all directories on the way.

use super::{Arena, Shared};
use crate::place::directory::Directory;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use stillframe_kernel::folder::About;
use stillframe_kernel::fork;
use stillframe_kernel::trust::Guard;
use stillframe_segment::arena;

/// What tells the openings of one process apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) identity: (u64, u64),
    /// Of the file with the locks that tell who holds what. One arena may be seen in two directories, of which each has its own:
    /// then it is another enclave's in one of them.
    pub(super) locks: (u64, u64),
    /// Whether it has its directory, in which is known who is to be asked and woken.
    pub(super) has_directory: bool,
    pub(super) is_writing: bool,
}

static OPENINGS: Mutex<Vec<(Key, Weak<Shared>)>> = Mutex::new(Vec::new());

/// By which name an arena was found that is open to look at.
struct Note {
    dir: PathBuf,
    guard: Guard,
    name: String,
    /// Where its file lies.
    file: PathBuf,
    shared: Weak<Shared>,
}

static NOTES: Mutex<Vec<Note>> = Mutex::new(Vec::new());

/// Looks at what this process knows. Where a signal handler has interrupted just that, it finds nothing, and opens the arena
/// once more: that costs descriptors, and is as right.
fn among<L, T>(list: &Mutex<L>, look: impl FnOnce(&mut L) -> Option<T>) -> Option<T> {
    // A child that was forked from the middle of it would find it locked for ever.
    fork::undivided(|| look(&mut *list.try_lock().ok()?))
}

fn find(openings: &[(Key, Weak<Shared>)], key: Key) -> Option<Arc<Shared>> {
    let found = openings.iter().filter(|(known, _)| *known == key).filter_map(|(_, shared)| shared.upgrade());
    // What was opened before a fork is the parent's.
    found.into_iter().find(|shared| shared.lease.is_ours())
}

pub(super) fn known(key: Key) -> Option<Arc<Shared>> {
    among(&OPENINGS, |openings| find(openings, key))
}

pub(super) fn remember(key: Key, shared: Arc<Shared>) -> Arc<Shared> {
    let other = among(&OPENINGS, |openings| {
        openings.retain(|(_, shared)| shared.strong_count() > 0);
        let other = find(openings, key);
        if other.is_none() {
            openings.push((key, Arc::downgrade(&shared)));
        }
        other
    });
    // Another thread may have opened it meanwhile.
    other.unwrap_or(shared)
}

impl Arena {
    /// Remembers by which name the arena was found below a directory of regions.
    pub(super) fn note(&self, root: &Directory, name: &str) {
        let (dir, guard) = (root.path().to_path_buf(), root.guard());
        let file = dir.join(name).join(arena::FILE);
        let shared = Arc::downgrade(&self.shared);
        among(&NOTES, |notes| {
            notes.retain(|note| note.shared.strong_count() > 0);
            let is_same = |note: &&mut Note| note.dir == dir && note.guard == guard && note.name == name;
            match notes.iter_mut().find(is_same) {
                Some(note) => note.shared = shared,
                None => notes.push(Note { dir, guard, name: name.into(), file, shared }),
            }
            Some(())
        });
    }

    /// The arena in which a name leads that was found before, if it is still the one of its name, and what is left of the name:
    /// as [`of_region`](Arena::of_region), which opens all directories on the way. Those need not be looked at again, for
    /// nothing in them is used: the arena is the file that was believed when it was opened, and the name only says that it is
    /// meant.
    pub(crate) fn noted<'a>(dir: &Path, guard: Guard, name: &'a str) -> Option<(Arena, &'a str)> {
        let (shared, file, left) = among(&NOTES, |notes| {
            notes.iter().find_map(|note| {
                // Without a name the directory is the arena's own.
                let left =
                    if note.name.is_empty() { name } else { name.strip_prefix(&*note.name)?.strip_prefix('/')? };
                let is_meant = note.guard == guard && note.dir == dir;
                let shared = is_meant.then(|| note.shared.upgrade()).flatten()?;
                shared.lease.is_ours().then(|| (shared, note.file.clone(), left))
            })
        })?;
        let is_there = About::at(&file, true).is_ok_and(|about| about.identity == shared.about.identity);
        is_there.then_some((Arena { shared }, left))
    }
}
