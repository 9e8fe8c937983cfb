//! `still pages`, as a person and a program call it. Pools take root and large pages that can be gathered; elsewhere it is said why not.

use crate::support::{self, Scene, beside_pools, until};
use serde_json::Value;
use std::process::{Command, Stdio};

/// A pool that is given back whatever becomes of the test.
struct Pool<'s>(&'s Scene, String);

impl Drop for Pool<'_> {
    fn drop(&mut self) {
        self.0.still(&["pages", "give-back", "--force", &self.1]);
    }
}

/// Who is not root makes pools of another kind.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: not root");
    }
    is_root
}

/// Says why a test does nothing, if what a reservation complained of is that this machine cannot have it.
fn is_skipped(complaint: &str) -> bool {
    let is_known = ["only root", "no pages of 2M", "could be gathered"].iter().any(|why| complaint.contains(why));
    if is_known {
        eprintln!("skipped: {complaint}");
    }
    is_known
}

fn listed(scene: &Scene) -> Value {
    let told = scene.still(&["pages", "--json"]);
    assert_eq!(told.code, 0, "{}", told.err);
    serde_json::from_str(&told.out).unwrap()
}

#[test]
fn pools_and_pages_are_shown_to_everybody() {
    let scene = Scene::new();
    let all = listed(&scene);
    assert!(all["pools"].is_array());
    for supply in all["supply"].as_array().unwrap() {
        assert!(supply["page"] == "2M" || supply["page"] == "1G", "{supply}");
        assert!(supply["total"].as_u64() >= supply["free"].as_u64(), "{supply}");
    }
    let text = scene.still(&["pages"]).out;
    assert!(text.contains("RESERVED"), "{text}");
}

#[test]
fn a_pool_is_made_shown_and_given_back() {
    if !is_root() {
        return;
    }
    let _beside = beside_pools();
    let scene = Scene::new();
    let name = format!("test-still-{}", std::process::id());
    let made = scene.still(&["pages", "reserve", "7M", "--name", &name]);
    if made.code != 0 {
        assert!(is_skipped(&made.err), "{}", made.err);
        return;
    }
    let pool = Pool(&scene, name.clone());
    assert!(made.out.contains("8.0 MiB, 4 pages of 2M"), "{}", made.out);
    let all = listed(&scene);
    let own = all["pools"].as_array().unwrap().iter().find(|pool| pool["name"] == name.as_str()).unwrap().clone();
    assert_eq!((own["bytes"].as_u64(), own["free_bytes"].as_u64()), (Some(8 << 20), Some(8 << 20)), "{own}");
    assert_eq!(own["holders"], Value::Array(Vec::new()));
    assert!(scene.still(&["pages"]).out.contains(&name));
    let again = scene.still(&["pages", "reserve", "2M", "--name", &name]);
    assert!(again.code == 1 && again.err.contains("already"), "{}", again.err);
    let file = format!("/run/stillframe/pages/{name}/result");
    std::fs::write(&file, []).unwrap();
    let told = scene.complaint(1, &["pages", "give-back", &name]);
    assert!(told.contains("lie result: remove") && told.contains("--force"), "{told}");
    std::fs::remove_file(file).unwrap();
    let given = scene.still(&["pages", "give-back", &name]);
    assert!(given.code == 0 && given.out.contains("the kernel's again"), "{}", given.err);
    std::mem::forget(pool);
    let gone = scene.still(&["pages", "give-back", &name]);
    assert!(gone.code == 1 && gone.err.contains("there is no pool"), "{}", gone.err);
}

