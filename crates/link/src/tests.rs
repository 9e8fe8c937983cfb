//! Who is let in and who is not, and what a peer can do that this crate never does.

use crate::bulk::{Means, Source};
use crate::connection::{Connection, Options};
use crate::deadline::Deadline;
use crate::error::{Error, Refusal, Result};
use crate::frame::{BODY_BYTES_MAX, HEAD_BYTES, Head};
use crate::greeting::{self, BULK, Secret};
use crate::handshake;
use crate::identity::{AUTHORITY, Authority, CERTIFICATE, Identity, KEY};
use crate::listener::Listener;
use crate::places::PLACES_MAX;
use crate::socket::Socket;
use crate::stream::{Incoming, Outgoing};
use std::fs;
use std::io::{IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

#[path = "../../stillframe/tests/it/common/watchdog.rs"]
mod watchdog;

mod strangers;

use watchdog::watchdog;

const LONG: Duration = Duration::from_secs(100);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A directory of one test's own, removed at its end.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/dev/shm/stillframe-test-{}-{number}-link", std::process::id()));
        fs::create_dir(&path).unwrap();
        Dir(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn authority(job: &str) -> Authority {
    let now = SystemTime::now();
    Authority::new(job, now - 9 * DAY, now + 9 * DAY).unwrap()
}

/// A certificate that is good from so many days before now to so many after.
fn issued(authority: &Authority, job: &str, before: u32, after: i32) -> Identity {
    let (dir, now) = (Dir::new(), SystemTime::now());
    let end = if after < 0 { now - after.unsigned_abs() * DAY } else { now + after.unsigned_abs() * DAY };
    authority.issue(&dir.0.join("identity"), job, now - before * DAY, end).unwrap();
    Identity::open(dir.0.join("identity")).unwrap()
}

fn identity() -> Identity {
    issued(&authority("test"), "test", 1, 1)
}

fn options(means: Means) -> Options {
    Options { means, silence: LONG, patience: LONG }
}

fn listen(identity: &Identity, means: Means) -> Listener {
    Listener::bind("127.0.0.1:0".parse().unwrap(), identity, &options(means)).unwrap()
}

/// What both sides say when somebody connects: the one who connects, the one who accepts.
fn meet(connects: &Identity, accepts: &Identity) -> (Error, Error) {
    let listener = listen(accepts, Means::Tls);
    let there = Connection::connect(listener.address(), connects, &options(Means::Tls), LONG).unwrap_err();
    (there, listener.accept(LONG).unwrap_err())
}

fn refusal(error: &Error) -> &Refusal {
    match error {
        Error::Refused { why, .. } => why,
        other => panic!("no refusal: {other}"),
    }
}

#[test]
fn a_certificate_of_another_authority_is_refused_on_both_sides() {
    let _watchdog = watchdog(60);
    let (connects, accepts) = meet(&identity(), &identity());
    assert_eq!(refusal(&connects), &Refusal::OtherAuthority);
    assert!(accepts.to_string().contains("still node certificate"), "{accepts}");
    assert!(matches!(accepts, Error::RefusedThere { .. }), "{accepts}");
}

#[test]
fn a_certificate_of_another_job_of_the_same_authority_is_refused() {
    let _watchdog = watchdog(60);
    let authority = authority("site");
    let (one, two) = (issued(&authority, "one", 1, 1), issued(&authority, "two", 1, 1));
    let (connects, _) = meet(&one, &two);
    assert_eq!(refusal(&connects), &Refusal::OtherJob { job: "one".into() });
    // Also by whoever accepts, if the one who connects does not look.
    let mut careless = one.clone();
    careless.name = two.name.clone();
    let (connects, accepts) = meet(&careless, &two);
    assert_eq!(refusal(&accepts), &Refusal::OtherJob { job: "two".into() });
    assert!(connects.to_string().contains("another job"), "{connects}");
}

#[test]
fn a_job_has_the_number_of_no_other_one_of_its_name_or_of_its_authority() {
    let (site, other) = (authority("site"), authority("site"));
    let number = |authority: &Authority, job: &str| issued(authority, job, 1, 1).number();
    let one = number(&site, "one");
    assert_eq!(number(&site, "one"), one, "another certificate of the same job");
    assert_ne!(number(&site, "two"), one);
    assert_ne!(number(&other, "one"), one);
}

#[test]
fn a_certificate_that_has_expired_or_is_not_valid_yet_is_refused() {
    let _watchdog = watchdog(60);
    let authority = authority("test");
    let (good, old) = (issued(&authority, "test", 1, 1), issued(&authority, "test", 3, -2));
    let (connects, _) = meet(&good, &old);
    assert_eq!(refusal(&connects), &Refusal::Expired);
    let (connects, accepts) = meet(&old, &good);
    assert_eq!(refusal(&accepts), &Refusal::Expired);
    assert!(connects.to_string().contains("has expired"), "{connects}");
}

#[test]
fn who_shows_no_certificate_is_refused_and_told_so() {
    let _watchdog = watchdog(60);
    let good = identity();
    let (connects, accepts) = meet(&good.without_certificate(), &good);
    assert_eq!(refusal(&accepts), &Refusal::NoCertificate);
    assert!(connects.to_string().contains("shows no certificate"), "{connects}");
}

#[test]
fn who_speaks_something_else_is_refused_and_nobody_waits_for_it() {
    let _watchdog = watchdog(60);
    let good = identity();
    let listener = listen(&good, Means::Plain);
    // Some say nothing, for as long as they like.
    let silent: Vec<_> = (0..PLACES_MAX / 2).map(|_| TcpStream::connect(listener.address()).unwrap()).collect();
    let mut other = TcpStream::connect(listener.address()).unwrap();
    other.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    assert!(matches!(refusal(&listener.accept(LONG).unwrap_err()), Refusal::NotTls { .. }));
    drop(other);
    for begin in [b"SFLX".as_slice(), b"SF", &[22, 3, 1, 0xff, 0xff]] {
        let mut other = TcpStream::connect(listener.address()).unwrap();
        other.write_all(begin).unwrap();
        other.shutdown(std::net::Shutdown::Write).unwrap();
        listener.accept(LONG).unwrap_err();
    }
    let connected = Connection::connect(listener.address(), &good, &options(Means::Plain), LONG).unwrap();
    assert!(listener.accept(LONG).unwrap().is_some());
    drop((silent, connected));
}

/// An accept that gets no word of one of them waits for ever, which the watchdog sees.
#[test]
fn whatever_somebody_sends_in_the_place_of_a_handshake_is_refused() {
    let _watchdog = watchdog(90);
    let good = identity();
    let listener = listen(&good, Means::Tls);
    let whole = handshake::first_bytes(&good);
    let mut word = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        (word % below as u64) as usize
    };
    for round in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..1 + next(4) {
            let at = if round % 3 == 0 { next(64) } else { next(bytes.len()) };
            bytes[at] = next(256) as u8;
        }
        match round % 4 {
            0 => bytes.truncate(next(bytes.len())),
            1 => bytes.extend((0..next(300)).map(|byte| byte as u8)),
            2 => bytes.extend_from_slice(&whole),
            _ => {}
        }
        let mut other = TcpStream::connect(listener.address()).unwrap();
        other.write_all(&bytes).unwrap();
        other.shutdown(std::net::Shutdown::Write).unwrap();
        let error = listener.accept(LONG).unwrap_err();
        assert!(!error.to_string().contains("fails over"), "{bytes:02x?}: {error}");
    }
}

