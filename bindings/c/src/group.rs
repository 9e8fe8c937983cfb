//! Groups: the regions of the ranks of a parallel program, seen together.
//!
//! # Safety
//! Nothing here touches memory; the names of exported functions are this library's own.
#![allow(unsafe_code)]

use crate::call::run;
use crate::failure::Failure;
use crate::handle::{self, Handled, Table};
use crate::kind::Kind;
use crate::observer::{options, stillframe_observer_options, timeout_of, version_of};
use crate::snapshot::{self, stillframe_snapshot};
use crate::status::stillframe_status;
use engine::{Group, GroupSnapshot, RankState};
use std::ffi::c_char;
use std::mem::MaybeUninit;

/// A look at all ranks of a group. It holds nothing but what its snapshots hold, and can be used from several threads.
pub struct stillframe_group(());

/// Whether a rank of a group has a producer.
#[repr(C)]
pub enum stillframe_rank_state {
    /// Its producer lives.
    STILLFRAME_RANK_LIVE = 0,
    /// Its producer is gone; the next one takes it over.
    STILLFRAME_RANK_DEAD = 1,
    /// It has not begun.
    STILLFRAME_RANK_ABSENT = 2,
}
use stillframe_rank_state::*;

/// How a rank of a group is doing.
#[repr(C)]
pub struct stillframe_rank {
    pub rank: u32,
    /// A number of stillframe_rank_state.
    pub state: u32,
    /// What its last producer wrote as its process number; 0 if it has not begun.
    pub pid: u32,
    /// 1 if it has a version, else 0.
    pub has_version: u32,
    /// Its newest version.
    pub newest: u64,
    /// Versions above its newest that the furthest rank has.
    pub behind: u64,
    /// 0.
    pub reserved: [u64; 2],
}

impl Handled for Group {
    type Opaque = stillframe_group;
    const KIND: Kind = Kind::Group;
    fn table() -> &'static Table<Group> {
        static TABLE: Table<Group> = Table::new();
        &TABLE
    }
}

/// The group itself, so that a thread that waits keeps no other from using it.
fn get(group: *mut stillframe_group) -> Result<Group, Failure> {
    handle::with(group, |group: &mut Group| Ok(group.clone()))
}

/// Opens a group, the regions that ranks made with the members rank and ranks of stillframe_region_options.
///
/// options: NULL for all defaults; wait_ms is how long to wait for all ranks to begin and to have a version in common. group:
/// the handle; NULL on errors.
///
/// Errors: NO_REGION if no rank has begun, or with a wait TIMEOUT; NOT_GROUP if the name is a region's; DENIED; CORRUPT.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_group_open(
    name: *const c_char,
    options: *const stillframe_observer_options,
    group: *mut *mut stillframe_group,
) -> stillframe_status {
    run("stillframe_group_open", |call| {
        let out = call.out_pointer("group", group)?;
        let name = call.text("name", name)?;
        let given = self::options(call, options)?;
        if given.populate.is_some() {
            return Err(Failure::argument(
                "options.populate_threads",
                "it is not for groups: open the rank's region instead",
            ));
        }
        let mut options = Group::options().wait(given.wait);
        if let Some(dir) = given.dir {
            options = options.dir(dir);
        }
        if let Some(trust) = given.trust {
            options = options.trust(trust);
        }
        if let Some(arena) = given.arena {
            options = options.arena(&arena);
        }
        if let Some(polite) = given.polite {
            options = options.polite(polite);
        }
        out.put(handle::insert(options.open(name)?));
        Ok(())
    })
}

/// Ends a look at a group. Its snapshots stay. NULL is nothing to do.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_group_close(group: *mut stillframe_group) -> stillframe_status {
    run("stillframe_group_close", |_| handle::remove_or_null::<Group>(group).map(drop))
}

/// Number of ranks.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_group_size(group: *mut stillframe_group, ranks: *mut u32) -> stillframe_status {
    run("stillframe_group_size", |call| {
        call.out("ranks", ranks)?.put(get(group)?.size() as u32);
        Ok(())
    })
}

/// Whether any rank has a living producer.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_group_alive(group: *mut stillframe_group, alive: *mut bool) -> stillframe_status {
    run("stillframe_group_alive", |call| {
        call.out("alive", alive)?.put(get(group)?.is_alive());
        Ok(())
    })
}

/// The versions that all ranks have, ascending. out: filled with the first capacity of their numbers; NULL if capacity is 0.
/// count: all that there are.
///
/// Errors: BAD_HANDLE; FORKED; CORRUPT; DENIED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_group_versions(
    group: *mut stillframe_group,
    out: *mut u64,
    capacity: usize,
    count: *mut usize,
) -> stillframe_status {
    run("stillframe_group_versions", |call| {
        let (to, count) = (call.slice_mut("out", out, capacity)?, call.out("count", count)?);
        let found = get(group)?.versions()?;
        to.iter().zip(&found).for_each(|(to, version)| to.set(MaybeUninit::new(*version)));
        count.put(found.len());
        Ok(())
    })
}

