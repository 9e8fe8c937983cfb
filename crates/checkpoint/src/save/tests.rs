//! # Safety
//!
//! Managed memory is written through the pointer that the region gives to bindings, while the region is borrowed.
#![allow(unsafe_code)]

use super::*;
use crate::{Codec, Keep, SetAside};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use stillframe::{
    Attributes, DType, Declaration, Group, Kind, Observer, Order, Part, Region, RegionOptions, Scalar, VariableId,
};

/// The checkpoint in a directory, if all of its files are there.
fn good(path: &Path) -> Result<Checkpoint> {
    let checkpoint = Checkpoint::open(path)?;
    checkpoint.check().map(|()| checkpoint)
}

/// A region with its observer, in directories of its own.
struct Bench {
    dir: tempfile::TempDir,
    region: Region,
    version: u64,
}

fn options(dir: &Path) -> RegionOptions {
    Region::options().dir(dir.join("regions"))
}

impl Bench {
    fn new() -> Bench {
        let dir = tempfile::Builder::new().prefix("checkpoint-").tempdir_in("/dev/shm").unwrap();
        let region = options(dir.path()).create("r").unwrap();
        Bench { dir, region, version: 0 }
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn declare(&mut self, name: &str, dtype: DType, order: Order, shape: &[usize]) -> VariableId {
        let kind = Kind::Managed { shape: shape.to_vec() };
        self.region.declare(Declaration { order, ..Declaration::new(name, dtype, kind) }).unwrap()
    }

    fn fill(&mut self, id: VariableId, seed: u64) {
        let bytes = memory(&mut self.region, id);
        for (at, byte) in bytes.iter_mut().enumerate() {
            // Every other page is zeros, as in arrays that are used up to somewhere.
            *byte = if at / 4096 % 2 == 1 { 0 } else { (at as u64 * 31 + seed) as u8 & 1 };
        }
    }

    fn publish(&mut self) -> Snapshot {
        self.version += 10;
        self.region.publish(self.version).attr("t", 0.1 * self.version as f64).commit().unwrap();
        self.newest()
    }

    fn newest(&self) -> Snapshot {
        Observer::options().dir(self.dir.path().join("regions")).open("r").unwrap().newest().unwrap()
    }
}

/// The bytes of a managed variable.
fn memory(region: &mut Region, id: VariableId) -> &mut [u8] {
    match region.managed_bytes(id).unwrap() {
        (_, 0) => &mut [],
        // SAFETY: the region owns so many bytes there, and is borrowed for as long as they are.
        (start, bytes) => unsafe { std::slice::from_raw_parts_mut(start, bytes) },
    }
}

fn quiet(_: Progress) {}

fn save(saver: &Saver, snapshot: &Snapshot) -> Saved {
    saver.save(snapshot, &quiet).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The bytes of an array, put together from its files by what the manifest and nothing else says.
fn read(checkpoint: &Path, variable: &Variable) -> Vec<u8> {
    let element = variable.dtype.bytes();
    let mut bytes = vec![0xaa; variable.shape.iter().product::<usize>() * element];
    let axes = variable.shape.len();
    let counts: Vec<usize> = (0..axes).map(|axis| variable.shape[axis].div_ceil(variable.chunk_shape[axis])).collect();
    // Fastest axis last, whatever the order.
    let along: Vec<usize> = if variable.order == Order::C { (0..axes).collect() } else { (0..axes).rev().collect() };
    for chunk in indices(&counts) {
        let key: String = chunk.iter().map(|at| format!(".{at}")).collect();
        let stored = fs::read(checkpoint.join(format!("{}/c{key}", variable.path))).unwrap();
        let mut content = vec![0; variable.chunk_shape.iter().product::<usize>() * element];
        crate::codec::decode(variable.codec, &stored, &mut content).unwrap();
        for inside in indices(&variable.chunk_shape) {
            let at: Vec<usize> =
                (0..axes).map(|axis| chunk[axis] * variable.chunk_shape[axis] + inside[axis]).collect();
            let offset =
                |at: &[usize], shape: &[usize]| along.iter().fold(0, |offset, axis| offset * shape[*axis] + at[*axis]);
            let from = offset(&inside, &variable.chunk_shape) * element;
            if (0..axes).all(|axis| at[axis] < variable.shape[axis]) {
                let to = offset(&at, &variable.shape) * element;
                bytes[to..to + element].copy_from_slice(&content[from..from + element]);
            } else {
                assert!(content[from..from + element].iter().all(|byte| *byte == 0), "padding is zeros");
            }
        }
    }
    bytes
}

fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![vec![]], |all, extent| {
        all.iter().flat_map(|at| (0..*extent).map(move |n| [&at[..], &[n]].concat())).collect()
    })
}

