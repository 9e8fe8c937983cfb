//! Entries that a process gives out and takes back, as many as it needs, without a lock: a signal handler may come at any
//! instant, and a forked child finds no lock that nobody will open.

use once_cell::race::OnceBox;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Entries of the first chunk; each further one has twice as many. They stay for ever, so that a look at them needs no lock.
const FIRST: usize = 64;
const CHUNKS: usize = 24;

/// Entries, numbered from 0 on.
pub(crate) struct Entries<T: 'static> {
    chunks: [OnceBox<Box<[T]>>; CHUNKS],
    /// Where a free one is looked for first.
    hint: AtomicUsize,
}

impl<T: Default> Entries<T> {
    /// None yet.
    pub(crate) const fn new() -> Entries<T> {
        Entries { chunks: [const { OnceBox::new() }; CHUNKS], hint: AtomicUsize::new(0) }
    }

    /// All that there are, taken or not.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().map_while(OnceBox::get).flat_map(|chunk| chunk.iter())
    }

    /// How many there are.
    fn count(&self) -> usize {
        self.chunks.iter().map_while(OnceBox::get).map(|chunk| chunk.len()).sum()
    }

    /// The entry of a number.
    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        let index = (number / FIRST + 1).ilog2() as usize;
        self.chunks.get(index)?.get()?.get(number - FIRST * ((1 << index) - 1))
    }

    /// The first entry that `claim` takes, and its number; `None` if there are as many as there can be, and it takes none.
    pub(crate) fn take(&self, mut claim: impl FnMut(&T) -> bool) -> Option<(usize, &T)> {
        let (hint, count) = (self.hint.load(Ordering::Relaxed), self.count());
        let hint = hint.min(count);
        let mut claimed = |number: usize| self.get(number).filter(|entry| claim(entry)).map(|entry| (number, entry));
        let mut taken = (hint..count).chain(0..hint).find_map(&mut claimed);
        let mut next = count;
        while taken.is_none() {
            let (index, chunk) = self.chunks.iter().enumerate().find(|(_, chunk)| chunk.get().is_none())?;
            chunk.get_or_init(|| Box::new((0..FIRST << index).map(|_| T::default()).collect()));
            let end = self.count();
            // Other threads may have taken all that came by now.
            taken = (next..end).find_map(&mut claimed);
            next = end;
        }
        if let Some((number, _)) = taken {
            // Whoever gave one back meanwhile knows better.
            let _ = self.hint.compare_exchange(hint, number + 1, Ordering::Relaxed, Ordering::Relaxed);
        }
        taken
    }

    /// Says that an entry is free again.
    pub(crate) fn give_back(&self, number: usize) {
        self.hint.fetch_min(number, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn whoever_finds_all_new_entries_taken_by_others_makes_more() {
        let entries: Entries<AtomicBool> = Entries::new();
        let others = AtomicUsize::new(3 * FIRST);
        let is_free = |_: &AtomicBool| {
            others.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
        };
        assert_eq!(entries.take(is_free).unwrap().0, 3 * FIRST);
    }

    #[test]
    fn each_place_is_given_to_one_and_given_again_when_it_is_free() {
        let entries: Entries<AtomicBool> = Entries::new();
        let take = || entries.take(|entry| !entry.swap(true, Ordering::AcqRel)).unwrap().0;
        let numbers: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| (0..1000).map(|_| take()).collect::<Vec<_>>())).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 4000);
        assert!(sorted.iter().all(|number| entries.get(*number).unwrap().load(Ordering::Relaxed)));
        let all = entries.all().count();
        for number in [7, 3999, 64, 63] {
            entries.get(number).unwrap().store(false, Ordering::Release);
            entries.give_back(number);
        }
        let mut again: Vec<usize> = (0..4).map(|_| take()).collect();
        again.sort_unstable();
        assert_eq!(again, [7, 63, 64, 3999]);
        // All that there were are used before there are more.
        assert!((4000..all).all(|_| take() < all));
        assert_eq!(entries.all().count(), all);
        take();
        assert_eq!(entries.all().count(), all * 2 + FIRST);
    }
}
