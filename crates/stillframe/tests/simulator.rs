//! The whole engine in one process, from a seed: a producer and its observers, over files and arenas, beside a plain copy of
//! everything, while calls fail and the producer dies at any point.
//!
//! A run is some steps (`world`). Before a step the producer may be given a fate: at its n-th point, call or write from then
//! on it dies, or a call fails. Who dies of a write has done some of its parts, whichever: they may be done in any order. After
//! a death the next producer recovers, perhaps to die at that, too. What must hold then:
//!
//! * the newest version is the last that was committed, or the one whose commit was under way;
//! * every version that somebody holds is what it was, byte for byte, and so is what is recovered;
//! * a call that failed has changed nothing but what its error says: the next publish shows all that was written;
//! * what is noted as in use is what versions and loans use, so that no memory is lost, however often a call fails or somebody
//!   dies.
//!
//! `STILLFRAME_TEST_SEED` plays one run again, `STILLFRAME_TEST_RUNS` says how many there are (2000), and
//! `STILLFRAME_TEST_SECONDS` goes on for so long.
#![cfg(feature = "points")]

mod common;
#[path = "simulator/world.rs"]
mod world;

use common::watchdog;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use world::{Totals, World};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn whoever_dies_and_whatever_fails_no_version_is_lost_or_mixed() {
    let seconds = number("STILLFRAME_TEST_SECONDS");
    let runs = number("STILLFRAME_TEST_RUNS").unwrap_or(2000);
    let _watchdog = watchdog(1200 + runs + 2 * seconds.unwrap_or(0));
    if let Some(seed) = number("STILLFRAME_TEST_SEED") {
        let mut totals = Totals::default();
        World::play(seed, true, &mut totals).unwrap_or_else(|why| panic!("{why}"));
        return;
    }
    let begin = Instant::now();
    let (next, told) = (AtomicU64::new(0), AtomicU64::new(0));
    let play = || {
        let mut totals = Totals::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let is_over = match seconds {
                Some(seconds) => begin.elapsed() >= Duration::from_secs(seconds),
                None => seed >= runs,
            };
            if is_over {
                return totals;
            }
            let played = catch_unwind(AssertUnwindSafe(|| World::play(seed, false, &mut totals)));
            let why = match played {
                Ok(Ok(())) => String::new(),
                Ok(Err(why)) => why,
                Err(_) => "the library panicked".into(),
            };
            assert!(why.is_empty(), "{why}\nplay it again with STILLFRAME_TEST_SEED={seed}");
            let minutes = begin.elapsed().as_secs() / 60;
            if told.fetch_max(minutes, Ordering::Relaxed) < minutes {
                eprintln!("{seed} runs after {minutes} min");
            }
        }
    };
    // Each thread has fates of its own.
    let totals: Vec<Totals> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(play)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let totals = totals.into_iter().fold(Totals::default(), Totals::plus);
    eprintln!("{totals:?} in {:.1} s", begin.elapsed().as_secs_f64());
    if runs >= 200 {
        // Runs in which nothing happens prove nothing.
        assert!(totals.deaths > runs / 10 && totals.failures > runs / 10, "{totals:?}");
        assert!(totals.deaths_in_recovery > 0 && totals.refusals > 0 && totals.half_done > 0, "{totals:?}");
    }
}
