use super::*;
use std::os::unix::fs::symlink;

fn place(name: &str) -> std::path::PathBuf {
    let path = std::path::PathBuf::from(format!("/dev/shm/stillframe-folder-{}-{name}", std::process::id()));
    std::fs::create_dir(&path).unwrap();
    path
}

#[test]
fn a_name_is_one_step() {
    let path = place("step");
    let folder = Folder::open(&path, false).unwrap();
    for name in ["", ".", "..", "a/b", "/etc", "a/"] {
        assert_eq!(folder.file(name, Access::Create(0o600)).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(folder.folder(name).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(folder.remove_all(name).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
    std::fs::remove_dir(&path).unwrap();
}

#[test]
fn a_file_that_is_opened_once_more_has_locks_of_its_own() {
    use crate::lock::{self, Kind};
    let path = place("reopen");
    let folder = Folder::open(&path, false).unwrap();
    let file = folder.file("file", Access::Create(0o600)).unwrap();
    folder.remove_file("file").unwrap();
    let (copy, again, read) = (file.try_clone().unwrap(), reopen(&file, true).unwrap(), reopen(&file, false).unwrap());
    assert_eq!(About::of(&again).unwrap().identity, About::of(&file).unwrap().identity);
    assert!(is_writable(&file).unwrap() && is_writable(&again).unwrap() && !is_writable(&read).unwrap());
    assert!(lock::try_lock(&file, Kind::Write, 0, 1).unwrap());
    assert!(!lock::is_held(&copy, Kind::Read, 0, 1).unwrap());
    assert!(lock::is_held(&again, Kind::Read, 0, 1).unwrap());
    assert!(!lock::try_lock(&again, Kind::Write, 0, 1).unwrap());
    assert_eq!(folder.file("file", Access::Write).unwrap_err().kind(), io::ErrorKind::NotFound);
    std::fs::remove_dir(&path).unwrap();
}

#[test]
fn what_is_removed_is_what_lies_in_the_directory() {
    let path = place("remove");
    std::fs::create_dir_all(path.join("a/b/c")).unwrap();
    std::fs::create_dir_all(path.join("other")).unwrap();
    for file in ["a/x", "a/b/y", "a/b/c/z", "other/kept"] {
        std::fs::write(path.join(file), file).unwrap();
    }
    symlink(path.join("other"), path.join("a/b/link")).unwrap();
    symlink(path.join("other"), path.join("alone")).unwrap();
    let folder = Folder::open(&path, false).unwrap();
    folder.remove_all("a").unwrap();
    folder.remove_all("alone").unwrap();
    assert_eq!(folder.remove_all("a").unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(folder.names().unwrap(), ["other"]);
    assert!(path.join("other/kept").exists());
    // The directory is itself, whatever has its name.
    let other = folder.folder("other").unwrap();
    folder.rename("other", &folder, "moved").unwrap();
    symlink("/", path.join("other")).unwrap();
    assert_eq!(other.names().unwrap(), ["kept"]);
    assert_eq!(other.about_name("kept").unwrap().bytes, 10);
    folder.remove_all("moved").unwrap();
    assert!(!other.has("kept"));
    std::fs::remove_dir_all(&path).unwrap();
}

/// Else whoever of the group came in the moment between would be refused, or the mode be what a umask left of it.
#[test]
fn a_file_that_is_made_has_its_mode_with_its_name() {
    const MODE: u32 = 0o666;
    let path = place("mode");
    let folder = Folder::open(&path, false).unwrap();
    let names: Vec<String> = (0..500).map(|round| round.to_string()).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for name in &names {
                let mode = loop {
                    match folder.about_name(name) {
                        Ok(about) => break about.mode & 0o777,
                        Err(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound),
                    }
                };
                assert_eq!(mode, MODE, "{name}");
            }
        });
        for name in &names {
            let file = folder.file(name, Access::CreateExact(MODE)).unwrap();
            let shown = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
            assert_eq!(shown, path.join(name), "whoever lists the mappings of a process finds it");
        }
    });
    assert_eq!(folder.names().unwrap().len(), names.len(), "nothing else is left");
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn of_many_who_make_a_file_all_have_the_same() {
    let path = place("makers");
    let folder = Folder::open(&path, false).unwrap();
    for round in 0..100 {
        let name = round.to_string();
        let make = || About::of(&folder.file(&name, Access::CreateExact(0o640)).unwrap()).unwrap().identity;
        let identities = std::thread::scope(|scope| {
            let makers = [(); 4].map(|()| scope.spawn(make));
            makers.map(|maker| maker.join().unwrap())
        });
        assert_eq!(identities, [folder.about_name(&name).unwrap().identity; 4]);
    }
    // And what is there keeps its mode, and its links lead nowhere.
    folder.file("0", Access::CreateExact(0o600)).unwrap();
    assert_eq!(folder.about_name("0").unwrap().mode & 0o777, 0o640);
    folder.link_to(Path::new("nowhere"), "link").unwrap();
    let refused = folder.file("link", Access::CreateExact(0o600)).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ELOOP));
    std::fs::remove_dir_all(path).unwrap();
}
