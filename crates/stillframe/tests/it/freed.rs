//! Tracked arrays that the application frees, moves or gets again at the same address: every version shows what was there
//! when it was published.

#![allow(unsafe_code)]

use crate::common::{Dir, Numbers, difference_at, trackers, versions, watchdog};
use std::sync::{Mutex, MutexGuard};
use stillframe::{Observer, Order, Region, Snapshot, Tracked, TrackerKind};

const PAGE: usize = 4096;

/// One test at a time has addresses free for an instant which it wants back: another would take them.
static ADDRESSES: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ADDRESSES.lock().unwrap_or_else(|poison| poison.into_inner())
}

/// Anonymous memory whose place can be chosen.
struct Map {
    address: usize,
    bytes: usize,
}

fn mmap(address: usize, bytes: usize, flags: i32) -> usize {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: callers pass MAP_FIXED_NOREPLACE with an address, so that nothing of others is replaced.
    let at =
        unsafe { libc::mmap(address as *mut libc::c_void, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    at as usize
}

impl Map {
    fn new(bytes: usize) -> Map {
        Map { address: mmap(0, bytes, 0), bytes }
    }

    fn words(&self) -> &'static mut [u64] {
        // SAFETY: the memory is mapped and nobody else uses it while a test does one thing after the other.
        unsafe { std::slice::from_raw_parts_mut(self.address as *mut u64, self.bytes / 8) }
    }

    /// Frees the memory and gets other memory at the same address.
    fn again(&mut self) {
        // Another thread may take the address in between; then the memory is simply elsewhere.
        unmap(self.address, self.bytes);
        let hint = mmap(self.address, self.bytes, 0);
        self.address = hint;
    }

    fn advise(&self, first: usize, pages: usize) {
        // SAFETY: the range lies in memory that belongs to the test.
        let done = unsafe {
            libc::madvise((self.address + first * PAGE) as *mut libc::c_void, pages * PAGE, libc::MADV_DONTNEED)
        };
        assert_eq!(done, 0);
    }

    fn remap(&mut self, bytes: usize, elsewhere: bool) {
        let old = self.address as *mut libc::c_void;
        // SAFETY: the old range belongs to the test, and the new place was mapped for it.
        let at = unsafe {
            if elsewhere {
                let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
                libc::mremap(old, self.bytes, bytes, flags, mmap(0, bytes, 0) as *mut libc::c_void)
            } else {
                libc::mremap(old, self.bytes, bytes, libc::MREMAP_MAYMOVE)
            }
        };
        assert_ne!(at, libc::MAP_FAILED);
        (self.address, self.bytes) = (at as usize, bytes);
    }
}

fn unmap(address: usize, bytes: usize) {
    // SAFETY: the range belongs to the test, and nothing refers to it any more.
    assert_eq!(unsafe { libc::munmap(address as *mut libc::c_void, bytes) }, 0);
}

impl Drop for Map {
    fn drop(&mut self) {
        unmap(self.address, self.bytes);
    }
}

/// A region with a tracked array, and all that was held of it.
struct Stage {
    region: Region,
    observer: Observer,
    tracked: Tracked<u64>,
    version: u64,
    held: Vec<(Snapshot, Vec<u64>)>,
    _dir: Dir,
}

impl Stage {
    fn new(tracker: TrackerKind) -> Stage {
        let dir = Dir::new("freed");
        let mut region = dir.options().tracker(tracker).create("r").unwrap();
        let tracked = region.track("t").unwrap();
        let observer = dir.observe("r");
        Stage { region, observer, tracked, version: 0, held: Vec::new(), _dir: dir }
    }

    /// Publishes words and looks whether they arrive.
    fn publish(&mut self, words: &[u64], what: &str) {
        self.version += 1;
        let bytes = std::mem::size_of_val(words);
        let (id, address) = (self.tracked.id(), words.as_ptr().cast());
        // SAFETY: the words are borrowed until the commit returns.
        let publication =
            unsafe { self.region.publish(self.version).tracked_raw(id, address, bytes, &[words.len()], Order::C) };
        publication.commit().unwrap();
        let snapshot = self.observer.newest().unwrap();
        self.held.push((snapshot, words.to_vec()));
        if self.held.len() > 4 {
            self.held.remove(1);
        }
        for (snapshot, words) in &self.held {
            let found = snapshot.slice::<u64>("t").unwrap();
            let wrong = difference_at(found, words);
            let tracker = self.region.tracker();
            assert_eq!(wrong, None, "{tracker}, {what}: word of version {}", snapshot.version());
        }
    }
}

/// Lets each tracker learn the array before anything happens to it.
fn on_every_tracker(what: &str, mut act: impl FnMut(&mut Stage, &mut Map)) {
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        let mut stage = Stage::new(tracker);
        let mut map = Map::new(60 * PAGE);
        for round in 0..6 {
            map.words().fill(round + 1);
            stage.publish(map.words(), what);
            for step in 0..round {
                map.words()[(step * 977) as usize] = round;
                stage.publish(map.words(), what);
            }
            act(&mut stage, &mut map);
            stage.publish(map.words(), what);
            map.words()[round as usize * 512 + 7] = 99;
            stage.publish(map.words(), what);
        }
    }
}

