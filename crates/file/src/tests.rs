use super::*;
use rustix::process::{Pid, Signal, Uid, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// How a file on its way lies in its folder.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Unnamed,
    Named,
}

const WAYS: [Way; 2] = [Way::Unnamed, Way::Named];

/// In memory, where files need no names.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

fn begin(way: Way, path: &Path) -> Result<WholeFile, Error> {
    let whole = match way {
        Way::Unnamed => WholeFile::begin(path)?,
        Way::Named => WholeFile::begin_named(path)?,
    };
    assert_eq!(whole.is_named, way == Way::Named);
    Ok(whole)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_takes_the_place_of_a_file_has_its_access_mode() {
    for way in WAYS {
        let folder = folder();
        let path = folder.path().join("u.h5");
        for mode in [0o600, 0o640, 0o664, 0o755] {
            std::fs::write(&path, "old").unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let whole = begin(way, &path).unwrap();
            whole.file().write_all(b"new").unwrap();
            whole.commit().unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, mode, "{way:?}");
        }
    }
}

#[test]
fn a_file_that_its_user_may_not_write_is_not_replaced() {
    const NOBODY: u32 = 65534;
    let folder = folder();
    let path = folder.path().join("u.h5");
    std::fs::write(&path, "old").unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    if rustix::process::geteuid().is_root() {
        // Root may write any file.
        WAYS.into_iter().for_each(|way| drop(begin(way, &path).unwrap()));
        for found in [folder.path(), &path] {
            std::os::unix::fs::chown(found, Some(NOBODY), None).unwrap();
        }
    }
    let begin_as_nobody = || {
        if rustix::process::geteuid().is_root() {
            // Of this thread alone.
            rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::from_raw(NOBODY), Uid::ROOT).unwrap();
        }
        WAYS.map(|way| begin(way, &path).map(drop))
    };
    for refused in std::thread::scope(|scope| scope.spawn(begin_as_nobody).join().unwrap()) {
        let refused = refused.unwrap_err();
        assert!(matches!(&refused, Error::Protected { mode: 0o444, .. }), "{refused}");
    }
    assert_eq!((names(folder.path()), std::fs::read(&path).unwrap()), (vec!["u.h5".into()], b"old".into()));
}

#[test]
fn until_it_is_committed_the_old_file_stays_and_nothing_is_left_over() {
    for way in WAYS {
        let folder = folder();
        let path = folder.path().join("u.h5");
        for (old, new) in [(None, "first"), (Some("first"), "second, longer"), (Some("second, longer"), "3")] {
            let whole = begin(way, &path).unwrap();
            std::fs::write(whole.aside(), new).unwrap();
            assert_eq!(std::fs::read_to_string(&path).ok().as_deref(), old, "{way:?}");
            whole.commit().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), new, "{way:?}");
            assert_eq!(names(folder.path()), ["u.h5"], "{way:?}");
        }
        let whole = begin(way, &path).unwrap();
        whole.file().write_all(b"half").unwrap();
        drop(whole);
        assert_eq!(
            (names(folder.path()), std::fs::read(&path).unwrap()),
            (vec!["u.h5".into()], b"3".into()),
            "{way:?}"
        );
    }
}

#[test]
fn of_two_writers_the_last_one_stays_and_where_names_are_needed_the_second_is_refused() {
    let folder = folder();
    let path = folder.path().join("u.h5");
    let (one, other) = (begin(Way::Unnamed, &path).unwrap(), begin(Way::Unnamed, &path).unwrap());
    one.file().write_all(b"one").unwrap();
    other.file().write_all(b"other").unwrap();
    other.commit().unwrap();
    one.commit().unwrap();
    assert_eq!((names(folder.path()), std::fs::read(&path).unwrap()), (vec!["u.h5".into()], b"one".into()));

    let named = begin(Way::Named, &path).unwrap();
    assert!(matches!(begin(Way::Named, &path), Err(Error::Busy { .. })));
    drop(named);
    begin(Way::Named, &path).unwrap();
}