#[test]
fn whoever_connects_and_says_nothing_is_given_up() {
    let _watchdog = watchdog(60);
    let options = Options { patience: Duration::from_millis(30), ..options(Means::Tls) };
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), &identity(), &options).unwrap();
    let mut silent = TcpStream::connect(listener.address()).unwrap();
    let error = listener.accept(LONG).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert_eq!(silent.read(&mut [0]).unwrap_or(0), 0, "it is cut off");
}

#[test]
fn sides_that_send_bulk_in_different_ways_say_so() {
    let _watchdog = watchdog(60);
    let good = identity();
    let listener = listen(&good, Means::Plain);
    let connects = Connection::connect(listener.address(), &good, &options(Means::Tls), LONG).unwrap_err();
    let accepts = listener.accept(LONG).unwrap_err();
    assert_eq!(refusal(&connects), &Refusal::OtherBulk { theirs: "plain".into(), ours: "tls".into() });
    assert_eq!(refusal(&accepts), &Refusal::OtherBulk { theirs: "tls".into(), ours: "plain".into() });
}

#[test]
fn a_listener_that_is_dropped_listens_no_more() {
    let _watchdog = watchdog(60);
    let good = identity();
    let listener = listen(&good, Means::Tls);
    let address = listener.address();
    assert!(listener.accept(Duration::from_millis(5)).unwrap().is_none());
    drop(listener);
    let error = Connection::connect(address, &good, &options(Means::Tls), LONG).unwrap_err();
    assert!(matches!(error, Error::Connect { .. } | Error::Closed { .. }), "{error}");
}

