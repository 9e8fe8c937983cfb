//! Looking after regions.
//!
//! # Safety
//! Nothing here touches memory; the names of exported functions are this library's own.
#![allow(unsafe_code)]

use crate::attribute::c_text;
use crate::call::{Call, run};
use crate::failure::Failure;
use crate::status::stillframe_status;
use crate::truth::stillframe_truth;
use checkpoint::removal;
use engine::inspect::{self, RegionInfo, State};
use std::ffi::{c_char, c_void};
use std::path::PathBuf;

/// Whether a region has a producer.
#[repr(C)]
pub enum stillframe_state {
    /// Its producer lives.
    STILLFRAME_LIVE = 0,
    /// Its producer is gone; the next one of the name takes it over.
    STILLFRAME_DEAD = 1,
    /// It was never finished.
    STILLFRAME_INCOMPLETE = 2,
    /// It cannot be read; the member problem says why.
    STILLFRAME_UNREADABLE = 3,
}
use stillframe_state::*;

/// What can be said of a region from outside. Texts live until the visitor returns.
#[repr(C)]
pub struct stillframe_region_info {
    pub name: *const c_char,
    /// A number of stillframe_state.
    pub state: u32,
    /// What the last producer wrote as its process number.
    pub pid: u32,
    /// 1 if there is a version, else 0.
    pub has_version: u32,
    /// Versions kept though nobody holds them.
    pub keep: u32,
    /// The newest version.
    pub newest: u64,
    /// Bytes of memory behind all files of the region.
    pub allocated_bytes: u64,
    /// Most bytes that versions may take; 0: no bound.
    pub bound_bytes: u64,
    /// Versions published.
    pub published: u64,
    /// Publishes left out.
    pub skipped: u64,
    /// Of an unreadable region, else "".
    pub problem: *const c_char,
    /// Time of creation in nanoseconds since 1970.
    pub created_ns: u64,
    /// Bytes of memory of managed variables that exist beside the region's files, as far as the producer says.
    pub working_bytes: u64,
    /// Its rank, if it is of a group.
    pub rank: u32,
    /// Ranks of its group; 0: it is of none.
    pub ranks: u32,
    /// Since when its producer has been waiting for room, in nanoseconds since 1970; 0 if it does not. stillframe_holders says
    /// for whom.
    pub waiting_ns: u64,
    /// When its producer left out the first publish since the newest version, in nanoseconds since 1970; 0 if it did not.
    pub skipping_ns: u64,
    /// How many it left out since then.
    pub skipping: u64,
}

/// Gets a region; false ends the walk. It may call functions of this library, but must neither throw nor longjmp.
pub type stillframe_region_visitor =
    Option<extern "C" fn(context: *mut c_void, info: *const stillframe_region_info) -> stillframe_truth>;

pub fn directory(call: &Call, dir: *const c_char) -> Result<PathBuf, Failure> {
    Ok(call.text_or_null("dir", dir)?.map_or_else(inspect::root, PathBuf::from))
}

fn visit(info: &RegionInfo, see: impl FnOnce(*const stillframe_region_info) -> stillframe_truth) -> bool {
    let name = c_text(&info.name);
    let (state, problem) = match &info.state {
        State::Live => (STILLFRAME_LIVE, ""),
        State::Dead => (STILLFRAME_DEAD, ""),
        State::Incomplete => (STILLFRAME_INCOMPLETE, ""),
        State::Unreadable(why) => (STILLFRAME_UNREADABLE, why.as_str()),
    };
    let problem = c_text(problem);
    see(&stillframe_region_info {
        name: name.as_ptr(),
        state: state as u32,
        pid: info.producer_pid,
        has_version: u32::from(info.newest.is_some()),
        keep: info.keep,
        newest: info.newest.unwrap_or(0),
        allocated_bytes: info.allocated_bytes,
        bound_bytes: info.bound_bytes.unwrap_or(0),
        published: info.published,
        skipped: info.skipped,
        problem: problem.as_ptr(),
        created_ns: info.created_ns,
        working_bytes: info.working_bytes,
        rank: info.rank.map_or(0, |(rank, _)| rank),
        ranks: info.rank.map_or(0, |(_, ranks)| ranks),
        waiting_ns: info.waiting_ns.unwrap_or(0),
        skipping_ns: info.skipping_ns.unwrap_or(0),
        skipping: info.skipping,
    })
    .holds()
}

/// Walks over the regions of a directory, by name. dir: NULL for the default. A directory that is not there has no regions.
///
/// Errors: those of the environment if the directory cannot be read.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_list(
    dir: *const c_char,
    visitor: stillframe_region_visitor,
    context: *mut c_void,
) -> stillframe_status {
    run("stillframe_list", |call| {
        let see = visitor.ok_or_else(|| Failure::argument("visitor", "it is NULL"))?;
        for info in inspect::regions(&directory(call, dir)?)? {
            if !visit(&info, |info| see(context, info)) {
                break;
            }
        }
        Ok(())
    })
}

/// Removes the files of a region, or of all ranks of a group. Observers keep what they hold. force: also if its producer lives, who then goes on into
/// files that nobody can open. freed_bytes: memory given back, less what observers still hold; may be NULL.
///
/// Errors: NO_REGION; IN_USE while the producer lives, without force; those of the environment.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_remove_region(
    dir: *const c_char,
    name: *const c_char,
    force: stillframe_truth,
    freed_bytes: *mut u64,
) -> stillframe_status {
    run("stillframe_remove_region", |call| {
        let out = call.out_or_null("freed_bytes", freed_bytes)?;
        out.put(removal::remove(&directory(call, dir)?, call.text("name", name)?, force.holds())?.bytes);
        Ok(())
    })
}

