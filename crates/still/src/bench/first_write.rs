//! What the first write to a page costs after a publish, in cycles, with each tracker: Figures 5 and 6 of the XASM paper. Beside it
//! stands the first write after a fork, which is the kernel's copy-on-write, and that to memory which nobody tracks.

use super::report::{Report, Row};
use super::{CHILD_COMMAND, Setting};
use crate::trial::host::{self, Forked, Pin};
use crate::trial::{Child, Error, Parent, Result, measure};
use clap::ValueEnum;
use measure::{MIB, Memcpy, Memory, PAGE_BYTES, parse_bytes, quantile};
use serde_json::{Value, json};
use std::fmt::Write;
use std::hint::black_box;
use std::time::Duration;
use stillframe::{Array, Region, TRACKERS, Tracked, TrackerKind};

/// Name of the benchmark, and of the region in each process.
const NAME: &str = "first-write";

/// Cycles of a copy-on-write fault in the paper's common case, for Kitten and for Linux, and the gigahertz that they are counted in
/// (sections 3 and 4.1).
const PAPER: (f64, f64) = (3000.0, 2.2);

/// What a first write counts as slow above, in times of the median, and the percentage that may be.
const SLOW: (f64, f64) = (10.0, 1.0);

/// A step writes one page in so many, and the next step others. So few pages are written in two steps one after the other that
/// every tracker arms all of them at each publish.
const STRIDE: usize = 10;

/// Steps that are not timed, in which every page is written a few times.
const SETTLING: usize = 4 * STRIDE;

/// Publishes in a row without a write, after which all managed pages are shared with the planes: that they are cold is seen after
/// two epochs of 16 publishes at least, and windows of 2 MiB are then shared one by one.
const COOLING: usize = 64;

/// Whose memory is written, and what lies between two steps.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Memory that nobody tracks, copied by a `memcpy`
    Untracked,
    /// The same, of which a forked child has a copy
    Forked,
    /// The program's, published
    Tracked,
    /// The region's, published
    Managed,
    /// The same, shared with the planes because nothing was written for long
    ManagedCold,
}

/// What a process writes.
#[derive(clap::Args, Debug, Clone)]
pub struct Args {
    /// Whose memory it is
    #[arg(value_enum)]
    kind: Kind,
    /// Bytes of the array
    #[arg(value_parser = parse_bytes)]
    bytes: usize,
    /// The tracker, if there is one
    tracker: Option<TrackerKind>,
}

/// An array that is written, and what lies between two steps.
enum Subject {
    Untracked(Memcpy),
    Forked(Memory, Option<Forked>),
    Tracked(Region, Tracked<u8>, Memory),
    Managed(Region, Array<u8>),
}

impl Subject {
    fn create(args: &Args) -> Result<Subject> {
        let region = || {
            let options = Region::options().keep(1).threads(1);
            let options = args.tracker.iter().fold(options, |options, tracker| options.tracker(*tracker));
            let name = args.tracker.map_or("none", TrackerKind::name);
            options.create(&format!("{NAME}-{name}-{}", args.kind.name()))
        };
        Ok(match args.kind {
            Kind::Untracked => Subject::Untracked(Memcpy::new(args.bytes)),
            Kind::Forked => Subject::Forked(Memory::small(args.bytes), None),
            Kind::Tracked => {
                let mut region = region()?;
                let variable = region.track("data")?;
                Subject::Tracked(region, variable, Memory::small(args.bytes))
            }
            Kind::Managed | Kind::ManagedCold => {
                let mut region = region()?;
                let array = region.array("data", &[args.bytes])?;
                region.slice_mut(&array).fill(1);
                Subject::Managed(region, array)
            }
        })
    }

    fn memory(&mut self) -> &mut [u8] {
        match self {
            Subject::Untracked(memcpy) => &mut memcpy.source,
            Subject::Forked(memory, _) | Subject::Tracked(_, _, memory) => memory,
            Subject::Managed(region, array) => region.slice_mut(array),
        }
    }

    /// Makes a version of what the memory holds, or what stands for one.
    fn publish(&mut self, version: u64) -> Result<()> {
        match self {
            Subject::Untracked(memcpy) => {
                memcpy.seconds(memcpy.source.len());
            }
            Subject::Forked(_, child) => {
                // Two children at a time would leave no page that is the parent's alone.
                *child = None;
                *child = Some(Forked::start()?);
            }
            Subject::Tracked(region, variable, memory) => {
                let publication = region.publish(version).tracked(variable, memory, &[memory.len()]);
                publication.commit()?;
            }
            Subject::Managed(region, _) => drop(region.publish(version).commit()?),
        }
        Ok(())
    }

    fn end(self) -> Result<()> {
        match self {
            Subject::Untracked(_) | Subject::Forked(..) => Ok(()),
            Subject::Tracked(region, ..) | Subject::Managed(region, _) => Ok(region.unlink()?),
        }
    }
}

