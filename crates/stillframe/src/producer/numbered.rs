//! Things by their numbers.

use std::ops::RangeFrom;

/// Things, each with a number of its own, in the order of their numbers. Mostly they have all numbers from the first on: then one
/// is found at once, and all of them one behind the other, which is why this is no tree.
#[derive(Debug)]
pub(crate) struct Numbered<T> {
    list: Vec<(u32, T)>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Numbered<T> {
        Numbered { list: Vec::new() }
    }
}

impl<T> Numbered<T> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Has none, with the room that these had.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }

    /// The one with a number.
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let place = self.place_of(number).ok()?;
        Some(&self.list[place].1)
    }

    /// As [`get`](Numbered::get), to be changed.
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let place = self.place_of(number).ok()?;
        Some(&mut self.list[place].1)
    }

    /// Whether there is one with a number.
    pub(crate) fn has(&self, number: u32) -> bool {
        self.place_of(number).is_ok()
    }

    /// Adds one, in place of the one with this number.
    pub(crate) fn insert(&mut self, number: u32, thing: T) {
        match self.place_of(number) {
            Ok(place) => self.list[place].1 = thing,
            Err(place) => self.list.insert(place, (number, thing)),
        }
    }

    /// Takes the one with a number out.
    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let place = self.place_of(number).ok()?;
        Some(self.list.remove(place).1)
    }

    /// All with their numbers, ascending.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, &T)> {
        self.list.iter().map(|(number, thing)| (*number, thing))
    }

    /// As [`iter`](Numbered::iter), to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (u32, &mut T)> {
        self.list.iter_mut().map(|(number, thing)| (*number, thing))
    }

    /// All in the order of their numbers.
    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.list.iter().map(|(_, thing)| thing)
    }

    /// As [`values`](Numbered::values), to be changed.
    pub(crate) fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> {
        self.list.iter_mut().map(|(_, thing)| thing)
    }

    /// The first with a number in a range.
    pub(crate) fn first_mut(&mut self, numbers: RangeFrom<u32>) -> Option<(u32, &mut T)> {
        let place = self.place_of(numbers.start).unwrap_or_else(|place| place);
        self.list.get_mut(place).map(|(number, thing)| (*number, thing))
    }

    fn place_of(&self, number: u32) -> Result<usize, usize> {
        let (Some((first, _)), Some((last, _))) = (self.list.first(), self.list.last()) else { return Err(0) };
        if *last < number {
            return Err(self.list.len());
        }
        let place = number.wrapping_sub(*first) as usize;
        match self.list.get(place) {
            Some((found, _)) if *found == number => Ok(place),
            _ => self.list.binary_search_by_key(&number, |(number, _)| *number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn things_are_found_by_their_numbers_as_in_a_tree(
            steps in prop::collection::vec((any::<bool>(), prop_oneof![0u32..40, Just(u32::MAX)], any::<u8>()), 0..200),
        ) {
            let (mut things, mut tree) = (Numbered::default(), BTreeMap::new());
            for (is_new, number, thing) in steps {
                if is_new {
                    things.insert(number, thing);
                    tree.insert(number, thing);
                } else {
                    prop_assert_eq!(things.remove(number), tree.remove(&number));
                }
                prop_assert_eq!(things.len(), tree.len());
                for number in (0..41).chain([u32::MAX]) {
                    prop_assert_eq!(things.get(number), tree.get(&number));
                    prop_assert_eq!(things.get_mut(number), tree.get_mut(&number));
                    prop_assert_eq!(things.has(number), tree.contains_key(&number));
                    let next = tree.range_mut(number..).next().map(|(number, thing)| (*number, thing));
                    prop_assert_eq!(things.first_mut(number..), next);
                }
                prop_assert!(things.iter().eq(tree.iter().map(|(number, thing)| (*number, thing))));
                prop_assert!(things.iter_mut().eq(tree.iter_mut().map(|(number, thing)| (*number, thing))));
                prop_assert!(things.values().eq(tree.values()));
                prop_assert!(things.values_mut().eq(tree.values_mut()));
            }
            things.clear();
            prop_assert_eq!(things.len(), 0);
        }
    }
}
