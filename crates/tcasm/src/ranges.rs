//! Which addresses are whose.

use std::collections::BTreeMap;

/// Ranges of addresses that do not overlap, each with a value.
#[derive(Debug)]
pub struct Ranges<T> {
    /// By first address: the address behind the last, and the value.
    by_start: BTreeMap<usize, (usize, T)>,
}

impl<T: Clone> Ranges<T> {
    pub const fn new() -> Ranges<T> {
        Ranges { by_start: BTreeMap::new() }
    }

    /// Gives a range to a value, and takes it from those that had parts of it, which it returns.
    pub fn insert(&mut self, start: usize, end: usize, value: T) -> Vec<T> {
        let removed = self.remove(start, end);
        if start < end {
            self.by_start.insert(start, (end, value));
        }
        removed
    }

    /// Whether any range has addresses in `start..end`.
    pub fn has_any(&self, start: usize, end: usize) -> bool {
        self.descending(start, end).next().is_some()
    }

    fn descending(&self, start: usize, end: usize) -> impl Iterator<Item = (&usize, &(usize, T))> {
        let below = self.by_start.range(..end).rev();
        below.take_while(move |(_, (range_end, _))| *range_end > start && start < end)
    }

    /// The ranges that have addresses in `start..end`, ascending.
    pub fn overlapping(&self, start: usize, end: usize) -> Vec<(usize, usize, T)> {
        let mut found: Vec<_> = self
            .descending(start, end)
            .map(|(range_start, (range_end, value))| (*range_start, *range_end, value.clone()))
            .collect();
        found.reverse();
        found
    }

    /// Takes addresses away and returns what had them; what lies outside `start..end` stays.
    pub fn remove(&mut self, start: usize, end: usize) -> Vec<T> {
        let found = self.overlapping(start, end);
        for (range_start, range_end, value) in &found {
            self.by_start.remove(range_start);
            if *range_start < start {
                self.by_start.insert(*range_start, (start, value.clone()));
            }
            if end < *range_end {
                self.by_start.insert(end, (*range_end, value.clone()));
            }
        }
        found.into_iter().map(|(_, _, value)| value).collect()
    }

    /// Whether the value of any range is one of these.
    pub fn any(&self, is_one: impl Fn(&T) -> bool) -> bool {
        self.by_start.values().any(|(_, value)| is_one(value))
    }

    /// First and last address behind of all ranges.
    pub fn bounds(&self) -> Option<(usize, usize)> {
        let first = self.by_start.first_key_value()?;
        let last = self.by_start.last_key_value()?;
        Some((*first.0, last.1.0))
    }
}
