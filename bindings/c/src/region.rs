//! Regions: the producer's side.
//!
//! # Safety
//! Nothing here touches memory; the names of exported functions are this library's own.
#![allow(unsafe_code)]

use crate::arena::{self, stillframe_arena};
use crate::call::{Call, run};
use crate::failure::Failure;
use crate::handle;
use crate::loan;
use crate::producer::{Producer, insert, stillframe_region};
use crate::status::{stillframe_status, stillframe_status_code::STILLFRAME_OK};
use crate::text::note_begin;
use crate::truth::stillframe_truth;
use engine::{Region, RegionOptions, Rule, Scalar, TrackerKind, Trust};
use std::ffi::{CStr, c_char};
use std::time::Duration;

/// A number of stillframe_rule_code.
pub type stillframe_rule = u32;

/// What a publish does when there is no room for another version because observers hold old ones.
#[repr(C)]
pub enum stillframe_rule_code {
    /// It waits until an observer lets go, but no longer than wait_ms in all since the newest version: then it leaves this
    /// version out, and those that follow at once, until there is room. What was written is part of the next one.
    STILLFRAME_WAIT_THEN_SKIP = 0,
    /// It leaves the version out: what was written is part of the next one.
    STILLFRAME_SKIP = 1,
    /// It fails: what was written is part of the next publish.
    STILLFRAME_FAIL = 2,
    /// It waits until an observer lets go, at most wait_ms in each publish, and then fails.
    STILLFRAME_WAIT = 3,
}
use stillframe_rule_code::*;

/// Bits of the member flags of stillframe_region_options.
#[repr(C)]
pub enum stillframe_flag {
    /// Managed variables do not ask for large pages.
    STILLFRAME_NO_LARGE_PAGES = 1,
    /// Managed memory that stays unwritten is not shared with the region's files, and so exists twice.
    STILLFRAME_NO_DEMOTION = 2,
    /// What a dead producer left under this name is not taken over, so that version numbers may begin again: it is removed, or
    /// set aside as NAME~1 if that producer did not end by itself (docs/concepts.md says how long).
    STILLFRAME_FRESH = 4,
    /// The member rollback counts.
    STILLFRAME_ROLLBACK = 8,
}
use stillframe_flag::*;

/// How a region is made. A member that is 0 or NULL is the default; set all of it to 0 first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct stillframe_region_options {
    /// Directory of the regions; NULL: $STILLFRAME_DIR, else /dev/shm/stillframe-<uid>.
    pub dir: *const c_char,
    /// Most bytes of memory that the versions may take; 0: what the file system has.
    pub bound_bytes: u64,
    /// Longest wait for room in milliseconds; 0: 1000 with the rule STILLFRAME_WAIT_THEN_SKIP, no limit with STILLFRAME_WAIT.
    pub wait_ms: u64,
    /// How written pages are found: "wp_async", "soft_dirty", "private_cow" or "full_copy"; NULL: $STILLFRAME_TRACKER, else
    /// the best that works.
    pub tracker: *const c_char,
    /// A number of stillframe_rule_code; 0: STILLFRAME_WAIT_THEN_SKIP.
    pub rule: stillframe_rule,
    /// How many of the newest versions stay although nobody holds them; 0: 1.
    pub keep: u32,
    /// Threads that copy, the calling one included; 0: as many as there are processors for each rank, at most 4, of those that
    /// the process was given when it was started.
    pub threads: u32,
    /// Access mode of the region's directory; 0: 0700.
    pub mode: u32,
    /// Bits of stillframe_flag.
    pub flags: u32,
    /// This is rank number rank of a group.
    pub rank: u32,
    /// Ranks of the group; 0: this is no part of a group. Else the region is NAME/rank, and its versions stay until all
    /// ranks have published them.
    pub ranks: u32,
    /// Most versions beyond keep that stay for slower ranks of the group, from 2 to 32; 0: 16.
    pub drift: u32,
    /// With STILLFRAME_ROLLBACK: versions above this one are dropped when a region is taken over, so that they can be
    /// published again. For the ranks of a group, which may have died at different versions.
    pub rollback: u64,
    /// Whose directories and files are taken for good, besides those of the process's user and of root: "own", "user:NUMBER",
    /// "group:NUMBER" or "any"; NULL: $STILLFRAME_TRUST, else "own".
    pub trust: *const c_char,
    /// The arena in which the region is made; NULL: it has a directory of its own. Observers find it by the name ARENA/NAME. The
    /// handle may be closed as soon as the region is made.
    pub arena: *mut stillframe_arena,
    /// In which units tracked arrays that lie in reserved large pages are copied: "small", "large" or "learned"; NULL:
    /// $STILLFRAME_COPY_UNIT, else "learned".
    pub copy_unit: *const c_char,
    /// In which units memory for versions is taken and given back: "small" (pages of 4 KiB) or "large" (windows of 2 MiB); NULL:
    /// $STILLFRAME_MEMORY_UNIT, else "small".
    pub memory_unit: *const c_char,
    /// 0.
    pub reserved: [u64; 1],
}

