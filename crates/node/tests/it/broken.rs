//! Connections that break at any time, readers that go back and give up, and ranks that repart: nobody ever reads a version that is torn
//! or mixed, and afterwards all is well.

use crate::common::watchdog;
use crate::places::{Fault, Nodes};
use crate::seed::Seed;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Duration;
use stillframe_object::{Error, Objects, ReadFragment};

const CELLS: u64 = 24_000;
const RANKS: u64 = 3;
const LONG: Duration = Duration::from_secs(60);

/// Of which a part changes with each version, so that pieces are sent and others are not.
fn value(version: u64, index: u64) -> i64 {
    let block = index / 8_000;
    let changed = version + 3 - (version + block) % 3;
    (changed * 100_000 + index) as i64
}

/// Numbers that look random, the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// The last version that anybody published, and whether it is to stay so.
#[derive(Default)]
struct Last {
    version: u64,
    is_over: bool,
}

/// The version after this one, unless that is the last of all.
fn next(last: &Mutex<Last>, version: u64) -> Option<u64> {
    let mut last = last.lock().unwrap();
    if last.is_over && version >= last.version {
        return None;
    }
    last.version = last.version.max(version + 1);
    Some(version + 1)
}

/// A rank that publishes, and gives its place to another fragment of the same elements now and then.
fn run_rank(objects: &Objects, rank: u64, last: &Mutex<Last>, all_are_complete: &Barrier) {
    let (block, mut dice) = (CELLS / RANKS, Dice(rank + 77));
    let object = objects.wait("u", LONG).unwrap();
    let begin = rank * block;
    let attach = |version: u64| {
        let write = object.write("{ var v [x:8000] = u[x+b] }").bind("b", begin as i64);
        write.rank(rank as u32).version(version).keep(6).wait(LONG).attach()
    };
    let mut fragment = attach(0).unwrap();
    let mut version = 0;
    while let Some(next) = next(last, version) {
        version = next;
        let values = fragment.variable_mut::<i64>("v").unwrap();
        for (at, index) in values.iter_mut().zip(begin..) {
            let now = value(version, index);
            if *at != now {
                *at = now;
            }
        }
        fragment.publish(version).unwrap_or_else(|error| panic!("rank {rank}, version {version}: {error}"));
        while object.newest().unwrap() + 3 < version {
            std::thread::sleep(Duration::from_millis(1));
        }
        if dice.roll(20) == 0 {
            fragment.detach().unwrap();
            let newest = loop {
                if let Ok(newest) = object.wait_newer(version - 1, Duration::from_secs(1)) {
                    break newest;
                }
            };
            assert_eq!(newest, version);
            fragment = attach(version).unwrap();
        }
        std::thread::sleep(Duration::from_millis(4 + dice.roll(8)));
    }
    while object.newest().unwrap() < version {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Who detaches before others have heard that it is complete could take it away from them.
    all_are_complete.wait();
}

fn check(all: &ReadFragment, from: u64, version: u64) {
    let got = all.variable::<i64>("v").unwrap();
    for (at, got) in got.iter().enumerate() {
        let index = from + at as u64;
        assert_eq!(*got, value(version, index), "version {version}, index {index}");
    }
}

fn may_happen(error: &Error) -> bool {
    error.is_timeout()
        || matches!(
            error,
            Error::Lost { .. } | Error::LostElsewhere { .. } | Error::NoRuntime { .. } | Error::Plan { .. }
        )
}

fn run_reader(objects: &Objects, seed: u64, is_over: &AtomicBool) -> u64 {
    let mut dice = Dice(seed);
    let object = objects.wait("u", LONG).unwrap();
    let mut seen = 0;
    while !is_over.load(Ordering::Relaxed) {
        let length = 1 + dice.roll(CELLS);
        let from = dice.roll(CELLS - length + 1);
        let read = object.read("{ var v [x:n] = u[x+b] }").bind("n", length as i64).bind("b", from as i64);
        let mut fragment = if dice.roll(2) == 0 { read.prefetch() } else { read }.attach().unwrap();
        for _ in 0..1 + dice.roll(30) {
            let newest = object.newest().unwrap();
            let version = match dice.roll(4) {
                0 => newest.saturating_sub(dice.roll(4)).max(1),
                1 => newest + 1 + dice.roll(2),
                _ => fragment.version() + 1,
            };
            match fragment.reattach(version, Duration::from_millis(1 + dice.roll(60))) {
                Ok(()) => {
                    check(&fragment, from, version);
                    seen += 1;
                }
                Err(error) if may_happen(&error) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    seen
}

#[test]
fn connections_may_break_at_any_time() {
    let seconds = std::env::var("STILLFRAME_TEST_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0_u64);
    let _watchdog = watchdog(seconds + 120);
    let nodes = Nodes::new("broken", RANKS as usize);
    let objects: Vec<Objects> = (0..RANKS as usize).map(|node| nodes.objects(node)).collect();
    let object = objects[0].create("u", "var u [24000] int64").create().unwrap();
    let (is_over, last, all_are_complete) = (AtomicBool::new(false), Mutex::default(), Barrier::new(RANKS as usize));
    let seed = Seed::first(77);
    std::thread::scope(|scope| {
        for rank in 0..RANKS {
            let (objects, last, all_are_complete) = (&objects[rank as usize], &last, &all_are_complete);
            scope.spawn(move || run_rank(objects, rank, last, all_are_complete));
        }
        let readers: Vec<_> = (0..2 * RANKS)
            .map(|number| {
                let (objects, is_over) = (&objects[(number % RANKS) as usize], &is_over);
                scope.spawn(move || run_reader(objects, number + 1, is_over))
            })
            .collect();
        let mut dice = Dice(seed);
        let begin = std::time::Instant::now();
        let mut breaks = 0;
        while breaks < 60 || begin.elapsed() < Duration::from_secs(seconds) {
            std::thread::sleep(Duration::from_millis(dice.roll(60)));
            let (from, to) = (dice.roll(RANKS) as usize, dice.roll(RANKS) as usize);
            if from == to {
                continue;
            }
            let is_slow = dice.roll(2) == 0;
            if is_slow {
                nodes.set_fault(from, to, Fault { delay: Duration::from_millis(dice.roll(8)), ..Fault::default() });
                std::thread::sleep(Duration::from_millis(dice.roll(50)));
            }
            nodes.set_fault(from, to, Fault { loses_versions: true, ..Fault::default() });
            std::thread::sleep(Duration::from_millis(dice.roll(25)));
            nodes.set_fault(from, to, Fault::default());
            std::thread::sleep(Duration::from_millis(dice.roll(5)));
            let ends = if dice.roll(2) == 0 { [(from, to), (to, from)] } else { [(to, from), (from, to)] };
            for (one, other) in ends {
                nodes.runtime(one).connected(nodes.number(other));
            }
            breaks += 1;
        }
        last.lock().unwrap().is_over = true;
        is_over.store(true, Ordering::Relaxed);
        let seen: Vec<u64> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        println!("{breaks} breaks; versions that were read: {seen:?} of {}", last.lock().unwrap().version);
        let _ = object;
    });
}
