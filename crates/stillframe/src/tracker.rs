//! How written pages are found: four trackers behind one interface.

use crate::mask::{Mask, insert_pages};
use crate::sticky::Sticky;
use crate::{Error, Result};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use stillframe_kernel::Failure;
use stillframe_kernel::map::{LARGE_BYTES, Mapping};
use stillframe_kernel::pagemap::{self, Pagemap, Scan};
use stillframe_kernel::uffd::Userfault;
use stillframe_segment::{PAGE_BYTES, WINDOW_PAGES};

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

static SOFT_DIRTY_TAKEN: AtomicBool = AtomicBool::new(false);

/// The right of one region to clear the soft-dirty bits of the process.
#[derive(Debug)]
struct SoftDirtyClaim;

impl SoftDirtyClaim {
    fn take() -> Option<SoftDirtyClaim> {
        (!SOFT_DIRTY_TAKEN.swap(true, Ordering::AcqRel)).then_some(SoftDirtyClaim)
    }
}

impl Drop for SoftDirtyClaim {
    fn drop(&mut self) {
        SOFT_DIRTY_TAKEN.store(false, Ordering::Release);
    }
}

#[derive(Debug)]
enum Means {
    WpAsync { userfault: Userfault, pagemap: Pagemap },
    SoftDirty { pagemap: Pagemap, _claim: SoftDirtyClaim },
    PrivateCow { pagemap: Pagemap },
    FullCopy,
}

/// The tracker of a region.
#[derive(Debug)]
pub(crate) struct Tracker {
    kind: TrackerKind,
    means: Means,
}

/// How far the pages of a working memory are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Watch {
    /// Not yet: all of it counts as dirty.
    #[default]
    New,
    /// Written pages are found.
    On,
    /// Written pages are found, but for those from this one on, which came at the end and count as dirty anyway.
    Grown { from: usize },
    /// The kernel cannot watch this memory: its pages are compared.
    Off,
}

/// Working memory to be looked at.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    /// Address of the first page.
    pub(crate) address: usize,
    /// Number of pages.
    pub(crate) pages: usize,
    /// The pages that belong to the variable alone, as opposed to those it shares with others at its ends.
    pub(crate) whole: Range<usize>,
    /// Whether the region owns the memory, so that pages without memory are known to be zeros.
    pub(crate) owned: bool,
}

/// What a collection found, window by window.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// Pages that were written, or may have been.
    pub(crate) dirty: Vec<Mask>,
    /// Pages of which nothing is known, to be compared.
    pub(crate) unsure: Vec<Mask>,
    /// Windows that the collection armed.
    pub(crate) armed: Vec<bool>,
}

impl Collected {
    /// Forgets all but that the pages at the ends, which others may write, have to be compared.
    fn reset(&mut self, range: &Memory) {
        let windows = range.pages.div_ceil(WINDOW_PAGES);
        self.dirty.clear();
        self.dirty.resize(windows, Mask::EMPTY);
        self.unsure.clear();
        self.unsure.resize(windows, Mask::EMPTY);
        self.armed.clear();
        self.armed.resize(windows, false);
        insert_pages(&mut self.unsure, 0, range.whole.start.min(range.pages));
        insert_pages(&mut self.unsure, range.whole.end.max(range.whole.start), range.pages);
    }

    /// Has all pages compared that belong to the variable alone.
    fn doubt(&mut self, range: &Memory) {
        insert_pages(&mut self.unsure, range.whole.start, range.whole.end);
    }
}

impl Tracker {
    /// The tracker asked for, or the best that works.
    pub(crate) fn open(wanted: Option<TrackerKind>) -> Result<Tracker> {
        let candidates = wanted.as_ref().map_or(&TRACKERS[..], std::slice::from_ref);
        let mut reason = String::new();
        for kind in candidates {
            match kind.probe().and_then(|()| Tracker::with(*kind)) {
                Ok(means) => return Ok(Tracker { kind: *kind, means }),
                Err(why) => reason = why,
            }
        }
        Err(Error::NoTracker { tracker: candidates[0].name(), why: reason })
    }