#[test]
fn an_array_that_was_freed_and_got_again_at_its_address_shows_its_new_content() {
    let _alone = alone();
    on_every_tracker("all freed", |stage, map| {
        map.again();
        stage.publish(map.words(), "fresh");
        map.again();
        map.words()[3 * 512] = 5;
    });
}

#[test]
fn part_of_an_array_that_was_freed_and_got_again_shows_its_new_content() {
    let _alone = alone();
    on_every_tracker("part freed", |_, map| {
        let (address, bytes) = (map.address + 20 * PAGE, 10 * PAGE);
        unmap(address, bytes);
        assert_eq!(mmap(address, bytes, libc::MAP_FIXED_NOREPLACE), address);
        map.words()[22 * 512] = 6;
    });
}

#[test]
fn pages_that_an_allocator_gave_back_show_zeros() {
    let _alone = alone();
    on_every_tracker("given back", |stage, map| {
        map.advise(11, 7);
        stage.publish(map.words(), "given back");
        map.advise(30, 20);
        map.words()[40 * 512] = 7;
    });
}

const LARGE: usize = 2 << 20;

/// Memory aligned to large pages, which it has or does not have.
fn aligned(bytes: usize, large: bool) -> Map {
    let map = Map::new(bytes + LARGE);
    let start = map.address.next_multiple_of(LARGE);
    let (before, behind) = (start - map.address, map.address + LARGE - start);
    for (at, bytes) in [(map.address, before), (start + bytes, behind)].into_iter().filter(|(_, bytes)| *bytes > 0) {
        unmap(at, bytes);
    }
    let map = Map { address: start, bytes: std::mem::ManuallyDrop::new(map).bytes - LARGE };
    let advice = if large { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
    // SAFETY: the range belongs to the test. Kernels without large pages refuse, and then there are none.
    unsafe { libc::madvise(map.address as *mut libc::c_void, map.bytes, advice) };
    map
}

/// Writes to the array and gives parts of it back in random order, also such as take a whole page table, with writes close by.
fn give_back_at_random(tracker: TrackerKind, seed: u64, versions: u64) {
    let numbers = &mut Numbers(seed);
    let (large, unaligned) = (numbers.below(2) == 0, numbers.below(3) > 0);
    let map = aligned((3 + numbers.below(6)) * LARGE, large);
    let pages = map.bytes / PAGE;
    let (first, last) = match unaligned {
        true => (numbers.below(700), pages - numbers.below(700)),
        false => (0, pages),
    };
    // Some arrays begin and end in the middle of a page.
    let edge = if numbers.below(3) == 0 { 3 + numbers.below(500) } else { 0 };
    let range = first * 512 + edge..last * 512 - edge;
    let mut stage = Stage::new(tracker);
    let what = format!("seed {seed}, pages {first}..{last}, large pages {large}");
    for _ in 0..versions {
        for _ in 0..numbers.below(5) {
            let value = numbers.next();
            // Around the borders of page tables more often than not.
            let page = match numbers.below(4) {
                0 => numbers.below(pages),
                1 => numbers.below(pages / 512) * 512,
                _ => (numbers.below(pages / 512) + 1) * 512 - 1,
            };
            let length = [1, 1, 5, 600][numbers.below(4)].min(pages - page);
            match numbers.below(6) {
                0 => map.advise(page, length),
                1 => map.advise(page / 512 * 512, 512 * (1 + numbers.below(2)).min((pages - page / 512 * 512) / 512)),
                2 => map.words()[page * 512..(page + length) * 512].fill(value),
                _ => map.words()[page * 512 + numbers.below(512)] = value,
            }
        }
        stage.publish(&map.words()[range.clone()], &what);
    }
}

#[test]
fn random_parts_of_large_arrays_that_were_given_back_show_zeros() {
    let _alone = alone();
    let _watchdog = watchdog(600);
    let versions = versions();
    for tracker in trackers() {
        for seed in 0..6 {
            give_back_at_random(tracker, seed, versions);
        }
    }
}

#[test]
fn a_page_table_that_goes_beside_a_page_that_was_written_leaves_zeros() {
    let _alone = alone();
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        for large in [false, true] {
            for table in 1..4 {
                for word in [table * LARGE / 8 - 1, (table + 1) * LARGE / 8] {
                    // From the middle of a page table's range, so that each window lies in two.
                    let map = aligned(6 * LARGE, large);
                    let words = LARGE / 16..map.bytes / 8 - LARGE / 16;
                    let mut stage = Stage::new(tracker);
                    map.words().fill(7);
                    (0..3).for_each(|_| stage.publish(&map.words()[words.clone()], "whole"));
                    map.advise(table * 512, 512);
                    map.words()[word] = 8;
                    stage.publish(&map.words()[words.clone()], "given back");
                }
            }
        }
    }
}

