//! Bits that are found by words.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A bit for each cell, in which those that are set are found without looking at all.
#[derive(Clone, Copy)]
pub struct Bits(pub &'static [AtomicU64]);

impl Bits {
    pub const IN_WORD: usize = u64::BITS as usize;

    pub fn set(self, at: usize, is_set: bool) {
        let (word, bit) = (&self.0[at / Bits::IN_WORD], 1 << (at % Bits::IN_WORD));
        let now = word.load(Relaxed);
        word.store(if is_set { now | bit } else { now & !bit }, Relaxed);
    }

    pub fn has(self, at: usize) -> bool {
        self.0[at / Bits::IN_WORD].load(Relaxed) & 1 << (at % Bits::IN_WORD) != 0
    }

    /// The first that is set from `from` on.
    pub fn after(self, from: usize) -> Option<usize> {
        let first = from / Bits::IN_WORD;
        let mut mask = u64::MAX << (from % Bits::IN_WORD);
        for (index, word) in self.0.iter().enumerate().skip(first) {
            let found = word.load(Relaxed) & mask;
            if found != 0 {
                return Some(index * Bits::IN_WORD + found.trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }

    /// The last that is set before `end`.
    pub fn before(self, end: usize) -> Option<usize> {
        let last = end.min(self.0.len() * Bits::IN_WORD).checked_sub(1)?;
        let mut mask = u64::MAX >> (Bits::IN_WORD - 1 - last % Bits::IN_WORD);
        for index in (0..=last / Bits::IN_WORD).rev() {
            let found = self.0[index].load(Relaxed) & mask;
            if found != 0 {
                return Some(index * Bits::IN_WORD + Bits::IN_WORD - 1 - found.leading_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }
}
