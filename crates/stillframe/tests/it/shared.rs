//! Tracked arrays in memory that others can change: of a file, or shared with other processes. Every version shows what was
//! there when it was published, however it came there.

#![allow(unsafe_code)]

use crate::common::{Dir, Numbers, difference_at, trackers, versions, watchdog};
use crate::seed::Seed;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use stillframe::{Observer, Region, Section, Snapshot, Tracked, TrackerKind};

const PAGE: usize = 4096;
const WORDS: usize = PAGE / 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Shared,
    PrivateOfFile,
    /// Private memory, but for the middle.
    SharedInTheMiddle,
    Anonymous,
}

const KINDS: [Kind; 3] = [Kind::Shared, Kind::PrivateOfFile, Kind::SharedInTheMiddle];

/// Memory of a file.
struct Memory {
    file: File,
    address: usize,
    pages: usize,
    /// Its pages that show the file's.
    of_file: Range<usize>,
}

fn map(address: usize, pages: usize, flags: i32, descriptor: i32, first: usize) -> usize {
    let (protection, at) = (libc::PROT_READ | libc::PROT_WRITE, address as *mut libc::c_void);
    // SAFETY: the kernel chooses the address, or it lies in a mapping of the test.
    let at = unsafe { libc::mmap(at, pages * PAGE, protection, flags, descriptor, (first * PAGE) as i64) };
    assert_ne!(at, libc::MAP_FAILED);
    at as usize
}

impl Memory {
    fn new(kind: Kind, pages: usize) -> Memory {
        // SAFETY: the name is a string that ends, and the descriptor is nobody else's.
        let file = unsafe { File::from_raw_fd(libc::memfd_create(c"shared".as_ptr(), libc::MFD_CLOEXEC)) };
        file.set_len((pages * PAGE) as u64).unwrap();
        let of_file = match kind {
            Kind::SharedInTheMiddle => pages / 3..pages - pages / 4,
            Kind::Anonymous => 0..0,
            _ => 0..pages,
        };
        let address = map(0, pages, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        let memory = Memory { file, address, pages, of_file };
        if !memory.of_file.is_empty() {
            memory.lay_file(if kind == Kind::PrivateOfFile { libc::MAP_PRIVATE } else { libc::MAP_SHARED });
        }
        memory
    }

    fn lay_file(&self, sharing: i32) {
        let (at, first) = (self.address + self.of_file.start * PAGE, self.of_file.start);
        map(at, self.of_file.len(), sharing | libc::MAP_FIXED, self.file.as_raw_fd(), first);
    }

    /// Puts a private mapping of the file in the place of all of it.
    fn show_file(&mut self) {
        self.of_file = 0..self.pages;
        self.lay_file(libc::MAP_PRIVATE);
    }

    /// Puts private memory in the place of all of it.
    fn forget_file(&self) {
        map(self.address, self.pages, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED, -1, 0);
    }

    fn words(&self) -> &'static mut [u64] {
        // SAFETY: the memory is mapped and nobody else uses it while a test does one thing after the other.
        unsafe { std::slice::from_raw_parts_mut(self.address as *mut u64, self.pages * WORDS) }
    }

    /// Pages of the file, at most so many.
    fn some(&self, numbers: &mut Numbers, most: usize) -> Range<usize> {
        let first = self.of_file.start + numbers.below(self.of_file.len());
        first..(first + 1 + numbers.below(most)).min(self.of_file.end)
    }

    /// As another process that has the file open.
    fn write_file(&self, page: usize, value: u64) {
        self.file.write_all_at(&value.to_ne_bytes(), (page * PAGE + 8 * (value as usize % WORDS)) as u64).unwrap();
    }

    fn advise(&self, pages: &Range<usize>, advice: i32) {
        let at = (self.address + pages.start * PAGE) as *mut libc::c_void;
        // SAFETY: the range belongs to the test.
        let done = unsafe { libc::madvise(at, pages.len() * PAGE, advice) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }

    fn punch_hole(&self, pages: &Range<usize>) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (at, length) = ((pages.start * PAGE) as i64, (pages.len() * PAGE) as i64);
        // SAFETY: the call knows nothing of memory.
        assert_eq!(unsafe { libc::fallocate(self.file.as_raw_fd(), mode, at, length) }, 0);
    }