#[test]
fn an_array_that_was_moved_or_grown_shows_its_content() {
    let _alone = alone();
    on_every_tracker("moved", |stage, map| {
        map.remap(map.bytes, true);
        stage.publish(map.words(), "moved");
        map.words()[5 * 512] = 8;
        map.remap(map.bytes + 600 * PAGE, false);
        map.words()[6 * 512] = 8;
        stage.publish(map.words(), "grown");
        map.remap(60 * PAGE, false);
        stage.publish(map.words(), "shrunk");
    });
}

/// Addresses that belong to the test, for memory that moves among them.
struct Slots {
    address: usize,
}

impl Slots {
    const COUNT: usize = 4;
    const BYTES: usize = 3000 * PAGE;

    fn new() -> Slots {
        Slots { address: mmap(0, Slots::COUNT * Slots::BYTES, 0) }
    }

    fn at(&self, slot: usize, bytes: usize) -> Map {
        Map { address: self.address + slot * Slots::BYTES, bytes }
    }

    /// Moves an array, or part of it, to its place in another slot, as `realloc` does with large ones. Where it was is memory
    /// again, without content.
    fn transfer(&self, from: &Map, to: usize, first: usize, pages: usize) {
        let (start, end) = (from.address + first * PAGE, from.address + (first + pages) * PAGE);
        let (old_slot, new_slot) = (from.address, self.address + to * Slots::BYTES);
        // One mapping at a time, for part of the array is watched.
        for part in mappings(start, end) {
            let (old, bytes) = (part.start, part.len());
            let (new, flags) = (new_slot + (old - old_slot), libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED);
            // SAFETY: both ranges lie in slots, which belong to the test.
            let at = unsafe { libc::mremap(old as *mut libc::c_void, bytes, bytes, flags, new as *mut libc::c_void) };
            assert_eq!(at as usize, new, "{}", std::io::Error::last_os_error());
            assert_eq!(mmap(old, bytes, libc::MAP_FIXED_NOREPLACE), old);
        }
    }
}

