//! Regions in arenas of large pages.
//!
//! # Safety
//!
//! The children that this file forks do what they are given, and end without running what belongs to their parent.
#![allow(unsafe_code)]

use crate::child::{in_child, reap};
use crate::common::watchdog;
use crate::large_pages::{LargePages, remove_spare};
use std::os::fd::{FromRawFd, OwnedFd};
use stillframe::{Arena, Observer, Region, TRACKERS};

fn said(status: i32) -> String {
    match libc::WIFEXITED(status) {
        true => format!("exit {}", libc::WEXITSTATUS(status)),
        false => format!("SIGNAL {}", libc::WTERMSIG(status)),
    }
}

const CHUNKS: u64 = 16;

fn arena() -> Arena {
    // SAFETY: the name ends with a zero byte; the descriptor is nobody else's.
    let handed = unsafe {
        let raw = libc::memfd_create(c"large".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_HUGETLB | libc::MFD_HUGE_2MB);
        assert!(raw >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(raw)
    };
    Arena::options().bytes(CHUNKS << 21).regions(8).from_descriptor(handed, "vm").unwrap()
}

const LENGTH: usize = 5000;

fn plain(arena: &Arena, demote: bool, tracker: usize, recover: bool, scattered: bool) {
    let create = || Region::options().arena(arena).tracker(TRACKERS[tracker]).demote(demote).create("u").unwrap();
    let mut region = create();
    let mut u = region.array::<u64>("u", &[LENGTH]).unwrap();
    let observer = Observer::options().arena(arena).open("u").unwrap();
    let mut expected = vec![0; LENGTH];
    for version in 1..=60u64 {
        if scattered {
            let at = version as usize * 613 % LENGTH;
            (region.slice_mut(&u)[at], expected[at]) = (version, version);
        } else {
            region.slice_mut(&u).fill(version);
            expected.fill(version);
        }
        region.publish(version).commit().unwrap();
        let held = observer.newest().unwrap();
        let mut bytes = vec![0; 8 * LENGTH];
        held.read("u", 0, &mut bytes).unwrap();
        let found: Vec<u64> = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        assert!(found == expected, "version {version}");
        if !recover {
            assert!(held.slice::<u64>("u").unwrap() == expected, "slice of version {version}");
        }
        if recover && version % 20 == 0 {
            drop(held);
            drop(region);
            region = create();
            u = region.array::<u64>("u", &[LENGTH]).unwrap();
            assert!(region.slice(&u) == expected, "recovered {version}");
        }
    }
}

fn loaned(arena: &Arena) {
    let mut region = Region::options().arena(arena).create("l").unwrap();
    let u = region.loaned::<u64>("u", &[LENGTH]).unwrap();
    let observer = Observer::options().arena(arena).open("l").unwrap();
    for version in 1..=10u64 {
        let mut loan = region.loan(&u).unwrap();
        loan.fill(version);
        loan.submit();
        region.publish(version).commit().unwrap();
        assert_eq!(observer.newest().unwrap().slice::<u64>("u").unwrap(), [version; LENGTH]);
    }
}

/// All of an array in few pages, recovered where the machine has no large page to spare.
fn recovered(arena: &Arena, tracker: usize) {
    let create = || Region::options().arena(arena).tracker(TRACKERS[tracker]).create("u").unwrap();
    let mut region = create();
    let u = region.array::<u64>("u", &[LENGTH]).unwrap();
    region.slice_mut(&u).fill(1);
    region.publish(1).commit().unwrap();
    drop(region);
    // Others take what the machine has.
    remove_spare();
    let mut region = create();
    let u = region.array::<u64>("u", &[LENGTH]).unwrap();
    region.slice_mut(&u)[0] = 2;
    let _ = region.publish(2).commit();
}

fn demoted(arena: &Arena, tracker: usize) {
    let mut region = Region::options().arena(arena).tracker(TRACKERS[tracker]).create("u").unwrap();
    const LONG: usize = 400_000;
    let u = region.array::<u64>("u", &[LONG]).unwrap();
    let observer = Observer::options().arena(arena).open("u").unwrap();
    region.slice_mut(&u).fill(1);
    let mut expected = vec![1; LONG];
    for version in 1..=100 {
        let at = if version < 70 { 0 } else { version as usize * 5171 % LONG };
        (region.slice_mut(&u)[at], expected[at]) = (version, version);
        region.publish(version).commit().unwrap();
        let held = observer.newest().unwrap();
        let mut bytes = vec![0; 8 * LONG];
        held.read("u", 0, &mut bytes).unwrap();
        let found: Vec<u64> = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        assert!(region.slice(&u) == expected, "own at {version}");
        assert!(found == expected, "version {version}");
    }
}

fn large_pages(count: u64) -> Option<LargePages> {
    let taken = LargePages::take(count);
    if taken.is_none() {
        eprintln!("skipped: the machine gives no large pages");
    }
    taken
}

fn written_without_a_signal() -> bool {
    let mut found = Vec::new();
    for tracker in [0, 2, 3] {
        let Some(_pages) = large_pages(30) else { return true };
        let status = reap(in_child(|| recovered(&arena(), tracker)));
        found.push((status != 0, format!("recovered, {}: {}", TRACKERS[tracker], said(status))));
    }
    for tracker in [0, 2, 3] {
        let Some(_pages) = large_pages(30) else { return true };
        let status = reap(in_child(|| demoted(&arena(), tracker)));
        found.push((status != 0, format!("demoted, {}: {}", TRACKERS[tracker], said(status))));
    }
    found.iter().for_each(|(_, what)| eprintln!("{what}"));
    found.iter().all(|(is_bad, _)| !is_bad)
}

fn seen_and_recovered() -> bool {
    let mut found = Vec::new();
    for tracker in [0, 2, 3] {
        for (demote, recover, scattered) in [
            (false, false, false),
            (false, false, true),
            (true, false, true),
            (false, true, false),
            (false, true, true),
        ] {
            let Some(_pages) = large_pages(28) else { return true };
            let status = reap(in_child(|| plain(&arena(), demote, tracker, recover, scattered)));
            let how = format!("demote {demote}, recover {recover}, scattered {scattered}");
            found.push((status != 0, format!("{}, {how}: {}", TRACKERS[tracker], said(status))));
        }
    }
    let Some(_pages) = large_pages(28) else { return true };
    let status = reap(in_child(|| loaned(&arena())));
    found.push((status != 0, format!("loaned: {}", said(status))));
    found.iter().for_each(|(_, what)| eprintln!("{what}"));
    found.iter().all(|(is_bad, _)| !is_bad)
}

/// One test, so that no other thread has a lock of the standard library when a child is forked.
#[test]
fn regions_in_arenas_of_large_pages_are_as_others() {
    // It waits for the tests of other clones that have large pages.
    let _watchdog = watchdog(1200);
    let found = [seen_and_recovered(), written_without_a_signal()];
    assert_eq!(found, [true; 2], "seen and recovered; written after recovery without a signal");
}
