//! Publishing a part of a tracked variable, and what lays a snapshot's pages where the caller wants them: over all
//! trackers, against a plain copy of what observers should see.
#![allow(unsafe_code)]

use crate::common::{Dir, Numbers, difference_at, trackers, versions, watchdog};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use stillframe::{
    Declaration, Element, Error, Kind, Order, PAGE_BYTES, Region, Rule, Snapshot, TrackerKind, VariableId,
};

fn track(region: &mut Region, name: &str) -> VariableId {
    region.declare(Declaration::new(name, u8::dtype(), Kind::Tracked)).unwrap()
}

/// Memory whose first byte lies `offset` bytes behind the begin of a page.
struct Buffer {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Buffer {
    fn new(offset: usize, bytes: usize, most: usize) -> Buffer {
        let memory = vec![0; most + 2 * PAGE_BYTES];
        let start = memory.as_ptr().align_offset(PAGE_BYTES) + offset;
        Buffer { memory, start, bytes }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }
}

/// The bytes of the pages that a range touches, for a variable that begins `offset` bytes behind the begin of a page.
fn touched(range: &std::ops::Range<usize>, offset: usize, bytes: usize) -> std::ops::Range<usize> {
    if range.is_empty() {
        return 0..0;
    }
    let first = (offset + range.start) / PAGE_BYTES * PAGE_BYTES;
    let end = (offset + range.end).next_multiple_of(PAGE_BYTES);
    first.saturating_sub(offset)..(end - offset).min(bytes)
}

fn play(tracker: TrackerKind, seed: u64, versions: u64) {
    const MOST: usize = 1100 * PAGE_BYTES;
    let dir = Dir::new("parts");
    let numbers = &mut Numbers(seed);
    // Room for little, so that some publishes fail and have to be made up for.
    let mut region = dir.options().tracker(tracker).keep(1).rule(Rule::Fail).bound_bytes(12 << 20).create("r").unwrap();
    let id = track(&mut region, "data");
    let observer = dir.observe("r");
    let mut buffers: Vec<Buffer> = (0..3)
        .map(|index| {
            Buffer::new(
                [0, 0, 1234][index],
                (1 + numbers.below(1050)) * PAGE_BYTES - numbers.below(5000).min(4000),
                MOST,
            )
        })
        .collect();
    // What observers see, and from which buffer and with how many bytes it was published.
    let mut shown: Vec<u8> = Vec::new();
    let mut last: Option<(usize, usize)> = None;
    let mut held: Vec<(Snapshot, Vec<u8>)> = Vec::new();
    let (mut failed, mut published) = (0, 0);
    let strange: Vec<u8> = (0..MOST).map(|at| (at / 100) as u8 ^ 0x5a).collect();
    let mut index = 0;
    for version in 1..=versions {
        if numbers.below(10) == 0 {
            index = numbers.below(buffers.len());
        }
        let buffer = &mut buffers[index];
        if numbers.below(20) == 0 {
            buffer.bytes = 1 + numbers.below(MOST - PAGE_BYTES);
        }
        let offset = buffer.start - buffer.memory.as_ptr().align_offset(PAGE_BYTES);
        for _ in 0..numbers.below(6) {
            let bytes = buffer.bytes;
            let at = numbers.below(bytes);
            let most = [10, 10_000, 300_000][numbers.below(3)];
            let end = (at + numbers.below(most)).min(bytes);
            let value = numbers.next() as u8;
            buffer.bytes()[at..end].fill(value);
        }
        let bytes = buffer.bytes;
        let range = match numbers.below(5) {
            0 => 0..bytes,
            1 => {
                let at = numbers.below(bytes + 1);
                at..at
            }
            _ => {
                let at = numbers.below(bytes);
                let most = [1, 5_000, 2_000_000][numbers.below(3)];
                at..(at + 1 + numbers.below(most)).min(bytes)
            }
        };
        // Where nothing was published yet, something that is neither the memory nor zeros.
        let mut before = strange[..bytes].to_vec();
        let known = shown.len().min(bytes);
        before[..known].copy_from_slice(&shown[..known]);
        let is_known = last == Some((index, bytes));
        let pristine = if is_known && numbers.below(2) == 0 { None } else { Some(before.as_ptr()) };
        let memory = std::ptr::slice_from_raw_parts(buffer.bytes().as_ptr(), bytes);
        // SAFETY: both memories live until the commit, and nobody writes them.
        let publication =
            unsafe { region.publish(version).tracked_part(id, memory, &[bytes], Order::C, range.clone(), pristine) };
        match publication.commit() {
            Ok(_) => {
                published += 1;
                let touched = touched(&range, offset, bytes);
                before[touched.clone()].copy_from_slice(&buffer.bytes()[touched]);
                shown = before;
                last = Some((index, bytes));
                let snapshot = observer.newest().unwrap();
                assert_eq!(snapshot.version(), version);
                let slice = snapshot.slice::<u8>("data").unwrap();
                assert_eq!(difference_at(slice, &shown), None, "version {version}, range {range:?}");
                if numbers.below(3) == 0 {
                    held.push((snapshot, shown.clone()));
                }
            }
            Err(Error::Bound { .. }) => failed += 1,
            Err(error) => panic!("{error}"),
        }
        if held.len() > numbers.below(6) {
            let (snapshot, expected) = held.remove(numbers.below(held.len()));
            assert!(snapshot.slice::<u8>("data").unwrap() == expected, "version {} changed", snapshot.version());
        }
    }
    assert!(published > versions / 2, "{published} of {versions}");
    assert!(failed > 0, "the bound was never reached");
    region.unlink().unwrap();
}

#[test]
fn parts_are_published_and_the_rest_is_remembered_with_every_tracker() {
    let _watchdog = watchdog(600);
    // Fewer versions do not reach the bound: where fewer are wanted, there are fewer runs.
    let (runs, versions) = ((versions() / 50).clamp(1, 3), versions().max(150));
    for tracker in trackers() {
        for seed in 0..runs {
            eprintln!("{tracker}, seed {seed}");
            play(tracker, seed, versions);
        }
    }
}

#[test]
fn a_part_that_the_rest_is_not_known_of_is_refused() {
    let _watchdog = watchdog(600);
    let dir = Dir::new("unknown");
    let mut region = dir.options().create("r").unwrap();
    let id = track(&mut region, "data");
    let memory = vec![1u8; 10 * PAGE_BYTES];
    let slice = std::ptr::slice_from_raw_parts(memory.as_ptr(), memory.len());
    let shape = [memory.len()];
    // SAFETY: the memory lives until each commit, and nobody writes it.
    unsafe {
        let part = region.publish(1).tracked_part(id, slice, &shape, Order::C, 0..1, None);
        assert!(matches!(part.commit(), Err(Error::WrongShape { .. })));
        let outside = region.publish(1).tracked_part(id, slice, &shape, Order::C, 5..shape[0] + 1, None);
        assert!(matches!(outside.commit(), Err(Error::OutOfRange { .. })));
        region.publish(1).tracked_part(id, slice, &shape, Order::C, 0..shape[0], None).commit().unwrap();
        region.publish(2).tracked_part(id, slice, &shape, Order::C, 0..1, None).commit().unwrap();
    }
    region.unlink().unwrap();
}

/// A range of addresses to lay something over.
fn addresses(bytes: usize) -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the kernel chooses free addresses.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    at.cast()
}

