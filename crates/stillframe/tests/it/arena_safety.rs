//! What must not become of regions in arenas, whoever opens, removes or fills what.
//!
//! # Safety
//!
//! The children that this file forks do what they are given, and end without running what belongs to their parent.
#![allow(unsafe_code)]

use crate::child::{in_child, reap};
use crate::common::{Dir, HeadFile, watchdog};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;
use stillframe::{Arena, Error, Observer, Outcome, Region, Staging};
use stillframe_segment::{arena, head, index};

#[test]
fn a_lease_taken_by_the_descriptor_of_an_arena_with_a_name_is_seen_by_its_producers() {
    let _watchdog = watchdog(60);
    let dir = Dir::plain("two-ways");
    let arena = Arena::options().dir(dir.path()).bytes(64 << 20).create("pool").unwrap();
    let mut region = Region::options().arena(&arena).create("u").unwrap();
    let u = region.array::<u64>("u", &[5000]).unwrap();
    region.slice_mut(&u).fill(1);
    region.publish(1).commit().unwrap();
    // As somebody does who is handed the file, and not the directory.
    let handed = File::open(dir.path().join("pool/arena")).unwrap();
    let Ok(look) = Arena::options().from_descriptor(handed.into(), "pool") else { return };
    let held = Observer::options().arena(&look).open("u").unwrap().newest().unwrap();
    let shown: &[u64] = held.slice("u").unwrap();
    assert_eq!(shown, [1; 5000]);
    for version in 2..10 {
        region.slice_mut(&u).fill(version);
        region.publish(version).commit().unwrap();
        assert!(shown.iter().all(|number| *number == 1), "a held version shows {} after version {version}", shown[0]);
    }
}

