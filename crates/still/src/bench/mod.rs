//! `still bench`: measures the library on this machine, with a plain `memcpy` of the same bytes beside every figure.
//!
//! What each benchmark does and what its lines mean is described in `docs/benchmarks.md`. Rivals and yardsticks take
//! turns with what they are compared to in the same run, because the speed of a machine drifts.

mod advance;
mod attach;
mod background;
mod compose;
mod enclave;
mod first_write;
mod memory;
mod memory_units;
mod notify;
mod objects;
mod pattern;
mod producer;
mod publish;
mod rate;
mod regions;
mod report;
mod restart;
mod sections;
mod solver;
mod units;
mod variables;
mod window;

use crate::trial::{Place, Result, measure};
use report::Report;
use std::path::PathBuf;
use std::time::Duration;

/// Measure the library on this machine, beside a plain memcpy of the same bytes
#[derive(clap::Args, Debug, Clone)]
pub struct Args {
    /// What to measure
    #[arg(required = true, value_enum, value_name = "NAME")]
    names: Vec<Name>,
    /// Size of the region [default: 1G, or 64M with --quick]
    #[arg(long, value_parser = measure::parse_bytes)]
    size: Option<usize>,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    json: bool,
    /// Use a small region and few repetitions: shows that everything works, and roughly how fast
    #[arg(long)]
    quick: bool,
    /// publish: which pages each step writes
    #[arg(long, value_enum, value_delimiter = ',', default_value = "stationary,random")]
    pattern: Vec<pattern::Pattern>,
    /// publish: share of the pages each step writes, in percent
    #[arg(long, value_delimiter = ',', value_name = "PERCENT", default_value = "0,1,10,30,50,72,100")]
    dirty: Vec<f64>,
    /// publish, objects: threads that copy [default: publish: 1, and one more row with the library's default; objects: one
    /// on each processor]
    #[arg(long)]
    threads: Option<usize>,
    /// publish: whose memory is written
    #[arg(long, value_enum, default_value = "managed")]
    kind: publish::Kind,
    /// units: the pool of large pages in which the array lies (still pages)
    #[arg(long, value_name = "POOL", default_value = "default")]
    pool: String,
    /// publish, units: blocks of 64 steps to take the median of [default: 3, or 1 with --quick]
    #[arg(long)]
    blocks: Option<usize>,
    /// regions: how many in an arena of one process [default: 16000, or 1000 with --quick]
    #[arg(long)]
    regions: Option<usize>,
    /// objects: which parts
    #[arg(long, value_enum, value_delimiter = ',', default_value = "calls,publish,read")]
    part: Vec<objects::Part>,
    /// objects: processes that create and attach at a time [default: 16, or 4 with --quick]
    #[arg(long)]
    processes: Option<usize>,
    /// objects: how many each of them creates [default: 1000, or 50 with --quick]
    #[arg(long)]
    objects: Option<usize>,
    /// compose, restart: directory on a disk, for the rival that shares a file and for checkpoints
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    disk: PathBuf,
}

/// A benchmark.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    /// Cost of tracking and publishing, relative to a memcpy of the whole region
    Publish,
    /// How long a publish in the background holds the program up
    Background,
    /// What reserved large pages change for a publish
    Units,
    /// What sections and rounded numbers cost, relative to a contiguous array
    Sections,
    /// What many small arrays cost, relative to one of as many bytes
    Variables,
    /// What publishing costs a solver that rewrites all its vectors in each iteration
    Solver,
    /// The first write to a page after a publish, in cycles, with each tracker
    FirstWrite,
    /// Publishes per second of a region of one page
    Rate,
    /// From opening a region to the first byte of a snapshot
    Attach,
    /// What it costs that the observer is in another container, comes through a broker, or is in another enclave
    Enclave,
    /// From one version to the next
    Advance,
    /// From a publish to a waiting observer
    Notify,
    /// Memory of a producer, an observer and the region together
    Memory,
    /// The unit in which memory for versions is taken: time and memory
    MemoryUnits,
    /// From the begin of a program that goes on to the moment its arrays can be used
    Restart,
    /// What a region of one small variable costs: memory, descriptors, time to make it and to open it
    Regions,
    /// The calls of objects, their publishes, and readers that want other layouts than the writers
    Objects,
    /// A producer and an observer, against other ways to compose them
    Compose,
    /// All of these
    All,
}

