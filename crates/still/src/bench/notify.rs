//! From a publish to an observer in another process that waits for it, beside a bare futex wake.

use super::report::{Report, Row};
use super::{CHILD_COMMAND, Setting, measure};
use crate::trial::child::PATIENCE;
use crate::trial::host::{Mapping, Pin, futex_wait, futex_wake, monotonic_ns};
use crate::trial::{Child, Error, Parent, Result};
use crate::units::now_ns;
use measure::{Memcpy, PAGE_BYTES, median, spin_until};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;
use stillframe::{Array, Observer, Region};

/// What the waiting process needs to know.
#[derive(clap::Args, Debug, Clone)]
pub struct Args {
    /// File that both processes map
    board: PathBuf,
    /// Processor to run on, of those that there are
    processor: usize,
    /// Name of the region
    region: String,
}

/// What the waiting process waits for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Wake {
    Futex = 1,
    /// A newer version's number.
    Version = 2,
    /// A newer version, held.
    Snapshot = 3,
}

/// The page through which both processes time each other.
struct Board(Mapping);

impl Board {
    fn open(path: &Path) -> Result<Board> {
        Mapping::open(path, PAGE_BYTES).map(Board)
    }
    /// The word the waiter sleeps on in the bare case.
    fn notifications(&self) -> &std::sync::atomic::AtomicU32 {
        self.0.word(0)
    }
    /// Counts the waits that are about to begin.
    fn begun(&self) -> &std::sync::atomic::AtomicU64 {
        self.0.long(64)
    }
    /// Counts the waits that are over.
    fn woken(&self) -> &std::sync::atomic::AtomicU64 {
        self.0.long(128)
    }
    /// CLOCK_MONOTONIC when the waiter had what it waited for.
    fn monotonic_ns(&self) -> &std::sync::atomic::AtomicU64 {
        self.0.long(192)
    }
    /// Unix time of the same moment, the clock in which versions are stamped.
    fn unix_ns(&self) -> &std::sync::atomic::AtomicU64 {
        self.0.long(256)
    }
}

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let both = std::thread::available_parallelism().map_or(1, |processors| processors.get().min(2));
    (1..=both).rev().try_for_each(|processors| Bench::run(setting, report, processors))
}

/// A process that waits, each time when told.
pub(super) struct Waiter {
    board: Board,
    child: Child,
    /// Waits that were asked for.
    waits: u64,
}

/// A region, and a process that waits for its versions.
struct Bench {
    waiter: Waiter,
    region: Region,
    array: Array<u8>,
    version: u64,
}

/// Times of one kind of wait, and what they are over those of the bare wake in the same round.
#[derive(Default)]
struct Times {
    ns: Vec<f64>,
    ratios: Vec<f64>,
}

impl Times {
    fn add(&mut self, ns: f64, bare_ns: f64) {
        self.ns.push(ns);
        self.ratios.push(ns / bare_ns);
    }
}

impl Bench {
    fn run(setting: &Setting, report: &mut Report, processors: usize) -> Result<()> {
        let mut region = Region::options().dir(setting.root()).keep(1).threads(1).create("notify")?;
        let array = region.array::<u8>("data", &[PAGE_BYTES])?;
        region.publish(1).commit()?;
        // A child may use no processor that its parent may not, so it is started first.
        let waiter = Waiter::start(&setting.root().join("board"), &[], setting.root(), "notify", processors - 1)?;
        let _pin = Pin::to(0);
        let mut bench = Bench { waiter, region, array, version: 1 };
        let rows = bench.measure(setting, processors)?;
        let Bench { waiter, region, .. } = bench;
        drop(waiter);
        region.unlink()?;
        rows.into_iter().try_for_each(|row| report.add(row))
    }

    fn measure(&mut self, setting: &Setting, processors: usize) -> Result<Vec<Row>> {
        let mut memcpy = Memcpy::new(PAGE_BYTES);
        let (mut bare, mut publishing, mut copied) = (Vec::new(), Vec::new(), Vec::new());
        let (mut committed, mut called, mut held) = (Times::default(), Times::default(), Times::default());
        let warming = 20;
        for round in 0..warming + setting.repetitions(1000, 50) {
            let memcpy_ns = memcpy.seconds(PAGE_BYTES) * 1e9;
            let bare_ns = self.wake()?;
            let (awake_ns, publish_ns) = self.publish(Wake::Version)?;
            let info = Observer::options().dir(setting.root()).open("notify")?.newest()?.published_ns();
            let since_commit_ns = since(self.waiter.board.unix_ns().load(Acquire), info);
            let (held_ns, _) = self.publish(Wake::Snapshot)?;
            if round >= warming {
                copied.push(memcpy_ns);
                bare.push(bare_ns);
                publishing.push(publish_ns);
                committed.add(since_commit_ns, bare_ns);
                called.add(awake_ns, bare_ns);
                held.add(held_ns, bare_ns);
            }
        }
        let (bare_ns, memcpy_ns, publish_ns) = (median(&mut bare), median(&mut copied), median(&mut publishing));
        let bare_p99_ns = measure::p99(&mut bare);
        let rows = [("commit", "awake", committed), ("call", "awake", called), ("call", "snapshot", held)];
        Ok(Vec::from(rows.map(|(from, until, mut times)| {
            let detail = json!({"p99_ns": measure::p99(&mut times.ns), "baseline_p99_ns": bare_p99_ns,
                                "publish_ns": publish_ns, "memcpy_ns": memcpy_ns});
            let case = json!({"from": from, "until": until, "processors": processors});
            let row = Row::new("notify", case, median(&mut times.ns), "ns", bare_ns).with(detail);
            Row { ratio: median(&mut times.ratios), ..row }
        })))
    }

