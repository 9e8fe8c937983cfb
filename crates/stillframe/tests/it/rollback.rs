//! Producers that return to an earlier version, and what others hold meanwhile.

use crate::common::{Dir, watchdog};
use stillframe::{Array, Region, RegionOptions, Snapshot};

const PAGE_BYTES: usize = 4096;

fn begin(options: RegionOptions) -> (Region, Array<u8>) {
    let mut region = options.create("r").unwrap();
    let array = region.array::<u8>("u", &[4 * PAGE_BYTES]).unwrap();
    (region, array)
}

/// Writes one page, and publishes.
fn publish(region: &mut Region, array: &Array<u8>, page: usize, value: u8, version: u64) {
    region.slice_mut(array)[page * PAGE_BYTES..(page + 1) * PAGE_BYTES].fill(value);
    region.publish(version).commit().unwrap();
}

/// Whether the first page has one value.
fn is_first_page(snapshot: &Snapshot, value: u8) -> bool {
    snapshot.view("u").unwrap()[..PAGE_BYTES].iter().all(|byte| *byte == value)
}

/// Of the list there may be left only what seems to ascend: those of the run before the return that others hold, and those behind.
#[test]
fn frames_that_a_return_took_up_again_stay_whoever_lets_go_of_versions_before_it() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("rollback");
    let (mut region, array) = begin(dir.options().keep(8));
    region.slice_mut(&array).fill(1);
    region.publish(1).commit().unwrap();
    publish(&mut region, &array, 1, 2, 2);
    publish(&mut region, &array, 2, 3, 3);
    publish(&mut region, &array, 0, 4, 4);
    let observer = dir.observe("r");
    let [second, fourth] = [2, 4].map(|version| observer.version(version).unwrap());
    drop((region, array));

    let (mut region, array) = begin(dir.options().keep(1).rollback(3));
    assert_eq!((region.recovered(), region.slice(&array)[0]), (Some(3), 1));
    for version in [4, 5] {
        publish(&mut region, &array, 3, 10 + version as u8, version);
    }
    drop(second);
    publish(&mut region, &array, 3, 20, 6);
    let held = observer.newest().unwrap();
    assert!(held.version() == 6 && is_first_page(&held, 1));
    publish(&mut region, &array, 0, 7, 7);
    assert!(is_first_page(&held, 1), "a version that is held");
    assert!(is_first_page(&fourth, 4) && is_first_page(&observer.newest().unwrap(), 7));
}
