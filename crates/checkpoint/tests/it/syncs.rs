//! A file system that cannot be brought to disk as a whole: somebody else's writes are lost again and again, or the call is refused.
#![cfg(feature = "points")]

use crate::refuse::refuse;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use stillframe::{Array, Observer, Region};
use stillframe_checkpoint::{Checkpoint, Error, SaveOptions, Saver};
use stillframe_kernel::disk::FileSystem;
use stillframe_kernel::folder::Folder;
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

/// What is not on disk yet of all that was written, by its inode.
#[derive(Default)]
struct Unsynced {
    files: BTreeSet<u64>,
    folders: BTreeSet<u64>,
    /// What happened of what the order is about.
    steps: Vec<&'static str>,
}

struct Order(Rc<RefCell<Unsynced>>);

fn inode(file: &File) -> u64 {
    file.metadata().unwrap().ino()
}

fn folder_inode(folder: &Folder) -> u64 {
    folder.about().unwrap().identity.1
}

impl Witness for Order {
    fn before(&mut self, call: &Call) -> io::Result<()> {
        let mut unsynced = self.0.borrow_mut();
        match call {
            Call::Create(_, name) if *name == "manifest.json" => {
                assert!(unsynced.files.is_empty(), "the manifest comes before data is on disk");
                unsynced.steps.push("manifest");
            }
            Call::Rename((store, name), _) if name.to_str().unwrap().ends_with(".partial") => {
                unsynced.folders.remove(&folder_inode(store));
                assert!(
                    unsynced.files.is_empty() && unsynced.folders.is_empty(),
                    "the name comes before what it names"
                );
                unsynced.steps.push("name");
                unsynced.folders.insert(folder_inode(store));
            }
            Call::SyncFileSystem(_) => unsynced.steps.push("syncfs"),
            _ => {}
        }
        Ok(())
    }

    fn after(&mut self, call: &Call) {
        let mut unsynced = self.0.borrow_mut();
        match call {
            Call::MakeFolder(folder, name) => {
                let made = folder.about_name(name).unwrap().identity.1;
                unsynced.folders.extend([folder_inode(folder), made]);
            }
            Call::Create(folder, name) => {
                unsynced.files.insert(folder.about_name(name).unwrap().identity.1);
                unsynced.folders.insert(folder_inode(folder));
            }
            Call::Write(file) => {
                unsynced.files.insert(inode(file));
            }
            Call::Sync(file) => {
                unsynced.files.remove(&inode(file));
                if unsynced.folders.remove(&inode(file)) && unsynced.steps.last() == Some(&"name") {
                    unsynced.steps.push("directory");
                }
            }
            _ => {}
        }
    }

    fn file_system(&self) -> Option<FileSystem> {
        Some(FileSystem::Ext)
    }
}

#[test]
fn where_syncing_file_systems_is_refused_each_file_and_directory_is_brought_to_disk_before_the_name() {
    for errno in [libc::ENOSYS, libc::EPERM] {
        // A filter is of a thread, for good.
        std::thread::spawn(move || {
            let dir = tempfile::Builder::new().prefix("syncs-").tempdir_in("/dev/shm").unwrap();
            let mut region = Region::options().dir(dir.path().join("regions")).create("r").unwrap();
            let array: Array<u64> = region.array("u", &[5000]).unwrap();
            region.slice_mut(&array)[7] = 1;
            region.publish(1).commit().unwrap();
            let observer = Observer::options().dir(dir.path().join("regions")).open("r").unwrap();
            if !refuse(libc::SYS_syncfs, None, errno) {
                eprintln!("left out: this kernel has no filters of system calls");
                return;
            }
            let saver = Saver::open(dir.path().join("store"), SaveOptions::new()).unwrap();
            let unsynced = Rc::new(RefCell::new(Unsynced::default()));
            set_witness(Some(Box::new(Order(unsynced.clone()))));
            let saved = saver.save(observer.newest().unwrap(), &|_| {});
            set_witness(None);
            let path = saved.unwrap_or_else(|error| panic!("errno {errno}: {error}")).path;
            assert!(Checkpoint::open(path).unwrap().verify(1, &|_| {}).unwrap().is_empty());
            assert_eq!(unsynced.borrow().steps, ["manifest", "name", "directory"]);
        })
        .join()
        .unwrap();
    }
}