/// The mappings of a range, as far as they lie in it.
fn mappings(start: usize, end: usize) -> Vec<std::ops::Range<usize>> {
    let text = std::fs::read_to_string("/proc/self/maps").unwrap();
    let ranges = text.lines().map(|line| {
        let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        number(from).max(start)..number(to).min(end)
    });
    ranges.filter(|range| !range.is_empty()).collect()
}

impl Drop for Slots {
    fn drop(&mut self) {
        unmap(self.address, Slots::COUNT * Slots::BYTES);
    }
}

fn scatter(numbers: &mut Numbers, words: &mut [u64]) {
    for _ in 0..numbers.below(6) {
        let at = numbers.below(words.len());
        words[at] = numbers.next();
    }
}

/// Moves two arrays at random, between publishes in which they are watched, and back to where they were watched before.
fn move_at_random(tracker: TrackerKind, seed: u64, versions: u64) {
    let dir = Dir::new("moves");
    let numbers = &mut Numbers(seed);
    let mut region = dir.options().tracker(tracker).create("r").unwrap();
    let variables = ["a", "b"].map(|name| region.track::<u64>(name).unwrap());
    let observer = dir.observe("r");
    let slots = Slots::new();
    let begin = numbers.below(512);
    let mut pages = [700 + numbers.below(900), 60];
    let mut places = [0, 1];
    for version in 1..=versions {
        for which in 0..2 {
            let mut map = std::mem::ManuallyDrop::new(slots.at(places[which], pages[which] * PAGE));
            scatter(numbers, map.words());
            let other = places[1 - which];
            let free = (0..Slots::COUNT).find(|slot| !places.contains(slot) && numbers.below(2) == 0);
            match (numbers.below(10), free) {
                (0 | 1, Some(to)) => {
                    slots.transfer(&map, to, 0, pages[which]);
                    places[which] = to;
                }
                (2, Some(to)) => {
                    // The other one's place is taken, and its memory goes elsewhere.
                    let displaced = std::mem::ManuallyDrop::new(slots.at(other, pages[1 - which] * PAGE));
                    slots.transfer(&displaced, to, 0, pages[1 - which]);
                    slots.transfer(&map, other, 0, pages[which]);
                    places[which] = other;
                    places[1 - which] = to;
                }
                (3, Some(to)) => {
                    // Away and back.
                    slots.transfer(&map, to, 0, pages[which]);
                    let away = std::mem::ManuallyDrop::new(slots.at(to, map.bytes));
                    scatter(numbers, away.words());
                    slots.transfer(&away, places[which], 0, pages[which]);
                }
                (4, _) => {
                    // What lies behind it in the slot was perhaps watched when the array was longer, or another's.
                    pages[which] = 30 + numbers.below(Slots::BYTES / PAGE - 30);
                    map.bytes = pages[which] * PAGE;
                }
                (5, Some(to)) => {
                    // Part of the array comes from elsewhere.
                    let first = numbers.below(pages[which]);
                    let part = std::mem::ManuallyDrop::new(slots.at(to, map.bytes));
                    slots.transfer(&part, places[which], first, pages[which] - first);
                }
                _ => {}
            }
            let map = std::mem::ManuallyDrop::new(slots.at(places[which], pages[which] * PAGE));
            scatter(numbers, map.words());
        }
        let maps = [0, 1].map(|which| std::mem::ManuallyDrop::new(slots.at(places[which], pages[which] * PAGE)));
        let words = [&maps[0].words()[begin..], &maps[1].words()[..]];
        let mut publication = region.publish(version);
        for (variable, words) in variables.iter().zip(words) {
            publication = publication.tracked(variable, words, &[words.len()]);
        }
        publication.commit().unwrap();
        let snapshot = observer.newest().unwrap();
        for (name, words) in ["a", "b"].into_iter().zip(words) {
            let found = snapshot.slice::<u64>(name).unwrap();
            let wrong = difference_at(found, words);
            assert_eq!(
                (found.len(), wrong),
                (words.len(), None),
                "{tracker}, seed {seed}: {name} of version {version}"
            );
        }
    }
}

