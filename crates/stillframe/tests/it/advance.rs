//! What was viewed of a version, brought to later ones: byte for byte what those show, whatever was written, resized or removed
//! in between, and without a trace in what somebody still holds.

use crate::common::{Dir, Numbers, watchdog};
use stillframe::{Error, Group, Observer, Region, Snapshot, VariableId, View};

const PAGE: usize = 4096;
/// Two windows and a bit.
const PAGES: usize = 1100;

/// A program with an array, and what it has there.
struct Program {
    region: Region,
    id: VariableId,
    content: Vec<u8>,
    numbers: Numbers,
}

impl Program {
    fn new(dir: &Dir, seed: u64) -> Program {
        let mut region = dir.options().keep(3).create("r").unwrap();
        // What comes before it does not end on a page.
        region.array::<u8>("before", &[100]).unwrap();
        let id = region.array::<u8>("u", &[PAGES * PAGE]).unwrap().id();
        Program { region, id, content: vec![0; PAGES * PAGE], numbers: Numbers(seed) }
    }

    /// Writes some pages here and there, or many together, and publishes.
    fn step(&mut self) {
        let pages = self.content.len() / PAGE;
        let (writes, together) = match self.numbers.below(6) {
            0 => (1, pages),
            1 => (0, 0),
            _ => (self.numbers.below(60), 1 + self.numbers.below(3)),
        };
        for _ in 0..writes {
            let first = self.numbers.below(pages);
            let end = (first + together).min(pages) * PAGE;
            let value = self.numbers.below(256) as u8;
            self.content[first * PAGE..end].fill(value);
            self.region.bytes_mut(self.id).unwrap()[first * PAGE..end].fill(value);
        }
        let version = self.region.newest().map_or(0, |newest| newest + 1);
        self.region.publish(version).commit().unwrap();
    }

    fn resize(&mut self, bytes: usize) {
        self.region.resize(self.id, &[bytes]).unwrap();
        self.content.resize(bytes, 0);
    }
}

fn newer(observer: &Observer, last: &Snapshot) -> Snapshot {
    observer.newest_after(Some(last.version()), None).unwrap()
}

#[test]
fn what_is_brought_along_is_what_the_version_shows() {
    let _watchdog = watchdog(300);
    for seed in 0..4 {
        let dir = Dir::new("advance");
        let mut program = Program::new(&dir, seed);
        program.step();
        let observer = dir.observe("r");
        let mut last = observer.newest().unwrap();
        for step in 0..120 {
            assert_eq!(last.slice::<u8>("u").unwrap(), program.content, "seed {seed}, step {step}");
            if step % 40 == 39 {
                let bytes = (PAGES - program.numbers.below(100)) * PAGE;
                program.resize(bytes);
            }
            for _ in 0..1 + program.numbers.below(3) {
                program.step();
            }
            let next = newer(&observer, &last);
            last.advance(next).unwrap();
        }
    }
}

/// In how many mappings of the process bytes lie.
fn mappings_of(bytes: &[u8]) -> usize {
    let own = bytes.as_ptr_range();
    let (start, end) = (own.start as usize, own.end as usize);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let ranges = maps.lines().filter_map(|line| line.split_whitespace().next()?.split_once('-'));
    let is_ours = |(from, to): (&str, &str)| {
        usize::from_str_radix(from, 16).unwrap() < end && usize::from_str_radix(to, 16).unwrap() > start
    };
    ranges.filter(|range| is_ours(*range)).count()
}

#[test]
fn a_copy_does_not_outlive_the_size_of_its_array() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("advance-grown");
    let mut region = dir.options().keep(3).create("r").unwrap();
    let id = region.array::<u8>("u", &[PAGES * PAGE]).unwrap().id();
    let observer = dir.observe("r");
    let mut version = 0;
    // Writes every so many pages of the array from one on and publishes.
    let mut write = |region: &mut Region, first: usize, every: usize| {
        version += 1;
        let bytes = region.bytes_mut(id).unwrap();
        bytes.iter_mut().skip(first * PAGE).step_by(every * PAGE).for_each(|byte| *byte = version as u8);
        let content = bytes.to_vec();
        region.publish(version).commit().unwrap();
        content
    };
    // In all of its windows; by a part of a page; into other windows; shorter; and shorter by a part of a page.
    let sizes = [PAGES * PAGE, PAGES * PAGE + 1, (PAGES + 1000) * PAGE, (PAGES - 300) * PAGE, (PAGES - 301) * PAGE + 1];
    let mut last: Option<Snapshot> = None;
    for bytes in sizes {
        region.resize(id, &[bytes]).unwrap();
        // After all pages the odd ones, an eighth of all at a time, which is too few to be left unarmed: so they lie in as many
        // pieces as there are pages, for which a copy is made rather than maps.
        write(&mut region, 0, 1);
        let mut content = [1, 3, 5, 7].map(|first| write(&mut region, first, 8))[3].clone();
        for step in 0..4 {
            let next = observer.newest().unwrap();
            match &mut last {
                Some(last) => last.advance(next).unwrap(),
                None => last = Some(next),
            }
            let found = last.as_ref().unwrap().slice::<u8>("u").unwrap();
            assert!(found == content, "{bytes} bytes, step {step}");
            // What came along is a copy, which is what the next size must not find.
            assert!(step == 0 || mappings_of(found) < 10, "{bytes} bytes, step {step}: {} maps", mappings_of(found));
            content = write(&mut region, step, 100);
        }
    }
}

