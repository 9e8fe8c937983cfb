//! A producer that rewrites an array and an observer that sums it, composed in several ways.
//!
//! This is the microbenchmark of the TCASM paper (section 5.1, figure 8): the time until both are done, relative to a
//! producer that shares nothing. With the library the producer never waits for the observer, which then sums the newest
//! version there is; how many it has seen is reported. All others hand over every array.

use super::report::{Report, Row};
use super::{CHILD_COMMAND, Setting, measure};
use crate::trial::child::PATIENCE;
use crate::trial::host::queue::{Queue, SLOTS};
use crate::trial::{Child, Error, Parent, Result};
use bytemuck::{cast_slice, cast_slice_mut};
use clap::ValueEnum;
use measure::{MIB, Memcpy, median};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;
use stillframe::{Array, Loaned, Observer, Region, Tracked};

/// How the array reaches the observer.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// Not at all
    None,
    /// By a function call in the same process
    Function,
    /// In shared buffers guarded by semaphores
    Semaphore,
    /// In a file on a disk, guarded by semaphores
    File,
    /// As a loaned variable of a region
    Loaned,
    /// As a managed variable of a region
    Managed,
    /// As a tracked variable of a region
    Tracked,
}

const MEANS: [Means; 7] =
    [Means::None, Means::Function, Means::Semaphore, Means::File, Means::Loaned, Means::Managed, Means::Tracked];

/// What the summing process needs to know.
#[derive(clap::Args, Debug, Clone)]
pub struct Args {
    /// How the arrays come
    #[arg(value_enum)]
    means: Means,
    /// Numbers in an array
    elements: usize,
    /// The semaphores' file
    queue: PathBuf,
    /// The file on a disk
    file: PathBuf,
}

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let sizes: &[usize] = if setting.args.quick { &[1, 16] } else { &[1, 4, 16, 64, 256] };
    let disk = DiskFile::create(&setting.args.disk)?;
    for size in sizes {
        compose_size(setting, report, &disk, size * MIB)?;
    }
    Ok(())
}

fn compose_size(setting: &Setting, report: &mut Report, disk: &DiskFile, bytes: usize) -> Result<()> {
    let steps = (1024 * MIB / bytes / if setting.args.quick { 4 } else { 1 }).clamp(8, 256) as u64;
    let elements = bytes / size_of::<f64>();
    let mut pairs =
        MEANS.map(|means| Pair::start(setting, means, elements, disk)).into_iter().collect::<Result<Vec<_>>>()?;
    let mut memcpy = Memcpy::new(bytes);
    let mut copied = Vec::new();
    for round in 0..1 + setting.repetitions(7, 2) {
        for pair in &mut pairs {
            let elapsed = pair.run(steps)?;
            // The first round touches everything for the first time.
            if round > 0 {
                pair.times.push(elapsed);
            }
        }
        copied.push(memcpy.seconds(bytes) * steps as f64);
    }
    let copy_seconds = median(&mut copied);
    let alone = median(&mut pairs[0].times);
    for pair in pairs.iter_mut().skip(1) {
        let means = pair.means.to_possible_value().map(|value| value.get_name().to_string());
        let case = json!({"bytes": bytes, "steps": steps, "means": means});
        let detail = json!({"memcpy_s": copy_seconds, "seen": median(&mut pair.seen)});
        report.add(Row::new("compose", case, median(&mut pair.times), "s", alone).with(detail))?;
    }
    Ok(())
}

/// A producer in this process and, where there is one, its observer in another.
struct Pair {
    means: Means,
    elements: usize,
    producer: Producer,
    observer: Option<Child>,
    version: u64,
    times: Vec<f64>,
    seen: Vec<f64>,
}

enum Producer {
    Alone { numbers: Vec<f64> },
    Queue { queue: Queue },
    File { queue: Queue, file: File, numbers: Vec<f64> },
    Loaned { region: Region, array: Loaned<f64> },
    Managed { region: Region, array: Array<f64> },
    Tracked { region: Region, array: Tracked<f64>, numbers: Vec<f64> },
}

