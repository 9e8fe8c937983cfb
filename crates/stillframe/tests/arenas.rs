//! Regions in arenas.

mod common;

use common::{Dir, watchdog};
use stillframe::{Arena, Observer, Region};

#[test]
fn a_region_of_an_arena_is_published_observed_and_recovered() {
    watchdog(120);
    let dir = Dir::plain("arena");
    let arena = Arena::options().dir(dir.path()).bytes(1 << 30).create("pool").unwrap();
    let create = |name: &str| Region::options().arena(&arena).create(name).unwrap();
    let mut region = create("u");
    let u = region.array::<u64>("u", &[100_000]).unwrap();
    for version in 1..=20 {
        region.slice_mut(&u).iter_mut().enumerate().for_each(|(index, word)| *word = index as u64 * version);
        region.publish(version).commit().unwrap();
    }
    let observer = Observer::options().dir(dir.path()).open("pool/u").unwrap();
    let held = observer.newest().unwrap();
    let expected: Vec<u64> = (0..100_000).map(|index| index * 20).collect();
    assert_eq!(held.slice::<u64>("u").unwrap(), expected);
    drop(region);
    let mut region = create("u");
    assert_eq!(region.recovered(), Some(20));
    let u = region.array::<u64>("u", &[100_000]).unwrap();
    assert_eq!(region.slice(&u), expected);
    region.slice_mut(&u)[7] = 1;
    region.publish(21).commit().unwrap();
    assert_eq!(observer.newest().unwrap().slice::<u64>("u").unwrap()[7], 1);
    assert_eq!(held.slice::<u64>("u").unwrap(), expected);
    region.unlink().unwrap();
    assert!(Observer::options().dir(dir.path()).open("pool/u").is_err());
    assert_eq!(held.slice::<u64>("u").unwrap(), expected);
}
