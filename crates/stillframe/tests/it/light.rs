//! Many regions of one process, which have in common what each could have of its own.
//!
//! # Safety
//!
//! The children that this file forks do what [`in_child`] is given, and end without running what belongs to their parent.
#![allow(unsafe_code)]

use crate::common;

use crate::common::{Dir, watchdog};
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use stillframe::{Arena, Error, Observer, Region, TrackerKind, inspect};

fn tracker() -> Option<TrackerKind> {
    TrackerKind::WpAsync.probe().is_ok().then_some(TrackerKind::WpAsync)
}

fn newest(dir: &Path, name: &str) -> Vec<u64> {
    let observer = Observer::options().dir(dir).open(name).unwrap();
    observer.newest().unwrap().slice::<u64>("u").unwrap().to_vec()
}

/// Calls by which this thread read files so far, by one more; `None` where the kernel does not count them.
fn reads() -> Option<u64> {
    let mut text = [0; 512];
    let bytes = std::fs::File::open("/proc/thread-self/io").and_then(|mut file| file.read(&mut text)).ok()?;
    std::str::from_utf8(&text[..bytes])
        .ok()?
        .lines()
        .find_map(|line| line.strip_prefix("syscr: "))
        .and_then(|count| count.parse().ok())
}

/// Ends a child that forks, when it has done something.
fn in_child(act: impl FnOnce()) -> i32 {
    // SAFETY: the child uses of what other threads had only this library and the C library's memory, both made for it.
    match unsafe { libc::fork() } {
        -1 => panic!("{}", std::io::Error::last_os_error()),
        0 => {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
            // SAFETY: the call ends the process without running what belongs to the parent.
            unsafe { libc::_exit(i32::from(done.is_err())) }
        }
        pid => pid,
    }
}

fn reap(pid: i32) {
    let mut status = 0;
    // SAFETY: the pointer is to a live number, and the child is one of this process.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "what the child did went wrong");
}

#[test]
fn an_observer_reads_what_a_small_version_says_of_itself_by_one_call() {
    let dir = Dir::new("reads");
    let mut region = dir.options().create("r").unwrap();
    let u = region.array::<u64>("u", &[1000]).unwrap();
    let observer = dir.observe("r");
    if reads().is_none() {
        return;
    }
    for version in 1..=20 {
        region.slice_mut(&u)[0] = version;
        region.publish(version).attr("time", version as f64).commit().unwrap();
        let before = reads().unwrap();
        let snapshot = observer.newest_after(Some(version - 1), None).unwrap();
        let calls = reads().unwrap() - before - 1;
        assert_eq!(snapshot.attributes()["time"], (version as f64).into());
        // The first one reads the schema, too. In an arena all of it is mapped.
        let most = if common::is_in_arena() { 0 } else { 1 };
        assert!(version == 1 || calls <= most, "{calls} calls for version {version}");
    }
}

#[test]
fn regions_come_and_go_while_others_of_the_process_publish() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("lives");
    const LENGTH: usize = 5000;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (is_over, dir) = (&is_over, &dir);
        for thread in 0..2 {
            scope.spawn(move || {
                for round in 0..40 {
                    let mut region = dir.options().create(&format!("short{thread}/{round}")).unwrap();
                    let u = region.array::<u64>("u", &[LENGTH]).unwrap();
                    for version in 1..=1 + round % 5 {
                        region.slice_mut(&u)[version as usize] = version;
                        region.publish(version).commit().unwrap();
                    }
                    region.unlink().unwrap();
                }
                is_over.store(true, Ordering::Release);
            });
        }
        scope.spawn(move || {
            let mut region = dir.options().create("long").unwrap();
            let u = region.array::<u64>("u", &[LENGTH]).unwrap();
            let observer = dir.observe("long");
            let mut expected = vec![0; LENGTH];
            let mut version = 0;
            while version < 200 || !is_over.load(Ordering::Acquire) {
                version += 1;
                let at = version as usize * 613 % LENGTH;
                expected[at] = version;
                region.slice_mut(&u)[at] = version;
                region.publish(version).commit().unwrap();
                assert_eq!(observer.newest().unwrap().slice::<u64>("u").unwrap(), expected, "version {version}");
            }
        });
    });
}

