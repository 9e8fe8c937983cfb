//! Regions of another user, whose files may be cut short while they are saved.

use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::chown;
use std::path::Path;
use stillframe::{Observer, Region, Snapshot};
use stillframe_checkpoint::{SaveOptions, Saver, Store};

const NOBODY: u32 = 65534;
const WORDS: usize = 1 << 20;

/// A region whose head says that it is another user's, and a snapshot of it; `None` if this user cannot make one.
fn foreign(dir: &Path) -> Option<(Region, Snapshot)> {
    let mut region = Region::options().dir(dir).create("r").unwrap();
    let array = region.array::<u64>("a", &[WORDS]).unwrap();
    region.slice_mut(&array).iter_mut().enumerate().for_each(|(index, word)| *word = index as u64);
    region.publish(1).commit().unwrap();
    // This user may be nobody.
    let own = std::fs::metadata(dir.join("r/head")).unwrap().uid();
    if own == NOBODY || chown(dir.join("r/head"), Some(NOBODY), None).is_err() {
        eprintln!("skipped: only root can give a file away");
        return None;
    }
    let snapshot = Observer::options().dir(dir).open("r").unwrap().newest().unwrap();
    assert!(snapshot.is_foreign());
    Some((region, snapshot))
}

#[test]
fn it_is_saved_as_ones_own_or_with_an_error_but_never_with_a_signal() {
    let dir = tempfile::Builder::new().prefix("foreign-").tempdir_in("/dev/shm").unwrap();
    let Some((_region, snapshot)) = foreign(dir.path()) else { return };
    let store = dir.path().join("store");
    let saver = Saver::open(&store, SaveOptions::default()).unwrap();
    saver.save(&snapshot, &|_| {}).unwrap();
    let mut out = vec![0u8; WORDS * 8];
    let checkpoint = Store::open(&store).unwrap().newest().unwrap();
    checkpoint.read(None, "a", 0..WORDS * 8, &mut out).unwrap();
    assert!(out.chunks_exact(8).enumerate().all(|(index, word)| word == (index as u64).to_le_bytes()));

    let plane = std::fs::File::options().write(true).open(dir.path().join("r/plane.0")).unwrap();
    plane.set_len(1 << 20).unwrap();
    let saver = Saver::open(dir.path().join("other"), SaveOptions::default()).unwrap();
    let error = saver.save(&snapshot, &|_| {}).err().unwrap();
    assert!(error.to_string().contains("plane.0"), "{error}");
}
