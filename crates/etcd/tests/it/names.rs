//! Names in etcd do what every keeper has to do, and believe nothing that is damaged.

use crate::contract;

use crate::common::{described, open, start, watchdog};
use crate::contract::Keeper;
use std::sync::Arc;
use stillframe_etcd::EtcdNames;
use stillframe_object::Names;

fn in_etcd(_: &str) -> Keeper {
    let child = start();
    let handles = (0..4).map(|_| Arc::new(open(&child).names()) as Arc<dyn Names>).collect();
    Keeper { handles, place: Box::new(child) }
}

contract!(in_etcd);

#[test]
fn of_many_that_are_created_together_those_that_are_there_keep_what_they_have() {
    let _watchdog = watchdog(120);
    let child = start();
    let (first, second) = (open(&child).names(), open(&child).names());
    let named = |number: u64| format!("u/{number}");
    for number in [2, 5] {
        first.put(&named(number), &described("text", 100 + number)).unwrap();
    }
    let mut wanted: Vec<_> = (1..=8).map(|number| (named(number), described("text", number))).collect();
    wanted.push((named(8), described("text", 9)));
    let ids =
        |names: &EtcdNames| names.put_all(&wanted).into_iter().map(|put| put.unwrap().id.get()).collect::<Vec<_>>();
    let expected = [1, 102, 3, 4, 105, 6, 7, 8, 8];
    assert_eq!(ids(&second), expected);
    assert_eq!(ids(&first), expected, "all are there by now");
}

#[test]
fn of_many_who_create_the_same_together_one_wins_each() {
    let _watchdog = watchdog(120);
    let child = start();
    let handles: Vec<EtcdNames> = (0..4).map(|_| open(&child).names()).collect();
    let create = &|caller: usize| {
        let (names, ids) = (&handles[caller % 4], (0..40_u64).map(move |number| (number << 8) | (caller as u64 + 1)));
        let all: Vec<_> = ids.map(|id| (format!("u/{}", id >> 8), described("text", id))).collect();
        // One by one, and together with those of the others who use this handle.
        all.iter().map(|(name, described)| names.put(name, described).unwrap().id).collect::<Vec<_>>()
    };
    let got: Vec<_> = std::thread::scope(|scope| {
        let callers = (0..16).map(|caller| scope.spawn(move || create(caller))).collect::<Vec<_>>();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    assert!(got.windows(2).all(|pair| pair[0] == pair[1]), "{got:?}");
}