/// All files of a checkpoint are as their checksums say, and its arrays hold what the snapshot shows.
fn check(checkpoint: &Path, snapshots: &[&Snapshot]) -> Manifest {
    let opened = good(checkpoint).unwrap();
    assert!(opened.verify(1, &|_| {}).unwrap().is_empty());
    for variable in &opened.manifest().variables {
        let snapshot = snapshots[variable.rank.unwrap_or(0) as usize];
        let mut expected = vec![0; snapshot.variable(&variable.name).unwrap().bytes];
        snapshot.read(&variable.name, 0, &mut expected).unwrap();
        assert!(read(checkpoint, variable) == expected, "{variable:?}");
    }
    opened.manifest().clone()
}

fn record() -> DType {
    DType::packed([("x", DType::Float(8)), ("id", DType::Int(4)), ("tag", DType::Bytes(3))]).unwrap()
}

#[test]
fn what_is_saved_is_what_the_snapshot_shows() {
    let mut bench = Bench::new();
    for (name, dtype, order, shape) in [
        ("u", DType::Float(8), Order::C, &[300, 200][..]),
        ("f", DType::Float(4), Order::Fortran, &[70, 5, 30]),
        ("scalar", DType::Complex(16), Order::C, &[]),
        ("empty", DType::Int(2), Order::C, &[3, 0]),
        ("mask", DType::Bool, Order::C, &[12345]),
        ("cells", record(), Order::C, &[999]),
        ("zarr.json", DType::Uint(1), Order::C, &[5]),
        ("__private", DType::Bytes(7), Order::C, &[5]),
    ] {
        let id = bench.declare(name, dtype, order, shape);
        bench.fill(id, 7);
    }
    let snapshot = bench.publish();
    for codec in [Codec::Plain, Codec::Zstd { level: 3 }, Codec::Lz4] {
        let store = bench.dir.path().join(format!("{codec:?}"));
        let saver = Saver::open(&store, SaveOptions::new().chunk_bytes(1 << 15).codec(codec).threads(3)).unwrap();
        let saved = save(&saver, &snapshot);
        let manifest = check(&saved.path, &[&snapshot]);
        assert_eq!((saved.version, saved.already, saved.linked_bytes), (10, false, 0));
        assert_eq!((manifest.version, manifest.region.as_str(), manifest.previous), (10, "r", None));
        assert_eq!(manifest.attributes, *snapshot.attributes());
        assert_eq!(names(&store), ["latest.zarr", "lock", "v000000000010.zarr"]);
        assert_eq!(fs::canonicalize(store.join("latest.zarr")).unwrap(), fs::canonicalize(&saved.path).unwrap());
    }
}

#[test]
fn a_group_is_saved_with_all_its_ranks() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut regions: Vec<Region> = (0..3).map(|rank| options(dir.path()).rank(rank, 3).create("g").unwrap()).collect();
    for (rank, region) in regions.iter_mut().enumerate() {
        let part = Part { offset: vec![rank * 4], global_shape: vec![12] };
        let declared = Declaration::new("u", DType::Float(8), Kind::Managed { shape: vec![4] }).part(part);
        let id = region.declare(declared).unwrap();
        memory(region, id).fill(rank as u8 + 1);
        region.publish(5).attr("rank", rank as i64).commit().unwrap();
    }
    let snapshot = Group::options().dir(dir.path().join("regions")).open("g").unwrap().newest().unwrap();
    let saver = Saver::open(dir.path().join("store"), SaveOptions::new()).unwrap();
    let saved = saver.save(&snapshot, &quiet).unwrap();
    let manifest = check(&saved.path, &snapshot.ranks().iter().collect::<Vec<_>>());
    assert_eq!((manifest.region.as_str(), manifest.ranks), ("g", Some(3)));
    assert_eq!(manifest.rank_attributes[2].get("rank"), Some(&Scalar::Int(2)));
    assert_eq!(manifest.variables[1].path, "1/u");
    assert_eq!(manifest.variables[1].part, Some(Part { offset: vec![4], global_shape: vec![12] }));
}

