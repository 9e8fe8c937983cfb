//! Programs that open the region, write one version into frames on loan and end: what the next one finds.
#![allow(unsafe_code)]

use crate::common;

use crate::common::{Dir, watchdog};
use std::os::unix::fs::FileExt;
use std::process::Command;
use stillframe::{Error, Loaned, Observer, Region, inspect};

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
    // In an arena free slots give their memory back when a region is recovered.
    if common::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(60);
    let dir = Dir::new("recycled");
    (0..3).for_each(|version| step(&dir, version));
    let before = plane_bytes(&dir);
    let (region, _) = open(&dir);
    assert_eq!(plane_bytes(&dir), before, "free frames keep their memory when a region is recovered");
    drop(region);
    (3..9).for_each(|version| step(&dir, version));
    assert_eq!(plane_bytes(&dir), before, "two versions take turns in the same memory");
    check(&dir, 8);
}

#[test]
fn a_program_that_dies_in_a_loan_leaves_frames_for_the_next_one() {
    let _watchdog = watchdog(60);
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
fn memory_of_free_frames_counts_for_the_bound_and_goes_when_there_is_no_room() {
    let _watchdog = watchdog(60);
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
    // It is about the files of a region's directory.
    if common::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(60);
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
    let _watchdog = watchdog(60);
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

/// Elements in sizes around those of pages, windows, and the pieces that threads take.
const COUNTS: [usize; 6] = [1, 511, 4096 / 8 * 512 + 1, (4 << 20) / 8, (4 << 20) / 8 + 1, (13 << 20) / 8 - 5];

#[test]
fn loans_of_any_size_hold_what_was_written_with_any_number_of_threads() {
    let _watchdog = watchdog(120);
    for threads in [1, 3] {
        for large_pages in [false, true] {
            let dir = Dir::new("threads");
            for version in 0..4 {
                let options = dir.options().threads(threads).large_pages(large_pages);
                let mut region = options.create("state").unwrap();
                let observer = Observer::options().dir(dir.path()).populate(threads).open("state").unwrap();
                let read = (version > 0).then(|| observer.version(version - 1).unwrap());
                let mut loans = Vec::new();
                for (index, count) in COUNTS.into_iter().enumerate() {
                    let name = format!("x{index}");
                    let x = region.loaned::<u64>(&name, &[count]).unwrap();
                    let mut loan = region.loan(&x).unwrap();
                    match &read {
                        None => loan.iter_mut().enumerate().for_each(|(at, value)| *value = at as u64),
                        Some(read) => {
                            let read = read.slice::<u64>(&name).unwrap();
                            std::iter::zip(loan.iter_mut(), read).for_each(|(value, read)| *value = read + 1);
                        }
                    }
                    loans.push(loan);
                }
                loans.into_iter().for_each(|loan| loan.submit());
                region.publish(version).commit().unwrap();
            }
            let snapshot = dir.observe("state").newest().unwrap();
            for (index, count) in COUNTS.into_iter().enumerate() {
                let x = snapshot.slice::<u64>(&format!("x{index}")).unwrap();
                let expected = (0..count as u64).map(|at| at + 3);
                assert!(x.iter().copied().eq(expected), "{count} elements, {threads} threads");
            }
        }
    }
}

/// Share of the pages of a slice that have page-table entries in this process.
fn entered(slice: &[u64]) -> f64 {
    let (first, pages) = (slice.as_ptr() as usize / 4096, size_of_val(slice).div_ceil(4096));
    let mut entries = vec![0; pages * 8];
    let pagemap = std::fs::File::open("/proc/self/pagemap").unwrap();
    pagemap.read_exact_at(&mut entries, first as u64 * 8).unwrap();
    let present = entries.chunks_exact(8).filter(|entry| entry[7] & 0x80 != 0).count();
    present as f64 / pages as f64
}

#[test]
fn a_step_finds_its_states_entered_and_faults_no_page() {
    // All that a process sees of an arena is one mapping.
    if common::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(60);
    for threads in [1, 3] {
        let dir = Dir::new("entered");
        (0..2).for_each(|version| step(&dir, version));
        let mut region = dir.options().threads(threads).large_pages(false).create("state").unwrap();
        let x = region.loaned::<u64>("x", &[COUNT]).unwrap();
        let loan = region.loan(&x).unwrap();
        assert_eq!(entered(&loan), 1.0, "{threads} threads");
        let options = Observer::options().dir(dir.path());
        let observer = options.clone().populate(threads).open("state").unwrap();
        assert_eq!(entered(observer.newest().unwrap().slice("x").unwrap()), 1.0, "{threads} threads");
        // Whoever reads little of it pays for that only.
        let snapshot = options.open("state").unwrap().newest().unwrap();
        assert_eq!(entered(snapshot.slice("x").unwrap()), 0.0);
    }
}

#[test]
fn all_pieces_of_a_variable_are_entered() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("pieces");
    let mut region = dir.options().keep(2).create("state").unwrap();
    let x = region.array::<u64>("x", &[COUNT]).unwrap();
    region.slice_mut(&x).iter_mut().enumerate().for_each(|(at, value)| *value = at as u64);
    region.publish(0).commit().unwrap();
    // Pages of another plane in between.
    region.slice_mut(&x).iter_mut().step_by(512 * 7).for_each(|value| *value += 1);
    region.publish(1).commit().unwrap();
    let observer = Observer::options().dir(dir.path()).populate(3).open("state").unwrap();
    let snapshot = observer.newest().unwrap();
    let x = snapshot.slice::<u64>("x").unwrap();
    assert_eq!(entered(x), 1.0);
    let expected = |at: usize| at as u64 + u64::from(at.is_multiple_of(512 * 7));
    assert!(x.iter().enumerate().all(|(at, value)| *value == expected(at)));
}

/// A producer of the same name in the same process, which a loan of the last one keeps out.
fn is_in_use(dir: &Dir) -> bool {
    match dir.options().create("state") {
        Err(Error::InUse { .. }) => true,
        other => other.map(drop).is_err(),
    }
}

#[test]
fn what_is_on_loan_is_nobody_elses_after_the_end_of_its_region() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("outlives");
    (0..2).for_each(|version| step(&dir, version));
    let mut region = dir.options().threads(3).create("state").unwrap();
    let x = region.loaned::<u64>("x", &[COUNT]).unwrap();
    let mut loan = region.loan(&x).unwrap();
    drop(region);
    loan.fill(7);
    assert!(loan.iter().all(|value| *value == 7));
    assert!(is_in_use(&dir), "the name is taken over while slots of it can be written");
    check(&dir, 1);
    // Another thread is the last to have it.
    let writer = std::thread::spawn(move || loan.fill(8));
    writer.join().unwrap();
    assert!(!is_in_use(&dir));
    (2..5).for_each(|version| step(&dir, version));
    check(&dir, 4);
}