/// Removes the regions of a directory whose producers are gone and that nobody holds. removed: how many; may be NULL.
///
/// Errors: those of the environment if the directory cannot be read. Regions that cannot be removed stay and are not counted.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_collect(dir: *const c_char, removed: *mut u32) -> stillframe_status {
    run("stillframe_collect", |call| {
        let out = call.out_or_null("removed", removed)?;
        let done = removal::collect(&directory(call, dir)?)?;
        out.put(done.iter().filter(|(_, result)| result.is_ok()).count() as u32);
        Ok(())
    })
}

/// A process, or as much as can be known of it, that holds versions; or another enclave, in which somebody does. Texts live until the
/// visitor returns.
#[repr(C)]
pub struct stillframe_holder {
    /// Process number; 0 of all that belong to other users, and of an enclave.
    pub pid: i32,
    /// 1 if it is known which versions it holds, else 0.
    pub has_version: u32,
    /// The oldest version it holds.
    pub version: u64,
    /// For how long it has been holding one, in milliseconds; 0 of an enclave, which does not say that.
    pub age_ms: u64,
    /// Name of its program; "" if it belongs to another user or is an enclave.
    pub command: *const c_char,
    /// Its state as the kernel's letter: 'T' is stopped, '?' unknown.
    pub state: c_char,
    /// How many versions it holds.
    pub versions: u64,
    /// Name of the enclave, if it is one, else NULL.
    pub enclave: *const c_char,
}

/// Gets a holder; false ends the walk. As stillframe_region_visitor.
pub type stillframe_holder_visitor =
    Option<extern "C" fn(context: *mut c_void, holder: *const stillframe_holder) -> stillframe_truth>;

/// Gets a line of text; false ends the walk. The text lives until the visitor returns. As stillframe_region_visitor.
pub type stillframe_line_visitor = Option<extern "C" fn(context: *mut c_void, line: *const c_char) -> stillframe_truth>;

/// Walks over those who hold versions of a region, each process once, longest first, and then other enclaves. dir: NULL for the default.
///
/// Errors: NO_REGION; DENIED; CORRUPT; others of the environment.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_holders(
    dir: *const c_char,
    name: *const c_char,
    visitor: stillframe_holder_visitor,
    context: *mut c_void,
) -> stillframe_status {
    run("stillframe_holders", |call| {
        let see = visitor.ok_or_else(|| Failure::argument("visitor", "it is NULL"))?;
        for holder in inspect::holders(&directory(call, dir)?, call.text("name", name)?)? {
            let command = c_text(holder.command.as_deref().unwrap_or_default());
            let enclave = holder.enclave.as_deref().map(c_text);
            let holder = stillframe_holder {
                pid: holder.pid.unwrap_or(0),
                has_version: u32::from(holder.version.is_some()),
                version: holder.version.unwrap_or(0),
                age_ms: holder.age_ms.unwrap_or(0),
                command: command.as_ptr(),
                state: u8::try_from(holder.state).unwrap_or(b'?') as c_char,
                versions: holder.versions as u64,
                enclave: enclave.as_ref().map_or(std::ptr::null(), |enclave| enclave.as_ptr()),
            };
            if !see(context, &holder).holds() {
                break;
            }
        }
        Ok(())
    })
}

/// Walks over lines of text.
pub fn visit_lines(
    visitor: stillframe_line_visitor,
    context: *mut c_void,
    lines: impl IntoIterator<Item = String>,
) -> Result<(), Failure> {
    let see = visitor.ok_or_else(|| Failure::argument("visitor", "it is NULL"))?;
    for line in lines {
        if !see(context, c_text(&line).as_ptr()).holds() {
            break;
        }
    }
    Ok(())
}

/// Looks for damage: reads all that describes the versions of a region, and walks over what it finds, each as a line that
/// names file, offset, what was expected and what was found. No line means that all is sound. dir: NULL for the default.
///
/// Errors: NO_REGION; DENIED; others of the environment.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_verify(
    dir: *const c_char,
    name: *const c_char,
    visitor: stillframe_line_visitor,
    context: *mut c_void,
) -> stillframe_status {
    run("stillframe_verify", |call| {
        let found = inspect::verify(&directory(call, dir)?, call.text("name", name)?)?;
        visit_lines(visitor, context, found.iter().map(ToString::to_string))
    })
}

/// Walks over what this machine and its limits allow, a line each: which trackers work and why others do not, and whatever
/// else matters, with what to change. dir: where regions are to be; NULL for the default.
///
/// Errors: BAD_ARGUMENT.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_diagnose(
    dir: *const c_char,
    visitor: stillframe_line_visitor,
    context: *mut c_void,
) -> stillframe_status {
    run("stillframe_diagnose", |call| {
        let found = inspect::diagnose(&directory(call, dir)?);
        let word = |ok: bool| if ok { "yes" } else { "no" };
        let trackers = found.trackers.iter().map(|probe| {
            let chosen = if probe.kind == found.chosen { ", chosen" } else { "" };
            format!("tracker {}: {}{chosen}: {}", probe.kind, word(probe.usable), probe.why)
        });
        let facts = found.facts.iter().map(|fact| match fact.ok {
            true => format!("{}: {}", fact.name, fact.value),
            false => format!("{}: {}: {}", fact.name, fact.value, fact.advice),
        });
        let kernel = std::iter::once(format!("kernel: Linux {}", found.kernel));
        visit_lines(visitor, context, kernel.chain(trackers).chain(facts))
    })
}
