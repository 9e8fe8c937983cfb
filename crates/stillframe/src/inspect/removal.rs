//! Removing regions, and what nobody needs any more.

use crate::error::{Error, Result};
use crate::inspect::region::{RegionInfo, State, allocated_bytes, look, region, regions, unread};
use crate::observer::Observer;
use crate::place::directory::{Directory, ranks_below};
use crate::place::{hidden, names};
use crate::store::head::producer_pid;
use crate::store::lease::LeaseFile;
use crate::store::ownership::{self, Obstacle};
use std::path::Path;
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::trust::{Distrust, Guard, Purpose};
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
    Directory::root(dir, Guard::new(names::trust(None)?.unwrap_or_default(), Purpose::Look))
}

/// The group that a region of this name would be a rank of.
fn group_of(info: &RegionInfo) -> Option<&str> {
    info.rank?;
    info.name.rsplit_once('/').map(|(group, _)| group)
}

/// Removes a region, or all ranks of a group. Observers keep what they hold. With `force`, a living producer loses its
/// files too: it goes on into files that nobody can open any more.
///
/// # Errors
/// [`Error::InUse`] while a producer lives, without `force`; of a group nothing is removed then.
pub fn remove(dir: &Path, name: &str, force: bool) -> Result<Removed> {
    names::region_dir(dir, name)?;
    let root = own(dir)?.ok_or_else(|| Error::NoRegion { region: name.into(), dir: dir.to_path_buf() })?;
    remove_from(&root, name, force)
}

