//! The pages between tracked arrays that are searched together.

use crate::working::tracker::neighbours::Neighbour;
use std::collections::BTreeMap;
use std::ops::Range;
use stillframe_kernel::pagemap::{Pagemap, Scan};
use stillframe_kernel::uffd::Userfault;
use stillframe_segment::PAGE_BYTES;

/// Most publishes for which arrays are searched one by one after a search of several failed, as where one was freed and is back.
const PAUSE_MAX: u32 = 256;

/// The pages between a source and its neighbour on one side, by their addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Seam {
    /// They are not watched.
    #[default]
    Open,
    /// They are watched. Of those in which an array ends or begins the ones that others write again and again are not armed any more.
    Watched(Range<usize>),
    /// They are not to be watched: the kernel cannot, or others may write them by other ways.
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

    /// Whether it is of these pages, or of none yet.
    pub(crate) fn is_of(&self, seam: Option<&Range<usize>>) -> bool {
        match self {
            Seam::Open => true,
            Seam::Watched(pages) | Seam::Refused(pages) => Some(pages) == seam,
        }
    }
}

/// For how many publishes no sources are searched together.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    left: u32,
    last: u32,
    /// Publishes without a failure since.
    calm: u32,
}

impl Pause {
    /// Whether this publish is one of them.
    pub(crate) fn is_on(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }

    /// After a publish whose searches failed or did not: a pause is twice as long as the one before, unless nothing failed for long.
    pub(crate) fn learn(&mut self, has_failed: bool) {
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
    pub(crate) pause: Pause,
}

impl Seams {
    /// Watches one; it counts as written.
    pub(crate) fn watch(&mut self, seam: &Range<usize>, userfault: &Userfault) -> bool {
        if userfault.register(seam.start, seam.len()).is_err() {
            return false;
        }
        self.watched.insert(seam.start, seam.end);
        userfault.disarm(seam.start, seam.len()).is_ok()
    }

    /// Stops watching one, unless that was done.
    pub(crate) fn end(&mut self, seam: &Range<usize>, userfault: &Userfault, pagemap: &mut Pagemap) {
        if self.watched.get(&seam.start) == Some(&seam.end) {
            self.watched.remove(&seam.start);
            unwatch(seam.clone(), userfault, pagemap);
        }
    }

    /// Stops watching those that are between no two of these sources any more, which are in the order of their addresses. Some of the
    /// pages may be a source's own by now.
    pub(crate) fn end_others(&mut self, all: &[Neighbour], userfault: &Userfault, pagemap: &mut Pagemap) {
        let known = |one: &Neighbour| one.source.seams[1].watched().map(|seam| (seam.start, seam.end));
        if self.watched.len() == all.iter().filter_map(known).count() {
            return;
        }
        let known: BTreeMap<usize, usize> = all.iter().filter_map(known).collect();
        self.watched.retain(|start, end| {
            if known.get(start) == Some(end) {
                return true;
            }
            let mut at = *start;
            for own in all.iter().map(|one| &one.watched).filter(|own| own.start < *end && *start < own.end) {
                unwatch(at..own.start, userfault, pagemap);
                at = at.max(own.end);
            }
            unwatch(at..*end, userfault, pagemap);
            false
        });
    }
}

/// Lets go of pages, if these are any. Others may have something else in some of their places by now, a file or memory with handlers
/// of faults of their own: that stays as it is, and keeps none of the rest.
fn unwatch(pages: Range<usize>, userfault: &Userfault, pagemap: &mut Pagemap) {
    if pages.is_empty() {
        return;
    }
    let mut is_watched =
        |at: usize, bytes: usize| matches!(pagemap.scan(at, bytes, false, |_, _| {}), Ok(Scan::Complete));
    if is_watched(pages.start, pages.len()) {
        let _ = userfault.unregister(pages.start, pages.len());
        return;
    }
    for page in pages.step_by(PAGE_BYTES).filter(|page| is_watched(*page, PAGE_BYTES)) {
        let _ = userfault.unregister(page, PAGE_BYTES);
    }
}
