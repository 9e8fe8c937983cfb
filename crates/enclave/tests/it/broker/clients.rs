//! Clients that are silent, send garbage or files, or are many: nobody waits for them.

use super::place::answer;
use super::{LONG, Place, lingering};
use crate::common::watchdog;
use crate::helper::{Play, check_play, start, until};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;
use stillframe::Observer;
use stillframe_kernel::local;
use stillframe_segment::broker::{Answer, Question};

#[test]
fn who_says_nothing_or_garbage_holds_nobody_up() {
    let _watchdog = watchdog(300);
    let place = Place::new("garbage", false);
    let broker = place.serve();
    let mut play = Play::open(place.options(), "r");
    play.step();
    let connect = || local::connect(&place.socket(), Instant::now() + LONG).unwrap();
    let silent: Vec<_> = (0..200).map(|_| connect()).collect();
    for garbage in
        [&b"\0"[..], b"GET / HTTP/1.1\r\n\r\n", b"\xff\xfe", &[b'x'; 100_000], b"stillframe broker 1\nopen\na\nb"]
    {
        let socket = connect();
        assert!(local::send(&socket, garbage, &[]).unwrap());
        assert!(matches!(Answer::decode(&answer(&socket)), Ok(Answer::Refused { .. })));
        check_play(&place.open("r").unwrap().newest().unwrap());
    }
    for name in ["../../etc/passwd", "/etc/passwd", "..", ".", "", "r/../r", "r/head", "a\0b", &"x".repeat(3000)] {
        let socket = connect();
        assert!(local::send(&socket, &Question::Open { name: name.into() }.encode(), &[]).unwrap());
        assert_eq!(Answer::decode(&answer(&socket)), Ok(Answer::Missing), "{name}");
    }
    let identity = std::fs::metadata(place.regions().join("r/head")).unwrap();
    let identity = (identity.dev(), identity.ino());
    for file in ["../r/head", "lease.producer", "/etc/passwd", ""] {
        let socket = connect();
        let question = Question::More { name: "r".into(), identity, files: vec![file.into()] };
        assert!(local::send(&socket, &question.encode(), &[]).unwrap());
        assert_eq!(Answer::decode(&answer(&socket)), Ok(Answer::More { files: Vec::new() }), "{file}");
    }
    // Those that said nothing are let go, and no descriptor of theirs stays.
    for socket in &silent {
        let mut bytes = [0; 16];
        until("the silent to be let go", || local::wait_any(&[socket.as_fd()], Some(LONG)).unwrap()[0]);
        assert_eq!(local::receive(socket, &mut bytes).unwrap().unwrap().bytes, 0);
    }
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", broker.pid())).unwrap().count();
    until("its descriptors to be few", || descriptors() < 20);
}

#[test]
fn a_file_whose_close_waits_holds_no_broker_up() {
    let _watchdog = watchdog(300);
    for role in ["broker", "old"] {
        let place = Place::new("linger", false);
        let mut play = Play::open(place.options(), "r");
        play.step();
        let (socket, regions) = (place.socket(), place.regions());
        let mut broker = start(role, &[socket.to_str().unwrap(), regions.to_str().unwrap(), "666"]);
        broker.expect("serves");
        let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", broker.pid())).unwrap().count();
        let before = descriptors();
        let connect = || local::connect(&place.socket(), Instant::now() + LONG).unwrap();
        let (mut others, mut closes) = (Vec::new(), Vec::new());
        for number in 0..30 {
            let (client, (stream, other)) = (connect(), lingering());
            let question = Question::Names { after: String::new() }.encode();
            // With nothing, with its question, or behind it.
            let bytes: &[u8] = if number % 3 == 0 { b"" } else { &question };
            if number % 3 == 2 {
                assert!(local::send(&client, &question, &[]).unwrap());
            }
            if let Err(failure) = local::send(&client, bytes, &[stream.as_fd()]) {
                // It is refused, or the broker has ended the connection with its answer.
                let is_expected = match failure.errno() {
                    libc::EPERM => role == "broker",
                    errno => errno == libc::EPIPE && number % 3 == 2,
                };
                assert!(is_expected, "{role}: {failure}");
            }
            // Whoever closes the last copy waits: this thread or the broker's.
            closes.push(std::thread::spawn(move || drop(stream)));
            others.push(other);
        }
        for _ in 0..20 {
            check_play(&place.open("r").unwrap().newest().unwrap());
        }
        drop(others);
        closes.into_iter().for_each(|close| close.join().unwrap());
        until("what was sent to be closed", || descriptors() <= before);
        broker.finish();
    }
}

/// What an answer about an arena takes of a broker until it is taken: two files and the connection.
const DESCRIPTORS: u64 = 3;

#[test]
fn a_thousand_clients_at_once_are_all_served() {
    let _watchdog = watchdog(300);
    let place = Place::new("thousand", true);
    let (socket, regions) = (place.socket(), place.regions());
    let mut broker = start("ample", &[socket.to_str().unwrap(), regions.to_str().unwrap(), "666"]);
    broker.expect("serves");
    let mut play = Play::open(place.options(), "r");
    play.step();
    let address = place.address(place.shown());
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                for _ in 0..10 {
                    check_head(&Observer::options().open(&address).unwrap());
                }
            });
        }
    });
    // And all connected and heard at one moment, before the first of them is answered: as many as one user may leave untaken for as long
    // as he likes, in all an eighth of what a broker may have open, and as many as may wait.
    let question = Question::Open { name: place.shown().into() }.encode();
    stillframe_kernel::descriptors::raise_limit();
    let most = stillframe_kernel::descriptors::limit();
    let waiting: u64 = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse().unwrap();
    let count = (most / 8 / DESCRIPTORS).min(waiting).min(1000);
    if count < 100 {
        return eprintln!("skipped: only {count} connections may wait here, or be answered and not taken");
    }
    let connect = || local::connect(&place.socket(), Instant::now() + LONG).unwrap();
    broker.stop();
    let ask = |_| {
        let socket = connect();
        assert!(local::send(&socket, &question, &[]).unwrap());
        socket
    };
    let sockets: Vec<_> = (0..count).map(ask).collect();
    broker.signal(libc::SIGCONT);
    for socket in &sockets {
        let mut bytes = [0; 4096];
        until("an answer", || local::wait_any(&[socket.as_fd()], Some(LONG)).unwrap()[0]);
        let message = local::receive(socket, &mut bytes).unwrap().unwrap();
        assert_eq!(message.files.len(), 2);
    }
}

fn check_head(observer: &Observer) {
    assert_eq!(observer.newest().unwrap().version(), 1);
}

#[test]
fn a_name_that_is_asked_for_many_times_is_answered_once() {
    let _watchdog = watchdog(300);
    let place = Place::new("twice", false);
    let _broker = place.serve();
    let mut play = Play::open(place.options(), "r");
    play.step();
    let about = std::fs::metadata(place.regions().join("r/head")).unwrap();
    let files = (0..200).map(|number| if number % 2 == 0 { "head" } else { "lease" }.to_string()).collect();
    let question = Question::More { name: "r".into(), identity: (about.dev(), about.ino()), files };
    let socket = place.connect();
    assert!(local::send(&socket, &question.encode(), &[]).unwrap());
    assert_eq!(place.hear(&socket), (Answer::More { files: vec!["head".into(), "lease".into()] }, 2));
}
