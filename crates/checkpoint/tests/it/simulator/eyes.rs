//! Who sees what the library does to the store, and lets calls fail.

use super::disk::{Disk, Naming};
use crate::reading::Numbers;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::rc::Rc;
use stillframe_kernel::disk::FileSystem;
use stillframe_kernel::folder::Folder;
use stillframe_kernel::points::{Fate, fails, set_fate};
use stillframe_kernel::witness::{Call, Witness};

/// What kind of file system the store is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It is synced as a whole, and exchanges names.
    Local,
    /// Its files are synced one by one.
    Plain,
    /// As that, and names cannot be exchanged.
    Simple,
    /// As that, and names are on disk as soon as they are given.
    Nfs,
}

pub const KINDS: [Kind; 4] = [Kind::Local, Kind::Plain, Kind::Simple, Kind::Nfs];

/// What the witness shares with the run.
pub struct Scene {
    pub kind: Kind,
    pub disk: Disk,
    pub numbers: Numbers,
    /// Where files go that are removed, by their inodes: they may be there still after a crash.
    pub attic: PathBuf,
    /// Whose the checkpoint is that is written.
    pub owner: usize,
    /// Calls that failed since somebody looked.
    pub failures: u64,
    /// What was called, if somebody wants to know.
    pub log: Option<Vec<String>>,
}

pub struct Eyes(pub Rc<RefCell<Scene>>);

fn of(folder: &Folder) -> u64 {
    folder.about().unwrap().identity.1
}

fn text(name: &OsStr) -> &str {
    name.to_str().unwrap()
}

fn errno(call: &Call) -> i32 {
    match call {
        Call::Write(_) | Call::Create(..) | Call::MakeFolder(..) | Call::HardLink(..) | Call::LinkTo(..) => {
            libc::ENOSPC
        }
        _ => libc::EIO,
    }
}

impl Witness for Eyes {
    fn before(&mut self, call: &Call) -> io::Result<()> {
        let mut scene = self.0.borrow_mut();
        if matches!(call, Call::Exchange(..)) && matches!(scene.kind, Kind::Simple | Kind::Nfs) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // It is a hint, and says of no error.
        let fate = if matches!(call, Call::DropCached(_)) { None } else { fails(errno(call)) };
        if let Some(error) = fate {
            scene.fail(call);
            return Err(error);
        }
        if let Call::RemoveFile(folder, name) = call
            && let Some(inode) = scene.disk.find(of(folder), text(name))
            && scene.disk.is_file(inode)
        {
            let attic = Folder::open(&scene.attic, false).unwrap();
            // It may be there, by another of its names.
            let _ = folder.hard_link(name, &attic, inode.to_string());
        }
        Ok(())
    }

    fn after(&mut self, call: &Call) {
        self.0.borrow_mut().take_note(call);
    }

    fn file_system(&self) -> Option<FileSystem> {
        match self.0.borrow().kind {
            Kind::Local => Some(FileSystem::Tmpfs),
            _ => Some(FileSystem::Other(0)),
        }
    }
}

impl Scene {
    fn fail(&mut self, call: &Call) {
        self.failures += 1;
        self.say(call, "FAILS ");
        match call {
            Call::Sync(file) => self.disk.fail_sync(Some(inode(file)), &mut self.numbers),
            Call::SyncFileSystem(_) => self.disk.fail_sync(None, &mut self.numbers),
            _ => {}
        }
        // One rarely comes alone, and some die of it.
        let after = self.numbers.below(8) as u64;
        set_fate(match self.numbers.below(6) {
            0 | 1 => Some((Fate::Fails, after / 2)),
            2 => Some((Fate::Dies, after)),
            _ => None,
        });
    }

    fn say(&mut self, call: &Call, how: &str) {
        let Some(log) = &mut self.log else { return };
        let name = |folder: &Folder, name: &OsStr| format!("{}/{}", of(folder), text(name));
        log.push(format!(
            "    {how}{}",
            match call {
                Call::MakeFolder(folder, own) => format!("mkdir {}", name(folder, own)),
                Call::Create(folder, own) => format!("create {}", name(folder, own)),
                Call::LinkTo(folder, own) => format!("symlink {}", name(folder, own)),
                Call::Write(file) => format!("write {}", inode(file)),
                Call::HardLink(from, to) => format!("link {} {}", name(from.0, from.1), name(to.0, to.1)),
                Call::Rename(from, to) => format!("rename {} {}", name(from.0, from.1), name(to.0, to.1)),
                Call::Exchange(from, to) => format!("exchange {} {}", name(from.0, from.1), name(to.0, to.1)),
                Call::RemoveFile(folder, own) => format!("unlink {}", name(folder, own)),
                Call::RemoveFolder(folder, own) => format!("rmdir {}", name(folder, own)),
                Call::Sync(file) => format!("fsync {}", inode(file)),
                Call::SyncFileSystem(_) => "syncfs".into(),
                Call::DropCached(file) => format!("fadvise {}", inode(file)),
            }
        ));
    }

    fn take_note(&mut self, call: &Call) {
        self.say(call, "");
        let made = |folder: &Folder, name: &OsStr| folder.about_name(name).unwrap().identity.1;
        let disk = &mut self.disk;
        let known = |disk: &Disk, (folder, name): (&Folder, &OsStr)| disk.find(of(folder), text(name));
        let named = |(folder, name): (&Folder, &OsStr), inode| -> Naming { (of(folder), text(name).into(), inode) };
        match *call {
            Call::MakeFolder(folder, name) => {
                disk.make_folder(of(folder), text(name), made(folder, name));
                if text(name).ends_with(".partial") {
                    disk.own(made(folder, name), self.owner);
                }
            }
            // What leads nowhere for good is no part of what is looked at: locks and symbolic links.
            Call::Create(folder, name) if name != "lock" && known(disk, (folder, name)).is_none() => {
                disk.make_file(of(folder), text(name), made(folder, name));
            }
            Call::Create(..) | Call::LinkTo(..) => {}
            Call::Write(file) => disk.write(inode(file)),
            Call::HardLink(from, to) => {
                let inode = known(disk, from);
                disk.change(vec![named(to, inode)]);
            }
            Call::Rename(from, to) => {
                if let Some(inode) = known(disk, from) {
                    disk.change(vec![named(from, None), named(to, Some(inode))]);
                }
            }
            Call::Exchange(from, to) => {
                let (inode, other) = (known(disk, from), known(disk, to));
                disk.change(vec![named(from, other), named(to, inode)]);
            }
            Call::RemoveFile(folder, name) | Call::RemoveFolder(folder, name) => {
                if known(disk, (folder, name)).is_some() {
                    disk.change(vec![named((folder, name), None)]);
                }
            }
            Call::Sync(file) => disk.sync(inode(file)),
            // Elsewhere nobody knows what it does.
            Call::SyncFileSystem(_) if self.kind == Kind::Local => disk.sync_all(),
            Call::SyncFileSystem(_) => {}
            Call::DropCached(file) => disk.forget(file),
        }
    }
}

fn inode(file: &File) -> u64 {
    file.metadata().unwrap().ino()
}
