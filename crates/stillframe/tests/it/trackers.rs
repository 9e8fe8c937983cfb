//! One suite over all trackers: whatever finds the written pages, observers see exactly what the producer had.
//!
//! A producer with managed, tracked and loaned variables does random things for many versions while observers hold some of
//! them. A plain copy of all content at each publish is the reference that every held snapshot is compared with, again and
//! again, until it is let go.

use crate::common::{Dir, Numbers, difference_at, trackers, versions, watchdog};
use crate::large_memory::LargeMemory;
use crate::large_pages::LargePages;
use std::collections::BTreeMap;
use stillframe::{COPY_UNITS, CopyUnit, Element, Observer, Order, Region, Rule, Snapshot, TrackerKind};

type Content = BTreeMap<&'static str, (Vec<usize>, Vec<u64>)>;

struct Held {
    snapshot: Snapshot,
    content: Content,
}

fn check(held: &Held) {
    assert_eq!(held.snapshot.variables().len(), held.content.len());
    for (name, (shape, elements)) in &held.content {
        let variable = held.snapshot.variable(name).unwrap();
        assert_eq!(&variable.shape, shape, "{name} of version {}", held.snapshot.version());
        let slice = held.snapshot.slice::<u64>(name).unwrap();
        let difference = difference_at(slice, elements);
        assert_eq!(difference, None, "{name} of version {}: element that differs", held.snapshot.version());
        let mut end = 0;
        for chunk in held.snapshot.chunks(name).unwrap() {
            assert_eq!(chunk.offset, end);
            assert_eq!(chunk.bytes, &bytemuck::cast_slice::<u64, u8>(elements)[end..end + chunk.bytes.len()]);
            end += chunk.bytes.len();
        }
        assert_eq!(end, elements.len() * 8);
    }
}

/// What `changed` leaves out must be the same in both.
fn check_changed(old: &Held, new: &Held) {
    for (name, (_, after)) in &new.content {
        let Some((_, before)) = old.content.get(name) else { continue };
        let mut changed = new.snapshot.changed(&old.snapshot, name).unwrap();
        changed.sort_by_key(|range| range.start);
        changed.push(8 * after.len()..8 * after.len());
        let mut first = 0;
        for range in changed {
            let unchanged = first..range.start.div_ceil(8);
            if !unchanged.is_empty() {
                let before = before.get(unchanged.clone());
                let before = before.unwrap_or_else(|| panic!("elements {unchanged:?} of {name} came unnoticed"));
                let difference = difference_at(&after[unchanged], before);
                assert_eq!(difference, None, "{name}: element after {first} that changed unnoticed");
            }
            first = first.max(range.end.div_ceil(8));
        }
    }
}

/// In which pages tracked arrays lie.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Pages {
    Small,
    /// In reserved large ones, and some in small ones.
    Large(CopyUnit),
}

enum Memory {
    Small(Vec<u64>),
    Large(LargeMemory),
}

/// Memory for a tracked array that starts `offset` elements into a page or not, as real allocations do.
struct Buffer {
    memory: Memory,
    offset: usize,
    length: usize,
}

/// Elements of a large page.
const LARGE_LENGTH: usize = 1 << 18;

impl Buffer {
    fn new(numbers: &mut Numbers, length: usize, pages: Pages) -> Buffer {
        let offset = numbers.below(600);
        if pages != Pages::Small && numbers.below(8) > 0 {
            // It shares the large pages at its ends, or is alone in all.
            let offset = [offset, numbers.below(LARGE_LENGTH), 0, LARGE_LENGTH][numbers.below(4)];
            if let Some(memory) = LargeMemory::new(offset + length + 64) {
                return Buffer { memory: Memory::Large(memory), offset, length };
            }
        }
        Buffer { memory: Memory::Small(vec![0; offset + length + 64]), offset, length }
    }

    fn all(&self) -> &[u64] {
        match &self.memory {
            Memory::Small(memory) => memory,
            Memory::Large(memory) => memory.slice(),
        }
    }

    fn slice(&self) -> &[u64] {
        &self.all()[self.offset..self.offset + self.length]
    }

    fn slice_mut(&mut self) -> &mut [u64] {
        let range = self.offset..self.offset + self.length;
        match &mut self.memory {
            Memory::Small(memory) => &mut memory[range],
            Memory::Large(memory) => &mut memory.slice_mut()[range],
        }
    }
}

fn scribble(numbers: &mut Numbers, slice: &mut [u64]) {
    if slice.is_empty() {
        return;
    }
    match numbers.below(4) {
        0 => {}
        1 => slice.iter_mut().for_each(|element| *element = numbers.next()),
        2 => {
            for _ in 0..numbers.below(20) {
                let at = numbers.below(slice.len());
                slice[at] = numbers.next();
            }
        }
        _ => {
            let start = numbers.below(slice.len());
            let end = (start + numbers.below(20_000)).min(slice.len());
            slice[start..end].iter_mut().for_each(|element| *element = numbers.next());
        }
    }
}

