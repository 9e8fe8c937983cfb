//! What is in etcd may be anybody's: it is refused by its key, and all else goes on.

use crate::bytes;
use crate::gateway;

use crate::common::{LONG, described, open, start, told_until, until, watchdog};
use std::collections::BTreeMap;
use stillframe_etcd::{Cluster, Error, Event, JoinOptions, Shard, values};
use stillframe_object::Names;

#[test]
fn values_that_were_changed_anywhere_are_an_error_or_another_value() {
    let description = values::write_description("u", &described("var u [4] float64", 1)).unwrap();
    let samples: [(u8, &[u8]); 6] = [
        (0, b"object/a/b"),
        (1, &description),
        (2, br#"{"name":"n","address":"a:1","incarnation":7,"memory":1}"#),
        (3, br#"{"node":3}"#),
        (4, br#"{"base":3,"id":4}"#),
        (5, b"17"),
    ];
    for (kind, sample) in samples {
        let sample = [&[kind], sample].concat();
        for at in 1..=sample.len() {
            bytes::read(&sample[..at]);
            for change in 0..=255 {
                let mut changed = sample.clone();
                changed.get_mut(at).into_iter().for_each(|byte| *byte = change);
                bytes::read(&changed);
            }
        }
    }
}

#[test]
fn values_beyond_their_limits_are_refused() {
    assert!(values::read_description(&vec![b' '; values::VALUE_BYTES_MAX + 1]).is_err());
    assert!(values::read_home(&vec![b' '; 5000]).is_err());
    assert!(values::read_node(br#"{"name":"a\u0007","address":"a:1","incarnation":7,"memory":1}"#).is_err());
    assert!(
        values::read_node(
            format!(r#"{{"name":"{}","address":"a","incarnation":7,"memory":1}}"#, "n".repeat(256)).as_bytes()
        )
        .is_err()
    );
    assert!(values::read_epoch(br#"{"base":18446744073709551615,"id":4}"#).is_err());
    assert!(values::read_description(b"{\"id\":0}\nvar u [4] float64").is_err());
}

#[test]
fn what_nobody_writes_is_refused_by_its_key_and_all_else_goes_on() {
    let _watchdog = watchdog(120);
    let child = start();
    let etcd = open(&child);
    let names = etcd.names();
    let put = |key: &[u8], value: &[u8]| gateway::put(child.endpoint(), &[b"stillframe/", key].concat(), value);
    put(b"object/bad", b"{}\nvar u [4] float64");
    put(b"node/77", b"null");
    put(b"home/9", b"\xff");
    let refused = |key: &str, result: Result<_, stillframe_object::Error>| {
        let text = result.map(|_: ()| ()).unwrap_err().to_string();
        assert!(text.contains(key), "{text}");
    };
    refused("stillframe/object/bad", names.get("bad").map(drop));
    refused("stillframe/object/bad", names.put("bad", &described("text", 1)).map(drop));
    refused("stillframe/object/bad", names.wait("bad", LONG).map(drop));
    refused("stillframe/object/bad", names.remove("bad", described("", 1).id).map(drop));
    // Others of the same transaction are not concerned.
    let mixed = names.put_all(&[("bad".into(), described("text", 1)), ("good".into(), described("text", 2))]);
    assert!(mixed[0].is_err() && mixed[1].is_ok());
    let ids = [("bad".to_owned(), None), ("good".to_owned(), Some(described("text", 2).id))];
    assert_eq!(names.ids().unwrap(), BTreeMap::from(ids));

    let cluster = Cluster::join(&etcd, JoinOptions::new("one", "a:1")).unwrap();
    assert!(matches!(cluster.claim(&[Shard::new(9).unwrap()]), Err(Error::Hostile { .. })));
    put(b"nonsense", b"");
    put(b"object/\xfe", b"");
    let told =
        told_until(&cluster, |event| matches!(event, Event::Refused { key, .. } if key.contains("object/\u{fffd}")));
    for key in ["object/bad", "node/77", "home/9", "nonsense"] {
        let refused = |event: &Event| matches!(event, Event::Refused { key: refused, .. } if refused.ends_with(key));
        assert_eq!(told.iter().filter(|told| refused(&told.event)).count(), 1, "{key}: {told:#?}");
    }
    names.put("later", &described("text", 3)).unwrap();
    told_until(&cluster, |event| matches!(event, Event::ObjectCreated { name, .. } if name == "later"));
    refused("stillframe/object/", names.list().map(drop));
    assert!(names.discard("bad").unwrap());
    assert!(!names.discard("bad").unwrap());
    names.put("bad", &described("text", 1)).unwrap();
}

#[test]
fn an_epoch_or_counter_that_nobody_writes_is_told() {
    let _watchdog = watchdog(120);
    for (key, value) in [("epoch", "{\"base\":-1,\"id\":0}"), ("counter", "4294967295"), ("counter", "x")] {
        let child = start();
        gateway::put(child.endpoint(), format!("stillframe/{key}").as_bytes(), value.as_bytes());
        let etcd = open(&child);
        let failed = Cluster::join(&etcd, JoinOptions::new("one", "a:1")).unwrap_err();
        assert!(failed.to_string().contains(&format!("stillframe/{key}")), "{failed}");
        // What it says is also what a handle that is used again says.
        until("it can be tried again", || Cluster::join(&etcd, JoinOptions::new("one", "a:1")).is_err());
        etcd.names().put("u", &described("text", 1)).unwrap();
    }
}
