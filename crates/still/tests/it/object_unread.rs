//! Versions of an object that cannot be read for a while, because this node's runtime does not run, and who saves them.

use crate::support::{Guard, Scene, until};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use stillframe_kernel::lock::{self, Kind};
use stillframe_object::relay::{Relay, Remote, RemoteFragment};
use stillframe_object::runtime::{LOCK, Reply, Request, SOCKET};
use stillframe_object::{Object, Objects};

/// An object that another node writes, of which this node can read nothing without a runtime.
struct Heat {
    scene: Scene,
    object: Object,
    relay: Relay,
    writer: RemoteFragment,
}

impl Heat {
    /// With a complete version 1.
    fn new() -> Heat {
        let scene = Scene::new();
        let objects = Objects::options().dir(scene.dir()).open().unwrap();
        let object = objects.create("heat", "var u [6] int64").create().unwrap();
        let mut relay = object.relay();
        let writer = RemoteFragment {
            remote: Remote { node: 1, host: "node1".into(), number: 0 },
            process: 1,
            rank: Some(0),
            from: 1,
            left: None,
            died: false,
            text: "{ var v = u }".into(),
            bindings: Default::default(),
            writers: None,
        };
        relay.tell(std::slice::from_ref(&writer)).unwrap();
        let mut heat = Heat { scene, object, relay, writer };
        heat.complete(1);
        heat
    }

    /// All writers have a version.
    fn complete(&mut self, version: u64) {
        self.relay.complete(version).unwrap();
        assert_eq!(self.object.newest().unwrap(), version);
    }

    /// Its writer leaves behind a version.
    fn detach(&mut self, newest: u64) {
        self.writer.left = Some(newest + 1);
        self.relay.tell(std::slice::from_ref(&self.writer)).unwrap();
    }

    fn store(&self) -> PathBuf {
        self.scene.file("store")
    }

    fn is_safe(&self, version: u64) -> bool {
        self.store().join(format!("v{version:012}.zarr")).is_dir()
    }

    /// `still checkpoint` with these rules, which does not wait long for a version, and takes what it needs of a busy machine.
    fn saver(&self, rules: &[&str]) -> Saver {
        let store = self.store();
        let args =
            [&["checkpoint", "heat", "--to", store.to_str().unwrap(), "--json", "--impolite"][..], rules].concat();
        let mut command = self.scene.command(&args);
        command.env("STILLFRAME_READ_MS", "100").stdout(Stdio::piped()).stderr(Stdio::piped());
        Saver::of(Guard(command.spawn().unwrap()))
    }

    /// Starts what answers in the place of a runtime, until what is returned is dropped.
    fn start_runtime(&self) -> File {
        let own = self.scene.dir().join(".objects");
        let held = File::options().read(true).write(true).create(true).truncate(false).open(own.join(LOCK)).unwrap();
        // A child that another test has just forked may have it for a moment.
        while !lock::try_lock(&held, Kind::Write, 0, 1).unwrap() {
            std::thread::yield_now();
        }
        let listener = UnixListener::bind(own.join(SOCKET)).unwrap();
        let object = self.object.clone();
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let relay = object.relay();
                std::thread::spawn(move || serve(relay, stream));
            }
        });
        held
    }
}

/// Fills the fragment of a connection with each version that is asked for.
fn serve(mut relay: Relay, mut stream: UnixStream) {
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut receiver = None;
    for line in lines.map_while(Result::ok) {
        let reply = match serde_json::from_str(&line).unwrap() {
            Request::Read { text, bindings, .. } => {
                let made = receiver.insert(relay.receive(&text, &bindings).unwrap());
                Reply::Reading(made.name().into())
            }
            Request::Version { version, number, .. } => {
                let made = receiver.as_mut().unwrap();
                if made.newest() < Some(version) {
                    let mut loan = made.loan().unwrap();
                    loan.fill(version as u8);
                    made.publish(version, 1000 + version, loan).unwrap();
                }
                Reply::Wanted { number, next: None }
            }
            other => Reply::Failed(format!("{other:?}")),
        };
        if writeln!(stream, "{}", serde_json::to_string(&reply).unwrap()).is_err() {
            break;
        }
    }
    receiver.into_iter().for_each(|made| made.remove().unwrap());
}

/// A `still checkpoint` that runs, and what it said so far.
struct Saver {
    child: Guard,
    out: Arc<Mutex<Vec<String>>>,
    reading: JoinHandle<()>,
}

impl Saver {
    fn of(mut child: Guard) -> Saver {
        let lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map_while(Result::ok);
        let out = Arc::new(Mutex::new(Vec::new()));
        let heard = out.clone();
        let reading = std::thread::spawn(move || lines.for_each(|line| heard.lock().unwrap().push(line)));
        Saver { child, out, reading }
    }

