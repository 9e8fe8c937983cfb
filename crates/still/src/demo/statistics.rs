//! The observer that computes statistics of every version, and checks that it reads what was published.

use super::progress::Sight;
use super::reaction::checksum;
use super::simulation::{CHECKSUM, FINAL, ITERATION, REGION};
use super::viewer::private_memory_bytes;
use crate::trial::child::PATIENCE;
use crate::trial::{Error, Parent, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use stillframe::{Observer, Scalar, Snapshot};

const BINS: usize = 32;
/// Concentration at the upper end of the histogram.
const TOP: f32 = 0.5;
/// Time between two reports to the parent.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// What is known of the numbers of an array.
#[derive(Default)]
struct Statistics {
    count: u64,
    sum: f64,
    squares: f64,
    most: f32,
    bins: [u64; BINS],
    checksum: u64,
}

impl Statistics {
    fn add(&mut self, numbers: &[f32]) {
        self.checksum = self.checksum.wrapping_add(checksum(numbers));
        self.count += numbers.len() as u64;
        for &number in numbers {
            self.sum += f64::from(number);
            self.squares += f64::from(number) * f64::from(number);
            self.most = self.most.max(number);
            let bin = (number / TOP * BINS as f32) as usize;
            self.bins[bin.min(BINS - 1)] += 1;
        }
    }

    fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }

    fn deviation(&self) -> f64 {
        (self.squares / self.count as f64 - self.mean().powi(2)).max(0.0).sqrt()
    }
}

/// Goes through all versions and writes a line for each into `statistics.csv`.
pub fn play(out: &Path) -> Result<()> {
    let parent = Parent::listen();
    let path = out.join("statistics.csv");
    let failed = |source| Error::System { call: format!("write {}", path.display()), source };
    let mut table = BufWriter::new(File::create(&path).map_err(failed)?);
    write_head(&mut table).map_err(failed)?;
    let observer = Observer::options().wait(PATIENCE).open(REGION)?;
    let mut sight = Sight::default();
    let mut last = None;
    let mut reported = Instant::now();
    loop {
        let snapshot = observer.next_after(last, Some(PATIENCE))?;
        let statistics = collect(&snapshot, "v")?;
        let published = snapshot.attributes().get(CHECKSUM);
        let read = checksum_of(&snapshot, "u")?.wrapping_add(statistics.checksum.rotate_left(32));
        sight.seen += 1;
        sight.torn += u64::from(published != Some(&Scalar::Int(read as i64)));
        write_line(&mut table, &snapshot, &statistics).map_err(failed)?;
        last = Some(snapshot.version());
        let finished = snapshot.attributes().get(FINAL) == Some(&Scalar::Bool(true));
        if finished || reported.elapsed() > REPORT_INTERVAL {
            parent.tell(format_args!("{} {} {}", sight.seen, sight.torn, private_memory_bytes()))?;
            reported = Instant::now();
        }
        if finished {
            table.flush().map_err(failed)?;
            return parent.tell("done");
        }
    }
}

/// Reads an array piece by piece, where it lies.
fn collect(snapshot: &Snapshot, name: &str) -> Result<Statistics> {
    let mut statistics = Statistics::default();
    for chunk in snapshot.chunks(name)? {
        statistics.add(bytemuck::cast_slice(chunk.bytes));
    }
    Ok(statistics)
}

fn checksum_of(snapshot: &Snapshot, name: &str) -> Result<u64> {
    let chunks = snapshot.chunks(name)?;
    Ok(chunks.fold(0, |sum, chunk| sum.wrapping_add(checksum(bytemuck::cast_slice(chunk.bytes)))))
}

fn write_head(table: &mut impl Write) -> std::io::Result<()> {
    write!(table, "version,iteration,mean,deviation,highest")?;
    for bin in 0..BINS {
        write!(table, ",from_{:.4}", TOP * bin as f32 / BINS as f32)?;
    }
    writeln!(table)
}

fn write_line(table: &mut impl Write, snapshot: &Snapshot, statistics: &Statistics) -> std::io::Result<()> {
    let iteration = snapshot.attributes().get(ITERATION).map_or(String::new(), Scalar::to_string);
    let (mean, deviation) = (statistics.mean(), statistics.deviation());
    write!(table, "{},{iteration},{mean:.6e},{deviation:.6e},{:.6}", snapshot.version(), statistics.most)?;
    for bin in statistics.bins {
        write!(table, ",{bin}")?;
    }
    writeln!(table)
}
