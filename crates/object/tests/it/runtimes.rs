//! Readers beside a runtime that is stopped, that has ended, or that was started again.

use crate::common::{Dir, watchdog};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};
use stillframe_kernel::folder::Folder;
use stillframe_kernel::local;
use stillframe_object::assembly::Assembly;
use stillframe_object::relay::{Relay, Remote, RemoteFragment};
use stillframe_object::runtime::{LOCK, SOCKET};
use stillframe_object::{Error, Object, WriteFragment};

/// A wait that hangs ends.
const LONG: Duration = Duration::from_secs(30);

const FIRST: &str = "{ var v [x:4] = u[x] }";
const SECOND: &str = "{ var v [x:4] = u[x+4] }";

/// An object whose first half is written here, and the second half on another node.
fn shared(dir: &Dir) -> (Object, Relay, WriteFragment) {
    let object = dir.objects().create("u", "var u [8] int32").create().unwrap();
    let own = object.write(FIRST).attach().unwrap();
    let mut relay = object.relay();
    let (remote, bindings) = (Remote { node: 2, host: "node2".into(), number: 0 }, Default::default());
    let (text, left) = (SECOND.into(), None);
    let (process, rank, from, died, writers) = (1, None, 1, false, None);
    relay.tell(&[RemoteFragment { remote, process, rank, from, left, died, text, bindings, writers }]).unwrap();
    relay.decide(own.number(), Ok(())).unwrap();
    (object, relay, own)
}

/// Takes up one reader, names the region that is filled for it, and returns the connection once a version was asked for.
fn take_up(listener: &UnixListener, region: &str) -> UnixStream {
    let (mut stream, _) = listener.accept().unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("read"));
    writeln!(stream, "{{\"reading\":\"{region}\"}}").unwrap();
    assert!(lines.next().unwrap().unwrap().contains("version"));
    stream
}

/// The next runtime counts its regions from the first one on, and may give the region of one reader to another.
#[test]
fn a_reader_takes_nothing_from_a_region_that_the_next_runtime_fills_for_another() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("next-runtime");
    let (object, mut relay, _own) = shared(&dir);
    let listener = UnixListener::bind(dir.path().join(".objects").join(SOCKET)).unwrap();
    let receiver = relay.receive(SECOND, &Default::default()).unwrap();
    let region = receiver.name().to_string();
    let mut reader = object.read(SECOND).attach().unwrap();
    let connection = std::thread::scope(|scope| {
        let runtime = scope.spawn(|| take_up(&listener, &region));
        let timeout = reader.reattach(2, Duration::from_millis(500));
        assert!(matches!(timeout, Err(Error::TimeoutElsewhere { .. })), "{timeout:?}");
        runtime.join().unwrap()
    });
    drop((connection, listener, receiver, relay));
    let mut receiver = object.relay().receive(FIRST, &Default::default()).unwrap();
    assert_eq!(receiver.name(), region);
    let mut loan = receiver.loan().unwrap();
    loan.fill(7);
    receiver.publish(2, 0, loan).unwrap();
    let refused = reader.reattach(2, Duration::ZERO);
    assert!(matches!(refused, Err(Error::NoRuntime { .. })), "{refused:?}");
}

#[test]
fn a_runtime_that_takes_nobody_up_keeps_no_reader_longer_than_it_would_wait() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("stopped");
    let (object, _relay, _own) = shared(&dir);
    let objects = dir.path().join(".objects");
    let folder = Folder::open(&objects, true).unwrap();
    let _listener = local::listen(local::Kind::Stream, &folder, SOCKET, "made", 0o600, 0).unwrap();
    let connect = || local::connect_as(local::Kind::Stream, &objects.join(SOCKET), Instant::now());
    let mut waiting = Vec::new();
    while let Ok(connection) = connect() {
        waiting.push(connection);
    }
    let mut reader = object.read(SECOND).attach().unwrap();
    let refused = reader.reattach(2, Duration::from_millis(10));
    assert!(matches!(refused, Err(Error::NoRuntime { .. })), "{refused:?}");
}

