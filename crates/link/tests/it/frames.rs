//! Small frames, from many threads.

use crate::common;

use crate::common::{LONG, pair, watchdog};
use std::collections::HashMap;
use std::thread;
use std::time::Duration;
use stillframe_link::{Error, Means, Source, frame};

#[test]
fn frames_of_many_threads_arrive_whole_and_those_of_one_in_order() {
    let _watchdog = watchdog(120);
    let (threads, rounds) = (6_u16, 400_u32);
    for means in &[Means::Tls, Means::Plain] {
        let (sends, receives) = pair(means);
        let ((sender, _keep), (_other, mut receiver)) = (sends.split(), receives.split());
        thread::scope(|scope| {
            let sender = &sender;
            for thread in 0..threads {
                scope.spawn(move || {
                    for round in 0..rounds {
                        let body =
                            [&round.to_le_bytes()[..], &vec![thread as u8; (round * 97 % 30_000) as usize]].concat();
                        let bulk = vec![round as u8; (round % 5 * 3000) as usize];
                        match round % 3 {
                            0 => sender.queue(thread, &body, LONG).unwrap(),
                            1 => sender.send(thread, &body, Source::Nothing, LONG).unwrap(),
                            _ => sender.send(thread, &body, Source::Bytes(&bulk), LONG).unwrap(),
                        }
                    }
                    sender.flush(LONG).unwrap();
                });
            }
            let mut next = HashMap::new();
            for _ in 0..u32::from(threads) * rounds {
                let mut frame = receiver.next(LONG).unwrap().unwrap();
                let (number, rest) = frame.body().split_at(4);
                let round = next.entry(frame.kind()).or_insert(0_u32);
                assert_eq!(number, round.to_le_bytes());
                assert!(rest.iter().all(|byte| u16::from(*byte) == frame.kind()));
                let mut bulk = vec![0; frame.bulk_bytes() as usize];
                assert_eq!(bulk.len(), if *round % 3 == 2 { (*round % 5 * 3000) as usize } else { 0 });
                frame.read(&mut bulk, LONG).unwrap();
                assert!(bulk.iter().all(|byte| *byte == *round as u8));
                *round += 1;
            }
        });
    }
}

#[test]
fn the_longest_body_arrives_and_one_that_is_too_long_is_refused() {
    let _watchdog = watchdog(60);
    let (sends, receives) = pair(&Means::Tls);
    let ((sender, _keep), (_other, mut receiver)) = (sends.split(), receives.split());
    let mut body = common::pattern(frame::BODY_BYTES_MAX + 1);
    let error = sender.send(1, &body, Source::Nothing, LONG).unwrap_err();
    assert!(matches!(error, Error::TooLarge { part: "body", .. }), "{error}");
    body.pop();
    thread::scope(|scope| {
        scope.spawn(|| sender.send(1, &body, Source::Nothing, LONG).unwrap());
        assert!(receiver.next(LONG).unwrap().unwrap().body() == body);
    });
}

#[test]
fn a_message_behind_others_that_do_not_go_is_withdrawn_in_time() {
    let _watchdog = watchdog(60);
    let (sends, receives) = pair(&Means::Plain);
    let ((sender, _keep), (_other, mut receiver)) = (sends.split(), receives.split());
    let much = vec![1; 64 << 20];
    thread::scope(|scope| {
        let sending = scope.spawn(|| sender.send(1, &[], Source::Bytes(&much), LONG));
        let frame = receiver.next(LONG).unwrap().unwrap();
        // More than any queue holds: the other thread is at it for as long as nobody receives.
        let soon = Duration::from_millis(5);
        let error = sender.send(2, b"late", Source::Nothing, soon).unwrap_err();
        assert!(matches!(error, Error::Timeout { is_intact: true, .. }), "{error}");
        let error = sender.send(3, b"late", Source::Bytes(&[1]), soon).unwrap_err();
        assert!(matches!(error, Error::Timeout { is_intact: true, .. }), "{error}");
        frame.skip(LONG).unwrap();
        sending.join().unwrap().unwrap();
    });
    sender.send(4, b"in time", Source::Nothing, LONG).unwrap();
    assert_eq!(receiver.next(LONG).unwrap().unwrap().kind(), 4);
}

#[test]
fn who_waits_is_woken_by_a_cut_and_by_a_peer_that_goes() {
    let _watchdog = watchdog(60);
    for means in &[Means::Tls, Means::Plain] {
        let (one, two) = pair(means);
        let (cut, (_sender, mut receiver)) = (one.cut(), one.split());
        thread::scope(|scope| {
            let waiting = scope.spawn(move || receiver.next(Duration::MAX).map(drop).unwrap_err());
            thread::sleep(Duration::from_millis(10));
            cut.cut();
            let error = waiting.join().unwrap();
            assert!(matches!(error, Error::Ended { .. }), "{error}");
        });
        let error = two.split().1.next(LONG).map(drop).unwrap_err();
        assert!(matches!(error, Error::Closed { missing_bytes: 0, .. }), "{error}");

        let (one, two) = pair(means);
        let (_sender, mut receiver) = one.split();
        drop(two);
        let error = receiver.next(Duration::MAX).map(drop).unwrap_err();
        assert!(matches!(error, Error::Closed { missing_bytes: 0, .. }), "{error}");
    }
}
