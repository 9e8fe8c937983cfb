//! Objects where files, memory or rights are short, and in forked children.

use crate::helper;

use crate::common::{Dir, watchdog};
use crate::helper::{run, say};
use std::path::Path;
use std::thread;
use std::time::Duration;
use stillframe::Trust;
use stillframe_object::{Error, Objects};

const LONG: Duration = Duration::from_secs(60);

#[test]
fn helper_process() {
    helper::enter(&[
        ("few_files", few_files),
        ("forked", forked),
        ("user", user),
        ("full", full),
        ("no_room", no_room),
    ]);
}

#[allow(unsafe_code)]
fn set_limit(files: u64) {
    let limit = libc::rlimit { rlim_cur: files, rlim_max: 4096 };
    // SAFETY: the call reads one struct of the right type.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
}

/// Does something while this process may open so many files more.
fn with_files<T>(more: u64, what: impl FnOnce() -> T) -> T {
    // All numbers below the limit are taken by files, which are closed again.
    let mut files = Vec::new();
    set_limit(256);
    while let Ok(file) = std::fs::File::open("/dev/null") {
        files.push(file);
    }
    files.truncate(files.len() - more as usize);
    let outcome = what();
    set_limit(4096);
    outcome
}

/// Publishes rows of objects with few files left at one publish.
fn few_files(arguments: &[String]) {
    let dir = Path::new(&arguments[0]);
    let mut failed = 0;
    for more in 0..8 {
        let objects = Objects::options().dir(dir).open().unwrap();
        let object = objects.create(&format!("u{more}"), "var u [2,600] int64").create().unwrap();
        let mut first = object.write("{ var v [y:600] = u[0,y] }").attach().unwrap();
        let other = Objects::options().dir(dir).open().unwrap().object_named(&format!("u{more}")).unwrap();
        let mut second = other.write("{ var v [y:600] = u[1,y] }").attach().unwrap();
        let published = with_files(more, || first.publish(1));
        failed += u64::from(published.is_err());
        for version in first.version() + 1..=5 {
            first.publish(version).unwrap();
        }
        for version in 1..=3 {
            second.publish(version).unwrap();
            assert_eq!(object.newest().unwrap(), version, "with {more} files");
        }
    }
    say(&format!("failed {failed}"));
}

#[test]
fn who_could_not_look_at_others_once_looks_again() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("few-files");
    let said = run("few_files", &[dir.path().to_str().unwrap()]);
    assert!(said[0].starts_with("failed ") && said[0] != "failed 0", "{said:?}");
}

/// Uses fragments in a forked child.
#[allow(unsafe_code)]
fn forked(arguments: &[String]) {
    let dir = Path::new(&arguments[0]);
    let objects = Objects::options().dir(dir).open().unwrap();
    let object = objects.create("u", "var u [100000] float64").create().unwrap();
    let mut writer = object.write("{ var v = u }").attach().unwrap();
    let loaned_object = objects.create("l", "var u [100000] float64").create().unwrap();
    let mut loaned = loaned_object.write("{ var v = u }").loaned().attach().unwrap();
    writer.variable_mut::<f64>("v").unwrap().fill(1.0);
    writer.publish(1).unwrap();
    loaned.variable_mut::<f64>("v").unwrap().fill(1.0);
    loaned.publish(1).unwrap();
    loaned.variable_mut::<f64>("v").unwrap().fill(2.0);
    let mut reader = object.read("{ var v = u }").attach().unwrap();
    reader.reattach(1, LONG).unwrap();
    assert!(reader.is_shown());
    let (from, mut to) = std::io::pipe().unwrap();
    // SAFETY: the child uses what it inherited and leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            use std::io::Read;
            let mut word = [0];
            { &from }.read_exact(&mut word).unwrap();
            assert!(writer.publish(100).is_err());
            assert!(loaned.publish(100).is_err());
            assert!(writer.variable_mut::<f64>("v").is_err() || writer.publish(101).is_err());
            let read = reader.reattach(1, Duration::from_millis(50));
            say(&format!("child reattached: {read:?}"));
            let own = object.newest();
            say(&format!("child sees {own:?}"));
            assert_eq!(object.writers().map(|writers| writers.len()).unwrap_or(1), 1);
            drop((reader, writer, loaned));
            drop((object.clone(), loaned_object.clone()));
        }));
        // SAFETY: it ends the child and nothing else.
        unsafe { libc::_exit(i32::from(outcome.is_err())) };
    }
    // The parent goes on, so that the child's pages are used for other versions.
    for version in 2..20 {
        writer.variable_mut::<f64>("v").unwrap().fill(version as f64);
        writer.publish(version).unwrap();
        reader.reattach(version, LONG).unwrap();
    }
    use std::io::Write;
    to.write_all(b"x").unwrap();
    let mut status = 0;
    // SAFETY: the child is this process's own.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    say(&format!("child {status}"));
    assert!(reader.variable::<f64>("v").unwrap().iter().all(|value| *value == 19.0));
    assert!(loaned.variable_mut::<f64>("v").unwrap().iter().all(|value| *value == 2.0));
    writer.publish(20).unwrap();
    loaned.publish(2).unwrap();
    assert_eq!(object.newest().unwrap(), 20);
    assert!(object.writers().unwrap()[0].is_alive);
    reader.reattach(20, LONG).unwrap();
}

