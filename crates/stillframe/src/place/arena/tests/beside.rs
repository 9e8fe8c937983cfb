//! Arenas while others make, rename and remove what one is just using, and without what somebody took away.

use super::*;
use crate::place::directory::Directory;
use std::sync::atomic::{AtomicBool, AtomicU64};
use stillframe_kernel::folder::About;
use stillframe_kernel::trust::{Guard, Purpose, Trust};

/// Rounds of a test of what others do meanwhile, or so many times as many with `STILLFRAME_TEST_RUNS`.
fn rounds(few: u64) -> u64 {
    few * std::env::var("STILLFRAME_TEST_RUNS").ok().and_then(|number| number.parse().ok()).unwrap_or(1)
}

fn root(dir: &Dir) -> Directory {
    Directory::root(&dir.0, Guard::new(Trust::Own, Purpose::Write { granted: 0o700 })).unwrap().unwrap()
}

fn identity(path: PathBuf) -> Option<(u64, u64)> {
    About::at(&path, true).ok().map(|about| about.identity)
}

#[test]
#[cfg(feature = "points")]
fn chunks_taken_for_pages_without_memory_are_given_back() {
    use stillframe_kernel::points::{self, Fate};
    let dir = Dir::new("no-memory");
    let arena = dir.arena(8, 4);
    let region = region::ArenaRegion::claim(&arena, "r", Duration::ZERO).unwrap();
    for pages in [200, 300, 1000] {
        let before = region.claimed().owned().unwrap();
        points::set_fate(Some((Fate::Fails, if pages == 200 { 1 } else { 0 })));
        let taken = region.take_pages(pages);
        points::set_fate(None);
        assert!(matches!(taken, Err(Error::NoSpace { .. })), "{taken:?}");
        assert_eq!(region.claimed().owned().unwrap(), before, "{pages} pages");
    }
    drop(region);
    check_nothing_lost(&arena);
}

#[test]
fn an_arena_that_lacks_a_file_with_locks_gets_no_other_one() {
    let dir = Dir::new("lacks");
    let arena = dir.arena(4, 300);
    let region = claim(&arena, "r");
    for file in [lease::PRODUCER_FILE, lease::FILE] {
        let path = dir.0.join("a").join(file);
        let aside = dir.0.join(file);
        std::fs::rename(&path, &aside).unwrap();
        // Who took the locks of a new file would find all regions free that others have.
        let again = dir.options().bytes(4 * CHUNK_BYTES as u64).regions(300).create("a");
        assert!(matches!(again, Err(Error::Corrupt { .. })), "{file}: {again:?}");
        assert!(!path.exists(), "{file}");
        std::fs::rename(&aside, &path).unwrap();
    }
    dir.options().bytes(4 * CHUNK_BYTES as u64).regions(300).create("a").unwrap();
    drop(region);
}

