//! The store in one process, from a seed, on a disk that may stop at any instant: a writer that dies, calls that fail, and
//! whoever asks what is safe.
//!
//! A run is some steps (`world`): versions of one run of a program and of the next, which gives the same numbers again, are
//! saved, what is safe is asked, and writers come and go. Before a step the writer may be given a fate: at its n-th point or call
//! it dies, or a call fails. Beside the directory is a model of the disk below it (`disk`), which knows what of it need not be on
//! disk. When the machine stops, any of that is lost. What must hold then, at any time:
//!
//! * what was said to be safe is there, whole, and has what was published, unless the keep rule let it go since;
//! * the newest is not older than what was safe;
//! * what is there as a checkpoint is whole, whether anything was said of it or not;
//! * the next writer opens the directory and saves the next version.
//!
//! `STILLFRAME_TEST_SEED` plays one run again and prints all its calls, `STILLFRAME_TEST_RUNS` says how many there are (2000), and
//! `STILLFRAME_TEST_SECONDS` goes on for so long.
#![cfg(feature = "points")]

#[path = "simulator/disk.rs"]
mod disk;
#[path = "simulator/eyes.rs"]
mod eyes;
#[path = "simulator/pool.rs"]
mod pool;
#[path = "reading/mod.rs"]
mod reading;
#[path = "simulator/world.rs"]
mod world;

use pool::Pool;
use reading::watchdog;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use world::{Totals, World};

/// A seed that nobody comes to: there are no more runs after one that failed.
const OVER: u64 = 1 << 62;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn whatever_is_lost_what_was_safe_is_there_and_good() {
    let seconds = number("STILLFRAME_TEST_SECONDS");
    let runs = number("STILLFRAME_TEST_RUNS").unwrap_or(2000);
    let _watchdog = watchdog(1200 + runs / 10 + 2 * seconds.unwrap_or(0));
    if let Some(seed) = number("STILLFRAME_TEST_SEED") {
        World::play(&Pool::new(), seed, true, &mut Totals::default()).unwrap_or_else(|why| panic!("{why}"));
        return;
    }
    let begin = Instant::now();
    let (next, told) = (AtomicU64::new(0), AtomicU64::new(0));
    let play = || {
        let (pool, mut totals) = (Pool::new(), Totals::default());
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let is_over = match seconds {
                Some(seconds) => begin.elapsed() >= Duration::from_secs(seconds),
                None => seed >= runs,
            };
            if is_over || seed >= OVER {
                return totals;
            }
            let played = catch_unwind(AssertUnwindSafe(|| World::play(&pool, seed, false, &mut totals)));
            if !matches!(played, Ok(Ok(()))) {
                next.store(OVER, Ordering::Relaxed);
                // Once more, for the calls.
                let again = catch_unwind(AssertUnwindSafe(|| World::play(&pool, seed, true, &mut Totals::default())));
                let why = again.map_or("the library panicked".into(), |played| played.err().unwrap_or_default());
                panic!("{why}\nplay it again with STILLFRAME_TEST_SEED={seed}");
            }
            let minutes = begin.elapsed().as_secs() / 60;
            if told.fetch_max(minutes, Ordering::Relaxed) < minutes {
                eprintln!("{seed} runs after {minutes} min");
            }
        }
    };
    // Each thread has fates and a witness of its own.
    let totals: Vec<Totals> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(play)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let totals = totals.into_iter().fold(Totals::default(), Totals::plus);
    eprintln!("{totals:?} in {:.1} s", begin.elapsed().as_secs_f64());
    if runs >= 200 {
        // Runs in which nothing happens prove nothing.
        assert!(totals.deaths > runs / 10 && totals.failures > runs / 10 && totals.losses > runs / 10, "{totals:?}");
        assert!(
            totals.set_aside > runs / 10 && totals.removed > runs / 10 && totals.questions > runs / 20,
            "{totals:?}"
        );
    }
}
