//! Removing regions, together with what a run that created or recovered a group left beside it: the file in which its ranks
//! found what they go on from, and the group of the run before, set aside.

use crate::decision::{FORMER, RECOVERY, decided_group, hidden_name};
use std::path::Path;
use std::time::Duration;
use stillframe::inspect::{self, Hidden, HiddenLock, RegionInfo, Removed, State};
use stillframe::{FormerGroup, Region, Result};

/// How often the lock of a group's decision is tried again, and after how long.
const LOOKS: u32 = 50;
const LOOK: Duration = Duration::from_millis(2);

/// Something that [`collect`] would remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collectable {
    /// Name of the region, or of the group beside whose ranks something lies.
    pub name: String,
    /// Bytes of memory behind it.
    pub allocated_bytes: u64,
}

/// As [`inspect::remove`]; of a group, what a run left beside it goes too.
///
/// # Errors
/// As [`inspect::remove`].
pub fn remove(dir: &Path, name: &str, force: bool) -> Result<Removed> {
    // The regions of a directory may be many: few groups have anything beside them.
    let hidden = Hidden::open(dir).ok().flatten().filter(|hidden| hidden.has(&hidden_name(name, RECOVERY)));
    let hidden = hidden.filter(|_| {
        let is_rank = |info: &RegionInfo| is_of(info, name) && info.rank.is_some();
        inspect::regions(dir).is_ok_and(|regions| regions.iter().any(is_rank))
    });
    let mut removed = inspect::remove(dir, name, force)?;
    removed.bytes += hidden.map_or(0, |hidden| remove_beside(dir, &hidden, name));
    Ok(removed)
}

/// As [`inspect::collect`], and removes what runs left beside groups of which no rank stays: under the name of the group.
///
/// # Errors
/// As [`inspect::collect`].
pub fn collect(dir: &Path) -> Result<Vec<(String, Result<Removed>)>> {
    collect_if(dir, |_| true)
}

/// As [`collect`], of the regions whose names are `wanted`; see [`inspect::collect_if`].
///
/// # Errors
/// As [`inspect::collect`].
pub fn collect_if(dir: &Path, wanted: impl FnMut(&str) -> bool) -> Result<Vec<(String, Result<Removed>)>> {
    let mut done = inspect::collect_if(dir, wanted)?;
    let Some(hidden) = Hidden::open(dir)? else { return Ok(done) };
    for group in left_beside(dir, &hidden, &[])? {
        let bytes = remove_beside(dir, &hidden, &group);
        done.push((group, Ok(Removed { bytes })));
    }
    Ok(done)
}

/// What [`collect`] would remove.
///
/// # Errors
/// As [`inspect::collectable`].
pub fn collectable(dir: &Path) -> Result<Vec<Collectable>> {
    let going = inspect::collectable(dir)?;
    let Some(hidden) = Hidden::open(dir)? else { return Ok(Vec::new()) };
    let beside = left_beside(dir, &hidden, &going)?
        .into_iter()
        .map(|group| Collectable { allocated_bytes: allocated_bytes(dir, &hidden, &group), name: group });
    let regions =
        going.iter().map(|info| Collectable { name: info.name.clone(), allocated_bytes: info.allocated_bytes });
    Ok(regions.chain(beside).collect())
}

fn is_of(info: &RegionInfo, group: &str) -> bool {
    info.name.rsplit_once('/').is_some_and(|(of, _)| of == group)
}

/// The groups beside which a run left something, if no region of the group is among those that stay when others go, and nobody
/// holds one of the group before it.
fn left_beside(dir: &Path, hidden: &Hidden, going: &[RegionInfo]) -> Result<Vec<String>> {
    let mut groups: Vec<String> = hidden.names().iter().filter_map(|name| decided_group(name)).collect();
    if !groups.is_empty() {
        let regions = inspect::regions(dir)?;
        let stays = |info: &&RegionInfo| going.iter().all(|goes| goes.name != info.name);
        let staying: Vec<&RegionInfo> = regions.iter().filter(stays).collect();
        groups.retain(|group| {
            !staying.iter().any(|info| is_of(info, group))
                && is_free(&dir.join(hidden_name(group, FORMER)))
                && former_group(dir, group).is_none_or(|former| !former.is_held().unwrap_or(true))
                && hidden.try_lock(&hidden_name(group, RECOVERY)).is_some()
        });
    }
    Ok(groups)
}

/// Whether all regions of a directory could go.
fn is_free(dir: &Path) -> bool {
    let (Ok(regions), Ok(going)) = (inspect::regions(dir), inspect::collectable(dir)) else { return false };
    regions.iter().all(|info| going.iter().any(|goes| goes.name == info.name))
}

/// The group of the run before, of a name that leads into an arena.
fn former_group(dir: &Path, group: &str) -> Option<FormerGroup> {
    FormerGroup::of(&Region::options().dir(dir), group).ok().flatten()
}

fn allocated_bytes(dir: &Path, hidden: &Hidden, group: &str) -> u64 {
    let beside: u64 = [RECOVERY, FORMER].iter().map(|what| hidden.allocated_bytes(&hidden_name(group, what))).sum();
    beside + former_group(dir, group).map_or(0, |former| former.allocated_bytes().unwrap_or(0))
}

/// Removes what a run left beside a group, if no rank is there, and returns the bytes that this frees. Who begins a run has
/// the file locked, and then it stays.
fn remove_beside(dir: &Path, hidden: &Hidden, group: &str) -> u64 {
    let decision = hidden_name(group, RECOVERY);
    let Some(_lock) = lock_soon(hidden, &decision).filter(|_| is_alone(dir, group)) else { return 0 };
    let bytes = allocated_bytes(dir, hidden, group);
    let _ = hidden.remove(&hidden_name(group, FORMER));
    let _ = former_group(dir, group).map(|former| former.remove());
    hidden.remove(&decision).map_or(0, |()| bytes)
}

/// Locks the file of a group's decision. A rank that has just ended may have it for as long as one look at the group takes.
fn lock_soon(hidden: &Hidden, decision: &str) -> Option<HiddenLock> {
    for _ in 0..LOOKS {
        if let Some(lock) = hidden.try_lock(decision) {
            return Some(lock);
        }
        std::thread::sleep(LOOK);
    }
    hidden.try_lock(decision)
}

/// Whether no region is a rank of the group, or may be one: it cannot be read, or was never finished.
fn is_alone(dir: &Path, group: &str) -> bool {
    let may_be = |info: &RegionInfo| info.rank.is_some() || !matches!(info.state, State::Live | State::Dead);
    inspect::regions(dir).is_ok_and(|regions| !regions.iter().any(|info| is_of(info, group) && may_be(info)))
}
