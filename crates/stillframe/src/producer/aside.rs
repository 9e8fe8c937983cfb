//! What a run that did not end by itself left, set aside by the next one that begins with nothing.
//!
//! Its last version is mostly all that is left of the run, and whoever begins the next one seldom knows. So `fresh` renames it,
//! in one step, to a name that no region is given ([`ASIDE`]), where observers find it as any other region. One is set aside
//! for each name: the latest. It goes when a run of the name that published something ends by itself, and before a run of
//! the name lacks room in the file system.
//!
//! Memory is looked at beforehand: a control group or machine without it kills, and says nothing that could be acted on. What
//! the new run will take is not known, and is taken to be what the last one took.

use crate::error::{Error, Result};
use crate::group::peers::ranks_left;
use crate::inspect::removal::remove_from;
use crate::place::directory::Directory;
use crate::place::directory::read_begin;
use crate::place::hidden::Hidden;
use crate::place::names::{self, ASIDE};
use crate::producer::options::RegionOptions;
use crate::store::head::Head;
use crate::store::lease::LeaseFile;
use crate::store::ownership::{self, Obstacle, REMOVAL, There};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::{Duration, Instant};
use stillframe_kernel::disk::{FileSystem, file_system};
use stillframe_kernel::trust::Guard;
use stillframe_kernel::{memory, points, remark};
use stillframe_protocol::Newest;
use stillframe_segment::head::{self, Counter};

/// A producer's region, and its group if it is a rank.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    dir: PathBuf,
    guard: Guard,
    region: String,
    group: Option<Ranks>,
    /// Whether it was said that what is set aside stays.
    is_said: Arc<AtomicBool>,
}

#[derive(Debug, Clone)]
struct Ranks {
    name: String,
    rank: u32,
    ranks: u32,
}

/// A region of an earlier run, locked.
struct Left {
    region: String,
    directory: Directory,
    _leases: LeaseFile,
}

/// What the head of a region says of its last producer.
enum Ending {
    /// There is no version, or no finished head.
    Empty,
    /// It ended by itself.
    Good,
    /// It did not, or the head is none that can be read; with the newest version.
    Bad(Option<u64>),
}

impl Run {
    pub(crate) fn new(options: &RegionOptions, given: &str) -> Result<Run> {
        let group = options.rank.map(|(rank, ranks)| Ranks { name: given.into(), rank, ranks });
        let region = group.as_ref().map_or(given.into(), |group| names::rank_name(given, group.rank));
        Ok(Run { dir: options.dir.clone(), guard: options.guard()?, region, group, is_said: Arc::default() })
    }

    /// The directory of regions, if it is there and can be used.
    fn root(&self, guard: Guard) -> Option<Directory> {
        match Directory::root(&self.dir, guard) {
            Ok(root) => root,
            Err(error) => {
                self.say_stays(&aside(&self.region), error);
                None
            }
        }
    }

    /// Says, once, that what may be set aside is not removed.
    fn say_stays(&self, aside: &str, error: Error) {
        if !self.is_said.swap(true, Ordering::Relaxed) {
            let aside = aside.to_string();
            remark::say(move || format!("'{aside}', if a former run was set aside so, is not removed: {error}"));
        }
    }

    /// Takes what the last run left out of the way: of all ranks, unless one of them lives, and of the region itself.
    pub(crate) fn clear(&self, root: &Directory) -> Result<()> {
        if let Some(Ranks { name, .. }) = &self.group {
            clear(root, name, &|root| ranks_left(root, name))?;
        }
        let region = &self.region;
        clear(root, region, &|root| Ok(root.below(region)?.map(|_| region.clone()).into_iter().collect()))
    }

    /// The names under which something may be set aside.
    fn asides(&self) -> impl Iterator<Item = String> {
        let group = self.group.as_ref().map(|group| &group.name);
        group.into_iter().chain([&self.region]).map(|name| aside(name))
    }

    /// Removes what is set aside, for want of room. `false` if nothing is.
    pub(crate) fn make_room(&self) -> bool {
        let Some(root) = self.root(self.guard.looking()) else { return false };
        let mut is_made = false;
        for name in self.asides().filter(|name| is_there(&root, name)) {
            match remove_from(&root, &name, false) {
                Ok(_) => {
                    is_made = true;
                    remark::say(move || {
                        format!("'{name}', which was set aside, is removed: the file system had no room left")
                    });
                }
                // Another rank removed it.
                Err(Error::NoRegion { .. }) => {}
                Err(error) => self.say_stays(&name, error),
            }
        }
        is_made
    }