#[test]
fn who_makes_an_arena_that_another_just_removes_has_the_locks_that_others_find() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("made-removed");
    let (is_done, removed) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let root = root(&dir);
            while !is_done.load(Ordering::Relaxed) {
                if let Ok(arena) = dir.options().open("a") {
                    removed.fetch_add(arena.remove_whole(&root, false).is_ok().into(), Ordering::Relaxed);
                }
            }
        });
        let mut claimed = 0;
        while claimed < rounds(300) || removed.load(Ordering::Relaxed) < rounds(300) {
            let arena = match dir.options().bytes(4 * CHUNK_BYTES as u64).regions(4).create("a") {
                Ok(arena) => arena,
                Err(error) => {
                    is_done.store(true, Ordering::Relaxed);
                    panic!("{error}");
                }
            };
            // Nobody removes it beneath a producer.
            let Ok(region) = arena.claim("r", Duration::ZERO) else { continue };
            claimed += 1;
            let own = [&arena.shared.lease, arena.shared.producer.as_ref().unwrap()];
            let own = own.map(|file| About::of(file.get().unwrap()).unwrap().identity);
            let there = [lease::FILE, lease::PRODUCER_FILE].map(|file| identity(dir.0.join("a").join(file)));
            if there != own.map(Some) {
                is_done.store(true, Ordering::Relaxed);
                assert_eq!(there, own.map(Some), "locks that nobody else finds");
            }
            drop(region);
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn an_arena_is_not_removed_beneath_a_producer_that_just_begins() {
    let _watchdog = watchdog(300);
    const REGIONS: u32 = 1000;
    let dir = Dir::new("beneath");
    let root = root(&dir);
    for _ in 0..rounds(20) {
        let arena = dir.arena(4, REGIONS);
        (0..REGIONS).for_each(|number| drop(claim(&arena, &format!("r{number}"))));
        let (removed, claimed) = std::thread::scope(|scope| {
            let remover = scope.spawn(|| arena.remove_whole(&root, false));
            let claimed = loop {
                match arena.claim("r0", Duration::ZERO) {
                    Ok(claimed) if !remover.is_finished() => break Ok(claimed),
                    Ok(claimed) => break Ok(claimed),
                    Err(Error::InUse { .. }) => {}
                    Err(error) => break Err(error),
                }
            };
            (remover.join().unwrap(), claimed)
        });
        assert!(removed.is_err() || claimed.is_err(), "removed with a producer in it");
        drop(claimed);
        if removed.is_err() {
            arena.remove_whole(&root, false).unwrap();
        }
    }
}

#[test]
fn a_name_that_is_just_changed_is_the_old_one_or_the_new_one_to_who_looks() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("changed");
    let arena = dir.arena(4, 4);
    let (short, long) =
        ("ab", "a-name-that-is-much-longer-than-the-other-one-so-that-it-takes-several-words/and/more/of/them/yet");
    drop(claim(&arena, short));
    let (is_done, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut renamed = 0;
            let is_seen = |renamed| renamed >= rounds(20_000) && looks.load(Ordering::Relaxed) >= rounds(20_000);
            while !is_seen(renamed) && !is_done.load(Ordering::Relaxed) {
                renamed += 1;
                for (from, to) in [(short, long), (long, short)] {
                    arena.rename(from, to, &[claim(&arena, from)], Vec::new()).unwrap();
                }
            }
            is_done.store(true, Ordering::Relaxed);
        });
        while !is_done.load(Ordering::Relaxed) {
            let looks = looks.fetch_add(1, Ordering::Relaxed);
            let found = arena.shared.record(0);
            let is_good = match &found {
                Ok(Some(record)) => record.name == short || record.name == long || record.state != arena::State::Used,
                Ok(None) => true,
                Err(_) => false,
            };
            if !is_good {
                is_done.store(true, Ordering::Relaxed);
                panic!("{found:?} after {looks} looks");
            }
        }
    });
}

#[test]
fn no_region_is_made_above_others() {
    let dir = Dir::new("above");
    let arena = dir.arena(8, 1000);
    let produce = |name: &str| region::ArenaRegion::claim(&arena, name, Duration::ZERO).map(drop);
    for other in ["g/0", "g/1", "g/77", "g/x", "g/x/y"] {
        let below = claim(&arena, other);
        let above = produce("g");
        assert!(matches!(above, Err(Error::BadName { .. })), "above '{other}': {above:?}");
        arena.remove(below).unwrap();
    }
    produce("g").unwrap();
    // Where there are many, not all are looked at.
    let many: Vec<Claimed> = (0..500).map(|number| claim(&arena, &format!("many{number}"))).collect();
    drop((many, claim(&arena, "h/1")));
    assert!(matches!(produce("h"), Err(Error::BadName { .. })));
    produce("g").unwrap();
}