#[test]
fn what_did_not_change_is_shared_with_the_checkpoint_before() {
    let mut bench = Bench::new();
    let id = bench.declare("u", DType::Uint(1), Order::C, &[1 << 20]);
    memory(&mut bench.region, id).fill(1);
    let store = bench.store();
    let open = || Saver::open(&store, SaveOptions::new().chunk_bytes(1 << 16)).unwrap();
    let saver = open();
    let first = bench.publish();
    assert_eq!(save(&saver, &first).linked_bytes, 0);
    memory(&mut bench.region, id)[5 << 16] = 2;
    let second = bench.publish();
    let saved = save(&saver, &second);
    assert_eq!(saved.linked_bytes, 15 << 16);
    assert!(saved.written_bytes < 2 << 16, "{} bytes", saved.written_bytes);
    assert_eq!(check(&saved.path, &[&second]).previous, Some(10));
    // A writer that comes later knows what to share from the files alone.
    drop(saver);
    let saver = open();
    memory(&mut bench.region, id)[7 << 16] = 2;
    let third = bench.publish();
    assert_eq!(save(&saver, &third).linked_bytes, 15 << 16);
    for (version, snapshot) in [(10, &first), (20, &second), (30, &third)] {
        check(&bench.store().join(layout::checkpoint_dir(version)), &[snapshot]);
    }
}

#[test]
fn a_checkpoint_that_grows_over_a_limit_shares_what_it_has() {
    let mut bench = Bench::new();
    let id = bench.declare("u", DType::Uint(1), Order::C, &[3 << 20]);
    bench.fill(id, 1);
    let chunk_bytes = |saved: &Saved| good(&saved.path).unwrap().manifest().variables[0].chunk_shape[0];
    let first = bench.publish();
    // Twice what it would be cut into by itself, as if it had been larger.
    let twice = 2 * layout::chunk_bytes(first.variable("u").unwrap().bytes as u64);
    let saved = save(&Saver::open(bench.store(), SaveOptions::new().chunk_bytes(twice)).unwrap(), &first);
    assert_eq!(chunk_bytes(&saved), twice);
    let saved = save(&Saver::open(bench.store(), SaveOptions::new()).unwrap(), &bench.publish());
    assert_eq!((chunk_bytes(&saved), saved.linked_bytes), (twice, 3 << 20));
    let saved = save(&Saver::open(bench.store(), SaveOptions::new().chunk_bytes(4 * twice)).unwrap(), &bench.publish());
    assert_eq!((chunk_bytes(&saved), saved.linked_bytes), (3 << 20, 0));
    let saved = save(&Saver::open(bench.store(), SaveOptions::new()).unwrap(), &bench.publish());
    assert_eq!((chunk_bytes(&saved), saved.linked_bytes), (twice / 2, 0), "it is too far from what it should be");
}

#[test]
fn a_chunk_that_lost_bytes_is_not_shared() {
    let mut bench = Bench::new();
    let id = bench.declare("u", DType::Uint(1), Order::C, &[1 << 18]);
    bench.fill(id, 0);
    let saver = Saver::open(bench.store(), SaveOptions::new().chunk_bytes(1 << 16)).unwrap();
    let saved = save(&saver, &bench.publish());
    let chunk = saved.path.join("u/c.1");
    fs::remove_file(&chunk).unwrap();
    fs::write(&chunk, b"short").unwrap();
    fs::remove_file(saved.path.join("u/c.2")).unwrap();
    let snapshot = bench.publish();
    let saved = save(&saver, &snapshot);
    assert_eq!(saved.linked_bytes, 2 << 16);
    check(&saved.path, &[&snapshot]);
}

#[test]
fn a_checkpoint_that_was_moved_away_is_not_missed() {
    let mut bench = Bench::new();
    let id = bench.declare("u", DType::Float(8), Order::C, &[1000]);
    bench.fill(id, 0);
    let saver = Saver::open(bench.store(), SaveOptions::new()).unwrap();
    save(&saver, &bench.publish());
    // The checkpoint before was moved away: what is saved next is whole all the same.
    fs::rename(bench.store().join(layout::checkpoint_dir(10)), bench.dir.path().join("elsewhere")).unwrap();
    let snapshot = bench.publish();
    let saved = save(&saver, &snapshot);
    check(&saved.path, &[&snapshot]);
}

#[test]
fn old_checkpoints_go_and_those_that_are_kept_stay_whole() {
    let mut bench = Bench::new();
    let id = bench.declare("u", DType::Uint(1), Order::C, &[1 << 18]);
    let keep = Keep { newest: 2, every: Some(30) };
    let saver = Saver::open(bench.store(), SaveOptions::new().chunk_bytes(1 << 16).keep(keep)).unwrap();
    for step in 0..8 {
        memory(&mut bench.region, id)[step << 15] = 1;
        let snapshot = bench.publish();
        let saved = save(&saver, &snapshot);
        assert_eq!(saved.trouble, None);
        check(&saved.path, &[&snapshot]);
    }
    assert_eq!(Store::open(bench.store()).unwrap().versions().unwrap(), [30, 60, 70, 80]);
    for version in [30, 60, 70, 80] {
        good(&bench.store().join(layout::checkpoint_dir(version))).unwrap();
    }
}

