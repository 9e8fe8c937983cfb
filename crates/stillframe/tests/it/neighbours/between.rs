//! What comes to lie between two arrays that are searched together.

use super::{Array, Memory, World, is_watched};
use crate::common::{trackers, watchdog};
use stillframe::PAGE_BYTES;

/// A third array comes to lie where others had pages between two, which were watched.
#[test]
fn nothing_is_watched_any_more_when_an_array_that_came_between_others_is_removed_with_them() {
    let _watchdog = watchdog(120);
    for (tracker, publishes) in trackers().into_iter().flat_map(|tracker| [(tracker, 1), (tracker, 4)]) {
        let mut world = World::new(tracker, 1);
        world.declare(100..3 * PAGE_BYTES + 100);
        world.declare(13 * PAGE_BYTES + 50..16 * PAGE_BYTES);
        for _ in 0..4 {
            world.publish_all();
        }
        world.declare(7 * PAGE_BYTES + 50..10 * PAGE_BYTES + 50);
        for round in 0..publishes {
            world.memory.write(8 * PAGE_BYTES, round + 1);
            world.publish_all();
            world.check_all();
        }
        for Array { name, .. } in std::mem::take(&mut world.arrays) {
            world.region.remove(&name).unwrap();
        }
        world.publish_all();
        assert!(!is_watched(&world.memory), "{tracker}, {publishes} publishes");
    }
}

/// Another region has an array between two that are searched together: it is compared, and misses nothing.
#[test]
fn an_array_of_another_region_between_two_shows_what_was_written() {
    let _watchdog = watchdog(120);
    for (tracker, is_first) in trackers().into_iter().flat_map(|tracker| [(tracker, true), (tracker, false)]) {
        let (mut world, mut other) = (World::new(tracker, 1), World::new(tracker, 1));
        let Memory { address, bytes } = world.memory;
        other.memory = Memory { address, bytes };
        world.declare(100..3 * PAGE_BYTES + 100);
        world.declare(13 * PAGE_BYTES + 50..16 * PAGE_BYTES);
        other.declare(6 * PAGE_BYTES + 50..9 * PAGE_BYTES + 50);
        for round in 1..20 {
            let at = [200, 14 * PAGE_BYTES, 6 * PAGE_BYTES + 60, 8 * PAGE_BYTES, 9 * PAGE_BYTES + 40][round % 5];
            world.memory.write(at, round as u8);
            let (one, two) = if is_first { (&mut other, &mut world) } else { (&mut world, &mut other) };
            for world in [one, two] {
                world.publish_all();
                world.check_all();
            }
        }
        std::mem::forget(other.memory);
    }
}

/// What others put into the place of their memory keeps the pages beside it from being let go.
#[test]
fn nothing_is_watched_any_more_where_others_have_put_a_file_between_arrays_that_are_removed() {
    let _watchdog = watchdog(120);
    for tracker in trackers() {
        let mut world = World::new(tracker, 1);
        world.declare(100..3 * PAGE_BYTES + 100);
        world.declare(13 * PAGE_BYTES + 50..16 * PAGE_BYTES);
        for round in 0..4 {
            world.memory.write(200, round);
            world.publish_all();
        }
        world.memory.replace_by_a_file(8 * PAGE_BYTES);
        for round in 4..8 {
            world.memory.write(14 * PAGE_BYTES, round);
            world.publish_all();
            world.check_all();
        }
        for Array { name, .. } in std::mem::take(&mut world.arrays) {
            world.region.remove(&name).unwrap();
        }
        world.publish_all();
        assert!(!is_watched(&world.memory), "{tracker}");
    }
}