#[test]
fn a_version_that_is_held_is_written_by_no_loan_of_an_earlier_producer() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("earlier");
    (0..2).for_each(|version| step(&dir, version));
    let (mut region, x) = open(&dir);
    let mut loan = region.loan(&x).unwrap();
    drop(region);
    let mut version = 2;
    let mut held = Vec::new();
    // The frames are free when one producer after the other has taken others.
    while version < 6 && !is_in_use(&dir) {
        step(&dir, version);
        held.push(dir.observe("state").newest().unwrap());
        version += 1;
    }
    let before: Vec<&[u64]> = held.iter().map(|snapshot| snapshot.slice("x").unwrap()).collect();
    loan.fill(99);
    for (version, slice) in (2..).zip(before) {
        assert!(slice.iter().all(|value| *value == version + 1), "a loan wrote into version {version}");
    }
}

#[test]
fn a_loan_of_a_variable_that_was_removed_keeps_its_frames() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("removed");
    (0..2).for_each(|version| step(&dir, version));
    let (mut region, x) = open(&dir);
    let mut loan = region.loan(&x).unwrap();
    region.remove("x").unwrap();
    drop(region);
    assert!(is_in_use(&dir));
    loan.fill(5);
    loan.submit();
    assert!(!is_in_use(&dir));
}

#[test]
fn loans_of_a_region_that_was_unlinked_or_leaked_reach_nobody() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("unlinked");
    step(&dir, 0);
    let (mut region, x) = open(&dir);
    let mut loan = region.loan(&x).unwrap();
    region.unlink().unwrap();
    // Other files of the same name.
    (0..3).for_each(|version| step(&dir, version));
    loan.fill(99);
    check(&dir, 2);
    drop(loan);

    let (mut region, x) = open(&dir);
    let mut loan = region.loan(&x).unwrap();
    std::mem::forget(region);
    assert!(is_in_use(&dir));
    loan.fill(99);
    drop(loan);
    assert!(is_in_use(&dir), "it was never dropped");
    assert!(inspect::remove(dir.path(), "state", true).is_ok());
    (0..3).for_each(|version| step(&dir, version));
    check(&dir, 2);
}

#[test]
fn a_loan_that_ended_keeps_its_addresses_and_nothing_else() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("ended");
    (0..2).for_each(|version| step(&dir, version));
    let (mut region, x) = open(&dir);
    let ended = region.loan_bytes(x.id()).unwrap().end(false).unwrap();
    drop(region);
    assert!(!is_in_use(&dir));
    step(&dir, 2);
    drop(ended);
    check(&dir, 2);
}

#[test]
fn what_a_forked_child_writes_into_a_loan_of_its_parent_reaches_nobody() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("forked");
    (0..2).for_each(|version| step(&dir, version));
    let (mut region, x) = open(&dir);
    // The addresses of earlier loans are used again.
    let mut other = region.loan(&x).unwrap();
    other.fill(1);
    drop(other);
    let mut loan = region.loan(&x).unwrap();
    let ended = region.loan_bytes(x.id()).unwrap().end(false).unwrap();
    loan.fill(3);
    let (mut go, mut says_go) = std::io::pipe().unwrap();
    // SAFETY: the child takes no locks but those of files it has from its parent, and ends without running anything of its.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_there = loan.iter().all(|value| *value == 3);
        let is_told = std::io::Read::read(&mut go, &mut [0]).is_ok();
        loan.fill(99);
        let is_written = loan.iter().all(|value| *value == 99);
        // Nothing of this is the child's to end, but it may.
        drop((loan, ended));
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(!(is_there && is_told && is_written))) };
    }
    loan.submit();
    region.publish(2).commit().unwrap();
    let snapshot = dir.observe("state").newest().unwrap();
    std::io::Write::write_all(&mut says_go, &[1]).unwrap();
    let mut status = 0;
    // SAFETY: the pointer is to a live number, and the child is one of this process.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "what the child finds there, or that it may write there");
    let found = snapshot.slice::<u64>("x").unwrap().iter().position(|value| *value != 3);
    assert_eq!(found, None, "an element of a version that the child wrote");
}

#[test]
fn populating_takes_a_number_of_threads_that_makes_sense() {
    let dir = Dir::new("option");
    step(&dir, 0);
    for threads in [0, 1025] {
        let error = Observer::options().dir(dir.path()).populate(threads).open("state").unwrap_err();
        assert!(matches!(error, Error::BadOption { option: "populate", .. }), "{error}");
    }
}