fn play(tracker: TrackerKind, seed: u64, versions: u64, pages: Pages) {
    let dir = Dir::new("play");
    let numbers = &mut Numbers(seed);
    let keep = 1 + numbers.below(3);
    let mut options = dir.options().tracker(tracker).keep(keep).rule(Rule::Fail);
    if let Pages::Large(unit) = pages {
        options = options.copy_unit(unit);
    }
    let mut region = options.create("r").unwrap();
    assert_eq!(region.tracker(), tracker);
    // Three windows and a bit, so that windows and their edges matter.
    let shape = [1700, 1000];
    let managed = region.array::<u64>("managed", &shape).unwrap();
    let small = region.array::<u64>("small", &[5]).unwrap();
    let tracked = region.track::<u64>("tracked").unwrap();
    let loaned = region.loaned::<u64>("loaned", &[600, 100]).unwrap();
    let mut buffers: Vec<Buffer> = (0..2).map(|_| Buffer::new(numbers, 300_000, pages)).collect();
    let mut lent: Option<Vec<u64>> = None;
    let mut last_tracked: Option<(Vec<usize>, Vec<u64>)> = None;
    let mut has_extra = false;
    let mut held: Vec<Held> = Vec::new();
    let observer: Observer = dir.observe("r");
    for version in 1..=versions {
        let phase = numbers.below(8);
        // Long quiet stretches let pages turn cold, so that windows are shared and written again later.
        if version % 97 > 40 || phase == 0 {
            scribble(numbers, region.slice_mut(&managed));
        } else {
            region.slice_mut(&managed)[777_777] = version;
        }
        scribble(numbers, region.slice_mut(&small));
        let index = numbers.below(buffers.len());
        if numbers.below(20) == 0 {
            let length = [0, 1, 511, 512, 513, 100_000, 300_000, 400_000, 2 * LARGE_LENGTH][numbers.below(9)];
            buffers[index] = Buffer::new(numbers, length, pages);
        } else if numbers.below(4) == 0 {
            let length = (buffers[index].length + numbers.below(700)).saturating_sub(300);
            let limit = buffers[index].all().len() - buffers[index].offset;
            buffers[index].length = length.min(limit);
        }
        scribble(numbers, buffers[index].slice_mut());
        if numbers.below(3) == 0 {
            let mut loan = region.loan(&loaned).unwrap();
            loan.iter_mut().for_each(|element| *element = numbers.next());
            let copy = loan.to_vec();
            if numbers.below(5) > 0 {
                loan.submit();
                lent = Some(copy);
            }
        }
        if numbers.below(60) == 0 {
            if has_extra {
                region.remove("extra").unwrap();
            } else {
                let extra = region.array::<u64>("extra", &[3000]).unwrap();
                region.slice_mut(&extra).fill(version);
            }
            has_extra = !has_extra;
        }
        let give = numbers.below(6) > 0;
        let with_extra = has_extra.then(|| region.newest()).is_some();
        let mut publication = region.publish(version * 3).attr("time", version as f64 * 0.5);
        if give {
            let slice = buffers[index].slice();
            publication = publication.tracked(&tracked, slice, &[slice.len()]);
            last_tracked = Some((vec![slice.len()], slice.to_vec()));
        }
        let published = publication.commit().unwrap();
        assert_eq!(published.version, version * 3);
        let snapshot = observer.newest().unwrap();
        let mut content = Content::new();
        content.insert("managed", (shape.to_vec(), region.slice(&managed).to_vec()));
        content.insert("small", (vec![5], region.slice(&small).to_vec()));
        if let Some((shape, elements)) = &last_tracked {
            content.insert("tracked", (shape.clone(), elements.clone()));
        }
        content.insert("loaned", (vec![600, 100], lent.clone().unwrap_or_else(|| vec![0; 60_000])));
        if with_extra {
            let extra = snapshot.slice::<u64>("extra").unwrap();
            assert!(extra.iter().all(|element| *element == extra[0] && extra[0] > 0));
            content.insert("extra", (vec![3000], extra.to_vec()));
        }
        let new = Held { snapshot, content };
        check(&new);
        if let Some(old) = held.last() {
            check_changed(old, &new);
        }
        if numbers.below(4) == 0 {
            held.push(new);
        }
        if held.len() > 3 || numbers.below(8) == 0 {
            let index = numbers.below(held.len());
            if index < held.len() {
                held.remove(index);
            }
        }
        if version % 10 == 0 {
            held.iter().for_each(check);
        }
    }
    held.iter().for_each(check);
    assert!(observer.versions().iter().filter(|info| !info.retiring).count() <= keep);
    drop(held);
    region.unlink().unwrap();
}

#[test]
fn observers_see_what_the_producer_had_with_every_tracker() {
    let _watchdog = watchdog(600);
    let versions = versions();
    let found = trackers();
    assert!(!found.is_empty());
    for tracker in found {
        for seed in 0..3 {
            eprintln!("{tracker}, seed {seed}");
            play(tracker, seed, versions, Pages::Small);
        }
    }
}

