//! Runtimes as processes, with few descriptors.

use crate::common::watchdog;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);

/// A runtime, which is killed when this is dropped.
struct Node(Child);

impl Node {
    /// The certificate is named as a person does who is in its directory.
    fn start(place: &Path, name: &str, descriptors: u64) -> Node {
        let program = env!("CARGO_BIN_EXE_still-node");
        let run = format!(
            "ulimit -n {descriptors}; exec '{program}' run --dir '{}/{name}' --certificate certificate --listen 127.0.0.1 --name {name}",
            place.display()
        );
        let mut command = Command::new("sh");
        let mut child = command.args(["-c", &run]).current_dir(place).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("listens at"), "{line}");
        Node(child)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn connect(place: &Path, name: &str) -> Option<BufReader<UnixStream>> {
    let stream = UnixStream::connect(place.join(name).join(".objects/runtime")).ok()?;
    stream.set_read_timeout(Some(LONG)).unwrap();
    Some(BufReader::new(stream))
}

fn nodes(stream: &mut BufReader<UnixStream>) -> String {
    let mut line = String::new();
    let _ = stream.get_mut().write_all(b"\"nodes\"\n").and_then(|()| stream.read_line(&mut line).map(drop));
    line
}

/// More programs than the runtime has descriptors for leave those that it needs for other nodes.
#[test]
fn programs_take_no_descriptor_that_is_for_other_nodes() {
    let _watchdog = watchdog(180);
    let place = tempfile::Builder::new().prefix("stillframe-test-descriptors-").tempdir_in("/dev/shm").unwrap();
    let place = place.path();
    stillframe_link::identity::create(place.join("certificate"), "few", Duration::from_secs(3600)).unwrap();
    let _few = Node::start(place, "few", 256);
    let mut first = connect(place, "few").unwrap();
    assert!(nodes(&mut first).contains("few"));
    let many: Vec<_> = (0..400).filter_map(|_| connect(place, "few")).collect();
    // Who is refused is told why.
    let told: Vec<String> = many.into_iter().map(|mut stream| nodes(&mut stream)).collect();
    let many: Vec<_> = (0..400).filter_map(|_| connect(place, "few")).collect();
    let _other = Node::start(place, "other", 256);
    let mut there = connect(place, "other").unwrap();
    let begin = Instant::now();
    loop {
        let (here, there) = (nodes(&mut first), nodes(&mut there));
        if [&here, &there].iter().all(|nodes| nodes.contains(r#""is_connected":true"#)) {
            break;
        }
        assert!(begin.elapsed() < LONG, "{here} {there}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(told.iter().all(|told| told.contains("few") || told.contains("ulimit -n") || told.is_empty()), "{told:?}");
    drop(many);
}
