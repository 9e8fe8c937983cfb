//! Regions in arenas.

use crate::common::{Dir, watchdog};
use std::fs::File;
use std::time::Duration;
use stillframe::{Arena, Error, Observer, Region};

#[test]
fn a_region_of_an_arena_is_published_observed_and_recovered() {
    let _watchdog = watchdog(120);
    let dir = Dir::plain("arena");
    let arena = Arena::options().dir(dir.path()).bytes(1 << 30).create("pool").unwrap();
    let create = |name: &str| Region::options().arena(&arena).create(name).unwrap();
    let mut region = create("u");
    assert_eq!(region.name(), "pool/u");
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

#[test]
fn regions_of_an_arena_that_was_handed_in_are_observed_by_who_has_the_descriptor() {
    let _watchdog = watchdog(120);
    let dir = Dir::plain("handed-in");
    let path = dir.path().join("file");
    let handed = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    let read = File::open(&path).unwrap();
    // From here on nobody can open it by a name.
    std::fs::remove_file(&path).unwrap();
    let arena = Arena::options().bytes(64 << 20).from_descriptor(handed.into(), "vm").unwrap();
    let look = Arena::options().from_descriptor(read.into(), "vm").unwrap();
    let open = |arena: &Arena, name: &str| Observer::options().arena(arena).open(name);
    assert!(matches!(open(&look, "u"), Err(Error::NoRegion { .. })));
    let mut region = Region::options().arena(&arena).create("u").unwrap();
    let u = region.array::<u64>("u", &[1000]).unwrap();
    region.slice_mut(&u).fill(7);
    region.publish(1).commit().unwrap();
    for arena in [&arena, &look] {
        let observer = open(arena, "u").unwrap();
        assert_eq!(observer.name(), "vm/u");
        let held = observer.newest().unwrap();
        let next = region.newest().unwrap() + 1;
        region.slice_mut(&u).fill(next);
        region.publish(next).commit().unwrap();
        assert_ne!(held.slice::<u64>("u").unwrap(), region.slice(&u));
        assert_eq!(observer.newest().unwrap().slice::<u64>("u").unwrap(), region.slice(&u));
    }
    assert!(matches!(Region::options().arena(&look).create("v"), Err(Error::BadOption { option: "arena", .. })));
    drop(arena);
    region.publish(9).commit().unwrap();
    assert_eq!(open(&look, "u").unwrap().newest().unwrap().version(), 9);
    region.unlink().unwrap();
    assert!(matches!(open(&look, "u"), Err(Error::NoRegion { .. })));
}

#[test]
fn who_was_removed_by_force_takes_away_nothing_of_the_next_one() {
    let _watchdog = watchdog(120);
    let dir = Dir::plain("force");
    let arena = Arena::options().dir(dir.path()).bytes(64 << 20).create("pool").unwrap();
    let begin = |value: u64| {
        let mut region = Region::options().dir(dir.path()).create("pool/u").unwrap();
        let u = region.array::<u64>("u", &[5000]).unwrap();
        region.slice_mut(&u).fill(value);
        region.publish(value).commit().unwrap();
        (region, u)
    };
    let (mut first, u) = begin(1);
    stillframe::inspect::remove(dir.path(), "pool/u", true).unwrap();
    let (mut second, v) = begin(2);
    // It goes on where nobody finds it.
    first.slice_mut(&u).fill(3);
    first.publish(3).commit().unwrap();
    let newest = || Observer::options().dir(dir.path()).open("pool/u").unwrap().newest().unwrap();
    assert_eq!(newest().slice::<u64>("u").unwrap(), second.slice(&v));
    first.unlink().unwrap();
    assert_eq!(newest().version(), 2);
    second.slice_mut(&v).fill(4);
    second.publish(4).commit().unwrap();
    assert_eq!(newest().slice::<u64>("u").unwrap(), [4; 5000]);
    second.unlink().unwrap();
    let usage = arena.usage().unwrap();
    assert!(usage.regions.is_empty() && usage.free_bytes + usage.tables_bytes == usage.bytes, "{usage:?}");
}

#[test]
fn an_arena_is_removed_with_all_its_regions_and_makes_none_afterwards() {
    let _watchdog = watchdog(120);
    let dir = Dir::plain("removed");
    let remove = |force| stillframe::inspect::remove(dir.path(), "meshes/pool", force);
    let make = || Arena::options().dir(dir.path()).bytes(1 << 30).create("meshes/pool").unwrap();
    let arena = make();
    let publish = |arena: &Arena, name: &str| {
        let mut region = Region::options().arena(arena).create(name).unwrap();
        let u = region.array::<u64>("u", &[1000]).unwrap();
        region.slice_mut(&u).fill(7);
        region.publish(1).commit().unwrap();
        region
    };
    drop(publish(&arena, "dead"));
    let mut living = publish(&arena, "living");
    let held = Observer::options().dir(dir.path()).open("meshes/pool/dead").unwrap().newest().unwrap();
    match remove(false) {
        Err(Error::InUse { region, pid, .. }) => {
            assert_eq!((&*region, pid), ("meshes/pool/living", std::process::id()))
        }
        other => panic!("{other:?}"),
    }
    assert!(remove(true).unwrap().bytes > 0);
    assert!(!dir.path().join("meshes").exists());
    assert!(Observer::options().dir(dir.path()).open("meshes/pool/dead").is_err());
    // Who has it open keeps what there is, and is told that there will be no more.
    assert_eq!(held.slice::<u64>("u").unwrap(), [7; 1000]);
    living.publish(2).commit().unwrap();
    let refused = Region::options().arena(&arena).create("late").map(drop);
    assert!(matches!(refused, Err(Error::NoArena { .. })), "{refused:?}");
    drop((living, held, arena));
    // A new one of the name has nothing of it.
    let arena = make();
    assert_eq!(arena.usage().unwrap().regions.len(), 0);
    std::fs::write(dir.path().join("meshes/pool/notes.txt"), "mine").unwrap();
    drop(publish(&arena, "dead"));
    remove(false).unwrap();
    assert_eq!(std::fs::read_dir(dir.path().join("meshes/pool")).unwrap().count(), 1);
    // One that was never finished goes by force.
    std::fs::write(dir.path().join("meshes/pool/arena"), [0; 4096]).unwrap();
    assert!(matches!(remove(false), Err(Error::NoArena { .. })));
    remove(true).unwrap();
    assert!(!dir.path().join("meshes/pool/arena").exists());
}

#[test]
fn a_group_in_an_arena_that_was_handed_in_is_observed_as_one() {
    let _watchdog = watchdog(120);
    let dir = Dir::plain("handed-in-group");
    let path = dir.path().join("file");
    let handed = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let arena = Arena::options().bytes(64 << 20).from_descriptor(handed.into(), "vm").unwrap();
    let make = |rank| Region::options().arena(&arena).rank(rank, 2).create("g").unwrap();
    let mut ranks: Vec<Region> = (0..2).map(make).collect();
    for rank in &mut ranks {
        rank.publish(5).commit().unwrap();
    }
    let group = stillframe::Group::options().arena(&arena).open("g").unwrap();
    assert_eq!((group.newest().unwrap().version(), group.size(), group.name()), (5, 2, "vm/g"));
    // It is called as its ranks are.
    let gone = group.version(6).unwrap_err().to_string();
    assert!(gone.contains("'vm/g/0'"), "{gone}");
    let slow = group.next_after(Some(5), Some(Duration::from_millis(1))).unwrap_err();
    assert!(matches!(&slow, Error::SlowRank { group, .. } if group == "vm/g"), "{slow}");
    let missing = stillframe::Group::options().arena(&arena).open("h").map(drop);
    assert!(matches!(&missing, Err(Error::NoRegion { region, .. }) if region == "h"), "{missing:?}");
}

#[test]
fn a_group_may_have_as_many_ranks_as_its_arena_has_regions() {
    let _watchdog = watchdog(120);
    let dir = Dir::plain("full-table");
    let arena = Arena::options().dir(dir.path()).bytes(1 << 28).regions(3).create("pool").unwrap();
    for version in 1..=2 {
        let mut ranks: Vec<Region> =
            (0..3).map(|rank| Region::options().arena(&arena).rank(rank, 3).create("g").unwrap()).collect();
        for rank in &mut ranks {
            rank.publish(version).commit().unwrap();
        }
        assert!(ranks.iter().all(|rank| rank.run() == ranks[0].run()));
    }
}

#[test]
fn names_that_cannot_be_in_an_arena_are_told_as_users_know_them() {
    let _watchdog = watchdog(60);
    let dir = Dir::plain("named");
    let arena = Arena::options().dir(dir.path()).bytes(64 << 20).create("pool").unwrap();
    // Another program's, beside the arena.
    let other = Region::options().dir(dir.path()).create("heat").unwrap();
    let alone = Region::options().dir(dir.path()).create("pool/heat").unwrap();
    let rank = Region::options().dir(dir.path()).rank(0, 2).create("pool/group").unwrap();
    for (options, pool) in [(Region::options().dir(dir.path()), "pool/"), (Region::options().arena(&arena), "")] {
        let told = |name: &str, rank: Option<(u32, u32)>| {
            let options = rank.map_or(options.clone(), |(rank, ranks)| options.clone().rank(rank, ranks));
            options.create(&format!("{pool}{name}")).map(drop).unwrap_err().to_string()
        };
        let forgotten = told("heat", Some((2, 4)));
        for words in ["'pool/heat/2'", "the group 'pool/heat'", "'still rm pool/heat'"] {
            assert!(forgotten.contains(words), "{words}: {forgotten}");
        }
        assert!(!forgotten.contains("'heat'") && !forgotten.contains("rm heat"), "{forgotten}");
        for (name, words) in
            [("heat/part", "it lies inside another region"), ("group", "regions of ranks lie below it")]
        {
            let told = told(name, None);
            assert!(told.contains(words) && told.contains(&format!("'pool/{name}'")), "{told}");
        }
    }
    drop((other, alone, rank));
}

#[test]
fn only_regions_of_ranks_are_told_as_such() {
    let _watchdog = watchdog(60);
    let dir = Dir::plain("below");
    let options = || Region::options().dir(dir.path());
    let below = options().create("runs/first").unwrap();
    let rank = options().rank(1, 2).create("group").unwrap();
    for (name, words) in [("runs", "other regions lie below it"), ("group", "regions of ranks lie below it")] {
        let error = options().create(name).map(drop).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    drop((below, rank));
}
