//! What every way for bulk keeps to. Whoever has some says which, by `bulk::ways`.

use super::bulk::ways;
use super::common::{LONG, file, identity, options, pair, pattern, watchdog};
use std::io::IoSliceMut;
use std::thread;
use std::time::Duration;
use stillframe_link::{Connection, Error, Listener, Options, Source};

#[test]
fn bytes_arrive_as_they_were_sent_from_memory_and_from_a_file_whatever_their_number() {
    let _watchdog = watchdog(300);
    let bytes = pattern(256 << 20);
    let at = 4097;
    let file = file(at, &bytes);
    for means in &ways() {
        let (sends, receives) = pair(means);
        let sizes = [0, 1, 4095, 4096, 16_384, 16_385, 1_000_003, bytes.len()];
        thread::scope(|scope| {
            let (sender, _keep) = sends.split();
            let (bytes, file) = (&bytes, &file);
            scope.spawn(move || {
                let _keep = _keep;
                for (round, size) in sizes.into_iter().enumerate() {
                    let (body, kind) = ([round as u8; 33], round as u16);
                    sender.send(kind, &body, Source::Bytes(&bytes[..size]), LONG).unwrap();
                    sender.send(kind, &body[1..], Source::file(file, at, size as u64), LONG).unwrap();
                    let (one, two) = bytes[..size].split_at(size / 3);
                    sender.send(kind, &[], Source::Pieces(&[one, &[], two]), LONG).unwrap();
                }
            });
            let (_keep, mut receiver) = receives.split();
            let mut into = vec![0; bytes.len()];
            for (round, size) in sizes.into_iter().enumerate() {
                for body_bytes in [33, 32, 0] {
                    let mut frame = receiver.next(LONG).unwrap().unwrap();
                    assert_eq!((frame.kind(), frame.body()), (round as u16, &[round as u8; 33][..body_bytes]));
                    assert_eq!((frame.bulk_bytes(), frame.left_bytes()), (size as u64, size as u64), "{means}");
                    into[..size].fill(0);
                    frame.read(&mut into[..size], LONG).unwrap();
                    assert_eq!(frame.left_bytes(), 0);
                    assert!(into[..size] == bytes[..size], "{size} bytes by {means}");
                }
            }
        });
    }
}

#[test]
fn bulk_is_taken_in_pieces_in_part_or_not_at_all_and_what_follows_is_whole() {
    let _watchdog = watchdog(120);
    let bytes = pattern(3_000_000);
    for means in &ways() {
        let (sends, receives) = pair(means);
        let ((sender, _keep), (_other, mut receiver)) = (sends.split(), receives.split());
        thread::scope(|scope| {
            let bytes = &bytes;
            scope.spawn(move || {
                for kind in 0..4 {
                    sender.send(kind, b"body", Source::Bytes(bytes), LONG).unwrap();
                }
                sender
            });
            // In pieces, of all sizes.
            let mut frame = receiver.next(LONG).unwrap().unwrap();
            let mut into = vec![0; bytes.len()];
            let (mut rest, mut pieces, mut next) = (into.as_mut_slice(), Vec::new(), 0);
            while !rest.is_empty() {
                next = (next * 5 + 1) % 9001;
                let (piece, others) = rest.split_at_mut(next.min(rest.len()));
                pieces.push(IoSliceMut::new(piece));
                rest = others;
            }
            let (first, second) = pieces.split_at_mut(17);
            frame.read_pieces(first, LONG).unwrap();
            frame.read_pieces(second, LONG).unwrap();
            let error = frame.read(&mut [0], LONG).unwrap_err();
            assert!(matches!(error, Error::PastEnd { wanted_bytes: 1, left_bytes: 0 }), "{error}");
            assert!(into == bytes[..]);
            // In part, not at all, and said so.
            let mut frame = receiver.next(LONG).unwrap().unwrap();
            frame.read(&mut into[..1000], LONG).unwrap();
            assert!(into[..1000] == bytes[..1000]);
            assert_eq!(receiver.next(LONG).unwrap().unwrap().kind(), 2);
            let frame = receiver.next(LONG).unwrap().unwrap();
            assert_eq!((frame.kind(), frame.body()), (3, b"body".as_slice()));
            frame.skip(LONG).unwrap();
        });
    }
}

