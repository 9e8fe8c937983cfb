//! Who holds versions, told by the kernel's locks.
#![allow(unsafe_code)]

use crate::child::{in_child, reap};
use crate::common::{Dir, watchdog};
use std::ffi::CString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use stillframe::{Observer, Region, inspect};

/// A file system that only this process and its children see.
fn mount(path: &Path) {
    let text = |text: &str| CString::new(text).unwrap();
    let (none, tmpfs, target) = (text("none"), text("tmpfs"), text(path.to_str().unwrap()));
    let size = text("size=64m,mode=700");
    // SAFETY: all pointers are to strings that live through the call.
    let mounted = unsafe { libc::mount(none.as_ptr(), target.as_ptr(), tmpfs.as_ptr(), 0, size.as_ptr().cast()) };
    assert_eq!(mounted, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_hold_in_another_file_system_is_none_of_the_regions() {
    let _watchdog = watchdog(60);
    // SAFETY: the call has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root can mount file systems");
        return;
    }
    let dirs = [Dir::plain("one"), Dir::plain("other")];
    let child = in_child(|| {
        let (none, root) = (CString::new("none").unwrap(), CString::new("/").unwrap());
        // SAFETY: both pointers are to strings that live through the calls.
        unsafe {
            assert_eq!(libc::unshare(libc::CLONE_NEWNS), 0);
            let private = libc::MS_REC | libc::MS_PRIVATE;
            assert_eq!(libc::mount(none.as_ptr(), root.as_ptr(), std::ptr::null(), private, std::ptr::null()), 0);
        }
        let regions: Vec<Region> = dirs
            .iter()
            .map(|dir| {
                mount(dir.path());
                let mut region = Region::options().dir(dir.path()).create("r").unwrap();
                region.array::<f64>("u", &[10]).unwrap();
                region.publish(1).commit().unwrap();
                region
            })
            .collect();
        let inodes = dirs.each_ref().map(|dir| std::fs::metadata(dir.path().join("r/lease")).unwrap().ino());
        assert_eq!(inodes[0], inodes[1], "both file systems count their files in the same way");
        let held = Observer::options().dir(dirs[1].path()).open("r").unwrap().newest().unwrap();
        assert_eq!(inspect::holders(dirs[1].path(), "r").unwrap().len(), 1);
        assert_eq!(inspect::holders(dirs[0].path(), "r").unwrap(), []);
        drop((held, regions));
    });
    assert_eq!(reap(child), 0);
}