#[test]
fn damaged_checkpoints_take_no_good_ones_place() {
    let mut bench = Bench::new();
    bench.declare("u", DType::Float(8), Order::C, &[100]);
    let keep = Keep { newest: 2, every: None };
    let saver = Saver::open(bench.store(), SaveOptions::new().keep(keep)).unwrap();
    for _ in 0..2 {
        save(&saver, &bench.publish());
    }
    fs::remove_file(bench.store().join("v000000000020.zarr/u/c.0")).unwrap();
    assert!(save(&saver, &bench.publish()).removed.is_empty());
    assert_eq!(save(&saver, &bench.publish()).removed, [10, 20]);
}

#[test]
fn a_version_that_is_safe_is_not_written_again() {
    let mut bench = Bench::new();
    bench.declare("u", DType::Float(8), Order::C, &[100]);
    let snapshot = bench.publish();
    let saver = Saver::open(bench.store(), SaveOptions::new()).unwrap();
    let first = save(&saver, &snapshot);
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    let before = inode(&first.path);
    let again = save(&saver, &snapshot);
    assert!(again.already && again.written_bytes == 0 && again.files == first.files);
    assert_eq!(inode(&first.path), before);
    // If it was damaged meanwhile, it is.
    fs::remove_file(first.path.join("u/c.0")).unwrap();
    assert!(!save(&saver, &snapshot).already);
    check(&first.path, &[&snapshot]);
}

/// Another run of the region, whose versions are published from here on.
fn next_run(bench: &Bench, name: &str) -> (Region, PathBuf) {
    let dir = bench.dir.path().join(name);
    (Region::options().dir(&dir).create("r").unwrap(), dir)
}

fn publish(run: &mut (Region, PathBuf), version: u64) -> Snapshot {
    run.0.publish(version).commit().unwrap();
    Observer::options().dir(&run.1).open("r").unwrap().newest().unwrap()
}

#[test]
fn what_an_earlier_run_left_gives_way_to_what_takes_its_place() {
    let mut bench = Bench::new();
    bench.declare("u", DType::Float(8), Order::C, &[100]);
    let keep = Keep { newest: 3, every: None };
    let saver = Saver::open(bench.store(), SaveOptions::new().keep(keep)).unwrap();
    let old: Vec<Snapshot> = (0..3).map(|_| bench.publish()).collect();
    assert!(old.iter().all(|snapshot| save(&saver, snapshot).set_aside.is_none()));
    let numbers = || Store::open(bench.store()).unwrap().versions().unwrap();
    // The number of the newest is given again: only that goes, and what is below may be what the new run began from.
    let mut run = next_run(&bench, "second");
    let again = publish(&mut run, 30);
    let saved = save(&saver, &again);
    let to = bench.store().join("earlier-30");
    assert_eq!(saved.set_aside, Some(SetAside { versions: vec![30], to: to.clone() }));
    assert_eq!((saved.removed, saved.trouble, numbers()), (vec![], None, vec![10, 20, 30]));
    check(&saved.path, &[&again]);
    check(&to.join(layout::checkpoint_dir(30)), &[&old[2]]);
    // A lower number: all that is not below goes, whatever the keep rule says, and into a place of its own.
    let mut run = next_run(&bench, "third");
    let lower = publish(&mut run, 15);
    let saved = save(&saver, &lower);
    let second_to = bench.store().join("earlier-30-2");
    assert_eq!(saved.set_aside, Some(SetAside { versions: vec![20, 30], to: second_to.clone() }));
    assert_eq!((saved.removed, saved.trouble, numbers()), (vec![], None, vec![10, 15]));
    check(&second_to.join(layout::checkpoint_dir(20)), &[&old[1]]);
    check(&second_to.join(layout::checkpoint_dir(30)), &[&again]);
    assert_eq!(Store::open(bench.store()).unwrap().newest().unwrap().version(), 15);
    assert_eq!(fs::read_link(bench.store().join("latest.zarr")).unwrap(), Path::new("v000000000015.zarr"));
    assert_eq!(names(&bench.store()).len(), 6, "{:?}", names(&bench.store()));
    // The keep rule counts what is left, and goes on.
    let last = save(&saver, &publish(&mut run, 16));
    assert_eq!((last.set_aside, last.removed), (None, vec![]));
    assert_eq!(save(&saver, &publish(&mut run, 17)).removed, [10]);
}

