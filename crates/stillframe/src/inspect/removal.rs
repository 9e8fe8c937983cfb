//! Removing regions, and what nobody needs any more.

use crate::error::{Error, Family, Result};
use crate::inspect::region::{RegionInfo, State, allocated_bytes, arenas, look, regions, unread};
use crate::inspect::xpmem;
use crate::observer::Observer;
use crate::place::arena::Arena;
use crate::place::directory::Directory;
use crate::place::files::Root;
use crate::place::{hidden, names};
use crate::store::head::producer_pid;
use crate::store::lease::LeaseFile;
use crate::store::ownership::{self, Obstacle};
use crate::store::regions::{Regions, Site};
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};
use stillframe_kernel::folder::Form;
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::trust::{Distrust, Guard, Purpose, Trust};
use stillframe_protocol::Leases;
use stillframe_segment::{head, lease};

/// What a removal gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// Bytes of memory, less those that observers still hold.
    pub bytes: u64,
}

/// The directory of regions for who removes some, if it is there.
pub(crate) fn own(dir: &Path) -> Result<Option<Directory>> {
    trusted(dir, None)
}

fn trusted(dir: &Path, trust: Option<Trust>) -> Result<Option<Directory>> {
    Directory::root(dir, Guard::new(names::trust(trust)?.unwrap_or_default(), Purpose::Look))
}

/// The group that a region of this name would be a rank of.
fn group_of(info: &RegionInfo) -> Option<&str> {
    info.rank?;
    info.name.rsplit_once('/').map(|(group, _)| group)
}

/// Removes a region, all ranks of a group, or an arena with all its regions. Observers keep what they hold. With `force`, a living producer loses its
/// files too: it goes on into files that nobody can open any more. What a library keeps beside a group in [`Hidden`] files
/// stays; `stillframe_checkpoint::removal` removes its own, too.
///
/// # Errors
/// [`Error::InUse`] while a producer lives, without `force`; of a group nothing is removed then.
pub fn remove(dir: &Path, name: &str, force: bool) -> Result<Removed> {
    remove_trusting(dir, name, force, None)
}

/// As [`remove`], for who says whose directories and files are taken for good, as
/// [`RegionOptions::trust`](crate::RegionOptions::trust) does.
///
/// # Errors
/// As [`remove`].
pub fn remove_trusting(dir: &Path, name: &str, force: bool, trust: Option<Trust>) -> Result<Removed> {
    names::region_dir(dir, name)?;
    let root = trusted(dir, trust)?.ok_or_else(|| Error::NoRegion { region: name.into(), dir: dir.to_path_buf() })?;
    let (regions, name) = among(&root, name)?;
    remove_from(&regions, &name, force)
}

/// Removes an arena of which not all memory is there, as one that somebody began to [fill](Arena::fill): this one, whatever has its
/// name by now. `None` if all of it is there.
///
/// # Errors
/// [`Error::InUse`] if somebody fills it just now, or a producer lives; [`Error::NoArena`] if it is removed already.
pub fn remove_unfilled(dir: &Path, arena: &Arena) -> Result<Option<Removed>> {
    let missing = || Error::NoArena { arena: arena.name().into(), dir: dir.to_path_buf(), half_made: false };
    let root = own(dir)?.ok_or_else(missing)?;
    Ok(arena.remove_unfilled(&root)?.map(|bytes| Removed { bytes }))
}

/// The regions among which one of this name is to be removed, and what it is called there.
fn among(root: &Directory, name: &str) -> Result<(Regions, String)> {
    Ok(match Arena::of_own_region(root, name)? {
        Some((arena, [prefix, region])) => (Regions::Arena { arena, prefix }, region),
        None => (Regions::Directory(root.clone()), name.into()),
    })
}

