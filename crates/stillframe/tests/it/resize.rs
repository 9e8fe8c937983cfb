//! Managed variables that become shorter and longer: what they keep stays, what they get is zeros, and versions without
//! room change nothing of it.

use crate::common::{Dir, trackers, watchdog};
use std::time::Duration;
use stillframe::{Array, Error, Outcome, Region, Rule, Snapshot, TrackerKind};

const MIB: usize = 1 << 20;

fn refused(region: &mut Region, version: u64) -> bool {
    match region.publish(version).commit() {
        Ok(published) => published.outcome == Outcome::Skipped,
        Err(Error::Bound { .. }) => true,
        Err(error) => panic!("{error}"),
    }
}

fn count_other_than(value: u8, bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte != value).count()
}

#[test]
fn a_variable_keeps_what_it_has_through_resizes_and_publishes_without_room() {
    let _watchdog = watchdog(600);
    let rules = [Rule::Fail, Rule::Skip, Rule::Wait { timeout: Some(Duration::from_millis(20)) }];
    for tracker in trackers() {
        for rule in rules {
            let dir = Dir::new("refused");
            let mut region = dir.options().tracker(tracker).bound_bytes(3 << 20).rule(rule).create("r").unwrap();
            let a = region.array::<u8>("a", &[1_000_000]).unwrap();
            region.slice_mut(&a).fill(7);
            region.publish(1).commit().unwrap();
            // Somebody holds a version, so that there is something to wait for, and to skip for.
            let held = dir.observe("r").newest().unwrap();
            region.resize(a.id(), &[5 * MIB]).unwrap();
            region.slice_mut(&a)[2_000_000..].fill(9);
            assert!(refused(&mut region, 2), "{tracker}, {rule:?}");
            for version in [3, 4] {
                region.resize(a.id(), &[1_000_000]).unwrap();
                region.publish(version).commit().unwrap();
            }
            region.resize(a.id(), &[5 * MIB]).unwrap();
            region.slice_mut(&a)[2_000_000..].fill(9);
            assert!(refused(&mut region, 5), "{tracker}, {rule:?}");
            let check = |what: &str, bytes: &[u8]| {
                assert_eq!(count_other_than(7, &bytes[..1_000_000]), 0, "{tracker}, {rule:?}, {what}");
                assert_eq!(count_other_than(0, &bytes[1_000_000..bytes.len().min(2_000_000)]), 0, "{tracker}, {what}");
            };
            check("the program's", region.slice(&a));
            region.resize(a.id(), &[1_500_000]).unwrap();
            drop(held);
            region.publish(6).commit().unwrap();
            check("the program's", region.slice(&a));
            check("the next version's", dir.observe("r").newest().unwrap().slice("a").unwrap());
        }
    }
}

/// Resizes to these many bytes, publishing in between or not, and checks that what is new is zero each time.
fn check_returned(region: &mut Region, a: Array<u8>, sizes: &[usize], publishes: bool, newest: impl Fn() -> Snapshot) {
    let mut copy = region.slice(&a).to_vec();
    for bytes in sizes {
        region.resize(a.id(), &[*bytes]).unwrap();
        copy.resize(*bytes, 0);
        let what = format!("{} with {sizes:?} at {bytes}, publishes: {publishes}", region.tracker());
        assert!(region.slice(&a) == copy, "{what}");
        if publishes {
            let version = region.newest().unwrap() + 1;
            region.publish(version).commit().unwrap();
            assert!(region.slice(&a) == copy, "{what}, after the publish");
            assert!(newest().slice::<u8>("a").unwrap() == copy, "{what}, the version");
        }
    }
}