#[test]
fn two_regions_that_track_the_same_memory_both_see_all_that_is_written() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("same");
    let Some(tracker) = tracker() else { return };
    let mut array = vec![0u64; 40_000];
    let create = |name: &str| dir.options().tracker(tracker).create(name).unwrap();
    let mut regions: Vec<Option<Region>> = ["a", "b"].map(|name| Some(create(name))).into();
    let tracked: Vec<_> =
        regions.iter_mut().map(|region| region.as_mut().unwrap().track::<u64>("u").unwrap()).collect();
    for version in 1..=60 {
        array[version as usize * 577 % 40_000] = version;
        // The one that watches it goes in the middle, and the other goes on.
        if version == 40 {
            regions[0] = None;
        }
        for ((region, tracked), name) in regions.iter_mut().zip(&tracked).zip(["a", "b"]) {
            let Some(region) = region else { continue };
            region.publish(version).tracked(tracked, &array, &[40_000]).commit().unwrap();
            assert_eq!(newest(dir.path(), name), array, "{name} {version}");
        }
    }
}

#[test]
fn a_region_that_tracks_managed_memory_of_another_sees_what_is_written_there() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("others");
    let Some(tracker) = tracker() else { return };
    for is_managed_first in [false, true] {
        let create = |name: &str| dir.options().tracker(tracker).create(&format!("{name}{is_managed_first}")).unwrap();
        let (mut of, mut by) = (create("of"), create("by"));
        let managed = of.array::<u64>("u", &[40_000]).unwrap();
        let tracked = by.track::<u64>("u").unwrap();
        for version in 1..=40 {
            of.slice_mut(&managed)[version as usize * 577 % 40_000] = version;
            let expected = of.slice(&managed).to_vec();
            for is_managed in [is_managed_first, !is_managed_first] {
                match is_managed {
                    true => of.publish(version).commit().unwrap(),
                    false => by.publish(version).tracked(&tracked, of.slice(&managed), &[40_000]).commit().unwrap(),
                };
            }
            for name in ["of", "by"] {
                let name = format!("{name}{is_managed_first}");
                assert_eq!(newest(dir.path(), &name), expected, "{name} {version}");
            }
        }
    }
}

#[test]
fn a_forked_child_tracks_its_own_regions_and_its_parent_goes_on_with_its() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("child");
    let publish = |region: &mut Region, array: &stillframe::Array<u64>, versions: std::ops::Range<u64>| {
        for version in versions {
            region.slice_mut(array)[version as usize * 577 % 40_000] = version;
            region.publish(version).commit().unwrap();
        }
    };
    let mut region = Some(dir.options().create("parent").unwrap());
    let u = region.as_mut().unwrap().array::<u64>("u", &[40_000]).unwrap();
    publish(region.as_mut().unwrap(), &u, 1..20);
    let child = in_child(|| {
        let mut own = dir.options().create("child").unwrap();
        let u = own.array::<u64>("u", &[40_000]).unwrap();
        publish(&mut own, &u, 1..40);
        assert_eq!(newest(dir.path(), "child"), own.slice(&u));
        // What the child has of its parent's goes, and nothing of the parent's with it.
        drop(region.take());
        publish(&mut own, &u, 40..60);
        assert_eq!(newest(dir.path(), "child"), own.slice(&u));
    });
    let region = region.as_mut().unwrap();
    publish(region, &u, 20..60);
    reap(child);
    publish(region, &u, 60..80);
    assert_eq!(newest(dir.path(), "parent"), region.slice(&u));
}

