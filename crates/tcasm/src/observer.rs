//! Observers: read-only mappings of a file that has a region.
//!
//! The mapping is made by the kernel, at the address and with the errors it has for it; then pages of the newest version
//! are laid over it. What holds the version is a file that forked children inherit together with the pages, and that goes
//! with the last of them.

use crate::file::{Attached, SharedFile, View};
use crate::holes;
use crate::kernel::{self, PAGE_BYTES, whole_pages};
use crate::lock::lock;
use crate::names::root;
use crate::next;
use crate::report::Problem;
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Weak};
use stillframe::{Attributes, Error, Observer, Scalar, Snapshot};

/// Versions of one file that a process holds through its mappings. Further ones are copied, because a region has room for
/// 64 versions and a program that never unmaps would stop its producer.
const HELD_MAX: usize = 8;
/// Versions of a region, those of all observers together, above which a process copies rather than holds one more.
const VERSIONS_MAX: usize = 32;

fn head_of(file: &SharedFile) -> Option<(u64, u64)> {
    let meta = std::fs::metadata(root().join(&file.name).join("head")).ok()?;
    Some((meta.dev(), meta.ino()))
}

/// Whether a version with these attributes was published from the file, rather than from an earlier one of its name.
fn is_of(attributes: &Attributes, file: &SharedFile) -> bool {
    let is = |name: &str, value: u64| attributes.get(name) == Some(&Scalar::Int(value as i64));
    is("device", file.key.0) && is("inode", file.key.1)
}

/// Whether the file has a region, of this file or of an earlier one of its name.
pub fn has_region(file: &SharedFile) -> bool {
    head_of(file).is_some()
}

/// The newest version of a file, if it has one.
pub fn newest(file: &SharedFile, place: &mut Option<Attached>) -> Result<Option<Snapshot>, Error> {
    let Some(snapshot) = newest_of_name(file, place)? else { return Ok(None) };
    Ok(is_of(snapshot.attributes(), file).then_some(snapshot))
}

/// The newest version of the region, whichever file it was published from.
pub fn newest_of_name(file: &SharedFile, place: &mut Option<Attached>) -> Result<Option<Snapshot>, Error> {
    // A region may be removed and made anew while it is opened, but hardly this often.
    for _ in 0..10 {
        let Some(head) = head_of(file) else {
            *place = None;
            return Ok(None);
        };
        let attached = match place {
            Some(attached) if attached.head == head => attached,
            _ => match Observer::options().dir(root()).open(&file.name) {
                Ok(observer) => place.insert(Attached { observer, head, held: HashMap::new() }),
                Err(Error::NoRegion { .. }) => return Ok(None),
                Err(error) => return Err(error),
            },
        };
        match attached.observer.newest() {
            Ok(snapshot) => return Ok(Some(snapshot)),
            Err(Error::NoVersion { .. }) => return Ok(None),
            Err(Error::NoRegion { .. } | Error::Forked { .. }) => *place = None,
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Where a published variable and a mapping of the file overlap, in bytes of the file; ends are whole pages.
pub fn overlap(snapshot: &Snapshot, offset: u64, bytes: usize) -> Vec<(String, u64, u64, u64)> {
    let found = snapshot.variables().iter().filter_map(|variable| {
        let Some(Scalar::Int(at)) = variable.attributes.get("offset") else { return None };
        let at = *at as u64;
        let start = at.max(offset);
        let end = at.saturating_add(whole_pages(variable.bytes) as u64);
        let end = end.min(offset.saturating_add(whole_pages(bytes) as u64));
        (start < end).then(|| (variable.name.clone(), at, start, end))
    });
    found.collect()
}

/// A fresh read-only mapping of a file, about to be handed out.
pub struct Fresh {
    pub address: usize,
    pub bytes: usize,
    pub offset: u64,
    pub protection: i32,
}

/// A version laid over a mapping of its file.
pub struct Laid {
    pub view: View,
    /// The bytes of the mapping that are the version's and not the file's, ascending and apart.
    pub covered: Vec<Range<usize>>,
    /// Those of them that are zeros and take no memory, in the same way.
    pub zeros: Vec<Range<usize>>,
}

/// Shows the newest version in a mapping. `None`: there is none, and the mapping is of the file itself.
pub fn show(file: &Arc<SharedFile>, fresh: &Fresh) -> Result<Option<Laid>, Problem> {
    let mut place = lock(&file.observer);
    let Some(snapshot) = newest(file, &mut place)? else { return Ok(None) };
    let hold = match place.as_mut() {
        Some(attached) => hold(attached, &snapshot)?,
        None => None,
    };
    drop(place);
    let (mut covered, mut zeros) = (Vec::new(), Vec::new());
    for (name, at, start, end) in overlap(&snapshot, fresh.offset, fresh.bytes) {
        let first = (start - fresh.offset) as usize;
        covered.push(first..(end - fresh.offset) as usize);
        let bare = holes::within(&snapshot.zeros(&name)?, &((start - at) as usize..(end - at) as usize));
        zeros.extend(bare.into_iter().map(|range| first + range.start..first + range.end));
        let address = fresh.address + (start - fresh.offset) as usize;
        let pages = (start - at) as usize / PAGE_BYTES..(end - at) as usize / PAGE_BYTES;
        let laid = hold.is_some() && {
            // SAFETY: the range is part of a mapping that nobody was told of yet.
            let laid = unsafe { snapshot.lay(&name, pages, address as *mut u8) };
            match laid {
                Ok(()) => true,
                // Out of mappings, the content can still be copied into a single one.
                Err(Error::NoMappings { .. }) => false,
                Err(error) => return Err(error.into()),
            }
        };
        if !laid {
            copy(&snapshot, &name, (start - at) as usize, address, (end - start) as usize)?;
        }
        if fresh.protection != libc::PROT_READ || !laid {
            next::mprotect(address, (end - start) as usize, fresh.protection);
        }
    }
    covered.sort_by_key(|range| range.start);
    zeros.sort_by_key(|range| range.start);
    Ok(Some(Laid { view: View { _hold: hold, _file: file.clone() }, covered, zeros }))
}

/// What keeps a version while a mapping shows it; `None` if it is better copied.
fn hold(attached: &mut Attached, snapshot: &Snapshot) -> Result<Option<Arc<File>>, Error> {
    attached.held.retain(|_, hold| hold.strong_count() > 0);
    if let Some(known) = attached.held.get(&snapshot.version()).and_then(Weak::upgrade) {
        return Ok(Some(known));
    }
    if attached.held.len() >= HELD_MAX || attached.observer.versions().len() > VERSIONS_MAX {
        return Ok(None);
    }
    let hold = match snapshot.keep() {
        Ok(file) => Arc::new(file),
        Err(Error::NoFiles { .. } | Error::NoRegion { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    attached.held.insert(snapshot.version(), Arc::downgrade(&hold));
    Ok(Some(hold))
}

/// Replaces part of a fresh mapping by memory with a copy of a variable's bytes from `from` on.
fn copy(snapshot: &Snapshot, name: &str, from: usize, address: usize, bytes: usize) -> Result<(), Problem> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let at = next::mmap(address, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
    if !kernel::is_address(at) {
        return Err(Problem::new(libc::ENOMEM, format!("no memory for a copy of {bytes} bytes")));
    }
    let total = snapshot.variable(name)?.bytes;
    let count = bytes.min(total.saturating_sub(from));
    // SAFETY: the memory was just made and is this function's alone.
    let memory = unsafe { std::slice::from_raw_parts_mut(at as *mut u8, count) };
    Ok(snapshot.read(name, from, memory)?)
}
