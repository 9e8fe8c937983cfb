//! An object of another node, what answers in the place of this one's runtime, and a `still checkpoint` of it.

use super::{Guard, Scene, until};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use stillframe_kernel::lock::{self, Kind};
use stillframe_object::receiver::Receiver;
use stillframe_object::relay::{Relay, Remote, RemoteFragment};
use stillframe_object::runtime::{LOCK, Reply, Request, SOCKET};
use stillframe_object::{Object, Objects};

/// An object that another node writes, of which this node can read nothing without a runtime.
pub struct Heat {
    pub scene: Scene,
    pub object: Object,
    relay: Relay,
    writer: RemoteFragment,
    /// The versions that were wanted of what answers in the place of a runtime, as often as they were.
    pub wanted: Arc<Mutex<Vec<u64>>>,
}

/// What a runtime answers to who wants a version.
pub enum Answer {
    /// It fills the fragment.
    Filled,
    /// Nobody has it.
    Lost,
    /// It cannot be done now.
    Failed,
    /// Nothing.
    Silence,
}

impl Heat {
    /// With a complete version 1.
    pub fn new() -> Heat {
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
        let mut heat = Heat { scene, object, relay, writer, wanted: Arc::default() };
        heat.complete(1);
        heat
    }

    /// All writers have a version.
    pub fn complete(&mut self, version: u64) {
        self.relay.complete(version).unwrap();
        assert_eq!(self.object.newest().unwrap(), version);
    }

    /// Its writer leaves behind a version.
    pub fn detach(&mut self, newest: u64) {
        self.writer.left = Some(newest + 1);
        self.relay.tell(std::slice::from_ref(&self.writer)).unwrap();
    }

    /// Another program writes from a version on, as the next run does.
    pub fn attach_another(&mut self, from: u64) {
        let RemoteFragment { remote, process, .. } = self.writer.clone();
        self.writer.remote = Remote { number: remote.number + 1, ..remote };
        (self.writer.process, self.writer.from, self.writer.left) = (process + 1, from, None);
        self.relay.tell(std::slice::from_ref(&self.writer)).unwrap();
    }

    pub fn store(&self) -> PathBuf {
        self.scene.file("store")
    }

    pub fn is_safe(&self, version: u64) -> bool {
        self.store().join(format!("v{version:012}.zarr")).is_dir()
    }

    /// `still checkpoint` with these rules, which does not wait long for a version, and takes what it needs of a busy machine.
    pub fn saver(&self, rules: &[&str]) -> Saver {
        self.saver_that_reads(100, rules)
    }

    /// The same, which waits so many milliseconds for a version.
    pub fn saver_that_reads(&self, read_ms: u64, rules: &[&str]) -> Saver {
        let store = self.store();
        let args =
            [&["checkpoint", "heat", "--to", store.to_str().unwrap(), "--json", "--impolite"][..], rules].concat();
        let mut command = self.scene.command(&args);
        // Nor does it pause for long.
        command.env("STILLFRAME_READ_MS", read_ms.to_string()).env("STILLFRAME_PAUSE_MS", "100");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Saver::of(Guard(command.spawn().unwrap()), store)
    }

    /// Starts what answers in the place of a runtime, until what is returned is dropped.
    pub fn start_runtime(&self) -> File {
        self.start_runtime_that(|_| Answer::Filled)
    }

    /// The same, which answers so.
    pub fn start_runtime_that(&self, answers: impl Fn(u64) -> Answer + Send + Sync + 'static) -> File {
        let own = self.scene.dir().join(".objects");
        let held = File::options().read(true).write(true).create(true).truncate(false).open(own.join(LOCK)).unwrap();
        // A child that another test has just forked may have it for a moment.
        while !lock::try_lock(&held, Kind::Write, 0, 1).unwrap() {
            std::thread::yield_now();
        }
        let listener = UnixListener::bind(own.join(SOCKET)).unwrap();
        let (object, wanted) = (self.object.clone(), self.wanted.clone());
        let answer = Arc::new(move |version| {
            wanted.lock().unwrap().push(version);
            answers(version)
        });
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (relay, answer) = (object.relay(), answer.clone());
                std::thread::spawn(move || serve(relay, stream, &*answer));
            }
        });
        held
    }
}