/// As [`remove`], for who has what holds the regions open.
pub(crate) fn remove_from(regions: &Regions, name: &str, force: bool) -> Result<Removed> {
    let ranks = ranks(regions, name)?;
    if ranks.is_empty() {
        return remove_region(regions, name, force);
    }
    let alive = ranks.iter().find(|(_, site)| site.is_alive()).filter(|_| !force);
    if let Some((rank, site)) = alive {
        return Err(Error::in_use(regions.shown(rank), site.producer_pid()));
    }
    let mut bytes = 0;
    // Who looks at a region keeps what it owns from being given back.
    let ranks: Vec<String> = ranks.into_iter().map(|(rank, _)| rank).collect();
    for rank in ranks {
        match remove_region(regions, &rank, force) {
            Ok(removed) => bytes += removed.bytes,
            // Somebody else removed it meanwhile.
            Err(Error::NoRegion { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Removed { bytes })
}

/// Bytes of memory or disk behind a directory and all below it.
pub(crate) fn allocated_below(root: &Directory, name: &str) -> u64 {
    root.folder().folder(name).map_or(0, |folder| folder.allocated_bytes())
}

/// What other libraries keep in a directory of regions beside these: files and directories with hidden names.
#[derive(Debug)]
pub struct Hidden {
    root: Directory,
}

/// The lock of a hidden file, for as long as it lives.
#[derive(Debug)]
pub struct HiddenLock {
    _file: Unforked,
}

impl Hidden {
    /// Opens a directory of regions for who removes what is hidden in it; `None` if there is none.
    ///
    /// # Errors
    /// As [`collect`].
    pub fn open(dir: &Path) -> Result<Option<Hidden>> {
        Ok(own(dir)?.map(|root| Hidden { root }))
    }

    /// The hidden names.
    pub fn names(&self) -> Vec<String> {
        self.root.texts().into_iter().filter(|name| name.starts_with('.')).collect()
    }

    /// Whether anything has this name.
    pub fn has(&self, name: &str) -> bool {
        self.root.has(name)
    }

    /// Bytes of memory or disk behind a file, or behind all that is in a directory; 0 if there is none.
    pub fn allocated_bytes(&self, name: &str) -> u64 {
        match self.root.about(name) {
            Some(about) if about.form == Form::Folder => allocated_below(&self.root, name),
            about => about.map_or(0, |about| about.allocated_bytes),
        }
    }

    /// Locks a file as flock(2) does, if it is there and nobody else has it locked. A child that is forked has no lock.
    pub fn try_lock(&self, name: &str) -> Option<HiddenLock> {
        let file = Unforked::open(|| self.root.file(name).ok().flatten().map(|(file, _)| file).ok_or(())).ok()?;
        file.try_lock_whole().ok()?;
        Some(HiddenLock { _file: file })
    }

    /// Removes a file, or a directory with all that is in it; one that is not there is not missed.
    ///
    /// # Errors
    /// Environment.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.root.remove_all(name)
    }
}

/// The regions that are ranks of a group of this name, those left over from other runs too.
pub(crate) fn ranks(regions: &Regions, name: &str) -> Result<Vec<(String, Site)>> {
    let looked = regions.looked_at();
    let mut found = Vec::new();
    for rank in looked.ranks_below(name)? {
        let name = names::rank_name(name, rank);
        match looked.find(&name) {
            // One that cannot be read, or was never finished, goes with the others.
            Ok(Some(site)) if site.is_region() && site.head().is_none_or(|head| head.number32(head::RANKS_AT) != 0) => {
                found.push((name, site));
            }
            Ok(_) | Err(Error::NoRegion { .. } | Error::IsGroup { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn remove_region(regions: &Regions, name: &str, force: bool) -> Result<Removed> {
    match regions {
        Regions::Directory(root) => remove_in_directory(root, name, force),
        Regions::Arena { arena, .. } => remove_in_arena(regions, arena, name, force),
    }
}

fn remove_in_arena(regions: &Regions, arena: &Arena, name: &str, force: bool) -> Result<Removed> {
    let missing = || Error::NoRegion { region: regions.shown(name), dir: arena.path().into() };
    let bytes = regions.find(name)?.ok_or_else(missing)?.allocated_bytes()?;
    let begin = Instant::now();
    loop {
        match regions.try_lock(name)? {
            Ok(locked) => return regions.remove(locked).map(|()| Removed { bytes }),
            // Who looks whether somebody produces it has the lock for an instant.
            Err(Obstacle::Held) if begin.elapsed() < ownership::REMOVAL_BEGINS => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(Obstacle::Held) if force => {
                return arena.remove_by_force(name)?.then_some(Removed { bytes }).ok_or_else(missing);
            }
            Err(Obstacle::Held) => {
                let pid = regions.find(name)?.map_or(0, |site| site.producer_pid());
                return Err(Error::in_use(regions.shown(name), pid));
            }
            Err(Obstacle::Removed | Obstacle::NoDirectory) => return Err(missing()),
        }
    }
}

fn remove_in_directory(root: &Directory, name: &str, force: bool) -> Result<Removed> {
    let missing = || Error::NoRegion { region: name.into(), dir: root.path().into() };
    let directory = root.below(name)?.ok_or_else(missing)?;
    if Arena::is_in(&directory) {
        let bytes = match Arena::options().write_in(&directory, name) {
            // One that is damaged, or was never finished, has no producers that could be asked for.
            Err(Error::Corrupt { .. } | Error::NoArena { .. }) if force => Arena::remove_files(root, &directory, name)?,
            arena => arena?.remove_whole(root, force)?,
        };
        return Ok(Removed { bytes });
    }
    // It may be somebody's own, with a file called `tables` in it.
    if !directory.has(lease::FILE) && !directory.has(head::FILE) {
        return Err(missing());
    }
    let bytes = allocated_bytes(&directory);
    // The lock is kept while the files go, so that no producer can begin among them.
    let (directory, _leases) = loop {
        match ownership::try_lock(root, name, 0o600) {
            Ok(Ok((directory, leases))) => break (directory, Some(leases)),
            Ok(Err(Obstacle::Held)) if force => break (directory, None),
            Ok(Err(Obstacle::Held)) => {
                return Err(Error::in_use(name, producer_pid(&directory)));
            }
            Ok(Err(Obstacle::Removed)) => {}
            Ok(Err(Obstacle::NoDirectory)) => return Err(missing()),
            // Nobody can lock what is no file.
            Err(Error::Untrusted { path, distrust: Distrust::Form { .. } })
                if force && path == directory.path().join(lease::FILE) =>
            {
                break (directory, None);
            }
            Err(error) => return Err(error),
        }
    };
    ownership::remove(root, &directory, name)?;
    Ok(Removed { bytes })
}

/// Removes every region whose producer is gone, that nobody holds, and that is not [made step by step](is_stepped); ranks of a group only when that is so of all of
/// them; and what a restore that was killed left, or a process of [XPMEM](xpmem). Returns each with what came of it.
///
/// # Errors
/// As [`regions`].
pub fn collect(dir: &Path) -> Result<Vec<(String, Result<Removed>)>> {
    collect_if(dir, |_| true)
}

/// As [`collect`], of the regions whose names are `wanted`: others may be parts of something that a library keeps in several
/// regions, and are for it to remove.
///
/// # Errors
/// As [`regions`].
pub fn collect_if(dir: &Path, mut wanted: impl FnMut(&str) -> bool) -> Result<Vec<(String, Result<Removed>)>> {
    let mut done = Vec::new();
    let Some(root) = own(dir)? else { return Ok(done) };
    for info in collectable(dir)?.into_iter().filter(|info| wanted(&info.name)) {
        // Somebody may have begun with it since it was looked at.
        let Some(_kept_away) = keep_steps_away(&root, &info.name) else { continue };
        let removed = match xpmem::process_of(&info.name) {
            Some(process) => xpmem::remove_left_over(&root, process).map(|bytes| Removed { bytes }),
            None if hidden::is_staged(&info.name) => hidden::remove(&root, &info.name).map(|bytes| Removed { bytes }),
            None => among(&root, &info.name).and_then(|(regions, name)| remove_region(&regions, &name, false)),
        };
        match removed {
            // Somebody else removed it meanwhile.
            Err(Error::NoRegion { .. }) => {}
            result => done.push((info.name, result)),
        }
    }
    for name in arenas(dir)? {
        // One that is somebody else's, or damaged, is not one's own business.
        let Ok(arena) = Arena::options().dir(dir).open(&name) else { continue };
        let swept = arena.sweep_hidden().and_then(|()| arena.collect());
        if let Err(error) = swept {
            done.push((name, Err(error)));
        }
    }
    Ok(done)
}

/// The regions that [`collect`] would remove.
///
/// # Errors
/// As [`regions`].
pub fn collectable(dir: &Path) -> Result<Vec<RegionInfo>> {
    let Some(root) = own(dir)? else { return Ok(Vec::new()) };
    let all = regions(dir)?;
    let there = Root::Directory(root.clone());
    let is_own = |info: &RegionInfo| match Arena::of_region(&there, &info.name) {
        Ok(None) => matches!(root.below(&info.name), Ok(Some(_))),
        // Who holds what in another enclave's arena is known there.
        Ok(Some((arena, _))) => !arena.is_foreign(),
        Err(_) => false,
    };
    let free: Vec<bool> = all.iter().map(|info| is_free(dir, info) && is_own(info)).collect();
    // The last version of a rank that died is part of what its group can still show.
    let wanted: Vec<(String, u32)> = std::iter::zip(&all, &free)
        .filter(|(_, free)| !**free)
        .filter_map(|(info, _)| Some((group_of(info)?.to_string(), info.rank?.1)))
        .collect();
    let is_wanted = |info: &RegionInfo| {
        wanted
            .iter()
            .any(|(group, ranks)| group_of(info) == Some(group) && info.rank.is_some_and(|rank| rank.1 == *ranks))
    };
    let going = std::iter::zip(all, free).filter(|(info, free)| *free && !is_wanted(info)).map(|(info, _)| info);
    let staged = hidden::left_over(&root).into_iter().map(|name| {
        let path = root.path().join(&name);
        RegionInfo { allocated_bytes: allocated_below(&root, &name), ..unread(&name, path, None) }
    });
    Ok(going.chain(staged).chain(xpmem::left_over(&root)?).collect())
}

/// Whether nobody produces a region and nobody holds a version of it.
fn is_free(dir: &Path, info: &RegionInfo) -> bool {
    match info.state {
        State::Dead => !is_held(dir, &info.name) && is_stepped(dir, &info.name).is_ok_and(|is_stepped| !is_stepped),
        State::Incomplete => {
            if let Ok(Some(site)) = in_arena(dir, &info.name) {
                return !site.is_alive();
            }
            let root = look(dir).ok().flatten();
            let directory = root.and_then(|root| root.directory()?.below(&info.name).ok().flatten());
            directory
                .is_some_and(|directory| ownership::is_unfinished(&directory) && !is_produced(&directory, &info.name))
        }
        _ => false,
    }
}

/// Whether somebody makes the versions of a region, or of the group that it is a rank of, by one program after the other, as `still step`
/// does: between two of them no producer lives, and the state is wanted all the same. He has the directory locked (flock(2)); a region of
/// an arena has none. Where his lock cannot be asked for, it may be so.
///
/// # Errors
/// Environment; those of a directory in which nothing is removed, as what a broker hands out.
pub fn is_stepped(dir: &Path, name: &str) -> Result<bool> {
    Ok(own(dir)?.is_some_and(|root| keep_steps_away(&root, name).is_none()))
}

/// Keeps away who would make versions of a region, or of its group, step by step, for as long as what is returned lives; `None` if somebody
/// does.
fn keep_steps_away(root: &Directory, name: &str) -> Option<Vec<File>> {
    let group = name.rsplit_once('/').map(|(group, _)| group);
    let mut locks = Vec::new();
    // What is hidden is no state.
    if name.starts_with('.') {
        return Some(locks);
    }
    for name in std::iter::once(name).chain(group) {
        let opened = match root.below(name) {
            Ok(Some(directory)) => directory.folder().reopen(),
            Ok(None) => continue,
            Err(_) => return None,
        };
        match opened {
            Ok(file) => {
                file.try_lock_shared().ok()?;
                locks.push(file);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(_) => return None,
        }
    }
    Some(locks)
}

/// The region of an arena that has this name; `None` if the name leads to no arena.
fn in_arena(dir: &Path, name: &str) -> Result<Option<Site>> {
    let Some(root) = look(dir)? else { return Ok(None) };
    match Arena::of_region(&root, name)? {
        Some((arena, region)) => Regions::Arena { arena, prefix: String::new() }.find(&region),
        None => Ok(None),
    }
}

fn is_held(dir: &Path, name: &str) -> bool {
    match Observer::options().dir(dir).open(name) {
        Ok(observer) => (0..head::SLOTS).any(|slot| observer.shared.leases.is_held(slot).unwrap_or(true)),
        // What cannot be asked, for want of descriptors say, counts as held.
        Err(error) => error.family() == Family::Environment && !matches!(error, Error::NoRegion { .. }),
    }
}

fn is_produced(directory: &Directory, name: &str) -> bool {
    LeaseFile::open(&directory.clone().into(), name).is_ok_and(|leases| leases.is_produced().unwrap_or(true))
}