#[test]
fn pages_laid_elsewhere_stay_as_long_as_a_kept_file_is_open() {
    let _watchdog = watchdog(600);
    const PAGES: usize = 5000;
    let dir = Dir::new("lay");
    let mut region = dir.options().create("r").unwrap();
    let array = region.array::<u8>("data", &[PAGES * PAGE_BYTES]).unwrap();
    let observer = dir.observe("r");
    region.publish(1).commit().unwrap();
    let mut laid: Vec<(*mut u8, std::ops::Range<usize>, Vec<u8>, File)> = Vec::new();
    for version in 2..12u64 {
        // Every other page, so that the version lies in more pieces than are worth mapping.
        let slice = region.slice_mut(&array);
        let step = if version % 3 == 0 { 40 } else { 2 };
        (0..PAGES).step_by(step).for_each(|page| slice[page * PAGE_BYTES..][..PAGE_BYTES].fill(version as u8));
        region.publish(version).commit().unwrap();
        let snapshot = observer.newest().unwrap();
        let pages = version as usize..PAGES - 10 * (version as usize % 2);
        let at = addresses(pages.len() * PAGE_BYTES);
        // SAFETY: the range was just made for this.
        unsafe { snapshot.lay("data", pages.clone(), at).unwrap() };
        let bytes = snapshot.slice::<u8>("data").unwrap();
        let expected = bytes[pages.start * PAGE_BYTES..pages.end * PAGE_BYTES].to_vec();
        laid.push((at, pages, expected, snapshot.keep().unwrap()));
    }
    assert_eq!(observer.versions().len(), laid.len());
    for (at, pages, expected, kept) in laid {
        // SAFETY: the pages were laid there, and the file keeps them.
        let found = unsafe { std::slice::from_raw_parts(at, pages.len() * PAGE_BYTES) };
        assert!(found == expected);
        // SAFETY: nothing refers to the range any more.
        unsafe { libc::munmap(at.cast(), pages.len() * PAGE_BYTES) };
        drop(kept);
    }
    region.publish(100).commit().unwrap();
    assert_eq!(observer.versions().len(), 1);
    let newest = observer.newest().unwrap();
    let at = addresses(PAGE_BYTES);
    // SAFETY: the range was just made for this.
    unsafe {
        assert!(matches!(newest.lay("data", PAGES..PAGES + 1, at), Err(Error::OutOfRange { .. })));
        assert!(matches!(newest.lay("nothing", 0..1, at), Err(Error::UnknownVariable { .. })));
        libc::munmap(at.cast(), PAGE_BYTES);
    }
    region.unlink().unwrap();
}