#[test]
fn many_writers_that_replace_a_file_at_once_leave_one_of_theirs() {
    let folder = folder();
    let path = folder.path().join("u.h5");
    std::fs::write(&path, "old").unwrap();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..50 {
                    let whole = begin(Way::Unnamed, path).unwrap();
                    whole.file().write_all(&[number; 100]).unwrap();
                    whole.commit().unwrap();
                }
            });
        }
    });
    let found = std::fs::read(&path).unwrap();
    assert!(found.len() == 100 && found.iter().all(|byte| *byte == found[0]));
    assert_eq!(names(folder.path()), ["u.h5"]);
}

#[test]
fn what_cannot_become_a_file_is_refused_before_anything_is_written() {
    let folder = folder();
    let long = folder.path().join("n".repeat(250));
    let nowhere = folder.path().join("no/u.h5");
    for (path, kind) in [
        (folder.path(), io::ErrorKind::IsADirectory),
        (Path::new(".."), io::ErrorKind::IsADirectory),
        (&long, io::ErrorKind::InvalidFilename),
        (&nowhere, io::ErrorKind::NotFound),
    ] {
        let refused = WholeFile::begin(path).unwrap_err();
        assert!(matches!(&refused, Error::System { error, .. } if error.kind() == kind), "{refused}");
    }
    // What somebody else put there is neither followed nor written.
    let (path, other) = (folder.path().join("u"), folder.path().join("other"));
    std::fs::write(&other, "kept").unwrap();
    std::os::unix::fs::symlink(&other, folder.path().join(".u.partial")).unwrap();
    assert!(begin(Way::Named, &path).is_err());
    assert_eq!(std::fs::read(&other).unwrap(), b"kept");
}

#[test]
fn what_is_not_the_users_alone_is_not_taken_over() {
    let user = rustix::process::geteuid();
    for kind in ["second name", "pipe", "another user's"] {
        let folder = folder();
        let (path, hidden, other) =
            (folder.path().join("u"), folder.path().join(".u.partial"), folder.path().join("other"));
        std::fs::write(&other, "kept").unwrap();
        let word = match kind {
            "second name" => {
                std::fs::hard_link(&other, &hidden).unwrap();
                "has 2 names"
            }
            "pipe" => {
                rustix::fs::mknodat(CWD, &hidden, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
                "is no file"
            }
            _ if !user.is_root() => {
                eprintln!("skipped: only root can make files of other users");
                continue;
            }
            _ => {
                std::fs::write(&hidden, "").unwrap();
                std::os::unix::fs::chown(&hidden, Some(65534), None).unwrap();
                std::fs::set_permissions(&hidden, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
                "belongs to user 65534, not to user 0"
            }
        };
        let refused = begin(Way::Named, &path).unwrap_err().to_string();
        assert!(refused.contains(word) && refused.contains(hidden.to_str().unwrap()), "{refused}");
        assert_eq!(std::fs::read(&other).unwrap(), b"kept");
        // Where a file on its way needs no name, what has it is not waited for.
        std::fs::write(&path, "old").unwrap();
        let locked = open(&hidden, OFlags::RDONLY).unwrap();
        locked.lock().unwrap();
        let mut whole = begin(Way::Unnamed, &path).unwrap();
        whole.file.write_all(b"new").unwrap();
        assert!(whole.commit().unwrap_err().to_string().contains(word));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        drop(locked);
    }
}

/// A process of its own that writes a file and does not come to an end.
struct Writer {
    child: Child,
    said: BufReader<ChildStdout>,
    /// Waiting for the child would close it, and let it go on.
    go_on: ChildStdin,
}

/// Signals end programs, whatever those who started these tests wanted of theirs: shells let jobs in the background ignore
/// SIGINT.
const DEFAULT: [&str; 2] = ["env", "--default-signal=HUP,INT,TERM"];

impl Writer {
    fn begin(way: Way, path: &Path, before: &[&str]) -> Writer {
        let exe = std::env::current_exe().unwrap();
        let line = [before, &[exe.to_str().unwrap()]].concat();
        let mut command = Command::new(line[0]);
        command.args(&line[1..]).args(["--exact", "tests::a_writer_that_does_not_end", "--ignored", "--nocapture"]);
        command.env("WRITE_WAY", format!("{way:?}")).env("WRITE_PATH", path);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).stdin(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let go_on = child.stdin.take().unwrap();
        let mut writer = Writer { child, said, go_on };
        writer.wait_for("half written");
        writer
    }

    fn wait_for(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "it ended before it said: {text}");
        }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "the other process of the tests below"]
fn a_writer_that_does_not_end() {
    let (Ok(way), Ok(path)) = (std::env::var("WRITE_WAY"), std::env::var("WRITE_PATH")) else { return };
    let way = if way == "Named" { Way::Named } else { Way::Unnamed };
    // Whoever waits for its end is not to wait for ever.
    std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_secs(120));
        std::process::abort();
    });
    let whole = begin(way, Path::new(&path)).unwrap();
    whole.file().write_all(&[1; 10_000]).unwrap();
    println!("half written");
    // Until the one who started it goes on, or is gone.
    let _ = std::io::stdin().read_line(&mut String::new());
    whole.commit().unwrap();
    println!("committed");
}

