//! Small tracked arrays that lie side by side, and share the pages at their ends: whatever is written, freed, left out or given
//! again, each version shows every array as it was when it was published last.

#![allow(unsafe_code)]

mod between;

use crate::common::{Dir, Numbers, difference_at, trackers, watchdog};
use crate::seed::Seed;
use std::ops::Range;
use stillframe::{Error, Observer, Order, Outcome, PAGE_BYTES, Region, Rule, Snapshot, Tracked, TrackerKind};

/// Memory in which the arrays lie.
struct Memory {
    address: usize,
    bytes: usize,
}

impl Memory {
    fn new(bytes: usize) -> Memory {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory at an address that the kernel chooses.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Memory { address: at as usize, bytes }
    }

    fn part(&self, bytes: &Range<usize>) -> &[u8] {
        // SAFETY: it is inside the memory, which a test writes and reads in turns.
        unsafe { std::slice::from_raw_parts((self.address + bytes.start) as *const u8, bytes.len()) }
    }

    fn write(&self, at: usize, byte: u8) {
        // SAFETY: as above; no slice of it is kept.
        unsafe { ((self.address + at) as *mut u8).write(byte) };
    }

    /// Gives pages back, so that they are zeros; as new memory at these addresses if `is_new`.
    fn free(&self, pages: Range<usize>, is_new: bool) {
        let (at, bytes) = ((self.address + pages.start * PAGE_BYTES) as *mut libc::c_void, pages.len() * PAGE_BYTES);
        // SAFETY: the pages are inside the memory, and no slice of them is kept.
        unsafe {
            if is_new {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
                let got = libc::mmap(at, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
                assert_eq!(got, at);
            } else {
                assert_eq!(libc::madvise(at, bytes, libc::MADV_DONTNEED), 0);
            }
        }
    }
}

impl Memory {
    /// Others map a page of a file at an offset.
    fn replace_by_a_file(&self, offset: usize) {
        use std::os::fd::AsRawFd;
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let (at, flags) = ((self.address + offset) as *mut libc::c_void, libc::MAP_PRIVATE | libc::MAP_FIXED);
        // SAFETY: a page of the memory, of which no slice is left.
        let got = unsafe { libc::mmap(at, PAGE_BYTES, libc::PROT_READ, flags, file.as_raw_fd(), 0) };
        assert_eq!(got, at);
    }
}

/// Whether the kernel watches some of the memory.
fn is_watched(memory: &Memory) -> bool {
    let all = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_inside = false;
    all.lines().any(|line| {
        let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let ends = range.and_then(|(start, end)| {
            Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
        });
        if let Some((start, end)) = ends {
            is_inside = start < memory.address + memory.bytes && memory.address < end;
        }
        is_inside && line.starts_with("VmFlags:") && line.split(' ').any(|flag| flag == "uw")
    })
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: no slice of it is left.
        unsafe { libc::munmap(self.address as *mut libc::c_void, self.bytes) };
    }
}

/// A tracked array, and what the newest version shows of it.
struct Array {
    variable: Tracked<u8>,
    name: String,
    bytes: Range<usize>,
    shown: Option<Vec<u8>>,
}

struct World {
    region: Region,
    observer: Observer,
    memory: Memory,
    arrays: Vec<Array>,
    numbers: Numbers,
    version: u64,
    declared: usize,
    held: Vec<Snapshot>,
    _dir: Dir,
}

const PAGES: usize = 160;

impl World {
    fn new(tracker: TrackerKind, seed: u64) -> World {
        let dir = Dir::new("neighbours");
        let region = dir.options().tracker(tracker).rule(Rule::Skip).threads(1).create("r").unwrap();
        let observer = dir.observe("r");
        let memory = Memory::new(PAGES * PAGE_BYTES);
        let (arrays, numbers) = (Vec::new(), Numbers(seed));
        World { region, observer, memory, arrays, numbers, version: 0, declared: 0, held: Vec::new(), _dir: dir }
    }

