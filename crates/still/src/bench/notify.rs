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
use stillframe::{Observer, Region};

/// What the waiting process needs to know.
#[derive(clap::Args, Debug, Clone)]
pub struct Args {
    /// File that both processes map
    board: PathBuf,
}

/// What the waiting process waits for.
#[derive(Clone, Copy, PartialEq)]
enum Wake {
    Futex = 1,
    Version = 2,
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
    /// CLOCK_MONOTONIC after the last wait.
    fn monotonic_ns(&self) -> &std::sync::atomic::AtomicU64 {
        self.0.long(192)
    }
    /// CLOCK_MONOTONIC when the version that was waited for was held.
    fn held_ns(&self) -> &std::sync::atomic::AtomicU64 {
        self.0.long(320)
    }
    /// Unix time after the last wait, the clock in which versions are stamped.
    fn unix_ns(&self) -> &std::sync::atomic::AtomicU64 {
        self.0.long(256)
    }
}

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let _pin = Pin::to(0);
    let path = setting.root().join("board");
    let board = Board::open(&path)?;
    let mut region = Region::options().dir(setting.root()).keep(1).threads(1).create("notify")?;
    let array = region.array::<u8>("data", &[PAGE_BYTES])?;
    let mut version = 1;
    region.publish(version).commit()?;
    let mut waiter = Child::start(setting.root(), &[CHILD_COMMAND, "waiter", &path.to_string_lossy()])?;
    let mut memcpy = Memcpy::new(PAGE_BYTES);
    let (mut bare, mut called, mut committed, mut held, mut publishing, mut copied) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let warming = 20;
    for round in 0..warming + setting.repetitions(1000, 50) as u64 {
        let keep = |times: &mut Vec<f64>, value: f64| {
            if round >= warming {
                times.push(value);
            }
        };
        keep(&mut copied, memcpy.seconds(PAGE_BYTES) * 1e9);

        wait_for_sleep(&mut waiter, &board, Wake::Futex, 2 * round)?;
        let start = monotonic_ns();
        board.notifications().fetch_add(1, Release);
        futex_wake(board.notifications());
        wait_for_waking(&board, 2 * round + 1)?;
        keep(&mut bare, since(board.monotonic_ns().load(Acquire), start));

        wait_for_sleep(&mut waiter, &board, Wake::Version, 2 * round + 1)?;
        version += 1;
        region.slice_mut(&array).fill(version as u8);
        let start = monotonic_ns();
        let published = region.publish(version).commit()?;
        wait_for_waking(&board, 2 * round + 2)?;
        keep(&mut called, since(board.monotonic_ns().load(Acquire), start));
        keep(&mut held, since(board.held_ns().load(Acquire), start));
        keep(&mut publishing, published.duration.as_nanos() as f64);
        let info = Observer::options().dir(setting.root()).open("notify")?.newest()?.published_ns();
        keep(&mut committed, since(board.unix_ns().load(Acquire), info));
    }
    drop(waiter);
    region.unlink()?;
    let bare_ns = median(&mut bare);
    let memcpy_ns = median(&mut copied);
    let publish_ns = median(&mut publishing);
    let rows = [("commit", "awake", committed), ("call", "awake", called), ("call", "snapshot", held)];
    for (from, until, mut times) in rows {
        let detail = json!({"p99_ns": measure::p99(&mut times), "baseline_p99_ns": measure::p99(&mut bare),
                            "publish_ns": publish_ns, "memcpy_ns": memcpy_ns});
        report.add(
            Row::new("notify", json!({"from": from, "until": until}), median(&mut times), "ns", bare_ns).with(detail),
        )?;
    }
    Ok(())
}

fn since(end_ns: u64, start_ns: u64) -> f64 {
    // Subtracted as integers: a float cannot tell neighbouring nanoseconds of this century apart.
    end_ns.saturating_sub(start_ns) as f64
}

/// Tells the waiter what to wait for and gives it time to fall asleep.
fn wait_for_sleep(waiter: &mut Child, board: &Board, wake: Wake, waits: u64) -> Result<()> {
    waiter.tell(&format!("{}", wake as u32))?;
    if !spin_until(PATIENCE, || board.begun().load(Acquire) > waits) {
        return Err(Error::Child { role: "waiter".into(), why: "did not begin to wait".into() });
    }
    // Long enough for the system call to have put the process to sleep, and short enough for its processor to be as
    // awake in one case as in the other.
    let start = std::time::Instant::now();
    spin_until(PATIENCE, || start.elapsed() > Duration::from_micros(200));
    Ok(())
}

fn wait_for_waking(board: &Board, waits: u64) -> Result<()> {
    if spin_until(PATIENCE, || board.woken().load(Acquire) >= waits) {
        return Ok(());
    }
    Err(Error::Child { role: "waiter".into(), why: "was not woken".into() })
}

/// Waits for whatever the parent names, and notes on the board when it came.
pub fn play(args: Args) -> Result<()> {
    let _pin = Pin::to(1);
    let parent = Parent::listen();
    let board = Board::open(&args.board)?;
    let observer = Observer::options().open("notify")?;
    let mut last = observer.newest()?;
    while let Some(line) = parent.hear() {
        let notifications = board.notifications().load(Acquire);
        board.begun().fetch_add(1, Release);
        if line == (Wake::Futex as u32).to_string() {
            while board.notifications().load(Acquire) == notifications {
                futex_wait(board.notifications(), notifications, PATIENCE);
            }
            note(&board, monotonic_ns(), now_ns());
        } else {
            observer.wait_newer(Some(last.version()), Some(PATIENCE))?;
            let (awake_ns, awake_unix_ns) = (monotonic_ns(), now_ns());
            last = observer.newest()?;
            board.held_ns().store(monotonic_ns(), Release);
            note(&board, awake_ns, awake_unix_ns);
        }
    }
    Ok(())
}

fn note(board: &Board, monotonic_ns: u64, unix_ns: u64) {
    board.monotonic_ns().store(monotonic_ns, Release);
    board.unix_ns().store(unix_ns, Release);
    board.woken().fetch_add(1, Release);
}
