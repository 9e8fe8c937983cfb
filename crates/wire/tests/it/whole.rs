//! What is encoded is decoded again, whatever it is.

use crate::bytes;

use crate::common::{
    maker::{KINDS, Maker},
    samples,
};
use proptest::prelude::*;
use stillframe_wire::{Kind, Message};

fn encode(message: &Message) -> (Kind, Vec<u8>) {
    let mut body = Vec::new();
    let kind = message.encode(&mut body);
    (kind, body)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_message_comes_back_as_it_was(seed: u64, kind in 0..KINDS) {
        let message = Maker::new(seed).message(kind);
        let (kind, body) = encode(&message);
        prop_assert_eq!(bytes::decode(kind, &body), Some(message));
    }

    #[test]
    fn no_bytes_do_harm(kind in 0..64_u16, body: Vec<u8>) {
        bytes::decode(Kind(kind), &body);
    }

    #[test]
    fn what_is_read_as_a_number_may_be_any(seed: u64, kind in 0..KINDS, places in prop::collection::vec((any::<usize>(), any::<u64>()), 1..4)) {
        let (kind, mut body) = encode(&Maker::new(seed).message(kind));
        for (place, number) in places {
            let place = place % body.len();
            let bytes = number.to_le_bytes();
            let count = bytes.len().min(body.len() - place);
            body[place..place + count].copy_from_slice(&bytes[..count]);
        }
        bytes::decode(kind, &body);
    }
}

#[test]
fn every_kind_is_among_the_samples_and_among_those_at_random() {
    let all: std::collections::BTreeSet<Kind> = Kind::ALL.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(all.len(), KINDS);
    assert_eq!(
        samples::all().iter().map(|(_, message)| message.kind()).collect::<std::collections::BTreeSet<_>>(),
        all
    );
    let made = (0..KINDS).map(|kind| Maker::new(1).message(kind).kind());
    assert_eq!(made.collect::<std::collections::BTreeSet<_>>(), all);
}

#[test]
fn moves_that_are_in_normal_form_are_in_normal_form_again() {
    // Otherwise a transfer that is sound would be refused.
    for seed in 0..30_000 {
        let transfer = Maker::new(seed).transfer();
        let again = drepl::transfer::Transfer::new(transfer.moves().to_vec());
        assert_eq!(again.as_ref(), Ok(&transfer), "seed {seed}");
    }
}

#[test]
fn a_message_is_appended_to_what_is_there() {
    let mut body = b"before".to_vec();
    Message::Ping(1).encode(&mut body);
    assert_eq!(body, b"before\x01\0\0\0\0\0\0\0");
}
