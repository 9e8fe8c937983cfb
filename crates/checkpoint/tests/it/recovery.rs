//! Create or recover: every origin, what is damaged, and other numbers of ranks, against plain copies.

use crate::reading;

use crate::reading::{Numbers, Place, watchdog};
use std::path::PathBuf;
use stillframe::{
    Arena, Array, DType, Declaration, Element, Error as Engine, FormerGroup, Group, GroupSnapshot, Kind, Observer,
    Order, Part, Region, Scalar, VariableId, inspect,
};
use stillframe_checkpoint::{Codec, Error, Origin, Recovery, RecoveryOptions, SaveOptions, Saver, Store, removal};

/// Files left in the directory of regions that no region calls its own.
fn hidden(place: &Place) -> Vec<String> {
    place.names().into_iter().filter(|name| name.starts_with('.') && !name.ends_with(".recovery")).collect()
}

fn options(place: &Place) -> RecoveryOptions {
    Recovery::options().region(place.options()).checkpoints(place.store())
}

fn rank_options(place: &Place, rank: u32, ranks: u32) -> RecoveryOptions {
    Recovery::options().region(place.options().rank(rank, ranks)).checkpoints(place.store())
}

fn save(place: &Place, name: &str) -> PathBuf {
    let snapshot = place.newest(name);
    let saver = Saver::open(place.store(), SaveOptions::default().chunk_bytes(4096)).unwrap();
    saver.save(&snapshot, &|_| {}).unwrap().path
}

fn save_group(place: &Place, snapshot: &GroupSnapshot, codec: Codec) -> PathBuf {
    let saver = Saver::open(place.store(), SaveOptions::default().chunk_bytes(4096).codec(codec)).unwrap();
    saver.save(snapshot, &|_| {}).unwrap().path
}

/// Goes on, or begins, and publishes one version with a value of its own.
fn run(place: &Place, expected: &Origin, version: u64) -> f64 {
    let mut region = options(place).open("r").unwrap();
    assert_eq!(region.origin(), expected);
    let u: Array<f64> = region.array("u", &[3000]).unwrap();
    let found = region.slice(&u)[7];
    region.slice_mut(&u)[7] = version as f64;
    region.publish(version).attr("time", version as f64 / 2.0).commit().unwrap();
    found
}

#[test]
fn a_run_goes_on_from_memory_else_from_the_newest_checkpoint_else_from_nothing() {
    let _watchdog = watchdog(60);
    let place = Place::new("origins");
    std::fs::remove_dir(place.store()).unwrap();
    assert_eq!(run(&place, &Origin::Fresh, 1), 0.0);
    assert_eq!(run(&place, &Origin::Memory { version: 1 }, 2), 1.0);
    std::fs::create_dir(place.store()).unwrap();
    let path = save(&place, "r");
    // Published at the same time: the one in memory needs no disk.
    assert_eq!(run(&place, &Origin::Memory { version: 2 }, 3), 2.0);
    std::fs::remove_dir_all(place.shm()).unwrap();
    assert_eq!(run(&place, &Origin::Checkpoint { version: 2, path: path.clone() }, 3), 2.0);
    assert_eq!(run(&place, &Origin::Memory { version: 3 }, 4), 3.0);
    // What was restored is recovered from memory, should the program die before it publishes.
    std::fs::remove_dir_all(place.shm()).unwrap();
    drop(options(&place).open("r").unwrap());
    assert_eq!(run(&place, &Origin::Memory { version: 2 }, 3), 2.0);
    let again = options(&place).region(place.options().fresh(true)).open("r").unwrap();
    assert_eq!((again.origin(), again.version(), again.newest()), (&Origin::Fresh, None, None));
}

