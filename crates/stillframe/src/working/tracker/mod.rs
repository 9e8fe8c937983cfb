//! How written pages are found: four trackers behind one interface.

pub(crate) mod entries;
pub(crate) mod kind;
pub(crate) mod memory;
pub(crate) mod neighbours;
pub(crate) mod seams;
pub(crate) mod wp_async;

use crate::error::{Error, Result};
use crate::mask::Mask;
use crate::working::sticky::Sticky;
use crate::working::tracker::entries::{collect_entries, is_own, is_soft_dirty, is_suspect};
use crate::working::tracker::kind::{TRACKERS, TrackerKind};
use crate::working::tracker::memory::{Collected, Memory, Watch, span};
use crate::working::tracker::seams::Seams;
use crate::working::tracker::wp_async::{begin_again, collect_wp_async};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use stillframe_kernel::Failure;
use stillframe_kernel::maps::{Maps, Sharing};
use stillframe_kernel::pagemap::{self, Bare, Pagemap};
use stillframe_kernel::uffd::Userfault;
use stillframe_segment::{PAGE_BYTES, WINDOW_PAGES};

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

/// Who watches the memory of a region.
#[derive(Debug)]
struct Faults {
    /// For the region's own memory, which is nobody else's: all regions of the process have one together.
    common: Userfault,
    /// For the application's, of which other regions may watch a part: the kernel tells by it who came first.
    own: Option<Userfault>,
}

impl Faults {
    fn open() -> Result<Faults, Failure> {
        Ok(Faults { common: Userfault::common()?, own: None })
    }

    /// The one for a memory, opened if need be.
    fn of(&mut self, range: &Memory) -> Result<&Userfault, Failure> {
        match (range.owned, &mut self.own) {
            (true, _) => Ok(&self.common),
            (false, Some(own)) => Ok(own),
            (false, own) => Ok(own.insert(Userfault::open()?)),
        }
    }
}

#[derive(Debug)]
enum Means {
    WpAsync { faults: Faults, pagemap: Pagemap },
    SoftDirty { pagemap: Pagemap, _claim: SoftDirtyClaim },
    PrivateCow { pagemap: Pagemap },
    FullCopy,
}

/// The tracker of a region.
#[derive(Debug)]
pub(crate) struct Tracker {
    kind: TrackerKind,
    means: Means,
    seams: Seams,
}

impl Tracker {
    /// The tracker asked for, or the best that works.
    pub(crate) fn open(wanted: Option<TrackerKind>) -> Result<Tracker> {
        let candidates = wanted.as_ref().map_or(&TRACKERS[..], std::slice::from_ref);
        let mut reason = String::new();
        for kind in candidates {
            match kind.probe_once().and_then(|()| Tracker::with(*kind)) {
                Ok(means) => return Ok(Tracker { kind: *kind, means, seams: Seams::default() }),
                Err(why) => reason = why,
            }
        }
        Err(Error::NoTracker { tracker: candidates[0].name(), why: reason })
    }

