//! A file system that has room for bytes and for no more files: the error says so, and there are regions again once files went.

#![allow(unsafe_code)]

use crate::common::{Dir, watchdog};
use crate::helper::{self, Play};
use std::ffi::CString;
use stillframe::{Error, Family, Region};

/// Mounts a file system of few files that only this process sees. `false` where it may not.
fn mount(path: &str) -> bool {
    let text = |text: &str| CString::new(text).unwrap();
    let (none, root, tmpfs, target) = (text("none"), text("/"), text("tmpfs"), text(path));
    let options = text("size=64m,nr_inodes=40,mode=700");
    // SAFETY: all pointers are to strings that live through the calls.
    unsafe {
        let private = libc::MS_REC | libc::MS_PRIVATE;
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(none.as_ptr(), root.as_ptr(), std::ptr::null(), private, std::ptr::null()) == 0
            && libc::mount(tmpfs.as_ptr(), target.as_ptr(), tmpfs.as_ptr(), 0, options.as_ptr().cast()) == 0
    }
}

fn no_inodes(arguments: &[String]) {
    if !mount(&arguments[0]) {
        helper::say("left out");
        return;
    }
    let options = || Region::options().dir(&arguments[0]);
    let mut plays: Vec<Play> = Vec::new();
    let error = loop {
        match Play::try_open(options(), &format!("r{}", plays.len())) {
            Ok(play) => plays.push(play),
            Err(error) => break error,
        }
    };
    assert!(!plays.is_empty());
    assert_eq!(error.family(), Family::Environment);
    let text = error.to_string();
    assert!(text.contains("no inode free") && text.contains("nr_inodes") && !text.contains("bytes free"), "{text}");
    assert!(matches!(error, Error::NoSpace { lacks_inodes: true, .. }), "{text}");
    plays.drain(..).for_each(|play| play.region.unlink().unwrap());
    let mut play = Play::try_open(options(), "again").unwrap();
    play.step();
    helper::say("went on");
}

#[test]
fn a_file_system_without_inodes_says_so() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("inodes");
    if helper::run("no_inodes", &[dir.path().to_str().unwrap()]) == ["left out"] {
        eprintln!("left out: only root can mount a small file system");
    }
}

#[test]
fn helper_process() {
    helper::enter(&[("no_inodes", no_inodes)]);
}