#[test]
fn a_run_in_an_arena_goes_on_by_name_by_handle_and_where_no_name_leads() {
    let _watchdog = watchdog(60);
    let place = Place::new("arenas");
    let pool = Arena::options().dir(place.path()).bytes(1 << 30).create("pool").unwrap();
    let path = place.path().join("handed-in");
    let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let handed = Arena::options().bytes(1 << 30).from_descriptor(file.into(), "vm").unwrap();
    let by_name = Region::options().dir(place.path());
    let ways = [
        (by_name.clone(), "pool/r", "pool/r"),
        (Region::options().arena(&pool), "r", "pool/r"),
        (by_name, "pool/r", "pool/r"),
        (Region::options().arena(&handed), "r", "vm/r"),
        (Region::options().arena(&handed), "r", "vm/r"),
    ];
    let mut last = [None; 2];
    for (version, (region, given, name)) in (1..).zip(ways) {
        let last = &mut last[usize::from(name == "vm/r")];
        let mut region = Recovery::options().region(region).checkpoints(place.store()).open(given).unwrap();
        let expected = last.map_or(Origin::Fresh, |version| Origin::Memory { version });
        assert_eq!((region.name(), region.origin()), (name, &expected));
        let mut found = [0.0];
        if let Some(last) = *last {
            assert_eq!(region.attributes()["step"], Scalar::Int(last as i64));
            region.read::<f64>("u", &[7], &[1], &mut found).unwrap();
        }
        let u: Array<f64> = region.array("u", &[3000]).unwrap();
        assert_eq!(region.slice(&u)[7], last.unwrap_or(0) as f64);
        assert_eq!(found[0], region.slice(&u)[7]);
        region.slice_mut(&u)[7] = version as f64;
        region.publish(version).attr("step", version as i64).commit().unwrap();
        *last = Some(version);
    }
    // What nobody finds by a name, is restored there all the same.
    let held = Observer::options().arena(&handed).open("r").unwrap().newest().unwrap();
    let saver = Saver::open(place.store(), SaveOptions::default()).unwrap();
    let saved = saver.save(&held, &|_| {}).unwrap().path;
    let options = Recovery::options().checkpoints(place.store());
    for (region, given) in [(Region::options().arena(&handed), "r"), (Region::options().dir(place.path()), "pool/r")] {
        region.clone().create(given).unwrap().unlink().unwrap();
        let mut region = options.clone().region(region).open(given).unwrap();
        assert_eq!(region.origin(), &Origin::Checkpoint { version: 5, path: saved.clone() });
        let u: Array<f64> = region.array("u", &[3000]).unwrap();
        assert_eq!(region.slice(&u)[7], 5.0);
    }
    let ranks = options.region(Region::options().arena(&handed).rank(0, 2)).open("g");
    assert!(matches!(ranks, Err(Error::Engine(Engine::BadOption { option: "arena", .. }))));
}

#[test]
fn what_was_published_later_wins_whatever_its_number() {
    let _watchdog = watchdog(60);
    let place = Place::new("newer");
    run(&place, &Origin::Fresh, 100);
    save(&place, "r");
    let old = place.path().join("old");
    assert!(std::process::Command::new("cp").arg("-r").arg(place.shm()).arg(&old).status().unwrap().success());
    run(&place, &Origin::Memory { version: 100 }, 200);
    let path = save(&place, "r");
    // The job comes back to a node where it was before.
    std::fs::remove_dir_all(place.shm()).unwrap();
    std::fs::rename(&old, place.shm()).unwrap();
    assert_eq!(Recovery::choose("r", &options(&place)).unwrap(), Some(200));
    assert_eq!(run(&place, &Origin::Checkpoint { version: 200, path }, 201), 200.0);
    // A run that began again with small numbers is newer than the checkpoints of the one before.
    place.options().fresh(true).create("r").unwrap().publish(5).commit().unwrap();
    assert_eq!(options(&place).open("r").unwrap().origin(), &Origin::Memory { version: 5 });
}

#[test]
fn a_version_that_is_asked_for_is_taken_wherever_it_is() {
    let _watchdog = watchdog(60);
    let place = Place::new("version");
    {
        let mut region = options(&place).region(place.options().keep(3)).open("r").unwrap();
        let u: Array<f64> = region.array("u", &[10]).unwrap();
        for version in 1..=5 {
            region.slice_mut(&u)[0] = version as f64;
            region.publish(version).commit().unwrap();
            if version == 2 {
                save(&place, "r");
            }
        }
    }
    let content = |version: u64| {
        let mut region = options(&place).version(version).region(place.options().keep(3)).open("r")?;
        let u: Array<f64> = region.array("u", &[10])?;
        Ok::<_, Error>((region.origin().clone(), region.slice(&u)[0], region.newest()))
    };
    assert_eq!(content(4).unwrap(), (Origin::Memory { version: 4 }, 4.0, Some(4)));
    assert!(matches!(content(5), Err(Error::NoSuchVersion { version: 5, .. })));
    let path = place.store().join("v000000000002.zarr");
    assert_eq!(content(2).unwrap(), (Origin::Checkpoint { version: 2, path }, 2.0, Some(2)));
    let without = Recovery::options().region(place.options()).version(9).open("r").map(drop);
    assert!(matches!(without, Err(Error::Engine(Engine::VersionGone { version: 9, .. }))));
}