    fn with(kind: TrackerKind) -> Result<Means, String> {
        let words = |failure: Failure| failure.to_string();
        Ok(match kind {
            TrackerKind::WpAsync => Means::WpAsync {
                userfault: Userfault::open().map_err(words)?,
                pagemap: Pagemap::open().map_err(words)?,
            },
            TrackerKind::SoftDirty => Means::SoftDirty {
                pagemap: Pagemap::open().map_err(words)?,
                _claim: SoftDirtyClaim::take().ok_or("another region of this process uses the soft-dirty bits")?,
            },
            TrackerKind::PrivateCow => Means::PrivateCow { pagemap: Pagemap::open().map_err(words)? },
            TrackerKind::FullCopy => Means::FullCopy,
        })
    }

    pub(crate) fn kind(&self) -> TrackerKind {
        self.kind
    }

    /// Stops watching. What was freed meanwhile is no error.
    pub(crate) fn unwatch(&mut self, range: &Memory, watch: Watch) {
        if let (Means::WpAsync { userfault, .. }, Watch::On | Watch::Grown { .. }) = (&self.means, watch)
            && !range.whole.is_empty()
        {
            let _ =
                userfault.unregister(range.address + range.whole.start * PAGE_BYTES, range.whole.len() * PAGE_BYTES);
        }
    }

    /// Watches part of an owned memory again after its pages were replaced, all of it armed.
    pub(crate) fn rewatch(&mut self, address: usize, bytes: usize) -> Result<(), Failure> {
        match &self.means {
            Means::WpAsync { userfault, .. } => {
                userfault.register(address, bytes)?;
                userfault.arm(address, bytes)
            }
            _ => Ok(()),
        }
    }

    /// Whether [`fill`](Tracker::fill) may work.
    pub(crate) fn is_filling(&self) -> bool {
        matches!(self.means, Means::WpAsync { .. })
    }

    /// Watches part of an owned memory, none of it armed.
    pub(crate) fn watch(&self, address: usize, bytes: usize) -> Result<(), Failure> {
        match &self.means {
            Means::WpAsync { userfault, .. } => userfault.register(address, bytes),
            _ => Ok(()),
        }
    }

    /// Gives pages of watched memory, which have none of their own, these bytes, armed.
    pub(crate) fn fill(&self, address: usize, pages: &[u8]) -> Result<(), Failure> {
        let unsupported = || std::io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        match &self.means {
            Means::WpAsync { userfault, .. } => userfault.fill(address, pages),
            _ => Err(Failure { call: "ioctl(UFFDIO_COPY)", detail: String::new(), source: unsupported() }),
        }
    }

    /// Finds the pages of a working memory that were written since the last collection, and arms the windows that are
    /// due. Where the kernel does not tell which were written, all are compared, so that nothing is lost.
    pub(crate) fn collect(&mut self, range: &Memory, watch: &mut Watch, sticky: &Sticky, out: &mut Collected) {
        out.reset(range);
        if range.whole.is_empty() {
            return;
        }
        match &mut self.means {
            Means::WpAsync { userfault, pagemap } => {
                if collect_wp_async(userfault, pagemap, range, watch, sticky, out).is_err() {
                    begin_again(userfault, range, watch, out);
                }
            }
            Means::SoftDirty { pagemap, .. } => {
                let first = *watch == Watch::New;
                *watch = Watch::On;
                let Collected { dirty, unsure, .. } = out;
                let read = collect_entries(pagemap, range, dirty, |page, entry| {
                    if range.owned {
                        return is_soft_dirty(entry) || first && is_own(entry);
                    }
                    if is_suspect(entry) {
                        unsure[page / WINDOW_PAGES].insert(page % WINDOW_PAGES);
                    }
                    first || entry & pagemap::ENTRY_SOFT_DIRTY != 0
                });
                if read.is_err() {
                    // The bits are cleared all the same, also for a source that is not of this publish.
                    *watch = Watch::New;
                    out.doubt(range);
                }
            }
            Means::PrivateCow { pagemap } if range.owned => {
                *watch = Watch::On;
                for (window, armed) in out.armed.iter_mut().enumerate() {
                    *armed = sticky.is_due(window);
                }
                let read = collect_entries(pagemap, range, &mut out.dirty, |_, entry| is_own(entry));
                if read.is_err() {
                    out.doubt(range);
                }
            }
            Means::PrivateCow { .. } | Means::FullCopy => {
                *watch = Watch::Off;
                out.doubt(range);
            }
        }
    }