const NAMES: [Name; 18] = [
    Name::Publish,
    Name::Background,
    Name::Units,
    Name::Sections,
    Name::Variables,
    Name::Solver,
    Name::FirstWrite,
    Name::Rate,
    Name::Attach,
    Name::Enclave,
    Name::Advance,
    Name::Notify,
    Name::Memory,
    Name::MemoryUnits,
    Name::Restart,
    Name::Regions,
    Name::Objects,
    Name::Compose,
];

/// What every benchmark needs to know.
struct Setting<'a> {
    args: &'a Args,
    place: &'a Place,
    region_bytes: usize,
}

impl Setting<'_> {
    /// `full` repetitions, or `quick` ones.
    fn repetitions(&self, full: usize, quick: usize) -> usize {
        if self.args.quick { quick } else { full }
    }

    /// The root of the regions as a text, for children.
    fn root(&self) -> &std::path::Path {
        self.place.path()
    }
}

/// Runs the benchmarks asked for.
pub fn run(args: Args) -> Result<()> {
    let region_bytes = args.size.unwrap_or(if args.quick { 64 * measure::MIB } else { 1024 * measure::MIB });
    let region_bytes = region_bytes.next_multiple_of(measure::PAGE_BYTES).max(64 * measure::PAGE_BYTES);
    let place = Place::create(Duration::from_secs(if args.quick { 600 } else { 3 * 3600 }))?;
    let setting = Setting { args: &args, place: &place, region_bytes };
    match measure_all(&setting) {
        Err(error) if error.is_closed_pipe() => Ok(()),
        outcome => outcome,
    }
}

fn measure_all(setting: &Setting) -> Result<()> {
    let names = &setting.args.names;
    let mut report = Report::new(setting.args.json);
    for name in NAMES.into_iter().filter(|name| names.contains(name) || names.contains(&Name::All)) {
        match name {
            Name::Publish => publish::run(setting, &mut report)?,
            Name::Background => background::run(setting, &mut report)?,
            Name::Units => units::run(setting, &mut report)?,
            Name::MemoryUnits => memory_units::run(setting, &mut report)?,
            Name::Sections => sections::run(setting, &mut report)?,
            Name::Variables => variables::run(setting, &mut report)?,
            Name::Solver => solver::run(setting, &mut report)?,
            Name::FirstWrite => first_write::run(setting, &mut report)?,
            Name::Rate => rate::run(setting, &mut report)?,
            Name::Attach => attach::run(setting, &mut report)?,
            Name::Enclave => {
                enclave::run(setting, &mut report)?;
                window::run(setting, &mut report)?;
            }
            Name::Advance => advance::run(setting, &mut report)?,
            Name::Notify => notify::run(setting, &mut report)?,
            Name::Memory => memory::run(setting, &mut report)?,
            Name::Restart => restart::run(setting, &mut report)?,
            Name::Regions => regions::run(setting, &mut report)?,
            Name::Objects => objects::run(setting, &mut report)?,
            Name::Compose | Name::All => compose::run(setting, &mut report)?,
        }
    }
    Ok(())
}

/// The part of a benchmark that a child process plays.
#[derive(clap::Subcommand, Debug, Clone)]
pub enum Role {
    /// Writes and publishes a region when told to
    Producer(producer::Args),
    /// Sleeps until woken, either by the library or by a futex
    Waiter(notify::Args),
    /// Reads every version whole
    Reader(memory::Args),
    /// Attaches and goes on from version to version when told to
    Looker(enclave::Args),
    /// Writes pages one by one, and says how long each took
    Toucher(first_write::Args),
    /// Sums the arrays it is handed
    Summer(compose::Args),
    /// Creates objects, attaches a fragment in each, and publishes them
    Caller(objects::calls::Args),
    /// Writes all fragments of an object
    Writers(objects::read::Args),
}

/// Name of the hidden subcommand that takes a [`Role`].
pub const CHILD_COMMAND: &str = "bench-child";

/// Plays a child's part until the parent dismisses it.
pub fn play(role: Role) -> Result<()> {
    match role {
        Role::Producer(args) => producer::play(args),
        Role::Waiter(args) => notify::play(args),
        Role::Reader(args) => memory::play(args),
        Role::Looker(args) => enclave::play(args),
        Role::Toucher(args) => first_write::play(args),
        Role::Summer(args) => compose::play(args),
        Role::Caller(args) => objects::calls::play(args),
        Role::Writers(args) => objects::read::play(args),
    }
}