#[test]
fn observers_see_what_the_producer_had_in_large_pages() {
    let Some(_pages) = LargePages::take(16) else {
        eprintln!("skipped: the machine gives no large pages");
        return;
    };
    let _watchdog = watchdog(600);
    for tracker in trackers() {
        for unit in COPY_UNITS {
            eprintln!("{tracker}, {unit}");
            play(tracker, 7, versions(), Pages::Large(unit));
        }
    }
}

/// Versions of an array in large pages of which each shows what few places and what all of it got.
#[test]
fn of_a_large_page_in_which_little_is_written_little_is_copied() {
    let Some(pages) = LargePages::take(8) else {
        eprintln!("skipped: the machine gives no large pages");
        return;
    };
    let _watchdog = watchdog(600);
    let tracker = TrackerKind::WpAsync;
    if !trackers().contains(&tracker) {
        eprintln!("skipped: {tracker} does not work here");
        return;
    }
    let copied = |unit: CopyUnit, whole: bool| {
        let dir = Dir::new("units");
        let mut region = dir.options().tracker(tracker).copy_unit(unit).create("r").unwrap();
        let tracked = region.track::<u64>("tracked").unwrap();
        let observer: Observer = dir.observe("r");
        let mut memory = pages.make(|| LargeMemory::new(4 * LARGE_LENGTH));
        // A page that comes only now is new to the tracker, too.
        memory.slice_mut().fill(1);
        let mut before = 0;
        for version in 1..=40 {
            match whole {
                true => memory.slice_mut().fill(version),
                false => memory.slice_mut()[version as usize * 4099] = version,
            }
            before = if version == 2 { region.statistics().copied_pages } else { before };
            let slice = memory.slice();
            region.publish(version).tracked(&tracked, slice, &[slice.len()]).commit().unwrap();
            assert!(*observer.newest().unwrap().slice::<u64>("tracked").unwrap() == *slice, "version {version}");
        }
        (region.statistics().copied_pages - before) / 39
    };
    // One small page each time; a large one, which is 512; or four of these.
    assert_eq!(copied(CopyUnit::Learned, false), 1);
    assert_eq!(copied(CopyUnit::Small, false), 1);
    assert_eq!(copied(CopyUnit::Large, false), 512);
    for unit in COPY_UNITS {
        assert_eq!(copied(unit, true), 2048, "{unit}");
    }
}

#[test]
fn what_is_written_is_seen_of_an_array_that_grows_into_large_pages() {
    let Some(pages) = LargePages::take(4) else {
        eprintln!("skipped: the machine gives no large pages");
        return;
    };
    let _watchdog = watchdog(600);
    for tracker in trackers() {
        // It ends where a large page does, or in the middle of one.
        for end in [3 * LARGE_LENGTH, 3 * LARGE_LENGTH - 1000] {
            let dir = Dir::new("grown");
            let mut region = dir.options().tracker(tracker).create("r").unwrap();
            let tracked = region.track::<u64>("tracked").unwrap();
            let observer: Observer = dir.observe("r");
            let mut memory = pages.make(|| LargeMemory::behind_small(2 * LARGE_LENGTH));
            for version in 1..=12u64 {
                let length = if version < 4 { LARGE_LENGTH - 100 } else { end };
                let slice = &mut memory.slice_mut()[5..length];
                let count = slice.len();
                slice[version as usize * 20_011 % count] = version;
                slice[count - 1 - version as usize] = version;
                region.publish(version).tracked(&tracked, slice, &[count]).commit().unwrap();
                let seen = observer.newest().unwrap();
                assert!(*seen.slice::<u64>("tracked").unwrap() == *slice, "{tracker}, version {version}, to {end}");
            }
        }
    }
}

fn round_trip<T: Element + PartialEq + std::fmt::Debug>(value: T) {
    let dir = Dir::new("dtype");
    let mut region: Region = dir.options().create("r").unwrap();
    let array = region.array::<T>("a", &[3, 700]).unwrap();
    region.slice_mut(&array)[1400] = value;
    region.publish(1).commit().unwrap();
    let snapshot = dir.observe("r").newest().unwrap();
    assert_eq!(snapshot.slice::<T>("a").unwrap()[1400], value);
    assert_eq!(snapshot.variable("a").unwrap().dtype, T::dtype());
    assert_eq!(snapshot.variable("a").unwrap().order, Order::C);
    assert!(snapshot.slice::<[u8; 3]>("a").is_err() || T::dtype().bytes() == 3);
}

#[test]
fn every_element_type_arrives_as_it_was() {
    let _watchdog = watchdog(600);
    round_trip(-1i8);
    round_trip(-1i16);
    round_trip(-1i32);
    round_trip(-1i64);
    round_trip(1u8);
    round_trip(1u16);
    round_trip(1u32);
    round_trip(u64::MAX);
    round_trip(1.5f32);
    round_trip(-0.1f64);
    round_trip(stillframe::Complex::new(1f32, 2.0));
    round_trip(stillframe::Complex::new(1f64, 2.0));
    round_trip(*b"abc");
}
