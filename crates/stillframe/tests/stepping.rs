//! Programs that open the region, write one version into slots on loan and end: what the next one finds.

mod common;

use common::{Dir, watchdog};
use std::process::Command;
use stillframe::{Loaned, Region, inspect};

/// Elements of a loaned variable: two windows and a part of a third.
const COUNT: usize = (5 << 20) / 8;

/// Takes the region over, or begins it.
fn open(dir: &Dir) -> (Region, Loaned<u64>) {
    let mut region = dir.options().create("state").unwrap();
    let x = region.loaned::<u64>("x", &[COUNT]).unwrap();
    (region, x)
}

fn step(dir: &Dir, version: u64) {
    let (mut region, x) = open(dir);
    let mut loan = region.loan(&x).unwrap();
    loan.fill(version + 1);
    loan.submit();
    region.publish(version).commit().unwrap();
}

fn plane_bytes(dir: &Dir) -> Vec<u64> {
    inspect::region(dir.path(), "state").unwrap().planes.iter().map(|plane| plane.allocated_bytes).collect()
}

fn check(dir: &Dir, version: u64) {
    let snapshot = dir.observe("state").newest().unwrap();
    assert_eq!(snapshot.version(), version);
    assert!(snapshot.slice::<u64>("x").unwrap().iter().all(|value| *value == version + 1));
}

#[test]
fn the_next_program_writes_where_memory_is_already() {
    watchdog(60);
    let dir = Dir::new("recycled");
    (0..3).for_each(|version| step(&dir, version));
    let before = plane_bytes(&dir);
    let (region, _) = open(&dir);
    assert_eq!(plane_bytes(&dir), before, "free slots keep their memory when a region is recovered");
    drop(region);
    (3..9).for_each(|version| step(&dir, version));
    assert_eq!(plane_bytes(&dir), before, "two versions take turns in the same memory");
    check(&dir, 8);
}

#[test]
fn a_program_that_dies_in_a_loan_leaves_slots_for_the_next_one() {
    watchdog(60);
    let dir = Dir::new("died");
    (0..3).for_each(|version| step(&dir, version));
    let before = plane_bytes(&dir);
    for _ in 0..3 {
        let (mut region, x) = open(&dir);
        let mut loan = region.loan(&x).unwrap();
        loan.fill(99);
        // As if killed: what is submitted and never published is no version.
        loan.submit();
        drop(region);
        check(&dir, 2);
    }
    assert_eq!(plane_bytes(&dir), before);
    step(&dir, 3);
    check(&dir, 3);
}

#[test]
fn memory_of_free_slots_counts_for_the_bound_and_goes_when_there_is_no_room() {
    watchdog(60);
    let dir = Dir::new("bound");
    (0..3).for_each(|version| step(&dir, version));
    let bytes = (COUNT * 8) as u64;
    let mut region = dir.options().bound_bytes(5 * bytes / 2 + 4096).create("state").unwrap();
    let x = region.loaned::<u64>("x", &[COUNT]).unwrap();
    let y = region.loaned::<u64>("y", &[COUNT / 2]).unwrap();
    for (version, whole) in [(3, false), (4, true)] {
        let mut loan = region.loan(if whole { &x } else { &y }).unwrap();
        loan.fill(1);
        loan.submit();
        region.publish(version).commit().unwrap();
        assert!(region.statistics().plane_bytes <= 5 * bytes / 2, "{}", region.statistics().plane_bytes);
    }
}

#[test]
fn a_copy_that_left_zeros_out_is_taken_over_whole() {
    watchdog(60);
    let dir = Dir::new("sparse");
    {
        let (mut region, x) = open(&dir);
        let mut loan = region.loan(&x).unwrap();
        loan.fill(0);
        loan[COUNT / 2..COUNT / 2 + 1000].fill(7);
        loan.submit();
        region.publish(0).commit().unwrap();
    }
    let whole: u64 = plane_bytes(&dir).iter().sum();
    let copy = Dir::new("sparse-copy");
    let (from, to) = (dir.path().join("state"), copy.path().join("state"));
    let status = Command::new("cp").args(["-r", "--sparse=always"]).arg(from).arg(to).status().unwrap();
    assert!(status.success());
    let sparse: u64 = plane_bytes(&copy).iter().sum();
    assert!(sparse < whole, "{sparse} of {whole} bytes");
    let expected = |index: usize| if (COUNT / 2..COUNT / 2 + 1000).contains(&index) { 7 } else { 0 };
    let (region, _) = open(&copy);
    assert_eq!(region.recovered(), Some(0));
    let taken: u64 = plane_bytes(&copy).iter().sum();
    assert_eq!(taken, whole, "slots of a version have memory, so that reading them can never fail");
    let snapshot = copy.observe("state").newest().unwrap();
    let x = snapshot.slice::<u64>("x").unwrap();
    assert!(x.iter().enumerate().all(|(index, value)| *value == expected(index)));
}

#[test]
fn loans_in_large_pages_hold_what_was_written() {
    watchdog(60);
    for large in [true, false] {
        let dir = Dir::new("large");
        for version in 0..3 {
            let mut region = dir.options().large_pages(large).create("state").unwrap();
            let x = region.loaned::<u64>("x", &[COUNT]).unwrap();
            let mut loan = region.loan(&x).unwrap();
            loan.iter_mut().zip(0..).for_each(|(value, index)| *value = index + version);
            loan.submit();
            region.publish(version).commit().unwrap();
        }
        let snapshot = dir.observe("state").newest().unwrap();
        let x = snapshot.slice::<u64>("x").unwrap();
        assert!(x.iter().zip(0..).all(|(value, index)| *value == index + 2));
    }
}