    fn said(&self, words: &[&str]) -> bool {
        self.out.lock().unwrap().iter().any(|line| words.iter().all(|word| line.contains(word)))
    }

    /// Waits until it has said that version 1 is not saved, and when it tries again.
    fn await_failure(&self) {
        let words = ["\"failed\"", "\"version\":1", "\"retry_seconds\":1.0", "the runtime of this node"];
        until("it says what it cannot read", || self.said(&words) || self.reading.is_finished());
        assert!(self.said(&words), "{:?}", self.out.lock().unwrap());
    }

    /// Asks it to end, as batch systems do.
    fn terminate(&self) {
        let pid = self.child.0.id().to_string();
        assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }

    /// Its exit code, the last line it said, and its complaint.
    fn end(mut self) -> (Option<i32>, String, String) {
        until("it ends", || self.child.0.try_wait().unwrap().is_some());
        self.reading.join().unwrap();
        let complaint = std::io::read_to_string(self.child.0.stderr.take().unwrap()).unwrap();
        let last = self.out.lock().unwrap().last().cloned().unwrap_or_default();
        (self.child.0.wait().unwrap().code(), last, complaint)
    }

    /// Sees that it ends with a complaint about a version that is not saved.
    fn assert_fails(self, what: &str) {
        let (code, last, complaint) = self.end();
        assert_eq!(code, Some(1), "{what}: {last} {complaint}");
        assert!(complaint.contains("version 1 is not saved"), "{what}: {complaint}");
        assert!(complaint.contains("the runtime of this node"), "{what}: {complaint}");
        assert!(last.contains("\"ended\"") && last.contains("\"state\":\"failed\""), "{what}: {last}");
        assert!(last.contains("\"unsaved\":[1]"), "{what}: {last}");
    }
}

#[test]
fn a_version_that_cannot_be_read_for_a_while_is_saved_in_the_end() {
    for rules in [&[][..], &["--once"], &["--every", "1"], &["--when", "version == 1"], &["--all"]] {
        let mut heat = Heat::new();
        let saver = heat.saver(rules);
        saver.await_failure();
        let _runtime = heat.start_runtime();
        until("the version is safe", || heat.is_safe(1));
        heat.detach(1);
        let (code, last, complaint) = saver.end();
        assert_eq!((code, complaint.as_str()), (Some(0), ""), "{rules:?}: {last}");
        assert!(last.contains("\"state\":\"ended\"") && last.contains("\"unsaved\":[]"), "{rules:?}: {last}");
    }
}

#[test]
fn a_later_version_that_is_safe_stands_for_one_that_could_not_be_read() {
    let mut heat = Heat::new();
    let saver = heat.saver(&["--every", "1"]);
    saver.await_failure();
    heat.complete(2);
    until("it tries the later one", || saver.said(&["\"failed\"", "\"version\":2"]));
    let _runtime = heat.start_runtime();
    until("the later version is safe", || heat.is_safe(2));
    heat.detach(2);
    until("the version before it is missed", || saver.said(&["\"missed\"", "\"after\":0", "\"before\":2"]));
    assert_eq!(saver.end().0, Some(0));
    assert!(!heat.is_safe(1));
}

#[test]
fn a_last_version_that_cannot_be_read_is_a_failure() {
    for rules in [&[][..], &["--once"], &["--every", "1000"], &["--all"], &["--when", "true"]] {
        let mut heat = Heat::new();
        let saver = heat.saver(rules);
        if rules != ["--every", "1000"] {
            saver.await_failure();
        }
        heat.detach(1);
        match rules {
            // None was due.
            ["--every", "1000"] => assert_eq!(saver.end().0, Some(0)),
            _ => saver.assert_fails(&format!("{rules:?}")),
        }
    }
}

#[test]
fn a_last_version_that_is_due_at_the_end_and_cannot_be_read_is_a_failure() {
    let mut heat = Heat::new();
    let saver = heat.saver(&["--at-end"]);
    heat.detach(1);
    saver.await_failure();
    saver.assert_fails("--at-end");
    // It ends as well where they left before.
    heat.saver(&["--once"]).assert_fails("--once");
}

#[test]
fn who_is_ended_while_a_version_cannot_be_read_says_that_it_is_not_saved() {
    for rules in [&[][..], &["--once"], &["--follow", "600"]] {
        let heat = Heat::new();
        let saver = heat.saver(rules);
        saver.await_failure();
        saver.terminate();
        saver.assert_fails(&format!("{rules:?}"));
    }
}