impl Pair {
    fn start(setting: &Setting, means: Means, elements: usize, disk: &DiskFile) -> Result<Pair> {
        let queue_path = setting.root().join(format!("queue-{means:?}-{elements}"));
        let region = || Region::options().dir(setting.root()).keep(2).create(&format!("{means:?}-{elements}"));
        let producer = match means {
            Means::None | Means::Function => Producer::Alone { numbers: vec![0.0; elements] },
            Means::Semaphore => Producer::Queue { queue: Queue::create(&queue_path, elements)? },
            Means::File => {
                let file = disk.open()?;
                Producer::File { queue: Queue::create(&queue_path, 1)?, file, numbers: vec![0.0; elements] }
            }
            Means::Loaned => {
                let mut region = region()?;
                Producer::Loaned { array: region.loaned("data", &[elements])?, region }
            }
            Means::Managed => {
                let mut region = region()?;
                Producer::Managed { array: region.array("data", &[elements])?, region }
            }
            Means::Tracked => {
                let mut region = region()?;
                Producer::Tracked { array: region.track("data")?, region, numbers: vec![0.0; elements] }
            }
        };
        let observer = match means {
            Means::None | Means::Function => None,
            _ => {
                let means = format!("{means:?}").to_lowercase();
                let (queue, disk) = (queue_path.to_string_lossy(), disk.0.to_string_lossy());
                let arguments = [CHILD_COMMAND, "summer", &means, &elements.to_string(), &queue, &disk];
                Some(Child::start(setting.root(), &arguments)?)
            }
        };
        Ok(Pair { means, elements, producer, observer, version: 0, times: Vec::new(), seen: Vec::new() })
    }

    /// Seconds until the producer has written `steps` arrays and the observer is done with the last one.
    fn run(&mut self, steps: u64) -> Result<f64> {
        if let Some(observer) = &mut self.observer {
            observer.tell(&format!("{} {}", self.version, steps))?;
            observer.hear()?;
        }
        let start = Instant::now();
        for _ in 0..steps {
            self.version += 1;
            self.step()?;
        }
        if let Some(observer) = &self.observer {
            let [seen, sum] = observer.hear_numbers()?;
            let expected = expected_sum(self.version, self.elements) as u64;
            if sum != expected {
                return Err(Error::Wrong(format!("the last array adds up to {sum} instead of {expected}")));
            }
            self.seen.push(seen as f64);
        }
        Ok(start.elapsed().as_secs_f64())
    }

    fn step(&mut self) -> Result<()> {
        let version = self.version;
        match &mut self.producer {
            Producer::Alone { numbers } => {
                rewrite(numbers, version);
                if self.means == Means::Function {
                    black_box(sum(numbers));
                }
            }
            Producer::Queue { queue } => queue.fill(|_, numbers| {
                rewrite(numbers, version);
                Ok(())
            })?,
            Producer::File { queue, file, numbers } => {
                rewrite(numbers, version);
                let bytes: &[u8] = cast_slice(numbers);
                queue.fill(|slot, _| {
                    file.write_all_at(bytes, (slot * bytes.len()) as u64).map_err(Error::system("write of the file"))
                })?;
            }
            Producer::Loaned { region, array } => {
                let mut loan = region.loan(array)?;
                rewrite(&mut loan, version);
                loan.submit();
                region.publish(version).commit()?;
            }
            Producer::Managed { region, array } => {
                rewrite(region.slice_mut(array), version);
                region.publish(version).commit()?;
            }
            Producer::Tracked { region, array, numbers } => {
                rewrite(numbers, version);
                region.publish(version).tracked(array, numbers, &[numbers.len()]).commit()?;
            }
        }
        Ok(())
    }
}

/// A file on a disk that goes with its owner.
struct DiskFile(PathBuf);

impl DiskFile {
    fn create(directory: &Path) -> Result<DiskFile> {
        let path = directory.join(format!("stillframe-bench-{}", std::process::id()));
        File::create(&path).map_err(Error::system(format!("create {}", path.display())))?;
        Ok(DiskFile(path))
    }

    fn open(&self) -> Result<File> {
        open_file(&self.0)
    }
}

impl Drop for DiskFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn open_file(path: &Path) -> Result<File> {
    OpenOptions::new().read(true).write(true).open(path).map_err(Error::system(format!("open {}", path.display())))
}

