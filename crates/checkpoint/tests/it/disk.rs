//! What disks do to savers: they are full, they cannot be written to, and they take pages past the cache.
//!
//! # Safety
//!
//! Managed memory is written through the pointer that the region gives to bindings, while nobody else writes it.
#![allow(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use stillframe::{Array, DType, Declaration, Family, Kind, Observer, Order, Region, Snapshot};
use stillframe_checkpoint::{Checkpoint, Error, Keep, SaveOptions, Saver, Store, is_safe, newest_safe};

const BYTES: usize = 1 << 20;

/// A region that differs all over from version to version.
struct Producer {
    region: Region,
    array: Array<u64>,
    dir: tempfile::TempDir,
    version: u64,
}

impl Producer {
    fn new() -> Producer {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut region = Region::options().dir(dir.path()).create("r").unwrap();
        let array = region.array("u", &[BYTES / 8]).unwrap();
        Producer { region, array, dir, version: 0 }
    }

    fn publish(&mut self) -> Snapshot {
        self.version += 1;
        let version = self.version;
        self.region.slice_mut(&self.array).iter_mut().zip(version..).for_each(|(place, value)| *place = value << 8);
        self.region.publish(version).commit().unwrap();
        Observer::options().dir(self.dir.path()).open("r").unwrap().newest().unwrap()
    }
}

fn save(saver: &Saver, snapshot: &Snapshot) -> Result<stillframe_checkpoint::Saved, Error> {
    saver.save(snapshot, &|_| {})
}

fn all() -> SaveOptions {
    SaveOptions::new().chunk_bytes(1 << 17).keep(Keep { newest: 100, every: None })
}

fn check_whole(path: &Path) {
    let checkpoint = Checkpoint::open(path).unwrap();
    assert!(checkpoint.verify(2, &|_| {}).unwrap().is_empty());
}

/// A small file system, unmounted when dropped.
struct Mount {
    dir: PathBuf,
    files: tempfile::TempDir,
}

impl Mount {
    /// `None`, and a word about it, where it cannot be had.
    fn new(kind: &str) -> Option<Mount> {
        let files = tempfile::tempdir().unwrap();
        let dir = files.path().join("mount");
        std::fs::create_dir(&dir).unwrap();
        let image = files.path().join(IMAGE);
        let target = dir.to_str().unwrap();
        let mounted = match kind {
            "tmpfs" => run("mount", &["-t", "tmpfs", "-o", "size=5m", "none", target]),
            _ => {
                std::fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
                run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]) && mount_image(&image, &dir)
            }
        };
        if !mounted {
            eprintln!("skipped: this user cannot mount a small {kind} here");
        }
        mounted.then_some(Mount { dir, files })
    }

    /// What would be there if the machine had stopped just now: all that the disk was given, and nothing else.
    fn after_power_cut(&self) -> Mount {
        let files = tempfile::tempdir().unwrap();
        let (dir, image) = (files.path().join("mount"), files.path().join(IMAGE));
        std::fs::create_dir(&dir).unwrap();
        std::fs::copy(self.files.path().join(IMAGE), &image).unwrap();
        assert!(mount_image(&image, &dir));
        Mount { dir, files }
    }
}

/// The file that a small disk lies in.
const IMAGE: &str = "image";

fn mount_image(image: &Path, dir: &Path) -> bool {
    run("mount", &["-o", "loop", image.to_str().unwrap(), dir.to_str().unwrap()])
}

impl Drop for Mount {
    fn drop(&mut self) {
        run_while_in_use("umount", &[self.dir.to_str().unwrap_or_default()]);
    }
}

