//! Publishing a version.
//!
//! # Safety
//! The engine is told where tracked arrays are. That they are readable and that nobody writes them while a publish runs, the
//! header asks of its reader. The names of exported functions are this library's own.
#![allow(unsafe_code)]

use crate::call::{Call, run};
use crate::failure::Failure;
use crate::handle;
use crate::producer::{Producer, stillframe_region};
use crate::status::stillframe_status;
use crate::variable::{dtype_of, order_of, stillframe_order};
use crate::variables::{Given, Place, Section, Subrange, Variables};
use engine::{Outcome, Publication, Published, Region, Strided};
use std::ffi::{c_char, c_void};

/// An array that one version is given for a tracked variable, see stillframe_publish_with.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct stillframe_given {
    /// Where it is; NULL only of one without elements, which has an extent of 0.
    pub data: *const c_void,
    /// rank numbers.
    pub shape: *const usize,
    /// The number of the variable, as stillframe_declare and stillframe_find tell it.
    pub variable: u32,
    /// Dimensions, at most STILLFRAME_RANK_MAX.
    pub rank: u32,
    /// A number of stillframe_order_code.
    pub order: stillframe_order,
    /// 0.
    pub reserved: u32,
    /// Of a section, rank distances in bytes, as for stillframe_track_section. NULL: the elements lie one behind the other.
    pub strides: *const isize,
    /// With strides, the type that the elements have in memory, if they are rounded to the variable's; NULL if it is that.
    pub dtype: *const c_char,
}

/// What a publish did.
#[repr(C)]
pub struct stillframe_published {
    /// The number of the version.
    pub version: u64,
    /// Pages of 4 KiB that were written since the last publish.
    pub dirty_pages: u64,
    /// Pages that were copied.
    pub copied_pages: u64,
    /// Pages of all variables.
    pub total_pages: u64,
    /// Time it took.
    pub seconds: f64,
    /// 1 if the version was left out by the rule, else 0.
    pub skipped: u32,
    /// 0.
    pub reserved: u32,
}

/// What a caller gives for one version.
fn take<'a>(
    call: &'a Call,
    region: &Region,
    variables: &Variables,
    given: &stillframe_given,
) -> Result<Given<'a>, Failure> {
    if given.reserved != 0 {
        return Err(Failure::argument("given.reserved", "it is not 0: set the whole structure to 0 first"));
    }
    let (address, shape) = call.place(given.rank, given.shape, given.data)?;
    let dtype = call.text_or_null("given.dtype", given.dtype)?.map(dtype_of).transpose()?;
    let section = match (given.strides.is_null(), dtype) {
        (true, None) => None,
        (_, dtype) => Some((call.slice("given.strides", given.strides, shape.len())?, dtype)),
    };
    variables.give(region, given.variable, address, shape, order_of(given.order)?, section)
}

/// Has `work` publish a version of what is given and followed, with the attributes that were set.
fn with_publication<T>(
    call: &Call,
    producer: &mut Producer,
    version: u64,
    given: &[stillframe_given],
    work: impl FnOnce(Publication) -> Result<T, engine::Error>,
) -> Result<T, Failure> {
    let Producer { region, variables, attributes, .. } = producer;
    let take = |given| take(call, region, variables, given);
    let given = given.iter().map(take).collect::<Result<Vec<Given>, Failure>>()?;
    let mut publication = region.publish(version);
    for Given { id, address, bytes, shape, order, section } in &given {
        // SAFETY: the header asks that the array is where it was said to be, and that nobody writes it now.
        publication = unsafe {
            let (address, order) = (*address as *const u8, *order);
            match section {
                Some(Section { strides, dtype }) => {
                    publication.section_raw(*id, &Strided { address, shape, strides, dtype: dtype.clone(), order })
                }
                None => publication.tracked_raw(*id, address, *bytes, shape, order),
            }
        };
    }
    for (id, Place { address, bytes, shape, order, section, subrange }) in variables.followed() {
        if given.iter().any(|given| given.id == id) {
            continue;
        }
        // SAFETY: as above.
        publication = unsafe {
            let address = *address as *const u8;
            match (section, subrange) {
                (Some(Section { strides, dtype }), _) => {
                    let (dtype, order) = (dtype.clone(), *order);
                    publication.section_raw(id, &Strided { address, shape, strides, dtype, order })
                }
                (None, None) => publication.tracked_raw(id, address, *bytes, shape, *order),
                (None, Some(Subrange { range, before })) => {
                    let memory = std::ptr::slice_from_raw_parts(address, *bytes);
                    let before = before.map(|before| before as *const u8);
                    publication.tracked_part(id, memory, shape, *order, range.clone(), before)
                }
            }
        };
    }
    for (name, value) in &*attributes {
        publication = publication.attr(name, value.clone());
    }
    let done = work(publication)?;
    variables.forget_subranges();
    attributes.clear();
    Ok(done)
}