    fn cut_and_grow(&self, page: usize) {
        self.file.set_len((page * PAGE) as u64).unwrap();
        self.file.set_len((self.pages * PAGE) as u64).unwrap();
    }

    fn change_at_random(&self, numbers: &mut Numbers) {
        let (value, pages) = (numbers.next(), self.some(numbers, 5));
        match numbers.below(8) {
            0 => self.advise(&pages, libc::MADV_DONTNEED),
            1 => self.punch_hole(&pages),
            2 if numbers.below(4) == 0 => self.cut_and_grow(pages.start),
            2..4 => self.write_file(pages.start, value),
            4 => pages.into_iter().for_each(|page| self.write_file(page, value)),
            _ => self.words()[numbers.below(self.pages * WORDS)] = value,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the range belongs to the test, and nothing refers to it any more.
        assert_eq!(unsafe { libc::munmap(self.address as *mut libc::c_void, self.pages * PAGE) }, 0);
    }
}

/// A region with an array and a section of it, and all that was held of it.
struct Stage {
    region: Region,
    observer: Observer,
    whole: Tracked<u64>,
    section: Tracked<u64>,
    held: Vec<(Snapshot, Vec<u64>)>,
    version: u64,
    _dir: Dir,
}

impl Stage {
    fn new(tracker: TrackerKind) -> Stage {
        let dir = Dir::new("shared");
        let mut region = dir.options().tracker(tracker).create("r").unwrap();
        let (whole, section) = (region.track("whole").unwrap(), region.track("section").unwrap());
        Stage { region, observer: dir.observe("r"), whole, section, held: Vec::new(), version: 0, _dir: dir }
    }

    /// Publishes words, or every third of them, or both, and checks that they arrive and those before stay.
    fn publish(&mut self, words: &[u64], (is_whole, is_section): (bool, bool), what: &str) {
        self.version += 1;
        let mut publication = self.region.publish(self.version);
        if is_whole {
            publication = publication.tracked(&self.whole, words, &[words.len()]);
        }
        let thirds = Section::of(&[words.len()]).every(&[3]);
        if is_section {
            publication = publication.section(&self.section, words, &thirds);
        }
        publication.commit().unwrap();
        self.held.push((self.observer.newest().unwrap(), words.to_vec()));
        if self.held.len() > 3 {
            self.held.remove(1);
        }
        for (snapshot, words) in &self.held {
            let what = format!("{}, {what}: version {}", self.region.tracker(), snapshot.version());
            let thirds: Vec<u64> = words.iter().copied().step_by(3).collect();
            for (name, expected, is_published) in [("whole", words, is_whole), ("section", &thirds, is_section)] {
                if !is_published {
                    continue;
                }
                let found = snapshot.slice::<u64>(name).unwrap();
                assert_eq!(difference_at(found, expected), None, "{what}: element of {name}");
            }
        }
    }
}

/// Lets each tracker learn the array before somebody changes it, in each kind of memory in which that can be done.
fn on_every_tracker(kinds: &[Kind], change: impl Fn(&Memory, u64)) {
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        for kind in kinds {
            for (shown, range) in [(true, false), (false, true)]
                .into_iter()
                .flat_map(|shown| [(shown, 0..60 * WORDS), (shown, 7..60 * WORDS - 9)])
            {
                let (mut stage, memory) = (Stage::new(tracker), Memory::new(*kind, 60));
                // Of a private mapping the pages are the file's then.
                match kind {
                    Kind::PrivateOfFile => (0..60).for_each(|page| memory.write_file(page, 1)),
                    _ => memory.words().fill(1),
                }
                for round in 1..8 {
                    stage.publish(&memory.words()[range.clone()], shown, &format!("{kind:?}, round {round}"));
                    change(&memory, round);
                    stage.publish(&memory.words()[range.clone()], shown, &format!("{kind:?}, changed {round}"));
                    memory.words()[round as usize * WORDS] = round;
                }
            }
        }
    }
}

#[test]
fn what_another_process_wrote_is_published() {
    on_every_tracker(&KINDS, |memory, round| memory.write_file(30 + round as usize, round));
}

