//! Arenas: many regions in one file of fixed length.
//!
//! An arena is a directory with a few files: `arena` holds all bytes, `lease` carries the locks of those who look, with further
//! ones if there may be many regions, and `lease.producer` the locks of those who write, which no reader may open. Or it is one file that was handed in as a
//! descriptor, and carries all locks itself. What lies where, `stillframe_segment::arena` says.
//!
//! The file is mapped whole, once in a process for those who write and once for those who look, so that a region needs
//! neither a descriptor nor a mapping of its own. Chunks and pages are taken by compare-and-swap of owner words, beside any
//! number of other processes; regions come and go under a lock that is held for microseconds. A process may die at any
//! instant: what its regions own is named by their number, and found by their next producer or by who removes them.

mod bell;
mod changing;
mod chunks;
mod claimed;
mod filling;
pub(crate) mod hidden;
pub(crate) mod index;
mod leases;
mod opening;
mod openings;
mod others;
mod pages;
mod records;
pub(crate) mod region;
mod removal;
mod renaming;
#[cfg(test)]
mod tests;
mod usage;

use crate::error::{Error, Result};
use crate::place::directory::Directory;
use crate::place::files::{Files, Located, Root};
pub(crate) use bell::Bell;
pub(crate) use chunks::Owned;
use chunks::Search;
pub(crate) use claimed::Claimed;
pub use filling::Filling;
pub(crate) use leases::{ArenaLeases, Attached};
use once_cell::race::OnceBox;
pub use opening::ArenaOptions;
use others::Sharing;
use records::Changes;
pub(crate) use records::Found;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use stillframe_kernel::folder::{About, Form};
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::lock::{self, Kind};
use stillframe_kernel::map::Mapping;
use stillframe_kernel::thread::without_signals;
use stillframe_segment::Corrupt;
use stillframe_segment::arena::{self, Geometry};
pub use usage::{ArenaUsage, RegionUsage};

/// Many regions in one file of fixed length, which is the bound of all of them together. Copies are the same arena; it is
/// opened once in a process, for writing and for looking.
///
/// A handle does not survive `fork`: a child opens its own.
///
/// ```
/// use stillframe::{Arena, Observer, Region};
/// # fn main() -> stillframe::Result<()> {
/// # let dir = std::path::PathBuf::from(format!("/dev/shm/stillframe-doc-arena-{}", std::process::id()));
/// let arena = Arena::options().dir(&dir).bytes(1 << 30).create("pool")?;
/// let mut region = Region::options().arena(&arena).create("u")?;
/// let u = region.array::<f64>("u", &[512])?;
/// region.slice_mut(&u)[0] = 1.0;
/// region.publish(1).commit()?;
///
/// let snapshot = Observer::options().dir(&dir).open("pool/u")?.newest()?;
/// assert_eq!(snapshot.slice::<f64>("u")?[0], 1.0);
/// assert_eq!(arena.usage()?.regions[0].name, "u");
/// # drop(region);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Arena {
    shared: Arc<Shared>,
}

/// The enclave whose arena a region lies in: a virtual machine or its host, with an [arena of its own](Arena) in memory that both have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnclaveInfo {
    /// Its name, which is that of its arena here.
    pub name: String,
    /// Whether it is the one in which this process runs.
    pub is_own: bool,
}

/// One opening of an arena.
#[derive(Debug)]
struct Shared {
    name: String,
    /// Where its files lie; of one that was handed in what messages call it.
    path: PathBuf,
    /// `None` if it was handed in.
    files: Option<Files>,
    file: Arc<File>,
    /// What is known of it since it was opened.
    about: About,
    map: Arc<Mapping>,
    geometry: Geometry,
    /// Whether the file consists of large pages.
    is_large: bool,
    /// Whether the file is a device's memory, of which the kernel has no private copies.
    is_device: bool,
    /// Whether all of it has memory, and keeps it.
    is_filled: AtomicBool,
    lease: Arc<Unforked>,
    /// Further files with leases, opened as they are needed. None if the arena was handed in.
    further: Vec<OnceBox<Unforked>>,
    /// `None` for who only looks.
    producer: Option<Arc<Unforked>>,
    /// How many snapshots of this opening hold each slot of each region. Locks of one opening merge, so they are counted.
    holds: Mutex<BTreeMap<(u32, usize), u32>>,
    /// How many slots these are: who publishes need not look there where they are none, as in most processes.
    held_slots: AtomicUsize,
    /// Regions whose producers have their locks by this opening.
    produced: Mutex<BTreeSet<u32>>,
    changes: Mutex<Changes>,
    search: Mutex<Search>,
    sharing: Sharing,
}

/// Works with what a mutex guards. All regions of a process share it, so a handler that interrupted this thread and used
/// another region would wait for it for ever: none runs meanwhile.
fn exclusively<T, R>(mutex: &Mutex<T>, work: impl FnOnce(&mut T) -> R) -> R {
    // Who panicked with it has changed nothing by halves.
    without_signals(|| work(&mut mutex.lock().unwrap_or_else(PoisonError::into_inner)))
}

impl Arena {
    /// Options for making or opening an arena.
    pub fn options() -> ArenaOptions {
        ArenaOptions::default()
    }

    /// Whether a directory is that of an arena. A region may have the name of an arena's file, and is a directory.
    pub(crate) fn is_in(directory: &Directory) -> bool {
        directory.about(arena::FILE).is_some_and(|about| about.form == Form::File)
    }