fn run(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

/// As [`run`], again and again: a program that another test starts has all files of this process open for a moment, those
/// of the file system too.
fn run_while_in_use(program: &str, arguments: &[&str]) -> bool {
    let end = Instant::now() + Duration::from_secs(60);
    while !run(program, arguments) {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

fn fill_up(kind: &str) {
    let Some(mount) = Mount::new(kind) else { return };
    let store = mount.dir.join("store");
    let saver = Saver::open(&store, all()).unwrap();
    let mut producer = Producer::new();
    let error = loop {
        match save(&saver, &producer.publish()) {
            Ok(_) => assert!(producer.version < 20, "it never becomes full"),
            Err(error) => break error,
        }
    };
    let version = producer.version;
    assert!(version > 2, "{error}");
    match &error {
        Error::NoSpace { dir, version: failed, needed_bytes, free_bytes, lacks_inodes: false } => {
            assert_eq!((dir, *failed), (&store, version));
            assert!(*needed_bytes > 0 && free_bytes.is_some_and(|bytes| bytes < BYTES as u64), "{error}");
        }
        other => panic!("{other}"),
    }
    assert_eq!((error.code(), error.family()), (107, Family::Environment));
    let opened = Store::open(&store).unwrap();
    assert_eq!(opened.versions().unwrap(), (1..version).collect::<Vec<_>>());
    (1..version).for_each(|version| check_whole(opened.version(version).unwrap().path()));
    let hidden = |name: &str| name.ends_with(".partial");
    let names = std::fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| hidden(name)).count(), 0);
    // Once there is room, it goes on.
    std::fs::remove_dir_all(opened.version(1).unwrap().path()).unwrap();
    std::fs::remove_dir_all(opened.version(2).unwrap().path()).unwrap();
    let saved = save(&saver, &producer.publish()).unwrap();
    check_whole(&saved.path);
}

#[test]
fn a_full_memory_file_system_is_an_error_that_leaves_what_was_there() {
    fill_up("tmpfs");
}

#[test]
fn a_full_disk_is_an_error_that_leaves_what_was_there() {
    fill_up("ext4");
}

#[test]
fn a_file_system_without_inodes_is_an_error_that_says_so() {
    let Some(mount) = Mount::new("tmpfs") else { return };
    let saver = Saver::open(mount.dir.join("store"), all()).unwrap();
    assert!(run("mount", &["-o", "remount,nr_inodes=10", mount.dir.to_str().unwrap()]));
    let mut producer = Producer::new();
    let error = save(&saver, &producer.publish()).unwrap_err();
    assert!(matches!(error, Error::NoSpace { lacks_inodes: true, .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("no inode is free") && !text.contains("bytes are free"), "{text}");
    assert!(run("mount", &["-o", "remount,nr_inodes=1000", mount.dir.to_str().unwrap()]));
    check_whole(&save(&saver, &producer.publish()).unwrap().path);
}

#[test]
fn a_copy_that_takes_the_place_of_what_it_was_made_of_is_brought_to_disk() {
    let Some(mount) = Mount::new("ext4") else { return };
    let (store, backup) = (mount.dir.join("store"), tempfile::tempdir().unwrap());
    let saved = save(&Saver::open(&store, all()).unwrap(), &Producer::new().publish()).unwrap().path;
    let (own, copy) = (saved.to_str().unwrap(), backup.path().join("copy"));
    assert!(run("cp", &["-a", own, copy.to_str().unwrap()]));
    std::fs::remove_dir_all(&saved).unwrap();
    // It gets the inode of what was deleted.
    assert!(run("cp", &["-a", copy.to_str().unwrap(), own]));
    // What is somebody's own beside it is no reason to say that it is not safe.
    std::os::unix::fs::symlink("nowhere", saved.join("notes.txt")).unwrap();
    assert!(is_safe(&store, 1).unwrap());
    let stopped = mount.after_power_cut();
    let found = Store::open(stopped.dir.join("store")).unwrap().version(1).unwrap();
    let _ = std::fs::remove_file(found.path().join("notes.txt"));
    check_whole(found.path());
    // Nor is a copy safe that has lost a file.
    std::fs::remove_dir_all(&saved).unwrap();
    assert!(run("cp", &["-a", copy.to_str().unwrap(), own]));
    std::fs::remove_file(saved.join("u/c.0")).unwrap();
    assert_eq!((is_safe(&store, 1).unwrap(), newest_safe(&store).unwrap()), (false, None));
}

/// A copy of a checkpoint in a store on a small disk, as `cp -r` makes one: nobody has brought it to disk.
fn copied(mount: &Mount, producer: &mut Producer) -> PathBuf {
    let original = tempfile::tempdir().unwrap();
    save(&Saver::open(original.path(), all()).unwrap(), &producer.publish()).unwrap();
    let copy = mount.dir.join("copy");
    assert!(run("cp", &["-r", original.path().to_str().unwrap(), copy.to_str().unwrap()]));
    copy
}

#[test]
fn what_is_called_safe_of_a_copied_store_is_on_disk() {
    type Ask = fn(&Path, &mut Producer);
    let ask_is_safe: Ask = |store, _| assert!(is_safe(store, 1).unwrap());
    let ask_newest: Ask = |store, _| assert_eq!(newest_safe(store).unwrap(), Some(1));
    let save_again: Ask = |store, producer| {
        let held = Observer::options().dir(producer.dir.path()).open("r").unwrap().version(1).unwrap();
        assert!(save(&Saver::open(store, all()).unwrap(), &held).unwrap().already);
    };
    for ask in [ask_is_safe, ask_newest, save_again] {
        let Some(mount) = Mount::new("ext4") else { return };
        let mut producer = Producer::new();
        let store = copied(&mount, &mut producer);
        ask(&store, &mut producer);
        check_whole(Store::open(mount.after_power_cut().dir.join("copy")).unwrap().version(1).unwrap().path());
    }
}

#[test]
fn what_is_saved_beside_a_copy_is_on_disk_with_what_they_share() {
    let Some(mount) = Mount::new("ext4") else { return };
    let mut producer = Producer::new();
    let store = copied(&mount, &mut producer);
    let saver = Saver::open(&store, all()).unwrap();
    producer.region.publish(2).commit().unwrap();
    let held = Observer::options().dir(producer.dir.path()).open("r").unwrap().newest().unwrap();
    assert!(save(&saver, &held).unwrap().linked_bytes > 0);
    check_whole(Store::open(mount.after_power_cut().dir.join("copy")).unwrap().version(2).unwrap().path());
}

#[test]
fn a_file_system_that_became_read_only_is_an_error_that_says_so() {
    let Some(mount) = Mount::new("tmpfs") else { return };
    let saver = Saver::open(mount.dir.join("store"), all()).unwrap();
    let mut producer = Producer::new();
    save(&saver, &producer.publish()).unwrap();
    // A file that is open for writing would be in the way.
    drop(saver);
    assert!(run_while_in_use("mount", &["-o", "remount,ro", mount.dir.to_str().unwrap()]));
    let error = Saver::open(mount.dir.join("store"), all()).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    let error = Saver::open(mount.dir.join("other"), all()).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    assert_eq!(Store::open(mount.dir.join("store")).unwrap().newest().unwrap().version(), 1);
}

#[test]
fn a_directory_that_may_not_be_written_to_is_an_error_that_says_so() {
    // Where nobody may write, whoever they are.
    let error = Saver::open("/proc/checkpoints", all()).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. } | Error::System { .. }), "{error}");
    assert!(error.to_string().contains("/proc/checkpoints"), "{error}");
}