/// Memory of which some pages can be touched by nobody: those that are said to be zeros.
#[test]
fn pages_said_to_be_zeros_are_published_and_never_touched() {
    let _watchdog = watchdog(600);
    const PAGES: usize = 1100;
    let bytes = PAGES * PAGE_BYTES;
    let close = |address: *const u8, pages: std::ops::Range<usize>, protection: i32| {
        // SAFETY: the pages are of a mapping of this test's own, and nobody reads them while they cannot be read.
        unsafe { libc::mprotect(address.add(pages.start * PAGE_BYTES) as _, pages.len() * PAGE_BYTES, protection) }
    };
    let map = || {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) }.cast::<u8>();
        assert_ne!(memory.cast(), libc::MAP_FAILED);
        memory
    };
    let in_bytes = |pages: &[std::ops::Range<usize>]| -> Vec<std::ops::Range<usize>> {
        pages.iter().map(|pages| pages.start * PAGE_BYTES..pages.end * PAGE_BYTES).collect()
    };
    for tracker in trackers() {
        let dir = Dir::new("zeros");
        let mut region = dir.options().tracker(tracker).create("r").unwrap();
        let observer = dir.observe("r");
        let id = track(&mut region, "data");
        let (memory, before) = (map(), map());
        // SAFETY: both mappings were just made.
        unsafe {
            std::ptr::write_bytes(memory, 1, bytes);
            std::ptr::write_bytes(before, 2, bytes);
        }
        let holes = [3..5, 400..600, 1024..1100];
        let holes_before = [0..1, 450..900];
        let mut publish = |version: u64, range: std::ops::Range<usize>, holes: &[_], holes_before: &[_]| {
            let part = std::ptr::slice_from_raw_parts(memory, bytes);
            // SAFETY: both mappings stay, and nobody writes them.
            let publication =
                unsafe { region.publish(version).tracked_part(id, part, &[bytes], Order::C, range, Some(before)) };
            publication.zeros(id, &in_bytes(holes), &in_bytes(holes_before)).commit().unwrap()
        };
        let check = |expected: &dyn Fn(usize) -> u8| {
            let newest = observer.newest().unwrap();
            for (page, content) in newest.slice::<u8>("data").unwrap().chunks(PAGE_BYTES).enumerate() {
                assert!(content.iter().all(|byte| *byte == expected(page)), "{tracker}: page {page} is {}", content[0]);
            }
        };
        let is_in = |holes: &[std::ops::Range<usize>], page: usize| holes.iter().any(|run| run.contains(&page));
        holes.iter().for_each(|pages| assert_eq!(close(memory, pages.clone(), libc::PROT_NONE), 0));
        holes_before.iter().for_each(|pages| assert_eq!(close(before, pages.clone(), libc::PROT_NONE), 0));
        let range = 100 * PAGE_BYTES..500 * PAGE_BYTES;
        let copied = publish(1, range, &holes, &holes_before).copied_pages;
        let first = |page: usize| match page {
            100..500 => u8::from(!is_in(&holes, page)),
            _ if is_in(&holes_before, page) => 0,
            _ => 2,
        };
        check(&first);
        assert_eq!(copied, (0..PAGES).filter(|page| first(*page) != 0).count() as u64);
        publish(2, 0..bytes, &holes, &holes_before);
        let all = |page: usize| u8::from(!is_in(&holes, page));
        check(&all);
        publish(3, 0..bytes, &holes, &holes_before);
        check(&all);
        // Written, and no hole any more.
        assert_eq!(close(memory, 400..600, libc::PROT_READ | libc::PROT_WRITE), 0);
        // SAFETY: the pages are this test's, and can be written by now.
        unsafe { std::ptr::write_bytes(memory.add(400 * PAGE_BYTES), 7, 200 * PAGE_BYTES) };
        publish(4, 0..bytes, &[3..5, 1024..1100], &holes_before);
        check(&|page| if (400..600).contains(&page) { 7 } else { all(page) });
        region.unlink().unwrap();
        for memory in [memory, before] {
            // SAFETY: nobody uses the mapping any more.
            assert_eq!(unsafe { libc::munmap(memory.cast(), bytes) }, 0);
        }
    }
}

