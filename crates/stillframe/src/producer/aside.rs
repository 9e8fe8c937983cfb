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
use crate::inspect::removal::{ranks, remove_from};
use crate::place::arena::{Arena, Claimed};
use crate::place::directory::Directory;
use crate::place::hidden::Hidden;
use crate::place::names::{self, ASIDE};
use crate::producer::options::RegionOptions;
use crate::store::head::Head;
use crate::store::ownership::{self, Obstacle, REMOVAL};
use crate::store::regions::{Ending, Locked, Regions};
use crate::store::turn::Turn;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::{Duration, Instant};
use stillframe_kernel::disk::{FileSystem, file_system};
use stillframe_kernel::trust::Guard;
use stillframe_kernel::{memory, points, remark};
use stillframe_segment::head::Counter;

/// Whether this process ends by an accident that is no panic.
static IS_ACCIDENT: AtomicBool = AtomicBool::new(false);

/// Has regions of this process that end from now on count as ended by an accident, so that what they leave is set aside. For
/// languages whose programs end by exceptions, which run the end of a process as a return of its main function does.
pub fn end_by_accident() {
    IS_ACCIDENT.store(true, Ordering::Relaxed);
}

/// A producer's region, and its group if it is a rank.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    dir: PathBuf,
    guard: Guard,
    arena: Option<Arena>,
    prefix: String,
    /// Whether it is made where nobody sees it.
    is_hidden: bool,
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

/// What was set aside and is on its way out: gone when this is.
pub(crate) enum Parting {
    Directory { _hidden: Hidden },
    Arena { arena: Arena, claimed: Vec<Claimed> },
}

impl Drop for Parting {
    fn drop(&mut self) {
        if let Parting::Arena { arena, claimed } = self {
            // What is left for want of a lock is removed by the next run that ends well, or by who collects.
            claimed.drain(..).for_each(|claimed| drop(arena.remove(claimed)));
        }
    }
}

impl Run {
    pub(crate) fn new(options: &RegionOptions, given: &str) -> Result<Run> {
        let group = options.rank.map(|(rank, ranks)| Ranks { name: given.into(), rank, ranks });
        let region = group.as_ref().map_or(given.into(), |group| names::rank_name(given, group.rank));
        let (dir, guard, arena) = (options.dir.clone(), options.guard()?, options.arena.clone());
        let prefix = options.prefix.clone().unwrap_or_default();
        Ok(Run { dir, guard, arena, prefix, is_hidden: options.hidden, region, group, is_said: Arc::default() })
    }

