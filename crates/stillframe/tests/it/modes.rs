//! The mode of what is made is the one that was asked for, whatever the process's umask is.

#![allow(unsafe_code)]

use crate::common::{Dir, watchdog};
use crate::helper::{self, say};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use stillframe::{Arena, Observer, Region, RegionOptions, Snapshot};

/// Publishes in a region of these options and holds a version, and returns what keeps its files there.
fn open(options: RegionOptions, dir: &Path, name: &str) -> (Region, Snapshot) {
    let mut region = options.dir(dir).create(name).unwrap();
    region.array::<f64>("u", &[5000]).unwrap();
    region.publish(1).commit().unwrap();
    let held = Observer::options().dir(dir).open(region.name()).unwrap().newest().unwrap();
    (region, held)
}

/// Checks all that lies in a directory, and returns how many files that are.
fn check(dir: &Path, mode: u32) -> usize {
    let mut files = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let found = path.symlink_metadata().unwrap();
        let readers = match path.file_name().unwrap().to_str().unwrap() {
            // Only who may make regions in an arena opens this file.
            "lease.producer" => mode & 0o222 | (mode & 0o222) << 1,
            _ => mode & 0o666,
        };
        let wanted = if found.is_dir() { mode } else { readers };
        assert_eq!(found.mode() & 0o7777, wanted, "{} with mode {mode:#o}", path.display());
        files += if found.is_dir() { check(&path, mode) } else { 1 };
    }
    files
}

fn masked(arguments: &[String]) {
    let [dir, umask, mode] = arguments else { panic!("{arguments:?}") };
    let octal = |text: &str| u32::from_str_radix(text, 8).unwrap();
    let mode = octal(mode);
    // SAFETY: the call touches no memory.
    unsafe { libc::umask(octal(umask)) };
    let dir = Path::new(dir).join("made/here");
    let options = || Region::options().mode(mode);
    let _alone = open(options(), &dir, "a/b/alone");
    let arena = Arena::options().dir(&dir).bytes(32 << 20).mode(mode).create("arena").unwrap();
    let _in_arena = open(options().arena(&arena), &dir, "region");
    say(&format!("{}", check(dir.parent().unwrap().parent().unwrap(), mode)));
}

#[test]
fn files_and_directories_have_the_mode_that_was_asked_for() {
    let _watchdog = watchdog(300);
    for umask in ["077", "000", "027"] {
        for mode in ["700", "755", "770"] {
            let dir = Dir::new("modes");
            let said = helper::run("masked", &[dir.path().to_str().unwrap(), umask, mode]);
            assert!(said[0].parse::<usize>().unwrap() > 12, "{said:?}");
        }
    }
}

#[test]
fn helper_process() {
    helper::enter(&[("masked", masked)]);
}