#[test]
fn a_writer_that_a_signal_ends_leaves_nothing_and_is_seen_to_have_been_ended_by_it() {
    for way in WAYS {
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            let folder = folder();
            let path = folder.path().join("u.h5");
            std::fs::write(&path, "old").unwrap();
            let mut writer = Writer::begin(way, &path, &DEFAULT);
            writer.send(signal);
            let status = writer.child.wait().unwrap();
            assert_eq!(status.signal(), Some(signal.as_raw()), "{way:?}");
            assert_eq!(names(folder.path()), ["u.h5"], "{way:?} {signal:?}");
            assert!(std::fs::read(&path).unwrap() == b"old", "{way:?} {signal:?}");
        }
    }
}

#[test]
fn a_writer_that_is_killed_leaves_nothing_or_what_the_next_one_takes_over() {
    for (way, left) in [(Way::Unnamed, 1), (Way::Named, 2)] {
        let folder = folder();
        let path = folder.path().join("u.h5");
        std::fs::write(&path, "old").unwrap();
        let mut writer = Writer::begin(way, &path, &DEFAULT);
        writer.send(Signal::KILL);
        writer.child.wait().unwrap();
        assert_eq!(names(folder.path()).len(), left, "{way:?}: {:?}", names(folder.path()));
        // The next one may be on a kernel that does without names, or not.
        let next = if left == 2 { begin(Way::Named, &path).unwrap() } else { begin(way, &path).unwrap() };
        assert_eq!(next.file().metadata().unwrap().len(), 0);
        next.file().write_all(b"new").unwrap();
        next.commit().unwrap();
        assert_eq!((names(folder.path()), std::fs::read(&path).unwrap()), (vec!["u.h5".into()], b"new".into()));
    }
    let folder = folder();
    std::fs::write(folder.path().join(".u.h5.partial"), "left by the dead").unwrap();
    let whole = begin(Way::Unnamed, &folder.path().join("u.h5")).unwrap();
    assert!(names(folder.path()).is_empty());
    // Or left later than that.
    std::fs::write(folder.path().join("u.h5"), "old").unwrap();
    std::fs::write(folder.path().join(".u.h5.partial"), "left by the dead").unwrap();
    whole.commit().unwrap();
    assert_eq!(names(folder.path()), ["u.h5"]);
}

#[test]
fn a_writer_that_was_started_to_survive_a_signal_does() {
    for way in WAYS {
        let folder = folder();
        let path = folder.path().join("u.h5");
        let ignoring = ["sh", "-c", "trap '' HUP INT; exec \"$@\"", "sh"];
        let mut writer = Writer::begin(way, &path, &ignoring);
        writer.send(Signal::HUP);
        writer.send(Signal::INT);
        writer.go_on.write_all(b"\n").unwrap();
        writer.wait_for("committed");
        assert_eq!(names(folder.path()), ["u.h5"], "{way:?}");
    }
}