/// Answers what is asked on a connection.
fn serve(mut relay: Relay, mut stream: UnixStream, answer: &dyn Fn(u64) -> Answer) {
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let (mut made, mut read) = (Vec::new(), None);
    for line in lines.map_while(Result::ok) {
        let replies = match serde_json::from_str(&line).unwrap() {
            Request::Read { text, bindings, .. } => {
                made.push(relay.receive(&text, &bindings).unwrap());
                read = Some((text, bindings));
                vec![Reply::Reading(made.last().unwrap().name().into())]
            }
            Request::Version { version, number, .. } => match answer(version) {
                Answer::Filled => {
                    // A region has no version after a newer one.
                    let is_above = made.last().is_some_and(|made: &Receiver| made.newest() < Some(version));
                    let mut replies = Vec::new();
                    if !is_above && made.last().unwrap().newest() != Some(version) {
                        let (text, bindings) = read.as_ref().unwrap();
                        made.push(relay.receive(text, bindings).unwrap());
                        replies.push(Reply::Reading(made.last().unwrap().name().into()));
                    }
                    let made = made.last_mut().unwrap();
                    if made.newest() < Some(version) {
                        let mut loan = made.loan().unwrap();
                        loan.fill(version as u8);
                        made.publish(version, 1000 + version, loan).unwrap();
                    }
                    replies.push(Reply::Wanted { number, next: None });
                    replies
                }
                Answer::Lost => vec![Reply::Lost { version, number, why: "its node went".into() }],
                Answer::Failed => vec![Reply::Failed("it is busy".into())],
                Answer::Silence => Vec::new(),
            },
            // No other node has it.
            Request::Remove { .. } => vec![Reply::Removed(true)],
            other => vec![Reply::Failed(format!("{other:?}"))],
        };
        let mut lines = replies.iter().map(|reply| serde_json::to_string(reply).unwrap());
        if lines.any(|line| writeln!(stream, "{line}").is_err()) {
            break;
        }
    }
    made.into_iter().for_each(|made| made.remove().unwrap());
}

/// A `still checkpoint` that runs, and what it said so far.
pub struct Saver {
    child: Guard,
    store: PathBuf,
    out: Arc<Mutex<Vec<String>>>,
    reading: JoinHandle<()>,
}

impl Saver {
    fn of(mut child: Guard, store: PathBuf) -> Saver {
        let lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map_while(Result::ok);
        let out = Arc::new(Mutex::new(Vec::new()));
        let heard = out.clone();
        let reading = std::thread::spawn(move || lines.for_each(|line| heard.lock().unwrap().push(line)));
        Saver { child, store, out, reading }
    }

    pub fn said(&self, words: &[&str]) -> bool {
        self.out.lock().unwrap().iter().any(|line| words.iter().all(|word| line.contains(word)))
    }

    /// How many lines have these words.
    pub fn count(&self, words: &[&str]) -> usize {
        self.out.lock().unwrap().iter().filter(|line| words.iter().all(|word| line.contains(word))).count()
    }

    /// Whether it says nothing more.
    pub fn has_ended(&self) -> bool {
        self.reading.is_finished()
    }

    /// Waits until it has said that version 1 is not saved, and when it tries again.
    pub fn await_failure(&self) {
        let words = ["\"failed\"", "\"version\":1", "\"retry_seconds\":0.1", "the runtime of this node"];
        until("it says what it cannot read", || self.said(&words) || self.reading.is_finished());
        assert!(self.said(&words), "{:?}", self.out.lock().unwrap());
    }

    /// Asks it to end, as batch systems do.
    pub fn terminate(&self) {
        let pid = self.child.0.id().to_string();
        assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }

    /// Its exit code, the last line it said, and its complaint.
    pub fn end(mut self) -> (Option<i32>, String, String) {
        until("it ends", || self.child.0.try_wait().unwrap().is_some());
        self.reading.join().unwrap();
        let complaint = std::io::read_to_string(self.child.0.stderr.take().unwrap()).unwrap();
        let last = self.out.lock().unwrap().last().cloned().unwrap_or_default();
        assert_eq!(status_of(&last), status_in(&self.store), "{last} {complaint}");
        (self.child.0.wait().unwrap().code(), last, complaint)
    }

    /// Sees that it ends with a complaint about a version that is not saved.
    pub fn assert_fails(self, what: &str) {
        self.assert_fails_at(1, what);
    }

    pub fn assert_fails_at(self, version: u64, what: &str) {
        let (code, last, complaint) = self.end();
        assert_eq!(code, Some(1), "{what}: {last} {complaint}");
        assert!(complaint.contains(&format!("version {version} is not saved")), "{what}: {complaint}");
        assert!(last.contains("\"ended\"") && last.contains("\"state\":\"failed\""), "{what}: {last}");
        assert!(last.contains(&format!("\"unsaved\":[{version}]")), "{what}: {last}");
    }
}

/// What the last line says of the status, and the file of the store: the numbers of versions, and whether it went well.
fn status_of(line: &str) -> Value {
    summary(&serde_json::from_str::<Value>(line).unwrap_or_default()["status"])
}

fn status_in(store: &Path) -> Value {
    let text = std::fs::read_to_string(store.join("status.json")).unwrap();
    summary(&serde_json::from_str(&text).unwrap())
}

fn summary(status: &Value) -> Value {
    json!([status["state"], status["unsaved"], status["safe"], status["error"]])
}
