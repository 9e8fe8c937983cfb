//! In which units memory for versions is taken and given back.

use crate::common::Dir;
use stillframe::{Array, MemoryUnit, Region, RegionOptions, Rule, TrackerKind};

const PAGE: usize = stillframe::PAGE_BYTES;
const WINDOW: usize = 2 << 20;
const WINDOWS: usize = 4;

/// A region of four windows, none of whose pages is shared with its versions.
fn create(dir: &Dir, change: impl FnOnce(RegionOptions) -> RegionOptions) -> (Region, Array<u8>) {
    let options = dir.options().tracker(TrackerKind::FullCopy).demote(false).rule(Rule::Fail);
    let mut region = change(options).create("r").unwrap();
    let u = region.array::<u8>("u", &[WINDOWS * WINDOW]).unwrap();
    (region, u)
}

/// Publishes a version in which the first page of each window has another value; the bytes that versions take by then.
fn publish(region: &mut Region, u: &Array<u8>, version: u64) -> u64 {
    for window in 0..WINDOWS {
        region.slice_mut(u)[window * WINDOW] = version as u8;
    }
    region.publish(version).commit().unwrap();
    region.statistics().plane_bytes
}

#[test]
fn large_units_are_taken_whole_and_small_ones_by_the_page() {
    let window_bytes = WINDOW as u64;
    for (unit, more) in
        [(MemoryUnit::Small, (WINDOWS * PAGE) as u64), (MemoryUnit::Large, WINDOWS as u64 * window_bytes)]
    {
        let dir = Dir::new("taken");
        let (mut region, u) = create(&dir, |options| options.memory_unit(unit));
        region.slice_mut(&u).fill(9);
        let first = publish(&mut region, &u, 1);
        assert_eq!(first, WINDOWS as u64 * window_bytes, "{unit}");
        assert_eq!(publish(&mut region, &u, 2), first + more, "{unit}");
        // What was taken lasts for what differs in these windows from then on.
        for version in 3..50 {
            assert_eq!(publish(&mut region, &u, version), first + more, "{unit}, version {version}");
        }
    }
}

#[test]
fn large_units_are_given_back_whole() {
    let dir = Dir::new("given-back");
    let (mut region, u) = create(&dir, |options| options.memory_unit(MemoryUnit::Large));
    for version in 1..=4 {
        region.slice_mut(&u).fill(version as u8);
        region.publish(version).commit().unwrap();
    }
    let most = region.statistics().plane_bytes;
    assert_eq!(most, 2 * (WINDOWS * WINDOW) as u64);
    // Only the first window changes. Of the others the second place is not needed any more.
    let mut least = most;
    for version in 5..1600 {
        region.slice_mut(&u)[0] = version as u8;
        region.publish(version).commit().unwrap();
        let bytes = region.statistics().plane_bytes;
        assert!(bytes.is_multiple_of(WINDOW as u64) && bytes <= most, "version {version}: {bytes} bytes");
        least = bytes.min(least);
    }
    assert!(least <= ((WINDOWS + 1) * WINDOW) as u64, "{least} bytes");
}

#[test]
fn where_there_is_no_room_for_large_units_small_ones_are_taken() {
    let dir = Dir::new("small");
    let bound_bytes = (WINDOWS * (WINDOW + PAGE)) as u64;
    let (mut region, u) = create(&dir, |options| options.memory_unit(MemoryUnit::Large).bound_bytes(bound_bytes));
    region.slice_mut(&u).fill(9);
    for version in 1..20 {
        assert!(publish(&mut region, &u, version) <= bound_bytes, "version {version}");
    }
    assert_eq!(region.statistics().plane_bytes, bound_bytes);
}

#[test]
fn the_unit_of_a_region_may_change_at_any_time() {
    let dir = Dir::new("changes");
    let (mut region, u) = create(&dir, |options| options);
    let observer = dir.observe("r");
    for version in 1..40u64 {
        region.set_memory_unit(if version % 3 == 0 { MemoryUnit::Large } else { MemoryUnit::Small });
        publish(&mut region, &u, version);
        let snapshot = observer.newest().unwrap();
        let seen = snapshot.slice::<u8>("u").unwrap();
        assert!((0..WINDOWS).all(|window| seen[window * WINDOW] == version as u8 && seen[window * WINDOW + 1] == 0));
    }
}
