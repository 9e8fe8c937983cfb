//! Processes that attach, publish, read, detach and are killed at random, all on one object.
//!
//! Whoever writes a row of a version writes the same, so that every version that anybody reads is known.
//! `STILLFRAME_TEST_SECONDS` lets it go on for longer, `STILLFRAME_TEST_SEED` has other random numbers: `random` chooses some.

use crate::helper;

use crate::common::{Dir, watchdog};
use crate::helper::{Helper, say, start};
use crate::seed::Seed;
use crate::tier::by_tier;
use std::path::Path;
use std::time::{Duration, Instant};
use stillframe_object::{Error, Object, Objects};

const ROWS: u64 = 6;
const COLUMNS: usize = 40_000;
/// The row and the column of an element of a fragment to read.
type Place = fn(usize) -> (u64, usize);

/// Texts of fragments to read, and where their elements are.
const LOOKS: [(&str, Place); 5] = [
    ("{ var v = u }", |at| ((at / COLUMNS) as u64, at % COLUMNS)),
    ("{ var v [y:40000] = u[3,y] }", |at| (3, at)),
    ("{ var v [x:2,y:40000] = u[x*3+1,y] }", |at| ((at / COLUMNS) as u64 * 3 + 1, at % COLUMNS)),
    ("{ var v [x:6,y:100] = u[x,y*7+11] }", |at| ((at / 100) as u64, at % 100 * 7 + 11)),
    ("view v columnmajor { var v [x:3,y:100] = u[5-x,y] }", |at| (5 - (at % 3) as u64, at / 3)),
];

#[test]
fn helper_process() {
    helper::enter(&[("writer", writer), ("reader", reader)]);
}

struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }
}

fn element(version: u64, row: u64, column: usize) -> i64 {
    if version == 0 { 0 } else { (version as i64 * 10 + row as i64) * 100_000 + column as i64 }
}

fn opened(dir: &str) -> Object {
    let objects = Objects::options().dir(Path::new(dir)).open().unwrap();
    objects.create("u", "var u [6,40000] int64").create().unwrap()
}

/// Whether this may happen where everybody does what they like.
fn is_fair(error: &Error) -> bool {
    matches!(
        error,
        Error::Overlap { .. }
            | Error::Lost { .. }
            | Error::Timeout { .. }
            | Error::NoNewer { .. }
            | Error::Ended { .. }
            | Error::NotIncreasing { .. }
    )
}

fn writer(arguments: &[String]) {
    let [dir, seed, at] = arguments else { panic!("{arguments:?}") };
    let mut random = Random(seed.parse().unwrap());
    let object = opened(dir);
    let own = at.parse::<u64>().unwrap() % 3;
    loop {
        // Mostly its own two rows, so that versions are complete now and then.
        let (row, count) = match random.below(6) {
            0 => (random.below(ROWS), 1),
            _ => (2 * own, 2),
        };
        let text = "{ var v [x:count,y:40000] = u[x+row,y] }";
        let options = object.write(text).bind("count", count as i64).bind("row", row as i64);
        let mut options = options.wait(Duration::from_millis(random.below(60)));
        if random.below(3) == 0 {
            options = options.loaned();
        }
        if random.below(4) == 0 {
            options = options.keep(1 + random.below(4) as usize);
        }
        let mut fragment = match options.attach() {
            Ok(fragment) => fragment,
            Err(error) if is_fair(&error) => continue,
            Err(error) => panic!("attach: {error}"),
        };
        let begun = fragment.version();
        let check = |values: &[i64], version: u64| {
            for (at, value) in values.iter().enumerate() {
                let wanted = element(version, row + (at / COLUMNS) as u64, at % COLUMNS);
                assert_eq!(*value, wanted, "own row {row} of {count}, version {version}, at {at}");
            }
        };
        check(fragment.variable_mut::<i64>("v").unwrap(), begun);
        say(&format!("attached {row} {count} at {begun}"));
        for _ in 0..1 + random.below(40) {
            let version = fragment.version() + 1;
            for (at, value) in fragment.variable_mut::<i64>("v").unwrap().iter_mut().enumerate() {
                *value = element(version, row + (at / COLUMNS) as u64, at % COLUMNS);
            }
            if let Err(error) = fragment.publish(version) {
                panic!("publish: {error}");
            }
            let version = fragment.version();
            let previous = fragment.previous().unwrap().chunks_exact(8);
            let previous: Vec<i64> = previous.map(|bytes| i64::from_ne_bytes(bytes.try_into().unwrap())).collect();
            check(&previous, version);
            std::thread::sleep(Duration::from_micros(random.below(3000)));
        }
        match random.below(8) {
            0 => {
                let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                    let _fragment = fragment;
                    std::panic::resume_unwind(Box::new(()));
                }));
                assert!(panicked.is_err());
            }
            1..4 => drop(fragment),
            _ => fragment.detach().unwrap(),
        }
    }
}