#[test]
fn a_parent_goes_on_while_its_forked_child_closes_what_it_has_of_its_regions() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("parent");
    let mut region = Some(dir.options().create("r").unwrap());
    let u = region.as_mut().unwrap().array::<u64>("u", &[40_000]).unwrap();
    for version in 1..60 {
        let child = (version % 20 == 10).then(|| in_child(|| drop(region.take())));
        let region = region.as_mut().unwrap();
        region.slice_mut(&u)[version as usize * 577 % 40_000] = version;
        region.publish(version).commit().unwrap();
        child.into_iter().for_each(reap);
        assert_eq!(newest(dir.path(), "r"), region.slice(&u), "version {version}");
    }
}

#[test]
fn regions_of_an_arena_have_no_descriptor_of_their_own() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("none");
    let arena = Arena::options().dir(dir.path()).bytes(6 << 30).regions(700).create("pool").unwrap();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    let mut made: Vec<_> = (0..600)
        .map(|number| {
            let mut region = Region::options().arena(&arena).threads(1).create(&number.to_string()).unwrap();
            let u = region.array::<u64>("u", &[100]).unwrap();
            region.slice_mut(&u).fill(number);
            region.publish(1).commit().unwrap();
            (region, u)
        })
        .collect();
    let held: Vec<_> = (0..600)
        .map(|number| Observer::options().dir(dir.path()).open(&format!("pool/{number}")).unwrap().newest().unwrap())
        .collect();
    // Other tests run beside this one.
    assert!(descriptors() < before + 300, "{before} and {} descriptors", descriptors());
    // Regions whose leases lie in different files.
    for (number, (region, u)) in made.iter_mut().enumerate() {
        for version in 2..5 {
            region.slice_mut(u).fill(version);
            region.publish(version).commit().unwrap();
        }
        assert_eq!(held[number].slice::<u64>("u").unwrap(), [number as u64; 100]);
    }
    for number in [0, 255, 256, 599] {
        let holders = inspect::holders(dir.path(), &format!("pool/{number}")).unwrap();
        let [holder] = &holders[..] else { panic!("{holders:?}") };
        assert_eq!((holder.pid, holder.version, holder.versions), (Some(std::process::id() as i32), Some(1), 1));
        let kept = held[number].keep().unwrap();
        assert_eq!(inspect::holders(dir.path(), &format!("pool/{number}")).unwrap().len(), 1);
        drop(kept);
    }
    drop(held);
    for number in [0, 599] {
        assert_eq!(inspect::holders(dir.path(), &format!("pool/{number}")).unwrap(), []);
    }
    made.into_iter().for_each(|(region, _)| region.unlink().unwrap());
}

#[test]
fn an_arena_that_takes_the_name_of_another_is_found_under_it() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("again");
    let create = || Arena::options().dir(dir.path()).bytes(64 << 20).create("pool").unwrap();
    let publish = |arena: &Arena, value: u64| {
        let mut region = Region::options().arena(arena).create("r").unwrap();
        let u = region.array::<u64>("u", &[100]).unwrap();
        region.slice_mut(&u).fill(value);
        region.publish(1).commit().unwrap();
        region
    };
    let open = || Observer::options().dir(dir.path()).open("pool/r");
    let arena = create();
    let first = publish(&arena, 1);
    let observer = open().unwrap();
    assert_eq!(newest(dir.path(), "pool/r"), [1; 100]);
    std::fs::rename(dir.path().join("pool"), dir.path().join("former")).unwrap();
    assert!(matches!(open(), Err(Error::NoRegion { .. })));
    let later = create();
    assert!(matches!(open(), Err(Error::NoRegion { .. })));
    let second = publish(&later, 2);
    for _ in 0..2 {
        assert_eq!(newest(dir.path(), "pool/r"), [2; 100]);
        assert_eq!(newest(dir.path(), "former/r"), [1; 100]);
    }
    assert_eq!(observer.newest().unwrap().slice::<u64>("u").unwrap(), [1; 100]);
    first.unlink().unwrap();
    second.unlink().unwrap();
    assert!(matches!(open(), Err(Error::NoRegion { .. })));
}
