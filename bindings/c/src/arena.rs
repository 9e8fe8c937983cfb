//! Arenas: many regions in one file.
//!
//! # Safety
//! A descriptor is copied by its number, and only the copy is used. The names of exported functions are this library's own.
#![allow(unsafe_code)]

use crate::attribute::c_text;
use crate::call::{Call, run};
use crate::failure::Failure;
use crate::handle::{self, Handled, Table};
use crate::kind::Kind;
use crate::status::stillframe_status;
use crate::truth::stillframe_truth;
use engine::{Arena, ArenaOptions, Trust};
use std::ffi::{c_char, c_int, c_void};
use std::os::fd::{BorrowedFd, OwnedFd};

/// An arena: many regions in one file of fixed length, which is the bound of all of them together.
pub struct stillframe_arena(());

/// Bits of the member flags of stillframe_arena_options.
#[repr(C)]
pub enum stillframe_arena_flag {
    /// Large pages are asked for where the file system has small ones. Small regions then take more memory.
    STILLFRAME_ARENA_LARGE_PAGES = 1,
    /// The arena is opened to look only, which takes no right to write. Observers and stillframe_arena_usage_of work with it.
    /// For stillframe_arena_open.
    STILLFRAME_ARENA_LOOK = 2,
}
use stillframe_arena_flag::*;

/// How an arena is made or opened. A member that is 0 or NULL is the default; set all of it to 0 first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct stillframe_arena_options {
    /// Directory that holds the arena's own; NULL: $STILLFRAME_DIR, else /dev/shm/stillframe-<uid>. In a directory on hugetlbfs
    /// the arena consists of large pages of 2 MiB. A file that is handed in has no directory.
    pub dir: *const c_char,
    /// Length in bytes, rounded up to whole chunks of 2 MiB, the arena's own tables included; there is no default. Memory is
    /// taken as regions need it. An arena that is opened, and a file that has a length, keep theirs.
    pub bytes: u64,
    /// Whose directories and files are taken for good, as in stillframe_region_options.
    pub trust: *const c_char,
    /// The most regions that it can have at a time; 0: 4096. An arena that is opened keeps its number.
    pub regions: u32,
    /// Access mode of the arena's directory; 0: 0700. With 0750 the group may observe all its regions, with 0770 it may also
    /// make some.
    pub mode: u32,
    /// Bits of stillframe_arena_flag.
    pub flags: u32,
    /// 0.
    pub reserved: [u32; 9],
}

/// Who has how much of an arena, about now.
#[repr(C)]
pub struct stillframe_arena_usage {
    /// Length of the arena in bytes.
    pub bytes: u64,
    /// Bytes of its own tables.
    pub tables_bytes: u64,
    /// Bytes that belong to no region.
    pub free_bytes: u64,
    /// Chunks of 2 MiB that are free as a whole.
    pub free_chunks: u32,
    /// Chunks whose pages belong to several regions.
    pub small_chunks: u32,
    /// Regions that it has, those that were removed and are still held included.
    pub regions: u32,
    /// The most regions it can have.
    pub regions_max: u32,
    /// 0.
    pub reserved: [u64; 4],
}

/// What one region has of an arena. Texts live until the visitor returns.
#[repr(C)]
pub struct stillframe_arena_region {
    /// Its name within the arena.
    pub name: *const c_char,
    /// Bytes that belong to it, whether they have memory or not.
    pub bytes: u64,
    /// 1 if it was removed, and waits for those who hold its versions, else 0.
    pub removed: u32,
    /// 0.
    pub reserved: u32,
}

/// Gets what a region has of an arena; false ends the walk. As stillframe_region_visitor.
pub type stillframe_arena_region_visitor =
    Option<extern "C" fn(context: *mut c_void, region: *const stillframe_arena_region) -> stillframe_truth>;

impl Handled for Arena {
    type Opaque = stillframe_arena;
    const KIND: Kind = Kind::Arena;
    fn table() -> &'static Table<Arena> {
        static TABLE: Table<Arena> = Table::new();
        &TABLE
    }
}

