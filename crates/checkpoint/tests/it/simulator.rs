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
//! `STILLFRAME_TEST_SEED` plays one run again and prints all its calls, `STILLFRAME_TEST_RUNS` says how many there are (500, or 2000 in the long tier), and
//! `STILLFRAME_TEST_SECONDS` goes on for so long.
#![cfg(feature = "points")]

mod disk;
mod eyes;
mod pool;
mod world;

use crate::reading::watchdog;
use crate::runs::Runs;
use pool::Pool;
use world::{Totals, World};

#[test]
fn whatever_is_lost_what_was_safe_is_there_and_good() {
    let runs = Runs::asked();
    let _watchdog = watchdog(1200 + runs.count / 10 + 2 * runs.seconds.unwrap_or(0));
    // Each thread has fates and a witness of its own.
    let player = || {
        let pool = Pool::new();
        move |seed, tells, totals: &mut Totals| World::play(&pool, seed, tells, totals)
    };
    let Some(totals) = runs.play(player, Totals::plus) else { return };
    let count = runs.count;
    if count >= 200 {
        // Runs in which nothing happens prove nothing.
        assert!(totals.deaths > count / 10 && totals.failures > count / 10 && totals.losses > count / 10, "{totals:?}");
        assert!(
            totals.set_aside > count / 10 && totals.removed > count / 10 && totals.questions > count / 20,
            "{totals:?}"
        );
    }
}
