//! Managed variables: memory of the region.

use crate::error::{Error, Result};
use crate::mask::Mask;
use crate::store::Store;
use crate::store::space::Allocation;
use crate::working::dirty::{Dirty, Known, Zeros};
use crate::working::pages::Pages;
use crate::working::source::Source;
use crate::working::tracker::Tracker;
use crate::working::unit::CopyUnit;
use stillframe_kernel::Failure;
use stillframe_kernel::workers::Workers;
use stillframe_segment::table::ZERO_PLANE;
use stillframe_segment::{Extent, PAGE_BYTES, WINDOW_BYTES, WINDOW_PAGES};

/// The memory of a managed variable, and what is known of it.
#[derive(Debug)]
pub(crate) struct Managed {
    pub(crate) source: Source,
    pub(crate) pages: Pages,
    /// Whether what follows the content in the last page began as zeros. What was recovered may have anything there.
    zero_end: bool,
}

impl Managed {
    /// Of new memory, or with `is_recovered` of what a version showed.
    pub(crate) fn new(
        allocation: Allocation,
        pages: Pages,
        bytes: usize,
        is_recovered: bool,
    ) -> Result<Managed, Failure> {
        let mut source = Source::new(allocation, true)?;
        source.set_memory(pages.address(), bytes);
        Ok(Managed { source, pages, zero_end: !is_recovered })
    }

    /// Finds the pages to publish, after a search, and sees to it that they have memory of their own.
    pub(crate) fn collect(
        &mut self,
        tracker: &mut Tracker,
        workers: &Workers,
        store: &Store,
        shown: Option<&Extent>,
    ) -> Result<Dirty> {
        let known = Known { workers, subrange: None, zeros: Zeros::NONE, unit: CopyUnit::default(), shown };
        let dirty = self.source.find_dirty(store, &known)?;
        for (window, dirty) in self.source.collected.dirty.iter().enumerate() {
            let shared = self.pages.shared(window, *dirty);
            if !shared.is_empty() {
                // The search armed them: to write to one that a write has given memory already would make it dirty once more.
                let own = tracker.own_pages(self.source.memory.address + window * WINDOW_BYTES, shared);
                self.pages.note_own(window, own);
                self.pages.own_pages(window, *dirty).map_err(|failure| Error::system(store.dir(), failure))?;
            }
        }
        Ok(dirty)
    }

    /// Makes it shorter, or longer by as much as its windows have. What is cut off becomes zeros now rather than when it comes
    /// back: the containers of C++ write behind the end first and grow over it afterwards. Returns how many windows showed a
    /// plane and do not any more.
    pub(crate) fn resize(&mut self, bytes: usize, store: &Store) -> Result<usize, Failure> {
        let Managed { source, pages: memory, zero_end } = self;
        let (old_bytes, old_pages, pages) = (source.bytes, source.memory.pages, bytes.div_ceil(PAGE_BYTES));
        let end = bytes.min(old_bytes);
        let (last, tail) = (end / PAGE_BYTES, end % PAGE_BYTES);
        let has_tail = tail > 0 && (bytes < old_bytes || bytes > old_bytes && !*zero_end);
        // What can fail comes first: then nothing was written.
        if has_tail {
            let mut page = Mask::EMPTY;
            page.insert(last % WINDOW_PAGES);
            memory.own_pages(last / WINDOW_PAGES, page)?;
        }
        let mut cut = 0;
        if pages < old_pages {
            match source.memory.pinned {
                true => memory.clear(pages..old_pages),
                false => cut = memory.cut(pages)?,
            }
            source.forget(pages);
        }
        if has_tail {
            memory.memory.write(end, &[0; PAGE_BYTES][tail..]);
            source.pending[last / WINDOW_PAGES].insert(last % WINDOW_PAGES);
        }
        *zero_end |= bytes != old_bytes;
        source.set_memory(source.memory.address, bytes);
        // Pages that the newest version still has from before they were cut off, if nothing was published since.
        for window in old_pages / WINDOW_PAGES..source.windows() {
            let shown = store.subtable(source.maps.allocation.window as usize + window);
            let new = source.valid(window).without(Mask::first(old_pages.saturating_sub(window * WINDOW_PAGES)));
            new.pages().filter(|page| shown[*page] != ZERO_PLANE).for_each(|page| source.pending[window].insert(page));
        }
        Ok(cut)
    }
}