/// Notes what a publish did.
fn note(producer: &mut Producer, done: &Published) {
    if done.outcome == Outcome::Published
        && let Some(beginning) = &mut producer.beginning
    {
        beginning.end();
    }
}

/// What a publish did, as C sees it.
pub fn told(done: &Published) -> stillframe_published {
    stillframe_published {
        version: done.version,
        dirty_pages: done.dirty_pages,
        copied_pages: done.copied_pages,
        total_pages: done.total_pages,
        seconds: done.duration.as_secs_f64(),
        skipped: u32::from(done.outcome == Outcome::Skipped),
        reserved: 0,
    }
}

fn publish(
    call: &Call,
    region: *mut stillframe_region,
    version: u64,
    given: &[stillframe_given],
    published: *mut stillframe_published,
) -> Result<(), Failure> {
    let out = call.out_or_null("published", published)?;
    handle::with(region, |producer: &mut Producer| {
        let done = with_publication(call, producer, version, given, |publication| publication.commit())?;
        note(producer, &done);
        out.put(told(&done));
        Ok(())
    })
}

/// Publishes a version: observers see all variables as they are now. Pages that were not written since the last publish are
/// not copied. On return all variables may be written again.
///
/// version: above that of the last publish. published: what was done; may be NULL.
///
/// Errors, after which nothing was published, what was written is part of the next publish, and attributes that were set
/// are kept for it: NOT_INCREASING; BAD_OPTION of UINT64_MAX; LIMIT if no reader would accept so much; NO_MEMORY_THERE if a
/// tracked array was freed; BOUND, NO_SPACE, NO_SLOT or ARENA_FULL if there is no room by the region's rule; FORKED; BUSY.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_publish(
    region: *mut stillframe_region,
    version: u64,
    published: *mut stillframe_published,
) -> stillframe_status {
    run("stillframe_publish", |call| publish(call, region, version, &[], published))
}

/// Publishes a version as stillframe_publish does, with arrays that are given for it alone: it shows each of them as its
/// variable, and nobody looks there after the call, whatever comes of it. Where stillframe_track said that an array of such a
/// variable is, this version does not look, and later ones do again, each unless it is given another one itself. A variable
/// that is not tracked so keeps the content that it was given.
///
/// given: given_count arrays or sections of arrays, each of another tracked variable.
///
/// Errors: as stillframe_publish; UNKNOWN_VARIABLE; WRONG_KIND; WRONG_SHAPE, also if a variable is given two arrays, if
/// elements cannot be rounded as it is said, or if they leave the address space; BAD_ARGUMENT.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_publish_with(
    region: *mut stillframe_region,
    version: u64,
    given: *const stillframe_given,
    given_count: u32,
    published: *mut stillframe_published,
) -> stillframe_status {
    run("stillframe_publish_with", |call| {
        let given = call.slice("given", given, given_count as usize)?;
        publish(call, region, version, given, published)
    })
}

