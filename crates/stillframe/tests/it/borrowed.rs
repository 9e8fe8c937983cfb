//! Memory that one region manages and another one tracks: every version of both shows what was there when it was published.

#![allow(unsafe_code)]

use crate::common::{Dir, Numbers, difference_at, trackers, watchdog};
use std::ops::Range;
use stillframe::{Order, TrackerKind};

const WINDOW_WORDS: usize = 1 << 18;
const WORDS: usize = 6 * WINDOW_WORDS;

/// The owner publishes every second step and the other region, which tracks a part of the owner's memory, every step. Most windows
/// stay cold, so that the owner's memory is laid out anew under both.
fn publish_both(owner: TrackerKind, borrower: TrackerKind, part: Range<usize>, is_owner_first: bool) {
    let about = format!("{owner} for {borrower}, {part:?}, owner first: {is_owner_first}");
    let dir = Dir::new("borrowed");
    let mut lender = dir.options().tracker(owner).create("lender").unwrap();
    let array = lender.array::<u64>("m", &[WORDS]).unwrap();
    let mut region = dir.options().tracker(borrower).create("borrower").unwrap();
    let tracked = region.track::<u64>("m").unwrap();
    let (own, other) = (dir.observe("lender"), dir.observe("borrower"));
    let mut numbers = Numbers(11);
    for step in 1..=120 {
        // A window that is written for a while, and then never again.
        let window = step as usize / 45 % 2 * WINDOW_WORDS;
        let slice = lender.slice_mut(&array);
        for _ in 0..3 {
            slice[window + numbers.below(WINDOW_WORDS)] = numbers.next();
        }
        // And one word of a window that is cold.
        slice[3 * WINDOW_WORDS + step as usize * 7 % 100 * 512] = step;
        if step % 2 == u64::from(is_owner_first) {
            lender.publish(step).commit().unwrap();
            let snapshot = own.newest().unwrap();
            let seen = snapshot.slice::<u64>("m").unwrap();
            assert_eq!(difference_at(seen, lender.slice(&array)), None, "{about}: step {step} of the owner");
        }
        let (address, _) = lender.managed_bytes(array.id()).unwrap();
        let publication = region.publish(step);
        // SAFETY: the words are the array's, which nobody writes until the commit.
        let publication = unsafe {
            let first = address.add(part.start * 8);
            publication.tracked_raw(tracked.id(), first, part.len() * 8, &[part.len()], Order::C)
        };
        publication.commit().unwrap();
        let snapshot = other.newest().unwrap();
        let seen = snapshot.slice::<u64>("m").unwrap();
        let now = &lender.slice(&array)[part.clone()];
        assert_eq!(difference_at(seen, now), None, "{about}: step {step} of who tracks it");
    }
}

#[test]
fn memory_of_another_region_is_published_as_it_is_whoever_is_first() {
    let _watchdog = watchdog(600);
    for owner in trackers() {
        for is_owner_first in [true, false] {
            publish_both(owner, trackers()[0], 0..WORDS, is_owner_first);
        }
    }
}

#[test]
fn a_part_of_another_regions_memory_is_published_as_it_is_with_every_tracker() {
    let _watchdog = watchdog(600);
    for borrower in trackers() {
        publish_both(trackers()[0], borrower, 700..5 * WINDOW_WORDS - 333, false);
    }
}
