//! Runs of a simulator, one for each seed.

use crate::seed::Seed;
use crate::tier::by_tier;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A seed that nobody comes to: there are no more runs after one that failed.
const OVER: u64 = 1 << 62;
const THREADS: usize = 2;

/// Which runs are to be played.
pub struct Runs {
    /// This one alone, telling its calls.
    seed: Option<u64>,
    /// The first of several.
    first: u64,
    /// So many.
    pub count: u64,
    /// As many as there are in so long instead.
    pub seconds: Option<u64>,
}

impl Runs {
    /// What the environment asks for.
    pub fn asked() -> Runs {
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
        let (seed, first) = match Seed::asked() {
            Seed::Usual => (None, 0),
            Seed::Given(seed) => (Some(seed), 0),
            Seed::Random(first) => (None, first),
        };
        Runs {
            seed,
            first,
            count: number("STILLFRAME_TEST_RUNS").unwrap_or_else(|| by_tier(500, 2000)),
            seconds: number("STILLFRAME_TEST_SECONDS"),
        }
    }

    /// Plays them on two threads, each with a player of its own, which is given a seed, whether to tell its calls, and the
    /// totals to add to. Returns the sum of the totals, unless there was one run alone.
    ///
    /// # Panics
    /// If a run fails, with its seed.
    pub fn play<T, P>(&self, player: impl Fn() -> P + Sync, plus: impl Fn(T, T) -> T) -> Option<T>
    where
        T: Default + Debug + Send,
        P: FnMut(u64, bool, &mut T) -> Result<(), String>,
    {
        if let Some(seed) = self.seed {
            player()(seed, true, &mut T::default()).unwrap_or_else(|why| panic!("{why}"));
            return None;
        }
        let begin = Instant::now();
        let (next, told) = (AtomicU64::new(self.first), AtomicU64::new(0));
        let is_over = |seed| match self.seconds {
            Some(seconds) => begin.elapsed() >= Duration::from_secs(seconds),
            None => seed - self.first >= self.count,
        };
        let some = || {
            let (mut play, mut totals) = (player(), T::default());
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if is_over(seed) || seed >= OVER {
                    return totals;
                }
                let played = catch_unwind(AssertUnwindSafe(|| play(seed, false, &mut totals)));
                if !matches!(played, Ok(Ok(()))) {
                    next.store(OVER, Ordering::Relaxed);
                    // Once more, for the calls.
                    let again = catch_unwind(AssertUnwindSafe(|| play(seed, true, &mut T::default())));
                    let why = again.map_or("the library panicked".into(), |played| {
                        played.err().unwrap_or("it did not fail when it was played again".into())
                    });
                    panic!("{why}\nplay it again with STILLFRAME_TEST_SEED={seed}");
                }
                let minutes = begin.elapsed().as_secs() / 60;
                if told.fetch_max(minutes, Ordering::Relaxed) < minutes {
                    eprintln!("{} runs after {minutes} min", seed - self.first);
                }
            }
        };
        let totals: Vec<T> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(some)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let totals = totals.into_iter().fold(T::default(), plus);
        eprintln!("from seed {}: {totals:?} in {:.1} s", self.first, begin.elapsed().as_secs_f64());
        Some(totals)
    }
}
