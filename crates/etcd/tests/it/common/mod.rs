//! What the tests share: an etcd of each test's own, and a watchdog.
#![allow(dead_code, unused_imports)]

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};
use stillframe_etcd::{Child, Cluster, Etcd, Event, Told};
use stillframe_object::Description;

#[path = "../../../../stillframe/tests/it/common/watchdog.rs"]
mod watchdog;

pub use watchdog::watchdog;

/// As long as nothing that is expected takes.
pub const LONG: Duration = Duration::from_secs(60);

pub fn start() -> Child {
    Child::options().deadline(LONG).start().unwrap()
}

pub fn open(child: &Child) -> Etcd {
    at(child.endpoint())
}

pub fn at(endpoint: &str) -> Etcd {
    Etcd::options().endpoint(endpoint).deadline(LONG).grace(LONG).open().unwrap()
}

pub fn described(text: &str, id: u64) -> Description {
    let bindings = BTreeMap::from([("n".to_owned(), -3)]);
    Description { text: text.into(), bindings, initial: 7, id: NonZeroU64::new(id).unwrap() }
}

/// Looks until it is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// All that is told up to and with the first change that is wanted.
pub fn told_until(cluster: &Cluster, wanted: impl Fn(&Event) -> bool) -> Vec<Told> {
    let begin = Instant::now();
    let mut all: Vec<Told> = Vec::new();
    loop {
        assert!(begin.elapsed() < LONG, "it was not told; these were: {all:#?}");
        let Some(told) = cluster.next(Duration::from_millis(100)) else { continue };
        let is_wanted = wanted(&told.event);
        all.push(told);
        if is_wanted {
            return all;
        }
    }
}

pub fn signal(process: u32, signal: i32) {
    // SAFETY: the call takes numbers; the process is a child of this test.
    #[allow(unsafe_code)]
    let sent = unsafe { libc::kill(process as i32, signal) };
    assert_eq!(sent, 0);
}