#[test]
fn damaged_checkpoints_are_named_and_the_one_before_is_used() {
    let _watchdog = watchdog(60);
    let place = Place::new("damaged");
    run(&place, &Origin::Fresh, 1);
    let good = save(&place, "r");
    run(&place, &Origin::Memory { version: 1 }, 2);
    let flipped = save(&place, "r");
    run(&place, &Origin::Memory { version: 2 }, 3);
    let missing = save(&place, "r");
    // One that only reading finds, and one that looking finds.
    let chunk = flipped.join("u/c.0");
    let mut bytes = std::fs::read(&chunk).unwrap();
    bytes[100] ^= 4;
    std::fs::remove_file(&chunk).unwrap();
    std::fs::write(&chunk, bytes).unwrap();
    std::fs::remove_file(missing.join("u/c.1")).unwrap();
    std::fs::remove_dir_all(place.shm()).unwrap();
    {
        let mut region = options(&place).open("r").unwrap();
        assert_eq!(region.origin(), &Origin::Checkpoint { version: 1, path: good.clone() });
        let u: Array<f64> = region.array("u", &[3000]).unwrap();
        assert_eq!(region.slice(&u)[7], 1.0);
        let skipped = region.skipped();
        assert_eq!(skipped.len(), 2, "{skipped:?}");
        assert!(skipped[0].contains("v000000000003.zarr") && skipped[0].contains("u/c.1"), "{}", skipped[0]);
        assert!(skipped[1].contains("v000000000002.zarr") && skipped[1].contains("u/c.0"), "{}", skipped[1]);
    }
    std::fs::remove_dir_all(place.shm()).unwrap();
    std::fs::remove_file(good.join("manifest.json")).unwrap();
    // Three damaged checkpoints are no reason to begin with nothing and overwrite them.
    match options(&place).open("r").map(drop) {
        Err(Error::NoCheckpoint { skipped, .. }) => assert_eq!(skipped.len(), 3),
        other => panic!("{other:?}"),
    }
}

#[test]
fn damaged_memory_is_named_and_the_checkpoint_is_used() {
    // It is about the files of a region's directory.
    if reading::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(60);
    for file in ["head", "tables", "plane.0"] {
        let place = Place::new("memory");
        run(&place, &Origin::Fresh, 1);
        let path = save(&place, "r");
        let path_in_memory = place.shm().join("r").join(file);
        let length = std::fs::metadata(&path_in_memory).unwrap().len();
        let truncated = std::fs::File::options().write(true).open(&path_in_memory).unwrap();
        truncated.set_len(if file == "head" { length / 2 } else { 0 }).unwrap();
        let without = Recovery::options().region(place.options()).open("r").map(drop);
        assert!(matches!(without, Err(Error::Engine(Engine::Corrupt { .. }))), "{file}: {without:?}");
        let region = options(&place).open("r").unwrap();
        assert_eq!(region.origin(), &Origin::Checkpoint { version: 1, path }, "{file}");
        assert!(region.skipped().iter().any(|words| words.contains(file)), "{file}: {:?}", region.skipped());
    }
}

#[test]
fn tracked_arrays_are_read_back_and_attributes_too() {
    let _watchdog = watchdog(60);
    for from_files in [false, true] {
        let place = Place::new("tracked");
        let memory: Vec<i32> = (0..5000).collect();
        {
            let mut region = options(&place).open("r").unwrap();
            let t = region.track::<i32>("t").unwrap();
            region.publish(8).tracked(&t, &memory, &[50, 100]).attr("time", 0.5).commit().unwrap();
        }
        if from_files {
            save(&place, "r");
            std::fs::remove_dir_all(place.shm()).unwrap();
        }
        let mut region = options(&place).open("r").unwrap();
        assert_eq!(region.attributes()["time"], Scalar::Float(0.5));
        let t = region.track::<i32>("t").unwrap();
        let mut all = vec![0; 5000];
        region.read("t", &[0, 0], &[50, 100], &mut all).unwrap();
        assert_eq!(all, memory);
        let mut corner = [0; 4];
        region.read("t", &[48, 98], &[2, 2], &mut corner).unwrap();
        assert_eq!(corner, [4898, 4899, 4998, 4999]);
        let mut columns = [0u8; 16];
        region.read_bytes("t", &i32::dtype(), Order::Fortran, Some(&[48, 98]), &[2, 2], &mut columns).unwrap();
        assert_eq!(bytemuck::cast::<[u8; 16], [i32; 4]>(columns), [4898, 4998, 4899, 4999]);
        let wrong = |result: Result<(), Error>| match result {
            Err(Error::Engine(error)) => error.code(),
            other => panic!("{other:?}"),
        };
        assert_eq!(wrong(region.read("t", &[49, 98], &[2, 2], &mut corner)), 16);
        assert_eq!(wrong(region.read("t", &[0], &[2], &mut corner[..2])), 16);
        assert_eq!(wrong(region.read("t", &[0, 0], &[2, 2], &mut corner[..3])), 16);
        assert_eq!(wrong(region.read("t", &[0, 0], &[1, 4], &mut [0f32; 4])), 15);
        assert_eq!(wrong(region.read("no", &[0, 0], &[1, 4], &mut corner)), 13);
        region.publish(9).tracked(&t, &all, &[5000]).commit().unwrap();
        let (region, recovered) = region.into_parts();
        assert_eq!((region.newest(), recovered.version()), (Some(9), Some(8)));
    }
    let place = Place::new("nothing");
    let fresh = options(&place).open("r").unwrap();
    assert!(matches!(fresh.read("t", &[0], &[1], &mut [0u8]), Err(Error::NothingRecovered { .. })));
}

// ---------------------------------------------------------------------------------------------------------------- groups

