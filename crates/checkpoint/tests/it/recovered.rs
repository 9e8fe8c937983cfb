//! What there is in the version that was recovered.

use crate::reading::{Place, watchdog};
use std::path::{Path, PathBuf};
use stillframe::{Declaration, Element, Group, Kind, Part, Region};
use stillframe_checkpoint::{Error, Origin, Recovery, RecoveryOptions, RestoreOptions, SaveOptions, Saver};

const GLOBAL: [usize; 2] = [6, 5];

fn options(place: &Place, rank: u32, ranks: u32) -> RecoveryOptions {
    Recovery::options().region(place.options().rank(rank, ranks)).checkpoints(place.store())
}

/// A rank with a part of a global array, an array of its own, and the first rank with one more.
fn publish(place: &Place, rank: u32, ranks: u32) -> Region {
    let mut region = place.options().rank(rank, ranks).create("g").unwrap();
    let rows = GLOBAL[0] / ranks as usize;
    let u = Declaration::new("u", f64::dtype(), Kind::Managed { shape: vec![rows, GLOBAL[1]] });
    let part = Part { offset: vec![rows * rank as usize, 0], global_shape: GLOBAL.into() };
    region.declare(u.part(part)).unwrap();
    region.array::<u64>("own", &[rank as usize + 1]).unwrap();
    if rank == 0 {
        region.array::<i32>("steps", &[]).unwrap();
    }
    region.publish(3).commit().unwrap();
    region
}

/// Saves the group of two ranks, and forgets it in memory.
fn save(place: &Place) -> PathBuf {
    let ranks: Vec<Region> = (0..2).map(|rank| publish(place, rank, 2)).collect();
    let group = Group::options().dir(place.shm()).open("g").unwrap();
    let saver = Saver::open(place.store(), SaveOptions::default()).unwrap();
    let saved = saver.save(group.newest().unwrap(), &|_| {}).unwrap().path;
    drop((ranks, group));
    std::fs::remove_dir_all(place.shm()).unwrap();
    saved
}

/// Writes a file of a checkpoint anew, as other programs do.
fn rewrite(path: &Path, text: &str) {
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, text).unwrap();
}

fn listed(recovery: RecoveryOptions) -> Vec<(String, String, Vec<usize>)> {
    let recovery = recovery.open("g").unwrap();
    let rows = recovery.variables().unwrap().into_iter();
    rows.map(|found| (found.name, found.dtype.to_string(), found.shape)).collect()
}

fn expected(own: usize) -> Vec<(String, String, Vec<usize>)> {
    vec![
        ("own".into(), "uint64".into(), vec![own]),
        ("steps".into(), "int32".into(), vec![]),
        ("u".into(), "float64".into(), GLOBAL.into()),
    ]
}

#[test]
fn variables_are_listed_from_memory_and_from_checkpoints_for_any_number_of_ranks() {
    let _watchdog = watchdog(60);
    let place = Place::new("listed");
    assert_eq!(listed(Recovery::options().region(place.options()).checkpoints(place.store())), []);
    let place = Place::new("listed-ranks");
    save(&place);
    drop((0..2).map(|rank| publish(&place, rank, 2)).collect::<Vec<_>>());
    // As many ranks: each is told what it had itself.
    assert_eq!(listed(options(&place, 1, 2)), expected(2));
    assert_eq!(listed(options(&place, 0, 2)), expected(1));
    // Another number, out of memory: what the first of them that had it had.
    assert_eq!(listed(options(&place, 2, 3)), expected(1));
    std::fs::remove_dir_all(place.shm()).unwrap();
    assert_eq!(listed(options(&place, 2, 3)), expected(1));
}

#[test]
fn each_listed_variable_can_be_read_as_it_is_listed() {
    let _watchdog = watchdog(60);
    let place = Place::new("listed-read");
    let mut region = place.options().create("g").unwrap();
    region.array::<f32>("v", &[2, 3]).unwrap();
    region.array::<u8>("empty", &[0, 4]).unwrap();
    region.publish(1).commit().unwrap();
    drop(region);
    let recovery = Recovery::options().region(place.options()).checkpoints(place.store());
    let (_region, recovered) = recovery.open("g").unwrap().into_parts();
    let variables = recovered.variables().unwrap();
    assert_eq!(variables.len(), 2);
    for found in variables {
        let bytes = found.shape.iter().product::<usize>() * found.dtype.bytes();
        let order = stillframe::Order::C;
        recovered.read_bytes(&found.name, &found.dtype, order, None, &found.shape, &mut vec![0; bytes]).unwrap();
        assert_eq!(recovered.describe(&found.name).unwrap(), (found.dtype, found.shape));
    }
    assert!(matches!(recovered.describe("w"), Err(Error::Engine(stillframe::Error::UnknownVariable { .. }))));
}

#[test]
fn what_other_programs_add_to_a_checkpoint_keeps_no_number_of_ranks_from_going_on() {
    let _watchdog = watchdog(60);
    for ranks in [2, 3] {
        let place = Place::new("extended");
        let saved = save(&place);
        // An attribute more, no consolidated metadata, and a file beside the arrays; and an array that nobody else can open.
        let root = saved.join("zarr.json");
        let text = std::fs::read_to_string(&root).unwrap();
        let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json["attributes"]["reviewed"] = "yes".into();
        json.as_object_mut().unwrap().remove("consolidated_metadata");
        rewrite(&root, &json.to_string());
        std::fs::write(saved.join("notes"), "mine").unwrap();
        rewrite(&saved.join("1/u/zarr.json"), "{");
        let recovery = options(&place, 0, ranks).open("g").unwrap();
        assert_eq!(recovery.skipped(), [""; 0], "{ranks} ranks");
        assert!(matches!(recovery.origin(), Origin::Checkpoint { version: 3, .. }), "{ranks} ranks");
        drop(recovery);
        // Who restores it is told what was not needed.
        let region = Region::options().dir(place.path().join("elsewhere"));
        let restored = RestoreOptions::new().restore_newest(place.store(), &region, "g", &|_| {}).unwrap();
        let damages: Vec<&Path> = restored.damages.iter().map(|damage| &*damage.path).collect();
        assert_eq!(damages, [Path::new("1/u/zarr.json"), Path::new("zarr.json")]);
    }
}

#[test]
fn a_damaged_chunk_keeps_every_number_of_ranks_from_going_on() {
    let _watchdog = watchdog(60);
    for ranks in [2, 3] {
        let place = Place::new("damaged");
        let chunk = save(&place).join("1/u/c.0.0");
        let bytes = std::fs::read(&chunk).unwrap().into_iter().map(|byte| !byte).collect::<Vec<u8>>();
        std::fs::remove_file(&chunk).unwrap();
        std::fs::write(&chunk, bytes).unwrap();
        let refused = options(&place, 0, ranks).open("g").map(|_| ()).unwrap_err();
        assert!(matches!(refused, Error::NoCheckpoint { .. }), "{refused}");
        assert!(refused.to_string().contains("1/u/c.0.0"), "{refused}");
    }
}