#[test]
fn nothing_is_deleted_if_an_earlier_runs_checkpoints_cannot_be_moved() {
    let mut bench = Bench::new();
    bench.declare("u", DType::Float(8), Order::C, &[100]);
    let keep = Keep { newest: 1, every: None };
    let saver = Saver::open(bench.store(), SaveOptions::new().keep(keep)).unwrap();
    save(&saver, &bench.publish());
    // A file is in the way.
    fs::write(bench.store().join("earlier-10"), "").unwrap();
    let mut run = next_run(&bench, "second");
    let saved = save(&saver, &publish(&mut run, 5));
    assert!(saved.trouble.is_some() && saved.set_aside.is_none() && saved.removed.is_empty());
    assert_eq!(Store::open(bench.store()).unwrap().versions().unwrap(), [5, 10]);
    // Whoever restarts goes on from the later run all the same.
    assert_eq!(Store::open(bench.store()).unwrap().newest().unwrap().version(), 5);
    saver.save(publish(&mut run, 10), &quiet).unwrap_err();
    check(&bench.store().join(layout::checkpoint_dir(10)), &[&bench.newest()]);
    assert!(!names(&bench.store()).iter().any(|name| layout::is_left_over(name)));
    fs::remove_file(bench.store().join("earlier-10")).unwrap();
    let saved = save(&saver, &run_newest(&run));
    assert_eq!((saved.set_aside.unwrap().versions, saved.removed), (vec![10], vec![5]));
}

/// Changes a byte in a file, as disks let happen: its length, its inode and its times stay.
fn rot(file: &Path) {
    // Nobody is to write it.
    let kept = fs::metadata(file).unwrap().permissions();
    fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
    let opened = fs::File::options().read(true).write(true).open(file);
    let file = opened.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut byte = [0];
    file.read_exact_at(&mut byte, 7).unwrap();
    file.write_all_at(&[byte[0] ^ 4], 7).unwrap();
    file.set_permissions(kept).unwrap();
}

#[test]
fn a_chunk_that_changed_on_disk_is_not_shared_but_written_anew() {
    for codec in [Codec::Plain, Codec::Zstd { level: 1 }, Codec::Lz4] {
        let mut bench = Bench::new();
        let u = bench.declare("u", DType::Int(1), Order::C, &[1 << 20]);
        bench.fill(u, 3);
        let options = SaveOptions::new().chunk_bytes(1 << 16).codec(codec);
        let saver = Saver::open(bench.store(), options.clone()).unwrap();
        assert_eq!(save(&saver, &bench.publish()).trouble, None);
        rot(&bench.store().join(layout::checkpoint_dir(10)).join("u/c.4"));
        let second = bench.publish();
        let saved = save(&saver, &second);
        check(&saved.path, &[&second]);
        assert!(saved.linked_bytes > 0 && saved.written_bytes > 0 && saved.read_back_bytes > 0, "{codec:?}: {saved:?}");
        assert!(saved.trouble.as_ref().is_some_and(|text| text.contains("(u/c.4)")), "{codec:?}: {saved:?}");
        // Nor by the next writer, which knows only what the files say.
        drop(saver);
        rot(&saved.path.join("u/c.9"));
        let third = bench.publish();
        let saved = save(&Saver::open(bench.store(), options).unwrap(), &third);
        check(&saved.path, &[&third]);
        assert!(saved.trouble.is_some_and(|text| text.contains("(u/c.9)")), "{codec:?}");
    }
}

#[test]
fn the_last_checkpoint_that_was_read_back_whole_is_not_deleted() {
    let mut bench = Bench::new();
    let u = bench.declare("u", DType::Int(1), Order::C, &[1 << 20]);
    bench.fill(u, 3);
    let keep = Keep { newest: 1, every: None };
    let saver = Saver::open(bench.store(), SaveOptions::new().chunk_bytes(1 << 16).keep(keep)).unwrap();
    let versions = || Store::open(bench.dir.path().join("store")).unwrap().versions().unwrap();
    let mut next = |region: &mut Region| {
        bench.version += 10;
        region.publish(bench.version).commit().unwrap();
        save(&saver, &Observer::options().dir(bench.dir.path().join("regions")).open("r").unwrap().newest().unwrap())
    };
    // All of the first was just written, and all of the second is read back.
    assert_eq!((next(&mut bench.region).removed, next(&mut bench.region).removed), (vec![], vec![10]));
    saver.state().rounds.stop();
    assert_eq!((next(&mut bench.region).removed, versions()), (vec![], vec![20, 30]));
    assert_eq!((next(&mut bench.region).removed, versions()), (vec![30], vec![20, 40]));
    saver.state().rounds.start();
    assert_eq!((next(&mut bench.region).removed, versions()), (vec![20, 40], vec![50]));
}

