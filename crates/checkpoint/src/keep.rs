//! Which checkpoints stay.

use std::collections::BTreeSet;

/// Which checkpoints stay when a new one is safe: the newest ones, and every so many for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// How many of the newest stay, at least 1.
    pub newest: usize,
    /// Those whose version is a multiple of this stay for ever.
    pub every: Option<u64>,
}

impl Default for Keep {
    fn default() -> Self {
        Keep { newest: 3, every: None }
    }
}

impl Keep {
    /// Those of the `good` checkpoints that may go. It is never all of them.
    pub fn removable(&self, good: &BTreeSet<u64>) -> Vec<u64> {
        let old = good.len().saturating_sub(self.newest.max(1));
        let stays = |version: &u64| self.every.is_some_and(|every| every > 0 && version.is_multiple_of(every));
        good.iter().take(old).filter(|version| !stays(version)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [u64; 0] = [];

    fn removable(newest: usize, every: Option<u64>, good: &[u64]) -> Vec<u64> {
        Keep { newest, every }.removable(&good.iter().copied().collect())
    }

    #[test]
    fn the_newest_and_every_so_many_stay() {
        assert_eq!(removable(2, None, &[10, 20, 30, 40]), [10, 20]);
        assert_eq!(removable(2, Some(20), &[10, 20, 30, 40, 50]), [10, 30]);
        assert_eq!(removable(9, None, &[10, 20]), NONE);
    }

    #[test]
    fn the_only_good_one_stays_whatever_is_asked_for() {
        assert_eq!(removable(0, None, &[7]), NONE);
        assert_eq!(removable(0, Some(0), &[7, 8]), [7]);
        assert_eq!(removable(1, None, &[]), NONE);
    }
}
