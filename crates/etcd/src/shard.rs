//! Which objects have a home together.

use std::num::NonZeroU64;

/// Number of shards.
pub const SHARDS: u32 = 64;

/// A part of all objects, which has one home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(u8);

impl Shard {
    /// The shard of this number; `None` from [`SHARDS`] on.
    pub fn new(number: u32) -> Option<Shard> {
        u8::try_from(number).ok().filter(|_| number < SHARDS).map(Shard)
    }

    /// Its number, below [`SHARDS`].
    pub fn number(self) -> u32 {
        self.0.into()
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Shard> {
        (0..SHARDS).filter_map(Shard::new)
    }
}

/// The shard of an object, by its id. All nodes have to agree on it.
pub fn shard_of(object: NonZeroU64) -> Shard {
    // An odd constant near 2^64 divided by the golden ratio: the highest bits then depend on all of the number's.
    let mixed = object.get().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Shard((mixed >> (u64::BITS - SHARDS.ilog2())) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_row_are_spread_over_all_shards() {
        let mut counts = [0; SHARDS as usize];
        (1..=6400).for_each(|id| counts[shard_of(NonZeroU64::new(id).unwrap()).number() as usize] += 1);
        assert!(counts.iter().all(|count| (80..=120).contains(count)), "{counts:?}");
    }

    #[test]
    fn the_shard_of_an_object_never_changes() {
        let shard = |id| shard_of(NonZeroU64::new(id).unwrap()).number();
        assert_eq!([1, 2, 3, u64::MAX].map(shard), [39, 15, 54, 24]);
    }
}
