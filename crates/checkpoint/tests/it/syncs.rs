//! A file system that cannot be brought to disk as a whole, because somebody else's writes are lost again and again.
#![cfg(feature = "points")]

use std::io;
use stillframe::{Array, Observer, Region};
use stillframe_checkpoint::{Checkpoint, Error, SaveOptions, Saver};
use stillframe_kernel::disk::FileSystem;
use stillframe_kernel::witness::{Call, Witness, set_witness};

/// Lets each `syncfs` fail, and nothing else.
struct BadPlace;

impl Witness for BadPlace {
    fn before(&mut self, call: &Call) -> io::Result<()> {
        match call {
            Call::SyncFileSystem(_) => Err(io::Error::from_raw_os_error(libc::EIO)),
            _ => Ok(()),
        }
    }

    fn after(&mut self, _: &Call) {}

    fn file_system(&self) -> Option<FileSystem> {
        Some(FileSystem::Ext)
    }
}

#[test]
fn lost_writes_of_others_stop_one_save_and_none_after_it() {
    let dir = tempfile::Builder::new().prefix("syncs-").tempdir_in("/dev/shm").unwrap();
    let mut region = Region::options().dir(dir.path().join("regions")).create("r").unwrap();
    let array: Array<u64> = region.array("u", &[5000]).unwrap();
    let observer = Observer::options().dir(dir.path().join("regions")).open("r").unwrap();
    let saver = Saver::open(dir.path().join("store"), SaveOptions::new()).unwrap();
    set_witness(Some(Box::new(BadPlace)));
    let mut failed = Vec::new();
    for version in 1..=6 {
        region.slice_mut(&array)[version as usize] = version;
        region.publish(version).commit().unwrap();
        match saver.save(observer.newest().unwrap(), &|_| {}) {
            Err(Error::NotSynced { .. }) => failed.push(version),
            saved => assert!(Checkpoint::open(saved.unwrap().path).unwrap().verify(1, &|_| {}).unwrap().is_empty()),
        }
    }
    set_witness(None);
    assert_eq!(failed, [1]);
}
