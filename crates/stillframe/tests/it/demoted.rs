//! Windows that turned cold show a plane: what is written there is found once, as anywhere else.

use crate::common::{Dir, trackers, watchdog};
use stillframe::TrackerKind;

const PAGE: usize = 4096;
/// Two windows.
const PAGES: usize = 1024;

#[test]
fn a_page_that_is_written_once_in_a_cold_window_is_dirty_once() {
    let _watchdog = watchdog(120);
    // To the tracker `private_cow`, a page that another plane has looks written at each publish.
    for tracker in trackers().into_iter().filter(|tracker| *tracker != TrackerKind::PrivateCow) {
        let dir = Dir::new("demoted");
        let mut region = dir.options().tracker(tracker).create("r").unwrap();
        let u = region.array::<u8>("u", &[PAGES * PAGE]).unwrap();
        region.slice_mut(&u).fill(1);
        let mut version = 0;
        // In so many publishes every window is judged twice.
        for _ in 0..70 {
            version += 1;
            region.publish(version).commit().unwrap();
        }
        let is_cold = region.statistics().working_bytes < (PAGES * PAGE) as u64;
        assert!(is_cold || tracker == TrackerKind::FullCopy, "{tracker}: nothing was demoted");
        let written: Vec<usize> = (0..PAGES).step_by(77).collect();
        for value in 2..5 {
            for page in &written {
                region.slice_mut(&u)[page * PAGE] = value;
            }
            version += 1;
            let first = region.publish(version).commit().unwrap();
            assert_eq!(first.dirty_pages, written.len() as u64, "{tracker}");
            version += 1;
            let second = region.publish(version).commit().unwrap();
            assert_eq!(second.dirty_pages, 0, "{tracker}: found again");
        }
    }
}