/// The first half of what connects for plain bulk: in TLS, and the secret of it.
fn in_tls(listener: &Listener, identity: &Identity) -> Result<(Outgoing, Incoming, Secret)> {
    let deadline = Deadline::after(LONG);
    let socket = Arc::new(Socket::connect(listener.address(), LONG, deadline)?);
    let (mut out, mut incoming) = handshake::connect(&socket, identity, deadline)?;
    let own = greeting::random()?;
    greeting::greet(&mut out, &Means::Plain, &own, deadline)?;
    let other = greeting::be_greeted(&mut incoming, &Means::Plain, deadline)?;
    Ok((out, incoming, Secret::of_connection(&own, &other)))
}

#[test]
fn a_connection_for_bulk_without_proof_is_cut_off_and_the_right_one_still_let_in() {
    let _watchdog = watchdog(60);
    let good = identity();
    let deadline = Deadline::after(LONG);
    let listener = listen(&good, Means::Plain);
    let (_out, _incoming, secret) = in_tls(&listener, &good).unwrap();
    let stranger = || Socket::connect(listener.address(), LONG, deadline).unwrap();
    // Of a connection that nobody made.
    let other = Secret::of_connection(&[1; 32], &[2; 32]);
    greeting::connect_bulk(&stranger(), &other, deadline).unwrap_err();
    assert_eq!(refusal(&listener.accept(LONG).unwrap_err()), &Refusal::NoProof);
    // With the ticket, which can be seen on the network, and without the key.
    let socket = stranger();
    let version = crate::frame::VERSION.to_le_bytes();
    let ticket = secret.ticket();
    let mut claim = [&BULK[..], &version, &ticket, &[3; 32]].map(IoSlice::new);
    socket.send(&mut claim, deadline).unwrap();
    let mut answer = [0; 64];
    socket.receive_all(&mut answer, deadline).unwrap();
    // Neither a guess nor the other side's own proof does.
    socket.send(&mut [IoSlice::new(&answer[32..])], deadline).unwrap();
    assert_eq!(socket.receive(&mut answer, deadline).unwrap_or(0), 0);
    assert_eq!(refusal(&listener.accept(LONG).unwrap_err()), &Refusal::NoProof);
    // The right one, once.
    greeting::connect_bulk(&stranger(), &secret, deadline).unwrap();
    assert!(listener.accept(LONG).unwrap().is_some());
    greeting::connect_bulk(&stranger(), &secret, deadline).unwrap_err();
    assert_eq!(refusal(&listener.accept(LONG).unwrap_err()), &Refusal::NoProof);
}

/// A peer that may send anything, and a connection that receives it.
fn bare() -> (Outgoing, Incoming, Connection) {
    let good = identity();
    let listener = listen(&good, Means::Tls);
    let deadline = Deadline::after(LONG);
    let socket = Arc::new(Socket::connect(listener.address(), LONG, deadline).unwrap());
    let (mut out, mut incoming) = handshake::connect(&socket, &good, deadline).unwrap();
    greeting::greet(&mut out, &Means::Tls, &[0; 32], deadline).unwrap();
    greeting::be_greeted(&mut incoming, &Means::Tls, deadline).unwrap();
    (out, incoming, listener.accept(LONG).unwrap().unwrap())
}

#[test]
fn heads_that_say_too_much_and_bytes_that_are_no_head_end_the_connection() {
    let _watchdog = watchdog(60);
    let mut too_long = Head::new(1, 0, 0).unwrap().encode();
    too_long[8..12].copy_from_slice(&(BODY_BYTES_MAX as u32 + 1).to_le_bytes());
    let mut too_much = Head::new(1, 0, 0).unwrap().encode();
    too_much[12..].copy_from_slice(&u64::MAX.to_le_bytes());
    for bytes in [[0; HEAD_BYTES], [0xff; HEAD_BYTES], too_long, too_much] {
        let (mut out, _incoming, connection) = bare();
        out.send(&[&bytes], Deadline::after(LONG)).unwrap();
        let (_sender, mut receiver) = connection.split();
        let error = receiver.next(LONG).unwrap_err();
        assert!(matches!(error, Error::Malformed { .. }), "{error}");
        assert!(matches!(receiver.next(LONG), Err(Error::Ended { .. })));
    }
}

#[test]
fn a_record_that_was_changed_on_its_way_ends_the_connection() {
    let _watchdog = watchdog(60);
    let (out, _incoming, connection) = bare();
    let mut record = vec![23, 3, 3, 0, 40];
    record.resize(45, 9);
    out.socket().send(&mut [IoSlice::new(&record)], Deadline::after(LONG)).unwrap();
    let error = connection.split().1.next(LONG).unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }), "{error}");
}