#[test]
fn a_file_that_is_too_short_already_is_refused_and_the_connection_goes_on() {
    let _watchdog = watchdog(60);
    let file = file(0, &[1; 100]);
    for means in &ways() {
        let (sends, receives) = pair(means);
        let ((sender, _keep), (_other, mut receiver)) = (sends.split(), receives.split());
        let error = sender.send(1, &[], Source::file(&file, 50, 51), LONG).unwrap_err();
        let Error::ShortFile { promised_bytes: 51, found_bytes: 50, is_intact: true, .. } = error else {
            panic!("{error}")
        };
        sender.send(2, &[], Source::file(&file, 50, 50), LONG).unwrap();
        let mut frame = receiver.next(LONG).unwrap().unwrap();
        let mut into = [0; 50];
        frame.read(&mut into, LONG).unwrap();
        assert_eq!((frame.kind(), into), (2, [1; 50]));
    }
}

#[test]
fn a_file_that_becomes_shorter_while_it_is_sent_is_an_error_on_both_sides() {
    let _watchdog = watchdog(60);
    let bytes = 64 << 20;
    for means in &ways() {
        let file = file(bytes - 1, &[1]);
        let (sends, receives) = pair(means);
        let ((sender, _keep), (_other, mut receiver)) = (sends.split(), receives.split());
        thread::scope(|scope| {
            let sending = scope.spawn(|| sender.send(1, &[], Source::file(&file, 0, bytes), LONG));
            let mut frame = receiver.next(LONG).unwrap().unwrap();
            // The sender waits now: so much is in no connection's queue.
            let mut into = vec![1; bytes as usize];
            let (first, rest) = into.split_at_mut(1 << 20);
            frame.read(first, LONG).unwrap();
            file.set_len(2 << 20).unwrap();
            let error = frame.read(rest, LONG).unwrap_err();
            assert!(matches!(error, Error::Closed { missing_bytes: 1.., .. }), "{means}: {error}");
            let error = sending.join().unwrap().unwrap_err();
            assert!(matches!(error, Error::ShortFile { is_intact: false, .. }), "{means}: {error}");
        });
        // Both sides say so from now on.
        assert!(matches!(sender.send(1, &[], Source::Nothing, LONG), Err(Error::Ended { .. })));
        assert!(matches!(receiver.next(LONG), Err(Error::Ended { .. })));
    }
}

#[test]
fn a_peer_that_goes_in_the_middle_is_an_error_for_whoever_sends_and_for_whoever_receives() {
    let _watchdog = watchdog(60);
    let bytes = vec![3; 64 << 20];
    for means in &ways() {
        let (sends, receives) = pair(means);
        let (sender, _keep) = sends.split();
        thread::scope(|scope| {
            let sending = scope.spawn(|| sender.send(1, &[], Source::Bytes(&bytes), LONG));
            let (other, mut receiver) = receives.split();
            receiver.next(LONG).unwrap().unwrap().read(&mut [0; 1000], LONG).unwrap();
            drop((other, receiver));
            let error = sending.join().unwrap().unwrap_err();
            assert!(matches!(error, Error::Closed { .. }), "{means}: {error}");
        });

        let (sends, receives) = pair(means);
        let (sender, keep) = sends.split();
        let (_other, mut receiver) = receives.split();
        thread::scope(|scope| {
            let cut = sender.cut();
            let bytes = &bytes;
            let sending = scope.spawn(move || (sender.send(1, &[], Source::Bytes(bytes), LONG), keep));
            let mut frame = receiver.next(LONG).unwrap().unwrap();
            frame.read(&mut vec![0; 1 << 20], LONG).unwrap();
            cut.cut();
            let error = frame.read(&mut vec![0; 63 << 20], LONG).unwrap_err();
            assert!(matches!(error, Error::Closed { missing_bytes: 1.., .. }), "{means}: {error}");
            let error = sending.join().unwrap().0.unwrap_err();
            assert!(matches!(error, Error::Ended { .. }), "{means}: {error}");
        });
    }
}

