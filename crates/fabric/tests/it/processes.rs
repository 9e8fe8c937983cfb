//! Bulk between two processes, of which one is killed while bulk is on its way.

use crate::common::{LONG, options, path, pattern, watchdog};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use stillframe_fabric::Libfabric;
use stillframe_link::{Connection, Error, Identity, Listener, Means, Source, identity};

/// For the other process: what it does, by which provider, whom it connects to, and where the certificate is.
const ROLE: &str = "STILLFRAME_TEST_ROLE";
const BYTES: usize = 64 << 20;

/// The other process: it is a test that does nothing unless it was started by one of the others.
#[test]
fn other() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let [what, provider, address, dir] = role.split(' ').collect::<Vec<_>>()[..] else { panic!("{role}") };
    let _watchdog = watchdog(120);
    let identity = Identity::open(Path::new(dir)).unwrap();
    let means = Means::Fabric(Arc::new(Libfabric::open(provider).unwrap()));
    let connection = Connection::connect(address.parse().unwrap(), &identity, &options(&means), LONG).unwrap();
    let (sender, mut receiver) = connection.split();
    let bytes = pattern(BYTES);
    match what {
        "send" => sender.send(1, &[], Source::Bytes(&bytes), LONG).unwrap(),
        "part" => {
            let mut frame = receiver.next(LONG).unwrap().unwrap();
            frame.read(&mut vec![0; 1 << 20], LONG).unwrap();
            sender.send(3, &[], Source::Nothing, LONG).unwrap();
            // Until it is killed.
            std::thread::sleep(LONG);
            return;
        }
        _ => {
            let mut into = vec![0; BYTES];
            receiver.next(LONG).unwrap().unwrap().read(&mut into, LONG).unwrap();
            assert!(into == bytes);
            sender.send(2, &[], Source::Nothing, LONG).unwrap();
        }
    }
    // Until the other side has what it wants.
    let _ = receiver.next(LONG);
}

struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        // What a killed process leaves in shared memory, nobody else removes.
        let own = format!("{}:", self.0.id());
        let names = std::fs::read_dir("/dev/shm").unwrap().filter_map(|entry| entry.ok());
        let left = names.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own));
        left.for_each(|entry| _ = std::fs::remove_file(entry.path()));
    }
}

/// A process in a role, and the connection to it.
fn start(what: &str, provider: &str) -> Option<(Started, Connection)> {
    let fabric = match Libfabric::open(provider) {
        Ok(fabric) => fabric,
        Err(error) => {
            assert!(!matches!(error, stillframe_fabric::Error::Environment { .. }), "{error}");
            eprintln!("skipped: {error}");
            return None;
        }
    };
    let dir = path("processes");
    let identity = identity::create(&dir, "test", identity::LIFETIME).unwrap();
    let options = options(&Means::Fabric(Arc::new(fabric)));
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), &identity, &options).unwrap();
    let role = format!("{what} {provider} {} {}", listener.address(), dir.display());
    let mut command = Command::new(std::env::current_exe().unwrap());
    let child = command.args(["processes::other", "--exact", "--nocapture"]).env(ROLE, role).spawn().unwrap();
    let child = Started(child);
    let connection = listener.accept(LONG).unwrap().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    Some((child, connection))
}

#[test]
fn bytes_arrive_in_another_process_and_come_from_one() {
    let _watchdog = watchdog(120);
    let bytes = pattern(BYTES);
    for provider in ["tcp", "shm"] {
        let Some((_child, connection)) = start("receive", provider) else { continue };
        let (sender, mut receiver) = connection.split();
        sender.send(1, &[], Source::Bytes(&bytes), LONG).unwrap();
        assert_eq!(receiver.next(LONG).unwrap().unwrap().kind(), 2, "it has all, and it is the same");

        let Some((_child, connection)) = start("send", provider) else { continue };
        let (_sender, mut receiver) = connection.split();
        let mut into = vec![0; BYTES];
        receiver.next(LONG).unwrap().unwrap().read(&mut into, LONG).unwrap();
        assert!(into == bytes, "{provider}");
    }
}

#[test]
fn a_process_that_is_killed_ends_bulk_on_the_other_side() {
    let _watchdog = watchdog(120);
    let much = vec![1; 4 * BYTES];
    for provider in ["tcp", "shm"] {
        let Some((mut child, connection)) = start("send", provider) else { continue };
        let (_sender, mut receiver) = connection.split();
        let mut frame = receiver.next(LONG).unwrap().unwrap();
        frame.read(&mut vec![0; 1 << 20], LONG).unwrap();
        child.0.kill().unwrap();
        let error = frame.read(&mut vec![0; BYTES - (1 << 20)], LONG).unwrap_err();
        assert!(matches!(error, Error::Closed { missing_bytes: 1.., .. }), "{provider}: {error}");

        // It takes a part, and is killed while this side sends the rest.
        let Some((mut child, connection)) = start("part", provider) else { continue };
        let (sender, mut receiver) = connection.split();
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| sender.send(1, &[], Source::Bytes(&much), LONG));
            assert_eq!(receiver.next(LONG).unwrap().unwrap().kind(), 3, "it has a part");
            child.0.kill().unwrap();
            let error = sending.join().unwrap().unwrap_err();
            assert!(matches!(error, Error::Closed { .. }), "{provider}: {error}");
        });
    }
}