#[test]
fn a_forked_child_harms_nothing() {
    let _watchdog = watchdog(120);
    let dir = Dir::new("forked");
    let said = run("forked", &[dir.path().to_str().unwrap()]);
    println!("{said:?}");
    assert!(said.contains(&"child 0".to_owned()), "{said:?}");
}

/// A group that nobody on this machine is in.
const GROUP: u32 = 4321;

/// One of two users who write one object.
fn user(arguments: &[String]) {
    let [dir, row, versions] = arguments else { panic!("{arguments:?}") };
    let row: i64 = row.parse().unwrap();
    let objects = Objects::options().dir(dir).mode(0o770).trust(Trust::Group(GROUP)).open().unwrap();
    let object = objects.create("u", "var u [2,600] int64").create().unwrap();
    let mut fragment = object.write("{ var v [y:600] = u[x0,y] }").bind("x0", row).rank(row as u32).attach().unwrap();
    say("attached");
    for version in fragment.version() + 1..=versions.parse().unwrap() {
        fragment.variable_mut::<i64>("v").unwrap().fill(version as i64 * 10 + row);
        fragment.publish(version).unwrap();
        say(&format!("published {version}"));
        let newest = object.wait_newer(version - 1, LONG).unwrap();
        let mut all = object.read("{ var v = u }").attach().unwrap();
        match all.reattach(newest, LONG) {
            Ok(()) => {
                let all = all.variable::<i64>("v").unwrap();
                assert!(all.iter().enumerate().all(|(at, value)| *value == newest as i64 * 10 + at as i64 / 600));
            }
            Err(Error::Lost { complete, .. }) if complete > Some(newest) => {}
            Err(error) => panic!("{error}"),
        }
        thread::sleep(Duration::from_millis(30));
    }
    fragment.detach().unwrap();
    say("detached");
    helper::wait_for_word();
    object.collect().unwrap();
    say("collected");
}

#[test]
fn two_users_of_a_group_write_one_object() {
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    let _watchdog = watchdog(120);
    let dir = Dir::new("users");
    if chown(dir.path(), Some(1001), Some(GROUP)).is_err() {
        println!("skipped: only root can be two users");
        return;
    }
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o770)).unwrap();
    let start = |user: u32, row: &str, versions: &str| {
        let mut command = helper::command("user", &[dir.path().to_str().unwrap(), row, versions]);
        command.uid(user).gid(GROUP);
        helper::Helper::start(command)
    };
    let (mut first, mut second) = (start(1001, "0", "40"), start(1002, "1", "40"));
    for helper in [&mut first, &mut second] {
        while helper.hear().unwrap_or_else(|| panic!("it ended")) != "detached" {}
        helper.tell();
        helper.expect("collected");
    }
    drop((first, second));
    let (mut first, mut second) = (start(1002, "0", "80"), start(1001, "1", "80"));
    for helper in [&mut first, &mut second] {
        assert!(helper.hear().is_some());
        while helper.hear().unwrap_or_else(|| panic!("it ended")) != "detached" {}
        helper.tell();
        helper.expect("collected");
    }
    let objects = Objects::options().dir(dir.path()).trust(Trust::Any).look().unwrap().unwrap();
    let writers = objects.object_named("u").unwrap().writers().unwrap();
    assert_eq!(writers.len(), 2, "what the first two left is gone: {writers:?}");
}