    /// Declares arrays from one end of the memory to the other, with gaps as an allocator leaves them.
    fn fill(&mut self) {
        let mut at = self.numbers.below(PAGE_BYTES);
        loop {
            let bytes = match self.numbers.below(8) {
                0 => 1 + self.numbers.below(PAGE_BYTES),
                1 => PAGE_BYTES * (1 + self.numbers.below(3)),
                2 => PAGE_BYTES * 70,
                _ => PAGE_BYTES + self.numbers.below(5 * PAGE_BYTES),
            };
            if at + bytes > PAGES * PAGE_BYTES {
                return;
            }
            self.declare(at..at + bytes);
            at += bytes;
            at = match self.numbers.below(8) {
                0 => at + self.numbers.below(3 * PAGE_BYTES),
                // Others have pages in between.
                3 => at + PAGE_BYTES + self.numbers.below(12 * PAGE_BYTES),
                1 => at.next_multiple_of(PAGE_BYTES),
                2 => at,
                _ => at + 16,
            };
        }
    }

    fn declare(&mut self, bytes: Range<usize>) {
        self.declared += 1;
        let name = format!("a{}", self.declared);
        let variable = self.region.track::<u8>(&name).unwrap();
        let place = self.numbers.below(self.arrays.len() + 1);
        self.arrays.insert(place, Array { variable, name, bytes, shown: None });
    }

    fn write(&mut self) {
        for _ in 0..self.numbers.below(6) {
            let Some(array) = self.arrays.get(self.numbers.below(self.arrays.len().max(1))) else { return };
            let bytes = array.bytes.clone();
            let at = match self.numbers.below(5) {
                4 => self.numbers.below(PAGES * PAGE_BYTES),
                0 => bytes.start,
                1 => bytes.end - 1,
                2 => bytes.start + self.numbers.below(bytes.len()),
                // Beside it, where another may lie or nothing.
                _ => (bytes.end + self.numbers.below(64)).min(PAGES * PAGE_BYTES - 1),
            };
            let byte = self.numbers.next() as u8;
            self.memory.write(at, byte);
        }
    }

    /// One of the things that happen between two publishes.
    fn happen(&mut self) {
        match self.numbers.below(24) {
            0 => {
                let first = self.numbers.below(PAGES);
                let pages = first..(first + 1 + self.numbers.below(8)).min(PAGES);
                let is_new = self.numbers.below(2) == 0;
                self.memory.free(pages, is_new);
            }
            1 if !self.arrays.is_empty() => {
                let array = self.arrays.remove(self.numbers.below(self.arrays.len()));
                self.region.remove(&array.name).unwrap();
                if self.numbers.below(2) == 0 {
                    self.declare(array.bytes);
                }
            }
            // Another array in the memory of others.
            2 => {
                let start = self.numbers.below((PAGES - 8) * PAGE_BYTES);
                let bytes = start..start + 1 + self.numbers.below(7 * PAGE_BYTES);
                self.declare(bytes);
            }
            3 if !self.arrays.is_empty() => {
                let place = self.numbers.below(self.arrays.len());
                let bytes = &mut self.arrays[place].bytes;
                let end = bytes.start + 1 + self.numbers.below(6 * PAGE_BYTES);
                bytes.end = end.min(PAGES * PAGE_BYTES);
            }
            4 => self.held.extend(self.observer.newest().ok()),
            5 => self.held.clear(),
            _ => {}
        }
    }