/// What a region did since this producer made it.
#[repr(C)]
pub struct stillframe_statistics {
    /// Versions published.
    pub published: u64,
    /// Publishes left out by the rule.
    pub skipped: u64,
    /// Pages found written, over all publishes.
    pub dirty_pages: u64,
    /// Pages copied, over all publishes.
    pub copied_pages: u64,
    /// Pages of all variables at the last publish.
    pub total_pages: u64,
    /// Bytes of memory behind the versions.
    pub plane_bytes: u64,
    /// Bytes of memory of managed variables that exist beside the versions, at most.
    pub working_bytes: u64,
    /// Time spent in publish.
    pub publish_seconds: f64,
    /// 0.
    pub reserved: [u64; 4],
}

fn tracker_name(kind: TrackerKind) -> &'static CStr {
    match kind {
        TrackerKind::WpAsync => c"wp_async",
        TrackerKind::SoftDirty => c"soft_dirty",
        TrackerKind::PrivateCow => c"private_cow",
        TrackerKind::FullCopy => c"full_copy",
    }
}

fn options(call: &Call, given: *const stillframe_region_options) -> Result<RegionOptions, Failure> {
    match call.read("options", given)? {
        Some(given) => options_of(call, &given),
        None => Ok(Region::options()),
    }
}

pub fn options_of(call: &Call, given: &stillframe_region_options) -> Result<RegionOptions, Failure> {
    let mut options = Region::options();
    if given.reserved != [0; 1] {
        return Err(Failure::argument("options.reserved", "it is not 0: set the whole structure to 0 first"));
    }
    let flags = [STILLFRAME_NO_LARGE_PAGES, STILLFRAME_NO_DEMOTION, STILLFRAME_FRESH, STILLFRAME_ROLLBACK];
    let unknown = flags.into_iter().fold(given.flags, |left, flag| left & !(flag as u32));
    if unknown != 0 {
        return Err(Failure::argument("options.flags", format!("bits {unknown:#x} have no meaning")));
    }
    let has = |flag: stillframe_flag| given.flags & flag as u32 != 0;
    if given.ranks == 0 && (given.rank, given.drift) != (0, 0) {
        return Err(Failure::argument("options.ranks", "it is 0, so rank and drift have no meaning"));
    }
    if given.ranks != 0 {
        options = options.rank(given.rank, given.ranks);
    }
    if given.drift != 0 {
        options = options.drift(given.drift as usize);
    }
    if has(STILLFRAME_ROLLBACK) {
        options = options.rollback(given.rollback);
    } else if given.rollback != 0 {
        return Err(Failure::argument("options.rollback", "it has no meaning without the flag STILLFRAME_ROLLBACK"));
    }
    if let Some(dir) = call.text_or_null("options.dir", given.dir)? {
        options = options.dir(dir);
    }
    if let Some(arena) = arena::chosen(given.arena, given.dir)? {
        options = options.arena(&arena);
    }
    if let Some(tracker) = call.text_or_null("options.tracker", given.tracker)? {
        options = options.tracker(tracker.parse()?);
    }
    if let Some(unit) = call.text_or_null("options.copy_unit", given.copy_unit)? {
        options = options.copy_unit(unit.parse()?);
    }
    if let Some(unit) = call.text_or_null("options.memory_unit", given.memory_unit)? {
        options = options.memory_unit(unit.parse()?);
    }
    if let Some(trust) = call.text_or_null("options.trust", given.trust)? {
        options = options.trust(trust.parse::<Trust>().map_err(engine::Error::from)?);
    }
    let timeout = (given.wait_ms != 0).then(|| Duration::from_millis(given.wait_ms));
    options = options.rule(match given.rule {
        rule if rule == STILLFRAME_WAIT_THEN_SKIP as u32 => {
            timeout.map_or_else(Rule::default, |limit| Rule::WaitThenSkip { limit })
        }
        rule if rule == STILLFRAME_WAIT as u32 => Rule::Wait { timeout },
        rule if rule == STILLFRAME_SKIP as u32 => Rule::Skip,
        rule if rule == STILLFRAME_FAIL as u32 => Rule::Fail,
        other => return Err(Failure::argument("options.rule", format!("there is no rule {other}"))),
    });
    if given.bound_bytes != 0 {
        options = options.bound_bytes(given.bound_bytes);
    }
    if given.keep != 0 {
        options = options.keep(given.keep as usize);
    }
    if given.threads != 0 {
        options = options.threads(given.threads as usize);
    }
    if given.mode != 0 {
        options = options.mode(given.mode);
    }
    options = options.large_pages(!has(STILLFRAME_NO_LARGE_PAGES)).demote(!has(STILLFRAME_NO_DEMOTION));
    Ok(options.fresh(has(STILLFRAME_FRESH)))
}

