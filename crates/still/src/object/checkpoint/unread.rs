//! Versions of an object that are all to be saved, were there, and were not read yet: the writers may let them go before there is room.

use super::due::{Choice, Due, Position};
use std::collections::BTreeMap;

/// Most versions that are kept in mind.
const VERSIONS_MAX: usize = 1024;

/// Versions that are due and were not read, by the numbers that they stand for: of `--every` the multiple.
#[derive(Debug, Default)]
pub struct Unread(BTreeMap<u64, Choice>);

impl Unread {
    /// Adds the versions that are due of those that are there, ascending, unless `is_known`. Returns those for which there is no place any more.
    pub fn add(&mut self, due: &Due, position: &Position, there: &[u64], is_known: impl Fn(u64) -> bool) -> Vec<u64> {
        for (number, choice) in due.all_named(position, there) {
            if !is_known(choice.version) {
                // What only a condition could name may be due by time later.
                self.0.entry(number).or_insert(choice).is_asked &= choice.is_asked;
            }
        }
        let surplus = self.0.len().saturating_sub(VERSIONS_MAX);
        (0..surplus).filter_map(|_| self.0.pop_first()).map(|(_, choice)| choice.version).collect()
    }

    /// Whether one that stands for this number is among them.
    pub fn has(&self, number: u64) -> bool {
        self.0.contains_key(&number)
    }

    /// Removes the versions up to one that was read. Returns those for which it does not stand: they went.
    pub fn pass(&mut self, due: &Due, version: u64) -> Vec<u64> {
        let number = due.number(version);
        let later = self.0.split_off(&version.saturating_add(1));
        let earlier = std::mem::replace(&mut self.0, later);
        let is_gone = |(stands_for, choice): &(u64, Choice)| {
            choice.version != version && (choice.is_asked || *stands_for < number)
        };
        earlier.into_iter().filter(is_gone).map(|(_, choice)| choice.version).collect()
    }

    /// Removes a version for which the condition does not hold.
    pub fn decline(&mut self, version: u64) {
        if self.0.get(&version).is_some_and(|choice| choice.is_asked) {
            self.0.remove(&version);
        }
    }

    /// Removes all.
    pub fn take(&mut self) -> Vec<Choice> {
        std::mem::take(&mut self.0).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use stillframe_checkpoint::When;

    fn due(every: Option<u64>, when: Option<&str>) -> Due {
        let when = when.map(|when| When::parse(when).unwrap());
        let (held, held_bytes, follow, every_time) = (8, None, Duration::ZERO, None);
        Due { every, every_time, when, all: true, held, held_bytes, once: false, at_end: false, follow, nice: 0 }
    }

    fn add(unread: &mut Unread, due: &Due, seen: u64, there: &[u64]) {
        let position = Position { seen, ..Position::default() };
        assert!(unread.add(due, &position, there, |_| false).is_empty());
    }

    #[test]
    fn versions_that_went_before_one_that_was_read_are_missed() {
        let (due, mut unread) = (due(None, None), Unread::default());
        add(&mut unread, &due, 1, &[2, 3, 4]);
        add(&mut unread, &due, 1, &[4, 5]);
        assert_eq!(unread.pass(&due, 4), [2, 3]);
        assert_eq!(unread.take(), [Choice { version: 5, is_asked: false }]);
        assert!(unread.take().is_empty());
    }

    #[test]
    fn of_multiples_each_is_missed_once_whatever_stands_for_it() {
        let (due, mut unread) = (due(Some(100), None), Unread::default());
        for there in [[99, 100, 101], [101, 102, 199], [102, 200, 201]] {
            add(&mut unread, &due, 50, &there);
        }
        add(&mut unread, &due, 50, &[301, 302]);
        // The one after 300 stands for it.
        assert_eq!(unread.pass(&due, 302), [100, 200]);
        assert!(unread.take().is_empty());
    }

    #[test]
    fn what_only_a_condition_could_name_is_missed_unless_it_was_declined() {
        let (due, mut unread) = (due(None, Some("step > 3")), Unread::default());
        add(&mut unread, &due, 0, &[1, 2, 3]);
        unread.decline(2);
        assert_eq!(unread.pass(&due, 4), [1, 3]);
    }

    #[test]
    fn there_are_only_so_many() {
        let (due, mut unread) = (due(None, None), Unread::default());
        let there: Vec<u64> = (1..=VERSIONS_MAX as u64 + 2).collect();
        assert_eq!(unread.add(&due, &Position::default(), &there, |_| false), [1, 2]);
    }
}