/// A way to cut a global array into boxes, one for each rank.
fn cut(shape: &[usize], ranks: u32, numbers: &mut Numbers) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut blocks = vec![(vec![0; shape.len()], shape.to_vec())];
    while blocks.len() < ranks as usize {
        // Cuts anywhere, so that some boxes are empty now and then.
        let index = numbers.below(blocks.len());
        let (mut offset, mut extents) = blocks[index].clone();
        let d = numbers.below(shape.len());
        let at = numbers.below(extents[d] + 1);
        blocks[index].1[d] = at;
        offset[d] += at;
        extents[d] -= at;
        blocks.push((offset, extents));
    }
    blocks
}

/// The value of a global element.
fn value(index: &[usize], seed: u64) -> u64 {
    index.iter().fold(seed, |value, i| value.wrapping_mul(1_000_003).wrapping_add(*i as u64 + 1))
}

fn for_each(shape: &[usize], mut visit: impl FnMut(&[usize])) {
    if shape.contains(&0) {
        return;
    }
    let mut index = vec![0; shape.len()];
    loop {
        visit(&index);
        let Some(d) = (0..shape.len()).rev().find(|d| index[*d] + 1 < shape[*d]) else { return };
        index[d] += 1;
        index[d + 1..].fill(0);
    }
}

/// A box as bytes, element by element as the naive way is.
fn content(offset: &[usize], shape: &[usize], order: Order, element: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; shape.iter().product::<usize>() * element];
    for_each(shape, |index| {
        let place = |dimensions: &mut dyn Iterator<Item = usize>| dimensions.fold(0, |at, d| at * shape[d] + index[d]);
        let at = match order {
            Order::C => place(&mut (0..shape.len())),
            Order::Fortran => place(&mut (0..shape.len()).rev()),
        };
        let global: Vec<usize> = index.iter().zip(offset).map(|(i, offset)| i + offset).collect();
        let value = value(&global, seed).to_le_bytes();
        bytes[at * element..][..element].copy_from_slice(&[value, value].concat()[..element]);
    });
    bytes
}

struct Rank {
    region: Recovery,
    u: VariableId,
}

fn declaration(offset: &[usize], shape: &[usize], global: &[usize], dtype: &DType, order: Order) -> Declaration {
    let mut declaration = Declaration::new("u", dtype.clone(), Kind::Managed { shape: shape.to_vec() });
    declaration.order = order;
    declaration.part(Part { offset: offset.to_vec(), global_shape: global.to_vec() })
}

#[test]
fn any_number_of_ranks_goes_on_from_what_any_other_left() {
    let _watchdog = watchdog(120);
    let mut kinds = [0; 3];
    for seed in 0..40u64 {
        let numbers = &mut Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
        let place = Place::new("n-to-m");
        let shape: Vec<usize> = (0..1 + numbers.below(3)).map(|_| 1 + numbers.below(20)).collect();
        let dtype = [DType::Float(8), DType::Uint(1), DType::Complex(16), DType::Bytes(3)][numbers.below(4)].clone();
        let orders = [Order::C, Order::Fortran];
        let mut before: Option<u64> = None;
        for generation in 0..3u64 {
            let ranks = 1 + numbers.below(5) as u32;
            let order = orders[numbers.below(2)];
            let blocks = cut(&shape, ranks, numbers);
            let mut all: Vec<Rank> = Vec::new();
            let mut opened: Vec<u32> = (0..ranks).collect();
            for index in (1..opened.len()).rev() {
                opened.swap(index, numbers.below(index + 1));
            }
            for rank in opened {
                let (offset, extents) = &blocks[rank as usize];
                let mut region = rank_options(&place, rank, ranks).open("g").unwrap();
                assert_eq!(region.version(), before, "seed {seed}, generation {generation}, rank {rank}");
                let u = region.declare(declaration(offset, extents, &shape, &dtype, order)).unwrap();
                let scale = region.array::<f64>("scale", &[2]).unwrap();
                region.fill(u).unwrap();
                region.fill(scale.id()).unwrap();
                if let Some(version) = before {
                    let expected = content(offset, extents, order, dtype.bytes(), version);
                    assert!(
                        region.bytes_mut(u).unwrap() == expected,
                        "seed {seed}, generation {generation}: u of {rank}"
                    );
                    assert_eq!(region.slice(&scale), [version as f64, 7.0]);
                    assert_eq!(region.attributes()["time"], Scalar::Float(version as f64));
                    // Any box, in any order.
                    let at: Vec<usize> = shape.iter().map(|n| numbers.below(*n)).collect();
                    let size: Vec<usize> = shape.iter().zip(&at).map(|(n, at)| numbers.below(n - at + 1)).collect();
                    let order = orders[numbers.below(2)];
                    let mut out = vec![0; size.iter().product::<usize>() * dtype.bytes()];
                    region.read_bytes("u", &dtype, order, Some(&at), &size, &mut out).unwrap();
                    assert!(out == content(&at, &size, order, dtype.bytes(), version), "seed {seed}: {at:?} {size:?}");
                } else {
                    assert_eq!(region.origin(), &Origin::Fresh);
                }
                region.slice_mut(&scale).copy_from_slice(&[generation as f64 + 10.0, 7.0]);
                all.push(Rank { region, u });
            }
            let version = generation + 10;
            for rank in &mut all {
                let name = rank.region.region.name().to_string();
                let (offset, extents) = &blocks[name[2..].parse::<usize>().unwrap()];
                let new = content(offset, extents, order, dtype.bytes(), version);
                let id = rank.u;
                rank.region.bytes_mut(id).unwrap().copy_from_slice(&new);
                rank.region.publish(version).attr("time", version as f64).commit().unwrap();
            }
            // Nothing of the run before is left when all have published.
            while !hidden(&place).is_empty() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            let kind = numbers.below(3);
            kinds[kind] += 1;
            if kind > 0 {
                let group = observe_group(&place);
                let codec = if kind == 1 { Codec::Plain } else { Codec::Lz4 };
                save_group(&place, &group.version(version).unwrap(), codec);
            }
            drop(all);
            if kind > 0 {
                std::fs::remove_dir_all(place.shm()).unwrap();
            }
            before = Some(version);
        }
    }
    assert!(kinds.iter().all(|count| *count > 0), "{kinds:?}");
}