/// For stillframe_publish_start: the arrays may be written, freed and tracked elsewhere before the publish is finished. A child
/// process copies, which has the memory as it was. That costs the time of fork(2) when it is started, a fault at the first write
/// to each page of the process afterwards, and memory for the pages that are written meanwhile. Arrays that are shared with other
/// processes or lie in a mapping of a file, and those that forked children do not get or find empty, are copied when it is started.
pub const STILLFRAME_PUBLISH_GUARD: u32 = 1;

/// Starts a publish and returns when it is known which pages have to be copied. Threads copy them on processors that are free,
/// and stillframe_publish_finish what they did not get to. Observers see the version when it is finished: by
/// stillframe_publish_finish or stillframe_publish_test, by the next publish, or by what changes variables (declaring, resizing,
/// removing, pinning and lending them, and closing the region). As with nonblocking sends of MPI the variables may be read until
/// then and not be written, and arrays that are tracked or given stay where they are. Where one is written all the same, the
/// version is a mixture of before and after, and nothing else breaks; with STILLFRAME_CHECK=1 in the environment the publish fails
/// when it is finished, and names variable and page. A program that ends before has not published.
///
/// version, given, given_count: as for stillframe_publish_with. flags: 0, or STILLFRAME_PUBLISH_GUARD. Attributes that were
/// set are the version's.
///
/// Errors: as stillframe_publish_with, and those of a publish before that was not finished; nothing is started then.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_publish_start(
    region: *mut stillframe_region,
    version: u64,
    given: *const stillframe_given,
    given_count: u32,
    flags: u32,
) -> stillframe_status {
    run("stillframe_publish_start", |call| {
        let given = call.slice("given", given, given_count as usize)?;
        if flags & !STILLFRAME_PUBLISH_GUARD != 0 {
            return Err(Failure::argument("flags", "it is neither 0 nor STILLFRAME_PUBLISH_GUARD"));
        }
        handle::with(region, |producer: &mut Producer| {
            with_publication(call, producer, version, given, |publication| {
                let is_guarded = flags & STILLFRAME_PUBLISH_GUARD != 0;
                let publication = if is_guarded { publication.guard() } else { publication };
                // SAFETY: the header asks for it.
                unsafe { publication.start() }
            })
        })
    })
}

/// Finishes the publish that was started: waits for what threads are just copying, copies the rest, and makes the version
/// visible. On return all variables may be written again.
///
/// published: what the publish did, also if something else has finished it; may be NULL. found: whether one was started that was
/// not told of yet; may be NULL.
///
/// Errors, after which nothing was published, and what was written is part of the next publish: as stillframe_publish, and
/// WRITTEN; CHILD_GONE if it was guarded; BAD_HANDLE; FORKED; BUSY.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_publish_finish(
    region: *mut stillframe_region,
    published: *mut stillframe_published,
    found: *mut bool,
) -> stillframe_status {
    run("stillframe_publish_finish", |call| {
        let (out, found) = (call.out_or_null("published", published)?, call.out_or_null("found", found)?);
        handle::with(region, |producer: &mut Producer| {
            let done = producer.region.publish_finish()?;
            found.put(done.is_some());
            if let Some(done) = done {
                note(producer, &done);
                out.put(told(&done));
            }
            Ok(())
        })
    })
}

/// Finishes the publish that was started if nothing is left to be copied and there is room, so that there is nothing to wait for.
///
/// done: whether none is left to be finished.
///
/// Errors: as stillframe_publish_finish.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_publish_test(region: *mut stillframe_region, done: *mut bool) -> stillframe_status {
    run("stillframe_publish_test", |call| {
        let out = call.out("done", done)?;
        handle::with(region, |producer: &mut Producer| {
            out.put(producer.region.publish_test()?);
            Ok(())
        })
    })
}