#[test]
fn arrays_that_move_to_and_fro_and_onto_each_other_s_places_show_their_content() {
    let _alone = alone();
    let _watchdog = watchdog(600);
    let versions = versions();
    for tracker in trackers() {
        for seed in 0..6 {
            move_at_random(tracker, seed, versions);
        }
    }
}

#[test]
fn vectors_that_come_and_go_show_their_content() {
    let _alone = alone();
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        let numbers = &mut Numbers(9);
        let mut stage = Stage::new(tracker);
        let mut vector: Vec<u64> = vec![1; 1000];
        for round in 0..300 {
            match numbers.below(6) {
                0 => {
                    let length = [10, 600, 20_000, 300_000][numbers.below(4)] + numbers.below(500);
                    drop(std::mem::take(&mut vector));
                    vector = if round % 2 == 0 { vec![0; length] } else { vec![round; length] };
                }
                1 => vector.resize(vector.len() + numbers.below(3000), round),
                2 => {
                    vector.truncate(vector.len() - numbers.below(vector.len()));
                    vector.shrink_to_fit();
                }
                3 => vector = vector.clone(),
                _ => {}
            }
            for _ in 0..numbers.below(5) {
                let index = numbers.below(vector.len());
                if let Some(word) = vector.get_mut(index) {
                    *word = numbers.next();
                }
            }
            stage.publish(&vector, "vector");
        }
    }
}

#[test]
fn variables_that_swap_their_buffers_show_their_content() {
    let _alone = alone();
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        let dir = Dir::new("swap");
        let mut region = dir.options().tracker(tracker).create("r").unwrap();
        let (old, new) = (region.track::<u64>("old").unwrap(), region.track::<u64>("new").unwrap());
        let observer = dir.observe("r");
        let (mut front, mut back) = (vec![1u64; 100 * 512], vec![2u64; 100 * 512]);
        for version in 1..100u64 {
            // Too few writes for the buffers to be taken for rewritten.
            back[(version as usize * 577) % (100 * 512)] = version;
            let publication = region.publish(version).tracked(&old, &front, &[front.len()]);
            publication.tracked(&new, &back, &[back.len()]).commit().unwrap();
            let snapshot = observer.newest().unwrap();
            assert!(snapshot.slice::<u64>("old").unwrap() == front, "{tracker}: old of version {version}");
            assert!(snapshot.slice::<u64>("new").unwrap() == back, "{tracker}: new of version {version}");
            if version % 5 != 0 {
                std::mem::swap(&mut front, &mut back);
            }
        }
    }
}

#[test]
fn arrays_of_one_address_may_belong_to_several_variables_in_turn() {
    let _alone = alone();
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        let dir = Dir::new("shared");
        let mut region = dir.options().tracker(tracker).create("r").unwrap();
        let names = ["a", "b", "c"];
        let variables = names.map(|name| region.track::<u64>(name).unwrap());
        let observer = dir.observe("r");
        let map = Map::new(40 * PAGE);
        let mut shown = [const { Vec::new() }; 3];
        for version in 1..60u64 {
            map.words()[(version as usize * 577) % (40 * 512)] = version;
            let index = version as usize * version as usize % 3;
            // Overlapping parts of one memory, in pages and out of them.
            let start = [0, 100, 512][version as usize % 3];
            let words = &map.words()[start..];
            region.publish(version).tracked(&variables[index], words, &[words.len()]).commit().unwrap();
            shown[index] = words.to_vec();
            let snapshot = observer.newest().unwrap();
            for (name, shown) in names.iter().zip(&shown).filter(|(_, shown)| !shown.is_empty()) {
                assert!(snapshot.slice::<u64>(name).unwrap() == shown, "{tracker}: {name} of version {version}");
            }
        }
    }
}