    /// Publishes all arrays or some of them.
    fn publish(&mut self) {
        self.version += 1;
        let share = [100, 100, 100, 50, 10][self.numbers.below(5)];
        let given: Vec<usize> = (0..self.arrays.len()).filter(|_| self.numbers.below(100) < share).collect();
        let fails = self.numbers.below(16) == 0 && self.observer.newest().is_ok();
        let version = if fails { 0 } else { self.version };
        // A part of what no version shows is refused after the search.
        let unknown = given.iter().copied().rfind(|index| self.arrays[*index].shown.is_none());
        let unknown = unknown.filter(|_| self.numbers.below(2) == 0);
        let mut publication = self.region.publish(version);
        for index in &given {
            let Array { variable, bytes, .. } = &self.arrays[*index];
            let memory = self.memory.part(bytes);
            // SAFETY: nobody writes it until the publish has ended.
            publication = unsafe {
                match unknown {
                    Some(unknown) if unknown == *index => {
                        publication.tracked_part(variable.id(), memory, &[memory.len()], Order::C, 0..0, None)
                    }
                    _ => {
                        publication.tracked_raw(variable.id(), memory.as_ptr(), memory.len(), &[memory.len()], Order::C)
                    }
                }
            };
        }
        match publication.commit() {
            Ok(published) if published.outcome == Outcome::Published => {
                for index in given {
                    let Array { bytes, shown, .. } = &mut self.arrays[index];
                    *shown = Some(self.memory.part(bytes).to_vec());
                }
                self.check();
            }
            Ok(_) => self.held.clear(),
            Err(Error::NotIncreasing { .. }) if fails => {}
            Err(Error::WrongShape { .. }) if unknown.is_some() => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Publishes all arrays.
    fn publish_all(&mut self) -> Outcome {
        self.version += 1;
        let publication = self.region.publish(self.version);
        let given = self.arrays.iter().fold(publication, |publication, Array { variable, bytes, .. }| {
            publication.tracked(variable, self.memory.part(bytes), &[bytes.len()])
        });
        given.commit().unwrap().outcome
    }

    /// Whether the newest version has all arrays as they are.
    fn check_all(&self) {
        let snapshot = self.observer.newest().unwrap();
        for Array { name, bytes, .. } in &self.arrays {
            let differs = difference_at(snapshot.slice::<u8>(name).unwrap(), self.memory.part(bytes));
            assert_eq!(differs, None, "{}, version {}, {name}", self.region.tracker(), self.version);
        }
    }

    fn check(&self) {
        let snapshot = self.observer.newest().unwrap();
        assert_eq!(snapshot.version(), self.version);
        for Array { name, bytes, shown, .. } in &self.arrays {
            let Some(shown) = shown else { continue };
            let found = snapshot.slice::<u8>(name).unwrap();
            assert_eq!(found.len(), shown.len(), "version {}, {name}", self.version);
            let differs = difference_at(found, shown);
            let tracker = self.region.tracker();
            assert_eq!(differs, None, "{tracker}, version {}, {name} of {bytes:?}: byte that differs", self.version);
        }
    }
}

#[test]
fn versions_show_small_arrays_side_by_side_as_they_were() {
    let _watchdog = watchdog(300);
    let mut seeds = Numbers(Seed::first(1));
    for tracker in trackers() {
        for _ in 0..crate::tier::by_tier(6, 200) {
            let mut world = World::new(tracker, seeds.next());
            world.fill();
            for _ in 0..60 {
                world.write();
                world.happen();
                world.publish();
            }
        }
    }
}

/// They were searched together, and armed, before one that is refused ended the publish.
#[test]
fn what_was_written_before_a_publish_that_another_array_ended_is_in_the_next() {
    let _watchdog = watchdog(120);
    for tracker in trackers() {
        let mut world = World::new(tracker, 1);
        let unknown = world.region.track::<u8>("unknown").unwrap();
        for place in 0..4 {
            let start = 100 + place * (2 * PAGE_BYTES + 16);
            world.declare(start..start + 2 * PAGE_BYTES);
        }
        for round in 1..20 {
            for array in 0..4 {
                let bytes = world.arrays[array].bytes.clone();
                let at = [bytes.start, bytes.end - 1, bytes.start + PAGE_BYTES][(round + array) % 3];
                world.memory.write(at, round as u8);
            }
            for is_refused in [round % 2 == 0, false] {
                world.version += 1;
                let mut publication = world.region.publish(world.version);
                for Array { variable, bytes, .. } in &world.arrays {
                    publication = publication.tracked(variable, world.memory.part(bytes), &[bytes.len()]);
                }
                if is_refused {
                    let memory = world.memory.part(&(0..50));
                    // SAFETY: nobody writes it until the publish has ended.
                    publication =
                        unsafe { publication.tracked_part(unknown.id(), memory, &[50], Order::C, 0..0, None) };
                }
                assert_eq!(publication.commit().is_err(), is_refused);
            }
            let snapshot = world.observer.newest().unwrap();
            for Array { name, bytes, .. } in &world.arrays {
                let differs = difference_at(snapshot.slice::<u8>(name).unwrap(), world.memory.part(bytes));
                assert_eq!(differs, None, "{tracker}, round {round}, {name}");
            }
        }
    }
}

/// What is left watched would keep other regions from watching it, and costs a mapping.
#[test]
fn nothing_is_watched_any_more_when_all_arrays_are_removed() {
    let _watchdog = watchdog(120);
    for tracker in trackers() {
        for what in ["nothing", "an alias", "new memory"] {
            let mut world = World::new(tracker, 1);
            for place in 0..6 {
                let start = 100 + place * (2 * PAGE_BYTES + 16);
                world.declare(start..start + 2 * PAGE_BYTES);
            }
            for _ in 0..4 {
                world.publish_all();
            }
            match what {
                "an alias" => world.declare(0..8 * PAGE_BYTES),
                "new memory" => world.memory.free(1..3, true),
                _ => {}
            }
            world.publish_all();
            for Array { name, .. } in std::mem::take(&mut world.arrays) {
                world.region.remove(&name).unwrap();
            }
            world.publish_all();
            assert!(!is_watched(&world.memory), "{tracker}, {what}");
        }
    }
}

/// The page between two arrays becomes one of a third, which goes on when they are gone and another region has the page, too.
#[test]
fn a_page_that_was_between_two_arrays_is_given_up_once() {
    let _watchdog = watchdog(120);
    for tracker in trackers() {
        let mut world = World::new(tracker, 1);
        let mut other = World::new(tracker, 1);
        let (a, mut b, c) = (100..3 * PAGE_BYTES + 100, 4 * PAGE_BYTES..7 * PAGE_BYTES, 3 * PAGE_BYTES..4 * PAGE_BYTES);
        let Memory { address, bytes } = world.memory;
        let part =
            |bytes: &Range<usize>| std::ptr::slice_from_raw_parts((address + bytes.start) as *const u8, bytes.len());
        let publish = |world: &mut World, given: &[(&Tracked<u8>, &Range<usize>)]| {
            world.version += 1;
            let publication = world.region.publish(world.version);
            let given = given.iter().fold(publication, |publication, (variable, bytes)| {
                let memory = part(bytes);
                // SAFETY: the memory is there, and nobody writes it until the publish has ended.
                unsafe {
                    publication.tracked_raw(variable.id(), memory.cast(), memory.len(), &[memory.len()], Order::C)
                }
            });
            given.commit().unwrap();
        };
        assert!(b.end < bytes);
        let [first, second] = ["a", "b"].map(|name| world.region.track::<u8>(name).unwrap());
        for _ in 0..4 {
            publish(&mut world, &[(&first, &a), (&second, &b)]);
        }
        world.region.remove("a").unwrap();
        let third = world.region.track::<u8>("c").unwrap();
        b.end = b.start + 50;
        world.memory.write(c.start + 5, 1);
        publish(&mut world, &[(&third, &c), (&second, &b)]);
        world.region.remove("b").unwrap();
        world.memory.write(c.start + 5, 2);
        let same = other.region.track::<u8>("d").unwrap();
        publish(&mut other, &[(&same, &c)]);
        publish(&mut world, &[(&third, &c)]);
        for value in 3..20 {
            for (world, name) in [(&world, "c"), (&other, "d")] {
                assert_eq!(
                    world.observer.newest().unwrap().slice::<u8>(name).unwrap()[5],
                    value - 1,
                    "{tracker}, {name}"
                );
            }
            world.memory.write(c.start + 5, value);
            publish(&mut other, &[(&same, &c)]);
            publish(&mut world, &[(&third, &c)]);
        }
    }
}

/// Its own search arms the page in which two others meet while they are left out.
#[test]
fn what_was_written_where_a_third_array_was_searched_is_in_the_version_after_it_is_gone() {
    let _watchdog = watchdog(120);
    for (tracker, is_removed) in trackers().into_iter().flat_map(|tracker| [(tracker, true), (tracker, false)]) {
        let mut world = World::new(tracker, 1);
        world.declare(16..2 * PAGE_BYTES + 100);
        world.declare(2 * PAGE_BYTES + 200..5 * PAGE_BYTES);
        world.declare(2 * PAGE_BYTES..3 * PAGE_BYTES);
        let third = world.arrays.iter().position(|array| array.bytes.len() == PAGE_BYTES).unwrap();
        let mut third = world.arrays.remove(third);
        let publish = |world: &mut World, arrays: &[&Array]| {
            world.version += 1;
            let publication = world.region.publish(world.version);
            let given = arrays.iter().fold(publication, |publication, Array { variable, bytes, .. }| {
                publication.tracked(variable, world.memory.part(bytes), &[bytes.len()])
            });
            given.commit().unwrap();
        };
        let pair = std::mem::take(&mut world.arrays);
        let both: Vec<&Array> = pair.iter().collect();
        for _ in 0..4 {
            publish(&mut world, &both);
        }
        for round in 1..10 {
            publish(&mut world, &[&third]);
            world.memory.write(2 * PAGE_BYTES + 50, round);
            publish(&mut world, &[&third]);
            publish(&mut world, &[&third]);
        }
        if is_removed {
            world.region.remove(&third.name).unwrap();
        } else {
            // It has no page of its own any more, which is watched all the same.
            third.bytes.end = third.bytes.start + 50;
            publish(&mut world, &[&third]);
        }
        publish(&mut world, &both);
        let snapshot = world.observer.newest().unwrap();
        for Array { name, bytes, .. } in &pair {
            let differs = difference_at(snapshot.slice::<u8>(name).unwrap(), world.memory.part(bytes));
            assert_eq!(differs, None, "{tracker}, {name}");
        }
    }
}

/// The search of a publish that failed has armed what it found.
#[test]
fn what_was_written_at_the_seams_before_a_publish_that_failed_is_in_the_next() {
    let _watchdog = watchdog(120);
    for tracker in trackers() {
        let mut world = World::new(tracker, 1);
        let mut at = 100;
        for _ in 0..20 {
            world.declare(at..at + 2 * PAGE_BYTES);
            at += 2 * PAGE_BYTES + 16;
        }
        for round in 0..40 {
            for array in 0..20 {
                let bytes = world.arrays[array].bytes.clone();
                world.memory.write(if (round + array) % 2 == 0 { bytes.start } else { bytes.end - 1 }, round as u8 + 1);
            }
            // Held versions leave no room, as soon as there are as many as can be.
            while world.publish_all() == Outcome::Published && round % 4 == 3 {
                world.held.push(world.observer.newest().unwrap());
            }
            world.held.clear();
            assert_eq!(world.publish_all(), Outcome::Published);
            let snapshot = world.observer.newest().unwrap();
            for Array { name, bytes, .. } in &world.arrays {
                let differs = difference_at(snapshot.slice::<u8>(name).unwrap(), world.memory.part(bytes));
                assert_eq!(differs, None, "{tracker}, round {round}, {name}");
            }
        }
    }
}