#[test]
fn what_goes_past_the_cache_is_what_the_snapshot_shows() {
    // Beside this program, which is on a disk where there is one.
    let program = std::env::current_exe().unwrap();
    let dir = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
    let regions = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut region = Region::options().dir(regions.path()).create("r").unwrap();
    // Whole pages; a last one that is none; chunks that end within pages; and memory that does not begin where a page does.
    let shapes: [(&str, Order, &[usize]); 4] = [
        ("pages", Order::C, &[1 << 18]),
        ("odd", Order::C, &[300_001]),
        ("rows", Order::C, &[90, 3001]),
        ("columns", Order::Fortran, &[3001, 90]),
    ];
    let arrays = shapes.map(|(name, order, shape)| {
        let kind = Kind::Managed { shape: shape.to_vec() };
        let id = region.declare(Declaration { order, ..Declaration::new(name, DType::Float(8), kind) }).unwrap();
        let (start, bytes) = region.managed_bytes(id).unwrap();
        // SAFETY: the region owns so many bytes there, and nobody else writes them now.
        let memory = unsafe { std::slice::from_raw_parts_mut(start, bytes) };
        memory.iter_mut().zip(0u64..).for_each(|(byte, at)| *byte = ((at * 0x9e37_79b9) >> 13) as u8);
        name
    });
    let array = region.array::<u64>("words", &[1 << 17]).unwrap();
    let tracked = region.track::<u64>("tracked").unwrap();
    let own: Vec<u64> = (0..200_003).collect();
    let observer = std::cell::OnceCell::new();
    // Less and more than is put together at once.
    let savers = [1 << 19, 3 << 19].map(|bytes| {
        Saver::open(dir.path().join(format!("store{bytes}")), SaveOptions::new().chunk_bytes(bytes)).unwrap()
    });
    for version in 1..4u64 {
        // Pages that change between versions are scattered over several planes.
        region.slice_mut(&array).iter_mut().step_by(7 * 512).for_each(|place| *place = version);
        region.publish(version).tracked(&tracked, &own[1..], &[own.len() - 1]).commit().unwrap();
        let observer = observer.get_or_init(|| Observer::options().dir(regions.path()).open("r").unwrap());
        let snapshot = observer.newest().unwrap();
        for saver in &savers {
            let saved = save(saver, &snapshot).unwrap();
            check_whole(&saved.path);
            let checkpoint = Checkpoint::open(&saved.path).unwrap();
            for name in arrays.iter().copied().chain(["words", "tracked"]) {
                let bytes = snapshot.variable(name).unwrap().bytes;
                let (mut expected, mut found) = (vec![0; bytes], vec![1; bytes]);
                snapshot.read(name, 0, &mut expected).unwrap();
                checkpoint.read(None, name, 0..bytes, &mut found).unwrap();
                assert!(found == expected, "{name} of version {version}");
            }
        }
    }
}