/// Mounts a small file system of its own with these options, which nobody else sees; whether this process may.
#[allow(unsafe_code)]
fn mount_small(dir: &Path, options: &str) -> bool {
    use std::ffi::CString;
    let text = |text: &str| CString::new(text).unwrap();
    let (root, none, tmpfs) = (text("/"), text("none"), text("tmpfs"));
    let (dir, options) = (text(dir.to_str().unwrap()), text(options));
    // SAFETY: the calls read strings that end with a zero, and change the mounts of this process alone.
    unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                none.as_ptr(),
                root.as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            ) == 0
            && libc::mount(none.as_ptr(), dir.as_ptr(), tmpfs.as_ptr(), 0, options.as_ptr().cast()) == 0
    }
}

/// Writes and reads an object where there is no room again and again.
fn full(arguments: &[String]) {
    let dir = Path::new(&arguments[0]);
    if !mount_small(dir, "size=12m") {
        return say("may not mount");
    }
    let objects = Objects::options().dir(dir).open().unwrap();
    let object = objects.create("u", "var u [2,60000] int64").create().unwrap();
    // What was complete may have had to go.
    let row = |row: i64| {
        object.write("{ var v [y:60000] = u[x0,y] }").bind("x0", row).zeros().wait(Duration::from_millis(10))
    };
    let mut writers: Vec<_> = (0..2).map(|x| Some(row(x).attach().unwrap())).collect();
    let mut reader = object.read("{ var v = u }").attach().unwrap();
    let (mut newest, mut failed, mut attached) = (0, 0, 0);
    let ballast = dir.join("ballast");
    for round in 1..=60u64 {
        // Leaves so many pages.
        if round % 4 != 0 {
            let mut file = std::fs::File::create(&ballast).unwrap();
            use std::io::Write;
            while file.write_all(&[1; 4096]).is_ok() {}
            let length = file.metadata().unwrap().len();
            file.set_len(length.saturating_sub(4096 * (round * 7 % 50))).unwrap();
        } else {
            let _ = std::fs::remove_file(&ballast);
        }
        for (x, writer) in writers.iter_mut().enumerate() {
            if writer.is_none() {
                match row(x as i64).attach() {
                    Ok(fragment) => *writer = Some(fragment),
                    Err(error) => {
                        failed += 1;
                        assert!(!matches!(error, Error::Corrupt { .. }), "{error}");
                    }
                }
                attached += u64::from(writer.is_some());
            }
            let Some(fragment) = writer else { continue };
            let version = fragment.version().max(newest) + 1;
            match fragment.variable_mut::<i64>("v") {
                Ok(values) => values.fill(version as i64 * 10 + x as i64),
                Err(error) => panic!("{error}"),
            }
            match fragment.publish(version) {
                Ok(_) => {}
                Err(error) => {
                    failed += 1;
                    assert!(!matches!(error, Error::Corrupt { .. }), "{error}");
                }
            }
            if (round + x as u64).is_multiple_of(3) {
                let _ = writer.take().unwrap().detach();
            }
        }
        // A writer that has no room lets the newest complete version go before it fails. What is there is whole.
        newest = object.newest().unwrap();
        match reader.reattach(newest, LONG) {
            Ok(()) => {
                let all = reader.variable::<i64>("v").unwrap();
                let wanted = |at: usize| if newest == 0 { 0 } else { newest as i64 * 10 + at as i64 / 60_000 };
                assert!(all.iter().enumerate().all(|(at, value)| *value == wanted(at)), "{newest} in round {round}");
            }
            Err(Error::Lost { version, complete, .. }) if version == newest && complete < Some(newest) => {}
            Err(error) => panic!("round {round}, {newest}: {error}"),
        }
    }
    std::fs::remove_file(&ballast).ok();
    writers.clear();
    for x in 0..2 {
        let mut writer = row(x).attach().unwrap();
        writer.variable_mut::<i64>("v").unwrap().fill(10_000 + x);
        writer.publish(1000).unwrap();
        writers.push(Some(writer));
    }
    assert_eq!(object.newest().unwrap(), 1000);
    drop(writers);
    say(&format!("done: {failed} failed, {attached} attached anew, newest {newest}"));
    objects.remove("u", false).unwrap();
}

