//! Which pages a step writes.

use crate::trial::measure::PAGE_BYTES;

/// How the pages that are written move from step to step.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// The same pages each step, scattered over the region
    Stationary,
    /// Other pages each step, scattered over the region
    Random,
    /// The same pages each step, all in one block
    Block,
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Pattern::Stationary => "stationary",
            Pattern::Random => "random",
            Pattern::Block => "block",
        })
    }
}

/// The pages that step number `step` writes out of `pages`, in ascending order; `share` of them is between 0 and 1.
pub fn pages(pattern: Pattern, share: f64, pages: usize, step: u64) -> Vec<u32> {
    let seed = if pattern == Pattern::Random { step.wrapping_add(1) } else { 0 };
    let threshold = (share.clamp(0.0, 1.0) * (1u64 << 32) as f64) as u64;
    let chosen = |page: &u32| match pattern {
        Pattern::Block => {
            let start = pages as f64 * 0.4 * (1.0 - share);
            (*page as f64 - start) >= 0.0 && *page as f64 - start < pages as f64 * share
        }
        _ => hash(seed << 32 | *page as u64) >> 32 < threshold,
    };
    (0..pages as u32).filter(chosen).collect()
}

/// Writes the pages named, each as a whole.
pub fn write_pages(memory: &mut [u8], pages: &[u32], value: u8) {
    for &page in pages {
        let start = page as usize * PAGE_BYTES;
        memory[start..start + PAGE_BYTES].fill(value);
    }
}

/// The finishing steps of splitmix64, which spread neighbouring numbers over the whole range.
fn hash(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_pages_is_about_what_was_asked_for() {
        for pattern in [Pattern::Stationary, Pattern::Random, Pattern::Block] {
            for share in [0.0, 0.01, 0.3, 0.72, 1.0] {
                let chosen = pages(pattern, share, 100_000, 7).len() as f64 / 100_000.0;
                assert!((chosen - share).abs() < 0.005, "{pattern} {share}: {chosen}");
            }
        }
    }

    #[test]
    fn only_the_random_pattern_moves() {
        for pattern in [Pattern::Stationary, Pattern::Block] {
            assert_eq!(pages(pattern, 0.1, 10_000, 1), pages(pattern, 0.1, 10_000, 2));
        }
        assert_ne!(pages(Pattern::Random, 0.1, 10_000, 1), pages(Pattern::Random, 0.1, 10_000, 2));
    }
}