impl Kind {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().into())
    }

    /// Kinds that have a tracker, and can be made with this one.
    fn with(tracker: TrackerKind) -> &'static [Kind] {
        match tracker {
            // These two share pages with the planes that were not written for long. `private_cow` shares all at each publish.
            TrackerKind::WpAsync | TrackerKind::SoftDirty => &[Kind::Tracked, Kind::Managed, Kind::ManagedCold],
            _ => &[Kind::Tracked, Kind::Managed],
        }
    }
}

/// Plays a process that writes: answers each line with the number of page faults of the first writes, their ticks, and those of
/// writes to the same pages once more.
pub fn play(args: Args) -> Result<()> {
    let parent = Parent::listen();
    // The first processor is the one that serves most interrupts.
    let _pin = Pin::to(1);
    let mut subject = Subject::create(&args)?;
    let (mut version, mut step) = (0, 0);
    let mut first = Vec::with_capacity(args.bytes / PAGE_BYTES / STRIDE + 1);
    let mut again = first.clone();
    while let Some(line) = parent.hear() {
        let steps = if line == "settle" { SETTLING } else { 1 };
        let mut faults = 0;
        for _ in 0..steps {
            let publishes = if args.kind == Kind::ManagedCold { COOLING } else { 1 };
            for _ in 0..publishes {
                version += 1;
                subject.publish(version)?;
            }
            step += 1;
            let (pages, value) = ((step % STRIDE..args.bytes / PAGE_BYTES).step_by(STRIDE), step as u8);
            let memory = subject.memory();
            let before = host::faults();
            write_each(memory, pages.clone(), value, &mut first);
            faults = host::faults() - before;
            write_each(memory, pages, value.wrapping_add(1), &mut again);
        }
        let mut answer = faults.to_string();
        for ticks in first.iter().chain(&again) {
            // Writing to a string does not fail.
            let _ = write!(answer, " {ticks}");
        }
        parent.tell(answer)?;
    }
    subject.end()
}

/// Writes a byte of each of these pages, and notes the ticks of each write.
fn write_each(memory: &mut [u8], pages: impl Iterator<Item = usize>, value: u8, ticks: &mut Vec<u64>) {
    ticks.clear();
    for page in pages {
        let byte = black_box(&mut memory[page * PAGE_BYTES]);
        let begin = host::ticks();
        *black_box(byte) = value;
        let end = host::ticks();
        ticks.push(end - begin);
    }
}

/// A process that writes, and what it said.
struct Writer {
    kind: Kind,
    tracker: Option<TrackerKind>,
    child: Child,
    first: Vec<f64>,
    again: Vec<f64>,
    faults: u64,
}

impl Writer {
    fn start(setting: &Setting, kind: Kind, tracker: Option<TrackerKind>, bytes: usize) -> Result<Writer> {
        let (name, bytes) = (kind.name(), bytes.to_string());
        let mut words = vec![CHILD_COMMAND, "toucher", &name, &bytes];
        words.extend(tracker.map(TrackerKind::name));
        let mut child = Child::start(setting.root(), &words)?;
        child.ask("settle")?;
        Ok(Writer { kind, tracker, child, first: Vec::new(), again: Vec::new(), faults: 0 })
    }

    /// Has it publish and write.
    fn step(&mut self) -> Result<()> {
        self.child.tell("step")?;
        let numbers = self.child.hear_list()?;
        let (faults, ticks) = numbers.split_first().unwrap_or((&0, &[]));
        let (first, again) = ticks.split_at(ticks.len() / 2);
        self.faults += faults;
        self.first.extend(first.iter().map(|ticks| *ticks as f64));
        self.again.extend(again.iter().map(|ticks| *ticks as f64));
        Ok(())
    }

    /// What its writes are in numbers. The process is not needed any more.
    fn figures(self) -> Figures {
        let Writer { kind, tracker, mut first, mut again, faults, .. } = self;
        first.sort_by(f64::total_cmp);
        again.sort_by(f64::total_cmp);
        Figures { kind, tracker, first, again, faults }
    }
}

/// Ticks of all writes of one process, sorted.
struct Figures {
    kind: Kind,
    tracker: Option<TrackerKind>,
    first: Vec<f64>,
    again: Vec<f64>,
    faults: u64,
}

impl Figures {
    /// What half of the writes to pages that were written already do not exceed.
    fn again_p50(&self) -> f64 {
        quantile(&self.again, 0.5)
    }

    /// What a share of the first writes does not exceed, less the median of the same loop over written pages. That a first write
    /// took less means that it took no more.
    fn net(&self, share: f64) -> f64 {
        (quantile(&self.first, share) - self.again_p50()).max(0.0)
    }

    /// Percentage of first writes that took more than so many times their median, both with what the loop takes.
    fn slow_percent(&self) -> f64 {
        let limit = SLOW.0 * quantile(&self.first, 0.5);
        let slow = self.first.len() - self.first.partition_point(|ticks| *ticks <= limit);
        100.0 * slow as f64 / self.first.len().max(1) as f64
    }

