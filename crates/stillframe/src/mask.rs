//! Sets of pages of a window.

use std::ops::Range;
use stillframe_segment::WINDOW_PAGES;

const WORDS: usize = WINDOW_PAGES / 64;

/// A set of pages of one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mask([u64; WORDS]);

impl Mask {
    pub(crate) const EMPTY: Mask = Mask([0; WORDS]);
    pub(crate) const FULL: Mask = Mask([u64::MAX; WORDS]);

    /// The pages before `count`.
    pub(crate) fn first(count: usize) -> Mask {
        let mut mask = Mask::EMPTY;
        mask.insert_run(0, count);
        mask
    }

    /// Those of a range of pages that lie in a window, counted from its first page.
    pub(crate) fn of_window(pages: &Range<usize>, window: usize) -> Mask {
        let (begin, end) = (window * WINDOW_PAGES, (window + 1) * WINDOW_PAGES);
        let mut mask = Mask::EMPTY;
        mask.insert_run(pages.start.clamp(begin, end) - begin, pages.end.clamp(begin, end) - begin);
        mask
    }

    pub(crate) fn insert(&mut self, page: usize) {
        self.0[page / 64] |= 1 << (page % 64);
    }

    /// Adds the pages from `start` to before `end`.
    pub(crate) fn insert_run(&mut self, start: usize, end: usize) {
        for word in start / 64..end.div_ceil(64) {
            let low = start.max(word * 64) - word * 64;
            let high = end.min(word * 64 + 64) - word * 64;
            let ones = if high == 64 { u64::MAX } else { (1 << high) - 1 };
            self.0[word] |= ones & !((1 << low) - 1);
        }
    }

    pub(crate) fn or(self, other: Mask) -> Mask {
        Mask(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    pub(crate) fn and(self, other: Mask) -> Mask {
        Mask(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    pub(crate) fn without(self, other: Mask) -> Mask {
        Mask(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        // A comparison with the empty mask would be a call.
        self.0.iter().fold(0, |all, word| all | word) == 0
    }

    pub(crate) fn has(&self, page: usize) -> bool {
        self.0[page / 64] >> (page % 64) & 1 == 1
    }

    /// The pages, ascending.
    pub(crate) fn pages(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().enumerate().flat_map(|(index, word)| {
            std::iter::successors(Some(word), |rest| Some(rest & rest.wrapping_sub(1)))
                .take_while(|rest| *rest != 0)
                .map(move |rest| index * 64 + rest.trailing_zeros() as usize)
        })
    }

    /// The runs of neighbouring pages as start and end, ascending.
    pub(crate) fn runs(self) -> impl Iterator<Item = (usize, usize)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = self.next(at, true)?;
            let end = self.next(start, false).unwrap_or(WINDOW_PAGES);
            at = end;
            Some((start, end))
        })
    }

    /// The first page from `at` on that is in the set, or that is not.
    fn next(&self, at: usize, inside: bool) -> Option<usize> {
        let mut word = at / 64;
        let mut skip = at % 64;
        while word < WORDS {
            let bits = if inside { self.0[word] } else { !self.0[word] };
            let bits = bits >> skip << skip;
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
            word += 1;
            skip = 0;
        }
        None
    }
}

/// Adds the pages `start..end` of neighbouring windows to their masks.
pub(crate) fn insert_pages(masks: &mut [Mask], start: usize, end: usize) {
    let mut page = start;
    while page < end {
        let window = page / WINDOW_PAGES;
        let stop = end.min((window + 1) * WINDOW_PAGES);
        masks[window].insert_run(page % WINDOW_PAGES, stop - window * WINDOW_PAGES);
        page = stop;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_mask_is_a_set_of_pages(pages in prop::collection::btree_set(0usize..512, 0..200), start in 0usize..512, length in 0usize..512) {
            let end = (start + length).min(512);
            let mut mask = Mask::EMPTY;
            pages.iter().for_each(|page| mask.insert(*page));
            prop_assert_eq!(mask.pages().collect::<BTreeSet<_>>(), pages.clone());
            prop_assert_eq!(mask.count(), pages.len());
            let from_runs: BTreeSet<usize> = mask.runs().flat_map(|(start, end)| start..end).collect();
            prop_assert_eq!(&from_runs, &pages);
            let mut run = Mask::EMPTY;
            run.insert_run(start, end);
            prop_assert_eq!(run.pages().collect::<Vec<_>>(), (start..end).collect::<Vec<_>>());
            let both: BTreeSet<usize> = pages.iter().copied().filter(|page| (start..end).contains(page)).collect();
            prop_assert_eq!(mask.and(run).pages().collect::<BTreeSet<_>>(), both.clone());
            let rest: BTreeSet<usize> = pages.difference(&both).copied().collect();
            prop_assert_eq!(mask.without(run).pages().collect::<BTreeSet<_>>(), rest);
        }
    }
}