    fn with(kind: TrackerKind) -> Result<Means, String> {
        let words = |failure: Failure| failure.to_string();
        Ok(match kind {
            TrackerKind::WpAsync => {
                Means::WpAsync { faults: Faults::open().map_err(words)?, pagemap: Pagemap::open().map_err(words)? }
            }
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
        // What is the region's may be watched before it is first looked at, and may be kept when the region is gone.
        let is_watched = range.owned || matches!(watch, Watch::On | Watch::Grown { .. });
        if let Means::WpAsync { faults, .. } = &mut self.means
            && is_watched
            && !range.whole.is_empty()
        {
            let (address, bytes) = span(range, range.whole.clone());
            let _ = faults.of(range).and_then(|userfault| userfault.unregister(address, bytes));
        }
    }

    /// Stops watching the pages between two sources, by their addresses.
    pub(crate) fn unwatch_seam(&mut self, pages: &Range<usize>) {
        if let Means::WpAsync { faults: Faults { own: Some(userfault), .. }, pagemap } = &mut self.means {
            self.seams.end(pages, userfault, pagemap);
        }
    }

    /// Watches part of an owned memory again after its pages were replaced, all of it armed.
    pub(crate) fn rewatch(&mut self, address: usize, bytes: usize) -> Result<(), Failure> {
        match &self.means {
            Means::WpAsync { faults, .. } => {
                faults.common.register(address, bytes)?;
                faults.common.arm(address, bytes)
            }
            _ => Ok(()),
        }
    }

    /// Those of some pages of an owned memory's window at `address` that are known to have memory of their own. Which of the
    /// others have some, too, only a write to them would tell, or see to.
    pub(crate) fn own_pages(&mut self, address: usize, pages: Mask) -> Mask {
        let mut own = Mask::EMPTY;
        if let Means::WpAsync { pagemap, .. } = &mut self.means {
            for (start, end) in pages.runs() {
                let note = |page: usize, entry: u64| {
                    // One that was swapped out looks like one that was armed and has none.
                    if is_own(entry) && pagemap::bareness(entry) == Bare::No {
                        own.insert(start + page);
                    }
                };
                if pagemap.entries(address + start * PAGE_BYTES, end - start, note).is_err() {
                    break;
                }
            }
        }
        own
    }

    /// Whether [`fill`](Tracker::fill) may work.
    pub(crate) fn is_filling(&self) -> bool {
        matches!(self.means, Means::WpAsync { .. })
    }

    /// Watches part of an owned memory, none of it armed.
    pub(crate) fn watch(&self, address: usize, bytes: usize) -> Result<(), Failure> {
        match &self.means {
            Means::WpAsync { faults, .. } => faults.common.register(address, bytes),
            _ => Ok(()),
        }
    }

    /// Gives pages of watched memory, which have none of their own, these bytes, armed.
    pub(crate) fn fill(&self, address: usize, pages: &[u8]) -> Result<(), Failure> {
        let unsupported = || std::io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        match &self.means {
            Means::WpAsync { faults, .. } => faults.common.fill(address, pages),
            _ => Err(Failure { call: "ioctl(UFFDIO_COPY)", detail: String::new(), source: unsupported() }),
        }
    }

    /// Finds the pages of a working memory that were written since the last collection, and arms the windows that are
    /// due. Where the kernel does not tell which were written, all are compared, so that nothing is lost.
    pub(crate) fn collect(
        &mut self,
        range: &mut Memory,
        maps: &Maps,
        watch: &mut Watch,
        sticky: &Sticky,
        out: &mut Collected,
    ) {
        match *watch {
            Watch::New => range.measure(maps),
            // What is watched is found to be other memory by the search; a shared mapping is not watched.
            Watch::Off if range.sharing == Sharing::Shared => {
                range.measure(maps);
                if range.sharing != Sharing::Shared {
                    *watch = Watch::New;
                }
            }
            Watch::Grown { .. } if !range.owned => {
                let before = range.clone();
                range.measure(maps);
                // What came is of other pages, and is not watched as the rest.
                if (range.unit_pages, range.sharing) != (before.unit_pages, before.sharing) {
                    self.unwatch(&before, *watch);
                    *watch = Watch::New;
                }
            }
            _ => {}
        }
        out.reset(range);
        if range.whole.is_empty() {
            return;
        }
        match &mut self.means {
            Means::WpAsync { faults, pagemap } => {
                let Ok(userfault) = faults.of(range) else {
                    // No descriptor is left. The next collection tries again.
                    *watch = Watch::New;
                    return out.compare_all(range);
                };
                if collect_wp_async(userfault, pagemap, range, maps, watch, sticky, out).is_err() {
                    begin_again(userfault, range, watch, out);
                }
            }
            // Reserved large pages have no such bits, and may have come to these addresses since the last collection.
            Means::SoftDirty { .. } if !range.owned && range.page_bytes(maps) > PAGE_BYTES => {
                *watch = Watch::Off;
                out.compare_all(range);
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
                    out.compare_all(range);
                }
            }
            Means::PrivateCow { pagemap } if range.owned && !range.pinned => {
                *watch = Watch::On;
                for (window, armed) in out.armed.iter_mut().enumerate() {
                    *armed = sticky.is_due(window);
                }
                let read = collect_entries(pagemap, range, &mut out.dirty, |_, entry| is_own(entry));
                if read.is_err() {
                    out.compare_all(range);
                }
            }
            Means::PrivateCow { .. } | Means::FullCopy => {
                *watch = Watch::Off;
                out.compare_all(range);
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