#[test]
fn what_a_variable_gets_back_is_zero() {
    let _watchdog = watchdog(600);
    // In one page, in one window, and over several; without any bytes in between.
    let ways: [&[usize]; 6] = [
        &[100_000, 100, 100_000],
        &[100_000, 40, 30, 50, 4096, 4097],
        &[100_000, 0, 100_000],
        &[5 * MIB, 100, 2 * MIB, 3 * MIB + 1, 5 * MIB],
        &[5 * MIB, 2 * MIB, 4 * MIB, 5 * MIB],
        &[5 * MIB, 3 * MIB, 1_000_000, 5 * MIB - 1],
    ];
    for tracker in trackers() {
        for sizes in ways {
            for publishes in [false, true] {
                let dir = Dir::new("zero");
                let mut region = dir.options().tracker(tracker).create("r").unwrap();
                let a = region.array::<u8>("a", &[sizes[0]]).unwrap();
                // Often enough for windows to be shared with the planes.
                for version in 1..40 {
                    region.slice_mut(&a)[if version == 1 { 0..sizes[0] } else { 0..1 }].fill(version as u8);
                    region.publish(version).commit().unwrap();
                }
                let newest = || dir.observe("r").newest().unwrap();
                check_returned(&mut region, a, &sizes[1..], publishes, newest);
                // The last bytes of the program, then those of the next one.
                region.slice_mut(&a).fill(9);
                region.resize(a.id(), &[70]).unwrap();
                region.publish(1000).commit().unwrap();
                drop(region);
                let mut region = dir.options().tracker(tracker).create("r").unwrap();
                let a = region.array::<u8>("a", &[70]).unwrap();
                assert_eq!(region.slice(&a), [9; 70]);
                check_returned(&mut region, a, &[5000, 80, sizes[0]], publishes, newest);
            }
        }
    }
}

#[test]
fn what_a_variable_gives_up_is_given_back() {
    let _watchdog = watchdog(600);
    // Where pages are compared, those that nobody wrote are copied as well.
    for tracker in trackers().into_iter().filter(|tracker| *tracker != TrackerKind::FullCopy) {
        let dir = Dir::new("back");
        let mut region = dir.options().tracker(tracker).bound_bytes(6 << 20).rule(Rule::Fail).create("r").unwrap();
        let a = region.array::<u8>("a", &[5 * MIB]).unwrap();
        let b = region.array::<u8>("b", &[4 * MIB]).unwrap();
        region.slice_mut(&a).fill(1);
        region.publish(1).commit().unwrap();
        region.slice_mut(&b).fill(2);
        assert!(refused(&mut region, 2));
        region.resize(a.id(), &[100_000]).unwrap();
        // The room of what was given up comes with the next version, which has none of it.
        region.resize(b.id(), &[100]).unwrap();
        region.publish(3).commit().unwrap();
        region.resize(b.id(), &[4 * MIB]).unwrap();
        region.slice_mut(&b).fill(2);
        region.publish(4).commit().unwrap();
        let snapshot = dir.observe("r").newest().unwrap();
        assert_eq!(count_other_than(1, snapshot.slice("a").unwrap()), 0);
        assert_eq!(count_other_than(2, snapshot.slice("b").unwrap()), 0);
        // What comes back takes no memory until it is written.
        region.resize(a.id(), &[5 * MIB]).unwrap();
        region.publish(5).commit().unwrap();
        let snapshot = dir.observe("r").newest().unwrap();
        assert_eq!(count_other_than(0, &snapshot.slice::<u8>("a").unwrap()[100_000..]), 0);
    }
}

#[test]
fn what_lies_behind_a_tracked_array_is_not_what_its_managed_successor_gets() {
    let _watchdog = watchdog(600);
    for tracker in trackers() {
        let dir = Dir::new("behind");
        let mut region = dir.options().tracker(tracker).keep(2).create("r").unwrap();
        let tracked = region.track::<u8>("a").unwrap();
        let memory: Vec<u8> = vec![7; 40_000];
        let start = memory.as_ptr().align_offset(4096);
        // The last page is copied by bytes, into frames that held longer arrays.
        for (version, bytes) in [(1, 20_000), (2, 20_000), (3, 17_000), (4, 17_000)] {
            let slice = &memory[start..start + bytes];
            region.publish(version).tracked(&tracked, slice, &[bytes]).commit().unwrap();
        }
        drop(region);
        let mut region = dir.options().tracker(tracker).create("r").unwrap();
        let a = region.array::<u8>("a", &[17_000]).unwrap();
        assert_eq!(count_other_than(7, region.slice(&a)), 0);
        check_returned(&mut region, a, &[17_500, 20_000], true, || dir.observe("r").newest().unwrap());
    }
}