/// What was a hole when the caller looked, and was written before the publish, is written for that publish or the next.
#[test]
fn pages_written_after_the_look_at_holes_are_not_lost() {
    let _watchdog = watchdog(600);
    const PAGES: usize = 1100;
    let bytes = PAGES * PAGE_BYTES;
    let bytes_of = |pages: std::ops::Range<usize>| pages.start * PAGE_BYTES..pages.end * PAGE_BYTES;
    for tracker in trackers() {
        let dir = Dir::new("holes");
        let mut region = dir.options().tracker(tracker).create("r").unwrap();
        let observer = dir.observe("r");
        let id = track(&mut region, "data");
        let path = dir.path().join("sparse");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        file.set_len(bytes as u64).unwrap();
        let map = || {
            let (protection, descriptor) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
            // SAFETY: a new mapping at an address of the kernel's choice.
            let memory =
                unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_PRIVATE, descriptor, 0) };
            assert_ne!(memory, libc::MAP_FAILED);
            memory.cast::<u8>()
        };
        let (memory, before) = (map(), map());
        // SAFETY: the page is of the mapping, which nobody reads meanwhile.
        let write = |page: usize, value: u8| unsafe { memory.add(page * PAGE_BYTES).write(value) };
        let mut publish = |version: u64, range: std::ops::Range<usize>, holes: &[_], before_holes: &[_]| {
            let part = std::ptr::slice_from_raw_parts(memory, bytes);
            // SAFETY: both mappings stay, and nobody writes them while this runs.
            let publication =
                unsafe { region.publish(version).tracked_part(id, part, &[bytes], Order::C, range, Some(before)) };
            publication.holes(id, holes, before_holes).commit().unwrap();
        };
        let check = |expected: &[(usize, u8)]| {
            let newest = observer.newest().unwrap();
            for (page, content) in newest.slice::<u8>("data").unwrap().chunks(PAGE_BYTES).enumerate() {
                let value = expected.iter().find(|(at, _)| *at == page).map_or(0, |(_, value)| *value);
                assert_eq!((content[0], content[1]), (value, 0), "{tracker}: page {page}");
            }
        };
        let all = bytes_of(0..PAGES);
        // Inside what is published and outside.
        [(1, 1), (700, 7)].into_iter().for_each(|(page, value)| write(page, value));
        publish(1, bytes_of(0..2), std::slice::from_ref(&all), std::slice::from_ref(&all));
        check(&[(1, 1)]);
        write(900, 9);
        publish(2, bytes_of(900..901), &[], &[]);
        check(&[(1, 1), (900, 9)]);
        // Again what was a hole until then, of which the newest version shows zeros.
        write(300, 3);
        let holes = [bytes_of(0..1), bytes_of(2..700), bytes_of(701..900), bytes_of(901..PAGES)];
        publish(3, all.clone(), &holes, &[]);
        check(&[(1, 1), (300, 3), (700, 7), (900, 9)]);
        assert!(file.metadata().unwrap().blocks() <= 4 * 8, "{tracker}: holes were touched");
        region.unlink().unwrap();
        for memory in [memory, before] {
            // SAFETY: nobody uses the mapping any more.
            assert_eq!(unsafe { libc::munmap(memory.cast(), bytes) }, 0);
        }
    }
}