    /// Wakes the waiter by nothing but a futex. Returns the nanoseconds until it ran.
    fn wake(&mut self) -> Result<f64> {
        self.waiter.wait_for_sleep(Wake::Futex)?;
        let start = monotonic_ns();
        self.waiter.board.notifications().fetch_add(1, Release);
        futex_wake(self.waiter.board.notifications());
        self.waiter.wait_for_waking(start)
    }

    /// Publishes a page. Returns the nanoseconds until the waiter had what it waits for, and those of the publish.
    fn publish(&mut self, wake: Wake) -> Result<(f64, f64)> {
        self.waiter.wait_for_sleep(wake)?;
        self.version += 1;
        self.region.slice_mut(&self.array).fill(self.version as u8);
        let start = monotonic_ns();
        let published = self.region.publish(self.version).commit()?;
        Ok((self.waiter.wait_for_waking(start)?, published.duration.as_nanos() as f64))
    }
}

impl Waiter {
    /// Starts one for a region in a directory, by a command that becomes the one which follows it. It times itself by a file.
    pub(super) fn start(board: &Path, before: &[&str], dir: &Path, region: &str, processor: usize) -> Result<Waiter> {
        let (path, processor) = (board.to_string_lossy(), processor.to_string());
        let board = Board::open(board)?;
        [board.begun(), board.woken()].iter().for_each(|count| count.store(0, Release));
        let child = Child::start_in(before, dir, &[CHILD_COMMAND, "waiter", &path, &processor, region])?;
        Ok(Waiter { board, child, waits: 0 })
    }

    /// Tells it what to wait for and gives it time to fall asleep.
    pub(super) fn wait_for_sleep(&mut self, wake: Wake) -> Result<()> {
        self.child.tell(&format!("{}", wake as u32))?;
        self.waits += 1;
        if !spin_until(PATIENCE, || self.board.begun().load(Acquire) >= self.waits) {
            return Err(Error::Child { role: "waiter".into(), why: "did not begin to wait".into() });
        }
        // Long enough for the system call to have put the process to sleep, and short enough for its processor to be as
        // awake in one case as in the other.
        let start = std::time::Instant::now();
        spin_until(PATIENCE, || start.elapsed() > Duration::from_micros(200));
        Ok(())
    }

    /// Waits until it runs again; the nanoseconds since `start` until then.
    pub(super) fn wait_for_waking(&self, start: u64) -> Result<f64> {
        if spin_until(PATIENCE, || self.board.woken().load(Acquire) >= self.waits) {
            return Ok(since(self.board.monotonic_ns().load(Acquire), start));
        }
        Err(Error::Child { role: "waiter".into(), why: "was not woken".into() })
    }
}

fn since(end_ns: u64, start_ns: u64) -> f64 {
    // Subtracted as integers: a float cannot tell neighbouring nanoseconds of this century apart.
    end_ns.saturating_sub(start_ns) as f64
}

/// Waits for whatever the parent names, and notes on the board when it came.
pub fn play(args: Args) -> Result<()> {
    let _pin = Pin::to(args.processor);
    let parent = Parent::listen();
    let board = Board::open(&args.board)?;
    let observer = Observer::options().wait(PATIENCE).open(&args.region)?;
    let mut last = observer.newest()?;
    let is = |line: &str, wake: Wake| line == (wake as u32).to_string();
    while let Some(line) = parent.hear() {
        let notifications = board.notifications().load(Acquire);
        // Others may have been waited for by somebody else.
        let newest = observer.newest_number();
        board.begun().fetch_add(1, Release);
        if is(&line, Wake::Futex) {
            while board.notifications().load(Acquire) == notifications {
                futex_wait(board.notifications(), notifications, PATIENCE);
            }
            note(&board);
        } else if is(&line, Wake::Version) {
            observer.wait_newer(newest, Some(PATIENCE))?;
            let times = (monotonic_ns(), now_ns());
            last = observer.newest()?;
            note_at(&board, times);
        } else {
            let next = observer.newest_after(Some(last.version()), Some(PATIENCE))?;
            let times = (monotonic_ns(), now_ns());
            last = next;
            note_at(&board, times);
        }
    }
    Ok(())
}

fn note(board: &Board) {
    note_at(board, (monotonic_ns(), now_ns()));
}

fn note_at(board: &Board, (monotonic_ns, unix_ns): (u64, u64)) {
    board.monotonic_ns().store(monotonic_ns, Release);
    board.unix_ns().store(unix_ns, Release);
    board.woken().fetch_add(1, Release);
}
