//! Tests of the search for arrays that lie side by side.

use super::*;
use crate::store::space::Allocation;
use crate::working::tracker::kind::TrackerKind;
use std::sync::Arc;
use stillframe_kernel::map::Mapping;
use stillframe_kernel::maps::Maps;
use stillframe_kernel::pagemap;

/// Arrays of two pages and a bit, one behind the other, and what watches them.
struct Row {
    tracker: Tracker,
    memory: Arc<Mapping>,
    sources: Vec<Source>,
}

const BYTES: usize = 2 * PAGE_BYTES + 100;

/// Pages of the arrays, with the array's number.
type Pages = Vec<(usize, usize)>;

impl Row {
    /// `None` where pages cannot be watched.
    fn new(arrays: usize) -> Option<Row> {
        Row::apart(arrays, BYTES)
    }

    /// As `new`, with so many bytes from the begin of one to the begin of the next.
    fn apart(arrays: usize, stride: usize) -> Option<Row> {
        TrackerKind::WpAsync.probe_once().ok()?;
        let tracker = Tracker::open(Some(TrackerKind::WpAsync)).unwrap();
        let memory = Mapping::private((arrays * stride).next_multiple_of(PAGE_BYTES), false).unwrap();
        let source = |number: usize| {
            let allocation = Allocation { serial: number as u64, window: number as u32, windows: 1 };
            let mut source = Source::new(allocation, false).unwrap();
            source.set_memory(memory.address() + number * stride, BYTES);
            source
        };
        let sources = (0..arrays).map(source).collect();
        Some(Row { tracker, memory: memory.into(), sources })
    }

    /// Searches them as a publish does; how many were searched with others.
    fn search(&mut self) -> usize {
        let Row { tracker, sources, .. } = self;
        let mut all: Vec<_> = sources.iter_mut().map(|source| Neighbour::new(source, true)).collect();
        assert!(!tracker.search_neighbours(&mut all, &Maps::default()));
        let together = sources.iter().filter(|source| source.is_searched).count();
        for source in sources {
            source.search(tracker, &Maps::default());
            source.sticky.learn(0, source.collected.dirty[0], source.collected.armed[0]);
            source.edges_compared = true;
        }
        together
    }

    /// Whether a page is armed.
    fn is_armed(&self, page: usize) -> bool {
        let mut is_armed = false;
        let note = |_, entry| is_armed = entry & pagemap::ENTRY_ARMED != 0;
        Pagemap::open().unwrap().entries(self.memory.address() + page * PAGE_BYTES, 1, note).unwrap();
        is_armed
    }

    /// Their pages that were found written, and those to be compared, each by the number of the array.
    fn found(&self) -> (Pages, Pages) {
        let list = |mask: fn(&Collected) -> Mask| {
            let sources = self.sources.iter().enumerate();
            sources.flat_map(move |(number, source)| mask(&source.collected).pages().map(move |page| (number, page)))
        };
        (list(|found| found.dirty[0]).collect(), list(|found| found.unsure[0]).collect())
    }
}

#[test]
fn neighbours_are_searched_in_one_call_and_compared_where_a_seam_was_written() {
    let Some(mut row) = Row::new(5) else { return };
    assert_eq!(row.search(), 0, "none is watched yet");
    assert_eq!(row.search(), 5);
    let last = (4, row.sources[4].memory.pages - 1);
    for _ in 0..3 {
        assert_eq!(row.search(), 5);
        assert_eq!(row.found(), (vec![], vec![last]), "the end is always compared");
    }
    row.memory.write(BYTES + PAGE_BYTES, &[1]);
    row.memory.write(3 * BYTES, &[1]);
    assert_eq!(row.search(), 5);
    assert_eq!(row.found(), (vec![(1, 1)], vec![(2, 2), (3, 0), last]));
    assert_eq!(row.search(), 5);
    assert_eq!(row.found(), (vec![], vec![last]));
}

#[test]
fn what_is_known_to_be_written_is_found_as_by_searches_one_by_one() {
    const ARRAYS: usize = 4;
    let Some(mut row) = Row::new(ARRAYS) else { return };
    let mut rounds = 0;
    for round in 0..80 {
        (0..row.memory.bytes() / PAGE_BYTES).for_each(|page| row.memory.write(page * PAGE_BYTES, &[round]));
        let is_known = row.sources.iter().all(|source| source.is_exhausted());
        let mut search_alone = |source: &mut Source| {
            let mut found = Collected::for_windows(1).unwrap();
            let Source { memory, watch, sticky, .. } = source;
            row.tracker.collect(memory, &Maps::default(), watch, sticky, &mut found);
            found
        };
        let alone: Vec<_> = row.sources.iter_mut().filter(|_| is_known).map(&mut search_alone).collect();
        let together = row.search();
        for (source, found) in row.sources.iter().zip(alone) {
            let Collected { dirty, unsure, armed } = &source.collected;
            assert_eq!((dirty, unsure, armed), (&found.dirty, &found.unsure, &found.armed));
            assert_eq!(together, ARRAYS);
        }
        rounds += usize::from(is_known);
    }
    assert!(rounds > 40, "in {rounds} publishes it was known");
}

#[test]
fn a_seam_that_others_write_each_time_is_not_armed_any_more() {
    let Some(mut row) = Row::new(3) else { return };
    for _ in 0..4 {
        row.search();
    }
    let page = BYTES / PAGE_BYTES;
    assert!(row.is_armed(page));
    for _ in 0..STRANGERS_MAX {
        assert_eq!(row.search(), 3);
        row.memory.write(BYTES, &[1]);
    }
    row.search();
    assert_eq!(row.sources[0].strangers, [0, STRANGERS_MAX]);
    for round in 0..9 {
        row.memory.write(BYTES, &[round]);
        assert_eq!(row.search(), 3);
        assert!(row.found().1.contains(&(0, 2)) && row.found().1.contains(&(1, 0)));
        assert!(!row.is_armed(page), "others would pay for it");
    }
    assert!(row.is_armed(2 * BYTES / PAGE_BYTES), "nobody writes the other one");
}