    /// The directory of the arena to which a name below a directory of regions leads, or which that directory is, with the
    /// arena's name, the part of the other that leads there, and what is left of it; `None` if the name leads to a directory.
    pub(crate) fn locate(root: &Directory, name: &str) -> Result<Option<(Directory, String, [String; 2])>> {
        if Arena::is_in(root) {
            let own = root.path().file_name().map_or("arena".into(), |own| own.to_string_lossy());
            return Ok(Some((root.clone(), own.into(), [String::new(), name.into()])));
        }
        for (end, _) in name.match_indices('/') {
            let Some(directory) = root.below(&name[..end])? else { return Ok(None) };
            if Arena::is_in(&directory) {
                let (prefix, region) = name.split_at(end + 1);
                return Ok(Some((directory, name[..end].into(), [prefix.into(), region.into()])));
            }
        }
        Ok(None)
    }

    /// The arena to which a name below a directory of regions leads, or which that directory is, for who looks, and the name
    /// that is left of it; `None` if the name leads to a directory.
    pub(crate) fn of_region(root: &Root, name: &str) -> Result<Option<(Arena, String)>> {
        match root.locate_arena(name)? {
            Some(Located::Arena { files, called, leads, region }) => {
                Ok(Some((Arena::located(root, &files, &called, &leads)?, region)))
            }
            _ => Ok(None),
        }
    }

    /// The arena of these files, to which this name leads, for who looks.
    pub(crate) fn located(root: &Root, files: &Files, called: &str, leads: &str) -> Result<Arena> {
        let arena = Arena::options().look_in(files, called)?;
        if let Some(root) = root.directory() {
            arena.note(root, leads);
        }
        Ok(arena)
    }

    /// As [`of_region`](Arena::of_region), for who makes or removes regions; with the part of the name that leads to the arena.
    pub(crate) fn of_own_region(root: &Directory, name: &str) -> Result<Option<(Arena, [String; 2])>> {
        let Some((directory, arena, names)) = Arena::locate(root, name)? else { return Ok(None) };
        Ok(Some((Arena::options().write_in(&directory, &arena)?, names)))
    }

    /// The arena in a directory, for who looks.
    pub(crate) fn in_directory(directory: &Directory, name: &str) -> Result<Arena> {
        Arena::options().look_in(&directory.clone().into(), name)
    }

    /// The arena's name. Its regions are found as `NAME/REGION`.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The directory with the arena's files; of one that was handed in as a descriptor what messages call it.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Whether it was handed in as a descriptor, so that no name leads to it.
    pub fn is_handed_in(&self) -> bool {
        self.shared.files.is_none()
    }

    /// The enclave whose arena it is; `None` if it is no enclave's.
    pub(crate) fn enclave(&self) -> Option<EnclaveInfo> {
        let is_own = self.shared.sharing.is_own()?;
        // What another enclave calls itself is not believed: here it is called as its directory is.
        let name = self.path().file_name()?.to_string_lossy().into();
        Some(EnclaveInfo { name, is_own })
    }

    /// Length in bytes, the arena's own tables included.
    pub fn bytes(&self) -> u64 {
        self.shared.geometry.bytes()
    }

    /// The whole file, mapped: page *p* lies at 4096 *p*.
    pub(crate) fn memory(&self) -> &Mapping {
        &self.shared.map
    }

    /// What is known of the file since it was opened.
    pub(crate) fn about(&self) -> About {
        self.shared.about
    }

    /// Who wakes those that wait for versions of a region, by its number.
    pub(crate) fn bell(&self, region: u32) -> Bell {
        self.shared.sharing.bell(region, self.shared.is_device)
    }

    /// As [`memory`](Arena::memory), shared.
    pub(crate) fn map(&self) -> Arc<Mapping> {
        self.shared.map.clone()
    }

    /// The chunks that regions may have.
    pub(crate) fn chunks(&self) -> Range<u32> {
        self.shared.geometry.free_chunks()
    }

    /// The file, in which memory is taken before pages are written.
    pub(crate) fn file(&self) -> &Arc<File> {
        &self.shared.file
    }

    /// Whether the file consists of large pages: chunks have memory when they are taken, and pages of small ones too.
    pub(crate) fn is_hugetlb(&self) -> bool {
        self.shared.is_large
    }
}

impl Arena {
    /// Whether it is another enclave's.
    pub(crate) fn is_foreign(&self) -> bool {
        self.shared.sharing.owner().is_some()
    }

    /// Whether the file is a device's memory. A private mapping of it is none: what is written there is written to the device.
    pub(crate) fn is_device(&self) -> bool {
        self.shared.is_device
    }
}

impl Shared {
    fn corrupt(&self, corrupt: Corrupt) -> Error {
        Error::Corrupt { dir: self.path.clone(), corrupt }
    }

    fn system(&self, failure: stillframe_kernel::Failure) -> Error {
        Error::system(&self.path, failure)
    }

    fn forked(&self) -> Error {
        Error::Forked { region: self.name.clone() }
    }

    /// The file with the signs that producers live, and with leases on the first regions.
    fn leases(&self) -> Result<&File> {
        self.lease.get().ok_or_else(|| self.forked())
    }

    /// The file with the locks of those who write, if this opening is one for writing.
    fn producers(&self) -> Result<&File> {
        match &self.producer {
            Some(producer) => producer.get().ok_or_else(|| self.forked()),
            None => {
                let why = format!("'{}' was opened to look only: open it for writing", self.name);
                Err(Error::BadOption { option: "arena", why })
            }
        }
    }

    fn try_lock(&self, file: &File, kind: Kind, at: u64, bytes: u64) -> Result<bool> {
        lock::try_lock(file, kind, at, bytes).map_err(|failure| self.system(failure))
    }

    fn is_locked(&self, file: &File, kind: Kind, at: u64, bytes: u64) -> Result<bool> {
        lock::is_held(file, kind, at, bytes).map_err(|failure| self.system(failure))
    }
}
