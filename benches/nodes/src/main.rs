//! One process of a benchmark over nodes; `run.py` starts them and says what they do, by lines.

mod names;

use clap::{Parser, ValueEnum};
use drepl::executor::Executor;
use drepl::{Source, Wanted, plan};
use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, SystemTimeError, UNIX_EPOCH};
use stillframe_object::Objects;

/// A version that was published is there.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the reader wants of what the writer has.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// All of it
    Contiguous,
    /// Every fourth number
    EveryFourth,
    /// Arrays out of records of four numbers
    RecordsToArrays,
    /// The array in the other order
    Transpose,
}

impl Layout {
    fn object(self) -> &'static str {
        match self {
            Layout::Contiguous | Layout::EveryFourth => "var u [n] float64",
            Layout::RecordsToArrays => "type Cell struct { a, b, c, d float64 }\nvar u [n]Cell",
            Layout::Transpose => "var u [n,n] float64",
        }
    }

    /// The number `n` for which the reader's fragment has about so many bytes.
    fn extent(self, bytes: usize) -> usize {
        match self {
            Layout::Contiguous => bytes / 8,
            Layout::EveryFourth => bytes / 2,
            Layout::RecordsToArrays => bytes / 32,
            Layout::Transpose => ((bytes / 8) as f64).sqrt() as usize,
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Layout::Contiguous => "{ var u = u }",
            Layout::EveryFourth => "{ var u [x] = u[4*x] }",
            Layout::RecordsToArrays => "{ var a [] = u[].a; var b [] = u[].b; var c [] = u[].c; var d [] = u[].d }",
            Layout::Transpose => "view v columnmajor { var u [x,y] = u[x,y] }",
        }
    }

    /// Where the number at `at` of the writer's lies among the reader's numbers.
    fn place(self, at: usize, n: usize) -> Option<usize> {
        match self {
            Layout::Contiguous => Some(at),
            Layout::EveryFourth => at.is_multiple_of(4).then_some(at / 4),
            Layout::RecordsToArrays => Some(at % 4 * n + at / 4),
            Layout::Transpose => Some(at % n * n + at / n),
        }
    }

    fn numbers(self, n: usize) -> usize {
        match self {
            Layout::Contiguous | Layout::EveryFourth => n,
            Layout::RecordsToArrays => 4 * n,
            Layout::Transpose => n * n,
        }
    }
}

/// Of any kind.
type Failure = Box<dyn Error>;

const WRITTEN: &str = "{ var u = u }";
const NAME: &str = "bench";

/// One process of a benchmark over nodes.
#[derive(Parser)]
enum Role {
    /// Publishes a version for each line with its number, and prints when it began to, in nanoseconds since 1970
    Write {
        dir: PathBuf,
        layout: Layout,
        mib: usize,
        /// The object
        #[arg(long, default_value = NAME)]
        name: String,
        /// Into memory that it is lent for each version
        #[arg(long)]
        loaned: bool,
    },
    /// Reads the version whose number is on a line once it is complete, and prints the nanoseconds that takes
    Read { dir: PathBuf, layout: Layout, mib: usize },
    /// Waits for the version whose number is on a line, and prints when it had it, in nanoseconds since 1970
    Await {
        dir: PathBuf,
        layout: Layout,
        mib: usize,
        /// The object
        #[arg(long, default_value = NAME)]
        name: String,
    },
    /// Publishes 100 versions for each line, and prints the nanoseconds that one takes in the median
    Publish { dir: PathBuf, kib: usize },
    /// Creates objects, attaches a fragment in each and publishes it, as lines say
    Objects { dir: PathBuf, process: usize, count: usize },
    /// Puts the texts of so many objects, by themselves, for each line
    Put { endpoint: String, certificate: PathBuf, process: usize, count: usize },
    /// Packs as often as there are lines, and prints the nanoseconds of packing and of a plain loop
    Pack { layout: Layout, mib: usize },
}

fn main() -> Result<(), Failure> {
    match Role::parse() {
        Role::Write { dir, layout, mib, name, loaned } => write(dir, layout, mib, &name, loaned),
        Role::Read { dir, layout, mib } => read(dir, layout, mib, NAME, false),
        Role::Await { dir, layout, mib, name } => read(dir, layout, mib, &name, true),
        Role::Publish { dir, kib } => publish(dir, kib),
        Role::Objects { dir, process, count } => names::objects(dir, process, count),
        Role::Put { endpoint, certificate, process, count } => names::put(&endpoint, &certificate, process, count),
        Role::Pack { layout, mib } => pack(layout, mib),
    }
}

fn say(line: impl std::fmt::Display) -> std::io::Result<()> {
    println!("{line}");
    std::io::stdout().flush()
}

fn value(version: u64, at: usize) -> f64 {
    version as f64 * 1e9 + at as f64
}

/// What all processes of a machine count alike.
fn now_ns() -> Result<u128, SystemTimeError> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos())
}

