//! An enclave that is hostile, by bytes of these tests' own; the fuzz target `enclave` has others.

mod world;

use crate::common::{Dir, Numbers, watchdog};
use crate::tier::by_tier;
use world::World;

#[test]
fn whatever_another_enclave_writes_this_one_goes_on() {
    let _watchdog = watchdog(600);
    let dir = Dir::plain("hostile");
    let mut world = World::new(dir.path());
    let mut numbers = Numbers(17);
    let rounds = by_tier(100, 400);
    for round in 0..rounds {
        let length = 14 * (1 + numbers.below(30));
        let bytes: Vec<u8> = (0..length).map(|_| numbers.below(256) as u8).collect();
        world.play(&bytes);
        assert!(world.totals.published > round / 2, "{:?}", world.totals);
    }
    let totals = world.totals;
    // Attacks that change nothing prove nothing.
    assert!(totals.published > rounds && totals.opened > 0, "{totals:?}");
    // Rare: few rounds may have none.
    assert!(totals.skipped >= by_tier(0, 1), "{totals:?}");
}