fn publish_rank(place: &Place, rank: u32, ranks: u32, versions: std::ops::RangeInclusive<u64>) -> Region {
    let mut region = place.options().rank(rank, ranks).create("g").unwrap();
    let declaration = Declaration::new("u", f64::dtype(), Kind::Managed { shape: vec![4] });
    let part = Part { offset: vec![4 * rank as usize], global_shape: vec![4 * ranks as usize] };
    let u = region.declare(declaration.part(part)).unwrap();
    let own = region.array::<u64>("own", &[1]).unwrap();
    for version in versions {
        region
            .bytes_mut(u)
            .unwrap()
            .copy_from_slice(bytemuck::cast_slice(&[version as f64 + f64::from(rank) / 10.0; 4]));
        region.slice_mut(&own)[0] = u64::from(rank);
        region.publish(version).commit().unwrap();
    }
    region
}

#[test]
fn ranks_that_died_at_different_versions_go_on_from_the_newest_that_all_have() {
    let _watchdog = watchdog(60);
    let place = Place::new("apart");
    let old: Vec<Region> =
        [7, 5, 6].iter().enumerate().map(|(r, to)| publish_rank(&place, r as u32, 3, 1..=*to)).collect();
    drop(old);
    let mut first = rank_options(&place, 1, 3).open("g").unwrap();
    assert_eq!(first.origin(), &Origin::Memory { version: 5 });
    // Nobody ever sees what the last run called 6 beside what this one does.
    first.publish(6).commit().unwrap();
    let group = observe_group(&place);
    assert_eq!(group.newest().unwrap().version(), 5);
    for rank in [0, 2] {
        let mut region = rank_options(&place, rank, 3).open("g").unwrap();
        assert_eq!((region.version(), region.newest()), (Some(5), Some(5)));
        let own = region.array::<u64>("own", &[1]).unwrap();
        assert_eq!(region.slice(&own), [u64::from(rank)]);
        let mut all = [0.0; 12];
        region.read("u", &[0], &[12], &mut all).unwrap();
        assert_eq!((all[0], all[4], all[8]), (5.0, 5.1, 5.2));
        // Whoever ends is joined all the same while others live.
    }
    assert!(matches!(
        rank_options(&place, 2, 3).open("g"),
        Err(Error::Engine(Engine::InUse { region, .. })) if region == "g/1"
    ));
    assert!(matches!(rank_options(&place, 0, 4).open("g"), Err(Error::Engine(Engine::BadOption { .. }))));
    drop(first);
    // All are gone: the next run decides anew, whatever this one decided.
    assert_eq!(rank_options(&place, 2, 3).open("g").unwrap().version(), Some(5));
}

fn observe_group(place: &Place) -> Group {
    Group::options().dir(place.shm()).open("g").unwrap()
}

#[test]
fn versions_of_two_runs_are_never_gone_on_from_together() {
    let _watchdog = watchdog(60);
    let place = Place::new("mixed");
    let old: Vec<Region> = (0..2).map(|rank| publish_rank(&place, rank, 2, 1..=9)).collect();
    let saved = observe_group(&place).version(9).unwrap();
    save_group(&place, &saved, Codec::Plain);
    let run = saved.run().unwrap();
    assert!(old.iter().all(|region| region.run() == run));
    drop((old, saved));
    // Twice a run of which only one rank began.
    (0..2).for_each(|rank| drop(publish_rank(&place, rank, 2, 10..=10)));
    let error = observe_group(&place).version(10).unwrap_err();
    assert!(matches!(error, Engine::MixedRuns { version: 10, .. }), "{error}");
    let regions: Vec<Recovery> = (0..2).map(|rank| rank_options(&place, rank, 2).open("g").unwrap()).collect();
    for region in &regions {
        assert_eq!(region.origin(), &Origin::Memory { version: 9 });
        assert_eq!(region.run(), regions[0].run());
    }
    assert_ne!(regions[0].run(), run);
    drop(regions);
    for rank in ["g/0", "g/1"] {
        inspect::remove(&place.shm(), rank, false).unwrap();
    }
    // What is restored is of the run that had published it.
    let region = rank_options(&place, 0, 2).open("g").unwrap();
    assert!(matches!(region.origin(), Origin::Checkpoint { version: 9, .. }), "{}", region.origin());
    assert_eq!(observe_group(&place).version(9).unwrap().run(), Some(run));
}

