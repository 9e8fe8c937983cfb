//! One search for tracked arrays that lie side by side.
//!
//! A search costs calls of the kernel for each array, written or not, and programs have hundreds of small ones, one behind the
//! other in the heap. So those of few pages between which nothing else is watched are searched in one call. Between two of them
//! is a *seam*: the page, or two, in which the first ends and the second begins. To be written there says of neither that it
//! was. But while nobody writes a seam, neither has to be compared there.
//!
//! That is right because a seam is armed by these searches alone, and only where both arrays are published, which are then
//! compared there ([`Source::edges_compared`] says whether that came to an end). What else could arm it is another array whose own
//! pages lie in it: as soon as there is one the seam counts for nothing, and is disarmed before it counts again.

use crate::mask::Mask;
use crate::working::source::Source;
use crate::working::tracker::memory::{Collected, Memory, Watch};
use crate::working::tracker::wp_async::{acquit, suspect};
use crate::working::tracker::{Means, Tracker};
use std::collections::BTreeMap;
use std::ops::Range;
use stillframe_kernel::Failure;
use stillframe_kernel::maps::Sharing;
use stillframe_kernel::pagemap::{Pagemap, Scan};
use stillframe_kernel::uffd::Userfault;
use stillframe_segment::{PAGE_BYTES, WINDOW_PAGES};

/// Most pages of an array that is searched together with others: beside the search of more, the calls cost little.
const PAGES_MAX: usize = 64;

/// Most publishes for which arrays are searched one by one after a search of several failed, as where one was freed and is back.
const PAUSE_MAX: u32 = 256;

/// After how many searches in turn that find a seam written, and neither array beside it, it is not watched any more: others, which
/// have something between the arrays, pay a fault for each of their writes.
const STRANGERS_MAX: u8 = 4;

/// The pages between a source and its neighbour on one side, by their addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Seam {
    /// They are not watched.
    #[default]
    Open,
    /// They are watched.
    Watched(Range<usize>),
    /// They are not to be watched: the kernel cannot, or others write them.
    Refused(Range<usize>),
}

impl Seam {
    /// The pages that are watched.
    pub(crate) fn watched(&self) -> Option<&Range<usize>> {
        match self {
            Seam::Watched(pages) => Some(pages),
            Seam::Open | Seam::Refused(_) => None,
        }
    }

    /// Forgets what it was if it is between others by now.
    fn keep_if(&mut self, seam: Option<&Range<usize>>) {
        if let Seam::Watched(pages) | Seam::Refused(pages) = self
            && Some(&*pages) != seam
        {
            *self = Seam::Open;
        }
    }
}

/// A source, among all that the region has.
#[derive(Debug)]
pub(crate) struct Neighbour<'a> {
    pub(crate) source: &'a mut Source,
    /// Whether its dirty pages are wanted now.
    pub(crate) is_given: bool,
}

/// For how many publishes no sources are searched together.
#[derive(Debug, Default)]
struct Pause {
    left: u32,
    last: u32,
    /// Publishes without a failure since.
    calm: u32,
}

impl Pause {
    /// Whether this publish is one of them.
    fn is_on(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }

    /// After a publish whose searches failed or did not: a pause is twice as long as the one before, unless nothing failed for long.
    fn learn(&mut self, has_failed: bool) {
        if has_failed {
            self.last = (self.last * 2).clamp(4, PAUSE_MAX);
            (self.left, self.calm) = (self.last, 0);
        } else {
            self.calm += 1;
            if self.calm > self.last {
                (self.last, self.calm) = (self.last / 2, 0);
            }
        }
    }
}

/// What a tracker knows of the seams of all sources.
#[derive(Debug, Default)]
pub(crate) struct Seams {
    /// Those that are watched, from their first address to their last: sources come and go, and each is let go of once.
    watched: BTreeMap<usize, usize>,
    pause: Pause,
}

impl Seams {
    /// Watches one; it counts as written.
    fn watch(&mut self, seam: &Range<usize>, userfault: &Userfault) -> bool {
        if userfault.register(seam.start, seam.len()).is_err() {
            return false;
        }
        self.watched.insert(seam.start, seam.end);
        userfault.disarm(seam.start, seam.len()).is_ok()
    }

    /// Stops watching one, unless that was done.
    pub(crate) fn end(&mut self, seam: &Range<usize>, userfault: &Userfault) {
        if self.watched.get(&seam.start) == Some(&seam.end) {
            self.watched.remove(&seam.start);
            let _ = userfault.unregister(seam.start, seam.len());
        }
    }