#[test]
fn an_array_that_begins_and_ends_within_a_page_is_brought_along() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("advance-within");
    let mut region = dir.options().keep(3).create("r").unwrap();
    let tracked = region.track::<u8>("u").unwrap();
    let mut numbers = Numbers(9);
    let mut memory = vec![0u8; PAGES * PAGE];
    let own = 100..PAGES * PAGE - 333;
    let mut last: Option<Snapshot> = None;
    for version in 0..60 {
        for _ in 0..20 {
            memory[own.start + numbers.below(own.len())] += 1;
        }
        // The last byte, too.
        memory[own.end - 1] += 1;
        let array = &memory[own.clone()];
        region.publish(version).tracked(&tracked, array, &[array.len()]).commit().unwrap();
        let next = dir.observe("r").newest().unwrap();
        match &mut last {
            Some(last) => last.advance(next).unwrap(),
            None => last = Some(next),
        }
        assert_eq!(last.as_ref().unwrap().slice::<u8>("u").unwrap(), array, "version {version}");
    }
}

#[test]
fn what_somebody_holds_stays_as_it_is() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("advance-held");
    let mut program = Program::new(&dir, 7);
    program.step();
    let observer = dir.observe("r");
    let mut last = observer.newest().unwrap();
    let mut held: Vec<(View, Vec<u8>)> = Vec::new();
    let mut clones: Vec<(Snapshot, Vec<u8>)> = Vec::new();
    for step in 0..60 {
        let view = last.view("u").unwrap();
        match step % 4 {
            0 => held.push((view, program.content.clone())),
            1 => clones.push((last.clone(), program.content.clone())),
            _ => drop(view),
        }
        program.step();
        let next = newer(&observer, &last);
        last.advance(next).unwrap();
        if held.len() > 3 {
            held.remove(0);
            clones.remove(0);
        }
        assert!(held.iter().all(|(view, content)| view[..] == content[..]), "step {step}");
        assert!(clones.iter().all(|(clone, content)| clone.slice::<u8>("u").unwrap() == content), "step {step}");
        assert_eq!(last.slice::<u8>("u").unwrap(), program.content, "step {step}");
    }
}

#[test]
fn a_version_ends_when_it_is_left_behind() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("advance-ends");
    let mut program = Program::new(&dir, 3);
    program.step();
    let observer = dir.observe("r");
    let mut last = observer.newest().unwrap();
    for _ in 0..10 {
        last.slice::<u8>("u").unwrap();
        program.step();
        let next = newer(&observer, &last);
        last.advance(next).unwrap();
        let holders = stillframe::inspect::holders(dir.path(), "r").unwrap();
        let held: Vec<_> = holders.iter().map(|holder| (holder.version, holder.versions)).collect();
        assert_eq!(held, [(Some(last.version()), 1)]);
    }
}

#[test]
fn a_region_that_was_made_anew_has_nothing_of_the_one_before() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("advance-anew");
    let mut program = Program::new(&dir, 4);
    (0..20).for_each(|_| program.step());
    let mut last = dir.observe("r").newest().unwrap();
    last.slice::<u8>("u").unwrap();
    program.step();
    last.advance(dir.observe("r").newest().unwrap()).unwrap();
    program.region.unlink().unwrap();
    let mut program = Program::new(&dir, 5);
    program.step();
    last.advance(dir.observe("r").newest().unwrap()).unwrap();
    assert_eq!(last.slice::<u8>("u").unwrap(), program.content);

    let mut other = dir.options().create("other").unwrap();
    other.array::<u8>("u", &[PAGE]).unwrap();
    other.publish(0).commit().unwrap();
    let refused = last.advance(dir.observe("other").newest().unwrap());
    assert!(matches!(refused, Err(Error::DifferentRegions { .. })), "{refused:?}");
    assert_eq!(last.slice::<u8>("u").unwrap(), program.content);
}

#[test]
fn what_was_viewed_of_a_group_comes_along_on_all_ranks() {
    let _watchdog = watchdog(120);
    const RANKS: u32 = 3;
    let dir = Dir::new("advance-group");
    let mut programs: Vec<_> = (0..RANKS)
        .map(|rank| {
            let mut region = dir.options().rank(rank, RANKS).keep(3).create("g").unwrap();
            let u = region.array::<u8>("u", &[PAGES * PAGE]).unwrap();
            (region, u, Numbers(u64::from(rank)))
        })
        .collect();
    let mut publish = |version: u64| {
        for (region, u, numbers) in &mut programs {
            for _ in 0..20 {
                region.slice_mut(u)[numbers.below(PAGES * PAGE)] += 1;
            }
            region.publish(version).commit().unwrap();
        }
        let content = programs.iter_mut().map(|(region, u, _)| region.slice_mut(u).to_vec());
        content.collect::<Vec<_>>()
    };
    let mut content = publish(0);
    let group = Group::options().dir(dir.path()).open("g").unwrap();
    let mut last = group.newest().unwrap();
    let mut clone = None;
    for version in 1..40 {
        for (rank, content) in last.ranks().iter().zip(&content) {
            assert_eq!(rank.slice::<u8>("u").unwrap(), content, "version {}", last.version());
        }
        if version == 20 {
            clone = Some((last.clone(), content));
        }
        content = publish(version);
        last.advance(group.newest_after(Some(last.version()), None).unwrap()).unwrap();
    }
    let (clone, content) = clone.unwrap();
    assert!(clone.ranks().iter().zip(&content).all(|(rank, content)| rank.slice::<u8>("u").unwrap() == content));
}
