//! The functions that stand in for those of the C library that remove names: the region of a file that had its last one goes
//! with it.
//!
//! Signal handlers may call `unlink` and `unlinkat` (signal-safety(7)). Where one may be running the region is only noted, and
//! goes with the next call that this library has a part in, or at the end of the process.

use crate::file::{Publishing, SharedFile};
use crate::fork::files;
use crate::handler;
use crate::inside::{inside, quietly};
use crate::later;
use crate::lock::lock;
use crate::names::{self, root};
use crate::next;
use crate::observer;
use crate::report::{Problem, complain};
use libc::{c_char, c_int};
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use stillframe::Error;

/// See shm_unlink(3).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shm_unlink(name: *const c_char) -> c_int {
    let path = || {
        // SAFETY: the name is a string by the caller's word.
        let name = unsafe { bytes_of(name) }?;
        let name = &name[name.iter().take_while(|byte| **byte == b'/').count()..];
        Some(Path::new("/dev/shm").join(OsStr::from_bytes(name)))
    };
    removing(path, || next::shm_unlink(name))
}

/// See remove(3).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn remove(path: *const c_char) -> c_int {
    // SAFETY: the path is a string by the caller's word.
    let path_of = || unsafe { bytes_of(path) }.map(|path| PathBuf::from(OsStr::from_bytes(path)));
    removing(path_of, || next::remove(path))
}

/// See unlink(2).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    unlinking(libc::AT_FDCWD, path, || next::unlink(path))
}

/// See unlinkat(2).
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    unlinking(directory, path, || next::unlinkat(directory, path, flags))
}

/// # Safety
/// The pointer is null or a string that lives as long as it is used.
unsafe fn bytes_of<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: as the caller vouches.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Removes a name by `real` where a signal handler may do so.
fn unlinking(directory: c_int, path: *const c_char, real: impl FnOnce() -> c_int) -> c_int {
    match quietly(|| handler::may_be_doomed(directory, path)) {
        true => unlinking_shared(directory, path, real),
        false => real(),
    }
}

/// Apart, so that others need no room on their stack for it.
#[inline(never)]
fn unlinking_shared(directory: c_int, path: *const c_char, real: impl FnOnce() -> c_int) -> c_int {
    let doomed = quietly(|| handler::doomed(directory, path));
    let result = real();
    if let (0, Some(doomed)) = (result, doomed) {
        quietly(|| {
            later::note(doomed.path(), doomed.key);
            if !handler::may_be_handling() {
                enter_and_settle();
            }
        });
    }
    result
}

/// Removes the regions of files that were removed where that could not be done.
pub fn settle() {
    for later::Removed { path, key } in later::take() {
        quietly(|| forget(&path, key));
    }
}

/// As [`settle`], of a thread that is not inside yet.
pub fn enter_and_settle() {
    let settled = || {
        settle();
        Some(())
    };
    inside(settled, || ());
}

/// Removes a name by `real`, and the region of the file that had it.
fn removing(path: impl FnOnce() -> Option<PathBuf>, real: impl Fn() -> c_int) -> c_int {
    let mut called = None;
    let result = inside(
        || {
            settle();
            let file = quietly(|| {
                let path = path()?;
                let meta = std::fs::symlink_metadata(&path).ok().filter(|meta| meta.is_file())?;
                let parent = match path.parent() {
                    Some(parent) if !parent.as_os_str().is_empty() => parent,
                    _ => Path::new("."),
                };
                let path = std::fs::canonicalize(parent).ok()?.join(path.file_name()?);
                (meta.nlink() == 1 && names::is_ours(&path)).then_some((path, (meta.dev(), meta.ino())))
            });
            let result = real();
            called = Some(result);
            if let (0, Some((path, key))) = (result, file) {
                quietly(|| forget(&path, key));
            }
            Some(result)
        },
        || 0,
    );
    match called {
        Some(_) => result,
        None => real(),
    }
}

/// Removes the region of a file that is no more.
fn forget(path: &Path, key: (u64, u64)) {
    let left = files().take_left(key);
    drop(left);
    let known = files().known(key);
    for file in &known {
        let attached = lock(&file.observer).take();
        drop(attached);
        let publishing = lock(&file.producer).take();
        tell(path, publishing.map_or(Ok(()), Publishing::unlink));
    }
    tell(path, forget_region(path, key));
}

/// Removes the region of the path that a file had, if it was published by nobody here.
fn forget_region(path: &Path, key: (u64, u64)) -> Result<(), Error> {
    let Some(name) = names::region_name(path) else { return Ok(()) };
    let file = SharedFile::new(key, path.to_path_buf(), name, None);
    // A region that is not of this file is not this call's to remove.
    match observer::newest(&file, &mut None)? {
        Some(_) => stillframe::inspect::remove(root(), &file.name, true).map(drop),
        None => Ok(()),
    }
}

/// Says why a region could not be removed.
fn tell(path: &Path, removed: Result<(), Error>) {
    match removed {
        Ok(()) | Err(Error::NoRegion { .. }) => {}
        Err(error) => complain(&path.to_string_lossy(), &Problem::from(error)),
    }
}