/// Somebody of another node may take the place of a writer that is gone, and write the version as well.
#[test]
fn a_reader_that_has_read_before_waits_as_any_other_for_what_a_dead_writer_was_ahead_with() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("read-before");
    let object = dir.objects().create("u", "var u [8] int32").create().unwrap();
    let mut relay = object.relay();
    let half = |text| object.write(text).attach().unwrap();
    let (mut dying, mut other) = (half(FIRST), half(SECOND));
    [&dying, &other].into_iter().for_each(|writer| relay.decide(writer.number(), Ok(())).unwrap());
    assert_eq!(relay.look().unwrap().unwrap().len(), 2);
    let publish = |writer: &mut WriteFragment, version: u64| {
        writer.variable_mut::<i32>("v").unwrap().fill(version as i32);
        writer.publish(version).unwrap();
    };
    let mut reader = object.read(FIRST).attach().unwrap();
    for version in 1..=2 {
        [&mut dying, &mut other].into_iter().for_each(|writer| publish(writer, version));
        assert!(relay.complete(version).unwrap());
        reader.reattach(version, LONG).unwrap();
    }
    publish(&mut dying, 3);
    // Of a writer that lives it is had at once.
    reader.reattach(3, LONG).unwrap();
    publish(&mut dying, 4);
    drop(dying);
    let mut fresh = object.read(FIRST).attach().unwrap();
    for reader in [&mut fresh, &mut reader] {
        let early = reader.reattach(4, Duration::ZERO);
        assert!(matches!(early, Err(Error::Timeout { .. })), "{early:?}");
    }
    (3..=4).for_each(|version| publish(&mut other, version));
    assert!(relay.complete(4).unwrap());
    for reader in [&mut fresh, &mut reader] {
        reader.reattach(4, LONG).unwrap();
        assert_eq!(reader.variable::<i32>("v").unwrap(), [4; 4]);
    }
}

/// Nobody would tell the runtime of it, and the next writer would begin with zeros.
#[test]
fn a_version_is_restored_where_the_runtime_runs_or_none_was_there() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("restored");
    let objects = dir.objects();
    let source = objects.create("source", "var u [8] int32").create().unwrap();
    let mut all = source.write("{ var v = u }").attach().unwrap();
    all.variable_mut::<i32>("v").unwrap().fill(7);
    all.publish(40).unwrap();
    let mut assembly = Assembly::new(&source, 1).unwrap();
    assembly.take(40, LONG).unwrap();
    let snapshot = assembly.observe().unwrap().newest().unwrap();
    let object = objects.create("u", "var u [8] int32").create().unwrap();
    let alone = objects.create("alone", "var u [8] int32").create().unwrap();
    alone.adopt(&snapshot).unwrap();
    assert_eq!(alone.newest().unwrap(), 40);
    // One that has ended, and may be started again.
    std::fs::write(dir.path().join(".objects").join(LOCK), "").unwrap();
    let refused = object.adopt(&snapshot);
    assert!(matches!(refused, Err(Error::NoRuntime { .. })), "{refused:?}");
    assert!(object.writers().unwrap().is_empty(), "{:?}", object.writers());
    assert_eq!(object.newest().unwrap(), 0);
}

/// The runtime fills a fragment for as long as its connection is open.
#[test]
#[allow(unsafe_code)]
fn a_forked_child_keeps_no_fragment_filled_that_its_parent_has_detached() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("child");
    let (object, mut relay, _own) = shared(&dir);
    let listener = UnixListener::bind(dir.path().join(".objects").join(SOCKET)).unwrap();
    let receiver = relay.receive(SECOND, &Default::default()).unwrap();
    let region = receiver.name().to_string();
    let mut reader = object.read(SECOND).attach().unwrap();
    let mut connection = std::thread::scope(|scope| {
        let runtime = scope.spawn(|| take_up(&listener, &region));
        let timeout = reader.reattach(2, Duration::from_millis(500));
        assert!(matches!(timeout, Err(Error::TimeoutElsewhere { .. })), "{timeout:?}");
        runtime.join().unwrap()
    });
    connection.set_nonblocking(true).unwrap();
    assert_eq!(connection.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    // SAFETY: the child only waits until it is ended.
    let child = unsafe { libc::fork() };
    if child == 0 {
        loop {
            // SAFETY: as above.
            unsafe { libc::pause() };
        }
    }
    drop(reader);
    let end = connection.read(&mut [0]);
    // SAFETY: the child is this process's own, and was not waited for.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    assert_eq!(end.unwrap(), 0, "the runtime sees that nobody wants the fragment any more");
}