#[test]
fn what_was_removed_from_a_file_is_published_as_zeros() {
    on_every_tracker(&KINDS, |memory, round| memory.punch_hole(&(25..25 + round as usize)));
    on_every_tracker(&[Kind::Shared], |memory, round| memory.advise(&(20..20 + round as usize), libc::MADV_REMOVE));
}

#[test]
fn what_a_file_lost_when_it_was_cut_is_published_as_zeros() {
    on_every_tracker(&KINDS, |memory, round| memory.cut_and_grow(60 - 4 * round as usize));
}

#[test]
fn pages_of_a_private_mapping_that_were_given_back_are_published_as_the_file_has_them() {
    on_every_tracker(&[Kind::PrivateOfFile], |memory, round| {
        let pages = 3 * round as usize..3 * round as usize + 3;
        memory.words()[pages.start * WORDS..pages.end * WORDS].fill(round);
        memory.write_file(pages.start, round);
        memory.advise(&pages, libc::MADV_DONTNEED);
    });
}

/// The search for the one has the new memory watched, before the other's.
#[test]
fn memory_that_became_a_files_is_compared_for_all_variables_that_show_it() {
    let _watchdog = watchdog(120);
    for tracker in trackers() {
        for bytes in [0..60 * WORDS, 5..40 * WORDS] {
            let (mut stage, mut memory) = (Stage::new(tracker), Memory::new(Kind::Anonymous, 60));
            memory.words().fill(1);
            (0..4).for_each(|_| stage.publish(&memory.words()[bytes.clone()], (true, true), "anonymous"));
            memory.show_file();
            for round in 1..6 {
                stage.publish(&memory.words()[bytes.clone()], (true, true), "of a file");
                memory.write_file(round as usize * 5, round);
            }
        }
    }
}

#[test]
fn memory_that_is_not_shared_any_more_is_searched_again() {
    let _watchdog = watchdog(120);
    for tracker in trackers() {
        let (mut stage, shared) = (Stage::new(tracker), Memory::new(Kind::Shared, 60));
        for round in 0..6 {
            shared.write_file(7, round);
            stage.publish(shared.words(), (true, false), "shared");
        }
        shared.forget_file();
        for round in 0..6 {
            shared.words()[round * 300] = 9;
            stage.publish(shared.words(), (true, false), "private");
        }
    }
}

#[test]
fn files_that_were_promised_to_stay_are_not_compared() {
    let _watchdog = watchdog(120);
    for tracker in trackers().into_iter().filter(|tracker| *tracker == TrackerKind::WpAsync) {
        let dir = Dir::new("constant");
        let mut region = dir.options().tracker(tracker).constant_files(true).create("r").unwrap();
        let (whole, memory) = (region.track::<u64>("whole").unwrap(), Memory::new(Kind::PrivateOfFile, 60));
        for round in 1..6u64 {
            memory.words()[3 * WORDS] = round;
            let words = &*memory.words();
            let published = region.publish(round).tracked(&whole, words, &[words.len()]).commit().unwrap();
            assert!(round == 1 || published.copied_pages <= 1, "version {round}");
            memory.write_file(30, round);
            assert_eq!(dir.observe("r").newest().unwrap().slice::<u64>("whole").unwrap()[3 * WORDS], round);
        }
    }
}

#[test]
fn whatever_happens_to_memory_that_others_can_change_is_published() {
    let _watchdog = watchdog(300);
    let mut seeds = Numbers(Seed::first(1));
    for tracker in trackers() {
        for kind in KINDS.into_iter().cycle().take(6) {
            let seed = seeds.next();
            let (numbers, pages) = (&mut Numbers(seed), 8 + seeds.below(300));
            let (mut stage, memory) = (Stage::new(tracker), Memory::new(kind, pages));
            let shown = [(true, false), (false, true), (true, true)][numbers.below(3)];
            let range = numbers.below(3) * 5..pages * WORDS - numbers.below(3) * 7;
            for _ in 0..versions() / 2 {
                for _ in 0..numbers.below(5) {
                    memory.change_at_random(numbers);
                }
                stage.publish(&memory.words()[range.clone()], shown, &format!("seed {seed}, {kind:?}, pages {pages}"));
            }
        }
    }
}