    /// Ends the collections of one publish.
    pub(crate) fn finish(&mut self) -> Result<()> {
        match &self.means {
            Means::SoftDirty { .. } => {
                pagemap::clear_soft_dirty().map_err(|f| Error::system(Path::new("/proc/self/clear_refs"), f))
            }
            _ => Ok(()),
        }
    }
}

fn is_soft_dirty(entry: u64) -> bool {
    // A page that reads as dirty without memory of its own belongs to a new mapping, and has never been written.
    entry & pagemap::ENTRY_SOFT_DIRTY != 0 && is_own(entry)
}

/// Whether a page of an owned memory has memory of its own, rather than none or a plane's.
fn is_own(entry: u64) -> bool {
    entry & pagemap::ENTRY_POPULATED != 0 && entry & pagemap::ENTRY_FILE == 0
}

/// Whether a page of the application may have changed without its soft-dirty bit: given back to the kernel and zeros since,
/// or a file's page.
fn is_suspect(entry: u64) -> bool {
    let private = pagemap::ENTRY_POPULATED & !pagemap::ENTRY_SWAPPED | pagemap::ENTRY_EXCLUSIVE;
    let is_private = entry & private == private && entry & pagemap::ENTRY_FILE == 0;
    entry & pagemap::ENTRY_SWAPPED == 0 && !is_private
}

fn collect_entries(
    pagemap: &mut Pagemap,
    range: &Memory,
    dirty: &mut [Mask],
    mut is_dirty: impl FnMut(usize, u64) -> bool,
) -> Result<(), Failure> {
    let address = range.address + range.whole.start * PAGE_BYTES;
    pagemap.entries(address, range.whole.len(), |index, entry| {
        let page = range.whole.start + index;
        if is_dirty(page, entry) {
            dirty[page / WINDOW_PAGES].insert(page % WINDOW_PAGES);
        }
    })
}

/// What to do with a run of windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visit {
    Skip,
    Scan,
    Arm,
}

/// After a call that failed nothing is known of the pages: it may have armed some and not said which were written. So all are
/// compared, and are watched anew from the next collection on, where none that was armed is left.
fn begin_again(userfault: &Userfault, range: &Memory, watch: &mut Watch, out: &mut Collected) {
    out.reset(range);
    let (start, bytes) = span(range, range.whole.clone());
    if userfault.unregister(start, bytes).is_ok() {
        *watch = Watch::New;
        out.doubt(range);
    } else {
        // What stays armed was reported to nobody: for other sources with these pages, too, they are dirty.
        *watch = Watch::Off;
        insert_pages(&mut out.dirty, range.whole.start, range.whole.end);
    }
}

/// Address and length of pages in bytes.
fn span(range: &Memory, pages: Range<usize>) -> (usize, usize) {
    (range.address + pages.start * PAGE_BYTES, pages.len() * PAGE_BYTES)
}

/// Registers pages that were not watched until here. Some may look armed and not be, because they were when they were moved
/// here, so they are disarmed; those of the region's own were armed by itself.
fn register(userfault: &Userfault, range: &Memory, pages: Range<usize>) -> Result<Watch, Failure> {
    let (start, bytes) = span(range, pages);
    // Memory the kernel cannot watch (a file's, a device's, or one another region watches) is compared instead.
    if bytes > 0 && userfault.register(start, bytes).is_err() {
        return Ok(Watch::Off);
    }
    if bytes > 0 && !range.owned {
        userfault.disarm(start, bytes)?;
    }
    Ok(Watch::On)
}

