//! Checkpoints put back into memory: what was saved is what observers see and programs go on with.

use crate::reading;

use crate::reading::{Known, Numbers, Place, Version, watchdog};
use proptest::prelude::*;
use stillframe::{DType, Group, Observer, Order, Region, Scalar};
use stillframe_checkpoint::{Checkpoint, Codec, Error, RestoreOptions, Store, restore, restore_newest};

/// Publishes a version, saves it, and removes the region.
fn saved(place: &Place, name: &str, version: &Version) -> (Checkpoint, u64) {
    saved_as(place, name, version, 5000, Codec::Plain)
}

fn saved_as(place: &Place, name: &str, version: &Version, chunk_bytes: usize, codec: Codec) -> (Checkpoint, u64) {
    version.publish(place.options().fresh(true), name);
    let published_ns = place.newest(name).published_ns();
    let path = reading::save(&place.store(), place.newest(name), chunk_bytes, codec);
    stillframe::inspect::remove(&place.shm(), name, false).unwrap();
    (Checkpoint::open(path).unwrap(), published_ns)
}

#[test]
fn a_restored_region_is_as_the_program_left_it() {
    let _watchdog = watchdog(300);
    let place = Place::new("left");
    let version = Version::example(120);
    let (checkpoint, published_ns) = saved(&place, "heat", &version);
    assert_eq!(restore(&checkpoint, place.options(), "heat").unwrap(), 120);
    let snapshot = place.newest("heat");
    assert_eq!(Version::of(&snapshot), version);
    assert_eq!(snapshot.published_ns(), published_ns);
    assert_eq!(place.names(), ["heat"]);
    // A program goes on from there, with its own memory where it wants it.
    let mut region = place.options().create("heat").unwrap();
    assert_eq!(region.recovered(), Some(120));
    let u = region.array::<f64>("u", &[70, 40, 5]).unwrap();
    assert_eq!(bytemuck::cast_slice::<f64, u8>(region.slice(&u)), version.variables[0].bytes);
    region.slice_mut(&u)[0] = 1.0;
    region.publish(121).commit().unwrap();
    drop(region);
    // And under another name, beside it.
    restore(&checkpoint, place.options(), "run/other").unwrap();
    assert_eq!(Version::of(&place.newest("run/other")), version);
    assert_eq!(place.newest("heat").version(), 121);
}

fn dtypes() -> Vec<DType> {
    let inner = DType::packed([("x", DType::Float(4)), ("y", DType::Int(2))]).unwrap();
    let record = DType::packed([("at", inner), ("what", DType::Bytes(3))]).unwrap();
    let plain = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128 bool bytes17";
    plain.split(' ').map(|name| name.parse().unwrap()).chain([record]).collect()
}

fn any_variable(name: String) -> impl Strategy<Value = Known> {
    let shape = proptest::collection::vec(0usize..14, 0..4);
    let dtype = proptest::sample::select(dtypes());
    (dtype, shape, any::<bool>(), "[a-zµ ]{0,4}", any::<u64>()).prop_map(move |(dtype, shape, fortran, units, seed)| {
        let mut known = Known::new(&name, dtype, &shape, seed);
        known.order = if fortran { Order::Fortran } else { Order::C };
        known.units = units;
        known.attributes.insert("seed".into(), Scalar::Int(seed as i64));
        known
    })
}

fn any_version() -> impl Strategy<Value = Version> {
    let names = ["u", "zarr.json", "..", "ρ", "a%b"];
    let variables = names.map(|name| any_variable(name.into()));
    let attributes = proptest::collection::btree_map("[a-z_ ]{1,5}", any_scalar(), 0..4);
    (any::<u64>(), attributes, variables, 0..=names.len()).prop_map(|(number, attributes, variables, count)| Version {
        number,
        attributes,
        variables: variables.into_iter().take(count).collect(),
    })
}

