//! The kinds of trackers, and whether they work here.

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use stillframe_kernel::Failure;
use stillframe_kernel::map::Mapping;
use stillframe_kernel::pagemap::{self, Pagemap};
use stillframe_kernel::uffd::Userfault;
use stillframe_segment::PAGE_BYTES;

/// A way of finding the pages that were written since the last publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrackerKind {
    /// Asynchronous write protection of userfaultfd, Linux 6.7 and later: a fault of under a microsecond for each page
    /// newly written, and none for pages written again and again.
    WpAsync,
    /// Soft-dirty bits of the page map, where the kernel was built with them. The bits belong to the whole process, so
    /// one region of a process can use them.
    SoftDirty,
    /// Private copy-on-write mappings of the planes: any kernel, managed variables only; others are compared.
    PrivateCow,
    /// Every page is compared with the last version: always works.
    FullCopy,
}

/// All trackers, best first.
pub const TRACKERS: [TrackerKind; 4] =
    [TrackerKind::WpAsync, TrackerKind::SoftDirty, TrackerKind::PrivateCow, TrackerKind::FullCopy];

impl TrackerKind {
    /// The name, as options and `STILLFRAME_TRACKER` take it.
    pub fn name(self) -> &'static str {
        match self {
            TrackerKind::WpAsync => "wp_async",
            TrackerKind::SoftDirty => "soft_dirty",
            TrackerKind::PrivateCow => "private_cow",
            TrackerKind::FullCopy => "full_copy",
        }
    }

    /// The number in the head of a region.
    pub(crate) fn code(self) -> u32 {
        TRACKERS.iter().position(|kind| *kind == self).map_or(0, |index| index as u32 + 1)
    }

    pub(crate) fn from_code(code: u32) -> Option<TrackerKind> {
        TRACKERS.get((code as usize).checked_sub(1)?).copied()
    }

    /// Tries whether the tracker works here, and says why not.
    pub fn probe(self) -> Result<(), String> {
        let words = |failure: Failure| failure.to_string();
        match self {
            TrackerKind::WpAsync => probe_wp_async().map_err(words)?.then_some(()).ok_or_else(|| {
                "this kernel has asynchronous write protection, but does not report what was written".to_string()
            }),
            TrackerKind::SoftDirty => probe_soft_dirty()
                .map_err(words)?
                .then_some(())
                .ok_or_else(|| "this kernel was built without soft-dirty bits (CONFIG_MEM_SOFT_DIRTY)".to_string()),
            TrackerKind::PrivateCow => Pagemap::open().map(drop).map_err(words),
            TrackerKind::FullCopy => Ok(()),
        }
    }
}

impl TrackerKind {
    /// As [`probe`](TrackerKind::probe), but what worked once in this process is not tried again: a kernel does not unlearn it,
    /// and what is short, like descriptors, shows where the tracker is opened.
    pub(crate) fn probe_once(self) -> Result<(), String> {
        static WORKED: [AtomicBool; TRACKERS.len()] = [const { AtomicBool::new(false) }; TRACKERS.len()];
        let worked = &WORKED[self as usize];
        if !worked.load(Ordering::Relaxed) {
            self.probe()?;
            worked.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl std::fmt::Display for TrackerKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for TrackerKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        TRACKERS.into_iter().find(|kind| kind.name() == text).ok_or_else(|| Error::BadOption {
            option: "tracker",
            why: format!("'{text}' is none of wp_async, soft_dirty, private_cow, full_copy"),
        })
    }
}

fn probe_wp_async() -> Result<bool, Failure> {
    let memory = Mapping::private(2 * PAGE_BYTES, false)?;
    let userfault = Userfault::open()?;
    userfault.register(memory.address(), memory.bytes())?;
    let mut pagemap = Pagemap::open()?;
    memory.write(0, &[1; 2 * PAGE_BYTES]);
    pagemap.scan(memory.address(), memory.bytes(), true, |_, _| {})?;
    memory.write(PAGE_BYTES, &[2]);
    let mut found = Vec::new();
    pagemap.scan(memory.address(), memory.bytes(), false, |address, bytes| found.push((address, bytes)))?;
    Ok(found == [(memory.address() + PAGE_BYTES, PAGE_BYTES)])
}

/// Whether armed memory stays armed when it moves, as kernels before 6.12.11 have it (CVE-2025-21696), though nothing watches
/// it then. An error says that this kernel arms nothing.
pub(crate) fn is_armed_after_move() -> Result<bool, Failure> {
    let (memory, place) = (Mapping::private(PAGE_BYTES, false)?, Mapping::private(PAGE_BYTES, false)?);
    memory.write(0, &[1]);
    let userfault = Userfault::open()?;
    userfault.register(memory.address(), memory.bytes())?;
    userfault.arm(memory.address(), memory.bytes())?;
    place.replace(0, memory)?;
    let mut armed = false;
    Pagemap::open()?.entries(place.address(), 1, |_, entry| armed = entry & pagemap::ENTRY_ARMED != 0)?;
    Ok(armed)
}

fn probe_soft_dirty() -> Result<bool, Failure> {
    const UNTRIED: u8 = 0;
    const FAILED: u8 = 1;
    const WORKED: u8 = 2;
    // Tried once: clearing the bits later would lose what a region of this process has yet to see. Whoever comes while it
    // is tried does without, because only one region of a process can have the bits anyway.
    static STATE: AtomicU8 = AtomicU8::new(UNTRIED);
    if let Err(state) = STATE.compare_exchange(UNTRIED, FAILED, Ordering::AcqRel, Ordering::Acquire) {
        return Ok(state == WORKED);
    }
    let works = try_soft_dirty();
    let state = match works {
        Ok(true) => WORKED,
        Ok(false) => FAILED,
        Err(_) => UNTRIED,
    };
    STATE.store(state, Ordering::Release);
    works
}

fn try_soft_dirty() -> Result<bool, Failure> {
    let memory = Mapping::private(2 * PAGE_BYTES, false)?;
    let mut pagemap = Pagemap::open()?;
    memory.write(0, &[1; 2 * PAGE_BYTES]);
    pagemap::clear_soft_dirty()?;
    memory.write(PAGE_BYTES, &[2]);
    let mut dirty = [false; 2];
    pagemap.entries(memory.address(), 2, |page, entry| dirty[page] = entry & pagemap::ENTRY_SOFT_DIRTY != 0)?;
    Ok(dirty == [false, true])
}