fn reader(arguments: &[String]) {
    let [dir, seed, _] = arguments else { panic!("{arguments:?}") };
    let mut random = Random(seed.parse().unwrap());
    let object = opened(dir);
    let mut fragments: Vec<_> = LOOKS.iter().map(|(text, _)| object.read(text).attach().unwrap()).collect();
    let places: Vec<_> = fragments.iter_mut().map(|fragment| fragment.address()).collect();
    let (mut read, mut newest) = (0u64, 0);
    loop {
        let which = random.below(LOOKS.len() as u64) as usize;
        let fragment = &mut fragments[which];
        let version = match random.below(4) {
            0 => 0,
            1 => newest + random.below(3),
            _ => object.newest().unwrap(),
        };
        newest = newest.max(version);
        let shown = fragment.version();
        match fragment.reattach(version, Duration::from_millis(random.below(20))) {
            Ok(()) => assert_eq!(fragment.version(), version),
            Err(error) if is_fair(&error) => assert_eq!(fragment.version(), shown),
            Err(error) => panic!("reattach: {error}"),
        }
        assert_eq!(fragment.address(), places[which]);
        for (at, value) in fragment.variable::<i64>("v").unwrap().iter().enumerate() {
            let (row, column) = LOOKS[which].1(at);
            assert_eq!(
                *value,
                element(fragment.version(), row, column),
                "look {which} at {at} of {}",
                fragment.version()
            );
        }
        read += 1;
        if read.is_multiple_of(50) {
            say(&format!("read {read}, newest {}", fragment.version()));
        }
    }
}

#[test]
fn processes_that_come_and_go_mix_nothing() {
    let seconds = std::env::var("STILLFRAME_TEST_SECONDS").map_or(0, |seconds| seconds.parse().unwrap());
    let _watchdog = watchdog(600 + 2 * seconds);
    let dir = Dir::new("stress");
    let place = dir.path().to_str().unwrap().to_owned();
    let mut seed = Seed::first(1);
    let mut random = Random(seed.wrapping_mul(7919) | 1);
    let mut begin = |at: usize| {
        seed = seed.wrapping_add(7919).max(1);
        start(if at < 4 { "writer" } else { "reader" }, &[&place, &seed.to_string(), &at.to_string()])
    };
    let mut helpers: Vec<Helper> = (0..6).map(&mut begin).collect();
    let (until, mut newest) = (Instant::now() + Duration::from_secs(seconds), 0);
    let object = opened(&place);
    let (mut back, mut all) = (0, object.read("{ var v = u }").attach().unwrap());
    let (mut read, mut rounds) = (0, 0);
    while rounds < by_tier(50, 150) || Instant::now() < until {
        rounds += 1;
        std::thread::sleep(Duration::from_millis(random.below(40)));
        for helper in &mut helpers {
            // One that ended by itself found something wrong, and said so.
            while helper.try_hear(Duration::ZERO).is_some() {}
        }
        // One, or two at once.
        let kills = if random.below(8) == 0 { 1 + random.below(2) } else { 0 };
        for _ in 0..kills {
            let at = random.below(6) as usize;
            helpers[at].kill();
            helpers[at] = begin(at);
        }
        let now = object.newest().unwrap();
        back += u64::from(now < newest);
        newest = now;
        match all.reattach(now, Duration::from_millis(50)) {
            Ok(()) => {
                read += 1;
                for (at, value) in all.variable::<i64>("v").unwrap().iter().enumerate() {
                    assert_eq!(*value, element(now, (at / COLUMNS) as u64, at % COLUMNS));
                }
            }
            Err(error) => assert!(is_fair(&error), "{error}"),
        }
    }
    helpers.iter_mut().for_each(|helper| drop(helper.kill()));
    drop(helpers);
    println!("newest {newest}, read {read}, the newest complete version went back {back} times");
    object.collect().unwrap();
    println!("{} writers are left", object.writers().unwrap().len());
    dir.objects().remove("u", false).unwrap();
}