#[test]
fn a_slow_peer_gets_everything_and_one_that_is_too_slow_is_given_up() {
    let _watchdog = watchdog(60);
    let bytes = pattern(8 << 20);
    let from = file(0, &bytes);
    for means in &ways() {
        let (sends, receives) = pair(means);
        let ((sender, _keep), (_other, mut receiver)) = (sends.split(), receives.split());
        thread::scope(|scope| {
            let sending = scope.spawn(|| sender.send(1, &[], Source::file(&from, 0, bytes.len() as u64), LONG));
            let mut frame = receiver.next(LONG).unwrap().unwrap();
            let mut into = vec![0; bytes.len()];
            for piece in into.chunks_mut(1 << 20) {
                thread::sleep(Duration::from_millis(5));
                frame.read(piece, LONG).unwrap();
            }
            sending.join().unwrap().unwrap();
            assert!(into == bytes);
        });
        // Nobody receives: more than any queue holds does not go.
        let much = vec![0; 64 << 20];
        let mut limit = Duration::from_millis(50);
        let error = loop {
            match sender.send(1, &[], Source::Bytes(&much), limit).unwrap_err() {
                // It was not even begun in time.
                Error::Timeout { is_intact: true, .. } if limit < LONG => limit *= 2,
                error => break error,
            }
        };
        assert!(matches!(error, Error::Timeout { is_intact: false, .. }), "{means}: {error}");
        // The sender ended the connection, which is no end that the receiver has to wait for.
        let ended = receiver.next(LONG).and_then(|frame| frame.map_or(Ok(()), |frame| frame.skip(LONG)));
        let error = ended.unwrap_err();
        assert!(matches!(error, Error::Closed { .. }), "{means}: {error}");
    }
}

#[test]
fn both_directions_at_once_do_not_wait_for_each_other() {
    let _watchdog = watchdog(120);
    let bytes = pattern(32 << 20);
    for means in &ways() {
        let (one, two) = pair(means);
        thread::scope(|scope| {
            for connection in [one, two] {
                let bytes = &bytes;
                let (sender, mut receiver) = connection.split();
                scope.spawn(move || {
                    sender.send(1, &[], Source::Bytes(bytes), LONG).unwrap();
                    sender.send(2, &[], Source::Nothing, LONG).unwrap();
                    sender
                });
                scope.spawn(move || {
                    let mut into = vec![0; bytes.len()];
                    receiver.next(LONG).unwrap().unwrap().read(&mut into, LONG).unwrap();
                    assert!(into == *bytes);
                    assert_eq!(receiver.next(LONG).unwrap().unwrap().kind(), 2);
                });
            }
        });
    }
}

#[test]
fn a_peer_that_ends_the_connection_while_its_queues_are_full_is_noticed() {
    let _watchdog = watchdog(60);
    let much = vec![0; 64 << 20];
    for means in &ways() {
        let (sends, receives) = pair(means);
        let ((sender, _keep), (_other, mut receiver)) = (sends.split(), receives.split());
        thread::scope(|scope| {
            let sending = scope.spawn(|| sender.send(1, &[], Source::Bytes(&much), LONG));
            receiver.next(LONG).unwrap().unwrap();
            // Until nothing more goes; sooner, the test shows less.
            thread::sleep(Duration::from_millis(100));
            receiver.cut().cut();
            let error = sending.join().unwrap().unwrap_err();
            assert!(matches!(error, Error::Closed { .. }), "{means}: {error}");
        });
    }
}

#[test]
fn a_deadline_holds_also_while_bytes_keep_coming() {
    let _watchdog = watchdog(120);
    let file = file((4 << 30) - 1, &[1]);
    for means in &ways() {
        let (sends, receives) = pair(means);
        let ((sender, _keep), (_other, mut receiver)) = (sends.split(), receives.split());
        thread::scope(|scope| {
            scope.spawn(|| sender.send(1, &[], Source::file(&file, 0, 4 << 30), LONG).unwrap_err());
            let frame = receiver.next(LONG).unwrap().unwrap();
            let error = frame.skip(Duration::from_millis(50)).unwrap_err();
            assert!(matches!(error, Error::Timeout { is_intact: false, .. }), "{means}: {error}");
        });
    }
}

#[test]
fn a_peer_that_takes_nothing_counts_as_gone_after_the_time_of_silence() {
    let _watchdog = watchdog(120);
    let much = vec![0; 64 << 20];
    for means in &ways() {
        let options = Options { silence: Duration::from_secs(1), ..options(means) };
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), identity(), &options).unwrap();
        let connection = Connection::connect(listener.address(), identity(), &options, LONG).unwrap();
        let _idle = listener.accept(LONG).unwrap().unwrap();
        let error = connection.split().0.send(1, &[], Source::Bytes(&much), LONG).unwrap_err();
        let Error::Broken { source, .. } = &error else { panic!("{means}: {error}") };
        assert_eq!(source.kind, std::io::ErrorKind::TimedOut, "{means}: {error}");
    }
}
