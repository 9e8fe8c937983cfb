//! One search for tracked arrays that lie side by side.
//!
//! A search costs calls of the kernel for each array, written or not, and programs have hundreds of small ones, one behind the
//! other in the heap. So those of few pages between which nothing else is watched are searched in one call. Between two of them
//! is a *seam*: the pages from where the first has its last page to itself to where the second has its first. To be written
//! there says of neither that it was. But while nobody writes the page in which an array ends or begins, it need not be compared
//! there.
//!
//! All pages of a seam are watched, so that the kernel has one mapping for all and the search tells where memory was replaced.
//! Only those in which an array ends or begins are armed, so that others do not pay for what they have in between; and those
//! neither where others write them again and again.
//!
//! That is right because a seam is armed by these searches alone, and only where the arrays that have a part of the page are
//! published, which are then compared there ([`Source::edges_compared`] says whether that came to an end). What else could arm it is
//! another array whose own pages lie in it: as soon as there is one the seam counts for nothing, and is disarmed before it counts
//! again.

use crate::list;
use crate::mask::Mask;
use crate::working::source::Source;
use crate::working::tracker::memory::{Collected, Memory, Watch};
use crate::working::tracker::seams::{Seam, Seams};
use crate::working::tracker::wp_async::{acquit, suspect};
use crate::working::tracker::{Means, Tracker};
use std::ops::Range;
use stillframe_kernel::Failure;
use stillframe_kernel::maps::{Maps, Sharing};
use stillframe_kernel::pagemap::{Pagemap, Scan};
use stillframe_kernel::uffd::Userfault;
use stillframe_segment::{PAGE_BYTES, WINDOW_PAGES};

/// Most pages of an array that is searched together with others: beside the search of more, the calls cost little.
const PAGES_MAX: usize = 64;

/// Most pages between two arrays that are searched together. Other regions cannot watch what lies there, and compare it.
const SEAM_PAGES_MAX: usize = 16;

/// After how many searches in turn that find the page written in which an array ends, and the array not, it is not armed any more:
/// others, which have something beside the array, pay a fault for each of their writes.
const STRANGERS_MAX: u8 = 4;

/// A source, among all that the region has.
#[derive(Debug)]
pub(crate) struct Neighbour<'a> {
    pub(crate) source: &'a mut Source,
    /// Addresses of the pages that are watched.
    pub(crate) watched: Range<usize>,
    /// Whether its dirty pages are wanted now, and it is of a kind that can be searched together with others.
    is_candidate: bool,
}

