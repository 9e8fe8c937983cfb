//! Which checkpoints stay.

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
    /// Which of `versions`, ascending, may go once `saved` is safe. The newest are counted by those that are good, so that
    /// damaged ones take nobody's place; `saved` itself always stays.
    pub(crate) fn removable(self, versions: &[u64], saved: u64, is_good: impl FnMut(u64) -> bool) -> Vec<u64> {
        // Nor is any looked at where all may stay.
        if versions.len() <= self.newest.max(1) {
            return Vec::new();
        }
        let mut is_good = is_good;
        let mut good = 0;
        let mut removable = Vec::new();
        for version in versions.iter().rev().copied() {
            if good >= self.newest.max(1) {
                removable.push(version);
            } else if is_good(version) {
                good += 1;
            }
        }
        let stays = |version: u64| self.every.is_some_and(|every| every > 0 && version.is_multiple_of(every));
        removable.retain(|version| *version != saved && !stays(*version));
        removable.reverse();
        removable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removable(newest: usize, every: Option<u64>, versions: &[u64]) -> Vec<u64> {
        let saved = versions.last().copied().unwrap_or_default();
        Keep { newest, every }.removable(versions, saved, |_| true)
    }

    const NONE: [u64; 0] = [];

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
        let keep = Keep { newest: 1, every: None };
        assert_eq!(keep.removable(&[6, 7, 8, 9], 9, |version| version == 7), [6]);
    }

    #[test]
    fn what_was_saved_last_stays_even_if_its_number_is_the_smallest() {
        let keep = Keep { newest: 1, every: None };
        assert_eq!(keep.removable(&[5, 110, 120], 5, |_| true), [110]);
    }
}