#[test]
fn a_full_file_system_mixes_nothing_and_has_room_again() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("full");
    let said = run("full", &[dir.path().to_str().unwrap()]);
    println!("{said:?}");
    assert!(said[0].starts_with("done") || said[0] == "may not mount", "{said:?}");
}

/// Checks that an error says which file system has too little of what, as those of regions do; the file that there was no room for.
fn no_room_for(dir: &Path, error: &Error, lacks: &str) -> String {
    let text = error.to_string();
    let Error::Region(stillframe::Error::NoSpace { path, needed_bytes, free_bytes: Some(free_bytes), .. }) = error
    else {
        panic!("{text}")
    };
    assert_eq!(error.code(), 107, "{text}");
    assert!(
        text.contains(dir.to_str().unwrap()) && text.contains(lacks) && text.contains("choose another directory"),
        "{text}"
    );
    if lacks == "bytes free" {
        assert!(free_bytes < needed_bytes && text.contains(&format!("{free_bytes} bytes free")), "{text}");
    }
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Creates objects with each number of pages left, then with each number of files left, until that succeeds, and attaches one.
fn no_room(arguments: &[String]) {
    let dir = Path::new(&arguments[0]);
    if !mount_small(dir, "size=12m,nr_inodes=256") {
        return say("may not mount");
    }
    let try_create =
        |place: &str| Objects::options().dir(dir.join(place)).open()?.create("u", "var u [600] int64").create();
    let ballast = std::fs::File::create(dir.join("ballast")).unwrap();
    let leave = |pages: u64| {
        use std::os::unix::fs::FileExt;
        let mut length = ballast.metadata().unwrap().len();
        while ballast.write_at(&[1; 4096], length).is_ok() {
            length += 4096;
        }
        ballast.set_len(length - 4096 * pages).unwrap();
    };
    let mut files = std::collections::BTreeSet::new();
    for pages in 0.. {
        leave(pages);
        let Err(error) = try_create("pages") else { break };
        files.insert(no_room_for(dir, &error, "bytes free"));
        std::fs::remove_dir_all(dir.join("pages")).unwrap();
    }
    say(&format!("without bytes: {}", Vec::from_iter(files).join(" ")));

    let mut tried = 0;
    leave(0);
    let object = Objects::options().dir(dir.join("pages")).open().unwrap().object_named("u").unwrap();
    while let Err(error) = object.write("{ var v = u }").attach() {
        no_room_for(dir, &error, "bytes free");
        leave(1 << tried);
        tried += 1;
    }
    assert!(tried > 0);
    ballast.set_len(0).unwrap();

    let (mut numbers, mut failed) = (0.., 0);
    let held = |number: u32| dir.join(format!("held-{number}"));
    let first_refused = numbers.find(|number| std::fs::File::create(held(*number)).is_err()).unwrap();
    for number in (0..first_refused).rev() {
        let Err(error) = try_create("files") else { break };
        no_room_for(dir, &error, "no inode free");
        failed += 1;
        let _ = std::fs::remove_dir_all(dir.join("files"));
        std::fs::remove_file(held(number)).unwrap();
    }
    assert!(try_create("files").is_ok());
    say(&format!("without files: {failed}"));
}

#[test]
fn a_full_file_system_is_told_with_its_path_and_what_it_lacks() {
    let _watchdog = watchdog(300);
    let dir = Dir::new("no-room");
    let said = run("no_room", &[dir.path().to_str().unwrap()]);
    if said == ["may not mount"] {
        return eprintln!("skipped: only root can mount a small file system");
    }
    assert_eq!(said[0], "without bytes: bell hints u");
    // Five folders and three files.
    assert_eq!(said[1], "without files: 8");
}