    fn case(&self, measures: &str) -> Value {
        let mut case = json!({"measures": measures, "memory": self.kind.name()});
        if let Some(tracker) = self.tracker {
            case["tracker"] = tracker.name().into();
        }
        case
    }

    /// How the ticks are distributed: shares of the first writes, and what they do not exceed.
    fn distribution(&self) -> Value {
        let body = (0..100).map(|percent| f64::from(percent) / 100.0);
        let tail = [0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999, 1.0];
        body.chain(tail).map(|share| json!([share, self.net(share).round() as u64])).collect()
    }

    fn report(&self, report: &mut Report, forked: &Figures, unit: &'static str, ghz: f64) -> Result<()> {
        let raw = |values: &[f64]| {
            let of = |share| quantile(values, share);
            json!({"p50": of(0.5), "p90": of(0.9), "p99": of(0.99), "p99.9": of(0.999), "most": of(1.0)})
        };
        let detail = json!({
            "writes": self.first.len(), "faults_per_write": self.faults as f64 / self.first.len().max(1) as f64,
            "p50_ns": self.net(0.5) / ghz, "ratio_to_forked": self.net(0.5) / forked.net(0.5), "counter": host::COUNTER, "ghz": ghz,
            "first": raw(&self.first), "again": raw(&self.again), "distribution": self.distribution(),
        });
        let row = Row::new(NAME, self.case("p50 / paper"), self.net(0.5), unit, PAPER.0);
        report.add(row.with(detail))?;
        for (measures, share) in [("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)] {
            let case = self.case(&format!("{measures} / forked"));
            report.add(Row::new(NAME, case, self.net(share), unit, forked.net(share)))?;
        }
        let case = self.case(&format!("over {} x p50 / limit", SLOW.0));
        report.add(Row::new(NAME, case, self.slow_percent(), "%", SLOW.1))?;
        let case = self.case("p50 once more / forked");
        report.add(Row::new(NAME, case, self.again_p50(), unit, forked.again_p50()))
    }
}

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let bytes = (setting.repetitions(64, 16) * MIB).min(setting.region_bytes);
    let mut wanted = vec![(Kind::Untracked, None), (Kind::Forked, None)];
    for tracker in TRACKERS {
        match tracker.probe() {
            Ok(()) => wanted.extend(Kind::with(tracker).iter().map(|kind| (*kind, Some(tracker)))),
            Err(why) => eprintln!("{NAME}: {tracker} is left out: {why}"),
        }
    }
    let start = |(kind, tracker)| Writer::start(setting, kind, tracker, bytes);
    let mut writers = wanted.into_iter().map(start).collect::<Result<Vec<_>>>()?;
    for round in 0..setting.repetitions(100, 3) {
        for turn in 0..writers.len() {
            let count = writers.len();
            writers[(round + turn) % count].step()?;
        }
    }
    let ghz = ticks_per_ns();
    let unit = if host::COUNTER == "tsc" { "cycles" } else { "ticks" };
    report.add(Row::new(NAME, json!({"measures": "rate of the counter / paper"}), ghz, "GHz", PAPER.1))?;
    let figures: Vec<Figures> = writers.into_iter().map(Writer::figures).collect();
    let forked = figures.iter().find(|figures| figures.kind == Kind::Forked);
    let forked = forked.ok_or_else(|| Error::Wrong("no first write after a fork was timed".into()))?;
    figures.iter().try_for_each(|figures| figures.report(report, forked, unit, ghz))
}

/// How often the counter counts in a nanosecond.
fn ticks_per_ns() -> f64 {
    let (begin_ns, begin) = (host::monotonic_ns(), host::ticks());
    std::thread::sleep(Duration::from_millis(100));
    let (end, end_ns) = (host::ticks(), host::monotonic_ns());
    (end - begin) as f64 / (end_ns - begin_ns) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(first: Vec<f64>, again: Vec<f64>) -> Figures {
        Figures { kind: Kind::Forked, tracker: None, first, again, faults: 0 }
    }

    #[test]
    fn what_the_loop_takes_is_no_part_of_a_first_write_and_slow_ones_are_counted() {
        let mut first: Vec<f64> = vec![130.0; 996];
        first.extend([1300.0, 1301.0, 5000.0, 9000.0]);
        let found = figures(first, vec![30.0; 1000]);
        assert_eq!((found.net(0.5), found.net(0.999)), (100.0, 4970.0));
        assert!((found.slow_percent() - 0.3).abs() < 1e-9);
        assert_eq!(figures(vec![25.0; 10], vec![30.0; 10]).net(0.5), 0.0);
    }

    #[test]
    fn every_write_is_timed() {
        let mut memory = vec![0; 5 * PAGE_BYTES];
        let mut ticks = vec![7; 100];
        write_each(&mut memory, [1, 4].into_iter(), 9, &mut ticks);
        assert_eq!(ticks.len(), 2);
        let written = (0..5).map(|page| memory[page * PAGE_BYTES]);
        assert_eq!(written.collect::<Vec<_>>(), [0, 9, 0, 0, 9]);
    }
}