#[test]
fn who_asks_for_a_report_is_told_at_the_start_which_programs_give_none() {
    if !is_root() {
        return;
    }
    let _beside = beside_pools();
    let scene = Scene::new();
    let name = format!("test-report-{}", std::process::id());
    let made = scene.still(&["pages", "reserve", "2M", "--name", &name]);
    if made.code != 0 {
        assert!(is_skipped(&made.err), "{}", made.err);
        return;
    }
    let _pool = Pool(&scene, name.clone());
    for (report, is_told) in [(&["--report"][..], true), (&[], false)] {
        let pages = format!("--pages={name}");
        let run = [&["run", &pages], report, &["--", "sh", "-c", "echo begun >&2; exit 3"]].concat();
        let told = scene.still(&run);
        assert_eq!(told.code, 3, "{}", told.err);
        let before = told.err.split("begun").next().unwrap();
        assert_eq!(before.contains("abort") && before.contains("gives none"), is_told, "{}", told.err);
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let scene = Scene::new();
    for wrong in [&["pages", "reserve", "0"][..], &["pages", "reserve", "1M", "--page", "3M"], &["pages", "reserve"]] {
        assert_eq!(scene.still(wrong).code, 2, "{wrong:?}");
    }
    let told = scene.still(&["pages", "reserve", "2M", "--name", "../x"]);
    assert!(told.code == 1 && told.err.contains("no name of a pool"), "{}", told.err);
}

#[test]
fn a_reservation_that_is_ended_by_a_signal_says_that_nothing_changed() {
    let scene = Scene::new();
    let name = format!("test-signal-{}", std::process::id());
    if !is_root() {
        return;
    }
    // As long as the test has this, the reservation waits. The first one ever would make it.
    let place = std::path::Path::new("/run/stillframe/pages");
    std::fs::create_dir_all(place).unwrap();
    let lock = std::fs::File::options().create(true).truncate(false).write(true).open(place.join(".lock")).unwrap();
    lock.lock().unwrap();
    let mut command = scene.command(&["pages", "reserve", "2M", "--name", &name]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A signal that comes before it is awaited ends it as any program.
    let status = format!("/proc/{}/status", child.id());
    let is_awaited = || {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 << 14 != 0)
    };
    let mut has_ended = false;
    until("the reservation to wait", || {
        has_ended = child.try_wait().unwrap().is_some();
        has_ended || is_awaited()
    });
    if !has_ended {
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    }
    let told = support::wait(child);
    drop(lock);
    let err = String::from_utf8_lossy(&told.stderr);
    if is_skipped(&err) {
        return;
    }
    assert_eq!(
        (told.status.code(), err.contains("was interrupted; everything is as it was")),
        (Some(1), true),
        "{err}"
    );
    assert!(!scene.still(&["pages"]).out.contains(&name));
}

/// A command with units in a folder of its own, and a umask that keeps nothing from anybody.
fn with_units(scene: &Scene, args: &[&str]) -> (Option<i32>, String) {
    let own = scene.command(args);
    let mut command = Command::new("sh");
    command.args(["-c", "umask 0; exec \"$0\" \"$@\""]).arg(own.get_program()).args(own.get_args());
    command.env("STILLFRAME_DIR", scene.dir()).current_dir("/").stdin(Stdio::null());
    command.env("STILLFRAME_UNITS", scene.file("units")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let told = support::wait(command.spawn().unwrap());
    (told.status.code(), String::from_utf8_lossy(&[told.stdout, told.stderr].concat()).into_owned())
}

#[test]
fn a_pool_that_persists_has_a_unit_that_makes_the_same_again() {
    if !is_root() {
        return;
    }
    let _beside = beside_pools();
    let scene = Scene::new();
    let name = format!("test-unit-{}", std::process::id());
    let wanted = ["pages", "reserve", "3M", "--name", &name, "--group", "7", "--no-fill", "--persist"];
    let (code, text) = with_units(&scene, &wanted);
    if code != Some(0) {
        assert!(is_skipped(&text), "{text}");
        assert!(!scene.file("units").exists(), "nothing was reserved, and nothing persists");
        return;
    }
    let pool = Pool(&scene, name.clone());
    let path = scene.file("units").join(format!("stillframe-pages-{name}.service"));
    assert!(text.contains(&format!("after each restart by {}", path.display())), "{text}");
    let unit = std::fs::read_to_string(&path).unwrap();
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    verify(&path);
    use std::os::unix::fs::MetadataExt;
    let wants = scene.file("units").join("sysinit.target.wants");
    for (path, mode) in [(path.as_path(), 0o644), (&scene.file("units"), 0o755), (&wants, 0o755)] {
        assert_eq!(std::fs::metadata(path).unwrap().mode() & 0o7777, mode, "{}: root runs it", path.display());
    }
    // As after a restart: the pool is not there, and the unit's command makes it.
    scene.ok(&["pages", "give-back", &name]);
    assert!(path.exists(), "the units of the machine are others");
    let words: Vec<&str> = line.split(' ').collect();
    let made = Command::new(words[0]).args(&words[1..]).output().unwrap();
    if !made.status.success() {
        // Somebody else may have taken the pages meanwhile.
        let complaint = String::from_utf8_lossy(&made.stderr);
        assert!(is_skipped(&complaint), "{complaint}");
        return;
    }
    let folder = std::fs::metadata(format!("/run/stillframe/pages/{name}")).unwrap();
    assert_eq!((folder.gid(), folder.mode() & 0o7777), (7, 0o770));
    let own = listed(&scene)["pools"].as_array().unwrap().iter().find(|pool| pool["name"] == name.as_str()).cloned();
    assert_eq!(own.unwrap()["bytes"].as_u64(), Some(4 << 20));
    // A unit may be started again, and a pool that is there can be made to persist; another is no such pool.
    let again = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    let (code, text) = with_units(&scene, &[&wanted[..], &["--if-missing"]].concat());
    assert!(code == Some(0) && text.contains("was there already"), "{text}");
    let other = ["pages", "reserve", "5M", "--name", &name, "--group", "7", "--if-missing"];
    assert!(scene.complaint(1, &other).contains("already"));
    // What cannot be written takes neither the pool away that was there nor its unit.
    std::fs::create_dir(path.with_extension("new")).unwrap();
    let (code, text) = with_units(&scene, &[&wanted[..], &["--if-missing"]].concat());
    assert!(code == Some(1) && path.exists() && scene.ok(&["pages"]).contains(&name), "{text}");
    std::fs::remove_dir(path.with_extension("new")).unwrap();
    let (code, text) = with_units(&scene, &["pages", "give-back", &name]);
    assert!(code == Some(0) && text.contains("not made any more"), "{text}");
    assert!(!path.exists());
    std::mem::forget(pool);
    // A unit whose pool could not be made goes, too.
    std::fs::write(&path, unit).unwrap();
    let (code, text) = with_units(&scene, &["pages", "give-back", &name]);
    assert!(code == Some(0) && text.contains("there was no pool") && !path.exists(), "{text}");
}

/// Has systemd's own program look at a unit, where it is installed.
fn verify(unit: &std::path::Path) {
    match Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(unit).output() {
        Err(error) => eprintln!("not verified: systemd-analyze: {error}"),
        Ok(told) => {
            let err = String::from_utf8_lossy(&told.stderr).into_owned();
            let about: Vec<&str> = err.lines().filter(|line| line.contains("stillframe-pages-")).collect();
            assert!(about.is_empty(), "{err}");
        }
    }
}

#[test]
fn without_systemd_nothing_is_reserved_that_is_to_persist() {
    if !is_root() || std::path::Path::new("/run/systemd/system").exists() {
        eprintln!("skipped: systemd runs this machine, or not root");
        return;
    }
    let scene = Scene::new();
    let name = format!("test-without-{}", std::process::id());
    let line = scene.complaint(1, &["pages", "reserve", "2M", "--name", &name, "--persist"]);
    assert!(line.contains("pages reserve 2097152") && line.contains("/etc/rc.local"), "{line}");
    assert!(!scene.still(&["pages"]).out.contains(&name));
}

/// Pools of ordinary large pages of a directory.
fn ordinary(scene: &Scene) -> Vec<Value> {
    listed(scene)["ordinary"].as_array().unwrap().clone()
}

#[test]
fn a_pool_without_root_has_its_memory_at_once_and_is_for_regions() {
    use std::os::unix::fs::MetadataExt;
    let scene = Scene::new();
    let made = scene.ok(&["pages", "reserve", "64M", "--ordinary", "--name", "own"]);
    let known = ["in large pages", "of it in large pages, the rest in small ones", "none of it in large pages"];
    assert!(known.iter().any(|text| made.contains(text)) && made.contains("64.0 MiB"), "{made}");
    let arena = scene.dir().join("own/arena");
    let allocated = || std::fs::metadata(&arena).unwrap().blocks() * 512;
    assert_eq!(allocated(), 64 << 20);
    let own = &ordinary(&scene)[0];
    assert_eq!((own["name"].as_str(), own["bytes"].as_u64()), (Some("own"), Some(64 << 20)));
    let mut region = stillframe::Region::options().dir(scene.dir()).create("own/u").unwrap();
    let u = region.array::<f64>("u", &[1 << 20]).unwrap();
    region.slice_mut(&u).fill(1.5);
    region.publish(1).commit().unwrap();
    let own = &ordinary(&scene)[0];
    assert_eq!(own["regions"][0]["name"], "u");
    assert!(own["regions"][0]["bytes"].as_u64() >= Some(8 << 20), "{own}");
    assert!(scene.ok(&["pages"]).contains("ORDINARY POOL"));
    assert!(scene.complaint(1, &["pages", "give-back", "own"]).contains("own/u"), "a producer lives");
    let told = scene.complaint(1, &["run", "--pages=own", "--", "true"]);
    assert!(told.contains("for regions and arenas"), "{told}");
    assert!(scene.complaint(1, &["pages", "reserve", "4M", "--ordinary", "--name", "own"]).contains("already"));
    drop(region);
    let told = scene.complaint(1, &["pages", "give-back", "own"]);
    assert!(told.contains("own/u") && told.contains("--force"), "{told}");
    scene.ok(&["rm", "own/u"]);
    assert_eq!(allocated(), 64 << 20, "what a region gives back stays the pool's");
    assert!(scene.ok(&["pages", "give-back", "own"]).contains("the kernel's again"));
    assert_eq!(ordinary(&scene), Vec::<Value>::new());
    assert!(!scene.dir().join("own").exists());
}

#[test]
fn who_is_not_root_makes_pools_of_ordinary_large_pages() {
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    if !is_root() {
        return;
    }
    let _beside = beside_pools();
    let scene = Scene::new();
    std::fs::create_dir(scene.dir()).unwrap();
    chown(scene.dir(), Some(NOBODY), Some(NOBODY)).unwrap();
    let folder = scene.dir().parent().unwrap().to_path_buf();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    // Where tests are built others may not go. It is copied by a process of its own: what this one has open for writing a child of another
    // test has, too, until it is a program.
    let program = scene.file("still");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_still")).arg(&program).status().unwrap();
    assert!(copied.success());
    let still = |args: &[&str]| {
        let mut command = Command::new(&program);
        command
            .args(args)
            .env("STILLFRAME_DIR", scene.dir())
            .env("STILLFRAME_UNITS", scene.file("units"))
            .uid(NOBODY)
            .gid(NOBODY)
            .current_dir("/");
        let told = support::wait(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        (told.status.code(), String::from_utf8_lossy(&[told.stdout, told.stderr].concat()).into_owned())
    };
    let (code, text) = still(&["pages", "reserve", "32M"]);
    assert!(code == Some(0) && text.contains("pool 'default' has 32.0 MiB"), "{text}");
    let (code, text) = still(&["pages", "reserve", "32M", "--name", "b", "--persist"]);
    assert!(code == Some(2) && text.contains("only root can make"), "{text}");
    let (code, text) = still(&["pages", "reserve", "8T", "--name", "c"]);
    assert!(code == Some(1) && text.contains("bytes free and this needs"), "{text}");
    assert!(!scene.dir().join("c").exists());
    assert_eq!(ordinary(&scene).len(), 1);
    // Neither a pool of root's with its name nor one that is only to be made again is in its way.
    let name = format!("test-same-{}", std::process::id());
    let (code, text) = with_units(&scene, &["pages", "reserve", "2M", "--name", &name, "--no-fill", "--persist"]);
    let pool = (code == Some(0)).then(|| Pool(&scene, name.clone()));
    assert!(pool.is_some() || is_skipped(&text), "{text}");
    std::fs::create_dir_all(scene.file("units")).unwrap();
    std::fs::write(scene.file("units").join("stillframe-pages-default.service"), "").unwrap();
    let (code, text) = still(&["pages", "reserve", "4M", "--name", &name]);
    assert!(code == Some(0), "{text}");
    for name in [&name, "default"] {
        let (code, text) = still(&["pages", "give-back", name]);
        assert!(code == Some(0) && text.contains("the kernel's again"), "{text}");
        assert!(!scene.dir().join(name).exists());
    }
    if pool.is_some() {
        assert!(scene.ok(&["pages"]).contains(&name), "root's is still there");
        // Root says which one is meant.
        let own = Scene::new();
        own.ok(&["pages", "reserve", "4M", "--name", &name, "--ordinary"]);
        own.ok(&["pages", "give-back", &name, "--ordinary"]);
        assert!(!own.dir().join(&name).exists() && own.ok(&["pages"]).contains(&name));
        assert!(own.complaint(1, &["pages", "give-back", &name, "--ordinary"]).contains("no pool"));
    }
}

#[test]
fn a_pool_without_root_whose_making_was_ended_or_killed_leaves_nothing_in_the_way() {
    let scene = Scene::new();
    // What one leaves that is killed while it fills.
    let arena = stillframe::Arena::options().dir(scene.dir()).bytes(64 << 20).create("left").unwrap();
    arena.fill(&mut |_| std::ops::ControlFlow::Break(())).unwrap();
    drop(arena);
    let left = ordinary(&scene);
    assert_eq!((left.len(), &left[0]["name"], &left[0]["unfinished"]), (1, &"left".into(), &true.into()), "{left:?}");
    assert!(scene.ok(&["pages"]).contains("unfinished"));
    assert!(scene.ok(&["pages", "give-back", "--ordinary", "left"]).contains("the kernel's again"));
    assert!(!scene.dir().join("left").exists());
    // The next reservation of its name does the same.
    let arena = stillframe::Arena::options().dir(scene.dir()).bytes(64 << 20).create("left").unwrap();
    arena.fill(&mut |_| std::ops::ControlFlow::Break(())).unwrap();
    drop(arena);
    assert!(scene.ok(&["pages", "reserve", "32M", "--ordinary", "--name", "left"]).contains("32.0 MiB"));
    // An arena of somebody's is no pool.
    stillframe::Arena::options().dir(scene.dir()).bytes(64 << 20).create("arena").unwrap();
    assert!(scene.complaint(1, &["pages", "reserve", "32M", "--ordinary", "--name", "arena"]).contains("an arena"));
    assert!(scene.complaint(1, &["pages", "give-back", "arena"]).contains("no pool"));
}

#[test]
fn pools_in_a_directory_whose_name_is_no_text_are_listed() {
    use std::os::unix::ffi::OsStrExt;
    let scene = Scene::new();
    let dir = scene.file("regions-").as_os_str().as_bytes().iter().copied().chain([0xff]).collect::<Vec<u8>>();
    let dir = std::path::PathBuf::from(std::ffi::OsStr::from_bytes(&dir));
    stillframe::Arena::options().dir(&dir).bytes(8 << 20).create("own").unwrap();
    stillframe::Arena::options()
        .dir(&dir)
        .open("own")
        .unwrap()
        .fill(&mut |_| std::ops::ControlFlow::Continue(()))
        .unwrap();
    let mut command = scene.command(&["pages", "--json"]);
    let told = support::wait(
        command.env("STILLFRAME_DIR", &dir).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(),
    );
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let all: Value = serde_json::from_slice(&told.stdout).unwrap();
    let path = all["ordinary"][0]["path"].as_str().unwrap();
    assert!(path.ends_with("/regions-\u{fffd}/own"), "{path}");
}