#[test]
#[allow(clippy::reversed_empty_ranges)]
fn zeros_may_be_said_in_any_order_and_twice() {
    let dir = Dir::new("zeros-order");
    let mut region = dir.options().create("r").unwrap();
    let id = track(&mut region, "data");
    let bytes = 700 * PAGE_BYTES;
    let mut buffer = Buffer::new(0, bytes, bytes);
    buffer.bytes().fill(1);
    let runs = [600..602, 610..620, 612..615, 615..630, 0..1, 7..7, 5..4, 601..600, 500..602, 699..2000];
    let runs = runs.map(|pages| pages.start * PAGE_BYTES..pages.end * PAGE_BYTES);
    let memory = std::ptr::from_ref(&*buffer.bytes());
    // SAFETY: the buffer stays, and nobody writes it.
    let publication = unsafe { region.publish(1).tracked_part(id, memory, &[bytes], Order::C, 0..bytes, None) };
    publication.zeros(id, &runs, &runs).commit().unwrap();
    let newest = dir.observe("r").newest().unwrap();
    for (page, content) in newest.slice::<u8>("data").unwrap().chunks(PAGE_BYTES).enumerate() {
        let is_zero = [0..1, 500..602, 610..630, 699..700].iter().any(|run| run.contains(&page));
        assert!(content.iter().all(|byte| *byte == u8::from(!is_zero)), "page {page}");
    }
    region.unlink().unwrap();
}

#[test]
fn zeros_of_what_was_not_given_are_refused() {
    let dir = Dir::new("zeros-refused");
    let mut region = dir.options().create("r").unwrap();
    let id = track(&mut region, "data");
    let error = region.publish(1).zeros(id, &[], &[]).commit().unwrap_err();
    assert!(matches!(&error, Error::WrongShape { why, .. } if why.contains("not given")), "{error}");
    region.unlink().unwrap();
}