fn any_scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        any::<bool>().prop_map(Scalar::Bool),
        any::<i64>().prop_map(Scalar::Int),
        proptest::num::f64::NORMAL.prop_map(Scalar::Float),
        Just(Scalar::Float(f64::INFINITY)),
        ".{0,6}".prop_map(Scalar::Text),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_saved_is_what_is_restored_and_read(
        version in any_version(),
        chunk_bytes in 4096usize..9000,
        codec in proptest::sample::select(vec![Codec::Plain, Codec::Zstd { level: 1 }, Codec::Lz4]),
        threads in 1usize..4,
        seed in any::<u64>(),
    ) {
        let place = Place::new("any");
        let (checkpoint, _) = saved_as(&place, "r", &version, chunk_bytes, codec);
        prop_assert_eq!(checkpoint.verify(threads, &|_| {}).unwrap(), []);
        let options = RestoreOptions::new().threads(threads);
        prop_assert_eq!(options.restore(&checkpoint, &place.options(), "r", &|_| {}).unwrap(), version.number);
        prop_assert_eq!(&Version::of(&place.newest("r")), &version);
        let mut numbers = Numbers(seed);
        for known in &version.variables {
            for _ in 0..8 {
                let start = numbers.below(known.bytes.len() + 1);
                let end = start + numbers.below(known.bytes.len() - start + 1);
                let mut out = vec![0; end - start];
                checkpoint.read(None, &known.name, start..end, &mut out).unwrap();
                prop_assert_eq!(&out[..], &known.bytes[start..end]);
            }
        }
    }
}

/// Saves a version of a group, whose ranks differ, and removes the group.
fn saved_group(place: &Place, ranks: u32) -> Vec<Version> {
    let versions: Vec<Version> = (0..ranks)
        .map(|rank| {
            let mut version = Version { number: 9, ..Version::example(u64::from(rank)) };
            version.attributes.insert("rank".into(), rank.into());
            version
        })
        .collect();
    let publish =
        |(rank, version): (usize, &Version)| version.publish(place.options().rank(rank as u32, ranks), "heat");
    let regions: Vec<Region> = versions.iter().enumerate().map(publish).collect();
    drop(regions);
    let snapshot = Group::options().dir(place.shm()).open("heat").unwrap().newest().unwrap();
    reading::save(&place.store(), &snapshot, 5000, Codec::Plain);
    drop(snapshot);
    stillframe::inspect::remove(&place.shm(), "heat", false).unwrap();
    versions
}

#[test]
fn a_group_is_restored_with_all_its_ranks() {
    let place = Place::new("group");
    let versions = saved_group(&place, 3);
    let restored = restore_newest(place.store(), place.options(), "heat").unwrap();
    assert_eq!((restored.version, &restored.skipped[..]), (9, &[][..]));
    let snapshot = Group::options().dir(place.shm()).open("heat").unwrap().newest().unwrap();
    let found: Vec<Version> = snapshot.ranks().iter().map(Version::of).collect();
    assert_eq!(found, versions);
    drop(snapshot);
    let mut ranks: Vec<Region> = (0..3).map(|rank| place.options().rank(rank, 3).create("heat").unwrap()).collect();
    for region in &mut ranks {
        assert_eq!(region.recovered(), Some(9));
        region.publish(10).commit().unwrap();
    }
    assert_eq!(Group::options().dir(place.shm()).open("heat").unwrap().newest().unwrap().version(), 10);
    // Single ranks' variables, by their rank.
    let checkpoint = Store::open(place.store()).unwrap().newest().unwrap();
    let mut out = vec![0; versions[2].variables[0].bytes.len()];
    checkpoint.read(Some(2), "u", 0..out.len(), &mut out).unwrap();
    assert_eq!(out, versions[2].variables[0].bytes);
    let error = checkpoint.variable(None, "u").unwrap_err();
    assert!(matches!(&error, Error::Engine(stillframe::Error::UnknownVariable { .. })), "{error}");
}

