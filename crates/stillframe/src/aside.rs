//! What a run that did not end by itself left, set aside by the next one that begins with nothing.
//!
//! Its last version is mostly all that is left of the run, and whoever begins the next one seldom knows. So `fresh` renames it,
//! in one step, to a name that no region is given ([`ASIDE`]), where observers find it as any other region. One is set aside
//! for each name: the latest. It goes when a run of the name that published something ends by itself, and before a run of
//! the name lacks room in the file system.
//!
//! Memory is looked at beforehand: a control group or machine without it kills, and says nothing that could be acted on. What
//! the new run will take is not known, and is taken to be what the last one took.

use crate::directory::{self, Obstacle, REMOVAL};
use crate::files::{self, ASIDE, Head, LeaseFile};
use crate::staging::{self, Hidden, There};
use crate::{Error, RegionOptions, Result, companions, inspect};
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::{Duration, Instant};
use stillframe_kernel::disk::{FileSystem, file_system};
use stillframe_kernel::{memory, points, remark, rename};
use stillframe_protocol::Newest;
use stillframe_segment::head::{self, Counter};

/// A producer's region, and its group if it is a rank.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    root: PathBuf,
    region: String,
    group: Option<Ranks>,
}

#[derive(Debug, Clone)]
struct Ranks {
    name: String,
    rank: u32,
    ranks: u32,
}

/// A region of an earlier run, locked.
struct Left {
    dir: PathBuf,
    _leases: LeaseFile,
}

/// What the head of a region says of its last producer.
enum Ending {
    /// There is no version, or no finished head.
    Empty,
    /// It ended by itself.
    Good,
    /// It did not, or the head is not one of this build; with the newest version.
    Bad(Option<u64>),
}

impl Run {
    pub(crate) fn new(options: &RegionOptions, given: &str) -> Run {
        let group = options.rank.map(|(rank, ranks)| Ranks { name: given.into(), rank, ranks });
        let region = group.as_ref().map_or(given.into(), |group| files::rank_name(given, group.rank));
        Run { root: options.dir.clone(), region, group }
    }

    /// Takes what the last run left out of the way: of all ranks, unless one of them lives, and of the region itself.
    pub(crate) fn clear(&self) -> Result<()> {
        let root = &self.root;
        if let Some(Ranks { name, .. }) = &self.group {
            clear(root, name, &|| companions::ranks_left(root, name))?;
        }
        let dir = files::region_dir(root, &self.region)?;
        clear(root, &self.region, &|| Ok(Vec::from_iter(dir.is_dir().then(|| self.region.clone()))))
    }

    /// The names under which something may be set aside.
    fn asides(&self) -> impl Iterator<Item = String> {
        let group = self.group.as_ref().map(|group| &group.name);
        group.into_iter().chain([&self.region]).map(|name| aside(name))
    }

    /// Removes what is set aside, for want of room. `false` if nothing is.
    pub(crate) fn make_room(&self) -> bool {
        let mut is_made = false;
        for name in self.asides().filter(|name| self.root.join(name).is_dir()) {
            if inspect::remove(&self.root, &name, false).is_ok() {
                is_made = true;
                remark::say(move || {
                    format!("'{name}', which was set aside, is removed: the file system had no room left")
                });
            }
        }
        is_made
    }

    /// Whether all other ranks ended by themselves, with a version. If this one's files go at its end, so may theirs have.
    fn is_last(&self, group: &Ranks, unlinks: bool) -> bool {
        (0..group.ranks).filter(|rank| *rank != group.rank).all(|rank| {
            let dir = self.root.join(files::rank_name(&group.name, rank));
            matches!(ending(&dir), Ending::Good) || unlinks && !dir.join(head::FILE).exists()
        })
    }
}

/// What a producer does when it ends by itself, once.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) run: Run,
    head: Head,
    /// Versions that were published before.
    published: u64,
    is_said: AtomicBool,
}

impl End {
    pub(crate) fn new(run: Run, head: Head) -> End {
        let published = head.counter(Counter::Published);
        End { run, head, published, is_said: AtomicBool::new(false) }
    }

    /// Says in the head whether the producer ends well, and takes what is set aside out of sight. It is gone when the returned
    /// values are: nobody needs to wait for that. The producer's lock must be held, so that nobody sets anything aside.
    pub(crate) fn say(&self, is_good: bool, unlinks: bool) -> Vec<Hidden> {
        if self.is_said.swap(true, Ordering::Relaxed) {
            return Vec::new();
        }
        self.head.set_ended(is_good);
        // Of ranks that end together, one at least sees that all did.
        fence(Ordering::SeqCst);
        // A run that published nothing may have been a slip, and is not worth what it would take away.
        if !is_good || self.head.counter(Counter::Published) == self.published {
            return Vec::new();
        }
        let run = &self.run;
        let group = run.group.as_ref().filter(|group| run.root.join(aside(&group.name)).is_dir());
        let group = group.filter(|group| run.is_last(group, unlinks)).map(|group| &group.name);
        let names = group.into_iter().chain([&run.region]);
        names.filter_map(|name| hide(&run.root, &aside(name)).ok().flatten()).collect()
    }
}

fn aside(name: &str) -> String {
    format!("{name}{ASIDE}")
}