#[test]
fn the_map_of_a_very_large_plane_makes_way_for_a_larger_one() {
    use crate::place::plane_file::PlaneFile;
    let dir = Dir::new("large-plane");
    let arena = dir.arena(20, 4);
    let region = Arc::new(region::ArenaRegion::claim(&arena, "r", Duration::ZERO).unwrap());
    region.make_head(&[0; head::HEAD_BYTES]).unwrap();
    let plane = PlaneFile::in_arena(&region, 0);
    // Windows of 350 GiB, and then of a tebibyte: words for them are more than the pages of small chunks.
    plane.grow(180_000).unwrap();
    plane.grow(600_000).unwrap();
    assert_eq!(region.claimed().owned().unwrap().chunks.iter().map(Range::len).sum::<usize>(), 2);
    drop((plane, region));
    check_nothing_lost(&arena);
}

#[test]
fn who_describes_a_region_that_is_just_removed_reads_nothing_that_has_no_memory() {
    let _watchdog = watchdog(60);
    if !is_root() {
        eprintln!("skipped: only root can mount a small file system");
        return;
    }
    let dir = Dir::new("described");
    let target = std::ffi::CString::new(dir.0.to_str().unwrap()).unwrap();
    // SAFETY: all pointers are to strings that live through the calls; the child ends without running what is the parent's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let described = std::panic::catch_unwind(|| {
            // SAFETY: as above.
            unsafe {
                assert_eq!(libc::unshare(libc::CLONE_NEWNS), 0);
                let (none, root, private) = (c"none".as_ptr(), c"/".as_ptr(), libc::MS_REC | libc::MS_PRIVATE);
                assert_eq!(libc::mount(none, root, std::ptr::null(), private, std::ptr::null()), 0);
                let size = c"size=16m,mode=700".as_ptr().cast();
                assert_eq!(libc::mount(none, target.as_ptr(), c"tmpfs".as_ptr(), 0, size), 0);
            }
            let arena = dir.arena(6, 4);
            let look = dir.options().look("a").unwrap();
            let region = region::ArenaRegion::claim(&arena, "r", Duration::ZERO).unwrap();
            region.make_head(&[0; head::HEAD_BYTES]).unwrap();
            drop(region);
            let found = look.find("r").unwrap().unwrap();
            assert!(arena.remove(claim(&arena, "r")).unwrap());
            let ballast = std::fs::File::create(dir.0.join("ballast")).unwrap();
            while ballast.write_at(&[1; PAGE_BYTES], ballast.metadata().unwrap().len()).is_ok() {}
            assert!(look.plane_bytes(&found).unwrap().is_empty());
        });
        // SAFETY: as above.
        unsafe { libc::_exit(i32::from(described.is_err())) }
    }
    let mut status = 0;
    // SAFETY: the pointer is to a live number, and the child is one of this process.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
}

#[test]
fn nothing_points_to_a_region_that_a_dead_process_was_replacing() {
    let dir = Dir::new("half-replaced");
    let arena = dir.arena(8, 10);
    let (new, old) = (claim(&arena, "new").number(), claim(&arena, "old").number());
    // What a process leaves that dies when it has marked "old" as removed, to put "new" in its place.
    arena.shared.map.write(arena::FROM_AT, &arena::encode_name("new"));
    arena.shared.map.write(arena::TO_AT, &arena::encode_name("old"));
    arena.shared.map.word32(arena::PENDING_AT).store(arena::REPLACING, Ordering::SeqCst);
    arena.shared.set_state(old, arena::State::Removing);
    assert_eq!(claim(&arena, "old").number(), new);
    assert_eq!(arena.collect().unwrap(), 1);
    let words = 0..arena.shared.geometry.buckets();
    let word = |bucket| arena.memory().word32(arena.shared.geometry.bucket_at(bucket)).load(Ordering::Relaxed);
    let pointing: Vec<u32> = words.map(word).filter(|word| ![arena::EMPTY, arena::DELETED].contains(word)).collect();
    assert_eq!(pointing, [word_of(new)], "and not to {}", word_of(old));
}
