//! Arenas in one process: what is found, taken, given back, refused.
#![allow(unsafe_code)]

mod beside;
mod filled;
mod processes;
#[path = "../../../tests/it/common/watchdog.rs"]
mod watchdog;

use super::*;
use crate::Shortage;
use std::ops::Range;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use stillframe_kernel::PAGE_BYTES;
use stillframe_kernel::folder;
use stillframe_kernel::trust::{Guard, Purpose, Trust};
use stillframe_protocol::Leases;
use stillframe_segment::arena::{self, CHUNK_BYTES, CHUNK_PAGES, record, word_of};
use stillframe_segment::{head, lease};
use watchdog::watchdog;

const NOBODY: u32 = 65534;

/// A directory of one test's own in shared memory, removed at its end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/dev/shm/stillframe-arena-{}-{number}-{name}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Dir(path)
    }

    fn options(&self) -> ArenaOptions {
        Arena::options().dir(&self.0)
    }

    /// An arena `a` of so many chunks, one of them for its tables.
    fn arena(&self, chunks: u64, regions: u32) -> Arena {
        self.options().bytes(chunks * CHUNK_BYTES as u64).regions(regions).create("a").unwrap()
    }

    fn file(&self) -> std::fs::File {
        std::fs::File::options().read(true).write(true).open(self.0.join("a/arena")).unwrap()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One run, and nothing else.
fn run(of: Range<u32>) -> Vec<Range<u32>> {
    std::iter::once(of).collect()
}

fn claim(arena: &Arena, name: &str) -> Claimed {
    arena.claim(name, Duration::ZERO).unwrap()
}

/// Removes all regions, and shows that all of the arena can be had then: every chunk, in one piece and empty, and as many
/// regions as there may be.
fn check_nothing_lost(arena: &Arena) {
    for (name, _) in arena.regions().unwrap() {
        assert!(arena.remove(claim(arena, &name)).unwrap(), "'{name}' is held");
    }
    arena.collect().unwrap();
    let usage = arena.usage().unwrap();
    assert_eq!(usage.regions, []);
    assert_eq!(usage.free_bytes + usage.tables_bytes, usage.bytes, "{usage:?}");
    let all = arena.shared.geometry.free_chunks();
    let region = claim(arena, "all");
    assert_eq!(region.take_chunks(all.len() as u32).unwrap(), std::slice::from_ref(&all));
    let data = stillframe_kernel::space::data_ranges(arena.file(), chunks::at(all.start), arena.bytes()).unwrap();
    assert!(arena.is_hugetlb() || data.is_empty(), "what nobody has still has memory: {data:?}");
    assert!(arena.remove(region).unwrap());
    let most = arena.usage().unwrap().regions_max;
    let regions: Vec<Claimed> = (0..most).map(|number| claim(arena, &format!("all{number}"))).collect();
    regions.into_iter().for_each(|region| assert!(arena.remove(region).unwrap()));
}

#[test]
fn a_process_opens_an_arena_once_to_write_and_once_to_look() {
    let dir = Dir::new("once");
    let arena = dir.arena(4, 10);
    let again = dir.options().open("a").unwrap();
    let other = dir.options().bytes(4 * CHUNK_BYTES as u64).regions(10).create("a").unwrap();
    assert!(Arc::ptr_eq(&arena.shared, &again.shared) && Arc::ptr_eq(&arena.shared, &other.shared));
    let look = dir.options().look("a").unwrap();
    assert!(!Arc::ptr_eq(&arena.shared, &look.shared));
    assert!(Arc::ptr_eq(&dir.options().look("a").unwrap().shared, &look.shared));
    assert_eq!((arena.name(), arena.bytes()), ("a", 4 * CHUNK_BYTES as u64));
    assert_eq!(arena.path(), dir.0.join("a"));
    assert!(matches!(look.claim("r", Duration::ZERO), Err(Error::BadOption { option: "arena", .. })));
    let region = claim(&arena, "group/0");
    let found = look.find("group/0").unwrap().unwrap();
    assert_eq!((found.number, found.generation, found.head_at), (0, 1, None));
    let head = region.take_pages(3).unwrap();
    region.set_head(head.start).unwrap();
    let head_at = u64::from(head.start) * PAGE_BYTES as u64;
    assert_eq!(look.find("group/0").unwrap().unwrap().head_at, Some(head_at));
    arena.memory().word64(head_at as usize).store(77, Ordering::Relaxed);
    assert_eq!(look.memory().word64(head_at as usize).load(Ordering::Relaxed), 77);
    for (bytes, regions) in [(5, 10), (4, 11)] {
        let other = dir.options().bytes(bytes * CHUNK_BYTES as u64).regions(regions).create("a");
        assert!(matches!(&other, Err(Error::BadOption { option: "bytes", why }) if why.contains("for 10 regions")));
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let dir = Dir::new("options");
    let options = || dir.options().bytes(8 << 20).regions(10);
    let bad = |result: Result<Arena>| match result {
        Err(Error::BadOption { option, .. } | Error::BadName { what: option, .. }) => option,
        other => panic!("{other:?}"),
    };
    assert_eq!(bad(options().bytes(0).create("a")), "bytes");
    assert_eq!(bad(options().bytes(CHUNK_BYTES as u64).create("a")), "bytes");
    assert_eq!(bad(options().bytes(u64::MAX).create("a")), "bytes");
    assert_eq!(bad(options().regions(0).create("a")), "regions");
    assert_eq!(bad(options().regions(1 << 20).create("a")), "regions");
    assert_eq!(bad(options().mode(0o070).create("a")), "mode");
    assert_eq!(bad(options().create("a/../b")), "region");
    assert_eq!(bad(options().create("lease")), "region");
    let mut region = crate::Region::options().dir(&dir.0).create("r").unwrap();
    region.publish(1).commit().unwrap();
    assert_eq!(bad(options().create("r")), "arena");
    let none = |result: Result<Arena>, is_half_made: bool| {
        let Err(Error::NoArena { arena, half_made, .. }) = result else { panic!("{result:?}") };
        assert_eq!((arena.as_str(), half_made), ("none", is_half_made));
    };
    none(dir.options().open("none"), false);
    none(dir.options().look("none"), false);
    none(Arena::options().dir(dir.0.join("none")).look("none"), false);
    std::fs::create_dir(dir.0.join("none")).unwrap();
    std::fs::write(dir.0.join("none/arena"), "").unwrap();
    none(dir.options().open("none"), true);
    none(dir.options().look("none"), true);
    // The directory that is named is the one in which the arena was looked for, and not the default.
    let guard = Guard::new(Trust::Own, Purpose::Look);
    let found = Directory::root(&dir.0, guard).unwrap().unwrap().below("none").unwrap().unwrap();
    let Err(Error::NoArena { dir: named, half_made: true, .. }) = Arena::options().write_in(&found, "none") else {
        panic!("it is no arena")
    };
    assert_eq!(named, dir.0);
}

/// Two names that begin at the same bucket, and a third that begins at the next.
fn colliding(arena: &Arena) -> [String; 3] {
    let bucket = |name: &str| arena::hash(name) & (arena.shared.geometry.buckets() - 1);
    let names = || (0..).map(|number| format!("r{number}"));
    let first = "r0".to_string();
    let second = names().find(|name| *name != first && bucket(name) == bucket(&first)).unwrap();
    let next = (bucket(&first) + 1) & (arena.shared.geometry.buckets() - 1);
    [first, second, names().find(|name| bucket(name) == next).unwrap()]
}

#[test]
fn names_that_collide_are_told_apart_whichever_goes_first() {
    let dir = Dir::new("collide");
    let arena = dir.arena(4, 16);
    let names = colliding(&arena);
    for gone in 0..3 {
        let mut regions: Vec<Option<Claimed>> = names.iter().map(|name| Some(claim(&arena, name))).collect();
        let numbers: Vec<u32> = regions.iter().flatten().map(Claimed::number).collect();
        let found = |name: &str| arena.find(name).unwrap().map(|found| found.number);
        for (name, number) in names.iter().zip(&numbers) {
            assert_eq!(found(name), Some(*number));
        }
        assert!(arena.remove(regions[gone].take().unwrap()).unwrap());
        for (index, (name, number)) in names.iter().zip(&numbers).enumerate() {
            assert_eq!(found(name), (index != gone).then_some(*number), "{name} after {}", names[gone]);
        }
        let again = claim(&arena, &names[gone]);
        assert!(again.generation() > 0);
        assert_eq!(arena.regions().unwrap().len(), 3);
        regions.into_iter().flatten().chain([again]).for_each(|region| assert!(arena.remove(region).unwrap()));
        // No bucket is left that has to be stepped over.
        let words = 0..arena.shared.geometry.buckets();
        assert!(words.clone().all(|bucket| {
            arena.memory().word32(arena.shared.geometry.bucket_at(bucket)).load(Ordering::Relaxed) == arena::EMPTY
        }));
    }
    check_nothing_lost(&arena);
}

#[test]
fn a_region_has_one_producer_and_its_number_another_generation_later() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("claim");
    let arena = dir.arena(4, 4);
    let look = dir.options().look("a").unwrap();
    let region = claim(&arena, "r");
    let found = look.find("r").unwrap().unwrap();
    let leases = look.leases("r", &found);
    assert!(leases.is_produced().unwrap() && region.leases().is_produced().unwrap());
    assert_eq!((region.name(), leases.number(), leases.generation()), ("r", 0, 1));
    let Err(error @ Error::InUse { pid, .. }) = arena.claim("r", Duration::from_millis(5)) else { panic!() };
    assert_eq!(pid, std::process::id());
    assert!(error.to_string().contains("'r'"), "{error}");
    drop(region);
    assert!(!leases.is_produced().unwrap() && leases.is_current());
    let region = claim(&arena, "r");
    assert!(region.number() == found.number && region.generation() == found.generation);
    assert!(arena.remove(region).unwrap());
    assert!(!leases.is_current() && look.find("r").unwrap().is_none());
    assert!(matches!(leases.hold(3), Err(Error::NoRegion { .. })));
    let others: Vec<Claimed> = (0..4).map(|number| claim(&arena, &format!("s{number}"))).collect();
    let later = others.iter().find(|other| other.number() == found.number).unwrap();
    assert!(later.generation() > found.generation && !leases.is_current() && !leases.is_produced().unwrap());
    let Err(error) = arena.claim("one more", Duration::ZERO) else { panic!() };
    assert!(matches!(error, Error::BadName { .. }));
    let Err(error) = arena.claim("more", Duration::ZERO) else { panic!() };
    assert!(matches!(&error, Error::ArenaFull { shortage: Shortage::Regions { most: 4 }, .. }), "{error}");
    drop(others);
    check_nothing_lost(&arena);
}

#[test]
fn chunks_are_taken_in_one_run_or_in_several_and_come_back_empty() {
    let dir = Dir::new("chunks");
    let arena = dir.arena(13, 4);
    let (left, right) = (claim(&arena, "left"), claim(&arena, "right"));
    assert_eq!(left.take_chunks(0).unwrap(), []);
    assert_eq!(left.take_chunks(3).unwrap(), run(1..4));
    assert_eq!(right.take_chunks(1).unwrap(), run(4..5));
    assert_eq!(left.take_chunks(3).unwrap(), run(5..8));
    assert_eq!(right.take_chunks(5).unwrap(), run(8..13));
    let fill = |chunks: Range<u32>| {
        let bytes = vec![7; CHUNK_BYTES];
        chunks.for_each(|chunk| arena.memory().write(chunks::at(chunk) as usize, &bytes));
    };
    fill(1..13);
    let Err(error) = left.take_chunks(1) else { panic!() };
    let text = error.to_string();
    for word in
        ["arena 'a'", "0 of its 27262976 bytes free and this needs 2097152", "'left' has 12582912", "'right' has"]
    {
        assert!(text.contains(word), "'{word}' is not in: {text}");
    }
    assert!(error.is_want_of_room() && error.code() == 121);
    left.give_back_chunks(2..4).unwrap();
    right.give_back_chunks(9..12).unwrap();
    // No run is long enough.
    let fourth = claim(&arena, "fourth");
    assert_eq!(fourth.take_chunks(4).unwrap(), [2..4, 9..11]);
    assert_eq!(fourth.owned().unwrap(), Owned { chunks: vec![2..4, 9..11], pages: vec![] });
    assert_eq!(fourth.owned().unwrap().bytes(), 4 * CHUNK_BYTES as u64);
    let mut content = vec![1; CHUNK_BYTES];
    for chunk in [2, 3, 9, 10] {
        arena.memory().read(chunks::at(chunk) as usize, &mut content);
        assert!(content.iter().all(|byte| *byte == 0), "chunk {chunk} has somebody else's bytes");
    }
    assert!(matches!(fourth.take_chunks(2), Err(Error::ArenaFull { .. })));
    assert_eq!(fourth.owned().unwrap().bytes(), 4 * CHUNK_BYTES as u64, "what was not enough was given back");
    // What is not one's own, or no chunk at all, is not given back.
    for chunk in [0, 1, 8, 11, 13, u32::MAX] {
        assert!(
            matches!(fourth.give_back_chunks(chunk..chunk.saturating_add(1)), Err(Error::Corrupt { .. }))
                || chunk == u32::MAX
        );
    }
    drop((left, right, fourth));
    check_nothing_lost(&arena);
}

#[test]
fn small_regions_share_chunks_and_leave_them_when_they_are_wanted_whole() {
    let dir = Dir::new("pages");
    let arena = dir.arena(5, 100);
    let regions: Vec<Claimed> = (0..50).map(|number| claim(&arena, &format!("r{number}"))).collect();
    let mut pages = Vec::new();
    for region in &regions {
        pages.push((region, region.take_pages(3).unwrap()));
        pages.push((region, region.take_pages(16).unwrap()));
    }
    let usage = arena.usage().unwrap();
    assert_eq!((usage.small_chunks, usage.free_chunks), (2, 2));
    assert!(usage.regions.iter().all(|region| region.bytes == 19 * PAGE_BYTES as u64));
    let mut seen = std::collections::BTreeSet::new();
    for (region, run) in &pages {
        assert!(run.clone().all(|page| seen.insert(page)), "{run:?} belongs to two");
        assert_eq!(arena::chunk_of(run.start), arena::chunk_of(run.end - 1));
        let stamp = [region.number() as u8 + 1; PAGE_BYTES];
        run.clone().for_each(|page| arena.memory().write(page as usize * PAGE_BYTES, &stamp));
        assert!(region.owned().unwrap().pages.iter().any(|own| own.start <= run.start && run.end <= own.end));
    }
    // Half of it back; what is taken then is empty.
    let (back, kept): (Vec<_>, Vec<_>) = pages.into_iter().partition(|(region, _)| region.number() % 2 == 0);
    back.iter().for_each(|(region, run)| region.give_back_pages(run.clone()).unwrap());
    let other = claim(&arena, "other");
    let taken: Vec<Range<u32>> = (0..20).map(|_| other.take_pages(19).unwrap()).collect();
    let mut content = [1; PAGE_BYTES];
    for page in taken.iter().cloned().flatten() {
        arena.memory().read(page as usize * PAGE_BYTES, &mut content);
        assert!(content.iter().all(|byte| *byte == 0), "page {page} has somebody else's bytes");
    }
    for (region, run) in &kept {
        arena.memory().read(run.start as usize * PAGE_BYTES, &mut content);
        assert_eq!(content, [region.number() as u8 + 1; PAGE_BYTES]);
    }
    assert_eq!(arena.usage().unwrap().small_chunks, 2, "there was room in the chunks that are small already");
    assert!(matches!(other.take_pages(0), Err(Error::BadOption { .. })));
    assert!(matches!(other.take_pages(CHUNK_PAGES as u32 + 1), Err(Error::BadOption { .. })));
    assert!(matches!(other.give_back_pages(kept[0].1.clone()), Err(Error::Corrupt { .. })));
    // No run as long as a chunk, though there are as many pages.
    let whole: Vec<Range<u32>> = (0..2).map(|_| other.take_pages(CHUNK_PAGES as u32).unwrap()).collect();
    let Err(error) = other.take_pages(CHUNK_PAGES as u32) else { panic!() };
    assert!(matches!(error, Error::ArenaFull { .. }));
    whole.into_iter().for_each(|run| other.give_back_pages(run).unwrap());
    assert_eq!(other.take_chunks(2).unwrap(), run(3..5));
    drop((back, kept));
    drop((other, regions));
    check_nothing_lost(&arena);
}

#[test]
fn pages_of_a_chunk_that_is_small_no_more_are_not_taken() {
    let dir = Dir::new("stale");
    let arena = dir.arena(4, 4);
    let (late, owner) = (claim(&arena, "late"), claim(&arena, "owner"));
    let pages = owner.take_pages(9).unwrap();
    let chunk = arena::chunk_of(pages.start);
    owner.give_back_pages(pages.clone()).unwrap();
    let take = || arena.shared.take_these_pages(late.number(), chunk, pages.clone()).unwrap();
    let words = || arena.shared.page_owners(chunk);
    assert!(take());
    late.give_back_pages(pages.clone()).unwrap();
    // What somebody finds who saw the chunk small, and comes when another region has all of it, or is just making it small.
    let all = arena.shared.geometry.free_chunks();
    assert_eq!(owner.take_chunks(all.len() as u32).unwrap(), std::slice::from_ref(&all));
    let closed = words();
    assert!(!take());
    assert_eq!(words(), closed);
    for page in arena::pages_of(chunk) {
        arena.memory().word32(arena.shared.geometry.page_owner_at(page)).store(arena::FREE, Ordering::Relaxed);
    }
    assert!(!take());
    assert_eq!(words(), [arena::FREE; CHUNK_PAGES]);
    assert_eq!(late.owned().unwrap(), Owned::default());
    drop((late, owner));
    check_nothing_lost(&arena);
}

/// As a process sees an arena that is another enclave's in one of the two.
#[test]
fn an_arena_in_two_directories_is_held_by_the_locks_of_the_one_it_is_opened_in() {
    let dir = Dir::new("twice");
    let arena = dir.arena(4, 4);
    let region = claim(&arena, "r");
    let beside = dir.0.join("b");
    std::fs::create_dir(&beside).unwrap();
    std::fs::hard_link(dir.0.join("a/arena"), beside.join("arena")).unwrap();
    std::fs::write(beside.join(lease::FILE), "").unwrap();
    let [look, elsewhere] = ["a", "b"].map(|name| dir.options().look(name).unwrap());
    let found = elsewhere.find("r").unwrap().unwrap();
    let leases = elsewhere.leases("r", &found);
    leases.hold(5).unwrap();
    assert!(leases.is_held(5).unwrap() && !region.leases().is_held(5).unwrap());
    let found = look.find("r").unwrap().unwrap();
    let leases = look.leases("r", &found);
    leases.hold(6).unwrap();
    assert!(region.leases().is_held(6).unwrap());
}

#[test]
fn a_removed_region_keeps_what_somebody_holds_and_its_name_is_free_at_once() {
    let dir = Dir::new("held");
    let arena = dir.arena(4, 4);
    let look = dir.options().look("a").unwrap();
    let region = claim(&arena, "r");
    let chunks = region.take_chunks(2).unwrap();
    arena.memory().write(chunks::at(chunks[0].start) as usize, &[9; PAGE_BYTES]);
    let found = look.find("r").unwrap().unwrap();
    let leases = look.leases("r", &found);
    leases.hold(5).unwrap();
    leases.hold(5).unwrap();
    assert!(region.leases().is_held(5).unwrap() && !region.leases().is_held(4).unwrap());
    let kept = leases.keep(5).unwrap();
    assert!(!arena.remove(region).unwrap());
    let again = claim(&arena, "r");
    assert!(again.number() != found.number);
    let Err(Error::ArenaFull { holders, .. }) = again.take_chunks(2) else { panic!() };
    assert_eq!(holders[0], ("r".to_string(), 2 * CHUNK_BYTES as u64));
    assert!(arena.usage().unwrap().regions.iter().any(|usage| usage.is_removed && usage.bytes > 0));
    assert_eq!(arena.collect().unwrap(), 0);
    for is_last in [false, false, true] {
        let mut content = [0; PAGE_BYTES];
        look.memory().read(chunks::at(chunks[0].start) as usize, &mut content);
        assert_eq!(content, [9; PAGE_BYTES]);
        assert!(again.take_chunks(2).is_err());
        if !is_last {
            leases.release(5);
        }
    }
    assert!(leases.hold(6).is_err() && !leases.is_held(6).unwrap());
    drop(kept);
    // Whoever finds the arena full gives back what nobody holds any more.
    assert_eq!(again.take_chunks(2).unwrap(), chunks);
    drop(again);
    check_nothing_lost(&arena);
}

#[test]
fn sixteen_thousand_regions_cost_no_descriptor_and_few_locks() {
    let _watchdog = watchdog(600);
    const COUNT: u32 = 16_000;
    let dir = Dir::new("many");
    let arena = dir.options().bytes(4 << 30).regions(COUNT).create("a").unwrap();
    let look = dir.options().look("a").unwrap();
    let names: Vec<String> = (0..COUNT).map(|number| format!("fragments/{}/{}", number % 16, number / 16)).collect();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    // Other tests run beside this one.
    let locks = |file: &str| {
        let inode = std::fs::metadata(dir.0.join("a").join(file)).unwrap().ino();
        let text = std::fs::read_to_string("/proc/locks").unwrap();
        text.lines().filter(|line| line.contains(&format!(":{inode} "))).count()
    };
    // The list is read in parts, and what others lock and unlock meanwhile moves what comes behind it.
    let await_locks = |expected: (usize, usize)| {
        let begin = Instant::now();
        loop {
            let found = (locks(lease::PRODUCER_FILE), locks(lease::FILE));
            if found == expected || begin.elapsed() > Duration::from_secs(120) {
                return assert_eq!(found, expected);
            }
        }
    };
    let before = descriptors();
    let each = |what: &str, begin: Instant| {
        eprintln!("{what}: {:.2} µs each", begin.elapsed().as_secs_f64() * 1e6 / f64::from(COUNT));
    };
    let begin = Instant::now();
    let regions: Vec<Claimed> = names.iter().map(|name| claim(&arena, name)).collect();
    each("create", begin);
    let begin = Instant::now();
    let pages: Vec<Range<u32>> = regions.iter().map(|region| region.take_pages(16).unwrap()).collect();
    each("take 16 pages", begin);
    assert!(descriptors() < before + 1000, "{before} and {} descriptors", descriptors());
    await_locks((1, 1));
    let memory_bytes = std::fs::metadata(dir.0.join("a/arena")).unwrap().blocks() * 512;
    assert!(memory_bytes < 8 << 20, "{memory_bytes} bytes for {COUNT} records");
    let begin = Instant::now();
    for (name, region) in names.iter().zip(&regions) {
        assert_eq!(look.find(name).unwrap().unwrap().number, region.number());
    }
    each("find", begin);
    assert_eq!(look.regions().unwrap().len(), COUNT as usize);
    drop(regions);
    await_locks((0, 0));
    let begin = Instant::now();
    let regions: Vec<Claimed> = names.iter().map(|name| claim(&arena, name)).collect();
    each("claim again", begin);
    let begin = Instant::now();
    for (region, pages) in regions.iter().zip(&pages) {
        assert_eq!(region.owned().unwrap().pages, std::slice::from_ref(pages));
    }
    each("owned", begin);
    let leases: Vec<ArenaLeases> =
        names.iter().map(|name| look.leases(name, &look.find(name).unwrap().unwrap())).collect();
    // The kernel goes through all leases of the arena for each question.
    for count in [1000, 4000] {
        leases[..count].iter().for_each(|leases| leases.hold(0).unwrap());
        let begin = Instant::now();
        for leases in &leases[..100] {
            leases.hold(1).unwrap();
            assert!(!regions[5000].leases().is_held(1).unwrap());
            leases.release(1);
        }
        eprintln!("hold, ask and release beside {count}: {:.2} µs", begin.elapsed().as_secs_f64() * 1e6 / 100.0);
        leases[..count].iter().for_each(|leases| leases.release(0));
    }
    let begin = Instant::now();
    regions.into_iter().for_each(|region| assert!(arena.remove(region).unwrap()));
    each("remove", begin);
    check_nothing_lost(&arena);
}

fn check_corrupt(result: Result<impl std::fmt::Debug>, at: u64) {
    let Err(Error::Corrupt { corrupt, .. }) = &result else { panic!("{result:?}") };
    assert_eq!((corrupt.file.as_str(), corrupt.offset), ("arena", at), "{corrupt}");
}

#[test]
fn what_is_cut_of_another_format_or_no_arena_is_refused() {
    let dir = Dir::new("refused");
    drop(dir.arena(4, 4));
    let file = dir.file();
    let open =
        || [dir.options().open("a"), dir.options().look("a"), dir.options().bytes(4 * CHUNK_BYTES as u64).create("a")];
    let whole = file.metadata().unwrap().len();
    for bytes in [whole - 1, 3 * CHUNK_BYTES as u64, 4096] {
        file.set_len(bytes).unwrap();
        open().into_iter().for_each(|result| check_corrupt(result, bytes));
    }
    file.set_len(100).unwrap();
    open().into_iter().for_each(|result| check_corrupt(result, 100));
    drop(file);
    std::fs::remove_dir_all(dir.0.join("a")).unwrap();
    drop(dir.arena(4, 4));
    let file = dir.file();
    let mut header = vec![0; arena::HEADER_BYTES];
    file.read_exact_at(&mut header, 0).unwrap();
    for (at, word) in [(arena::ABI_AT, 2), (arena::PAGE_BYTES_AT, 65536), (arena::CHUNKS_AT, 5), (arena::MAGIC_AT, 9)] {
        file.write_all_at(&u32::to_le_bytes(word), at as u64).unwrap();
        let at = if at == arena::CHUNKS_AT { arena::CRC_AT } else { at };
        open().into_iter().for_each(|result| check_corrupt(result, at as u64));
        file.write_all_at(&header, 0).unwrap();
    }
    // A longer file is as good, and what is behind the end is nobody's.
    file.set_len(whole + 1).unwrap();
    assert_eq!(dir.options().open("a").unwrap().bytes(), whole);
    std::fs::remove_file(dir.0.join("a/lease.producer")).unwrap();
    assert!(matches!(dir.options().open("a"), Err(Error::NoArena { .. })));
}

#[test]
fn words_that_make_no_sense_are_named_and_never_followed() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("words");
    let arena = dir.arena(4, 40);
    let geometry = arena.shared.geometry;
    let region = claim(&arena, "r");
    let pages = region.take_pages(2).unwrap();
    let word = |at: usize| arena.memory().word32(at);
    let bucket = (0..geometry.buckets()).find(|bucket| word(geometry.bucket_at(*bucket)).load(Ordering::Relaxed) == 1);
    let bucket_at = geometry.bucket_at(bucket.unwrap());
    let record_at = geometry.record_at(0);
    let everything = || -> Vec<Result<()>> {
        vec![
            arena.find("r").map(drop),
            arena.regions().map(drop),
            arena.usage().map(drop),
            arena.claim("s", Duration::ZERO).map(drop),
            region.owned().map(drop),
        ]
    };
    let wrong = [
        (bucket_at, 42),
        (bucket_at, 40),
        (record_at + record::STATE_AT, 9),
        (record_at + record::NAME_BYTES_AT, u32::MAX),
        (record_at + record::NAME_AT, 0x0a0a_0a0a),
        (record_at + record::HEAD_PAGE_AT, u32::MAX),
        (record_at + record::SPAN_AT, 99),
        (record_at + record::SPAN_AT + 4, u32::MAX),
        (geometry.chunk_owner_at(2), 88),
        (geometry.chunk_owner_at(0), 0),
        (geometry.page_owner_at(pages.start), 99),
        (arena::PENDING_AT, 77),
        (arena::PENDING_AT, 40),
        (arena::RECORDS_END_AT, 77),
    ];
    for (at, value) in wrong {
        let before = word(at).swap(value, Ordering::Relaxed);
        let errors: Vec<Error> = everything().into_iter().filter_map(Result::err).collect();
        assert!(!errors.is_empty(), "nobody sees {value} at {at}");
        for error in errors {
            let Error::Corrupt { corrupt, .. } = &error else { panic!("{error}") };
            assert_eq!(
                corrupt.offset as usize,
                at / 8 * 8 + if at == record_at + record::SPAN_AT + 4 { 0 } else { at % 8 },
                "{error}"
            );
        }
        word(at).store(before, Ordering::Relaxed);
        assert!(everything().into_iter().all(|result| result.is_ok()));
        assert!(arena.remove(claim(&arena, "s")).unwrap());
    }
    drop(region);
    check_nothing_lost(&arena);
}