/// Far from where the kernel puts what other threads ask for, so that what is freed here stays free.
const LONELY: usize = 0x2a00_0000_0000;

#[test]
fn memory_that_was_freed_is_an_error_that_names_it_and_loses_nothing() {
    let _alone = alone();
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        let dir = Dir::new("gone");
        let mut region = dir.options().tracker(tracker).create("r").unwrap();
        let (stays, gone) = (region.track::<u64>("stays").unwrap(), region.track::<u64>("gone").unwrap());
        let observer = dir.observe("r");
        let mut version = 0;
        let mut words = vec![1u64; 100 * 512];
        for (first, pages) in [(0, 60), (20, 1), (59, 1), (0, 1)] {
            // What is freed in it is freed again with all of it, which does no harm.
            let map = Map { address: mmap(LONELY, 60 * PAGE, libc::MAP_FIXED_NOREPLACE), bytes: 60 * PAGE };
            map.words().fill(7);
            // Not on page boundaries, so that its first and last page are copied in another way.
            let shown = &map.words()[3..60 * 512 - 3];
            for _ in 0..3 {
                version += 1;
                let publication = region.publish(version).tracked(&stays, &words, &[words.len()]);
                publication.tracked(&gone, shown, &[shown.len()]).commit().unwrap();
            }
            words[version as usize * 577] = version;
            unmap(map.address + first * PAGE, pages * PAGE);
            for _ in 0..2 {
                let publication = region.publish(version + 1).tracked(&stays, &words, &[words.len()]);
                let error = publication.tracked(&gone, shown, &[shown.len()]).commit().unwrap_err();
                assert!(
                    matches!(&error, stillframe::Error::NotMapped { name, address, bytes }
                        if name == "gone" && *address == shown.as_ptr() as usize && *bytes == std::mem::size_of_val(shown)),
                    "{tracker}: {error}"
                );
                assert_eq!(observer.newest().unwrap().version(), version);
            }
            version += 1;
            region.publish(version).tracked(&stays, &words, &[words.len()]).commit().unwrap();
            let snapshot = observer.newest().unwrap();
            assert!(snapshot.slice::<u64>("stays").unwrap() == words, "{tracker}: what was written before the error");
            assert!(snapshot.slice::<u64>("gone").unwrap().iter().all(|word| *word == 7), "{tracker}");
        }
    }
}

#[test]
fn a_part_of_a_managed_variable_may_be_tracked_under_another_name() {
    let _alone = alone();
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        let dir = Dir::new("part");
        let mut region = dir.options().tracker(tracker).create("r").unwrap();
        let words = 24 << 17;
        let whole = region.array::<u64>("whole", &[words]).unwrap();
        let (address, _) = region.managed_bytes(whole.id()).unwrap();
        let part = region.track::<u64>("part").unwrap();
        let (start, end) = (700, 17 << 17);
        let observer = dir.observe("r");
        let mut numbers = Numbers(7);
        // At least five windows, also where everything is slow.
        for version in 1..versions().max(50) {
            // One window at a time, so that the others become the planes' and are taken back later.
            let window = (version as usize / 9 % 12) << 18;
            for _ in 0..20 {
                region.slice_mut(&whole)[window + numbers.next() as usize % (1 << 18)] = numbers.next();
            }
            let publication = region.publish(version);
            // SAFETY: the words lie in the variable, and nobody writes them until the commit.
            let publication = unsafe {
                let first = address.add(start * 8);
                publication.tracked_raw(part.id(), first, (end - start) * 8, &[end - start], Order::C)
            };
            publication.commit().unwrap();
            let (snapshot, now) = (observer.newest().unwrap(), region.slice(&whole));
            assert!(snapshot.slice::<u64>("whole").unwrap() == now, "{tracker}: whole of version {version}");
            assert!(snapshot.slice::<u64>("part").unwrap() == &now[start..end], "{tracker}: part of version {version}");
        }
    }
}