    /// Whether all other ranks ended by themselves, with a version. If this one's files go at its end, so may theirs have.
    fn is_last(&self, root: &Directory, group: &Ranks, unlinks: bool) -> bool {
        (0..group.ranks).filter(|rank| *rank != group.rank).all(|rank| {
            match root.below(&names::rank_name(&group.name, rank)) {
                Ok(Some(directory)) if directory.has(head::FILE) => matches!(ending(&directory), Ending::Good),
                Ok(_) => unlinks,
                Err(_) => false,
            }
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
        let Some(root) = run.root(run.guard) else { return Vec::new() };
        let group = run.group.as_ref().filter(|group| is_there(&root, &aside(&group.name)));
        let looked = root.guarded(run.guard.looking());
        let group = group.filter(|group| run.is_last(&looked, group, unlinks)).map(|group| &group.name);
        let names = group.into_iter().chain([&run.region]);
        let hide = |name: &String| {
            let aside = aside(name);
            hide(&root, &aside).unwrap_or_else(|error| {
                run.say_stays(&aside, error);
                None
            })
        };
        names.filter_map(hide).collect()
    }
}

fn aside(name: &str) -> String {
    format!("{name}{ASIDE}")
}

/// Whether a directory has this name.
fn is_there(root: &Directory, name: &str) -> bool {
    matches!(root.guarded(root.guard().looking()).below(name), Ok(Some(_)))
}

/// Takes what an earlier run left under a name out of the way, if nobody produces any of it.
fn clear(root: &Directory, name: &str, find: &dyn Fn(&Directory) -> Result<Vec<String>>) -> Result<()> {
    // What is taken out of the way is not written to, whatever mode it has.
    let looked = root.guarded(root.guard().looking());
    if find(&looked)?.is_empty() {
        return Ok(());
    }
    let aside = aside(name);
    // One process at a time, so that ranks which begin together find all of an earlier run or nothing.
    let mut hidden = Hidden::claim(root, &aside, REMOVAL)?;
    let mut left = Vec::new();
    for region in find(&looked)? {
        match ownership::try_lock(&looked, &region, 0o600)? {
            Ok((directory, leases)) => left.push(Left { region, directory, _leases: leases }),
            // Whoever has it, to produce or to remove it as well, is met again when it is locked.
            Err(Obstacle::Held) => return Ok(()),
            Err(Obstacle::Removed | Obstacle::NoDirectory) => {}
        }
    }
    points::hit("aside.locked");
    let bad: Vec<Option<u64>> = left
        .iter()
        .filter_map(|left| match ending(&left.directory) {
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
    let bytes: u64 = left.iter().map(|left| left.directory.folder().allocated_bytes()).sum();
    let fits = bad.is_empty() || memory_has(root, bytes);
    if bad.is_empty() || !fits {
        left.iter().try_for_each(|left| ownership::remove(&looked, &left.directory, &left.region))?;
        if !fits {
            remark::say(move || format!("{what} is removed: memory has no room for it beside as much again"));
        }
        return Ok(());
    }

    let is_replaced = hide_in(&hidden, &looked, &aside)?;
    points::hit("aside.hidden");
    put(&looked, name, &aside, &left)?;
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
fn put(root: &Directory, name: &str, aside: &str, left: &[Left]) -> Result<()> {
    let path = root.path().join(name);
    let missing = || Error::io("renameat2", &path, ErrorKind::NotFound.into());
    let rename = |from: &Directory, name: &str, to: &Directory, new: &str| {
        let renamed = from.folder().rename_new(name, to.folder(), new);
        renamed.map_err(|error| Error::io("renameat2", &from.path().join(name), error))
    };
    let from = root.below(name)?.ok_or_else(missing)?;
    let is_left = |region: &str| left.iter().any(|left| left.region == region);
    let is_rank = |entry: OsString| entry.to_str().is_some_and(|entry| is_left(&format!("{name}/{entry}")));
    if is_left(name) || from.names()?.into_iter().all(is_rank) {
        let (above, last) = root.above(name)?.ok_or_else(missing)?;
        return rename(&above, last, &above, &self::aside(last));
    }
    let about = from.folder().about().map_err(|error| Error::io("fstat", &path, error))?;
    let to = root.make_below(aside, about.mode & 0o777)?;
    let ranks = left.iter().filter_map(|left| left.region.rsplit_once('/'));
    ranks.map(|(_, rank)| rank).try_for_each(|rank| rename(&from, rank, &to, rank))
}

/// Takes what has this name out of sight; `None` if nothing has.
fn hide(root: &Directory, name: &str) -> Result<Option<Hidden>> {
    if !is_there(root, name) {
        return Ok(None);
    }
    let mut hidden = Hidden::claim(root, name, REMOVAL)?;
    let is_hidden = hide_in(&hidden, &root.guarded(root.guard().looking()), name)?;
    hidden.give_way();
    Ok(is_hidden.then_some(hidden))
}

fn hide_in(hidden: &Hidden, root: &Directory, name: &str) -> Result<bool> {
    let begin = Instant::now();
    loop {
        // What is not a region's is somebody's own.
        if !ownership::check_entries(root, name)? {
            return Ok(false);
        }
        let mut there = There::default();
        match there.lock_rest(root, name) {
            // Somebody just removes it, by names that are not to be those of others meanwhile.
            Err(Error::InUse { .. }) if begin.elapsed() < REMOVAL => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => return Err(error),
            Ok(()) => {
                let Some((above, last)) = root.above(name)? else { return Ok(false) };
                return match above.folder().rename_new(last, hidden.place.folder(), "former") {
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
                    renamed => {
                        let fail = |error| Error::io("renameat2", &above.path().join(last), error);
                        renamed.map(|()| true).map_err(fail)
                    }
                };
            }
        }
    }
}

/// How the last run of a region ended.
fn ending(directory: &Directory) -> Ending {
    let mut bytes = vec![0; head::HEAD_BYTES];
    let file = match directory.file(head::FILE) {
        Ok(Some((file, _))) => file,
        Ok(None) => return Ending::Empty,
        // Whoever put it there: what lies beside it may be worth something.
        Err(_) => return Ending::Bad(None),
    };
    let Ok(length) = read_begin(&file, &mut bytes) else { return Ending::Bad(None) };
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
fn memory_has(root: &Directory, bytes: u64) -> bool {
    let is_memory = root.folder().reopen().is_ok_and(|root| matches!(file_system(&root), Ok(FileSystem::Tmpfs)));
    !is_memory || memory::available_bytes().is_none_or(|available_bytes| available_bytes >= bytes)
}