/// Takes what an earlier run left under a name out of the way, if nobody produces any of it.
fn clear(root: &Path, name: &str, find: &dyn Fn() -> Result<Vec<String>>) -> Result<()> {
    if find()?.is_empty() {
        return Ok(());
    }
    let aside = aside(name);
    // One process at a time, so that ranks which begin together find all of an earlier run or nothing.
    let mut hidden = Hidden::claim(root, &aside, REMOVAL)?;
    let mut left = Vec::new();
    for region in find()? {
        let dir = files::region_dir(root, &region)?;
        match directory::try_lock(&dir, &region, 0o600)? {
            Ok(leases) => left.push(Left { dir, _leases: leases }),
            // Whoever has it, to produce or to remove it as well, is met again when it is locked.
            Err(Obstacle::Held) => return Ok(()),
            Err(Obstacle::Removed | Obstacle::NoDirectory) => {}
        }
    }
    points::hit("aside.locked");
    let bad: Vec<Option<u64>> = left
        .iter()
        .filter_map(|left| match ending(&left.dir) {
            Ending::Bad(newest) => Some(newest),
            Ending::Empty | Ending::Good => None,
        })
        .collect();
    let what = match bad.iter().flatten().min() {
        Some(newest) => {
            format!("the last run of '{name}' did not end by itself: what it left, up to version {newest},")
        }
        None => format!("what the last run of '{name}' left"),
    };
    let bytes: u64 = left.iter().map(|left| staging::allocated_bytes(&left.dir)).sum();
    let fits = bad.is_empty() || memory_has(root, bytes);
    if bad.is_empty() || !fits {
        left.iter().try_for_each(|left| directory::remove(root, &left.dir))?;
        if !fits {
            remark::say(move || format!("{what} is removed: memory has no room for it beside as much again"));
        }
        return Ok(());
    }

    let is_replaced = hide_in(&hidden, root, &aside)?;
    points::hit("aside.hidden");
    put(root, name, &aside, &left)?;
    points::hit("aside.put");
    drop(left);
    if is_replaced {
        hidden.give_way();
    }
    remark::say(move || {
        format!("{what} is set aside as '{aside}' until a run of the name ends by itself; 'still ls' shows it")
    });
    Ok(())
}

/// Renames what a run left: in one step, unless something else lies beside the ranks.
fn put(root: &Path, name: &str, aside: &str, left: &[Left]) -> Result<()> {
    let (from, to) = (files::region_dir(root, name)?, files::region_dir(root, aside)?);
    let is_left = |path: &Path| left.iter().any(|left| left.dir == path);
    let rename = |from: &Path, to: &Path| rename::rename_new(from, to).map_err(|failure| Error::system(from, failure));
    let entries = std::fs::read_dir(&from).map_err(|error| Error::io("open", &from, error))?;
    if is_left(&from) || entries.flatten().all(|entry| is_left(&entry.path())) {
        return rename(&from, &to);
    }
    let meta = std::fs::metadata(&from).map_err(|error| Error::io("stat", &from, error))?;
    directory::make(&to, meta.permissions().mode() & 0o777)?;
    left.iter().try_for_each(|left| rename(&left.dir, &to.join(left.dir.file_name().unwrap_or_default())))
}

/// Takes what has this name out of sight; `None` if nothing has.
fn hide(root: &Path, name: &str) -> Result<Option<Hidden>> {
    if !files::region_dir(root, name)?.is_dir() {
        return Ok(None);
    }
    let mut hidden = Hidden::claim(root, name, REMOVAL)?;
    let is_hidden = hide_in(&hidden, root, name)?;
    hidden.give_way();
    Ok(is_hidden.then_some(hidden))
}

fn hide_in(hidden: &Hidden, root: &Path, name: &str) -> Result<bool> {
    let (dir, begin) = (files::region_dir(root, name)?, Instant::now());
    loop {
        // What is not a region's is somebody's own.
        if !staging::check_entries(&dir, name)? {
            return Ok(false);
        }
        let mut there = There::default();
        match there.lock_rest(&dir, name) {
            // Somebody just removes it, by names that are not to be those of others meanwhile.
            Err(Error::InUse { .. }) if begin.elapsed() < REMOVAL => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => return Err(error),
            Ok(()) => match rename::rename_new(&dir, &hidden.place.join("former")) {
                Err(failure) if failure.errno() == libc::ENOENT => return Ok(false),
                renamed => return renamed.map(|()| true).map_err(|failure| Error::system(&dir, failure)),
            },
        }
    }
}

/// How the last run of a region ended.
fn ending(dir: &Path) -> Ending {
    let mut bytes = vec![0; head::HEAD_BYTES];
    let read = File::open(dir.join(head::FILE)).and_then(|file| directory::read_begin(&file, &mut bytes));
    let Ok(length) = read else { return Ending::Empty };
    match head::check_geometry(&bytes[..length]) {
        Ok(true) => {}
        Ok(false) => return Ending::Empty,
        Err(_) => return Ending::Bad(None),
    }
    let word = |at: usize| bytes[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let newest = Newest(word(head::NEWEST_AT));
    match (newest.sequence(), word(head::ENDED_NS_AT)) {
        (0, _) => Ending::Empty,
        (_, 0) => {
            let slot = Some(newest.slot()).filter(|slot| *slot < head::SLOTS);
            Ending::Bad(slot.map(|slot| word(head::descriptor_at(slot) + head::descriptor::VERSION_AT)))
        }
        _ => Ending::Good,
    }
}

/// Whether memory has so many bytes to spare, if that is what the directory's files lie in.
fn memory_has(root: &Path, bytes: u64) -> bool {
    let is_memory = File::open(root).is_ok_and(|root| matches!(file_system(&root), Ok(FileSystem::Tmpfs)));
    !is_memory || memory::available_bytes().is_none_or(|available_bytes| available_bytes >= bytes)
}