/// Makes a region, or takes over what a dead producer left under this name: managed and loaned variables that are declared
/// with the same name, type, order and shape then have the content of its last version.
///
/// name: as a file's name, or several with / between them. options: NULL for all defaults. region: the handle; NULL on errors.
///
/// Errors: IN_USE if a producer of this name lives; BAD_NAME; BAD_OPTION; NO_TRACKER; CORRUPT if what was left cannot be
/// taken over; ARENA_FULL and ARENA_BUSY in an arena; those of the environment.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_create(
    name: *const c_char,
    options: *const stillframe_region_options,
    region: *mut *mut stillframe_region,
) -> stillframe_status {
    run("stillframe_create", |call| {
        let out = call.out_pointer("region", region)?;
        let name = call.text("name", name)?;
        out.put(insert(self::options(call, options)?.create(name)?, None));
        Ok(())
    })
}

/// Makes a region with two options only: rank and ranks, as in stillframe_region_options, and that it begins anew
/// (STILLFRAME_FRESH): what a run that was killed left is set aside as NAME~1, and said on standard error. For programs that
/// want to say as little as possible.
///
/// Returns the handle, or NULL, and then stillframe_error_text says why; calls with that NULL say it again.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_begin(name: *const c_char, rank: u32, ranks: u32) -> *mut stillframe_region {
    let mut region = std::ptr::null_mut();
    let status = run("stillframe_begin", |call| {
        let mut options = Region::options().fresh(true);
        if ranks != 0 {
            options = options.rank(rank, ranks);
        }
        region = insert(options.create(call.text("name", name)?)?, None);
        Ok(())
    });
    note_begin(status == STILLFRAME_OK as stillframe_status);
    region
}

fn end(producer: Producer, how: fn(Region) -> engine::Result<()>) -> Result<(), Failure> {
    let loans = loan::end_all(producer.loans);
    how(producer.region)?;
    loans
}

/// Ends the producer. The region's files stay: observers keep what they hold, and the next producer of the name goes on from
/// the last version. Memory of managed variables and open loans goes, so pointers into it dangle; tracked arrays are the
/// program's own and stay. NULL is nothing to do. A program that ends without this leaves the same behind.
///
/// Errors: BAD_HANDLE; BUSY inside another call with it; FORKED in a child of fork, where nothing happens: the region goes on
/// in the parent; NO_MAPPINGS if an open loan could not be ended: the region is closed, and its name in use until the process
/// ends.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_close(region: *mut stillframe_region) -> stillframe_status {
    run("stillframe_close", |_| match handle::remove_or_null::<Producer>(region)? {
        Some(producer) => end(producer, Region::close),
        None => Ok(()),
    })
}

/// Ends the producer as stillframe_close does, and removes the region's files. Observers keep what they hold. NULL is nothing
/// to do.
///
/// Errors: as stillframe_close; those of the environment if a file cannot be removed, with the handle ended all the same.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_unlink(region: *mut stillframe_region) -> stillframe_status {
    run("stillframe_unlink", |_| match handle::remove_or_null::<Producer>(region)? {
        Some(producer) => end(producer, Region::unlink),
        None => Ok(()),
    })
}

