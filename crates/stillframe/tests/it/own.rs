//! Pages of managed variables that are said to be the process's own are: whatever becomes of the frames that they showed
//! before, their content stays.

#![allow(unsafe_code)]

use crate::common;

use crate::common::{Dir, difference_at, trackers, watchdog};
use std::os::unix::fs::FileExt;
use stillframe::{Array, Error, Region, RegionOptions, Rule, TrackerKind};

/// Three windows, of which the last ends in the middle of a page.
const WORDS: usize = 2 * 512 * 512 + 100 * 512 + 17;
const PAGE_WORDS: usize = 512;

/// How pages come to show a plane.
#[derive(Debug, Clone, Copy)]
enum Origin {
    Recovered,
    Demoted,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    tracker: TrackerKind,
    demote: bool,
    origin: Origin,
}

impl Case {
    fn options(&self, dir: &Dir) -> RegionOptions {
        dir.options().tracker(self.tracker).demote(self.demote).rule(Rule::Fail).bound_bytes(64 << 20)
    }

    /// A region whose array shows a plane where it can, and the array's content.
    fn begin(&self, dir: &Dir) -> (Region, Array<u64>, Vec<u64>) {
        let mut content: Vec<u64> = (1..=WORDS as u64).collect();
        let mut region = self.options(dir).create("r").unwrap();
        let mut array = region.array::<u64>("u", &[WORDS]).unwrap();
        region.slice_mut(&array).copy_from_slice(&content);
        region.publish(1).commit().unwrap();
        match self.origin {
            Origin::Recovered => {
                drop(region);
                region = self.options(dir).create("r").unwrap();
                assert_eq!(region.recovered(), Some(1));
                array = region.array::<u64>("u", &[WORDS]).unwrap();
            }
            Origin::Demoted => {
                // One page stays hot, so that the others turn cold.
                for version in 2..120 {
                    content[7] = version;
                    region.slice_mut(&array)[7] = version;
                    region.publish(version).commit().unwrap();
                }
            }
        }
        (region, array, content)
    }
}

fn in_every_case(mut act: impl FnMut(Case, &Dir)) {
    let _watchdog = watchdog(300);
    for tracker in trackers() {
        for demote in [true, false] {
            for origin in [Origin::Recovered, Origin::Demoted] {
                act(Case { tracker, demote, origin }, &Dir::new("own"));
            }
        }
    }
}

/// Has the region give back the memory of all frames that no version uses.
fn squeeze(region: &mut Region) {
    let big = region.array::<u8>("big", &[100 << 20]).unwrap();
    region.slice_mut(&big).fill(1);
    let number = region.newest().unwrap() + 1;
    let error = region.publish(number).commit().unwrap_err();
    assert!(matches!(error, Error::Bound { .. }), "{error}");
    region.remove("big").unwrap();
}

fn check(case: Case, found: &[u64], content: &[u64], what: &str) {
    let wrong = difference_at(found, content);
    assert_eq!(wrong.map(|word| (word, found.get(word))), None, "{case:?}, {what}: word and what it is");
}

/// Publishes, and looks that working memory and version hold this before and after unused frames lost their memory.
fn publish(case: Case, dir: &Dir, region: &mut Region, array: &Array<u64>, content: &[u64]) {
    let observer = dir.observe("r");
    for step in ["published", "squeezed"] {
        let number = region.newest().unwrap() + 1;
        region.publish(number).commit().unwrap();
        check(case, observer.newest().unwrap().slice("u").unwrap(), content, step);
        squeeze(region);
        check(case, region.slice(array), content, step);
    }
}

