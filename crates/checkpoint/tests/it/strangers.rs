//! Stores and files in them that somebody else made, or could change: what is written, deleted and read stays in the store.

use crate::reading::{Place, Version, save, watchdog};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use stillframe::{Family, Region, Snapshot, Trust};
use stillframe_checkpoint::{
    Checkpoint, Checkpointer, Codec, Error, RestoreOptions, SaveOptions, Saved, Saver, Status, Store, is_safe,
    newest_safe,
};

const NOBODY: u32 = 65534;
const CONTENT: &[u8] = b"no business of the store's";

fn is_root() -> bool {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    // This user may be nobody.
    let own = fs::metadata(dir.path()).unwrap().uid();
    let is_root = own != NOBODY && chown(dir.path(), Some(NOBODY), None).is_ok();
    if !is_root {
        eprintln!("skipped: only root can make files of other users");
    }
    is_root
}

/// A region `r` with a version, an empty store, and a file beside both that is no business of theirs.
fn place(name: &str) -> (Place, PathBuf) {
    let place = Place::new(name);
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    Version::example(1).publish(place.options(), "r");
    let victim = place.path().join("victim");
    fs::write(&victim, CONTENT).unwrap();
    (place, victim)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Puts something into the place of what has a name: all lead to `to`, which need not be there.
fn put(kind: &str, path: &Path, to: &Path) {
    match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
    match kind {
        "link" => symlink(to, path).unwrap(),
        "pipe" => assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success()),
        "directory" => fs::create_dir(path).unwrap(),
        _ => fs::hard_link(to, path).unwrap(),
    }
}

fn open(store: &Path) -> Result<Saver, Error> {
    Saver::open(store, SaveOptions::new().chunk_bytes(4096).threads(2))
}

fn save_to(store: &Path, snapshot: &Snapshot) -> Result<Saved, Error> {
    open(store)?.save(snapshot.clone(), &|_| {})
}

/// Restores what is in a store or checkpoint, elsewhere.
fn restore(place: &Place, from: &Path) -> Result<u64, Error> {
    let options = Region::options().dir(place.path().join("restored"));
    RestoreOptions::new().restore_newest(from, &options, "r", &|_| {}).map(|restored| restored.version)
}

/// That an error says that something is not the user's own, and what.
fn check_refusal<T>(result: Result<T, Error>, words: &[&str]) {
    let Err(error) = result else { panic!("it was taken for one's own: {words:?}") };
    let text = error.to_string();
    assert_eq!((error.code(), error.family()), (120, Family::Environment), "{text}");
    words.iter().for_each(|word| assert!(text.contains(word), "'{word}' is not in: {text}"));
}

/// That a store has a good checkpoint of a version, with what was published.
fn check_stored(place: &Place, version: u64) {
    let checkpoint = Store::open(place.store()).unwrap().version(version).unwrap();
    checkpoint.check().unwrap();
    let expected = Version::of(&place.newest("r"));
    for known in expected.variables.iter().filter(|_| expected.number == version) {
        let mut bytes = vec![0; known.bytes.len()];
        checkpoint.read(None, &known.name, 0..bytes.len(), &mut bytes).unwrap();
        assert_eq!(bytes, known.bytes, "{}", known.name);
    }
}

#[test]
fn another_users_store_is_not_written_to_unless_that_is_meant() {
    let _watchdog = watchdog(300);
    if !is_root() {
        return;
    }
    let (place, _) = place("foreign");
    let store = place.store();
    let options = || SaveOptions::new().chunk_bytes(4096).threads(2);
    chown(&store, Some(NOBODY), Some(NOBODY)).unwrap();
    let words = [store.to_str().unwrap(), "belongs to user 65534, not to user 0", "STILLFRAME_TRUST=user:65534"];
    check_refusal(open(&store), &words);
    check_refusal(Checkpointer::options().dir(place.shm()).start("r", &store).map(drop), &words);
    assert_eq!(fs::read_dir(&store).unwrap().count(), 0);
    for trust in [Trust::User(NOBODY), Trust::Group(NOBODY), Trust::Any] {
        drop(Saver::open(&store, options().trust(trust)).unwrap());
    }
    check_refusal(Saver::open(&store, options().trust(Trust::User(1))), &words);
    // Its lock may be another user's alone.
    chown(&store, Some(0), Some(0)).unwrap();
    chown(store.join("lock"), Some(NOBODY), Some(NOBODY)).unwrap();
    let lock = store.join("lock");
    check_refusal(open(&store), &[lock.to_str().unwrap(), "belongs to user 65534, not to user 0"]);
    // A link in its place is followed if it is one's own.
    fs::remove_file(&lock).unwrap();
    let link = place.path().join("link");
    symlink(&store, &link).unwrap();
    drop(open(&link).unwrap());
    lchown(&link, Some(NOBODY), Some(NOBODY)).unwrap();
    check_refusal(open(&link), &[link.to_str().unwrap(), "belongs to user 65534"]);
}