/// Bytes from the begin of an array to that of the next where others have five pages in between.
const FAR: usize = 8 * PAGE_BYTES + 16;

#[test]
fn arrays_between_which_others_have_pages_are_searched_in_one_call_and_those_are_left_alone() {
    let Some(mut row) = Row::apart(4, FAR) else { return };
    let touch = |row: &Row| {
        for page in (0..3).flat_map(|array| array * FAR / PAGE_BYTES + 4..array * FAR / PAGE_BYTES + 7) {
            row.memory.write(page * PAGE_BYTES, &[1]);
        }
    };
    row.search();
    let last = (3, row.sources[3].memory.pages - 1);
    for round in 0..6 {
        touch(&row);
        assert_eq!(row.search(), 4);
        if round > 0 {
            assert_eq!(row.found(), (vec![], vec![last]), "the end is always compared");
        }
        for page in (0..3).flat_map(|array| array * FAR / PAGE_BYTES + 3..array * FAR / PAGE_BYTES + 7) {
            assert!(!row.is_armed(page), "page {page} is of others");
        }
    }
    // The page in which one ends, the one in which another begins, and one of its own.
    row.memory.write(2 * PAGE_BYTES + 1000, &[1]);
    row.memory.write(2 * FAR, &[1]);
    row.memory.write(FAR + PAGE_BYTES, &[1]);
    touch(&row);
    assert_eq!(row.search(), 4);
    assert_eq!(row.found(), (vec![(1, 1)], vec![(0, 2), (2, 0), last]));
    assert_eq!(row.search(), 4);
    assert_eq!(row.found(), (vec![], vec![last]));
    // What others have is theirs to replace. Nothing is known from then on, and is learned again.
    row.memory.replace(4 * PAGE_BYTES, Mapping::private(PAGE_BYTES, false).unwrap()).unwrap();
    row.memory.write(FAR + 2 * PAGE_BYTES, &[1]);
    row.memory.write(3 * FAR, &[1]);
    assert_eq!(row.search(), 0);
    assert!(row.found().0.contains(&(1, 2)) || row.found().1.contains(&(1, 2)), "{:?}", row.found());
    assert!(row.found().1.contains(&(3, 0)));
    assert!((0..10).any(|_| row.search() == 4));
}

#[test]
fn arrays_that_lie_far_apart_are_searched_one_by_one() {
    for (pages, together) in [(SEAM_PAGES_MAX, 2), (SEAM_PAGES_MAX + 1, 0)] {
        let Some(mut row) = Row::apart(2, (2 + pages) * PAGE_BYTES) else { return };
        for _ in 0..3 {
            row.search();
        }
        assert_eq!(row.search(), together, "{pages} pages in between");
    }
}

#[test]
fn what_others_have_of_a_file_between_two_arrays_is_not_watched() {
    let Some(mut row) = Row::apart(2, FAR) else { return };
    let program = std::fs::File::open("/proc/self/exe").unwrap();
    row.memory.lay_copy_on_write(4 * PAGE_BYTES, &program, 0, PAGE_BYTES).unwrap();
    for _ in 0..3 {
        assert_eq!(row.search(), 0);
    }
}

/// Each page is written once, at any time before, in or after a search: one of them finds it.
#[test]
fn what_is_written_while_arrays_are_searched_is_found() {
    for stride in [BYTES, FAR] {
        let Some(mut row) = Row::apart(8, stride) else { return };
        for _ in 0..3 {
            row.search();
        }
        let memory = row.memory.address();
        for round in 0..200 {
            let mut found = std::collections::BTreeSet::new();
            let written: Vec<(usize, usize)> = (0..8)
                .flat_map(|array| row.sources[array].memory.whole.clone().map(move |page| (array, page)))
                .collect();
            let at: Vec<usize> = written
                .iter()
                .map(|(array, page)| row.sources[*array].memory.address + page * PAGE_BYTES - memory)
                .collect();
            let writes = row.memory.clone();
            let writer = std::thread::spawn(move || at.iter().for_each(|at| writes.write(*at, &[round as u8])));
            while !writer.is_finished() {
                row.search();
                found.extend(row.found().0);
            }
            writer.join().unwrap();
            row.search();
            found.extend(row.found().0);
            let missed: Vec<_> = written.iter().filter(|page| !found.contains(page)).collect();
            assert!(missed.is_empty(), "round {round}, {stride} bytes apart: {missed:?}");
        }
    }
}

#[test]
fn neighbours_of_which_one_was_freed_are_searched_one_by_one_for_a_while() {
    let Some(mut row) = Row::new(3) else { return };
    for _ in 0..3 {
        row.search();
    }
    let page = PAGE_BYTES * (BYTES / PAGE_BYTES + 1);
    row.memory.replace(page, Mapping::private(PAGE_BYTES, false).unwrap()).unwrap();
    assert_eq!(row.search(), 0);
    assert_eq!(row.found().0.iter().filter(|(number, _)| *number == 1).count(), 1, "all of it counts as written");
    let paused = (0..10).take_while(|_| row.search() == 0).count();
    assert!(paused < 10);
    let end = (2, row.sources[2].memory.pages - 1);
    row.search();
    row.search();
    assert_eq!(row.found(), (vec![], vec![end]));
}