#[test]
fn variables_that_are_no_parts_are_read_by_other_ranks_if_all_ranks_had_the_same() {
    let _watchdog = watchdog(60);
    let place = Place::new("same");
    drop((0..2).map(|rank| publish_rank(&place, rank, 2, 1..=3)).collect::<Vec<_>>());
    for rank in 0..3 {
        let mut region = rank_options(&place, rank, 3).open("g").unwrap();
        let own = region.array::<u64>("own", &[1]).unwrap();
        let refused = region.fill(own.id());
        assert!(matches!(refused, Err(Error::PerRank { stored: 2, ranks: 3, .. })), "{refused:?}");
        let mut all = [0.0; 8];
        region.read("u", &[0], &[8], &mut all).unwrap();
        assert_eq!((all[0], all[7]), (3.0, 3.1));
        // This run ends before the others begin, and leaves what they need.
    }
    let group = observe_group(&place);
    assert!(group.newest().is_err());
}

#[test]
fn what_nobody_stored_is_named_and_ghost_cells_give_way_to_own_ones() {
    let _watchdog = watchdog(60);
    let place = Place::new("ghosts");
    // Two ranks with a ghost cell on each side of 1-D blocks: 0..6 and 4..10 of 10; ghosts are stale.
    let mut ranks = Vec::new();
    for (rank, offset, cells) in [(0, 0, [1., 1., 1., 1., 1., -9.]), (1, 4, [-9., 2., 2., 2., 2., 2.])] {
        let mut region = place.options().rank(rank, 2).create("g").unwrap();
        let declare = |name: &str, offset: usize, global: usize| {
            Declaration::new(name, f64::dtype(), Kind::Managed { shape: vec![6] })
                .part(Part { offset: vec![offset], global_shape: vec![global] })
        };
        for declaration in [declare("u", offset, 10), declare("gap", 14 * rank as usize, 20)] {
            let id = region.declare(declaration).unwrap();
            region.bytes_mut(id).unwrap().copy_from_slice(bytemuck::cast_slice(&cells));
        }
        region.publish(1).commit().unwrap();
        ranks.push(region);
    }
    drop(ranks);
    let region = rank_options(&place, 0, 1).open("g").unwrap();
    let mut all = [0.0; 10];
    region.read("u", &[0], &[10], &mut all).unwrap();
    assert_eq!(all, [1., 1., 1., 1., 1., 2., 2., 2., 2., 2.]);
    let mut out = [0.0; 12];
    match region.read("gap", &[4], &[12], &mut out) {
        Err(error @ Error::Uncovered { .. }) => {
            let words = error.to_string();
            assert!(words.contains("[6:14] of [4:16]") && words.contains("[0:6], [14:20]"), "{words}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_run_with_another_number_of_ranks_that_died_early_loses_nothing() {
    let _watchdog = watchdog(60);
    let place = Place::new("early");
    drop((0..3).map(|rank| publish_rank(&place, rank, 3, 1..=3)).collect::<Vec<_>>());
    let held = observe_group(&place).newest().unwrap();
    // One of two ranks begins, publishes even, and dies before the other begins.
    {
        let mut region = rank_options(&place, 1, 2).open("g").unwrap();
        region.publish(4).commit().unwrap();
    }
    assert_eq!(hidden(&place), [".g.former"]);
    for (rank, ranks) in [(3, 4), (0, 2), (1, 5)] {
        let region = rank_options(&place, rank, ranks).open("g").unwrap();
        assert_eq!(region.origin(), &Origin::Memory { version: 3 });
        let mut all = [0.0; 12];
        region.read("u", &[0], &[12], &mut all).unwrap();
        assert_eq!((all[0], all[4], all[8]), (3.0, 3.1, 3.2));
    }
    // With as many as they were, they have what they had.
    for rank in 0..3 {
        let mut region = rank_options(&place, rank, 3).open("g").unwrap();
        assert_eq!(region.version(), Some(3));
        let own = region.array::<u64>("own", &[1]).unwrap();
        assert_eq!(region.slice(&own), [u64::from(rank)]);
    }
    assert_eq!(hidden(&place), [""; 0]);
    assert_eq!(held.rank(2).slice::<f64>("u").unwrap(), [3.2; 4]);
}

/// What two ranks left that came to version 3.
fn left_at_three(place: &Place) -> GroupSnapshot {
    drop((0..2).map(|rank| publish_rank(place, rank, 2, 1..=3)).collect::<Vec<_>>());
    observe_group(place).newest().unwrap()
}

fn cut_head(place: &Place, rank: u32) {
    let head = place.shm().join(format!("g/{rank}/head"));
    std::fs::File::options().write(true).open(head).unwrap().set_len(100).unwrap();
}

#[test]
fn a_group_of_which_no_rank_can_be_read_is_not_begun_anew_in_silence() {
    // It is about the files of a region's directory.
    if reading::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(60);
    let place = Place::new("unreadable");
    let snapshot = left_at_three(&place);
    (0..2).for_each(|rank| cut_head(&place, rank));
    let group = Group::options().dir(place.shm()).open("g").map(drop);
    assert!(matches!(group, Err(Engine::Corrupt { .. })), "{group:?}");
    let refused = rank_options(&place, 0, 2).open("g").map(drop);
    assert!(matches!(refused, Err(Error::Engine(Engine::Corrupt { .. }))), "{refused:?}");
    let path = save_group(&place, &snapshot, Codec::Plain);
    let region = rank_options(&place, 0, 2).open("g").unwrap();
    assert_eq!(region.origin(), &Origin::Checkpoint { version: 3, path });
}

#[test]
fn a_group_that_was_set_aside_is_not_lost_when_the_one_after_it_is_damaged() {
    // It is about the files of a region's directory.
    if reading::is_in_arena() {
        return;
    }
    let _watchdog = watchdog(60);
    let place = Place::new("former");
    save_group(&place, &left_at_three(&place), Codec::Plain);
    drop((0..2).map(|rank| publish_rank(&place, rank, 2, 4..=5)).collect::<Vec<_>>());
    // Of three ranks two begin and die, and what one leaves cannot be read.
    for rank in 0..2 {
        rank_options(&place, rank, 3).open("g").unwrap().publish(6).commit().unwrap();
    }
    assert_eq!(hidden(&place), [".g.former"]);
    cut_head(&place, 1);
    let mut run = Vec::new();
    for rank in 0..2 {
        let mut region = rank_options(&place, rank, 2).open("g").unwrap();
        assert_eq!(region.origin(), &Origin::Memory { version: 5 }, "and not the checkpoint of version 3");
        assert!(region.skipped().iter().any(|text| text.starts_with("in memory: ")), "{:?}", region.skipped());
        let own = region.array::<u64>("own", &[1]).unwrap();
        assert_eq!(region.slice(&own), [u64::from(rank)]);
        run.push(region);
    }
}

#[test]
fn what_has_another_shape_now_is_not_filled_from_the_wrong_place() {
    let _watchdog = watchdog(60);
    let place = Place::new("reshaped");
    drop((0..2).map(|rank| publish_rank(&place, rank, 2, 1..=1)).collect::<Vec<_>>());
    let mut region = rank_options(&place, 0, 1).open("g").unwrap();
    // The box fits into the old array of 8 in each case.
    let declare = |global: Option<usize>, shape: usize| {
        let declaration = Declaration::new("u", f64::dtype(), Kind::Managed { shape: vec![shape] });
        match global {
            Some(global) => declaration.part(Part { offset: vec![2], global_shape: vec![global] }),
            None => declaration,
        }
    };
    for (global, shape) in [(Some(6), 4), (Some(16), 4), (None, 4)] {
        let u = region.declare(declare(global, shape)).unwrap();
        let refused = region.fill(u).unwrap_err().to_string();
        let now = format!("has shape [{}]", global.unwrap_or(shape));
        assert!(refused.contains(&now) && refused.contains("had [8]"), "{refused}");
        assert_eq!(region.bytes_mut(u).unwrap(), [0; 32], "nothing was put there");
        region.remove("u").unwrap();
    }
    // All of it, by whoever has all of it, is what it was.
    let u = region.declare(declare(None, 8)).unwrap();
    region.fill(u).unwrap();
    let filled: &[f64] = bytemuck::cast_slice(region.bytes_mut(u).unwrap());
    assert_eq!(filled, [1.0, 1.0, 1.0, 1.0, 1.1, 1.1, 1.1, 1.1]);
}

#[test]
fn a_group_uses_the_checkpoint_before_a_damaged_one_with_any_number_of_ranks() {
    let _watchdog = watchdog(60);
    for ranks in [2, 3] {
        let place = Place::new("group-damaged");
        for version in 1..=2 {
            drop((0..2).map(|rank| publish_rank(&place, rank, 2, version..=version)).collect::<Vec<_>>());
            let group = observe_group(&place);
            save_group(&place, &group.version(version).unwrap(), Codec::Plain);
        }
        std::fs::remove_dir_all(place.shm()).unwrap();
        let chunk = place.store().join("v000000000002.zarr/1/u/c.0");
        let mut bytes = std::fs::read(&chunk).unwrap();
        bytes[0] ^= 1;
        std::fs::remove_file(&chunk).unwrap();
        std::fs::write(&chunk, bytes).unwrap();
        let path = Store::open(place.store()).unwrap().version(1).unwrap().path().to_path_buf();
        let mut all = Vec::new();
        for rank in (0..ranks).rev() {
            let region = rank_options(&place, rank, ranks).open("g").unwrap();
            assert_eq!(region.origin(), &Origin::Checkpoint { version: 1, path: path.clone() });
            assert!(region.skipped().iter().any(|words| words.contains("1/u/c.0")), "{:?}", region.skipped());
            let mut u = [0.0; 8];
            region.read("u", &[0], &[8], &mut u).unwrap();
            assert_eq!((u[0], u[7]), (1.0, 1.1));
            all.push(region);
        }
    }
}

#[test]
fn a_rank_of_the_run_before_that_lives_on_is_named() {
    let _watchdog = watchdog(60);
    let place = Place::new("lives");
    let old = publish_rank(&place, 1, 2, 1..=1);
    drop(publish_rank(&place, 0, 2, 1..=1));
    let refused = rank_options(&place, 0, 2).open("g").map(drop);
    assert!(
        matches!(&refused, Err(Error::Engine(Engine::InUse { region, pid, .. })) if region == "g/1" && *pid > 0),
        "{refused:?}"
    );
    drop(old);
    assert_eq!(rank_options(&place, 0, 2).open("g").unwrap().version(), Some(1));
    // A single region of the name is no group.
    let single = Observer::options().dir(place.shm()).open("g");
    assert!(matches!(single, Err(Engine::IsGroup { .. })));
}

#[test]
fn nothing_is_left_of_a_group_that_is_removed() {
    let _watchdog = watchdog(60);
    let place = Place::new("removed");
    drop((0..2).map(|rank| publish_rank(&place, rank, 2, 1..=1)).collect::<Vec<_>>());
    drop(rank_options(&place, 0, 1).open("g").unwrap());
    assert_eq!(place.names(), [".g.former", ".g.recovery", "g"]);
    removal::remove(&place.shm(), "g", false).unwrap();
    assert_eq!(place.names(), [""; 0]);
    assert_eq!(rank_options(&place, 0, 1).open("g").unwrap().origin(), &Origin::Fresh);
}

#[test]
fn what_a_run_left_beside_a_group_goes_when_the_dead_are_collected_and_not_before() {
    use removal::{collect, collectable};
    let _watchdog = watchdog(60);
    let place = Place::new("collected");
    drop((0..2).map(|rank| publish_rank(&place, rank, 2, 1..=1)).collect::<Vec<_>>());
    let held = observe_group(&place).newest().unwrap();
    let rank = rank_options(&place, 0, 3).open("g").unwrap();
    let all = [".g.former", ".g.recovery", "g"];
    let collected = || collect(&place.shm()).unwrap().into_iter().map(|(name, removed)| (name, removed.unwrap().bytes));
    assert_eq!((collected().count(), place.names()), (0, all.map(String::from).to_vec()), "a rank lives");
    drop(rank);
    assert_eq!(collected().map(|(name, _)| name).collect::<Vec<_>>(), ["g/0"], "somebody holds what was before");
    drop(held);
    assert_eq!(collectable(&place.shm()).unwrap()[0].name, "g");
    let (name, bytes) = collected().next().unwrap();
    assert!(name == "g" && bytes > 4096, "{name}: {bytes} bytes, those of the group before with it");
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn another_number_of_ranks_goes_on_from_a_group_in_an_arena() {
    let _watchdog = watchdog(60);
    let place = Place::new("arena");
    let arena = stillframe::Arena::options().dir(place.path()).bytes(64 << 20).create("pool").unwrap();
    let begin = |rank, ranks| {
        let options = Recovery::options().region(Region::options().arena(&arena).rank(rank, ranks));
        options.checkpoints(place.store()).open("g").unwrap()
    };
    let mut run: Vec<Recovery> = (0..2).map(|rank| begin(rank, 2)).collect();
    for region in &mut run {
        region.publish(7).commit().unwrap();
    }
    drop(run);
    let former = FormerGroup::of(&Region::options().dir(place.path()), "pool/g").unwrap().unwrap();
    let run: Vec<Recovery> = (0..3).map(|rank| begin(rank, 3)).collect();
    assert!(run.iter().all(|recovery| *recovery.origin() == Origin::Memory { version: 7 }));
    assert_eq!(former.open().unwrap().newest().unwrap().version(), 7);
    // Nobody else is shown what the run before left.
    let shown = inspect::regions(place.path()).unwrap();
    let shown: Vec<String> = shown.into_iter().map(|info| info.name).filter(|name| name.starts_with("pool")).collect();
    assert_eq!(shown, ["pool/g/0", "pool/g/1", "pool/g/2"]);
    drop(run);
    let run: Vec<Recovery> = (0..2).map(|rank| begin(rank, 2)).collect();
    assert!(run.iter().all(|recovery| recovery.version() == Some(7)));
    assert_eq!(former.allocated_bytes().unwrap(), 0);
}