#[test]
fn a_store_that_everybody_may_write_to_is_refused() {
    let _watchdog = watchdog(300);
    let (place, _) = place("writable");
    let store = place.store();
    let text = store.to_str().unwrap();
    for (mode, words) in [(0o777, ["everybody", "chmod go-w"]), (0o702, ["everybody", "chmod o-w"])] {
        set_mode(&store, mode);
        check_refusal(open(&store), &[&words[..], &[text, "make it sticky"]].concat());
    }
    // In a sticky directory nobody takes away what is another's. A group is one whose members work together.
    for mode in [0o1777, 0o775, 0o2770, 0o700] {
        set_mode(&store, mode);
        drop(open(&store).unwrap());
    }
    let lock = store.join("lock");
    set_mode(&lock, 0o666);
    check_refusal(open(&store), &[lock.to_str().unwrap(), "everybody", "0666"]);
    set_mode(&lock, 0o664);
    save_to(&store, &place.newest("r")).unwrap();
    // What is made is nobody's to write to whom the directory would be refused for.
    let mut found = vec![store.clone(), lock];
    found.extend(fs::read_dir(store.join("v000000000001.zarr")).unwrap().map(|entry| entry.unwrap().path()));
    for path in found {
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o002, 0, "{}", path.display());
    }
}

#[test]
fn a_lock_that_leads_elsewhere_is_refused() {
    let _watchdog = watchdog(300);
    for (kind, word) in
        [("link", "symbolic link"), ("pipe", "pipe"), ("directory", "directory"), ("second name", "2 names")]
    {
        let (place, victim) = place("lock");
        let lock = place.store().join("lock");
        put(kind, &lock, &victim);
        check_refusal(open(&place.store()), &[lock.to_str().unwrap(), word]);
        assert_eq!(fs::read(&victim).unwrap(), CONTENT, "{kind}");
    }
    let (place, _) = place("loose");
    put("link", &place.store().join("lock"), &place.path().join("nowhere"));
    check_refusal(open(&place.store()), &["symbolic link"]);
    assert!(!place.path().join("nowhere").exists());
}

#[test]
fn a_status_is_written_in_the_place_of_whatever_has_its_name_and_read_only_where_it_is() {
    let _watchdog = watchdog(300);
    for name in ["status.json", ".status.json.partial"] {
        for kind in ["link", "pipe", "second name", "directory"] {
            let (place, victim) = place("status");
            let (store, file) = (place.store(), place.store().join(name));
            put(kind, &file, &victim);
            if name == "status.json" {
                match kind {
                    "second name" => assert!(matches!(Status::read(&store), Err(Error::Damaged { .. }))),
                    "link" => check_refusal(Status::read(&store), &[file.to_str().unwrap(), "symbolic link"]),
                    _ => check_refusal(Status::read(&store), &[file.to_str().unwrap(), kind]),
                }
            }
            let options = Checkpointer::options().dir(place.shm()).once(true);
            let status = options.start("r", &store).unwrap().join().unwrap();
            assert_eq!(status.newest_safe, Some(1));
            if (name, kind) != ("status.json", "directory") {
                assert_eq!(Status::read(&store).unwrap().unwrap().newest_safe, Some(1), "{name}, {kind}");
            }
            assert_eq!(fs::read(&victim).unwrap(), CONTENT, "{name}, {kind}");
        }
    }
}

#[test]
fn a_checkpoint_that_is_a_link_is_no_checkpoint() {
    let _watchdog = watchdog(300);
    let (place, _) = place("step");
    let (store, elsewhere) = (place.store(), place.path().join("elsewhere"));
    let saved = save_to(&elsewhere, &place.newest("r")).unwrap().path;
    let manifest = fs::read(saved.join("manifest.json")).unwrap();
    fs::create_dir_all(&store).unwrap();
    let name = store.join("v000000000001.zarr");
    symlink(&saved, &name).unwrap();
    // Who names it himself may read it.
    Checkpoint::open(&name).unwrap();
    let opened = Store::open(&store).unwrap();
    assert_eq!(opened.version(1).unwrap_err().family(), Family::Corrupt);
    for result in [opened.version(1), opened.newest()] {
        let error = result.unwrap_err();
        assert!(error.to_string().contains("no directory"), "{error}");
    }
    assert!(!is_safe(&store, 1).unwrap());
    assert_eq!(newest_safe(&store).unwrap(), None);
    assert!(restore(&place, &store).is_err());
    // It makes room for one, as anything damaged, and what it led to stays.
    assert!(!save_to(&store, &place.newest("r")).unwrap().already);
    assert!(fs::symlink_metadata(&name).unwrap().is_dir());
    check_stored(&place, 1);
    assert_eq!(fs::read(saved.join("manifest.json")).unwrap(), manifest);
}