fn collect_wp_async(
    userfault: &Userfault,
    pagemap: &mut Pagemap,
    range: &Memory,
    watch: &mut Watch,
    sticky: &Sticky,
    out: &mut Collected,
) -> Result<(), Failure> {
    let (start, bytes) = span(range, range.whole.clone());
    if *watch == Watch::New {
        *watch = register(userfault, range, range.whole.clone())?;
        if *watch == Watch::On {
            if range.owned {
                // What shows a plane was only read; what is armed was armed when it was recovered, or before it grew.
                collect_entries(pagemap, range, &mut out.dirty, |_, entry| {
                    is_own(entry) && entry & pagemap::ENTRY_ARMED == 0
                })?;
            } else {
                insert_pages(&mut out.dirty, range.whole.start, range.whole.end);
            }
            out.armed.fill(true);
            if pagemap.scan(start, bytes, true, |_, _| {})? == Scan::Unwatched {
                // It was registered just now, so this memory will never be watched.
                let _ = userfault.unregister(start, bytes);
                *watch = Watch::Off;
                out.reset(range);
                out.doubt(range);
            }
            return Ok(());
        }
    }
    if let Watch::Grown { from } = *watch {
        // The rest is not registered again, for that would hide that other memory took its place.
        *watch = register(userfault, range, from.min(range.whole.end)..range.whole.end)?;
    }
    if *watch == Watch::Off {
        out.doubt(range);
        return Ok(());
    }
    let windows = out.dirty.len();
    let mut window = 0;
    while window < windows {
        let visit = |window: usize| {
            let first = range.whole.start.max(window * WINDOW_PAGES) - window * WINDOW_PAGES;
            let last = range.whole.end.min((window + 1) * WINDOW_PAGES) - window * WINDOW_PAGES;
            let mut all = Mask::EMPTY;
            all.insert_run(first.min(last), last);
            match (sticky.is_due(window), sticky.is_exhausted(window, all)) {
                (true, _) => Visit::Arm,
                (false, true) => Visit::Skip,
                (false, false) => Visit::Scan,
            }
        };
        let kind = visit(window);
        let mut end = window + 1;
        while end < windows && visit(end) == kind {
            end += 1;
        }
        let first = range.whole.start.max(window * WINDOW_PAGES);
        let last = range.whole.end.min(end * WINDOW_PAGES);
        if kind == Visit::Skip {
            insert_pages(&mut out.dirty, first, last);
        } else if first < last {
            let dirty = &mut out.dirty;
            let (at, length) = span(range, first..last);
            let scan = pagemap.scan(at, length, kind == Visit::Arm, |address, bytes| {
                let page = (address - range.address) / PAGE_BYTES;
                insert_pages(dirty, page, page + bytes / PAGE_BYTES);
            })?;
            if scan == Scan::Unwatched {
                // The application freed this memory and got it again: nothing known of it holds any more.
                *watch = Watch::New;
                out.reset(range);
                let _ = userfault.unregister(start, bytes);
                let fresh = Memory { owned: false, ..range.clone() };
                return collect_wp_async(userfault, pagemap, &fresh, watch, sticky, out);
            }
            out.armed[window..end].fill(kind == Visit::Arm);
        }
        window = end;
    }
    if !range.owned {
        find_given_back(pagemap, range, out)?;
    }
    Ok(())
}

/// Bytes that one page table describes.
const TABLE_BYTES: usize = LARGE_BYTES;

