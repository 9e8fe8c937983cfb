//! The functions of `xasm.h`.
//!
//! # Safety
//! Texts and places for results are the caller's.

use crate::call::{check_place, put, run, text_of};
use crate::memory::{is_whole_pages, whole_pages};
use crate::problem::Problem;
use crate::space::{PagePolicy, Place, Space, Wanted};
use crate::state::State;
use libc::{c_char, c_int, c_ulong, id_t, size_t};

/// All flags that there are.
const FLAGS: c_ulong = 7;
const ARENA: c_ulong = 1;
const SMALL_PAGES: c_ulong = 4096;
const LARGE_PAGES: c_ulong = 2 << 20;

/// What both functions that map are given beside the place.
struct Asked {
    id: id_t,
    extent: size_t,
    backing_extent: size_t,
    flags: c_ulong,
    backing: c_ulong,
    page_bytes: c_ulong,
    name: *const c_char,
}

impl Asked {
    /// # Safety
    /// `name` is NULL or a text.
    unsafe fn map(&self, state: &mut State, place: Place) -> Result<usize, Problem> {
        check_own(self.id)?;
        if self.flags & !FLAGS != 0 {
            return Err(Problem::argument(
                "flags",
                format!("{:#x} has others than VM_READ, VM_WRITE, VM_USER", self.flags),
            ));
        }
        if self.backing != ARENA {
            return Err(Problem::argument("type", format!("{:#x} is not BK_ARENA (1)", self.backing)));
        }
        let policy = match self.page_bytes {
            SMALL_PAGES => PagePolicy::ByPage,
            LARGE_PAGES => PagePolicy::ByChunk,
            other => {
                let why = format!("{other:#x} is neither VM_PAGE_4KB (0x1000) nor VM_PAGE_2MB (0x200000)");
                return Err(Problem::argument("pagesz", why));
            }
        };
        // SAFETY: as the caller vouches.
        let name = unsafe { text_of("name", self.name)? }.unwrap_or("");
        let bytes = whole_pages(self.extent).filter(|bytes| *bytes > 0 && isize::try_from(*bytes).is_ok());
        let bytes = bytes.ok_or_else(|| Problem::argument("extent", format!("{} bytes", self.extent)))?;
        let backing_bytes = whole_pages(self.backing_extent).map_or(u64::MAX, |bytes| bytes as u64);
        let (directory, number) = {
            let process = state.process()?;
            (process.directory.clone(), process.number)
        };
        let space = match &mut state.space {
            Some(space) => space,
            none => none.insert(Space::begin(&directory, number)?),
        };
        space.map(&Wanted { place, bytes, backing_bytes, policy, name })
    }
}

/// Refuses the id of another process, or of a copy.
fn check_own(id: id_t) -> Result<(), Problem> {
    match id == 0 || id == std::process::id() {
        true => Ok(()),
        false => Err(Problem::argument("id", format!("{id} is neither MY_ASPACE (0) nor this process"))),
    }
}

/// Maps a backed region at an address.
///
/// # Safety
/// `name` is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arena_map_backed_region(
    id: id_t,
    start: usize,
    extent: size_t,
    backing_extent: size_t,
    flags: c_ulong,
    backing: c_ulong,
    pagesz: c_ulong,
    name: *const c_char,
    _pmem: u64,
) -> c_int {
    run("arena_map_backed_region", -1, |state| {
        if start == 0 || !is_whole_pages(start) {
            return Err(Problem::argument("start", format!("no page begins at {start:#x}")));
        }
        let asked = Asked { id, extent, backing_extent, flags, backing, page_bytes: pagesz, name };
        // SAFETY: as the caller vouches.
        unsafe { asked.map(state, Place::At(start)) }.map(|_| 0)
    })
}

/// Maps a backed region where there is room.
///
/// # Safety
/// `start` is NULL or the caller's own, `name` is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arena_map_backed_region_anywhere(
    id: id_t,
    start: *mut usize,
    extent: size_t,
    backing_extent: size_t,
    flags: c_ulong,
    backing: c_ulong,
    pagesz: c_ulong,
    name: *const c_char,
    _pmem: u64,
) -> c_int {
    run("arena_map_backed_region_anywhere", -1, |state| {
        check_place("start", start)?;
        let asked = Asked { id, extent, backing_extent, flags, backing, page_bytes: pagesz, name };
        // SAFETY: as the caller vouches.
        unsafe {
            let address = asked.map(state, Place::Anywhere)?;
            put("start", start, address).map(|()| 0)
        }
    })
}

/// The id of the calling process.
///
/// # Safety
/// `id` is NULL or the caller's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aspace_get_myid(id: *mut id_t) -> c_int {
    // SAFETY: as the caller vouches.
    run("aspace_get_myid", -1, |_| unsafe { put("id", id, std::process::id()) }.map(|()| 0))
}

/// Keeps what all backed regions hold as one version.
///
/// # Safety
/// No thread writes them during the call; `dst` is NULL or the caller's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aspace_copy(src: id_t, dst: *mut id_t, flags: c_int) -> c_int {
    run("aspace_copy", -1, |state| {
        check_own(src)?;
        check_place("dst", dst)?;
        if flags != 0 {
            return Err(Problem::argument("flags", format!("{flags:#x} is not 0")));
        }
        let id = state.space.as_mut().ok_or(Problem::NothingBacked)?.copy()?;
        // SAFETY: as the caller vouches.
        unsafe { put("dst", dst, id) }.map(|()| 0)
    })
}

/// Lets go of a copy.
#[unsafe(no_mangle)]
pub extern "C" fn aspace_destroy(id: id_t) -> c_int {
    run("aspace_destroy", -1, |state| {
        let space = state.space.as_mut().ok_or(Problem::NoCopy { id })?;
        space.destroy(id).map(|()| 0)
    })
}