/// As [`remove`], for who has the directory of regions open.
pub(crate) fn remove_from(root: &Directory, name: &str, force: bool) -> Result<Removed> {
    let ranks = ranks(root, name)?;
    if ranks.iter().all(|info| info.rank.is_none()) {
        return remove_region(root, name, force);
    }
    if let Some(info) = ranks.iter().find(|info| info.state == State::Live && !force) {
        return Err(Error::InUse { region: info.name.clone(), pid: info.producer_pid });
    }
    let mut bytes = 0;
    for info in ranks {
        match remove_region(root, &info.name, force) {
            Ok(removed) => bytes += removed.bytes,
            // Somebody else removed it meanwhile.
            Err(Error::NoRegion { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    bytes += remove_beside(root, name);
    Ok(Removed { bytes })
}

/// End of the name of the file in which a run that created or recovered a group (`stillframe_checkpoint::Recovery`) keeps what
/// its ranks go on from.
const RECOVERY: &str = ".recovery";

/// End of the name of the directory with the group of the run before it.
const FORMER: &str = ".former";

/// What has this end, beside the group of this name.
fn hidden(name: &str, end: &str) -> String {
    format!(".{}{end}", name.replace('/', "%"))
}

/// The group that a hidden file tells what its ranks go on from.
fn recovered_group(hidden: &str) -> Option<String> {
    Some(hidden.strip_prefix('.')?.strip_suffix(RECOVERY)?.replace('%', "/"))
}

/// Locks a file, if nobody else has it.
fn try_lock(root: &Directory, name: &str) -> Option<Unforked> {
    let file = Unforked::open(|| root.file(name).ok().flatten().map(|(file, _)| file).ok_or(())).ok()?;
    file.get()?.try_lock().ok()?;
    Some(file)
}

/// Bytes of memory or disk behind a directory and all below it.
pub(crate) fn allocated_below(root: &Directory, name: &str) -> u64 {
    root.folder().folder(name).map_or(0, |folder| folder.allocated_bytes())
}

/// What runs that created or recovered a group left beside it, if no region of the group is among those that stay and nobody
/// holds one of the group before it.
fn left_beside(root: &Directory, staying: &[&RegionInfo]) -> Vec<RegionInfo> {
    let left = root.texts().into_iter().filter_map(|hidden_name| {
        let group = recovered_group(&hidden_name)?;
        let stays = staying.iter().any(|info| info.name.rsplit_once('/').is_some_and(|(of, _)| of == group));
        let former_name = hidden(&group, FORMER);
        let former = root.path().join(&former_name);
        let goes = !stays
            && regions(&former).ok()?.iter().all(|info| is_free(&former, info))
            && try_lock(root, &hidden_name).is_some();
        let bytes = root.about(&hidden_name)?.allocated_bytes + allocated_below(root, &former_name);
        let path = root.path().join(&hidden_name);
        goes.then(|| RegionInfo { allocated_bytes: bytes, ..unread(&hidden_name, path, None) })
    });
    left.collect()
}

/// Removes what a run that created or recovered a group left beside it, if no rank is there, and returns the bytes that this
/// frees. Who begins a run has the file locked, and then it stays.
fn remove_beside(root: &Directory, name: &str) -> u64 {
    let (decision, former) = (hidden(name, RECOVERY), hidden(name, FORMER));
    let Some(_lock) = try_lock(root, &decision).filter(|_| ranks(root, name).is_ok_and(|ranks| ranks.is_empty()))
    else {
        return 0;
    };
    let bytes = root.about(&decision).map_or(0, |about| about.allocated_bytes) + allocated_below(root, &former);
    let _ = root.remove_all(&former);
    root.unlink(&decision).map_or(0, |()| bytes)
}

/// The regions that are ranks of a group of this name, those left over from other runs too.
pub(crate) fn ranks(root: &Directory, name: &str) -> Result<Vec<RegionInfo>> {
    let mut found = Vec::new();
    for rank in ranks_below(root, name)? {
        match region(root.path(), &names::rank_name(name, rank)) {
            // One that cannot be read, or was never finished, goes with the others.
            Ok(info) if info.rank.is_some() || !matches!(info.state, State::Live | State::Dead) => found.push(info),
            Ok(_) | Err(Error::NoRegion { .. } | Error::IsGroup { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn remove_region(root: &Directory, name: &str, force: bool) -> Result<Removed> {
    let missing = || Error::NoRegion { region: name.into(), dir: root.path().into() };
    let directory = root.below(name)?.ok_or_else(missing)?;
    let bytes = allocated_bytes(&directory);
    // The lock is kept while the files go, so that no producer can begin among them.
    let (directory, _leases) = loop {
        match ownership::try_lock(root, name, 0o600) {
            Ok(Ok((directory, leases))) => break (directory, Some(leases)),
            Ok(Err(Obstacle::Held)) if force => break (directory, None),
            Ok(Err(Obstacle::Held)) => {
                return Err(Error::InUse { region: name.into(), pid: producer_pid(&directory) });
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

/// Removes every region whose producer is gone and that nobody holds; ranks of a group only when that is so of all of
/// them, with what a run that recovered the group left beside them; and what a restore that was killed left. Returns each with
/// what came of it.
///
/// # Errors
/// As [`regions`].
pub fn collect(dir: &Path) -> Result<Vec<(String, Result<Removed>)>> {
    let mut done = Vec::new();
    let Some(root) = own(dir)? else { return Ok(done) };
    for info in collectable(dir)? {
        let removed = match recovered_group(&info.name) {
            Some(group) => Ok(Removed { bytes: remove_beside(&root, &group) }),
            None if hidden::is_staged(&info.name) => hidden::remove(&root, &info.name).map(|bytes| Removed { bytes }),
            None => remove_region(&root, &info.name, false),
        };
        match removed {
            // Somebody else removed it meanwhile.
            Err(Error::NoRegion { .. }) => {}
            result => done.push((info.name, result)),
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
    let is_own = |info: &RegionInfo| matches!(root.below(&info.name), Ok(Some(_)));
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
    let goes: Vec<bool> = std::iter::zip(&all, free).map(|(info, free)| free && !is_wanted(info)).collect();
    let staying: Vec<&RegionInfo> =
        std::iter::zip(&all, &goes).filter(|(_, goes)| !**goes).map(|(info, _)| info).collect();
    let beside = left_beside(&root, &staying);
    let going = std::iter::zip(all, goes).filter(|(_, goes)| *goes).map(|(info, _)| info);
    let staged = hidden::left_over(&root).into_iter().map(|name| {
        let path = root.path().join(&name);
        RegionInfo { allocated_bytes: allocated_below(&root, &name), ..unread(&name, path, None) }
    });
    Ok(going.chain(staged).chain(beside).collect())
}

/// Whether nobody produces a region and nobody holds a version of it.
fn is_free(dir: &Path, info: &RegionInfo) -> bool {
    match info.state {
        State::Dead => !is_held(dir, &info.name),
        State::Incomplete => {
            let directory = look(dir).ok().flatten().and_then(|root| root.below(&info.name).ok().flatten());
            directory
                .is_some_and(|directory| ownership::is_unfinished(&directory) && !is_produced(&directory, &info.name))
        }
        _ => false,
    }
}

fn is_held(dir: &Path, name: &str) -> bool {
    let observer = Observer::options().dir(dir).open(name);
    observer.is_ok_and(|observer| (0..head::SLOTS).any(|slot| observer.shared.leases.is_held(slot).unwrap_or(true)))
}

fn is_produced(directory: &Directory, name: &str) -> bool {
    LeaseFile::open(directory, name).is_ok_and(|leases| leases.is_produced().unwrap_or(true))
}
