//! What every keeper of names has to do. Each one that there is passes all of this.

mod common;

use common::{Dir, watchdog};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};
use stillframe_object::{Description, Error, Names, Objects};

/// A keeper, made anew for each test, and further handles of it, as other processes have.
struct Keeper {
    handles: Vec<Arc<dyn Names>>,
    _place: Dir,
}

/// A handle that other processes would have.
#[derive(Debug)]
struct Handle(Objects);

impl Names for Handle {
    fn put(&self, name: &str, description: &Description) -> stillframe_object::Result<Description> {
        self.0.names().put(name, description)
    }
    fn get(&self, name: &str) -> stillframe_object::Result<Option<Description>> {
        self.0.names().get(name)
    }
    fn wait(&self, name: &str, timeout: Duration) -> stillframe_object::Result<Option<Description>> {
        self.0.names().wait(name, timeout)
    }
    fn remove(&self, name: &str, id: NonZeroU64) -> stillframe_object::Result<bool> {
        self.0.names().remove(name, id)
    }
    fn list(&self) -> stillframe_object::Result<Vec<String>> {
        self.0.names().list()
    }
}

fn in_directory(test: &str) -> Keeper {
    let place = Dir::new(test);
    let handles = (0..4).map(|_| Arc::new(Handle(place.objects())) as Arc<dyn Names>).collect();
    Keeper { handles, _place: place }
}

fn described(text: &str, id: u64) -> Description {
    let bindings = BTreeMap::from([("n".to_owned(), -3)]);
    Description { text: text.into(), bindings, initial: 7, id: NonZeroU64::new(id).unwrap() }
}

fn a_name_has_the_description_that_was_put_first(keeper: Keeper) {
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

fn of_several_at_a_time_one_is_first_for_all(keeper: Keeper) {
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

fn who_waits_is_woken(keeper: Keeper) {
    let [one, two, ..] = &keeper.handles[..] else { panic!() };
    let begin = Instant::now();
    assert_eq!(one.wait("u", Duration::from_millis(30)).unwrap(), None);
    assert!(begin.elapsed() >= Duration::from_millis(30));
    let waiting = {
        let one = one.clone();
        thread::spawn(move || one.wait("u", Duration::from_secs(30)).unwrap().unwrap())
    };
    thread::sleep(Duration::from_millis(20));
    let put = two.put("u", &described("text", 1)).unwrap();
    assert_eq!(waiting.join().unwrap(), put);
    assert_eq!(two.wait("u", Duration::ZERO).unwrap(), Some(put));
}

fn only_what_was_meant_is_removed(keeper: Keeper) {
    let [one, two, ..] = &keeper.handles[..] else { panic!() };
    let first = one.put("u", &described("text", 5)).unwrap();
    assert!(!two.remove("u", NonZeroU64::new(6).unwrap()).unwrap());
    assert!(!two.remove("v", first.id).unwrap());
    assert!(two.remove("u", first.id).unwrap());
    assert!(!one.remove("u", first.id).unwrap());
    assert_eq!(one.get("u").unwrap(), None);
    assert_eq!(one.put("u", &described("new", 8)).unwrap().text, "new");
}

fn long_descriptions_are_kept_or_refused(keeper: Keeper) {
    let one = &keeper.handles[0];
    let long = described(&"x\u{1}".repeat(1 << 19), 1);
    assert_eq!(one.put("long", &long).unwrap(), long);
    assert_eq!(keeper.handles[1].get("long").unwrap(), Some(long));
    let longer = described(&"x".repeat(8 << 20), 1);
    assert!(matches!(one.put("longer", &longer), Err(Error::Text { .. })));
    assert_eq!(one.get("longer").unwrap(), None);
}

macro_rules! contract {
    ($($keeper:ident: $($test:ident),+;)+) => { $(mod $keeper {
        $(#[test]
        fn $test() {
            let _watchdog = super::watchdog(120);
            super::$test(super::$keeper(stringify!($test)));
        })+
    })+ };
}

contract! {
    in_directory: a_name_has_the_description_that_was_put_first, of_several_at_a_time_one_is_first_for_all, who_waits_is_woken,
        only_what_was_meant_is_removed, long_descriptions_are_kept_or_refused;
}

#[test]
fn damaged_files_are_told_and_not_believed() {
    let dir = Dir::new("damaged");
    let objects = dir.objects();
    let object = objects.create("u", "var u [4] float64").create().unwrap();
    let file = dir.path().join(".objects/names/u");
    let good = std::fs::read(&file).unwrap();
    for bytes in [&b""[..], b"{", b"null", &good[..good.len() - 1], b"{\"text\":\"var u [4] float64\",\"id\":0}"] {
        std::fs::write(&file, bytes).unwrap();
        assert!(matches!(objects.object_named("u"), Err(Error::Corrupt { .. })), "{bytes:?}");
    }
    std::fs::write(&file, good).unwrap();
    objects.object_named("u").unwrap();
    let mut fragment = object.write("{ var u = u }").attach().unwrap();
    fragment.publish(1).unwrap();
    let board = dir.path().join(".objects/boards/u");
    let good = std::fs::read(&board).unwrap();
    for at in (0..good.len()).filter(|at| !(8..64).contains(at) || (24..32).contains(at)) {
        let mut bad = good.clone();
        bad[at] ^= 0x41;
        std::fs::write(&board, &bad).unwrap();
        // It is an error or another board, never a panic.
        let _ = dir.objects().object_named("u").unwrap().newest();
        let _ = object.write("{ var u = u }").wait(Duration::ZERO).attach();
        std::fs::write(&board, &good).unwrap();
    }
    std::fs::write(&board, &good[..good.len() - 3]).unwrap();
    assert!(dir.objects().object_named("u").unwrap().newest().is_err());
}
