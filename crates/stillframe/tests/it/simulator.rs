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
//! `STILLFRAME_TEST_SEED` plays one run again, `STILLFRAME_TEST_RUNS` says how many there are (500, or 2000 in the long tier), and
//! `STILLFRAME_TEST_SECONDS` goes on for so long.
#![cfg(feature = "points")]

mod world;

use crate::common::{Dir, Numbers, watchdog};
use crate::runs::Runs;
use stillframe::Arena;
use world::{Place, Totals, World};

/// Of one machine: in files or in an arena.
fn place(numbers: &mut Numbers) -> Place {
    let kept = Dir::plain("simulator");
    if numbers.below(2) == 0 {
        let own = kept.path().file_name().unwrap().to_str().unwrap();
        Arena::options().dir("/dev/shm").bytes(256 << 20).regions(8).create(own).unwrap();
    }
    Place { dir: kept.path().to_path_buf(), elsewhere: None, kept }
}

#[test]
fn whoever_dies_and_whatever_fails_no_version_is_lost_or_mixed() {
    let runs = Runs::asked();
    let _watchdog = watchdog(1200 + runs.count + 2 * runs.seconds.unwrap_or(0));
    // Each thread has fates of its own.
    let player = || |seed, tells, totals: &mut Totals| World::play(seed, tells, totals, place);
    let Some(totals) = runs.play(player, Totals::plus) else { return };
    let count = runs.count;
    if count >= 200 {
        // Runs in which nothing happens prove nothing.
        assert!(totals.deaths > count / 10 && totals.failures > count / 10, "{totals:?}");
        assert!(totals.deaths_in_recovery > 0 && totals.refusals > 0 && totals.half_done > 0, "{totals:?}");
    }
}