#[test]
fn a_checkpoint_whose_writer_died_between_two_names_is_found_and_gets_its_own() {
    let mut bench = Bench::new();
    bench.declare("u", DType::Float(8), Order::C, &[100]);
    let saver = Saver::open(bench.store(), SaveOptions::new()).unwrap();
    save(&saver, &bench.publish());
    let mut run = next_run(&bench, "second");
    save(&saver, &publish(&mut run, 10));
    drop(saver);
    // What a writer leaves that dies where names cannot be exchanged: the old one is aside, the new one has no name yet.
    let (place, partial) =
        (bench.store().join(layout::checkpoint_dir(10)), bench.store().join(layout::partial_dir(10)));
    fs::rename(&place, &partial).unwrap();
    let attributes = |checkpoint: &Checkpoint| checkpoint.manifest().published_ns;
    let new = run_newest(&run).published_ns();
    let store = Store::open(bench.store()).unwrap();
    assert_eq!(attributes(&store.newest().unwrap()), new, "whoever restarts finds it");
    assert_eq!(crate::newest_safe(bench.store()).unwrap(), None, "and nobody says that it is safe");
    drop(Saver::open(bench.store(), SaveOptions::new()).unwrap());
    assert_eq!((place.exists(), partial.exists()), (true, false));
    assert_eq!((attributes(&store.newest().unwrap()), crate::newest_safe(bench.store()).unwrap()), (new, Some(10)));
    // One that is not whole is what any writer leaves that dies.
    fs::rename(&place, &partial).unwrap();
    fs::remove_file(partial.join(layout::CHECKSUMS)).unwrap();
    drop(Saver::open(bench.store(), SaveOptions::new()).unwrap());
    assert!(!place.exists() && !partial.exists());
}

#[test]
fn who_asks_for_a_version_that_is_just_deleted_gets_no_other() {
    let mut bench = Bench::new();
    bench.declare("u", DType::Float(8), Order::C, &[100]);
    let saver = Saver::open(bench.store(), SaveOptions::new()).unwrap();
    save(&saver, &bench.publish());
    save(&saver, &bench.publish());
    let mut entries = Store::open(bench.store()).unwrap().only(10).unwrap();
    fs::remove_dir_all(bench.store().join(layout::checkpoint_dir(10))).unwrap();
    assert!(entries.next().is_none());
}

fn run_newest(run: &(Region, PathBuf)) -> Snapshot {
    Observer::options().dir(&run.1).open("r").unwrap().newest().unwrap()
}

#[test]
fn an_older_run_does_not_take_the_place_of_a_newer_one() {
    let mut bench = Bench::new();
    bench.declare("u", DType::Float(8), Order::C, &[100]);
    let old = bench.publish();
    let saver = Saver::open(bench.store(), SaveOptions::new()).unwrap();
    let new = publish(&mut next_run(&bench, "second"), 10);
    save(&saver, &new);
    let error = saver.save(&old, &quiet).unwrap_err();
    assert!(matches!(error, Error::Contradicts { version: 10, .. }), "{error}");
    check(&bench.store().join(layout::checkpoint_dir(10)), &[&new]);
}

#[test]
fn another_region_does_not_mix_with_the_first() {
    let mut bench = Bench::new();
    bench.declare("u", DType::Float(8), Order::C, &[100]);
    let saver = Saver::open(bench.store(), SaveOptions::new()).unwrap();
    save(&saver, &bench.publish());
    let dir = bench.dir.path().join("regions");
    let mut other = Region::options().dir(&dir).create("s").unwrap();
    other.publish(20).commit().unwrap();
    let snapshot = Observer::options().dir(&dir).open("s").unwrap().newest().unwrap();
    let error = saver.save(&snapshot, &quiet).unwrap_err();
    assert!(matches!(&error, Error::OtherRegion { found, .. } if found == "r"), "{error}");
}

#[test]
fn the_second_writer_is_told_who_the_first_is() {
    let bench = Bench::new();
    let first = Saver::open(bench.store(), SaveOptions::new()).unwrap();
    let error = Saver::open(bench.store(), SaveOptions::new()).unwrap_err();
    assert!(
        matches!(&error, Error::Locked { pid, command, .. } if *pid == std::process::id() && !command.is_empty()),
        "{error}"
    );
    drop(first);
    Saver::open(bench.store(), SaveOptions::new()).unwrap();
}

/// Runs `work` in a forked child, and fails if it panics or does not end.
fn in_child(work: impl FnOnce()) {
    // SAFETY: the child does what is asked here and ends without a return to the test's other threads, which it has not.
    match unsafe { libc::fork() } {
        0 => {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // SAFETY: it takes no memory and does not return.
            unsafe { libc::_exit(i32::from(done.is_err())) }
        }
        pid => {
            let begin = Instant::now();
            let mut status = 0;
            // SAFETY: `status` is writable, and `pid` is this process's child until it was waited for.
            while unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) } == 0 {
                if begin.elapsed() > Duration::from_secs(60) {
                    // SAFETY: as above.
                    unsafe { libc::kill(pid, libc::SIGKILL) };
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            assert_eq!(status, 0, "the child did not end well");
        }
    }
}

