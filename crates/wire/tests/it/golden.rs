//! The bytes of each kind, as they are written down in `golden.txt`: the protocol of a version never changes.
//!
//! Each line is a name, the number of the kind, and the body in hexadecimal digits. A kind that is added gets lines; lines that are
//! there are only taken away with the protocol that they belong to.

use crate::bytes;

use std::fmt::Write;

use crate::common::samples;
use stillframe_wire::{Fault, Kind, Message};

const GOLDEN: &str = include_str!("golden.txt");

fn line(name: &str, message: &Message) -> String {
    let mut body = Vec::new();
    let kind = message.encode(&mut body);
    let mut line = format!("{name} {} ", kind.0);
    body.iter().for_each(|byte| write!(line, "{byte:02x}").unwrap());
    line
}

fn parse(line: &str) -> (&str, Kind, Vec<u8>) {
    let mut words = line.split(' ');
    let (name, kind, digits) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (name, Kind(kind.parse().unwrap()), (0..digits.len()).step_by(2).map(byte).collect())
}

#[test]
fn each_kind_has_the_bytes_that_it_always_had() {
    let written: String = samples::all().iter().map(|(name, message)| line(name, message) + "\n").collect();
    let differing = written.lines().zip(GOLDEN.lines()).find(|(written, golden)| written != golden);
    assert_eq!(differing, None, "the format of a message has changed: that needs another protocol");
    assert!(written == GOLDEN, "samples and golden.txt have not the same lines; those of the samples are:\n{written}");
}

#[test]
fn bytes_of_the_present_version_are_read() {
    assert_eq!(GOLDEN.lines().count(), samples::all().len());
    for ((name, message), line) in samples::all().into_iter().zip(GOLDEN.lines()) {
        let (golden, kind, body) = parse(line);
        assert_eq!(golden, name);
        assert_eq!(bytes::decode(kind, &body), Some(message), "{name}");
    }
}

#[test]
fn kinds_that_a_newer_version_has_are_left_aside_and_the_others_read() {
    // What a newer runtime sends: kinds of its own among those of this version.
    let newer = [(Kind(6), &b"newer"[..]), (Kind(25), &[]), (Kind(41), &[0xff; 100]), (Kind(u16::MAX), &[1])];
    let lines: Vec<_> = GOLDEN.lines().map(parse).collect();
    let own = lines.iter().map(|(_, kind, body)| (*kind, &body[..]));
    let mut read = Vec::new();
    for (kind, body) in newer.into_iter().chain(own).chain(newer) {
        match Message::decode(kind, body) {
            Ok(message) => read.push(message),
            Err(fault) => {
                assert_eq!(fault, Fault::UnknownKind { kind });
                assert!(fault.is_unknown_kind());
            }
        }
    }
    assert_eq!(read, samples::all().into_iter().map(|(_, message)| message).collect::<Vec<_>>());
}
