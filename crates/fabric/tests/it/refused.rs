//! Sides that were told to send bulk in different ways, and providers that are not there.

use crate::common::{LONG, identity, options, watchdog};
use std::process::Command;
use std::sync::Arc;
use stillframe_fabric::{Error, Libfabric};
use stillframe_link::{Connection, Listener, Means, Refusal};

const WRITES: &str = "FI_OFI_RXM_USE_RNDV_WRITE";

fn fabric(provider: &str) -> Option<Means> {
    match Libfabric::open(provider) {
        Ok(fabric) => Some(Means::Fabric(Arc::new(fabric))),
        Err(error) => {
            assert!(!matches!(error, Error::Environment { .. }), "{error}");
            eprintln!("skipped: {error}");
            None
        }
    }
}

#[test]
fn both_sides_say_that_they_send_bulk_in_different_ways() {
    let _watchdog = watchdog(60);
    let (Some(tcp), Some(shm)) = (fabric("tcp"), fabric("shm")) else { return };
    let cases = [
        (&Means::Tls, &tcp, "tls", "a fabric", "fabric:tcp"),
        (&Means::Plain, &tcp, "plain", "a fabric", "fabric:tcp"),
        (&shm, &tcp, "fabric:shm", "fabric:tcp", "fabric:tcp"),
    ];
    for (accepts, connects, one, other_there, other) in cases {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), identity(), &options(accepts)).unwrap();
        let here = Connection::connect(listener.address(), identity(), &options(connects), LONG).unwrap_err();
        let there = listener.accept(LONG).unwrap_err();
        for (error, theirs, ours) in [(here, one, other), (there, other_there, one)] {
            let stillframe_link::Error::Refused { why: why @ Refusal::OtherBulk { .. }, .. } = &error else {
                panic!("{error}")
            };
            let expected = Refusal::OtherBulk { theirs: theirs.into(), ours: ours.into() };
            assert_eq!(*why, expected, "{error}");
        }
    }
}

#[test]
fn a_provider_that_is_not_there_is_named_and_so_are_those_that_are() {
    match Libfabric::open("nonsense").unwrap_err() {
        Error::NoProvider { provider, found } => {
            assert_eq!(provider, "nonsense");
            assert_eq!(found, Libfabric::providers().unwrap());
        }
        other => eprintln!("skipped: {other}"),
    }
    for wrong in ["", "a b", "tcp\0", "../x", &"x".repeat(201)] {
        assert!(matches!(Libfabric::open(wrong), Err(Error::Name { .. })), "{wrong}");
    }
}

/// For a process without the setting.
const ALONE: &str = "STILLFRAME_TEST_ALONE";

#[test]
fn tcp_is_refused_without_the_setting_that_keeps_it_from_crashing() {
    if std::env::var_os(ALONE).is_some() {
        match Libfabric::open("tcp").unwrap_err() {
            Error::Environment { variable, value, .. } => assert_eq!((variable, value), (WRITES, "1")),
            Error::NoLibrary { why } => eprintln!("skipped: {why}"),
            other => panic!("{other}"),
        }
        return;
    }
    for value in [None, Some("0")] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["refused::tcp_is_refused", "--nocapture"]).env(ALONE, "1").env_remove(WRITES);
        value.map(|value| command.env(WRITES, value));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