impl<'a> Neighbour<'a> {
    /// A source, and whether its dirty pages are wanted now.
    pub(crate) fn new(source: &'a mut Source, is_given: bool) -> Neighbour<'a> {
        let (start, end) = source.watched();
        let Memory { pages, whole, unit_pages, sharing, owned, .. } = &source.memory;
        let is_private = !owned && *sharing == Sharing::Private;
        let is_small = *pages <= PAGES_MAX && source.windows() == 1 && *unit_pages == 1 && !whole.is_empty();
        let is_candidate = is_given && is_small && is_private && source.gather.is_none() && source.watch == Watch::On;
        Neighbour { source, watched: start..end, is_candidate }
    }

    /// The pages between it and the next one, if they are few.
    fn seam(&self, next: &Neighbour) -> Option<Range<usize>> {
        let seam = self.watched.end..next.watched.start;
        (seam.end.checked_sub(seam.start)? <= SEAM_PAGES_MAX * PAGE_BYTES).then_some(seam)
    }

    /// Whether others have a page between it and the next one for themselves.
    fn has_strangers(&self, next: &Neighbour, seam: &Range<usize>) -> bool {
        seam.len() / PAGE_BYTES > usize::from(self.source.has_end()) + usize::from(next.source.has_begin())
    }

    /// Whether it can be searched together with the next one. The seam is watched from then on; it counts as written.
    fn joins(&mut self, next: &mut Neighbour, seams: &mut Seams, userfault: &Userfault, maps: &Maps) -> bool {
        let Some(seam) = self.seam(next) else { return false };
        match (&self.source.seams[1], &next.source.seams[0]) {
            _ if seam.is_empty() => return true,
            (Seam::Watched(_), Seam::Watched(_)) => return true,
            (Seam::Refused(_), Seam::Refused(_)) => return false,
            _ => {}
        }
        let is_plain = !self.has_strangers(next, &seam) || is_plain(maps, &seam);
        let is_watched = is_plain && seams.watch(&seam, userfault);
        let seam = if is_watched { Seam::Watched(seam) } else { Seam::Refused(seam) };
        self.source.set_seam(1, seam.clone());
        next.source.set_seam(0, seam);
        is_watched
    }
}

/// Whether what others have is ordinary memory: nothing of a file, of a device, or that nobody may read. Before Linux 6.11, which cannot be
/// asked for one mapping, none counts as such: to read the list of all of them takes longer than the searches.
fn is_plain(maps: &Maps, pages: &Range<usize>) -> bool {
    let is_private = maps.is_private(pages.start, pages.len());
    is_private
        && maps.page_bytes(pages.start, pages.len()) == PAGE_BYTES
        && maps.is_readable_untouched(pages.start, pages.len())
}

impl Tracker {
    /// Searches sources that lie side by side together, as far as that can be done; the others are left to
    /// [`collect`](Tracker::collect). Whether some page is watched for two of all these sources, as when two variables swap their
    /// buffers.
    pub(crate) fn search_neighbours(&mut self, all: &mut [Neighbour], maps: &Maps) -> bool {
        all.sort_unstable_by_key(|one| one.watched.start);
        let is_overlapping = all.windows(2).any(|pair| pair[1].watched.start < pair[0].watched.end);
        let Means::WpAsync { faults, pagemap } = &mut self.means else { return is_overlapping };
        let Some(userfault) = &faults.own else { return is_overlapping };
        if is_overlapping || self.seams.pause.is_on() {
            all.iter_mut().for_each(|one| one.source.forget_seams());
            self.seams.end_others(all, userfault, pagemap);
            return is_overlapping;
        }
        let mut before = None;
        for index in 0..all.len() {
            let after = all.get(index + 1).and_then(|next| all[index].seam(next)).filter(|seam| !seam.is_empty());
            let source = &mut *all[index].source;
            for (side, seam) in [&before, &after].into_iter().enumerate() {
                if !source.seams[side].is_of(seam.as_ref()) {
                    source.set_seam(side, Seam::Open);
                }
            }
            before = after;
        }
        self.seams.end_others(all, userfault, pagemap);
        let (mut first, mut has_failed) = (0, false);
        for next in 1..=all.len() {
            if let Some([one, other]) = all.get_mut(next - 1..=next)
                && one.is_candidate
                && other.is_candidate
                && one.joins(other, &mut self.seams, userfault, maps)
            {
                continue;
            }
            let run = &mut all[first..next];
            if run.len() > 1 && !search(userfault, pagemap, run).unwrap_or(false) {
                has_failed = true;
                run.iter_mut().for_each(|one| one.source.forget_seams());
            }
            first = next;
        }
        self.seams.pause.learn(has_failed);
        is_overlapping
    }
}

/// Searches a run of neighbours; `false` or an error if nothing came of it and nothing was armed.
fn search(userfault: &Userfault, pagemap: &mut Pagemap, run: &mut [Neighbour]) -> Result<bool, Failure> {
    if run.iter().all(|one| one.source.is_exhausted()) {
        run.iter_mut().for_each(|one| one.source.take_all());
        return Ok(true);
    }
    let address = run.first().map_or(0, |one| one.watched.start);
    let pages = run.last().map_or(address, |one| one.watched.end).saturating_sub(address) / PAGE_BYTES;
    let all = Memory { whole: 0..pages, ..Memory::of_application(address, pages * PAGE_BYTES) };
    let mut found = Collected::for_windows(pages.div_ceil(WINDOW_PAGES))?;
    found.reset(&all);
    suspect(pagemap, &all, 0..pages, &mut found)?;
    // Without arming, so that nothing is lost where a part is not watched any more.
    if scan(pagemap, &all, 0..pages, false, &mut found)? == Scan::Unwatched {
        return Ok(false);
    }
    acquit(&all, 0..pages, &mut found);
    arm(userfault, pagemap, &all, run, &mut found)?;
    let has_any = found.dirty.iter().chain(&found.unsure).any(|mask| !mask.is_empty());
    run.iter_mut().for_each(|one| one.source.take_found(&all, &found, has_any));
    leave_strangers(&all, run, &found);
    Ok(true)
}

fn scan(
    pagemap: &mut Pagemap,
    all: &Memory,
    pages: Range<usize>,
    arms: bool,
    found: &mut Collected,
) -> Result<Scan, Failure> {
    pagemap.scan(all.address + pages.start * PAGE_BYTES, pages.len() * PAGE_BYTES, arms, |address, bytes| {
        let page = (address - all.address) / PAGE_BYTES;
        crate::mask::insert_pages(&mut found.dirty, page, page + bytes / PAGE_BYTES);
    })
}

/// The pages of a seam in which the array before it ends and the one behind it begins, by their addresses; often the same.
fn edges(seam: &Range<usize>, one: &Source, other: &Source) -> [Option<usize>; 2] {
    [one.has_end().then_some(seam.start), other.has_begin().then(|| seam.end - PAGE_BYTES)]
}

/// Has pages armed no more that others write and the arrays do not.
fn leave_strangers(all: &Memory, run: &mut [Neighbour], found: &Collected) {
    let is_dirty = |address: usize| {
        let page = (address - all.address) / PAGE_BYTES;
        found.dirty[page / WINDOW_PAGES].has(page % WINDOW_PAGES)
    };
    for index in 1..run.len() {
        let [one, other] = &mut run[index - 1..=index] else { continue };
        let (one, other) = (&mut *one.source, &mut *other.source);
        let Some(seam) = one.seams[1].watched().cloned() else { continue };
        let [end, begin] = edges(&seam, one, other);
        let is_common = end.is_some() && end == begin;
        // What was not armed is found again and again.
        let (is_armed, is_other_armed) = (one.sticky.is_due(0), other.sticky.is_due(0));
        let (is_written, is_other_written) = (is_dirty(seam.start - PAGE_BYTES), is_dirty(seam.end));
        if is_common {
            if is_armed && is_other_armed {
                let is_strange = end.is_some_and(is_dirty) && !is_written && !is_other_written;
                one.count_strangers(1, is_strange);
                other.strangers[0] = one.strangers[1];
            }
            continue;
        }
        if let Some(end) = end.filter(|_| is_armed) {
            one.count_strangers(1, is_dirty(end) && !is_written);
        }
        if let Some(begin) = begin.filter(|_| is_other_armed) {
            other.count_strangers(0, is_dirty(begin) && !is_other_written);
        }
    }
}

/// Addresses of pages that are armed together, and which neighbours of the run have them.
type DuePages = (Range<usize>, Range<usize>);

/// The pages of a run that are to be armed, by their addresses: those of neighbours that are due, and those in which they begin and
/// end unless others write them. The seams between two in full where nobody else has a part of them.
fn due_pages(run: &[Neighbour]) -> Result<Vec<DuePages>, Failure> {
    let mut due: Vec<DuePages> = Vec::new();
    for (index, one) in run.iter().enumerate() {
        if !one.source.sticky.is_due(0) {
            continue;
        }
        let mut pages = one.watched.clone();
        let before = index.checked_sub(1).and_then(|before| run.get(before));
        if let Some(before) = before
            && let Some(seam) = one.source.seams[0].watched()
            && let [end, Some(begin)] = edges(seam, before.source, one.source)
            && one.source.strangers[0] < STRANGERS_MAX
            && (end != Some(begin) || before.source.sticky.is_due(0))
        {
            pages.start = begin;
        }
        if let Some(next) = run.get(index + 1)
            && let Some(seam) = one.source.seams[1].watched()
            && let [Some(end), begin] = edges(seam, one.source, next.source)
            && one.source.strangers[1] < STRANGERS_MAX
            && (begin != Some(end) || next.source.sticky.is_due(0))
        {
            pages.end = end + PAGE_BYTES;
        }
        match due.last_mut() {
            Some((last, members)) if last.end >= pages.start => {
                last.end = pages.end;
                members.end = index + 1;
            }
            _ => list::push(&mut due, (pages, index..index + 1))?,
        }
    }
    Ok(due)
}

/// Arms the neighbours of a run that are due, with the pages in which they begin and end, where something was written: what was not is
/// armed still. On an error nothing is armed.
fn arm(
    userfault: &Userfault,
    pagemap: &mut Pagemap,
    all: &Memory,
    run: &mut [Neighbour],
    found: &mut Collected,
) -> Result<(), Failure> {
    let page = |address: usize| (address - all.address) / PAGE_BYTES;
    for (addresses, members) in due_pages(run)? {
        let pages = page(addresses.start)..page(addresses.end);
        if !found.has_dirty(&pages)
            || scan(pagemap, all, pages.clone(), true, found).is_ok_and(|scan| scan == Scan::Complete)
        {
            continue;
        }
        // Some may be armed and not be reported: all are published, and watched anew.
        crate::mask::insert_pages(&mut found.dirty, pages.start, pages.end);
        for one in &mut run[members] {
            let watched = one.watched.clone();
            let _ = userfault.unregister(watched.start, watched.len());
            one.source.watch = Watch::New;
            one.source.forget_seams();
        }
    }
    Ok(())
}

impl Collected {
    /// Whether some of the pages were written.
    fn has_dirty(&self, pages: &Range<usize>) -> bool {
        let windows = pages.start / WINDOW_PAGES..pages.end.div_ceil(WINDOW_PAGES);
        windows.into_iter().any(|window| !self.dirty[window].and(Mask::of_window(pages, window)).is_empty())
    }