/// The arena itself, so that what takes its time with it keeps no other thread from using it.
fn get(arena: *mut stillframe_arena) -> Result<Arena, Failure> {
    handle::with(arena, |arena: &mut Arena| Ok(arena.clone()))
}

/// The arena that options of a region or an observer name, if they name one. Beside it a directory has no meaning.
pub fn chosen(arena: *mut stillframe_arena, dir: *const c_char) -> Result<Option<Arena>, Failure> {
    match (arena.is_null(), dir.is_null()) {
        (true, _) => Ok(None),
        (false, true) => get(arena).map(Some),
        (false, false) => {
            Err(Failure::argument("options.dir", "it has no meaning beside options.arena: leave it NULL"))
        }
    }
}

/// The options, and whether the arena is to be looked at only.
fn options(call: &Call, given: *const stillframe_arena_options) -> Result<(ArenaOptions, bool), Failure> {
    let mut options = Arena::options();
    let Some(given) = call.read("options", given)? else { return Ok((options, false)) };
    if given.reserved != [0; 9] {
        return Err(Failure::argument("options.reserved", "it is not 0: set the whole structure to 0 first"));
    }
    let unknown = given.flags & !(STILLFRAME_ARENA_LARGE_PAGES as u32 | STILLFRAME_ARENA_LOOK as u32);
    if unknown != 0 {
        return Err(Failure::argument("options.flags", format!("bits {unknown:#x} have no meaning")));
    }
    let has = |flag: stillframe_arena_flag| given.flags & flag as u32 != 0;
    if let Some(dir) = call.text_or_null("options.dir", given.dir)? {
        options = options.dir(dir);
    }
    if let Some(trust) = call.text_or_null("options.trust", given.trust)? {
        options = options.trust(trust.parse::<Trust>().map_err(engine::Error::from)?);
    }
    if given.regions != 0 {
        options = options.regions(given.regions);
    }
    if given.mode != 0 {
        options = options.mode(given.mode);
    }
    options = options.bytes(given.bytes).large_pages(has(STILLFRAME_ARENA_LARGE_PAGES));
    Ok((options, has(STILLFRAME_ARENA_LOOK)))
}

/// The options of a function to which looking only is no choice.
fn writing(call: &Call, given: *const stillframe_arena_options) -> Result<ArenaOptions, Failure> {
    match options(call, given)? {
        (options, false) => Ok(options),
        (_, true) => Err(Failure::argument(
            "options.flags",
            "STILLFRAME_ARENA_LOOK has no meaning here: it is for stillframe_arena_open",
        )),
    }
}

/// Makes an arena, or opens the one of this name that is there, for regions to be made in it: with the member arena of
/// stillframe_region_options. Observers find a region of it by the name ARENA/REGION.
///
/// name: as a region's. options: the member bytes has to be given. arena: the handle; NULL on errors.
///
/// Errors: BAD_OPTION if it is there with another length or for another number of regions, or there cannot be such an arena;
/// BAD_NAME; UNTRUSTED if somebody else made what is there; CORRUPT if that is damaged or of another format; NO_SPACE if there
/// is no memory for its tables; ARENA_BUSY.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_arena_create(
    name: *const c_char,
    options: *const stillframe_arena_options,
    arena: *mut *mut stillframe_arena,
) -> stillframe_status {
    run("stillframe_arena_create", |call| {
        let out = call.out_pointer("arena", arena)?;
        let name = call.text("name", name)?;
        out.put(handle::insert(writing(call, options)?.create(name)?));
        Ok(())
    })
}

/// Opens an arena that is there, for regions to be made in it, or with STILLFRAME_ARENA_LOOK to look only.
///
/// options: NULL for all defaults. arena: the handle; NULL on errors.
///
/// Errors: NO_ARENA if there is none, or it was never finished; those of stillframe_arena_create.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_arena_open(
    name: *const c_char,
    options: *const stillframe_arena_options,
    arena: *mut *mut stillframe_arena,
) -> stillframe_status {
    run("stillframe_arena_open", |call| {
        let out = call.out_pointer("arena", arena)?;
        let name = call.text("name", name)?;
        let (options, is_look) = self::options(call, options)?;
        out.put(handle::insert(if is_look { options.look(name) } else { options.open(name) }?));
        Ok(())
    })
}