#[test]
fn a_store_is_its_savers_whatever_a_forked_child_does() {
    let mut bench = Bench::new();
    bench.declare("u", DType::Float(8), Order::C, &[100]);
    let snapshot = bench.publish();
    let saver = Saver::open(bench.store(), SaveOptions::new()).unwrap();
    // A child does not run what is dropped in its parent, but a copy of it.
    // SAFETY: the copy is dropped in the child alone.
    in_child(|| drop(unsafe { std::ptr::read(&saver) }));
    let error = Saver::open(bench.store(), SaveOptions::new()).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    in_child(|| {
        let error = saver.save(&snapshot, &quiet).unwrap_err();
        assert!(matches!(error, Error::Engine(stillframe::Error::Forked { .. })));
    });
    assert!(!save(&saver, &snapshot).already);
}

#[test]
fn a_forked_child_may_drop_a_checkpointer() {
    let mut bench = Bench::new();
    bench.declare("u", DType::Float(8), Order::C, &[100]);
    let snapshot = bench.publish();
    let options = crate::Checkpointer::options().dir(bench.dir.path().join("regions"));
    let checkpointer = options.start("r", bench.store()).unwrap();
    // SAFETY: the copy is dropped in the child alone.
    in_child(|| drop(unsafe { std::ptr::read(&checkpointer) }));
    assert!(checkpointer.wait_safe(snapshot.version(), Duration::from_secs(60)).unwrap());
    checkpointer.stop().unwrap();
}

#[test]
fn what_killed_writers_left_is_cleaned_up_and_nothing_else() {
    let bench = Bench::new();
    let store = bench.store();
    for dir in [".v000000000007.zarr.partial/u", ".v000000000003.zarr.removing", "mine", ".hidden"] {
        fs::create_dir_all(store.join(dir)).unwrap();
    }
    fs::write(store.join(".v000000000007.zarr.partial/u/c.0"), b"half").unwrap();
    std::os::unix::fs::symlink("nowhere", store.join(layout::LATEST_NEW)).unwrap();
    let saver = Saver::open(&store, SaveOptions::new()).unwrap();
    assert_eq!(saver.cleaned(), [".latest.zarr.new", ".v000000000003.zarr.removing", ".v000000000007.zarr.partial"]);
    assert_eq!(names(&store), [".hidden", "lock", "mine"]);
}

/// It may hold a lock for ever on whatever it may open.
#[test]
fn who_may_only_read_cannot_open_the_lock() {
    let bench = Bench::new();
    let store = bench.store();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for (of_store, wanted) in [(0o755, 0o600), (0o750, 0o600), (0o700, 0o600)] {
        fs::create_dir_all(&store).unwrap();
        fs::set_permissions(&store, fs::Permissions::from_mode(of_store)).unwrap();
        let lock = store.join(layout::LOCK);
        drop(Saver::open(&store, SaveOptions::new()).unwrap());
        assert_eq!(mode(&lock), wanted, "{of_store:o}");
        // One of before.
        fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
        drop(Saver::open(&store, SaveOptions::new()).unwrap());
        assert_eq!(mode(&lock), wanted, "{of_store:o}");
        fs::remove_dir_all(&store).unwrap();
    }
}

#[test]
fn a_cancelled_save_leaves_nothing() {
    let mut bench = Bench::new();
    bench.declare("u", DType::Uint(1), Order::C, &[1 << 18]);
    let snapshot = bench.publish();
    let saver = Saver::open(bench.store(), SaveOptions::new().chunk_bytes(1 << 16)).unwrap();
    let cancel = |progress: Progress| {
        if progress.phase == Phase::Writing && progress.bytes_done > 0 {
            saver.cancel();
        }
    };
    let error = saver.save(&snapshot, &cancel).unwrap_err();
    assert!(matches!(error, Error::Cancelled { version: 10 }), "{error}");
    assert_eq!(names(&bench.store()), ["lock"]);
    save(&saver, &snapshot);
}