    /// The regions among which this one is, if they are there and can be used.
    fn regions(&self, guard: Guard) -> Option<Regions> {
        if self.is_hidden {
            return None;
        }
        if let Some(arena) = &self.arena {
            return Some(Regions::Arena { arena: arena.clone(), prefix: self.prefix.clone() });
        }
        match Directory::root(&self.dir, guard) {
            Ok(root) => root.map(Regions::Directory),
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
    pub(crate) fn clear(&self, regions: &Regions) -> Result<()> {
        if let Some(Ranks { name, .. }) = &self.group {
            clear(regions, name, &|regions| ranks_left(regions, name))?;
        }
        let region = &self.region;
        clear(regions, region, &|regions| Ok(regions.find(region)?.map(|_| region.clone()).into_iter().collect()))
    }

    /// The names under which something may be set aside.
    fn asides(&self) -> impl Iterator<Item = String> {
        let group = self.group.as_ref().map(|group| &group.name);
        group.into_iter().chain([&self.region]).map(|name| aside(name))
    }

    /// Removes what is set aside, for want of room. `false` if nothing is.
    pub(crate) fn make_room(&self) -> bool {
        let Some(regions) = self.regions(self.guard.looking()) else { return false };
        let full = if self.arena.is_some() { "arena" } else { "file system" };
        let mut is_made = false;
        for name in self.asides().filter(|name| is_there(&regions, name)) {
            match remove_from(&regions, &name, false) {
                Ok(_) => {
                    is_made = true;
                    let name = regions.shown(&name);
                    remark::say(move || {
                        format!("'{name}', which was set aside, is removed: the {full} had no room left")
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
    fn is_last(&self, regions: &Regions, group: &Ranks, unlinks: bool) -> bool {
        (0..group.ranks).filter(|rank| *rank != group.rank).all(|rank| {
            match regions.find(&names::rank_name(&group.name, rank)) {
                Ok(Some(site)) if site.identity().is_some() => matches!(site.ending(), Ending::Good(_)),
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
    pub(crate) fn say(&self, is_good: bool, unlinks: bool) -> Vec<Parting> {
        if self.is_said.swap(true, Ordering::Relaxed) {
            return Vec::new();
        }
        let is_good = is_good && !IS_ACCIDENT.load(Ordering::Relaxed);
        self.head.set_ended(is_good);
        // Of ranks that end together, one at least sees that all did.
        fence(Ordering::SeqCst);
        // A run that published nothing may have been a slip, and is not worth what it would take away.
        if !is_good || self.head.counter(Counter::Published) == self.published {
            return Vec::new();
        }
        let run = &self.run;
        let Some(regions) = run.regions(run.guard) else { return Vec::new() };
        let group = run.group.as_ref().filter(|group| is_there(&regions, &aside(&group.name)));
        let looked = regions.looked_at();
        let group = group.filter(|group| run.is_last(&looked, group, unlinks)).map(|group| &group.name);
        let region = Some(&run.region).filter(|region| may_be_aside(&looked, region));
        let names = group.into_iter().chain(region);
        let part = |name: &String| {
            let aside = aside(name);
            part_with(&regions, &aside).unwrap_or_else(|error| {
                run.say_stays(&regions.shown(&aside), error);
                None
            })
        };
        names.filter_map(part).collect()
    }
}

fn aside(name: &str) -> String {
    format!("{name}{ASIDE}")
}

/// Whether something may be set aside of a region. An arena finds a name at once, and whatever has a name's beginning only
/// among all of its regions, of which there may be thousands that end.
fn may_be_aside(regions: &Regions, region: &str) -> bool {
    let aside = aside(region);
    let is_missing = |name: &str| matches!(regions.find(name), Ok(None));
    !(matches!(regions, Regions::Arena { .. }) && is_missing(&aside) && is_missing(&names::rank_name(&aside, 0)))
}

/// Whether a region or group has this name.
fn is_there(regions: &Regions, name: &str) -> bool {
    let regions = regions.looked_at();
    match &regions {
        Regions::Directory(_) => {
            matches!(regions.find(name), Ok(Some(site)) if site.is_region())
                || ranks(&regions, name).is_ok_and(|ranks| !ranks.is_empty())
        }
        Regions::Arena { arena, .. } => arena.family(name).is_ok_and(|family| !family.is_empty()),
    }
}

/// Takes what an earlier run left under a name out of the way, if nobody produces any of it.
fn clear(regions: &Regions, name: &str, find: &dyn Fn(&Regions) -> Result<Vec<String>>) -> Result<()> {
    // What is taken out of the way is not written to, whatever mode it has.
    let looked = regions.looked_at();
    if find(&looked)?.is_empty() {
        return Ok(());
    }
    let aside = aside(name);
    // One process at a time, so that ranks which begin together find all of an earlier run or nothing.
    let mut turn = Turn::take(regions, &aside)?;
    let mut left = Vec::new();
    for region in find(&looked)? {
        match looked.try_lock(&region)? {
            Ok(locked) => left.push(locked),
            // Whoever has it, to produce or to remove it as well, is met again when it is locked.
            Err(Obstacle::Held) => return Ok(()),
            Err(Obstacle::Removed | Obstacle::NoDirectory) => {}
        }
    }
    points::hit("aside.locked");
    let (mut bad, mut bytes) = (Vec::new(), 0);
    for locked in &left {
        let Some(site) = looked.find(locked.name())? else { continue };
        bytes += site.allocated_bytes()?;
        if let Ending::Bad(newest) = site.ending() {
            bad.push(newest);
        }
    }
    let shown = regions.shown(name);
    let what = match bad.iter().flatten().min() {
        Some(newest) => {
            format!("the last run of '{shown}' did not end by itself: what it left, up to version {newest},")
        }
        None => format!("what the last run of '{shown}' left"),
    };
    let fits = bad.is_empty() || has_room(regions, bytes)?;
    if bad.is_empty() || !fits {
        left.into_iter().try_for_each(|locked| looked.remove(locked))?;
        if !fits {
            remark::say(move || format!("{what} is removed: memory has no room for it beside as much again"));
        }
        return Ok(());
    }
    match (&mut turn, &looked) {
        (Turn::Directory(hidden), Regions::Directory(looked)) => {
            let is_replaced = hide_in(hidden, looked, &aside)?;
            points::hit("aside.hidden");
            put(looked, name, &aside, &left)?;
            points::hit("aside.put");
            drop(left);
            if is_replaced {
                hidden.give_way();
            }
        }
        (_, looked) => {
            let replaced = lock_patiently(looked, &aside)?;
            looked.rename(name, &aside, left, replaced)?;
            points::hit("aside.put");
        }
    }
    let aside = regions.shown(&aside);
    remark::say(move || {
        format!("{what} is set aside as '{aside}' until a run of the name ends by itself; 'still ls' shows it")
    });
    Ok(())
}

/// Locks what has a name. Somebody may just be removing it, by names that are not to be those of others meanwhile.
fn lock_patiently(regions: &Regions, name: &str) -> Result<Vec<Locked>> {
    let begin = Instant::now();
    loop {
        match regions.lock_all(name) {
            Err(Error::InUse { .. }) if begin.elapsed() < REMOVAL => std::thread::sleep(Duration::from_millis(1)),
            locked => return locked,
        }
    }
}

/// Renames what a run left: in one step, unless something else lies beside the ranks.
fn put(root: &Directory, name: &str, aside: &str, left: &[Locked]) -> Result<()> {
    let path = root.path().join(name);
    let missing = || Error::io("renameat2", &path, ErrorKind::NotFound.into());
    let rename = |from: &Directory, name: &str, to: &Directory, new: &str| {
        let renamed = from.folder().rename_new(name, to.folder(), new);
        renamed.map_err(|error| Error::io("renameat2", &from.path().join(name), error))
    };
    let from = root.below(name)?.ok_or_else(missing)?;
    let is_left = |region: &str| left.iter().any(|left| left.name() == region);
    let is_rank = |entry: OsString| entry.to_str().is_some_and(|entry| is_left(&format!("{name}/{entry}")));
    if is_left(name) || from.names()?.into_iter().all(is_rank) {
        let (above, last) = root.above(name)?.ok_or_else(missing)?;
        return rename(&above, last, &above, &self::aside(last));
    }
    let about = from.folder().about().map_err(|error| Error::io("fstat", &path, error))?;
    let to = root.make_below(aside, about.mode & 0o777)?;
    let ranks = left.iter().filter_map(|left| left.name().rsplit_once('/'));
    ranks.map(|(_, rank)| rank).try_for_each(|rank| rename(&from, rank, &to, rank))
}

/// Takes what has this name away; `None` if nothing has.
fn part_with(regions: &Regions, name: &str) -> Result<Option<Parting>> {
    if !is_there(regions, name) {
        return Ok(None);
    }
    match regions {
        Regions::Directory(root) => {
            let mut hidden = Hidden::claim(root, name, REMOVAL)?;
            let is_hidden = hide_in(&hidden, &root.guarded(root.guard().looking()), name)?;
            hidden.give_way();
            Ok(is_hidden.then_some(Parting::Directory { _hidden: hidden }))
        }
        Regions::Arena { arena, .. } => {
            let locked = lock_patiently(regions, name)?;
            let claimed = locked.into_iter().filter_map(Locked::claimed).collect();
            Ok(Some(Parting::Arena { arena: arena.clone(), claimed }))
        }
    }
}

/// Takes what has this name out of sight; `false` if nothing has.
fn hide_in(hidden: &Hidden, root: &Directory, name: &str) -> Result<bool> {
    // What is not a region's is somebody's own.
    if !ownership::check_entries(root, name)? {
        return Ok(false);
    }
    let _locked = lock_patiently(&Regions::Directory(root.clone()), name)?;
    let Some((above, last)) = root.above(name)? else { return Ok(false) };
    match above.folder().rename_new(last, hidden.place.folder(), "former") {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        renamed => renamed.map(|()| true).map_err(|error| Error::io("renameat2", &above.path().join(last), error)),
    }
}

/// Whether there is room for so many bytes beside what was set aside: in memory, if that is what the files lie in, and in the
/// arena.
fn has_room(regions: &Regions, bytes: u64) -> Result<bool> {
    let is_memory = match regions {
        Regions::Directory(root) => {
            root.folder().reopen().is_ok_and(|root| matches!(file_system(&root), Ok(FileSystem::Tmpfs)))
        }
        Regions::Arena { arena, .. } => {
            if arena.usage()?.free_bytes < bytes {
                return Ok(false);
            }
            matches!(file_system(arena.file()), Ok(FileSystem::Tmpfs))
        }
    };
    Ok(!is_memory || memory::available_bytes().is_none_or(|available_bytes| available_bytes >= bytes))
}