/// Opens an arena over a file that was handed in as a descriptor, or makes one there if it is empty and can be written: a
/// regular file or one in memory (memfd_create), also of large pages. Who can only read by the descriptor can only look.
/// Observers of its regions and groups name the arena in the member arena of stillframe_observer_options: no name leads there.
///
/// descriptor: is copied, and stays the program's. name: what messages and regions call the arena. options: the member bytes has
/// to be given for an empty file. arena: the handle; NULL on errors.
///
/// All locks are on the file itself, so whoever has a descriptor of it may keep producers out.
///
/// Errors: BAD_ARGUMENT if there is no such descriptor; UNTRUSTED if it is no file; NO_ARENA if it is not finished and cannot be
/// written; those of stillframe_arena_create.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_arena_from_descriptor(
    descriptor: c_int,
    name: *const c_char,
    options: *const stillframe_arena_options,
    arena: *mut *mut stillframe_arena,
) -> stillframe_status {
    run("stillframe_arena_from_descriptor", |call| {
        let out = call.out_pointer("arena", arena)?;
        let name = call.text("name", name)?;
        let options = writing(call, options)?;
        out.put(handle::insert(options.from_descriptor(copy(descriptor)?, name)?));
        Ok(())
    })
}

/// A copy of a descriptor.
fn copy(descriptor: c_int) -> Result<OwnedFd, Failure> {
    if descriptor < 0 {
        return Err(Failure::argument("descriptor", format!("{descriptor} is none")));
    }
    // SAFETY: it is not -1, and lent to one system call only, which fails if there is no such descriptor.
    let lent = unsafe { BorrowedFd::borrow_raw(descriptor) };
    lent.try_clone_to_owned().map_err(|error| Failure::argument("descriptor", format!("{descriptor} is none: {error}")))
}

/// Ends the use of an arena by this handle. Its regions and their observers go on, and its files stay. NULL is nothing to do.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_arena_close(arena: *mut stillframe_arena) -> stillframe_status {
    run("stillframe_arena_close", |_| handle::remove_or_null::<Arena>(arena).map(drop))
}

/// Who has how much of an arena, in all.
///
/// Errors: BAD_HANDLE; FORKED; CORRUPT.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_arena_usage_of(
    arena: *mut stillframe_arena,
    usage: *mut stillframe_arena_usage,
) -> stillframe_status {
    run("stillframe_arena_usage_of", |call| {
        let out = call.out("usage", usage)?;
        let found = get(arena)?.usage()?;
        out.put(stillframe_arena_usage {
            bytes: found.bytes,
            tables_bytes: found.tables_bytes,
            free_bytes: found.free_bytes,
            free_chunks: found.free_chunks,
            small_chunks: found.small_chunks,
            regions: found.regions.len() as u32,
            regions_max: found.regions_max,
            reserved: [0; 4],
        });
        Ok(())
    })
}

/// Walks over the regions of an arena and what each has of it, by name.
///
/// Errors: BAD_HANDLE; FORKED; CORRUPT.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_arena_regions(
    arena: *mut stillframe_arena,
    visitor: stillframe_arena_region_visitor,
    context: *mut c_void,
) -> stillframe_status {
    run("stillframe_arena_regions", |_| {
        let see = visitor.ok_or_else(|| Failure::argument("visitor", "it is NULL"))?;
        for region in get(arena)?.usage()?.regions {
            let name = c_text(&region.name);
            let (bytes, removed) = (region.bytes, u32::from(region.is_removed));
            let region = stillframe_arena_region { name: name.as_ptr(), bytes, removed, reserved: 0 };
            if !see(context, &region).holds() {
                break;
            }
        }
        Ok(())
    })
}
