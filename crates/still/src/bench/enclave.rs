//! What it costs that the observer is elsewhere: without the directory of regions, to whom a broker hands out descriptors, or in a
//! container of its own, into which the directory is mounted to be read only.

use super::pattern::Pattern;
use super::producer::Producer;
use super::report::{Report, Row};
use super::{CHILD_COMMAND, Setting, measure};
use crate::trial::{Child, Parent, Result, child::PATIENCE};
use measure::{MIB, median, seconds};
use serde_json::json;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;
use stillframe::{Observer, Snapshot};

/// Name of the region.
const NAME: &str = "enclave";

/// Share of the pages that each version changes.
const SHARE: f64 = 0.01;

/// Attachments, or steps, of one observer before it is the other's turn.
const TURN: usize = 8;

/// Where a container has the directory.
const INSIDE: &str = "/mnt";

/// What an observer's process does before it becomes one.
const ENTER: &str = "mount --bind \"$1\" \"$2\"; mount -o remount,bind,ro,nosuid,nodev \"$2\"; shift 2; exec \"$@\"";

/// Where an observer finds regions.
#[derive(clap::Args, Debug, Clone)]
pub struct Args {
    /// The directory
    dir: PathBuf,
}

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let small = (16 * MIB).min(setting.region_bytes);
    let mut sizes = vec![small, setting.region_bytes];
    sizes.dedup();
    for bytes in sizes {
        let mut producer = Producer::start(setting, NAME, bytes)?;
        through_a_broker(setting, report, bytes)?;
        in_a_container(setting, report, &mut producer, bytes)?;
    }
    Ok(())
}

/// From the connection to the broker to the first byte of a snapshot, beside the same by the directory.
fn through_a_broker(setting: &Setting, report: &mut Report, bytes: usize) -> Result<()> {
    let socket = setting.root().join("sock");
    let path = socket.display().to_string();
    let broker = Child::start(setting.root(), &["enclave", "serve", "--socket", &path])?;
    broker.hear()?;
    let broker_dir = PathBuf::from(format!("unix:{path}"));
    for (access, is_view) in [("chunks", false), ("view", true)] {
        let (mut handed, mut named) = (Vec::new(), Vec::new());
        for _ in 0..setting.repetitions(50, 5) {
            for _ in 0..TURN {
                handed.push(attach(&broker_dir, is_view)?);
            }
            for _ in 0..TURN {
                named.push(attach(setting.root(), is_view)?);
            }
        }
        let case = json!({"bytes": bytes, "what": "attach through a broker", "access": access});
        let detail = json!({"p99_us": measure::p99(&mut handed) * 1e6});
        report.add(Row::new(NAME, case, median(&mut handed) * 1e6, "us", median(&mut named) * 1e6).with(detail))?;
    }
    Ok(())
}

fn attach(dir: &Path, is_view: bool) -> Result<f64> {
    let mut first = Ok(None);
    let elapsed = seconds(|| first = first_byte(dir, is_view));
    black_box(first?);
    Ok(elapsed)
}

fn first_byte(dir: &Path, is_view: bool) -> Result<Option<u8>> {
    let snapshot = Observer::options().dir(dir).open(NAME)?.newest()?;
    Ok(match is_view {
        true => snapshot.slice::<u8>("data")?.first().copied(),
        false => snapshot.chunks("data")?.next().and_then(|chunk| chunk.bytes.first().copied()),
    })
}

/// Times of one observer, in seconds.
#[derive(Default)]
struct Times {
    attach: Vec<f64>,
    publish: Vec<f64>,
    advance: Vec<f64>,
}

/// An observer's process in a container, beside one in the container of the producer.
fn in_a_container(setting: &Setting, report: &mut Report, producer: &mut Producer, bytes: usize) -> Result<()> {
    let root = setting.root().display().to_string();
    let beside = Child::start(setting.root(), &[CHILD_COMMAND, "looker", &root])?;
    let namespaces = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let unshare =
        [&["unshare"][..], &namespaces, &["--net", "--ipc", "--uts", "sh", "-ec", ENTER, "sh", &root, INSIDE]].concat();
    let inside = Child::start_in(&unshare, setting.root(), &[CHILD_COMMAND, "looker", INSIDE])?;
    let mut both = [(beside, Times::default()), (inside, Times::default())];
    for _ in 0..setting.repetitions(100, 4) {
        for (looker, times) in &mut both {
            looker.ask("watch")?;
            for _ in 0..TURN / 2 {
                // It holds the version before while the next one is published.
                let start = Instant::now();
                producer.step(Pattern::Random, SHARE)?;
                times.publish.push(start.elapsed().as_secs_f64());
                looker.tell("advance")?;
                times.advance.push(looker.hear_numbers::<1>()?[0] as f64 / 1e9);
            }
            looker.ask("rest")?;
            for _ in 0..TURN {
                looker.tell("attach")?;
                times.attach.push(looker.hear_numbers::<1>()?[0] as f64 / 1e9);
            }
        }
    }
    let [(_, mut beside), (_, mut inside)] = both;
    let pairs = [
        ("attach", &mut inside.attach, &mut beside.attach),
        ("publish", &mut inside.publish, &mut beside.publish),
        ("advance", &mut inside.advance, &mut beside.advance),
    ];
    for (what, inside, beside) in pairs {
        let case = json!({"bytes": bytes, "what": format!("{what}, the observer in a container")});
        let detail = json!({"p99_us": measure::p99(inside) * 1e6});
        report.add(Row::new(NAME, case, median(inside) * 1e6, "us", median(beside) * 1e6).with(detail))?;
    }
    Ok(())
}

/// Plays an observer: answers each line, with nanoseconds where something is timed.
pub fn play(args: Args) -> Result<()> {
    let parent = Parent::listen();
    let mut watched: Option<(Observer, Snapshot)> = None;
    while let Some(line) = parent.hear() {
        let start = Instant::now();
        match (line.as_str(), &mut watched) {
            ("watch", watched) => {
                let observer = Observer::options().dir(&args.dir).open(NAME)?;
                let newest = observer.newest()?;
                *watched = Some((observer, newest));
            }
            ("advance", Some((observer, last))) => {
                let next = observer.newest_after(Some(last.version()), Some(PATIENCE))?;
                let mut total = 0u64;
                for range in next.changed(last, "data")? {
                    for chunk in next.chunks_in("data", range)? {
                        total = chunk
                            .bytes
                            .iter()
                            .step_by(64)
                            .fold(total, |total, byte| total.wrapping_add(u64::from(*byte)));
                    }
                }
                black_box(total);
                *last = next;
            }
            // A view of pages that were written here and there would be what is measured.
            ("attach", _) => drop(black_box(first_byte(&args.dir, false)?)),
            (_, watched) => *watched = None,
        }
        parent.tell(start.elapsed().as_nanos())?;
    }
    Ok(())
}
