//! What decoding does with bytes that nobody meant: a fault within them, or a message of just these bytes.
//!
//! The function here is also the body of the fuzz target `wire`, which gives it other bytes.
#![allow(dead_code)]

use stillframe_wire::{Fault, Kind, Message};

/// A kind, and a body.
pub fn frame(bytes: &[u8]) {
    let Some((kind, body)) = bytes.split_first_chunk::<2>() else { return };
    decode(Kind(u16::from_le_bytes(*kind)), body);
}

/// The message, if the bytes are one.
pub fn decode(kind: Kind, body: &[u8]) -> Option<Message> {
    match Message::decode(kind, body) {
        Ok(message) => {
            let mut again = Vec::new();
            assert_eq!(message.encode(&mut again), kind);
            assert_eq!(again, body, "{message:?}");
            Some(message)
        }
        Err(fault) => {
            check(kind, body, &fault);
            None
        }
    }
}

fn check(kind: Kind, body: &[u8], fault: &Fault) {
    assert!(!fault.to_string().is_empty());
    let offset = match fault {
        Fault::UnknownKind { kind: other } => {
            assert_eq!((*other, kind.name()), (kind, None));
            return;
        }
        Fault::Short { offset, missing, .. } => {
            assert!(*missing > 0);
            *offset
        }
        Fault::Rest { offset, bytes, .. } => {
            assert_eq!(offset + bytes, body.len());
            *offset
        }
        Fault::Bound { offset, found, most, .. } => {
            assert!(found > most);
            *offset
        }
        Fault::Invalid { offset, .. } | Fault::Memory { offset, .. } => *offset,
        other => panic!("no fault of bytes: {other:?}"),
    };
    assert!(offset <= body.len(), "{fault:?}");
}
