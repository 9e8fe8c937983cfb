//! Tracked variables: memory of the application.

use crate::error::Result;
use crate::list;
use crate::store::Store;
use crate::working::dirty::{Dirty, Known};
use crate::working::layout::Placed;
use crate::working::source::Source;
use stillframe_kernel::Failure;
use stillframe_segment::{PAGE_BYTES, WINDOW_BYTES};

/// Addresses a tracked variable keeps knowledge about.
const SOURCES_MAX: usize = 4;

/// The memory of a tracked variable: one source for each address it was published from lately, so that swapped buffers keep
/// what was learned about each.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    pub(crate) sources: Vec<Source>,
    pub(crate) current: Option<usize>,
}

/// Where a tracked variable is this time.
#[derive(Debug)]
pub(crate) struct Given<'a> {
    pub(crate) address: usize,
    /// Bytes that the version shows.
    pub(crate) bytes: usize,
    /// The section that is shown, if not all that lies there.
    pub(crate) section: Option<&'a Placed>,
}

impl Tracked {
    /// The source of what is given, if there is one with room for so many bytes.
    fn find(&self, given: &Given) -> Option<usize> {
        let windows = given.windows();
        self.sources.iter().position(|source| {
            source.is_of(given.address, given.section) && source.maps.allocation.windows as usize >= windows
        })
    }

    /// Whether it is published from what is given already; notes for which publish it is.
    pub(crate) fn is_at(&mut self, given: &Given, sequence: u64) -> bool {
        let Some(source) = self.current.and_then(|current| self.sources.get_mut(current)) else { return false };
        let is_at = given.section.is_none() && source.is_of(given.address, None) && source.bytes == given.bytes;
        if is_at {
            source.used = sequence;
        }
        is_at
    }

    /// Whether [`switch_to`](Tracked::switch_to) needs a new source, and of how many windows.
    pub(crate) fn windows_for(&self, given: &Given) -> Option<u32> {
        // A quarter more than needed, so that arrays that grow a little at a time keep their windows.
        let windows = given.windows();
        let room = if windows > 1 { windows + windows / 4 } else { 1 };
        self.find(given).is_none().then_some(room as u32)
    }

    /// Takes out the source that makes way for a new one: that of the same address with too little room, or the one unused for
    /// longest.
    ///
    /// # Errors
    /// There is no memory for a new one.
    pub(crate) fn make_way(&mut self, given: &Given) -> Result<Option<Source>, Failure> {
        list::make_room(&mut self.sources, 1)?;
        let same = self.sources.iter().position(|source| source.is_of(given.address, given.section));
        let oldest = (0..self.sources.len()).min_by_key(|index| self.sources[*index].used);
        let Some(victim) = same.or(oldest.filter(|_| self.sources.len() >= SOURCES_MAX)) else { return Ok(None) };
        self.current = match self.current {
            Some(current) if current == victim => None,
            Some(current) if current > victim => Some(current - 1),
            other => other,
        };
        Ok(Some(self.sources.remove(victim)))
    }

    /// Makes the source of what is given the one that is published: `new` if none was known.
    pub(crate) fn switch_to(&mut self, given: &Given, new: Option<Source>, sequence: u64) {
        let known = self.find(given);
        let index = match (known, new) {
            (Some(index), _) => index,
            (None, Some(source)) => {
                self.sources.push(source);
                self.sources.len() - 1
            }
            (None, None) => return,
        };
        let source = &mut self.sources[index];
        source.used = sequence;
        // A section of another layout is another source.
        if given.section.is_none() && (!source.is_of(given.address, None) || source.bytes != given.bytes) {
            source.set_memory(given.address, given.bytes);
        }
        let left = self.current.replace(index).filter(|old| known.is_some() && *old != index);
        if let Some(source) = left.and_then(|old| self.sources.get_mut(old)) {
            // A buffer that is rewritten whole each time it is used is not worth keeping in the versions in between.
            source.stale |= source.written_percent >= 50;
        }
    }

    /// Finds the pages to publish, after a search, of those that a publish of a part is about.
    pub(crate) fn collect(&mut self, store: &Store, known: &Known) -> Result<Dirty> {
        match self.current.and_then(|index| self.sources.get_mut(index)) {
            Some(source) => source.find_dirty(store, known),
            None => Ok(Dirty::default()),
        }
    }
}

impl Given<'_> {
    fn windows(&self) -> usize {
        let page_offset = if self.section.is_some() { 0 } else { self.address % PAGE_BYTES };
        (page_offset + self.bytes).div_ceil(WINDOW_BYTES).max(1)
    }
}
