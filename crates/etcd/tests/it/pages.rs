//! More than fits into one answer.

use crate::common::{described, open, start, told_until, watchdog};
use stillframe_etcd::{Cluster, Event, JoinOptions};
use stillframe_object::Names;

#[test]
fn thousands_of_names_and_megabytes_of_texts_are_read_by_pages() {
    let _watchdog = watchdog(300);
    let child = start();
    let etcd = open(&child);
    let names = etcd.names();
    let many: Vec<_> = (1..=6000).map(|id| (format!("n{id:05}"), described("var u [4] float64", id))).collect();
    names.put_all(&many).into_iter().for_each(|put| drop(put.unwrap()));
    // More than the 64 MiB that one answer may have.
    let text = "x".repeat(1 << 20);
    let long: Vec<_> = (1..=80).map(|id| (format!("p{id:02}"), described(&text, id))).collect();
    names.put_all(&long).into_iter().for_each(|put| drop(put.unwrap()));
    let listed = names.list().unwrap();
    assert_eq!(listed.len(), many.len() + long.len());
    assert!(many.iter().chain(&long).map(|(name, _)| name).eq(&listed), "sorted, each once");

    let cluster = Cluster::join(&etcd, JoinOptions::new("one", "a:1")).unwrap();
    let told = told_until(&cluster, |event| matches!(event, Event::ObjectCreated { name, .. } if name == "p80"));
    let created = told.iter().filter_map(|told| match &told.event {
        Event::ObjectCreated { name, .. } => Some(name),
        _ => None,
    });
    assert!(created.eq(&listed));
}