    fn is_in_doubt(&self, page: usize) -> bool {
        let (window, page) = (page / WINDOW_PAGES, page % WINDOW_PAGES);
        self.dirty[window].has(page) || self.unsure[window].has(page)
    }
}

impl Source {
    /// Whether all of its pages are known to be unarmed.
    fn is_exhausted(&self) -> bool {
        self.sticky.is_exhausted(0, Mask::of_window(&self.memory.whole, 0))
    }

    /// Whether it begins in a page that others have a part of.
    fn has_begin(&self) -> bool {
        self.memory.whole.start > 0
    }

    /// Whether it ends in one.
    fn has_end(&self) -> bool {
        self.memory.pages > self.memory.whole.end
    }

    /// Sets what it knows of the pages before it, or behind it.
    fn set_seam(&mut self, side: usize, seam: Seam) {
        self.seams[side] = seam;
        self.strangers[side] = 0;
    }

    /// Forgets what it knows of the pages before it and behind it.
    pub(crate) fn forget_seams(&mut self) {
        self.seams = Default::default();
        self.strangers = Default::default();
    }

    /// Counts searches in turn that found the page written in which it begins or ends, and nothing else of it.
    fn count_strangers(&mut self, side: usize, is_strange: bool) {
        let count = &mut self.strangers[side];
        if *count < STRANGERS_MAX {
            *count = if is_strange { *count + 1 } else { 0 };
        }
    }

