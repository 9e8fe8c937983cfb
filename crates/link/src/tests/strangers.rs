//! Strangers, however many, do not keep a runtime of the job out. None of them is given up for its silence here: that would take longer
//! than a test may.

use super::*;
use crate::newcomers::NEWCOMERS_MAX;
use crate::places::PLACES_MAX;

/// So many connect, begin so, and stay; then a runtime of the job does.
fn crowd(means: &Means, count: usize, begin: impl Fn(&Identity) -> Vec<u8>) {
    let _watchdog = watchdog(60);
    let good = identity();
    let listener = listen(&good, means.clone());
    let begin = begin(&good);
    let connect = |_| {
        let mut stranger = TcpStream::connect(listener.address()).unwrap();
        stranger.write_all(&begin).unwrap();
        stranger
    };
    let strangers: Vec<TcpStream> = (0..count).map(connect).collect();
    for _ in 0..2 {
        let connected = thread::scope(|scope| {
            let joins = scope.spawn(|| Connection::connect(listener.address(), &good, &options(means.clone()), LONG));
            // Of strangers that had to go it is told, too.
            while !matches!(listener.accept(LONG), Ok(Some(_))) {}
            joins.join().unwrap()
        });
        connected.unwrap();
    }
    drop(strangers);
}

#[test]
fn those_that_say_nothing() {
    crowd(&Means::Plain, NEWCOMERS_MAX + 2 * PLACES_MAX, |_| Vec::new());
}

#[test]
fn those_that_begin_a_handshake() {
    crowd(&Means::Tls, NEWCOMERS_MAX + 2 * PLACES_MAX, |_| vec![22]);
}

#[test]
fn those_that_say_half_of_their_first_words() {
    crowd(&Means::Plain, NEWCOMERS_MAX + 2 * PLACES_MAX, |good| {
        let mut whole = handshake::first_bytes(good);
        whole.pop();
        whole
    });
}

#[test]
fn those_that_say_their_first_words_and_no_more() {
    crowd(&Means::Plain, 2 * PLACES_MAX, handshake::first_bytes);
}

#[test]
fn those_that_claim_a_connection_for_bulk() {
    crowd(&Means::Plain, 2 * PLACES_MAX, |_| BULK.to_vec());
}