/// Adds pages without memory to the unsure ones: an allocator may give memory back to the kernel and hand it out again as
/// zeros, and a scan for written pages may pass over what has not even a page table. Where it found a page of a table, it
/// saw the others; in other windows dirty pages may be such as were not looked for.
fn find_given_back(pagemap: &mut Pagemap, range: &Memory, out: &mut Collected) -> Result<(), Failure> {
    let Collected { dirty, unsure, .. } = out;
    let part_end = |page: usize| {
        let table = (range.address + page * PAGE_BYTES) / TABLE_BYTES;
        let table_end = ((table + 1) * TABLE_BYTES - range.address) / PAGE_BYTES;
        table_end.min((page / WINDOW_PAGES + 1) * WINDOW_PAGES).min(range.whole.end)
    };
    let is_silent = |page: usize| {
        let mut part = Mask::EMPTY;
        part.insert_run(page % WINDOW_PAGES, (part_end(page) - 1) % WINDOW_PAGES + 1);
        dirty[page / WINDOW_PAGES].and(part).is_empty()
    };
    let mut page = range.whole.start;
    while page < range.whole.end {
        let first = page;
        while page < range.whole.end && is_silent(page) {
            page = part_end(page);
        }
        if first < page {
            let (at, bytes) = span(range, first..page);
            pagemap.scan_holes(at, bytes, |address, bytes| {
                let page = (address - range.address) / PAGE_BYTES;
                insert_pages(unsure, page, page + bytes / PAGE_BYTES);
            })?;
        }
        if page < range.whole.end {
            page = part_end(page);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use stillframe_segment::WINDOW_BYTES;

    #[test]
    fn pages_of_a_new_source_that_look_armed_are_disarmed_first() {
        let Ok(userfault) = Userfault::open() else { return };
        let memory = Mapping::private(4 * PAGE_BYTES, false).unwrap();
        memory.write(0, &[1; 3 * PAGE_BYTES]);
        userfault.register(memory.address(), memory.bytes()).unwrap();
        userfault.arm(memory.address(), memory.bytes()).unwrap();
        let mut pagemap = Pagemap::open().unwrap();
        let mut armed_of = |memory: &Mapping| {
            let mut armed = Vec::new();
            let note = |_, entry| armed.push(entry & pagemap::ENTRY_ARMED != 0);
            pagemap.entries(memory.address(), 4, note).unwrap();
            armed
        };
        assert_eq!(armed_of(&memory), [true; 4]);
        let mut range = Memory { address: memory.address(), pages: 4, whole: 0..4, owned: true };
        for (owned, pages, expected) in [
            (true, 0..4, [true; 4]),
            (false, 1..1, [true; 4]),
            (false, 2..4, [true, true, false, false]),
            (false, 0..4, [false; 4]),
        ] {
            range.owned = owned;
            assert_eq!(register(&userfault, &range, pages).unwrap(), Watch::On);
            assert_eq!(armed_of(&memory), expected);
        }
    }

    /// As a kernel would let it look whose scan passes over what has no page table.
    #[test]
    fn what_was_given_back_is_found_beside_written_pages_of_the_same_window() {
        let memory = Mapping::private(4 * WINDOW_BYTES, false).unwrap();
        (0..4 * WINDOW_PAGES).for_each(|page| memory.write(page * PAGE_BYTES, &[1]));
        // Windows of the array begin in the middle of what a page table describes.
        let pages = 3 * WINDOW_PAGES;
        let address = memory.address() + WINDOW_BYTES / 2;
        let range = Memory { address, pages, whole: 1..pages - 1, owned: false };
        let hole = WINDOW_PAGES / 2..WINDOW_PAGES * 3 / 2;
        // Never written, so without memory and without a page table of its own.
        let bare = Mapping::private(WINDOW_BYTES, false).unwrap();
        memory.replace(WINDOW_BYTES, bare).unwrap();
        let mut pagemap = Pagemap::open().unwrap();
        for dirty in [vec![], vec![7], vec![hole.start - 1, hole.end], vec![hole.end, pages - 2], vec![hole.start + 3]]
        {
            let mut out = Collected::default();
            out.reset(&range);
            dirty.iter().for_each(|page| insert_pages(&mut out.dirty, *page, page + 1));
            find_given_back(&mut pagemap, &range, &mut out).unwrap();
            let is_unsure = |page: &usize| out.unsure[page / WINDOW_PAGES].has(page % WINDOW_PAGES);
            let found: Vec<usize> = (0..pages).filter(is_unsure).collect();
            // A written page says that its table is there, and was seen in this window.
            let seen = |page: &usize| {
                let of_table = |other: &&usize| hole.contains(other) && **other / WINDOW_PAGES == page / WINDOW_PAGES;
                dirty.iter().any(|other| of_table(&other))
            };
            let expected = [0].into_iter().chain(hole.clone().filter(|page| !seen(page))).chain([pages - 1]);
            assert_eq!(found, expected.collect::<Vec<_>>(), "{dirty:?}");
        }
    }
}