#[test]
fn a_head_may_come_in_parts_and_while_it_does_nothing_is_lost() {
    let _watchdog = watchdog(60);
    let (mut out, _incoming, connection) = bare();
    let (_sender, mut receiver) = connection.split();
    let head = Head::new(5, 3, 0).unwrap().encode();
    for part in head.chunks(7) {
        assert!(receiver.next(Duration::from_millis(3)).unwrap().is_none());
        out.send(&[part], Deadline::after(LONG)).unwrap();
    }
    out.send(&[b"abc"], Deadline::after(LONG)).unwrap();
    let frame = receiver.next(LONG).unwrap().unwrap();
    assert_eq!((frame.kind(), frame.body()), (5, b"abc".as_slice()));
}

#[test]
fn bulk_that_does_not_come_in_time_ends_the_connection() {
    let _watchdog = watchdog(60);
    let (mut out, _incoming, connection) = bare();
    let (_sender, mut receiver) = connection.split();
    let head = Head::new(5, 0, 1000).unwrap().encode();
    out.send(&[&head, &[1; 999]], Deadline::after(LONG)).unwrap();
    let mut frame = receiver.next(LONG).unwrap().unwrap();
    let error = frame.read(&mut [0; 1000], Duration::from_millis(20)).unwrap_err();
    assert!(matches!(error, Error::Timeout { is_intact: false, .. }), "{error}");
    let farewell = out.send(&[&[1]], Deadline::after(LONG)).is_ok();
    let _ = farewell;
    assert!(matches!(receiver.next(LONG), Err(Error::Ended { .. })));
}

#[test]
fn keys_change_on_the_way_and_nobody_notices() {
    let _watchdog = watchdog(60);
    let (mut out, mut incoming, connection) = bare();
    out.sealer().set_key_records(3);
    let (sender, mut receiver) = connection.split();
    thread::scope(|scope| {
        scope.spawn(|| {
            for kind in 0..50 {
                let head = Head::new(kind, 40_000, 0).unwrap().encode();
                out.send(&[&head, &vec![kind as u8; 40_000]], Deadline::after(LONG)).unwrap();
            }
        });
        for kind in 0..50 {
            let frame = receiver.next(LONG).unwrap().unwrap();
            assert_eq!(frame.kind(), kind);
            assert!(frame.body().len() == 40_000 && frame.body().iter().all(|byte| *byte == kind as u8));
        }
    });
    sender.send(7, &[], Source::Nothing, LONG).unwrap();
    let mut head = [0; HEAD_BYTES];
    assert_eq!(incoming.receive(&mut head, Deadline::after(LONG)).unwrap(), HEAD_BYTES);
    assert_eq!(Head::decode(&head).unwrap().kind, 7);
}

#[test]
fn files_of_an_identity_are_looked_at_before_they_are_believed() {
    let dir = Dir::new();
    let place = dir.0.join("identity");
    let whole = || {
        let _ = fs::remove_dir_all(&place);
        assert_eq!(crate::identity::create(&place, "heat-17_a", DAY).unwrap().job(), "heat-17_a");
    };
    let why = || match Identity::open(&place).unwrap_err() {
        Error::Identity { path, why } => (path.file_name().unwrap().to_string_lossy().into_owned(), why),
        other => panic!("{other}"),
    };
    whole();
    assert_eq!(fs::metadata(place.join(KEY)).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o700);
    let error = crate::identity::create(&place, "heat", DAY).unwrap_err();
    assert!(error.to_string().contains("there is a certificate already"), "{error}");
    assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 1, "nothing is left of what was in vain");

    fs::set_permissions(place.join(KEY), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(why().1.contains("mode is 640"), "{:?}", why());
    whole();
    fs::write(place.join(CERTIFICATE), "nothing").unwrap();
    assert_eq!(why().0, CERTIFICATE);
    whole();
    fs::remove_file(place.join(AUTHORITY)).unwrap();
    assert_eq!(why().0, AUTHORITY);
    fs::create_dir(place.join(AUTHORITY)).unwrap();
    assert!(why().1.contains("no regular file"), "{:?}", why());
    // A key that is not the certificate's.
    whole();
    let other = Dir::new();
    crate::identity::create(other.0.join("other"), "heat", DAY).unwrap();
    fs::copy(other.0.join("other").join(KEY), place.join(KEY)).unwrap();
    assert!(why().1.contains("cannot be used with its key"), "{:?}", why());
    for job in ["", "Heat", "a.b", "-a", "a-", "ä", &"a".repeat(64)] {
        let error = crate::identity::create(dir.0.join("another"), job, DAY).unwrap_err();
        assert!(error.to_string().contains("cannot be a job's name"), "{error}");
    }
}