fn hold(
    function: &'static str,
    group: *mut stillframe_group,
    snapshots: *mut *mut stillframe_snapshot,
    capacity: u32,
    look: impl FnOnce(&Group) -> engine::Result<GroupSnapshot>,
) -> stillframe_status {
    run(function, |call| {
        let to = call.slice_mut("snapshots", snapshots, capacity as usize)?;
        to.iter().for_each(|to| to.set(MaybeUninit::new(std::ptr::null_mut())));
        let group = get(group)?;
        let fits = |ranks: usize| {
            let why = || format!("the group has {ranks} ranks, and there is room for {capacity}");
            if ranks <= to.len() { Ok(()) } else { Err(Failure::argument("capacity", why())) }
        };
        fits(group.size())?;
        let held = look(&group)?;
        // A program that began anew meanwhile may have another number of ranks.
        fits(held.ranks().len())?;
        for (to, snapshot) in to.iter().zip(held.ranks()) {
            to.set(MaybeUninit::new(snapshot::insert(snapshot.clone())));
        }
        Ok(())
    })
}

/// Holds the newest version that all ranks have, on all of them.
///
/// snapshots: one for each rank, in order, to be released each on its own; NULL on errors. capacity: room there, at least
/// the number of ranks.
///
/// Errors: RANK_MISSING if a rank has not begun or has no version yet; NO_COMMON_VERSION; BAD_ARGUMENT if there is no room;
/// CORRUPT; those of the environment.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_group_newest(
    group: *mut stillframe_group,
    snapshots: *mut *mut stillframe_snapshot,
    capacity: u32,
) -> stillframe_status {
    hold("stillframe_group_newest", group, snapshots, capacity, Group::newest)
}

/// Holds a given version of all ranks.
///
/// Errors: VERSION_GONE, naming a rank that does not, or no longer, have it; else as stillframe_group_newest.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_group_version(
    group: *mut stillframe_group,
    version: u64,
    snapshots: *mut *mut stillframe_snapshot,
    capacity: u32,
) -> stillframe_status {
    hold("stillframe_group_version", group, snapshots, capacity, |group| group.version(version))
}

/// Holds the smallest version above after that all ranks have, waiting for it at most timeout_ms milliseconds. after below 0:
/// any version. timeout_ms below 0: for ever, or until it cannot come.
///
/// Errors: TIMEOUT, naming the slowest rank; RANK_GONE if a rank that is gone would have to publish it; PRODUCER_GONE if
/// all ranks ended with the same version; else as stillframe_group_newest.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_group_next_after(
    group: *mut stillframe_group,
    after: i64,
    timeout_ms: i64,
    snapshots: *mut *mut stillframe_snapshot,
    capacity: u32,
) -> stillframe_status {
    hold("stillframe_group_next_after", group, snapshots, capacity, |group| {
        group.next_after(version_of(after), timeout_of(timeout_ms))
    })
}

/// Holds the newest version above after that all ranks have, skipping those in between; waits as
/// stillframe_group_next_after does.
///
/// Errors: as stillframe_group_next_after.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_group_newest_after(
    group: *mut stillframe_group,
    after: i64,
    timeout_ms: i64,
    snapshots: *mut *mut stillframe_snapshot,
    capacity: u32,
) -> stillframe_status {
    hold("stillframe_group_newest_after", group, snapshots, capacity, |group| {
        group.newest_after(version_of(after), timeout_of(timeout_ms))
    })
}

/// Waits, as stillframe_group_next_after does, until all ranks have a version above after, without holding it. version: the
/// newest such; may be NULL.
///
/// Errors: as stillframe_group_next_after.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_group_wait_newer(
    group: *mut stillframe_group,
    after: i64,
    timeout_ms: i64,
    version: *mut u64,
) -> stillframe_status {
    run("stillframe_group_wait_newer", |call| {
        let out = call.out_or_null("version", version)?;
        out.put(get(group)?.wait_newer(version_of(after), timeout_of(timeout_ms))?);
        Ok(())
    })
}

/// How each rank is doing. out: filled with the first capacity of them; NULL if capacity is 0. count: the number of ranks.
///
/// Errors: BAD_HANDLE; FORKED; CORRUPT; DENIED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_group_ranks(
    group: *mut stillframe_group,
    out: *mut stillframe_rank,
    capacity: u32,
    count: *mut u32,
) -> stillframe_status {
    run("stillframe_group_ranks", |call| {
        let (to, count) = (call.slice_mut("out", out, capacity as usize)?, call.out("count", count)?);
        let found = get(group)?.ranks()?;
        for (to, info) in to.iter().zip(&found) {
            let state = match info.state {
                RankState::Live => STILLFRAME_RANK_LIVE,
                RankState::Dead => STILLFRAME_RANK_DEAD,
                RankState::Absent => STILLFRAME_RANK_ABSENT,
            };
            to.set(MaybeUninit::new(stillframe_rank {
                rank: info.rank,
                state: state as u32,
                pid: info.pid,
                has_version: u32::from(info.newest.is_some()),
                newest: info.newest.unwrap_or(0),
                behind: info.behind,
                reserved: [0; 2],
            }));
        }
        count.put(found.len() as u32);
        Ok(())
    })
}