#[test]
fn two_processes_do_not_produce_one_region_by_name_and_by_descriptor() {
    let _watchdog = watchdog(60);
    let dir = Dir::plain("two-producers");
    // In another process, which opens the arena anew.
    let child = in_child(|| {
        let arena = Arena::options().dir(dir.path()).bytes(64 << 20).create("pool").unwrap();
        let mut region = Region::options().arena(&arena).create("u").unwrap();
        let u = region.array::<u64>("u", &[5000]).unwrap();
        region.slice_mut(&u).fill(1);
        region.publish(1).commit().unwrap();
        std::fs::write(dir.path().join("ready"), "").unwrap();
        while !dir.path().join("over").exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    while !dir.path().join("ready").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let handed = File::options().read(true).write(true).open(dir.path().join("pool/arena")).unwrap();
    let second = Arena::options()
        .from_descriptor(handed.into(), "pool")
        .and_then(|arena| Region::options().arena(&arena).create("u"));
    let is_refused = second.is_err();
    drop(second);
    std::fs::write(dir.path().join("over"), "").unwrap();
    assert_eq!(reap(child), 0);
    assert!(is_refused, "two living producers of one region");
}

#[test]
fn a_file_that_is_not_empty_keeps_what_is_in_it() {
    let _watchdog = watchdog(60);
    let dir = Dir::plain("not-empty");
    let path = dir.path().join("data");
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    // Numbers of somebody's, the first of which is 0.
    let data: Vec<u8> = (0..8u64 << 20).flat_map(|number| number.to_le_bytes()).collect();
    file.write_all_at(&data, 0).unwrap();
    let made = Arena::options().from_descriptor(file.try_clone().unwrap().into(), "vm");
    let mut found = vec![0; data.len()];
    file.read_exact_at(&mut found, 0).unwrap();
    let lost = data.iter().zip(&found).filter(|(one, other)| one != other).count();
    assert_eq!(lost, 0, "bytes of {} are others; the arena was {:?}", data.len(), made.map(|arena| arena.bytes()));
}

#[test]
fn who_waits_for_a_region_that_was_removed_is_told_of_no_other() {
    let _watchdog = watchdog(60);
    let dir = Dir::plain("waits");
    let arena = Arena::options().dir(dir.path()).bytes(64 << 20).create("pool").unwrap();
    let mut first = Region::options().arena(&arena).create("a").unwrap();
    first.array::<u64>("u", &[10]).unwrap();
    first.publish(5).commit().unwrap();
    let observer = Observer::options().dir(dir.path()).open("pool/a").unwrap();
    let begun = observer.begun_ns();
    first.unlink().unwrap();
    let mut second = Region::options().arena(&arena).create("b").unwrap();
    second.array::<u64>("u", &[10]).unwrap();
    second.publish(1000).commit().unwrap();
    assert!(matches!(observer.newest(), Err(Error::NoRegion { .. })));
    let found = observer.wait_newer(Some(5), Some(Duration::from_millis(200)));
    assert!(found.is_err(), "{found:?} of region 'a', begun {} and {}", begun, observer.begun_ns());
}

fn mount_small(path: &Path, bytes: u64) {
    let text = |text: &str| CString::new(text).unwrap();
    let (none, root, tmpfs) = (text("none"), text("/"), text("tmpfs"));
    let target = CString::new(path.to_str().unwrap()).unwrap();
    let size = text(&format!("size={bytes},mode=700"));
    // SAFETY: all pointers are to strings that live through the calls.
    unsafe {
        assert_eq!(libc::unshare(libc::CLONE_NEWNS), 0);
        let private = libc::MS_REC | libc::MS_PRIVATE;
        assert_eq!(libc::mount(none.as_ptr(), root.as_ptr(), std::ptr::null(), private, std::ptr::null()), 0);
        assert_eq!(libc::mount(tmpfs.as_ptr(), target.as_ptr(), tmpfs.as_ptr(), 0, size.as_ptr().cast()), 0);
    }
}

fn fill(path: &Path) {
    let ballast = File::create(path.join("ballast")).unwrap();
    // SAFETY: `statvfs` is plain data, valid when zeroed, and the pointer is to a live one.
    let free = unsafe {
        let mut status: libc::statvfs = std::mem::zeroed();
        assert_eq!(libc::fstatvfs(ballast.as_raw_fd(), &mut status), 0);
        status.f_bavail * status.f_frsize
    };
    // SAFETY: the call takes numbers only.
    assert_eq!(unsafe { libc::fallocate(ballast.as_raw_fd(), 0, 0, free as i64) }, 0);
}

#[test]
fn a_region_removed_from_an_arena_in_a_full_file_system_is_an_error_and_no_signal() {
    let _watchdog = watchdog(60);
    let dir = Dir::plain("full");
    for what in ["newest", "versions", "wait_newer", "begun"] {
        let child = in_child(|| {
            mount_small(dir.path(), 64 << 20);
            let arena = Arena::options().dir(dir.path()).bytes(32 << 20).create("pool").unwrap();
            let mut region = Region::options().arena(&arena).create("a").unwrap();
            region.array::<u64>("u", &[10]).unwrap();
            region.publish(5).commit().unwrap();
            let observer = Observer::options().dir(dir.path()).open("pool/a").unwrap();
            drop(observer.newest().unwrap());
            region.unlink().unwrap();
            fill(dir.path());
            match what {
                "newest" => drop(observer.newest()),
                "versions" => drop(observer.versions()),
                "wait_newer" => drop(observer.wait_newer(Some(5), Some(Duration::from_millis(100)))),
                _ => drop(observer.begun_ns()),
            }
        });
        let status = reap(child);
        assert!(libc::WIFEXITED(status), "{what}: ended by signal {}", libc::WTERMSIG(status));
    }
}

#[test]
fn a_rank_whose_peer_was_removed_in_a_full_file_system_goes_on() {
    let _watchdog = watchdog(60);
    let dir = Dir::plain("ranks");
    let child = in_child(|| {
        mount_small(dir.path(), 64 << 20);
        let arena = Arena::options().dir(dir.path()).bytes(48 << 20).create("pool").unwrap();
        let create = |rank: u32| Region::options().arena(&arena).rank(rank, 2).threads(1).create("g").unwrap();
        let (mut first, mut second) = (create(0), create(1));
        let u = first.array::<u64>("u", &[1000]).unwrap();
        second.array::<u64>("u", &[1000]).unwrap();
        for version in 1..40 {
            first.slice_mut(&u).fill(version);
            first.publish(version).commit().unwrap();
            second.publish(version).commit().unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        second.unlink().unwrap();
        fill(dir.path());
        for version in 40..80 {
            first.slice_mut(&u).fill(version);
            let _ = first.publish(version).commit();
        }
    });
    let status = reap(child);
    assert!(libc::WIFEXITED(status), "the other rank ended by signal {}", libc::WTERMSIG(status));
}

#[test]
fn a_publish_that_finds_the_arena_full_leaves_the_others_what_there_is() {
    let _watchdog = watchdog(60);
    let dir = Dir::plain("hog");
    let arena = Arena::options().dir(dir.path()).bytes(64 << 20).create("pool").unwrap();
    let mut large = Region::options().arena(&arena).create("large").unwrap();
    let u = large.array::<u8>("u", &[100 << 20]).unwrap();
    large.slice_mut(&u).fill(1);
    let before = arena.usage().unwrap();
    let error = large.publish(1).commit().unwrap_err();
    let after = arena.usage().unwrap();
    let mut small = Region::options().arena(&arena).create("small").unwrap();
    let v = small.array::<u8>("v", &[10 << 20]).unwrap();
    small.slice_mut(&v).fill(2);
    let published = small.publish(1).commit();
    assert!(
        published.is_ok(),
        "{published:?}; {} free chunks before the publish of the other that failed ({error}), {} after",
        before.free_chunks,
        after.free_chunks
    );
}

#[test]
fn what_is_staged_takes_the_place_of_no_region_that_has_versions() {
    let _watchdog = watchdog(60);
    let dir = Dir::plain("staged");
    let file = File::options().read(true).write(true).create_new(true).open(dir.path().join("file")).unwrap();
    let handed = Arena::options().bytes(64 << 20).from_descriptor(file.into(), "vm").unwrap();
    let named = Arena::options().dir(dir.path()).bytes(64 << 20).create("pool").unwrap();
    for arena in [&named, &handed] {
        let options = Region::options().arena(arena);
        let mut region = options.clone().create("u").unwrap();
        let u = region.array::<u64>("u", &[100]).unwrap();
        region.slice_mut(&u).fill(1);
        region.publish(1).commit().unwrap();
        drop(region);
        let staging = Staging::begin(&options, "u").unwrap();
        let mut other = staging.options(None).create("u").unwrap();
        other.array::<u64>("u", &[100]).unwrap();
        other.publish(7).commit().unwrap();
        drop(other);
        let early = staging.check(false);
        let result = staging.commit(false);
        let observer = Observer::options().arena(arena).open("u").unwrap();
        let snapshot = observer.newest().unwrap();
        assert!(
            matches!(result, Err(Error::Survives { .. })),
            "arena '{}': check {early:?}, commit {result:?}; now version {} is there, which begins with {}",
            arena.name(),
            snapshot.version(),
            snapshot.slice::<u64>("u").unwrap()[0]
        );
    }
}

#[test]
fn a_region_whose_index_names_a_chunk_of_another_is_refused() {
    let _watchdog = watchdog(60);
    let dir = Dir::plain("index");
    let arena = Arena::options().dir(dir.path()).bytes(64 << 20).create("pool").unwrap();
    let create = |name: &str| Region::options().arena(&arena).create(name);
    for (name, value, length) in [("a", 1u64, 5000), ("b", 2, 50_000)] {
        let mut region = create(name).unwrap();
        let u = region.array::<u64>("u", &[length]).unwrap();
        region.slice_mut(&u).fill(value);
        region.publish(1).commit().unwrap();
    }
    let pool = dir.path().join("pool");
    let (of_a, of_b) = (HeadFile::open(&pool, "a"), HeadFile::open(&pool, "b"));
    let at = (head::HEAD_BYTES + index::INLINE_AT) as u64;
    let mut words = vec![0; 4 * index::INLINE_PLANES * index::INLINE_WINDOWS];
    of_b.read(at, &mut words);
    of_a.write(at, &words);
    let held = Observer::options().dir(dir.path()).open("pool/b").unwrap().newest().unwrap();
    assert_eq!(held.slice::<u64>("u").unwrap(), [2; 50_000]);
    let result = create("a").and_then(|mut region| {
        let u = region.array::<u64>("u", &[5000])?;
        region.slice_mut(&u).fill(3);
        region.publish(2).commit()
    });
    let others = held.slice::<u64>("u").unwrap().iter().filter(|number| **number != 2).count();
    assert_eq!(
        others,
        0,
        "numbers of a held version of 'b' are others; 'a' said {:?}",
        result.map(|done| done.version)
    );
}

#[test]
fn a_publish_that_finds_no_room_goes_by_its_rule_while_another_process_changes_records() {
    let _watchdog = watchdog(100);
    let dir = Dir::plain("busy");
    let pool = Arena::options().dir(dir.path()).bytes(32 << 20).create("pool").unwrap();
    let mut region = Region::options().arena(&pool).create("u").unwrap();
    let u = region.array::<u8>("u", &[10 << 20]).unwrap();
    let observer = Observer::options().dir(dir.path()).open("pool/u").unwrap();
    let mut held = Vec::new();
    for version in 1..3 {
        region.slice_mut(&u).fill(version);
        region.publish(version.into()).commit().unwrap();
        held.push(observer.newest().unwrap());
    }
    // A process that makes a region is stopped, as by a debugger.
    let other = File::options().read(true).write(true).open(dir.path().join("pool/lease.producer")).unwrap();
    // SAFETY: the structure is plain data, valid when zeroed, and lives through the call.
    let locked = unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        (lock.l_type, lock.l_start, lock.l_len) = (libc::F_WRLCK as _, arena::CREATE_AT as _, 1);
        libc::fcntl(other.as_raw_fd(), libc::F_OFD_SETLK, &lock)
    };
    assert_eq!(locked, 0);
    region.slice_mut(&u).fill(9);
    let published = region.publish(9).commit();
    assert!(published.as_ref().is_ok_and(|published| published.outcome == Outcome::Skipped), "{published:?}");
}