#[test]
fn what_is_in_memory_is_replaced_only_if_that_is_asked_for() {
    let place = Place::new("replace");
    let (checkpoint, _) = saved(&place, "heat", &Version::example(5));
    let later = Version::example(8);
    later.publish(place.options(), "heat");
    let error = restore(&checkpoint, place.options(), "heat").unwrap_err();
    assert!(matches!(&error, Error::Engine(stillframe::Error::Survives { newest: Some(8), .. })), "{error}");
    assert_eq!(Version::of(&place.newest("heat")), later);
    let replace = RestoreOptions::new().replace(true);
    replace.restore(&checkpoint, &place.options(), "heat", &|_| {}).unwrap();
    assert_eq!(Version::of(&place.newest("heat")), Version::example(5));
    let producer = place.options().create("heat").unwrap();
    let error = replace.restore(&checkpoint, &place.options(), "heat", &|_| {}).unwrap_err();
    assert!(matches!(&error, Error::Engine(stillframe::Error::InUse { .. })), "{error}");
    drop(producer);
    assert_eq!(place.names(), ["heat"]);
}

#[test]
fn a_version_is_chosen_from_a_store_or_the_newest_good_one() {
    let place = Place::new("choose");
    for number in [3, 20, 100] {
        saved(&place, "heat", &Version::example(number));
    }
    let store = Store::open(place.store()).unwrap();
    assert_eq!(store.versions().unwrap(), [3, 20, 100]);
    assert_eq!(store.newest().unwrap().version(), 100);
    assert_eq!(store.version(20).unwrap().attributes()["time"], Scalar::Float(2.0));
    let error = store.version(21).unwrap_err();
    assert!(matches!(&error, Error::NoSuchVersion { known, .. } if known == &[3, 20, 100]), "{error}");
    let older = RestoreOptions::new().version(Some(20));
    let restored = older.restore_newest(place.store(), &place.options(), "heat", &|_| {}).unwrap();
    assert_eq!((restored.version, place.newest("heat").version()), (20, 20));
    // The newest is damaged where only reading tells.
    let chunk = place.store().join("v000000000100.zarr/u/c.0.0.0");
    let mut bytes = std::fs::read(&chunk).unwrap();
    bytes[77] ^= 4;
    // Nobody is to write it, but a disk does.
    std::fs::set_permissions(&chunk, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    std::fs::write(&chunk, bytes).unwrap();
    let restored = restore_newest(place.store(), place.options(), "new").unwrap();
    assert_eq!((restored.version, place.newest("new").version()), (20, 20));
    assert!(restored.skipped[0].to_string().contains("chunk [0, 0, 0] of variable 'u'"), "{:?}", restored.skipped);
    // All are damaged.
    for version in [3, 20] {
        std::fs::remove_file(place.store().join(format!("v{version:012}.zarr/v/c.0.0"))).unwrap();
    }
    let error = restore_newest(place.store(), place.options(), "none").unwrap_err();
    assert!(matches!(&error, Error::NoCheckpoint { skipped, .. } if skipped.len() == 3), "{error}");
    assert_eq!(place.names(), ["heat", "new"]);
}

#[test]
fn copies_and_links_are_as_good_as_the_checkpoint() {
    let place = Place::new("copy");
    let version = Version::example(5);
    let (checkpoint, _) = saved(&place, "heat", &version);
    let copy = place.path().join("elsewhere");
    assert!(std::process::Command::new("cp").arg("-r").arg(checkpoint.path()).arg(&copy).status().unwrap().success());
    for (index, path) in [copy, place.store().join("latest.zarr"), place.store()].into_iter().enumerate() {
        let name = format!("r{index}");
        assert_eq!(restore_newest(path, place.options(), &name).unwrap().version, 5);
        assert_eq!(Version::of(&place.newest(&name)), version);
    }
}

#[test]
fn what_is_no_checkpoint_is_said_so() {
    let place = Place::new("none");
    let text = |dir: &std::path::Path| restore_newest(dir, place.options(), "r").unwrap_err().to_string();
    assert!(text(&place.path().join("absent")).contains("is not there"));
    assert!(text(&place.store()).contains("has no good checkpoint"));
    std::fs::write(place.path().join("file"), "").unwrap();
    assert!(text(&place.path().join("file")).contains("is no directory"));
    assert!(Checkpoint::open(place.store()).unwrap_err().to_string().contains("has no manifest"));
    // What is being written or deleted, and what is no checkpoint at all, is not taken for one.
    for name in [".v000000000005.zarr.partial", ".v000000000004.zarr.removing", "v7.zarr", "notes"] {
        std::fs::create_dir(place.store().join(name)).unwrap();
    }
    assert!(Store::open(place.store()).unwrap().versions().unwrap().is_empty());
    assert!(place.names().is_empty());
}

#[test]
fn parts_outside_a_variable_are_refused() {
    let place = Place::new("outside");
    let (checkpoint, _) = saved(&place, "heat", &Version::example(5));
    let bytes = Version::example(5).variables[0].bytes.len();
    let mut out = [0; 8];
    #[allow(clippy::reversed_empty_ranges)]
    for range in [bytes - 7..bytes + 1, 0..7, 9..1, usize::MAX - 7..usize::MAX] {
        let error = checkpoint.read(None, "u", range, &mut out).unwrap_err();
        assert!(matches!(&error, Error::Engine(stillframe::Error::OutOfRange { .. })), "{error}");
    }
}

#[test]
fn a_bound_that_is_too_small_is_an_error_and_leaves_nothing() {
    let place = Place::new("bound");
    let (checkpoint, _) = saved(&place, "heat", &Version::example(5));
    let error = restore(&checkpoint, place.options().bound_bytes(20_000), "heat").unwrap_err();
    assert!(matches!(&error, Error::Engine(stillframe::Error::Bound { .. })), "{error}");
    assert!(place.names().is_empty());
    restore(&checkpoint, place.options(), "heat").unwrap();
}

#[test]
fn progress_reaches_all_bytes() {
    let place = Place::new("progress");
    let (checkpoint, _) = saved(&place, "heat", &Version::example(5));
    let most = std::sync::atomic::AtomicU64::new(0);
    let note = |reading: stillframe_checkpoint::Reading| {
        assert_eq!((reading.version, reading.bytes), (5, checkpoint.bytes()));
        most.fetch_max(reading.bytes_done, std::sync::atomic::Ordering::Relaxed);
    };
    RestoreOptions::new().restore(&checkpoint, &place.options(), "heat", &note).unwrap();
    assert_eq!(most.swap(0, std::sync::atomic::Ordering::Relaxed), checkpoint.bytes());
    checkpoint.verify(3, &note).unwrap();
    assert_eq!(most.into_inner(), checkpoint.bytes());
}

#[test]
fn a_store_that_may_only_be_read_is_enough() {
    let place = Place::new("readonly");
    let version = Version::example(5);
    let (checkpoint, _) = saved(&place, "heat", &version);
    let all = std::process::Command::new("chmod").args(["-R", "a-w"]).arg(place.store()).status().unwrap();
    assert!(all.success());
    assert_eq!(Store::open(place.store()).unwrap().entries().unwrap().count(), 1);
    restore(&checkpoint, place.options(), "heat").unwrap();
    assert_eq!(Version::of(&place.newest("heat")), version);
    assert!(std::process::Command::new("chmod").args(["-R", "u+w"]).arg(place.store()).status().unwrap().success());
}

#[test]
fn an_observer_that_waits_sees_the_restored_version() {
    let _watchdog = watchdog(300);
    let place = Place::new("waits");
    let (checkpoint, _) = saved(&place, "heat", &Version::example(5));
    let dir = place.shm();
    let wait = std::time::Duration::from_secs(60);
    let observer = std::thread::spawn(move || Observer::options().dir(dir).wait(wait).open("heat").unwrap().newest());
    restore(&checkpoint, place.options(), "heat").unwrap();
    assert_eq!(observer.join().unwrap().unwrap().version(), 5);
}
