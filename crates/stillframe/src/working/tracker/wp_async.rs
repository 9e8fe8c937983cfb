//! Asynchronous write protection: finding and arming pages.

use crate::error::Result;
use crate::mask::{Mask, insert_pages};
use crate::working::sticky::Sticky;
use crate::working::tracker::entries::{collect_entries, is_own};
use crate::working::tracker::memory::{Collected, Memory, Watch, span};
use std::ops::Range;
use stillframe_kernel::Failure;
use stillframe_kernel::map::LARGE_BYTES;
use stillframe_kernel::maps::{Maps, Sharing};
use stillframe_kernel::pagemap::{self, Pagemap, Scan};
use stillframe_kernel::uffd::Userfault;
use stillframe_segment::{PAGE_BYTES, WINDOW_PAGES};

/// What to do with a run of windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visit {
    Skip,
    Scan,
    Arm,
}

/// After a call that failed nothing is known of the pages: it may have armed some and not said which were written. So all are
/// compared, and are watched anew from the next collection on, where none that was armed is left.
pub(crate) fn begin_again(userfault: &Userfault, range: &Memory, watch: &mut Watch, out: &mut Collected) {
    out.reset(range);
    let (start, bytes) = span(range, range.whole.clone());
    if userfault.unregister(start, bytes).is_ok() {
        *watch = Watch::New;
        out.compare_all(range);
    } else {
        // What stays armed was reported to nobody: for other sources with these pages, too, they are dirty.
        *watch = Watch::Off;
        insert_pages(&mut out.dirty, range.whole.start, range.whole.end);
    }
}

/// Registers pages that were not watched until here. Some may look armed and not be, because they were when they were moved
/// here, so they are disarmed; those of the region's own were armed by itself.
fn register(userfault: &Userfault, range: &Memory, pages: Range<usize>) -> Result<Watch, Failure> {
    let (start, bytes) = span(range, pages);
    // Memory the kernel cannot watch (a device's, or one another region watches) is compared instead, and so is what others can
    // write: only what this process writes disarms a page.
    if range.sharing == Sharing::Shared || bytes > 0 && userfault.register(start, bytes).is_err() {
        return Ok(Watch::Off);
    }
    if bytes > 0 && !range.owned {
        userfault.disarm(start, bytes)?;
    }
    Ok(Watch::On)
}