fn is_root() -> bool {
    let root = stillframe_kernel::user_id() == 0;
    if !root {
        eprintln!("skipped: only root can make files of other users");
    }
    root
}

#[test]
fn another_users_arena_is_not_written_in() {
    if !is_root() {
        return;
    }
    for file in ["", "arena", "lease", "lease.producer"] {
        let dir = Dir::new("foreign");
        drop(dir.arena(4, 4));
        let path = dir.0.join("a").join(file);
        std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        for result in [dir.options().open("a"), dir.options().bytes(4 * CHUNK_BYTES as u64).regions(4).create("a")] {
            let Err(error @ Error::Untrusted { .. }) = result else { panic!("{file}: {result:?}") };
            assert!(error.to_string().contains("belongs to user 65534, not to user 0"), "{error}");
        }
        let trust = crate::Trust::User(NOBODY);
        dir.options().trust(trust).open("a").unwrap();
    }
    let dir = Dir::new("open");
    drop(dir.arena(4, 4));
    let path = dir.0.join("a/arena");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert!(matches!(dir.options().open("a"), Err(Error::Untrusted { .. })));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(&path, dir.0.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(dir.0.join("elsewhere"), &path).unwrap();
    for result in [dir.options().open("a"), dir.options().look("a")] {
        assert!(matches!(result, Err(Error::Untrusted { .. })), "{result:?}");
    }
}

#[test]
fn readers_that_lock_all_they_can_keep_no_producer_out() {
    let dir = Dir::new("hostile");
    let arena = dir.arena(4, 8);
    let mode = |file: &str| std::fs::metadata(dir.0.join("a").join(file)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("lease.producer"), 0o600);
    let hostile = ["arena", "lease"].map(|file| std::fs::File::open(dir.0.join("a").join(file)).unwrap());
    for file in &hostile {
        assert!(lock::try_lock(file, Kind::Read, 0, i64::MAX as u64).unwrap());
    }
    let region = claim(&arena, "r");
    region.take_chunks(1).unwrap();
    region.take_pages(4).unwrap();
    drop(region);
    let region = claim(&arena, "r");
    // It can hold, as any reader can.
    assert!(!arena.remove(region).unwrap());
    assert!(arena.find("r").unwrap().is_none());
    drop(hostile);
    check_nothing_lost(&arena);
}

#[test]
fn those_may_lock_as_producers_who_may_write() {
    for (mode, expected) in [(0o700, 0o600), (0o755, 0o600), (0o770, 0o660), (0o777, 0o666), (0o750, 0o600)] {
        let dir = Dir::new("mode");
        drop(dir.options().bytes(8 << 20).mode(mode).create("a").unwrap());
        let found = |file: &str| std::fs::metadata(dir.0.join("a").join(file)).unwrap().permissions().mode() & 0o777;
        assert_eq!((found("lease.producer"), found("arena")), (expected, mode & 0o666));
    }
}

fn memory_file(flags: libc::c_uint) -> Option<OwnedFd> {
    // SAFETY: the name ends with a zero byte, and the descriptor is nobody else's.
    unsafe {
        let descriptor = libc::memfd_create(c"arena".as_ptr(), flags | libc::MFD_CLOEXEC);
        (descriptor >= 0).then(|| OwnedFd::from_raw_fd(descriptor))
    }
}

#[test]
fn an_arena_may_live_in_a_file_that_was_handed_in() {
    let dir = Dir::new("descriptor");
    let handed = memory_file(0).unwrap();
    let options = || dir.options().bytes(6 * CHUNK_BYTES as u64).regions(8);
    let arena = options().from_descriptor(handed.try_clone().unwrap(), "vm").unwrap();
    let again = Arena::options().from_descriptor(handed.try_clone().unwrap(), "other").unwrap();
    assert!(Arc::ptr_eq(&arena.shared, &again.shared));
    assert_eq!((arena.name(), arena.bytes()), ("vm", 6 * CHUNK_BYTES as u64));
    let file = std::fs::File::from(handed.try_clone().unwrap());
    let read = folder::reopen(&file, false).unwrap();
    let look = Arena::options().from_descriptor(read.into(), "vm").unwrap();
    let region = claim(&arena, "r");
    // The locks are on an opening of the arena's own, so that who shares the descriptor has none of them.
    assert!(lock::is_held(&file, Kind::Read, arena::PRODUCER_AT + u64::from(region.number()), 1).unwrap());
    region.take_pages(5).unwrap();
    region.take_chunks(2).unwrap();
    let found = look.find("r").unwrap().unwrap();
    let leases = look.leases("r", &found);
    assert!(leases.is_produced().unwrap());
    leases.hold(63).unwrap();
    assert!(region.leases().is_held(63).unwrap() && !region.leases().is_held(62).unwrap());
    let kept = leases.keep(63).unwrap();
    leases.release(63);
    assert!(region.leases().is_held(63).unwrap());
    drop(kept);
    assert!(!region.leases().is_held(63).unwrap());
    assert!(matches!(look.claim("r", Duration::ZERO), Err(Error::BadOption { .. })));
    drop(region);
    assert!(!leases.is_produced().unwrap());
    check_nothing_lost(&arena);
    // A length that was given stays, whatever the options say; no length and no options are an error.
    let sized = std::fs::File::from(memory_file(0).unwrap());
    sized.set_len(3 * CHUNK_BYTES as u64 + 5).unwrap();
    assert_eq!(options().from_descriptor(sized.into(), "sized").unwrap().bytes(), 3 * CHUNK_BYTES as u64);
    let empty = || memory_file(0).unwrap();
    assert!(matches!(Arena::options().from_descriptor(empty(), "e"), Err(Error::BadOption { option: "bytes", .. })));
    let read = folder::reopen(&std::fs::File::from(empty()), false).unwrap();
    assert!(matches!(options().from_descriptor(read.into(), "e"), Err(Error::NoArena { half_made: true, .. })));
    let other = std::fs::File::from(empty());
    other.write_all_at(b"ELF or whatever", 0).unwrap();
    check_corrupt(options().from_descriptor(other.into(), "e"), 0);
    let folder = std::fs::File::open(&dir.0).unwrap();
    assert!(matches!(options().from_descriptor(folder.into(), "e"), Err(Error::Untrusted { .. })));
}

#[test]
fn a_forked_child_has_no_part_in_its_parents_arena() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("fork");
    let arena = dir.arena(4, 4);
    let region = claim(&arena, "r");
    // SAFETY: the child makes calls and ends without running what belongs to the parent.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = |result: Result<()>| matches!(result, Err(Error::Forked { .. }));
        let all = refused(region.take_chunks(1).map(drop))
            && refused(region.take_pages(1).map(drop))
            && refused(region.leases().hold(1))
            && refused(region.leases().is_held(1).map(drop))
            && refused(region.leases().is_produced().map(drop))
            && refused(region.owned().map(drop))
            && refused(arena.claim("s", Duration::ZERO).map(drop));
        drop(region);
        // What it opens itself is its own.
        let own = dir.options().open("a").unwrap();
        let all = all
            && matches!(own.claim("r", Duration::ZERO), Err(Error::InUse { .. }))
            && own.claim("child", Duration::ZERO).is_ok();
        // SAFETY: as above.
        unsafe { libc::_exit(i32::from(!all)) };
    }
    let mut status = 0;
    // SAFETY: the pointer is to a live number, and the child is one of this process.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    assert!(region.leases().is_produced().unwrap());
    region.take_chunks(1).unwrap();
    drop(region);
    check_nothing_lost(&arena);
}

