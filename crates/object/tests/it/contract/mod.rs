//! What every keeper of names has to do. Each one that there is passes all of this: crates with another one include this file.
#![allow(dead_code)]

use std::any::Any;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};
use stillframe_object::{Description, Error, Names};

/// A keeper, made anew for each test, and further handles of it, as other processes have.
pub struct Keeper {
    pub handles: Vec<Arc<dyn Names>>,
    /// What it lies in, which goes at the end of the test.
    pub place: Box<dyn Any>,
}

pub fn described(text: &str, id: u64) -> Description {
    let bindings = BTreeMap::from([("n".to_owned(), -3)]);
    Description { text: text.into(), bindings, initial: 7, id: NonZeroU64::new(id).unwrap() }
}

pub fn a_name_has_the_description_that_was_put_first(keeper: Keeper) {
    let [one, two, ..] = &keeper.handles[..] else { panic!() };
    assert_eq!(one.get("u").unwrap(), None);
    let first = described("var u [4] float64 // é\n\"quoted\"", 1);
    assert_eq!(one.put("u", &first).unwrap(), first);
    assert_eq!(two.get("u").unwrap().as_ref(), Some(&first));
    assert_eq!(two.put("u", &described("other", 2)).unwrap(), first);
    assert_eq!(
        two.put("u/below", &described("other", 2)).unwrap().text,
        "other",
        "no name stands in the way of another"
    );
    assert_eq!(one.list().unwrap(), ["u", "u/below"]);
}

pub fn of_several_at_a_time_one_is_first_for_all(keeper: Keeper) {
    let names = 50;
    let barrier = Arc::new(Barrier::new(keeper.handles.len()));
    let put = |(number, handle): (usize, &Arc<dyn Names>)| {
        let (handle, barrier) = (handle.clone(), barrier.clone());
        thread::spawn(move || {
            let mut got = Vec::new();
            for name in 0..names {
                barrier.wait();
                let own = described("text", number as u64 + 1);
                got.push(handle.put(&format!("n{name}"), &own).unwrap());
                // Whoever was told finds it.
                assert_eq!(handle.get(&format!("n{name}")).unwrap().as_ref(), got.last());
            }
            got
        })
    };
    let threads: Vec<_> = keeper.handles.iter().enumerate().map(put).collect();
    let got: Vec<Vec<Description>> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(got.iter().all(|of| *of == got[0]));
    assert_eq!(keeper.handles[0].list().unwrap().len(), names);
}

pub fn who_waits_is_woken(keeper: Keeper) {
    let [one, two, ..] = &keeper.handles[..] else { panic!() };
    let begin = Instant::now();
    assert_eq!(one.wait("u", Duration::from_millis(30)).unwrap(), None);
    assert!(begin.elapsed() >= Duration::from_millis(30));
    let waiting = {
        let one = one.clone();
        thread::spawn(move || one.wait("u", Duration::from_secs(60)).unwrap().unwrap())
    };
    thread::sleep(Duration::from_millis(20));
    let put = two.put("u", &described("text", 1)).unwrap();
    assert_eq!(waiting.join().unwrap(), put);
    assert_eq!(two.wait("u", Duration::ZERO).unwrap(), Some(put));
}

pub fn only_what_was_meant_is_removed(keeper: Keeper) {
    let [one, two, ..] = &keeper.handles[..] else { panic!() };
    let first = one.put("u", &described("text", 5)).unwrap();
    assert!(!two.remove("u", NonZeroU64::new(6).unwrap()).unwrap());
    assert!(!two.remove("v", first.id).unwrap());
    assert!(two.remove("u", first.id).unwrap());
    assert!(!one.remove("u", first.id).unwrap());
    assert_eq!(one.get("u").unwrap(), None);
    assert_eq!(one.put("u", &described("new", 8)).unwrap().text, "new");
}

pub fn long_descriptions_are_kept_or_refused(keeper: Keeper) {
    let one = &keeper.handles[0];
    let long = described(&"x\u{1}".repeat(1 << 19), 1);
    assert_eq!(one.put("long", &long).unwrap(), long);
    assert_eq!(keeper.handles[1].get("long").unwrap(), Some(long));
    let longer = described(&"x".repeat(8 << 20), 1);
    assert!(matches!(one.put("longer", &longer), Err(Error::Text { .. })));
    assert_eq!(one.get("longer").unwrap(), None);
}

/// Makes the suite tests.
#[macro_export]
macro_rules! contract {
    // Makes all of them tests of a keeper, which a function of this name makes from the name of the test.
    ($keeper:ident) => {
        $crate::contract! { $keeper: a_name_has_the_description_that_was_put_first, of_several_at_a_time_one_is_first_for_all,
            who_waits_is_woken, only_what_was_meant_is_removed, long_descriptions_are_kept_or_refused; }
    };
    ($($keeper:ident: $($test:ident),+;)+) => { $(mod $keeper {
        $(#[test]
        fn $test() {
            let _watchdog = super::watchdog(120);
            super::contract::$test(super::$keeper(stringify!($test)));
        })+
    })+ };
}