#[test]
fn pages_that_were_marked_dirty_stay_when_their_old_frames_go() {
    in_every_case(|case, dir| {
        let (mut region, array, content) = case.begin(dir);
        // All of it, and then scattered pages of it.
        region.mark_dirty(array.id(), 0..WORDS * 8).unwrap();
        publish(case, dir, &mut region, &array, &content);
        for page in (3..WORDS / PAGE_WORDS).step_by(37) {
            region.mark_dirty(array.id(), page * 4096..page * 4096 + 1).unwrap();
        }
        publish(case, dir, &mut region, &array, &content);
    });
}

#[test]
fn arrays_that_were_resized_stay_when_their_old_frames_go() {
    in_every_case(|case, dir| {
        let (mut region, array, mut content) = case.begin(dir);
        for words in [WORDS + 5 * PAGE_WORDS, WORDS - 90 * PAGE_WORDS + 3, WORDS, 700_001, 9 * WORDS, 1000] {
            region.resize(array.id(), &[words]).unwrap();
            let kept = content.len().min(words);
            check(case, &region.slice(&array)[..kept], &content[..kept], "resized");
            content.resize(words, 0);
            // What came newly is as the resize left it.
            let new = &region.slice(&array)[kept..];
            content[kept..].copy_from_slice(new);
            publish(case, dir, &mut region, &array, &content);
        }
    });
}

#[test]
fn memory_that_is_kept_beyond_its_region_stays_whatever_the_next_producer_publishes() {
    in_every_case(|case, dir| {
        let (mut region, array, mut content) = case.begin(dir);
        for word in [5 * PAGE_WORDS, WORDS - 1] {
            region.slice_mut(&array)[word] = 9;
            content[word] = 9;
        }
        let number = region.newest().unwrap() + 1;
        region.publish(number).commit().unwrap();
        let (address, bytes) = region.managed_bytes(array.id()).unwrap();
        let kept = region.remove_keeping(array.id()).unwrap();
        drop(region);
        // SAFETY: the memory is kept until the end of the block, and nobody writes it.
        let words = unsafe { std::slice::from_raw_parts(address.cast::<u64>(), bytes / 8) };
        check(case, words, &content, "closed");
        let mut region = case.options(dir).create("r").unwrap();
        let array = region.array::<u64>("u", &[WORDS]).unwrap();
        check(case, region.slice(&array), &content, "recovered");
        for value in [5, 6, 7] {
            region.slice_mut(&array).fill(value);
            let number = region.newest().unwrap() + 1;
            region.publish(number).commit().unwrap();
            check(case, words, &content, "kept");
        }
        squeeze(&mut region);
        check(case, words, &content, "kept");
        drop(kept);
    });
}

#[test]
fn pages_that_cannot_become_the_process_s_own_are_an_error_and_no_signal() {
    // It is about the files of a region's directory.
    if common::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(300);
    for tracker in trackers().into_iter().filter(|kind| *kind != TrackerKind::FullCopy) {
        let dir = Dir::new("cut");
        let case = Case { tracker, demote: true, origin: Origin::Recovered };
        let (mut region, array, content) = case.begin(&dir);
        let plane = dir.path().join("r/plane.0");
        let whole = std::fs::read(&plane).unwrap();
        let file = std::fs::File::options().write(true).open(&plane).unwrap();
        // What the second window shows is no more.
        file.set_len(2 << 20).unwrap();
        region.mark_dirty(array.id(), 0..WORDS * 8).unwrap();
        for _ in 0..2 {
            let error = region.publish(2).commit().unwrap_err();
            assert!(matches!(&error, Error::System { failure, .. } if failure.errno() == libc::EFAULT), "{error}");
        }
        let error = region.remove_keeping(array.id()).unwrap_err();
        assert!(matches!(&error, Error::System { .. }), "{error}");
        // The variable is still there, and nothing of what was marked was forgotten.
        file.write_all_at(&whole, 0).unwrap();
        let published = region.publish(2).commit().unwrap();
        assert_eq!(published.dirty_pages as usize, (WORDS * 8).div_ceil(4096), "{tracker}");
        publish(case, &dir, &mut region, &array, &content);
    }
}