fn write(dir: PathBuf, layout: Layout, mib: usize, name: &str, is_loaned: bool) -> Result<(), Failure> {
    let n = layout.extent(mib << 20);
    let objects = Objects::options().dir(dir).open()?;
    let object = objects.create(name, layout.object()).bind("n", n as i64).create()?;
    let options = object.write(WRITTEN);
    let mut fragment = if is_loaned { options.loaned() } else { options }.attach()?;
    say("ready")?;
    for line in std::io::stdin().lock().lines() {
        let version: u64 = line?.trim().parse()?;
        let bytes = fragment.bytes_mut()?;
        for (at, number) in bytes.chunks_exact_mut(8).enumerate() {
            number.copy_from_slice(&value(version, at).to_ne_bytes());
        }
        let begin = now_ns()?;
        fragment.publish(version)?;
        say(begin)?;
    }
    Ok(())
}

fn read(dir: PathBuf, layout: Layout, mib: usize, name: &str, waits: bool) -> Result<(), Failure> {
    let objects = Objects::options().dir(dir).open()?;
    let object = objects.wait(name, PATIENCE)?;
    let mut fragment = object.read(layout.wanted()).attach()?;
    let n = layout.extent(mib << 20);
    say("ready")?;
    for line in std::io::stdin().lock().lines() {
        let version: u64 = line?.trim().parse()?;
        if !waits {
            object.wait_newer(version - 1, PATIENCE)?;
        }
        let begin = Instant::now();
        fragment.reattach(version, PATIENCE)?;
        let told = if waits { now_ns()? } else { begin.elapsed().as_nanos() };
        let bytes = fragment.bytes();
        // The whole of it is looked at by the tests; here it is only made sure that the right version was measured.
        for at in (0..layout.numbers(n)).step_by(4 * 997) {
            let Some(place) = layout.place(at, n) else { continue };
            let number = bytes[8 * place..8 * place + 8].try_into().map(f64::from_ne_bytes)?;
            assert!(number == value(version, at), "version {version}, number {at}: {number}");
        }
        say(told)?;
    }
    Ok(())
}

fn publish(dir: PathBuf, kib: usize) -> Result<(), Failure> {
    let objects = Objects::options().dir(dir).open()?;
    let object = objects.create("published", "var u [n] float64").bind("n", 128 * kib as i64).create()?;
    let mut fragment = object.write(WRITTEN).attach()?;
    let mut version = 0;
    say("ready")?;
    for line in std::io::stdin().lock().lines() {
        line?;
        let mut took = Vec::new();
        for _ in 0..100 {
            version += 1;
            fragment.bytes_mut()?.fill(version as u8);
            let begin = Instant::now();
            fragment.publish(version)?;
            took.push(begin.elapsed().as_nanos());
        }
        took.sort_unstable();
        say(took[took.len() / 2])?;
    }
    Ok(())
}

fn pack(layout: Layout, mib: usize) -> Result<(), Failure> {
    let n = layout.extent(mib << 20);
    let dir = std::env::temp_dir().join(format!("nodes-bench-{}", std::process::id()));
    let objects = Objects::options().dir(&dir).open()?;
    let object = objects.create(NAME, layout.object()).bind("n", n as i64).create()?;
    let (relay, numbers) = (object.relay(), BTreeMap::new());
    let (from, to) =
        (relay.fragment(WRITTEN, &numbers)?.0.fragment, relay.fragment(layout.wanted(), &numbers)?.0.fragment);
    let source = Source { fragment: from, version: 0, cost: 0, readable: true };
    let mut plan = plan(&Wanted { fragment: &to, versions: 0..=0 }, &[source])?;
    let transfer = plan.transfers.pop().map(|(_, transfer)| transfer).unwrap_or_default();
    drop(object);
    objects.remove(NAME, false)?;
    std::fs::remove_dir_all(&dir)?;
    let half = transfer.pack();
    let (mut from, mut to) = (vec![0_u8; 8 * layout.numbers(n)], vec![0_u8; half.moved_bytes() as usize]);
    from.fill(1);
    to.fill(1);
    let executor = Executor::new(0);
    let numbers = layout.numbers(n);
    say("ready")?;
    for line in std::io::stdin().lock().lines() {
        line?;
        let begin = Instant::now();
        executor.run(&half, &from, &mut to)?;
        let packed = begin.elapsed();
        black_box(&mut to);
        let begin = Instant::now();
        match layout {
            Layout::Transpose => {
                for x in 0..n {
                    for y in 0..n {
                        let (at, place) = (8 * (x * n + y), 8 * (y * n + x));
                        to[place..place + 8].copy_from_slice(&from[at..at + 8]);
                    }
                }
            }
            _ => {
                for at in 0..numbers {
                    if let Some(place) = layout.place(at, n) {
                        to[8 * place..8 * place + 8].copy_from_slice(&from[8 * at..8 * at + 8]);
                    }
                }
            }
        }
        black_box(&mut to);
        say(format!("{} {}", packed.as_nanos(), begin.elapsed().as_nanos()))?;
    }
    Ok(())
}
