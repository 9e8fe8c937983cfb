//! Where what tests do at random begins: at the same numbers in each run, unless `STILLFRAME_TEST_SEED` asks for another, or for
//! `random`.
#![allow(dead_code)]

use std::hash::{BuildHasher, RandomState};

/// What `STILLFRAME_TEST_SEED` asks for.
pub enum Seed {
    /// Nothing: the test's own.
    Usual,
    /// A number, as a failure names it.
    Given(u64),
    /// Any.
    Random(u64),
}

impl Seed {
    pub fn asked() -> Seed {
        match std::env::var("STILLFRAME_TEST_SEED").as_deref() {
            // Short enough for others to follow it.
            Ok("random") => Seed::Random(RandomState::new().hash_one("seed") >> 16),
            Ok(number) => Seed::Given(number.parse().expect("STILLFRAME_TEST_SEED is a number, or random")),
            Err(_) => Seed::Usual,
        }
    }

    /// The one to begin with, which is printed.
    pub fn first(usual: u64) -> u64 {
        let seed = match Seed::asked() {
            Seed::Usual => usual,
            Seed::Given(seed) | Seed::Random(seed) => seed,
        };
        eprintln!("STILLFRAME_TEST_SEED={seed}");
        seed
    }
}