#[test]
fn a_directory_deleted_under_it_is_an_error_that_says_so() {
    let mut bench = Bench::new();
    bench.declare("u", DType::Uint(1), Order::C, &[1 << 18]);
    let snapshot = bench.publish();
    let saver = Saver::open(bench.store(), SaveOptions::new().chunk_bytes(1 << 16).threads(1)).unwrap();
    for phase in [Phase::Writing, Phase::Syncing] {
        let store = bench.store();
        let take_away = move |progress: Progress| {
            if progress.phase == phase {
                let _ = fs::remove_dir_all(&store);
            }
        };
        let error = saver.save(&snapshot, &take_away).unwrap_err();
        assert!(matches!(error, Error::Vanished { version: 10, .. }), "{error}");
        assert!(!bench.store().exists());
    }
    // Another writer may have it now.
    let _other = Saver::open(bench.store(), SaveOptions::new()).unwrap();
    let error = saver.save(&snapshot, &quiet).unwrap_err();
    assert!(matches!(error, Error::Vanished { .. }), "{error}");
    assert_eq!(names(&bench.store()), ["lock"]);
}

#[test]
fn several_versions_are_saved_at_once() {
    let mut bench = Bench::new();
    let id = bench.declare("u", DType::Uint(1), Order::C, &[1 << 20]);
    let mut snapshots = Vec::new();
    for step in 0..6 {
        memory(&mut bench.region, id)[step << 17] = 1;
        snapshots.push(bench.publish());
    }
    let keep = Keep { newest: 6, every: None };
    let saver = Saver::open(bench.store(), SaveOptions::new().chunk_bytes(1 << 16).keep(keep)).unwrap();
    std::thread::scope(|scope| {
        for snapshot in &snapshots {
            let saver = &saver;
            scope.spawn(move || save(saver, snapshot));
        }
    });
    for snapshot in &snapshots {
        check(&bench.store().join(layout::checkpoint_dir(snapshot.version())), &[snapshot]);
    }
}

#[test]
fn attributes_come_back_to_the_last_bit() {
    let mut attributes = Attributes::new();
    for (name, value) in [("a", 0.1 + 0.2), ("b", 1.0), ("c", f64::MIN_POSITIVE), ("d", -0.0), ("e", f64::INFINITY)] {
        attributes.insert(name.into(), Scalar::Float(value));
    }
    attributes.insert("n".into(), Scalar::Int(i64::MIN));
    attributes.insert("t".into(), Scalar::Text("{\"float\":\"NaN\"}".into()));
    let mut bench = Bench::new();
    let kind = Kind::Managed { shape: vec![3] };
    bench.region.declare(Declaration::new("u", DType::Float(8), kind)).unwrap();
    let mut publication = bench.region.publish(1);
    for (name, value) in &attributes {
        publication = publication.attr(name, value.clone());
    }
    publication.attr("nan", f64::NAN).commit().unwrap();
    let saver = Saver::open(bench.store(), SaveOptions::new()).unwrap();
    let saved = save(&saver, &bench.newest());
    let mut found = good(&saved.path).unwrap().attributes().clone();
    assert!(matches!(found.remove("nan"), Some(Scalar::Float(value)) if value.is_nan()));
    assert_eq!(found, attributes);
    assert!(matches!(found["d"], Scalar::Float(zero) if zero.is_sign_negative()));
}

fn dtypes() -> impl Strategy<Value = DType> {
    prop_oneof![
        Just(DType::Int(1)),
        Just(DType::Uint(2)),
        Just(DType::Float(4)),
        Just(DType::Float(8)),
        Just(DType::Complex(16)),
        Just(DType::Bytes(13)),
        Just(record()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn any_array_is_saved_as_it_is(
        shape in proptest::collection::vec(0usize..40, 0..4),
        dtype in dtypes(),
        fortran in any::<bool>(),
        chunk_pages in 1usize..8,
        codec in prop_oneof![Just(Codec::Plain), Just(Codec::Zstd { level: 1 }), Just(Codec::Lz4)],
        changes in proptest::collection::vec(any::<proptest::sample::Index>(), 0..4),
    ) {
        let mut bench = Bench::new();
        let order = if fortran { Order::Fortran } else { Order::C };
        let id = bench.declare("u", dtype, order, &shape);
        bench.fill(id, 3);
        let saver = Saver::open(bench.store(), SaveOptions::new().chunk_bytes(chunk_pages << 12).codec(codec)).unwrap();
        let first = bench.publish();
        let saved = save(&saver, &first);
        check(&saved.path, &[&first]);
        let bytes = memory(&mut bench.region, id);
        for at in changes.iter().filter(|_| !bytes.is_empty()).map(|at| at.index(bytes.len())).collect::<Vec<_>>() {
            bytes[at] ^= 0xff;
        }
        let second = bench.publish();
        let saved = save(&saver, &second);
        check(&saved.path, &[&second]);
        check(&bench.store().join(layout::checkpoint_dir(first.version())), &[&first]);
    }
}
