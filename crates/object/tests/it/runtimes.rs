//! Readers beside a runtime that is stopped, that has ended, or that was started again.

use crate::common::{Dir, watchdog};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use stillframe_kernel::folder::Folder;
use stillframe_kernel::local;
use stillframe_object::assembly::Assembly;
use stillframe_object::receiver::Receiver;
use stillframe_object::relay::{Relay, Remote, RemoteFragment};
use stillframe_object::runtime::{LOCK, SOCKET};
use stillframe_object::{Error, Object, Relief, WriteFragment};

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

/// Takes up one reader and answers what it asks first.
fn answer(listener: &UnixListener, reply: &str) -> UnixStream {
    let (mut stream, _) = listener.accept().unwrap();
    let mut line = String::new();
    BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("read"), "{line}");
    writeln!(stream, "{reply}").unwrap();
    stream
}

/// What a runtime answers that has so much memory for fragments of other nodes, all of which is taken.
fn no_memory(bytes: u64, bound_bytes: u64) -> String {
    format!("{{\"nomemory\":{{\"bytes\":{bytes},\"taken_bytes\":{bound_bytes},\"bound_bytes\":{bound_bytes}}}}}")
}

/// Says that a version is wanted.
fn serve(mut stream: UnixStream, number: u64) -> UnixStream {
    writeln!(stream, "{{\"wanted\":{{\"number\":{number},\"next\":null}}}}").unwrap();
    stream
}

fn publish(receiver: &mut Receiver, version: u64, number: u8) {
    let mut loan = receiver.loan().unwrap();
    loan.fill(number);
    receiver.publish(version, 0, loan).unwrap();
}

/// Whether nobody else asked the runtime anything.
fn is_over(listener: &UnixListener) -> bool {
    listener.set_nonblocking(true).unwrap();
    listener.accept().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// What a program gives back, counted: whether it has anything.
struct Spare {
    has_any: bool,
    refused: AtomicU64,
    /// How often it was said before that the runtime is asked once more.
    asked: AtomicU64,
}

impl Relief for Spare {
    fn give_back(&self, had_memory: bool) -> Result<bool, Error> {
        assert!(!had_memory);
        self.refused.fetch_add(1, Ordering::SeqCst);
        Ok(self.has_any)
    }

    fn ask_again(&self) -> Result<(), Error> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

#[test]
fn who_waits_for_nobody_asks_once_more_when_he_has_given_memory_back() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("no-memory");
    let (object, mut relay, _own) = shared(&dir);
    let listener = UnixListener::bind(dir.path().join(".objects").join(SOCKET)).unwrap();
    let mut receiver = relay.receive(SECOND, &Default::default()).unwrap();
    let region = receiver.name().to_string();
    publish(&mut receiver, 2, 7);
    for has_any in [false, true] {
        let mut reader = object.read(SECOND).attach().unwrap();
        let spare = Spare { has_any, refused: AtomicU64::new(0), asked: AtomicU64::new(0) };
        let mut out = [0; 16];
        let outcome = std::thread::scope(|scope| {
            let runtime = scope.spawn(|| {
                drop(answer(&listener, &no_memory(8, 8)));
                has_any.then(|| {
                    let stream = take_up(&listener, &region);
                    // Other reads of the program may be refused from then on because of this one.
                    assert_eq!(spare.asked.load(Ordering::SeqCst), 1);
                    serve(stream, 1)
                })
            });
            let outcome = reader.fill_with(2, Duration::ZERO, &spare, &mut out);
            runtime.join().unwrap();
            outcome
        });
        let counts = [&spare.refused, &spare.asked].map(|count| count.load(Ordering::SeqCst));
        match has_any {
            true => assert!(outcome.is_ok() && out == [7; 16] && counts == [1, 1], "{outcome:?} {counts:?}"),
            false => {
                let error = outcome.unwrap_err();
                assert!(matches!(error, Error::NoMemory { bytes: 8, .. }) && error.is_timeout(), "{error:?}");
                assert_eq!((error.code(), counts), (3107, [1, 0]));
            }
        }
    }
    assert!(is_over(&listener));
}

#[test]
fn what_takes_more_memory_than_there_may_be_is_refused_however_long_somebody_waits() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("never");
    let (object, _relay, _own) = shared(&dir);
    let listener = UnixListener::bind(dir.path().join(".objects").join(SOCKET)).unwrap();
    let mut reader = object.read(SECOND).attach().unwrap();
    let spare = Spare { has_any: true, refused: AtomicU64::new(0), asked: AtomicU64::new(0) };
    std::thread::scope(|scope| {
        scope.spawn(|| answer(&listener, &no_memory(9, 8)));
        let error = reader.fill_with(2, Duration::MAX, &spare, &mut [0; 16]).unwrap_err();
        assert!(matches!(error, Error::NoMemory { bytes: 9, .. }) && !error.is_timeout(), "{error:?}");
    });
    assert!(spare.refused.load(Ordering::SeqCst) == 0 && is_over(&listener));
}