pub(crate) fn collect_wp_async(
    userfault: &Userfault,
    pagemap: &mut Pagemap,
    range: &mut Memory,
    maps: &Maps,
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
                out.compare_all(range);
            }
            return Ok(());
        }
    }
    if let Watch::Grown { from } = *watch {
        // The rest is not registered again, for that would hide that other memory took its place.
        *watch = register(userfault, range, from.min(range.whole.end)..range.whole.end)?;
    }
    if *watch == Watch::Off {
        out.compare_all(range);
        return Ok(());
    }
    let windows = out.dirty.len();
    let mut window = 0;
    while window < windows {
        let visit = |window: usize| {
            // None where what is watched begins behind the window or ends before it, as whole large pages may.
            let all = Mask::of_window(&range.whole, window);
            // A fault for a large page costs nothing beside the copy of one that was not written. And all of them are one run,
            // so that none is armed in parts, which the kernel does not do.
            let is_due = range.unit_pages > 1 || sticky.is_due(window);
            match (is_due, sticky.is_exhausted(window, all)) {
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
        if first >= last {
            // Nothing of these windows is watched.
        } else if kind == Visit::Skip {
            insert_pages(&mut out.dirty, first, last);
        } else {
            if !range.owned {
                suspect(pagemap, range, first..last, out)?;
            }
            let dirty = &mut out.dirty;
            let (at, length) = span(range, first..last);
            let scan = pagemap.scan(at, length, kind == Visit::Arm, |address, bytes| {
                let page = (address - range.address) / PAGE_BYTES;
                insert_pages(dirty, page, page + bytes / PAGE_BYTES);
            })?;
            if scan == Scan::Unwatched {
                // The application freed this memory and got it again: nothing known of it holds any more.
                *watch = Watch::New;
                let _ = userfault.unregister(start, bytes);
                range.measure(maps);
                out.reset(range);
                // What is known of the region's own memory does not hold either.
                let owned = std::mem::replace(&mut range.owned, false);
                let found = collect_wp_async(userfault, pagemap, range, maps, watch, sticky, out);
                range.owned = owned;
                return found;
            }
            out.armed[window..end].fill(kind == Visit::Arm);
            if !range.owned {
                acquit(range, first..last, out);
            }
            if range.sharing == Sharing::PrivateOfFile {
                // What was never written here, or was given back, shows what others write to the file.
                let unsure = &mut out.unsure;
                pagemap.scan_of_file(at, length, |address, bytes| {
                    let page = (address - range.address) / PAGE_BYTES;
                    insert_pages(unsure, page, page + bytes / PAGE_BYTES);
                })?;
            }
        }
        window = end;
    }
    Ok(())
}

/// Bytes that one page table describes.
const TABLE_BYTES: usize = LARGE_BYTES;

/// The first page behind those whose entries lie in the same table as a page's.
fn table_end(range: &Memory, page: usize) -> usize {
    let table = (range.address + page * PAGE_BYTES) / TABLE_BYTES;
    ((table + 1) * TABLE_BYTES - range.address) / PAGE_BYTES
}

/// The pages by the tables in which their entries lie.
fn by_table(range: &Memory, pages: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let part = move |page: usize| (page < pages.end).then(|| page..table_end(range, page).min(pages.end));
    std::iter::successors(part(pages.start), move |last| part(last.end))
}

/// Adds pages to the unsure ones that may have no page table, before a search for written ones: an allocator may give memory back
/// to the kernel and hand it out again as zeros, and the search may pass over what has no table. Newer kernels take a table
/// away with its last page (`PT_RECLAIM`). Of each table one page is looked at: if that has memory, the table is there. It has
/// to be looked at before the search, for whoever reads a page later has the kernel make the table anew. To look at all pages
/// takes twice as long as the search itself, and a call for each table longer still.
pub(crate) fn suspect(
    pagemap: &mut Pagemap,
    range: &Memory,
    pages: Range<usize>,
    Collected { unsure, .. }: &mut Collected,
) -> Result<(), Failure> {
    let first = by_table(range, pages.clone()).map(|part| span(range, part).0);
    pagemap.find_holes(first, |address| {
        let page = (address - range.address) / PAGE_BYTES;
        insert_pages(unsure, page, table_end(range, page).min(pages.end));
    })
}

/// Takes pages from the unsure ones again if the search found some of the same table: then the table was there, and the
/// search saw all of it. Pages without memory are among the written ones.
pub(crate) fn acquit(range: &Memory, pages: Range<usize>, Collected { dirty, unsure, .. }: &mut Collected) {
    // Mostly there are none.
    if unsure[pages.start / WINDOW_PAGES..pages.end.div_ceil(WINDOW_PAGES)].iter().all(|mask| mask.is_empty()) {
        return;
    }
    for part in by_table(range, pages) {
        let masks = || {
            let windows = part.start / WINDOW_PAGES..part.end.div_ceil(WINDOW_PAGES);
            windows.map(|window| (window, Mask::of_window(&part, window)))
        };
        if masks().any(|(window, mask)| !dirty[window].and(mask).is_empty()) {
            masks().for_each(|(window, mask)| unsure[window] = unsure[window].without(mask));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stillframe_kernel::map::Mapping;
    use stillframe_segment::WINDOW_BYTES;

    #[test]
    fn pages_of_a_new_source_that_look_armed_are_disarmed_first() {
        let Ok(userfault) = Userfault::open() else {
            eprintln!("skipped: userfaultfd cannot be opened here");
            return;
        };
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
        let mut range = Memory::of_application(memory.address(), memory.bytes());
        range.owned = true;
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

    /// An array in reserved large pages may have none of its last window whole, or of its first.
    #[test]
    fn windows_of_which_nothing_is_watched_are_compared() {
        let Ok(userfault) = Userfault::open() else {
            eprintln!("skipped: userfaultfd cannot be opened here");
            return;
        };
        let (windows, mut pagemap) = (4, Pagemap::open().unwrap());
        let middle = 2 * WINDOW_PAGES + 5..2 * WINDOW_PAGES + 9;
        for whole in [0..WINDOW_PAGES, 10..20, middle, 3 * WINDOW_PAGES + 1..4 * WINDOW_PAGES] {
            let memory = Mapping::private(windows * WINDOW_BYTES, false).unwrap();
            (0..windows * WINDOW_PAGES).for_each(|page| memory.write(page * PAGE_BYTES, &[1]));
            let application = Memory::of_application(memory.address(), windows * WINDOW_BYTES);
            let mut range = Memory { whole: whole.clone(), ..application };
            let (mut watch, mut sticky) = (Watch::New, Sticky::new(windows).unwrap());
            let mut out = Collected::for_windows(windows).unwrap();
            for round in 0..40 {
                let written = whole.start + round % whole.len();
                memory.write(written * PAGE_BYTES, &[2]);
                out.reset(&range);
                let maps = Maps::default();
                collect_wp_async(&userfault, &mut pagemap, &mut range, &maps, &mut watch, &sticky, &mut out).unwrap();
                assert!(out.dirty[written / WINDOW_PAGES].has(written % WINDOW_PAGES), "{whole:?}, round {round}");
                let compared: usize = out.unsure.iter().map(|mask| mask.count()).sum();
                assert_eq!(compared, range.pages - whole.len(), "{whole:?}, round {round}");
                for window in 0..windows {
                    sticky.learn(window, out.dirty[window], out.armed[window]);
                }
            }
        }
    }

    /// As a kernel would let it look whose scan passes over what has no page table; pages are read before it and after.
    #[test]
    fn what_was_given_back_is_found_beside_written_pages_of_the_same_window_whoever_reads_meanwhile() {
        // Windows of the array begin in the middle of what a page table describes.
        let pages = 3 * WINDOW_PAGES;
        let hole = WINDOW_PAGES / 2..WINDOW_PAGES * 3 / 2;
        let mut pagemap = Pagemap::open().unwrap();
        for dirty in [vec![], vec![7], vec![hole.start - 1, hole.end], vec![hole.end, pages - 2], vec![hole.start + 3]]
        {
            let memory = Mapping::private(4 * WINDOW_BYTES, false).unwrap();
            (0..4 * WINDOW_PAGES).for_each(|page| memory.write(page * PAGE_BYTES, &[1]));
            let address = memory.address() + WINDOW_BYTES / 2;
            let range = Memory { whole: 1..pages - 1, ..Memory::of_application(address, pages * PAGE_BYTES) };
            // Never written, so without memory and without a page table of its own.
            let bare = Mapping::private(WINDOW_BYTES, false).unwrap();
            memory.replace(WINDOW_BYTES, bare).unwrap();
            let mut out = Collected::default();
            out.reset(&range);
            suspect(&mut pagemap, &range, range.whole.clone(), &mut out).unwrap();
            for page in hole.clone().step_by(50) {
                memory.read(WINDOW_BYTES / 2 + page * PAGE_BYTES, &mut [0]);
            }
            dirty.iter().for_each(|page| insert_pages(&mut out.dirty, *page, page + 1));
            acquit(&range, range.whole.clone(), &mut out);
            let is_unsure = |page: &usize| out.unsure[page / WINDOW_PAGES].has(page % WINDOW_PAGES);
            let found: Vec<usize> = (0..pages).filter(is_unsure).collect();
            // A written page says that its table is there, and was seen.
            let seen = |_: &usize| dirty.iter().any(|other| hole.contains(other));
            let expected = [0].into_iter().chain(hole.clone().filter(|page| !seen(page))).chain([pages - 1]);
            assert_eq!(found, expected.collect::<Vec<_>>(), "{dirty:?}");
        }
    }
}