#[test]
fn a_number_of_slots_is_that_of_the_ring() {
    assert_eq!(arena::slots_range(1).0, arena::slot_at(0, head::SLOTS - 1) + arena::SLOT_STRIDE);
    assert_eq!(word_of(0), 1);
}

#[test]
fn who_claims_a_region_that_a_dead_process_was_replacing_gets_the_new_one() {
    let dir = Dir::new("half-renamed");
    let arena = dir.arena(8, 10);
    let (new, old) = (claim(&arena, "new").number(), claim(&arena, "old").number());
    for is_any in [true, false] {
        // What stands in the header when a process dies as soon as it has begun to put "new" in the place of "old".
        arena.shared.map.write(arena::FROM_AT, &arena::encode_name("new"));
        arena.shared.map.write(arena::TO_AT, &arena::encode_name("old"));
        arena.shared.map.word32(arena::PENDING_AT).store(arena::REPLACING, Ordering::SeqCst);
        let claimed = match is_any {
            true => claim(&arena, "old"),
            false => arena.try_claim("old").unwrap().unwrap().unwrap(),
        };
        assert_eq!((claimed.number(), claimed.number() == old), (new, false));
        assert_eq!(arena.find("old").unwrap().map(|found| found.number), Some(new));
        assert!(arena.find("new").unwrap().is_none());
        if is_any {
            drop(claimed);
            // Once more, the other way to claim: the names are as they were at first.
            let other = claim(&arena, "other");
            arena.rename("old", "new", &[claim(&arena, "old")], Vec::new()).unwrap();
            drop(other);
            arena.remove(claim(&arena, "other")).unwrap();
            drop(claim(&arena, "old"));
        }
    }
}
