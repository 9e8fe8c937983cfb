//! What it costs to fill a reader's fragment out of those of eight writers, beside the same plan on plain memory.

use super::layouts::{LAYOUTS, Layout};
use super::{CHILD_COMMAND, Report, Setting, clear, objects};
use crate::bench::report::Row;
use crate::trial::measure::{MIB, Memory, PAGE_BYTES, median, seconds};
use crate::trial::{Child, Error, Parent, Result};
use drepl::executor::Executor;
use drepl::transfer::Transfer;
use drepl::{Plan, Source, Wanted, plan};
use serde_json::json;
use std::hint::black_box;
use std::time::Duration;
use stillframe_object::{Object, ReadFragment, WriteFragment};

/// What the process with the writers needs to know.
#[derive(clap::Args, Debug, Clone)]
pub struct Args {
    /// The layout
    layout: Layout,
    /// The number that the object's text leaves open
    extent: usize,
}

/// A version that was published is there.
const PATIENCE: Duration = Duration::from_secs(60);

/// Rounds, of two versions each, before those that count.
const SETTLING: usize = 2;

const NAME: &str = "read";

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let bytes = setting.args.size.unwrap_or(if setting.args.quick { 8 * MIB } else { 256 * MIB });
    for layout in LAYOUTS {
        report.add(Bench::new(setting, layout, bytes)?.run(setting)?)?;
        clear(setting.root())?;
    }
    Ok(())
}

/// A reader, and plain memory beside it.
struct Bench {
    layout: Layout,
    threads: usize,
    child: Child,
    fragment: ReadFragment,
    plain: Plain,
}

/// The writers' fragments and the reader's in memory of this process.
struct Plain {
    sources: Vec<Memory>,
    plan: Plan,
    destination: Memory,
    executor: Executor,
}

/// What was measured.
#[derive(Default)]
struct Times {
    reattach: Vec<f64>,
    touch: Vec<f64>,
    plain: Vec<f64>,
    ratios: Vec<f64>,
}

impl Bench {
    fn new(setting: &Setting, layout: Layout, bytes: usize) -> Result<Bench> {
        let extent = layout.extent(bytes);
        let processors = std::thread::available_parallelism().map_or(1, |processors| processors.get());
        let threads = setting.args.threads.unwrap_or(processors).max(1);
        let object = create(setting, layout, extent)?;
        let (name, number) = (layout.name(), extent.to_string());
        let child = Child::start(setting.root(), &[CHILD_COMMAND, "writers", &name, &number])?;
        child.hear()?;
        let fragment = object.read(layout.wanted()).threads(threads).attach()?;
        let plain = Plain::new(&object, &fragment, threads)?;
        Ok(Bench { layout, threads, child, fragment, plain })
    }

    fn run(mut self, setting: &Setting) -> Result<Row> {
        let mut times = Times::default();
        let rounds = SETTLING + setting.repetitions(11, 3);
        let (mut version, mut is_shown) = (0, true);
        for round in 0..rounds {
            // Who was written last finds more of it in the caches, and is timed first: in a round each is it once.
            let (mut reattach, mut plain) = (0.0, 0.0);
            for is_plain_last in [false, true] {
                version += 1;
                if is_plain_last {
                    self.child.ask(&version.to_string())?;
                    self.plain.write(version);
                    plain += self.plain.run()?;
                    reattach += self.reattach(version)?;
                } else {
                    self.plain.write(version);
                    self.child.ask(&version.to_string())?;
                    reattach += self.reattach(version)?;
                    plain += self.plain.run()?;
                }
                is_shown &= self.fragment.is_shown();
            }
            let touch = seconds(|| touch(self.fragment.bytes()));
            if round == 0 || round + 1 == rounds {
                self.check()?;
            }
            if round >= SETTLING {
                times.reattach.push(reattach / 2.0 * 1e3);
                times.touch.push(touch * 1e3);
                times.plain.push(plain / 2.0 * 1e3);
                times.ratios.push(reattach / plain);
            }
        }
        Ok(self.row(times, is_shown))
    }

    fn reattach(&mut self, version: u64) -> Result<f64> {
        let mut outcome = Ok(());
        let elapsed = seconds(|| outcome = self.fragment.reattach(version, PATIENCE));
        outcome?;
        Ok(elapsed)
    }

