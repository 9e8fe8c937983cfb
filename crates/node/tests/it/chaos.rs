//! Ranks of three nodes that publish and repart, readers of all of them, and runtimes that end and are started again at any
//! time: nobody ever reads a version that is torn or mixed, and afterwards all is well.

use crate::common::watchdog;
use crate::places::Nodes;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, RwLock};
use std::time::{Duration, Instant};
use stillframe_object::{Error, Objects, ReadFragment, WriteFragment};

const CELLS: u64 = 60;
const RANKS: u64 = 3;
const LONG: Duration = Duration::from_secs(60);

fn value(version: u64, index: u64) -> i64 {
    (version * 1000 + index) as i64
}

/// Numbers that look random, the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

fn attach(objects: &Objects, rank: u64, turn: u64, version: u64) -> (WriteFragment, u64) {
    let block = CELLS / RANKS;
    let begin = (rank + turn) % RANKS * block;
    let object = objects.wait("u", LONG).unwrap();
    let write = object.write("{ var v [x:20] = u[x+b] }").bind("b", begin as i64);
    (write.rank(rank as u32).version(version).wait(LONG).attach().unwrap(), begin)
}

/// A rank that publishes up to the last version, and changes its place every few of them. Which one is the last is said while all wait
/// at the version before.
fn run_rank(nodes: &RwLock<Nodes>, rank: u64, last: &AtomicU64, barrier: &Barrier) {
    let objects = nodes.read().unwrap().objects(rank as usize);
    let (mut fragment, mut begin) = attach(&objects, rank, 0, 0);
    for version in 1.. {
        let last = last.load(Ordering::SeqCst);
        let values = fragment.variable_mut::<i64>("v").unwrap();
        values.iter_mut().zip(begin..).for_each(|(at, index)| *at = value(version, index));
        fragment.publish(version).unwrap_or_else(|error| panic!("rank {rank}, version {version}: {error}"));
        if version % 40 == 0 && version < last {
            fragment.detach().unwrap();
            barrier.wait();
            (fragment, begin) = attach(&objects, rank, version / 40, version);
        }
        barrier.wait();
        if version == last {
            break;
        }
    }
    // Who reads the last version needs it.
    barrier.wait();
    drop(fragment);
}

/// Checks what a reader has, against what it should have.
fn check(all: &ReadFragment, from: u64, version: u64) {
    let got = all.variable::<i64>("v").unwrap();
    let wanted: Vec<i64> = (from..).take(got.len()).map(|index| value(version, index)).collect();
    assert_eq!(got, wanted, "version {version}");
}

/// Where all ranks change their places, there is no writer for a while.
fn may_happen(error: &Error) -> bool {
    error.is_timeout()
        || matches!(
            error,
            Error::Lost { .. }
                | Error::LostElsewhere { .. }
                | Error::NoRuntime { .. }
                | Error::Plan { .. }
                | Error::Ended { .. }
        )
}

/// A reader that follows the object from a node, with fragments here and there.
fn run_reader(objects: &Objects, seed: u64, is_over: &AtomicBool, seen: &AtomicU64) {
    let mut dice = Dice(seed);
    let object = objects.wait("u", LONG).unwrap();
    while !is_over.load(Ordering::Relaxed) {
        let length = 1 + dice.roll(CELLS);
        let from = dice.roll(CELLS - length + 1);
        let read = object.read("{ var v [x:n] = u[x+b] }").bind("n", length as i64).bind("b", from as i64);
        let mut fragment = if dice.roll(2) == 0 { read.prefetch() } else { read }.attach().unwrap();
        for _ in 0..1 + dice.roll(8) {
            match fragment.reattach_newer(fragment.version(), Duration::from_millis(500)) {
                Ok(version) => {
                    check(&fragment, from, version);
                    seen.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) if may_happen(&error) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn runtimes_may_end_and_come_back_at_any_time() {
    let _watchdog = watchdog(600);
    let nodes = RwLock::new(Nodes::new("chaos", RANKS as usize));
    let objects: Vec<Objects> = (0..RANKS as usize).map(|node| nodes.read().unwrap().objects(node)).collect();
    objects[0].create("u", "var u [60] int64").create().unwrap();
    let (barrier, last) = (Barrier::new(RANKS as usize + 1), AtomicU64::new(u64::MAX));
    let versions = if std::env::var_os("STILLFRAME_TEST_NODES").is_some() { 4000 } else { 160 };
    let is_over = AtomicBool::new(false);
    let seen: Vec<AtomicU64> = (0..RANKS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for rank in 0..RANKS {
            let (nodes, barrier, last) = (&nodes, &barrier, &last);
            scope.spawn(move || run_rank(nodes, rank, last, barrier));
        }
        let readers: Vec<_> = (0..RANKS)
            .map(|node| {
                let (objects, is_over, seen) = (&objects[node as usize], &is_over, &seen[node as usize]);
                scope.spawn(move || run_reader(objects, node + 1, is_over, seen))
            })
            .collect();
        let restarts = scope.spawn(|| {
            let (mut dice, mut restarts) = (Dice(7), 0);
            while !is_over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20 + dice.roll(150)));
                let node = dice.roll(RANKS) as usize;
                let mut nodes = nodes.write().unwrap();
                nodes.stop(node);
                std::thread::sleep(Duration::from_millis(dice.roll(20)));
                nodes.start(node);
                restarts += 1;
            }
            restarts
        });
        // At least so many, and until each reader has seen one, which on a busy machine takes longer.
        let mut version = 0;
        while version < last.load(Ordering::SeqCst) {
            version += 1;
            if version % 40 == 0 && version < last.load(Ordering::SeqCst) {
                barrier.wait();
            }
            let has_enough = version + 1 >= versions && seen.iter().all(|seen| seen.load(Ordering::Relaxed) > 0);
            if has_enough && last.load(Ordering::SeqCst) == u64::MAX {
                last.store(version + 1, Ordering::SeqCst);
            }
            barrier.wait();
            // So that versions are there for a while, as a simulation's are.
            std::thread::sleep(Duration::from_millis(5));
        }
        is_over.store(true, Ordering::Relaxed);
        let restarts = restarts.join().unwrap();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        println!("{restarts} restarts, {version} versions; of them were read: {seen:?}");
        let begin = Instant::now();
        for objects in &objects {
            let object = objects.object_named("u").unwrap();
            let mut all = object.read("{ var v = u }").attach().unwrap();
            all.reattach(version, LONG).unwrap();
            check(&all, 0, version);
            assert_eq!(object.wait_newer(version - 1, LONG).unwrap(), version);
        }
        println!("all is well after {} ms", begin.elapsed().as_millis());
        barrier.wait();
    });
}