    /// Stops watching those that are between no two of these sources any more. Some of their pages may be a source's own by now.
    fn end_others(&mut self, all: &[Neighbour], userfault: &Userfault) {
        let known = |one: &Neighbour| one.source.seams[1].watched().map(|seam| (seam.start, seam.end));
        if self.watched.len() == all.iter().filter_map(known).count() {
            return;
        }
        let known: BTreeMap<usize, usize> = all.iter().filter_map(known).collect();
        self.watched.retain(|start, end| {
            if known.get(start) == Some(end) {
                return true;
            }
            let is_own = all.iter().map(Neighbour::watched).any(|own| own.start < *end && *start < own.end);
            if !is_own {
                let _ = userfault.unregister(*start, *end - *start);
            }
            false
        });
    }
}

impl Neighbour<'_> {
    /// Addresses of the pages that are watched.
    fn watched(&self) -> Range<usize> {
        let (start, end) = self.source.watched();
        start..end
    }

    fn is_candidate(&self) -> bool {
        let Memory { pages, whole, unit_pages, sharing, owned, .. } = &self.source.memory;
        let is_private = !owned && *sharing == Sharing::Private;
        let is_small = *pages <= PAGES_MAX && self.source.windows() == 1 && *unit_pages == 1 && !whole.is_empty();
        self.is_given && is_small && is_private && self.source.gather.is_none() && self.source.watch == Watch::On
    }

    /// The pages between it and the next one, if each has a part of one of the two.
    fn seam(&self, next: &Neighbour) -> Option<Range<usize>> {
        let seam = self.watched().end..next.watched().start;
        let ends = self.source.memory.pages > self.source.memory.whole.end;
        let begins = next.source.memory.whole.start > 0;
        let is_shared = match seam.end.checked_sub(seam.start)? / PAGE_BYTES {
            0 => true,
            1 => ends || begins,
            2 => ends && begins,
            _ => false,
        };
        is_shared.then_some(seam)
    }

    /// Whether it can be searched together with the next one. The seam is watched from then on; it counts as written.
    fn joins(&mut self, next: &mut Neighbour, seams: &mut Seams, userfault: &Userfault) -> bool {
        let Some(seam) = self.seam(next) else { return false };
        let (own, others) = (&mut self.source.seams[1], &mut next.source.seams[0]);
        match (&*own, &*others) {
            _ if seam.is_empty() => return true,
            (Seam::Watched(_), Seam::Watched(_)) => return true,
            (Seam::Refused(_), Seam::Refused(_)) => return false,
            _ => {}
        }
        let is_watched = seams.watch(&seam, userfault);
        *own = if is_watched { Seam::Watched(seam) } else { Seam::Refused(seam) };
        *others = own.clone();
        is_watched
    }
}

