//! Arenas that have all their memory.

use super::*;
use crate::{Observer, Region};
use std::ops::ControlFlow;

fn allocated_bytes(dir: &Dir) -> u64 {
    dir.file().metadata().unwrap().blocks() * 512
}

fn fill(arena: &Arena) -> u64 {
    arena.fill(&mut |_| ControlFlow::Continue(())).unwrap().unwrap()
}

/// Bytes of this process's mappings of a file that are entered as large pages.
fn large_bytes(path: &Path) -> u64 {
    let (smaps, path) = (std::fs::read_to_string("/proc/self/smaps").unwrap(), path.to_str().unwrap());
    let mut is_in = false;
    let mut kib = 0;
    for line in smaps.lines() {
        if line.split('-').next().is_some_and(|word| !word.is_empty() && u64::from_str_radix(word, 16).is_ok()) {
            is_in = line.ends_with(path);
        } else if let (true, Some(value)) = (is_in, line.strip_prefix("ShmemPmdMapped:")) {
            kib += value.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
        }
    }
    kib << 10
}

#[test]
fn an_arena_that_is_filled_keeps_its_memory_whatever_regions_come_and_go() {
    let dir = Dir::new("filled");
    let arena = dir.arena(16, 10);
    assert_eq!(arena.filling().unwrap(), Filling::Never);
    assert!(allocated_bytes(&dir) < arena.bytes());
    let mut steps = Vec::new();
    let large = arena.fill(&mut |done_bytes| {
        steps.push(done_bytes);
        ControlFlow::Continue(())
    });
    let large = large.unwrap().unwrap();
    assert!(steps.is_sorted() && steps.last() == Some(&arena.bytes()), "{steps:?}");
    assert_eq!(
        (allocated_bytes(&dir), arena.filling().unwrap()),
        (arena.bytes(), Filling::Done { large_bytes: large })
    );
    assert!(large_bytes(&dir.0.join("a/arena")) >= large, "they are mapped so");
    if large < arena.bytes() {
        eprintln!("only {large} of {} bytes in large pages: Linux 6.1 makes them", arena.bytes());
    }
    for step in 0..3u32 {
        let mut region = Region::options().arena(&arena).create("u").unwrap();
        let u = region.array::<u32>("u", &[1 << 19]).unwrap();
        assert!(region.slice(&u).iter().all(|value| *value == 0), "what a former region left");
        for number in 1..6 {
            region.slice_mut(&u).fill(step + number);
            region.publish(u64::from(number)).commit().unwrap();
        }
        let snapshot = Observer::options().dir(&dir.0).open("a/u").unwrap().newest().unwrap();
        assert!(snapshot.slice::<u32>("u").unwrap().iter().all(|value| *value == step + 5));
        drop((snapshot, region));
        crate::inspect::removal::remove(&dir.0, "a/u", false).unwrap();
        arena.collect().unwrap();
        assert_eq!(allocated_bytes(&dir), arena.bytes());
    }
    let usage = arena.usage().unwrap();
    assert_eq!(usage.free_bytes + usage.tables_bytes, usage.bytes, "{usage:?}");
    // What is free reads as zeros.
    let region = claim(&arena, "all");
    for chunk in region.take_chunks(15).unwrap().into_iter().flatten() {
        let mut bytes = vec![1; CHUNK_BYTES];
        arena.memory().read(chunks::at(chunk) as usize, &mut bytes);
        assert!(bytes.iter().all(|byte| *byte == 0));
    }
    assert_eq!(fill(&arena), large, "it is no more than filled");
    drop(region);
    crate::inspect::removal::remove(&dir.0, "a", false).unwrap();
    assert!(!dir.0.join("a").exists(), "nothing is left beside it");
}

#[test]
fn a_process_that_opens_a_filled_arena_later_keeps_its_memory_too() {
    let dir = Dir::new("filled-later");
    let arena = dir.arena(8, 10);
    fill(&arena);
    drop(arena);
    let arena = dir.options().open("a").unwrap();
    assert!(arena.keeps_memory());
    let region = claim(&arena, "r");
    let pages = region.take_pages(3).unwrap();
    arena.memory().write(pages.start as usize * PAGE_BYTES, &[7; 100]);
    assert!(arena.remove(region).unwrap());
    assert_eq!(allocated_bytes(&dir), arena.bytes());
}

#[test]
fn filling_that_is_stopped_is_told_from_filling_that_goes_on() {
    let dir = Dir::new("filling");
    let arena = dir.arena(40, 10);
    let mut during = Vec::new();
    let stopped = arena.fill(&mut |done_bytes| {
        during.push(arena.filling().unwrap());
        match done_bytes {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    });
    assert_eq!((stopped.unwrap(), during), (None, vec![Filling::Going; 2]));
    assert_eq!(arena.filling().unwrap(), Filling::Left);
    assert!(!arena.keeps_memory());
    // Whoever wants it after all goes on.
    fill(&arena);
    assert!(matches!(arena.filling().unwrap(), Filling::Done { .. }));
}

#[test]
fn an_arena_that_is_filled_just_now_is_not_removed_and_one_that_was_left_is() {
    use crate::inspect::removal::{remove, remove_unfilled};
    let dir = Dir::new("filling-removed");
    let left = dir.arena(8, 10);
    let mut refused = Vec::new();
    let stopped = left.fill(&mut |_| {
        refused.push((remove(&dir.0, "a", false), remove_unfilled(&dir.0, &left)));
        ControlFlow::Break(())
    });
    assert_eq!(stopped.unwrap(), None);
    assert!(
        matches!(refused[..], [(Err(Error::InUse { .. }), Err(Error::InUse { .. }))]),
        "whoever fills it would go on in files that nobody finds: {refused:?}"
    );
    // Two that find the same one: the second must not take away what the first has made meanwhile.
    assert!(remove_unfilled(&dir.0, &left).unwrap().is_some());
    let made = dir.arena(8, 10);
    assert!(matches!(remove_unfilled(&dir.0, &left), Err(Error::NoArena { .. })));
    assert!(left.fill(&mut |_| ControlFlow::Continue(())).is_err());
    fill(&made);
    assert!(remove_unfilled(&dir.0, &made).unwrap().is_none(), "it is whole");
    assert!(matches!(made.filling().unwrap(), Filling::Done { .. }));
    remove(&dir.0, "a", false).unwrap();
    assert!(!dir.0.join("a").exists());
}

#[test]
fn more_than_there_is_is_refused_before_any_is_taken() {
    let dir = Dir::new("filled-much");
    let arena = dir.arena(1 << 22, 10);
    let before = allocated_bytes(&dir);
    match arena.fill(&mut |_| ControlFlow::Continue(())) {
        Err(Error::NoSpace { needed_bytes, .. }) => assert!(needed_bytes > 1 << 42),
        other => panic!("{other:?}"),
    }
    assert_eq!((arena.filling().unwrap(), allocated_bytes(&dir)), (Filling::Never, before));
    let look = dir.options().look("a").unwrap();
    assert!(matches!(look.fill(&mut |_| ControlFlow::Continue(())), Err(Error::BadOption { option: "arena", .. })));
}