#[test]
fn what_writers_leave_is_taken_away_and_not_what_it_leads_to() {
    let _watchdog = watchdog(300);
    let leftovers = [".v000000000001.zarr.partial", ".v000000000007.zarr.removing", ".latest.zarr.new", "latest.zarr"];
    for kind in ["link", "pipe", "directory"] {
        let (place, victim) = place("left");
        let beside = place.path().join("beside");
        fs::create_dir(&beside).unwrap();
        fs::write(beside.join("kept"), CONTENT).unwrap();
        fs::create_dir_all(place.store()).unwrap();
        for name in leftovers {
            put(kind, &place.store().join(name), &beside);
        }
        // Also below one that is a directory.
        if kind == "directory" {
            symlink(&beside, place.store().join(leftovers[0]).join("u")).unwrap();
        }
        let saved = save_to(&place.store(), &place.newest("r")).unwrap();
        assert_eq!(saved.trouble, None);
        check_stored(&place, 1);
        if kind != "directory" {
            assert_eq!(fs::read_link(place.store().join("latest.zarr")).unwrap(), Path::new("v000000000001.zarr"));
        }
        assert_eq!(fs::read(beside.join("kept")).unwrap(), CONTENT);
        assert_eq!(fs::read(&victim).unwrap(), CONTENT);
    }
}

#[test]
fn no_file_of_a_checkpoint_is_read_elsewhere_and_none_is_shared_that_is() {
    let _watchdog = watchdog(300);
    for codec in [Codec::Plain, Codec::Lz4] {
        for (file, kind) in [
            ("u/c.0.0.0", "link"),
            ("u/c.0.0.0", "pipe"),
            ("u/c.0.0.0", "directory"),
            ("manifest.json", "link"),
            ("manifest.json", "pipe"),
            ("checksums.xxh128", "link"),
            ("checksums.xxh128", "pipe"),
            ("u", "link"),
        ] {
            let (place, _) = place("file");
            let first = save(&place.store(), place.newest("r"), 4096, codec);
            let path = first.join(file);
            assert!(path.exists(), "{}", path.display());
            // What a link leads to is just what was there.
            let moved = place.path().join("moved");
            fs::rename(&path, &moved).unwrap();
            let saver = Saver::open(place.store(), SaveOptions::new().chunk_bytes(4096).codec(codec).threads(2));
            if kind == "link" {
                symlink(&moved, &path).unwrap();
            } else {
                put(kind, &path, &moved);
            }
            let what = format!("{file}, {kind}, {codec:?}");
            let error = Store::open(place.store()).unwrap().newest().unwrap_err();
            assert!(error.to_string().contains("damaged"), "{what}: {error}");
            assert!(restore(&place, &place.store()).is_err(), "{what}");
            assert!(restore(&place, &first).is_err(), "{what}");
            // The next version has the same content: its files are those of the first, but for what is none.
            Version { number: 2, ..Version::of(&place.newest("r")) }.publish(place.options(), "r");
            saver.unwrap().save(place.newest("r"), &|_| {}).unwrap();
            check_stored(&place, 2);
            let second = place.store().join("v000000000002.zarr").join(file);
            let about = fs::symlink_metadata(&second).unwrap();
            assert!(!about.file_type().is_symlink(), "{what}");
        }
    }
}

#[test]
fn a_directory_for_what_an_earlier_run_left_is_one_of_the_store() {
    let _watchdog = watchdog(300);
    let (place, _) = place("earlier");
    let beside = place.path().join("beside");
    fs::create_dir(&beside).unwrap();
    Version::example(5).publish(place.options(), "r");
    save_to(&place.store(), &place.newest("r")).unwrap();
    stillframe::inspect::remove(&place.shm(), "r", true).unwrap();
    Version::example(5).publish(place.options(), "r");
    symlink(&beside, place.store().join("earlier-5")).unwrap();
    let error = save_to(&place.store(), &place.newest("r")).unwrap_err();
    assert!(error.to_string().contains("earlier-5"), "{error}");
    assert_eq!(fs::read_dir(&beside).unwrap().count(), 0);
    // The checkpoint that was to give way is still there.
    Store::open(place.store()).unwrap().version(5).unwrap().check().unwrap();
    fs::remove_file(place.store().join("earlier-5")).unwrap();
    assert!(save_to(&place.store(), &place.newest("r")).unwrap().set_aside.is_some());
}

#[test]
fn chunks_of_another_user_are_read_and_not_shared() {
    let _watchdog = watchdog(300);
    if !is_root() {
        return;
    }
    let (place, _) = place("chunks");
    let first = save_to(&place.store(), &place.newest("r")).unwrap().path;
    let chunk = first.join("u/c.0.0.0");
    chown(&chunk, Some(NOBODY), Some(NOBODY)).unwrap();
    Version { number: 2, ..Version::of(&place.newest("r")) }.publish(place.options(), "r");
    let saved = save_to(&place.store(), &place.newest("r")).unwrap();
    assert!(saved.linked_bytes > 0);
    assert_eq!(fs::metadata(saved.path.join("u/c.0.0.0")).unwrap().uid(), 0);
    // Somebody else's store is read as one's own.
    for path in [&place.store(), &first, &first.join("manifest.json")] {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    check_stored(&place, 1);
    check_stored(&place, 2);
    assert_eq!(newest_safe(place.store()).unwrap(), Some(2));
    assert_eq!(restore(&place, &place.store()).unwrap(), 2);
}