    /// Takes all of its pages for written, because none is armed, in place of a search of its own.
    fn take_all(&mut self) {
        let dirty = Mask::of_window(&self.memory.whole, 0);
        let ends = self.valid(0).without(dirty);
        self.collected.set_window(dirty, ends, false);
        self.is_searched = true;
    }

    /// Takes its part of what was found in the pages of a run of neighbours, in place of a search of its own; `has_any` says whether
    /// anything was.
    fn take_found(&mut self, run: &Memory, found: &Collected, has_any: bool) {
        let whole = self.memory.whole.clone();
        let first = (self.memory.address + whole.start * PAGE_BYTES - run.address) / PAGE_BYTES;
        let is_due = self.sticky.is_due(0);
        let (mut dirty, mut unsure) = (Mask::EMPTY, Mask::EMPTY);
        for (index, page) in whole.clone().enumerate().filter(|_| has_any) {
            let (window, at) = ((first + index) / WINDOW_PAGES, (first + index) % WINDOW_PAGES);
            if found.dirty[window].has(at) {
                dirty.insert(page);
            }
            if found.unsure[window].has(at) {
                unsure.insert(page);
            }
        }
        // The ends of the run are of no seam, and are always compared.
        let is_quiet = |seam: &Seam, page: Option<usize>| {
            let page = page.filter(|page| *page < run.pages);
            seam.watched().is_some() && page.is_some_and(|page| !found.is_in_doubt(page))
        };
        let before = !self.has_begin() || is_quiet(&self.seams[0], first.checked_sub(1));
        let after = !self.has_end() || is_quiet(&self.seams[1], Some(first + whole.len()));
        if !before || !self.edges_compared {
            unsure.insert_run(0, whole.start);
        }
        if !after || !self.edges_compared {
            unsure.insert_run(whole.end, self.memory.pages);
        }
        self.edges_compared &= before && after;
        self.collected.set_window(dirty, unsure, is_due);
        self.is_searched = true;
    }
}

#[cfg(test)]
mod tests;