pub fn put_version(call: &Call, number: Option<u64>, found: *mut bool, version: *mut u64) -> Result<(), Failure> {
    let version = call.out_or_null("version", version)?;
    call.out("found", found)?.put(number.is_some());
    version.put(number.unwrap_or(0));
    Ok(())
}

/// The version that was taken over from a dead producer. found: whether there was one. version: its number, else 0; may be
/// NULL.
///
/// Errors: BAD_HANDLE.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_recovered(
    region: *mut stillframe_region,
    found: *mut bool,
    version: *mut u64,
) -> stillframe_status {
    run("stillframe_recovered", |call| {
        let number = handle::with(region, |producer: &mut Producer| Ok(producer.region.recovered()))?;
        put_version(call, number, found, version)
    })
}

/// The newest version, a recovered one included. found: whether there is one. version: its number, else 0; may be NULL.
///
/// Errors: BAD_HANDLE.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_newest_published(
    region: *mut stillframe_region,
    found: *mut bool,
    version: *mut u64,
) -> stillframe_status {
    run("stillframe_newest_published", |call| {
        let number = handle::with(region, |producer: &mut Producer| Ok(producer.region.newest()))?;
        put_version(call, number, found, version)
    })
}

/// The name of the tracker in use. It stays for ever.
///
/// Errors: BAD_HANDLE.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_tracker(region: *mut stillframe_region, name: *mut *const c_char) -> stillframe_status {
    run("stillframe_tracker", |call| {
        let out = call.out("name", name)?;
        out.put(handle::with(region, |producer: &mut Producer| Ok(tracker_name(producer.region.tracker())))?.as_ptr());
        Ok(())
    })
}

/// What the region did since it was made.
///
/// Errors: BAD_HANDLE.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_statistics_of(
    region: *mut stillframe_region,
    statistics: *mut stillframe_statistics,
) -> stillframe_status {
    run("stillframe_statistics_of", |call| {
        let out = call.out("statistics", statistics)?;
        let found = handle::with(region, |producer: &mut Producer| Ok(producer.region.statistics()))?;
        out.put(stillframe_statistics {
            published: found.published,
            skipped: found.skipped,
            dirty_pages: found.dirty_pages,
            copied_pages: found.copied_pages,
            total_pages: found.total_pages,
            plane_bytes: found.plane_bytes,
            working_bytes: found.working_bytes,
            publish_seconds: found.publish_time.as_secs_f64(),
            reserved: [0; 4],
        });
        Ok(())
    })
}

fn set(region: *mut stillframe_region, name: &str, value: Scalar) -> Result<(), Failure> {
    handle::with(region, |producer: &mut Producer| {
        match producer.attributes.get_mut(name) {
            Some(known) => *known = value,
            None => drop(producer.attributes.insert(name.to_string(), value)),
        }
        Ok(())
    })
}

/// Sets an attribute of the next version, and of that one only.
///
/// Errors: BAD_HANDLE; BAD_ARGUMENT.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_set_bool(
    region: *mut stillframe_region,
    name: *const c_char,
    value: stillframe_truth,
) -> stillframe_status {
    run("stillframe_set_bool", |call| set(region, call.text("name", name)?, Scalar::Bool(value.holds())))
}

/// Sets an attribute of the next version, and of that one only.
///
/// Errors: as stillframe_set_bool.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_set_int(
    region: *mut stillframe_region,
    name: *const c_char,
    value: i64,
) -> stillframe_status {
    run("stillframe_set_int", |call| set(region, call.text("name", name)?, Scalar::Int(value)))
}

/// Sets an attribute of the next version, and of that one only.
///
/// Errors: as stillframe_set_bool.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_set_float(
    region: *mut stillframe_region,
    name: *const c_char,
    value: f64,
) -> stillframe_status {
    run("stillframe_set_float", |call| set(region, call.text("name", name)?, Scalar::Float(value)))
}

/// Sets an attribute of the next version, and of that one only. The text is copied.
///
/// Errors: as stillframe_set_bool.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_set_text(
    region: *mut stillframe_region,
    name: *const c_char,
    value: *const c_char,
) -> stillframe_status {
    run("stillframe_set_text", |call| {
        set(region, call.text("name", name)?, Scalar::Text(call.text("value", value)?.to_string()))
    })
}
