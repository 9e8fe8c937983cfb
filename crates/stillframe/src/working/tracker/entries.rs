//! What the entries of the page map say of pages.

use crate::error::Result;
use crate::mask::Mask;
use crate::working::tracker::memory::Memory;
use stillframe_kernel::Failure;
use stillframe_kernel::pagemap::{self, Pagemap};
use stillframe_segment::{PAGE_BYTES, WINDOW_PAGES};

pub(crate) fn is_soft_dirty(entry: u64) -> bool {
    // A page that reads as dirty without memory of its own belongs to a new mapping, and has never been written.
    entry & pagemap::ENTRY_SOFT_DIRTY != 0 && is_own(entry)
}

/// Whether a page of an owned memory has memory of its own, rather than none or a plane's.
pub(crate) fn is_own(entry: u64) -> bool {
    entry & pagemap::ENTRY_POPULATED != 0 && entry & pagemap::ENTRY_FILE == 0
}

/// Whether a page of the application may have changed without its soft-dirty bit: given back to the kernel and zeros since,
/// or a file's page.
pub(crate) fn is_suspect(entry: u64) -> bool {
    let private = pagemap::ENTRY_POPULATED & !pagemap::ENTRY_SWAPPED | pagemap::ENTRY_EXCLUSIVE;
    let is_private = entry & private == private && entry & pagemap::ENTRY_FILE == 0;
    entry & pagemap::ENTRY_SWAPPED == 0 && !is_private
}

pub(crate) fn collect_entries(
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