impl Tracker {
    /// Searches sources that lie side by side together, as far as that can be done; the others are left to
    /// [`collect`](Tracker::collect). Whether some page is watched for two of all these sources, as when two variables swap their
    /// buffers.
    pub(crate) fn search_neighbours(&mut self, all: &mut [Neighbour]) -> bool {
        all.sort_unstable_by_key(|one| one.watched().start);
        let is_overlapping = all.windows(2).any(|pair| pair[1].watched().start < pair[0].watched().end);
        let Means::WpAsync { faults, pagemap } = &mut self.means else { return is_overlapping };
        let Some(userfault) = &faults.own else { return is_overlapping };
        if is_overlapping || self.seams.pause.is_on() {
            all.iter_mut().for_each(|one| one.source.seams = Default::default());
            self.seams.end_others(all, userfault);
            return is_overlapping;
        }
        let mut before = None;
        for index in 0..all.len() {
            all[index].source.seams[0].keep_if(before.as_ref());
            before = all.get(index + 1).and_then(|next| all[index].seam(next)).filter(|seam| !seam.is_empty());
            all[index].source.seams[1].keep_if(before.as_ref());
        }
        self.seams.end_others(all, userfault);
        let (mut first, mut has_failed) = (0, false);
        for next in 1..=all.len() {
            if let Some([one, other]) = all.get_mut(next - 1..=next)
                && one.is_candidate()
                && other.is_candidate()
                && one.joins(other, &mut self.seams, userfault)
            {
                continue;
            }
            let run = &mut all[first..next];
            if run.len() > 1 && !search(userfault, pagemap, run).unwrap_or(false) {
                has_failed = true;
                run.iter_mut().for_each(|one| one.source.seams = Default::default());
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
        return Ok(true);
    }
    let address = run.first().map_or(0, |one| one.watched().start);
    let pages = run.last().map_or(address, |one| one.watched().end).saturating_sub(address) / PAGE_BYTES;
    let all = Memory { whole: 0..pages, ..Memory::of_application(address, pages * PAGE_BYTES) };
    let mut found = Collected::for_windows(pages.div_ceil(WINDOW_PAGES))?;
    found.reset(&all);
    suspect(pagemap, &all, 0..pages, &mut found)?;
    // Without arming, so that nothing is lost where a part is not watched any more.
    if scan(pagemap, &all, 0..pages, false, &mut found)? == Scan::Unwatched {
        return Ok(false);
    }
    acquit(&all, 0..pages, &mut found);
    arm(userfault, pagemap, &all, run, &mut found);
    run.iter_mut().for_each(|one| one.source.take_found(&all, &found));
    refuse_seams_of_strangers(&all, run, &found);
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

/// Gives up seams that others write: they are let go of before the next search.
fn refuse_seams_of_strangers(all: &Memory, run: &mut [Neighbour], found: &Collected) {
    let page = |address: usize| (address - all.address) / PAGE_BYTES;
    let is_dirty = |page: usize| found.dirty[page / WINDOW_PAGES].has(page % WINDOW_PAGES);
    for index in 1..run.len() {
        let [one, other] = &mut run[index - 1..=index] else { continue };
        // What was not armed is found again and again.
        let is_armed = one.source.sticky.is_due(0) && other.source.sticky.is_due(0);
        let Some(seam) = one.source.seams[1].watched().filter(|_| is_armed).cloned() else { continue };
        let (first, end) = (page(seam.start), page(seam.end));
        let is_strange = (first..end).any(is_dirty) && !is_dirty(first - 1) && !is_dirty(end);
        let count = &mut one.source.strangers;
        *count = if is_strange { *count + 1 } else { 0 };
        if *count >= STRANGERS_MAX {
            *count = 0;
            one.source.seams[1] = Seam::Refused(seam.clone());
            other.source.seams[0] = Seam::Refused(seam);
        }
    }
}

/// Arms the neighbours of a run that are due, with the seams between them, where something was written: else all of it is armed.
fn arm(userfault: &Userfault, pagemap: &mut Pagemap, all: &Memory, run: &mut [Neighbour], found: &mut Collected) {
    let page = |address: usize| (address - all.address) / PAGE_BYTES;
    for due in run.chunk_by_mut(|one, next| one.source.sticky.is_due(0) && next.source.sticky.is_due(0)) {
        let pages = match due {
            [first, ..] if !first.source.sticky.is_due(0) => continue,
            [one] => page(one.watched().start)..page(one.watched().end),
            [first, .., last] => page(first.watched().start)..page(last.watched().end),
            [] => continue,
        };
        if !found.has_dirty(&pages)
            || scan(pagemap, all, pages.clone(), true, found).is_ok_and(|scan| scan == Scan::Complete)
        {
            continue;
        }
        // Some may be armed and not be reported: all are published, and watched anew.
        crate::mask::insert_pages(&mut found.dirty, pages.start, pages.end);
        for one in due {
            let watched = one.watched();
            let _ = userfault.unregister(watched.start, watched.len());
            one.source.watch = Watch::New;
            one.source.seams = Default::default();
        }
    }
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

    /// Takes its part of what was found in the pages of a run of neighbours, in place of a search of its own.
    fn take_found(&mut self, run: &Memory, found: &Collected) {
        let whole = self.memory.whole.clone();
        let first = (self.memory.address + whole.start * PAGE_BYTES - run.address) / PAGE_BYTES;
        let is_due = self.sticky.is_due(0);
        let (mut dirty, mut unsure) = (Mask::EMPTY, Mask::EMPTY);
        let has_any = found.dirty.iter().chain(&found.unsure).any(|mask| !mask.is_empty());
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
        let before = is_quiet(&self.seams[0], first.checked_sub(1));
        let after = is_quiet(&self.seams[1], Some(first + whole.len()));
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
mod tests {
    use super::*;
    use crate::store::space::Allocation;
    use crate::working::tracker::kind::TrackerKind;
    use stillframe_kernel::map::Mapping;
    use stillframe_kernel::maps::Maps;

    /// Arrays of two pages and a bit, one behind the other, and what watches them.
    struct Row {
        tracker: Tracker,
        memory: Mapping,
        sources: Vec<Source>,
    }

    const BYTES: usize = 2 * PAGE_BYTES + 100;

    /// Pages of the arrays, with the array's number.
    type Pages = Vec<(usize, usize)>;

    impl Row {
        /// `None` where pages cannot be watched.
        fn new(arrays: usize) -> Option<Row> {
            TrackerKind::WpAsync.probe_once().ok()?;
            let tracker = Tracker::open(Some(TrackerKind::WpAsync)).unwrap();
            let memory = Mapping::private((arrays * BYTES).next_multiple_of(PAGE_BYTES), false).unwrap();
            let source = |number: usize| {
                let allocation = Allocation { serial: number as u64, window: number as u32, windows: 1 };
                let mut source = Source::new(allocation, false).unwrap();
                source.set_memory(memory.address() + number * BYTES, BYTES);
                source
            };
            let sources = (0..arrays).map(source).collect();
            Some(Row { tracker, memory, sources })
        }

        /// Searches them as a publish does; how many were searched with others.
        fn search(&mut self) -> usize {
            let Row { tracker, sources, .. } = self;
            let mut all: Vec<_> = sources.iter_mut().map(|source| Neighbour { source, is_given: true }).collect();
            assert!(!tracker.search_neighbours(&mut all));
            let together = sources.iter().filter(|source| source.is_searched).count();
            for source in sources {
                source.search(tracker, &Maps::default());
                source.sticky.learn(0, source.collected.dirty[0], source.collected.armed[0]);
                source.edges_compared = true;
            }
            together
        }

        /// Their pages that were found written, and those to be compared, each by the number of the array.
        fn found(&self) -> (Pages, Pages) {
            let list = |mask: fn(&Collected) -> Mask| {
                let sources = self.sources.iter().enumerate();
                sources
                    .flat_map(move |(number, source)| mask(&source.collected).pages().map(move |page| (number, page)))
            };
            (list(|found| found.dirty[0]).collect(), list(|found| found.unsure[0]).collect())
        }
    }

    #[test]
    fn neighbours_are_searched_in_one_call_and_compared_where_a_seam_was_written() {
        let Some(mut row) = Row::new(5) else { return };
        assert_eq!(row.search(), 0, "none is watched yet");
        assert_eq!(row.search(), 5);
        let last = (4, row.sources[4].memory.pages - 1);
        for _ in 0..3 {
            assert_eq!(row.search(), 5);
            assert_eq!(row.found(), (vec![], vec![last]), "the end is always compared");
        }
        row.memory.write(BYTES + PAGE_BYTES, &[1]);
        row.memory.write(3 * BYTES, &[1]);
        assert_eq!(row.search(), 5);
        assert_eq!(row.found(), (vec![(1, 1)], vec![(2, 2), (3, 0), last]));
        assert_eq!(row.search(), 5);
        assert_eq!(row.found(), (vec![], vec![last]));
    }

    #[test]
    fn a_seam_that_others_write_each_time_is_not_watched_any_more() {
        let Some(mut row) = Row::new(3) else { return };
        for _ in 0..4 {
            row.search();
        }
        let seam = row.sources[0].seams[1].watched().unwrap().clone();
        for _ in 0..STRANGERS_MAX {
            assert_eq!(row.search(), 3);
            row.memory.write(BYTES, &[1]);
        }
        row.search();
        assert_eq!(row.sources[0].seams[1], Seam::Refused(seam));
        assert_eq!(row.search(), 2, "the others");
        assert!(row.found().1.contains(&(0, 2)) && row.found().1.contains(&(1, 0)));
    }

    #[test]
    fn neighbours_of_which_one_was_freed_are_searched_one_by_one_for_a_while() {
        let Some(mut row) = Row::new(3) else { return };
        for _ in 0..3 {
            row.search();
        }
        let page = PAGE_BYTES * (BYTES / PAGE_BYTES + 1);
        row.memory.replace(page, Mapping::private(PAGE_BYTES, false).unwrap()).unwrap();
        assert_eq!(row.search(), 0);
        assert_eq!(row.found().0.iter().filter(|(number, _)| *number == 1).count(), 1, "all of it counts as written");
        let paused = (0..10).take_while(|_| row.search() == 0).count();
        assert!(paused < 10);
        let end = (2, row.sources[2].memory.pages - 1);
        row.search();
        row.search();
        assert_eq!(row.found(), (vec![], vec![end]));
    }
}