    /// Both have to come to the same.
    fn check(&self) -> Result<()> {
        match self.fragment.bytes() == &self.plain.destination[..self.fragment.bytes().len()] {
            true => Ok(()),
            false => {
                Err(Error::Wrong(format!("{}: the fragment has other bytes than the plan moves", self.layout.name())))
            }
        }
    }

    fn row(&self, mut times: Times, is_shown: bool) -> Row {
        let case = json!({
            "part": "read", "layout": self.layout.name(), "bytes": self.fragment.bytes().len(), "shown": is_shown,
        });
        let row = Row::new("objects", case, median(&mut times.reattach), "ms", median(&mut times.plain));
        let ratio = median(&mut times.ratios);
        let detail = json!({
            "ratio_min": times.ratios.first(), "ratio_max": times.ratios.last(), "rounds": times.ratios.len(),
            "touch_ms": median(&mut times.touch), "writers": self.layout.writers(), "threads": self.threads,
        });
        Row { ratio, ..row.with(detail) }
    }
}

impl Plain {
    /// The same plan as the reader's. Every page of all memory is there; the destination has large pages, as the fragment does.
    fn new(object: &Object, wanted: &ReadFragment, threads: usize) -> Result<Plain> {
        let writers = object.writers()?;
        let source = |fragment| Source { fragment, version: 1, cost: 0, readable: true };
        let sources: Vec<Source> = writers.iter().map(|writer| source(writer.fragment.clone())).collect();
        let plan =
            plan(&Wanted::newest(wanted.fragment()), &sources).map_err(|error| Error::Wrong(error.to_string()))?;
        let memory = |source: &Source| Memory::new(source.fragment.size_bytes() as usize);
        let sources = sources.iter().map(memory).collect();
        let destination = Memory::large(wanted.fragment().size_bytes() as usize);
        Ok(Plain { sources, plan, destination, executor: Executor::new(threads) })
    }

    fn write(&mut self, version: u64) {
        for (number, source) in self.sources.iter_mut().enumerate() {
            write(source, number, version);
        }
    }

    fn run(&mut self) -> Result<f64> {
        let work: Vec<(&Transfer, &[u8])> =
            self.plan.transfers.iter().map(|(source, transfer)| (transfer, &*self.sources[*source])).collect();
        let mut outcome = Ok(());
        let destination = &mut self.destination;
        let elapsed = seconds(|| outcome = self.executor.run_all(&work, black_box(destination)));
        outcome.map_err(|error| Error::Wrong(error.to_string()))?;
        Ok(elapsed)
    }
}

fn create(setting: &Setting, layout: Layout, extent: usize) -> Result<Object> {
    Ok(objects(setting.root())?.create(NAME, layout.object()).bind("n", extent as i64).create()?)
}

/// Reads a byte of every page.
fn touch(bytes: &[u8]) {
    black_box(bytes.iter().step_by(PAGE_BYTES).fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
}

/// Writes all of a writer's fragment: numbers that tell versions, writers and places apart.
fn write(memory: &mut [u8], writer: usize, version: u64) {
    let first = version << 32 | (writer as u64) << 28;
    for (place, number) in memory.chunks_exact_mut(8).enumerate() {
        number.copy_from_slice(&(first.wrapping_add(place as u64)).to_ne_bytes());
    }
}

/// Writes and publishes all fragments of the object in the version that the parent names.
pub fn play(args: Args) -> Result<()> {
    let parent = Parent::listen();
    let object = objects(&stillframe::inspect::root())?.object_named(NAME)?;
    let writers = args.layout.writers();
    let rows = args.extent / writers;
    let attach = |writer: usize| {
        let options = object.write(args.layout.written()).rank(writer as u32).bind("rows", rows as i64);
        Ok(options.bind("first", (writer * rows) as i64).attach()?)
    };
    let mut fragments = (0..writers).map(attach).collect::<Result<Vec<WriteFragment>>>()?;
    parent.tell("attached")?;
    while let Some(line) = parent.hear() {
        let version = line.parse().map_err(|_| Error::Usage(format!("'{line}' is no version")))?;
        for (writer, fragment) in fragments.iter_mut().enumerate() {
            write(fragment.bytes_mut()?, writer, version);
            fragment.publish(version)?;
        }
        parent.tell(version)?;
    }
    fragments.into_iter().try_for_each(WriteFragment::detach)?;
    Ok(())
}