/// Gives every element a new value; out of line, so that all means run the same code.
#[inline(never)]
fn rewrite(numbers: &mut [f64], version: u64) {
    let base = version as f64;
    for (index, number) in numbers.iter_mut().enumerate() {
        *number = base + (index % 8) as f64;
    }
}

/// Adds up in eight lanes, which is as fast as memory delivers.
#[inline(never)]
fn sum(numbers: &[f64]) -> f64 {
    let (blocks, rest) = numbers.as_chunks::<8>();
    let mut lanes = [0.0; 8];
    for block in blocks {
        for (lane, number) in lanes.iter_mut().zip(block) {
            *lane += number;
        }
    }
    lanes.iter().sum::<f64>() + rest.iter().sum::<f64>()
}

/// What [`sum`] finds in an array after [`rewrite`]; whole numbers this small add up exactly.
fn expected_sum(version: u64, elements: usize) -> f64 {
    elements as f64 * version as f64 + elements as f64 / 8.0 * 28.0
}

/// Sums the arrays of as many steps as the parent says.
pub fn play(args: Args) -> Result<()> {
    let parent = Parent::listen();
    let mut source = Source::open(&args)?;
    while let Some(line) = parent.hear() {
        let numbers = crate::trial::child::parse_numbers(&line);
        let [first, steps] = numbers.ok_or_else(|| Error::Usage(format!("'{line}' is not two numbers")))?;
        parent.tell("ready")?;
        let (seen, sum) = source.sum_steps(first, steps)?;
        parent.tell(format_args!("{seen} {sum}"))?;
    }
    Ok(())
}

/// Where the observer gets its arrays.
enum Source {
    Queue(Queue),
    File { queue: Queue, file: File, numbers: Vec<f64> },
    Region { name: String, observer: Option<Observer> },
}

impl Source {
    fn open(args: &Args) -> Result<Source> {
        Ok(match args.means {
            Means::None | Means::Function => return Err(Error::Usage("these means have no observer".into())),
            Means::Semaphore => Source::Queue(Queue::open(&args.queue, args.elements)?),
            Means::File => Source::File {
                queue: Queue::open(&args.queue, 1)?,
                file: open_file(&args.file)?,
                numbers: vec![0.0; args.elements],
            },
            means => Source::Region { name: format!("{means:?}-{}", args.elements), observer: None },
        })
    }

    /// Sums what comes until step `first + steps`; gives the number of arrays seen and the last sum.
    fn sum_steps(&mut self, first: u64, steps: u64) -> Result<(u64, f64)> {
        let mut last = 0.0;
        match self {
            Source::Queue(queue) => {
                for _ in 0..steps {
                    queue.drain(|_, numbers| {
                        last = sum(numbers);
                        Ok(())
                    })?;
                }
                Ok((steps, last))
            }
            Source::File { queue, file, numbers } => {
                for _ in 0..steps {
                    queue.drain(|slot, _| {
                        let bytes: &mut [u8] = cast_slice_mut(numbers);
                        let offset = (slot * bytes.len()) as u64;
                        file.read_exact_at(bytes, offset).map_err(Error::system("read of the file"))
                    })?;
                    last = sum(numbers);
                }
                Ok((steps, last))
            }
            Source::Region { name, observer } => {
                let observer = match observer {
                    Some(observer) => observer,
                    None => observer.insert(Observer::options().wait(PATIENCE).open(name)?),
                };
                sum_versions(observer, first, first + steps)
            }
        }
    }
}

fn sum_versions(observer: &Observer, first: u64, end: u64) -> Result<(u64, f64)> {
    let (mut seen, mut version, mut last) = (0, first, 0.0);
    while version < end {
        let snapshot = observer.newest_after(Some(version), Some(PATIENCE))?;
        last = 0.0;
        for chunk in snapshot.chunks("data")? {
            last += sum(cast_slice(chunk.bytes));
        }
        version = snapshot.version();
        seen += 1;
    }
    Ok((seen, last))
}

const _: () = assert!(SLOTS >= 2, "the rivals may write one array while the other is read");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_a_rewritten_array_is_the_expected_one() {
        let mut numbers = vec![0.0; 4096];
        for version in [1, 77] {
            rewrite(&mut numbers, version);
            assert_eq!(sum(&numbers), expected_sum(version, numbers.len()));
        }
    }
}
