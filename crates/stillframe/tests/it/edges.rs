//! Tracked arrays that begin and end within pages, and grow and shrink within them: the pages at their ends belong to
//! others as well, or not, from one publish to the next, also when some of the publishes are left out.

use crate::common::{Dir, Numbers, difference_at, trackers, watchdog};
use stillframe::{Observer, Outcome, PAGE_BYTES, Region, Rule, Snapshot, Tracked, TrackerKind};

const PAGE: usize = PAGE_BYTES / 8;

/// A region at whose bound there is no room while `full` holds a version.
struct Edges {
    region: Region,
    tracked: Tracked<u64>,
    observer: Observer,
    version: u64,
    _dir: Dir,
}

impl Edges {
    fn new(tracker: TrackerKind) -> Edges {
        let dir = Dir::new("edges");
        let options = dir.options().tracker(tracker).rule(Rule::Skip).threads(1);
        let mut region = options.create("r").unwrap();
        let tracked = region.track::<u64>("t").unwrap();
        let observer = dir.observe("r");
        Edges { region, tracked, observer, version: 0, _dir: dir }
    }

    /// Publishes, and checks that the newest version shows what it should.
    fn publish(&mut self, array: &[u64], what: &str) {
        self.version += 1;
        let publication = self.region.publish(self.version).tracked(&self.tracked, array, &[array.len()]);
        assert_eq!(publication.commit().unwrap().outcome, Outcome::Published);
        self.check(array, what);
    }

    fn check(&self, array: &[u64], what: &str) {
        let snapshot = self.observer.newest().unwrap();
        let found = snapshot.slice::<u64>("t").unwrap();
        let (tracker, version) = (self.region.tracker(), self.version);
        assert_eq!((snapshot.version(), found.len()), (version, array.len()));
        let differs = difference_at(found, array);
        assert_eq!(differs, None, "{tracker}, version {version}, {what}: element that differs");
    }

    /// Holds all slots, so that a publish is left out.
    fn fill(&mut self, array: &[u64]) -> Vec<Snapshot> {
        let mut held = Vec::new();
        loop {
            self.version += 1;
            let publication = self.region.publish(self.version).tracked(&self.tracked, array, &[array.len()]);
            match publication.commit().unwrap().outcome {
                Outcome::Published => held.push(self.observer.newest().unwrap()),
                Outcome::Skipped => return held,
            }
        }
    }

    /// A publish that finds no room.
    fn skip(&mut self, array: &[u64]) {
        self.version += 1;
        let publication = self.region.publish(self.version).tracked(&self.tracked, array, &[array.len()]);
        assert_eq!(publication.commit().unwrap().outcome, Outcome::Skipped);
    }
}

/// An array of whole pages in memory of its own, in which its parts begin and end anywhere.
fn memory(pages: usize) -> Vec<u64> {
    let mut memory = vec![0; (pages + 1) * PAGE];
    memory.iter_mut().zip(1..).for_each(|(element, value)| *element = value);
    memory
}

/// The elements of the memory from the first whole page on.
fn start(memory: &[u64]) -> usize {
    (memory.as_ptr() as usize).next_multiple_of(PAGE_BYTES) / 8 - memory.as_ptr() as usize / 8
}

#[test]
fn a_page_at_the_end_that_becomes_a_whole_one_is_published_whole() {
    let _watchdog = watchdog(120);
    for tracker in trackers() {
        for (first, is_dirty, is_skipped) in
            [(0, false, false), (0, true, false), (0, false, true), (0, true, true), (7, true, true), (7, false, false)]
        {
            let what = format!("first {first}, dirty {is_dirty}, skipped {is_skipped}");
            let mut edges = Edges::new(tracker);
            let mut memory = memory(16);
            let start = start(&memory);
            let part = |end: usize| start + first..start + end;
            // The last page is also others', with what is in it already; then it is the array's alone.
            let (short, long) = (10 * PAGE + 100, 11 * PAGE);
            edges.publish(&memory[part(short)], &what);
            edges.publish(&memory[part(short)], &what);
            let held = if is_skipped { edges.fill(&memory[part(short)]) } else { Vec::new() };
            if is_dirty {
                memory[start + 10 * PAGE + 50] = 77;
            }
            if is_skipped {
                edges.skip(&memory[part(long)]);
            }
            drop(held);
            edges.publish(&memory[part(long)], &what);
            memory[start + 10 * PAGE + 200] = 78;
            edges.publish(&memory[part(long)], &what);
            // And back: what changes meanwhile behind its end is the array's when it is longer again.
            edges.publish(&memory[part(short)], &what);
            memory[start + 10 * PAGE + 300] = 79;
            if is_dirty {
                memory[start + 10 * PAGE + 20] = 80;
            }
            edges.publish(&memory[part(short)], &what);
            edges.publish(&memory[part(long)], &what);
        }
    }
}

#[test]
fn what_was_a_part_of_a_page_of_an_array_is_published_when_all_of_it_is() {
    let _watchdog = watchdog(120);
    for tracker in trackers() {
        for shortest in [0, 100, 9 * PAGE] {
            let mut edges = Edges::new(tracker);
            let mut memory = memory(20);
            let start = start(&memory);
            let what = format!("shortest {shortest}");
            // The pages are watched, and not written any more but where it is said.
            edges.publish(&memory[start..start + 16 * PAGE], &what);
            edges.publish(&memory[start..start + shortest], &what);
            memory[start + 12 * PAGE] = 77;
            edges.publish(&memory[start..start + shortest], &what);
            edges.publish(&memory[start..start + 15 * PAGE + 280], &what);
            edges.publish(&memory[start..start + 16 * PAGE], &what);
        }
    }
}

#[test]
fn lengths_that_change_at_random_while_publishes_are_left_out_lose_nothing() {
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        for seed in 0..6 {
            let numbers = &mut Numbers(seed * 7919 + 1);
            let mut edges = Edges::new(tracker);
            let mut memory = memory(40);
            let base = start(&memory);
            // The first page is whole, or not.
            let first = base + [0, 13][seed as usize % 2];
            let mut held: Vec<Snapshot> = Vec::new();
            let mut end = 5 * PAGE;
            for turn in 0..250 {
                end = match numbers.below(6) {
                    0 => end,
                    // The same pages.
                    1 => end / PAGE * PAGE + 20 + numbers.below(PAGE - 20),
                    2 => end.div_ceil(PAGE) * PAGE,
                    3 => (end / PAGE).max(1) * PAGE,
                    4 => PAGE + numbers.below(38) * PAGE,
                    _ => 20 + numbers.below(39 * PAGE),
                };
                for _ in 0..numbers.below(6) {
                    // Anywhere in the memory, of the array or behind it.
                    let at = base + numbers.below(40 * PAGE).min(39 * PAGE);
                    memory[at] = numbers.next();
                }
                let array = &memory[first..base + end];
                edges.version += 1;
                let publication = edges.region.publish(edges.version).tracked(&edges.tracked, array, &[array.len()]);
                match publication.commit().unwrap().outcome {
                    Outcome::Published => {
                        edges.check(array, &format!("seed {seed}, turn {turn}"));
                        // Now and then so many are held that there is no room for some turns.
                        if turn % 50 > 10 {
                            held.extend(edges.fill(array));
                        }
                    }
                    Outcome::Skipped if numbers.below(4) == 0 => held.clear(),
                    Outcome::Skipped => {}
                }
            }
        }
    }
}