/// A version that is older than those in its region takes another one, as long as there is memory for both.
#[test]
fn who_has_a_fragment_gives_it_back_where_there_is_no_memory_for_another_region_of_it() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("older");
    let (object, mut relay, _own) = shared(&dir);
    let listener = UnixListener::bind(dir.path().join(".objects").join(SOCKET)).unwrap();
    let mut receiver = relay.receive(SECOND, &Default::default()).unwrap();
    let region = receiver.name().to_string();
    publish(&mut receiver, 2, 2);
    publish(&mut receiver, 3, 3);
    let mut reader = object.read(SECOND).attach().unwrap();
    let mut out = [0; 16];
    std::thread::scope(|scope| {
        let runtime = scope.spawn(|| {
            let mut first = serve(take_up(&listener, &region), 1);
            let mut lines = BufReader::new(first.try_clone().unwrap()).lines();
            assert!(lines.next().unwrap().unwrap().contains("version"));
            writeln!(first, "{}", no_memory(8, 8)).unwrap();
            assert!(lines.next().is_none(), "it ends before it is asked for once more");
            drop((first, lines));
            serve(take_up(&listener, &region), 1)
        });
        reader.fill(3, Duration::ZERO, &mut out).unwrap();
        assert_eq!(out, [3; 16]);
        reader.fill(2, Duration::ZERO, &mut out).unwrap();
        assert_eq!(out, [2; 16]);
        runtime.join().unwrap();
    });
}

#[test]
fn who_has_given_a_fragment_back_knows_that_the_runtime_has_its_memory() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("give-back");
    let (object, mut relay, _own) = shared(&dir);
    let listener = UnixListener::bind(dir.path().join(".objects").join(SOCKET)).unwrap();
    let mut receiver = relay.receive(SECOND, &Default::default()).unwrap();
    let region = receiver.name().to_string();
    publish(&mut receiver, 2, 7);
    let mut reader = object.read(SECOND).attach().unwrap();
    let is_given = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = serve(take_up(&listener, &region), 1);
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
            is_given.store(true, Ordering::SeqCst);
        });
        reader.fill(2, Duration::ZERO, &mut [0; 16]).unwrap();
        reader.give_back().unwrap();
        assert!(is_given.load(Ordering::SeqCst));
    });
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

/// Many may ask it at once, and who waits for nobody else waits for it all the same.
#[test]
fn a_runtime_that_takes_nobody_up_has_a_second_to_do_so() {
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
    for timeout in [Duration::ZERO, Duration::from_millis(10)] {
        let begin = Instant::now();
        let refused = reader.reattach(2, timeout);
        assert!(matches!(refused, Err(Error::NoRuntime { .. })), "{refused:?}");
        assert!(begin.elapsed() >= Duration::from_secs(1), "after {:?}: {refused:?}", begin.elapsed());
    }
}

/// It runs, and says what is in its way, as a file system without room: no other one is to be started.
#[test]
fn what_a_runtime_cannot_do_now_is_told_as_it_says() {
    let _watchdog = watchdog(60);
    let dir = Dir::new("no-room");
    let (object, mut relay, _own) = shared(&dir);
    let listener = UnixListener::bind(dir.path().join(".objects").join(SOCKET)).unwrap();
    let mut receiver = relay.receive(SECOND, &Default::default()).unwrap();
    let region = receiver.name().to_string();
    publish(&mut receiver, 2, 7);
    let fail = || writeln!(take_up(&listener, &region), "{{\"failed\":\"there is no room\"}}").unwrap();
    for timeout in [Duration::ZERO, LONG] {
        let mut reader = object.read(SECOND).attach().unwrap();
        std::thread::scope(|scope| {
            let runtime = scope.spawn(|| {
                fail();
                (!timeout.is_zero()).then(|| serve(take_up(&listener, &region), 1))
            });
            let outcome = reader.reattach(2, timeout);
            let served = runtime.join().unwrap();
            match served {
                Some(_) => outcome.unwrap(),
                None => {
                    let error = outcome.unwrap_err();
                    assert!(matches!(&error, Error::Plan { why, .. } if why.contains("no room")), "{error:?}");
                }
            }
        });
    }
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
            // SAFETY: as above. It ends with the test, however that ends.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::pause();
            }
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
